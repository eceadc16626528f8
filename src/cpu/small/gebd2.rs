//! Small matrices: direct reduction to bidiagonal form, one reflector at a time (LAPACK's `gebd2`), on one thread.
//!
//! A (m x n, m >= n) = Q C P^H. Step j: a reflector from column j below the diagonal, applied to the columns right of it, and one from
//! row j right of the superdiagonal, applied to the rows below it:
//!
//! ```text
//! y = v^H A        A <- A - tau v y        w = A conj(u)        A <- A - sigma w u^T
//! ```
//!
//! Each product is computed in the same pass as the update before it. A step thus reads and writes the trailing matrix twice, not four
//! times (Howell, Demmel, Fulton, Hammarling and Marmol 2008). Arithmetic is in double precision.

#![allow(clippy::needless_range_loop, reason = "loops of constant length over several arrays of registers, which are unrolled")]

use std::ops::Range;

use faer::traits::{ComplexField, SimdArch};
use pulp::{Simd, WithSimd};

use crate::{
    base::number::{Number, Scalar},
    cpu::{larfg::larfg, simd::lanes::Lanes},
};

/// Rows are padded to a multiple of this, which is a multiple of the lanes of every double-precision register.
const MULTIPLE: usize = 8;

/// Rows that [`gebd2`] needs for a matrix of `m` rows. Those from m on are zero. None if the number overflows.
pub(crate) fn padded_rows(m: usize) -> Option<usize> {
    m.checked_next_multiple_of(MULTIPLE)
}

/// The diagonal and the superdiagonal of the bidiagonal form of `a`. `a` is m x n, m >= n, column-major, with leading dimension `ld` and at
/// least [`padded_rows`] rows, of which those from m on are zero. It is overwritten. `work` holds [`workspace`] zeros.
///
/// If the row reflectors are kept, u_j goes to column j of the n x n matrix `keep`, from row j + 1 on, and its tau to row j.
pub(crate) fn gebd2<W>(a: &mut [W], work: &mut [W], ld: usize, (m, n): (usize, usize), keep: Option<&mut [W]>) -> (Vec<W>, Vec<W>)
where
    W: Scalar + Number<Real = f64>,
{
    <W as ComplexField>::Arch::default().dispatch(Gebd2 { a, work, ld, m, n, keep })
}

/// Elements of workspace of [`gebd2`], where `rows` are the [`padded_rows`]. The sum cannot overflow for a matrix that fits in memory.
pub(crate) fn workspace(rows: usize, n: usize) -> usize {
    2 * rows + 3 * n
}

struct Gebd2<'a, W> {
    a: &'a mut [W],
    work: &'a mut [W],
    ld: usize,
    m: usize,
    n: usize,
    keep: Option<&'a mut [W]>,
}

impl<W: Scalar + Number<Real = f64>> WithSimd for Gebd2<'_, W> {
    type Output = (Vec<W>, Vec<W>);

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        const { assert!(MULTIPLE.is_multiple_of(Lanes::<W, S>::N)) }
        let lanes = Lanes::<W, S>::new(simd);
        let Gebd2 { a, work, ld, m, n, mut keep } = self;
        let rows = m.next_multiple_of(MULTIPLE);
        let (mut d, mut e) = (Vec::with_capacity(n), Vec::with_capacity(n.saturating_sub(1)));
        let (v, rest) = work.split_at_mut(rows);
        let (w, rest) = rest.split_at_mut(rows);
        let (y, rest) = rest.split_at_mut(n);
        // The row reflector u, and su = sigma u. The update A <- A - w su^T is deferred to the next step.
        let (u, su) = rest.split_at_mut(n);

        for j in 0..n {
            // From here on v and w are zero above row j, so the first register may start above it.
            let first = j / MULTIPLE * MULTIPLE;
            let (left, right) = a.split_at_mut((j + 1) * ld);
            let column = &mut left[j * ld..][..rows];
            lanes.axpy(-su[j], &w[first..], &mut column[first..]);
            v[first..j].fill(W::zero_impl());
            v[j..].copy_from_slice(&column[j..]);
            let (alpha, tail) = v[j..m].split_first_mut().expect("j < n <= m");
            let h = larfg(*alpha, tail);
            *alpha = W::one_impl();
            lanes.scal(h.scale, tail);
            d.push(h.beta);
            if right.is_empty() {
                break;
            }

            let mut trailing = Trailing { lanes, x: right, ld, first, rows };
            for c in groups(n - j - 1) {
                let (y, su) = (&mut y[j + 1..], &su[j + 1..]);
                match c.len() {
                    4 => trailing.finish_and_multiply::<4>(c.start, w, su, v, y),
                    _ => trailing.finish_and_multiply::<1>(c.start, w, su, v, y),
                }
            }
            for c in j + 1..n {
                y[c] = y[c].times(h.tau);
                u[c] = trailing.x[(c - j - 1) * ld + j] - y[c];
            }
            let (alpha, tail) = u[j + 1..n].split_first_mut().expect("j + 1 < n");
            let g = larfg(*alpha, tail);
            *alpha = W::one_impl();
            lanes.scal(g.scale, tail);
            e.push(g.beta);
            if let Some(kept) = &mut keep {
                kept[j * n + j] = W::from_real_impl(&g.tau);
                kept[j * n + j + 1..(j + 1) * n].copy_from_slice(&u[j + 1..n]);
            }

            w[first..].fill(W::zero_impl());
            for c in groups(n - j - 1) {
                let (y, u) = (&y[j + 1..], &u[j + 1..]);
                match c.len() {
                    4 => trailing.update_and_multiply::<4>(c.start, v, y, u, w),
                    _ => trailing.update_and_multiply::<1>(c.start, v, y, u, w),
                }
            }
            w[first..=j].fill(W::zero_impl());
            for c in j + 1..n {
                su[c] = u[c].times(g.tau);
            }
        }
        (d, e)
    }
}

/// `0..n` in groups of four columns, and of one. One pass handles a group, and reads the vectors that its columns share once.
fn groups(n: usize) -> impl Iterator<Item = Range<usize>> {
    let fours = n / 4 * 4;
    (0..fours).step_by(4).map(|c| c..c + 4).chain((fours..n).map(|c| c..c + 1))
}

/// The trailing columns X, of `rows` rows each. Rows before `first` are done.
struct Trailing<'a, W: Scalar, S: Simd> {
    lanes: Lanes<W, S>,
    x: &'a mut [W],
    ld: usize,
    first: usize,
    rows: usize,
}

impl<W: Scalar, S: Simd> Trailing<'_, W, S> {
    /// X <- X - w su^T, y = v^H X, for the `C` columns from `c` on.
    #[inline(always)]
    fn finish_and_multiply<const C: usize>(&mut self, c: usize, w: &[W], su: &[W], v: &[W], y: &mut [W]) {
        let Trailing { lanes, ref mut x, ld, first, rows } = *self;
        let (x, su, y) = (&mut x[c * ld..][..C * ld], &su[c..][..C], &mut y[c..][..C]);
        assert!(w.len() == rows && v.len() == rows && rows <= ld && (rows - first).is_multiple_of(MULTIPLE));
        let mut factors = [lanes.zero(); C];
        for c in 0..C {
            factors[c] = lanes.splat(-su[c]);
        }
        let mut sums = [lanes.zero(); C];
        let x = x.as_mut_ptr();
        for i in (first..rows).step_by(Lanes::<W, S>::N) {
            // SAFETY: `rows` - `first` is a multiple of N (asserted above), so rows i .. i + N are inside every column.
            unsafe {
                let (w, v) = (lanes.load(w.as_ptr().add(i)), lanes.load(v.as_ptr().add(i)));
                for c in 0..C {
                    let at = x.add(c * ld + i);
                    let column = lanes.mul_add(factors[c], w, lanes.load(at));
                    lanes.store(at, column);
                    sums[c] = lanes.conj_mul_add(v, column, sums[c]);
                }
            }
        }
        for c in 0..C {
            y[c] = lanes.sum(sums[c]);
        }
    }

    /// X <- X - v y, w <- w + X conj(u), for the `C` columns from `c` on.
    #[inline(always)]
    fn update_and_multiply<const C: usize>(&mut self, c: usize, v: &[W], y: &[W], u: &[W], w: &mut [W]) {
        let Trailing { lanes, ref mut x, ld, first, rows } = *self;
        let (x, y, u) = (&mut x[c * ld..][..C * ld], &y[c..][..C], &u[c..][..C]);
        assert!(w.len() == rows && v.len() == rows && rows <= ld && (rows - first).is_multiple_of(MULTIPLE));
        let (mut factors, mut us) = ([lanes.zero(); C], [lanes.zero(); C]);
        for c in 0..C {
            (factors[c], us[c]) = (lanes.splat(-y[c]), lanes.splat(u[c]));
        }
        let (x, w) = (x.as_mut_ptr(), w.as_mut_ptr());
        for i in (first..rows).step_by(Lanes::<W, S>::N) {
            // SAFETY: as in `finish_and_multiply`.
            unsafe {
                let v = lanes.load(v.as_ptr().add(i));
                let mut sum = lanes.load(w.add(i));
                for c in 0..C {
                    let at = x.add(c * ld + i);
                    let column = lanes.mul_add(factors[c], v, lanes.load(at));
                    lanes.store(at, column);
                    sum = lanes.conj_mul_add(us[c], column, sum);
                }
                lanes.store(w.add(i), sum);
            }
        }
    }
}
