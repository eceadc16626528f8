//! Choosing an adapter and opening a device on it.

use std::path::PathBuf;

use wgpu::{DeviceType, Features, Instance, InstanceDescriptor, InstanceFlags, PowerPreference};

use crate::{
    base::error::{Result, SvdError},
    gpu::device::cooperative::{self, Cooperative, Found},
};

/// Which adapter a [`GpuContext`](crate::GpuContext) opens, and how.
///
/// The default ranks hardware before software, and discrete GPUs before integrated ones. The environment variables `WGPU_ADAPTER_NAME`,
/// `WGPU_BACKEND` and `WGPU_POWER_PREF` apply where the choice itself leaves them open.
///
/// ```
/// use svdvals_gpu::AdapterChoice;
/// let choice = AdapterChoice::default().name("llvmpipe").checked(true);
/// assert_eq!(choice.name.as_deref(), Some("llvmpipe"));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct AdapterChoice {
    /// Only an adapter whose name contains this string, ignoring case.
    pub name: Option<String>,
    /// The power preference. `LowPower` ranks an integrated GPU before a discrete one.
    pub power: PowerPreference,
    /// The limits to request.
    pub limits: DeviceLimits,
    /// Maximum bytes of a buffer that a shader may bind. None is the device's limit. A larger matrix is kept in several buffers.
    pub max_binding: Option<u64>,
    /// Whether shaders check every index at run time, which costs speed and finds bugs. None reads the environment variable
    /// `SVDVALS_GPU_CHECKED`: `1` is yes, anything else no.
    pub checked: Option<bool>,
    /// Directory where compiled pipelines are kept from process to process. None reads the environment variable
    /// `SVDVALS_GPU_PIPELINE_CACHE`; if it is not set, no pipelines are kept.
    pub pipeline_cache: Option<PathBuf>,
    /// Whether to request cooperative matrices, for [`Products`](crate::Products) by low precision.
    pub cooperative_matrices: bool,
}

/// Limits and features that a device is opened with.
///
/// ```
/// use svdvals_gpu::{AdapterChoice, DeviceLimits, GpuContext};
/// let portable = AdapterChoice::default().limits(DeviceLimits::WebGpuDefault);
/// if let Ok(context) = GpuContext::new(&portable) {
///     assert_eq!(context.limits().max_compute_invocations_per_workgroup, 256);
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeviceLimits {
    /// All limits of the adapter, and those of its features that this crate uses.
    #[default]
    Adapter,
    /// The limits that every WebGPU implementation guarantees (16 KiB of workgroup memory, 256 threads a workgroup, no immediates), with
    /// f64 and f16 if the adapter has them. For tests: a program that runs with these limits runs everywhere.
    WebGpuDefault,
    /// Like [`WebGpuDefault`](Self::WebGpuDefault), without f64 and f16.
    Plain,
}

/// Bytes of the first block of device memory, from which small buffers come.
const BLOCK_BYTES: u64 = 64 << 20;

impl AdapterChoice {
    /// Requests an adapter whose name contains `name`.
    ///
    /// ```
    /// use svdvals_gpu::AdapterChoice;
    /// assert_eq!(AdapterChoice::default().name("radeon").name.as_deref(), Some("radeon"));
    /// ```
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the power preference.
    ///
    /// ```
    /// use svdvals_gpu::{AdapterChoice, wgpu::PowerPreference};
    /// let saving = AdapterChoice::default().power(PowerPreference::LowPower);
    /// assert_eq!(saving.power, PowerPreference::LowPower);
    /// ```
    pub fn power(mut self, power: PowerPreference) -> Self {
        self.power = power;
        self
    }

    /// Sets the limits to request.
    ///
    /// ```
    /// use svdvals_gpu::{AdapterChoice, DeviceLimits};
    /// assert_eq!(AdapterChoice::default().limits(DeviceLimits::Plain).limits, DeviceLimits::Plain);
    /// ```
    pub fn limits(mut self, limits: DeviceLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the maximum bytes of a buffer that a shader may bind.
    ///
    /// ```
    /// use svdvals_gpu::{AdapterChoice, GpuContext};
    /// if let Ok(context) = GpuContext::new(&AdapterChoice::default().max_binding(1 << 20)) {
    ///     assert_eq!(context.limits().max_storage_buffer_binding_size, 1 << 20);
    /// }
    /// ```
    pub fn max_binding(mut self, bytes: u64) -> Self {
        self.max_binding = Some(bytes);
        self
    }

    /// Turns run-time checks in shaders on or off.
    ///
    /// ```
    /// assert_eq!(svdvals_gpu::AdapterChoice::default().checked(true).checked, Some(true));
    /// ```
    pub fn checked(mut self, checked: bool) -> Self {
        self.checked = Some(checked);
        self
    }

    /// Keeps compiled pipelines for the next process, in a file in `directory` for each kind of device. This works through Vulkan only. It
    /// makes no difference if the driver keeps pipelines itself, as desktop drivers do.
    ///
    /// The file is read when the context opens. It is replaced at the end of a call that compiled something, or at once by
    /// [`GpuContext::store_pipelines`](crate::GpuContext::store_pipelines). A file that is damaged, belongs to another device or driver, or
    /// cannot be written is a line in the log and no error. Drivers trust its content: nobody else may have write access to `directory`.
    ///
    /// ```
    /// use svdvals_gpu::AdapterChoice;
    /// let choice = AdapterChoice::default().pipeline_cache("target/pipelines");
    /// assert!(choice.pipeline_cache.is_some());
    /// ```
    pub fn pipeline_cache(mut self, directory: impl Into<PathBuf>) -> Self {
        self.pipeline_cache = Some(directory.into());
        self
    }

    /// Requests cooperative matrices (matrix units, tensor cores) of f16 with f32 sums, for [`Products`](crate::Products) by low precision. wgpu's
    /// interface to them is experimental, so that no context has them without this. They are used once a self-test, a product of integers, has
    /// passed when the context opens: [`GpuContext::cooperative_matrices`](crate::GpuContext::cooperative_matrices) says whether, and why not.
    ///
    /// ```
    /// use svdvals_gpu::{AdapterChoice, GpuContext};
    /// if let Ok(context) = GpuContext::new(&AdapterChoice::default().cooperative_matrices(true)) {
    ///     println!("{:?}", context.cooperative_matrices()); // their order, or what is missing
    /// }
    /// ```
    pub fn cooperative_matrices(mut self, wanted: bool) -> Self {
        self.cooperative_matrices = wanted;
        self
    }

    pub(crate) fn pipeline_directory(&self) -> Option<PathBuf> {
        let named = || std::env::var_os("SVDVALS_GPU_PIPELINE_CACHE").filter(|name| !name.is_empty()).map(PathBuf::from);
        self.pipeline_cache.clone().or_else(named)
    }

    pub(crate) fn is_checked(&self) -> bool {
        self.checked.unwrap_or_else(|| std::env::var("SVDVALS_GPU_CHECKED").is_ok_and(|v| v == "1"))
    }

    /// The best-ranked adapter that matches.
    async fn adapter(&self) -> Result<wgpu::Adapter> {
        let no_adapter = |reason: String| SvdError::NoAdapter { reason };
        if Instance::enabled_backend_features().is_empty() {
            return Err(no_adapter("wgpu has no backend for this platform".into()));
        }
        // API validation is on only if the environment asks for it (WGPU_VALIDATION, WGPU_DEBUG), not because this is a debug build.
        let flags = InstanceFlags::empty().with_env();
        let mut descriptor = InstanceDescriptor::new_without_display_handle_from_env();
        descriptor.flags = flags;
        let backends = descriptor.backends;
        let adapters = Instance::new(descriptor).enumerate_adapters(backends).await;

        let found: Vec<String> = adapters.iter().map(|a| a.get_info().name).collect();
        let wanted = self.name.clone().or_else(|| std::env::var("WGPU_ADAPTER_NAME").ok());
        let fits = |name: &str| wanted.as_ref().is_none_or(|w| name.to_lowercase().contains(&w.to_lowercase()));
        let power =
            if self.power == PowerPreference::None { PowerPreference::from_env().unwrap_or_default() } else { self.power };
        let (adapters, without_dxc): (Vec<_>, Vec<_>) =
            adapters.into_iter().filter(|a| fits(&a.get_info().name)).partition(|a| compiles(a.get_info().backend, a.features()));
        adapters.into_iter().min_by_key(|a| rank(a.get_info().device_type, power)).ok_or_else(|| {
            no_adapter(match wanted {
                _ if !without_dxc.is_empty() => format!(
                    "{:?} is there through DX12, but the compiler FXC cannot compile the shaders; put dxcompiler.dll (DXC, from \
                         Microsoft's DirectX Shader Compiler) beside the program",
                    without_dxc[0].get_info().name
                ),
                Some(name) if !found.is_empty() => format!("none of {found:?} is called {name:?}"),
                _ => format!("wgpu found none with the backends {backends:?}"),
            })
        })
    }

    /// Opens a device on the best-ranked adapter that matches.
    pub(crate) async fn open(&self) -> Result<Opened> {
        let adapter = self.adapter().await?;
        let of_adapter = Features::SHADER_F64
            | Features::SHADER_F16
            | Features::IMMEDIATES
            | Features::MEMORY_DECORATION_COHERENT
            | Features::TIMESTAMP_QUERY
            | Features::PIPELINE_CACHE;
        let (features, mut limits) = match self.limits {
            DeviceLimits::Adapter => (of_adapter, adapter.limits()),
            DeviceLimits::WebGpuDefault => (Features::SHADER_F64 | Features::SHADER_F16, wgpu::Limits::defaults()),
            DeviceLimits::Plain => (Features::empty(), wgpu::Limits::defaults()),
        };
        if let Some(bytes) = self.max_binding {
            limits.max_storage_buffer_binding_size = limits.max_storage_buffer_binding_size.min(bytes);
        }
        let cooperative = self.cooperative_matrices.then(|| Cooperative::of(&adapter));
        let (more, experimental_features) = match cooperative {
            // SAFETY: the experimental feature is requested by the caller alone, for two shaders of this crate, and used if its self-test passes.
            Some(Ok(_)) => (cooperative::FEATURES, unsafe { wgpu::ExperimentalFeatures::enabled() }),
            _ => (Features::empty(), wgpu::ExperimentalFeatures::disabled()),
        };
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("svdvals-gpu"),
            required_features: (features & adapter.features()) | more,
            experimental_features,
            required_limits: limits,
            // Staging memory comes from blocks of half that size: eight pieces of a copy share one, which stays between calls. Blocks of a piece's
            // size would be allocated, mapped and freed for each. Large buffers have memory of their own.
            memory_hints: wgpu::MemoryHints::Manual { suballocated_device_memory_block_size: BLOCK_BYTES..4 * BLOCK_BYTES },
            ..Default::default()
        };
        let opened = adapter.request_device(&descriptor).await;
        let (device, queue) =
            opened.map_err(|e| SvdError::Gpu { what: "a device with its adapter's limits", reason: e.to_string() })?;
        Ok(Opened { device, queue, info: adapter.get_info(), cooperative })
    }
}

/// A device on an adapter.
pub(crate) struct Opened {
    pub device: wgpu::Device,
    pub queue: wgpu::Queue,
    pub info: wgpu::AdapterInfo,
    /// The adapter's cooperative matrices, or what it lacks, if they were requested.
    pub cooperative: Option<Found>,
}

/// Whether wgpu's shader compiler for this adapter takes arrays in registers that are indexed by variables. FXC, which DX12 falls back to where
/// there is no DXC, does not (wgpu issue 4436); with it an adapter has no subgroups.
fn compiles(backend: wgpu::Backend, features: Features) -> bool {
    backend != wgpu::Backend::Dx12 || features.contains(Features::SUBGROUP)
}

/// The rank of an adapter; lower is better.
fn rank(kind: DeviceType, power: PowerPreference) -> u8 {
    match kind {
        DeviceType::DiscreteGpu if power == PowerPreference::LowPower => 2,
        DeviceType::DiscreteGpu => 0,
        DeviceType::IntegratedGpu => 1,
        DeviceType::VirtualGpu => 3,
        DeviceType::Other => 4,
        DeviceType::Cpu => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only DX12 has a compiler that does not serve.
    #[test]
    fn dx12_needs_dxc() {
        assert!(!compiles(wgpu::Backend::Dx12, Features::SHADER_F16));
        assert!(compiles(wgpu::Backend::Dx12, Features::SUBGROUP) && compiles(wgpu::Backend::Vulkan, Features::empty()));
    }

    /// Hardware comes before software, whatever the power preference.
    #[test]
    fn hardware_first() {
        for power in [PowerPreference::None, PowerPreference::LowPower, PowerPreference::HighPerformance] {
            for kind in [DeviceType::DiscreteGpu, DeviceType::IntegratedGpu, DeviceType::VirtualGpu, DeviceType::Other] {
                assert!(rank(kind, power) < rank(DeviceType::Cpu, power));
            }
        }
        assert!(
            rank(DeviceType::IntegratedGpu, PowerPreference::LowPower) < rank(DeviceType::DiscreteGpu, PowerPreference::LowPower)
        );
        assert!(rank(DeviceType::DiscreteGpu, PowerPreference::None) < rank(DeviceType::IntegratedGpu, PowerPreference::None));
    }
}
