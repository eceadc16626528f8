//! Flops of the tile kernels: the real additions and multiplications that the results need. Both backends and the cost model use these.

use crate::{
    base::element_kind::ElementKind,
    tile::{
        chase_schedule::ReductionStep,
        deferred::{DeferredPanel, DeferredProduct},
        one_stage::{Line, Trailing},
        panel_tree::Level,
    },
};

/// Half the real flops of a multiplication and an addition in `S`'s arithmetic: 1 for real numbers, 4 for complex ones.
pub(crate) fn of_pair(kind: ElementKind) -> u64 {
    if kind.is_complex() { 4 } else { 1 }
}

/// The saturating product. A view with zero strides may have sides of any size.
fn counted<const N: usize>(factor: u64, of: [u64; N]) -> u64 {
    of.into_iter().fold(factor, u64::saturating_mul)
}

impl Level {
    /// Flops of `geqrt`: 3 r w^2 for the r rows of the blocks, and w^3 / 3 for each block's T.
    pub(crate) fn geqrt_flops(&self, kind: ElementKind) -> u64 {
        let [width, rows, blocks] = [self.width, self.map.rows, self.map.blocks()].map(|x| x as u64);
        let of_t = counted(1, [width, width, width]) / 3;
        counted(of_pair(kind), [3, rows, width, width]).saturating_add(counted(of_pair(kind), [blocks, of_t]))
    }

    /// Flops of `larft`: V^H V above its diagonal, r w^2 for the r rows of a block, and w^3 / 3 for T.
    pub(crate) fn larft_flops(&self, kind: ElementKind) -> u64 {
        let [width, rows] = [self.width, self.map.rows].map(|x| x as u64);
        counted(of_pair(kind), [rows, width, width]).saturating_add(of_pair(kind) * (counted(1, [width, width, width]) / 3))
    }

    /// Flops of `unmqr` on `cols` columns: V^H X and V W over all rows, and T^H W for each block.
    pub(crate) fn unmqr_flops(&self, kind: ElementKind, cols: usize) -> u64 {
        let [width, rows, blocks, cols] = [self.width, self.map.rows, self.map.blocks(), cols].map(|x| x as u64);
        let pair = of_pair(kind);
        counted(pair, [4, rows, width, cols]).saturating_add(counted(pair, [2, blocks, width, width, cols]))
    }
}

impl DeferredProduct {
    /// Flops of `subtract_deferred` in `cols` columns.
    pub(crate) fn flops(&self, kind: ElementKind, cols: usize) -> u64 {
        counted(of_pair(kind), [2, self.rows.len() as u64, cols as u64, self.inner.len() as u64])
    }
}

impl DeferredPanel {
    /// Flops of `join_reflectors`: two products with V, and the LU factorisation of a square with T.
    pub(crate) fn join_flops(&self, kind: ElementKind) -> u64 {
        let [rows, width] = [self.len(), self.width].map(|x| x as u64);
        counted(of_pair(kind), [4, rows, width, width]).saturating_add(counted(of_pair(kind), [2, width, width, width]))
    }

    /// Flops of `multiply_panel` for `cols` columns.
    pub(crate) fn multiply_flops(&self, kind: ElementKind, cols: usize) -> u64 {
        counted(of_pair(kind), [2, self.len() as u64, cols as u64, self.stride as u64])
    }
}

impl ReductionStep {
    /// Flops of `cycles` cycles: each applies two reflectors of TW + 1 entries to BW + TW lines.
    pub(crate) fn flops(&self, kind: ElementKind, cycles: u64) -> u64 {
        let [bandwidth, tile] = [self.bandwidth, self.tile_width].map(|x| x as u64);
        counted(of_pair(kind), [cycles, 8, tile, bandwidth + tile])
    }
}

impl Line {
    /// Flops of `update_line`: two products with P.
    pub(crate) fn update_flops(&self, kind: ElementKind) -> u64 {
        counted(of_pair(kind), [4, self.len() as u64, self.done as u64])
    }

    /// Flops of `multiply_line`: a product with A and one with P.
    pub(crate) fn multiply_flops(&self, kind: ElementKind) -> u64 {
        counted(of_pair(kind), [2, self.len() as u64, (self.trailing().len() + self.done) as u64])
    }
}

impl Trailing {
    /// Flops of `update_trailing` in `cols` columns: a product of rank `inner`.
    pub(crate) fn flops(&self, kind: ElementKind, cols: usize) -> u64 {
        counted(of_pair(kind), [2, self.shape().0 as u64, cols as u64, self.inner as u64])
    }
}
