// One-stage reduction: the update of the trailing matrix by a panel, one product of rank 2 b. Twin: src/cpu/one_stage.
//
//   C <- C - P R^T      C rows x cols,  P rows x inner,  R cols x inner
//
//   package::dense   the matrix as stored, strides (rs, cs): C in and out, from row `row` and column `col` on
//   panels           P and R in, as shared/panels.wgsl has them
//
// Workgroups and threads: shared/product.wgsl, for the product of P and R^T.

import package::tuning::{CPB, PAIRS, GEMM_THREADS};
import package::dense::{read_entry, write_entry};
import package::level::{Level, Place, place_of};
import package::product::{Product, this_product, RPB, update_chunk};
import package::scalar::{Scalar, ONE, load, store};

struct Params {
    rs: u32,
    cs: u32,
    lines: u32,
    row: u32,
    col: u32,
    rows: u32,
    cols: u32,
    inner: u32,
    ld: u32,
}

@group(0) @binding(0) var<storage, read_write> panels: array<Scalar>;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(1) var<uniform> params: Params;

fn read_m(at: u32) -> Scalar {
    return panels[at];
}

fn read_x(at: u32) -> Scalar {
    return panels[at];
}

/// The place of C[i, j].
fn place_in_c(i: u32, j: u32) -> Place {
    var level = Level();
    level.rs = params.rs;
    level.cs = params.cs;
    level.lines = params.lines;
    return place_of(level, params.row + i, params.col + j);
}

fn read_c(i: u32, j: u32) -> Scalar {
    return load(read_entry(place_in_c(i, j)));
}

fn write_c(i: u32, j: u32, x: Scalar) {
    write_entry(place_in_c(i, j), store(x));
}

/// The indices of alpha = -1 and beta = 1.
const ALPHA = 1u;
const BETA = 0u;

fn factor(k: u32) -> Scalar {
    return select(ONE, -ONE, k == ALPHA);
}

@compute @workgroup_size(GEMM_THREADS)
fn update_trailing(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = (workgroup.y + workgroup.z * workgroups.y) * RPB;
    if row >= params.rows {
        return;
    }
    this_product = Product();
    this_product.rows = params.rows;
    this_product.cols = params.cols;
    this_product.inner = params.inner;
    // P from row `row` on, by columns; R^T from column `col` on, by rows.
    this_product.a = params.row;
    this_product.a_rs = 1u;
    this_product.a_cs = params.ld;
    this_product.x = PAIRS * params.ld + params.col;
    this_product.x_rs = params.ld;
    this_product.x_cs = 1u;
    this_product.c_cs = params.cs;
    this_product.flags = 256u * ALPHA + 65536u * BETA;
    update_chunk(thread, row, workgroup.x * CPB, params.inner);
}
