//! Double and double-double arithmetic on the numbers of a register.
//!
//! A double-double number is the unevaluated sum of two doubles, the second at most about half a unit in the last place of the first: 104 bits or more
//! (Dekker, Numer. Math. 18, 1971; Hida, Li & Bailey, 15th IEEE Symposium on Computer Arithmetic, 2001). Errors of products are found by fused
//! multiply-adds. The sum is the shorter one, whose error is relative to the terms.

use pulp::{Simd, WithSimd};

/// Numbers with which a register's lanes are factorised.
pub(super) trait Arithmetic<S: Simd>: Copy {
    /// Whether numbers have a second part.
    const HAS_TAIL: bool;

    /// About the relative error of an operation.
    const EPSILON: f64;

    /// `head + tail`, or `head` alone.
    fn new(head: S::f64s, tail: S::f64s) -> Self;

    /// The same in all lanes.
    fn splat(simd: S, number: [f64; 2]) -> Self;

    /// The number in double precision, of which [`tail`](Self::tail) is the rest.
    fn head(self) -> S::f64s;

    fn tail(self, simd: S) -> S::f64s;

    /// To double precision.
    fn rounded(self, simd: S) -> S::f64s;

    fn plus(self, simd: S, other: Self) -> Self;

    /// The tail may be longer than it should be, for the next operation to shorten.
    fn times(self, simd: S, other: Self) -> Self;

    /// `1 / self`.
    fn inverse(self, simd: S) -> Self;
}

/// Double precision.
#[derive(Clone, Copy)]
pub(super) struct Double<S: Simd>(S::f64s);

impl<S: Simd> Arithmetic<S> for Double<S> {
    const HAS_TAIL: bool = false;
    const EPSILON: f64 = f64::EPSILON;

    #[inline(always)]
    fn new(head: S::f64s, _: S::f64s) -> Self {
        Double(head)
    }

    #[inline(always)]
    fn splat(simd: S, [head, _]: [f64; 2]) -> Self {
        Double(simd.splat_f64s(head))
    }

    #[inline(always)]
    fn head(self) -> S::f64s {
        self.0
    }

    #[inline(always)]
    fn tail(self, simd: S) -> S::f64s {
        simd.splat_f64s(0.0)
    }

    #[inline(always)]
    fn rounded(self, _: S) -> S::f64s {
        self.0
    }

    #[inline(always)]
    fn plus(self, simd: S, other: Self) -> Self {
        Double(simd.add_f64s(self.0, other.0))
    }

    #[inline(always)]
    fn times(self, simd: S, other: Self) -> Self {
        Double(simd.mul_f64s(self.0, other.0))
    }

    #[inline(always)]
    fn inverse(self, simd: S) -> Self {
        Double(simd.div_f64s(simd.splat_f64s(1.0), self.0))
    }
}

/// Twice as many digits.
#[derive(Clone, Copy)]
pub(super) struct DoubleDouble<S: Simd> {
    head: S::f64s,
    tail: S::f64s,
}

impl<S: Simd> Arithmetic<S> for DoubleDouble<S> {
    const HAS_TAIL: bool = true;
    const EPSILON: f64 = f64::EPSILON * f64::EPSILON;

    #[inline(always)]
    fn new(head: S::f64s, tail: S::f64s) -> Self {
        DoubleDouble { head, tail }
    }

    #[inline(always)]
    fn splat(simd: S, [head, tail]: [f64; 2]) -> Self {
        DoubleDouble { head: simd.splat_f64s(head), tail: simd.splat_f64s(tail) }
    }

    #[inline(always)]
    fn head(self) -> S::f64s {
        self.head
    }

    #[inline(always)]
    fn tail(self, _: S) -> S::f64s {
        self.tail
    }

    #[inline(always)]
    fn rounded(self, simd: S) -> S::f64s {
        simd.add_f64s(self.head, self.tail)
    }

    #[inline(always)]
    fn plus(self, simd: S, other: Self) -> Self {
        // The exact sum of the heads is that of `sum` and `rest`.
        let sum = simd.add_f64s(self.head, other.head);
        let of_other = simd.sub_f64s(sum, self.head);
        let rest = simd.add_f64s(simd.sub_f64s(self.head, simd.sub_f64s(sum, of_other)), simd.sub_f64s(other.head, of_other));
        let rest = simd.add_f64s(rest, simd.add_f64s(self.tail, other.tail));
        let head = simd.add_f64s(sum, rest);
        DoubleDouble { head, tail: simd.sub_f64s(rest, simd.sub_f64s(head, sum)) }
    }

    #[inline(always)]
    fn times(self, simd: S, other: Self) -> Self {
        let head = simd.mul_f64s(self.head, other.head);
        let rest = simd.mul_add_f64s(self.head, other.head, simd.neg_f64s(head));
        let rest = simd.mul_add_f64s(self.head, other.tail, rest);
        DoubleDouble { head, tail: simd.mul_add_f64s(self.tail, other.head, rest) }
    }

    #[inline(always)]
    fn inverse(self, simd: S) -> Self {
        let one = simd.splat_f64s(1.0);
        let head = simd.div_f64s(one, self.head);
        let rest = simd.negate_mul_add_f64s(self.head, head, one);
        let rest = simd.negate_mul_add_f64s(self.tail, head, rest);
        DoubleDouble { head, tail: simd.mul_f64s(rest, head) }
    }
}

/// Whether the machine fuses multiply-adds, without which double-double arithmetic would take a library's.
pub(super) fn is_fused() -> bool {
    struct Fused;

    impl WithSimd for Fused {
        type Output = bool;

        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) -> bool {
            S::F64_LANES > 1 && !cfg!(target_family = "wasm")
        }
    }

    pulp::Arch::new().dispatch(Fused)
}

/// `a b`: the product in double precision, and what it lacks if that is wanted.
pub(super) fn product(a: f64, b: f64, has_tail: bool) -> [f64; 2] {
    let head = a * b;
    [head, if has_tail { a.mul_add(b, -head) } else { 0.0 }]
}

/// `x + y`, rounded to a double-double number.
pub(super) fn sum([head, tail]: [f64; 2], y: f64) -> [f64; 2] {
    let sum = head + y;
    let of_y = sum - head;
    let rest = (head - (sum - of_y)) + (y - of_y) + tail;
    let head = sum + rest;
    [head, rest - (head - sum)]
}
