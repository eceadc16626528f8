//! The lowest layer: element types, errors, matrix views, progress and cancellation, and thread pools.

pub(crate) mod awake;
pub mod blas;
pub mod clock;
pub mod element_kind;
pub mod error;
pub(crate) mod first_of;
pub mod number;
pub mod operator;
pub(crate) mod parallel;
pub(crate) mod pool;
pub(crate) mod registers;
pub(crate) mod scale;
pub(crate) mod spinning;
pub mod stage;
pub(crate) mod view;
pub mod watch;
pub(crate) mod zeros;
