//! A device, its queue and its compiled pipelines.

mod outcome;

pub(crate) use outcome::{CANNOT_BLOCK, Waits};

use std::{
    path::Path,
    sync::{Arc, Mutex, OnceLock},
};

use wgpu::{AdapterInfo, Device, DeviceType, Features, PollType, Queue};

use crate::{
    base::{
        element_kind::ElementKind,
        error::{Result, SvdError},
        number::{HalfStorage, Number},
    },
    cost::device::DeviceModel,
    gpu::device::{
        adapter::AdapterChoice,
        cooperative::{Cooperative, Found},
        pipeline_cache::{PipelineFile, Pipelines},
        pool::Pool,
    },
};

/// A GPU that is ready to compute: device, queue and compiled kernels. It is cheap to clone, and many threads may use it at once.
///
/// Concurrent calls share the device. Each call sends its work in short submissions: at most 1024 dispatches, or some tenths of a second on
/// a small GPU. It has at most four submissions on the device at a time, and the device runs all submissions in order. A small call
/// therefore waits for four submissions of each other call, not for the end of a large one.
///
/// ```
/// use svdvals_gpu::{GpuContext, SvdError, SvdOptions};
/// match GpuContext::global() {
///     Ok(context) => {
///         println!("{} through {}", context.adapter_name(), context.backend());
///         let _options = SvdOptions::default().context(context);
///     }
///     Err(SvdError::NoAdapter { reason }) => println!("no GPU here: {reason}"),
///     Err(error) => return Err(error),
/// }
/// # Ok::<(), SvdError>(())
/// ```
#[derive(Clone)]
pub struct GpuContext(Arc<Inner>);

struct Inner {
    device: Device,
    queue: Queue,
    info: AdapterInfo,
    limits: wgpu::Limits,
    checked: bool,
    /// The driver's message when the device was lost.
    lost: Arc<OnceLock<String>>,
    cooperative: OnceLock<Found>,
    /// Whether `fma` rounds once, once that is known.
    fused: OnceLock<bool>,
    pipelines: Pipelines,
    pool: Arc<Pool>,
    /// In a browser: the results still to come of error scopes.
    unchecked: Mutex<Vec<(&'static str, outcome::Scope)>>,
}

impl GpuContext {
    /// A context on a device that you own. Request as many limits and features for it as possible. Kernels use its
    /// `max_compute_workgroup_storage_size`, its `max_compute_invocations_per_workgroup` and its buffer sizes. f64 and c64 need
    /// `Features::SHADER_F64`, and [`HalfStorage::Half`] needs `Features::SHADER_F16`.
    ///
    /// The device's error handler and device-lost callback stay yours. Shaders are checked at run time if `SVDVALS_GPU_CHECKED=1`.
    /// `SVDVALS_GPU_PIPELINE_CACHE` applies if the device has `Features::PIPELINE_CACHE`. Cooperative matrices take
    /// [`from_wgpu_with_adapter`](Self::from_wgpu_with_adapter), because wgpu lists their sizes on the adapter only.
    ///
    /// ```
    /// use svdvals_gpu::GpuContext;
    /// # let Ok(own) = GpuContext::global() else { return };
    /// # let (device, queue) = (own.device().clone(), own.queue().clone());
    /// let info = device.adapter_info(); // of your `wgpu::Device`
    /// let context = GpuContext::from_wgpu(device, queue, info);
    /// println!("computing on {}", context.adapter_name());
    /// ```
    pub fn from_wgpu(device: Device, queue: Queue, info: AdapterInfo) -> Self {
        let context = Self::of_caller(device, queue, info);
        context.has_cooperative(Err("`GpuContext::from_wgpu_with_adapter` takes a device that has them".into()));
        context
    }

    pub(crate) fn of_caller(device: Device, queue: Queue, info: AdapterInfo) -> Self {
        Self::assemble(device, queue, info, &AdapterChoice::default(), Arc::new(OnceLock::new()))
    }

    /// The parts of a context. `lost` gets the driver's message when the device is lost.
    pub(crate) fn assemble(
        device: Device,
        queue: Queue,
        info: AdapterInfo,
        choice: &AdapterChoice,
        lost: Arc<OnceLock<String>>,
    ) -> Self {
        let (limits, checked, pipelines) = (device.limits(), choice.is_checked(), Pipelines::default());
        let (unchecked, cooperative, fused) = (Mutex::default(), OnceLock::new(), OnceLock::new());
        let pool = Pool::of(info.device_type);
        let inner = Inner { device, queue, info, limits, checked, lost, cooperative, fused, pipelines, pool, unchecked };
        let mut context = GpuContext(Arc::new(inner));
        let file = choice.pipeline_directory().and_then(|directory| {
            let of = (context.device(), context.adapter_info());
            PipelineFile::open(of, &directory, |create| context.scoped("a pipeline cache", || Ok(create())))
        });
        if let Some(inner) = Arc::get_mut(&mut context.0) {
            inner.pipelines.file = file;
        }
        context
    }

    pub(crate) fn adapter_info(&self) -> &AdapterInfo {
        &self.0.info
    }

    /// The adapter's name, as its driver reports it.
    ///
    /// ```
    /// use svdvals_gpu::GpuContext;
    /// if let Ok(context) = GpuContext::global() {
    ///     println!("{}", context.adapter_name());
    /// }
    /// ```
    pub fn adapter_name(&self) -> &str {
        &self.0.info.name
    }

    /// The graphics API of the device.
    ///
    /// ```
    /// use svdvals_gpu::GpuContext;
    /// if let Ok(context) = GpuContext::global() {
    ///     println!("through {}", context.backend());
    /// }
    /// ```
    pub fn backend(&self) -> wgpu::Backend {
        self.0.info.backend
    }

    /// Whether the adapter is a software rasteriser, which runs on the CPU.
    ///
    /// ```
    /// use svdvals_gpu::GpuContext;
    /// if let Ok(context) = GpuContext::global() {
    ///     println!("{}", if context.is_software() { "a program" } else { "hardware" });
    /// }
    /// ```
    pub fn is_software(&self) -> bool {
        self.0.info.device_type == DeviceType::Cpu
    }

    /// The cost model's parameters of the nearest known device.
    pub(crate) fn model(&self) -> DeviceModel {
        let integrated = matches!(self.0.info.device_type, DeviceType::IntegratedGpu | DeviceType::Other);
        DeviceModel::of_name(&self.0.info.name, integrated)
    }

    /// The device's limits.
    ///
    /// ```
    /// use svdvals_gpu::GpuContext;
    /// if let Ok(context) = GpuContext::global() {
    ///     println!("{} bytes in one binding", context.limits().max_storage_buffer_binding_size);
    /// }
    /// ```
    pub fn limits(&self) -> &wgpu::Limits {
        &self.0.limits
    }

    /// Whether the device can compute with elements of type `T`, with half types stored as `half` says.
    ///
    /// ```
    /// use svdvals_gpu::{GpuContext, HalfStorage};
    /// if let Ok(context) = GpuContext::global() {
    ///     assert!(context.supports::<f32>(HalfStorage::Single) && context.supports::<half::bf16>(HalfStorage::Single));
    /// }
    /// ```
    pub fn supports<T: Number>(&self, half: HalfStorage) -> bool {
        match half {
            HalfStorage::Half if T::IS_HALF => self.require(ElementKind::F16).is_ok(),
            _ => self.require(T::KIND.scalar()).is_ok(),
        }
    }

    /// Checks that the device can compute with matrices stored as `kind`. The error says what it lacks.
    pub(crate) fn require(&self, kind: ElementKind) -> Result<()> {
        let features = self.0.device.features();
        let lacks = |needed, feature: Features, name| (needed && !features.contains(feature)).then_some(name);
        let f64 = lacks(kind.is_double(), Features::SHADER_F64, "SHADER_F64");
        let f16 = lacks(kind.is_half(), Features::SHADER_F16, "SHADER_F16");
        match f64.or(f16) {
            Some(feature) => {
                Err(SvdError::UnsupportedElement { element: kind.name(), feature, adapter: self.adapter_name().to_owned() })
            }
            None => Ok(()),
        }
    }

    /// The device.
    ///
    /// ```
    /// use svdvals_gpu::GpuContext;
    /// if let Ok(context) = GpuContext::global() {
    ///     println!("{:?}", context.device().features()); // for buffers and pipelines of your own
    /// }
    /// ```
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// The device's queue.
    ///
    /// ```
    /// use svdvals_gpu::GpuContext;
    /// if let Ok(context) = GpuContext::global() {
    ///     context.queue().submit([]); // of your own command buffers
    /// }
    /// ```
    pub fn queue(&self) -> &Queue {
        &self.0.queue
    }

    /// Threads of a subgroup, if they have one size and native shaders can use them; else 0. (WGSL in a browser needs a directive that naga does not
    /// know.)
    pub(crate) fn subgroup_threads(&self) -> usize {
        let AdapterInfo { subgroup_min_size, subgroup_max_size, .. } = self.0.info;
        let has = self.0.device.features().contains(Features::SUBGROUP) && !CANNOT_BLOCK;
        if has && subgroup_min_size == subgroup_max_size { subgroup_min_size as usize } else { 0 }
    }

    /// Whether shaders check their indices at run time.
    ///
    /// ```
    /// use svdvals_gpu::{AdapterChoice, GpuContext};
    /// if let Ok(context) = GpuContext::new(&AdapterChoice::default().checked(true)) {
    ///     assert!(context.is_checked());
    /// }
    /// ```
    pub fn is_checked(&self) -> bool {
        self.0.checked
    }

    /// Whether the device is known to be lost. Nothing can be computed on a lost device.
    ///
    /// ```
    /// use svdvals_gpu::GpuContext;
    /// if let Ok(context) = GpuContext::global() {
    ///     assert!(!context.is_lost()); // or a new one is needed: `GpuContext::new`
    /// }
    /// ```
    pub fn is_lost(&self) -> bool {
        self.0.lost.get().is_some()
    }

    /// Whether both are the same device.
    pub(crate) fn is_same(&self, other: &GpuContext) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The order of the device's cooperative matrices, 8 or 16, which [`Products`](crate::Products) by low precision use.
    ///
    /// ```
    /// use svdvals_gpu::{AdapterChoice, GpuContext, SvdError};
    /// if let Ok(context) = GpuContext::new(&AdapterChoice::default()) {
    ///     let error = context.cooperative_matrices().unwrap_err(); // they are there on request only
    ///     assert!(matches!(error, SvdError::InvalidOption { option: "products", .. }));
    /// }
    /// ```
    ///
    /// # Errors
    /// [`SvdError::InvalidOption`] if they were not [requested](crate::AdapterChoice::cooperative_matrices), the adapter has none, or its product was
    /// wrong. A device of your own has them by [`from_wgpu_with_adapter`](Self::from_wgpu_with_adapter), and not by [`from_wgpu`](Self::from_wgpu).
    pub fn cooperative_matrices(&self) -> Result<usize> {
        Ok(self.cooperative()?.order)
    }

    /// The error for a device without time stamps.
    pub(crate) fn has_timestamps(&self) -> Result<()> {
        if self.device().features().contains(wgpu::Features::TIMESTAMP_QUERY) {
            return Ok(());
        }
        Err(SvdError::invalid("time_kernels", format!("{} has no time stamps (TIMESTAMP_QUERY)", self.adapter_name())))
    }

    /// [`cooperative_matrices`](Self::cooperative_matrices), with what the kernels need.
    pub(crate) fn cooperative(&self) -> Result<Cooperative> {
        let missing = |reason| Err(SvdError::invalid("products", format!("the context has no cooperative matrices: {reason}")));
        match self.tested() {
            Some(Ok(found)) => Ok(*found),
            Some(Err(reason)) => missing(reason.as_str()),
            None => missing("their self-test has not ended"),
        }
    }

    /// The cooperative matrices that have passed the self-test, or why there are none; None during that test.
    pub(crate) fn tested(&self) -> Option<&Found> {
        self.0.cooperative.get()
    }

    /// What has come of the self-test. Of several calls, the first one holds.
    pub(crate) fn has_cooperative(&self, found: Found) {
        let _ = self.0.cooperative.set(found);
    }

    /// Whether `fma` is known to round once.
    pub(crate) fn is_fused(&self) -> bool {
        self.0.fused.get().is_some_and(|&fused| fused)
    }

    pub(crate) fn knows_fused(&self) -> bool {
        self.0.fused.get().is_some()
    }

    /// Of several calls, the first one holds.
    pub(crate) fn set_fused(&self, fused: bool) {
        let _ = self.0.fused.set(fused);
    }

    pub(crate) fn pipelines(&self) -> &Pipelines {
        &self.0.pipelines
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.0.pool
    }

    /// Gives back the device memory that is kept for later calls, and returns its bytes. A call keeps its buffers, so that the next one of the same shape
    /// does not allocate them again: up to 1 GiB on a device with memory of its own, 128 MiB on others, none in a browser; those of a size that has not
    /// been asked for go first. If the device has no memory left, it is given back by itself.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{AdapterChoice, Backend, GpuContext, SvdOptions, SvdValsGpu};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let context = GpuContext::new(&AdapterChoice::default())?;
    /// let options = SvdOptions::default().backend(Backend::Gpu).context(context.clone());
    /// let s = faer::Mat::<f32>::identity(500, 500).svdvals_gpu_with(&options)?;
    /// assert!((s[499] - 1.0).abs() < 1e-6);
    /// assert!(context.trim() >= 500 * 500 * 4); // the matrix, at least
    /// assert_eq!(context.trim(), 0);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn trim(&self) -> u64 {
        let bytes = self.0.pool.trim();
        // What no submission uses any more is freed now, and not by the next call.
        let _ = self.poll(PollType::Poll);
        bytes
    }

    /// Writes the pipelines compiled so far into the file of [`AdapterChoice::pipeline_cache`](crate::AdapterChoice::pipeline_cache), if
    /// they are not there already. Every call does this at its end. Returns the file's path, or None if the context has no file or it
    /// cannot be written; the log says why.
    ///
    /// ```
    /// use svdvals_gpu::{AdapterChoice, GpuContext};
    /// let directory = std::env::temp_dir().join("svdvals-gpu-doc");
    /// if let Ok(context) = GpuContext::new(&AdapterChoice::default().pipeline_cache(&directory)) {
    ///     println!("{:?}", context.store_pipelines());
    /// }
    /// ```
    pub fn store_pipelines(&self) -> Option<&Path> {
        self.0.pipelines.file.as_ref()?.stored()
    }

    /// Maximum bytes of a storage buffer.
    pub(crate) fn max_buffer_bytes(&self) -> u64 {
        // Buffer sizes are multiples of 16 bytes.
        self.0.limits.max_buffer_size.min(self.0.limits.max_storage_buffer_binding_size) / 16 * 16
    }
}

impl std::fmt::Debug for GpuContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Inner { info, checked, lost, .. } = &*self.0;
        let mut out = f.debug_struct("GpuContext");
        out.field("adapter", &info.name)
            .field("backend", &info.backend)
            .field("checked", checked)
            .field("lost", lost)
            .finish_non_exhaustive()
    }
}
