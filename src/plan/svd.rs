//! The driver of the decomposition with vectors: right vectors by the route of the values, then the left ones.

use faer::{Mat, MatRef};
#[cfg(feature = "gpu")]
use pollster::block_on;

use crate::{
    algo::{svdvals::narrowed, vectors::needs_step},
    base::{
        clock::{Clock, StageSeconds},
        error::{Result, SvdError, room_for},
        number::{HalfStorage, Re, RealElement, Scalar},
        pool::on_threads,
        scale::power_of_two_scale,
        view::{Turned, trimmed, upright},
        watch::Watch,
        zeros::{each_column, identity, zeros},
    },
    cpu::{
        simd::convert::{from_entries, to_wide},
        vectors::left::{complement, left_vectors, orthonormalise},
    },
    plan::{
        backend::Place,
        call::Call,
        call::Room,
        cpu::{Found, on_cpu},
        factors::Factors,
        options::{Signs, SvdOptions, Vectors},
        problem::Problem,
        report::SvdReport,
    },
};
#[cfg(feature = "gpu")]
use crate::{
    base::pool::on_pool,
    gpu::{device::context::Waits, kernels::GpuKernels, storage::Dense},
    plan::{
        backend::{OnGpu, or_fall_back},
        choice::Reason,
        gpu::{Needed, OnDevice, svd_on_gpu},
    },
    tile::kernels::Transfers,
};

/// What a call computes, by its size.
fn problem_of<T: Scalar>(call: &Call<'_, T>) -> Problem {
    Problem::Svd { m: call.a.nrows(), n: call.a.ncols(), full: call.options.vectors == Vectors::Full }
}

/// The type of the arithmetic of stage 2.
type Wide<T> = <T as Scalar>::Wide;

/// The singular value decomposition, and the report; its seconds are zero unless `timed`.
pub(crate) fn svd<T: Scalar>(a: MatRef<'_, T>, options: &SvdOptions, timed: bool) -> Result<SvdReport<Factors<T>>> {
    check::<T>(a.shape(), options)?;
    let call = Call::new(trimmed(a), options, timed);
    let factors = on_threads(options.run.threads, || svd_of(&call))?;
    Ok(finished(factors, a.shape(), options))
}

/// [`svd`] in the caller's pool, with workspace that is reused from call to call.
pub(crate) fn svd_with_room<T: Scalar>(
    a: MatRef<'_, T>,
    options: &SvdOptions,
    timed: bool,
    room: Option<&Room<T>>,
) -> Result<SvdReport<Factors<T>>> {
    check::<T>(a.shape(), options)?;
    let call = Call::new(trimmed(a), options, timed).in_room(room);
    Ok(finished(svd_of(&call)?, a.shape(), options))
}

/// [`svd`] for a caller that must not block. The CPU computes in the rayon pool, from a copy of the matrix.
pub(crate) async fn svd_async<T: Scalar>(a: MatRef<'_, T>, options: &SvdOptions, timed: bool) -> Result<SvdReport<Factors<T>>> {
    check::<T>(a.shape(), options)?;
    let of = trimmed(a);
    let call = Call::new(of, options, timed);
    let reason = match Place::of_svd_async(T::KIND, options, problem_of(&call)).await? {
        Place::Cpu(reason) => reason,
        #[cfg(feature = "gpu")]
        Place::Gpu(on) => match on_gpu(&call, on, Waits::Awaited).await? {
            Ok(report) => return Ok(finished(call.complete(report), a.shape(), options)),
            Err(reason) => reason,
        },
    };
    let on_cpu = SvdOptions { run: options.run.on_cpu(), ..options.clone() };
    let report = call.in_pool(reason, move |a| svd(a, &on_cpu, timed)).await?;
    Ok(finished(report, a.shape(), options))
}

/// Checks the options that only a decomposition with vectors has, and that there is memory for the vectors and what computes them.
pub(crate) fn check<T: Scalar>((m, n): (usize, usize), options: &SvdOptions) -> Result<()> {
    options.check_svd()?;
    let (longer, shorter) = (m.max(n), m.min(n));
    let kept = options.keep.unwrap_or(shorter).min(shorter);
    match options.vectors {
        Vectors::Full => room_for::<T>("full singular vectors", longer, longer, 3)?,
        _ => room_for::<T>("singular vectors", longer, kept, 2)?,
    }
    room_for::<Wide<T>>("reflectors", shorter, shorter, 2)?;
    match options.run.half_storage {
        HalfStorage::Single => Ok(()),
        HalfStorage::Half => {
            Err(SvdError::invalid("half_storage", "singular vectors would have three digits; they need HalfStorage::Single"))
        }
    }
}

/// Adds the vectors of an empty matrix, and the convention of signs.
fn finished<T: Scalar>(mut report: SvdReport<Factors<T>>, (m, n): (usize, usize), options: &SvdOptions) -> SvdReport<Factors<T>> {
    let factors = &mut report.values;
    if m == 0 || n == 0 {
        let side = |rows| match options.vectors {
            Vectors::Full => identity(rows, rows),
            _ => Mat::zeros(rows, 0),
        };
        (factors.u, factors.v) = (side(m), side(n));
    }
    if options.signs == Signs::Largest {
        factors.fix_signs();
    }
    report
}

/// The decomposition on the backend that the options choose.
fn svd_of<T: Scalar>(call: &Call<'_, T>) -> Result<SvdReport<Factors<T>>> {
    let wanted = |values: &[f64]| call.options.kept(values);
    let place = Place::of_svd(T::KIND, call.options, problem_of(call))?;
    let on_the_cpu = |reason, scale| on_cpu::<T, T, _>(call, reason, scale, Some(&wanted), |found| of_cpu(call, found));
    let report = match place {
        Place::Cpu(reason) => on_the_cpu(reason, None)?,
        #[cfg(feature = "gpu")]
        Place::Gpu(on) => match block_on(on_gpu(call, on, Waits::Blocking))? {
            Ok(report) => report,
            Err(reason) => on_the_cpu(reason, None)?,
        },
    };
    Ok(call.complete(report))
}

/// The report of a GPU, or the reason why the CPU computes.
#[cfg(feature = "gpu")]
async fn on_gpu<T: Scalar>(
    call: &Call<'_, T>,
    on: OnGpu,
    waits: Waits,
) -> Result<std::result::Result<SvdReport<Factors<T>>, Reason>> {
    let (scale, seconds) = call.scale(T::KIND)?;
    let run = of_gpu(call, scale, on, waits).await;
    Ok(or_fall_back(call.run, call.bound(), run)?.map(|mut report| {
        report.seconds.scale = seconds;
        report
    }))
}

/// The decomposition on a GPU. The factors are read back. If the device cannot hold what the left vectors need, the host computes them.
#[cfg(feature = "gpu")]
async fn of_gpu<T: Scalar>(call: &Call<'_, T>, scale: Re<T>, on: OnGpu, waits: Waits) -> Result<SvdReport<Factors<T>>> {
    let count = |values: &[f64]| call.options.kept(values);
    let side = Sides { a: call.upright(), turned: upright(call.a).1, scale };
    let (left_is_needed, right_is_needed) = needed(call.options.vectors, side.turned.transposed);
    let full = call.options.vectors == Vectors::Full;
    let needed = Needed { count: &count, left: left_is_needed, full };
    let report = svd_on_gpu(T::KIND, &side.a, scale.to_double(), call.asked(), on, waits, Some(needed)).await?;
    let mut found = None;
    let mut report = report.map(|on_device| found = Some(on_device));
    let Some(OnDevice { values, right, left, kernels, watch }) = found else {
        return Err(SvdError::Gpu { what: "the decomposition", reason: "it gave no result".into() });
    };
    let mut clock = Clock::new(call.timed);
    let mut values = narrowed(&values);
    values.truncate(right.as_ref().map_or(0, |right| right.size.1));
    let factors = if left_is_needed && left.is_none() {
        let right = read_back(&kernels, right, side.a.ncols()).await?;
        on_pool(|| side.factors(call.options, values, (Some(right), false), &watch))?
    } else {
        let right = read_back(&kernels, right.filter(|_| right_is_needed), side.a.ncols()).await?;
        let left = read_back(&kernels, left, side.a.nrows()).await?;
        watch.end();
        factors_of_caller(side.turned, call.options, values, left, right)
    };
    report.seconds.left_vectors += clock.restart();
    (report.counts, report.kernel_seconds) = (kernels.counts(), kernels.kernel_seconds());
    Ok(report.map(|()| factors))
}

/// The vectors of one side, or none.
#[cfg(feature = "gpu")]
pub(crate) async fn read_back<T: Scalar>(kernels: &GpuKernels, of: Option<Dense>, rows: usize) -> Result<Mat<T>> {
    match of {
        Some(of) => kernels.download_awaited(&of).await,
        None => Ok(Mat::zeros(rows, 0)),
    }
}

/// The factors from what a route on the CPU has found.
fn of_cpu<T: Scalar>(call: &Call<'_, T>, found: Found<T>) -> Result<(Factors<T>, StageSeconds)> {
    let (a, turned) = upright(call.a);
    let clock = Clock::new(call.timed);
    let scale = power_of_two_scale(T::KIND, call.a)?;
    let side = match found.of_transpose {
        true => Sides { a: a.transpose(), turned: turned.then_transposed(), scale },
        false => Sides { a, turned, scale },
    };
    let factors = match found.wide {
        Some(right) => {
            let mut a = zeros::<Wide<T>>(side.a.nrows(), side.a.ncols());
            to_wide(side.a, a.as_mut());
            let wide = Sides::<Wide<T>> { a: a.as_ref(), turned: side.turned, scale: side.scale.to_double() };
            let Factors { u, s, v, .. } =
                wide.factors(call.options, found.values, (Some(right), found.is_orthonormal), &found.watch)?;
            Factors::new(from_wide(&u), narrowed(&s), from_wide(&v))
        }
        None => side.factors(call.options, narrowed(&found.values), (found.right, found.is_orthonormal), &found.watch)?,
    };
    Ok((factors, StageSeconds { left_vectors: clock.seconds(), ..found.seconds }))
}

/// The matrix, rounded.
fn from_wide<T: Scalar>(a: &Mat<Wide<T>>) -> Mat<T> {
    from_entries(a.nrows(), a.ncols(), |i, j| T::from_wide(a[(i, j)]))
}

/// The matrix whose right vectors are known, and how it came from the caller's.
struct Sides<'a, T: Scalar> {
    a: MatRef<'a, T>,
    turned: Turned,
    scale: Re<T>,
}

impl<T: Scalar> Sides<'_, T> {
    /// The factors of the caller's matrix, from all values and the right vectors of `self.a`, and whether these are orthonormal.
    fn factors(
        &self,
        options: &SvdOptions,
        mut values: Vec<Re<T>>,
        (right, is_orthonormal): (Option<Mat<T>>, bool),
        watch: &Watch,
    ) -> Result<Factors<T>> {
        let mut right = right.unwrap_or_else(|| Mat::zeros(self.a.ncols(), 0));
        if !is_orthonormal && needs_step(T::KIND, right.shape()) {
            orthonormalise(right.as_mut());
        }
        values.truncate(right.ncols());
        let left = if needed(options.vectors, self.turned.transposed).0 {
            let left = left_vectors(self.a, self.scale, &values, right.as_ref(), watch)?;
            if options.vectors == Vectors::Full { beside(&left, &complement(left.as_ref())) } else { left }
        } else {
            Mat::zeros(self.a.nrows(), 0)
        };
        watch.end();
        Ok(factors_of_caller(self.turned, options, values, left, right))
    }
}

/// The factors of the caller's matrix, from those of the matrix that it was turned to.
pub(crate) fn factors_of_caller<T: Scalar>(
    turned: Turned,
    options: &SvdOptions,
    values: Vec<Re<T>>,
    left: Mat<T>,
    right: Mat<T>,
) -> Factors<T> {
    let Turned { transposed, rows_reversed, cols_reversed } = turned;
    let (needs_left, needs_right) = needed(options.vectors, transposed);
    let side = |of: Mat<T>, is_needed: bool, reversed: bool| {
        if is_needed { turned_back(of, reversed, transposed) } else { Mat::zeros(of.nrows(), 0) }
    };
    let (left, right) = (side(left, needs_left, rows_reversed), side(right, needs_right, cols_reversed));
    let (u, v) = if transposed { (right, left) } else { (left, right) };
    Factors::new(u, values, v)
}

/// Whether the left and the right vectors of the caller's matrix, or of its transpose, are needed.
pub(crate) fn needed(vectors: Vectors, transposed: bool) -> (bool, bool) {
    let (of_u, of_v) = match vectors {
        Vectors::Thin | Vectors::Full => (true, true),
        Vectors::Left => (true, false),
        Vectors::Right => (false, true),
    };
    if transposed { (of_v, of_u) } else { (of_u, of_v) }
}

/// The columns of both, side by side.
pub(crate) fn beside<T: Scalar>(first: &Mat<T>, others: &Mat<T>) -> Mat<T> {
    let k = first.ncols();
    Mat::from_fn(first.nrows(), k + others.ncols(), |i, j| if j < k { first[(i, j)] } else { others[(i, j - k)] })
}

/// The vectors of the caller's matrix: rows in its order, and conjugates if they are those of its transpose.
fn turned_back<T: Scalar>(mut x: Mat<T>, reversed: bool, transposed: bool) -> Mat<T> {
    let conjugate = transposed && T::IS_COMPLEX;
    if conjugate || reversed {
        each_column(&mut x, &|_, column| {
            if conjugate {
                column.iter_mut().for_each(|x| *x = T::conj_impl(x));
            }
            if reversed {
                column.reverse();
            }
        });
    }
    x
}
