//! The QR factorisation of a matrix that is on the device.

use std::sync::OnceLock;

use faer::Mat;
use pollster::block_on;

use crate::{
    algo::condition::condition,
    api::{
        element::Element,
        gpu_matrix::{GpuMatrix, check_options},
    },
    base::{
        blas::{Op, Side},
        clock::Clock,
        error::{Result, SvdError},
        number::{HalfStorage, Re, RealElement},
        pool::on_threads,
    },
    gpu::{
        device::context::GpuContext,
        kernels::GpuKernels,
        matrix::DeviceMatrix,
        storage::{Dense, Lines},
    },
    plan::{
        backend::OnGpu,
        options::SvdOptions,
        products,
        qr_factors::{default_tolerance, upper},
        report::SvdReport,
        resident::{Boxed, by_products, by_tree, of_single},
    },
    tile::{kernels::TileKernels, products::Products},
};

/// A = Q R, the result of [`GpuMatrix::qr`], which stays on the device. A is m x n, and k = min(m, n).
///
/// ```
/// # #[cfg(feature = "faer")] {
/// use svdvals_gpu::{GpuContext, GpuMatrix, SvdOptions};
/// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
/// let a = faer::mat![[3.0f32, 1.0], [4.0, 2.0], [0.0, 5.0]];
/// let qr = GpuMatrix::upload(&GpuContext::global()?, &a)?.qr(&SvdOptions::default())?;
/// let (q, r) = (qr.thin_q()?.to_mat()?, qr.r()?.to_mat()?); // read back
/// assert!((q * &r - a).norm_max() < 1e-5 && r[(1, 0)] == 0.0);
/// # }
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
pub struct GpuQr<T: Element> {
    pub(super) factors: Boxed<T::Scalar>,
    pub(super) context: GpuContext,
    /// The power of two that A was multiplied by.
    pub(super) scale: T::Real,
    pub(super) tolerance: f64,
    /// The estimate of R's condition number, once a call has needed it.
    condition: OnceLock<f64>,
}

impl<T: Element> GpuMatrix<T> {
    /// The QR factorisation. Q's reflectors and R stay on the device; nothing is read back. With [`SvdOptions::products`] two squares of each panel are,
    /// of 128 columns at most, in which the host finds the reflectors.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix, SvdOptions};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let a = GpuMatrix::upload(&GpuContext::global()?, &faer::mat![[3.0f32], [4.0]])?;
    /// let r = a.qr(&SvdOptions::default())?.r()?.to_mat()?;
    /// assert!((r[(0, 0)].abs() - 5.0).abs() < 1e-5);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`svdvals`](Self::svdvals). [`SvdError::InvalidOption`] for [`SvdOptions::pivot`] and [`SvdOptions::positive_diagonal`], which
    /// [`QrGpu`](crate::QrGpu) has, for [`HalfStorage::Half`](crate::HalfStorage::Half), and for [`SvdOptions::products`] of other types than in
    /// [`Products`] or without [cooperative matrices](GpuContext::cooperative_matrices).
    pub fn qr(&self, options: &SvdOptions) -> Result<GpuQr<T>> {
        Ok(self.factored(options, false)?.values)
    }

    /// Like [`qr`](Self::qr), with a report of what ran and the seconds.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix, SvdOptions};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let a = GpuMatrix::upload(&GpuContext::global()?, &faer::Mat::<f32>::identity(100, 80))?;
    /// assert_eq!(a.qr_report(&SvdOptions::default())?.counts.bytes_read_back, 0);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`qr`](Self::qr).
    pub fn qr_report(&self, options: &SvdOptions) -> Result<SvdReport<GpuQr<T>>> {
        self.factored(options, true)
    }

    fn factored(&self, options: &SvdOptions, timed: bool) -> Result<SvdReport<GpuQr<T>>> {
        check_options(self.context(), options)?;
        on_threads(options.threads, || GpuQr::new(self, self.0.lines(), options, timed))
    }
}

/// The view of a matrix of a call, in one buffer, without the padding.
pub(super) fn on_device<T: Element>(context: &GpuContext, a: &Dense<T::Scalar>) -> Result<GpuMatrix<T::Scalar>> {
    Ok(GpuMatrix(DeviceMatrix::view(context, a, a.size)?))
}

impl<T: Element> GpuQr<T> {
    /// Factors the matrix of `lines`, which is `a` or its transpose.
    pub(super) fn new(a: &GpuMatrix<T>, lines: Lines<'_>, options: &SvdOptions, timed: bool) -> Result<SvdReport<Self>> {
        options.check_tolerance()?;
        if options.pivot || options.positive_diagonal {
            let option = if options.pivot { "pivot" } else { "positive_diagonal" };
            return Err(SvdError::invalid(option, "it needs R on the host, but the factors stay on the device"));
        }
        products::check::<T>(options)?;
        check_storage::<T>(options)?;
        let (context, shape) = (a.context(), lines.size());
        context.require::<T, T::Scalar>()?;
        let tuning = options.tuning_for_adapter::<T::Scalar>(context, shape.0.min(shape.1))?;
        let (total, mut clock) = (Clock::new(timed), Clock::new(timed));
        let native = options.products == Products::Native;
        if !native {
            context.cooperative()?;
        }
        let scale = a.0.scale::<T::Scalar>()?;
        let of_scale = clock.restart();
        let on = OnGpu { context: context.clone(), tuning, reason: "the matrix is on this GPU".into() };
        let mut report = if native {
            by_tree::<T::Scalar>(&lines, scale, on, options, timed)?
        } else {
            by_products(&lines, scale.to_double() as f32, on, options, timed)?.try_map(of_single::<T::Scalar>)?
        };
        report.seconds.scale = of_scale;
        report.seconds.total = total.seconds();
        let default = || if native { default_tolerance::<T>(shape) } else { products::tolerance(options, shape) };
        let tolerance = options.tolerance.unwrap_or_else(default);
        let context = context.clone();
        Ok(report.map(|factors| GpuQr { factors, context, scale, tolerance, condition: OnceLock::new() }))
    }

    fn kernels(&self) -> &GpuKernels<T::Scalar> {
        self.factors.kernels()
    }

    /// The matrix, once the work on it is done.
    fn finished(&self, a: &Dense<T::Scalar>) -> Result<GpuMatrix<T::Scalar>> {
        block_on(self.kernels().finish())?;
        on_device::<T>(&self.context, a)
    }

    /// R, k x n, with zeros below the diagonal.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix, SvdOptions};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let a = GpuMatrix::upload(&GpuContext::global()?, &faer::mat![[3.0f32, 5.0], [4.0, 5.0]])?;
    /// let s = a.qr(&SvdOptions::default())?.r()?.svdvals(&SvdOptions::default())?; // those of A
    /// assert!((s[0] * s[1] - 5.0).abs() < 1e-5);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::TooLarge`] if one buffer cannot hold it; [`SvdError::Overflow`] if an entry exceeds its type; [`SvdError::OutOfMemory`],
    /// [`SvdError::DeviceLost`] and [`SvdError::Gpu`], as the device reports them.
    pub fn r(&self) -> Result<GpuMatrix<T::Scalar>> {
        let (m, n) = self.factors.shape();
        let inverse = T::Real::from_double(1.0 / self.scale.to_double());
        let r = self.finished(&self.kernels().upper(self.factors.r(), m.min(n), inverse)?)?;
        finite(r, "entries of R")
    }

    /// The first k columns of Q, m x k.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix, SvdOptions};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let a = GpuMatrix::upload(&GpuContext::global()?, &faer::mat![[3.0f32], [4.0]])?;
    /// let q = a.qr(&SvdOptions::default())?.thin_q()?.to_mat()?;
    /// assert!((q[(0, 0)].abs() - 0.6).abs() < 1e-5 && q.ncols() == 1);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`r`](Self::r), without overflow.
    pub fn thin_q(&self) -> Result<GpuMatrix<T::Scalar>> {
        let (m, n) = self.factors.shape();
        self.q(m.min(n))
    }

    /// Q, m x m.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix, SvdOptions};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let a = GpuMatrix::upload(&GpuContext::global()?, &faer::mat![[3.0f32], [4.0]])?;
    /// let q = a.qr(&SvdOptions::default())?.complete_q()?.to_mat()?;
    /// assert!((q[(0, 1)].abs() - 0.8).abs() < 1e-5);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`thin_q`](Self::thin_q).
    pub fn complete_q(&self) -> Result<GpuMatrix<T::Scalar>> {
        self.q(self.factors.shape().0)
    }

    fn q(&self, cols: usize) -> Result<GpuMatrix<T::Scalar>> {
        self.finished(&self.factors.columns(cols)?)
    }

    /// op(Q) C, with the m x m matrix Q, which is not formed. C has m rows, and stays as it is.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix, SvdOptions, triangular::Op};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let a = GpuMatrix::upload(&GpuContext::global()?, &faer::mat![[3.0f32], [4.0]])?;
    /// let r = a.qr(&SvdOptions::default())?.apply_q(&a, Op::ConjTrans)?.to_mat()?;
    /// assert!((r[(0, 0)].abs() - 5.0).abs() < 1e-5 && r[(1, 0)].abs() < 1e-5);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::InvalidOption`] for another number of rows, and for another device; as [`thin_q`](Self::thin_q).
    pub fn apply_q(&self, c: &GpuMatrix<T::Scalar>, op: Op) -> Result<GpuMatrix<T::Scalar>> {
        self.apply(c, Side::Left, op)
    }

    /// C op(Q), with the m x m matrix Q. C has m columns, and stays as it is.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix, SvdOptions, triangular::Op};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let context = GpuContext::global()?;
    /// let qr = GpuMatrix::upload(&context, &faer::mat![[3.0f32], [4.0]])?.qr(&SvdOptions::default())?;
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
        let rows = self.factors.shape().0;
        let order = if side == Side::Left { c.nrows() } else { c.ncols() };
        if order != rows {
            let of = if side == Side::Left { "rows" } else { "columns" };
            return Err(SvdError::invalid("c", format!("{order} {of}, but Q is {rows} x {rows}")));
        }
        self.check_device("c", c.context())?;
        let (lines, one) = (c.0.lines(), T::Real::from_double(1.0));
        if side == Side::Left {
            return self.finished(&self.factors.applied(op, self.kernels().adopt(&lines, one)?, false)?);
        }
        // C op(Q) = (op(Q)^T C^T)^T, and the transpose of Q^H is the conjugate of Q.
        let op_of_transpose = if op == Op::NoTrans { Op::Trans } else { Op::NoTrans };
        let turned = self.kernels().adopt(&Lines { by_rows: !lines.by_rows, ..lines }, one)?;
        let product = self.factors.applied(op_of_transpose, turned, op == Op::ConjTrans)?;
        Ok(GpuMatrix(self.finished(&product)?.0.transposed()))
    }

    /// The minimiser X (n x p) of ||A X - B||, for A of full column rank and any number of calls. See also [`GpuMatrix::lstsq`].
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix, SvdOptions};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let context = GpuContext::global()?;
    /// let qr = GpuMatrix::upload(&context, &faer::mat![[1.0f32, 0.0], [1.0, 1.0], [1.0, 2.0]])?.qr(&SvdOptions::default())?;
    /// let x = qr.solve_lstsq(&GpuMatrix::upload(&context, &faer::mat![[1.0f32], [3.0], [5.0]])?)?.to_mat()?;
    /// assert!((x - faer::mat![[1.0], [2.0]]).norm_max() < 1e-5);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::RankDeficient`] if A is wide, or an estimate of its condition number, for which R is read back, is 1 /
    /// [`tolerance`](SvdOptions::tolerance) or more; [`SvdError::InvalidOption`] if B does not have m rows, has an entry that is NaN or infinite,
    /// or is on another device; [`SvdError::Overflow`] if an entry of X exceeds its type; as [`r`](Self::r).
    pub fn solve_lstsq(&self, b: &GpuMatrix<T>) -> Result<GpuMatrix<T::Scalar>> {
        let (m, n) = self.factors.shape();
        let b_scale = self.check_b(b, m)?;
        if m < n || self.condition()? * self.tolerance >= 1.0 {
            return Err(SvdError::RankDeficient { rank: m.min(n.saturating_sub(1)), cols: n });
        }
        let c = self.kernels().adopt(&b.0.lines(), b_scale)?;
        let c = self.factors.applied(Op::ConjTrans, c, false)?;
        let c = self.kernels().with_rows(&c, n)?;
        self.solve_r(Op::NoTrans, &c)?;
        self.unscaled(c, b_scale)
    }

    /// The estimate of R's condition number, for which R is read back once.
    fn condition(&self) -> Result<f64> {
        match self.condition.get() {
            Some(&condition) => Ok(condition),
            None => {
                let r = self.r_on_host()?;
                Ok(*self.condition.get_or_init(|| condition(r.as_ref())))
            }
        }
    }

    /// Checks B's number of rows and its device, and returns its scale.
    pub(super) fn check_b(&self, b: &GpuMatrix<T>, rows: usize) -> Result<T::Real> {
        self.check_device("b", b.context())?;
        if b.nrows() != rows {
            return Err(SvdError::invalid("b", format!("{} rows, but A has {rows}", b.nrows())));
        }
        scale_of(b)
    }

    fn check_device(&self, what: &'static str, context: &GpuContext) -> Result<()> {
        if context.is_same(&self.context) { Ok(()) } else { Err(SvdError::invalid(what, "it is on another device than A")) }
    }

    /// The first k rows of the scaled R.
    pub(super) fn r_on_host(&self) -> Result<Mat<T::Scalar>> {
        let (m, n) = self.factors.shape();
        Ok(upper(block_on(self.kernels().download_rows(self.factors.r(), m.min(n)))?.as_ref()))
    }

    /// op(R)^-1 C in place of C, with the scaled R.
    pub(super) fn solve_r(&self, op: Op, c: &Dense<T::Scalar>) -> Result<()> {
        if c.size.0 == 0 || c.size.1 == 0 { Ok(()) } else { self.kernels().solve_upper(self.factors.r(), op, c) }
    }

    /// X of the caller's problem, from that of the scaled one.
    pub(super) fn unscaled(&self, x: Dense<T::Scalar>, b_scale: T::Real) -> Result<GpuMatrix<T::Scalar>> {
        let exponent = |scale: T::Real| scale.to_double().log2() as i32;
        let x = self.kernels().times_power(x, exponent(self.scale) - exponent(b_scale))?;
        finite(self.finished(&x)?, "entries of the solution")
    }
}

/// Q and R of half types are stored as f32.
pub(super) fn check_storage<T: Element>(options: &SvdOptions) -> Result<()> {
    if T::IS_HALF && options.half_storage == HalfStorage::Half {
        return Err(SvdError::invalid("half_storage", "Q and R would have three digits; they need HalfStorage::Single"));
    }
    Ok(())
}

/// The scale of B; an error for an entry that is not finite.
pub(super) fn scale_of<T: Element>(b: &GpuMatrix<T>) -> Result<T::Real> {
    b.0.scale::<T::Scalar>().map_err(|error| match error {
        SvdError::NonFinite { row, col, value } => SvdError::invalid("b", format!("entry ({row}, {col}) is {value}")),
        other => other,
    })
}

/// The matrix, unless an entry has overflowed.
fn finite<S: Element>(a: GpuMatrix<S>, what: &'static str) -> Result<GpuMatrix<S>> {
    match a.0.scale::<S>() {
        Err(SvdError::NonFinite { .. }) => Err(SvdError::overflow::<Re<S>>(what)),
        Err(other) => Err(other),
        Ok(_) => Ok(a),
    }
}

impl<T: Element> std::fmt::Debug for GpuQr<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (m, n) = self.factors.shape();
        write!(f, "GpuQr<{}>({m} x {n} on {})", T::NAME, self.context.adapter_name())
    }
}
