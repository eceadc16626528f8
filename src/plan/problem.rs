//! The size of a problem, as far as the choice of the backend depends on it.

use std::borrow::Cow;

#[cfg(feature = "gpu")]
use crate::{
    base::{element_kind::ElementKind, error::Result},
    gpu::{
        device::context::GpuContext,
        kernels::triangular::required_triangular_bytes,
        limits::{dense_bytes, required_band_bytes, required_bytes, required_svd_bytes},
    },
    tile::tuning::Tuning,
};

/// What is to be computed, by its shapes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Problem {
    /// Any stages of an m x n matrix.
    Dense { m: usize, n: usize },
    /// The decomposition of an m x n matrix with vectors, `full` ones if U or V is to be unitary.
    Svd { m: usize, n: usize, full: bool },
    /// The QR factorisation of an m x n matrix, perhaps by products of low precision.
    Qr { m: usize, n: usize, by_products: bool },
    /// Least squares with an m x n matrix and p right-hand sides, and perhaps the rows of a ridge.
    LeastSquares { m: usize, n: usize, p: usize, ridge: bool },
    /// Stage 2 of a band.
    Band { n: usize, bandwidth: usize },
    /// A triangular operation, by the shapes of A and B.
    Triangular { a: (usize, usize), b: (usize, usize) },
}

/// Smaller sides below this do not pay on a GPU: its dispatches alone (about 3 n in stage 2) take longer than the CPU needs.
const GPU_WORTHWHILE: usize = 1024;

/// Minimum flops of a triangular operation on a GPU. From here on the transfers, about n^2 / 2 + 2 n k entries, take little time beside the
/// CPU's computation, which is tens of milliseconds.
const TRIANGULAR_WORTHWHILE: f64 = 2e9;

impl Problem {
    /// The order that determines the hyperparameters.
    #[cfg(feature = "gpu")]
    pub fn order(&self) -> usize {
        match *self {
            Problem::Dense { m, n }
            | Problem::Svd { m, n, .. }
            | Problem::Qr { m, n, .. }
            | Problem::LeastSquares { m, n, .. } => m.min(n),
            Problem::Band { n, .. } => n,
            Problem::Triangular { a, .. } => a.0,
        }
    }

    /// Whether the device multiplies by low precision.
    #[cfg(feature = "gpu")]
    pub fn is_by_products(&self) -> bool {
        matches!(self, Problem::Qr { by_products: true, .. })
    }

    /// The reason why a GPU gains nothing, if so. It allocates no memory if the problem may be short.
    pub fn too_small(&self) -> Option<Cow<'static, str>> {
        match *self {
            Problem::Dense { m, n }
            | Problem::Svd { m, n, .. }
            | Problem::Qr { m, n, .. }
            | Problem::LeastSquares { m, n, .. }
                if m.min(n) >= GPU_WORTHWHILE =>
            {
                None
            }
            Problem::Band { n, .. } if n >= GPU_WORTHWHILE => None,
            Problem::Dense { .. }
            | Problem::Svd { .. }
            | Problem::Qr { .. }
            | Problem::LeastSquares { .. }
            | Problem::Band { .. } => Some("a smaller side below 1024 gains nothing on a GPU".into()),
            Problem::Triangular { a: (order, _), b: (rows, cols) } => {
                let flops = order as f64 * rows as f64 * cols as f64;
                let limit = TRIANGULAR_WORTHWHILE;
                (flops < limit).then(|| format!("{flops:.1e} flops gain nothing on a GPU (from {limit:.0e} on they do)").into())
            }
        }
    }

    /// Bytes on a device, stored as `kind`; an error if the device cannot hold them.
    #[cfg(feature = "gpu")]
    pub fn required_bytes(&self, kind: ElementKind, context: &GpuContext, tuning: &Tuning) -> Result<u64> {
        match *self {
            Problem::Dense { m, n } => required_bytes(kind, context, m.max(n), m.min(n), tuning),
            Problem::Svd { m, n, full } => required_svd_bytes(kind, context, (m.max(n), m.min(n)), m < n, full, tuning),
            Problem::Qr { m, n, .. } => Ok(dense_bytes(kind, context, (m, n), m < n, tuning)?.saturating_mul(2)),
            Problem::LeastSquares { m, n, p, ridge } if m >= n => {
                let rows = if ridge { m.saturating_add(n) } else { m };
                dense_bytes(kind, context, (rows, n.saturating_add(p)), false, tuning)
            }
            Problem::LeastSquares { m, n, ridge, .. } => {
                let rows = if ridge { m.saturating_add(n) } else { n };
                Ok(dense_bytes(kind, context, (rows, m), false, tuning)?.saturating_mul(2))
            }
            Problem::Band { n, bandwidth } => required_band_bytes(kind, context, n, bandwidth, tuning),
            Problem::Triangular { a, b } => required_triangular_bytes(kind, context, a, b, tuning),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The message names the limit.
    #[test]
    fn the_reason_names_the_limit() {
        let n = GPU_WORTHWHILE;
        assert!(Problem::Dense { m: 2 * n, n }.too_small().is_none());
        let reason = Problem::Dense { m: n - 1, n: 2 * n }.too_small();
        assert!(reason.is_some_and(|reason| reason.contains(&format!("below {GPU_WORTHWHILE} "))));
        assert!(Problem::Band { n: n - 1, bandwidth: 9 }.too_small().is_some());
    }
}
