//! What CholeskyQR2 computes on the device (`plan/cholesky.rs`).
//!
//! ```text
//! squares       A^H A = sum of (A_k^H A_k)     A_k: `ROWS` rows of A; sums of `PARTS` of these on the device, and those in f64 on the host
//! solve_right   A <- A R^-1                    by substitution
//! times_upper   A R
//! ```

use faer::Mat;
use wgpu::{Buffer, BufferUsages};

use crate::{
    algo::triangular::{Operation, Variant},
    base::{
        blas::{Diag, Op, Side, Uplo},
        error::Result,
        number::Scalar,
    },
    cost::{
        cholesky::{PARTS, parts, squares, sums},
        vectors::Extent,
    },
    gpu::{
        device::stream::buffer,
        kernels::{
            GpuKernels,
            left::{Part, whole},
            products::{Products, Task, To, table_of},
            triangular::on_device,
        },
        limits::fitting_bytes,
        matrix::{DeviceMatrix, Window},
        storage::Dense,
    },
};

impl<S: Scalar> GpuKernels<S> {
    /// The upper triangle of A^H A, for a matrix in one buffer; below are other numbers.
    pub(crate) async fn squares(&self, a: &Dense<S>) -> Result<Mat<S::Wide>> {
        let ((m, n), a) = (a.size, whole(a)?);
        let ld = n.next_multiple_of(4);
        let square = n * ld;
        let room = |count: usize| -> Result<Buffer> {
            let what = "products of columns";
            let bytes = fitting_bytes::<S>(&self.context, what, square.checked_mul(count))?;
            buffer(&self.context, what, bytes, BufferUsages::STORAGE | BufferUsages::COPY_SRC)
        };
        let (count, of_parts) = (parts(m).len(), room(parts(m).len())?);
        let product = |(k, (extent, rows)): (usize, (Extent, std::ops::Range<usize>))| {
            let x = Window { offset: a.window.offset + rows.start * a.window.rs, ..a.window };
            let c = Window { offset: k * square, rs: 1, cs: ld };
            Task { extent, m: x.transposed(), x, c, conjugated: true, to: To::Replaced }
        };
        let tasks = squares(n, &parts(m)).into_iter().zip(parts(m)).enumerate().map(product).collect();
        Products::new::<S, S>(self, [a.buffer, a.buffer, &of_parts], &[tasks])?.run(&self.stream, 0)?;

        // Sums of the parts are products with a row of ones.
        let sums = sums(square, count);
        let (number, of_sums) = (sums.len(), room(sums.len())?);
        let ones = table_of(&self.stream, "ones", &[S::one_impl(); PARTS])?;
        let row = |offset| Window { offset, rs: square, cs: 1 };
        let sum = |(k, extent)| Task {
            extent,
            m: row(0),
            x: row(k * PARTS * square),
            c: row(k * square),
            conjugated: false,
            to: To::Replaced,
        };
        let tasks = sums.into_iter().enumerate().map(sum).collect();
        Products::new::<S, S>(self, [&ones, &of_parts, &of_sums], &[tasks])?.run(&self.stream, 0)?;
        let found: Vec<S> = self.stream.read_back(&of_sums, number * square).await?;
        let mut all = Mat::<S::Wide>::zeros(n, n);
        for one in found.chunks_exact(square) {
            for j in 0..n {
                for i in 0..=j {
                    all[(i, j)] += one[j * ld + i].to_wide();
                }
            }
        }
        Ok(all)
    }

    /// A R^-1 in place of A, for R in the upper triangle of the square matrix `r`. Neither may be empty.
    pub(crate) fn solve_right(&self, r: &Dense<S>, a: &Dense<S>) -> Result<()> {
        let (operation, op, diag) = (Operation::Solve, Op::NoTrans, Diag::NonUnit);
        let variant = Variant { operation, side: Side::Right, uplo: Uplo::Upper, op, diag };
        let (r, a) = (DeviceMatrix::view(&self.context, r, r.size)?, DeviceMatrix::view(&self.context, a, a.size)?);
        on_device(&self.context, &self.stream, &self.tuning, &variant, S::one_impl(), &r, &a)
    }

    /// A R, for an upper triangular matrix `r` with zeros below.
    pub(crate) fn times_upper(&self, a: &Dense<S>, r: &Dense<S>) -> Result<Dense<S>> {
        let out = self.room(a.size.0, r.size.1)?;
        let extent = Extent { upper_x: true, ..Extent::default() };
        self.multiply(whole(a)?, whole(r)?, whole(&out)?, false, To::Replaced, extent)?;
        Ok(out)
    }

    /// M C, or M^H C, for a matrix `m` whose entries are conjugated first if asked for.
    pub(crate) fn product(&self, m: &Dense<S>, op: Op, conjugated: bool, c: &Dense<S>) -> Result<Dense<S>> {
        let m = if op == Op::NoTrans { whole(m)? } else { whole(m)?.transposed() };
        let out = self.room(m.rows, c.size.1)?;
        self.multiply(m, whole(c)?, whole(&out)?, (op == Op::ConjTrans) != conjugated, To::Replaced, Extent::default())?;
        Ok(out)
    }

    /// C - M X in place of C, or with M^T or M^H.
    pub(crate) fn subtract_product(&self, c: &Dense<S>, m: &Dense<S>, op: Op, x: &Dense<S>) -> Result<()> {
        let m = if op == Op::NoTrans { whole(m)? } else { whole(m)?.transposed() };
        self.multiply(m, whole(x)?, whole(c)?, op == Op::ConjTrans, To::Subtracted, Extent::default())
    }

    /// A copy of the diagonal of a square matrix, as a column.
    pub(crate) fn diagonal(&self, a: &Dense<S>) -> Result<Dense<S>> {
        let (n, from) = (a.size.1, whole(a)?);
        let out = self.room(n, 1)?;
        let window = Window { rs: from.window.rs + from.window.cs, ..from.window };
        self.copy(Part { window, cols: 1, ..from }, whole(&out)?, false)?;
        Ok(out)
    }

    /// A copy of the first `cols` columns.
    pub(crate) fn first_columns(&self, a: &Dense<S>, cols: usize) -> Result<Dense<S>> {
        let out = self.room(a.size.0, cols)?;
        self.copy(whole(a)?.columns(0, cols), whole(&out)?, false)?;
        Ok(out)
    }

    /// A copy of the rows from `first` on.
    pub(crate) fn rows_from(&self, a: &Dense<S>, first: usize) -> Result<Dense<S>> {
        let rows = a.size.0.saturating_sub(first);
        let out = self.room(rows, a.size.1)?;
        if rows > 0 {
            self.copy(whole(a)?.transposed().columns(first, rows).transposed(), whole(&out)?, false)?;
        }
        Ok(out)
    }
}
