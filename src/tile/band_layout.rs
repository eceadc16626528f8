//! The storage layout of a band with room for bulges.

use crate::base::error::{Result, SvdError};

/// The storage layout of a band with room for bulges: column by column, with leading dimension `ld`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BandLayout {
    /// Order.
    pub n: usize,
    /// Superdiagonals stored: the bandwidth plus the tile width.
    pub ku: usize,
    /// Subdiagonals stored: the tile width.
    pub kl: usize,
    /// Columns stored: those of the matrix, and zeros after them.
    pub columns: usize,
    /// Leading dimension.
    ld: usize,
}

impl BandLayout {
    /// The layout for removing at most `tile_width` of `bandwidth` superdiagonals in a reduction step.
    pub fn new(n: usize, bandwidth: usize, tile_width: usize) -> Self {
        let kl = tile_width.min(bandwidth.saturating_sub(1));
        let ku = bandwidth + kl;
        BandLayout { n, ku, kl, columns: n, ld: ku + kl + 1 }
    }

    /// The same layout padded with at least `spare` entries after each column, and with a row stride that is a multiple of `multiple`.
    pub fn spaced(self, spare: usize, multiple: usize) -> Self {
        BandLayout { ld: (self.ku + self.kl + spare).next_multiple_of(multiple) + 1, ..self }
    }

    /// The same layout with so many columns of zeros after the matrix.
    pub fn followed_by(self, zeros: usize) -> Self {
        BandLayout { columns: self.n.saturating_add(zeros), ..self }
    }

    /// Leading dimension: the entries of one column, padding included.
    pub fn ld(&self) -> usize {
        self.ld
    }

    /// Row stride: the distance from entry (i, j) to entry (i, j + 1).
    pub fn next_in_row(&self) -> usize {
        self.ld - 1
    }

    /// Number of entries in storage, or an error if it overflows.
    pub fn size(&self) -> Result<usize> {
        self.columns
            .checked_mul(self.ld())
            .ok_or_else(|| SvdError::invalid("matrix", "the band's size overflows the address space"))
    }

    /// Index of entry (i, j); `j - ku <= i <= j + kl`.
    pub fn index(&self, i: usize, j: usize) -> usize {
        j * self.ld() + self.ku + i - j
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A spaced layout has the requested padding and row stride.
    #[test]
    fn spaced_columns() {
        for (bandwidth, tile_width) in [(48, 47), (32, 32), (2, 1), (1, 1), (9, 4)] {
            let tight = BandLayout::new(70, bandwidth, tile_width);
            let spaced = tight.spaced(8, 16);
            assert_eq!((spaced.n, spaced.ku, spaced.kl), (tight.n, tight.ku, tight.kl));
            assert!(spaced.ld() >= tight.ld() + 8 && spaced.ld() < tight.ld() + 8 + 16);
            assert!(spaced.next_in_row().is_multiple_of(16));
            assert_eq!(spaced.index(3, 5) + spaced.next_in_row(), spaced.index(3, 6));
        }
    }
}
