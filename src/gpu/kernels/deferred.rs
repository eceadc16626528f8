//! Stage 1 with deferred updates: `algo/deferred.rs`.

use crate::{
    algo::deferred::{Deferral, deferred_columns, levels_of_longest, to_band_deferred},
    base::{
        element_kind::ElementKind,
        error::{Result, SvdError},
    },
    cost::{
        deferred::{deferral, part_of, parts},
        shape::Shape,
        work::{LINEAR_THREADS, Work},
    },
    gpu::{
        device::{
            parameters::{self, word},
            pipeline::{
                ADD_PARTS, GEQRT_AND_SUBTRACT, JOIN_REFLECTORS, JOIN_REFLECTORS_KEPT, MULTIPLY_PANEL, SUBTRACT_DEFERRED, Wanted,
            },
        },
        kernels::GpuKernels,
        storage::{Deferred, Dense},
    },
    tile::{
        deferred::{DeferredPanel, DeferredProduct},
        kernels::DeferredKernels,
        panel_tree::Level,
        tuning::Tuning,
    },
};

/// The pipelines for a matrix in `count` buffers.
pub(super) fn pipelines(kind: ElementKind, shape: &Shape, count: usize, kept: bool) -> Vec<Wanted> {
    let join = if kept { &JOIN_REFLECTORS_KEPT } else { &JOIN_REFLECTORS };
    let mut wanted = vec![
        (&SUBTRACT_DEFERRED, shape.panels.constants(), count),
        (&SUBTRACT_DEFERRED, shape.products.constants(), count),
        (join, shape.join_constants().into(), count),
        (&MULTIPLY_PANEL, shape.panels.constants(), count),
        (&ADD_PARTS, Vec::new(), count),
    ];
    if let Some(products) = shape.beside_levels(kind) {
        wanted.push((&GEQRT_AND_SUBTRACT, shape.levels_constants(&products), count));
    }
    wanted
}

/// The strides of a matrix or its transpose, and the lines of a buffer.
fn strides(a: &Dense, transposed: bool) -> [u32; 3] {
    let (rs, cs) = if transposed { (a.strides.1, a.strides.0) } else { a.strides };
    [rs, cs, a.lines].map(word)
}

impl GpuKernels {
    /// How a call for an m x n matrix or n x m defers updates.
    pub(super) fn deferral_of_call(&self, (m, n): (usize, usize)) -> Deferral {
        if self.deferred { deferral(self.kind, (m.max(n), m.min(n)), &self.tuning) } else { Deferral::default() }
    }

    /// A matrix for stage 1 of a call.
    pub(super) fn dense_of(&self, size: (usize, usize), by_rows: bool) -> Result<Dense> {
        let with = |room| Dense::with_room(self.kind, &self.context, size, room, by_rows, self.shape, self.tuning.leaf);
        let deferral = self.deferral_of_call(size);
        let mut made = with(deferral.room());
        // With less room for that, or none, it may fit.
        for room in [deferral.columns, 0] {
            if matches!(made, Err(SvdError::TooLarge { .. })) {
                made = with(room);
            }
        }
        made
    }

    /// How stage 1 of a matrix defers updates: it has room for them, and a shader binds its buffers.
    pub(super) fn deferral(&self, a: &Dense, (m, n): (usize, usize), tuning: &Tuning) -> Deferral {
        let bound = JOIN_REFLECTORS.buffers as usize + a.a.len();
        let binds = bound <= self.context.limits().max_storage_buffers_per_shader_stage as usize;
        if a.room == 0 || a.size != (m, n) || !binds {
            return Deferral::default();
        }
        let deferral = |beside| Deferral { columns: deferred_columns(self.kind, (m, n), tuning).min(a.room), beside };
        let beside = self.shape.beside_levels(self.kind).is_some() && deferral(true).room() <= a.room;
        deferral(beside)
    }

    /// Stage 1 with deferred updates, if the matrix has room for that.
    pub(super) fn defer(&self, a: &mut Dense, (m, n): (usize, usize), tuning: &Tuning) -> Result<bool> {
        let deferral = self.deferral(a, (m, n), tuning);
        if deferral.columns == 0 {
            return Ok(false);
        }
        let levels = levels_of_longest((m, n), tuning);
        a.deferred = Some(Deferred::new(self.kind, &self.context, (m, n), a.room, &self.shape, &levels)?);
        to_band_deferred(self, a, (m, n), tuning, deferral)?;
        a.deferred = None;
        Ok(true)
    }
}

impl DeferredKernels for GpuKernels {
    fn subtract_deferred(&self, a: &mut Dense, product: &DeferredProduct) -> Result<()> {
        let deferred = a.room_for_product(product)?;
        let (product, shape) = product.clone().upright(&self.shape);
        let bound = &deferred.subtract[usize::from(shape == self.shape.products)];
        let (pipeline, bindings) = bound.get(|| {
            let pipeline = self.context.pipeline(self.kind, &SUBTRACT_DEFERRED, &shape.constants(), a.a.len())?;
            let bindings = self.stream.bind(&pipeline, &[], &a.a)?;
            Ok((pipeline, bindings))
        })?;
        let DeferredProduct { transposed, size: (m, n), rows, cols, inner } = &product;
        let [rs, cs, lines] = strides(a, *transposed);
        let [y, z] = self.stream.fold(rows.len().div_ceil(shape.rows))?;
        let at_once = product.columns(self.kind, &shape, self.stream.most_flops());
        for col in cols.clone().step_by(at_once) {
            let count = at_once.min(cols.end - col);
            let [row, col, of_rows, of_cols] = [rows.start, col, rows.len(), count].map(word);
            let (of_l, of_r, inner) = ((n + inner.start) as u32, (m + inner.start) as u32, inner.len() as u32);
            let parameters =
                parameters::SubtractDeferred { rs, cs, lines, row, col, rows: of_rows, cols: of_cols, of_l, of_r, inner };
            let work = Work::subtract_deferred(self.kind, &shape, &product, count);
            self.stream.dispatch(pipeline, bindings, parameters, [count.div_ceil(shape.cols) as u32, y, z], work)?;
        }
        Ok(())
    }

    fn factor_level(&self, a: &mut Dense, k: usize, level: &Level, beside: Option<&DeferredProduct>) -> Result<()> {
        let Some(product) = beside else {
            let ((pipeline, bindings), parameters) = a.factor_level(&self.context, &self.stream, (k, level), None)?;
            let [x, y] = self.stream.fold(level.map.blocks())?;
            return self.stream.dispatch(pipeline, bindings, parameters, [x, y, 1], Work::geqrt(self.kind, &self.shape, level));
        };
        let (Some(shape), true) = (self.shape.beside_levels(self.kind), product.transposed == level.transposed) else {
            return Err(SvdError::invalid("window", format!("{product:?} cannot be updated beside {level:?}")));
        };
        a.room_for_product(product)?;
        let ((pipeline, bindings), of_level) = a.factor_level(&self.context, &self.stream, (k, level), Some(&shape))?;
        let at_once = product.columns_beside(self.kind, &shape, self.stream.most_flops());
        let DeferredProduct { size: (m, n), rows, cols, inner, .. } = product;
        let parameters::Level { rs, cs, lines, cols: of_matrix, col, width, start, group, spacing, .. } = of_level;
        let parameters::Level { rows: stacked, block_rows, blocks, t_first, flags, .. } = of_level;
        let parameters = parameters::GeqrtAndSubtract {
            rs,
            cs,
            lines,
            cols: of_matrix,
            col,
            width,
            start,
            group,
            spacing,
            rows: stacked,
            block_rows,
            blocks,
            t_first,
            flags,
            c_row: rows.start as u32,
            c_col: cols.start as u32,
            c_rows: rows.len() as u32,
            c_cols: at_once as u32,
            of_l: (n + inner.start) as u32,
            of_r: (m + inner.start) as u32,
            inner: inner.len() as u32,
        };
        let work = Work::geqrt_and_subtract(self.kind, &self.shape, (level, product), &shape, at_once);
        let [x, y] = self.stream.fold(work.workgroups as usize)?;
        self.stream.dispatch(pipeline, bindings, parameters, [x, y, 1], work)?;
        if at_once < cols.len() { self.subtract_deferred(a, &product.after(at_once)) } else { Ok(()) }
    }

    fn join_reflectors(
        &self,
        a: &mut Dense,
        panel: &DeferredPanel,
        levels: &[Level],
        beside: Option<&DeferredProduct>,
    ) -> Result<()> {
        let [zero_rows, zero_cols] = match beside {
            Some(product) if product.transposed != panel.transposed => {
                return Err(SvdError::invalid("window", format!("{product:?} is not beside {panel:?}")));
            }
            Some(product) => {
                a.room_for_product(product)?;
                product.part_of_r()
            }
            None => [0..0, 0..0],
        };
        let t_kept = a.keep_joined(panel)? as u32;
        let (deferred, t_first) = (a.room_for_panel(panel)?, a.first_t_of_leaves() as u32);
        let (pipeline, bindings) = deferred.join.get(|| {
            let shader = if a.keeps() { &JOIN_REFLECTORS_KEPT } else { &JOIN_REFLECTORS };
            let pipeline = self.context.pipeline(self.kind, shader, &self.shape.join_constants(), a.a.len())?;
            let [v0, v1, t1, v2, t2, t0] = a.of_levels(deferred);
            let bindings = self.stream.bind(&pipeline, &[v0, v1, t1, v2, t2, t0, &deferred.x], &a.a)?;
            Ok((pipeline, bindings))
        })?;
        let [rs, cs, lines] = strides(a, panel.transposed);
        let of = |k: usize| levels.get(k).map_or([0, 0], |level| [level.map.rows, level.map.block_rows].map(word));
        let ([_, leaf], [rows_1, block_1], [rows_2, block_2]) = (of(0), of(1), of(2));
        let [row, col, rows, width] = [panel.row, panel.col, panel.len(), panel.width].map(word);
        let (to, of_levels) = ((panel.cols + panel.to) as u32, levels.len() as u32);
        let parameters = parameters::JoinReflectors {
            rs,
            cs,
            lines,
            row,
            col,
            rows,
            width,
            to,
            levels: of_levels,
            leaf,
            rows_1,
            block_1,
            rows_2,
            block_2,
            t_first,
            t_kept,
            zero_row: zero_rows.start as u32,
            zero_col: zero_cols.start as u32,
            zero_rows: zero_rows.len() as u32,
            zero_cols: zero_cols.len() as u32,
        };
        let chunks = leaf.min(rows).div_ceil(self.shape.geqrt_threads() as u32);
        let work = Work::join_reflectors(self.kind, &self.shape, panel, levels, beside);
        let z = 1 + u32::from(beside.is_some());
        self.stream.dispatch(pipeline, bindings, parameters, [rows.div_ceil(leaf.max(1)), chunks, z], work)
    }

    fn multiply_panel(&self, a: &mut Dense, panel: &DeferredPanel) -> Result<()> {
        let (deferred, shape) = (a.room_for_panel(panel)?, &self.shape.panels);
        let [rs, cs, lines] = strides(a, panel.transposed);
        let columns = panel.multiplied();
        let (rows, at_once, count) = (panel.len(), part_of(panel.len(), &self.shape), parts(panel.len(), &self.shape) as u32);
        let [row, rows, col, cols, at_once] = [panel.row, rows, columns.start, columns.len(), at_once].map(word);
        let stride = panel.stride as u32;

        let (pipeline, bindings) = deferred.multiply.get(|| {
            let pipeline = self.context.pipeline(self.kind, &MULTIPLY_PANEL, &shape.constants(), a.a.len())?;
            let bindings = self.stream.bind(&pipeline, &[&deferred.x, &deferred.parts], &a.a)?;
            Ok((pipeline, bindings))
        })?;
        let of_dispatch = panel.columns(self.kind, &self.shape, self.stream.most_flops());
        for first in (0..columns.len()).step_by(of_dispatch) {
            let here = of_dispatch.min(columns.len() - first);
            let first = first as u32;
            let parameters = parameters::MultiplyPanel { rs, cs, lines, row, rows, col, cols, first, at_once, stride };
            let grid = [panel.stride.div_ceil(shape.cols) as u32, here.div_ceil(shape.rows) as u32, count];
            let work = Work::multiply_panel(self.kind, &self.shape, panel, here);
            self.stream.dispatch(pipeline, bindings, parameters, grid, work)?;
        }

        let (pipeline, bindings) = deferred.add.get(|| {
            let pipeline = self.context.pipeline(self.kind, &ADD_PARTS, &[], a.a.len())?;
            let bindings = self.stream.bind(&pipeline, &[&deferred.parts], &a.a)?;
            Ok((pipeline, bindings))
        })?;
        let row = (panel.rows + panel.to) as u32;
        let parameters = parameters::AddParts { rs, cs, lines, row, col, cols, stride, parts: count };
        let [x, y] = self.stream.fold((columns.len() * panel.stride).div_ceil(LINEAR_THREADS as usize))?;
        self.stream.dispatch(pipeline, bindings, parameters, [x, y, 1], Work::add_parts(self.kind, &self.shape, panel))
    }
}
