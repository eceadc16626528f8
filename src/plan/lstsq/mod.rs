//! The driver of least squares.
//!
//! | matrix | solution |
//! | --- | --- |
//! | tall and narrow ([`squares_for_r`]), on the CPU | R by A^H A and Cholesky's factorisation, with which CGLS iterates in double precision |
//! | any with m >= n, if a [`Preconditioner`] or [`Products`] ask for it | R by QR in lower precision ([`lower`]), with which CGLS iterates in double precision |
//! | the same, [`Preconditioner::Resident`] | the products of that iteration are the GPU's, in fixed point ([`resident`]) |
//! | any other with m >= n, and one for which that fails | \[A B\] to \[R C\] by Householder reflectors, X = R^-1 C |
//! | m < n | A^T = Q R, X = conj(Q) R^-T B |
//! | the same, rank-deficient | the singular value decomposition of R in place of its inverse |
//!
//! The lengths of residuals and the backward error come from a pass over the rows of A in double precision, on the host.

mod direct;
pub mod lower;
mod resident;
pub(crate) mod ridge;

use faer::{Mat, MatRef};
use pollster::block_on;

use crate::{
    algo::{
        condition::{condition, rough_condition},
        count::factor_flops,
    },
    base::{
        clock::{Clock, StageSeconds},
        element_kind::ElementKind,
        error::{Result, SvdError, room_for},
        number::{HalfStorage, Number, Re, RealElement, Scalar},
        pool::{on_pool_for, on_threads},
        scale::{first_non_finite, power_of_two_scale},
        stage::Stage,
        watch::{StageFlops, Watch},
    },
    cost::{Cost, counts::Counts},
    cpu::{
        kernels::CpuKernels,
        least_squares::{
            cgls::{Inverse, Quality, Solution, quality},
            passes::System,
        },
        tall::{cholesky_qr::ridge_triangle, leaves::Wide},
    },
    plan::{
        backend::Place,
        call::Call,
        choice::Reason,
        lstsq::direct::with_ridge,
        options::{Backend, LstsqOptions, QrOptions, RunOptions, SvdOptions, check_tolerance},
        problem::Problem,
        qr::on_cpu as factors_on_cpu,
        qr_factors::{default_tolerance, epsilon},
        report::SvdReport,
        route::{Preconditioner, Route, Solver, squares_for_r},
        svdvals,
    },
    tile::{products::Products, tuning::Tuning},
};
#[cfg(feature = "gpu")]
use crate::{
    gpu::{
        device::{context::Waits, stream::Manner},
        kernels::GpuKernels,
    },
    plan::{
        backend::{OnGpu, or_fall_back},
        lstsq::lower::FactorOf,
        qr::on_gpu as factors_on_gpu,
    },
};

/// The largest ||B^-1||^2 for which R comes from A^H A, where B is A with normalised columns: the errors of its sums, n eps times this, leave
/// the preconditioner three digits.
const LARGEST_INVERSE: f64 = (1u64 << 40) as f64;
/// The part of the working precision to which the backward error is lowered.
const TARGET: f64 = 0.25;

/// A solution of least squares.
#[derive(Clone, Debug)]
pub struct Fit<T: Scalar> {
    /// X, n x p.
    pub x: Mat<T>,
    /// The numerical rank of A.
    pub rank: usize,
    /// ||b_j - A x_j||
    pub residuals: Vec<Re<T>>,
    /// The singular values of A, descending, if they were asked for or needed.
    pub singular_values: Option<Vec<Re<T>>>,
    /// Iterations of CGLS.
    pub iterations: usize,
    /// A bound on the backward error, relative to ||A||_F.
    pub backward_error: f64,
}

/// Least squares, and the report; its seconds are zero unless `timed`.
pub(crate) fn lstsq<T: Scalar>(
    a: MatRef<'_, T>,
    b: MatRef<'_, T>,
    options: &LstsqOptions,
    timed: bool,
) -> Result<SvdReport<Fit<T>>> {
    on_threads(options.run.threads, || {
        let call = Call::of(a, options, &options.run, timed);
        check(&call, b)?;
        if let Some(report) = block_on(lower::solution(&call, b, false, None))? {
            return Ok(call.complete(report));
        }
        let report = match place_of(&call, b)? {
            Place::Cpu(reason) => on_cpu(&call, b, reason)?,
            #[cfg(feature = "gpu")]
            Place::Gpu(on) => match or_fall_back(&options.run, false, block_on(on_gpu(&call, b, on, Waits::Blocking)))? {
                Ok(report) => report,
                Err(reason) => on_cpu(&call, b, reason)?,
            },
        };
        Ok(call.complete(report))
    })
}

/// [`lstsq`] for a caller that must not block. The CPU computes in the rayon pool, from a copy of the matrices.
pub(crate) async fn lstsq_async<T: Scalar>(
    a: MatRef<'_, T>,
    b: MatRef<'_, T>,
    options: &LstsqOptions,
    timed: bool,
) -> Result<SvdReport<Fit<T>>> {
    let call = Call::of(a, options, &options.run, timed);
    check(&call, b)?;
    if let Some(report) = lower::solution(&call, b, true, None).await? {
        return Ok(call.complete(report));
    }
    let place = Place::of_async(T::KIND, call.run, problem_of(a, b, options)).await?;
    place.has_run(call.run)?;
    let reason = match place {
        Place::Cpu(reason) => reason,
        #[cfg(feature = "gpu")]
        Place::Gpu(on) => match or_fall_back(&options.run, false, on_gpu(&call, b, on, Waits::Awaited).await)? {
            Ok(report) => return Ok(call.complete(report)),
            Err(reason) => reason,
        },
    };
    let b = Mat::from_fn(b.nrows(), b.ncols(), |i, j| b[(i, j)]);
    let options = LstsqOptions { run: options.run.on_cpu(), ..options.clone() };
    call.in_pool(reason, move |a| lstsq(a, b.as_ref(), &options, timed)).await
}

/// The solution in lower precision that the options ask for, of matrices that have been read back from a device; None if it does not suffice, or the
/// options ask for none. R comes from `factor`, if there is one.
#[cfg(feature = "gpu")]
pub(crate) fn lstsq_of_device<T: Scalar>(
    a: MatRef<'_, T>,
    b: MatRef<'_, T>,
    options: &LstsqOptions,
    timed: bool,
    factor: Option<FactorOf<'_, T>>,
) -> Result<Option<SvdReport<Fit<T>>>> {
    let call = Call::of(a, options, &options.run, timed);
    check(&call, b)?;
    block_on(lower::solution(&call, b, false, factor))
}

/// Where the problem is solved.
fn place_of<T: Scalar>(call: &Call<'_, T, LstsqOptions>, b: MatRef<'_, T>) -> Result<Place> {
    let place = Place::of(T::KIND, call.run, problem_of(call.a, b, call.options))?;
    place.has_run(call.run)?;
    Ok(place)
}

fn problem_of<T>(a: MatRef<'_, T>, b: MatRef<'_, T>, options: &LstsqOptions) -> Problem {
    Problem::LeastSquares { m: a.nrows(), n: a.ncols(), p: b.ncols(), ridge: options.ridge != 0.0 }
}

/// Checks the options, the shapes, and that there is memory for the copy of A and B.
fn check<T: Scalar>(call: &Call<'_, T, LstsqOptions>, b: MatRef<'_, T>) -> Result<()> {
    let ((m, n), options) = (call.a.shape(), call.options);
    check_tolerance(options.tolerance)?;
    options.check_ridge()?;
    if options.run.half_storage == HalfStorage::Half {
        return Err(SvdError::invalid("half_storage", "solutions would have three digits; they need HalfStorage::Single"));
    }
    if b.nrows() != m {
        return Err(SvdError::invalid("b", format!("{} rows, but A is {m} x {n}", b.nrows())));
    }
    if options.products != Products::Native {
        let reason = match options.preconditioner {
            _ if m < n => Some(format!("A is {m} x {n}: wide")),
            _ if T::IS_COMPLEX => Some(format!("Products::{:?} are products of real matrices", options.products)),
            Preconditioner::Half => Some("they are of f32 matrices, and Preconditioner::Half stores f16".into()),
            _ => None,
        };
        if let Some(reason) = reason {
            return Err(SvdError::invalid("products", reason));
        }
    }
    match options.preconditioner {
        Preconditioner::Full => {}
        _ if m < n => return Err(SvdError::invalid("preconditioner", format!("A is {m} x {n}: wide"))),
        Preconditioner::Resident if !T::IS_DOUBLE || T::IS_COMPLEX => {
            let reason = format!("Preconditioner::Resident is of f64 matrices, and this one is computed in {}", T::NAME);
            return Err(SvdError::invalid("preconditioner", reason));
        }
        Preconditioner::Resident if options.products != Products::Native => {
            let reason = format!("Products::{:?}, but the R of Preconditioner::Resident has native ones", options.products);
            return Err(SvdError::invalid("products", reason));
        }
        Preconditioner::Half if T::IS_COMPLEX => {
            return Err(SvdError::invalid(
                "preconditioner",
                "Preconditioner::Half, but there are no complex numbers of that precision",
            ));
        }
        _ => {}
    }
    room_for::<T>("least squares", m.max(n), n.saturating_add(b.ncols()), 2)
}

/// Whether an estimate of a condition number, which is rarely less than half of it, shows full rank.
pub(crate) fn is_full_rank(estimate: f64, tolerance: f64) -> bool {
    const SLACK: f64 = 2.0;
    estimate * tolerance * SLACK < 1.0
}

/// The singular values of A, from those of `scale` times A.
pub(crate) fn unscaled_values<R: RealElement>(values: Vec<R>, scale: R) -> Result<Vec<R>> {
    let values: Vec<R> = values.into_iter().map(|s| R::from_double(s.to_double() / scale.to_double())).collect();
    let finite = values.iter().all(|s| s.to_double().is_finite());
    if finite { Ok(values) } else { Err(SvdError::overflow(R::KIND, "singular values")) }
}

/// The scale of B; an error for an entry that is not finite.
pub(crate) fn scale_of_b<T: Scalar>(b: MatRef<'_, T>) -> Result<Re<T>> {
    power_of_two_scale(T::KIND, b).map_err(|_| match first_non_finite(b) {
        SvdError::NonFinite { row, col, value } => SvdError::invalid("b", format!("entry ({row}, {col}) is {value}")),
        other => other,
    })
}

/// The flops of the factorisation, and of a few passes over A.
fn flops(kind: ElementKind, (m, n): (usize, usize), p: usize, tuning: &Tuning) -> Result<StageFlops> {
    const PASSES: u64 = 4;
    let of_passes = [4, m as u64, n as u64, p as u64].into_iter().fold(PASSES, u64::saturating_mul);
    Ok([factor_flops(kind, (m.max(n), m.min(n)), tuning)?, of_passes, 0, 0])
}

/// The caller's solution; for types in single precision also the scaled one that it is exactly.
type Unscaled<T> = (Mat<T>, Option<Mat<Wide<T>>>);

/// A solution by conjugate gradients.
struct Iterated<T: Scalar> {
    x: Mat<T>,
    of_x: Quality,
    iterations: usize,
}

/// A solution, and how it was found.
struct Found<T: Scalar> {
    fit: Fit<T>,
    solver: Solver,
    seconds: StageSeconds,
}

/// A call that has begun.
struct Begun<'a, T: Scalar> {
    call: &'a Call<'a, T, LstsqOptions>,
    system: System<'a, T>,
    /// Whether the thread must not block.
    awaited: bool,
    scale_seconds: f64,
    clock: Clock,
}

impl<'a, T: Scalar> Begun<'a, T> {
    /// Stage 0 of A and B, and the begin of the factorisation.
    fn new(call: &'a Call<'a, T, LstsqOptions>, b: MatRef<'a, T>, tuning: &Tuning, awaited: bool) -> Result<Self> {
        let (scale, scale_seconds) = call.scale(T::KIND)?;
        let scale = ridge::scale_beside(scale, call.options.ridge)?;
        let b_scale = scale_of_b(b)?;
        let clock = Clock::new(call.timed);
        let watch = Watch::new(&call.listen, || flops(T::KIND, call.a.shape(), b.ncols(), tuning))?;
        watch.begin(Stage::Qr)?;
        let ridge = call.options.ridge * scale.to_double() * scale.to_double();
        Ok(Begun {
            call,
            system: System { a: call.a, scale, b, b_scale, ridge, watch, products: None },
            awaited,
            scale_seconds,
            clock,
        })
    }

    fn is_wide(&self) -> bool {
        self.system.a.nrows() < self.system.a.ncols()
    }

    /// Singular values up to this part of the largest count as zero.
    fn tolerance(&self) -> f64 {
        self.call.options.tolerance.unwrap_or_else(|| default_tolerance::<T>(self.call.a.shape()))
    }

    fn has_full_rank<S: Scalar>(&self, r: MatRef<'_, S>) -> bool {
        // A rough estimate is too low by n^(1/4), so that n times leave much to spare.
        let rough = r.ncols() as f64 * rough_condition(r);
        is_full_rank(rough, self.tolerance()) || is_full_rank(condition(r), self.tolerance())
    }

    /// The options of a factorisation within this call.
    fn factor_options(&self) -> QrOptions {
        self.call.run.of_part().into()
    }

    /// The options of singular values, or of a decomposition, within this call; its kernels are not timed.
    fn inner_options(&self) -> SvdOptions {
        RunOptions { time_kernels: false, ..self.call.run.of_part() }.into()
    }

    /// The solution by A^H A; None if that loses too many digits, or if the rank is in doubt.
    fn by_squares(&mut self) -> Result<Option<Found<T>>> {
        let System { a, scale, .. } = self.system;
        let Some(r) = ridge_triangle(a, self.call.options.ridge, LARGEST_INVERSE, &self.system.watch)? else { return Ok(None) };
        let (n, scale) = (a.ncols(), scale.to_double());
        let r = Mat::from_fn(n, n, |i, j| r[(i, j)].times(scale));
        if !self.has_full_rank(r.as_ref()) {
            return Ok(None);
        }
        let factor_seconds = self.clock.restart();
        let narrow = Mat::from_fn(n, n, |i, j| T::from_wide(r[(i, j)]));
        let Some(Iterated { x, of_x, iterations }) = self.iterated(r.as_ref())? else { return Ok(None) };
        let singular_values = block_on(self.values_of(narrow.as_ref()))?;
        let fit = self.fit(x, n, of_x, singular_values, iterations)?;
        Ok(Some(self.found(fit, Solver::Cholesky, factor_seconds)))
    }

    /// The solution by CGLS with R as preconditioner, its quality, and the iterations; None if they do not converge.
    fn iterated(&self, r: MatRef<'_, Wide<T>>) -> Result<Option<Iterated<T>>> {
        self.system.watch.begin(Stage::Solve)?;
        let ridge = self.system.ridge;
        let solution = self.system.solve(r, TARGET * epsilon::<T>())?;
        let Some(Solution { x, quality: of_x, iterations }) = solution else { return Ok(None) };
        let (x, rounded) = self.unscaled(x)?;
        let of_x = match rounded {
            None => of_x,
            Some(rounded) => {
                let pass = self.system.residual_of(rounded.as_ref())?;
                quality(&pass, rounded.as_ref(), Inverse::Triangle(r), r.norm_l2(), ridge)
            }
        };
        Ok(Some(Iterated { x, of_x, iterations }))
    }

    /// The solution of the caller's problem from that of the scaled one, and for types in single precision that solution rounded likewise.
    fn unscaled(&self, x: Mat<Wide<T>>) -> Result<Unscaled<T>> {
        let exponent = |scale: Re<T>| scale.to_double().log2() as i32;
        let by = exponent(self.system.scale) - exponent(self.system.b_scale);
        // In two steps, because the factor itself may be out of range.
        let (some, others) = (2f64.powi(by / 2), 2f64.powi(by - by / 2));
        let narrow = Mat::from_fn(x.nrows(), x.ncols(), |i, j| T::from_wide(x[(i, j)].times(some).times(others)));
        if !narrow.norm_max().to_double().is_finite() {
            return Err(SvdError::overflow(T::KIND, "entries of the solution"));
        }
        let back = |x: T| x.to_wide().times(1.0 / others).times(1.0 / some);
        let rounded = (!T::IS_DOUBLE).then(|| Mat::from_fn(x.nrows(), x.ncols(), |i, j| back(narrow[(i, j)])));
        Ok((narrow, rounded))
    }

    fn unscaled_values(&self, values: Vec<Re<T>>) -> Result<Vec<Re<T>>> {
        unscaled_values(values, self.system.scale)
    }

    /// The singular values of A if they are asked for: those of R, or of A itself if R has the ridge.
    async fn values_of(&self, r: MatRef<'_, T>) -> Result<Option<Vec<Re<T>>>> {
        let options = self.inner_options();
        Ok(match (self.call.options.singular_values, self.system.ridge == 0.0, self.awaited) {
            (false, ..) => None,
            (true, true, true) => Some(self.unscaled_values(svdvals::svdvals_async(r, &options, false).await?.values)?),
            (true, true, false) => Some(self.unscaled_values(svdvals::svdvals(r, &options, false)?.values)?),
            (true, false, _) => self.values_of_a().await?,
        })
    }

    /// The singular values of A if they are asked for, from A itself.
    async fn values_of_a(&self) -> Result<Option<Vec<Re<T>>>> {
        let options = self.inner_options();
        Ok(match (self.call.options.singular_values, self.awaited) {
            (false, _) => None,
            (true, true) => Some(svdvals::svdvals_async(self.call.a, &options, false).await?.values),
            (true, false) => Some(svdvals::svdvals(self.call.a, &options, false)?.values),
        })
    }

    fn fit(
        &self,
        x: Mat<T>,
        rank: usize,
        of_x: Quality,
        singular_values: Option<Vec<Re<T>>>,
        iterations: usize,
    ) -> Result<Fit<T>> {
        let (backward_error, scale) = (of_x.backward(), self.system.b_scale.to_double());
        let residuals: Vec<Re<T>> = of_x.residuals.iter().map(|length| Re::<T>::from_double(length / scale)).collect();
        if residuals.iter().any(|length| !length.to_double().is_finite()) {
            return Err(SvdError::overflow(T::KIND, "lengths of residuals"));
        }
        Ok(Fit { x, rank, residuals, singular_values, iterations, backward_error })
    }

    /// The end of the call.
    fn found(&mut self, fit: Fit<T>, solver: Solver, factor_seconds: f64) -> Found<T> {
        self.system.watch.end();
        let solve = self.clock.restart();
        Found {
            fit,
            solver,
            seconds: StageSeconds { scale: self.scale_seconds, qr: factor_seconds, solve, ..StageSeconds::default() },
        }
    }
}

/// The solution on the CPU.
fn on_cpu<T: Scalar>(call: &Call<'_, T, LstsqOptions>, b: MatRef<'_, T>, reason: Reason) -> Result<SvdReport<Fit<T>>> {
    let shape = call.a.shape();
    let tuning = call.run.tuning_for_cpu(T::KIND, shape.0.min(shape.1))?;
    let found = on_pool_for(shape, || {
        let mut begun = Begun::new(call, b, &tuning, false)?;
        if squares_for_r(T::KIND, shape)
            && let Some(found) = begun.by_squares()?
        {
            return Ok(found);
        }
        let reduced = if begun.is_wide() {
            let options = begun.factor_options();
            let System { a, scale, ridge, .. } = begun.system;
            begun.wide(if ridge == 0.0 {
                factors_on_cpu(&Call::of(a.transpose(), &options, &options.run, false), reason.clone())?.values
            } else {
                let stacked = with_ridge(a.transpose(), scale, ridge);
                factors_on_cpu(&Call::of(stacked.as_ref(), &options, &options.run, false), reason.clone())?.values
            })
        } else {
            let kernels = CpuKernels::<T>::watched(&tuning, begun.system.watch.clone())?;
            block_on(begun.tall(&kernels, &tuning))?
        };
        block_on(begun.completed(reduced))
    })?;
    Ok(report_of(call, reason, tuning, found))
}

/// The report of a call on the CPU.
fn report_of<T: Scalar>(call: &Call<'_, T, LstsqOptions>, reason: Reason, tuning: Tuning, found: Found<T>) -> SvdReport<Fit<T>> {
    SvdReport {
        values: found.fit,
        backend: Backend::Cpu,
        reason,
        route: Route::LeastSquares(found.solver),
        adapter: None,
        storage: <T as Number>::NAME,
        tuning,
        seconds: found.seconds,
        counts: Counts::default(),
        kernel_seconds: Vec::new(),
        iteration: None,
        shape: call.a.shape(),
        stage3_on_device: false,
        options: String::new(),
        cost: (T::KIND, Cost::of_lstsq),
    }
}

/// The solution with the factorisation on a GPU, and its triangle on the host.
#[cfg(feature = "gpu")]
async fn on_gpu<T: Scalar>(
    call: &Call<'_, T, LstsqOptions>,
    b: MatRef<'_, T>,
    on: OnGpu,
    waits: Waits,
) -> Result<SvdReport<Fit<T>>> {
    let OnGpu { context, tuning, reason } = on;
    let mut begun = Begun::new(call, b, &tuning, waits == Waits::Awaited)?;
    let (reduced, counts, kernel_seconds) = if begun.is_wide() {
        let options = begun.factor_options();
        let System { a, scale, ridge, .. } = begun.system;
        let on = OnGpu { context: context.clone(), tuning: tuning.clone(), reason: reason.clone() };
        let report = if ridge == 0.0 {
            factors_on_gpu(&Call::of(a.transpose(), &options, &options.run, false), on, waits).await?
        } else {
            let stacked = with_ridge(a.transpose(), scale, ridge);
            factors_on_gpu(&Call::of(stacked.as_ref(), &options, &options.run, false), on, waits).await?
        };
        (begun.wide(report.values), report.counts, report.kernel_seconds)
    } else {
        let watch = begun.system.watch.clone();
        let manner = Manner { waits, timed: call.run.time_kernels, watch, ..Manner::default() };
        let kernels = GpuKernels::running(T::KIND, &context, &tuning, manner)?;
        let reduced = begun.tall(&kernels, &tuning).await?;
        (reduced, kernels.counts(), kernels.kernel_seconds())
    };
    let found = begun.completed(reduced).await?;
    let adapter = Some(context.adapter_name().to_owned());
    Ok(SvdReport { backend: Backend::Gpu, adapter, counts, kernel_seconds, ..report_of(call, reason, tuning, found) })
}
