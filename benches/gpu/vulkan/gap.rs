//! Dependent dispatches under the barriers that wgpu puts between them, and under narrower ones.

use std::time::Instant;

use ash::{Device, vk};
use svdvals_gpu::GpuContext;

use super::{Kernel, Outcome, Vulkan, elsewhere};
use crate::median;

/// What stands between two dispatches.
#[derive(Clone, Copy, PartialEq)]
enum Barrier {
    /// wgpu-hal's for a storage buffer that shaders write: all of its shader stages, and both ends of the pipe.
    OfWgpu,
    Compute,
    /// The dispatches are independent.
    None,
}

const BARRIERS: [(Barrier, &str); 3] = [
    (Barrier::OfWgpu, "Vulkan, wgpu's barrier (vertex, fragment, compute)"),
    (Barrier::Compute, "Vulkan, compute -> compute"),
    (Barrier::None, "Vulkan, no barrier: nothing waits"),
];

/// For each kind of barrier its title, and seconds of a dispatch on the host and from submission on: from the difference of two numbers of `dispatches`, the
/// median of so many `turns`. The kernel, given as WGSL, adds 1 to the number in its only buffer.
pub fn gap(context: &GpuContext, wgsl: &str, dispatches: [u32; 2], turns: usize) -> Outcome<Vec<(&'static str, [f64; 2])>> {
    if let Some(why) = elsewhere(context) {
        println!("\nOther barriers: {why}");
        return Ok(Vec::new());
    }
    let vulkan = Vulkan::beside(context, None)?;
    let kernel = vulkan.kernel(wgsl, vk::PipelineCreateFlags::empty())?;
    let counter = Counter::new(&kernel)?;
    let mut runs: [Vec<[f64; 2]>; BARRIERS.len()] = Default::default();
    // The first turn warms up.
    for turn in 0..=turns {
        for ((barrier, _), runs) in BARRIERS.iter().zip(&mut runs) {
            let [long, short] = [counter.seconds(*barrier, dispatches[0])?, counter.seconds(*barrier, dispatches[1])?];
            if turn > 0 {
                runs.push([0, 1].map(|k| (long[k] - short[k]) / f64::from(dispatches[0] - dispatches[1])));
            }
        }
    }
    let median_of = |runs: &Vec<[f64; 2]>| [0, 1].map(|k| median(runs.iter().map(|run| run[k]).collect()));
    Ok(BARRIERS.iter().zip(&runs).map(|(&(_, title), runs)| (title, median_of(runs))).collect())
}

/// The kernel's buffer on the device, another that the host reads, and what records and submits.
struct Counter<'a> {
    kernel: &'a Kernel<'a>,
    buffers: [vk::Buffer; 2],
    memory: [vk::DeviceMemory; 2],
    descriptors: vk::DescriptorPool,
    set: vk::DescriptorSet,
    commands: vk::CommandPool,
    fence: vk::Fence,
}

/// Bytes of a buffer.
const BYTES: u64 = 16;

impl<'a> Counter<'a> {
    fn new(kernel: &'a Kernel<'a>) -> Outcome<Self> {
        let (buffers, memory, descriptors, set, commands, fence) = Default::default();
        let mut counter = Counter { kernel, buffers, memory, descriptors, set, commands, fence };
        let (vulkan, device) = (kernel.vulkan, &kernel.vulkan.device);
        let kinds = [
            (vk::BufferUsageFlags::STORAGE_BUFFER | vk::BufferUsageFlags::TRANSFER_SRC, vk::MemoryPropertyFlags::DEVICE_LOCAL),
            (vk::BufferUsageFlags::empty(), vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT),
        ];
        for (k, (usage, properties)) in kinds.into_iter().enumerate() {
            let info = vk::BufferCreateInfo::default().size(BYTES).usage(usage | vk::BufferUsageFlags::TRANSFER_DST);
            // SAFETY: handles are of this device, structures are valid for the call, and sizes are those of the buffers.
            counter.buffers[k] = unsafe { device.create_buffer(&info, None) }?;
            let needs = unsafe { device.get_buffer_memory_requirements(counter.buffers[k]) };
            let kind = vulkan.memory_type(needs.memory_type_bits, properties)?;
            let info = vk::MemoryAllocateInfo::default().allocation_size(needs.size).memory_type_index(kind);
            // SAFETY: handles are of this device, structures are valid for the call, and sizes are those of the buffers.
            counter.memory[k] = unsafe { device.allocate_memory(&info, None) }?;
            unsafe { device.bind_buffer_memory(counter.buffers[k], counter.memory[k], 0) }?;
        }
        let sizes = [vk::DescriptorPoolSize::default().ty(vk::DescriptorType::STORAGE_BUFFER).descriptor_count(1)];
        let info = vk::DescriptorPoolCreateInfo::default().max_sets(1).pool_sizes(&sizes);
        // SAFETY: handles are of this device, structures are valid for the call, and sizes are those of the buffers.
        counter.descriptors = unsafe { device.create_descriptor_pool(&info, None) }?;
        let layouts = [kernel.bindings];
        let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(counter.descriptors).set_layouts(&layouts);
        // SAFETY: handles are of this device, structures are valid for the call, and sizes are those of the buffers.
        counter.set = *unsafe { device.allocate_descriptor_sets(&info) }?.first().ok_or("no descriptor set")?;
        let bound = [vk::DescriptorBufferInfo::default().buffer(counter.buffers[0]).range(vk::WHOLE_SIZE)];
        let write = vk::WriteDescriptorSet::default().dst_set(counter.set).buffer_info(&bound);
        let write = write.descriptor_type(vk::DescriptorType::STORAGE_BUFFER);
        // SAFETY: handles are of this device, structures are valid for the call, and sizes are those of the buffers.
        unsafe { device.update_descriptor_sets(&[write], &[]) };
        let info = vk::CommandPoolCreateInfo::default().queue_family_index(vulkan.family);
        // SAFETY: handles are of this device, structures are valid for the call, and sizes are those of the buffers.
        counter.commands = unsafe { device.create_command_pool(&info, None) }?;
        counter.fence = unsafe { device.create_fence(&vk::FenceCreateInfo::default(), None) }?;
        Ok(counter)
    }

    /// Seconds to record that many dispatches, and from their submission to their end.
    fn seconds(&self, barrier: Barrier, count: u32) -> Outcome<[f64; 2]> {
        let (vulkan, device) = (self.kernel.vulkan, &self.kernel.vulkan.device);
        let start = Instant::now();
        // SAFETY: as above; the fence is waited for before anything is used again.
        unsafe {
            device.reset_command_pool(self.commands, vk::CommandPoolResetFlags::empty())?;
            let info = vk::CommandBufferAllocateInfo::default().command_pool(self.commands).command_buffer_count(1);
            let recorded = device.allocate_command_buffers(&info)?;
            let to = *recorded.first().ok_or("no command buffer")?;
            let once = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
            device.begin_command_buffer(to, &once)?;
            device.cmd_fill_buffer(to, self.buffers[0], 0, BYTES, 0);
            self.everything(device, to);
            device.cmd_bind_pipeline(to, vk::PipelineBindPoint::COMPUTE, self.kernel.pipeline);
            device.cmd_bind_descriptor_sets(to, vk::PipelineBindPoint::COMPUTE, self.kernel.layout, 0, &[self.set], &[]);
            for k in 0..count {
                if k > 0 {
                    self.wait(device, to, barrier);
                }
                device.cmd_dispatch(to, 1, 1, 1);
            }
            self.everything(device, to);
            let whole = vk::BufferCopy::default().size(BYTES);
            device.cmd_copy_buffer(to, self.buffers[0], self.buffers[1], &[whole]);
            self.everything(device, to);
            device.end_command_buffer(to)?;
            let ready = Instant::now();
            device.queue_submit(vulkan.queue, &[vk::SubmitInfo::default().command_buffers(&recorded)], self.fence)?;
            device.wait_for_fences(&[self.fence], true, u64::MAX)?;
            let seconds = [(ready - start).as_secs_f64(), ready.elapsed().as_secs_f64()];
            device.reset_fences(&[self.fence])?;
            device.free_command_buffers(self.commands, &recorded);
            let found = self.read(device)?;
            if found != count && barrier != Barrier::None {
                return Err(format!("of {count} dependent dispatches {found} were counted").into());
            }
            Ok(seconds)
        }
    }

    /// Orders what follows after what precedes.
    ///
    /// # Safety
    /// `to` is a command buffer of `device` that is being recorded.
    unsafe fn everything(&self, device: &Device, to: vk::CommandBuffer) {
        let (all, host) = (vk::PipelineStageFlags::ALL_COMMANDS, vk::PipelineStageFlags::HOST);
        let writes = vk::AccessFlags::SHADER_WRITE | vk::AccessFlags::TRANSFER_WRITE;
        let shader = vk::AccessFlags::SHADER_READ | vk::AccessFlags::SHADER_WRITE;
        let reads = shader | vk::AccessFlags::TRANSFER_READ | vk::AccessFlags::HOST_READ;
        let memory = [vk::MemoryBarrier::default().src_access_mask(writes).dst_access_mask(reads)];
        // SAFETY: the command buffer is being recorded.
        unsafe { device.cmd_pipeline_barrier(to, all, all | host, vk::DependencyFlags::empty(), &memory, &[], &[]) };
    }

    /// The barrier between two dispatches.
    ///
    /// # Safety
    /// As [`everything`](Self::everything).
    unsafe fn wait(&self, device: &Device, to: vk::CommandBuffer, barrier: Barrier) {
        let compute = vk::PipelineStageFlags::COMPUTE_SHADER;
        let shaders = compute | vk::PipelineStageFlags::VERTEX_SHADER | vk::PipelineStageFlags::FRAGMENT_SHADER;
        let [from, until] = match barrier {
            Barrier::None => return,
            Barrier::Compute => [compute; 2],
            Barrier::OfWgpu => {
                [vk::PipelineStageFlags::TOP_OF_PIPE, vk::PipelineStageFlags::BOTTOM_OF_PIPE].map(|end| end | shaders)
            }
        };
        let access = vk::AccessFlags::SHADER_READ | vk::AccessFlags::SHADER_WRITE;
        let buffer = vk::BufferMemoryBarrier::default().buffer(self.buffers[0]).size(vk::WHOLE_SIZE);
        let buffer = [buffer.src_access_mask(access).dst_access_mask(access)];
        // SAFETY: the command buffer is being recorded.
        unsafe { device.cmd_pipeline_barrier(to, from, until, vk::DependencyFlags::empty(), &[], &buffer, &[]) };
    }

    /// The number that was counted to.
    ///
    /// # Safety
    /// No submission that writes it is running.
    unsafe fn read(&self, device: &Device) -> Outcome<u32> {
        // SAFETY: the memory is the host's to see, has four bytes, and no submission writes it now.
        unsafe {
            let at = device.map_memory(self.memory[1], 0, BYTES, vk::MemoryMapFlags::empty())?;
            let found = at.cast::<u32>().read();
            device.unmap_memory(self.memory[1]);
            Ok(found)
        }
    }
}

impl Drop for Counter<'_> {
    fn drop(&mut self) {
        let device = &self.kernel.vulkan.device;
        // SAFETY: the handles are of this device or null, and no submission is under way once the device is idle.
        unsafe {
            let _ = device.device_wait_idle();
            device.destroy_fence(self.fence, None);
            device.destroy_command_pool(self.commands, None);
            device.destroy_descriptor_pool(self.descriptors, None);
            self.buffers.iter().for_each(|&buffer| device.destroy_buffer(buffer, None));
            self.memory.iter().for_each(|&memory| device.free_memory(memory, None));
        }
    }
}
