//! Stage 1 with deferred updates.

use faer::Mat;
use svdvals_gpu::{
    Backend, GpuContext, SvdOptions, SvdValsGpu, Tuning,
    cost::{Cost, Kernel},
};

use crate::{
    Elements, Outcome, check,
    common::{eps, furthest, row_major},
    tuning,
};

/// Hyperparameters and shapes: panels of one, two and three levels; widths that four does not divide, and wider than a matrix's last panel; with updates
/// made after each tile and after several; down to the last tile, or with a rest that is reduced at once; square, taller, tall and wide.
fn cases() -> Vec<((usize, usize), Tuning)> {
    vec![
        ((40, 40), tuning(8, 64).deferred_columns(16)),
        ((70, 64), tuning(8, 24).deferred_columns(48)),
        ((130, 129), tuning(8, 32).deferred_columns(64)),
        ((61, 80), tuning(5, 20).deferred_columns(40)),
        ((33, 33), tuning(4, 12).deferred_columns(1000)),
        ((90, 75), tuning(8, 24).deferred_columns(32).deferred_from(30)),
        ((200, 50), tuning(6, 18).deferred_columns(32).strips_per_thread(2)),
        ((67, 65), tuning(16, 32).deferred_columns(64).strips_per_thread(2)),
    ]
}

/// The values are the CPU's, in both memory orders, of a random matrix, one with dependent columns and one with zero columns; and the dispatches are those
/// that the model counts.
///
/// Bound: 4 max(m, n) eps times the largest value, twice the backward error of the two-sided reduction. Deferred updates have as many roundings: an entry is
/// a sum of products, once for every panel, however long its terms wait.
pub fn values_are_the_cpus<T: Elements>(context: &GpuContext) -> Outcome {
    let cpu = SvdOptions::default().backend(Backend::Cpu);
    for ((m, n), tuning) in cases() {
        // Two strips of numbers of 16 bytes take more workgroup memory than some devices have.
        let tuning = if size_of::<T::Scalar>() > 8 { tuning.strips_per_thread(1) } else { tuning };
        let options = SvdOptions::default().context(context.clone()).backend(Backend::Gpu).tuning(tuning.clone());
        let matrices = [
            Mat::<T>::from_fn(m, n, |i, j| T::noise(71, i, j)),
            Mat::<T>::from_fn(m, n, |i, j| T::noise(72, i, j % 3)),
            Mat::<T>::from_fn(m, n, |i, j| if (10..20).contains(&j) || i == 5 { T::real(0.0) } else { T::noise(73, i, j) }),
        ];
        for (number, a) in matrices.iter().enumerate() {
            let want = T::values(a, &cpu)?;
            let swapped = row_major(a);
            for source in [a.as_ref(), swapped.as_ref().transpose()] {
                let report = source.svdvals_gpu_report(&options)?;
                let found = furthest(report.values.iter().zip(&want).map(|(a, b)| svdvals_gpu::RealElement::to_double(*a) - b));
                let bound = 4.0 * m.max(n) as f64 * eps::<T>() * want[0];
                check!(found <= bound, "{m} x {n}, matrix {number}, {tuning}: {found:.1e}, bound {bound:.1e}");
                let counted = Cost::with_stage3::<T>(m, n, &tuning, false)?;
                check!(counted.kernel(Kernel::JoinReflectors).dispatches > 0, "{m} x {n}, {tuning}: nothing is deferred");
                let [dispatches, by_model] = [report.counts.dispatches, counted.dispatches()];
                check!(dispatches == by_model, "{m} x {n}, {tuning}: {dispatches} dispatches, {by_model} by the model");
            }
        }
    }
    Ok(())
}
