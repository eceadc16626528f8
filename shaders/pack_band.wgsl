// Dense to band storage. Twin: src/cpu/qr/pack_band.rs.
//
//   B(i, j) = A(i, j) for j - bandwidth <= i <= j, else 0, for all columns x ld elements of the band
//
//   package::dense   the matrix as stored, strides (rs, cs), of which the leading n x n part is read; several lie `matrix` entries apart
//   band             B in band storage, entries as stored, out; those of several matrices one after the other
//
// Thread = element of the band. workgroup.z is the matrix.

import package::tuning::{LINEAR_THREADS};
import package::band::{is_of_band};
import package::dense::{read_entry};
import package::level::{Level, first_entry, place_of};
import package::scalar::{Stored};

struct Params {
    n: u32,
    columns: u32,
    ld: u32,
    ku: u32,
    bandwidth: u32,
    rs: u32,
    cs: u32,
    lines: u32,
    matrix: u32,
}

@group(0) @binding(0) var<storage, read_write> band: array<Stored>;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(1) var<uniform> params: Params;

@compute @workgroup_size(LINEAR_THREADS)
fn pack_band(
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
        var level = Level();
        level.rs = params.rs;
        level.cs = params.cs;
        level.lines = params.lines;
        first_entry = workgroup.z * params.matrix;
        entry = read_entry(place_of(level, j + p - params.ku, j));
    }
    band[workgroup.z * params.columns * params.ld + place] = entry;
}
