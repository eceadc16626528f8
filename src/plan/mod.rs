//! The plan of a call: its options, its backend, its route on the backend, and its report.
//!
//! | file | what |
//! | --- | --- |
//! | `options/`, `tuning_table.rs` | what a caller may choose |
//! | `problem.rs`, `choice/` | what is to be computed, and its seconds on either backend |
//! | `backend.rs` | CPU or GPU, the reason, and the only fallback, from GPU to CPU |
//! | `route.rs` | the route of a matrix on its backend |
//! | `call.rs`, `svdvals.rs`, `cpu.rs`, `gpu.rs` | a call; the driver, and the routes on either backend |
//! | `stages.rs`, `triangular.rs` | a single stage; triangular multiply and solve |
//! | `svd.rs`, `band_svd.rs`, `factors.rs` | the drivers with vectors; U, s and V, and what is computed from them |
//! | `qr.rs`, `qr_factors.rs`, `qr_report.rs` | the driver of the QR factorisation; its factors, and what is computed from them; its reports |
//! | `products.rs` | the QR factorisation with products by low precision |
//! | `device/` | the drivers of matrices that are on a device, where their results stay |
//! | `drivers.rs` | the drivers of an element type: where the caller's type ends, and where options are checked (`drivers/door.rs`) |
//! | `batch.rs` | the driver of many matrices |
//! | `leading/` | the drivers of leading triples to an accuracy: of matrices and of operators |
//! | `row_blocks.rs`, `row_sketch.rs` | a matrix of which only the triangular factor is kept, or a sketch |
//! | `lstsq/` | the driver of least squares |
//! | `report.rs` | what ran |

pub(crate) mod backend;
pub(crate) mod band_svd;
pub mod batch;
pub(crate) mod call;
pub(crate) mod choice;
pub(crate) mod cpu;
#[cfg(feature = "gpu")]
pub mod device;
pub mod drivers;
pub(crate) mod factors;
#[cfg(feature = "gpu")]
pub(crate) mod gpu;
pub(crate) mod leading;
pub mod lstsq;
pub mod options;
pub(crate) mod problem;
pub(crate) mod products;
pub(crate) mod qr;
pub mod qr_factors;
pub(crate) mod qr_report;
pub mod report;
pub mod route;
pub mod row_blocks;
pub mod row_sketch;
pub(crate) mod stages;
pub(crate) mod svd;
pub(crate) mod svdvals;
pub(crate) mod triangular;
pub mod tuning_table;
