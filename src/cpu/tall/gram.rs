//! A^H A of a tall, narrow matrix, computed in double precision in one pass.
//!
//! The singular values of A are the square roots of its eigenvalues. It takes half the flops of a QR factorisation, and has no narrow
//! panels.
//!
//! For a matrix in single or half precision, products of two 24-bit numbers are exact in double precision, and no square overflows or
//! underflows. Only the sums are rounded. The error of an eigenvalue is a small multiple of eps_64 ||A||^2. That of a singular value is at
//! most the square root of it, some 1e-8 ||A||, which single precision does not resolve; for values above 1e-4 ||A|| it is much less. For a
//! matrix in double precision, half of the digits may be lost: [`cholesky_qr`](super::cholesky_qr) detects this.

use std::ops::Range;

use faer::{
    Accum, Mat, MatMut, MatRef, Par,
    linalg::matmul::triangular::{BlockStructure, matmul},
    traits::{ComplexField, SimdArch},
};

use crate::{
    base::{
        error::Result,
        number::{Number, Scalar},
        parallel::each,
        registers::Choices,
        watch::Watch,
    },
    cpu::{
        qr::body::PADDING,
        simd::{
            aligned::{Aligned, zeros},
            convert::{from_entries, to_wide},
        },
        storage::leading_dimension,
        tall::{
            leaves::{RUNS, Wide, in_runs},
            products::{AddColumns, AddRows, padded_columns, padded_row},
        },
    },
};

/// A leaf has at most [`Choices::leaf_rows`] rows, so that eight real columns of it fit in the L1 cache, and at most `LEAF_BYTES`, half of an
/// L2 cache of 1 MiB. The sum in a lane is a chain of as many products as a leaf has registers of rows. Then the leaves of a run are summed
/// in sequence, and then the runs. In double precision the rounding errors of these chains are those of R.
const LEAF_BYTES: usize = 1 << 19;
/// Fewest columns for which a matrix with contiguous rows is processed by rows: two AVX-512 registers.
const BY_ROWS: usize = 16;
/// Rows of a leaf in that case, and the length of its chains of products. With 64 columns such a leaf fills an L1 cache of 32 KiB. `LEAVES`
/// leaves are summed first, and this sum is added to that of the run, like that of one leaf by columns.
const LEAF_ROWS: usize = 64;
const LEAVES: usize = 8;
/// Fewest entries of a run. A run is one task.
const RUN: usize = 1 << 17;

/// Columns above which tasks are blocks of A^H A, and faer's matrix product is used. The leaf of a run would have too few rows.
pub(crate) const NARROW: usize = 320;
/// Columns of a block: a whole number of registers in every kernel of the matrix product.
const BLOCK: usize = 96;
/// Rows multiplied at a time. A sum is a chain of this many products, and then of as many partial sums as there are pieces of rows.
const CHAIN_ROWS: usize = 512;

/// The upper triangle of A^H A (n x n) of the m x n matrix `a`, m >= n >= 1. Entries below the diagonal are unspecified. The result does
/// not depend on the number of threads. If an entry of `a` is not finite, one of the diagonal is not finite either.
pub(crate) fn upper_gram<T: Number>(a: MatRef<'_, T>, watch: &Watch) -> Result<Mat<Wide<T>>> {
    if a.ncols() <= NARROW { by_runs(a, watch) } else { by_blocks(a, watch) }
}

/// P^T A^H A P with its diagonal descending, from [`upper_gram`], and P as a permutation of columns. A reduction that starts with the large
/// columns keeps the digits of the small ones.
pub(crate) fn sorted<W: Scalar>(upper: &Mat<W>) -> (Mat<W>, Vec<usize>) {
    let mut diagonal = Vec::with_capacity(upper.ncols());
    for j in 0..upper.ncols() {
        diagonal.push(upper[(j, j)].to_complex().re);
    }
    let order = descending(&diagonal);
    let sorted = from_entries(upper.nrows(), upper.ncols(), |i, j| match (order[i], order[j]) {
        (i, j) if i <= j => upper[(i, j)],
        (i, j) => W::conj_impl(&upper[(j, i)]),
    });
    (sorted, order)
}

/// The indices of `values` from the largest to the smallest.
fn descending(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&i, &j| values[j].total_cmp(&values[i]));
    order
}

/// P^T A^H A P with its diagonal descending, and P as a permutation of columns.
pub(crate) fn gram<T: Number>(a: MatRef<'_, T>, watch: &Watch) -> Result<(Mat<Wide<T>>, Vec<usize>)> {
    Ok(sorted(&upper_gram(a, watch)?))
}

/// [`upper_gram`] of a wider matrix. Each piece of rows contributes its products to every block of A^H A.
fn by_blocks<T: Number>(a: MatRef<'_, T>, watch: &Watch) -> Result<Mat<Wide<T>>> {
    let (m, n) = a.shape();
    let cols = |j: usize| BLOCK.min(n - j);
    let in_columns = (0..n).step_by(BLOCK).flat_map(|j| (0..=j).step_by(BLOCK).map(move |i| (i, j)));
    let mut blocks: Vec<_> = in_columns.map(|(i, j)| (i, j, Mat::<Wide<T>>::zeros(cols(i), cols(j)))).collect();
    let ld = leading_dimension::<Wide<T>>(CHAIN_ROWS.min(m)).unwrap_or(CHAIN_ROWS);
    let mut copy = zeros::<Wide<T>>("rows in double precision", ld.saturating_mul(n))?;
    for start in (0..m).step_by(CHAIN_ROWS) {
        let rows = a.subrows(start, CHAIN_ROWS.min(m - start));
        each(copy.chunks_mut(ld * BLOCK).zip((0..n).step_by(BLOCK)), |(to, j)| {
            let to = MatMut::from_column_major_slice_with_stride_mut(to, rows.nrows(), cols(j), ld);
            to_wide(rows.subcols(j, cols(j)), to);
        });
        let x = MatRef::from_column_major_slice_with_stride(&copy, rows.nrows(), n, ld);
        let (whole, one) = (BlockStructure::Rectangular, Wide::<T>::one_impl());
        each(&mut blocks, |(i, j, sum)| {
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
    let leaf = (LEAF_BYTES / (n * size_of::<Wide<T>>()) / PADDING * PADDING).clamp(PADDING, Choices::here().leaf_rows);
    let leaf = leaf.min(m.next_multiple_of(PADDING));
    let in_run = (RUN / n).max(16 * n).max(m / RUNS).max(4 * leaf).next_multiple_of(leaf);
    let rows_contiguous = a.col_stride().unsigned_abs() < a.row_stride().unsigned_abs();
    // Not if padding rows to whole registers would take more than 1.5 times the products.
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

/// The upper triangle of A^H A over the `rows` of a run. Entries below the diagonal are unspecified. `work` is workspace.
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
    let mut sums = Mat::zeros(n, n);
    for start in rows.clone().step_by(leaf) {
        let end = rows.end.min(start + leaf);
        let (rows, next) = (a.subrows(start, end - start), a.subrows(end, leaf.min(m - end)));
        <Wide<T> as ComplexField>::Arch::default().dispatch(AddColumns { rows, leaf: work, ld, sums: &mut sums, next });
        watch.did(2 * (end - start) as u64 * (n as u64).pow(2))?;
    }
    Ok(sums)
}

/// [`run`] for contiguous rows.
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
    for some in rows.clone().step_by(LEAF_ROWS * LEAVES) {
        let end_of_some = rows.end.min(some + LEAF_ROWS * LEAVES);
        for start in (some..end_of_some).step_by(LEAF_ROWS) {
            let end = end_of_some.min(start + LEAF_ROWS);
            let (rows, next) = (a.subrows(start, end - start), a.subrows(end, LEAF_ROWS.min(m - end)));
            <Wide<T> as ComplexField>::Arch::default().dispatch(AddRows { rows, leaf, ld, sums: of_some, next });
        }
        for (sum, some) in sums.iter_mut().zip(&mut *of_some) {
            *sum += std::mem::replace(some, Wide::<T>::zero_impl());
        }
        watch.did(2 * (end_of_some - some) as u64 * (n as u64).pow(2))?;
    }
    Ok(from_entries(n, n, |i, j| sums[i * ld + j]))
}
