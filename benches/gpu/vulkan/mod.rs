//! Vulkan beside wgpu: a device of its own on the adapter of a context, with the features that wgpu-hal turns on for the crate's shaders, for what
//! wgpu does not tell.

mod gap;
mod statistics;

use std::{error::Error, ffi::CString};

use ash::{Entry, Instance, khr, vk};
use svdvals_gpu::{
    GpuContext,
    wgpu::{
        self,
        naga::{self, AddressSpace, ShaderStage, back::spv, valid},
    },
};

pub use gap::gap;
pub use statistics::statistics;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Why there is no Vulkan beside this context.
fn elsewhere(context: &GpuContext) -> Option<String> {
    let backend = context.backend();
    (backend != wgpu::Backend::Vulkan).then(|| format!("does not apply: wgpu runs through {backend}, not through Vulkan"))
}

/// A device, the family of its queue, its memory, its version of Vulkan, and what tells of compiled pipelines.
type Opened = (ash::Device, u32, vk::PhysicalDeviceMemoryProperties, u32, Option<khr::pipeline_executable_properties::Device>);

/// A device with one queue.
struct Vulkan {
    device: ash::Device,
    instance: Instance,
    // The loader stays as long as what came from it.
    _entry: Entry,
    queue: vk::Queue,
    family: u32,
    memory: vk::PhysicalDeviceMemoryProperties,
    /// The version of Vulkan that instance and device have.
    version: u32,
    /// None where the driver has no `VK_KHR_pipeline_executable_properties`.
    executables: Option<khr::pipeline_executable_properties::Device>,
}

impl Vulkan {
    /// A device on the adapter of the context, or on another one, whose name contains `other`.
    fn beside(context: &GpuContext, other: Option<&str>) -> Outcome<Vulkan> {
        let info = context.device().adapter_info();
        let wanted = other.unwrap_or(&info.name);
        let is_wanted = |of: &vk::PhysicalDeviceProperties, name: &str| match other {
            Some(other) => name.to_lowercase().contains(&other.to_lowercase()),
            None => (of.vendor_id, of.device_id) == (info.vendor, info.device) && name == info.name,
        };
        // SAFETY: the library is the system's Vulkan loader.
        let entry = unsafe { Entry::load() }?;
        // SAFETY (here and below): handles are of this instance and alive, and structures are valid for the calls.
        let version = unsafe { entry.try_enumerate_instance_version() }?.unwrap_or(vk::API_VERSION_1_0);
        let version = version.min(vk::API_VERSION_1_3);
        let application = vk::ApplicationInfo::default().api_version(version);
        let info = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: as above.
        let instance = unsafe { entry.create_instance(&info, None) }?;
        let found =
            adapter(&instance, is_wanted).and_then(|adapter| adapter.ok_or_else(|| format!("Vulkan has no {wanted}").into()));
        match found.and_then(|physical| Vulkan::on(&instance, version, physical)) {
            Ok((device, family, memory, version, executables)) => {
                // SAFETY: as above.
                let queue = unsafe { device.get_device_queue(family, 0) };
                Ok(Vulkan { device, instance, _entry: entry, queue, family, memory, version, executables })
            }
            Err(error) => {
                // SAFETY: as above.
                unsafe { instance.destroy_instance(None) };
                Err(error)
            }
        }
    }

    fn on(instance: &Instance, version: u32, physical: vk::PhysicalDevice) -> Outcome<Opened> {
        // SAFETY: as above.
        let version = version.min(unsafe { instance.get_physical_device_properties(physical) }.api_version);
        if version < vk::API_VERSION_1_2 {
            return Err("the driver has no Vulkan 1.2".into());
        }
        // SAFETY: as above.
        let families = unsafe { instance.get_physical_device_queue_family_properties(physical) };
        let computes = |family: &vk::QueueFamilyProperties| family.queue_flags.contains(vk::QueueFlags::COMPUTE);
        // wgpu takes the first family, which does graphics too.
        let family = families.iter().position(computes).ok_or("no queue computes")? as u32;

        // SAFETY: as above.
        let extensions = unsafe { instance.enumerate_device_extension_properties(physical) }?;
        let has = |name| extensions.iter().any(|extension| extension.extension_name_as_c_str() == Ok(name));
        let names = [ash::ext::robustness2::NAME, khr::pipeline_executable_properties::NAME];
        let enabled: Vec<_> = names.into_iter().filter(|name| has(name)).map(|name| name.as_ptr()).collect();

        let mut eleven = vk::PhysicalDeviceVulkan11Features::default();
        let mut twelve = vk::PhysicalDeviceVulkan12Features::default();
        let mut robust = vk::PhysicalDeviceRobustness2FeaturesEXT::default();
        let mut executable = vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR::default();
        let mut all = vk::PhysicalDeviceFeatures2::default().push_next(&mut eleven).push_next(&mut twelve);
        if has(names[0]) {
            all = all.push_next(&mut robust);
        }
        if has(names[1]) {
            all = all.push_next(&mut executable);
        }
        // SAFETY: as above.
        unsafe { instance.get_physical_device_features2(physical, &mut all) };
        let core = vk::PhysicalDeviceFeatures::default()
            .robust_buffer_access(all.features.robust_buffer_access != 0)
            .shader_float64(all.features.shader_float64 != 0)
            .shader_int64(all.features.shader_int64 != 0)
            .shader_int16(all.features.shader_int16 != 0);
        let mut eleven = vk::PhysicalDeviceVulkan11Features::default()
            .storage_buffer16_bit_access(eleven.storage_buffer16_bit_access != 0)
            .uniform_and_storage_buffer16_bit_access(eleven.uniform_and_storage_buffer16_bit_access != 0);
        let mut twelve = vk::PhysicalDeviceVulkan12Features::default().shader_float16(twelve.shader_float16 != 0);
        let mut robust =
            vk::PhysicalDeviceRobustness2FeaturesEXT::default().robust_buffer_access2(robust.robust_buffer_access2 != 0);
        let counts = executable.pipeline_executable_info != 0;
        let mut executable =
            vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR::default().pipeline_executable_info(counts);

        let queues = [vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&[1.0])];
        let mut info = vk::DeviceCreateInfo::default()
            .queue_create_infos(&queues)
            .enabled_extension_names(&enabled)
            .enabled_features(&core)
            .push_next(&mut eleven)
            .push_next(&mut twelve);
        if has(names[0]) {
            info = info.push_next(&mut robust);
        }
        if counts {
            info = info.push_next(&mut executable);
        }
        // SAFETY: as above.
        let device = unsafe { instance.create_device(physical, &info, None) }?;
        let executables = counts.then(|| khr::pipeline_executable_properties::Device::new(instance, &device));
        // SAFETY: as above.
        let memory = unsafe { instance.get_physical_device_memory_properties(physical) };
        Ok((device, family, memory, version, executables))
    }

    /// A compute pipeline of WGSL, by naga and with the options that wgpu has for shaders without run-time checks.
    fn kernel(&self, wgsl: &str, flags: vk::PipelineCreateFlags) -> Outcome<Kernel<'_>> {
        let module = naga::front::wgsl::parse_str(wgsl).map_err(|error| error.emit_to_string(wgsl))?;
        let mut validator = valid::Validator::new(valid::ValidationFlags::all(), valid::Capabilities::all());
        let info = validator.validate(&module).map_err(|error| error.emit_to_string(wgsl))?;
        let entry = module.entry_points.first().ok_or("a shader without an entry point")?;
        let name = CString::new(&*entry.name)?;
        let code = spir_v(&module, &info, &entry.name, self.version)?;

        let mut kernel = Kernel::none(self);
        let (bindings, immediate) = interface(&module);
        let described = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        // SAFETY: handles are of this device, and structures are valid for the calls. What is made so far goes with the kernel.
        kernel.bindings = unsafe { self.device.create_descriptor_set_layout(&described, None) }?;
        let (sets, ranges) = ([kernel.bindings], [immediate]);
        let described = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets);
        let described = if immediate.size > 0 { described.push_constant_ranges(&ranges) } else { described };
        // SAFETY: as above, of the pipeline layout and of the module; the code is SPIR-V that naga has written.
        kernel.layout = unsafe { self.device.create_pipeline_layout(&described, None) }?;
        kernel.module = unsafe { self.device.create_shader_module(&vk::ShaderModuleCreateInfo::default().code(&code), None) }?;
        let stage = vk::PipelineShaderStageCreateInfo::default().stage(vk::ShaderStageFlags::COMPUTE).module(kernel.module);
        let described = vk::ComputePipelineCreateInfo::default().flags(flags).stage(stage.name(&name)).layout(kernel.layout);
        // SAFETY: as above.
        let made = unsafe { self.device.create_compute_pipelines(vk::PipelineCache::null(), &[described], None) };
        let made = made.map_err(|(_, error)| error)?;
        kernel.pipeline = made.first().copied().ok_or("no pipeline")?;
        Ok(kernel)
    }

    /// A kind of memory among those of the mask.
    fn memory_type(&self, mask: u32, wanted: vk::MemoryPropertyFlags) -> Outcome<u32> {
        let kinds = self.memory.memory_types_as_slice().iter().enumerate();
        let mut fitting = kinds.filter(|(k, kind)| mask >> k & 1 == 1 && kind.property_flags.contains(wanted));
        Ok(fitting.next().ok_or_else(|| format!("no memory with {wanted:?}"))?.0 as u32)
    }
}

impl Drop for Vulkan {
    fn drop(&mut self) {
        // SAFETY: whatever was made of the device borrows it and is gone.
        unsafe {
            let _ = self.device.device_wait_idle();
            self.device.destroy_device(None);
            self.instance.destroy_instance(None);
        }
    }
}

/// The first adapter whose properties and name are wanted.
fn adapter(
    instance: &Instance,
    is_wanted: impl Fn(&vk::PhysicalDeviceProperties, &str) -> bool,
) -> Outcome<Option<vk::PhysicalDevice>> {
    // SAFETY: the instance is alive.
    let all = unsafe { instance.enumerate_physical_devices() }?;
    Ok(all.into_iter().find(|&physical| {
        let of = unsafe { instance.get_physical_device_properties(physical) };
        of.device_name_as_c_str().is_ok_and(|name| is_wanted(&of, &name.to_string_lossy()))
    }))
}

/// The SPIR-V that wgpu gives to a driver of this version.
fn spir_v(module: &naga::Module, info: &valid::ModuleInfo, entry: &str, version: u32) -> Outcome<Vec<u32>> {
    let options = spv::Options {
        lang_version: if version < vk::API_VERSION_1_3 { (1, 5) } else { (1, 6) },
        flags: spv::WriterFlags::empty(),
        bounds_check_policies: Default::default(), // none
        zero_initialize_workgroup_memory: spv::ZeroInitializeWorkgroupMemoryMode::None,
        force_loop_bounding: false,
        emit_int_div_checks: false,
        ..Default::default()
    };
    let stage = (ShaderStage::Compute, entry);
    let constants = naga::back::PipelineConstants::default();
    let (module, info) = naga::back::pipeline_constants::process_overrides(module, info, Some(stage), &constants)?;
    let of_entry = spv::PipelineOptions { shader_stage: stage.0, entry_point: entry.into() };
    Ok(spv::write_vec(&module, &info, &options, Some(&of_entry))?)
}

/// What a shader binds, and its immediates.
fn interface(module: &naga::Module) -> (Vec<vk::DescriptorSetLayoutBinding<'static>>, vk::PushConstantRange) {
    let stages = vk::ShaderStageFlags::COMPUTE;
    let (mut bindings, mut immediate) = (Vec::new(), vk::PushConstantRange::default().stage_flags(stages));
    for (_, variable) in module.global_variables.iter() {
        let kind = match variable.space {
            AddressSpace::Storage { .. } => vk::DescriptorType::STORAGE_BUFFER,
            AddressSpace::Uniform => vk::DescriptorType::UNIFORM_BUFFER_DYNAMIC,
            AddressSpace::Immediate => {
                immediate.size = module.types[variable.ty].inner.size(module.to_ctx());
                continue;
            }
            _ => continue,
        };
        let number = variable.binding.map_or(0, |binding| binding.binding);
        let binding = vk::DescriptorSetLayoutBinding::default().binding(number).descriptor_type(kind);
        bindings.push(binding.descriptor_count(1).stage_flags(stages));
    }
    (bindings, immediate)
}

/// A compute pipeline, with what it was made of.
struct Kernel<'a> {
    vulkan: &'a Vulkan,
    bindings: vk::DescriptorSetLayout,
    layout: vk::PipelineLayout,
    module: vk::ShaderModule,
    pipeline: vk::Pipeline,
}

impl<'a> Kernel<'a> {
    /// With nothing made yet.
    fn none(vulkan: &'a Vulkan) -> Self {
        let (bindings, layout, module, pipeline) = Default::default();
        Kernel { vulkan, bindings, layout, module, pipeline }
    }
}

impl Drop for Kernel<'_> {
    fn drop(&mut self) {
        let device = &self.vulkan.device;
        // SAFETY: the handles are of this device or null, and no submission that uses them is under way.
        unsafe {
            device.destroy_pipeline(self.pipeline, None);
            device.destroy_shader_module(self.module, None);
            device.destroy_pipeline_layout(self.layout, None);
            device.destroy_descriptor_set_layout(self.bindings, None);
        }
    }
}
