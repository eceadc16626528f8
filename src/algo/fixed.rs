//! Products of a matrix with vectors in double precision, by kernels for fixed point ([`tile::fixed`](crate::tile::fixed)).

use faer::{Mat, MatRef};

use crate::{
    base::error::Result,
    tile::fixed::{Exponents, Fixed, FixedKernels, exponent, fixed, times_power},
};

/// Products with a real matrix.
pub(crate) trait Multiply: Send + Sync {
    /// 2^k A X, or 2^k A^T X, in double precision.
    fn multiply(&self, x: MatRef<'_, f64>, transposed: bool, k: i32) -> Result<Mat<f64>>;
}

/// A matrix in fixed point.
pub(crate) struct FixedMatrix<K> {
    pub kernels: K,
    exponents: Exponents,
}

/// The numbers f_ij of a matrix.
pub(crate) type Entries<'a> = &'a (dyn Fn(usize, usize) -> Fixed + Sync);

impl<K> FixedMatrix<K> {
    /// The m x n matrix of these finite entries, by kernels that are made from its numbers.
    pub fn new(
        size: (usize, usize),
        entry: impl Fn(usize, usize) -> f64 + Sync,
        make: impl FnOnce(Entries<'_>) -> Result<K>,
    ) -> Result<Self> {
        let exponents = Exponents::of(size, &entry);
        let kernels = make(&|i, j| exponents.fixed(entry(i, j), i, j))?;
        Ok(FixedMatrix { kernels, exponents })
    }
}

impl<K: FixedKernels> Multiply for FixedMatrix<K> {
    fn multiply(&self, x: MatRef<'_, f64>, transposed: bool, k: i32) -> Result<Mat<f64>> {
        let Exponents { rows, cols } = &self.exponents;
        let (of_terms, of_lines) = if transposed { (rows, cols) } else { (cols, rows) };
        // e of each vector, None for a vector of zeros or with an entry that is not finite.
        let largest = |j: usize| {
            let finite = x.col(j).iter().all(|x| x.is_finite());
            // What is multiplied by zeros alone does not count.
            let exponents = x.col(j).iter().zip(of_terms).filter_map(|(&x, c)| Some(exponent(x)? + (*c)?));
            if finite { exponents.max() } else { None }
        };
        let exponents: Vec<Option<i32>> = (0..x.ncols()).map(largest).collect();
        let vector = |j: usize| -> Vec<Fixed> {
            let Some(e) = exponents[j] else { return vec![Fixed::default(); of_terms.len()] };
            x.col(j).iter().zip(of_terms).map(|(&x, c)| c.map_or(Fixed::default(), |c| fixed(x, e - c))).collect()
        };
        let vectors: Vec<Vec<Fixed>> = (0..x.ncols()).map(vector).collect();
        let sums = self.kernels.multiply_fixed(&vectors, transposed)?;
        // A product with 0 is 0, and one with NaN or an infinity NaN.
        let of_others = |j: usize| x.col(j).iter().map(|x| 0.0 * x).sum::<f64>();
        Ok(Mat::from_fn(of_lines.len(), x.ncols(), |i, j| match (exponents[j], of_lines[i]) {
            // 2^(r + e + 2) 2^-70
            (Some(e), Some(r)) => times_power(sums[j][i] as f64, r + e + k - 68),
            (Some(_), None) => 0.0,
            (None, _) => of_others(j),
        }))
    }
}
