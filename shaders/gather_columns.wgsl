// The columns of one level of the replay of divide and conquer, from those of the parts. Twin: gather in
// src/algo/bidiag/divide/schedule.rs.
//
//   to[column ld + lo + i] = top from[first + i] for i < middle, and bottom from[second + i - middle] for middle <= i < rows
//
//   from      the vectors of the parts, or of the leaves, by columns
//   to        the columns in the order of the product, leading dimension ld, out
//   words     a record of RECORD words for each column: lo, rows, column, middle, first, second
//   numbers   top and bottom for each column; the entries of from are not read where they are zero
//
// Thread = (column, row): shared/records.wgsl.

import package::tuning::{LINEAR_THREADS};
import package::records::{Records, record_row};
import package::scalar::{Real};

struct Params {
    /// Index of the first record, and of its numbers.
    words: u32,
    numbers: u32,
    /// Columns, and the most rows that one of them has.
    count: u32,
    most: u32,
    ld: u32,
}

const RECORD = 6u;

@group(0) @binding(0) var<storage, read_write> source: array<Real>;
@group(0) @binding(1) var<storage, read_write> target_columns: array<Real>;
@group(0) @binding(2) var<storage, read_write> words: array<u32>;
@group(0) @binding(3) var<storage, read_write> numbers: array<Real>;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(4) var<uniform> params: Params;

@compute @workgroup_size(LINEAR_THREADS)
fn gather_columns(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let column = record_row(workgroup, workgroups, thread, Records(params.words, RECORD, params.count, params.most));
    if !column.exists {
        return;
    }
    let record = column.at;
    let i = column.row;
    let middle = words[record + 3u];
    let below = i >= middle;
    let factor = numbers[params.numbers + 2u * column.number + u32(below)];
    var x = Real(0.0);
    if factor != Real(0.0) {
        x = factor * source[select(words[record + 4u] + i, words[record + 5u] + i - middle, below)];
    }
    target_columns[words[record + 2u] * params.ld + words[record] + i] = x;
}
