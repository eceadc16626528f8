// Bulge chasing: the cycles of one time step of a reduction step. Twin: src/cpu/chase/mod.rs.
//
//   TEAM consecutive sweeps are a team. Sweep R of team t runs its cycle i at clock (cycles + 3 TEAM - 1) t + 3 (R - TEAM t) + i. A time
//   step is `cycles` ticks of the clock. A cycle acts on indices c0 ..= c1,
//     c0 = R + bandwidth - tile_width + i bandwidth,  c1 = min(c0 + tile_width, n - 1),  row = R if i = 0, else c0 - bandwidth:
//   right  H = I - tau v v^H from x = A[row, c0..=c1]^T;   A[row..=c1, c0..=c1]^T <- H A[row..=c1, c0..=c1]^T
//   left   H = I - tau v v^H from x = A[c0..=c1, c0];      A[c0..=c1, c0..=last] <- H A[c0..=c1, c0..=last],
//          last = min(c1 + bandwidth, n - 1)
//   A row is transposed, not conjugated. So both sides are y <- H y for lines y: the rows, or the columns, after x. With v = (1, g t) for
//   x = (alpha, t):  y <- y - w v,  w = tau (y_0 + conj(g) t^H y), so that t^H y needs no v.
//
//   band   A in band storage, entries as stored, in and out; those of several matrices one after the other
//   kept   (only if `kept`) n x n, column-major: the left reflector in column R from row c0 on, the right one in row R from column c0 on.
//          tau replaces the first entry, which is 1. Those of several matrices one after the other.
//
// workgroup.z is the matrix. Workgroup g runs the active teams first + g, first + g + (number of workgroups), ... These access disjoint
// entries. CYCLE_THREADS threads run a cycle. PARTS of them hold a line in registers, every PARTS-th entry each. LINES lines are processed at
// once. Neighbouring threads hold entries that are adjacent in memory: of different rows on the right, of one column on the left.
// A[c0..=c1, c0..=c1], which both sides change, stays in workgroup memory in between if it fits there (HANDED = 1). TAIL > c1 - c0,
// EACH = TAIL / PARTS.

import package::tuning::{TAIL, LINES, PARTS, EACH, TEAM, HANDED, CYCLE_THREADS, CHASE_THREADS, NORM_FLOOR, NORM_SCALE};
import package::scalar::{Real, Scalar, Stored, ONE, conjugate, load, multiply_add, store, times};
import package::reflector::{Reflector, Squares, larfg, add_square};
import package::pair::{
    Pair, zero, add_modulus_squared, add_pair, add_scalar, exact_square, exactly, pair_product, product, two_over_one_plus
};
import package::band::{Layout, band_index};

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

// A cycle reads what other threads have stored one tick before.
@if(coherent) @group(0) @binding(0) @coherent var<storage, read_write> band: array<Stored>;
@else @group(0) @binding(0) var<storage, read_write> band: array<Stored>;
@if(kept) @group(0) @binding(1) var<storage, read_write> kept: array<Scalar>;
@if(kept) const PARAMETERS = 2;
@else const PARAMETERS = 1;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(PARAMETERS) var<uniform> params: Params;

/// t of both sides of each sweep of the team: zeros in place of alpha and after the end. And alpha.
var<workgroup> tails: array<Scalar, 2 * TEAM * TAIL>;
var<workgroup> alphas: array<Scalar, 2 * TEAM>;
/// Partial sums of squares of t: entry k is in group k % GROUPS. The scaled ones are those of `Squares`.
const GROUPS = 8u;
var<workgroup> lengths: array<Pair, TEAM * GROUPS>;
var<workgroup> scaled: array<Real, TEAM * GROUPS>;
var<workgroup> reflectors: array<Reflector, TEAM>;
var<workgroup> taus: array<Pair, TEAM>;
/// A[c0 + i, c0 + j] at [i][j] after the right side. Rows are padded by one entry, so that neighbouring rows start in different banks.
const BLOCK_LD = TAIL + 1u;
const BLOCK = select(1u, TEAM * TAIL * BLOCK_LD, HANDED == 1u);
var<workgroup> block: array<Scalar, BLOCK>;
/// Each thread's share of t^H y, and y_0 of each line, if a line has several threads.
const SHARES = select(1u, CHASE_THREADS, PARTS > 1u);
var<workgroup> shares: array<Scalar, SHARES>;
var<workgroup> tops: array<Scalar, SHARES>;

/// One side of a cycle of the thread's sweep: x_k is at `start` + k `stride`, k < size, and line l at `start` + (l + 1) `across` +
/// k `stride`, l < lines. If the sweep has no cycle, there are no entries and no lines.
struct Side {
    start: u32,
    stride: u32,
    across: u32,
    lines: u32,
    size: u32,
    /// Number of the sweep in the team, of the thread among those of its sweep, and the thread's share of the lines.
    member: u32,
    thread: u32,
    part: u32,
    line: u32,
    /// 0 on the right, 1 on the left; and the index of its t.
    which: u32,
    tail: u32,
    /// The right side's lines before that of row c0.
    above: u32,
    /// The index in `kept` of the reflector, if it is kept, and its stride.
    keep_at: u32,
    keep_stride: u32,
}

/// The thread's entries of a line, and of the first line of the left side, loaded before the right side.
var<private> y: array<Scalar, EACH>;
var<private> early: array<Scalar, EACH>;

/// Loads the thread's entries of line l, zeros if there is no such line. One that the right side has left in workgroup memory comes from there.
fn load_line(side: Side, l: u32) {
    // There is no branch for entries after the end: the last one is read in their place.
    if HANDED == 1u && side.which == 1u && l + 1u < side.size {
        let at = side.member * TAIL * BLOCK_LD + l + 1u;
        @repeat(E, EACH) {
            let k = side.part + E * PARTS;
            y[E] = select(Scalar(), block[at + min(k, side.size - 1u) * BLOCK_LD], k < side.size);
        }
    } else if l < side.lines {
        let at = side.start + (l + 1u) * side.across;
        @repeat(E, EACH) {
            let k = side.part + E * PARTS;
            y[E] = select(Scalar(), load(band[at + min(k, side.size - 1u) * side.stride]), k < side.size);
        }
    } else {
        @repeat(E, EACH) y[E] = Scalar();
    }
}

/// Sums of squares of t, and the thread's share of t^H y of its first line.
fn first_sums(side: Side) -> Scalar {
    if side.size > 0u {
        for (var g = side.thread; g < GROUPS; g += CYCLE_THREADS) {
            var length = Pair();
            for (var k = g; k < TAIL; k += GROUPS) { length = add_modulus_squared(length, tails[side.tail + k]); }
            var sum = Squares();
            // Only squares that may have underflown need the scaled sum.
            if length.hi < NORM_FLOOR {
                for (var k = g; k < TAIL; k += GROUPS) { sum = add_square(sum, tails[side.tail + k]); }
            }
            lengths[side.member * GROUPS + g] = length;
            scaled[side.member * GROUPS + g] = sum.scaled;
        }
    }
    var share = Scalar();
    if side.line < side.lines {
        share = product_with_t(side);
        if PARTS > 1u {
            shares[side.member * CYCLE_THREADS + side.thread] = share;
            if side.part == 0u { tops[side.member * CYCLE_THREADS + side.line] = y[0]; }
        }
    }
    return share;
}

/// The thread's share of t^H y.
fn product_with_t(side: Side) -> Scalar {
    var sums = array<Scalar, 4>();
    @repeat(E, EACH) sums[E % 4u] = multiply_add(conjugate(tails[side.tail + side.part + E * PARTS]), y[E], sums[E % 4u]);
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/// The reflector of a side, by one thread.
fn make_reflector(side: Side) {
    if side.thread > 0u || side.size == 0u { return; }
    var sum = Squares();
    var length = Pair();
    for (var g = 0u; g < GROUPS; g++) {
        sum.scaled += scaled[side.member * GROUPS + g];
        length = add_pair(length, lengths[side.member * GROUPS + g]);
    }
    sum.plain = length.hi + length.lo;
    let h = larfg(alphas[side.which * TEAM + side.member], sum, length);
    var factor = h.inverse;
    if sum.plain < NORM_FLOOR {
        length = Pair(sum.scaled, Real());
        factor = h.inverse / NORM_SCALE;
    }
    // tau = 2 / (v^H v), or zero where H = I.
    var tau = Pair();
    if any(h.inverse != Scalar()) { tau = two_over_one_plus(pair_product(length, exact_square(factor))); }
    reflectors[side.member] = h;
    taus[side.member] = tau;
}

/// Writes H x, and H to the lines. `share` is that of the first line, whose entries are in y.
fn apply(side: Side, share: Scalar) {
    if side.size == 0u { return; }
    let h = reflectors[side.member];
    let tau = taus[side.member];
    for (var k = side.thread; k < side.size; k += CYCLE_THREADS) {
        band[side.start + k * side.stride] = store(select(Scalar(), h.beta, k == 0u));
        @if(kept) kept[side.keep_at + k * side.keep_stride] = select(times(tails[side.tail + k], h.inverse), tau.hi * ONE, k == 0u);
    }
    // If PARTS > 1, all lines fit into LINES: this runs once.
    for (var l = side.line; l < side.lines; l += LINES) {
        var sum = share;
        if l != side.line {
            load_line(side, l);
            sum = product_with_t(side);
        }
        var top = y[0];
        if PARTS > 1u {
            sum = Scalar();
            for (var p = 0u; p < PARTS; p++) {
                let place = select(side.line * PARTS + p, p * LINES + side.line, side.across == 1u);
                sum += shares[side.member * CYCLE_THREADS + place];
            }
            top = tops[side.member * CYCLE_THREADS + side.line];
        }
        let w = product(tau, add_scalar(exactly(top), times(conjugate(h.inverse), sum)));
        let w_of_t = times(w, h.inverse);
        @repeat(E, EACH) y[E] = multiply_add(-w_of_t, tails[side.tail + side.part + E * PARTS], y[E]);
        if side.part == 0u { y[0] -= w; }
        let handed = side.which == 0u && l >= side.above;
        if handed && side.part == 0u {
            // The left side's x.
            let i = l - side.above;
            tails[(TEAM + side.member) * TAIL + i] = select(y[0], Scalar(), i == 0u);
            if i == 0u { alphas[TEAM + side.member] = y[0]; }
        }
        if HANDED == 1u && handed {
            let at = (side.member * TAIL + l - side.above) * BLOCK_LD + side.part;
            @repeat(E, EACH) block[at + E * PARTS] = y[E];
        } else {
            let at = side.start + (l + 1u) * side.across + side.part * side.stride;
            @repeat(E, EACH) { if side.part + E * PARTS < side.size { band[at + E * PARTS * side.stride] = store(y[E]); } }
        }
    }
}

/// The cycle of every sweep of the team that has one at this tick, in the band of a matrix.
fn cycles_of_tick(matrix: u32, member: u32, thread: u32, sweep: u32, runs: bool, i: u32) {
    let shape = Layout(params.n, params.ld, params.ku);
    // The stride along a row of A. Along a column it is 1.
    let along_row = params.ld - 1u;
    let first_entry = matrix * params.columns * params.ld;
    let first_kept = matrix * params.n * params.n;
    var right = Side();
    var left = Side();
    if runs {
        let c0 = sweep + params.bandwidth - params.tile_width + i * params.bandwidth;
        let c1 = min(c0 + params.tile_width, params.n - 1u);
        let row = select(c0 - params.bandwidth, sweep, i == 0u);
        let last = min(c1 + params.bandwidth, params.n - 1u);
        right.start = first_entry + band_index(shape, row, c0);
        right.lines = c1 - row;
        right.size = c1 - c0 + 1u;
        right.above = c0 - row - 1u;
        left.start = first_entry + band_index(shape, c0, c0);
        left.lines = last - c0;
        left.size = right.size;
        right.keep_at = first_kept + sweep + c0 * params.n;
        right.keep_stride = params.n;
        left.keep_at = first_kept + c0 + sweep * params.n;
        left.keep_stride = 1u;
    }
    right.stride = along_row;
    right.across = 1u;
    left.stride = 1u;
    left.across = along_row;
    right.member = member;
    left.member = member;
    right.thread = thread;
    left.thread = thread;
    right.part = thread / LINES;
    right.line = thread % LINES;
    left.part = thread % PARTS;
    left.line = thread / PARTS;
    right.tail = member * TAIL;
    left.which = 1u;
    left.tail = (TEAM + member) * TAIL;

    // All loads are in flight at the same time.
    if runs {
        for (var k = thread; k < TAIL; k += CYCLE_THREADS) {
            var x = Scalar();
            if k < right.size { x = load(band[right.start + k * along_row]); }
            if k == 0u { alphas[member] = x; }
            tails[right.tail + k] = select(x, Scalar(), k == 0u);
            // The left side's x has its end here.
            if k >= left.size { tails[left.tail + k] = Scalar(); }
        }
    }
    if left.line + 1u >= left.size {
        load_line(left, left.line);
        @repeat(E, EACH) early[E] = y[E];
    }
    load_line(right, right.line);
    // t is complete before it is read.
    workgroupBarrier();
    // One text for both sides: compilers that inline all functions would have two.
    var side = right;
    for (var which = 0u; which < 2u; which++) {
        let share = first_sums(side);
        // Sums and shares are complete before they are added.
        workgroupBarrier();
        make_reflector(side);
        // The reflector is complete before it is applied.
        workgroupBarrier();
        apply(side, share);
        if which == 0u {
            // The right side's block and the left side's t are complete before they are read.
            if HANDED == 0u { storageBarrier(); }
            workgroupBarrier();
            side = left;
            if left.line + 1u >= left.size {
                @repeat(E, EACH) y[E] = early[E];
            } else {
                load_line(left, left.line);
            }
        }
    }
}

@compute @workgroup_size(CHASE_THREADS)
fn chase(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    zero = params.n >> 31u;
    let member = thread / CYCLE_THREADS;
    let sweeps = params.n - 1u - (params.bandwidth - params.tile_width);
    for (var g = workgroup.x; g < params.count; g += workgroups.x) {
        let team = params.first + g;
        let sweep = team * TEAM + member;
        let start = (params.cycles + 3u * TEAM - 1u) * team + 3u * member;
        // The number of cycles of the sweep.
        var all = 0u;
        if sweep < sweeps { all = (sweeps - sweep + params.bandwidth - 1u) / params.bandwidth; }
        let end = params.clock + params.cycles;
        for (var tick = params.clock; tick < end; tick++) {
            let runs = tick >= start && tick - start < all;
            cycles_of_tick(workgroup.z, member, thread % CYCLE_THREADS, sweep, runs, tick - start);
            if tick + 1u < end || g + workgroups.x < params.count {
                // The next tick reads what other threads have written, and the next team overwrites what they read.
                storageBarrier();
                workgroupBarrier();
            }
        }
    }
}
