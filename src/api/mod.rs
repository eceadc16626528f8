//! What users call: the traits of their matrices, and the matrices between the stages.
//!
//! Nothing is computed here. A method checks its arguments and calls [`plan`](crate::plan).

pub mod batch;
pub mod chase_steps;
pub mod element;
#[cfg(feature = "faer")]
pub mod faer;
#[cfg(feature = "gpu")]
pub mod gpu_band;
#[cfg(feature = "gpu")]
pub mod gpu_lstsq;
#[cfg(feature = "gpu")]
pub mod gpu_matrix;
#[cfg(feature = "gpu")]
pub mod gpu_qr;
#[cfg(feature = "gpu")]
pub mod gpu_svd;
pub mod leading;
pub mod lstsq;
#[cfg(feature = "ndarray")]
pub mod ndarray;
pub mod operators;
pub mod qr;
pub mod row_blocks;
pub mod row_sketch;
mod stages;
pub mod svd;
pub mod svdvals;
pub mod triangular;
