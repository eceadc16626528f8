// A packed upper band, as unpack_band leaves it, to band storage.
//
//   B(i, j) = packed[j (bandwidth + 1) + bandwidth + i - j] for j - bandwidth <= i <= j, else 0, for all columns x ld elements of the band
//
//   packed   Scalars, n columns of bandwidth + 1, in
//   band     B in band storage, entries as stored, out
//
// Thread = element of the band.

import package::tuning::{LINEAR_THREADS};
import package::band::{is_of_band};
import package::scalar::{Scalar, Stored, store};

struct Params {
    n: u32,
    columns: u32,
    ld: u32,
    ku: u32,
    bandwidth: u32,
}

@group(0) @binding(0) var<storage, read_write> packed: array<Scalar>;
@group(0) @binding(1) var<storage, read_write> band: array<Stored>;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(LINEAR_THREADS)
fn repack_band(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let place = (workgroup.x + workgroup.y * workgroups.x) * LINEAR_THREADS + thread;
    let j = place / params.ld;
    if j >= params.columns {
        return;
    }
    let p = place % params.ld;
    var entry = Stored();
    if j < params.n && is_of_band(p, j, params.ku, params.bandwidth) {
        entry = store(packed[j * (params.bandwidth + 1u) + params.bandwidth + p - params.ku]);
    }
    band[place] = entry;
}
