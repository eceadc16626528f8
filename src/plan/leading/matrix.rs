//! Leading triples of a matrix in memory.

use faer::{Mat, MatRef};
use pollster::block_on;

use crate::{
    algo::krylov::{Progress, iterate, measured},
    base::{
        clock::Clock,
        error::{Result, SvdError},
        number::{HalfStorage, Number, Re, RealElement, Scalar},
        pool::{on_pool_async, on_pool_for, on_threads},
        scale::{first_non_finite, largest},
        view::trimmed,
        watch::{Listen, Watch},
    },
    cost::counts::Counts,
    cpu::krylov::{Dense, HostBlocks, scale_for_squares},
    plan::{
        backend::Place,
        choice::Reason,
        drivers::Wide,
        factors::Factors,
        leading::{
            Left, Plan, asked_for, for_residuals, iteration_of, no_cost, seconds_of, small_svd, together, unscaled, values_of,
        },
        options::{Backend, Signs, SvdOptions},
        report::{Ran, SvdReport},
        route::Route,
        svd::svd as full_svd,
    },
};
#[cfg(feature = "gpu")]
use crate::{
    base::{element_kind::ElementKind, scale::none_below},
    gpu::{device::context::Waits, kernels::products::Stored},
    plan::{
        backend::{OnGpu, or_fall_back},
        leading::device,
        svd::svd_async as full_svd_async,
    },
};

/// The smallest normal number of f16.
#[cfg(feature = "gpu")]
const LEAST_OF_F16: f64 = 1.0 / 16384.0;

/// A call.
struct Call<'a, T> {
    a: MatRef<'a, T>,
    options: &'a SvdOptions,
    plan: Plan,
    timed: bool,
    listen: Listen,
    clock: Clock,
}

/// How an iteration ended.
enum Ended<T: Scalar> {
    Reached(Box<SvdReport<Factors<T>>>),
    /// A reduction is to follow.
    Left(Left),
}

/// Leading triples with residuals, and the report; its seconds are zero unless `timed`.
pub(crate) fn svd<S: Scalar, T: Number<Scalar = S, Real = Re<S>>>(
    a: MatRef<'_, T>,
    options: &SvdOptions,
    timed: bool,
) -> Result<SvdReport<Factors<S>>> {
    let mut call = Call::new(trimmed(a), options, timed)?;
    on_threads(options.run.threads, || call.run())
}

/// [`svd`] for a caller that must not block. The CPU computes in the rayon pool, from a copy of the matrix.
pub(crate) async fn svd_async<S: Scalar, T: Number<Scalar = S, Real = Re<S>>>(
    a: MatRef<'_, T>,
    options: &SvdOptions,
    timed: bool,
) -> Result<SvdReport<Factors<S>>> {
    let mut call = Call::new(trimmed(a), options, timed)?;
    let mut place = Place::of_svd_async(S::KIND, options, call.plan.problem()).await;
    if call.has_no_buffer(&place) {
        place = Place::of_svd_async(S::KIND, options, call.plan.problem()).await;
    }
    let reason = match place? {
        Place::Cpu(reason) => reason,
        #[cfg(feature = "gpu")]
        Place::Gpu(on) => match call.on_gpu(on, Waits::Awaited).await? {
            Ok(Ended::Reached(report)) => return Ok(call.complete(*report)),
            Ok(Ended::Left(left)) => {
                let wide = Wide::of(call.a)?;
                let mut reduction = left.reduction(options, &call.listen);
                reduction.run.threads = options.run.threads;
                let mut report = full_svd_async(wide.view(), &reduction, timed).await?;
                let mut clock = Clock::new(timed);
                let (a, watch) = (call.copy(), left.measuring(&call.listen, report.values.s.len())?);
                let factors = report.values;
                report.values = on_pool_async(move || with_residuals(a.as_ref(), factors, &watch)).await??;
                report.seconds.iteration += clock.restart();
                return Ok(call.ended(report, left));
            }
            Err(reason) => reason,
        },
    };
    let copy = call.copy();
    let on_cpu = SvdOptions { run: options.run.on_cpu(), ..options.clone() };
    let report = on_pool_async(move || svd(copy.as_ref(), &on_cpu, timed)).await??;
    Ok(call.complete(SvdReport { reason, ..report }))
}

impl<'a, S: Scalar, T: Number<Scalar = S, Real = Re<S>>> Call<'a, T> {
    fn new(a: MatRef<'a, T>, options: &'a SvdOptions, timed: bool) -> Result<Self> {
        options.check_svd()?;
        if options.run.half_storage == HalfStorage::Half {
            let reason = "singular vectors would have three digits; they need HalfStorage::Single";
            return Err(SvdError::invalid("half_storage", reason));
        }
        let plan = Plan::new(a.shape(), <Re<S> as num_traits::Float>::epsilon().to_double(), options);
        Ok(Call { a, options, plan, timed, listen: options.run.listen(), clock: Clock::new(timed) })
    }

    /// Whether the device has no buffer for all of the matrix, which an iteration needs. A reduction, for which it may have several, then takes its place.
    fn has_no_buffer(&mut self, place: &Result<Place>) -> bool {
        matches!(place, Err(SvdError::TooLarge { .. })) && self.plan.asked.take().is_some()
    }

    fn run(&mut self) -> Result<SvdReport<Factors<S>>> {
        let mut place = Place::of_svd(S::KIND, self.options, self.plan.problem());
        if self.has_no_buffer(&place) {
            place = Place::of_svd(S::KIND, self.options, self.plan.problem());
        }
        let ended = match place? {
            _ if self.plan.asked.is_none() => Ended::Left(Left::default()),
            Place::Cpu(reason) => self.on_cpu(reason)?,
            #[cfg(feature = "gpu")]
            Place::Gpu(on) => match block_on(self.on_gpu(on, Waits::Blocking))? {
                Ok(ended) => ended,
                Err(reason) => self.on_cpu(reason)?,
            },
        };
        match ended {
            Ended::Reached(report) => Ok(self.complete(*report)),
            Ended::Left(left) => {
                let wide = Wide::of(self.a)?;
                let mut report = full_svd(wide.view(), &left.reduction(self.options, &self.listen), self.timed)?;
                let (mut clock, watch) = (Clock::new(self.timed), left.measuring(&self.listen, report.values.s.len())?);
                let factors = report.values;
                report.values = on_pool_for(self.a.shape(), || with_residuals(self.a, factors, &watch))?;
                report.seconds.iteration += clock.restart();
                Ok(self.ended(report, left))
            }
        }
    }

    fn copy(&self) -> Mat<T> {
        Mat::from_fn(self.a.nrows(), self.a.ncols(), |i, j| self.a[(i, j)])
    }

    /// The report of a reduction, with the iteration before it.
    fn ended(&self, mut report: SvdReport<Factors<S>>, mut left: Left) -> SvdReport<Factors<S>> {
        left.count_residuals(report.values.s.len());
        let Left { progress, ran, .. } = left;
        ran.add_to(&mut report);
        self.complete(self.told(report, &progress, true))
    }

    /// The report with what was asked for of its triples, and what it says of the iteration.
    fn told(&self, report: SvdReport<Factors<S>>, progress: &Progress, reduced: bool) -> SvdReport<Factors<S>> {
        let mut report = report.map(|factors| asked_for(factors, self.options));
        let Factors { s, residuals, .. } = &report.values;
        report.iteration = Some(iteration_of(progress, (s, residuals.as_deref()), self.plan.accuracy, reduced));
        report
    }

    /// Adds to the report what only the driver knows.
    fn complete(&self, mut report: SvdReport<Factors<S>>) -> SvdReport<Factors<S>> {
        if self.options.signs == Signs::Largest {
            report.values.fix_signs();
        }
        report.shape = self.a.shape();
        report.seconds.total = self.clock.seconds();
        report
    }

    /// The largest magnitude of an entry, or an error that names one that is not finite.
    fn largest(&self) -> Result<Re<S>> {
        largest(self.a).ok_or_else(|| first_non_finite(self.a))
    }

    /// The iteration on the CPU.
    fn on_cpu(&self, reason: Reason) -> Result<Ended<S>> {
        let Some(asked) = self.plan.asked else { return Ok(Ended::Left(Left::default())) };
        on_pool_for(self.a.shape(), || {
            let mut clock = Clock::new(self.timed);
            let scale = scale_for_squares(self.largest()?);
            let of_scale = clock.restart();
            let (operator, mut guard) = (Dense(self.a), self.plan.guard(&self.listen)?);
            let watch = guard.quiet.clone();
            let mut blocks = HostBlocks::new(&operator, self.a.shape(), &asked, Some(scale), small_svd, watch)?;
            let found = block_on(iterate(&mut blocks, asked, &mut |progress| guard.go_on(progress)))?;
            if !found.reached {
                let seconds = seconds_of(of_scale, 0.0, clock.restart());
                return Ok(Ended::Left(Left::new(found.progress, &guard, Ran { seconds, ..Ran::default() })));
            }
            guard.watch.end();
            let [s, residuals] = values_of::<S>(&found, blocks.scale())?;
            let [u, v] = blocks.vectors(asked.count);
            let factors = Factors { u, s, v, residuals: Some(residuals) };
            let report = SvdReport {
                values: factors,
                backend: Backend::Cpu,
                reason,
                route: Route::Krylov,
                adapter: None,
                storage: T::NAME,
                tuning: self.options.run.tuning_for_cpu(S::KIND, self.a.nrows().min(self.a.ncols()))?,
                seconds: seconds_of(of_scale, 0.0, clock.restart()),
                counts: Counts::default(),
                kernel_seconds: Vec::new(),
                iteration: None,
                shape: self.a.shape(),
                stage3_on_device: false,
                options: String::new(),
                cost: (S::KIND, no_cost),
            };
            Ok(Ended::Reached(Box::new(self.told(report, &found.progress, false))))
        })
    }

    /// The iteration on a GPU, or the reason why the CPU computes.
    #[cfg(feature = "gpu")]
    async fn on_gpu(&self, on: OnGpu, waits: Waits) -> Result<std::result::Result<Ended<S>, Reason>> {
        let Some(asked) = self.plan.asked else { return Ok(Ok(Ended::Left(Left::default()))) };
        let mut clock = Clock::new(self.timed);
        let largest = self.largest()?;
        let mut scale = scale_for_squares(largest).to_double();
        // Some devices take numbers of f16 below the normal ones for zeros: the largest becomes one of the largest there are.
        let of_f16 = 2f64.powi(ElementKind::F16.max_exponent() - 2 - largest.to_double().log2().floor() as i32);
        let as_f16 = T::NAME == "f16"
            && largest.to_double() > 0.0
            && on.context.require(ElementKind::F16).is_ok()
            && none_below(self.a, LEAST_OF_F16 / of_f16);
        let stored = match T::NAME {
            _ if as_f16 => Stored::As(ElementKind::F16),
            "bf16" if scale == 1.0 => Stored::Bf16,
            _ => Stored::As(S::KIND),
        };
        if as_f16 {
            scale = of_f16;
        }
        let (of_scale, wide) = (clock.restart(), Wide::of(self.a)?);
        let mut guard = self.plan.guard(&self.listen)?;
        let run = device::on_device(wide.view(), (scale, stored), asked, &mut guard, on, (self.options, self.timed, waits)).await;
        let ended = or_fall_back(&self.options.run, self.options.need_device(), run)?;
        Ok(ended.map(|(found, mut report)| {
            report.seconds.scale = of_scale;
            if found.reached {
                guard.watch.end();
                return Ended::Reached(Box::new(self.told(report, &found.progress, false)));
            }
            let SvdReport { seconds, counts, kernel_seconds, .. } = report;
            Ended::Left(Left::new(found.progress, &guard, Ran { seconds, counts, kernel_seconds }))
        }))
    }
}

/// The triples of a reduction of `a` with their residuals, which are measured some at a time.
fn with_residuals<S: Scalar, T: Number<Scalar = S, Real = Re<S>>>(
    a: MatRef<'_, T>,
    mut factors: Factors<S>,
    watch: &Watch,
) -> Result<Factors<S>> {
    let count = factors.s.len();
    let mut all = Vec::with_capacity(count);
    if count > 0 {
        let scale = scale_for_squares(largest(a).ok_or_else(|| first_non_finite(a))?);
        let (operator, of) = (Dense(a), for_residuals(count));
        let mut blocks = HostBlocks::new(&operator, a.shape(), &of, Some(scale), small_svd, watch.clone())?;
        for some in together(count) {
            let (u, v) = (factors.u.as_ref(), factors.v.as_ref());
            blocks.set_vectors(u.subcols(some.start, some.len()), v.subcols(some.start, some.len()));
            let values: Vec<f64> = factors.s[some.clone()].iter().map(|s| s.to_double() * scale.to_double()).collect();
            let residuals = block_on(measured(&mut blocks, &values))?;
            all.extend(unscaled::<S>(&residuals, scale.to_double(), "residuals")?);
            watch.did(some.len() as u64)?;
        }
    }
    watch.end();
    factors.residuals = Some(all);
    Ok(factors)
}
