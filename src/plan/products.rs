//! The QR factorisation with [`Products`] by low precision: recursive, in f32 (`algo/recursive.rs`).

use faer::{Mat, MatRef};
use pollster::block_on;

use crate::{
    algo::recursive::{Recursive, flops},
    base::{
        blas::Op,
        clock::{Clock, StageSeconds},
        element_kind::ElementKind,
        error::{Result, SvdError},
        number::{HalfStorage, Re, Scalar},
        pool::on_pool_for,
        stage::Stage,
        watch::Watch,
        zeros::identity,
    },
    cost::{Cost, CostOf},
    cpu::recursive::CpuRecursive,
    plan::{
        call::Call,
        choice::Reason,
        options::QrOptions,
        qr_factors::{QrFactors, Unitary, padded, unscaled, upper},
        qr_report::BoxedFactors,
        qr_report::finished,
        qr_report::report_of,
        report::SvdReport,
        route::{Orthogonal, Route},
    },
    tile::products::{Products, Recursion, RecursiveKernels},
};
#[cfg(feature = "gpu")]
use crate::{
    gpu::{
        device::{context::Waits, stream::Manner},
        kernels::recursive::GpuRecursive,
    },
    plan::{backend::OnGpu, qr_report::report_of_gpu},
};

/// [`SvdError::InvalidOption`] if there are no such products of `T`.
pub(crate) fn check<T: Scalar>(options: &QrOptions) -> Result<()> {
    let as_f16 = options.run.half_storage == HalfStorage::Half;
    let other = T::IS_COMPLEX || T::IS_DOUBLE || as_f16;
    if options.products == Products::Native || !other {
        return Ok(());
    }
    let stored = if as_f16 { "stored as such" } else { "" };
    let reason =
        format!("Products::{:?} are products of real f32 matrices, and this one is of {} {stored}", options.products, T::NAME);
    Err(SvdError::invalid("products", reason.trim_end().to_owned()))
}

/// The tolerance for the rank: sqrt(max(m, n)) eps, with the eps of the products.
pub(crate) fn tolerance(options: &QrOptions, (m, n): (usize, usize)) -> f64 {
    options.tolerance.unwrap_or((m.max(n) as f64).sqrt() * options.products.epsilon())
}

/// A copy in f32 of a matrix of `S`, which is f32 (see [`check`]).
fn single<S: Scalar>(a: MatRef<'_, S>) -> Mat<f32> {
    Mat::from_fn(a.nrows(), a.ncols(), |i, j| a[(i, j)].to_complex().re as f32)
}

fn back<S: Scalar>(a: MatRef<'_, f32>) -> Mat<S> {
    Mat::from_fn(a.nrows(), a.ncols(), |i, j| S::from_complex(f64::from(a[(i, j)]).into()))
}

/// A scaled copy in f32.
fn scaled<T: Scalar>(a: MatRef<'_, T>, scale: Re<T>) -> Mat<f32> {
    Mat::from_fn(a.nrows(), a.ncols(), |i, j| a[(i, j)].widen().times(scale).to_complex().re as f32)
}

/// Q as the reflectors of the recursion.
struct Blocks<K: RecursiveKernels> {
    q: Recursive<K>,
    /// Rows of Q.
    order: usize,
}

impl<S: Scalar, K: RecursiveKernels + Send> Unitary<S> for Blocks<K> {
    fn is_in_pool(&self) -> bool {
        K::IN_POOL
    }

    fn apply(&self, op: Op, c: MatRef<'_, S>) -> Result<Mat<S>> {
        Ok(back(block_on(self.q.apply(op, single(c).as_ref()))?.as_ref()))
    }

    fn columns(&self, cols: usize) -> Result<Mat<S>> {
        Ok(back(block_on(self.q.apply(Op::NoTrans, identity::<f32>(self.order, cols).as_ref()))?.as_ref()))
    }

    fn project(&self, c: MatRef<'_, S>, k: usize) -> Result<Mat<S>> {
        let mut c = self.apply(Op::ConjTrans, c)?;
        c.truncate(k, c.ncols());
        Ok(c)
    }

    fn combine(&self, c: MatRef<'_, S>) -> Result<Mat<S>> {
        self.apply(Op::NoTrans, padded(c, self.order).as_ref())
    }
}

/// A factorisation in progress.
struct Begun<T: Scalar> {
    scale: Re<T>,
    scale_seconds: f64,
    clock: Clock,
    watch: Watch,
}

impl<T: Scalar> Begun<T> {
    fn new(call: &Call<'_, T, QrOptions>) -> Result<Self> {
        let (scale, scale_seconds) = call.scale(T::KIND)?;
        let clock = Clock::new(call.timed);
        let watch = Watch::new(&call.listen, || Ok([flops(call.a.shape(), Recursion::DEFAULT), 0, 0, 0]))?;
        watch.begin(Stage::Qr)?;
        Ok(Begun { scale, scale_seconds, clock, watch })
    }

    /// The factorisation by `kernels`.
    async fn factor<K>(&self, call: &Call<'_, T, QrOptions>, kernels: K) -> Result<(Mat<T>, Blocks<K>)>
    where
        K: RecursiveKernels,
    {
        let copy = scaled(call.a, self.scale);
        let (r, q) = Recursive::factor(kernels, copy.as_ref(), call.options.products, Recursion::DEFAULT, &self.watch).await?;
        Ok((unscaled(upper(back(r.as_ref())), self.scale)?, Blocks { q, order: call.a.nrows() }))
    }

    fn factors(&self, call: &Call<'_, T, QrOptions>, r: Mat<T>, q: Box<dyn Unitary<T>>) -> Result<BoxedFactors<T>> {
        finished(QrFactors::new(call.a.shape(), r, q, Some(tolerance(call.options, call.a.shape()))), call.options)
    }

    fn seconds(&mut self) -> StageSeconds {
        self.watch.end();
        StageSeconds { scale: self.scale_seconds, qr: self.clock.restart(), ..StageSeconds::default() }
    }
}

/// What the report of a factorisation has of its own.
pub(crate) fn reported<V>(report: SvdReport<V>, products: Products) -> SvdReport<V> {
    let cost: CostOf = if products == Products::Half { Cost::of_half_qr } else { Cost::of_split_qr };
    SvdReport { cost: (ElementKind::F32, cost), route: Route::Qr(Orthogonal::Recursive(products)), ..report }
}

/// The factorisation on the CPU.
pub(crate) fn on_cpu<T: Scalar>(call: &Call<'_, T, QrOptions>, reason: Reason) -> Result<SvdReport<BoxedFactors<T>>> {
    let shape = call.a.shape();
    let tuning = call.run.tuning_for_cpu(T::KIND, shape.0.min(shape.1))?;
    let mut begun = Begun::new(call)?;
    let kernels = CpuRecursive { tuning: tuning.clone() };
    let (r, q) = on_pool_for(shape, || block_on(begun.factor(call, kernels)))?;
    let factors = begun.factors(call, r, Box::new(q))?;
    let (products, seconds) = (call.options.products, begun.seconds());
    Ok(reported(report_of(T::KIND, shape, reason, Orthogonal::Recursive(products), tuning, seconds, factors), products))
}

/// The factorisation on a GPU, where the reflectors stay.
#[cfg(feature = "gpu")]
pub(crate) async fn on_gpu<T: Scalar>(
    call: &Call<'_, T, QrOptions>,
    on: OnGpu,
    waits: Waits,
) -> Result<SvdReport<BoxedFactors<T>>> {
    let products = call.options.products;
    let mut begun = Begun::new(call)?;
    // The driver tells the watch; the stream only looks whether the call is cancelled.
    let manner = Manner { waits, timed: call.run.time_kernels, ..Manner::default() };
    let kernels = GpuRecursive::new(&on.context, &on.tuning, manner)?;
    let (r, Blocks { q, order }) = begun.factor(call, kernels).await?;
    let (kernels, q) = q.with_kernels(GpuRecursive::new(&on.context, &on.tuning, Manner::default())?);
    let factors = begun.factors(call, r, Box::new(Blocks { q, order }))?;
    let seconds = begun.seconds();
    Ok(reported(report_of_gpu(call.a.shape(), on, kernels.tiles(), seconds, factors), products))
}
