//! What the public methods call: each driver as a function of an element type.
//!
//! The public methods are generic over the element type, and generic code is compiled in the crate that calls it. [`Drivers`] has a function a
//! method, which is compiled in this crate, once for each type; and as they are functions, not one table of them, a program links those that it
//! calls and no others.
//!
//! The element type ends here: matrices of f16 and bf16 become matrices of f32, and what is below knows the four
//! [types of the arithmetic](crate::Scalar). With [`HalfStorage::Half`] a matrix of f32 is one of these, whose entries f16 holds
//! during its reduction.

mod door;

use std::pin::Pin;

use faer::{Mat, MatMut, MatRef};
use half::{bf16, f16};
use num_complex::Complex;
#[cfg(feature = "gpu")]
use wgpu::Buffer;

#[cfg(feature = "serde")]
use crate::plan::row_blocks::Held;
#[cfg(feature = "gpu")]
use crate::{
    algo::svdvals::narrowed,
    gpu::{
        device::{context::GpuContext, stream::Stream},
        matrix::DeviceMatrix,
    },
    plan::device::{self, band::DeviceBand, lstsq::DeviceFit, qr::Factorisation, svd::DeviceSvd},
};
use crate::{
    algo::{bidiagonal::Bidiagonal, triangular::Call},
    base::{
        error::Result,
        number::{Number, Scalar},
        operator::LinearOperator,
    },
    cpu::krylov::Dense,
    plan::{
        band_svd,
        batch::{self, BatchReport, Each},
        factors::Factors,
        leading,
        lstsq::{self, Fit},
        options::{LstsqOptions, QrOptions, RunOptions, SvdOptions, Takes},
        qr,
        qr_report::BoxedFactors,
        report::SvdReport,
        row_blocks::{Finished, Solved, State},
        row_sketch::{Sketch, Sketched},
        stages, svd, svdvals,
    },
    tile::band::Band,
};

use door::{all_wide, check_in_place, check_stage, check_values, each_named, named, operate, told, told_of_batch, views};
#[cfg(feature = "gpu")]
use door::{download, narrow_band};

pub(crate) use door::{Wide, wide_band};

/// The future of a call, which may move between threads.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

type OfBatch<V> = Result<BatchReport<Each<V>>>;

/// The type in which small matrices of an element type are computed.
type WideOf<T> = <<T as Number>::Scalar as Scalar>::Wide;

/// The drivers of the public methods, of an element type.
pub trait Drivers: Number {
    /// Singular values.
    fn svdvals(a: MatRef<'_, Self>, options: &SvdOptions, timed: bool) -> Result<SvdReport<Vec<Self::Real>>>;
    /// The same for a caller that must not block.
    fn svdvals_async<'a>(a: MatRef<'a, Self>, options: &'a SvdOptions, timed: bool) -> Later<'a, SvdReport<Vec<Self::Real>>>;
    /// The singular value decomposition.
    fn svd(a: MatRef<'_, Self>, options: &SvdOptions, timed: bool) -> Result<SvdReport<Factors<Self::Scalar>>>;
    /// The same for a caller that must not block.
    fn svd_async<'a>(a: MatRef<'a, Self>, options: &'a SvdOptions, timed: bool) -> Later<'a, SvdReport<Factors<Self::Scalar>>>;
    /// Y <- op(A) X, or Y + op(A) X, where op(A) is A or A^H.
    fn multiply(a: MatRef<'_, Self>, adjoint: bool, x: MatRef<'_, Self::Scalar>, y: MatMut<'_, Self::Scalar>, add: bool);
    /// Leading triples of an operator.
    fn leading(
        operator: &dyn LinearOperator<Self::Scalar>,
        count: usize,
        options: &SvdOptions,
    ) -> Result<SvdReport<Factors<Self::Scalar>>>;
    /// The singular values of each matrix of a batch.
    fn svdvals_batch(batch: &[MatRef<'_, Self>], options: &SvdOptions, timed: bool) -> OfBatch<Vec<Self::Real>>;
    /// The same for a caller that must not block.
    fn svdvals_batch_async<'a>(
        batch: &'a [MatRef<'a, Self>],
        options: &'a SvdOptions,
        timed: bool,
    ) -> Later<'a, BatchReport<Each<Vec<Self::Real>>>>;
    /// The decomposition of each matrix of a batch.
    fn svd_batch(batch: &[MatRef<'_, Self>], options: &SvdOptions, timed: bool) -> OfBatch<Factors<Self::Scalar>>;
    /// The same for a caller that must not block.
    fn svd_batch_async<'a>(
        batch: &'a [MatRef<'a, Self>],
        options: &'a SvdOptions,
        timed: bool,
    ) -> Later<'a, BatchReport<Each<Factors<Self::Scalar>>>>;
    /// Adds rows to those of a [`RowBlocks`](crate::RowBlocks).
    fn push_rows(rows: &mut State<Self::Scalar>, a: MatRef<'_, Self>, b: Option<MatRef<'_, Self>>) -> Result<()>;
    /// Chooses how each step runs.
    fn set_run_of_rows(rows: &mut State<Self::Scalar>, run: &RunOptions) -> Result<()>;
    /// Adds the rows of another one.
    fn merge_rows(rows: &mut State<Self::Scalar>, other: State<Self::Scalar>) -> Result<()>;
    /// Values, components and R.
    fn finish_rows(rows: &State<Self::Scalar>) -> Result<Finished<Self::Scalar>>;
    /// Least squares.
    fn solve_rows(rows: &State<Self::Scalar>, tolerance: Option<f64>) -> Result<Solved<Self::Scalar>>;
    /// What serde keeps.
    #[cfg(feature = "serde")]
    fn held_rows(rows: &State<Self::Scalar>) -> Result<Held>;
    /// The rows that serde has kept.
    #[cfg(feature = "serde")]
    fn rows_of_held(held: Held) -> std::result::Result<State<Self::Scalar>, String>;
    /// Adds rows to those of a [`RowSketch`](crate::RowSketch).
    fn push_sketch(sketch: &mut Sketch<WideOf<Self>>, a: MatRef<'_, Self>) -> Result<()>;
    /// Values and right vectors.
    fn finish_sketch(sketch: &Sketch<WideOf<Self>>) -> Result<Sketched<Self::Scalar>>;
    /// The QR factorisation.
    fn qr(a: MatRef<'_, Self>, options: &QrOptions, timed: bool) -> Result<SvdReport<BoxedFactors<Self::Scalar>>>;
    /// The same for a caller that must not block.
    fn qr_async<'a>(a: MatRef<'a, Self>, options: &'a QrOptions, timed: bool)
    -> Later<'a, SvdReport<BoxedFactors<Self::Scalar>>>;
    /// R alone.
    fn qr_r(a: MatRef<'_, Self>, options: &QrOptions, timed: bool) -> Result<SvdReport<Mat<Self::Scalar>>>;
    /// Least squares.
    fn lstsq(
        a: MatRef<'_, Self>,
        b: MatRef<'_, Self>,
        options: &LstsqOptions,
        timed: bool,
    ) -> Result<SvdReport<Fit<Self::Scalar>>>;
    /// The same for a caller that must not block.
    fn lstsq_async<'a>(
        a: MatRef<'a, Self>,
        b: MatRef<'a, Self>,
        options: &'a LstsqOptions,
        timed: bool,
    ) -> Later<'a, SvdReport<Fit<Self::Scalar>>>;
    /// Stage 1.
    fn to_band(a: MatRef<'_, Self>, options: &RunOptions) -> Result<Band<Self::Scalar>>;
    /// Stage 2.
    fn band_to_bidiag(band: &Band<Self>, options: &RunOptions) -> Result<Bidiagonal<Self::Real>>;
    /// The decomposition of a band.
    fn svd_of_band(band: &Band<Self>, options: &SvdOptions) -> Result<Factors<Self::Scalar>>;
    /// Triangular multiply and solve.
    fn triangular(call: Call<Self>, a: MatRef<'_, Self>, b: MatMut<'_, Self>, options: &RunOptions) -> Result<()>;
    /// Copies a matrix to a device.
    #[cfg(feature = "gpu")]
    fn upload(context: &GpuContext, a: MatRef<'_, Self>) -> Result<DeviceMatrix>;
    /// The matrix in a caller's buffer.
    #[cfg(feature = "gpu")]
    fn in_buffer(context: &GpuContext, buffer: Buffer, shape: (usize, usize), strides: (usize, usize)) -> Result<DeviceMatrix>;
    /// Reads a matrix back.
    #[cfg(feature = "gpu")]
    fn download(a: &DeviceMatrix, to: MatMut<'_, Self>) -> Result<()>;
    /// Singular values of a matrix on a device.
    #[cfg(feature = "gpu")]
    fn device_svdvals(a: &DeviceMatrix, options: &SvdOptions, timed: bool) -> Result<SvdReport<Vec<Self::Real>>>;
    /// The singular value decomposition of a matrix on a device.
    #[cfg(feature = "gpu")]
    fn device_svd(a: &DeviceMatrix, options: &SvdOptions, timed: bool) -> Result<SvdReport<DeviceSvd>>;
    /// The QR factorisation of a matrix on a device.
    #[cfg(feature = "gpu")]
    fn device_qr(a: &DeviceMatrix, options: &QrOptions, timed: bool) -> Result<SvdReport<Box<dyn Factorisation<Self::Scalar>>>>;
    /// Least squares with matrices on a device.
    #[cfg(feature = "gpu")]
    fn device_lstsq(
        a: &DeviceMatrix,
        b: &DeviceMatrix,
        options: &LstsqOptions,
        timed: bool,
    ) -> Result<SvdReport<DeviceFit<Self::Scalar>>>;
    /// Triangular multiply and solve with matrices on a device.
    #[cfg(feature = "gpu")]
    fn device_triangular(call: Call<Self>, a: &DeviceMatrix, b: &DeviceMatrix, options: &RunOptions) -> Result<()>;
    /// Stage 1 of a matrix on a device.
    #[cfg(feature = "gpu")]
    fn device_to_band(a: &DeviceMatrix, options: &RunOptions) -> Result<DeviceBand>;
    /// Copies a band to a device.
    #[cfg(feature = "gpu")]
    fn upload_band(context: &GpuContext, band: &Band<Self>) -> Result<DeviceBand>;
    /// Reads a band back.
    #[cfg(feature = "gpu")]
    fn download_band(band: &DeviceBand) -> Result<Band<Self>>;
    /// Stage 2 of a band on a device.
    #[cfg(feature = "gpu")]
    fn device_band_to_bidiag(band: &DeviceBand, options: &RunOptions) -> Result<Bidiagonal<Self::Real>>;
    /// Stages 2 and 3 of a band on a device.
    #[cfg(feature = "gpu")]
    fn svdvals_of_device_band(band: &DeviceBand, options: &SvdOptions) -> Result<Vec<Self::Real>>;
}

// Not inline, so that they are compiled here.
macro_rules! drivers {
    ($($t:ty),*) => {$(
        impl Drivers for $t {
            #[inline(never)]
            fn svdvals(a: MatRef<'_, Self>, options: &SvdOptions, timed: bool) -> Result<SvdReport<Vec<Self::Real>>> {
                check_values::<Self>("svdvals_gpu", options, timed)?;
                if options.accuracy.is_some() {
                    return told(leading::svd(a, options, timed).map(|report| report.map(|svd| svd.s)), options, timed);
                }
                told(named::<Self, _>(svdvals::svdvals(Wide::of(a)?.view(), options, timed)), options, timed)
            }

            #[inline(never)]
            fn svdvals_async<'a>(a: MatRef<'a, Self>, options: &'a SvdOptions, timed: bool) -> Later<'a, SvdReport<Vec<Self::Real>>> {
                Box::pin(async move {
                    check_values::<Self>("svdvals_gpu", options, timed)?;
                    if options.accuracy.is_some() {
                        let report = leading::svd_async(a, options, timed).await;
                        return told(report.map(|report| report.map(|svd| svd.s)), options, timed);
                    }
                    told(named::<Self, _>(svdvals::svdvals_async(Wide::of(a)?.view(), options, timed).await), options, timed)
                })
            }

            #[inline(never)]
            fn svd(a: MatRef<'_, Self>, options: &SvdOptions, timed: bool) -> Result<SvdReport<Factors<Self::Scalar>>> {
                options.run.check(Takes::of::<Self>("svd_gpu", timed))?;
                if options.accuracy.is_some() {
                    return told(leading::svd(a, options, timed), options, timed);
                }
                told(svd::svd(Wide::of(a)?.view(), options, timed), options, timed)
            }

            #[inline(never)]
            fn svd_async<'a>(a: MatRef<'a, Self>, options: &'a SvdOptions, timed: bool) -> Later<'a, SvdReport<Factors<Self::Scalar>>> {
                Box::pin(async move {
                    options.run.check(Takes::of::<Self>("svd_gpu", timed))?;
                    if options.accuracy.is_some() {
                        return told(leading::svd_async(a, options, timed).await, options, timed);
                    }
                    told(svd::svd_async(Wide::of(a)?.view(), options, timed).await, options, timed)
                })
            }

            #[inline(never)]
            fn multiply(a: MatRef<'_, Self>, adjoint: bool, x: MatRef<'_, Self::Scalar>, y: MatMut<'_, Self::Scalar>, add: bool) {
                Dense(a).multiply(adjoint, x, y, add);
            }

            #[inline(never)]
            fn leading(operator: &dyn LinearOperator<Self::Scalar>, count: usize, options: &SvdOptions) -> Result<SvdReport<Factors<Self::Scalar>>> {
                leading::operator::leading(operator, count, options)
            }

            #[inline(never)]
            fn svdvals_batch(batch: &[MatRef<'_, Self>], options: &SvdOptions, timed: bool) -> OfBatch<Vec<Self::Real>> {
                check_values::<Self>("a batch of singular values", options, timed)?;
                options.check_reduced("a batch of singular values")?;
                let report = batch::svdvals_batch(&views(&all_wide(batch)?), options, timed).map(each_named::<Self, _>);
                told_of_batch(report, options, timed)
            }

            #[inline(never)]
            fn svdvals_batch_async<'a>(batch: &'a [MatRef<'a, Self>], options: &'a SvdOptions, timed: bool) -> Later<'a, BatchReport<Each<Vec<Self::Real>>>> {
                Box::pin(async move {
                    check_values::<Self>("a batch of singular values", options, timed)?;
                    options.check_reduced("a batch of singular values")?;
                    let report = batch::svdvals_batch_async(&views(&all_wide(batch)?), options, timed).await.map(each_named::<Self, _>);
                    told_of_batch(report, options, timed)
                })
            }

            #[inline(never)]
            fn svd_batch(batch: &[MatRef<'_, Self>], options: &SvdOptions, timed: bool) -> OfBatch<Factors<Self::Scalar>> {
                options.run.check(Takes::of::<Self>("a batch of decompositions", timed))?;
                options.check_reduced("a batch of decompositions")?;
                told_of_batch(batch::svd_batch(&views(&all_wide(batch)?), options, timed), options, timed)
            }

            #[inline(never)]
            fn svd_batch_async<'a>(batch: &'a [MatRef<'a, Self>], options: &'a SvdOptions, timed: bool) -> Later<'a, BatchReport<Each<Factors<Self::Scalar>>>> {
                Box::pin(async move {
                    options.run.check(Takes::of::<Self>("a batch of decompositions", timed))?;
                    options.check_reduced("a batch of decompositions")?;
                    told_of_batch(batch::svd_batch_async(&views(&all_wide(batch)?), options, timed).await, options, timed)
                })
            }

            #[inline(never)]
            fn push_rows(rows: &mut State<Self::Scalar>, a: MatRef<'_, Self>, b: Option<MatRef<'_, Self>>) -> Result<()> {
                let (a, b) = (Wide::of(a)?, b.map(Wide::of).transpose()?);
                rows.step(|rows| rows.push(a.view(), b.as_ref().map(Wide::view)))
            }

            #[inline(never)]
            fn set_run_of_rows(rows: &mut State<Self::Scalar>, run: &RunOptions) -> Result<()> {
                rows.set_run(run, Takes { stores_half: false, ..Takes::of::<Self>("RowBlocks", false) })
            }

            #[inline(never)]
            fn merge_rows(rows: &mut State<Self::Scalar>, other: State<Self::Scalar>) -> Result<()> {
                rows.step(|rows| rows.merge(other))
            }

            #[inline(never)]
            fn finish_rows(rows: &State<Self::Scalar>) -> Result<Finished<Self::Scalar>> {
                rows.clone().step(|rows| rows.finish())
            }

            #[inline(never)]
            fn solve_rows(rows: &State<Self::Scalar>, tolerance: Option<f64>) -> Result<Solved<Self::Scalar>> {
                rows.clone().step(|rows| rows.solve(tolerance))
            }

            #[cfg(feature = "serde")]
            #[inline(never)]
            fn held_rows(rows: &State<Self::Scalar>) -> Result<Held> {
                rows.held(Self::NAME)
            }

            #[cfg(feature = "serde")]
            #[inline(never)]
            fn rows_of_held(held: Held) -> std::result::Result<State<Self::Scalar>, String> {
                held.into_state(Self::NAME)
            }

            #[inline(never)]
            fn push_sketch(sketch: &mut Sketch<WideOf<Self>>, a: MatRef<'_, Self>) -> Result<()> {
                sketch.push(a)
            }

            #[inline(never)]
            fn finish_sketch(sketch: &Sketch<WideOf<Self>>) -> Result<Sketched<Self::Scalar>> {
                sketch.finish()
            }

            #[inline(never)]
            fn qr(a: MatRef<'_, Self>, options: &QrOptions, timed: bool) -> Result<SvdReport<BoxedFactors<Self::Scalar>>> {
                options.run.check(Takes::of::<Self>("qr_gpu", timed))?;
                told(named::<Self, _>(qr::qr(Wide::of(a)?.view(), options, timed)), options, timed)
            }

            #[inline(never)]
            fn qr_async<'a>(a: MatRef<'a, Self>, options: &'a QrOptions, timed: bool) -> Later<'a, SvdReport<BoxedFactors<Self::Scalar>>> {
                Box::pin(async move {
                    options.run.check(Takes::of::<Self>("qr_gpu", timed))?;
                    told(named::<Self, _>(qr::qr_async(Wide::of(a)?.view(), options, timed).await), options, timed)
                })
            }

            #[inline(never)]
            fn qr_r(a: MatRef<'_, Self>, options: &QrOptions, timed: bool) -> Result<SvdReport<Mat<Self::Scalar>>> {
                options.run.check(Takes::of::<Self>("qr_r_gpu", timed))?;
                options.check_r()?;
                told(named::<Self, _>(qr::qr_r(Wide::of(a)?.view(), options, timed)), options, timed)
            }

            #[inline(never)]
            fn lstsq(a: MatRef<'_, Self>, b: MatRef<'_, Self>, options: &LstsqOptions, timed: bool) -> Result<SvdReport<Fit<Self::Scalar>>> {
                options.run.check(Takes::of::<Self>("lstsq_gpu", timed))?;
                told(named::<Self, _>(lstsq::lstsq(Wide::of(a)?.view(), Wide::of(b)?.view(), options, timed)), options, timed)
            }

            #[inline(never)]
            fn lstsq_async<'a>(a: MatRef<'a, Self>, b: MatRef<'a, Self>, options: &'a LstsqOptions, timed: bool) -> Later<'a, SvdReport<Fit<Self::Scalar>>> {
                Box::pin(async move {
                    options.run.check(Takes::of::<Self>("lstsq_gpu", timed))?;
                    let report = lstsq::lstsq_async(Wide::of(a)?.view(), Wide::of(b)?.view(), options, timed).await;
                    told(named::<Self, _>(report), options, timed)
                })
            }

            #[inline(never)]
            fn to_band(a: MatRef<'_, Self>, options: &RunOptions) -> Result<Band<Self::Scalar>> {
                check_stage::<Self>("to_band", options)?;
                named::<Self, _>(stages::to_band(Wide::of(a)?.view(), options))
            }

            #[inline(never)]
            fn band_to_bidiag(band: &Band<Self>, options: &RunOptions) -> Result<Bidiagonal<Self::Real>> {
                check_stage::<Self>("band_to_bidiag", options)?;
                named::<Self, _>(stages::band_to_bidiag(&*wide_band(band)?, options))
            }

            #[inline(never)]
            fn svd_of_band(band: &Band<Self>, options: &SvdOptions) -> Result<Factors<Self::Scalar>> {
                options.run.check(Takes::of::<Self>("Band::svd", false))?;
                band_svd::svd_of_band(&*wide_band(band)?, options)
            }

            #[inline(never)]
            fn triangular(call: Call<Self>, a: MatRef<'_, Self>, b: MatMut<'_, Self>, options: &RunOptions) -> Result<()> {
                check_in_place::<Self>(options)?;
                operate(call, a, b, options)
            }

            #[cfg(feature = "gpu")]
            #[inline(never)]
            fn upload(context: &GpuContext, a: MatRef<'_, Self>) -> Result<DeviceMatrix> {
                DeviceMatrix::upload(&Stream::new(context)?, Wide::of(a)?.view(), None)
            }

            #[cfg(feature = "gpu")]
            #[inline(never)]
            fn in_buffer(context: &GpuContext, buffer: Buffer, shape: (usize, usize), strides: (usize, usize)) -> Result<DeviceMatrix> {
                DeviceMatrix::from_buffer(Self::KIND.scalar(), context, buffer, shape, strides)
            }

            #[cfg(feature = "gpu")]
            #[inline(never)]
            fn download(a: &DeviceMatrix, to: MatMut<'_, Self>) -> Result<()> {
                download(a, to)
            }

            #[cfg(feature = "gpu")]
            #[inline(never)]
            fn device_svdvals(a: &DeviceMatrix, options: &SvdOptions, timed: bool) -> Result<SvdReport<Vec<Self::Real>>> {
                device::check_options(&a.context, &options.run)?;
                check_values::<Self>("GpuMatrix::svdvals", options, timed)?;
                if options.accuracy.is_some() {
                    let report = device::svd::svd(a, options, timed)?;
                    return told(Ok(report.map(|svd| narrowed(&svd.s))), options, timed);
                }
                let report = named::<Self, _>(device::svdvals::svdvals(a, options, timed))?;
                told(Ok(report.map(|values| narrowed(&values))), options, timed)
            }

            #[cfg(feature = "gpu")]
            #[inline(never)]
            fn device_svd(a: &DeviceMatrix, options: &SvdOptions, timed: bool) -> Result<SvdReport<DeviceSvd>> {
                device::check_options(&a.context, &options.run)?;
                options.run.check(Takes::of::<Self>("GpuMatrix::svd", timed))?;
                told(device::svd::svd(a, options, timed), options, timed)
            }

            #[cfg(feature = "gpu")]
            #[inline(never)]
            fn device_qr(a: &DeviceMatrix, options: &QrOptions, timed: bool) -> Result<SvdReport<Box<dyn Factorisation<Self::Scalar>>>> {
                device::check_options(&a.context, &options.run)?;
                options.run.check(Takes::of::<Self>("GpuMatrix::qr", timed))?;
                told(device::qr::qr(a, options, timed), options, timed)
            }

            #[cfg(feature = "gpu")]
            #[inline(never)]
            fn device_lstsq(a: &DeviceMatrix, b: &DeviceMatrix, options: &LstsqOptions, timed: bool) -> Result<SvdReport<DeviceFit<Self::Scalar>>> {
                device::check_options(&a.context, &options.run)?;
                options.run.check(Takes::of::<Self>("GpuMatrix::lstsq", timed))?;
                told(device::lstsq::lstsq(a, b, options, timed), options, timed)
            }

            #[cfg(feature = "gpu")]
            #[inline(never)]
            fn device_triangular(call: Call<Self>, a: &DeviceMatrix, b: &DeviceMatrix, options: &RunOptions) -> Result<()> {
                device::check_options(&b.context, options)?;
                check_in_place::<Self>(options)?;
                let Call { variant, alpha } = call;
                device::triangular::operate(Call { variant, alpha: alpha.widen() }, a, b, options)
            }

            #[cfg(feature = "gpu")]
            #[inline(never)]
            fn device_to_band(a: &DeviceMatrix, options: &RunOptions) -> Result<DeviceBand> {
                device::check_options(&a.context, options)?;
                check_stage::<Self>("GpuMatrix::to_band", options)?;
                named::<Self, _>(device::band::to_band(a, options))
            }

            #[cfg(feature = "gpu")]
            #[inline(never)]
            fn upload_band(context: &GpuContext, band: &Band<Self>) -> Result<DeviceBand> {
                DeviceBand::upload(context, &*wide_band(band)?, Self::IS_HALF)
            }

            #[cfg(feature = "gpu")]
            #[inline(never)]
            fn download_band(band: &DeviceBand) -> Result<Band<Self>> {
                narrow_band(band.download()?)
            }

            #[cfg(feature = "gpu")]
            #[inline(never)]
            fn device_band_to_bidiag(band: &DeviceBand, options: &RunOptions) -> Result<Bidiagonal<Self::Real>> {
                device::check_options(&band.context, options)?;
                check_stage::<Self>("GpuBand::band_to_bidiag", options)?;
                named::<Self, _>(band.to_bidiagonal(options))
            }

            #[cfg(feature = "gpu")]
            #[inline(never)]
            fn svdvals_of_device_band(band: &DeviceBand, options: &SvdOptions) -> Result<Vec<Self::Real>> {
                device::check_options(&band.context, &options.run)?;
                check_values::<Self>("GpuBand::svdvals", options, false)?;
                options.check_of_band("GpuBand::svdvals")?;
                Ok(narrowed(&named::<Self, _>(band.svdvals(options))?))
            }
        }
    )*};
}

drivers!(f16, bf16, f32, f64, Complex<f32>, Complex<f64>);
