//! The tile kernels' traits, which both backends implement, and their index arithmetic: the entries that each kernel touches, the order of
//! its operations, and its flops.
//!
//! A shader and its CPU twin are two implementations of this index arithmetic.

pub mod band;
pub mod band_layout;
pub mod chase_schedule;
pub mod deferred;
pub(crate) mod fixed;
pub(crate) mod flops;
pub mod kernels;
pub mod one_stage;
pub mod panel_tree;
pub(crate) mod products;
pub mod tuning;
