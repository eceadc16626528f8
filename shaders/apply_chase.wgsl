// Application of the reflectors that chase has kept in one reduction step to any matrix. Twin: src/cpu/chase/apply.rs.
//
//   C <- op(H_0 H_1 ..) C, for the left reflectors, or the right ones (RIGHT), of sweeps first .. first + count, in the order of the sweeps
//   op: the product, its adjoint (ADJOINT), and with conjugates of the reflectors (CONJUGATE). Reflectors of one sweep are disjoint.
//
//   kept             n x n, as chase leaves it
//   package::dense   C as stored, n x cols, strides (rs, cs), in and out
//
// Thread = column of C.

import package::tuning::{LINEAR_THREADS};
import package::dense::{read_entry, write_entry};
import package::level::{Level, Place, ADJOINT, CONJUGATE, place_of};
import package::scalar::{Scalar, conjugate, load, multiply_add, real_part, store};

struct Params {
    n: u32,
    bandwidth: u32,
    tile_width: u32,
    /// First sweep, and number of sweeps.
    first: u32,
    count: u32,
    /// Columns of C.
    cols: u32,
    rs: u32,
    cs: u32,
    lines: u32,
    flags: u32,
}

const RIGHT = 16u;

@group(0) @binding(0) var<storage, read_write> kept: array<Scalar>;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(1) var<uniform> params: Params;

/// The place of C[i, j].
fn place(i: u32, j: u32) -> Place {
    var level = Level();
    level.rs = params.rs;
    level.cs = params.cs;
    level.lines = params.lines;
    return place_of(level, i, j);
}

/// Applies the reflector on rows c0 ..= c1 to column j. It is kept from index `start` on, with stride `stride`.
fn apply(j: u32, c0: u32, c1: u32, start: u32, stride: u32) {
    let tau = real_part(kept[start]);
    let conjugated = (params.flags & CONJUGATE) != 0u;
    var dot = load(read_entry(place(c0, j)));
    for (var k = 1u; k <= c1 - c0; k++) {
        let v = kept[start + k * stride];
        dot = multiply_add(select(conjugate(v), v, conjugated), load(read_entry(place(c0 + k, j))), dot);
    }
    let w = -tau * dot;
    let top = place(c0, j);
    write_entry(top, store(load(read_entry(top)) + w));
    for (var k = 1u; k <= c1 - c0; k++) {
        let v = kept[start + k * stride];
        let at = place(c0 + k, j);
        write_entry(at, store(multiply_add(w, select(v, conjugate(v), conjugated), load(read_entry(at)))));
    }
}

@compute @workgroup_size(LINEAR_THREADS)
fn apply_chase(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let j = (workgroup.x + workgroup.y * workgroups.x) * LINEAR_THREADS + thread;
    if j >= params.cols {
        return;
    }
    let left_over = params.bandwidth - params.tile_width;
    let right = (params.flags & RIGHT) != 0u;
    for (var k = 0u; k < params.count; k++) {
        let sweep = params.first + select(params.count - 1u - k, k, (params.flags & ADJOINT) != 0u);
        for (var c0 = sweep + left_over; c0 < params.n; c0 += params.bandwidth) {
            let c1 = min(c0 + params.tile_width, params.n - 1u);
            if right {
                apply(j, c0, c1, sweep + c0 * params.n, params.n);
            } else {
                apply(j, c0, c1, c0 + sweep * params.n, 1u);
            }
        }
    }
}
