// Copies a window of a matrix.
//
//   to[t + i t_rs + j t_cs] = from[f + i f_rs + j f_cs], or its conjugate (CONJUGATED),  i < rows, j < cols
//
// Thread = entry; neighbouring threads have neighbours in the order of `to`. Workgroup z has matrix z of several: f + z f_matrix and t + z t_matrix.

import package::tuning::{LINEAR_THREADS};
import package::scalar::{Stored, conjugate, load, store};

struct Params {
    rows: u32,
    cols: u32,
    f: u32,
    f_rs: u32,
    f_cs: u32,
    f_matrix: u32,
    t: u32,
    t_rs: u32,
    t_cs: u32,
    t_matrix: u32,
    flags: u32,
}

/// Flag: conjugates.
const CONJUGATED = 1u;

@group(0) @binding(0) var<storage, read_write> source: array<Stored>;
@group(0) @binding(1) var<storage, read_write> out: array<Stored>;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(LINEAR_THREADS)
fn copy_window(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let e = (workgroup.x + workgroup.y * workgroups.x) * LINEAR_THREADS + thread;
    let by_rows = params.t_cs == 1u;
    let inner = select(params.rows, params.cols, by_rows);
    let i = select(e % inner, e / inner, by_rows);
    let j = select(e / inner, e % inner, by_rows);
    if i >= params.rows || j >= params.cols {
        return;
    }
    let entry = source[params.f + workgroup.z * params.f_matrix + i * params.f_rs + j * params.f_cs];
    // Without the flag bit by bit.
    out[params.t + workgroup.z * params.t_matrix + i * params.t_rs + j * params.t_cs] =
        select(entry, store(conjugate(load(entry))), (params.flags & CONJUGATED) != 0u);
}
