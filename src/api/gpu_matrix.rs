//! A matrix that stays on the device between operations.

use std::marker::PhantomData;

use wgpu::Buffer;

use crate::{
    algo::triangular::Call,
    api::{
        element::Element,
        gpu_band::GpuBand,
        svdvals::SvdValsGpu,
        triangular::{TriangularGpu, sealed},
    },
    base::error::Result,
    gpu::{device::context::GpuContext, matrix::DeviceMatrix},
    plan::{
        options::{RunOptions, SvdOptions},
        report::SvdReport,
    },
    tile::band::Band,
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
pub struct GpuMatrix<T: Element>(pub(crate) DeviceMatrix, PhantomData<T>);

impl<T: Element> GpuMatrix<T> {
    /// The typed wrapper.
    pub(crate) fn of(matrix: DeviceMatrix) -> Self {
        GpuMatrix(matrix, PhantomData)
    }

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
    /// [`SvdError::UnsupportedElement`](crate::SvdError::UnsupportedElement) if the device cannot compute with `T`; [`SvdError::TooLarge`](crate::SvdError::TooLarge) if it cannot hold the matrix;
    /// [`SvdError::OutOfMemory`](crate::SvdError::OutOfMemory), [`SvdError::DeviceLost`](crate::SvdError::DeviceLost) and [`SvdError::Gpu`](crate::SvdError::Gpu), as the device reports them.
    pub fn upload<M: SvdValsGpu<Element = T>>(context: &GpuContext, a: &M) -> Result<Self> {
        Ok(GpuMatrix::of(T::upload(context, a.as_faer())?))
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
    /// [`SvdError::InvalidOption`](crate::SvdError::InvalidOption) for other strides, or for a buffer that is too small (an empty matrix needs room for one entry), lacks a
    /// usage or belongs to another device; [`SvdError::UnsupportedElement`](crate::SvdError::UnsupportedElement) if the device cannot compute with `T`; [`SvdError::TooLarge`](crate::SvdError::TooLarge)
    /// if a shader cannot bind the whole buffer.
    pub fn from_buffer(
        context: &GpuContext,
        buffer: Buffer,
        (rows, cols): (usize, usize),
        strides: (usize, usize),
    ) -> Result<Self> {
        Ok(GpuMatrix::of(T::in_buffer(context, buffer, (rows, cols), strides)?))
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
        // A copy of it may outlive the matrix.
        self.0.entries.goes_back(false);
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
    /// [`SvdError::OutOfMemory`](crate::SvdError::OutOfMemory), [`SvdError::DeviceLost`](crate::SvdError::DeviceLost) and [`SvdError::Gpu`](crate::SvdError::Gpu), as the device reports them.
    #[cfg(feature = "faer")]
    pub fn to_mat(&self) -> Result<faer::Mat<T>> {
        let mut b = faer::Mat::from_fn(self.nrows(), self.ncols(), |_, _| T::zeroed());
        T::download(&self.0, b.as_mut())?;
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
        T::download(&self.0, sealed::MatrixMut::as_faer_mut(&mut b))?;
        Ok(b)
    }

    /// Stage 1 (see [`SvdValsGpu::to_band`]) on the device, including the search for the largest entry and the scaled copy. The band is
    /// read back.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix, RunOptions, SvdValsGpu, Tuning};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let a = faer::Mat::from_fn(60, 40, |i, j| ((i * j) as f32).sin());
    /// let options = RunOptions::default();
    /// let band = GpuMatrix::upload(&GpuContext::global()?, &a)?.to_band(&options)?;
    /// let s = band.band_to_bidiag(&options)?.svdvals()?;
    /// assert!((s[0] - a.svdvals_gpu()?[0]).abs() < 1e-4);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`svdvals_gpu_with`](SvdValsGpu::svdvals_gpu_with) with [`Backend::Gpu`](crate::Backend::Gpu); [`SvdError::InvalidOption`](crate::SvdError::InvalidOption) for [`Backend::Cpu`](crate::Backend::Cpu) and
    /// for another device.
    pub fn to_band(&self, options: &RunOptions) -> Result<Band<T::Scalar>> {
        self.to_gpu_band(options)?.download()
    }

    /// The min(m, n) singular values, descending, or the first of them that [`keep`](SvdOptions::keep) and
    /// [`tolerance`](SvdOptions::tolerance) leave. Every stage runs on the device, and only the bidiagonal or its singular values are read
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
        Ok(T::device_svdvals(&self.0, options, false)?.values)
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
        T::device_svdvals(&self.0, options, true)
    }

    /// Stage 1 as in [`to_band`](Self::to_band), but the band stays on the device.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix, RunOptions};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let a = GpuMatrix::upload(&GpuContext::global()?, &faer::Mat::from_fn(60, 40, |i, j| ((i * j) as f32).sin()))?;
    /// let options = RunOptions::default();
    /// assert_eq!(a.to_gpu_band(&options)?.download()?, a.to_band(&options)?);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`to_band`](Self::to_band).
    pub fn to_gpu_band(&self, options: &RunOptions) -> Result<GpuBand<T::Scalar>> {
        Ok(GpuBand::of(T::device_to_band(&self.0, options)?))
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
    fn operate(&mut self, call: Call<T>, a: &GpuMatrix<T>, options: &RunOptions) -> Result<()> {
        T::device_triangular(call, &a.0, &self.0, options)
    }
}
