//! The routes on the CPU.

use std::sync::Mutex;

use faer::{Mat, MatRef};
use pollster::block_on;

use crate::{
    algo::{
        bidiag::{Known, scaled_powers},
        bidiagonal::Bidiagonal,
        count::{flops_by_band, flops_by_one_stage, flops_directly, vectors_flops},
        deferred::Deferral,
        leading::Leading,
        svdvals::{Driver, Source, Wanted, narrowed, right_of_bidiagonal, stage_three, unscaled},
        vectors::{drift, needs_step},
    },
    base::{
        clock::{Clock, StageSeconds},
        element_kind::ElementKind,
        error::{Result, SvdError},
        number::{Number, Re, RealElement, Scalar},
        pool::{on_pool_for, on_pool_for_product},
        scale::{first_non_finite, power_of_two_scale},
        stage::Stage,
        view::by_lines,
        watch::{StageFlops, Watch},
    },
    cost::{Cost, counts::Counts},
    cpu::{
        kernels::CpuKernels,
        simd::aligned::Aligned,
        small::{Direct, bidiagonal_directly, norm::norm},
        storage::Dense,
        tall::{
            cholesky_qr::{SortedFactor, cholesky_qr},
            gram::gram,
            tsqr::tsqr,
        },
    },
    plan::{
        call::Call,
        choice::Reason,
        options::Backend,
        report::SvdReport,
        route::{Route, TallReduction, tall_qr},
    },
    tile::{kernels::Transfers, tuning::Tuning},
};

/// Columns of a matrix in single precision up to which its left vectors are found in double precision, as its right ones are: that takes no longer, and the
/// products' code is in the cache already.
const WIDE_UP_TO: usize = 48;

/// The result of a route.
pub(crate) struct Found<T: Scalar> {
    /// Rounded to `T`'s precision.
    pub values: Vec<f64>,
    /// The right singular vectors that were wanted, n x k.
    pub right: Option<Mat<T>>,
    /// The same of a small matrix in single precision, in that of the reduction; `right` is none then.
    pub wide: Option<Mat<Wide<T>>>,
    /// Whether they are orthonormal to the rounding of their entries, as what was computed in double precision for single precision is.
    pub is_orthonormal: bool,
    /// Whether they are those of the transpose, which has the same values.
    pub of_transpose: bool,
    /// The seconds of stages 1 to 3, and of the vectors.
    pub seconds: StageSeconds,
    /// The listeners. If vectors are wanted, the end of the call has not been reported to them.
    pub watch: Watch,
    /// The route, part of which is decided on the way.
    pub route: Route,
}

impl<T: Scalar> Found<T> {
    fn new(values: Vec<f64>, right: Option<Mat<T>>, seconds: StageSeconds, watch: Watch, route: Route) -> Self {
        Found { values, right, wide: None, is_orthonormal: false, of_transpose: false, seconds, watch, route }
    }
}

/// The call on the CPU, with the `scale` of stage 0 if it is already known.
pub(crate) fn svdvals_on_cpu<T, S>(call: &Call<'_, T>, reason: Reason, scale: Option<Re<T>>) -> Result<SvdReport<Vec<Re<T>>>>
where
    T: Scalar,
    S: Number<Real = Re<T>, Scalar = T>,
{
    on_cpu::<T, S, _>(call, reason, scale, None, |found| Ok((narrowed(&found.values), found.seconds)))
}

/// The call on the CPU: the values, with the right vectors if some are `wanted`, and what `rest` makes of them in the same pool.
pub(crate) fn on_cpu<T, S, V: Send>(
    call: &Call<'_, T>,
    reason: Reason,
    scale: Option<Re<T>>,
    wanted: Option<Wanted<'_>>,
    rest: impl FnOnce(Found<T>) -> Result<(V, StageSeconds)> + Send,
) -> Result<SvdReport<V>>
where
    T: Scalar,
    S: Number<Real = Re<T>, Scalar = T>,
{
    let a = call.upright();
    let tuning = call.run.tuning_for_cpu(S::KIND, a.ncols())?;
    tuning.check()?;
    let route = Route::on_cpu(S::KIND, a.shape(), call.options.reduction, &tuning);
    let compute = || {
        let (scale, of_scale) = match scale {
            Some(scale) => (scale, 0.0),
            None if route.scales_on_the_way(S::KIND) => (Re::<T>::from_double(1.0), 0.0),
            None => call.scale(S::KIND)?,
        };
        let found = match route {
            Route::Band(_) | Route::OneStage(_) | Route::Qr(_) | Route::LeastSquares(_) | Route::Krylov => {
                blocked::<T, S>(call, a, scale, route, &tuning, wanted)?
            }
            Route::Direct(first) => directly(call, a, scale, first, wanted)?,
            Route::Norm => of_column(call, a, scale, wanted)?,
        };
        let route = found.route;
        let (values, seconds) = rest(found)?;
        Ok((values, StageSeconds { scale: of_scale, ..seconds }, route))
    };
    let found = match (route.is_short(), wanted) {
        (true, Some(_)) if call.room.is_none() => on_pool_for_product((a.nrows(), a.ncols(), a.ncols()), compute),
        (true, _) => compute(),
        (false, _) => on_pool_for(a.shape(), compute),
    };
    let (values, seconds, route) = found.map_err(|error| match error {
        // The route found that a NaN or an infinity exists, but not where it is.
        SvdError::NonFinite { .. } if scale.is_none() && route.scales_on_the_way(S::KIND) => first_non_finite(call.a),
        error => error,
    })?;
    Ok(SvdReport {
        values,
        backend: Backend::Cpu,
        reason,
        route,
        adapter: None,
        storage: S::NAME,
        tuning,
        seconds,
        counts: Counts::default(),
        kernel_seconds: Vec::new(),
        iteration: None,
        shape: a.shape(),
        stage3_on_device: false,
        options: String::new(),
        cost: (S::KIND, if route.is_one_stage() { Cost::of_one_stage } else { Cost::of_values }),
    })
}

/// A matrix that is already multiplied by a power of two. The driver knows this factor as its scale.
struct Scaled<'a, T>(MatRef<'a, T>);

impl<T: Scalar, K: Transfers<T>> Source<K> for Scaled<'_, T> {
    fn shape(&self) -> (usize, usize) {
        self.0.shape()
    }

    fn upload(&self, kernels: &K, _: f64) -> Result<K::Dense> {
        kernels.upload(self.0, Re::<T>::from_double(1.0))
    }
}

/// The flops of each stage of an m x n matrix, of which those of stages 1 to 3 are given. How many vectors will be wanted is not known yet.
fn with_vectors<S: Number>(flops: StageFlops, (m, n): (usize, usize), wanted: bool) -> StageFlops {
    let [to_band, band_to_bidiag, svdvals, _] = flops;
    [to_band, band_to_bidiag, svdvals, if wanted { vectors_flops(S::KIND, (m, n), n, false) } else { 0 }]
}

/// Stages 1 to 3, or the one-stage reduction and stage 3, of the Cholesky factor if there is one, else of the matrix.
fn blocked<T, S>(
    call: &Call<'_, T>,
    a: MatRef<'_, T>,
    scale: Re<T>,
    route: Route,
    tuning: &Tuning,
    wanted: Option<Wanted<'_>>,
) -> Result<Found<T>>
where
    T: Scalar,
    S: Number<Real = Re<T>, Scalar = T>,
{
    let one_stage = route.is_one_stage();
    let flops = || {
        let flops = if one_stage {
            flops_by_one_stage(S::KIND, a.shape(), tuning)?
        } else {
            flops_by_band(S::KIND, a.shape(), tuning, Deferral::default())?
        };
        Ok(with_vectors::<S>(flops, a.shape(), wanted.is_some()))
    };
    let watch = Watch::new(&call.listen, flops)?;
    let kernels = CpuKernels::<S>::watched(tuning, watch.clone())?;
    watch.begin(Stage::ToBand)?;
    let (kernels, stage3, timed) = (&kernels, Some(call.options.stage3), call.timed);
    let leading = call.options.leading();
    let driver = Driver { kernels, tuning, watch: &watch, one_stage, stage3, leading, timed, left: false };

    let clock = Clock::new(call.timed);
    let cholesky = matches!(route, Route::Band(TallReduction::Cholesky) | Route::OneStage(TallReduction::Cholesky));
    let factor = if cholesky { cholesky_qr(a, &watch)? } else { None };
    let factoring = clock.seconds();
    let right_of = |right: Option<Dense<S>>| right.map(|x| kernels.download(&x)).transpose();
    let (mut found, right, first) = match factor {
        Some(SortedFactor { r, scale, order }) => {
            let mut found = block_on(driver.svd(&Scaled(r.as_ref()), scale.to_double(), wanted))?;
            let right = right_of(found.right.take())?.map(|v| unsorted(v.as_ref(), &order));
            (found, right, TallReduction::Cholesky)
        }
        None => {
            let mut found = block_on(driver.svd(&a, scale.to_double(), wanted))?;
            let right = right_of(found.right.take())?;
            (found, right, tall_qr(a.nrows(), a.ncols()))
        }
    };
    found.seconds.to_band += factoring;
    let route = if one_stage { Route::OneStage(first) } else { Route::Band(first) };
    Ok(Found::new(found.values, right, found.seconds, watch, route))
}

/// The right vectors of A from those of A with its columns in `order`.
fn unsorted<T: Scalar>(v: MatRef<'_, T>, order: &[usize]) -> Mat<T> {
    let mut rows = vec![0; order.len()];
    order.iter().enumerate().for_each(|(sorted, &column)| rows[column] = sorted);
    Mat::from_fn(v.nrows(), v.ncols(), |i, j| v[(rows[i], j)])
}

/// The norm of a single column, which is its only singular value.
fn of_column<T: Scalar>(call: &Call<'_, T>, a: MatRef<'_, T>, scale: Re<T>, wanted: Option<Wanted<'_>>) -> Result<Found<T>> {
    let watch =
        Watch::new(&call.listen, || Ok(with_vectors::<T>(flops_directly(a.shape(), false), a.shape(), wanted.is_some())))?;
    let mut clock = Clock::new(call.timed);
    watch.begin(Stage::ToBand)?;
    watch.begin(Stage::BandToBidiag)?;
    let norm = norm(a, scale);
    let mut seconds = StageSeconds { band_to_bidiag: clock.restart(), ..StageSeconds::default() };
    watch.begin(Stage::Svdvals)?;
    let (stage3, leading) = (call.options.stage3, call.options.leading());
    let values = stage_three(T::KIND, (vec![norm], Vec::new()), scale.to_double(), stage3, leading, &watch)?;
    seconds.svdvals = clock.restart();
    let right = match wanted {
        Some(wanted) => {
            watch.begin(Stage::Vectors)?;
            Some(Mat::from_fn(1, wanted(&values), |_, _| T::one_impl()))
        }
        None => {
            watch.end();
            None
        }
    };
    Ok(Found::new(values, right, seconds, watch, Route::Norm))
}

/// Runs `body` with the workspace of the call, or with new workspace if there is none, or if it is in use.
fn in_room<W, R>(room: Option<&Mutex<Aligned<W>>>, body: impl FnOnce(&mut Aligned<W>) -> R) -> R {
    match room.map(Mutex::try_lock) {
        Some(Ok(mut room)) => body(&mut room),
        _ => body(&mut Aligned::default()),
    }
}

/// Direct reduction to bidiagonal form of the matrix, its triangular factor or A^H A.
fn directly<T: Scalar>(
    call: &Call<'_, T>,
    a: MatRef<'_, T>,
    scale: Re<T>,
    first: TallReduction,
    wanted: Option<Wanted<'_>>,
) -> Result<Found<T>> {
    let flops = || with_vectors::<T>(flops_directly(a.shape(), first != TallReduction::Nothing), a.shape(), wanted.is_some());
    let watch = Watch::new(&call.listen, || Ok(flops()))?;
    let mut clock = Clock::new(call.timed);
    let mut seconds = StageSeconds::default();
    let (stage3, leading, keep) = (call.options.stage3, call.options.leading(), wanted.is_some());
    watch.begin(Stage::ToBand)?;
    match first {
        TallReduction::Nothing => {
            watch.begin(Stage::BandToBidiag)?;
            // A square matrix and its transpose have the same singular values; the one with contiguous columns is faster to read. Without
            // stage 0, a NaN reaches the bidiagonal; stage 3 rejects it.
            let lines = if a.nrows() == a.ncols() { by_lines(a) } else { a };
            let direct = in_room(call.room, |room| bidiagonal_directly(lines, scale, keep, room))?;
            seconds.band_to_bidiag = clock.restart();
            let values = |diagonal, superdiagonal| {
                stage_three(T::KIND, (diagonal, superdiagonal), scale.to_double(), stage3, leading, &watch)
            };
            let found =
                of_direct(direct, seconds, clock, watch.clone(), Route::Direct(first), wanted, (values, scale.to_double(), 1))?;
            Ok(Found { of_transpose: lines.row_stride() != a.row_stride(), ..found })
        }
        TallReduction::Gram => {
            let (squares, order) = gram(a, &watch)?;
            seconds.to_band = clock.restart();
            watch.begin(Stage::BandToBidiag)?;
            let scale = power_of_two_scale(<Wide<T>>::KIND, squares.as_ref())?;
            let direct = in_room(call.room, |room| bidiagonal_directly(squares.as_ref(), scale, keep, room))?;
            seconds.band_to_bidiag = clock.restart();
            let values = |diagonal, superdiagonal| {
                let bidiagonal = Bidiagonal::new(diagonal, superdiagonal)?;
                leading.select(bidiagonal.diagonal().len(), &|leading| {
                    let leading = Leading { tolerance: leading.tolerance.powi(2), ..leading };
                    let squares = bidiagonal.svdvals_for::<f64>(stage3, leading, &watch)?;
                    let values =
                        unscaled(ElementKind::F64, squares, scale, "eigenvalues of A^H A")?.into_iter().map(f64::sqrt).collect();
                    unscaled(T::KIND, values, 1.0, "singular values")
                })
            };
            let mut found = of_direct(direct, seconds, clock, watch.clone(), Route::Direct(first), wanted, (values, scale, 2))?;
            found.right = found.right.map(|v| unsorted(v.as_ref(), &order));
            Ok(found)
        }
        TallReduction::Cholesky | TallReduction::Qr => {
            let cholesky = if first == TallReduction::Cholesky { cholesky_qr(a, &watch)? } else { None };
            let ((r, scale, order), first) = match cholesky {
                Some(SortedFactor { r, scale, order }) => ((r, scale, Some(order)), TallReduction::Cholesky),
                None => {
                    let (r, scale) = tsqr(a, &watch)?;
                    ((r, scale, None), TallReduction::Qr)
                }
            };
            seconds.to_band = clock.restart();
            watch.begin(Stage::BandToBidiag)?;
            let direct = in_room(call.room, |room| bidiagonal_directly(r.as_ref(), Re::<T>::from_double(1.0), keep, room))?;
            seconds.band_to_bidiag = clock.restart();
            let values = |diagonal, superdiagonal| {
                stage_three(T::KIND, (diagonal, superdiagonal), scale.to_double(), stage3, leading, &watch)
            };
            let mut found =
                of_direct(direct, seconds, clock, watch.clone(), Route::Direct(first), wanted, (values, scale.to_double(), 1))?;
            if let (Some(right), Some(order)) = (&mut found.right, order) {
                *right = unsorted(right.as_ref(), &order);
            }
            Ok(found)
        }
    }
}

/// Stage 3 by `values` of a direct reduction, and the right vectors. The values of the bidiagonal are `scale` times those to a `power`.
fn of_direct<T: Scalar>(
    direct: Direct<Wide<T>>,
    mut seconds: StageSeconds,
    mut clock: Clock,
    watch: Watch,
    route: Route,
    wanted: Option<Wanted<'_>>,
    (values, scale, power): (impl FnOnce(Vec<f64>, Vec<f64>) -> Result<Vec<f64>>, f64, i32),
) -> Result<Found<T>> {
    watch.begin(Stage::Svdvals)?;
    let Some(wanted) = wanted else {
        let (diagonal, superdiagonal) = direct.into_moduli();
        let values = values(diagonal, superdiagonal)?;
        watch.end();
        return Ok(Found::new(values, None, StageSeconds { svdvals: clock.restart(), ..seconds }, watch, route));
    };
    let bidiagonal = direct.bidiagonal();
    let (diagonal, superdiagonal) = bidiagonal.moduli();
    let values = values(diagonal, superdiagonal)?;
    seconds.svdvals = clock.restart();
    watch.begin(Stage::Vectors)?;
    let (n, k) = (bidiagonal.diagonal.len(), wanted(&values));
    let of_bidiagonal = scaled_powers(T::KIND, &values, scale, power);
    let known = Known { values: &of_bidiagonal, drift: drift(T::KIND, T::KIND.is_double() && needs_step(T::KIND, (n, k))) };
    let mut right = right_of_bidiagonal::<Wide<T>>(&bidiagonal, k, known, &watch)?;
    seconds.bidiagonal_vectors = clock.restart();
    direct.apply_p(right.as_mut().transpose_mut());
    let is_orthonormal = !T::KIND.is_double();
    if route == Route::Direct(TallReduction::Nothing) && n <= WIDE_UP_TO && is_orthonormal {
        let wide = Some(right.transpose().to_owned());
        seconds.back_transformation = clock.restart();
        return Ok(Found { wide, is_orthonormal, ..Found::new(values, None, seconds, watch, route) });
    }
    let right = Mat::from_fn(right.ncols(), right.nrows(), |i, j| T::from_wide(right[(j, i)]));
    seconds.back_transformation = clock.restart();
    Ok(Found { is_orthonormal, ..Found::new(values, Some(right), seconds, watch, route) })
}

/// The type of the entries of A^H A, and of direct reductions.
type Wide<T> = <T as Scalar>::Wide;
