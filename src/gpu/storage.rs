//! The matrices on the device: a dense one with stage 1's workspace, one to be copied there, and a band.

use std::{marker::PhantomData, ops::Range, sync::OnceLock};

use wgpu::{BindGroup, Buffer, BufferUsages};

use crate::{
    algo::svdvals::Source,
    base::{
        error::{Result, SvdError},
        number::Number,
    },
    cost::{
        shape::{Bounds, ChaseShape, Shape},
        work::ROWS_AT_ONCE,
    },
    gpu::{
        device::{
            context::GpuContext,
            parameters,
            pipeline::{CHASE, CHASE_KEPT, GATHER_REFLECTORS, GEQRT, GEQRT_KEPT, Pipeline, Shader, UNMQR, UNMQR_IN_VECTORS},
            stream::{Stream, buffer},
        },
        kernels::GpuKernels,
    },
    tile::{
        band_layout::BandLayout,
        chase_schedule::ReductionStep,
        panel_tree::{Level, RowMap, Stack},
        tuning::Tuning,
    },
};

/// A kernel with its bindings, made when it is first asked for.
#[derive(Default)]
struct Bound(OnceLock<(Pipeline, BindGroup)>);

impl Bound {
    fn get(&self, make: impl FnOnce() -> Result<(Pipeline, BindGroup)>) -> Result<&(Pipeline, BindGroup)> {
        if let Some(made) = self.0.get() {
            return Ok(made);
        }
        let made = make()?;
        Ok(self.0.get_or_init(|| made))
    }
}

/// A dense matrix on the device, stored as `T` in the memory order it came in, with what `geqrt` leaves for `unmqr`.
pub struct Dense<T> {
    /// Entry (i, j) at i * strides.0 + j * strides.1 of all buffers together: each has `lines` lines (rows or columns, as they lie in
    /// memory), the last what is left.
    pub(crate) a: Vec<Buffer>,
    pub(crate) lines: usize,
    /// V of every block: one row of `shape.ts` for each stacked row of a level.
    pub(crate) v: Buffer,
    /// T of every block: `shape.ts` x `shape.ts`, row-major.
    pub(crate) t: Buffer,
    pub(crate) size: (usize, usize),
    pub(crate) strides: (usize, usize),
    /// Each kernel of stage 1 with its binding of v, t and a.
    geqrt: Bound,
    unmqr: Bound,
    unmqr_in_vectors: Bound,
    shape: Shape,
    kept: Option<Kept>,
    element: PhantomData<T>,
}

/// Where the reflectors of a matrix are kept: V in the matrix, in the place of zeros, and T of all levels one after the other in `Dense::t`.
struct Kept {
    /// The first of the T of each level, and at the end the number of all.
    first: Vec<usize>,
    /// How many levels have been factored.
    made: usize,
    /// The matrix's, while all of it was there.
    size: (usize, usize),
    /// T of a level that is applied, as `unmqr` takes it.
    t: Buffer,
    gather: Bound,
}

/// A band on the device, stored as `T` in [`BandLayout`].
pub struct Banded<T> {
    pub(crate) band: Buffer,
    pub(crate) layout: BandLayout,
    /// `chase` with its binding, and the sizes that it is compiled with.
    chase: Bound,
    pub(crate) shape: ChaseShape,
    /// The reflectors of every reduction step so far, where they are kept: n x n for each.
    kept: Option<Vec<(ReductionStep, Buffer)>>,
    element: PhantomData<T>,
}

/// A matrix in the device's memory: `outer` lines (rows, or columns) of `inner` entries each, one starting `ld` after the other.
#[derive(Clone, Copy)]
pub(crate) struct Lines<'a> {
    pub entries: &'a Buffer,
    pub by_rows: bool,
    pub inner: usize,
    pub outer: usize,
    pub ld: usize,
}

impl Lines<'_> {
    /// Rows and columns.
    pub fn size(&self) -> (usize, usize) {
        if self.by_rows { (self.outer, self.inner) } else { (self.inner, self.outer) }
    }

    /// Entries from the first to the last, those between lines included; None where they cannot be counted.
    pub fn len(&self) -> Option<usize> {
        if self.inner == 0 {
            return Some(0);
        }
        self.outer.checked_sub(1).map_or(Some(0), |last| last.checked_mul(self.ld)?.checked_add(self.inner))
    }

    /// That the buffer holds them, as entries of type `S`.
    pub fn check<S>(&self) -> Result<()> {
        let bytes = self.len().and_then(|len| len.max(1).checked_mul(size_of::<S>()));
        if bytes.is_none_or(|bytes| bytes as u64 > self.entries.size()) {
            let ((rows, cols), held, each) = (self.size(), self.entries.size(), size_of::<S>());
            let reason =
                format!("{held} bytes, which do not hold {rows} x {cols} entries of {each} bytes, lines {} apart", self.ld);
            return Err(SvdError::invalid("buffer", reason));
        }
        Ok(())
    }

    /// The matrix or its transpose, whichever has m >= n; with no entries it is 0 x 0.
    pub fn upright(self) -> Self {
        let (rows, cols) = self.size();
        match (rows.min(cols), rows < cols) {
            (0, _) => Lines { inner: 0, outer: 0, ..self },
            (_, transposed) => Lines { by_rows: self.by_rows != transposed, ..self },
        }
    }
}

impl<S: Number> Source<GpuKernels<S>> for Lines<'_> {
    fn shape(&self) -> (usize, usize) {
        self.size()
    }

    fn upload(&self, kernels: &GpuKernels<S>, scale: S::Real) -> Result<Dense<S>> {
        kernels.adopt(self, scale)
    }
}

/// Elements of each buffer of a dense matrix.
struct DenseSizes {
    by_rows: bool,
    /// Distance between neighbouring rows (`by_rows`) or columns: whole vectors of four.
    ld: usize,
    /// Rows (`by_rows`) or columns, and how many of them a buffer has.
    outer: usize,
    lines: usize,
    v: usize,
    t: usize,
}

/// Most buffers that a matrix is kept in: a shader has as many cases for an access.
const MOST_BUFFERS: usize = 64;

/// Lines of `ld` elements that go into one buffer, of `outer` in all: all of them, or whole fours.
fn lines_of_a_buffer<T>(context: &GpuContext, ld: Option<usize>, outer: usize) -> Result<usize> {
    let line = ld.and_then(|ld| ld.checked_mul(size_of::<T>()));
    let needed = line.and_then(|line| line.checked_mul(outer)).map_or(u64::MAX, |bytes| bytes as u64);
    // Indices are u32.
    let most = context.max_buffer_bytes().min(u64::from(u32::MAX) * size_of::<T>() as u64);
    if needed <= most {
        return Ok(outer.max(1));
    }
    // Lines are counted in u32 too.
    let lines = line.filter(|_| outer <= u32::MAX as usize).map_or(0, |line| (most / line as u64) as usize / 4 * 4);
    // Beside the matrix the kernels bind V and T.
    let buffers = (context.limits().max_storage_buffers_per_shader_stage as usize).saturating_sub(2).min(MOST_BUFFERS);
    if lines > 0 && outer.div_ceil(lines) <= buffers {
        return Ok(lines);
    }
    let available = if lines > 0 { buffers as u64 * most } else { most };
    Err(SvdError::TooLarge { what: "the matrix", needed, available, adapter: context.adapter_name().to_owned() })
}

/// Bytes of `len` elements, where a shader can index so many and a buffer can hold them.
pub(crate) fn fitting_bytes<T>(context: &GpuContext, what: &'static str, len: Option<usize>) -> Result<u64> {
    let needed = len.and_then(|len| len.checked_mul(size_of::<T>())).map_or(u64::MAX, |bytes| bytes as u64);
    // Indices are u32.
    let available = context.max_buffer_bytes().min(u64::from(u32::MAX) * size_of::<T>() as u64);
    if needed > available {
        return Err(SvdError::TooLarge { what, needed, available, adapter: context.adapter_name().to_owned() });
    }
    Ok(needed)
}

/// Most stacked rows of a level that are factored at once: as many as one buffer has room for, up to [`ROWS_AT_ONCE`].
pub(crate) fn rows_at_once<T: Number>(context: &GpuContext, shape: Shape) -> usize {
    let row = (shape.ts * size_of::<T::Scalar>()) as u64;
    ROWS_AT_ONCE.min((context.max_buffer_bytes() / row) as usize)
}

/// Sizes of the buffers for an m x n matrix stored as `T`, and their bytes in all.
fn dense_sizes<T: Number>(
    context: &GpuContext,
    (m, n): (usize, usize),
    by_rows: bool,
    shape: Shape,
    leaf: usize,
) -> Result<(DenseSizes, u64)> {
    let (inner, outer) = if by_rows { (n, m) } else { (m, n) };
    // Not zero, so that strides tell the order of an empty matrix too.
    let ld = inner.max(1).checked_next_multiple_of(4);
    let lines = lines_of_a_buffer::<T>(context, ld, outer)?;
    let a = ld.and_then(|ld| ld.checked_mul(outer)?.checked_mul(size_of::<T>())).unwrap_or(usize::MAX);
    // Of all levels the leaves of the longest panel have most rows and most blocks; a block of R factors has at least 2.
    let at_once = rows_at_once::<T>(context, shape).max(shape.rows());
    let longest = m.max(n).max(2 * shape.ts).min(at_once);
    let v = longest.checked_mul(shape.ts);
    let t = longest.div_ceil(leaf.max(2)).checked_mul(shape.ts * shape.ts);
    let bytes = (a as u64)
        .saturating_add(fitting_bytes::<T::Scalar>(context, "the reflectors", v)?)
        .saturating_add(fitting_bytes::<T::Scalar>(context, "the reflectors' triangular factors", t)?);
    let count = |len: Option<usize>| len.unwrap_or_default();
    Ok((DenseSizes { by_rows, ld: count(ld), outer, lines, v: count(v), t: count(t) }, bytes))
}

/// Bytes that an m x n matrix stored as `T` takes on the device, workspace and band included.
///
/// # Errors
/// [`SvdError::TooLarge`] where one of its buffers is more than the device allows; [`SvdError::InvalidOption`] where the device cannot
/// have these hyperparameters.
pub(crate) fn required_bytes<T: Number>(context: &GpuContext, m: usize, n: usize, tuning: &Tuning) -> Result<u64> {
    required_bytes_of::<T>(context, (m, n), m < n, tuning)
}

/// [`required_bytes`] of a matrix that is kept row after row if `by_rows`, else column after column.
pub(crate) fn required_bytes_of<T: Number>(
    context: &GpuContext,
    (m, n): (usize, usize),
    by_rows: bool,
    tuning: &Tuning,
) -> Result<u64> {
    let shape = Shape::new::<T>(&Bounds::of(context), tuning)?;
    let (_, dense) = dense_sizes::<T>(context, (m, n), by_rows, shape, tuning.leaf)?;
    let order = m.min(n);
    let band = required_band_bytes::<T>(context, order, tuning.bandwidth(order), tuning)?;
    Ok(dense.saturating_add(band))
}

/// Bytes that a band of order n, stored as `T`, takes on the device.
///
/// # Errors
/// As [`required_bytes`].
pub(crate) fn required_band_bytes<T: Number>(context: &GpuContext, n: usize, bandwidth: usize, tuning: &Tuning) -> Result<u64> {
    fitting_bytes::<T>(context, "the band", BandLayout::new(n, bandwidth, tuning.tile_width).size().ok())
}

impl<T: Number> Dense<T> {
    /// Room for an m x n matrix, row after row if `by_rows`, else column after column.
    pub(crate) fn new(context: &GpuContext, size: (usize, usize), by_rows: bool, shape: Shape, leaf: usize) -> Result<Self> {
        let (sizes, _) = dense_sizes::<T>(context, size, by_rows, shape, leaf)?;
        let storage = |what, bytes: usize, more| buffer(context, what, bytes as u64, BufferUsages::STORAGE | more);
        let scalar = size_of::<T::Scalar>();
        let of_lines = |first: usize| {
            let bytes = sizes.lines.min(sizes.outer - first) * sizes.ld * size_of::<T>();
            storage("the matrix", bytes, BufferUsages::COPY_DST | BufferUsages::COPY_SRC)
        };
        // A matrix with no lines has a buffer too: shaders bind one.
        let a = (0..sizes.outer.max(1)).step_by(sizes.lines).map(of_lines).collect::<Result<Vec<_>>>()?;
        let v = storage("the reflectors", sizes.v * scalar, BufferUsages::COPY_SRC)?;
        let t = storage("the reflectors' triangular factors", sizes.t * scalar, BufferUsages::COPY_SRC)?;
        let strides = if sizes.by_rows { (sizes.ld, 1) } else { (1, sizes.ld) };
        let (geqrt, unmqr, unmqr_in_vectors) = Default::default();
        let (lines, kept, element) = (sizes.lines, None, PhantomData);
        Ok(Dense { a, lines, v, t, size, strides, geqrt, unmqr, unmqr_in_vectors, shape, kept, element })
    }

    /// From now on `geqrt` keeps the reflectors of these levels, one call for each.
    pub(crate) fn keep_reflectors(&mut self, context: &GpuContext, levels: &mut dyn Iterator<Item = Level>) -> Result<()> {
        let (mut first, mut most) = (vec![0], 0);
        for level in levels {
            let blocks = level.map.blocks();
            most = most.max(blocks);
            first.push(first.last().map_or(0, |sum: &usize| sum.saturating_add(blocks)));
        }
        let square = self.shape.ts * self.shape.ts;
        let of_blocks = |blocks: usize| {
            let what = "the reflectors' triangular factors";
            let bytes = fitting_bytes::<T::Scalar>(context, what, blocks.max(1).checked_mul(square))?;
            buffer(context, what, bytes, BufferUsages::STORAGE | BufferUsages::COPY_SRC)
        };
        self.t = of_blocks(first.last().copied().unwrap_or_default())?;
        (self.geqrt, self.unmqr, self.unmqr_in_vectors) = Default::default();
        self.kept = Some(Kept { first, made: 0, size: self.size, t: of_blocks(most)?, gather: Bound::default() });
        Ok(())
    }

    /// To be called before each call of `geqrt`: the next level of those that are kept is this one.
    pub(crate) fn keep_next(&mut self, level: &Level) -> Result<()> {
        let Some(kept) = &mut self.kept else { return Ok(()) };
        match kept.first.get(kept.made..kept.made + 2) {
            Some(&[first, next]) if next - first == level.map.blocks() => kept.made += 1,
            _ => return Err(SvdError::invalid("level", format!("{level:?} is not level {} of those to be kept", kept.made))),
        }
        Ok(())
    }

    /// `gather_reflectors` of level `k` of those that are kept, with its bindings and parameters, and the bindings of the `unmqr` that applies
    /// them to `c`.
    pub(crate) fn applied(
        &self,
        context: &GpuContext,
        stream: &Stream,
        (k, level): (usize, &Level),
        c: &Dense<T>,
    ) -> Result<(&(Pipeline, BindGroup), parameters::Level, (Pipeline, BindGroup))> {
        let missing = || SvdError::invalid("reflectors", format!("those of level {k} were not kept"));
        let kept = self.kept.as_ref().filter(|kept| k < kept.made).ok_or_else(missing)?;
        let &Level { transposed, map, .. } = level;
        let size = if transposed { (kept.size.1, kept.size.0) } else { kept.size };
        if kept.first[k + 1] - kept.first[k] != map.blocks() {
            return Err(SvdError::invalid("level", format!("{level:?} is not the one that was kept")));
        }
        let parameters = self.parameters_within(level, size, kept.first[k])?;
        let gather = kept.gather.get(|| {
            let pipeline = context.pipeline::<T>(&GATHER_REFLECTORS, &[("TS", self.shape.ts as u32)], self.a.len())?;
            let bindings = stream.bind(&pipeline, &[&self.v, &kept.t, &self.t], &self.a)?;
            Ok((pipeline, bindings))
        })?;
        let shader = self.unmqr_shader(&Level { transposed: false, col: 0, width: 0, map });
        let pipeline = context.pipeline::<T>(shader, &self.shape.unmqr_constants(), c.a.len())?;
        let bindings = stream.bind(&pipeline, &[&self.v, &kept.t], &c.a)?;
        Ok((gather, parameters, (pipeline, bindings)))
    }

    /// `geqrt`, with its bindings.
    pub(crate) fn geqrt(&self, context: &GpuContext, stream: &Stream) -> Result<&(Pipeline, BindGroup)> {
        let shader = if self.kept.is_some() { &GEQRT_KEPT } else { &GEQRT };
        self.bound(&self.geqrt, context, stream, shader, &self.shape.geqrt_constants())
    }

    /// `unmqr` for this level, with its bindings.
    pub(crate) fn unmqr(&self, context: &GpuContext, stream: &Stream, level: &Level) -> Result<&(Pipeline, BindGroup)> {
        let shader = self.unmqr_shader(level);
        let kernel = if shader.name_and_variant() == UNMQR.name_and_variant() { &self.unmqr } else { &self.unmqr_in_vectors };
        self.bound(kernel, context, stream, shader, &self.shape.unmqr_constants())
    }

    /// `unmqr` in vectors where every four stacked rows from a multiple of four on are neighbours in the matrix, and they and the columns
    /// start at multiples of four there too; else entry by entry.
    fn unmqr_shader(&self, level: &Level) -> &'static Shader {
        let RowMap { start, group, spacing, block_rows, .. } = level.map;
        let fours = |x: usize| x.is_multiple_of(4);
        let blocks = level.map.blocks() == 1 || fours(block_rows);
        let rows = blocks && fours(start) && (group == spacing || (fours(group) && fours(spacing)));
        if rows && fours(level.col + level.width) { &UNMQR_IN_VECTORS } else { &UNMQR }
    }

    fn bound<'a>(
        &self,
        kernel: &'a Bound,
        context: &GpuContext,
        stream: &Stream,
        shader: &Shader,
        constants: &[(&str, u32)],
    ) -> Result<&'a (Pipeline, BindGroup)> {
        kernel.get(|| {
            let pipeline = context.pipeline::<T>(shader, constants, self.a.len())?;
            let bindings = stream.bind(&pipeline, &[&self.v, &self.t], &self.a)?;
            Ok((pipeline, bindings))
        })
    }

    /// Elements from one row or column to the next.
    pub(crate) fn ld(&self) -> usize {
        self.strides.0.max(self.strides.1)
    }

    /// Lines in each of the buffers.
    pub(crate) fn lines_of(&self) -> impl Iterator<Item = (Range<usize>, &Buffer)> {
        let outer = if self.strides.1 == 1 { self.size.0 } else { self.size.1 };
        let ranges = (0..outer).step_by(self.lines).map(move |first| first..(first + self.lines).min(outer));
        ranges.zip(&self.a)
    }

    /// Rows and columns that a sweep sees.
    pub(crate) fn size(&self, transposed: bool) -> (usize, usize) {
        if transposed { (self.size.1, self.size.0) } else { self.size }
    }

    /// The shaders' `Level`, once it is certain that nothing in it reaches outside the buffers or the shaders' workgroup arrays.
    pub(crate) fn parameters(&self, level: &Level) -> Result<parameters::Level> {
        let first = self.kept.as_ref().map_or(0, |kept| kept.first[kept.made.saturating_sub(1)]);
        self.parameters_within(level, self.size(level.transposed), first)
    }

    /// [`parameters`](Self::parameters) of a level of `rows` x `cols`, with its T from number `t_first` on.
    fn parameters_within(&self, level: &Level, (rows, cols): (usize, usize), t_first: usize) -> Result<parameters::Level> {
        let &Level { transposed, col, width, map } = level;
        let (rs, cs) = if transposed { (self.strides.1, self.strides.0) } else { self.strides };
        let Shape { ts, .. } = self.shape;
        let elements = |buffer: &Buffer| buffer.size() / size_of::<T::Scalar>() as u64;
        // Rows ascend with g where groups do not overlap, so the last stacked row is the last row.
        let fits = width <= ts
            && col.checked_add(width).is_some_and(|end| end <= cols)
            && map.group > 0
            && map.spacing >= map.group
            && (1..=self.shape.rows()).contains(&map.block_rows)
            && (map.rows == 0 || map.row(map.rows - 1) < rows)
            && (map.rows * ts) as u64 <= elements(&self.v)
            && ((t_first + map.blocks()) * ts * ts) as u64 <= elements(&self.t);
        if !fits {
            return Err(SvdError::invalid(
                "level",
                format!("{level:?} does not fit a {rows} x {cols} matrix with {:?}", self.shape),
            ));
        }
        Ok(parameters::Level {
            rs: rs as u32,
            cs: cs as u32,
            lines: self.lines as u32,
            cols: cols as u32,
            col: col as u32,
            width: width as u32,
            start: map.start as u32,
            group: map.group as u32,
            spacing: map.spacing as u32,
            rows: map.rows as u32,
            block_rows: map.block_rows as u32,
            blocks: map.blocks() as u32,
            t_first: t_first as u32,
            flags: match map.stack {
                Stack::Rows => 0,
                Stack::TriangleOnTile => parameters::TRIANGLE_ON_TILE,
                Stack::Triangles => parameters::TRIANGLES,
            },
        })
    }
}

impl<T: Number> Banded<T> {
    /// Room for a band in `layout`, to be chased with `tuning`.
    pub(crate) fn new(context: &GpuContext, layout: BandLayout, tuning: &Tuning) -> Result<Self> {
        let bytes = fitting_bytes::<T>(context, "the band", layout.size().ok())?;
        let shape = ChaseShape::new::<T>(&Bounds::of(context), layout, tuning)?;
        let band = buffer(context, "the band", bytes, BufferUsages::STORAGE | BufferUsages::COPY_DST | BufferUsages::COPY_SRC)?;
        Ok(Banded { band, layout, chase: Bound::default(), shape, kept: None, element: PhantomData })
    }

    /// From now on `chase` keeps its reflectors.
    pub(crate) fn keep_chase(&mut self) {
        self.kept = Some(Vec::new());
    }

    /// To be called before the dispatches of `chase` for a step: room for its reflectors, where they are kept.
    pub(crate) fn keep_next(&mut self, context: &GpuContext, step: &ReductionStep) -> Result<()> {
        let Some(kept) = &mut self.kept else { return Ok(()) };
        let what = "the reflectors of stage 2";
        let bytes = fitting_bytes::<T::Scalar>(context, what, step.n.checked_mul(step.n))?;
        kept.push((*step, buffer(context, what, bytes, BufferUsages::STORAGE)?));
        self.chase = Bound::default();
        Ok(())
    }

    /// The reflectors of step `k` of those that were kept.
    pub(crate) fn kept(&self, k: usize, step: &ReductionStep) -> Result<&Buffer> {
        let kept = self.kept.as_ref().and_then(|kept| kept.get(k)).filter(|kept| kept.0 == *step);
        let missing = || SvdError::invalid("reflectors", format!("those of step {k} were not kept"));
        kept.map(|(_, reflectors)| reflectors).ok_or_else(missing)
    }

    /// `chase`, with its binding.
    pub(crate) fn chase(&self, context: &GpuContext, stream: &Stream) -> Result<&(Pipeline, BindGroup)> {
        self.chase.get(|| {
            let kept = self.kept.as_ref().and_then(|kept| kept.last()).map(|(_, reflectors)| reflectors);
            let shader = if kept.is_some() { &CHASE_KEPT } else { &CHASE };
            let pipeline = context.pipeline::<T>(shader, &self.shape.constants(), 0)?;
            let buffers: Vec<&Buffer> = [Some(&self.band), kept].into_iter().flatten().collect();
            let bindings = stream.bind(&pipeline, &buffers, &[])?;
            Ok((pipeline, bindings))
        })
    }

    /// Whether `step` stays within the layout, so that `chase` does.
    pub(crate) fn check(&self, step: &ReductionStep) -> Result<()> {
        let BandLayout { n, ku, kl, .. } = self.layout;
        let bulge = step.bandwidth.checked_add(step.tile_width);
        if step.n != n
            || !(1..step.bandwidth).contains(&step.tile_width)
            || step.tile_width > kl
            || bulge.is_none_or(|bulge| bulge > ku)
        {
            return Err(SvdError::invalid("step", format!("{step:?} does not fit a band in {:?}", self.layout)));
        }
        Ok(())
    }
}
