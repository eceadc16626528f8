// The rotations of one level of the replay of divide and conquer. Twin: rotate in src/algo/bidiag/divide/schedule.rs.
//
//   (y_p, y_q) <- (c y_p - s y_q, c y_q + s y_p), one after the other, for the rotations of each node
//
//   y         the columns of the level, in and out
//   words     a record of RECORD words for each node: lo (its first row), rows, the first of its rotations, their number;
//             and for each rotation p and q, as the indices of row 0 of these columns
//   numbers   c and s for each rotation
//
// Thread = (node, row): shared/records.wgsl.

import package::tuning::{LINEAR_THREADS};
import package::records::{Records, record_row};
import package::scalar::{Real};

struct Params {
    /// Index of the first record, of the words and of the numbers of rotation 0.
    words: u32,
    pairs: u32,
    numbers: u32,
    /// Nodes, and the most rows that one of them has.
    count: u32,
    most: u32,
}

const RECORD = 4u;

@group(0) @binding(0) var<storage, read_write> y: array<Real>;
@group(0) @binding(1) var<storage, read_write> words: array<u32>;
@group(0) @binding(2) var<storage, read_write> numbers: array<Real>;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(3) var<uniform> params: Params;

@compute @workgroup_size(LINEAR_THREADS)
fn rotate_columns(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let node = record_row(workgroup, workgroups, thread, Records(params.words, RECORD, params.count, params.most));
    if !node.exists {
        return;
    }
    let row = words[node.at] + node.row;
    let first = words[node.at + 2u];
    for (var r = first; r < first + words[node.at + 3u]; r++) {
        let p = words[params.pairs + 2u * r] + row;
        let q = words[params.pairs + 2u * r + 1u] + row;
        let c = numbers[params.numbers + 2u * r];
        let s = numbers[params.numbers + 2u * r + 1u];
        let x = y[p];
        y[p] = c * x - s * y[q];
        y[q] = c * y[q] + s * x;
    }
}
