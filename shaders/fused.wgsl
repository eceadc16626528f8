// Whether the device's fma rounds once: the rounding errors of products, which the host compares with its own. Twin: src/gpu/kernels/fused.rs.
//
//   errors[k] = a_k b_k - (a_k b_k, rounded),  0 <= k < count, with numbers that depend on k
//
//   errors   count real numbers, out
//
// Thread = product.

import package::tuning::{LINEAR_THREADS};
import package::pair::{zero};
import package::scalar::{Real};

struct Params {
    count: u32,
}

@group(0) @binding(0) var<storage, read_write> errors: array<Real>;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(1) var<uniform> params: Params;

/// A number of 24 random bits between 2^-6 and 2^7.
fn number(k: u32) -> f32 {
    let hash = ((k * 0x9E3779B1u) ^ ((k * 0x85EBCA77u) >> 15u)) * 0xC2B2AE3Du;
    return bitcast<f32>(((121u + hash % 13u) << 23u) | (hash >> 9u));
}

@compute @workgroup_size(LINEAR_THREADS)
fn fused(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    zero = params.count >> 31u;
    let k = (workgroup.x + workgroup.y * workgroups.x) * LINEAR_THREADS + thread;
    if k < params.count {
        let a = number(2u * k);
        let b = number(2u * k + 1u);
        errors[k] = Real(fma(a, b, -bitcast<f32>(bitcast<u32>(a * b) ^ zero)));
    }
}
