//! The top of a panel: the scalars of its reflectors, and T.

#![allow(clippy::needless_range_loop, reason = "loops of constant length over several arrays, which are unrolled")]

use faer::{MatMut, MatRef, traits::ComplexField};

use super::Block;
use crate::{
    base::number::{Re, RealElement, Scalar},
    cpu::larfg::{reflector, sum_of_squares},
};

/// The top of a panel of `K` columns, column by column, and T in double precision. What is computed here takes no registers of elements, and is compiled
/// once for all instruction sets.
pub(super) struct Top<T: Scalar, const K: usize> {
    full: bool,
    pub p: [[T; K]; K],
    t: [[T::Wide; K]; K],
}

impl<T: Scalar, const K: usize> Top<T, K> {
    pub fn of(top: MatRef<'_, T>, full: bool) -> Self {
        let mut p = [[T::zero_impl(); K]; K];
        for c in 0..K {
            for i in 0..K {
                p[c][i] = top[(i, c)];
            }
        }
        Top { full, p, t: [[T::Wide::zero_impl(); K]; K] }
    }

    /// R goes to the top's upper triangle, L and T to `block`.
    pub fn end(&self, mut top: MatMut<'_, T>, block: &mut Block<T>) {
        for c in 0..K {
            for i in 0..=c {
                top[(i, c)] = self.p[c][i];
            }
            for i in c + 1..K {
                block.l[c][i] = self.p[c][i];
            }
            for i in 0..K {
                block.t[c][i] = T::from_wide(self.t[c][i]);
            }
        }
    }

    /// ||x||^2 of column j below the diagonal.
    #[inline(always)]
    pub fn square(&self, j: usize) -> f64 {
        if self.full { sum_of_squares::<Re<T>>(bytemuck::cast_slice(&self.p[j][j + 1..]), 1.0) } else { 0.0 }
    }

    /// Products of a small column would lose digits, so it is scaled; v does not depend on the scale. Returns the scale where `square` is
    /// ||x||^2 below the diagonal, or None if the column needs none. `again`: it has been scaled once.
    #[inline(always)]
    pub fn rescaling(&self, j: usize, square: f64, again: bool) -> Option<Re<T>> {
        let norm = square + self.p[j][j].to_complex().norm_sqr();
        let large = norm >= SMALL_SQUARE.max(Re::<T>::norm_floor().to_double()) || norm == 0.0 && (again || !T::IS_DOUBLE);
        if large { None } else { Some(rescaling::<Re<T>>(norm)) }
    }

    /// Applies the reflector of column j to the top, and computes its column of T, from the body's products x^H y with all columns y, and from
    /// ||x||^2 below the diagonal. x has been multiplied by `units`. Returns the scale of the body's x, and for each column right of it the factor of v
    /// that is to be added.
    #[inline(never)]
    pub fn reflect(&mut self, j: usize, sums: &[T; K], square: f64, units: [f64; 2]) -> (T, [T; K]) {
        let Top { full, ref mut p, ref mut t } = *self;
        let h = reflector(p[j][j], square, 1.0);
        let (scale, conj) = (h.scale.to_wide(), T::Wide::conj_impl(&h.scale.to_wide()));
        let tau = h.tau.to_double();

        // v^H y for the columns y right of v, in T's precision. They are updated here in the top, and by the next pass in the body.
        let mut factors = [T::zero_impl(); K];
        for c in j + 1..K {
            let of_top = if full { products(&p[j], &p[c], j + 1) } else { T::Wide::zero_impl() };
            let product = p[c][j].to_wide() + conj * (of_top + sums[c].to_wide());
            factors[c] = T::from_wide(product.times(-tau));
        }
        // T(0..j, j) = -tau T(0..j, 0..j) (V(:, 0..j)^H v).
        let mut gram = [T::Wide::zero_impl(); K];
        for c in 0..j {
            let of_top = if full { products(&p[c], &p[j], j + 1) } else { T::Wide::zero_impl() };
            let unit_row = if full { T::Wide::conj_impl(&p[c][j].to_wide()) } else { T::Wide::zero_impl() };
            gram[c] = unit_row + scale * (of_top + T::Wide::conj_impl(&sums[c].to_wide()));
        }
        for k in 0..j {
            let mut sum = T::Wide::zero_impl();
            for l in k..j {
                sum += t[l][k] * gram[l];
            }
            t[j][k] = sum.times(-tau);
        }
        t[j][j] = T::from_real_impl(&h.tau).to_wide();

        p[j][j] = T::from_wide(h.beta.to_wide().times(1.0 / units[0]).times(1.0 / units[1]));
        if full {
            for i in j + 1..K {
                p[j][i] *= h.scale;
            }
        }
        for c in j + 1..K {
            p[c][j] += factors[c];
            if full {
                for i in j + 1..K {
                    let v = p[j][i];
                    p[c][i] += factors[c] * v;
                }
            }
        }
        (h.scale, factors)
    }
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

/// sum conj(x_i) y_i from entry `first` on.
#[inline(always)]
fn products<T: Scalar, const K: usize>(x: &[T; K], y: &[T; K], first: usize) -> T::Wide {
    let mut sum = T::Wide::zero_impl();
    for i in first..K {
        sum += T::Wide::conj_impl(&x[i].to_wide()) * y[i].to_wide();
    }
    sum
}
