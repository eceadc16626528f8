//! A problem's size, as far as the choice of its place depends on it.

use std::borrow::Cow;

#[cfg(feature = "gpu")]
use crate::{
    base::{error::Result, number::Number},
    gpu::{
        device::context::GpuContext,
        kernels::triangular::required_triangular_bytes,
        storage::{required_band_bytes, required_bytes},
    },
    tile::tuning::Tuning,
};

/// What is to be computed, by its shapes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Problem {
    /// Any stages of an m x n matrix.
    Dense { m: usize, n: usize },
    /// Stage 2 of a band.
    Band { n: usize, bandwidth: usize },
    /// A triangular operation, by the shapes of A and B.
    Triangular { a: (usize, usize), b: (usize, usize) },
}

/// Sides below which a GPU does not pay: its dispatches alone (about 3 n in stage 2) take longer than the CPU needs.
const GPU_WORTHWHILE: usize = 1024;

/// Flops of a triangular operation from which the way to a GPU and back, about n^2 / 2 + 2 n k entries, is short beside what the CPU needs:
/// its time for them is then tens of milliseconds.
const TRIANGULAR_WORTHWHILE: f64 = 2e9;

impl Problem {
    /// The order by which hyperparameters are chosen.
    #[cfg(feature = "gpu")]
    pub fn order(&self) -> usize {
        match *self {
            Problem::Dense { m, n } => m.min(n),
            Problem::Band { n, .. } => n,
            Problem::Triangular { a, .. } => a.0,
        }
    }

    /// Why it gains nothing on a GPU, if it does not. In words that need no memory where the problem may be short.
    pub fn too_small(&self) -> Option<Cow<'static, str>> {
        match *self {
            Problem::Dense { m, n } if m.min(n) >= GPU_WORTHWHILE => None,
            Problem::Band { n, .. } if n >= GPU_WORTHWHILE => None,
            Problem::Dense { .. } | Problem::Band { .. } => Some("a smaller side below 1024 gains nothing on a GPU".into()),
            Problem::Triangular { a: (order, _), b: (rows, cols) } => {
                let flops = order as f64 * rows as f64 * cols as f64;
                let limit = TRIANGULAR_WORTHWHILE;
                (flops < limit).then(|| format!("{flops:.1e} flops gain nothing on a GPU (from {limit:.0e} on they do)").into())
            }
        }
    }

    /// Bytes that it takes on a device stored as `S`, or that the device cannot have it.
    #[cfg(feature = "gpu")]
    pub fn required_bytes<S: Number>(&self, context: &GpuContext, tuning: &Tuning) -> Result<u64> {
        match *self {
            Problem::Dense { m, n } => required_bytes::<S>(context, m.max(n), m.min(n), tuning),
            Problem::Band { n, bandwidth } => required_band_bytes::<S>(context, n, bandwidth, tuning),
            Problem::Triangular { a, b } => required_triangular_bytes::<S>(context, a, b, tuning),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words name the number.
    #[test]
    fn the_reason_names_the_limit() {
        let n = GPU_WORTHWHILE;
        assert!(Problem::Dense { m: 2 * n, n }.too_small().is_none());
        let reason = Problem::Dense { m: n - 1, n: 2 * n }.too_small();
        assert!(reason.is_some_and(|reason| reason.contains(&format!("below {GPU_WORTHWHILE} "))));
        assert!(Problem::Band { n: n - 1, bandwidth: 9 }.too_small().is_some());
    }
}
