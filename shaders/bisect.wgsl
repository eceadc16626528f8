// Squares of the singular values of a bidiagonal C, by bisection on Sturm counts. Twin: src/algo/bidiag/bisection.rs.
//
//   C^T C - x I = L D L^T:   s_0 = -x,   d_i = q_i + s_i,   s_(i+1) = e_i (s_i / d_i) - x
//   The number of negative d_i is the number of squared singular values below x.
//   (The stationary recurrence: Fernando and Parlett 1994. Each count is that of a C with entries changed by a few ulps.)
//
//   squares   of each matrix a factor, then n pairs (q_i, e_i), all at most 2
//   bounds    of each matrix for each k a lower and an upper bound of the square of the k-th singular value, ascending, k = 0, 1, ...,
//             in and out; only for k = lowest, lowest + 1, ..., n - 1
//
// Thread = singular value, from `lowest` on. workgroup.z is the matrix. A pass does three steps of bisection: it counts below all seven points that they could
// need, with one division for each row and point. A dispatch does `passes` passes. The first dispatch also sets the bounds. If the bounds are far
// apart, the midpoint is their geometric mean.

import package::tuning::{BISECT_THREADS};
import package::scalar::{Real};
import package::sturm::{Counts, Points, after_row, all_bounds, before_rows, narrowed, points_between};

struct Params {
    n: u32,
    passes: u32,
    first: u32,
    lowest: u32,
}

@group(0) @binding(0) var<storage, read_write> squares: array<Real>;
@group(0) @binding(1) var<storage, read_write> bounds: array<Real>;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(2) var<uniform> params: Params;

/// The numbers of squared singular values below the points x, for the pairs from index `first` on.
fn counts_below(first: u32, x: Points) -> Counts {
    var sturm = before_rows(x);
    for (var i = 0u; i < params.n; i++) {
        sturm = after_row(sturm, x, squares[first + 2u * i], squares[first + 2u * i + 1u]);
    }
    return sturm.counts;
}

@compute @workgroup_size(BISECT_THREADS)
fn bisect(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let k = params.lowest + (workgroup.x + workgroup.y * workgroups.x) * BISECT_THREADS + thread;
    if k >= params.n {
        return;
    }
    let first = workgroup.z * (2u * params.n + 1u) + 1u;
    let at = 2u * (workgroup.z * params.n + k);
    var of_k = all_bounds();
    if params.first == 0u {
        of_k = vec2(bounds[at], bounds[at + 1u]);
    }
    for (var done = 0u; done < params.passes; done++) {
        let x = points_between(of_k);
        of_k = narrowed(of_k, x, counts_below(first, x), k);
    }
    bounds[at] = of_k.x;
    bounds[at + 1u] = of_k.y;
}
