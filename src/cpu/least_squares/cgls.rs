//! Conjugate gradients on the normal equations, preconditioned by a triangular factor (CGLS: Björck 1996, section 7.4), in double precision.
//!
//! ```text
//! R^H R ~ A^H A + ridge I     from Cholesky's factorisation, or from a QR factorisation in lower precision
//! A R^-1                      nearly orthonormal columns: a few iterations suffice
//! ```
//!
//! The iteration starts again from the residual of the best X, computed anew, until that X is the exact solution of a problem whose matrix
//! differs from A by rounding errors.

use faer::{
    Accum, Mat, MatRef, Par,
    linalg::{
        matmul::matmul,
        triangular_solve::{solve_lower_triangular_in_place, solve_upper_triangular_in_place},
    },
};

use crate::{
    base::{
        error::Result,
        number::{Number, Scalar},
        pool::all_threads,
    },
    cpu::{
        least_squares::passes::{Pass, System},
        simd::convert::from_entries,
        tall::leaves::Wide,
    },
};

/// Most cycles of iterations, and iterations of a cycle.
const CYCLES: usize = 6;
const ITERATIONS: usize = 30;
/// A cycle ends when the preconditioned gradient is this part of its first: the next cycle computes it anew, without the errors of updates.
const REDUCTION: f64 = 1e-8;
/// ... or when it has not become a quarter in so many iterations.
const PATIENCE: usize = 5;

/// How much more than the target the backward error may be if further cycles do not lower it.
const SLACK: f64 = 8.0;

/// A solution, and how good it is. Lengths are those of the scaled problem.
pub(crate) struct Solution<W> {
    /// n x p.
    pub x: Mat<W>,
    pub quality: Quality,
    /// Products with A and A^H.
    pub iterations: usize,
}

/// How well an X solves a least squares problem.
pub(crate) struct Quality {
    /// The lengths of the columns of B - A X.
    pub residuals: Vec<f64>,
    /// For each column a bound on the backward error, relative to ||A||_F: see [`quality`].
    pub backward: Vec<f64>,
}

impl Quality {
    /// The largest backward error; 0 without columns.
    pub fn backward(&self) -> f64 {
        self.backward.iter().fold(0.0, |most, &error| if error.is_nan() { f64::NAN } else { most.max(error) })
    }
}

/// x / y, with 0 / 0 = 0.
fn ratio(x: f64, y: f64) -> f64 {
    if x == 0.0 { 0.0 } else { x / y }
}

/// ||x_j||^2 of every column.
fn squares<W: Scalar>(x: MatRef<'_, W>) -> Vec<f64> {
    x.col_iter().map(|column| column.iter().map(|x| x.to_complex().norm_sqr()).sum()).collect()
}

/// R^-H X.
fn adjoint_solved<W: Scalar>(r: MatRef<'_, W>, mut x: Mat<W>) -> Mat<W> {
    solve_lower_triangular_in_place(r.adjoint(), x.as_mut(), Par::Seq);
    x
}

/// R^-1 X.
fn solved<W: Scalar>(r: MatRef<'_, W>, mut x: Mat<W>) -> Mat<W> {
    solve_upper_triangular_in_place(r, x.as_mut(), Par::Seq);
    x
}

/// (R^H R)^-1 X, which for a gradient is what the semi-normal equations add to the solution.
pub(crate) fn correction<W: Scalar>(r: MatRef<'_, W>, x: Mat<W>) -> Mat<W> {
    solved(r, adjoint_solved(r, x))
}

/// What is known of A^H A, besides the matrix.
#[derive(Clone, Copy)]
pub(crate) enum Inverse<'a, W> {
    /// R^H R, upper triangular.
    Triangle(MatRef<'a, W>),
    /// V diag(s)^2 V^H.
    Values(MatRef<'a, W>, &'a [f64]),
    Unknown,
}

/// The quality of X with residual r, where A includes the rows of the ridge, and ||A||_F is `norm`:
///
/// ```text
/// min(||R^-H A^H r|| / ||x||, ||A^H r|| / ||r||, ||r|| / ||x||) / ||A||_F
/// ```
///
/// Each term is at least the estimate of Karlson and Waldén (1997), ||(A^H A + mu^2 I)^-1/2 A^H r|| / ||x|| with mu = ||r|| / ||x||, which is
/// the backward error up to a factor of 2. With singular values the first term is this estimate.
pub(crate) fn quality<W: Scalar>(pass: &Pass<W>, x: MatRef<'_, W>, inverse: Inverse<'_, W>, norm: f64, ridge: f64) -> Quality {
    let (of_x, of_gradient) = (squares(x), squares(pass.gradient.as_ref()));
    let coordinates = match inverse {
        Inverse::Triangle(r) => adjoint_solved(r, pass.gradient.clone()),
        Inverse::Values(v, _) => {
            let mut product = Mat::zeros(v.ncols(), of_x.len());
            matmul(product.as_mut(), Accum::Replace, v.adjoint(), pass.gradient.as_ref(), W::one_impl(), all_threads());
            product
        }
        Inverse::Unknown => Mat::zeros(0, of_x.len()),
    };
    let backward = |j: usize| {
        let (x, gradient) = (of_x[j].sqrt(), of_gradient[j].sqrt());
        let residual = (pass.squares[j] + ridge * of_x[j]).sqrt();
        let z = |i: usize, by: f64| ratio(coordinates[(i, j)].to_complex().norm_sqr(), by);
        let first = match inverse {
            Inverse::Triangle(r) => (0..r.ncols()).map(|i| z(i, 1.0)).sum(),
            Inverse::Values(_, s) => s.iter().enumerate().map(|(i, s)| z(i, s * s + ratio(residual, x).powi(2))).sum(),
            Inverse::Unknown => f64::INFINITY,
        };
        let terms = [ratio(first.sqrt(), x), ratio(gradient, residual), ratio(residual, x)];
        ratio(terms.into_iter().fold(f64::INFINITY, f64::min), norm)
    };
    Quality {
        residuals: pass.squares.iter().map(|square| square.sqrt()).collect(),
        backward: (0..of_x.len()).map(backward).collect(),
    }
}

impl<T: Number> System<'_, T> {
    /// The residual of X, with the gradient of the problem with its ridge.
    pub fn residual_of(&self, x: MatRef<'_, Wide<T>>) -> Result<Pass<Wide<T>>> {
        let mut pass = self.residual(x)?;
        if self.ridge != 0.0 {
            pass.gradient = from_entries(x.nrows(), x.ncols(), |i, j| pass.gradient[(i, j)] - x[(i, j)].times(self.ridge));
        }
        Ok(pass)
    }

    /// The solution whose backward error is at most `target`, or a little more where that is all that rounding allows; None if the iteration
    /// does not get there. R is upper triangular, n x n.
    pub fn solve(&self, r: MatRef<'_, Wide<T>>, target: f64) -> Result<Option<Solution<Wide<T>>>> {
        let norm = r.norm_l2();
        let mut x = Mat::<Wide<T>>::zeros(self.a.ncols(), self.b.ncols());
        let mut iterations = 0;
        let mut best: Option<Solution<Wide<T>>> = None;
        for _ in 0..CYCLES {
            let pass = self.residual_of(x.as_ref())?;
            let quality = quality(&pass, x.as_ref(), Inverse::Triangle(r), norm, self.ridge);
            let error = quality.backward();
            if error <= target {
                return Ok(Some(Solution { x, quality, iterations }));
            }
            let before = best.as_ref().map_or(f64::INFINITY, |best| best.quality.backward());
            if error.is_nan() {
                break;
            }
            if error < before {
                best = Some(Solution { x: x.clone(), quality, iterations });
            }
            // The first X is zero. A later cycle that does not gain much is the last.
            if iterations > 0 && error > 0.5 * before {
                break;
            }
            let (step, count) = self.cycle(r, pass.gradient)?;
            x += step;
            iterations += count;
        }
        Ok(best.filter(|best| best.quality.backward() <= SLACK * target))
    }

    /// Iterations from the gradient of some X, and their number. Their sum is to be added to X.
    fn cycle(&self, r: MatRef<'_, Wide<T>>, mut gradient: Mat<Wide<T>>) -> Result<(Mat<Wide<T>>, usize)> {
        let (n, p) = gradient.shape();
        let mut z = adjoint_solved(r, gradient.clone());
        let (mut direction, mut y) = (z.clone(), Mat::<Wide<T>>::zeros(n, p));
        let first = squares(z.as_ref());
        let mut now = first.clone();
        let (mut least, mut since) = (f64::INFINITY, 0);
        for count in 1..=ITERATIONS {
            let through = solved(r, direction.clone());
            let Pass { gradient: product, squares: lengths } = self.product(through.as_ref())?;
            let of_ridge = squares(through.as_ref());
            for j in 0..p {
                let alpha = ratio(now[j], lengths[j] + self.ridge * of_ridge[j]);
                for i in 0..n {
                    y[(i, j)] += direction[(i, j)].times(alpha);
                    let product = product[(i, j)] + through[(i, j)].times(self.ridge);
                    gradient[(i, j)] -= product.times(alpha);
                }
            }
            z = adjoint_solved(r, gradient.clone());
            let before = std::mem::replace(&mut now, squares(z.as_ref()));
            let most = now.iter().zip(&first).map(|(&now, &first)| ratio(now, first)).fold(0.0, f64::max);
            since = if most < 0.25 * 0.25 * least { 0 } else { since + 1 };
            least = least.min(most);
            if most <= REDUCTION * REDUCTION || since >= PATIENCE || count == ITERATIONS {
                return Ok((solved(r, y), count));
            }
            for j in 0..p {
                let beta = ratio(now[j], before[j]);
                for i in 0..n {
                    direction[(i, j)] = z[(i, j)] + direction[(i, j)].times(beta);
                }
            }
        }
        Ok((solved(r, y), ITERATIONS))
    }
}

#[cfg(test)]
mod tests {
    use num_complex::Complex;

    use super::*;
    use crate::base::watch::Watch;

    fn entry(i: usize, j: usize) -> f64 {
        ((3 * i + 1) as f64 * (j + 2) as f64 + (i * i % 97) as f64).sin()
    }

    /// With the exact triangle as preconditioner two iterations suffice, and with one of three digits a few more; the solution is the one
    /// of the normal equations to eps times the condition number, which is modest; with a ridge it is that of the problem with its rows.
    #[test]
    fn cycles_converge() {
        type C = Complex<f64>;
        let (m, n, p) = (300, 12, 3);
        let a = Mat::from_fn(m, n, |i, j| C::new(entry(i, j), entry(j, i + 1)));
        let b = Mat::from_fn(m, p, |i, j| C::new(entry(i, j + 20), 0.5));
        for ridge in [0.0, 0.3] {
            let squares = a.adjoint() * &a + faer::Scale(C::new(ridge, 0.0)) * Mat::<C>::identity(n, n);
            let exact = faer::linalg::solvers::Llt::new(squares.as_ref(), faer::Side::Lower).unwrap();
            let r = exact.L().adjoint().to_owned();
            let want = faer::linalg::solvers::Solve::solve(&exact, a.adjoint() * &b);
            let off = Mat::from_fn(n, n, |i, j| if i <= j { r[(i, j)] * (1.0 + 1e-3 * entry(i, j)) } else { C::ZERO });
            let system =
                System { a: a.as_ref(), scale: 1.0, b: b.as_ref(), b_scale: 1.0, ridge, watch: Watch::default(), products: None };
            for (r, most) in [(&r, 4), (&off, 12)] {
                let Solution { x, quality, iterations } = system.solve(r.as_ref(), 1e-16).unwrap().unwrap();
                assert!((&x - &want).norm_l2() <= 1e-13 * want.norm_l2());
                assert!(iterations <= most, "{iterations} iterations");
                let rest = &b - &a * &x;
                let lengths = rest.col_iter().map(|column| column.norm_l2());
                assert!(lengths.zip(&quality.residuals).all(|(want, found)| (want - found).abs() < 1e-12 * want));
            }
        }
    }

    /// A preconditioner that makes the condition worse, 10^24, ends in None, and so does a NaN. A zero right-hand side has the solution zero.
    #[test]
    fn no_convergence_is_none() {
        let (m, n) = (400, 100);
        let power = |j: usize| 10f64.powf(-(j as f64) / 8.0);
        let a = Mat::from_fn(m, n, |i, j| entry(i, j) * power(j));
        let b = Mat::from_fn(m, 1, |i, _| entry(i, 40));
        let with = |b: &Mat<f64>, r: &Mat<f64>| {
            let system = System {
                a: a.as_ref(),
                scale: 1.0,
                b: b.as_ref(),
                b_scale: 1.0,
                ridge: 0.0,
                watch: Watch::default(),
                products: None,
            };
            system.solve(r.as_ref(), 1e-16).unwrap()
        };
        let useless = Mat::from_fn(n, n, |i, j| if i == j { power(n - 1 - j) } else { 0.0 });
        assert!(with(&b, &useless).is_none());
        assert!(with(&b, &Mat::from_fn(n, n, |i, j| if i <= j { f64::NAN } else { 0.0 })).is_none());
        let zero = with(&Mat::zeros(m, 1), &Mat::identity(n, n)).unwrap();
        assert_eq!((zero.x, zero.iterations, zero.quality.backward()), (Mat::zeros(n, 1), 0, 0.0));
    }
}
