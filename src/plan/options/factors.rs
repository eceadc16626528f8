//! Options of QR factorisations and of least squares.

use crate::{
    plan::{options::SvdOptions, route::Preconditioner},
    tile::products::Products,
};

impl SvdOptions {
    /// Makes [`qr_gpu`](crate::QrGpu) pivot: A P = Q R, with the moduli on R's diagonal descending (LAPACK's `geqp3`), down to
    /// about sqrt(eps) of the largest, where the lengths of the remaining columns are no longer known.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{QrGpu, SvdOptions};
    /// let qr = faer::mat![[0.0f64, 3.0, 3.0], [0.0, 4.0, 4.0]].qr_gpu_with(&SvdOptions::default().pivot(true))?;
    /// assert_eq!((qr.rank(), qr.order().unwrap().len()), (1, 3));
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn pivot(mut self, pivot: bool) -> Self {
        self.pivot = pivot;
        self
    }

    /// Makes the diagonal of [`qr_gpu`](crate::QrGpu)'s R real and nonnegative. If A has full rank, Q and R are then unique.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{QrGpu, SvdOptions};
    /// let r = faer::mat![[0.0f64, 2.0], [-3.0, 0.0]].qr_gpu_with(&SvdOptions::default().positive_diagonal(true))?.r();
    /// assert!((r[(0, 0)] - 3.0).abs() < 1e-14 && (r[(1, 1)] - 2.0).abs() < 1e-14);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn positive_diagonal(mut self, positive: bool) -> Self {
        self.positive_diagonal = positive;
        self
    }

    /// Makes [`lstsq_gpu`](crate::LstsqGpu) minimise ||A X - B||^2 + `ridge` ||X||^2 (ridge regression, Tikhonov regularisation). `ridge` is
    /// not negative.
    ///
    /// ```
    /// # #[cfg(feature = "ndarray")] {
    /// use ndarray::array;
    /// use svdvals_gpu::{LstsqGpu, SvdOptions};
    /// let fit = array![[1.0f64], [1.0]].lstsq_gpu_with(&array![2.0, 4.0], &SvdOptions::default().ridge(1.0))?;
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
    /// use svdvals_gpu::{LstsqGpu, SvdOptions};
    /// let fit = array![[3.0f64, 0.0], [0.0, 1.0]].lstsq_gpu_with(&array![3.0, 1.0], &SvdOptions::default().singular_values(true))?;
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
    /// use svdvals_gpu::{LstsqGpu, Preconditioner, Route, Solver, SvdOptions};
    /// let a = faer::Mat::from_fn(300, 40, |i, j| ((3 * i + 1) as f64 * (j + 2) as f64).sin());
    /// let b = faer::Col::from_fn(300, |i| (i as f64).cos());
    /// let report = a.lstsq_gpu_report(&b, &SvdOptions::default().preconditioner(Preconditioner::Single))?;
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
    /// use svdvals_gpu::{Backend, GpuContext, LstsqGpu, Preconditioner, Route, Solver, SvdOptions};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let a = faer::Mat::from_fn(300, 40, |i, j| ((3 * i + 1) as f64 * (j + 2) as f64).sin());
    /// let b = faer::Col::from_fn(300, |i| (i as f64).cos());
    /// let report = a.lstsq_gpu_report(&b, &SvdOptions::default().preconditioner(Preconditioner::Resident).backend(Backend::Gpu))?;
    /// assert_eq!(report.route, Route::LeastSquares(Solver::Resident));
    /// assert!(report.values.backward_error < 1e-15);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn preconditioner(mut self, preconditioner: Preconditioner) -> Self {
        self.preconditioner = preconditioner;
        self
    }

    /// Makes [`qr_gpu`](crate::QrGpu) multiply matrices by low precision: see [`Products`]. [`lstsq_gpu`](crate::LstsqGpu) then computes an R in
    /// that precision, of the matrix in f32 whatever its real type is, with which it iterates in double precision as with a
    /// [`Preconditioner`]. With `Half` that succeeds up to condition numbers of about 1000; otherwise a factorisation in full precision follows.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{Backend, LstsqGpu, Orthogonal, Products, QrGpu, Route, Solver, SvdOptions};
    /// let options = SvdOptions::default().backend(Backend::Cpu).products(Products::Half);
    /// let a = faer::Mat::from_fn(90, 30, |i, j| ((3 * i + 1) as f32 * (j + 2) as f32).sin());
    /// assert_eq!(a.qr_gpu_report(&options)?.route, Route::Qr(Orthogonal::Recursive(Products::Half)));
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
}
