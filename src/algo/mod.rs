//! The algorithms, generic over the traits of the tile kernels: stages 1 to 3, and the triangular recursion. They depend on no backend.

pub mod band_to_bidiag;
pub(crate) mod bidiag;
pub mod bidiagonal;
pub(crate) mod condition;
pub(crate) mod count;
pub(crate) mod deferred;
pub(crate) mod fixed;
pub(crate) mod krylov;
pub(crate) mod leading;
pub mod one_stage;
pub(crate) mod reconstruct;
pub(crate) mod recursive;
pub mod reflectors;
pub(crate) mod svdvals;
pub mod to_band;
pub mod triangular;
pub mod vectors;
