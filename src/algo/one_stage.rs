//! One stage: dense to bidiagonal, with the updates of a panel of columns and rows merged.
//!
//! ```text
//! A = Q C P1^H         A m x n, m >= n;  C n x n upper bidiagonal
//! ```
//!
//! Column j is eliminated by the reflector I - tau v v^H from the left, and row j, right of the superdiagonal, by I - sigma
//! conj(u) u^T from the right. Within a panel A stays as it was. The reduced matrix is A - P R^T, with a column of P and R for
//! each reflector:
//!
//! ```text
//! column j:   x = A e_j - P R^T e_j      v of x     P <- [P v]    R <- [R y],   y = tau (A^T conj(v) - R P^T conj(v))
//! row j:      x = A^T e_j - R P^T e_j    u of x     R <- [R u]    P <- [P w],   w = sigma (A conj(u) - P R^T conj(u))
//! after it:   A <- A - P R^T             one product of rank 2 b
//! ```
//!
//! (GPU-centered SVD paper, section 4.1, equations 7 to 10 and algorithm 1. The paper has Q = conj(R). With R a row is a column
//! of the transpose, with P and R swapped.) Each reflector takes two kernels, because y and w are completed together with the
//! next x.

use std::ops::Range;

use crate::{
    base::error::Result,
    tile::{
        kernels::{OneStageKernels, TileKernels},
        one_stage::{Line, Trailing},
        tuning::Tuning,
    },
};

/// Columns of a panel of a matrix with `n` columns.
pub(crate) fn panel_width(n: usize, tuning: &Tuning) -> usize {
    tuning.tile_size.min(n).max(1)
}

/// Reduces the m x n matrix `a` (m >= n) to upper bidiagonal form in its leading n x n part. The other entries are arbitrary. If
/// `keep`, the result can [apply](TileKernels::apply_row_reflectors) the reflectors of the rows.
pub fn one_stage<K: OneStageKernels>(
    kernels: &K,
    a: &mut K::Dense,
    (m, n): (usize, usize),
    tuning: &Tuning,
    keep: bool,
) -> Result<K::Panels> {
    let width = panel_width(n, tuning);
    let mut panels = kernels.panels(a, width, keep)?;
    for k in (0..n).step_by(width) {
        let end = n.min(k + width);
        for j in k..end {
            let column = Line::column(j, (m, n), k);
            kernels.update_line(a, &mut panels, &column)?;
            kernels.multiply_line(a, &mut panels, &column)?;
            if j + 1 < n {
                let row = Line::row(j, (m, n), k);
                kernels.update_line(a, &mut panels, &row)?;
                kernels.multiply_line(a, &mut panels, &row)?;
            }
        }
        if end < n {
            kernels.update_trailing(a, &mut panels, &Trailing { first: end, size: (m, n), inner: 2 * (end - k) })?;
        }
    }
    Ok(panels)
}

/// C <- P1 C for the reflectors of the rows that [`one_stage`] of a matrix with `n` columns has kept. C has n rows.
pub fn apply_one_stage<K: TileKernels>(
    kernels: &K,
    a: &K::Dense,
    panels: &mut K::Panels,
    n: usize,
    tuning: &Tuning,
    c: &mut K::Dense,
) -> Result<()> {
    let all: Vec<Range<usize>> = panel_rows(n, tuning).collect();
    all.into_iter().rev().try_for_each(|rows| kernels.apply_row_reflectors(a, panels, rows, c))
}

/// The rows with reflectors of each panel of a matrix with `n` columns.
pub(crate) fn panel_rows(n: usize, tuning: &Tuning) -> impl Iterator<Item = Range<usize>> + use<> {
    let (rows, width) = (n.saturating_sub(1), panel_width(n, tuning));
    (0..rows).step_by(width).map(move |k| k..rows.min(k + width))
}
