//! The plan of a call: what was asked for, where it runs, which way the matrix goes, and what the report says of it.
//!
//! | file | what |
//! | --- | --- |
//! | `options.rs`, `tuning_table.rs` | what a caller may choose |
//! | `problem.rs`, `backend.rs` | CPU or GPU, the reason, and the one fallback from GPU to CPU |
//! | `route.rs` | which way a matrix goes on its backend |
//! | `svdvals.rs`, `cpu.rs`, `gpu.rs` | the driver, and a route on either backend |
//! | `stages.rs`, `triangular.rs` | one stage alone; triangular multiply and solve |
//! | `report.rs` | what ran |

pub(crate) mod backend;
pub(crate) mod cpu;
#[cfg(feature = "gpu")]
pub(crate) mod gpu;
pub mod options;
pub(crate) mod problem;
pub mod report;
pub mod route;
pub(crate) mod stages;
pub(crate) mod svdvals;
pub(crate) mod triangular;
pub mod tuning_table;
