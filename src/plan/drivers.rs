//! The drivers as one table of functions for an element type.
//!
//! The public methods are generic over the element type, and generic code is compiled in the crate that calls it. They go through this trait's
//! object, so that the drivers and all below them are compiled in this crate, once for each type.

use std::pin::Pin;

use faer::{Mat, MatMut, MatRef};

#[cfg(feature = "serde")]
use crate::plan::row_blocks::Held;
use crate::{
    algo::{bidiagonal::Bidiagonal, triangular::Call},
    base::{error::Result, number::Number},
    plan::{
        band_svd,
        batch::{self, BatchReport, Each},
        factors::Factors,
        lstsq::{self, Fit},
        options::SvdOptions,
        qr::{self, BoxedFactors},
        report::SvdReport,
        row_blocks::{Finished, Solved, State},
        stages, svd, svdvals, triangular,
    },
    tile::band::Band,
};
#[cfg(feature = "gpu")]
use crate::{
    gpu::{
        device::{context::GpuContext, stream::Stream},
        matrix::DeviceMatrix,
    },
    plan::device::{self, band::DeviceBand, lstsq::DeviceFit, qr::Factorisation, svd::DeviceSvd},
};

/// The future of a call, which may move between threads.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// The drivers of the public methods.
pub trait Drivers<T: Number>: Sync {
    /// Singular values.
    fn svdvals(&self, a: MatRef<'_, T>, options: &SvdOptions, timed: bool) -> Result<SvdReport<Vec<T::Real>>>;
    /// The same for a caller that must not block.
    fn svdvals_async<'a>(&self, a: MatRef<'a, T>, options: &'a SvdOptions, timed: bool) -> Later<'a, SvdReport<Vec<T::Real>>>;
    /// The singular value decomposition.
    fn svd(&self, a: MatRef<'_, T>, options: &SvdOptions, timed: bool) -> Result<SvdReport<Factors<T>>>;
    /// The same for a caller that must not block.
    fn svd_async<'a>(&self, a: MatRef<'a, T>, options: &'a SvdOptions, timed: bool) -> Later<'a, SvdReport<Factors<T>>>;
    /// The singular values of each matrix of a batch.
    fn svdvals_batch(&self, batch: &[MatRef<'_, T>], options: &SvdOptions, timed: bool) -> OfBatch<Vec<T::Real>>;
    /// The same for a caller that must not block.
    fn svdvals_batch_async<'a>(
        &self,
        batch: &'a [MatRef<'a, T>],
        options: &'a SvdOptions,
        timed: bool,
    ) -> Later<'a, BatchReport<Each<Vec<T::Real>>>>;
    /// The decomposition of each matrix of a batch.
    fn svd_batch(&self, batch: &[MatRef<'_, T>], options: &SvdOptions, timed: bool) -> OfBatch<Factors<T>>;
    /// The same for a caller that must not block.
    fn svd_batch_async<'a>(
        &self,
        batch: &'a [MatRef<'a, T>],
        options: &'a SvdOptions,
        timed: bool,
    ) -> Later<'a, BatchReport<Each<Factors<T>>>>;
    /// The methods of [`RowBlocks`](crate::RowBlocks).
    fn push_rows(&self, rows: &mut State<T>, a: MatRef<'_, T>, b: Option<MatRef<'_, T>>) -> Result<()>;
    fn merge_rows(&self, rows: &mut State<T>, other: State<T>) -> Result<()>;
    fn finish_rows(&self, rows: &State<T>) -> Result<Finished<T>>;
    fn solve_rows(&self, rows: &State<T>, tolerance: Option<f64>) -> Result<Solved<T>>;
    #[cfg(feature = "serde")]
    fn held_rows(&self, rows: &State<T>) -> Result<Held>;
    #[cfg(feature = "serde")]
    fn rows_of_held(&self, held: Held) -> std::result::Result<State<T>, String>;
    /// The QR factorisation.
    fn qr(&self, a: MatRef<'_, T>, options: &SvdOptions, timed: bool) -> Result<SvdReport<BoxedFactors<T::Scalar>>>;
    /// The same for a caller that must not block.
    fn qr_async<'a>(
        &self,
        a: MatRef<'a, T>,
        options: &'a SvdOptions,
        timed: bool,
    ) -> Later<'a, SvdReport<BoxedFactors<T::Scalar>>>;
    /// R alone.
    fn qr_r(&self, a: MatRef<'_, T>, options: &SvdOptions, timed: bool) -> Result<SvdReport<Mat<T::Scalar>>>;
    /// Least squares.
    fn lstsq(&self, a: MatRef<'_, T>, b: MatRef<'_, T>, options: &SvdOptions, timed: bool) -> Result<SvdReport<Fit<T>>>;
    /// The same for a caller that must not block.
    fn lstsq_async<'a>(
        &self,
        a: MatRef<'a, T>,
        b: MatRef<'a, T>,
        options: &'a SvdOptions,
        timed: bool,
    ) -> Later<'a, SvdReport<Fit<T>>>;
    /// Stage 1.
    fn to_band(&self, a: MatRef<'_, T>, options: &SvdOptions) -> Result<Band<T::Scalar>>;
    /// Stage 2.
    fn band_to_bidiag(&self, band: &Band<T>, options: &SvdOptions) -> Result<Bidiagonal<T::Real>>;
    /// The decomposition of a band.
    fn svd_of_band(&self, band: &Band<T>, options: &SvdOptions) -> Result<Factors<T>>;
    /// Triangular multiply and solve.
    fn triangular(&self, call: Call<T>, a: MatRef<'_, T>, b: MatMut<'_, T>, options: &SvdOptions) -> Result<()>;
    /// Those of matrices on a device.
    #[cfg(feature = "gpu")]
    fn on_device(&self) -> &dyn DeviceDrivers<T>;
}

type OfBatch<V> = Result<BatchReport<Each<V>>>;

/// The drivers of matrices that are on a device.
#[cfg(feature = "gpu")]
pub trait DeviceDrivers<T: Number>: Sync {
    /// Copies a matrix to the device.
    fn upload(&self, context: &GpuContext, a: MatRef<'_, T>) -> Result<DeviceMatrix<T>>;
    /// Reads a matrix back.
    fn download(&self, a: &DeviceMatrix<T>, to: MatMut<'_, T>) -> Result<()>;
    /// Singular values.
    fn svdvals(&self, a: &DeviceMatrix<T>, options: &SvdOptions, timed: bool) -> Result<SvdReport<Vec<T::Real>>>;
    /// The singular value decomposition.
    fn svd(&self, a: &DeviceMatrix<T>, options: &SvdOptions, timed: bool) -> Result<SvdReport<DeviceSvd<T>>>;
    /// The QR factorisation.
    fn qr(&self, a: &DeviceMatrix<T>, options: &SvdOptions, timed: bool) -> Result<SvdReport<Box<dyn Factorisation<T>>>>;
    /// Least squares.
    fn lstsq(
        &self,
        a: &DeviceMatrix<T>,
        b: &DeviceMatrix<T>,
        options: &SvdOptions,
        timed: bool,
    ) -> Result<SvdReport<DeviceFit<T>>>;
    /// Triangular multiply and solve.
    fn triangular(&self, call: Call<T>, a: &DeviceMatrix<T>, b: &DeviceMatrix<T>, options: &SvdOptions) -> Result<()>;
    /// Stage 1.
    fn to_band(&self, a: &DeviceMatrix<T>, options: &SvdOptions) -> Result<DeviceBand<T::Scalar>>;
    /// Copies a band to the device.
    fn upload_band(&self, context: &GpuContext, band: &Band<T>) -> Result<DeviceBand<T>>;
    /// Reads a band back.
    fn download_band(&self, band: &DeviceBand<T>) -> Result<Band<T>>;
    /// Stage 2.
    fn band_to_bidiag(&self, band: &DeviceBand<T>, options: &SvdOptions) -> Result<Bidiagonal<T::Real>>;
    /// Stages 2 and 3.
    fn svdvals_of_band(&self, band: &DeviceBand<T>, options: &SvdOptions) -> Result<Vec<T::Real>>;
}

/// The drivers of every type.
pub struct Table;

impl<T: Number> Drivers<T> for Table {
    fn svdvals(&self, a: MatRef<'_, T>, options: &SvdOptions, timed: bool) -> Result<SvdReport<Vec<T::Real>>> {
        svdvals::svdvals(a, options, timed)
    }

    fn svdvals_async<'a>(&self, a: MatRef<'a, T>, options: &'a SvdOptions, timed: bool) -> Later<'a, SvdReport<Vec<T::Real>>> {
        Box::pin(svdvals::svdvals_async(a, options, timed))
    }

    fn svd(&self, a: MatRef<'_, T>, options: &SvdOptions, timed: bool) -> Result<SvdReport<Factors<T>>> {
        svd::svd(a, options, timed)
    }

    fn svd_async<'a>(&self, a: MatRef<'a, T>, options: &'a SvdOptions, timed: bool) -> Later<'a, SvdReport<Factors<T>>> {
        Box::pin(svd::svd_async(a, options, timed))
    }

    fn svdvals_batch(&self, batch: &[MatRef<'_, T>], options: &SvdOptions, timed: bool) -> OfBatch<Vec<T::Real>> {
        batch::svdvals_batch(batch, options, timed)
    }

    fn svdvals_batch_async<'a>(
        &self,
        batch: &'a [MatRef<'a, T>],
        options: &'a SvdOptions,
        timed: bool,
    ) -> Later<'a, BatchReport<Each<Vec<T::Real>>>> {
        Box::pin(batch::svdvals_batch_async(batch, options, timed))
    }

    fn svd_batch(&self, batch: &[MatRef<'_, T>], options: &SvdOptions, timed: bool) -> OfBatch<Factors<T>> {
        batch::svd_batch(batch, options, timed)
    }

    fn svd_batch_async<'a>(
        &self,
        batch: &'a [MatRef<'a, T>],
        options: &'a SvdOptions,
        timed: bool,
    ) -> Later<'a, BatchReport<Each<Factors<T>>>> {
        Box::pin(batch::svd_batch_async(batch, options, timed))
    }

    fn push_rows(&self, rows: &mut State<T>, a: MatRef<'_, T>, b: Option<MatRef<'_, T>>) -> Result<()> {
        rows.push(a, b)
    }

    fn merge_rows(&self, rows: &mut State<T>, other: State<T>) -> Result<()> {
        rows.merge(other)
    }

    fn finish_rows(&self, rows: &State<T>) -> Result<Finished<T>> {
        rows.finish()
    }

    fn solve_rows(&self, rows: &State<T>, tolerance: Option<f64>) -> Result<Solved<T>> {
        rows.solve(tolerance)
    }

    #[cfg(feature = "serde")]
    fn held_rows(&self, rows: &State<T>) -> Result<Held> {
        rows.held()
    }

    #[cfg(feature = "serde")]
    fn rows_of_held(&self, held: Held) -> std::result::Result<State<T>, String> {
        held.into_state()
    }

    fn qr(&self, a: MatRef<'_, T>, options: &SvdOptions, timed: bool) -> Result<SvdReport<BoxedFactors<T::Scalar>>> {
        qr::qr(a, options, timed)
    }

    fn qr_async<'a>(
        &self,
        a: MatRef<'a, T>,
        options: &'a SvdOptions,
        timed: bool,
    ) -> Later<'a, SvdReport<BoxedFactors<T::Scalar>>> {
        Box::pin(qr::qr_async(a, options, timed))
    }

    fn qr_r(&self, a: MatRef<'_, T>, options: &SvdOptions, timed: bool) -> Result<SvdReport<Mat<T::Scalar>>> {
        qr::qr_r(a, options, timed)
    }

    fn lstsq(&self, a: MatRef<'_, T>, b: MatRef<'_, T>, options: &SvdOptions, timed: bool) -> Result<SvdReport<Fit<T>>> {
        lstsq::lstsq(a, b, options, timed)
    }

    fn lstsq_async<'a>(
        &self,
        a: MatRef<'a, T>,
        b: MatRef<'a, T>,
        options: &'a SvdOptions,
        timed: bool,
    ) -> Later<'a, SvdReport<Fit<T>>> {
        Box::pin(lstsq::lstsq_async(a, b, options, timed))
    }

    fn to_band(&self, a: MatRef<'_, T>, options: &SvdOptions) -> Result<Band<T::Scalar>> {
        stages::to_band(a, options)
    }

    fn band_to_bidiag(&self, band: &Band<T>, options: &SvdOptions) -> Result<Bidiagonal<T::Real>> {
        stages::band_to_bidiag(band, options)
    }

    fn svd_of_band(&self, band: &Band<T>, options: &SvdOptions) -> Result<Factors<T>> {
        band_svd::svd_of_band(band, options)
    }

    fn triangular(&self, call: Call<T>, a: MatRef<'_, T>, b: MatMut<'_, T>, options: &SvdOptions) -> Result<()> {
        triangular::on_host(call, a, b, options)
    }

    #[cfg(feature = "gpu")]
    fn on_device(&self) -> &dyn DeviceDrivers<T> {
        self
    }
}

#[cfg(feature = "gpu")]
impl<T: Number> DeviceDrivers<T> for Table {
    fn upload(&self, context: &GpuContext, a: MatRef<'_, T>) -> Result<DeviceMatrix<T>> {
        DeviceMatrix::upload(&Stream::new(context)?, a, None)
    }

    fn download(&self, a: &DeviceMatrix<T>, to: MatMut<'_, T>) -> Result<()> {
        a.download_by_pieces(&Stream::new(&a.context)?, to)
    }

    fn svdvals(&self, a: &DeviceMatrix<T>, options: &SvdOptions, timed: bool) -> Result<SvdReport<Vec<T::Real>>> {
        device::svdvals::svdvals(a, options, timed)
    }

    fn svd(&self, a: &DeviceMatrix<T>, options: &SvdOptions, timed: bool) -> Result<SvdReport<DeviceSvd<T>>> {
        device::svd::svd(a, options, timed)
    }

    fn qr(&self, a: &DeviceMatrix<T>, options: &SvdOptions, timed: bool) -> Result<SvdReport<Box<dyn Factorisation<T>>>> {
        device::qr::qr(a, options, timed)
    }

    fn lstsq(
        &self,
        a: &DeviceMatrix<T>,
        b: &DeviceMatrix<T>,
        options: &SvdOptions,
        timed: bool,
    ) -> Result<SvdReport<DeviceFit<T>>> {
        device::lstsq::lstsq(a, b, options, timed)
    }

    fn triangular(&self, call: Call<T>, a: &DeviceMatrix<T>, b: &DeviceMatrix<T>, options: &SvdOptions) -> Result<()> {
        device::triangular::operate(call, a, b, options)
    }

    fn to_band(&self, a: &DeviceMatrix<T>, options: &SvdOptions) -> Result<DeviceBand<T::Scalar>> {
        device::band::to_band(a, options)
    }

    fn upload_band(&self, context: &GpuContext, band: &Band<T>) -> Result<DeviceBand<T>> {
        DeviceBand::upload(context, band)
    }

    fn download_band(&self, band: &DeviceBand<T>) -> Result<Band<T>> {
        band.download()
    }

    fn band_to_bidiag(&self, band: &DeviceBand<T>, options: &SvdOptions) -> Result<Bidiagonal<T::Real>> {
        band.to_bidiagonal(options)
    }

    fn svdvals_of_band(&self, band: &DeviceBand<T>, options: &SvdOptions) -> Result<Vec<T::Real>> {
        band.svdvals(options)
    }
}
