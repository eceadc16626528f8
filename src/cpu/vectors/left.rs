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

use std::cmp::Ordering;

use faer::{
    Accum, Mat, MatMut, MatRef, Par,
    linalg::matmul::{
        matmul,
        triangular::{BlockStructure, matmul as triangular_matmul},
    },
    prelude::{Reborrow, ReborrowMut},
    traits::ComplexField,
};
use num_traits::Float;
use rayon::prelude::*;

use crate::base::{
    error::Result,
    number::{Number, Re, RealElement, Scalar},
    view::map_into,
    watch::Watch,
};

/// Rows of a task in products with A, W and U. Fixed, so that results do not depend on the number of threads.
const ROWS: usize = 256;
/// Rows of a partial sum of W^H W.
const ROWS_OF_SUM: usize = 4096;
/// Columns of values down to this part of the largest are corrected by Gram-Schmidt: the cube root of the type's precision. The squares of
/// what they lack in orthogonality are then below the precision.
const LEAST: [f64; 2] = [1e-3, 1e-6];

/// U of the m x n matrix `a`, m >= n, for its k leading `values` and right vectors `v` (n x k). `scale` is a power of two that brings the largest
/// entry near 1.
pub(crate) fn left_vectors<T: Number>(
    a: MatRef<'_, T>,
    scale: Re<T>,
    values: &[Re<T>],
    v: MatRef<'_, T::Scalar>,
    watch: &Watch,
) -> Result<Mat<T::Scalar>> {
    let (m, k) = (a.nrows(), v.ncols());
    let mut u = Mat::<T::Scalar>::zeros(m, k);
    by_rows(u.as_mut(), |start, rows| {
        let mut scaled = Mat::<T::Scalar>::zeros(rows.nrows(), a.ncols());
        map_into(a.subrows(start, rows.nrows()), scaled.as_mut(), |x| x.times(scale));
        matmul(rows, Accum::Replace, scaled.as_ref(), v, T::Scalar::one_impl(), Par::Seq);
    });
    watch.check()?;
    let least = LEAST[usize::from(T::Scalar::IS_DOUBLE)] * values.first().map_or(0.0, |s| s.to_double());
    let large = values.iter().take_while(|s| s.to_double() > 0.0 && s.to_double() >= least).count().min(k);
    orthonormalise(u.as_mut().subcols_mut(0, large));
    watch.check()?;
    if large < k {
        complete(u.as_mut(), large);
    }
    Ok(u)
}

/// Calls `f` with the first row and the rows of each block of rows, in parallel.
fn by_rows<T: Scalar>(of: MatMut<'_, T>, f: impl Fn(usize, MatMut<'_, T>) + Sync) {
    let (mut blocks, mut rest) = (Vec::new(), of);
    while rest.nrows() > 0 {
        let rows = ROWS.min(rest.nrows());
        let (block, others) = rest.split_at_row_mut(rows);
        blocks.push(block);
        rest = others;
    }
    blocks.into_par_iter().enumerate().for_each(|(k, block)| f(k * ROWS, block));
}

/// The upper triangle of W^H W.
fn upper_gram<T: Scalar>(w: MatRef<'_, T>) -> Mat<T> {
    let k = w.ncols();
    let add = |sum: MatMut<'_, T>, w: MatRef<'_, T>, accum, par| {
        let (upper, whole) = (BlockStructure::TriangularUpper, BlockStructure::Rectangular);
        triangular_matmul(sum, upper, accum, w.adjoint(), whole, w, whole, T::one_impl(), par);
    };
    let mut sum = Mat::zeros(k, k);
    if w.nrows() <= 2 * ROWS_OF_SUM {
        add(sum.as_mut(), w, Accum::Replace, Par::rayon(0));
        return sum;
    }
    let part = |start: usize| {
        let mut part = Mat::zeros(k, k);
        add(part.as_mut(), w.subrows(start, ROWS_OF_SUM.min(w.nrows() - start)), Accum::Replace, Par::Seq);
        part
    };
    let parts: Vec<Mat<T>> = (0..w.nrows()).into_par_iter().step_by(ROWS_OF_SUM).map(part).collect();
    parts.iter().for_each(|part| sum += part);
    sum
}

/// Makes columns that are nearly orthogonal orthonormal, each corrected by those before it.
fn orthonormalise<T: Scalar>(mut w: MatMut<'_, T>) {
    let k = w.ncols();
    if k == 0 {
        return;
    }
    // W <- W D (I - C), with the inverse lengths D, and C from G = D W^H W D.
    let mut factor = upper_gram(w.rb());
    let lengths: Vec<f64> = (0..k).map(|j| factor[(j, j)].to_complex().re.sqrt()).collect();
    let real = |x: f64| T::from_real_impl(&Re::<T>::from_double(x));
    for j in 0..k {
        for i in 0..j {
            factor[(i, j)] = -factor[(i, j)].times(Re::<T>::from_double(1.0 / (lengths[i] * lengths[i] * lengths[j])));
        }
        factor[(j, j)] = real(1.0 / lengths[j]);
    }
    by_rows(w.rb_mut(), |_, mut rows| {
        let copy = rows.to_owned();
        let (upper, whole) = (BlockStructure::TriangularUpper, BlockStructure::Rectangular);
        triangular_matmul(
            rows.rb_mut(),
            whole,
            Accum::Replace,
            copy.as_ref(),
            whole,
            factor.as_ref(),
            upper,
            T::one_impl(),
            Par::Seq,
        );
    });
    to_unit_length(w);
}

/// Divides each column by its length, which is summed in double precision.
fn to_unit_length<T: Scalar>(of: MatMut<'_, T>) {
    of.par_col_iter_mut().for_each(|column| {
        let Some(column) = column.try_as_col_major_mut() else { return };
        let column = column.as_slice_mut();
        let squares = column.iter().map(|x| x.to_complex().norm_sqr()).sum::<f64>();
        let inverse = 1.0 / squares.sqrt();
        column.iter_mut().for_each(|x| *x = T::from_wide(x.to_wide().times(inverse)));
    });
}

/// Replaces the columns from `first` on by orthonormal ones that are orthogonal to those before, which are orthonormal. Each is near the
/// direction that its column has, where it has one.
fn complete<T: Scalar>(u: MatMut<'_, T>, first: usize) {
    let (u1, mut y) = u.split_at_col_mut(first);
    let u1 = u1.rb();
    for _ in 0..2 {
        project(u1, y.rb_mut());
        normalise(y.rb_mut());
        let q = thin_q(y.rb());
        y.copy_from(&q);
    }
    let mut inside = Mat::zeros(first, y.ncols());
    matmul(inside.as_mut(), Accum::Replace, u1.adjoint(), y.rb(), T::one_impl(), Par::rayon(0));
    let overlap = inside.norm_max().to_double();
    // A column without a direction of its own gets an arbitrary one from QR, which may lie among those before: the reflectors of all columns
    // find one that does not.
    if overlap.partial_cmp(&(64.0 * Re::<T>::epsilon().to_double())) != Some(Ordering::Less) {
        let mut all = Mat::zeros(u1.nrows(), first + y.ncols());
        all.as_mut().subcols_mut(0, first).copy_from(u1);
        all.as_mut().subcols_mut(first, y.ncols()).copy_from(y.rb());
        y.copy_from(thin_q(all.as_ref()).as_ref().subcols(first, y.ncols()));
    }
}

/// Y <- Y - U (U^H Y).
fn project<T: Scalar>(u: MatRef<'_, T>, y: MatMut<'_, T>) {
    let mut inside = Mat::zeros(u.ncols(), y.ncols());
    matmul(inside.as_mut(), Accum::Replace, u.adjoint(), y.rb(), T::one_impl(), Par::rayon(0));
    matmul(y, Accum::Add, u, inside.as_ref(), -T::one_impl(), Par::rayon(0));
}

/// Divides each column by its largest entry, so that squares neither underflow nor overflow. Zero columns stay.
fn normalise<T: Scalar>(mut y: MatMut<'_, T>) {
    for j in 0..y.ncols() {
        let largest = y.rb().col(j).norm_max().to_double();
        // A power of two, and no more than the type has.
        let factor = (-largest.log2().ceil()).clamp(-120.0, 120.0).exp2();
        if largest > 0.0 {
            y.rb_mut().col_mut(j).iter_mut().for_each(|x| *x = x.times(Re::<T>::from_double(factor)));
        }
    }
}

/// Q of the QR factorisation with a nonnegative diagonal of R.
fn thin_q<T: Scalar>(y: MatRef<'_, T>) -> Mat<T> {
    let qr = y.qr();
    let (mut q, r) = (qr.compute_thin_Q(), qr.thin_R());
    for j in 0..q.ncols() {
        let x = r[(j, j)].to_complex();
        if x.norm() > 0.0 {
            let phase = T::from_complex(x / x.norm());
            q.as_mut().col_mut(j).iter_mut().for_each(|q| *q *= phase);
        }
    }
    q
}

/// Orthonormal columns that complete the k orthonormal columns of `u` (m x k) to a unitary matrix: m x (m - k).
pub(crate) fn complement<T: Scalar>(u: MatRef<'_, T>) -> Mat<T> {
    let (m, k) = u.shape();
    u.qr().compute_Q().as_ref().subcols(k, m - k).to_owned()
}
