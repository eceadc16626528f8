//! The stages of a matrix that is on a device, one by one, and the band between them.

use num_traits::Float;
use pollster::block_on;
use wgpu::{Buffer, BufferUsages};

use crate::{
    algo::{
        bidiagonal::Bidiagonal,
        count::{stage_1_flops, stage_2_flops, stage_3_flops},
        svdvals::Driver,
    },
    base::{
        error::Result,
        number::{Number, Re, Scalar, in_storage},
        pool::on_threads,
        scale::scale_for,
        watch::{Stage, Watch},
    },
    gpu::{
        device::{
            context::GpuContext,
            stream::{Manner, Stream, buffer},
        },
        kernels::GpuKernels,
        limits::{fitting_bytes, required_band_bytes},
        matrix::DeviceMatrix,
        storage::Banded,
    },
    plan::{
        device::{check_options, prepared},
        gpu::bisects,
        options::SvdOptions,
        stages::{bidiagonal_of, overflow_of_band, packed_band},
    },
    tile::{band::Band, tuning::Tuning},
};

/// `scale` times a band, on a device: its n x (bandwidth + 1) entries in the order of [`Band::entries`], without room for bulges.
pub struct DeviceBand<T: Number> {
    pub(crate) context: GpuContext,
    pub(crate) entries: Buffer,
    pub(crate) n: usize,
    pub(crate) bandwidth: usize,
    pub(crate) scale: Re<T>,
}

/// Stage 1. The band stays on the device.
pub(crate) fn to_band<T: Number>(a: &DeviceMatrix<T>, options: &SvdOptions) -> Result<DeviceBand<T::Scalar>> {
    fn within<T, S>(a: &DeviceMatrix<T>, options: &SvdOptions) -> Result<DeviceBand<T::Scalar>>
    where
        T: Number,
        S: Number<Real = T::Real, Scalar = T::Scalar>,
    {
        let listen = options.listen();
        let (lines, tuning) = prepared::<T, S>(a, options)?;
        let scale = a.scale::<S>()?;
        let watch = Watch::new(&listen, || Ok([stage_1_flops::<S>(lines.size(), &tuning)?, 0, 0, 0]))?;
        let kernels = GpuKernels::<S>::running(&a.context, &tuning, Manner { watch: watch.clone(), ..Manner::default() })?;
        let (n, bandwidth) = (lines.size().1, tuning.bandwidth(lines.size().1));
        watch.begin(Stage::ToBand)?;
        let packed = packed_band(&kernels, kernels.adopt(&lines, scale)?, lines.size(), &tuning)?;
        let entries = kernels.unpacked(&packed, bandwidth)?;
        block_on(kernels.stream.finish())?;
        watch.end();
        Ok(DeviceBand { context: a.context.clone(), entries, n, bandwidth, scale })
    }
    check_options(&a.context, options)?;
    in_storage!(options.half_storage, T => within::<_, S>(a, options))
}

impl<T: Number> DeviceBand<T> {
    /// Copies a band to the device.
    pub fn upload(context: &GpuContext, band: &Band<T>, of_half: bool) -> Result<Self> {
        context.require::<T::Scalar>()?;
        let (n, bandwidth, from) = (band.n(), band.bandwidth(), band.entries());
        let bytes = fitting_bytes::<T::Scalar>(context, "the band", Some(from.len()))?;
        let usage = BufferUsages::STORAGE | BufferUsages::COPY_DST | BufferUsages::COPY_SRC;
        let entries = buffer(context, "the band", bytes, usage)?;
        // The scale is valid for every storage type.
        let scale = match of_half {
            true => scale_for::<<T::Scalar as Scalar>::Compact>(band.largest(), n, n),
            false => scale_for::<T::Scalar>(band.largest(), n, n),
        };
        let stream = Stream::new(context)?;
        stream.upload(&entries, from.len(), |start, piece: &mut [T::Scalar]| {
            piece.iter_mut().zip(&from[start..]).for_each(|(to, x)| *to = x.widen().times(scale));
        })?;
        Ok(DeviceBand { context: context.clone(), entries, n, bandwidth, scale })
    }

    /// Reads the band back.
    pub fn download(&self) -> Result<Band<T>> {
        let entries: Vec<T::Scalar> = Stream::new(&self.context)?.read_back_now(&self.entries, self.n * (self.bandwidth + 1))?;
        let unscale = Float::recip(self.scale);
        let band = Band::from_entries(self.n, self.bandwidth, &entries, |x| T::narrow(x.times(unscale)));
        band.map_err(overflow_of_band::<T::Real>)
    }

    /// Stage 2.
    pub fn to_bidiagonal(&self, options: &SvdOptions) -> Result<Bidiagonal<T::Real>> {
        check_options(&self.context, options)?;
        in_storage!(options.half_storage, T => self.bidiagonal_in::<S>(options))
    }

    fn bidiagonal_in<S: Number<Real = T::Real, Scalar = T::Scalar>>(&self, options: &SvdOptions) -> Result<Bidiagonal<T::Real>> {
        let (kernels, band, tuning, watch) = self.prepared::<S>(options, 0)?;
        watch.begin(Stage::BandToBidiag)?;
        let bidiagonal = bidiagonal_of(&kernels, band, (self.n, self.bandwidth), self.scale, &tuning)?;
        watch.end();
        Ok(bidiagonal)
    }

    /// Stages 2 and 3.
    pub fn svdvals(&self, options: &SvdOptions) -> Result<Vec<T::Real>> {
        check_options(&self.context, options)?;
        on_threads(options.threads, || in_storage!(options.half_storage, T => self.values_in::<S>(options)))
    }

    fn values_in<S: Number<Real = T::Real, Scalar = T::Scalar>>(&self, options: &SvdOptions) -> Result<Vec<T::Real>> {
        let (kernels, band, tuning, watch) = self.prepared::<S>(options, stage_3_flops(self.n))?;
        let stage3 = (!bisects(&self.context, self.n, options.stage3)).then_some(options.stage3);
        let driver =
            Driver { kernels: &kernels, tuning: &tuning, watch: &watch, one_stage: false, stage3, timed: false, left: false };
        Ok(block_on(driver.svdvals_of_band(band, (self.n, self.bandwidth), self.scale))?.0)
    }

    /// The kernels, a copy of the band stored as `S` with room for bulges, the hyperparameters, and the watch of stage 2 and of so many flops of
    /// stage 3.
    fn prepared<S>(&self, options: &SvdOptions, of_stage_3: u64) -> Result<(GpuKernels<S>, Banded<S>, Tuning, Watch)>
    where
        S: Number<Real = T::Real, Scalar = T::Scalar>,
    {
        let listen = options.listen();
        let tuning = options.tuning_for_adapter::<S>(&self.context, self.n)?;
        required_band_bytes::<S>(&self.context, self.n, self.bandwidth, &tuning)?;
        let watch = Watch::new(&listen, || Ok([0, stage_2_flops::<S>(self.n, self.bandwidth, &tuning), of_stage_3, 0]))?;
        let kernels = GpuKernels::<S>::running(&self.context, &tuning, Manner { watch: watch.clone(), ..Manner::default() })?;
        let band = kernels.adopt_band(&self.entries, self.n, self.bandwidth, tuning.tile_width)?;
        Ok((kernels, band, tuning, watch))
    }
}
