// The matrix product, on windows of two matrices.
//
//   C <- beta C + alpha M X     C rows x cols,  M rows x inner,  X inner x cols
//
//   bindings: shared/operands.wgsl. X and C are windows of b with disjoint rows: X in at params.x, C in and out at params.c
//
// Workgroups and threads: shared/product.wgsl.

import package::tuning::{CPB, GEMM_THREADS};
import package::operands::{a, b, factors};
import package::product::{Product, this_product, RPB, update_chunk};
import package::scalar::{Scalar, load, store};

@if(immediates) var<immediate> params: Product;
@else @group(0) @binding(3) var<uniform> params: Product;

fn read_m(at: u32) -> Scalar {
    return load(a[at]);
}

fn read_x(at: u32) -> Scalar {
    return load(b[at]);
}

fn read_c(i: u32, j: u32) -> Scalar {
    return load(b[params.c + i * params.c_rs + j * params.c_cs]);
}

fn write_c(i: u32, j: u32, x: Scalar) {
    b[params.c + i * params.c_rs + j * params.c_cs] = store(x);
}

fn factor(k: u32) -> Scalar {
    return factors[k];
}

@compute @workgroup_size(GEMM_THREADS)
fn gemm(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = (workgroup.y + workgroup.z * workgroups.y) * RPB;
    if row >= params.rows {
        return;
    }
    this_product = params;
    update_chunk(thread, row, workgroup.x * CPB, params.inner);
}
