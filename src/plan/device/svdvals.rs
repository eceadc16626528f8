//! Singular values of a matrix that is on a device.

use pollster::block_on;

use crate::{
    base::{clock::Clock, error::Result, pool::on_threads},
    gpu::{device::context::Waits, matrix::DeviceMatrix},
    plan::{
        device::{on_its_device, prepared},
        gpu::{Asked, svdvals_on_gpu},
        options::SvdOptions,
        report::SvdReport,
    },
};

/// The wanted singular values, descending, rounded to the arithmetic's precision.
pub(crate) fn svdvals(a: &DeviceMatrix, options: &SvdOptions, timed: bool) -> Result<SvdReport<Vec<f64>>> {
    on_threads(options.run.threads, || {
        let (clock, listen) = (Clock::new(timed), options.run.listen());
        let kind = options.run.half_storage.of(a.kind);
        let (lines, tuning) = prepared(kind, a, &options.run)?;
        let scale = a.scale(kind)?;
        let seconds = clock.seconds();
        let asked = Asked { options, listen, timed };
        let mut report = block_on(svdvals_on_gpu(kind, &lines, scale, asked, on_its_device(a, tuning), Waits::Blocking))?;
        report.shape = a.size;
        report.seconds.scale = seconds;
        report.seconds.total = clock.seconds();
        Ok(report)
    })
}
