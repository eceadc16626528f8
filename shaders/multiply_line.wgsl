// One-stage reduction: the reflector of x, and its products with the matrix and the panel. Twin: src/cpu/one_stage.
//
//   v = (1, inverse x_1, ..),  H x = beta e_1 for H = I - tau v v^H
//   products:  A[.., c]^T conj(v) for the columns right of the line,  P[.., c]^T conj(v) for the columns of the panel
//
//   package::dense   the matrix as stored: columns right of the line in; beta and v in the line out
//   panels, sums     shared/panels.wgsl: P, x and its squares in; v in the next column of P, the products in parts, and tau out
//
// Workgroup = (block of LANES columns of the matrix or of the panel, part of their rows). Thread (lane, share) of LANES x LANES:
// neighbouring threads read adjacent entries. Every workgroup computes the reflector's scalars, in the same way. Together they
// write v.

import package::tuning::{PAIRS, LANES, LINEAR_THREADS, MULTIPLY_THREADS, NORM_FLOOR, NORM_SCALE};
import package::dense::{read_entry, write_entry};
import package::pair::{Pair, add_pair, exact_square, pair_product, two_over_one_plus, zero};
import package::panels::{Line, of_p, of_products, of_squares, of_tau, of_x, place_in, reflector_of};
import package::reflector::{Reflector, Squares, larfg};
import package::scalar::{Real, Scalar, ONE, conjugate, load, multiply_add, store, times};

@group(0) @binding(0) var<storage, read_write> panels: array<Scalar>;
@group(0) @binding(1) var<storage, read_write> sums: array<Real>;
@if(immediates) var<immediate> line: Line;
@else @group(0) @binding(2) var<uniform> line: Line;

/// The sums of the threads of a column. Rows are padded by one entry.
const SHARES_LD = LANES + 1u;
var<workgroup> shares: array<Scalar, LANES * SHARES_LD>;

/// Entry i of v.
fn entry_of_v(h: Reflector, i: u32) -> Scalar {
    if i == line.first { return ONE; }
    return times(panels[of_x(line) + i], h.inverse);
}

@compute @workgroup_size(MULTIPLY_THREADS)
fn multiply_line(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    zero = line.rows >> 31u;
    let groups = (line.rows - line.first + LINEAR_THREADS - 1u) / LINEAR_THREADS;
    var plain = Pair();
    var scaled = Real();
    for (var g = 0u; g < groups; g++) {
        let at = of_squares(line, g);
        plain = add_pair(plain, Pair(sums[at], sums[at + 1u]));
        scaled += sums[at + 2u];
    }
    let h = larfg(panels[of_x(line) + line.first], Squares(plain.hi, scaled), plain);

    // Each workgroup writes its share of v.
    let index = workgroup.x + workgroup.y * workgroups.x;
    let stride = workgroups.x * workgroups.y * MULTIPLY_THREADS;
    for (var i = line.first + index * MULTIPLY_THREADS + thread; i < line.rows; i += stride) {
        let v = entry_of_v(h, i);
        panels[of_p(line, line.done) + i] = v;
        write_entry(place_in(line, i, line.line), store(select(v, h.beta, i == line.first)));
    }
    if index == 0u && thread == 0u {
        var square = plain;
        var factor = h.inverse;
        if plain.hi < NORM_FLOOR {
            square = Pair(scaled, Real());
            factor = h.inverse / NORM_SCALE;
        }
        var tau = Pair();
        if any(h.inverse != Scalar()) { tau = two_over_one_plus(pair_product(square, exact_square(factor))); }
        let at = of_tau(reflector_of(line));
        sums[at] = tau.hi;
        sums[at + 1u] = tau.lo;
    }

    let cols = line.cols - line.line - 1u;
    let blocks = (cols + LANES - 1u) / LANES;
    let of_matrix = workgroup.x < blocks;
    let count = select(line.done, cols, of_matrix);
    let col = select(workgroup.x - blocks, workgroup.x, of_matrix) * LANES;
    // Columns of the panel are contiguous.
    let by_rows = of_matrix && line.cs == 1u;
    let c = select(thread / LANES, thread % LANES, by_rows);
    let share = select(thread % LANES, thread / LANES, by_rows);
    let each = (line.rows - line.first + line.parts - 1u) / line.parts;
    let start = line.first + workgroup.y * each;
    let end = min(start + each, line.rows);

    var sum = Scalar();
    if col + c < count {
        if of_matrix {
            for (var i = start + share; i < end; i += LANES) {
                let entry = load(read_entry(place_in(line, i, line.line + 1u + col + c)));
                sum = multiply_add(conjugate(entry_of_v(h, i)), entry, sum);
            }
        } else {
            for (var i = start + share; i < end; i += LANES) {
                sum = multiply_add(conjugate(entry_of_v(h, i)), panels[of_p(line, col + c) + i], sum);
            }
        }
    }
    shares[c * SHARES_LD + share] = sum;
    // The shares of every column are complete before they are added.
    workgroupBarrier();
    if thread < LANES && col + thread < count {
        var total = Scalar();
        for (var s = 0u; s < LANES; s++) { total += shares[thread * SHARES_LD + s]; }
        let to = select(0u, PAIRS + line.line + 1u, of_matrix);
        panels[of_products(line, workgroup.y) + to + col + thread] = total;
    }
}
