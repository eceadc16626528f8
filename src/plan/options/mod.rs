//! What a caller may choose: the backend, the context, the hyperparameters.

mod factors;

use std::fmt;

#[cfg(feature = "gpu")]
use crate::gpu::device::context::GpuContext;
use crate::{
    algo::bidiagonal::Stage3,
    base::{
        error::{Result, SvdError},
        number::{HalfStorage, RealElement},
        watch::{CancelFlag, Listen, Progress, ProgressFn},
    },
    plan::{
        route::{Preconditioner, Reduction},
        tuning_table::TuningTable,
    },
    tile::{products::Products, tuning::Tuning},
};

/// Where stages 1 and 2 run.
///
/// ```
/// use svdvals_gpu::{Backend, SvdOptions};
/// assert_eq!(SvdOptions::default().backend, Backend::Auto);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Backend {
    /// A hardware GPU if it can hold the matrix in its element type and the matrix is large enough to gain from it, else the CPU. Never a
    /// software rasteriser. The log and the report say why the CPU was chosen.
    #[default]
    Auto,
    /// A GPU, a software rasteriser if there is no other, or an error.
    Gpu,
    /// The CPU, through rayon, in the thread pool of the caller.
    Cpu,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Backend::Auto => "auto",
            Backend::Gpu => "gpu",
            Backend::Cpu => "cpu",
        })
    }
}

/// The singular vectors that [`svd_gpu`](crate::SvdGpu) computes. A is m x n, and k = min(m, n), or fewer with [`SvdOptions::keep`] or
/// [`SvdOptions::tolerance`].
///
/// | | U | V |
/// | --- | --- | --- |
/// | `Thin` | m x k | n x k |
/// | `Full` | m x m | n x n |
/// | `Left` | m x k | n x 0 |
/// | `Right` | m x 0 | n x k |
///
/// ```
/// assert_eq!(svdvals_gpu::Vectors::default(), svdvals_gpu::Vectors::Thin);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Vectors {
    /// A left and a right singular vector for each value.
    #[default]
    Thin,
    /// Unitary matrices: the thin ones, completed by orthonormal columns.
    Full,
    /// Left singular vectors alone.
    Left,
    /// Right singular vectors alone.
    Right,
}

impl fmt::Display for Vectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Vectors::Thin => "thin",
            Vectors::Full => "full",
            Vectors::Left => "left",
            Vectors::Right => "right",
        })
    }
}

/// The signs of singular vectors. A pair (u_j, v_j) is determined up to a common factor of modulus 1, for real matrices a sign.
///
/// ```
/// assert_eq!(svdvals_gpu::Signs::default(), svdvals_gpu::Signs::Free);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Signs {
    /// As they are computed. They may differ between backends and hyperparameters.
    #[default]
    Free,
    /// The entry of u_j with the largest modulus, the first one on ties, is real and positive. Without a U, that of v_j is. A column that
    /// belongs to no singular value ([`Vectors::Full`]) is treated on its own.
    Largest,
}

impl fmt::Display for Signs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Signs::Free => "free",
            Signs::Largest => "largest",
        })
    }
}

/// Options of a call.
///
/// ```
/// use svdvals_gpu::{Backend, SvdOptions, Tuning};
/// let options = SvdOptions::default().backend(Backend::Cpu).tuning(Tuning::for_cpu::<f32>(100).tile_width(8));
/// assert_eq!(options.tuning.unwrap().tile_width, 8);
/// ```
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default, deny_unknown_fields))]
#[non_exhaustive]
pub struct SvdOptions {
    /// Where to compute.
    pub backend: Backend,
    /// The GPU context; None is [`GpuContext::global`]. Not serialized.
    #[cfg(feature = "gpu")]
    #[cfg_attr(feature = "serde", serde(skip))]
    pub context: Option<GpuContext>,
    /// The hyperparameters. None takes those of the tuning table, or the backend's defaults if the table has none.
    pub tuning: Option<Tuning>,
    /// Hyperparameters by device, type and size. None takes the file that `SVDVALS_GPU_TUNING` names, if it is set (feature `serde`).
    pub tuning_table: Option<TuningTable>,
    /// The storage type of half-precision matrices.
    pub half_storage: HalfStorage,
    /// The way to bidiagonal form.
    pub reduction: Reduction,
    /// The method of stage 3, which finds the singular values of the bidiagonal.
    pub stage3: Stage3,
    /// The singular vectors that [`svd_gpu`](crate::SvdGpu) computes. This option and the next three do not apply to
    /// [`svdvals_gpu`](crate::SvdValsGpu), which returns all values.
    pub vectors: Vectors,
    /// The largest number of singular values and vectors that `svd_gpu` returns. None is min(m, n).
    pub keep: Option<usize>,
    /// The smallest singular value that `svd_gpu` returns, relative to the largest; None is 0. In [`qr_gpu`](crate::QrGpu) the largest
    /// diagonal entry of R, and in [`lstsq_gpu`](crate::LstsqGpu) the largest singular value, that counts as zero for the rank; None is
    /// sqrt(max(m, n)) eps.
    pub tolerance: Option<f64>,
    /// The signs of the singular vectors.
    pub signs: Signs,
    /// Whether [`qr_gpu`](crate::QrGpu) permutes the columns so that the diagonal of R descends.
    pub pivot: bool,
    /// Whether the diagonal of [`qr_gpu`](crate::QrGpu)'s R is real and nonnegative.
    pub positive_diagonal: bool,
    /// The penalty of [`lstsq_gpu`](crate::LstsqGpu): the solution minimises ||A X - B||^2 + `ridge` ||X||^2.
    pub ridge: f64,
    /// Whether [`lstsq_gpu`](crate::LstsqGpu) returns the singular values of A too.
    pub singular_values: bool,
    /// The precision of the factorisation in [`lstsq_gpu`](crate::LstsqGpu).
    pub preconditioner: Preconditioner,
    /// The products of [`qr_gpu`](crate::QrGpu), and those of the R with which [`lstsq_gpu`](crate::LstsqGpu) iterates.
    pub products: Products,
    /// The number of CPU threads. None takes the rayon pool of the caller.
    pub threads: Option<usize>,
    /// Whether a GPU times each kernel, for [`SvdReport::kernel_seconds`](crate::SvdReport).
    pub time_kernels: bool,
    /// The callback for progress. Not serialized.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub progress: Option<ProgressFn>,
    /// The flag that cancels a call. Not serialized.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub cancel: Option<CancelFlag>,
}

impl SvdOptions {
    /// Chooses where to compute.
    ///
    /// ```
    /// use svdvals_gpu::{Backend, SvdOptions};
    /// assert_eq!(SvdOptions::default().backend(Backend::Cpu).backend, Backend::Cpu);
    /// ```
    pub fn backend(mut self, backend: Backend) -> Self {
        self.backend = backend;
        self
    }

    /// Chooses the GPU.
    ///
    /// ```
    /// use svdvals_gpu::{AdapterChoice, GpuContext, SvdOptions};
    /// if let Ok(context) = GpuContext::new(&AdapterChoice::default()) {
    ///     assert!(SvdOptions::default().context(context).context.is_some());
    /// }
    /// ```
    #[cfg(feature = "gpu")]
    pub fn context(mut self, context: GpuContext) -> Self {
        self.context = Some(context);
        self
    }

    /// Chooses the storage type of half-precision matrices.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use half::f16;
    /// use svdvals_gpu::{Backend, HalfStorage, SvdOptions, SvdValsGpu};
    /// let a = faer::Mat::from_fn(40, 30, |i, j| f16::from_f32(((3 * i + 7 * j) % 11) as f32));
    /// let options = SvdOptions::default().backend(Backend::Cpu);
    /// let (single, half) = (a.svdvals_gpu_with(&options)?, a.svdvals_gpu_with(&options.half_storage(HalfStorage::Half))?);
    /// assert!((single[0] - half[0]).abs() < 4e-3 * single[0]);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn half_storage(mut self, half_storage: HalfStorage) -> Self {
        self.half_storage = half_storage;
        self
    }

    /// Chooses the way to bidiagonal form.
    ///
    /// ```
    /// use svdvals_gpu::{Reduction, SvdOptions};
    /// assert_eq!(SvdOptions::default().reduction(Reduction::TwoStage).reduction, Reduction::TwoStage);
    /// ```
    pub fn reduction(mut self, reduction: Reduction) -> Self {
        self.reduction = reduction;
        self
    }

    /// Chooses the method of stage 3.
    ///
    /// ```
    /// use svdvals_gpu::{Stage3, SvdOptions};
    /// assert_eq!(SvdOptions::default().stage3(Stage3::Bisection).stage3, Stage3::Bisection);
    /// ```
    pub fn stage3(mut self, stage3: Stage3) -> Self {
        self.stage3 = stage3;
        self
    }

    /// Chooses the singular vectors that [`svd_gpu`](crate::SvdGpu) computes.
    ///
    /// ```
    /// # #[cfg(feature = "ndarray")] {
    /// use svdvals_gpu::{SvdGpu, SvdOptions, Vectors};
    /// let a = ndarray::Array2::from_shape_fn((30, 20), |(i, j)| ((i * j) as f64).sin());
    /// let svd = a.svd_gpu_with(&SvdOptions::default().vectors(Vectors::Right))?;
    /// assert_eq!((svd.u.dim(), svd.s.len(), svd.vt.dim()), ((30, 0), 20, (20, 20)));
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn vectors(mut self, vectors: Vectors) -> Self {
        self.vectors = vectors;
        self
    }

    /// Makes [`svd_gpu`](crate::SvdGpu) return at most the `count` largest singular values and their vectors. Not with [`Vectors::Full`].
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{SvdGpu, SvdOptions};
    /// let a = faer::Mat::from_fn(30, 20, |i, j| ((i * j) as f64).sin());
    /// let svd = a.svd_gpu_with(&SvdOptions::default().keep(5))?;
    /// assert_eq!((svd.u.shape(), svd.s.nrows(), svd.v.shape()), ((30, 5), 5, (20, 5)));
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn keep(mut self, count: usize) -> Self {
        self.keep = Some(count);
        self
    }

    /// Makes [`svd_gpu`](crate::SvdGpu) return the singular values of at least `tolerance` times the largest, and their vectors. `tolerance`
    /// is between 0 and 1. Not with [`Vectors::Full`].
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{SvdGpu, SvdOptions};
    /// let a = faer::mat![[4.0f64, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 1.0]];
    /// let svd = a.svd_gpu_with(&SvdOptions::default().tolerance(0.4))?;
    /// assert_eq!((svd.u.ncols(), svd.s.nrows(), svd.v.ncols()), (2, 2, 2));
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn tolerance(mut self, tolerance: f64) -> Self {
        self.tolerance = Some(tolerance);
        self
    }

    /// Chooses the signs of the singular vectors.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{Signs, SvdGpu, SvdOptions};
    /// let a = faer::mat![[-3.0f64, 0.0], [0.0, 2.0]];
    /// let svd = a.svd_gpu_with(&SvdOptions::default().signs(Signs::Largest))?;
    /// assert!((svd.u[(0, 0)] - 1.0).abs() < 1e-14 && (svd.v[(0, 0)] + 1.0).abs() < 1e-14);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn signs(mut self, signs: Signs) -> Self {
        self.signs = signs;
        self
    }

    /// Checks that the tolerance is relative.
    pub(crate) fn check_tolerance(&self) -> Result<()> {
        match self.tolerance.filter(|tolerance| !(0.0..=1.0).contains(tolerance)) {
            Some(tolerance) => Err(SvdError::invalid("tolerance", format!("{tolerance}, but it is relative: 0 to 1"))),
            None => Ok(()),
        }
    }

    /// Checks that the ridge is a penalty.
    pub(crate) fn check_ridge(&self) -> Result<()> {
        if (0.0..f64::INFINITY).contains(&self.ridge) {
            return Ok(());
        }
        Err(SvdError::invalid("ridge", format!("{}, but it must be finite and not negative", self.ridge)))
    }

    /// Checks the options of a decomposition with vectors.
    pub(crate) fn check_svd(&self) -> Result<()> {
        self.check_tolerance()?;
        let limit = self.keep.map(|_| "keep").or(self.tolerance.map(|_| "tolerance"));
        match limit {
            Some(option) if self.vectors == Vectors::Full => {
                Err(SvdError::invalid(option, "Vectors::Full has all columns; Vectors::Thin, Left and Right may have fewer"))
            }
            _ => Ok(()),
        }
    }

    /// The number of leading values that [`keep`](Self::keep) and [`tolerance`](Self::tolerance) leave, of values in descending order.
    pub(crate) fn kept<R: RealElement>(&self, values: &[R]) -> usize {
        let Some(largest) = values.first() else { return 0 };
        let least = self.tolerance.unwrap_or(0.0) * largest.to_double();
        let count = values.partition_point(|value| value.to_double() >= least);
        self.keep.map_or(count, |keep| keep.min(count))
    }

    /// Sets the number of CPU threads, at least 1. The call has a rayon pool of its own, which is kept for the next call with the same
    /// number. Without this option it uses the pool of the caller, by default rayon's global one. (A browser has a single thread, which
    /// computes; there this option is [`SvdError::InvalidOption`](crate::SvdError::InvalidOption).)
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{Backend, SvdOptions, SvdValsGpu};
    /// let a = faer::Mat::from_fn(300, 300, |i, j| ((i * j) as f64).sin());
    /// let options = SvdOptions::default().backend(Backend::Cpu);
    /// assert_eq!(a.svdvals_gpu_with(&options.clone().threads(1))?, a.svdvals_gpu_with(&options.threads(2))?);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Makes a GPU time each kernel by its own clock (`TIMESTAMP_QUERY`), for [`SvdReport::kernel_seconds`](crate::SvdReport). The host
    /// then waits for each submission, so the call takes longer.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{Backend, GpuContext, SvdOptions, SvdValsGpu};
    /// if let Ok(context) = GpuContext::global() {
    ///     let a = faer::Mat::from_fn(60, 60, |i, j| ((i * j) as f32).sin());
    ///     let report = a.svdvals_gpu_report(&SvdOptions::default().context(context).backend(Backend::Gpu).time_kernels(true))?;
    ///     println!("{:?}, counted {}", report.kernel_seconds, report.cost()?);
    /// }
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn time_kernels(mut self, time_kernels: bool) -> Self {
        self.time_kernels = time_kernels;
        self
    }

    /// Calls `callback` with the progress of the call: at the beginning of each stage, after every thousandth of the work, and at the end.
    /// The thread that has done the work makes the call, one call at a time. It waits for the callback, which should therefore return soon.
    /// On a GPU the progress is that of the device, not of the submissions. The [triangular operations](crate::triangular) do not call it.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use std::sync::{Arc, Mutex};
    /// use svdvals_gpu::{SvdOptions, SvdValsGpu};
    /// let seen = Arc::new(Mutex::new(Vec::new()));
    /// let told = seen.clone();
    /// let options = SvdOptions::default().progress(move |p| told.lock().unwrap().push((p.stage, p.fraction)));
    /// faer::Mat::from_fn(300, 300, |i, j| ((i * j) as f64).sin()).svdvals_gpu_with(&options)?;
    /// let seen = seen.lock().unwrap();
    /// assert!(seen.is_sorted() && seen.last().unwrap().1 == 1.0);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn progress(mut self, callback: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        self.progress = Some(ProgressFn::new(callback));
        self
    }

    /// Stops the call with [`SvdError::Cancelled`](crate::SvdError::Cancelled) soon after `flag` is set. A CPU stops at the end of a kernel, of a few cycles of stage
    /// 2, or of a round of stage 3. A GPU stops when the submissions in flight are done, each of which takes at most a few tenths of a
    /// second. Only LAPACK's stage 3 (feature `lapack`) runs to its end. The memory of the call is freed. The [triangular
    /// operations](crate::triangular) work in place and are not stopped.
    ///
    /// ```
    /// use svdvals_gpu::{CancelFlag, SvdOptions};
    /// let stop = CancelFlag::new();
    /// let _options = SvdOptions::default().cancel(stop.clone()); // and `stop.cancel()` from elsewhere
    /// ```
    pub fn cancel(mut self, flag: CancelFlag) -> Self {
        self.cancel = Some(flag);
        self
    }

    /// The listeners of a call that begins now.
    pub(crate) fn listen(&self) -> Listen {
        Listen::new(self.progress.clone(), self.cancel.clone())
    }

    /// Sets the hyperparameters.
    ///
    /// ```
    /// use svdvals_gpu::{SvdOptions, Tuning};
    /// let options = SvdOptions::default().tuning(Tuning::for_cpu::<f64>(500).leaf(512));
    /// assert_eq!(options.tuning.unwrap().leaf, 512);
    /// ```
    pub fn tuning(mut self, tuning: Tuning) -> Self {
        self.tuning = Some(tuning);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smaller of `keep` and the number of values of at least the tolerance; a value equal to it stays.
    #[test]
    fn kept_values() {
        let options = SvdOptions::default();
        let values = [4.0f32, 2.0, 1.0, 0.0];
        assert_eq!((options.kept(&values), options.kept::<f64>(&[])), (4, 0));
        assert_eq!([0.0, 0.25, 0.3, 1.0].map(|tolerance| options.clone().tolerance(tolerance).kept(&values)), [4, 3, 2, 1]);
        assert_eq!([0, 1, 9].map(|keep| options.clone().keep(keep).kept(&values)), [0, 1, 4]);
        assert_eq!(options.clone().tolerance(0.25).keep(2).kept(&values), 2);
        assert_eq!(options.tolerance(0.5).kept(&[0.0, 0.0]), 2); // all values are equal to the largest
    }

    #[test]
    fn options_of_vectors_are_checked() {
        let option = |options: SvdOptions| match options.check_svd() {
            Ok(()) => "",
            Err(SvdError::InvalidOption { option, .. }) => option,
            Err(error) => panic!("{error}"),
        };
        let options = SvdOptions::default();
        assert_eq!([0.0, 1.0].map(|tolerance| option(options.clone().keep(3).tolerance(tolerance))), [""; 2]);
        assert_eq!([f64::NAN, -0.1, 1.1].map(|tolerance| option(options.clone().tolerance(tolerance))), ["tolerance"; 3]);
        let full = options.vectors(Vectors::Full);
        assert_eq!([full.clone(), full.clone().keep(3), full.tolerance(0.0)].map(option), ["", "keep", "tolerance"]);
    }
}
