//! The tests of the CPU backend and of what is common to both backends, as one program: the library's generic code is compiled and linked
//! once. Programs of their own are tests/gpu, whose harness makes a test of each kind of device, tests/coop.rs, which `tests/run coop` runs
//! with another driver, and tests/front_ends.rs, which is built with other features and other versions of ndarray.
//!
//! Tests share the process, its rayon pool and its environment. One that needs them for itself starts a process: [`own_process`].

#[path = "../common/absurd.rs"]
mod absurd_numbers;
#[path = "../common/lstsq.rs"]
#[allow(dead_code)] // without `ndarray`
mod check_lstsq;
#[path = "../common/qr.rs"]
mod check_qr;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/reflectors.rs"]
mod kept;
#[path = "../common/krylov.rs"]
mod krylov_triples;
#[path = "../common/options.rs"]
mod options_of_calls;
#[allow(dead_code)] // without `ndarray` or `gpu`
mod own_process;
#[path = "../common/vectors.rs"]
mod vectors;

mod absurd;
mod absurd_options;
mod accuracy;
#[cfg(feature = "ndarray")]
mod batch;
mod chase_steps;
mod errors;
mod half_types;
mod invariances;
mod krylov;
#[cfg(feature = "lapack-openblas")]
mod lapack;
mod leading;
#[cfg(feature = "ndarray")]
mod lstsq;
mod one_stage;
mod options;
#[cfg(feature = "ndarray")]
mod pool;
mod products;
mod progress;
#[cfg(feature = "ndarray")]
mod properties;
mod qr;
#[cfg(feature = "ndarray")]
mod row_blocks;
mod row_sketch;
mod shapes;
mod stages;
mod svd;
mod tall;
#[cfg(feature = "ndarray")]
mod triangular;
#[cfg(feature = "gpu")]
mod tuning_table;
