// Products of tiles in workgroup memory, a 4 x 4 piece a thread.
//
//   left    TS x TS,   row r at r * LEFT_LD, in vectors of four columns
//   right   TS x CPB,  row r at r * RIGHT_LD, likewise
//
// A row has one vector more than it needs, so that neighbouring rows start in different banks.

import package::tuning::{TS, TS4, CPB4};
import package::scalar::{Scalar4, add_product4, conjugate, lanes, sum4};

const LEFT_LD = TS4 + 1u;
const RIGHT_LD = CPB4 + 1u;
var<workgroup> left: array<Scalar4, TS * LEFT_LD>;
var<workgroup> right: array<Scalar4, TS * RIGHT_LD>;

/// Four rows of four entries.
struct Tile {
    r0: Scalar4,
    r1: Scalar4,
    r2: Scalar4,
    r3: Scalar4,
}

/// sum + left^H right, rows 4 i.. and columns 4 j..
fn transposed_product(sum: Tile, i: u32, j: u32) -> Tile {
    var w = sum;
    for (var r = 0u; r < TS; r++) {
        let l = lanes(left[r * LEFT_LD + i]);
        let x = right[r * RIGHT_LD + j];
        w.r0 = add_product4(w.r0, conjugate(l.x), x);
        w.r1 = add_product4(w.r1, conjugate(l.y), x);
        w.r2 = add_product4(w.r2, conjugate(l.z), x);
        w.r3 = add_product4(w.r3, conjugate(l.w), x);
    }
    return w;
}

/// Row r of left right, columns 4 j..
fn product_row(r: u32, j: u32) -> Scalar4 {
    var sum = Scalar4();
    for (var i = 0u; i < TS4; i++) {
        let l = lanes(left[r * LEFT_LD + i]);
        let from_row = 4u * i * RIGHT_LD + j;
        var four = add_product4(Scalar4(), l.x, right[from_row]);
        four = add_product4(four, l.y, right[from_row + RIGHT_LD]);
        four = add_product4(four, l.z, right[from_row + 2u * RIGHT_LD]);
        four = add_product4(four, l.w, right[from_row + 3u * RIGHT_LD]);
        sum = sum4(sum, four);
    }
    return sum;
}

/// right[4 i.., 4 j..] = w
fn store_right(w: Tile, i: u32, j: u32) {
    let to_row = 4u * i * RIGHT_LD + j;
    right[to_row] = w.r0;
    right[to_row + RIGHT_LD] = w.r1;
    right[to_row + 2u * RIGHT_LD] = w.r2;
    right[to_row + 3u * RIGHT_LD] = w.r3;
}
