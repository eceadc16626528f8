//! A block of rows: its squares, its mean, and its rows in double precision.

use faer::{Mat, MatRef, traits::ComplexField};

use crate::{
    base::{
        element_kind::ElementKind,
        error::{Result, SvdError},
        number::{Number, RealElement, Scalar},
        parallel::{map, try_map},
        scale::power_of_two_scale,
        view::map_into,
        watch::Watch,
    },
    cpu::tall::{
        gram::{NARROW, upper_gram},
        leaves::Wide,
    },
    plan::row_blocks::{Mean, Part},
};

/// Entries of a piece of a block, at least: one task. The pieces depend on the shape alone, and so does their sum.
const PIECE: usize = 1 << 16;
/// Rows of a piece are a multiple of this: whole leaves of A^H A.
const LEAF: usize = 512;

/// Rows of A, and of B beside them.
pub(super) struct Block<'a, T: Scalar> {
    pub a: MatRef<'a, T>,
    pub b: MatRef<'a, T>,
}

impl<T: Scalar> Block<'_, T> {
    /// Rows of a piece.
    fn piece(&self) -> usize {
        let columns = self.a.ncols() + self.b.ncols();
        (PIECE / columns).max(16 * columns).next_multiple_of(LEAF)
    }

    fn pieces(&self) -> usize {
        self.a.nrows().div_ceil(self.piece())
    }

    /// Piece `k`.
    fn some(&self, k: usize) -> Block<'_, T> {
        let start = k * self.piece();
        let rows = self.piece().min(self.a.nrows() - start);
        Block { a: self.a.subrows(start, rows), b: self.b.subrows(start, rows) }
    }

    /// The rows times 2^`exponent`, less the mean, in double precision.
    pub(super) fn wide(&self, exponent: i32, mean: Option<&Mean<Wide<T>>>) -> Mat<Wide<T>> {
        let (n, scale) = (self.a.ncols(), 2f64.powi(exponent));
        let mut rows = Mat::zeros(self.a.nrows(), n + self.b.ncols());
        let (left, right) = rows.as_mut().split_at_col_mut(n);
        map_into(self.a, left, |x| x.to_wide().times(scale));
        map_into(self.b, right, |x| x.to_wide().times(scale));
        if let Some(mean) = mean {
            for (j, column) in rows.as_mut().col_iter_mut().enumerate() {
                let (shift, rest) = (mean.shift[j].times(scale), mean.rest[j].times(scale));
                column.iter_mut().for_each(|x| *x = *x - shift - rest);
            }
        }
        rows
    }

    /// Whether the rows of A are contiguous.
    fn is_by_rows(&self) -> bool {
        self.a.col_stride() == 1 && self.a.ncols() > 1
    }

    /// [`wide`](Self::wide) row after row, in one pass.
    fn wide_by_rows(&self, mean: Option<&Mean<Wide<T>>>) -> Vec<Wide<T>> {
        let (m, n) = self.a.shape();
        let columns = n + self.b.ncols();
        let zeros = Mean::zero(columns);
        let Mean { shift, rest } = mean.unwrap_or(&zeros);
        let less_mean = |x: T, j: usize| x.widen().to_wide() - shift[j] - rest[j];
        let mut rows = Vec::with_capacity(m * columns);
        pulp::Arch::new().dispatch(
            #[inline(always)]
            || {
                for i in 0..m {
                    match self.a.row(i).try_as_row_major() {
                        Some(row) => rows.extend(row.as_slice().iter().enumerate().map(|(j, &x)| less_mean(x, j))),
                        None => rows.extend((0..n).map(|j| less_mean(self.a[(i, j)], j))),
                    }
                    rows.extend((n..columns).map(|j| less_mean(self.b[(i, j - n)], j)));
                }
            },
        );
        rows
    }

    /// [`wide`](Self::wide) with the largest entry of A or B near 1; an error for an entry that is not finite.
    pub fn scaled(&self, mean: Option<&Mean<Wide<T>>>) -> Result<Part<Wide<T>>> {
        let of = |a: MatRef<'_, T>| power_of_two_scale(T::KIND, a).map(|scale| scale.to_double());
        // The scale of zeros says nothing.
        let a = of(self.a)?;
        let b = of(self.b).map_err(|error| match error {
            SvdError::NonFinite { row, col, value } => SvdError::NonFinite { row, col: self.a.ncols() + col, value },
            error => error,
        })?;
        let exponent = a.min(b).log2() as i32;
        Ok(Part { rows: self.wide(exponent, mean), exponent })
    }

    /// The upper triangle of the squares of [A B], less the mean.
    pub fn squares(&self, mean: Option<&Mean<Wide<T>>>) -> Result<Mat<Wide<T>>> {
        let watch = Watch::default();
        let as_it_is = mean.is_none() && self.b.ncols() == 0;
        let one = |some: Block<'_, T>| match as_it_is {
            true => upper_gram(some.a, &watch),
            false if some.is_by_rows() => {
                let (rows, columns) = (some.a.nrows(), some.a.ncols() + some.b.ncols());
                upper_gram(MatRef::from_row_major_slice(&some.wide_by_rows(mean), rows, columns), &watch)
            }
            false => upper_gram(some.wide(0, mean).as_ref(), &watch),
        };
        let columns = self.a.ncols() + self.b.ncols();
        if self.a.nrows() <= self.piece() || columns > NARROW && as_it_is {
            return one(Block { a: self.a, b: self.b });
        }
        let pieces: Vec<_> = match columns > NARROW {
            // Each is computed by all threads.
            true => (0..self.pieces()).map(|k| one(self.some(k))).collect::<Result<_>>()?,
            false => try_map(self.pieces(), || (), |(), k| one(self.some(k)))?,
        };
        Ok(sum_of(pieces, |sum, piece| *sum += piece).unwrap_or_else(|| Mat::zeros(columns, columns)))
    }

    /// The first row.
    pub fn first(&self) -> Vec<Wide<T>> {
        self.a.row(0).iter().chain(self.b.row(0).iter()).map(|x| x.widen().to_wide()).collect()
    }

    /// The mean of each column of [A B], by the differences to `shift`; an error for an entry that is not finite.
    pub fn mean(&self, shift: Vec<Wide<T>>) -> Result<Mean<Wide<T>>> {
        let count = self.a.nrows() as f64;
        let by_columns = |a: MatRef<'_, T>| a.row_stride().unsigned_abs() <= a.col_stride().unsigned_abs();
        let add = |a: MatRef<'_, T>, shift: &[Wide<T>], sums: &mut [Wide<T>]| match by_columns(a) {
            true => {
                for (j, sum) in sums.iter_mut().enumerate() {
                    *sum = a.col(j).iter().fold(*sum, |sum, x| sum + (x.widen().to_wide() - shift[j]));
                }
            }
            false => pulp::Arch::new().dispatch(
                #[inline(always)]
                || {
                    for i in 0..a.nrows() {
                        let add = |(sum, (x, shift)): (&mut Wide<T>, (T, &Wide<T>))| *sum += x.widen().to_wide() - *shift;
                        match a.row(i).try_as_row_major() {
                            Some(row) => sums.iter_mut().zip(row.as_slice().iter().copied().zip(shift)).for_each(add),
                            None => sums.iter_mut().zip(a.row(i).iter().copied().zip(shift)).for_each(add),
                        }
                    }
                },
            ),
        };
        let n = self.a.ncols();
        let piece = |k: usize| {
            let some = self.some(k);
            let mut sums = vec![Wide::<T>::zero_impl(); shift.len()];
            let (of_a, of_b) = sums.split_at_mut(n);
            add(some.a, &shift[..n], of_a);
            add(some.b, &shift[n..], of_b);
            sums
        };
        let pieces = map(self.pieces(), piece);
        let add = |sums: &mut Vec<Wide<T>>, more: Vec<Wide<T>>| sums.iter_mut().zip(more).for_each(|(sum, x)| *sum += x);
        let mut rest = sum_of(pieces, add).unwrap_or_default();
        rest.iter_mut().for_each(|sum| *sum = sum.times(1.0 / count));
        if rest.iter().chain(&shift).any(|mean| mean.magnitude().is_none()) {
            self.scaled(None)?;
            return Err(SvdError::overflow(ElementKind::F64, "sums of columns"));
        }
        Ok(Mean { shift, rest })
    }
}

/// The sum of the pieces, in their order.
fn sum_of<M>(pieces: Vec<M>, add: impl Fn(&mut M, M)) -> Option<M> {
    pieces.into_iter().reduce(|mut sum, piece| {
        add(&mut sum, piece);
        sum
    })
}
