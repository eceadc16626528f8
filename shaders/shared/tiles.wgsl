// Products of tiles in workgroup memory. Each thread computes a 4 x 8 piece.
//
//   left    TS rows of LEFT4 vectors of four columns,   row r at r * LEFT_LD
//   right   1 + HELD tiles TS x CPB,  tile k at k * RIGHT_TILE, its row r at r * RIGHT_LD, in vectors of four columns
//
// Rows are padded by one vector, so that neighbouring rows start in different banks. A thread's eight columns are two vectors half a row
// apart, so that neighbouring threads read adjacent vectors. In each of TS steps a thread reads three vectors (48 bytes in f32) and does
// 32 multiplications.

import package::tuning::{TS, LEFT4, CPB4, CPB8, HELD};
import package::scalar::{Scalar4, Lanes, add_product4, conjugate, join, lanes};

const LEFT_LD = LEFT4 + 1u;
const RIGHT_LD = CPB4 + 1u;
var<workgroup> left: array<Scalar4, TS * LEFT_LD>;
const RIGHT_TILE = TS * RIGHT_LD;
var<workgroup> right: array<Scalar4, (1u + HELD) * RIGHT_TILE>;

/// Four rows of four entries.
struct Tile {
    r0: Scalar4,
    r1: Scalar4,
    r2: Scalar4,
    r3: Scalar4,
}

/// Four rows of columns 4 j .. and 4 (j + CPB8) ..
struct Piece {
    near: Tile,
    far: Tile,
}

/// tile^T
fn transposed(tile: Tile) -> Tile {
    let a = lanes(tile.r0);
    let b = lanes(tile.r1);
    let c = lanes(tile.r2);
    let d = lanes(tile.r3);
    return Tile(
        join(Lanes(a.x, b.x, c.x, d.x)),
        join(Lanes(a.y, b.y, c.y, d.y)),
        join(Lanes(a.z, b.z, c.z, d.z)),
        join(Lanes(a.w, b.w, c.w, d.w)),
    );
}

/// sum + l^H x, for four entries l of a row of `left` and four entries x of a row of `right`.
fn add_outer_product(sum: Tile, l: Lanes, x: Scalar4) -> Tile {
    return Tile(
        add_product4(sum.r0, conjugate(l.x), x),
        add_product4(sum.r1, conjugate(l.y), x),
        add_product4(sum.r2, conjugate(l.z), x),
        add_product4(sum.r3, conjugate(l.w), x),
    );
}

/// sum + left^H right, for the tile at `tile` of `right`, rows 4 i .. 4 i + 4 and the thread's columns.
fn transposed_product(sum: Piece, tile: u32, i: u32, j: u32) -> Piece {
    var w = sum;
    for (var r = 0u; r < TS; r++) {
        let l = lanes(left[r * LEFT_LD + i]);
        let x = right[tile + r * RIGHT_LD + j];
        let y = right[tile + r * RIGHT_LD + j + CPB8];
        w.near = add_outer_product(w.near, l, x);
        w.far = add_outer_product(w.far, l, y);
    }
    return w;
}

/// Rows 4 i .. and columns 4 j .. of the tile at `tile` of `right` = w
fn store_tile(w: Tile, tile: u32, i: u32, j: u32) {
    let to_row = tile + 4u * i * RIGHT_LD + j;
    right[to_row] = w.r0;
    right[to_row + RIGHT_LD] = w.r1;
    right[to_row + 2u * RIGHT_LD] = w.r2;
    right[to_row + 3u * RIGHT_LD] = w.r3;
}

/// Rows 4 i .. and columns 4 j .. of the tile at `tile` of `right`.
fn load_tile(tile: u32, i: u32, j: u32) -> Tile {
    let of_row = tile + 4u * i * RIGHT_LD + j;
    return Tile(right[of_row], right[of_row + RIGHT_LD], right[of_row + 2u * RIGHT_LD], right[of_row + 3u * RIGHT_LD]);
}

/// `store_tile` for both halves of a thread's piece, in the first tile.
fn store_right(w: Piece, i: u32, j: u32) {
    store_tile(w.near, 0u, i, j);
    store_tile(w.far, 0u, i, j + CPB8);
}
