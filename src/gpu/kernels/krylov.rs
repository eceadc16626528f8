//! The bases of a Krylov space on the device, and products by a matrix there (`algo/krylov`). Small matrices go to the host and back.

use std::ops::Range;

use faer::{Mat, MatRef};
use num_complex::Complex;

use crate::{
    algo::krylov::{Asked, Basis, Blocks, Later, Small},
    base::{
        element_kind::ElementKind,
        error::{Result, SvdError},
        number::{Number, Scalar},
        pool::on_pool_async,
    },
    cost::vectors::Extent,
    gpu::{
        device::{
            buffers::{Buffer, storage},
            context::Waits,
        },
        kernels::{
            GpuKernels,
            left::{Part, Stack, whole},
            products::{Stored, To, numbers_of},
        },
        limits::fitting_bytes,
        matrix::{DeviceMatrix, Window},
        storage::Dense,
    },
};

/// The bases of a matrix on the device, or of its adjoint, with at least as many rows as columns.
pub(crate) struct DeviceBlocks<W: Scalar> {
    pub kernels: GpuKernels,
    /// The matrix, in one buffer, and what it is stored as.
    a: DeviceMatrix,
    stored: Stored,
    adjoint: bool,
    u: Dense,
    v: Dense,
    small: fn(Mat<W>, usize) -> Result<Small<W>>,
}

impl GpuKernels {
    /// A real matrix on the device as [`Stored::Bf16`], in its memory order. What is not a number of bf16 is rounded towards zero.
    pub(crate) fn upload_as_bf16<T: Scalar>(&self, a: MatRef<'_, T>) -> Result<DeviceMatrix> {
        let by_rows = a.col_stride().unsigned_abs() < a.row_stride().unsigned_abs();
        let lines = if by_rows { a.transpose() } else { a };
        let (len, pairs) = (lines.nrows(), lines.nrows().div_ceil(2));
        let bytes = fitting_bytes(&self.context, "the matrix", size_of::<u32>(), pairs.checked_mul(lines.ncols()))?;
        let entries = storage(&self.context, "the matrix", bytes)?;
        self.stream.upload(&entries, pairs * lines.ncols(), |start, piece: &mut [u32]| {
            for (place, pair) in (start..).zip(piece) {
                let (line, first) = (place / pairs, place % pairs * 2);
                let half = |i: usize| if i < len { (lines[(i, line)].to_complex().re as f32).to_bits() >> 16 } else { 0 };
                *pair = half(first) | half(first + 1) << 16;
            }
        })?;
        let strides = if by_rows { (2 * pairs, 1) } else { (1, 2 * pairs) };
        Ok(DeviceMatrix { kind: ElementKind::F32, context: self.context.clone(), entries, size: a.shape(), strides })
    }
}

/// All of a matrix on the device.
fn all(a: &DeviceMatrix) -> Part<'_> {
    let window = Window { offset: 0, rs: a.strides.0, cs: a.strides.1 };
    Part { buffer: &a.entries, window, rows: a.size.0, cols: a.size.1, stack: Stack::ONE }
}

impl<W: Scalar> DeviceBlocks<W> {
    /// Room for the bases of a matrix neither side of which is zero. It is multiplied as it lies.
    pub fn new(
        kernels: GpuKernels,
        (a, stored): (DeviceMatrix, Stored),
        asked: &Asked,
        small: fn(Mat<W>, usize) -> Result<Small<W>>,
    ) -> Result<Self> {
        let adjoint = a.size.0 < a.size.1;
        let (m, n) = if adjoint { (a.size.1, a.size.0) } else { a.size };
        let [of_u, of_v] = asked.columns();
        let (u, v) = (kernels.room(m, of_u)?, kernels.room(n, of_v)?);
        Ok(DeviceBlocks { kernels, a, stored, adjoint, u, v, small })
    }

    /// Copies of the first columns of the bases: the left and the right vectors of the matrix.
    pub fn vectors(&self, count: usize) -> Result<[Dense; 2]> {
        let [u, v] = [self.kernels.first_columns(&self.u, count)?, self.kernels.first_columns(&self.v, count)?];
        Ok(if self.adjoint { [v, u] } else { [u, v] })
    }

    /// Puts some triples of the matrix into the first columns.
    pub fn set_vectors(&mut self, left: &DeviceMatrix, right: &DeviceMatrix, some: Range<usize>) -> Result<()> {
        let (u, v) = if self.adjoint { (right, left) } else { (left, right) };
        for (basis, vectors) in [(&self.u, u), (&self.v, v)] {
            let vectors = all(vectors).columns(some.start, some.len());
            self.kernels.copy(vectors, whole(basis)?.columns(0, some.len()), false)?;
        }
        Ok(())
    }

    fn basis(&self, of: Basis) -> &Dense {
        match of {
            Basis::U => &self.u,
            Basis::V => &self.v,
        }
    }

    fn columns(&self, of: Basis, cols: Range<usize>) -> Result<Part<'_>> {
        Ok(whole(self.basis(of))?.columns(cols.start, cols.len()))
    }

    /// A matrix of the host, column by column, on the device.
    fn uploaded(&self, entries: &[Complex<f64>]) -> Result<Buffer> {
        numbers_of(&self.kernels.stream, "columns", self.kernels.kind, entries)
    }
}

/// A matrix in a buffer, column by column.
fn by_columns(buffer: &Buffer, rows: usize, cols: usize) -> Part<'_> {
    Part { buffer, window: Window { offset: 0, rs: 1, cs: rows }, rows, cols, stack: Stack::ONE }
}

impl<W: Scalar<Wide = W> + Number<Real = f64>> Blocks<W> for DeviceBlocks<W> {
    fn shape(&self) -> (usize, usize) {
        (self.u.size.0, self.v.size.0)
    }

    fn epsilon(&self) -> f64 {
        if self.kernels.kind.is_double() { f64::EPSILON } else { f32::EPSILON.into() }
    }

    fn multiply(&mut self, to: Basis, at: usize, from: Range<usize>) -> Result<()> {
        let source = if to == Basis::U { Basis::V } else { Basis::U };
        let (x, y) = (self.columns(source, from.clone())?, self.columns(to, at..at + from.len())?);
        let adjoint = (to == Basis::V) != self.adjoint;
        let a = if adjoint { all(&self.a).transposed() } else { all(&self.a) };
        self.kernels.multiply_mixed(self.stored, a, x, y, adjoint)
    }

    fn inner(&mut self, of: Basis, cols: Range<usize>) -> Later<'_, Mat<W>> {
        Box::pin(async move {
            let (x, y) = (self.columns(of, 0..cols.end)?, self.columns(of, cols)?);
            let (rows, cols) = (x.cols, y.cols);
            let found = self.kernels.inner_products(x, y).await?;
            if !found.iter().all(|x| x.is_finite()) {
                return Err(SvdError::Gpu { what: "products of columns", reason: "one is not finite".into() });
            }
            Ok(Mat::from_fn(rows, cols, |i, j| W::from_complex(found[i + j * rows])))
        })
    }

    fn combine(&mut self, of: Basis, c: MatRef<'_, W>, at: usize) -> Result<()> {
        let (inner, cols) = c.shape();
        if cols == 0 {
            return Ok(());
        }
        let entries: Vec<_> = c.col_iter().flat_map(|column| column.iter().map(|x| x.to_complex())).collect();
        let buffer = self.uploaded(&entries)?;
        // A dispatch cannot read what it writes.
        let out = self.kernels.room(self.basis(of).size.0, cols)?;
        let x = self.columns(of, 0..inner)?;
        self.kernels.multiply(x, by_columns(&buffer, inner, cols), whole(&out)?, false, To::Replaced, Extent::default())?;
        self.kernels.copy(whole(&out)?, self.columns(of, at..at + cols)?, false)
    }

    fn shift(&mut self, of: Basis, from: Range<usize>, to: usize) -> Result<()> {
        let room = self.kernels.room(self.basis(of).size.0, from.len())?;
        self.kernels.copy(self.columns(of, from.clone())?, whole(&room)?, false)?;
        self.kernels.copy(whole(&room)?, self.columns(of, to..to + from.len())?, false)
    }

    fn fill(&mut self, of: Basis, cols: Range<usize>, entry: &(dyn Fn(usize, usize) -> f64 + Sync)) -> Result<()> {
        let rows = self.basis(of).size.0;
        let entries: Vec<_> = (0..cols.len()).flat_map(|j| (0..rows).map(move |i| Complex::from(entry(i, j)))).collect();
        let buffer = self.uploaded(&entries)?;
        self.kernels.copy(by_columns(&buffer, rows, cols.len()), self.columns(of, cols)?, false)
    }

    fn small_svd(&self, a: Mat<W>, keep: usize) -> Later<'_, Small<W>> {
        let small = self.small;
        Box::pin(async move {
            match self.kernels.stream.waits() {
                Waits::Blocking => small(a, keep),
                Waits::Awaited => on_pool_async(move || small(a, keep)).await?,
            }
        })
    }
}
