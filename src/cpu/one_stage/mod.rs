//! The kernels of the one-stage reduction. Twins: `shaders/update_line.wgsl`, `multiply_line.wgsl` and `update_trailing.wgsl`.
//!
//! Each pass is split into tasks whose results do not depend on the split.

pub(crate) mod products;
mod update;

use std::ops::Range;

use faer::{
    Accum, MatMut, MatRef, Par,
    linalg::matmul::matmul,
    prelude::{Reborrow, ReborrowMut},
    traits::ComplexField,
};

use crate::{
    base::{
        error::{Result, SvdError},
        number::{Number, Re, RealElement, Scalar},
        parallel::{col_chunks, each, pieces_mut},
    },
    cpu::{
        kernels::CpuKernels,
        larfg::{ReflectorScalars, larfg},
        qr::strips::Ahead,
        simd::aligned::{Aligned, zeros},
        storage::{Dense, leading_dimension},
        vectors::compact_wy::{CompactWy, Room, tau_of},
    },
    tile::{
        kernels::OneStageKernels,
        one_stage::{Line, Trailing},
    },
};

/// Columns of a task of the trailing update, and of the application of kept reflectors.
const COLUMNS: usize = 64;

/// P and R of a panel, and what one kernel leaves for the next.
pub struct Panels<T: Scalar> {
    p: Panel<T>,
    r: Panel<T>,
    /// tau of the last reflector, and its products with the columns of its panel.
    tau: Re<T>,
    z: Vec<T>,
    width: usize,
    kept: Option<Kept<T>>,
}

/// The row reflectors of an m x n matrix: u_j from row j + 1 of column j on, and its tau in row j.
struct Kept<T> {
    n: usize,
    u: Aligned<T>,
}

/// P or R: columns of `ld` entries, one more than there are reflectors.
pub(crate) struct Panel<T> {
    entries: Aligned<T>,
    ld: usize,
}

impl<T: Scalar> Panel<T> {
    fn new(rows: usize, width: usize) -> Result<Self> {
        let too_large = || SvdError::invalid("matrix", "its size overflows the address space");
        let ld = leading_dimension::<T>(rows).ok_or_else(too_large)?;
        let len = width.checked_mul(2).and_then(|columns| ld.checked_mul(columns + 1)).ok_or_else(too_large)?;
        Ok(Panel { entries: zeros("panels", len)?, ld })
    }

    /// Column `c`.
    fn column(&self, c: usize) -> &[T] {
        &self.entries[c * self.ld..(c + 1) * self.ld]
    }

    fn column_mut(&mut self, c: usize) -> &mut [T] {
        &mut self.entries[c * self.ld..(c + 1) * self.ld]
    }

    /// The first `cols` columns of the rows from `first` to `end`.
    fn part(&self, rows: Range<usize>, cols: usize) -> MatRef<'_, T> {
        MatRef::from_column_major_slice_with_stride(&self.entries[..cols * self.ld], self.ld, cols, self.ld)
            .subrows(rows.start, rows.len())
    }
}

impl<T: Scalar> Panels<T> {
    /// Column `c` of P and R, for tests.
    #[doc(hidden)]
    pub fn columns(&self, c: usize) -> [&[T]; 2] {
        [self.p.column(c), self.r.column(c)]
    }
}

impl<S: Number> OneStageKernels for CpuKernels<S> {
    type Panels = Panels<S::Scalar>;

    fn panels(&self, a: &Dense<S>, width: usize, keep: bool) -> Result<Self::Panels> {
        let (m, n) = a.view(false).shape();
        let kept = if keep { Some(Kept { n, u: zeros("reflectors", n * n)? }) } else { None };
        let zero = S::Scalar::zero_impl();
        let (p, r) = (Panel::new(m, width)?, Panel::new(n, width)?);
        Ok(Panels { p, r, tau: Re::<S>::zero_impl(), z: vec![zero; 2 * width], width, kept })
    }

    fn update_line(&self, a: &mut Dense<S>, panels: &mut Self::Panels, line: &Line) -> Result<()> {
        panels.check(line)?;
        let Panels { p, r, tau, z, .. } = panels;
        let (left, other) = if line.transposed { (r, p) } else { (p, r) };
        let mut pivots = Vec::with_capacity(line.done);
        for c in 1..line.done {
            pivots.push(other.column(c - 1)[line.line]);
        }
        let column = a.view(line.transposed).col(line.line);
        let to = &mut left.column_mut(line.done)[line.first..line.rows];
        for (k, to) in to.iter_mut().enumerate() {
            *to = column[line.first + k].widen();
        }
        if line.done > 0 {
            update::update(left, line.first..line.rows, line.done, &z[..line.done - 1], &pivots, *tau);
        }
        self.did(line.update_flops(S::KIND))
    }

    fn multiply_line(&self, a: &mut Dense<S>, panels: &mut Self::Panels, line: &Line) -> Result<()> {
        panels.check(line)?;
        let &Line { transposed, line: at, first, rows, done, .. } = line;
        let Panels { p, r, tau: last_tau, z, kept, .. } = panels;
        let (left, other) = if transposed { (r, p) } else { (p, r) };
        let (before, v) = left.entries.split_at_mut(done * left.ld);
        let v = &mut v[first..rows];
        let Some((alpha, tail)) = v.split_first_mut() else {
            return Err(SvdError::invalid("line", format!("{line:?} is empty")));
        };
        let ReflectorScalars { beta, tau, scale } = pulp::Arch::new().dispatch(
            #[inline(always)]
            || larfg(*alpha, tail),
        );
        for x in tail {
            *x *= scale;
        }
        *alpha = S::Scalar::one_impl();
        let (mut view, ..) = a.parts(transposed);
        view[(first, at)] = S::narrow(beta);
        let before = MatRef::from_column_major_slice_with_stride(before, left.ld, done, left.ld).subrows(first, rows - first);
        let to = &mut other.column_mut(done)[line.trailing()];
        let trailing = view.rb().get(first..rows, line.trailing());
        products::products(trailing, before, v, to, &mut z[..done]);
        if let Some(Kept { n, u }) = kept
            && transposed
        {
            u[at * *n + at] = S::Scalar::from_real_impl(&tau);
            u[at * *n + first..(at + 1) * *n].copy_from_slice(v);
        }
        *last_tau = tau;
        self.did(line.multiply_flops(S::KIND))
    }

    fn update_trailing(&self, a: &mut Dense<S>, panels: &mut Self::Panels, trailing: &Trailing) -> Result<()> {
        let &Trailing { first, size: (m, n), inner } = trailing;
        if inner == 0 || inner > 2 * panels.width || first > m.min(n) || a.view(false).shape() != (m, n) {
            return Err(SvdError::invalid("trailing", format!("{trailing:?} does not fit panels of {}", panels.width)));
        }
        let zeros = vec![S::Scalar::zero_impl(); inner - 1];
        update::update(&mut panels.p, first..m, inner, &panels.z[..inner - 1], &zeros, panels.tau);

        let (view, ..) = a.parts(false);
        let (p, r) = (panels.p.part(first..m, inner), panels.r.part(first..n, inner));
        let block = view.get_mut(first.., first..);
        let (lines, left, right) = if block.row_stride() == 1 { (block, p, r) } else { (block.transpose_mut(), r, p) };
        each(col_chunks(lines, COLUMNS).enumerate(), |(k, mut chunk)| {
            let right = right.subrows(k * COLUMNS, chunk.ncols()).transpose();
            let minus = -S::Scalar::one_impl();
            match S::as_scalars(chunk.rb_mut()) {
                Some(chunk) => matmul(chunk, Accum::Add, left, right, minus, Par::Seq),
                None => {
                    let product = left * right;
                    for j in 0..chunk.ncols() {
                        for i in 0..chunk.nrows() {
                            chunk[(i, j)] = S::narrow(chunk[(i, j)].widen() - product[(i, j)]);
                        }
                    }
                }
            }
        });
        self.did(trailing.flops(S::KIND, n - first))
    }
}

impl<T: Scalar> Panels<T> {
    /// Checks that a line fits the panels.
    fn check(&self, line: &Line) -> Result<()> {
        let (rows, cols) = if line.transposed { (self.r.ld, self.p.ld) } else { (self.p.ld, self.r.ld) };
        let fits = line.done < 2 * self.width && line.first < line.rows && line.rows <= rows && line.cols <= cols;
        if fits && line.line < line.cols { Ok(()) } else { Err(SvdError::invalid("line", format!("{line:?} does not fit"))) }
    }

    /// C <- H C for the product H of the kept reflectors of `rows`: see
    /// [`apply_row_reflectors`](crate::tile::kernels::TileKernels::apply_row_reflectors).
    pub(crate) fn apply(&self, rows: Range<usize>, c: MatMut<'_, T>) -> Result<()> {
        let kept = self.kept.as_ref().filter(|kept| rows.end < kept.n.max(1) && rows.len() <= self.width && c.nrows() == kept.n);
        let wrong = || SvdError::invalid("reflectors", format!("those of rows {rows:?} were not kept, or C has another size"));
        let Kept { n, u } = kept.ok_or_else(wrong)?;
        let (first, width) = (rows.start, rows.len());
        let mut block = CompactWy::new(n - first - 1, width);
        block.set((n - first - 1, width), None, &mut Room::new(width, 0), |j, v| {
            let column = &u[(first + j) * n..(first + j + 1) * n];
            v[j..].iter_mut().zip(&column[first + j + 1..]).for_each(|(v, u)| *v = T::conj_impl(u));
            let tau = if column[first + j] == T::zero_impl() { 0.0 } else { tau_of(&v[j..]) };
            Re::<T>::from_double(tau)
        });
        let mut blocks: Vec<_> = col_chunks(c.subrows_mut(first + 1, n - first - 1), COLUMNS).collect();
        pieces_mut(&mut blocks, 1, 1, &|_, blocks| {
            let mut room = Room::new(width, COLUMNS);
            blocks.iter_mut().for_each(|x| block.apply(x.rb_mut(), false, Ahead::Strip, &mut room));
        });
        Ok(())
    }
}
