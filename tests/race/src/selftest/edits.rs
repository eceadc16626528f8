//! The mistakes other than barriers left out.

/// Barriers that can be left out without a finding, and why they are there.
pub const SPARE: [(&str, &str); 3] = [
    ("chase without storageBarrier() 0", BESIDE),
    ("chase without storageBarrier() 1", BESIDE),
    ("batch without storageBarrier() 0", BESIDE),
];

/// Without it an access to the buffer is a note, not a finding.
const BESIDE: &str = "the workgroupBarrier beside it orders the threads, and this one the buffer's memory";

/// Of `opaque` in pair.wgsl.
const OPAQUE: &str = "return bitcast<f32>(bitcast<u32>(x) ^ zero);";

/// A shader (empty: every one), the text there, and what takes its place.
pub const EDITS: &[(&str, &str, &str)] = &[
    ("chase", "array<Scalar, 2 * TEAM * TAIL>", "array<Scalar, TEAM * TAIL>"),
    ("chase", "(params.cycles + 3u * TEAM - 1u) * team", "(params.cycles + 3u * TEAM - 2u) * team"),
    ("chase", "3u * member;", "2u * member;"),
    ("chase", "params.first + g", "params.first + g / 2u"),
    ("chase", "l < side.lines {", "l <= side.lines {"),
    ("chase", "@coherent", ""),
    ("apply_chase", "i < params.n && j < params.cols", "i <= params.n && j < params.cols"),
    ("apply_chase", "workgroup.x * LINEAR_THREADS + thread", "workgroup.x * (LINEAR_THREADS - 1u) + thread"),
    ("apply_chase", "min(STAGED, count - done)", "STAGED"),
    ("apply_chase", "params.cycle + workgroup.y", "params.cycle"),
    ("pack_band", "if j >= params.n", "if j > params.n"),
    ("unpack_band", "if j >= params.n", "if j > params.n"),
    ("repack_band", "if j >= params.n", "if j > params.n"),
    ("geqrt", "if j > 0u { make_entry_of_t", "if j > 2u { make_entry_of_t"),
    ("geqrt", "if r < rows {", "if r <= rows {"),
    ("geqrt", "4u * SPLIT * 1u < rows {", "4u * SPLIT * 2u < rows {"),
    ("geqrt", "let is_there = r < rows && ", "let is_there = "),
    ("gather_reflectors", "if block >= level.blocks", "if block > level.blocks"),
    ("gather_reflectors", "let of_v = level.rows * TS", "let of_v = (level.rows + 1u) * TS"),
    ("unmqr", "if lines > 3u", "if lines > 2u"),
    ("unmqr", "if g + 3u < end", "if g + 2u < end"),
    ("unmqr", "min(level.block_rows, level.rows - first)", "min(level.block_rows + 1u, level.rows - first)"),
    ("unmqr", "workgroup.x * CPB", "workgroup.x * (CPB - 4u)"),
    ("unmqr", "(1u + HELD) * RIGHT_TILE", "max(1u, HELD) * RIGHT_TILE"),
    ("unmqr", "(1u + after) * RIGHT_TILE", "after * RIGHT_TILE"),
    ("slice_lines", "line < params.lines && k < params.terms", "k < params.terms"),
    ("slice_lines", "line < params.lines && k < params.terms", "line < params.lines && k <= params.terms"),
    ("slice_lines", "if line >= params.padded", "if line > params.padded"),
    ("slice_lines", "& 0xffffe000u", "& 0xfffff000u"),
    ("larft", "g >= level.rows ||", "g > level.rows ||"),
    ("update_line", "if i < line.rows", "if i <= line.rows"),
    ("update_line", "max(line.done, 1u) - 1u", "line.done"),
    ("multiply_line", "i < line.rows; i += stride", "i <= line.rows; i += stride"),
    ("multiply_line", "thread < LANES && col + thread < count", "thread < LANES"),
    ("multiply_line", "workgroups.x * workgroups.y * MULTIPLY_THREADS", "MULTIPLY_THREADS"),
    ("update_trailing", "i < product.rows", "i <= product.rows"),
    ("update_trailing", "j < product.cols", "j <= product.cols"),
    ("gemm", "i < product.rows", "i <= product.rows"),
    ("gemm", "j < product.cols", "j <= product.cols"),
    ("gemm_batch", "i < product.rows", "i <= product.rows"),
    ("gemm_batch", "workgroup.x * CPB", "workgroup.x * (CPB - 4u)"),
    ("gemm_batch", "params.first + workgroup.z", "params.first"),
    ("trsm", "(k % 2u)", "0u"),
    ("trsm", "p < params.order", "p <= params.order"),
    ("trmm", "p < params.order", "p <= params.order"),
    ("bisect", "if k >= params.n", "if k > params.n"),
    ("batch", "if index >= params.count", "if index > params.count"),
    ("batch", "let row = 4u * (params.first + index);", "let row = 4u * index;"),
    ("batch", "e < m * ld;", "e <= m * ld;"),
    ("batch", "let ld = n | 1u;", "let ld = n;"),
    ("batch", "l < lines;", "l <= lines;"),
    ("batch", "i + 3u < x.count", "i + 2u < x.count"),
    ("batch", "bounds[out + 1u + 2u * k]", "bounds[out + 2u + 2u * k]"),
    ("square_bidiagonal", "j < params.n &&", "j <= params.n &&"),
    ("diagonal", "if i < params.n", "if i <= params.n"),
    ("scale", "if e >= params.len", "if e > params.len"),
    ("largest", "if e < params.len", "if e <= params.len"),
    ("gather_columns", "i - middle", "i"),
    ("gather_columns", "number >= records.count", "number > records.count"),
    ("rotate_columns", "number >= records.count", "number > records.count"),
    ("rotate_columns", "words[node.at] + node.row", "node.row"),
    ("secular_vectors", "number >= records.count", "number > records.count"),
    ("secular_vectors", "root - 1u", "root"),
    ("take_columns", "if i >= params.n", "if i > params.n"),
    ("identity_columns", "if i >= params.rows", "if i > params.rows"),
    ("copy_window", "if i >= params.rows", "if i > params.rows"),
    ("gram_factor", "if j >= params.k", "if j > params.k"),
    ("unit_columns", "* COLUMNS + column", "* (COLUMNS - 1u) + column"),
];

/// The same, of what holds back a compiler's rewriting of arithmetic.
pub const ARITHMETIC: &[(&str, &str, &str)] = &[
    ("pairs", OPAQUE, "return x;"),
    ("pairs", "let hi = opaque(sum.hi + x);", "let hi = sum.hi + x;"),
    ("pairs", "let hi = opaque(a * b);", "let hi = a * b;"),
    ("pairs", "opaque(y - opaque(y - x))", "y - (y - x)"),
    ("chase", OPAQUE, "return x;"),
    ("geqrt", OPAQUE, "return x;"),
    ("secular_vectors", OPAQUE, "return x;"),
    ("batch", OPAQUE, "return x;"),
    ("", OPAQUE, "return x;"),
];
