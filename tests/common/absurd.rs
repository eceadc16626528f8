//! Numbers that nobody can mean, and the hyperparameters that are given them.

use svdvals_gpu::Tuning;

/// 2^20 + 7 is a prime.
pub const NUMBERS: [usize; 7] = [0, 1, 7, 1 << 20, (1 << 20) + 7, 1 << 40, usize::MAX];

pub type Set = fn(Tuning, usize) -> Tuning;

/// Every numeric hyperparameter of the CPU, and of the GPU.
pub const OF_CPU: [(&str, Set); 6] = [
    ("tile_size", Tuning::tile_size),
    ("leaf", Tuning::leaf),
    ("cols_per_block", Tuning::cols_per_block),
    ("tile_width", Tuning::tile_width),
    ("triangle", Tuning::triangle),
    ("direct_up_to", Tuning::direct_up_to),
];
pub const OF_GPU: [(&str, Set); 15] = [
    ("split_k", Tuning::split_k),
    ("threads_per_block", Tuning::threads_per_block),
    ("sweeps_per_block", Tuning::sweeps_per_block),
    ("lines_per_thread", Tuning::lines_per_thread),
    ("subgroup_threads", Tuning::subgroup_threads),
    ("cycles_per_dispatch", Tuning::cycles_per_dispatch),
    ("max_blocks", Tuning::max_blocks),
    ("tiles_held", Tuning::tiles_held),
    ("split_beside", Tuning::split_beside),
    ("rows_per_block", Tuning::rows_per_block),
    ("strips_per_thread", Tuning::strips_per_thread),
    ("deferred_columns", Tuning::deferred_columns),
    ("deferred_from", Tuning::deferred_from),
    ("deferred_beside", Tuning::deferred_beside),
    ("formed_beside", Tuning::formed_beside),
];
