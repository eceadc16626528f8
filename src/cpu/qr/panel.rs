//! QR of at most eight columns, and the application of their reflectors to the columns right of them. The factorisations of taller and
//! wider panels are built on these kernels (LAPACK's `tpqrt2` and `tprfb`, or `geqr2`, `larft` and `larfb`).
//!
//! The K columns are [top; body], where the top has K rows. Either the top is upper triangular, as when a body is stacked below the R of
//! earlier rows, and V = [I; V2]. Or the top is full, and V = [L; V2] with L unit lower triangular.
//!
//! Each reflector takes one pass over the body. The pass that applies a reflector also computes the products of the next column x with all
//! columns: x^H y for columns y right of it, and v^H x, for T, for reflectors v left of it. In types other than double precision there is
//! one more pass over the column, for its sum of squares in double precision. With r rows of K columns in the L1 cache, a reflector reads r
//! K numbers and writes at most as many. Columns right of the panel are read twice and written once for all K reflectors.

#![allow(clippy::needless_range_loop, reason = "loops of constant length over several arrays of registers, which are unrolled")]

mod top;

use faer::{MatMut, MatRef, prelude::ReborrowMut};
use pulp::Simd;

use crate::{
    base::{
        number::{Re, RealElement, Scalar},
        registers::Choices,
    },
    cpu::{
        larfg::sum_of_squares,
        qr::body::{Body, PADDING},
        simd::{lanes::Lanes, prefetch::Ahead},
    },
};

use top::Top;

/// Most columns of a panel. All panel widths are powers of two.
pub(crate) const WIDTH: usize = 8;

/// The width of the next panel if `cols` columns are left: the largest power of two up to `cols` and [`WIDTH`].
fn width(cols: usize) -> usize {
    1 << cols.clamp(1, WIDTH).ilog2()
}

/// Columns to which the reflectors of a panel are applied at a time.
const fn columns_at_once<T: Scalar, S: Simd>() -> usize {
    Choices::of::<S>().panel_columns[T::IS_COMPLEX as usize]
}

/// A factorisation that reduces one panel at a time to triangular form, from left to right.
pub(crate) trait Panels<T: Scalar> {
    /// Reduces the `k` columns from `j` on to triangular form, and applies their reflectors to the columns right of them.
    fn eliminate<S: Simd>(&mut self, simd: S, j: usize, k: usize);

    /// Is called after columns `j..j + width` have been eliminated. Does nothing by default.
    #[inline(always)]
    fn eliminated<S: Simd>(&mut self, simd: S, j: usize, width: usize) {
        _ = (simd, j, width);
    }

    /// Eliminates all `cols` columns.
    #[inline(always)]
    fn in_panels<S: Simd>(&mut self, simd: S, cols: usize) {
        let mut j = 0;
        while j < cols {
            let width = width(cols - j);
            self.eliminate(simd, j, width);
            self.eliminated(simd, j, width);
            j += width;
        }
    }
}

/// I - V T V^H with V = [L; V2] of k columns: `l[k][i]` is L(i, k) below the diagonal, `t[j][k]` is T(k, j). V2 replaces the body. The other
/// entries have any value.
pub(crate) struct Block<T> {
    pub l: [[T; WIDTH]; WIDTH],
    pub t: [[T; WIDTH]; WIDTH],
    /// Whether the top is full, else it is upper triangular, and L is the identity.
    full: bool,
}

impl<T: Scalar> Block<T> {
    /// Room for the blocks of panels whose tops are all full or all triangular.
    pub fn new(full: bool) -> Self {
        Block { l: [[T::zero_impl(); WIDTH]; WIDTH], t: [[T::zero_impl(); WIDTH]; WIDTH], full }
    }

    /// QR of the k columns [top; body]. R replaces the top's upper triangle, and V2 the body. Prefetches `ahead` once per reflector.
    pub fn factor<S: Simd>(&mut self, simd: S, top: MatMut<'_, T>, body: MatMut<'_, T>, ahead: Option<&mut Ahead<'_>>) {
        match top.ncols() {
            8 => factor::<T, S, 8>(simd, self, top, body, ahead),
            4 => factor::<T, S, 4>(simd, self, top, body, ahead),
            2 => factor::<T, S, 2>(simd, self, top, body, ahead),
            _ => factor::<T, S, 1>(simd, self, top, body, ahead),
        }
    }

    /// [top; body] <- (I - V T^H V^H) [top; body], with V2 in `v`. Prefetches `ahead` once per group of columns.
    pub fn apply<S: Simd>(
        &self,
        simd: S,
        v: MatMut<'_, T>,
        top: MatMut<'_, T>,
        body: MatMut<'_, T>,
        ahead: Option<&mut Ahead<'_>>,
    ) {
        match v.ncols() {
            8 => apply::<T, S, 8>(simd, self, v, top, body, ahead),
            4 => apply::<T, S, 4>(simd, self, v, top, body, ahead),
            2 => apply::<T, S, 2>(simd, self, v, top, body, ahead),
            _ => apply::<T, S, 1>(simd, self, v, top, body, ahead),
        }
    }
}

/// [`Block::factor`] for `K` columns. In a function of its own, which all factorisations share.
#[inline(never)]
fn factor<T: Scalar, S: Simd, const K: usize>(
    simd: S,
    block: &mut Block<T>,
    top: MatMut<'_, T>,
    body: MatMut<'_, T>,
    ahead: Option<&mut Ahead<'_>>,
) {
    simd.vectorize(
        #[inline(always)]
        || factor_columns::<T, S, K>(Lanes::new(simd), block, top, body, ahead),
    );
}

#[inline(always)]
fn factor_columns<T: Scalar, S: Simd, const K: usize>(
    lanes: Lanes<T, S>,
    block: &mut Block<T>,
    top: MatMut<'_, T>,
    mut body: MatMut<'_, T>,
    mut ahead: Option<&mut Ahead<'_>>,
) {
    assert!(top.ncols() == K && body.ncols() == K && top.nrows() == K);
    let body = Body::of(&mut body);
    let mut of_top = Top::<T, K>::of(top.as_ref(), block.full);
    let mut last = (T::zero_impl(), [T::zero_impl(); K]);
    for j in 0..K {
        if let Some(ahead) = &mut ahead {
            ahead.ask();
        }
        // SAFETY: the body has K columns, and they are borrowed.
        let mut sums = unsafe { pass_at::<T, S, K>(lanes, body, j, last) };
        // SAFETY: likewise.
        let mut column = unsafe { body.column(j) };
        let mut square = of_top.square(j) + square_of_body(column, sums[j]);
        // A column so small that its squares underflow is scaled twice.
        let mut units = [1.0; 2];
        for (k, unit) in units.iter_mut().enumerate() {
            let Some(by) = of_top.rescaling(j, square, k > 0) else { break };
            *unit = by.to_double();
            for i in j..K {
                of_top.p[j][i] = of_top.p[j][i].times(by);
            }
            for x in &mut *column {
                *x = x.times(by);
            }
            for (c, sum) in sums.iter_mut().enumerate() {
                // SAFETY: the body has K columns, which are only read; `column` is not used during the call.
                *sum = unsafe { lanes.dot(body.read_column(j), body.read_column(c)) };
            }
            // SAFETY: as above.
            column = unsafe { body.column(j) };
            square = of_top.square(j) + square_of_body(column, sums[j]);
        }
        last = of_top.reflect(j, &sums, square, units);
    }
    // SAFETY: as above.
    lanes.scal(last.0, unsafe { body.column(K - 1) });
    of_top.end(top, block);
}

/// ||x||^2 of the body's column in double precision. `product` is x^H x in T's precision. If that is not double, the column is read once
/// more.
#[inline(always)]
fn square_of_body<T: Scalar>(body: &[T], product: T) -> f64 {
    if T::IS_DOUBLE { product.to_complex().re } else { sum_of_squares::<Re<T>>(bytemuck::cast_slice(body), 1.0) }
}

/// [`pass`] for column `j` < `K`.
///
/// # Safety
/// As for [`pass`].
#[inline(always)]
unsafe fn pass_at<T: Scalar, S: Simd, const K: usize>(lanes: Lanes<T, S>, body: Body<T>, j: usize, last: (T, [T; K])) -> [T; K] {
    // The conditions keep columns that a panel has not from being compiled.
    // SAFETY: the caller's promise.
    unsafe {
        match j {
            1 if const { K > 1 } => pass::<T, S, K, 1>(lanes, body, last),
            2 if const { K > 2 } => pass::<T, S, K, 2>(lanes, body, last),
            3 if const { K > 3 } => pass::<T, S, K, 3>(lanes, body, last),
            4 if const { K > 4 } => pass::<T, S, K, 4>(lanes, body, last),
            5 if const { K > 5 } => pass::<T, S, K, 5>(lanes, body, last),
            6 if const { K > 6 } => pass::<T, S, K, 6>(lanes, body, last),
            7 if const { K > 7 } => pass::<T, S, K, 7>(lanes, body, last),
            _ => pass::<T, S, K, 0>(lanes, body, last),
        }
    }
}

/// One pass over the body. Column J - 1 is scaled by `scale` to v, and every column y right of it becomes y + `factors` v. The pass returns
/// the products x^H y of column J, x, with all columns y. For J = 0 nothing is updated.
///
/// # Safety
/// The body has `K` columns, and nobody else uses them during the call.
#[inline(always)]
unsafe fn pass<T: Scalar, S: Simd, const K: usize, const J: usize>(
    lanes: Lanes<T, S>,
    body: Body<T>,
    (scale, factors): (T, [T; K]),
) -> [T; K] {
    const { assert!(PADDING.is_multiple_of(Lanes::<T, S>::N)) }
    let Body { at, ld, rows } = body;
    let (scale, mut by) = (lanes.splat(scale), [lanes.zero(); K]);
    for c in 0..K {
        by[c] = lanes.splat(factors[c]);
    }
    let mut sums = [lanes.zero(); K];
    for i in (0..rows).step_by(Lanes::<T, S>::N) {
        // SAFETY: rows i .. of column c < K are inside the body.
        unsafe {
            let mut v = lanes.zero();
            if J > 0 {
                let to = at.add((J - 1) * ld + i);
                v = lanes.mul(scale, lanes.load(to));
                lanes.store(to, v);
            }
            let to = at.add(J * ld + i);
            let mut x = lanes.load(to);
            if J > 0 {
                x = lanes.mul_add(by[J], v, x);
                lanes.store(to, x);
            }
            for c in 0..K {
                let mut y = x;
                if c + 1 == J {
                    y = v;
                } else if c != J {
                    let to = at.add(c * ld + i);
                    y = lanes.load(to);
                    if J > 0 && c > J {
                        y = lanes.mul_add(by[c], v, y);
                        lanes.store(to, y);
                    }
                }
                sums[c] = lanes.conj_mul_add(x, y, sums[c]);
            }
        }
    }
    let mut products = [T::zero_impl(); K];
    for c in 0..K {
        products[c] = lanes.sum(sums[c]);
    }
    products
}

/// [`Block::apply`] of `K` columns. In a function of its own, which all factorisations share.
#[inline(never)]
fn apply<T: Scalar, S: Simd, const K: usize>(
    simd: S,
    block: &Block<T>,
    v: MatMut<'_, T>,
    top: MatMut<'_, T>,
    body: MatMut<'_, T>,
    ahead: Option<&mut Ahead<'_>>,
) {
    simd.vectorize(
        #[inline(always)]
        || apply_columns::<T, S, K>(Lanes::new(simd), block, v, top, body, ahead),
    );
}

#[inline(always)]
fn apply_columns<T: Scalar, S: Simd, const K: usize>(
    lanes: Lanes<T, S>,
    block: &Block<T>,
    mut v: MatMut<'_, T>,
    mut top: MatMut<'_, T>,
    mut body: MatMut<'_, T>,
    mut ahead: Option<&mut Ahead<'_>>,
) {
    assert!(v.ncols() == K && v.nrows() == body.nrows() && top.ncols() == body.ncols() && top.nrows() == K);
    let cols = body.ncols();
    let (v, x) = (Body::of(&mut v), Body::of(&mut body));
    let mut c = 0;
    while c < cols {
        if let Some(ahead) = &mut ahead {
            ahead.ask();
        }
        let left = cols - c;
        let x = Body { at: x.at.wrapping_add(c * x.ld), ..x };
        // SAFETY: V has K columns, X has those of each group, both have the same number of rows, and all are borrowed.
        unsafe {
            match left {
                3.. if const { columns_at_once::<T, S>() == 3 } => {
                    apply_to::<T, S, K, 3>(lanes, block, v, top.rb_mut().subcols_mut(c, 3), x);
                    c += 3;
                }
                2.. if const { columns_at_once::<T, S>() == 2 } => {
                    apply_to::<T, S, K, 2>(lanes, block, v, top.rb_mut().subcols_mut(c, 2), x);
                    c += 2;
                }
                _ => {
                    apply_to::<T, S, K, 1>(lanes, block, v, top.rb_mut().subcols_mut(c, 1), x);
                    c += 1;
                }
            }
        }
    }
}

/// V^H X over the rows of a body, column by column.
///
/// # Safety
/// `v` has `K` columns and `x` has `C`, of the same number of rows, and nobody else uses them during the call.
#[inline(always)]
unsafe fn products_of<T: Scalar, S: Simd, const K: usize, const C: usize>(
    lanes: Lanes<T, S>,
    v: Body<T>,
    x: Body<T>,
) -> [[T; K]; C] {
    let mut sums = [[lanes.zero(); K]; C];
    for i in (0..x.rows).step_by(Lanes::<T, S>::N) {
        // SAFETY: rows i .. are inside the columns of both.
        unsafe {
            let y = x.registers::<S, C>(lanes, i);
            for k in 0..K {
                let v = lanes.load(v.at.add(k * v.ld + i));
                for c in 0..C {
                    sums[c][k] = lanes.conj_mul_add(v, y[c], sums[c][k]);
                }
            }
        }
    }
    let mut products = [[T::zero_impl(); K]; C];
    for c in 0..C {
        for k in 0..K {
            products[c][k] = lanes.sum(sums[c][k]);
        }
    }
    products
}

/// `to` += V^H X over the rows of a body.
#[inline(always)]
pub(crate) fn multiply<T: Scalar, S: Simd>(lanes: Lanes<T, S>, v: MatRef<'_, T>, x: MatRef<'_, T>, mut to: MatMut<'_, T>) {
    assert!(v.nrows() == x.nrows() && to.nrows() == v.ncols() && to.ncols() == x.ncols());
    let (v, x) = (Body::read(v), Body::read(x));
    let mut at = 0;
    while at < to.nrows() {
        let width = width(to.nrows() - at);
        let mut to = to.rb_mut().subrows_mut(at, width);
        let mut c = 0;
        while c < to.ncols() {
            let most = columns_at_once::<T, S>();
            let cols = if to.ncols() - c >= most { most } else { 1 };
            let (v, x) = (Body { at: v.at.wrapping_add(at * v.ld), ..v }, Body { at: x.at.wrapping_add(c * x.ld), ..x });
            let to = to.rb_mut().subcols_mut(c, cols);
            // SAFETY: `width` columns of V from `at` on, and `cols` of X from c on, are borrowed; they are only read. `width` is 8, 4, 2
            // or 1.
            unsafe {
                match width {
                    8 => add_products::<T, S, 8>(lanes, v, x, to),
                    4 => add_products::<T, S, 4>(lanes, v, x, to),
                    2 => add_products::<T, S, 2>(lanes, v, x, to),
                    _ => add_products::<T, S, 1>(lanes, v, x, to),
                }
            }
            c += cols;
        }
        at += width;
    }
}

/// [`multiply`] for `K` columns of V, and as many of X as are multiplied at a time or one.
///
/// # Safety
/// As for [`products_of`].
#[inline(always)]
unsafe fn add_products<T: Scalar, S: Simd, const K: usize>(lanes: Lanes<T, S>, v: Body<T>, x: Body<T>, to: MatMut<'_, T>) {
    // SAFETY: the caller's promise.
    unsafe {
        match to.ncols() {
            3 if const { columns_at_once::<T, S>() == 3 } => add(&products_of::<T, S, K, 3>(lanes, v, x), to),
            2 if const { columns_at_once::<T, S>() == 2 } => add(&products_of::<T, S, K, 2>(lanes, v, x), to),
            _ => add(&products_of::<T, S, K, 1>(lanes, v, x), to),
        }
    }
}

/// `to` += `products`, column by column.
#[inline(always)]
fn add<T: Scalar, const K: usize>(products: &[[T; K]], mut to: MatMut<'_, T>) {
    for c in 0..products.len() {
        for k in 0..K {
            to[(k, c)] += products[c][k];
        }
    }
}

/// What [`Block::apply`] does to column y of the top: y <- y - [I or L] T^H w, with w = V^H [y; x] from the body's part `sums` of it. Returns
/// -T^H w, the factors of V2's columns in the body.
#[inline(always)]
fn apply_to_top<T: Scalar, const K: usize>(block: &Block<T>, sums: &[T; K], mut top: MatMut<'_, T>, c: usize) -> [T; K] {
    let mut y = [T::zero_impl(); K];
    for i in 0..K {
        y[i] = top[(i, c)];
    }
    // W = V^H X, then T^H W.
    let mut w = y;
    for k in 0..K {
        w[k] += sums[k];
        if block.full {
            for i in k + 1..K {
                w[k] += T::conj_impl(&block.l[k][i]) * y[i];
            }
        }
    }
    let mut tw = [T::zero_impl(); K];
    for j in 0..K {
        for k in 0..=j {
            tw[j] += T::conj_impl(&block.t[j][k]) * w[k];
        }
    }
    for k in 0..K {
        y[k] -= tw[k];
        if block.full {
            for i in k + 1..K {
                y[i] -= block.l[k][i] * tw[k];
            }
        }
    }
    for k in 0..K {
        top[(k, c)] = y[k];
        tw[k] = -tw[k];
    }
    tw
}

/// [`Block::apply`] to `C` columns.
///
/// # Safety
/// `v` has `K` columns and `x` has `C`, of the same number of rows, and nobody else uses them during the call.
#[inline(always)]
unsafe fn apply_to<T: Scalar, S: Simd, const K: usize, const C: usize>(
    lanes: Lanes<T, S>,
    block: &Block<T>,
    v: Body<T>,
    mut top: MatMut<'_, T>,
    x: Body<T>,
) {
    // SAFETY: the caller's promise.
    let sums = unsafe { products_of::<T, S, K, C>(lanes, v, x) };
    let mut factors = [[lanes.zero(); K]; C];
    for c in 0..C {
        let of_top = apply_to_top(block, &sums[c], top.rb_mut(), c);
        for k in 0..K {
            factors[c][k] = lanes.splat(of_top[k]);
        }
    }
    for i in (0..x.rows).step_by(Lanes::<T, S>::N) {
        // SAFETY: as above.
        unsafe {
            let mut y = x.registers::<S, C>(lanes, i);
            for k in 0..K {
                let v = lanes.load(v.at.add(k * v.ld + i));
                for c in 0..C {
                    y[c] = lanes.mul_add(factors[c][k], v, y[c]);
                }
            }
            for c in 0..C {
                lanes.store(x.at.add(c * x.ld + i), y[c]);
            }
        }
    }
}
