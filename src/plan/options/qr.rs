//! Options of QR factorisations.

use crate::{
    base::error::{Result, SvdError},
    plan::options::{RunOptions, run::run_methods},
    tile::products::Products,
};

/// Options of a [QR factorisation](crate::QrGpu).
///
/// ```
/// use svdvals_gpu::{Backend, QrOptions};
/// let options = QrOptions::default().pivot(true).backend(Backend::Cpu);
/// assert!(options.pivot && options.run.backend == Backend::Cpu);
/// ```
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default, deny_unknown_fields))]
#[non_exhaustive]
pub struct QrOptions {
    /// Where and how the call runs.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub run: RunOptions,
    /// Whether the columns are permuted so that the diagonal of R descends.
    pub pivot: bool,
    /// The largest diagonal entry of R, relative to the first, that counts as zero for the rank; None is sqrt(max(m, n)) eps.
    pub tolerance: Option<f64>,
    /// Whether the diagonal of R is real and nonnegative.
    pub positive_diagonal: bool,
    /// The precision of the products of matrices.
    pub products: Products,
}

run_methods!(QrOptions);

impl QrOptions {
    /// Makes [`qr_gpu`](crate::QrGpu) pivot: A P = Q R, with the moduli on R's diagonal descending (LAPACK's `geqp3`), down to
    /// about sqrt(eps) of the largest, where the lengths of the remaining columns are no longer known.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{QrGpu, QrOptions};
    /// let qr = faer::mat![[0.0f64, 3.0, 3.0], [0.0, 4.0, 4.0]].qr_gpu_with(&QrOptions::default().pivot(true))?;
    /// assert_eq!((qr.rank(), qr.order().unwrap().len()), (1, 3));
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn pivot(mut self, pivot: bool) -> Self {
        self.pivot = pivot;
        self
    }

    /// Sets the largest diagonal entry of R, relative to the first, that counts as zero for the [rank](crate::Qr::rank). `tolerance` is between 0
    /// and 1. R alone ([`qr_r_gpu`](crate::QrGpu::qr_r_gpu)) has no rank.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{QrGpu, QrOptions};
    /// let qr = faer::mat![[4.0f64, 0.0], [0.0, 0.01]].qr_gpu_with(&QrOptions::default().tolerance(0.1))?;
    /// assert_eq!(qr.rank(), 1);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn tolerance(mut self, tolerance: f64) -> Self {
        self.tolerance = Some(tolerance);
        self
    }

    /// Makes the diagonal of [`qr_gpu`](crate::QrGpu)'s R real and nonnegative. If A has full rank, Q and R are then unique.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{QrGpu, QrOptions};
    /// let r = faer::mat![[0.0f64, 2.0], [-3.0, 0.0]].qr_gpu_with(&QrOptions::default().positive_diagonal(true))?.r();
    /// assert!((r[(0, 0)] - 3.0).abs() < 1e-14 && (r[(1, 1)] - 2.0).abs() < 1e-14);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn positive_diagonal(mut self, positive: bool) -> Self {
        self.positive_diagonal = positive;
        self
    }

    /// Makes [`qr_gpu`](crate::QrGpu) multiply matrices by low precision: see [`Products`]. For real matrices in single precision.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{Backend, Orthogonal, Products, QrGpu, QrOptions, Route};
    /// let options = QrOptions::default().backend(Backend::Cpu).products(Products::Half);
    /// let a = faer::Mat::from_fn(90, 30, |i, j| ((3 * i + 1) as f32 * (j + 2) as f32).sin());
    /// assert_eq!(a.qr_gpu_report(&options)?.route, Route::Qr(Orthogonal::Recursive(Products::Half)));
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn products(mut self, products: Products) -> Self {
        self.products = products;
        self
    }

    /// Checks the options of a call that returns R alone.
    pub(crate) fn check_r(&self) -> Result<()> {
        match self.tolerance {
            Some(_) => Err(SvdError::invalid("tolerance", "it is of the rank, and qr_r_gpu returns R alone; qr_gpu has a rank")),
            None => Ok(()),
        }
    }
}
