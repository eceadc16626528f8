//! The left vectors on the device. The method: `cpu/vectors/left.rs`. Nothing is read back.
//!
//! ```text
//! W = A V;   columns of large values    W F, F from W^H W (gram_factor);  divided by their lengths
//!            columns of tiny values     projected against those, with noise of about 2^8 eps (2^18 in f64), so that none is zero;
//!                                       then twice: projected, and replaced by the Q of their QR factorisation
//! full U:                               the other columns of the Q of U's QR factorisation
//! ```
//!
//! The noise gives every column a direction of its own outside the span of the others, where QR would choose one that may be inside. It adds less than
//! eps / 2 of the largest value to A - U S V^H, because only columns of tiny values get it.
//!
//! Several matrices of one shape share each dispatch; those of tiny values, each with the matrices that have as many of them.

use std::{collections::BTreeMap, ops::Range};

use faer::Mat;
use num_complex::Complex;

use crate::{
    algo::{
        reflectors::{apply_factor, keep_factor},
        to_band::triangular_factor,
        vectors::large_values,
    },
    base::{
        blas::Op,
        element_kind::ElementKind,
        error::{Result, SvdError},
    },
    cost::{
        vectors::{Extent, UNIT_COLUMNS},
        work::{Kernel, Work},
    },
    gpu::{
        device::{
            buffers::{Buffer, storage},
            parameters,
            pipeline::{COPY_WINDOW, GRAM_FACTOR, IDENTITY_COLUMNS, Shader, UNIT_COLUMNS as UNIT},
        },
        kernels::{
            GpuKernels,
            products::{Products, Stored, Task, To},
        },
        limits::fitting_bytes,
        matrix::Window,
        storage::{Dense, Ready},
    },
    tile::kernels::Transfers,
};

/// A window of a matrix in one buffer, or of each of several matrices.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    pub buffer: &'a Buffer,
    pub window: Window,
    pub rows: usize,
    pub cols: usize,
    pub stack: Stack,
}

/// The number of matrices, and the entries from one to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stack {
    pub matrices: usize,
    pub distance: usize,
}

impl Stack {
    pub const ONE: Stack = Stack { matrices: 1, distance: 0 };
}

impl<'a> Part<'a> {
    /// Columns `first..first + cols`.
    pub fn columns(self, first: usize, cols: usize) -> Part<'a> {
        let window = Window { offset: self.window.offset + first * self.window.cs, ..self.window };
        Part { window, cols, ..self }
    }

    pub fn transposed(self) -> Part<'a> {
        Part { window: self.window.transposed(), rows: self.cols, cols: self.rows, ..self }
    }

    /// That of matrix `k` alone.
    fn of(self, k: usize) -> Part<'a> {
        let window = Window { offset: self.window.offset + k * self.stack.distance, ..self.window };
        Part { window, stack: Stack::ONE, ..self }
    }
}

/// A matrix that is in one buffer, or several.
pub(super) fn whole(a: &Dense) -> Result<Part<'_>> {
    let [buffer] = &a.a[..] else {
        return Err(SvdError::invalid("matrix", format!("{} x {} entries are in several buffers", a.size.0, a.size.1)));
    };
    let window = Window { offset: a.first, rs: a.strides.0, cs: a.strides.1 };
    let stack = Stack { matrices: a.matrices, distance: a.distance() as usize };
    Ok(Part { buffer, window, rows: a.size.0, cols: a.size.1, stack })
}

impl GpuKernels {
    /// Room for a matrix by rows, in one buffer.
    pub(crate) fn room(&self, rows: usize, cols: usize) -> Result<Dense> {
        self.room_of_stack(1, rows, cols)
    }

    /// Bytes of the entries of several matrices by rows, if one buffer can hold them.
    pub(super) fn bytes_of_room(&self, matrices: usize, rows: usize, cols: usize) -> Result<u64> {
        let len = rows.checked_mul(cols.next_multiple_of(4)).and_then(|len| len.checked_mul(matrices));
        fitting_bytes(&self.context, "vectors", self.kind.bytes(), len)
    }

    /// Room for several matrices by rows, at least one, in one buffer.
    pub(crate) fn room_of_stack(&self, matrices: usize, rows: usize, cols: usize) -> Result<Dense> {
        self.bytes_of_room(matrices, rows, cols)?;
        Dense::stacked(self.kind, &self.context, matrices, (rows, cols), true, self.shape, self.tuning.leaf)
    }

    /// U (m x k) of each `a` (m x n) for its k leading `values` and right vectors `v` (n x k), both on the device. `a` is scaled.
    pub(crate) fn left_vectors(&self, a: &Dense, values: &[&[f64]], v: &Dense) -> Result<Dense> {
        let (m, k) = (a.size.0, v.size.1);
        let w = self.room_of_stack(a.matrices, m, k)?;
        self.multiply(whole(a)?, whole(v)?, whole(&w)?, false, To::Replaced, Extent::default())?;
        let large: Vec<usize> = values.iter().map(|values| large_values(self.kind, values, k)).collect();
        let mut alike: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (matrix, &large) in large.iter().enumerate().filter(|&(_, &large)| large < k) {
            alike.entry(large).or_default().push(matrix);
        }
        let tiny = alike.into_iter().map(|(large, matrices)| {
            let y = self.room_of_stack(matrices.len(), m, k - large)?;
            for (place, &matrix) in matrices.iter().enumerate() {
                self.copy(whole(&w)?.of(matrix).columns(large, k - large), whole(&y)?.of(place), false)?;
            }
            Ok((large, matrices, y))
        });
        let tiny = tiny.collect::<Result<Vec<_>>>()?;
        let u = self.orthonormal(&w, large.iter().copied().max().unwrap_or(0))?;
        drop(w);
        for (large, matrices, y) in tiny {
            self.complete(y, &u, large, &matrices)?;
        }
        Ok(u)
    }

    /// The first `cols` columns of `w`, which are nearly orthogonal, each corrected by those before it and divided by its length. The others are zero.
    pub(crate) fn orthonormal(&self, w: &Dense, cols: usize) -> Result<Dense> {
        let (matrices, (m, k)) = (w.matrices, w.size);
        let out = self.room_of_stack(matrices, m, k)?;
        if cols == 0 {
            return Ok(out);
        }
        let (w, to) = (whole(w)?.columns(0, cols), whole(&out)?.columns(0, cols));
        let ld = cols.next_multiple_of(4);
        let square = || {
            let what = "products of vectors";
            let bytes = fitting_bytes(
                &self.context,
                what,
                self.kind.scalar_bytes(),
                ld.checked_mul(cols).and_then(|of| of.checked_mul(matrices)),
            )?;
            storage(&self.context, what, bytes)
        };
        let (g, f) = (square()?, square()?);
        let [gram, factor] = [&g, &f].map(|buffer| {
            let window = Window { offset: 0, rs: 1, cs: ld };
            Part { buffer, window, rows: cols, cols, stack: Stack { matrices, distance: ld * cols } }
        });
        self.multiply(w.transposed(), w, gram, true, To::Replaced, Extent { upper_c: true, ..Extent::default() })?;
        let kernel = self.bound(&GRAM_FACTOR, &[&g, &f])?;
        let parameters = parameters::GramFactor { k: cols as u32, ld: ld as u32 };
        let work = Work::linear(Kernel::GramFactor, ld * cols, 2, self.kind.scalar_bytes());
        self.linear_of_stack(&kernel, parameters, (ld * cols, matrices), work)?;
        self.multiply(w, factor, to, false, To::Replaced, Extent { upper_x: true, ..Extent::default() })?;
        self.to_unit_length(to, false)?;
        Ok(out)
    }

    /// Writes the columns of `u` from `first` on, of some of its `matrices`: orthonormal ones that are orthogonal to those before, which are orthonormal.
    /// Each is near the direction that its column of `y` has, where it has one.
    fn complete(&self, mut y: Dense, u: &Dense, first: usize, matrices: &[usize]) -> Result<()> {
        let (u, k) = (whole(u)?, u.size.1);
        let (before, tiny) = (u.columns(0, first), u.columns(first, k - first));
        let before: Vec<Part<'_>> = matrices.iter().map(|&matrix| before.of(matrix)).collect();
        self.project(&before, &y)?;
        self.to_unit_length(whole(&y)?, true)?;
        for _ in 0..2 {
            self.project(&before, &y)?;
            y = self.columns_of_q(y, 0, k - first)?;
        }
        for (place, &matrix) in matrices.iter().enumerate() {
            self.copy(whole(&y)?.of(place), tiny.of(matrix), false)?;
        }
        Ok(())
    }

    /// The m x m unitary matrix with the m x k orthonormal `u` as its first columns.
    pub(crate) fn completed(&self, u: &Dense) -> Result<Dense> {
        let (matrices, (m, k)) = (u.matrices, u.size);
        let (all, copy) = (self.room_of_stack(matrices, m, m)?, self.room_of_stack(matrices, m, k)?);
        self.copy(whole(u)?, whole(&all)?.columns(0, k), false)?;
        if k < m {
            self.copy(whole(u)?, whole(&copy)?, false)?;
            let others = self.columns_of_q(copy, k, m - k)?;
            self.copy(whole(&others)?, whole(&all)?.columns(k, m - k), false)?;
        }
        Ok(all)
    }

    /// A copy of the conjugates.
    pub(crate) fn conjugated(&self, a: &Dense) -> Result<Dense> {
        let out = self.room(a.size.0, a.size.1)?;
        self.copy(whole(a)?, whole(&out)?, true)?;
        Ok(out)
    }

    /// A copy of a matrix, or of several, by rows or by columns as they are; None if it is in several buffers.
    pub(super) fn copy_of(&self, a: &Dense) -> Result<Option<Dense>> {
        let [buffer] = &a.a[..] else { return Ok(None) };
        let by_rows = a.strides.1 == 1;
        let out = Dense::stacked(self.kind, &self.context, a.matrices, a.size, by_rows, self.shape, self.tuning.leaf)?;
        let (rows, cols) = if by_rows { (a.size.1, a.size.0) } else { a.size };
        // Line by line.
        let lines = |buffer, of: &Dense| {
            let window = Window { offset: of.first, rs: 1, cs: of.ld() };
            let stack = Stack { matrices: of.matrices, distance: of.distance() as usize };
            Part { buffer, window, rows, cols, stack }
        };
        self.copy(lines(buffer, a), lines(whole(&out)?.buffer, &out), false)?;
        Ok(Some(out))
    }

    /// A copy of the first `rows` rows of a matrix that is in one buffer.
    pub(super) fn first_rows(&self, a: &Dense, rows: usize) -> Result<Dense> {
        let out = self.room(rows, a.size.1)?;
        self.copy(Part { rows, ..whole(a)? }, whole(&out)?, false)?;
        Ok(out)
    }

    /// Columns `first..first + cols` of the m x m matrix Q of a QR factorisation of `a` (m x n, m >= n). Columns before n have the signs that give
    /// R a positive diagonal.
    fn columns_of_q(&self, mut a: Dense, first: usize, cols: usize) -> Result<Dense> {
        let (m, n) = a.size;
        keep_factor(self, &mut a, (m, n), &self.tuning)?;
        triangular_factor(self, &mut a, m, n, &self.tuning)?;
        let mut q = self.identity(&a, m, first..first + cols, first + cols <= n)?;
        apply_factor(self, &a, (m, n), &self.tuning, Op::NoTrans, &mut q)?;
        Ok(q)
    }

    /// The identity matrix of this order, from the host.
    pub(crate) fn identity_of(&self, order: usize) -> Result<Dense> {
        match self.kind.scalar() {
            ElementKind::F16 | ElementKind::F32 => self.upload(Mat::<f32>::identity(order, order).as_ref(), 1.0),
            ElementKind::F64 => self.upload(Mat::<f64>::identity(order, order).as_ref(), 1.0),
            ElementKind::C32 => self.upload(Mat::<Complex<f32>>::identity(order, order).as_ref(), 1.0),
            ElementKind::C64 => self.upload(Mat::<Complex<f64>>::identity(order, order).as_ref(), 1.0),
        }
    }

    /// Some columns of the identity with m rows; with `phases` the entries are the phases of a's diagonal.
    pub(crate) fn identity(&self, a: &Dense, m: usize, columns: Range<usize>, phases: bool) -> Result<Dense> {
        let (first, cols) = (columns.start, columns.len());
        let q = self.room_of_stack(a.matrices, m, cols)?;
        let kernel = self.bound(&IDENTITY_COLUMNS, &[whole(a)?.buffer, whole(&q)?.buffer])?;
        let parameters = parameters::IdentityColumns {
            first: first as u32,
            rows: m as u32,
            cols: cols as u32,
            ld: q.ld() as u32,
            stride: (a.strides.0 + a.strides.1) as u32,
            matrix: a.distance(),
            flags: if phases { parameters::ON } else { 0 },
        };
        let places = m * q.ld();
        let work = Work::linear(Kernel::IdentityColumns, places, 1, self.kind.scalar_bytes());
        self.linear_of_stack(&kernel, parameters, (places, a.matrices), work)?;
        Ok(q)
    }

    /// Y <- Y - U (U^H Y) for each of several matrices Y and its U.
    fn project(&self, u: &[Part<'_>], y: &Dense) -> Result<()> {
        let cols = u.first().map_or(0, |u| u.cols);
        if cols == 0 {
            return Ok(());
        }
        let inside = self.room_of_stack(y.matrices, cols, y.size.1)?;
        let (inside, y) = (whole(&inside)?, whole(y)?);
        let first: Vec<_> = u.iter().enumerate().map(|(k, u)| [u.transposed(), y.of(k), inside.of(k)]).collect();
        self.multiply_each(&first, true, To::Replaced, Extent::default())?;
        let second: Vec<_> = u.iter().enumerate().map(|(k, u)| [*u, inside.of(k), y.of(k)]).collect();
        self.multiply_each(&second, false, To::Subtracted, Extent::default())
    }

    /// The product C <- M X or C <- C - M X, with conjugates of M's entries if asked for, of each of as many matrices. `triangles` says which matrices
    /// are upper triangular.
    pub(super) fn multiply(
        &self,
        m: Part<'_>,
        x: Part<'_>,
        c: Part<'_>,
        conjugated: bool,
        to: To,
        triangles: Extent,
    ) -> Result<()> {
        if [m, x].iter().any(|of| of.stack.matrices != c.stack.matrices) {
            let counts = [m, x, c].map(|of| of.stack.matrices);
            return Err(SvdError::invalid("matrix", format!("products of {counts:?} matrices")));
        }
        let each: Vec<_> = (0..c.stack.matrices).map(|k| [m.of(k), x.of(k), c.of(k)]).collect();
        self.multiply_each(&each, conjugated, to, triangles)
    }

    /// [`multiply`](Self::multiply) of single matrices, of which M is stored as `of_m`.
    pub(super) fn multiply_mixed(&self, of_m: Stored, m: Part<'_>, x: Part<'_>, c: Part<'_>, conjugated: bool) -> Result<()> {
        let extent = Extent { rows: c.rows, cols: c.cols, inner: m.cols, ..Extent::default() };
        let task = Task { extent, m: m.window, x: x.window, c: c.window, conjugated, to: To::Replaced };
        Products::mixed(self, of_m, self.kind, [m.buffer, x.buffer, c.buffer], &[vec![task]])?.run(&self.stream, 0)
    }

    /// [`multiply`](Self::multiply) for parts [M, X, C] of three buffers.
    fn multiply_each(&self, each: &[[Part<'_>; 3]], conjugated: bool, to: To, triangles: Extent) -> Result<()> {
        let Some(buffers) = each.first().map(|of| of.map(|part| part.buffer)) else { return Ok(()) };
        let task = |&[m, x, c]: &[Part<'_>; 3]| {
            let extent = Extent { rows: c.rows, cols: c.cols, inner: m.cols, ..triangles };
            Task { extent, m: m.window, x: x.window, c: c.window, conjugated, to }
        };
        Products::new(self, self.kind, buffers, &[each.iter().map(task).collect()])?.run(&self.stream, 0)
    }

    /// Copies matrices of the same size, or their conjugates.
    pub(super) fn copy(&self, from: Part<'_>, to: Part<'_>, conjugated: bool) -> Result<()> {
        let kernel = self.bound(&COPY_WINDOW, &[from.buffer, to.buffer])?;
        let (f, t) = (from.window, to.window);
        let parameters = parameters::CopyWindow {
            rows: to.rows as u32,
            cols: to.cols as u32,
            f: f.at(0, 0),
            f_rs: f.rs as u32,
            f_cs: f.cs as u32,
            f_matrix: from.stack.distance as u32,
            t: t.at(0, 0),
            t_rs: t.rs as u32,
            t_cs: t.cs as u32,
            t_matrix: to.stack.distance as u32,
            flags: if conjugated { parameters::ON } else { 0 },
        };
        let places = to.rows * to.cols;
        let work = Work::linear(Kernel::CopyWindow, places, 2, self.kind.scalar_bytes());
        self.linear_of_stack(&kernel, parameters, (places, to.stack.matrices), work)
    }

    /// Divides each column by its length, and adds noise if asked for.
    pub(super) fn to_unit_length(&self, x: Part<'_>, noise: bool) -> Result<()> {
        let kernel = self.bound(&UNIT, &[x.buffer])?;
        let parameters = parameters::UnitColumns {
            x: x.window.at(0, 0),
            rows: x.rows as u32,
            cols: x.cols as u32,
            rs: x.window.rs as u32,
            cs: x.window.cs as u32,
            matrix: x.stack.distance as u32,
            flags: if noise { parameters::ON } else { 0 },
        };
        let [groups, more] = self.stream.fold(x.cols.div_ceil(UNIT_COLUMNS))?;
        let work = Work::unit_columns(self.kind, x.rows, x.cols).times(x.stack.matrices);
        self.stream.dispatch(&kernel.0, &kernel.1, parameters, [groups, more, x.stack.matrices as u32], work)
    }

    /// A kernel without constants, with its buffers.
    fn bound(&self, shader: &Shader, buffers: &[&Buffer]) -> Result<Ready> {
        let pipeline = self.context.pipeline(self.kind, shader, &[], 0)?;
        let bindings = self.stream.bind(&pipeline, buffers, &[])?;
        Ok((pipeline, bindings))
    }
}
