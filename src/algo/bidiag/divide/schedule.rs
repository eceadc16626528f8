//! The second phase as tables: what each level of the replay does, for a backend that runs all merges of a level together and reads nothing
//! back. Right vectors, from the leaves to the whole matrix, of which the last product has the wanted columns alone.
//!
//! ```text
//! leaves    X <- the vectors of the leaves
//! a level   Y <- the columns of X, in the order of the product        gather_columns
//!           Y <- Y rotated                                            rotate_columns
//!           W <- the second factors;  X <- deflated columns of Y      secular_vectors
//!           X <- Y W, a product for the rows of either part           gemm_batch
//! ```
//!
//! X, Y and W are n x n by columns, and each node has the block of its rows and columns on the diagonal. Several matrices of order n lie one after
//! the other.

use std::ops::Range;

use crate::{
    algo::bidiag::divide::{
        leaf::Leaf,
        node::{Merge, Node, exponent, scaled},
    },
    base::blas::Side,
};

/// A column of Y (or of X, for the leaves): `factors.0` times `middle` entries from index `first` on, then `factors.1` times those from `second`
/// on, up to `rows` entries. They begin at row `lo`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gathered {
    pub column: usize,
    pub lo: usize,
    pub middle: usize,
    pub rows: usize,
    pub first: usize,
    pub second: usize,
    pub factors: (f64, f64),
}

/// The rotations of a node, of rows `lo..lo + rows`.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    pub lo: usize,
    pub rows: usize,
    /// In [`Schedule::rotations`].
    pub rotations: Range<usize>,
}

/// A rotation of two columns of Y, by the indices of their entries in row 0: `first <- c first - s second`, `second <- c second + s first`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rotated {
    pub first: usize,
    pub second: usize,
    pub c: f64,
    pub s: f64,
}

/// A column of W with a root, or a deflated column of X. It begins at row `lo`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub column: usize,
    pub lo: usize,
    pub rows: usize,
    /// The index in [`Schedule::places`] of the pole of row `lo`, or for a deflated column the index of its first entry in Y.
    pub first: usize,
    /// In [`Schedule::roots`].
    pub root: Option<usize>,
}

/// A product of windows: C (rows x cols) <- M X, at these indices of Y, W and X.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product {
    pub rows: usize,
    pub cols: usize,
    pub inner: usize,
    pub m: usize,
    pub x: usize,
    pub c: usize,
}

/// The merges of nodes of the same depth.
#[derive(Clone, Debug)]
pub(crate) struct Level {
    /// The most rows of a node.
    pub most: usize,
    pub gathered: Range<usize>,
    pub chains: Range<usize>,
    pub found: Range<usize>,
    pub products: Range<usize>,
}

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(crate) struct Schedule {
    /// The order, and the number of matrices.
    pub n: usize,
    pub matrices: usize,
    /// The leaves' vectors, by columns.
    pub leaves: Vec<f64>,
    /// The columns of `leaves` come first.
    pub gathered: Vec<Gathered>,
    pub of_leaves: usize,
    /// The most rows of a leaf.
    pub most_of_leaves: usize,
    pub chains: Vec<Chain>,
    pub rotations: Vec<Rotated>,
    pub found: Vec<Found>,
    pub products: Vec<Product>,
    /// The pole and the weight of each place, in a scale of its node where the largest is about one.
    pub places: Vec<(f64, f64)>,
    /// The pole, the offset and the length of each root, in the same scale.
    pub roots: Vec<(f64, f64, f64)>,
    /// From the leaves to the whole.
    pub levels: Vec<Level>,
    /// The column of X for each of the wanted vectors, with descending values, matrix by matrix.
    pub order: Vec<usize>,
}

impl Schedule {
    pub(crate) fn new(root: &Node, k: usize, ld: usize) -> Schedule {
        let n = root.size(Side::Right);
        let (mut leaves, mut merges) = (Vec::new(), Vec::new());
        by_depth(root, 0, 0, &mut leaves, &mut merges);
        let mut schedule = Schedule { n, matrices: 1, order: (0..k).map(|i| n - 1 - i).collect(), ..Schedule::default() };
        leaves.iter().for_each(|&(leaf, lo)| schedule.leaf(leaf, lo));
        schedule.of_leaves = schedule.gathered.len();
        for (depth, merges) in merges.iter().enumerate().rev() {
            let start = schedule.lengths();
            let mut most = 0;
            for &(merge, lo) in merges {
                most = most.max(size(merge));
                schedule.merge(merge, lo, (depth == 0).then_some(k), ld);
            }
            schedule.end_level(start, most);
        }
        schedule
    }

    /// One schedule of several matrices of the same order, whose levels run together.
    pub(crate) fn together(all: &[&Schedule], ld: usize) -> Schedule {
        let n = all.first().map_or(0, |first| first.n);
        let mut whole = Schedule { n, matrices: all.len(), ..Schedule::default() };
        let mut moves = Vec::with_capacity(all.len());
        for (k, one) in all.iter().enumerate() {
            let by = Move {
                column: k * n,
                entry: k * n * ld,
                rotation: whole.rotations.len(),
                place: whole.places.len(),
                root: whole.roots.len(),
            };
            let leaf = whole.leaves.len();
            whole.gathered.extend(one.gathered[..one.of_leaves].iter().map(|of| by.gathered(of, leaf)));
            whole.most_of_leaves = whole.most_of_leaves.max(one.most_of_leaves);
            whole.leaves.extend(&one.leaves);
            whole.rotations.extend(one.rotations.iter().map(|of| Rotated {
                first: of.first + by.entry,
                second: of.second + by.entry,
                ..*of
            }));
            whole.places.extend(&one.places);
            whole.roots.extend(&one.roots);
            whole.order.extend(one.order.iter().map(|column| column + by.column));
            moves.push(by);
        }
        whole.of_leaves = whole.gathered.len();
        for level in 0..all.iter().map(|one| one.levels.len()).max().unwrap_or(0) {
            let start = whole.lengths();
            let mut most = 0;
            for (one, by) in all.iter().zip(&moves) {
                let Some(level) = one.levels.get(level) else { continue };
                most = most.max(level.most);
                whole.gathered.extend(one.gathered[level.gathered.clone()].iter().map(|of| by.gathered(of, by.entry)));
                whole.chains.extend(one.chains[level.chains.clone()].iter().map(|of| by.chain(of)));
                whole.found.extend(one.found[level.found.clone()].iter().map(|of| by.found(of)));
                whole.products.extend(one.products[level.products.clone()].iter().map(|of| by.product(of)));
            }
            whole.end_level(start, most);
        }
        whole
    }

    /// The numbers of columns, chains, found columns and products so far.
    fn lengths(&self) -> [usize; 4] {
        [self.gathered.len(), self.chains.len(), self.found.len(), self.products.len()]
    }

    /// Ends a level that began with these [`lengths`](Self::lengths).
    fn end_level(&mut self, [gathered, chains, found, products]: [usize; 4], most: usize) {
        let end = self.lengths();
        self.levels.push(Level {
            most,
            gathered: gathered..end[0],
            chains: chains..end[1],
            found: found..end[2],
            products: products..end[3],
        });
    }

    fn leaf(&mut self, leaf: &Leaf, lo: usize) {
        self.most_of_leaves = self.most_of_leaves.max(leaf.m);
        for j in 0..leaf.m {
            let first = self.leaves.len() + j * leaf.m;
            let (column, rows, factors) = (lo + j, leaf.m, (1.0, 0.0));
            self.gathered.push(Gathered { column, lo, middle: rows, rows, first, second: 0, factors });
        }
        self.leaves.extend(&leaf.right);
    }

    /// The merge of a node at `lo`. The root has the number of `wanted` columns.
    fn merge(&mut self, merge: &Merge, lo: usize, wanted: Option<usize>, ld: usize) {
        let (rows, kept, [nl, nr]) = (size(merge), merge.poles.len(), merge.rows);
        let [top, bottom] = merge.halves(Side::Right);
        let at = |column: usize, row: usize| (lo + column) * ld + lo + row;

        let mut gather = |place: usize, first: usize, second: usize, factors: (f64, f64)| {
            let (column, middle) = (lo + place, top.len());
            let (first, second) = (at(first, 0), at(second, bottom.start));
            self.gathered.push(Gathered { column, lo, middle, rows, first, second, factors });
        };
        let (c, s) = merge.cs;
        let null = nl + 1 + nr;
        for (place, &source) in merge.sources.iter().enumerate() {
            match source {
                0 => gather(place, nl, null, (c, if merge.extra { s } else { 0.0 })),
                source if source <= nl => gather(place, merge.left.column(source - 1), 0, (1.0, 0.0)),
                source => gather(place, 0, nl + 1 + merge.right.column(source - nl - 1), (0.0, 1.0)),
            }
        }
        if merge.extra {
            gather(merge.sources.len(), nl, null, (-s, c));
        }

        if !merge.rotations.is_empty() {
            let first = self.rotations.len();
            let rotations = merge.rotations.iter().map(|rotation| {
                let [first, second] = [rotation.deflated, rotation.kept].map(|place| (lo + place) * ld);
                Rotated { first, second, c: rotation.c, s: rotation.s }
            });
            self.rotations.extend(rotations);
            self.chains.push(Chain { lo, rows, rotations: first..self.rotations.len() });
        }

        // Roots first, then deflated places.
        let results: Vec<usize> = match wanted {
            None => (0..rows).collect(),
            Some(k) => {
                let wanted = (0..k).map(|i| merge.order[rows - 1 - i]);
                let (roots, others): (Vec<_>, Vec<_>) = wanted.enumerate().partition(|&(_, place)| place < kept);
                let results: Vec<_> = roots.into_iter().chain(others).collect();
                results.iter().enumerate().for_each(|(column, &(i, _))| self.order[i] = column);
                results.into_iter().map(|(_, place)| place).collect()
            }
        };
        // The largest of the numbers is brought near one: products of four of them stay in the range of an f32.
        let shift = exponent(merge.poles.iter().chain(&merge.weights));
        let scale = |x: f64| scaled(x, shift);
        let first_place = self.places.len();
        self.places.extend(merge.poles.iter().zip(&merge.weights).map(|(&d, &z)| (scale(d), scale(z))));
        for (c, &place) in results.iter().enumerate() {
            let column = lo + c;
            self.found.push(if place < kept {
                let (pole, offset) = (merge.roots.poles[place], merge.roots.offsets[place]);
                self.roots.push((scale(pole), scale(offset), scale(merge.lengths[1][place])));
                Found { column, lo, rows: kept, first: first_place, root: Some(self.roots.len() - 1) }
            } else {
                Found { column, lo, rows, first: at(place, 0), root: None }
            });
        }
        let cols = results.iter().take_while(|&&place| place < kept).count();
        for (part, places) in [top, bottom].into_iter().zip(merge.places()) {
            self.products.push(Product {
                rows: part.len(),
                cols,
                inner: places.len(),
                m: at(places.start, part.start),
                x: at(0, places.start),
                c: at(0, part.start),
            });
        }
    }
}

/// How far the tables of a matrix move when they follow those of others.
struct Move {
    column: usize,
    entry: usize,
    rotation: usize,
    place: usize,
    root: usize,
}

impl Move {
    /// A column whose entries move by `entries`.
    fn gathered(&self, of: &Gathered, entries: usize) -> Gathered {
        Gathered { column: of.column + self.column, first: of.first + entries, second: of.second + entries, ..*of }
    }

    fn chain(&self, of: &Chain) -> Chain {
        Chain { rotations: of.rotations.start + self.rotation..of.rotations.end + self.rotation, ..*of }
    }

    fn found(&self, of: &Found) -> Found {
        let first = of.first + if of.root.is_some() { self.place } else { self.entry };
        Found { column: of.column + self.column, first, root: of.root.map(|root| root + self.root), ..*of }
    }

    fn product(&self, of: &Product) -> Product {
        Product { m: of.m + self.entry, x: of.x + self.entry, c: of.c + self.entry, ..*of }
    }
}

/// The rows and columns of a merge's right vectors.
fn size(merge: &Merge) -> usize {
    merge.rows[0] + merge.rows[1] + 1 + usize::from(merge.extra)
}

/// The leaves, and the merges of each depth, with their first rows.
fn by_depth<'a>(
    node: &'a Node,
    lo: usize,
    depth: usize,
    leaves: &mut Vec<(&'a Leaf, usize)>,
    merges: &mut Vec<Vec<(&'a Merge, usize)>>,
) {
    match node {
        Node::Leaf(leaf) => leaves.push((leaf, lo)),
        Node::Merge(merge) => {
            if merges.len() <= depth {
                merges.resize_with(depth + 1, Vec::new);
            }
            merges[depth].push((merge, lo));
            by_depth(&merge.left, lo, depth + 1, leaves, merges);
            by_depth(&merge.right, lo + merge.rows[0] + 1, depth + 1, leaves, merges);
        }
    }
}

#[cfg(test)]
mod tests {
    use faer::Mat;

    use super::*;
    use crate::algo::bidiag::divide::Plan;

    /// Twin of `gather_columns`.
    fn gather(columns: &[Gathered], from: &[f64], to: &mut [f64], ld: usize) {
        for g in columns {
            for i in 0..g.rows {
                let (factor, at) = if i < g.middle { (g.factors.0, g.first + i) } else { (g.factors.1, g.second + i - g.middle) };
                to[g.column * ld + g.lo + i] = if factor == 0.0 { 0.0 } else { factor * from[at] };
            }
        }
    }

    /// Twin of `rotate_columns`.
    fn rotate(schedule: &Schedule, chains: &[Chain], y: &mut [f64]) {
        for chain in chains {
            for row in chain.lo..chain.lo + chain.rows {
                for &Rotated { first, second, c, s } in &schedule.rotations[chain.rotations.clone()] {
                    let (p, q) = (y[first + row], y[second + row]);
                    (y[first + row], y[second + row]) = (c * p - s * q, c * q + s * p);
                }
            }
        }
    }

    /// Twin of `secular_vectors`.
    fn secular_vectors(schedule: &Schedule, found: &[Found], [w, x]: [&mut [f64]; 2], y: &[f64], ld: usize) {
        for f in found {
            for i in 0..f.rows {
                let at = f.column * ld + f.lo + i;
                match f.root {
                    None => x[at] = y[f.first + i],
                    Some(root) => {
                        let ((d, z), (pole, offset, length)) = (schedule.places[f.first + i], schedule.roots[root]);
                        w[at] = -(z / (pole - d + offset)) * (length / (pole + d + offset));
                    }
                }
            }
        }
    }

    /// The vectors by the tables, of all matrices side by side.
    fn run(schedule: &Schedule, ld: usize) -> Mat<f64> {
        let n = schedule.n;
        // What nothing writes is NaN.
        let [mut x, mut y, mut w] = [(); 3].map(|()| vec![f64::NAN; ld * n * schedule.matrices]);
        gather(&schedule.gathered[..schedule.of_leaves], &schedule.leaves, &mut x, ld);
        for level in &schedule.levels {
            gather(&schedule.gathered[level.gathered.clone()], &x, &mut y, ld);
            rotate(schedule, &schedule.chains[level.chains.clone()], &mut y);
            secular_vectors(schedule, &schedule.found[level.found.clone()], [&mut w, &mut x], &y, ld);
            for p in &schedule.products[level.products.clone()] {
                for (j, i) in (0..p.cols).flat_map(|j| (0..p.rows).map(move |i| (j, i))) {
                    x[p.c + i + j * ld] = (0..p.inner).map(|k| y[p.m + i + k * ld] * w[p.x + k + j * ld]).sum();
                }
            }
        }
        Mat::from_fn(n, schedule.order.len(), |i, j| x[schedule.order[j] * ld + i])
    }

    /// The tables give the vectors of the replay, for all of them and for the leading ones, with and without deflation and rotations: random and
    /// repeated entries, zeros, and graded ones. Bound: n eps, as both are products of the same factors.
    #[test]
    fn the_tables_are_the_replay() {
        type Kind = (&'static str, fn(usize) -> f64);
        let kinds: [Kind; 4] = [
            ("random", |i| ((i * i * 7 + 3 * i) % 101) as f64 / 101.0 + 0.1),
            ("ones", |_| 1.0),
            ("zeros", |i| f64::from(u8::from(i % 5 != 2))),
            ("graded", |i| 10f64.powf(-(i as f64) / 3.0)),
        ];
        for (kind, entry) in kinds {
            for n in [1, 2, 8, 9, 17, 40, 133] {
                let (d, e): (Vec<_>, Vec<_>) = ((0..n).map(entry).collect(), (1..n).map(|i| entry(i + 500)).collect());
                let plan = Plan::new(&d, &e, &|| false).unwrap();
                let all = plan.vectors::<f64>(Side::Right, &|| false).unwrap();
                for (k, ld) in [(n, n), (n, n + 3), (n.min(5), n), (1, n)] {
                    let found = run(&plan.schedule(k, ld).unwrap(), ld);
                    let off = (&found - all.subcols(0, k)).norm_max();
                    assert!(off <= n as f64 * f64::EPSILON, "{kind}, n = {n}, {k} vectors: off by {off:e}");
                }
            }
        }
    }

    /// The tables of several matrices together give bit for bit the vectors that those of each give: with different deflations, so that places, roots
    /// and rotations of a matrix begin anywhere.
    #[test]
    fn together_is_one_by_one() {
        for n in [1, 7, 9, 40, 133] {
            let entry = |kind: usize, i: usize| match kind {
                0 => ((i * i * 7 + 3 * i) % 101) as f64 / 101.0 + 0.1,
                1 => 1.0,
                2 => f64::from(u8::from(i % 5 != 2)),
                _ => 10f64.powf(-(i as f64) / 3.0),
            };
            for (k, ld) in [(n, n), (n.min(5), n + 3)] {
                let of = |kind| {
                    let (d, e): (Vec<_>, Vec<_>) =
                        ((0..n).map(|i| entry(kind, i)).collect(), (1..n).map(|i| entry(kind, i + 500)).collect());
                    Plan::new(&d, &e, &|| false).unwrap().schedule(k, ld).unwrap()
                };
                let each: Vec<Schedule> = (0..4).map(of).collect();
                let all = run(&Schedule::together(&each.iter().collect::<Vec<_>>(), ld), ld);
                for (kind, one) in each.iter().enumerate() {
                    assert_eq!(all.subcols(kind * k, k), run(one, ld), "n = {n}, {k} vectors of matrix {kind}");
                }
            }
        }
    }
}
