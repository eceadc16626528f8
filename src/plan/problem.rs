//! The size of a problem, as far as the choice of the backend depends on it.

#[cfg(feature = "gpu")]
use crate::{
    algo::krylov::Asked,
    base::{element_kind::ElementKind, error::Result},
    cost::cholesky::parts,
    gpu::{
        device::context::GpuContext,
        kernels::triangular::required_triangular_bytes,
        limits::{dense_bytes, required_band_bytes, required_bytes, required_svd_bytes},
        matrix::matrix_bytes,
    },
    plan::options::RunOptions,
    tile::tuning::Tuning,
};

/// What is to be computed, by its shapes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Problem {
    /// Any stages of an m x n matrix.
    Dense { m: usize, n: usize },
    /// The decomposition of an m x n matrix with vectors, `full` ones if U or V is to be unitary.
    Svd { m: usize, n: usize, full: bool },
    /// `count` leading triples of an m x n matrix by so many steps of an iteration.
    Leading { m: usize, n: usize, count: usize, steps: usize },
    /// The QR factorisation of an m x n matrix, perhaps by products of low precision.
    Qr { m: usize, n: usize, by_products: bool },
    /// Least squares with an m x n matrix and p right-hand sides, and perhaps the rows of a ridge.
    LeastSquares { m: usize, n: usize, p: usize, ridge: bool },
    /// Stage 2 of a band.
    Band { n: usize, bandwidth: usize },
    /// A triangular operation, by the shapes of A and B.
    Triangular { a: (usize, usize), b: (usize, usize) },
}

#[cfg(feature = "gpu")]
impl Problem {
    /// The order that determines the hyperparameters.
    pub fn order(&self) -> usize {
        match *self {
            Problem::Dense { m, n }
            | Problem::Svd { m, n, .. }
            | Problem::Leading { m, n, .. }
            | Problem::Qr { m, n, .. }
            | Problem::LeastSquares { m, n, .. } => m.min(n),
            Problem::Band { n, .. } => n,
            Problem::Triangular { a, .. } => a.0,
        }
    }

    /// The hyperparameters on a GPU.
    pub fn tuning(&self, run: &RunOptions, kind: ElementKind, context: &GpuContext) -> Result<Tuning> {
        match self {
            Problem::Qr { .. } | Problem::LeastSquares { .. } => run.tuning_of_factors(kind, context, self.order()),
            _ => run.tuning_for_adapter(kind, context, self.order()),
        }
    }

    /// Whether the device multiplies by low precision.
    pub fn is_by_products(&self) -> bool {
        matches!(self, Problem::Qr { by_products: true, .. })
    }

    /// Bytes on a device, stored as `kind`; an error if the device cannot hold them.
    pub fn required_bytes(&self, kind: ElementKind, context: &GpuContext, tuning: &Tuning) -> Result<u64> {
        match *self {
            Problem::Dense { m, n } => required_bytes(kind, context, m.max(n), m.min(n), tuning),
            Problem::Svd { m, n, full } => required_svd_bytes(kind, context, (m.max(n), m.min(n)), m < n, full, tuning),
            Problem::Leading { m, n, count, .. } => {
                let asked = Asked::new(count, (m, n), 1.0, 0);
                let ([of_u, of_v], products) = (asked.columns(), parts(m.max(n)).len().saturating_mul(asked.block));
                // The matrix, the bases, copies of their columns, and parts of products of columns.
                let all = [
                    ((m, n), m < n),
                    ((m.max(n), of_u), true),
                    ((m.min(n), of_v), true),
                    ((m.max(n), asked.kept().max(asked.block)), true),
                    ((of_v, products), true),
                ];
                all.into_iter()
                    .try_fold(0u64, |sum, (size, by_rows)| Ok(sum.saturating_add(matrix_bytes(kind, context, size, by_rows)?)))
            }
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
