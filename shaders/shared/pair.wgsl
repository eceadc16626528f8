// Double-word arithmetic: sums with their rounding errors, for the few products whose last bits decide how orthogonal a reflector is.
//
// A pair represents hi + lo, with |lo| well below an ulp of hi (Dekker 1971; compensated summation: Neumaier 1974). In f64 the plain sum is
// accurate enough, and lo stays zero.
//
// Compilers may regroup and cancel terms, take out common factors, and fuse a product into one of its uses but not into another. Metal's fast
// math does all of it, whatever statements and calls are in between. `opaque` prevents this: it is the identity, but compilers cannot prove it.
// A formula below is correct under any such change if every rounding that it relies on is inside `opaque`.

import package::scalar::{Real, Scalar, multiply_add, times};

struct Pair {
    hi: Real,
    lo: Real,
}

/// A Scalar whose parts are pairs.
@if(complex) struct ScalarPair {
    re: Pair,
    im: Pair,
}
@else alias ScalarPair = Pair;

/// Zero. A kernel sets it from a parameter, before anything else, so that compilers do not know its value.
var<private> zero: u32;

/// x. (f64: Metal, which has fast math, has no f64.)
fn opaque(x: Real) -> Real {
    @if(f64) return x;
    @else return bitcast<f32>(bitcast<u32>(x) ^ zero);
}

/// The same for four numbers.
fn opaque4(x: vec4<Real>) -> vec4<Real> {
    @if(f64) return x;
    @else return bitcast<vec4<f32>>(bitcast<vec4<u32>>(x) ^ vec4<u32>(zero));
}

/// sum + x.
fn add(sum: Pair, x: Real) -> Pair {
    @if(f64) {
        return Pair(sum.hi + x, sum.lo);
    }
    @else {
        let hi = opaque(sum.hi + x);
        let took = opaque(hi - sum.hi);
        let kept = opaque(hi - took);
        return Pair(hi, sum.lo + (opaque(sum.hi - kept) + opaque(x - took)));
    }
}

/// sum + x.
fn add_pair(sum: Pair, x: Pair) -> Pair {
    let result = add(sum, x.hi);
    return Pair(result.hi, result.lo + x.lo);
}

/// sum + x.
fn add_scalar_pair(sum: ScalarPair, x: ScalarPair) -> ScalarPair {
    @if(complex) return ScalarPair(add_pair(sum.re, x.re), add_pair(sum.im, x.im));
    @else return add_pair(sum, x);
}

/// sum + x.
fn add_scalar(sum: ScalarPair, x: Scalar) -> ScalarPair {
    @if(complex) return ScalarPair(add(sum.re, x.x), add(sum.im, x.y));
    @else return add(sum, x);
}

/// sum + |x|^2, where the squares are rounded.
fn add_modulus_squared(sum: Pair, x: Scalar) -> Pair {
    @if(complex) return add(add(sum, x.x * x.x), x.y * x.y);
    @else return add(sum, x * x);
}

/// x as a pair with lo = 0.
fn exactly(x: Scalar) -> ScalarPair {
    @if(complex) return ScalarPair(Pair(x.x, Real(0.0)), Pair(x.y, Real(0.0)));
    @else return Pair(x, Real(0.0));
}

/// The hi parts of x.
fn leading(x: ScalarPair) -> Scalar {
    @if(complex) return Scalar(x.re.hi, x.im.hi);
    @else return x.hi;
}

/// a b without a rounding error (f64: rounded): with one fused operation where fma is known to be one, else by Dekker's product of halves.
fn exact_product(a: Real, b: Real) -> Pair {
    @if(f64) return Pair(a * b, Real(0.0));
    @else {
        let hi = opaque(a * b);
        @if(fused) return Pair(hi, fma(a, b, -hi));
        @else {
            let c = half(a);
            let d = half(b);
            let e = opaque(a - c);
            let f = opaque(b - d);
            var lo = opaque(c * d - hi);
            lo = opaque(lo + c * f);
            lo = opaque(lo + e * d);
            return Pair(hi, opaque(lo + e * f));
        }
    }
}

/// a b, with its rounding error if the device's fma has none of its own; else without.
fn fused_product(a: Scalar, b: Scalar) -> ScalarPair {
    @if(complex) {
        let x = times(a, b);
        let hi = Scalar(opaque(x.x), opaque(x.y));
        let lo = multiply_add(a, b, -hi);
        return ScalarPair(Pair(hi.x, lo.x), Pair(hi.y, lo.y));
    }
    @else {
        let hi = opaque(a * b);
        return Pair(hi, fma(a, b, -hi));
    }
}

/// a b, with an error of a few roundings of its low part.
fn pair_product(a: Pair, b: Pair) -> Pair {
    let leading = exact_product(a.hi, b.hi);
    return Pair(leading.hi, leading.lo + (a.hi * b.lo + a.lo * b.hi));
}

/// |x|^2 without a rounding error (f64: rounded).
fn exact_square(x: Scalar) -> Pair {
    @if(complex) {
        let im = exact_product(x.y, x.y);
        let sum = add(exact_product(x.x, x.x), im.hi);
        return Pair(sum.hi, sum.lo + im.lo);
    }
    @else return exact_product(x, x);
}

/// sqrt(sum), with an error of little more than one rounding: one Newton step from the device's square root.
fn root(sum: Pair) -> Real {
    let length = sqrt(sum.hi + sum.lo);
    @if(f64) {
        return length;
    }
    @else {
        let square = exact_product(length, length);
        let rest = opaque(opaque(sum.hi - square.hi) - square.lo);
        return length + (rest + sum.lo) / (length + length);
    }
}

/// a / b, with an error of little more than one rounding: one correction of the device's quotient.
@if(complex)
fn quotient(a: Real, b: Real) -> Real {
    let q = a / b;
    @if(f64) return q;
    @else {
        let back = exact_product(q, b);
        return q + (opaque(a - back.hi) - back.lo) / b;
    }
}

/// 2 / (1 + q), to about twice the precision of its parts.
fn two_over_one_plus(q: Pair) -> Pair {
    return two_over(add(Pair(Real(1.0), q.lo), q.hi));
}

/// 2 / d, to about twice the precision of its parts.
fn two_over(d: Pair) -> Pair {
    let hi = Real(2.0) / (d.hi + d.lo);
    @if(f64) {
        return Pair(hi, Real(0.0));
    }
    @else {
        let back = exact_product(hi, d.hi);
        // 1 / d = hi / 2, up to a rounding.
        return Pair(hi, ((opaque(Real(2.0) - back.hi) - back.lo) - hi * d.lo) * (Real(0.5) * hi));
    }
}

/// The upper 12 bits of x's 24 (Veltkamp 1968).
@if(!f64)
fn half(x: f32) -> f32 {
    let y = opaque(4097.0 * x);
    return opaque(y - opaque(y - x));
}

/// a b, with an error of a few roundings.
fn product(a: Pair, b: ScalarPair) -> Scalar {
    @if(complex) return Scalar(real_product(a, b.re), real_product(a, b.im));
    @else return real_product(a, b);
}

fn real_product(a: Pair, b: Pair) -> Real {
    return a.hi * b.hi + (a.hi * b.lo + a.lo * b.hi);
}
