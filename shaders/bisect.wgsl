// Squares of the singular values of a bidiagonal C, by bisection on Sturm counts. Twin: src/algo/bidiag/bisection.rs.
//
//   C^T C - x I = L D L^T:   s_0 = -x,   d_i = q_i + s_i,   s_(i+1) = e_i (s_i / d_i) - x
//   The number of negative d_i is the number of squared singular values below x.
//   (The stationary recurrence: Fernando and Parlett 1994. Each count is that of a C with entries changed by a few ulps.)
//
//   squares   a factor, then n pairs (q_i, e_i), all at most 2
//   bounds    for each k a lower and an upper bound of the square of the k-th singular value, ascending, k = 0, 1, ..., in and out
//
// Thread = singular value. A dispatch does `steps` steps. The first dispatch also sets the bounds. If the bounds are far apart, the
// midpoint is their geometric mean.

import package::tuning::{BISECT_THREADS, PIVOT, TOP};
import package::scalar::{Real};

struct Params {
    n: u32,
    steps: u32,
    first: u32,
}

@group(0) @binding(0) var<storage, read_write> squares: array<Real>;
@group(0) @binding(1) var<storage, read_write> bounds: array<Real>;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(2) var<uniform> params: Params;

/// The number of squared singular values below x.
fn count_below(x: Real) -> u32 {
    var count = 0u;
    var s = -x;
    for (var i = 0u; i < params.n; i++) {
        var d = squares[2u * i + 1u] + s;
        // A negligible pivot is replaced, as if q_i were smaller by at most twice PIVOT.
        if abs(d) < PIVOT { d = -PIVOT; }
        count += select(0u, 1u, d < Real(0.0));
        s = squares[2u * i + 2u] * (s / d) - x;
    }
    return count;
}

@compute @workgroup_size(BISECT_THREADS)
fn bisect(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let k = (workgroup.x + workgroup.y * workgroups.x) * BISECT_THREADS + thread;
    if k >= params.n {
        return;
    }
    var low = Real(0.0);
    var high = Real(TOP);
    if params.first == 0u {
        low = bounds[2u * k];
        high = bounds[2u * k + 1u];
    }
    for (var step = 0u; step < params.steps; step++) {
        var middle = low + Real(0.5) * (high - low);
        if high > Real(4.0) * low { middle = sqrt(max(low, PIVOT)) * sqrt(high); }
        if count_below(middle) > k {
            high = middle;
        } else {
            low = middle;
        }
    }
    bounds[2u * k] = low;
    bounds[2u * k + 1u] = high;
}
