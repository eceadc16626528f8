//! The trait that gives matrices their QR factorisation, and the factors.

use std::marker::PhantomData;

use crate::{
    api::{
        element::Element,
        svdvals::SvdValsGpu,
        triangular::{Op, Side, sealed::MatrixMut},
    },
    base::error::Result,
    plan::{
        drivers::Drivers,
        lstsq::scale_of_b,
        options::{QrOptions, SvdOptions},
        qr_factors::quotient_of_ends,
        qr_report::BoxedFactors,
        report::SvdReport,
    },
};

/// QR factorisation of a matrix, on a GPU or on the CPU.
///
/// ```text
/// A = Q R     A: m x n, Q: m x m unitary, R: m x n upper trapezoidal, k = min(m, n)
/// A P = Q R   with column pivoting
/// ```
///
/// Q is kept in the form in which it was computed, on a GPU in its memory. [`Qr`] applies it, forms it, and solves least squares problems.
/// Implemented for the matrices and the element types of [`SvdValsGpu`], of any shape. Q and R of `half::f16` and `half::bf16` are `f32`.
/// Sealed.
///
/// | method | LAPACK |
/// | --- | --- |
/// | [`qr_gpu`](QrGpu::qr_gpu) | `geqrf`; `geqp3` with [`QrOptions::pivot`] |
/// | [`Qr::thin_q`], [`Qr::complete_q`] | `orgqr`, `ungqr` |
/// | [`Qr::apply_q`] | `ormqr`, `unmqr` |
/// | [`Qr::solve_lstsq`] | `gels`; [`LstsqGpu`](crate::LstsqGpu) has `gelsd` |
/// | [`Qr::householder`] | `orhr_col`, `unhr_col` |
///
/// A tall, narrow matrix (on a GPU up to 512 columns, on the CPU where it takes less time) is factored by CholeskyQR2 if its condition number allows
/// it, and by Householder reflectors otherwise, as all other matrices are: see [`Orthogonal`](crate::Orthogonal).
///
/// ```
/// # #[cfg(feature = "ndarray")] {
/// use ndarray::array;
/// use svdvals_gpu::QrGpu;
/// let a = array![[3.0f64, 1.0], [4.0, 2.0], [0.0, 5.0]];
/// let qr = a.qr_gpu()?;
/// let (q, r) = (qr.thin_q()?, qr.r());
/// assert_eq!((q.dim(), r.dim()), ((3, 2), (2, 2)));
/// assert!((a - q.dot(&r)).iter().all(|x| x.abs() < 1e-14) && r[[1, 0]] == 0.0);
/// # }
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
pub trait QrGpu: SvdValsGpu {
    /// The matrices of the result, in the matrix's library: `ndarray::Array2` or `faer::Mat`.
    type Matrix: sealed::Dense<<<Self as SvdValsGpu>::Element as Element>::Arithmetic>;

    /// The factorisation, with default options.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::QrGpu;
    /// let a = faer::mat![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]; // wide
    /// let qr = a.qr_gpu()?;
    /// assert_eq!((qr.thin_q()?.shape(), qr.r().shape()), ((2, 2), (2, 3)));
    /// assert!((qr.thin_q()? * qr.r() - a).norm_max() < 1e-5);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`qr_gpu_with`](Self::qr_gpu_with).
    fn qr_gpu(&self) -> Result<Qr<Self::Element, Self::Matrix>> {
        self.qr_gpu_with(&QrOptions::default())
    }

    /// The factorisation that `options` ask for ([`pivot`](QrOptions::pivot), [`positive_diagonal`](QrOptions::positive_diagonal),
    /// [`tolerance`](QrOptions::tolerance), [`products`](QrOptions::products)).
    ///
    /// ```
    /// # #[cfg(feature = "ndarray")] {
    /// use ndarray::array;
    /// use svdvals_gpu::{QrGpu, QrOptions};
    /// let a = array![[1.0f64, 3.0], [0.0, 4.0]];
    /// let qr = a.qr_gpu_with(&QrOptions::default().pivot(true))?;
    /// assert_eq!(qr.order(), Some(&[1, 0][..])); // the longer column first
    /// assert!((qr.r()[[0, 0]].abs() - 5.0).abs() < 1e-14);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`SvdValsGpu::svdvals_gpu_with`]. [`SvdError::Overflow`](crate::SvdError::Overflow) if an entry of R exceeds its type.
    /// [`SvdError::InvalidOption`](crate::SvdError::InvalidOption) for [`products`](QrOptions::products) that there are not for the element type,
    /// or not on the GPU that was asked for.
    fn qr_gpu_with(&self, options: &QrOptions) -> Result<Qr<Self::Element, Self::Matrix>> {
        Ok(Qr::new(Self::Element::qr(self.as_faer(), options, false)?.values))
    }

    /// Like [`qr_gpu_with`](Self::qr_gpu_with), with a report: what ran, why, and the seconds.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{Orthogonal, QrGpu, Route, QrOptions};
    /// let a = faer::Mat::from_fn(9000, 20, |i, j| ((i * j) as f64).sin());
    /// let report = a.qr_gpu_report(&QrOptions::default())?;
    /// println!("{report}");
    /// assert_eq!(report.values.r().shape(), (20, 20));
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`qr_gpu_with`](Self::qr_gpu_with).
    fn qr_gpu_report(&self, options: &QrOptions) -> Result<SvdReport<Qr<Self::Element, Self::Matrix>>> {
        Ok(Self::Element::qr(self.as_faer(), options, true)?.map(Qr::new))
    }

    /// [`qr_gpu_with`](Self::qr_gpu_with) for a task that must not block. What it does and where is described at
    /// [`SvdValsGpu::svdvals_gpu_async`]. The methods of the result block.
    ///
    /// ```
    /// # #[cfg(feature = "ndarray")] {
    /// use svdvals_gpu::{QrGpu, QrOptions};
    /// let a = ndarray::array![[0.0f32, 2.0], [4.0, 0.0]];
    /// let qr = pollster::block_on(a.qr_gpu_async(&QrOptions::default()))?; // or whatever runs your tasks
    /// assert!((qr.r()[[0, 0]].abs() - 4.0).abs() < 1e-6);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`qr_gpu_with`](Self::qr_gpu_with).
    fn qr_gpu_async<'a>(
        &'a self,
        options: &'a QrOptions,
    ) -> impl Future<Output = Result<Qr<Self::Element, Self::Matrix>>> + Send + 'a {
        let factors = Self::Element::qr_async(self.as_faer(), options, false);
        async { Ok(Qr::new(factors.await?.values)) }
    }

    /// R alone, k x n, with default options. Faster than [`qr_gpu`](Self::qr_gpu): no reflectors are kept.
    ///
    /// ```
    /// # #[cfg(feature = "ndarray")] {
    /// use svdvals_gpu::QrGpu;
    /// let a = ndarray::Array2::from_shape_fn((50, 3), |(i, j)| (i as f64).powi(j as i32));
    /// let r = a.qr_r_gpu()?;
    /// assert!((r.t().dot(&r) / a.t().dot(&a)).iter().all(|x| (x - 1.0).abs() < 1e-12)); // R^T R = A^T A
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`qr_gpu_with`](Self::qr_gpu_with).
    fn qr_r_gpu(&self) -> Result<Self::Matrix> {
        self.qr_r_gpu_with(&QrOptions::default())
    }

    /// R alone, with options.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{QrGpu, QrOptions};
    /// let r = faer::mat![[3.0f64], [4.0]].qr_r_gpu_with(&QrOptions::default().positive_diagonal(true))?;
    /// assert!((r[(0, 0)] - 5.0).abs() < 1e-14);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`qr_gpu_with`](Self::qr_gpu_with).
    fn qr_r_gpu_with(&self, options: &QrOptions) -> Result<Self::Matrix> {
        let report = Self::Element::qr_r(self.as_faer(), options, false)?;
        Ok(sealed::Dense::from_mat(report.values))
    }

    /// Like [`qr_r_gpu_with`](Self::qr_r_gpu_with), with a report.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{QrGpu, QrOptions};
    /// let report = faer::Mat::<f32>::identity(30, 20).qr_r_gpu_report(&QrOptions::default())?;
    /// assert_eq!(report.values.shape(), (20, 20));
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`qr_gpu_with`](Self::qr_gpu_with).
    fn qr_r_gpu_report(&self, options: &QrOptions) -> Result<SvdReport<Self::Matrix>> {
        let report = Self::Element::qr_r(self.as_faer(), options, true)?;
        Ok(report.map(sealed::Dense::from_mat))
    }
}

/// The result of [`QrGpu`]: A = Q R, or A P = Q R. `T` is A's element type, and `M` the matrix of the caller's library for Q and R.
///
/// ```
/// # #[cfg(feature = "faer")] {
/// use svdvals_gpu::{QrGpu, triangular::Op};
/// let a = faer::Mat::from_fn(20, 4, |i, j| (i as f64 / 20.0).powi(j as i32));
/// let qr = a.qr_gpu()?;
/// let mut b = a.clone();
/// qr.apply_q(&mut b, Op::ConjTrans)?; // Q^H A = R, without forming Q
/// assert!((b.get(..4, ..) - qr.r()).norm_max() < 1e-14 && b.get(4.., ..).norm_max() < 1e-14);
/// # }
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
pub struct Qr<T: Element, M> {
    factors: BoxedFactors<T::Arithmetic>,
    matrix: PhantomData<fn() -> M>,
}

impl<T: Element, M: sealed::Dense<T::Arithmetic>> Qr<T, M> {
    fn new(factors: BoxedFactors<T::Arithmetic>) -> Self {
        Qr { factors, matrix: PhantomData }
    }

    /// R, k x n, upper trapezoidal.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::QrGpu;
    /// let r = faer::mat![[3.0f64, 1.0], [4.0, 2.0]].qr_gpu()?.r();
    /// assert!(r[(1, 0)] == 0.0 && (r[(0, 0)].abs() - 5.0).abs() < 1e-14);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn r(&self) -> M {
        M::from_mat(self.factors.r().to_owned())
    }

    /// The first k columns of Q, m x k.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::QrGpu;
    /// let q = faer::Mat::from_fn(30, 5, |i, j| ((i * j) as f64).cos()).qr_gpu()?.thin_q()?;
    /// assert!((q.transpose() * &q - faer::Mat::<f64>::identity(5, 5)).norm_max() < 1e-14);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::OutOfMemory`](crate::SvdError::OutOfMemory) if there is no room for it; the device's errors for a Q on a GPU.
    pub fn thin_q(&self) -> Result<M> {
        let k = self.factors.r().nrows();
        Ok(M::from_mat(self.factors.q(k)?))
    }

    /// The whole Q, m x m. Its last m - k columns span the orthogonal complement of the first.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::QrGpu;
    /// assert_eq!(faer::mat![[1.0f64], [1.0], [1.0]].qr_gpu()?.complete_q()?.shape(), (3, 3));
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`thin_q`](Self::thin_q).
    pub fn complete_q(&self) -> Result<M> {
        Ok(M::from_mat(self.factors.q(self.factors.shape().0)?))
    }

    /// C <- op(Q) C, with the m x m matrix Q, which is not formed. C has m rows.
    ///
    /// ```
    /// # #[cfg(feature = "ndarray")] {
    /// use ndarray::array;
    /// use svdvals_gpu::{QrGpu, triangular::Op};
    /// let qr = array![[3.0f64], [4.0]].qr_gpu()?;
    /// let mut c = array![[3.0], [4.0]];
    /// qr.apply_q(&mut c, Op::ConjTrans)?;
    /// assert!((c[[0, 0]].abs() - 5.0).abs() < 1e-14 && c[[1, 0]].abs() < 1e-14);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::InvalidOption`](crate::SvdError::InvalidOption) for another number of rows; as [`thin_q`](Self::thin_q). After an error C is
    /// unchanged.
    pub fn apply_q<C: MatrixMut<T::Arithmetic>>(&self, c: &mut C, op: Op) -> Result<()> {
        self.apply(c, Side::Left, op)
    }

    /// C <- C op(Q), with the m x m matrix Q. C has m columns.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{QrGpu, triangular::Op};
    /// let qr = faer::mat![[3.0f64], [4.0]].qr_gpu()?;
    /// let mut c = faer::mat![[3.0, 4.0]];
    /// qr.apply_q_right(&mut c, Op::NoTrans)?;
    /// assert!((c[(0, 0)].abs() - 5.0).abs() < 1e-14 && c[(0, 1)].abs() < 1e-14);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`apply_q`](Self::apply_q).
    pub fn apply_q_right<C: MatrixMut<T::Arithmetic>>(&self, c: &mut C, op: Op) -> Result<()> {
        self.apply(c, Side::Right, op)
    }

    fn apply<C: MatrixMut<T::Arithmetic>>(&self, c: &mut C, side: Side, op: Op) -> Result<()> {
        let mut c = c.as_faer_mut();
        let product = self.factors.apply(side, op, c.as_ref())?;
        c.copy_from(&product);
        Ok(())
    }

    /// The permutation P of [`QrOptions::pivot`]: column j of A P is column `order()[j]` of A. None without pivoting.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// assert_eq!(svdvals_gpu::QrGpu::qr_gpu(&faer::mat![[1.0f64, 3.0]])?.order(), None);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn order(&self) -> Option<&[usize]> {
        self.factors.order()
    }

    /// The number of diagonal entries of R above [`QrOptions::tolerance`] times the largest, by default sqrt(max(m, n)) eps.
    /// With pivoting this is the numerical rank; without, it bounds the rank neither way.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{QrGpu, QrOptions};
    /// let a = faer::Mat::from_fn(9, 6, |i, j| ((i + 1) * (j % 2 + i * (j % 2) + 1)) as f64);
    /// assert_eq!(a.qr_gpu_with(&QrOptions::default().pivot(true))?.rank(), 2);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn rank(&self) -> usize {
        self.factors.rank()
    }

    /// The singular values of A, those of R, descending.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::QrGpu;
    /// let s = faer::mat![[0.0f64, 2.0], [-3.0, 0.0], [0.0, 0.0]].qr_gpu()?.svdvals()?;
    /// assert!((s[0] - 3.0).abs() < 1e-14 && (s[1] - 2.0).abs() < 1e-14);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`SvdValsGpu::svdvals_gpu`].
    pub fn svdvals(&self) -> Result<Vec<T::Real>> {
        Ok(T::Arithmetic::svdvals(self.factors.r(), &SvdOptions::default(), false)?.values)
    }

    /// The condition number in the 2-norm: the ratio of the largest to the smallest singular value of A; infinite if the smallest is zero, and
    /// NaN for an empty matrix.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::QrGpu;
    /// assert!((faer::mat![[0.0f64, 2.0], [-3.0, 0.0]].qr_gpu()?.condition()? - 1.5).abs() < 1e-14);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`svdvals`](Self::svdvals).
    pub fn condition(&self) -> Result<f64> {
        Ok(quotient_of_ends(&self.svdvals()?))
    }

    /// The minimiser X (n x p) of ||A X - B|| for B (m x p, or a vector). The factors serve any number of calls.
    ///
    /// Without pivoting A must have full column rank. With pivoting, and a rank below n, X is the basic solution: the rows of the columns
    /// that count for the rank; the others are zero.
    ///
    /// ```
    /// # #[cfg(feature = "ndarray")] {
    /// use ndarray::array;
    /// use svdvals_gpu::QrGpu;
    /// let qr = array![[1.0f64, 0.0], [1.0, 1.0], [1.0, 2.0]].qr_gpu()?; // a line through three points
    /// let x = qr.solve_lstsq(&array![1.0, 3.0, 5.0])?;
    /// assert!((x - array![1.0, 2.0]).iter().all(|x| x.abs() < 1e-14));
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::RankDeficient`](crate::SvdError::RankDeficient) without pivoting, if A is wide or an estimate of its condition number is
    /// 1 / [`tolerance`](QrOptions::tolerance) or more; [`SvdError::InvalidOption`](crate::SvdError::InvalidOption) if B does not have m rows,
    /// or an entry of B is NaN or infinite; [`SvdError::Overflow`](crate::SvdError::Overflow) if an entry of X exceeds its type.
    pub fn solve_lstsq<B: sealed::RightSide<T::Arithmetic>>(&self, b: &B) -> Result<B::Solution> {
        let b = b.as_columns();
        scale_of_b(b)?;
        Ok(B::collect(self.factors.solve(b)?))
    }

    /// LAPACK's form (`geqrf`): the matrix m x n with R on and above the diagonal and the reflectors' vectors below it, and their scalars tau.
    /// Q = H_0 H_1 .. with H_j = I - tau_j v_j v_j^H, and tau may be complex. The rows of this R are those of [`r`](Self::r) up to signs.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::QrGpu;
    /// let (h, tau) = faer::mat![[3.0f64], [4.0]].qr_gpu()?.householder()?;
    /// assert!((h[(0, 0)] + 5.0).abs() < 1e-14 && (h[(1, 0)] - 0.5).abs() < 1e-14 && (tau[0] - 1.6).abs() < 1e-14);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`thin_q`](Self::thin_q).
    pub fn householder(&self) -> Result<(M, Vec<T::Arithmetic>)> {
        let (h, tau) = self.factors.householder()?;
        Ok((M::from_mat(h), tau))
    }
}

impl<T: Element, M> std::fmt::Debug for Qr<T, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (m, n) = self.factors.shape();
        write!(f, "Qr({m} x {n})")
    }
}

pub(crate) mod sealed {
    use faer::{Mat, MatRef};

    use crate::api::element::Element;

    /// The matrices of a front end.
    pub trait Dense<S> {
        /// The matrix, converted.
        fn from_mat(a: Mat<S>) -> Self;
    }

    /// Right-hand sides: a matrix or a vector.
    #[diagnostic::on_unimplemented(message = "`{Self}` is no right-hand side of elements `{T}`")]
    pub trait RightSide<T: Element> {
        /// The matrix or vector of the solution.
        type Solution;
        /// The right-hand sides as columns.
        fn as_columns(&self) -> MatRef<'_, T>;
        /// The solution from its columns.
        fn collect(x: Mat<T::Scalar>) -> Self::Solution;
    }
}
