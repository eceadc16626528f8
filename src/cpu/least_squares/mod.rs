//! Least squares on the CPU, in double precision: products with all rows of the matrix, also in fixed point, and conjugate gradients with a preconditioner.

pub(crate) mod cgls;
pub(crate) mod multiply_fixed;
pub(crate) mod passes;
