// Bulge chasing from B superdiagonals to a bidiagonal matrix, with the blocks of a cycle in registers. Twin: src/cpu/chase/mod.rs.
//
//   Sweeps, cycles, teams and ticks are those of chase.wgsl, for bandwidth B and tile_width = B - 1, so that cycle i of sweep R acts on
//   B indices from c0 = R + 1 + i B on. Its blocks are B x B, with zeros outside the matrix:
//     U = A[c0 - B .., c0 ..], of which cycle 0 has the last row alone, R, in place of the first one;  D = A[c0 .., c0 ..];  L = A[c0 .., c0 + B ..]
//   right  x = U[0, :]^T;  y <- H y for the rows y of U and of D
//   left   x = D[:, 0];    y <- H y for the columns y of D and of L
//   L is the U of the sweep's next cycle: it stays in registers.
//
//   band   A in band storage, entries as stored, in and out; those of several matrices one after the other
//   kept   (only if `kept`) as in chase.wgsl
//
// workgroup.z is the matrix. Workgroup g runs the active teams first + g, first + g + (number of workgroups), ... LANES threads run a sweep. Each
// holds SETS of its 2 B lines: with one, lanes below B hold those of the first block, the others those of the second. With two, each lane holds one of
// either. Lanes load and store neighbouring entries of a column. Where lines change from rows to columns, blocks go through workgroup memory.

import package::tuning::{B, VECTORS, SETS, LANES, TEAM, TEAM_THREADS, BAND_LD, BAND_KU, SECOND};
import package::scalar::{Lanes, Scalar, Stored, ONE, conjugate, join, lanes, load, multiply_add, store, times};
@if(kept) import package::whole_reflector::{WholeReflector, kept_as, v, whole_reflector};
@else import package::whole_reflector::{WholeReflector, v, whole_reflector};
import package::pair::{add_scalar, fused_product, product, zero};

struct Params {
    n: u32,
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

// A cycle reads what other threads have stored one tick before.
@if(coherent) @group(0) @binding(0) @coherent var<storage, read_write> band: array<Stored>;
@else @group(0) @binding(0) var<storage, read_write> band: array<Stored>;
@if(kept) @group(0) @binding(1) var<storage, read_write> kept: array<Scalar>;
@if(kept) const PARAMETERS = 2;
@else const PARAMETERS = 1;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(PARAMETERS) var<uniform> params: Params;

/// The stride along a row of A. Along a column it is 1.
const ALONG = BAND_LD - 1u;
/// Distance of a block's rows in workgroup memory: neighbouring rows start in different banks.
const ROW = B + 1u;
/// D and L of each sweep.
var<workgroup> blocks: array<Scalar, 2 * TEAM * B * ROW>;
/// t of the right side of each sweep, then of the left one: zero in place of alpha, and after the end. And alpha.
var<workgroup> tails: array<Scalar, 2 * TEAM * B>;
var<workgroup> alphas: array<Scalar, 2 * TEAM>;

/// The thread's lines, of B entries each.
var<private> y: array<Scalar, SETS * B>;
/// Loaded before it is needed: a row of L, by threads with a line of the first block, and after it a row of the next D, by those with one of the second.
var<private> ahead: array<Scalar, SETS * B>;

/// x after a store to the band and a load from it.
fn as_stored(x: Scalar) -> Scalar {
    return load(store(x));
}

/// Entry e of the vector that the reflector of a side is of.
fn hand_over(side: u32, e: u32, x: Scalar) {
    tails[side * B + e] = select(x, Scalar(), e == 0u);
    if e == 0u { alphas[side] = x; }
}

/// The reflector of a side, applied to the thread's lines. The first line of all is the one that it is of.
fn reflect(side: u32, thread: u32) -> WholeReflector {
    let at = side * B;
    @repeat(Q, VECTORS) {
        v[Q] = join(Lanes(tails[at + 4u * Q], tails[at + 4u * Q + 1u], tails[at + 4u * Q + 2u], tails[at + 4u * Q + 3u]));
    }
    let h = whole_reflector(alphas[side]);
    @repeat(S, SETS) {
        // v^H y: that of t, and of the first entry.
        var sums = array<Scalar, 4>();
        @repeat(Q, VECTORS) {
            let four = lanes(v[Q]);
            if Q > 0u { sums[0] = multiply_add(conjugate(four.x), y[S * B + 4u * Q], sums[0]); }
            sums[1] = multiply_add(conjugate(four.y), y[S * B + 4u * Q + 1u], sums[1]);
            sums[2] = multiply_add(conjugate(four.z), y[S * B + 4u * Q + 2u], sums[2]);
            sums[3] = multiply_add(conjugate(four.w), y[S * B + 4u * Q + 3u], sums[3]);
        }
        let w = -product(h.tau, add_scalar(fused_product(conjugate(h.h), y[S * B]), (sums[0] + sums[1]) + (sums[2] + sums[3])));
        @repeat(Q, VECTORS) {
            let four = lanes(v[Q]);
            y[S * B + 4u * Q] = multiply_add(w, four.x, y[S * B + 4u * Q]);
            y[S * B + 4u * Q + 1u] = multiply_add(w, four.y, y[S * B + 4u * Q + 1u]);
            y[S * B + 4u * Q + 2u] = multiply_add(w, four.z, y[S * B + 4u * Q + 2u]);
            y[S * B + 4u * Q + 3u] = multiply_add(w, four.w, y[S * B + 4u * Q + 3u]);
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
    kept[at] = select(times(h.scale * tails[side * B + e], as_kept.inverse), as_kept.tau * ONE, e == 0u);
}

@compute @workgroup_size(TEAM_THREADS)
fn chase_team(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) index: u32,
) {
    zero = params.n >> 31u;
    let member = index / LANES;
    let thread = index % LANES;
    // The thread's row or column of a block, and whether it has a line of the first one, and of the second one.
    let e = thread % B;
    let in_first = thread < B;
    let in_second = thread >= LANES - B;
    let of_d = 2u * member * B * ROW;
    let of_l = of_d + B * ROW;
    let right = member;
    let left = TEAM + member;
    let end = params.clock + params.cycles;
    @if(kept) let first_kept = workgroup.z * params.n * params.n;
    for (var g = workgroup.x; g < params.count; g += workgroups.x) {
        let team = params.first + g;
        let sweep = team * TEAM + member;
        let start = (params.cycles + 3u * TEAM - 1u) * team + 3u * member;
        // The number of cycles of the sweep.
        var all = 0u;
        if sweep + 2u < params.n { all = (params.n - 2u - sweep + B - 1u) / B; }
        // Whether the thread's lines are those of U and D.
        var carried = false;
        for (var tick = params.clock; tick < end; tick++) {
            let i = tick - start;
            let runs = tick >= start && i < all;
            let ends = i + 1u == all || tick + 1u == end;
            let c0 = sweep + 1u + i * B;
            // The columns from c0 on that the matrix has, and the place of A[c0 + e, c0].
            let columns = params.n - c0;
            let at = workgroup.z * params.n * BAND_LD + c0 * BAND_LD + BAND_KU + e;
            // Cycle 0 has one row of U.
            let has_row = i > 0u || e == 0u;
            let of_u = select(at - B, at - 1u, i == 0u);
            if runs {
                if in_first {
                    @repeat(E, B) {
                        ahead[E] = Scalar();
                        if B + E < columns { ahead[E] = load(band[at + (B + E) * ALONG]); }
                    }
                }
                if in_second && carried {
                    @repeat(E, B) y[SECOND + E] = ahead[SECOND + E];
                }
                if in_first && !carried {
                    @repeat(E, B) {
                        y[E] = Scalar();
                        if E < columns && has_row { y[E] = load(band[of_u + E * ALONG]); }
                    }
                    var x = Scalar();
                    if e < columns { x = load(band[of_u - e + e * ALONG]); }
                    hand_over(right, e, x);
                }
                if in_second && !carried {
                    @repeat(E, B) {
                        y[SECOND + E] = Scalar();
                        if E < columns { y[SECOND + E] = load(band[at + E * ALONG]); }
                    }
                }
                if in_second && !ends {
                    @repeat(E, B) {
                        ahead[SECOND + E] = Scalar();
                        if B + E < columns { ahead[SECOND + E] = load(band[at + B + (B + E) * ALONG]); }
                    }
                }
            }
            // x of a sweep that has begun is complete before it is read.
            workgroupBarrier();
            if runs {
                let h = reflect(right, thread);
                if in_first && has_row {
                    @repeat(E, B) { if E < columns { band[of_u + E * ALONG] = store(y[E]); } }
                }
                @if(kept) { if in_first { keep(right, e, h, columns, first_kept + sweep + (c0 + e) * params.n); } }
                if in_second {
                    @repeat(E, B) blocks[of_d + e * ROW + E] = y[SECOND + E];
                    hand_over(left, e, y[SECOND]);
                }
                if in_first {
                    @repeat(E, B) blocks[of_l + e * ROW + E] = ahead[E];
                }
            }
            // D and L are complete before their columns are read.
            workgroupBarrier();
            if runs {
                if in_first {
                    @repeat(E, B) y[E] = blocks[of_d + E * ROW + e];
                }
                if in_second {
                    @repeat(E, B) y[SECOND + E] = blocks[of_l + E * ROW + e];
                }
                let h = reflect(left, thread);
                @if(kept) { if in_first { keep(left, e, h, columns, first_kept + c0 + e + sweep * params.n); } }
                if in_first {
                    @repeat(E, B) blocks[of_d + E * ROW + e] = y[E];
                }
                if in_second {
                    @repeat(E, B) blocks[of_l + E * ROW + e] = as_stored(y[SECOND + E]);
                    hand_over(right, e, as_stored(y[SECOND]));
                }
            }
            // The same, before their rows are read.
            workgroupBarrier();
            if runs {
                if in_second {
                    @repeat(E, B) { if E < columns { band[at + E * ALONG] = store(blocks[of_d + e * ROW + E]); } }
                }
                if in_first {
                    @repeat(E, B) y[E] = blocks[of_l + e * ROW + E];
                    if ends {
                        @repeat(E, B) { if B + E < columns { band[at + (B + E) * ALONG] = store(y[E]); } }
                    }
                }
                carried = !ends;
            }
            if tick + 1u < end || g + workgroups.x < params.count {
                // The next tick reads what other threads have stored. What they have left in workgroup memory it reads after a barrier of its own.
                storageBarrier();
            }
        }
    }
}
