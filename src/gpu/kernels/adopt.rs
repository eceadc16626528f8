//! Matrices and bands that are on the device already: copies that the kernels work on, and the band that they leave.

use crate::{
    algo::svdvals::Source,
    base::error::{Result, SvdError},
    cost::{
        chase::layout_on_device,
        work::{Kernel, LINEAR_THREADS, Work},
    },
    gpu::{
        device::{
            buffers::{Buffer, storage},
            parameters,
            pipeline::{REPACK_BAND, SCALE, UNPACK_BAND},
        },
        kernels::GpuKernels,
        storage::{Banded, Dense, Lines},
    },
    tile::band_layout::BandLayout,
};

impl Source<GpuKernels> for Lines<'_> {
    fn shape(&self) -> (usize, usize) {
        self.size()
    }

    fn upload(&self, kernels: &GpuKernels, scale: f64) -> Result<Dense> {
        kernels.adopt(self, scale)
    }
}

impl GpuKernels {
    /// Like [`upload`](crate::tile::kernels::TileKernels::upload), for a matrix that is on the device already.
    pub(crate) fn adopt(&self, from: &Lines<'_>, scale: f64) -> Result<Dense> {
        self.scaled(from, scale, 0, from.size())
    }

    /// A scaled copy of a matrix on the device, or of its triangle that the `flags` of [`parameters::Scale`] say, with zeros below and right of it up to
    /// this size.
    pub(super) fn scaled(&self, from: &Lines<'_>, scale: f64, flags: u32, size: (usize, usize)) -> Result<Dense> {
        let a = match self.dense_of(size, from.by_rows)? {
            // With room for deferred updates it takes more than one buffer.
            a if a.a.len() > 1 => Dense::new(self.kind, &self.context, size, from.by_rows, self.shape, self.tuning.leaf)?,
            a => a,
        };
        let [out] = &a.a[..] else {
            return Err(SvdError::invalid("matrix", format!("{} x {} is more than one buffer holds", size.0, size.1)));
        };
        from.check(self.kind.scalar_bytes())?;
        let len = from.outer * a.ld();
        let factors = storage(&self.context, "factors", self.kind.scalar_bytes() as u64)?;
        self.stream.upload_numbers(&factors, self.kind, &[scale.into()])?;
        let wanted = if flags == 0 { self.wanted(size, a.a.len()) } else { Vec::new() };
        let pipeline = self.context.prepare(self.kind, &wanted, || self.context.pipeline(self.kind, &SCALE, &[], 0))?;
        let bindings = self.stream.bind(&pipeline, &[from.entries, out, &factors], &[])?;
        let [x, y] = self.stream.fold(len.div_ceil(LINEAR_THREADS as usize))?;
        let (inner, from_ld, ld) = (from.inner as u32, from.ld as u32, a.ld() as u32);
        let parameters = parameters::Scale { inner, from_ld, ld, len: len as u32, flags };
        self.stream.dispatch(&pipeline, &bindings, parameters, [x, y, 1], Work::other(Kernel::Scale, 0))?;
        Ok(a)
    }

    /// Like [`upload_band`](crate::tile::kernels::TileKernels::upload_band), for a band on the device in the layout of [`unpacked`](Self::unpacked).
    pub(crate) fn adopt_band(&self, from: &Buffer, n: usize, bandwidth: usize, tile_width: usize) -> Result<Banded> {
        let layout = layout_on_device(n, bandwidth, tile_width, &self.tuning);
        let band = Banded::new(self.kind, &self.context, layout, &self.tuning)?;
        if ((n * (bandwidth + 1) * self.kind.scalar_bytes()) as u64) > from.size() {
            return Err(SvdError::invalid("band", format!("{n} columns of {} in {} bytes", bandwidth + 1, from.size())));
        }
        let pipeline = self.context.pipeline(self.kind, &REPACK_BAND, &[], 0)?;
        let bindings = self.stream.bind(&pipeline, &[from, &band.band], &[])?;
        let parameters = parameters::RepackBand {
            n: n as u32,
            columns: layout.columns as u32,
            ld: layout.ld() as u32,
            ku: layout.ku as u32,
            bandwidth: bandwidth as u32,
        };
        let [x, y] = self.stream.fold(layout.size()?.div_ceil(LINEAR_THREADS as usize))?;
        self.stream.dispatch(&pipeline, &bindings, parameters, [x, y, 1], Work::other(Kernel::RepackBand, 0))?;
        Ok(band)
    }

    /// The upper band in the layout of [`Band`](crate::tile::band::Band): columns of `bandwidth + 1` entries, with B(i, j) at j * (bandwidth + 1) + bandwidth + i -
    /// j. Those of several matrices one after the other.
    pub(crate) fn unpacked(&self, band: &Banded, bandwidth: usize) -> Result<Buffer> {
        let BandLayout { n, ku, .. } = band.layout;
        let of_one = n.checked_mul(bandwidth + 1);
        let len = of_one.and_then(|len| len.checked_mul(band.matrices)).filter(|&len| len <= u32::MAX as usize);
        let (Some(of_one), Some(len)) = (of_one, len) else {
            return Err(SvdError::invalid("bandwidth", format!("{n} x {} entries", bandwidth + 1)));
        };
        let bytes = (len as u64).saturating_mul(self.kind.scalar_bytes() as u64);
        let out = storage(&self.context, "the band to be read back", bytes)?;
        let pipeline = self.context.pipeline(self.kind, &UNPACK_BAND, &[], 0)?;
        let bindings = self.stream.bind(&pipeline, &[&band.band, &out], &[])?;
        let parameters = parameters::UnpackBand {
            n: n as u32,
            columns: band.layout.columns as u32,
            ld: band.layout.ld() as u32,
            ku: ku as u32,
            bandwidth: bandwidth as u32,
        };
        let [x, y] = self.stream.fold(of_one.div_ceil(LINEAR_THREADS as usize))?;
        let work = Work::unpack_band(self.kind, n, bandwidth, LINEAR_THREADS.into()).times(band.matrices);
        self.stream.dispatch(&pipeline, &bindings, parameters, [x, y, band.matrices as u32], work)?;
        Ok(out)
    }
}
