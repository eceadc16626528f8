// The base case of the triangular recursion for solving. Twin: src/cpu/triangular/trsm.rs.
//
//   B <- alpha M^-1 B     M order x order triangular, order <= BASE;  B order x cols
//
//   bindings, and the order of rows: shared/triangle.wgsl
//
// Workgroup = chunk of 4 GROUPS columns of B. Thread (p, g) of BASE x GROUPS holds row p, columns 4 g .. 4 g + 4 of the chunk, in
// registers. Forward substitution takes one step per row:
//
//   x_k <- x_k / M_kk;    p > k:  x_p <- x_p - M_pk x_k

import package::tuning::{GROUPS, TRIANGLE_THREADS};
import package::scalar::{Scalar, Scalar4, add_product4, conjugate};
import package::triangle::{TRIANGLE_LD, params, triangle, stage_triangle, own, load_four, store_four};

/// Row k of the solution. Double-buffered: one half for even k, one for odd k.
var<workgroup> solved: array<Scalar4, 2 * GROUPS>;

/// x / d
fn divide4(x: Scalar4, d: Scalar) -> Scalar4 {
    @if(complex) {
        // Divides by d / |d|_max, whose modulus is in 1 .. sqrt(2), so that no square overflows.
        let size = max(abs(d.x), abs(d.y));
        let e = d / size;
        return add_product4(Scalar4(), conjugate(e) / (e.x * e.x + e.y * e.y), Scalar4(x.xy / size, x.zw / size));
    }
    @else return x / d;
}

@compute @workgroup_size(TRIANGLE_THREADS)
fn trsm(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let mine = own(thread, workgroup.x + workgroup.y * workgroups.x);
    let p = mine.p;
    let g = mine.g;
    stage_triangle(thread);
    // The triangle is complete before its rows are read.
    workgroupBarrier();
    var x = load_four(p, mine.col);
    for (var k = 0u; k < params.order; k++) {
        if p == k {
            x = divide4(x, triangle[k * TRIANGLE_LD + k]);
            solved[(k % 2u) * GROUPS + g] = x;
        }
        // Row k is complete before it is read. (Double buffering: no thread still reads row k - 2, which this one overwrites.)
        workgroupBarrier();
        if p > k && p < params.order {
            x = add_product4(x, -triangle[p * TRIANGLE_LD + k], solved[(k % 2u) * GROUPS + g]);
        }
    }
    store_four(p, mine.col, x);
}
