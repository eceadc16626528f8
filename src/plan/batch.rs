//! The driver of batches: many matrices in one call.
//!
//! | matrix | on the CPU |
//! | --- | --- |
//! | one that a single call reduces on one thread ([`Route::is_short`]) | beside others, in tasks of several matrices |
//! | a larger one, of at least [`ROUNDS`] for each thread | beside others, on a thread of its own |
//! | a larger one of a few | one after the other, each on all threads |
//!
//! Every matrix takes the route of a single call, and results do not depend on the number of threads, so they are those of single calls bit
//! for bit. A matrix that may gain from a GPU, or with [`Backend::Gpu`] every matrix, is a single call, one after the other.

use std::{
    borrow::Cow,
    fmt,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use faer::MatRef;
use rayon::prelude::*;

use crate::{
    base::{
        clock::{Clock, StageSeconds},
        error::{Result, SvdError},
        number::{Number, in_storage},
        pool::{on_own_threads, on_threads},
        view::trimmed,
        watch::{Stage, Watch},
    },
    plan::{
        factors::Factors,
        options::{Backend, SvdOptions, Vectors},
        problem::Problem,
        report::SvdReport,
        route::Route,
        svd::svd_with_room,
        svdvals::{Room, svdvals_with_room},
    },
};

/// Work below which the whole batch stays on the calling thread, and the least work of a task. Waking a thread takes some 10 us, and
/// handing a task over 1 us. These are 100 us and 50 us.
const SERIAL: u64 = 1_000_000;
const TASK: u64 = 500_000;
/// Larger matrices are computed side by side if there are this many for each thread: at the end some threads wait, for one matrix at most.
const ROUNDS: usize = 4;

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
    /// The reason for the backend of the first matrix.
    pub reason: Cow<'static, str>,
    /// The adapter's name, if a GPU ran.
    pub adapter: Option<String>,
    /// The storage type of the matrices on the backend: `f16`, `f32`, `f64`, `c32` or `c64`.
    pub storage: &'static str,
    /// The seconds of each stage, summed over the matrices (so also over threads). `total` is wall-clock time.
    pub seconds: StageSeconds,
}

impl<V> BatchReport<V> {
    /// The same report with its results converted.
    #[cfg_attr(not(any(feature = "ndarray", feature = "faer")), allow(dead_code, reason = "the front ends' results use it"))]
    pub(crate) fn try_map<W>(self, f: impl FnOnce(V) -> Result<W>) -> Result<BatchReport<W>> {
        let BatchReport { values, matrices, side_by_side, on_gpu, reason, adapter, storage, seconds } = self;
        Ok(BatchReport { values: f(values)?, matrices, side_by_side, on_gpu, reason, adapter, storage, seconds })
    }
}

/// What ran, why, and the seconds; without the results.
impl<V> fmt::Display for BatchReport<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BatchReport { matrices, side_by_side, on_gpu, reason, storage, seconds, .. } = self;
        write!(f, "{matrices} matrices, held as {storage}: {side_by_side} side by side, {on_gpu} on ")?;
        writeln!(f, "{} ({reason})\n{seconds}", self.adapter.as_deref().unwrap_or("a GPU"))
    }
}

/// A result for each matrix.
pub type Each<R> = Vec<Result<R>>;

/// The singular values of each matrix; the seconds of stages are zero unless `timed`.
pub(crate) fn svdvals_batch<T: Number>(
    batch: &[MatRef<'_, T>],
    options: &SvdOptions,
    timed: bool,
) -> Result<BatchReport<Each<Vec<T::Real>>>> {
    let problem = |(m, n)| Problem::Dense { m, n };
    in_batch(batch, options, timed, (Stage::Svdvals, 1), problem, |a, options, room| svdvals_with_room(a, options, timed, room))
}

/// The decomposition of each matrix.
pub(crate) fn svd_batch<T: Number>(
    batch: &[MatRef<'_, T>],
    options: &SvdOptions,
    timed: bool,
) -> Result<BatchReport<Each<Factors<T>>>> {
    let problem = |(m, n)| Problem::Svd { m, n, full: options.vectors == Vectors::Full };
    in_batch(batch, options, timed, (Stage::Vectors, 4), problem, |a, options, room| svd_with_room(a, options, timed, room))
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

/// The results of `one` for each matrix. Their progress is that of this `stage`; a matrix takes this many times the work of its values.
fn in_batch<T: Number, R: Send>(
    batch: &[MatRef<'_, T>],
    options: &SvdOptions,
    timed: bool,
    (stage, times): (Stage, u64),
    problem: impl Fn((usize, usize)) -> Problem + Sync,
    one: impl Fn(MatRef<'_, T>, &SvdOptions, Option<&Room<T>>) -> Result<SvdReport<R>> + Sync,
) -> Result<BatchReport<Each<R>>> {
    let clock = Clock::new(timed);
    on_threads(options.threads, || {
        let listen = options.listen();
        let work = |a: MatRef<'_, T>| work(a.shape()).saturating_mul(times);
        let all_work = batch.iter().map(|&a| work(a)).fold(0, u64::saturating_add);
        let mut flops = [0; 4];
        flops[stage.place()] = all_work;
        let watch = Watch::new(&listen, || Ok(flops))?;
        // A cancellation is the result of each matrix.
        _ = watch.begin(stage);

        let mut single = SvdOptions { threads: None, progress: None, ..options.clone() };
        let on_cpu = SvdOptions { backend: Backend::Cpu, ..single.clone() };
        if options.backend == Backend::Auto && batch.iter().all(|a| problem(a.shape()).too_small().is_some()) {
            single.backend = Backend::Cpu;
        }
        let auto = options.backend == Backend::Auto && single.backend == Backend::Cpu;
        let compute = |index: usize, options: &SvdOptions, room: Option<&Room<T>>| {
            // After a cancellation nothing is computed.
            let result = watch.check().and_then(|()| one(batch[index], options, room)).map(|report| Done::new(report, timed));
            watch.did(work(batch[index])).and(result)
        };
        let groups = Groups::new(batch, &on_cpu, &problem, options.backend)?;
        let mut results: Vec<Option<Result<Done<R>>>> = (0..batch.len()).map(|_| None).collect();

        // Small matrices, in tasks of several.
        let small = &groups.small;
        let of_small = small.iter().map(|&index| work(batch[index])).fold(0, u64::saturating_add);
        if of_small <= SERIAL {
            let room = Room::<T>::default();
            small.iter().for_each(|&index| results[index] = Some(compute(index, &on_cpu, Some(&room))));
        } else {
            let in_task = (TASK / (of_small / small.len() as u64).max(1)).max(1) as usize;
            let of = |room: &mut Room<T>, &index: &usize| (index, compute(index, &on_cpu, Some(room)));
            let found: Vec<_> = small.par_iter().with_min_len(in_task).map_init(Room::<T>::default, of).collect();
            found.into_iter().for_each(|(index, result)| results[index] = Some(result));
        }

        // Larger ones, each on a thread of its own.
        if !groups.on_own_threads.is_empty() {
            let (next, found) = (AtomicUsize::new(0), Mutex::new(&mut results));
            on_own_threads(rayon::current_num_threads(), || {
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
        let mut report = BatchReport {
            values: Vec::with_capacity(batch.len()),
            matrices: batch.len(),
            side_by_side,
            on_gpu: 0,
            reason: Cow::Borrowed("an empty batch"),
            adapter: None,
            storage: T::Scalar::NAME,
            seconds: StageSeconds::default(),
        };
        for result in results {
            let lost = || Err(SvdError::OutOfMemory { reason: "a thread ended before its work".into() });
            let result = result.unwrap_or_else(lost).map(|of_one| report.with(of_one, auto));
            report.values.push(result);
        }
        report.seconds.total = clock.seconds();
        Ok(report)
    })
}

/// The result of one matrix, and what ran if the caller wants to know. (A whole report takes more memory than a small matrix.)
struct Done<R> {
    values: R,
    ran: Option<Box<Ran>>,
}

struct Ran {
    backend: Backend,
    reason: Cow<'static, str>,
    adapter: Option<String>,
    storage: &'static str,
    seconds: StageSeconds,
}

impl<R> Done<R> {
    fn new(report: SvdReport<R>, timed: bool) -> Self {
        let SvdReport { values, backend, reason, adapter, storage, seconds, .. } = report;
        Done { values, ran: timed.then(|| Box::new(Ran { backend, reason, adapter, storage, seconds })) }
    }
}

impl<R> BatchReport<Each<R>> {
    /// Adds the report of one matrix, and returns its result.
    fn with(&mut self, Done { values, ran }: Done<R>, auto: bool) -> R {
        let Some(ran) = ran.map(|ran| *ran) else { return values };
        if self.values.iter().all(|result| result.is_err()) {
            self.reason = match auto {
                true => Cow::Borrowed("no matrix is large enough to gain from a GPU, which computes one at a time"),
                false => ran.reason,
            };
        }
        self.storage = ran.storage;
        self.on_gpu += usize::from(ran.backend == Backend::Gpu);
        self.adapter = self.adapter.take().or(ran.adapter);
        self.seconds.add(&ran.seconds);
        values
    }
}

/// Whether a single call computes `_a`, or its transpose, of this shape and stored as `S`, on one thread.
fn is_short<T: Number, S: Number>(_a: MatRef<'_, T>, shape: (usize, usize), on_cpu: &SvdOptions) -> Result<bool> {
    let tuning = on_cpu.tuning_for_cpu::<S>(shape.1)?;
    Ok(Route::on_cpu::<S>(shape, on_cpu.reduction, &tuning).is_short())
}

/// The indices of the matrices by the way that they are computed.
struct Groups {
    small: Vec<usize>,
    on_own_threads: Vec<usize>,
    in_turn: Vec<usize>,
}

impl Groups {
    fn new<T: Number>(
        batch: &[MatRef<'_, T>],
        on_cpu: &SvdOptions,
        problem: &impl Fn((usize, usize)) -> Problem,
        backend: Backend,
    ) -> Result<Groups> {
        let mut groups = Groups { small: Vec::new(), on_own_threads: Vec::new(), in_turn: Vec::new() };
        let mut last = None;
        for (index, a) in batch.iter().enumerate() {
            let (m, n) = trimmed(*a).shape();
            let (shape, on_gpu) = ((m.max(n), m.min(n)), backend == Backend::Gpu);
            if on_gpu || backend == Backend::Auto && problem((m, n)).too_small().is_none() {
                groups.in_turn.push(index);
                continue;
            }
            // Stacks have one shape.
            let is_short = match last {
                Some((of, is_short)) if of == shape => is_short,
                _ => in_storage!(on_cpu.half_storage, T => is_short::<_, S>(*a, shape, on_cpu))?,
            };
            last = Some((shape, is_short));
            if is_short { groups.small.push(index) } else { groups.on_own_threads.push(index) }
        }
        if cfg!(target_family = "wasm") || groups.on_own_threads.len() < ROUNDS * rayon::current_num_threads() {
            groups.in_turn.append(&mut groups.on_own_threads);
        }
        Ok(groups)
    }
}
