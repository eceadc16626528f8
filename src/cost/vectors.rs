//! The dispatches of the kernels that only singular vectors need: sizes, grids and work, for the GPU backend and for the model.

use std::ops::Range;

use crate::{
    base::element_kind::ElementKind,
    cost::{
        chain::Chain,
        product_shape::ProductShape,
        shape::Shape,
        work::{Again, Beside, Kernel, LINEAR_THREADS, Work},
    },
    tile::{chase_schedule::ReductionStep, flops::of_pair, panel_tree::Level},
};

/// Sweeps of a workgroup of `apply_chase`. More sweeps make fewer dispatches, with fewer workgroups each.
pub(crate) const CHUNK: usize = 64;
/// Bytes of workgroup memory for the reflectors that `apply_chase` stages.
const STAGED_BYTES: usize = 8 << 10;
/// Columns of a workgroup of `unit_columns`.
pub(crate) const UNIT_COLUMNS: usize = 8;

/// The sizes for which `apply_chase` is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ApplyShape {
    /// Entries of a reflector, in all and in vectors of four.
    pub reach: usize,
    pub reach4: usize,
    /// Reflectors in workgroup memory at a time.
    pub staged: usize,
    /// Columns of C of a thread, of which each reads a reflector once for all.
    pub columns: usize,
}

/// Most entries of a reflector, in vectors of four, for which a thread's rows of C have fixed places, so that they can be registers.
const MOST_UNROLLED: usize = 16;

impl ApplyShape {
    /// For `cols` columns of C.
    pub fn of(kind: ElementKind, tile_width: usize, cols: usize) -> ApplyShape {
        let reach = tile_width + 1;
        let reach4 = reach.div_ceil(4);
        // Rows and reflectors of two columns of numbers of four bytes are some 120 registers.
        let columns = if kind.scalar_bytes() == 4 && reach4 <= 9 && cols > LINEAR_THREADS as usize { 2 } else { 1 };
        ApplyShape { reach, reach4, staged: (STAGED_BYTES / (4 * reach4 * kind.scalar_bytes())).clamp(1, 16), columns }
    }

    /// Columns of C of a workgroup.
    pub fn columns_of_workgroup(&self) -> usize {
        self.columns * LINEAR_THREADS as usize
    }

    pub fn constants(&self) -> [(&'static str, u32); 8] {
        let is_unrolled = self.reach4 <= MOST_UNROLLED;
        let unrolled = |count: usize| if is_unrolled { count as u32 } else { 0 };
        [
            ("REACH", self.reach as u32),
            ("REACH4", self.reach4 as u32),
            ("STAGED", self.staged as u32),
            ("COLUMNS", self.columns as u32),
            ("SPAN", 4 * self.reach4 as u32 + 1),
            ("ROWS_UNROLLED", unrolled(self.reach)),
            ("ROWS_LEFT", unrolled(self.reach - 1)),
            ("FOURS_UNROLLED", unrolled(self.reach4)),
        ]
    }

    /// Bytes of workgroup memory that the shader declares.
    pub fn bytes(&self, kind: ElementKind) -> usize {
        self.staged * (4 * self.reach4 * kind.scalar_bytes() + kind.real_bytes())
    }

    /// Upper bound of the loop iterations of a thread in one dispatch.
    pub fn iterations(&self) -> usize {
        let of_reflector = if self.reach4 <= MOST_UNROLLED { 0 } else { 2 * self.reach4 };
        2 * self.reach + CHUNK * (3 + of_reflector + self.reach4.div_ceil(LINEAR_THREADS as usize))
    }
}

/// A dispatch of `apply_chase`: the chunks `first..first + count`, of which the first has cycle `cycle`, and each next one the cycle after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wave {
    pub first: usize,
    pub cycle: usize,
    pub count: usize,
}

impl Wave {
    /// The dispatches of a step for the product of the reflectors, in order, of at most `most` chunks each. Those of the adjoint have the reverse
    /// order.
    ///
    /// Chunk g has cycle i at time t = (chunks - 1 - g) + i: after (g + 1, i), (g + 1, i - 1) and (g, i - 1), whose rows it shares.
    pub fn all(step: &ReductionStep, most: usize) -> Vec<Wave> {
        let (sweeps, width) = (step.sweeps() as i128, step.bandwidth as i128);
        let (chunks, cycles) = (step.sweeps().div_ceil(CHUNK) as i128, step.cycles(0) as i128);
        let mut waves = Vec::new();
        for t in 0..(chunks + cycles - 1).max(0) {
            let cycle_of_first = t - chunks + 1;
            let first = (-cycle_of_first).max(0);
            // A chunk has cycle i if its first sweep has: g CHUNK < sweeps - i BW.
            let rest = sweeps - cycle_of_first * width;
            let per_chunk = CHUNK as i128 + width;
            let end = ((rest + per_chunk - 1).div_euclid(per_chunk)).min(chunks);
            let (mut first, end) = (first as usize, end.max(0) as usize);
            while first < end {
                let count = most.max(1).min(end - first);
                waves.push(Wave { first, cycle: (cycle_of_first + first as i128) as usize, count });
                first += count;
            }
        }
        waves
    }

    /// The reflectors that it applies.
    fn reflectors(&self, step: &ReductionStep) -> u64 {
        let of_chunk = |k: usize| {
            let sweeps = step.sweeps().saturating_sub((self.cycle + k) * step.bandwidth);
            sweeps.saturating_sub((self.first + k) * CHUNK).min(CHUNK) as u64
        };
        (0..self.count).map(of_chunk).sum()
    }
}

/// The size of a product C <- beta C + alpha M X, of which C or X may be upper triangular.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    pub rows: usize,
    pub cols: usize,
    pub inner: usize,
    pub upper_c: bool,
    pub upper_x: bool,
}

/// A part of a product: a range of its columns and of its inner dimension, and the first rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The number of the product.
    pub product: usize,
    pub rows: usize,
    pub cols: Range<usize>,
    pub inner: Range<usize>,
}

/// A dispatch of `gemm_batch`.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub pieces: Range<usize>,
    /// Chunks of columns and of rows of the largest pieces.
    pub grid: [usize; 2],
    pub work: Work,
}

/// The limits of a dispatch of `gemm_batch`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Most {
    pub flops: u64,
    pub inner: usize,
    pub groups: usize,
}

/// The dispatches of independent products of `E`, and their pieces in order. A product is cut by columns if it has too many flops, and
/// its inner dimension if that is too long; the parts of the sum are then in different dispatches.
pub(crate) fn batches(kind: ElementKind, shape: &ProductShape, products: &[Extent], most: Most) -> (Vec<Piece>, Vec<Batch>) {
    let (mut pieces, mut batches) = (Vec::new(), Vec::new());
    let longest = products.iter().map(|of| of.inner).max().unwrap_or(0);
    for start in (0..longest).step_by(most.inner.max(1)) {
        let (mut first, mut flops) = (pieces.len(), 0u64);
        for (product, of) in products.iter().enumerate().filter(|(_, of)| start < of.inner && of.rows > 0 && of.cols > 0) {
            let inner = start..of.inner.min(start + most.inner.max(1));
            let of_column = flops_of(kind, of.rows, 1, inner.len());
            let chunk = of_column.saturating_mul(shape.cols as u64).max(1);
            let at_once =
                (usize::try_from(most.flops / chunk).unwrap_or(usize::MAX).clamp(1, most.groups)).saturating_mul(shape.cols);
            for column in (0..of.cols).step_by(at_once) {
                let cols = column..of.cols.min(column + at_once);
                let rows = if of.upper_c { of.rows.min(cols.end) } else { of.rows };
                let inner = if of.upper_x { inner.start..inner.end.min(cols.end).max(inner.start) } else { inner.clone() };
                let more = of_column.saturating_mul(cols.len() as u64);
                if pieces.len() > first && (flops.saturating_add(more) > most.flops || pieces.len() - first >= most.groups) {
                    batches.push(Batch::of(kind, shape, products, &pieces, first));
                    (first, flops) = (pieces.len(), 0);
                }
                flops = flops.saturating_add(more);
                pieces.push(Piece { product, rows, cols, inner });
            }
        }
        if pieces.len() > first {
            batches.push(Batch::of(kind, shape, products, &pieces, first));
        }
    }
    (pieces, batches)
}

/// Flops of a product.
fn flops_of(kind: ElementKind, rows: usize, cols: usize, inner: usize) -> u64 {
    [rows, cols, inner].into_iter().fold(2 * of_pair(kind), |flops, x| flops.saturating_mul(x as u64))
}

impl Batch {
    /// The dispatch of the pieces from `first` on.
    fn of(kind: ElementKind, shape: &ProductShape, products: &[Extent], pieces: &[Piece], first: usize) -> Batch {
        let scalar = kind.scalar_bytes() as u64;
        let (mut workgroups, mut flops, mut bytes, mut workgroup_bytes, mut longest) = (0u64, 0u64, 0u64, 0u64, 0);
        let mut grid = [0, 0];
        for piece in &pieces[first..] {
            let of = &products[piece.product];
            grid = [grid[0].max(piece.cols.len().div_ceil(shape.cols)), grid[1].max(piece.rows.div_ceil(shape.rows))];
            for column in piece.cols.clone().step_by(shape.cols) {
                let end = (column + shape.cols).min(piece.cols.end);
                let rows = if of.upper_c { piece.rows.min(end) } else { piece.rows };
                let inner =
                    if of.upper_x { piece.inner.end.min(end).saturating_sub(piece.inner.start) } else { piece.inner.len() };
                let tiles = rows.div_ceil(shape.rows) as u64;
                let steps = inner.div_ceil(shape.depth) as u64;
                longest = longest.max(steps);
                workgroups += tiles;
                flops = flops.saturating_add(flops_of(kind, rows, end - column, inner));
                bytes += (tiles * shape.staged() * inner as u64 + 2 * (rows * (end - column)) as u64) * scalar;
                workgroup_bytes += tiles * shape.shared(steps) * scalar;
            }
        }
        // A workgroup reads its task first.
        let chain = shape.chain(kind, longest);
        let chain = Chain { barriers: chain.barriers + 1, round_trips: chain.round_trips + 1, ..chain };
        let work = Work {
            kernel: Kernel::GemmBatch,
            workgroups,
            threads: shape.threads() as u64,
            workgroup_memory: shape.bytes(kind) as u64,
            flops,
            footprint: u64::MAX,
            again: Again::default(),
            beside: Beside::default(),
            two_strips: shape.strips == 2,
            bytes,
            workgroup_bytes,
            chain,
        };
        Batch { pieces: first..pieces.len(), grid, work }
    }
}

impl Work {
    /// A kernel with one thread for each of `places`, which reads and writes `numbers` of `bytes` for each.
    pub fn linear(kernel: Kernel, places: usize, numbers: usize, bytes: usize) -> Work {
        Work::copy(kernel, places as u64, LINEAR_THREADS.into(), (places as u64).saturating_mul((numbers * bytes) as u64))
    }

    /// `rotate_columns` of nodes with at most `longest` rotations, `rotations` in all, of `rows` rows in all.
    pub fn rotate_columns(kind: ElementKind, rows: usize, most: usize, rotations: usize, longest: usize) -> Work {
        let real = kind.bytes() as u64;
        let each = (most * rotations) as u64;
        let chain = Chain { round_trips: 2 * longest as u64, steps: 4 * longest as u64, ..Chain::default() };
        let bytes = 4 * each * real;
        Work { flops: 6 * each, chain, ..Work::copy(Kernel::RotateColumns, rows as u64, LINEAR_THREADS.into(), bytes) }
    }

    /// `secular_vectors` of `places` entries, of which `roots` columns are computed.
    pub fn secular_vectors(kind: ElementKind, places: usize) -> Work {
        // Two quotients of four flops, a product, and the sums; in pairs, five additions of six.
        let flops = if kind.is_double() { 16 } else { 42 };
        let chain = Chain { round_trips: 3, steps: flops, ..Chain::default() };
        Work { flops: flops * places as u64, chain, ..Work::linear(Kernel::SecularVectors, places, 6, kind.bytes()) }
    }

    /// `gather_reflectors` of a level.
    pub fn gather_reflectors(kind: ElementKind, shape: &Shape, level: &Level) -> Work {
        let entries = (level.map.rows + level.map.blocks() * shape.ts) * shape.ts;
        Work::linear(Kernel::GatherReflectors, entries, 2, kind.scalar_bytes())
    }

    /// `unit_columns` of a rows x cols matrix.
    pub fn unit_columns(kind: ElementKind, rows: usize, cols: usize) -> Work {
        let lanes = LINEAR_THREADS as usize / UNIT_COLUMNS;
        let (entries, scalar) = ((rows * cols) as u64, kind.scalar_bytes() as u64);
        let each = rows.div_ceil(lanes) as u64;
        let pair = if kind.is_complex() { 2 } else { 1 };
        // Loads do not depend on one another.
        let chain = Chain { barriers: 1, round_trips: 4, steps: 6 * pair * (each + lanes as u64) + 2 * each, ..Chain::default() };
        Work {
            workgroups: cols.div_ceil(UNIT_COLUMNS) as u64,
            flops: 9 * pair * entries,
            workgroup_memory: 2 * u64::from(LINEAR_THREADS) * kind.real_bytes() as u64,
            chain,
            ..Work::copy(Kernel::UnitColumns, entries, LINEAR_THREADS.into(), 3 * entries * scalar)
        }
    }

    /// `apply_chase`: a wave of the reflectors of a step on `cols` columns. Of C each workgroup reads and writes the rows of its sweeps once.
    pub fn apply_chase(kind: ElementKind, step: &ReductionStep, wave: &Wave, cols: usize) -> Work {
        let shape = ApplyShape::of(kind, step.tile_width, cols);
        let (reflectors, threads, scalar) = (wave.reflectors(step), u64::from(LINEAR_THREADS), kind.scalar_bytes() as u64);
        let (chunks, columns, reach) = (cols.div_ceil(shape.columns_of_workgroup()) as u64, cols as u64, shape.reach as u64);
        let staged = 4 * shape.reach4 as u64;
        let rows = reflectors + wave.count as u64 * reach;
        let sweeps = CHUNK.min(step.sweeps()) as u64;
        let blocks = sweeps.div_ceil(shape.staged as u64);
        Work {
            kernel: Kernel::ApplyChase,
            workgroups: chunks * wave.count as u64,
            threads,
            workgroup_memory: shape.bytes(kind) as u64,
            flops: (4 * of_pair(kind) * reach).saturating_mul(reflectors).saturating_mul(columns),
            footprint: u64::MAX,
            again: Again::default(),
            beside: Beside::default(),
            two_strips: false,
            bytes: 2 * rows * columns * kind.bytes() as u64 + chunks * reflectors * reach * scalar,
            // Every thread reads the reflector once, four numbers at a time; all threads of a subgroup the same ones.
            workgroup_bytes: chunks * reflectors * staged * (threads / 32 + 1) * scalar,
            chain: Chain {
                barriers: 2 * blocks,
                round_trips: 1 + blocks,
                // The partial sums, their sum, and the first sum of the next reflector.
                steps: sweeps * (staged / 4 + 5),
                ..Chain::default()
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The waves apply every reflector once, after those that it must follow in the order of the product: (g + 1, i), (g + 1, i - 1) and
    /// (g, i - 1); and the chunks of a wave have no row in common.
    #[test]
    fn waves_are_an_order_of_the_product() {
        for (n, bandwidth, tile_width) in
            [(300, 8, 7), (300, 8, 3), (1000, 32, 31), (257, 96, 95), (130, 100, 20), (20, 8, 7), (9, 8, 7)]
        {
            let step = ReductionStep { n, bandwidth, tile_width };
            for most in [1, 3, usize::MAX] {
                let mut time = std::collections::HashMap::new();
                for (t, wave) in Wave::all(&step, most).iter().enumerate() {
                    for k in 0..wave.count {
                        assert_eq!(time.insert((wave.first + k, wave.cycle + k), t), None);
                    }
                    let rows = |k: usize| {
                        let first = step.target() + (wave.cycle + k) * bandwidth;
                        let begin = first + (wave.first + k) * CHUNK;
                        begin..(begin + CHUNK + tile_width).min(n)
                    };
                    assert!((1..wave.count).all(|k| rows(k - 1).end <= rows(k).start), "{step:?}: {wave:?}");
                }
                let (chunks, cycles) = (step.sweeps().div_ceil(CHUNK), step.cycles(0));
                let expected: usize = (0..chunks).map(|g| step.cycles(g * CHUNK)).sum();
                assert_eq!(time.len(), expected, "{step:?}");
                for (&(g, i), &t) in &time {
                    let before = [Some((g + 1, i)), i.checked_sub(1).map(|i| (g + 1, i)), i.checked_sub(1).map(|i| (g, i))];
                    assert!(
                        before.into_iter().flatten().all(|other| time.get(&other).is_none_or(|&other| other < t)),
                        "{step:?}"
                    );
                    assert!(g < chunks && i < cycles);
                }
                let reflectors: u64 = Wave::all(&step, most).iter().map(|wave| wave.reflectors(&step)).sum();
                assert_eq!(reflectors, step.all_cycles(), "{step:?}");
            }
        }
    }

    /// The pieces of products cover each entry of C and of the inner dimension once, and a dispatch has no two pieces of the same entries.
    #[test]
    fn pieces_are_the_products() {
        let shape = ProductShape { depth: 8, rows: 16, cols: 16, strips: 1 };
        let of = |rows, cols, inner| Extent { rows, cols, inner, ..Extent::default() };
        let products = [of(40, 50, 30), of(7, 100, 64), of(0, 5, 5), of(3, 3, 1)];
        for (flops, inner, groups) in [(u64::MAX, usize::MAX, 1000), (20_000, 16, 1000), (1, 1000, 2)] {
            let (pieces, batches) = batches(ElementKind::F32, &shape, &products, Most { flops, inner, groups });
            let all: u64 = batches.iter().map(|batch| batch.work.flops).sum();
            assert_eq!(all, products.iter().map(|of| 2 * (of.rows * of.cols * of.inner) as u64).sum::<u64>());
            for batch in &batches {
                let of = &pieces[batch.pieces.clone()];
                assert!(of.len() <= groups && of.iter().all(|piece| piece.inner.len() <= inner));
                for (k, piece) in of.iter().enumerate() {
                    let same = |other: &&Piece| {
                        other.product == piece.product && other.cols.start < piece.cols.end && piece.cols.start < other.cols.end
                    };
                    assert_eq!(of[..k].iter().find(same), None);
                }
            }
        }
        // Half of a triangle, and of a product with one, but for the tiles on the diagonal.
        let upper_c = Extent { upper_c: true, ..of(256, 256, 100) };
        let upper_x = Extent { upper_x: true, ..of(100, 256, 256) };
        let (_, whole) =
            batches(ElementKind::F32, &shape, &[upper_c, upper_x], Most { flops: u64::MAX, inner: usize::MAX, groups: 1000 });
        let half = 2 * 2 * 256 * 100 * (256 + 16) / 2;
        assert_eq!(whole.iter().map(|batch| batch.work.flops).sum::<u64>(), half);
    }
}
