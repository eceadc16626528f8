// The second factors of the products of one level of the replay of divide and conquer, and the columns that have no product. Twin:
// secular_vectors in src/algo/bidiag/divide/schedule.rs.
//
//   w_i = -z_i length / ((omega - d_i) (omega + d_i)),  omega = pole + offset     for a column with a root, i < rows
//   x_i = y[first + i]                                                            for a deflated column
//
//   w, x      by columns, leading dimension ld: row lo + i of the record's column, out
//   y         the gathered columns
//   words     a record of RECORD words for each column: lo, rows, column, first, root
//             root: 0 for a deflated column, else one more than the index of its root; first: the index of d_0, or of an entry of y
//   numbers   for each place d in three parts and z; for each root its pole in three parts, the offset, and one over the length
//
// d and the poles are sums of three numbers, so that their differences have no cancellation where the device has no f64: the errors of the
// first subtractions are summed too (shared/pair.wgsl).
//
// Thread = (column, row): shared/records.wgsl.

import package::tuning::{LINEAR_THREADS};
import package::pair::{Pair, add, zero};
import package::records::{Records, record_row};
import package::scalar::{Real};

struct Params {
    /// Index of the first record, and of the numbers of place 0 and root 0.
    words: u32,
    places: u32,
    roots: u32,
    /// Columns, and the most rows that one of them has.
    count: u32,
    most: u32,
    ld: u32,
}

const RECORD = 5u;

@group(0) @binding(0) var<storage, read_write> w: array<Real>;
@group(0) @binding(1) var<storage, read_write> x: array<Real>;
@group(0) @binding(2) var<storage, read_write> y: array<Real>;
@group(0) @binding(3) var<storage, read_write> words: array<u32>;
@group(0) @binding(4) var<storage, read_write> numbers: array<Real>;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(5) var<uniform> params: Params;

@compute @workgroup_size(LINEAR_THREADS)
fn secular_vectors(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    // An order has fewer than 2^31 rows.
    zero = params.ld >> 31u;
    let column = record_row(workgroup, workgroups, thread, Records(params.words, RECORD, params.count, params.most));
    if !column.exists {
        return;
    }
    let record = column.at;
    let i = column.row;
    let at = words[record + 2u] * params.ld + words[record] + i;
    let first = words[record + 3u];
    let root = words[record + 4u];
    if root == 0u {
        x[at] = y[first + i];
        return;
    }
    let d = params.places + 4u * (first + i);
    let pole = params.roots + 5u * (root - 1u);
    let offset = numbers[pole + 3u];
    var difference = add(Pair(numbers[pole], Real(0.0)), -numbers[d]);
    difference = add(difference, numbers[pole + 1u]);
    difference = add(difference, -numbers[d + 1u]);
    difference = add(difference, numbers[pole + 2u] - numbers[d + 2u]);
    difference = add(difference, offset);
    let sum = (numbers[pole] + numbers[d]) + offset;
    // Two quotients, of which neither overflows.
    w[at] = -(numbers[d + 3u] / (difference.hi + difference.lo)) * (numbers[pole + 4u] / sum);
}
