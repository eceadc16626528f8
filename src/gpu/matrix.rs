//! A dense matrix in device memory, which the caller keeps between operations.

use std::{
    marker::PhantomData,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
};

use bytemuck::Pod;
use faer::{MatMut, MatRef};
use num_traits::Float;
use pollster::block_on;
use wgpu::{Buffer, BufferUsages};

use crate::{
    base::{
        blas::Uplo,
        error::{Result, SvdError},
        number::{Number, RealElement},
        scale::{power_of_two_scale, scale_for},
        view::{copy_entries, map_into},
    },
    cost::work::{Kernel, LINEAR_THREADS, Work},
    gpu::{
        device::{
            context::GpuContext,
            parameters,
            pipeline::{DIAGONAL, LARGEST},
            stream::{Stream, buffer},
        },
        limits::fitting_bytes,
        storage::{Dense, Lines},
    },
};

/// A dense matrix on the device, stored in the arithmetic type.
pub struct DeviceMatrix<T> {
    pub context: GpuContext,
    pub entries: Buffer,
    pub size: (usize, usize),
    /// Entry (i, j) is at i * strides.0 + j * strides.1.
    pub strides: (usize, usize),
    element: PhantomData<T>,
}

/// Maximum number of workgroups that search for the largest entry.
const LARGEST_GROUPS: usize = 256;

/// The position of a submatrix in a buffer: entry (i, j) is at `offset + i * rs + j * cs`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub offset: usize,
    pub rs: usize,
    pub cs: usize,
}

impl Window {
    pub(crate) fn transposed(self) -> Window {
        Window { rs: self.cs, cs: self.rs, ..self }
    }

    /// The index of entry (i, j) in shaders, which use u32. It fits for matrices that passed [`fitting_bytes`].
    pub fn at(&self, i: usize, j: usize) -> u32 {
        (self.offset + i * self.rs + j * self.cs) as u32
    }
}

/// The leading dimension for lines of `inner` entries, and the number of entries in `outer` such lines.
fn layout(inner: usize, outer: usize) -> (usize, Option<usize>) {
    match inner.max(1).checked_next_multiple_of(4) {
        Some(ld) => (ld, ld.checked_mul(outer)),
        None => (0, None),
    }
}

/// Bytes of a rows x cols matrix of `T`, or the reason why the device cannot hold it.
pub(crate) fn matrix_bytes<T: Number>(context: &GpuContext, (rows, cols): (usize, usize), by_rows: bool) -> Result<u64> {
    let (_, len) = if by_rows { layout(cols, rows) } else { layout(rows, cols) };
    fitting_bytes::<T::Scalar>(context, "the matrix", len)
}

/// Fills `piece` with the entries from index `start` on of the matrix `lines`, whose columns are padded to `ld` entries. `convert` is
/// applied to the entries in the range `wanted` of each column. All other entries are zero.
pub(crate) fn copy_lines<T: Number, S: Number>(
    lines: MatRef<'_, T>,
    ld: usize,
    start: usize,
    piece: &mut [S],
    wanted: impl Fn(usize) -> Range<usize>,
    convert: impl Fn(T::Scalar) -> S,
) {
    let mut at = 0;
    while at < piece.len() {
        // From entry k of column j to the end of the column, or of the piece.
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

impl<T: Number> DeviceMatrix<T> {
    /// Copies `a` to the device of `stream`, in its memory order. If only one triangle is `referenced`, all other entries are zero on the
    /// device.
    pub(crate) fn upload(stream: &Stream, a: MatRef<'_, T>, referenced: Option<Uplo>) -> Result<Self> {
        let context = stream.context();
        context.require::<T::Scalar>()?;
        let by_rows = a.col_stride().unsigned_abs() < a.row_stride().unsigned_abs();
        let bytes = matrix_bytes::<T>(context, a.shape(), by_rows)?;
        let usage = BufferUsages::STORAGE | BufferUsages::COPY_DST | BufferUsages::COPY_SRC;
        let entries = buffer(context, "the matrix", bytes, usage)?;
        let lines = if by_rows { a.transpose() } else { a };
        let (inner, outer) = lines.shape();
        let (ld, len) = layout(inner, outer);
        let strides = if by_rows { (ld, 1) } else { (1, ld) };
        // The range to copy of line j, which is a row or a column.
        let wanted = |j: usize| match referenced {
            None => 0..inner,
            Some(uplo) if (uplo == Uplo::Lower) == by_rows => 0..j + 1,
            Some(_) => j..inner,
        };
        stream.upload(&entries, len.unwrap_or_default(), |start, piece: &mut [T::Scalar]| {
            copy_lines(lines, ld, start, piece, wanted, |x| x);
        })?;
        // The caller keeps the matrix, and may compute nothing for long.
        stream.start_copies()?;
        Ok(DeviceMatrix { context: context.clone(), entries, size: a.shape(), strides, element: PhantomData })
    }

    /// The matrix of a call, in one buffer.
    pub(crate) fn from_dense(context: &GpuContext, a: Dense<T>) -> Result<Self> {
        Self::view(context, &a, a.size)
    }

    /// The first rows and columns of the matrix of a call, in the same buffer.
    pub(crate) fn view(context: &GpuContext, a: &Dense<T>, size: (usize, usize)) -> Result<Self> {
        let [entries] = &a.a[..] else {
            return Err(SvdError::invalid("matrix", format!("{} x {} entries are in several buffers", a.size.0, a.size.1)));
        };
        let (context, entries) = (context.clone(), entries.clone());
        Ok(DeviceMatrix { context, entries, size, strides: a.strides, element: PhantomData })
    }

    /// The transpose, in the same buffer.
    pub(crate) fn transposed(self) -> Self {
        DeviceMatrix { size: (self.size.1, self.size.0), strides: (self.strides.1, self.strides.0), ..self }
    }

    /// The matrix in a caller's buffer, after checking that operations can use it.
    pub(crate) fn from_buffer(
        context: &GpuContext,
        buffer: Buffer,
        (rows, cols): (usize, usize),
        strides: (usize, usize),
    ) -> Result<Self> {
        context.require::<T::Scalar>()?;
        // The stride of a single line is arbitrary; it is set to the smallest valid one. strides.1 == 1 always means row-major.
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
        let matrix =
            DeviceMatrix { context: context.clone(), entries: buffer, size: (rows, cols), strides, element: PhantomData };
        matrix.lines().check::<T::Scalar>()?;
        // The whole buffer is bound.
        fitting_bytes::<u8>(context, "the buffer", usize::try_from(matrix.entries.size()).ok())?;
        fitting_bytes::<T::Scalar>(context, "the matrix", matrix.lines().len())?;
        // wgpu compares the devices when it binds a buffer.
        let pipeline = context.pipeline::<T::Scalar>(&LARGEST, &[], 0)?;
        let stream = Stream::new(context)?;
        let bind = || stream.bind(&pipeline, &[&matrix.entries, &matrix.entries], &[]);
        // wgpu 30 panics if even the instances differ (wgpu-core/src/storage.rs, `Storage::get`). Unwind safe: the values on the stack
        // below are dropped, and wgpu's locks do not poison.
        match catch_unwind(AssertUnwindSafe(bind)) {
            Err(_) => Err(SvdError::invalid("buffer", "it is of another wgpu::Instance than the context's device")),
            Ok(Err(SvdError::Gpu { reason, .. })) => Err(SvdError::invalid("buffer", reason)),
            Ok(result) => result.map(|_| matrix),
        }
    }

    /// The same entries as those of a matrix of the arithmetic type, in which they are stored.
    pub(crate) fn arithmetic(&self) -> DeviceMatrix<T::Scalar> {
        let (context, entries, &DeviceMatrix { size, strides, .. }) = (self.context.clone(), self.entries.clone(), self);
        DeviceMatrix { context, entries, size, strides, element: PhantomData }
    }

    pub(crate) fn window(&self) -> Window {
        Window { offset: 0, rs: self.strides.0, cs: self.strides.1 }
    }

    pub(crate) fn lines(&self) -> Lines<'_> {
        let ((rows, cols), by_rows) = (self.size, self.strides.1 == 1);
        let (inner, outer, ld) = if by_rows { (cols, rows, self.strides.0) } else { (rows, cols, self.strides.1) };
        Lines { entries: &self.entries, by_rows, inner, outer, ld }
    }

    /// Reads the entries back and rounds half types to nearest. `b` is written only after all entries have arrived.
    pub(crate) fn download_to(&self, stream: &Stream, b: MatMut<'_, T>) -> Result<()> {
        self.copy_back(stream, b, T::narrow)
    }

    /// [`download_to`](Self::download_to) of a caller that does not need `b` after an error.
    pub(crate) fn download_by_pieces(&self, stream: &Stream, mut b: MatMut<'_, T>) -> Result<()> {
        let here = self.lines();
        let (m, n) = b.shape();
        if m * n == 0 {
            return Ok(());
        }
        let take = |at: usize, entries: &[T::Scalar]| {
            let (first, count) = (at / here.ld, entries.len().div_ceil(here.ld));
            let (from, to) = if here.by_rows {
                (MatRef::from_row_major_slice_with_stride(entries, count, n, here.ld), b.as_mut().subrows_mut(first, count))
            } else {
                (MatRef::from_column_major_slice_with_stride(entries, m, count, here.ld), b.as_mut().subcols_mut(first, count))
            };
            copy_entries(from, to, T::narrow);
        };
        block_on(stream.read_back_in(&self.entries, (0, here.len().unwrap_or_default()), here.ld, take))
    }

    /// `b` <- the entries, converted by `convert`.
    fn copy_back<U: Pod + Send>(&self, stream: &Stream, b: MatMut<'_, U>, convert: impl Fn(T::Scalar) -> U + Sync) -> Result<()> {
        let here = self.lines();
        let entries: Vec<T::Scalar> = stream.read_back_now(&self.entries, here.len().unwrap_or_default())?;
        let (m, n) = b.shape();
        if m * n > 0 {
            let from = match here.by_rows {
                true => MatRef::from_row_major_slice_with_stride(&entries, m, n, here.ld),
                false => MatRef::from_column_major_slice_with_stride(&entries, m, n, here.ld),
            };
            copy_entries(from, b, convert);
        }
        Ok(())
    }

    /// Stage 0: the scale of the matrix.
    pub(crate) fn scale<S: Number<Real = T::Real>>(&self) -> Result<T::Real> {
        let (m, n) = self.lines().upright().size();
        Ok(scale_for::<S>(self.largest()?, m, n))
    }

    /// The largest real or imaginary part in absolute value. The first entry that is not finite is an error.
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

    /// The diagonal entries (i, i).
    pub(crate) fn diagonal(&self, stream: &Stream) -> Result<Vec<T::Scalar>> {
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
