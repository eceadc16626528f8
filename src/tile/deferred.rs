//! The index arithmetic of stage 1 with deferred updates.
//!
//! ```text
//!   [ A  L ]     the trailing matrix is A - L R. L has a column, and R a row, for each reflector whose update A lacks, or has in part of its columns:
//!   [ R  G ]     there R is zero. G has room for products with L
//! ```
//!
//! Of an m x n matrix A, L begins at column n, and R at row m. Each panel puts `stride` columns into L and rows into R, behind those in use or before them: a
//! panel of columns V into L and (V T)^H A into R, and one of rows likewise, with A, L and R transposed.

use std::ops::Range;

use crate::tile::panel_tree::{Level, RowMap, Stack};

/// A panel of columns of A, or of its transpose, from its diagonal tile down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeferredPanel {
    /// False: of A. True: of A^T, with swapped strides. Below A is A^T then.
    pub transposed: bool,
    /// First row, and rows of A.
    pub row: usize,
    pub rows: usize,
    /// First column, columns of the panel, and columns of A.
    pub col: usize,
    pub width: usize,
    pub cols: usize,
    /// Columns of L that are in use before it, from `first` on and before `pending`.
    pub first: usize,
    pub pending: usize,
    /// Where it puts columns of L: behind those, or before them.
    pub to: usize,
    /// Columns that it puts there: at least its own, the others are zero.
    pub stride: usize,
}

/// A window C of the matrix [A, L; R, G], and what is subtracted from it: the part of L in its rows times the part of R in its columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeferredProduct {
    /// Whether the window is one of the transpose.
    pub transposed: bool,
    /// Of A, as the window sees it.
    pub size: (usize, usize),
    /// Of C.
    pub rows: Range<usize>,
    pub cols: Range<usize>,
    /// Columns of L.
    pub inner: Range<usize>,
}

impl DeferredPanel {
    /// Rows of the panel.
    pub fn len(&self) -> usize {
        self.rows - self.row
    }

    /// Whether it has no rows. No panel of a reduction is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The panel's joined reflectors, as a level of one block.
    pub fn level(&self) -> Level {
        let (start, rows) = (self.row, self.len());
        let map = RowMap { start, group: rows, spacing: rows, rows, block_rows: rows, stack: Stack::Rows };
        Level { transposed: self.transposed, col: self.col, width: self.width, map }
    }

    /// The columns right of the panel.
    pub fn trailing(&self) -> Range<usize> {
        self.col + self.width..self.cols
    }

    /// The columns that are multiplied with the panel's reflectors: those right of it, and L, up to its last column that is in use. (Products with columns before
    /// the first one, of which there are at most half, are not used.)
    pub fn multiplied(&self) -> Range<usize> {
        self.col + self.width..self.cols + self.pending
    }

    fn product(&self, rows: Range<usize>, cols: Range<usize>) -> DeferredProduct {
        DeferredProduct { transposed: self.transposed, size: (self.rows, self.cols), rows, cols, inner: self.first..self.pending }
    }

    /// Whether columns of L are in use.
    pub fn is_outdated(&self) -> bool {
        self.first < self.pending
    }

    /// What brings the panel up to date.
    pub fn update(&self) -> DeferredProduct {
        self.product(self.row..self.rows, self.col..self.col + self.width)
    }

    /// What makes (V T)^H (A - L R), in its rows of R, of (V T)^H A there and (V T)^H L in G.
    pub fn correction(&self) -> DeferredProduct {
        let first = self.rows + self.to;
        self.product(first..first + self.stride, self.trailing())
    }

    /// The update of the matrix's columns `of`, right of the panel, by these columns of L, while the panel is factored.
    pub fn beside(&self, of: Range<usize>, inner: Range<usize>) -> DeferredProduct {
        let (rows, cols) = if self.transposed { (of, self.trailing()) } else { (self.row..self.rows, of) };
        DeferredProduct { inner, ..self.product(rows, cols) }
    }
}

impl DeferredProduct {
    /// The rows and columns, as the window sees them, of its part of R; of the transpose, of R^T.
    pub fn part_of_r(&self) -> [Range<usize>; 2] {
        let after = |size: usize| size + self.inner.start..size + self.inner.end;
        if self.transposed { [self.rows.clone(), after(self.size.1)] } else { [after(self.size.0), self.cols.clone()] }
    }

    /// The product for the columns after the first `cols`.
    pub fn after(&self, cols: usize) -> DeferredProduct {
        DeferredProduct { cols: self.cols.start + cols..self.cols.end, ..self.clone() }
    }
}

/// What applies joined reflectors to a matrix with room for their updates, in order.
pub(crate) enum Applied {
    /// The reflectors of a level, by its place in the list.
    Panel(usize, DeferredPanel),
    /// The update by those before.
    Update(DeferredProduct),
}

/// The application of the joined reflectors of `levels` to a matrix of this size, with `room` for columns of L.
pub(crate) fn applied(levels: &[Level], size: (usize, usize), room: usize, stride: usize) -> Vec<Applied> {
    let ((rows, cols), mut steps) = (size, Vec::new());
    let (mut pending, mut first) = (0, rows);
    let update = |first, inner| {
        Applied::Update(DeferredProduct { transposed: false, size, rows: first..rows, cols: 0..cols, inner: 0..inner })
    };
    for (k, level) in levels.iter().enumerate() {
        if pending + stride > room {
            steps.push(update(first, pending));
            (pending, first) = (0, rows);
        }
        let row = level.map.start;
        steps.push(Applied::Panel(
            k,
            DeferredPanel { transposed: false, row, rows, col: 0, width: 0, cols, first: 0, pending, to: pending, stride },
        ));
        (pending, first) = (pending + stride, first.min(row));
    }
    steps.push(update(first, pending));
    steps
}

/// Whether these levels factor the panel: leaves, and at most two levels above them.
pub(crate) fn joins(levels: &[Level]) -> bool {
    (1..=MOST_LEVELS).contains(&levels.len()) && levels.last().is_some_and(|last| last.map.blocks() == 1)
}

/// Most levels of a panel's tree whose reflectors become one block reflector.
pub(crate) const MOST_LEVELS: usize = 3;
