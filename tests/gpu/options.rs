//! On a GPU, every option of every call, of matrices on the host (`tests/common/options.rs`) and on the device.

use faer::Mat;
use svdvals_gpu::{
    Backend, Element, GpuContext, GpuMatrix, LstsqOptions, Preconditioner, Products, QrOptions, RunOptions, Signs, Stage3,
    SvdError, SvdOptions, Vectors,
    triangular::{Diag, Op, Side, TriangularGpu, Uplo},
    wgpu::Features,
};

use crate::{
    Elements, Outcome, check,
    options_of_calls::{Entry, Seen, calls, entries, factor_options, in_place, runs, svd_options, unreported},
    tuning,
};

fn gpu(context: &GpuContext) -> RunOptions {
    RunOptions::default().backend(Backend::Gpu).context(context.clone())
}

fn doubles<R: svdvals_gpu::RealElement>(values: &[R]) -> Vec<f64> {
    values.iter().map(|x| x.to_double()).collect()
}

/// The calls on a matrix of the device.
fn resident<T: Element>(context: &GpuContext) -> Vec<Entry<'_>> {
    let entry = |i: usize, j: usize| T::from_complex((((3 * i + 5 * j * j + i * j) % 17) as f64 / 8.0 - 1.0).into());
    let a = move || GpuMatrix::upload(context, &Mat::from_fn(40, 24, entry));
    let b = move || GpuMatrix::upload(context, &Mat::from_fn(40, 2, move |i, j| entry(i, j + 3)));
    let triangle = move || {
        let entry = move |i: usize, j: usize| if i == j { T::from_complex(4.0.into()) } else { entry(i, j) };
        GpuMatrix::upload(context, &Mat::from_fn(24, 24, entry))
    };
    macro_rules! seen {
        ($report:expr, $values:expr) => {{
            let report = $report;
            let (timed, told, tuning) = (!report.kernel_seconds.is_empty(), report.options.clone(), report.tuning.clone());
            Ok(Seen { values: $values(report.values)?, told: Some(told), tuning: Some(tuning), timed })
        }};
    }
    let dense = |a: &GpuMatrix<T::Scalar>| Ok::<_, SvdError>(entries(&a.to_mat()?));
    vec![
        Entry::new("GpuMatrix::svdvals", move |run| {
            seen!(a()?.svdvals_report(&run.clone().into())?, |s: Vec<T::Real>| Ok::<_, SvdError>(doubles(&s)))
        })
        .storing_half(),
        Entry::new("GpuMatrix::svdvals, unreported", move |run| unreported(doubles(&a()?.svdvals(&run.clone().into())?)))
            .storing_half(),
        Entry::new("GpuMatrix::svd", move |run| {
            seen!(a()?.svd_report(&run.clone().into())?, |svd: svdvals_gpu::GpuSvd<T>| Ok::<_, SvdError>(doubles(&svd.s)))
        }),
        Entry::new("GpuMatrix::qr", move |run| {
            seen!(a()?.qr_report(&run.clone().into())?, |qr: svdvals_gpu::GpuQr<T>| dense(&qr.r()?))
        }),
        Entry::new("GpuMatrix::lstsq", move |run| {
            seen!(a()?.lstsq_report(&b()?, &run.clone().into())?, |fit: svdvals_gpu::GpuLstsq<T>| dense(&fit.x))
        }),
        Entry::new("to_band", move |run| unreported(entries(&a()?.to_band(run)?.to_mat()))).storing_half(),
        Entry::new("GpuBand::band_to_bidiag", move |run| {
            let band = a()?.to_gpu_band(&RunOptions::default().tuning(tuning(8, 16)))?;
            unreported(doubles(&band.band_to_bidiag(run)?.svdvals()?))
        }),
        Entry::new("GpuBand::svdvals", move |run| {
            let band = a()?.to_gpu_band(&RunOptions::default().tuning(tuning(8, 16)))?;
            unreported(doubles(&band.svdvals(&run.clone().into())?))
        }),
        in_place("GpuMatrix::trsm", move |run| {
            let (mut x, one) = (a()?, T::from_complex(1.0.into()));
            x.trsm_gpu_with(Side::Right, Uplo::Upper, Op::NoTrans, Diag::NonUnit, one, &triangle()?, run)?;
            unreported(entries(&x.to_mat()?))
        }),
    ]
}

/// Where and how a call runs.
pub fn of_runs<T: Elements>(context: &GpuContext) -> Outcome {
    let all: Vec<Entry<'_>> = calls::<T>().into_iter().chain(resident::<T>(context)).collect();
    let clock = context.device().features().contains(Features::TIMESTAMP_QUERY);
    runs(&all, &gpu(context), (true, clock), T::IS_HALF, tuning(4, 8).triangle(16));
    Ok(())
}

/// The options of each decomposition; and of what is on the device those that cannot be honoured there.
pub fn of_decompositions(context: &GpuContext) -> Outcome {
    svd_options(&gpu(context), true);
    factor_options(&gpu(context), context.cooperative_matrices().is_ok());
    let a = GpuMatrix::upload(context, &Mat::from_fn(12, 8, |i, j| ((i * 3 + j * j) % 7) as f32))?;
    let (b, band) = (GpuMatrix::upload(context, &Mat::<f32>::zeros(12, 1))?, a.to_gpu_band(&RunOptions::default())?);
    let named = |result: Result<usize, SvdError>, wanted: &str| -> Outcome {
        check!(matches!(&result, Err(SvdError::InvalidOption { option, .. }) if *option == wanted), "{wanted}: {result:?}");
        Ok(())
    };
    let with = SvdOptions::default();
    named(a.svdvals(&with.clone().vectors(Vectors::Left)).map(|s| s.len()), "vectors")?;
    named(a.svdvals(&with.clone().signs(Signs::Largest)).map(|s| s.len()), "signs")?;
    named(a.svdvals(&with.clone().tolerance(2.0)).map(|s| s.len()), "tolerance")?;
    named(a.svd(&with.clone().signs(Signs::Largest)).map(|svd| svd.s.len()), "signs")?;
    named(band.svdvals(&with.clone().reduction(svdvals_gpu::Reduction::OneStage)).map(|s| s.len()), "reduction")?;
    named(band.svdvals(&with.clone().vectors(Vectors::Right)).map(|s| s.len()), "vectors")?;
    check!(a.svdvals(&with.clone().keep(3))?.len() == 3 && band.svdvals(&with.clone().keep(2))?.len() == 2, "keep");
    check!(a.svdvals_report(&with.clone().stage3(Stage3::Device))?.stage3_on_device, "stage 3");
    let products = QrOptions::default().products(Products::Half);
    if context.cooperative_matrices().is_err() {
        named(a.qr(&products).map(|_| 0), "products")?;
        named(a.lstsq(&b, &LstsqOptions::default().products(Products::Half)).map(|fit| fit.rank), "products")?;
    }
    named(a.lstsq(&b, &LstsqOptions::default().preconditioner(Preconditioner::Resident)).map(|fit| fit.rank), "preconditioner")?;
    Ok(())
}
