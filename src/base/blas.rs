//! The words of BLAS: side, triangle, transposition, diagonal.

/// The side of B that op(A) stands on.
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

/// What is made of A before it multiplies or is solved with.
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

/// What stands on A's diagonal.
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
