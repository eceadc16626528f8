// Copies the reflectors that geqrt has kept to the input of unmqr. Twin: gather_reflectors in src/cpu/qr/geqrt.rs.
//
//   package::dense   the matrix as stored, strides (rs, cs), with V of the level's blocks below their diagonals
//   v                V, unit lower trapezoidal, one row of TS for each stacked row of the level; conjugated if CONJUGATE; out
//   t                T if ADJOINT, else T^H, TS x TS row-major for each block; conjugated if CONJUGATE; out
//   kept_t           T of all levels, as geqrt has left it
//
// Those of several matrices lie one after the other; in kept_t, those of a level.
//
// unmqr applies the adjoint of I - V T V^H for the T in `t`. Thread = entry of v, or of t. workgroup.z is
// the matrix.

import package::tuning::{TS, LINEAR_THREADS};
import package::dense::{read_entry};
import package::level::{Level, ADJOINT, CONJUGATE, first_entry, is_below_triangle, matrix_row, place_of};
import package::scalar::{Scalar, ONE, conjugate, load};

@group(0) @binding(0) var<storage, read_write> v: array<Scalar>;
@group(0) @binding(1) var<storage, read_write> t: array<Scalar>;
@group(0) @binding(2) var<storage, read_write> kept_t: array<Scalar>;
@if(immediates) var<immediate> level: Level;
@else @group(0) @binding(3) var<uniform> level: Level;

/// V at stacked row g and column c.
fn entry_of_v(g: u32, c: u32) -> Scalar {
    let r = g % level.block_rows;
    let reflectors = min(min(level.block_rows, level.rows - (g - r)), level.width);
    if c >= reflectors || r < c || is_below_triangle(level, r, c) {
        return Scalar();
    }
    if r == c {
        return ONE;
    }
    return load(read_entry(place_of(level, matrix_row(level, g), level.col + c)));
}

@compute @workgroup_size(LINEAR_THREADS)
fn gather_reflectors(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let e = (workgroup.x + workgroup.y * workgroups.x) * LINEAR_THREADS + thread;
    let matrix = workgroup.z;
    first_entry = level.first + matrix * level.matrix;
    let of_v = level.rows * TS;
    let conjugated = (level.flags & CONJUGATE) != 0u;
    if e < of_v {
        let entry = entry_of_v(e / TS, e % TS);
        v[matrix * of_v + e] = select(entry, conjugate(entry), conjugated);
        return;
    }
    let place = e - of_v;
    let block = place / (TS * TS);
    if block >= level.blocks {
        return;
    }
    let i = place / TS % TS;
    let k = place % TS;
    let adjoint = (level.flags & ADJOINT) != 0u;
    let source = (level.t_first + matrix * level.blocks + block) * TS * TS + select(k * TS + i, i * TS + k, adjoint);
    let entry = kept_t[source];
    t[matrix * level.blocks * TS * TS + place] = select(entry, conjugate(entry), conjugated == adjoint);
}
