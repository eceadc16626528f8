// Stage 1 with deferred updates: a level of a panel's tree, beside a part of the update by earlier panels. See src/algo/deferred.rs.
//
// The first workgroups of the dispatch factor the level's blocks: shared/factor_block.wgsl, which also says what the bindings hold. The others have a
// chunk each of a window of the matrix outside the panel: shared/window.wgsl.

import package::tuning::{CPB, GEQRT_THREADS};
import package::scalar::{Scalar};
import package::level::{Level};
import package::factor_block::{factor_block};
import package::product::{RPB};
import package::window::{Window, window, subtract_in_chunk};

struct Params {
    /// The level of one matrix: shared/level.wgsl.
    rs: u32,
    cs: u32,
    lines: u32,
    cols: u32,
    col: u32,
    width: u32,
    start: u32,
    group: u32,
    spacing: u32,
    rows: u32,
    block_rows: u32,
    blocks: u32,
    t_first: u32,
    flags: u32,
    /// The window, with the same strides.
    c_row: u32,
    c_col: u32,
    c_rows: u32,
    c_cols: u32,
    of_l: u32,
    of_r: u32,
    inner: u32,
}

@group(0) @binding(0) var<storage, read_write> new_v: array<Scalar>;
@group(0) @binding(1) var<storage, read_write> new_t: array<Scalar>;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(2) var<uniform> params: Params;

/// The level of the panel.
fn level_of_panel() -> Level {
    var level = Level();
    level.rs = params.rs;
    level.cs = params.cs;
    level.lines = params.lines;
    level.cols = params.cols;
    level.col = params.col;
    level.width = params.width;
    level.start = params.start;
    level.group = params.group;
    level.spacing = params.spacing;
    level.rows = params.rows;
    level.block_rows = params.block_rows;
    level.blocks = params.blocks;
    level.t_first = params.t_first;
    level.flags = params.flags;
    return level;
}

@compute @workgroup_size(GEQRT_THREADS)
fn geqrt_and_subtract(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let index = workgroup.x + workgroup.y * workgroups.x;
    if index < params.blocks {
        factor_block(level_of_panel(), thread, index, 0u);
    } else {
        let chunks = (params.c_cols + CPB - 1u) / CPB;
        let chunk = index - params.blocks;
        window = Window(
            params.rs, params.cs, params.lines, params.c_row, params.c_col, params.c_rows, params.c_cols, params.of_l, params.of_r, params.inner
        );
        let row = chunk / chunks * RPB;
        if row < params.c_rows { subtract_in_chunk(thread, row, chunk % chunks * CPB, params.inner); }
    }
}
