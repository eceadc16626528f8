//! Batches: many matrices in one dispatch.

use faer::{Mat, MatRef};
use num_complex::Complex;
use svdvals_gpu::{Element, HalfStorage, Reduction, SvdOptions, svd_batch_report, svdvals_batch_report};

use super::{
    Call, Done, Env, Trouble,
    compare::{compare, doubles, matrix, tolerance},
    values::on_cpu,
};
use crate::{
    common::{Spectrum, complex_with_singular_values, error, rounded, with_singular_values},
    vectors::ratios,
};

/// Shapes that fit the workgroup memory of every device, and some that do not fit 4 KiB.
pub const SMALL: [(usize, usize); 8] = [(1, 1), (7, 9), (20, 20), (2, 30), (16, 16), (17, 3), (5, 5), (9, 8)];
pub const LARGE: [(usize, usize); 6] = [(24, 24), (3, 3), (70, 20), (36, 40), (8, 8), (70, 2)];
/// More matrices than a narrow grid has columns.
pub const MANY: [(usize, usize); 40] = [(4, 3); 40];

fn options(env: &Env, half: HalfStorage) -> SvdOptions {
    env.options().half_storage(half)
}

/// The values of matrices of these shapes, all of which the device must compute together.
pub fn batch<T: Element>(env: &Env, call: Call, shapes: &[(usize, usize)]) -> Done {
    let half = call.half.for_element::<T>();
    let of_all = shapes.iter().zip(0..).map(|(&(m, n), k)| matrix::<T>(m, n, env.seed + k));
    // And one whose reflectors are all the identity.
    let unit = Mat::from_fn(9, 6, |i, j| T::from_complex(Complex::from(if i == j { (1 + i) as f64 } else { 0.0 })));
    let batch: Vec<Mat<T>> = of_all.chain([unit]).collect();
    let views: Vec<MatRef<'_, T>> = batch.iter().map(|a| a.as_ref()).collect();
    let report = svdvals_batch_report(&views, &options(env, half))?;
    if report.together != batch.len() {
        return Err(Trouble::Wrong(format!("{report}")));
    }
    for (a, values) in batch.iter().zip(&report.values) {
        let what = format!("{:?} of a batch", a.shape());
        compare(&what, &doubles(values.iter().copied()), &on_cpu(a)?, tolerance::<T>(half))?;
    }
    Ok(())
}

/// `body` of some matrices of the call's shape and memory order.
fn stack<T: Element, R>(env: &Env, call: Call, count: u64, body: impl FnOnce(&[MatRef<'_, T>]) -> R) -> R {
    let batch: Vec<Mat<T>> = (0..count).map(|k| matrix::<T>(call.m, call.n, env.seed + 20 + k)).collect();
    let turned: Vec<Mat<T>> = batch.iter().map(|a| Mat::from_fn(a.ncols(), a.nrows(), |i, j| a[(j, i)])).collect();
    let views: Vec<MatRef<'_, T>> = match call.by_rows {
        true => turned.iter().map(|a| a.transpose()).collect(),
        false => batch.iter().map(|a| a.as_ref()).collect(),
    };
    body(&views)
}

/// The decompositions of two matrices of one shape in shared dispatches of two stages: residual and orthogonality at most max(m, n) eps each.
pub fn stacked_vectors<T: Element>(env: &Env, call: Call) -> Done {
    stack::<T, _>(env, call, 2, |batch| vectors_of_stack(env, call, batch))
}

/// The same of matrices of rank 1, whose left vectors are completed.
pub fn stacked_rank_1<T: Element>(env: &Env, call: Call) -> Done {
    let entry = |k: usize, i: usize, j: usize| T::from_complex(Complex::from((1 + k + i) as f64 * (2 + j) as f64));
    let batch: Vec<Mat<T>> = (0..2).map(|k| Mat::from_fn(call.m, call.n, |i, j| entry(k, i, j))).collect();
    vectors_of_stack(env, call, &batch.iter().map(|a| a.as_ref()).collect::<Vec<_>>())
}

fn vectors_of_stack<T: Element>(env: &Env, call: Call, batch: &[MatRef<'_, T>]) -> Done {
    let report = svd_batch_report(batch, &call.options::<T>(env).reduction(Reduction::TwoStage))?;
    if report.stacked != batch.len() {
        return Err(Trouble::Wrong(format!("{report}")));
    }
    for (&a, svd) in batch.iter().zip(&report.values) {
        let found = ratios(a, svd);
        if !found.iter().all(|ratio| *ratio <= 1.0) {
            return Err(Trouble::Wrong(format!("{:?} of a stack: ratios {found:.3?}", a.shape())));
        }
    }
    Ok(())
}

/// The values of three matrices of one shape in shared dispatches of two stages.
pub fn stacked<T: Element>(env: &Env, call: Call) -> Done {
    stack::<T, _>(env, call, 3, |batch| values_of_stack(env, call, batch))
}

fn values_of_stack<T: Element>(env: &Env, call: Call, batch: &[MatRef<'_, T>]) -> Done {
    let report = svdvals_batch_report(batch, &call.options::<T>(env).reduction(Reduction::TwoStage))?;
    if report.stacked != batch.len() {
        return Err(Trouble::Wrong(format!("{report}")));
    }
    for (a, values) in batch.iter().zip(&report.values) {
        let a = Mat::from_fn(a.nrows(), a.ncols(), |i, j| a[(i, j)]);
        compare("a matrix of a stack", &doubles(values.iter().copied()), &on_cpu(&a)?, tolerance::<T>(call.half))?;
    }
    Ok(())
}

/// The decompositions of matrices of these shapes, and of one of rank 1, all of which the device must compute together: residual and orthogonality
/// at most max(m, n) eps each.
pub fn batch_vectors<T: Element>(env: &Env, _: Call, shapes: &[(usize, usize)]) -> Done {
    let of_all = shapes.iter().zip(0..).map(|(&(m, n), k)| matrix::<T>(m, n, env.seed + k));
    let one = Mat::from_fn(7, 5, |i, j| T::from_complex(Complex::from((1 + i * j % 3) as f64)));
    let batch: Vec<Mat<T>> = of_all.chain([one]).collect();
    let views: Vec<MatRef<'_, T>> = batch.iter().map(|a| a.as_ref()).collect();
    let report = svd_batch_report(&views, &env.options())?;
    if report.together != batch.len() {
        return Err(Trouble::Wrong(format!("{report}")));
    }
    for (a, svd) in batch.iter().zip(&report.values) {
        let found = ratios(a.as_ref(), svd);
        let bound = if a.nrows().max(a.ncols()) == 1 { 2.0 } else { 1.0 };
        if !found.iter().all(|ratio| *ratio <= bound) {
            return Err(Trouble::Wrong(format!("{:?} of a batch: ratios {found:.3?}", a.shape())));
        }
    }
    Ok(())
}

/// Table 1 of the unified-kernels paper, f32 and n = 64, and twice that for complex numbers.
pub fn batch_accuracy<T: Element>(env: &Env) -> Done {
    let complex = T::NAME.starts_with('c');
    let bound = if complex { 2.0 * 9.6e-8 } else { 9.6e-8 };
    let mut sigmas = Spectrum::ALL.map(|spectrum| spectrum.values(64));
    let of = |sigma: &mut Vec<f64>| match complex {
        true => rounded(complex_with_singular_values(sigma, env.seed).as_ref()),
        false => rounded(with_singular_values(sigma, env.seed).as_ref()),
    };
    let batch: Vec<Mat<T>> = sigmas.iter_mut().map(of).collect();
    let views: Vec<MatRef<'_, T>> = batch.iter().map(|a| a.as_ref()).collect();
    let report = svdvals_batch_report(&views, &options(env, HalfStorage::Single))?;
    for (sigma, values) in sigmas.iter().zip(&report.values) {
        let off = error(doubles(values.iter().copied()), sigma);
        if off.is_nan() || off > bound {
            return Err(Trouble::Wrong(format!("batch: error {off:.2e} of {bound:.1e}")));
        }
    }
    Ok(())
}
