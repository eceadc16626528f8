//! Triangular multiply and solve with matrices that are on a device.

use pollster::block_on;

use crate::{
    algo::triangular::{Call, alpha_is_zero, check_diagonal},
    base::{
        error::{Result, SvdError},
        number::Scalar,
    },
    gpu::{
        device::stream::Stream,
        kernels::triangular::{check, on_device},
        matrix::DeviceMatrix,
        storage::Lines,
    },
    plan::options::RunOptions,
};

/// Multiplies or solves in place of B.
pub(crate) fn operate<T: Scalar>(call: Call<T>, a: &DeviceMatrix, b: &DeviceMatrix, run: &RunOptions) -> Result<()> {
    let Call { variant, alpha } = call;
    variant.check_shapes(a.size, b.size)?;
    if !a.context.is_same(&b.context) {
        return Err(SvdError::invalid("a", "it is on another device than B"));
    }
    let tuning = run.tuning_for_adapter(T::KIND, &b.context, a.size.0)?;
    check(T::KIND, &b.context, &tuning)?;
    if b.size.0 == 0 || b.size.1 == 0 {
        return Ok(());
    }
    let stream = Stream::new(&b.context)?;
    if alpha_is_zero(alpha) {
        let Lines { inner, outer, ld, .. } = b.lines();
        let bytes = |len: usize| (len * size_of::<T>()) as u64;
        stream.clear(&b.entries, (0..outer).map(|line| bytes(line * ld)..bytes(line * ld + inner)))?;
        return block_on(stream.finish());
    }
    if variant.divides() {
        check_diagonal(a.diagonal::<T>(&stream)?)?;
    }
    on_device(&b.context, &stream, &tuning, &variant, alpha.to_complex(), a, b)?;
    block_on(stream.finish())
}
