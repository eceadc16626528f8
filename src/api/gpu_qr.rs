//! The QR factorisation of a matrix that is on the device.

use crate::{
    api::{element::Element, gpu_matrix::GpuMatrix},
    base::{
        blas::{Op, Side},
        error::Result,
    },
    plan::{device::qr::Factorisation, options::QrOptions, qr_factors::quotient_of_ends, report::SvdReport},
};

/// A = Q R, the result of [`GpuMatrix::qr`], which stays on the device. A is m x n, and k = min(m, n).
///
/// ```
/// # #[cfg(feature = "faer")] {
/// use svdvals_gpu::{GpuContext, GpuMatrix, QrOptions};
/// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
/// let a = faer::mat![[3.0f32, 1.0], [4.0, 2.0], [0.0, 5.0]];
/// let qr = GpuMatrix::upload(&GpuContext::global()?, &a)?.qr(&QrOptions::default())?;
/// let (q, r) = (qr.thin_q()?.to_mat()?, qr.r()?.to_mat()?); // read back
/// assert!((q * &r - a).norm_max() < 1e-5 && r[(1, 0)] == 0.0);
/// # }
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
pub struct GpuQr<T: Element>(Box<dyn Factorisation<T::Scalar>>);

impl<T: Element> GpuMatrix<T> {
    /// The QR factorisation. Q and R stay on the device. Nothing of them is read back; of a tall matrix of at most 512 columns, how far the first pass of
    /// CholeskyQR2 leaves them from orthonormal. With [`QrOptions::products`] two squares of each panel are,
    /// of 128 columns at most, in which the host finds the reflectors; with [`QrOptions::pivot`] or [`QrOptions::positive_diagonal`] R is, and what the
    /// host finds is uploaded: a square factor of Q, and another R.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix, QrOptions};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let a = GpuMatrix::upload(&GpuContext::global()?, &faer::mat![[3.0f32], [4.0]])?;
    /// let r = a.qr(&QrOptions::default())?.r()?.to_mat()?;
    /// assert!((r[(0, 0)].abs() - 5.0).abs() < 1e-5);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`svdvals`](Self::svdvals). [`SvdError::InvalidOption`](crate::SvdError::InvalidOption) for [`HalfStorage::Half`](crate::HalfStorage::Half), and for [`QrOptions::products`] of other types than in
    /// [`Products`](crate::Products) or without [cooperative matrices](crate::GpuContext::cooperative_matrices).
    pub fn qr(&self, options: &QrOptions) -> Result<GpuQr<T>> {
        Ok(self.factored(options, false)?.values)
    }

    /// Like [`qr`](Self::qr), with a report of what ran and the seconds.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix, QrOptions};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let a = GpuMatrix::upload(&GpuContext::global()?, &faer::Mat::<f32>::identity(100, 80))?;
    /// assert_eq!(a.qr_report(&QrOptions::default())?.counts.bytes_read_back, 0);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`qr`](Self::qr).
    pub fn qr_report(&self, options: &QrOptions) -> Result<SvdReport<GpuQr<T>>> {
        self.factored(options, true)
    }

    fn factored(&self, options: &QrOptions, timed: bool) -> Result<SvdReport<GpuQr<T>>> {
        Ok(T::device_qr(&self.0, options, timed)?.map(GpuQr))
    }
}

impl<T: Element> GpuQr<T> {
    /// R, k x n, with zeros below the diagonal.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix, QrOptions, SvdOptions};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let a = GpuMatrix::upload(&GpuContext::global()?, &faer::mat![[3.0f32, 5.0], [4.0, 5.0]])?;
    /// let s = a.qr(&QrOptions::default())?.r()?.svdvals(&SvdOptions::default())?; // those of A
    /// assert!((s[0] * s[1] - 5.0).abs() < 1e-5);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::TooLarge`](crate::SvdError::TooLarge) if one buffer cannot hold it; [`SvdError::Overflow`](crate::SvdError::Overflow) if an entry exceeds its type; [`SvdError::OutOfMemory`](crate::SvdError::OutOfMemory),
    /// [`SvdError::DeviceLost`](crate::SvdError::DeviceLost) and [`SvdError::Gpu`](crate::SvdError::Gpu), as the device reports them.
    pub fn r(&self) -> Result<GpuMatrix<T::Scalar>> {
        Ok(GpuMatrix::of(self.0.r()?))
    }

    /// The first k columns of Q, m x k.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix, QrOptions};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let a = GpuMatrix::upload(&GpuContext::global()?, &faer::mat![[3.0f32], [4.0]])?;
    /// let q = a.qr(&QrOptions::default())?.thin_q()?.to_mat()?;
    /// assert!((q[(0, 0)].abs() - 0.6).abs() < 1e-5 && q.ncols() == 1);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`r`](Self::r), without overflow.
    pub fn thin_q(&self) -> Result<GpuMatrix<T::Scalar>> {
        let (m, n) = self.0.shape();
        self.q(m.min(n))
    }

    /// Q, m x m.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix, QrOptions};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let a = GpuMatrix::upload(&GpuContext::global()?, &faer::mat![[3.0f32], [4.0]])?;
    /// let q = a.qr(&QrOptions::default())?.complete_q()?.to_mat()?;
    /// assert!((q[(0, 1)].abs() - 0.8).abs() < 1e-5);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`thin_q`](Self::thin_q).
    pub fn complete_q(&self) -> Result<GpuMatrix<T::Scalar>> {
        self.q(self.0.shape().0)
    }

    fn q(&self, cols: usize) -> Result<GpuMatrix<T::Scalar>> {
        Ok(GpuMatrix::of(self.0.q(cols)?))
    }

    /// op(Q) C, with the m x m matrix Q, which is not formed. C has m rows, and stays as it is.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix, QrOptions, triangular::Op};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let a = GpuMatrix::upload(&GpuContext::global()?, &faer::mat![[3.0f32], [4.0]])?;
    /// let r = a.qr(&QrOptions::default())?.apply_q(&a, Op::ConjTrans)?.to_mat()?;
    /// assert!((r[(0, 0)].abs() - 5.0).abs() < 1e-5 && r[(1, 0)].abs() < 1e-5);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::InvalidOption`](crate::SvdError::InvalidOption) for another number of rows, and for another device; as [`thin_q`](Self::thin_q).
    pub fn apply_q(&self, c: &GpuMatrix<T::Scalar>, op: Op) -> Result<GpuMatrix<T::Scalar>> {
        self.apply(c, Side::Left, op)
    }

    /// C op(Q), with the m x m matrix Q. C has m columns, and stays as it is.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix, QrOptions, triangular::Op};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let context = GpuContext::global()?;
    /// let qr = GpuMatrix::upload(&context, &faer::mat![[3.0f32], [4.0]])?.qr(&QrOptions::default())?;
    /// let c = qr.apply_q_right(&GpuMatrix::upload(&context, &faer::mat![[3.0f32, 4.0]])?, Op::NoTrans)?.to_mat()?;
    /// assert!((c[(0, 0)].abs() - 5.0).abs() < 1e-5 && c[(0, 1)].abs() < 1e-5);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`apply_q`](Self::apply_q).
    pub fn apply_q_right(&self, c: &GpuMatrix<T::Scalar>, op: Op) -> Result<GpuMatrix<T::Scalar>> {
        self.apply(c, Side::Right, op)
    }

    fn apply(&self, c: &GpuMatrix<T::Scalar>, side: Side, op: Op) -> Result<GpuMatrix<T::Scalar>> {
        Ok(GpuMatrix::of(self.0.apply(&c.0, side, op)?))
    }

    /// The numerical rank: the number of diagonal entries of R above [`tolerance`](QrOptions::tolerance) times the largest, by
    /// default sqrt(max(m, n)) eps. R is read back. Without pivoting this bounds the rank neither way: [`svdvals`](Self::svdvals) shows it.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix, QrOptions};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let a = GpuMatrix::upload(&GpuContext::global()?, &faer::mat![[3.0f32, 0.0], [4.0, 0.0]])?;
    /// assert_eq!(a.qr(&QrOptions::default())?.rank()?, 1);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::OutOfMemory`](crate::SvdError::OutOfMemory), [`SvdError::DeviceLost`](crate::SvdError::DeviceLost) and
    /// [`SvdError::Gpu`](crate::SvdError::Gpu), as the device reports them.
    pub fn rank(&self) -> Result<usize> {
        self.0.rank()
    }

    /// The permutation P of [`QrOptions::pivot`]: column j of A P is column `order()[j]` of A. None without pivoting.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix, QrOptions};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let a = GpuMatrix::upload(&GpuContext::global()?, &faer::mat![[1.0f32, 3.0], [0.0, 4.0]])?;
    /// assert_eq!(a.qr(&QrOptions::default().pivot(true))?.order(), Some(&[1, 0][..])); // the longer column first
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn order(&self) -> Option<&[usize]> {
        self.0.order()
    }

    /// The singular values of A, descending, computed on the device from R with default options.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix, QrOptions};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let a = GpuMatrix::upload(&GpuContext::global()?, &faer::mat![[3.0f32, 5.0], [4.0, 5.0]])?;
    /// let s = a.qr(&QrOptions::default())?.svdvals()?;
    /// assert!((s[0] * s[1] - 5.0).abs() < 1e-5);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`r`](Self::r), and as [`GpuMatrix::svdvals`].
    pub fn svdvals(&self) -> Result<Vec<T::Real>> {
        self.0.svdvals()
    }

    /// The condition number of A, the quotient of its largest and smallest [singular values](Self::svdvals): infinite if the smallest is
    /// zero, and NaN for an empty matrix.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix, QrOptions};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let a = GpuMatrix::upload(&GpuContext::global()?, &faer::mat![[6.0f32, 0.0], [0.0, 2.0]])?;
    /// assert!((a.qr(&QrOptions::default())?.condition()? - 3.0).abs() < 1e-5);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`svdvals`](Self::svdvals).
    pub fn condition(&self) -> Result<f64> {
        Ok(quotient_of_ends(&self.svdvals()?))
    }

    /// The minimiser X (n x p) of ||A X - B||, for A of full column rank and any number of calls. With pivoting, and a rank below n, it is
    /// the basic solution: the rows of the columns that come last are zero. It is read back then, and uploaded in the columns' order. See also [`GpuMatrix::lstsq`].
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix, QrOptions};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let context = GpuContext::global()?;
    /// let qr = GpuMatrix::upload(&context, &faer::mat![[1.0f32, 0.0], [1.0, 1.0], [1.0, 2.0]])?.qr(&QrOptions::default())?;
    /// let x = qr.solve_lstsq(&GpuMatrix::upload(&context, &faer::mat![[1.0f32], [3.0], [5.0]])?)?.to_mat()?;
    /// assert!((x - faer::mat![[1.0], [2.0]]).norm_max() < 1e-5);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::RankDeficient`](crate::SvdError::RankDeficient) without pivoting, if A is wide or an estimate of its condition number is 1 /
    /// [`tolerance`](QrOptions::tolerance) or more; [`SvdError::InvalidOption`](crate::SvdError::InvalidOption) if B does not have m rows, has an entry that is NaN or infinite,
    /// or is on another device; [`SvdError::Overflow`](crate::SvdError::Overflow) if an entry of X exceeds its type; as [`r`](Self::r).
    pub fn solve_lstsq(&self, b: &GpuMatrix<T>) -> Result<GpuMatrix<T::Scalar>> {
        Ok(GpuMatrix::of(self.0.solve(&b.0)?))
    }
}

impl<T: Element> std::fmt::Debug for GpuQr<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (m, n) = self.0.shape();
        write!(f, "GpuQr<{}>({m} x {n} on {})", T::NAME, self.0.context().adapter_name())
    }
}
