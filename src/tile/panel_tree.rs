//! The reduction tree of a panel: the rows of the blocks on each level.

use std::{fmt, ops::Range};

/// The rows of the blocks on one level of a panel's reduction tree.
///
/// The level stacks `rows` rows, numbered `0..rows`. Stacked row `g` is row [`row(g)`](Self::row)
/// `= start + (g / group) * spacing + g % group` of the matrix. Block `q` has `block_rows` stacked rows from `q * block_rows` on (the last
/// block may have fewer). At the leaves the stack is the panel itself (`group = spacing`); above them a group is one R factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowMap {
    /// First row of the panel.
    pub start: usize,
    /// Adjacent rows of a group.
    pub group: usize,
    /// Distance from the first row of a group to the first of the next.
    pub spacing: usize,
    /// Rows in the stack.
    pub rows: usize,
    /// Rows of one block.
    pub block_rows: usize,
    /// The contents of the groups.
    pub stack: Stack,
}

/// The contents of a level's groups of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// Original rows of the panel.
    Rows,
    /// The upper triangular R factor of the previous tiles, and an original tile of the panel.
    TriangleOnTile,
    /// R factors of the previous level, each upper triangular.
    Triangles,
}

impl RowMap {
    /// Whether entry (g, j) of a block lies below the diagonal of one of the block's upper triangles. There the matrix contains zeros, or
    /// kept reflectors of earlier levels.
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

    /// The level that stacks `arity` R factors, of `width` columns, of this one's blocks at a time.
    pub fn after(&self, width: usize, arity: usize) -> RowMap {
        let blocks = self.blocks();
        let last = width.min(self.rows.saturating_sub(blocks.saturating_sub(1) * self.block_rows));
        RowMap {
            start: self.start,
            group: width,
            spacing: self.spacing * (self.block_rows / self.group.max(1)),
            rows: blocks.saturating_sub(1) * width + last,
            block_rows: arity * width,
            stack: Stack::Triangles,
        }
    }

    /// Splits the blocks into maps of at most `rows` stacked rows, and of at most `rows / leaf` blocks. Each map has at least one block.
    pub fn pieces(self, rows: usize, leaf: usize) -> impl Iterator<Item = RowMap> {
        let at_once = (rows / self.block_rows.max(leaf).max(1)).max(1);
        (0..self.blocks()).step_by(at_once).map(move |q| {
            let first = q * self.block_rows;
            let rows = at_once.saturating_mul(self.block_rows).min(self.rows - first);
            RowMap { start: self.row(first), rows, ..self }
        })
    }

    /// The runs of adjacent matrix rows in block `q`, as (stacked rows, first matrix row).
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

/// One level of a sweep: the blocks of a panel that are factored concurrently and then applied to the trailing matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// False: the QR sweep, on A. True: the LQ sweep, which is the QR sweep on A^T, with swapped strides.
    pub transposed: bool,
    /// First column of the panel.
    pub col: usize,
    /// Columns of the panel (at most the tile size).
    pub width: usize,
    /// The rows of the blocks.
    pub map: RowMap,
}

impl Level {
    /// Whether each aligned group of four stacked rows is consecutive in the matrix and starts at a multiple of four there, and so do the
    /// trailing columns.
    pub fn is_in_vectors(&self) -> bool {
        let RowMap { start, group, spacing, block_rows, .. } = self.map;
        let fours = |x: usize| x.is_multiple_of(4);
        let blocks = self.map.blocks() == 1 || fours(block_rows);
        let rows = blocks && fours(start) && (group == spacing || (fours(group) && fours(spacing)));
        rows && fours(self.col + self.width)
    }

    /// Whether `next` is the level after this one in a tree whose nodes stack `arity` R factors.
    pub fn is_before(&self, next: &Level, arity: usize) -> bool {
        let Level { transposed, col, width, map } = *self;
        map.blocks() > 1 && *next == Level { transposed, col, width, map: map.after(width, arity) }
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
    /// Factors the leaf blocks concurrently, stacks their R factors and factors these again, until one is left (communication-avoiding QR).
    #[default]
    Reduction,
    /// The flat tree of the unified-kernels paper: GEQRT of the first tile, then TSQRT of the R factor and each further tile in turn.
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

/// The rows of a leaf are rounded up to a multiple of this, whole cache lines, unless that exceeds the maximum.
const LEAF_STEP: usize = 16;

/// The levels of the sweep that reduces rows `start..start + rows` of a panel of `width` columns to upper triangular form.
///
/// `leaf` is the maximal number of rows of a leaf block, `arity` the number of R factors that a node stacks.
pub fn levels(tree: PanelTree, start: usize, rows: usize, width: usize, leaf: usize, arity: usize) -> Levels {
    // The smallest number of leaves, of equal length, because they are factored concurrently. A leaf is no longer than the panel.
    let leaf = rows.div_ceil(rows.div_ceil(leaf.max(1)).max(1)).next_multiple_of(LEAF_STEP).min(leaf).min(rows);
    Levels { tree, start, rows, width, leaf, arity, count: usize::MAX, spacing: leaf, last: 0 }
}

/// Iterator over the [`RowMap`]s of a sweep, in order. [`levels`] creates it.
#[derive(Clone, Debug)]
pub struct Levels {
    tree: PanelTree,
    start: usize,
    rows: usize,
    width: usize,
    leaf: usize,
    arity: usize,
    /// Reduction: remaining R factors. Flat: tiles factored so far. `usize::MAX` before the first level.
    count: usize,
    /// Reduction: distance between the remaining R factors.
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

    /// The last level of a sweep has one block, the stack of every level consists of the R factors of the previous one, and rows never
    /// repeat.
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
                if tree == PanelTree::Reduction {
                    assert!(maps.windows(2).all(|pair| pair[0].after(width, arity) == pair[1]), "{maps:?}");
                }
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

    /// Leaves are no longer than the maximum, their number is minimal, and their lengths are equal up to the rounding to `LEAF_STEP`.
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

    /// The pieces of a level have the same blocks, in order, with the same rows.
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
