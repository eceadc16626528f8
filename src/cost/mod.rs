//! The cost model of a call on a GPU: dispatches, workgroups, flops, bytes, and the time that each limit of a device implies.
//!
//! [`Cost::new`] runs the drivers of the stages with kernels that count instead of computing. It needs no device and takes milliseconds.
//! The GPU backend takes its grids and flops from the same functions, and tests compare the counts. Not counted are the splitting of very
//! long panels on devices with small buffers, and stage 3 on the host.
//!
//! ```
//! use svdvals_gpu::cost::{Cost, DeviceModel, Kernel};
//! let cost = Cost::new::<f32>(4096, 4096, &Cost::tuning::<f32>(4096))?;
//! let update = [Kernel::Unmqr, Kernel::UnmqrAndGeqrt].map(|kernel| cost.kernel(kernel).flops);
//! assert!(update.iter().sum::<u64>() as f64 > 8.0 / 3.0 * 4096f64.powi(3));
//! println!("{cost}");
//! println!("{:.3} s", cost.on(&DeviceModel::H100).iter().map(|kernel| kernel.total).sum::<f64>());
//! # Ok::<(), svdvals_gpu::SvdError>(())
//! ```

pub(crate) mod batch;
mod chain;
pub(crate) mod chase;
pub(crate) mod cholesky;
mod count;
pub mod counts;
mod defaults;
pub(crate) mod deferred;
pub(crate) mod device;
mod dispatches;
pub(crate) mod fixed;
pub(crate) mod jacobi;
mod kernel;
mod limit;
pub(crate) mod one_stage;
pub(crate) mod product_shape;
pub(crate) mod recursive;
mod seconds;
pub(crate) mod shape;
mod svd;
mod table;
pub(crate) mod vectors;
pub(crate) mod work;

use std::fmt;

pub use device::{DeviceModel, sweeps_at_once};
pub use kernel::Kernel;

use crate::{
    base::{
        element_kind::ElementKind,
        error::{Result, SvdError},
        number::Number,
    },
    cost::{
        count::{Call, dispatches_of_call, dispatches_of_qr},
        limit::check_dispatches,
        shape::Bounds,
        table::Measured,
        work::Work,
    },
    tile::tuning::{GpuTuning, Tuning},
};

/// Order from which, by the model, bisection on the device is faster than Newton's method on a host with a few cores. Below it, Newton's
/// method takes at most ten milliseconds.
pub(crate) const BISECTION_WORTHWHILE: usize = 4096;

/// The dispatches of one call. See the [module](self).
///
/// ```
/// use svdvals_gpu::cost::Cost;
/// let cost = Cost::new::<f32>(512, 512, &Cost::tuning::<f32>(512))?;
/// println!("{cost}"); // a table: kernel by kernel
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
#[derive(Clone)]
pub struct Cost {
    /// Dispatches in order, with the repetitions of consecutive equal ones.
    work: Vec<(Work, u64)>,
    /// Whether the arithmetic is f64.
    double: bool,
}

/// The cost of a call of a report: of a matrix stored as this type, m x n, with these hyperparameters, and with stage 3 on the device or on the host.
pub(crate) type CostOf = fn(ElementKind, usize, usize, &Tuning, bool) -> Result<Cost>;

/// The total work of all dispatches of one kernel.
///
/// ```
/// use svdvals_gpu::cost::{Cost, Kernel};
/// let cost = Cost::new::<f32>(1000, 1000, &Cost::tuning::<f32>(1000))?;
/// let chase = cost.kernel(Kernel::Chase);
/// assert!(chase.dispatches < 3 * 1000 && chase.most_workgroups <= 1000 / (3 * 16) + 1); // with tiles of 16
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelCost {
    /// The kernel.
    pub kernel: Kernel,
    /// Dispatches.
    pub dispatches: u64,
    /// Workgroups of all dispatches.
    pub workgroups: u64,
    /// Maximum workgroups of one dispatch: those that can run concurrently.
    pub most_workgroups: u64,
    /// Threads per workgroup.
    pub threads: u64,
    /// Bytes of workgroup memory per workgroup.
    pub workgroup_memory: u64,
    /// Real additions and multiplications that the results need.
    pub flops: u64,
    /// Bytes of global memory read and written. Every access to a matrix or a band counts, as if there were no caches. V and T, which many
    /// workgroups read, count once per dispatch.
    pub bytes: u64,
    /// Bytes of workgroup memory read and written by threads.
    pub workgroup_bytes: u64,
}

/// Seconds that each limit of a device implies for all dispatches of one kernel.
///
/// The modelled time of a dispatch is its overhead plus the larger of the latency and of the sum of three throughput times: memory, workgroup
/// memory, and arithmetic or issue, whichever is longer; with two strips a thread ([`Tuning::strips_per_thread`]), memory counts beside the other two. The latency is what one workgroup does one after the other, waiting or issuing, times the number of rounds:
/// the device runs a limited number of workgroups at a time.
///
/// ```
/// use svdvals_gpu::cost::{Cost, DeviceModel};
/// let cost = Cost::new::<f32>(2000, 2000, &Cost::tuning::<f32>(2000))?;
/// for kernel in cost.on(&DeviceModel::A100) {
///     assert!(kernel.total >= kernel.overhead && kernel.total >= kernel.arithmetic);
/// }
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct KernelSeconds {
    /// The kernel.
    pub kernel: Kernel,
    /// Arithmetic, at the rate of the part of the device that the workgroups occupy.
    pub arithmetic: f64,
    /// Global memory accesses, at the rate of the memory, or of the cache if that holds what the kernel accesses again and again.
    pub memory: f64,
    /// Workgroup memory accesses, likewise.
    pub workgroup_memory: f64,
    /// Issue of the instructions of all workgroups, likewise.
    pub issue: f64,
    /// Barriers, loads, dependent operations and the issue of one workgroup, for one round of workgroups.
    pub latency: f64,
    /// Overhead between consecutive dispatches.
    pub overhead: f64,
    /// Modelled time: the sum over the dispatches.
    pub total: f64,
}

impl Cost {
    /// The cost of an m x n matrix (or n x m: a wide matrix is read as its transpose) stored as `S`, with these hyperparameters. `f16`
    /// stands for [`HalfStorage::Half`](crate::HalfStorage). Stage 3 runs where [`Stage3::Auto`](crate::Stage3) runs it on a hardware GPU.
    ///
    /// ```
    /// use svdvals_gpu::cost::Cost;
    /// let cost = Cost::new::<f32>(512, 512, &Cost::tuning::<f32>(512))?;
    /// assert!(Cost::new::<f32>(512, 512, &Cost::tuning::<f32>(512).tile_size(0)).is_err());
    /// assert!(cost.dispatches() > 512);
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::InvalidOption`] if [`Tuning::check`] rejects the hyperparameters, if the sizes overflow, or if there are more dispatches than can be
    /// counted in a moment: about a million.
    pub fn new<S: Number>(m: usize, n: usize, tuning: &Tuning) -> Result<Cost> {
        Cost::of_values(S::KIND, m, n, tuning, m.min(n) >= BISECTION_WORTHWHILE)
    }

    /// [`new`](Self::new), with stage 3 on the device or on the host.
    ///
    /// ```
    /// use svdvals_gpu::cost::{Cost, Kernel};
    /// let [host, device] = [false, true].map(|there| Cost::with_stage3::<f32>(500, 500, &Cost::tuning::<f32>(500), there));
    /// assert_eq!((host?.kernel(Kernel::Bisect).dispatches, device?.kernel(Kernel::Bisect).dispatches), (0, 1));
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_stage3<S: Number>(m: usize, n: usize, tuning: &Tuning, on_device: bool) -> Result<Cost> {
        Cost::of_values(S::KIND, m, n, tuning, on_device)
    }

    /// [`with_stage3`](Self::with_stage3) for a report.
    pub(crate) fn of_values(kind: ElementKind, m: usize, n: usize, tuning: &Tuning, on_device: bool) -> Result<Cost> {
        Cost::of_call(kind, (m, n), tuning, Call { one_stage: false, on_device, vectors: None, together: 1 })
    }

    /// [`with_stage3`](Self::with_stage3) of the [one-stage reduction](crate::Reduction::OneStage).
    ///
    /// ```
    /// use svdvals_gpu::cost::{Cost, Kernel};
    /// let (n, tuning) = (512, Cost::tuning::<f32>(512));
    /// let (one, two) = (Cost::one_stage::<f32>(n, n, &tuning, false)?, Cost::with_stage3::<f32>(n, n, &tuning, false)?);
    /// assert_eq!(one.kernel(Kernel::MultiplyLine).dispatches, 2 * 512 - 1);
    /// println!("{one}\n{two}");
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn one_stage<S: Number>(m: usize, n: usize, tuning: &Tuning, on_device: bool) -> Result<Cost> {
        Cost::of_one_stage(S::KIND, m, n, tuning, on_device)
    }

    /// [`one_stage`](Self::one_stage) for a report.
    pub(crate) fn of_one_stage(kind: ElementKind, m: usize, n: usize, tuning: &Tuning, on_device: bool) -> Result<Cost> {
        Cost::of_call(kind, (m, n), tuning, Call { one_stage: true, on_device, vectors: None, together: 1 })
    }

    /// The cost of the QR factorisation of an m x n matrix of any shape, stored as `S`: R, and the reflectors, which are kept.
    ///
    /// ```
    /// use svdvals_gpu::cost::{Cost, DeviceModel, Kernel};
    /// let cost = Cost::qr::<f32>(4096, 1024, &Cost::qr_tuning_on::<f32>(1024, &DeviceModel::H100))?;
    /// assert!(cost.kernel(Kernel::UnmqrAndGeqrt).flops > 10 * cost.kernel(Kernel::Geqrt).flops);
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn qr<S: Number>(m: usize, n: usize, tuning: &Tuning) -> Result<Cost> {
        Cost::of_qr(S::KIND, m, n, tuning, false)
    }

    /// [`qr`](Self::qr) for a report.
    pub(crate) fn of_qr(kind: ElementKind, m: usize, n: usize, tuning: &Tuning, _: bool) -> Result<Cost> {
        Cost::check((m.max(n), m.min(n)), tuning)?;
        Ok(Cost { work: dispatches_of_qr(kind, (m, n), tuning)?, double: kind.is_double() })
    }

    /// [`qr`](Self::qr) of the matrix or its transpose, whichever is tall, for the report of least squares.
    pub(crate) fn of_lstsq(kind: ElementKind, m: usize, n: usize, tuning: &Tuning, own: bool) -> Result<Cost> {
        Cost::of_qr(kind, m.max(n), m.min(n), tuning, own)
    }

    /// The cost of the decomposition with the `k` leading singular vectors of both sides, all of them if there are fewer. The matrix is one
    /// without values that are tiny or equal, so that divide and conquer has no deflation. The plan of divide and conquer, on the host, is not
    /// counted; the dispatches that run beside it are ([`formed_beside`](crate::GpuTuning::formed_beside)).
    ///
    /// ```
    /// use svdvals_gpu::cost::{Cost, Kernel};
    /// let tuning = Cost::tuning::<f32>(1024);
    /// let [few, all] = [10, 1024].map(|k| Cost::svd::<f32>(1024, 1024, k, &tuning));
    /// assert!(few?.kernel(Kernel::GemmBatch).flops < all?.kernel(Kernel::GemmBatch).flops / 10);
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn svd<S: Number>(m: usize, n: usize, k: usize, tuning: &Tuning) -> Result<Cost> {
        let on_device = m.min(n) >= BISECTION_WORTHWHILE;
        Cost::of_call(S::KIND, (m, n), tuning, Call { one_stage: false, on_device, vectors: Some(k), together: 1 })
    }

    /// [`svd`](Self::svd) by the [one-stage reduction](crate::Reduction::OneStage).
    ///
    /// ```
    /// use svdvals_gpu::cost::{Cost, Kernel};
    /// let tuning = Cost::tuning::<f32>(512);
    /// let [one, two] = [Cost::one_stage_svd::<f32>(512, 512, 512, &tuning)?, Cost::svd::<f32>(512, 512, 512, &tuning)?];
    /// assert_eq!(one.kernel(Kernel::ApplyChase).dispatches, 0);
    /// assert_eq!(one.kernel(Kernel::SecularVectors), two.kernel(Kernel::SecularVectors));
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn one_stage_svd<S: Number>(m: usize, n: usize, k: usize, tuning: &Tuning) -> Result<Cost> {
        let on_device = m.min(n) >= BISECTION_WORTHWHILE;
        Cost::of_call(S::KIND, (m, n), tuning, Call { one_stage: true, on_device, vectors: Some(k), together: 1 })
    }

    /// [`svd`](Self::svd) with all vectors, and with stage 3 on the device or on the host.
    pub(crate) fn of_svd(kind: ElementKind, m: usize, n: usize, tuning: &Tuning, on_device: bool) -> Result<Cost> {
        Cost::of_call(kind, (m, n), tuning, Call { one_stage: false, on_device, vectors: Some(n), together: 1 })
    }

    /// [`one_stage_svd`](Self::one_stage_svd) with all vectors, and with stage 3 on the device or on the host.
    pub(crate) fn of_one_stage_svd(kind: ElementKind, m: usize, n: usize, tuning: &Tuning, on_device: bool) -> Result<Cost> {
        Cost::of_call(kind, (m, n), tuning, Call { one_stage: true, on_device, vectors: Some(n), together: 1 })
    }

    /// The cost of a call for an m x n matrix, or n x m.
    fn of_call(kind: ElementKind, (m, n): (usize, usize), tuning: &Tuning, call: Call) -> Result<Cost> {
        let (m, n) = (m.max(n), m.min(n));
        Cost::check((m, n), tuning)?;
        if call.vectors.is_some() {
            // The flops of the vectors are at most 40 times those that are checked, and their sum is saturated nowhere else.
            Cost::check_counts((m.saturating_mul(64), n), tuning)?;
        }
        let call = Call { vectors: call.vectors.map(|k| k.min(n)), ..call };
        let work = dispatches_of_call(kind, 1, (m, n), tuning, call)?;
        Ok(Cost { work, double: kind.is_double() })
    }

    /// Checks the hyperparameters, and that an m x n matrix, m >= n, can be counted, in a moment.
    fn check(shape: (usize, usize), tuning: &Tuning) -> Result<()> {
        Cost::check_counts(shape, tuning)?;
        check_dispatches(shape, tuning)
    }

    /// Checks the hyperparameters, and that no count of an m x n matrix, m >= n, overflows.
    fn check_counts((m, n): (usize, usize), tuning: &Tuning) -> Result<()> {
        tuning.check()?;
        // Far beyond any device. Below this limit no count overflows.
        const MOST: usize = 1 << 16;
        let Tuning { tile_size, leaf, cols_per_block, ref gpu, .. } = *tuning;
        let GpuTuning { split_k, threads_per_block, sweeps_per_block, cycles_per_dispatch, .. } = *gpu;
        let GpuTuning { split_beside, rows_per_block, lines_per_thread, subgroup_threads, strips_per_thread, .. } = *gpu;
        let deferred_columns = gpu.deferred_columns;
        for (option, value) in [
            ("tile_size", tile_size),
            ("leaf", leaf),
            ("split_k", split_k),
            ("cols_per_block", cols_per_block),
            ("threads_per_block", threads_per_block),
            ("sweeps_per_block", sweeps_per_block),
            ("cycles_per_dispatch", cycles_per_dispatch),
            ("split_beside", split_beside),
            ("rows_per_block", rows_per_block),
            ("lines_per_thread", lines_per_thread),
            ("subgroup_threads", subgroup_threads),
            ("strips_per_thread", strips_per_thread),
            ("deferred_columns", deferred_columns),
        ] {
            if value > MOST {
                return Err(SvdError::invalid(option, format!("{value}, but no device has more than {MOST}")));
            }
        }
        // The flops must fit in 64 bits, also for complex matrices, with a margin.
        let flops = (m as u128).checked_mul(n as u128).and_then(|mn| mn.checked_mul(64 * n as u128));
        if flops.is_none_or(|flops| flops > u64::MAX.into()) {
            return Err(SvdError::invalid("matrix", format!("the flops for {m} x {n} entries cannot be counted in 64 bits")));
        }
        if m as u64 > 1 << 40 {
            return Err(SvdError::invalid("matrix", format!("{m} x {n}: more than 2^40 rows or columns")));
        }
        Ok(())
    }

    /// Default hyperparameters for a matrix of order `n` stored as `S` on a data-centre GPU: [`tuning_on`](Self::tuning_on) an H100.
    ///
    /// ```
    /// use svdvals_gpu::cost::Cost;
    /// assert!(Cost::tuning::<f32>(1000).check().is_ok());
    /// ```
    pub fn tuning<S: Number>(n: usize) -> Tuning {
        Cost::tuning_on::<S>(n, &DeviceModel::H100)
    }

    /// Default hyperparameters for a matrix of order `n` stored as `S` on a device of this kind, with 1024 threads and 32 KiB of workgroup memory
    /// per workgroup, 48 or 64 KiB on data-centre GPUs. (A call uses the limits of the device itself: [`Tuning::for_adapter`].)
    ///
    /// ```
    /// use svdvals_gpu::cost::{Cost, DeviceModel};
    /// // Where memory is slow, deferred updates save passes over matrices of moderate size too.
    /// let [laptop, data_centre] = [DeviceModel::RTX_4060, DeviceModel::H100].map(|device| Cost::tuning_on::<f32>(5000, &device));
    /// assert!(laptop.gpu.deferred_columns > data_centre.gpu.deferred_columns);
    /// ```
    pub fn tuning_on<S: Number>(n: usize, device: &DeviceModel) -> Tuning {
        Tuning::within(S::KIND, &Bounds::of_model(device), n)
    }

    /// [`tuning_on`](Self::tuning_on) of a QR factorisation, also within least squares, of `n` columns.
    ///
    /// ```
    /// use svdvals_gpu::cost::{Cost, DeviceModel};
    /// // Narrow tiles make stage 2 of a small matrix faster, which QR does not have.
    /// let [values, qr] = [Cost::tuning_on::<f32>, Cost::qr_tuning_on::<f32>].map(|of| of(1024, &DeviceModel::H100));
    /// assert!(values.tile_size < qr.tile_size);
    /// ```
    pub fn qr_tuning_on<S: Number>(n: usize, device: &DeviceModel) -> Tuning {
        Tuning::of_factors(S::KIND, &Bounds::of_model(device), n)
    }

    /// The total number of dispatches.
    ///
    /// ```
    /// use svdvals_gpu::cost::Cost;
    /// let cost = Cost::new::<f32>(512, 512, &Cost::tuning::<f32>(512))?;
    /// assert!(cost.dispatches() < Cost::new::<f32>(1024, 1024, &Cost::tuning::<f32>(1024))?.dispatches());
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn dispatches(&self) -> u64 {
        self.work.iter().map(|(_, times)| times).sum()
    }

    /// The work of one kernel; zeros if it does not run.
    ///
    /// ```
    /// use svdvals_gpu::cost::{Cost, Kernel};
    /// let cost = Cost::new::<f32>(512, 512, &Cost::tuning::<f32>(512))?;
    /// assert!(cost.kernel(Kernel::Unmqr).flops > cost.kernel(Kernel::Geqrt).flops);
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn kernel(&self, kernel: Kernel) -> KernelCost {
        let none = KernelCost {
            kernel,
            dispatches: 0,
            workgroups: 0,
            most_workgroups: 0,
            threads: 0,
            workgroup_memory: 0,
            flops: 0,
            bytes: 0,
            workgroup_bytes: 0,
        };
        self.work.iter().filter(|(work, _)| work.kernel == kernel).fold(none, |sum, (work, times)| KernelCost {
            kernel,
            dispatches: sum.dispatches + times,
            workgroups: sum.workgroups + times * work.workgroups,
            most_workgroups: sum.most_workgroups.max(work.workgroups),
            threads: work.threads,
            workgroup_memory: work.workgroup_memory,
            flops: sum.flops + times * work.flops,
            bytes: sum.bytes + times * work.bytes,
            workgroup_bytes: sum.workgroup_bytes + times * work.workgroup_bytes,
        })
    }

    /// Seconds on a device, kernel by kernel, in the order of [`Kernel::ALL`]; infinite for f64 on a device without f64.
    ///
    /// ```
    /// use svdvals_gpu::cost::{Cost, DeviceModel, Kernel};
    /// let cost = Cost::new::<f32>(512, 512, &Cost::tuning::<f32>(512))?;
    /// let seconds = cost.on(&DeviceModel::H100);
    /// assert_eq!(seconds.len(), Kernel::ALL.len());
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn on(&self, device: &DeviceModel) -> Vec<KernelSeconds> {
        let zero = |kernel| KernelSeconds {
            kernel,
            arithmetic: 0.0,
            memory: 0.0,
            workgroup_memory: 0.0,
            issue: 0.0,
            latency: 0.0,
            overhead: 0.0,
            total: 0.0,
        };
        let mut all = Kernel::ALL.map(zero);
        for (work, times) in &self.work {
            let Some(sum) = all.iter_mut().find(|sum| sum.kernel == work.kernel) else { continue };
            let one = self.seconds(work, device);
            let times = *times as f64;
            sum.arithmetic += times * one.arithmetic;
            sum.memory += times * one.memory;
            sum.workgroup_memory += times * one.workgroup_memory;
            sum.issue += times * one.issue;
            sum.latency += times * one.latency;
            sum.overhead += times * one.overhead;
            sum.total += times * one.total;
        }
        all.to_vec()
    }

    /// A table of measured kernel times, as in [`SvdReport::kernel_seconds`](crate::SvdReport::kernel_seconds), with the counts and the
    /// rates that follow. Kernels that are not counted (see the [module](self)) have no dispatches and no rates.
    ///
    /// ```
    /// use svdvals_gpu::cost::{Cost, Kernel};
    /// let cost = Cost::new::<f32>(512, 512, &Cost::tuning::<f32>(512))?;
    /// println!("{}", cost.measured(&[(Kernel::Geqrt, 0.003), (Kernel::Unmqr, 0.001)]));
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn measured<'a>(&'a self, seconds: &'a [(Kernel, f64)]) -> impl fmt::Display + 'a {
        Measured { cost: self, seconds }
    }
}

#[cfg(test)]
mod tests;
