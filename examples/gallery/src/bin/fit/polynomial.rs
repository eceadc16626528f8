//! A polynomial through points.

use std::path::Path;

use ndarray::{Array1, Array2};
use svdvals_gpu::{LstsqGpu, QrGpu, SvdError};

/// The coefficients for powers of t = (x - middle) / half, and how well they fit.
pub struct Polynomial {
    pub middle: f64,
    pub half: f64,
    pub coefficients: Array1<f64>,
    /// The standard deviation of each coefficient, if the residuals are independent and alike.
    pub standard_errors: Vec<f64>,
    /// y - p(x)
    pub residuals: Array1<f64>,
    /// ||residuals|| / sqrt(points - coefficients)
    pub deviation: f64,
    pub rank: usize,
    /// The rank of the powers of x itself.
    pub rank_by_x: usize,
    pub backward_error: f64,
}

/// The columns `x` and `y` of a `.csv` file with a heading.
pub fn points(file: &Path) -> Result<(Vec<f64>, Vec<f64>), String> {
    let read = || -> Result<(Vec<f64>, Vec<f64>), csv::Error> {
        let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_path(file)?;
        let rows = reader.deserialize().collect::<Result<Vec<(f64, f64)>, _>>()?;
        Ok(rows.into_iter().unzip())
    };
    let (x, y) = read().map_err(|error| format!("{}: {error}", file.display()))?;
    match x.iter().chain(&y).position(|value| !value.is_finite()) {
        Some(at) => Err(format!("{}: line {} has a number that is not finite", file.display(), at % x.len() + 2)),
        None => Ok((x, y)),
    }
}

/// The powers 0..=degree of each t, a row each.
fn powers(t: &[f64], degree: usize) -> Array2<f64> {
    Array2::from_shape_fn((t.len(), degree + 1), |(i, j)| t[i].powi(j as i32))
}

impl Polynomial {
    pub fn fit(x: &[f64], y: &[f64], degree: usize) -> Result<Polynomial, String> {
        if x.len() <= degree + 1 {
            return Err(format!("{} points for {} coefficients", x.len(), degree + 1));
        }
        let (low, high) = x.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &x| (low.min(x), high.max(x)));
        let (middle, half) = (low + (high - low) / 2.0, ((high - low) / 2.0).max(f64::MIN_POSITIVE));
        let t: Vec<f64> = x.iter().map(|x| (x - middle) / half).collect();
        let y = Array1::from(y.to_vec());
        let solve = || -> Result<Polynomial, SvdError> {
            let rank_by_x = powers(x, degree).lstsq_gpu(&y)?.rank;
            let a = powers(&t, degree);
            let fit = a.lstsq_gpu(&y)?;
            let residuals = &y - &a.dot(&fit.x);
            let deviation = fit.residuals[0] / ((x.len() - degree - 1) as f64).sqrt();
            // The covariance is deviation^2 (A^T A)^-1, and A^T A = R^T R: the lengths of the rows of R^-1.
            let r = a.qr_r_gpu()?;
            let inverse = r.lstsq_gpu(&Array2::eye(degree + 1))?.x;
            let standard_errors = inverse.rows().into_iter().map(|row| deviation * row.dot(&row).sqrt()).collect();
            let (rank, backward_error, coefficients) = (fit.rank, fit.backward_error, fit.x);
            Ok(Polynomial { middle, half, coefficients, standard_errors, residuals, deviation, rank, rank_by_x, backward_error })
        };
        solve().map_err(|error| error.to_string())
    }

    /// The polynomial at x.
    pub fn at(&self, x: f64) -> f64 {
        let t = (x - self.middle) / self.half;
        self.coefficients.iter().rev().fold(0.0, |sum, c| sum * t + c)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filip() -> Polynomial {
        let (x, y) = points(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/filip.csv")).unwrap();
        assert_eq!(x.len(), 82);
        Polynomial::fit(&x, &y, 10).unwrap()
    }

    /// NIST's certified residual standard deviation and value at x = -6, from its coefficients for powers of x, with standard errors from the
    /// same table. The condition number of the powers of t is 2900, and the fit has 12 digits; the sum of the certified terms at x = -6
    /// cancels six of the fifteen digits that they have.
    #[test]
    fn filip_as_certified() {
        let fit = filip();
        assert!((fit.deviation / 0.334801051324544e-2 - 1.0).abs() < 1e-11, "{:e}", fit.deviation);
        assert_eq!((fit.rank, fit.rank_by_x), (11, 10));
        let certified = [
            -1467.48961422980,
            -2772.17959193342,
            -2316.37108160893,
            -1127.97394098372,
            -354.478233703349,
            -75.1242017393757,
            -10.8753180355343,
            -1.06221498588947,
            -0.670191154593408e-1,
            -0.246781078275479e-2,
            -0.402962525080404e-4,
        ];
        let value = certified.iter().rev().fold(0.0, |sum, c| sum * -6.0 + c);
        assert!((fit.at(-6.0) - value).abs() < 1e-8, "{} for {value}", fit.at(-6.0));
        // The leading coefficient differs by the factor half^10 alone.
        let leading = fit.coefficients[10] / fit.half.powi(10);
        assert!((leading / certified[10] - 1.0).abs() < 1e-8, "{leading:e}");
        let error = fit.standard_errors[10] / fit.half.powi(10);
        assert!((error / 0.896632837373868e-5 - 1.0).abs() < 1e-8, "{error:e}");
    }

    /// Points on a parabola give its coefficients, and no residuals; too few points and a bad file are errors.
    #[test]
    fn exact_points_and_mistakes() {
        let x = [-3.0, -1.0, 0.0, 1.0, 3.0];
        let y = x.map(|x| 2.0 - x + 0.5 * x * x);
        let fit = Polynomial::fit(&x, &y, 2).unwrap();
        assert!((0..5).all(|i| (fit.at(x[i]) - y[i]).abs() < 1e-13 && fit.residuals[i].abs() < 1e-13));
        assert!(Polynomial::fit(&x, &y, 4).is_err_and(|message| message.contains("5 points")));
        assert!(points(Path::new("no/such/file.csv")).is_err_and(|message| message.contains("no/such/file.csv")));
    }
}
