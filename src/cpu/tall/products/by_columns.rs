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
            convert::to_wide,
            lanes::{Lane, Lanes},
            prefetch::Ahead,
        },
        tall::{leaves::Wide, leaves::padded},
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
pub(crate) struct AddColumns<'a, T: Number> {
    pub rows: MatRef<'a, T>,
    /// [`padded_columns`] columns of `ld` elements each. Those beyond the columns of `rows` are zero.
    pub leaf: &'a mut [Wide<T>],
    pub ld: usize,
    /// X^H X on and above the diagonal. Entries below it are unspecified.
    pub sums: &'a mut Mat<Wide<T>>,
    /// The next rows, which are prefetched.
    pub next: MatRef<'a, T>,
}

impl<T: Number> WithSimd for AddColumns<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let AddColumns { rows, leaf, ld, sums, next } = self;
        let ((m, n), (width, cols)) = (rows.shape(), at_once::<Wide<T>, S>());
        assert!(leaf.len() >= ld * padded_columns(n) && ld >= m.next_multiple_of(PADDING) && sums.shape() == (n, n));
        // If columns are contiguous, those right of the first V are widened as part of their first products.
        let on_the_way = rows.row_stride() == 1 && m.is_multiple_of(PADDING);
        let there = if on_the_way { n.min(WIDTH.next_multiple_of(cols)) } else { n };
        to_wide(rows.subcols(0, there), padded(leaf, (m, there), ld).subrows_mut(0, m));
        let body = Body { at: leaf.as_mut_ptr(), ld, rows: m.next_multiple_of(PADDING) };
        let groups: usize = (0..n).step_by(width).map(|v| (n - v).div_ceil(cols)).sum();
        let calls = groups * body.rows / Lanes::<Wide<T>, S>::N;
        let mut add = Add { body, sums, ahead: Ahead::of(next, calls) };
        for v in (0..n).step_by(width) {
            let mut x = v;
            while x < n {
                let cols = cols.min(n - x);
                if v == 0 && x >= there {
                    add.on_the_way(simd, rows, x, cols);
                } else {
                    add.in_place(simd, (x + cols - v).min(width), v, x, cols);
                }
                x += cols;
            }
        }
    }
}

/// The state of [`AddColumns`].
struct Add<'a, 'b, W> {
    /// The leaf, of [`padded_columns`].
    body: Body<W>,
    sums: &'b mut Mat<W>,
    ahead: Ahead<'a>,
}

impl<W: Scalar> Add<'_, '_, W> {
    /// One group of the body: at least `wanted` columns from `v` on of V, and `cols` from `x` on of X. The conditions keep widths that an instruction set
    /// does not have from being compiled.
    #[inline(always)]
    fn in_place<S: Simd>(&mut self, simd: S, wanted: usize, v: usize, x: usize, cols: usize) {
        match cols {
            3 if const { at_once::<W, S>().1 >= 3 } => self.of_columns::<S, 3>(simd, wanted, v, x),
            2 if const { at_once::<W, S>().1 >= 2 } => self.of_columns::<S, 2>(simd, wanted, v, x),
            _ => self.of_columns::<S, 1>(simd, wanted, v, x),
        }
    }

    #[inline(always)]
    fn of_columns<S: Simd, const C: usize>(&mut self, simd: S, wanted: usize, v: usize, x: usize) {
        match wanted {
            0..=3 if const { !W::IS_COMPLEX } => self.alone::<S, 3, C>(simd, v, x),
            4..=6 if const { at_once::<W, S>().0 == WIDTH } => self.alone::<S, 6, C>(simd, v, x),
            _ if const { at_once::<W, S>().0 == 4 } => self.alone::<S, 4, C>(simd, v, x),
            _ if const { at_once::<W, S>().0 == WIDTH } => self.alone::<S, WIDTH, C>(simd, v, x),
            _ => self.alone::<S, 2, C>(simd, v, x),
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
        let (body_v, body_x) = self.columns::<K, C>(v, x);
        let mut sums = [[lanes.zero(); K]; C];
        for i in (0..body_v.rows).step_by(Lanes::<W, S>::N) {
            self.ahead.ask();
            // SAFETY: the body has these columns, as asserted, whose length is a multiple of N, and nobody else uses it.
            unsafe {
                let y = body_x.registers::<S, C>(lanes, i);
                multiply(lanes, body_v, i, y, &mut sums);
            }
        }
        self.add(lanes, sums, v, x);
    }

    /// The first columns as V, and `cols` columns from `x` on as X, which are widened to the body.
    #[inline(always)]
    fn on_the_way<S: Simd, T>(&mut self, simd: S, rows: MatRef<'_, T>, x: usize, cols: usize)
    where
        T: Number<Scalar: Scalar<Wide = W>>,
    {
        match cols {
            3 if const { at_once::<W, S>().1 >= 3 } => self.of_widened::<S, T, 3>(simd, rows, x),
            2 if const { at_once::<W, S>().1 >= 2 } => self.of_widened::<S, T, 2>(simd, rows, x),
            _ => self.of_widened::<S, T, 1>(simd, rows, x),
        }
    }

    #[inline(always)]
    fn of_widened<S: Simd, T, const C: usize>(&mut self, simd: S, rows: MatRef<'_, T>, x: usize)
    where
        T: Number<Scalar: Scalar<Wide = W>>,
    {
        if const { at_once::<W, S>().0 == 2 } {
            self.widened_alone::<S, T, 2, C>(simd, rows, x);
        } else if const { at_once::<W, S>().0 == 4 } {
            self.widened_alone::<S, T, 4, C>(simd, rows, x);
        } else {
            self.widened_alone::<S, T, WIDTH, C>(simd, rows, x);
        }
    }

    /// As [`alone`](Self::alone).
    #[inline(never)]
    fn widened_alone<S: Simd, T, const K: usize, const C: usize>(&mut self, simd: S, rows: MatRef<'_, T>, x: usize)
    where
        T: Number<Scalar: Scalar<Wide = W>>,
    {
        simd.vectorize(
            #[inline(always)]
            || self.widened_group::<S, T, K, C>(Lanes::new(simd), rows, x),
        );
    }

    #[inline(always)]
    fn widened_group<S: Simd, T, const K: usize, const C: usize>(&mut self, lanes: Lanes<W, S>, source: MatRef<'_, T>, x: usize)
    where
        T: Number<Scalar: Scalar<Wide = W>>,
    {
        let (body_v, body_x) = self.columns::<K, C>(0, x);
        assert!(source.nrows() == body_v.rows && source.row_stride() == 1 && x + C <= source.ncols());
        let mut columns = [source.as_ptr(); C];
        for c in 0..C {
            columns[c] = source.ptr_at(0, x + c);
        }
        let mut sums = [[lanes.zero(); K]; C];
        for i in (0..body_v.rows).step_by(Lanes::<W, S>::N) {
            self.ahead.ask();
            // SAFETY: the body and the source have these columns and as many rows, as asserted, which are contiguous, and nobody else uses the body.
            unsafe {
                let mut y = [lanes.zero(); C];
                for c in 0..C {
                    let mut elements = [W::zeroed(); PADDING];
                    for k in 0..Lanes::<W, S>::N {
                        elements[k] = (*columns[c].add(i + k)).widen().to_wide();
                    }
                    y[c] = lanes.load(elements.as_ptr());
                    lanes.store(body_x.at.add(c * body_x.ld + i), y[c]);
                }
                multiply(lanes, body_v, i, y, &mut sums);
            }
        }
        self.add(lanes, sums, 0, x);
    }

    /// The body from columns `v` and `x` on, which has `K` and `C` columns there.
    #[inline(always)]
    fn columns<const K: usize, const C: usize>(&self, v: usize, x: usize) -> (Body<W>, Body<W>) {
        let (Body { at, ld, rows }, n) = (self.body, self.sums.ncols());
        assert!(v + K <= padded_columns(n) && x + C <= n);
        (Body { at: at.wrapping_add(v * ld), ld, rows }, Body { at: at.wrapping_add(x * ld), ld, rows })
    }

    /// Adds the sums of lanes to those of all leaves.
    #[inline(always)]
    fn add<S: Simd, const K: usize, const C: usize>(
        &mut self,
        lanes: Lanes<W, S>,
        sums: [[Lane<W, S>; K]; C],
        v: usize,
        x: usize,
    ) {
        let n = self.sums.ncols();
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

/// `sums` += V^H X, not yet reduced over lanes, for the register of rows from i on of `K` columns of V; `y` has those of `C` columns of X.
///
/// # Safety
/// V has `K` columns and these rows, and nobody changes them during the call.
#[inline(always)]
unsafe fn multiply<W: Scalar, S: Simd, const K: usize, const C: usize>(
    lanes: Lanes<W, S>,
    v: Body<W>,
    i: usize,
    y: [Lane<W, S>; C],
    sums: &mut [[Lane<W, S>; K]; C],
) {
    const { assert!(PADDING.is_multiple_of(Lanes::<W, S>::N)) }
    for k in 0..K {
        // SAFETY: the caller's promise.
        let v = unsafe { lanes.load(v.at.add(k * v.ld + i)) };
        for c in 0..C {
            sums[c][k] = lanes.conj_mul_add(v, y[c], sums[c][k]);
        }
    }
}
