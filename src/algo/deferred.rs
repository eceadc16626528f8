//! Stage 1 with deferred updates.
//!
//! A stays as it is while reflectors accumulate: the trailing matrix is A - L R, and each panel adds to L and R, as in LAPACK's `gebrd`, but by blocks. A is
//! read twice for each tile, by products with a panel, and once more and written when L is applied, every `deferred_columns` reflectors. A panel's tree of
//! reflectors is joined into one block reflector I - V T V^H for that.
//!
//! ```text
//! update      P <- P - L R                             the panel, brought up to date
//! factor      P = Q [S; 0]                             by the levels of its tree
//! join        I - V T V^H, whose first columns are Q   by LU factorisation of Q's square part without its signs: no pivot is less than 1. V goes to L
//! multiply    R <- (V T)^H (A - L R)                   (V T)^H A and (V T)^H L, in parts of rows, then the correction by the product of the latter
//! subtract    A <- A - L R                             when L has as many columns as updates are deferred for
//! ```
//!
//! The levels of a tree are a chain that few workgroups compute. With twice the room for L, the subtraction is made beside them, a few columns of A with each
//! level of the panels that follow: L and R have these panels' columns in one half, and those that are being subtracted in the other. Where A is up to date,
//! R's part of the latter is set to zero, so that A - L R is the trailing matrix throughout.
//!
//! Sources: Wang and others, arXiv 2410.02170 (2024), for the deferred updates of a symmetric band reduction; Ballard and others, "Reconstructing Householder
//! vectors from tall-skinny QR" (2015), for the joining. Below `deferred_from` columns the rest is that of [`to_band`](crate::algo::to_band).

use std::ops::Range;

use crate::{
    algo::to_band::{band_levels, qr_first, rest_to_band},
    base::{
        blas::{Op, Side},
        element_kind::ElementKind,
        error::Result,
    },
    tile::{
        deferred::{DeferredPanel, DeferredProduct, joins},
        kernels::DeferredKernels,
        panel_tree::{Level, PanelTree, levels},
        tuning::Tuning,
    },
};

/// Most rows of a matrix, whose levels are then one piece each, and most entries with L, R and G: more cannot be indexed.
const MOST_ROWS: usize = 1 << 17;
const MOST_ENTRIES: u64 = 1 << 32;

/// How updates are deferred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Deferral {
    /// Columns of L whose product is subtracted at a time; 0: no updates are deferred.
    pub columns: usize,
    /// Whether they are subtracted beside the levels of the panels that follow.
    pub beside: bool,
}

impl Deferral {
    /// Columns of memory for L.
    pub fn room(self) -> usize {
        if self.beside { self.columns.saturating_mul(2) } else { self.columns }
    }

    /// Columns of L whose product is subtracted at a time where kept reflectors are applied, `all` columns of them. Nothing is beside these products, so they
    /// are few: of four times as many columns as in stage 1, or of all.
    pub fn applied(self, all: usize) -> usize {
        if self.beside { self.columns.saturating_mul(4).min(all.max(self.columns)) } else { self.columns }
    }
}

/// How a call for an m x n matrix, m >= n, stored as `kind`, defers updates, by kernels that can, and can subtract them `beside` levels or not. Of a tall
/// matrix the triangular factor is reduced.
pub(crate) fn deferral_of_call(kind: ElementKind, (m, n): (usize, usize), tuning: &Tuning, beside: bool) -> Deferral {
    let rows = if qr_first(m, n) { n } else { m };
    let columns = deferred_columns(kind, (rows, n), tuning);
    let fits = |deferral: Deferral| {
        let room = deferral.room();
        (m.saturating_add(room + 3) as u64).saturating_mul((n + room + 3) as u64) < MOST_ENTRIES
    };
    let (wanted, narrower) = (Deferral { columns, beside }, Deferral { columns, beside: false });
    if fits(wanted) {
        wanted
    } else if fits(narrower) {
        narrower
    } else {
        Deferral::default()
    }
}

/// The columns of L that are subtracted at a time in stage 1 of an m x n matrix, m >= n.
pub(crate) fn deferred_columns(kind: ElementKind, (m, n): (usize, usize), tuning: &Tuning) -> usize {
    let pair = 2usize.saturating_mul(stride(tuning)).max(1);
    let most = tuning.gpu.deferred_columns.min(MOST_ROWS) / pair * pair;
    let fits = most > 0
        && tuning.tree == PanelTree::Reduction
        && !kind.is_half()
        && n > tuning.tile_size
        && n >= tuning.gpu.deferred_from
        && m <= MOST_ROWS
        && joins(&levels_of_longest((m, n), tuning));
    if fits { most } else { 0 }
}

/// Columns of L that a panel appends.
fn stride(tuning: &Tuning) -> usize {
    tuning.tile_size.checked_next_multiple_of(4).unwrap_or(usize::MAX)
}

/// The levels of the first panel of an m x n matrix, m >= n, the longest one.
pub(crate) fn levels_of_longest((m, n): (usize, usize), tuning: &Tuning) -> Vec<Level> {
    let width = tuning.tile_size.min(n);
    let first = DeferredPanel {
        transposed: false,
        row: 0,
        rows: m,
        col: 0,
        width,
        cols: n,
        first: 0,
        pending: 0,
        to: 0,
        stride: stride(tuning),
    };
    levels_of(&first, tuning)
}

/// The levels of a panel's tree.
fn levels_of(panel: &DeferredPanel, tuning: &Tuning) -> Vec<Level> {
    let &DeferredPanel { transposed, row, col, width, .. } = panel;
    let maps = levels(PanelTree::Reduction, row, panel.len(), width, tuning.leaf, tuning.arity());
    maps.map(|map| Level { transposed, col, width, map }).collect()
}

/// The diagonal entry with which the rest begins, whose updates are not deferred.
fn first_of_rest(n: usize, tuning: &Tuning) -> usize {
    let (b, from) = (tuning.tile_size, tuning.gpu.deferred_from.max(1));
    (n + 1).saturating_sub(from).div_ceil(b) * b
}

/// The levels whose reflectors stage 1 of an m x n matrix, m >= n, keeps, in order. If updates are `deferred`, a panel's joined reflectors are a level of
/// one block.
pub(crate) fn kept_levels((m, n): (usize, usize), tuning: &Tuning, rows_at_once: usize, deferred: bool) -> Vec<Level> {
    let rest = if deferred { first_of_rest(n, tuning) } else { 0 };
    let mut levels = Vec::new();
    for k in (0..n.min(rest)).step_by(tuning.tile_size.max(1)) {
        levels.extend(panels((m, n), k, tuning).iter().flatten().map(DeferredPanel::level));
    }
    levels.extend(band_levels(m, n, tuning, rows_at_once).skip_while(|level| level.col < rest));
    levels
}

/// Those of one side with their numbers, in the order in which op(Q1) or op(P1) applies them.
pub(crate) fn applied_levels(levels: Vec<Level>, side: Side, op: Op) -> Vec<(usize, Level)> {
    let mut levels: Vec<_> = levels.into_iter().enumerate().collect();
    levels.retain(|(_, level)| level.transposed == (side == Side::Right));
    if op == Op::NoTrans {
        levels.reverse();
    }
    levels
}

/// The panels of columns and of rows that begin at diagonal entry `k`, before any columns of L.
fn panels((m, n): (usize, usize), k: usize, tuning: &Tuning) -> [Option<DeferredPanel>; 2] {
    let (b, stride) = (tuning.tile_size, stride(tuning));
    let (first, pending, to) = (0, 0, 0);
    let width = b.min(n - k);
    let columns = DeferredPanel { transposed: false, row: k, rows: m, col: k, width, cols: n, first, pending, to, stride };
    let of_rows = DeferredPanel { transposed: true, row: k + b, rows: n, col: k, width, cols: m, first, pending, to, stride };
    [Some(columns), (k + b < n).then_some(of_rows)]
}

/// The columns of L that are in use.
struct Updates {
    deferral: Deferral,
    /// Those that are subtracted beside panels, and the column of A from which on they have been.
    old: Range<usize>,
    until: usize,
    /// Those of the last panels.
    new: Range<usize>,
    /// Whether these begin behind the old ones, or end before them.
    behind: bool,
}

impl Updates {
    fn of(deferral: Deferral) -> Updates {
        Updates { deferral, old: 0..0, until: 0, new: 0..0, behind: true }
    }

    /// The next panel, with its place in L, which is in use from then on.
    fn append(&mut self, panel: DeferredPanel) -> DeferredPanel {
        let (old, new) = (self.old.clone(), self.new.clone());
        let used = if old.is_empty() { new.clone() } else { old.start.min(new.start)..old.end.max(new.end) };
        let to = if self.behind { new.end } else { new.start - panel.stride };
        self.new = new.start.min(to)..new.end.max(to + panel.stride);
        DeferredPanel { first: used.start, pending: used.end, to, ..panel }
    }

    /// Whether another pair of panels would be too many.
    fn is_full(&self, tuning: &Tuning) -> bool {
        self.new.len() + 2 * stride(tuning) > self.deferral.columns
    }

    /// The products beside the `count` levels of a panel: equal shares of what is left of the old updates, in multiples of a workgroup's columns, from the last
    /// columns on.
    fn beside(&mut self, panel: &DeferredPanel, count: usize, tuning: &Tuning) -> Vec<DeferredProduct> {
        // The trailing matrix begins at this row, and this column.
        let first = panel.trailing().start;
        let levels_left = (self.deferral.columns.saturating_sub(self.new.len()) / panel.stride + 1) * count;
        let share = self.until.saturating_sub(first).div_ceil(levels_left.max(1)).next_multiple_of(tuning.cols_per_block.max(1));
        let mut products = Vec::new();
        while products.len() < count && self.until > first {
            let from = self.until.saturating_sub(share).max(first);
            products.push(panel.beside(from..self.until, self.old.clone()));
            self.until = from;
        }
        products
    }

    /// What is left to subtract when the new updates are `full` or the last: of the old ones, and, unless they become old ones, the new ones.
    fn subtracted(&mut self, (m, n): (usize, usize), k: usize, last: bool) -> Vec<DeferredProduct> {
        let product = |cols, inner| DeferredProduct { transposed: false, size: (m, n), rows: k..m, cols, inner };
        let mut products = Vec::new();
        if self.until > k {
            products.push(product(k..self.until, self.old.clone()));
        }
        if self.deferral.beside && !last {
            (self.old, self.until) = (self.new.clone(), n);
            self.behind = self.old.start == 0;
            let at = if self.behind { self.old.end } else { self.old.start };
            self.new = at..at;
        } else {
            products.push(product(k..n, self.new.clone()));
            *self = Updates::of(self.deferral);
        }
        products
    }
}

/// Reduces an m x n matrix, m >= n, to an upper band as [`to_band`](crate::algo::to_band::to_band) does, with the room for columns of L that `deferral` needs.
pub(crate) fn to_band_deferred<K: DeferredKernels>(
    kernels: &K,
    a: &mut K::Dense,
    (m, n): (usize, usize),
    tuning: &Tuning,
    deferral: Deferral,
) -> Result<()> {
    let (b, rest) = (tuning.tile_size, first_of_rest(n, tuning));
    let (mut k, mut updates) = (0, Updates::of(deferral));
    while k < n.min(rest) {
        for panel in panels((m, n), k, tuning).into_iter().flatten() {
            eliminate(kernels, a, panel, &mut updates, tuning)?;
        }
        k += b;
        if k < n && (updates.is_full(tuning) || k >= rest) {
            for product in updates.subtracted((m, n), k, k >= rest) {
                kernels.subtract_deferred(a, &product)?;
            }
        }
    }
    rest_to_band(kernels, a, (m, n), k, tuning)
}

/// Factors a panel, and appends its reflectors and their products.
fn eliminate<K: DeferredKernels>(
    kernels: &K,
    a: &mut K::Dense,
    panel: DeferredPanel,
    updates: &mut Updates,
    tuning: &Tuning,
) -> Result<()> {
    let panel = &updates.append(panel);
    if panel.is_outdated() {
        kernels.subtract_deferred(a, &panel.update())?;
    }
    let (levels, until) = (levels_of(panel, tuning), updates.until);
    let products = updates.beside(panel, levels.len(), tuning);
    for (k, level) in levels.iter().enumerate() {
        kernels.factor_level(a, k, level, products.get(k))?;
    }
    let beside = (!products.is_empty()).then(|| panel.beside(updates.until..until, updates.old.clone()));
    kernels.join_reflectors(a, panel, &levels, beside.as_ref())?;
    if panel.trailing().is_empty() {
        return Ok(());
    }
    kernels.multiply_panel(a, panel)?;
    if panel.is_outdated() {
        kernels.subtract_deferred(a, &panel.correction())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
