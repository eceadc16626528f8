// Stage 1 with deferred updates: a product of two windows of the matrix, subtracted from a third. See src/algo/deferred.rs.
//
//   C <- C - L R      C rows x cols,  L rows x inner,  R inner x cols
//
//   package::dense   the matrix [A, L; R, G] as stored, strides (rs, cs), or its transpose: C in and out, from row `row` and column `col` on; L in,
//                    from column `of_l` on in the same rows; R in, from row `of_r` on in the same columns
//
// Workgroups and threads: shared/product.wgsl.

import package::dense::{read_entry, write_entry};
import package::level::{Place, place_at};
import package::product::{Product, this_product, update_chunk};
import package::scalar::{Scalar, ONE, load, store};

struct Window {
    rs: u32,
    cs: u32,
    lines: u32,
    row: u32,
    col: u32,
    rows: u32,
    cols: u32,
    of_l: u32,
    of_r: u32,
    inner: u32,
}

/// The window of this workgroup, for addresses. What its threads branch on together is an argument: the language takes what it reads from private
/// variables for different in each of them.
var<private> window: Window;

fn place_in_matrix(at: u32) -> Place {
    return place_at(at, window.lines, max(window.rs, window.cs));
}

fn read_m(at: u32) -> Scalar {
    return load(read_entry(place_in_matrix(at)));
}

fn read_x(at: u32) -> Scalar {
    return load(read_entry(place_in_matrix(at)));
}

/// The index of C[i, j].
fn index_in_c(i: u32, j: u32) -> u32 {
    return (window.row + i) * window.rs + (window.col + j) * window.cs;
}

fn read_c(i: u32, j: u32) -> Scalar {
    return load(read_entry(place_in_matrix(index_in_c(i, j))));
}

fn write_c(i: u32, j: u32, x: Scalar) {
    write_entry(place_in_matrix(index_in_c(i, j)), store(x));
}

/// The indices of alpha = -1 and beta = 1.
const ALPHA = 1u;
const BETA = 0u;

fn factor(k: u32) -> Scalar {
    return select(ONE, -ONE, k == ALPHA);
}

/// C <- C - L R on the chunk of a workgroup from row `row` and column `col` of C on, with `inner` columns of L. They are the same for all threads of the
/// workgroup.
fn subtract_in_chunk(thread: u32, row: u32, col: u32, inner: u32) {
    this_product = Product();
    this_product.rows = window.rows;
    this_product.cols = window.cols;
    this_product.inner = inner;
    this_product.a = window.row * window.rs + window.of_l * window.cs;
    this_product.a_rs = window.rs;
    this_product.a_cs = window.cs;
    this_product.x = window.of_r * window.rs + window.col * window.cs;
    this_product.x_rs = window.rs;
    this_product.x_cs = window.cs;
    this_product.flags = 256u * ALPHA + 65536u * BETA;
    update_chunk(thread, row, col, inner);
}
