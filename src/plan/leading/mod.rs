//! The drivers of leading triples to a given accuracy: an iteration with products (`algo/krylov`), or a reduction where that takes less time.

pub(crate) mod estimate;
mod matrix;
pub(crate) mod operator;

#[cfg(feature = "gpu")]
pub(crate) mod device;

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
        watch::{self, Listen, ProgressFn},
    },
    cost::Cost,
    plan::{
        factors::Factors,
        options::{Backend, RunOptions, Signs, SvdOptions, Vectors},
        problem::Problem,
        report::Iteration,
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

/// The options of the reduction in place of an iteration, or after one that told so many units of its progress.
pub(crate) fn reduction(options: &SvdOptions, told: u64) -> SvdOptions {
    let part = told as f64 / UNITS as f64;
    let progress = options.run.progress.clone().map(|outer| {
        ProgressFn::new(move |now| outer.tell(watch::Progress { fraction: part + (1.0 - part) * now.fraction, ..now }))
    });
    let run = RunOptions { threads: None, progress, ..options.run.clone() };
    SvdOptions { run, accuracy: None, seed: 0, tolerance: None, vectors: Vectors::Thin, signs: Signs::Free, ..options.clone() }
}

/// The decomposition of a small matrix on the CPU, on the threads of the caller.
pub(crate) fn small_svd<W: Scalar<Wide = W> + Number<Real = f64>>(a: Mat<W>, keep: usize) -> Result<Small<W>> {
    let options = SvdOptions::default().keep(keep).backend(Backend::Cpu);
    let Factors { u, s, v, .. } = full_svd(a.as_ref(), &options, false)?.values;
    Ok(Small { u, s, v })
}

/// What the report says of an iteration.
pub(crate) fn iteration_of(progress: &Progress, accuracy: f64, reduced: bool) -> Iteration {
    let &Progress { products, columns, restarts, residual } = progress;
    Iteration { products, columns, restarts, residual, reached: residual <= accuracy, reduced }
}

/// The number without the scale of its matrix, rounded.
fn unscaled<R: RealElement>(kind: ElementKind, value: f64, scale: f64, what: &'static str) -> Result<R> {
    let value = R::from_double(value / scale);
    if num_traits::Float::is_finite(value) { Ok(value) } else { Err(SvdError::overflow(kind, what)) }
}

/// The values and their residuals, without the scale of their matrix.
pub(crate) fn values_of<T: Scalar>(found: &Found, scale: f64) -> Result<[Vec<Re<T>>; 2]> {
    let of = |values: &[f64], what| values.iter().map(|&value| unscaled(T::KIND, value, scale, what)).collect::<Result<_>>();
    Ok([of(&found.values, "singular values")?, of(&found.residuals, "residuals")?])
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
