// Bulge chasing: the cycles of one time step of a reduction step. Twin: src/cpu/chase.rs.
//
//   Sweep R runs its cycle i = time - 3 R on the index range c0 ..= c1,
//     c0 = R + target + i bandwidth,  c1 = min(c0 + tile_width, n - 1),  row = R if i = 0, else c0 - bandwidth:
//   right  H = I - tau v v^H from x = A[row, c0..=c1]^T;   A[row..=c1, c0..=c1]^T <- H A[row..=c1, c0..=c1]^T
//   left   H = I - tau v v^H from x = A[c0..=c1, c0];      A[c0..=c1, c0..=last] <- H A[c0..=c1, c0..=last],
//          last = min(c1 + bandwidth, n - 1)
//   A row is transposed, not conjugated, so that both sides are y <- H y.
//
//   band   A in band storage, entries as stored, in and out
//
// Workgroup g runs the active sweeps first + g, first + g + (number of workgroups), ...; they touch disjoint entries. On the right a
// thread applies H to a row at a time, on the left to a column. TAIL > c1 - c0.

import package::tuning::{TAIL, CHASE_THREADS};
import package::scalar::{Scalar, Stored, conjugate, load, multiply_add, store, times};
import package::reflector::{Reflector, Squares, larfg, add_square};
import package::pair::{Pair, zero, add_modulus_squared, add_scalar, exactly, product, two_over_one_plus};
import package::band::{Layout, band_index};

struct Params {
    n: u32,
    ld: u32,
    ku: u32,
    bandwidth: u32,
    tile_width: u32,
    time: u32,
    /// First active sweep, and how many there are.
    first: u32,
    count: u32,
}

@group(0) @binding(0) var<storage, read_write> band: array<Stored>;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(1) var<uniform> params: Params;

var<workgroup> x: array<Scalar, TAIL>;

/// The reflector of x_0 ..= x_last; every thread makes it for itself.
fn reflector(last: u32) -> Reflector {
    var squares = Squares();
    var plain = Pair();
    for (var k = 1u; k <= last; k++) {
        squares = add_square(squares, x[k]);
        plain = add_modulus_squared(plain, x[k]);
    }
    squares.plain = plain.hi + plain.lo;
    return larfg(x[0], squares, plain);
}

/// tau = 2 / (v^H v), or zero where H = I.
fn tau_of(h: Reflector, last: u32) -> Pair {
    if all(h.inverse == Scalar()) {
        return Pair();
    }
    var q = Pair();
    for (var k = 1u; k <= last; k++) {
        q = add_modulus_squared(q, times(x[k], h.inverse));
    }
    return two_over_one_plus(q);
}

/// y <- H y for the entries y_k at `start` + k * `stride`, 0 <= k <= last.
fn apply(h: Reflector, tau: Pair, start: u32, stride: u32, last: u32) {
    var dot = exactly(load(band[start]));
    for (var k = 1u; k <= last; k++) {
        let v = times(x[k], h.inverse);
        dot = add_scalar(dot, times(conjugate(v), load(band[start + k * stride])));
    }
    let w = product(tau, dot);
    band[start] = store(load(band[start]) - w);
    for (var k = 1u; k <= last; k++) {
        let at = start + k * stride;
        band[at] = store(multiply_add(-w, times(x[k], h.inverse), load(band[at])));
    }
}

/// `apply` for y = x: beta, then zeros.
fn annihilate(h: Reflector, start: u32, stride: u32, last: u32) {
    band[start] = store(h.beta);
    for (var k = 1u; k <= last; k++) {
        band[start + k * stride] = Stored();
    }
}

@compute @workgroup_size(CHASE_THREADS)
fn chase(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    zero = params.n >> 31u;
    let shape = Layout(params.n, params.ld, params.ku);
    for (var g = workgroup.x; g < params.count; g += workgroups.x) {
        let sweep = params.first + g;
        let i = params.time - 3u * sweep;
        let c0 = sweep + (params.bandwidth - params.tile_width) + i * params.bandwidth;
        let c1 = min(c0 + params.tile_width, params.n - 1u);
        let tail = c1 - c0;
        let row = select(c0 - params.bandwidth, sweep, i == 0u);
        let last = min(c1 + params.bandwidth, params.n - 1u);
        // Neighbours in a row of A lie this far apart; in a column they lie side by side.
        let along_row = params.ld - 1u;

        for (var k = thread; k <= tail; k += CHASE_THREADS) {
            x[k] = load(band[band_index(shape, row, c0) + k * along_row]);
        }
        // x, from the row, is there before it is read.
        workgroupBarrier();
        let right = reflector(tail);
        let right_tau = tau_of(right, tail);
        if thread == 0u {
            annihilate(right, band_index(shape, row, c0), along_row, tail);
        }
        for (var r = row + 1u + thread; r <= c1; r += CHASE_THREADS) {
            apply(right, right_tau, band_index(shape, r, c0), along_row, tail);
        }
        // Everyone is done with x before it is replaced, and the columns that the left side reads have been written.
        storageBarrier();
        workgroupBarrier();

        for (var k = thread; k <= tail; k += CHASE_THREADS) {
            x[k] = load(band[band_index(shape, c0, c0) + k]);
        }
        // x, from the column, is there before it is read.
        workgroupBarrier();
        let left = reflector(tail);
        let left_tau = tau_of(left, tail);
        if thread == 0u {
            annihilate(left, band_index(shape, c0, c0), 1u, tail);
        }
        for (var c = c0 + 1u + thread; c <= last; c += CHASE_THREADS) {
            apply(left, left_tau, band_index(shape, c0, c), 1u, tail);
        }
        // Everyone is done with x before the next cycle replaces it.
        workgroupBarrier();
    }
}
