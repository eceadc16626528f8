//! The driver of batches: many matrices in one call.
//!
//! | matrix | is computed |
//! | --- | --- |
//! | with [`Backend::Gpu`], held by workgroup memory | on the device, one workgroup each (`batch/together.rs`) |
//! | with [`Backend::Gpu`], any other, by two stages, with others of its shape and memory order | on the device, in dispatches that these share (`batch/stacked.rs`) |
//! | with [`Backend::Gpu`], any other, its values up to about 256 x 256, or its thin decomposition up to 192 x 192 | on the device, one workgroup each |
//! | with [`Backend::Gpu`], any other | as a single call, one after the other |
//! | that gains from a GPU as a single one (`choice/seconds.rs`) | as a single call, one after the other |
//! | that a single call reduces on one thread (`Route::is_short`) | on the CPU beside others, in tasks of several matrices |
//! | a larger one, of at least four for each thread | on the CPU beside others, on a thread of its own |
//! | a larger one of a few | on the CPU one after the other, each on all threads |
//!
//! With [`Backend::Auto`] and a hardware GPU, the device computes in a workgroup each what does not gain as a single one, if all of that together takes
//! it less time than the CPU's threads; and in shared dispatches those of one shape that gain as single ones, or that have more than 64 columns,
//! workgroup memory does not hold, are not tall or have more than 256 columns, and take it less time together.
//!
//! Every other matrix takes the route of a single call, and results do not depend on the number of threads, so they are those of single calls bit
//! for bit. Those of workgroups depend on the matrix and the element type alone. Those of shared dispatches are those of a single call with
//! [`Stage3::Device`](crate::Stage3::Device), bit for bit.

use std::{
    borrow::Cow,
    fmt,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

#[cfg(feature = "gpu")]
use crate::plan::batch::chosen::Chosen;
use crate::{
    base::{
        clock::{Clock, StageSeconds},
        error::{Result, SvdError},
        number::{Re, Scalar},
        parallel::map_with,
        pool::{on_own_threads, on_threads},
        stage::Stage,
        watch::Watch,
    },
    cost::{counts::Counts, work::Kernel},
    plan::{
        batch::gathered::{Done, Gathered, Groups},
        call::Room,
        factors::Factors,
        options::{Backend, RunOptions, SvdOptions, Vectors},
        problem::Problem,
        report::SvdReport,
        svd::svd_with_room,
        svdvals::svdvals_with_room,
    },
};
use faer::MatRef;

#[cfg(feature = "gpu")]
mod chosen;
#[cfg(feature = "gpu")]
mod each;
mod gathered;
mod later;
#[cfg(feature = "gpu")]
mod stacked;
#[cfg(feature = "gpu")]
mod together;

pub(crate) use later::{svd_batch_async, svdvals_batch_async};

/// Work below which the whole batch stays on the calling thread, and the least work of a task. Waking a thread takes some 10 us, and
/// handing a task over 1 us. These are 100 us and 50 us.
const SERIAL: u64 = 1_000_000;
const TASK: u64 = 500_000;
/// Order of the matrices from which on stacks are considered, and the greatest of those that are not because most devices have a workgroup for each. In
/// between they must not be tall, or have full vectors.
#[cfg(feature = "gpu")]
const STACKED_ORDER: usize = 257;
#[cfg(feature = "gpu")]
const IN_WORKGROUPS: usize = 64;

/// The results of a batch, with what ran. `Display` prints everything but the results.
///
/// ```
/// # #[cfg(feature = "ndarray")] {
/// use svdvals_gpu::{SvdOptions, SvdValsBatchGpu};
/// let stack = ndarray::Array3::from_shape_fn((100, 8, 5), |(k, i, j)| ((k + i * j) as f32).sin());
/// let report = stack.svdvals_batch_gpu_report(&SvdOptions::default())?;
/// assert_eq!((report.values.dim(), report.matrices, report.on_gpu), ((100, 5), 100, 0));
/// println!("{report}"); // 100 matrices, held as f32: 100 side by side, ...
/// # }
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct BatchReport<V> {
    /// The results.
    pub values: V,
    /// The number of matrices.
    pub matrices: usize,
    /// The number of matrices that were computed beside others, each on one thread of the CPU. The others came one after the other.
    pub side_by_side: usize,
    /// The number of matrices that a GPU computed.
    pub on_gpu: usize,
    /// The number of those that it computed together, one workgroup each.
    pub together: usize,
    /// The number of those that shared dispatches with others of their shape. What is neither came one after the other.
    pub stacked: usize,
    /// The reason for the backend of the first matrix.
    pub reason: Cow<'static, str>,
    /// The adapter's name, if a GPU ran.
    pub adapter: Option<String>,
    /// The storage type of the matrices on the backend: `f16`, `f32`, `f64`, `c32` or `c64`.
    pub storage: &'static str,
    /// The seconds of each stage, summed over the matrices (so also over threads). `total` is wall-clock time. Those of matrices that a GPU
    /// computed in a workgroup each are `scale`, and `svdvals` or, with vectors, `left_vectors` for all that follows.
    pub seconds: StageSeconds,
    /// Dispatches, submissions and bytes transferred; zeros on the CPU.
    pub counts: Counts,
    /// Seconds of the kernels of the matrices that were computed together or shared dispatches, as [`SvdReport::kernel_seconds`](crate::SvdReport).
    pub kernel_seconds: Vec<(Kernel, f64)>,
    /// The options that were not their defaults, as in `keep 3, backend gpu`.
    pub options: String,
}

impl<V> BatchReport<V> {
    /// The same report with its results converted.
    #[cfg_attr(not(any(feature = "ndarray", feature = "faer")), allow(dead_code, reason = "the front ends' results use it"))]
    pub(crate) fn try_map<W>(self, f: impl FnOnce(V) -> Result<W>) -> Result<BatchReport<W>> {
        let BatchReport { values, matrices, side_by_side, on_gpu, together, stacked, reason, .. } = self;
        let BatchReport { adapter, storage, seconds, counts, kernel_seconds, options, .. } = self;
        let values = f(values)?;
        Ok(BatchReport {
            values,
            matrices,
            side_by_side,
            on_gpu,
            together,
            stacked,
            reason,
            adapter,
            storage,
            seconds,
            counts,
            kernel_seconds,
            options,
        })
    }
}

/// What ran, why, and the seconds; without the results.
impl<V> fmt::Display for BatchReport<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BatchReport { matrices, side_by_side, on_gpu, together, stacked, reason, storage, seconds, .. } = self;
        write!(f, "{matrices} matrices, held as {storage}: {side_by_side} side by side, {on_gpu} on ")?;
        write!(f, "{}", self.adapter.as_deref().unwrap_or("a GPU"))?;
        if *together > 0 {
            write!(f, ", {together} of them in a workgroup each")?;
        }
        if *stacked > 0 {
            write!(f, ", {stacked} of them in shared dispatches")?;
        }
        writeln!(f, " ({reason})")?;
        if !self.options.is_empty() {
            writeln!(f, "options: {}", self.options)?;
        }
        writeln!(f, "{seconds}")?;
        if *on_gpu > 0 { writeln!(f, "{}", self.counts) } else { Ok(()) }
    }
}

/// A result for each matrix.
pub type Each<R> = Vec<Result<R>>;

/// What a device computed together.
struct Together<R> {
    /// The indices of the matrices that had a workgroup each, and their results.
    results: Vec<(usize, Result<R>)>,
    /// Those of the matrices that shared dispatches.
    stacked: Vec<(usize, Result<R>)>,
    adapter: String,
    storage: &'static str,
    reason: Cow<'static, str>,
    counts: Counts,
    kernel_seconds: Vec<(Kernel, f64)>,
    seconds: StageSeconds,
}

/// The singular values of each matrix; the seconds of stages are zero unless `timed`.
pub(crate) fn svdvals_batch<T: Scalar>(
    batch: &[MatRef<'_, T>],
    options: &SvdOptions,
    timed: bool,
) -> Result<BatchReport<Each<Vec<Re<T>>>>> {
    let of = Of::values(batch, options, timed);
    #[cfg(feature = "gpu")]
    let of = of.chosen::<Vec<Re<T>>>();
    of.compute(|a, options, room| svdvals_with_room(a, options, timed, room), |watch| of.on_device(watch))
}

/// The decomposition of each matrix.
pub(crate) fn svd_batch<T: Scalar>(
    batch: &[MatRef<'_, T>],
    options: &SvdOptions,
    timed: bool,
) -> Result<BatchReport<Each<Factors<T>>>> {
    let of = Of::vectors(batch, options, timed);
    #[cfg(feature = "gpu")]
    let of = of.chosen::<Factors<T>>();
    of.compute(|a, options, room| svd_with_room(a, options, timed, room), |watch| of.on_device(watch))
}

/// The first error, with the index of its matrix; or all results.
#[cfg_attr(not(any(feature = "ndarray", feature = "faer")), allow(dead_code, reason = "the front ends' results use it"))]
pub(crate) fn all<R>(each: Each<R>) -> Result<Vec<R>> {
    let of = |(index, result): (usize, Result<R>)| {
        result.map_err(|error| match error {
            // These are of the call.
            SvdError::Cancelled { .. } | SvdError::InvalidOption { .. } => error,
            source => SvdError::InBatch { index, source: Box::new(source) },
        })
    };
    each.into_iter().enumerate().map(of).collect()
}

/// About the flops of an m x n matrix, with the overhead of a call and of each column.
fn work((m, n): (usize, usize)) -> u64 {
    let (longer, shorter) = (m.max(n) as u64, m.min(n) as u64);
    let cubic = longer.saturating_mul(shorter).saturating_mul(3 * shorter + 60);
    cubic.saturating_add(1000)
}

/// A call for a batch.
struct Of<'a, T> {
    batch: &'a [MatRef<'a, T>],
    options: &'a SvdOptions,
    timed: bool,
    /// The stage of its progress.
    stage: Stage,
    /// A matrix takes this many times the work of its values.
    times: u64,
    problem: fn((usize, usize), &SvdOptions) -> Problem,
    /// What the choice of the backend has found.
    #[cfg(feature = "gpu")]
    chosen: Chosen,
}

impl<'a, T: Scalar> Of<'a, T> {
    fn values(batch: &'a [MatRef<'a, T>], options: &'a SvdOptions, timed: bool) -> Self {
        Of {
            batch,
            options,
            timed,
            stage: Stage::Svdvals,
            times: 1,
            problem: |(m, n), _| Problem::Dense { m, n },
            #[cfg(feature = "gpu")]
            chosen: Chosen::default(),
        }
    }

    fn vectors(batch: &'a [MatRef<'a, T>], options: &'a SvdOptions, timed: bool) -> Self {
        let problem = |(m, n), options: &SvdOptions| Problem::Svd { m, n, full: options.vectors == Vectors::Full };
        Of {
            batch,
            options,
            timed,
            stage: Stage::Vectors,
            times: 4,
            problem,
            #[cfg(feature = "gpu")]
            chosen: Chosen::default(),
        }
    }

    fn work(&self, index: usize) -> u64 {
        work(self.batch[index].shape()).saturating_mul(self.times)
    }

    fn work_of(&self, indices: impl Iterator<Item = usize>) -> u64 {
        indices.map(|index| self.work(index)).fold(0, u64::saturating_add)
    }

    /// Whether a matrix is computed on a GPU as a single one, if at all.
    fn may_go_alone(&self, index: usize) -> bool {
        match self.options.run.backend {
            Backend::Gpu => true,
            Backend::Cpu => false,
            Backend::Auto => self.gains_alone(index),
        }
    }

    /// Why the CPU computes the whole batch, if the backend was chosen so.
    fn reason_for_cpu(&self) -> Option<Cow<'static, str>> {
        if self.options.run.backend != Backend::Auto || self.single().run.backend != Backend::Cpu {
            return None;
        }
        #[cfg(feature = "gpu")]
        return Some(self.chosen.reason.clone());
        #[cfg(not(feature = "gpu"))]
        Some("svdvals-gpu was built without its feature `gpu`".into())
    }

    /// The watch of the batch. A cancellation is the result of each matrix.
    fn watch(&self) -> Result<Watch> {
        let mut flops = [0; 4];
        flops[self.stage.place()] = self.work_of(0..self.batch.len());
        let watch = Watch::new(&self.options.run.listen(), || Ok(flops))?;
        _ = watch.begin(self.stage);
        Ok(watch)
    }

    /// The options of a single call of the batch.
    fn single(&self) -> SvdOptions {
        let backend = match self.options.run.backend {
            Backend::Auto if !(0..self.batch.len()).any(|index| self.may_go_alone(index)) => Backend::Cpu,
            backend => backend,
        };
        let run = RunOptions { threads: None, progress: None, backend, ..self.options.run.clone() };
        SvdOptions { run, ..self.options.clone() }
    }

    /// The results of `one` for each matrix that `on_device` left.
    fn compute<R: Send>(
        &self,
        one: impl Fn(MatRef<'_, T>, &SvdOptions, Option<&Room<T>>) -> Result<SvdReport<R>> + Sync,
        on_device: impl FnOnce(&Watch) -> Option<Together<R>> + Send,
    ) -> Result<BatchReport<Each<R>>> {
        let &Of { batch, options, timed, .. } = self;
        let clock = Clock::new(timed);
        on_threads(options.run.threads, || {
            let watch = self.watch()?;
            let single = self.single();
            let on_cpu = SvdOptions { run: RunOptions { backend: Backend::Cpu, ..single.run.clone() }, ..single.clone() };
            let compute = |index: usize, options: &SvdOptions, room: Option<&Room<T>>| {
                // After a cancellation nothing is computed.
                let result = watch.check().and_then(|()| one(batch[index], options, room)).map(|report| Done::new(report, timed));
                watch.did(self.work(index)).and(result)
            };
            let mut gathered = Gathered::new(self, on_device(&watch));
            let groups = Groups::new(self, &on_cpu, &gathered.results)?;
            let results = &mut gathered.results;

            // Small matrices, in tasks of several.
            let small = &groups.small;
            let of_small = self.work_of(small.iter().copied());
            if of_small <= SERIAL {
                let room = Room::<T>::default();
                small.iter().for_each(|&index| results[index] = Some(compute(index, &on_cpu, Some(&room))));
            } else {
                let in_task = (TASK / (of_small / small.len() as u64).max(1)).max(1) as usize;
                let of = |room: &mut Room<T>, k: usize| compute(small[k], &on_cpu, Some(room));
                let found = map_with(small.len(), in_task, Room::<T>::default, of);
                small.iter().zip(found).for_each(|(&index, result)| results[index] = Some(result));
            }

            // Larger ones, each on a thread of its own.
            if !groups.on_own_threads.is_empty() {
                let (next, found) = (AtomicUsize::new(0), Mutex::new(&mut *results));
                on_own_threads(&|| {
                    while let Some(&index) = groups.on_own_threads.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let result = Some(compute(index, &on_cpu, None));
                        if let Ok(mut found) = found.lock() {
                            found[index] = result;
                        }
                    }
                });
            }

            // A few large ones, and those of a GPU.
            groups.in_turn.iter().for_each(|&index| results[index] = Some(compute(index, &single, None)));
            watch.end();
            let side_by_side = groups.small.len() + groups.on_own_threads.len();
            Ok(gathered.report(side_by_side, clock.seconds()))
        })
    }
}

#[cfg(not(feature = "gpu"))]
impl<T: Scalar> Of<'_, T> {
    /// No matrix gains without a GPU.
    fn gains_alone(&self, _: usize) -> bool {
        false
    }

    /// Nothing, without a GPU.
    fn on_device<R>(&self, _: &Watch) -> Option<Together<R>> {
        None
    }
}
