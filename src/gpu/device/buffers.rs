//! New buffers, or kept ones of the same size.

use wgpu::{BufferDescriptor, BufferUsages};

use crate::{
    base::error::{Result, SvdError},
    gpu::device::context::GpuContext,
};

pub(crate) use crate::gpu::device::pool::{Bindings, Buffer};

/// The usages of [`storage`].
pub(crate) const STORAGE: BufferUsages = BufferUsages::STORAGE.union(BufferUsages::COPY_DST).union(BufferUsages::COPY_SRC);

/// A buffer for shaders and copies, of zeros, after checking its size against the device's limits.
pub(crate) fn storage(context: &GpuContext, what: &'static str, bytes: u64) -> Result<Buffer> {
    buffer(context, what, bytes, STORAGE)
}

/// A buffer, after checking its size against the device's limits.
pub(crate) fn buffer(context: &GpuContext, what: &'static str, bytes: u64, usage: BufferUsages) -> Result<Buffer> {
    let available =
        if usage.contains(BufferUsages::STORAGE) { context.max_buffer_bytes() } else { context.limits().max_buffer_size };
    // A binding must not be empty.
    let size = bytes.max(16).checked_next_multiple_of(16).unwrap_or(u64::MAX);
    if size > available {
        return Err(SvdError::TooLarge { what, needed: bytes, available, adapter: context.adapter_name().to_owned() });
    }
    let descriptor = BufferDescriptor { label: Some(what), size, usage, mapped_at_creation: false };
    let create = || context.scoped(what, || Ok(context.device().create_buffer(&descriptor)));
    let pool = context.pool();
    let buffer = match pool.take(size, usage) {
        Some(buffer) => buffer,
        None => match create() {
            Err(SvdError::OutOfMemory { .. }) if pool.trim() > 0 => {
                // Their memory is free once the submissions that use them are done.
                context.wait_for_all()?;
                create()?
            }
            created => created?,
        },
    };
    Ok(Buffer::of_pool(buffer, pool))
}
