//! What a call passes on its way in and out: the checks of its options, matrices of f16 and bf16 as those of f32, and what its report says of the
//! options.

use std::{any::Any, borrow::Cow};

use faer::{Mat, MatMut, MatRef, prelude::ReborrowMut};

#[cfg(feature = "gpu")]
use crate::gpu::{device::stream::Stream, matrix::DeviceMatrix};
use crate::{
    algo::triangular::Call,
    base::{
        error::{Result, SvdError, room_for},
        number::Number,
        view::copy_entries,
    },
    plan::{
        batch::{BatchReport, Each},
        drivers::OfBatch,
        options::{Named, RunOptions, SvdOptions, Takes},
        report::SvdReport,
        triangular,
    },
    tile::band::Band,
};

/// A matrix in the type of its arithmetic: the caller's, or a copy of one of f16 or bf16.
pub(crate) enum Wide<'a, T: Number> {
    Here(MatRef<'a, T::Scalar>),
    Copy {
        lines: Mat<T::Scalar>,
        /// How the view of the matrix comes from its lines, so that it has the memory order of the caller's: a route may depend on that.
        rows_reversed: bool,
        cols_reversed: bool,
        transposed: bool,
    },
}

impl<'a, T: Number> Wide<'a, T> {
    pub fn of(a: MatRef<'a, T>) -> Result<Self> {
        if let Some(here) = T::as_scalars_ref(a) {
            return Ok(Wide::Here(here));
        }
        let (m, n) = a.shape();
        if m == 0 || n == 0 {
            // No loop runs over the other side, however long it is.
            return Ok(Wide::Here(MatRef::from_column_major_slice(&[], m, n)));
        }
        room_for::<T::Scalar>("a copy of the matrix", a.nrows(), a.ncols(), 1)?;
        let transposed = a.col_stride().unsigned_abs() < a.row_stride().unsigned_abs();
        let from = if transposed { a.transpose() } else { a };
        let (rows_reversed, cols_reversed) = (from.row_stride() < 0, from.col_stride() < 0);
        let from = if rows_reversed { from.reverse_rows() } else { from };
        let from = if cols_reversed { from.reverse_cols() } else { from };
        let mut lines = Mat::zeros(from.nrows(), from.ncols());
        copy_entries(from, lines.as_mut(), |x| x);
        Ok(Wide::Copy { lines, rows_reversed, cols_reversed, transposed })
    }

    pub fn view(&self) -> MatRef<'_, T::Scalar> {
        match *self {
            Wide::Here(here) => here,
            Wide::Copy { ref lines, rows_reversed, cols_reversed, transposed } => {
                let a = lines.as_ref();
                let a = if rows_reversed { a.reverse_rows() } else { a };
                let a = if cols_reversed { a.reverse_cols() } else { a };
                if transposed { a.transpose() } else { a }
            }
        }
    }
}

/// [`Wide`] of each matrix.
pub(super) fn all_wide<'a, T: Number>(batch: &[MatRef<'a, T>]) -> Result<Vec<Wide<'a, T>>> {
    batch.iter().map(|&a| Wide::of(a)).collect()
}

pub(super) fn views<'a, T: Number>(batch: &'a [Wide<'_, T>]) -> Vec<MatRef<'a, T::Scalar>> {
    batch.iter().map(|a| a.view()).collect()
}

/// The band in the type of its arithmetic.
pub(crate) fn wide_band<T: Number>(band: &Band<T>) -> Result<Cow<'_, Band<T::Scalar>>> {
    match (band as &dyn Any).downcast_ref() {
        Some(band) => Ok(Cow::Borrowed(band)),
        None => Ok(Cow::Owned(Band::from_fn(band.n(), band.bandwidth(), |i, j| band.get(i, j).widen())?)),
    }
}

/// Checks the options of a call for singular values alone, which returns a report or not.
pub(super) fn check_values<T: Number>(call: &'static str, options: &SvdOptions, reports: bool) -> Result<()> {
    options.run.check(Takes::of::<T>(call, reports))?;
    options.check_values(call)
}

/// Checks the options of the run of a stage, which returns no report.
pub(super) fn check_stage<T: Number>(call: &'static str, run: &RunOptions) -> Result<()> {
    run.check(Takes::of::<T>(call, false))
}

/// Checks the options of the run of a triangular operation: it works in place, with the storage of the caller's type, and has no progress.
pub(super) fn check_in_place<T: Number>(run: &RunOptions) -> Result<()> {
    run.check(Takes { listens: false, stores_half: false, ..Takes::of::<T>("a triangular operation", false) })
}

/// The report with the options that are not their defaults, if it is returned.
pub(super) fn told<V>(report: Result<SvdReport<V>>, options: &dyn Named, reports: bool) -> Result<SvdReport<V>> {
    report.map(|report| if reports { SvdReport { options: options.changed(), ..report } } else { report })
}

/// [`told`] of a batch.
pub(super) fn told_of_batch<V>(report: OfBatch<V>, options: &dyn Named, reports: bool) -> OfBatch<V> {
    report.map(|report| if reports { BatchReport { options: options.changed(), ..report } } else { report })
}

/// The result of a driver: an error about the storage of a half type names the caller's type.
pub(super) fn named<T: Number, R>(result: Result<R>) -> Result<R> {
    result.map_err(|error| match error {
        SvdError::UnsupportedElement { feature, adapter, .. } if T::IS_HALF => {
            SvdError::UnsupportedElement { element: T::NAME, feature, adapter }
        }
        other => other,
    })
}

/// [`named`] of each result of a batch.
pub(super) fn each_named<T: Number, R>(report: BatchReport<Each<R>>) -> BatchReport<Each<R>> {
    if !T::IS_HALF {
        return report;
    }
    BatchReport { values: report.values.into_iter().map(named::<T, R>).collect(), ..report }
}

/// Triangular multiply and solve. B is written only after all has succeeded.
pub(super) fn operate<T: Number>(call: Call<T>, a: MatRef<'_, T>, mut b: MatMut<'_, T>, options: &RunOptions) -> Result<()> {
    let Call { variant, alpha } = call;
    let (call, a) = (Call { variant, alpha: alpha.widen() }, Wide::of(a)?);
    if let Some(b) = T::as_scalars(b.rb_mut()) {
        return triangular::on_host(call, a.view(), b, options);
    }
    let (m, n) = b.shape();
    if m == 0 || n == 0 {
        return triangular::on_host(call, a.view(), MatMut::from_column_major_slice_mut(&mut [], m, n), options);
    }
    let by_rows = b.col_stride().unsigned_abs() < b.row_stride().unsigned_abs();
    let mut lines = if by_rows { b.transpose_mut() } else { b };
    let mut wide = Mat::zeros(lines.nrows(), lines.ncols());
    copy_entries(lines.as_ref(), wide.as_mut(), |x| x);
    triangular::on_host(call, a.view(), if by_rows { wide.as_mut().transpose_mut() } else { wide.as_mut() }, options)?;
    copy_entries(wide.as_ref(), lines.rb_mut(), T::narrow);
    Ok(())
}

/// The band, rounded to nearest if the type is a half one.
#[cfg(feature = "gpu")]
pub(super) fn narrow_band<T: Number>(band: Band<T::Scalar>) -> Result<Band<T>> {
    Band::from_fn(band.n(), band.bandwidth(), |i, j| T::narrow(band.get(i, j)))
}

/// Reads a matrix back, rounded to nearest if the type is a half one.
#[cfg(feature = "gpu")]
pub(super) fn download<T: Number>(a: &DeviceMatrix, mut to: MatMut<'_, T>) -> Result<()> {
    let stream = Stream::new(&a.context)?;
    if let Some(to) = T::as_scalars(to.rb_mut()) {
        return a.download_by_pieces(&stream, to);
    }
    if to.nrows() == 0 || to.ncols() == 0 {
        return Ok(());
    }
    let mut wide = Mat::<T::Scalar>::zeros(to.nrows(), to.ncols());
    a.download_by_pieces(&stream, wide.as_mut())?;
    copy_entries(wide.as_ref(), to, T::narrow);
    Ok(())
}
