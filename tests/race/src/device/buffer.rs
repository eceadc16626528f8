//! What the host reads and writes.

use super::*;

impl BufferInterface for Buffer {
    fn map_async(&self, mode: wgpu::MapMode, range: Range<u64>, callback: BufferMapCallback) {
        let b = &self.0;
        let wanted = match mode {
            wgpu::MapMode::Read => wgpu::BufferUsages::MAP_READ,
            wgpu::MapMode::Write => wgpu::BufferUsages::MAP_WRITE,
        };
        let works = b.device.api(b.usage.contains(wanted), || format!("{} is mapped without {wanted:?}", b.label))
            && b.device.api(range.end <= b.size && range.start.is_multiple_of(8) && range.end.is_multiple_of(4), || {
                format!("{} at {range:?}", b.label)
            })
            && b.device.api(lock(&b.mapped).is_none(), || format!("{} is mapped twice", b.label));
        if works {
            *lock(&b.mapped) = Some(range);
        }
        lock(&b.device.waiting).push((callback, works));
    }
    fn get_mapped_range(&self, range: Range<u64>) -> Result<DispatchBufferMappedRange, wgpu::MapRangeError> {
        let b = &self.0;
        let mapped = lock(&b.mapped).clone();
        b.device
            .api(mapped.is_some_and(|m| m.start <= range.start && range.end <= m.end), || format!("{} is not mapped", b.label));
        let state = lock(&b.state);
        let range = range.start as usize..range.end as usize;
        if state.written[range.clone()].contains(&0) {
            b.device.sink.say(Kind::UnwrittenReadBack, "", format!("through {}", b.label), &b.device.case);
        }
        Ok(DispatchBufferMappedRange::custom(Mapped(state.data[range].to_vec())))
    }
    fn unmap(&self) {
        *lock(&self.0.mapped) = None;
    }
    fn destroy(&self) {}
}

impl BufferMappedRangeInterface for Mapped {
    fn len(&self) -> usize {
        self.0.len()
    }
    // SAFETY: the bytes are this value's own, so no caller can break anything.
    unsafe fn read_slice(&self) -> &[u8] {
        &self.0
    }
    // SAFETY: it never returns.
    unsafe fn write_slice(&mut self) -> wgpu::WriteOnly<'_, [u8]> {
        only_computes()
    }
}

impl QueueWriteBufferInterface for Staging {
    fn len(&self) -> usize {
        self.0.len()
    }
    // SAFETY: as for `read_slice`.
    unsafe fn write_slice(&mut self) -> wgpu::WriteOnly<'_, [u8]> {
        wgpu::WriteOnly::from_mut(&mut self.0[..])
    }
}
