//! What the model counts: calls of so few dispatches that counting them takes a moment.

use crate::{
    base::error::{Result, SvdError},
    cost::work::{ROWS_AT_ONCE, SUBMISSION_FLOPS},
    tile::{
        panel_tree::PanelTree,
        tuning::{GpuTuning, Tuning},
    },
};

/// Most dispatches of a call, about. Those of a matrix that fills the memory of a data-centre GPU, of order 140,000, are half as many.
const MOST: u64 = 1 << 20;

/// About the dispatches of an m x n matrix, m >= n, without vectors.
fn dispatches((m, n): (usize, usize), tuning: &Tuning) -> u64 {
    let [m, n, tile, leaf] = [m, n, tuning.tile_size, tuning.leaf].map(|x| x as u64);
    let GpuTuning { sweeps_per_block, cycles_per_dispatch, .. } = tuning.gpu;
    let [team, cycles] = [sweeps_per_block, cycles_per_dispatch].map(|x| (x as u64).max(1));
    // A panel's levels, of column panels and row panels: a tile each, or those of a tree, and more of them where it is cut.
    let rows_at_once = (ROWS_AT_ONCE as u64).max(leaf);
    let of_panel = match tuning.tree {
        PanelTree::Flat => m.div_ceil(tile.max(1)),
        PanelTree::Reduction => 2 * m.div_ceil(rows_at_once) + u64::from(m.max(1).ilog(tuning.arity() as u64)),
    };
    // With deferred updates a product before a panel's levels, and four kernels after them.
    let deferred = if tuning.gpu.deferred_columns > 0 { 5 } else { 0 };
    let panels = (2 * n.div_ceil(tile.max(1))).saturating_mul(of_panel.saturating_add(deferred));
    let cut = m.saturating_mul(n).saturating_mul(4 * n) / SUBMISSION_FLOPS;
    // Stage 2: each step has (m + 3 s - 1) n / (s m).
    let steps = (tuning.bandwidth(n as usize) as u64).saturating_sub(1).div_ceil((tuning.tile_width as u64).max(1));
    let of_step = n.saturating_mul(cycles.saturating_add(3 * team - 1)) / team.saturating_mul(cycles);
    [panels, cut, steps.saturating_mul(of_step)].into_iter().fold(0, u64::saturating_add)
}

/// Checks that the dispatches of an m x n matrix, m >= n, are so few that they can be counted.
pub(super) fn check_dispatches((m, n): (usize, usize), tuning: &Tuning) -> Result<()> {
    let count = dispatches((m, n), tuning);
    if count <= MOST {
        return Ok(());
    }
    let reason =
        format!("{m} x {n} with these hyperparameters takes about {count} dispatches, but the model counts at most {MOST}");
    Err(SvdError::invalid("matrix", reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Cost;

    /// The estimate is at least half the count, and at most three times it.
    #[test]
    fn estimates() {
        let base = Cost::tuning::<f32>(2000);
        let small = base.clone().tile_size(4).leaf(16).tile_width(2);
        let flat = base.clone().tree(PanelTree::Flat);
        let teams = base.clone().sweeps_per_block(4).cycles_per_dispatch(8);
        for (m, n) in [(2000, 2000), (9000, 700), (300_000, 40)] {
            for tuning in [&base, &small, &flat, &teams] {
                let (found, counted) = (dispatches((m, n), tuning), Cost::new::<f32>(m, n, tuning).unwrap().dispatches());
                assert!(found < 3 * counted + 500 && counted < 2 * found, "{m} x {n}, {tuning}: {found}, not {counted}");
            }
        }
        assert!(check_dispatches((140_000, 140_000), &Cost::tuning::<f32>(140_000)).is_ok());
        assert!(check_dispatches((1 << 19, 1 << 19), &Cost::tuning::<f32>(1 << 19)).is_err());
    }
}
