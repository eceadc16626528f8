//! Leading triples to an accuracy (`tests/common/krylov.rs`), of matrices on the host and on the device.

use faer::{Col, Mat};
use half::{bf16, f16};
use svdvals_gpu::{
    AdapterChoice, Backend, DeviceLimits, GpuContext, GpuMatrix, HalfStorage, MatSvd, RealElement, Route, SvdError, SvdGpu,
    SvdOptions, Vectors,
};

use crate::{
    Body, Elements, Outcome, check,
    common::eps,
    krylov_triples::{SPECTRA, check as check_one, check_all, check_options, verify, with_spectrum},
};

pub fn trials<T: Elements>() -> Vec<(&'static str, Body)> {
    vec![
        ("triples", triples::<T>),
        ("options", options::<T>),
        ("follows_the_host", follows_the_host::<T>),
        ("triples_stay", triples_stay::<T>),
        ("in_several_buffers", in_several_buffers::<T>),
    ]
}

fn on(context: &GpuContext) -> SvdOptions {
    SvdOptions::default().context(context.clone()).backend(Backend::Gpu)
}

fn triples<T: Elements>(context: &GpuContext) -> Outcome {
    check_all::<T>(&on(context), 200)?;
    if T::NAME == "f32" {
        let options = on(context).keep(6).accuracy(1e-3);
        check_one("f16", with_spectrum::<f16>(220, 200, SPECTRA[0].1).as_ref(), &options)?;
        let a = with_spectrum::<f16>(220, 200, SPECTRA[0].1);
        let report = a.svd_gpu_report(&options)?;
        let stored = if context.supports::<f16>(HalfStorage::Half) { "f16" } else { "f32" };
        check!(report.storage == stored && report.route == Route::Krylov, "{report}");
        // The matrix, and small ones of each step.
        let most = 220 * 200 * if stored == "f16" { 2 } else { 4 } + 400_000;
        check!(report.counts.bytes_uploaded <= most, "{report}");
        // Numbers of f16 below the normal ones are held as others; where there are larger ones beside them than f16 has room for, as f32.
        let small = Mat::from_fn(220, 200, |i, j| f16::from_f64(a[(i, j)].to_f64() / 16384.0));
        check_one("small f16", small.as_ref(), &options)?;
        let report = small.svd_gpu_report(&options)?;
        check!(report.storage == stored, "{report}");
        let wide = Mat::from_fn(220, 200, |i, j| if i == 3 && j == 4 { f16::MAX } else { small[(i, j)] });
        let report = wide.svd_gpu_report(&options)?;
        check!(report.storage == "f32" && report.route == Route::Krylov, "{report}");
        // bf16 needs no feature: both memory orders, an odd number of rows.
        for (m, n) in [(200, 221), (221, 200)] {
            let a = with_spectrum::<bf16>(m, n, SPECTRA[2].1);
            let by_rows = a.transpose().to_owned();
            check_one("bf16", a.as_ref(), &options)?;
            check_one("bf16 by rows", by_rows.transpose(), &options)?;
            let report = a.svd_gpu_report(&options)?;
            check!(report.storage == "bf16" && report.counts.bytes_uploaded <= 2 * 222 * 221 + 400_000, "{report}");
        }
    }
    Ok(())
}

fn options<T: Elements>(context: &GpuContext) -> Outcome {
    Ok(check_options::<T>(&on(context), 200)?)
}

/// From the same columns both backends take as many products, and find the same values up to their residuals' squares and rounding.
fn follows_the_host<T: Elements>(context: &GpuContext) -> Outcome {
    for (m, n) in [(230, 200), (200, 230)] {
        let a = with_spectrum::<T>(m, n, SPECTRA[0].1);
        let options = SvdOptions::default().keep(5).accuracy(1e-2);
        let here = a.svd_gpu_report(&options.clone().backend(Backend::Cpu))?;
        let there = a.svd_gpu_report(&options.context(context.clone()).backend(Backend::Gpu))?;
        check!(there.route == Route::Krylov && there.adapter.is_some(), "{there}");
        check!(here.iteration.map(|it| it.columns) == there.iteration.map(|it| it.columns), "{here}\n{there}");
        for (x, y) in here.values.s.iter().zip(there.values.s.iter()) {
            let off = (x.to_double() - y.to_double()).abs();
            check!(off <= 1e-4 + m as f64 * eps::<T::Scalar>(), "{x} and {y}");
        }
    }
    Ok(())
}

/// A matrix that needs two buffers cannot be iterated with on the device: it is reduced there.
fn in_several_buffers<T: Elements>(context: &GpuContext) -> Outcome {
    let a = with_spectrum::<T>(460, 200, SPECTRA[0].1);
    let most = (460 * 200 * size_of::<T::Scalar>()) as u64 * 3 / 4;
    let limits =
        if context.limits() == &wgpu::Limits::defaults() { DeviceLimits::WebGpuDefault } else { DeviceLimits::default() };
    let few = GpuContext::new(&AdapterChoice::default().checked(context.is_checked()).limits(limits).max_binding(most))?;
    let report = a.svd_gpu_report(&on(&few).keep(5).accuracy(1e-2))?;
    let iteration = report.iteration.ok_or("no iteration")?;
    check!(iteration.reduced && report.backend == Backend::Gpu, "{report}");
    check!(a.svd_gpu_report(&on(context).keep(5).accuracy(1e-2))?.route == Route::Krylov, "reduced anyway");
    Ok(verify(a.as_ref(), &report.values, iteration, 1e-2)?)
}

/// Triples of a matrix on the device stay there, whether they are iterated for or come from a reduction; values alone, one side, a tolerance; and
/// what is read back is small.
fn triples_stay<T: Elements>(context: &GpuContext) -> Outcome {
    for ((m, n), spectrum, accuracy, reduced) in
        [((230, 200), 2, 1e-2, false), ((200, 230), 0, 1e-2, false), ((210, 200), 6, 1e-9, true)]
    {
        let a = with_spectrum::<T>(m, n, SPECTRA[spectrum].1);
        let there = GpuMatrix::upload(context, &a)?;
        let options = SvdOptions::default().keep(5).accuracy(accuracy);
        let report = there.svd_report(&options)?;
        let iteration = report.iteration.ok_or("no iteration")?;
        check!(iteration.reduced == reduced, "{report}");
        let svd = report.values;
        let col = |x: &[T::Real]| Col::from_fn(x.len(), |i| x[i]);
        let read =
            MatSvd::<T> { u: svd.u.to_mat()?, s: col(&svd.s), v: svd.v.to_mat()?, residuals: svd.residuals.as_deref().map(col) };
        verify(a.as_ref(), &read, iteration, accuracy)?;
        let values = there.svdvals(&options)?;
        check!(values == svd.s, "{values:?}, not {:?}", svd.s);
        let left = there.svd(&options.clone().vectors(Vectors::Left).tolerance(0.4))?;
        let kept = svd.s.iter().filter(|s| s.to_double() >= 0.4 * svd.s[0].to_double()).count();
        check!((left.u.ncols(), left.v.ncols(), left.s.len()) == (kept, 0, kept), "{} columns", left.u.ncols());
        if !reduced {
            let bytes = report.counts.bytes_read_back;
            check!(bytes < (m * n * size_of::<T::Scalar>()) as u64, "{bytes} bytes");
        }
    }
    let mut a = Mat::<T>::from_fn(200, 190, |i, j| T::noise(3, i, j));
    a[(6, 4)] = T::from_complex(f64::NAN.into());
    let options = SvdOptions::default().keep(2).accuracy(0.1);
    for result in [
        a.svd_gpu_with(&options.clone().context(context.clone()).backend(Backend::Gpu)).map(drop),
        GpuMatrix::upload(context, &a)?.svd(&options).map(drop),
    ] {
        check!(matches!(result, Err(SvdError::NonFinite { row: 6, col: 4, .. })), "{result:?}");
    }
    Ok(())
}
