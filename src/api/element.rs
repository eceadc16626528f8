//! The element types of the public methods, and the drivers compiled for each.

use half::{bf16, f16};
use num_complex::Complex;

use crate::{
    base::number::{Number, RealElement, Scalar},
    plan::drivers::Drivers,
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
pub trait Element: Drivers + Number<Real = <Self as Element>::Value, Scalar = <Self as Element>::Arithmetic> {
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
}

macro_rules! elements {
    ($($t:ty),*) => {$(
        impl Element for $t {
            type Value = <$t as Number>::Real;
            type Arithmetic = <$t as Number>::Scalar;
        }
    )*};
}

elements!(f16, bf16, f32, f64, Complex<f32>, Complex<f64>);
