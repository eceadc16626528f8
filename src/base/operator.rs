//! A matrix that is known by its products.

use crate::base::number::Scalar;

/// What an operator's product may fail with.
pub type OperatorError = Box<dyn std::error::Error + Send + Sync>;

/// An m x n matrix A that is known by its products with blocks of columns: sparse, centred, a product of others, or a program of yours. For
/// [`leading_svd`](crate::leading_svd), which needs nothing else of A.
///
/// A block is a slice, column by column, without gaps: entry (i, j) of r rows is at `i + j * r`.
///
/// ```
/// use svdvals_gpu::{LinearOperator, OperatorError, SvdOptions, leading_svd};
///
/// /// Differences of neighbours, n - 1 x n: row i has -1 at i and 1 at i + 1.
/// struct Differences(usize);
///
/// impl LinearOperator<f64> for Differences {
///     fn shape(&self) -> (usize, usize) {
///         (self.0 - 1, self.0)
///     }
///     fn apply(&self, _: usize, x: &[f64], y: &mut [f64]) -> Result<(), OperatorError> {
///         for (x, y) in x.chunks(self.0).zip(y.chunks_mut(self.0 - 1)) {
///             y.iter_mut().zip(x.windows(2)).for_each(|(y, x)| *y = x[1] - x[0]);
///         }
///         Ok(())
///     }
///     fn apply_adjoint(&self, _: usize, x: &[f64], y: &mut [f64]) -> Result<(), OperatorError> {
///         for (x, y) in x.chunks(self.0 - 1).zip(y.chunks_mut(self.0)) {
///             x.iter().enumerate().for_each(|(i, x)| (y[i], y[i + 1]) = (y[i] - x, y[i + 1] + x));
///         }
///         Ok(())
///     }
/// }
///
/// let largest = leading_svd(&Differences(40), 1, &SvdOptions::default().accuracy(1e-8))?;
/// let exact = 2.0 * (std::f64::consts::PI / 80.0).cos(); // the second difference has the eigenvalues 4 cos^2
/// assert!((largest.s[0] - exact).abs() < 1e-12);
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
///
/// T is `f32`, `f64`, `Complex<f32>` or `Complex<f64>`.
pub trait LinearOperator<T: Scalar>: Sync {
    /// m and n.
    fn shape(&self) -> (usize, usize);

    /// Y <- A X for a block of `columns` columns. `x` has n times, and `y` m times so many entries; `y` has zeros when the call begins.
    ///
    /// # Errors
    /// Whatever keeps the product from being computed. It ends the call as [`SvdError::Operator`](crate::SvdError::Operator).
    fn apply(&self, columns: usize, x: &[T], y: &mut [T]) -> Result<(), OperatorError>;

    /// Y <- A^H X for a block of `columns` columns, with the conjugates of A's entries. `x` has m times, and `y` n times so many entries; `y` has zeros
    /// when the call begins.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    fn apply_adjoint(&self, columns: usize, x: &[T], y: &mut [T]) -> Result<(), OperatorError>;
}

impl<T: Scalar, A: LinearOperator<T> + ?Sized> LinearOperator<T> for &A {
    fn shape(&self) -> (usize, usize) {
        (**self).shape()
    }

    fn apply(&self, columns: usize, x: &[T], y: &mut [T]) -> Result<(), OperatorError> {
        (**self).apply(columns, x, y)
    }

    fn apply_adjoint(&self, columns: usize, x: &[T], y: &mut [T]) -> Result<(), OperatorError> {
        (**self).apply_adjoint(columns, x, y)
    }
}
