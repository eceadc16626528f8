//! Least squares from a triangle: by back substitution, or by its singular value decomposition.

use std::any::Any;

use faer::{
    Mat, MatRef,
    linalg::triangular_solve::{solve_lower_triangular_in_place, solve_upper_triangular_in_place},
};

use crate::{
    algo::to_band::triangular_factor,
    base::{
        error::{Result, SvdError},
        number::{Re, RealElement, Scalar},
        pool::{all_threads, on_pool},
        stage::Stage,
        zeros::from_columns,
    },
    cpu::{
        least_squares::{
            cgls::{Inverse, correction, quality},
            passes::System,
        },
        tall::leaves::Wide,
    },
    plan::{
        factors::MinimumNorm,
        lstsq::{Begun, Found},
        qr_factors::{epsilon, upper},
        qr_report::BoxedFactors,
        route::Solver,
        svd,
    },
    tile::{kernels::Transfers, tuning::Tuning},
};

/// The part of the working precision from which on a backward error is lowered by a step of the corrected semi-normal equations (Björck 1987).
const CORRECTED: f64 = 0.5;

/// [s A; sqrt(ridge) I], for A of any shape.
pub(super) fn with_ridge<T: Scalar>(a: MatRef<'_, T>, scale: Re<T>, ridge: f64) -> Mat<T> {
    let (m, n) = a.shape();
    let root = T::from_complex(ridge.sqrt().into());
    Mat::from_fn(m + n, n, |i, j| match i {
        i if i < m => a[(i, j)].widen().times(scale),
        i if i - m == j => root,
        _ => T::zero_impl(),
    })
}

/// [t B; 0], with this number of rows.
fn with_zeros<T: Scalar>(b: MatRef<'_, T>, scale: Re<T>, rows: usize) -> Mat<T> {
    let entry = |i: usize, j: usize| if i < b.nrows() { b[(i, j)].widen().times(scale) } else { T::zero_impl() };
    Mat::from_fn(rows, b.ncols(), entry)
}

/// The matrix in double precision: itself, if it is.
fn wide_of<S: Scalar>(a: Mat<S>) -> Mat<S::Wide> {
    let mut held = Some(a);
    if let Some(wide) = (&mut held as &mut dyn Any).downcast_mut::<Option<Mat<S::Wide>>>().and_then(Option::take) {
        return wide;
    }
    let a = held.unwrap_or_else(Mat::new);
    from_columns(a.nrows(), a.ncols(), &|j, column| {
        column.iter_mut().zip(a.col(j).iter()).for_each(|(to, from)| *to = from.to_wide());
    })
}

/// The triangle of a problem, scaled as the [`System`] is.
pub(super) struct Reduced<S: Scalar> {
    /// R, of order min(m, n).
    r: Mat<S>,
    /// The first rows of Q^H B for a tall matrix, B for a wide one.
    c: Mat<S>,
    /// Q of A^T = Q R for a wide matrix.
    q: Option<BoxedFactors<S>>,
}

impl<T: Scalar> Begun<'_, T> {
    /// R and Q^H B of a tall matrix by Householder reflectors.
    pub(super) async fn tall<K: Transfers<T>>(&self, kernels: &K, tuning: &Tuning) -> Result<Reduced<T>> {
        let System { a, scale, b, b_scale, ridge, .. } = self.system;
        let ((m, n), p) = (a.shape(), b.ncols());
        let (rows, mut dense) = if ridge == 0.0 {
            (m, kernels.upload_beside((a, scale), (b, b_scale))?)
        } else {
            let (a, b, one) = (with_ridge(a, scale, ridge), with_zeros(b, b_scale, m + n), Re::<T>::from_double(1.0));
            (m + n, kernels.upload_beside((a.as_ref(), one), (b.as_ref(), one))?)
        };
        triangular_factor(kernels, &mut dense, rows, n, tuning)?;
        let mut both = kernels.download_rows(&dense, n).await?;
        let c = both.subcols(n, p).to_owned();
        if p > n {
            // Not to hold on to the memory of so many right-hand sides.
            both = both.subcols(0, n).to_owned();
        }
        both.truncate(n, n);
        Ok(Reduced { r: upper(both), c, q: None })
    }

    /// The triangle of a wide matrix, from the factors of its transpose, which with a ridge are those of the scaled [`with_ridge`].
    pub(super) fn wide(&self, q: BoxedFactors<T>) -> Reduced<T> {
        let System { scale, b, b_scale, ridge, .. } = self.system;
        let (k, scale) = (b.nrows(), if ridge == 0.0 { scale } else { Re::<T>::from_double(1.0) });
        let r = Mat::from_fn(k, k, |i, j| q.r()[(i, j)].times(scale));
        Reduced { r, c: with_zeros(b, b_scale, k), q: Some(q) }
    }

    /// The solution from the triangle.
    pub(super) async fn completed(&mut self, Reduced { r, mut c, q }: Reduced<T>) -> Result<Found<T>> {
        let factor_seconds = self.clock.restart();
        self.system.watch.begin(Stage::Solve)?;
        let (k, wide) = (r.ncols(), self.is_wide());
        let full = self.has_full_rank(r.as_ref());
        let mut of_r = None;
        let (rank, values) = if full {
            match wide {
                true => solve_lower_triangular_in_place(r.transpose(), c.as_mut(), all_threads()),
                false => solve_upper_triangular_in_place(r.as_ref(), c.as_mut(), all_threads()),
            }
            (k, self.values_of(r.as_ref()).await?)
        } else {
            let of = if wide { r.transpose() } else { r.as_ref() };
            let options = self.inner_options();
            let factors = match self.awaited {
                true => svd::svd_async(of, &options, false).await?,
                false => svd::svd(of, &options, false)?,
            };
            let MinimumNorm { x, rank, values, v } = MinimumNorm::new(factors.values, c.as_ref(), self.tolerance());
            c = x;
            of_r = Some((wide_of(v), values.iter().map(|s| s.to_double()).collect::<Vec<f64>>()));
            (rank, Some(self.unscaled_values(values)?))
        };
        let x = match q {
            None => c,
            // x = conj(Q) y = conj(Q conj(y)), and the rows of the ridge are left out.
            Some(q) => {
                let conjugate = |x: MatRef<'_, T>| Mat::from_fn(x.nrows(), x.ncols(), |i, j| T::conj_impl(&x[(i, j)]));
                conjugate(q.combine(conjugate(c.as_ref()).as_ref())?.subrows(0, self.system.a.ncols()))
            }
        };
        let x = wide_of(x);
        let (norm, ridge) = (r.norm_l2().to_double(), self.system.ridge);
        let r = wide_of(r);
        let inverse = match &of_r {
            _ if wide => Inverse::Unknown,
            None => Inverse::Triangle(r.as_ref()),
            Some((v, values)) => Inverse::Values(v.as_ref(), values),
        };
        let judged = |x: Mat<Wide<T>>| {
            let (narrow, rounded) = self.unscaled(x.clone())?;
            let x = rounded.unwrap_or(x);
            let pass = self.system.residual_of(x.as_ref())?;
            let of_x = quality(&pass, x.as_ref(), inverse, norm, ridge);
            Ok::<_, SvdError>((narrow, x, of_x, pass.gradient))
        };
        let (narrow, of_x) = on_pool(|| {
            let (narrow, x, of_x, gradient) = judged(x)?;
            if rank < k || wide || of_x.backward() <= CORRECTED * epsilon::<T>() {
                return Ok((narrow, of_x));
            }
            let (corrected, _, of_corrected, _) = judged(x + correction(r.as_ref(), gradient))?;
            let better = of_corrected.backward() < of_x.backward();
            Ok::<_, SvdError>(if better { (corrected, of_corrected) } else { (narrow, of_x) })
        })?;
        let fit = self.fit(narrow, rank, of_x, values, 0)?;
        Ok(self.found(fit, if full { Solver::Qr } else { Solver::Svd }, factor_seconds))
    }
}
