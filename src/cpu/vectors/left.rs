//! The left singular vectors of a matrix from its right ones.
//!
//! The columns of W = A V are the left vectors times their values. Divided by their lengths they are orthogonal up to eps sigma_1 / sigma_j.
//! One first-order Gram-Schmidt step in descending order makes those of large values orthogonal: with G = U^H U,
//!
//! ```text
//! U <- U - U (strict upper part of G + half of its diagonal less one)
//! ```
//!
//! Each column is corrected by those of larger values only, so that A = U S V^H stays as accurate. Columns of tiny values are made orthogonal to
//! all others by projection and Householder QR, in the same order, so that each stays near w_j / sigma_j. Exact zeros, repeated values and
//! deficient rank need no other treatment. Nothing of this needs the left reflectors, or the orthogonal factor of a tall matrix.

use faer::{
    Accum, ColMut, Conj, Mat, MatMut, MatRef, Par,
    dyn_stack::{MemBuffer, MemStack},
    linalg::{
        householder::{
            apply_block_householder_sequence_on_the_left_in_place_scratch,
            apply_block_householder_sequence_on_the_left_in_place_with_conj,
            apply_block_householder_sequence_transpose_on_the_left_in_place_with_conj,
        },
        matmul::{
            matmul,
            triangular::{BlockStructure, matmul as triangular_matmul},
        },
        qr::no_pivoting::factor::{qr_in_place, qr_in_place_scratch, recommended_block_size},
    },
    prelude::{Reborrow, ReborrowMut},
    traits::ComplexField,
};
use num_traits::Float;

use crate::{
    algo::vectors::large_values,
    base::{
        error::Result,
        number::{Number, Re, RealElement, Scalar},
        parallel::{col_chunks, each, map, row_chunks},
        watch::Watch,
        zeros::{each_column, zeros},
    },
    cpu::simd::convert::{from_entries, scaled_into},
    tile::band::Band,
};

/// Rows of a task in products with A, W and U. Fixed, so that results do not depend on the number of threads.
const TASK_ROWS: usize = 256;
/// Rows and columns of a task of W^H W.
const ROWS_OF_SUM: usize = 4096;
/// Partial sums that are held at a time.
const PARTS: usize = 16;
const COLUMNS: usize = 128;
/// Rows of a block of W^H W: a task copies the columns of W that these are the products of, and reads the others where they are.
const ROWS_OF_GRAM: usize = 64;
/// Columns of a panel of a QR factorisation.
const PANEL: usize = 64;
/// Entries that one thread normalises in about the time that waking another takes.
const SMALL: usize = 1 << 15;

/// Most projections of columns of tiny values.
const ROUNDS: usize = 4;

/// U of the m x n matrix `a`, m >= n, for its k leading `values` and right vectors `v` (n x k). `scale` is a power of two that brings the largest
/// entry near 1.
pub(crate) fn left_vectors<T: Number>(
    a: MatRef<'_, T>,
    scale: Re<T>,
    values: &[Re<T>],
    v: MatRef<'_, T::Scalar>,
    watch: &Watch,
) -> Result<Mat<T::Scalar>> {
    let mut u = zeros::<T::Scalar>(a.nrows(), v.ncols());
    by_rows(u.as_mut(), |start, rows| {
        let mut scaled = Mat::<T::Scalar>::zeros(rows.nrows(), a.ncols());
        scaled_into(a.subrows(start, rows.nrows()), scaled.as_mut(), scale);
        matmul(rows, Accum::Replace, scaled.as_ref(), v, T::Scalar::one_impl(), Par::Seq);
    });
    to_left_vectors::<T>(u.as_mut(), values, watch)?;
    Ok(u)
}

/// [`left_vectors`] of a band.
pub(crate) fn left_vectors_of_band<T: Number>(
    band: &Band<T>,
    scale: Re<T>,
    values: &[Re<T>],
    v: MatRef<'_, T::Scalar>,
    watch: &Watch,
) -> Result<Mat<T::Scalar>> {
    let n = band.n();
    let mut u = zeros::<T::Scalar>(n, v.ncols());
    by_rows(u.as_mut(), |start, rows| {
        let cols = (rows.nrows() + band.bandwidth()).min(n - start);
        let scaled = from_entries(rows.nrows(), cols, |i, j| band.get(start + i, start + j).widen().times(scale));
        matmul(rows, Accum::Replace, scaled.as_ref(), v.subrows(start, cols), T::Scalar::one_impl(), Par::Seq);
    });
    to_left_vectors::<T>(u.as_mut(), values, watch)?;
    Ok(u)
}

/// U from W = A V, in its place.
fn to_left_vectors<T: Number>(mut w: MatMut<'_, T::Scalar>, values: &[Re<T>], watch: &Watch) -> Result<()> {
    watch.check()?;
    let large = large_values(T::KIND, values, w.ncols());
    orthonormalise(w.rb_mut().subcols_mut(0, large));
    watch.check()?;
    if large < w.ncols() {
        complete(w, large);
    }
    Ok(())
}

/// Calls `f` with the first row and the rows of each block of rows, in parallel.
pub(crate) fn by_rows<T: Scalar>(of: MatMut<'_, T>, f: impl Fn(usize, MatMut<'_, T>) + Sync) {
    let (mut blocks, mut rest) = (Vec::new(), of);
    while rest.nrows() > 0 {
        let rows = TASK_ROWS.min(rest.nrows());
        let (block, others) = rest.split_at_row_mut(rows);
        blocks.push(block);
        rest = others;
    }
    if blocks.len() == 1 {
        // Handing one block to the pool takes longer than many small matrices do.
        return blocks.into_iter().for_each(|block| f(0, block));
    }
    each(blocks.into_iter().enumerate(), |(k, block)| f(k * TASK_ROWS, block));
}

/// The upper triangle of W^H W, and a few entries below it.
fn upper_gram<T: Scalar>(w: MatRef<'_, T>) -> Mat<T> {
    let (m, k) = w.shape();
    let of_rows = |start: usize| {
        let w = w.subrows(start, ROWS_OF_SUM.min(m - start));
        let mut part = zeros::<T>(k, k);
        // Handing narrow ones to the pool takes too long.
        let at_once = if k <= COLUMNS { k.max(1) } else { ROWS_OF_GRAM };
        let multiply = |(block, part): (usize, MatMut<'_, T>)| {
            let (first, rows) = (block * at_once, part.nrows());
            let (part, others) = (part.subcols_mut(first, k - first), w.subcols(first, k - first));
            matmul(part, Accum::Replace, w.subcols(first, rows).adjoint(), others, T::one_impl(), Par::Seq);
        };
        each(row_chunks(part.as_mut(), at_once).enumerate(), multiply);
        part
    };
    if m <= ROWS_OF_SUM {
        return of_rows(0);
    }
    // As many parts at a time as keep the threads busy, so that they take little memory.
    let mut sum = zeros::<T>(k, k);
    for first in (0..m).step_by(PARTS * ROWS_OF_SUM) {
        let parts = (m - first).div_ceil(ROWS_OF_SUM).min(PARTS);
        let parts = map(parts, |k| of_rows(first + k * ROWS_OF_SUM));
        each_column(&mut sum, &|j, column| {
            for part in &parts {
                column.iter_mut().zip(part.col_as_slice(j)).for_each(|(sum, x)| *sum += *x);
            }
        });
    }
    sum
}

/// Makes columns that are nearly orthogonal orthonormal, each corrected by those before it.
pub(crate) fn orthonormalise<T: Scalar>(mut w: MatMut<'_, T>) {
    let k = w.ncols();
    if k == 0 {
        return;
    }
    // W <- W D (I - C), with the inverse lengths D, and C from G = D W^H W D.
    let mut factor = upper_gram(w.rb());
    let lengths: Vec<f64> = (0..k).map(|j| factor[(j, j)].to_complex().re.sqrt()).collect();
    let squares: Vec<f64> = lengths.iter().map(|length| length * length).collect();
    let scale = |first: usize, columns: MatMut<'_, T>| {
        for (j, column) in (first..).zip(columns.col_iter_mut()) {
            let Some(column) = column.try_as_col_major_mut() else { return };
            let column = column.as_slice_mut();
            negate_and_divide(&mut column[..j], &squares, lengths[j]);
            column[j] = T::from_real_impl(&Re::<T>::from_double(1.0 / lengths[j]));
        }
    };
    let at_once = SMALL.div_ceil(k);
    match k <= at_once {
        true => scale(0, factor.as_mut()),
        false => each(col_chunks(factor.as_mut(), at_once).enumerate(), |(block, columns)| scale(block * at_once, columns)),
    }
    multiply_by_upper(w.rb_mut(), factor.as_ref());
    to_unit_length(w);
}

/// Each x becomes -x over its square and `length`.
fn negate_and_divide<T: Scalar>(column: &mut [T], squares: &[f64], length: f64) {
    pulp::Arch::new().dispatch(
        #[inline(always)]
        || {
            for (x, square) in column.iter_mut().zip(squares) {
                *x = -x.times(Re::<T>::from_double(1.0 / (square * length)));
            }
        },
    );
}

/// X F, with an upper triangular F.
pub(crate) fn times_upper<T: Scalar>(x: MatRef<'_, T>, factor: MatRef<'_, T>) -> Mat<T> {
    let (upper, whole) = (BlockStructure::TriangularUpper, BlockStructure::Rectangular);
    let mut product = zeros::<T>(x.nrows(), factor.ncols());
    by_rows(product.as_mut(), |start, rows| {
        let x = x.subrows(start, rows.nrows());
        triangular_matmul(rows, whole, Accum::Replace, x, whole, factor, upper, T::one_impl(), Par::Seq);
    });
    product
}

/// W <- W F, with an upper triangular F.
fn multiply_by_upper<T: Scalar>(w: MatMut<'_, T>, factor: MatRef<'_, T>) {
    let (upper, whole) = (BlockStructure::TriangularUpper, BlockStructure::Rectangular);
    by_rows(w, |_, rows| {
        let copy = rows.rb().to_owned();
        triangular_matmul(rows, whole, Accum::Replace, copy.as_ref(), whole, factor, upper, T::one_impl(), Par::Seq);
    });
}

/// Divides each column by its length, which is summed in double precision.
fn to_unit_length<T: Scalar>(of: MatMut<'_, T>) {
    let at_once = SMALL.div_ceil(of.nrows().max(1)).min(of.ncols());
    by_columns(of, at_once, |mut columns| {
        for j in 0..columns.ncols() {
            to_unit(columns.rb_mut().col_mut(j));
        }
    });
}

/// Divides a column by its length.
fn to_unit<T: Scalar>(column: ColMut<'_, T>) {
    let Some(column) = column.try_as_col_major_mut() else { return };
    let column = column.as_slice_mut();
    let squares = column.iter().map(|x| x.to_complex().norm_sqr()).sum::<f64>();
    let inverse = 1.0 / squares.sqrt();
    column.iter_mut().for_each(|x| *x = T::from_wide(x.to_wide().times(inverse)));
}

/// Replaces the columns from `first` on by orthonormal ones that are orthogonal to those before, which are orthonormal. Each is near the
/// direction that its column has, where it has one.
pub(crate) fn complete<T: Scalar>(u: MatMut<'_, T>, first: usize) {
    let (u1, mut y) = u.split_at_col_mut(first);
    let u1 = u1.rb();
    // Twice is enough, unless QR has enlarged what two nearly parallel columns have in common with those before.
    for round in 1..=ROUNDS {
        project(u1, y.rb_mut());
        normalise(y.rb_mut());
        to_q(y.rb_mut());
        if round > 1 && overlap(u1, y.rb()) <= 4.0 * Re::<T>::epsilon().to_double() {
            // Reflectors leave a few units in the last place, of which a short column's bound is not much more.
            project(u1, y.rb_mut());
            return to_unit_length(y);
        }
    }
    // A column without a direction of its own gets an arbitrary one from QR, which may lie among those before: the reflectors of all columns
    // find one that does not.
    let mut all = Mat::zeros(u1.nrows(), first + y.ncols());
    all.as_mut().subcols_mut(0, first).copy_from(u1);
    all.as_mut().subcols_mut(first, y.ncols()).copy_from(y.rb());
    to_q(all.as_mut());
    y.copy_from(all.as_ref().subcols(first, y.ncols()));
}

/// The largest entry of U^H Y, infinite if one is NaN.
fn overlap<T: Scalar>(u: MatRef<'_, T>, y: MatRef<'_, T>) -> f64 {
    let of_block = |k: usize| {
        let first = k * COLUMNS;
        let y = y.subcols(first, COLUMNS.min(y.ncols() - first));
        let mut inside = Mat::zeros(u.ncols(), y.ncols());
        matmul(inside.as_mut(), Accum::Replace, u.adjoint(), y, T::one_impl(), Par::Seq);
        let largest = inside.norm_max().to_double();
        if largest.is_nan() { f64::INFINITY } else { largest }
    };
    map(y.ncols().div_ceil(COLUMNS), of_block).into_iter().fold(0.0, f64::max)
}

/// Y <- Y - U (U^H Y).
fn project<T: Scalar>(u: MatRef<'_, T>, y: MatMut<'_, T>) {
    by_columns(y, COLUMNS, |y| {
        let mut inside = Mat::zeros(u.ncols(), y.ncols());
        matmul(inside.as_mut(), Accum::Replace, u.adjoint(), y.rb(), T::one_impl(), Par::Seq);
        matmul(y, Accum::Add, u, inside.as_ref(), -T::one_impl(), Par::Seq);
    });
}

/// Calls `f` with each block of `cols` columns, in parallel.
fn by_columns<T: Scalar>(of: MatMut<'_, T>, cols: usize, f: impl Fn(MatMut<'_, T>) + Sync + Send) {
    match of.ncols() {
        0 => (),
        all if all <= cols => f(of),
        _ => each(col_chunks(of, cols), f),
    }
}

/// Divides each column by its largest entry, so that squares neither underflow nor overflow. Zero columns stay.
fn normalise<T: Scalar>(mut y: MatMut<'_, T>) {
    for j in 0..y.ncols() {
        let largest = y.rb().col(j).norm_max().to_double();
        // A power of two that the type has.
        let limit = f64::from(Re::<T>::exponent_limit());
        let factor = (-largest.log2().ceil()).clamp(-limit, limit).exp2();
        if largest > 0.0 {
            y.rb_mut().col_mut(j).iter_mut().for_each(|x| *x = x.times(Re::<T>::from_double(factor)));
        }
    }
}

/// The QR factorisation of `y` (m x k, m >= k), in its place, by panels of [`PANEL`] columns. One thread factors a panel. Its reflectors are
/// applied to blocks of columns of a fixed width, so that the result does not depend on the number of threads. Returns the triangular
/// factors of each panel's reflectors.
fn qr<T: Scalar>(mut y: MatMut<'_, T>) -> Vec<Mat<T>> {
    let (m, k) = y.shape();
    let mut factor_panel = |first: usize| {
        let width = PANEL.min(k - first);
        let (mut panel, rest) = y.rb_mut().get_mut(first.., first..).split_at_col_mut(width);
        let block = recommended_block_size::<T>(m - first, width);
        let mut factors = Mat::zeros(block, width);
        let mut memory = MemBuffer::new(qr_in_place_scratch::<T>(m - first, width, block, Par::Seq, Default::default()));
        qr_in_place(panel.rb_mut(), factors.as_mut(), Par::Seq, MemStack::new(&mut memory), Default::default());
        by_columns(rest, COLUMNS, |x| apply_panel(panel.rb(), factors.as_ref(), true, x));
        factors
    };
    let mut factors = Vec::with_capacity(k.div_ceil(PANEL));
    for first in (0..k).step_by(PANEL) {
        factors.push(factor_panel(first));
    }
    factors
}

/// X <- Q X, with the Q of [`qr`].
fn apply_q<T: Scalar>(reflectors: MatRef<'_, T>, factors: &[Mat<T>], x: MatMut<'_, T>) {
    by_columns(x, COLUMNS, |mut x| {
        for (panel, factors) in factors.iter().enumerate().rev() {
            let first = panel * PANEL;
            let reflectors = reflectors.get(first.., first..first + factors.ncols());
            apply_panel(reflectors, factors.as_ref(), false, x.rb_mut().get_mut(first.., ..));
        }
    });
}

/// X <- Q X, or X <- Q^H X (`adjoint`), with the Q of one panel.
fn apply_panel<T: Scalar>(reflectors: MatRef<'_, T>, factors: MatRef<'_, T>, adjoint: bool, x: MatMut<'_, T>) {
    let (m, block, k) = (reflectors.nrows(), factors.nrows(), x.ncols());
    // Both functions need this much.
    let mut memory = MemBuffer::new(apply_block_householder_sequence_on_the_left_in_place_scratch::<T>(m, block, k));
    let stack = MemStack::new(&mut memory);
    if adjoint {
        let transpose = apply_block_householder_sequence_transpose_on_the_left_in_place_with_conj;
        transpose(reflectors, factors, Conj::Yes, x, Par::Seq, stack);
    } else {
        apply_block_householder_sequence_on_the_left_in_place_with_conj(reflectors, factors, Conj::No, x, Par::Seq, stack);
    }
}

/// Replaces `y` by the Q of its QR factorisation with a nonnegative diagonal of R.
fn to_q<T: Scalar>(mut y: MatMut<'_, T>) {
    let (m, k) = y.shape();
    let factors = qr(y.rb_mut());
    let mut q = Mat::<T>::identity(m, k);
    apply_q(y.rb(), &factors, q.as_mut());
    for j in 0..k {
        let x = y[(j, j)].to_complex();
        if x.norm() > 0.0 {
            let phase = T::from_complex(x / x.norm());
            for q in q.col_as_slice_mut(j) {
                *q *= phase;
            }
        }
    }
    y.copy_from(&q);
}

/// Orthonormal columns that complete the k orthonormal columns of `u` (m x k) to a unitary matrix: m x (m - k).
pub(crate) fn complement<T: Scalar>(u: MatRef<'_, T>) -> Mat<T> {
    let (m, k) = u.shape();
    let mut reflectors = u.to_owned();
    let factors = qr(reflectors.as_mut());
    let mut others = from_entries(m, m - k, |i, j| if i == k + j { T::one_impl() } else { T::zero_impl() });
    apply_q(reflectors.as_ref(), &factors, others.as_mut());
    others
}
