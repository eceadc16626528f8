// One level of a panel's reduction tree (kernels.rs: Level, RowMap), and where its entries lie.

/// Entry (i, j) of the matrix, or of its transpose in an LQ sweep, is at i * rs + j * cs.
struct Level {
    rs: u32,
    cs: u32,
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
}

/// The matrix row of stacked row g.
fn matrix_row(level: Level, g: u32) -> u32 {
    return level.start + g / level.group * level.spacing + g % level.group;
}
