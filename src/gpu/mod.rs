//! The GPU backend: the tile kernels as compute shaders, through wgpu. `shaders/NAME.wgsl` is the twin of the kernel `NAME` in `cpu/`.
//!
//! | path | what |
//! | --- | --- |
//! | `device/context.rs`, `device/adapter.rs` | adapter, device and queue, limits and features; errors of the device as values |
//! | `device/pipeline.rs`, `device/pipeline_cache.rs` | shader sources and constants, compiled pipelines, and a file that keeps them |
//! | `device/stream.rs`, `device/timer.rs` | dispatches gathered into submissions; upload and read-back; the device's clock |
//! | `limits.rs` | hyperparameters against the device's limits |
//! | `storage.rs` | the matrices that kernels work on |
//! | `matrix.rs` | a matrix that the caller keeps on the device |
//! | `kernels/` | [`TileKernels`](crate::tile::kernels::TileKernels), stage 3 on the device, the triangular kernels |

pub mod device;
pub mod kernels;
mod limits;
pub(crate) mod matrix;
pub mod storage;
