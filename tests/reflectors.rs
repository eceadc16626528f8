//! The reflectors that the CPU's kernels keep: the contract of vectors and QR. The GPU's are tested by the same code (tests/gpu/reflectors.rs).

mod common;
#[path = "common/reflectors.rs"]
mod kept;

use half::f16;
use kept::factors_give_the_matrix_back;
use num_complex::Complex;
use svdvals_gpu::{Element, internals::CpuKernels};

fn holds<T: Element>(stored: f64) {
    factors_give_the_matrix_back::<T, _>(CpuKernels::<T>::new, |_| true, stored).unwrap();
}

/// In every type of the arithmetic, and stored as f16, where every level and cycle rounds what it stores: 32 roundings of f16.
#[test]
fn factors_give_the_matrix_back_in_every_type() {
    holds::<f32>(0.0);
    holds::<f64>(0.0);
    holds::<Complex<f32>>(0.0);
    holds::<Complex<f64>>(0.0);
    holds::<f16>(32.0 * 2f64.powi(-11));
}
