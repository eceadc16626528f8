//! Stage 0: the search for the largest entry and for entries that are not finite, and the power of two that scales the matrix.

use faer::MatRef;
use num_traits::Float;

use crate::{
    base::element_kind::ElementKind,
    base::{
        error::{Result, SvdError},
        number::{Number, Re, RealElement},
        parallel::try_map,
        view::by_lines,
    },
};

/// Entries copied at a time from lines that are not contiguous.
const PIECE: usize = 64;

/// Up to `SERIAL` entries, one thread searches in about the time that waking another takes. Larger matrices get tasks of about `TASK`
/// entries.
const SERIAL: usize = 1 << 16;
const TASK: usize = 1 << 14;

/// Stage 0: the power of two that brings the largest entry of a matrix, to be stored as `kind`, into [1/2, 1), or the first entry that is not finite.
pub(crate) fn power_of_two_scale<T: Number>(kind: ElementKind, a: MatRef<'_, T>) -> Result<Re<T>> {
    let lines = by_lines(a);
    let lines_at_once = TASK / lines.nrows().max(1) + 1;
    let zero = Re::<T>::from_double(0.0);
    let largest = if lines.nrows().saturating_mul(lines.ncols()) <= SERIAL {
        largest(lines)
    } else {
        let some = |(): &mut (), k: usize| {
            let start = k * lines_at_once;
            largest(lines.subcols(start, lines_at_once.min(lines.ncols() - start))).ok_or(())
        };
        let all = try_map(lines.ncols().div_ceil(lines_at_once), || (), some);
        all.ok().map(|all| all.into_iter().fold(zero, Float::max))
    };
    match largest {
        Some(largest) => Ok(Re::<T>::from_double(scale_of_kind(kind, largest.to_double(), a.nrows(), a.ncols()))),
        None => Err(first_non_finite(a)),
    }
}

/// The largest magnitude of the entries, or None where one is not finite.
pub(crate) fn largest<T: Number>(a: MatRef<'_, T>) -> Option<Re<T>> {
    let lines = by_lines(a);
    let zero = Re::<T>::from_double(0.0);
    let most = |largest, line: &[T]| T::largest(line).map(|x| Float::max(x, largest));
    if lines.row_stride() == 1 && lines.col_stride() == lines.nrows() as isize {
        // SAFETY: each line is contiguous (row stride 1), and the next line follows without a gap (column stride = nrows), so the view is
        // one slice of nrows * ncols entries.
        let all = unsafe { std::slice::from_raw_parts(lines.as_ptr(), lines.nrows() * lines.ncols()) };
        return most(zero, all);
    }
    let mut piece = [T::zeroed(); PIECE];
    (0..lines.ncols()).map(|j| lines.col(j)).try_fold(zero, |largest, line| match line.try_as_col_major() {
        Some(line) => most(largest, line.as_slice()),
        None => (0..line.nrows()).step_by(PIECE).try_fold(largest, |largest, start| {
            let piece = &mut piece[..PIECE.min(line.nrows() - start)];
            piece.iter_mut().enumerate().for_each(|(k, x)| *x = line[start + k]);
            most(largest, piece)
        }),
    })
}

/// Whether every entry that is not zero has at least this magnitude.
#[cfg(feature = "gpu")]
pub(crate) fn none_below<T: Number>(a: MatRef<'_, T>, least: f64) -> bool {
    let lines = by_lines(a);
    let at_once = TASK / lines.nrows().max(1) + 1;
    let is_below = |x: &T| x.magnitude().is_some_and(|x| x.to_double() > 0.0 && x.to_double() < least);
    let some = |(): &mut (), k: usize| match lines.subcols(k * at_once, at_once.min(lines.ncols() - k * at_once)) {
        some if some.col_iter().any(|line| line.iter().any(is_below)) => Err(()),
        _ => Ok(()),
    };
    try_map(lines.ncols().div_ceil(at_once), || (), some).is_ok()
}

/// A placeholder error for an unknown entry that is not finite; [`first_non_finite`] finds its indices.
pub(crate) fn not_finite() -> SvdError {
    SvdError::NonFinite { row: 0, col: 0, value: String::new() }
}

/// The error for the first entry of `a`, in row-major order, that is not finite.
pub(crate) fn first_non_finite<T: Number>(a: MatRef<'_, T>) -> SvdError {
    let (m, n) = a.shape();
    let rows_at_once = TASK / n.max(1) + 1;
    let in_row = |i: usize| (0..n).find(|&j| a[(i, j)].magnitude().is_none()).map(|j| (i, j));
    let in_rows = |(): &mut (), k: usize| {
        let first = k * rows_at_once;
        (first..m.min(first + rows_at_once)).find_map(in_row).map_or(Ok(()), Err)
    };
    let (row, col) = try_map(m.div_ceil(rows_at_once), || (), in_rows).err().unwrap_or_default();
    SvdError::NonFinite { row, col, value: a[(row, col)].to_string() }
}

/// [`scale_of_kind`] of a type.
pub(crate) fn scale_for<S: Number>(largest: Re<S>, m: usize, n: usize) -> Re<S> {
    Re::<S>::from_double(scale_of_kind(S::KIND, largest.to_double(), m, n))
}

/// 2^k that brings `largest` into [1/2, 1); 1 if `largest` is zero. The target is lower if the norm of an m x n matrix of such entries
/// could exceed the storage type's range. The result is clamped so that it and its reciprocal are normal numbers of the arithmetic.
pub(crate) fn scale_of_kind(kind: ElementKind, largest: f64, m: usize, n: usize) -> f64 {
    if largest == 0.0 {
        return 1.0;
    }
    let (mantissa, exponent, _) = Float::integer_decode(largest);
    let e = i32::from(exponent) + 64 - mantissa.leading_zeros() as i32;
    // ||A|| <= sqrt(m n) max |a_ij|, with a factor of 2 for complex entries and rounding.
    let growth = (m as f64 * n as f64).max(1.0).log2() / 2.0;
    let target = (kind.max_exponent() - 1 - growth.ceil() as i32).min(0);
    let limit = if kind.is_double() { f64::exponent_limit() } else { f32::exponent_limit() };
    2f64.powi((target - e).clamp(-limit, limit))
}
