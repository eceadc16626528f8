//! The accuracy that is promised: at least that of Table 1 of the unified-kernels paper, on the CPU.

use faer::Mat;
use half::f16;
use num_complex::Complex;
use svdvals_gpu::{Backend, Element, HalfStorage, SvdOptions, SvdValsGpu, Tuning};

use crate::common::{Spectrum, complex_with_singular_values, error, rounded, with_singular_values};

/// The largest error over `matrices` matrices of each of the three spectra, also by way of a band where the default is without.
fn worst<T: Element>(n: usize, matrices: u64, half: HalfStorage) -> f64 {
    let options = SvdOptions::default().backend(Backend::Cpu).half_storage(half);
    let defaults = Tuning::for_cpu::<T>(n);
    let mut ways = vec![options.clone()];
    if n <= defaults.cpu.direct_up_to {
        ways.push(options.tuning(defaults.direct_up_to(0)));
    }
    let mut worst = 0f64;
    for spectrum in Spectrum::ALL {
        let mut sigma = spectrum.values(n);
        for seed in 0..matrices {
            let a: Mat<T> = if T::NAME.starts_with('c') {
                rounded(complex_with_singular_values(&mut sigma, seed).as_ref())
            } else {
                rounded(with_singular_values(&mut sigma, seed).as_ref())
            };
            for options in &ways {
                let s = a.svdvals_gpu_with(options).unwrap();
                worst = worst.max(error(s.iter().copied(), &sigma));
            }
        }
    }
    println!("{} {half:?} n = {n}: {worst:.2e}", T::NAME);
    worst
}

/// Table 1, f32: the bounds are the paper's figures. Complex numbers get twice as much: two parts are rounded.
#[test]
fn table_1_f32() {
    for (n, bound) in [(64, 9.6e-8), (256, 8.1e-8), (1024, 7.2e-8)] {
        assert!(worst::<f32>(n, 10, HalfStorage::Single) <= bound);
    }
    for (n, bound) in [(64, 9.6e-8), (256, 8.1e-8)] {
        assert!(worst::<Complex<f32>>(n, 10, HalfStorage::Single) <= 2.0 * bound);
    }
}

/// Table 1, f64: the bounds are the paper's figures, doubled for complex numbers.
#[test]
fn table_1_f64() {
    for (n, bound) in [(64, 5.8e-16), (256, 8.3e-16), (1024, 1.4e-15)] {
        assert!(worst::<f64>(n, 10, HalfStorage::Single) <= bound);
    }
    for (n, bound) in [(64, 5.8e-16), (256, 8.3e-16)] {
        assert!(worst::<Complex<f64>>(n, 10, HalfStorage::Single) <= 2.0 * bound);
    }
}

/// Beyond n = 1024 real types have wider tiles and longer leaves, of which n = 2048 takes two. The bounds are the smallest figures that the
/// table has for n = 1024 and 4096.
#[test]
fn wide_tiles() {
    assert!(Tuning::for_cpu::<f32>(2048).tile_size > Tuning::for_cpu::<f32>(1024).tile_size);
    assert!(worst::<f32>(2048, 1, HalfStorage::Single) <= 6.7e-8);
    assert!(worst::<f64>(2048, 1, HalfStorage::Single) <= 1.4e-15);
}

/// Table 1, f16: stored as f16 the bounds are the paper's figures, and held in f32 a twentieth of them.
#[test]
fn table_1_f16() {
    for (n, bound) in [(64, 4.3e-3), (256, 3.3e-3), (1024, 6.4e-3)] {
        assert!(worst::<f16>(n, 10, HalfStorage::Half) <= bound);
        assert!(worst::<f16>(n, 10, HalfStorage::Single) <= bound / 20.0);
    }
}
