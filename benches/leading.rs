//! Leading singular triples to an accuracy beside the whole reduction, on the CPU. `benches/leading_peers.py` times scikit-learn and SciPy on the same
//! matrices.
//!
//! ```text
//! cargo bench --bench leading
//! cargo bench --bench leading -- gpu 4096 64       on a GPU: order and triples; from the host's memory, and from a matrix that is there
//! ```
//!
//! Dense: C S C P for the Hartley matrix C, S = diag(1 / i) or diag(1 / sqrt(i)), and column j of P at 5 j + 3 modulo n. Sparse: 12 entries in each row i, at
//! columns i^2 + 7919 t (i mod 97 + 1) modulo n, with values 1 / ((1 + t) sqrt(1 + i mod 1000)).

#[path = "../examples/shared/mod.rs"]
mod shared;
mod turns;

use std::{hint::black_box, process::ExitCode};

use faer::{
    Mat,
    sparse::{SparseColMat, Triplet},
};
use svdvals_gpu::{Backend, GpuContext, GpuMatrix, SvdGpu, SvdOptions, leading_svd};

use turns::{on_cpu, take_turns};

/// The dense matrices on a GPU. Vectors of a matrix there stay there; a call returns when they are computed.
fn on_gpu(n: usize, k: usize) -> svdvals_gpu::Result<()> {
    let context = GpuContext::global()?;
    println!("{}; medians in seconds: called on the host, on the device, and the whole reduction there", context.adapter_name());
    for (name, power) in [("1/i", 1.0), ("1/sqrt i", 0.5)] {
        let a = dense(n, power);
        let there = GpuMatrix::upload(&context, &a)?;
        for accuracy in [1e-3, 1e-6] {
            let few = SvdOptions::default().backend(Backend::Gpu).context(context.clone()).keep(k).accuracy(accuracy);
            let resident = SvdOptions::default().keep(k).accuracy(accuracy);
            let report = a.svd_gpu_report(&few)?;
            let [here, on_device, whole] = take_turns([
                &mut || drop(black_box(a.svd_gpu_with(&few).expect("a finite matrix"))),
                &mut || drop(black_box(there.svd(&resident).expect("a finite matrix"))),
                &mut || drop(black_box(there.svd(&SvdOptions::default().keep(k)).expect("a finite matrix"))),
            ]);
            println!(
                "f32 {n:>6} x {n:<6} k {k:<3} {name:<9} {accuracy:.0e} {:>9.6} {:>9.6} {:>9.6}   {}",
                here.median,
                on_device.median,
                whole.median,
                report.iteration.map(|iteration| iteration.to_string()).unwrap_or_default(),
            );
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    if words.first().is_some_and(|word| word == "gpu") {
        let number = |at: usize, usual| words.get(at).map_or(Ok(usual), |word| word.parse());
        let (Ok(n), Ok(k)) = (number(1, 4096), number(2, 64)) else {
            eprintln!("usage: leading [gpu [N [K]]]");
            return ExitCode::FAILURE;
        };
        return match on_gpu(n, k) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    println!("{} threads; medians in seconds", rayon::current_num_threads());
    for (n, k) in [(1024, 20), (2048, 20), (4096, 64)] {
        for (name, power) in [("1/i", 1.0), ("1/sqrt i", 0.5)] {
            let a = dense(n, power);
            for accuracy in [1e-3, 1e-6] {
                let few = on_cpu().keep(k).accuracy(accuracy);
                let report = a.svd_gpu_report(&few).expect("a finite matrix");
                let [ours, whole] =
                    take_turns([&mut || drop(black_box(a.svd_gpu_with(&few).expect("a finite matrix"))), &mut || {
                        drop(black_box(a.svd_gpu_with(&on_cpu().keep(k)).expect("a finite matrix")))
                    }]);
                println!(
                    "f32 {n:>6} x {n:<6} k {k:<3} {name:<9} {accuracy:.0e} {:>9.6}   keep {:>6.2}   {}",
                    ours.median,
                    whole.median / ours.median,
                    report.iteration.map(|iteration| iteration.to_string()).unwrap_or_default(),
                );
            }
        }
    }
    for (m, n, k) in [(50_000, 20_000, 20), (200_000, 50_000, 50)] {
        let a = sparse(m, n);
        for accuracy in [1e-3, 1e-6] {
            let options = SvdOptions::default().accuracy(accuracy);
            let svd = leading_svd(&a, k, &options).expect("it converges");
            let [ours] = take_turns([&mut || drop(black_box(leading_svd(&a, k, &options).expect("it converges")))]);
            println!(
                "f64 {m:>6} x {n:<6} k {k:<3} sparse    {accuracy:.0e} {:>9.6}                 {}",
                ours.median, svd.iteration
            );
        }
    }
    ExitCode::SUCCESS
}

fn dense(n: usize, power: f64) -> Mat<f32> {
    let c = Mat::<f32>::from_fn(n, n, |i, j| {
        let angle = std::f64::consts::TAU * ((i * j) % n) as f64 / n as f64;
        ((angle.cos() + angle.sin()) / (n as f64).sqrt()) as f32
    });
    let scaled = Mat::from_fn(n, n, |i, j| c[(i, j)] / ((j + 1) as f64).powf(power) as f32);
    let product = scaled * &c;
    Mat::from_fn(n, n, |i, j| product[(i, (5 * j + 3) % n)])
}

fn sparse(m: usize, n: usize) -> SparseColMat<usize, f64> {
    let entry = |i: usize, t: usize| {
        let value = 1.0 / ((1 + t) as f64 * ((1 + i % 1000) as f64).sqrt());
        Triplet::new(i, (i * i + 7919 * t * (i % 97 + 1)) % n, value)
    };
    let entries: Vec<_> = (0..m).flat_map(|i| (0..12).map(move |t| entry(i, t))).collect();
    SparseColMat::try_new_from_triplets(m, n, &entries).expect("indices are inside")
}
