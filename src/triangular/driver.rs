//! From a caller's A and B to the recursion: what is refused, and where it runs.

use faer::{MatMut, MatRef};

use super::{
    Side,
    recursion::{Operation, Variant},
};
use crate::{
    choose::{Choice, choose, context_of, fallback},
    cpu,
    error::{Result, SvdError},
    gpu::{self, GpuContext},
    options::{Backend, SvdOptions, Tuning},
    scalar::Element,
};

/// What is asked for, but for the matrices.
#[derive(Clone, Copy, Debug)]
pub struct Call<T> {
    pub(crate) variant: Variant,
    pub(crate) alpha: T,
}

/// Flops from which the way to a GPU and back, about n^2 / 2 + 2 n k entries, is short beside what the CPU needs: its time for them is
/// then tens of milliseconds.
const GPU_WORTHWHILE: f64 = 2e9;

/// Whether alpha is zero, of either sign.
pub(crate) fn alpha_is_zero<T: Element>(alpha: T) -> bool {
    alpha == T::zeroed()
}

impl Variant {
    /// Whether A's shape is that of a triangle for a B of this shape.
    pub(crate) fn check_shapes(&self, a: (usize, usize), b: (usize, usize)) -> Result<()> {
        let order = match self.side {
            Side::Left => b.0,
            Side::Right => b.1,
        };
        if a == (order, order) {
            return Ok(());
        }
        let (operation, side) = match (self.operation, self.side) {
            (Operation::Multiply, Side::Left) => ("trmm", "left"),
            (Operation::Multiply, Side::Right) => ("trmm", "right"),
            (Operation::Solve, Side::Left) => ("trsm", "left"),
            (Operation::Solve, Side::Right) => ("trsm", "right"),
        };
        Err(SvdError::Shapes { operation, side, a, b })
    }
}

/// The first entry of a diagonal that cannot be divided by, as an error.
pub(crate) fn check_diagonal<T: Element>(diagonal: impl IntoIterator<Item = T>) -> Result<()> {
    let unfit = |x: T| x.magnitude().is_none() || x == T::zeroed();
    match diagonal.into_iter().enumerate().find(|&(_, x)| unfit(x)) {
        None => Ok(()),
        Some((index, x)) => Err(SvdError::Singular { index, value: x.to_string() }),
    }
}

/// The operation on matrices in the caller's memory.
pub(crate) fn on_host<T: Element>(call: Call<T>, a: MatRef<'_, T>, mut b: MatMut<'_, T>, options: &SvdOptions) -> Result<()> {
    let Call { variant, alpha } = call;
    variant.check_shapes(a.shape(), b.shape())?;
    if let Some(tuning) = &options.tuning {
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
    let flops = order as f64 * order as f64 * cols as f64;
    let gain = || {
        (flops < GPU_WORTHWHILE)
            .then(|| format!("{flops:.1e} flops gain nothing on a GPU (from {GPU_WORTHWHILE:.0e} on they do)").into())
    };
    let shape = b.shape();
    let fits = |context: &GpuContext, tuning: &Tuning| gpu::required_triangular_bytes::<T>(context, a.shape(), shape, tuning);
    options.on_threads(|| {
        let on_cpu = |b: MatMut<'_, T>| {
            let tuning = options.tuning_for_cpu::<T::Scalar>(order)?;
            cpu::triangular(&variant, alpha, a, b, tuning.triangle)
        };
        match choose::<T, T::Scalar>(options, || context_of(options), order, gain, fits)? {
            Choice::Cpu(_) => on_cpu(b),
            Choice::Gpu { context, tuning, .. } => match gpu::triangular(&context, &tuning, &variant, alpha, a, b.as_mut()) {
                Err(error) if options.backend == Backend::Auto && error.is_of_device() => {
                    // B is as it was: it is written when all has gone well.
                    fallback(&format!("the GPU failed: {error}"));
                    on_cpu(b)
                }
                result => result,
            },
        }
    })
}
