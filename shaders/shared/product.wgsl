// Products of windows of matrices, tile by tile: what gemm, gemm_batch and update_trailing share.
//
//   C <- beta C + alpha M X     C rows x cols,  M rows x inner,  X inner x cols
//
//   The importer declares read_m and read_x, the entries of M's and X's buffers by index; read_c and write_c, the entries of C by row and
//   column; and factor, alpha and beta by their indices.
//
// Workgroup = (chunk of CPB columns, chunk of RPB rows) of C. TS columns of M and TS rows of X at a time are staged in workgroup memory.
// Each of RPB/4 x CPB/8 threads owns a 4 x 8 piece of C. Tiles are padded with zeros beyond the edges, so products need no bounds checks.

import package::tuning::{TS, LEFT4, CPB4, CPB8, GEMM_THREADS};
import package::scalar::{Scalar, Lanes, conjugate, join, lanes, multiply_add, times};
import package::tiles::{Tile, Piece, left, right, LEFT_LD, RIGHT_LD, transposed_product};

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
var<private> product: Product;

/// The conjugate of an entry of M^T's buffer or of what it is the conjugate of, or an entry of X's buffer.
fn read_operand(of_m: bool, at: u32) -> Scalar {
    var entry = Scalar();
    if of_m {
        entry = read_m(at);
        entry = select(conjugate(entry), entry, (product.flags & CONJUGATED) != 0u);
    } else {
        entry = read_x(at);
    }
    return entry;
}

/// Copies TS rows from row k on, and as many columns as a tile has from column `col` on, of conj(M^T) into `left` or of X into `right`.
/// Neighbouring threads read adjacent memory.
fn stage(thread: u32, of_m: bool, k: u32, col: u32) {
    let width4 = select(CPB4, LEFT4, of_m);
    let start = select(product.x, product.a, of_m);
    let rs = select(product.x_rs, product.a_cs, of_m);
    let cs = select(product.x_cs, product.a_rs, of_m);
    let cols = select(product.cols, product.rows, of_m);
    for (var e = thread; e < TS * width4; e += GEMM_THREADS) {
        let by_rows = cs == 1u;
        let r = select(e % TS, e / width4, by_rows);
        let c = select(e / TS, e % width4, by_rows);
        let first = col + 4u * c;
        let at = start + (k + r) * rs + first * cs;
        var four = Lanes();
        if k + r < product.inner {
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
        if of_m { left[r * LEFT_LD + c] = join(four); } else { right[r * RIGHT_LD + c] = join(four); }
    }
}

/// The product on one workgroup's chunk of C, from row `row` and column `col` on, with `inner` columns of M. They are the same for all
/// threads of the workgroup.
fn update_chunk(thread: u32, row: u32, col: u32, inner: u32) {
    // The strides of C decide which of its entries a thread owns: neighbouring threads have entries that are adjacent in memory.
    let by_rows = product.c_cs == 1u;
    let i = select(thread % LEFT4, thread / CPB8, by_rows);
    let j = select(thread / LEFT4, thread % CPB8, by_rows);
    var sum = Piece();
    for (var k = 0u; k < inner; k += TS) {
        stage(thread, true, k, row);
        stage(thread, false, k, col);
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
