//! The storage types of matrices, for code that is compiled once.

use half::f16;

/// A type that stores a matrix: `f16`, `f32`, `f64`, `Complex<f32>` or `Complex<f64>`. `bf16` is stored as `f16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElementKind {
    F16,
    F32,
    F64,
    C32,
    C64,
}

impl ElementKind {
    /// The type's name in messages and shaders.
    pub const fn name(self) -> &'static str {
        match self {
            ElementKind::F16 => "f16",
            ElementKind::F32 => "f32",
            ElementKind::F64 => "f64",
            ElementKind::C32 => "c32",
            ElementKind::C64 => "c64",
        }
    }

    /// Bytes of an entry.
    pub const fn bytes(self) -> usize {
        match self {
            ElementKind::F16 => 2,
            ElementKind::F32 => 4,
            ElementKind::F64 | ElementKind::C32 => 8,
            ElementKind::C64 => 16,
        }
    }

    /// The type of the arithmetic.
    pub const fn scalar(self) -> ElementKind {
        match self {
            ElementKind::F16 => ElementKind::F32,
            other => other,
        }
    }

    /// The storage type with [`HalfStorage::Half`](crate::HalfStorage).
    pub const fn compact(self) -> ElementKind {
        match self {
            ElementKind::F32 => ElementKind::F16,
            other => other,
        }
    }

    /// The real type of the arithmetic.
    pub const fn real(self) -> ElementKind {
        if self.is_double() { ElementKind::F64 } else { ElementKind::F32 }
    }

    /// Bytes of a number of the arithmetic type.
    pub const fn scalar_bytes(self) -> usize {
        self.scalar().bytes()
    }

    /// Bytes of a real number of the arithmetic type.
    pub const fn real_bytes(self) -> usize {
        self.real().bytes()
    }

    /// Exponent of the largest power of two of the storage type.
    pub const fn max_exponent(self) -> i32 {
        match self {
            ElementKind::F16 => f16::MAX_EXP - 1,
            ElementKind::F32 | ElementKind::C32 => f32::MAX_EXP - 1,
            ElementKind::F64 | ElementKind::C64 => f64::MAX_EXP - 1,
        }
    }

    pub const fn is_half(self) -> bool {
        matches!(self, ElementKind::F16)
    }

    /// Whether the arithmetic is in double precision.
    pub const fn is_double(self) -> bool {
        matches!(self, ElementKind::F64 | ElementKind::C64)
    }

    pub const fn is_complex(self) -> bool {
        matches!(self, ElementKind::C32 | ElementKind::C64)
    }
}
