// The base case of the triangular recursion for multiplication. Twin: src/cpu/triangular/trmm.rs.
//
//   B <- alpha M B     M order x order triangular, order <= BASE;  B order x cols
//
//   bindings, and the order of rows: shared/triangle.wgsl
//
// Workgroup = chunk of 4 GROUPS columns of B. Thread (p, g) of BASE x GROUPS computes row p, columns 4 g .. 4 g + 4 of the chunk:
//
//   x_p <- sum_{q <= p} M_pq x_q

import package::tuning::{BASE, GROUPS, TRIANGLE_THREADS};
import package::scalar::{Scalar4, add_product4};
import package::triangle::{TRIANGLE_LD, params, triangle, stage_triangle, own, load_four, store_four};

/// alpha B, row p of group g at p * GROUPS + g.
var<workgroup> old: array<Scalar4, BASE * GROUPS>;

@compute @workgroup_size(TRIANGLE_THREADS)
fn trmm(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let mine = own(thread, workgroup.x + workgroup.y * workgroups.x);
    let p = mine.p;
    let g = mine.g;
    stage_triangle(thread);
    old[p * GROUPS + g] = load_four(p, mine.col);
    // The triangle and the old rows are complete before they are multiplied, and every row has been read before any is overwritten.
    workgroupBarrier();
    if p < params.order {
        var sum = Scalar4();
        for (var q = 0u; q <= p; q++) {
            sum = add_product4(sum, triangle[p * TRIANGLE_LD + q], old[q * GROUPS + g]);
        }
        store_four(p, mine.col, sum);
    }
}
