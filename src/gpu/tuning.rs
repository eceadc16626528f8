//! Hyperparameters against a device's limits.

use super::context::GpuContext;
use crate::{
    error::{Result, SvdError},
    kernels::PanelTree,
    options::Tuning,
    scalar::Element,
};

/// The sizes that stage 1's shaders are compiled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Tile size, rounded up to whole vectors of four.
    pub ts: usize,
    /// Threads that share a column in `geqrt`.
    pub split: usize,
    /// Rows that one of them holds.
    pub slice: usize,
    /// Trailing columns of a workgroup of `unmqr`, rounded up likewise.
    pub cpb: usize,
}

/// Most rows of a column in one thread's registers, and most bytes. Beyond this they spill, and compilers choke.
const MOST_SLICE: usize = 256;
const MOST_SLICE_BYTES: usize = 2048;

impl Shape {
    /// The sizes for `tuning`, unchecked.
    pub fn of(tuning: &Tuning) -> Shape {
        let ts = tuning.tile_size.next_multiple_of(4);
        let rows = tuning.leaf.max(2 * tuning.tile_size);
        Shape { ts, split: tuning.split_k, slice: rows.div_ceil(tuning.split_k), cpb: tuning.cols_per_block.next_multiple_of(4) }
    }

    /// Most rows of a block.
    pub fn rows(&self) -> usize {
        self.split * self.slice
    }

    pub fn geqrt_threads(&self) -> usize {
        self.ts * self.split
    }

    pub fn unmqr_threads(&self) -> usize {
        self.ts / 4 * (self.cpb / 4)
    }

    /// Bytes of workgroup memory that `geqrt` takes, as its shader declares them.
    pub fn geqrt_bytes<T: Element>(&self) -> usize {
        let Shape { ts, split, .. } = *self;
        (2 * self.rows() + split * ts + ts + ts * ts) * size_of::<T::Scalar>() + 4 * split * size_of::<T::Real>()
    }

    /// Bytes of workgroup memory that `unmqr` takes.
    pub fn unmqr_bytes<T: Element>(&self) -> usize {
        self.ts * (self.ts / 4 + 1 + self.cpb / 4 + 1) * 4 * size_of::<T::Scalar>()
    }

    /// The sizes for `tuning` and matrices stored as `T`, or which hyperparameter the device cannot have.
    pub fn new<T: Element>(context: &GpuContext, tuning: &Tuning) -> Result<Shape> {
        tuning.check()?;
        let limits = context.limits();
        let threads = limits.max_compute_invocations_per_workgroup.min(limits.max_compute_workgroup_size_x) as usize;
        let bytes = limits.max_compute_workgroup_storage_size as usize;
        // Checked one after the other, so that none of the products below overflows.
        let most = |option, value: usize, most: usize| {
            if value > most {
                Err(SvdError::invalid(option, format!("{value}, but {} allows at most {most}", context.adapter_name())))
            } else {
                Ok(())
            }
        };
        most("tile_size", tuning.tile_size, threads / 4 * 4)?;
        let ts = tuning.tile_size.next_multiple_of(4);
        most("split_k", tuning.split_k, threads / ts)?;
        most("cols_per_block", tuning.cols_per_block, threads / (ts / 4) * 4)?;
        most("threads_per_block", tuning.threads_per_block, threads)?;
        most("leaf", tuning.leaf, tuning.split_k * MOST_SLICE.min(MOST_SLICE_BYTES / size_of::<T::Scalar>()))?;
        let shape = Shape::of(tuning);
        let memory = |option, needed: usize, kernel: &str| {
            if needed > bytes {
                let name = context.adapter_name();
                let reason = format!("{kernel} needs {needed} bytes of workgroup memory for {}, but {name} has {bytes}", T::NAME);
                Err(SvdError::invalid(option, reason))
            } else {
                Ok(())
            }
        };
        let least = Shape { slice: (2 * tuning.tile_size).div_ceil(shape.split), cpb: 4, ..shape };
        memory("tile_size", least.geqrt_bytes::<T>().max(least.unmqr_bytes::<T>()), "a tile")?;
        memory("leaf", shape.geqrt_bytes::<T>(), "geqrt")?;
        memory("cols_per_block", shape.unmqr_bytes::<T>(), "unmqr")?;
        Ok(shape)
    }

    /// The constants of `geqrt`.
    pub fn geqrt_constants(&self) -> [(&'static str, u32); 5] {
        [
            ("TS", self.ts as u32),
            ("SPLIT", self.split as u32),
            ("SLICE", self.slice as u32),
            ("ROWS", self.rows() as u32),
            ("GEQRT_THREADS", self.geqrt_threads() as u32),
        ]
    }

    /// The constants of `unmqr`.
    pub fn unmqr_constants(&self) -> [(&'static str, u32); 5] {
        [
            ("TS", self.ts as u32),
            ("TS4", self.ts as u32 / 4),
            ("CPB", self.cpb as u32),
            ("CPB4", self.cpb as u32 / 4),
            ("UNMQR_THREADS", self.unmqr_threads() as u32),
        ]
    }
}

impl Tuning {
    /// Defaults for a GPU, for elements of type `T` and a matrix whose smaller side is `n`: the largest that fit the device's
    /// workgroup memory and threads.
    ///
    /// ```
    /// use svdvals_gpu::{GpuContext, Tuning};
    /// if let Ok(context) = GpuContext::global() {
    ///     assert!(Tuning::for_adapter::<f32>(&context, 4096).check().is_ok());
    /// }
    /// ```
    pub fn for_adapter<T: Element>(context: &GpuContext, n: usize) -> Tuning {
        let limits = context.limits();
        let threads = limits.max_compute_invocations_per_workgroup.min(limits.max_compute_workgroup_size_x) as usize;
        let with = |tile_size: usize, blocks: usize, cols_per_block: usize| Tuning {
            direct: 0,
            tile_size,
            leaf: blocks * tile_size,
            tree: PanelTree::Reduction,
            split_k: (threads / tile_size).clamp(1, if blocks > 8 { 16 } else { 8 }),
            cols_per_block,
            // One step from a bandwidth of 32 to bidiagonal: dispatches bound stage 2, and every step costs about 3 n of them.
            tile_width: 32,
            // A cycle has about 2 tile_size rows, then columns, one a thread; a program that plays GPU gains nothing from threads.
            threads_per_block: if context.is_software() { 32 } else { 64 }.min(threads),
            max_blocks: limits.max_compute_workgroups_per_dimension as usize,
        };
        // Up to 512 rows a panel is one block of 16 tiles: no tree, and half the dispatches of stage 1.
        let one_block = (n <= 512).then_some((32, 16, 64));
        let any = [(32, 8, 64), (32, 4, 64), (32, 4, 32), (16, 8, 64), (16, 4, 32), (8, 4, 32), (4, 4, 16)];
        one_block
            .into_iter()
            .chain(any)
            // A matrix of at most 16 needs no larger tile.
            .map(|(tile_size, blocks, cols)| with(if n <= 16 { tile_size.min(16) } else { tile_size }, blocks, cols))
            .find(|tuning| Shape::new::<T>(context, tuning).is_ok())
            .unwrap_or_else(|| with(4, 2, 4))
    }

    /// Whether the device of `context` can have these values, for matrices stored as `T`: what every call checks.
    ///
    /// ```
    /// use svdvals_gpu::{GpuContext, Tuning};
    /// if let Ok(context) = GpuContext::global() {
    ///     let tuning = Tuning::for_adapter::<f32>(&context, 4096);
    ///     assert!(tuning.check_for_adapter::<f32>(&context).is_ok());
    ///     assert!(tuning.threads_per_block(1 << 20).check_for_adapter::<f32>(&context).is_err());
    /// }
    /// ```
    ///
    /// # Errors
    /// [`SvdError::InvalidOption`], with the hyperparameter and what the device allows.
    pub fn check_for_adapter<T: Element>(&self, context: &GpuContext) -> Result<()> {
        Shape::new::<T>(context, self).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At WebGPU's default limits (16 KiB, 256 threads) the usual sizes fit: 32 x 32 tiles in f32, 16 x 16 in f64.
    #[test]
    fn usual_sizes_fit_webgpu_defaults() {
        let limits = wgpu::Limits::defaults();
        let (bytes, threads) =
            (limits.max_compute_workgroup_storage_size as usize, limits.max_compute_invocations_per_workgroup as usize);
        let narrow = Shape { ts: 32, split: 8, slice: 16, cpb: 64 };
        let wide = Shape { ts: 16, split: 8, slice: 16, cpb: 64 };
        assert!(narrow.geqrt_bytes::<f32>().max(narrow.unmqr_bytes::<f32>()) <= bytes);
        assert!(wide.geqrt_bytes::<f64>().max(wide.unmqr_bytes::<f64>()) <= bytes);
        for shape in [narrow, wide] {
            assert!(shape.geqrt_threads().max(shape.unmqr_threads()) <= threads);
        }
    }
}
