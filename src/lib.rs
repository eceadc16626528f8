//! All singular values of `ndarray` and `faer` matrices, on any GPU or on the CPU.
//!
//! ```
//! # #[cfg(feature = "ndarray")] {
//! use ndarray::array;
//! use svdvals_gpu::SvdValsGpu;
//!
//! let a = array![[1.0f32, 2.0], [3.0, 4.0], [5.0, 6.0]];
//! let s = a.svdvals_gpu()?; // Array1<f32>, descending
//! assert!((s[0] - 9.525518).abs() < 1e-5 && (s[1] - 0.514300).abs() < 1e-5);
//! # }
//! # Ok::<(), svdvals_gpu::SvdError>(())
//! ```
//!
//! [`SvdValsGpu`] gives the method to matrices; [`SvdOptions`] chooses the backend, the GPU and the hyperparameters; every failure is an
//! [`SvdError`]; [`svdvals_gpu_report`](SvdValsGpu::svdvals_gpu_report) says what ran, why, and how long each stage took.
//!
//! The [`guide`] teaches the rest: the two stages, GPU or CPU, reading a report, which type, tuning, long calls, limits, and the names that
//! LAPACK and torch have for things.
//!
//! # The algorithm
//!
//! Two stages of tile kernels, and a third on two vectors. A is m x n, m >= n; a wide matrix is read as its transpose, and nothing is ever
//! transposed in memory.
//!
//! | stage | formula | shapes | flops | how |
//! | --- | --- | --- | --- | --- |
//! | 0 scale | A <- 2^k A | | m n | a power of two that brings max \|a_ij\| near 1; NaN and infinities are found here |
//! | 1 [`to_band`](SvdValsGpu::to_band) | A = Q1 B P1^H | B: n x n, b superdiagonals | 8/3 n^3 | QR and LQ sweeps over panels, each a reduction tree of Householder QRs |
//! | 2 [`band_to_bidiag`](Band::band_to_bidiag) | B = Q2 C P2^H | C: n x n, one superdiagonal | 8 n^2 b | bulge chasing, tile width by tile width |
//! | 3 [`svdvals`](Bidiagonal::svdvals) | sigma(C) | n values | O(n^2) | Newton's method in brackets, in f64, each value to high relative accuracy |
//!
//! A tall matrix, 3 m >= 5 n, is first reduced to its n x n triangular factor by the same panels. On the CPU small matrices go straight to
//! the bidiagonal, and narrow ones that are tall in one pass over their rows: by A^H A in double precision, whose products are
//! exact for entries in single precision. In double precision A^H A is taken where there are 4096 rows and 65536 entries or more, eight rows
//! for each column, and the columns, made as long as one another, are far from dependent, and QR elsewhere; so it is, on the CPU, up to 1024 columns.
//!
//! The stages and their sources: Ringoot, Alomairy, Churavy and Edelman, *Performant Unified GPU Kernels for Portable Singular Value
//! Computation Across Hardware and Precision* (2025); Ringoot, Alomairy and Edelman, *Accelerating Bidiagonalization of Banded Matrices
//! through Memory-Aware Bulge-Chasing on GPUs* (2025); with the panel's chain of tiles replaced by the reduction tree of
//! communication-avoiding QR (Demmel, Grigori, Hoemmen and Langou 2012).
//!
//! # Triangles
//!
//! [`triangular`] multiplies by a triangular matrix, and solves with one, in place (BLAS's `trmm` and `trsm`), for the same matrices, element
//! types and backends: [`TriangularGpu`](triangular::TriangularGpu). [`GpuMatrix`] stays on the device between operations, and on its way through
//! the stages ([`GpuMatrix::svdvals`], [`GpuBand`]); a buffer that a shader of yours has filled may be one ([`GpuMatrix::from_buffer`]).
//!
//! # Backends
//!
//! One driver runs over a small set of tile kernels that exist twice: as WGSL shaders through `wgpu` (Vulkan, Metal, DX12, WebGPU), and on
//! the CPU through `rayon` and run-time SIMD. [`Backend::Auto`] takes a hardware GPU for large matrices where there is one, and the CPU
//! otherwise; it logs (crate `log`) why.
//!
//! In a browser (`wasm32-unknown-unknown`) a GPU is reached by [`svdvals_gpu_async`](SvdValsGpu::svdvals_gpu_async), through WebGPU; the CPU
//! computes on the one thread there is, and there is no environment and no file to read. A
//! crate that depends on `faer` too turns faer's feature `rayon` off there, which does not compile for that target.
//!
//! # Coming from another crate
//!
//! Two lines change: the trait that is in scope, and the call. The values are the same numbers in the same order, descending. A NaN or an
//! infinity in the matrix is an error here that names its place.
//!
//! From `ndarray-linalg` (`SVD::svd` or `SVDDC::svddc`, without vectors), whose LAPACK need no longer be linked:
//!
//! ```text
//! use ndarray_linalg::SVD;
//! let (_, s, _) = a.svd(false, false)?; // a: Array2<f64>, s: Array1<f64>
//! ```
//! ```
//! # #[cfg(feature = "ndarray")] {
//! # let a = ndarray::array![[3.0f64, 0.0], [4.0, 5.0], [0.0, 1.0]];
//! use svdvals_gpu::SvdValsGpu;
//! let s = a.svdvals_gpu()?; // a: Array2<f64>, s: Array1<f64>
//! # let s: ndarray::Array1<f64> = s;
//! # assert!((s[0] * s[0] + s[1] * s[1] - 51.0).abs() < 1e-13); // the squares of the entries
//! # }
//! # Ok::<(), svdvals_gpu::SvdError>(())
//! ```
//!
//! From `faer`:
//!
//! ```
//! # let a = faer::mat![[3.0f64, 0.0], [4.0, 5.0], [0.0, 1.0]];
//! let s = a.singular_values().expect("convergence"); // a: Mat<f64>, s: Vec<f64>
//! # let before = s;
//! # #[cfg(feature = "faer")] {
//! # use svdvals_gpu::SvdValsGpu;
//! # let s = a.svdvals_gpu()?;
//! # assert!(before.iter().zip(s.iter()).all(|(x, y)| (x - y).abs() < 1e-14 * before[0]));
//! # }
//! # Ok::<(), svdvals_gpu::SvdError>(())
//! ```
//! ```
//! # #[cfg(feature = "faer")] {
//! # let a = faer::mat![[3.0f64, 0.0], [4.0, 5.0], [0.0, 1.0]];
//! use svdvals_gpu::SvdValsGpu;
//! let s = a.svdvals_gpu()?; // a: Mat<f64>, s: Col<f64>
//! # let s: faer::Col<f64> = s;
//! # }
//! # Ok::<(), svdvals_gpu::SvdError>(())
//! ```
//!
//! From `nalgebra`, whose matrices lie in memory as faer's do, so that a view without a copy is enough (or ndarray's
//! `ArrayView2::from_shape((a.nrows(), a.ncols()).f(), a.as_slice())`):
//!
//! ```text
//! let s = a.singular_values(); // a: DMatrix<f64>, s: DVector<f64>
//! ```
//! ```
//! # #[cfg(feature = "faer")] {
//! # // Of a DMatrix only its shape and its entries, column after column, are used.
//! # struct DMatrix;
//! # impl DMatrix {
//! #     fn nrows(&self) -> usize { 3 }
//! #     fn ncols(&self) -> usize { 2 }
//! #     fn as_slice(&self) -> &[f64] { &[3.0, 4.0, 0.0, 0.0, 5.0, 1.0] }
//! # }
//! # let a = DMatrix;
//! use {faer::MatRef, svdvals_gpu::SvdValsGpu};
//! let s = MatRef::from_column_major_slice(a.as_slice(), a.nrows(), a.ncols()).svdvals_gpu()?; // s: Col<f64>
//! # let same = faer::mat![[3.0f64, 0.0], [4.0, 5.0], [0.0, 1.0]].svdvals_gpu()?;
//! # assert_eq!(s, same);
//! # }
//! # Ok::<(), svdvals_gpu::SvdError>(())
//! ```
//!
//! # Cargo features
//!
//! | feature | default | what |
//! | --- | --- | --- |
//! | `ndarray` | yes | the methods on `ndarray::ArrayBase`, versions 0.15 to 0.17 |
//! | `faer` | yes | the methods on `faer::{Mat, MatRef, MatMut}` |
//! | `serde` | no | [`TuningTable`]'s `load` and `save`, the environment variable `SVDVALS_GPU_TUNING`, and serde's traits on options, hyperparameters and reports |
//! | `lapack` | no | LAPACK's `dbdsqr` as a stage 3; the binary links a LAPACK of its choice |
//! | `lapack-openblas` | no | the same, linked to the system's OpenBLAS |
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(missing_docs)]
#![cfg_attr(
    not(feature = "gpu"),
    allow(dead_code, reason = "the model and the layouts have parts that the GPU backend alone uses")
)]

// The LAPACK that feature `lapack-openblas` links.
#[cfg(feature = "lapack-openblas")]
use openblas_src as _;

mod algo;
mod api;
mod base;
pub mod cost;
mod cpu;
#[cfg(feature = "gpu")]
mod gpu;
mod plan;
mod tile;

#[doc = include_str!("guide.md")]
pub mod guide {}
pub use api::triangular;

#[cfg(feature = "gpu")]
pub use api::{gpu_band::GpuBand, gpu_matrix::GpuMatrix};
#[cfg(feature = "gpu")]
pub use gpu::device::{
    adapter::{AdapterChoice, DeviceLimits},
    context::GpuContext,
};
/// The `wgpu` that [`GpuContext`] speaks: its version must be the caller's.
#[cfg(feature = "gpu")]
pub use wgpu;
pub use {
    algo::bidiagonal::{Bidiagonal, Stage3},
    api::{
        chase_steps::{ChaseCycle, ChaseSteps},
        element::Element,
        svdvals::SvdValsGpu,
    },
    base::{
        clock::StageSeconds,
        error::{Result, SvdError},
        number::{HalfStorage, Number, RealElement, Scalar},
        watch::{CancelFlag, Progress, ProgressFn, Stage},
    },
    cost::counts::Counts,
    plan::{
        options::{Backend, SvdOptions},
        report::SvdReport,
        route::{First, Route},
        tuning_table::{PartialTuning, TuningEntry, TuningTable},
    },
    tile::{
        band::Band,
        panel_tree::PanelTree,
        tuning::{CpuTuning, GpuTuning, Tuning},
    },
};

/// The README's examples, which compile and run with the others.
#[cfg(all(doctest, feature = "ndarray", feature = "faer", feature = "gpu"))]
#[doc = include_str!("../README.md")]
struct Readme;

/// The kernels of both backends, for the tests that compare them. Not part of the interface.
#[doc(hidden)]
pub mod internals {
    #[cfg(feature = "gpu")]
    pub use crate::gpu::kernels::GpuKernels;
    pub use crate::{
        algo::{band_to_bidiag::band_to_bidiag, reflectors::*, to_band::to_band},
        base::blas::{Op, Side},
        cpu::kernels::CpuKernels,
        tile::{band_layout::*, chase_schedule::*, kernels::*, panel_tree::*},
    };
}
