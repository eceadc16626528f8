//! The stages of a matrix that is on a device, one by one, and the band between them.

use pollster::block_on;

use crate::{
    algo::{
        bidiagonal::Bidiagonal,
        count::{stage_1_flops, stage_2_flops, stage_3_flops},
        svdvals::Driver,
    },
    base::{
        element_kind::ElementKind,
        error::Result,
        number::{Re, RealElement, Scalar},
        pool::on_threads,
        scale::scale_of_kind,
        stage::Stage,
        watch::Watch,
    },
    cost::deferred::deferral,
    gpu::{
        device::{
            buffers::{Buffer, storage},
            context::GpuContext,
            stream::{Manner, Stream},
        },
        kernels::GpuKernels,
        limits::{fitting_bytes, required_band_bytes},
        matrix::DeviceMatrix,
        storage::Banded,
    },
    plan::{
        device::prepared,
        gpu::bisects,
        options::{RunOptions, SvdOptions},
        stages::{bidiagonal_of, overflow_of_band, packed_band},
    },
    tile::{band::Band, tuning::Tuning},
};

/// `scale` times a band, on a device: its n x (bandwidth + 1) entries in the order of [`Band::entries`], without room for bulges.
pub struct DeviceBand {
    /// The arithmetic type.
    pub(crate) kind: ElementKind,
    pub(crate) context: GpuContext,
    pub(crate) entries: Buffer,
    pub(crate) n: usize,
    pub(crate) bandwidth: usize,
    pub(crate) scale: f64,
}

/// Stage 1. The band stays on the device.
pub(crate) fn to_band(a: &DeviceMatrix, run: &RunOptions) -> Result<DeviceBand> {
    let (listen, kind) = (run.listen(), run.half_storage.of(a.kind));
    let (lines, tuning) = prepared(kind, a, run)?;
    let scale = a.scale(kind)?;
    let watch = Watch::new(&listen, || {
        let deferred = deferral(kind, lines.size(), &tuning);
        Ok([stage_1_flops(kind, lines.size(), &tuning, deferred)?, 0, 0, 0])
    })?;
    let manner = Manner { watch: watch.clone(), deferred: true, ..Manner::default() };
    let kernels = GpuKernels::running(kind, &a.context, &tuning, manner)?;
    let (n, bandwidth) = (lines.size().1, tuning.bandwidth(lines.size().1));
    watch.begin(Stage::ToBand)?;
    let packed = packed_band(&kernels, kernels.adopt(&lines, scale)?, lines.size(), &tuning)?;
    let entries = kernels.unpacked(&packed, bandwidth)?;
    block_on(kernels.stream.finish())?;
    watch.end();
    Ok(DeviceBand { kind: a.kind, context: a.context.clone(), entries, n, bandwidth, scale })
}

impl DeviceBand {
    /// Copies a band to the device.
    pub fn upload<T: Scalar>(context: &GpuContext, band: &Band<T>, of_half: bool) -> Result<Self> {
        context.require(T::KIND)?;
        let (n, bandwidth, from) = (band.n(), band.bandwidth(), band.entries());
        let bytes = fitting_bytes(context, "the band", size_of::<T>(), Some(from.len()))?;
        let entries = storage(context, "the band", bytes)?;
        // The scale is valid for every storage type.
        let stored = if of_half { T::KIND.compact() } else { T::KIND };
        let scale = scale_of_kind(stored, band.largest().to_double(), n, n);
        let stream = Stream::new(context)?;
        stream.upload(&entries, from.len(), |start, piece: &mut [T]| {
            piece.iter_mut().zip(&from[start..]).for_each(|(to, x)| *to = x.times(Re::<T>::from_double(scale)));
        })?;
        Ok(DeviceBand { kind: T::KIND, context: context.clone(), entries, n, bandwidth, scale })
    }

    /// Reads the band back.
    pub fn download<T: Scalar>(&self) -> Result<Band<T>> {
        let entries: Vec<T> = Stream::new(&self.context)?.read_back_now(&self.entries, self.n * (self.bandwidth + 1))?;
        let unscale = Re::<T>::from_double(1.0 / self.scale);
        Band::from_entries(self.n, self.bandwidth, &entries, |x| x.times(unscale)).map_err(overflow_of_band::<Re<T>>)
    }

    /// Stage 2.
    pub fn to_bidiagonal<R: RealElement>(&self, run: &RunOptions) -> Result<Bidiagonal<R>> {
        let (kernels, band, tuning, watch) = self.prepared(run, 0)?;
        watch.begin(Stage::BandToBidiag)?;
        let bidiagonal = bidiagonal_of(&kernels, band, (self.n, self.bandwidth), self.scale, &tuning)?;
        watch.end();
        Ok(bidiagonal)
    }

    /// Stages 2 and 3: the wanted values, rounded to the arithmetic's precision.
    pub fn svdvals(&self, options: &SvdOptions) -> Result<Vec<f64>> {
        let run = &options.run;
        on_threads(run.threads, || {
            let (kernels, band, tuning, watch) = self.prepared(run, stage_3_flops(self.n))?;
            let stage3 = (!bisects(&self.context, self.n, options.stage3)).then_some(options.stage3);
            let (leading, watch) = (options.leading(), &watch);
            let driver = Driver {
                kernels: &kernels,
                tuning: &tuning,
                watch,
                one_stage: false,
                stage3,
                leading,
                timed: false,
                left: false,
            };
            Ok(block_on(driver.svdvals_of_band(band, (self.n, self.bandwidth), self.scale))?.0)
        })
    }

    /// The kernels, a copy of the band with room for bulges, the hyperparameters, and the watch of stage 2 and of so many flops of stage 3.
    fn prepared(&self, run: &RunOptions, of_stage_3: u64) -> Result<(GpuKernels, Banded, Tuning, Watch)> {
        let (listen, kind) = (run.listen(), run.half_storage.of(self.kind));
        let tuning = run.tuning_for_adapter(kind, &self.context, self.n)?;
        required_band_bytes(kind, &self.context, self.n, self.bandwidth, &tuning)?;
        let watch = Watch::new(&listen, || Ok([0, stage_2_flops(kind, self.n, self.bandwidth, &tuning), of_stage_3, 0]))?;
        let kernels = GpuKernels::running(kind, &self.context, &tuning, Manner { watch: watch.clone(), ..Manner::default() })?;
        let band = kernels.adopt_band(&self.entries, self.n, self.bandwidth, tuning.tile_width)?;
        Ok((kernels, band, tuning, watch))
    }
}
