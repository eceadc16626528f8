//! The decomposition with vectors, whose right vectors a GPU computes: what common/vectors.rs asks of every backend.

use svdvals_gpu::{Backend, GpuContext, SvdGpu, SvdOptions, Vectors};

use crate::{
    Body, Elements, Outcome, check,
    vectors::{check, matrix},
};

pub fn trials<T: Elements>() -> Vec<(&'static str, Body)> {
    vec![("ratios", ratios::<T>), ("options", options::<T>)]
}

fn on(context: &GpuContext) -> SvdOptions {
    SvdOptions::default().context(context.clone()).backend(Backend::Gpu)
}

/// The three ratios of DESIGN 6 are at most 1: square, tall (first by QR), wide; hard spectra; and the values are those of the same device without
/// vectors.
fn ratios<T: Elements>(context: &GpuContext) -> Outcome {
    for (kind, m, n) in [
        ("random", 1, 1),
        ("random", 70, 70),
        ("random", 50, 41),
        ("two clusters", 150, 40),
        ("graded", 40, 64),
        ("rank third", 65, 64),
        ("zero", 20, 30),
    ] {
        check(&format!("{kind} {m} x {n}"), matrix::<T>(kind, m, n).as_ref(), &on(context))?;
    }
    Ok(())
}

/// A part of the vectors, and unitary matrices; and a future gives what a call that blocks does.
fn options<T: Elements>(context: &GpuContext) -> Outcome {
    let a = matrix::<T>("random", 60, 45);
    let (now, later) = (a.svd_gpu_with(&on(context))?, pollster::block_on(a.svd_gpu_async(&on(context)))?);
    check!(now.u == later.u && now.s == later.s && now.v == later.v, "awaited");
    for options in [
        on(context).keep(5),
        on(context).tolerance(0.3).vectors(Vectors::Left),
        on(context).vectors(Vectors::Right),
        on(context).vectors(Vectors::Full),
    ] {
        check(&format!("{}, keep {:?}", options.vectors, options.keep), a.as_ref(), &options)?;
    }
    Ok(())
}
