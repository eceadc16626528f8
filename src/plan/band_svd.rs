//! The driver of the decomposition of a band: stages 2 and 3, V back through stage 2, and U from B V.

use faer::Mat;
use pollster::block_on;

use crate::{
    algo::{
        bidiagonal::Stage3,
        count::{stage_2_flops, stage_3_flops, vectors_flops},
        svdvals::{Driver, Found, narrowed},
        vectors::{VectorKernels, needs_step},
    },
    base::{
        error::Result,
        number::{Re, RealElement, Scalar},
        pool::{on_pool_for, on_threads},
        scale::scale_for,
        watch::{Listen, Watch},
    },
    cpu::{
        kernels::CpuKernels,
        vectors::left::{complement, left_vectors_of_band, orthonormalise},
    },
    plan::{
        backend::Place,
        factors::Factors,
        options::{Signs, SvdOptions, Vectors},
        problem::Problem,
        svd::{beside, check, needed},
    },
    tile::{band::Band, kernels::Transfers, tuning::Tuning},
};
#[cfg(feature = "gpu")]
use crate::{
    gpu::{device::stream::Manner, kernels::GpuKernels},
    plan::backend::or_fall_back,
};

/// The decomposition of a band. The left vectors are the CPU's on either backend.
pub(crate) fn svd_of_band<T: Scalar>(band: &Band<T>, options: &SvdOptions) -> Result<Factors<T>> {
    let n = band.n();
    options.check_of_band("Band::svd")?;
    check::<T>((n, n), options)?;
    if n == 0 {
        return Ok(Factors::new(Mat::new(), Vec::new(), Mat::new()));
    }
    let mut factors = on_threads(options.run.threads, || of_band(band, options))?;
    if options.signs == Signs::Largest {
        factors.fix_signs();
    }
    Ok(factors)
}

/// The values and the right vectors, and the listeners of the call.
struct Right<T: Scalar> {
    values: Vec<Re<T>>,
    vectors: Mat<T>,
    watch: Watch,
}

fn of_band<T: Scalar>(band: &Band<T>, options: &SvdOptions) -> Result<Factors<T>> {
    let (n, listen) = (band.n(), options.run.listen());
    let scale = scale_for::<T>(band.largest(), n, n);
    let place = Place::of_svd(T::KIND, options, Problem::Band { n, bandwidth: band.bandwidth() })?;
    #[cfg(feature = "gpu")]
    if let Place::Gpu(on) = place {
        let on_gpu = || -> Result<Right<T>> {
            let watch = watch_of(band, &on.tuning, &listen)?;
            let manner = Manner { watch: watch.clone(), ..Manner::default() };
            let kernels = GpuKernels::running(T::KIND, &on.context, &on.tuning, manner)?;
            let stage3 = if options.stage3 == Stage3::Device { None } else { Some(options.stage3) };
            right_of_band(&kernels, band, scale, (options, &on.tuning, stage3), watch)
        };
        if let Ok(right) = or_fall_back(&options.run, options.need_device(), on_gpu())? {
            return on_pool_for((n, n), || factors(band, scale, options, right));
        }
    }
    #[cfg(not(feature = "gpu"))]
    let _ = place;
    let tuning = options.run.tuning_for_cpu(T::KIND, n)?;
    let watch = watch_of(band, &tuning, &listen)?;
    let kernels = CpuKernels::<T>::watched(&tuning, watch.clone())?;
    on_pool_for((n, n), || {
        let right = right_of_band(&kernels, band, scale, (options, &tuning, Some(options.stage3)), watch)?;
        factors(band, scale, options, right)
    })
}

fn watch_of<T: Scalar>(band: &Band<T>, tuning: &Tuning, listen: &Listen) -> Result<Watch> {
    let n = band.n();
    let flops = || {
        let stage_2 = stage_2_flops(T::KIND, n, band.bandwidth(), tuning);
        Ok([0, stage_2, stage_3_flops(n), vectors_flops(T::KIND, (n, n), n, false)])
    };
    Watch::new(listen, flops)
}

/// The values and the right vectors that are wanted, by `kernels`.
fn right_of_band<T: Scalar, K: VectorKernels + Transfers<T>>(
    kernels: &K,
    band: &Band<T>,
    scale: Re<T>,
    (options, tuning, stage3): (&SvdOptions, &Tuning, Option<Stage3>),
    watch: Watch,
) -> Result<Right<T>> {
    let held = kernels.upload_band(band, scale, tuning.tile_width)?;
    let driver = Driver {
        kernels,
        tuning,
        watch: &watch,
        one_stage: false,
        stage3,
        leading: options.leading(),
        timed: false,
        left: false,
    };
    let wanted = |values: &[f64]| options.kept(values);
    let Found { values, right, .. } =
        block_on(driver.svd_of_band(held, (band.n(), band.bandwidth()), scale.to_double(), Some(&wanted)))?;
    let vectors = match right {
        Some(right) => kernels.download(&right)?,
        None => Mat::zeros(band.n(), 0),
    };
    Ok(Right { values: narrowed(&values), vectors, watch })
}

/// The factors, from the right vectors.
fn factors<T: Scalar>(band: &Band<T>, scale: Re<T>, options: &SvdOptions, right: Right<T>) -> Result<Factors<T>> {
    let Right { mut values, vectors: mut v, watch } = right;
    if needs_step(T::KIND, v.shape()) {
        orthonormalise(v.as_mut());
    }
    values.truncate(v.ncols());
    let (needs_left, needs_right) = needed(options.vectors, false);
    let u = if needs_left {
        let u = left_vectors_of_band(band, scale, &values, v.as_ref(), &watch)?;
        if options.vectors == Vectors::Full { beside(&u, &complement(u.as_ref())) } else { u }
    } else {
        Mat::zeros(band.n(), 0)
    };
    watch.end();
    Ok(Factors::new(u, values, if needs_right { v } else { Mat::zeros(band.n(), 0) }))
}
