// One-stage reduction: the update of the trailing matrix by a panel, one product of rank 2 b. Twin: src/cpu/one_stage.
//
//   C <- C - P R^T      C rows x cols,  P rows x inner,  R cols x inner
//
//   package::dense   the matrix as stored, strides (rs, cs): C in and out, from row `row` and column `col` on
//   panels           P and R in, as shared/panels.wgsl has them
//
// Workgroup = (chunk of CPB columns, chunk of TS rows) of C. TS columns of P and R at a time are staged in workgroup memory, as
// in gemm. Each of TS/4 x CPB/8 threads owns a 4 x 8 piece of C.

import package::tuning::{TS, TS4, CPB, CPB4, CPB8, PAIRS, GEMM_THREADS};
import package::dense::{read_entry, write_entry};
import package::level::{Level, place_of};
import package::scalar::{Scalar, Lanes, conjugate, join, lanes, load, store};
import package::tiles::{Tile, Piece, left, right, LEFT_LD, RIGHT_LD, transposed_product};

struct Params {
    rs: u32,
    cs: u32,
    lines: u32,
    row: u32,
    col: u32,
    rows: u32,
    cols: u32,
    inner: u32,
    ld: u32,
}

@group(0) @binding(0) var<storage, read_write> panels: array<Scalar>;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(1) var<uniform> params: Params;

/// P[row + i, k], or zero outside P.
fn entry_of_p(i: u32, k: u32) -> Scalar {
    if i < params.rows && k < params.inner { return panels[k * params.ld + params.row + i]; }
    return Scalar();
}

/// R[col + j, k], or zero outside R.
fn entry_of_r(j: u32, k: u32) -> Scalar {
    if j < params.cols && k < params.inner { return panels[(PAIRS + k) * params.ld + params.col + j]; }
    return Scalar();
}

@compute @workgroup_size(GEMM_THREADS)
fn update_trailing(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = (workgroup.y + workgroup.z * workgroups.y) * TS;
    if row >= params.rows {
        return;
    }
    let col = workgroup.x * CPB;
    // Neighbouring threads own entries that are adjacent in memory.
    let by_rows = params.cs == 1u;
    let i = select(thread % TS4, thread / CPB8, by_rows);
    let j = select(thread / TS4, thread % CPB8, by_rows);

    var sum = Piece();
    for (var k = 0u; k < params.inner; k += TS) {
        for (var e = thread; e < TS * TS4; e += GEMM_THREADS) {
            let r = e / TS4;
            let at = row + 4u * (e % TS4);
            left[r * LEFT_LD + e % TS4] = join(Lanes(
                conjugate(entry_of_p(at, k + r)),
                conjugate(entry_of_p(at + 1u, k + r)),
                conjugate(entry_of_p(at + 2u, k + r)),
                conjugate(entry_of_p(at + 3u, k + r)),
            ));
        }
        for (var e = thread; e < TS * CPB4; e += GEMM_THREADS) {
            let r = e / CPB4;
            let at = col + 4u * (e % CPB4);
            right[r * RIGHT_LD + e % CPB4] = join(Lanes(
                entry_of_r(at, k + r),
                entry_of_r(at + 1u, k + r),
                entry_of_r(at + 2u, k + r),
                entry_of_r(at + 3u, k + r),
            ));
        }
        // Both tiles are complete before they are multiplied.
        workgroupBarrier();
        sum = transposed_product(sum, i, j);
        // All threads have read the tiles before they are overwritten.
        workgroupBarrier();
    }
    update_tile(row + 4u * i, col + 4u * j, sum.near);
    update_tile(row + 4u * i, col + 4u * (j + CPB8), sum.far);
}

/// `update_row` for the four rows from i on, at column j.
fn update_tile(i: u32, j: u32, tile: Tile) {
    update_row(i, j, lanes(tile.r0));
    update_row(i + 1u, j, lanes(tile.r1));
    update_row(i + 2u, j, lanes(tile.r2));
    update_row(i + 3u, j, lanes(tile.r3));
}

/// C[i, j..j + 4] -= four, for the entries that are inside C.
fn update_row(i: u32, j: u32, four: Lanes) {
    if i < params.rows {
        if j < params.cols { update(i, j, four.x); }
        if j + 1u < params.cols { update(i, j + 1u, four.y); }
        if j + 2u < params.cols { update(i, j + 2u, four.z); }
        if j + 3u < params.cols { update(i, j + 3u, four.w); }
    }
}

/// C[i, j] -= x
fn update(i: u32, j: u32, x: Scalar) {
    var level = Level();
    level.rs = params.rs;
    level.cs = params.cs;
    level.lines = params.lines;
    let place = place_of(level, params.row + i, params.col + j);
    write_entry(place, store(load(read_entry(place)) - x));
}
