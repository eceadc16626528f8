// One-stage reduction: the last product of the panel is completed, and the next line computed with it. Twin: src/cpu/one_stage.
//
//   p_i = tau (product_i - sum_c P[i, c] z_c)              the last column of P, sums over the columns before it
//   x_i = A[i, line] - sum_c P[i, c] R[line, c] - p_i      R[line, ..] is 1 in the last column
//
//   package::dense   the matrix as stored: the line in
//   panels, sums     shared/panels.wgsl: P, R, products and tau of the reflector before in; the last column of P, x and its
//                    squares out
//
// Thread = row. Each workgroup first adds up the parts of z.

import package::tuning::{PAIRS, LINEAR_THREADS};
import package::dense::{read_entry};
import package::pair::{Pair, add_modulus_squared, add_pair, exactly, product, zero};
import package::panels::{Line, LAST, of_p, of_products, of_r, of_squares, of_tau, of_x, place_in, reflector_of};
import package::reflector::{Squares, add_square};
import package::scalar::{Real, Scalar, load, multiply_add};

@group(0) @binding(0) var<storage, read_write> panels: array<Scalar>;
@group(0) @binding(1) var<storage, read_write> sums: array<Real>;
@if(immediates) var<immediate> line: Line;
@else @group(0) @binding(2) var<uniform> line: Line;

var<workgroup> z: array<Scalar, PAIRS>;
var<workgroup> pivots: array<Scalar, PAIRS>;
var<workgroup> high: array<Real, LINEAR_THREADS>;
var<workgroup> low: array<Real, LINEAR_THREADS>;
var<workgroup> scaled: array<Real, LINEAR_THREADS>;

@compute @workgroup_size(LINEAR_THREADS)
fn update_line(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    zero = line.rows >> 31u;
    let q = workgroup.x + workgroup.y * workgroups.x;
    let i = line.first + q * LINEAR_THREADS + thread;
    let is_last = (line.flags & LAST) != 0u;
    // Columns before the last one.
    let before = max(line.done, 1u) - 1u;
    for (var c = thread; c < before; c += LINEAR_THREADS) {
        var sum = Scalar();
        for (var part = 0u; part < line.parts; part++) { sum += panels[of_products(line, part) + c]; }
        z[c] = sum;
        pivots[c] = panels[of_r(line, c) + line.line];
    }
    // z and the pivots are complete before they are read.
    workgroupBarrier();

    var x = Scalar();
    var square = Pair();
    var squares = Squares();
    if i < line.rows {
        if !is_last { x = load(read_entry(place_in(line, i, line.line))); }
        if line.done > 0u {
            var p = Scalar();
            for (var part = 0u; part < line.parts; part++) { p += panels[of_products(line, part) + PAIRS + i]; }
            for (var c = 0u; c < before; c++) {
                let entry = panels[of_p(line, c) + i];
                p = multiply_add(-entry, z[c], p);
                x = multiply_add(-entry, pivots[c], x);
            }
            let tau = of_tau(reflector_of(line) - 1u);
            p = product(Pair(sums[tau], sums[tau + 1u]), exactly(p));
            panels[of_p(line, before) + i] = p;
            x -= p;
        }
        if !is_last {
            panels[of_x(line) + i] = x;
            if i > line.first {
                square = add_modulus_squared(square, x);
                squares = add_square(squares, x);
            }
        }
    }
    high[thread] = square.hi;
    low[thread] = square.lo;
    scaled[thread] = squares.scaled;
    for (var half = LINEAR_THREADS / 2u; half > 0u; half /= 2u) {
        // The sums of the upper half are complete before they are added to the lower half.
        workgroupBarrier();
        if thread < half {
            let sum = add_pair(Pair(high[thread], low[thread]), Pair(high[thread + half], low[thread + half]));
            high[thread] = sum.hi;
            low[thread] = sum.lo;
            scaled[thread] += scaled[thread + half];
        }
    }
    if thread == 0u && !is_last && line.first + q * LINEAR_THREADS < line.rows {
        let at = of_squares(line, q);
        sums[at] = high[0];
        sums[at + 1u] = low[0];
        sums[at + 2u] = scaled[0];
    }
}
