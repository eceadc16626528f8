// QR factorisation of the blocks of a panel, in compact WY form. Twin: src/cpu/qr/geqrt.rs.
//
//   Block X (rows x width)  =  (I - V T V^H) R,    rows <= ROWS = SPLIT * SLICE, width <= TS, r = min(rows, width) reflectors
//
//   package::dense   the matrix as stored, strides (rs, cs): X in, R over zeros out
//   v                V, unit lower trapezoidal, one row of TS for each stacked row of the level (columns from r on zero), out
//   t                T, upper triangular, TS x TS row-major for each block from t_first on (rows and columns from r on zero), out
//
// If reflectors are kept (`kept`), V below its diagonal also goes to the matrix, in place of the zeros.
//
// Workgroup = block. Thread (c, s) of TS x SPLIT holds x_k = X[s + k SPLIT, c] in registers. Neighbouring threads hold entries of a row or
// of a column that are adjacent in memory. Column by column:
//
//   v_j from X[j.., j];   u_c = v_j^H X[j.., c] for every c
//   c > j:  X[j.., c] -= tau u_c v_j          c < j:  registers hold v_c, so conj(u_c) = (V^H V)_cj, which T needs
//
// u_c is summed over the SPLIT threads of column c, and v_j^H v_j over those of column j. If the threads of a column are neighbours in a
// subgroup, they sum both by shuffles, with one barrier per column. Otherwise they use workgroup memory, with two barriers per column.

import package::tuning::{TS, SPLIT, SLICE, ROWS, GEQRT_THREADS};
import package::scalar::{Real, Scalar, ONE, conjugate, load, multiply_add, real_part, store, times};
import package::reflector::{Squares, larfg, add_square};
import package::dense::{read_entry, write_entry};
import package::level::{Level, is_below_triangle, matrix_row, place_of};
import package::pair::{Pair, ScalarPair, zero, add, add_scalar, exactly, leading, product, two_over_one_plus};
import package::compact_wy::{gram, make_row_of_t, entry_of_t};
@if(subgroups) import package::subgroups::{neighbours_share_subgroups, scalar_sum_of_neighbours, sum_of_neighbours};

@group(0) @binding(0) var<storage, read_write> v: array<Scalar>;
@group(0) @binding(1) var<storage, read_write> t: array<Scalar>;
@if(immediates) var<immediate> level: Level;
@else @group(0) @binding(2) var<uniform> level: Level;

/// Column j, and the SPLIT partial sums of squares of its tail. Double-buffered: one half for even j, one for odd j.
var<workgroup> column: array<Scalar, 2 * ROWS>;
var<workgroup> squares: array<Squares, 2 * SPLIT>;
/// The SPLIT partial sums of u_c below row j (of v_j^H v_j for c = j), and X[j, c]. Rows are padded by four entries: neither neighbours in
/// a row nor 4 x 8 neighbours conflict in a bank.
const SHARES_LD = TS + 4u;
var<workgroup> shares: array<Scalar, SPLIT * SHARES_LD>;
var<workgroup> top: array<Scalar, TS>;

@compute @workgroup_size(GEQRT_THREADS)
fn geqrt(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
    @if(subgroups) @builtin(subgroup_size) subgroup_size: u32,
) {
    zero = level.rows >> 31u;
    let q = workgroup.x + workgroup.y * workgroups.x;
    if q >= level.blocks { return; }
    let by_rows = level.cs == 1u;
    let c = select(thread / SPLIT, thread % TS, by_rows);
    let s = select(thread % SPLIT, thread / TS, by_rows);
    @if(subgroups) let by_subgroups = !by_rows && neighbours_share_subgroups(thread, SPLIT, subgroup_size);
    @else const by_subgroups = false;
    let first = q * level.block_rows;
    let rows = min(level.block_rows, level.rows - first);
    let reflectors = min(rows, level.width);

    var x: array<Scalar, SLICE>;
    for (var k = 0u; k < SLICE; k++) {
        let r = s + k * SPLIT;
        x[k] = Scalar();
        @if(kept) let is_there = r < rows && c < level.width && !is_below_triangle(level, r, c);
        @else let is_there = r < rows && c < level.width;
        if is_there {
            x[k] = load(read_entry(place_of(level, matrix_row(level, first + r), level.col + c)));
        }
    }

    for (var j = 0u; j < reflectors; j++) {
        let side = j % 2u;
        if c == j {
            var sum = Squares();
            for (var k = 0u; k < SLICE; k++) {
                let r = s + k * SPLIT;
                column[side * ROWS + r] = x[k];
                if r > j { sum = add_square(sum, x[k]); }
            }
            squares[side * SPLIT + s] = sum;
        }
        // Column j is complete before any thread reads it. (Double buffering: no thread still reads column j - 2, which this one
        // overwrites.)
        workgroupBarrier();

        var sum = Squares();
        for (var p = 0u; p < SPLIT; p++) {
            sum.plain += squares[side * SPLIT + p].plain;
            sum.scaled += squares[side * SPLIT + p].scaled;
        }
        let h = larfg(column[side * ROWS + j], sum, Pair(sum.plain, 0.0));
        var share = Scalar();
        var own_square = Real();
        var own_top = Scalar();
        for (var k = 0u; k < SLICE; k++) {
            let r = s + k * SPLIT;
            if r > j {
                let v_r = times(column[side * ROWS + r], h.inverse);
                share += times(conjugate(v_r), select(x[k], v_r, c == j));
                if by_subgroups { own_square += real_part(times(conjugate(v_r), v_r)); }
            }
            if r == j { own_top = x[k]; }
        }

        var dot: ScalarPair;
        var square: Pair;
        if by_subgroups {
            @if(subgroups) {
                dot = scalar_sum_of_neighbours(add_scalar(exactly(own_top), share), SPLIT, thread);
                square = sum_of_neighbours(Pair(own_square, Real()), SPLIT, thread);
            }
        } else {
            shares[s * SHARES_LD + c] = share;
            if j % SPLIT == s { top[c] = own_top; }
            // The shares of every u_c are complete before they are added. Those of column j - 1 were read before the previous barrier.
            workgroupBarrier();
            dot = exactly(top[c]);
            square = Pair();
            for (var p = 0u; p < SPLIT; p++) {
                dot = add_scalar(dot, shares[p * SHARES_LD + c]);
                square = add(square, real_part(shares[p * SHARES_LD + j]));
            }
        }
        // tau = 2 / v^H v, or zero where H = I.
        var tau = Pair();
        if any(h.inverse != Scalar()) { tau = two_over_one_plus(square); }
        let w = product(tau, dot);
        for (var k = 0u; k < SLICE; k++) {
            let r = s + k * SPLIT;
            let v_r = times(column[side * ROWS + r], h.inverse);
            if c > j && r >= j {
                x[k] = multiply_add(-w, select(v_r, ONE, r == j), x[k]);
            } else if c == j && r >= j {
                x[k] = select(v_r, h.beta, r == j);
            }
        }
        if s == 0u && c <= j { gram[c * TS + j] = select(conjugate(leading(dot)), tau.hi * ONE, c == j); }
    }

    for (var k = 0u; k < SLICE; k++) {
        let r = s + k * SPLIT;
        if r < rows {
            let below = select(Scalar(), x[k], c < reflectors && r > c);
            v[(first + r) * TS + c] = select(below, ONE, c < reflectors && r == c);
            if c < level.width {
                let place = place_of(level, matrix_row(level, first + r), level.col + c);
                @if(kept) { if !is_below_triangle(level, r, c) { write_entry(place, store(x[k])); } }
                @else write_entry(place, store(select(Scalar(), x[k], r <= c)));
            }
        }
    }

    // The upper triangle and the diagonal of `gram`, which threads of all columns write, are complete before T is computed from them.
    workgroupBarrier();
    if s == 0u { make_row_of_t(c, reflectors); }
    // T is complete before the workgroup copies it out.
    workgroupBarrier();
    for (var e = thread; e < TS * TS; e += GEQRT_THREADS) {
        t[(level.t_first + q) * TS * TS + e] = entry_of_t(e / TS, e % TS, reflectors);
    }
}
