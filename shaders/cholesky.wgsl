// Cholesky's factor of a diagonal block, and the inverse of its adjoint. Blocks of rows: `GpuKernels::cholesky` (src/gpu/kernels/cholesky.rs).
//
//   G = R^H R,  R upper triangular
//   G = L D L^H by elimination:   R = D^1/2 L^H,   R^-H = D^-1/2 L^-1
//
//   g         matrix of which the block's upper triangle is read
//   r         matrix with R in the same block, zeros below its diagonal, out
//   inverse   R^-H, BLOCK x BLOCK by rows, zeros above the diagonal, out
//
// One workgroup. s has what is left of G on and above the diagonal, and L^-1 below. Step k subtracts conj(s_ki) / s_kk times row k, of [G, L^-1], from each
// row i > k: row k is not written any more. If G is not positive definite, entries are not finite.

import package::tuning::{BLOCK, LINEAR_THREADS};
import package::scalar::{Real, Scalar, ONE, conjugate, multiply_add, real_part};

struct Params {
    /// Order of the block.
    order: u32,
    g: u32,
    g_rs: u32,
    g_cs: u32,
    r: u32,
    r_rs: u32,
    r_cs: u32,
}

@group(0) @binding(0) var<storage, read_write> g: array<Scalar>;
@group(0) @binding(1) var<storage, read_write> r: array<Scalar>;
@group(0) @binding(2) var<storage, read_write> inverse: array<Scalar>;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(3) var<uniform> params: Params;

var<workgroup> s: array<Scalar, BLOCK * BLOCK>;

@compute @workgroup_size(LINEAR_THREADS)
fn cholesky(@builtin(local_invocation_index) thread: u32) {
    for (var e = thread; e < BLOCK * BLOCK; e += LINEAR_THREADS) {
        let i = e / BLOCK;
        let j = e % BLOCK;
        var entry = Scalar();
        if i <= j && j < params.order {
            entry = g[params.g + i * params.g_rs + j * params.g_cs];
        }
        s[e] = entry;
    }
    for (var k = 0u; k < params.order; k++) {
        workgroupBarrier();
        let inverse_pivot = Real(1.0) / real_part(s[k * BLOCK + k]);
        for (var e = thread; e < BLOCK * BLOCK; e += LINEAR_THREADS) {
            let i = e / BLOCK;
            let j = e % BLOCK;
            // L^-1 has zeros between columns k and i of row k.
            if i > k && i < params.order && (j <= k || j >= i) {
                let factor = -inverse_pivot * conjugate(s[k * BLOCK + i]);
                var row = ONE;
                if j != k {
                    row = s[k * BLOCK + j];
                }
                s[e] = multiply_add(factor, row, s[e]);
            }
        }
    }
    // The last step writes nothing, and its barrier is before all that follows.
    for (var e = thread; e < BLOCK * BLOCK; e += LINEAR_THREADS) {
        let i = e / BLOCK;
        let j = e % BLOCK;
        var factor = Scalar();
        var of_inverse = Scalar();
        if i < params.order && j < params.order {
            let root = sqrt(real_part(s[i * BLOCK + i]));
            if j >= i {
                factor = (Real(1.0) / root) * s[e];
            }
            if j == i {
                factor = root * ONE;
                of_inverse = (Real(1.0) / root) * ONE;
            }
            if j < i {
                of_inverse = (Real(1.0) / root) * s[e];
            }
            r[params.r + i * params.r_rs + j * params.r_cs] = factor;
        }
        inverse[e] = of_inverse;
    }
}
