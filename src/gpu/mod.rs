//! The GPU backend: the tile kernels as compute shaders, through wgpu. `shaders/NAME.wgsl` is the twin of the kernel `NAME` in `cpu/`.
//!
//! | path | what |
//! | --- | --- |
//! | `device/context.rs`, `device/adapter.rs` | adapter, device and queue, limits and features; errors of the device as values |
//! | `device/pipeline.rs`, `device/template.rs` | shader sources, their constants and their preprocessor; compiled pipelines |
//! | `device/pipeline_cache.rs` | the file that keeps compiled pipelines |
//! | `device/parameters.rs` | the parameters of each kernel, as structs |
//! | `device/stream.rs`, `device/timer.rs` | dispatches batched into submissions; upload and read-back; timestamps |
//! | `limits.rs` | the device's limits: sizes of buffers in bytes, and hyperparameters |
//! | `storage.rs` | the matrices that kernels work on |
//! | `matrix.rs` | a matrix that the caller keeps on the device |
//! | `open.rs` | how a context is opened |
//! | `kernels/` | [`TileKernels`](crate::tile::kernels::TileKernels), stage 3 on the device, the triangular kernels |
//! | `kernels/replay.rs`, `kernels/left.rs`, `kernels/products.rs` | vectors of the bidiagonal; left vectors; the products of both |

pub mod device;
pub mod kernels;
pub(crate) mod limits;
pub(crate) mod matrix;
mod open;
pub mod storage;
