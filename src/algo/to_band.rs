//! Stage 1: dense to band.
//!
//! ```text
//! A = Q1 B P1^H        A m x n, m >= n;  B n x n upper triangular with b superdiagonals
//! ```
//!
//! For each diagonal tile k, a QR sweep makes column panel k upper triangular, and an LQ sweep makes row panel k, right of the diagonal
//! tile, lower triangular. The LQ sweep is the QR sweep on the transpose, one tile further: the same kernels with swapped strides.
//! (Unified-kernels paper, section 3, with the flat tree replaced by a reduction tree as in communication-avoiding QR: Demmel, Grigori,
//! Hoemmen and Langou 2012.)

use crate::{
    base::error::Result,
    tile::{
        kernels::StageKernels,
        panel_tree::{Level, levels},
        tuning::Tuning,
    },
};

/// Whether a QR factorisation first reduces the flops: for m >= 5/3 n (Chan 1982; LAPACK's `gesdd` uses 11/6).
pub(crate) fn qr_first(m: usize, n: usize) -> bool {
    m > n && 3 * m as u128 >= 5 * n as u128
}

/// Reduces the m x n matrix `a` (m >= n) to an upper band with `tuning.tile_size` superdiagonals in its leading n x n part.
pub fn to_band<K: StageKernels>(kernels: &K, a: &mut K::Dense, m: usize, n: usize, tuning: &Tuning) -> Result<()> {
    if kernels.to_band_deferred(a, (m, n), tuning)? {
        return Ok(());
    }
    rest_to_band(kernels, a, (m, n), 0, tuning)
}

/// [`to_band`] of what is left from diagonal entry `first` on, which begins a tile.
pub(crate) fn rest_to_band<K: StageKernels>(
    kernels: &K,
    a: &mut K::Dense,
    (m, n): (usize, usize),
    first: usize,
    tuning: &Tuning,
) -> Result<()> {
    sweeps(kernels, a, band_levels(m, n, tuning, kernels.rows_at_once()).skip_while(move |level| level.col < first))
}

/// The levels of [`to_band`], in order: those of a QR sweep and an LQ sweep for each diagonal tile.
pub(crate) fn band_levels(m: usize, n: usize, tuning: &Tuning, rows_at_once: usize) -> impl Iterator<Item = Level> {
    let b = tuning.tile_size;
    let row_panel =
        move |k: usize| (k + b < n).then(|| Panel { transposed: true, row: k + b, rows: n - k - b, col: k, width: b });
    let panels = column_panels(m, n, b).flat_map(move |panel| [Some(panel), row_panel(panel.col)]).flatten();
    panels.flat_map(move |panel| panel.levels(tuning, rows_at_once))
}

/// QR factorisation: reduces the m x n matrix `a`, of any shape, to its upper triangular factor (min(m, n) x n), with zeros below.
pub(crate) fn triangular_factor<K: StageKernels>(
    kernels: &K,
    a: &mut K::Dense,
    m: usize,
    n: usize,
    tuning: &Tuning,
) -> Result<()> {
    sweeps(kernels, a, factor_levels(m, n, tuning, kernels.rows_at_once()))
}

/// The levels of [`triangular_factor`], in order.
pub(crate) fn factor_levels(m: usize, n: usize, tuning: &Tuning, rows_at_once: usize) -> impl Iterator<Item = Level> {
    column_panels(m, n, tuning.tile_size).flat_map(move |panel| panel.levels(tuning, rows_at_once))
}

/// Columns `col..col + width` from row `row` down, of A or of its transpose.
#[derive(Clone, Copy)]
struct Panel {
    transposed: bool,
    row: usize,
    rows: usize,
    col: usize,
    width: usize,
}

impl Panel {
    /// The levels of the panel's reduction tree, split into pieces of at most `rows_at_once` stacked rows.
    fn levels(self, tuning: &Tuning, rows_at_once: usize) -> impl Iterator<Item = Level> + use<> {
        let Panel { transposed, row, rows, col, width } = self;
        let leaf = tuning.leaf;
        let maps = levels(tuning.tree, row, rows, width, leaf, tuning.arity());
        maps.flat_map(move |map| map.pieces(rows_at_once, leaf)).map(move |map| Level { transposed, col, width, map })
    }
}

/// The column panels of width `b`, each from its diagonal tile down.
fn column_panels(m: usize, n: usize, b: usize) -> impl Iterator<Item = Panel> {
    let k = m.min(n);
    (0..k).step_by(b).map(move |j| Panel { transposed: false, row: j, rows: m - j, col: j, width: b.min(k - j) })
}

/// Factors the levels in order, and updates the trailing matrix of each.
fn sweeps<K: StageKernels>(kernels: &K, a: &mut K::Dense, levels: impl Iterator<Item = Level>) -> Result<()> {
    let mut levels = levels.peekable();
    if let Some(first) = levels.peek() {
        kernels.geqrt(a, first)?;
    }
    while let Some(level) = levels.next() {
        match levels.peek() {
            Some(next) => kernels.unmqr_and_geqrt(a, &level, next)?,
            None => kernels.unmqr(a, &level)?,
        }
    }
    Ok(())
}
