//! The driver of the decomposition with vectors.

use faer::MatRef;

use crate::{
    base::{error::Result, number::Number},
    plan::{factors::Factors, options::SvdOptions, report::SvdReport},
};

/// The singular value decomposition, and the report; its seconds are zero unless `timed`.
pub(crate) fn svd<T: Number>(a: MatRef<'_, T>, options: &SvdOptions, timed: bool) -> Result<SvdReport<Factors<T>>> {
    options.check_svd()?;
    // What the driver will call.
    let _ = (a, timed, SvdOptions::kept::<T::Real>, Factors::<T>::fix_signs);
    unimplemented!("the decomposition with vectors")
}

/// [`svd`] for a caller that must not block.
pub(crate) async fn svd_async<T: Number>(a: MatRef<'_, T>, options: &SvdOptions, timed: bool) -> Result<SvdReport<Factors<T>>> {
    svd(a, options, timed)
}
