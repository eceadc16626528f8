//! Matrices, and distances between results.

use faer::Mat;
use num_complex::Complex;
use svdvals_gpu::{Element, HalfStorage, RealElement};

use super::{Done, Trouble};
use crate::config::Rng;

/// Random entries.
pub fn matrix<T: Element>(m: usize, n: usize, seed: u64) -> Mat<T> {
    let mut rng = Rng(seed.wrapping_mul(0x1234_5677).wrapping_add((m * 1000 + n) as u64));
    let mut unit = move || (rng.next() >> 11) as f64 / (1u64 << 53) as f64;
    let mut normal = move || (-2.0 * unit().max(1e-300).ln()).sqrt() * (std::f64::consts::TAU * unit()).cos();
    Mat::from_fn(m, n, |_, _| T::from_complex(Complex::new(normal(), normal())))
}

pub fn doubles<R: RealElement>(values: impl IntoIterator<Item = R>) -> Vec<f64> {
    values.into_iter().map(|x| x.to_double()).collect()
}

/// Relative difference of two vectors.
pub fn compare(what: &str, got: &[f64], wanted: &[f64], tolerance: f64) -> Done {
    if got.len() != wanted.len() {
        return Err(Trouble::Wrong(format!("{what}: {} values, not {}", got.len(), wanted.len())));
    }
    let norm = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>().sqrt();
    let error = norm(&mut got.iter().zip(wanted).map(|(x, y)| x - y));
    let size = norm(&mut wanted.iter().copied());
    if error <= tolerance * size {
        Ok(())
    } else {
        Err(Trouble::Wrong(format!("{what}: error {:.1e} of {tolerance:.0e}", error / size)))
    }
}

pub fn tolerance<T: Element>(half: HalfStorage) -> f64 {
    if half == HalfStorage::Half && T::NAME.contains("16") {
        5e-3
    } else if size_of::<T::Real>() == 8 {
        1e-13
    } else {
        1e-5
    }
}
