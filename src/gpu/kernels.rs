//! The tile kernels on the device.

use std::marker::PhantomData;

use faer::{MatRef, traits::ComplexField};
use wgpu::{Buffer, BufferUsages};

use super::{
    context::GpuContext,
    matrix::copy_lines,
    pipeline::{LINEAR_THREADS, PACK_BAND, SCALE, UNPACK_BAND},
    storage::{Banded, Dense},
    stream::{Stream, buffer},
    tuning::Shape,
};
use crate::{
    band::Band,
    error::{Result, SvdError},
    kernels::{BandLayout, HeldBy, Level, ReductionStep, SWEEP_SEPARATION, TileKernels},
    options::Tuning,
    report::Counts,
    scalar::{Element, Re, Scalar},
};

/// The GPU backend for one call, for matrices stored as `S`: a context, hyperparameters that its device can have, and the commands not yet submitted.
pub struct GpuKernels<S> {
    context: GpuContext,
    tuning: Tuning,
    shape: Shape,
    stream: Stream,
    storage: PhantomData<S>,
}

impl<S: Element> GpuKernels<S> {
    /// The backend on `context` with these hyperparameters.
    ///
    /// # Errors
    /// [`SvdError::UnsupportedElement`] where the device does not compute with `S`; [`SvdError::InvalidOption`] for a hyperparameter
    /// that [`Tuning::check`] refuses or that exceeds the device's limits.
    pub fn new(context: &GpuContext, tuning: &Tuning) -> Result<Self> {
        context.require::<S, S>()?;
        let shape = Shape::new::<S>(context, tuning)?;
        let stream = Stream::new(context)?;
        Ok(GpuKernels { context: context.clone(), tuning: tuning.clone(), shape, stream, storage: PhantomData })
    }

    /// What was sent to the device and back so far.
    pub fn counts(&self) -> Counts {
        self.stream.counts()
    }

    /// The matrix as it stands, for tests.
    #[doc(hidden)]
    pub fn read_matrix(&self, a: &Dense<S>) -> Result<faer::Mat<S::Scalar>> {
        let entries: Vec<S> = self.stream.read_back(&a.a, a.len())?;
        Ok(faer::Mat::from_fn(a.size.0, a.size.1, |i, j| entries[i * a.strides.0 + j * a.strides.1].widen()))
    }

    /// V of stacked rows `0..rows` of the last level (rows x tile size), for tests.
    #[doc(hidden)]
    pub fn read_v(&self, a: &Dense<S>, rows: usize) -> Result<faer::Mat<S::Scalar>> {
        let ts = self.shape.ts;
        let entries: Vec<S::Scalar> = self.stream.read_back(&a.v, rows * ts)?;
        Ok(faer::Mat::from_fn(rows, ts, |i, j| entries[i * ts + j]))
    }

    /// T of block `q` of the last level (tile size x tile size), for tests.
    #[doc(hidden)]
    pub fn read_t(&self, a: &Dense<S>, q: usize) -> Result<faer::Mat<S::Scalar>> {
        let ts = self.shape.ts;
        let entries: Vec<S::Scalar> = self.stream.read_back(&a.t, (q + 1) * ts * ts)?;
        Ok(faer::Mat::from_fn(ts, ts, |i, j| entries[(q * ts + i) * ts + j]))
    }

    /// As [`upload`](TileKernels::upload), of a matrix that is on the device: `from` holds an m x n matrix, row after row if `by_rows`, in the
    /// layout of [`Dense`].
    pub(super) fn adopt(&self, from: &Buffer, size: (usize, usize), by_rows: bool, scale: Re<S>) -> Result<Dense<S>> {
        let a = Dense::new(&self.context, &self.stream, size, by_rows, self.shape, self.tuning.leaf)?;
        let len = a.len();
        if (len * size_of::<S::Scalar>()) as u64 > from.size() {
            return Err(SvdError::invalid("matrix", format!("{} x {} of a buffer of {} bytes", size.0, size.1, from.size())));
        }
        let factor = S::Scalar::from_real_impl(&scale);
        let usage = BufferUsages::STORAGE | BufferUsages::COPY_DST;
        let factors = buffer(&self.context, "factors", size_of_val(&factor) as u64, usage)?;
        self.stream.upload(&factors, 1, |_, piece: &mut [S::Scalar]| piece.fill(factor))?;
        let pipeline = self.context.pipeline::<S>(&SCALE, &[])?;
        let bindings = self.stream.bind(&pipeline, &[from, &a.a, &factors])?;
        let [x, y] = self.stream.fold(len.div_ceil(LINEAR_THREADS as usize))?;
        self.stream.dispatch(&pipeline, &bindings, [len as u32].into(), [x, y, 1], 0)?;
        Ok(a)
    }

    /// Columns of `bandwidth + 1` entries: B(i, j) at j * (bandwidth + 1) + bandwidth + i - j.
    fn unpack_band(&self, band: &Banded<S>, bandwidth: usize) -> Result<Vec<S::Scalar>> {
        let BandLayout { n, ku, .. } = band.layout;
        let len = n.checked_mul(bandwidth + 1).filter(|&len| len <= u32::MAX as usize);
        let len = len.ok_or_else(|| SvdError::invalid("bandwidth", format!("{n} x {} entries", bandwidth + 1)))?;
        let bytes = (len as u64).saturating_mul(size_of::<S::Scalar>() as u64);
        let out = buffer(&self.context, "the band to be read back", bytes, BufferUsages::STORAGE | BufferUsages::COPY_SRC)?;
        let pipeline = self.context.pipeline::<S>(&UNPACK_BAND, &[])?;
        let bindings = self.stream.bind(&pipeline, &[&band.band, &out])?;
        let words = [n, band.layout.ld(), ku, bandwidth].map(|word| word as u32);
        let [x, y] = self.stream.fold(len.div_ceil(LINEAR_THREADS as usize))?;
        self.stream.dispatch(&pipeline, &bindings, words.into(), [x, y, 1], 0)?;
        self.stream.read_back(&out, len)
    }
}

impl<S: Element> TileKernels for GpuKernels<S> {
    type Storage = S;
    type Dense = Dense<S>;
    type Banded = Banded<S>;

    fn upload<T: HeldBy<Self>>(&self, source: MatRef<'_, T>, scale: Re<T>) -> Result<Dense<S>> {
        let by_rows = source.col_stride().unsigned_abs() < source.row_stride().unsigned_abs();
        let a = Dense::new(&self.context, &self.stream, source.shape(), by_rows, self.shape, self.tuning.leaf)?;
        let lines = if by_rows { source.transpose() } else { source };
        let ld = a.ld();
        self.stream.upload(&a.a, a.len(), |start, piece: &mut [S]| {
            copy_lines(lines, ld, start, piece, |_| 0..lines.nrows(), |x| S::narrow(x.widen().times(scale)));
        })?;
        Ok(a)
    }

    fn geqrt(&self, a: &mut Dense<S>, level: &Level) -> Result<()> {
        let parameters = a.parameters(level)?;
        let flops = 4 * (level.map.rows * level.width * level.width) as u64;
        let [x, y] = self.stream.fold(level.map.blocks())?;
        if level.map.rows == 0 || level.width == 0 {
            return Ok(());
        }
        self.stream.dispatch(&a.geqrt, &a.bindings[0], parameters, [x, y, 1], flops)
    }

    fn unmqr(&self, a: &mut Dense<S>, level: &Level) -> Result<()> {
        let parameters = a.parameters(level)?;
        let trailing = a.size(level.transposed).1 - level.col - level.width;
        if trailing == 0 || level.map.rows == 0 || level.width == 0 {
            return Ok(());
        }
        let flops = 4 * level.map.rows as u64 * level.width as u64 * trailing as u64;
        let [chunks, rows] = self.stream.fold(trailing.div_ceil(self.shape.cpb))?;
        let [y, z] = self.stream.fold(level.map.blocks())?;
        if rows > 1 {
            return Err(SvdError::invalid(
                "cols_per_block",
                format!("{} makes more column chunks than a grid has", self.shape.cpb),
            ));
        }
        self.stream.dispatch(&a.unmqr, &a.bindings[1], parameters, [chunks, y, z], flops)
    }

    fn pack_band(&self, a: Dense<S>, n: usize, bandwidth: usize, tile_width: usize) -> Result<Banded<S>> {
        if n > a.size.0.min(a.size.1) {
            return Err(SvdError::invalid("n", format!("{n}, of a {} x {} matrix", a.size.0, a.size.1)));
        }
        let layout = BandLayout::new(n, bandwidth, tile_width);
        let band = Banded::new(&self.context, &self.stream, layout, &self.tuning)?;
        if n == 0 {
            return Ok(band);
        }
        let pipeline = self.context.pipeline::<S>(&PACK_BAND, &[])?;
        let bindings = self.stream.bind(&pipeline, &[&a.a, &band.band])?;
        let words = [n, layout.ld(), layout.ku, bandwidth, a.strides.0, a.strides.1].map(|word| word as u32);
        let [x, y] = self.stream.fold((n * layout.ld()).div_ceil(LINEAR_THREADS as usize))?;
        self.stream.dispatch(&pipeline, &bindings, words.into(), [x, y, 1], 0)?;
        Ok(band)
    }

    fn upload_band<T: HeldBy<Self>>(&self, band: &Band<T>, scale: Re<T>, tile_width: usize) -> Result<Banded<S>> {
        let layout = BandLayout::new(band.n(), band.bandwidth(), tile_width);
        let device = Banded::new(&self.context, &self.stream, layout, &self.tuning)?;
        let ld = layout.ld();
        self.stream.upload(&device.band, layout.size()?, |start, piece: &mut [S]| {
            for (place, to) in (start..).zip(piece) {
                // Place p of column j holds row j + p - ku.
                let (j, p) = (place / ld, place % ld);
                *to =
                    if j + p >= layout.ku { S::narrow(band.get(j + p - layout.ku, j).widen().times(scale)) } else { S::zeroed() };
            }
        })?;
        Ok(device)
    }

    fn download_band(&self, band: Banded<S>, bandwidth: usize, scale: Re<S>) -> Result<Band<S::Scalar>> {
        let n = band.layout.n;
        let bandwidth = bandwidth.min(n.saturating_sub(1));
        let entries = self.unpack_band(&band, bandwidth)?;
        Band::from_fn(n, bandwidth, |i, j| entries[j * (bandwidth + 1) + bandwidth + i - j].times(scale))
    }

    fn chase(&self, band: &mut Banded<S>, step: &ReductionStep) -> Result<()> {
        band.check(step)?;
        let most = self.tuning.max_blocks.min(self.context.limits().max_compute_workgroups_per_dimension as usize);
        let &ReductionStep { n, bandwidth, tile_width } = step;
        let flops_of_cycle = 8 * tile_width as u64 * (bandwidth + tile_width) as u64;
        // The last start of a sweep must be countable in the shader's u32.
        if n.checked_mul(SWEEP_SEPARATION).is_none_or(|times| times > u32::MAX as usize) {
            return Err(SvdError::invalid("n", format!("{n} is too large")));
        }
        for time in 0..step.times() {
            let active = step.active(time);
            let words = [n, band.layout.ld(), band.layout.ku, bandwidth, tile_width, time, active.start, active.len()];
            let grid = [active.len().min(most) as u32, 1, 1];
            let flops = flops_of_cycle * active.len() as u64;
            self.stream.dispatch(&band.chase, &band.bindings, words.map(|word| word as u32).into(), grid, flops)?;
        }
        Ok(())
    }

    fn bidiagonal(&self, band: Banded<S>) -> Result<(Vec<f64>, Vec<f64>)> {
        // Pairs (B(j - 1, j), B(j, j)).
        let pairs = self.unpack_band(&band, 1)?;
        let every_other = |first| pairs.iter().skip(first).step_by(2).map(|x| x.to_complex().norm()).collect();
        Ok((every_other(1), every_other(2)))
    }

    fn finish(&self) -> Result<()> {
        self.stream.finish()
    }
}
