//! A matrix that stays on the device between operations.

use std::{
    marker::PhantomData,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
};

use faer::{MatMut, MatRef};
use num_traits::Float;
use wgpu::{Buffer, BufferUsages};

use super::{
    context::GpuContext,
    parameters,
    pipeline::{DIAGONAL, LARGEST, LINEAR_THREADS},
    storage::{Lines, fitting_bytes, required_bytes},
    stream::{Stream, buffer},
};
use crate::{
    band::Band,
    cost::{Kernel, Work},
    cpu::map_into,
    error::{Result, SvdError},
    options::{Backend, SvdOptions, Tuning},
    scalar::{Element, RealElement},
    scale::{power_of_two_scale, scale_for},
    svdvals::SvdValsGpu,
    triangular::Uplo,
};

/// A matrix in a GPU's memory: uploaded once, operated on any number of times, read back when it is wanted.
///
/// Entries are held in the type that arithmetic is done in: f16 and bf16 in f32. [`TriangularGpu`](crate::triangular::TriangularGpu) multiplies it by a triangle and
/// solves for it, where the triangle is a `GpuMatrix` on the same device.
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
pub struct GpuMatrix<T> {
    context: GpuContext,
    entries: Buffer,
    size: (usize, usize),
    /// Entry (i, j) at i * strides.0 + j * strides.1.
    strides: (usize, usize),
    element: PhantomData<T>,
}

/// Most workgroups that look for the largest entry.
const LARGEST_GROUPS: usize = 256;

/// A window's place in a buffer: entry (i, j) is at `offset + i * rs + j * cs`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub offset: usize,
    pub rs: usize,
    pub cs: usize,
}

impl Window {
    pub fn transposed(self) -> Window {
        Window { rs: self.cs, cs: self.rs, ..self }
    }

    /// The position of entry (i, j), as shaders count; of matrices that [`fitting_bytes`] let pass, it fits.
    pub fn at(&self, i: usize, j: usize) -> u32 {
        (self.offset + i * self.rs + j * self.cs) as u32
    }
}

/// Distance between neighbouring lines of `inner` entries, and entries of `outer` such lines.
fn layout(inner: usize, outer: usize) -> (usize, Option<usize>) {
    match inner.max(1).checked_next_multiple_of(4) {
        Some(ld) => (ld, ld.checked_mul(outer)),
        None => (0, None),
    }
}

/// Bytes of a rows x cols matrix of `T`, or why the device cannot have it.
pub(super) fn matrix_bytes<T: Element>(context: &GpuContext, (rows, cols): (usize, usize), by_rows: bool) -> Result<u64> {
    let (_, len) = if by_rows { layout(cols, rows) } else { layout(rows, cols) };
    fitting_bytes::<T::Scalar>(context, "the matrix", len)
}

/// Writes places `start..` of `lines`, each a column of the matrix `lines` padded to `ld`, to `piece`: what `convert` makes of entries in
/// `wanted` of a line, zeros elsewhere.
pub(super) fn copy_lines<T: Element, S: Element>(
    lines: MatRef<'_, T>,
    ld: usize,
    start: usize,
    piece: &mut [S],
    wanted: impl Fn(usize) -> Range<usize>,
    convert: impl Fn(T::Scalar) -> S,
) {
    let mut at = 0;
    while at < piece.len() {
        // From place k of line j to the end of the line, or of the piece.
        let (j, k) = ((start + at) / ld, (start + at) % ld);
        let end = (at + ld - k).min(piece.len());
        let target = &mut piece[at..end];
        let wanted = wanted(j);
        let first = wanted.start.clamp(k, k + target.len());
        let last = wanted.end.min(lines.nrows()).clamp(first, k + target.len());
        target[..first - k].fill(S::zeroed());
        target[last - k..].fill(S::zeroed());
        let target = &mut target[first - k..last - k];
        let first = first.min(lines.nrows());
        let line = lines.submatrix(first, j, target.len(), 1);
        let filled = target.len();
        map_into(line, MatMut::from_column_major_slice_mut(target, filled, 1), &convert);
        at = end;
    }
}

impl<T: Element> GpuMatrix<T> {
    /// Copies a matrix to the device, in the memory order that it has.
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
    /// [`SvdError::UnsupportedElement`] where the device does not compute with `T`; [`SvdError::TooLarge`] where it cannot hold the
    /// matrix; [`SvdError::OutOfMemory`], [`SvdError::DeviceLost`] and [`SvdError::Gpu`], as the device says.
    pub fn upload<M: SvdValsGpu<Element = T>>(context: &GpuContext, a: &M) -> Result<Self> {
        let stream = Stream::new(context)?;
        Self::from_faer(context, &stream, a.as_faer(), None)
    }

    /// [`upload`](Self::upload) of the triangle that is `referenced`, if not all is, with zeros elsewhere.
    pub(super) fn from_faer(context: &GpuContext, stream: &Stream, a: MatRef<'_, T>, referenced: Option<Uplo>) -> Result<Self> {
        context.require::<T, T::Scalar>()?;
        let by_rows = a.col_stride().unsigned_abs() < a.row_stride().unsigned_abs();
        let bytes = matrix_bytes::<T>(context, a.shape(), by_rows)?;
        let usage = BufferUsages::STORAGE | BufferUsages::COPY_DST | BufferUsages::COPY_SRC;
        let entries = buffer(context, "the matrix", bytes, usage)?;
        let lines = if by_rows { a.transpose() } else { a };
        let (inner, outer) = lines.shape();
        let (ld, len) = layout(inner, outer);
        let strides = if by_rows { (ld, 1) } else { (1, ld) };
        // Of line j, a row or a column.
        let wanted = |j: usize| match referenced {
            None => 0..inner,
            Some(uplo) if (uplo == Uplo::Lower) == by_rows => 0..j + 1,
            Some(_) => j..inner,
        };
        stream.upload(&entries, len.unwrap_or_default(), |start, piece: &mut [T::Scalar]| {
            copy_lines(lines, ld, start, piece, wanted, |x| x);
        })?;
        Ok(GpuMatrix { context: context.clone(), entries, size: a.shape(), strides, element: PhantomData })
    }

    /// A matrix in a buffer of your own, which a shader of yours has filled, or will have when what you submitted before is done: nothing is
    /// copied, and triangular operations write to it.
    ///
    /// Entry (i, j) is element `i * strides.0 + j * strides.1` of the buffer, from its start, of the type that arithmetic is done in: f32
    /// also where `T` is f16 or bf16; of complex types the real part, then the imaginary part. One of the strides must be 1, the other at
    /// least the length of a line; what is between lines is neither read nor written. The buffer must have at least the usages
    /// `STORAGE | COPY_SRC | COPY_DST`, must not be mapped while operations run, and must be of the context's device: wgpu tells devices of one
    /// `wgpu::Instance` apart, but may take a buffer of another instance for one of the context's own.
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
    /// [`SvdError::InvalidOption`] for other strides, for a buffer that is too small (one of no entries has room for one), lacks a usage or is of
    /// another device; [`SvdError::UnsupportedElement`] where the device does not compute with `T`; [`SvdError::TooLarge`] where a shader
    /// cannot bind all of the buffer.
    pub fn from_buffer(
        context: &GpuContext,
        buffer: Buffer,
        (rows, cols): (usize, usize),
        strides: (usize, usize),
    ) -> Result<Self> {
        context.require::<T, T::Scalar>()?;
        // As wide apart as they must be, where there is no second line to say; and (x, 1) by rows, whatever x.
        let strides = match strides {
            (ld, 1) if ld >= cols => (if rows > 1 { ld.max(1) } else { cols.max(1) }, 1),
            (1, 1) if rows <= 1 => (cols.max(1), 1),
            (1, ld) if ld >= rows => (1, if cols > 1 { ld } else { rows }.max(2)),
            (rs, cs) => {
                let reason = format!("({rs}, {cs}) for {rows} x {cols}: it must be (1, at least {rows}) or (at least {cols}, 1)");
                return Err(SvdError::invalid("strides", reason));
            }
        };
        let missing = (BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST) - buffer.usage();
        if !missing.is_empty() {
            return Err(SvdError::invalid("buffer", format!("its usages lack {missing:?}")));
        }
        let matrix = GpuMatrix { context: context.clone(), entries: buffer, size: (rows, cols), strides, element: PhantomData };
        matrix.lines().check::<T::Scalar>()?;
        // All of it is bound.
        fitting_bytes::<u8>(context, "the buffer", usize::try_from(matrix.entries.size()).ok())?;
        fitting_bytes::<T::Scalar>(context, "the matrix", matrix.lines().len())?;
        // wgpu tells devices apart when it binds.
        let pipeline = context.pipeline::<T::Scalar>(&LARGEST, &[], 0)?;
        let stream = Stream::new(context)?;
        let bind = || stream.bind(&pipeline, &[&matrix.entries, &matrix.entries], &[]);
        // Where not even the instance is the same, wgpu 30 panics (wgpu-core/src/storage.rs, `Storage::get`). Unwind safe: what is on the stack
        // below is dropped, and wgpu's locks do not poison.
        match catch_unwind(AssertUnwindSafe(bind)) {
            Err(_) => Err(SvdError::invalid("buffer", "it is of another wgpu::Instance than the context's device")),
            Ok(Err(SvdError::Gpu { reason, .. })) => Err(SvdError::invalid("buffer", reason)),
            Ok(result) => result.map(|_| matrix),
        }
    }

    /// The entries' buffer, for shaders of your own that are to read them on; the [`strides`](Self::strides) say where they are.
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
        &self.entries
    }

    /// Where the [`buffer`](Self::buffer) has the entries: (i, j) at element `i * strides.0 + j * strides.1`.
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
        self.strides
    }

    /// Rows.
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
        self.size.0
    }

    /// Columns.
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
        self.size.1
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
        &self.context
    }

    pub(super) fn window(&self) -> Window {
        Window { offset: 0, rs: self.strides.0, cs: self.strides.1 }
    }

    pub(super) fn entries(&self) -> &Buffer {
        &self.entries
    }

    pub(super) fn lines(&self) -> Lines<'_> {
        let ((rows, cols), by_rows) = (self.size, self.strides.1 == 1);
        let (inner, outer, ld) = if by_rows { (cols, rows, self.strides.0) } else { (rows, cols, self.strides.1) };
        Lines { entries: &self.entries, by_rows, inner, outer, ld }
    }

    /// Reads the entries back; half types are rounded to nearest. `b` is written when all have come.
    pub(super) fn download_to(&self, stream: &Stream, b: MatMut<'_, T>) -> Result<()> {
        self.copy_back(stream, b, T::narrow)
    }

    /// `b` <- the entries, each as `convert` makes it.
    fn copy_back<U>(&self, stream: &Stream, mut b: MatMut<'_, U>, convert: impl Fn(T::Scalar) -> U) -> Result<()> {
        let here = self.lines();
        let entries: Vec<T::Scalar> = stream.read_back_now(&self.entries, here.len().unwrap_or_default())?;
        let lines = if here.by_rows { b.as_mut().transpose_mut() } else { b.as_mut() };
        for (line, from) in lines.col_iter_mut().zip(entries.chunks(here.ld)) {
            line.iter_mut().zip(from).for_each(|(to, &x)| *to = convert(x));
        }
        Ok(())
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
    /// [`SvdError::OutOfMemory`], [`SvdError::DeviceLost`] and [`SvdError::Gpu`], as the device says.
    #[cfg(feature = "faer")]
    pub fn to_mat(&self) -> Result<faer::Mat<T>> {
        let mut b = faer::Mat::from_fn(self.size.0, self.size.1, |_, _| T::zeroed());
        self.download_to(&Stream::new(&self.context)?, b.as_mut())?;
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
        let mut b = ndarray::Array2::from_elem(self.size, T::zeroed());
        self.download_to(&Stream::new(&self.context)?, crate::triangular::sealed::MatrixMut::as_faer_mut(&mut b))?;
        Ok(b)
    }

    /// Stage 1 (see [`SvdValsGpu::to_band`]) of the matrix where it is: the largest entry is found, and the scaled copy made, on the device;
    /// the band comes back.
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
    /// As [`svdvals_gpu_with`](SvdValsGpu::svdvals_gpu_with) with [`Backend::Gpu`]; [`SvdError::InvalidOption`] for [`Backend::Cpu`] and for
    /// another device.
    pub fn to_band(&self, options: &SvdOptions) -> Result<Band<T::Scalar>> {
        self.to_gpu_band(options)?.download()
    }

    /// The upright matrix, and hyperparameters with which the device can take it through the stages, stored as `S`.
    pub(super) fn prepared<S: Element>(&self, options: &SvdOptions) -> Result<(Lines<'_>, Tuning)> {
        self.context.require::<T, S>()?;
        let lines = self.lines().upright();
        let (m, n) = lines.size();
        let tuning = options.tuning_for_adapter::<S>(&self.context, n)?;
        required_bytes::<S>(&self.context, m, n, &tuning)?;
        Ok((lines, tuning))
    }

    /// Stage 0.
    pub(super) fn scale<S: Element<Real = T::Real>>(&self) -> Result<T::Real> {
        let (m, n) = self.lines().upright().size();
        Ok(scale_for::<S>(self.largest()?, m, n))
    }

    /// The largest real or imaginary part, or the first entry that is not finite, as an error.
    fn largest(&self) -> Result<T::Real> {
        let stream = Stream::new(&self.context)?;
        let Lines { inner, outer, ld, .. } = self.lines();
        let len = inner * outer;
        let groups = len.div_ceil(LINEAR_THREADS as usize).clamp(1, LARGEST_GROUPS);
        let threads = groups * LINEAR_THREADS as usize;
        let bytes = (threads * size_of::<T::Real>()) as u64;
        let found = buffer(&self.context, "largest entries", bytes, BufferUsages::STORAGE | BufferUsages::COPY_SRC)?;
        let pipeline = self.context.pipeline::<T::Scalar>(&LARGEST, &[], 0)?;
        let bindings = stream.bind(&pipeline, &[&self.entries, &found], &[])?;
        let parameters =
            parameters::Largest { inner: inner as u32, ld: ld as u32, len: len as u32, each: len.div_ceil(threads) as u32 };
        stream.dispatch(&pipeline, &bindings, parameters, [groups as u32, 1, 1], Work::other(Kernel::Largest, 0))?;
        let zero = T::Real::from_double(0.0);
        let found: Vec<T::Real> = stream.read_back_now(&found, threads)?;
        if found.iter().all(|&x| x >= zero) {
            return Ok(found.into_iter().fold(zero, Float::max));
        }
        let mut here = faer::Mat::<T::Scalar>::zeros(self.size.0, self.size.1);
        self.copy_back(&stream, here.as_mut(), |x| x)?;
        power_of_two_scale::<T::Scalar, T::Scalar>(here.as_ref())
    }

    /// The entries (i, i).
    pub(super) fn diagonal(&self, stream: &Stream) -> Result<Vec<T::Scalar>> {
        let n = self.size.0.min(self.size.1);
        let bytes = (n * size_of::<T::Scalar>()) as u64;
        let out = buffer(&self.context, "the diagonal", bytes, BufferUsages::STORAGE | BufferUsages::COPY_SRC)?;
        let pipeline = self.context.pipeline::<T::Scalar>(&DIAGONAL, &[], 0)?;
        let bindings = stream.bind(&pipeline, &[&self.entries, &out], &[])?;
        let parameters = parameters::Diagonal { n: n as u32, stride: (self.strides.0 + self.strides.1) as u32 };
        let [x, y] = stream.fold(n.div_ceil(LINEAR_THREADS as usize))?;
        stream.dispatch(&pipeline, &bindings, parameters, [x, y, 1], Work::other(Kernel::Diagonal, 0))?;
        stream.read_back_now(&out, n)
    }
}

/// That the options ask for nothing that data on this device cannot have.
pub(super) fn check_options(here: &GpuContext, options: &SvdOptions) -> Result<()> {
    let elsewhere = |option, what| Err(SvdError::invalid(option, format!("{what}, but what is on a device is computed there")));
    match &options.context {
        _ if options.backend == Backend::Cpu => elsewhere("backend", "Backend::Cpu"),
        Some(context) if !context.is_same(here) => elsewhere("context", "another device"),
        _ => Ok(()),
    }
}

impl<T: Element> std::fmt::Debug for GpuMatrix<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GpuMatrix<{}>({} x {} on {})", T::NAME, self.size.0, self.size.1, self.context.adapter_name())
    }
}
