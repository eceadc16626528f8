//! SIMD registers, aligned memory, conversions between element types, and prefetching.

pub(crate) mod aligned;
pub(crate) mod convert;
pub(crate) mod lanes;
pub(crate) mod prefetch;
