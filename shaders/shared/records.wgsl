// The records that a level of the replay of divide and conquer works through, each by some rows. Shared by gather_columns, rotate_columns and
// secular_vectors.
//
//   words   a record of `size` words each, in a row. The first two are lo, the first row of its columns, and rows, their number.
//
// The importer declares words. Thread = (record, row).

import package::tuning::{LINEAR_THREADS};

struct Records {
    /// Index of the first record in words, and the words of each.
    first: u32,
    size: u32,
    /// Records, and the most rows that one of them has.
    count: u32,
    most: u32,
}

/// A row of a record.
struct RecordRow {
    /// The number of the record, and its index in words.
    number: u32,
    at: u32,
    row: u32,
    /// Whether there is such a record, with such a row.
    exists: bool,
}

/// The row of a thread.
fn record_row(workgroup: vec3<u32>, workgroups: vec3<u32>, thread: u32, records: Records) -> RecordRow {
    let e = (workgroup.x + workgroup.y * workgroups.x) * LINEAR_THREADS + thread;
    let number = e / records.most;
    let row = e % records.most;
    let at = records.first + number * records.size;
    if number >= records.count {
        return RecordRow(number, at, row, false);
    }
    return RecordRow(number, at, row, row < words[at + 1u]);
}
