//! Shader sources, the constants written into them, and the pipelines compiled from both.

use std::{
    fmt::Write,
    sync::{Mutex, MutexGuard, PoisonError},
};

use web_time::Instant;
use wgpu::{
    BindGroup, BindGroupDescriptor, BindGroupEntry, BindGroupLayoutDescriptor, BindGroupLayoutEntry, BindingType, BufferBinding,
    BufferBindingType, BufferSize, ComputePipelineDescriptor, Features, PipelineCompilationOptions, PipelineLayoutDescriptor,
    ShaderModuleDescriptor, ShaderRuntimeChecks, ShaderSource, ShaderStages,
};

use crate::{
    base::{
        element_kind::ElementKind,
        error::{Result, SvdError},
        number::RealElement,
        parallel::beside,
    },
    cost::work::LINEAR_THREADS,
    gpu::device::{
        context::GpuContext,
        parameters::{self, Parameters},
        pool::Buffer,
        stream::WORDS,
        template::assemble,
    },
    tile::products::Products,
};

pub(crate) use crate::gpu::device::pipeline_cache::Pipeline;

/// A shader. Its entry point has the file's name. It binds `buffers` storage buffers, then its `parameters` if there are no immediates,
/// then the buffers of `package::dense` if it imports that.
pub(crate) struct Shader {
    pub name: &'static str,
    source: &'static str,
    pub buffers: u32,
    /// The first of them that are only read.
    read_only: u32,
    /// Names of its parameters, each a u32.
    parameters: &'static [&'static str],
    /// The condition that its source is assembled under.
    variant: Option<&'static str>,
}

impl Shader {
    /// Identifies the shader among all others.
    pub fn name_and_variant(&self) -> (&'static str, Option<&'static str>) {
        (self.name, self.variant)
    }

    fn parameter_bytes(&self) -> u32 {
        4 * self.parameters.len() as u32
    }

    /// Its bindings, including a dense matrix in `count` buffers.
    fn layout_entries(&self, count: u32, immediates: bool) -> Vec<BindGroupLayoutEntry> {
        let storage = |binding: u32| BufferBindingType::Storage { read_only: binding < self.read_only };
        let entry = |binding: u32, ty: BufferBindingType, has_dynamic_offset: bool| BindGroupLayoutEntry {
            binding,
            visibility: ShaderStages::COMPUTE,
            ty: BindingType::Buffer { ty, has_dynamic_offset, min_binding_size: None },
            count: None,
        };
        let of_dense = self.buffers + 1..self.buffers + 1 + count;
        let mut entries: Vec<_> = (0..self.buffers).chain(of_dense).map(|b| entry(b, storage(b), false)).collect();
        if !immediates {
            entries.push(entry(self.buffers, BufferBindingType::Uniform, true));
        }
        entries
    }
}

macro_rules! shader {
    ($name:literal, $buffers:literal, $parameters:ident) => {
        shader!($name, $buffers, $parameters, None)
    };
    ($name:literal, $buffers:literal, $parameters:ident, $variant:expr) => {
        shader!($name, $buffers, $parameters, $variant, 0)
    };
    ($name:literal, $buffers:literal, $parameters:ident, $variant:expr, $read_only:literal) => {
        Shader {
            name: $name,
            source: include_str!(concat!("../../../shaders/", $name, ".wgsl")),
            buffers: $buffers,
            read_only: $read_only,
            parameters: parameters::$parameters::FIELDS,
            variant: $variant,
        }
    };
}

pub(crate) const GEQRT: Shader = shader!("geqrt", 2, Level);
/// Leaves the reflectors in the matrix.
pub(crate) const GEQRT_KEPT: Shader = shader!("geqrt", 2, Level, Some("kept"));
pub(crate) const GATHER_REFLECTORS: Shader = shader!("gather_reflectors", 3, Level);
pub(crate) const UNMQR: Shader = shader!("unmqr", 2, Level);
/// For levels whose rows and columns start at multiples of four.
pub(crate) const UNMQR_IN_VECTORS: Shader = shader!("unmqr", 2, Level, Some("vectors"));
/// The same, beside `geqrt` of the next level.
pub(crate) const UNMQR_AND_GEQRT: Shader = shader!("unmqr", 4, Level, Some("beside"));
/// Leaves the reflectors in the matrix.
pub(crate) const UNMQR_AND_GEQRT_KEPT: Shader = shader!("unmqr", 3, Level, Some("beside-kept"));
pub(crate) const UPDATE_LINE: Shader = shader!("update_line", 2, Line);
pub(crate) const MULTIPLY_LINE: Shader = shader!("multiply_line", 2, Line);
pub(crate) const UPDATE_TRAILING: Shader = shader!("update_trailing", 1, UpdateTrailing);
pub(crate) const SUBTRACT_DEFERRED: Shader = shader!("subtract_deferred", 0, SubtractDeferred);
pub(crate) const GEQRT_AND_SUBTRACT: Shader = shader!("geqrt_and_subtract", 2, GeqrtAndSubtract);
pub(crate) const MULTIPLY_PANEL: Shader = shader!("multiply_panel", 2, MultiplyPanel, None, 1);
pub(crate) const ADD_PARTS: Shader = shader!("add_parts", 1, AddParts, None, 1);
pub(crate) const JOIN_REFLECTORS: Shader = shader!("join_reflectors", 7, JoinReflectors, None, 6);
/// Leaves V in the matrix and T beside it.
pub(crate) const JOIN_REFLECTORS_KEPT: Shader = shader!("join_reflectors", 7, JoinReflectors, Some("kept"), 5);
pub(crate) const SPREAD_REFLECTORS: Shader = shader!("spread_reflectors", 3, SpreadReflectors, None, 2);
pub(crate) const LARFT: Shader = shader!("larft", 2, Level);
pub(crate) const PACK_BAND: Shader = shader!("pack_band", 1, PackBand);
pub(crate) const UNPACK_BAND: Shader = shader!("unpack_band", 2, UnpackBand);
pub(crate) const REPACK_BAND: Shader = shader!("repack_band", 2, RepackBand);
pub(crate) const CHASE: Shader = shader!("chase", 1, Chase);
/// Keeps the reflectors beside the band.
pub(crate) const CHASE_KEPT: Shader = shader!("chase", 2, Chase, Some("kept"));
/// For reduction steps to bidiagonal form, with the blocks of a cycle in registers; last those whose sweeps are subgroups.
static CHASE_TEAM: [[Shader; 2]; 2] = [
    [shader!("chase_team", 1, Chase), shader!("chase_team", 2, Chase, Some("kept"))],
    [shader!("chase_team", 1, Chase, Some("subgroups")), shader!("chase_team", 2, Chase, Some("kept-subgroups"))],
];

/// `chase_team` by subgroups or not, with reflectors kept or not.
pub(crate) fn chase_team(subgroups: bool, kept: bool) -> &'static Shader {
    &CHASE_TEAM[usize::from(subgroups)][usize::from(kept)]
}

pub(crate) const APPLY_CHASE: Shader = shader!("apply_chase", 1, ApplyChase);
pub(crate) const SQUARE_BIDIAGONAL: Shader = shader!("square_bidiagonal", 2, SquareBidiagonal);
pub(crate) const BISECT: Shader = shader!("bisect", 2, Bisect);
pub(crate) const BATCH: Shader = shader!("batch", 3, Batch, None, 2);
/// Keeps the matrices in a buffer, not in workgroup memory.
pub(crate) const BATCH_SPILLED: Shader = shader!("batch", 4, Batch, Some("spilled"), 2);
pub(crate) const JACOBI: Shader = shader!("jacobi", 4, Jacobi, None, 2);
/// Keeps W in a buffer, not in workgroup memory.
pub(crate) const JACOBI_SPILLED: Shader = shader!("jacobi", 4, Jacobi, Some("spilled"), 2);
pub(crate) const GEMM: Shader = shader!("gemm", 3, Product);
pub(crate) const GEMM_BATCH: Shader = shader!("gemm_batch", 5, GemmBatch, None, 4);
/// M is stored as f16, X and C are not.
pub(crate) const GEMM_BATCH_MIXED: Shader = shader!("gemm_batch", 5, GemmBatch, Some("mixed"), 4);
/// M is stored as bf16, two entries in a number, X and C as f32.
pub(crate) const GEMM_BATCH_BF16: Shader = shader!("gemm_batch", 5, GemmBatch, Some("bf16"), 4);
pub(crate) const GATHER_COLUMNS: Shader = shader!("gather_columns", 4, GatherColumns);
pub(crate) const ROTATE_COLUMNS: Shader = shader!("rotate_columns", 3, RotateColumns);
pub(crate) const SECULAR_VECTORS: Shader = shader!("secular_vectors", 5, SecularVectors);
pub(crate) const TAKE_COLUMNS: Shader = shader!("take_columns", 4, TakeColumns);
pub(crate) const GRAM_FACTOR: Shader = shader!("gram_factor", 2, GramFactor);
pub(crate) const CHOLESKY: Shader = shader!("cholesky", 3, Cholesky);
pub(crate) const UNIT_COLUMNS: Shader = shader!("unit_columns", 1, UnitColumns);
pub(crate) const IDENTITY_COLUMNS: Shader = shader!("identity_columns", 2, IdentityColumns);
pub(crate) const COPY_WINDOW: Shader = shader!("copy_window", 2, CopyWindow);
pub(crate) const TRMM: Shader = shader!("trmm", 3, Triangle);
pub(crate) const TRSM: Shader = shader!("trsm", 3, Triangle);
pub(crate) const DIAGONAL: Shader = shader!("diagonal", 2, Diagonal);
pub(crate) const FUSED: Shader = shader!("fused", 1, Fused);
pub(crate) const LARGEST: Shader = shader!("largest", 2, Largest);
pub(crate) const SCALE: Shader = shader!("scale", 3, Scale);

pub(crate) const SLICE_LINES: Shader = shader!("slice_lines", 3, SliceLines);
pub(crate) const MULTIPLY_FIXED: Shader = shader!("multiply_fixed", 3, MultiplyFixed, None, 2);

/// `coop_gemm` for each kind of products and order of cooperative matrices.
pub(crate) struct CoopGemm {
    pub half: [Shader; 2],
    pub split: [Shader; 2],
}

pub(crate) static COOP_GEMM: CoopGemm = CoopGemm {
    half: [shader!("coop_gemm", 5, CoopGemm, Some("half8"), 4), shader!("coop_gemm", 5, CoopGemm, Some("half16"), 4)],
    split: [shader!("coop_gemm", 5, CoopGemm, Some("split8"), 4), shader!("coop_gemm", 5, CoopGemm, Some("split16"), 4)],
};

impl CoopGemm {
    /// The variant for matrices of this order, 8 or 16.
    pub fn of(&self, products: Products, order: usize) -> &Shader {
        let both = if products == Products::Split { &self.split } else { &self.half };
        &both[usize::from(order == 16)]
    }
}

/// The modules that shaders import.
const MODULES: [(&str, &str); 17] = [
    ("factor_block", include_str!("../../../shaders/shared/factor_block.wgsl")),
    ("pair", include_str!("../../../shaders/shared/pair.wgsl")),
    ("reflector", include_str!("../../../shaders/shared/reflector.wgsl")),
    ("scalar", include_str!("../../../shaders/shared/scalar.wgsl")),
    ("level", include_str!("../../../shaders/shared/level.wgsl")),
    ("panels", include_str!("../../../shaders/shared/panels.wgsl")),
    ("operands", include_str!("../../../shaders/shared/operands.wgsl")),
    ("triangle", include_str!("../../../shaders/shared/triangle.wgsl")),
    ("records", include_str!("../../../shaders/shared/records.wgsl")),
    ("product", include_str!("../../../shaders/shared/product.wgsl")),
    ("tiles", include_str!("../../../shaders/shared/tiles.wgsl")),
    ("compact_wy", include_str!("../../../shaders/shared/compact_wy.wgsl")),
    ("band", include_str!("../../../shaders/shared/band.wgsl")),
    ("whole_reflector", include_str!("../../../shaders/shared/whole_reflector.wgsl")),
    ("window", include_str!("../../../shaders/shared/window.wgsl")),
    ("squares", include_str!("../../../shaders/shared/squares.wgsl")),
    ("sturm", include_str!("../../../shaders/shared/sturm.wgsl")),
];

/// A pipeline that a call will need: shader, constants, and number of the matrix's buffers.
pub(crate) type Wanted = (&'static Shader, Vec<(&'static str, u32)>, usize);

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The constants of a real type.
fn constants_of<R: RealElement>() -> [(&'static str, f64); 6] {
    [
        ("NORM_FLOOR", R::norm_floor()),
        ("NORM_SCALE", R::norm_scale()),
        // Twice the largest entry of a vector whose sum of squares is below the floor.
        ("NORM_CLAMP", num_traits::Float::sqrt(R::norm_floor()) * R::from_double(2.0)),
        ("SMALLEST_NORMAL", R::min_positive_value()),
        ("PIVOT", R::pivot()),
        ("EPSILON", R::epsilon()),
    ]
    .map(|(name, value)| (name, value.to_double()))
}

/// The module `package::tuning`: the constants of a shader for this real type.
fn constants(real: ElementKind, values: &[(&str, u32)]) -> String {
    let mut text = String::new();
    for (name, value) in if real.is_double() { constants_of::<f64>() } else { constants_of::<f32>() } {
        let _ = writeln!(text, "const {name}: {} = {value:e};", real.name());
    }
    for (name, value) in values.iter().chain(&[("LINEAR_THREADS", LINEAR_THREADS)]) {
        let _ = writeln!(text, "const {name}: u32 = {value}u;");
    }
    text
}

/// The module `package::dense`: a matrix in `count` buffers, bound in order from `binding` on.
fn dense(binding: u32, count: usize, entry: &str) -> String {
    let mut text = format!("import package::level::{{Place}};\nimport package::scalar::{{{entry}}};\n");
    for k in 0..count {
        let _ = writeln!(text, "@group(0) @binding({}) var<storage, read_write> a{k}: array<{entry}>;", binding + k as u32);
    }
    let mut function = |signature: &str, body: &dyn Fn(usize) -> String| {
        let _ = if count > 1 {
            let cases: String = (1..count).map(|k| format!("case {k}u: {{ {} }}\n", body(k))).collect();
            writeln!(text, "fn {signature} {{ switch place.buffer {{\n{cases}default: {{ {} }}\n}} }}", body(0))
        } else {
            writeln!(text, "fn {signature} {{ {} }}", body(0))
        };
    };
    function(&format!("read_entry(place: Place) -> {entry}"), &|k| format!("return a{k}[place.at];"));
    function(&format!("write_entry(place: Place, entry: {entry})"), &|k| format!("a{k}[place.at] = entry;"));
    text
}

/// The optional features of a device that shaders use.
#[derive(Clone, Copy, Debug)]
struct Has {
    /// Parameters are passed as immediates; otherwise in a uniform buffer.
    immediates: bool,
    /// Bindings may be `@coherent`. Vulkan needs the attribute where a thread reads what another thread of its workgroup has stored in a
    /// buffer. wgpu has it on all its own backends; WGSL has no such attribute, and browsers need none.
    coherent: bool,
    /// `fma` is known to round once.
    fused: bool,
}

/// The shader's WGSL for matrices stored as `kind` in `count` buffers, with imports resolved and constants written in.
fn wgsl(kind: ElementKind, shader: &Shader, count: usize, constants: &str, device: Has) -> Result<String> {
    let variant = shader.variant.unwrap_or_default();
    let (beside, kept) = (variant.starts_with("beside"), variant.starts_with("kept") || variant.ends_with("kept"));
    let vectors = beside || shader.variant == Some("vectors");
    let dense = dense(shader.buffers + 1, count, if vectors { "Stored4" } else { "Stored" });
    let modules: Vec<_> = MODULES.into_iter().chain([("tuning", constants), ("dense", &dense)]).collect();
    let spilled = shader.variant == Some("spilled");
    let subgroups = shader.variant.is_some_and(|variant| variant.ends_with("subgroups"));
    let conditions = [
        ("f64", kind.is_double()),
        ("complex", kind.is_complex()),
        ("f16", kind.is_half()),
        ("immediates", device.immediates),
        ("coherent", device.coherent),
        ("fused", device.fused),
        ("uniform", !device.immediates && !beside),
        ("uniform_beside", !device.immediates && beside && !kept),
        ("uniform_kept", !device.immediates && beside && kept),
        ("vectors", vectors),
        ("beside", beside),
        ("kept", kept),
        ("two_t", beside && !kept),
        ("kept_in_vectors", beside && kept),
        ("kept_coherent", beside && kept && device.coherent),
        ("kept_plain", beside && kept && !device.coherent),
        ("subgroups", subgroups),
        // A thread makes a reflector alone, of sums of integers.
        ("alone", !subgroups && !kind.is_double()),
        // Four numbers are a vector of 16 bytes.
        ("fours", kind.scalar_bytes() == 4),
        ("mixed", shader.variant == Some("mixed")),
        ("bf16", shader.variant == Some("bf16")),
        ("spilled", spilled),
        ("spilled_coherent", spilled && device.coherent),
        ("spilled_plain", spilled && !device.coherent),
        ("split", shader.variant.is_some_and(|variant| variant.starts_with("split"))),
        ("sixteen", shader.variant.is_some_and(|variant| variant.ends_with("16"))),
        ("blocks", count > 1),
        ("ahead", !(kind.is_double() && kind.is_complex())),
    ];
    assemble((shader.name, shader.source), &modules, &conditions)
        .map_err(|reason| SvdError::Gpu { what: "the source of a shader", reason })
}

impl GpuContext {
    /// Whether parameters are passed as immediates; otherwise in a uniform buffer.
    pub(crate) fn immediates(&self) -> bool {
        self.device().features().contains(Features::IMMEDIATES) && self.limits().max_immediate_size as usize >= 4 * WORDS
    }

    fn has(&self) -> Has {
        let features = self.device().features();
        let coherent = features.contains(Features::MEMORY_DECORATION_COHERENT);
        Has { immediates: self.immediates(), coherent, fused: self.is_fused() }
    }

    /// The pipeline of `shader` with the constants `values`, for matrices stored as `kind`. A dense matrix has `count` buffers (0: the shader
    /// binds none).
    pub(crate) fn pipeline(&self, kind: ElementKind, shader: &Shader, values: &[(&str, u32)], count: usize) -> Result<Pipeline> {
        let key = (shader.name, shader.variant, count, kind.name(), constants(kind.real(), values));
        let cell = locked(&self.pipelines().cells).entry(key.clone()).or_default().clone();
        // Compiles under the cell's lock: threads that want the same pipeline wait for the thread that compiles it.
        let mut cell = locked(&cell);
        if let Some(pipeline) = &*cell {
            return Ok(pipeline.clone());
        }
        let start = log::log_enabled!(log::Level::Debug).then(Instant::now);
        let source = wgsl(kind, shader, count, &key.4, self.has())?;
        let assembled = start.map(|start| start.elapsed());
        // `benches/gpu` asks the driver's compiler about this text.
        let variant = shader.variant.map(|variant| format!("-{variant}")).unwrap_or_default();
        log::trace!(target: "svdvals_gpu::wgsl", "{}{variant} {}\n{source}", shader.name, kind.name());
        let pipeline = self.scoped("a compute pipeline", || Ok(self.compile(shader, count as u32, source)))?;
        if let Some(file) = &self.pipelines().file {
            file.note_new();
        }
        if let (Some(start), Some(assembled)) = (start, assembled) {
            let (name, all) = (shader.name, start.elapsed());
            log::debug!("svdvals-gpu: {name} for {}: made in {all:.1?}, its WGSL in {assembled:.1?} of that", kind.name());
        }
        Ok(cell.insert(pipeline).clone())
    }

    /// Runs `meanwhile`, while other threads of the rayon pool compile the missing pipelines of `wanted` for matrices stored as `kind`.
    pub(crate) fn prepare<R>(&self, kind: ElementKind, wanted: &[Wanted], meanwhile: impl FnOnce() -> R) -> R {
        let is_missing = |(shader, values, count): &&Wanted| {
            let key = (shader.name, shader.variant, *count, kind.name(), constants(kind.real(), values));
            !locked(&self.pipelines().cells).contains_key(&key)
        };
        let missing: Vec<_> = wanted.iter().filter(is_missing).collect();
        let compile = |k: usize| {
            let (shader, values, count) = missing[k];
            // A failure here occurs again where the pipeline is used, and becomes the call's error there.
            drop(self.pipeline(kind, shader, values, *count));
        };
        beside(missing.len(), &compile, meanwhile)
    }

    fn compile(&self, shader: &Shader, count: u32, source: String) -> Pipeline {
        let device = self.device();
        let descriptor = ShaderModuleDescriptor { label: Some(shader.name), source: ShaderSource::Wgsl(source.into()) };
        let checks = if self.is_checked() { ShaderRuntimeChecks::checked() } else { ShaderRuntimeChecks::unchecked() };
        // Without run-time checks, a shader must not index out of bounds, loop forever or divide by zero. The sources are the crate's own
        // (`include_str!`). Every loop counts up to a bound. Indices, bounds and divisors depend on parameters and constants alone, never
        // on matrix entries. These functions check them before a dispatch:
        //   geqrt, unmqr          `Dense::parameters`: the level fits the matrix, V, T, and the workgroup arrays of `Shape`;
        //                         `Dense::keep_next`: the level is the next one to be kept
        //   gather_reflectors     `Dense::applied`: the level is the kept one, and fits the matrix, V and T
        //   unmqr on C            `Dense::applied`, and `GpuKernels::apply`: the last stacked row is a row of C
        //   update_line, multiply_line, update_trailing   `Panels::check`: the line, and the rows and columns of an update, fit the
        //                         matrix and the panels, which are allocated with their sizes
        //   subtract_deferred, geqrt_and_subtract, multiply_panel, add_parts, join_reflectors   `Dense::room_for_panel`: the panel fits the matrix, for
        //                         which and the levels of whose longest panel the buffers are allocated; `Dense::room_for_product`: the windows are in the
        //                         matrix with L and R
        //   spread_reflectors     `GpuKernels::apply_joined`: the reflectors are those of the level that is gathered there, and C has as many rows, and the room
        //   larft                 `GpuKernels::apply_row_reflectors`: the rows are those of a panel of the matrix
        //   pack_band             `GpuKernels::pack_band`: n fits the matrix; the band is allocated there, with its layout's size
        //   unpack_band           `GpuKernels::unpacked`: the result is allocated there, with n columns of bandwidth + 1 entries
        //   repack_band           `GpuKernels::adopt_band`: the source has at least as many entries; the band is allocated there
        //   chase                 `Banded::check`: the step fits the band's layout, from which `ChaseShape` is made; `Banded::keep_next`
        //                         allocates n x n entries for reflectors that are kept
        //   apply_chase           `Banded::kept`: the reflectors are those of the step; `GpuKernels::apply_chase`: C has n rows
        //   gather_columns, rotate_columns, secular_vectors, take_columns   `GpuKernels::replay`: the tables are those of a `Schedule` of the
        //                         matrices that are allocated there, which the test of its twin runs; `GpuKernels::write_right`: the result
        //                         has the size of the last one
        //   gemm_batch            `Products::new`: the last entry of every window is in its buffer
        //   gram_factor, unit_columns, identity_columns, copy_window   the callers in `gpu/kernels/left.rs` and `factor.rs` allocate what they write, and
        //                         `check_window` what they read
        //   cholesky              `GpuKernels::cholesky`: the block is within G, and R and the inverse are allocated there
        //   square_bidiagonal, bisect   `GpuKernels::bisect`: squares and bounds are allocated there, for the band's n and matrices
        //   (of all these)        workgroup.z is below the number of matrices for which `Dense` and `Banded` were allocated, or that their
        //                         `part` has; `Dense::applied` and `GpuKernels::apply_waves`: C has as many
        //   batch                 `GpuBatch::dispatch`: the table's rows are those of `GpuBatch::place`, whose matrices fit the class's
        //                         workgroup arrays, and whose entries and bounds are in the buffers that are allocated there
        //   jacobi                `GpuBatch::rotate`: likewise, of `JacobiShape`'s classes
        //   slice_lines, coop_gemm   `GpuRecursive`: `part`: blocks are in their matrices; `multiply`: the shapes match; `Room::of`: the
        //                         slices and scales fit their buffers; an element's index fits u32
        //   multiply_fixed        `GpuFixed::multiply_fixed`: vectors have the matrix's rows or columns, and the buffers are allocated there and in
        //                         `GpuFixed::new` with their sizes
        //   gemm, trmm, trsm      `GpuTriangular::new`, `check_rows` and `triangle`: the shapes match, rows are within M and B, and a
        //                         triangle has at most the base's order
        //   fused                 `fused::errors`: the buffer is allocated there
        //   diagonal, largest     `DeviceMatrix::from_buffer`: the buffer holds the matrix's lines; `DeviceMatrix::upload` allocates it so
        //   scale                 `GpuKernels::adopt`: `Lines::check` of the source; the result is allocated there, with its size
        // Constants and workgroup arrays come from one `Shape`, `ChaseShape` or `TriangleShape`, which is checked when it is made.
        // tests/gpu runs every kernel with and without the checks and compares.
        // SAFETY: the sources are trusted, and the functions named above have checked their indices, bounds and divisors.
        let module = unsafe { device.create_shader_module_trusted(descriptor, checks) };

        let entries = shader.layout_entries(count, self.immediates());
        let layout = device.create_bind_group_layout(&BindGroupLayoutDescriptor { label: Some(shader.name), entries: &entries });
        let pipeline_layout = device.create_pipeline_layout(&PipelineLayoutDescriptor {
            label: Some(shader.name),
            bind_group_layouts: &[Some(&layout)],
            immediate_size: if self.immediates() { shader.parameter_bytes() } else { 0 },
        });
        let compute = device.create_compute_pipeline(&ComputePipelineDescriptor {
            label: Some(shader.name),
            layout: Some(&pipeline_layout),
            module: &module,
            entry_point: Some(shader.name),
            compilation_options: PipelineCompilationOptions {
                constants: &[],
                // Kernels write workgroup memory before they read it.
                zero_initialize_workgroup_memory: self.is_checked(),
            },
            cache: self.pipelines().file.as_ref().map(|file| &file.cache),
        });
        Pipeline { compute, layout, parameters: shader.parameters }
    }

    /// Binds `buffers` in order, then the parameters' uniform buffer if there is one, then the buffers of a dense matrix.
    pub(crate) fn bind(
        &self,
        pipeline: &Pipeline,
        buffers: &[&Buffer],
        uniforms: Option<&Buffer>,
        dense: &[Buffer],
    ) -> BindGroup {
        let parameters = uniforms.map(|buffer| BufferBinding {
            buffer,
            offset: 0,
            size: BufferSize::new(4 * pipeline.parameters.len() as u64),
        });
        let own = (0..).zip(buffers.iter().map(|buffer| buffer.as_entire_buffer_binding()));
        let parameters = parameters.map(|buffer| (buffers.len() as u32, buffer));
        let dense = (buffers.len() as u32 + 1..).zip(dense.iter().map(|buffer| buffer.as_entire_buffer_binding()));
        let entries: Vec<_> = own
            .chain(parameters)
            .chain(dense)
            .map(|(binding, buffer)| BindGroupEntry { binding, resource: wgpu::BindingResource::Buffer(buffer) })
            .collect();
        self.device().create_bind_group(&BindGroupDescriptor { label: None, layout: &pipeline.layout, entries: &entries })
    }
}

#[cfg(test)]
mod grammar;
#[cfg(test)]
mod tests;
