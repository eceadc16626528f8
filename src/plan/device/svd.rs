//! The singular value decomposition of a matrix that is on a device.

use pollster::block_on;

use crate::{
    base::{
        clock::Clock,
        error::{Result, SvdError},
        number::HalfStorage,
        pool::on_threads,
    },
    gpu::{device::context::Waits, matrix::DeviceMatrix, storage::Dense},
    plan::{
        device::{on_its_device, prepared},
        gpu::{Asked, Needed, OnDevice, svd_on_gpu},
        leading,
        options::{Signs, SvdOptions, Vectors},
        report::SvdReport,
        svd::needed,
    },
    tile::kernels::TileKernels,
};

/// A = U diag(s) V^H, with U and V on the device.
pub struct DeviceSvd {
    pub(crate) u: DeviceMatrix,
    /// Rounded to the arithmetic's precision.
    pub(crate) s: Vec<f64>,
    pub(crate) v: DeviceMatrix,
    /// Those of the triples, if an accuracy was asked for.
    pub(crate) residuals: Option<Vec<f64>>,
}

/// The decomposition that the options ask for.
pub(crate) fn svd(a: &DeviceMatrix, options: &SvdOptions, timed: bool) -> Result<SvdReport<DeviceSvd>> {
    options.check_svd()?;
    if options.signs == Signs::Largest {
        return Err(SvdError::invalid("signs", "Signs::Largest, but the vectors stay on the device"));
    }
    if options.run.half_storage == HalfStorage::Half {
        return Err(SvdError::invalid("half_storage", "singular vectors need HalfStorage::Single"));
    }
    on_threads(options.run.threads, || match options.accuracy {
        Some(_) => leading::device::svd_there(a, options, timed),
        None => within(a, options, timed),
    })
}

/// The decomposition by a reduction.
pub(crate) fn within(a: &DeviceMatrix, options: &SvdOptions, timed: bool) -> Result<SvdReport<DeviceSvd>> {
    let (clock, listen) = (Clock::new(timed), options.run.listen());
    let (lines, tuning) = prepared(a.kind, a, &options.run)?;
    let (m, n) = a.size;
    let full = options.vectors == Vectors::Full;
    let transposed = m < n;
    let scale = a.scale(a.kind)?;
    let seconds = clock.seconds();
    let count = |values: &[f64]| options.kept(values);
    let (left_is_needed, right_is_needed) = needed(options.vectors, transposed);
    let of = Needed { count: &count, left: left_is_needed, full };
    let mut ran = Default::default();
    let asked = Asked { options, listen, timed };
    let run = svd_on_gpu(a.kind, &lines, scale, asked, on_its_device(a, tuning), Waits::Blocking, Some(of));
    let mut report = block_on(run)?.try_map(|OnDevice { mut values, right, left, kernels, watch }| {
        values.truncate(right.as_ref().map_or(0, |right| right.size.1));
        if left_is_needed && left.is_none() {
            return Err(SvdError::invalid("matrix", format!("{m} x {n}: the left vectors do not fit one buffer")));
        }
        // Those of the transpose are the conjugates of the other side's.
        let side = |of: Option<Dense>, is_needed: bool, rows: usize| {
            let of = match of.filter(|_| is_needed && m.min(n) > 0) {
                Some(of) if transposed && a.kind.is_complex() => kernels.conjugated(&of)?,
                Some(of) => of,
                None if full && m.min(n) == 0 => kernels.identity_of(rows)?,
                None => kernels.room(rows, 0)?,
            };
            DeviceMatrix::from_dense(&a.context, of)
        };
        let (of_left, of_right) = if transposed { (n, m) } else { (m, n) };
        let (left, right) = (side(left, left_is_needed, of_left)?, side(right, right_is_needed, of_right)?);
        block_on(kernels.finish())?;
        watch.end();
        ran = (kernels.counts(), kernels.kernel_seconds());
        let (u, v) = if transposed { (right, left) } else { (left, right) };
        Ok(DeviceSvd { u, s: values, v, residuals: None })
    })?;
    (report.counts, report.kernel_seconds) = ran;
    report.shape = (m, n);
    report.seconds.scale = seconds;
    report.seconds.total = clock.seconds();
    Ok(report)
}
