//! The tile kernels on the device.

mod adopt;
pub(crate) mod batch;
pub(crate) mod bisection;
mod chase;
mod cholesky;
pub(crate) mod cooperative;
mod deferred;
mod factor;
pub(crate) mod fixed;
mod fused;
pub(crate) mod jacobi;
mod kept;
pub(crate) mod krylov;
mod left;
pub(crate) mod one_stage;
pub(crate) mod products;
pub(crate) mod recursive;
mod reflectors;
mod replay;
pub(crate) mod stacked;
pub(crate) mod triangular;

use std::ops::Range;

use faer::{Mat, MatRef};
use pollster::block_on;

use crate::{
    algo::to_band::qr_first,
    base::{
        blas::{Op, Side},
        element_kind::ElementKind,
        error::{Result, SvdError},
        number::{Number, Re, Scalar},
        view::copy_entries,
        zeros::zeros,
    },
    cost::{
        chase::layout_on_device,
        counts::Counts,
        shape::{Bounds, Shape},
        work::{Kernel, LINEAR_THREADS, Work},
    },
    gpu::{
        device::{
            buffers::Bindings,
            context::GpuContext,
            parameters,
            pipeline::{
                GEQRT, GEQRT_KEPT, PACK_BAND, Pipeline, UNMQR, UNMQR_AND_GEQRT, UNMQR_AND_GEQRT_KEPT, UNMQR_IN_VECTORS,
                UNPACK_BAND, Wanted,
            },
            stream::{Manner, Stream},
        },
        kernels::bisection::bisection_pipelines,
        limits::rows_at_once,
        matrix::copy_lines,
        storage::{Banded, Dense},
    },
    tile::{
        band::Band,
        chase_schedule::ReductionStep,
        kernels::{ComplexBidiagonal, StageKernels, TileKernels, Transfers},
        panel_tree::Level,
        tuning::Tuning,
    },
};

/// Maximum number of loop iterations of a thread in one dispatch on a software driver. Mesa's driver ends all loops after 65535 iterations
/// in total.
pub(crate) const SOFTWARE_ITERATIONS: usize = 60_000;

/// The GPU backend of one call, for matrices stored as `kind`: a context, hyperparameters that fit its device, and the commands not yet
/// submitted.
pub struct GpuKernels {
    pub(crate) kind: ElementKind,
    pub(crate) context: GpuContext,
    tuning: Tuning,
    shape: Shape,
    pub(crate) stream: Stream,
    /// Whether stage 3 will run on the device. None unless the call is known to run all stages.
    stage3_on_device: Option<bool>,
    /// Whether the reduction to bidiagonal form will have one stage.
    one_stage: bool,
    /// Whether reflectors will be kept.
    kept: bool,
    /// Whether stage 1 may defer updates.
    deferred: bool,
}

impl GpuKernels {
    /// The backend on `context` with these hyperparameters, for matrices stored as `S`.
    ///
    /// # Errors
    /// [`SvdError::UnsupportedElement`] if the device cannot compute with `S`; [`SvdError::InvalidOption`] for a hyperparameter that
    /// [`Tuning::check`] rejects or that exceeds the device's limits.
    pub fn new<S: Number>(context: &GpuContext, tuning: &Tuning) -> Result<Self> {
        Self::running(S::KIND, context, tuning, Manner { deferred: true, ..Manner::default() })
    }

    /// [`new`](Self::new), for a call that runs as `manner` says.
    pub(crate) fn running(kind: ElementKind, context: &GpuContext, tuning: &Tuning, manner: Manner) -> Result<Self> {
        context.require(kind)?;
        let shape = Shape::new(kind, &Bounds::of(context), tuning)?;
        if !kind.is_double() {
            fused::probe(context);
        }
        let (stage3_on_device, one_stage) = (manner.stage3_on_device, manner.one_stage);
        let (kept, deferred) = (manner.kept, manner.deferred);
        let stream = Stream::running(context, manner)?;
        let (context, tuning) = (context.clone(), tuning.clone());
        Ok(GpuKernels { kind, context, tuning, shape, stream, stage3_on_device, one_stage, kept, deferred })
    }

    /// The pipelines that a call will need for an m x n matrix in `count` buffers.
    fn wanted(&self, (m, n): (usize, usize), count: usize) -> Vec<Wanted> {
        let (shape, order) = (&self.shape, m.min(n));
        let in_vectors = self.tuning.tile_size.is_multiple_of(4) && self.tuning.leaf.is_multiple_of(4);
        let unmqr = if in_vectors { &UNMQR_IN_VECTORS } else { &UNMQR };
        let mut wanted: Vec<Wanted> = vec![(&PACK_BAND, Vec::new(), count)];
        if self.one_stage {
            wanted.extend(one_stage::pipelines(shape, count));
        }
        if !self.one_stage || qr_first(m.max(n), order) {
            // Before stages 1 to 3 a tall matrix is factored, which keeps none.
            let kept = self.kept && (self.stage3_on_device.is_none() || !qr_first(m.max(n), order));
            wanted.push((if kept { &GEQRT_KEPT } else { &GEQRT }, shape.geqrt_constants().into(), count));
            if m.max(n) > self.tuning.tile_size {
                wanted.push((unmqr, shape.unmqr_constants(), count));
            }
            if self.deferral_of_call((m, n)).columns > 0 {
                wanted.extend(deferred::pipelines(self.kind, shape, count, self.kept));
            }
            if let Some(beside) = shape.beside(self.kind).filter(|_| in_vectors && count == 1 && m.max(n) > self.tuning.leaf) {
                wanted.push((if kept { &UNMQR_AND_GEQRT_KEPT } else { &UNMQR_AND_GEQRT }, beside.beside_constants(), count));
            }
        }
        if self.stage3_on_device.is_some() && !self.one_stage {
            let layout = layout_on_device(order, self.tuning.bandwidth(order), self.tuning.tile_width, &self.tuning);
            wanted.extend(self.chases(layout));
        }
        match self.stage3_on_device {
            Some(true) => wanted.extend(bisection_pipelines()),
            _ => wanted.push((&UNPACK_BAND, Vec::new(), 0)),
        }
        wanted
    }

    /// Dispatches, submissions and bytes transferred so far.
    pub fn counts(&self) -> Counts {
        self.stream.counts()
    }

    /// Seconds of each kernel so far, if kernels are timed.
    pub(crate) fn kernel_seconds(&self) -> Vec<(Kernel, f64)> {
        self.stream.kernel_seconds()
    }

    /// V of stacked rows `0..rows` of the last level (rows x tile size), for tests.
    #[doc(hidden)]
    pub fn read_v<S: Scalar>(&self, a: &Dense, rows: usize) -> Result<Mat<S>> {
        let ts = self.shape.ts;
        let entries: Vec<S> = self.stream.read_back_now(a.last()[0], rows * ts)?;
        Ok(Mat::from_fn(rows, ts, |i, j| entries[i * ts + j]))
    }

    /// T of block `q` of the last level (tile size x tile size), for tests.
    #[doc(hidden)]
    pub fn read_t<S: Scalar>(&self, a: &Dense, q: usize) -> Result<Mat<S>> {
        let ts = self.shape.ts;
        let entries: Vec<S> = self.stream.read_back_now(a.last()[1], (q + 1) * ts * ts)?;
        Ok(Mat::from_fn(ts, ts, |i, j| entries[(q * ts + i) * ts + j]))
    }

    /// Dispatches `unmqr` for a level of each matrix and the `trailing` ones of the columns right of its panel, split into as many dispatches as
    /// necessary.
    fn update(
        &self,
        (pipeline, bindings): &(Pipeline, Bindings),
        whole: parameters::Level,
        level: &Level,
        trailing: Range<usize>,
        matrices: usize,
    ) -> Result<()> {
        let most_flops = self.stream.most_flops() / matrices.max(1) as u64;
        let at_once = Work::unmqr_columns(self.kind, &self.shape, level, trailing.len(), most_flops);
        for first in trailing.clone().step_by(at_once) {
            let columns = first..trailing.end.min(first + at_once);
            let work = Work::unmqr(self.kind, &self.shape, level, columns.len()).times(matrices);
            let [x, y] = self.stream.fold(level.map.blocks() * columns.len().div_ceil(self.shape.cpb))?;
            self.stream.dispatch(pipeline, bindings, whole.of_columns(columns), [x, y, matrices as u32], work)?;
        }
        Ok(())
    }
}

impl StageKernels for GpuKernels {
    type Dense = Dense;
    type Banded = Banded;

    fn rows_at_once(&self) -> usize {
        rows_at_once(self.kind, &self.context, self.shape)
    }

    fn geqrt(&self, a: &mut Dense, level: &Level) -> Result<()> {
        a.keep_next(level)?;
        let parameters = a.parameters(level)?;
        let [x, y] = self.stream.fold(level.map.blocks())?;
        if level.map.rows == 0 || level.width == 0 {
            return Ok(());
        }
        let work = Work::geqrt(self.kind, &self.shape, level).times(a.matrices);
        let (pipeline, bindings) = a.geqrt(&self.context, &self.stream)?;
        self.stream.dispatch(pipeline, bindings, parameters, [x, y, a.matrices as u32], work)
    }

    fn unmqr(&self, a: &mut Dense, level: &Level) -> Result<()> {
        let whole = a.parameters(level)?;
        let trailing = a.size(level.transposed).1 - level.col - level.width;
        if trailing == 0 || level.map.rows == 0 || level.width == 0 {
            return Ok(());
        }
        self.update(a.unmqr(&self.context, &self.stream, level)?, whole, level, 0..trailing, a.matrices)
    }

    fn unmqr_and_geqrt(&self, a: &mut Dense, level: &Level, next: &Level) -> Result<()> {
        let trailing = a.size(level.transposed).1.saturating_sub(level.col + level.width);
        let Some(shape) = self.shape.beside(self.kind).filter(|_| trailing > 0 && a.runs_beside(level, next)) else {
            self.unmqr(a, level)?;
            return self.geqrt(a, next);
        };
        let whole = a.parameters(level)?;
        let matrices = a.matrices;
        let at_once = Work::unmqr_columns(self.kind, &shape, level, trailing, self.stream.most_flops() / matrices.max(1) as u64);
        let rest = if at_once < trailing { Some(a.unmqr(&self.context, &self.stream, level)?.clone()) } else { None };
        let (pipeline, bindings) = a.unmqr_and_geqrt(&self.context, &self.stream, &shape, next)?.clone();
        // Checks that V and T of the next level are within the buffers.
        a.parameters(next)?;
        let work = Work::unmqr_and_geqrt(self.kind, &shape, level, at_once, next).times(matrices);
        let count = next.map.blocks() + level.map.blocks() * at_once.div_ceil(shape.cpb);
        let [x, y] = self.stream.fold(count)?;
        self.stream.dispatch(&pipeline, &bindings, whole.of_columns(0..at_once), [x, y, matrices as u32], work)?;
        rest.map_or(Ok(()), |unmqr| self.update(&unmqr, whole, level, at_once..trailing, matrices))
    }

    fn to_band_deferred(&self, a: &mut Dense, size: (usize, usize), tuning: &Tuning) -> Result<bool> {
        self.defer(a, size, tuning)
    }

    fn deferred_columns(&self, a: &Dense, size: (usize, usize), tuning: &Tuning) -> usize {
        self.deferral(a, size, tuning).columns
    }

    fn keep_rows(&self, a: &mut Dense, rows: usize) {
        a.size.0 = rows.min(a.size.0);
    }

    fn pack_band(&self, a: &Dense, n: usize, bandwidth: usize, tile_width: usize) -> Result<Banded> {
        if n > a.size.0.min(a.size.1) {
            return Err(SvdError::invalid("n", format!("{n}, of a {} x {} matrix", a.size.0, a.size.1)));
        }
        let layout = layout_on_device(n, bandwidth, tile_width, &self.tuning);
        let band = Banded::stacked(self.kind, &self.context, a.matrices, layout, &self.tuning)?;
        if n == 0 {
            return Ok(band);
        }
        let pipeline = self.context.pipeline(self.kind, &PACK_BAND, &[], a.a.len())?;
        let bindings = self.stream.bind(&pipeline, &[&band.band], &a.a)?;
        let parameters = parameters::PackBand {
            n: n as u32,
            columns: layout.columns as u32,
            ld: layout.ld() as u32,
            ku: layout.ku as u32,
            bandwidth: bandwidth as u32,
            rs: a.strides.0 as u32,
            cs: a.strides.1 as u32,
            lines: a.lines as u32,
            matrix: a.distance(),
        };
        let [x, y] = self.stream.fold(layout.size()?.div_ceil(LINEAR_THREADS as usize))?;
        let work = Work::pack_band(self.kind, layout, bandwidth, LINEAR_THREADS.into()).times(a.matrices);
        self.stream.dispatch(&pipeline, &bindings, parameters, [x, y, a.matrices as u32], work)?;
        Ok(band)
    }

    fn chase(&self, band: &mut Banded, step: &ReductionStep) -> Result<()> {
        self.chase_step(band, step)
    }
}

impl GpuKernels {
    /// Copies `source`, of entries with this kind's arithmetic, to the device. They are stored as `S`.
    fn upload_as<T: Scalar, S: Number<Scalar = T>>(&self, source: MatRef<'_, T>, scale: Re<T>) -> Result<Dense> {
        let by_rows = source.col_stride().unsigned_abs() < source.row_stride().unsigned_abs();
        let a = self.dense_of(source.shape(), by_rows)?;
        let source = if by_rows { source.transpose() } else { source };
        self.context.prepare(self.kind, &self.wanted(a.size, a.a.len()), || {
            a.lines_of().try_for_each(|(lines, buffer)| {
                let source = source.subcols(lines.start, lines.len());
                self.stream.upload(buffer, lines.len() * a.ld(), |start, piece: &mut [S]| {
                    copy_lines(source, a.ld(), start, piece, |_| 0..source.nrows(), |x| S::narrow(x.times(scale)));
                })
            })
        })?;
        Ok(a)
    }

    fn upload_band_as<T: Scalar, S: Number<Scalar = T>>(
        &self,
        band: &Band<T>,
        scale: Re<T>,
        tile_width: usize,
    ) -> Result<Banded> {
        let layout = layout_on_device(band.n(), band.bandwidth(), tile_width, &self.tuning);
        let device = Banded::new(self.kind, &self.context, layout, &self.tuning)?;
        let ld = layout.ld();
        let wanted: Vec<Wanted> = self.chases(layout).into_iter().chain([(&UNPACK_BAND, Vec::new(), 0)]).collect();
        let size = layout.size()?;
        self.context.prepare(self.kind, &wanted, || {
            self.stream.upload(&device.band, size, |start, piece: &mut [S]| {
                for (place, to) in (start..).zip(piece) {
                    // Entry p of stored column j has row j + p - ku.
                    let (j, p) = (place / ld, place % ld);
                    let row = (j + p).checked_sub(layout.ku).filter(|_| j < layout.n);
                    *to = row.map_or_else(S::zeroed, |i| S::narrow(band.get(i, j).times(scale)));
                }
            })
        })?;
        Ok(device)
    }

    async fn stored_as<S: Number>(&self, a: &Dense) -> Result<Mat<S::Scalar>> {
        let ((m, n), by_rows) = (a.size, a.strides.1 == 1);
        let mut to = zeros::<S::Scalar>(m, n);
        for (lines, buffer) in a.lines_of() {
            let ld = a.ld();
            let take = |at: usize, entries: &[S]| {
                let (first, count) = (lines.start + at / ld, entries.len() / ld);
                let (from, to) = if by_rows {
                    (MatRef::from_row_major_slice_with_stride(entries, count, n, ld), to.as_mut().subrows_mut(first, count))
                } else {
                    (MatRef::from_column_major_slice_with_stride(entries, m, count, ld), to.as_mut().subcols_mut(first, count))
                };
                copy_entries(from, to, |x| x);
            };
            self.stream.read_back_in::<S>(buffer, (a.first, lines.len() * ld), ld, take).await?;
        }
        Ok(to)
    }

    async fn rows_stored_as<S: Number>(&self, a: &Dense, rows: usize) -> Result<Mat<S::Scalar>> {
        let mut entries: Vec<S> = Vec::new();
        for (lines, buffer) in a.lines_of() {
            let wanted = rows.saturating_sub(lines.start).min(lines.len());
            if wanted > 0 {
                entries.extend(self.stream.read_back_from::<S>(buffer, a.first, wanted * a.ld()).await?);
            }
        }
        Ok(Mat::from_fn(rows, a.size.1, |i, j| entries[i * a.strides.0 + j].widen()))
    }

    /// An error unless `T` is the type of the arithmetic.
    fn check_type<T: Scalar>(&self) -> Result<()> {
        match self.kind.scalar() == T::KIND {
            true => Ok(()),
            false => Err(SvdError::invalid("element", format!("{}, for kernels of {}", T::NAME, self.kind.name()))),
        }
    }
}

impl<T: Scalar> Transfers<T> for GpuKernels {
    fn upload(&self, source: MatRef<'_, T>, scale: Re<T>) -> Result<Dense> {
        self.check_type::<T>()?;
        match self.kind.is_half() {
            false => self.upload_as::<T, T>(source, scale),
            true => self.upload_as::<T, T::Compact>(source, scale),
        }
    }

    fn upload_band(&self, band: &Band<T>, scale: Re<T>, tile_width: usize) -> Result<Banded> {
        self.check_type::<T>()?;
        match self.kind.is_half() {
            false => self.upload_band_as::<T, T>(band, scale, tile_width),
            true => self.upload_band_as::<T, T::Compact>(band, scale, tile_width),
        }
    }

    fn download(&self, a: &Dense) -> Result<Mat<T>> {
        block_on(self.download_awaited(a))
    }

    async fn download_rows(&self, a: &Dense, rows: usize) -> Result<Mat<T>> {
        self.check_type::<T>()?;
        let rows = rows.min(a.size.0);
        let by_rows = a.strides.1 == 1;
        if rows == a.size.0 || (a.a.len() > 1 && !by_rows) {
            let all: Mat<T> = self.download_awaited(a).await?;
            return Ok(all.subrows(0, rows).to_owned());
        }
        match self.kind.is_half() {
            _ if !by_rows => self.download_awaited(&self.first_rows(a, rows)?).await,
            false => self.rows_stored_as::<T>(a, rows).await,
            true => self.rows_stored_as::<T::Compact>(a, rows).await,
        }
    }

    async fn download_awaited(&self, a: &Dense) -> Result<Mat<T>> {
        self.check_type::<T>()?;
        match self.kind.is_half() {
            false => self.stored_as::<T>(a).await,
            true => self.stored_as::<T::Compact>(a).await,
        }
    }

    fn download_band(&self, band: Banded, bandwidth: usize, scale: Re<T>) -> Result<Band<T>> {
        self.check_type::<T>()?;
        let bandwidth = bandwidth.min(band.layout.n.saturating_sub(1));
        let unpacked = self.unpacked(&band, bandwidth)?;
        let entries: Vec<T> = self.stream.read_back_now(&unpacked, band.matrices * band.layout.n * (bandwidth + 1))?;
        Band::from_entries(band.layout.n, bandwidth, &entries, |x| x.times(scale))
    }
}

impl TileKernels for GpuKernels {
    fn kind(&self) -> ElementKind {
        self.kind
    }

    async fn bidiagonal(&self, band: &Banded) -> Result<ComplexBidiagonal> {
        // A band of a single call has one matrix.
        let empty = ComplexBidiagonal { diagonal: Vec::new(), superdiagonal: Vec::new() };
        Ok(self.bidiagonals(band).await?.into_iter().next().unwrap_or(empty))
    }

    async fn svdvals(&self, band: &Banded, count: usize) -> Result<Vec<f64>> {
        // A band of a single call has one matrix.
        self.bisect(band, count).await?.into_iter().next().unwrap_or_else(|| Ok(Vec::new()))
    }

    fn apply_row_reflectors(&self, a: &Dense, panels: &mut Self::Panels, rows: Range<usize>, c: &mut Dense) -> Result<()> {
        self.apply_rows(a, panels, rows, c)
    }

    async fn finish(&self) -> Result<()> {
        self.stream.finish().await
    }

    fn keep_reflectors(&self, a: &mut Dense, levels: &mut dyn Iterator<Item = Level>) -> Result<()> {
        a.keep_reflectors(&self.context, levels)
    }

    fn apply(&self, a: &Dense, k: usize, level: &Level, op: Op, c: &mut Dense, first: usize) -> Result<()> {
        self.apply_level(a, (k, level), op, c, first)
    }

    fn apply_levels(&self, a: &Dense, levels: &[(usize, Level)], op: Op, c: &mut Dense) -> Result<()> {
        self.apply_kept(a, levels, op, c)
    }

    fn keep_chase(&self, band: &mut Banded, _: &[Side]) -> Result<()> {
        band.keep_chase();
        Ok(())
    }

    fn apply_chase(&self, band: &Banded, k: usize, step: &ReductionStep, side: Side, op: Op, c: &mut Dense) -> Result<()> {
        self.apply_waves(band, k, step, side, op, c)
    }
}
