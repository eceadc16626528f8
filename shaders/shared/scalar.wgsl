// The element type, and Householder reflectors as LAPACK's larfg makes them.

import package::pair::{Pair, add, exact_product, root};
import package::tuning::{NORM_FLOOR, NORM_SCALE, NORM_CLAMP, SMALLEST_NORMAL};

@if(f64) alias Real = f64;
@else alias Real = f32;
/// Four neighbours, for 16-byte (f32) or 32-byte (f64) loads.
@if(f64) alias Real4 = vec4<f64>;
@else alias Real4 = vec4<f32>;

/// H = I - tau v v^T with v_0 = 1, v_i = inverse * x_i for i > 0, and H x = beta e_1.
struct Reflector {
    beta: Real,
    inverse: Real,
}

/// Sums of squares: plain, and of entries scaled up so far that squares cannot underflow where it matters.
struct Squares {
    plain: Real,
    scaled: Real,
}

/// Adds x^2. The clamp acts only where the plain sum is used.
fn add_square(sum: Squares, x: Real) -> Squares {
    let y = clamp(x, -NORM_CLAMP, NORM_CLAMP) * NORM_SCALE;
    return Squares(sum.plain + x * x, sum.scaled + y * y);
}

/// The square root of a sum of squares.
fn norm(sum: Squares) -> Real {
    if sum.plain < NORM_FLOOR {
        return sqrt(sum.scaled) / NORM_SCALE;
    }
    return sqrt(sum.plain);
}

/// The reflector of x = (alpha, tail), beta = -sign(alpha) ||x||, but for its tau: 2 / (v^T v) for the v that `inverse` really gives,
/// which keeps H orthogonal whatever the rounding of `inverse`. inverse = 0 for a tail that is zero (or so small that 1 / norm
/// overflows, where a sum with entries near 1 could not see it): then tau = 0 and H = I. `plain` is tail.plain, as accurate as known.
fn larfg(alpha: Real, tail: Squares, plain: Pair) -> Reflector {
    let tail_norm = norm(tail);
    if tail_norm < SMALLEST_NORMAL {
        return Reflector(alpha, Real(0.0));
    }
    let square = exact_product(alpha, alpha);
    let sum = add(square, plain.hi);
    var length = root(Pair(sum.hi, sum.lo + plain.lo));
    if tail.plain < NORM_FLOOR {
        // The squares have lost digits; the quotient of the norms has not.
        let larger = max(abs(alpha), tail_norm);
        let ratio = min(abs(alpha), tail_norm) / larger;
        length = larger * sqrt(Real(1.0) + ratio * ratio);
    }
    let beta = select(length, -length, alpha >= Real(0.0));
    return Reflector(beta, Real(1.0) / (alpha - beta));
}
