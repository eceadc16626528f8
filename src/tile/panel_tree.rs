//! The reduction tree of a panel: which rows the blocks of each level are made of.

use std::{fmt, ops::Range};

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
    /// What the groups are in the panel.
    pub stack: Stack,
}

/// What the groups of rows of a level are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// Rows of the panel as it was.
    Rows,
    /// The R factor of the tiles before, upper triangular, and a tile of the panel as it was.
    TriangleOnTile,
    /// R factors of the level before, each upper triangular.
    Triangles,
}

impl RowMap {
    /// Whether column j of stacked row `g` of a block lies below the diagonal of an upper triangle that the block stacks. In the matrix there
    /// are zeros, or reflectors that earlier levels have left.
    pub fn is_below_triangle(&self, g: usize, j: usize) -> bool {
        let in_triangle = match self.stack {
            Stack::Rows => false,
            Stack::TriangleOnTile => g < self.group,
            Stack::Triangles => true,
        };
        in_triangle && g % self.group > j
    }

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

    /// The same blocks in maps of as many as have `rows` stacked rows, and no more than blocks of `leaf` rows would be; of one at least.
    pub fn pieces(self, rows: usize, leaf: usize) -> impl Iterator<Item = RowMap> {
        let at_once = (rows / self.block_rows.max(leaf).max(1)).max(1);
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

impl fmt::Display for PanelTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            PanelTree::Reduction => "reduction",
            PanelTree::Flat => "flat",
        })
    }
}

/// Leaves are a multiple of so many rows, whole cache lines, where that does not make them longer than they may be.
const LEAF_STEP: usize = 16;

/// The levels of the sweep that makes rows `start..start + rows` of a panel of `width` columns upper triangular.
///
/// `leaf` is the number of rows that a leaf block has at most, `arity` the number of R factors that a node stacks.
pub fn levels(tree: PanelTree, start: usize, rows: usize, width: usize, leaf: usize, arity: usize) -> Levels {
    // As few leaves as may be, of one length, for they are factored side by side; one longer than the panel is the panel.
    let leaf = rows.div_ceil(rows.div_ceil(leaf.max(1)).max(1)).next_multiple_of(LEAF_STEP).min(leaf).min(rows);
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
                    RowMap { start, group: width, spacing: width, rows: tile, block_rows: width, stack: Stack::Rows }
                } else {
                    RowMap {
                        start,
                        group: width,
                        spacing: done * width,
                        rows: width + tile,
                        block_rows: 2 * width,
                        stack: Stack::TriangleOnTile,
                    }
                })
            }
            PanelTree::Reduction => {
                if count == 1 {
                    return None;
                }
                let map = if leaves {
                    RowMap { start, group: leaf, spacing: leaf, rows, block_rows: leaf, stack: Stack::Rows }
                } else {
                    self.spacing = spacing * arity;
                    let rows = (count - 1) * width + last;
                    RowMap { start, group: width, spacing, rows, block_rows: arity * width, stack: Stack::Triangles }
                };
                self.count = map.blocks();
                self.last = width.min(map.block(self.count - 1).len());
                Some(map)
            }
        }
    }
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

    /// Leaves are no longer than they may be, no more than they have to be, and of one length but for a step's rounding.
    #[test]
    fn leaves_are_even() {
        for (rows, leaf) in
            [(1, 64), (64, 64), (65, 64), (1000, 64), (3000, 1536), (4096, 1536), (1600, 1536), (130, 24), (50, 9)]
        {
            let leaves = levels(PanelTree::Reduction, 7, rows, 8, leaf, 8).next().expect("rows");
            assert_eq!(leaves.blocks(), rows.div_ceil(leaf), "{rows} {leaf}");
            assert!(leaves.block_rows <= leaf && leaves.block_rows < rows.div_ceil(leaves.blocks()) + LEAF_STEP, "{rows} {leaf}");
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
                let pieces: Vec<RowMap> = map.pieces(at_once, 24).collect();
                assert!(pieces.iter().all(|piece| piece.blocks() <= (at_once / 24).max(1)));
                assert!(pieces.iter().all(|piece| piece.rows <= at_once.max(map.block_rows)));
                assert_eq!(pieces.into_iter().flat_map(rows_of).collect::<Vec<_>>(), rows_of(map), "{map:?}");
                assert_eq!(map.pieces(usize::MAX, 24).collect::<Vec<_>>(), [map]);
            }
        }
    }
}
