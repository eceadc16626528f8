//! Submissions.

use crate::vm::{self, Launch, View};

use super::*;

impl Inner {
    fn check_write(&self, buffer: &Buffer, offset: u64, size: u64) -> bool {
        let b = &buffer.0;
        let name = &b.label;
        self.api(b.usage.contains(wgpu::BufferUsages::COPY_DST), || format!("a write to {name} without COPY_DST"))
            && self.api(offset.is_multiple_of(4) && size.is_multiple_of(4), || {
                format!("a write of {size} bytes at {offset} to {name}")
            })
            && self.api(offset + size <= b.size, || format!("a write of {size} bytes at {offset} of {} to {name}", b.size))
            && self.api(lock(&b.mapped).is_none(), || format!("a write to {name}, which is mapped"))
    }

    fn write(&self, buffer: &Buffer, offset: u64, data: &[u8]) {
        if self.check_write(buffer, offset, data.len() as u64) {
            // Not while a submission runs.
            let _exec = lock(&self.exec);
            let mut state = lock(&buffer.0.state);
            let range = offset as usize..offset as usize + data.len();
            state.data[range.clone()].copy_from_slice(data);
            state.written[range].fill(1);
        }
    }

    fn run(&self, exec: &mut Exec, command: Command) {
        match command {
            Command::Dispatch { pipeline, group, offsets, immediates, grid } => {
                self.dispatch(exec, &pipeline, &group, &offsets, &immediates, grid);
            }
            Command::Copy { from, from_at, to, to_at, size } => {
                let (a, b) = (&from.0, &to.0);
                let holds = self.api(!Arc::ptr_eq(a, b), || format!("a copy within {}", a.label))
                    && self.api(from_at % 4 == 0 && to_at % 4 == 0 && size % 4 == 0, || format!("a copy of {size} bytes"))
                    && self
                        .api(from_at + size <= a.size && to_at + size <= b.size, || format!("a copy of {size} bytes, too many"))
                    && self.api(a.usage.contains(wgpu::BufferUsages::COPY_SRC), || format!("a copy from {}", a.label))
                    && self.api(b.usage.contains(wgpu::BufferUsages::COPY_DST), || format!("a copy to {}", b.label))
                    && self.api(lock(&a.mapped).is_none() && lock(&b.mapped).is_none(), || format!("{} is mapped", b.label));
                if holds {
                    let (a, mut b) = (lock(&a.state), lock(&b.state));
                    let source = from_at as usize..(from_at + size) as usize;
                    let target = to_at as usize..(to_at + size) as usize;
                    b.data[target.clone()].copy_from_slice(&a.data[source.clone()]);
                    b.written[target].copy_from_slice(&a.written[source]);
                }
            }
            Command::Clear { buffer, at, size } => {
                if self.check_write(&buffer, at, size) {
                    let mut state = lock(&buffer.0.state);
                    state.data[at as usize..(at + size) as usize].fill(0);
                    state.written[at as usize..(at + size) as usize].fill(1);
                }
            }
            Command::Stamp { set, at } => {
                exec.ticks += 1000;
                lock(&set.0)[at as usize] = exec.ticks;
            }
            Command::Resolve { set, first, count, to, at } => {
                let bytes: Vec<u8> =
                    lock(&set.0)[first as usize..(first + count) as usize].iter().flat_map(|x| x.to_le_bytes()).collect();
                self.api(to.0.usage.contains(wgpu::BufferUsages::QUERY_RESOLVE), || "resolve".into());
                self.api(at % 256 == 0 && at + bytes.len() as u64 <= to.0.size, || "resolve at".into());
                let mut state = lock(&to.0.state);
                state.data[at as usize..at as usize + bytes.len()].copy_from_slice(&bytes);
                state.written[at as usize..at as usize + bytes.len()].fill(1);
            }
        }
    }

    fn dispatch(
        &self,
        exec: &mut Exec,
        pipeline: &PipelineInner,
        group: &Group,
        offsets: &[u32],
        immediates: &[u8],
        grid: [u32; 3],
    ) {
        let (program, name) = (&pipeline.program, &pipeline.program.label);
        let limits = &self.limits;
        self.api(grid.iter().all(|&x| x <= limits.max_compute_workgroups_per_dimension), || format!("{name}: grid {grid:?}"));
        self.api(immediates.len() as u32 >= program.immediate_bytes, || {
            format!("{name}: {} bytes of immediates are set of {}", immediates.len(), program.immediate_bytes)
        });
        let dynamic: Vec<u32> = {
            let entries = pipeline.layout.groups.first().map(|g| g.0.iter()).into_iter().flatten();
            let is = |e: &&wgpu::BindGroupLayoutEntry| matches!(e.ty, wgpu::BindingType::Buffer { has_dynamic_offset: true, .. });
            let mut dynamic: Vec<u32> = entries.filter(is).map(|e| e.binding).collect();
            dynamic.sort_unstable();
            dynamic
        };
        let same_layout = pipeline.layout.groups.first().is_some_and(|l| *l.0 == *group.0.layout.0);
        self.api(same_layout, || format!("{name}: a bind group of another layout"));
        self.api(dynamic.len() == offsets.len(), || format!("{name}: {} dynamic offsets", offsets.len()));
        let mut buffers: Vec<Buffer> = Vec::new();
        let mut views = Vec::new();
        let mut ranges: Vec<(usize, u64, u64, bool, u32)> = Vec::new();
        for bind in &program.binds {
            let Some((_, buffer, offset, size)) = group.0.entries.iter().find(|e| e.0 == bind.binding) else {
                self.api(false, || format!("{name}: binding {} is not bound", bind.binding));
                return;
            };
            let extra = dynamic.iter().position(|&d| d == bind.binding).and_then(|k| offsets.get(k)).copied().unwrap_or(0);
            if extra != 0 {
                self.api(extra % limits.min_uniform_buffer_offset_alignment == 0, || format!("{name}: dynamic offset {extra}"));
            }
            let offset = offset + u64::from(extra);
            if !self.api(offset + size <= buffer.0.size, || format!("{name}: {} is bound beyond its end", buffer.0.label))
                || !self.api(lock(&buffer.0.mapped).is_none(), || format!("{name}: {} is mapped", buffer.0.label))
            {
                return;
            }
            self.api(*size >= u64::from(bind.least), || format!("{name}: {size} bytes for {}", bind.name));
            let at = buffers.iter().position(|b| Arc::ptr_eq(&b.0, &buffer.0)).unwrap_or_else(|| {
                buffers.push(buffer.clone());
                buffers.len() - 1
            });
            views.push(View {
                buffer: at,
                base: offset as usize,
                len: *size as usize,
                grain: bind.grain,
                coherent: bind.coherent,
            });
            ranges.push((at, offset, offset + size, bind.writable, bind.binding));
        }
        for (k, a) in ranges.iter().enumerate() {
            for b in &ranges[..k] {
                if a.0 == b.0 && a.1 < b.2 && b.1 < a.2 && (a.3 || b.3) {
                    let text = format!("bindings {} and {} of {}", a.4, b.4, buffers[a.0].0.label);
                    self.sink.say(Kind::Aliased, name, text, &self.case);
                }
            }
        }
        // One grain for each buffer, and one that bindings start at.
        for at in 0..buffers.len() {
            let of = || views.iter().filter(|v| v.buffer == at);
            let grain = of().map(|v| v.grain.min((v.base as u32 | 1 << 6).trailing_zeros())).min().unwrap_or(2);
            views.iter_mut().filter(|v| v.buffer == at).for_each(|v| v.grain = grain);
        }
        let mut guards: Vec<_> = buffers.iter().map(|b| lock(&b.0.state)).collect();
        for p in &program.preloads {
            let Some(bind) = p.binding else { continue };
            let View { buffer, base, .. } = views[bind as usize];
            let at = base + p.off as usize;
            let there = guards[buffer].written.get(at..at + p.width as usize).is_some_and(|w| !w.contains(&0));
            self.api(there, || format!("{name}: a uniform that nobody wrote"));
        }
        let found = vm::launch(Launch {
            program,
            grid,
            immediates,
            buffers: guards.iter_mut().map(|g| &mut **g).collect(),
            views: &views,
            config: &self.config,
            rng: &mut exec.rng,
            epoch: &mut exec.epoch,
            scratch: &mut exec.scratch,
            zero_workgroup_memory: pipeline.zero,
            has_coherent: self.features.contains(wgpu::Features::MEMORY_DECORATION_COHERENT),
        });
        drop(guards);
        let groups = grid.iter().map(|&x| u64::from(x)).product::<u64>();
        let threads = u64::from(program.size.iter().product::<u32>());
        let mut ran = lock(&self.sink.ran);
        let counts = ran.entry(name.clone()).or_default();
        *counts = [counts[0] + 1, counts[1] + groups, counts[2] + groups * threads];
        drop(ran);
        if !found.is_empty() {
            let words: Vec<u32> = if program.immediate_bytes > 0 {
                immediates.chunks_exact(4).map(|x| u32::from_le_bytes(x.try_into().unwrap())).collect()
            } else {
                Vec::new()
            };
            let what = format!("{threads} threads, grid {grid:?}, parameters {words:?}");
            self.sink.dispatch(program, found, &self.case, &what);
        }
    }
}

impl QueueInterface for Queue {
    fn write_buffer(&self, buffer: &DispatchBuffer, offset: u64, data: &[u8]) {
        self.0.write(own(buffer), offset, data);
    }
    fn create_staging_buffer(&self, size: wgpu::BufferSize) -> Option<DispatchQueueWriteBuffer> {
        // Not a number, unless the caller writes it.
        Some(DispatchQueueWriteBuffer::custom(Staging(vec![0xFF; size.get() as usize])))
    }
    fn validate_write_buffer(&self, buffer: &DispatchBuffer, offset: u64, size: wgpu::BufferSize) -> Option<()> {
        self.0.check_write(own(buffer), offset, size.get()).then_some(())
    }
    fn write_staging_buffer(&self, buffer: &DispatchBuffer, offset: u64, staging: &DispatchQueueWriteBuffer) {
        let staging = staging.as_custom::<Staging>().expect("staging memory of another backend");
        self.0.write(own(buffer), offset, &staging.0);
    }
    fn write_texture(&self, _: wgpu::TexelCopyTextureInfo<'_>, _: &[u8], _: wgpu::TexelCopyBufferLayout, _: wgpu::Extent3d) {
        only_computes()
    }

    fn submit(&self, command_buffers: &mut dyn Iterator<Item = DispatchCommandBuffer>) -> u64 {
        let mut exec = lock(&self.0.exec);
        for buffer in command_buffers {
            let buffer = buffer.as_custom::<CommandBuffer>().expect("a command buffer of another backend");
            for command in std::mem::take(&mut *lock(&buffer.0)) {
                self.0.run(&mut exec, command);
            }
        }
        exec.submissions += 1;
        exec.submissions
    }

    fn get_timestamp_period(&self) -> f32 {
        1.0
    }
    fn on_submitted_work_done(&self, callback: BoxSubmittedWorkDoneCallback) {
        callback();
    }
    fn compact_blas(&self, _: &DispatchBlas) -> (Option<u64>, DispatchBlas) {
        only_computes()
    }
    fn present(&self, _: &DispatchSurfaceOutputDetail) {}
}
