// Householder reflectors as in LAPACK's larfg, but with a real tau for complex entries too, so that H = H^H. Twin: src/cpu/larfg.rs.

import package::pair::{Pair, add, exact_square, opaque, opaque4, quotient, root};
import package::scalar::{Real, Scalar, Scalar4, ONE, conjugate};
import package::tuning::{NORM_FLOOR, NORM_SCALE, NORM_CLAMP, SMALLEST_NORMAL};

/// H = I - tau v v^H with v_0 = 1, v_i = inverse * x_i for i > 0, and H x = beta e_1.
struct Reflector {
    beta: Scalar,
    inverse: Scalar,
}

/// Sums of squares: of the entries, and of scaled entries, whose squares do not underflow where it matters.
struct Squares {
    plain: Real,
    scaled: Real,
}

/// Adds |x|^2.
fn add_square(sum: Squares, x: Scalar) -> Squares {
    @if(complex) return add_real_square(add_real_square(sum, x.x), x.y);
    @else return add_real_square(sum, x);
}

/// Adds x^2. The clamp changes only entries so large that the plain sum is used. (`opaque`: NORM_SCALE^2 would overflow.)
fn add_real_square(sum: Squares, x: Real) -> Squares {
    let y = opaque(clamp(x, -NORM_CLAMP, NORM_CLAMP) * NORM_SCALE);
    return Squares(sum.plain + x * x, sum.scaled + y * y);
}

/// The entries whose squares are in `Squares::scaled`.
fn scaled_for_norm(x: Scalar4) -> Scalar4 {
    let most = vec4<Real>(NORM_CLAMP);
    @if(complex) return Scalar4(opaque4(clamp(x.xy, -most, most) * NORM_SCALE), opaque4(clamp(x.zw, -most, most) * NORM_SCALE));
    @else return opaque4(clamp(x, -most, most) * NORM_SCALE);
}

/// The square root of a sum of squares.
fn norm(sum: Squares) -> Real {
    if sum.plain < NORM_FLOOR {
        return sqrt(sum.scaled) / NORM_SCALE;
    }
    return sqrt(sum.plain);
}

/// |x|
fn modulus(x: Scalar) -> Real {
    @if(complex) {
        let sum = add_square(Squares(), x);
        if sum.plain < NORM_FLOOR {
            return norm(sum);
        }
        return root(exact_square(x));
    }
    @else return abs(x);
}

/// -(x / |x|) length, for |x| <= length. If |x| is negligible beside length, or zero, the phase x / |x| is taken to be 1.
fn opposite(x: Scalar, length: Real) -> Scalar {
    @if(complex) {
        let part = x / length;
        let square = exact_square(part);
        if square.hi < NORM_FLOOR {
            return -length * ONE;
        }
        // The rounding of `part` changes its phase slightly, which is harmless. The modulus must be accurate.
        return -quotient(length, root(square)) * part;
    }
    @else return select(length, -length, x >= Real(0.0));
}

/// 1 / x, for length <= |x| <= 2 length.
fn reciprocal(x: Scalar, length: Real) -> Scalar {
    @if(complex) {
        let part = x / length;
        return conjugate(part) / ((part.x * part.x + part.y * part.y) * length);
    }
    @else return Real(1.0) / x;
}

/// The reflector of x = (alpha, tail), beta = -(alpha / |alpha|) ||x||, without its tau. The caller computes tau = 2 / (v^H v) for the v
/// that the rounded `inverse` gives. H is then unitary whatever the rounding of `inverse` and of beta's phase. For a zero tail inverse = 0;
/// then tau = 0 and H = I. The same holds for a tail so small that 1 / norm overflows, which is negligible beside entries near 1. `plain`
/// is the most accurate known value of tail.plain.
fn larfg(alpha: Scalar, tail: Squares, plain: Pair) -> Reflector {
    let tail_norm = norm(tail);
    if tail_norm < SMALLEST_NORMAL {
        return Reflector(alpha, Scalar());
    }
    let square = exact_square(alpha);
    let sum = add(square, plain.hi);
    var length = root(Pair(sum.hi, sum.lo + plain.lo));
    // The length without a correction: v need not be as accurate as beta, and is known earlier.
    var near = sqrt(sum.hi);
    if tail.plain < NORM_FLOOR {
        // The squares have lost digits to underflow, but the quotient of the norms has not.
        let size = modulus(alpha);
        let larger = max(size, tail_norm);
        let ratio = min(size, tail_norm) / larger;
        length = larger * sqrt(Real(1.0) + ratio * ratio);
        near = length;
    }
    let beta = opposite(alpha, length);
    @if(complex) return Reflector(beta, reciprocal(alpha - beta, length));
    @else return Reflector(beta, reciprocal(alpha - opposite(alpha, near), near));
}
