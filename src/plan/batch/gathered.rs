//! The results of a batch as they come, and which matrices are still to be computed.

use std::borrow::Cow;

use crate::{
    base::{
        clock::StageSeconds,
        element_kind::ElementKind,
        error::{Result, SvdError},
        number::Scalar,
        parallel::threads,
        view::trimmed,
    },
    cost::counts::Counts,
    plan::{
        batch::{BatchReport, Each, Of, Together},
        options::{Backend, SvdOptions},
        report::SvdReport,
        route::Route,
    },
};

/// Larger matrices are computed side by side if there are this many for each thread: at the end some threads wait, for one matrix at most.
const ROUNDS: usize = 4;

/// The result of one matrix, and what ran if the caller wants to know. (A whole report takes more memory than a small matrix.)
pub(super) struct Done<R> {
    pub values: R,
    ran: Option<Box<Ran>>,
}

struct Ran {
    backend: Backend,
    reason: Cow<'static, str>,
    adapter: Option<String>,
    storage: &'static str,
    seconds: StageSeconds,
    counts: Counts,
}

impl<R> Done<R> {
    /// A result whose report is not needed.
    pub fn unreported(values: R) -> Self {
        Done { values, ran: None }
    }

    pub fn new(report: SvdReport<R>, timed: bool) -> Self {
        let SvdReport { values, backend, reason, adapter, storage, seconds, counts, .. } = report;
        Done { values, ran: timed.then(|| Box::new(Ran { backend, reason, adapter, storage, seconds, counts })) }
    }
}

/// The results so far.
pub(super) struct Gathered<R> {
    pub results: Vec<Option<Result<Done<R>>>>,
    /// The report without results.
    report: BatchReport<Each<R>>,
    /// The reason for the CPU, if it was chosen for the batch as a whole.
    of_batch: Option<Cow<'static, str>>,
}

impl<R> Gathered<R> {
    pub fn new<T: Scalar>(of: &Of<'_, T>, together: Option<Together<R>>) -> Self {
        let matrices = of.batch.len();
        let mut gathered = Gathered {
            results: (0..matrices).map(|_| None).collect(),
            report: BatchReport {
                values: Vec::with_capacity(matrices),
                matrices,
                side_by_side: 0,
                on_gpu: 0,
                together: 0,
                stacked: 0,
                reason: Cow::Borrowed("an empty batch"),
                adapter: None,
                storage: T::NAME,
                seconds: StageSeconds::default(),
                counts: Counts::default(),
                kernel_seconds: Vec::new(),
                options: String::new(),
            },
            of_batch: of.reason_for_cpu(),
        };
        let Some(Together { results, stacked, adapter, storage, reason, counts, kernel_seconds, seconds }) = together else {
            return gathered;
        };
        let report = &mut gathered.report;
        if !results.is_empty() || !stacked.is_empty() {
            (report.adapter, report.storage, report.reason) = (Some(adapter), storage, reason);
            (report.counts, report.kernel_seconds, report.seconds) = (counts, kernel_seconds, seconds);
        }
        let computed = |results: &[(usize, Result<R>)]| results.iter().filter(|(_, result)| result.is_ok()).count();
        (report.together, report.stacked) = (computed(&results), computed(&stacked));
        report.on_gpu = report.together + report.stacked;
        for (index, result) in results.into_iter().chain(stacked) {
            gathered.results[index] = Some(result.map(Done::unreported));
        }
        gathered
    }

    /// Adds the report of a batch on the CPU, of the matrices with these indices.
    pub fn add(&mut self, indices: &[usize], report: BatchReport<Each<R>>) {
        let BatchReport { values, storage, reason, seconds, .. } = report;
        for (&index, result) in indices.iter().zip(values) {
            self.results[index] = Some(result.map(Done::unreported));
        }
        if indices.len() == self.results.len() {
            (self.report.storage, self.report.reason) = (storage, self.of_batch.clone().unwrap_or(reason));
        }
        self.report.seconds.add(&seconds);
    }

    /// The report of the whole batch.
    pub fn report(self, side_by_side: usize, total: f64) -> BatchReport<Each<R>> {
        let Gathered { results, mut report, of_batch } = self;
        report.side_by_side = side_by_side;
        for result in results {
            let lost = || Err(SvdError::OutOfMemory { reason: "a thread ended before its work".into() });
            let result = result.unwrap_or_else(lost).map(|of_one| report.with(of_one, of_batch.as_ref()));
            report.values.push(result);
        }
        report.seconds.total = total;
        report
    }
}

impl<R> BatchReport<Each<R>> {
    /// Adds the report of one matrix, and returns its result.
    fn with(&mut self, Done { values, ran }: Done<R>, of_batch: Option<&Cow<'static, str>>) -> R {
        let Some(ran) = ran.map(|ran| *ran) else { return values };
        let device = self.together + self.stacked > 0;
        if !device && self.values.iter().all(|result| result.is_err()) {
            self.reason = of_batch.cloned().unwrap_or(ran.reason);
        }
        if !device {
            self.storage = ran.storage;
        }
        self.on_gpu += usize::from(ran.backend == Backend::Gpu);
        self.adapter = self.adapter.take().or(ran.adapter);
        self.seconds.add(&ran.seconds);
        self.counts.add(&ran.counts);
        values
    }
}

/// Whether a single call computes a matrix of this shape, or its transpose, stored as `kind`, on one thread.
fn is_short(kind: ElementKind, shape: (usize, usize), on_cpu: &SvdOptions) -> Result<bool> {
    let tuning = on_cpu.run.tuning_for_cpu(kind, shape.1)?;
    Ok(Route::on_cpu(kind, shape, on_cpu.reduction, &tuning).is_short())
}

/// The indices of the matrices without a result, by the way that they are computed.
pub(super) struct Groups {
    pub small: Vec<usize>,
    pub on_own_threads: Vec<usize>,
    pub in_turn: Vec<usize>,
}

impl Groups {
    pub fn new<T: Scalar, R>(of: &Of<'_, T>, on_cpu: &SvdOptions, results: &[Option<R>]) -> Result<Groups> {
        let mut groups = Groups { small: Vec::new(), on_own_threads: Vec::new(), in_turn: Vec::new() };
        let mut last = None;
        for (index, a) in of.batch.iter().enumerate().filter(|&(index, _)| results[index].is_none()) {
            let (m, n) = trimmed(*a).shape();
            let shape = (m.max(n), m.min(n));
            if of.may_go_alone(index) {
                groups.in_turn.push(index);
                continue;
            }
            // Stacks have one shape.
            let is_short = match last {
                Some((of, is_short)) if of == shape => is_short,
                _ => is_short(on_cpu.run.half_storage.of(T::KIND), shape, on_cpu)?,
            };
            last = Some((shape, is_short));
            if is_short { groups.small.push(index) } else { groups.on_own_threads.push(index) }
        }
        if cfg!(target_family = "wasm") || groups.on_own_threads.len() < ROUNDS * threads() {
            groups.in_turn.append(&mut groups.on_own_threads);
        }
        Ok(groups)
    }
}
