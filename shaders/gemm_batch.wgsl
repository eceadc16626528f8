// Independent matrix products in one dispatch, on windows of three matrices.
//
//   C <- beta C + alpha M X     C rows x cols,  M rows x inner,  X inner x cols,  for each of the tasks
//
//   a, b, c   the matrices of which the M, X and C are windows; c in and out. a and b may be the same.
//   factors   alpha and beta, by their indices
//   tasks     the products
//
// In the variant `mixed`, X and C are stored in the type of the arithmetic, whatever M is stored as; in the variant `bf16`, M is stored as that, two entries in
// a number, and the arithmetic is f32.
//
// Workgroups and threads: shared/product.wgsl. Workgroup z has the task params.first + z.

import package::tuning::{CPB, GEMM_THREADS};
import package::product::{Product, this_product, RPB, UPPER_C, UPPER_X, update_chunk};
import package::scalar::{Scalar, Stored, load, store};

struct Params {
    first: u32,
}

@if(bf16) @group(0) @binding(0) var<storage, read> a: array<u32>;
@else @group(0) @binding(0) var<storage, read> a: array<Stored>;
@if(mixed) alias Other = Scalar;
@else alias Other = Stored;
@group(0) @binding(1) var<storage, read> b: array<Other>;
@group(0) @binding(2) var<storage, read> factors: array<Scalar>;
@group(0) @binding(3) var<storage, read> tasks: array<Product>;
@group(0) @binding(4) var<storage, read_write> c: array<Other>;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(5) var<uniform> params: Params;

@if(bf16) fn read_m(at: u32) -> Scalar {
    // The upper halves of two numbers of f32: that of the first entry is below.
    let pair = a[at / 2u];
    return bitcast<f32>(select(pair << 16u, pair & 0xffff0000u, at % 2u == 1u));
}
@else fn read_m(at: u32) -> Scalar {
    return load(a[at]);
}

@if(mixed) fn read_x(at: u32) -> Scalar {
    return b[at];
}
@else fn read_x(at: u32) -> Scalar {
    return load(b[at]);
}

@if(mixed) fn read_c(i: u32, j: u32) -> Scalar {
    return c[this_product.c + i * this_product.c_rs + j * this_product.c_cs];
}
@else fn read_c(i: u32, j: u32) -> Scalar {
    return load(c[this_product.c + i * this_product.c_rs + j * this_product.c_cs]);
}

@if(mixed) fn write_c(i: u32, j: u32, x: Scalar) {
    c[this_product.c + i * this_product.c_rs + j * this_product.c_cs] = x;
}
@else fn write_c(i: u32, j: u32, x: Scalar) {
    c[this_product.c + i * this_product.c_rs + j * this_product.c_cs] = store(x);
}

fn factor(k: u32) -> Scalar {
    return factors[k];
}

@compute @workgroup_size(GEMM_THREADS)
fn gemm_batch(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    // The same for all threads of the workgroup, as loops with barriers need it: it comes from what is only read.
    let task = tasks[params.first + workgroup.z];
    this_product = task;
    let row = workgroup.y * RPB;
    let col = workgroup.x * CPB;
    // The columns of the larger C up to the last of this workgroup.
    let end = task.first + col + CPB;
    if row >= task.rows || col >= task.cols || ((task.flags & UPPER_C) != 0u && row >= end) {
        return;
    }
    let inner = select(task.inner, min(task.inner, end), (task.flags & UPPER_X) != 0u);
    update_chunk(thread, row, col, inner);
}
