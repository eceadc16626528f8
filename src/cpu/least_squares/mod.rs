//! Least squares on the CPU, in double precision: products with all rows of the matrix, and conjugate gradients with a preconditioner.

pub(crate) mod cgls;
pub(crate) mod passes;
