//! The triangular factor of a tall, narrow matrix in double precision by Cholesky's factorisation of A^H A, if that is as accurate as QR.
//!
//! Let A = B D, with the columns of B normalised and D diagonal. A^H A is computed as D (B^H B + E) D, where E is the rounding error of the
//! sums of products. Its norm e is a small multiple of eps n if rounding errors are independent. If all products are alike, the errors of a
//! sum add up, and e may be eps times the length of the chains of sums (`gram.rs`). Let R be the Cholesky factor of this matrix. A singular
//! value sigma of A and that of R differ by at most e / 2 ||B^-1||^2 sigma (Ostrowski 1959), and by at most e / 2 sigma_1^2 / sigma. The
//! smaller of these bounds is at most their geometric mean, e / 2 ||B^-1|| sigma_1. This holds for every D. So R is accurate if ||B^-1|| is
//! small, which is computed from R itself. This takes half the flops of Householder QR, and its sums do not wait for reflectors.

use faer::{
    Mat, MatRef, Par,
    dyn_stack::{MemBuffer, MemStack},
    linalg::{
        cholesky::llt::factor::{LltRegularization, cholesky_in_place, cholesky_in_place_scratch},
        triangular_inverse::invert_lower_triangular,
    },
    traits::ComplexField,
};

use crate::{
    base::{
        error::Result,
        number::{Number, Re, RealElement, Scalar},
        scale::power_of_two_scale,
        watch::Watch,
    },
    cpu::{
        simd::convert::from_entries,
        tall::{
            gram::{sorted, upper_gram},
            leaves::Wide,
            tsqr::scaled,
        },
    },
};

/// Bound on ||B^-1||^2. The error of a singular value is then at most e / 2 sqrt(bound) sigma_1. For more columns than this the bound is n,
/// since the error of QR grows with n too.
const INVERSE_SQUARE: f64 = 256.0;
/// The same in single precision, whose products are exact in double precision. The error of R is that of a relative change of A by n
/// eps_64 ||B^-1|| at most, which is 2^-25 for n = 1024 columns.
const SINGLE: f64 = (1u64 << 36) as f64;
/// Squares of columns whose length is at least this, and at most its inverse, neither overflow nor lose digits to underflow.
const SMALL: f64 = f64::from_bits((1023 - 450) << 52);
/// Entries of R that are no more than this part of their column's length count as zero: a few units in the last place, below e.
const NOISE: f64 = 16.0 * f64::EPSILON;
/// Rows of the pre-check: this many, or 5 n / 4 if that is more. If the columns of these rows are nearly dependent, those of the whole
/// matrix mostly are.
const FIRST_ROWS: usize = 256;
/// The pre-check of ||B^-1|| counts only if the first block has `FIRST_TIMES` n rows (n <= 64). It allows ||B^-1||^2 up to `FIRST_SLACK`
/// times the bound: for correlated columns that of the first block was up to seven times that of the whole matrix.
const FIRST_TIMES: usize = 4;
const FIRST_SLACK: f64 = 16.0;

/// R of A P times a scale, that scale, and P as the columns' order.
pub(crate) struct SortedFactor<T: Number> {
    pub r: Mat<T::Scalar>,
    pub scale: Re<T>,
    pub order: Vec<usize>,
}

/// The triangular factor of the m x n matrix `a` with permuted columns, m >= n >= 1, times a power of two. None if the matrix with
/// normalised columns is not well-conditioned, or if squares of its columns overflow or underflow. `plan/route.rs` decides for which
/// matrices it is tried: `a` is in double precision, and has many rows.
pub(crate) fn cholesky_qr<T: Number>(a: MatRef<'_, T>, watch: &Watch) -> Result<Option<SortedFactor<T>>> {
    let n = a.ncols();
    let Some(factor) = well_conditioned(a, INVERSE_SQUARE.max(n as f64), sorted, watch)? else { return Ok(None) };
    // What is left of orthogonal columns is an error of the sums, and a row of such entries has any order. A reflector of it would add long
    // columns to short ones, whose digits would be lost.
    let noise = |i: usize, j: usize| i < j && factor.upper(i, j).to_complex().norm() <= NOISE * factor.lengths[j];
    let r =
        from_entries(n, n, |i, j| if noise(i, j) { T::Scalar::zero_impl() } else { T::Scalar::from_wide(factor.upper(i, j)) });
    let scale = power_of_two_scale(T::KIND.scalar(), r.as_ref())?;
    Ok(Some(SortedFactor { r: scaled(r, scale), scale, order: factor.order }))
}

/// The triangular factor of the m x n matrix `a`, m >= n >= 1, in double precision and with its columns in their order. None if ||B^-1||^2
/// exceeds `most`, or if squares of its columns overflow or underflow.
pub(crate) fn triangle<T: Number>(a: MatRef<'_, T>, most: f64, watch: &Watch) -> Result<Option<Mat<Wide<T>>>> {
    ridge_triangle(a, 0.0, most, watch)
}

/// [`triangle`] of A with the rows of sqrt(`ridge`) I below.
pub(crate) fn ridge_triangle<T: Number>(a: MatRef<'_, T>, ridge: f64, most: f64, watch: &Watch) -> Result<Option<Mat<Wide<T>>>> {
    let n = a.ncols();
    let ordered = |upper: &Mat<Wide<T>>| {
        let mut squares = whole(upper);
        (0..n).for_each(|j| squares[(j, j)] += Wide::<T>::from_complex(ridge.into()));
        (squares, (0..n).collect())
    };
    let factor = well_conditioned(a, most, ordered, watch)?;
    Ok(factor.map(|factor| from_entries(n, n, |i, j| factor.upper(i, j))))
}

/// The largest ||B^-1||^2 for which the triangular factor by A^H A is as accurate as that of QR.
pub(crate) fn accurate<T: Number>(n: usize) -> f64 {
    if T::Scalar::IS_DOUBLE { INVERSE_SQUARE.max(n as f64) } else { SINGLE }
}

/// The Cholesky factor of A^H A, with its columns and rows put in order by `ordered`. None if ||B^-1||^2 exceeds `most`, or if squares of the
/// columns overflow or underflow.
fn well_conditioned<T: Number>(
    a: MatRef<'_, T>,
    most: f64,
    ordered: impl Fn(&Mat<Wide<T>>) -> (Mat<Wide<T>>, Vec<usize>),
    watch: &Watch,
) -> Result<Option<Cholesky<Wide<T>>>> {
    let (m, n) = a.shape();
    let (first, others) = a.split_at_row((n + n / 4).max(FIRST_ROWS).min(m));
    let mut squares = upper_gram(first, watch)?;
    let Some(factor) = cholesky(ordered(&squares), most) else { return Ok(None) };
    if first.nrows() >= FIRST_TIMES * n && inverse_square(&factor) > FIRST_SLACK * most {
        return Ok(None);
    }
    if others.nrows() > 0 {
        squares += upper_gram(others, watch)?;
    }
    Ok(cholesky(ordered(&squares), most).filter(|factor| inverse_square(factor) <= most))
}

/// L (the lower triangle) with L L^H = P^T A^H A P, the lengths of the columns of A P, and P as the columns' order.
struct Cholesky<W> {
    l: Mat<W>,
    lengths: Vec<f64>,
    order: Vec<usize>,
}

impl<W: Scalar> Cholesky<W> {
    /// Entry (i, j) of L^H.
    fn upper(&self, i: usize, j: usize) -> W {
        if i <= j { W::conj_impl(&self.l[(j, i)]) } else { W::zero_impl() }
    }
}

/// A Hermitian matrix from its upper triangle.
fn whole<W: Scalar>(upper: &Mat<W>) -> Mat<W> {
    from_entries(upper.nrows(), upper.ncols(), |i, j| if i <= j { upper[(i, j)] } else { W::conj_impl(&upper[(j, i)]) })
}

/// The factorisation of P^T A^H A P, with P as the columns' order. None if a column's length is out of range, or if ||B^-1||^2 certainly
/// exceeds `most` because a column is too close to the span of those before it.
fn cholesky<W: Scalar>((mut l, order): (Mat<W>, Vec<usize>), most: f64) -> Option<Cholesky<W>> {
    let n = l.ncols();
    let lengths: Vec<f64> = (0..n).map(|j| l[(j, j)].to_complex().re.sqrt()).collect();
    if !lengths.iter().all(|length| (SMALL..=1.0 / SMALL).contains(length)) {
        return None;
    }
    in_place(&mut l)?;
    let far = |(j, length): (usize, &f64)| most * l[(j, j)].to_complex().norm_sqr() >= length * length;
    lengths.iter().enumerate().all(far).then_some(Cholesky { l, lengths, order })
}

/// Whether the Cholesky factor of A^H A, whose upper triangle is given, has ||B^-1||^2 of at most `most`, and columns whose squares neither
/// overflow nor underflow.
pub(crate) fn is_well_conditioned<W: Scalar>(upper: &Mat<W>, most: f64) -> bool {
    cholesky((whole(upper), Vec::new()), most).is_some_and(|factor| inverse_square(&factor) <= most)
}

/// The Cholesky factor in the lower triangle of a Hermitian matrix; None if that is not positive definite.
fn in_place<W: Scalar>(l: &mut Mat<W>) -> Option<()> {
    let mut work = MemBuffer::new(cholesky_in_place_scratch::<W>(l.ncols(), Par::Seq, Default::default()));
    let zero = Re::<W>::from_double(0.0);
    let as_it_is = LltRegularization { dynamic_regularization_delta: zero, dynamic_regularization_epsilon: zero };
    cholesky_in_place(l.as_mut(), as_it_is, Par::Seq, MemStack::new(&mut work), Default::default()).ok().map(|_| ())
}

/// R, upper triangular, with R^H R the Hermitian matrix whose upper triangle is given; None if that is not positive definite.
pub(crate) fn upper_cholesky<W: Scalar>(upper: &Mat<W>) -> Option<Mat<W>> {
    let mut l = whole(upper);
    in_place(&mut l)?;
    Some(from_entries(l.ncols(), l.ncols(), |i, j| if i <= j { W::conj_impl(&l[(j, i)]) } else { W::zero_impl() }))
}

/// A bound on ||B^-1||^2, where the columns of B are those of the triangular factor `r`, normalised; None if one is zero.
pub(crate) fn inverse_square_of<T: Scalar>(r: MatRef<'_, T>) -> Option<f64> {
    let n = r.ncols();
    let l = from_entries(n, n, |i, j| if i >= j { T::Wide::conj_impl(&r[(j, i)].to_wide()) } else { T::Wide::zero_impl() });
    let mut lengths = vec![0.0; n];
    for (j, length) in lengths.iter_mut().enumerate() {
        *length = (0..=j).map(|i| r[(i, j)].to_complex().norm_sqr()).sum::<f64>().sqrt();
    }
    let square = inverse_square(&Cholesky { l, lengths, order: Vec::new() });
    square.is_finite().then_some(square)
}

/// A bound on ||B^-1||^2 from the result of [`cholesky`]: ||X||_1 ||X||_inf, where X = L^-1 D is the inverse of D^-1 L, B's triangle.
fn inverse_square<W: Scalar>(Cholesky { l, lengths, .. }: &Cholesky<W>) -> f64 {
    let n = lengths.len();
    let mut inverse = Mat::zeros(n, n);
    invert_lower_triangular(inverse.as_mut(), l.as_ref(), Par::Seq);
    let (mut rows, mut columns) = (vec![0.0; n], vec![0.0; n]);
    for (j, length) in lengths.iter().enumerate() {
        for i in j..n {
            let entry = inverse[(i, j)].to_complex().norm_sqr().sqrt() * length;
            rows[i] += entry;
            columns[j] += entry;
        }
    }
    if !rows.iter().chain(&columns).all(|sum| sum.is_finite()) {
        return f64::INFINITY;
    }
    let most = |sums: Vec<f64>| sums.into_iter().fold(0.0, f64::max);
    most(rows) * most(columns)
}

#[cfg(test)]
mod tests {
    use num_complex::Complex;

    use super::*;

    /// A pseudorandom number in [-1, 1), a function of its arguments.
    fn noise(i: usize, j: usize) -> f64 {
        let z = ((i as u64) << 32 | j as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (z ^ z >> 27) as f64 / 2f64.powi(63) - 1.0
    }

    fn factor<T: Number>(a: &Mat<T>) -> Option<(Mat<T::Scalar>, Re<T>)> {
        factor_of(a.as_ref())
    }

    fn factor_of<T: Number>(a: MatRef<'_, T>) -> Option<(Mat<T::Scalar>, Re<T>)> {
        cholesky_qr(a, &Watch::default()).unwrap().map(|factor| (factor.r, factor.scale))
    }

    /// R is upper triangular, and R^H R is A^H A times the square of the scale, for columns of every length in the range, and for few and
    /// many columns (see `NARROW` in `gram.rs`). Bound: 64 eps times the lengths of both columns. Sums of thousands of products in hundreds
    /// of parts have errors of some 10 eps.
    fn squares_of<T: Scalar + Number<Real = f64>>(m: usize, n: usize) {
        // From huge to tiny, not sorted.
        let size = |j: usize| 2f64.powi(400 - (720 / n * (11 * j % n)) as i32);
        let a = Mat::from_fn(m, n, |i, j| T::from_complex(Complex::new(noise(i, j), noise(i, j + n)) * size(j)));
        let by_rows = a.transpose().to_owned();
        [a.as_ref(), by_rows.transpose()].into_iter().for_each(|of| squares_are_of(of, &a, size));
    }

    /// The factor of `of`, in any memory order, is that of `a`, whose columns have these sizes.
    fn squares_are_of<T: Scalar + Number<Real = f64>>(of: MatRef<'_, T>, a: &Mat<T>, size: impl Fn(usize) -> f64) {
        let ((m, n), SortedFactor { r, scale, order }) = (of.shape(), cholesky_qr(of, &Watch::default()).unwrap().unwrap());
        assert!(order.is_sorted_by(|&i, &j| size(i) > size(j)));
        let below = (0..n).flat_map(|j| (j + 1..n).map(move |i| (i, j)));
        below.for_each(|(i, j)| assert_eq!(r[(i, j)].to_complex(), Complex::ZERO, "({i}, {j})"));
        let same_lengths =
            |x: &Mat<T>, by: f64| Mat::from_fn(x.nrows(), n, |i, j| x[(i, j)].to_complex() * by * (1.0 / size(order[j])));
        let a = Mat::from_fn(m, n, |i, j| a[(i, order[j])]);
        let r = Mat::from_fn(n, n, |i, j| T::from_complex(r[(i, j)].to_complex()));
        let (r, a) = (same_lengths(&r, 1.0 / scale), same_lengths(&a, 1.0));
        let (got, want) = (r.adjoint() * &r, a.adjoint() * &a);
        for (i, j) in (0..n).flat_map(|j| (0..n).map(move |i| (i, j))) {
            let (got, want) = (got[(i, j)], want[(i, j)]);
            assert!((got - want).norm() <= 64.0 * f64::EPSILON * m as f64, "({i}, {j}): {got}, not {want}");
        }
    }

    #[test]
    fn squares_are_those_of_the_matrix() {
        for (m, n) in [(256, 64), (6000, 13), (6001, 30), (4100, 350)] {
            squares_of::<f64>(m, n);
            squares_of::<Complex<f64>>(m, n);
        }
    }

    /// R does not depend on the number of threads: for A^H A in runs, by columns and by rows, and in blocks.
    #[test]
    fn threads_do_not_matter() {
        for (m, n, turned) in [(50_000, 13, false), (50_001, 23, true), (9000, 350, false)] {
            let a = if turned { Mat::from_fn(n, m, |j, i| noise(i, j)) } else { Mat::from_fn(m, n, noise) };
            let a = if turned { a.transpose() } else { a.as_ref() };
            let factor_by = |threads| {
                let pool = crate::base::parallel::Pool::new(threads).unwrap();
                pool.install(|| factor_of(a)).unwrap()
            };
            let (r, scale) = factor_by(1);
            assert!([2, 3].into_iter().all(|threads| factor_by(threads) == (r.clone(), scale)));
        }
    }

    /// None is returned where A^H A would lose digits: for columns that are dependent in all rows, in the first rows or in the last rows;
    /// for columns that are zero, too long or too short; and for an entry that is not finite.
    #[test]
    fn what_squares_lose_is_left_to_qr() {
        let (m, n) = (6000, 13);
        let a = |entry: &dyn Fn(usize, usize) -> f64| factor(&Mat::from_fn(m, n, entry)).is_some();
        assert!(a(&noise));
        let near = |by: f64| a(&|i, j| if j == 4 { noise(i, 3) + by * noise(i, 4) } else { noise(i, j) });
        assert!(near(0.5) && !near(1.0 / 64.0) && !near(1e-10) && !near(0.0));
        assert!(!a(&|i, j| noise(i, if i < 300 { j / 2 } else { j })));
        assert!(!a(&|i, j| if i < 300 { noise(i, j) } else { 1e3 * noise(i, j / 2) }));
        for extreme in [0.0, 1e-200, 1e-300, 1e200, 1e300, f64::NAN, f64::INFINITY] {
            assert!(!a(&|i, j| if j == 4 { noise(i, j) * extreme } else { noise(i, j) }), "{extreme}");
        }
        for last in [1e200, 1e300, f64::NAN, f64::INFINITY] {
            assert!(!a(&|i, j| if (i, j) == (5999, 4) { last } else { noise(i, j) }), "{last}");
        }
    }
}
