//! For contiguous columns: a register holds adjacent rows of one column.
//!
//! The L1 cache holds the columns of V. On the diagonal, columns of V right of those of X are skipped. The sums of a leaf are reduced over
//! lanes at its end.

#![allow(clippy::needless_range_loop, reason = "loops of constant length over several arrays of registers, which are unrolled")]

use faer::{Mat, MatRef};
use pulp::{Simd, WithSimd};

use crate::{
    base::{
        number::{Number, Scalar},
        registers::Choices,
    },
    cpu::{
        qr::body::{Body, PADDING},
        simd::{
            lanes::{Lane, Lanes},
            prefetch::Ahead,
        },
        tall::leaves::padded_copy,
    },
};

/// Most columns of V in a group.
const WIDTH: usize = 8;

/// Columns that a leaf of `n` columns has in memory: a multiple of [`WIDTH`], so that V can be read in whole groups.
pub(crate) fn padded_columns(n: usize) -> usize {
    n.next_multiple_of(WIDTH)
}

/// Columns of V and of X in a group.
const fn at_once<W: Scalar, S: Simd>() -> (usize, usize) {
    Choices::of::<S>().squares_by_columns[W::IS_COMPLEX as usize]
}

/// Adds the products of a leaf to the sums.
pub(crate) struct AddColumns<'a, T, W, F> {
    pub rows: MatRef<'a, T>,
    /// [`padded_columns`] columns of `ld` elements each. Those beyond the columns of `rows` are zero.
    pub leaf: &'a mut [W],
    pub ld: usize,
    /// X^H X on and above the diagonal. Entries below it are unspecified.
    pub sums: &'a mut Mat<W>,
    /// The next rows, which are prefetched.
    pub next: MatRef<'a, T>,
    /// Converts an element to the type of the sums.
    pub widen: F,
}

impl<T: Number, W: Scalar, F: Fn(T::Scalar) -> W + Copy> WithSimd for AddColumns<'_, T, W, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let AddColumns { rows, leaf, ld, sums, next, widen } = self;
        let ((m, n), (width, cols)) = (rows.shape(), at_once::<W, S>());
        assert!(leaf.len() >= ld * padded_columns(n) && ld >= m.next_multiple_of(PADDING) && sums.shape() == (n, n));
        // If columns are contiguous, those right of the first V are widened as part of their first products.
        let on_the_way = rows.row_stride() == 1 && m.is_multiple_of(PADDING);
        let there = if on_the_way { n.min(WIDTH.next_multiple_of(cols)) } else { n };
        padded_copy(rows.subcols(0, there), leaf, ld, widen);
        let body = Body { at: leaf.as_mut_ptr(), ld, rows: m.next_multiple_of(PADDING) };
        let groups: usize = (0..n).step_by(width).map(|v| (n - v).div_ceil(cols)).sum();
        let calls = groups * body.rows / Lanes::<W, S>::N;
        let mut add = Add { source: rows, there, body, sums, ahead: Ahead::of(next, calls), widen };
        add.in_groups(simd);
    }
}

/// The state of [`AddColumns`].
struct Add<'a, 'b, T, W, F> {
    source: MatRef<'a, T>,
    /// The leaf, of [`padded_columns`].
    body: Body<W>,
    /// Columns that are in the body from the start.
    there: usize,
    sums: &'b mut Mat<W>,
    ahead: Ahead<'a, T>,
    widen: F,
}

impl<T: Number, W: Scalar, F: Fn(T::Scalar) -> W + Copy> Add<'_, '_, T, W, F> {
    /// All groups on and above the diagonal.
    #[inline(always)]
    fn in_groups<S: Simd>(&mut self, simd: S) {
        let (n, (width, at_once)) = (self.sums.ncols(), at_once::<W, S>());
        for v in (0..n).step_by(width) {
            let mut x = v;
            while x < n {
                let cols = at_once.min(n - x);
                let wanted = (x + cols - v).min(width);
                match cols {
                    3 if !W::IS_COMPLEX => self.of_columns::<S, 3>(simd, wanted, v, x),
                    2 => self.of_columns::<S, 2>(simd, wanted, v, x),
                    _ => self.of_columns::<S, 1>(simd, wanted, v, x),
                }
                x += cols;
            }
        }
    }

    /// One group, of at least `wanted` columns of V.
    #[inline(always)]
    fn of_columns<S: Simd, const C: usize>(&mut self, simd: S, wanted: usize, v: usize, x: usize) {
        match (at_once::<W, S>().0, wanted) {
            (2, _) | (4, 0..=2) if W::IS_COMPLEX => self.alone::<S, 2, C>(simd, v, x),
            (4 | WIDTH, 0..=3) if !W::IS_COMPLEX => self.alone::<S, 3, C>(simd, v, x),
            (4, _) => self.alone::<S, 4, C>(simd, v, x),
            (_, 4..=6) => self.alone::<S, 6, C>(simd, v, x),
            _ => self.alone::<S, WIDTH, C>(simd, v, x),
        }
    }

    /// A group in a function of its own. If several were inlined into one function, compilers would spill registers.
    #[inline(never)]
    fn alone<S: Simd, const K: usize, const C: usize>(&mut self, simd: S, v: usize, x: usize) {
        simd.vectorize(
            #[inline(always)]
            || self.group::<S, K, C>(Lanes::new(simd), v, x),
        );
    }

    /// Columns `v..v + K` of V and `x..x + C` of X.
    #[inline(always)]
    fn group<S: Simd, const K: usize, const C: usize>(&mut self, lanes: Lanes<W, S>, v: usize, x: usize) {
        let Body { at, ld, rows } = self.body;
        let n = self.sums.ncols();
        assert!(v + K <= padded_columns(n) && x + C <= n);
        let from = |column: usize| Body { at: at.wrapping_add(column * ld), ld, rows };
        let (body_v, body_x, lanes_of) = (from(v), from(x), Lanes::<W, S>::N);
        let whole_v = K == at_once::<W, S>().0;
        // SAFETY: the body and the source have these columns, as asserted, and nobody else uses the body. Where the body is written, the
        // source has as many rows, which are contiguous.
        let sums = unsafe {
            if v == 0 && x >= self.there && whole_v {
                let columns: [*const T; C] = std::array::from_fn(|c| self.source.ptr_at(0, x + c));
                products::<_, S, K, C>(
                    lanes,
                    body_v,
                    #[inline(always)]
                    |i| {
                        self.ahead.ask();
                        let mut registers = [lanes.zero(); C];
                        for c in 0..C {
                            let mut elements = [W::zeroed(); PADDING];
                            for (k, element) in elements[..lanes_of].iter_mut().enumerate() {
                                *element = (self.widen)((*columns[c].add(i + k)).widen());
                            }
                            registers[c] = lanes.load(elements.as_ptr());
                            lanes.store(body_x.at.add(c * ld + i), registers[c]);
                        }
                        registers
                    },
                )
            } else {
                products::<_, S, K, C>(
                    lanes,
                    body_v,
                    #[inline(always)]
                    |i| {
                        self.ahead.ask();
                        body_x.registers::<S, C>(lanes, i)
                    },
                )
            }
        };
        for c in 0..C {
            for k in 0..K {
                let sum = lanes.sum(sums[c][k]);
                if v + k < n {
                    self.sums[(v + k, x + c)] += sum;
                }
            }
        }
    }
}

/// V^H X, not yet reduced over lanes, for `K` columns of V and `C` of X. `read` returns the registers of X.
///
/// # Safety
/// V has `K` columns, and nobody changes them during the call.
#[inline(always)]
unsafe fn products<W: Scalar, S: Simd, const K: usize, const C: usize>(
    lanes: Lanes<W, S>,
    v: Body<W>,
    mut read: impl FnMut(usize) -> [Lane<W, S>; C],
) -> [[Lane<W, S>; K]; C] {
    const { assert!(PADDING.is_multiple_of(Lanes::<W, S>::N)) }
    let mut sums = [[lanes.zero(); K]; C];
    for i in (0..v.rows).step_by(Lanes::<W, S>::N) {
        let y = read(i);
        for k in 0..K {
            // SAFETY: rows i .. i + N are inside V's columns, whose length is a multiple of N.
            let v = unsafe { lanes.load(v.at.add(k * v.ld + i)) };
            for c in 0..C {
                sums[c][k] = lanes.conj_mul_add(v, y[c], sums[c][k]);
            }
        }
    }
    sums
}
