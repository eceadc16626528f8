//! Each pipeline's bindings, parameters, threads and workgroup memory are those of its WGSL.

use std::{collections::BTreeSet, panic::catch_unwind};

use wgpu::naga::{
    self, AddressSpace, Module, ShaderStage, StorageAccess, TypeInner, front,
    valid::{Capabilities, ModuleInfo, ValidationFlags, Validator},
};

use super::*;
use crate::{
    cost::{
        DeviceModel,
        batch::BatchShape,
        chase::{ChaseShape, TeamShape},
        cholesky::BLOCK,
        fixed::FixedShape,
        jacobi::JacobiShape,
        one_stage::{LANES, LARFT_THREADS, larft_bytes, multiply_line_bytes, update_line_bytes},
        recursive::CoopShape,
        shape::{Bounds, Shape, TriangleShape},
        vectors::ApplyShape,
        work::BISECT_THREADS,
    },
    gpu::{device::pipeline::grammar::mixed_operators, kernels::bisection::bisection_pipelines},
    tile::{
        band_layout::BandLayout,
        chase_schedule::ReductionStep,
        tuning::{GpuTuning, Tuning},
    },
};

/// A pipeline of the crate, with what Rust assumes about it.
struct Made {
    shader: &'static Shader,
    constants: Vec<(&'static str, u32)>,
    /// The numbers of a dense matrix's buffers to test; 0: the shader binds none.
    counts: &'static [usize],
    /// Threads of a workgroup, and bytes of its workgroup memory.
    threads: usize,
    bytes: usize,
}

/// All shaders and variants, as compiled for matrices stored as `S`.
fn all(kind: ElementKind, bounds: &Bounds<'_>, tuning: &Tuning) -> Vec<Made> {
    let shape = Shape::new(kind, bounds, tuning).unwrap();
    let layout = BandLayout::new(1000, tuning.tile_size, tuning.tile_width);
    let chase = ChaseShape::new(kind, bounds, layout, tuning).unwrap();
    let triangle = TriangleShape::new(kind.scalar(), bounds, tuning).unwrap();
    let width = tuning.tile_width.min(tuning.tile_size - 1);
    let [apply, apply_few] = [1000, 100].map(|cols| ApplyShape::of(kind, width, cols));
    let batch = BatchShape::largest(kind, bounds).unwrap();
    let spilled = BatchShape::of(Some(batch), bounds, (150, 130)).unwrap();
    let jacobi = JacobiShape::largest(kind, bounds).unwrap();
    let large = JacobiShape::of(kind, Some(jacobi), bounds, (150, 130)).unwrap();
    let [(square, square_constants, _), (bisect, bisect_constants, _)] = bisection_pipelines();

    let made =
        |shader, constants: &[_], threads, bytes| Made { shader, constants: constants.into(), counts: &[0], threads, bytes };
    let dense = |made| Made { counts: &[1, 2, 5], ..made };
    let linear = |shader| made(shader, &[], LINEAR_THREADS as usize, 0);
    let triangular = |shader| made(shader, &triangle.constants(), triangle.base * triangle.groups, triangle.bytes(kind));
    let (unmqr, gemm) = (shape.unmqr_constants(), shape.products.constants());
    let (of_unmqr, unmqr_bytes) = (shape.unmqr_threads(), shape.unmqr_bytes(kind));
    let (products, product_bytes) = (shape.products.threads(), shape.products.bytes(kind));
    let (panels, of_panels, panel_bytes) = (shape.panels.constants(), shape.panels.threads(), shape.panels.bytes(kind));
    let mut all = vec![
        dense(made(&GEQRT, &shape.geqrt_constants(), shape.geqrt_threads(), shape.geqrt_bytes(kind))),
        dense(made(&UNMQR, &unmqr, of_unmqr, unmqr_bytes)),
        dense(made(&UNMQR_IN_VECTORS, &unmqr, of_unmqr, unmqr_bytes)),
        dense(made(&GEQRT_KEPT, &shape.geqrt_constants(), shape.geqrt_threads(), shape.geqrt_bytes(kind))),
        dense(made(&GATHER_REFLECTORS, &[("TS", shape.ts as u32)], LINEAR_THREADS as usize, 0)),
        dense(made(&UPDATE_LINE, &shape.line_constants(), LINEAR_THREADS as usize, update_line_bytes(kind, &shape))),
        dense(made(&MULTIPLY_LINE, &shape.line_constants(), LANES * LANES, multiply_line_bytes(kind))),
        dense(made(&UPDATE_TRAILING, &shape.trailing_constants(), products, product_bytes)),
        dense(made(&SUBTRACT_DEFERRED, &panels, of_panels, panel_bytes)),
        dense(made(&MULTIPLY_PANEL, &panels, of_panels, panel_bytes)),
        dense(linear(&ADD_PARTS)),
        dense(made(&JOIN_REFLECTORS, &shape.join_constants(), shape.geqrt_threads(), shape.join_bytes(kind))),
        dense(made(&JOIN_REFLECTORS_KEPT, &shape.join_constants(), shape.geqrt_threads(), shape.join_bytes(kind))),
        dense(made(&SPREAD_REFLECTORS, &shape.spread_constants(), LINEAR_THREADS as usize, 0)),
        dense(made(&LARFT, &shape.larft_constants(), LARFT_THREADS, larft_bytes(kind, &shape))),
        dense(made(&APPLY_CHASE, &apply.constants(), LINEAR_THREADS as usize, apply.bytes(kind))),
        dense(made(&APPLY_CHASE, &apply_few.constants(), LINEAR_THREADS as usize, apply_few.bytes(kind))),
        made(&CHASE_KEPT, &chase.constants(), chase.threads(), chase.bytes(kind)),
        dense(linear(&PACK_BAND)),
        linear(&UNPACK_BAND),
        linear(&REPACK_BAND),
        made(&CHASE, &chase.constants(), chase.threads(), chase.bytes(kind)),
        made(square, &square_constants, LINEAR_THREADS as usize, LINEAR_THREADS as usize * kind.real_bytes()),
        made(bisect, &bisect_constants, BISECT_THREADS as usize, 0),
        made(&BATCH, &batch.constants(), batch.threads, batch.bytes(kind)),
        made(&BATCH_SPILLED, &spilled.constants(), spilled.threads, spilled.bytes(kind)),
        made(&JACOBI, &jacobi.constants(), jacobi.threads, jacobi.bytes(kind)),
        made(&JACOBI_SPILLED, &large.constants(), large.threads, large.bytes(kind)),
        made(&GEMM, &gemm, products, product_bytes),
        made(&GEMM_BATCH, &gemm, products, product_bytes),
        made(&GEMM_BATCH_MIXED, &gemm, products, product_bytes),
        linear(&GATHER_COLUMNS),
        linear(&ROTATE_COLUMNS),
        linear(&SECULAR_VECTORS),
        linear(&TAKE_COLUMNS),
        linear(&GRAM_FACTOR),
        made(&CHOLESKY, &[("BLOCK", BLOCK as u32)], LINEAR_THREADS as usize, BLOCK * BLOCK * kind.scalar_bytes()),
        made(&UNIT_COLUMNS, &[], LINEAR_THREADS as usize, LINEAR_THREADS as usize * 2 * kind.real_bytes()),
        linear(&IDENTITY_COLUMNS),
        linear(&COPY_WINDOW),
        triangular(&TRMM),
        triangular(&TRSM),
        linear(&DIAGONAL),
        linear(&LARGEST),
        linear(&FUSED),
        linear(&SCALE),
    ];
    let beside = |split| Shape::new(kind, bounds, &tuning.clone().split_beside(split)).ok()?.beside(kind);
    if let Some(beside) = [4, 2, 1].into_iter().find_map(beside) {
        assert_eq!(beside.unmqr_threads(), beside.geqrt_threads());
        let (threads, bytes) = (beside.unmqr_threads(), beside.beside_bytes(kind));
        for shader in [&UNMQR_AND_GEQRT, &UNMQR_AND_GEQRT_KEPT] {
            all.push(Made { counts: &[1], ..made(shader, &beside.beside_constants(), threads, bytes) });
        }
    }
    let with_levels = Shape::of(&tuning.clone().deferred_beside(1));
    if let Some(of) = with_levels.beside_levels(kind) {
        let (threads, bytes) = (of.threads(), with_levels.levels_bytes(kind, &of));
        assert_eq!(threads, shape.geqrt_threads());
        all.push(dense(made(&GEQRT_AND_SUBTRACT, &with_levels.levels_constants(&of), threads, bytes)));
    }
    for (width, lines, team, subgroup) in [(4, 1, 3, 0), (8, 2, 1, 0), (8, 2, 2, 8)] {
        all.extend(of_chase_team(kind, &tuning.clone().subgroup_threads(subgroup), width, lines, team));
    }
    // Products by low precision are of f32 matrices.
    if kind == ElementKind::F32 {
        all.push(made(&GEMM_BATCH_BF16, &gemm, products, product_bytes));
        all.push(made(&SLICE_LINES, &[], LINEAR_THREADS as usize, LINEAR_THREADS as usize * size_of::<f32>()));
        for (products, order) in [(Products::Half, 8), (Products::Half, 16), (Products::Split, 8), (Products::Split, 16)] {
            let shape = CoopShape::of(order, 2 * order, products);
            all.push(made(COOP_GEMM.of(products, order), &shape.constants(), shape.threads, shape.bytes()));
        }
        for count in [1, 2] {
            all.push(made(&MULTIPLY_FIXED, &FixedShape::of(count).constants(), FixedShape::THREADS, FixedShape::BYTES));
        }
    }
    all
}

/// `chase_team` for a band of this width, which is unrolled into long text.
fn of_chase_team(kind: ElementKind, tuning: &Tuning, width: usize, lines: usize, team: usize) -> [Made; 2] {
    let step = ReductionStep { n: 1000, bandwidth: width, tile_width: width - 1 };
    let tuning = tuning.clone().lines_per_thread(lines).sweeps_per_block(team);
    let shape = TeamShape::of(BandLayout::new(1000, width, width), &step, &tuning).unwrap();
    let (threads, bytes) = (shape.threads(), shape.bytes(kind));
    [false, true].map(|kept| Made {
        shader: chase_team(shape.shares(kind), kept),
        constants: shape.constants().into(),
        counts: &[0],
        threads,
        bytes,
    })
}

/// The `enable` directives that a shader has of its own.
fn enabled(source: &str) -> usize {
    source.lines().filter(|line| line.starts_with("enable ")).count()
}

/// WebGPU's default limits.
const BOUNDS: Bounds<'_> = Bounds {
    name: "WebGPU",
    threads: 256,
    bytes: 16 << 10,
    workgroups: 65535,
    software: false,
    fast_memory: false,
    subgroup: 32,
};

/// Parses the WGSL and validates it with no more capabilities than the device `has` and `S` needs.
fn parse(kind: ElementKind, source: &str, has: Has) -> (Module, ModuleInfo) {
    let module = front::wgsl::parse_str(source).unwrap_or_else(|e| panic!("{}", e.emit_to_string(source)));
    let mut capabilities = Capabilities::empty();
    capabilities.set(Capabilities::IMMEDIATES, has.immediates);
    capabilities.set(Capabilities::MEMORY_DECORATION_COHERENT, has.coherent);
    capabilities.set(Capabilities::FLOAT64, kind.is_double());
    capabilities.set(Capabilities::SUBGROUP, source.contains("subgroup"));
    capabilities.set(Capabilities::SHADER_FLOAT16, source.contains("enable f16;"));
    capabilities.set(Capabilities::COOPERATIVE_MATRIX, source.contains("enable wgpu_cooperative_matrix;"));
    let info = Validator::new(ValidationFlags::all(), capabilities).validate(&module);
    let info = info.unwrap_or_else(|e| panic!("{}", e.emit_to_string(source)));
    (module, info)
}

macro_rules! for_all_types {
    ($function:ident) => {
        $function(ElementKind::F16);
        $function(ElementKind::F32);
        $function(ElementKind::F64);
        $function(ElementKind::C32);
        $function(ElementKind::C64);
    };
}

/// Every shader resolves to valid WGSL with one entry point: for every storage type, both ways of passing parameters, and for matrices in one buffer or several.
#[test]
fn sources_resolve() {
    fn resolve(kind: ElementKind) {
        for Made { shader, constants: values, .. } in all(kind, &BOUNDS, &Tuning::within(kind, &BOUNDS, 1000)) {
            for (immediates, coherent, count) in [(false, false, 1), (true, false, 1), (true, true, 3)] {
                let has = Has { immediates, coherent, fused: immediates };
                let source = wgsl(kind, shader, count, &constants(kind.real(), &values), has).unwrap();
                let exchanges = [CHASE.name, chase_team(false, false).name].contains(&shader.name)
                    || [BATCH_SPILLED.variant, UNMQR_AND_GEQRT_KEPT.variant].contains(&shader.variant);
                assert_eq!(source.matches("@compute").count(), 1, "{source}");
                assert_eq!(source.contains("var<immediate>"), immediates);
                assert_eq!(source.contains("@coherent"), has.coherent && exchanges, "{source}");
                assert_eq!(source.contains("f64"), kind.is_double(), "{source}");
                let own = enabled(shader.source);
                assert_eq!(source.starts_with("enable f16;"), kind.is_half() || own > 0, "{source}");
                assert_eq!(source.matches("enable").count(), usize::from(kind.is_half()) + own, "{source}");
                let (module, _) = parse(kind, &source, has);
                assert_eq!(module.entry_points.len(), 1);
                assert_eq!(mixed_operators(&source), None, "{}: parentheses", shader.name);
            }
        }
    }
    for_all_types!(resolve);
}

/// Checks that the WGSL of a pipeline has the entry point, threads, workgroup memory, bindings and parameters that Rust assumes.
fn check(kind: ElementKind, made: &Made, count: usize, has: Has) {
    let Made { shader, threads, bytes, .. } = *made;
    let what = format!("{} {:?} for {} in {count} buffers, {has:?}", shader.name, shader.variant, kind.name());
    let source = wgsl(kind, shader, count, &constants(kind.real(), &made.constants), has).unwrap();
    let (module, info) = parse(kind, &source, has);

    let [entry] = &module.entry_points[..] else { panic!("{what}: {} entry points", module.entry_points.len()) };
    assert_eq!((&*entry.name, entry.stage), (shader.name, ShaderStage::Compute), "{what}");
    assert_eq!(entry.workgroup_size, [threads as u32, 1, 1], "{what}: threads");

    let (mut workgroup_bytes, mut bindings, mut parameters) = (0, Vec::new(), None);
    for (handle, variable) in module.global_variables.iter() {
        let mut bind = |ty| bindings.extend(variable.binding.map(|at| (at.group, at.binding, ty)));
        match variable.space {
            AddressSpace::Private => continue,
            AddressSpace::WorkGroup => workgroup_bytes += module.types[variable.ty].inner.size(module.to_ctx()) as usize,
            AddressSpace::Storage { access } => {
                bind(BufferBindingType::Storage { read_only: !access.contains(StorageAccess::STORE) });
            }
            AddressSpace::Uniform if !has.immediates => {
                bind(BufferBindingType::Uniform);
                assert!(parameters.replace(variable).is_none(), "{what}: two uniform buffers");
            }
            AddressSpace::Immediate if has.immediates => parameters = Some(variable),
            _ => panic!("{what}: {variable:?}"),
        }
        assert!(!info.get_entry_point(0)[handle].is_empty(), "{what}: {variable:?} is not used");
    }

    // `TriangleShape` counts the bytes of `trmm`; `trsm` needs fewer.
    assert!(workgroup_bytes <= bytes, "{what}: {workgroup_bytes} bytes of workgroup memory, not {bytes}");
    if shader.name != TRSM.name {
        assert_eq!(workgroup_bytes, bytes, "{what}: bytes of workgroup memory");
    }

    let mut expected = shader.layout_entries(count as u32, has.immediates);
    expected.sort_by_key(|entry| entry.binding);
    bindings.sort_by_key(|&(_, binding, _)| binding);
    let expected = expected.iter().map(|entry| match entry.ty {
        BindingType::Buffer { ty, .. } => (0, entry.binding, ty),
        other => panic!("{what}: {other:?}"),
    });
    assert_eq!(bindings, expected.collect::<Vec<_>>(), "{what}: bindings");

    let Some(TypeInner::Struct { members, span }) = parameters.map(|variable| &module.types[variable.ty].inner) else {
        panic!("{what}: its parameters are no struct")
    };
    let members = members.iter().map(|member| {
        assert_eq!(module.types[member.ty].inner, TypeInner::Scalar(naga::Scalar::U32), "{what}: {member:?}");
        (member.name.as_deref().unwrap_or_default(), member.offset)
    });
    let fields = shader.parameters.iter().copied().zip((0..).step_by(size_of::<u32>()));
    assert_eq!(members.collect::<Vec<_>>(), fields.collect::<Vec<_>>(), "{what}: parameters");
    assert_eq!(*span, shader.parameter_bytes(), "{what}: bytes of parameters");
}

/// Rust and WGSL agree on every pipeline: for all shaders and variants, storage types, ways of passing parameters and numbers of
/// buffers; for sizes of small and large devices and matrices, and odd hyperparameters.
#[test]
fn rust_and_wgsl_agree() {
    fn agree(kind: ElementKind) {
        let large = Bounds { name: "a large device", threads: 1024, bytes: 48 << 10, ..BOUNDS };
        let odd = Tuning::within(kind, &BOUNDS, 1000).tile_size(13).leaf(50).split_k(3).split_beside(0).cols_per_block(20);
        let odd = odd.tile_width(5).threads_per_block(24).triangle(6);
        let sizes = [(&BOUNDS, odd)].into_iter();
        let sizes = sizes.chain([10, 1000, 20000].map(|n| (&BOUNDS, Tuning::within(kind, &BOUNDS, n))));
        let sizes = sizes.chain([1000, 20000].map(|n| (&large, Tuning::within(kind, &large, n))));
        for (k, (bounds, tuning)) in sizes.enumerate() {
            for made in all(kind, bounds, &tuning) {
                check(kind, &made, made.counts[0], Has { immediates: true, coherent: true, fused: true });
                // The sizes do not depend on these properties, which are therefore varied only once.
                for &count in made.counts.iter().filter(|_| k == 0) {
                    for (immediates, coherent) in [(false, false), (false, true), (true, false), (true, true)] {
                        check(kind, &made, count, Has { immediates, coherent, fused: coherent });
                    }
                }
            }
        }
    }
    for_all_types!(agree);
}

/// Writes the WGSL of all pipelines, with the defaults for an H100 and n = 4096, to the directory `SVDVALS_GPU_WGSL`, for
/// `benches/registers.py`; and to `browsers` in it what browsers can be given of it, whose compilers refuse more (`examples/web/test.mjs`).
#[test]
#[ignore = "writes files"]
fn write_sources() {
    fn write(kind: ElementKind) {
        let directory = std::env::var("SVDVALS_GPU_WGSL").unwrap();
        let bounds = Bounds::of_model(&DeviceModel::H100);
        let tuning = Tuning::within(kind, &bounds, 4096);
        let GpuTuning { lines_per_thread, sweeps_per_block, .. } = tuning.gpu;
        let team = [0, tuning.gpu.subgroup_threads].map(|subgroup| {
            of_chase_team(kind, &tuning.clone().subgroup_threads(subgroup), tuning.tile_size, lines_per_thread, sweeps_per_block)
        });
        let all = all(kind, &bounds, &tuning).into_iter().chain(team.into_iter().flatten());
        std::fs::create_dir_all(format!("{directory}/browsers")).unwrap();
        // CUDA has no text of cooperative matrices.
        for Made { shader, constants: values, counts, .. } in all.filter(|made| made.shader.name != "coop_gemm") {
            let written = |immediates| {
                let has = Has { immediates, coherent: false, fused: true };
                wgsl(kind, shader, counts[0], &constants(kind.real(), &values), has).unwrap()
            };
            let variant = shader.variant.map_or(String::new(), |variant| format!("-{variant}"));
            let name = format!("{}{variant}.{}.wgsl", shader.name, kind.name());
            std::fs::write(format!("{directory}/{name}"), written(true)).unwrap();
            let for_browsers = written(false);
            if !kind.is_double() && enabled(&for_browsers) == 0 && !for_browsers.contains("subgroupMax") {
                std::fs::write(format!("{directory}/browsers/{name}"), for_browsers).unwrap();
            }
        }
    }
    for_all_types!(write);
}

/// [`check`] detects a shader that disagrees with Rust.
#[test]
fn disagreements_are_found() {
    for (name, these, others, found) in [
        ("diagonal", "fn diagonal(", "fn diagonals(", "diagonals"),
        ("bisect", "@workgroup_size(BISECT_THREADS)", "@workgroup_size(32)", ": threads"),
        ("larft", "array<Scalar, LARFT_ROWS * TS>", "array<Scalar, LARFT_ROWS * TS + 1>", "bytes of workgroup memory"),
        ("trsm", "array<Scalar4, 2 * GROUPS>", "array<Scalar4, BASE * GROUPS + 1>", "bytes of workgroup memory"),
        ("chase", "alphas: array<Scalar, 2 * TEAM>", "alphas: array<Scalar, 3 * TEAM>", "bytes of workgroup memory"),
        ("largest", "@binding(1)", "@binding(4)", ": bindings"),
        ("scale", "@group(0) @binding(3)", "@group(1) @binding(3)", ": bindings"),
        ("unpack_band", "var<storage, read_write> band", "var<storage> band", ": bindings"),
        ("repack_band", "@group(0) @binding(0)", "@group(0) @binding(5) var<storage> more: array<u32>;\n$0", "not used"),
        ("scale", "from_ld: u32,\n    ld: u32,", "ld: u32,\n    from_ld: u32,", ": parameters"),
        ("pack_band", "    lines: u32,", "    lines: u32,\n    more: u32,", ": parameters"),
        ("unit_columns", "    x: u32,", "    @align(16) x: u32,", "bytes of parameters"),
        ("diagonal", "    stride: u32,", "    stride: i32,", "stride"),
    ] {
        let of_shader = |made: &Made| made.shader.name == name;
        let made =
            all(ElementKind::F32, &BOUNDS, &Tuning::within(ElementKind::F32, &BOUNDS, 1000)).into_iter().find(of_shader).unwrap();
        assert!(made.shader.source.contains(these), "{name}: {these}");
        let source = made
            .shader
            .source
            .replacen(these, &others.replace("$0", these), 1)
            .replace("* params.stride", "* u32(params.stride)");
        let shader = Box::leak(Box::new(Shader { source: source.leak(), ..*made.shader }));
        let (made, has) = (Made { shader, ..made }, Has { immediates: false, coherent: false, fused: false });
        let panic = catch_unwind(|| check(ElementKind::F32, &made, made.counts[0], has)).unwrap_err();
        let message = panic.downcast_ref::<String>().unwrap();
        assert!(message.contains(found), "{name}, {others}: {message}");
    }
}

/// The tests above cover every shader file.
#[test]
fn all_shaders_are_tested() {
    let names = |directory: &str| -> BTreeSet<String> {
        let files = std::fs::read_dir(format!("{}/shaders{directory}", env!("CARGO_MANIFEST_DIR"))).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.filter_map(|name| name.strip_suffix(".wgsl").map(str::to_owned)).collect()
    };
    let tested = all(ElementKind::F32, &BOUNDS, &Tuning::within(ElementKind::F32, &BOUNDS, 1000));
    assert_eq!(names(""), tested.iter().map(|made| made.shader.name.to_owned()).collect());
    assert_eq!(names("/shared"), MODULES.iter().map(|(name, _)| (*name).to_owned()).collect());
}

/// A function's variables have initial values. (Chromium 156 on SwiftShader clears an array without one once a call, not in every pass of a loop.
/// No browser has cooperative matrices, and those have no such values.)
#[test]
fn variables_have_initial_values() {
    let shaders = all(ElementKind::F32, &BOUNDS, &Tuning::within(ElementKind::F32, &BOUNDS, 1000));
    for (name, source) in shaders.iter().map(|made| (made.shader.name, made.shader.source)).chain(MODULES) {
        for line in source.lines().filter(|line| line.trim_start().starts_with("var ")) {
            assert!(line.contains('=') || name == "coop_gemm", "{name}: {line}");
        }
    }
}

/// Names in import lists are declared in the module and used by the importer. (The preprocessor ignores these lists.)
#[test]
fn imports_are_declared_and_used() {
    const DECLARE: [&str; 9] = ["fn", "struct", "alias", "const", "workgroup", "private", "read_write", "immediate", "uniform"];
    let words = |source: &str| -> Vec<String> {
        let code = source.lines().flat_map(|line| line.split("//").next());
        code.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()))
            .map(str::to_owned)
            .collect()
    };
    let shaders = all(ElementKind::F32, &BOUNDS, &Tuning::within(ElementKind::F32, &BOUNDS, 1000));
    let dense = dense(0, 2, "Stored");
    let modules: Vec<_> = MODULES.into_iter().chain([("dense", &*dense)]).collect();
    for (importer, source) in shaders.iter().map(|made| (made.shader.name, made.shader.source)).chain(modules.clone()) {
        let all = words(source);
        for import in source.split("import package::").skip(1) {
            let (module, rest) = import.split_once("::{").unwrap();
            let declared = modules.iter().find(|(name, _)| *name == module).map(|(_, source)| words(source));
            for name in words(rest.split_once('}').unwrap().0) {
                assert!(all.iter().filter(|word| **word == name).count() > 1, "{importer} does not use {module}::{name}");
                // `tuning` is generated with the constants of each shader, so its names are not checked.
                let Some(declared) = &declared else { continue };
                let found = declared.windows(2).any(|pair| DECLARE.contains(&&*pair[0]) && pair[1] == name);
                assert!(found, "{importer} imports {module}::{name}, which is not there");
            }
        }
    }
}
