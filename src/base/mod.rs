//! The ground floor: numbers, errors, views of a matrix, who watches a call, and the threads that it runs on.

pub mod blas;
pub mod clock;
pub mod error;
pub(crate) mod first_of;
pub mod number;
pub(crate) mod pool;
pub(crate) mod scale;
pub(crate) mod view;
pub mod watch;
