//! The kernels of stage 1.

pub(crate) mod body;
pub(crate) mod geqrt;
pub(crate) mod pack_band;
pub(crate) mod panel;
pub(crate) mod reflect;
pub(crate) mod strips;
pub(crate) mod unmqr;
