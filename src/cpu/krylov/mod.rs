//! The bases of a Krylov space in the host's memory, and products by an operator (`algo/krylov`).

mod dense;

use std::{future::ready, ops::Range};

use faer::{Accum, Conj, Mat, MatMut, MatRef, Par, linalg::matmul::matmul_with_conj};

pub(crate) use dense::Dense;

use crate::{
    algo::krylov::{Asked, Basis, Blocks, Later, Small},
    base::{
        error::{Result, SvdError, room_for},
        number::{Number, Re, RealElement, Scalar},
        operator::LinearOperator,
        parallel::{each, map, pieces_mut, row_chunks},
        watch::Watch,
    },
};

/// The decomposition of a small matrix, with at least so many triples.
pub(crate) type SmallSvd<W> = fn(Mat<W>, usize) -> Result<Small<W>>;

/// Rows of a basis that one task multiplies. Products of columns are added over these in double precision, in the same order for any number of
/// threads.
const ROWS: usize = 512;
/// Such products that are made side by side.
const PARTS: usize = 32;

/// Entries of a task that touches each once.
const ENTRIES: usize = 1 << 16;

/// The bases of an operator, or of its adjoint, with at least as many rows as columns.
pub(crate) struct HostBlocks<'a, T: Scalar> {
    operator: &'a dyn LinearOperator<T>,
    adjoint: bool,
    shape: (usize, usize),
    /// Column after column.
    u: Vec<T>,
    v: Vec<T>,
    /// A power of two by which products are multiplied; None before the first one has shown how large they are.
    scale: Option<Re<T>>,
    small: SmallSvd<T::Wide>,
    /// Whether the call is cancelled.
    watch: Watch,
}

/// Binary exponents that numbers may have, so that their squares stay in the range of f32.
const EXPONENTS: std::ops::RangeInclusive<i32> = -30..=30;

/// The power of two by which numbers as large as this are multiplied, so that their squares stay in the range of the type: 1 for most, and no further from
/// it than need be, because vectors are multiplied by it.
pub(crate) fn scale_for_squares<R: RealElement>(largest: R) -> R {
    if largest.to_double() == 0.0 {
        return R::from_double(1.0);
    }
    let (exponent, limit) = (largest.to_double().log2().floor() as i32, R::exponent_limit());
    let by = exponent.clamp(*EXPONENTS.start(), *EXPONENTS.end()) - exponent;
    R::from_double(2f64.powi(by.clamp(-limit, limit)))
}

impl<'a, T: Scalar> HostBlocks<'a, T> {
    /// Room for the bases of an operator with this shape, neither side of which is zero.
    pub fn new(
        operator: &'a dyn LinearOperator<T>,
        shape: (usize, usize),
        asked: &Asked,
        scale: Option<Re<T>>,
        small: SmallSvd<T::Wide>,
        watch: Watch,
    ) -> Result<Self> {
        let adjoint = shape.0 < shape.1;
        let (m, n) = if adjoint { (shape.1, shape.0) } else { shape };
        let [of_u, of_v] = asked.columns();
        room_for::<T>("bases of leading vectors", m, of_u.saturating_add(of_v), 1)?;
        let zeros = |len| vec![T::zero_impl(); len];
        Ok(HostBlocks { operator, adjoint, shape: (m, n), u: zeros(m * of_u), v: zeros(n * of_v), scale, small, watch })
    }

    /// The scale that the values of the bases have.
    pub fn scale(&self) -> f64 {
        self.scale.map_or(1.0, |scale| scale.to_double())
    }

    /// The first columns of the two bases as the left and the right vectors of the operator.
    pub fn vectors(self, count: usize) -> [Mat<T>; 2] {
        let of = |basis: Vec<T>, rows: usize| MatRef::from_column_major_slice(&basis[..rows * count], rows, count).to_owned();
        let [u, v] = [of(self.u, self.shape.0), of(self.v, self.shape.1)];
        if self.adjoint { [v, u] } else { [u, v] }
    }

    /// Puts triples of the operator into the first columns.
    pub fn set_vectors(&mut self, left: MatRef<'_, T>, right: MatRef<'_, T>) {
        let (u, v) = if self.adjoint { (right, left) } else { (left, right) };
        for (basis, vectors) in [(&mut self.u, u), (&mut self.v, v)] {
            let (rows, cols) = vectors.shape();
            MatMut::from_column_major_slice_mut(&mut basis[..rows * cols], rows, cols).copy_from(vectors);
        }
    }

    fn rows(&self, of: Basis) -> usize {
        match of {
            Basis::U => self.shape.0,
            Basis::V => self.shape.1,
        }
    }

    fn basis(&mut self, of: Basis) -> MatMut<'_, T> {
        let rows = self.rows(of);
        let all = match of {
            Basis::U => &mut self.u,
            Basis::V => &mut self.v,
        };
        let cols = all.len() / rows;
        MatMut::from_column_major_slice_mut(all, rows, cols)
    }

    fn columns(&self, of: Basis, cols: Range<usize>) -> MatRef<'_, T> {
        let rows = self.rows(of);
        let all = match of {
            Basis::U => &self.u,
            Basis::V => &self.v,
        };
        MatRef::from_column_major_slice(&all[rows * cols.start..rows * cols.end], rows, cols.len())
    }

    fn products(&self, of: Basis, cols: Range<usize>) -> Mat<T::Wide> {
        let (x, y) = (self.columns(of, 0..cols.end), self.columns(of, cols));
        let rows = x.nrows();
        let part = |k: usize| {
            let (first, count) = (k * ROWS, ROWS.min(rows - k * ROWS));
            let mut c = Mat::<T>::zeros(x.ncols(), y.ncols());
            let (x, y) = (x.subrows(first, count).transpose(), y.subrows(first, count));
            matmul_with_conj(c.as_mut(), Accum::Replace, x, Conj::Yes, y, Conj::No, T::one_impl(), Par::Seq);
            c
        };
        let mut sums = Mat::<T::Wide>::zeros(x.ncols(), y.ncols());
        // Some parts at a time, so that they take little memory.
        let parts = rows.div_ceil(ROWS);
        for first in (0..parts).step_by(PARTS) {
            for c in map(PARTS.min(parts - first), |k| part(first + k)) {
                for (sums, c) in sums.as_mut().col_iter_mut().zip(c.col_iter()) {
                    sums.iter_mut().zip(c.iter()).for_each(|(sum, c)| *sum += c.to_wide());
                }
            }
        }
        sums
    }
}

impl<W: Scalar<Wide = W> + Number<Real = f64>, T: Scalar<Wide = W>> HostBlocks<'_, T> {
    /// The product with columns `from` times `scale`, and the largest magnitude of its entries, or the error that names one that is not finite.
    fn product(&mut self, to: Basis, at: usize, from: Range<usize>, scale: Re<T>) -> Result<Result<Re<T>>> {
        self.watch.check()?;
        let ((m, n), columns) = (self.shape, from.len());
        let (x, x_rows, y, y_rows) = match to {
            Basis::U => (&mut self.v, n, &mut self.u, m),
            Basis::V => (&mut self.u, m, &mut self.v, n),
        };
        let x = &mut x[x_rows * from.start..x_rows * from.end];
        let y = &mut y[y_rows * at..y_rows * (at + columns)];
        let one = Re::<T>::from_double(1.0);
        if scale != one {
            multiply(x, scale);
        }
        pieces_mut(y, 1, ENTRIES, &|_, y| y.fill(T::zero_impl()));
        let (call, ended) = match (to == Basis::V) != self.adjoint {
            false => ("apply", self.operator.apply(columns, x, y)),
            true => ("apply_adjoint", self.operator.apply_adjoint(columns, x, y)),
        };
        ended.map_err(|error| SvdError::Operator { call, reason: error.to_string() })?;
        if scale != one {
            multiply(x, Re::<T>::from_double(scale.to_double().recip()));
        }
        Ok(T::largest(y).ok_or_else(|| {
            let at = y.iter().position(|x| x.magnitude().is_none()).unwrap_or(0);
            let reason = format!("entry ({}, {}) of the product is {}", at % y_rows, at / y_rows, y[at]);
            SvdError::Operator { call, reason }
        }))
    }

    /// The first product of all, which shows how large the entries are. Where they are near either end of the type's range, it is made again with smaller or
    /// larger columns.
    fn first_product(&mut self, to: Basis, at: usize, from: Range<usize>) -> Result<()> {
        let of = |by: f64| Re::<T>::from_double(by);
        let far = 2f64.powi(*EXPONENTS.end() + Re::<T>::exponent_limit() / 2);
        let (mut by, mut largest) = (1.0, self.product(to, at, from.clone(), of(1.0))?);
        let again = match &largest {
            Err(_) => Some(far.recip()),
            Ok(largest) => (largest.to_double() < far.recip()).then_some(far),
        };
        if let Some(other) = again {
            (by, largest) = (other, self.product(to, at, from.clone(), of(other))?.or(largest));
        }
        let largest = largest?.to_double();
        let scale = if largest == 0.0 { 1.0 } else { by * scale_for_squares(of(largest)).to_double() };
        if scale != by {
            self.product(to, at, from, of(scale))??;
        }
        self.scale = Some(of(scale));
        Ok(())
    }
}

/// Multiplies each entry.
fn multiply<T: Scalar>(x: &mut [T], by: Re<T>) {
    pieces_mut(x, 1, ENTRIES, &|_, x| x.iter_mut().for_each(|x| *x = x.times(by)));
}

impl<W: Scalar<Wide = W> + Number<Real = f64>, T: Scalar<Wide = W>> Blocks<W> for HostBlocks<'_, T> {
    fn shape(&self) -> (usize, usize) {
        self.shape
    }

    fn epsilon(&self) -> f64 {
        <Re<T> as num_traits::Float>::epsilon().to_double()
    }

    fn multiply(&mut self, to: Basis, at: usize, from: Range<usize>) -> Result<()> {
        let Some(scale) = self.scale else { return self.first_product(to, at, from) };
        self.product(to, at, from, scale)?.map(|_| ())
    }

    fn inner(&mut self, of: Basis, cols: Range<usize>) -> Later<'_, Mat<W>> {
        Box::pin(ready(Ok(self.products(of, cols))))
    }

    fn combine(&mut self, of: Basis, c: MatRef<'_, W>, at: usize) -> Result<()> {
        let (inner, cols) = c.shape();
        let c = Mat::from_fn(inner, cols, |i, j| T::from_wide(c[(i, j)]));
        let basis = self.basis(of).subcols_mut(0, inner.max(at + cols));
        each(row_chunks(basis, ROWS), |mut rows| {
            let mut out = Mat::<T>::zeros(rows.nrows(), cols);
            let x = rows.as_ref().subcols(0, inner);
            matmul_with_conj(out.as_mut(), Accum::Replace, x, Conj::No, c.as_ref(), Conj::No, T::one_impl(), Par::Seq);
            rows.as_mut().subcols_mut(at, cols).copy_from(out);
        });
        Ok(())
    }

    fn shift(&mut self, of: Basis, from: Range<usize>, to: usize) -> Result<()> {
        let rows = self.rows(of);
        let basis = match of {
            Basis::U => &mut self.u,
            Basis::V => &mut self.v,
        };
        basis.copy_within(rows * from.start..rows * from.end, rows * to);
        Ok(())
    }

    fn fill(&mut self, of: Basis, cols: Range<usize>, entry: &(dyn Fn(usize, usize) -> f64 + Sync)) -> Result<()> {
        let cols = self.basis(of).subcols_mut(cols.start, cols.len());
        each(row_chunks(cols, ROWS).enumerate(), |(k, mut rows)| {
            for (j, column) in rows.as_mut().col_iter_mut().enumerate() {
                column.iter_mut().enumerate().for_each(|(i, x)| *x = T::from_complex(entry(k * ROWS + i, j).into()));
            }
        });
        Ok(())
    }

    fn small_svd(&self, a: Mat<W>, keep: usize) -> Later<'_, Small<W>> {
        Box::pin(ready((self.small)(a, keep)))
    }
}
