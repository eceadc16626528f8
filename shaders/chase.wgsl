// Bulge chasing: the cycles of one time step of a reduction step. Twin: src/cpu/chase/mod.rs.
//
//   Sweep R runs its cycle i at clock (cycles + 2) R + i. A time step is `cycles` ticks of the clock. A cycle acts on indices c0 ..= c1,
//     c0 = R + bandwidth - tile_width + i bandwidth,  c1 = min(c0 + tile_width, n - 1),  row = R if i = 0, else c0 - bandwidth:
//   right  H = I - tau v v^H from x = A[row, c0..=c1]^T;   A[row..=c1, c0..=c1]^T <- H A[row..=c1, c0..=c1]^T
//   left   H = I - tau v v^H from x = A[c0..=c1, c0];      A[c0..=c1, c0..=last] <- H A[c0..=c1, c0..=last],
//          last = min(c1 + bandwidth, n - 1)
//   A row is transposed, not conjugated. So both sides are y <- H y for lines y: the rows, or the columns, after x.
//
//   band   A in band storage, entries as stored, in and out
//   kept   (only if `kept`) n x n, column-major: the left reflector in column R from row c0 on, the right one in row R from column c0 on.
//          tau replaces the first entry, which is 1.
//
// Workgroup g runs the active sweeps first + g, first + g + (number of workgroups), ... These access disjoint entries. PARTS threads hold
// a line in registers, every PARTS-th entry each. LINES lines are processed at once. Neighbouring threads hold entries that are adjacent in
// memory: of different rows on the right, of one column on the left. TAIL > c1 - c0, EACH = TAIL / PARTS rounded up.

import package::tuning::{TAIL, LINES, PARTS, EACH, CHASE_THREADS};
import package::scalar::{Scalar, Stored, ONE, conjugate, load, multiply_add, store, times};
import package::reflector::{Reflector, Squares, larfg, add_square};
import package::pair::{
    Pair, ScalarPair, zero, add_modulus_squared, add_pair, add_scalar, add_scalar_pair, product, two_over_one_plus
};
import package::band::{Layout, band_index};

struct Params {
    n: u32,
    ld: u32,
    ku: u32,
    bandwidth: u32,
    tile_width: u32,
    /// Ticks of a time step, and the first tick of this one.
    cycles: u32,
    clock: u32,
    /// First active sweep, and number of active sweeps.
    first: u32,
    count: u32,
}

// The left side of a cycle reads what other threads have stored on the right side.
@if(coherent) @group(0) @binding(0) @coherent var<storage, read_write> band: array<Stored>;
@else @group(0) @binding(0) var<storage, read_write> band: array<Stored>;
@if(kept) @group(0) @binding(1) var<storage, read_write> kept: array<Scalar>;
@if(kept) const PARAMETERS = 2;
@else const PARAMETERS = 1;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(PARAMETERS) var<uniform> params: Params;

/// The vector of a reflector, and partial sums of squares: entry k is in group k % GROUPS.
const GROUPS = 8u;
var<workgroup> x: array<Scalar, TAIL>;
var<workgroup> squares: array<Squares, GROUPS>;
var<workgroup> lengths: array<Pair, GROUPS>;
var<workgroup> v_lengths: array<Pair, GROUPS>;
/// Each thread's share of v^H y.
var<workgroup> shares: array<ScalarPair, CHASE_THREADS>;

/// The reflector of x_0 ..= x_last. Every thread calls it, and adds up all groups itself.
fn reflector(thread: u32, last: u32) -> Reflector {
    for (var g = thread; g < GROUPS; g += CHASE_THREADS) {
        var sum = Squares();
        var length = Pair();
        for (var k = g; k <= last; k += GROUPS) {
            if k > 0u {
                sum = add_square(sum, x[k]);
                length = add_modulus_squared(length, x[k]);
            }
        }
        squares[g] = sum;
        lengths[g] = length;
    }
    // The sums of all groups are complete before they are added.
    workgroupBarrier();
    var sum = Squares();
    var length = Pair();
    for (var g = 0u; g < GROUPS; g++) {
        sum.scaled += squares[g].scaled;
        length = add_pair(length, lengths[g]);
    }
    sum.plain = length.hi + length.lo;
    return larfg(x[0], sum, length);
}

/// tau = 2 / (v^H v), or zero where H = I. Every thread calls it.
fn tau_of(h: Reflector, thread: u32, last: u32) -> Pair {
    for (var g = thread; g < GROUPS; g += CHASE_THREADS) {
        var length = Pair();
        for (var k = g; k <= last; k += GROUPS) {
            if k > 0u { length = add_modulus_squared(length, times(x[k], h.inverse)); }
        }
        v_lengths[g] = length;
    }
    // The sums of all groups are complete before they are added.
    workgroupBarrier();
    if all(h.inverse == Scalar()) {
        return Pair();
    }
    var length = Pair();
    for (var g = 0u; g < GROUPS; g++) {
        length = add_pair(length, v_lengths[g]);
    }
    return two_over_one_plus(length);
}

/// Entry k of v.
fn entry_of_v(h: Reflector, k: u32) -> Scalar {
    if k == 0u {
        return ONE;
    }
    return times(x[k], h.inverse);
}

/// The index in `kept` of the reflector of one side of a cycle, and its stride.
@if(kept) var<private> keep_at: u32;
@if(kept) var<private> keep_stride: u32;

/// One side of a cycle: x_k is at `start` + k `stride`, 0 <= k <= last, and line l at `start` + (l + 1) `across` + k `stride`, l < lines.
fn one_side(thread: u32, start: u32, stride: u32, across: u32, lines: u32, last: u32) {
    let by_lines = across == 1u;
    let part = select(thread % PARTS, thread / LINES, by_lines);
    let line = select(thread / PARTS, thread % LINES, by_lines);

    for (var k = thread; k <= last; k += CHASE_THREADS) {
        x[k] = load(band[start + k * stride]);
    }
    // The first lines are loaded before the reflector is computed, to hide the latency.
    var y: array<Scalar, EACH>;
    for (var e = 0u; e < EACH; e++) {
        let k = part + e * PARTS;
        if line < lines && k <= last { y[e] = load(band[start + (line + 1u) * across + k * stride]); }
    }
    // x is complete before it is read.
    workgroupBarrier();
    let h = reflector(thread, last);
    let tau = tau_of(h, thread, last);
    for (var k = thread; k <= last; k += CHASE_THREADS) {
        band[start + k * stride] = store(select(Scalar(), h.beta, k == 0u));
        @if(kept) kept[keep_at + k * keep_stride] = select(entry_of_v(h, k), tau.hi * ONE, k == 0u);
    }

    // If PARTS > 1, all lines fit into LINES: this runs once, and no shares overwrite those of other lines.
    for (var first = 0u; first < lines; first += LINES) {
        let l = first + line;
        let at = start + (l + 1u) * across + part * stride;
        var share = ScalarPair();
        for (var e = 0u; e < EACH; e++) {
            let k = part + e * PARTS;
            if l < lines && k <= last {
                if first > 0u { y[e] = load(band[at + e * PARTS * stride]); }
                share = add_scalar(share, times(conjugate(entry_of_v(h, k)), y[e]));
            }
        }
        if PARTS > 1u {
            shares[thread] = share;
            // All shares of a line are complete before they are added.
            workgroupBarrier();
            share = ScalarPair();
            for (var p = 0u; p < PARTS; p++) {
                share = add_scalar_pair(share, shares[select(line * PARTS + p, p * LINES + line, by_lines)]);
            }
        }
        let w = product(tau, share);
        for (var e = 0u; e < EACH; e++) {
            let k = part + e * PARTS;
            if l < lines && k <= last {
                band[at + e * PARTS * stride] = store(multiply_add(-w, entry_of_v(h, k), y[e]));
            }
        }
    }
    // All threads have read x before it is overwritten, and have written what the next side reads.
    storageBarrier();
    workgroupBarrier();
}

@compute @workgroup_size(CHASE_THREADS)
fn chase(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    zero = params.n >> 31u;
    let shape = Layout(params.n, params.ld, params.ku);
    let left_over = params.bandwidth - params.tile_width;
    // The stride along a row of A. Along a column it is 1.
    let along_row = params.ld - 1u;
    for (var g = workgroup.x; g < params.count; g += workgroups.x) {
        let sweep = params.first + g;
        let start = (params.cycles + 2u) * sweep;
        // The number of cycles of the sweep, and the end of those in this time step.
        let all = (params.n - 1u - left_over - sweep + params.bandwidth - 1u) / params.bandwidth;
        let end = min(params.clock + params.cycles - start, all);
        for (var i = max(params.clock, start) - start; i < end; i++) {
            let c0 = sweep + left_over + i * params.bandwidth;
            let c1 = min(c0 + params.tile_width, params.n - 1u);
            let row = select(c0 - params.bandwidth, sweep, i == 0u);
            let last = min(c1 + params.bandwidth, params.n - 1u);
            @if(kept) keep_at = sweep + c0 * params.n;
            @if(kept) keep_stride = params.n;
            one_side(thread, band_index(shape, row, c0), along_row, 1u, c1 - row, c1 - c0);
            @if(kept) keep_at = c0 + sweep * params.n;
            @if(kept) keep_stride = 1u;
            one_side(thread, band_index(shape, c0, c0), 1u, along_row, last - c0, c1 - c0);
        }
    }
}
