// Stage 1 with deferred updates: a product of two windows of the matrix, subtracted from a third. See src/algo/deferred.rs.
//
//   C <- C - L R      C rows x cols,  L rows x inner,  R inner x cols
//
//   package::dense   the matrix [A, L; R, G] as stored, strides (rs, cs), or its transpose: C in and out, from row `row` and column `col` on; L in,
//                    from column `of_l` on in the same rows; R in, from row `of_r` on in the same columns
//
// Workgroups and threads: shared/product.wgsl.

import package::tuning::{CPB, GEMM_THREADS};
import package::dense::{read_entry, write_entry};
import package::level::{place_at};
import package::product::{Product, product, RPB, update_chunk};
import package::scalar::{Scalar, ONE, load, store};

struct Params {
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

@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(0) var<uniform> params: Params;

fn read_m(at: u32) -> Scalar {
    return load(read_entry(place_at(at, params.lines, max(params.rs, params.cs))));
}

fn read_x(at: u32) -> Scalar {
    return load(read_entry(place_at(at, params.lines, max(params.rs, params.cs))));
}

/// The index of C[i, j].
fn index_in_c(i: u32, j: u32) -> u32 {
    return (params.row + i) * params.rs + (params.col + j) * params.cs;
}

fn read_c(i: u32, j: u32) -> Scalar {
    return load(read_entry(place_at(index_in_c(i, j), params.lines, max(params.rs, params.cs))));
}

fn write_c(i: u32, j: u32, x: Scalar) {
    write_entry(place_at(index_in_c(i, j), params.lines, max(params.rs, params.cs)), store(x));
}

/// The indices of alpha = -1 and beta = 1.
const ALPHA = 1u;
const BETA = 0u;

fn factor(k: u32) -> Scalar {
    return select(ONE, -ONE, k == ALPHA);
}

@compute @workgroup_size(GEMM_THREADS)
fn subtract_deferred(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = (workgroup.y + workgroup.z * workgroups.y) * RPB;
    if row >= params.rows {
        return;
    }
    product = Product();
    product.rows = params.rows;
    product.cols = params.cols;
    product.inner = params.inner;
    product.a = params.row * params.rs + params.of_l * params.cs;
    product.a_rs = params.rs;
    product.a_cs = params.cs;
    product.x = params.of_r * params.rs + params.col * params.cs;
    product.x_rs = params.rs;
    product.x_cs = params.cs;
    product.flags = 256u * ALPHA + 65536u * BETA;
    update_chunk(thread, row, workgroup.x * CPB, params.inner);
}
