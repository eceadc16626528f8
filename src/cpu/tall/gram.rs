//! A^H A of a tall, narrow matrix, made in double precision in one pass.
//!
//! The singular values are the square roots of its eigenvalues. It has half of the flops of a QR factorisation, and no narrow panels.
//!
//! Where the matrix is in single or half precision, products of two numbers of 24 bits are exact in double precision, and no square under- or
//! overflows there, so that the sums are all that is rounded: an eigenvalue is off by a small multiple of eps_64 ||A||^2, and a value by
//! the square root of that at most, some 1e-8 ||A||, which is less than single precision resolves; by much less from 1e-4 ||A|| on. Where it
//! is in double precision itself, half of the digits may be lost: [`cholesky_qr`](super::cholesky_qr) sees whether they are.

use std::ops::Range;

use faer::{
    Accum, Mat, MatMut, MatRef, Par,
    linalg::matmul::triangular::{BlockStructure, matmul},
    traits::{ComplexField, SimdArch},
};
use rayon::prelude::*;

use crate::{
    base::{
        error::Result,
        number::{Number, Scalar},
        view::map_into,
        watch::Watch,
    },
    cpu::{
        kernels::leading_dimension,
        qr::body::PADDING,
        simd::aligned::{Aligned, zeros},
        tall::{
            leaves::{RUNS, in_runs},
            products::{AddColumns, AddRows, padded_columns, padded_row},
        },
    },
};

/// The type of A^H A.
pub(crate) type Wide<T> = <<T as Number>::Scalar as Scalar>::Wide;

/// Rows of a leaf at most, so that eight columns of it, of real numbers, stay in a first-level cache, and bytes of one where that is fewer
/// rows: half of a second-level cache of 1 MiB. A register's sums are chains of as many products as a leaf has registers of rows; then a
/// run's leaves are summed one after the other, and the runs. In double precision that is what R loses.
const LEAF: usize = 512;
const LEAF_BYTES: usize = 1 << 19;
/// Columns from which on a matrix whose rows are contiguous is worked on as it lies: two registers of AVX-512.
const BY_ROWS: usize = 16;
/// Rows of a leaf then, which are chains of as many products: with 64 columns a first-level cache of 32 KiB. As many leaves are summed before
/// their sum is one of a run's, as it is of a leaf by columns.
const LEAF_ROWS: usize = 64;
const LEAVES: usize = 8;
/// Entries of a run, which is one task, at least.
const RUN: usize = 1 << 17;

/// Columns above which tasks are blocks of A^H A, and the products the matrix product's: those of a run would not fill a leaf.
const NARROW: usize = 320;
/// Columns of a block: whole registers of every matrix product's kernel.
const BLOCK: usize = 96;
/// Rows multiplied at a time: chains of so many products, and of as many sums as there are pieces.
const ROWS: usize = 512;

/// The upper triangle of A^H A (n x n) of the m x n matrix `a`, m >= n >= 1; what is below the diagonal has no meaning. The same for any number
/// of threads. Where an entry of `a` is not finite, one of the diagonal's is not.
pub(crate) fn upper_gram<T: Number>(a: MatRef<'_, T>, watch: &Watch) -> Result<Mat<Wide<T>>> {
    if a.ncols() <= NARROW { by_runs(a, watch) } else { by_blocks(a, watch) }
}

/// P^T A^H A P of a matrix's [`upper_gram`], with its diagonal descending, and P as the columns' order: a reduction with large columns first
/// keeps the small ones' digits.
pub(crate) fn sorted<W: Scalar>(upper: &Mat<W>) -> (Mat<W>, Vec<usize>) {
    let mut order: Vec<usize> = (0..upper.ncols()).collect();
    order.sort_by(|&i, &j| upper[(j, j)].to_complex().re.total_cmp(&upper[(i, i)].to_complex().re));
    let sorted = Mat::from_fn(upper.nrows(), upper.ncols(), |i, j| match (order[i], order[j]) {
        (i, j) if i <= j => upper[(i, j)],
        (i, j) => W::conj_impl(&upper[(j, i)]),
    });
    (sorted, order)
}

/// P^T A^H A P, with its diagonal descending, and P as the columns' order.
pub(crate) fn gram<T: Number>(a: MatRef<'_, T>, watch: &Watch) -> Result<(Mat<Wide<T>>, Vec<usize>)> {
    Ok(sorted(&upper_gram(a, watch)?))
}

/// [`upper_gram`] of a wider matrix. Rows go by in pieces, from which each block of A^H A gets its products.
fn by_blocks<T: Number>(a: MatRef<'_, T>, watch: &Watch) -> Result<Mat<Wide<T>>> {
    let (m, n) = a.shape();
    let cols = |j: usize| BLOCK.min(n - j);
    let in_columns = (0..n).step_by(BLOCK).flat_map(|j| (0..=j).step_by(BLOCK).map(move |i| (i, j)));
    let mut blocks: Vec<_> = in_columns.map(|(i, j)| (i, j, Mat::<Wide<T>>::zeros(cols(i), cols(j)))).collect();
    let ld = leading_dimension::<Wide<T>>(ROWS.min(m)).unwrap_or(ROWS);
    let mut copy = zeros::<Wide<T>>("rows in double precision", ld.saturating_mul(n))?;
    for start in (0..m).step_by(ROWS) {
        let rows = a.subrows(start, ROWS.min(m - start));
        copy.par_chunks_mut(ld * BLOCK).zip((0..n).into_par_iter().step_by(BLOCK)).for_each(|(to, j)| {
            let to = MatMut::from_column_major_slice_with_stride_mut(to, rows.nrows(), cols(j), ld);
            map_into(rows.subcols(j, cols(j)), to, |x| x.to_wide());
        });
        let x = MatRef::from_column_major_slice_with_stride(&copy, rows.nrows(), n, ld);
        let (whole, one) = (BlockStructure::Rectangular, Wide::<T>::one_impl());
        blocks.par_iter_mut().for_each(|(i, j, sum)| {
            let structure = if i == j { BlockStructure::TriangularUpper } else { whole };
            let (v, x) = (x.subcols(*i, cols(*i)).adjoint(), x.subcols(*j, cols(*j)));
            matmul(sum.as_mut(), structure, Accum::Add, v, whole, x, whole, one, Par::Seq);
        });
        watch.did(2 * rows.nrows() as u64 * (n as u64).pow(2))?;
    }
    let mut sum = Mat::zeros(n, n);
    for (i, j, block) in blocks {
        sum.as_mut().submatrix_mut(i, j, cols(i), cols(j)).copy_from(block);
    }
    Ok(sum)
}

/// [`upper_gram`] of a narrow matrix, run by run.
fn by_runs<T: Number>(a: MatRef<'_, T>, watch: &Watch) -> Result<Mat<Wide<T>>> {
    let (m, n) = a.shape();
    let leaf = (LEAF_BYTES / (n * size_of::<Wide<T>>()) / PADDING * PADDING).clamp(PADDING, LEAF);
    let leaf = leaf.min(m.next_multiple_of(PADDING));
    let in_run = (RUN / n).max(16 * n).max(m / RUNS).max(4 * leaf).next_multiple_of(leaf);
    let rows_contiguous = a.col_stride().unsigned_abs() < a.row_stride().unsigned_abs();
    // Not where whole registers would have half as many products again.
    let as_rows = rows_contiguous && n >= BY_ROWS && 3 * n * n >= 2 * padded_row(n).pow(2);
    let mut runs = in_runs(
        m,
        in_run,
        |work, rows| {
            if as_rows { run_by_rows(a, rows, work, watch) } else { run(a, rows, leaf, work, watch) }
        },
    )?
    .into_iter();
    let mut sum = runs.next().unwrap_or_else(|| Mat::zeros(n, n));
    runs.for_each(|run| sum += run);
    Ok(sum)
}

/// The upper triangle of A^H A over the `rows` of a run; what is below the diagonal has no meaning. `work` is workspace.
fn run<T: Number>(
    a: MatRef<'_, T>,
    rows: Range<usize>,
    leaf: usize,
    work: &mut Aligned<Wide<T>>,
    watch: &Watch,
) -> Result<Mat<Wide<T>>> {
    let (m, n) = a.shape();
    let ld = leading_dimension::<Wide<T>>(leaf).unwrap_or(leaf);
    if work.is_empty() {
        *work = zeros("leaf in double precision", ld * padded_columns(n))?;
    }
    let widen = |x: T::Scalar| x.to_wide();
    let mut sums = Mat::zeros(n, n);
    for start in rows.clone().step_by(leaf) {
        let end = rows.end.min(start + leaf);
        let (rows, next) = (a.subrows(start, end - start), a.subrows(end, leaf.min(m - end)));
        <Wide<T> as ComplexField>::Arch::default().dispatch(AddColumns { rows, leaf: work, ld, sums: &mut sums, next, widen });
        watch.did(2 * (end - start) as u64 * (n as u64).pow(2))?;
    }
    Ok(sums)
}

/// [`run`] for rows that are contiguous.
fn run_by_rows<T: Number>(
    a: MatRef<'_, T>,
    rows: Range<usize>,
    work: &mut Aligned<Wide<T>>,
    watch: &Watch,
) -> Result<Mat<Wide<T>>> {
    let (m, n) = a.shape();
    let cols = padded_row(n);
    let ld = leading_dimension::<Wide<T>>(cols).unwrap_or(cols);
    if work.is_empty() {
        *work = zeros("leaf in double precision", ld * (LEAF_ROWS + 2 * cols))?;
    }
    let (leaf, sums) = work.split_at_mut(ld * LEAF_ROWS);
    sums.fill(Wide::<T>::zero_impl());
    let (sums, of_some) = sums.split_at_mut(ld * cols);
    let widen = |x: T::Scalar| x.to_wide();
    for some in rows.clone().step_by(LEAF_ROWS * LEAVES) {
        let end_of_some = rows.end.min(some + LEAF_ROWS * LEAVES);
        for start in (some..end_of_some).step_by(LEAF_ROWS) {
            let end = end_of_some.min(start + LEAF_ROWS);
            let (rows, next) = (a.subrows(start, end - start), a.subrows(end, LEAF_ROWS.min(m - end)));
            <Wide<T> as ComplexField>::Arch::default().dispatch(AddRows { rows, leaf, ld, sums: of_some, next, widen });
        }
        sums.iter_mut().zip(&mut *of_some).for_each(|(sum, some)| *sum += std::mem::replace(some, Wide::<T>::zero_impl()));
        watch.did(2 * (end_of_some - some) as u64 * (n as u64).pow(2))?;
    }
    Ok(Mat::from_fn(n, n, |i, j| sums[i * ld + j]))
}
