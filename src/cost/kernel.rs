//! The kernels, by name.

use std::fmt;

/// A shader.
///
/// ```
/// assert_eq!(svdvals_gpu::cost::Kernel::Unmqr.to_string(), "unmqr");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Kernel {
    /// Stage 1: QR factorisation of the blocks of a panel.
    Geqrt,
    /// Stage 1: application of a panel's reflectors to the trailing matrix.
    Unmqr,
    /// Stage 1: `unmqr` of a level of a panel's tree, beside `geqrt` of the next level.
    UnmqrAndGeqrt,
    /// Stage 1 with deferred updates: a product of L and R, subtracted from a part of the matrix.
    SubtractDeferred,
    /// Stage 1 with deferred updates: `geqrt` of a level of a panel's tree, beside a part of the update by earlier panels.
    GeqrtAndSubtract,
    /// Stage 1 with deferred updates: the reflectors of a panel's tree, joined into one block reflector.
    JoinReflectors,
    /// Stage 1 with deferred updates: the products of the matrix with a panel, in parts.
    MultiplyPanel,
    /// Stage 1 with deferred updates: the sums of these parts.
    AddParts,
    /// Kept reflectors of stage 1, laid out for their deferred application.
    SpreadReflectors,
    /// One stage: a product of the last reflector, and the column or row that is eliminated next.
    UpdateLine,
    /// One stage: its reflector, and the reflector's products with the matrix and the panel.
    MultiplyLine,
    /// One stage: the update of the trailing matrix by a panel.
    UpdateTrailing,
    /// Between stages 1 and 2, or after one stage: dense to band storage.
    PackBand,
    /// Stage 2: a time step of bulge chasing.
    Chase,
    /// After stage 2: band storage to the buffer that is read back.
    UnpackBand,
    /// Stage 3 on the device: the squares of the entries, for the Sturm counts.
    SquareBidiagonal,
    /// Stage 3 on the device: steps of bisection.
    Bisect,
    /// Triangular operations: a matrix product.
    Gemm,
    /// Triangular operations: a small triangle times columns of B.
    Trmm,
    /// Triangular operations: the inverse of a small triangle times columns of B, by substitution.
    Trsm,
    /// [`GpuMatrix`](crate::GpuMatrix): the diagonal, which the host checks for entries that a solve cannot divide by.
    Diagonal,
    /// [`GpuMatrix`](crate::GpuMatrix): the largest entry.
    Largest,
    /// Once a device: whether its `fma` rounds once. No part of a call.
    Fused,
    /// [`GpuMatrix`](crate::GpuMatrix): the scaled copy that stage 1 works on.
    Scale,
    /// [`GpuBand`](crate::GpuBand): the buffer of [`UnpackBand`](Self::UnpackBand) to band storage.
    RepackBand,
    /// Kept reflectors of the one-stage reduction: the triangular factor of a block of them.
    Larft,
    /// Kept reflectors of stage 1 or of one stage: gathered into the workspace of `unmqr`.
    GatherReflectors,
    /// Kept reflectors of stage 2: applied to a matrix.
    ApplyChase,
    /// Vectors: independent matrix products, in one dispatch.
    GemmBatch,
    /// Vectors of the bidiagonal: columns of the parts, in the order of the product.
    GatherColumns,
    /// Vectors of the bidiagonal: rotations of columns.
    RotateColumns,
    /// Vectors of the bidiagonal: the second factors of the products.
    SecularVectors,
    /// Vectors of the bidiagonal: those that are wanted, with phases.
    TakeColumns,
    /// Orthonormal vectors: the factor of a Gram-Schmidt step.
    GramFactor,
    /// CholeskyQR2: Cholesky's factor of a diagonal block, and its inverse.
    Cholesky,
    /// Orthonormal vectors: division by their lengths.
    UnitColumns,
    /// Orthonormal vectors: columns of the identity, for those of Q.
    IdentityColumns,
    /// Copies of vectors.
    CopyWindow,
    /// Batches: the singular values of one matrix in each workgroup.
    Batch,
    /// Batches: the singular vectors of one matrix in each workgroup.
    Jacobi,
    /// Products by low precision: an operand, scaled and rounded or cut into slices.
    SliceLines,
    /// Products by low precision, by cooperative matrices.
    CoopGemm,
    /// [`Preconditioner::Resident`](crate::Preconditioner::Resident): products of the matrix with vectors, in fixed point.
    MultiplyFixed,
}

impl Kernel {
    /// Registers of a thread in f32, by the compiler of NVIDIA's driver 580 for an H100 (`cargo bench --bench gpu -- --probe statistics`).
    pub(crate) fn registers(self) -> u64 {
        match self {
            Kernel::Geqrt | Kernel::UnmqrAndGeqrt | Kernel::GeqrtAndSubtract => 128,
            Kernel::Unmqr | Kernel::GemmBatch => 96,
            Kernel::SubtractDeferred | Kernel::MultiplyPanel | Kernel::JoinReflectors => 96,
            Kernel::Gemm | Kernel::UpdateTrailing | Kernel::ApplyChase | Kernel::Chase => 80,
            _ => 48,
        }
    }

    /// The kernels of a call, in order: those of the values, those that only vectors need, those of batches. With stage 3 on the device, `square_bidiagonal`
    /// and `bisect` replace `unpack_band`. One stage has its three kernels in place of `chase`, and no `geqrt` and `unmqr` unless the matrix is
    /// tall; for vectors, `larft` and `unmqr` in place of `apply_chase`. The last four are those of [`Products`](crate::Products) by low precision.
    ///
    /// ```
    /// use svdvals_gpu::cost::Kernel;
    /// assert_eq!(Kernel::ALL[0].to_string(), "geqrt");
    /// ```
    pub const ALL: [Kernel; 36] = [
        Kernel::Geqrt,
        Kernel::Unmqr,
        Kernel::UnmqrAndGeqrt,
        Kernel::SubtractDeferred,
        Kernel::GeqrtAndSubtract,
        Kernel::JoinReflectors,
        Kernel::MultiplyPanel,
        Kernel::AddParts,
        Kernel::SpreadReflectors,
        Kernel::UpdateLine,
        Kernel::MultiplyLine,
        Kernel::UpdateTrailing,
        Kernel::PackBand,
        Kernel::Chase,
        Kernel::UnpackBand,
        Kernel::SquareBidiagonal,
        Kernel::Bisect,
        Kernel::GatherColumns,
        Kernel::RotateColumns,
        Kernel::SecularVectors,
        Kernel::GemmBatch,
        Kernel::TakeColumns,
        Kernel::ApplyChase,
        Kernel::Larft,
        Kernel::GatherReflectors,
        Kernel::GramFactor,
        Kernel::Cholesky,
        Kernel::UnitColumns,
        Kernel::IdentityColumns,
        Kernel::CopyWindow,
        Kernel::Batch,
        Kernel::Jacobi,
        Kernel::SliceLines,
        Kernel::CoopGemm,
        Kernel::Gemm,
        Kernel::Trsm,
    ];
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kernel::Geqrt => "geqrt",
            Kernel::Unmqr => "unmqr",
            Kernel::UnmqrAndGeqrt => "unmqr_and_geqrt",
            Kernel::SubtractDeferred => "subtract_deferred",
            Kernel::GeqrtAndSubtract => "geqrt_and_subtract",
            Kernel::JoinReflectors => "join_reflectors",
            Kernel::MultiplyPanel => "multiply_panel",
            Kernel::AddParts => "add_parts",
            Kernel::SpreadReflectors => "spread_reflectors",
            Kernel::UpdateLine => "update_line",
            Kernel::MultiplyLine => "multiply_line",
            Kernel::UpdateTrailing => "update_trailing",
            Kernel::PackBand => "pack_band",
            Kernel::Chase => "chase",
            Kernel::UnpackBand => "unpack_band",
            Kernel::SquareBidiagonal => "square_bidiagonal",
            Kernel::Bisect => "bisect",
            Kernel::Gemm => "gemm",
            Kernel::Trmm => "trmm",
            Kernel::Trsm => "trsm",
            Kernel::Diagonal => "diagonal",
            Kernel::Largest => "largest",
            Kernel::Fused => "fused",
            Kernel::Scale => "scale",
            Kernel::RepackBand => "repack_band",
            Kernel::Larft => "larft",
            Kernel::GatherReflectors => "gather_reflectors",
            Kernel::ApplyChase => "apply_chase",
            Kernel::GemmBatch => "gemm_batch",
            Kernel::GatherColumns => "gather_columns",
            Kernel::RotateColumns => "rotate_columns",
            Kernel::SecularVectors => "secular_vectors",
            Kernel::TakeColumns => "take_columns",
            Kernel::GramFactor => "gram_factor",
            Kernel::Cholesky => "cholesky",
            Kernel::UnitColumns => "unit_columns",
            Kernel::IdentityColumns => "identity_columns",
            Kernel::CopyWindow => "copy_window",
            Kernel::Batch => "batch",
            Kernel::Jacobi => "jacobi",
            Kernel::SliceLines => "slice_lines",
            Kernel::CoopGemm => "coop_gemm",
            Kernel::MultiplyFixed => "multiply_fixed",
        })
    }
}
