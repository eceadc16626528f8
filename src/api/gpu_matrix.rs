//! A matrix that stays on the device between operations.

use pollster::block_on;
use wgpu::Buffer;

use crate::{
    algo::{
        count::stage_1_flops,
        triangular::{Call, alpha_is_zero, check_diagonal},
    },
    api::{
        element::Element,
        gpu_band::GpuBand,
        svdvals::SvdValsGpu,
        triangular::{TriangularGpu, sealed},
    },
    base::{
        clock::Clock,
        error::{Result, SvdError},
        number::{Number, in_storage},
        pool::on_threads,
        watch::{Stage, Watch},
    },
    gpu::{
        device::{
            context::{GpuContext, Waits},
            stream::{Manner, Stream},
        },
        kernels::{
            GpuKernels,
            triangular::{check as check_triangular, on_device},
        },
        limits::required_bytes,
        matrix::DeviceMatrix,
        storage::Lines,
    },
    plan::{
        backend::OnGpu,
        gpu::{Asked, svdvals_on_gpu},
        options::{Backend, SvdOptions},
        report::SvdReport,
        stages::packed_band,
    },
    tile::{band::Band, tuning::Tuning},
};

/// A matrix in a GPU's memory. It is uploaded once, used in any number of operations, and read back on demand.
///
/// Entries are stored in the arithmetic type: f32 for f16 and bf16. [`TriangularGpu`](crate::triangular::TriangularGpu) multiplies it by a
/// triangular matrix, or solves with one, if that is a `GpuMatrix` on the same device.
///
/// ```
/// # #[cfg(feature = "faer")] {
/// use svdvals_gpu::triangular::{Diag, Op, Side, TriangularGpu, Uplo};
/// use svdvals_gpu::{GpuContext, GpuMatrix};
/// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
/// let context = GpuContext::global()?;
/// let l = faer::mat![[2.0f32, 0.0], [1.0, 4.0]];
/// let (l, mut x) = (GpuMatrix::upload(&context, &l)?, GpuMatrix::upload(&context, &faer::mat![[4.0f32], [10.0]])?);
/// x.trsm_gpu(Side::Left, Uplo::Lower, Op::NoTrans, Diag::NonUnit, 1.0, &l)?;
/// x.trsm_gpu(Side::Left, Uplo::Lower, Op::Trans, Diag::NonUnit, 1.0, &l)?; // (L L^T) X = B
/// assert_eq!(x.to_mat()?, faer::mat![[0.75], [0.5]]);
/// # }
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
pub struct GpuMatrix<T>(pub(crate) DeviceMatrix<T>);

impl<T: Element> GpuMatrix<T> {
    /// Copies a matrix to the device, in its memory order.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix};
    /// if let Ok(context) = GpuContext::global() {
    ///     let a = GpuMatrix::upload(&context, &faer::mat![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]])?;
    ///     println!("{a:?}");
    /// }
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::UnsupportedElement`] if the device cannot compute with `T`; [`SvdError::TooLarge`] if it cannot hold the matrix;
    /// [`SvdError::OutOfMemory`], [`SvdError::DeviceLost`] and [`SvdError::Gpu`], as the device reports them.
    pub fn upload<M: SvdValsGpu<Element = T>>(context: &GpuContext, a: &M) -> Result<Self> {
        Ok(GpuMatrix(DeviceMatrix::upload(&Stream::new(context)?, a.as_faer(), None)?))
    }

    /// A matrix in a buffer of your own. A shader of yours has filled it, or will have filled it once the work that you have submitted is
    /// done. Nothing is copied, and triangular operations write to it.
    ///
    /// Entry (i, j) is element `i * strides.0 + j * strides.1` from the start of the buffer. Elements have the arithmetic type: f32 if `T`
    /// is f16 or bf16; complex types are the real part, then the imaginary part. One of the strides must be 1, the other at least the
    /// length of a line (a leading dimension). The padding between lines is neither read nor written.
    ///
    /// The buffer must have at least the usages `STORAGE | COPY_SRC | COPY_DST`, must not be mapped while operations run, and must belong
    /// to the context's device. wgpu distinguishes the devices of one `wgpu::Instance`, but may take a buffer of another instance for one
    /// of the context's own.
    ///
    /// ```
    /// use svdvals_gpu::{GpuContext, GpuMatrix, SvdOptions, wgpu};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let context = GpuContext::global()?;
    /// let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
    /// let buffer = context.device().create_buffer(&wgpu::BufferDescriptor { label: None, size: 24, usage, mapped_at_creation: false });
    /// // 3 x 2, row after row; here written by the host.
    /// let entries = [1.0f32, 2.0, 2.0, 4.0, 3.0, 6.0];
    /// context.queue().write_buffer(&buffer, 0, &entries.map(f32::to_ne_bytes).concat());
    /// let s = GpuMatrix::<f32>::from_buffer(&context, buffer, (3, 2), (2, 1))?.svdvals(&SvdOptions::default())?;
    /// assert!((s[0] - 70f32.sqrt()).abs() < 1e-5 && s[1] < 1e-5); // rank one
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::InvalidOption`] for other strides, or for a buffer that is too small (an empty matrix needs room for one entry), lacks a
    /// usage or belongs to another device; [`SvdError::UnsupportedElement`] if the device cannot compute with `T`; [`SvdError::TooLarge`]
    /// if a shader cannot bind the whole buffer.
    pub fn from_buffer(
        context: &GpuContext,
        buffer: Buffer,
        (rows, cols): (usize, usize),
        strides: (usize, usize),
    ) -> Result<Self> {
        Ok(GpuMatrix(DeviceMatrix::from_buffer(context, buffer, (rows, cols), strides)?))
    }

    /// The buffer of the entries, for shaders of your own. [`strides`](Self::strides) gives the positions.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let a = GpuMatrix::upload(&GpuContext::global()?, &faer::Mat::<f32>::identity(10, 7))?;
    /// assert_eq!(a.strides(), (1, 12)); // column after column, each padded to whole vectors of four
    /// assert!(a.buffer().size() >= 7 * 12 * 4);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn buffer(&self) -> &Buffer {
        &self.0.entries
    }

    /// The strides of the entries in the [`buffer`](Self::buffer): (i, j) is element `i * strides.0 + j * strides.1`.
    ///
    /// ```
    /// # #[cfg(feature = "ndarray")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix};
    /// if let Ok(context) = GpuContext::global() {
    ///     let a = GpuMatrix::upload(&context, &ndarray::Array2::<f32>::zeros((10, 7)))?;
    ///     assert_eq!(a.strides(), (8, 1)); // row after row, as ndarray has it, padded
    /// }
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn strides(&self) -> (usize, usize) {
        self.0.strides
    }

    /// Number of rows.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix};
    /// if let Ok(context) = GpuContext::global() {
    ///     let a = GpuMatrix::upload(&context, &faer::mat![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]])?;
    ///     assert_eq!(a.nrows(), 2);
    /// }
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn nrows(&self) -> usize {
        self.0.size.0
    }

    /// Number of columns.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix};
    /// if let Ok(context) = GpuContext::global() {
    ///     let a = GpuMatrix::upload(&context, &faer::mat![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]])?;
    ///     assert_eq!(a.ncols(), 3);
    /// }
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn ncols(&self) -> usize {
        self.0.size.1
    }

    /// The device that the matrix is on.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix};
    /// if let Ok(context) = GpuContext::global() {
    ///     let a = GpuMatrix::upload(&context, &faer::mat![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]])?;
    ///     assert_eq!(a.context().adapter_name(), context.adapter_name());
    /// }
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn context(&self) -> &GpuContext {
        &self.0.context
    }

    /// Reads the matrix back.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix};
    /// if let Ok(context) = GpuContext::global() {
    ///     let a = GpuMatrix::upload(&context, &faer::mat![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]])?;
    ///     assert_eq!(a.to_mat()?[(1, 2)], 6.0);
    /// }
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::OutOfMemory`], [`SvdError::DeviceLost`] and [`SvdError::Gpu`], as the device reports them.
    #[cfg(feature = "faer")]
    pub fn to_mat(&self) -> Result<faer::Mat<T>> {
        let mut b = faer::Mat::from_fn(self.nrows(), self.ncols(), |_, _| T::zeroed());
        self.0.download_to(&Stream::new(self.context())?, b.as_mut())?;
        Ok(b)
    }

    /// Reads the matrix back.
    ///
    /// ```
    /// use svdvals_gpu::{GpuContext, GpuMatrix};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let a = ndarray::array![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]];
    /// assert_eq!(GpuMatrix::upload(&GpuContext::global()?, &a.t())?.to_array2()?, a.t());
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As `to_mat`.
    #[cfg(feature = "ndarray")]
    pub fn to_array2(&self) -> Result<ndarray::Array2<T>> {
        let mut b = ndarray::Array2::from_elem(self.0.size, T::zeroed());
        self.0.download_to(&Stream::new(self.context())?, sealed::MatrixMut::as_faer_mut(&mut b))?;
        Ok(b)
    }

    /// Stage 1 (see [`SvdValsGpu::to_band`]) on the device, including the search for the largest entry and the scaled copy. The band is
    /// read back.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix, SvdOptions, SvdValsGpu, Tuning};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let a = faer::Mat::from_fn(60, 40, |i, j| ((i * j) as f32).sin());
    /// let options = SvdOptions::default();
    /// let band = GpuMatrix::upload(&GpuContext::global()?, &a)?.to_band(&options)?;
    /// let s = band.band_to_bidiag(&options)?.svdvals()?;
    /// assert!((s[0] - a.svdvals_gpu()?[0]).abs() < 1e-4);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`svdvals_gpu_with`](SvdValsGpu::svdvals_gpu_with) with [`Backend::Gpu`]; [`SvdError::InvalidOption`] for [`Backend::Cpu`] and
    /// for another device.
    pub fn to_band(&self, options: &SvdOptions) -> Result<Band<T::Scalar>> {
        self.to_gpu_band(options)?.download()
    }

    /// All min(m, n) singular values, descending. Every stage runs on the device, and only the bidiagonal or its singular values are read
    /// back.
    ///
    /// The values are bitwise those of [`svdvals_gpu_with`](crate::SvdValsGpu::svdvals_gpu_with) for the same matrix in the same memory
    /// order, with the same options and [`Backend::Gpu`](crate::Backend::Gpu).
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix, SvdOptions};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let a = GpuMatrix::upload(&GpuContext::global()?, &faer::mat![[3.0f32, 0.0], [4.0, 5.0]])?;
    /// let s = a.svdvals(&SvdOptions::default())?;
    /// assert!((s[0] - 45f32.sqrt()).abs() < 1e-5 && (s[1] - 5f32.sqrt()).abs() < 1e-5);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`to_band`](Self::to_band), and [`SvdError::Overflow`](crate::SvdError::Overflow).
    pub fn svdvals(&self, options: &SvdOptions) -> Result<Vec<T::Real>> {
        Ok(self.report(options, false)?.values)
    }

    /// Like [`svdvals`](Self::svdvals), with a report of what ran and the seconds of each stage. The seconds of `upload` are those of the
    /// scaled copy that the stages work on.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix, SvdOptions};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let a = GpuMatrix::upload(&GpuContext::global()?, &faer::Mat::<f32>::identity(100, 80))?;
    /// let report = a.svdvals_report(&SvdOptions::default())?;
    /// assert_eq!((report.shape, report.values[79]), ((100, 80), 1.0));
    /// assert!(report.counts.bytes_uploaded < 100); // no matrix
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`svdvals`](Self::svdvals).
    pub fn svdvals_report(&self, options: &SvdOptions) -> Result<SvdReport<Vec<T::Real>>> {
        self.report(options, true)
    }

    fn report(&self, options: &SvdOptions, timed: bool) -> Result<SvdReport<Vec<T::Real>>> {
        check_options(self.context(), options)?;
        on_threads(options.threads, || in_storage!(options.half_storage, T => self.report_in::<S>(options, timed)))
    }

    fn report_in<S>(&self, options: &SvdOptions, timed: bool) -> Result<SvdReport<Vec<T::Real>>>
    where
        S: Number<Real = T::Real, Scalar = T::Scalar>,
    {
        let (clock, listen) = (Clock::new(timed), options.listen());
        let (a, tuning) = self.prepared::<S>(options)?;
        let scale = self.0.scale::<S>()?;
        let seconds = clock.seconds();
        let on = OnGpu { context: self.context().clone(), tuning, reason: "the matrix is on this GPU".into() };
        let mut report = block_on(svdvals_on_gpu::<T, S, _>(a, scale, Asked { options, listen, timed }, on, Waits::Blocking))?;
        report.shape = (self.nrows(), self.ncols());
        report.seconds.scale = seconds;
        report.seconds.total = clock.seconds();
        Ok(report)
    }

    /// Stage 1 as in [`to_band`](Self::to_band), but the band stays on the device.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix, SvdOptions};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let a = GpuMatrix::upload(&GpuContext::global()?, &faer::Mat::from_fn(60, 40, |i, j| ((i * j) as f32).sin()))?;
    /// let options = SvdOptions::default();
    /// assert_eq!(a.to_gpu_band(&options)?.download()?, a.to_band(&options)?);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`to_band`](Self::to_band).
    pub fn to_gpu_band(&self, options: &SvdOptions) -> Result<GpuBand<T::Scalar>> {
        check_options(self.context(), options)?;
        in_storage!(options.half_storage, T => self.gpu_band_in::<S>(options))
    }

    fn gpu_band_in<S: Number<Real = T::Real, Scalar = T::Scalar>>(&self, options: &SvdOptions) -> Result<GpuBand<T::Scalar>> {
        let listen = options.listen();
        let (lines, tuning) = self.prepared::<S>(options)?;
        let scale = self.0.scale::<S>()?;
        let watch = Watch::new(&listen, || Ok([stage_1_flops::<S>(lines.size(), &tuning)?, 0, 0, 0]))?;
        let kernels = GpuKernels::<S>::running(self.context(), &tuning, Manner { watch: watch.clone(), ..Manner::default() })?;
        let (n, bandwidth) = (lines.size().1, tuning.bandwidth(lines.size().1));
        watch.begin(Stage::ToBand)?;
        let packed = packed_band(&kernels, kernels.adopt(&lines, scale)?, lines.size(), &tuning)?;
        let entries = kernels.unpacked(&packed, bandwidth)?;
        block_on(kernels.stream.finish())?;
        watch.end();
        Ok(GpuBand { context: self.context().clone(), entries, n, bandwidth, scale })
    }

    /// The matrix or its transpose, whichever has m >= n, and hyperparameters with which the device can run all stages, stored as `S`.
    pub(super) fn prepared<S: Number>(&self, options: &SvdOptions) -> Result<(Lines<'_>, Tuning)> {
        self.context().require::<T, S>()?;
        let lines = self.0.lines().upright();
        let (m, n) = lines.size();
        let tuning = options.tuning_for_adapter::<S>(self.context(), n)?;
        required_bytes::<S>(self.context(), m, n, &tuning)?;
        Ok((lines, tuning))
    }
}

impl<T: Element> std::fmt::Debug for GpuMatrix<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GpuMatrix<{}>({} x {} on {})", T::NAME, self.nrows(), self.ncols(), self.context().adapter_name())
    }
}

impl<T: Element> sealed::Sealed for GpuMatrix<T> {}

impl<T: Element> TriangularGpu for GpuMatrix<T> {
    type Element = T;
}

impl<T: Element> sealed::Operate<GpuMatrix<T>, T> for GpuMatrix<T> {
    fn operate(&mut self, call: Call<T>, a: &GpuMatrix<T>, options: &SvdOptions) -> Result<()> {
        let Call { variant, alpha } = call;
        variant.check_shapes((a.nrows(), a.ncols()), (self.nrows(), self.ncols()))?;
        check_options(self.context(), options)?;
        if !a.context().is_same(self.context()) {
            return Err(SvdError::invalid("a", "it is on another device than B"));
        }
        let tuning = options.tuning_for_adapter::<T::Scalar>(self.context(), a.nrows())?;
        check_triangular::<T>(self.context(), &tuning)?;
        if self.nrows() == 0 || self.ncols() == 0 {
            return Ok(());
        }
        let stream = Stream::new(self.context())?;
        if alpha_is_zero(alpha) {
            let Lines { inner, outer, ld, .. } = self.0.lines();
            let bytes = |len: usize| (len * size_of::<T::Scalar>()) as u64;
            stream.clear(&self.0.entries, (0..outer).map(|line| bytes(line * ld)..bytes(line * ld + inner)))?;
            return block_on(stream.finish());
        }
        if variant.divides() {
            check_diagonal(a.0.diagonal(&stream)?)?;
        }
        on_device(self.context(), &stream, &tuning, &variant, alpha, &a.0, &self.0)?;
        block_on(stream.finish())
    }
}

/// Checks that the options fit data on this device.
pub(crate) fn check_options(here: &GpuContext, options: &SvdOptions) -> Result<()> {
    let elsewhere = |option, what| Err(SvdError::invalid(option, format!("{what}, but what is on a device is computed there")));
    match &options.context {
        _ if options.backend == Backend::Cpu => elsewhere("backend", "Backend::Cpu"),
        Some(context) if !context.is_same(here) => elsewhere("context", "another device"),
        _ => Ok(()),
    }
}
