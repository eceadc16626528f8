//! Householder reflectors as in LAPACK's `larfg`, but with a real tau. H is Hermitian, and beta is complex if alpha is.

use faer::traits::ComplexField;
use num_complex::Complex;
use num_traits::{Float, One};

use crate::base::number::{Re, RealElement, Scalar};

/// H = I - tau v v^H with v_0 = 1 and H x = beta e_1.
pub(crate) struct ReflectorScalars<T: Scalar> {
    pub beta: T,
    pub tau: Re<T>,
    /// The tail of v is `scale` times the tail of x: 1 / (alpha - beta).
    pub scale: T,
}

/// The reflector of x = (alpha, tail): beta = -sign(alpha) ||x||, sign(alpha) = alpha / |alpha|. A zero tail gives tau = 0 and beta =
/// alpha.
///
/// tau is 2 / (v^H v) for the v that the rounded `scale` gives, not (beta - alpha) / beta. The rounding of `scale` then does not make H
/// less orthogonal. The scalars and the sum of squares are f64 for every type: an error in them is common to all columns that H is
/// applied to, and would not average out. If the sum is so small that squares have lost digits, it is recomputed from scaled entries, as
/// LAPACK does.
#[inline(always)]
pub(crate) fn larfg<T: Scalar>(alpha: T, tail: &[T]) -> ReflectorScalars<T> {
    let tail: &[Re<T>] = bytemuck::cast_slice(tail);
    let mut square = sum_of_squares(tail, 1.0);
    let mut unit = 1.0;
    if square < f64::norm_floor() {
        unit = 1.0 / f64::norm_scale();
        square = sum_of_squares(tail, f64::norm_scale());
    }
    reflector(alpha, square, unit)
}

/// H = I.
#[inline(always)]
fn none<T: Scalar>(alpha: T) -> ReflectorScalars<T> {
    ReflectorScalars { beta: alpha, tau: Re::<T>::zero_impl(), scale: T::zero_impl() }
}

/// [`larfg`] of a tail x with sum |x_i / unit|^2 = `square`.
#[inline(always)]
pub(crate) fn reflector<T: Scalar>(alpha: T, square: f64, unit: f64) -> ReflectorScalars<T> {
    if square == 0.0 {
        return none(alpha);
    }
    let (modulus, sign) = polar::<T>(alpha);
    // (||x|| / unit)^2. If it overflows for a finite tail, the tail is negligible beside alpha, and the norm is |alpha|. If the tail is not
    // finite, neither is the norm.
    let scaled_square = (modulus / unit) * (modulus / unit) + square;
    let norm = if scaled_square.is_finite() {
        scaled_square.sqrt() * unit
    } else if square.is_finite() {
        modulus
    } else {
        square
    };
    if norm < Re::<T>::min_positive_value().to_double() {
        return none(alpha); // 1 / norm would overflow; such an x is negligible beside entries near 1
    }
    let scale = T::from_complex(sign.conj() / (modulus + norm));
    let rounded = scale.to_complex() * unit;
    let tau = 2.0 / (1.0 + square * rounded.norm_sqr());
    ReflectorScalars { beta: T::from_complex(-sign * norm), tau: Re::<T>::from_double(tau), scale }
}

/// |alpha| and alpha / |alpha| (1 for zero).
#[inline(always)]
fn polar<T: Scalar>(alpha: T) -> (f64, Complex<f64>) {
    let alpha = alpha.to_complex();
    if !T::IS_COMPLEX {
        return (alpha.re.abs(), Complex::new(1f64.copysign(alpha.re), 0.0));
    }
    let modulus = alpha.norm();
    if modulus == 0.0 {
        return (modulus, Complex::one());
    }
    // The modulus of a subnormal number has few digits. Scaling alpha restores them for the quotient.
    let (alpha, length) = if modulus < f64::norm_floor() {
        (alpha * f64::norm_scale(), (alpha * f64::norm_scale()).norm())
    } else {
        (alpha, modulus)
    };
    (modulus, alpha / length)
}

/// sum (factor x_i)^2 in f64. A long x has 16 partial sums, which the compiler keeps in registers.
#[inline(always)]
pub(crate) fn sum_of_squares<R: RealElement>(x: &[R], factor: f64) -> f64 {
    const LANES: usize = 16;
    let with = |sum: f64, x: &R| sum + (factor * x.to_double()) * (factor * x.to_double());
    if x.len() < LANES / 2 {
        return x.iter().fold(0.0, with);
    }
    let mut sums = [0.0; LANES];
    let runs = x.chunks_exact(LANES);
    let rest = runs.remainder();
    let mut add = |run: &[R]| sums.iter_mut().zip(run).for_each(|(sum, x)| *sum = with(*sum, x));
    runs.for_each(&mut add);
    add(rest);
    for half in [8, 4, 2, 1] {
        let (low, high) = sums.split_at_mut(half);
        low.iter_mut().zip(high).for_each(|(low, high)| *low += *high);
    }
    sums[0]
}

#[cfg(test)]
mod tests {
    use num_traits::Zero;

    use super::*;

    /// H x = beta e_1 and H^H H = I, for real and complex x whose parts lie anywhere in the type's range.
    ///
    /// Bounds: 8 eps of f64 for both (four entries, two or three roundings each). A tail below the smallest normal number may give H = I.
    fn reflects<T: Scalar>(x: [Complex<f64>; 4]) {
        let x = x.map(T::from_complex);
        let h = larfg(x[0], &x[1..]);
        let (beta, tau) = (h.beta.to_complex(), h.tau.to_double());
        let norm = x.iter().map(|x| x.to_complex().norm()).fold(0.0, f64::hypot);
        if tau == 0.0 {
            assert!(x[1..].iter().all(|x| x.to_complex().norm() < f64::MIN_POSITIVE) && beta == x[0].to_complex());
            return;
        }
        let mut v = x.map(|x| x.to_complex() * h.scale.to_complex());
        v[0] = Complex::one();
        let squares: f64 = v.iter().map(|v| v.norm_sqr()).sum();
        assert!((tau * squares - 2.0).abs() <= 8.0 * f64::EPSILON, "tau v^H v = {}", tau * squares);
        assert!((beta.norm() / norm - 1.0).abs() <= 8.0 * f64::EPSILON, "|beta| {} for {norm}", beta.norm());
        let dot: Complex<f64> = v.iter().zip(&x).map(|(v, x)| v.conj() * (x.to_complex() / norm)).sum();
        for (k, (v, x)) in v.iter().zip(&x).enumerate() {
            let want = if k == 0 { beta / norm } else { Complex::zero() };
            let off = (x.to_complex() / norm - v * dot * tau - want).norm();
            assert!(off <= 8.0 * f64::EPSILON, "entry {k}: {off:e}");
        }
    }

    #[test]
    fn reflectors_reflect() {
        let sizes = [1.0, 1e-160, 1e-300, 1e-320, 0.0, 1e150];
        for (first, others) in sizes.into_iter().flat_map(|a| sizes.map(|b| (a, b))) {
            let x = [Complex::new(0.3, -0.4), Complex::new(-0.7, 0.1), Complex::new(0.0, 0.9), Complex::new(0.2, 0.0)];
            let x = std::array::from_fn(|k| x[k] * if k == 0 { first } else { others });
            reflects::<f64>(x);
            reflects::<Complex<f64>>(x);
            reflects::<f64>(x.map(|x| -x));
        }
    }

    /// A NaN or an infinity in x makes beta non-finite, whatever the size of alpha. Nothing else checks for it.
    #[test]
    fn what_is_not_finite_shows() {
        for alpha in [0.0, 1e-300, 1.0, 1e300] {
            for x in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                assert!(!larfg(alpha, &[0.0, x, 1.0]).beta.is_finite());
                assert!(!larfg(x, &[0.0, alpha]).beta.is_finite());
                assert!(!larfg(Complex::new(alpha, 0.0), &[Complex::new(0.0, x)]).beta.is_finite());
            }
        }
    }
}
