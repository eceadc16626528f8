//! The first phase: the singular values, and the data of all products.

use faer::Mat;

#[cfg(any(feature = "gpu", test))]
use crate::algo::bidiag::divide::schedule::Schedule;
use crate::{
    algo::bidiag::divide::{
        leading, leaf,
        node::{Merge, Node, Rotation, exponent, scaled},
        replay,
        secular::Roots,
    },
    base::{blas::Side, number::RealElement, parallel::join},
};

const EPS: f64 = f64::EPSILON;

/// The order up to which the QR algorithm is used.
pub(crate) const LEAF: usize = 8;

/// Orders from which the two parts are worth a thread each.
const WORTH_SHARING: usize = 256;

/// What is smaller is set to zero, in a matrix whose largest entry is about one. Fourth powers of it are in range.
const FLOOR: f64 = 1e-75;

/// Poles closer than this, relative to the largest entry, are merged, as in LAPACK's `dlasd2`. The errors of A = U S V^H are up to half of it.
const CLOSE: f64 = 8.0 * EPS;

/// Weights below this, relative to the largest entry, are set to zero.
const NEGLIGIBLE: f64 = 8.0 * EPS;

/// The second pole is at least this, relative to the largest entry. The first is zero.
const SECOND: f64 = 4.0 * EPS;

/// The singular values of a bidiagonal matrix, and all that is needed to compute its vectors by matrix products.
pub struct Plan {
    /// Ascending.
    values: Vec<f64>,
    /// `None` if the matrix has no rows.
    root: Option<Node>,
}

/// What a merge needs to know of its parts: the values, and the first and the last row of the right vectors.
struct Known {
    values: Vec<f64>,
    first: Vec<f64>,
    last: Vec<f64>,
}

impl Plan {
    /// The plan for the upper bidiagonal matrix with this diagonal, and a superdiagonal that is shorter by one. The entries are finite.
    /// `None` if `cancelled` becomes true in time.
    pub fn new(diagonal: &[f64], superdiagonal: &[f64], cancelled: &(dyn Fn() -> bool + Sync)) -> Option<Plan> {
        assert_eq!(superdiagonal.len(), diagonal.len().saturating_sub(1), "the superdiagonal is shorter by one");
        if diagonal.is_empty() {
            return Some(Plan { values: vec![], root: None });
        }
        let exponent = exponent(diagonal.iter().chain(superdiagonal));
        let scale = |x: &[f64]| x.iter().map(|&x| scaled(x, exponent)).collect::<Vec<_>>();
        let (mut root, known) = decompose(&scale(diagonal), &scale(superdiagonal), cancelled)?;
        if let Node::Leaf(leaf) = &mut root {
            leaf.polish();
        }
        // Each level of the merges adds the floor to a zero, at most.
        let values = known.values.into_iter().map(|x| if x <= 64.0 * FLOOR { 0.0 } else { scaled(x, -exponent) }).collect();
        Some(Plan { values, root: Some(root) })
    }

    /// The singular values, in descending order. Their errors are about `8 eps` of the largest for each level of merges.
    #[cfg(test)]
    pub fn values(&self) -> Vec<f64> {
        self.values.iter().rev().copied().collect()
    }

    /// All vectors of a side as the columns of a matrix, in the order of descending values. `None` if `cancelled` becomes true in time.
    pub fn vectors<T: RealElement>(&self, side: Side, cancelled: &(dyn Fn() -> bool + Sync)) -> Option<Mat<T>> {
        self.root.as_ref().map_or_else(|| Some(Mat::new()), |root| replay::vectors(root, side, cancelled))
    }

    /// The right vectors of the `k` largest values as a [`Schedule`], for matrices by columns with leading dimension `ld`. None if the matrix
    /// has no rows.
    #[cfg(any(feature = "gpu", test))]
    pub fn schedule(&self, k: usize, ld: usize) -> Option<Schedule> {
        self.root.as_ref().map(|root| Schedule::new(root, k.min(self.values.len()), ld))
    }

    /// The vectors of the `k` largest values, or of all if there are fewer: the columns of [`Plan::vectors`] to rounding, where the values
    /// are well separated. For small `k` this takes much less time.
    pub fn leading<T: RealElement>(&self, side: Side, k: usize) -> Mat<T> {
        let k = k.min(self.values.len());
        self.root.as_ref().map_or_else(Mat::new, |root| leading::vectors(root, side, k))
    }
}

/// The decomposition of the matrix with the diagonal `d` and `e` above it; with one more column than rows if the two have the same length.
fn decompose(d: &[f64], e: &[f64], cancelled: &(dyn Fn() -> bool + Sync)) -> Option<(Node, Known)> {
    let n = d.len();
    if cancelled() {
        return None;
    }
    if n <= LEAF {
        let (leaf, values) = leaf::decompose(d, e);
        let first = leaf.right.iter().step_by(leaf.m).copied().collect();
        let last = leaf.right.iter().skip(leaf.m - 1).step_by(leaf.m).copied().collect();
        return Some((Node::Leaf(leaf), Known { values, first, last }));
    }
    let nl = n / 2;
    let left = || decompose(&d[..nl], &e[..nl], cancelled);
    let right = || decompose(&d[nl + 1..], &e[nl + 1..], cancelled);
    let (left, right) = if n >= WORTH_SHARING { join(left, right) } else { (left(), right()) };
    let (merge, known) = merge(left?, right?, d[nl], e[nl], e.len() == n, cancelled)?;
    Some((Node::Merge(Box::new(merge)), known))
}

/// Merges two blocks with a row between them that has `alpha` in the last column of the left block, and `beta` in the first of the right.
fn merge(
    (left, a): (Node, Known),
    (right, b): (Node, Known),
    alpha: f64,
    beta: f64,
    extra: bool,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Option<(Merge, Known)> {
    let (nl, nr) = (a.values.len(), b.values.len());
    let n = nl + nr + 1;
    let (lambda, phi) = (alpha * a.last[nl], if extra { beta * b.first[nr] } else { 0.0 });
    let d: Vec<f64> = std::iter::once(0.0).chain(a.values).chain(b.values).collect();
    let largest = d.iter().fold(alpha.abs().max(beta.abs()), |largest, &d| largest.max(d));
    let [close, negligible, second] = [CLOSE, NEGLIGIBLE, SECOND].map(|relative| (relative * largest).max(FLOOR));
    let length = lambda.hypot(phi);
    let (c, s) = if length <= negligible { (1.0, 0.0) } else { (lambda / length, phi / length) };
    let mut z = vec![length.max(negligible)];
    z.extend(a.last[..nl].iter().map(|x| alpha * x));
    z.extend(b.first[..nr].iter().map(|x| beta * x));
    let mut first = vec![c * a.first[nl]];
    first.extend(&a.first[..nl]);
    first.resize(n, 0.0);
    let mut last = vec![if extra { s * b.last[nr] } else { 0.0 }];
    last.resize(nl + 1, 0.0);
    last.extend(&b.last[..nr]);
    if extra {
        first.push(-s * a.first[nl]);
        last.push(c * b.last[nr]);
    }

    // Deflation: a negligible weight, or one of two poles that are next to equal.
    let mut ascending: Vec<usize> = (1..n).collect();
    ascending.sort_by(|&i, &j| d[i].total_cmp(&d[j]));
    let (mut kept, mut deflated, mut rotations) = (vec![0], vec![], vec![]);
    const LEFT: usize = 0;
    const BOTH: usize = 1;
    const RIGHT: usize = 2;
    let mut kind: Vec<usize> = (0..n)
        .map(|q| {
            if q == 0 {
                BOTH
            } else if q <= nl {
                LEFT
            } else {
                RIGHT
            }
        })
        .collect();
    for q in ascending {
        if z[q].abs() <= negligible {
            deflated.push(q);
            continue;
        }
        let previous = kept[kept.len() - 1];
        if kept.len() > 1 && d[q] - d[previous] <= close {
            let length = z[q].hypot(z[previous]);
            let (c, s) = (z[q] / length, z[previous] / length);
            (z[q], z[previous]) = (length, 0.0);
            for row in [&mut first, &mut last] {
                (row[previous], row[q]) = (c * row[previous] - s * row[q], c * row[q] + s * row[previous]);
            }
            if kind[previous] != kind[q] {
                kind[q] = BOTH;
            }
            rotations.push(Rotation { deflated: previous, kept: q, c, s });
            deflated.push(previous);
            kept.pop();
        }
        kept.push(q);
    }

    let pick = |x: &[f64], from: &[usize]| from.iter().map(|&q| x[q]).collect::<Vec<_>>();
    let (mut poles, z) = (pick(&d, &kept), pick(&z, &kept));
    if let Some(pole) = poles.get_mut(1) {
        *pole = pole.max(second);
    }
    let roots = Roots::new(&poles, &z, cancelled)?;
    let weights = roots.weights(&poles, &z);
    let ends = roots.ends(&poles, &weights, &pick(&first, &kept), &pick(&last, &kept));

    let k = kept.len();
    let all: Vec<f64> = (0..k).map(|i| roots.value(i)).chain(deflated.iter().map(|&q| d[q])).collect();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| all[i].total_cmp(&all[j]));
    let row = |of_roots: Vec<f64>, row: &[f64]| {
        let all: Vec<f64> = of_roots.into_iter().chain(pick(row, &deflated)).collect();
        pick(&all, &order).into_iter().chain(row[n..].iter().copied()).collect()
    };
    let known = Known {
        values: pick(&all, &order),
        first: row(ends.iter().map(|ends| ends.first).collect(), &first),
        last: row(ends.iter().map(|ends| ends.last).collect(), &last),
    };

    // By kinds; the sort is stable, so that source 0 is the first of its kind.
    let mut places: Vec<usize> = (0..k).collect();
    places.sort_by_key(|&i| kind[kept[i]]);
    let mut kinds = [0; 3];
    kept.iter().for_each(|&q| kinds[kind[q]] += 1);
    let sources: Vec<usize> = places.iter().map(|&i| kept[i]).chain(deflated.iter().copied()).collect();
    let mut place = vec![0; n];
    sources.iter().enumerate().for_each(|(i, &q)| place[q] = i);
    for rotation in &mut rotations {
        (rotation.deflated, rotation.kept) = (place[rotation.deflated], place[rotation.kept]);
    }
    let merge = Merge {
        left,
        right,
        rows: [nl, nr],
        extra,
        cs: (c, s),
        sources,
        kinds,
        rotations,
        poles: pick(&poles, &places),
        weights: pick(&weights, &places),
        roots,
        lengths: [ends.iter().map(|ends| ends.left).collect(), ends.iter().map(|ends| ends.right).collect()],
        order,
    };
    Some((merge, known))
}
