//! Singular values.

use faer::Mat;
use num_complex::Complex;
use svdvals_gpu::{
    Backend, Band, Element, GpuBand, GpuMatrix, HalfStorage, Number, Products, SvdError, SvdOptions, SvdValsGpu,
    internals::{products_in_fixed_point, products_in_fixed_point_on_cpu, sliced_rows, sliced_rows_on_cpu},
    wgpu,
};

use super::{
    Call, Done, Env, Trouble,
    compare::{compare, doubles, matrix, tolerance},
    in_order,
};
use crate::common::complex_noise;

pub fn on_cpu<T: Element>(a: &Mat<T>) -> Result<Vec<f64>, SvdError> {
    Ok(doubles(a.svdvals_gpu_with(&SvdOptions::default().backend(Backend::Cpu))?.iter().copied()))
}

/// All stages. With an odd seed the call is awaited, not one that blocks; with an odd number of rows its kernels are timed, a pass each.
pub fn svdvals<T: Element>(env: &Env, call: Call) -> Done {
    let a = matrix::<T>(call.m, call.n, env.seed);
    let options = call.options::<T>(env).time_kernels(call.m % 2 == 1);
    let values = in_order(&a, call.by_rows, |a| match env.seed % 2 {
        0 => a.svdvals_gpu_report(&options),
        _ => pollster::block_on(a.svdvals_gpu_report_async(&options)),
    })?
    .values;
    compare("singular values", &doubles(values.iter().copied()), &on_cpu(&a)?, tolerance::<T>(call.half))
}

/// The stages one by one, to the host and back.
pub fn stages<T: Element>(env: &Env, call: Call) -> Done {
    let a = matrix::<T>(call.m, call.n, env.seed);
    let options = call.options::<T>(env);
    let band = in_order(&a, call.by_rows, |a| a.to_band(&options.run))?;
    let wanted = on_cpu(&a)?;
    let tolerance = tolerance::<T>(call.half);
    let dense = band.to_mat();
    compare("values of the band", &on_cpu(&dense)?, &wanted, tolerance)?;
    let bidiagonal = band.band_to_bidiag(&options.run)?;
    compare("values of the bidiagonal", &doubles(bidiagonal.svdvals()?), &wanted, tolerance)
}

/// Stage 2 of a random band.
pub fn band<T: Element>(env: &Env, call: Call, bandwidth: usize) -> Done {
    let n = call.n;
    let bandwidth = bandwidth.min(n - 1);
    let dense = matrix::<T>(n, n, env.seed + 7);
    let zero = T::from_complex(Complex::new(0.0, 0.0));
    let dense = Mat::from_fn(n, n, |i, j| if i <= j && j <= i + bandwidth { dense[(i, j)] } else { zero });
    let band = Band::from_fn(n, bandwidth, |i, j| dense[(i, j)])?;
    let options = call.options::<T>(env);
    let values = band.band_to_bidiag(&options.run)?.svdvals()?;
    let wanted = on_cpu(&dense)?;
    compare("values of the bidiagonal", &doubles(values), &wanted, tolerance::<T>(call.half))?;
    let there = GpuBand::upload(&env.context, &band)?;
    compare("values of the resident band", &doubles(there.svdvals(&options)?), &wanted, tolerance::<T>(call.half))
}

/// What stays on the device.
pub fn resident<T: Element>(env: &Env, call: Call) -> Done {
    let a = matrix::<T>(call.m, call.n, env.seed + 3);
    let options = call.options::<T>(env);
    let wanted = on_cpu(&a)?;
    let tolerance = tolerance::<T>(call.half);
    let here = in_order(&a, call.by_rows, |a| GpuMatrix::upload(&env.context, &a))?;
    compare("resident values", &doubles(here.svdvals(&options)?), &wanted, tolerance)?;
    let band = here.to_gpu_band(&options.run)?;
    // The band of a matrix of half types is one of f32.
    let of_f32 = options.clone().half_storage(HalfStorage::Single);
    compare("values of the resident band", &doubles(band.svdvals(&of_f32)?), &wanted, tolerance)?;
    compare("values of its bidiagonal", &doubles(band.band_to_bidiag(&of_f32.run)?.svdvals()?), &wanted, tolerance)?;
    let down = band.download()?.to_mat();
    compare("values of the band read back", &on_cpu(&down)?, &wanted, tolerance)
}

/// A buffer of the caller's, with a gap after each line that nobody writes.
pub fn own_buffer<T: Element>(env: &Env, call: Call) -> Done {
    let (m, n) = (call.m, call.n);
    let a = matrix::<T>(m, n, env.seed + 11);
    let options = call.options::<T>(env);
    let wide = |x: T| <T::Scalar as Number>::from_complex(x.to_complex());
    let (inner, outer) = if call.by_rows { (n, m) } else { (m, n) };
    let ld = inner + 3;
    let size = (ld * outer * size_of::<T::Scalar>()) as u64;
    let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
    let descriptor = wgpu::BufferDescriptor { label: Some("own"), size, usage, mapped_at_creation: false };
    let buffer = env.context.device().create_buffer(&descriptor);
    for line in 0..outer {
        let entries: Vec<T::Scalar> = (0..inner).map(|k| wide(if call.by_rows { a[(line, k)] } else { a[(k, line)] })).collect();
        let at = line * ld * size_of::<T::Scalar>();
        // SAFETY: numbers are plain bytes.
        let bytes = unsafe { std::slice::from_raw_parts(entries.as_ptr().cast::<u8>(), size_of_val(&entries[..])) };
        env.context.queue().write_buffer(&buffer, at as u64, bytes);
    }
    let strides = if call.by_rows { (ld, 1) } else { (1, ld) };
    let here = GpuMatrix::<T>::from_buffer(&env.context, buffer, (m, n), strides)?;
    compare("values of an own buffer", &doubles(here.svdvals(&options)?), &on_cpu(&a)?, tolerance::<T>(call.half))?;
    let band = here.to_band(&options.run)?.to_mat();
    compare("values of its band", &on_cpu(&band)?, &on_cpu(&a)?, tolerance::<T>(call.half))
}

/// The slices of the rows, and of the columns, of a matrix of numbers from 2^-30 to 1 are those of the twin, bit by bit.
pub fn slices(env: &Env, (m, n): (usize, usize), split: bool) -> Done {
    let products = if split { Products::Split } else { Products::Half };
    let mut a = Mat::from_fn(m, n, |i, j| (complex_noise(env.seed, i, j).re * f64::exp2(-(((3 * i + j) % 31) as f64))) as f32);
    a.row_mut(m / 2).fill(0.0);
    for lines in [a.as_ref(), a.transpose()] {
        let (slices, scales) = sliced_rows(&env.context, lines, products)?;
        let (of_twin, scales_of_twin) = sliced_rows_on_cpu(lines, products);
        let same = slices.iter().zip(&of_twin).all(|(found, twin)| found.subrows(0, lines.nrows()) == twin.as_ref());
        if !same || scales[..lines.nrows()] != scales_of_twin {
            return Err(Trouble::Wrong("the slices differ from the twin's".into()));
        }
    }
    Ok(())
}

/// A X and A^T X in fixed point, of entries from 2^-30 to 1 and of the largest digits, are the twin's, bit by bit.
pub fn fixed_point(env: &Env, (m, n): (usize, usize), count: usize) -> Done {
    let entry = |seed: u64, i: usize, j: usize| complex_noise(seed, i, j).re * f64::exp2(-(((3 * i + j) % 31) as f64));
    let largest = |i: usize, j: usize| if (i + j).is_multiple_of(2) { 1.0 - f64::EPSILON } else { f64::EPSILON - 1.0 };
    for a in [Mat::from_fn(m, n, |i, j| entry(env.seed, i, j)), Mat::from_fn(m, n, largest)] {
        for transposed in [false, true] {
            let x = Mat::from_fn(if transposed { m } else { n }, count, |i, j| entry(env.seed + 1, i, j));
            let found = products_in_fixed_point(&env.context, a.as_ref(), x.as_ref(), transposed)?;
            if found != products_in_fixed_point_on_cpu(a.as_ref(), x.as_ref(), transposed)? {
                return Err(Trouble::Wrong("the products differ from the twin's".into()));
            }
        }
    }
    Ok(())
}
