//! Kept reflectors: what common/reflectors.rs asks of every backend.

use svdvals_gpu::{GpuContext, internals::GpuKernels};

use crate::{Elements, Outcome, common::reflectors, tile_fits};

/// In f16, V is rounded to the stored type, and so is C after each of up to 130 reflectors of an entry's row in either stage.
pub fn factors_give_the_matrix_back<T: Elements>(context: &GpuContext) -> Outcome {
    let fits = |tuning: &svdvals_gpu::Tuning| tile_fits::<T>(context, tuning.tile_size);
    let kernels = |tuning: &svdvals_gpu::Tuning| GpuKernels::<T>::new(context, tuning);
    Ok(reflectors::factors_give_the_matrix_back::<T, _>(kernels, fits, T::stored(130))?)
}
