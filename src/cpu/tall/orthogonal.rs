//! Q and R of a tall, narrow matrix by Cholesky's factorisation (CholeskyQR2: Yamamoto, Nakatsukasa, Yanagisawa and Fukaya 2015).
//!
//! ```text
//! A   ~ R1^H R1 = A^H A        R1: n x n; or R1 from QR (tsqr), where A^H A would lose too many digits
//! X   = A R1^-1                by substitution: A + E = X R1 with |E| <= n eps |X| |R1|, whatever A's condition
//! R2^H R2 = X^H X              X is nearly orthonormal, which is checked
//! Q   = X R2^-1,  R = R2 R1    A = Q R. Q is multiplied out where its entries are asked for, not products with it
//! ```
//!
//! The error of X is the condition number of R1 (with normalised columns) times eps. While that is below a half, R2 is well-conditioned,
//! and Q is orthonormal to working precision. All but the substitution are matrix products.

use faer::{
    Accum, Mat, MatMut, MatRef, Par,
    linalg::{
        matmul::triangular::{BlockStructure, matmul as triangular_matmul},
        triangular_inverse::invert_upper_triangular,
        triangular_solve::solve_lower_triangular_in_place,
    },
    prelude::ReborrowMut,
    traits::ComplexField,
};
use num_traits::Float;

use crate::{
    base::{
        error::Result,
        number::{Number, Re, RealElement, Scalar},
        watch::Watch,
        zeros::zeros,
    },
    cpu::{
        simd::convert::{from_entries, scaled_into},
        tall::{
            cholesky_qr::{inverse_square_of, triangle, upper_cholesky},
            gram::upper_gram,
            leaves::Wide,
            tsqr::tsqr,
        },
        vectors::left::by_rows,
    },
};

/// The largest ||B^-1||^2 for which R1 comes from A^H A, where B is A with normalised columns. In double precision A^H A then still has some
/// digits of the smallest direction; in single precision X has.
const WELL_CONDITIONED: f64 = (1u64 << 36) as f64;
/// The largest deviation of X^H X from the identity (Frobenius norm).
const DEVIATION: f64 = 0.5;

/// Q (m x n) and R (n x n) of `scale` times a matrix: Q is the product of two matrices.
pub(crate) struct Thin<T: Number> {
    /// X, whose columns are nearly orthonormal.
    pub x: Mat<T::Scalar>,
    /// R2^-1.
    pub inverse: Mat<T::Scalar>,
    pub r: Mat<T::Scalar>,
    /// Whether R1 came from QR.
    pub preconditioned: bool,
}

/// Q and R of `scale` times the m x n matrix `a`, m >= n >= 1, whose entries are finite. `scale` is a power of two that brings the largest
/// near 1. None if A is too ill-conditioned.
pub(crate) fn orthogonal<T: Number>(a: MatRef<'_, T>, scale: Re<T>, watch: &Watch) -> Result<Option<Thin<T>>> {
    let (m, n) = a.shape();
    let passes = |count: u64| count * (m as u64) * (n as u64).pow(2);
    let squares = triangle(a, WELL_CONDITIONED, watch)?;
    let preconditioned = squares.is_none();
    let r1 = match squares {
        Some(r) => {
            let scale = scale.to_double();
            from_entries(n, n, |i, j| T::Scalar::from_wide(r[(i, j)].times(scale)))
        }
        None => {
            let (r, by) = tsqr(a, watch)?;
            let factor = Re::<T>::from_double(scale.to_double() / by.to_double());
            let eps = <Re<T> as Float>::epsilon().to_double();
            // X would be off by about sqrt(n) eps ||B^-1||.
            if inverse_square_of(r.as_ref()).is_none_or(|square| n as f64 * square * eps * eps > DEVIATION * DEVIATION) {
                return Ok(None);
            }
            from_entries(n, n, |i, j| r[(i, j)].times(factor))
        }
    };
    let mut x = zeros::<T::Scalar>(m, n);
    by_rows(x.as_mut(), |start, mut rows| {
        scaled_into(a.subrows(start, rows.nrows()), rows.rb_mut(), scale);
        solve_lower_triangular_in_place(r1.transpose(), rows.transpose_mut(), Par::Seq);
    });
    watch.did(passes(1))?;
    let gram = upper_gram(x.as_ref(), watch)?;
    let deviation = |i: usize, j: usize| (gram[(i, j)].to_complex() - if i == j { 1.0 } else { 0.0 }).norm_sqr();
    let squares: f64 = (0..n).flat_map(|j| (0..=j).map(move |i| (i, j))).map(|(i, j)| deviation(i, j)).sum();
    if 2.0 * squares > DEVIATION * DEVIATION || squares.is_nan() {
        return Ok(None);
    }
    let Some(r2) = upper_cholesky(&gram) else { return Ok(None) };
    let mut inverse = Mat::<Wide<T>>::zeros(n, n);
    invert_upper_triangular(inverse.as_mut(), r2.as_ref(), Par::Seq);
    let inverse = from_entries(n, n, |i, j| if i <= j { T::Scalar::from_wide(inverse[(i, j)]) } else { T::Scalar::zero_impl() });
    Ok(Some(Thin { x, inverse, r: product_of_triangles::<T>(r2.as_ref(), r1.as_ref()), preconditioned }))
}

/// R2 R1, upper triangular, with the products in double precision.
fn product_of_triangles<T: Number>(r2: MatRef<'_, Wide<T>>, r1: MatRef<'_, T::Scalar>) -> Mat<T::Scalar> {
    let n = r1.ncols();
    let wide = from_entries(n, n, |i, j| r1[(i, j)].to_wide());
    let mut product = Mat::<Wide<T>>::zeros(n, n);
    let upper = BlockStructure::TriangularUpper;
    let to: MatMut<'_, Wide<T>> = product.as_mut();
    triangular_matmul(to, upper, Accum::Replace, r2, upper, wide.as_ref(), upper, Wide::<T>::one_impl(), Par::Seq);
    from_entries(n, n, |i, j| if i <= j { T::Scalar::from_wide(product[(i, j)]) } else { T::Scalar::zero_impl() })
}
