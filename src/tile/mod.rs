//! Tiles: which entries each kernel touches, in which order, at what cost, and the traits that both backends implement.
//!
//! Everything here is index arithmetic. A shader and its CPU twin are two translations of it.

pub mod band;
pub mod band_layout;
pub mod chase_schedule;
pub(crate) mod flops;
pub mod kernels;
pub mod panel_tree;
pub mod tuning;
