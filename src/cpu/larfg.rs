//! Householder reflectors as LAPACK's `larfg` makes them.

use num_traits::{Float, One, Zero};
use pulp::Simd;

use super::lanes::Lanes;
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
/// The sum of squares of a tail so small that squares lose accuracy is made again from scaled entries, as `larfg` does. tau is
/// 2 / (v^T v) for the v that `scale` really gives, and not (beta - alpha) / beta: the rounding of `scale` then does not make H less
/// orthogonal. The few scalars are f64 for every type.
#[inline(always)]
pub(super) fn larfg<R: RealElement, S: Simd>(lanes: Lanes<R, S>, alpha: R, tail: &[R]) -> Reflector<R> {
    let none = Reflector { beta: alpha, tau: <R as Zero>::zero(), scale: <R as Zero>::zero() };
    let mut square: R = lanes.dot(tail, tail);
    let mut unit = <R as One>::one();
    if square < R::norm_floor() {
        let up = R::norm_scale();
        unit = Float::recip(up);
        square = tail.iter().fold(<R as Zero>::zero(), |sum, &x| sum + x * up * (x * up));
        if square == <R as Zero>::zero() {
            return none;
        }
    }
    // ||x|| / unit; an alpha whose scaled square overflows is so much larger than the tail that it is the norm.
    let (scaled_alpha, square) = (alpha.to_double() / unit.to_double(), square.to_double());
    let scaled_square = scaled_alpha * scaled_alpha + square;
    let norm = if scaled_square.is_finite() { scaled_square.sqrt() * unit.to_double() } else { alpha.to_double().abs() };
    if norm < R::min_positive_value().to_double() {
        return none; // nothing that a sum with entries near 1 could see, and its reciprocal would overflow
    }
    let beta = R::from_double(if Float::is_sign_negative(alpha) { norm } else { -norm });
    let scale = R::from_double(1.0 / (alpha.to_double() - beta.to_double()));
    let unit_scale = unit.to_double() * scale.to_double();
    Reflector { beta, tau: R::from_double(2.0 / (1.0 + square * unit_scale * unit_scale)), scale }
}
