// Application of the reflectors that chase has kept in one reduction step to any matrix. Twin: src/cpu/chase/apply.rs.
//
//   C <- op(H_0 H_1 ..) C, for the left reflectors, or the right ones (RIGHT), in the order of the sweeps
//   op: the product, its adjoint (ADJOINT), and with conjugates of the reflectors (CONJUGATE)
//
//   kept             n x n from index `first_kept` on, as chase leaves it
//   package::dense   C as stored, n x cols, strides (rs, cs), in and out
//
// Those of several matrices lie one after the other: workgroup.z is the matrix.
//
// Sweeps are in chunks of `chunk`. A workgroup has chunk g and cycle i of its sweeps, of which the reflectors begin at consecutive rows; i - g is
// the same for all workgroups of a dispatch, which makes their rows disjoint. The chunks of the product come in descending order of g - i.
//
// Thread = COLUMNS columns of C, LINEAR_THREADS apart. It holds the rows of one reflector in a window of registers a column. From reflector to reflector the
// window moves by one row: a row is read and written once a chunk. STAGED reflectors at a time are in workgroup memory, with zeros after their ends; a
// thread reads each once. Loops over the window are unrolled, because what has a variable index is in no register; but not those of very long reflectors.

import package::tuning::{COLUMNS, FOURS_UNROLLED, LINEAR_THREADS, REACH, REACH4, ROWS_LEFT, ROWS_UNROLLED, SPAN, STAGED};
import package::dense::{read_entry, write_entry};
import package::level::{Level, Place, ADJOINT, CONJUGATE, first_entry, place_of};
import package::scalar::{Real, Scalar, Scalar4, Lanes, ONE, conjugate, join, lanes, load, multiply_add, real_part, store};

struct Params {
    n: u32,
    bandwidth: u32,
    tile_width: u32,
    /// Sweeps of a chunk.
    chunk: u32,
    /// Chunk and cycle of the first workgroup.
    first: u32,
    cycle: u32,
    /// Columns of C.
    cols: u32,
    rs: u32,
    cs: u32,
    lines: u32,
    flags: u32,
    first_kept: u32,
    /// The index of the first entry of C, and the entries to that of the next matrix.
    c: u32,
    matrix: u32,
}

const RIGHT = 16u;

@group(0) @binding(0) var<storage, read_write> kept: array<Scalar>;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(1) var<uniform> params: Params;

/// Reflector q in vectors q REACH4 .. (q + 1) REACH4.
var<workgroup> v: array<Scalar4, STAGED * REACH4>;
var<workgroup> taus: array<Real, STAGED>;
/// REACH rows of each of the thread's columns, and room for one more, SPAN apart. Rows after these meet zeros.
var<private> window: array<Scalar, COLUMNS * SPAN>;
/// The reflector, and for each column four parts of v^H x, then -tau v^H x.
var<private> held: array<Scalar4, REACH4>;
var<private> sums: array<Lanes, COLUMNS>;
var<private> weights: array<Scalar, COLUMNS>;

/// The index in `kept` of the matrix's reflectors.
var<private> first_kept: u32;

/// The place of C[i, j].
fn place(i: u32, j: u32) -> Place {
    var level = Level();
    level.rs = params.rs;
    level.cs = params.cs;
    level.lines = params.lines;
    return place_of(level, i, j);
}

/// C[i, j], or zero outside C.
fn read_row(i: u32, j: u32) -> Scalar {
    if i < params.n && j < params.cols {
        return load(read_entry(place(i, j)));
    }
    return Scalar();
}

/// C[i, j] <- x, if it is inside C.
fn write_row(i: u32, j: u32, x: Scalar) {
    if i < params.n && j < params.cols {
        write_entry(place(i, j), store(x));
    }
}

/// Entry k of the reflector of `sweep` that begins at row c0, zero after its end.
fn entry_of_v(sweep: u32, c0: u32, k: u32) -> Scalar {
    if k > params.tile_width || c0 + k >= params.n {
        return Scalar();
    }
    if k == 0u {
        return ONE;
    }
    let right = (params.flags & RIGHT) != 0u;
    let entry = kept[first_kept + select(c0 + k + sweep * params.n, sweep + (c0 + k) * params.n, right)];
    return select(entry, conjugate(entry), (params.flags & CONJUGATE) != 0u);
}

/// Copies tau and v of one reflector to place q of workgroup memory, by all threads.
fn stage(thread: u32, q: u32, sweep: u32, c0: u32) {
    for (var e = thread; e < REACH4; e += LINEAR_THREADS) {
        let k = 4u * e;
        v[q * REACH4 + e] = join(Lanes(
            entry_of_v(sweep, c0, k),
            entry_of_v(sweep, c0, k + 1u),
            entry_of_v(sweep, c0, k + 2u),
            entry_of_v(sweep, c0, k + 3u),
        ));
        if e == 0u {
            let right = (params.flags & RIGHT) != 0u;
            taus[q] = real_part(kept[first_kept + select(c0 + sweep * params.n, sweep + c0 * params.n, right)]);
        }
    }
}

/// Part p of v^H x for the x from window[at] on.
fn multiply_part(q: u32, p: u32, at: u32) {
    held[p] = v[q * REACH4 + p];
    let four = lanes(held[p]);
    @repeat(C, COLUMNS) {
        let k = C * SPAN + 4u * p + at;
        sums[C].x = multiply_add(conjugate(four.x), window[k], sums[C].x);
        sums[C].y = multiply_add(conjugate(four.y), window[k + 1u], sums[C].y);
        sums[C].z = multiply_add(conjugate(four.z), window[k + 2u], sums[C].z);
        sums[C].w = multiply_add(conjugate(four.w), window[k + 3u], sums[C].w);
    }
}

/// weights <- -tau v^H x for reflector q and the x from window[at] on.
fn weigh(q: u32, at: u32) {
    @repeat(C, COLUMNS) sums[C] = Lanes();
    @repeat(P, FOURS_UNROLLED) multiply_part(q, P, at);
    for (var p = FOURS_UNROLLED; p < REACH4; p++) {
        multiply_part(q, p, at);
    }
    let tau = taus[q];
    @repeat(C, COLUMNS) weights[C] = -tau * ((sums[C].x + sums[C].y) + (sums[C].z + sums[C].w));
}

/// Part p of x <- x + w v for the x from window[0] on, which moves to window[1].
fn add_part_upwards(p: u32) {
    let four = lanes(held[p]);
    @repeat(C, COLUMNS) {
        let k = C * SPAN + 4u * p;
        window[k + 4u] = multiply_add(weights[C], four.w, window[k + 3u]);
        window[k + 3u] = multiply_add(weights[C], four.z, window[k + 2u]);
        window[k + 2u] = multiply_add(weights[C], four.y, window[k + 1u]);
        window[k + 1u] = multiply_add(weights[C], four.x, window[k]);
    }
}

/// Part p of x <- x + w v for the x from window[1] on, which moves to window[0].
fn add_part_downwards(p: u32) {
    let four = lanes(held[p]);
    @repeat(C, COLUMNS) {
        let k = C * SPAN + 4u * p;
        window[k] = multiply_add(weights[C], four.x, window[k + 1u]);
        window[k + 1u] = multiply_add(weights[C], four.y, window[k + 2u]);
        window[k + 2u] = multiply_add(weights[C], four.z, window[k + 3u]);
        window[k + 3u] = multiply_add(weights[C], four.w, window[k + 4u]);
    }
}

/// C[i, ..] to window[k], in the thread's columns from j on.
fn read_rows(i: u32, j: u32, k: u32) {
    @repeat(C, COLUMNS) window[C * SPAN + k] = read_row(i, j + C * LINEAR_THREADS);
}

/// window[k] to C[i, ..].
fn write_rows(i: u32, j: u32, k: u32) {
    @repeat(C, COLUMNS) write_row(i, j + C * LINEAR_THREADS, window[C * SPAN + k]);
}

@compute @workgroup_size(LINEAR_THREADS)
fn apply_chase(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    first_entry = params.c + workgroup.z * params.matrix;
    first_kept = params.first_kept + workgroup.z * params.n * params.n;
    let j = workgroup.x * (COLUMNS * LINEAR_THREADS) + thread;
    let cycle = params.cycle + workgroup.y;
    let begin = (params.first + workgroup.y) * params.chunk;
    // Row of the first reflector of sweep 0 in this cycle, and the number of sweeps that have the cycle.
    let row = params.bandwidth - params.tile_width + cycle * params.bandwidth;
    let sweeps = max(params.n, row + 1u) - (row + 1u);
    if begin >= sweeps {
        return;
    }
    let count = min(params.chunk, sweeps - begin);
    let ascending = (params.flags & ADJOINT) != 0u;

    let start = row + begin + select(count - 1u, 0u, ascending);
    if ascending {
        @repeat(K, ROWS_UNROLLED) read_rows(start + K, j, K + 1u);
        for (var k = ROWS_UNROLLED; k < REACH; k++) {
            read_rows(start + k, j, k + 1u);
        }
    } else {
        @repeat(K, ROWS_UNROLLED) read_rows(start + K, j, K);
        for (var k = ROWS_UNROLLED; k < REACH; k++) {
            read_rows(start + k, j, k);
        }
    }
    var next = array<Scalar, COLUMNS>();
    for (var done = 0u; done < count; done += STAGED) {
        let these = min(STAGED, count - done);
        // All threads have used the reflectors before others replace them.
        workgroupBarrier();
        for (var q = 0u; q < these; q++) {
            let sweep = begin + select(count - 1u - done - q, done + q, ascending);
            stage(thread, q, sweep, row + sweep);
        }
        // All are there before they are used.
        workgroupBarrier();
        for (var q = 0u; q < these; q++) {
            let is_last = done + q + 1u == count;
            if ascending {
                let c0 = row + begin + done + q;
                // Read early: they arrive while the reflector is applied.
                let at = select(c0 + REACH, params.n, is_last);
                @repeat(C, COLUMNS) next[C] = read_row(at, j + C * LINEAR_THREADS);
                weigh(q, 1u);
                @repeat(P, FOURS_UNROLLED) add_part_downwards(P);
                for (var p = FOURS_UNROLLED; p < REACH4; p++) {
                    add_part_downwards(p);
                }
                write_rows(c0, j, 0u);
                @repeat(C, COLUMNS) window[C * SPAN + REACH] = next[C];
            } else {
                let c0 = row + begin + count - 1u - done - q;
                let at = select(c0 - 1u, params.n, is_last);
                @repeat(C, COLUMNS) next[C] = read_row(at, j + C * LINEAR_THREADS);
                weigh(q, 0u);
                for (var p = REACH4; p > FOURS_UNROLLED; p--) {
                    add_part_upwards(p - 1u);
                }
                @repeat(P, FOURS_UNROLLED) add_part_upwards(FOURS_UNROLLED - 1u - P);
                write_rows(c0 + REACH - 1u, j, REACH);
                @repeat(C, COLUMNS) window[C * SPAN] = next[C];
            }
        }
    }
    let last = row + begin + select(0u, count - 1u, ascending);
    @repeat(K, ROWS_LEFT) write_rows(last + select(K, K + 1u, ascending), j, K + 1u);
    for (var k = ROWS_LEFT; k + 1u < REACH; k++) {
        write_rows(last + select(k, k + 1u, ascending), j, k + 1u);
    }
}
