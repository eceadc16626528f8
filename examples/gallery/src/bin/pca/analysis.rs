//! Principal components by the singular value decomposition of the centred matrix.

use ndarray::{Array1, Array2, Axis};
use svdvals_gpu::{ArraySvd, Backend, Signs, SvdGpu, SvdOptions};

/// The residual of a component, relative to the largest singular value: its variance is off by about the square of that.
const ACCURACY: f64 = 1e-8;

/// X - 1 mean^T = U S V^T: column j of V is the j-th component, that of U S has the observations' coordinates along it.
pub struct Analysis {
    pub mean: Array1<f64>,
    /// k x n, a component a row.
    pub components: Array2<f64>,
    /// m x k.
    pub scores: Array2<f64>,
    /// Of each component: s_j^2 / (m - 1).
    pub variances: Vec<f64>,
    /// Of all variables together.
    pub total: f64,
    pub seconds: f64,
}

impl Analysis {
    /// Of the observations in the rows of `x`, which is not empty.
    pub fn of(x: &Array2<f64>, components: usize, backend: Backend) -> Result<Analysis, String> {
        let (m, n) = x.dim();
        if m < 2 || n < 2 {
            return Err(format!("{m} observations of {n} variables: two of each are the least"));
        }
        // The mean of many large numbers is found from their differences to the first.
        let first = x.row(0).to_owned();
        let mean = &first + (x - &first).mean_axis(Axis(0)).ok_or("no observations")?;
        let centred = x - &mean;
        // The signs are chosen, so that the picture is the same on every backend.
        // Of large inputs, a few components come from products with the matrix.
        let options = SvdOptions::default().backend(backend).keep(components).accuracy(ACCURACY).signs(Signs::Largest);
        let report = centred.svd_gpu_report(&options).map_err(|error| error.to_string())?;
        let ArraySvd { u, s, vt, .. } = report.values;
        let freedom = (m - 1) as f64;
        Ok(Analysis {
            mean,
            scores: &u * &s,
            components: vt,
            variances: s.iter().map(|s| s * s / freedom).collect(),
            // A sum of the rows' sums rounds less than one long sum.
            total: centred.rows().into_iter().map(|row| row.dot(&row)).sum::<f64>() / freedom,
            seconds: report.seconds.total,
        })
    }

    /// The part of all variance that a component explains.
    pub fn explained(&self, component: usize) -> f64 {
        if self.total > 0.0 { self.variances[component] / self.total } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points (cos t, sin t) scaled by 3 and 1 along two orthogonal directions of four variables, far from the origin: these are the
    /// components, up to a sign, and the variances are 9/2 and 1/2 times m / (m - 1). Adding the centre 1000 rounds to 1000 eps, which
    /// is what the bound is for.
    #[test]
    fn an_ellipse() {
        let m = 48;
        let (along, across) = ([0.5, 0.5, 0.5, 0.5], [0.5, -0.5, 0.5, -0.5]);
        let x = Array2::from_shape_fn((m, 4), |(i, j)| {
            let (sin, cos) = (std::f64::consts::TAU * i as f64 / m as f64).sin_cos();
            1000.0 + 3.0 * cos * along[j] + sin * across[j]
        });
        let found = Analysis::of(&x, 4, Backend::Cpu).unwrap();
        let bound = 1000.0 * 16.0 * f64::EPSILON;
        let freedom = m as f64 / (m - 1) as f64;
        for (variance, wanted) in found.variances.iter().zip([4.5, 0.5, 0.0, 0.0]) {
            assert!((variance - wanted * freedom).abs() <= 16.0 * bound, "{:?}", found.variances);
        }
        for (component, wanted) in found.components.rows().into_iter().zip([along, across]) {
            let product: f64 = component.iter().zip(wanted).map(|(x, y)| x * y).sum();
            assert!((product.abs() - 1.0).abs() <= bound, "{component}");
        }
        assert!((found.explained(0) - 0.9).abs() <= bound && (found.explained(1) - 0.1).abs() <= bound);
        assert!(found.mean.iter().all(|mean| (mean - 1000.0).abs() <= bound));
        // Scores and components give the observations back.
        let again = found.scores.dot(&found.components) + &found.mean;
        assert!((again - x).iter().all(|x| x.abs() <= bound));
    }

    #[test]
    fn too_few() {
        assert!(Analysis::of(&Array2::zeros((1, 5)), 2, Backend::Cpu).is_err());
        let still = Analysis::of(&Array2::ones((5, 3)), 2, Backend::Cpu).unwrap();
        assert_eq!((still.total, still.explained(0)), (0.0, 0.0));
    }
}
