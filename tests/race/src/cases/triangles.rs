//! Triangular products and solves.

use faer::Mat;
use num_complex::Complex;
use svdvals_gpu::{
    Backend, Element, GpuMatrix, HalfStorage, RunOptions,
    triangular::{Diag, Op, Side, TriangularGpu, Uplo},
};

use super::{
    Call, Done, Env,
    compare::{compare, matrix, tolerance},
    in_order,
};

#[derive(Clone, Copy, Debug)]
pub struct Variant {
    pub side: Side,
    pub uplo: Uplo,
    pub op: Op,
    pub diag: Diag,
    pub solve: bool,
}

/// trmm or trsm of an order x order triangle and `call.n` columns, by way of the host or (`resident`) on the device.
pub fn triangular<T: Element>(env: &Env, call: Call, variant: Variant, resident: bool) -> Done {
    let Variant { side, uplo, op, diag, solve } = variant;
    let (order, k) = (call.m, call.n);
    let a = matrix::<T>(order, order, env.seed + 5);
    // Well conditioned, and with junk where nobody should look.
    let junk = Complex::new(f64::NAN, f64::NAN);
    let a = Mat::<T>::from_fn(order, order, |i, j| {
        let x = a[(i, j)].to_complex();
        let unread = match uplo {
            Uplo::Lower => j > i,
            Uplo::Upper => i > j,
        };
        T::from_complex(if i == j && diag == Diag::Unit || unread {
            junk
        } else if i == j {
            x / x.norm().max(1e-3) * 2.0
        } else {
            x / (2.0 * order as f64)
        })
    });
    let (rows, cols) = if side == Side::Left { (order, k) } else { (k, order) };
    let b = matrix::<T>(rows, cols, env.seed + 6);
    let alpha = T::from_complex(Complex::new(1.5, -0.5));
    let options = call.options::<T>(env).run.half_storage(HalfStorage::Single);
    let cpu = RunOptions::default().backend(Backend::Cpu);
    let mut wanted = b.clone();
    if solve {
        wanted.trsm_gpu_with(side, uplo, op, diag, alpha, &a, &cpu)?;
    } else {
        wanted.trmm_gpu_with(side, uplo, op, diag, alpha, &a, &cpu)?;
    }
    let got: Mat<T> = if resident {
        let here = in_order(&a, call.by_rows, |a| GpuMatrix::upload(&env.context, &a))?;
        let mut there = in_order(&b, !call.by_rows, |b| GpuMatrix::upload(&env.context, &b))?;
        if solve {
            there.trsm_gpu_with(side, uplo, op, diag, alpha, &here, &options)?;
        } else {
            there.trmm_gpu_with(side, uplo, op, diag, alpha, &here, &options)?;
        }
        there.to_mat()?
    } else {
        let mut transposed = Mat::from_fn(cols, rows, |i, j| b[(j, i)]);
        let mut straight = b.clone();
        let mut b = if call.by_rows { transposed.as_mut().transpose_mut() } else { straight.as_mut() };
        in_order(&a, call.by_rows, |a| {
            if solve {
                b.trsm_gpu_with(side, uplo, op, diag, alpha, &a, &options)
            } else {
                b.trmm_gpu_with(side, uplo, op, diag, alpha, &a, &options)
            }
        })?;
        Mat::from_fn(rows, cols, |i, j| b[(i, j)])
    };
    let flat = |m: &Mat<T>| -> Vec<f64> {
        (0..cols).flat_map(|j| (0..rows).map(move |i| (i, j))).map(|at| m[at].to_complex()).flat_map(|x| [x.re, x.im]).collect()
    };
    let rounding = match T::NAME {
        name if name.contains("bf16") => 1e-2,
        name if name.contains("f16") => 2e-3,
        _ => tolerance::<T>(HalfStorage::Single),
    };
    compare(&format!("{variant:?}"), &flat(&got), &flat(&wanted), rounding)
}

pub fn variants() -> Vec<Variant> {
    let mut all = Vec::new();
    for solve in [false, true] {
        for side in [Side::Left, Side::Right] {
            for uplo in [Uplo::Lower, Uplo::Upper] {
                for op in [Op::NoTrans, Op::Trans, Op::ConjTrans] {
                    for diag in [Diag::NonUnit, Diag::Unit] {
                        all.push(Variant { side, uplo, op, diag, solve });
                    }
                }
            }
        }
    }
    all
}
