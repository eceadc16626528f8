//! The twin of `multiply_fixed.wgsl`: products of a matrix with vectors in fixed point.

use std::ops::Range;

use faer::{Mat, MatRef};
use rayon::prelude::*;

use crate::{
    algo::fixed::{FixedMatrix, Multiply},
    base::error::{Result, room_for},
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
        let entries = (0..m * n).into_par_iter().map(|at| entry(at % m, at / m)).collect();
        Ok(CpuFixed { entries, rows: m, cols: n })
    }

    fn column(&self, j: usize, rows: Range<usize>) -> &[Fixed] {
        &self.entries[j * self.rows + rows.start..j * self.rows + rows.end]
    }

    /// The sums of some rows.
    fn rows(&self, x: &[[i32; DIGITS]], rows: Range<usize>) -> Vec<i128> {
        let mut sums = vec![Sum::default(); rows.len()];
        for (j, &x) in x.iter().enumerate() {
            sums.iter_mut().zip(self.column(j, rows.clone())).for_each(|(sum, &f)| sum.add(digits(f), x));
        }
        sums.into_iter().map(Sum::total).collect()
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
                return (0..self.cols).into_par_iter().map(|j| self.col(&x, j)).collect();
            }
            let runs = (0..self.rows).into_par_iter().step_by(ROWS);
            runs.flat_map_iter(|start| self.rows(&x, start..self.rows.min(start + ROWS))).collect()
        };
        Ok(vectors.iter().map(of).collect())
    }
}
