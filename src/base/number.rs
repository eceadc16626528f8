//! The element types and their properties.

use std::{
    fmt::{self, Debug, Display},
    ops::Neg,
};

use bytemuck::Pod;
use faer::{MatMut, MatRef, traits::ComplexField};
use half::{bf16, f16, slice::HalfFloatSliceExt};
use num_complex::Complex;
use num_traits::{Float, NumAssign};

use crate::base::element_kind::ElementKind;

mod sealed {
    pub trait Sealed {}
}

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
/// On the CPU, stages 2 and 3 run in f64 for all types. On a GPU, stage 2, and stage 3 if it runs there, use the GPU arithmetic.
///
/// ```
/// use half::f16;
/// use num_complex::Complex;
/// use svdvals_gpu::Number;
/// assert_eq!((f16::NAME, <Complex<f64>>::NAME), ("f16", "c64"));
/// assert_eq!(f16::from_complex(Complex::new(0.1, 7.0)).to_complex(), Complex::new(0.0999755859375, 0.0));
/// ```
pub trait Number: sealed::Sealed + Pod + PartialEq + Debug + Display + Send + Sync {
    /// The type's name in messages and shaders: `f16`, `bf16`, `f32`, `f64`, `c32`, `c64`.
    const NAME: &'static str;
    /// The type of the singular values.
    type Real: RealElement;
    /// The type of stage 1's arithmetic: `f32` for the half types, else the type itself.
    type Scalar: Scalar + Number<Real = Self::Real, Scalar = Self::Scalar>;
    /// The type in which the CPU backend stores the band of a matrix of this storage type.
    #[doc(hidden)]
    type InBand: Number;

    /// The storage type of a matrix that keeps this type's digits.
    #[doc(hidden)]
    const KIND: ElementKind;
    /// Whether the type is `f16` or `bf16`.
    #[doc(hidden)]
    const IS_HALF: bool = false;
    /// Exponent of the largest power of two of the type.
    #[doc(hidden)]
    const MAX_EXPONENT: i32;

    /// The value as a complex number in double precision (exact).
    ///
    /// ```
    /// use svdvals_gpu::Number;
    /// assert_eq!(half::f16::from_f32(0.5).to_complex(), num_complex::Complex::new(0.5, 0.0));
    /// ```
    fn to_complex(self) -> Complex<f64>;
    /// The nearest value of this type; a real type takes the real part.
    ///
    /// ```
    /// use svdvals_gpu::Number;
    /// assert_eq!(f32::from_complex(num_complex::Complex::new(0.5, 2.0)), 0.5);
    /// ```
    fn from_complex(value: Complex<f64>) -> Self;
    /// The larger absolute value of the real and the imaginary part, or None if either is NaN or infinite.
    #[doc(hidden)]
    fn magnitude(self) -> Option<Self::Real>;
    /// The largest [`magnitude`](Self::magnitude) in a slice (zero for an empty one), or None if an entry is not finite.
    #[doc(hidden)]
    fn largest(of: &[Self]) -> Option<Self::Real>;
    /// The value in the type of the arithmetic (exact).
    #[doc(hidden)]
    fn widen(self) -> Self::Scalar;
    /// The nearest value of this type.
    #[doc(hidden)]
    fn narrow(value: Self::Scalar) -> Self;
    /// The same matrix if the type is its own [`Scalar`](Self::Scalar), else None.
    #[doc(hidden)]
    fn as_scalars(a: MatMut<'_, Self>) -> Option<MatMut<'_, Self::Scalar>>;
    /// [`as_scalars`](Self::as_scalars) for a shared view.
    #[doc(hidden)]
    fn as_scalars_ref(a: MatRef<'_, Self>) -> Option<MatRef<'_, Self::Scalar>>;
    /// [`widen`](Self::widen) for slices of equal length.
    #[doc(hidden)]
    fn widen_slice(from: &[Self], to: &mut [Self::Scalar]) {
        to.iter_mut().zip(from).for_each(|(to, &x)| *to = x.widen());
    }
    /// [`narrow`](Self::narrow) for slices of equal length.
    #[doc(hidden)]
    fn narrow_slice(from: &[Self::Scalar], to: &mut [Self]) {
        to.iter_mut().zip(from).for_each(|(to, &x)| *to = Self::narrow(x));
    }
}

/// The maximum of `bits(x)` over the entries x, where `bits` returns the bit pattern without the sign. These integers are ordered as the
/// magnitudes: finite numbers, then infinity, then NaN. The loop has no rounding and no branch, so it vectorises.
fn most_bits<T: Copy, U: Ord + Copy + Default>(of: &[T], bits: impl Fn(T) -> U) -> U {
    pulp::Arch::new().dispatch(
        #[inline(always)]
        || of.iter().fold(U::default(), |most, &x| most.max(bits(x))),
    )
}

/// A real type of singular values: `f32` or `f64`. Sealed.
///
/// ```
/// use svdvals_gpu::RealElement;
/// assert_eq!(1.5f32.to_double(), 1.5);
/// assert_eq!(f32::from_double(0.1), 0.1);
/// ```
pub trait RealElement: Scalar<Wide = f64> + Number<Real = Self, Scalar = Self> + Float {
    /// The value in double precision (exact).
    ///
    /// ```
    /// assert_eq!(svdvals_gpu::RealElement::to_double(0.25f32), 0.25);
    /// ```
    fn to_double(self) -> f64;
    /// The nearest value of this type.
    ///
    /// ```
    /// use svdvals_gpu::RealElement;
    /// assert_eq!(f32::from_double(1.0 / 3.0), 1.0 / 3.0);
    /// ```
    fn from_double(value: f64) -> Self;
    /// A power of two. Entries whose sum of squares is below [`norm_floor`](Self::norm_floor) are scaled by it, so that their squares do
    /// not underflow.
    #[doc(hidden)]
    fn norm_scale() -> Self;
    /// A sum of squares below this, smallest normal / eps^2, is recomputed from entries scaled by [`norm_scale`](Self::norm_scale).
    #[doc(hidden)]
    fn norm_floor() -> Self;
    /// The smallest magnitude of a pivot in a Sturm count, for squares of at most 2. Its square root is negligible against 1, and no
    /// quotient by it overflows.
    #[doc(hidden)]
    fn pivot() -> Self;
    /// Largest k for which both 2^k and 2^-k are normal.
    #[doc(hidden)]
    fn exponent_limit() -> i32;
}

/// An arithmetic type: `f32`, `f64`, `Complex<f32>` or `Complex<f64>`. Sealed.
///
/// ```
/// fn trace<T: svdvals_gpu::Scalar>(a: faer::MatRef<'_, T>) -> T {
///     a.diagonal().column_vector().sum()
/// }
/// assert_eq!(trace(faer::mat![[1.0, 2.0], [3.0, 4.0f64]].as_ref()), 5.0);
/// ```
pub trait Scalar: Number<Scalar = Self> + ComplexField<Real = <Self as Number>::Real> + NumAssign + Neg<Output = Self> {
    /// `f64` or `Complex<f64>`: the type of stage 2's arithmetic on the CPU.
    #[doc(hidden)]
    type Wide: Scalar<Wide = Self::Wide> + Number<Real = f64, Scalar = Self::Wide>;
    /// The storage type with [`HalfStorage::Half`](crate::HalfStorage): `f16` for f32, which half types are computed in, else the type itself.
    #[doc(hidden)]
    type Compact: Number<Real = <Self as Number>::Real, Scalar = Self>;
    /// Whether the type is complex.
    #[doc(hidden)]
    const IS_COMPLEX: bool;
    /// Whether the type is its own [`Wide`](Self::Wide).
    #[doc(hidden)]
    const IS_DOUBLE: bool = size_of::<Self>() == size_of::<Self::Wide>();
    /// The value in double precision (exact).
    #[doc(hidden)]
    fn to_wide(self) -> Self::Wide;
    /// The nearest value of this type.
    #[doc(hidden)]
    fn from_wide(value: Self::Wide) -> Self;
    /// The product with a real number.
    #[doc(hidden)]
    fn times(self, factor: Re<Self>) -> Self;
}

/// The real type of an element type.
pub(crate) type Re<T> = <T as Number>::Real;

macro_rules! real {
    ($t:ident, $kind:ident, $compact:ident, $norm_scale:expr, $pivot:expr) => {
        impl sealed::Sealed for $t {}
        impl Number for $t {
            const NAME: &'static str = stringify!($t);
            const KIND: ElementKind = ElementKind::$kind;
            const MAX_EXPONENT: i32 = $t::MAX_EXP - 1;
            type Real = $t;
            type Scalar = $t;
            type InBand = f64;
            fn to_complex(self) -> Complex<f64> {
                Complex::new(self.into(), 0.0)
            }
            fn from_complex(value: Complex<f64>) -> $t {
                value.re as $t
            }
            fn magnitude(self) -> Option<$t> {
                self.is_finite().then(|| Float::abs(self))
            }
            fn largest(of: &[$t]) -> Option<$t> {
                <$t>::from_bits(most_bits(of, |x| Float::abs(x).to_bits())).magnitude()
            }
            fn widen(self) -> $t {
                self
            }
            fn as_scalars(a: MatMut<'_, $t>) -> Option<MatMut<'_, $t>> {
                Some(a)
            }
            fn as_scalars_ref(a: MatRef<'_, $t>) -> Option<MatRef<'_, $t>> {
                Some(a)
            }
            fn narrow(value: $t) -> $t {
                value
            }
        }
        impl Scalar for $t {
            type Wide = f64;
            type Compact = $compact;
            const IS_COMPLEX: bool = false;
            fn to_wide(self) -> f64 {
                self.into()
            }
            fn from_wide(value: f64) -> $t {
                value as $t
            }
            fn times(self, factor: $t) -> $t {
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
            fn pivot() -> $t {
                $pivot
            }
            fn exponent_limit() -> i32 {
                $t::MAX_EXP - 2
            }
        }
    };
}

// norm_scale and pivot as bit patterns: 2^80 and 2^-120 in f32, 2^700 and 2^-1000 in f64.
real!(f32, F32, f16, f32::from_bits((80 + 127) << 23), f32::from_bits((127 - 120) << 23));
real!(f64, F64, f64, f64::from_bits((700 + 1023) << 52), f64::from_bits((1023 - 1000) << 52));

macro_rules! complex {
    ($t:ident, $kind:ident, $name:literal) => {
        impl sealed::Sealed for Complex<$t> {}
        impl Number for Complex<$t> {
            const NAME: &'static str = $name;
            const KIND: ElementKind = ElementKind::$kind;
            const MAX_EXPONENT: i32 = $t::MAX_EXP - 1;
            type Real = $t;
            type Scalar = Self;
            type InBand = Complex<f64>;
            fn to_complex(self) -> Complex<f64> {
                self.to_wide()
            }
            fn from_complex(value: Complex<f64>) -> Self {
                Self::from_wide(value)
            }
            fn magnitude(self) -> Option<$t> {
                let (re, im) = (Float::abs(self.re), Float::abs(self.im));
                self.is_finite().then_some(if re > im { re } else { im })
            }
            fn largest(of: &[Self]) -> Option<$t> {
                $t::largest(bytemuck::cast_slice(of))
            }
            fn widen(self) -> Self {
                self
            }
            fn as_scalars(a: MatMut<'_, Self>) -> Option<MatMut<'_, Self>> {
                Some(a)
            }
            fn as_scalars_ref(a: MatRef<'_, Self>) -> Option<MatRef<'_, Self>> {
                Some(a)
            }
            fn narrow(value: Self) -> Self {
                value
            }
        }
        impl Scalar for Complex<$t> {
            type Wide = Complex<f64>;
            type Compact = Self;
            const IS_COMPLEX: bool = true;
            fn to_wide(self) -> Complex<f64> {
                Complex::new(self.re.into(), self.im.into())
            }
            fn from_wide(value: Complex<f64>) -> Self {
                Complex::new(value.re as $t, value.im as $t)
            }
            fn times(self, factor: $t) -> Self {
                Complex::new(self.re * factor, self.im * factor)
            }
        }
    };
}

complex!(f32, C32, "c32");
complex!(f64, C64, "c64");

/// [`f16::to_f32`] without a branch, so that loops over it vectorise.
#[inline(always)]
fn f32_of_f16(x: f16) -> f32 {
    // The exponent bias of f32 exceeds that of f16 by 112. Infinity and NaN need another 112. Subnormals (exponent bits 0) have no
    // implicit leading bit.
    const LEAST: u32 = 1 << 23;
    const SHIFT: u32 = 112 * LEAST;
    let bits = u32::from(x.to_bits());
    let (sign, magnitude) = ((bits & 0x8000) << 16, (bits & 0x7fff) << 13);
    let normal = magnitude + SHIFT;
    let subnormal = (f32::from_bits(normal + LEAST) - f32::from_bits(SHIFT + LEAST)).to_bits();
    let not_finite = if magnitude >= 31 * LEAST { normal + SHIFT } else { normal };
    f32::from_bits(sign | if magnitude < LEAST { subnormal } else { not_finite })
}

/// [`bf16::to_f32`], except that the bits of a NaN are preserved.
#[inline(always)]
fn f32_of_bf16(x: bf16) -> f32 {
    f32::from_bits(u32::from(x.to_bits()) << 16)
}

macro_rules! half_float {
    ($t:ident, $in_band:ident, $widen:ident) => {
        impl sealed::Sealed for $t {}
        impl Number for $t {
            const NAME: &'static str = stringify!($t);
            const KIND: ElementKind = ElementKind::F16;
            const MAX_EXPONENT: i32 = $t::MAX_EXP - 1;
            type Real = f32;
            type Scalar = f32;
            type InBand = $in_band;
            const IS_HALF: bool = true;
            fn to_complex(self) -> Complex<f64> {
                Complex::new(self.to_f64(), 0.0)
            }
            fn from_complex(value: Complex<f64>) -> $t {
                $t::from_f64(value.re)
            }
            fn magnitude(self) -> Option<f32> {
                self.is_finite().then(|| self.to_f32().abs())
            }
            fn largest(of: &[$t]) -> Option<f32> {
                $t::from_bits(most_bits(of, |x| x.to_bits() & 0x7fff)).magnitude()
            }
            #[inline(always)]
            fn widen(self) -> f32 {
                $widen(self)
            }
            fn narrow(value: f32) -> $t {
                $t::from_f32(value)
            }
            fn as_scalars(_: MatMut<'_, $t>) -> Option<MatMut<'_, f32>> {
                None
            }
            fn as_scalars_ref(_: MatRef<'_, $t>) -> Option<MatRef<'_, f32>> {
                None
            }
            fn widen_slice(from: &[$t], to: &mut [f32]) {
                from.convert_to_f32_slice(to);
            }
            fn narrow_slice(from: &[f32], to: &mut [$t]) {
                to.convert_from_f32_slice(from);
            }
        }
    };
}

half_float!(f16, f16, f32_of_f16);
// A bf16 matrix is stored as f16 or f32, never as bf16.
half_float!(bf16, f16, f32_of_bf16);

/// The type that stores a matrix of `half::f16` or `half::bf16` during its reduction. Arithmetic is f32 either way.
///
/// ```
/// use svdvals_gpu::HalfStorage;
/// assert_eq!(HalfStorage::default(), HalfStorage::Single);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum HalfStorage {
    /// f32: twice the memory. The error is little more than the rounding of the input.
    #[default]
    Single,
    /// f16, on either backend; a GPU needs `SHADER_F16`. Half the memory. Every sweep of stage 1 and every cycle of stage 2 rounds its
    /// results to f16, which gives the accuracy of the papers (a relative error of about 1e-3). `bf16` is stored as f16 too: after the
    /// scaling of stage 0, f16 has sufficient range, and three more bits. A CPU takes 3 to 15 times as long as with `Single`.
    Half,
}

impl HalfStorage {
    /// This storage for f16 and bf16; `Single` for any other type, which a call refuses to store as f16.
    ///
    /// ```
    /// use half::f16;
    /// use svdvals_gpu::HalfStorage;
    /// assert_eq!(HalfStorage::Half.for_element::<f16>(), HalfStorage::Half);
    /// assert_eq!(HalfStorage::Half.for_element::<f32>(), HalfStorage::Single);
    /// ```
    pub fn for_element<T: Number>(self) -> Self {
        if T::IS_HALF { self } else { HalfStorage::Single }
    }

    /// The storage type of a matrix in this arithmetic type.
    pub(crate) fn of(self, kind: ElementKind) -> ElementKind {
        match self {
            HalfStorage::Single => kind,
            HalfStorage::Half => kind.compact(),
        }
    }
}

impl fmt::Display for HalfStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            HalfStorage::Single => "single",
            HalfStorage::Half => "half",
        })
    }
}

/// Calls a function or a method with the storage type `S` that `$half` selects for the type of the arithmetic `$t`. This is the only place that
/// matches on [`HalfStorage`].
macro_rules! in_storage {
    ($half:expr, $t:ident => $function:ident::<_, S $(, $more:ty)?>($($argument:expr),* $(,)?) $(; $await:tt)?) => {
        match $half {
            $crate::base::number::HalfStorage::Single => {
                $function::<_, <$t as $crate::base::number::Number>::Scalar $(, $more)?>($($argument),*) $(.$await)?
            }
            $crate::base::number::HalfStorage::Half => {
                $function::<_, <<$t as $crate::base::number::Number>::Scalar as $crate::base::number::Scalar>::Compact $(, $more)?>($($argument),*) $(.$await)?
            }
        }
    };
    ($half:expr, $t:ident => $object:ident.$method:ident::<S>($($argument:expr),* $(,)?)) => {
        match $half {
            $crate::base::number::HalfStorage::Single => {
                $object.$method::<<$t as $crate::base::number::Number>::Scalar>($($argument),*)
            }
            $crate::base::number::HalfStorage::Half => {
                $object.$method::<<<$t as $crate::base::number::Number>::Scalar as $crate::base::number::Scalar>::Compact>($($argument),*)
            }
        }
    };
}
pub(crate) use in_storage;

#[cfg(test)]
mod tests {
    use super::*;

    /// For all 65536 bit patterns of either type, `widen` equals the conversion of crate `half`; NaN becomes NaN.
    #[test]
    fn every_half_is_widened() {
        fn same(x: f32, y: f32) -> bool {
            x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan()
        }
        for bits in 0..=u16::MAX {
            let (x, y) = (f16::from_bits(bits), bf16::from_bits(bits));
            assert!(same(x.widen(), x.to_f32()) && same(y.widen(), y.to_f32()), "{bits:#06x}");
        }
    }
}
