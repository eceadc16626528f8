//! The lowest layer: element types, errors, matrix views, progress and cancellation, and thread pools.

pub mod blas;
pub mod clock;
pub mod error;
pub(crate) mod first_of;
pub mod number;
#[cfg(target_arch = "wasm32")]
pub(crate) mod par_columns;
pub(crate) mod pool;
pub(crate) mod scale;
pub(crate) mod view;
pub mod watch;
