// The matrix product, on windows of two matrices.
//
//   C <- beta C + alpha M X     C rows x cols,  M rows x inner,  X inner x cols
//
//   bindings: shared/operands.wgsl. X and C are windows of b with disjoint rows: X in at params.x, C in and out at params.c
//
// Workgroup = (chunk of CPB columns, chunk of TS rows) of C. TS columns of M and TS rows of X at a time are staged in workgroup memory.
// Each of TS/4 x CPB/8 threads owns a 4 x 8 piece of C. Tiles are padded with zeros beyond the edges, so products need no bounds checks.

import package::tuning::{TS, TS4, CPB, CPB4, CPB8, GEMM_THREADS};
import package::operands::{b, factors, entry_of_m};
import package::scalar::{Scalar, Lanes, join, lanes, load, multiply_add, store, times};
import package::tiles::{Tile, Piece, left, right, LEFT_LD, RIGHT_LD, transposed_product};

struct Params {
    rows: u32,
    cols: u32,
    inner: u32,
    a: u32,
    a_rs: u32,
    a_cs: u32,
    x: u32,
    c: u32,
    b_rs: u32,
    b_cs: u32,
    /// The sum of 1 (the entries of M are conjugates of those of a), 256 times alpha's index, and 65536 times beta's index.
    flags: u32,
}

@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(3) var<uniform> params: Params;

/// The conjugate of M_ij, or zero outside M.
fn conjugate_of_m(i: u32, j: u32) -> Scalar {
    if i < params.rows && j < params.inner {
        return entry_of_m(params.a + i * params.a_rs + j * params.a_cs, (params.flags & 1u) == 0u);
    }
    return Scalar();
}

/// X_ij, or zero outside X.
fn of_x(i: u32, j: u32) -> Scalar {
    if i < params.inner && j < params.cols {
        return load(b[params.x + i * params.b_rs + j * params.b_cs]);
    }
    return Scalar();
}

/// Copies TS x TS of M, from row `row` and column `k` on, into `left` as M^H. Neighbouring threads read adjacent memory.
fn stage_left(thread: u32, row: u32, k: u32) {
    for (var e = thread; e < TS * TS4; e += GEMM_THREADS) {
        let by_columns = params.a_rs == 1u;
        let r = select(e % TS, e / TS4, by_columns);
        let i = select(e / TS, e % TS4, by_columns);
        let first = row + 4u * i;
        left[r * LEFT_LD + i] = join(Lanes(
            conjugate_of_m(first, k + r),
            conjugate_of_m(first + 1u, k + r),
            conjugate_of_m(first + 2u, k + r),
            conjugate_of_m(first + 3u, k + r),
        ));
    }
}

/// Copies TS x CPB of X, from row `k` and column `col` on, into `right`. Neighbouring threads read adjacent memory.
fn stage_right(thread: u32, k: u32, col: u32) {
    for (var e = thread; e < TS * CPB4; e += GEMM_THREADS) {
        let by_rows = params.b_cs == 1u;
        let r = select(e % TS, e / CPB4, by_rows);
        let j = select(e / TS, e % CPB4, by_rows);
        let first = col + 4u * j;
        right[r * RIGHT_LD + j] =
            join(Lanes(of_x(k + r, first), of_x(k + r, first + 1u), of_x(k + r, first + 2u), of_x(k + r, first + 3u)));
    }
}

@compute @workgroup_size(GEMM_THREADS)
fn gemm(
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
    let by_rows = params.b_cs == 1u;
    let i = select(thread % TS4, thread / CPB8, by_rows);
    let j = select(thread / TS4, thread % CPB8, by_rows);

    var sum = Piece();
    for (var k = 0u; k < params.inner; k += TS) {
        stage_left(thread, row, k);
        stage_right(thread, k, col);
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

/// C[i, j..j + 4] <- beta C[i, j..j + 4] + alpha four, for the entries that are inside C.
fn update_row(i: u32, j: u32, four: Lanes) {
    if i < params.rows {
        let at = params.c + i * params.b_rs;
        if j < params.cols { update(at + j * params.b_cs, four.x); }
        if j + 1u < params.cols { update(at + (j + 1u) * params.b_cs, four.y); }
        if j + 2u < params.cols { update(at + (j + 2u) * params.b_cs, four.z); }
        if j + 3u < params.cols { update(at + (j + 3u) * params.b_cs, four.w); }
    }
}

/// b[at] <- beta b[at] + alpha x
fn update(at: u32, x: Scalar) {
    let alpha = factors[(params.flags >> 8u) & 255u];
    let beta = factors[params.flags >> 16u];
    b[at] = store(multiply_add(alpha, x, times(beta, load(b[at]))));
}
