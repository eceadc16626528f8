//! What a call holds on the device, and that it lets go of it.

use std::{
    pin::pin,
    sync::atomic::{AtomicBool, Ordering},
    task::{Context, Waker},
    thread,
    time::Duration,
};

use faer::Mat;
use half::f16;
use num_complex::Complex;
use svdvals_gpu::{
    AdapterChoice, Backend, Element, GpuContext, GpuMatrix, HalfStorage, LstsqGpu, QrGpu, Stage, SvdError, SvdGpu, SvdOptions,
    SvdValsGpu, Tuning, wgpu::PollType,
};

use crate::{Elements, Outcome, check, waits::stopped_in};

/// Bytes that are allocated on the device, once it has let go of what was dropped, and the context of what it keeps; None where wgpu does not say.
fn allocated(context: &GpuContext) -> Option<u64> {
    context.trim();
    allocated_now(context)
}

/// [`allocated`], with what the context keeps.
fn allocated_now(context: &GpuContext) -> Option<u64> {
    let _ = context.device().poll(PollType::wait_indefinitely());
    context.device().generate_allocator_report().map(|report| report.total_allocated_bytes)
}

/// Runs its function when it goes out of scope.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// The most bytes that are allocated at a time while `call` runs, besides those `before`. Another thread looks on, every tenth of a
/// millisecond: matrices are there while kernels run, for milliseconds on any device.
fn most_allocated(context: &GpuContext, before: u64, call: impl FnOnce() -> svdvals_gpu::Result<()>) -> svdvals_gpu::Result<u64> {
    let (done, report) = (AtomicBool::new(false), || context.device().generate_allocator_report());
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut most = 0;
            while !done.load(Ordering::Acquire) {
                most = report().map_or(0, |report| report.total_allocated_bytes).max(most);
                thread::sleep(Duration::from_micros(100));
            }
            most
        });
        // However the call ends.
        let _done = OnDrop(|| done.store(true, Ordering::Release));
        let result = call();
        done.store(true, Ordering::Release);
        result.map(|()| watcher.join().unwrap_or(0).saturating_sub(before))
    })
}

/// After a call the device holds what it held before, whether the call went through, failed, was stopped or dropped; while it runs, no less than
/// `GpuContext::required_bytes`, and no more than that, one copy of the matrix on its way to the device, and 2 MiB for parameters and what is read back. (Only
/// the Vulkan and DX12 backends say what is allocated.)
pub fn memory_is_freed() -> Outcome {
    let context = GpuContext::new(&AdapterChoice::default())?;
    let options = SvdOptions::default().context(context.clone()).backend(Backend::Gpu);
    let a = Mat::<f32>::from_fn(700, 600, |i, j| <f32 as Elements>::noise(60, i, j));
    // Pipelines stay.
    a.svdvals_gpu_with(&options)?;
    let Some(before) = allocated(&context) else {
        println!("{} does not say what is allocated", context.backend());
        return Ok(());
    };
    let after = |what: &str| -> Outcome {
        // A thread that still waits for a dropped future's work may have it for a moment.
        for _ in 0..100 {
            if allocated(&context) == Some(before) {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Err(format!("after {what} {:?} bytes are allocated, {before} before", allocated(&context)).into())
    };

    let most = most_allocated(&context, before, || a.svdvals_gpu_with(&options).map(drop))?;
    after("a call")?;
    let needed = context.required_bytes::<f32>(700, 600, &options)?;
    let all = needed + 4 * 700 * 600 + (2 << 20);
    check!((needed..=all).contains(&most), "{most} bytes at the most, {needed} required, {all} allowed");

    let mut bad = a.clone();
    bad[(5, 6)] = f32::NAN;
    check!(matches!(bad.svdvals_gpu_with(&options), Err(SvdError::NonFinite { .. })), "NaN");
    after("an error")?;
    for stage in [Stage::ToBand, Stage::BandToBidiag] {
        check!(
            a.svdvals_gpu_with(&stopped_in(stage, &options)) == Err(SvdError::Cancelled { stage }),
            "not cancelled in {stage}"
        );
        after("a call that was stopped")?;
    }
    let small = a.submatrix(0, 0, 260, 240);
    let formed = options.clone().tuning(Tuning::for_adapter::<f32>(&context, 240).formed_beside(1));
    for options in [&options, &formed] {
        let most = most_allocated(&context, before, || small.svd_gpu_with(options).map(drop))?;
        after("a call with vectors")?;
        let all = context.required_svd_bytes::<f32>(260, 240, options)? + 4 * 260 * 240 + (2 << 20);
        let needed = context.required_bytes::<f32>(260, 240, options)?;
        check!((needed..=all).contains(&most), "{most} bytes at the most with vectors, {all} allowed");
    }
    let [bytes, more] = [&options, &formed].map(|options| context.required_svd_bytes::<f32>(260, 240, options));
    check!(more? >= bytes? + 2 * 4 * 240 * 240, "without the product of the reflectors");
    {
        let mut task = pin!(a.svdvals_gpu_async(&options));
        check!(task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending(), "nothing to wait for");
    }
    after("a future that was dropped")?;
    {
        let resident = GpuMatrix::upload(&context, &a)?;
        check!(allocated(&context).is_some_and(|now| now >= before + 4 * 700 * 600), "the matrix is not on the device");
        resident.svdvals(&options)?;
        resident.to_gpu_band(&options.run)?;
    }
    after("a resident matrix")
}

/// The bits of what is computed from a matrix: values, vectors, R and Q, and least squares, tall and wide, on the host and on the device.
fn bits_of(context: &GpuContext, a: &Mat<f32>) -> svdvals_gpu::Result<Vec<u32>> {
    let options = SvdOptions::default().context(context.clone()).backend(Backend::Gpu);
    let values = a.svdvals_gpu_with(&options)?;
    let mut bits: Vec<u32> = values.iter().map(|x| x.to_bits()).collect();
    let mut add = |x: &Mat<f32>| bits.extend(x.col_iter().flat_map(|x| x.iter().map(|x| x.to_bits())));
    let svd = a.svd_gpu_with(&options)?;
    let tuning = Tuning::for_adapter::<f32>(context, a.ncols()).formed_beside(1);
    add(&a.svd_gpu_with(&options.clone().tuning(tuning))?.v);
    let qr = a.qr_gpu_with(&options.run.clone().into())?;
    let b = a.submatrix(0, 0, a.nrows(), 3).to_owned();
    let resident = GpuMatrix::upload(context, a)?.qr(&options.run.clone().into())?;
    [&svd.u, &svd.v, &qr.r(), &qr.thin_q()?, &a.lstsq_gpu_with(&b, &options.run.clone().into())?.x]
        .into_iter()
        .for_each(&mut add);
    add(&resident.thin_q()?.to_mat()?);
    add(&resident.complete_q()?.to_mat()?);
    // With Q [Y; 0] for a solution Y of R^H Y = B: zeros that a new buffer has.
    let wide = GpuMatrix::upload(context, &a.transpose().to_owned())?;
    let right = GpuMatrix::upload(context, &a.submatrix(0, 0, a.ncols(), 4).to_owned())?;
    add(&wide.lstsq(&right, &options.run.clone().into())?.x.to_mat()?);
    Ok(bits)
}

/// A second call takes the buffers of the first, and what those have held changes no bit: after calls for a matrix of 1e30, whose entries are far
/// outside what padding may hold. `trim` gives them back, once, and then the bits are the same again. A buffer that a caller may hold is not
/// kept. (Only the Vulkan and DX12 backends say what is allocated.)
pub fn buffers_are_used_again() -> Outcome {
    let context = GpuContext::new(&AdapterChoice::default())?;
    let a = Mat::<f32>::from_fn(203, 130, |i, j| <f32 as Elements>::noise(61, i, j));
    let large = Mat::<f32>::from_fn(203, 130, |i, j| 1e30 * <f32 as Elements>::noise(62, i, j));
    let first = bits_of(&context, &a)?;
    let after_one = allocated_now(&context);
    bits_of(&context, &large)?;
    check!(bits_of(&context, &a)? == first, "other bits in buffers that are used again");
    check!(
        allocated_now(&context) == after_one,
        "{:?} bytes after three calls, {after_one:?} after one",
        allocated_now(&context)
    );
    let kept = context.trim();
    check!(kept > 203 * 130 * 4 && context.trim() == 0, "{kept} bytes were kept");
    check!(bits_of(&context, &a)? == first, "other bits after `trim`");
    let again = context.trim();
    check!((203 * 130 * 4..=kept).contains(&again), "{again} bytes are kept of one matrix, {kept} of two");

    let held = GpuMatrix::upload(&context, &a)?;
    let buffer = held.buffer().clone();
    drop(held);
    let others = GpuMatrix::upload(&context, &large)?;
    check!(*others.buffer() != buffer && context.trim() < buffer.size(), "a caller's buffer is used again");
    Ok(())
}

/// The bytes by type of the README's table: of s bytes a number m n for the matrix, some 95 n for the band, and 32 m numbers of the arithmetic for
/// reflectors, m >= n; 1.08 GB for f32 at n = 16384, 1.19 with deferred updates of 256 columns, and 1.17 with those of 64 beside panels: 256 or 128
/// more rows and columns, 32 columns of V T, and up to 32 parts of products with them.
///
/// Bound: 12% of what is not the matrix, with tiles of 32: the band has b + 2 TW + 1 = 97, V 32, and T 1024 for each leaf of 256 or 512 rows, which is
/// another 2 or 4. With tiles of 16, where workgroup memory holds no wider, it is less.
pub fn required_bytes() -> Outcome {
    fn of<T: Element>(context: &GpuContext, half: HalfStorage, (size, scalar): (u64, u64)) -> Outcome {
        let options = SvdOptions::default().context(context.clone()).half_storage(half);
        for (m, n) in [(4096, 4096), (2048, 3000), (3000, 2048)] {
            let options = options.clone().tuning(Tuning::for_adapter::<T>(context, m.min(n)).deferred_columns(0));
            let bytes = match context.required_bytes::<T>(m, n, &options) {
                Err(SvdError::UnsupportedElement { .. }) => return Ok(()),
                bytes => bytes?,
            };
            let [matrix, band, reflectors] = [size * (m * n) as u64, 95 * size * m.min(n) as u64, 32 * scalar * m.max(n) as u64];
            let tuning = Tuning::for_adapter::<T>(context, m.min(n));
            // T of the leaves, and V and T of a level beside an update.
            let triangles = 32 * 32 * scalar * m.max(n).div_ceil(tuning.leaf) as u64;
            let beside = if tuning.gpu.split_beside > 0 { 2 * triangles } else { 0 };
            let (more, stated) = (bytes as f64 - matrix as f64, (band + reflectors + beside) as f64);
            let narrow = tuning.tile_size < 32;
            check!(
                more <= 1.12 * stated && (narrow || more >= 0.88 * stated),
                "{}, {m} x {n}: {matrix} bytes and {more}, not {stated}",
                T::NAME
            );
        }
        Ok(())
    }
    let context = GpuContext::global()?;
    of::<f32>(&context, HalfStorage::Single, (4, 4))?;
    of::<f16>(&context, HalfStorage::Single, (4, 4))?;
    of::<f16>(&context, HalfStorage::Half, (2, 4))?;
    of::<f64>(&context, HalfStorage::Single, (8, 8))?;
    of::<Complex<f32>>(&context, HalfStorage::Single, (8, 8))?;
    of::<Complex<f64>>(&context, HalfStorage::Single, (16, 16))?;
    for (columns, beside, stated) in [(0, 0, 1.08e9), (256, 0, 1.19e9), (64, 1, 1.17e9)] {
        let tuning = Tuning::for_adapter::<f32>(&context, 16384)
            .tile_size(32)
            .leaf(512)
            .deferred_columns(columns)
            .deferred_from(3072)
            .deferred_beside(beside);
        let large = context.required_bytes::<f32>(16384, 16384, &SvdOptions::default().tuning(tuning));
        let as_stated = match large {
            Ok(bytes) => (bytes as f64 / stated - 1.0).abs() < 0.01,
            Err(SvdError::TooLarge { needed, .. }) => needed >= 1 << 30, // on a device with smaller buffers
            _ => false,
        };
        check!(as_stated, "{large:?}, not {stated}");
    }
    let huge = context.required_bytes::<f32>(1 << 30, 1 << 30, &SvdOptions::default());
    check!(matches!(huge, Err(SvdError::TooLarge { .. })), "{huge:?}");
    Ok(())
}
