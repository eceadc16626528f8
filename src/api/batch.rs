//! Batches: many matrices in one call.

#[cfg(feature = "faer")]
mod slices;
#[cfg(feature = "ndarray")]
mod stacks;

#[cfg(feature = "faer")]
pub use slices::{
    svd_batch, svd_batch_async, svd_batch_each, svd_batch_each_async, svd_batch_report, svd_batch_report_async, svdvals_batch,
    svdvals_batch_async, svdvals_batch_each, svdvals_batch_each_async, svdvals_batch_report, svdvals_batch_report_async,
};
#[cfg(feature = "ndarray")]
pub use stacks::{StackSvd, SvdValsBatchGpu};
