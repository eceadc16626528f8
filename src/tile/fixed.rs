//! Numbers in fixed point, as four signed digits, and a matrix in this form: products in double precision on devices without f64.
//!
//! ```text
//! f = sum_i d_i 2^(-14 (i + 1)),  i = 0 .. 3,  |d_i| <= 2^13        |f| <= 1/2, a multiple of 2^-56
//! f g ~ sum_{i + j <= 3} d_i e_j 2^(-14 (i + j + 2))               an integer times 2^-70, at most 2^-56.4 from f g
//!
//! a_ij = 2^(r_i + c_j + 1) f_ij        |a_ij| < 2^(r_i + c_j), the largest of each row and column near that
//! x_j  = 2^(e - c_j + 1) g_j           |x_j| < 2^(e - c_j)
//! (A x)_i ~ 2^(r_i + e + 2) sum_j f_ij g_j
//! ```
//!
//! f and g are rounded by 2^-57 at most, so that f g is at most 2^-55.6 off. The error of (A x)_i is at most n 2^-53.6 2^(r_i + e), or 1.4 n eps times the
//! largest entry of row i of A diag(2^-c) and the largest of diag(2^c) x. A^T y likewise, with r and c interchanged. Sums are exact, in any order.

use std::{
    ops::Range,
    sync::{Mutex, PoisonError},
};

use crate::base::{
    error::Result,
    parallel::{each, pieces},
};

/// Bits of a digit, and digits of a number.
const DIGIT: u32 = 14;
pub(crate) const DIGITS: usize = 4;
/// |f| 2^56 is at most 2^55.
const BITS: i32 = 55;

/// A number in fixed point: two digits of 16 bits in each word, the first in the upper half.
pub(crate) type Fixed = [u32; 2];

/// m and q with x = m 2^q and |m| < 2^53, for a finite x.
fn parts(x: f64) -> (i64, i32) {
    let (bits, field) = (x.to_bits(), (x.to_bits() >> 52 & 0x7ff) as i32);
    let fraction = (bits & ((1 << 52) - 1)) as i64;
    let size = if field == 0 { fraction } else { fraction | 1 << 52 };
    (if x.is_sign_negative() { -size } else { size }, field.max(1) - 1075)
}

/// The least e with |x| < 2^e for a finite x; None for zero.
pub(crate) fn exponent(x: f64) -> Option<i32> {
    let (m, q) = parts(x);
    (m != 0).then(|| 64 - m.unsigned_abs().leading_zeros() as i32 + q)
}

/// x 2^k, without overflow or underflow on the way.
pub(crate) fn times_power(x: f64, k: i32) -> f64 {
    const STEP: i32 = 1000;
    // More than this makes every number zero or infinite.
    let mut left = k.clamp(-3 * STEP, 3 * STEP);
    let mut x = x;
    while left != 0 {
        let some = left.clamp(-STEP, STEP);
        x *= f64::from_bits(((1023 + some) as u64) << 52);
        left -= some;
    }
    x
}

/// f = x 2^(-e - 1), rounded to nearest, for |x| < 2^e.
pub(crate) fn fixed(x: f64, e: i32) -> Fixed {
    let (m, q) = parts(x);
    let shift = q + BITS - e;
    let size = m.unsigned_abs();
    let size = match shift {
        0.. => size << shift.min(BITS),
        -63.. => (size + (1 << (-shift - 1))) >> -shift,
        _ => 0,
    };
    of_digits(digits_of(if m < 0 { -(size as i64) } else { size as i64 }))
}

/// The digits of an integer of modulus at most 2^55.
fn digits_of(v: i64) -> [i32; DIGITS] {
    const HALF: i64 = 1 << (DIGIT - 1);
    let mut rest = v;
    let mut digits = [0; DIGITS];
    for digit in digits[1..].iter_mut().rev() {
        *digit = (((rest + HALF) & ((1 << DIGIT) - 1)) - HALF) as i32;
        rest = (rest - i64::from(*digit)) >> DIGIT;
    }
    digits[0] = rest as i32;
    digits
}

/// The number with these digits, of 16 bits with their signs.
pub(crate) fn of_digits(d: [i32; DIGITS]) -> Fixed {
    let word = |high: i32, low: i32| ((high as u32) << 16) | (low as u32 & 0xffff);
    [word(d[0], d[1]), word(d[2], d[3])]
}

/// The digits of a number.
pub(crate) fn digits([high, low]: Fixed) -> [i32; DIGITS] {
    [high as i32 >> 16, (high << 16) as i32 >> 16, low as i32 >> 16, (low << 16) as i32 >> 16]
}

/// A sum of products: the digits before carries.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sum([i64; DIGITS]);

impl Sum {
    pub fn add(&mut self, d: [i32; DIGITS], e: [i32; DIGITS]) {
        let [d, e] = [d, e].map(|digits| digits.map(i64::from));
        self.0[0] += d[0] * e[0];
        self.0[1] += d[0] * e[1] + d[1] * e[0];
        self.0[2] += d[0] * e[2] + d[1] * e[1] + d[2] * e[0];
        self.0[3] += d[0] * e[3] + d[1] * e[2] + d[2] * e[1] + d[3] * e[0];
    }

    /// 2^70 times the sum.
    pub fn total(self) -> i128 {
        self.0.iter().fold(0, |sum, &digit| (sum << DIGIT) + i128::from(digit))
    }
}

/// 2^70 times a sum, from the three words of `multiply_fixed`.
pub(crate) fn of_words(top: u32, middle: u32, low: u32) -> i128 {
    (i128::from(top as i32) << (4 * DIGIT)) + (i128::from(middle) << (2 * DIGIT)) + i128::from(low)
}

/// A backend with a matrix of fixed-point numbers, m x n.
pub(crate) trait FixedKernels: Send + Sync {
    /// For each vector the sums sum_k f_lk g_k times 2^70, l = 0 .. m - 1, with n numbers g; with `transposed` those of the transpose.
    fn multiply_fixed(&self, vectors: &[Vec<Fixed>], transposed: bool) -> Result<Vec<Vec<i128>>>;
}

/// Rows of a run: they stay in the cache in any memory order.
const ROWS: usize = 256;

/// For each column of an m x n matrix of finite entries the least c with all of them below 2^c; None for a column of zeros.
pub(crate) fn column_exponents((m, n): (usize, usize), entry: impl Fn(usize, usize) -> f64 + Sync) -> Vec<Option<i32>> {
    let of_column = |run: Range<usize>, j: usize| run.filter_map(|i| exponent(entry(i, j))).max();
    let all = Mutex::new(vec![None; n]);
    pieces(m.div_ceil(ROWS), 1, &|runs| {
        let mut largest = vec![None; n];
        for first in runs.map(|run| run * ROWS) {
            let run = first..m.min(first + ROWS);
            largest.iter_mut().enumerate().for_each(|(j, c)| *c = (*c).max(of_column(run.clone(), j)));
        }
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter_mut().zip(largest).for_each(|(all, c)| *all = (*all).max(c));
    });
    all.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// The exponents r_i and c_j of a matrix; None for lines of zeros.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exponents {
    pub rows: Vec<Option<i32>>,
    pub cols: Vec<Option<i32>>,
}

impl Exponents {
    /// Those of an m x n matrix of finite entries: c_j of its columns, and then r_i of the rows of A diag(2^-c).
    pub fn of((m, n): (usize, usize), entry: impl Fn(usize, usize) -> f64 + Sync) -> Self {
        let cols = column_exponents((m, n), &entry);
        let mut rows = vec![None; m];
        each(rows.chunks_mut(ROWS).enumerate(), |(run, rows)| {
            for (j, c) in cols.iter().enumerate().filter_map(|(j, c)| Some((j, (*c)?))) {
                let larger = |(row, i): (&mut Option<i32>, usize)| *row = (*row).max(exponent(entry(i, j)).map(|e| e - c));
                rows.iter_mut().zip(run * ROWS..).for_each(larger);
            }
        });
        Exponents { rows, cols }
    }

    /// f_ij
    pub fn fixed(&self, x: f64, i: usize, j: usize) -> Fixed {
        match (self.rows[i], self.cols[j]) {
            (Some(r), Some(c)) => fixed(x, r + c),
            // A line of zeros.
            _ => Fixed::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(f: Fixed) -> i64 {
        digits(f).iter().fold(0, |sum, &digit| (sum << DIGIT) + i64::from(digit))
    }

    /// Digits are those of x 2^(55 - e), rounded to nearest, and within their bounds: for numbers of every size, subnormal ones among them.
    #[test]
    fn numbers_are_their_digits() {
        for (x, e, want) in [
            (1.0, 1, 1i64 << 54),
            (-1.0, 1, -(1 << 54)),
            (1.0 - f64::EPSILON / 2.0, 0, (1 << 55) - 4),
            (3.0, 58, 0),
            (3.0, 57, 1),
            (-5.0, 56, -3),
            (7.0, 55, 7),
            (1.5 * f64::MIN_POSITIVE, -1021, 3 << 53),
            (f64::from_bits(5), -1071, 5 << 52),
            (f64::from_bits(1), 900, 0),
            (f64::MAX, 1024, (1 << 55) - 4),
            (0.0, 0, 0),
        ] {
            assert_eq!(value(fixed(x, e)), want, "{x:e} {e}");
            assert!(digits(fixed(x, e)).iter().all(|digit| digit.abs() <= 1 << 13), "{x:e} {e}");
        }
        for k in 0..2000u64 {
            let x = f64::from_bits(k.wrapping_mul(0x9e37_79b9_7f4a_7c15) & !(1 << 62));
            let e = exponent(x).unwrap_or(0);
            let size = times_power(x.abs(), -e);
            assert!(x == 0.0 || (0.5..1.0).contains(&size), "{x:e}");
            assert_eq!(value(fixed(x, e)) as f64, times_power(x, BITS - e), "{x:e}");
        }
        assert_eq!([exponent(0.0), exponent(-8.0), exponent(f64::from_bits(1))], [None, Some(4), Some(-1073)]);
        assert_eq!(
            [(1.0, -1074), (f64::from_bits(1), 1074), (1.0, 5000)].map(|(x, k)| times_power(x, k)),
            [f64::from_bits(1), 1.0, f64::INFINITY]
        );
    }

    /// A sum is short of the products of its numbers by at most 2^-56 each, and the words of a sum give it back.
    #[test]
    fn sums_are_products() {
        let mut sum = Sum::default();
        let mut exact = 0i128;
        for k in 1..500u64 {
            let [x, y] = [k, k + 900].map(|k| fixed((k as f64 * 0.37).sin(), 0));
            sum.add(digits(x), digits(y));
            exact += i128::from(value(x)) * i128::from(value(y));
            let off = exact - (sum.total() << 42);
            assert!(off.abs() <= i128::from(k) << 56, "{k}: {off:e}");
            let low = (1 << 28) - 1;
            let words = [sum.total() >> 56, sum.total() >> 28 & low, sum.total() & low].map(|word| word as u32);
            assert_eq!(of_words(words[0], words[1], words[2]), sum.total());
        }
        assert_ne!(exact, sum.total() << 42);
    }
}
