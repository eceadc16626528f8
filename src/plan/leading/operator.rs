//! Leading triples of an operator, which has no entries that could be reduced.

use pollster::block_on;

use crate::algo::bidiagonal::Stage3;
use crate::{
    algo::krylov::{Asked, iterate},
    base::{
        clock::Clock,
        error::{Result, SvdError},
        number::{HalfStorage, Number, Re, RealElement, Scalar},
        operator::LinearOperator,
        pool::{on_pool, on_threads},
    },
    cost::counts::Counts,
    cpu::krylov::HostBlocks,
    plan::{
        factors::Factors,
        leading::{
            asked_for,
            estimate::{Estimate, Guard},
            iteration_of, no_cost, seconds_of, small_svd, values_of,
        },
        options::{Backend, Signs, SvdOptions, Takes, Vectors},
        report::{Iteration, SvdReport},
        route::{Reduction, Route},
    },
};

/// Products are given up after so many times the columns with which all of the matrix could be found.
const MOST_TIMES: usize = 20;

/// The accuracy that is asked for, by default half of the digits that the type has.
pub(crate) fn accuracy_of<T: Scalar>(asked: Option<f64>) -> f64 {
    asked.unwrap_or_else(|| <Re<T> as num_traits::Float>::epsilon().to_double().sqrt())
}

/// The leading triples, as accurate as was asked for or not.
pub(crate) fn leading<T: Scalar>(
    operator: &dyn LinearOperator<T>,
    count: usize,
    options: &SvdOptions,
) -> Result<SvdReport<Factors<T>>> {
    check(count, options, Takes { stores_half: false, ..Takes::of::<T>("leading_svd", true) })?;
    on_threads(options.run.threads, || on_pool(|| of_operator(operator, count, options)))
}

/// Checks the options, none of which may ask for a reduction or for a device.
fn check(count: usize, options: &SvdOptions, takes: Takes) -> Result<()> {
    let refused = |option, reason: String| Err(SvdError::invalid(option, reason));
    options.run.check(takes)?;
    if options.vectors == Vectors::Full {
        return refused("vectors", format!("Vectors::Full, but {} computes {count} of them", takes.call));
    }
    SvdOptions { keep: Some(count), accuracy: options.accuracy.or(Some(1.0)), ..options.clone() }.check_svd()?;
    let call = takes.call;
    if let Some(keep) = options.keep.filter(|&keep| keep != count) {
        return refused("keep", format!("{keep}, but {call} is asked for {count} triples"));
    }
    if options.reduction != Reduction::Auto || options.stage3 != Stage3::Auto {
        let option = if options.stage3 == Stage3::Auto { "reduction" } else { "stage3" };
        return refused(option, format!("{call} multiplies, and reduces nothing"));
    }
    if options.run.tuning.is_some() || options.run.tuning_table.is_some() {
        let option = if options.run.tuning.is_some() { "tuning" } else { "tuning_table" };
        return refused(option, format!("{call} has no hyperparameters"));
    }
    if options.run.half_storage == HalfStorage::Half {
        return refused("half_storage", format!("HalfStorage::Half, but {call} stores no matrix"));
    }
    if options.run.backend == Backend::Gpu || options.run.time_kernels {
        let option = if options.run.time_kernels { "time_kernels" } else { "backend" };
        return refused(option, format!("{call} multiplies by an operator, on the CPU"));
    }
    #[cfg(feature = "gpu")]
    if options.run.context.is_some() {
        return refused("context", format!("{call} multiplies by an operator, on the CPU"));
    }
    Ok(())
}

fn of_operator<T: Scalar>(operator: &dyn LinearOperator<T>, count: usize, options: &SvdOptions) -> Result<SvdReport<Factors<T>>> {
    let clock = Clock::new(true);
    let shape = operator.shape();
    let order = shape.0.min(shape.1);
    let count = count.min(order);
    let accuracy = accuracy_of::<T>(options.accuracy);
    let tuning = options.run.tuning_for_cpu(T::KIND, order)?;
    let report = |factors, iteration, seconds| SvdReport {
        values: factors,
        backend: Backend::Cpu,
        reason: "an operator is multiplied by on the CPU".into(),
        route: Route::Krylov,
        adapter: None,
        storage: <T as Number>::NAME,
        tuning,
        seconds,
        counts: Counts::default(),
        kernel_seconds: Vec::new(),
        iteration: Some(iteration),
        shape,
        stage3_on_device: false,
        options: String::new(),
        cost: (T::KIND, no_cost),
    };
    if count == 0 {
        let none = Factors {
            residuals: Some(Vec::new()),
            ..Factors::new(faer::Mat::zeros(shape.0, 0), Vec::new(), faer::Mat::zeros(shape.1, 0))
        };
        return Ok(report(none, Iteration { reached: true, ..Iteration::default() }, seconds_of(0.0, 0.0, clock.seconds())));
    }
    let asked = Asked::new(count, shape, accuracy, options.seed);
    let estimate = Estimate::new(shape, count, asked.block).without_reduction();
    let mut guard = Guard::new(
        &options.run.listen(),
        estimate,
        accuracy,
        order.saturating_mul(MOST_TIMES).max(asked.block.saturating_mul(100)),
    )?;
    let mut blocks = HostBlocks::new(operator, shape, &asked, None, small_svd, guard.quiet.clone())?;
    let found = block_on(iterate(&mut blocks, asked, &mut |progress| guard.go_on(progress)))?;
    guard.watch.end();
    let [s, residuals] = values_of::<T>(&found, blocks.scale())?;
    let [u, v] = blocks.vectors(count);
    let mut factors = asked_for(Factors { u, s, v, residuals: Some(residuals) }, options);
    if options.signs == Signs::Largest {
        factors.fix_signs();
    }
    let mut seconds = seconds_of(0.0, 0.0, clock.seconds());
    seconds.total = clock.seconds();
    let iteration = iteration_of(&found.progress, (&factors.s, factors.residuals.as_deref()), accuracy, false);
    Ok(report(factors, iteration, seconds))
}
