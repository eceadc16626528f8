//! For contiguous rows: a register holds adjacent entries of one row, and entries of V are broadcast. The L1 cache holds the leaf. No
//! reduction over lanes is needed.

#![allow(clippy::needless_range_loop, reason = "loops of constant length over several arrays of registers, which are unrolled")]

use faer::MatRef;
use pulp::{Simd, WithSimd};

use crate::{
    base::{
        number::{Number, Scalar},
        registers::Choices,
    },
    cpu::{
        simd::{lanes::Lanes, prefetch::Ahead},
        tall::products::LANES,
    },
};

/// Columns that a leaf of `n` columns, and its sums, have in memory: whole registers.
pub(crate) fn padded_row(n: usize) -> usize {
    n.next_multiple_of(LANES)
}

/// Columns of V and registers of X in a group.
const fn at_once<W: Scalar, S: Simd>() -> (usize, usize) {
    Choices::of::<S>().squares_by_rows[W::IS_COMPLEX as usize]
}

/// Adds the outer products of the rows of a leaf to the sums.
pub(crate) struct AddRows<'a, T, W, F> {
    pub rows: MatRef<'a, T>,
    /// `ld` elements for each row, at least a [`padded_row`]. Those beyond the columns of `rows` are zero.
    pub leaf: &'a mut [W],
    pub ld: usize,
    /// X^H X, row-major with leading dimension `ld`, with as many rows as a [`padded_row`] has elements. Meaningful from the diagonal on.
    pub sums: &'a mut [W],
    /// The next rows, which are prefetched.
    pub next: MatRef<'a, T>,
    /// Converts an element to the type of the sums.
    pub widen: F,
}

impl<T: Number, W: Scalar, F: Fn(T::Scalar) -> W> WithSimd for AddRows<'_, T, W, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let AddRows { rows, leaf, ld, sums, next, widen } = self;
        const { assert!(LANES.is_multiple_of(Lanes::<W, S>::N)) }
        let (leaf, cols) = (&mut leaf[..rows.nrows() * ld], padded_row(rows.ncols()));
        for (to, i) in leaf.chunks_exact_mut(ld).zip(0..) {
            let row = rows.row(i);
            match row.transpose().try_as_col_major() {
                Some(row) => to.iter_mut().zip(row.as_slice()).for_each(|(to, &x)| *to = widen(x.widen())),
                None => to.iter_mut().zip(row.iter()).for_each(|(to, &x)| *to = widen(x.widen())),
            }
        }
        let (n, (width, at_once)) = (Lanes::<W, S>::N, at_once::<W, S>());
        let registers_from = |v: usize| cols / n - v / n;
        let groups: usize = (0..cols).step_by(width).map(|v| registers_from(v).div_ceil(at_once)).sum();
        let mut ahead = Ahead::of(next, groups * rows.nrows());
        for v in (0..cols).step_by(width) {
            let mut x = v / n * n;
            while x < cols {
                let registers = at_once.min((cols - x) / n);
                let group = Group { leaf, ld, v, x, sums, ahead: &mut ahead };
                match (width.min(cols - v), registers) {
                    (8, 3) if !W::IS_COMPLEX => group.alone::<S, 8, 3>(simd),
                    (8, 2) if !W::IS_COMPLEX => group.alone::<S, 8, 2>(simd),
                    (8, _) if !W::IS_COMPLEX => group.alone::<S, 8, 1>(simd),
                    (6, 2) if !W::IS_COMPLEX => group.alone::<S, 6, 2>(simd),
                    (6, _) if !W::IS_COMPLEX => group.alone::<S, 6, 1>(simd),
                    (2, 2) if !W::IS_COMPLEX => group.alone::<S, 2, 2>(simd),
                    (2, _) if !W::IS_COMPLEX => group.alone::<S, 2, 1>(simd),
                    (4, 2) => group.alone::<S, 4, 2>(simd),
                    _ => group.alone::<S, 4, 1>(simd),
                }
                x += registers * n;
            }
        }
    }
}

/// Columns from `v` on as V, and registers from column `x` on.
struct Group<'a, 'b, T, W> {
    leaf: &'a [W],
    ld: usize,
    v: usize,
    x: usize,
    sums: &'a mut [W],
    ahead: &'a mut Ahead<'b, T>,
}

impl<T, W: Scalar> Group<'_, '_, T, W> {
    /// `K` columns of V and `C` registers, in a function of its own. If several were inlined into one function, compilers would spill
    /// registers.
    #[inline(never)]
    fn alone<S: Simd, const K: usize, const C: usize>(self, simd: S) {
        simd.vectorize(
            #[inline(always)]
            || self.add::<S, K, C>(Lanes::new(simd)),
        );
    }

    #[inline(always)]
    fn add<S: Simd, const K: usize, const C: usize>(self, lanes: Lanes<W, S>) {
        let Group { leaf, ld, v, x, sums, ahead } = self;
        let n = Lanes::<W, S>::N;
        assert!(v + K <= ld && x + C * n <= ld && sums.len() >= (v + K) * ld);
        let mut here = [[lanes.zero(); C]; K];
        for row in leaf.chunks_exact(ld) {
            ahead.ask();
            // SAFETY: columns below `ld`, as asserted.
            unsafe {
                let row = row.as_ptr();
                let mut y = [lanes.zero(); C];
                for c in 0..C {
                    y[c] = lanes.load(row.add(x + c * n));
                }
                for k in 0..K {
                    let factor = lanes.splat(*row.add(v + k));
                    for c in 0..C {
                        here[k][c] = lanes.conj_mul_add(factor, y[c], here[k][c]);
                    }
                }
            }
        }
        for k in 0..K {
            for c in 0..C {
                // SAFETY: rows and columns below `ld`, as asserted.
                unsafe {
                    let to = sums.as_mut_ptr().add((v + k) * ld + x + c * n);
                    lanes.store(to, lanes.add(lanes.load(to), here[k][c]));
                }
            }
        }
    }
}
