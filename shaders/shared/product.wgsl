// Products of windows of matrices, tile by tile: what gemm, gemm_batch and update_trailing share.
//
//   C <- beta C + alpha M X     C rows x cols,  M rows x inner,  X inner x cols
//
//   The importer declares read_m and read_x, the entries of M's and X's buffers by index; read_c and write_c, the entries of C by row and
//   column; and factor, alpha and beta by their indices.
//
// Workgroup = (chunk of CPB columns, chunk of TS rows) of C. TS columns of M and TS rows of X at a time are staged in workgroup memory.
// Each of TS/4 x CPB/8 threads owns a 4 x 8 piece of C. Tiles are padded with zeros beyond the edges, so products need no bounds checks.

import package::tuning::{TS, TS4, CPB4, CPB8, GEMM_THREADS};
import package::scalar::{Scalar, Lanes, conjugate, join, lanes, multiply_add, times};
import package::tiles::{Tile, Piece, left, right, LEFT_LD, RIGHT_LD, transposed_product};

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
var<private> product: Product;

/// The conjugate of an entry of M's buffer, or what it is the conjugate of.
fn conjugate_of_m(at: u32) -> Scalar {
    let entry = read_m(at);
    return select(conjugate(entry), entry, (product.flags & CONJUGATED) != 0u);
}

/// Copies TS x TS of M, from row `row` and column `k` on, into `left` as M^H. Neighbouring threads read adjacent memory.
fn stage_left(thread: u32, row: u32, k: u32) {
    for (var e = thread; e < TS * TS4; e += GEMM_THREADS) {
        let by_columns = product.a_rs == 1u;
        let r = select(e % TS, e / TS4, by_columns);
        let i = select(e / TS, e % TS4, by_columns);
        let first = row + 4u * i;
        let at = product.a + first * product.a_rs + (k + r) * product.a_cs;
        var four = Lanes();
        if k + r < product.inner {
            // Inside M there is one comparison for four entries.
            if first + 3u < product.rows {
                four.x = conjugate_of_m(at);
                four.y = conjugate_of_m(at + product.a_rs);
                four.z = conjugate_of_m(at + 2u * product.a_rs);
                four.w = conjugate_of_m(at + 3u * product.a_rs);
            } else {
                if first < product.rows { four.x = conjugate_of_m(at); }
                if first + 1u < product.rows { four.y = conjugate_of_m(at + product.a_rs); }
                if first + 2u < product.rows { four.z = conjugate_of_m(at + 2u * product.a_rs); }
            }
        }
        left[r * LEFT_LD + i] = join(four);
    }
}

/// Copies TS x CPB of X, from row `k` and column `col` on, into `right`. Neighbouring threads read adjacent memory.
fn stage_right(thread: u32, k: u32, col: u32) {
    for (var e = thread; e < TS * CPB4; e += GEMM_THREADS) {
        let by_rows = product.x_cs == 1u;
        let r = select(e % TS, e / CPB4, by_rows);
        let j = select(e / TS, e % CPB4, by_rows);
        let first = col + 4u * j;
        let at = product.x + (k + r) * product.x_rs + first * product.x_cs;
        var four = Lanes();
        if k + r < product.inner {
            // As in `stage_left`.
            if first + 3u < product.cols {
                four.x = read_x(at);
                four.y = read_x(at + product.x_cs);
                four.z = read_x(at + 2u * product.x_cs);
                four.w = read_x(at + 3u * product.x_cs);
            } else {
                if first < product.cols { four.x = read_x(at); }
                if first + 1u < product.cols { four.y = read_x(at + product.x_cs); }
                if first + 2u < product.cols { four.z = read_x(at + 2u * product.x_cs); }
            }
        }
        right[r * RIGHT_LD + j] = join(four);
    }
}

/// The product on one workgroup's chunk of C, from row `row` and column `col` on, with `inner` columns of M. They are the same for all
/// threads of the workgroup.
fn update_chunk(thread: u32, row: u32, col: u32, inner: u32) {
    // The strides of C decide which of its entries a thread owns: neighbouring threads have entries that are adjacent in memory.
    let by_rows = product.c_cs == 1u;
    let i = select(thread % TS4, thread / CPB8, by_rows);
    let j = select(thread / TS4, thread % CPB8, by_rows);
    var sum = Piece();
    for (var k = 0u; k < inner; k += TS) {
        stage_left(thread, row, k);
        stage_right(thread, k, col);
        // Both tiles are complete before they are multiplied.
        workgroupBarrier();
        sum = transposed_product(sum, 0u, i, j);
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
    if i < product.rows {
        if j < product.cols { update(i, j, four.x); }
        if j + 1u < product.cols { update(i, j + 1u, four.y); }
        if j + 2u < product.cols { update(i, j + 2u, four.z); }
        if j + 3u < product.cols { update(i, j + 3u, four.w); }
    }
}

/// C[i, j] <- beta C[i, j] + alpha x
fn update(i: u32, j: u32, x: Scalar) {
    var old = Scalar();
    if (product.flags & REPLACED) == 0u {
        old = times(factor(product.flags >> 16u), read_c(i, j));
    }
    write_c(i, j, multiply_add(factor((product.flags >> 8u) & 255u), x, old));
}
