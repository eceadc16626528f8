// Application of the reflectors of a panel's blocks to the columns right of it. Twin: src/cpu/qr/unmqr.rs.
//
//   X <- X - V (T^H (V^H X))     X rows x CPB,  V rows x TS,  T TS x TS,  W = T^H (V^H X) TS x CPB
//
//   package::dense   the matrix as stored, strides (rs, cs), one of them 1: X in and out
//   v                V as geqrt leaves it: one row of TS for each stacked row of the level, zeros outside the trapezoid
//   t                T as geqrt leaves it: TS x TS row-major for each block from t_first on
//
// V and T of several matrices lie one after the other.
//
// In variant `beside` the first workgroups of the dispatch factor the next level of the panel's tree, whose columns are others
// (shared/factor_block.wgsl): new_v and new_t take its V and T.
//
// Workgroup = (chunk of CPB columns, block, matrix). TS rows at a time are staged in workgroup memory. All three products are left^H right of
// tiles there: V^H X, T^H W, and (conj(V)^T)^H W. Each of TS/4 x CPB/8 threads owns a 4 x 8 piece of every product. The last HELD tiles of X stay
// in workgroup memory between V^H X and X - V W. The others are read again, the last of them first: caches are likeliest to have these still.
//
// X is read and written in 4 x 4 blocks: in vectors of four adjacent entries (`vectors`) if rows and columns start at multiples of four,
// else entry by entry. Vectors may extend beyond the last row or column of the matrix into its padding. This is zero, and stays zero.

import package::tuning::{TS, TS4, CPB, CPB4, CPB8, HELD, I_LOW, J_LOW, UNMQR_THREADS};
import package::dense::{read_entry, write_entry};
import package::scalar::{Scalar4, Lanes, conjugate, difference4, join, lanes, load, load4, store, store4};
import package::level::{Level, Place, first_entry, matrix_row, place_of};
@if(beside) import package::tuning::{ARITY};
@if(beside) import package::scalar::{Scalar};
@if(beside) import package::level::{level_after};
@if(beside) import package::factor_block::{factor_block};
import package::tiles::{
    Tile, Piece, left, LEFT_LD, RIGHT_TILE, load_tile, transposed, transposed_product, store_right, store_tile
};

@group(0) @binding(0) var<storage, read_write> v: array<Scalar4>;
@group(0) @binding(1) var<storage, read_write> t: array<Scalar4>;
@if(beside) @group(0) @binding(2) var<storage, read_write> new_v: array<Scalar>;
@if(beside) @group(0) @binding(3) var<storage, read_write> new_t: array<Scalar>;
@if(immediates) var<immediate> level: Level;
@if(uniform) @group(0) @binding(2) var<uniform> level: Level;
@if(uniform_beside) @group(0) @binding(4) var<uniform> level: Level;

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

/// Writes `block` to the same block of X.
fn write_block(g: u32, end: u32, c: u32, block: Tile) {
    if g >= end || c >= level.cols { return; }
    @if(vectors) {
        let by_rows = level.cs == 1u;
        let first = place_of(level, matrix_row(level, g), c);
        let lines = select(level.cols - c, end - g, by_rows);
        var these = block;
        if !by_rows { these = transposed(block); }
        write_entry(line_after(first, 0u), store4(these.r0));
        if lines > 1u { write_entry(line_after(first, 1u), store4(these.r1)); }
        if lines > 2u { write_entry(line_after(first, 2u), store4(these.r2)); }
        if lines > 3u { write_entry(line_after(first, 3u), store4(these.r3)); }
    } @else {
        write_row(g, c, lanes(block.r0));
        if g + 1u < end { write_row(g + 1u, c, lanes(block.r1)); }
        if g + 2u < end { write_row(g + 2u, c, lanes(block.r2)); }
        if g + 3u < end { write_row(g + 3u, c, lanes(block.r3)); }
    }
}

/// The difference of two blocks.
fn difference(a: Tile, b: Tile) -> Tile {
    return Tile(difference4(a.r0, b.r0), difference4(a.r1, b.r1), difference4(a.r2, b.r2), difference4(a.r3, b.r3));
}

/// The place, in vectors of four, of the vector that is `lines` lines after `first`.
@if(vectors)
fn line_after(first: Place, lines: u32) -> Place {
    return Place(first.buffer, (first.at + lines * max(level.rs, level.cs)) / 4u);
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

/// X[g, c .. c + 4] = four
@if(!vectors)
fn write_row(g: u32, c: u32, four: Lanes) {
    let row = matrix_row(level, g);
    write_entry(place_of(level, row, c), store(four.x));
    if c + 1u < level.cols { write_entry(place_of(level, row, c + 1u), store(four.y)); }
    if c + 2u < level.cols { write_entry(place_of(level, row, c + 2u), store(four.z)); }
    if c + 3u < level.cols { write_entry(place_of(level, row, c + 3u), store(four.w)); }
}

/// Copies `count` rows of `v`, or of `t`, from row g on into `left`, with zeros below them.
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

/// Copies conj(V)^T of `count` rows of `v` from row g on into `left`, with zeros right of them. A thread transposes 4 x 4 blocks.
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

/// The place in `right` of the tile that is `after` tiles before the last one of its block: one that stays there, or the first.
fn tile_of_right(after: u32) -> u32 {
    return select(0u, (1u + after) * RIGHT_TILE, after < HELD);
}

/// Copies rows of X from stacked row g on, columns `col` .. `col + CPB`, into `right` at `tile`, with zeros from row `end` on and outside the
/// matrix.
/// Neighbouring threads read adjacent memory. In column-major order I_LOW x J_LOW threads take as many blocks, which they store in
/// different banks.
fn stage_right(thread: u32, tile: u32, g: u32, end: u32, col: u32) {
    for (var e = thread; e < TS4 * CPB4; e += UNMQR_THREADS) {
        let by_rows = level.cs == 1u;
        let i = select(e % I_LOW + I_LOW * (e / (I_LOW * J_LOW) % (TS4 / I_LOW)), e / CPB4, by_rows);
        let j = select(e / I_LOW % J_LOW + J_LOW * (e / (J_LOW * TS4)), e % CPB4, by_rows);
        store_tile(load_block(g + 4u * i, end, col + 4u * j), tile, i, j);
    }
}

/// Applies the reflectors of block q to a chunk of columns of a matrix. The three numbers are the same for all threads of the workgroup.
fn apply_block(thread: u32, q: u32, chunk: u32, matrix: u32) {
    let first = q * level.block_rows;
    // The row of `v` with the block's first one.
    let first_v = matrix * level.rows + first;
    let rows = min(level.block_rows, level.rows - first);
    let end = first + rows;
    let col = level.col + level.width + chunk * CPB;
    // Neighbouring threads own entries that are adjacent in memory.
    let by_rows = level.cs == 1u;
    let i = select(thread % TS4, thread / CPB8, by_rows);
    let j = select(thread / TS4, thread % CPB8, by_rows);

    // W = V^H X
    let tiles = (rows + TS - 1u) / TS;
    var w = Piece();
    for (var k = 0u; k < tiles; k++) {
        let g = k * TS;
        let tile = tile_of_right(tiles - 1u - k);
        stage_left(thread, first_v + g, rows - g, false);
        stage_right(thread, tile, first + g, end, col);
        // Both tiles are complete before they are multiplied.
        workgroupBarrier();
        w = transposed_product(w, tile, i, j);
        // All threads have read the tiles before they are overwritten.
        workgroupBarrier();
    }

    // W <- T^H W
    store_right(w, i, j);
    stage_left(thread, (level.t_first + matrix * level.blocks + q) * TS, TS, true);
    // T and W are complete before they are multiplied.
    workgroupBarrier();
    w = transposed_product(Piece(), 0u, i, j);
    // All threads have read the old W and T before they are overwritten, and X before it is written.
    storageBarrier();
    workgroupBarrier();
    store_right(w, i, j);

    // X <- X - V W
    for (var after = 0u; after < tiles; after++) {
        let g = (tiles - 1u - after) * TS;
        stage_left_transposed(thread, first_v + g, rows - g);
        // The rows of V and the new W are complete before they are multiplied.
        workgroupBarrier();
        let product = transposed_product(Piece(), 0u, i, j);
        var near = Tile();
        var far = Tile();
        if after < HELD {
            let tile = tile_of_right(after);
            near = load_tile(tile, i, j);
            far = load_tile(tile, i, j + CPB8);
        } else {
            near = load_block(first + g + 4u * i, end, col + 4u * j);
            far = load_block(first + g + 4u * i, end, col + 4u * (j + CPB8));
        }
        write_block(first + g + 4u * i, end, col + 4u * j, difference(near, product.near));
        write_block(first + g + 4u * i, end, col + 4u * (j + CPB8), difference(far, product.far));
        // All threads have read these rows of V before they are overwritten.
        workgroupBarrier();
    }
}

@compute @workgroup_size(UNMQR_THREADS)
fn unmqr(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    first_entry = level.first + workgroup.z * level.matrix;
    let chunks = (level.cols - level.col - level.width + CPB - 1u) / CPB;
    let index = workgroup.x + workgroup.y * workgroups.x;
    @if(beside) {
        let next = level_after(level, ARITY);
        if index < next.blocks {
            factor_block(next, thread, index, workgroup.z);
        } else if index - next.blocks < chunks * level.blocks {
            apply_block(thread, (index - next.blocks) / chunks, (index - next.blocks) % chunks, workgroup.z);
        }
    } @else {
        if index < chunks * level.blocks { apply_block(thread, index / chunks, index % chunks, workgroup.z); }
    }
}
