//! The options of BLAS's triangular routines: side, triangle, transposition, diagonal.

/// The side of B on which op(A) multiplies.
///
/// ```
/// use svdvals_gpu::triangular::Side;
/// assert_ne!(Side::Left, Side::Right);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// op(A) B
    Left,
    /// B op(A)
    Right,
}

/// The triangle of A that is read.
///
/// ```
/// use svdvals_gpu::triangular::Uplo;
/// assert_ne!(Uplo::Lower, Uplo::Upper);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Uplo {
    /// Entries (i, j) with i >= j.
    Lower,
    /// Entries (i, j) with i <= j.
    Upper,
}

/// op(A): A, its transpose, or its conjugate transpose.
///
/// ```
/// use svdvals_gpu::triangular::Op;
/// assert_ne!(Op::Trans, Op::ConjTrans); // the same for real numbers
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// A
    NoTrans,
    /// A^T
    Trans,
    /// A^H
    ConjTrans,
}

/// Whether A's diagonal is taken as ones.
///
/// ```
/// use svdvals_gpu::triangular::Diag;
/// assert_ne!(Diag::Unit, Diag::NonUnit);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Diag {
    /// A's own diagonal.
    NonUnit,
    /// Ones; the diagonal in memory is not read.
    Unit,
}
