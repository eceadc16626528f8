//! Singular values for the tests to compare with: one-sided Jacobi in double-double arithmetic.

use std::ops::{Add, Mul, Neg, Sub};

use faer::MatRef;
use svdvals_gpu::Element;

/// The singular values of `a`, descending, each to 1e-25 ||A|| before its rounding to f64, which at most doubles that rounding's error.
///
/// Hestenes's method (Golub and Van Loan, section 8.6.3): plane rotations from the right make the columns orthogonal, and their norms
/// are then the singular values. Angles are double precision, but cosine and sine belong together to 1e-31, so a rotation is
/// orthogonal to that, and a sweep leaves at worst 1e-16 of every scalar product. A complex column is the vector of its real parts and
/// then of its imaginary parts.
pub fn exact<T: Element>(a: MatRef<'_, T>) -> Vec<f64> {
    let a = if a.nrows() < a.ncols() { a.transpose() } else { a };
    let complex = T::NAME.starts_with('c');
    let parts = |x: &T| [x.to_complex().re, x.to_complex().im];
    let entries = || (0..a.ncols()).flat_map(|j| (0..a.nrows()).flat_map(move |i| parts(&a[(i, j)])));
    let (down, up) = scaling(entries().fold(0.0, |most, x| f64::max(most, x.abs())));
    let mut columns: Vec<Vec<Dd>> = (0..a.ncols())
        .map(|j| {
            let part = |part: usize| (0..a.nrows()).map(move |i| Dd::from(parts(&a[(i, j)])[part] * down[0] * down[1]));
            part(0).chain(part(1).take(if complex { a.nrows() } else { 0 })).collect()
        })
        .collect();
    let mut sweeps = 0;
    while !sweep(&mut columns, complex) {
        sweeps += 1;
        assert!(sweeps < 60, "Jacobi's sweeps do not end");
    }
    let mut values: Vec<f64> = columns.iter().map(|x| dot(x, x).high.sqrt() * up[0] * up[1]).collect();
    values.sort_by(|x, y| y.total_cmp(x));
    values
}

/// Powers of two that bring `largest` near 1, and those that undo it: two factors each, because one might not be representable.
fn scaling(largest: f64) -> ([f64; 2], [f64; 2]) {
    let exponent = if largest == 0.0 { 0 } else { largest.log2() as i32 };
    let halves = [exponent / 2, exponent - exponent / 2];
    (halves.map(|k| 2f64.powi(-k)), halves.map(|k| 2f64.powi(k)))
}

/// One rotation for every pair of columns that is not orthogonal yet; true where there was none.
fn sweep(columns: &mut [Vec<Dd>], complex: bool) -> bool {
    let norm = |x: &Vec<Dd>| dot(x, x).high;
    columns.sort_by(|x, y| norm(y).total_cmp(&norm(x)));
    // Columns below this are rounding errors of the largest: their scalar products cannot become small against themselves.
    let nothing = columns.first().map_or(0.0, norm) * 1e-56;
    // In double-double, for the difference of two decides the angle, and columns of a cluster of values have nearly equal norms.
    let mut squares: Vec<Dd> = columns.iter().map(|x| dot(x, x)).collect();
    let mut done = true;
    for p in 0..columns.len() {
        let (head, tail) = columns.split_at_mut(p + 1);
        let x = &mut head[p];
        for (y, q) in tail.iter_mut().zip(p + 1..) {
            let product = (dot(x, y).high, if complex { imaginary_dot(x, y).high } else { 0.0 });
            let size = product.0.hypot(product.1);
            let (a, b) = (squares[p].high, squares[q].high);
            if a <= nothing || b <= nothing || size <= 1e-28 * (a * b).sqrt() {
                continue;
            }
            done = false;
            if complex {
                turn(y, (product.0 / size, -product.1 / size));
            }
            let size = if complex { size } else { product.0 };
            let zeta = (squares[q] - squares[p]).high / (2.0 * size);
            let tangent = zeta.signum() / (zeta.abs() + zeta.hypot(1.0));
            rotate(x, y, tangent);
            let moved = Dd::from(tangent) * Dd::from(size);
            (squares[p], squares[q]) = (squares[p] - moved, squares[q] + moved);
        }
    }
    done
}

/// x^T y: of complex columns, the real part of x^H y.
fn dot(x: &[Dd], y: &[Dd]) -> Dd {
    x.iter().zip(y).fold(Dd::from(0.0), |sum, (&x, &y)| sum + x * y)
}

/// The imaginary part of x^H y.
fn imaginary_dot(x: &[Dd], y: &[Dd]) -> Dd {
    let ((xr, xi), (yr, yi)) = (x.split_at(x.len() / 2), y.split_at(y.len() / 2));
    dot(xr, yi) - dot(xi, yr)
}

/// y <- y times the number of size 1 that `phase` is but for rounding.
fn turn(y: &mut [Dd], phase: (f64, f64)) {
    let (re, im) = (Dd::from(phase.0), Dd::from(phase.1));
    let unit = (re * re + im * im).inverse_root();
    let (re, im) = (re * unit, im * unit);
    let (yr, yi) = y.split_at_mut(y.len() / 2);
    yr.iter_mut().zip(yi).for_each(|(a, b)| (*a, *b) = (*a * re - *b * im, *a * im + *b * re));
}

/// (x, y) <- (c x - s y, s x + c y) with s = c * tangent.
fn rotate(x: &mut [Dd], y: &mut [Dd], tangent: f64) {
    let t = Dd::from(tangent);
    let c = (Dd::from(1.0) + t * t).inverse_root();
    let s = c * t;
    x.iter_mut().zip(y).for_each(|(x, y)| (*x, *y) = (c * *x - s * *y, s * *x + c * *y));
}

/// The sum of two numbers of which the second is at most half a unit in the last place of the first: about 32 digits.
#[derive(Clone, Copy)]
struct Dd {
    high: f64,
    low: f64,
}

impl Dd {
    /// high + low, for |high| >= |low| (Dekker 1971).
    fn ordered(high: f64, low: f64) -> Dd {
        let sum = high + low;
        Dd { high: sum, low: low - (sum - high) }
    }

    /// x + y (Knuth).
    fn sum(x: f64, y: f64) -> Dd {
        let sum = x + y;
        let of_y = sum - x;
        Dd { high: sum, low: (x - (sum - of_y)) + (y - of_y) }
    }

    /// 1 / sqrt(self), by a step of Newton's from double precision.
    fn inverse_root(self) -> Dd {
        let root = Dd::from(1.0 / self.high.sqrt());
        root + root * (Dd::from(1.0) - self * root * root) * Dd::from(0.5)
    }
}

impl From<f64> for Dd {
    fn from(x: f64) -> Dd {
        Dd { high: x, low: 0.0 }
    }
}

impl Add for Dd {
    type Output = Dd;
    fn add(self, other: Dd) -> Dd {
        let (high, low) = (Dd::sum(self.high, other.high), Dd::sum(self.low, other.low));
        let partial = Dd::ordered(high.high, high.low + low.high);
        Dd::ordered(partial.high, partial.low + low.low)
    }
}

impl Neg for Dd {
    type Output = Dd;
    fn neg(self) -> Dd {
        Dd { high: -self.high, low: -self.low }
    }
}

impl Sub for Dd {
    type Output = Dd;
    fn sub(self, other: Dd) -> Dd {
        self + -other
    }
}

impl Mul for Dd {
    type Output = Dd;
    fn mul(self, other: Dd) -> Dd {
        let high = self.high * other.high;
        let low = self.high.mul_add(other.high, -high);
        Dd::ordered(high, low + (self.high * other.low + self.low * other.high))
    }
}
