//! Stage 1 with deferred updates.

use faer::Mat;
use svdvals_gpu::{
    Backend, GpuContext, GpuMatrix, SvdOptions, SvdValsGpu, Tuning,
    cost::{Cost, Kernel},
};

use crate::{
    Elements, Outcome, check,
    common::{eps, furthest, row_major},
    tuning, vectors,
};

/// Hyperparameters and shapes: panels of one, two and three levels; widths that four does not divide, and wider than a matrix's last panel; with updates
/// made after each tile and after several, or beside the panels that follow, of which L has many turns; down to the last tile, or with a rest that is reduced at
/// once; square, taller, tall and wide.
fn cases() -> Vec<((usize, usize), Tuning)> {
    let narrow = tuning(5, 20).deferred_columns(40);
    vec![
        ((130, 129), tuning(8, 32).deferred_columns(32).deferred_from(20).deferred_beside(1)),
        ((61, 80), narrow.clone()),
        ((200, 50), narrow.clone().deferred_from(11)),
        ((34, 33), tuning(16, 32).deferred_columns(1000).strips_per_thread(2)),
        ((60, 91), narrow.deferred_columns(16).deferred_beside(1)),
        ((130, 129), tuning(8, 32).deferred_columns(64).deferred_from(20)),
    ]
}

/// The values are the CPU's, of a random matrix in both memory orders, and of the second shape with dependent columns and with zero columns; and the
/// dispatches are those that the model counts.
///
/// Bound: 4 max(m, n) eps times the largest value, twice the backward error of the two-sided reduction. Deferred updates have as many roundings: an entry is
/// a sum of products, once for every panel, however long its terms wait.
pub fn values_are_the_cpus<T: Elements>(context: &GpuContext) -> Outcome {
    let cpu = SvdOptions::default().backend(Backend::Cpu);
    for ((m, n), tuning) in cases() {
        // Two strips of numbers of 16 bytes take more workgroup memory than some devices have.
        let tuning = if size_of::<T::Scalar>() > 8 { tuning.strips_per_thread(1) } else { tuning };
        let options = SvdOptions::default().context(context.clone()).backend(Backend::Gpu).tuning(tuning.clone());
        let random = Mat::<T>::from_fn(m, n, |i, j| T::noise(71, i, j));
        let dependent = Mat::<T>::from_fn(m, n, |i, j| T::noise(72, i, j % 3));
        let zeros =
            Mat::<T>::from_fn(m, n, |i, j| if (10..20).contains(&j) || i == 5 { T::real(0.0) } else { T::noise(73, i, j) });
        let swapped = row_major(&random);
        let mut matrices = vec![random.as_ref(), swapped.as_ref().transpose()];
        if m < n {
            matrices.extend([dependent.as_ref(), zeros.as_ref()]);
        }
        for (number, source) in matrices.into_iter().enumerate() {
            let want = T::view_values(source, &cpu)?;
            let report = source.svdvals_gpu_report(&options)?;
            let found = furthest(report.values.iter().zip(&want).map(|(a, b)| svdvals_gpu::RealElement::to_double(*a) - b));
            let bound = 4.0 * m.max(n) as f64 * eps::<T>() * want[0];
            check!(found <= bound, "{m} x {n}, matrix {number}, {tuning}: {found:.1e}, bound {bound:.1e}");
            let counted = Cost::with_stage3::<T>(m, n, &tuning, false)?;
            check!(counted.kernel(Kernel::JoinReflectors).dispatches > 0, "{m} x {n}, {tuning}: nothing is deferred");
            let beside = counted.kernel(Kernel::GeqrtAndSubtract).dispatches > 0;
            check!(beside == (tuning.gpu.deferred_beside > 0), "{m} x {n}, {tuning}: updates beside panels: {beside}");
            if number == 0 {
                let there = GpuMatrix::upload(context, &random)?.svdvals(&options)?;
                check!(there.iter().eq(report.values.iter()), "{m} x {n}, {tuning}: other values of a resident matrix");
            }
            let [dispatches, by_model] = [report.counts.dispatches, counted.dispatches()];
            check!(dispatches == by_model, "{m} x {n}, {tuning}: {dispatches} dispatches, {by_model} by the model");
        }
    }
    Ok(())
}

/// Decompositions are within the bounds of all others (`common/vectors.rs`), with all vectors and with some.
pub fn vectors_are_within_bounds<T: Elements>(context: &GpuContext) -> Outcome {
    for ((m, n), tuning) in cases().into_iter().take(3) {
        let options = SvdOptions::default().context(context.clone()).backend(Backend::Gpu).tuning(tuning.clone());
        let a = Mat::<T>::from_fn(m, n, |i, j| T::noise(74, i, j));
        for options in [options.clone(), options.keep(9)] {
            vectors::check(&format!("{m} x {n}, {tuning}"), a.as_ref(), &options)?;
        }
    }
    Ok(())
}
