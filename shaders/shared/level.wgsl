// One level of a panel's reduction tree, and the addresses of its entries. Twin: Level and RowMap in src/tile/panel_tree.rs.

/// Entry (i, j) of the matrix, or of its transpose in an LQ sweep, is at i * rs + j * cs.
///
/// The matrix is stored in lines: its columns or its rows, whichever are contiguous. Each buffer of package::dense has `lines` of them, in
/// order. (src/gpu/device/pipeline.rs generates package::dense.)
///
/// Several matrices of one shape lie one after the other in one buffer, and so do their V and T of the level.
struct Level {
    rs: u32,
    cs: u32,
    lines: u32,
    /// Columns of the matrix.
    cols: u32,
    /// First column and number of columns of the panel.
    col: u32,
    width: u32,
    /// The row map: stacked row g is row start + g / group * spacing + g % group.
    start: u32,
    group: u32,
    spacing: u32,
    /// Stacked rows, rows of a block, blocks.
    rows: u32,
    block_rows: u32,
    blocks: u32,
    /// Index of the T of the level's first block.
    t_first: u32,
    /// A sum of the constants below.
    flags: u32,
    /// Entries from one matrix to the next, and the index of the first entry of the first.
    matrix: u32,
    first: u32,
}

/// The blocks of the level stack an upper triangle and rows, or only triangles. Without either flag they stack rows.
const TRIANGLE_ON_TILE = 1u;
const TRIANGLES = 2u;
/// The conjugates of the reflectors are applied. The adjoint of their product is applied.
const CONJUGATE = 4u;
const ADJOINT = 8u;

/// The index of the first entry of the workgroup's matrix, which the entry point sets if there are several.
var<private> first_entry: u32;

/// Whether column c of a block's stacked row r is below the diagonal of an upper triangle that the block stacks. There the matrix holds
/// zeros, or reflectors of earlier levels.
fn is_below_triangle(level: Level, r: u32, c: u32) -> bool {
    let first = (level.flags & TRIANGLE_ON_TILE) != 0u && r < level.group;
    return (first || (level.flags & TRIANGLES) != 0u) && r % level.group > c;
}

/// The matrix row of stacked row g.
fn matrix_row(level: Level, g: u32) -> u32 {
    // g / group, for a fifth of the instructions of an integer division. It is exact for g < 2^20, more rows than a level has: g + 1/2 is, the
    // distance to the next quotient is at least 1 / (2 group), and a reciprocal and a product within 4 ulps err by g / group 2^-21 at most.
    let k = u32((f32(g) + 0.5) * (1.0 / f32(level.group)));
    return level.start + k * (level.spacing - level.group) + g;
}

/// The next level of a reduction tree whose nodes stack `arity` R factors. Twin: RowMap::after in src/tile/panel_tree.rs.
@if(beside)
fn level_after(level: Level, arity: u32) -> Level {
    var next = level;
    let last = level.rows - (level.blocks - 1u) * level.block_rows;
    next.group = level.width;
    next.spacing = level.spacing * (level.block_rows / level.group);
    next.rows = (level.blocks - 1u) * level.width + min(level.width, last);
    next.block_rows = arity * level.width;
    next.blocks = (next.rows + next.block_rows - 1u) / next.block_rows;
    next.flags = TRIANGLES;
    return next;
}

/// The address of an entry: a buffer, and an index in it.
struct Place {
    buffer: u32,
    at: u32,
}

/// The place of an entry by its index in the concatenated buffers, of `lines` lines of ld entries each.
fn place_at(at: u32, lines: u32, ld: u32) -> Place {
    @if(blocks) {
        let buffer = at / (lines * ld);
        return Place(buffer, at - buffer * lines * ld);
    }
    @else return Place(0u, at);
}

/// The place of entry (i, j). The next entry of its line is at index at + 1, and that of the next line of its buffer at at + rs + cs - 1.
fn place_of(level: Level, i: u32, j: u32) -> Place {
    @if(blocks) {
        let by_rows = level.cs == 1u;
        let line = select(j, i, by_rows);
        let buffer = line / level.lines;
        return Place(buffer, (line - buffer * level.lines) * max(level.rs, level.cs) + select(i, j, by_rows));
    }
    @else return Place(0u, first_entry + i * level.rs + j * level.cs);
}
