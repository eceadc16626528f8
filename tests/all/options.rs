//! On the CPU, every option of every call: see `tests/common/options.rs`.

use faer::Mat;
use half::f16;
use svdvals_gpu::{Backend, Element, RealElement, RowBlocks, RunOptions, SvdError, SvdValsGpu, Tuning};

use crate::options_of_calls::{Entry, calls, factor_options, runs, svd_options, unreported};

fn cpu() -> RunOptions {
    RunOptions::default().backend(Backend::Cpu)
}

/// A matrix of which only the triangle is kept.
fn row_blocks<T: Element>() -> Entry<'static> {
    let of = |run: &RunOptions| {
        let mut rows = RowBlocks::<T>::new(6)?.with_run(run)?;
        rows.push(&Mat::from_fn(30, 6, |i, j| T::from_complex((((i + 2 * j * i) % 7) as f64).into())))?;
        unreported(rows.finish_faer()?.s.iter().map(|s| s.to_double()).collect())
    };
    Entry { on_gpu: false, ..Entry::new("RowBlocks", of) }
}

/// Where and how a call runs.
#[test]
fn options_of_runs() {
    fn of<T: Element>(half: bool) {
        let mut all = calls::<T>();
        all.push(row_blocks::<T>());
        runs(&all, &cpu(), (false, false), half, Tuning::for_cpu::<T>(24).tile_size(4).leaf(8));
    }
    of::<f32>(false);
    of::<f64>(false);
    of::<f16>(true);
}

/// The options of each decomposition.
#[test]
fn options_of_decompositions() {
    svd_options(&cpu(), false);
    factor_options(&cpu(), true);
}

/// A call on the CPU has no use for a GPU. Each error names the option and the call.
#[test]
#[cfg(feature = "gpu")]
fn other_places_are_refused() {
    let context = svdvals_gpu::GpuContext::global().unwrap();
    let rows = row_blocks::<f32>();
    for call in calls::<f32>().iter().chain([&rows]) {
        let error = (call.run)(&cpu().context(context.clone())).map(drop).unwrap_err();
        assert!(matches!(error, SvdError::InvalidOption { option: "context", .. }), "{}: {error}", call.name);
    }
}

/// The report says which options were not their defaults, and nothing of those that were.
#[test]
fn reports_name_what_was_chosen() {
    let a = faer::Mat::from_fn(9, 5, |i, j| ((i + 2 * j) % 4) as f64);
    let report = a.svdvals_gpu_report(&svdvals_gpu::SvdOptions::default()).unwrap();
    assert!(report.options.is_empty() && !report.to_string().contains("options"), "{report}");
    let report = a.svdvals_gpu_report(&svdvals_gpu::SvdOptions::from(cpu().threads(1)).keep(2)).unwrap();
    assert_eq!(report.options, "keep 2, backend cpu, threads 1");
    assert!(report.to_string().contains("\noptions: keep 2, backend cpu, threads 1\n"), "{report}");
}

/// ndarray's methods hand the same options on: each is named in the report, or refused.
#[test]
#[cfg(feature = "ndarray")]
fn options_of_arrays() {
    use ndarray::{Array2, Array3};
    use svdvals_gpu::{
        LstsqGpu, LstsqOptions, QrGpu, QrOptions, Signs, SvdGpu, SvdOptions, SvdValsBatchGpu, Vectors,
        triangular::{Diag, Op, Side, TriangularGpu, Uplo},
    };

    let a = Array2::from_shape_fn((12, 8), |(i, j)| ((i * 3 + j * j) % 7) as f32);
    let stack = Array3::from_shape_fn((3, 9, 5), |(k, i, j)| ((k + i * 3 + j * j) % 7) as f32);
    let told = cpu().threads(2);
    let svd = SvdOptions::from(told.clone()).keep(2);
    let (qr, lstsq) = (QrOptions::from(told.clone()).pivot(true), LstsqOptions::from(told.clone()).ridge(0.5));
    let values = a.svdvals_gpu_report(&svd).unwrap();
    assert_eq!((values.values.len(), values.options.as_str()), (2, "keep 2, backend cpu, threads 2"));
    assert_eq!(a.svd_gpu_report(&svd).unwrap().options, "keep 2, backend cpu, threads 2");
    assert_eq!(a.qr_gpu_report(&qr).unwrap().options, "pivot, backend cpu, threads 2");
    assert_eq!(a.qr_r_gpu_report(&qr).unwrap().options, "pivot, backend cpu, threads 2");
    assert_eq!(a.lstsq_gpu_report(&a, &lstsq).unwrap().options, "ridge 0.5, backend cpu, threads 2");
    let values = stack.svdvals_batch_gpu_report(&svd).unwrap();
    assert_eq!((values.values.dim(), values.options.as_str()), ((3, 2), "keep 2, backend cpu, threads 2"));
    assert_eq!(stack.svd_batch_gpu_report(&svd).unwrap().options, "keep 2, backend cpu, threads 2");

    let named = |error: Option<SvdError>, wanted: &str| match error {
        Some(SvdError::InvalidOption { option, .. }) => assert_eq!(option, wanted),
        other => panic!("{wanted}: {other:?}"),
    };
    named(a.svdvals_gpu_with(&SvdOptions::default().vectors(Vectors::Full)).err(), "vectors");
    named(stack.svdvals_batch_gpu_with(&SvdOptions::default().signs(Signs::Largest)).err(), "signs");
    named(stack.svdvals_batch_gpu_with(&SvdOptions::default().tolerance(0.1)).err(), "tolerance");
    named(a.qr_gpu_with(&QrOptions::from(cpu()).time_kernels(true)).map(drop).err(), "time_kernels");
    let mut x = a.clone();
    let triangle = Array2::from_shape_fn((8, 8), |(i, j)| if i == j { 2.0 } else { 0.5 });
    let run = cpu().progress(|_| {});
    named(x.trmm_gpu_with(Side::Right, Uplo::Upper, Op::NoTrans, Diag::Unit, 1.0, &triangle, &run).err(), "progress");
    assert_eq!(x, a);
}
