//! Stage 0: the matrix set upright, the search for entries that are not finite, and the power of two that its entries are scaled by.

use faer::MatRef;
use num_traits::Float;
use rayon::prelude::*;

use crate::{
    error::{Result, SvdError},
    scalar::{Element, Re, RealElement},
};

/// A matrix with no entries as 0 x 0, so that nobody goes through its rows or columns.
pub(crate) fn trimmed<T>(a: MatRef<'_, T>) -> MatRef<'_, T> {
    if a.nrows() == 0 || a.ncols() == 0 { a.get(..0, ..0) } else { a }
}

/// The matrix or its transpose, whichever has m >= n, with reversed axes set right: none of it changes singular values.
pub(crate) fn upright<T>(a: MatRef<'_, T>) -> MatRef<'_, T> {
    let a = if a.nrows() < a.ncols() { a.transpose() } else { a };
    let a = if a.row_stride() < 0 { a.reverse_rows() } else { a };
    if a.col_stride() < 0 { a.reverse_cols() } else { a }
}

/// Entries gathered at a time from lines that are not contiguous.
const PIECE: usize = 64;

/// Stage 0: the power of two that brings the largest entry into [1/2, 1), or the first entry that is not finite.
pub(crate) fn power_of_two_scale<T, S>(a: MatRef<'_, T>) -> Result<Re<T>>
where
    T: Element,
    S: Element<Real = T::Real, Scalar = T::Scalar>,
{
    let by_rows = a.col_stride().unsigned_abs() < a.row_stride().unsigned_abs();
    let lines = if by_rows { a.transpose() } else { a };
    let zero = || Re::<T>::from_double(0.0);
    let largest_of = |j: usize| {
        let line = lines.col(j);
        match line.try_as_col_major() {
            Some(line) => T::largest(line.as_slice()),
            None => {
                let mut piece = [T::zeroed(); PIECE];
                (0..line.nrows()).step_by(PIECE).try_fold(zero(), |largest, start| {
                    let piece = &mut piece[..PIECE.min(line.nrows() - start)];
                    piece.iter_mut().enumerate().for_each(|(k, x)| *x = line[start + k]);
                    T::largest(piece).map(|x| Float::max(x, largest))
                })
            }
        }
    };
    let lines_at_once = (1 << 14) / lines.nrows().max(1) + 1;
    let largest = (0..lines.ncols())
        .into_par_iter()
        .with_min_len(lines_at_once)
        .try_fold(zero, |largest, j| largest_of(j).map(|x| Float::max(x, largest)))
        .try_reduce(zero, |x, y| Some(Float::max(x, y)));
    match largest {
        Some(largest) => Ok(scale_for::<S>(largest, a.nrows(), a.ncols())),
        None => Err(first_non_finite(a)),
    }
}

/// The entry of `a` that is not finite, in the first row that has one the first.
fn first_non_finite<T: Element>(a: MatRef<'_, T>) -> SvdError {
    let in_row = |i: usize| (0..a.ncols()).find(|&j| a[(i, j)].magnitude().is_none()).map(|j| (i, j));
    let (row, col) = (0..a.nrows()).into_par_iter().find_map_first(in_row).unwrap_or_default();
    SvdError::NonFinite { row, col, value: a[(row, col)].to_string() }
}

/// 2^k that brings `largest` into [1/2, 1), or where an m x n matrix of such entries could have a norm beyond `S`'s range, as much lower
/// as it takes; 1 for zero. Clamped so that it and its reciprocal are normal numbers.
pub(crate) fn scale_for<S: Element>(largest: Re<S>, m: usize, n: usize) -> Re<S> {
    if largest == Re::<S>::from_double(0.0) {
        return Re::<S>::from_double(1.0);
    }
    let (mantissa, exponent, _) = Float::integer_decode(largest);
    let e = i32::from(exponent) + 64 - mantissa.leading_zeros() as i32;
    // ||A|| <= sqrt(m n) max |a_ij|, and twice that for complex entries and rounding.
    let growth = (m as f64 * n as f64).max(1.0).log2() / 2.0;
    let target = (S::MAX_EXPONENT - 1 - growth.ceil() as i32).min(0);
    let limit = Re::<S>::exponent_limit();
    Re::<S>::from_double(2f64.powi((target - e).clamp(-limit, limit)))
}
