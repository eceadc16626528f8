//! The whole algorithm, generic over the backend's kernels.
//!
//! ```text
//! 0  scale            A <- 2^k A, so that max|a_ij| is near 1 (base/scale.rs)
//! 1  to_band          A = Q1 B P1^H; for a tall matrix, of its triangular factor
//! 2  band_to_bidiag   B = Q2 C P2^H
//! 3  svdvals          singular values of C; divide by the scale
//! ```
//!
//! Or `one_stage` in place of stages 1 and 2: A = Q C P1^H.

use faer::{Mat, MatRef};

use crate::{
    algo::{
        band_to_bidiag::band_to_bidiag,
        bidiag::{self, Known},
        bidiagonal::{Bidiagonal, Stage3},
        leading::Leading,
        one_stage::{apply_one_stage, one_stage},
        reflectors::{Phases, apply_stage_1, apply_stage_2, keep_stage_1},
        to_band::{qr_first, to_band, triangular_factor},
        vectors::{Applied, VectorKernels},
    },
    base::{
        blas::{Op, Side},
        clock::{Clock, StageSeconds},
        element_kind::ElementKind,
        error::{Result, SvdError},
        number::{Re, RealElement, Scalar},
        stage::Stage,
        watch::Watch,
    },
    tile::{
        kernels::{ComplexBidiagonal, StageKernels, TileKernels, Transfers},
        tuning::Tuning,
    },
};

/// The input of a call: a matrix with m >= n that can be copied to a backend.
pub(crate) trait Source<K: TileKernels>: Sync {
    /// Rows and columns.
    fn shape(&self) -> (usize, usize);
    /// Copies the matrix, multiplied by the power of two `scale`, to the backend.
    fn upload(&self, kernels: &K, scale: f64) -> Result<K::Dense>;
}

impl<T: Scalar, K: Transfers<T>> Source<K> for MatRef<'_, T> {
    fn shape(&self) -> (usize, usize) {
        MatRef::shape(self)
    }

    fn upload(&self, kernels: &K, scale: f64) -> Result<K::Dense> {
        kernels.upload(*self, Re::<T>::from_double(scale))
    }
}

/// A backend and the options of a call.
pub(crate) struct Driver<'a, K> {
    pub kernels: &'a K,
    pub tuning: &'a Tuning,
    pub watch: &'a Watch,
    /// Whether the reduction to bidiagonal form has one stage.
    pub one_stage: bool,
    /// The method of stage 3; None: on the backend, without a copy of the bidiagonal to the host.
    pub stage3: Option<Stage3>,
    /// The values that the call wants.
    pub leading: Leading,
    /// Whether to measure the seconds of each stage.
    pub timed: bool,
    /// Whether to keep a copy of the matrix for the left vectors, if the backend computes them.
    pub left: bool,
}

/// A matrix in the backend's memory after stages 1 and 2, or several of one shape; or a band after stage 2.
pub(crate) struct Reduced<K: TileKernels> {
    /// The matrix of `rows` rows with the reflectors of stage 1, if they are kept.
    pub dense: Option<K::Dense>,
    pub rows: usize,
    /// The bidiagonal, with the reflectors of stage 2 if they are kept.
    pub band: K::Banded,
    /// The order, and the bandwidth before stage 2.
    pub n: usize,
    pub bandwidth: usize,
}

/// How many of the values, descending, have vectors that are wanted.
pub(crate) type Wanted<'a> = &'a (dyn Fn(&[f64]) -> usize + Sync);

/// The wanted values, descending, rounded to the arithmetic's precision, with the right singular vectors that were wanted.
pub(crate) struct Found<K: TileKernels> {
    pub values: Vec<f64>,
    /// n x k, if any were asked for.
    pub right: Option<K::Dense>,
    /// Whether the backend has found those of the matrix at once, not those of its bidiagonal, which reflectors are then applied to.
    is_transformed: bool,
    /// The scaled matrix, if it was to be kept.
    pub copy: Option<K::Dense>,
    pub seconds: StageSeconds,
}

impl<K: VectorKernels> Driver<'_, K> {
    /// The wanted singular values of `a`, and its right singular vectors V = P1 P2 D2 V_C if some are wanted, where C = D1 |C| D2^H and
    /// |C| = U_C S V_C^T. `scale` is the result of stage 0. The caller has reported the start of stage 1.
    pub async fn svd(&self, a: &dyn Source<K>, scale: f64, wanted: Option<Wanted<'_>>) -> Result<Found<K>> {
        let mut clock = Clock::new(self.timed);
        let mut seconds = StageSeconds::default();
        let (m, n) = a.shape();

        let dense = a.upload(self.kernels, scale)?;
        let copy = if wanted.is_some() && self.left { self.kernels.copy(&dense)? } else { None };
        seconds.upload = self.lap(&mut clock).await?;
        if self.one_stage {
            let found = self.svd_in_one_stage(dense, (m, n), scale, wanted, seconds).await?;
            return Ok(Found { copy, ..found });
        }

        let reduced = self.reduce(dense, (m, n), wanted.is_some(), &mut seconds).await?;
        Ok(Found { copy, ..self.svd_of_reduced(reduced, scale, wanted, seconds).await? })
    }

    /// Stages 1 and 2 of a scaled m x n matrix in the backend's memory, or of several, whose reflectors are kept if `keep`.
    pub async fn reduce(
        &self,
        mut dense: K::Dense,
        (m, n): (usize, usize),
        keep: bool,
        seconds: &mut StageSeconds,
    ) -> Result<Reduced<K>> {
        let mut clock = Clock::new(self.timed);
        let rows = tall_first(self.kernels, &mut dense, m, n, self.tuning)?;
        if keep {
            keep_stage_1(self.kernels, &mut dense, (rows, n), self.tuning)?;
        }
        to_band(self.kernels, &mut dense, rows, n, self.tuning)?;
        let bandwidth = self.tuning.bandwidth(n);
        let band = self.kernels.pack_band(&dense, n, bandwidth, self.tuning.tile_width)?;
        let dense = keep.then_some(dense);
        seconds.to_band += self.lap(&mut clock).await?;
        let band = self.reduce_band(band, (n, bandwidth), keep, seconds).await?;
        Ok(Reduced { dense, rows, band, n, bandwidth })
    }

    /// Stage 2 of a scaled band in the backend's memory, or of several.
    async fn reduce_band(
        &self,
        mut band: K::Banded,
        (n, bandwidth): (usize, usize),
        keep: bool,
        seconds: &mut StageSeconds,
    ) -> Result<K::Banded> {
        let mut clock = Clock::new(self.timed);
        self.watch.begin(Stage::BandToBidiag)?;
        if keep {
            self.kernels.keep_chase(&mut band, &[Side::Right])?;
        }
        band_to_bidiag(self.kernels, &mut band, n, bandwidth, self.tuning.tile_width)?;
        if self.timed || self.watch.is_on() {
            seconds.band_to_bidiag += self.lap(&mut clock).await?;
        }
        Ok(band)
    }

    /// Stage 3 of one matrix, and the right vectors if some are wanted, whose reflectors are kept then. `seconds` are those so far.
    async fn svd_of_reduced(
        &self,
        reduced: Reduced<K>,
        scale: f64,
        wanted: Option<Wanted<'_>>,
        seconds: StageSeconds,
    ) -> Result<Found<K>> {
        let apply = |x: &mut K::Dense| self.apply_reflectors(&reduced, x);
        let q: Option<Applied<'_, K::Dense>> = if reduced.dense.is_some() { Some(&apply) } else { None };
        let mut found = self.svd_of_bidiagonal(&reduced.band, scale, wanted, q).await?;
        found.seconds.add(&seconds);
        if let (Some(x), false) = (&mut found.right, found.is_transformed) {
            self.transform_back(&reduced, x, &mut found.seconds).await?;
        }
        Ok(found)
    }

    /// X <- P1 P2 X, with the kept reflectors of a matrix, or of as many as X is; or P2 X for a band.
    pub async fn transform_back(&self, reduced: &Reduced<K>, x: &mut K::Dense, seconds: &mut StageSeconds) -> Result<()> {
        let mut clock = Clock::new(self.timed);
        self.apply_reflectors(reduced, x)?;
        if self.timed {
            seconds.back_transformation += self.lap(&mut clock).await?;
        }
        Ok(())
    }

    fn apply_reflectors(&self, reduced: &Reduced<K>, x: &mut K::Dense) -> Result<()> {
        let &Reduced { ref dense, rows, ref band, n, bandwidth } = reduced;
        apply_stage_2(self.kernels, band, (n, bandwidth), self.tuning, Side::Right, Op::NoTrans, x)?;
        match dense {
            Some(dense) => apply_stage_1(self.kernels, dense, (rows, n), self.tuning, Side::Right, Op::NoTrans, x),
            None => Ok(()),
        }
    }

    /// The rest of [`svd`](Self::svd), by the one-stage reduction of a matrix on the backend. Its seconds count as those of stage
    /// 2.
    async fn svd_in_one_stage(
        &self,
        mut dense: K::Dense,
        (m, n): (usize, usize),
        scale: f64,
        wanted: Option<Wanted<'_>>,
        mut seconds: StageSeconds,
    ) -> Result<Found<K>> {
        let mut clock = Clock::new(self.timed);
        let rows = tall_first(self.kernels, &mut dense, m, n, self.tuning)?;
        if self.timed || self.watch.is_on() {
            seconds.to_band = self.lap(&mut clock).await?;
        }
        self.watch.begin(Stage::BandToBidiag)?;
        let mut panels = one_stage(self.kernels, &mut dense, (rows, n), self.tuning, wanted.is_some())?;
        let band = self.kernels.pack_band(&dense, n, BIDIAGONAL, BIDIAGONAL)?;
        let kept = wanted.is_some().then_some(dense);
        if self.timed || self.watch.is_on() {
            seconds.band_to_bidiag = self.lap(&mut clock).await?;
        }
        let mut found = self.svd_of_bidiagonal(&band, scale, wanted, None).await?;
        drop(band);
        if let (Some(x), Some(dense)) = (&mut found.right, kept) {
            let mut clock = Clock::new(self.timed);
            apply_one_stage(self.kernels, &dense, &mut panels, n, self.tuning, x)?;
            drop((dense, panels));
            if self.timed {
                found.seconds.back_transformation = self.lap(&mut clock).await?;
            }
        }
        let StageSeconds { upload, to_band, band_to_bidiag, .. } = seconds;
        let band_to_bidiag = band_to_bidiag + found.seconds.band_to_bidiag;
        found.seconds = StageSeconds { upload, to_band, band_to_bidiag, ..found.seconds };
        Ok(found)
    }

    /// Stages 2 and 3 of a scaled band in the backend's memory, of order `n` and the given bandwidth.
    pub async fn svdvals_of_band(&self, band: K::Banded, of: (usize, usize), scale: f64) -> Result<(Vec<f64>, StageSeconds)> {
        let Found { values, seconds, .. } = self.svd_of_band(band, of, scale, None).await?;
        Ok((values, seconds))
    }

    /// [`svdvals_of_band`](Self::svdvals_of_band), with the right vectors P2 D2 V_C of the band.
    pub async fn svd_of_band(
        &self,
        band: K::Banded,
        (n, bandwidth): (usize, usize),
        scale: f64,
        wanted: Option<Wanted<'_>>,
    ) -> Result<Found<K>> {
        let mut seconds = StageSeconds::default();
        let band = self.reduce_band(band, (n, bandwidth), wanted.is_some(), &mut seconds).await?;
        let reduced = Reduced { dense: None, rows: n, band, n, bandwidth };
        self.svd_of_reduced(reduced, scale, wanted, seconds).await
    }

    /// Stage 3 of a bidiagonal in band storage, with D2 V_C, or Q D2 V_C. The seconds of its read-back count as those of stage 2.
    async fn svd_of_bidiagonal(
        &self,
        band: &K::Banded,
        scale: f64,
        wanted: Option<Wanted<'_>>,
        q: Option<Applied<'_, K::Dense>>,
    ) -> Result<Found<K>> {
        let mut clock = Clock::new(self.timed);
        let mut seconds = StageSeconds::default();
        self.watch.begin(Stage::Svdvals)?;
        let read_back = match (self.stage3, wanted) {
            (None, None) => None,
            _ => Some(self.kernels.bidiagonal(band).await?),
        };
        let values = match (self.stage3, &read_back) {
            (Some(method), Some(c)) => {
                let (diagonal, superdiagonal) = c.moduli();
                seconds.band_to_bidiag += self.lap(&mut clock).await?;
                stage_three(self.kernels.kind(), (diagonal, superdiagonal), scale, method, self.leading, self.watch)?
            }
            _ => {
                let mut values = self.kernels.svdvals(band, self.leading.count.max(1)).await?;
                values.sort_unstable_by(|x, y| y.total_cmp(x));
                let mut values = unscaled(self.kernels.kind(), values, scale, "singular values")?;
                values.truncate(self.leading.of(&values));
                values
            }
        };
        seconds.svdvals = self.lap(&mut clock).await?;
        let (right, is_transformed) = match (wanted, read_back) {
            (Some(wanted), Some(c)) => {
                self.watch.begin(Stage::Vectors)?;
                let of_bidiagonal = bidiag::scaled_powers(self.kernels.kind(), &values, scale, 1);
                let (right, is_transformed) = self.kernels.right_of_bidiagonal(c, &of_bidiagonal, wanted(&values), q).await?;
                if self.timed {
                    seconds.bidiagonal_vectors = self.lap(&mut clock).await?;
                }
                (Some(right), is_transformed)
            }
            _ => {
                self.watch.end();
                (None, false)
            }
        };
        Ok(Found { values, right, is_transformed, copy: None, seconds })
    }

    /// [`lap`](Self::lap) if the seconds are needed.
    pub async fn lap_if_timed(&self, clock: &mut Clock) -> Result<f64> {
        if self.timed { self.lap(clock).await } else { Ok(0.0) }
    }

    /// Waits until the backend is idle, and returns the seconds since the last lap.
    pub async fn lap(&self, clock: &mut Clock) -> Result<f64> {
        self.kernels.finish().await?;
        Ok(clock.restart())
    }
}

/// The bandwidth of a bidiagonal matrix.
pub(crate) const BIDIAGONAL: usize = 1;

/// Stage 1, preceded by a QR factorisation if the matrix is tall.
pub(crate) fn stage_one<K: StageKernels>(kernels: &K, a: &mut K::Dense, m: usize, n: usize, tuning: &Tuning) -> Result<()> {
    let rows = tall_first(kernels, a, m, n, tuning)?;
    to_band(kernels, a, rows, n, tuning)
}

/// The QR factorisation of a tall matrix. Returns the rows that are left.
pub(crate) fn tall_first<K: StageKernels>(kernels: &K, a: &mut K::Dense, m: usize, n: usize, tuning: &Tuning) -> Result<usize> {
    if !qr_first(m, n) {
        return Ok(m);
    }
    triangular_factor(kernels, a, m, n, tuning)?;
    kernels.keep_rows(a, n);
    Ok(n)
}

/// The `k` leading right singular vectors of a bidiagonal matrix with phases, transposed: (D2 V_C)^T, k x n. Their rows are contiguous where
/// reflectors are applied to them. They are found in double precision, but for the products of divide and conquer, which are in that of `T`.
pub(crate) fn right_of_bidiagonal<T: Scalar>(c: &ComplexBidiagonal, k: usize, known: Known<'_>, watch: &Watch) -> Result<Mat<T>> {
    let phases = Phases::of(&c.diagonal, &c.superdiagonal);
    bidiag::right_vectors(&phases.diagonal, &phases.superdiagonal, &phases.right, k, known, watch)
}

/// Stage 3 on the host, for the diagonal and the superdiagonal of a bidiagonal in double precision that is scaled by `scale`: the wanted values,
/// rounded to this arithmetic's precision.
pub(crate) fn stage_three(
    kind: ElementKind,
    (diagonal, superdiagonal): (Vec<f64>, Vec<f64>),
    scale: f64,
    method: Stage3,
    leading: Leading,
    watch: &Watch,
) -> Result<Vec<f64>> {
    let bidiagonal = Bidiagonal::new(diagonal, superdiagonal)?;
    leading.select(bidiagonal.diagonal().len(), &|leading| {
        let values = match kind.is_double() {
            true => bidiagonal.svdvals_for::<f64>(method, leading, watch)?,
            false => bidiagonal.svdvals_for::<f32>(method, leading, watch)?,
        };
        unscaled(kind, values, scale, "singular values")
    })
}

/// `values / scale`, rounded to this arithmetic's precision.
pub(crate) fn unscaled(kind: ElementKind, mut values: Vec<f64>, scale: f64, what: &'static str) -> Result<Vec<f64>> {
    let unscale = 1.0 / scale;
    for x in &mut values {
        *x *= unscale;
        if !kind.is_double() {
            *x = f64::from(*x as f32);
        }
    }
    if values.iter().all(|x| x.is_finite()) { Ok(values) } else { Err(SvdError::overflow(kind, what)) }
}

/// Values that have been rounded to `R`.
pub(crate) fn narrowed<R: RealElement>(values: &[f64]) -> Vec<R> {
    values.iter().map(|&x| R::from_double(x)).collect()
}
