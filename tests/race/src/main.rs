//! The shaders of svdvals-gpu, run by an interpreter of naga IR that watches every access to memory.
//!
//! ```text
//! racecheck                 everything, each finding once; fails if there is one
//! racecheck quick           fewer cases
//! racecheck selftest        the detector: small shaders with known outcomes, and mistakes planted in the crate's own
//! racecheck selftest quick  every third of these mistakes
//! racecheck ... --strict    notes fail too
//! racecheck ... --only X    cases whose name contains X
//! racecheck ... --seed N    another order of threads, other matrices, other cases of chance
//! RACE_DUMP=DIRECTORY       writes the WGSL that findings tell lines of
//! ```

mod cases;
mod compile;
mod compute;
mod config;
mod device;
mod finding;
mod program;
mod report;
mod selftest;
mod vm;

// The crate's own: what its tests promise, and how it puts shaders together.
#[path = "../../common/mod.rs"]
mod common;
#[path = "../../common/reflectors.rs"]
mod kept;
#[path = "../../common/krylov.rs"]
#[allow(dead_code)] // whole calls are the tests'
mod krylov_triples;
#[path = "../../common/qr.rs"]
mod qr;
#[allow(dead_code)]
#[path = "../../../src/gpu/device/template.rs"]
mod template;
#[allow(dead_code)]
#[path = "../../common/vectors.rs"]
mod vectors;

use std::{
    process::ExitCode,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use cases::{Case, Env};
use finding::Kind;
use report::Sink;

/// Twice the same, side by side.
fn on_two_threads(work: impl Fn() + Sync) {
    std::thread::scope(|scope| {
        scope.spawn(&work);
        scope.spawn(&work);
    });
}

/// Runs one case. What the crate refuses comes back.
fn run_case(case: &Case, sink: &Arc<Sink>, mutation: Option<device::Mutation>) -> Option<String> {
    let env = Env::open(case, sink, mutation);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (case.body)(&env)));
    match result {
        Ok(Ok(())) => {}
        Ok(Err(cases::Trouble::Refused(why))) => return Some(why),
        Ok(Err(cases::Trouble::Wrong(why))) => sink.say(Kind::Value, "", why, &case.name),
        Err(_) => sink.say(Kind::Value, "", "panic".into(), &case.name),
    }
    None
}

/// Runs the cases on two threads. Returns those that the crate refuses.
fn run_cases(cases: &[Case], sink: &Arc<Sink>, verbose: bool) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let refused = Mutex::new(Vec::new());
    on_two_threads(|| {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let start = Instant::now();
            if let Some(why) = run_case(case, sink, None) {
                refused.lock().unwrap().push(format!("{}: {why}", case.name));
            }
            if verbose {
                println!("{:7.2} s  {}", start.elapsed().as_secs_f64(), case.name);
            }
        }
    });
    refused.into_inner().unwrap()
}

/// Shaders that the interpreter cannot run, and why.
const OUT_OF_REACH: [(&str, &str); 1] =
    [("coop_gemm", "it has no cooperative matrices; `tests/run coop` compares that shader with its twin")];

/// Names of the crate's shaders.
fn shaders() -> Vec<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shaders");
    let files = std::fs::read_dir(folder).expect("the crate's shaders").flatten().map(|entry| entry.file_name());
    let mut names: Vec<String> = files.filter_map(|name| Some(name.to_str()?.strip_suffix(".wgsl")?.to_owned())).collect();
    names.sort();
    names
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let flag = |name: &str| args.iter().any(|a| a == name);
    let value = |name: &str| args.iter().position(|a| a == name).and_then(|at| args.get(at + 1)).cloned();
    let strict = flag("--strict");
    let seed = value("--seed").and_then(|s| s.parse().ok()).unwrap_or(1);
    let only = value("--only").unwrap_or_default();
    if flag("selftest") {
        return selftest::run(seed, flag("quick"), flag("-v"), &only);
    }
    let start = Instant::now();
    let mut cases = cases::all(seed, flag("quick"));
    cases.retain(|case| case.name.contains(&only));
    let sink = Arc::new(Sink::default());
    let refused = run_cases(&cases, &sink, flag("-v"));
    for why in &refused {
        println!("refused: {why}");
    }
    println!("shader                dispatches   workgroups       threads");
    for (shader, [dispatches, groups, threads]) in sink.ran.lock().unwrap().iter() {
        println!("{shader:20} {dispatches:11} {groups:12} {threads:13}");
    }
    let (sites, never) = device::coverage();
    println!("of {sites} accesses and barriers in the sources {} ran", sites - never.len());
    for text in &never {
        println!("  never ran: {text}");
    }
    let found = sink.all();
    let bad = found.iter().filter(|f| strict || f.kind.fails()).count();
    for finding in &found {
        println!("\n{finding}");
    }
    // Of all cases every shader has its own.
    let missed = if only.is_empty() {
        let can_run = |name: &String| OUT_OF_REACH.iter().all(|(other, _)| other != name);
        shaders().into_iter().filter(|name| can_run(name) && !sink.ran.lock().unwrap().contains_key(name)).collect()
    } else {
        Vec::new()
    };
    for (name, why) in OUT_OF_REACH {
        println!("out of reach: shaders/{name}.wgsl: {why}");
    }
    for name in &missed {
        println!("\nno case runs shaders/{name}.wgsl");
    }
    let bad = bad + missed.len();
    println!(
        "\nrace: {} cases, {} refused, {} findings, {} notes, {:.0} s",
        cases.len(),
        refused.len(),
        bad,
        found.len() + missed.len() - bad,
        start.elapsed().as_secs_f64()
    );
    if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
