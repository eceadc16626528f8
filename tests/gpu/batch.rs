//! Batches with `Backend::Gpu`: single calls, one after the other.

use faer::{Mat, MatRef};
use num_complex::Complex;
use svdvals_gpu::{
    Backend, Element, SvdError, SvdGpu, SvdOptions, SvdValsGpu, svd_batch, svdvals_batch_each, svdvals_batch_report,
};

use crate::{Outcome, check, common::complex_noise};

/// The results of each matrix are those of its single call on the device, whose distance from the true ones `accuracy` and `properties` measure;
/// the report says that the device ran; one bad matrix has an error, and the others their values.
pub fn one_after_the_other() -> Outcome {
    of_type::<f32>()?;
    of_type::<Complex<f32>>()
}

fn views<T: Element>(batch: &[Mat<T>; 4]) -> [MatRef<'_, T>; 4] {
    batch.each_ref().map(|a| a.as_ref())
}

fn of_type<T: Element>() -> Outcome {
    let options = SvdOptions::default().backend(Backend::Gpu);
    let random = |k: u64, m, n| Mat::<T>::from_fn(m, n, |i, j| T::from_complex(complex_noise(k, i, j)));
    let mut batch = [random(1, 40, 30), random(2, 0, 5), random(3, 20, 50), random(4, 1, 1)];
    let report = svdvals_batch_report(&views(&batch), &options)?;
    check!((report.on_gpu, report.side_by_side, report.matrices) == (4, 0, 4) && report.adapter.is_some(), "{report}");
    let svds = svd_batch(&views(&batch), &options)?;
    for ((a, values), svd) in batch.iter().zip(&report.values).zip(&svds) {
        check!(a.svdvals_gpu_with(&options)? == *values, "{} {:?}", T::NAME, a.shape());
        let single = a.svd_gpu_with(&options)?;
        check!(single.u == svd.u && single.s == svd.s && single.v == svd.v, "{} {:?}, vectors", T::NAME, a.shape());
    }
    batch[2][(3, 4)] = T::from_complex(Complex::from(f64::NAN));
    let each = svdvals_batch_each(&views(&batch), &options)?;
    check!(matches!(each[2], Err(SvdError::NonFinite { row: 3, col: 4, .. })), "{:?}", each[2]);
    check!(each.iter().filter(|values| values.is_ok()).count() == 3, "others fail too");
    Ok(())
}
