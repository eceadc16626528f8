// Shared by the two base kernels of the triangular recursion: bindings, the triangle, and a piece of B.
//
//   bindings: shared/operands.wgsl, with B_ij = b[params.b + i b_rs + j b_cs]
//
// Rows are numbered in the order of substitution, so that M is lower triangular. Row p is row p of a lower triangle, and row order - 1 - p
// of an upper triangle. Entries (p, q) of M with q < p are read, and the diagonal unless it is a unit diagonal.
//
// A workgroup has BASE x GROUPS threads and 4 GROUPS columns of B. Thread (p, g) has row p and columns 4 g .. 4 g + 4.

import package::tuning::{BASE, GROUPS, TRIANGLE_THREADS};
import package::operands::{a, b, factors, entry_of_m};
import package::scalar::{Scalar, Scalar4, Lanes, ONE, join, lanes, load, store, times};

struct Params {
    /// Order of the triangle, at most BASE.
    order: u32,
    /// Columns of B.
    cols: u32,
    a: u32,
    a_rs: u32,
    a_cs: u32,
    b: u32,
    b_rs: u32,
    b_cs: u32,
    /// The sum of 1 (conjugated), 2 (lower), 4 (unit diagonal), and 256 times alpha's index.
    flags: u32,
}

@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(3) var<uniform> params: Params;

/// Entry (p, q) is at p * TRIANGLE_LD + q, q <= p. Rows are padded by one entry, so that neighbouring rows start in different banks.
const TRIANGLE_LD = BASE + 1u;
var<workgroup> triangle: array<Scalar, BASE * TRIANGLE_LD>;

/// The row of B that is p-th in the order of substitution.
fn row_of(p: u32) -> u32 {
    return select(params.order - 1u - p, p, (params.flags & 2u) != 0u);
}

/// Copies the triangle to workgroup memory. Neighbouring threads read adjacent memory.
fn stage_triangle(thread: u32) {
    let unit = (params.flags & 4u) != 0u;
    for (var e = thread; e < BASE * BASE; e += TRIANGLE_THREADS) {
        let by_columns = params.a_rs == 1u;
        let p = select(e / BASE, e % BASE, by_columns);
        let q = select(e % BASE, e / BASE, by_columns);
        if p < params.order && q <= p {
            if unit && p == q {
                triangle[p * TRIANGLE_LD + q] = ONE;
            } else {
                let at = params.a + row_of(p) * params.a_rs + row_of(q) * params.a_cs;
                triangle[p * TRIANGLE_LD + q] = entry_of_m(at, (params.flags & 1u) != 0u);
            }
        }
    }
}

/// A thread's share: row p and group g, and the first of its four columns of B.
struct Own {
    p: u32,
    g: u32,
    col: u32,
}

/// The share of a thread of workgroup number `chunk`.
fn own(thread: u32, chunk: u32) -> Own {
    let by_columns = params.b_rs == 1u;
    let g = select(thread % GROUPS, thread / BASE, by_columns);
    return Own(select(thread / GROUPS, thread % BASE, by_columns), g, (chunk * GROUPS + g) * 4u);
}

/// alpha B[p, col..col + 4], zeros outside B.
fn load_four(p: u32, col: u32) -> Scalar4 {
    var four = Lanes();
    if p < params.order {
        let alpha = factors[params.flags >> 8u];
        let at = params.b + row_of(p) * params.b_rs;
        if col < params.cols { four.x = times(alpha, load(b[at + col * params.b_cs])); }
        if col + 1u < params.cols { four.y = times(alpha, load(b[at + (col + 1u) * params.b_cs])); }
        if col + 2u < params.cols { four.z = times(alpha, load(b[at + (col + 2u) * params.b_cs])); }
        if col + 3u < params.cols { four.w = times(alpha, load(b[at + (col + 3u) * params.b_cs])); }
    }
    return join(four);
}

/// B[p, col..col + 4] <- x, where B has these entries.
fn store_four(p: u32, col: u32, x: Scalar4) {
    if p < params.order {
        let four = lanes(x);
        let at = params.b + row_of(p) * params.b_rs;
        if col < params.cols { b[at + col * params.b_cs] = store(four.x); }
        if col + 1u < params.cols { b[at + (col + 1u) * params.b_cs] = store(four.y); }
        if col + 2u < params.cols { b[at + (col + 2u) * params.b_cs] = store(four.z); }
        if col + 3u < params.cols { b[at + (col + 3u) * params.b_cs] = store(four.w); }
    }
}
