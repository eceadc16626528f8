// Singular vectors of many small matrices, one in each workgroup, by one-sided Jacobi rotations. Formula: tests/gpu/batch.rs.
//
//   W = [A; I]  (m + n rows, n columns, m >= n),    W <- W J  for plane rotations J of two columns each, until the first m rows are orthogonal
//
//   then W = [U diag(s); V]:  A V = U diag(s). A last sweep makes V orthonormal to first order: v_i -= v_j (v_j^H v_i) / 2 for all i != j.
//
//   table     for each matrix four words: m, n, the index of its first entry, the index of its first entry in `w`, in
//   entries   matrices as stored, row-major with leading dimension n | 1, in
//   done      for each matrix 0 (columns are being rotated), 1 (only the last sweep is left) or 2 (finished), out, and in if params.begun is not 0
//   vectors   W, column-major; its leading dimension is an odd multiple of 8. In and out. Columns come in no order
//   w         the W that is worked on: in workgroup memory, or, if it is `spilled`, `vectors` itself
//
// Workgroup = matrix, params.first on. A sweep has n - 1 steps (n, if n is odd) of n / 2 disjoint pairs of columns, those of a round-robin
// tournament. A pair has 8 threads. Thread l of them has the rows l, l + 8, .. of both columns, so that threads of a warp read adjacent
// entries, without bank conflicts. A step has two barriers: one between the sums of the threads and their use, one after the new columns.
//
// A dispatch does up to params.sweeps sweeps. If params.begun is not 0, it goes on with the W of the one before.

import package::tuning::{EPSILON, JACOBI_ENTRIES, JACOBI_THREADS, NORM_FLOOR};
import package::scalar::{Real, Scalar, Stored, ONE, conjugate, load, multiply_add};

struct Params {
    first: u32,
    count: u32,
    sweeps: u32,
    begun: u32,
}

@group(0) @binding(0) var<storage> table: array<u32>;
@group(0) @binding(1) var<storage> entries: array<Stored>;
@group(0) @binding(2) var<storage, read_write> done: array<u32>;
// A thread reads what other threads have stored before.
@if(spilled_coherent) @group(0) @binding(3) @coherent var<storage, read_write> w: array<Scalar>;
@if(spilled_plain) @group(0) @binding(3) var<storage, read_write> w: array<Scalar>;
@if(!spilled) @group(0) @binding(3) var<storage, read_write> vectors: array<Scalar>;
@if(!spilled) var<workgroup> w: array<Scalar, JACOBI_ENTRIES>;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(4) var<uniform> params: Params;

const LANES = 8u;
/// Pairs at a time.
const GROUPS = JACOBI_THREADS / LANES;

/// What each thread has summed: |x|^2, |y|^2, and the parts of x^H y.
var<workgroup> sums: array<vec4<Real>, JACOBI_THREADS>;
/// `done` of this matrix, and whether a sweep has rotated columns.
var<workgroup> state: u32;

/// x <- x - (to_x y + away x),  y <- y - (to_y x + away y)
struct Change {
    to_x: Scalar,
    to_y: Scalar,
    away: Real,
}

/// Waits for all threads, and for what they have stored in `w`.
fn stored() {
    @if(spilled) storageBarrier();
    workgroupBarrier();
}

/// The columns of pair k in a step of a tournament of `last` + 1 columns, an even number.
fn columns_of(k: u32, step: u32, last: u32) -> vec2<u32> {
    let one = select((step + k) % last, step, k == 0u);
    let other = select((step + last - k) % last, last, k == 0u);
    return vec2(min(one, other), max(one, other));
}

fn plus_product(sum: vec4<Real>, x: Scalar, y: Scalar) -> vec4<Real> {
    @if(complex) {
        let h = multiply_add(conjugate(x), y, sum.zw);
        return vec4(fma(x.x, x.x, fma(x.y, x.y, sum.x)), fma(y.x, y.x, fma(y.y, y.y, sum.y)), h);
    }
    @else return vec4(fma(x, x, sum.x), fma(y, y, sum.y), fma(x, y, sum.z), Real());
}

/// The sums of all threads of a pair, in a fixed order.
fn sums_of(group: u32) -> vec4<Real> {
    var sum = sums[LANES * group];
    for (var l = 1u; l < LANES; l++) {
        sum += sums[LANES * group + l];
    }
    return sum;
}

fn inner_product(sum: vec4<Real>) -> Scalar {
    @if(complex) return sum.zw;
    @else return sum.z;
}

/// |h|, of parts whose squares may underflow.
fn modulus_of(h: Scalar) -> Real {
    @if(complex) {
        let larger = max(abs(h.x), abs(h.y));
        if larger == Real(0.0) { return larger; }
        let parts = h / larger;
        return larger * sqrt(fma(parts.x, parts.x, parts.y * parts.y));
    }
    @else return abs(h);
}

/// The rotation after which x^H y = 0, for the smaller of its two angles; none if the cosine between x and y is at most EPSILON, or a column is
/// so small that its squares underflow. With tan(angle / 2) = half it is unitary however `half` is rounded.
fn rotation_of(sum: vec4<Real>) -> Change {
    let h = inner_product(sum);
    let size = modulus_of(h);
    if min(sum.x, sum.y) <= NORM_FLOOR || size <= EPSILON * sqrt(sum.x) * sqrt(sum.y) {
        return Change();
    }
    let difference = Real(0.5) * (sum.y - sum.x);
    let larger = max(abs(difference), size);
    let d = difference / larger;
    let s = size / larger;
    let tangent = s / (abs(d) + sqrt(fma(d, d, s * s)));
    let half = tangent / (Real(1.0) + sqrt(fma(tangent, tangent, Real(1.0))));
    let sine = select(Real(2.0), Real(-2.0), difference < Real(0.0)) * half / fma(half, half, Real(1.0));
    let with_phase = h * (sine / size);
    return Change(conjugate(with_phase), -with_phase, abs(sine) * half);
}

@compute @workgroup_size(JACOBI_THREADS)
fn jacobi(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let index = workgroup.x + workgroup.y * workgroups.x;
    if index >= params.count {
        return;
    }
    if thread == 0u {
        state = 0u;
        if params.begun != 0u { state = done[params.first + index]; }
    }
    let before = workgroupUniformLoad(&state);
    if before == 2u {
        return;
    }
    let row = 4u * (params.first + index);
    let m = table[row];
    let n = table[row + 1u];
    let first = table[row + 2u];
    let out = table[row + 3u];
    let rows = m + n;
    let ld = LANES * (((rows + LANES - 1u) / LANES) | 1u);
    // Where W is in `w`.
    @if(spilled) let base = out;
    @else let base = 0u;

    for (var e = thread; e < n * ld; e += JACOBI_THREADS) {
        let i = e % ld;
        let j = e / ld;
        if params.begun == 0u {
            var x = Scalar();
            if i < m { x = load(entries[first + i * (n | 1u) + j]); }
            if i == m + j { x = ONE; }
            w[base + e] = x;
        }
        @if(!spilled) { if params.begun != 0u { w[e] = vectors[out + e]; } }
    }
    // W is complete before it is read.
    stored();

    let last = n - 1u + (n & 1u);
    let pairs = (last + 1u) / 2u;
    let group = thread / LANES;
    let lane = thread % LANES;
    var now = before;
    for (var sweep = 0u; sweep < params.sweeps && now < 2u; sweep++) {
        // The rows of the products, and the first one that changes: those of A and all, at last those of V.
        let is_last = now == 1u;
        let begin = select(0u, m, is_last);
        let end = select(m, rows, is_last);
        // The first row of this thread.
        let own = begin + ((lane - begin) & (LANES - 1u));
        var has_rotated = false;
        for (var step = 0u; step < last; step++) {
            for (var start = 0u; start < pairs; start += GROUPS) {
                let k = start + group;
                let columns = columns_of(k, step, last);
                let is_there = k < pairs && columns.y < n;
                let x_at = base + columns.x * ld;
                let y_at = base + columns.y * ld;
                var sum = vec4<Real>();
                if is_there {
                    for (var i = own; i < end; i += LANES) {
                        sum = plus_product(sum, w[x_at + i], w[y_at + i]);
                    }
                }
                sums[thread] = sum;
                // All sums of a pair are there before they are added.
                workgroupBarrier();
                if is_there {
                    let all = sums_of(group);
                    var change = rotation_of(all);
                    if is_last {
                        let half = inner_product(all) * Real(0.5);
                        change = Change(conjugate(half), half, Real());
                    }
                    if any(change.to_y != Scalar()) {
                        has_rotated = true;
                        for (var i = own; i < rows; i += LANES) {
                            let x = w[x_at + i];
                            let y = w[y_at + i];
                            w[x_at + i] = x - multiply_add(change.to_x, y, change.away * x);
                            w[y_at + i] = y - multiply_add(change.to_y, x, change.away * y);
                        }
                    }
                }
                // The columns are complete before the next step reads them, and the sums read before there are others.
                stored();
            }
        }
        if lane == 0u { sums[group].x = select(Real(), Real(1.0), has_rotated); }
        // All pairs have said whether they rotated.
        workgroupBarrier();
        if thread == 0u {
            var rotated = Real();
            for (var g = 0u; g < GROUPS; g++) {
                rotated += sums[g].x;
            }
            state = select(select(1u, 0u, rotated > Real()), 2u, is_last);
        }
        now = workgroupUniformLoad(&state);
    }
    @if(!spilled) {
        for (var e = thread; e < n * ld; e += JACOBI_THREADS) {
            vectors[out + e] = w[e];
        }
    }
    if thread == 0u { done[params.first + index] = now; }
}
