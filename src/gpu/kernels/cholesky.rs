//! What CholeskyQR2 and least squares compute on the device from a tall matrix (`plan/device/cholesky.rs`).
//!
//! ```text
//! squares       A^H A                   sum of (A_k^H A_k), A_k: `ROWS` rows of A. The device adds `PARTS` of these, the host the sums, in f64
//! gram          A^H A                   likewise, all on the device
//! tall_product  A^H C                   the same
//! cholesky      R^H R = G               by blocks of `BLOCK` rows: R_kk, R_kl = R_kk^-H G_kl, G_ll <- G_ll - R_kl^H R_kl for the columns l > k
//! distance      G - I                   its largest entry
//! solve_right   A <- A R^-1             by substitution
//! times_upper   A R
//! ```

use std::ops::Range;

use faer::Mat;
use num_complex::Complex;

use crate::{
    algo::triangular::{Operation, Variant},
    base::{
        blas::{Diag, Op, Side, Uplo},
        error::Result,
        number::Scalar,
    },
    cost::{
        cholesky::{BLOCK, PARTS, below_of, blocks, parts, right_of, squares, sums},
        vectors::Extent,
        work::Work,
    },
    gpu::{
        device::{
            buffers::{Buffer, storage},
            parameters,
            pipeline::CHOLESKY,
        },
        kernels::{
            GpuKernels,
            left::{Part, Stack, whole},
            products::{Products, Task, To, numbers_of},
            triangular::on_device,
        },
        limits::fitting_bytes,
        matrix::{DeviceMatrix, Window, finite_largest},
        storage::Dense,
    },
};

/// Room for the products of the parts of a tall matrix, and for their sums.
pub(crate) struct Room {
    parts: Buffer,
    sums: Buffer,
    ones: Buffer,
    /// Entries of a product.
    entries: usize,
}

impl GpuKernels {
    /// Room for products of so many `entries` of a matrix with m rows.
    pub(crate) fn room_for_parts(&self, m: usize, entries: usize) -> Result<Room> {
        let room = |count: usize| -> Result<Buffer> {
            let what = "products of columns";
            let bytes = fitting_bytes(&self.context, what, self.kind.bytes(), entries.checked_mul(count))?;
            storage(&self.context, what, bytes)
        };
        let count = parts(m).len();
        let ones = numbers_of(&self.stream, "ones", self.kind, &[Complex::ONE; PARTS])?;
        Ok(Room { parts: room(count)?, sums: room(count.div_ceil(PARTS))?, ones, entries })
    }

    /// The products of the parts, with these `tasks` for them.
    fn of_parts(&self, [m, x]: [&Buffer; 2], room: &Room, rows: usize, task: impl Fn(usize, Range<usize>) -> Task) -> Result<()> {
        let tasks = parts(rows).into_iter().enumerate().map(|(k, rows)| task(k * room.entries, rows)).collect();
        Products::new(self, self.kind, [m, x, &room.parts], &[tasks])?.run(&self.stream, 0)
    }

    /// Sums of `PARTS` matrices each of `count`: products of them with a row of ones.
    fn add(&self, [from, to]: [&Buffer; 2], room: &Room, count: usize) -> Result<usize> {
        let row = |offset| Window { offset, rs: room.entries, cs: 1 };
        let sums = sums(room.entries, count);
        let number = sums.len();
        let task = |(k, extent)| {
            let (x, c) = (row(k * PARTS * room.entries), row(k * room.entries));
            Task { extent, m: row(0), x, c, conjugated: false, to: To::Replaced }
        };
        let tasks = sums.into_iter().enumerate().map(task).collect();
        Products::new(self, self.kind, [&room.ones, from, to], &[tasks])?.run(&self.stream, 0)?;
        Ok(number)
    }

    /// The upper triangle of A^H A, for a matrix in one buffer; below are other numbers. The room is for n x n.next_multiple_of(4) entries.
    pub(crate) async fn squares<S: Scalar>(&self, a: &Dense, room: &Room) -> Result<Mat<S::Wide>> {
        let ((m, n), a) = (a.size, whole(a)?);
        let ld = n.next_multiple_of(4);
        self.of_parts([a.buffer, a.buffer], room, m, |offset, rows| {
            let x = Window { offset: a.window.offset + rows.start * a.window.rs, ..a.window };
            let [extent] = squares(n, [rows]);
            Task { extent, m: x.transposed(), x, c: Window { offset, rs: 1, cs: ld }, conjugated: true, to: To::Replaced }
        })?;
        let number = self.add([&room.parts, &room.sums], room, parts(m).len())?;
        let found: Vec<S> = self.stream.read_back(&room.sums, number * room.entries).await?;
        let mut all = Mat::<S::Wide>::zeros(n, n);
        for one in found.chunks_exact(room.entries.max(1)) {
            for (column, from) in
                all.col_iter_mut().zip(one.chunks_exact(ld)).enumerate().map(|(j, (to, from))| (to, &from[..=j]))
            {
                column.iter_mut().zip(from).for_each(|(sum, x)| *sum += x.to_wide());
            }
        }
        Ok(all)
    }

    /// A^H C for tall matrices A and C.
    pub(crate) fn tall_product(&self, a: &Dense, c: &Dense) -> Result<Dense> {
        self.product_of_parts(a, c, false)
    }

    /// A^H A for a tall matrix A, on and above the diagonal; below are other numbers.
    pub(crate) fn gram(&self, a: &Dense) -> Result<Dense> {
        self.product_of_parts(a, a, true)
    }

    /// A^H C, on and above the diagonal if that is asked for.
    fn product_of_parts(&self, a: &Dense, c: &Dense, upper_c: bool) -> Result<Dense> {
        let ((m, n), p) = (a.size, c.size.1);
        let out = self.room(n, p)?;
        let (a, c, to) = (whole(a)?, whole(c)?, whole(&out)?);
        if n == 0 || p == 0 {
            return Ok(out);
        }
        let room = self.room_for_parts(m, n * p)?;
        let whole = |offset| Window { offset, rs: p, cs: 1 };
        self.of_parts([a.buffer, c.buffer], &room, m, |offset, rows| {
            let [from, x] = [a.window, c.window].map(|of| Window { offset: of.offset + rows.start * of.rs, ..of });
            let extent = Extent { rows: n, cols: p, inner: rows.len(), upper_c, upper_x: false };
            Task { extent, m: from.transposed(), x, c: whole(offset), conjugated: true, to: To::Replaced }
        })?;
        let (mut count, mut buffers) = (parts(m).len(), [&room.parts, &room.sums]);
        while count > 1 {
            count = self.add(buffers, &room, count)?;
            buffers.reverse();
        }
        self.copy(Part { buffer: buffers[0], window: whole(0), rows: n, cols: p, stack: Stack::ONE }, to, false)?;
        Ok(out)
    }

    /// R, upper triangular, with R^H R = G, whose upper triangle is given and overwritten. Entries are not finite if G is not positive definite.
    pub(crate) fn cholesky(&self, g: &Dense) -> Result<Dense> {
        let (n, scalar) = (g.size.1, self.kind.scalar_bytes());
        let r = self.room(n, n)?; // a new buffer has zeros
        let inverse = storage(&self.context, "the inverse of a block", (BLOCK * BLOCK * scalar) as u64)?;
        let (of_g, of_r) = (whole(g)?, whole(&r)?);
        let pipeline = self.context.pipeline(self.kind, &CHOLESKY, &[("BLOCK", BLOCK as u32)], 0)?;
        let bindings = self.stream.bind(&pipeline, &[of_g.buffer, of_r.buffer, &inverse], &[])?;
        let at = |of: Part<'_>, i: usize, j: usize| Window { offset: of.window.at(i, j) as usize, ..of.window };
        // The products to the right of each block and below.
        let tasks = |of: fn(Range<usize>, usize) -> Extent, task: &dyn Fn(Range<usize>, Extent) -> Task| -> Vec<Vec<Task>> {
            blocks(n).into_iter().map(|rows| vec![task(rows.clone(), of(rows, n))]).collect()
        };
        let right = tasks(right_of, &|rows, extent| {
            let (x, c) = (at(of_g, rows.start, rows.end), at(of_r, rows.start, rows.end));
            Task { extent, m: Window { offset: 0, rs: BLOCK, cs: 1 }, x, c, conjugated: false, to: To::Replaced }
        });
        let below = tasks(below_of, &|rows, extent| {
            let (x, c) = (at(of_r, rows.start, rows.end), at(of_g, rows.end, rows.end));
            Task { extent, m: x.transposed(), x, c, conjugated: true, to: To::Subtracted }
        });
        let right = Products::new(self, self.kind, [&inverse, of_g.buffer, of_r.buffer], &right)?;
        let below = Products::new(self, self.kind, [of_r.buffer, of_r.buffer, of_g.buffer], &below)?;
        for (k, rows) in blocks(n).into_iter().enumerate() {
            let (g, r) = (at(of_g, rows.start, rows.start), at(of_r, rows.start, rows.start));
            let parameters = parameters::Cholesky {
                order: rows.len() as u32,
                g: g.offset as u32,
                g_rs: g.rs as u32,
                g_cs: g.cs as u32,
                r: r.offset as u32,
                r_rs: r.rs as u32,
                r_cs: r.cs as u32,
            };
            self.stream.dispatch(&pipeline, &bindings, parameters, [1, 1, 1], Work::cholesky(self.kind, rows.len()))?;
            if rows.end < n {
                right.run(&self.stream, k)?;
                below.run(&self.stream, k)?;
            }
        }
        Ok(r)
    }

    /// The largest real or imaginary part of G - I, of which the upper triangle of G is given; None if an entry is not finite.
    pub(crate) async fn distance(&self, g: &Dense) -> Result<Option<f64>> {
        let n = g.size.1;
        let (upper, identity) = (self.upper_square(g, n)?, self.identity(g, n, 0..n, false)?);
        self.subtract_product(&upper, &identity, Op::NoTrans, &identity)?;
        let upper = DeviceMatrix::view(&self.context, &upper, upper.size)?;
        let (found, reals) = upper.begin_largest(&self.stream)?;
        Ok(finite_largest(self.stream.read_back_reals(self.kind, &found, reals).await?))
    }

    /// X^H Y for tall matrices, column by column: sums of parts by the device, and of those in double precision.
    pub(super) async fn inner_products(&self, x: Part<'_>, y: Part<'_>) -> Result<Vec<Complex<f64>>> {
        let (rows, cols, tall) = (x.cols, y.cols, x.rows);
        let entries = rows * cols;
        if entries * tall == 0 {
            return Ok(vec![Complex::ZERO; entries]);
        }
        let room = self.room_for_parts(tall, entries)?;
        self.of_parts([x.buffer, y.buffer], &room, tall, |offset, part| {
            let [m, x] = [x.window, y.window].map(|of| Window { offset: of.offset + part.start * of.rs, ..of });
            let extent = Extent { rows, cols, inner: part.len(), ..Extent::default() };
            let c = Window { offset, rs: 1, cs: rows };
            Task { extent, m: m.transposed(), x, c, conjugated: true, to: To::Replaced }
        })?;
        let number = self.add([&room.parts, &room.sums], &room, parts(tall).len())?;
        let found = self.stream.read_back_numbers(self.kind, &room.sums, number * entries).await?;
        let mut sums = vec![Complex::ZERO; entries];
        for one in found.chunks_exact(entries) {
            sums.iter_mut().zip(one).for_each(|(sum, x)| *sum += x);
        }
        Ok(sums)
    }

    /// A R^-1 in place of A, for R in the upper triangle of the square matrix `r`. Neither may be empty.
    pub(crate) fn solve_right(&self, r: &Dense, a: &Dense) -> Result<()> {
        let (operation, op, diag) = (Operation::Solve, Op::NoTrans, Diag::NonUnit);
        let variant = Variant { operation, side: Side::Right, uplo: Uplo::Upper, op, diag };
        let (r, a) = (DeviceMatrix::view(&self.context, r, r.size)?, DeviceMatrix::view(&self.context, a, a.size)?);
        on_device(&self.context, &self.stream, &self.tuning, &variant, Complex::ONE, &r, &a)
    }

    /// A R, for an upper triangular matrix `r` with zeros below.
    pub(crate) fn times_upper(&self, a: &Dense, r: &Dense) -> Result<Dense> {
        let out = self.room(a.size.0, r.size.1)?;
        let extent = Extent { upper_x: true, ..Extent::default() };
        self.multiply(whole(a)?, whole(r)?, whole(&out)?, false, To::Replaced, extent)?;
        Ok(out)
    }

    /// M C, with the conjugates of M's entries if asked for.
    pub(crate) fn product(&self, m: &Dense, conjugated: bool, c: &Dense) -> Result<Dense> {
        let out = self.room(m.size.0, c.size.1)?;
        self.multiply(whole(m)?, whole(c)?, whole(&out)?, conjugated, To::Replaced, Extent::default())?;
        Ok(out)
    }

    /// C - M X in place of C, or with M^T or M^H.
    pub(crate) fn subtract_product(&self, c: &Dense, m: &Dense, op: Op, x: &Dense) -> Result<()> {
        let m = if op == Op::NoTrans { whole(m)? } else { whole(m)?.transposed() };
        self.multiply(m, whole(x)?, whole(c)?, op == Op::ConjTrans, To::Subtracted, Extent::default())
    }

    /// M2 M1 x for the unit column x of so many steps of the power method for M2 M1, with M1, M2 = M, M^H or the other way round if `adjoint_first`; M is square.
    pub(crate) fn power(&self, m: &Dense, adjoint_first: bool, steps: usize) -> Result<Dense> {
        let n = m.size.1;
        let (x, y) = (self.noise(n)?, self.room(n, 1)?);
        let (m, of_x, of_y) = (whole(m)?, whole(&x)?, whole(&y)?);
        let product = |adjoint: bool, from: Part<'_>, to: Part<'_>| {
            let extent = Extent { rows: n, cols: 1, inner: n, ..Extent::default() };
            let window = if adjoint { m.window.transposed() } else { m.window };
            let task = Task { extent, m: window, x: from.window, c: to.window, conjugated: adjoint, to: To::Replaced };
            Products::new(self, self.kind, [m.buffer, from.buffer, to.buffer], &[vec![task]])
        };
        let (first, second) = (product(adjoint_first, of_x, of_y)?, product(!adjoint_first, of_y, of_x)?);
        for step in 0..=steps {
            first.run(&self.stream, 0)?;
            second.run(&self.stream, 0)?;
            if step < steps {
                self.to_unit_length(of_x, false)?;
            }
        }
        Ok(x)
    }

    /// A copy of the diagonal of a square matrix, as a column.
    pub(crate) fn diagonal(&self, a: &Dense) -> Result<Dense> {
        let (n, from) = (a.size.1, whole(a)?);
        let out = self.room(n, 1)?;
        let window = Window { rs: from.window.rs + from.window.cs, ..from.window };
        self.copy(Part { window, cols: 1, ..from }, whole(&out)?, false)?;
        Ok(out)
    }

    /// A copy of the first `cols` columns.
    pub(crate) fn first_columns(&self, a: &Dense, cols: usize) -> Result<Dense> {
        let out = self.room(a.size.0, cols)?;
        self.copy(whole(a)?.columns(0, cols), whole(&out)?, false)?;
        Ok(out)
    }

    /// A copy of the rows from `first` on.
    pub(crate) fn rows_from(&self, a: &Dense, first: usize) -> Result<Dense> {
        let rows = a.size.0.saturating_sub(first);
        let out = self.room(rows, a.size.1)?;
        if rows > 0 {
            self.copy(whole(a)?.transposed().columns(first, rows).transposed(), whole(&out)?, false)?;
        }
        Ok(out)
    }
}
