// Singular values of many small matrices, one in each workgroup: direct reduction to bidiagonal form, then bisection on Sturm counts. Twin:
// src/cpu/small.
//
//   A (m x n, m >= n) = Q C P^T,  then as `square_bidiagonal` and `bisect` on C
//
//   table     for each matrix four words: m, n, the index of its first entry, the index of its first bound, in
//   entries   matrices as stored, row-major with leading dimension n | 1, in
//   bounds    for each matrix the factor of the squares, then for each k a lower and an upper bound of the square of the k-th singular value,
//             ascending, k = 0 .. n - 1, out
//   a         the matrix that is reduced, laid out as in `entries`: in workgroup memory, or, if it is `spilled`, in a buffer for all matrices
//
// Workgroup = matrix, params.first on. A leading dimension that is odd makes rows and columns free of bank conflicts. Step j:
//
//   a reflector from column j, from the diagonal on, applied to the columns right of it, one thread a column;
//   one from row j, right of the diagonal, applied to the rows below it, one thread a row
//
// Every thread computes the reflector's scalars, in the same way, and v_i = inverse x_i where it is used. So a step has two barriers. No sum
// is shared by threads, so that results do not depend on their number, nor on where the matrix is.

import package::tuning::{BATCH_ENTRIES, BATCH_ORDER, BATCH_THREADS, NORM_FLOOR, NORM_SCALE};
import package::pair::{Pair, add_scalar, exact_square, exactly, pair_product, product, two_over_one_plus, zero};
import package::reflector::{Reflector, Squares, add_square, larfg};
import package::scalar::{Real, Scalar, Stored, conjugate, load, multiply_add, times};
import package::squares::{factor_for, largest_part, scaled_square};
import package::sturm::{Counts, Points, after_row, all_bounds, before_rows, narrowed, points_between};

struct Params {
    first: u32,
    count: u32,
    passes: u32,
}

@group(0) @binding(0) var<storage> table: array<u32>;
@group(0) @binding(1) var<storage> entries: array<Stored>;
@group(0) @binding(2) var<storage, read_write> bounds: array<Real>;
// A reflector reads what other threads have stored before.
@if(spilled_coherent) @group(0) @binding(3) @coherent var<storage, read_write> a: array<Scalar>;
@if(spilled_plain) @group(0) @binding(3) var<storage, read_write> a: array<Scalar>;
@if(!spilled) var<workgroup> a: array<Scalar, BATCH_ENTRIES>;
@if(spilled) const PARAMETERS = 4;
@else const PARAMETERS = 3;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(PARAMETERS) var<uniform> params: Params;

/// Pairs (q_i, e_i).
var<workgroup> squares: array<Real, 2 * BATCH_ORDER>;

/// Entries of `a`: `count` of them from `at` on, `step` apart.
struct Line {
    at: u32,
    step: u32,
    count: u32,
}

/// Waits for all threads, and for what they have stored in `a`.
fn stored() {
    @if(spilled) storageBarrier();
    workgroupBarrier();
}

/// sum + |x|^2
fn add_plain(sum: Real, x: Scalar) -> Real {
    @if(complex) return fma(x.y, x.y, fma(x.x, x.x, sum));
    @else return fma(x, x, sum);
}

/// The sum of squares of the entries of x after the first, and, if squares may have underflowed, of scaled entries.
fn tail_of(x: Line) -> Squares {
    var sums = vec4<Real>();
    var i = 1u;
    for (; i + 3u < x.count; i += 4u) {
        let p = x.at + i * x.step;
        sums.x = add_plain(sums.x, a[p]);
        sums.y = add_plain(sums.y, a[p + x.step]);
        sums.z = add_plain(sums.z, a[p + 2u * x.step]);
        sums.w = add_plain(sums.w, a[p + 3u * x.step]);
    }
    for (; i < x.count; i++) {
        sums.x = add_plain(sums.x, a[x.at + i * x.step]);
    }
    var sum = Squares((sums.x + sums.y) + (sums.z + sums.w), Real());
    if sum.plain < NORM_FLOOR {
        var again = Squares();
        for (var k = 1u; k < x.count; k++) {
            again = add_square(again, a[x.at + k * x.step]);
        }
        sum.scaled = again.scaled;
    }
    return sum;
}

/// v_i of the reflector of x, for the entry x_i.
fn of_v(h: Reflector, x: Scalar) -> Scalar {
    return times(x, h.inverse);
}

/// The reflector of x, applied to `lines` lines that follow x at a distance of `across`; its beta.
fn reflect(x: Line, across: u32, lines: u32, thread: u32) -> Scalar {
    let tail = tail_of(x);
    let h = larfg(a[x.at], tail, Pair(tail.plain, Real(0.0)));
    if any(h.inverse != Scalar()) {
        // tau = 2 / v^H v
        var square = Pair(tail.plain, Real(0.0));
        var factor = h.inverse;
        if tail.plain < NORM_FLOOR {
            square = Pair(tail.scaled, Real(0.0));
            factor = h.inverse / NORM_SCALE;
        }
        let tau = two_over_one_plus(pair_product(square, exact_square(factor)));
        for (var l = thread; l < lines; l += BATCH_THREADS) {
            apply(h, tau, x, x.at + (l + 1u) * across);
        }
    }
    // All threads have read x, and the lines that the next reflector reads are complete.
    stored();
    return h.beta;
}

/// y <- y - tau v (v^H y), for the line y of `a` that starts there. Four entries are loaded before any is stored.
fn apply(h: Reflector, tau: Pair, x: Line, y: u32) {
    let step = x.step;
    // v^H y, whose first term is y_0, in four sums.
    var s0 = Scalar();
    var s1 = Scalar();
    var s2 = Scalar();
    var s3 = Scalar();
    var i = 1u;
    for (; i + 3u < x.count; i += 4u) {
        let p = x.at + i * step;
        let q = y + i * step;
        s0 = multiply_add(conjugate(of_v(h, a[p])), a[q], s0);
        s1 = multiply_add(conjugate(of_v(h, a[p + step])), a[q + step], s1);
        s2 = multiply_add(conjugate(of_v(h, a[p + 2u * step])), a[q + 2u * step], s2);
        s3 = multiply_add(conjugate(of_v(h, a[p + 3u * step])), a[q + 3u * step], s3);
    }
    for (; i < x.count; i++) {
        s0 = multiply_add(conjugate(of_v(h, a[x.at + i * step])), a[y + i * step], s0);
    }
    let w = product(tau, add_scalar(exactly(a[y]), (s0 + s1) + (s2 + s3)));
    a[y] -= w;
    var k = 1u;
    for (; k + 3u < x.count; k += 4u) {
        let p = x.at + k * step;
        let q = y + k * step;
        let y0 = multiply_add(-w, of_v(h, a[p]), a[q]);
        let y1 = multiply_add(-w, of_v(h, a[p + step]), a[q + step]);
        let y2 = multiply_add(-w, of_v(h, a[p + 2u * step]), a[q + 2u * step]);
        let y3 = multiply_add(-w, of_v(h, a[p + 3u * step]), a[q + 3u * step]);
        a[q] = y0;
        a[q + step] = y1;
        a[q + 2u * step] = y2;
        a[q + 3u * step] = y3;
    }
    for (; k < x.count; k++) {
        let q = y + k * step;
        a[q] = multiply_add(-w, of_v(h, a[x.at + k * step]), a[q]);
    }
}

/// The numbers of squared singular values below the points x.
fn counts_below(x: Points, n: u32) -> Counts {
    var sturm = before_rows(x);
    for (var i = 0u; i < n; i++) {
        sturm = after_row(sturm, x, squares[2u * i], squares[2u * i + 1u]);
    }
    return sturm.counts;
}

@compute @workgroup_size(BATCH_THREADS)
fn batch(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    zero = params.count >> 31u;
    let index = workgroup.x + workgroup.y * workgroups.x;
    if index >= params.count {
        return;
    }
    let row = 4u * (params.first + index);
    let m = table[row];
    let n = table[row + 1u];
    let first = table[row + 2u];
    let out = table[row + 3u];
    let ld = n | 1u;
    // Where the matrix is in `a`.
    @if(spilled) let base = first;
    @else let base = 0u;
    for (var e = thread; e < m * ld; e += BATCH_THREADS) {
        a[base + e] = load(entries[first + e]);
    }
    // The matrix is complete before it is read.
    stored();

    for (var j = 0u; j < n; j++) {
        let at = base + j * ld + j;
        let d = reflect(Line(at, ld, m - j), 1u, n - 1u - j, thread);
        // Nothing else of this step, or of those after it, is at the diagonal or left of it.
        if thread == 0u { a[at] = d; }
        if j + 1u < n {
            let e = reflect(Line(at + 1u, 1u, n - 1u - j), ld, m - 1u - j, thread);
            if thread == 0u { a[at + 1u] = e; }
        }
    }
    // The bidiagonal is complete before it is read.
    stored();

    var most = Real(0.0);
    for (var i = 0u; i < n; i++) {
        let at = base + i * ld + i;
        most = max(most, largest_part(a[at]));
        if i + 1u < n { most = max(most, largest_part(a[at + 1u])); }
    }
    let factor = factor_for(most);
    for (var i = thread; i < n; i += BATCH_THREADS) {
        let at = base + i * ld + i;
        squares[2u * i] = scaled_square(factor, a[at]);
        var e = Real(0.0);
        if i + 1u < n { e = scaled_square(factor, a[at + 1u]); }
        squares[2u * i + 1u] = e;
    }
    // The squares are complete before they are read.
    workgroupBarrier();

    for (var k = thread; k < n; k += BATCH_THREADS) {
        var of_k = all_bounds();
        for (var done = 0u; done < params.passes; done++) {
            let x = points_between(of_k);
            of_k = narrowed(of_k, x, counts_below(x, n), k);
        }
        bounds[out + 1u + 2u * k] = of_k.x;
        bounds[out + 2u + 2u * k] = of_k.y;
    }
    if thread == 0u { bounds[out] = factor; }
}
