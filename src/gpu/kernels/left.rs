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

use std::ops::Range;

use wgpu::{Buffer, BufferUsages};

use crate::{
    algo::{
        reflectors::{apply_factor, keep_factor},
        to_band::triangular_factor,
        vectors::large_values,
    },
    base::{
        blas::Op,
        error::{Result, SvdError},
        number::{Number, Re},
    },
    cost::{
        vectors::{Extent, UNIT_COLUMNS},
        work::{Kernel, Work},
    },
    gpu::{
        device::{
            parameters,
            pipeline::{COPY_WINDOW, GRAM_FACTOR, IDENTITY_COLUMNS, Shader, UNIT_COLUMNS as UNIT},
            stream::buffer,
        },
        kernels::{
            GpuKernels,
            products::{Products, Task, To},
        },
        limits::fitting_bytes,
        matrix::Window,
        storage::{Dense, Ready},
    },
};

/// A window of a matrix in one buffer.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    pub buffer: &'a Buffer,
    pub window: Window,
    pub rows: usize,
    pub cols: usize,
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
}

/// A matrix that is in one buffer.
pub(super) fn whole<S: Number>(a: &Dense<S>) -> Result<Part<'_>> {
    let [buffer] = &a.a[..] else {
        return Err(SvdError::invalid("matrix", format!("{} x {} entries are in several buffers", a.size.0, a.size.1)));
    };
    let window = Window { offset: a.first, rs: a.strides.0, cs: a.strides.1 };
    Ok(Part { buffer, window, rows: a.size.0, cols: a.size.1 })
}

impl<S: Number> GpuKernels<S> {
    /// Room for a matrix by rows, in one buffer.
    pub(crate) fn room(&self, rows: usize, cols: usize) -> Result<Dense<S>> {
        self.room_of_stack(1, rows, cols)
    }

    /// Room for several matrices by rows, at least one, in one buffer.
    pub(crate) fn room_of_stack(&self, matrices: usize, rows: usize, cols: usize) -> Result<Dense<S>> {
        let len = rows.checked_mul(cols.next_multiple_of(4)).and_then(|len| len.checked_mul(matrices));
        fitting_bytes::<S>(&self.context, "vectors", len)?;
        Dense::stacked(&self.context, matrices, (rows, cols), true, self.shape, self.tuning.leaf)
    }

    /// U (m x k) of `a` (m x n) for its k leading `values` and right vectors `v` (n x k), both on the device. `a` is scaled.
    pub(crate) fn left_vectors(&self, a: &Dense<S>, values: &[Re<S>], v: &Dense<S>) -> Result<Dense<S>> {
        let (m, k) = (a.size.0, v.size.1);
        let w = self.room(m, k)?;
        self.multiply(whole(a)?, whole(v)?, whole(&w)?, false, To::Replaced, Extent::default())?;
        let large = large_values::<S>(values, k);
        let u = self.orthonormal(w, large)?;
        if large < k {
            self.complete(whole(&u)?, large)?;
        }
        Ok(u)
    }

    /// Makes the first `cols` columns of `w`, which are nearly orthogonal, orthonormal, each corrected by those before it. The others are copied.
    pub(crate) fn orthonormal(&self, w: Dense<S>, cols: usize) -> Result<Dense<S>> {
        if cols == 0 {
            return Ok(w);
        }
        let (m, k) = w.size;
        let out = self.room(m, k)?;
        let (w, to) = (whole(&w)?, whole(&out)?);
        let ld = cols.next_multiple_of(4);
        let square = || {
            let what = "products of vectors";
            let bytes = fitting_bytes::<S::Scalar>(&self.context, what, ld.checked_mul(cols))?;
            buffer(&self.context, what, bytes, BufferUsages::STORAGE)
        };
        let (g, f) = (square()?, square()?);
        let [gram, factor] = [&g, &f].map(|buffer| {
            let window = Window { offset: 0, rs: 1, cs: ld };
            Part { buffer, window, rows: cols, cols }
        });
        let large = w.columns(0, cols);
        self.multiply(large.transposed(), large, gram, true, To::Replaced, Extent { upper_c: true, ..Extent::default() })?;
        let kernel = self.bound(&GRAM_FACTOR, &[&g, &f])?;
        let parameters = parameters::GramFactor { k: cols as u32, ld: ld as u32 };
        self.linear(&kernel, parameters, ld * cols, Work::linear(Kernel::GramFactor, ld * cols, 2, size_of::<S::Scalar>()))?;
        let upper = Extent { upper_x: true, ..Extent::default() };
        self.multiply(large, factor, to.columns(0, cols), false, To::Replaced, upper)?;
        if cols < k {
            self.copy(w.columns(cols, k - cols), to.columns(cols, k - cols), false)?;
        }
        self.to_unit_length(to.columns(0, cols), false)?;
        Ok(out)
    }

    /// Replaces the columns from `first` on by orthonormal ones that are orthogonal to those before, which are orthonormal. Each is near the
    /// direction that its column has, where it has one.
    fn complete(&self, u: Part<'_>, first: usize) -> Result<()> {
        let (before, tiny) = (u.columns(0, first), u.columns(first, u.cols - first));
        let mut y = self.room(u.rows, tiny.cols)?;
        self.copy(tiny, whole(&y)?, false)?;
        self.project(before, whole(&y)?)?;
        self.to_unit_length(whole(&y)?, true)?;
        for _ in 0..2 {
            self.project(before, whole(&y)?)?;
            y = self.columns_of_q(y, 0, tiny.cols)?;
        }
        self.copy(whole(&y)?, tiny, false)
    }

    /// The m x m unitary matrix with the m x k orthonormal `u` as its first columns.
    pub(crate) fn completed(&self, u: &Dense<S>) -> Result<Dense<S>> {
        let (m, k) = u.size;
        let (all, copy) = (self.room(m, m)?, self.room(m, k)?);
        self.copy(whole(u)?, whole(&all)?.columns(0, k), false)?;
        if k < m {
            self.copy(whole(u)?, whole(&copy)?, false)?;
            let others = self.columns_of_q(copy, k, m - k)?;
            self.copy(whole(&others)?, whole(&all)?.columns(k, m - k), false)?;
        }
        Ok(all)
    }

    /// A copy of the conjugates.
    pub(crate) fn conjugated(&self, a: &Dense<S>) -> Result<Dense<S>> {
        let out = self.room(a.size.0, a.size.1)?;
        self.copy(whole(a)?, whole(&out)?, true)?;
        Ok(out)
    }

    /// A copy of a matrix, or of several, by rows or by columns as they are; None if it is in several buffers.
    pub(super) fn copy_of(&self, a: &Dense<S>) -> Result<Option<Dense<S>>> {
        let [buffer] = &a.a[..] else { return Ok(None) };
        let by_rows = a.strides.1 == 1;
        let out = Dense::stacked(&self.context, a.matrices, a.size, by_rows, self.shape, self.tuning.leaf)?;
        let (rows, cols) = if by_rows { (a.size.1, a.size.0) } else { a.size };
        // Line by line, of all matrices.
        let lines = |buffer, offset| {
            let window = Window { offset, rs: 1, cs: a.ld() };
            Part { buffer, window, rows, cols: cols * a.matrices }
        };
        self.copy(lines(buffer, a.first), lines(whole(&out)?.buffer, 0), false)?;
        Ok(Some(out))
    }

    /// A copy of the first `rows` rows of a matrix that is in one buffer.
    pub(super) fn first_rows(&self, a: &Dense<S>, rows: usize) -> Result<Dense<S>> {
        let out = self.room(rows, a.size.1)?;
        self.copy(Part { rows, ..whole(a)? }, whole(&out)?, false)?;
        Ok(out)
    }

    /// Columns `first..first + cols` of the m x m matrix Q of a QR factorisation of `a` (m x n, m >= n). Columns before n have the signs that give
    /// R a positive diagonal.
    fn columns_of_q(&self, mut a: Dense<S>, first: usize, cols: usize) -> Result<Dense<S>> {
        let (m, n) = a.size;
        keep_factor(self, &mut a, (m, n), &self.tuning)?;
        triangular_factor(self, &mut a, m, n, &self.tuning)?;
        let mut q = self.identity(&a, m, first..first + cols, first + cols <= n)?;
        apply_factor(self, &a, (m, n), &self.tuning, Op::NoTrans, &mut q)?;
        Ok(q)
    }

    /// Some columns of the identity with m rows; with `phases` the entries are the phases of a's diagonal.
    pub(crate) fn identity(&self, a: &Dense<S>, m: usize, columns: Range<usize>, phases: bool) -> Result<Dense<S>> {
        let (first, cols) = (columns.start, columns.len());
        let q = self.room(m, cols)?;
        let kernel = self.bound(&IDENTITY_COLUMNS, &[whole(a)?.buffer, whole(&q)?.buffer])?;
        let parameters = parameters::IdentityColumns {
            first: first as u32,
            rows: m as u32,
            cols: cols as u32,
            ld: q.ld() as u32,
            stride: (a.strides.0 + a.strides.1) as u32,
            flags: if phases { parameters::ON } else { 0 },
        };
        let places = m * q.ld();
        let work = Work::linear(Kernel::IdentityColumns, places, 1, size_of::<S::Scalar>());
        self.linear(&kernel, parameters, places, work)?;
        Ok(q)
    }

    /// Y <- Y - U (U^H Y)
    fn project(&self, u: Part<'_>, y: Part<'_>) -> Result<()> {
        if u.cols == 0 {
            return Ok(());
        }
        let inside = self.room(u.cols, y.cols)?;
        let inside = whole(&inside)?;
        self.multiply(u.transposed(), y, inside, true, To::Replaced, Extent::default())?;
        self.multiply(u, inside, y, false, To::Subtracted, Extent::default())
    }

    /// The product C <- M X or C <- C - M X, with conjugates of M's entries if asked for. `triangles` says which matrices are upper
    /// triangular.
    pub(super) fn multiply(
        &self,
        m: Part<'_>,
        x: Part<'_>,
        c: Part<'_>,
        conjugated: bool,
        to: To,
        triangles: Extent,
    ) -> Result<()> {
        let extent = Extent { rows: c.rows, cols: c.cols, inner: m.cols, ..triangles };
        let task = Task { extent, m: m.window, x: x.window, c: c.window, conjugated, to };
        Products::new::<S, S>(self, [m.buffer, x.buffer, c.buffer], &[vec![task]])?.run(&self.stream, 0)
    }

    /// Copies a matrix of the same size, or its conjugates.
    pub(super) fn copy(&self, from: Part<'_>, to: Part<'_>, conjugated: bool) -> Result<()> {
        let kernel = self.bound(&COPY_WINDOW, &[from.buffer, to.buffer])?;
        let (f, t) = (from.window, to.window);
        let parameters = parameters::CopyWindow {
            rows: to.rows as u32,
            cols: to.cols as u32,
            f: f.at(0, 0),
            f_rs: f.rs as u32,
            f_cs: f.cs as u32,
            t: t.at(0, 0),
            t_rs: t.rs as u32,
            t_cs: t.cs as u32,
            flags: if conjugated { parameters::ON } else { 0 },
        };
        let places = to.rows * to.cols;
        self.linear(&kernel, parameters, places, Work::linear(Kernel::CopyWindow, places, 2, size_of::<S::Scalar>()))
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
            flags: if noise { parameters::ON } else { 0 },
        };
        let [groups, more] = self.stream.fold(x.cols.div_ceil(UNIT_COLUMNS))?;
        self.stream.dispatch(&kernel.0, &kernel.1, parameters, [groups, more, 1], Work::unit_columns::<S>(x.rows, x.cols))
    }

    /// A kernel without constants, with its buffers.
    fn bound(&self, shader: &Shader, buffers: &[&Buffer]) -> Result<Ready> {
        let pipeline = self.context.pipeline::<S>(shader, &[], 0)?;
        let bindings = self.stream.bind(&pipeline, buffers, &[])?;
        Ok((pipeline, bindings))
    }
}
