//! The drivers of leading triples to a given accuracy: an iteration with products (`algo/krylov`), or a reduction where that takes less time.

pub(crate) mod estimate;
mod matrix;
pub(crate) mod operator;

#[cfg(feature = "gpu")]
pub(crate) mod device;

use std::ops::Range;

use faer::Mat;

use estimate::{Estimate, Guard, UNITS, usual_steps};
pub(crate) use matrix::{svd, svd_async};

use crate::{
    algo::krylov::{Asked, Found, Progress, Small},
    base::{
        clock::StageSeconds,
        element_kind::ElementKind,
        error::{Result, SvdError},
        number::{Number, Re, RealElement, Scalar},
        stage::Stage,
        watch::{self, Listen, ProgressFn, Watch},
    },
    cost::Cost,
    plan::{
        factors::Factors,
        options::{Backend, RunOptions, Signs, SvdOptions, Vectors},
        problem::Problem,
        report::{Iteration, Ran},
        svd::svd as full_svd,
    },
    tile::tuning::Tuning,
};

/// What a call for leading triples of a matrix intends.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    /// None: the matrix is reduced at once.
    pub asked: Option<Asked>,
    pub estimate: Estimate,
    pub accuracy: f64,
    shape: (usize, usize),
}

impl Plan {
    /// That of an m x n matrix whose arithmetic has rounding errors of `epsilon`.
    pub fn new(shape: (usize, usize), epsilon: f64, options: &SvdOptions) -> Plan {
        let (accuracy, order) = (options.accuracy.unwrap_or(1.0), shape.0.min(shape.1));
        let count = options.keep.unwrap_or(order).min(order);
        let asked = Asked::new(count, shape, accuracy, options.seed);
        let estimate = Estimate::new(shape, count, asked.block);
        // Residuals cannot be much smaller than rounding errors.
        let iterates = count > 0 && accuracy >= 4.0 * epsilon && estimate.iterates(accuracy);
        Plan { asked: iterates.then_some(asked), estimate, accuracy, shape }
    }

    pub fn problem(&self) -> Problem {
        let (m, n) = self.shape;
        match &self.asked {
            Some(asked) => Problem::Leading { m, n, count: asked.count, steps: usual_steps(self.accuracy) },
            None => Problem::Svd { m, n, full: false },
        }
    }

    /// What watches the iteration.
    pub fn guard(&self, listen: &Listen) -> Result<Guard> {
        Guard::new(listen, self.estimate, self.accuracy, usize::MAX)
    }
}

/// The part of the progress of a call that the residuals of a reduction are.
const OF_RESIDUALS: f64 = 0.05;

/// Triples whose residuals are measured at a time: products with few columns read the matrix more often, and those with many take more memory.
const TRIPLES: usize = 64;

/// How an iteration ended for which a reduction follows.
#[derive(Debug, Default)]
pub(crate) struct Left {
    pub progress: Progress,
    /// Units told of the progress of the call.
    told: u64,
    pub ran: Ran,
}

impl Left {
    pub fn new(progress: Progress, guard: &Guard, ran: Ran) -> Left {
        Left { progress, told: guard.told, ran }
    }

    /// The options of the reduction.
    pub fn reduction(&self, options: &SvdOptions, listen: &Listen) -> SvdOptions {
        let (part, listen) = (self.told as f64 / UNITS as f64, listen.clone());
        let progress = listen.progress.clone().map(|outer| {
            let rest = (1.0 - part) * (1.0 - OF_RESIDUALS);
            let seconds = move || listen.start.map_or(0.0, |start| start.elapsed().as_secs_f64());
            ProgressFn::new(move |now| {
                outer.tell(watch::Progress { fraction: part + rest * now.fraction, seconds: seconds(), ..now });
            })
        });
        let run = RunOptions { threads: None, progress, ..options.run.clone() };
        SvdOptions {
            run,
            accuracy: None,
            seed: 0,
            tolerance: None,
            vectors: Vectors::Thin,
            signs: Signs::Free,
            ..options.clone()
        }
    }

    /// Counts the products that measure the residuals of so many triples.
    pub fn count_residuals(&mut self, count: usize) {
        self.progress.products += 2 * together(count).count();
        self.progress.columns += 2 * count;
    }

    /// What watches the measuring of the residuals, which come last.
    pub fn measuring(&self, listen: &Listen, of: usize) -> Result<Watch> {
        let rest = (1.0 - self.told as f64 / UNITS as f64) * OF_RESIDUALS;
        let before = (of as f64 * (1.0 - rest) / rest).ceil() as u64;
        let watch = Watch::new(listen, || Ok([before, 0, 0, of as u64]))?;
        watch.begin(Stage::Vectors)?;
        Ok(watch)
    }
}

/// The ranges of triples whose residuals are measured together.
pub(crate) fn together(count: usize) -> impl Iterator<Item = Range<usize>> {
    (0..count).step_by(TRIPLES).map(move |first| first..count.min(first + TRIPLES))
}

/// What is asked of the bases in which the residuals of so many triples are measured.
pub(crate) fn for_residuals(count: usize) -> Asked {
    let count = count.min(TRIPLES);
    Asked { count, block: count, most: 2 * count, accuracy: 1.0, seed: 0 }
}

/// The decomposition of a small matrix on the CPU, on the threads of the caller.
pub(crate) fn small_svd<W: Scalar<Wide = W> + Number<Real = f64>>(a: Mat<W>, keep: usize) -> Result<Small<W>> {
    let options = SvdOptions::default().keep(keep).backend(Backend::Cpu);
    let Factors { u, s, v, .. } = full_svd(a.as_ref(), &options, false)?.values;
    Ok(Small { u, s, v })
}

/// What the report says of an iteration that gave triples with these values and residuals.
pub(crate) fn iteration_of<R: RealElement>(
    progress: &Progress,
    of: (&[R], Option<&[R]>),
    accuracy: f64,
    reduced: bool,
) -> Iteration {
    let &Progress { products, columns, restarts, .. } = progress;
    let most = of.1.unwrap_or_default().iter().map(|residual| residual.to_double()).fold(0.0, f64::max);
    let residual = if most == 0.0 { 0.0 } else { most / of.0[0].to_double() };
    Iteration { products, columns, restarts, residual, reached: residual <= accuracy, reduced }
}

/// Numbers without the scale of their matrix, rounded.
pub(crate) fn unscaled<T: Scalar>(values: &[f64], scale: f64, what: &'static str) -> Result<Vec<Re<T>>> {
    let of = |value: f64| {
        let value = Re::<T>::from_double(value / scale);
        if num_traits::Float::is_finite(value) { Ok(value) } else { Err(SvdError::overflow(T::KIND, what)) }
    };
    values.iter().copied().map(of).collect()
}

/// The values and their residuals, without the scale of their matrix.
pub(crate) fn values_of<T: Scalar>(found: &Found, scale: f64) -> Result<[Vec<Re<T>>; 2]> {
    Ok([unscaled::<T>(&found.values, scale, "singular values")?, unscaled::<T>(&found.residuals, scale, "residuals")?])
}

/// The triples that the tolerance leaves, and the vectors that the options ask for.
pub(crate) fn asked_for<T: Scalar>(mut factors: Factors<T>, options: &SvdOptions) -> Factors<T> {
    let kept = options.kept(&factors.s);
    let cut = |x: Mat<T>, wanted: bool| match wanted {
        true if kept < x.ncols() => x.as_ref().subcols(0, kept).to_owned(),
        true => x,
        false => Mat::zeros(x.nrows(), 0),
    };
    factors.u = cut(factors.u, options.vectors != Vectors::Right);
    factors.v = cut(factors.v, options.vectors != Vectors::Left);
    factors.s.truncate(kept);
    if let Some(residuals) = &mut factors.residuals {
        residuals.truncate(kept);
    }
    factors
}

/// The seconds of an iteration.
pub(crate) fn seconds_of(scale: f64, upload: f64, iteration: f64) -> StageSeconds {
    StageSeconds { scale, upload, iteration, ..StageSeconds::default() }
}

/// The error in place of a cost: it depends on the matrix's values.
pub(crate) fn no_cost(_: ElementKind, _: usize, _: usize, _: &Tuning, _: bool) -> Result<Cost> {
    Err(SvdError::invalid("accuracy", "the cost of an iteration depends on the values of the matrix"))
}
