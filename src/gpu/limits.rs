//! Checks of hyperparameters against the limits of a device.

use crate::{
    algo::{svdvals::qr_first, to_band::band_levels},
    base::{
        error::Result,
        number::{Number, Re},
    },
    cost::shape::{Bounds, ChaseShape, Shape, TriangleShape, has_fast_memory},
    gpu::{
        device::context::GpuContext,
        storage::{dense_bytes, fitting_bytes, required_bytes_of, rows_at_once},
    },
    tile::{band_layout::BandLayout, chase_schedule::ReductionStep, tuning::Tuning},
};

/// Bytes of the decomposition with all vectors of an m x n matrix, m >= n, row-major if `by_rows`, else column-major: those of the values, and of
/// the kept reflectors, the second copy of the matrix, three matrices for divide and conquer, U and V with a copy of each, and products of their
/// columns. Some of it is freed before the rest is allocated.
pub(crate) fn required_svd_bytes<T: Number>(
    context: &GpuContext,
    (m, n): (usize, usize),
    by_rows: bool,
    full: bool,
    tuning: &Tuning,
) -> Result<u64> {
    let shape = Shape::new::<T>(&Bounds::of(context), tuning)?;
    let scalar = size_of::<T::Scalar>();
    let square = |what: &'static str, of: usize| {
        fitting_bytes::<u8>(context, what, n.next_multiple_of(4).checked_mul(n).and_then(|len| len.checked_mul(of)))
    };
    let values = required_bytes_of::<T>(context, (m, n), by_rows, tuning)?;
    let rows = if qr_first(m, n) { n } else { m };
    let blocks =
        band_levels(rows, n, tuning, rows_at_once::<T>(context, shape)).map(|level| level.map.blocks() as u64).sum::<u64>();
    let of_stage_1 = blocks.saturating_mul((shape.ts * shape.ts * scalar) as u64);
    let steps = ReductionStep::all(n, tuning.bandwidth(n), tuning.tile_width).count() as u64;
    let of_stage_2 = square("the reflectors of stage 2", scalar)?.saturating_mul(steps);
    let replay = square("vectors of the bidiagonal", size_of::<Re<T>>())?.saturating_mul(3);
    let right = dense_bytes::<T>(context, (n, n), true, tuning)?;
    let left = dense_bytes::<T>(context, (m, if full { m } else { n }), true, tuning)?;
    let copy = dense_bytes::<T>(context, (m, n), by_rows, tuning)?;
    let products = square("products of vectors", scalar)?.saturating_mul(2);
    let parts = [values, of_stage_1, of_stage_2, copy, replay, right, right, left, left, products];
    Ok(parts.into_iter().fold(0, u64::saturating_add))
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
        Tuning::within::<T>(&Bounds::of(context), n)
    }

    /// Checks that the device of `context` can run with these values, for matrices stored as `T` and no smaller than a tile. Every call
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
    /// [`SvdError::InvalidOption`](crate::SvdError::InvalidOption), with the hyperparameter and the device's limit.
    pub fn check_for_adapter<T: Number>(&self, context: &GpuContext) -> Result<()> {
        let bounds = Bounds::of(context);
        Shape::new::<T>(&bounds, self)?;
        // The order of the matrix does not matter, as long as it is at least the tile size.
        ChaseShape::new::<T>(&bounds, BandLayout::new(self.tile_size, self.tile_size, self.tile_width), self)?;
        TriangleShape::new::<T::Scalar>(&bounds, self).map(drop)
    }
}
