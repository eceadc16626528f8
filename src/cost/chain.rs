//! What a workgroup does one after the other.

use crate::base::element_kind::ElementKind;

/// What one workgroup does one after the other. A part of a shader is either bound by latency, and counts in `steps`, or by the instructions
/// that its warps have to issue, and counts in `alone` or `issued`; parts add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chain {
    /// Barriers of the workgroup.
    pub barriers: u64,
    /// Barriers that also make stores to global memory visible (`storageBarrier`).
    pub storage_barriers: u64,
    /// Dependent round trips to global memory.
    pub round_trips: u64,
    /// Dependent arithmetic operations.
    pub steps: u64,
    /// Instructions of one warp that the others wait for.
    pub alone: u64,
    /// Instructions that every thread issues.
    pub issued: u64,
}

/// Dependent operations that a read of workgroup memory takes as long as.
pub(super) const READ: u64 = 10;

/// Real multiply-adds in a multiply-add of `S`'s arithmetic.
pub(super) fn fmas(kind: ElementKind) -> u64 {
    if kind.is_complex() { 4 } else { 1 }
}
