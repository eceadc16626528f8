//! The element types: which there are, and what the algorithms need to know of each.

use faer::traits::{ComplexField, RealField};
use num_traits::Float;

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// An element type of a matrix: `f32` or `f64`. Sealed.
///
/// | element | GPU arithmetic | CPU arithmetic | singular values |
/// | --- | --- | --- | --- |
/// | `f32` | f32 | f32 | `f32` |
/// | `f64` | f64, the device needs `SHADER_F64` | f64 | `f64` |
///
/// Stage 3 is f64 for both. The type of the singular values is `T::Real`, from [`faer::traits::ComplexField`].
///
/// ```
/// use svdvals_gpu::Element;
/// assert_eq!(<f32 as Element>::NAME, "f32");
/// ```
pub trait Element: sealed::Sealed + ComplexField + bytemuck::Pod + Send + Sync + std::fmt::Debug {
    /// The type's name, as messages and shaders spell it.
    const NAME: &'static str;
    /// Largest absolute value of the entry's parts, or None where the entry is NaN or infinite.
    #[doc(hidden)]
    fn magnitude(self) -> Option<Self::Real>;
    /// The product with a power of two.
    #[doc(hidden)]
    fn scale(self, factor: Self::Real) -> Self;
}

/// A real element type: `f32` or `f64`. Sealed.
///
/// ```
/// use svdvals_gpu::RealElement;
/// assert_eq!(1.5f32.to_double(), 1.5);
/// assert_eq!(f32::from_double(0.1), 0.1);
/// ```
pub trait RealElement: Element<Real = Self> + RealField + Float + std::fmt::Display {
    /// The value in double precision (exact).
    fn to_double(self) -> f64;
    /// The nearest value of this type.
    fn from_double(value: f64) -> Self;
    /// 2^k with |k| so large that squares of numbers below [`norm_floor`](Self::norm_floor) stay normal when scaled by it.
    #[doc(hidden)]
    fn norm_scale() -> Self;
    /// Sums of squares below this are made again from entries scaled by [`norm_scale`](Self::norm_scale): smallest normal / eps^2.
    #[doc(hidden)]
    fn norm_floor() -> Self;
    /// Largest k for which both 2^k and 2^-k are normal.
    #[doc(hidden)]
    fn exponent_limit() -> i32;
}

macro_rules! real_element {
    ($t:ident, $norm_scale:expr) => {
        impl Element for $t {
            const NAME: &'static str = stringify!($t);
            fn magnitude(self) -> Option<$t> {
                self.is_finite().then(|| Float::abs(self))
            }
            fn scale(self, factor: $t) -> $t {
                self * factor
            }
        }
        impl RealElement for $t {
            fn to_double(self) -> f64 {
                self.into()
            }
            fn from_double(value: f64) -> $t {
                value as $t
            }
            fn norm_scale() -> $t {
                $norm_scale
            }
            fn norm_floor() -> $t {
                $t::MIN_POSITIVE / ($t::EPSILON * $t::EPSILON)
            }
            fn exponent_limit() -> i32 {
                $t::MAX_EXP - 2
            }
        }
    };
}

// Powers of two written as bit patterns: 2^80 in f32, 2^700 in f64.
real_element!(f32, f32::from_bits((80 + 127) << 23));
real_element!(f64, f64::from_bits((700 + 1023) << 52));
