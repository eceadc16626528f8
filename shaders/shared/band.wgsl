// Band storage. Twin: BandLayout in src/tile/band_layout.rs.

/// Column-major with leading dimension `ld`. The diagonal entry of a column is at offset `ku`. After the n columns of a matrix there may be zeros.
struct Layout {
    n: u32,
    ld: u32,
    ku: u32,
}

/// Position of entry (i, j); j - ku <= i < j - ku + ld.
fn band_index(shape: Layout, i: u32, j: u32) -> u32 {
    return j * shape.ld + shape.ku + i - j;
}

/// Whether offset p of column j, which holds row j + p - ku, is inside an upper band of `bandwidth` superdiagonals.
fn is_of_band(p: u32, j: u32, ku: u32, bandwidth: u32) -> bool {
    return p <= ku && j + p >= ku && p + bandwidth >= ku;
}
