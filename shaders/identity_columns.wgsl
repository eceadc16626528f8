// Columns of the identity, for the columns of Q of a QR factorisation.
//
//   out[i, j] = phase_j if i = first + j, else 0;   phase_j = r_jj / |r_jj| (PHASES), so that Q diag(phase) has a factor R with a positive diagonal; else 1
//
//   r     the factored matrix: r_jj at j stride
//   out   rows x cols by rows, leading dimension ld
//
// Thread = entry of out. Workgroup z has matrix z of several: of r from index z matrix on, and of out one after the other.

import package::tuning::{LINEAR_THREADS};
import package::scalar::{Real, Scalar, ONE};

struct Params {
    first: u32,
    rows: u32,
    cols: u32,
    ld: u32,
    stride: u32,
    matrix: u32,
    flags: u32,
}

/// Flag: phases of R's diagonal.
const PHASES = 1u;

@group(0) @binding(0) var<storage, read_write> r: array<Scalar>;
@group(0) @binding(1) var<storage, read_write> out: array<Scalar>;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(2) var<uniform> params: Params;

/// x / |x|, or 1 for zero.
fn phase(x: Scalar) -> Scalar {
    @if(complex) {
        let largest = max(abs(x.x), abs(x.y));
        if largest == Real(0.0) {
            return ONE;
        }
        let part = x / largest;
        return part / sqrt(part.x * part.x + part.y * part.y);
    }
    @else return select(Real(1.0), Real(-1.0), x < Real(0.0));
}

@compute @workgroup_size(LINEAR_THREADS)
fn identity_columns(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let e = (workgroup.x + workgroup.y * workgroups.x) * LINEAR_THREADS + thread;
    let i = e / params.ld;
    let j = e % params.ld;
    if i >= params.rows {
        return;
    }
    var entry = Scalar();
    if j < params.cols && i == params.first + j {
        entry = ONE;
        if (params.flags & PHASES) != 0u {
            entry = phase(r[workgroup.z * params.matrix + j * params.stride]);
        }
    }
    out[workgroup.z * params.rows * params.ld + e] = entry;
}
