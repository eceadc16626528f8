//! Mistakes in the crate's own shaders: each barrier left out, and others.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, atomic::Ordering},
    time::{Duration, Instant},
};

use super::edits::{ARITHMETIC, EDITS, SPARE};
use crate::{
    cases::{self, Case},
    device::Mutation,
    finding::Kind,
    on_two_threads,
    report::{Finding, Sink},
    run_case,
};

/// A case with what it does where nothing is wrong.
struct Probe {
    case: Case,
    seconds: Duration,
    sink: Arc<Sink>,
}

/// The cases of the short form, with what they do where nothing is wrong: the shortest ones first.
fn probes(seed: u64) -> Vec<Probe> {
    let cases = Mutex::new(cases::all(seed, true).into_iter());
    let probes = Mutex::new(Vec::new());
    on_two_threads(|| {
        loop {
            let Some(case) = cases.lock().unwrap().next() else { return };
            let (start, sink) = (Instant::now(), Arc::new(Sink::default()));
            run_case(&case, &sink, None);
            probes.lock().unwrap().push(Probe { case, seconds: start.elapsed(), sink });
        }
    });
    let mut probes = probes.into_inner().unwrap();
    probes.sort_by_key(|probe| probe.seconds);
    probes
}

/// Every barrier of every shader as the cases have it.
fn barriers(probes: &[Probe]) -> Vec<(String, Mutation)> {
    let mut most = BTreeMap::new();
    for probe in probes {
        for (key, count) in probe.sink.barriers.lock().unwrap().iter() {
            let known = most.entry(key.clone()).or_insert(0);
            *known = (*count).max(*known);
        }
    }
    let mut mutations = Vec::new();
    for ((shader, what), count) in most {
        for n in 0..count {
            let mutation = Mutation { shader: shader.clone(), from: format!("{what};"), to: String::new(), nth: Some(n) };
            mutations.push((format!("{shader} without {what} {n}"), mutation));
        }
    }
    mutations
}

fn edits(of: &[(&str, &str, &str)]) -> impl Iterator<Item = (String, Mutation)> {
    of.iter().map(|&(shader, from, to)| {
        let mutation = Mutation { shader: shader.into(), from: from.into(), to: to.into(), nth: None };
        let shader = if shader.is_empty() { "every shader" } else { shader };
        (format!("{shader}: `{from}` as `{to}`"), mutation)
    })
}

enum Outcome {
    Noticed(Vec<Finding>, String),
    /// In as many cases.
    NotNoticed(usize),
    NoSuchText,
}

/// One case after the other until the mistake is seen.
fn look<'a>(mutation: &Mutation, probes: impl Iterator<Item = &'a Probe>) -> Outcome {
    let mut tried = 0;
    let runs = |probe: &&Probe| mutation.shader.is_empty() || probe.sink.ran.lock().unwrap().contains_key(&mutation.shader);
    for probe in probes.filter(runs) {
        let sink = Arc::new(Sink::default());
        run_case(&probe.case, &sink, Some(mutation.clone()));
        if !sink.mutated.load(Ordering::Relaxed) {
            continue;
        }
        tried += 1;
        let clean = probe.sink.all();
        let new = |f: &Finding| !clean.iter().any(|c| c.kind == f.kind && c.shader == f.shader);
        let found: Vec<Finding> = sink.all().into_iter().filter(new).collect();
        if !found.is_empty() {
            return Outcome::Noticed(found, probe.case.name.clone());
        }
    }
    if tried == 0 { Outcome::NoSuchText } else { Outcome::NotNoticed(tried) }
}

/// How many mistakes are not noticed, of those whose names contain `only`; with `quick` of every third one.
pub fn run(seed: u64, quick: bool, verbose: bool, only: &str) -> usize {
    let probes = probes(seed);
    for finding in probes.iter().flat_map(|probe| probe.sink.all()).filter(|f| f.kind.fails()) {
        println!("with no mistake: {finding}");
    }
    let mut mutations: Vec<_> = barriers(&probes).into_iter().chain(edits(EDITS)).map(|m| (m, false)).collect();
    mutations.extend(edits(ARITHMETIC).map(|m| (m, true)));
    mutations.retain(|((name, _), _)| name.contains(only));
    if quick {
        mutations = mutations.into_iter().enumerate().filter(|(k, _)| k % 3 == seed as usize % 3).map(|(_, m)| m).collect();
    }
    let (noticed, tried) = (Mutex::new(0), mutations.len());
    let (missed, rest) = (Mutex::new(0), Mutex::new(mutations.into_iter()));
    on_two_threads(|| {
        loop {
            let Some(((name, mutation), rewritten)) = rest.lock().unwrap().next() else { return };
            let probes = probes.iter().filter(|probe| probe.case.device.config.loose.is_some() == rewritten);
            match look(&mutation, probes) {
                Outcome::Noticed(found, case) => {
                    *noticed.lock().unwrap() += 1;
                    let mut kinds: Vec<&str> = found.iter().map(|f| f.kind.text()).collect();
                    kinds.dedup();
                    if verbose {
                        println!("{name}: {} ({case})", kinds.join("; "));
                        found.iter().filter(|f| f.kind != Kind::Value).for_each(|finding| println!("{finding}"));
                    }
                }
                Outcome::NotNoticed(_) if SPARE.iter().any(|(of, _)| *of == name) => {
                    println!("{name}: not noticed, as expected");
                }
                outcome => {
                    *missed.lock().unwrap() += 1;
                    match outcome {
                        Outcome::NotNoticed(tried) => println!("{name}: NOT NOTICED in {tried} cases"),
                        _ => println!("{name}: NO SUCH TEXT"),
                    }
                }
            }
        }
    });
    println!("detector: {} of {tried} mistakes in the crate's shaders are noticed", noticed.into_inner().unwrap());
    missed.into_inner().unwrap()
}
