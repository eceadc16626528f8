//! The GPU backend: the tile kernels as compute shaders, through wgpu. `shaders/NAME.wgsl` is the twin of `src/cpu/NAME.rs`.
//!
//! | file | what |
//! | --- | --- |
//! | `context.rs` | adapter, device and queue; errors of the device as values |
//! | `adapter.rs` | which adapter, with which limits and features |
//! | `pipeline.rs` | shader sources, their constants, compiled pipelines |
//! | `parameters.rs` | the parameters of each shader, as structs |
//! | `template.rs` | the shaders' preprocessor: imports and conditions |
//! | `pipeline_cache.rs` | what the device's driver makes of them, kept in a file |
//! | `stream.rs` | dispatches gathered into submissions; upload and read-back |
//! | `timer.rs` | the device's clock |
//! | `tuning.rs` | hyperparameters against the device's limits |
//! | `storage.rs` | the matrices on the device |
//! | `bisection.rs` | stage 3 on the device |
//! | `kernels.rs` | [`TileKernels`](crate::kernels::TileKernels) |
//! | `matrix.rs`, `triangular.rs` | [`GpuMatrix`], and the triangular operations on such |
//! | `band.rs` | [`GpuBand`], and the stages of what is on the device |

mod adapter;
mod band;
mod bisection;
mod context;
mod kernels;
mod matrix;
mod parameters;
mod pipeline;
mod pipeline_cache;
mod storage;
mod stream;
mod template;
mod timer;
mod triangular;
mod tuning;

pub use adapter::{AdapterChoice, DeviceLimits};
pub use band::GpuBand;
pub(crate) use bisection::{BISECT_THREADS, steps_of_dispatches};
pub use context::GpuContext;
pub(crate) use context::Waits;
pub(crate) use kernels::BISECTION_WORTHWHILE;
pub use kernels::GpuKernels;
pub use matrix::GpuMatrix;
pub(crate) use pipeline::LINEAR_THREADS;
pub(crate) use storage::{required_band_bytes, required_bytes};
pub(crate) use stream::{FLOPS, Manner};
pub(crate) use triangular::{required_triangular_bytes, triangular};
pub(crate) use tuning::{Bounds, ChaseShape, Shape};
