//! Recording of commands.

use super::*;

impl ShaderModuleInterface for ShaderModule {
    fn get_compilation_info(&self) -> Pin<Box<dyn ShaderCompilationInfoFuture>> {
        Box::pin(std::future::ready(wgpu::CompilationInfo { messages: Vec::new() }))
    }
}
impl BindGroupLayoutInterface for GroupLayout {}
impl BindGroupInterface for Group {}
impl PipelineLayoutInterface for PipelineLayout {}
impl CommandBufferInterface for CommandBuffer {}
impl QuerySetInterface for QuerySet {
    fn destroy(&self) {}
}
impl PipelineCacheInterface for PipelineCache {
    fn get_data(&self) -> Option<Vec<u8>> {
        None
    }
}
impl ComputePipelineInterface for Pipeline {
    fn get_bind_group_layout(&self, index: u32) -> DispatchBindGroupLayout {
        let pipeline = self.0.as_ref().expect("a pipeline that failed");
        DispatchBindGroupLayout::custom(pipeline.layout.groups[index as usize].clone())
    }
}

impl CommandEncoderInterface for Encoder {
    fn copy_buffer_to_buffer(
        &self,
        source: &DispatchBuffer,
        from_at: u64,
        destination: &DispatchBuffer,
        to_at: u64,
        size: Option<u64>,
    ) {
        let (from, to) = (own(source).clone(), own(destination).clone());
        let size = size.unwrap_or(from.0.size - from_at);
        lock(&self.commands).push(Command::Copy { from, from_at, to, to_at, size });
    }
    fn copy_buffer_to_texture(&self, _: wgpu::TexelCopyBufferInfo<'_>, _: wgpu::TexelCopyTextureInfo<'_>, _: wgpu::Extent3d) {
        only_computes()
    }
    fn copy_texture_to_buffer(&self, _: wgpu::TexelCopyTextureInfo<'_>, _: wgpu::TexelCopyBufferInfo<'_>, _: wgpu::Extent3d) {
        only_computes()
    }
    fn copy_texture_to_texture(&self, _: wgpu::TexelCopyTextureInfo<'_>, _: wgpu::TexelCopyTextureInfo<'_>, _: wgpu::Extent3d) {
        only_computes()
    }

    fn begin_compute_pass(&self, desc: &wgpu::ComputePassDescriptor<'_>) -> DispatchComputePass {
        let mut end = None;
        if let Some(writes) = &desc.timestamp_writes {
            let set = writes.query_set.as_custom::<QuerySet>().expect("queries of another backend").clone();
            if let Some(at) = writes.beginning_of_pass_write_index {
                lock(&self.commands).push(Command::Stamp { set: set.clone(), at });
            }
            end = writes.end_of_pass_write_index.map(|at| (set, at));
        }
        DispatchComputePass::custom(Pass {
            device: self.device.clone(),
            commands: self.commands.clone(),
            pipeline: None,
            group: None,
            immediates: Vec::new(),
            end,
        })
    }
    fn begin_render_pass(&self, _: &wgpu::RenderPassDescriptor<'_>) -> DispatchRenderPass {
        only_computes()
    }
    fn finish(&mut self) -> DispatchCommandBuffer {
        DispatchCommandBuffer::custom(CommandBuffer(Mutex::new(std::mem::take(&mut *lock(&self.commands)))))
    }
    fn clear_texture(&self, _: &DispatchTexture, _: &wgpu::ImageSubresourceRange) {
        only_computes()
    }
    fn clear_buffer(&self, buffer: &DispatchBuffer, at: u64, size: Option<u64>) {
        let buffer = own(buffer).clone();
        let size = size.unwrap_or(buffer.0.size - at);
        lock(&self.commands).push(Command::Clear { buffer, at, size });
    }
    fn insert_debug_marker(&self, _: &str) {}
    fn push_debug_group(&self, _: &str) {}
    fn pop_debug_group(&self) {}
    fn write_timestamp(&self, _: &DispatchQuerySet, _: u32) {
        only_computes()
    }
    fn resolve_query_set(&self, set: &DispatchQuerySet, first: u32, count: u32, destination: &DispatchBuffer, at: u64) {
        let set = set.as_custom::<QuerySet>().expect("queries of another backend").clone();
        lock(&self.commands).push(Command::Resolve { set, first, count, to: own(destination).clone(), at });
    }
    fn mark_acceleration_structures_built<'a>(
        &self,
        _: &mut dyn Iterator<Item = &'a wgpu::Blas>,
        _: &mut dyn Iterator<Item = &'a wgpu::Tlas>,
    ) {
    }
    fn build_acceleration_structures<'a>(
        &self,
        _: &mut dyn Iterator<Item = &'a wgpu::BlasBuildEntry<'a>>,
        _: &mut dyn Iterator<Item = &'a wgpu::Tlas>,
    ) {
    }
    fn transition_resources<'a>(
        &mut self,
        _: &mut dyn Iterator<Item = wgpu::BufferTransition<&'a DispatchBuffer>>,
        _: &mut dyn Iterator<Item = wgpu::TextureTransition<&'a DispatchTexture>>,
    ) {
    }
}

impl ComputePassInterface for Pass {
    fn set_pipeline(&mut self, pipeline: &DispatchComputePipeline) {
        self.pipeline = pipeline.as_custom::<Pipeline>().expect("a pipeline of another backend").0.clone();
    }
    fn set_bind_group(&mut self, index: u32, group: Option<&DispatchBindGroup>, offsets: &[u32]) {
        self.device.api(index == 0, || format!("bind group {index}"));
        self.group = group.map(|g| (g.as_custom::<Group>().expect("a bind group of another backend").clone(), offsets.to_vec()));
    }
    fn set_immediates(&mut self, offset: u32, data: &[u8]) {
        let fits = self.pipeline.as_ref().is_some_and(|p| offset as usize + data.len() <= p.layout.immediates as usize);
        self.device.api(fits && offset.is_multiple_of(4) && data.len().is_multiple_of(4), || {
            format!("{} bytes of immediates at {offset}", data.len())
        });
        let end = offset as usize + data.len();
        if self.immediates.len() < end {
            self.immediates.resize(end, 0);
        }
        self.immediates[offset as usize..end].copy_from_slice(data);
    }
    fn insert_debug_marker(&mut self, _: &str) {}
    fn push_debug_group(&mut self, _: &str) {}
    fn pop_debug_group(&mut self) {}
    fn write_timestamp(&mut self, _: &DispatchQuerySet, _: u32) {
        only_computes()
    }
    fn begin_pipeline_statistics_query(&mut self, _: &DispatchQuerySet, _: u32) {
        only_computes()
    }
    fn end_pipeline_statistics_query(&mut self) {}

    fn dispatch_workgroups(&mut self, x: u32, y: u32, z: u32) {
        let (Some(pipeline), Some((group, offsets))) = (&self.pipeline, &self.group) else {
            self.device.api(false, || "a dispatch without a pipeline or bind group".into());
            return;
        };
        lock(&self.commands).push(Command::Dispatch {
            pipeline: pipeline.clone(),
            group: group.clone(),
            offsets: offsets.clone(),
            immediates: self.immediates.clone(),
            grid: [x, y, z],
        });
    }
    fn dispatch_workgroups_indirect(&mut self, _: &DispatchBuffer, _: u64) {
        only_computes()
    }
    fn transition_resources<'a>(
        &mut self,
        _: &mut dyn Iterator<Item = wgpu::BufferTransition<&'a DispatchBuffer>>,
        _: &mut dyn Iterator<Item = wgpu::TextureTransition<&'a DispatchTextureView>>,
    ) {
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if let Some((set, at)) = self.end.take() {
            lock(&self.commands).push(Command::Stamp { set, at });
        }
    }
}
