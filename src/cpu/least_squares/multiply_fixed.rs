//! The twin of `multiply_fixed.wgsl`: products of a matrix with vectors in fixed point.

use std::ops::Range;

use faer::{Mat, MatRef};

use crate::{
    algo::fixed::{FixedMatrix, Multiply},
    base::{
        error::{Result, room_for},
        parallel::{each, map, pieces_mut},
    },
    tile::fixed::{DIGITS, Fixed, FixedKernels, Sum, digits},
};

/// Rows of a task, whose sums stay in the cache.
const ROWS: usize = 256;

/// A matrix of fixed-point numbers on the host, by columns.
pub(crate) struct CpuFixed {
    entries: Vec<Fixed>,
    rows: usize,
    cols: usize,
}

impl CpuFixed {
    /// The m x n matrix of these entries.
    pub fn new((m, n): (usize, usize), entry: impl Fn(usize, usize) -> Fixed + Sync) -> Result<Self> {
        room_for::<Fixed>("the matrix in fixed point", m, n, 1)?;
        let mut entries = vec![Fixed::default(); m * n];
        pieces_mut(&mut entries, 1, 1, &|first, entries| {
            entries.iter_mut().zip(first..).for_each(|(to, at)| *to = entry(at % m, at / m));
        });
        Ok(CpuFixed { entries, rows: m, cols: n })
    }

    fn column(&self, j: usize, rows: Range<usize>) -> &[Fixed] {
        &self.entries[j * self.rows + rows.start..j * self.rows + rows.end]
    }

    /// The sums of the rows from `first` on, as many as `to` has.
    fn rows(&self, x: &[[i32; DIGITS]], first: usize, to: &mut [i128]) {
        let rows = first..first + to.len();
        let mut sums = vec![Sum::default(); rows.len()];
        for (j, &x) in x.iter().enumerate() {
            sums.iter_mut().zip(self.column(j, rows.clone())).for_each(|(sum, &f)| sum.add(digits(f), x));
        }
        to.iter_mut().zip(sums).for_each(|(to, sum)| *to = sum.total());
    }

    /// The sum of a column.
    fn col(&self, x: &[[i32; DIGITS]], j: usize) -> i128 {
        let mut sum = Sum::default();
        self.column(j, 0..self.rows).iter().zip(x).for_each(|(&f, &x)| sum.add(digits(f), x));
        sum.total()
    }
}

/// A X, or A^T X, in fixed point, for tests.
pub fn products_in_fixed_point(a: MatRef<'_, f64>, x: MatRef<'_, f64>, transposed: bool) -> Result<Mat<f64>> {
    FixedMatrix::new(a.shape(), |i, j| a[(i, j)], |f| CpuFixed::new(a.shape(), f))?.multiply(x, transposed, 0)
}

impl FixedKernels for CpuFixed {
    fn multiply_fixed(&self, vectors: &[Vec<Fixed>], transposed: bool) -> Result<Vec<Vec<i128>>> {
        let of = |x: &Vec<Fixed>| -> Vec<i128> {
            let x: Vec<[i32; DIGITS]> = x.iter().map(|&g| digits(g)).collect();
            if transposed {
                return map(self.cols, |j| self.col(&x, j));
            }
            let mut sums = vec![0; self.rows];
            each(sums.chunks_mut(ROWS).enumerate(), |(run, to)| self.rows(&x, run * ROWS, to));
            sums
        };
        Ok(vectors.iter().map(of).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tile::fixed::{exponent, times_power};

    fn noise(i: usize, j: usize) -> f64 {
        let z = ((i as u64) << 32 | j as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (z ^ z >> 27) as f64 / 2f64.powi(63) - 1.0
    }

    /// sum x_j y_j with products and sums in twice the precision (Ogita, Rump and Oishi 2005), for moderate numbers.
    fn dot(terms: impl Iterator<Item = (f64, f64)>) -> f64 {
        let (mut high, mut low) = (0.0f64, 0.0);
        for (x, y) in terms {
            let product = x * y;
            let sum = high + product;
            let of_product = sum - high;
            low += (high - (sum - of_product)) + (product - of_product) + x.mul_add(y, -product);
            high = sum;
        }
        high + low
    }

    /// An error of at most n 2^-53.6 2^(r_i + e), and the rounding of the sum, of A X and A^T X: for random matrices, and for rows, columns and entries of
    /// very different sizes; and in the Frobenius norm at most eps / 4 of ||A|| ||x|| for the random one. Rows and columns of zeros give zeros, and an entry of a
    /// vector that is not finite gives NaN in its column alone.
    #[test]
    fn errors_are_those_of_sums_in_double_precision() {
        type Size<'a> = &'a dyn Fn(usize, usize) -> f64;
        let sizes: [(&str, Size<'_>); 5] = [
            ("random", &|_, _| 1.0),
            ("rows", &|i, _| 2f64.powi(-(i as i32) / 2)),
            ("columns", &|_, j| 2f64.powi(-3 * (j as i32))),
            ("entries", &|i, j| 2f64.powf(-40.0 * noise(i + 9, j).abs())),
            ("sparse", &|i, j| if i % 7 == 3 || j % 5 == 1 { 0.0 } else { 1.0 }),
        ];
        for (name, size) in sizes {
            for (m, n) in [(1, 1), (150, 40), (20, 90), (600, 3)] {
                let a = Mat::from_fn(m, n, |i, j| noise(i, j) * size(i, j));
                for transposed in [false, true] {
                    let a = if transposed { a.transpose() } else { a.as_ref() };
                    // Long where the columns are short.
                    let x = Mat::from_fn(a.ncols(), 2, |k, v| {
                        let most = a.col(k).iter().fold(0.0f64, |most, x| most.max(x.abs()));
                        noise(k, v + 70) / if most == 0.0 || v == 1 { 1.0 } else { most }
                    });
                    let found = if transposed {
                        products_in_fixed_point(a.transpose(), x.as_ref(), true).unwrap()
                    } else {
                        products_in_fixed_point(a, x.as_ref(), false).unwrap()
                    };
                    // c of the columns of the whole matrix, r of its rows, whichever are the terms.
                    let whole = if transposed { a.transpose() } else { a };
                    let of = |x: f64| exponent(x).unwrap_or(i32::MIN / 4);
                    let cols: Vec<i32> =
                        (0..whole.ncols()).map(|j| whole.col(j).iter().map(|&x| of(x)).max().unwrap_or(0)).collect();
                    let row = |i: usize| (0..whole.ncols()).map(|j| of(whole[(i, j)]) - cols[j]).max().unwrap_or(0);
                    let rows: Vec<i32> = (0..whole.nrows()).map(row).collect();
                    let (of_terms, of_lines) = if transposed { (&rows, &cols) } else { (&cols, &rows) };
                    for v in 0..2 {
                        let e = (0..a.ncols()).map(|k| of(x[(k, v)]).saturating_add(of_terms[k])).max().unwrap_or(0);
                        let mut off = 0.0;
                        for i in 0..a.nrows() {
                            let want = dot((0..a.ncols()).map(|k| (a[(i, k)], x[(k, v)])));
                            let bound =
                                a.ncols() as f64 * 2f64.powf(-53.6) * times_power(1.0, of_lines[i].saturating_add(e).max(-2000));
                            let error = (found[(i, v)] - want).abs();
                            assert!(
                                error <= bound + f64::EPSILON / 2.0 * want.abs(),
                                "{name} {m} x {n} {transposed}: {error:e}, {bound:e}"
                            );
                            off += error * error;
                        }
                        if name == "random" && v == 1 {
                            let sizes = a.norm_l2() * x.col(v).norm_l2();
                            assert!(off.sqrt() <= f64::EPSILON / 4.0 * sizes, "{m} x {n} {transposed}: {:e}", off.sqrt() / sizes);
                        }
                    }
                }
            }
        }
        let x = Mat::from_fn(3, 3, |k, v| if (k, v) == (1, 1) { f64::INFINITY } else { k as f64 });
        let found = products_in_fixed_point(Mat::from_fn(4, 3, |_, _| 1.0).as_ref(), x.as_ref(), false).unwrap();
        assert!((0..4).all(|i| found[(i, 0)] == 3.0 && found[(i, 1)].is_nan() && found[(i, 2)] == 3.0));
    }
}
