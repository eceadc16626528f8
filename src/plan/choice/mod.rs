//! The choice of the backend by seconds: `seconds.rs` has those of the CPU and of a GPU, for problems that are not too small for either to matter.

#[cfg(feature = "gpu")]
pub(crate) mod seconds;

use std::borrow::Cow;

use crate::{base::element_kind::ElementKind, plan::problem::Problem};

/// Why a backend was chosen. Most reasons allocate no memory, because some matrices take less than a microsecond.
pub(crate) type Reason = Cow<'static, str>;

/// The reason for the CPU if the problem is so small that nothing is measured or opened. It allocates no memory: some matrices take less than a
/// microsecond.
pub(crate) const TOO_SMALL: &str = "too small to gain from any GPU";

/// A bound of `lines`, and the rates of a slow core: with them the CPU takes less than a millisecond for a problem that is too small, and every GPU
/// call takes that long.
const SMALL: f64 = 1e-3;
const SLOW: (f64, f64) = (10e9, 5e9);

/// Whether no GPU gains anything, whatever the processor.
pub(crate) fn is_too_small(kind: ElementKind, problem: Problem) -> bool {
    let (m, n, p) = match problem {
        Problem::Dense { m, n } | Problem::Svd { m, n, full: false } | Problem::Qr { m, n, .. } => (m.max(n), m.min(n), 0),
        Problem::Svd { m, n, full: true } => (m.max(n), m.max(n), 0),
        Problem::Leading { m, n, count, .. } => (m.max(n), m.min(n), count.saturating_add(10)),
        Problem::LeastSquares { m, n, p, ridge } => (m.max(n) + if ridge { n } else { 0 }, m.min(n), p),
        Problem::Band { n, .. } => (n, n, 0),
        Problem::Triangular { a, b } => (b.0.max(b.1), a.0, 0),
    };
    let (m, n, p) = (m as f64, n as f64, p as f64);
    let (products, lines) = match problem {
        Problem::Dense { .. } => (4.0 * m * n * n, 900.0 * n * n),
        Problem::Svd { .. } => (15.0 * m * n * n, 3900.0 * n * n),
        Problem::Leading { steps, .. } => (steps as f64 * (6.0 * m * n * p + 40.0 * m * p * p), 0.0),
        Problem::Qr { .. } | Problem::LeastSquares { .. } => (5.0 * m * n * n + 8.0 * m * n * p, 250.0 * n * n),
        Problem::Band { bandwidth, .. } => (0.0, (25.0 * bandwidth as f64 + 600.0) * n * n),
        Problem::Triangular { b, .. } => (n * b.0 as f64 * b.1 as f64, 0.0),
    };
    of_pair(kind) * (products / SLOW.0 + lines / SLOW.1) < SMALL
}

/// Flops of complex numbers, in those of real ones.
fn of_pair(kind: ElementKind) -> f64 {
    if kind.is_complex() { 4.0 } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small problems of every kind are, and large ones are not.
    #[test]
    fn small_problems() {
        let all = |k: usize| {
            [
                Problem::Dense { m: k, n: k },
                Problem::Svd { m: k, n: k, full: false },
                Problem::Svd { m: k, n: k, full: true },
                Problem::Leading { m: k, n: k, count: 1, steps: 5 },
                Problem::Qr { m: k, n: k, by_products: false },
                Problem::LeastSquares { m: k, n: k, p: 1, ridge: true },
                Problem::Band { n: k, bandwidth: 4 },
                Problem::Triangular { a: (k, k), b: (k, k) },
            ]
        };
        for kind in [ElementKind::F16, ElementKind::F32, ElementKind::F64, ElementKind::C32, ElementKind::C64] {
            for (small, large) in all(16).into_iter().zip(all(1000)) {
                assert!(is_too_small(kind, small) && !is_too_small(kind, large), "{kind:?} {small:?}");
            }
            let tall = |m| Problem::Dense { m, n: 2 };
            assert!(is_too_small(kind, tall(1000)) && !is_too_small(kind, tall(1 << 30)));
            assert!(is_too_small(kind, Problem::Dense { m: 0, n: usize::MAX }));
        }
    }
}
