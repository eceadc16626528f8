//! Checks of hyperparameters against the limits of a device.

use crate::{
    base::{error::Result, number::Number},
    cost::shape::{Bounds, ChaseShape, Shape, TriangleShape, has_fast_memory},
    gpu::device::context::GpuContext,
    tile::{band_layout::BandLayout, tuning::Tuning},
};

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
