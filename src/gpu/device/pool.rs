//! The buffers of earlier calls, kept for later ones.
//!
//! A buffer goes back to the context's [`Pool`] when nothing holds it: no matrix, and no bind group of a dispatch that has not been submitted. What was
//! submitted before may still run: the queue runs in order. A storage buffer is zeroed when it is used again, as a new one is: at the head of
//! the next submission, or before the next upload.

use std::{
    collections::VecDeque,
    ops::Deref,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use wgpu::{BindGroup, BufferUsages, CommandEncoder, DeviceType};

/// Bytes of the kept buffers, at most, on a device with memory of its own, and on others.
const KEPT_BYTES: [u64; 2] = [1 << 30, 128 << 20];
/// A buffer that is larger than this part of them is not kept: what is computed with it takes far longer than its allocation.
const LARGEST: u64 = 8;

/// A buffer. Its last copy gives it back.
#[derive(Clone)]
pub(crate) struct Buffer(Arc<Owned>);

struct Owned {
    buffer: wgpu::Buffer,
    /// Where it goes back to; nowhere, if it is the caller's.
    pool: Option<Arc<Pool>>,
    /// Whether it goes back: not while it may be mapped, nor if a caller may hold it.
    goes_back: AtomicBool,
}

impl Buffer {
    /// A buffer that the caller made.
    pub fn of_caller(buffer: wgpu::Buffer) -> Self {
        Buffer(Arc::new(Owned { buffer, pool: None, goes_back: AtomicBool::new(false) }))
    }

    /// A buffer that goes back to a pool.
    pub fn of_pool(buffer: wgpu::Buffer, pool: &Arc<Pool>) -> Self {
        Buffer(Arc::new(Owned { buffer, pool: Some(pool.clone()), goes_back: AtomicBool::new(true) }))
    }

    /// Whether it goes back to the pool at the end. Otherwise it is dropped.
    pub fn goes_back(&self, goes_back: bool) {
        self.0.goes_back.store(goes_back, Ordering::Relaxed);
    }
}

impl Deref for Buffer {
    type Target = wgpu::Buffer;

    fn deref(&self) -> &wgpu::Buffer {
        &self.0.buffer
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.take().filter(|_| *self.goes_back.get_mut()) {
            pool.keep(self.buffer.clone());
        }
    }
}

/// A bind group. As long as there is a copy, its buffers are used for nothing else.
#[derive(Clone)]
pub(crate) struct Bindings {
    pub group: BindGroup,
    _buffers: Arc<[Buffer]>,
}

impl Bindings {
    pub fn new(group: BindGroup, buffers: impl Iterator<Item = Buffer>) -> Self {
        Bindings { group, _buffers: buffers.collect() }
    }
}

/// The buffers that no call uses, the last used one at the end, and their bytes.
#[derive(Default)]
struct Kept {
    buffers: VecDeque<wgpu::Buffer>,
    bytes: u64,
}

/// The buffers of a context that are kept.
pub(crate) struct Pool {
    most: u64,
    kept: Mutex<Kept>,
    /// Those that are used again, and have not been zeroed.
    stale: Mutex<Vec<wgpu::Buffer>>,
}

impl Pool {
    /// A pool for a device of this type. In a browser it keeps nothing: there a lack of memory is reported too late to make room.
    pub fn of(device: DeviceType) -> Arc<Self> {
        let [own, shared] = KEPT_BYTES;
        let most = match device {
            _ if cfg!(target_family = "wasm") => 0,
            DeviceType::DiscreteGpu | DeviceType::VirtualGpu => own,
            DeviceType::IntegratedGpu | DeviceType::Cpu | DeviceType::Other => shared,
        };
        Arc::new(Pool { most, kept: Mutex::default(), stale: Mutex::default() })
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stale(&self) -> MutexGuard<'_, Vec<wgpu::Buffer>> {
        self.stale.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, buffer: wgpu::Buffer) {
        let bytes = buffer.size();
        if bytes > self.most / LARGEST {
            return;
        }
        let kept = &mut *self.kept();
        kept.bytes += bytes;
        kept.buffers.push_back(buffer);
        while kept.bytes > self.most
            && let Some(oldest) = kept.buffers.pop_front()
        {
            kept.bytes -= oldest.size();
        }
    }

    /// A kept buffer of this size for these usages, which from now on is one of `stale` if it is for storage.
    pub fn take(&self, size: u64, usage: BufferUsages) -> Option<wgpu::Buffer> {
        let buffer = {
            let kept = &mut *self.kept();
            let at = kept.buffers.iter().rposition(|buffer| buffer.size() == size && buffer.usage() == usage)?;
            kept.bytes -= size;
            kept.buffers.remove(at)?
        };
        if usage.contains(BufferUsages::STORAGE) {
            self.stale().push(buffer.clone());
        }
        Some(buffer)
    }

    /// Drops the kept buffers. Returns their bytes.
    pub fn trim(&self) -> u64 {
        std::mem::take(&mut *self.kept()).bytes
    }

    /// The buffers to be zeroed before others are used, by a submission that is made while this exists.
    pub fn zeroing(&self) -> Zeroing<'_> {
        Zeroing(self.stale())
    }
}

/// What a submission zeroes first. Others wait for it, so that none writes what this one zeroes.
pub(crate) struct Zeroing<'a>(MutexGuard<'a, Vec<wgpu::Buffer>>);

impl Zeroing<'_> {
    /// Whether this buffer is one of them.
    pub fn contains(&self, buffer: &wgpu::Buffer) -> bool {
        self.0.contains(buffer)
    }

    /// This buffer is not one of them any more.
    pub fn remove(&mut self, buffer: &wgpu::Buffer) {
        self.0.retain(|stale| stale != buffer);
    }

    pub fn encode(&self, encoder: &mut CommandEncoder) {
        self.0.iter().for_each(|buffer| encoder.clear_buffer(buffer, 0, None));
    }

    /// To be called once they have been submitted without an error.
    pub fn end(mut self) {
        self.0.clear();
    }
}
