// Stage 1 with deferred updates: the products of the matrix with a panel's V T, in parts of rows. See src/algo/deferred.rs.
//
//   parts[k][l, j] = sum over r of A[row + r, col + l] x[r, j]     for l < cols, j < stride, and the rows r of part k
//
//   package::dense   the matrix [A, L; R, G] as stored, strides (rs, cs), or its transpose, in
//   x                the conjugate of V T, stride entries a row, in
//   parts            cols x stride entries each, by rows, out
//
// Workgroup = (chunk of columns j, chunk of l, part): shared/product.wgsl, for the product of A^T and x. Parts have `at_once` rows: sums of more would have
// larger errors, and there would be too few workgroups.

import package::tuning::{CPB, GEMM_THREADS};
import package::dense::{read_entry};
import package::level::{place_at};
import package::product::{Product, this_product, RPB, REPLACED, update_chunk};
import package::scalar::{Scalar, ONE, load};

struct Params {
    rs: u32,
    cs: u32,
    lines: u32,
    row: u32,
    rows: u32,
    col: u32,
    cols: u32,
    /// The first l of this dispatch.
    first: u32,
    at_once: u32,
    stride: u32,
}

@group(0) @binding(0) var<storage, read> x: array<Scalar>;
@group(0) @binding(1) var<storage, read_write> parts: array<Scalar>;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(2) var<uniform> params: Params;

/// The part of this workgroup.
var<private> part: u32;

fn read_m(at: u32) -> Scalar {
    return load(read_entry(place_at(at, params.lines, max(params.rs, params.cs))));
}

fn read_x(at: u32) -> Scalar {
    return x[at];
}

/// C is replaced.
fn read_c(i: u32, j: u32) -> Scalar {
    return Scalar();
}

fn write_c(i: u32, j: u32, entry: Scalar) {
    parts[(part * params.cols + i) * params.stride + j] = entry;
}

fn factor(k: u32) -> Scalar {
    return ONE;
}

@compute @workgroup_size(GEMM_THREADS)
fn multiply_panel(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let row = params.first + workgroup.y * RPB;
    part = workgroup.z;
    // Not by way of `part`: the language takes what is read from private variables for different in each thread, and there are barriers below.
    let done = workgroup.z * params.at_once;
    if row >= params.cols || done >= params.rows {
        return;
    }
    this_product = Product();
    this_product.rows = params.cols;
    this_product.cols = params.stride;
    this_product.inner = min(params.at_once, params.rows - done);
    this_product.a = (params.row + done) * params.rs + params.col * params.cs;
    this_product.a_rs = params.cs;
    this_product.a_cs = params.rs;
    this_product.x = done * params.stride;
    this_product.x_rs = params.stride;
    this_product.x_cs = 1u;
    this_product.flags = REPLACED;
    update_chunk(thread, row, workgroup.x * CPB, min(params.at_once, params.rows - done));
}
