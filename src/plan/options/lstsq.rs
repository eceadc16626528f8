//! Options of least squares.

use crate::{
    base::error::{Result, SvdError},
    plan::{
        options::{RunOptions, run::run_methods},
        route::Preconditioner,
    },
    tile::products::Products,
};

/// Options of [least squares](crate::LstsqGpu).
///
/// ```
/// use svdvals_gpu::{Backend, LstsqOptions};
/// let options = LstsqOptions::default().ridge(0.1).backend(Backend::Cpu);
/// assert!(options.ridge == 0.1 && options.run.backend == Backend::Cpu);
/// ```
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default, deny_unknown_fields))]
#[non_exhaustive]
pub struct LstsqOptions {
    /// Where and how the call runs.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub run: RunOptions,
    /// The largest singular value, relative to the largest of all, that counts as zero for the rank; None is sqrt(max(m, n)) eps.
    pub tolerance: Option<f64>,
    /// The penalty: the solution minimises ||A X - B||^2 + `ridge` ||X||^2.
    pub ridge: f64,
    /// Whether to return the singular values of A too.
    pub singular_values: bool,
    /// The precision of the factorisation.
    pub preconditioner: Preconditioner,
    /// The products of the R with which the solution is iterated.
    pub products: Products,
}

run_methods!(LstsqOptions);

impl LstsqOptions {
    /// Sets the largest singular value of A, relative to the largest of all, that counts as zero for the rank. `tolerance` is between 0 and 1.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{LstsqGpu, LstsqOptions};
    /// let (a, b) = (faer::mat![[4.0f64, 0.0], [0.0, 0.01]], faer::col![4.0, 1.0]);
    /// let fit = a.lstsq_gpu_with(&b, &LstsqOptions::default().tolerance(0.1))?;
    /// assert_eq!((fit.rank, fit.x[1]), (1, 0.0));
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn tolerance(mut self, tolerance: f64) -> Self {
        self.tolerance = Some(tolerance);
        self
    }

    /// Makes [`lstsq_gpu`](crate::LstsqGpu) minimise ||A X - B||^2 + `ridge` ||X||^2 (ridge regression, Tikhonov regularisation). `ridge` is
    /// finite and not negative, and with arithmetic in f32 at most 2^372, about 10^112. Beside a ridge that dominates A, the error of X is that of a
    /// backward stable method, eps ||B|| / sqrt(ridge).
    ///
    /// ```
    /// # #[cfg(feature = "ndarray")] {
    /// use ndarray::array;
    /// use svdvals_gpu::{LstsqGpu, LstsqOptions};
    /// let fit = array![[1.0f64], [1.0]].lstsq_gpu_with(&array![2.0, 4.0], &LstsqOptions::default().ridge(1.0))?;
    /// assert!((fit.x[0] - 2.0).abs() < 1e-14); // 6 / (2 + 1), in place of 6 / 2
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn ridge(mut self, ridge: f64) -> Self {
        self.ridge = ridge;
        self
    }

    /// Makes [`lstsq_gpu`](crate::LstsqGpu) return the singular values of A too.
    ///
    /// ```
    /// # #[cfg(feature = "ndarray")] {
    /// use ndarray::array;
    /// use svdvals_gpu::{LstsqGpu, LstsqOptions};
    /// let fit = array![[3.0f64, 0.0], [0.0, 1.0]].lstsq_gpu_with(&array![3.0, 1.0], &LstsqOptions::default().singular_values(true))?;
    /// assert!(fit.singular_values.is_some_and(|s| (s[0] - 3.0).abs() < 1e-14));
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn singular_values(mut self, wanted: bool) -> Self {
        self.singular_values = wanted;
        self
    }

    /// Makes [`lstsq_gpu`](crate::LstsqGpu) factor A in lower precision, and iterate in double precision.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{LstsqGpu, Preconditioner, Route, Solver, LstsqOptions};
    /// let a = faer::Mat::from_fn(300, 40, |i, j| ((3 * i + 1) as f64 * (j + 2) as f64).sin());
    /// let b = faer::Col::from_fn(300, |i| (i as f64).cos());
    /// let report = a.lstsq_gpu_report(&b, &LstsqOptions::default().preconditioner(Preconditioner::Single))?;
    /// assert_eq!(report.route, Route::LeastSquares(Solver::Preconditioned));
    /// assert!(report.values.backward_error < 1e-15);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// On a GPU that need not have f64, with A there:
    ///
    /// ```
    /// # #[cfg(all(feature = "faer", feature = "gpu"))] {
    /// use svdvals_gpu::{Backend, GpuContext, LstsqGpu, Preconditioner, Route, Solver, LstsqOptions};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let a = faer::Mat::from_fn(300, 40, |i, j| ((3 * i + 1) as f64 * (j + 2) as f64).sin());
    /// let b = faer::Col::from_fn(300, |i| (i as f64).cos());
    /// let report = a.lstsq_gpu_report(&b, &LstsqOptions::default().preconditioner(Preconditioner::Resident).backend(Backend::Gpu))?;
    /// assert_eq!(report.route, Route::LeastSquares(Solver::Resident));
    /// assert!(report.values.backward_error < 1e-15);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn preconditioner(mut self, preconditioner: Preconditioner) -> Self {
        self.preconditioner = preconditioner;
        self
    }

    /// Makes [`lstsq_gpu`](crate::LstsqGpu) compute R with products by low precision ([`Products`]), of the matrix in f32 whatever its real type
    /// is, and iterate with it in double precision as with a [`Preconditioner`]. With `Half` that succeeds up to condition numbers of about 1000;
    /// otherwise a factorisation in full precision follows. Not for complex or wide matrices.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{Backend, LstsqGpu, LstsqOptions, Products, Route, Solver};
    /// let options = LstsqOptions::default().backend(Backend::Cpu).products(Products::Half);
    /// let a = faer::Mat::from_fn(90, 30, |i, j| ((3 * i + 1) as f32 * (j + 2) as f32).sin());
    /// let fit = a.lstsq_gpu_report(&faer::Col::from_fn(90, |i| i as f32), &options)?;
    /// assert_eq!(fit.route, Route::LeastSquares(Solver::Recursive(Products::Half)));
    /// assert!(fit.values.backward_error < 1e-7);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn products(mut self, products: Products) -> Self {
        self.products = products;
        self
    }

    /// Checks that the ridge is a penalty.
    pub(crate) fn check_ridge(&self) -> Result<()> {
        if (0.0..f64::INFINITY).contains(&self.ridge) {
            return Ok(());
        }
        Err(SvdError::invalid("ridge", format!("{}, but it must be finite and not negative", self.ridge)))
    }
}
