//! Kept reflectors: what common/reflectors.rs asks of every backend.

use svdvals_gpu::{GpuContext, Tuning, internals::GpuKernels};

use crate::{Elements, Outcome, kept, tile_fits, tuning};

/// In f16, V is rounded to the stored type, and so is C after each of up to 130 reflectors of an entry's row in either stage.
pub fn factors_give_the_matrix_back<T: Elements>(context: &GpuContext) -> Outcome {
    let fits = |tuning: &Tuning| tile_fits::<T>(context, tuning.tile_size);
    let kernels = |tuning: &Tuning| GpuKernels::new::<T>(context, tuning);
    Ok(kept::factors_give_the_matrix_back::<T, _>(kernels, fits, T::stored(130))?)
}

/// The same of stage 1 with deferred updates: of panels of one to three levels, with a rest that is reduced at once or none, a last panel of one row, and in
/// the application of the factors room for several panels, or for two.
pub fn factors_of_deferred_updates<T: Elements>(context: &GpuContext) -> Outcome {
    let narrow = tuning(5, 20).deferred_columns(48);
    for (size, tuning) in [
        ((64, 64), tuning(8, 16).deferred_columns(16).deferred_beside(1)),
        ((60, 51), narrow.clone()),
        ((75, 61), narrow.deferred_from(30)),
    ] {
        let kernels = GpuKernels::new::<T>(context, &tuning)?;
        kept::stage_1_factors::<T, _>(&kernels, size, &tuning, T::stored(130))?;
    }
    Ok(())
}
