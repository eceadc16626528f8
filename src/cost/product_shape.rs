//! Sizes of the kernels that multiply matrices tile by tile (shaders/shared/product.wgsl).

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
    /// Strips of 4 x 8 entries of a thread: 1, or 2 if they divide the rows.
    pub strips: usize,
}

/// The strips of a thread that `tuning` asks for, if they divide the `rows` of a workgroup.
pub(super) fn strips_of(tuning: &Tuning, rows: usize) -> usize {
    if tuning.gpu.strips_per_thread == 2 && rows.is_multiple_of(8) { 2 } else { 1 }
}

impl ProductShape {
    pub fn of(tuning: &Tuning) -> ProductShape {
        let depth = tuning.tile_size.next_multiple_of(4);
        let rows = if tuning.gpu.rows_per_block == 0 { depth } else { tuning.gpu.rows_per_block.next_multiple_of(4) };
        ProductShape { depth, rows, cols: tuning.cols_per_block.next_multiple_of(8), strips: strips_of(tuning, rows) }
    }

    /// Products with a panel of at most `width` columns: C has as many, and each workgroup many rows of it.
    pub fn of_panel(tuning: &Tuning, width: usize) -> ProductShape {
        // Large pieces for few columns; four entries of a wide number, of which two halves of eight rows would take 32 KiB.
        let strips = if tuning.gpu.strips_per_thread == 2 { 2 } else { 1 };
        let depth = if width >= 32 { 16 } else { 8 };
        ProductShape { depth, rows: 128 * strips, cols: width.next_multiple_of(8), strips }
    }

    /// Threads of a workgroup, with a piece of 4 `strips` x 8 entries of C each.
    pub fn threads(&self) -> usize {
        self.rows / 4 / self.strips * (self.cols / 8)
    }

    /// Rows of a half of the tiles in workgroup memory: while one is multiplied, the next one is loaded. Blocks of 4 rows cannot always be halved.
    pub fn step(&self) -> usize {
        if self.depth.is_multiple_of(8) { self.depth / 2 } else { self.depth }
    }

    /// Bytes of workgroup memory that the shaders declare.
    pub fn bytes(&self, kind: ElementKind) -> usize {
        2 * self.step() * (self.rows / 4 + 1 + self.cols / 4 + 1) * 4 * kind.scalar_bytes()
    }

    /// Loop iterations of a thread for each `depth` of the inner dimension, at most: the product, and the loop around it.
    pub fn iterations(&self) -> usize {
        self.depth + 2
    }

    /// The constants of the shaders.
    pub fn constants(&self) -> Vec<(&'static str, u32)> {
        let loads = |width: usize| ((self.step() * width / 4).div_ceil(self.threads())) as u32;
        let of_gemm = [
            ("LEFT_LOADS", loads(self.rows)),
            ("RIGHT_LOADS", loads(self.cols)),
            ("HELD", 0),
            ("GEMM_THREADS", self.threads() as u32),
        ];
        self.tile_constants().into_iter().chain(of_gemm).collect()
    }

    /// The constants of tiles in workgroup memory and of the pieces of threads (shaders/shared/tiles.wgsl).
    pub fn tile_constants(&self) -> [(&'static str, u32); 10] {
        let rows_of_threads = self.rows / 4 / self.strips;
        let cols8 = self.cols / 8;
        [
            ("TS", self.depth as u32),
            ("STEP", self.step() as u32),
            ("STRIPS", self.strips as u32),
            // A piece of one strip is on devices whose compilers may be slow.
            ("UNROLLED", if self.strips == 1 { 1 } else { 4 }),
            ("LEFT4", self.rows as u32 / 4),
            ("CPB", self.cols as u32),
            ("CPB4", self.cols as u32 / 4),
            ("CPB8", cols8 as u32),
            // 16 consecutive threads have 2 x 8 pieces, or the largest such grid that divides those of the workgroup.
            ("I_PAIR", 2 - rows_of_threads as u32 % 2),
            ("J_LANES", 1 << cols8.trailing_zeros().min(3)),
        ]
    }

    /// Numbers that a workgroup reads from a matrix and writes to workgroup memory for each step of the inner dimension.
    pub fn staged(&self) -> u64 {
        (self.rows + self.cols) as u64
    }

    /// Numbers that a thread reads from workgroup memory for a row of a product. With two strips each read has the same address in two threads, and
    /// takes half the time.
    pub fn read(&self) -> u64 {
        if self.strips == 1 { 12 } else { 8 }
    }

    /// Numbers that a workgroup writes to workgroup memory and reads from there, with `steps` times `depth` of the inner dimension.
    pub fn shared(&self, steps: u64) -> u64 {
        steps * self.depth as u64 * (self.read() * self.threads() as u64 + self.staged())
    }

    /// Instructions of a thread for a row of a product: multiply-adds, reads, and the loop's.
    pub fn issued(&self, kind: ElementKind) -> u64 {
        self.strips as u64 * 32 * fmas(kind) + 5
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
            issued: steps * (depth * self.issued(kind) + staged),
            ..Chain::default()
        }
    }
}
