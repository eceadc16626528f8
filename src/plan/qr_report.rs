//! The factors and the reports that all algorithms of the QR factorisation end with.

use crate::{
    base::{clock::StageSeconds, element_kind::ElementKind, error::Result, number::Scalar},
    cost::{Cost, counts::Counts},
    plan::{
        choice::Reason,
        options::{Backend, QrOptions},
        qr_factors::{Factors, QrFactors},
        report::SvdReport,
        route::{Orthogonal, Route},
    },
    tile::tuning::Tuning,
};
#[cfg(feature = "gpu")]
use crate::{gpu::kernels::GpuKernels, plan::backend::OnGpu};

/// The factors of a call.
pub type BoxedFactors<S> = Box<dyn Factors<S>>;

/// The report of a call on the CPU.
pub(crate) fn report_of<V>(
    kind: ElementKind,
    shape: (usize, usize),
    reason: Reason,
    route: Orthogonal,
    tuning: Tuning,
    seconds: StageSeconds,
    values: V,
) -> SvdReport<V> {
    SvdReport {
        values,
        backend: Backend::Cpu,
        reason,
        route: Route::Qr(route),
        adapter: None,
        storage: kind.name(),
        tuning,
        seconds,
        counts: Counts::default(),
        kernel_seconds: Vec::new(),
        iteration: None,
        shape,
        stage3_on_device: false,
        options: String::new(),
        cost: (kind, Cost::of_qr),
    }
}

/// The factors with the pivoting and the signs that the options ask for.
pub(crate) fn finished<S: Scalar>(mut factors: QrFactors<S>, options: &QrOptions) -> Result<BoxedFactors<S>> {
    if options.pivot {
        factors.pivot()?;
    }
    if options.positive_diagonal {
        factors.make_positive()?;
    }
    Ok(Box::new(factors))
}

/// The report of a factorisation on a GPU.
#[cfg(feature = "gpu")]
pub(crate) fn report_of_gpu<V>(
    shape: (usize, usize),
    on: OnGpu,
    kernels: &GpuKernels,
    seconds: StageSeconds,
    values: V,
) -> SvdReport<V> {
    let OnGpu { context, tuning, reason } = on;
    let report = report_of(kernels.kind, shape, reason, Orthogonal::Householder, tuning, seconds, values);
    let adapter = Some(context.adapter_name().to_owned());
    let (counts, kernel_seconds) = (kernels.counts(), kernels.kernel_seconds());
    SvdReport { backend: Backend::Gpu, adapter, counts, kernel_seconds, ..report }
}
