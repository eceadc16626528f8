// The reflectors of a panel's blocks, applied to the columns right of it. Twin: src/cpu/unmqr.rs.
//
//   X <- X - V (T^H (V^H X))     X rows x CPB,  V rows x TS,  T TS x TS,  W = T^H (V^H X) TS x CPB
//
//   a   the matrix as stored, strides (rs, cs): X in and out
//   v   V as geqrt leaves it: one row of TS for each stacked row of the level, zeros outside the trapezoid
//   t   T as geqrt leaves it: TS x TS row-major for each block
//
// Workgroup (chunk of CPB columns, block). Rows pass through workgroup memory TS at a time. Each of TS/4 x CPB/4 threads owns a
// 4 x 4 piece of every product: of W rows 4 i.. and columns 4 j..; of X rows i, i + TS/4, ... and columns 4 j.. .

import package::tuning::{TS, TS4, CPB, CPB4, UNMQR_THREADS};
import package::scalar::{Scalar, Scalar4, Stored, Lanes, join, lanes, load, store};
import package::level::{Level, row_offset};
import package::tiles::{Tile, left, right, LEFT_LD, RIGHT_LD, transposed_product, product_row, store_right};

@group(0) @binding(0) var<storage, read_write> a: array<Stored>;
@group(0) @binding(1) var<storage, read_write> v: array<Scalar4>;
@group(0) @binding(2) var<storage, read_write> t: array<Scalar4>;
@if(immediates) var<immediate> level: Level;
@else @group(0) @binding(3) var<uniform> level: Level;

/// Copies `count` rows of V from stacked row g on, or of T, into `left`; zeros below them.
fn stage_left(thread: u32, g: u32, count: u32, from_t: bool) {
    for (var e = thread; e < TS * TS4; e += UNMQR_THREADS) {
        let r = e / TS4;
        var four = Scalar4();
        if r < count && from_t {
            four = t[g * TS4 + e];
        } else if r < count {
            four = v[g * TS4 + e];
        }
        left[r * LEFT_LD + e % TS4] = four;
    }
}

/// Copies `count` rows of X from stacked row g on, columns `col` .. `col + CPB`, into `right`; zeros outside the matrix. Neighbouring
/// threads take neighbours in memory.
fn stage_right(thread: u32, g: u32, count: u32, col: u32) {
    for (var e = thread; e < TS * CPB4; e += UNMQR_THREADS) {
        let by_rows = level.cs == 1u;
        let r = select(e % TS, e / CPB4, by_rows);
        let j = select(e / TS, e % CPB4, by_rows);
        var four = Lanes();
        if r < count {
            let row = row_offset(level, g + r);
            let c = col + 4u * j;
            if c < level.cols { four.x = load(a[row + c * level.cs]); }
            if c + 1u < level.cols { four.y = load(a[row + (c + 1u) * level.cs]); }
            if c + 2u < level.cols { four.z = load(a[row + (c + 2u) * level.cs]); }
            if c + 3u < level.cols { four.w = load(a[row + (c + 3u) * level.cs]); }
        }
        right[r * RIGHT_LD + j] = join(four);
    }
}

@compute @workgroup_size(UNMQR_THREADS)
fn unmqr(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let q = workgroup.y + workgroup.z * workgroups.y;
    if q >= level.blocks {
        return;
    }
    let first = q * level.block_rows;
    let rows = min(level.block_rows, level.rows - first);
    let col = level.col + level.width + workgroup.x * CPB;
    // Neighbouring threads own neighbours in memory.
    let by_rows = level.cs == 1u;
    let i = select(thread % TS4, thread / CPB4, by_rows);
    let j = select(thread / TS4, thread % CPB4, by_rows);

    // W = V^H X
    var w = Tile();
    for (var g = 0u; g < rows; g += TS) {
        stage_left(thread, first + g, rows - g, false);
        stage_right(thread, first + g, rows - g, col);
        // Both tiles are there before they are multiplied.
        workgroupBarrier();
        w = transposed_product(w, i, j);
        // Everyone is done with the tiles before they are replaced.
        workgroupBarrier();
    }

    // W <- T^H W
    store_right(w, i, j);
    stage_left(thread, q * TS, TS, true);
    // T and W are there before they are multiplied.
    workgroupBarrier();
    w = transposed_product(Tile(), i, j);
    // Everyone is done with the old W, and with T, before they are replaced.
    workgroupBarrier();
    store_right(w, i, j);

    // X <- X - V W
    for (var g = 0u; g < rows; g += TS) {
        stage_left(thread, first + g, rows - g, false);
        // The rows of V, and the new W, are there before they are multiplied.
        workgroupBarrier();
        for (var r = i; r < min(TS, rows - g); r += TS4) {
            subtract(row_offset(level, first + g + r), col + 4u * j, lanes(product_row(r, j)));
        }
        // Everyone is done with these rows of V before they are replaced.
        workgroupBarrier();
    }
}

/// X[row, c..c + 4] -= four, where the matrix has these columns.
fn subtract(row: u32, c: u32, four: Lanes) {
    if c < level.cols { subtract_entry(row + c * level.cs, four.x); }
    if c + 1u < level.cols { subtract_entry(row + (c + 1u) * level.cs, four.y); }
    if c + 2u < level.cols { subtract_entry(row + (c + 2u) * level.cs, four.z); }
    if c + 3u < level.cols { subtract_entry(row + (c + 3u) * level.cs, four.w); }
}

/// a[at] -= x
fn subtract_entry(at: u32, x: Scalar) {
    a[at] = store(load(a[at]) - x);
}
