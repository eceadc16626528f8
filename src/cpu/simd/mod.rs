//! SIMD registers, aligned memory, conversions between element types, and prefetching.

pub(crate) mod aligned;
pub(crate) mod convert;
pub(crate) mod lanes;
#[cfg(target_arch = "wasm32")]
pub(crate) mod par_columns;
pub(crate) mod prefetch;
