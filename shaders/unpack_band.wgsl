// Upper band out of band storage, packed for reading back. Twin: download_band and bidiagonal in src/cpu/kernels.rs.
//
//   out[j (bandwidth + 1) + p] = B(j + p - bandwidth, j),  0 <= p <= bandwidth;  0 above row 0
//
//   band   B in band storage, entries as stored, in; those of several matrices one after the other
//   out    Scalars, n columns of bandwidth + 1, of each matrix
//
// Thread = element of `out`. workgroup.z is the matrix.

import package::tuning::{LINEAR_THREADS};
import package::scalar::{Scalar, Stored, load};
import package::band::{Layout, band_index};

struct Params {
    n: u32,
    columns: u32,
    ld: u32,
    ku: u32,
    bandwidth: u32,
}

@group(0) @binding(0) var<storage, read_write> band: array<Stored>;
@group(0) @binding(1) var<storage, read_write> out: array<Scalar>;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(LINEAR_THREADS)
fn unpack_band(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let place = (workgroup.x + workgroup.y * workgroups.x) * LINEAR_THREADS + thread;
    let j = place / (params.bandwidth + 1u);
    if j >= params.n {
        return;
    }
    let p = place % (params.bandwidth + 1u);
    var entry = Scalar();
    if j + p >= params.bandwidth && p + params.ku >= params.bandwidth {
        let first = workgroup.z * params.columns * params.ld;
        entry = load(band[first + band_index(Layout(params.n, params.ld, params.ku), j + p - params.bandwidth, j)]);
    }
    out[workgroup.z * params.n * (params.bandwidth + 1u) + place] = entry;
}
