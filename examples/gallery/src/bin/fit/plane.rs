//! A plane through the brightness of an image's window.

use ndarray::{Array1, Array2, ArrayView2, s};
use svdvals_gpu::LstsqGpu;

/// Brightness is nearly c0 + c1 i + c2 j, with rows i and columns j counted from the window's corner.
pub struct Plane {
    pub coefficients: [f64; 3],
    /// The window, and what the plane leaves of it.
    pub window: Array2<f64>,
    pub residuals: Array2<f64>,
    /// Standard deviations of the brightness, and of the residuals.
    pub before: f64,
    pub deviation: f64,
}

impl Plane {
    /// The window is top, left, height, width.
    pub fn fit(image: ArrayView2<'_, f64>, [top, left, height, width]: [usize; 4]) -> Result<Plane, String> {
        let (rows, cols) = image.dim();
        if top.saturating_add(height) > rows || left.saturating_add(width) > cols || height < 2 || width < 2 {
            return Err(format!("no window of {height} x {width} at ({top}, {left}) in {rows} x {cols} pixels"));
        }
        let window = image.slice(s![top..top + height, left..left + width]).to_owned();
        let a = Array2::from_shape_fn((height * width, 3), |(pixel, k)| [1.0, (pixel / width) as f64, (pixel % width) as f64][k]);
        let z = Array1::from_iter(window.iter().copied());
        let fit = a.lstsq_gpu(&z).map_err(|error| error.to_string())?;
        let residuals = (&z - &a.dot(&fit.x)).into_shape_with_order((height, width)).map_err(|error| error.to_string())?;
        let deviation = fit.residuals[0] / ((height * width).max(4) as f64 - 3.0).sqrt();
        Ok(Plane { coefficients: [fit.x[0], fit.x[1], fit.x[2]], before: z.std(1.0), window, residuals, deviation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A plane is found exactly, to the rounding of brightnesses up to 100, with rows and columns counted from the window's corner; and a
    /// window outside is an error.
    #[test]
    fn a_plane_is_found() {
        let image = Array2::from_shape_fn((40, 30), |(i, j)| 7.0 + 0.25 * i as f64 - 0.5 * j as f64);
        let fit = Plane::fit(image.view(), [10, 5, 20, 12]).unwrap();
        for (found, want) in fit.coefficients.into_iter().zip([7.0, 0.25, -0.5]) {
            let want = if want == 7.0 { image[[10, 5]] } else { want };
            assert!((found - want).abs() < 1e-12, "{found} {want}");
        }
        assert!(fit.residuals.iter().all(|x| x.abs() < 1e-12) && fit.deviation < 1e-12 && fit.before > 1.0);
        assert!(Plane::fit(image.view(), [30, 0, 20, 10]).is_err());
    }
}
