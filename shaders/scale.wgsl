// A matrix on the device, scaled into another of the same layout: stage 0 of one that need not be uploaded.
//
//   out[e] = factors[0] a[e],  0 <= e < len
//
//   a         len numbers, in
//   out       len numbers as stored, out
//   factors   one real number, which for complex a has the imaginary part zero
//
// Thread = entry.

import package::tuning::{LINEAR_THREADS};
import package::scalar::{Scalar, Stored, store, times};

struct Params {
    len: u32,
}

@group(0) @binding(0) var<storage, read_write> a: array<Scalar>;
@group(0) @binding(1) var<storage, read_write> out: array<Stored>;
@group(0) @binding(2) var<storage, read_write> factors: array<Scalar>;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(3) var<uniform> params: Params;

@compute @workgroup_size(LINEAR_THREADS)
fn scale(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let e = (workgroup.x + workgroup.y * workgroups.x) * LINEAR_THREADS + thread;
    if e < params.len {
        out[e] = store(times(factors[0], a[e]));
    }
}
