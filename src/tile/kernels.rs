//! The tile kernels of stages 1 and 2, and those of the one-stage reduction, as traits.
//!
//! The drivers ([`crate::algo`]) are generic over [`StageKernels`]. `src/cpu/` and `shaders/` contain the two versions of each kernel. A
//! test runs each pair on the same data.

use std::ops::Range;

use faer::{Mat, MatRef};
use num_complex::Complex;

use crate::{
    base::{
        blas::{Op, Side},
        element_kind::ElementKind,
        error::{Result, SvdError},
        number::{Re, RealElement, Scalar},
    },
    tile::{
        band::Band,
        chase_schedule::ReductionStep,
        deferred::{DeferredPanel, DeferredProduct},
        one_stage::{Line, Trailing},
        panel_tree::Level,
        tuning::Tuning,
    },
};

/// The kernels that the drivers of stages 1 and 2 call.
///
/// The associated types are the backend's matrices. They own their workspace, so that no kernel allocates.
pub trait StageKernels {
    /// A dense matrix in the backend's memory, with stage 1's workspace.
    type Dense: Send + Sync;
    /// A band in the backend's memory, with room for bulges.
    type Banded: Send + Sync;

    /// The largest number of stacked rows of a level that the workspace of [`geqrt`](Self::geqrt) holds. The drivers split a longer level
    /// into pieces for [`geqrt`](Self::geqrt) and [`unmqr`](Self::unmqr).
    fn rows_at_once(&self) -> usize {
        usize::MAX
    }

    /// Factors every block X (r x w) of `level`: X = (I - V T V^H) R with V unit lower trapezoidal (r x w) and T upper triangular
    /// (w x w). The block's first w rows become R, the others zero; V and T stay in the workspace for [`unmqr`](Self::unmqr).
    ///
    /// If the matrix [keeps](TileKernels::keep_reflectors) its reflectors, V overwrites the zeros, and T is stored beside the matrix. The V
    /// of a leaf is below its diagonal. The V of a node is in the triangles of the R factors that it has eliminated.
    fn geqrt(&self, a: &mut Self::Dense, level: &Level) -> Result<()>;

    /// Applies the reflectors of the last [`geqrt`](Self::geqrt) to the trailing matrix, the columns right of the panel: X <- X - V (T^H
    /// (V^H X)) for every block of rows.
    fn unmqr(&self, a: &mut Self::Dense, level: &Level) -> Result<()>;

    /// [`unmqr`](Self::unmqr) of `level`, then [`geqrt`](Self::geqrt) of `next`. If both are levels of one panel, a backend may run them
    /// concurrently.
    fn unmqr_and_geqrt(&self, a: &mut Self::Dense, level: &Level, next: &Level) -> Result<()> {
        self.unmqr(a, level)?;
        self.geqrt(a, next)
    }

    /// Stage 1 of an m x n matrix, m >= n, with [deferred updates](DeferredKernels), if the backend and the hyperparameters have those for it. Otherwise
    /// nothing is done, and the result is false.
    fn to_band_deferred(&self, _a: &mut Self::Dense, _size: (usize, usize), _tuning: &Tuning) -> Result<bool> {
        Ok(false)
    }

    /// The columns of updates that stage 1 of this m x n matrix, m >= n, makes at a time; 0: none are deferred.
    fn deferred_columns(&self, _a: &Self::Dense, _size: (usize, usize), _tuning: &Tuning) -> usize {
        0
    }

    /// Restricts all later operations to the first `rows` rows of `a`. The rows below are zero.
    fn keep_rows(&self, a: &mut Self::Dense, rows: usize);

    /// Copies the upper band of the leading n x n part of `a` into band storage, with zeros elsewhere.
    fn pack_band(&self, a: &Self::Dense, n: usize, bandwidth: usize, tile_width: usize) -> Result<Self::Banded>;

    /// Runs all cycles of one reduction step, in an order that [`ReductionStep`] allows.
    fn chase(&self, band: &mut Self::Banded, step: &ReductionStep) -> Result<()>;
}

/// The kernels of stage 1 with deferred updates (`algo/deferred.rs`), on a matrix [A, L; R, G].
pub trait DeferredKernels: StageKernels {
    /// C <- C - L R for a window C, with the rows of L and the columns of R that it has.
    fn subtract_deferred(&self, a: &mut Self::Dense, product: &DeferredProduct) -> Result<()>;

    /// [`geqrt`](StageKernels::geqrt) of level `k` of a panel, whose V and T stay until those of all levels are joined, and `beside` it a product as in
    /// [`subtract_deferred`](Self::subtract_deferred), outside the panel.
    fn factor_level(&self, a: &mut Self::Dense, k: usize, level: &Level, beside: Option<&DeferredProduct>) -> Result<()>;

    /// Joins the reflectors of a panel's levels to I - V T V^H, whose first columns are those of Q S, for a diagonal matrix S of signs, and the panel's R
    /// to S R. V goes to L, and V T stays for [`multiply_panel`](Self::multiply_panel). If the matrix keeps its reflectors, V is also stored below the
    /// panel's R, as that of a level with one block. Of the part of R in the product that was `beside` the levels there is none left: it becomes zero.
    fn join_reflectors(
        &self,
        a: &mut Self::Dense,
        panel: &DeferredPanel,
        levels: &[Level],
        beside: Option<&DeferredProduct>,
    ) -> Result<()>;

    /// (V T)^H A, for the columns right of the panel, appended to R, and (V T)^H L, in the same rows of G.
    fn multiply_panel(&self, a: &mut Self::Dense, panel: &DeferredPanel) -> Result<()>;
}

/// The kernels of the one-stage reduction (`algo/one_stage.rs`).
pub trait OneStageKernels: StageKernels {
    /// P and R of a panel, with the reflectors' scalars.
    type Panels: Send;

    /// Memory for panels of `width` columns of `a`. If `keep`, the reflectors of the rows are kept.
    ///
    /// # Errors
    /// [`SvdError::OutOfMemory`] or [`SvdError::TooLarge`] if there is no room for it.
    fn panels(&self, a: &Self::Dense, width: usize, keep: bool) -> Result<Self::Panels>;

    /// Completes the product of the reflector before `line`, p <- tau (p - P z), and then computes x = A e - P R^T e, both in the
    /// rows of the line's reflector. p is the last column of P, with z from [`multiply_line`](Self::multiply_line), and e is the
    /// unit vector of the line.
    fn update_line(&self, a: &mut Self::Dense, panels: &mut Self::Panels, line: &Line) -> Result<()>;

    /// Computes the reflector of x, whose v becomes the next column of P, and the products A^T conj(v), for the columns right of
    /// the line, and z = P^T conj(v). The first becomes the next column of R. beta replaces the entry of A.
    fn multiply_line(&self, a: &mut Self::Dense, panels: &mut Self::Panels, line: &Line) -> Result<()>;

    /// Completes the last product of the panel as [`update_line`](Self::update_line) does, and then A <- A - P R^T in the
    /// trailing matrix.
    fn update_trailing(&self, a: &mut Self::Dense, panels: &mut Self::Panels, trailing: &Trailing) -> Result<()>;
}

/// The tile kernels of one backend, with kept reflectors.
///
/// A value of the implementing type is a backend ready to run: a thread pool, or a device with its pipelines.
///
/// Methods that wait for the backend return a future, so that a caller can block or await (see `src/gpu/device/stream.rs`). The CPU's
/// futures are ready at once.
pub trait TileKernels: OneStageKernels + Sync {
    /// Whether the kernels run in the caller's rayon pool.
    const IN_POOL: bool = false;

    /// The storage type of matrices.
    fn kind(&self) -> ElementKind;

    /// Reads the diagonal (n) and the superdiagonal (n - 1) back.
    fn bidiagonal(&self, band: &Self::Banded) -> impl Future<Output = Result<ComplexBidiagonal>> + Send;

    /// Stage 3 on the backend: the `count` largest singular values, or all if there are fewer, in any order, of a band that has been reduced to a
    /// bidiagonal. A value has the same bits for every `count`.
    ///
    /// # Errors
    /// [`SvdError::InvalidOption`] if the backend leaves stage 3 to the host.
    fn svdvals(&self, _band: &Self::Banded, _count: usize) -> impl Future<Output = Result<Vec<f64>>> + Send {
        let reason = "Stage3::Device, but the bidiagonal is not on a GPU";
        std::future::ready(Err(SvdError::invalid("stage3", reason)))
    }

    /// Completes when all earlier work of the backend is complete. Used to time the stages.
    fn finish(&self) -> impl Future<Output = Result<()>> + Send;

    /// Makes all later calls of [`geqrt`](StageKernels::geqrt) keep their reflectors in `a` and beside it. `levels` are the levels of these
    /// calls, in order. By default no reflectors are kept.
    ///
    /// # Errors
    /// [`SvdError::OutOfMemory`] or [`SvdError::TooLarge`] if there is no room for them.
    fn keep_reflectors(&self, a: &mut Self::Dense, levels: &mut dyn Iterator<Item = Level>) -> Result<()>;

    /// C <- op(U) C for the columns of C from `first` on, with the unitary factor U of kept level `k` of `a`: I - V T V^H for every block of
    /// a QR level, and its conjugate for an LQ level. Hence A = U R, or A = L U^H. C has as many rows as A for a QR level, and as many as A
    /// has columns for an LQ level.
    ///
    /// # Errors
    /// [`SvdError::InvalidOption`] if the level was not kept, or C has too few rows.
    fn apply(&self, a: &Self::Dense, k: usize, level: &Level, op: Op, c: &mut Self::Dense, first: usize) -> Result<()>;

    /// [`apply`](Self::apply) of several kept levels, each with its number, in this order, to all columns of C.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    fn apply_levels(&self, a: &Self::Dense, levels: &[(usize, Level)], op: Op, c: &mut Self::Dense) -> Result<()> {
        levels.iter().try_for_each(|(k, level)| self.apply(a, *k, level, op, c, 0))
    }

    /// Makes all later calls of [`chase`](StageKernels::chase) keep their reflectors of these sides, and perhaps of the other one, beside
    /// `band`. By default no reflectors are kept.
    ///
    /// # Errors
    /// As [`keep_reflectors`](Self::keep_reflectors).
    fn keep_chase(&self, band: &mut Self::Banded, sides: &[Side]) -> Result<()>;

    /// C <- op(Q) C (`Side::Left`) or C <- op(P) C (`Side::Right`) for all columns of C, with the unitary factors of kept reduction step
    /// `k` of `band`, B = Q B' P^H. C has n rows.
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

    /// C <- H C for all columns of C, with the product H of the kept reflectors of these `rows` of A, at most the width of a
    /// panel. C has as many rows as A has columns.
    ///
    /// # Errors
    /// [`SvdError::InvalidOption`] if the reflectors were not kept, or C has another number of rows.
    fn apply_row_reflectors(
        &self,
        a: &Self::Dense,
        panels: &mut Self::Panels,
        rows: Range<usize>,
        c: &mut Self::Dense,
    ) -> Result<()>;
}

/// Copies of matrices of `T`, in the type of the arithmetic, between the host and a backend.
pub trait Transfers<T: Scalar>: TileKernels {
    /// Copies `scale * source` to the backend in the memory order of `source`, rounded to the storage type. `scale` is a power of two.
    fn upload(&self, source: MatRef<'_, T>, scale: Re<T>) -> Result<Self::Dense>;

    /// Copies [`scale * a`, `b_scale * b`] to the backend as one matrix, in the memory order of `a`. Both have the same number of rows.
    fn upload_beside(&self, (a, scale): (MatRef<'_, T>, Re<T>), (b, b_scale): (MatRef<'_, T>, Re<T>)) -> Result<Self::Dense> {
        let (m, n) = a.shape();
        let entry = |i: usize, j: usize| match j.checked_sub(n) {
            None => a[(i, j)].times(scale),
            Some(j) => b[(i, j)].times(b_scale),
        };
        let one = Re::<T>::from_double(1.0);
        if a.col_stride().unsigned_abs() < a.row_stride().unsigned_abs() {
            let rows = Mat::from_fn(n + b.ncols(), m, |j, i| entry(i, j));
            self.upload(rows.transpose(), one)
        } else {
            self.upload(Mat::from_fn(m, n + b.ncols(), entry).as_ref(), one)
        }
    }

    /// Copies `scale * band` to the backend, with room for bulges of `tile_width`.
    fn upload_band(&self, band: &Band<T>, scale: Re<T>, tile_width: usize) -> Result<Self::Banded>;

    /// Reads a dense matrix back.
    fn download(&self, a: &Self::Dense) -> Result<Mat<T>>;

    /// Reads the first `rows` rows of a dense matrix back.
    fn download_rows(&self, a: &Self::Dense, rows: usize) -> impl Future<Output = Result<Mat<T>>> + Send;

    /// [`download`](Self::download) for a call that must not block.
    fn download_awaited(&self, a: &Self::Dense) -> impl Future<Output = Result<Mat<T>>> + Send;

    /// Reads the upper band back, multiplied by `scale`.
    fn download_band(&self, band: Self::Banded, bandwidth: usize, scale: Re<T>) -> Result<Band<T>>;
}

/// The diagonal and the superdiagonal of the bidiagonal matrix after stage 2: complex for complex types. It has the same singular values as
/// the matrix of the moduli, because diagonal unitary matrices on both sides remove the phases.
#[derive(Clone, Debug, PartialEq)]
pub struct ComplexBidiagonal {
    /// n entries.
    pub diagonal: Vec<Complex<f64>>,
    /// n - 1 entries.
    pub superdiagonal: Vec<Complex<f64>>,
}

impl ComplexBidiagonal {
    /// The moduli of the diagonal and the superdiagonal: the input of stage 3.
    pub fn moduli(&self) -> (Vec<f64>, Vec<f64>) {
        let moduli = |entries: &[Complex<f64>]| entries.iter().map(|x| x.norm()).collect();
        (moduli(&self.diagonal), moduli(&self.superdiagonal))
    }
}
