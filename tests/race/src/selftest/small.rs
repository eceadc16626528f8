//! Small shaders that are right or wrong in a known way.

use std::sync::Arc;

use svdvals_gpu::wgpu;

use crate::{
    compute,
    config::{Config, Mapping},
    device,
    finding::Kind,
    report::Sink,
};

struct Small {
    name: &'static str,
    groups: u32,
    body: &'static str,
    expected: &'static [Kind],
    /// What b[t] must be.
    result: Option<fn(u32) -> u32>,
}

const HEAD: &str = "
@group(0) @binding(0) var<storage, read_write> b: array<u32>;
@group(0) @binding(1) var<storage, read_write> fresh: array<u32>;
@group(0) @binding(2) var<storage, read_write> v: array<vec4<f32>>;
@group(0) @binding(3) @coherent var<storage, read_write> c: array<u32>;
var<workgroup> w: array<u32, 64>;
var<workgroup> w4: array<vec4<f32>, 64>;
var<workgroup> counter: atomic<u32>;
var<workgroup> flag: u32;
fn turned(t: u32) -> u32 { return (t + 1u) % 64u; }
fn more(x: f32, y: f32) -> f32 { return x + y; }
fn less(x: f32, y: f32) -> f32 { return x - y; }
@compute @workgroup_size(64)
fn small(@builtin(local_invocation_index) t: u32, @builtin(workgroup_id) id: vec3<u32>) {
";

fn smalls() -> Vec<Small> {
    let small = |name, groups, body, expected| Small { name, groups, body, expected, result: None };
    let with = |small: Small, result| Small { result: Some(result), ..small };
    vec![
        with(small("exchange with a barrier", 1, "w[t] = 3u * t; workgroupBarrier(); b[t] = w[turned(t)];", &[]), |t| {
            3 * ((t + 1) % 64)
        }),
        small("exchange without", 1, "w[t] = t; b[t] = w[turned(t)];", &[Kind::RaceWorkgroup, Kind::UnwrittenWorkgroup]),
        small(
            "read, then overwritten without a barrier",
            1,
            "w[t] = t; workgroupBarrier(); let x = w[turned(t)]; w[t] = x; b[t] = x;",
            &[Kind::RaceWorkgroup],
        ),
        small("all write the same", 1, "w[0] = 1u;", &[Kind::RaceWorkgroup]),
        small("all read the same", 1, "if t == 0u { w[0] = 1u; } workgroupBarrier(); b[t] = w[0] + w[0];", &[]),
        small(
            "a loop of two sides",
            1,
            "
            for (var k = 0u; k < 64u; k++) {
                if t == k { w[k % 2u] = k; }
                workgroupBarrier();
                b[t] = w[k % 2u];
            }",
            &[],
        ),
        small(
            "a loop of one side",
            1,
            "
            for (var k = 0u; k < 64u; k++) {
                if t == k { w[0] = k; }
                workgroupBarrier();
                b[t] = w[0];
            }",
            &[Kind::RaceWorkgroup],
        ),
        small("vectors", 1, "w4[t] = vec4<f32>(f32(t)); workgroupBarrier(); v[t] = w4[turned(t)];", &[]),
        small(
            "vectors, one component elsewhere",
            1,
            "
            w4[t] = vec4<f32>(f32(t)); workgroupBarrier();
            if t == 5u { w4[6].y = 1.0; }
            v[t] = w4[t];",
            &[Kind::RaceWorkgroup],
        ),
        small(
            "two components of one vector",
            1,
            "
            w4[t] = vec4<f32>(f32(t)); workgroupBarrier();
            if t == 5u { w4[6].y = 1.0; } else if t == 9u { w4[6].z = 2.0; }",
            &[Kind::RaceWorkgroup],
        ),
        small(
            "two vectors, component by component",
            1,
            "w4[t].x = 1.0; w4[t].y = 2.0; workgroupBarrier(); b[t] = u32(w4[t].x);",
            &[],
        ),
        small("storage without a barrier", 1, "b[t] = t; let x = b[turned(t)]; b[64u + t] = x;", &[Kind::RaceStorage]),
        small(
            "storage with the other barrier",
            1,
            "b[t] = t; workgroupBarrier(); let x = b[turned(t)]; b[64u + t] = x;",
            &[Kind::Weak],
        ),
        small(
            "storage read, then written, with the other barrier",
            1,
            "
            let x = b[turned(t)]; workgroupBarrier(); b[t] = x;",
            &[Kind::Weak],
        ),
        small(
            "storage with its barrier",
            1,
            "b[t] = t; storageBarrier(); let x = b[turned(t)]; b[64u + t] = x;",
            &[Kind::Incoherent],
        ),
        small("coherent storage", 1, "c[t] = t; workgroupBarrier(); b[t] = c[turned(t)];", &[]),
        small("coherent storage with its barrier", 1, "c[t] = t; storageBarrier(); b[t] = c[turned(t)];", &[]),
        small(
            "coherent storage read, then written",
            1,
            "c[t] = t; workgroupBarrier(); let x = c[turned(t)]; workgroupBarrier(); c[t] = x;",
            &[],
        ),
        small(
            "coherent storage without a barrier",
            1,
            "c[t] = t; b[t] = c[turned(t)];",
            &[Kind::RaceStorage, Kind::UnwrittenBuffer],
        ),
        small("coherent storage of two workgroups", 2, "c[t] = id.x; workgroupBarrier();", &[Kind::BetweenWorkgroups]),
        small(
            "workgroup memory with the other barrier",
            1,
            "w[t] = t; storageBarrier(); b[t] = w[turned(t)];",
            &[Kind::RaceWorkgroup],
        ),
        small("workgroups apart", 3, "b[id.x * 64u + t] = t;", &[]),
        small("workgroups that write the same", 2, "b[t] = id.x;", &[Kind::BetweenWorkgroups]),
        small(
            "a workgroup that reads what another writes",
            2,
            "
            if id.x == 0u { b[t] = 1u; } else { b[64u + t] = b[63u - t]; }",
            &[Kind::BetweenWorkgroups],
        ),
        small(
            "a workgroup that reads what another writes, with barriers",
            2,
            "
            storageBarrier(); if id.x == 1u { b[t] = 1u; } else { b[64u + t] = b[63u - t]; } storageBarrier();",
            &[Kind::BetweenWorkgroups],
        ),
        small("beyond a buffer", 1, "b[300u + t] = 1u;", &[Kind::OutOfBounds]),
        small("beyond a buffer, read", 1, "b[t] = b[256u + t];", &[Kind::OutOfBounds]),
        small("before a buffer", 1, "b[t] = b[t - 1u];", &[Kind::OutOfBounds, Kind::RaceStorage]),
        small("beyond workgroup memory", 1, "w[t] = t; workgroupBarrier(); b[t] = w[t + 1u];", &[Kind::OutOfBounds]),
        small("beyond an array of the thread", 1, "var a: array<u32, 4>; a[t % 5u] = 1u; b[t] = a[0];", &[Kind::OutOfBounds]),
        small("never written", 1, "b[t] = w[t];", &[Kind::UnwrittenWorkgroup]),
        small(
            "written by the workgroup before",
            4,
            "if id.x == 0u { w[t] = t; } b[id.x * 64u + t] = w[t];",
            &[Kind::UnwrittenWorkgroup],
        ),
        small("a buffer never written", 1, "b[t] = fresh[t];", &[Kind::UnwrittenBuffer]),
        small("a barrier for some", 1, "if t < 32u { workgroupBarrier(); } b[t] = t;", &[Kind::Barrier]),
        small(
            "a barrier for those that have not ended",
            1,
            "if t == 7u { return; } workgroupBarrier(); b[t] = t;",
            &[Kind::Barrier],
        ),
        small(
            "as many barriers, but not the same",
            1,
            "if t < 32u { workgroupBarrier(); } else { workgroupBarrier(); }",
            &[Kind::Barrier],
        ),
        small(
            "a loop as long as the thread's number",
            1,
            "for (var k = 0u; k < t % 3u + 1u; k++) { workgroupBarrier(); }",
            &[Kind::Barrier],
        ),
        small(
            "another iteration",
            1,
            "
            for (var k = 0u; k < 3u; k++) { if t == 9u && k == 0u { continue; } workgroupBarrier(); }",
            &[Kind::Barrier],
        ),
        small("a workgroup that ends", 2, "if id.x == 1u { return; } w[t] = t; workgroupBarrier(); b[t] = w[turned(t)];", &[]),
        with(
            small(
                "atomic",
                1,
                "
            if t == 0u { atomicStore(&counter, 0u); }
            workgroupBarrier(); atomicAdd(&counter, 2u); workgroupBarrier(); b[t] = atomicLoad(&counter);",
                &[],
            ),
            |_| 128,
        ),
        small(
            "atomic, loaded too early",
            1,
            "
            if t == 0u { atomicStore(&counter, 0u); }
            workgroupBarrier(); atomicAdd(&counter, 2u); b[t] = atomicLoad(&counter);",
            &[Kind::AtomicOrder],
        ),
        with(small("uniform load", 1, "if t == 3u { flag = 5u; } b[t] = workgroupUniformLoad(&flag);", &[]), |_| 5),
        small("division by zero", 1, "b[t] = 5u / (t - t);", &[Kind::DivisionByZero]),
        with(small("subgroups", 1, "b[t] = subgroupShuffleXor(t, 3u);", &[]), |t| t ^ 3),
        with(small("a subgroup's sum", 1, "b[t] = subgroupAdd(t % 16u) + u32(subgroupAdd(i32(t % 16u) - 8));", &[]), |_| 112),
        with(small("a subgroup's largest", 1, "b[t] = subgroupMax(t) - t;", &[]), |t| 15 - t % 16),
        small("a subgroup operation for some", 1, "if t % 2u == 0u { b[t] = subgroupShuffleXor(t, 2u); }", &[Kind::Subgroup]),
        with(
            small(
                "switch and break",
                1,
                "
            var x = 0u;
            for (var k = 0u; ; k++) { if k == t { break; } if k % 2u == 0u { continue; } x += k; }
            switch t { case 3u, 4u: { x = 100u; } case 5u: { x = 200u; break; } default: { x += 1u; } }
            b[t] = x;",
                &[],
            ),
            |t| match t {
                3 | 4 => 100,
                5 => 200,
                _ => (0..t).filter(|k| k % 2 == 1).sum::<u32>() + 1,
            },
        ),
        with(
            small(
                "functions and private arrays",
                1,
                "
            var a: array<u32, 8>;
            for (var k = 0u; k < 8u; k++) { a[k] = turned(k + t); }
            var s = 0u;
            for (var k = 0u; k < 8u; k++) { s += a[7u - k] * (k + 1u); }
            b[t] = s;",
                &[],
            ),
            |t| (0..8).map(|k| ((7 - k + t) + 1) % 64 * (k + 1)).sum(),
        ),
    ]
}

/// The first buffer after a run, and what was found.
fn run_on(name: &str, body: &str, groups: u32, loose: Option<u64>) -> (Vec<u32>, Arc<Sink>) {
    let sink = Arc::new(Sink::default());
    let features = wgpu::Features::SUBGROUP | wgpu::Features::MEMORY_DECORATION_COHERENT;
    let info = wgpu::AdapterInfo::new(wgpu::DeviceType::Other, wgpu::Backend::Vulkan);
    let config = Config { subgroup: 16, mapping: Mapping::Linear, loose, ..Config::default() };
    let (device, queue) = device::open(features, wgpu::Limits::defaults(), info, config, name, sink.clone(), None);
    let contents = [Some(&[0; 1024][..]), None, None, None];
    let got = compute::run((&device, &queue), ("small", format!("{HEAD}{body}\n}}\n")), &contents, groups);
    (got[..256].chunks_exact(4).map(|x| u32::from_le_bytes([x[0], x[1], x[2], x[3]])).collect(), sink)
}

fn run_small(small: &Small) -> Result<(), String> {
    let (got, sink) = run_on(small.name, small.body, small.groups, None);
    let mut kinds: Vec<Kind> = sink.all().iter().map(|f| f.kind).collect();
    kinds.dedup();
    let mut expected = small.expected.to_vec();
    expected.sort();
    // What nobody wrote comes back with the rest of the buffer.
    kinds.retain(|&kind| kind != Kind::UnwrittenReadBack);
    if kinds != expected {
        let all: Vec<String> = sink.all().iter().map(|f| f.to_string()).collect();
        return Err(format!("found {kinds:?}, not {expected:?}\n{}", all.join("\n")));
    }
    if let Some(result) = small.result {
        let wanted: Vec<u32> = (0..64).map(result).collect();
        if got != wanted {
            return Err(format!("result {got:?}, not {wanted:?}"));
        }
    }
    Ok(())
}

/// Formulas, and whether a compiler's rewriting changes their results.
const FORMULAS: [(&str, &str, bool); 10] = [
    ("a sum less one of its terms", "let x = 1e8 + f32(t); b[t] = bitcast<u32>(x - 1e8);", true),
    ("in variables", "var x = f32(t); let y = x * 1e8; x = y + 0.1; x = x - y; b[t] = bitcast<u32>(x);", true),
    ("through calls", "b[t] = bitcast<u32>(less(more(0.1, f32(t) * 1e8), f32(t) * 1e8));", true),
    ("a product and a sum", "let x = 1.0 + f32(t) / 4096.0; b[t] = bitcast<u32>(x * x - 1.0);", true),
    ("a common factor", "let x = f32(t) * 0.1; b[t] = bitcast<u32>(x * 0.3 + x * 0.7);", true),
    ("a quotient", "let x = f32(t); b[t] = bitcast<u32>(x / 3.0);", true),
    (
        "behind a bit operation",
        "let x = bitcast<f32>(bitcast<u32>(1e8 + f32(t)) ^ (b[t] >> 31u)); b[t] = bitcast<u32>(abs(x - 1e8));",
        false,
    ),
    ("from workgroup memory", "w4[t].x = 1e8 + f32(t); b[t] = bitcast<u32>(abs(w4[t].x - 1e8));", false),
    ("after a branch", "var x = 1e8 + f32(t); if t > 9u { x = 1.0; } b[t] = bitcast<u32>(abs(x - 1e8));", false),
    ("integers", "b[t] = ((t + 4294967290u) / 3u - t) * 7u + t;", false),
];

fn run_formula((name, body, changes): (&str, &str, bool)) -> Result<(), String> {
    let (plain, _) = run_on(name, body, 1, None);
    let changed = (0..16).filter(|&seed| run_on(name, body, 1, Some(seed)).0 != plain).count();
    if (changed > 0) == changes { Ok(()) } else { Err(format!("{changed} of 16 rewritten ones differ")) }
}

/// How many are not as expected.
pub fn run() -> usize {
    let smalls = smalls();
    let mut bad = 0;
    let mut tell = |name: &str, run: &dyn Fn() -> Result<(), String>| {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_or_else(|_| Err("panic".into()));
        if let Err(why) = result {
            bad += 1;
            println!("WRONG {name}: {why}");
        }
    };
    smalls.iter().for_each(|small| tell(small.name, &|| run_small(small)));
    FORMULAS.into_iter().for_each(|formula| tell(formula.0, &|| run_formula(formula)));
    let all = smalls.len() + FORMULAS.len();
    println!("detector: {} of {all} small shaders as expected", all - bad);
    bad
}
