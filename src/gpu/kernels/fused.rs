//! `fused`: whether the device's `fma` rounds once, as hardware does and WGSL does not promise. Then a product's rounding error takes one operation
//! (`shared/pair.wgsl`), and has the same bits.

use crate::{
    base::{element_kind::ElementKind, error::Result},
    cost::work::{Kernel, LINEAR_THREADS, Work},
    gpu::device::{
        buffers::storage,
        context::{GpuContext, Waits},
        parameters,
        pipeline::FUSED,
        stream::Stream,
    },
};

/// Products that are compared.
const COUNT: u32 = 4096;

/// A number of 24 random bits between 2^-6 and 2^7.
fn number(k: u32) -> f32 {
    let hash = (k.wrapping_mul(0x9E37_79B1) ^ (k.wrapping_mul(0x85EB_CA77) >> 15)).wrapping_mul(0xC2B2_AE3D);
    f32::from_bits(((121 + hash % 13) << 23) | (hash >> 9))
}

/// The rounding error of product k, which is a number of f32.
fn error(k: u32) -> f32 {
    let product = f64::from(number(2 * k)) * f64::from(number(2 * k + 1));
    (product - f64::from(product as f32)) as f32
}

/// Lets the context know whether its `fma` rounds once, if it does not know yet. A browser's thread cannot wait for the answer: there it is no.
pub(super) fn probe(context: &GpuContext) {
    if context.knows_fused() || context.may_wait(Waits::Blocking).is_err() {
        return;
    }
    // A failure of the device occurs again in the call that asked.
    match errors(context) {
        Ok(found) => context.set_fused((0..COUNT).zip(found).all(|(k, found)| found == error(k))),
        Err(failure) => log::debug!("svdvals-gpu does not know whether fma rounds once: {failure}"),
    }
}

fn errors(context: &GpuContext) -> Result<Vec<f32>> {
    let stream = Stream::new(context)?;
    let errors = storage(context, "rounding errors", u64::from(COUNT) * size_of::<f32>() as u64)?;
    let pipeline = context.pipeline(ElementKind::F32, &FUSED, &[], 0)?;
    let bindings = stream.bind(&pipeline, &[&errors], &[])?;
    let [x, y] = stream.fold(COUNT.div_ceil(LINEAR_THREADS) as usize)?;
    stream.dispatch(&pipeline, &bindings, parameters::Fused { count: COUNT }, [x, y, 1], Work::other(Kernel::Fused, 0))?;
    stream.read_back_now(&errors, COUNT as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nearly all products have a rounding error, of either sign, so that an `fma` that rounds twice, whose errors are zero, is noticed.
    #[test]
    fn products_have_errors() {
        let errors: Vec<f32> = (0..COUNT).map(error).collect();
        assert!(errors.iter().filter(|&&x| x != 0.0).count() > 4000);
        assert!(errors.iter().any(|&x| x > 0.0) && errors.iter().any(|&x| x < 0.0));
        assert!((0..COUNT).all(|k| number(2 * k).mul_add(number(2 * k + 1), -(number(2 * k) * number(2 * k + 1))) == error(k)));
    }
}
