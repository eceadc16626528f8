//! The tile kernels that stages 1 and 2 are made of.
//!
//! The drivers ([`crate::algo`]) are written over [`StageKernels`]. `cpu/` and `shaders/` have the two versions of each kernel, and a test
//! runs each pair on the same data.

use faer::{Mat, MatRef};
use num_complex::Complex;

use crate::{
    base::{
        blas::{Op, Side},
        error::{Result, SvdError},
        number::{Number, Re},
    },
    tile::{band::Band, chase_schedule::ReductionStep, panel_tree::Level},
};

/// Elements that a backend `K` can hold: those with the arithmetic of its storage.
pub trait HeldBy<K: TileKernels + ?Sized>: Number<Real = Re<K::Storage>, Scalar = <K::Storage as Number>::Scalar> {}

impl<K, T> HeldBy<K> for T
where
    K: TileKernels + ?Sized,
    T: Number<Real = Re<K::Storage>, Scalar = <K::Storage as Number>::Scalar>,
{
}

/// What the drivers of stages 1 and 2 are written over.
///
/// The matrices are the associated types, which own their workspace, so that no kernel allocates.
pub trait StageKernels {
    /// A dense matrix where the backend keeps it, with stage 1's workspace.
    type Dense: Send;
    /// A band where the backend keeps it, with room for bulges.
    type Banded: Send + Sync;

    /// Most stacked rows of a level that [`geqrt`](Self::geqrt) has room for; a level of more goes through it, and through
    /// [`unmqr`](Self::unmqr), in pieces.
    fn rows_at_once(&self) -> usize {
        usize::MAX
    }

    /// Factors every block X (r x w) of `level`: X = (I - V T V^H) R with V unit lower trapezoidal (r x w) and T upper triangular
    /// (w x w). The block's first w rows become R, the others zero; V and T stay in the workspace for [`unmqr`](Self::unmqr).
    ///
    /// Where the matrix [keeps](TileKernels::keep_reflectors) its reflectors, V stands in the place of the zeros, and T beside the matrix: a
    /// leaf's V below its diagonal, a node's V in the triangles of the R factors that it has eliminated.
    fn geqrt(&self, a: &mut Self::Dense, level: &Level) -> Result<()>;

    /// Applies what [`geqrt`](Self::geqrt) left to the columns right of the panel: X <- X - V (T^H (V^H X)) for every block of rows.
    fn unmqr(&self, a: &mut Self::Dense, level: &Level) -> Result<()>;

    /// [`unmqr`](Self::unmqr) of `level`, then [`geqrt`](Self::geqrt) of `next`; a backend may factor the next level of the same panel beside
    /// the update.
    fn unmqr_and_geqrt(&self, a: &mut Self::Dense, level: &Level, next: &Level) -> Result<()> {
        self.unmqr(a, level)?;
        self.geqrt(a, next)
    }

    /// Leaves all but the first `rows` rows of `a` out of what is still to come: those below are zero.
    fn keep_rows(&self, a: &mut Self::Dense, rows: usize);

    /// Copies the leading n x n upper band of `a` into band storage, zeros elsewhere.
    fn pack_band(&self, a: &Self::Dense, n: usize, bandwidth: usize, tile_width: usize) -> Result<Self::Banded>;

    /// Runs all cycles of one reduction step, in an order that [`ReductionStep`] allows.
    fn chase(&self, band: &mut Self::Banded, step: &ReductionStep) -> Result<()>;
}

/// The tile kernels, as one backend runs them on matrices stored as `Storage`, and the ways there and back.
///
/// A value of the implementing type is a backend ready to run: a thread pool, or a device with its pipelines.
///
/// What waits for the backend is a future, so that a caller may wait too, or not (see `gpu/device/stream.rs`); the CPU's are ready at once.
pub trait TileKernels: StageKernels + Sync {
    /// What matrices are stored as; arithmetic is in its [`Scalar`](Number::Scalar).
    type Storage: Number;

    /// Brings `scale * source` to the backend, in the memory order that it has, rounded to `Storage`. `scale` is a power of two.
    fn upload<T: HeldBy<Self>>(&self, source: MatRef<'_, T>, scale: Re<T>) -> Result<Self::Dense>;

    /// Brings `scale * band` to the backend.
    fn upload_band<T: HeldBy<Self>>(&self, band: &Band<T>, scale: Re<T>, tile_width: usize) -> Result<Self::Banded>;

    /// Reads a dense matrix back as it stands.
    fn download(&self, a: &Self::Dense) -> Result<Mat<<Self::Storage as Number>::Scalar>>;

    /// Reads the upper band back, multiplied by `scale`.
    fn download_band(
        &self,
        band: Self::Banded,
        bandwidth: usize,
        scale: Re<Self::Storage>,
    ) -> Result<Band<<Self::Storage as Number>::Scalar>>;

    /// Reads the diagonal (n) and the superdiagonal (n - 1) back.
    fn bidiagonal(&self, band: &Self::Banded) -> impl Future<Output = Result<ComplexBidiagonal>> + Send;

    /// Stage 3 where the band is, reduced to a bidiagonal: its singular values in any order.
    ///
    /// # Errors
    /// [`SvdError::InvalidOption`] of a backend that leaves stage 3 to the host.
    fn svdvals(&self, _band: &Self::Banded) -> impl Future<Output = Result<Vec<f64>>> + Send {
        let reason = "Stage3::Device, but the bidiagonal is not on a GPU";
        std::future::ready(Err(SvdError::invalid("stage3", reason)))
    }

    /// Done when all that was asked for is, so that stages can be timed.
    fn finish(&self) -> impl Future<Output = Result<()>> + Send;

    /// From now on [`geqrt`](StageKernels::geqrt) leaves its reflectors in `a` and beside it; `levels` are all that it will be called with, in
    /// their order. Without this nothing is kept.
    ///
    /// # Errors
    /// [`SvdError::OutOfMemory`] or [`SvdError::TooLarge`] where there is no room for them.
    fn keep_reflectors(&self, a: &mut Self::Dense, levels: &mut dyn Iterator<Item = Level>) -> Result<()>;

    /// C <- op(U) C for all columns of C, with the unitary factor U of level `k` of those that `a` has kept: I - V T V^H for every block of
    /// a QR level, and its conjugate for an LQ level, so that A = U R, or A = L U^H. C has the rows of A, or as many rows as A has columns.
    ///
    /// # Errors
    /// [`SvdError::InvalidOption`] where the level was not kept, or C has too few rows.
    fn apply(&self, a: &Self::Dense, k: usize, level: &Level, op: Op, c: &mut Self::Dense) -> Result<()>;

    /// From now on [`chase`](StageKernels::chase) keeps its reflectors beside `band`. Without this nothing is kept.
    ///
    /// # Errors
    /// As [`keep_reflectors`](Self::keep_reflectors).
    fn keep_chase(&self, band: &mut Self::Banded) -> Result<()>;

    /// C <- op(Q) C (`Side::Left`) or C <- op(P) C (`Side::Right`) for all columns of C, with the unitary factors of reduction step `k` of
    /// those that `band` has kept, B = Q B' P^H. C has n rows.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    fn apply_chase(
        &self,
        band: &Self::Banded,
        k: usize,
        step: &ReductionStep,
        side: Side,
        op: Op,
        c: &mut Self::Dense,
    ) -> Result<()>;
}

/// The diagonal and the superdiagonal of a bidiagonal matrix as stage 2 leaves it: complex for complex types. Its singular values are those
/// of the moduli, because diagonal unitary matrices on either side take the phases out.
#[derive(Clone, Debug, PartialEq)]
pub struct ComplexBidiagonal {
    /// n entries.
    pub diagonal: Vec<Complex<f64>>,
    /// n - 1 entries.
    pub superdiagonal: Vec<Complex<f64>>,
}

impl ComplexBidiagonal {
    /// The moduli, as stage 3 takes them.
    pub fn moduli(&self) -> (Vec<f64>, Vec<f64>) {
        let moduli = |entries: &[Complex<f64>]| entries.iter().map(|x| x.norm()).collect();
        (moduli(&self.diagonal), moduli(&self.superdiagonal))
    }
}
