//! Counters of a call's dispatches and transfers.

use std::fmt;

/// Counters of dispatches, submissions and transfers between host and GPU.
///
/// ```
/// let none = svdvals_gpu::Counts::default();
/// assert_eq!(none.to_string(), "0 dispatches in 0 submissions; bytes: 0 uploaded, 0 read back, 0 of parameters");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Counts {
    /// Compute dispatches.
    pub dispatches: u64,
    /// Command buffers submitted.
    pub submissions: u64,
    /// Bytes of matrices uploaded.
    pub bytes_uploaded: u64,
    /// Bytes of results read back.
    pub bytes_read_back: u64,
    /// Bytes of kernel parameters.
    pub bytes_parameters: u64,
}

impl Counts {
    /// Adds those of another call.
    pub(crate) fn add(&mut self, other: &Counts) {
        let Counts { dispatches, submissions, bytes_uploaded, bytes_read_back, bytes_parameters } = *other;
        self.dispatches += dispatches;
        self.submissions += submissions;
        self.bytes_uploaded += bytes_uploaded;
        self.bytes_read_back += bytes_read_back;
        self.bytes_parameters += bytes_parameters;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { dispatches, submissions, bytes_uploaded, bytes_read_back, bytes_parameters } = self;
        write!(
            f,
            "{dispatches} dispatches in {submissions} submissions; bytes: {bytes_uploaded} uploaded, {bytes_read_back} read back, \
             {bytes_parameters} of parameters"
        )
    }
}
