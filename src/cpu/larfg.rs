//! Householder reflectors as LAPACK's `larfg` makes them.

use crate::scalar::RealElement;

/// H = I - tau v v^T with v_0 = 1 and H x = beta e_1.
pub(super) struct Reflector<R> {
    pub beta: R,
    pub tau: R,
    /// What to multiply the tail of x with to get the tail of v: 1 / (alpha - beta).
    pub scale: R,
}

/// The reflector of x = (alpha, tail). beta = -sign(alpha) ||x||; a zero tail gives tau = 0, beta = alpha.
///
/// tau is 2 / (v^T v) for the v that `scale` really gives, and not (beta - alpha) / beta: the rounding of `scale` then does not make H
/// less orthogonal. The scalars and the sum of squares are f64 for every type: an error in them is common to all columns that H is
/// applied to, and would not average out. A sum so small that squares have lost digits is made again from scaled entries, as `larfg` does.
#[inline(always)]
pub(super) fn larfg<R: RealElement>(alpha: R, tail: &[R]) -> Reflector<R> {
    let none = Reflector { beta: alpha, tau: R::zero_impl(), scale: R::zero_impl() };
    let mut square = sum_of_squares(tail, 1.0);
    let mut unit = 1.0;
    if square < f64::norm_floor() {
        unit = 1.0 / f64::norm_scale();
        square = sum_of_squares(tail, f64::norm_scale());
        if square == 0.0 {
            return none;
        }
    }
    // ||x|| / unit; an alpha whose scaled square overflows is so much larger than the tail that it is the norm.
    let alpha = alpha.to_double();
    let scaled_square = (alpha / unit) * (alpha / unit) + square;
    let norm = if scaled_square.is_finite() { scaled_square.sqrt() * unit } else { alpha.abs() };
    if norm < R::min_positive_value().to_double() {
        return none; // nothing that a sum with entries near 1 could see, and its reciprocal would overflow
    }
    let beta = R::from_double(if alpha.is_sign_negative() { norm } else { -norm });
    let scale = R::from_double(1.0 / (alpha - beta.to_double()));
    let unit_scale = unit * scale.to_double();
    Reflector { beta, tau: R::from_double(2.0 / (1.0 + square * unit_scale * unit_scale)), scale }
}

/// sum (factor x_i)^2 in f64.
#[inline(always)]
fn sum_of_squares<R: RealElement>(x: &[R], factor: f64) -> f64 {
    sum_of_products(x, x, |x, y| (factor * x) * (factor * y))
}

/// x^T y in f64.
#[inline(always)]
pub(super) fn wide_dot<R: RealElement>(x: &[R], y: &[R]) -> f64 {
    sum_of_products(x, y, |x, y| x * y)
}

/// sum of `product(x_i, y_i)`, many partial sums at once so that they are registers.
#[inline(always)]
fn sum_of_products<R: RealElement>(x: &[R], y: &[R], product: impl Fn(f64, f64) -> f64) -> f64 {
    const LANES: usize = 16;
    let mut sums = [0.0; LANES];
    let (xs, ys) = (x.chunks_exact(LANES), y.chunks_exact(LANES));
    let rest = xs.remainder().iter().zip(ys.remainder());
    for (x, y) in xs.zip(ys) {
        for ((sum, x), y) in sums.iter_mut().zip(x).zip(y) {
            *sum += product(x.to_double(), y.to_double());
        }
    }
    for (sum, (x, y)) in sums.iter_mut().zip(rest) {
        *sum += product(x.to_double(), y.to_double());
    }
    sums.iter().sum()
}
