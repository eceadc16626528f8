//! The factors of a matrix that stays on the device.

use crate::{
    algo::{
        reflectors::{apply_factor, form_factor},
        triangular::{Operation, Variant},
    },
    base::{
        blas::{Diag, Op, Side, Uplo},
        error::Result,
        number::{Re, RealElement, Scalar},
    },
    cost::vectors::Extent,
    gpu::{
        device::parameters::{FROM, UPTO},
        kernels::{
            GpuKernels,
            left::{Part, Stack, whole},
            products::{To, table_of},
            triangular::on_device,
        },
        matrix::{DeviceMatrix, Window},
        storage::{Dense, Lines},
    },
};

/// A view of the first rows of a matrix that is in one buffer.
fn lines<S: Scalar>(a: &Dense<S>, rows: usize) -> Result<Lines<'_>> {
    let by_rows = a.strides.1 == 1;
    let (inner, outer) = if by_rows { (a.size.1, rows) } else { (rows, a.size.1) };
    Ok(Lines { entries: whole(a)?.buffer, by_rows, inner, outer, ld: a.ld() })
}

impl<S: Scalar> GpuKernels<S> {
    /// `scale` times the upper trapezoid of the first `rows` rows of `a`, with zeros below the diagonal.
    pub(crate) fn upper(&self, a: &Dense<S>, rows: usize, scale: Re<S>) -> Result<Dense<S>> {
        let lines = lines(a, rows)?;
        self.scaled(&lines, scale, if lines.by_rows { FROM } else { UPTO }, rows)
    }

    /// [s A; root I] for the matrix A of `from`.
    pub(crate) fn with_ridge(&self, from: &Lines<'_>, scale: Re<S>, root: Re<S>) -> Result<Dense<S>> {
        let (m, n) = from.size();
        let all = self.scaled(from, scale, 0, m.saturating_add(n))?;
        let entry = table_of(&self.stream, "the ridge", &[S::from_real_impl(&root)])?;
        let to = whole(&all)?;
        let Window { rs, cs, .. } = to.window;
        // The one entry, n times, to the diagonal of the last rows.
        let one = Part { buffer: &entry, window: Window { offset: 0, rs: 0, cs: 0 }, rows: n, cols: 1, stack: Stack::ONE };
        self.copy(one, Part { window: Window { offset: m * rs, rs: rs + cs, cs: 0 }, rows: n, cols: 1, ..to }, false)?;
        Ok(all)
    }

    /// 2^`exponent` times a matrix, though the type may not hold the power.
    pub(crate) fn times_power(&self, mut a: Dense<S>, mut exponent: i32) -> Result<Dense<S>> {
        let limit = Re::<S>::exponent_limit();
        while exponent != 0 {
            let step = exponent.clamp(-limit, limit);
            a = self.adopt(&lines(&a, a.size.0)?, Re::<S>::from_double(f64::from(step).exp2()))?;
            exponent -= step;
        }
        Ok(a)
    }

    /// The first `cols` columns of Q, for the m x n matrix `a` that has kept the reflectors of its triangular factor.
    pub(crate) fn columns_of_factor(&self, a: &Dense<S>, (m, n): (usize, usize), cols: usize) -> Result<Dense<S>> {
        let mut q = self.identity(a, m, 0..cols, false)?;
        form_factor(self, a, (m, n), &self.tuning, &mut q)?;
        Ok(q)
    }

    /// op(Q) C, or conj(op(Q)) C, for a new matrix C.
    pub(crate) fn applied_factor(
        &self,
        a: &Dense<S>,
        shape: (usize, usize),
        op: Op,
        mut c: Dense<S>,
        conjugated: bool,
    ) -> Result<Dense<S>> {
        let conjugate = |c: Dense<S>| if conjugated && S::IS_COMPLEX { self.conjugated(&c) } else { Ok(c) };
        c = conjugate(c)?;
        apply_factor(self, a, shape, &self.tuning, op, &mut c)?;
        conjugate(c)
    }

    /// diag(op(Q1), I) C, or with the conjugates of op(Q1), for a square Q1 with at most as many rows as C. A new matrix.
    pub(crate) fn turned_rows(&self, q1: &Dense<S>, op: Op, conjugated: bool, c: &Dense<S>) -> Result<Dense<S>> {
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
    pub(crate) fn with_rows(&self, c: &Dense<S>, rows: usize) -> Result<Dense<S>> {
        let out = self.room(rows, c.size.1)?; // a new buffer has zeros
        let rows = rows.min(c.size.0);
        self.copy(Part { rows, ..whole(c)? }, Part { rows, ..whole(&out)? }, false)?;
        Ok(out)
    }

    /// op(R)^-1 C in place of C, for R in the upper triangle of the first rows of `a`. C must not be empty.
    pub(crate) fn solve_upper(&self, a: &Dense<S>, op: Op, c: &Dense<S>) -> Result<()> {
        let variant = Variant { operation: Operation::Solve, side: Side::Left, uplo: Uplo::Upper, op, diag: Diag::NonUnit };
        let n = c.size.0;
        let (r, b) = (DeviceMatrix::view(&self.context, a, (n, n))?, DeviceMatrix::view(&self.context, c, c.size)?);
        on_device(&self.context, &self.stream, &self.tuning, &variant, S::one_impl(), &r, &b)
    }
}
