//! Rows that are read again for each product.

use std::marker::PhantomData;

use faer::{MatMut, MatRef};

use crate::{
    api::{element::Element, operators::check},
    base::{
        number::Scalar,
        operator::{LinearOperator, OperatorError},
    },
};

/// What a source gives its rows to, some at a time.
pub type RowVisitor<'a, T> = dyn FnMut(&[T]) -> Result<(), OperatorError> + 'a;

/// A matrix whose rows come from a source that is read again for each product: a memory-mapped file, a database, a formula. Of it only the rows
/// of one visit are in memory.
///
/// ```
/// use svdvals_gpu::{RowsOf, SvdOptions, leading_svd};
/// let (m, n) = (5000, 60);
/// let rows = RowsOf::new((m, n), |visit| {
///     for first in (0..m).step_by(1000) {
///         let block: Vec<f64> = (first * n..(first + 1000) * n).map(|k| 1.0 / (1.0 + (k / n + k % n) as f64)).collect();
///         visit(&block)?; // whole rows, one after the other
///     }
///     Ok(())
/// });
/// let svd = leading_svd(&rows, 2, &SvdOptions::default())?;
/// assert_eq!((svd.u.shape(), svd.v.shape()), ((5000, 2), (60, 2)));
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
pub struct RowsOf<T, F> {
    shape: (usize, usize),
    source: F,
    types: PhantomData<fn() -> T>,
}

impl<T: Element, F: Fn(&mut RowVisitor<'_, T>) -> Result<(), OperatorError> + Sync> RowsOf<T, F> {
    /// An m x n matrix, whose rows `source` gives to the function that it is called with: any number of whole rows in each call, in order, m in all.
    ///
    /// ```
    /// use half::f16;
    /// let file: Vec<f16> = (0..12).map(|k| f16::from_f32(k as f32)).collect(); // say, a mapped one
    /// let rows = svdvals_gpu::RowsOf::new((4, 3), |visit| visit(&file));
    /// assert!(svdvals_gpu::leading_svd(&rows, 1, &Default::default())?.s[0] > 22.0);
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn new(shape: (usize, usize), source: F) -> Self {
        RowsOf { shape, source, types: PhantomData }
    }

    /// Calls `product` with each block of rows and the number of rows before it.
    fn blocks(&self, product: &mut dyn FnMut(MatRef<'_, T>, usize)) -> Result<(), OperatorError> {
        let ((m, n), mut before, mut wrong) = (self.shape, 0, None);
        let mut visit = |rows: &[T]| {
            let count = rows.len() / n.max(1);
            let reason = if count * n != rows.len() {
                format!("the source gave {} numbers, but a row has {n}", rows.len())
            } else if before + count > m {
                format!("the source gave {} rows, but the matrix has {m}", before + count)
            } else {
                product(MatRef::from_row_major_slice(rows, count, n), before);
                before += count;
                return Ok(());
            };
            wrong.get_or_insert_with(|| reason.clone());
            Err(reason.into())
        };
        (self.source)(&mut visit)?;
        match wrong {
            // Also where the source did not pass it on.
            Some(reason) => Err(reason.into()),
            None if before < m => Err(format!("the source gave {before} rows, but the matrix has {m}").into()),
            None => Ok(()),
        }
    }
}

impl<S: Scalar, T: Element<Arithmetic = S>, F: Fn(&mut RowVisitor<'_, T>) -> Result<(), OperatorError> + Sync> LinearOperator<S>
    for RowsOf<T, F>
{
    fn shape(&self) -> (usize, usize) {
        self.shape
    }

    fn apply(&self, columns: usize, x: &[S], y: &mut [S]) -> Result<(), OperatorError> {
        let (m, n) = self.shape;
        check(columns, (x, n), (y, m))?;
        let x = MatRef::from_column_major_slice(x, n, columns);
        let mut y = MatMut::from_column_major_slice_mut(y, m, columns);
        self.blocks(&mut |block, before| {
            T::multiply(block, false, x, y.as_mut().subrows_mut(before, block.nrows()), false);
        })
    }

    fn apply_adjoint(&self, columns: usize, x: &[S], y: &mut [S]) -> Result<(), OperatorError> {
        let (m, n) = self.shape;
        check(columns, (x, m), (y, n))?;
        let x = MatRef::from_column_major_slice(x, m, columns);
        let mut y = MatMut::from_column_major_slice_mut(y, n, columns);
        self.blocks(&mut |block, before| {
            T::multiply(block, true, x.subrows(before, block.nrows()), y.as_mut(), true);
        })
    }
}
