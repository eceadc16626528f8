//! The index arithmetic of the one-stage reduction.

use std::ops::Range;

use crate::tile::panel_tree::{Level, RowMap, Stack};

/// The elimination of one column of A, or of one row, which is a column of A^T. For a row, A stands for A^T below, and P and R
/// are swapped.
///
/// The reduction keeps the trailing matrix as A - P R^T. P and R have a column for each reflector of the panel, alternately a
/// reflector of a column of A in P with its product in R, and a reflector of a row in R with its product in P.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// False: a column of A. True: a row of A, with swapped strides.
    pub transposed: bool,
    /// The column.
    pub line: usize,
    /// The first row of the reflector.
    pub first: usize,
    /// Rows of the matrix.
    pub rows: usize,
    /// Columns of the matrix.
    pub cols: usize,
    /// Columns of P and R that the earlier reflectors of the panel have. The last one of P lacks its product, which
    /// [`update_line`](super::kernels::OneStageKernels::update_line) completes.
    pub done: usize,
}

impl Line {
    /// Column `j` of an m x n matrix, in the panel that starts at column `k`.
    pub fn column(j: usize, (m, n): (usize, usize), k: usize) -> Line {
        Line { transposed: false, line: j, first: j, rows: m, cols: n, done: 2 * (j - k) }
    }

    /// Row `j` of an m x n matrix, right of the superdiagonal.
    pub fn row(j: usize, (m, n): (usize, usize), k: usize) -> Line {
        Line { transposed: true, line: j, first: j + 1, rows: n, cols: m, done: 2 * (j - k) + 1 }
    }

    /// The number of entries of the reflector.
    pub fn len(&self) -> usize {
        self.rows.saturating_sub(self.first)
    }

    /// Whether the reflector has no entries. No line of a reduction is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The columns that the reflector is applied to.
    pub fn trailing(&self) -> Range<usize> {
        self.line + 1..self.cols.max(self.line + 1)
    }
}

/// The update of the trailing matrix after a panel: rows and columns from `first` on, A <- A - P R^T.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailing {
    /// The first row and column.
    pub first: usize,
    /// Rows and columns of the matrix.
    pub size: (usize, usize),
    /// Columns of P and R, twice the width of the panel.
    pub inner: usize,
}

impl Trailing {
    /// The line whose product [`update_line`](super::kernels::OneStageKernels::update_line) would complete in the rows of the
    /// update.
    pub fn last_line(&self) -> Line {
        let &Trailing { first, size: (m, n), inner } = self;
        Line { transposed: false, line: first, first, rows: m, cols: n, done: inner }
    }

    /// Rows and columns of the update.
    pub fn shape(&self) -> (usize, usize) {
        (self.size.0 - self.first, self.size.1 - self.first)
    }
}

/// The reflectors of these rows of a matrix with `n` columns, as those of one block of columns of the transpose.
pub(crate) fn level_of_rows(rows: &Range<usize>, n: usize) -> Level {
    let start = rows.start + 1;
    let count = n.saturating_sub(start);
    let map = RowMap { start, group: count, spacing: count, rows: count, block_rows: count, stack: Stack::Rows };
    Level { transposed: true, col: rows.start, width: rows.len(), map }
}
