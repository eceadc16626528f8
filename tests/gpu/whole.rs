//! The backend as a whole: values, errors, threads, devices.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use faer::{Mat, MatRef};
use half::{bf16, f16};
use libtest_mimic::Failed;
use num_complex::Complex;
use svdvals_gpu::{
    AdapterChoice, Backend, Band, DeviceLimits, GpuContext, HalfStorage, PanelTree, RealElement, Reduction, SvdError, SvdOptions,
    SvdValsGpu, Tuning,
    internals::{GpuKernels, Level, StageKernels, Transfers, levels},
    wgpu,
};

use crate::{
    Elements, Outcome, check,
    common::{eps, furthest, noise, row_major},
    dense, tile_fits, tuning,
};

/// The whole pipeline on the GPU gives the CPU's values: for square, tall and wide matrices, with the device's default hyperparameters
/// and with odd ones.
pub fn values_agree_with_the_cpu<T: Elements>(context: &GpuContext) -> Outcome {
    for size in [(1, 1), (2, 3), (64, 64), (100, 71), (70, 129), (400, 20)] {
        let defaults = Tuning::for_adapter::<T>(context, size.0.min(size.1));
        let flat = defaults.clone().tree(PanelTree::Flat);
        for tuning in [defaults, flat, tuning(8, 16), tuning(5, 20).tree(PanelTree::Flat)] {
            agrees_with_the_cpu::<T>(context, size, tuning)?;
        }
    }
    Ok(())
}

/// A random matrix has the CPU's values.
///
/// Bound: 4 max(m, n) eps times the largest value: twice the backward error of the two-sided reduction. In f16 16 roundings of the
/// largest.
fn agrees_with_the_cpu<T: Elements>(context: &GpuContext, (m, n): (usize, usize), tuning: Tuning) -> Outcome {
    let a = Mat::<T>::from_fn(m, n, |i, j| T::noise(14, i, j));
    let options = SvdOptions::default().context(context.clone());
    let want = T::values(&a, &SvdOptions::default().backend(Backend::Cpu))?;
    let got = T::values(&a, &options.backend(Backend::Gpu).tuning(tuning.clone()))?;
    check!(got.len() == want.len(), "{} values, not {}", got.len(), want.len());
    let found = furthest(got.iter().zip(&want).map(|(a, b)| a - b));
    let bound = (4.0 * m.max(n) as f64 * eps::<T>() + T::stored(16)) * want[0];
    check!(found <= bound, "{m} x {n}, {tuning:?}: {found:.1e}, bound {bound:.1e}");
    Ok(())
}

/// Matrices and hyperparameters that the device cannot have are refused by name, before anything is allocated, and the next call works.
pub fn errors_leave_the_context_usable<T: Elements>(context: &GpuContext) -> Outcome {
    let good = tuning(8, 16);
    let kernels = GpuKernels::new::<T>(context, &good)?;
    let (entry, one) = (T::real(1.0).widen(), T::Real::from_double(1.0));
    // SAFETY: every entry of this matrix of 2^20 x 2^20 is the one number behind the pointer.
    let huge = unsafe { MatRef::from_raw_parts(&entry, 1 << 20, 1 << 20, 0, 0) };
    match kernels.upload(huge, one).map(|_| ()) {
        Err(SvdError::TooLarge { needed, available, .. }) => {
            check!(needed == (1 << 40) * size_of::<T>() as u64 && available < needed, "{needed} of {available}");
        }
        other => return Err(format!("2^40 entries: {other:?}").into()),
    }
    let bad = [
        ("tile_size", good.clone().tile_size(4096).leaf(1 << 14)),
        ("tile_size", good.clone().tile_size(usize::MAX / 2).leaf(usize::MAX)),
        ("split_k", good.clone().split_k(1 << 20)),
        ("leaf", good.clone().leaf(1 << 20)),
        ("cols_per_block", good.clone().cols_per_block(1 << 20)),
        ("rows_per_block", good.clone().rows_per_block(1 << 20)),
        ("threads_per_block", good.clone().threads_per_block(1 << 20)),
        ("lines_per_thread", good.clone().lines_per_thread(3)),
        ("cycles_per_dispatch", good.clone().cycles_per_dispatch(0)),
        ("tile_size", good.clone().tile_size(0)),
    ];
    if !tile_fits::<T>(context, 32) {
        let wide = good.clone().tile_size(32).leaf(64);
        let refused = GpuKernels::new::<T>(context, &wide).map(|_| ());
        check!(matches!(refused, Err(SvdError::InvalidOption { option: "tile_size", .. })), "{refused:?}");
    }
    for (option, tuning) in bad {
        match GpuKernels::new::<T>(context, &tuning).map(|_| ()) {
            Err(SvdError::InvalidOption { option: named, .. }) => check!(named == option, "{named}, not {option}"),
            other => return Err(format!("{option}: {other:?}").into()),
        }
    }
    let wide = Band::from_fn(20_000, 15_000, |_, _| T::real(0.0).widen())?;
    match kernels.upload_band(&wide, one, 14_999).map(|_| ()) {
        Err(SvdError::InvalidOption { option: "tile_width", .. } | SvdError::TooLarge { .. }) => {}
        other => return Err(format!("a tile width of 14999: {other:?}").into()),
    }
    // A level that reaches outside the matrix never gets to the device.
    let mut device = kernels.upload(Mat::from_fn(20, 20, |i, j| T::noise(31, i, j).widen()).as_ref(), one)?;
    for map in levels(PanelTree::Reduction, 8, 20, 8, 16, 2) {
        check!(kernels.geqrt(&mut device, &Level { transposed: false, col: 0, width: 8, map }).is_err(), "{map:?} was taken");
    }
    dense::unmqr_is_its_formula::<T>(context)
}

/// Eight threads that share a context get what one gets.
pub fn eight_threads<T: Elements>(context: &GpuContext) -> Outcome {
    let options = SvdOptions::default().context(context.clone()).backend(Backend::Gpu).tuning(tuning(8, 16));
    let matrices: Arc<Vec<Mat<T>>> =
        Arc::new((0..8).map(|k| Mat::from_fn(40 + k, 30, |i, j| T::noise(15 + k as u64, i, j))).collect());
    let alone = matrices.iter().map(|a| T::values(a, &options)).collect::<Result<Vec<_>, _>>()?;
    let together: Vec<_> = (0..8)
        .map(|k| {
            let (matrices, options) = (matrices.clone(), options.clone());
            thread::spawn(move || T::values(&matrices[k], &options))
        })
        .collect();
    for (k, thread) in together.into_iter().enumerate() {
        let values = thread.join().map_err(|_| "a thread panicked")??;
        check!(values == alone[k], "thread {k} got other values");
    }
    Ok(())
}

/// A matrix that is kept in several buffers, because a shader may bind but a few kilobytes of one, has the same values, bit by bit:
/// square, tall and wide, in both memory orders, with four entries at a time and one. One that takes more buffers than
/// a shader binds is refused, with the bytes that it needs.
pub fn several_buffers<T: Elements>(context: &GpuContext) -> Outcome {
    let most = 6144 * size_of::<T>().max(4) as u64;
    let limits =
        if context.limits() == &wgpu::Limits::defaults() { DeviceLimits::WebGpuDefault } else { DeviceLimits::default() };
    let few = GpuContext::new(&AdapterChoice::default().checked(context.is_checked()).limits(limits).max_binding(most))?;
    check!(few.limits().max_storage_buffer_binding_size == most, "the limit is not set");
    let options = |context: &GpuContext, tuning| {
        SvdOptions::default()
            .backend(Backend::Gpu)
            .half_storage(HalfStorage::Half.for_element::<T>())
            .context(context.clone())
            .tuning(tuning)
    };
    // WebGPU's shaders bind too few buffers for deferred updates of a matrix in several.
    let deferred = if limits == DeviceLimits::WebGpuDefault { 0 } else { 16 };
    let shapes = [
        ((150, 150), tuning(8, 16), Reduction::TwoStage),
        ((130, 130), tuning(8, 40).deferred_columns(deferred).deferred_beside(1), Reduction::TwoStage),
        ((400, 20), tuning(8, 16), Reduction::TwoStage),
        ((1537, 3), tuning(8, 16), Reduction::TwoStage),
        ((101, 203), tuning(5, 20).tree(PanelTree::Flat), Reduction::TwoStage),
        ((110, 100), tuning(8, 16), Reduction::OneStage),
        ((90, 100), tuning(8, 16), Reduction::OneStage),
    ];
    for ((m, n), tuning, reduction) in shapes {
        // (1537 x 3 is one whose narrow panel goes through in pieces.)
        check!(m * n * size_of::<T>() > most as usize || T::NAME == "f16" || n == 3, "{m} x {n} fits one buffer");
        let a = Mat::<T>::from_fn(m, n, |i, j| T::noise(17, i, j));
        let swapped = row_major(&a);
        for source in [a.as_ref(), swapped.as_ref().transpose()] {
            let [one, several] = [context, &few].map(|context| options(context, tuning.clone()).reduction(reduction));
            check!(T::view_values(source, &one)? == T::view_values(source, &several)?, "{m} x {n}, {tuning:?}: other values");
        }
    }
    let large = Mat::<T>::from_fn(1000, 1000, |_, _| T::real(1.0));
    match T::values(&large, &options(&few, tuning(8, 16))) {
        Err(SvdError::TooLarge { needed, available, .. }) => {
            let bytes = (1000 * 1000 * size_of::<T>()) as u64;
            check!(needed >= bytes && available < bytes, "{needed} of {available}");
        }
        other => return Err(format!("10^6 entries: {:?}", other.map(|values| values.len())).into()),
    }
    Ok(())
}

/// Past the 128 MiB that WebGPU promises of a binding: 4,200,000 x 8 numbers of f32 (134.4 MB), in two buffers, column by column and row
/// by row. Their values are the CPU's.
///
/// Bound: 64 eps times the largest. The QR's error is some eps a level of its tree, of six levels, and sums of squares average out; the
/// CPU's is likewise.
pub fn past_one_binding() -> Outcome {
    let context = GpuContext::new(&AdapterChoice::default().max_binding(128 << 20))?;
    let (m, n) = (4_200_000, 8);
    let a = Mat::<f32>::from_fn(m, n, |i, j| noise(18, i, j) as f32);
    let swapped = row_major(&a);
    let want = f32::values(&a, &SvdOptions::default().backend(Backend::Cpu))?;
    let options = SvdOptions::default().backend(Backend::Gpu).context(context.clone()).tuning(tuning(8, 64));
    for source in [a.as_ref(), swapped.as_ref().transpose()] {
        let got = f32::view_values(source, &options)?;
        let found = furthest(got.iter().zip(&want).map(|(a, b)| a - b));
        let bound = 64.0 * eps::<f32>() * want[0];
        check!(found <= bound, "{found:.1e}, bound {bound:.1e}");
    }
    Ok(())
}

/// Updates with so many flops that a submission should not have them are made in several dispatches: of 100,000 x 200 numbers on a software driver, where
/// less counts as many, in columns and in rows. Their values are the CPU's.
///
/// Bound: as in [`past_one_binding`].
pub fn large_updates_in_pieces() -> Outcome {
    let options = SvdOptions::default().context(GpuContext::global()?).backend(Backend::Gpu);
    let a = Mat::<f32>::from_fn(100_000, 200, |i, j| noise(19, i, j) as f32);
    let swapped = row_major(&a);
    let want = f32::values(&a, &SvdOptions::default().backend(Backend::Cpu))?;
    for source in [a.as_ref(), swapped.as_ref().transpose()] {
        let report = source.svdvals_gpu_report(&options)?;
        let found = furthest(report.values.iter().zip(&want).map(|(a, b)| f64::from(*a) - b));
        let bound = 64.0 * eps::<f32>() * want[0];
        check!(found <= bound, "{found:.1e}, bound {bound:.1e}");
        // The model is of a hardware GPU.
        let (dispatches, whole) = (report.counts.dispatches, report.cost()?.dispatches());
        let cut = if GpuContext::global()?.is_software() { dispatches > whole } else { dispatches == whole };
        check!(cut, "{dispatches} dispatches, {whole} by the model");
    }
    Ok(())
}

/// The default hyperparameters fit the device, whatever the size.
pub fn defaults_fit<T: Elements>(context: &GpuContext) -> Outcome {
    for n in [0, 1, 100, 1000, 100_000] {
        GpuKernels::new::<T>(context, &Tuning::for_adapter::<T>(context, n))?;
    }
    Ok(())
}

/// A lost device is an error, at once and in every later call; a new context works.
pub fn lost_device() -> Outcome {
    let choice = AdapterChoice::default();
    let context = GpuContext::new(&choice)?;
    let options = SvdOptions::default().context(context.clone()).backend(Backend::Gpu).tuning(tuning(8, 16));
    let a = Mat::<f32>::from_fn(30, 30, |i, j| noise(30, i, j) as f32);
    let values = f32::values(&a, &options)?;
    context.device().destroy();
    for _ in 0..2 {
        match f32::values(&a, &options) {
            Err(SvdError::DeviceLost { .. }) => {}
            other => return Err(format!("{other:?}").into()),
        }
    }
    let options = options.context(GpuContext::new(&choice)?);
    check!(f32::values(&a, &options)? == values, "other values on a new context");
    Ok(())
}

/// A large call does not keep small ones from the device: while it runs, others on the same context begin and end, one after the other.
///
/// At least 3: the large one, a matrix whose band goes one superdiagonal at a time, takes 20 submissions and more, of which 4 at a time are
/// before a small one. (Mesa's software driver seems to run each submission before it takes the next. There this shows that a call does
/// not hold the device between its submissions, and not how many it may queue.)
pub fn small_calls_pass_large_ones() -> Outcome {
    let options = SvdOptions::default().context(GpuContext::global()?).backend(Backend::Gpu);
    let large = Mat::<f32>::from_fn(300, 300, |i, j| noise(34, i, j) as f32);
    let small = Mat::<f32>::from_fn(40, 40, |i, j| noise(35, i, j) as f32);
    let narrow = options.clone().tuning(tuning(32, 64).tile_width(1));
    let want = small.svdvals_gpu_with(&options)?;
    let band = small.to_band(&narrow.run)?;
    band.band_to_bidiag(&narrow.run)?;
    let (begun, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let passed = thread::scope(|scope| -> Result<usize, Failed> {
        let long = scope.spawn(|| {
            begun.store(true, Ordering::Release);
            let report = large.svdvals_gpu_report(&narrow);
            done.store(true, Ordering::Release);
            report
        });
        while !begun.load(Ordering::Acquire) {
            thread::yield_now();
        }
        // Until it has filled its share of the queue.
        thread::sleep(Duration::from_millis(100));
        let mut passed = 0;
        loop {
            let values = small.svdvals_gpu_with(&options);
            if done.load(Ordering::Acquire) {
                break;
            }
            check!(values? == want, "other values beside a large call");
            passed += 1;
        }
        let report = long.join().map_err(|_| "the large call panicked")??;
        println!("{passed} small calls beside one of {:.2} s in {} submissions", report.seconds.total, report.counts.submissions);
        check!(report.counts.submissions >= 20, "{:?}", report.counts);
        Ok(passed)
    })?;
    check!(passed >= 3, "{passed} small calls beside the large one");
    Ok(())
}

/// The global context is made once and shared.
pub fn global_context() -> Outcome {
    let (first, second) = (GpuContext::global()?, GpuContext::global()?);
    check!(first.device() == second.device(), "two devices");
    Ok(())
}

/// On a device without f64 and f16 the types that need them are refused by name where a GPU was asked for, and computed on the CPU
/// otherwise; the others compute.
pub fn device_without_optional_types() -> Outcome {
    fn lacks<T: Elements>(context: &GpuContext, feature: &str) -> Outcome {
        let a = Mat::<T>::from_fn(40, 30, |i, j| T::noise(32, i, j));
        let options = SvdOptions::default().context(context.clone());
        match T::values(&a, &options.clone().backend(Backend::Gpu)) {
            Err(SvdError::UnsupportedElement { element, feature: named, .. }) => {
                check!(element == T::NAME && named == feature, "{element} and {named}, not {} and {feature}", T::NAME);
            }
            other => return Err(format!("{}: {other:?}", T::NAME).into()),
        }
        check!(
            T::values(&a, &options)? == T::values(&a, &SvdOptions::default().backend(Backend::Cpu))?,
            "{} on the CPU",
            T::NAME
        );
        Ok(())
    }
    let adapter = AdapterChoice::default();
    let full = GpuContext::new(&adapter)?;
    let context = GpuContext::new(&adapter.limits(DeviceLimits::Plain))?;
    lacks::<f64>(&context, "SHADER_F64")?;
    lacks::<Complex<f64>>(&context, "SHADER_F64")?;
    lacks::<f16>(&context, "SHADER_F16")?;
    lacks::<bf16>(&context, "SHADER_F16")?;
    agrees_with_the_cpu::<f32>(&context, (70, 50), tuning(8, 16))?;
    halves_in_single_are_exact(&context)?;
    halves_in_single_are_exact(&full)
}

/// Half types held in f32 give bit for bit what the f32 matrix of the same numbers gives.
pub fn halves_in_single_are_exact(context: &GpuContext) -> Outcome {
    fn exact<T: Elements<Value = f32>>(context: &GpuContext) -> Outcome {
        let a = Mat::<T>::from_fn(70, 50, |i, j| T::noise(33, i, j));
        let wide = Mat::from_fn(70, 50, |i, j| a[(i, j)].to_complex().re as f32);
        let on_gpu = SvdOptions::default().context(context.clone()).backend(Backend::Gpu);
        for options in [on_gpu, SvdOptions::default().backend(Backend::Cpu)] {
            let options = options.half_storage(HalfStorage::Single).tuning(tuning(8, 16));
            check!(a.svdvals_gpu_with(&options)? == wide.svdvals_gpu_with(&options)?, "{} on {}", T::NAME, options.run.backend);
        }
        Ok(())
    }
    exact::<f16>(context)?;
    exact::<bf16>(context)
}

/// A device that the caller owns computes, and keeps its own error handler.
pub fn own_device() -> Outcome {
    let lent = GpuContext::new(&AdapterChoice::default().limits(DeviceLimits::WebGpuDefault))?;
    let context = GpuContext::from_wgpu(lent.device().clone(), lent.queue().clone(), lent.device().adapter_info());
    agrees_with_the_cpu::<f32>(&context, (100, 71), tuning(8, 16))
}
