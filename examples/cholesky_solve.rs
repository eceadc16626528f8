//! Many right-hand sides from one Cholesky factor: A X = B with A = L L^H symmetric and positive definite, in two triangular solves.
//!
//! ```text
//! cargo run --release --example cholesky_solve              a hardware GPU if that is worth it, else the CPU
//! cargo run --release --example cholesky_solve -- gpu       a GPU, a software driver if that is all there is, B staying there
//! cargo run --release --example cholesky_solve -- cpu 2000 512      the CPU; n and the number of right-hand sides
//! ```

use std::{env, error::Error, time::Instant};

use faer::{Mat, Side as Half};
use svdvals_gpu::{
    Backend, GpuContext, GpuMatrix, RunOptions,
    triangular::{Diag, Op, Side, TriangularGpu, Uplo},
};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let backend = match arguments.iter().find(|a| a.parse::<usize>().is_err()).map(String::as_str) {
        None => Backend::Auto,
        Some("gpu") => Backend::Gpu,
        Some("cpu") => Backend::Cpu,
        Some(other) => return Err(format!("unknown argument {other:?}; usage: cholesky_solve [gpu | cpu] [n] [columns]").into()),
    };
    let mut numbers = arguments.iter().filter_map(|a| a.parse().ok());
    let (n, k) = (numbers.next().unwrap_or(400), numbers.next().unwrap_or(200));

    // A covariance of n points on a line, exp(-|i - j| / 20), and k samples.
    let a = Mat::from_fn(n, n, |i, j| (-(i.abs_diff(j) as f64) / 20.0).exp());
    let b = Mat::from_fn(n, k, |i, j| ((3 * i + 7 * j) % 11) as f64 - 5.0);
    let factor = a.llt(Half::Lower).map_err(|e| format!("{e:?}"))?;
    let l = factor.L();

    let start = Instant::now();
    let (lower, non_unit) = (Uplo::Lower, Diag::NonUnit);
    let x = if backend == Backend::Gpu {
        // L and B travel once, X comes back once, and what is between stays there.
        let context = GpuContext::global()?;
        println!("on {}", context.adapter_name());
        let (l, mut x) = (GpuMatrix::upload(&context, &l)?, GpuMatrix::upload(&context, &b)?);
        x.trsm_gpu(Side::Left, lower, Op::NoTrans, non_unit, 1.0, &l)?; // L Y = B
        x.trsm_gpu(Side::Left, lower, Op::ConjTrans, non_unit, 1.0, &l)?; // L^H X = Y
        x.to_mat()?
    } else {
        let options = RunOptions::default().backend(backend);
        let mut x = b.clone();
        x.trsm_gpu_with(Side::Left, lower, Op::NoTrans, non_unit, 1.0, &l, &options)?;
        x.trsm_gpu_with(Side::Left, lower, Op::ConjTrans, non_unit, 1.0, &l, &options)?;
        x
    };
    println!("{k} right-hand sides of order {n}: {:.4} s", start.elapsed().as_secs_f64());

    let residual = (&a * &x - &b).norm_l2() / (a.norm_l2() * x.norm_l2());
    println!("||A X - B|| / (||A|| ||X||) = {residual:.1e}");
    if residual > n as f64 * f64::EPSILON {
        return Err("that is more than n eps".into());
    }
    Ok(())
}
