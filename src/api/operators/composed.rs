//! Operators made of others.

use crate::{
    api::operators::check,
    base::{
        error::{Result, SvdError},
        number::Scalar,
        operator::{LinearOperator, OperatorError},
    },
};

/// A matrix less the mean of each column, A - 1 mu^T: what principal component analysis decomposes. No centred copy is made, so a sparse
/// matrix stays sparse.
///
/// ```
/// use svdvals_gpu::{Centered, SvdOptions, leading_svd};
/// // 500 samples near a line through (3, 4, 5) along (1, 2, 2) / 3.
/// let samples = faer::Mat::from_fn(500, 3, |i, j| {
///     let along = 0.1 * (i as f64 - 250.0);
///     [3.0, 4.0, 5.0][j] + along * [1.0, 2.0, 2.0][j] / 3.0 + 1e-3 * ((i * (j + 2)) as f64).sin()
/// });
/// let centered = Centered::new(&samples)?;
/// assert!((centered.mean()[0] - 3.0).abs() < 0.02);
/// let first = leading_svd(&centered, 1, &SvdOptions::default())?;
/// assert!((first.v[(1, 0)].abs() - 2.0 / 3.0).abs() < 1e-4);
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Centered<A, T> {
    of: A,
    mean: Vec<T>,
}

impl<T: Scalar, A: LinearOperator<T>> Centered<A, T> {
    /// The operator, and the means of its columns, which one product with its adjoint gives.
    ///
    /// ```
    /// let centered = svdvals_gpu::Centered::new(faer::mat![[1.0f64, 5.0], [3.0, 7.0]])?;
    /// assert_eq!(centered.mean(), [2.0, 6.0]);
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::Operator`] if the product fails, or a mean is not finite.
    pub fn new(of: A) -> Result<Self> {
        let (m, n) = of.shape();
        let part = T::from_complex((1.0 / m.max(1) as f64).into());
        let (ones, mut mean) = (vec![T::one_impl(); m], vec![T::zero_impl(); n]);
        let product = of.apply_adjoint(1, &ones, &mut mean);
        product.map_err(|error| SvdError::Operator { call: "apply_adjoint", reason: error.to_string() })?;
        mean.iter_mut().for_each(|x| *x = T::conj_impl(x) * part);
        match mean.iter().position(|x| x.magnitude().is_none()) {
            Some(j) => {
                Err(SvdError::Operator { call: "apply_adjoint", reason: format!("the mean of column {j} is {}", mean[j]) })
            }
            None => Ok(Centered { of, mean }),
        }
    }

    /// The operator less other numbers, one for each column.
    ///
    /// ```
    /// use svdvals_gpu::{Centered, LinearOperator};
    /// let less = Centered::with_mean(faer::mat![[1.0f64, 5.0], [3.0, 7.0]], vec![1.0, 5.0])?;
    /// let mut second = [0.0; 2];
    /// less.apply(1, &[0.0, 1.0], &mut second).unwrap();
    /// assert_eq!(second, [0.0, 2.0]);
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::Operator`] unless there is one for each column, [`SvdError::InvalidOption`] if one is not finite.
    pub fn with_mean(of: A, mean: Vec<T>) -> Result<Self> {
        let (columns, numbers) = (of.shape().1, mean.len());
        if columns != numbers {
            return Err(SvdError::Operator { call: "shape", reason: format!("{columns} columns, but {numbers} means") });
        }
        if let Some(j) = mean.iter().position(|x| x.magnitude().is_none()) {
            return Err(SvdError::invalid("mean", format!("that of column {j} is {}", mean[j])));
        }
        Ok(Centered { of, mean })
    }

    /// The numbers that are subtracted from the columns.
    pub fn mean(&self) -> &[T] {
        &self.mean
    }
}

impl<T: Scalar, A: LinearOperator<T>> LinearOperator<T> for Centered<A, T> {
    fn shape(&self) -> (usize, usize) {
        self.of.shape()
    }

    fn apply(&self, columns: usize, x: &[T], y: &mut [T]) -> std::result::Result<(), OperatorError> {
        let (m, n) = self.shape();
        check(columns, (x, n), (y, m))?;
        self.of.apply(columns, x, y)?;
        for (x, y) in x.chunks(n.max(1)).zip(y.chunks_mut(m.max(1))) {
            let along = x.iter().zip(&self.mean).fold(T::zero_impl(), |sum, (&x, &mean)| sum + x * mean);
            y.iter_mut().for_each(|y| *y -= along);
        }
        Ok(())
    }

    fn apply_adjoint(&self, columns: usize, x: &[T], y: &mut [T]) -> std::result::Result<(), OperatorError> {
        let (m, n) = self.shape();
        check(columns, (x, m), (y, n))?;
        self.of.apply_adjoint(columns, x, y)?;
        for (x, y) in x.chunks(m.max(1)).zip(y.chunks_mut(n.max(1))) {
            let sum = x.iter().fold(T::zero_impl(), |sum, &x| sum + x);
            y.iter_mut().zip(&self.mean).for_each(|(y, mean)| *y -= T::conj_impl(mean) * sum);
        }
        Ok(())
    }
}

/// The product A B of two operators, which is never formed.
///
/// ```
/// use svdvals_gpu::{ProductOf, SvdOptions, leading_svd};
/// let factor = faer::Mat::from_fn(300, 5, |i, j| ((i + 1) as f64 * (j + 1) as f64).cos());
/// let product = ProductOf::<_, _, f64>::new(factor.as_ref(), factor.transpose())?; // 300 x 300, of rank 5
/// let svd = leading_svd(&product, 6, &SvdOptions::default())?;
/// assert!(svd.s[4] > 50.0 && svd.s[5] < 1e-12 * svd.s[0]);
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ProductOf<A, B, T> {
    left: A,
    right: B,
    types: std::marker::PhantomData<fn() -> T>,
}

impl<T: Scalar, A: LinearOperator<T>, B: LinearOperator<T>> ProductOf<A, B, T> {
    /// The product, if B has as many rows as A has columns.
    ///
    /// ```
    /// let (a, b) = (faer::Mat::<f32>::identity(3, 4), faer::Mat::<f32>::identity(3, 4));
    /// assert!(svdvals_gpu::ProductOf::<_, _, f32>::new(a, b).is_err());
    /// ```
    ///
    /// # Errors
    /// [`SvdError::Operator`] if it has not.
    pub fn new(left: A, right: B) -> Result<Self> {
        let ((m, k), (rows, n)) = (left.shape(), right.shape());
        if k != rows {
            return Err(SvdError::Operator { call: "shape", reason: format!("a product of {m} x {k} and {rows} x {n}") });
        }
        Ok(ProductOf { left, right, types: std::marker::PhantomData })
    }
}

impl<T: Scalar, A: LinearOperator<T>, B: LinearOperator<T>> LinearOperator<T> for ProductOf<A, B, T> {
    fn shape(&self) -> (usize, usize) {
        (self.left.shape().0, self.right.shape().1)
    }

    fn apply(&self, columns: usize, x: &[T], y: &mut [T]) -> std::result::Result<(), OperatorError> {
        let (m, n) = self.shape();
        check(columns, (x, n), (y, m))?;
        let mut between = vec![T::zero_impl(); self.left.shape().1 * columns];
        self.right.apply(columns, x, &mut between)?;
        self.left.apply(columns, &between, y)
    }

    fn apply_adjoint(&self, columns: usize, x: &[T], y: &mut [T]) -> std::result::Result<(), OperatorError> {
        let (m, n) = self.shape();
        check(columns, (x, m), (y, n))?;
        let mut between = vec![T::zero_impl(); self.left.shape().1 * columns];
        self.left.apply_adjoint(columns, x, &mut between)?;
        self.right.apply_adjoint(columns, &between, y)
    }
}
