//! Sizes of the kernels that multiply matrices tile by tile: `gemm`, `gemm_batch` and `update_trailing`.

use crate::{
    base::element_kind::ElementKind,
    cost::chain::{Chain, READ, fmas},
    tile::tuning::Tuning,
};

/// The sizes for which these kernels are compiled, from the hyperparameters. [`Shape::new`](crate::cost::shape::Shape::new) checks them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProductShape {
    /// Columns of M and rows of X in workgroup memory at a time.
    pub depth: usize,
    /// Rows of C of a workgroup, a multiple of 4, and its columns, a multiple of 8.
    pub rows: usize,
    pub cols: usize,
}

impl ProductShape {
    pub fn of(tuning: &Tuning) -> ProductShape {
        let depth = tuning.tile_size.next_multiple_of(4);
        let rows = if tuning.gpu.rows_per_block == 0 { depth } else { tuning.gpu.rows_per_block.next_multiple_of(4) };
        ProductShape { depth, rows, cols: tuning.cols_per_block.next_multiple_of(8) }
    }

    /// Threads of a workgroup, with a piece of 4 x 8 entries of C each.
    pub fn threads(&self) -> usize {
        self.rows / 4 * (self.cols / 8)
    }

    /// Bytes of workgroup memory that the shaders declare.
    pub fn bytes(&self, kind: ElementKind) -> usize {
        self.depth * (self.rows / 4 + 1 + self.cols / 4 + 1) * 4 * kind.scalar_bytes()
    }

    /// Loop iterations of a thread for each `depth` of the inner dimension: the product, staging, and the loops themselves.
    pub fn iterations(&self) -> usize {
        let staged = |width: usize| (self.depth * width / 4).div_ceil(self.threads());
        self.depth + staged(self.rows) + staged(self.cols) + 3
    }

    /// The constants of the shaders.
    pub fn constants(&self) -> [(&'static str, u32); 7] {
        [
            ("TS", self.depth as u32),
            ("LEFT4", self.rows as u32 / 4),
            ("CPB", self.cols as u32),
            ("CPB4", self.cols as u32 / 4),
            ("CPB8", self.cols as u32 / 8),
            ("HELD", 0),
            ("GEMM_THREADS", self.threads() as u32),
        ]
    }

    /// Numbers that a workgroup reads from a matrix and writes to workgroup memory for each step of the inner dimension.
    pub fn staged(&self) -> u64 {
        (self.rows + self.cols) as u64
    }

    /// Numbers that a workgroup writes to workgroup memory and reads from there, with `steps` times `depth` of the inner dimension. As in `unmqr`,
    /// a thread reads 12 numbers for 32 multiply-adds.
    pub fn shared(&self, steps: u64) -> u64 {
        steps * self.depth as u64 * (12 * self.threads() as u64 + self.staged())
    }

    /// What a workgroup does one after the other.
    pub fn chain(&self, kind: ElementKind, steps: u64) -> Chain {
        let depth = self.depth as u64;
        // Instructions to stage a tile of each matrix, four entries at a time.
        let staged = 31 * (depth * self.staged() / 4).div_ceil(self.threads() as u64);
        Chain {
            barriers: 2 * steps,
            round_trips: steps + 1,
            steps: steps * depth * READ,
            issued: steps * (depth * (32 * fmas(kind) + 5) + staged),
            ..Chain::default()
        }
    }
}
