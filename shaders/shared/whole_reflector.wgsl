// The reflector of at most 32 entries, by every thread for itself. Twin: src/cpu/larfg.rs.
//
// H = I - tau v v^H with v = x - beta e_1 = (h, t) and tau = 2 / (|h|^2 + ||t||^2), so that no entry of v is rounded but h, and H is unitary
// for whatever h is. In f32 the sums of squares have hardly a rounding error: a power of two scales the entries to less than 2^12, and x^2 is q^2,
// a sum of which is one of integers, and r (q + x), for the nearest integer q of x and r = x - q. In f64 plain sums are accurate enough, as in `pair`.

import package::pair::{Pair, exact_square, opaque, pair_product, root, two_over, two_over_one_plus};
import package::reflector::{Squares, add_square, opposite, reciprocal};
import package::scalar::{Real, Scalar, Scalar4, ONE, lanes, magnitudes4, scaled4, with_lane};
import package::tuning::{VECTORS, NORM_FLOOR, NORM_SCALE};

/// H x = beta e_1. Zero tau: H = I.
struct WholeReflector {
    beta: Scalar,
    tau: Pair,
    /// A power of two, h times it, and ||t||^2 times its square.
    scale: Real,
    h: Scalar,
    tail: Pair,
}

/// x with zero in place of alpha, and zeros after its end; then v, times a power of two.
var<private> v: array<Scalar4, VECTORS>;

/// A sum of squares: that of q^2, and the rest.
@if(!f64)
struct Square {
    whole: u32,
    rest: f32,
}

/// 1.5 2^23: a number below 2^22 in modulus plus this has the nearest integer in its last bits, above those of this.
@if(!f64) const SHIFT = 12582912.0;
@if(!f64) const SHIFT_BITS = 1262485504u;

/// Adds x^2. With 63 numbers |x| < 2^12 and two below 2^15 the sum does not overflow.
@if(!f64)
fn add_number(sum: Square, x: f32) -> Square {
    let shifted = opaque(x + SHIFT);
    let nearest = opaque(shifted - SHIFT);
    let q = bitcast<i32>(bitcast<u32>(shifted) - SHIFT_BITS);
    return Square(sum.whole + u32(q * q), fma(x - nearest, nearest + x, sum.rest));
}

/// Adds |x|^2.
@if(!f64)
fn add_modulus(sum: Square, x: Scalar) -> Square {
    @if(complex) return add_number(add_number(sum, x.x), x.y);
    @else return add_number(sum, x);
}

@if(!f64)
fn both(a: Square, b: Square) -> Square {
    return Square(a.whole + b.whole, a.rest + b.rest);
}

/// The sum of squares, as a number of 24 bits and what it is off.
@if(!f64)
fn total(sum: Square) -> Pair {
    let shifted = opaque(sum.rest + SHIFT);
    let whole = sum.whole + (bitcast<u32>(shifted) - SHIFT_BITS);
    let places = 8u - min(countLeadingZeros(whole), 8u);
    let upper = f32((whole >> places) << places);
    let lower = f32(whole & ((1u << places) - 1u));
    return Pair(upper, lower + opaque(sum.rest - opaque(shifted - SHIFT)));
}

/// ||t||^2 of the entries of v.
@if(f64)
fn square_of_tail() -> Real {
    var sum = Squares();
    @repeat(Q, VECTORS) {
        let four = lanes(v[Q]);
        sum = add_square(add_square(add_square(add_square(sum, four.x), four.y), four.z), four.w);
    }
    return sum.plain;
}

/// The reflector of (alpha, t), whose t is in v. In f32, entries below 2^-107 give H = I: they are negligible beside entries near 1.
fn whole_reflector(alpha: Scalar) -> WholeReflector {
    @if(f64) {
        var scale = Real(1.0);
        var tail = square_of_tail();
        if add_square(Squares(tail, Real()), alpha).plain < NORM_FLOOR {
            scale = NORM_SCALE;
            @repeat(Q, VECTORS) v[Q] = scaled4(v[Q], scale);
            tail = square_of_tail();
        }
        if tail == Real() {
            return WholeReflector(alpha, Pair(), Real(1.0), ONE, Pair());
        }
        let top = alpha * scale;
        let length = sqrt(add_square(Squares(tail, Real()), top).plain);
        let beta = opposite(top, length);
        let h = top - beta;
        v[0] = with_lane(v[0], 0u, h);
        let tau = Pair(Real(2.0) / add_square(Squares(tail, Real()), h).plain, Real());
        return WholeReflector(beta / scale, tau, scale, h, Pair(tail, Real()));
    }
    @else {
        @if(complex) var largest = vec4<Real>(max(abs(alpha.x), abs(alpha.y)));
        @else var largest = vec4<Real>(abs(alpha));
        @repeat(Q, VECTORS) largest = max(largest, magnitudes4(v[Q]));
        let exponent = bitcast<u32>(max(max(largest.x, largest.y), max(largest.z, largest.w))) >> 23u;
        let known = clamp(exponent, 20u, 254u);
        // The largest entry becomes less than 2^12, and parts of complex ones less than 2^11.
        @if(complex) let places = 264u;
        @else let places = 265u;
        let scale = select(0.0, bitcast<f32>((places - known) << 23u), exponent >= 20u);
        let back = bitcast<f32>((known + 254u - places) << 23u);
        // Four sums of few entries each, which wait less for one another than one.
        var sums = array<Square, 4>();
        @repeat(Q, VECTORS) {
            v[Q] = scaled4(v[Q], scale);
            let four = lanes(v[Q]);
            sums[0] = add_modulus(sums[0], four.x);
            sums[1] = add_modulus(sums[1], four.y);
            sums[2] = add_modulus(sums[2], four.z);
            sums[3] = add_modulus(sums[3], four.w);
        }
        let tail = both(both(sums[0], sums[1]), both(sums[2], sums[3]));
        if tail.whole == 0u && tail.rest == 0.0 {
            return WholeReflector(alpha, Pair(), Real(1.0), ONE, Pair());
        }
        let top = alpha * scale;
        // h may be rounded, beta may not.
        let all = add_modulus(tail, top);
        let h = top - opposite(top, sqrt(f32(all.whole) + all.rest));
        v[0] = with_lane(v[0], 0u, h);
        let tau = two_over(total(add_modulus(tail, h)));
        return WholeReflector(opposite(top, root(total(all))) * back, tau, scale, h, total(tail));
    }
}

/// What v is divided by to have v_0 = 1, and tau for the v whose other entries are the quotients.
struct Kept {
    inverse: Scalar,
    tau: Real,
}

fn kept_as(full: WholeReflector) -> Kept {
    if full.tau.hi == Real() {
        return Kept(Scalar(), Real());
    }
    let inverse = reciprocal(full.h, sqrt(exact_square(full.h).hi));
    return Kept(inverse, two_over_one_plus(pair_product(full.tail, exact_square(inverse))).hi);
}
