//! The kernels of the one-stage reduction on the device.

use std::ops::Range;

use crate::{
    base::{
        element_kind::ElementKind,
        error::{Result, SvdError},
        number::Scalar,
    },
    cost::{
        one_stage::{LARFT_ROWS, LARFT_THREADS, MOST_PARTS, blocks_and_parts},
        shape::Shape,
        work::{LINEAR_THREADS, Work},
    },
    gpu::{
        device::{
            buffers::{Buffer, storage},
            context::GpuContext,
            parameters::{self, word},
            pipeline::{GATHER_REFLECTORS, LARFT, MULTIPLY_LINE, UNMQR, UPDATE_LINE, UPDATE_TRAILING, Wanted},
            stream::Stream,
        },
        kernels::{GpuKernels, SOFTWARE_ITERATIONS},
        limits::fitting_bytes,
        storage::{Bound, Dense, Ready},
    },
    tile::{
        kernels::OneStageKernels,
        one_stage::{Line, Trailing, level_of_rows},
        panel_tree::{Level, RowMap},
    },
};

/// P and R of a panel on the device, and what the kernels leave for one another: see `shaders/shared/panels.wgsl`.
pub struct Panels {
    panels: Buffer,
    sums: Buffer,
    /// Leading dimension of P and R: the longer side of the matrix.
    ld: usize,
    /// Columns of P and R.
    pairs: usize,
    size: (usize, usize),
    keep: bool,
    /// The parts of the last products.
    parts: usize,
    update_line: Bound,
    multiply_line: Bound,
    update_trailing: Bound,
}

/// Bytes of the panels of an m x n matrix stored as `S`, and of their sums.
pub(crate) fn panel_bytes(kind: ElementKind, context: &GpuContext, (m, n): (usize, usize), shape: &Shape) -> Result<[u64; 2]> {
    let (ld, pairs) = (m.max(n).max(1), 2 * shape.ts);
    let with_products = pairs.checked_add(ld).and_then(|row| row.checked_mul(MOST_PARTS));
    let panels = (2 * pairs + 1).checked_mul(ld).and_then(|len| len.checked_add(with_products?));
    let sums = ld.checked_mul(4).and_then(|len| len.checked_add(3 * ld.div_ceil(LINEAR_THREADS as usize)));
    Ok([
        fitting_bytes(context, "the panels", kind.scalar_bytes(), panels)?,
        fitting_bytes(context, "the panels' sums", kind.real_bytes(), sums)?,
    ])
}

/// The pipelines of the reduction of a matrix in `count` buffers.
pub(super) fn pipelines(shape: &Shape, count: usize) -> [Wanted; 3] {
    [
        (&UPDATE_LINE, shape.line_constants().into(), count),
        (&MULTIPLY_LINE, shape.line_constants().into(), count),
        (&UPDATE_TRAILING, shape.trailing_constants(), count),
    ]
}

impl Panels {
    /// Checks that the rows and columns from `first` on, and `done` columns of P and R, fit the matrix and the panels.
    fn check(&self, a: &Dense, (m, n): (usize, usize), first: usize, done: usize) -> Result<()> {
        let held = a.size.0 <= self.size.0 && a.size.1 <= self.size.1;
        let fits = held && m <= a.size.0 && n <= a.size.1 && first < m.min(n) && done <= self.pairs;
        let what = || format!("{done} columns of panels of {m} x {n} from {first} on do not fit {:?}", a.size);
        if fits { Ok(()) } else { Err(SvdError::invalid("line", what())) }
    }

    /// The parameters of `update_line` and `multiply_line` in a matrix with these strides.
    fn parameters(&self, line: &Line, (rs, cs): (usize, usize), lines: usize, parts: usize) -> parameters::Line {
        let (rs, cs) = if line.transposed { (cs, rs) } else { (rs, cs) };
        let [rs, cs, lines, at, first] = [rs, cs, lines, line.line, line.first].map(word);
        let [rows, cols, done, parts, ld] = [line.rows, line.cols, line.done, parts, self.ld].map(word);
        let flags = if line.transposed { parameters::TRANSPOSED } else { 0 };
        parameters::Line { rs, cs, lines, line: at, first, rows, cols, done, parts, ld, flags }
    }
}

/// The parameters of `larft`, `gather_reflectors` and `unmqr` for the block of a [`level_of_rows`] of `a`.
fn parameters_of_rows(a: &Dense, level: &Level) -> parameters::Level {
    let RowMap { start, group, spacing, rows, block_rows, .. } = level.map;
    let [rs, cs, lines, cols] = [a.strides.1, a.strides.0, a.lines, a.size.0].map(word);
    let [col, width, start, group] = [level.col, level.width, start, group].map(word);
    let [spacing, rows, block_rows] = [spacing, rows, block_rows].map(word);
    let (blocks, t_first, flags, matrix, first) = (1, 0, 0, 0, 0);
    parameters::Level {
        rs,
        cs,
        lines,
        cols,
        col,
        width,
        start,
        group,
        spacing,
        rows,
        block_rows,
        blocks,
        t_first,
        flags,
        matrix,
        first,
    }
}

impl GpuKernels {
    fn ready<'a>(&self, bound: &'a Bound, make: impl FnOnce(&GpuContext, &Stream) -> Result<Ready>) -> Result<&'a Ready> {
        bound.get(|| make(&self.context, &self.stream))
    }

    /// Dispatches `update_line`.
    fn dispatch_line(&self, a: &Dense, panels: &Panels, line: &Line, flags: u32) -> Result<()> {
        let (pipeline, bindings) = self.ready(&panels.update_line, |context, stream| {
            let pipeline = context.pipeline(self.kind, &UPDATE_LINE, &self.shape.line_constants(), a.a.len())?;
            let bindings = stream.bind(&pipeline, &[&panels.panels, &panels.sums], &a.a)?;
            Ok((pipeline, bindings))
        })?;
        let mut parameters = panels.parameters(line, a.strides, a.lines, panels.parts);
        parameters.flags |= flags;
        let work = Work::update_line(self.kind, &self.shape, line, panels.parts);
        let [x, y] = self.stream.fold(line.len().div_ceil(LINEAR_THREADS as usize))?;
        self.stream.dispatch(pipeline, bindings, parameters, [x, y, 1], work)
    }

    /// [`apply_row_reflectors`](crate::tile::kernels::TileKernels::apply_row_reflectors)
    pub(super) fn apply_rows(&self, a: &Dense, panels: &Panels, rows: Range<usize>, c: &mut Dense) -> Result<()> {
        let (n, ts) = (a.size.1, self.shape.ts);
        if !panels.keep || rows.is_empty() || rows.end >= n || rows.len() > ts {
            return Err(SvdError::invalid("reflectors", format!("those of rows {rows:?} were not kept")));
        }
        if c.size.0 != n || a.size != panels.size {
            return Err(SvdError::invalid("c", format!("{:?}, for reflectors of {n} entries", c.size)));
        }
        let level = level_of_rows(&rows, n);
        let mut parameters = parameters_of_rows(a, &level);
        let count = level.map.rows;
        // Loop iterations of a thread of larft, the longest loop: for each step over the rows, its stores and its products.
        let each = (ts * ts).div_ceil(LARFT_THREADS) * (LARFT_ROWS + 1) + (LARFT_ROWS * ts).div_ceil(LARFT_THREADS);
        if self.context.is_software() && count.div_ceil(LARFT_ROWS) * (each + 1) > SOFTWARE_ITERATIONS {
            let reason = format!("{n}: reflectors of so many rows loop longer than a software driver does");
            return Err(SvdError::invalid("matrix", reason));
        }
        let (v_bytes, t_bytes) = ((count * ts * self.kind.scalar_bytes()) as u64, (ts * ts * self.kind.scalar_bytes()) as u64);
        if a.v.size() < v_bytes || a.t.size() < t_bytes {
            return Err(SvdError::invalid("reflectors", format!("{count} rows of {ts} do not fit the workspace")));
        }
        let kept_t = storage(&self.context, "the reflectors' triangular factor", t_bytes)?;

        let larft = self.context.pipeline(self.kind, &LARFT, &self.shape.larft_constants(), a.a.len())?;
        let bindings = self.stream.bind(&larft, &[&panels.sums, &kept_t], &a.a)?;
        self.stream.dispatch(&larft, &bindings, parameters, [1, 1, 1], Work::larft(self.kind, &self.shape, &level))?;

        // The reflectors of rows are those of columns of A^T, conjugated.
        parameters.flags = parameters::CONJUGATE;
        let gather = self.context.pipeline(self.kind, &GATHER_REFLECTORS, &[("TS", ts as u32)], a.a.len())?;
        let bindings = self.stream.bind(&gather, &[&a.v, &a.t, &kept_t], &a.a)?;
        let [x, y] = self.stream.fold(((count + ts) * ts).div_ceil(LINEAR_THREADS as usize))?;
        let work = Work::gather_reflectors(self.kind, &self.shape, &level);
        self.stream.dispatch(&gather, &bindings, parameters, [x, y, 1], work)?;

        let unmqr = self.context.pipeline(self.kind, &UNMQR, &self.shape.unmqr_constants(), c.a.len())?;
        let bindings = self.stream.bind(&unmqr, &[&a.v, &a.t], &c.a)?;
        let [rs, cs, lines] = [c.strides.0, c.strides.1, c.lines].map(word);
        let of_c = parameters::Level { rs, cs, lines, cols: c.size.1 as u32, col: 0, width: 0, ..parameters };
        self.update(&(unmqr, bindings), of_c, &level, 0..c.size.1, 1)
    }

    /// Columns `0..count` of P and R so far, of `ld` entries each, for tests.
    #[doc(hidden)]
    pub fn read_panels<S: Scalar>(&self, panels: &Panels, count: usize) -> Result<[Vec<S>; 2]> {
        let (ld, pairs) = (panels.ld, panels.pairs);
        let all: Vec<S> = self.stream.read_back_now(&panels.panels, 2 * pairs * ld)?;
        Ok([0, pairs].map(|first| all[first * ld..(first + count.min(pairs)) * ld].to_vec()))
    }
}

impl OneStageKernels for GpuKernels {
    type Panels = Panels;

    fn panels(&self, a: &Dense, width: usize, keep: bool) -> Result<Panels> {
        let shape = &self.shape;
        if width > shape.ts {
            return Err(SvdError::invalid("tile_size", format!("{} holds no panels of {width} columns", shape.ts)));
        }
        let [panels, sums] = panel_bytes(self.kind, &self.context, a.size, shape)?;
        let (panels, sums) = (storage(&self.context, "the panels", panels)?, storage(&self.context, "sums", sums)?);
        let (update_line, multiply_line, update_trailing) = Default::default();
        let (ld, pairs, size) = (a.size.0.max(a.size.1).max(1), 2 * shape.ts, a.size);
        Ok(Panels { panels, sums, ld, pairs, size, keep, parts: 1, update_line, multiply_line, update_trailing })
    }

    fn update_line(&self, a: &mut Dense, panels: &mut Panels, line: &Line) -> Result<()> {
        let size = if line.transposed { (line.cols, line.rows) } else { (line.rows, line.cols) };
        panels.check(a, size, line.line, line.done + 1)?;
        self.dispatch_line(a, panels, line, 0)
    }

    fn multiply_line(&self, a: &mut Dense, panels: &mut Panels, line: &Line) -> Result<()> {
        let size = if line.transposed { (line.cols, line.rows) } else { (line.rows, line.cols) };
        panels.check(a, size, line.line, line.done + 1)?;
        let (blocks, parts) = blocks_and_parts(line);
        panels.parts = parts;
        let (pipeline, bindings) = self.ready(&panels.multiply_line, |context, stream| {
            let pipeline = context.pipeline(self.kind, &MULTIPLY_LINE, &self.shape.line_constants(), a.a.len())?;
            let bindings = stream.bind(&pipeline, &[&panels.panels, &panels.sums], &a.a)?;
            Ok((pipeline, bindings))
        })?;
        let parameters = panels.parameters(line, a.strides, a.lines, parts);
        if blocks > self.stream.most_workgroups() {
            return Err(SvdError::invalid(
                "matrix",
                format!("{blocks} workgroups, of at most {}", self.stream.most_workgroups()),
            ));
        }
        self.stream.dispatch(
            pipeline,
            bindings,
            parameters,
            [blocks as u32, parts as u32, 1],
            Work::multiply_line(self.kind, line),
        )
    }

    fn update_trailing(&self, a: &mut Dense, panels: &mut Panels, trailing: &Trailing) -> Result<()> {
        let &Trailing { first, size, inner } = trailing;
        panels.check(a, size, first, inner)?;
        let (rows, cols) = trailing.shape();
        self.dispatch_line(a, panels, &trailing.last_line(), parameters::LAST)?;
        let (pipeline, bindings) = self.ready(&panels.update_trailing, |context, stream| {
            let pipeline = context.pipeline(self.kind, &UPDATE_TRAILING, &self.shape.trailing_constants(), a.a.len())?;
            let bindings = stream.bind(&pipeline, &[&panels.panels], &a.a)?;
            Ok((pipeline, bindings))
        })?;
        let at_once = Work::trailing_columns(self.kind, &self.shape, trailing, self.stream.most_flops());
        let [y, z] = self.stream.fold(rows.div_ceil(self.shape.products.rows))?;
        for col in (0..cols).step_by(at_once) {
            let count = at_once.min(cols - col);
            let [rs, cs, lines, row, col] = [a.strides.0, a.strides.1, a.lines, first, first + col].map(word);
            let [rows, cols, inner, ld] = [rows, count, inner, panels.ld].map(word);
            let parameters = parameters::UpdateTrailing { rs, cs, lines, row, col, rows, cols, inner, ld };
            let grid = [count.div_ceil(self.shape.products.cols) as u32, y, z];
            let work = Work::update_trailing(self.kind, &self.shape, trailing, count);
            self.stream.dispatch(pipeline, bindings, parameters, grid, work)?;
        }
        Ok(())
    }
}
