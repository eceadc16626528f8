//! The tile kernels that stages 1 and 2 are made of, and the index arithmetic that their CPU and GPU versions share.
//!
//! The drivers ([`crate::to_band`], [`crate::band_to_bidiag`]) are written over [`StageKernels`]; `cpu/NAME.rs` and
//! `shaders/NAME.wgsl` are the two versions of the kernel `NAME`, and a test runs each pair on the same data.

use std::ops::Range;

use faer::MatRef;

use crate::{
    band::Band,
    bidiagonal::Stage3,
    error::{Result, SvdError},
    scalar::{Element, Re},
};

/// Which rows the blocks of one level of a panel's reduction tree are made of.
///
/// The level stacks `rows` rows, numbered `0..rows`; stacked row `g` is row [`row(g)`](Self::row)
/// `= start + (g / group) * spacing + g % group` of the matrix. Block `q` is stacked rows `q * block_rows ..` (the last block may be
/// shorter). At the leaves the stack is the panel itself (`group = spacing`); above them a group is one R factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowMap {
    /// First row of the panel.
    pub start: usize,
    /// Rows that lie together.
    pub group: usize,
    /// Distance from the first row of a group to the first of the next.
    pub spacing: usize,
    /// Rows in the stack.
    pub rows: usize,
    /// Rows of one block.
    pub block_rows: usize,
}

impl RowMap {
    /// The matrix row of stacked row `g`.
    pub fn row(&self, g: usize) -> usize {
        self.start + g / self.group * self.spacing + g % self.group
    }

    /// Number of blocks.
    pub fn blocks(&self) -> usize {
        self.rows.div_ceil(self.block_rows)
    }

    /// The stacked rows of block `q`.
    pub fn block(&self, q: usize) -> Range<usize> {
        q * self.block_rows..((q + 1) * self.block_rows).min(self.rows)
    }

    /// The same blocks in maps of at most `rows` stacked rows each, or of one block.
    pub fn pieces(self, rows: usize) -> impl Iterator<Item = RowMap> {
        let at_once = (rows / self.block_rows.max(1)).max(1);
        (0..self.blocks()).step_by(at_once).map(move |q| {
            let first = q * self.block_rows;
            let rows = at_once.saturating_mul(self.block_rows).min(self.rows - first);
            RowMap { start: self.row(first), rows, ..self }
        })
    }

    /// The runs of adjacent matrix rows that block `q` consists of, as (stacked rows, first matrix row).
    pub fn runs(self, q: usize) -> impl Iterator<Item = (Range<usize>, usize)> + Clone {
        let block = self.block(q);
        let mut g = block.start;
        std::iter::from_fn(move || {
            (g < block.end).then(|| {
                let end = if self.group == self.spacing { block.end } else { ((g / self.group + 1) * self.group).min(block.end) };
                let run = (g..end, self.row(g));
                g = end;
                run
            })
        })
    }
}

/// One level of a sweep: the blocks of a panel that are factored at once, and applied at once to the columns right of the panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// False: the QR sweep, on A. True: the LQ sweep, which is the QR sweep on A^T, with the strides swapped.
    pub transposed: bool,
    /// First column of the panel.
    pub col: usize,
    /// Columns of the panel (at most the tile size).
    pub width: usize,
    /// The rows of the blocks.
    pub map: RowMap,
}

impl Level {
    /// Whether `next` is all in the first rows that this level updates, all that both do is one block, and the level's other rows may be
    /// updated while `next` is factored.
    pub fn looks_ahead_to(&self, next: &Level) -> bool {
        let one_block = |map: RowMap| map.blocks() == 1 && map.group == map.spacing;
        let turned = self.transposed != next.transposed;
        let in_first_rows = next.col == self.map.start && next.map.start == self.col + self.width && next.width <= self.map.rows;
        turned && in_first_rows && one_block(self.map) && one_block(next.map)
    }
}

/// Shape of the panel's reduction tree.
///
/// ```
/// use svdvals_gpu::{PanelTree, Tuning};
/// let chain = Tuning::for_cpu::<f32>(500).tree(PanelTree::Flat);
/// assert_ne!(chain, Tuning::for_cpu::<f32>(500));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum PanelTree {
    /// Leaf blocks factored side by side, their R factors stacked and factored again, up to one (communication-avoiding QR).
    #[default]
    Reduction,
    /// The chain of the unified-kernels paper (its GEQRT, then TSQRT tile after tile): one tile after the other joins the first R.
    Flat,
}

/// The levels of the sweep that makes rows `start..start + rows` of a panel of `width` columns upper triangular.
///
/// `leaf` is the number of rows of a leaf block, `arity` the number of R factors that a node stacks.
pub fn levels(tree: PanelTree, start: usize, rows: usize, width: usize, leaf: usize, arity: usize) -> Levels {
    // A leaf longer than the panel is the panel.
    let leaf = leaf.min(rows);
    Levels { tree, start, rows, width, leaf, arity, count: usize::MAX, spacing: leaf, last: 0 }
}

/// Iterator over the [`RowMap`]s of a sweep, first to last; made by [`levels`].
#[derive(Clone, Debug)]
pub struct Levels {
    tree: PanelTree,
    start: usize,
    rows: usize,
    width: usize,
    leaf: usize,
    arity: usize,
    /// Reduction: R factors left (`usize::MAX`: leaves not yet done). Flat: tiles already joined.
    count: usize,
    /// Reduction: distance between the R factors that are left.
    spacing: usize,
    /// Reduction: rows of the last R factor.
    last: usize,
}

impl Iterator for Levels {
    type Item = RowMap;

    fn next(&mut self) -> Option<RowMap> {
        let &mut Levels { tree, start, rows, width, leaf, arity, count, spacing, last } = self;
        if rows == 0 || width == 0 {
            return None;
        }
        let leaves = count == usize::MAX;
        match tree {
            PanelTree::Flat => {
                let done = if leaves { 0 } else { count };
                if done * width >= rows {
                    return None;
                }
                self.count = done + 1;
                let tile = width.min(rows - done * width);
                Some(if done == 0 {
                    RowMap { start, group: width, spacing: width, rows: tile, block_rows: width }
                } else {
                    RowMap { start, group: width, spacing: done * width, rows: width + tile, block_rows: 2 * width }
                })
            }
            PanelTree::Reduction => {
                if count == 1 {
                    return None;
                }
                let map = if leaves {
                    RowMap { start, group: leaf, spacing: leaf, rows, block_rows: leaf }
                } else {
                    self.spacing = spacing * arity;
                    RowMap { start, group: width, spacing, rows: (count - 1) * width + last, block_rows: arity * width }
                };
                self.count = map.blocks();
                self.last = width.min(map.block(self.count - 1).len());
                Some(map)
            }
        }
    }
}

/// One reduction step of stage 2: an upper band of `bandwidth` superdiagonals loses `tile_width` of them.
///
/// Sweep R is the chain of cycles i = 0, 1, ...; cycle i zeroes, from the right, `row` beyond column `c0`, and from the left column
/// `c0` below row `c0`, both over the index range `c0..=c1`. Sweep R may run cycle i once sweep R-1 has finished cycle i + 2: at time
/// t the active cycles are i = t - 3R, and they touch disjoint data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReductionStep {
    /// Order of the band.
    pub n: usize,
    /// Superdiagonals before the step (BW).
    pub bandwidth: usize,
    /// Superdiagonals that the step removes (TW), in 1..bandwidth.
    pub tile_width: usize,
}

/// One bulge-chasing cycle, in matrix indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// The right reflector is made from `A[row, c0..=c1]`.
    pub row: usize,
    /// First index of both reflectors.
    pub c0: usize,
    /// Last index of both reflectors.
    pub c1: usize,
    /// Last column that the left reflector reaches.
    pub last: usize,
}

/// Cycles that a sweep stays behind the one before: it may run cycle i once that has finished cycle i + 2.
pub const SWEEP_SEPARATION: usize = 3;

impl ReductionStep {
    /// The steps that take an upper band to bidiagonal, `tile_width` superdiagonals (or what is left) at a time.
    pub fn all(n: usize, bandwidth: usize, tile_width: usize) -> impl Iterator<Item = ReductionStep> {
        let mut bandwidth = bandwidth;
        std::iter::from_fn(move || {
            (bandwidth > 1).then(|| {
                let step = ReductionStep { n, bandwidth, tile_width: tile_width.min(bandwidth - 1) };
                bandwidth -= step.tile_width;
                step
            })
        })
    }

    /// Superdiagonals after the step.
    pub fn target(&self) -> usize {
        self.bandwidth - self.tile_width
    }

    /// Number of sweeps that have a cycle.
    pub fn sweeps(&self) -> usize {
        self.n.saturating_sub(1 + self.target())
    }

    /// Number of cycles of `sweep`.
    pub fn cycles(&self, sweep: usize) -> usize {
        self.sweeps().saturating_sub(sweep).div_ceil(self.bandwidth)
    }

    /// Cycle `i` of `sweep`; `i < self.cycles(sweep)`.
    pub fn cycle(&self, sweep: usize, i: usize) -> Cycle {
        let c0 = sweep + self.target() + i * self.bandwidth;
        let c1 = (c0 + self.tile_width).min(self.n - 1);
        let row = if i == 0 { sweep } else { c0 - self.bandwidth };
        Cycle { row, c0, c1, last: (c1 + self.bandwidth).min(self.n - 1) }
    }

    /// The order of the step's cycles in time steps of `cycles` consecutive cycles of each sweep (at least 1).
    pub fn schedule(self, cycles: usize) -> Schedule {
        Schedule { step: self, cycles }
    }
}

/// The cycles of a reduction step in time steps. Those of one time step may run in any order, but for the consecutive ones of one sweep.
///
/// Sweep R runs its cycle i at clock (`cycles` + 2) R + i, and a time step is `cycles` ticks of the clock: then sweep R - 1 has finished
/// cycle i + 2 in an earlier time step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    step: ReductionStep,
    cycles: usize,
}

impl Schedule {
    /// Ticks between the starts of neighbouring sweeps.
    pub fn separation(&self) -> usize {
        self.cycles + SWEEP_SEPARATION - 1
    }

    /// Number of time steps.
    pub fn times(&self) -> usize {
        // The last sweep, of one cycle, ends last.
        self.step.sweeps().checked_sub(1).map_or(0, |last| (self.separation() * last + 1).div_ceil(self.cycles))
    }

    /// The sweeps that have a cycle in time step `time`.
    pub fn active(&self, time: usize) -> Range<usize> {
        let (clock, separation, sweeps) = (self.cycles * time, self.separation(), self.step.sweeps());
        // The end of a sweep, separation R + cycles(R), grows with R, so the sweeps that are not finished yet form a tail.
        let (mut low, mut high) = (0, sweeps);
        while low < high {
            let middle = (low + high) / 2;
            if separation * middle + self.step.cycles(middle) > clock { high = middle } else { low = middle + 1 }
        }
        low..(clock + self.cycles).div_ceil(separation).min(sweeps).max(low)
    }

    /// The cycles that an active sweep runs in time step `time`.
    pub fn cycles(&self, sweep: usize, time: usize) -> Range<usize> {
        let (clock, start) = (self.cycles * time, self.separation() * sweep);
        clock.max(start) - start..(clock + self.cycles - start).min(self.step.cycles(sweep))
    }
}

/// Where entry (i, j) of a band with room for bulges is kept: column after column, `ld` elements each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BandLayout {
    /// Order.
    pub n: usize,
    /// Superdiagonals kept: the bandwidth plus the tile width.
    pub ku: usize,
    /// Subdiagonals kept: the tile width.
    pub kl: usize,
}

impl BandLayout {
    /// Room for reducing `bandwidth` superdiagonals by at most `tile_width` at a time.
    pub fn new(n: usize, bandwidth: usize, tile_width: usize) -> Self {
        let kl = tile_width.min(bandwidth.saturating_sub(1));
        BandLayout { n, ku: bandwidth + kl, kl }
    }

    /// Elements of one column.
    pub fn ld(&self) -> usize {
        self.ku + self.kl + 1
    }

    /// Elements in all, or an error if they cannot be counted.
    pub fn size(&self) -> Result<usize> {
        self.n.checked_mul(self.ld()).ok_or_else(|| SvdError::invalid("matrix", "the band's size overflows the address space"))
    }

    /// Position of entry (i, j); `j - ku <= i <= j + kl`.
    pub fn index(&self, i: usize, j: usize) -> usize {
        j * self.ld() + self.ku + i - j
    }
}

/// Elements that a backend `K` can hold: those with the arithmetic of its storage.
pub trait HeldBy<K: TileKernels + ?Sized>: Element<Real = Re<K::Storage>, Scalar = <K::Storage as Element>::Scalar> {}

impl<K, T> HeldBy<K> for T
where
    K: TileKernels + ?Sized,
    T: Element<Real = Re<K::Storage>, Scalar = <K::Storage as Element>::Scalar>,
{
}

/// What the drivers of stages 1 and 2 are written over.
///
/// The matrices are the associated types, which own their workspace, so that no kernel allocates.
pub trait StageKernels {
    /// A dense matrix where the backend keeps it, with stage 1's workspace.
    type Dense;
    /// A band where the backend keeps it, with room for bulges.
    type Banded;

    /// Most stacked rows of a level that [`geqrt`](Self::geqrt) has room for; a level of more goes through it, and through
    /// [`unmqr`](Self::unmqr), in pieces.
    fn rows_at_once(&self) -> usize {
        usize::MAX
    }

    /// Factors every block X (r x w) of `level`: X = (I - V T V^H) R with V unit lower trapezoidal (r x w) and T upper triangular
    /// (w x w). The block's first w rows become R, the others zero; V and T stay in the workspace for [`unmqr`](Self::unmqr).
    fn geqrt(&self, a: &mut Self::Dense, level: &Level) -> Result<()>;

    /// Applies what [`geqrt`](Self::geqrt) left to the columns right of the panel: X <- X - V (T^H (V^H X)) for every block of rows.
    fn unmqr(&self, a: &mut Self::Dense, level: &Level) -> Result<()>;

    /// [`unmqr`](Self::unmqr) of `level`, then [`geqrt`](Self::geqrt) of `next`; a backend may factor `next` while the rest of the update
    /// runs (look-ahead).
    fn unmqr_and_geqrt(&self, a: &mut Self::Dense, level: &Level, next: &Level) -> Result<()> {
        self.unmqr(a, level)?;
        self.geqrt(a, next)
    }

    /// Copies the leading n x n upper band of `a` into band storage, zeros elsewhere.
    fn pack_band(&self, a: Self::Dense, n: usize, bandwidth: usize, tile_width: usize) -> Result<Self::Banded>;

    /// Runs all cycles of one reduction step, in an order that [`ReductionStep`] allows.
    fn chase(&self, band: &mut Self::Banded, step: &ReductionStep) -> Result<()>;
}

/// The tile kernels, as one backend runs them on matrices stored as `Storage`, and the ways there and back.
///
/// A value of the implementing type is a backend ready to run: a thread pool, or a device with its pipelines.
pub trait TileKernels: StageKernels {
    /// What matrices are stored as; arithmetic is in its [`Scalar`](Element::Scalar).
    type Storage: Element;

    /// Brings `scale * source` to the backend, in the memory order that it has, rounded to `Storage`. `scale` is a power of two.
    fn upload<T: HeldBy<Self>>(&self, source: MatRef<'_, T>, scale: Re<T>) -> Result<Self::Dense>;

    /// Brings `scale * band` to the backend.
    fn upload_band<T: HeldBy<Self>>(&self, band: &Band<T>, scale: Re<T>, tile_width: usize) -> Result<Self::Banded>;

    /// Reads the upper band back, multiplied by `scale`.
    fn download_band(
        &self,
        band: Self::Banded,
        bandwidth: usize,
        scale: Re<Self::Storage>,
    ) -> Result<Band<<Self::Storage as Element>::Scalar>>;

    /// Reads the diagonal (n) and the superdiagonal (n - 1) back, as stage 3 takes them. Of complex numbers the moduli: a diagonal
    /// unitary matrix on either side takes the phases out of a bidiagonal.
    fn bidiagonal(&self, band: Self::Banded) -> Result<(Vec<f64>, Vec<f64>)>;

    /// Stage 3 where the band is, reduced to a bidiagonal: its singular values in any order; None where this backend leaves that to the
    /// host.
    fn svdvals(&self, _band: &Self::Banded, _method: Stage3) -> Result<Option<Vec<f64>>> {
        Ok(None)
    }

    /// Waits until all that was asked for is done, so that stages can be timed.
    fn finish(&self) -> Result<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sweep's last level ends in one block, every level's stack is the R factors of the level before, and rows never repeat.
    #[test]
    fn levels_stack_the_factors_of_the_level_before() {
        for tree in [PanelTree::Reduction, PanelTree::Flat] {
            for (start, rows, width, leaf, arity) in [
                (0, 100, 8, 16, 2),
                (3, 130, 8, 24, 3),
                (5, 7, 8, 16, 2),
                (0, 17, 8, 16, 2),
                (2, 1000, 5, 64, 8),
                (0, 1, 1, 2, 2),
            ] {
                let maps: Vec<RowMap> = levels(tree, start, rows, width, leaf, arity).collect();
                let mut tops: Vec<usize> = (start..start + rows).collect();
                let mut joined: Vec<usize> = Vec::new();
                for map in &maps {
                    let stack: Vec<usize> = (0..map.rows).map(|g| map.row(g)).collect();
                    match tree {
                        PanelTree::Reduction => assert_eq!(stack, tops),
                        PanelTree::Flat => joined.extend(stack),
                    }
                    tops = (0..map.blocks()).flat_map(|q| map.block(q).take(width).map(|g| map.row(g))).collect();
                    for q in 0..map.blocks() {
                        let by_runs: Vec<usize> = map.runs(q).flat_map(|(g, r)| r..r + g.len()).collect();
                        assert_eq!(by_runs, map.block(q).map(|g| map.row(g)).collect::<Vec<_>>());
                    }
                }
                assert_eq!(tops, (start..start + rows.min(width)).collect::<Vec<_>>(), "{tree:?} {rows} x {width}");
                if tree == PanelTree::Flat {
                    joined.sort_unstable();
                    joined.dedup();
                    assert_eq!(joined, (start..start + rows).collect::<Vec<_>>());
                }
            }
        }
    }

    /// The pieces of a level are its blocks, in order, each with the rows that it had.
    #[test]
    fn pieces_are_the_blocks() {
        for (tree, rows, at_once) in
            [(PanelTree::Reduction, 1000, 100), (PanelTree::Reduction, 130, 1), (PanelTree::Flat, 100, 7)]
        {
            for map in levels(tree, 3, rows, 8, 24, 3) {
                let rows_of = |map: RowMap| {
                    (0..map.blocks()).map(move |q| map.block(q).map(|g| map.row(g)).collect::<Vec<_>>()).collect::<Vec<_>>()
                };
                let pieces: Vec<RowMap> = map.pieces(at_once).collect();
                assert!(pieces.iter().all(|piece| piece.rows <= at_once.max(map.block_rows)));
                assert_eq!(pieces.into_iter().flat_map(rows_of).collect::<Vec<_>>(), rows_of(map), "{map:?}");
                assert_eq!(map.pieces(usize::MAX).collect::<Vec<_>>(), [map]);
            }
        }
    }

    /// The closed forms for cycles, time steps and active sweeps agree with walking the chain as its definition says.
    #[test]
    fn cycles_follow_their_definition() {
        for (n, bandwidth, tile_width) in
            [(50, 8, 3), (41, 8, 7), (9, 8, 4), (3, 8, 7), (2, 4, 3), (1, 4, 3), (64, 63, 62), (30, 2, 1)]
        {
            let step = ReductionStep { n, bandwidth, tile_width };
            let mut sweeps = Vec::new();
            for sweep in 0..n {
                let (mut row, mut c0, mut c1) = (sweep, sweep + bandwidth - tile_width, (sweep + bandwidth).min(n - 1));
                let mut chain = Vec::new();
                while c0 < c1 {
                    chain.push((row, c0, c1));
                    (row, c0, c1) = (c0, c0 + bandwidth, (c1 + bandwidth).min(n - 1));
                }
                let closed: Vec<_> = (0..step.cycles(sweep)).map(|i| step.cycle(sweep, i)).map(|c| (c.row, c.c0, c.c1)).collect();
                assert_eq!(closed, chain);
                sweeps.push(chain.len());
            }
            for cycles in [1, 2, 3, 7] {
                let schedule = step.schedule(cycles);
                let start = |sweep: usize| (cycles + 2) * sweep;
                let ticks = (0..n).filter(|&s| sweeps[s] > 0).map(|s| start(s) + sweeps[s]).max().unwrap_or(0);
                assert_eq!(schedule.times(), ticks.div_ceil(cycles));
                for time in 0..schedule.times() + 2 {
                    let step = cycles * time..cycles * (time + 1);
                    let of_sweep = |s: usize| (0..sweeps[s]).filter(|i| step.contains(&(start(s) + i))).collect::<Vec<_>>();
                    let want: Vec<usize> = (0..n).filter(|&s| !of_sweep(s).is_empty()).collect();
                    assert_eq!(schedule.active(time).collect::<Vec<_>>(), want);
                    for s in want {
                        let of_sweep = of_sweep(s);
                        assert_eq!(schedule.cycles(s, time).collect::<Vec<_>>(), of_sweep);
                        // Sweep s - 1 finished two cycles more in earlier time steps, or all that it has.
                        let needed = (of_sweep[of_sweep.len() - 1] + 3).min(if s > 0 { sweeps[s - 1] } else { 0 });
                        assert!(s == 0 || start(s - 1) + needed <= cycles * time, "{step:?}, sweep {s}");
                    }
                }
            }
        }
    }
}
