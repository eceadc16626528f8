//! The stages of a call.

use std::fmt;

/// A stage of the algorithm.
///
/// ```
/// assert_eq!(svdvals_gpu::Stage::BandToBidiag.to_string(), "band_to_bidiag");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Stage {
    /// Stage 1: dense to band, including the upload and the QR factorisation of a tall matrix.
    ToBand,
    /// Stage 2: band to bidiagonal. For a small matrix on the CPU, the direct reduction to bidiagonal form (see
    /// [`direct_up_to`](crate::CpuTuning::direct_up_to)). With [`Reduction::OneStage`](crate::Reduction), that reduction.
    BandToBidiag,
    /// Stage 3: the singular values of the bidiagonal.
    Svdvals,
    /// The singular vectors: those of the bidiagonal, their transformation back through stages 2 and 1, and the left ones.
    Vectors,
    /// The QR factorisation of [`QrGpu`](crate::QrGpu) and [`LstsqGpu`](crate::LstsqGpu).
    Qr,
    /// The solution of [`LstsqGpu`](crate::LstsqGpu) after the factorisation.
    Solve,
    /// Products with blocks of columns, with [`SvdOptions::accuracy`](crate::SvdOptions::accuracy) and of [`leading_svd`](crate::leading_svd). Its fraction is
    /// that of the digits of the residuals. The stages of a reduction may follow.
    Iteration,
}

impl Stage {
    pub(crate) const ALL: [Stage; 7] =
        [Stage::ToBand, Stage::BandToBidiag, Stage::Svdvals, Stage::Vectors, Stage::Qr, Stage::Solve, Stage::Iteration];

    /// The place of the stage in the order of its call, and in [`StageFlops`].
    pub(crate) fn place(self) -> usize {
        match self {
            Stage::ToBand | Stage::Qr | Stage::Iteration => 0,
            Stage::BandToBidiag | Stage::Solve => 1,
            Stage::Svdvals => 2,
            Stage::Vectors => 3,
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Stage::ToBand => "to_band",
            Stage::BandToBidiag => "band_to_bidiag",
            Stage::Svdvals => "svdvals",
            Stage::Vectors => "vectors",
            Stage::Qr => "qr",
            Stage::Solve => "solve",
            Stage::Iteration => "iteration",
        })
    }
}
