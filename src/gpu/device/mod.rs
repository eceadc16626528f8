//! The device: its adapter, its pipelines, and the data sent to it and back.

pub mod adapter;
pub(crate) mod buffers;
pub mod context;
pub(crate) mod cooperative;
pub(crate) mod parameters;
pub(crate) mod pipeline;
pub(crate) mod pipeline_cache;
pub(crate) mod pool;
pub(crate) mod stream;
mod template;
pub(crate) mod timer;
