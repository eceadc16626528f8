//! Where a band with room for bulges keeps its entries.

use crate::base::error::{Result, SvdError};

/// Where entry (i, j) of a band with room for bulges is kept: column after column, `ld` places each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BandLayout {
    /// Order.
    pub n: usize,
    /// Superdiagonals kept: the bandwidth plus the tile width.
    pub ku: usize,
    /// Subdiagonals kept: the tile width.
    pub kl: usize,
    /// Places from a column to the next.
    ld: usize,
}

impl BandLayout {
    /// Room for reducing `bandwidth` superdiagonals by at most `tile_width` at a time.
    pub fn new(n: usize, bandwidth: usize, tile_width: usize) -> Self {
        let kl = tile_width.min(bandwidth.saturating_sub(1));
        let ku = bandwidth + kl;
        BandLayout { n, ku, kl, ld: ku + kl + 1 }
    }

    /// The same with at least `spare` places after each column, and the entries of a row a multiple of `multiple` places apart.
    pub fn spaced(self, spare: usize, multiple: usize) -> Self {
        BandLayout { ld: (self.ku + self.kl + spare).next_multiple_of(multiple) + 1, ..self }
    }

    /// Places of one column, spare ones included.
    pub fn ld(&self) -> usize {
        self.ld
    }

    /// Places from an entry to the next in its row.
    pub fn next_in_row(&self) -> usize {
        self.ld - 1
    }

    /// Places in all, or an error if they cannot be counted.
    pub fn size(&self) -> Result<usize> {
        self.n.checked_mul(self.ld()).ok_or_else(|| SvdError::invalid("matrix", "the band's size overflows the address space"))
    }

    /// Position of entry (i, j); `j - ku <= i <= j + kl`.
    pub fn index(&self, i: usize, j: usize) -> usize {
        j * self.ld() + self.ku + i - j
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spaced columns have the spare places asked for, and a row's entries the distance asked for.
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
