// The squared moduli of the entries of a bidiagonal, scaled to at most 2: the input of `bisect`.
//
//   squares[0] = f,  squares[2 i + 1] = |f B(i, i)|^2,  squares[2 i + 2] = |f B(i, i + 1)|^2,  0 <= i < n, with 0 for the last;
//   f = 1 / the largest real or imaginary part, rounded; 1 if that is below the smallest normal number
//
//   band      B in band storage, entries as stored, in; those of several matrices one after the other
//   squares   2 n + 1 real numbers of each matrix, out
//
// Workgroup = matrix. A thread handles every LINEAR_THREADS-th column.

import package::tuning::{LINEAR_THREADS};
import package::scalar::{Real, Scalar, Stored, load};
import package::band::{Layout, band_index};
import package::squares::{factor_for, largest_part, scaled_square};

struct Params {
    n: u32,
    columns: u32,
    ld: u32,
    ku: u32,
}

@group(0) @binding(0) var<storage, read_write> band: array<Stored>;
@group(0) @binding(1) var<storage, read_write> squares: array<Real>;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(2) var<uniform> params: Params;

/// The largest real or imaginary part that each thread has seen.
var<workgroup> largest: array<Real, LINEAR_THREADS>;

/// B(i, j) of a matrix, or zero outside the band.
fn entry(matrix: u32, i: u32, j: u32) -> Scalar {
    if j < params.n && j <= i + params.ku {
        return load(band[matrix * params.columns * params.ld + band_index(Layout(params.n, params.ld, params.ku), i, j)]);
    }
    return Scalar();
}

@compute @workgroup_size(LINEAR_THREADS)
fn square_bidiagonal(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let matrix = workgroup.z;
    let first = matrix * (2u * params.n + 1u);
    var most = Real(0.0);
    for (var i = thread; i < params.n; i += LINEAR_THREADS) {
        most = max(most, max(largest_part(entry(matrix, i, i)), largest_part(entry(matrix, i, i + 1u))));
    }
    largest[thread] = most;
    // The maxima of all threads are complete before they are compared.
    workgroupBarrier();
    for (var k = 0u; k < LINEAR_THREADS; k++) {
        most = max(most, largest[k]);
    }
    let factor = factor_for(most);
    for (var i = thread; i < params.n; i += LINEAR_THREADS) {
        squares[first + 2u * i + 1u] = scaled_square(factor, entry(matrix, i, i));
        squares[first + 2u * i + 2u] = scaled_square(factor, entry(matrix, i, i + 1u));
    }
    if thread == 0u { squares[first] = factor; }
}
