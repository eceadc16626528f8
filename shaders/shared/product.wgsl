// Products of windows of matrices, tile by tile: what gemm, gemm_batch, update_trailing, multiply_panel, subtract_deferred and geqrt_and_subtract share.
//
//   C <- beta C + alpha M X     C rows x cols,  M rows x inner,  X inner x cols
//
//   The importer declares read_m and read_x, the entries of M's and X's buffers by index; read_c and write_c, the entries of C by row and
//   column; and factor, alpha and beta by their indices.
//
// Workgroup = (chunk of CPB columns, chunk of RPB rows) of C. STEP columns of M and STEP rows of X at a time are staged in workgroup memory; the next
// ones are on their way into registers while these are multiplied (`ahead`: not in c64, whose pieces fill the registers). Each of
// RPB/(4 STRIPS) x CPB/8 threads owns a piece of C. Tiles are padded with zeros beyond the edges, so products need no bounds checks.

import package::tuning::{STEP, STRIPS, LEFT4, CPB4, CPB8, LEFT_LOADS, RIGHT_LOADS, GEMM_THREADS};
import package::scalar::{Scalar, Scalar4, Lanes, conjugate, join, lanes, multiply_add, times};
import package::tiles::{
    Tile, Piece, left, right, LEFT_LD, LEFT_HALF, RIGHT_LD, RIGHT_HALF, THREADS_I, add_product, place_of_piece
};

/// Rows of C of a workgroup.
const RPB = 4u * LEFT4;

struct Product {
    rows: u32,
    cols: u32,
    inner: u32,
    /// First entry and strides of M, X and C. Of C, `update_chunk` reads only the stride of columns.
    a: u32,
    a_rs: u32,
    a_cs: u32,
    x: u32,
    x_rs: u32,
    x_cs: u32,
    c: u32,
    c_rs: u32,
    c_cs: u32,
    /// The column of a larger C at which this one begins. Triangles begin at column 0 of that.
    first: u32,
    /// The sum of the flags below, 256 times alpha's index, and 65536 times beta's index.
    flags: u32,
}

/// The entries of M are conjugates of those of a.
const CONJUGATED = 1u;
/// C is replaced by alpha M X, without being read.
const REPLACED = 2u;
/// Tiles of C below the diagonal are not computed.
const UPPER_C = 4u;
/// X is upper triangular.
const UPPER_X = 8u;

/// The product of this workgroup.
var<private> this_product: Product;

/// The conjugate of an entry of M^T's buffer or of what it is the conjugate of, or an entry of X's buffer.
fn read_operand(of_m: bool, at: u32) -> Scalar {
    var entry = Scalar();
    if of_m {
        entry = read_m(at);
        entry = select(conjugate(entry), entry, (this_product.flags & CONJUGATED) != 0u);
    } else {
        entry = read_x(at);
    }
    return entry;
}

/// The row (x) and the vector of columns (y) that a thread takes of STEP rows of conj(M^T) or X as its load e. Neighbouring threads read adjacent memory.
fn place_of_load(of_m: bool, e: u32) -> vec2<u32> {
    let width4 = select(CPB4, LEFT4, of_m);
    let by_rows = select(this_product.x_cs, this_product.a_rs, of_m) == 1u;
    return vec2<u32>(select(e % STEP, e / width4, by_rows), select(e / STEP, e % width4, by_rows));
}

/// Load e of the STEP rows from row k on, and of as many columns as a tile has from column `col` on, of conj(M^T) or of X.
fn load_four(of_m: bool, e: u32, k: u32, col: u32) -> Scalar4 {
    let start = select(this_product.x, this_product.a, of_m);
    let rs = select(this_product.x_rs, this_product.a_cs, of_m);
    let cs = select(this_product.x_cs, this_product.a_rs, of_m);
    let cols = select(this_product.cols, this_product.rows, of_m);
    let place = place_of_load(of_m, e);
    let first = col + 4u * place.y;
    let at = start + (k + place.x) * rs + first * cs;
    var four = Lanes();
    if k + place.x < this_product.inner {
        // Inside the matrix there is one comparison for four entries.
        if first + 3u < cols {
            four.x = read_operand(of_m, at);
            four.y = read_operand(of_m, at + cs);
            four.z = read_operand(of_m, at + 2u * cs);
            four.w = read_operand(of_m, at + 3u * cs);
        } else {
            if first < cols { four.x = read_operand(of_m, at); }
            if first + 1u < cols { four.y = read_operand(of_m, at + cs); }
            if first + 2u < cols { four.z = read_operand(of_m, at + 2u * cs); }
        }
    }
    return join(four);
}

/// A thread's part of the rows of conj(M^T) from row k on.
fn load_left(thread: u32, k: u32, row: u32) -> array<Scalar4, LEFT_LOADS> {
    var fours = array<Scalar4, LEFT_LOADS>();
    @repeat(K, LEFT_LOADS) {
        let e = thread + K * GEMM_THREADS;
        if e < STEP * LEFT4 { fours[K] = load_four(true, e, k, row); }
    }
    return fours;
}

/// A thread's part of the rows of X from row k on.
fn load_right(thread: u32, k: u32, col: u32) -> array<Scalar4, RIGHT_LOADS> {
    var fours = array<Scalar4, RIGHT_LOADS>();
    @repeat(K, RIGHT_LOADS) {
        let e = thread + K * GEMM_THREADS;
        if e < STEP * CPB4 { fours[K] = load_four(false, e, k, col); }
    }
    return fours;
}

/// Stores a thread's parts in a half of `left` and of `right`.
fn store_step(thread: u32, half: u32, of_m: array<Scalar4, LEFT_LOADS>, of_x: array<Scalar4, RIGHT_LOADS>) {
    @repeat(K, LEFT_LOADS) {
        let e = thread + K * GEMM_THREADS;
        let place = place_of_load(true, e);
        if e < STEP * LEFT4 { left[half * LEFT_HALF + place.x * LEFT_LD + place.y] = of_m[K]; }
    }
    @repeat(K, RIGHT_LOADS) {
        let e = thread + K * GEMM_THREADS;
        let place = place_of_load(false, e);
        if e < STEP * CPB4 { right[half * RIGHT_HALF + place.x * RIGHT_LD + place.y] = of_x[K]; }
    }
}

/// The product on one workgroup's chunk of C, from row `row` and column `col` on, with `inner` columns of M. They are the same for all
/// threads of the workgroup.
fn update_chunk(thread: u32, row: u32, col: u32, inner: u32) {
    let place = place_of_piece(thread);
    var sum = Piece();
    // In each round what is in one half is multiplied, and what comes next is loaded and stored in the other one.
    for (var k = 0u; k < inner + STEP; k += STEP) {
        let half = k / STEP % 2u;
        var of_m = array<Scalar4, LEFT_LOADS>();
        var of_x = array<Scalar4, RIGHT_LOADS>();
        @if(ahead) {
            if k < inner {
                of_m = load_left(thread, k, row);
                of_x = load_right(thread, k, col);
            }
        }
        if k > 0u { sum = add_product(sum, (1u - half) * LEFT_HALF, (1u - half) * RIGHT_HALF, STEP, place.x, place.y); }
        if k < inner {
            @if(!ahead) {
                of_m = load_left(thread, k, row);
                of_x = load_right(thread, k, col);
            }
            store_step(thread, half, of_m, of_x);
        }
        // This half is complete before it is multiplied, and all threads have read the other one before it is overwritten.
        workgroupBarrier();
    }
    @repeat(S, STRIPS) {
        let i = row + 4u * (place.x + S * THREADS_I);
        update_tile(i, col + 4u * place.y, sum.strips[S].near);
        update_tile(i, col + 4u * (place.y + CPB8), sum.strips[S].far);
    }
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
    if i < this_product.rows {
        if j < this_product.cols { update(i, j, four.x); }
        if j + 1u < this_product.cols { update(i, j + 1u, four.y); }
        if j + 2u < this_product.cols { update(i, j + 2u, four.z); }
        if j + 3u < this_product.cols { update(i, j + 3u, four.w); }
    }
}

/// C[i, j] <- beta C[i, j] + alpha x
fn update(i: u32, j: u32, x: Scalar) {
    var old = Scalar();
    if (this_product.flags & REPLACED) == 0u {
        old = times(factor(this_product.flags >> 16u), read_c(i, j));
    }
    write_c(i, j, multiply_add(factor((this_product.flags >> 8u) & 255u), x, old));
}
