//! How a context is opened: an adapter's device, what its driver tells, and the self-test of its cooperative matrices.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use pollster::block_on;
use wgpu::{Adapter, Device, Queue};

use crate::{
    base::error::{Result, SvdError},
    gpu::{
        device::{
            adapter::{AdapterChoice, Opened},
            context::{CANNOT_BLOCK, GpuContext},
            cooperative::{Cooperative, FEATURES, missing},
        },
        kernels::cooperative::tested,
    },
};

/// The result of [`GpuContext::global`].
static GLOBAL: Mutex<Option<Result<GpuContext>>> = Mutex::new(None);

/// What is known about the default context: one that works, or that there is no adapter.
fn remembered(global: &Option<Result<GpuContext>>) -> Option<Result<GpuContext>> {
    match global {
        Some(Ok(context)) if !context.is_lost() => Some(Ok(context.clone())),
        Some(Err(error @ SvdError::NoAdapter { .. })) => Some(Err(error.clone())),
        _ => None,
    }
}

impl GpuContext {
    /// Opens a device on the chosen adapter.
    ///
    /// ```
    /// use svdvals_gpu::{AdapterChoice, GpuContext, SvdError};
    /// let none = AdapterChoice::default().name("no adapter has this name");
    /// assert!(matches!(GpuContext::new(&none), Err(SvdError::NoAdapter { .. })));
    /// ```
    ///
    /// # Errors
    /// [`SvdError::NoAdapter`] if no adapter matches, and always in a browser, where [`new_async`](Self::new_async) opens one;
    /// [`SvdError::Gpu`] if the driver refuses the device.
    pub fn new(choice: &AdapterChoice) -> Result<Self> {
        if CANNOT_BLOCK {
            return Err(SvdError::NoAdapter { reason: "a browser's GPU is opened by `GpuContext::new_async`".into() });
        }
        block_on(Self::new_async(choice))
    }

    /// Like [`new`](Self::new), without blocking in a browser. (Elsewhere the driver opens the device on the polling thread, which may take
    /// tenths of a second.)
    ///
    /// ```
    /// use svdvals_gpu::{AdapterChoice, GpuContext, SvdError};
    /// async fn name() -> Result<String, SvdError> {
    ///     Ok(GpuContext::new_async(&AdapterChoice::default()).await?.adapter_name().to_owned())
    /// }
    /// println!("{:?}", pollster::block_on(name()));
    /// ```
    ///
    /// # Errors
    /// [`SvdError::NoAdapter`] if no adapter matches; [`SvdError::Gpu`] if the driver refuses the device.
    pub async fn new_async(choice: &AdapterChoice) -> Result<Self> {
        let Opened { device, queue, info, cooperative } = choice.open().await?;
        log::info!("svdvals-gpu opened {} through {} ({:?})", info.name, info.backend, info.device_type);
        // wgpu panics on errors outside all scopes. This crate uses scopes for everything; any other error is logged.
        device.on_uncaptured_error(Arc::new(|error| log::error!("svdvals-gpu: wgpu error outside any call: {error}")));
        let lost = Arc::new(OnceLock::new());
        let told = lost.clone();
        device.set_device_lost_callback(move |reason, message| {
            // The first message is the cause.
            let _ = told.set(format!("{reason:?}: {message}"));
        });
        let context = Self::assemble(device, queue, info, choice, lost);
        let cooperative = match cooperative {
            Some(cooperative) => tested(&context, cooperative).await,
            None => Err("`AdapterChoice::cooperative_matrices` requests them".into()),
        };
        context.has_cooperative(cooperative);
        Ok(context)
    }

    /// The default context of all calls. The first call opens it, on the best-ranked adapter (hardware before software).
    ///
    /// A missing adapter is remembered. After any other failure the next call tries again. A lost device is replaced.
    ///
    /// ```
    /// use svdvals_gpu::GpuContext;
    /// if let Ok(context) = GpuContext::global() {
    ///     assert!(!context.is_lost());
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn global() -> Result<Self> {
        let mut global = GLOBAL.lock().unwrap_or_else(PoisonError::into_inner);
        remembered(&global).unwrap_or_else(|| {
            let made = Self::new(&AdapterChoice::default());
            if !CANNOT_BLOCK {
                *global = Some(made.clone());
            }
            made
        })
    }

    /// [`global`](Self::global) for callers that must not block. In a browser it is the only one.
    ///
    /// ```
    /// use svdvals_gpu::{GpuContext, SvdOptions};
    /// async fn options() -> Option<SvdOptions> {
    ///     Some(SvdOptions::default().context(GpuContext::global_async().await.ok()?))
    /// }
    /// println!("{:?}", pollster::block_on(options()));
    /// ```
    ///
    /// # Errors
    /// As [`new_async`](Self::new_async).
    pub async fn global_async() -> Result<Self> {
        let known = remembered(&GLOBAL.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(known) = known {
            return known;
        }
        let made = Self::new_async(&AdapterChoice::default()).await;
        let mut global = GLOBAL.lock().unwrap_or_else(PoisonError::into_inner);
        // Another task may have opened one in the meantime.
        Ok(match remembered(&global) {
            Some(Ok(context)) => context,
            _ => {
                *global = Some(made.clone());
                made?
            }
        })
    }

    /// Like [`from_wgpu`](Self::from_wgpu), with the adapter of the device, and so with cooperative matrices for [`Products`](crate::Products) by
    /// low precision. The device needs `Features::EXPERIMENTAL_COOPERATIVE_MATRIX` and `Features::SHADER_F16`; without them the context is that of
    /// `from_wgpu`. With them it multiplies integers as a self-test, for which the thread waits, and
    /// [`cooperative_matrices`](Self::cooperative_matrices) says whether it has passed.
    ///
    /// ```
    /// use pollster::block_on;
    /// use svdvals_gpu::{GpuContext, wgpu::{self, Features}};
    /// let instance = wgpu::Instance::default();
    /// let Ok(adapter) = block_on(instance.request_adapter(&wgpu::RequestAdapterOptions::default())) else { return };
    /// let wanted = Features::EXPERIMENTAL_COOPERATIVE_MATRIX | Features::SHADER_F16;
    /// let opened = block_on(adapter.request_device(&wgpu::DeviceDescriptor {
    ///     required_features: wanted & adapter.features(),
    ///     required_limits: adapter.limits(),
    ///     // SAFETY: an experimental feature may have bugs. This program takes the risk.
    ///     experimental_features: unsafe { wgpu::ExperimentalFeatures::enabled() },
    ///     ..Default::default()
    /// }));
    /// let Ok((device, queue)) = opened else { return };
    /// match GpuContext::from_wgpu_with_adapter(&adapter, device, queue) {
    ///     Ok(context) => println!("{:?}", context.cooperative_matrices()), // their order, or what is missing
    ///     Err(error) => println!("{error}"),
    /// }
    /// ```
    ///
    /// # Errors
    /// [`SvdError::InvalidOption`] if the device is of another adapter. Missing cooperative matrices are no error here.
    pub fn from_wgpu_with_adapter(adapter: &Adapter, device: Device, queue: Queue) -> Result<Self> {
        let (info, of_device) = (adapter.get_info(), device.adapter_info());
        if info != of_device {
            let reason = format!("it is {} ({:?}), but the device is of {}", info.name, info.backend, of_device.name);
            return Err(SvdError::invalid("adapter", reason));
        }
        let features = device.features();
        let context = Self::of_caller(device, queue, info);
        context.has_cooperative(if features.contains(FEATURES) {
            block_on(tested(&context, Cooperative::of(adapter)))
        } else {
            Err(format!("the device was opened without {}", missing(features)))
        });
        Ok(context)
    }
}
