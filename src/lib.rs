//! All singular values of `ndarray` and `faer` matrices, their singular value decomposition, their QR factorisation and least squares, on any
//! GPU or on the CPU.
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
//! | what you want | of a matrix `a`, `ndarray`'s or `faer`'s | trait, with its options |
//! | --- | --- | --- |
//! | all singular values | [`a.svdvals_gpu()`](SvdValsGpu::svdvals_gpu) | [`SvdValsGpu`], [`SvdOptions`] |
//! | singular vectors, approximations, rank, pseudoinverse | [`a.svd_gpu()`](SvdGpu::svd_gpu) | [`SvdGpu`], [`SvdOptions`] |
//! | Q and R | [`a.qr_gpu()`](QrGpu::qr_gpu) | [`QrGpu`], [`QrOptions`] |
//! | the solution of least squares | [`a.lstsq_gpu(&b)`](LstsqGpu::lstsq_gpu) | [`LstsqGpu`], [`LstsqOptions`] |
//! | a few leading triples of a large, sparse or centred matrix | [`leading_svd(&a, k, &options)`](leading_svd) | [`LinearOperator`], [`SvdOptions::accuracy`] |
//!
//! The [`guide`] has tasks (principal components, compression, many matrices, endless rows, a GPU of your own, a browser), explains the two stages, GPU or CPU,
//! reports, types, all options, tuning, long calls and limits, and has the corresponding names in LAPACK, torch, NumPy and `ndarray-linalg`.
//!
//! The options of each decomposition hold the [`RunOptions`] that choose the backend, the GPU and the hyperparameters. Every failure is an [`SvdError`].
//! [`svdvals_gpu_report`](SvdValsGpu::svdvals_gpu_report) and its like say what ran, why, and how long each stage took. [`SvdValsBatchGpu`] and
//! [`svdvals_batch`](fn@svdvals_batch) take many matrices in one call, and [`RowBlocks`] a matrix whose rows come block after block, and need not fit in memory.
//!
//! # The algorithm
//!
//! Two stages are built from tile kernels. The third works on the two diagonals of a bidiagonal matrix. A is m x n, m >= n; a wide matrix
//! is read as its transpose. No matrix is transposed in memory.
//!
//! | stage | formula | shapes | flops | how |
//! | --- | --- | --- | --- | --- |
//! | 0 scale | A <- 2^k A | | m n | a power of two that brings max \|a_ij\| near 1; NaN and infinities are found here |
//! | 1 [`to_band`] | A = Q1 B P1^H | B: n x n, b superdiagonals | 8/3 n^3 | QR and LQ sweeps, each a reduction tree of Householder QRs |
//! | 2 [`band_to_bidiag`] | B = Q2 C P2^H | C: n x n, one superdiagonal | 8 n^2 b | bulge chasing, tile width by tile width |
//! | 3 [`svdvals`] | sigma(C) | n values | O(n^2) | Newton's method in brackets, in f64, each value to high relative accuracy |
//!
//! [`to_band`]: SvdValsGpu::to_band
//! [`band_to_bidiag`]: Band::band_to_bidiag
//! [`svdvals`]: Bidiagonal::svdvals
//!
//! A tall matrix, 3 m >= 5 n, is first reduced to its n x n triangular factor by QR, with the same panels.
//!
//! On the CPU, a small matrix (n up to 224 with AVX-512, else 256, [`CpuTuning::direct_up_to`]) is reduced directly to bidiagonal form. If it is tall
//! and has more than 64 rows, it is first reduced in a single pass over its rows:
//!
//! - In single precision, and for half types stored as f32, to A^H A, accumulated in double precision, where the products are exact.
//!   The eigenvalues of A^H A are the squares of the singular values.
//! - In double precision to the triangular factor. If m >= 8 n, m >= 4096 and m n >= 65536, and the matrix with normalised columns is
//!   well-conditioned, this is the Cholesky factor of A^H A. Otherwise it is the factor of a QR factorisation.
//!
//! [`Reduction::OneStage`] replaces stages 1 and 2 by a reduction of blocks of columns and rows straight to bidiagonal form
//! (LAPACK's `gebrd`). It reads the trailing matrix twice for each column.
//!
//! On the CPU, the Cholesky factor also replaces the tall QR for larger n, under the same conditions and up to n = 1024.
//!
//! The stages follow Ringoot, Alomairy, Churavy and Edelman, *Performant Unified GPU Kernels for Portable Singular Value
//! Computation Across Hardware and Precision* (2025), and Ringoot, Alomairy and Edelman, *Accelerating Bidiagonalization of
//! Banded Matrices through Memory-Aware Bulge-Chasing on GPUs* (2025), the one-stage reduction *Efficient GPU-Centered Singular
//! Value Decomposition Using the Divide-and-Conquer Method*. On the CPU, vectors of a bidiagonal whose values are apart come from twisted
//! factorisations (Dhillon and Parlett, Linear Algebra Appl. 387, 2004). The reduction tree of communication-avoiding QR (Demmel, Grigori,
//! Hoemmen and Langou 2012) replaces the panel's chain of tiles.
//!
//! # Triangles
//!
//! [`triangular`] multiplies by a triangular matrix, and solves with one, in place (BLAS's `trmm` and `trsm`).
//! [`TriangularGpu`](triangular::TriangularGpu) has the same matrices, element types and backends. A [`GpuMatrix`] stays on the device
//! between operations and between stages ([`GpuMatrix::svdvals`], [`GpuMatrix::svd`], [`GpuMatrix::qr`], [`GpuMatrix::lstsq`], [`GpuBand`]). It can be
//! a buffer that your own shader has filled ([`GpuMatrix::from_buffer`]).
//!
//! # Backends
//!
//! One driver runs over a small set of tile kernels with two implementations: WGSL shaders through `wgpu` (Vulkan, Metal, DX12, WebGPU),
//! and CPU code with `rayon` and run-time SIMD dispatch. [`Backend::Auto`] takes a hardware GPU where it would
//! take less time than the CPU, by estimates of both. The report and the log (crate `log`) say why.
//!
//! In a browser (`wasm32-unknown-unknown`), [`svdvals_gpu_async`](SvdValsGpu::svdvals_gpu_async) uses the GPU through WebGPU. The CPU
//! backend computes on the only thread. There are no environment variables and no files. A crate that depends on `faer` too must turn off
//! faer's feature `rayon` there, because it does not compile for that target.
//!
//! # Coming from another crate
//!
//! Two lines change: the trait in scope, and the call. The singular values have the same descending order. A NaN or an infinity in the
//! matrix is an error that names its place.
//!
//! From `ndarray-linalg` (`SVD::svd` or `SVDDC::svddc`, without vectors). Its LAPACK need no longer be linked:
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
//! | `gpu` | yes | the GPU backend; without it wgpu is not compiled, and every call runs on the CPU (`Backend::Gpu` is an error) |
//! | `avx512` | yes | on the CPU, AVX-512 on processors that have it; without it AVX2 at most, and a shorter build |
//! | `serde` | no | [`TuningTable`]'s `load` and `save`, `SVDVALS_GPU_TUNING`; serde's traits on options, hyperparameters, reports |
//! | `sprs` | no | [`LinearOperator`] for the sparse matrices of crate `sprs` |
//! | `lapack` | no | LAPACK's `dbdsqr` and `dbdsdc` as stage 3 (`Stage3::Bdsqr`, `Stage3::Bdsdc`); the binary chooses its LAPACK |
//! | `lapack-openblas` | no | the same, linked to the system's OpenBLAS |
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    not(feature = "gpu"),
    allow(clippy::infallible_destructuring_match, reason = "a place has one more variant with a GPU")
)]
#![deny(missing_docs)]
#![cfg_attr(
    not(feature = "gpu"),
    allow(dead_code, reason = "the model and the layouts have parts that the GPU backend alone uses")
)]

// The LAPACK that the feature `lapack-openblas` links.
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

#[cfg(feature = "ndarray")]
pub use api::{
    batch::{StackSvd, SvdValsBatchGpu},
    ndarray::ArraySvd,
    row_blocks::{ArrayFit, ArrayRows},
};
#[cfg(feature = "faer")]
pub use api::{
    batch::{
        svd_batch, svd_batch_async, svd_batch_each, svd_batch_each_async, svd_batch_report, svd_batch_report_async,
        svdvals_batch, svdvals_batch_async, svdvals_batch_each, svdvals_batch_each_async, svdvals_batch_report,
        svdvals_batch_report_async,
    },
    faer::MatSvd,
    row_blocks::{MatFit, MatRows},
};
#[cfg(feature = "gpu")]
pub use api::{gpu_band::GpuBand, gpu_lstsq::GpuLstsq, gpu_matrix::GpuMatrix, gpu_qr::GpuQr, gpu_svd::GpuSvd};
#[cfg(feature = "gpu")]
pub use gpu::device::{
    adapter::{AdapterChoice, DeviceLimits},
    context::GpuContext,
};
/// The `wgpu` that [`GpuContext`] uses. A caller's `wgpu` must have the same version.
#[cfg(feature = "gpu")]
pub use wgpu;
pub use {
    algo::bidiagonal::{Bidiagonal, Stage3},
    api::{
        chase_steps::{ChaseCycle, ChaseSteps},
        element::Element,
        leading::{LeadingSvd, leading_svd},
        lstsq::{Lstsq, LstsqGpu},
        operators::{Centered, ProductOf, RowVisitor, RowsOf},
        qr::{Qr, QrGpu},
        row_blocks::{RowBlocks, RowsFit},
        row_sketch::{RowSketch, RowsSketched},
        svd::SvdGpu,
        svdvals::SvdValsGpu,
    },
    base::{
        clock::StageSeconds,
        error::{Result, SvdError, Unfinished},
        number::{HalfStorage, Number, RealElement, Scalar},
        operator::{LinearOperator, OperatorError},
        stage::Stage,
        watch::{CancelFlag, Progress, ProgressFn},
    },
    cost::counts::Counts,
    plan::{
        batch::BatchReport,
        options::{Backend, LstsqOptions, QrOptions, RunOptions, Signs, SvdOptions, Vectors},
        report::{Iteration, SvdReport},
        route::{Orthogonal, Preconditioner, Reduction, Route, Solver, TallReduction},
        tuning_table::{PartialTuning, TuningEntry, TuningTable},
    },
    tile::{
        band::Band,
        panel_tree::PanelTree,
        products::Products,
        tuning::{CpuTuning, GpuTuning, Tuning},
    },
};

/// The README's examples, compiled and run as doc tests.
#[cfg(all(doctest, feature = "ndarray", feature = "faer", feature = "gpu"))]
#[doc = include_str!("../README.md")]
struct Readme;

/// The kernels of both backends, for the tests that compare them. Not part of the public API.
#[doc(hidden)]
pub mod internals {
    #[cfg(feature = "gpu")]
    pub use crate::gpu::kernels::{GpuKernels, fixed::products_in_fixed_point, recursive::sliced_rows};
    pub use crate::{
        algo::{band_to_bidiag::band_to_bidiag, one_stage::*, reflectors::*, to_band::to_band, vectors::*},
        base::blas::{Op, Side},
        cpu::{
            kernels::CpuKernels, least_squares::multiply_fixed::products_in_fixed_point as products_in_fixed_point_on_cpu,
            recursive::slice_lines::sliced_rows as sliced_rows_on_cpu,
        },
        tile::{band_layout::*, chase_schedule::*, kernels::*, one_stage::*, panel_tree::*},
    };
}
