//! The CPU backend: the tile kernels through rayon and run-time SIMD.
//!
//! | folder | what |
//! | --- | --- |
//! | `kernels.rs` | [`CpuKernels`](kernels::CpuKernels), which implements the kernel traits |
//! | `storage.rs` | the dense matrix and the band that the kernels work on |
//! | `larfg.rs` | Householder reflectors |
//! | `rate.rs` | the speed of a thread, for the choice of the backend |
//! | `qr/` | stage 1: `geqrt` and `unmqr`, the twins of the shaders of these names |
//! | `chase/` | stage 2: bulge chasing, the twin of `chase.wgsl` |
//! | `one_stage/` | the one-stage reduction; its three kernels are twins of shaders |
//! | `least_squares/` | products with all rows of a matrix, and conjugate gradients; `multiply_fixed` is the twin of a shader |
//! | `tall/` | the triangular factor, or A^H A, of a tall matrix in one pass over its rows |
//! | `small/` | small matrices: direct reduction to bidiagonal form |
//! | `triangular/` | triangular multiply and solve; `trmm` and `trsm` are twins of shaders |
//! | `vectors/` | singular vectors: blocks of reflectors, and the left vectors from the right ones |
//! | `recursive/` | recursive QR; `slice_lines` and `coop_gemm`, products by low precision, are twins of shaders |
//! | `simd/` | vector registers, aligned memory, conversions, prefetching |

pub(crate) mod chase;
pub mod kernels;
pub(crate) mod krylov;
pub(crate) mod larfg;
pub(crate) mod least_squares;
pub mod one_stage;
pub(crate) mod qr;
#[cfg(feature = "gpu")]
pub(crate) mod rate;
pub(crate) mod recursive;
pub(crate) mod simd;
pub(crate) mod small;
pub mod storage;
pub(crate) mod tall;
pub(crate) mod triangular;
pub(crate) mod vectors;
