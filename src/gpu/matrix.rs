//! A dense matrix in device memory, which the caller keeps between operations.

use std::{
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
};

use faer::{MatMut, MatRef};
use num_complex::Complex;
use pollster::block_on;

use crate::{
    base::{
        blas::Uplo,
        element_kind::ElementKind,
        error::{Result, SvdError},
        number::{Number, RealElement, Scalar},
        scale::{first_non_finite, largest, scale_of_kind},
        view::{copy_entries, map_into},
    },
    cost::work::{Kernel, LINEAR_THREADS, Work},
    gpu::{
        device::{
            buffers::{Buffer, STORAGE, storage},
            context::GpuContext,
            parameters,
            pipeline::{DIAGONAL, LARGEST},
            stream::Stream,
        },
        limits::fitting_bytes,
        storage::{Dense, Lines},
    },
};

/// A dense matrix on the device, stored in the arithmetic type.
pub struct DeviceMatrix {
    /// The arithmetic type.
    pub kind: ElementKind,
    pub context: GpuContext,
    pub(crate) entries: Buffer,
    pub size: (usize, usize),
    /// Entry (i, j) is at i * strides.0 + j * strides.1.
    pub strides: (usize, usize),
}

/// Maximum number of workgroups that search for the largest entry.
const LARGEST_GROUPS: usize = 256;

/// The largest of what a search has found, unless an entry is not finite.
pub(crate) fn finite_largest(found: impl IntoIterator<Item = f64>) -> Option<f64> {
    found.into_iter().try_fold(0.0, |most: f64, x| if x >= 0.0 { Some(most.max(x)) } else { None })
}

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
pub(crate) fn matrix_bytes(kind: ElementKind, context: &GpuContext, (rows, cols): (usize, usize), by_rows: bool) -> Result<u64> {
    let (_, len) = if by_rows { layout(cols, rows) } else { layout(rows, cols) };
    fitting_bytes(context, "the matrix", kind.scalar_bytes(), len)
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

impl DeviceMatrix {
    /// Copies `a` to the device of `stream`, in its memory order. If only one triangle is `referenced`, all other entries are zero on the
    /// device.
    pub(crate) fn upload<T: Scalar>(stream: &Stream, a: MatRef<'_, T>, referenced: Option<Uplo>) -> Result<Self> {
        let (kind, context) = (T::KIND, stream.context());
        context.require(kind.scalar())?;
        let by_rows = a.col_stride().unsigned_abs() < a.row_stride().unsigned_abs();
        let bytes = matrix_bytes(kind, context, a.shape(), by_rows)?;
        let entries = storage(context, "the matrix", bytes)?;
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
        stream.upload(&entries, len.unwrap_or_default(), |start, piece: &mut [T]| {
            copy_lines(lines, ld, start, piece, wanted, |x| x);
        })?;
        // The caller keeps the matrix, and may compute nothing for long.
        stream.start_copies()?;
        Ok(DeviceMatrix { kind, context: context.clone(), entries, size: a.shape(), strides })
    }

    /// The matrix of a call, in one buffer.
    pub(crate) fn from_dense(context: &GpuContext, a: Dense) -> Result<Self> {
        Self::view(context, &a, a.size)
    }

    /// The first rows and columns of the matrix of a call, in the same buffer.
    pub(crate) fn view(context: &GpuContext, a: &Dense, size: (usize, usize)) -> Result<Self> {
        let [entries] = &a.a[..] else {
            return Err(SvdError::invalid("matrix", format!("{} x {} entries are in several buffers", a.size.0, a.size.1)));
        };
        let (context, entries) = (context.clone(), entries.clone());
        Ok(DeviceMatrix { kind: a.kind.scalar(), context, entries, size, strides: a.strides })
    }

    /// The transpose, in the same buffer.
    pub(crate) fn transposed(self) -> Self {
        DeviceMatrix { size: (self.size.1, self.size.0), strides: (self.strides.1, self.strides.0), ..self }
    }

    /// The matrix in a caller's buffer, after checking that operations can use it.
    pub(crate) fn from_buffer(
        kind: ElementKind,
        context: &GpuContext,
        buffer: wgpu::Buffer,
        (rows, cols): (usize, usize),
        strides: (usize, usize),
    ) -> Result<Self> {
        context.require(kind.scalar())?;
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
        let missing = STORAGE - buffer.usage();
        if !missing.is_empty() {
            return Err(SvdError::invalid("buffer", format!("its usages lack {missing:?}")));
        }
        let matrix =
            DeviceMatrix { kind, context: context.clone(), entries: Buffer::of_caller(buffer), size: (rows, cols), strides };
        matrix.lines().check(kind.bytes())?;
        // The whole buffer is bound.
        fitting_bytes(context, "the buffer", 1, usize::try_from(matrix.entries.size()).ok())?;
        fitting_bytes(context, "the matrix", kind.scalar_bytes(), matrix.lines().len())?;
        // wgpu compares the devices when it binds a buffer.
        let pipeline = context.pipeline(kind.scalar(), &LARGEST, &[], 0)?;
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

    /// An error unless `T` is the type of the entries.
    fn check_type<T: Scalar>(&self) -> Result<()> {
        match self.kind == T::KIND {
            true => Ok(()),
            false => Err(SvdError::invalid("element", format!("{}, for a matrix of {}", T::NAME, self.kind.name()))),
        }
    }

    pub(crate) fn window(&self) -> Window {
        Window { offset: 0, rs: self.strides.0, cs: self.strides.1 }
    }

    pub(crate) fn lines(&self) -> Lines<'_> {
        let ((rows, cols), by_rows) = (self.size, self.strides.1 == 1);
        let (inner, outer, ld) = if by_rows { (cols, rows, self.strides.0) } else { (rows, cols, self.strides.1) };
        Lines { entries: &self.entries, by_rows, inner, outer, ld }
    }

    /// Reads the entries back. `b` is written only after all entries have arrived.
    pub(crate) fn download_to<T: Scalar>(&self, stream: &Stream, b: MatMut<'_, T>) -> Result<()> {
        self.copy_back(stream, b)
    }

    /// [`download_to`](Self::download_to) of a caller that does not need `b` after an error.
    pub(crate) fn download_by_pieces<T: Scalar>(&self, stream: &Stream, mut b: MatMut<'_, T>) -> Result<()> {
        self.check_type::<T>()?;
        let here = self.lines();
        let (m, n) = b.shape();
        if m * n == 0 {
            return Ok(());
        }
        let take = |at: usize, entries: &[T]| {
            let (first, count) = (at / here.ld, entries.len().div_ceil(here.ld));
            let (from, to) = if here.by_rows {
                (MatRef::from_row_major_slice_with_stride(entries, count, n, here.ld), b.as_mut().subrows_mut(first, count))
            } else {
                (MatRef::from_column_major_slice_with_stride(entries, m, count, here.ld), b.as_mut().subcols_mut(first, count))
            };
            copy_entries(from, to, |x| x);
        };
        block_on(stream.read_back_in(&self.entries, (0, here.len().unwrap_or_default()), here.ld, take))
    }

    /// `b` <- the entries.
    fn copy_back<T: Scalar>(&self, stream: &Stream, b: MatMut<'_, T>) -> Result<()> {
        self.check_type::<T>()?;
        let here = self.lines();
        let entries: Vec<T> = stream.read_back_now(&self.entries, here.len().unwrap_or_default())?;
        let (m, n) = b.shape();
        if m * n > 0 {
            let from = match here.by_rows {
                true => MatRef::from_row_major_slice_with_stride(&entries, m, n, here.ld),
                false => MatRef::from_column_major_slice_with_stride(&entries, m, n, here.ld),
            };
            copy_entries(from, b, |x| x);
        }
        Ok(())
    }

    /// Stage 0: the scale of the matrix, for copies stored as `kind`.
    pub(crate) fn scale(&self, kind: ElementKind) -> Result<f64> {
        let [largest] = Self::largest_of([self])?;
        self.scale_by(kind, largest)
    }

    /// The scale, from what [`largest_of`](Self::largest_of) has found.
    pub(crate) fn scale_by(&self, kind: ElementKind, largest: Option<f64>) -> Result<f64> {
        let (m, n) = self.lines().upright().size();
        Ok(scale_of_kind(kind, self.known_largest(largest)?, m, n))
    }

    /// The largest real or imaginary part in absolute value. The first entry that is not finite is an error.
    pub(crate) fn largest(&self) -> Result<f64> {
        let [largest] = Self::largest_of([self])?;
        self.known_largest(largest)
    }

    /// The largest real or imaginary part of each matrix, in absolute value; None if an entry is not finite. All are on one device and of one type. One
    /// copy brings what is found to the host.
    pub(crate) fn largest_of<const K: usize>(all: [&Self; K]) -> Result<[Option<f64>; K]> {
        let Some(first) = all.first() else { return Ok([None; K]) };
        let stream = Stream::new(&first.context)?;
        let mut found = Vec::with_capacity(K);
        for matrix in all {
            found.push(matrix.begin_largest(&stream)?);
        }
        let found: Vec<_> = found.iter().map(|(found, len)| (found, *len)).collect();
        let read: Vec<Vec<f64>> = match first.kind.is_double() {
            true => block_on(stream.read_back_several(&found))?,
            false => block_on(stream.read_back_several::<f32>(&found))?
                .into_iter()
                .map(|one| one.into_iter().map(f64::from).collect())
                .collect(),
        };
        Ok(std::array::from_fn(|k| finite_largest(read[k].iter().copied())))
    }

    /// Begins to search for the largest real or imaginary part. It is the largest of so many real numbers that the buffer will have, if none is negative; else
    /// an entry is not finite. As many numbers after these will have the square of the Frobenius norm as their sum.
    pub(crate) fn begin_largest(&self, stream: &Stream) -> Result<(Buffer, usize)> {
        let Lines { inner, outer, ld, .. } = self.lines();
        let len = inner * outer;
        let groups = len.div_ceil(LINEAR_THREADS as usize).clamp(1, LARGEST_GROUPS);
        let threads = groups * LINEAR_THREADS as usize;
        let bytes = (2 * threads * self.kind.real_bytes()) as u64;
        let found = storage(&self.context, "largest entries", bytes)?;
        let pipeline = self.context.pipeline(self.kind.scalar(), &LARGEST, &[], 0)?;
        let bindings = stream.bind(&pipeline, &[&self.entries, &found], &[])?;
        let parameters =
            parameters::Largest { inner: inner as u32, ld: ld as u32, len: len as u32, each: len.div_ceil(threads) as u32 };
        stream.dispatch(&pipeline, &bindings, parameters, [groups as u32, 1, 1], Work::other(Kernel::Largest, 0))?;
        Ok((found, threads))
    }

    /// The largest part, if it is known; else the host finds it, or the entry that is not finite.
    fn known_largest(&self, largest: Option<f64>) -> Result<f64> {
        if let Some(largest) = largest {
            return Ok(largest);
        }
        let stream = Stream::new(&self.context)?;
        match self.kind {
            ElementKind::F16 | ElementKind::F32 => self.largest_on_host::<f32>(&stream),
            ElementKind::F64 => self.largest_on_host::<f64>(&stream),
            ElementKind::C32 => self.largest_on_host::<Complex<f32>>(&stream),
            ElementKind::C64 => self.largest_on_host::<Complex<f64>>(&stream),
        }
    }

    /// [`largest`](Self::largest) on the host.
    fn largest_on_host<T: Scalar>(&self, stream: &Stream) -> Result<f64> {
        let mut here = faer::Mat::<T>::zeros(self.size.0, self.size.1);
        self.copy_back(stream, here.as_mut())?;
        largest(here.as_ref()).map(|x| x.to_double()).ok_or_else(|| first_non_finite(here.as_ref()))
    }

    /// The diagonal entries (i, i).
    pub(crate) fn diagonal<T: Scalar>(&self, stream: &Stream) -> Result<Vec<T>> {
        self.check_type::<T>()?;
        let n = self.size.0.min(self.size.1);
        let bytes = (n * self.kind.scalar_bytes()) as u64;
        let out = storage(&self.context, "the diagonal", bytes)?;
        let pipeline = self.context.pipeline(self.kind.scalar(), &DIAGONAL, &[], 0)?;
        let bindings = stream.bind(&pipeline, &[&self.entries, &out], &[])?;
        let parameters = parameters::Diagonal { n: n as u32, stride: (self.strides.0 + self.strides.1) as u32 };
        let [x, y] = stream.fold(n.div_ceil(LINEAR_THREADS as usize))?;
        stream.dispatch(&pipeline, &bindings, parameters, [x, y, 1], Work::other(Kernel::Diagonal, 0))?;
        stream.read_back_now(&out, n)
    }
}
