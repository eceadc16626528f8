//! The triangular factor of a tall, narrow matrix in double precision from A^H A, where that is as good as QR.
//!
//! With A = B D, the columns of B of length 1 and D diagonal, A^H A is found as D (B^H B + E) D, where E is the rounding of sums of products: its
//! norm e is a small multiple of eps n. Its Cholesky factor R then has values that differ from A's by at most e / 2 ||B^-1||^2 of
//! themselves (Ostrowski 1959), and by at most e / 2 sigma_1^2 / sigma, and so by at most e / 2 ||B^-1|| sigma_1 (the smaller one of the two
//! is not above their geometric mean). What D is makes no difference. So R will do wherever ||B^-1|| is a small number, and that is seen from
//! R itself. It takes half of the flops of Householder's QR, in sums that no reflector waits for.

use faer::{
    Mat, MatRef, Par,
    dyn_stack::{MemBuffer, MemStack},
    linalg::{
        cholesky::llt::factor::{LltRegularization, cholesky_in_place, cholesky_in_place_scratch},
        triangular_inverse::invert_lower_triangular,
    },
    traits::ComplexField,
};

use super::gram::{Wide, gram};
use crate::{
    error::Result,
    progress::Watch,
    scalar::{Element, Re, RealElement, Scalar},
    scale::power_of_two_scale,
};

/// Bound on ||B^-1||: e / 2 times this, beside sigma_1, is what a singular value may be off by.
const INVERSE_NORM: f64 = 16.0;
/// The squares of columns that are no shorter than this, nor longer than its inverse, lose nothing to under- or overflow.
const SMALL: f64 = f64::from_bits((1023 - 450) << 52);
/// Rows for each column that are looked at first, and the least number of them: where the columns of those are near to dependent, those of the
/// whole mostly are.
const FIRST_ROWS: usize = 4;
const FIRST_ROWS_LEAST: usize = 256;
/// How many times as many rows make a first look worth its time, and how many entries.
const WORTH_A_LOOK: usize = 16;
const ENTRIES: usize = 1 << 16;

/// The upper triangular factor of `scale` times the m x n matrix `a` with its columns in some order, m >= n >= 1, in double precision, and
/// that `scale`, a power of two. None where `a` has few rows, where its columns, made as long as one another, are too near to dependent, or
/// where their squares leave the range of numbers.
pub(crate) fn cholesky_qr<T: Element>(a: MatRef<'_, T>, watch: &Watch) -> Result<Option<(Mat<T::Scalar>, Re<T>)>> {
    let (m, n) = a.shape();
    let first = (FIRST_ROWS * n).max(FIRST_ROWS_LEAST);
    let few = m / WORTH_A_LOOK < first || m.saturating_mul(n) < ENTRIES;
    if few || triangle(gram(a.subrows(0, first), &Watch::default())?).is_none() {
        return Ok(None);
    }
    let Some(l) = triangle(gram(a, watch)?) else { return Ok(None) };
    let scale = power_of_two_scale::<Wide<T>, Wide<T>>(l.as_ref())?;
    let entry = |i, j| if i <= j { Wide::<T>::conj_impl(&l[(j, i)]).times(scale) } else { Wide::<T>::zero_impl() };
    Ok(Some((Mat::from_fn(n, n, |i, j| T::Scalar::from_wide(entry(i, j))), Re::<T>::from_double(scale))))
}

/// The lower triangle L with L L^H = `squares`, which is A^H A, where it is to be relied on. Above the diagonal it has no meaning.
fn triangle<W: Scalar>(squares: Mat<W>) -> Option<Mat<W>> {
    let n = squares.ncols();
    let lengths: Vec<f64> = (0..n).map(|j| squares[(j, j)].to_complex().re.sqrt()).collect();
    if !lengths.iter().all(|length| (SMALL..=1.0 / SMALL).contains(length)) {
        return None;
    }
    let mut l = squares;
    let mut work = MemBuffer::new(cholesky_in_place_scratch::<W>(n, Par::Seq, Default::default()));
    let zero = Re::<W>::from_double(0.0);
    let as_it_is = LltRegularization { dynamic_regularization_delta: zero, dynamic_regularization_epsilon: zero };
    cholesky_in_place(l.as_mut(), as_it_is, Par::Seq, MemStack::new(&mut work), Default::default()).ok()?;
    // B = A D^-1 has the triangle D^-1 L, whose inverse is L^-1 D.
    let mut inverse = Mat::zeros(n, n);
    invert_lower_triangular(inverse.as_mut(), l.as_ref(), Par::Seq);
    let (mut rows, mut most_of_columns) = (vec![0.0; n], 0.0f64);
    for (j, length) in lengths.into_iter().enumerate() {
        let mut column = 0.0;
        for (i, row) in rows.iter_mut().enumerate().skip(j) {
            let entry = inverse[(i, j)].to_complex().norm_sqr().sqrt() * length;
            *row += entry;
            column += entry;
        }
        most_of_columns = most_of_columns.max(column);
    }
    // ||X||_2^2 <= ||X||_1 ||X||_inf.
    rows.iter().all(|row| row * most_of_columns <= INVERSE_NORM * INVERSE_NORM).then_some(l)
}

#[cfg(test)]
mod tests {
    use num_complex::Complex;

    use super::*;

    /// A number in [-1, 1) that depends on nothing but its arguments.
    fn noise(i: usize, j: usize) -> f64 {
        let z = ((i as u64) << 32 | j as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (z ^ z >> 27) as f64 / 2f64.powi(63) - 1.0
    }

    fn factor<T: Element>(a: &Mat<T>) -> Option<(Mat<T::Scalar>, Re<T>)> {
        cholesky_qr(a.as_ref(), &Watch::default()).unwrap()
    }

    /// R is upper triangular, and R^H R is P^T A^H A P times the square of the scale, for columns of every length in the range. Bound: 64 eps
    /// of the lengths of either column; sums of 6000 products in hundreds of parts are off by some 10.
    fn squares_of<T: Scalar + Element<Real = f64>>() {
        let (m, n) = (6000, 13);
        // Descending, so that P is the identity.
        let size = |j: usize| 2f64.powi(400 - 60 * j as i32);
        let a = Mat::from_fn(m, n, |i, j| T::from_complex(Complex::new(noise(i, j), noise(i, j + n)) * size(j)));
        let (r, scale) = factor(&a).unwrap();
        for (i, j) in (0..n).flat_map(|j| (0..n).map(move |i| (i, j))) {
            let entry = |k: usize, j: usize| r[(k, j)].to_complex() * (1.0 / scale) * (1.0 / size(j));
            let got: Complex<f64> = (0..n).map(|k| entry(k, i).conj() * entry(k, j)).sum();
            let of_a = |k: usize, j: usize| a[(k, j)].to_complex() * (1.0 / size(j));
            let want: Complex<f64> = (0..m).map(|k| of_a(k, i).conj() * of_a(k, j)).sum();
            assert!((got - want).norm() <= 64.0 * f64::EPSILON * m as f64, "({i}, {j}): {got}, not {want}");
            assert!(i <= j || r[(i, j)].to_complex() == Complex::ZERO, "below the diagonal: ({i}, {j})");
        }
    }

    #[test]
    fn squares_are_those_of_the_matrix() {
        squares_of::<f64>();
        squares_of::<Complex<f64>>();
    }

    /// Where A^H A would lose digits, or there is little to gain, nothing is returned: columns that depend on one another, in all rows or but for
    /// the first or the last ones, columns that are zero, too long or too short, an entry that is not a number, few rows, few entries.
    #[test]
    fn what_squares_lose_is_left_to_qr() {
        let (m, n) = (6000, 13);
        let a = |entry: &dyn Fn(usize, usize) -> f64| factor(&Mat::from_fn(m, n, |i, j| entry(i, j))).is_some();
        assert!(a(&noise));
        let near = |by: f64| a(&|i, j| if j == 4 { noise(i, 3) + by * noise(i, 4) } else { noise(i, j) });
        assert!(near(0.5) && !near(1.0 / 64.0) && !near(1e-10) && !near(0.0));
        assert!(!a(&|i, j| noise(i, if i < 300 { j / 2 } else { j })));
        assert!(!a(&|i, j| if i < 300 { noise(i, j) } else { 1e3 * noise(i, j / 2) }));
        for extreme in [0.0, 1e-200, 1e-300, 1e200, 1e300, f64::NAN, f64::INFINITY] {
            assert!(!a(&|i, j| if j == 4 { noise(i, j) * extreme } else { noise(i, j) }), "{extreme}");
            assert!(!a(&|i, j| if (i, j) == (5999, 4) { extreme + 1e200 } else { noise(i, j) }), "{extreme}");
        }
        assert!(factor(&Mat::from_fn(4000, 64, noise)).is_none());
        assert!(factor(&Mat::from_fn(6000, 4, noise)).is_none());
    }
}
