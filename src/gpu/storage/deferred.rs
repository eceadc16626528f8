//! The room of stage 1 with deferred updates.

use super::{Bound, Dense, Ready};
use crate::{
    base::{
        element_kind::ElementKind,
        error::{Result, SvdError},
    },
    cost::{deferred::numbers_of_panels, product_shape::ProductShape, shape::Shape},
    gpu::{
        device::{
            buffers::{Buffer, storage},
            context::GpuContext,
            parameters,
            pipeline::{GEQRT, GEQRT_AND_SUBTRACT},
            stream::Stream,
        },
        limits::fitting_bytes,
    },
    tile::{
        deferred::{DeferredPanel, DeferredProduct},
        panel_tree::Level,
    },
};

/// V and T of the levels of a panel above its leaves, what the matrix is multiplied with, and the parts of the products.
pub(crate) struct Deferred {
    /// V and T of the levels above the leaves.
    above: [[Buffer; 2]; 2],
    pub x: Buffer,
    pub parts: Buffer,
    /// Of the longest panel: its rows, and the columns of A and L.
    rows: usize,
    cols: usize,
    factor: [Bound; 3],
    factor_beside: [Bound; 3],
    /// For few columns, and for many.
    pub subtract: [Bound; 2],
    pub join: Bound,
    pub multiply: Bound,
    pub add: Bound,
}

impl Deferred {
    /// The room for a matrix with these `levels` of its longest panel, and this room for L.
    pub fn new(
        kind: ElementKind,
        context: &GpuContext,
        size: (usize, usize),
        room: usize,
        shape: &Shape,
        levels: &[Level],
    ) -> Result<Self> {
        let numbers = |what: &'static str, len: Option<usize>| {
            storage(context, what, fitting_bytes(context, what, kind.scalar_bytes(), len)?)
        };
        let above = |k: usize| {
            let (rows, blocks) = levels.get(k).map_or((0, 0), |level| (level.map.rows, level.map.blocks()));
            let v = numbers("the reflectors", Some(rows * shape.ts))?;
            Ok::<_, SvdError>([v, numbers("the reflectors' triangular factors", Some(blocks * shape.ts * shape.ts))?])
        };
        let (rows, cols) = (size.0.max(size.1), size.0.max(size.1).saturating_add(room));
        let [of_x, of_parts] = numbers_of_panels(rows, room, shape);
        let (factor, factor_beside, subtract) = Default::default();
        Ok(Deferred {
            above: [above(1)?, above(2)?],
            x: numbers("a panel", of_x)?,
            parts: numbers("products with a panel", of_parts)?,
            rows,
            cols,
            factor,
            factor_beside,
            subtract,
            join: Bound::default(),
            multiply: Bound::default(),
            add: Bound::default(),
        })
    }

    /// Checks that a panel and what it is multiplied with fit.
    fn fits(&self, panel: &DeferredPanel) -> bool {
        panel.len() <= self.rows && panel.multiplied().end <= self.cols
    }
}

impl Dense {
    fn deferred(&self) -> Result<&Deferred> {
        self.deferred.as_ref().ok_or_else(|| SvdError::invalid("matrix", "it has no room for deferred updates".to_owned()))
    }

    /// The room for deferred updates, after checking that a panel fits it and the matrix.
    pub(crate) fn room_for_panel(&self, panel: &DeferredPanel) -> Result<&Deferred> {
        let deferred = self.deferred()?;
        let &DeferredPanel { row, rows, col, width, cols, pending, to, stride, .. } = panel;
        let fits = (rows, cols) == self.size(panel.transposed)
            && row < rows
            && col.checked_add(width).is_some_and(|end| end <= cols)
            && width <= stride
            && stride == self.shape.ts
            && pending <= self.room
            && to.checked_add(stride).is_some_and(|end| end <= self.room)
            && deferred.fits(panel);
        if fits { Ok(deferred) } else { Err(SvdError::invalid("panel", format!("{panel:?} does not fit {:?}", self.size))) }
    }

    /// The room for deferred updates, after checking that a product's windows are in the matrix, L, R and G.
    pub(crate) fn room_for_product(&self, product: &DeferredProduct) -> Result<&Deferred> {
        let DeferredProduct { transposed, size: (m, n), rows, cols, inner } = product;
        let fits = (*m, *n) == self.size(*transposed)
            && inner.start <= inner.end
            && inner.end <= self.room
            && rows.end <= m + self.room
            && cols.end <= n + self.room
            // C is none of its factors.
            && (rows.end <= m + inner.start || rows.start >= m + inner.end)
            && (cols.end <= n + inner.start || cols.start >= n + inner.end);
        if fits { self.deferred() } else { Err(SvdError::invalid("window", format!("{product:?} is not in {:?}", self.size))) }
    }

    /// `geqrt` of level `k` of a panel, and products of this shape beside it, with its parameters. Those of all levels stay in buffers of their own.
    pub(crate) fn factor_level(
        &self,
        context: &GpuContext,
        stream: &Stream,
        (k, level): (usize, &Level),
        products: Option<&ProductShape>,
    ) -> Result<(&Ready, parameters::Level)> {
        let deferred = self.deferred()?;
        let [[v1, t1], [v2, t2]] = &deferred.above;
        let of_levels = [[&self.v, &self.t], [v1, t1], [v2, t2]];
        let kernels = if products.is_some() { &deferred.factor_beside } else { &deferred.factor };
        let (Some([v, t]), Some(factor)) = (of_levels.get(k), kernels.get(k)) else {
            return Err(SvdError::invalid("level", format!("{k}, of at most {}", of_levels.len())));
        };
        let t_first = if k == 0 { self.first_t_of_leaves() } else { 0 };
        let parameters = self.parameters_in([v, t], level, self.size(level.transposed), (t_first, self.shape.rows()))?;
        let (shader, constants) = match products {
            Some(products) => (&GEQRT_AND_SUBTRACT, self.shape.levels_constants(products)),
            None => (&GEQRT, self.shape.geqrt_constants().into()),
        };
        Ok((self.bound(factor, context, stream, shader, &constants, &[v, t])?, parameters))
    }

    /// V of the leaves, V and T of the levels above them, and T of the leaves.
    pub(crate) fn of_levels<'a>(&'a self, deferred: &'a Deferred) -> [&'a Buffer; 6] {
        let [[v1, t1], [v2, t2]] = &deferred.above;
        [&self.v, v1, t1, v2, t2, &self.t]
    }
}
