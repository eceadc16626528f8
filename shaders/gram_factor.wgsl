// The factor of a first-order Gram-Schmidt step. Twin: orthonormalise in src/cpu/vectors/left.rs.
//
//   G = W^H W,  l_j^2 = g_jj:   f_ij = -g_ij / (l_i^2 l_j) for i < j,  f_jj = 1 / l_j,  zeros below;   the step is W <- W F
//
//   g, f   k x k by columns, leading dimension ld; of g the upper triangle is read; f out
//
// Thread = entry of f. Workgroup z has matrix z of several, one after the other.

import package::tuning::{LINEAR_THREADS};
import package::scalar::{Real, Scalar, ONE, real_part};

struct Params {
    k: u32,
    ld: u32,
}

@group(0) @binding(0) var<storage, read_write> g: array<Scalar>;
@group(0) @binding(1) var<storage, read_write> f: array<Scalar>;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(LINEAR_THREADS)
fn gram_factor(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let e = (workgroup.x + workgroup.y * workgroups.x) * LINEAR_THREADS + thread;
    let j = e / params.ld;
    let i = e % params.ld;
    if j >= params.k {
        return;
    }
    let first = workgroup.z * params.k * params.ld;
    var entry = Scalar();
    if i <= j {
        let length = sqrt(real_part(g[first + j * params.ld + j]));
        if i == j {
            entry = (Real(1.0) / length) * ONE;
        } else {
            entry = (Real(-1.0) / (real_part(g[first + i * params.ld + i]) * length)) * g[first + e];
        }
    }
    f[first + e] = entry;
}
