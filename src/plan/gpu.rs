//! The route on a GPU.

use crate::{
    algo::{
        bidiagonal::Stage3,
        count::{flops_by_band, flops_by_one_stage, vectors_flops},
        svdvals::{Driver, Found, Source, Wanted},
        vectors::{forms_beside, needs_step},
    },
    base::{
        clock::Clock,
        element_kind::ElementKind,
        error::Result,
        number::Number,
        stage::Stage,
        watch::{Listen, Watch},
    },
    cost::{
        BISECTION_WORTHWHILE, Cost,
        deferred::deferral,
        shape::{Bounds, Shape},
    },
    gpu::{
        device::{
            context::{GpuContext, Waits},
            stream::Manner,
        },
        kernels::{GpuKernels, one_stage::panel_bytes},
        limits::{fitting_bytes, required_bytes_of, required_svd_bytes},
        storage::Dense,
    },
    plan::{
        backend::OnGpu,
        options::{Backend, SvdOptions, Vectors},
        report::SvdReport,
        route::Route,
    },
    tile::kernels::TileKernels,
};

/// Whether a GPU runs stage 3 of order `n`.
pub(crate) fn bisects(context: &GpuContext, n: usize, method: Stage3) -> bool {
    match method {
        Stage3::Device => true,
        Stage3::Auto => n >= BISECTION_WORTHWHILE && !context.is_software(),
        _ => false,
    }
}

/// What a GPU has found.
pub(crate) struct OnDevice {
    /// Rounded to the arithmetic's precision.
    pub values: Vec<f64>,
    /// The right singular vectors that were wanted, n x k.
    pub right: Option<Dense>,
    /// The left ones, m x k, or m x m; None if they were not asked for, or if the device cannot hold what they need.
    pub left: Option<Dense>,
    pub kernels: GpuKernels,
    /// The listeners. If vectors are wanted, the end of the call has not been reported to them.
    pub watch: Watch,
}

/// The singular vectors that a call wants of a matrix that is not wide.
#[derive(Clone, Copy)]
pub(crate) struct Needed<'a> {
    pub count: Wanted<'a>,
    /// Whether the left ones are asked for, and a unitary U.
    pub left: bool,
    pub full: bool,
}

/// V, orthonormal, from the `right` vectors that the reflectors give; and U if there is a copy of the matrix, as a unitary one if `full`. Or those of
/// several matrices, each with its values.
pub(crate) fn both_sides(
    kernels: &GpuKernels,
    copy: Option<&Dense>,
    values: &[&[f64]],
    right: Dense,
    full: bool,
) -> Result<(Dense, Option<Dense>)> {
    let cols = right.size.1;
    let right = if needs_step(kernels.kind, right.size) { kernels.orthonormal(&right, cols)? } else { right };
    let left = copy.map(|a| kernels.left_vectors(a, values, &right)).transpose()?;
    let left = match left {
        Some(u) if full => Some(kernels.completed(&u)?),
        left => left,
    };
    Ok((right, left))
}

/// Whether a call can compute the left vectors on the device: A, U and their copies are in one buffer each.
fn holds_left(kind: ElementKind, context: &GpuContext, (m, n): (usize, usize), full: bool) -> bool {
    let cols = if full { m } else { n };
    fitting_bytes(context, "vectors", kind.bytes(), m.checked_mul(cols.next_multiple_of(4))).is_ok()
}

/// The wanted singular values of `scale` times the m x n matrix `a`, m >= n, stored as `kind`, on a GPU. The report's shape is that of `a`. Its seconds
/// lack those of stage 0 and the total.
pub(crate) async fn svdvals_on_gpu(
    kind: ElementKind,
    a: &dyn Source<GpuKernels>,
    scale: f64,
    of: Asked<'_>,
    on: OnGpu,
    waits: Waits,
) -> Result<SvdReport<Vec<f64>>> {
    Ok(svd_on_gpu(kind, a, scale, of, on, waits, None).await?.map(|found| found.values))
}

/// The options of a call on a GPU, its listeners, and whether the seconds of each stage are needed.
pub(crate) struct Asked<'a> {
    pub options: &'a SvdOptions,
    pub listen: Listen,
    pub timed: bool,
}

/// [`svdvals_on_gpu`], with the right singular vectors if some are `wanted`.
pub(crate) async fn svd_on_gpu(
    kind: ElementKind,
    a: &dyn Source<GpuKernels>,
    scale: f64,
    Asked { options, listen, timed }: Asked<'_>,
    OnGpu { context, tuning, reason }: OnGpu,
    waits: Waits,
    needed: Option<Needed<'_>>,
) -> Result<SvdReport<OnDevice>> {
    let shape = a.shape();
    let route = Route::on_gpu(shape, options.reduction);
    let one_stage = route.is_one_stage();
    let wanted = needed.map(|needed| needed.count);
    let flops = || {
        let deferred = deferral(kind, shape, &tuning);
        let [to_band, band_to_bidiag, svdvals, _] = match one_stage {
            true => flops_by_one_stage(kind, shape, &tuning)?,
            false => flops_by_band(kind, shape, &tuning, deferred)?,
        };
        let formed = !one_stage && forms_beside(kind, (shape.1, shape.1), &tuning);
        let vectors = if wanted.is_some() { vectors_flops(kind, shape, shape.1, formed) } else { 0 };
        Ok([to_band, band_to_bidiag, svdvals, vectors])
    };
    let watch = Watch::new(&listen, flops)?;
    let stage3_on_device = bisects(&context, shape.1, options.stage3);
    let (timed_kernels, stage3) = (options.run.time_kernels, Some(stage3_on_device));
    let kept = wanted.is_some();
    let deferred = !one_stage;
    let manner =
        Manner { waits, timed: timed_kernels, stage3_on_device: stage3, one_stage, kept, deferred, watch: watch.clone() };
    let kernels = GpuKernels::running(kind, &context, &tuning, manner)?;
    watch.begin(Stage::ToBand)?;
    let stage3 = (!stage3_on_device).then_some(options.stage3);
    let left = needed.is_some_and(|needed| needed.left && holds_left(kind, &context, shape, needed.full));
    let driver =
        Driver { kernels: &kernels, tuning: &tuning, watch: &watch, one_stage, stage3, leading: options.leading(), timed, left };
    let Found { values, right, copy, mut seconds, .. } = driver.svd(a, scale, wanted).await?;
    let mut clock = Clock::new(timed);
    let full = needed.is_some_and(|needed| needed.full);
    let (right, left) = match right {
        Some(right) => {
            let (right, left) = both_sides(&kernels, copy.as_ref(), &[&values], right, full)?;
            (Some(right), left)
        }
        None => (None, None),
    };
    if timed && right.is_some() {
        kernels.finish().await?;
        seconds.left_vectors = clock.restart();
    }
    let (counts, kernel_seconds) = (kernels.counts(), kernels.kernel_seconds());
    Ok(SvdReport {
        values: OnDevice { values, right, left, kernels, watch },
        backend: Backend::Gpu,
        reason,
        route,
        adapter: Some(context.adapter_name().to_owned()),
        storage: kind.name(),
        tuning,
        seconds,
        counts,
        kernel_seconds,
        iteration: None,
        shape,
        stage3_on_device,
        options: String::new(),
        cost: match (one_stage, needed) {
            (true, Some(_)) => (kind, Cost::of_one_stage_svd),
            (true, None) => (kind, Cost::of_one_stage),
            (false, Some(_)) => (kind, Cost::of_svd),
            (false, None) => (kind, Cost::of_values),
        },
    })
}

impl GpuContext {
    /// Bytes of device memory that the singular values of an m x n matrix of `T` need: matrix, reflectors and band. Of the two
    /// memory orders, it is the one that needs more (lines are padded to multiples of four). Besides these, a call has at most
    /// one more copy of the matrix, during the upload or in a [`GpuMatrix`](crate::GpuMatrix), and some MiB of parameters. Of the
    /// options, only storage, reduction and tuning matter. Nothing is allocated.
    ///
    /// ```
    /// use svdvals_gpu::{GpuContext, SvdOptions};
    /// if let Ok(context) = GpuContext::global() {
    ///     let bytes = context.required_bytes::<f32>(4096, 4096, &SvdOptions::default())?;
    ///     assert!(bytes > 4 * 4096 * 4096 && bytes < 5 * 4096 * 4096);
    /// }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// Those of a call before it allocates: [`SvdError::TooLarge`](crate::SvdError::TooLarge), [`SvdError::UnsupportedElement`](crate::SvdError::UnsupportedElement), [`SvdError::InvalidOption`](crate::SvdError::InvalidOption), or
    /// [`SvdError::TuningFile`](crate::SvdError::TuningFile) if the environment names a file that cannot be read.
    pub fn required_bytes<T: Number>(&self, m: usize, n: usize, options: &SvdOptions) -> Result<u64> {
        let kind = if T::IS_HALF { options.run.half_storage.of(T::KIND.scalar()) } else { T::KIND };
        bytes_stored_as(kind, self, m, n, options)
    }
}

impl GpuContext {
    /// Bytes of device memory that the singular value decomposition of an m x n matrix of `T` needs at most, with the vectors that `options`
    /// name ([`vectors`](SvdOptions::vectors); all of them, whatever is kept): [`required_bytes`](Self::required_bytes), reflectors that are kept,
    /// a copy of the matrix, the vectors of the bidiagonal, the product of the reflectors where one is formed
    /// ([`formed_beside`](crate::GpuTuning::formed_beside)), and U and V.
    ///
    /// ```
    /// use svdvals_gpu::{GpuContext, SvdOptions};
    /// if let Ok(context) = GpuContext::global() {
    ///     let bytes = context.required_svd_bytes::<f32>(1024, 1024, &SvdOptions::default())?;
    ///     assert!((4 * 11 * 1024 * 1024..4 * 17 * 1024 * 1024).contains(&bytes));
    /// }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`required_bytes`](Self::required_bytes).
    pub fn required_svd_bytes<T: Number>(&self, m: usize, n: usize, options: &SvdOptions) -> Result<u64> {
        let kind = T::KIND.scalar();
        self.require(kind)?;
        let tuning = options.run.tuning_for_adapter(kind, self, m.min(n))?;
        let (size, full) = ((m.max(n), m.min(n)), options.vectors == Vectors::Full);
        let of = |by_rows| required_svd_bytes(kind, self, size, by_rows, full, &tuning);
        Ok(of(false)?.max(of(true)?))
    }
}

/// [`GpuContext::required_bytes`] of a matrix stored as `kind`.
fn bytes_stored_as(kind: ElementKind, context: &GpuContext, m: usize, n: usize, options: &SvdOptions) -> Result<u64> {
    context.require(kind)?;
    let tuning = options.run.tuning_for_adapter(kind, context, m.min(n))?;
    let shape = (m.max(n), m.min(n));
    let panels: u64 = match Route::on_gpu(shape, options.reduction).is_one_stage() {
        true => panel_bytes(kind, context, shape, &Shape::new(kind, &Bounds::of(context), &tuning)?)?.into_iter().sum(),
        false => 0,
    };
    let required = |by_rows| Ok(required_bytes_of(kind, context, shape, by_rows, &tuning)?.saturating_add(panels));
    match [false, true].map(required) {
        [Ok(by_columns), Ok(by_rows)] => Ok(by_columns.max(by_rows)),
        // It fits in one of the two orders only.
        [Ok(bytes), Err(_)] | [Err(_), Ok(bytes)] => Ok(bytes),
        [Err(error), Err(_)] => Err(error),
    }
}
