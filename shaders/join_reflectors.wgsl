// Stage 1 with deferred updates: the reflectors of a panel's levels, joined into one block reflector. See src/algo/deferred.rs.
//
//   Q = product of the levels' I - V_k T_k V_k^H, its first columns;  Q S - [1; 0] = -V T L^H,  V = [L; ..], L unit lower triangular
//
//   package::dense   the matrix [A, L; R, G] as stored, strides (rs, cs), or its transpose: the panel's R, whose rows get the signs S, and V, from row
//                    `row` and column `to` on, out
//   v0, t0, ..       V and T of the leaves and of up to two levels above them, as geqrt has left them, in
//   x                the conjugate of V T, TS entries a row, out
//
// The window of zero_rows x zero_cols entries from row zero_row and column zero_col on becomes zero, if there is one: by as many more workgroups.
//
// If reflectors are kept (`kept`), V below its diagonal also goes to the panel, below its R, and T to t0.
//
// Workgroup = (leaf, chunk of rows). For its leaf, Q = [y; 0] - V_0 C with C = T_0 top^H y, for the part y of the levels above. Each workgroup finds, in
// workgroup memory, Q's square part Q_1, that of the first leaf, and
//
//   Q_1 - S = L U by elimination, with s_k = -sign(Re pivot), so that no pivot is less than 1 (Ballard and others 2015)
//   y U^-1 and C U^-1, eliminated along;    T = -U S L^-H, a column a step
//
// One barrier a step: step k changes columns k + 1 and on, and reads column k and row k, which no later step changes. Then each thread has a row of
// V = y U^-1 - V_0 C U^-1 and of V T.

import package::tuning::{TS, TS4, GEQRT_THREADS};
import package::dense::{read_entry, write_entry};
import package::level::{place_at};
import package::scalar::{
    Real, Scalar, Scalar4, Lanes, ONE, add_product4, conjugate, join, lanes, load, multiply_add, real_part, store, times
};

struct Params {
    rs: u32,
    cs: u32,
    lines: u32,
    /// First row and column, and size, of the panel.
    row: u32,
    col: u32,
    rows: u32,
    width: u32,
    /// The column of V.
    to: u32,
    levels: u32,
    /// Rows of a leaf, and stacked rows, and those of a block, of the levels above.
    leaf: u32,
    rows_1: u32,
    block_1: u32,
    rows_2: u32,
    block_2: u32,
    /// The first T of the leaves in t0, and the T of the panel.
    t_first: u32,
    t_kept: u32,
    zero_row: u32,
    zero_col: u32,
    zero_rows: u32,
    zero_cols: u32,
}

@group(0) @binding(0) var<storage, read> v0: array<Scalar>;
@group(0) @binding(1) var<storage, read> v1: array<Scalar>;
@group(0) @binding(2) var<storage, read> t1: array<Scalar>;
@group(0) @binding(3) var<storage, read> v2: array<Scalar>;
@group(0) @binding(4) var<storage, read> t2: array<Scalar>;
@if(kept) @group(0) @binding(5) var<storage, read_write> t0: array<Scalar>;
@else @group(0) @binding(5) var<storage, read> t0: array<Scalar>;
@group(0) @binding(6) var<storage, read_write> x: array<Scalar>;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(7) var<uniform> params: Params;

const SQUARE = TS * TS;
/// Q_1 at 0, y and C, of which the latter become y U^-1 and C U^-1, and T, before that a product with V.
var<workgroup> s: array<Scalar, 4u * SQUARE>;
const Y = SQUARE;
const C = 2u * SQUARE;
const T = 3u * SQUARE;
/// C U^-1, then that times T, by rows.
var<workgroup> of_rows: array<Scalar4, TS * TS4>;

/// Column c of stacked row g of a level's V; zero below the last row.
fn entry_of_v(level: u32, g: u32, c: u32) -> Scalar {
    switch level {
        case 0u: {
            if g < params.rows { return v0[g * TS + c]; }
        }
        case 1u: {
            if g < params.rows_1 { return v1[g * TS + c]; }
        }
        default: {
            if g < params.rows_2 { return v2[g * TS + c]; }
        }
    }
    return Scalar();
}

fn entry_of_t(level: u32, block: u32, i: u32, c: u32) -> Scalar {
    let at = (block * TS + i) * TS + c;
    switch level {
        case 0u: { return t0[params.t_first * SQUARE + at]; }
        case 1u: { return t1[at]; }
        default: { return t2[at]; }
    }
}

fn rows_of_block(level: u32) -> u32 {
    return select(select(params.block_2, params.block_1, level == 1u), params.leaf, level == 0u);
}

/// Four entries of row r of the square at `at` of s, from column c on.
fn four_at(at: u32, r: u32, c: u32) -> Lanes {
    let row = at + r * TS + c;
    return Lanes(s[row], s[row + 1u], s[row + 2u], s[row + 3u]);
}

fn store_four(at: u32, r: u32, c: u32, four: Lanes) {
    let row = at + r * TS + c;
    s[row] = four.x;
    s[row + 1u] = four.y;
    s[row + 2u] = four.z;
    s[row + 3u] = four.w;
}

/// sum + a four
fn add_four(sum: Lanes, a: Scalar, four: Lanes) -> Lanes {
    return Lanes(
        multiply_add(a, four.x, sum.x),
        multiply_add(a, four.y, sum.y),
        multiply_add(a, four.z, sum.z),
        multiply_add(a, four.w, sum.w),
    );
}

/// C = T top^H y, for a block of a level and the square y at `at` of s. All are complete afterwards.
fn make_c(thread: u32, level: u32, block: u32, at: u32) {
    workgroupBarrier();
    let first = block * rows_of_block(level);
    for (var e = thread; e < TS * TS4; e += GEQRT_THREADS) {
        let c = 4u * (e % TS4);
        var sum = Lanes();
        for (var r = 0u; r < TS; r++) {
            sum = add_four(sum, conjugate(entry_of_v(level, first + r, e / TS4)), four_at(at, r, c));
        }
        store_four(T, e / TS4, c, sum);
    }
    workgroupBarrier();
    for (var e = thread; e < TS * TS4; e += GEQRT_THREADS) {
        let c = 4u * (e % TS4);
        var sum = Lanes();
        for (var k = 0u; k < TS; k++) {
            sum = add_four(sum, entry_of_t(level, block, e / TS4, k), four_at(T, k, c));
        }
        store_four(C, e / TS4, c, sum);
    }
    workgroupBarrier();
}

/// The square at `at` of s <- itself, if the rows are a block's first, minus rows g, g + 1, .. of V times C. There are `width` of them.
fn subtract_rows(thread: u32, level: u32, g: u32, is_first: bool, at: u32) {
    for (var e = thread; e < TS * TS4; e += GEQRT_THREADS) {
        let r = e / TS4;
        let c = 4u * (e % TS4);
        var four = Lanes();
        if r < params.width {
            if is_first { four = four_at(at, r, c); }
            for (var k = 0u; k < TS; k++) { four = add_four(four, -entry_of_v(level, g + r, k), four_at(C, k, c)); }
        }
        store_four(at, r, c, four);
    }
}

/// The part y of a leaf's Q, at `at` of s.
fn make_y(thread: u32, leaf: u32, at: u32) {
    for (var e = thread; e < SQUARE; e += GEQRT_THREADS) {
        s[at + e] = select(Scalar(), ONE, e / TS == e % TS);
    }
    // The block of the next level that stacks the leaf's R. Blocks stack `width` rows of each.
    let arity = max(params.block_1 / params.width, 1u);
    let above = leaf / arity;
    if params.levels > 2u {
        make_c(thread, 2u, 0u, at);
        subtract_rows(thread, 2u, above * params.width, above == 0u, at);
    }
    if params.levels > 1u {
        make_c(thread, 1u, above, at);
        subtract_rows(thread, 1u, leaf * params.width, leaf == above * arity, at);
    }
}

/// s_k, once the elimination has come to column k.
fn sign_of(k: u32) -> Real {
    return select(Real(-1.0), Real(1.0), real_part(s[k * TS + k]) < Real(0.0));
}

/// 1 / u_kk
fn inverse_pivot(k: u32) -> Scalar {
    let a = s[k * TS + k] - sign_of(k) * ONE;
    @if(complex) return (Real(1.0) / (a.x * a.x + a.y * a.y)) * conjugate(a);
    @else return Real(1.0) / a;
}

/// Entry (r, k) of Q_1, y and C, without s_k where it is one of the diagonal of Q's square part.
fn without_sign(r: u32, k: u32, is_first: bool) -> Scalar {
    let has_sign = r == k || (is_first && r == TS + k);
    return s[r * TS + k] - select(Scalar(), sign_of(k) * ONE, has_sign);
}

/// Eliminates Q_1 - S from itself, y and C: L, y U^-1 and C U^-1 but for the division by the pivots, and U. In T, what it lacks of -U S.
fn eliminate(thread: u32, reflectors: u32, is_first: bool) {
    let j = thread % TS;
    for (var k = 0u; k < reflectors; k++) {
        // What the step before has changed is complete.
        workgroupBarrier();
        if j > k && j < reflectors {
            let pivot = inverse_pivot(k);
            let of_u = s[k * TS + j];
            let of_l = conjugate(times(s[j * TS + k], pivot));
            for (var r = thread / TS; r < 3u * TS; r += GEQRT_THREADS / TS) {
                let entry = without_sign(r, k, is_first);
                if r > k {
                    s[r * TS + j] = multiply_add(-times(entry, pivot), of_u, s[r * TS + j]);
                } else {
                    s[T + r * TS + j] = multiply_add(sign_of(k) * entry - s[T + r * TS + k], of_l, s[T + r * TS + j]);
                }
            }
        }
    }
}

/// T, y U^-1 and C U^-1, with zeros in columns without a reflector. A thread has the entries that it had before.
fn divide(thread: u32, reflectors: u32, is_first: bool, keeps_t: bool) {
    for (var e = thread; e < SQUARE; e += GEQRT_THREADS) {
        let i = e / TS;
        let k = e % TS;
        var of_t = Scalar();
        var of_y = Scalar();
        var of_c = Scalar();
        if k < reflectors {
            let pivot = inverse_pivot(k);
            of_y = times(without_sign(TS + i, k, is_first), pivot);
            of_c = times(s[C + e], pivot);
            if i <= k { of_t = s[T + e] - sign_of(k) * without_sign(i, k, is_first); }
        }
        s[T + e] = of_t;
        @if(kept) if keeps_t { t0[params.t_kept * SQUARE + e] = of_t; }
        s[Y + e] = of_y;
        s[C + e] = of_c;
    }
}

/// Four entries of row r of the square at `at` of s, from column c on, times T or not.
fn four_of_row(at: u32, r: u32, c: u32, times_t: bool) -> Lanes {
    if !times_t { return four_at(at, r, c); }
    var four = Lanes();
    for (var k = 0u; k < min(c + 4u, TS); k++) { four = add_four(four, s[at + r * TS + k], four_at(T, k, c)); }
    return four;
}

/// Row g of the panel's V at column c.
fn write_v(g: u32, c: u32, entry: Scalar) {
    let ld = max(params.rs, params.cs);
    let row = (params.row + g) * params.rs;
    write_entry(place_at(row + (params.to + c) * params.cs, params.lines, ld), store(entry));
    @if(kept) if c < params.width && g > c {
        write_entry(place_at(row + (params.col + c) * params.cs, params.lines, ld), store(entry));
    }
}

/// Row g of the panel's V, or of V T, at columns c to c + 3.
fn write_four(g: u32, c: u32, four: Lanes, of_vt: bool) {
    if of_vt {
        let at = g * TS + c;
        x[at] = conjugate(four.x);
        x[at + 1u] = conjugate(four.y);
        x[at + 2u] = conjugate(four.z);
        x[at + 3u] = conjugate(four.w);
        return;
    }
    write_v(g, c, four.x);
    write_v(g, c + 1u, four.y);
    write_v(g, c + 2u, four.z);
    write_v(g, c + 3u, four.w);
}

/// Writes zeros to one of `parts` parts of the window.
fn clear_part(thread: u32, part: u32, parts: u32) {
    let ld = max(params.rs, params.cs);
    let by_rows = params.cs == 1u;
    for (var e = part * GEQRT_THREADS + thread; e < params.zero_rows * params.zero_cols; e += parts * GEQRT_THREADS) {
        let i = select(e % params.zero_rows, e / params.zero_cols, by_rows);
        let j = select(e / params.zero_rows, e % params.zero_cols, by_rows);
        write_entry(place_at((params.zero_row + i) * params.rs + (params.zero_col + j) * params.cs, params.lines, ld), store(Scalar()));
    }
}

@compute @workgroup_size(GEQRT_THREADS)
fn join_reflectors(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    if workgroup.z > 0u {
        clear_part(thread, workgroup.x + workgroup.y * workgroups.x, workgroups.x * workgroups.y);
        return;
    }
    let leaf = workgroup.x;
    let is_first = leaf == 0u;
    let reflectors = min(params.rows, params.width);
    make_y(thread, 0u, 0u);
    make_c(thread, 0u, 0u, 0u);
    subtract_rows(thread, 0u, 0u, true, 0u);
    make_y(thread, leaf, Y);
    make_c(thread, 0u, leaf, Y);
    for (var e = thread; e < SQUARE; e += GEQRT_THREADS) { s[T + e] = Scalar(); }
    eliminate(thread, reflectors, is_first);
    let has_top = is_first && workgroup.y == 0u;
    divide(thread, reflectors, is_first, has_top);
    if has_top {
        for (var e = thread; e < reflectors * params.width; e += GEQRT_THREADS) {
            let i = e / params.width;
            let at = (params.row + i) * params.rs + (params.col + e % params.width) * params.cs;
            let place = place_at(at, params.lines, max(params.rs, params.cs));
            write_entry(place, store(sign_of(i) * load(read_entry(place))));
        }
    }
    let r = workgroup.y * GEQRT_THREADS + thread;
    let g = leaf * params.leaf + r;
    for (var side = 0u; side < 2u; side++) {
        let of_vt = side == 1u;
        // T, y and C are complete, and all threads have read the rows of the side before.
        workgroupBarrier();
        for (var e = thread; e < TS * TS4; e += GEQRT_THREADS) {
            of_rows[e] = join(four_of_row(C, e / TS4, 4u * (e % TS4), of_vt));
        }
        // The rows are complete.
        workgroupBarrier();
        if r < params.leaf && g < params.rows {
            var sum = array<Scalar4, TS4>();
            for (var k = 0u; k < TS; k++) {
                let v = entry_of_v(0u, g, k);
                @repeat(J, TS4) sum[J] = add_product4(sum[J], -v, of_rows[k * TS4 + J]);
            }
            @repeat(J, TS4) {
                var four = lanes(sum[J]);
                if r < params.width {
                    let top = four_of_row(Y, r, 4u * J, of_vt);
                    four.x += top.x;
                    four.y += top.y;
                    four.z += top.z;
                    four.w += top.w;
                }
                write_four(g, 4u * J, four, of_vt);
            }
        }
    }
}
