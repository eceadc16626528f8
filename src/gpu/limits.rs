//! What the limits of a device allow: the sizes of buffers in bytes, and hyperparameters.

use crate::{
    algo::{
        deferred::{deferred_columns, kept_levels},
        to_band::qr_first,
        vectors::forms_beside,
    },
    base::{
        element_kind::ElementKind,
        error::{Result, SvdError},
        number::Number,
    },
    cost::{
        chase::{ChaseShape, layout_on_device},
        deferred::{deferral, numbers_of_panels},
        device::has_fast_memory,
        shape::{Bounds, Shape, TriangleShape},
        work::ROWS_AT_ONCE,
    },
    gpu::device::context::GpuContext,
    tile::{band_layout::BandLayout, chase_schedule::ReductionStep, tuning::Tuning},
};

/// The sizes of the buffers of a dense matrix, or of several of one shape, in elements.
pub(crate) struct DenseSizes {
    pub by_rows: bool,
    /// Leading dimension: the distance between neighbouring rows (`by_rows`) or columns, a multiple of four.
    pub ld: usize,
    /// The number of rows (`by_rows`) or columns of all matrices, and how many of them fit one buffer.
    pub outer: usize,
    pub lines: usize,
    pub v: usize,
    pub t: usize,
    /// Of V, and as many of T, of a level that is factored beside an update; 0: none is.
    pub beside: usize,
}

/// Maximum number of buffers of a matrix. Each access in a shader has one `case` for every buffer.
const MOST_BUFFERS: usize = 64;

/// The number of lines of `ld` elements in one buffer, of `outer` in total: all of them, or a multiple of four.
fn lines_of_a_buffer(kind: ElementKind, context: &GpuContext, ld: Option<usize>, outer: usize) -> Result<usize> {
    let line = ld.and_then(|ld| ld.checked_mul(kind.bytes()));
    let needed = line.and_then(|line| line.checked_mul(outer)).map_or(u64::MAX, |bytes| bytes as u64);
    // Indices in shaders are u32.
    let most = context.max_buffer_bytes().min(u64::from(u32::MAX) * kind.bytes() as u64);
    if needed <= most {
        return Ok(outer.max(1));
    }
    // Shaders count lines in u32 too.
    let lines = line.filter(|_| outer <= u32::MAX as usize).map_or(0, |line| (most / line as u64) as usize / 4 * 4);
    // Besides the matrix, the kernels bind V and T.
    let buffers = (context.limits().max_storage_buffers_per_shader_stage as usize).saturating_sub(2).min(MOST_BUFFERS);
    if lines > 0 && outer.div_ceil(lines) <= buffers {
        return Ok(lines);
    }
    let available = if lines > 0 { buffers as u64 * most } else { most };
    Err(SvdError::TooLarge { what: "the matrix", needed, available, adapter: context.adapter_name().to_owned() })
}

/// Bytes of `len` elements of `each` bytes, if shaders can index them and one buffer can hold them.
pub(crate) fn fitting_bytes(context: &GpuContext, what: &'static str, each: usize, len: Option<usize>) -> Result<u64> {
    let needed = len.and_then(|len| len.checked_mul(each)).map_or(u64::MAX, |bytes| bytes as u64);
    // Indices in shaders are u32.
    let available = context.max_buffer_bytes().min(u64::from(u32::MAX) * each as u64);
    if needed > available {
        return Err(SvdError::TooLarge { what, needed, available, adapter: context.adapter_name().to_owned() });
    }
    Ok(needed)
}

/// Maximum number of stacked rows of a level that are factored at once: as many as fit one buffer, up to [`ROWS_AT_ONCE`].
pub(crate) fn rows_at_once(kind: ElementKind, context: &GpuContext, shape: Shape) -> usize {
    let row = (shape.ts * kind.scalar_bytes()) as u64;
    ROWS_AT_ONCE.min((context.max_buffer_bytes() / row) as usize)
}

/// The sizes of the buffers of `matrices` m x n matrices stored as `kind`, and their total in bytes. Several matrices must fit one buffer.
pub(crate) fn dense_sizes(
    kind: ElementKind,
    context: &GpuContext,
    matrices: usize,
    (m, n): (usize, usize),
    by_rows: bool,
    shape: Shape,
    leaf: usize,
) -> Result<(DenseSizes, u64)> {
    let (inner, outer) = if by_rows { (n, m) } else { (m, n) };
    // At least four, so that the strides show the memory order of an empty matrix too.
    let ld = inner.max(1).checked_next_multiple_of(4);
    let outer = outer.saturating_mul(matrices);
    let lines = lines_of_a_buffer(kind, context, ld, outer)?;
    if matrices > 1 {
        fitting_bytes(context, "the matrices", kind.bytes(), ld.and_then(|ld| ld.checked_mul(outer)))?;
    }
    let a = ld.and_then(|ld| ld.checked_mul(outer)?.checked_mul(kind.bytes())).unwrap_or(usize::MAX);
    // The leaves of the longest panel have the most rows and the most blocks of all levels. A block of R factors stacks at least 2.
    let at_once = rows_at_once(kind, context, shape).max(shape.rows());
    let longest = m.max(n).max(2 * shape.ts).min(at_once);
    let v = longest.checked_mul(shape.ts).and_then(|v| v.checked_mul(matrices));
    let t = longest.div_ceil(leaf.max(2)).checked_mul(shape.ts * shape.ts).and_then(|t| t.checked_mul(matrices));
    // A level above the leaves stacks at most as many rows as T of the leaves has.
    let beside = if shape.beside(kind).is_some() { t } else { Some(0) };
    let of_beside = fitting_bytes(context, "the reflectors", kind.scalar_bytes(), beside)?;
    let bytes = (a as u64)
        .saturating_add(of_beside)
        .saturating_add(of_beside)
        .saturating_add(fitting_bytes(context, "the reflectors", kind.scalar_bytes(), v)?)
        .saturating_add(fitting_bytes(context, "the reflectors' triangular factors", kind.scalar_bytes(), t)?);
    let count = |len: Option<usize>| len.unwrap_or_default();
    Ok((DenseSizes { by_rows, ld: count(ld), outer, lines, v: count(v), t: count(t), beside: count(beside) }, bytes))
}

/// Bytes of the buffers of an m x n matrix stored as `kind`.
pub(crate) fn dense_bytes(
    kind: ElementKind,
    context: &GpuContext,
    size: (usize, usize),
    by_rows: bool,
    tuning: &Tuning,
) -> Result<u64> {
    let shape = Shape::new(kind, &Bounds::of(context), tuning)?;
    Ok(dense_sizes(kind, context, 1, size, by_rows, shape, tuning.leaf)?.1)
}

/// Bytes of an m x n matrix stored as `kind` on the device, including workspace and band.
///
/// # Errors
/// [`SvdError::TooLarge`] if one of the buffers exceeds the device's limits; [`SvdError::InvalidOption`] if the device cannot run with
/// these hyperparameters.
pub(crate) fn required_bytes(kind: ElementKind, context: &GpuContext, m: usize, n: usize, tuning: &Tuning) -> Result<u64> {
    required_bytes_of(kind, context, (m, n), m < n, tuning)
}

/// [`required_bytes`] of a matrix that is row-major if `by_rows`, else column-major.
pub(crate) fn required_bytes_of(
    kind: ElementKind,
    context: &GpuContext,
    (m, n): (usize, usize),
    by_rows: bool,
    tuning: &Tuning,
) -> Result<u64> {
    let shape = Shape::new(kind, &Bounds::of(context), tuning)?;
    let of_matrix = |room: usize| {
        let size = (m.saturating_add(room), n.saturating_add(room));
        let (_, dense) = dense_sizes(kind, context, 1, size, by_rows, shape, tuning.leaf)?;
        let panels = if room > 0 { numbers_of_panels(m.max(n), room, &shape) } else { [Some(0); 2] };
        let of_panels = |len| fitting_bytes(context, "products with a panel", kind.scalar_bytes(), len);
        Ok(dense.saturating_add(of_panels(panels[0])?).saturating_add(of_panels(panels[1])?))
    };
    let deferral = deferral(kind, (m.max(n), m.min(n)), tuning);
    let mut matrix = of_matrix(deferral.room());
    // With less room for deferred updates, or none, it may fit.
    for room in [deferral.columns, 0] {
        if matches!(matrix, Err(SvdError::TooLarge { .. })) {
            matrix = of_matrix(room);
        }
    }
    let matrix = matrix?;
    let order = m.min(n);
    let band = required_band_bytes(kind, context, order, tuning.bandwidth(order), tuning)?;
    Ok(matrix.saturating_add(band))
}

/// Bytes of a band of order n, stored as `kind`, on the device.
///
/// # Errors
/// As [`required_bytes`].
pub(crate) fn required_band_bytes(
    kind: ElementKind,
    context: &GpuContext,
    n: usize,
    bandwidth: usize,
    tuning: &Tuning,
) -> Result<u64> {
    fitting_bytes(context, "the band", kind.bytes(), layout_on_device(n, bandwidth, tuning.tile_width, tuning).size().ok())
}

/// The kept reflectors of one matrix, in numbers.
pub(crate) struct Reflectors {
    /// T of all levels of stage 1. (V is in the matrix.)
    pub t: usize,
    /// Each step of stage 2, and the number of steps.
    pub of_step: usize,
    pub steps: usize,
}

impl Reflectors {
    /// Those of an m x n matrix stored as `kind`, m >= n.
    pub fn of(kind: ElementKind, context: &GpuContext, (m, n): (usize, usize), tuning: &Tuning) -> Result<Reflectors> {
        let shape = Shape::new(kind, &Bounds::of(context), tuning)?;
        let rows = if qr_first(m, n) { n } else { m };
        let deferred = deferred_columns(kind, (rows, n), tuning) > 0;
        let levels = kept_levels((rows, n), tuning, rows_at_once(kind, context, shape), deferred);
        // And those of the longest panel's leaves, whose updates are deferred.
        let leaves = if deferred { rows.div_ceil(tuning.leaf.max(2)) } else { 0 };
        let blocks = leaves + levels.iter().map(|level| level.map.blocks()).fold(0, usize::saturating_add);
        let steps = ReductionStep::all(n, tuning.bandwidth(n), tuning.tile_width).count();
        Ok(Reflectors { t: blocks.saturating_mul(shape.ts * shape.ts), of_step: n.saturating_mul(n), steps })
    }

    fn bytes(&self, kind: ElementKind) -> u64 {
        let numbers = self.of_step.saturating_mul(self.steps).saturating_add(self.t);
        (numbers as u64).saturating_mul(kind.scalar_bytes() as u64)
    }
}

/// Bytes of the decomposition with all vectors of an m x n matrix, m >= n, row-major if `by_rows`, else column-major. Some of it is freed before the
/// rest is allocated. Where the reflectors are multiplied, their product and the vectors of the bidiagonal are beside V.
pub(crate) fn required_svd_bytes(
    kind: ElementKind,
    context: &GpuContext,
    (m, n): (usize, usize),
    by_rows: bool,
    full: bool,
    tuning: &Tuning,
) -> Result<u64> {
    let (kept, later) = svd_bytes(kind, context, (m, n), by_rows, full, tuning)?;
    let formed = if forms_beside(kind, (n, n), tuning) { dense_bytes(kind, context, (n, n), true, tuning)? } else { 0 };
    Ok(kept.saturating_add(later).saturating_add(formed).saturating_add(formed))
}

/// The summands of [`required_svd_bytes`]: first what all matrices of a stack have at a time (that of the values, the reflectors, the second copy of the
/// matrix, and V), then what each of those that are computed together needs after that (three matrices for divide and conquer, a copy of V, U and a
/// copy, and products of their columns).
pub(crate) fn svd_bytes(
    kind: ElementKind,
    context: &GpuContext,
    (m, n): (usize, usize),
    by_rows: bool,
    full: bool,
    tuning: &Tuning,
) -> Result<(u64, u64)> {
    let scalar = kind.scalar_bytes();
    let square = |what: &'static str, of: usize| {
        fitting_bytes(context, what, 1, n.next_multiple_of(4).checked_mul(n).and_then(|len| len.checked_mul(of)))
    };
    let values = required_bytes_of(kind, context, (m, n), by_rows, tuning)?;
    let reflectors = Reflectors::of(kind, context, (m, n), tuning)?;
    fitting_bytes(context, "the reflectors of stage 2", kind.scalar_bytes(), Some(reflectors.of_step))?;
    let replay = square("vectors of the bidiagonal", kind.real_bytes())?.saturating_mul(3);
    let right = dense_bytes(kind, context, (n, n), true, tuning)?;
    let left = dense_bytes(kind, context, (m, if full { m } else { n }), true, tuning)?;
    let copy = dense_bytes(kind, context, (m, n), by_rows, tuning)?;
    let products = square("products of vectors", scalar)?.saturating_mul(2);
    let sum = |parts: &[u64]| parts.iter().copied().fold(0, u64::saturating_add);
    Ok((sum(&[values, reflectors.bytes(kind), copy, right]), sum(&[replay, right, left, left, products])))
}

impl Bounds<'_> {
    /// The bounds of the device of `context`.
    pub fn of(context: &GpuContext) -> Bounds<'_> {
        let limits = context.limits();
        Bounds {
            name: context.adapter_name(),
            threads: limits.max_compute_invocations_per_workgroup.min(limits.max_compute_workgroup_size_x) as usize,
            bytes: limits.max_compute_workgroup_storage_size as usize,
            workgroups: limits.max_compute_workgroups_per_dimension as usize,
            software: context.is_software(),
            fast_memory: has_fast_memory(context.adapter_name()),
            subgroup: context.subgroup_threads(),
        }
    }
}

impl Tuning {
    /// Defaults for a GPU, for elements of type `T` and a matrix whose smaller side is `n`. Of the values that fit the device's workgroup
    /// memory and threads, these are the best by the cost model for this kind of device.
    ///
    /// ```
    /// use svdvals_gpu::{GpuContext, Tuning};
    /// if let Ok(context) = GpuContext::global() {
    ///     assert!(Tuning::for_adapter::<f32>(&context, 4096).check().is_ok());
    /// }
    /// ```
    pub fn for_adapter<T: Number>(context: &GpuContext, n: usize) -> Tuning {
        Tuning::within(T::KIND, &Bounds::of(context), n)
    }

    /// Checks that the device of `context` can run with these values, for matrices stored as `kind` and no smaller than a tile. Every call
    /// does this check.
    ///
    /// ```
    /// use svdvals_gpu::{GpuContext, Tuning};
    /// if let Ok(context) = GpuContext::global() {
    ///     let tuning = Tuning::for_adapter::<f32>(&context, 4096);
    ///     assert!(tuning.check_for_adapter::<f32>(&context).is_ok());
    ///     assert!(tuning.threads_per_block(1 << 20).check_for_adapter::<f32>(&context).is_err());
    /// }
    /// ```
    ///
    /// # Errors
    /// [`SvdError::InvalidOption`], with the hyperparameter and the device's limit.
    pub fn check_for_adapter<T: Number>(&self, context: &GpuContext) -> Result<()> {
        self.check_for_kind(T::KIND, context)
    }

    /// [`check_for_adapter`](Self::check_for_adapter) of a storage type.
    pub(crate) fn check_for_kind(&self, kind: ElementKind, context: &GpuContext) -> Result<()> {
        let bounds = Bounds::of(context);
        Shape::new(kind, &bounds, self)?;
        // The order of the matrix does not matter, as long as it is at least the tile size.
        ChaseShape::new(kind, &bounds, BandLayout::new(self.tile_size, self.tile_size, self.tile_width), self)?;
        TriangleShape::new(kind.scalar(), &bounds, self).map(drop)
    }
}
