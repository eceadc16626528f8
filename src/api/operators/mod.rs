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
pub use rows::{RowsOf, Visit};
