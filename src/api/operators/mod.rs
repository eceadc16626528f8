//! Matrices as operators: dense and sparse ones, and operators made of others.

mod composed;
#[cfg(any(feature = "faer", feature = "sprs"))]
mod compressed;
#[cfg(any(feature = "faer", feature = "ndarray"))]
mod dense;
mod rows;
#[cfg(feature = "faer")]
mod sparse;
#[cfg(feature = "sprs")]
mod sprs;

pub use composed::{Centered, ProductOf};
pub use rows::{RowVisitor, RowsOf};

use crate::base::operator::OperatorError;

/// An error unless blocks of so many columns have these many rows.
fn check<T>(columns: usize, (x, of_x): (&[T], usize), (y, of_y): (&[T], usize)) -> Result<(), OperatorError> {
    let fits = |len: usize, rows: usize| rows.checked_mul(columns) == Some(len);
    if fits(x.len(), of_x) && fits(y.len(), of_y) {
        return Ok(());
    }
    Err(format!("blocks of {} and {} numbers are not {columns} columns of {of_x} and {of_y}", x.len(), y.len()).into())
}
