//! The matrices on the device: a dense one with the workspace of stage 1, a view of one to be copied, and a band.

mod deferred;
mod kept;
mod lines;
mod part;

pub(crate) use deferred::Deferred;
use kept::Kept;
pub(crate) use lines::Lines;

use std::{ops::Range, sync::OnceLock};

use crate::{
    base::{
        element_kind::ElementKind,
        error::{Result, SvdError},
    },
    cost::{
        chase::{ChaseShape, TeamShape},
        shape::{Bounds, Shape},
    },
    gpu::{
        device::{
            buffers::{Bindings, Buffer, storage},
            context::GpuContext,
            parameters,
            pipeline::{
                CHASE, CHASE_KEPT, GEQRT, GEQRT_KEPT, Pipeline, Shader, UNMQR, UNMQR_AND_GEQRT, UNMQR_AND_GEQRT_KEPT,
                UNMQR_IN_VECTORS, chase_team,
            },
            stream::Stream,
        },
        limits::{dense_sizes, fitting_bytes},
    },
    tile::{
        band_layout::BandLayout,
        chase_schedule::ReductionStep,
        panel_tree::{Level, Stack},
        tuning::Tuning,
    },
};

/// A kernel and its bindings, ready to be dispatched.
pub(crate) type Ready = (Pipeline, Bindings);

/// A pipeline with its bind group, created on first use.
#[derive(Clone, Default)]
pub(crate) struct Bound(OnceLock<Ready>);

impl Bound {
    pub(crate) fn get(&self, make: impl FnOnce() -> Result<Ready>) -> Result<&Ready> {
        if let Some(made) = self.0.get() {
            return Ok(made);
        }
        let made = make()?;
        Ok(self.0.get_or_init(|| made))
    }
}

/// A dense matrix on the device, stored as `kind` in its original memory order, with the V and T that `geqrt` leaves for `unmqr`. Or several of one
/// shape and order, which the kernels of stages 1 and 2 compute side by side.
pub struct Dense {
    pub(crate) kind: ElementKind,
    /// Entry (i, j) is at i * strides.0 + j * strides.1 of the concatenated buffers. Each buffer has `lines` lines (rows or columns,
    /// whichever are contiguous); the last buffer has the remaining ones.
    pub(crate) a: Vec<Buffer>,
    pub(crate) lines: usize,
    /// V of all blocks: one row of `shape.ts` entries for each stacked row of a level.
    pub(crate) v: Buffer,
    /// T of all blocks: `shape.ts` x `shape.ts` each, row-major.
    pub(crate) t: Buffer,
    pub(crate) size: (usize, usize),
    pub(crate) strides: (usize, usize),
    /// The number of matrices, and the entries from one to the next. Several are in one buffer, one after the other, and so are their V and T.
    pub(crate) matrices: usize,
    pub(crate) matrix: usize,
    /// The index of the first entry: not zero in a [`part`](Self::part) of several matrices.
    pub(crate) first: usize,
    /// V and T of a level that is factored beside the update of the one before, and of every other level above it. None if there are no such
    /// levels.
    beside: Option<[Buffer; 2]>,
    /// Whether the V and T of the last level are those.
    in_beside: bool,
    kernels: StageOne,
    shape: Shape,
    kept: Option<Kept>,
    /// Rows and columns of memory beyond the matrix, for deferred updates.
    pub(crate) room: usize,
    pub(crate) deferred: Option<Deferred>,
}

/// The kernels of stage 1, each with a bind group of v, t and a. The second ones have the V and T of [`Dense::beside`] in place of v and t, and the other
/// way round.
#[derive(Default)]
struct StageOne {
    geqrt: Bound,
    unmqr: [Bound; 2],
    unmqr_in_vectors: [Bound; 2],
    unmqr_and_geqrt: [Bound; 2],
}

/// A band on the device, stored as `kind` in [`BandLayout`], or several of one layout, one after the other.
pub struct Banded {
    pub(crate) kind: ElementKind,
    pub(crate) band: Buffer,
    pub(crate) layout: BandLayout,
    /// The number of bands.
    pub(crate) matrices: usize,
    /// `chase`, and `chase_team` of one step, with their bind groups, and the sizes that the first one is compiled with.
    chase: Bound,
    chase_team: Bound,
    pub(crate) shape: ChaseShape,
    /// The reflectors of each reduction step so far, if they are kept: n x n entries a step, of several bands one after the other.
    kept: Option<Vec<(ReductionStep, Buffer)>>,
    /// The index of the first of them: not zero in a [`part`](Self::part) of several bands.
    pub(crate) first_kept: usize,
}

impl Dense {
    /// Allocates an m x n matrix, row-major if `by_rows`, else column-major.
    pub(crate) fn new(
        kind: ElementKind,
        context: &GpuContext,
        size: (usize, usize),
        by_rows: bool,
        shape: Shape,
        leaf: usize,
    ) -> Result<Self> {
        Self::stacked(kind, context, 1, size, by_rows, shape, leaf)
    }

    /// Allocates several matrices, at least one, of one shape and order.
    pub(crate) fn stacked(
        kind: ElementKind,
        context: &GpuContext,
        matrices: usize,
        size: (usize, usize),
        by_rows: bool,
        shape: Shape,
        leaf: usize,
    ) -> Result<Self> {
        let (sizes, _) = dense_sizes(kind, context, matrices, size, by_rows, shape, leaf)?;
        let scalar = kind.scalar_bytes();
        let of_lines = |first: usize| {
            let bytes = sizes.lines.min(sizes.outer - first) * sizes.ld * kind.bytes();
            storage(context, "the matrix", bytes as u64)
        };
        // An empty matrix has a buffer too, because shaders bind one.
        let a = (0..sizes.outer.max(1)).step_by(sizes.lines).map(of_lines).collect::<Result<Vec<_>>>()?;
        let v = storage(context, "the reflectors", (sizes.v * scalar) as u64)?;
        let t = storage(context, "the reflectors' triangular factors", (sizes.t * scalar) as u64)?;
        // A level above the leaves has as many stacked rows as they have rows of T.
        let beside = (sizes.beside > 0).then(|| {
            let of = |what| storage(context, what, (sizes.beside * scalar) as u64);
            Ok::<_, SvdError>([of("the reflectors")?, of("the reflectors' triangular factors")?])
        });
        let strides = if sizes.by_rows { (sizes.ld, 1) } else { (1, sizes.ld) };
        let (beside, in_beside, kernels) = (beside.transpose()?, false, StageOne::default());
        let (lines, kept) = (sizes.lines, None);
        let matrix = sizes.outer / matrices.max(1) * sizes.ld;
        let first = 0;
        let (room, deferred) = (0, None);
        Ok(Dense {
            kind,
            a,
            lines,
            v,
            t,
            size,
            strides,
            matrices,
            matrix,
            first,
            beside,
            in_beside,
            kernels,
            shape,
            kept,
            room,
            deferred,
        })
    }

    /// [`new`](Self::new), with so many more rows and columns of memory.
    pub(crate) fn with_room(
        kind: ElementKind,
        context: &GpuContext,
        size: (usize, usize),
        room: usize,
        by_rows: bool,
        shape: Shape,
        leaf: usize,
    ) -> Result<Self> {
        let whole = (size.0.saturating_add(room), size.1.saturating_add(room));
        Ok(Dense { size, room, ..Self::new(kind, context, whole, by_rows, shape, leaf)? })
    }

    /// `geqrt` with its bind group.
    pub(crate) fn geqrt(&self, context: &GpuContext, stream: &Stream) -> Result<&Ready> {
        let shader = if self.kept.is_some() { &GEQRT_KEPT } else { &GEQRT };
        self.bound(&self.kernels.geqrt, context, stream, shader, &self.shape.geqrt_constants(), &[&self.v, &self.t])
    }

    /// `unmqr` for this level, with its bind group.
    pub(crate) fn unmqr(&self, context: &GpuContext, stream: &Stream, level: &Level) -> Result<&Ready> {
        let shader = self.unmqr_shader(level);
        let kernels = &self.kernels;
        let scalar = shader.name_and_variant() == UNMQR.name_and_variant();
        let kernel = if scalar { &kernels.unmqr } else { &kernels.unmqr_in_vectors };
        let kernel = &kernel[usize::from(self.in_beside)];
        self.bound(kernel, context, stream, shader, &self.shape.unmqr_constants(), &self.last())
    }

    /// V and T of the last level. Those T that are kept are in one buffer.
    pub(crate) fn last(&self) -> [&Buffer; 2] {
        match &self.beside {
            Some([v, _]) if self.in_beside && self.kept.is_some() => [v, &self.t],
            Some([v, t]) if self.in_beside => [v, t],
            _ => [&self.v, &self.t],
        }
    }

    /// Whether a dispatch may run `unmqr` of this level beside `geqrt` of the next one. It has one buffer for the matrix.
    pub(crate) fn runs_beside(&self, level: &Level, next: &Level) -> bool {
        self.a.len() == 1 && self.beside.is_some() && self.shape.runs_beside(self.kind, level, next)
    }

    /// `unmqr` of a level beside `geqrt` of the `next` one, with its bind group, for a shape of [`Shape::beside`]. The V and T of the next level are the
    /// last ones from then on, and it is kept if reflectors are.
    pub(crate) fn unmqr_and_geqrt(
        &mut self,
        context: &GpuContext,
        stream: &Stream,
        shape: &Shape,
        next: &Level,
    ) -> Result<&Ready> {
        let from = usize::from(self.in_beside);
        let [v, t] = self.last().map(Buffer::clone);
        self.in_beside = !self.in_beside;
        self.keep(next)?;
        let [next_v, next_t] = self.last();
        let (kernel, constants) = (&self.kernels.unmqr_and_geqrt[from], shape.beside_constants());
        if self.kept.is_some() {
            return self.bound(kernel, context, stream, &UNMQR_AND_GEQRT_KEPT, &constants, &[&v, next_v, next_t]);
        }
        self.bound(kernel, context, stream, &UNMQR_AND_GEQRT, &constants, &[&v, &t, next_v, next_t])
    }

    /// The vector variant of `unmqr` if the level allows it, otherwise the scalar variant.
    fn unmqr_shader(&self, level: &Level) -> &'static Shader {
        if level.is_in_vectors() { &UNMQR_IN_VECTORS } else { &UNMQR }
    }

    fn bound<'a>(
        &self,
        kernel: &'a Bound,
        context: &GpuContext,
        stream: &Stream,
        shader: &Shader,
        constants: &[(&str, u32)],
        buffers: &[&Buffer],
    ) -> Result<&'a Ready> {
        kernel.get(|| {
            let pipeline = context.pipeline(self.kind, shader, constants, self.a.len())?;
            let bindings = stream.bind(&pipeline, buffers, &self.a)?;
            Ok((pipeline, bindings))
        })
    }

    /// Leading dimension: elements from one row or column to the next.
    pub(crate) fn ld(&self) -> usize {
        self.strides.0.max(self.strides.1)
    }

    /// Each buffer with the range of its lines.
    pub(crate) fn lines_of(&self) -> impl Iterator<Item = (Range<usize>, &Buffer)> {
        let outer = if self.strides.1 == 1 { self.size.0 } else { self.size.1 };
        let ranges = (0..outer).step_by(self.lines).map(move |first| first..(first + self.lines).min(outer));
        ranges.zip(&self.a)
    }

    /// Rows and columns as a sweep sees them.
    pub(crate) fn size(&self, transposed: bool) -> (usize, usize) {
        if transposed { (self.size.1, self.size.0) } else { self.size }
    }

    /// Entries from one matrix to the next, if there are several.
    pub(crate) fn distance(&self) -> u32 {
        if self.matrices > 1 { self.matrix as u32 } else { 0 }
    }

    /// The shaders' `Level`, after checking that all accesses stay within the buffers and the shaders' workgroup arrays.
    pub(crate) fn parameters(&self, level: &Level) -> Result<parameters::Level> {
        let first = self.kept.as_ref().map_or(0, |kept| kept.at(kept.made.saturating_sub(1)));
        self.parameters_within(level, self.size(level.transposed), first)
    }

    /// [`parameters`](Self::parameters) of a level in a matrix of `rows` x `cols`, whose first T has the index `t_first`.
    fn parameters_within(&self, level: &Level, size: (usize, usize), t_first: usize) -> Result<parameters::Level> {
        self.parameters_in(self.last(), level, size, (t_first, self.shape.rows()))
    }

    /// [`parameters_within`](Self::parameters_within), for these V and T, and blocks of at most so many rows.
    fn parameters_in(
        &self,
        [v, t]: [&Buffer; 2],
        level: &Level,
        (rows, cols): (usize, usize),
        (t_first, most): (usize, usize),
    ) -> Result<parameters::Level> {
        let &Level { transposed, col, width, map } = level;
        let (rs, cs) = if transposed { (self.strides.1, self.strides.0) } else { self.strides };
        let Shape { ts, .. } = self.shape;
        let elements = |buffer: &Buffer| buffer.size() / self.kind.scalar_bytes() as u64;
        // Rows ascend with the stacked index if groups do not overlap, so the last stacked row is the last row.
        let fits = width <= ts
            && col.checked_add(width).is_some_and(|end| end <= cols)
            && map.group > 0
            && map.spacing >= map.group
            && (1..=most).contains(&map.block_rows)
            && (map.rows == 0 || map.row(map.rows - 1) < rows)
            && (self.matrices * map.rows * ts) as u64 <= elements(v)
            && ((t_first + self.matrices * map.blocks()) * ts * ts) as u64 <= elements(t);
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
            matrix: self.distance(),
            first: self.first as u32,
        })
    }
}

impl Banded {
    /// Allocates a band in `layout`, for bulge chasing with `tuning`.
    pub(crate) fn new(kind: ElementKind, context: &GpuContext, layout: BandLayout, tuning: &Tuning) -> Result<Self> {
        Self::stacked(kind, context, 1, layout, tuning)
    }

    /// Allocates several bands, at least one.
    pub(crate) fn stacked(
        kind: ElementKind,
        context: &GpuContext,
        matrices: usize,
        layout: BandLayout,
        tuning: &Tuning,
    ) -> Result<Self> {
        let bytes =
            fitting_bytes(context, "the band", kind.bytes(), layout.size().ok().and_then(|size| size.checked_mul(matrices)))?;
        let shape = ChaseShape::new(kind, &Bounds::of(context), layout, tuning)?;
        let band = storage(context, "the band", bytes)?;
        let (chase, chase_team, kept) = (Bound::default(), Bound::default(), None);
        Ok(Banded { kind, band, layout, matrices, chase, chase_team, shape, kept, first_kept: 0 })
    }

    /// From now on `chase` keeps its reflectors.
    pub(crate) fn keep_chase(&mut self) {
        self.kept = Some(Vec::new());
    }

    /// Allocates the reflectors of a step, if they are kept. To be called before the step's dispatches of `chase`.
    pub(crate) fn keep_next(&mut self, context: &GpuContext, step: &ReductionStep) -> Result<()> {
        let Some(kept) = &mut self.kept else { return Ok(()) };
        let what = "the reflectors of stage 2";
        let bytes = fitting_bytes(
            context,
            what,
            self.kind.scalar_bytes(),
            step.n.checked_mul(step.n).and_then(|len| len.checked_mul(self.matrices)),
        )?;
        kept.push((*step, storage(context, what, bytes)?));
        (self.chase, self.chase_team) = Default::default();
        Ok(())
    }

    /// The kept reflectors of step `k`.
    pub(crate) fn kept(&self, k: usize, step: &ReductionStep) -> Result<&Buffer> {
        let kept = self.kept.as_ref().and_then(|kept| kept.get(k)).filter(|kept| kept.0 == *step);
        let missing = || SvdError::invalid("reflectors", format!("those of step {k} were not kept"));
        kept.map(|(_, reflectors)| reflectors).ok_or_else(missing)
    }

    /// `chase` with its bind group, or `chase_team` if the step has a shape for it: that of the band's last step.
    pub(crate) fn chase(&self, context: &GpuContext, stream: &Stream, of_team: Option<&TeamShape>) -> Result<&Ready> {
        let bound = if of_team.is_some() { &self.chase_team } else { &self.chase };
        bound.get(|| {
            let kept = self.kept.as_ref().and_then(|kept| kept.last()).map(|(_, reflectors)| reflectors);
            let pipeline = match (of_team, kept.is_some()) {
                (None, kept) => context.pipeline(self.kind, if kept { &CHASE_KEPT } else { &CHASE }, &self.shape.constants(), 0),
                (Some(shape), kept) => {
                    context.pipeline(self.kind, chase_team(shape.shares(self.kind), kept), &shape.constants(), 0)
                }
            }?;
            let buffers: Vec<&Buffer> = [Some(&self.band), kept].into_iter().flatten().collect();
            let bindings = stream.bind(&pipeline, &buffers, &[])?;
            Ok((pipeline, bindings))
        })
    }

    /// Checks that `step`, and so `chase`, stays within the layout.
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
