//! GPU timestamps before and after each run of dispatches of one kernel.

use wgpu::{BufferUsages, CommandEncoder, ComputePassTimestampWrites, Features, QuerySet, QuerySetDescriptor, QueryType, Queue};

use crate::{
    base::error::Result,
    gpu::device::{
        buffers::{Buffer, buffer},
        context::GpuContext,
    },
};

/// Bytes of a timestamp.
const STAMP: usize = 8;

/// Timestamps of a submission's passes.
pub(crate) struct Timer {
    stamps: QuerySet,
    resolved: Buffer,
}

impl Timer {
    /// A timer for at most `passes` passes in a submission; None if the device has no timestamps.
    pub fn new(context: &GpuContext, passes: usize) -> Result<Option<Timer>> {
        if !context.device().features().contains(Features::TIMESTAMP_QUERY) {
            return Ok(None);
        }
        let (count, bytes) = (2 * passes as u32, (2 * passes * STAMP) as u64);
        let descriptor = QuerySetDescriptor { label: Some("kernels"), ty: QueryType::Timestamp, count };
        Ok(Some(Timer {
            stamps: context.scoped("time stamps", || Ok(context.device().create_query_set(&descriptor)))?,
            resolved: buffer(context, "time stamps", bytes, BufferUsages::QUERY_RESOLVE | BufferUsages::COPY_SRC)?,
        }))
    }

    /// The timestamps of pass `k`.
    pub fn writes(&self, k: usize) -> ComputePassTimestampWrites<'_> {
        ComputePassTimestampWrites {
            query_set: &self.stamps,
            beginning_of_pass_write_index: Some(2 * k as u32),
            end_of_pass_write_index: Some(2 * k as u32 + 1),
        }
    }

    /// Bytes of the timestamps of `passes` passes.
    pub fn bytes(&self, passes: usize) -> u64 {
        (2 * passes * STAMP) as u64
    }

    /// A buffer that the timestamps of `passes` passes are read back from.
    pub fn staging(&self, context: &GpuContext, passes: usize) -> Result<Buffer> {
        buffer(context, "time stamps", self.bytes(passes), BufferUsages::COPY_DST | BufferUsages::MAP_READ)
    }

    /// Copies the timestamps of `passes` passes to `staging`.
    pub fn resolve(&self, encoder: &mut CommandEncoder, passes: usize, staging: &Buffer) {
        encoder.resolve_query_set(&self.stamps, 0..2 * passes as u32, &self.resolved, 0);
        encoder.copy_buffer_to_buffer(&self.resolved, 0, staging, 0, self.bytes(passes));
    }

    /// Seconds of each pass, from the timestamps read back.
    pub fn seconds(&self, queue: &Queue, stamps: &[u8]) -> Vec<f64> {
        let tick = f64::from(queue.get_timestamp_period()) * 1e-9;
        let stamps: Vec<u64> = stamps.chunks_exact(STAMP).map(bytemuck::pod_read_unaligned).collect();
        stamps.chunks_exact(2).map(|pass| pass[1].saturating_sub(pass[0]) as f64 * tick).collect()
    }
}
