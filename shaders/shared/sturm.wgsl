// Steps of bisection on Sturm counts of a bidiagonal. `bisect` describes them.

import package::scalar::{Real};
import package::tuning::{PIVOT, TOP};

/// Seven points in ascending order, or what belongs to each.
struct Points {
    lower: vec4<Real>,
    upper: vec3<Real>,
}

/// The numbers of squared singular values below each point.
struct Counts {
    lower: vec4<u32>,
    upper: vec3<u32>,
}

/// The recurrence before row i: s_i, and the negative d before it.
struct Sturm {
    s: Points,
    counts: Counts,
}

/// The recurrence before the first row.
fn before_rows(x: Points) -> Sturm {
    return Sturm(Points(-x.lower, -x.upper), Counts());
}

/// The recurrence after a row with the squares q and e.
fn after_row(before: Sturm, x: Points, q: Real, e: Real) -> Sturm {
    let s = before.s;
    var d = Points(q + s.lower, q + s.upper);
    // A negligible pivot is replaced, as if q were smaller by at most twice PIVOT.
    d.lower = select(d.lower, vec4<Real>(-PIVOT), abs(d.lower) < vec4<Real>(PIVOT));
    d.upper = select(d.upper, vec3<Real>(-PIVOT), abs(d.upper) < vec3<Real>(PIVOT));
    var counts = before.counts;
    counts.lower += select(vec4<u32>(), vec4<u32>(1u), d.lower < vec4<Real>());
    counts.upper += select(vec3<u32>(), vec3<u32>(1u), d.upper < vec3<Real>());
    return Sturm(Points(e * (s.lower / d.lower) - x.lower, e * (s.upper / d.upper) - x.upper), counts);
}

/// Bounds of every squared singular value.
fn all_bounds() -> vec2<Real> {
    return vec2(Real(0.0), Real(TOP));
}

fn middle(low: Real, high: Real) -> Real {
    if high > Real(4.0) * low { return sqrt(max(low, PIVOT)) * sqrt(high); }
    return low + Real(0.5) * (high - low);
}

/// The points that three steps of bisection from these bounds could need.
fn points_between(bounds: vec2<Real>) -> Points {
    let half = middle(bounds.x, bounds.y);
    let quarter = middle(bounds.x, half);
    let more = middle(half, bounds.y);
    return Points(
        vec4(middle(bounds.x, quarter), quarter, middle(quarter, half), half),
        vec3(middle(half, more), more, middle(more, bounds.y)),
    );
}

/// The bounds of the square of the k-th singular value, ascending, after three steps of bisection.
fn narrowed(bounds: vec2<Real>, x: Points, counts: Counts, k: u32) -> vec2<Real> {
    var low = bounds.x;
    var high = bounds.y;
    if counts.lower.w > k {
        high = x.lower.w;
        if counts.lower.y > k {
            high = x.lower.y;
            if counts.lower.x > k { high = x.lower.x; } else { low = x.lower.x; }
        } else {
            low = x.lower.y;
            if counts.lower.z > k { high = x.lower.z; } else { low = x.lower.z; }
        }
    } else {
        low = x.lower.w;
        if counts.upper.y > k {
            high = x.upper.y;
            if counts.upper.x > k { high = x.upper.x; } else { low = x.upper.x; }
        } else {
            low = x.upper.y;
            if counts.upper.z > k { high = x.upper.z; } else { low = x.upper.z; }
        }
    }
    return vec2(low, high);
}
