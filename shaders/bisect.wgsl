// Squares of the singular values of a bidiagonal C, by bisection on Sturm counts. Twin: src/algo/bidiag/bisection.rs.
//
//   C^T C - x I = L D L^T:   s_0 = -x,   d_i = q_i + s_i,   s_(i+1) = e_i (s_i / d_i) - x
//   The number of negative d_i is the number of squared singular values below x.
//   (The stationary recurrence: Fernando and Parlett 1994. Each count is that of a C with entries changed by a few ulps.)
//
//   squares   a factor, then n pairs (q_i, e_i), all at most 2
//   bounds    for each k a lower and an upper bound of the square of the k-th singular value, ascending, k = 0, 1, ..., in and out
//
// Thread = singular value. A pass does three steps of bisection: it counts below all seven points that they could need, with one division for
// each row and point. A dispatch does `passes` passes. The first dispatch also sets the bounds. If the bounds are far apart, the midpoint is
// their geometric mean.

import package::tuning::{BISECT_THREADS, PIVOT, TOP};
import package::scalar::{Real};

struct Params {
    n: u32,
    passes: u32,
    first: u32,
}

@group(0) @binding(0) var<storage, read_write> squares: array<Real>;
@group(0) @binding(1) var<storage, read_write> bounds: array<Real>;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(2) var<uniform> params: Params;

/// The seven points in ascending order, or what belongs to each.
struct Points {
    lower: vec4<Real>,
    upper: vec3<Real>,
}

struct Counts {
    lower: vec4<u32>,
    upper: vec3<u32>,
}

/// The numbers of squared singular values below the points x.
fn counts_below(x: Points) -> Counts {
    var counts = Counts();
    var s = Points(-x.lower, -x.upper);
    for (var i = 0u; i < params.n; i++) {
        let q = squares[2u * i + 1u];
        let e = squares[2u * i + 2u];
        var d = Points(q + s.lower, q + s.upper);
        // A negligible pivot is replaced, as if q_i were smaller by at most twice PIVOT.
        d.lower = select(d.lower, vec4<Real>(-PIVOT), abs(d.lower) < vec4<Real>(PIVOT));
        d.upper = select(d.upper, vec3<Real>(-PIVOT), abs(d.upper) < vec3<Real>(PIVOT));
        counts.lower += select(vec4<u32>(), vec4<u32>(1u), d.lower < vec4<Real>());
        counts.upper += select(vec3<u32>(), vec3<u32>(1u), d.upper < vec3<Real>());
        s = Points(e * (s.lower / d.lower) - x.lower, e * (s.upper / d.upper) - x.upper);
    }
    return counts;
}

fn middle(low: Real, high: Real) -> Real {
    if high > Real(4.0) * low { return sqrt(max(low, PIVOT)) * sqrt(high); }
    return low + Real(0.5) * (high - low);
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
    for (var done = 0u; done < params.passes; done++) {
        let half = middle(low, high);
        let quarter = middle(low, half);
        let more = middle(half, high);
        let x = Points(vec4(middle(low, quarter), quarter, middle(quarter, half), half), vec3(middle(half, more), more, middle(more, high)));
        let counts = counts_below(x);
        // Three steps of bisection.
        if counts.lower.w > k {
            high = half;
            if counts.lower.y > k {
                high = quarter;
                if counts.lower.x > k { high = x.lower.x; } else { low = x.lower.x; }
            } else {
                low = quarter;
                if counts.lower.z > k { high = x.lower.z; } else { low = x.lower.z; }
            }
        } else {
            low = half;
            if counts.upper.y > k {
                high = more;
                if counts.upper.x > k { high = x.upper.x; } else { low = x.upper.x; }
            } else {
                low = more;
                if counts.upper.z > k { high = x.upper.z; } else { low = x.upper.z; }
            }
        }
    }
    bounds[2u * k] = low;
    bounds[2u * k + 1u] = high;
}
