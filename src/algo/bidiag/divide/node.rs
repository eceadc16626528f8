//! The tree of merges that the first phase makes and the second one goes through.

use std::ops::Range;

use crate::{
    algo::bidiag::divide::{leaf::Leaf, secular::Roots},
    base::blas::Side,
};

/// A diagonal block with its decomposition. With `n` rows it has `n` or `n + 1` columns.
pub(crate) enum Node {
    /// It is known.
    Leaf(Leaf),
    /// It follows from those of two parts.
    Merge(Box<Merge>),
}

/// A rotation of two columns with `deflated <- c deflated - s kept` and `kept <- c kept + s deflated`.
pub(crate) struct Rotation {
    pub(crate) deflated: usize,
    pub(crate) kept: usize,
    pub(crate) c: f64,
    pub(crate) s: f64,
}

/// How two blocks are merged, with a row between them.
///
/// The parts' vectors, side by side, are its sources: number 0 is the row in the middle (for right vectors, the combination of the parts'
/// null vectors by `c` and `s`), followed by those of the left and those of the right part, both with ascending values. Places are the
/// order of the sources for the product.
pub(crate) struct Merge {
    pub(crate) left: Node,
    pub(crate) right: Node,
    /// The rows of the parts.
    pub(crate) rows: [usize; 2],
    /// Whether there is one more column than rows.
    pub(crate) extra: bool,
    /// The weights of the null vectors of the parts in the vector of the row between them.
    pub(crate) cs: (f64, f64),
    /// The source at each place. The first [`Merge::poles`] are kept, and the rest is deflated. Of those kept, first come the ones that are
    /// zero in the rows of the right part, then the ones that are zero in none (source 0 first), then the ones that are zero in the left.
    pub(crate) sources: Vec<usize>,
    /// The number of places of each kind: left only, both, right only.
    pub(crate) kinds: [usize; 3],
    /// By places, in the order of their application.
    pub(crate) rotations: Vec<Rotation>,
    /// The poles and the weights of the kept places.
    pub(crate) poles: Vec<f64>,
    pub(crate) weights: Vec<f64>,
    pub(crate) roots: Roots,
    /// One over the lengths of the columns of the product's second factor, for either [`Side`].
    pub(crate) lengths: [Vec<f64>; 2],
    /// The columns of the product, followed by the deflated places, in the order of ascending values.
    pub(crate) order: Vec<usize>,
}

impl Node {
    /// The column of the replay's result that has the `i`-th smallest value.
    pub(crate) fn column(&self, i: usize) -> usize {
        match self {
            Node::Leaf(_) => i,
            Node::Merge(merge) => merge.order[i],
        }
    }

    /// The rows of the vectors.
    pub(crate) fn size(&self, side: Side) -> usize {
        match self {
            Node::Leaf(leaf) => {
                if side == Side::Left {
                    leaf.n
                } else {
                    leaf.m
                }
            }
            Node::Merge(merge) => merge.rows[0] + merge.rows[1] + 1 + usize::from(side == Side::Right && merge.extra),
        }
    }
}

impl Merge {
    /// The rows of the parts' vectors. The left vectors have one more row between them.
    pub(crate) fn halves(&self, side: Side) -> [Range<usize>; 2] {
        let [left, right] = [&self.left, &self.right].map(|part| part.size(side));
        let start = self.rows[0] + 1;
        [0..left, start..start + right]
    }

    /// The places whose vectors are not zero in the rows of the left and of the right part.
    pub(crate) fn places(&self) -> [Range<usize>; 2] {
        let [left, both, right] = self.kinds;
        [0..left + both, left..left + both + right]
    }

    /// The place of source 0.
    pub(crate) fn center(&self) -> usize {
        self.kinds[0]
    }

    /// The weights of the places, in the columns of the product's second factor.
    pub(crate) fn weights(&self, side: Side) -> Vec<f64> {
        match side {
            Side::Left => self.weights.iter().zip(&self.poles).map(|(z, d)| z * d).collect(),
            Side::Right => self.weights.clone(),
        }
    }
}

/// The exponent of the power of two that brings the largest magnitude of `entries` to `[1, 2)`.
pub(crate) fn exponent<'a>(entries: impl Iterator<Item = &'a f64>) -> i32 {
    let largest = entries.fold(0.0f64, |largest, x| largest.max(x.abs()));
    let of = |x: f64| ((x.to_bits() >> 52) & 0x7ff) as i32 - 1023;
    match largest {
        0.0 => 0,
        x if x < f64::MIN_POSITIVE => 200 - of(x * 2f64.powi(200)),
        x => -of(x),
    }
}

/// `x * 2^exponent`, also where the power alone is out of range.
pub(crate) fn scaled(x: f64, exponent: i32) -> f64 {
    let half = exponent / 2;
    x * 2f64.powi(half) * 2f64.powi(exponent - half)
}
