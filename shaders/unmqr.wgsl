// Application of the reflectors of a panel's blocks to the columns right of it. Twin: src/cpu/qr/unmqr.rs.
//
//   X <- X - V (T^H (V^H X))     X rows x CPB,  V rows x TS,  T TS x TS,  W = T^H (V^H X) TS x CPB
//
//   package::dense   the matrix as stored, strides (rs, cs), one of them 1: X in and out
//   v                V as geqrt leaves it: one row of TS for each stacked row of the level, zeros outside the trapezoid
//   t                T as geqrt leaves it: TS x TS row-major for each block from t_first on
//
// Workgroup = (chunk of CPB columns, block). TS rows at a time are staged in workgroup memory. All three products are left^H right of tiles
// there: V^H X, T^H W, and (conj(V)^T)^H W. Each of TS/4 x CPB/8 threads owns a 4 x 8 piece of every product.
//
// X is read and written in 4 x 4 blocks: in vectors of four adjacent entries (`vectors`) if rows and columns start at multiples of four,
// else entry by entry. Vectors may extend beyond the last row or column of the matrix into its padding. This is zero, and stays zero.

import package::tuning::{TS, TS4, CPB, CPB4, CPB8, I_LOW, J_LOW, UNMQR_THREADS};
import package::dense::{read_entry, write_entry};
import package::scalar::{Scalar, Scalar4, Lanes, conjugate, difference4, join, lanes, load, load4, store, store4};
import package::level::{Level, Place, matrix_row, place_of};
import package::tiles::{Tile, Piece, left, LEFT_LD, transposed, transposed_product, store_right, store_tile};

@group(0) @binding(0) var<storage, read_write> v: array<Scalar4>;
@group(0) @binding(1) var<storage, read_write> t: array<Scalar4>;
@if(immediates) var<immediate> level: Level;
@else @group(0) @binding(2) var<uniform> level: Level;

/// The 4 x 4 block of X at stacked row g and column c, zeros from row `end` and from the matrix's last column on.
fn load_block(g: u32, end: u32, c: u32) -> Tile {
    var block = Tile();
    if g >= end || c >= level.cols { return block; }
    @if(vectors) {
        // Lines are the contiguous columns or rows of X. The first of the four always exists, and all four are in one buffer.
        let by_rows = level.cs == 1u;
        let first = place_of(level, matrix_row(level, g), c);
        let lines = select(level.cols - c, end - g, by_rows);
        block.r0 = load4(read_entry(line_after(first, 0u)));
        if lines > 1u { block.r1 = load4(read_entry(line_after(first, 1u))); }
        if lines > 2u { block.r2 = load4(read_entry(line_after(first, 2u))); }
        if lines > 3u { block.r3 = load4(read_entry(line_after(first, 3u))); }
        if !by_rows { block = transposed(block); }
    } @else {
        block.r0 = load_row(g, c);
        if g + 1u < end { block.r1 = load_row(g + 1u, c); }
        if g + 2u < end { block.r2 = load_row(g + 2u, c); }
        if g + 3u < end { block.r3 = load_row(g + 3u, c); }
    }
    return block;
}

/// Subtracts `block` from the same block of X.
fn subtract_block(g: u32, end: u32, c: u32, block: Tile) {
    if g >= end || c >= level.cols { return; }
    @if(vectors) {
        let by_rows = level.cs == 1u;
        let first = place_of(level, matrix_row(level, g), c);
        let lines = select(level.cols - c, end - g, by_rows);
        var these = block;
        if !by_rows { these = transposed(block); }
        subtract_four(line_after(first, 0u), these.r0);
        if lines > 1u { subtract_four(line_after(first, 1u), these.r1); }
        if lines > 2u { subtract_four(line_after(first, 2u), these.r2); }
        if lines > 3u { subtract_four(line_after(first, 3u), these.r3); }
    } @else {
        subtract_row(g, c, lanes(block.r0));
        if g + 1u < end { subtract_row(g + 1u, c, lanes(block.r1)); }
        if g + 2u < end { subtract_row(g + 2u, c, lanes(block.r2)); }
        if g + 3u < end { subtract_row(g + 3u, c, lanes(block.r3)); }
    }
}

/// The place, in vectors of four, of the vector that is `lines` lines after `first`.
@if(vectors)
fn line_after(first: Place, lines: u32) -> Place {
    return Place(first.buffer, (first.at + lines * max(level.rs, level.cs)) / 4u);
}

/// Subtracts `four` from the four entries at `place`.
@if(vectors)
fn subtract_four(place: Place, four: Scalar4) {
    write_entry(place, store4(difference4(load4(read_entry(place)), four)));
}

/// X[g, c .. c + 4]
@if(!vectors)
fn load_row(g: u32, c: u32) -> Scalar4 {
    let row = matrix_row(level, g);
    var four = Lanes();
    four.x = load(read_entry(place_of(level, row, c)));
    if c + 1u < level.cols { four.y = load(read_entry(place_of(level, row, c + 1u))); }
    if c + 2u < level.cols { four.z = load(read_entry(place_of(level, row, c + 2u))); }
    if c + 3u < level.cols { four.w = load(read_entry(place_of(level, row, c + 3u))); }
    return join(four);
}

/// X[g, c .. c + 4] -= four
@if(!vectors)
fn subtract_row(g: u32, c: u32, four: Lanes) {
    let row = matrix_row(level, g);
    subtract_one(place_of(level, row, c), four.x);
    if c + 1u < level.cols { subtract_one(place_of(level, row, c + 1u), four.y); }
    if c + 2u < level.cols { subtract_one(place_of(level, row, c + 2u), four.z); }
    if c + 3u < level.cols { subtract_one(place_of(level, row, c + 3u), four.w); }
}

/// Subtracts x from the entry at `place`.
@if(!vectors)
fn subtract_one(place: Place, x: Scalar) {
    write_entry(place, store(load(read_entry(place)) - x));
}

/// Copies `count` rows of V from stacked row g on, or of T from row g on, into `left`, with zeros below them.
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

/// Copies conj(V)^T of `count` rows of V from stacked row g on into `left`, with zeros right of them. A thread transposes 4 x 4 blocks.
fn stage_left_transposed(thread: u32, g: u32, count: u32) {
    for (var e = thread; e < TS4 * TS4; e += UNMQR_THREADS) {
        // Neighbouring threads store adjacent vectors of a row of `left`.
        let r = 4u * (e % TS4);
        let k = e / TS4;
        let at = (g + r) * TS4 + k;
        var block = Tile();
        if r < count { block.r0 = v[at]; }
        if r + 1u < count { block.r1 = v[at + TS4]; }
        if r + 2u < count { block.r2 = v[at + 2u * TS4]; }
        if r + 3u < count { block.r3 = v[at + 3u * TS4]; }
        let turned = transposed(block);
        let to_row = 4u * k * LEFT_LD + e % TS4;
        left[to_row] = conjugate4(turned.r0);
        left[to_row + LEFT_LD] = conjugate4(turned.r1);
        left[to_row + 2u * LEFT_LD] = conjugate4(turned.r2);
        left[to_row + 3u * LEFT_LD] = conjugate4(turned.r3);
    }
}

/// conj(four)
fn conjugate4(four: Scalar4) -> Scalar4 {
    let each = lanes(four);
    return join(Lanes(conjugate(each.x), conjugate(each.y), conjugate(each.z), conjugate(each.w)));
}

/// Copies rows of X from stacked row g on, columns `col` .. `col + CPB`, into `right`, with zeros from row `end` on and outside the matrix.
/// Neighbouring threads read adjacent memory. In column-major order I_LOW x J_LOW threads take as many blocks, which they store in
/// different banks.
fn stage_right(thread: u32, g: u32, end: u32, col: u32) {
    for (var e = thread; e < TS4 * CPB4; e += UNMQR_THREADS) {
        let by_rows = level.cs == 1u;
        let i = select(e % I_LOW + I_LOW * (e / (I_LOW * J_LOW) % (TS4 / I_LOW)), e / CPB4, by_rows);
        let j = select(e / I_LOW % J_LOW + J_LOW * (e / (J_LOW * TS4)), e % CPB4, by_rows);
        store_tile(load_block(g + 4u * i, end, col + 4u * j), i, j);
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
    let end = first + rows;
    let col = level.col + level.width + workgroup.x * CPB;
    // Neighbouring threads own entries that are adjacent in memory.
    let by_rows = level.cs == 1u;
    let i = select(thread % TS4, thread / CPB8, by_rows);
    let j = select(thread / TS4, thread % CPB8, by_rows);

    // W = V^H X
    var w = Piece();
    for (var g = 0u; g < rows; g += TS) {
        stage_left(thread, first + g, rows - g, false);
        stage_right(thread, first + g, end, col);
        // Both tiles are complete before they are multiplied.
        workgroupBarrier();
        w = transposed_product(w, i, j);
        // All threads have read the tiles before they are overwritten.
        workgroupBarrier();
    }

    // W <- T^H W
    store_right(w, i, j);
    stage_left(thread, (level.t_first + q) * TS, TS, true);
    // T and W are complete before they are multiplied.
    workgroupBarrier();
    w = transposed_product(Piece(), i, j);
    // All threads have read the old W and T before they are overwritten, and X before it is written.
    storageBarrier();
    workgroupBarrier();
    store_right(w, i, j);

    // X <- X - V W
    for (var g = 0u; g < rows; g += TS) {
        stage_left_transposed(thread, first + g, rows - g);
        // The rows of V and the new W are complete before they are multiplied.
        workgroupBarrier();
        let product = transposed_product(Piece(), i, j);
        subtract_block(first + g + 4u * i, end, col + 4u * j, product.near);
        subtract_block(first + g + 4u * i, end, col + 4u * (j + CPB8), product.far);
        // All threads have read these rows of V before they are overwritten.
        workgroupBarrier();
    }
}
