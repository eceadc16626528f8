//! The speed of a thread, measured once in a process.

use std::sync::OnceLock;

use faer::{Accum, Mat, Par, linalg::matmul::matmul, traits::ComplexField};

use crate::base::{clock::Clock, parallel::computed};

/// Flops a second of one thread in a matrix product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ProductRates {
    pub f32: f64,
    pub f64: f64,
}

/// Order of the measured products, and how many there are after the first. A core with AVX2 or AVX-512 takes 70 to 200 microseconds for each.
const ORDER: usize = 160;
const TIMES: usize = 3;

/// Where there is no clock to rely on: a core in a browser, with registers of 16 bytes.
const ASSUMED: ProductRates = ProductRates { f32: 8e9, f64: 4e9 };

impl ProductRates {
    /// Those of this machine. The first call takes about a millisecond, any other one nanoseconds.
    pub fn here() -> ProductRates {
        static HERE: OnceLock<ProductRates> = OnceLock::new();
        if cfg!(target_family = "wasm") {
            return ASSUMED;
        }
        *computed(&HERE, || {
            let rates = ProductRates { f32: measured(1.0f32), f64: measured(1.0f64) };
            log::debug!("svdvals-gpu: a thread has {:.1e} flops a second in f32, {:.1e} in f64", rates.f32, rates.f64);
            rates
        })
    }
}

/// The best of a few products of this type on this thread.
fn measured<T: ComplexField + Copy>(one: T) -> f64 {
    let a = Mat::<T>::from_fn(ORDER, ORDER, |_, _| one);
    let mut b = a.clone();
    let mut product = || matmul(b.as_mut(), Accum::Replace, a.as_ref(), a.as_ref(), one, Par::Seq);
    product(); // memory and caches
    let mut least = f64::INFINITY;
    for _ in 0..TIMES {
        let clock = Clock::new(true);
        product();
        least = least.min(clock.seconds());
    }
    2.0 * (ORDER as f64).powi(3) / least.max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A core of any processor of today has between 0.1 and 1000 GF/s, and is measured once.
    #[test]
    fn a_thread_is_measured_once() {
        let rates = ProductRates::here();
        assert!([rates.f32, rates.f64].into_iter().all(|rate| rate > 1e8 && rate < 1e12), "{rates:?}");
        assert_eq!(ProductRates::here(), rates);
    }
}
