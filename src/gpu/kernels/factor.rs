//! The factors of a matrix that stays on the device.

use std::ops::Range;

use faer::Mat;
use num_complex::Complex;

use crate::{
    algo::{
        reflectors::{apply_factor, form_factor},
        triangular::{Operation, Variant},
    },
    base::{
        blas::{Diag, Op, Side, Uplo},
        error::Result,
        number::{RealElement, Scalar},
    },
    cost::vectors::Extent,
    gpu::{
        device::{
            buffers::Buffer,
            parameters::{FROM, UPTO},
        },
        kernels::{
            GpuKernels,
            left::{Part, Stack, whole},
            products::{To, numbers_of},
            triangular::on_device,
        },
        matrix::{DeviceMatrix, Window},
        storage::{Dense, Lines},
    },
};

/// A view of the first rows of a matrix that is in one buffer.
fn lines(a: &Dense, rows: usize) -> Result<Lines<'_>> {
    let by_rows = a.strides.1 == 1;
    let (inner, outer) = if by_rows { (a.size.1, rows) } else { (rows, a.size.1) };
    Ok(Lines { entries: whole(a)?.buffer, by_rows, inner, outer, ld: a.ld() })
}

impl GpuKernels {
    /// `scale` times the upper trapezoid of the first `rows` rows of `a`, with zeros below the diagonal.
    pub(crate) fn upper(&self, a: &Dense, rows: usize, scale: f64) -> Result<Dense> {
        let lines = lines(a, rows)?;
        self.scaled(&lines, scale, if lines.by_rows { FROM } else { UPTO }, lines.size())
    }

    /// The upper triangle of the first n rows and columns of `a`, with zeros below the diagonal.
    pub(crate) fn upper_square(&self, a: &Dense, n: usize) -> Result<Dense> {
        let lines = Lines { inner: n, outer: n, ..lines(a, n)? };
        self.scaled(&lines, 1.0, if lines.by_rows { FROM } else { UPTO }, (n, n))
    }

    /// [s A; root I] for the matrix A of `from`.
    pub(crate) fn with_ridge(&self, from: &Lines<'_>, scale: f64, root: f64) -> Result<Dense> {
        let (m, n) = from.size();
        let all = self.scaled(from, scale, 0, (m.saturating_add(n), n))?;
        self.write_ridge(&all, (m, n), root)?;
        Ok(all)
    }

    /// [s A, t B; root I, 0] for the matrices of `a` and `b` and their scales, without the last rows if `root` is zero.
    pub(crate) fn beside(&self, (a, scale): (&Lines<'_>, f64), (b, b_scale): (&Lines<'_>, f64), root: f64) -> Result<Dense> {
        let ((m, n), p) = (a.size(), b.size().1);
        let rows = if root == 0.0 { m } else { m.saturating_add(n) };
        let all = self.scaled(a, scale, 0, (rows, n + p))?;
        if root != 0.0 {
            self.write_ridge(&all, (m, n), root)?;
        }
        if m > 0 && p > 0 {
            let right = self.adopt(b, b_scale)?;
            self.copy(whole(&right)?, Part { rows: m, ..whole(&all)?.columns(n, p) }, false)?;
        }
        Ok(all)
    }

    /// Writes `root` to the diagonal of n columns from row m on.
    fn write_ridge(&self, all: &Dense, (m, n): (usize, usize), root: f64) -> Result<()> {
        let entry = numbers_of(&self.stream, "the ridge", self.kind, &[root.into()])?;
        let to = whole(all)?;
        let Window { rs, cs, .. } = to.window;
        // The one entry, n times.
        let one = Part { buffer: &entry, window: Window { offset: 0, rs: 0, cs: 0 }, rows: n, cols: 1, stack: Stack::ONE };
        self.copy(one, Part { window: Window { offset: m * rs, rs: rs + cs, cs: 0 }, rows: n, cols: 1, ..to }, false)
    }

    /// A copy of these rows and columns.
    pub(crate) fn window(&self, a: &Dense, rows: Range<usize>, cols: Range<usize>) -> Result<Dense> {
        let out = self.room(rows.len(), cols.len())?;
        if !rows.is_empty() && !cols.is_empty() {
            let columns = whole(a)?.columns(cols.start, cols.len());
            self.copy(columns.transposed().columns(rows.start, rows.len()).transposed(), whole(&out)?, false)?;
        }
        Ok(out)
    }

    /// A column of n rows of no particular direction, the same each time.
    pub(crate) fn noise(&self, n: usize) -> Result<Dense> {
        let x = self.room(n, 1)?;
        self.to_unit_length(whole(&x)?, true)?;
        Ok(x)
    }

    /// 2^`exponent` times a matrix, though the type may not hold the power.
    pub(crate) fn times_power(&self, mut a: Dense, mut exponent: i32) -> Result<Dense> {
        let limit = if self.kind.is_double() { f64::exponent_limit() } else { f32::exponent_limit() };
        while exponent != 0 {
            let step = exponent.clamp(-limit, limit);
            a = self.adopt(&lines(&a, a.size.0)?, f64::from(step).exp2())?;
            exponent -= step;
        }
        Ok(a)
    }

    /// The first `cols` columns of Q, for the m x n matrix `a` that has kept the reflectors of its triangular factor.
    pub(crate) fn columns_of_factor(&self, a: &Dense, (m, n): (usize, usize), cols: usize) -> Result<Dense> {
        let mut q = self.identity(a, m, 0..cols, false)?;
        form_factor(self, a, (m, n), &self.tuning, &mut q)?;
        Ok(q)
    }

    /// op(Q) C, or conj(op(Q)) C, for a new matrix C.
    pub(crate) fn applied_factor(
        &self,
        a: &Dense,
        shape: (usize, usize),
        op: Op,
        mut c: Dense,
        conjugated: bool,
    ) -> Result<Dense> {
        let conjugate = |c: Dense| if conjugated && self.kind.is_complex() { self.conjugated(&c) } else { Ok(c) };
        c = conjugate(c)?;
        apply_factor(self, a, shape, &self.tuning, op, &mut c)?;
        conjugate(c)
    }

    /// diag(op(Q1), I) C, or with the conjugates of op(Q1), for a square Q1 with at most as many rows as C. A new matrix.
    pub(crate) fn turned_rows(&self, q1: &Dense, op: Op, conjugated: bool, c: &Dense) -> Result<Dense> {
        let (k, (rows, cols)) = (q1.size.0, c.size);
        let out = self.room(rows, cols)?;
        if cols == 0 {
            return Ok(out);
        }
        let (from, to) = (whole(c)?.transposed(), whole(&out)?.transposed());
        let m = if op == Op::NoTrans { whole(q1)? } else { whole(q1)?.transposed() };
        let [x, y] = [from, to].map(|of| of.columns(0, k).transposed());
        self.multiply(m, x, y, (op == Op::ConjTrans) != conjugated, To::Replaced, Extent::default())?;
        if k < rows {
            self.copy(from.columns(k, rows - k), to.columns(k, rows - k), false)?;
        }
        Ok(out)
    }

    /// [C; 0] with this number of rows, or the first rows of C.
    pub(crate) fn with_rows(&self, c: &Dense, rows: usize) -> Result<Dense> {
        let out = self.room(rows, c.size.1)?; // a new buffer has zeros
        let rows = rows.min(c.size.0);
        self.copy(Part { rows, ..whole(c)? }, Part { rows, ..whole(&out)? }, false)?;
        Ok(out)
    }

    /// Matrices stored in their arithmetic type, and the first elements of some buffers, after all earlier commands: by one copy to the host, if they are few. Each
    /// matrix is in one buffer.
    pub(crate) async fn download_several<T: Scalar>(
        &self,
        matrices: &[&Dense],
        buffers: &[(&Buffer, usize)],
    ) -> Result<(Vec<Mat<T>>, Vec<Vec<T>>)> {
        self.check_type::<T>()?;
        let parts = matrices.iter().map(|a| whole(a)).collect::<Result<Vec<_>>>()?;
        let lengths = parts.iter().map(|part| match part.rows * part.cols {
            0 => 0,
            _ => part.window.at(part.rows - 1, part.cols - 1) as usize + 1,
        });
        let sources: Vec<_> = parts.iter().map(|part| part.buffer).zip(lengths).chain(buffers.iter().copied()).collect();
        let mut found: Vec<Vec<T>> = self.stream.read_back_several(&sources).await?;
        let others = found.split_off(parts.len());
        let matrix = |(part, entries): (&Part<'_>, Vec<T>)| {
            Mat::from_fn(part.rows, part.cols, |i, j| entries[part.window.at(i, j) as usize])
        };
        Ok((parts.iter().zip(found).map(matrix).collect(), others))
    }

    /// op(R)^-1 C in place of C, for R in the upper triangle of the first rows of `a`. C must not be empty.
    pub(crate) fn solve_upper(&self, a: &Dense, op: Op, c: &Dense) -> Result<()> {
        let variant = Variant { operation: Operation::Solve, side: Side::Left, uplo: Uplo::Upper, op, diag: Diag::NonUnit };
        let n = c.size.0;
        let (r, b) = (DeviceMatrix::view(&self.context, a, (n, n))?, DeviceMatrix::view(&self.context, c, c.size)?);
        on_device(&self.context, &self.stream, &self.tuning, &variant, Complex::ONE, &r, &b)
    }
}
