//! The accuracy that is promised: at least that of Table 1 of the unified-kernels paper, on the CPU.

mod common;

use common::{Spectrum, error, rounded, with_singular_values};
use faer::Mat;
use svdvals_gpu::{Backend, RealElement, SvdOptions, SvdValsGpu};

/// The largest error over `matrices` matrices of each of the three spectra.
fn worst<T: RealElement>(n: usize, matrices: u64) -> f64 {
    let options = SvdOptions::default().backend(Backend::Cpu);
    let mut worst = 0f64;
    for spectrum in Spectrum::ALL {
        let mut sigma = spectrum.values(n);
        for seed in 0..matrices {
            let a: Mat<T> = rounded(with_singular_values(&mut sigma, seed).as_ref());
            let s = a.svdvals_gpu_with(&options).unwrap();
            worst = worst.max(error(s.iter().copied(), &sigma));
        }
    }
    println!("{} n = {n}: {worst:.2e}", T::NAME);
    worst
}

/// Table 1, f32: the bounds are the paper's figures.
#[test]
fn table_1_f32() {
    assert!(worst::<f32>(64, 10) <= 9.6e-8);
    assert!(worst::<f32>(256, 10) <= 8.1e-8);
    assert!(worst::<f32>(1024, 10) <= 7.2e-8);
}

/// Table 1, f64: the bounds are the paper's figures.
#[test]
fn table_1_f64() {
    assert!(worst::<f64>(64, 10) <= 5.8e-16);
    assert!(worst::<f64>(256, 10) <= 8.3e-16);
    assert!(worst::<f64>(1024, 10) <= 1.4e-15);
}
