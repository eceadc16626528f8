//! The whole algorithm, generic over the backend's kernels.
//!
//! ```text
//! 0  scale            A <- 2^k A, so that max|a_ij| is near 1 (base/scale.rs)
//! 1  to_band          A = Q1 B P1^H; for a tall matrix, of its triangular factor
//! 2  band_to_bidiag   B = Q2 C P2^H
//! 3  svdvals          singular values of C; divide by the scale
//! ```

use faer::MatRef;
use num_traits::Float;

use crate::{
    algo::{
        band_to_bidiag::band_to_bidiag,
        bidiagonal::{Bidiagonal, Stage3},
        to_band::{to_band, triangular_factor},
    },
    base::{
        clock::{Clock, StageSeconds},
        error::{Result, SvdError},
        number::{Re, RealElement},
        watch::{Stage, Watch},
    },
    tile::{
        kernels::{HeldBy, StageKernels, TileKernels},
        tuning::Tuning,
    },
};

/// The input of a call: a matrix with m >= n that can be copied to a backend.
pub(crate) trait Source<K: TileKernels> {
    /// Rows and columns.
    fn shape(&self) -> (usize, usize);
    /// Copies the matrix, multiplied by the power of two `scale`, to the backend.
    fn upload(&self, kernels: &K, scale: Re<K::Storage>) -> Result<K::Dense>;
}

impl<T: HeldBy<K>, K: TileKernels> Source<K> for MatRef<'_, T> {
    fn shape(&self) -> (usize, usize) {
        MatRef::shape(self)
    }

    fn upload(&self, kernels: &K, scale: Re<T>) -> Result<K::Dense> {
        kernels.upload(*self, scale)
    }
}

/// A backend and the options of a call.
pub(crate) struct Driver<'a, K> {
    pub kernels: &'a K,
    pub tuning: &'a Tuning,
    pub watch: &'a Watch,
    /// The method of stage 3; None: on the backend, without a copy of the bidiagonal to the host.
    pub stage3: Option<Stage3>,
    /// Whether to measure the seconds of each stage.
    pub timed: bool,
}

impl<K: TileKernels> Driver<'_, K> {
    /// All singular values of `a`, descending, and the seconds of stages 1 to 3. `scale` is the result of stage 0. The caller has reported
    /// the start of stage 1.
    pub async fn svdvals(&self, a: &impl Source<K>, scale: Re<K::Storage>) -> Result<(Vec<Re<K::Storage>>, StageSeconds)> {
        let mut clock = Clock::new(self.timed);
        let mut seconds = StageSeconds::default();
        let (m, n) = a.shape();

        let mut dense = a.upload(self.kernels, scale)?;
        seconds.upload = self.lap(&mut clock).await?;

        stage_one(self.kernels, &mut dense, m, n, self.tuning)?;
        let bandwidth = self.tuning.bandwidth(n);
        let band = self.kernels.pack_band(&dense, n, bandwidth, self.tuning.tile_width)?;
        drop(dense);
        seconds.to_band = self.lap(&mut clock).await?;

        let (values, of_band) = self.svdvals_of_band(band, (n, bandwidth), scale).await?;
        Ok((values, StageSeconds { upload: seconds.upload, to_band: seconds.to_band, ..of_band }))
    }

    /// Stages 2 and 3 of a scaled band in the backend's memory, of order `n` and the given bandwidth.
    pub async fn svdvals_of_band(
        &self,
        mut band: K::Banded,
        (n, bandwidth): (usize, usize),
        scale: Re<K::Storage>,
    ) -> Result<(Vec<Re<K::Storage>>, StageSeconds)> {
        let mut clock = Clock::new(self.timed);
        let mut seconds = StageSeconds::default();

        self.watch.begin(Stage::BandToBidiag)?;
        band_to_bidiag(self.kernels, &mut band, n, bandwidth, self.tuning.tile_width)?;
        if self.timed || self.watch.is_on() {
            seconds.band_to_bidiag = self.lap(&mut clock).await?;
        }

        self.watch.begin(Stage::Svdvals)?;
        let values = match self.stage3 {
            None => {
                let mut values = self.kernels.svdvals(&band).await?;
                values.sort_unstable_by(|x, y| y.total_cmp(x));
                unscaled(values, scale, "singular values")?
            }
            Some(method) => {
                let (diagonal, superdiagonal) = self.kernels.bidiagonal(&band).await?.moduli();
                seconds.band_to_bidiag += self.lap(&mut clock).await?;
                stage_three(diagonal, superdiagonal, scale, method, self.watch)?
            }
        };
        seconds.svdvals = self.lap(&mut clock).await?;
        self.watch.end();
        Ok((values, seconds))
    }

    /// Waits until the backend is idle, and returns the seconds since the last lap.
    async fn lap(&self, clock: &mut Clock) -> Result<f64> {
        self.kernels.finish().await?;
        Ok(clock.restart())
    }
}

/// Whether a QR factorisation first reduces the flops: for m >= 5/3 n (Chan 1982; LAPACK's `gesdd` uses 11/6).
pub(crate) fn qr_first(m: usize, n: usize) -> bool {
    m > n && 3 * m as u128 >= 5 * n as u128
}

/// Stage 1, preceded by a QR factorisation if the matrix is tall.
pub(crate) fn stage_one<K: StageKernels>(kernels: &K, a: &mut K::Dense, m: usize, n: usize, tuning: &Tuning) -> Result<()> {
    if qr_first(m, n) {
        triangular_factor(kernels, a, m, n, tuning)?;
        kernels.keep_rows(a, n);
        to_band(kernels, a, n, n, tuning)
    } else {
        to_band(kernels, a, m, n, tuning)
    }
}

/// Stage 3 on the host, for a bidiagonal in double precision that is scaled by `scale`.
pub(crate) fn stage_three<R: RealElement>(
    diagonal: Vec<f64>,
    superdiagonal: Vec<f64>,
    scale: R,
    method: Stage3,
    watch: &Watch,
) -> Result<Vec<R>> {
    let values = Bidiagonal::new(diagonal, superdiagonal)?.svdvals_for::<R>(method, watch)?;
    unscaled(values, scale, "singular values")
}

/// `values / scale`, rounded to `R`.
pub(crate) fn unscaled<R: RealElement>(values: Vec<f64>, scale: R, what: &'static str) -> Result<Vec<R>> {
    let unscale = 1.0 / scale.to_double();
    let values: Vec<R> = values.into_iter().map(|x| R::from_double(x * unscale)).collect();
    if values.iter().any(|x| !Float::is_finite(*x)) { Err(SvdError::overflow::<R>(what)) } else { Ok(values) }
}
