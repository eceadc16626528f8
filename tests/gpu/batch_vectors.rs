//! Decompositions of batches that a device computes together, one workgroup each.

use faer::{Mat, MatRef};
use svdvals_gpu::{
    AdapterChoice, Backend, DeviceLimits, GpuContext, MatSvd, RealElement, Signs, SvdError, SvdGpu, SvdOptions, Vectors,
    svd_batch_each, svd_batch_report, svdvals_batch,
};

use crate::{
    Body, Elements, Outcome, check,
    vectors::{KINDS, ends_of_range, matrix, ratios},
};

pub fn trials<T: Elements>() -> Vec<(&'static str, Body)> {
    vec![
        ("ratios_of_hard_matrices", ratios_of_hard_matrices::<T>),
        ("vectors_by_options", options::<T>),
        ("vectors_of_bad_matrices", bad_matrices::<T>),
    ]
}

fn on(context: &GpuContext) -> SvdOptions {
    SvdOptions::default().context(context.clone()).backend(Backend::Gpu)
}

fn random<T: Elements>(seed: u64, m: usize, n: usize) -> Mat<T> {
    Mat::from_fn(m, n, |i, j| T::noise(seed, i, j))
}

fn views<T: Elements>(batch: &[Mat<T>]) -> Vec<MatRef<'_, T>> {
    batch.iter().map(|a| a.as_ref()).collect()
}

fn same<T: Elements>(x: &MatSvd<T>, y: &MatSvd<T>) -> bool {
    x.u == y.u && x.s == y.s && x.v == y.v
}

/// The three ratios of DESIGN 6 are at most 1 (1 eps more for max(m, n) = 1, as for single calls) on hard matrices of every shape, in workgroup
/// memory and in a buffer, where each has a shape of its own; the values are those of the batch without vectors.
fn ratios_of_hard_matrices<T: Elements>(context: &GpuContext) -> Outcome {
    let shapes = [(1, 1), (5, 1), (1, 5), (2, 2), (3, 2), (17, 17), (40, 29), (29, 40), (300, 3), (64, 64), (90, 84)];
    let (mut batch, mut names) = (Vec::new(), Vec::new());
    for (m, n) in shapes {
        for (more, kind) in KINDS.into_iter().enumerate() {
            let m = if m.min(n) < 29 { m } else { m + more };
            batch.push(matrix::<T>(kind, m, n));
            names.push(format!("{kind} {m} x {n}"));
        }
    }
    for (m, n) in [(1, 1), (27, 23), (19, 23)] {
        for (name, a) in ends_of_range::<T>(m, n) {
            batch.push(a);
            names.push(format!("{name} {m} x {n}"));
        }
    }
    let options = on(context);
    let report = svd_batch_report(&views(&batch), &options)?;
    check!((report.together, report.on_gpu) == (batch.len(), batch.len()), "{report}");
    let values = svdvals_batch(&views(&batch), &options)?;
    let mut worst = [0.0f64; 3];
    for (((name, a), svd), values) in names.iter().zip(&batch).zip(&report.values).zip(&values) {
        let (m, n) = a.shape();
        let k = m.min(n);
        check!((svd.u.shape(), svd.v.shape()) == ((m, k), (n, k)), "{name}: {:?} {:?}", svd.u.shape(), svd.v.shape());
        check!(svd.s == *values, "{name}: values differ from those without vectors");
        let found = ratios(a.as_ref(), svd);
        let bound = if m.max(n) == 1 { 2.0 } else { 1.0 };
        check!(found.iter().all(|ratio| *ratio <= bound), "{} {name}: {found:.3?}", T::NAME);
        worst.iter_mut().zip(found).for_each(|(worst, ratio)| *worst = worst.max(ratio));
    }
    println!("batch of decompositions, {}: worst ratios {worst:.3?}", T::NAME);
    Ok(())
}

/// The options of a single decomposition: sides, a limit, a tolerance, signs. A matrix has the same vectors in any batch and any strides.
fn options<T: Elements>(context: &GpuContext) -> Outcome {
    let shapes = [(12, 9), (9, 12), (30, 30), (1, 7), (50, 4)];
    let batch: Vec<Mat<T>> = shapes.into_iter().zip(0..).map(|((m, n), k)| random(k, m, n)).collect();
    let whole = svd_batch_report(&views(&batch), &on(context))?;
    let backwards: Vec<_> = batch.iter().rev().map(|a| a.as_ref()).collect();
    let again = svd_batch_report(&backwards, &on(context))?;
    check!(again.values.iter().rev().zip(&whole.values).all(|(x, y)| same(x, y)), "in reverse order");
    for (a, svd) in batch.iter().zip(&whole.values) {
        let turned = Mat::from_fn(a.ncols(), a.nrows(), |i, j| a[(j, i)]);
        let of_view = svd_batch_report(&[turned.transpose()], &on(context))?;
        check!(of_view.together == 1 && same(&of_view.values[0], svd), "{:?}: strides", a.shape());
    }

    let leading = svd_batch_report(&views(&batch), &on(context).keep(3))?;
    let left = svd_batch_report(&views(&batch), &on(context).vectors(Vectors::Left))?;
    let right = svd_batch_report(&views(&batch), &on(context).vectors(Vectors::Right).tolerance(0.5))?;
    check!([&leading, &left, &right].into_iter().all(|report| report.together == batch.len()), "{leading}{left}{right}");
    for (k, (a, svd)) in batch.iter().zip(&whole.values).enumerate() {
        let ((m, n), kept) = (a.shape(), svd.s.nrows().min(3));
        let few = &leading.values[k];
        check!((few.u.shape(), few.s.nrows(), few.v.shape()) == ((m, kept), kept, (n, kept)), "keep: {m} x {n}");
        check!(few.u.as_ref() == svd.u.subcols(0, kept) && few.v.as_ref() == svd.v.subcols(0, kept), "keep: {m} x {n}");
        check!(left.values[k].u == svd.u && left.values[k].v.ncols() == 0, "left: {m} x {n}");
        let of_right = &right.values[k];
        let count = of_right.s.nrows();
        let large = svd.s.iter().filter(|s| s.to_double() >= 0.5 * svd.s[0].to_double()).count();
        check!(count == large, "tolerance: {m} x {n}");
        check!(of_right.v.as_ref() == svd.v.subcols(0, count) && of_right.u.ncols() == 0, "right: {m} x {n}");
    }
    let signs = svd_batch_report(&views(&batch), &on(context).signs(Signs::Largest))?;
    for (a, svd) in batch.iter().zip(&signs.values) {
        let found = ratios(a.as_ref(), svd);
        check!(found.iter().all(|ratio| *ratio <= 1.0), "signs: {:?}: {found:.3?}", a.shape());
    }
    // Full matrices are single calls'.
    let full = svd_batch_report(&views(&batch[..1]), &on(context).vectors(Vectors::Full))?;
    let single = batch[0].svd_gpu_with(&on(context).vectors(Vectors::Full))?;
    check!((full.together, full.on_gpu) == (0, 1) && same(&full.values[0], &single), "{full}");
    Ok(())
}

/// A bad matrix is an error with its index; the others have their factors. An option that is none is an error of the call. An empty matrix and one
/// that fits no workgroup are computed alone.
fn bad_matrices<T: Elements>(context: &GpuContext) -> Outcome {
    let mut batch: Vec<Mat<T>> =
        [(8, 5), (6, 6), (0, 4), (260, 200)].into_iter().zip(0..).map(|((m, n), k)| random(k, m, n)).collect();
    let report = svd_batch_report(&views(&batch), &on(context))?;
    check!((report.together, report.on_gpu) == (2, 4), "{report}");
    batch[1][(2, 3)] = T::real(f64::NAN);
    let each = svd_batch_each(&views(&batch), &on(context))?;
    check!(matches!(each[1], Err(SvdError::NonFinite { row: 2, col: 3, .. })), "{:?}", each[1].as_ref().map(|_| ()));
    for k in [0, 2, 3] {
        check!(each[k].as_ref().is_ok_and(|svd| same(svd, &report.values[k])), "matrix {k}");
    }
    match svd_batch_report(&views(&batch), &on(context)) {
        Err(SvdError::InBatch { index: 1, source }) => check!(matches!(*source, SvdError::NonFinite { .. }), "{source}"),
        other => return Err(format!("{:?}", other.map(|_| ())).into()),
    }
    let error = svd_batch_report(&views(&batch[..1]), &on(context).tolerance(2.0)).map(|_| ());
    check!(matches!(error, Err(SvdError::InvalidOption { option: "tolerance", .. })), "{error:?}");
    Ok(())
}

/// Where W is does not change the vectors: some of these exceed the workgroup memory of a device with WebGPU's limits alone. Each class is one
/// dispatch of `jacobi` after those of `batch`.
pub fn in_a_buffer() -> Outcome {
    let lent = GpuContext::new(&AdapterChoice::default())?;
    let webgpu = GpuContext::new(&AdapterChoice::default().limits(DeviceLimits::WebGpuDefault))?;
    let batch: Vec<Mat<f32>> = (33..45).map(|n| random(n as u64, n + 3, n)).collect();
    let [here, there] = [&lent, &webgpu].map(|context| svd_batch_report(&views(&batch), &on(context)));
    let (here, there) = (here?, there?);
    check!((here.together, there.together) == (12, 12), "{here}{there}");
    check!(here.values.iter().zip(&there.values).all(|(x, y)| same(x, y)), "vectors depend on where W is");
    Ok(())
}
