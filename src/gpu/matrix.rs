//! A matrix in the device's memory, which the caller keeps between operations.

use std::{
    marker::PhantomData,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
};

use faer::{MatMut, MatRef};
use num_traits::Float;
use wgpu::{Buffer, BufferUsages};

use crate::{
    base::{
        blas::Uplo,
        error::{Result, SvdError},
        number::{Number, RealElement},
        scale::{power_of_two_scale, scale_for},
        view::map_into,
    },
    cost::work::{Kernel, LINEAR_THREADS, Work},
    gpu::{
        device::{
            context::GpuContext,
            parameters,
            pipeline::{DIAGONAL, LARGEST},
            stream::{Stream, buffer},
        },
        storage::{Lines, fitting_bytes},
    },
};

/// A dense matrix on the device, in the type that arithmetic is done in.
pub(crate) struct DeviceMatrix<T> {
    pub context: GpuContext,
    pub entries: Buffer,
    pub size: (usize, usize),
    /// Entry (i, j) at i * strides.0 + j * strides.1.
    pub strides: (usize, usize),
    element: PhantomData<T>,
}

/// Most workgroups that look for the largest entry.
const LARGEST_GROUPS: usize = 256;

/// A window's place in a buffer: entry (i, j) is at `offset + i * rs + j * cs`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
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
pub(crate) fn matrix_bytes<T: Number>(context: &GpuContext, (rows, cols): (usize, usize), by_rows: bool) -> Result<u64> {
    let (_, len) = if by_rows { layout(cols, rows) } else { layout(rows, cols) };
    fitting_bytes::<T::Scalar>(context, "the matrix", len)
}

/// Writes places `start..` of `lines`, each a column of the matrix `lines` padded to `ld`, to `piece`: what `convert` makes of entries in
/// `wanted` of a line, zeros elsewhere.
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

impl<T: Number> DeviceMatrix<T> {
    /// Copies `a` to the device of `stream`, in the memory order that it has: the triangle that is `referenced`, if not all is, with zeros
    /// elsewhere.
    pub fn upload(stream: &Stream, a: MatRef<'_, T>, referenced: Option<Uplo>) -> Result<Self> {
        let context = stream.context();
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
        Ok(DeviceMatrix { context: context.clone(), entries, size: a.shape(), strides, element: PhantomData })
    }

    /// The matrix in a caller's buffer, once it is certain that operations can use it.
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
        let matrix =
            DeviceMatrix { context: context.clone(), entries: buffer, size: (rows, cols), strides, element: PhantomData };
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

    pub fn window(&self) -> Window {
        Window { offset: 0, rs: self.strides.0, cs: self.strides.1 }
    }

    pub fn lines(&self) -> Lines<'_> {
        let ((rows, cols), by_rows) = (self.size, self.strides.1 == 1);
        let (inner, outer, ld) = if by_rows { (cols, rows, self.strides.0) } else { (rows, cols, self.strides.1) };
        Lines { entries: &self.entries, by_rows, inner, outer, ld }
    }

    /// Reads the entries back; half types are rounded to nearest. `b` is written when all have come.
    pub fn download_to(&self, stream: &Stream, b: MatMut<'_, T>) -> Result<()> {
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

    /// Stage 0.
    pub fn scale<S: Number<Real = T::Real>>(&self) -> Result<T::Real> {
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
    pub fn diagonal(&self, stream: &Stream) -> Result<Vec<T::Scalar>> {
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
