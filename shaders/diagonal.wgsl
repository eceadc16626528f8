// The diagonal of a matrix, for reading back to the host.
//
//   d_i = a[i stride], 0 <= i < n
//
//   a   the matrix as stored; stride is the sum of its two strides
//   d   n entries, out
//
// Thread = entry.

import package::tuning::{LINEAR_THREADS};
import package::scalar::{Scalar, Stored, load};

struct Params {
    n: u32,
    stride: u32,
}

@group(0) @binding(0) var<storage, read_write> a: array<Stored>;
@group(0) @binding(1) var<storage, read_write> d: array<Scalar>;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(LINEAR_THREADS)
fn diagonal(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = (workgroup.x + workgroup.y * workgroups.x) * LINEAR_THREADS + thread;
    if i < params.n {
        d[i] = load(a[i * params.stride]);
    }
}
