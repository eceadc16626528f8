//! The factors of a singular value decomposition, and what is computed from them.
//!
//! ```text
//! A = U diag(s) V^H     U: m x k, V: n x k, k <= min(m, n)
//! pinv(A) = V S^+ U^H   S^+: 1 / s_j where s_j is above the tolerance, else 0
//! ```

use faer::{Accum, Conj, Mat, MatRef, linalg::matmul::matmul_with_conj};
use num_complex::Complex;
use num_traits::{Float, One};

use crate::base::{
    error::{Result, SvdError},
    number::{Number, Re, RealElement, Scalar},
    pool::all_threads,
};

/// A = U diag(s) V^H. A side that was not computed has no columns.
#[derive(Clone, Debug)]
pub struct Factors<T: Scalar> {
    /// U, m x k; m x m with [`Vectors::Full`](crate::Vectors::Full).
    pub u: Mat<T>,
    /// The k singular values, descending.
    pub s: Vec<Re<T>>,
    /// V, n x k; n x n with [`Vectors::Full`](crate::Vectors::Full).
    pub v: Mat<T>,
    /// max(||A v - s u||, ||A^H u - s v||) of each triple, if an accuracy was asked for.
    pub residuals: Option<Vec<Re<T>>>,
}

impl<T: Scalar> Factors<T> {
    /// Factors whose residuals are not known.
    pub(crate) fn new(u: Mat<T>, s: Vec<Re<T>>, v: Mat<T>) -> Self {
        Factors { u, s, v, residuals: None }
    }

    /// Makes the signs unique, for [`Signs::Largest`](crate::Signs::Largest). Each pair (u_j, v_j) is multiplied by one number of modulus
    /// 1, so that the largest entry of u_j, or of v_j without a U, becomes real and positive. Columns that belong to no singular value are
    /// multiplied on their own.
    pub(crate) fn fix_signs(&mut self) {
        let (pairs, of_u, of_v) = (self.s.len(), self.u.ncols(), self.v.ncols());
        for j in 0..of_u {
            let factor = make_positive(self.u.col_as_slice_mut(j));
            if j < pairs.min(of_v) {
                multiply(self.v.col_as_slice_mut(j), factor);
            }
        }
        for j in pairs.min(of_u)..of_v {
            make_positive(self.v.col_as_slice_mut(j));
        }
    }
}

/// Multiplies `column` by a number of modulus 1 that makes the entry of the largest modulus positive, the first one on ties. Returns that
/// number, 1 for a column of zeros.
fn make_positive<T: Scalar>(column: &mut [T]) -> T::Wide {
    // The square of a real f64 is rounded, so it could hide a difference. The entries of a unit vector have no square that overflows, and
    // the largest none that underflows.
    let size = |x: Complex<f64>| if T::IS_COMPLEX { x.norm_sqr() } else { x.re.abs() };
    let (mut at, mut largest) = (0, 0.0);
    for (i, x) in column.iter().enumerate() {
        let size = size(x.to_complex());
        if size > largest {
            (at, largest) = (i, size);
        }
    }
    if largest == 0.0 {
        return T::Wide::one();
    }
    let pivot = column[at].to_complex();
    let factor = T::Wide::from_complex(pivot.conj() / pivot.norm());
    multiply(column, factor);
    column[at] = T::from_complex(pivot.norm().into()); // without the rounding error of the imaginary part
    factor
}

/// `column` <- `factor` `column`
fn multiply<T: Scalar>(column: &mut [T], factor: T::Wide) {
    if factor != T::Wide::one() {
        column.iter_mut().for_each(|x| *x = T::from_wide(x.to_wide() * factor));
    }
}

/// The factors in the matrices of either front end.
#[cfg_attr(not(any(feature = "ndarray", feature = "faer")), allow(dead_code, reason = "the front ends' results use it"))]
pub(crate) struct FactorsRef<'a, T: Scalar> {
    /// U: m rows.
    pub u: MatRef<'a, T>,
    /// The singular values, descending.
    pub s: Vec<Re<T>>,
    /// V, or its conjugate: n rows.
    pub v: MatRef<'a, T>,
    /// [`Conj::Yes`] if `v` is the conjugate of V.
    pub conj_v: Conj,
}

#[cfg_attr(not(any(feature = "ndarray", feature = "faer")), allow(dead_code, reason = "the front ends' results use it"))]
impl<T: Scalar> FactorsRef<'_, T> {
    /// The number of values above `tolerance`, by default max(m, n) eps sigma_1. A negative tolerance or NaN counts as 0.
    pub fn rank(&self, tolerance: Option<Re<T>>) -> usize {
        let default = || {
            let largest = self.s.first().map_or(0.0, |s| s.to_double());
            let order = self.u.nrows().max(self.v.nrows()) as f64;
            order * <Re<T> as Float>::epsilon().to_double() * largest
        };
        let tolerance = tolerance.map_or_else(default, |tolerance| tolerance.to_double().max(0.0));
        self.s.iter().take_while(|s| s.to_double() > tolerance).count()
    }

    /// V S^+ U^H (n x m), over the values that [`rank`](Self::rank) counts.
    pub fn pinv(&self, tolerance: Option<Re<T>>) -> Result<Mat<T>> {
        self.check_sides()?;
        let inverses: Vec<f64> = self.s[..self.rank(tolerance)].iter().map(|s| s.to_double().recip()).collect();
        if inverses.iter().any(|&x| !Float::is_finite(Re::<T>::from_double(x))) {
            return Err(SvdError::overflow(T::KIND, "inverses of singular values"));
        }
        Ok(product((self.v, self.conj_v), &inverses, (self.u, Conj::No)))
    }

    /// U diag(s) V^H (m x n).
    pub fn reconstruct(&self) -> Result<Mat<T>> {
        self.check_sides()?;
        let values: Vec<f64> = self.s.iter().map(|s| s.to_double()).collect();
        Ok(product((self.u, Conj::No), &values, (self.v, self.conj_v)))
    }

    /// Checks that U and V have a column for each value.
    fn check_sides(&self) -> Result<()> {
        let values = self.s.len();
        match [("U", self.u.ncols()), ("V", self.v.ncols())].into_iter().find(|&(_, columns)| columns < values) {
            None => Ok(()),
            Some((side, columns)) => {
                let reason = format!("{side} has {columns} columns for {values} values; Vectors::Thin computes both sides");
                Err(SvdError::invalid("vectors", reason))
            }
        }
    }
}

/// X diag(d) Y^H over the first columns of X and Y, as many as d has entries. Either matrix may be given as its conjugate
/// ([`Conj::Yes`]). The matrix with fewer rows is multiplied by d, in double precision.
#[cfg_attr(not(any(feature = "ndarray", feature = "faer")), allow(dead_code, reason = "the front ends' results use it"))]
fn product<T: Scalar>((x, conj_x): (MatRef<'_, T>, Conj), d: &[f64], (y, conj_y): (MatRef<'_, T>, Conj)) -> Mat<T> {
    let (x, y) = (x.subcols(0, d.len()), y.subcols(0, d.len()));
    let conj_yh = if conj_y == Conj::Yes { Conj::No } else { Conj::Yes };
    let scaled = |a: MatRef<'_, T>| Mat::from_fn(a.nrows(), a.ncols(), |i, j| T::from_wide(a[(i, j)].to_wide().times(d[j])));
    let par = all_threads();
    let mut c = Mat::from_fn(x.nrows(), y.nrows(), |_, _| T::zero());
    if x.nrows() <= y.nrows() {
        matmul_with_conj(&mut c, Accum::Replace, scaled(x), conj_x, y.transpose(), conj_yh, T::one(), par);
    } else {
        matmul_with_conj(&mut c, Accum::Replace, x, conj_x, scaled(y).transpose(), conj_yh, T::one(), par);
    }
    c
}

/// The minimum norm solution of M X = C in the sense of least squares, the numerical rank, and the singular values of M.
pub(crate) struct MinimumNorm<S: Number> {
    pub x: Mat<S::Scalar>,
    pub rank: usize,
    pub values: Vec<S::Real>,
    /// The right singular vectors.
    pub v: Mat<S::Scalar>,
}

impl<S: Scalar> MinimumNorm<S> {
    /// From the factors of M. Values up to `tolerance` times the largest count as zero.
    pub fn new(Factors { u, s, v, .. }: Factors<S>, c: MatRef<'_, S>, tolerance: f64) -> Self {
        let largest = s.first().map_or(0.0, |s| s.to_double());
        let rank = s.iter().take_while(|s| s.to_double() > tolerance * largest).count();
        let (mut inside, par, one) = (Mat::<S>::zeros(rank, c.ncols()), all_threads(), S::one_impl());
        matmul_with_conj(inside.as_mut(), Accum::Replace, u.subcols(0, rank).transpose(), Conj::Yes, c, Conj::No, one, par);
        for column in inside.as_mut().col_iter_mut() {
            column.iter_mut().zip(&s).for_each(|(x, s)| *x = S::from_wide(x.to_wide().times(s.to_double().recip())));
        }
        let mut x = Mat::zeros(v.nrows(), c.ncols());
        matmul_with_conj(x.as_mut(), Accum::Replace, v.subcols(0, rank), Conj::No, inside.as_ref(), Conj::No, one, par);
        MinimumNorm { x, rank, values: s, v }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type C = Complex<f64>;

    fn view<T: Scalar>(factors: &Factors<T>) -> FactorsRef<'_, T> {
        FactorsRef { u: factors.u.as_ref(), s: factors.s.clone(), v: factors.v.as_ref(), conj_v: Conj::No }
    }

    /// U = [e^ia 0; 0 -1; 0 0], s = (2, 1/2), V = [0 e^ib; 1 0]: orthonormal columns, with phases.
    fn example() -> Factors<C> {
        let (u0, v1) = (C::from_polar(1.0, 0.3), C::from_polar(1.0, -1.1));
        let (zero, one) = (C::ZERO, C::ONE);
        Factors::new(faer::mat![[u0, zero], [zero, -one], [zero, zero]], vec![2.0, 0.5], faer::mat![[zero, v1], [one, zero]])
    }

    /// Entries with one factor of modulus 1 each and exact values: 4 eps for two products.
    fn near(x: &Mat<C>, y: &Mat<C>) -> bool {
        let (m, n) = y.shape();
        x.shape() == y.shape() && (0..m).all(|i| (0..n).all(|j| (x[(i, j)] - y[(i, j)]).norm() <= 4.0 * f64::EPSILON * 2.0))
    }

    /// The entries of U S V^H and V S^+ U^H, written out; V given as its conjugate too; a tolerance that drops the second value.
    #[test]
    fn products() {
        let factors = example();
        let (u0, v1) = (factors.u[(0, 0)], factors.v[(0, 1)]);
        let (zero, of) = (C::ZERO, view(&factors));
        let a = faer::mat![[zero, u0 * 2.0], [-v1.conj() * 0.5, zero], [zero, zero]];
        let inverse = faer::mat![[zero, -v1 * 2.0, zero], [u0.conj() * 0.5, zero, zero]];
        assert!(near(&of.reconstruct().unwrap(), &a));
        assert!(near(&of.pinv(None).unwrap(), &inverse));
        let first = faer::mat![[zero, zero, zero], [u0.conj() * 0.5, zero, zero]];
        assert!(near(&of.pinv(Some(0.5)).unwrap(), &first));
        let conjugate = Mat::from_fn(2, 2, |i, j| factors.v[(i, j)].conj());
        let of = FactorsRef { v: conjugate.as_ref(), conj_v: Conj::Yes, ..of };
        assert!(near(&of.reconstruct().unwrap(), &a));
        assert!(near(&of.pinv(None).unwrap(), &inverse));
    }

    /// A wide and a tall matrix take either order of the scaling; the transposed factors give the transposed products.
    #[test]
    fn either_side_is_scaled() {
        let Factors { u, s, v, .. } = example();
        let tall: Factors<C> = Factors::new(u.clone(), s.clone(), v.clone());
        let wide: Factors<C> = Factors::new(v, s, u);
        let adjoint = |a: Mat<C>| Mat::from_fn(a.ncols(), a.nrows(), |i, j| a[(j, i)].conj());
        assert!(near(&view(&wide).reconstruct().unwrap(), &adjoint(view(&tall).reconstruct().unwrap())));
        assert!(near(&view(&wide).pinv(None).unwrap(), &adjoint(view(&tall).pinv(None).unwrap())));
    }

    /// Values above the tolerance; the default is max(m, n) eps sigma_1 = 3 eps 2.
    #[test]
    fn rank_counts_values_above() {
        let mut factors = example();
        let rank = |factors: &Factors<C>, tolerance| view(factors).rank(tolerance);
        assert_eq!([None, Some(0.5), Some(0.4), Some(2.0), Some(f64::NAN)].map(|t| rank(&factors, t)), [2, 1, 2, 0, 2]);
        factors.s[1] = 6.0 * f64::EPSILON;
        assert_eq!(rank(&factors, None), 1);
        factors.s = vec![0.0, 0.0];
        assert_eq!([None, Some(-1.0)].map(|t| rank(&factors, t)), [0, 0]);
    }

    #[test]
    fn a_missing_side_is_an_error() {
        let Factors { u, s, v, .. } = example();
        let none = |rows| Mat::from_fn(rows, 0, |_, _| C::ZERO);
        for factors in [Factors::<C>::new(u.clone(), s.clone(), none(2)), Factors::<C>::new(none(3), s, v)] {
            let of = view(&factors);
            assert!(matches!(of.pinv(None), Err(SvdError::InvalidOption { option: "vectors", .. })));
            assert!(matches!(of.reconstruct(), Err(SvdError::InvalidOption { option: "vectors", .. })));
            assert_eq!(of.rank(None), 2);
        }
    }

    /// The pivots are positive and U S V^H stays: of U, of V without a U, and of columns without a value.
    #[test]
    fn signs() {
        let before = view(&example()).reconstruct().unwrap();
        let mut factors = example();
        factors.fix_signs();
        assert_eq!((factors.u[(0, 0)], factors.u[(1, 1)]), (C::ONE, C::ONE));
        assert!(near(&view(&factors).reconstruct().unwrap(), &before));

        let mut right = Factors::<C> { u: Mat::from_fn(3, 0, |_, _| C::ZERO), ..example() };
        right.fix_signs();
        assert_eq!((right.v[(1, 0)], right.v[(0, 1)]), (C::ONE, C::ONE));

        // 1 x 2, full: v_1 belongs to no value. Ties take the first entry, and real columns change by their sign alone.
        let mut full = Factors::<f32>::new(faer::mat![[-1.0]], vec![2.0], faer::mat![[0.6, -0.5], [-0.8, 0.5]]);
        full.fix_signs();
        assert_eq!((full.u, full.v), (faer::mat![[1.0]], faer::mat![[-0.6, 0.5], [0.8, -0.5]]));
    }
}
