//! The element types of the public methods, and the drivers compiled for each.

use std::pin::Pin;

use faer::{Mat, MatMut, MatRef};
use half::{bf16, f16};
use num_complex::Complex;

use crate::{
    algo::{bidiagonal::Bidiagonal, triangular::Call},
    base::{
        error::Result,
        number::{Number, RealElement, Scalar},
    },
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

/// An element type of a matrix. Sealed.
///
/// | element | in memory on the GPU | GPU arithmetic | CPU arithmetic | singular values |
/// | --- | --- | --- | --- | --- |
/// | `half::f16`, `half::bf16` | f32, or f16 ([`HalfStorage::Half`](crate::HalfStorage)) | f32 | f32 | `f32` |
/// | `f32` | f32 | f32 | f32 | `f32` |
/// | `f64` | f64, the device needs `SHADER_F64` | f64 | f64 | `f64` |
/// | `Complex<f32>` | two f32 | f32 | f32 | `f32` |
/// | `Complex<f64>` | two f64, the device needs `SHADER_F64` | f64 | f64 | `f64` |
///
/// On the CPU, stages 2 and 3 are in f64 for all types. On a GPU, stage 2 is in the GPU's arithmetic, and so is stage 3 if it runs there.
///
/// Every element is a [`Number`], which has its name, its conversions and its associated types.
///
/// ```
/// use num_complex::Complex;
/// use svdvals_gpu::{Element, SvdValsGpu};
/// fn norm<T: Element>(a: &faer::Mat<T>) -> T::Real
/// where
///     faer::Mat<T>: SvdValsGpu<Element = T, Values = faer::Col<T::Real>>,
/// {
///     a.svdvals_gpu().unwrap()[0]
/// }
/// # #[cfg(feature = "faer")]
/// assert_eq!(norm(&faer::mat![[Complex::new(0.0, 2.0f32)]]), 2.0);
/// ```
pub trait Element: Number<Real = <Self as Element>::Value, Scalar = <Self as Element>::Arithmetic> {
    /// [`Number::Real`], which is an element too.
    #[doc(hidden)]
    type Value: RealElement
        + Element<Value = Self::Value, Arithmetic = Self::Value>
        + Number<Real = Self::Value, Scalar = Self::Value>;
    /// [`Number::Scalar`], which is an element too.
    #[doc(hidden)]
    type Arithmetic: Scalar
        + Element<Value = Self::Value, Arithmetic = Self::Arithmetic>
        + Number<Real = Self::Value, Scalar = Self::Arithmetic>;

    /// [`SvdValsGpu::svdvals_gpu_with`](crate::SvdValsGpu::svdvals_gpu_with). This method and the next ones are compiled in this crate for
    /// each type, so that callers do not compile them again.
    #[doc(hidden)]
    fn svdvals(a: MatRef<'_, Self>, options: &SvdOptions, timed: bool) -> Result<SvdReport<Vec<Self::Real>>>;
    /// The same for a caller that must not block.
    #[doc(hidden)]
    fn svdvals_async<'a>(a: MatRef<'a, Self>, options: &'a SvdOptions, timed: bool) -> Later<'a, SvdReport<Vec<Self::Real>>>;
    /// [`SvdGpu::svd_gpu_with`](crate::SvdGpu::svd_gpu_with).
    #[doc(hidden)]
    fn svd(a: MatRef<'_, Self>, options: &SvdOptions, timed: bool) -> Result<SvdReport<Factors<Self>>>;
    /// The same for a caller that must not block.
    #[doc(hidden)]
    fn svd_async<'a>(a: MatRef<'a, Self>, options: &'a SvdOptions, timed: bool) -> Later<'a, SvdReport<Factors<Self>>>;
    /// The singular values of each matrix of a batch.
    #[doc(hidden)]
    fn svdvals_batch(batch: &[MatRef<'_, Self>], options: &SvdOptions, timed: bool)
    -> Result<BatchReport<Each<Vec<Self::Real>>>>;
    /// The decomposition of each matrix of a batch.
    #[doc(hidden)]
    fn svd_batch(batch: &[MatRef<'_, Self>], options: &SvdOptions, timed: bool) -> Result<BatchReport<Each<Factors<Self>>>>;
    /// The same two for a caller that must not block.
    #[doc(hidden)]
    fn svdvals_batch_async<'a>(
        batch: &'a [MatRef<'a, Self>],
        options: &'a SvdOptions,
        timed: bool,
    ) -> Later<'a, BatchReport<Each<Vec<Self::Real>>>>;
    #[doc(hidden)]
    fn svd_batch_async<'a>(
        batch: &'a [MatRef<'a, Self>],
        options: &'a SvdOptions,
        timed: bool,
    ) -> Later<'a, BatchReport<Each<Factors<Self>>>>;
    /// The methods of [`RowBlocks`](crate::RowBlocks).
    #[doc(hidden)]
    fn push_rows(rows: &mut State<Self>, a: MatRef<'_, Self>, b: Option<MatRef<'_, Self>>) -> Result<()>;
    #[doc(hidden)]
    fn merge_rows(rows: &mut State<Self>, other: State<Self>) -> Result<()>;
    #[doc(hidden)]
    fn finish_rows(rows: &State<Self>) -> Result<Finished<Self>>;
    #[doc(hidden)]
    fn solve_rows(rows: &State<Self>, tolerance: Option<f64>) -> Result<Solved<Self>>;
    /// [`QrGpu::qr_gpu_with`](crate::QrGpu::qr_gpu_with).
    #[doc(hidden)]
    fn qr(a: MatRef<'_, Self>, options: &SvdOptions, timed: bool) -> Result<SvdReport<BoxedFactors<Self::Arithmetic>>>;
    /// The same for a caller that must not block.
    #[doc(hidden)]
    fn qr_async<'a>(
        a: MatRef<'a, Self>,
        options: &'a SvdOptions,
        timed: bool,
    ) -> Later<'a, SvdReport<BoxedFactors<Self::Arithmetic>>>;
    /// [`QrGpu::qr_r_gpu_with`](crate::QrGpu::qr_r_gpu_with).
    #[doc(hidden)]
    fn qr_r(a: MatRef<'_, Self>, options: &SvdOptions, timed: bool) -> Result<SvdReport<Mat<Self::Arithmetic>>>;
    /// [`LstsqGpu::lstsq_gpu_with`](crate::LstsqGpu::lstsq_gpu_with).
    #[doc(hidden)]
    fn lstsq(a: MatRef<'_, Self>, b: MatRef<'_, Self>, options: &SvdOptions, timed: bool) -> Result<SvdReport<Fit<Self>>>;
    /// The same for a caller that must not block.
    #[doc(hidden)]
    fn lstsq_async<'a>(
        a: MatRef<'a, Self>,
        b: MatRef<'a, Self>,
        options: &'a SvdOptions,
        timed: bool,
    ) -> Later<'a, SvdReport<Fit<Self>>>;
    /// The part of [`GpuMatrix::lstsq`](crate::GpuMatrix::lstsq) that is the host's.
    #[doc(hidden)]
    #[cfg(feature = "gpu")]
    fn lstsq_of_device(
        a: MatRef<'_, Self>,
        b: MatRef<'_, Self>,
        options: &SvdOptions,
        timed: bool,
        factor: Option<lstsq::lower::FactorOf<'_, Self>>,
    ) -> Result<Option<SvdReport<Fit<Self>>>>;
    /// Stage 1.
    #[doc(hidden)]
    fn to_band(a: MatRef<'_, Self>, options: &SvdOptions) -> Result<Band<Self::Scalar>>;
    /// Stage 2.
    #[doc(hidden)]
    fn band_to_bidiag(band: &Band<Self>, options: &SvdOptions) -> Result<Bidiagonal<Self::Real>>;
    /// The decomposition of a band.
    #[doc(hidden)]
    fn svd_of_band(band: &Band<Self>, options: &SvdOptions) -> Result<Factors<Self>>;
    /// Triangular multiply and solve.
    #[doc(hidden)]
    fn triangular(call: Call<Self>, a: MatRef<'_, Self>, b: MatMut<'_, Self>, options: &SvdOptions) -> Result<()>;
}

/// The future of a call, which may move between threads.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

macro_rules! elements {
    ($($t:ty),*) => {$(
        impl Element for $t {
            type Value = <$t as Number>::Real;
            type Arithmetic = <$t as Number>::Scalar;

            fn svdvals(a: MatRef<'_, Self>, options: &SvdOptions, timed: bool) -> Result<SvdReport<Vec<Self::Real>>> {
                svdvals::svdvals(a, options, timed)
            }
            fn svdvals_async<'a>(
                a: MatRef<'a, Self>,
                options: &'a SvdOptions,
                timed: bool,
            ) -> Later<'a, SvdReport<Vec<Self::Real>>> {
                Box::pin(svdvals::svdvals_async(a, options, timed))
            }
            fn svd(a: MatRef<'_, Self>, options: &SvdOptions, timed: bool) -> Result<SvdReport<Factors<Self>>> {
                svd::svd(a, options, timed)
            }
            fn svd_async<'a>(a: MatRef<'a, Self>, options: &'a SvdOptions, timed: bool) -> Later<'a, SvdReport<Factors<Self>>> {
                Box::pin(svd::svd_async(a, options, timed))
            }
            fn svdvals_batch(
                batch: &[MatRef<'_, Self>],
                options: &SvdOptions,
                timed: bool,
            ) -> Result<BatchReport<Each<Vec<Self::Real>>>> {
                batch::svdvals_batch(batch, options, timed)
            }
            fn svd_batch(
                batch: &[MatRef<'_, Self>],
                options: &SvdOptions,
                timed: bool,
            ) -> Result<BatchReport<Each<Factors<Self>>>> {
                batch::svd_batch(batch, options, timed)
            }
            fn svdvals_batch_async<'a>(
                batch: &'a [MatRef<'a, Self>],
                options: &'a SvdOptions,
                timed: bool,
            ) -> Later<'a, BatchReport<Each<Vec<Self::Real>>>> {
                Box::pin(batch::svdvals_batch_async(batch, options, timed))
            }
            fn svd_batch_async<'a>(
                batch: &'a [MatRef<'a, Self>],
                options: &'a SvdOptions,
                timed: bool,
            ) -> Later<'a, BatchReport<Each<Factors<Self>>>> {
                Box::pin(batch::svd_batch_async(batch, options, timed))
            }
            fn push_rows(rows: &mut State<Self>, a: MatRef<'_, Self>, b: Option<MatRef<'_, Self>>) -> Result<()> {
                rows.push(a, b)
            }
            fn merge_rows(rows: &mut State<Self>, other: State<Self>) -> Result<()> {
                rows.merge(other)
            }
            fn finish_rows(rows: &State<Self>) -> Result<Finished<Self>> {
                rows.finish()
            }
            fn solve_rows(rows: &State<Self>, tolerance: Option<f64>) -> Result<Solved<Self>> {
                rows.solve(tolerance)
            }
            fn qr(a: MatRef<'_, Self>, options: &SvdOptions, timed: bool) -> Result<SvdReport<BoxedFactors<Self::Arithmetic>>> {
                qr::qr(a, options, timed)
            }
            fn qr_async<'a>(
                a: MatRef<'a, Self>,
                options: &'a SvdOptions,
                timed: bool,
            ) -> Later<'a, SvdReport<BoxedFactors<Self::Arithmetic>>> {
                Box::pin(qr::qr_async(a, options, timed))
            }
            fn qr_r(a: MatRef<'_, Self>, options: &SvdOptions, timed: bool) -> Result<SvdReport<Mat<Self::Arithmetic>>> {
                qr::qr_r(a, options, timed)
            }
            fn lstsq(a: MatRef<'_, Self>, b: MatRef<'_, Self>, options: &SvdOptions, timed: bool) -> Result<SvdReport<Fit<Self>>> {
                lstsq::lstsq(a, b, options, timed)
            }
            fn lstsq_async<'a>(
                a: MatRef<'a, Self>,
                b: MatRef<'a, Self>,
                options: &'a SvdOptions,
                timed: bool,
            ) -> Later<'a, SvdReport<Fit<Self>>> {
                Box::pin(lstsq::lstsq_async(a, b, options, timed))
            }
            #[cfg(feature = "gpu")]
            fn lstsq_of_device(
                a: MatRef<'_, Self>,
                b: MatRef<'_, Self>,
                options: &SvdOptions,
                timed: bool,
                factor: Option<lstsq::lower::FactorOf<'_, Self>>,
            ) -> Result<Option<SvdReport<Fit<Self>>>> {
                lstsq::lstsq_of_device(a, b, options, timed, factor)
            }
            fn to_band(a: MatRef<'_, Self>, options: &SvdOptions) -> Result<Band<Self::Scalar>> {
                stages::to_band(a, options)
            }
            fn band_to_bidiag(band: &Band<Self>, options: &SvdOptions) -> Result<Bidiagonal<Self::Real>> {
                stages::band_to_bidiag(band, options)
            }
            fn svd_of_band(band: &Band<Self>, options: &SvdOptions) -> Result<Factors<Self>> {
                band_svd::svd_of_band(band, options)
            }
            fn triangular(call: Call<Self>, a: MatRef<'_, Self>, b: MatMut<'_, Self>, options: &SvdOptions) -> Result<()> {
                triangular::on_host(call, a, b, options)
            }
        }
    )*};
}

elements!(f16, bf16, f32, f64, Complex<f32>, Complex<f64>);
