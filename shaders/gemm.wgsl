// The matrix product, on windows of two matrices.
//
//   C <- beta C + alpha M X     C rows x cols,  M rows x inner,  X inner x cols
//
//   bindings: shared/operands.wgsl. X and C are windows of b with disjoint rows: X in at params.x, C in and out at params.c
//
// Workgroups and threads: shared/product.wgsl.

import package::tuning::{TS, CPB, CPB8, GEMM_THREADS};
import package::operands::{a, b, factors};
import package::product::{Product, product, stage_left, stage_right, row_of_piece, column_of_piece, update_tile};
import package::scalar::{Scalar, load, store};
import package::tiles::{Piece, transposed_product};

@if(immediates) var<immediate> params: Product;
@else @group(0) @binding(3) var<uniform> params: Product;

fn read_m(at: u32) -> Scalar {
    return load(a[at]);
}

fn read_x(at: u32) -> Scalar {
    return load(b[at]);
}

fn read_c(at: u32) -> Scalar {
    return load(b[at]);
}

fn factor(k: u32) -> Scalar {
    return factors[k];
}

fn write_c(at: u32, x: Scalar) {
    b[at] = store(x);
}

@compute @workgroup_size(GEMM_THREADS)
fn gemm(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = (workgroup.y + workgroup.z * workgroups.y) * TS;
    if row >= params.rows {
        return;
    }
    product = params;
    let col = workgroup.x * CPB;
    let i = row_of_piece(thread);
    let j = column_of_piece(thread);

    var sum = Piece();
    for (var k = 0u; k < params.inner; k += TS) {
        stage_left(thread, row, k);
        stage_right(thread, k, col);
        // Both tiles are complete before they are multiplied.
        workgroupBarrier();
        sum = transposed_product(sum, i, j);
        // All threads have read the tiles before they are overwritten.
        workgroupBarrier();
    }
    update_tile(row + 4u * i, col + 4u * j, sum.near);
    update_tile(row + 4u * i, col + 4u * (j + CPB8), sum.far);
}
