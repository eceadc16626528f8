//! Absurd numbers: every hyperparameter and option, at values that nobody can mean, gives the right answer or an error that names it.

use std::time::{Duration, Instant};

use faer::Mat;
use svdvals_gpu::{
    Backend, GpuContext, GpuMatrix, LstsqGpu, LstsqOptions, QrGpu, SvdError, SvdGpu, SvdOptions, SvdValsGpu, Tuning,
    svdvals_batch,
};

use crate::{
    Outcome,
    absurd_numbers::{NUMBERS, OF_CPU, OF_GPU},
    check,
    common::{error, gaussian, reference, stable},
    tuning,
};

/// The result of `body`. A software driver compiles kernels for new hyperparameters, which takes most of the time that it is given.
fn soon<R>(what: &str, body: impl FnOnce() -> R) -> Result<R, String> {
    let start = Instant::now();
    let result = body();
    if start.elapsed() < Duration::from_secs(20) { Ok(result) } else { Err(format!("{what}: {:?}", start.elapsed())) }
}

/// Every hyperparameter alone, for values, vectors, factors and solutions of matrices on the host and on the device.
pub fn hyperparameters() -> Outcome {
    let context = GpuContext::global()?;
    let a: Mat<f32> = gaussian(40, 24, 7);
    let (b, there) = (gaussian::<f32>(40, 1, 9), GpuMatrix::upload(&context, &a)?);
    let exact = reference(a.as_ref());
    for (name, set) in OF_CPU.into_iter().chain(OF_GPU) {
        for value in NUMBERS {
            let what = format!("{name} = {value}");
            let with = set(tuning(8, 16), value);
            let call = SvdOptions::default().backend(Backend::Gpu).context(context.clone()).tuning(with.clone());
            // A check of the device alone is as strict, for matrices no smaller than a tile.
            let checked = soon(&what, || with.check_for_adapter::<f32>(&context))?;
            let off = |found: svdvals_gpu::Result<faer::Col<f32>>| found.map(|values| error(values.iter().copied(), &exact));
            let mut found = vec![
                soon(&what, || off(a.svdvals_gpu_with(&call)))?,
                soon(&what, || off(there.svdvals(&call).map(|values| values.into_iter().collect())))?,
            ];
            // Where the values run, so may all others; some of them need more of the device.
            found.push(soon(&what, || off(a.svd_gpu_with(&call).map(|svd| svd.s)))?);
            found.push(soon(&what, || off(svdvals_batch(&[a.as_ref()], &call).map(|mut all| all.remove(0))))?);
            found.push(soon(&what, || a.qr_r_gpu_with(&call.run.clone().into()).map(|_| 0.0))?);
            found.push(soon(&what, || a.lstsq_gpu_with(&b, &call.run.clone().into()).map(|_| 0.0))?);
            for (k, found) in found.into_iter().enumerate() {
                match found {
                    Ok(off) => check!(off <= stable::<f32>(40), "{what}, {k}: {off:.1e}"),
                    Err(SvdError::InvalidOption { option, reason }) => {
                        check!([name, "leaf"].contains(&option) && reason.len() > 8, "{what}, {k}: {option}, {reason}");
                    }
                    Err(SvdError::TooLarge { .. }) => {}
                    Err(error) => return Err(format!("{what}, {k}: {error}").into()),
                }
            }
            if let Err(error) = checked {
                check!(matches!(error, SvdError::InvalidOption { .. }), "{what}: {error}");
            }
        }
    }
    Ok(())
}

/// The bytes that shapes need are counted, or too many; threads and ridges are limited as they are on the host.
pub fn arguments() -> Outcome {
    let context = GpuContext::global()?;
    for (m, n) in NUMBERS.into_iter().flat_map(|m| NUMBERS.into_iter().map(move |n| (m, n))) {
        let options = SvdOptions::default();
        let what = format!("{m} x {n}");
        for bytes in [
            soon(&what, || context.required_bytes::<f32>(m, n, &options))?,
            soon(&what, || context.required_svd_bytes::<f32>(m, n, &options))?,
        ] {
            check!(matches!(bytes, Ok(_) | Err(SvdError::TooLarge { .. })), "{what}: {bytes:?}");
        }
        soon(&what, || Tuning::for_adapter::<f32>(&context, m))?;
    }
    let a: Mat<f32> = gaussian(40, 24, 7);
    let [there, b] = [&a, &gaussian::<f32>(40, 1, 9)].map(|x| GpuMatrix::upload(&context, x));
    let (there, b) = (there?, b?);
    let on = SvdOptions::default().backend(Backend::Gpu).context(context.clone());
    let option = |found: svdvals_gpu::Result<()>| match found {
        Err(SvdError::InvalidOption { option, .. }) => option,
        Err(_) => "another error",
        Ok(()) => "",
    };
    for threads in [0, 20_000, 1_000_000, usize::MAX] {
        let on = on.clone().threads(threads);
        check!(option(a.svdvals_gpu_with(&on).map(drop)) == "threads", "{threads} threads");
        check!(option(there.qr(&on.run.clone().into()).map(drop)) == "threads", "{threads} threads");
        check!(option(there.lstsq(&b, &on.run.clone().into()).map(drop)) == "threads", "{threads} threads");
    }
    let right = gaussian::<f32>(40, 1, 9);
    for ridge in [-1.0, f64::NAN, f64::INFINITY, 1e113, 1e300, f64::MAX] {
        let on = LstsqOptions::from(on.run.clone()).ridge(ridge);
        check!(option(there.lstsq(&b, &on).map(drop)) == "ridge", "{ridge:e}, on the device");
        check!(option(a.lstsq_gpu_with(&right, &on).map(drop)) == "ridge", "{ridge:e}");
    }
    for ridge in [5e-324f64, 1e20, 1e60, 1e111] {
        let on = LstsqOptions::from(on.run.clone()).ridge(ridge);
        check!(option(there.lstsq(&b, &on).map(drop)).is_empty(), "{ridge:e}, on the device");
        let x = a.lstsq_gpu_with(&right, &on)?.x;
        // The error of a backward stable method, beside a solution of about 1 / ridge.
        let most = 1.0 / ridge.max(1e-3) + 1e-5 / ridge.max(1e-10).sqrt() + 1e-30;
        check!(ridge < 1.0 || f64::from(x.norm_max()) <= 100.0 * most, "{ridge:e}: {:e}", x.norm_max());
    }
    Ok(())
}
