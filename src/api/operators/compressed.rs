//! Products by a matrix in compressed columns. Some columns of a block are multiplied together, row by row, so that what is read of the matrix serves
//! them all.

use crate::base::{
    number::Scalar,
    parallel::{each, map},
};

/// Columns of a block that are multiplied together.
const TOGETHER: usize = 8;

/// A matrix in compressed columns, or the transpose of one in compressed rows.
pub(super) trait Columns<T>: Sync {
    /// Rows and columns.
    fn shape(&self) -> (usize, usize);

    /// Calls `entry` with the row and the value of each entry of a column.
    fn each_entry(&self, column: usize, entry: impl FnMut(usize, T));
}

/// Some columns of a block, row by row.
type Lines<T> = Vec<[T; TOGETHER]>;

/// A part of a block of columns with these many rows.
fn lines<T: Scalar>(x: &[T], rows: usize, first: usize, columns: usize) -> Lines<T> {
    let mut lines = vec![[T::zero_impl(); TOGETHER]; rows];
    for (k, column) in x.chunks_exact(rows.max(1)).skip(first).take(TOGETHER.min(columns - first)).enumerate() {
        lines.iter_mut().zip(column).for_each(|(line, &x)| line[k] = x);
    }
    lines
}

/// Writes the columns of each part to `y`.
fn write<T: Scalar>(parts: Vec<Lines<T>>, y: &mut [T], rows: usize) {
    let columns = parts.iter().flat_map(|part| (0..TOGETHER).map(move |k| (part, k)));
    each(y.chunks_exact_mut(rows.max(1)).zip(columns), |(y, (part, k))| {
        y.iter_mut().zip(part).for_each(|(y, line)| *y = line[k])
    });
}

/// Y <- A X, or conj(A) X.
pub(super) fn apply<T: Scalar>(a: &impl Columns<T>, conjugated: bool, columns: usize, x: &[T], y: &mut [T]) {
    let (m, n) = a.shape();
    let parts = map(columns.div_ceil(TOGETHER), |part| {
        let x = lines(x, n, part * TOGETHER, columns);
        let mut y = vec![[T::zero_impl(); TOGETHER]; m];
        for (j, x) in x.iter().enumerate() {
            a.each_entry(j, |i, value| {
                let value = if conjugated { T::conj_impl(&value) } else { value };
                y[i].iter_mut().zip(x).for_each(|(y, &x)| *y += value * x);
            });
        }
        y
    });
    write(parts, y, m);
}

/// Y <- A^H X, or A^T X.
pub(super) fn apply_adjoint<T: Scalar>(a: &impl Columns<T>, conjugated: bool, columns: usize, x: &[T], y: &mut [T]) {
    let (m, n) = a.shape();
    let parts = map(columns.div_ceil(TOGETHER), |part| {
        let x = lines(x, m, part * TOGETHER, columns);
        let sums = (0..n).map(|j| {
            let mut sum = [T::zero_impl(); TOGETHER];
            a.each_entry(j, |i, value| {
                let value = if conjugated { T::conj_impl(&value) } else { value };
                sum.iter_mut().zip(&x[i]).for_each(|(sum, &x)| *sum += value * x);
            });
            sum
        });
        sums.collect()
    });
    write(parts, y, n);
}
