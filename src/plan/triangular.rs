//! From a caller's A and B to the recursion: the checks, and the choice of the backend.

#[cfg(feature = "gpu")]
use faer::prelude::ReborrowMut;
use faer::{MatMut, MatRef};

use crate::{
    algo::triangular::{Call, alpha_is_zero, check_diagonal},
    base::{
        error::Result,
        number::Scalar,
        pool::{on_pool_for_product, on_threads},
    },
    cpu,
    plan::{backend::Place, options::RunOptions, problem::Problem},
};
#[cfg(feature = "gpu")]
use crate::{gpu, plan::backend::or_fall_back};

/// The operation on matrices in host memory.
pub(crate) fn on_host<T: Scalar>(call: Call<T>, a: MatRef<'_, T>, mut b: MatMut<'_, T>, run: &RunOptions) -> Result<()> {
    let Call { variant, alpha } = call;
    variant.check_shapes(a.shape(), b.shape())?;
    if let Some(tuning) = &run.tuning {
        tuning.check()?;
    }
    let order = a.nrows();
    let cols = if variant.transposes_b() { b.nrows() } else { b.ncols() };
    if order == 0 || cols == 0 {
        return Ok(());
    }
    if alpha_is_zero(alpha) {
        b.fill(T::zeroed());
        return Ok(());
    }
    if variant.divides() {
        check_diagonal((0..order).map(|i| a[(i, i)]))?;
    }
    let problem = Problem::Triangular { a: a.shape(), b: b.shape() };
    on_threads(run.threads, || {
        #[cfg(feature = "gpu")]
        if let Place::Gpu(on) = Place::of(T::KIND, run, problem)? {
            let result = gpu::kernels::triangular::triangular(&on.context, &on.tuning, &variant, alpha, a, b.rb_mut());
            // B is unchanged if the device failed, because it is written only at the end.
            if or_fall_back(run, false, result)?.is_ok() {
                return Ok(());
            }
        }
        #[cfg(not(feature = "gpu"))]
        let Place::Cpu(_) = Place::of(T::KIND, run, problem)?;
        let tuning = run.tuning_for_cpu(T::KIND, order)?;
        on_pool_for_product((order, order, cols), || cpu::triangular::triangular(&variant, alpha, a, b, tuning.triangle))
    })
}
