// Stage 1 with deferred updates: the sums of the parts of multiply_panel. See src/algo/deferred.rs.
//
//   A[row + j, col + l] <- sum over k of parts[k][l, j]     for l < cols, j < stride
//
//   package::dense   the matrix [A, L; R, G] as stored, strides (rs, cs), or its transpose: the rows of R that the panel appends, and those of G beside
//                    them, out
//   parts            cols x stride entries each, by rows, in
//
// Thread = (l, j).

import package::tuning::{LINEAR_THREADS};
import package::dense::{write_entry};
import package::level::{place_at};
import package::scalar::{Scalar, store};

struct Params {
    rs: u32,
    cs: u32,
    lines: u32,
    row: u32,
    col: u32,
    cols: u32,
    stride: u32,
    parts: u32,
}

@group(0) @binding(0) var<storage, read> parts: array<Scalar>;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(1) var<uniform> params: Params;

@compute @workgroup_size(LINEAR_THREADS)
fn add_parts(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let e = (workgroup.x + workgroup.y * workgroups.x) * LINEAR_THREADS + thread;
    let count = params.cols * params.stride;
    if e >= count {
        return;
    }
    var sum = Scalar();
    for (var k = 0u; k < params.parts; k++) {
        sum += parts[k * count + e];
    }
    let at = (params.row + e % params.stride) * params.rs + (params.col + e / params.stride) * params.cs;
    write_entry(place_at(at, params.lines, max(params.rs, params.cs)), store(sum));
}
