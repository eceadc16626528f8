//! The objects of a device.

use super::*;

impl DeviceInterface for Device {
    fn features(&self) -> wgpu::Features {
        self.0.features
    }
    fn limits(&self) -> wgpu::Limits {
        self.0.limits.clone()
    }
    fn adapter_info(&self) -> wgpu::AdapterInfo {
        self.0.info.clone()
    }

    fn create_shader_module(&self, desc: wgpu::ShaderModuleDescriptor<'_>, _: wgpu::ShaderRuntimeChecks) -> DispatchShaderModule {
        let label = desc.label.unwrap_or("?").to_owned();
        let wgpu::ShaderSource::Wgsl(source) = desc.source else { panic!("a shader that is no WGSL") };
        let mut source = source.into_owned();
        self.0.sink.note_barriers(&label, &source);
        if let Some(Mutation { from, to, nth, .. }) =
            self.0.mutation.as_ref().filter(|m| m.shader.is_empty() || m.shader == label)
        {
            self.0.sink.mutated.fetch_or(source.contains(from.as_str()), std::sync::atomic::Ordering::Relaxed);
            let at = nth.and_then(|n| source.match_indices(from.as_str()).nth(n)).map(|(at, _)| at);
            match (nth, at) {
                (None, _) => source = source.replace(from, to),
                (_, Some(at)) => source.replace_range(at..at + from.len(), to),
                _ => {}
            }
        }
        DispatchShaderModule::custom(match programs::module(label.clone(), source, self.0.features) {
            Ok(module) => ShaderModule(Some(module)),
            Err(error) => {
                self.0.api(false, || format!("shader {label}: {error}"));
                ShaderModule(None)
            }
        })
    }

    // SAFETY: it never returns.
    unsafe fn create_shader_module_passthrough(&self, _: &wgpu::ShaderModuleDescriptorPassthrough<'_>) -> DispatchShaderModule {
        only_computes()
    }

    fn create_bind_group_layout(&self, desc: &wgpu::BindGroupLayoutDescriptor<'_>) -> DispatchBindGroupLayout {
        let count = |wanted: fn(&wgpu::BufferBindingType) -> bool| {
            let of = |e: &&wgpu::BindGroupLayoutEntry| matches!(&e.ty, wgpu::BindingType::Buffer { ty, .. } if wanted(ty));
            desc.entries.iter().filter(of).count() as u32
        };
        let storage = count(|ty| matches!(ty, wgpu::BufferBindingType::Storage { .. }));
        let uniform = count(|ty| matches!(ty, wgpu::BufferBindingType::Uniform));
        let limits = &self.0.limits;
        self.0.api(storage <= limits.max_storage_buffers_per_shader_stage, || {
            format!("{storage} storage buffers: {:?}", desc.label)
        });
        self.0.api(uniform <= limits.max_uniform_buffers_per_shader_stage, || {
            format!("{uniform} uniform buffers: {:?}", desc.label)
        });
        DispatchBindGroupLayout::custom(GroupLayout(Arc::new(desc.entries.to_vec())))
    }

    fn create_bind_group(&self, desc: &wgpu::BindGroupDescriptor<'_>) -> DispatchBindGroup {
        let layout = desc.layout.as_custom::<GroupLayout>().expect("a layout of another backend").clone();
        let (api, limits) = (&self.0, &self.0.limits);
        api.api(layout.0.len() == desc.entries.len(), || {
            format!("{} bindings for a layout of {}", desc.entries.len(), layout.0.len())
        });
        let mut entries = Vec::new();
        for entry in desc.entries {
            let wgpu::BindingResource::Buffer(b) = &entry.resource else { panic!("a binding that is no buffer") };
            let buffer = b.buffer.as_custom::<Buffer>().expect("a buffer of another backend").clone();
            let size = b.size.map_or(buffer.0.size.saturating_sub(b.offset), |size| size.get());
            let what = || format!("binding {} ({})", entry.binding, buffer.0.label);
            api.api(Arc::ptr_eq(&buffer.0.device, &self.0), || format!("{}: a buffer of another device", what()));
            api.api(size > 0 && b.offset + size <= buffer.0.size, || format!("{}: outside the buffer", what()));
            let ty = layout.0.iter().find(|e| e.binding == entry.binding).map(|e| e.ty);
            match ty {
                Some(wgpu::BindingType::Buffer { ty: wgpu::BufferBindingType::Storage { .. }, .. }) => {
                    api.api(buffer.0.usage.contains(wgpu::BufferUsages::STORAGE), || format!("{}: no STORAGE", what()));
                    api.api(size <= limits.max_storage_buffer_binding_size, || format!("{}: {size} bytes", what()));
                    api.api(size % 4 == 0, || format!("{}: {size} bytes", what()));
                    api.api(b.offset % u64::from(limits.min_storage_buffer_offset_alignment) == 0, || {
                        format!("{}: offset", what())
                    });
                }
                Some(wgpu::BindingType::Buffer { ty: wgpu::BufferBindingType::Uniform, .. }) => {
                    api.api(buffer.0.usage.contains(wgpu::BufferUsages::UNIFORM), || format!("{}: no UNIFORM", what()));
                    api.api(size <= limits.max_uniform_buffer_binding_size, || format!("{}: {size} bytes", what()));
                    api.api(b.offset % u64::from(limits.min_uniform_buffer_offset_alignment) == 0, || {
                        format!("{}: offset", what())
                    });
                }
                other => {
                    api.api(false, || format!("{}: the layout has {other:?}", what()));
                }
            }
            entries.push((entry.binding, buffer, b.offset, size));
        }
        DispatchBindGroup::custom(Group(Arc::new(GroupInner { entries, layout })))
    }

    fn create_pipeline_layout(&self, desc: &wgpu::PipelineLayoutDescriptor<'_>) -> DispatchPipelineLayout {
        let layouts = desc.bind_group_layouts.iter().flatten();
        let groups = layouts.map(|l| l.as_custom::<GroupLayout>().expect("a layout of another backend").clone()).collect();
        let immediates = desc.immediate_size;
        let allowed = if self.0.features.contains(wgpu::Features::IMMEDIATES) { self.0.limits.max_immediate_size } else { 0 };
        self.0.api(immediates <= allowed && immediates.is_multiple_of(4), || {
            format!("{immediates} bytes of immediates of {allowed}")
        });
        DispatchPipelineLayout::custom(PipelineLayout { groups: Arc::new(groups), immediates })
    }

    fn create_render_pipeline(&self, _: &wgpu::RenderPipelineDescriptor<'_>) -> DispatchRenderPipeline {
        only_computes()
    }
    fn create_mesh_pipeline(&self, _: &wgpu::MeshPipelineDescriptor<'_>) -> DispatchRenderPipeline {
        only_computes()
    }

    fn create_compute_pipeline(&self, desc: &wgpu::ComputePipelineDescriptor<'_>) -> DispatchComputePipeline {
        let none = || DispatchComputePipeline::custom(Pipeline(None));
        let module = desc.module.as_custom::<ShaderModule>().expect("a shader of another backend");
        let Some(module) = &module.0 else { return none() };
        let layout = desc.layout.expect("pipelines have layouts").as_custom::<PipelineLayout>().expect("another backend").clone();
        let program = match programs::program(module, desc.entry_point, self.0.config.loose) {
            Ok(program) => program,
            Err(error) => {
                self.0.api(false, || format!("shader {} is not understood: {error}", module.label));
                return none();
            }
        };
        let (api, limits, name) = (&self.0, &self.0.limits, &module.label);
        let [x, y, z] = program.size;
        api.api(x * y * z <= limits.max_compute_invocations_per_workgroup, || format!("{name}: {} threads", x * y * z));
        api.api(x <= limits.max_compute_workgroup_size_x && y <= limits.max_compute_workgroup_size_y, || {
            format!("{name}: {x} x {y}")
        });
        api.api(z <= limits.max_compute_workgroup_size_z, || format!("{name}: z {z}"));
        let bytes: u32 = program.workgroup.iter().map(|w| w.bytes.next_multiple_of(16)).sum();
        api.api(bytes <= limits.max_compute_workgroup_storage_size, || {
            format!("{name}: {bytes} bytes of workgroup memory of {}", limits.max_compute_workgroup_storage_size)
        });
        api.api(program.immediate_bytes <= layout.immediates, || {
            format!("{name}: {} bytes of immediates", program.immediate_bytes)
        });
        for bind in &program.binds {
            let entry = layout.groups.get(bind.group as usize).and_then(|g| g.0.iter().find(|e| e.binding == bind.binding));
            let fits = matches!(
                entry.map(|e| (e.ty, e.visibility)),
                Some((wgpu::BindingType::Buffer { ty, .. }, seen)) if seen.contains(wgpu::ShaderStages::COMPUTE) && match ty {
                    wgpu::BufferBindingType::Uniform => bind.uniform,
                    wgpu::BufferBindingType::Storage { read_only } => !bind.uniform && read_only != bind.writable,
                }
            );
            api.api(fits, || format!("{name}: binding {} ({}) is not in the layout", bind.binding, bind.name));
        }
        let zero = desc.compilation_options.zero_initialize_workgroup_memory;
        DispatchComputePipeline::custom(Pipeline(Some(Arc::new(PipelineInner { program, layout, zero }))))
    }

    // SAFETY: the cache is empty, whatever its descriptor says.
    unsafe fn create_pipeline_cache(&self, _: &wgpu::PipelineCacheDescriptor<'_>) -> DispatchPipelineCache {
        DispatchPipelineCache::custom(PipelineCache)
    }

    fn create_buffer(&self, desc: &wgpu::BufferDescriptor<'_>) -> DispatchBuffer {
        let label = desc.label.unwrap_or("?").to_owned();
        let (size, usage) = (desc.size, desc.usage);
        self.0.api(size <= self.0.limits.max_buffer_size, || format!("buffer {label}: {size} bytes"));
        let maps = usage & (wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::MAP_WRITE);
        self.0.api(
            maps.is_empty()
                || (usage - maps) == wgpu::BufferUsages::COPY_DST
                || (usage - maps) == wgpu::BufferUsages::COPY_SRC
                || (usage - maps).is_empty(),
            || format!("buffer {label}: {usage:?}"),
        );
        // Multiples of 4, as in WebGPU's backends.
        let bytes = size.next_multiple_of(4) as usize;
        let state = BufState { data: vec![0; bytes], written: vec![0; bytes], cells: Vec::new() };
        let mapped = desc.mapped_at_creation.then_some(0..size);
        assert!(mapped.is_none(), "buffers mapped at creation");
        DispatchBuffer::custom(Buffer(Arc::new(BufInner {
            device: self.0.clone(),
            label,
            size,
            usage,
            state: Mutex::new(state),
            mapped: Mutex::new(mapped),
        })))
    }

    fn create_texture(&self, _: &wgpu::TextureDescriptor<'_>) -> DispatchTexture {
        only_computes()
    }
    fn create_external_texture(
        &self,
        _: &wgpu::ExternalTextureDescriptor<'_>,
        _: &[&wgpu::TextureView],
    ) -> DispatchExternalTexture {
        only_computes()
    }
    fn create_blas(
        &self,
        _: &wgpu::CreateBlasDescriptor<'_>,
        _: wgpu::BlasGeometrySizeDescriptors,
    ) -> (Option<u64>, DispatchBlas) {
        only_computes()
    }
    fn create_tlas(&self, _: &wgpu::CreateTlasDescriptor<'_>) -> DispatchTlas {
        only_computes()
    }
    fn create_sampler(&self, _: &wgpu::SamplerDescriptor<'_>) -> DispatchSampler {
        only_computes()
    }

    fn create_query_set(&self, desc: &wgpu::QuerySetDescriptor<'_>) -> DispatchQuerySet {
        DispatchQuerySet::custom(QuerySet(Arc::new(Mutex::new(vec![0; desc.count as usize]))))
    }

    fn create_command_encoder(&self, _: &wgpu::CommandEncoderDescriptor<'_>) -> DispatchCommandEncoder {
        DispatchCommandEncoder::custom(Encoder { device: self.0.clone(), commands: Arc::default() })
    }
    fn create_render_bundle_encoder(&self, _: &wgpu::RenderBundleEncoderDescriptor<'_>) -> DispatchRenderBundleEncoder {
        only_computes()
    }

    fn set_device_lost_callback(&self, _: BoxDeviceLostCallback) {}
    fn on_uncaptured_error(&self, _: Arc<dyn wgpu::UncapturedErrorHandler>) {}

    fn push_error_scope(&self, filter: wgpu::ErrorFilter) -> u32 {
        SCOPES.with_borrow_mut(|scopes| {
            scopes.push(filter);
            scopes.len() as u32 - 1
        })
    }
    fn pop_error_scope(&self, index: u32) -> Pin<Box<dyn PopErrorScopeFuture>> {
        let filter = SCOPES.with_borrow_mut(|scopes| {
            assert_eq!(index as usize + 1, scopes.len(), "error scopes out of order");
            scopes.pop()
        });
        let error = match filter {
            Some(wgpu::ErrorFilter::Validation) => ERRORS.with_borrow_mut(|errors| {
                let first = (!errors.is_empty()).then(|| errors.remove(0));
                errors.clear();
                first
            }),
            _ => None,
        };
        Box::pin(std::future::ready(error))
    }

    // SAFETY: it does nothing.
    unsafe fn start_graphics_debugger_capture(&self) {}
    // SAFETY: it does nothing.
    unsafe fn stop_graphics_debugger_capture(&self) {}

    fn poll(&self, _: wgpu::wgt::PollType<u64>) -> Result<wgpu::PollStatus, wgpu::PollError> {
        let waiting = std::mem::take(&mut *lock(&self.0.waiting));
        for (callback, works) in waiting {
            callback(if works { Ok(()) } else { Err(wgpu::BufferAsyncError) });
        }
        Ok(wgpu::PollStatus::QueueEmpty)
    }

    fn get_internal_counters(&self) -> wgpu::InternalCounters {
        wgpu::InternalCounters::default()
    }
    fn generate_allocator_report(&self) -> Option<wgpu::AllocatorReport> {
        None
    }
    fn destroy(&self) {}
}
