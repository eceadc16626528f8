//! The dispatches of products in fixed point: sizes, grids and work.

use crate::cost::{
    chain::Chain,
    work::{Again, Beside, Kernel, Work},
};

/// Lines of a workgroup of `multiply_fixed`, and threads of a line. A block of the matrix has as many rows as a grid has lines.
pub(crate) const LINES: usize = 16;
pub(crate) const LANES: usize = 16;
/// Vectors of a workgroup, if there are several.
pub(crate) const VECTORS: usize = 4;
/// Terms between carries, and most terms of a workgroup.
const TERMS: usize = 7;
const MOST_TERMS: usize = 1 << 17;
/// Workgroups that keep a large device busy, and the fewest terms of a thread for which more of them pay.
const WORKGROUPS: usize = 1024;
const FEWEST: usize = 16;
/// Integer operations of a term of one vector: ten multiply-adds, and the digits of its number.
const OPERATIONS: u64 = 26;

/// The sizes of a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FixedShape {
    /// Vectors of a workgroup.
    pub vectors: usize,
}

impl FixedShape {
    /// For products with this number of vectors.
    pub fn of(count: usize) -> FixedShape {
        FixedShape { vectors: if count > 1 { VECTORS } else { 1 } }
    }

    pub fn constants(self) -> [(&'static str, u32); 5] {
        let [lines, lanes, threads, vectors, terms] =
            [LINES, LANES, FixedShape::THREADS, self.vectors, TERMS].map(|size| size as u32);
        [("LINES", lines), ("LANES", lanes), ("FIXED_THREADS", threads), ("VECTORS", vectors), ("TERMS", terms)]
    }

    /// Threads of a workgroup, and bytes of its workgroup memory.
    pub const THREADS: usize = LINES * LANES;
    pub const BYTES: usize = FixedShape::THREADS * 5 * size_of::<i32>();
}

/// The number of parts of the terms of each line: as many as keep a device busy, and at most `most`, with which there are enough for the terms of a block.
pub(crate) fn parts(lines: usize, terms: usize, most: usize) -> usize {
    let busy = WORKGROUPS / lines.div_ceil(LINES).max(1);
    busy.clamp(1, terms.div_ceil(LANES * FEWEST).max(1)).max(terms.div_ceil(MOST_TERMS)).min(most.max(1))
}

impl Work {
    /// `multiply_fixed` of `lines` lines of `terms` terms in some parts with `count` vectors.
    pub fn multiply_fixed(shape: FixedShape, (lines, terms): (usize, usize), parts: usize, count: usize) -> Work {
        let groups = count.div_ceil(shape.vectors);
        let each = terms.div_ceil(parts).div_ceil(LANES) as u64;
        let [lines, terms, count, parts, groups] = [lines, terms, count, parts, groups].map(|size| size as u64);
        let vectors = shape.vectors as u64;
        Work {
            kernel: Kernel::MultiplyFixed,
            workgroups: lines.div_ceil(LINES as u64) * parts * groups,
            threads: FixedShape::THREADS as u64,
            workgroup_memory: FixedShape::BYTES as u64,
            flops: OPERATIONS.saturating_mul(lines).saturating_mul(terms).saturating_mul(count),
            footprint: u64::MAX,
            again: Again::default(),
            beside: Beside::default(),
            two_strips: false,
            // The matrix for each group of vectors; the vectors, which all workgroups read, once; and three words of each sum.
            bytes: 8 * lines * terms * groups + 8 * terms * count + 12 * lines * parts * count,
            workgroup_bytes: 2 * (FixedShape::BYTES as u64) * lines.div_ceil(LINES as u64) * parts * count,
            chain: Chain {
                barriers: 2 * vectors,
                round_trips: each + 2,
                issued: each * (8 + (OPERATIONS + 2) * vectors) + vectors * LANES as u64 * 14,
                ..Chain::default()
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A part has at most 2^17 terms, of which the carries of 7 stay below 2^31, and a thread has at least 16 terms if there are several parts.
    #[test]
    fn parts_keep_the_sums_in_their_words() {
        for (lines, terms) in [(1, 1), (3, 0), (100, 5000), (1, 1 << 20), (1 << 20, 50), (40, 100_000_000), (100_000, 1 << 18)] {
            let parts = parts(lines, terms, 65535);
            assert!(parts >= 1 && terms.div_ceil(parts) <= MOST_TERMS, "{lines} {terms}: {parts}");
            assert!(parts == 1 || terms / parts >= LANES * FEWEST / 2, "{lines} {terms}: {parts}");
        }
        let of_term = 4 << 26;
        assert!(TERMS as i64 * of_term + (1 << 17) < i64::from(i32::MAX) && (TERMS as i64 + 1) * of_term > i64::from(i32::MAX));
        assert!((MOST_TERMS as i64) << 12 < i64::from(i32::MAX) / 2);
    }
}
