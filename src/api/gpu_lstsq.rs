//! Least squares problems of a matrix that is on the device.

use faer::{Mat, MatRef};

use crate::{
    api::{
        element::Element,
        gpu_matrix::{GpuMatrix, check_options},
        gpu_qr::{GpuQr, check_storage},
    },
    base::{
        blas::Op,
        clock::{Clock, StageSeconds},
        error::{Result, SvdError},
        number::{Re, RealElement, Scalar},
        pool::on_threads,
    },
    cost::Cost,
    gpu::{
        device::stream::Stream,
        matrix::DeviceMatrix,
        storage::{Dense, Lines},
    },
    plan::{
        factors::{Factors, MinimumNorm},
        lstsq::{Fit, has_full_rank, unscaled_values},
        options::{Backend, SvdOptions},
        report::SvdReport,
        route::{Preconditioner, Route, Solver},
        svd::svd,
    },
    tile::{kernels::TileKernels, products::Products},
};

/// A solution of least squares, the result of [`GpuMatrix::lstsq`]. A is m x n, B is m x p.
///
/// ```
/// # #[cfg(feature = "faer")] {
/// use svdvals_gpu::{GpuContext, GpuMatrix, SvdOptions};
/// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
/// let context = GpuContext::global()?;
/// let a = GpuMatrix::upload(&context, &faer::mat![[1.0f32, 1.0], [1.0, 1.0], [1.0, 1.0]])?; // rank 1
/// let fit = a.lstsq(&GpuMatrix::upload(&context, &faer::mat![[1.0f32], [2.0], [3.0]])?, &SvdOptions::default())?;
/// assert!(fit.rank == 1 && (fit.x.to_mat()? - faer::mat![[1.0], [1.0]]).norm_max() < 1e-5);
/// # }
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct GpuLstsq<T: Element> {
    /// X, n x p, on the device.
    pub x: GpuMatrix<T::Scalar>,
    /// The numerical rank of A: the number of singular values above [`SvdOptions::tolerance`] times the largest.
    pub rank: usize,
    /// ||b_j - A x_j||, one for each of the p right-hand sides. They come from the factors, and have the errors of a sum of squares in the
    /// element type's precision; with [`SvdOptions::products`] or [`SvdOptions::preconditioner`] from A, in double precision.
    pub residuals: Vec<T::Real>,
    /// The singular values of A, descending, if the rank was in doubt.
    pub singular_values: Option<Vec<T::Real>>,
}

/// ||c_j||^2 of every column, in double precision.
fn squares<S: Scalar>(c: MatRef<'_, S>) -> Vec<f64> {
    c.col_iter().map(|c| c.iter().map(|c| c.to_complex().norm_sqr()).sum()).collect()
}

impl<T: Element> GpuMatrix<T> {
    /// min ||A X - B||, as [`LstsqGpu`](crate::LstsqGpu) has it: the X of least norm where there are several. A, B and X stay on the device;
    /// of the factors R is read back, which shows the rank, and Q^H B. If the rank is in doubt, the singular values and vectors of R decide.
    ///
    /// With [`SvdOptions::products`] or [`SvdOptions::preconditioner`] A and B are read back too, because the iteration in double precision runs on the
    /// host; the reason in the report says so, and [`Counts::bytes_read_back`](crate::Counts::bytes_read_back) how much it is. R of f32 matrices comes
    /// from A on the device, of others from a copy that is uploaded. If that precision does not suffice, the log says so, and the solution is that of
    /// the native factorisation ([`Solver::Qr`] or [`Solver::Svd`] in the report).
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix, SvdOptions};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let context = GpuContext::global()?;
    /// let a = GpuMatrix::upload(&context, &faer::mat![[2.0f32, 0.0, 0.0], [0.0, 1.0, 1.0]])?; // wide
    /// let fit = a.lstsq(&GpuMatrix::upload(&context, &faer::mat![[2.0f32], [2.0]])?, &SvdOptions::default())?;
    /// assert!((fit.x.to_mat()? - faer::mat![[1.0], [1.0], [1.0]]).norm_max() < 1e-5 && fit.residuals[0] < 1e-5);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`qr`](Self::qr). [`SvdError::InvalidOption`] also if B does not have m rows, has an entry that is NaN or infinite, or is on another
    /// device, for [`SvdOptions::ridge`] and [`SvdOptions::singular_values`], and, if A is wide, for [`SvdOptions::products`] and
    /// [`SvdOptions::preconditioner`]; [`SvdError::Overflow`] if a result exceeds its type.
    pub fn lstsq(&self, b: &GpuMatrix<T>, options: &SvdOptions) -> Result<GpuLstsq<T>> {
        Ok(self.solved(b, options, false)?.values)
    }

    /// Like [`lstsq`](Self::lstsq), with a report of what ran and the seconds.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix, Route, Solver, SvdOptions};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let a = GpuMatrix::upload(&GpuContext::global()?, &faer::Mat::<f32>::identity(100, 80))?;
    /// let report = a.lstsq_report(&a, &SvdOptions::default())?;
    /// assert_eq!(report.route, Route::LeastSquares(Solver::Qr));
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`lstsq`](Self::lstsq).
    pub fn lstsq_report(&self, b: &GpuMatrix<T>, options: &SvdOptions) -> Result<SvdReport<GpuLstsq<T>>> {
        self.solved(b, options, true)
    }

    fn solved(&self, b: &GpuMatrix<T>, options: &SvdOptions, timed: bool) -> Result<SvdReport<GpuLstsq<T>>> {
        check_options(self.context(), options)?;
        let unfit = |option, what| Err(SvdError::invalid(option, format!("{what} needs A on the host")));
        if options.ridge != 0.0 {
            return unfit("ridge", "a ridge");
        }
        if options.singular_values {
            return unfit("singular_values", "this");
        }
        on_threads(options.threads, || {
            let total = Clock::new(timed);
            let lower = options.products != Products::Native || options.preconditioner != Preconditioner::Full;
            if lower && let Some(mut report) = self.in_lower_precision(b, options, timed)? {
                report.seconds.total = total.seconds();
                return Ok(report);
            }
            let options = &options.clone().products(Products::Native);
            let lines = self.0.lines();
            let (m, n) = lines.size();
            // Of the transpose, if A is wide.
            let lines = Lines { by_rows: lines.by_rows != (m < n), ..lines };
            let report = GpuQr::new(self, lines, options, timed)?;
            let clock = Clock::new(timed);
            let of = Solving { qr: &report.values, b, wide: m < n, options };
            let (fit, solver) = of.solution()?;
            let seconds = StageSeconds { solve: clock.seconds(), total: total.seconds(), ..report.seconds };
            let (route, cost) = (Route::LeastSquares(solver), Cost::of_lstsq::<T::Scalar> as fn(_, _, &_, _) -> _);
            Ok(SvdReport { seconds, route, cost, shape: (m, n), ..report.map(|_| fit) })
        })
    }

    /// The solution by R in lower precision and an iteration on the host; None if that precision does not suffice.
    fn in_lower_precision(&self, b: &GpuMatrix<T>, options: &SvdOptions, timed: bool) -> Result<Option<SvdReport<GpuLstsq<T>>>> {
        let context = self.context();
        if !b.context().is_same(context) {
            return Err(SvdError::invalid("b", "it is on another device than A"));
        }
        check_storage::<T>(options)?;
        if options.products != Products::Native {
            context.cooperative()?;
        }
        let options = SvdOptions { backend: Backend::Gpu, context: Some(context.clone()), ..options.clone() };
        let stream = Stream::new(context)?;
        let read = |of: &GpuMatrix<T>| -> Result<Mat<T::Scalar>> {
            let mut here = Mat::zeros(of.nrows(), of.ncols());
            of.0.arithmetic().download_to(&stream, here.as_mut())?;
            Ok(here)
        };
        let (a_here, b_here) = (read(self)?, read(b)?);
        let factor = || {
            // Without the call's listener, which has been told of the factorisation.
            let options = SvdOptions { progress: None, ..options.clone() };
            let mut report = GpuQr::new(self, self.0.lines(), &options, false)?;
            let (r, scale) = (report.values.r_on_host()?, report.values.scale);
            report.counts.add(&report.values.factors.kernels().counts());
            Ok(report.map(|_| (r, scale)))
        };
        let resident = options.products != Products::Native && !T::Scalar::IS_DOUBLE && !T::Scalar::IS_COMPLEX;
        let found =
            T::Arithmetic::lstsq_of_device(a_here.as_ref(), b_here.as_ref(), &options, timed, resident.then_some(&factor))?;
        let Some(found) = found else { return Ok(None) };
        let mut report = found.try_map(|Fit { x, rank, residuals, singular_values, .. }| {
            let x = GpuMatrix(DeviceMatrix::upload(&stream, x.as_ref(), None)?);
            Ok::<_, SvdError>(GpuLstsq { x, rank, residuals, singular_values })
        })?;
        report.counts.add(&stream.counts());
        report.reason = "the matrix is on this GPU, and was read back for the iteration in double precision".into();
        report.shape = (self.nrows(), self.ncols());
        Ok(Some(report))
    }
}

/// A problem of which A, or A^T if A is wide, has been factored.
struct Solving<'a, T: Element> {
    qr: &'a GpuQr<T>,
    b: &'a GpuMatrix<T>,
    wide: bool,
    options: &'a SvdOptions,
}

impl<T: Element> Solving<'_, T> {
    fn solution(&self) -> Result<(GpuLstsq<T>, Solver)> {
        let Solving { qr, b, wide, .. } = *self;
        let (kernels, (tall, k)) = (qr.factors.kernels(), qr.factors.shape());
        let rows = if wide { k } else { tall };
        let b_scale = qr.check_b(b, rows)?;
        let r = qr.r_on_host()?;
        let mut c = kernels.adopt(&b.0.lines(), b_scale)?;
        if !wide {
            c = qr.factors.applied(Op::ConjTrans, c, false)?;
        }
        let on_host = kernels.download(&c)?;
        let outside = squares(on_host.subrows(k, rows - k));
        let inside = on_host.subrows(0, k);
        let full = has_full_rank(r.as_ref(), qr.tolerance);
        let op_r = if wide { r.transpose() } else { r.as_ref() };
        let (y, rank, values) = if full {
            let y = kernels.with_rows(&c, k)?;
            qr.solve_r(if wide { Op::Trans } else { Op::NoTrans }, &y)?;
            (y, k, None)
        } else {
            let MinimumNorm { x, rank, values, .. } = MinimumNorm::new(self.factors_of(op_r)?, inside, qr.tolerance);
            (kernels.upload(x.as_ref(), Re::<T>::from_double(1.0))?, rank, Some(values))
        };
        // What Q^H B leaves outside the range of Q, and inside it what the solution leaves: nothing, if A is tall and the rank is full.
        let left = if full && !wide { vec![0.0; b.ncols()] } else { squares((inside - op_r * kernels.download(&y)?).as_ref()) };
        let length = |(inside, outside): (f64, f64)| T::Real::from_double((inside + outside).sqrt() / b_scale.to_double());
        let residuals: Vec<T::Real> = left.into_iter().zip(outside).map(length).collect();
        if residuals.iter().any(|length| !length.to_double().is_finite()) {
            return Err(SvdError::overflow::<Re<T>>("lengths of residuals"));
        }
        let x = if wide { self.combined(&y)? } else { y };
        let singular_values = values.map(|values| unscaled_values(values, qr.scale)).transpose()?;
        let x = qr.unscaled(x, b_scale)?;
        let fit = GpuLstsq { x, rank, residuals, singular_values };
        Ok((fit, if full { Solver::Qr } else { Solver::Svd }))
    }

    /// conj(Q) Y for A^T = Q R.
    fn combined(&self, y: &Dense<T::Scalar>) -> Result<Dense<T::Scalar>> {
        let factors = &self.qr.factors;
        let y = factors.kernels().with_rows(y, factors.shape().0)?;
        factors.applied(Op::NoTrans, y, true)
    }

    /// The decomposition of R or its transpose.
    fn factors_of(&self, r: MatRef<'_, T::Scalar>) -> Result<Factors<T::Scalar>> {
        let SvdOptions { tuning, tuning_table, cancel, .. } = self.options.clone();
        let context = Some(self.qr.context.clone());
        let options = SvdOptions { backend: Backend::Gpu, context, tuning, tuning_table, cancel, ..SvdOptions::default() };
        Ok(svd(r, &options, false)?.values)
    }
}
