//! Kinds of devices.

use svdvals_gpu::wgpu::{DeviceType, Features, Limits};

use crate::config::{Config, Mapping, Order};

/// A kind of device.
#[derive(Clone)]
pub struct Dev {
    pub name: String,
    pub features: Features,
    pub limits: Limits,
    pub ty: DeviceType,
    pub config: Config,
}

pub fn gpu_limits() -> Limits {
    Limits {
        max_immediate_size: 128,
        max_compute_invocations_per_workgroup: 1024,
        max_compute_workgroup_size_x: 1024,
        max_compute_workgroup_size_y: 1024,
        max_compute_workgroup_storage_size: 48 << 10,
        max_storage_buffers_per_shader_stage: 16,
        min_uniform_buffer_offset_alignment: 64,
        ..Limits::defaults()
    }
}

/// All that the crate can use, subgroups of `subgroup` threads.
pub fn gpu(subgroup: u32, mapping: Mapping) -> Dev {
    let features = Features::SHADER_F64
        | Features::SHADER_F16
        | Features::SUBGROUP
        | Features::IMMEDIATES
        | Features::TIMESTAMP_QUERY
        | Features::MEMORY_DECORATION_COHERENT;
    Dev {
        name: format!("gpu, {mapping:?} subgroups of {subgroup}"),
        features,
        limits: gpu_limits(),
        ty: DeviceType::DiscreteGpu,
        config: Config { subgroup, mapping, ..Config::default() },
    }
}

pub fn without(features: Features, name: &str) -> Dev {
    let dev = gpu(32, Mapping::Linear);
    Dev { name: name.to_owned(), features: dev.features - features, ..dev }
}

/// WebGPU's default limits, and of its optional features f16.
pub fn webgpu() -> Dev {
    Dev {
        name: "webgpu".into(),
        features: Features::SHADER_F16,
        limits: Limits::defaults(),
        ty: DeviceType::IntegratedGpu,
        ..gpu(32, Mapping::Linear)
    }
}

/// Matrices do not fit one buffer.
pub fn small_buffers(bytes: u64) -> Dev {
    let limits = Limits { max_storage_buffer_binding_size: bytes, ..gpu_limits() };
    Dev { name: format!("gpu, {bytes} bytes a binding"), limits, ..gpu(32, Mapping::Linear) }
}

/// Grids that must be folded. (No device has such limits; `largest` does not fold its 256 workgroups.)
pub fn narrow() -> Dev {
    let limits = Limits { max_compute_workgroups_per_dimension: 13, ..gpu_limits() };
    Dev { name: "gpu, grids of 13".into(), limits, ..gpu(32, Mapping::Linear) }
}

/// Workgroup memory for small matrices alone. (No device has so little.)
pub fn little_memory() -> Dev {
    let limits = Limits { max_compute_workgroup_storage_size: 4 << 10, ..gpu_limits() };
    Dev { name: "gpu, 4 KiB of workgroup memory".into(), limits, ..gpu(32, Mapping::Linear) }
}

pub fn software() -> Dev {
    Dev { name: "software".into(), ty: DeviceType::Cpu, ..gpu(8, Mapping::Linear) }
}

pub fn ordered(order: Order) -> Dev {
    let mut dev = gpu(16, Mapping::Reversed);
    dev.config.order = order;
    dev.name = format!("gpu, {order:?}");
    dev
}

/// `fma` that rounds twice.
pub fn unfused() -> Dev {
    let mut dev = gpu(8, Mapping::Linear);
    dev.config.fused = false;
    dev.name = "gpu, fma unfused".into();
    dev
}

/// Arithmetic that a compiler has rewritten, with `fma` that rounds once, or twice.
pub fn loose(seed: u64) -> Dev {
    let mut dev = gpu(32, Mapping::Linear);
    dev.config.loose = Some(seed);
    dev.config.fused = seed.is_multiple_of(2);
    dev.name = format!("gpu, arithmetic {seed}");
    dev
}

pub fn devices() -> Vec<Dev> {
    vec![
        gpu(32, Mapping::Linear),
        webgpu(),
        gpu(4, Mapping::Linear),
        without(Features::SUBGROUP, "gpu without subgroups"),
        gpu(64, Mapping::Reversed),
        without(Features::IMMEDIATES, "gpu without immediates"),
        gpu(16, Mapping::Interleaved),
        small_buffers(12 << 10),
        gpu(8, Mapping::Linear),
        software(),
        gpu(32, Mapping::Shuffled),
        ordered(Order::Backward),
        gpu(8, Mapping::ShuffledLanes),
        unfused(),
        gpu(16, Mapping::Quads),
        without(Features::MEMORY_DECORATION_COHERENT, "gpu without coherent memory"),
        without(Features::SUBGROUP | Features::IMMEDIATES, "gpu without subgroups and immediates"),
        ordered(Order::Forward),
        gpu(64, Mapping::Linear),
    ]
}
