// Products of tiles in workgroup memory. Each thread computes a piece of STRIPS strips of 4 x 8 entries.
//
//   left    two halves of STEP rows of LEFT4 vectors of four columns,   row r at r * LEFT_LD
//   right   two halves of STEP rows of CPB4 vectors, row r at r * RIGHT_LD, and HELD tiles of TS rows behind them
//
// While one half is multiplied, what the other one will have is on its way into registers. Rows are padded by one vector, so that neighbouring
// rows start in different banks. A thread's eight columns are two vectors half a row apart, and its strips an equal part of the rows apart, so
// that neighbouring threads read adjacent vectors, or the same ones. In each of STEP steps a thread reads STRIPS + 2 vectors and does 32 STRIPS
// multiplications.

import package::tuning::{TS, STEP, STRIPS, UNROLLED, LEFT4, CPB4, CPB8, HELD, I_PAIR, J_LANES};
import package::scalar::{Scalar4, Lanes, add_product4, conjugate, join, lanes};

const LEFT_LD = LEFT4 + 1u;
const RIGHT_LD = CPB4 + 1u;
/// Vectors of a half.
const LEFT_HALF = STEP * LEFT_LD;
const RIGHT_HALF = STEP * RIGHT_LD;
var<workgroup> left: array<Scalar4, 2u * LEFT_HALF>;
const RIGHT_TILE = TS * RIGHT_LD;
var<workgroup> right: array<Scalar4, 2u * RIGHT_HALF + HELD * RIGHT_TILE>;

/// Rows of threads: thread row i has the strips i, i + THREADS_I, ..
const THREADS_I = LEFT4 / STRIPS;

/// Four rows of four entries.
struct Tile {
    r0: Scalar4,
    r1: Scalar4,
    r2: Scalar4,
    r3: Scalar4,
}

/// Four rows of columns 4 j .. and 4 (j + CPB8) ..
struct Strip {
    near: Tile,
    far: Tile,
}

/// Strip k has the rows 4 (i + k * THREADS_I) ..
struct Piece {
    strips: array<Strip, STRIPS>,
}

/// The i (x) and j (y) of a thread's piece. Of 2 J_LANES consecutive threads, two at a time have the same j, and each second one the same i, so that
/// each read of `left` or `right` is of half as many addresses as threads: NVIDIA's workgroup memory then takes half the time.
fn place_of_piece(thread: u32) -> vec2<u32> {
    let i = thread % I_PAIR + I_PAIR * (thread / (I_PAIR * J_LANES) % (THREADS_I / I_PAIR));
    let j = thread / I_PAIR % J_LANES + J_LANES * (thread / (J_LANES * THREADS_I));
    return vec2<u32>(i, j);
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

/// sum + left^H right, for `count` rows, a multiple of 4, from `left` + l and `right` + x on, and the thread's piece. UNROLLED rows stand one after the
/// other, so that the loop costs little.
fn add_product(sum: Piece, l: u32, x: u32, count: u32, i: u32, j: u32) -> Piece {
    var w = sum;
    var of_left = l + i;
    var of_right = x + j;
    for (var r = 0u; r < count; r += UNROLLED) {
        @repeat(K, UNROLLED) {
            let near = right[of_right + K * RIGHT_LD];
            let far = right[of_right + K * RIGHT_LD + CPB8];
            @repeat(S, STRIPS) {
                let four = lanes(left[of_left + K * LEFT_LD + S * THREADS_I]);
                w.strips[S].near = add_outer_product(w.strips[S].near, four, near);
                w.strips[S].far = add_outer_product(w.strips[S].far, four, far);
            }
        }
        of_left += UNROLLED * LEFT_LD;
        of_right += UNROLLED * RIGHT_LD;
    }
    return w;
}

/// Rows 4 i .. and columns 4 j .. of the rows of `right` from `at` on = w
fn store_tile(w: Tile, at: u32, i: u32, j: u32) {
    let to_row = at + 4u * i * RIGHT_LD + j;
    right[to_row] = w.r0;
    right[to_row + RIGHT_LD] = w.r1;
    right[to_row + 2u * RIGHT_LD] = w.r2;
    right[to_row + 3u * RIGHT_LD] = w.r3;
}

/// Rows 4 i .. and columns 4 j .. of the rows of `right` from `at` on.
fn load_tile(at: u32, i: u32, j: u32) -> Tile {
    let of_row = at + 4u * i * RIGHT_LD + j;
    return Tile(right[of_row], right[of_row + RIGHT_LD], right[of_row + 2u * RIGHT_LD], right[of_row + 3u * RIGHT_LD]);
}

/// `store_tile` for a thread's piece, in the first TS rows.
fn store_piece(w: Piece, i: u32, j: u32) {
    @repeat(S, STRIPS) {
        store_tile(w.strips[S].near, 0u, i + S * THREADS_I, j);
        store_tile(w.strips[S].far, 0u, i + S * THREADS_I, j + CPB8);
    }
}
