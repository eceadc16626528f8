// The right vectors of a bidiagonal with phases, from those of its moduli: some columns of X, in order, and rows times phases.
//
//   out[i, j] = phases[i] x[order[j] ld + i],  i < n, j < cols
//
//   x        by columns, leading dimension ld
//   phases   n numbers of modulus 1
//   order    columns of x, of all matrices
//   out      by rows from index `first` on, leading dimension out_ld; zeros from column cols on
//
// Thread = entry of out. Workgroup z has matrix z: n columns of x, n phases, cols of the order, and the entries of out from first + z matrix on.

import package::tuning::{LINEAR_THREADS};
import package::scalar::{Real, Scalar};

struct Params {
    n: u32,
    cols: u32,
    ld: u32,
    out_ld: u32,
    first: u32,
    matrix: u32,
}

@group(0) @binding(0) var<storage, read_write> x: array<Real>;
@group(0) @binding(1) var<storage, read_write> phases: array<Scalar>;
@group(0) @binding(2) var<storage, read_write> order: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<Scalar>;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(4) var<uniform> params: Params;

@compute @workgroup_size(LINEAR_THREADS)
fn take_columns(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let e = (workgroup.x + workgroup.y * workgroups.x) * LINEAR_THREADS + thread;
    let i = e / params.out_ld;
    let j = e % params.out_ld;
    if i >= params.n {
        return;
    }
    var entry = Scalar();
    if j < params.cols {
        entry = phases[workgroup.z * params.n + i] * x[order[workgroup.z * params.cols + j] * params.ld + i];
    }
    out[params.first + workgroup.z * params.matrix + e] = entry;
}
