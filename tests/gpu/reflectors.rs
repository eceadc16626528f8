//! Kept reflectors: what common/reflectors.rs asks of every backend.

use svdvals_gpu::{GpuContext, Tuning, internals::GpuKernels};

use crate::{Elements, Outcome, kept, tile_fits};

/// In f16, V is rounded to the stored type, and so is C after each of up to 130 reflectors of an entry's row in either stage.
pub fn factors_give_the_matrix_back<T: Elements>(context: &GpuContext) -> Outcome {
    let fits = |tuning: &Tuning| tile_fits::<T>(context, tuning.tile_size);
    let kernels = |tuning: &Tuning| GpuKernels::new::<T>(context, tuning);
    Ok(kept::factors_give_the_matrix_back::<T, _>(kernels, fits, T::stored(130))?)
}
