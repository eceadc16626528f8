//! Leading triples of a matrix in memory.

use faer::{Mat, MatRef};
use pollster::block_on;

use crate::{
    algo::krylov::{Asked, Found, Progress, iterate, measured},
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
        leading::{Plan, asked_for, iteration_of, no_cost, reduction, seconds_of, small_svd, values_of},
        options::{Backend, Signs, SvdOptions},
        report::SvdReport,
        route::Route,
        svd::svd as full_svd,
    },
};
#[cfg(feature = "gpu")]
use crate::{
    base::element_kind::ElementKind,
    gpu::device::context::Waits,
    plan::{
        backend::{OnGpu, or_fall_back},
        leading::device,
        svd::svd_async as full_svd_async,
    },
};

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
    /// A reduction is to follow; so many of the units of the progress were told.
    Left(Progress, u64),
}

/// Leading triples with residuals, and the report; its seconds are zero unless `timed`.
pub(crate) fn svd<S: Scalar, T: Number<Scalar = S, Real = Re<S>>>(
    a: MatRef<'_, T>,
    options: &SvdOptions,
    timed: bool,
) -> Result<SvdReport<Factors<S>>> {
    let call = Call::new(trimmed(a), options, timed)?;
    on_threads(options.run.threads, || call.run())
}

/// [`svd`] for a caller that must not block. The CPU computes in the rayon pool, from a copy of the matrix.
pub(crate) async fn svd_async<S: Scalar, T: Number<Scalar = S, Real = Re<S>>>(
    a: MatRef<'_, T>,
    options: &SvdOptions,
    timed: bool,
) -> Result<SvdReport<Factors<S>>> {
    let call = Call::new(trimmed(a), options, timed)?;
    let reason = match Place::of_svd_async(S::KIND, options, call.plan.problem()).await? {
        Place::Cpu(reason) => reason,
        #[cfg(feature = "gpu")]
        Place::Gpu(on) => match call.on_gpu(on, Waits::Awaited).await? {
            Ok(Ended::Reached(report)) => return Ok(call.complete(*report)),
            Ok(Ended::Left(progress, told)) => {
                let wide = Wide::of(call.a)?;
                let mut reduction = reduction(options, told);
                reduction.run.threads = options.run.threads;
                let report = full_svd_async(wide.view(), &reduction, timed).await?;
                return call.with_residuals(report, progress);
            }
            Err(reason) => reason,
        },
    };
    let a = call.a;
    let copy = Mat::from_fn(a.nrows(), a.ncols(), |i, j| a[(i, j)]);
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

    fn run(&self) -> Result<SvdReport<Factors<S>>> {
        let ended = match Place::of_svd(S::KIND, self.options, self.plan.problem())? {
            _ if self.plan.asked.is_none() => Ended::Left(Progress::default(), 0),
            Place::Cpu(reason) => self.on_cpu(reason)?,
            #[cfg(feature = "gpu")]
            Place::Gpu(on) => match block_on(self.on_gpu(on, Waits::Blocking))? {
                Ok(ended) => ended,
                Err(reason) => self.on_cpu(reason)?,
            },
        };
        match ended {
            Ended::Reached(report) => Ok(self.complete(*report)),
            Ended::Left(progress, told) => {
                let wide = Wide::of(self.a)?;
                let report = full_svd(wide.view(), &reduction(self.options, told), self.timed)?;
                self.with_residuals(report, progress)
            }
        }
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
        let Some(asked) = self.plan.asked else { return Ok(Ended::Left(Progress::default(), 0)) };
        on_pool_for(self.a.shape(), || {
            let mut clock = Clock::new(self.timed);
            let scale = scale_for_squares(self.largest()?);
            let of_scale = clock.restart();
            let (operator, mut guard) = (Dense(self.a), self.plan.guard(&self.listen)?);
            let watch = guard.quiet.clone();
            let mut blocks = HostBlocks::new(&operator, self.a.shape(), &asked, Some(scale), small_svd, watch)?;
            let found = block_on(iterate(&mut blocks, asked, &mut |progress| guard.go_on(progress)))?;
            if !found.reached {
                return Ok(Ended::Left(found.progress, guard.told));
            }
            guard.watch.end();
            let [s, residuals] = values_of::<S>(&found, blocks.scale())?;
            let [u, v] = blocks.vectors(asked.count);
            let factors = Factors { u, s, v, residuals: Some(residuals) };
            Ok(Ended::Reached(Box::new(SvdReport {
                values: asked_for(factors, self.options),
                backend: Backend::Cpu,
                reason,
                route: Route::Krylov,
                adapter: None,
                storage: T::NAME,
                tuning: self.options.run.tuning_for_cpu(S::KIND, self.a.nrows().min(self.a.ncols()))?,
                seconds: seconds_of(of_scale, 0.0, clock.restart()),
                counts: Counts::default(),
                kernel_seconds: Vec::new(),
                iteration: Some(iteration_of(&found.progress, self.plan.accuracy, false)),
                shape: self.a.shape(),
                stage3_on_device: false,
                options: String::new(),
                cost: (S::KIND, no_cost),
            })))
        })
    }

    /// The iteration on a GPU, or the reason why the CPU computes.
    #[cfg(feature = "gpu")]
    async fn on_gpu(&self, on: OnGpu, waits: Waits) -> Result<std::result::Result<Ended<S>, Reason>> {
        let Some(asked) = self.plan.asked else { return Ok(Ok(Ended::Left(Progress::default(), 0))) };
        let mut clock = Clock::new(self.timed);
        let scale = scale_for_squares(self.largest()?).to_double();
        let (of_scale, wide) = (clock.restart(), Wide::of(self.a)?);
        let mut guard = self.plan.guard(&self.listen)?;
        let as_f16 = T::NAME == "f16" && scale == 1.0 && on.context.require(ElementKind::F16).is_ok();
        let run = device::on_device(wide.view(), (scale, as_f16), asked, &mut guard, on, (self.options, self.timed, waits)).await;
        let ended = or_fall_back(&self.options.run, self.options.need_device(), run)?;
        Ok(ended.map(|ran| match ran {
            device::Ran { found, .. } if !found.reached => Ended::Left(found.progress, guard.told),
            device::Ran { mut report, .. } => {
                guard.watch.end();
                report.seconds.scale = of_scale;
                Ended::Reached(Box::new(report.map(|factors| asked_for(factors, self.options))))
            }
        }))
    }

    /// The triples of a reduction with their residuals.
    fn with_residuals(&self, report: SvdReport<Factors<S>>, progress: Progress) -> Result<SvdReport<Factors<S>>> {
        let mut progress = progress;
        let report = report.try_map(|mut factors| {
            let count = factors.s.len();
            if count > 0 {
                let found = on_pool_for(self.a.shape(), || self.residuals_of(&factors))?;
                let most = found.residuals.iter().copied().fold(0.0, f64::max);
                progress.residual = if most == 0.0 { 0.0 } else { most / found.values[0] };
                factors.residuals = Some(values_of::<S>(&found, found.progress.residual)?[1].clone());
            } else {
                factors.residuals = Some(Vec::new());
                progress.residual = 0.0;
            }
            progress.products += 2;
            progress.columns += 2 * count;
            Ok::<_, SvdError>(asked_for(factors, self.options))
        })?;
        Ok(self.complete(SvdReport { iteration: Some(iteration_of(&progress, self.plan.accuracy, true)), ..report }))
    }

    /// The residuals of triples, scaled; the scale is in the place of the progress's residual.
    fn residuals_of(&self, factors: &Factors<S>) -> Result<Found> {
        let count = factors.s.len();
        let scale = scale_for_squares(self.largest()?);
        let asked = Asked { count, block: count, most: 2 * count, accuracy: 1.0, seed: 0 };
        let operator = Dense(self.a);
        let mut blocks = HostBlocks::new(&operator, self.a.shape(), &asked, Some(scale), small_svd, Watch::default())?;
        blocks.set_vectors(factors.u.as_ref(), factors.v.as_ref());
        let values: Vec<f64> = factors.s.iter().map(|s| s.to_double() * scale.to_double()).collect();
        let residuals = block_on(measured(&mut blocks, &values))?;
        let progress = Progress { residual: scale.to_double(), ..Progress::default() };
        Ok(Found { values, residuals, progress, reached: true })
    }
}
