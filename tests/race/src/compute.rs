//! A dispatch of a shader that is not the crate's.

use svdvals_gpu::wgpu::{self, BufferUsages};

/// Runs the entry point `name`, which is the shader's label too, on storage buffers of 1024 bytes; those with content are written first.
/// Returns what is then in the first one.
pub fn run(
    (device, queue): (&wgpu::Device, &wgpu::Queue),
    (name, source): (&str, String),
    contents: &[Option<&[u8]>],
    groups: u32,
) -> Vec<u8> {
    const SIZE: u64 = 1024;
    let source = wgpu::ShaderSource::Wgsl(source.into());
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor { label: Some(name), source });
    let entries: Vec<_> = (0..contents.len() as u32)
        .map(|binding| wgpu::BindGroupLayoutEntry {
            binding,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer {
                ty: wgpu::BufferBindingType::Storage { read_only: false },
                has_dynamic_offset: false,
                min_binding_size: None,
            },
            count: None,
        })
        .collect();
    let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries });
    let pipeline_layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
        label: None,
        bind_group_layouts: &[Some(&layout)],
        immediate_size: 0,
    });
    let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: None,
        layout: Some(&pipeline_layout),
        module: &module,
        entry_point: Some(name),
        compilation_options: wgpu::PipelineCompilationOptions::default(),
        cache: None,
    });
    let buffer = |label, size, usage| {
        device.create_buffer(&wgpu::BufferDescriptor { label: Some(label), size, usage, mapped_at_creation: false })
    };
    let usage = BufferUsages::STORAGE | BufferUsages::COPY_DST | BufferUsages::COPY_SRC;
    let buffers: Vec<_> = contents.iter().map(|_| buffer("b", SIZE, usage)).collect();
    for (buffer, content) in buffers.iter().zip(contents) {
        content.iter().for_each(|content| queue.write_buffer(buffer, 0, content));
    }
    let bindings: Vec<_> =
        (0..).zip(&buffers).map(|(binding, b)| wgpu::BindGroupEntry { binding, resource: b.as_entire_binding() }).collect();
    let group = device.create_bind_group(&wgpu::BindGroupDescriptor { label: None, layout: &layout, entries: &bindings });
    let read = buffer("read", SIZE, BufferUsages::MAP_READ | BufferUsages::COPY_DST);
    let mut encoder = device.create_command_encoder(&Default::default());
    {
        let mut pass = encoder.begin_compute_pass(&Default::default());
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(groups, 1, 1);
    }
    encoder.copy_buffer_to_buffer(&buffers[0], 0, &read, 0, SIZE);
    queue.submit([encoder.finish()]);
    read.slice(..).map_async(wgpu::MapMode::Read, |result| result.expect("mapped"));
    device.poll(wgpu::PollType::Poll).expect("polled");
    read.slice(..).get_mapped_range().expect("mapped").to_vec()
}
