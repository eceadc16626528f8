//! Singular values of a matrix that is on a device.

use pollster::block_on;

use crate::{
    base::{
        clock::Clock,
        error::Result,
        number::{Number, in_storage},
        pool::on_threads,
    },
    gpu::{device::context::Waits, matrix::DeviceMatrix},
    plan::{
        device::{check_options, on_its_device, prepared},
        gpu::{Asked, svdvals_on_gpu},
        options::SvdOptions,
        report::SvdReport,
    },
};

/// All singular values, descending.
pub(crate) fn svdvals<T: Number>(a: &DeviceMatrix<T>, options: &SvdOptions, timed: bool) -> Result<SvdReport<Vec<T::Real>>> {
    fn within<T, S>(a: &DeviceMatrix<T>, options: &SvdOptions, timed: bool) -> Result<SvdReport<Vec<T::Real>>>
    where
        T: Number,
        S: Number<Real = T::Real, Scalar = T::Scalar>,
    {
        let (clock, listen) = (Clock::new(timed), options.listen());
        let (lines, tuning) = prepared::<T, S>(a, options)?;
        let scale = a.scale::<S>()?;
        let seconds = clock.seconds();
        let asked = Asked { options, listen, timed };
        let mut report = block_on(svdvals_on_gpu::<T, S, _>(lines, scale, asked, on_its_device(a, tuning), Waits::Blocking))?;
        report.shape = a.size;
        report.seconds.scale = seconds;
        report.seconds.total = clock.seconds();
        Ok(report)
    }
    check_options(&a.context, options)?;
    on_threads(options.threads, || in_storage!(options.half_storage, T => within::<_, S>(a, options, timed)))
}
