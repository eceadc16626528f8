// Bulge chasing from B superdiagonals to a bidiagonal matrix, with the blocks of a cycle in registers. Twin: src/cpu/chase/mod.rs.
//
//   Sweeps, cycles, teams and ticks are those of chase.wgsl, for bandwidth B and tile_width = B - 1, so that cycle i of sweep R acts on
//   B indices from c0 = R + 1 + i B on, but sweeps of a team lag by two ticks. The blocks of a cycle are B x B, with zeros outside the matrix:
//     U = A[c0 - B .., c0 ..], of which cycle 0 has the last row alone, R, in place of the first one;  D = A[c0 .., c0 ..];  L = A[c0 .., c0 + B ..]
//   right  x = U[0, :]^T;  y <- H y for the rows y of U and of D
//   left   x = D[:, 0];    y <- H y for the columns y of D and of L
//   L is the U of the sweep's next cycle: it stays in registers. When sweep R runs cycle i, the one before it in its team runs cycle i + 2, and has run
//   cycle i + 1 a tick before, with blocks U1, D1, L1, and cycle i two ticks before. Of the blocks of sweep R it has changed last, by these cycles,
//     D        but for its last row and column two ticks before: it is D0[1 .., 1 ..] of the sweep before
//     D[:, B - 1]        (U1[1 .., 0], D1[0, 0])
//     L[B - 1, :]        (D1[0, 1 ..], L1[0, 0]), where the last one changes in this tick's right side
//   Those are taken from workgroup memory. All else was stored before the last tick's last barrier, which makes stores to the band visible.
//
//   band   A in band storage, entries as stored, in and out; those of several matrices one after the other
//   kept   (only if `kept`) as in chase.wgsl
//
// workgroup.z is the matrix. Workgroup g runs the active teams first + g, first + g + (number of workgroups), ... LANES threads run a sweep. Each
// holds SETS of its 2 B lines: with one, lanes below B hold those of the first block, the others those of the second. With two, each lane holds one of
// either. Lanes load and store neighbouring entries of a column. Where lines change from rows to columns, blocks go through workgroup memory. With
// `subgroups`, a sweep's threads are a subgroup, and each squares one entry of x: the workgroup has whole subgroups, which devices fill.

import package::tuning::{B, VECTORS, SETS, LANES, TEAM, TEAM_THREADS, BAND_LD, BAND_KU, SECOND};
import package::scalar::{Lanes, Scalar, Stored, ONE, conjugate, load, multiply_add, store, times};
@if(!subgroups) import package::scalar::{join, lanes};
@if(kept) import package::whole_reflector::{WholeReflector, kept_as};
@if(subgroups) import package::whole_reflector::{Tail, WholeReflector, tail_of, whole_reflector};
@else import package::whole_reflector::{WholeReflector, scale_tail, v, whole_reflector};
import package::pair::{add_scalar, fused_product, product, zero};

struct Params {
    n: u32,
    columns: u32,
    ld: u32,
    ku: u32,
    bandwidth: u32,
    tile_width: u32,
    /// Ticks of a time step, and the first tick of this one.
    cycles: u32,
    clock: u32,
    /// First active team, and number of active teams.
    first: u32,
    count: u32,
}

// A cycle reads what other threads have stored in a tick before.
@if(coherent) @group(0) @binding(0) @coherent var<storage, read_write> band: array<Stored>;
@else @group(0) @binding(0) var<storage, read_write> band: array<Stored>;
@if(kept) @group(0) @binding(1) var<storage, read_write> kept: array<Scalar>;
@if(kept) const PARAMETERS = 2;
@else const PARAMETERS = 1;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(PARAMETERS) var<uniform> params: Params;

/// The stride along a row of A. Along a column it is 1.
const ALONG = BAND_LD - 1u;
/// Distance of rows in `blocks`. Neighbouring rows start in different banks, of f32 groups of four entries, which compilers load and store at once.
@if(fours) const ROW = B + 4u;
@else const ROW = B + 1u;
/// D and L of each sweep.
var<workgroup> blocks: array<Scalar, 2 * TEAM * B * ROW>;
/// t of the right side of each sweep, then of the left one: zero in place of alpha, and after the end. With `subgroups` it is scaled.
var<workgroup> tails: array<Scalar, 2 * TEAM * B>;
@if(!subgroups) var<workgroup> alphas: array<Scalar, 2 * TEAM>;

/// U[:, 0] of each sweep, after the right side.
var<workgroup> firsts: array<Scalar, TEAM * B>;

/// The thread's lines, of B entries each.
var<private> y: array<Scalar, SETS * B>;
/// Loaded before it is needed: a row of L, by threads with a line of the first block, and after it a row of the next D, by those with one of the second.
var<private> ahead: array<Scalar, SETS * B>;
/// Of the x that was handed over last.
@if(subgroups) var<private> alpha: Scalar;
@if(subgroups) var<private> tail: Tail;

/// Entries 4 q, 4 q + 1, .. of a row of `blocks`.
fn block_row(row: u32, q: u32) -> Lanes {
    let at = row * ROW + 4u * q;
    return Lanes(blocks[at], blocks[at + 1u], blocks[at + 2u], blocks[at + 3u]);
}

fn set_block_row(row: u32, q: u32, four: Lanes) {
    let at = row * ROW + 4u * q;
    blocks[at] = four.x;
    blocks[at + 1u] = four.y;
    blocks[at + 2u] = four.z;
    blocks[at + 3u] = four.w;
}

/// x after a store to the band and a load from it.
fn as_stored(x: Scalar) -> Scalar {
    return load(store(x));
}

/// The threads that have an entry of the vector that the reflector of a side is of hand over theirs, entry e; the first one of them is `first`.
fn hand_over(side: u32, e: u32, x: Scalar, has: bool, first: u32) {
    @if(subgroups) {
        alpha = subgroupShuffle(x, first);
        tail = tail_of(x, has, e == 0u);
        if has { tails[side * B + e] = select(x * tail.scale, Scalar(), e == 0u); }
    }
    @else {
        if has {
            tails[side * B + e] = select(x, Scalar(), e == 0u);
            if e == 0u { alphas[side] = x; }
        }
    }
}

/// Entries 4 q, 4 q + 1, .. of t of a side, as it was handed over.
fn tail_row(side: u32, q: u32) -> Lanes {
    let at = side * B + 4u * q;
    return Lanes(tails[at], tails[at + 1u], tails[at + 2u], tails[at + 3u]);
}

/// The reflector of a side, applied to the thread's lines. The first line of all is the one that it is of.
fn reflect(side: u32, thread: u32) -> WholeReflector {
    @if(!subgroups) @repeat(Q, VECTORS) v[Q] = join(tail_row(side, Q));
    @if(!subgroups) let alpha = alphas[side];
    @if(!subgroups) let tail = scale_tail(alpha);
    let h = whole_reflector(alpha, tail);
    // v^H y: that of t, and of the first entry.
    var sums = array<Scalar, 4 * SETS>();
    @repeat(Q, VECTORS) {
        @if(subgroups) var four = tail_row(side, Q);
        @else var four = lanes(v[Q]);
        if Q == 0u { four.x = h.h; }
        @repeat(S, SETS) {
            if Q > 0u { sums[4u * S] = multiply_add(conjugate(four.x), y[S * B + 4u * Q], sums[4u * S]); }
            sums[4u * S + 1u] = multiply_add(conjugate(four.y), y[S * B + 4u * Q + 1u], sums[4u * S + 1u]);
            sums[4u * S + 2u] = multiply_add(conjugate(four.z), y[S * B + 4u * Q + 2u], sums[4u * S + 2u]);
            sums[4u * S + 3u] = multiply_add(conjugate(four.w), y[S * B + 4u * Q + 3u], sums[4u * S + 3u]);
        }
    }
    var w = array<Scalar, SETS>();
    @repeat(S, SETS) {
        let of_tail = (sums[4u * S] + sums[4u * S + 1u]) + (sums[4u * S + 2u] + sums[4u * S + 3u]);
        w[S] = -product(h.tau, add_scalar(fused_product(conjugate(h.h), y[S * B]), of_tail));
    }
    @repeat(Q, VECTORS) {
        @if(subgroups) var four = tail_row(side, Q);
        @else var four = lanes(v[Q]);
        if Q == 0u { four.x = h.h; }
        @repeat(S, SETS) {
            y[S * B + 4u * Q] = multiply_add(w[S], four.x, y[S * B + 4u * Q]);
            y[S * B + 4u * Q + 1u] = multiply_add(w[S], four.y, y[S * B + 4u * Q + 1u]);
            y[S * B + 4u * Q + 2u] = multiply_add(w[S], four.z, y[S * B + 4u * Q + 2u]);
            y[S * B + 4u * Q + 3u] = multiply_add(w[S], four.w, y[S * B + 4u * Q + 3u]);
        }
    }
    if thread == 0u {
        @repeat(E, B) y[E] = Scalar();
        y[0] = h.beta;
    }
    return h;
}

/// Keeps entry e of a reflector that acts from index c0 on, if the matrix has it: v_e, or tau in place of v_0.
@if(kept)
fn keep(side: u32, e: u32, h: WholeReflector, columns: u32, at: u32) {
    if e >= columns { return; }
    let as_kept = kept_as(h);
    @if(subgroups) let t = tails[side * B + e];
    @else let t = h.scale * tails[side * B + e];
    kept[at] = select(times(t, as_kept.inverse), as_kept.tau * ONE, e == 0u);
}

@compute @workgroup_size(TEAM_THREADS)
fn chase_team(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @if(subgroups) @builtin(subgroup_id) subgroup: u32,
    @if(subgroups) @builtin(subgroup_invocation_id) lane: u32,
    @if(!subgroups) @builtin(local_invocation_index) index: u32,
) {
    zero = params.n >> 31u;
    @if(subgroups) let index = subgroup * LANES + lane;
    let member = index / LANES;
    let thread = index % LANES;
    // The thread's row or column of a block, and whether it has a line of the first one, and of the second one.
    let e = thread % B;
    let in_first = thread < B;
    let in_second = thread >= LANES - B;
    // The first rows of D and L in `blocks`.
    let of_d = 2u * member * B;
    let of_l = of_d + B;
    let right = member;
    let left = TEAM + member;
    let end = params.clock + params.cycles;
    @if(kept) let first_kept = workgroup.z * params.n * params.n;
    for (var g = workgroup.x; g < params.count; g += workgroups.x) {
        let team = params.first + g;
        let sweep = team * TEAM + member;
        let start = (params.cycles + 2u * TEAM) * team + 2u * member;
        // The number of cycles of the sweep, and of the one before it, if that is of the team.
        var all = 0u;
        if sweep + 2u < params.n { all = (params.n - 2u - sweep + B - 1u) / B; }
        var all_before = 0u;
        if member > 0u { all_before = (params.n - 1u - sweep + B - 1u) / B; }
        // Whether the thread's lines are those of U and D.
        var carried = false;
        for (var tick = params.clock; tick < end; tick++) {
            let i = tick - start;
            let runs = tick >= start && i < all;
            let ends = i + 1u == all || tick + 1u == end;
            let c0 = sweep + 1u + i * B;
            @if(kept) let columns = params.n - c0;
            // The place of A[c0 + e, c0]. After the matrix's columns there are 2 B of zeros.
            let at = (workgroup.z * params.columns + c0) * BAND_LD + BAND_KU + e;
            // Cycle 0 has one row of U.
            let has_row = i > 0u || e == 0u;
            let of_u = select(at - B, at - 1u, i == 0u);
            // Whether the sweep before has run cycle i + 1, in this dispatch, and runs cycle i + 2.
            let ran_before = member > 0u && tick > params.clock && i + 1u < all_before;
            let runs_before = i + 2u < all_before;
            if runs {
                var x = Scalar();
                if in_first {
                    if ran_before && e == B - 1u {
                        @repeat(E, B) { if E + 1u < B { ahead[E] = blocks[(of_d - 2u * B) * ROW + E + 1u]; } }
                        ahead[B - 1u] = blocks[(of_d - B) * ROW];
                    }
                    else {
                        @repeat(E, B) ahead[E] = load(band[at + (B + E) * ALONG]);
                    }
                }
                if in_second && carried {
                    @repeat(E, B) y[SECOND + E] = ahead[SECOND + E];
                }
                if in_first && !carried {
                    @repeat(E, B) y[E] = Scalar();
                    if has_row {
                        @repeat(E, B) y[E] = load(band[of_u + E * ALONG]);
                    }
                    x = load(band[of_u - e + e * ALONG]);
                }
                if in_second && !carried {
                    @repeat(E, B) { if E + 1u < B || !ran_before { y[SECOND + E] = load(band[at + E * ALONG]); } }
                }
                if in_second && ran_before {
                    if e < B - 1u { y[SECOND + B - 1u] = firsts[(member - 1u) * B + e + 1u]; }
                    else { y[SECOND + B - 1u] = blocks[(of_d - 2u * B) * ROW]; }
                }
                if !carried { hand_over(right, e, x, in_first, 0u); }
                if in_second && !ends {
                    if ran_before {
                        // D1[e + 1, 1 ..], and the last entry from L1, unless that changes in this tick.
                        @repeat(E, B) { if E + 1u < B { ahead[SECOND + E] = blocks[(of_d - 2u * B + e + 1u) * ROW + E + 1u]; } }
                        ahead[SECOND + B - 1u] = blocks[(of_d - B + min(e + 1u, B - 1u)) * ROW];
                        if e == B - 1u {
                            @repeat(E, B) ahead[SECOND + E] = Scalar();
                            ahead[SECOND + B - 1u] = load(band[at + B + (2u * B - 1u) * ALONG]);
                        }
                    }
                    else {
                        @repeat(E, B) ahead[SECOND + E] = load(band[at + B + (B + E) * ALONG]);
                    }
                }
            }
            // x of a sweep that has begun is complete before it is read.
            workgroupBarrier();
            if runs {
                let h = reflect(right, thread);
                if in_first { firsts[member * B + e] = as_stored(y[0]); }
                if in_first && has_row {
                    @repeat(E, B) band[of_u + E * ALONG] = store(y[E]);
                }
                @if(kept) { if in_first { keep(right, e, h, columns, first_kept + sweep + (c0 + e) * params.n); } }
                if in_second {
                    @repeat(Q, VECTORS) {
                        let four = Lanes(y[SECOND + 4u * Q], y[SECOND + 4u * Q + 1u], y[SECOND + 4u * Q + 2u], y[SECOND + 4u * Q + 3u]);
                        set_block_row(of_d + e, Q, four);
                    }
                }
                hand_over(left, e, y[SECOND], in_second, LANES - B);
                if in_first {
                    @repeat(Q, VECTORS) {
                        set_block_row(of_l + e, Q, Lanes(ahead[4u * Q], ahead[4u * Q + 1u], ahead[4u * Q + 2u], ahead[4u * Q + 3u]));
                    }
                }
            }
            // D and L are complete before their columns are read.
            workgroupBarrier();
            if runs {
                if in_first {
                    @repeat(E, B) y[E] = blocks[(of_d + E) * ROW + e];
                }
                if in_second {
                    @repeat(E, B) y[SECOND + E] = blocks[(of_l + E) * ROW + e];
                    if runs_before && e == B - 1u { y[SECOND + B - 1u] = firsts[(member - 1u) * B]; }
                }
                let h = reflect(left, thread);
                @if(kept) { if in_first { keep(left, e, h, columns, first_kept + c0 + e + sweep * params.n); } }
                if in_first {
                    @repeat(E, B) blocks[(of_d + E) * ROW + e] = as_stored(y[E]);
                }
                if in_second {
                    @repeat(E, B) blocks[(of_l + E) * ROW + e] = as_stored(y[SECOND + E]);
                }
                hand_over(right, e, as_stored(y[SECOND]), in_second, LANES - B);
            }
            // The same, before their rows are read. And later ticks read what was stored in the band.
            workgroupBarrier();
            storageBarrier();
            if runs {
                if in_second {
                    @repeat(Q, VECTORS) {
                        let four = block_row(of_d + e, Q);
                        band[at + (4u * Q) * ALONG] = store(four.x);
                        band[at + (4u * Q + 1u) * ALONG] = store(four.y);
                        band[at + (4u * Q + 2u) * ALONG] = store(four.z);
                        band[at + (4u * Q + 3u) * ALONG] = store(four.w);
                    }
                }
                if in_first {
                    @repeat(Q, VECTORS) {
                        let four = block_row(of_l + e, Q);
                        y[4u * Q] = four.x;
                        y[4u * Q + 1u] = four.y;
                        y[4u * Q + 2u] = four.z;
                        y[4u * Q + 3u] = four.w;
                    }
                    if ends {
                        @repeat(E, B) band[at + (B + E) * ALONG] = store(y[E]);
                    }
                }
                carried = !ends;
            }
        }
    }
}
