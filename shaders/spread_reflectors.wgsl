// Stage 1's block reflector I - V T V^H, to be applied to a matrix C with deferred updates: what gather_reflectors has left, as multiply_panel and
// subtract_deferred take it.
//
//   package::dense   the matrix [C, L; R, G] as stored, strides (rs, cs): V from row 0 and column `to` on, with zeros above row `row`, out
//   v, t             V, and T or T^H, TS entries a row, in
//   x                the conjugate of V t, TS entries a row, out
//
// Thread = (four columns, row of C).

import package::tuning::{TS, TS4, LINEAR_THREADS};
import package::dense::{write_entry};
import package::level::{place_at};
import package::scalar::{Scalar, conjugate, multiply_add, store};

struct Params {
    rs: u32,
    cs: u32,
    lines: u32,
    /// The first row of V, and its rows.
    row: u32,
    rows: u32,
    to: u32,
}

@group(0) @binding(0) var<storage, read> v: array<Scalar>;
@group(0) @binding(1) var<storage, read> t: array<Scalar>;
@group(0) @binding(2) var<storage, read_write> x: array<Scalar>;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(3) var<uniform> params: Params;

@compute @workgroup_size(LINEAR_THREADS)
fn spread_reflectors(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let e = (workgroup.x + workgroup.y * workgroups.x) * LINEAR_THREADS + thread;
    let i = e / TS4;
    if i >= params.row + params.rows {
        return;
    }
    let ld = max(params.rs, params.cs);
    for (var c = 4u * (e % TS4); c < 4u * (e % TS4) + 4u; c++) {
        var entry = Scalar();
        if i >= params.row {
            let row = (i - params.row) * TS;
            entry = v[row + c];
            var sum = Scalar();
            for (var k = 0u; k < TS; k++) { sum = multiply_add(v[row + k], t[k * TS + c], sum); }
            x[row + c] = conjugate(sum);
        }
        write_entry(place_at(i * params.rs + (params.to + c) * params.cs, params.lines, ld), store(entry));
    }
}
