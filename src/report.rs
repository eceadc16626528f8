//! What a call did, beside its values.

use std::{borrow::Cow, fmt};

use half::f16;
use num_complex::Complex;
use web_time::Instant;

use crate::{
    cost::{Cost, Kernel},
    error::Result,
    kernels::TileKernels,
    options::{Backend, Tuning},
};

/// The values, with what was run to get them and how long each stage took. Printed, all but the values, in two or three lines, and a table
/// of kernels where those were timed.
///
/// ```
/// # #[cfg(feature = "faer")] {
/// use svdvals_gpu::{Backend, SvdOptions, SvdValsGpu};
/// let a = faer::Mat::<f64>::identity(20, 20);
/// let report = a.svdvals_gpu_report(&SvdOptions::default())?;
/// assert_eq!(report.values[0], 1.0);
/// assert_eq!(report.backend, Backend::Cpu); // a 20 x 20 matrix gains nothing on a GPU
/// println!("{report}");
/// assert!(report.to_string().starts_with("20 x 20, held as f64, on the CPU (a smaller side below 1024"));
/// # }
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct SvdReport<V> {
    /// The singular values, descending.
    pub values: V,
    /// What ran stages 1 and 2: [`Backend::Gpu`] or [`Backend::Cpu`].
    pub backend: Backend,
    /// Why that backend.
    pub reason: Cow<'static, str>,
    /// The adapter's name, where a GPU ran.
    pub adapter: Option<String>,
    /// What the matrix was stored as on the backend: `f16`, `f32`, `f64`, `c32` or `c64`.
    pub storage: &'static str,
    /// The hyperparameters used.
    pub tuning: Tuning,
    /// Wall-clock seconds of each stage.
    pub seconds: StageSeconds,
    /// What was sent to the GPU and back; zeros on the CPU.
    pub counts: Counts,
    /// Seconds of each kernel by the GPU's clock, where [`SvdOptions::time_kernels`](crate::SvdOptions) asked for them and the device has
    /// a clock; else empty.
    pub kernel_seconds: Vec<(Kernel, f64)>,
    /// Rows and columns of the matrix.
    pub shape: (usize, usize),
    /// Whether a GPU did stage 3 as well.
    pub stage3_on_device: bool,
}

impl<V> SvdReport<V> {
    /// What this matrix costs on a GPU, with these hyperparameters: for a call that ran on a hardware GPU, what it dispatched.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{SvdOptions, SvdValsGpu, cost::{DeviceModel, Kernel}};
    /// let a = faer::Mat::<f32>::identity(300, 300);
    /// let cost = a.svdvals_gpu_report(&SvdOptions::default())?.cost()?;
    /// println!("{cost}\nup to {} workgroups of unmqr at once", cost.kernel(Kernel::Unmqr).most_workgroups);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Cost::new`].
    pub fn cost(&self) -> Result<Cost> {
        let ((m, n), device) = (self.shape, self.stage3_on_device);
        match self.storage {
            "f16" => Cost::with_stage3::<f16>(m, n, &self.tuning, device),
            "f64" => Cost::with_stage3::<f64>(m, n, &self.tuning, device),
            "c32" => Cost::with_stage3::<Complex<f32>>(m, n, &self.tuning, device),
            "c64" => Cost::with_stage3::<Complex<f64>>(m, n, &self.tuning, device),
            _ => Cost::with_stage3::<f32>(m, n, &self.tuning, device),
        }
    }

    /// The same report with its values in another form.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{SvdOptions, SvdReport, SvdValsGpu};
    /// let a = faer::Mat::<f64>::identity(3, 3);
    /// let report: SvdReport<Vec<f64>> = a.svdvals_gpu_report(&SvdOptions::default())?.map(|s| s.iter().copied().collect());
    /// # #[cfg(feature = "serde")]
    /// assert!(serde_json::to_string(&report).unwrap().starts_with(r#"{"values":[1.0,1.0,1.0],"backend":"cpu","#));
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn map<W>(self, values: impl FnOnce(V) -> W) -> SvdReport<W> {
        let SvdReport { values: v, backend, reason, adapter, storage, tuning, seconds, .. } = self;
        let SvdReport { counts, kernel_seconds, shape, stage3_on_device, .. } = self;
        SvdReport {
            values: values(v),
            backend,
            reason,
            adapter,
            storage,
            tuning,
            seconds,
            counts,
            kernel_seconds,
            shape,
            stage3_on_device,
        }
    }
}

/// What ran, on what, why, the seconds of each stage, and of each kernel where they were asked for; no values.
impl<V> fmt::Display for SvdReport<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((m, n), storage, reason) = (self.shape, self.storage, &self.reason);
        let device = self.adapter.as_deref().unwrap_or("the CPU");
        writeln!(f, "{m} x {n}, held as {storage}, on {device} ({reason})")?;
        write!(f, "{}", self.seconds)?;
        if self.backend == Backend::Gpu {
            write!(f, "\n{}", self.counts)?;
        }
        if !self.kernel_seconds.is_empty()
            && let Ok(cost) = self.cost()
        {
            write!(f, "\n{}", cost.measured(&self.kernel_seconds))?;
        }
        Ok(())
    }
}

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
    /// Stage 0: search for NaN, infinities and the largest entry. (Zero on the CPU for a tall, narrow matrix, where `to_band` does this on
    /// the way, and for a single column in single or half precision, where `band_to_bidiag` does.)
    pub scale: f64,
    /// Copy of the scaled matrix to where the backend works on it.
    pub upload: f64,
    /// Stage 1: dense to band, the QR of a tall matrix included.
    pub to_band: f64,
    /// Stage 2: band to bidiagonal (or the whole way for a small matrix, see [`Tuning::direct`]), the reading back of the bidiagonal included.
    pub band_to_bidiag: f64,
    /// Stage 3: singular values of the bidiagonal.
    pub svdvals: f64,
    /// All of the call.
    pub total: f64,
}

impl fmt::Display for StageSeconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StageSeconds { scale, upload, to_band, band_to_bidiag, svdvals, total } = self;
        write!(
            f,
            "{total:.6} s: scale {scale:.6}, upload {upload:.6}, to_band {to_band:.6}, band_to_bidiag {band_to_bidiag:.6}, svdvals {svdvals:.6}"
        )
    }
}

/// What was sent to a GPU and back.
///
/// ```
/// let none = svdvals_gpu::Counts::default();
/// assert_eq!(none.to_string(), "0 dispatches in 0 submissions; bytes: 0 uploaded, 0 read back, 0 of parameters");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Counts {
    /// Compute dispatches.
    pub dispatches: u64,
    /// Command buffers submitted.
    pub submissions: u64,
    /// Bytes of matrix uploaded.
    pub bytes_uploaded: u64,
    /// Bytes of results read back.
    pub bytes_read_back: u64,
    /// Bytes of kernel parameters.
    pub bytes_parameters: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { dispatches, submissions, bytes_uploaded, bytes_read_back, bytes_parameters } = self;
        write!(
            f,
            "{dispatches} dispatches in {submissions} submissions; bytes: {bytes_uploaded} uploaded, {bytes_read_back} read back, \
             {bytes_parameters} of parameters"
        )
    }
}

/// Seconds from lap to lap, with the backend idle at each; or zeros, and no clock is read.
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

    pub(crate) async fn lap<K: TileKernels>(&mut self, kernels: &K) -> Result<f64> {
        kernels.finish().await?;
        Ok(self.restart())
    }
}
