//! Matrices and bands that stay on the device from stage to stage, and such as a caller's own buffer holds.

use faer::Mat;
use libtest_mimic::Failed;
use svdvals_gpu::{
    AdapterChoice, Backend, Band, Element, GpuBand, GpuContext, GpuMatrix, HalfStorage, Number, RealElement, Stage3, SvdError,
    SvdOptions, SvdValsGpu,
    triangular::{Diag, Op, Side, TriangularGpu, Uplo},
    wgpu::{self, Buffer, BufferDescriptor, BufferUsages},
};

use crate::{
    Body, Elements, Outcome, check,
    common::{eps, row_major},
    tuning,
};

/// The trials of one element type.
pub fn trials<T: Elements>() -> Vec<(&'static str, Body)> {
    vec![
        ("values_are_those_of_a_call", values_are_those_of_a_call::<T>),
        ("bands_stay", bands_stay::<T>),
        ("buffers_of_the_caller", buffers_of_the_caller::<T>),
        ("entries_that_are_not_finite", entries_that_are_not_finite::<T>),
    ]
}

/// Those that conversion to f32 and back could fail.
pub fn of_half_types<T: Elements>() -> Vec<(&'static str, Body)> {
    vec![
        ("values_are_those_of_a_call", values_are_those_of_a_call::<T>),
        ("bands_stay", bands_stay::<T>),
        ("entries_that_are_not_finite", entries_that_are_not_finite::<T>),
    ]
}

fn gpu(context: &GpuContext) -> SvdOptions {
    SvdOptions::default().context(context.clone()).backend(Backend::Gpu).tuning(tuning(8, 16))
}

/// The ways in which the device can hold matrices of this type.
fn storages<T: Element>(context: &GpuContext) -> Vec<HalfStorage> {
    let half = T::IS_HALF && context.supports::<T>(HalfStorage::Half);
    [HalfStorage::Single].into_iter().chain(half.then_some(HalfStorage::Half)).collect()
}

const SIZES: [(usize, usize); 8] = [(1, 1), (30, 30), (45, 20), (20, 45), (300, 7), (7, 300), (0, 4), (4, 0)];

fn random<T: Elements>((m, n): (usize, usize), scale: f64) -> Mat<T> {
    Mat::from_fn(m, n, |i, j| T::from_complex(crate::common::complex_noise(61, i, j) * scale))
}

/// A matrix that is there gives what one that is uploaded for the call gives, to the last bit: the same power of two, at both ends of the
/// range too, the same memory order, the same kernels. Of the matrix nothing travels.
fn values_are_those_of_a_call<T: Elements>(context: &GpuContext) -> Outcome {
    let largest = f64::from(<T as Number>::MAX_EXPONENT - 12).exp2();
    for (m, n) in SIZES {
        // Entries near the ends of the range, some of them subnormal; and all of them.
        let subnormal = (-3.0 - f64::from(<T as Number>::MAX_EXPONENT)).exp2();
        for (scale, stage3) in [
            (1.0, Stage3::Auto),
            (1.0, Stage3::Device),
            (largest, Stage3::Auto),
            (1.0 / largest, Stage3::Bisection),
            (subnormal, Stage3::Auto),
        ] {
            let a = random::<T>((m, n), scale);
            let turned = row_major(&a);
            for half in storages::<T>(context) {
                let options = gpu(context).stage3(stage3).half_storage(half);
                let name = format!("{m} x {n}, {scale:e}, {stage3:?}, {half:?}");
                let there = GpuMatrix::upload(context, &a)?;
                let want = a.svdvals_gpu_with(&options)?;
                check!(there.svdvals(&options)? == want.iter().copied().collect::<Vec<_>>(), "{name}");
                let there = GpuMatrix::upload(context, &turned.transpose())?;
                let want = turned.transpose().svdvals_gpu_report(&options)?;
                let report = there.svdvals_report(&options)?;
                check!(report.values == want.values.iter().copied().collect::<Vec<_>>(), "{name}, by rows");
                check!(
                    (report.shape, report.backend, report.storage) == ((m, n), Backend::Gpu, want.storage),
                    "{name}: {report:?}"
                );
                // The scale's factor, and no matrix.
                check!(report.counts.bytes_uploaded == size_of::<T::Scalar>() as u64, "{name}: {:?}", report.counts);
                check!(report.counts.bytes_read_back == want.counts.bytes_read_back, "{name}: {:?}", report.counts);
            }
        }
    }
    Ok(())
}

/// A band that stays between stages 1 and 2 gives the values of the whole call, by any tile width, to the last bit (the copies between are
/// exact, and the power of two is the whole call's), and comes back as the host's band does; one that is uploaded gives the bidiagonal of
/// the host's. By way of a bidiagonal in c32, whose entries are moduli rounded to f32, values may differ by (2 n - 1) half eps of themselves
/// (Demmel and Kahan 1990, Theorem 2), and two roundings of them.
fn bands_stay<T: Elements>(context: &GpuContext) -> Outcome {
    let largest = f64::from(<T as Number>::MAX_EXPONENT - 12).exp2();
    for size in SIZES {
        for scale in [1.0, largest, 1.0 / largest] {
            let a = random::<T>(size, scale);
            let there = GpuMatrix::upload(context, &a)?;
            for half in storages::<T>(context) {
                let options = gpu(context).half_storage(half);
                let band = there.to_gpu_band(&options.run)?;
                let host = SvdValsGpu::to_band(&a, &options.run)?;
                check!((band.n(), band.bandwidth()) == (host.n(), host.bandwidth()), "{band:?}");
                check!(band.download()? == host, "{size:?}, {scale:e}, {half:?}: the band");
                if half == HalfStorage::Half {
                    continue; // the whole call's stage 2 rounds to f16, that of an f32 band does not
                }
                for tile_width in [1, 3, 7, 100] {
                    let options = options.clone().tuning(tuning(8, 16).tile_width(tile_width));
                    let name = format!("{size:?}, {scale:e}, {tile_width}");
                    let want: Vec<_> = a.svdvals_gpu_with(&options)?.iter().copied().collect();
                    check!(band.svdvals(&options)? == want, "{name}: values");
                    let found = band.band_to_bidiag(&options.run)?.svdvals()?;
                    let bound = if T::NAME == "c32" { (band.n() as f64 + 1.0) * eps::<T>() } else { 0.0 };
                    let near = |(x, y): (&T::Real, &T::Real)| (x.to_double() - y.to_double()).abs() <= bound * y.to_double();
                    check!(found.len() == want.len() && found.iter().zip(&want).all(near), "{name}: by way of a bidiagonal");
                }
            }
        }
    }
    for (n, bandwidth) in [(0, 3), (1, 0), (2, 1), (30, 0), (40, 8), (20, 19), (300, 5)] {
        let band = Band::<T>::from_fn(n, bandwidth, |i, j| T::noise(62, i, j))?;
        let there = GpuBand::upload(context, &band)?;
        check!(there.download()? == band, "{n}, {bandwidth}: there and back");
        for half in storages::<T>(context) {
            for tile_width in [1, 4] {
                let options = gpu(context).half_storage(half).tuning(tuning(8, 16).tile_width(tile_width));
                let found = there.band_to_bidiag(&options.run)?;
                check!(found == band.band_to_bidiag(&options.run)?, "{n}, {bandwidth}, {half:?}, {tile_width}: {found:?}");
            }
        }
    }
    Ok(())
}

const ALL: BufferUsages = BufferUsages::STORAGE.union(BufferUsages::COPY_SRC).union(BufferUsages::COPY_DST);

/// A buffer with these entries.
fn buffer_of<T: Element>(context: &GpuContext, entries: &[T::Scalar], usage: BufferUsages) -> Buffer {
    let bytes: &[u8] = bytemuck::cast_slice(entries);
    let size = bytes.len().max(16) as u64;
    let buffer = context.device().create_buffer(&BufferDescriptor { label: None, size, usage, mapped_at_creation: false });
    context.queue().write_buffer(&buffer, 0, bytes);
    buffer
}

/// The matrix's entries in a buffer with these strides, NaN between them and for `more` entries after them.
fn spread<T: Elements>(a: &Mat<T>, strides: (usize, usize), more: usize) -> Vec<T::Scalar> {
    let at = |i: usize, j: usize| i * strides.0 + j * strides.1;
    let len = if a.nrows() * a.ncols() == 0 { 0 } else { at(a.nrows() - 1, a.ncols() - 1) + 1 };
    let mut entries = vec![T::Scalar::from_complex(f64::NAN.into()); len + more];
    for (i, j) in (0..a.nrows()).flat_map(|i| (0..a.ncols()).map(move |j| (i, j))) {
        entries[at(i, j)] = T::Scalar::from_complex(a[(i, j)].to_complex());
    }
    entries
}

/// A matrix in a caller's buffer, lines side by side or apart, is the same matrix uploaded: its values and its band to the last bit, what
/// comes back, what a triangle makes of it. What is between its lines and after it is neither read (it is NaN) nor written.
fn buffers_of_the_caller<T: Elements>(context: &GpuContext) -> Outcome {
    let options = gpu(context).tuning(tuning(8, 16).triangle(8));
    for (m, n) in SIZES.into_iter().chain([(1, 13), (13, 1), (2, 5)]) {
        let a = random::<T>((m, n), 1.0);
        let turned = row_major(&a);
        for (strides, more) in [((n, 1), 0), ((1, m), 3), ((n + 3, 1), 1), ((1, m + 5), 0)] {
            let name = format!("{m} x {n}, strides {strides:?}");
            let by_rows = strides.1 == 1;
            let there = if by_rows { GpuMatrix::upload(context, &turned.transpose())? } else { GpuMatrix::upload(context, &a)? };
            let before = spread(&a, strides, more);
            let buffer = buffer_of::<T>(context, &before, ALL);
            let mut own = GpuMatrix::<T>::from_buffer(context, buffer.clone(), (m, n), strides)?;
            check!((own.nrows(), own.ncols()) == (m, n) && own.buffer() == &buffer, "{name}: {own:?}");
            check!(own.to_mat()? == a, "{name}: back");
            check!(own.svdvals(&options)? == there.svdvals(&options)?, "{name}: values");
            check!(own.to_band(&options.run)? == there.to_band(&options.run)?, "{name}: band");
            let triangle = GpuMatrix::upload(context, &Mat::<T>::from_fn(n, n, |i, j| T::noise(63, i, j)))?;
            let mut there = there;
            for x in [&mut own, &mut there] {
                x.trmm_gpu_with(Side::Right, Uplo::Lower, Op::NoTrans, Diag::NonUnit, T::real(1.0), &triangle, &options.run)?;
            }
            check!(own.to_mat()? == there.to_mat()?, "{name}: times a triangle");
            own.trmm_gpu_with(Side::Right, Uplo::Lower, Op::NoTrans, Diag::NonUnit, T::real(0.0), &triangle, &options.run)?;
            check!(own.to_mat()? == Mat::from_fn(m, n, |_, _| T::real(0.0)), "{name}: zero");
            // All of the buffer, as one line.
            let len = before.len();
            let after = GpuMatrix::<T>::from_buffer(context, buffer, (1, len), (len, 1))?.to_mat()?;
            let (i, j) = if by_rows { (strides.0.max(1), 1) } else { (1, strides.1.max(1)) };
            let mut entry = vec![false; len];
            (0..m).flat_map(|r| (0..n).map(move |c| r * i + c * j)).for_each(|at| entry[at] = true);
            let kept = |at: usize| entry[at] || after[(0, at)].to_complex().re.is_nan();
            check!((0..len).all(kept), "{name}: something between was written");
        }
    }
    Ok(())
}

/// An entry that is not finite is named by its row and column, in either memory order, for a wide matrix too, and the next call works.
fn entries_that_are_not_finite<T: Elements>(context: &GpuContext) -> Outcome {
    let options = gpu(context);
    for (m, n) in [(40, 30), (30, 40)] {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let mut a = random::<T>((m, n), 1.0);
            a[(17, 5)] = T::real(value);
            a[(18, 2)] = T::real(f64::NAN);
            for strides in [(n + 2, 1), (1, m + 1)] {
                let buffer = buffer_of::<T>(context, &spread(&a, strides, 1), ALL);
                let own = GpuMatrix::<T>::from_buffer(context, buffer, (m, n), strides)?;
                let found = own.svdvals(&options);
                check!(matches!(found, Err(SvdError::NonFinite { row: 17, col: 5, .. })), "{value}, {strides:?}: {found:?}");
                let found = own.to_gpu_band(&options.run);
                check!(matches!(found, Err(SvdError::NonFinite { row: 17, col: 5, .. })), "{value}, {strides:?}: {found:?}");
            }
        }
    }
    check!(GpuMatrix::upload(context, &random::<T>((9, 9), 1.0))?.svdvals(&options)?.len() == 9, "the next call");
    Ok(())
}

/// Two devices of one instance, on the adapter that calls take by default.
fn two_devices() -> Result<[GpuContext; 2], Failed> {
    let instance = wgpu::Instance::default();
    let adapter = pollster::block_on(instance.request_adapter(&wgpu::RequestAdapterOptions::default()))?;
    let device = || -> Result<GpuContext, Failed> {
        let (device, queue) = pollster::block_on(adapter.request_device(&wgpu::DeviceDescriptor::default()))?;
        Ok(GpuContext::from_wgpu(device, queue, adapter.get_info()))
    };
    Ok([device()?, device()?])
}

/// What a device cannot have, and what asks for another place, is refused by name; the next call works.
pub fn refusals<T: Elements>(context: &GpuContext) -> Outcome {
    let a = random::<T>((12, 10), 1.0);
    let there = GpuMatrix::upload(context, &a)?;
    let options = gpu(context);
    let want = there.svdvals(&options)?;
    let band = there.to_gpu_band(&options.run)?;
    let elsewhere = GpuContext::new(&AdapterChoice::default())?;

    let refused = |result: Result<usize, SvdError>, named: &str| -> Outcome {
        check!(matches!(&result, Err(SvdError::InvalidOption { option, .. }) if *option == named), "{named}: {result:?}");
        Ok(())
    };
    for (options, named) in
        [(options.clone().backend(Backend::Cpu), "backend"), (options.clone().context(elsewhere.clone()), "context")]
    {
        refused(there.svdvals(&options).map(|s| s.len()), named)?;
        refused(there.svdvals_report(&options).map(|s| s.values.len()), named)?;
        refused(there.to_gpu_band(&options.run).map(|b| b.n()), named)?;
        refused(band.svdvals(&options).map(|s| s.len()), named)?;
        refused(band.band_to_bidiag(&options.run).map(|b| b.diagonal().len()), named)?;
    }
    refused(there.svdvals(&options.clone().tuning(tuning(8, 16).tile_size(0))).map(|s| s.len()), "tile_size")?;
    refused(band.svdvals(&options.clone().tuning(tuning(8, 16).tile_width(0))).map(|s| s.len()), "tile_width")?;

    let entries = spread(&a, (10, 1), 0);
    let adopt = |entries: &[T::Scalar], usage, size, strides| {
        GpuMatrix::<T>::from_buffer(context, buffer_of::<T>(context, entries, usage), size, strides).map(|a| a.nrows())
    };
    for strides in [(1, 1), (9, 1), (1, 11), (2, 20), (0, 0), (0, 1), (1, 0), (10, 2)] {
        refused(adopt(&entries, ALL, (12, 10), strides), "strides")?;
    }
    for (size, strides) in [((13, 10), (10, 1)), ((12, 10), (11, 1)), ((12, 10), (1, 13)), ((1 << 40, 1 << 40), (1 << 40, 1))] {
        refused(adopt(&entries, ALL, size, strides), "buffer")?;
    }
    for lacking in [BufferUsages::STORAGE, BufferUsages::COPY_SRC] {
        refused(adopt(&entries, ALL - lacking, (12, 10), (10, 1)), "buffer")?;
    }
    let readable = BufferDescriptor { label: None, size: 4096, usage: BufferUsages::STORAGE, mapped_at_creation: false };
    let readable = context.device().create_buffer(&readable);
    refused(GpuMatrix::<T>::from_buffer(context, readable, (12, 10), (10, 1)).map(|a| a.nrows()), "buffer")?;
    // Of another device of the same instance; and of another instance, one of so many that the context has none of its number.
    let [one, other] = two_devices()?;
    let foreign = buffer_of::<f32>(&other, &[0.0; 120], ALL);
    refused(GpuMatrix::<f32>::from_buffer(&one, foreign, (12, 10), (10, 1)).map(|a| a.nrows()), "buffer")?;
    let foreign: Vec<Buffer> =
        (0..5000).map(|_| buffer_of::<T>(&elsewhere, &[T::Scalar::from_complex(0.0.into())], ALL)).collect();
    let last = foreign[foreign.len() - 1].clone();
    refused(GpuMatrix::<T>::from_buffer(context, last, (1, 1), (1, 1)).map(|a| a.nrows()), "buffer")?;
    let gone = buffer_of::<T>(context, &entries, ALL);
    gone.destroy();
    refused(GpuMatrix::<T>::from_buffer(context, gone, (12, 10), (10, 1)).map(|a| a.nrows()), "buffer")?;
    // One that is taken away, or mapped, later is an error of the call.
    let late = buffer_of::<T>(context, &entries, ALL);
    let own = GpuMatrix::<T>::from_buffer(context, late.clone(), (12, 10), (10, 1))?;
    late.destroy();
    let found = own.svdvals(&options);
    check!(matches!(found, Err(SvdError::Gpu { .. })), "{found:?}");
    let size = size_of_val(entries.as_slice()) as u64;
    let mapped = BufferDescriptor { label: None, size, usage: ALL, mapped_at_creation: true };
    let mapped = GpuMatrix::<T>::from_buffer(context, context.device().create_buffer(&mapped), (12, 10), (10, 1))?;
    let found = mapped.svdvals(&options);
    check!(matches!(found, Err(SvdError::Gpu { .. })), "{found:?}");
    mapped.buffer().unmap();
    check!(mapped.svdvals(&options)?.iter().all(|&s| s == num_traits::Zero::zero()), "a new buffer is zero");

    check!(there.svdvals(&options)? == want, "the next call");
    check!(adopt(&entries, ALL, (12, 10), (10, 1))? == 12, "the next buffer");
    Ok(())
}
