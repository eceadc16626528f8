//! Singular vectors, the one-stage reduction and QR, with the promises of the crate's own tests.

use faer::{Col, Mat};
use half::bf16;
use num_complex::Complex;
use svdvals_gpu::{
    Band, Element, GpuMatrix, GpuSvd, MatSvd, Number, Orthogonal, QrOptions, Reduction, Route, SvdGpu, SvdOptions, SvdValsGpu,
    Tuning, Vectors, internals::GpuKernels,
};

use super::{
    Call, Done, Env, Trouble,
    compare::{compare, doubles, tolerance},
    in_order,
    values::on_cpu,
};
use crate::{
    common::{Spectrum, complex_with_singular_values, eps, error, rounded, widen, with_singular_values},
    kept,
    krylov_triples::verify,
    qr,
    vectors::{check, matrix, ratios},
};

/// Options, or why the device cannot have them.
fn options<T: Element>(env: &Env, call: Call) -> Result<SvdOptions, Trouble> {
    let options = call.options::<T>(env);
    if let Some(tuning) = &options.run.tuning {
        tuning.check_for_adapter::<T::Scalar>(&env.context)?;
    }
    Ok(options)
}

/// What a check says: something is wrong, or a buffer is too large for the device.
fn trouble(why: String) -> Trouble {
    if why.contains("Backend::Cpu has no such limit") { Trouble::Refused(why) } else { Trouble::Wrong(why) }
}

/// A = U S V^H: residual and orthogonality at most max(m, n) eps each.
pub fn decomposition<T: Element>(env: &Env, call: Call, kind: &str, vectors: Vectors, reduction: Reduction) -> Done {
    let options = options::<T>(env, call)?.vectors(vectors).reduction(reduction);
    let a = matrix::<T>(kind, call.m, call.n);
    in_order(&a, call.by_rows, |a| check(kind, a, &options)).map(drop).map_err(trouble)
}

/// The same where arithmetic is rewritten: values with and without vectors come from shaders of their own, and may differ. With an odd seed the
/// call is awaited.
pub fn rewritten<T: Element>(env: &Env, call: Call, kind: &str, reduction: Reduction) -> Done {
    let options = options::<T>(env, call)?.reduction(reduction);
    let a = matrix::<T>(kind, call.m, call.n);
    let svd = in_order(&a, call.by_rows, |a| match env.seed % 2 {
        0 => a.svd_gpu_with(&options),
        _ => pollster::block_on(a.svd_gpu_async(&options)),
    })?;
    within(kind, ratios(a.as_ref(), &svd), call.m.max(call.n))
}

fn within(what: &str, ratios: [f64; 3], size: usize) -> Done {
    let bound = if size == 1 { 2.0 } else { 1.0 };
    if ratios.iter().all(|ratio| *ratio <= bound) { Ok(()) } else { Err(Trouble::Wrong(format!("{what}: ratios {ratios:.3?}"))) }
}

/// The same, of a matrix on the device.
pub fn resident_vectors<T: Element>(env: &Env, call: Call, reduction: Reduction) -> Done {
    let options = options::<T>(env, call)?.reduction(reduction);
    let a = matrix::<T>("random", call.m, call.n);
    let there = in_order(&a, call.by_rows, |a| GpuMatrix::upload(&env.context, &a))?;
    let GpuSvd { u, s, v, .. } = there.svd(&options)?;
    let svd = MatSvd { u: u.to_mat()?, s: Col::from_fn(s.len(), |j| s[j]), v: v.to_mat()?, residuals: None };
    within("resident", ratios(a.as_ref(), &svd), call.m.max(call.n))
}

/// Leading triples to an accuracy, by products with blocks; both of the types that are held in two bytes.
pub fn leading<T: Element>(env: &Env, call: Call, kind: &str) -> Done {
    if T::NAME == "f16" {
        leading::<bf16>(env, call, kind)?;
    }
    let options = options::<T>(env, call)?.keep(2).accuracy(0.1);
    let a = matrix::<T>(kind, call.m, call.n);
    let report = in_order(&a, call.by_rows, |a| a.svd_gpu_report(&options))?;
    match report.iteration {
        Some(iteration) if !iteration.reduced => verify(a.as_ref(), &report.values, iteration, 0.1).map_err(Trouble::Wrong),
        other => Err(Trouble::Wrong(format!("no iteration: {other:?}"))),
    }
}

/// The same, of a band.
pub fn band_vectors<T: Element>(env: &Env, call: Call, bandwidth: usize) -> Done {
    let options = options::<T>(env, call)?;
    let n = call.n;
    let a = matrix::<T::Scalar>("random", n, n);
    // A bidiagonal of ones: both halves have the same values, which divide and conquer deflates by rotations.
    let one = <T::Scalar as Number>::from_complex(Complex::new(1.0, 0.0));
    let band = Band::from_fn(n, bandwidth.min(n - 1), |i, j| if bandwidth == 1 { one } else { a[(i, j)] })?;
    let (u, s, v) = band.svd(&options)?;
    within("band", ratios(band.to_mat().as_ref(), &MatSvd { u, s: Col::from_fn(s.len(), |j| s[j]), v, residuals: None }), n)
}

/// Singular values by the one-stage reduction.
pub fn one_stage<T: Element>(env: &Env, call: Call) -> Done {
    let options = options::<T>(env, call)?.reduction(Reduction::OneStage);
    let a = matrix::<T>("random", call.m, call.n);
    let values = in_order(&a, call.by_rows, |a| a.svdvals_gpu_with(&options))?;
    compare("singular values", &doubles(values.iter().copied()), &on_cpu(&a)?, tolerance::<T>(call.half))
}

/// A = Q R, and Q applied.
pub fn orthogonal<T: Element>(env: &Env, call: Call, kind: &str, pivot: bool) -> Done {
    let options = QrOptions::from(options::<T>(env, call)?.run).pivot(pivot);
    let a = matrix::<T>(kind, call.m, call.n);
    in_order(&a, call.by_rows, |a| qr::check(kind, a, &options).map(drop).map_err(trouble))
}

/// A = Q R of a matrix on the device, whose R is a triangle: the residual and the orthogonality are at most max(m, n) eps each.
pub fn resident_factors<T: Element>(env: &Env, call: Call) -> Done {
    let options = QrOptions::from(options::<T>(env, call)?.run);
    let a = matrix::<T>("random", call.m, call.n);
    let report = in_order(&a, call.by_rows, |a| GpuMatrix::upload(&env.context, &a))?.qr_report(&options)?;
    // Else a wrong factor would be found to be far from orthonormal, and reflectors would take its place.
    let route = if call.m > 10 * call.n { Orthogonal::Cholesky } else { Orthogonal::Householder };
    if report.route != Route::Qr(route) {
        return Err(Trouble::Wrong(format!("{}, not {route:?}", report.route)));
    }
    let there = report.values;
    let (q, r) = (widen(there.thin_q()?.to_mat()?.as_ref()), widen(there.r()?.to_mat()?.as_ref()));
    if let Some(j) = (0..r.ncols()).find(|&j| (j + 1..r.nrows()).any(|i| r[(i, j)] != Complex::ZERO)) {
        return Err(Trouble::Wrong(format!("R has entries below its diagonal in column {j}")));
    }
    let residual = (&q * &r - widen(a.as_ref())).norm_l2() / r.norm_l2();
    let orthogonality = (q.adjoint() * &q - Mat::<Complex<f64>>::identity(q.ncols(), q.ncols())).norm_l2();
    within("resident", [residual, orthogonality, 0.0].map(|x| x / (call.m.max(call.n) as f64 * eps::<T>())), call.m.max(call.n))
}

/// The reflectors of both stages, applied in both orders.
pub fn reflectors(env: &Env) -> Done {
    let fits = |tuning: &Tuning| tuning.check_for_adapter::<f32>(&env.context).is_ok();
    let kernels = |tuning: &Tuning| GpuKernels::new::<f32>(&env.context, tuning);
    kept::factors_give_the_matrix_back::<f32, _>(kernels, fits, 0.0).map_err(trouble)
}

/// Those of stage 1 with deferred updates, of panels of one to three levels.
pub fn deferred_reflectors<T: Element>(env: &Env) -> Done {
    let tuning = Tuning::for_cpu::<f32>(64).tile_size(8).leaf(16).split_k(4).cols_per_block(12).deferred_columns(32);
    let kernels = GpuKernels::new::<T>(&env.context, &tuning).map_err(Trouble::from)?;
    kept::stage_1_factors::<T, _>(&kernels, (43, 37), &tuning, 0.0).map_err(trouble)
}

/// Singular values with the errors of Table 1 of the unified-kernels paper, f32 and n = 64, and twice that for complex numbers.
pub fn accuracy<T: Element>(env: &Env, call: Call) -> Done {
    let options = options::<T>(env, call)?;
    let complex = T::NAME.starts_with('c');
    let bound = if complex { 2.0 * 9.6e-8 } else { 9.6e-8 };
    for spectrum in Spectrum::ALL {
        let mut sigma = spectrum.values(call.n);
        let a: Mat<T> = if complex {
            rounded(complex_with_singular_values(&mut sigma, env.seed).as_ref())
        } else {
            rounded(with_singular_values(&mut sigma, env.seed).as_ref())
        };
        let values = in_order(&a, call.by_rows, |a| a.svdvals_gpu_with(&options))?;
        let off = error(doubles(values.iter().copied()), &sigma);
        if off.is_nan() || off > bound {
            return Err(Trouble::Wrong(format!("{spectrum:?}: error {off:.2e} of {bound:.1e}")));
        }
    }
    Ok(())
}
