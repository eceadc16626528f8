//! What the driver of the decomposition with vectors needs of a backend, besides the tile kernels.

use crate::{
    base::{element_kind::ElementKind, error::Result, number::RealElement},
    tile::{
        kernels::{ComplexBidiagonal, TileKernels},
        tuning::Tuning,
    },
};

/// Applies the unitary matrix Q = P1 P2 of stages 1 and 2 to a matrix in the backend's memory: X <- Q X.
pub type Applied<'a, D> = &'a (dyn Fn(&mut D) -> Result<()> + Sync);

/// Kernels of singular vectors.
pub trait VectorKernels: TileKernels {
    /// The right vectors D2 V_C of the `k` largest values of a bidiagonal matrix C = D1 |C| D2^H, |C| = U_C S V_C^T, in the backend's memory
    /// (n x k), with descending values, of which a backend may use the approximations `values`; or Q D2 V_C, and true, from a backend that forms Q
    /// while it waits for a plan of the host.
    fn right_of_bidiagonal(
        &self,
        c: ComplexBidiagonal,
        values: &[f64],
        k: usize,
        q: Option<Applied<'_, Self::Dense>>,
    ) -> impl Future<Output = Result<(Self::Dense, bool)>> + Send;

    /// A copy of a matrix in the backend's memory, for the left vectors. None if the backend computes these from the caller's matrix.
    ///
    /// # Errors
    /// As [`keep_reflectors`](TileKernels::keep_reflectors).
    fn copy(&self, a: &Self::Dense) -> Result<Option<Self::Dense>>;
}

/// The order from which real V are left as the reflectors give them; see [`needs_step`].
const LARGE: usize = 1000;

/// Whether V (n x k) is made orthonormal once more. Thousands of reflectors leave a part of n eps, most of which one step removes: in complex
/// arithmetic 0.8 to 1.1, in real arithmetic up to 1.1 for small n, and at most 0.75 (LAPACK's gesdd: 0.5) from [`LARGE`] on, where a step
/// for all columns takes a seventh of the call.
pub(crate) fn needs_step(kind: ElementKind, (n, k): (usize, usize)) -> bool {
    kind.is_complex() || n < LARGE || 4 * k <= n
}

/// The largest product of two right vectors of the bidiagonal that is allowed. If V is made orthonormal once `more`, the square of that is left, and else
/// all of it.
pub(crate) fn drift(kind: ElementKind, more: bool) -> f64 {
    let eps = if kind.is_double() { f64::EPSILON } else { f64::from(f32::EPSILON) };
    if more { eps.sqrt() / 4.0 } else { eps / 16.0 }
}

/// Whether Q of the reflectors (n x n) is formed while the host plans the k vectors of the bidiagonal, which it is then multiplied by.
pub(crate) fn forms_beside(kind: ElementKind, (n, k): (usize, usize), tuning: &Tuning) -> bool {
    tuning.gpu.formed_beside > 0 && k > 0 && k >= n.div_ceil(2) && !kind.is_half()
}

/// Columns of values down to this part of the largest are corrected by Gram-Schmidt. They lack a few eps divided by it in orthogonality, and
/// one step leaves the squares of that, which are then below a hundredth of eps.
const LEAST: [f64; 2] = [1e-2, 1e-6];

/// How many of the first k of the descending `values` are large enough that a Gram-Schmidt step makes the columns of A V orthogonal.
pub(crate) fn large_values<R: RealElement>(kind: ElementKind, values: &[R], k: usize) -> usize {
    let least = LEAST[usize::from(kind.is_double())] * values.first().map_or(0.0, |s| s.to_double());
    values.iter().take_while(|s| s.to_double() > 0.0 && s.to_double() >= least).count().min(k)
}
