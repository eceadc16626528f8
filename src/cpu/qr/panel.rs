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

use faer::{MatMut, MatRef, prelude::ReborrowMut, traits::ComplexField};
use pulp::Simd;

use crate::{
    base::{
        number::{Re, RealElement, Scalar},
        registers::Choices,
    },
    cpu::{
        larfg::{reflector, sum_of_squares},
        qr::body::{Body, PADDING},
        simd::lanes::Lanes,
    },
};

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
    /// Reduces columns `j..j + K` to triangular form, and applies their reflectors to the columns right of them.
    fn eliminate<S: Simd, const K: usize>(&mut self, lanes: Lanes<T, S>, j: usize);

    /// Is called after columns `j..j + width` have been eliminated. Does nothing by default.
    #[inline(always)]
    fn eliminated<S: Simd>(&mut self, lanes: Lanes<T, S>, j: usize, width: usize) {
        _ = (lanes, j, width);
    }

    /// Eliminates all `cols` columns.
    #[inline(always)]
    fn in_panels<S: Simd>(&mut self, lanes: Lanes<T, S>, cols: usize) {
        let mut j = 0;
        while j < cols {
            let width = width(cols - j);
            match width {
                8 => self.eliminate::<S, 8>(lanes, j),
                4 => self.eliminate::<S, 4>(lanes, j),
                2 => self.eliminate::<S, 2>(lanes, j),
                _ => self.eliminate::<S, 1>(lanes, j),
            }
            self.eliminated(lanes, j, width);
            j += width;
        }
    }
}

/// I - V T V^H with V = [L; V2] of `K` columns: `l[k][i]` is L(i, k) below the diagonal, `t[j][k]` is T(k, j). V2 replaces the body.
pub(crate) struct Block<T, const K: usize> {
    pub l: [[T; K]; K],
    pub t: [[T; K]; K],
}

/// QR of the `K` columns [top; body]. R replaces the top's upper triangle, and V2 the body. The top is full if `FULL`, else upper
/// triangular. `meanwhile` is called once per reflector.
#[inline(always)]
pub(crate) fn factor<T: Scalar, S: Simd, const K: usize, const FULL: bool>(
    lanes: Lanes<T, S>,
    mut top: MatMut<'_, T>,
    mut body: MatMut<'_, T>,
    mut meanwhile: impl FnMut(),
) -> Block<T, K> {
    assert!(top.ncols() == K && body.ncols() == K && top.nrows() == K);
    let zero = T::zero_impl();
    let body = Body::of(&mut body);
    let mut p = [[zero; K]; K];
    for (c, p) in p.iter_mut().enumerate() {
        p.iter_mut().enumerate().for_each(|(i, p)| *p = top[(i, c)]);
    }
    let mut t = [[T::Wide::zero_impl(); K]; K];
    let mut last = (zero, [zero; K]);
    for j in 0..K {
        meanwhile();
        // SAFETY: the body has K columns, and they are borrowed.
        let mut sums = unsafe { pass_at::<T, S, K>(lanes, body, j, last) };
        // SAFETY: likewise.
        let mut column = unsafe { body.column(j) };
        let mut square = square_below::<T, K, FULL>(&p[j], j, column, sums[j]);
        // Products of a small column would lose digits, so it is scaled; v does not depend on the scale. A column so small that its
        // squares underflow is scaled twice.
        let mut units = [1.0; 2];
        for (k, unit) in units.iter_mut().enumerate() {
            let norm = square + p[j][j].to_complex().norm_sqr();
            if norm >= SMALL_SQUARE.max(Re::<T>::norm_floor().to_double()) || norm == 0.0 && (k > 0 || !T::IS_DOUBLE) {
                break;
            }
            let by = rescaling::<Re<T>>(norm);
            *unit = by.to_double();
            p[j][j..].iter_mut().chain(&mut *column).for_each(|x| *x = x.times(by));
            for (c, sum) in sums.iter_mut().enumerate() {
                // SAFETY: the body has K columns, which are only read; `column` is not used during the call.
                *sum = unsafe { lanes.dot(body.read_column(j), body.read_column(c)) };
            }
            // SAFETY: as above.
            column = unsafe { body.column(j) };
            square = square_below::<T, K, FULL>(&p[j], j, column, sums[j]);
        }
        let h = reflector(p[j][j], square, 1.0);
        let (scale, conj) = (h.scale.to_wide(), T::Wide::conj_impl(&h.scale.to_wide()));
        let tau = h.tau.to_double();

        // v^H y for the columns y right of v, in T's precision. They are updated here in the top, and by the next pass in the body.
        let mut factors = [zero; K];
        for c in j + 1..K {
            let of_top = if FULL { products(&p[j][j + 1..], &p[c][j + 1..]) } else { T::Wide::zero_impl() };
            let product = p[c][j].to_wide() + conj * (of_top + sums[c].to_wide());
            factors[c] = T::from_wide(product.times(-tau));
        }
        // T(0..j, j) = -tau T(0..j, 0..j) (V(:, 0..j)^H v).
        let mut gram = [T::Wide::zero_impl(); K];
        for c in 0..j {
            let of_top = if FULL { products(&p[c][j + 1..], &p[j][j + 1..]) } else { T::Wide::zero_impl() };
            let unit_row = if FULL { T::Wide::conj_impl(&p[c][j].to_wide()) } else { T::Wide::zero_impl() };
            gram[c] = unit_row + scale * (of_top + T::Wide::conj_impl(&sums[c].to_wide()));
        }
        for k in 0..j {
            let sum = (k..j).fold(T::Wide::zero_impl(), |sum, l| sum + t[l][k] * gram[l]);
            t[j][k] = sum.times(-tau);
        }
        t[j][j] = T::from_real_impl(&h.tau).to_wide();

        p[j][j] = T::from_wide(h.beta.to_wide().times(1.0 / units[0]).times(1.0 / units[1]));
        if FULL {
            p[j][j + 1..].iter_mut().for_each(|x| *x *= h.scale);
        }
        for c in j + 1..K {
            p[c][j] += factors[c];
            if FULL {
                for i in j + 1..K {
                    let v = p[j][i];
                    p[c][i] += factors[c] * v;
                }
            }
        }
        last = (h.scale, factors);
    }
    // SAFETY: as above.
    unsafe { pass_at::<T, S, K>(lanes, body, K, last) };

    let mut l = [[zero; K]; K];
    for c in 0..K {
        for i in 0..=c {
            top[(i, c)] = p[c][i];
        }
        l[c][c + 1..].copy_from_slice(&p[c][c + 1..]);
    }
    Block { l, t: t.map(|t| t.map(T::from_wide)) }
}

/// A column is scaled if its squared norm is below this, or so small that squares lose digits.
const SMALL_SQUARE: f64 = f64::from_bits((1023 - 200) << 52);

/// The power of two by which to scale a column whose squared norm is `norm`: to a norm near 1, or far enough for squares not to underflow.
fn rescaling<R: RealElement>(norm: f64) -> R {
    if norm < f64::norm_floor() {
        return R::norm_scale();
    }
    let exponent = (norm.to_bits() >> 52) as i32 - 1023;
    R::from_double(2f64.powi((-exponent / 2).min(R::exponent_limit())))
}

/// ||x||^2 below the diagonal in double precision: of column `p` of the top below row j, and of the body's column. `product` is the body's
/// part in T's precision. If that is not double, the body's column is read once more.
#[inline(always)]
fn square_below<T: Scalar, const K: usize, const FULL: bool>(p: &[T; K], j: usize, body: &[T], product: T) -> f64 {
    let of_top = if FULL { sum_of_squares::<Re<T>>(bytemuck::cast_slice(&p[j + 1..]), 1.0) } else { 0.0 };
    let of_body = if T::IS_DOUBLE { product.to_complex().re } else { sum_of_squares::<Re<T>>(bytemuck::cast_slice(body), 1.0) };
    of_top + of_body
}

/// sum conj(x_i) y_i.
#[inline(always)]
fn products<T: Scalar>(x: &[T], y: &[T]) -> T::Wide {
    x.iter().zip(y).fold(T::Wide::zero_impl(), |sum, (x, y)| sum + T::Wide::conj_impl(&x.to_wide()) * y.to_wide())
}

/// [`pass`] for column `j`.
///
/// # Safety
/// As for [`pass`].
#[inline(always)]
unsafe fn pass_at<T: Scalar, S: Simd, const K: usize>(lanes: Lanes<T, S>, body: Body<T>, j: usize, last: (T, [T; K])) -> [T; K] {
    // SAFETY: the caller's promise.
    unsafe {
        match j {
            0 => pass::<T, S, K, 0>(lanes, body, last),
            1 => pass::<T, S, K, 1>(lanes, body, last),
            2 if K >= 2 => pass::<T, S, K, 2>(lanes, body, last),
            3 if K >= 4 => pass::<T, S, K, 3>(lanes, body, last),
            4 if K >= 4 => pass::<T, S, K, 4>(lanes, body, last),
            5 if K >= 8 => pass::<T, S, K, 5>(lanes, body, last),
            6 if K >= 8 => pass::<T, S, K, 6>(lanes, body, last),
            7 if K >= 8 => pass::<T, S, K, 7>(lanes, body, last),
            8 if K >= 8 => pass::<T, S, K, 8>(lanes, body, last),
            _ => [T::zero_impl(); K],
        }
    }
}

/// One pass over the body. Column J - 1 is scaled by `scale` to v, and every column y right of it becomes y + `factors` v. The pass returns
/// the products x^H y of column J, x, with all columns y. For J = 0 nothing is updated, and for J = `K` no products are computed.
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
            if J == K {
                continue;
            }
            let to = at.add(J * ld + i);
            let mut x = lanes.load(to);
            if J > 0 {
                x = lanes.mul_add(by[J % K], v, x);
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

/// [top; body] <- (I - V T^H V^H) [top; body], with L and T in `block` and V2 in `v`. `meanwhile` is called once per group of columns.
#[inline(always)]
pub(crate) fn apply<T: Scalar, S: Simd, const K: usize, const FULL: bool>(
    lanes: Lanes<T, S>,
    block: &Block<T, K>,
    mut v: MatMut<'_, T>,
    mut top: MatMut<'_, T>,
    mut body: MatMut<'_, T>,
    mut meanwhile: impl FnMut(),
) {
    assert!(v.ncols() == K && v.nrows() == body.nrows() && top.ncols() == body.ncols() && top.nrows() == K);
    let cols = body.ncols();
    let (v, x) = (Body::of(&mut v), Body::of(&mut body));
    let mut c = 0;
    while c < cols {
        meanwhile();
        let left = cols - c;
        let x = Body { at: x.at.wrapping_add(c * x.ld), ..x };
        // SAFETY: V has K columns, X has those of each group, both have the same number of rows, and all are borrowed.
        unsafe {
            let most = columns_at_once::<T, S>().min(left);
            if most >= 3 {
                apply_to::<T, S, K, 3, FULL>(lanes, block, v, top.rb_mut().subcols_mut(c, 3), x);
                c += 3;
            } else if most == 2 {
                apply_to::<T, S, K, 2, FULL>(lanes, block, v, top.rb_mut().subcols_mut(c, 2), x);
                c += 2;
            } else {
                apply_to::<T, S, K, 1, FULL>(lanes, block, v, top.rb_mut().subcols_mut(c, 1), x);
                c += 1;
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

/// `to` += V^H X over the rows of a body. `meanwhile` is called once per group of columns.
#[inline(always)]
pub(crate) fn multiply<T: Scalar, S: Simd>(
    lanes: Lanes<T, S>,
    v: MatRef<'_, T>,
    x: MatRef<'_, T>,
    mut to: MatMut<'_, T>,
    mut meanwhile: impl FnMut(),
) {
    assert!(v.nrows() == x.nrows() && to.nrows() == v.ncols() && to.ncols() == x.ncols());
    let (v, x) = (Body::read(v), Body::read(x));
    let mut at = 0;
    while at < to.nrows() {
        let width = width(to.nrows() - at);
        let mut to = to.rb_mut().subrows_mut(at, width);
        let mut c = 0;
        while c < to.ncols() {
            meanwhile();
            let cols = columns_at_once::<T, S>().min(to.ncols() - c);
            let (v, x) = (Body { at: v.at.wrapping_add(at * v.ld), ..v }, Body { at: x.at.wrapping_add(c * x.ld), ..x });
            let to = to.rb_mut().subcols_mut(c, cols);
            // SAFETY: `width` columns of V from `at` on, and `cols` of X from c on, are borrowed; they are only read. `width` is 8, 4, 2
            // or 1, and `cols` at most 3.
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

/// [`multiply`] for `K` columns of V and at most three of X.
///
/// # Safety
/// As for [`products_of`].
#[inline(always)]
unsafe fn add_products<T: Scalar, S: Simd, const K: usize>(lanes: Lanes<T, S>, v: Body<T>, x: Body<T>, mut to: MatMut<'_, T>) {
    let cols = to.ncols();
    let mut add = |products: &[[T; K]]| {
        for (c, products) in products.iter().enumerate() {
            products.iter().enumerate().for_each(|(k, product)| to[(k, c)] += *product);
        }
    };
    // SAFETY: the caller's promise.
    unsafe {
        match cols {
            3 => add(&products_of::<T, S, K, 3>(lanes, v, x)),
            2 => add(&products_of::<T, S, K, 2>(lanes, v, x)),
            _ => add(&products_of::<T, S, K, 1>(lanes, v, x)),
        }
    }
}

/// [`apply`] to `C` columns.
///
/// # Safety
/// `v` has `K` columns and `x` has `C`, of the same number of rows, and nobody else uses them during the call.
#[inline(always)]
unsafe fn apply_to<T: Scalar, S: Simd, const K: usize, const C: usize, const FULL: bool>(
    lanes: Lanes<T, S>,
    block: &Block<T, K>,
    v: Body<T>,
    mut top: MatMut<'_, T>,
    x: Body<T>,
) {
    let zero = T::zero_impl();
    // SAFETY: the caller's promise.
    let sums = unsafe { products_of::<T, S, K, C>(lanes, v, x) };
    let mut factors = [[lanes.zero(); K]; C];
    for c in 0..C {
        let mut y = [zero; K];
        y.iter_mut().enumerate().for_each(|(i, y)| *y = top[(i, c)]);
        // W = V^H X, then T^H W.
        let mut w = y;
        for k in 0..K {
            w[k] += sums[c][k];
            if FULL {
                for i in k + 1..K {
                    w[k] += T::conj_impl(&block.l[k][i]) * y[i];
                }
            }
        }
        let mut tw = [zero; K];
        for j in 0..K {
            for k in 0..=j {
                tw[j] += T::conj_impl(&block.t[j][k]) * w[k];
            }
        }
        for k in 0..K {
            y[k] -= tw[k];
            factors[c][k] = lanes.splat(-tw[k]);
            if FULL {
                for i in k + 1..K {
                    y[i] -= block.l[k][i] * tw[k];
                }
            }
        }
        y.iter().enumerate().for_each(|(i, y)| top[(i, c)] = *y);
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
