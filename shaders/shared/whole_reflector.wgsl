// The reflector of at most 32 entries, by every thread for itself. Twin: src/cpu/larfg.rs.
//
// H = I - tau v v^H with v = x - beta e_1 = (h, t) and tau = 2 / (|h|^2 + ||t||^2), so that no entry of v is rounded but h, and H is unitary
// for whatever h is. In f32 the sums of squares have hardly a rounding error: a power of two scales the entries to less than 2^12, and x is q + r / 8192
// with integers q and r, so that x^2 is a sum of integers. Such sums have no order: they may be of one thread (`whole_reflector`), or, if
// `subgroups`, of the threads that have an entry each (`tail_of`), with the same bits. In f64 plain sums are accurate enough, as in `pair`.

import package::pair::{Pair, exact_square, opaque, pair_product, root, two_over, two_over_one_plus};
import package::reflector::{Squares, add_square, opposite, reciprocal};
import package::scalar::{Real, Scalar, Scalar4, ONE, lanes, magnitudes4, scaled4};
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

/// The sum of the squares of q + r / 8192: the sums of q^2, q r and r^2.
@if(!f64)
struct Square {
    whole: u32,
    cross: i32,
    rest: u32,
}

/// The power of two that v is scaled by, and ||t||^2 times its square.
@if(f64) struct Tail {
    scale: Real,
    square: Real,
}
@else struct Tail {
    scale: f32,
    square: Square,
}

/// x with zero in place of alpha, and zeros after its end; then v, times a power of two.
@if(!subgroups) var<private> v: array<Scalar4, VECTORS>;

/// 1.5 2^23: a number below 2^22 in modulus plus this has the nearest integer in its last bits, above those of this.
@if(!f64) const SHIFT = 12582912.0;
@if(!f64) const SHIFT_BITS = 1262485504u;

/// Adds x^2. With 63 numbers |x| < 2^12 and two below 2^15 no sum overflows.
@if(!f64)
fn add_number(sum: Square, x: f32) -> Square {
    let shifted = opaque(x + SHIFT);
    let q = bitcast<i32>(bitcast<u32>(shifted) - SHIFT_BITS);
    let r = bitcast<i32>(bitcast<u32>(fma(x - opaque(shifted - SHIFT), 8192.0, SHIFT)) - SHIFT_BITS);
    return Square(sum.whole + u32(q * q), sum.cross + q * r, sum.rest + u32(r * r));
}

/// Adds |x|^2.
@if(!f64)
fn add_modulus(sum: Square, x: Scalar) -> Square {
    @if(complex) return add_number(add_number(sum, x.x), x.y);
    @else return add_number(sum, x);
}

@if(!f64)
fn both(a: Square, b: Square) -> Square {
    return Square(a.whole + b.whole, a.cross + b.cross, a.rest + b.rest);
}

/// The sum of squares, as a number of 24 bits and what it is off.
@if(!f64)
fn total(sum: Square) -> Pair {
    // q r / 4096 and r^2 / 2^26. The shift rounds down, also what is negative.
    let whole = sum.whole + bitcast<u32>(sum.cross >> 12u);
    let part = fma(f32(bitcast<u32>(sum.cross) & 4095u), 0.000244140625, f32(sum.rest) * 1.4901161193847656e-8);
    let places = 8u - min(countLeadingZeros(whole), 8u);
    let upper = f32((whole >> places) << places);
    let lower = f32(whole & ((1u << places) - 1u));
    return Pair(upper, lower + part);
}

/// The scale for numbers up to one with this exponent: the largest becomes less than 2^12, and parts of complex ones less than 2^11. Zero if they are
/// negligible.
@if(!f64)
fn scale_for(exponent: u32) -> f32 {
    @if(complex) let places = 264u;
    @else let places = 265u;
    return select(0.0, bitcast<f32>((places - min(exponent, 254u)) << 23u), exponent >= 20u);
}

/// The scale of x = (alpha, t) whose t is in v. v is scaled by it.
@if(f64)
fn scale_tail(alpha: Scalar) -> Tail {
    let plain = Tail(Real(1.0), square_of_tail());
    if add_square(Squares(plain.square, Real()), alpha).plain >= NORM_FLOOR {
        return plain;
    }
    @repeat(Q, VECTORS) v[Q] = scaled4(v[Q], NORM_SCALE);
    return Tail(NORM_SCALE, square_of_tail());
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

/// The scale of x = (alpha, t) whose t is in v. v is scaled by it.
@if(alone)
fn scale_tail(alpha: Scalar) -> Tail {
    @if(complex) var largest = vec4<Real>(max(abs(alpha.x), abs(alpha.y)));
    @else var largest = vec4<Real>(abs(alpha));
    @repeat(Q, VECTORS) largest = max(largest, magnitudes4(v[Q]));
    let scale = scale_for(bitcast<u32>(max(max(largest.x, largest.y), max(largest.z, largest.w))) >> 23u);
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
    return Tail(scale, both(both(sums[0], sums[1]), both(sums[2], sums[3])));
}

/// The same of an x of which some threads of a subgroup have an entry each, one of them alpha.
@if(subgroups)
fn tail_of(x: Scalar, has: bool, is_alpha: bool) -> Tail {
    @if(complex) let largest = max(abs(x.x), abs(x.y));
    @else let largest = abs(x);
    let scale = scale_for(subgroupMax(select(0u, bitcast<u32>(largest) >> 23u, has)));
    let own = add_modulus(Square(), select(Scalar(), x, has && !is_alpha) * scale);
    return Tail(scale, Square(subgroupAdd(own.whole), subgroupAdd(own.cross), subgroupAdd(own.rest)));
}

/// The reflector of (alpha, t). In f32, entries below 2^-107 give H = I: they are negligible beside entries near 1.
fn whole_reflector(alpha: Scalar, tail: Tail) -> WholeReflector {
    @if(f64) {
        if tail.square == Real() {
            return WholeReflector(alpha, Pair(), Real(1.0), ONE, Pair());
        }
        let top = alpha * tail.scale;
        let length = sqrt(add_square(Squares(tail.square, Real()), top).plain);
        let beta = opposite(top, length);
        let h = top - beta;
        let tau = Pair(Real(2.0) / add_square(Squares(tail.square, Real()), h).plain, Real());
        return WholeReflector(beta / tail.scale, tau, tail.scale, h, Pair(tail.square, Real()));
    }
    @else {
        let square = tail.square;
        if (square.whole | u32(square.cross) | square.rest) == 0u {
            return WholeReflector(alpha, Pair(), Real(1.0), ONE, Pair());
        }
        let top = alpha * tail.scale;
        // h may be rounded, beta may not.
        let all = total(add_modulus(square, top));
        let h = top - opposite(top, sqrt(all.hi + all.lo));
        let tau = two_over(total(add_modulus(square, h)));
        let back = bitcast<f32>((254u << 23u) - bitcast<u32>(tail.scale));
        return WholeReflector(opposite(top, root(all)) * back, tau, tail.scale, h, total(square));
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
