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
// (shared/factor_block.wgsl): new_v and new_t take its V and T. If reflectors are kept (`kept`), new_t has the T of both levels, one after the other.
//
// Workgroup = (chunk of CPB columns, block, matrix). All three products are left^H right of tiles in workgroup memory (shared/tiles.wgsl): V^H X, STEP
// rows at a time, T^H W, and (conj(V)^T)^H W. Each of TS/(4 STRIPS) x CPB/8 threads owns a piece of every product. What comes next is loaded into
// registers before a product and stored after it (`ahead`: not in c64, whose pieces fill the registers). The last HELD tiles of X stay in
// workgroup memory between V^H X and X - V W. The others are read again, the last of them first: caches are likeliest to have these still.
//
// X is read and written in 4 x 4 blocks: in vectors of four adjacent entries (`vectors`) if rows and columns start at multiples of four,
// else entry by entry. Vectors may extend beyond the last row or column of the matrix into its padding. This is zero, and stays zero.

import package::tuning::{
    TS, TS4, STEP, STRIPS, CPB, CPB4, CPB8, HELD, I_LOW, J_LOW, LEFT_LOADS, RIGHT_LOADS, TURNED_LOADS, UNMQR_THREADS
};
import package::dense::{read_entry, write_entry};
import package::scalar::{Scalar4, Lanes, conjugate, difference4, join, lanes, load, load4, store, store4};
import package::level::{Level, Place, first_entry, matrix_row, place_of};
@if(beside) import package::tuning::{ARITY};
@if(beside) import package::scalar::{Scalar};
@if(beside) import package::level::{level_after};
@if(beside) import package::factor_block::{factor_block};
import package::tiles::{
    Tile, Strip, Piece, left, LEFT_LD, LEFT_HALF, RIGHT_LD, RIGHT_HALF, THREADS_I, add_product, load_tile, place_of_piece, store_piece, store_tile,
    transposed
};

@group(0) @binding(0) var<storage, read_write> v: array<Scalar4>;
@if(!kept) @group(0) @binding(1) var<storage, read_write> t: array<Scalar4>;
@if(two_t) @group(0) @binding(2) var<storage, read_write> new_v: array<Scalar>;
@if(two_t) @group(0) @binding(3) var<storage, read_write> new_t: array<Scalar>;
// Other threads of the workgroup read what one has stored.
@if(kept_coherent) @group(0) @binding(1) @coherent var<storage, read_write> new_v: array<Scalar>;
@if(kept_plain) @group(0) @binding(1) var<storage, read_write> new_v: array<Scalar>;
@if(kept) @group(0) @binding(2) var<storage, read_write> new_t: array<Scalar>;
@if(immediates) var<immediate> level: Level;
@if(uniform) @group(0) @binding(2) var<uniform> level: Level;
@if(uniform_beside) @group(0) @binding(4) var<uniform> level: Level;
@if(uniform_kept) @group(0) @binding(3) var<uniform> level: Level;

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

/// A thread's part of STEP rows of `v` from row g on, of which the first `count` exist. The others are zeros.
fn load_left(thread: u32, g: u32, count: u32) -> array<Scalar4, LEFT_LOADS> {
    var fours = array<Scalar4, LEFT_LOADS>();
    @repeat(K, LEFT_LOADS) {
        let e = thread + K * UNMQR_THREADS;
        if e < min(count, STEP) * TS4 { fours[K] = v[g * TS4 + e]; }
    }
    return fours;
}

/// Stores that part in the half of `left` that begins at `half`.
fn store_left(thread: u32, half: u32, fours: array<Scalar4, LEFT_LOADS>) {
    @repeat(K, LEFT_LOADS) {
        let e = thread + K * UNMQR_THREADS;
        if e < STEP * TS4 { left[half + e / TS4 * LEFT_LD + e % TS4] = fours[K]; }
    }
}

/// Copies T, whose first row in `t` is g, into `left`.
fn copy_t(thread: u32, g: u32) {
    for (var e = thread; e < TS * TS4; e += UNMQR_THREADS) {
        let at = g * TS4 + e;
        @if(kept) let four = join(Lanes(new_t[4u * at], new_t[4u * at + 1u], new_t[4u * at + 2u], new_t[4u * at + 3u]));
        @else let four = t[at];
        left[e / TS4 * LEFT_LD + e % TS4] = four;
    }
}

/// A thread's part of conj(V)^T of TS rows of `v` from row g on, of which the first `count` exist: 4 x 4 blocks, transposed.
fn load_turned(thread: u32, g: u32, count: u32) -> array<Tile, TURNED_LOADS> {
    var blocks = array<Tile, TURNED_LOADS>();
    @repeat(K, TURNED_LOADS) {
        // Neighbouring threads store adjacent vectors of a row of `left`.
        let e = thread + K * UNMQR_THREADS;
        if e < TS4 * TS4 {
            let r = 4u * (e % TS4);
            let at = (g + r) * TS4 + e / TS4;
            var block = Tile();
            if r < count { block.r0 = v[at]; }
            if r + 1u < count { block.r1 = v[at + TS4]; }
            if r + 2u < count { block.r2 = v[at + 2u * TS4]; }
            if r + 3u < count { block.r3 = v[at + 3u * TS4]; }
            blocks[K] = transposed(block);
        }
    }
    return blocks;
}

/// Stores that part in `left`.
fn store_turned(thread: u32, blocks: array<Tile, TURNED_LOADS>) {
    @repeat(K, TURNED_LOADS) {
        let e = thread + K * UNMQR_THREADS;
        if e < TS4 * TS4 {
            let to_row = 4u * (e / TS4) * LEFT_LD + e % TS4;
            left[to_row] = conjugate4(blocks[K].r0);
            left[to_row + LEFT_LD] = conjugate4(blocks[K].r1);
            left[to_row + 2u * LEFT_LD] = conjugate4(blocks[K].r2);
            left[to_row + 3u * LEFT_LD] = conjugate4(blocks[K].r3);
        }
    }
}

/// conj(four)
fn conjugate4(four: Scalar4) -> Scalar4 {
    let each = lanes(four);
    return join(Lanes(conjugate(each.x), conjugate(each.y), conjugate(each.z), conjugate(each.w)));
}

/// The half of `left` that has the rows of V from row g of a block on.
fn half_of_left(g: u32) -> u32 {
    return g / STEP % 2u * LEFT_HALF;
}

/// The place in `right` of the rows from row g of a block of `tiles` tiles on: in a tile that stays there, or in the half that is free.
fn place_in_right(tiles: u32, g: u32) -> u32 {
    let after = tiles - 1u - g / TS;
    return select(g / STEP % 2u * RIGHT_HALF, 2u * RIGHT_HALF + (after * TS + g % TS) * RIGHT_LD, after < HELD);
}

/// The row (x) and column (y) of the 4 x 4 block that a thread takes of STEP rows of X as its load k. Neighbouring threads read adjacent memory. In
/// column-major order I_LOW x J_LOW threads take as many blocks, which they store in different banks.
fn place_of_block(thread: u32, k: u32) -> vec2<u32> {
    let e = thread + k * UNMQR_THREADS;
    let by_rows = level.cs == 1u;
    let i = select(e % I_LOW + I_LOW * (e / (I_LOW * J_LOW) % (STEP / 4u / I_LOW)), e / CPB4, by_rows);
    let j = select(e / I_LOW % J_LOW + J_LOW * (e / (J_LOW * (STEP / 4u))), e % CPB4, by_rows);
    return vec2<u32>(i, j);
}

/// A thread's part of STEP rows of X from stacked row g on, columns `col` .. `col + CPB`, with zeros from row `end` on and outside the matrix.
fn load_right(thread: u32, g: u32, end: u32, col: u32) -> array<Tile, RIGHT_LOADS> {
    var blocks = array<Tile, RIGHT_LOADS>();
    @repeat(K, RIGHT_LOADS) {
        let at = place_of_block(thread, K);
        if at.x < STEP / 4u && at.y < CPB4 { blocks[K] = load_block(g + 4u * at.x, end, col + 4u * at.y); }
    }
    return blocks;
}

/// Stores that part in the rows of `right` from `to` on.
fn store_right(thread: u32, to: u32, blocks: array<Tile, RIGHT_LOADS>) {
    @repeat(K, RIGHT_LOADS) {
        let at = place_of_block(thread, K);
        if at.x < STEP / 4u && at.y < CPB4 { store_tile(blocks[K], to, at.x, at.y); }
    }
}

/// Whether row g of a block of `tiles` tiles is in a tile that stays in workgroup memory.
fn is_held(tiles: u32, g: u32) -> bool {
    return tiles - 1u - g / TS < HELD;
}

/// The thread's piece of the rows of X from row g of the block on, whose first row is stacked row `first`.
fn load_piece(tiles: u32, first: u32, g: u32, end: u32, col: u32, i: u32, j: u32) -> Piece {
    var x = Piece();
    let held = place_in_right(tiles, g);
    @repeat(S, STRIPS) {
        let at = i + S * THREADS_I;
        let row = first + g + 4u * at;
        if !is_held(tiles, g) {
            x.strips[S] = Strip(load_block(row, end, col + 4u * j), load_block(row, end, col + 4u * (j + CPB8)));
        } else if row < end {
            x.strips[S] = Strip(load_tile(held, at, j), load_tile(held, at, j + CPB8));
        }
    }
    return x;
}

/// X <- X - V W for the thread's piece of the rows from row g of the block on.
fn subtract_product(tiles: u32, first: u32, g: u32, end: u32, col: u32, i: u32, j: u32) {
    @if(ahead) let x = load_piece(tiles, first, g, end, col, i, j);
    let product = add_product(Piece(), 0u, 0u, TS, i, j);
    @if(!ahead) let x = load_piece(tiles, first, g, end, col, i, j);
    @repeat(S, STRIPS) {
        let row = first + g + 4u * (i + S * THREADS_I);
        write_block(row, end, col + 4u * j, difference(x.strips[S].near, product.strips[S].near));
        write_block(row, end, col + 4u * (j + CPB8), difference(x.strips[S].far, product.strips[S].far));
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
    let at = place_of_piece(thread);
    let i = at.x;
    let j = at.y;

    // W = V^H X. In each round the rows that are in one half are multiplied, and the next ones loaded and stored in the other one.
    let tiles = (rows + TS - 1u) / TS;
    var w = Piece();
    for (var g = 0u; g < rows + STEP; g += STEP) {
        var of_v = array<Scalar4, LEFT_LOADS>();
        var of_x = array<Tile, RIGHT_LOADS>();
        @if(ahead) {
            if g < rows {
                of_v = load_left(thread, first_v + g, rows - g);
                of_x = load_right(thread, first + g, end, col);
            }
        }
        if g > 0u { w = add_product(w, half_of_left(g - STEP), place_in_right(tiles, g - STEP), STEP, i, j); }
        if g < rows {
            @if(!ahead) {
                of_v = load_left(thread, first_v + g, rows - g);
                of_x = load_right(thread, first + g, end, col);
            }
            store_left(thread, half_of_left(g), of_v);
            store_right(thread, place_in_right(tiles, g), of_x);
        }
        // These rows are complete before they are multiplied, and all threads have read the others before they are overwritten.
        workgroupBarrier();
    }

    // W <- T^H W
    store_piece(w, i, j);
    copy_t(thread, (level.t_first + matrix * level.blocks + q) * TS);
    // T and W are complete before they are multiplied.
    workgroupBarrier();
    w = add_product(Piece(), 0u, 0u, TS, i, j);
    // All threads have read the old W and T before they are overwritten, and X before it is written.
    storageBarrier();
    workgroupBarrier();
    store_piece(w, i, j);

    // X <- X - V W, in rounds as above, from the last rows on
    for (var after = 0u; after <= tiles; after++) {
        let g = (max(tiles - after, 1u) - 1u) * TS;
        var turned = array<Tile, TURNED_LOADS>();
        @if(ahead) {
            if after < tiles { turned = load_turned(thread, first_v + g, rows - g); }
        }
        if after > 0u { subtract_product(tiles, first, (tiles - after) * TS, end, col, i, j); }
        // All threads have read the rows of V before they are overwritten.
        workgroupBarrier();
        if after < tiles {
            @if(!ahead) turned = load_turned(thread, first_v + g, rows - g);
            store_turned(thread, turned);
        }
        // The rows of V and the new W are complete before they are multiplied.
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
        var next = level_after(level, ARITY);
        @if(kept) next.t_first += workgroups.z * level.blocks;
        if index < next.blocks {
            factor_block(next, thread, index, workgroup.z);
        } else if index - next.blocks < chunks * level.blocks {
            apply_block(thread, (index - next.blocks) / chunks, (index - next.blocks) % chunks, workgroup.z);
        }
    } @else {
        if index < chunks * level.blocks { apply_block(thread, index / chunks, index % chunks, workgroup.z); }
    }
}
