//! Wall-clock seconds of a call and of its stages.

use std::fmt;

use web_time::Instant;

/// Wall-clock seconds, stage by stage.
///
/// ```
/// let none = svdvals_gpu::StageSeconds::default();
/// assert!(none.total == 0.0 && none.to_string().starts_with("0.000000 s: scale 0.000000, "));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct StageSeconds {
    /// Stage 0: search for NaN, infinities and the largest entry. Zero on the CPU where a later stage includes the search: for a tall,
    /// narrow matrix (`to_band`), and for other small matrices in single or half precision (`band_to_bidiag`).
    pub scale: f64,
    /// Copy of the scaled matrix into the backend's memory.
    pub upload: f64,
    /// Stage 1: dense to band, including the QR factorisation of a tall matrix.
    pub to_band: f64,
    /// Stage 2: band to bidiagonal, including the read-back of the bidiagonal. For a small matrix on the CPU, the direct reduction of the
    /// dense matrix to bidiagonal form (see [`direct_up_to`](crate::CpuTuning::direct_up_to)). With
    /// [`Reduction::OneStage`](crate::Reduction), that reduction.
    pub band_to_bidiag: f64,
    /// Stage 3: singular values of the bidiagonal.
    pub svdvals: f64,
    /// Singular vectors of the bidiagonal, by twisted factorisations (on the CPU, where its values are apart) or divide and conquer. This and the next two are zero unless
    /// [`svd_gpu`](crate::SvdGpu) computes vectors.
    pub bidiagonal_vectors: f64,
    /// Back-transformation of these vectors through stages 2 and 1. With [`formed_beside`](crate::GpuTuning::formed_beside) it is within the seconds of
    /// the bidiagonal's vectors, and this is zero.
    pub back_transformation: f64,
    /// The left singular vectors from the right ones: the product A V, and its orthonormal columns. After a GPU, with the read-back of both sides.
    pub left_vectors: f64,
    /// The QR factorisation of [`qr_gpu`](crate::QrGpu), including the upload and the read-back of R. Such a call has no stages 1 to 3.
    pub qr: f64,
    /// The solution of [`lstsq_gpu`](crate::LstsqGpu) after its factorisation, whose seconds are `qr`: triangular solves or CGLS, the residuals,
    /// and singular values.
    pub solve: f64,
    /// Products with blocks of columns, of a call with [`SvdOptions::accuracy`](crate::SvdOptions::accuracy), and what is computed from them.
    pub iteration: f64,
    /// The whole call.
    pub total: f64,
}

impl StageSeconds {
    /// Adds the seconds of another call.
    pub(crate) fn add(&mut self, other: &StageSeconds) {
        let StageSeconds { scale, upload, to_band, band_to_bidiag, svdvals, total, .. } = other;
        let StageSeconds { bidiagonal_vectors, back_transformation, left_vectors, qr, solve, iteration, .. } = other;
        self.scale += scale;
        self.upload += upload;
        self.to_band += to_band;
        self.band_to_bidiag += band_to_bidiag;
        self.svdvals += svdvals;
        self.bidiagonal_vectors += bidiagonal_vectors;
        self.back_transformation += back_transformation;
        self.left_vectors += left_vectors;
        self.qr += qr;
        self.solve += solve;
        self.iteration += iteration;
        self.total += total;
    }
}

impl fmt::Display for StageSeconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StageSeconds { scale, upload, to_band, band_to_bidiag, svdvals, total, .. } = self;
        let StageSeconds { bidiagonal_vectors, back_transformation, left_vectors, qr, solve, iteration, .. } = self;
        if *iteration != 0.0 && *to_band == 0.0 && *band_to_bidiag == 0.0 {
            return write!(f, "{total:.6} s: scale {scale:.6}, upload {upload:.6}, iteration {iteration:.6}");
        }
        if *qr != 0.0 {
            write!(f, "{total:.6} s: scale {scale:.6}, qr {qr:.6}")?;
            return if *solve == 0.0 { Ok(()) } else { write!(f, ", solve {solve:.6}") };
        }
        write!(
            f,
            "{total:.6} s: scale {scale:.6}, upload {upload:.6}, to_band {to_band:.6}, band_to_bidiag {band_to_bidiag:.6}, svdvals {svdvals:.6}"
        )?;
        let of_vectors = [
            ("bidiagonal_vectors", bidiagonal_vectors),
            ("back_transformation", back_transformation),
            ("left_vectors", left_vectors),
            ("iteration", iteration),
        ];
        let mut computed = of_vectors.into_iter().filter(|&(_, &seconds)| seconds != 0.0);
        computed.try_for_each(|(stage, seconds)| write!(f, ", {stage} {seconds:.6}"))
    }
}

/// A lap timer. If disabled, it reads no clock and returns zeros.
pub(crate) struct Clock(Option<Instant>);

impl Clock {
    pub(crate) fn new(timed: bool) -> Clock {
        Clock(timed.then(Instant::now))
    }

    /// The seconds since the last lap.
    pub(crate) fn restart(&mut self) -> f64 {
        let seconds = self.seconds();
        *self = Clock::new(self.0.is_some());
        seconds
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.0.map_or(0.0, |start| start.elapsed().as_secs_f64())
    }
}

/// What the host does from here to the end of the scope, which goes to the log with its milliseconds (target `svdvals_gpu::host`, level trace).
pub(crate) struct HostSpan(&'static str, Clock);

/// The log's target.
const HOST: &str = "svdvals_gpu::host";

impl HostSpan {
    pub(crate) fn of(what: &'static str) -> HostSpan {
        HostSpan(what, Clock::new(log::log_enabled!(target: HOST, log::Level::Trace)))
    }
}

impl Drop for HostSpan {
    fn drop(&mut self) {
        let HostSpan(what, clock) = self;
        if clock.0.is_some() {
            log::trace!(target: HOST, "{what}: {:.3} ms", 1e3 * clock.seconds());
        }
    }
}
