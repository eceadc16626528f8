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
        tall::{leaves::Wide, products::LANES},
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
pub(crate) struct AddRows<'a, T: Number> {
    pub rows: MatRef<'a, T>,
    /// `ld` elements for each row, at least a [`padded_row`]. Those beyond the columns of `rows` are zero.
    pub leaf: &'a mut [Wide<T>],
    pub ld: usize,
    /// X^H X, row-major with leading dimension `ld`, with as many rows as a [`padded_row`] has elements. Meaningful from the diagonal on.
    pub sums: &'a mut [Wide<T>],
    /// The next rows, which are prefetched.
    pub next: MatRef<'a, T>,
}

impl<T: Number> WithSimd for AddRows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let AddRows { rows, leaf, ld, sums, next } = self;
        const { assert!(LANES.is_multiple_of(Lanes::<Wide<T>, S>::N)) }
        let (leaf, cols) = (&mut leaf[..rows.nrows() * ld], padded_row(rows.ncols()));
        for i in 0..rows.nrows() {
            let (row, to) = (rows.row(i).transpose(), &mut leaf[i * ld..][..rows.ncols()]);
            match row.try_as_col_major() {
                Some(row) => {
                    for (to, &x) in to.iter_mut().zip(row.as_slice()) {
                        *to = x.widen().to_wide();
                    }
                }
                None => {
                    for (k, to) in to.iter_mut().enumerate() {
                        *to = row[k].widen().to_wide();
                    }
                }
            }
        }
        let (n, (width, at_once)) = (Lanes::<Wide<T>, S>::N, at_once::<Wide<T>, S>());
        let registers_from = |v: usize| cols / n - v / n;
        let groups: usize = (0..cols).step_by(width).map(|v| registers_from(v).div_ceil(at_once)).sum();
        let mut ahead = Ahead::of(next, groups * rows.nrows());
        for v in (0..cols).step_by(width) {
            let mut x = v / n * n;
            while x < cols {
                let registers = at_once.min((cols - x) / n);
                let group = Group { leaf, ld, v, x, sums, ahead: &mut ahead };
                group.in_registers(simd, width.min(cols - v), registers);
                x += registers * n;
            }
        }
    }
}

/// Columns from `v` on as V, and registers from column `x` on.
struct Group<'a, 'b, W> {
    leaf: &'a [W],
    ld: usize,
    v: usize,
    x: usize,
    sums: &'a mut [W],
    ahead: &'a mut Ahead<'b>,
}

impl<W: Scalar> Group<'_, '_, W> {
    /// `width` columns of V and so many registers. The conditions keep widths that an instruction set does not have from being compiled.
    #[inline(always)]
    fn in_registers<S: Simd>(self, simd: S, width: usize, registers: usize) {
        match registers {
            3 if const { at_once::<W, S>().1 >= 3 } => self.in_columns::<S, 3>(simd, width),
            2 if const { at_once::<W, S>().1 >= 2 } => self.in_columns::<S, 2>(simd, width),
            _ => self.in_columns::<S, 1>(simd, width),
        }
    }

    /// A padded row is a multiple of eight, so that all groups of V have eight or four columns, or six and then two or four.
    #[inline(always)]
    fn in_columns<S: Simd, const C: usize>(self, simd: S, width: usize) {
        match width {
            _ if const { at_once::<W, S>().0 == 8 } => self.alone::<S, 8, C>(simd),
            6 if const { at_once::<W, S>().0 == 6 } => self.alone::<S, 6, C>(simd),
            2 if const { at_once::<W, S>().0 == 6 } => self.alone::<S, 2, C>(simd),
            _ => self.alone::<S, 4, C>(simd),
        }
    }

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
