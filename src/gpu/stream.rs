//! Dispatches, gathered into submissions; data to the device and back.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Mutex, MutexGuard, PoisonError,
        mpsc::{RecvTimeoutError, channel},
    },
    time::Duration,
};

use bytemuck::Pod;
use wgpu::{
    BindGroup, Buffer, BufferDescriptor, BufferSize, BufferUsages, CommandEncoder, CommandEncoderDescriptor,
    ComputePassDescriptor, ComputePipeline, MapMode, SubmissionIndex,
};

use super::{context::GpuContext, pipeline::Pipeline, timer::Timer};
use crate::{
    cost::{Kernel, Work},
    error::{Result, SvdError},
    report::Counts,
};

/// Most dispatches in a submission.
const DISPATCHES: usize = 1024;
/// Most estimated flops in a submission of several dispatches: about a tenth of a second on a small GPU.
pub(crate) const FLOPS: u64 = 50_000_000_000;
/// The same on a software adapter.
const FLOPS_SOFTWARE: u64 = 2_000_000_000;
/// Submissions of a call that may wait on the device; with more, the host waits. Enough that the device never does, and few: the queue is
/// first come, first served, so that this is what a small call waits for behind a large one.
const IN_FLIGHT: usize = 3;
/// Bytes sent or read back at a time.
const CHUNK_BYTES: u64 = 16 << 20;
/// Bytes scaled on the host at a time, before they are copied to memory that the device sees.
const PIECE_BYTES: usize = 16 << 10;
/// Longest wait for a callback that is due.
const CALLBACK_PATIENCE: Duration = Duration::from_secs(10);

/// Most parameters that a kernel takes; with room to spare they fit 64 bytes.
const WORDS: usize = 12;

/// A kernel's parameters.
#[derive(Clone, Copy)]
pub(super) struct Parameters {
    words: [u32; WORDS],
    len: usize,
}

impl<const N: usize> From<[u32; N]> for Parameters {
    fn from(values: [u32; N]) -> Self {
        const { assert!(N <= WORDS) };
        let mut words = [0; WORDS];
        words[..N].copy_from_slice(&values);
        Parameters { words, len: N }
    }
}

/// One dispatch.
struct Dispatch {
    kernel: Kernel,
    pipeline: ComputePipeline,
    bindings: BindGroup,
    parameters: Parameters,
    grid: [u32; 3],
}

/// What one call asks of the device, in order.
pub(super) struct Stream {
    context: GpuContext,
    /// Parameters of a submission's dispatches, one slot each, where the device has no immediates.
    uniforms: Option<Buffer>,
    slot_bytes: usize,
    timer: Option<Timer>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    pending: Vec<Dispatch>,
    flops: u64,
    in_flight: VecDeque<SubmissionIndex>,
    counts: Counts,
    kernel_seconds: BTreeMap<Kernel, f64>,
}

impl Stream {
    /// With `timed` each kernel is timed on the device, where it can do that.
    pub fn new(context: &GpuContext, timed: bool) -> Result<Self> {
        let slot_bytes = (context.limits().min_uniform_buffer_offset_alignment as usize).max(4 * WORDS).next_power_of_two();
        let uniforms = if context.immediates() {
            None
        } else {
            let size = (slot_bytes * DISPATCHES) as u64;
            Some(buffer(context, "parameters", size, BufferUsages::UNIFORM | BufferUsages::COPY_DST)?)
        };
        let timer = if timed { Timer::new(context, DISPATCHES)? } else { None };
        Ok(Stream { context: context.clone(), uniforms, slot_bytes, timer, state: Mutex::default() })
    }

    pub fn counts(&self) -> Counts {
        self.state().counts
    }

    /// Seconds that each kernel took so far, where kernels are timed.
    pub fn kernel_seconds(&self) -> Vec<(Kernel, f64)> {
        self.state().kernel_seconds.iter().map(|(&kernel, &seconds)| (kernel, seconds)).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Binds `buffers`, the parameters, and the buffers of a dense matrix.
    pub fn bind(&self, pipeline: &Pipeline, buffers: &[&Buffer], dense: &[Buffer]) -> Result<BindGroup> {
        self.context.scoped("a bind group", || Ok(self.context.bind(pipeline, buffers, self.uniforms.as_ref(), dense)))
    }

    /// Appends one dispatch of `grid` workgroups. Each dimension of the grid must be within the device's limit
    /// (see [`fold`](Self::fold)); an empty grid is nothing to do.
    pub fn dispatch(
        &self,
        pipeline: &Pipeline,
        bindings: &BindGroup,
        parameters: Parameters,
        grid: [u32; 3],
        work: Work,
    ) -> Result<()> {
        if grid.contains(&0) {
            return Ok(());
        }
        let state = &mut *self.state();
        if state.pending.len() == DISPATCHES || (!state.pending.is_empty() && state.flops + work.flops > self.most_flops()) {
            self.submit(state)?;
        }
        state.flops += work.flops;
        let (pipeline, bindings) = (pipeline.compute.clone(), bindings.clone());
        state.pending.push(Dispatch { kernel: work.kernel, pipeline, bindings, parameters, grid });
        Ok(())
    }

    /// Most estimated flops that a submission should have, and so a dispatch that can be made in several.
    pub fn most_flops(&self) -> u64 {
        if self.context.is_software() { FLOPS_SOFTWARE } else { FLOPS }
    }

    /// Most workgroups of a grid in one dimension.
    pub fn most_workgroups(&self) -> usize {
        self.context.limits().max_compute_workgroups_per_dimension as usize
    }

    /// Makes all of a buffer zero.
    pub fn clear(&self, target: &Buffer) -> Result<()> {
        let state = &mut *self.state();
        self.submit(state)?;
        let index = self.context.scoped("clearing a buffer", || {
            let mut encoder = self.context.device().create_command_encoder(&CommandEncoderDescriptor::default());
            encoder.clear_buffer(target, 0, None);
            Ok(self.context.queue().submit([encoder.finish()]))
        })?;
        self.submitted(state, index)
    }

    /// `count` workgroups as two dimensions of a grid, each within the device's limit. The last may reach beyond `count`.
    pub fn fold(&self, count: usize) -> Result<[u32; 2]> {
        let limit = self.context.limits().max_compute_workgroups_per_dimension as usize;
        let rows = count.div_ceil(limit.max(1)).max(1);
        if rows > limit {
            return Err(SvdError::invalid(
                "matrix",
                format!("{count} workgroups, but the device runs at most {limit} x {limit}"),
            ));
        }
        Ok([count.div_ceil(rows) as u32, rows as u32])
    }

    /// Submits what is pending.
    fn submit(&self, state: &mut State) -> Result<()> {
        let pending = std::mem::take(&mut state.pending);
        state.flops = 0;
        if pending.is_empty() {
            return Ok(());
        }
        let index = self.context.scoped("a submission of kernels", || {
            let queue = self.context.queue();
            if let Some(uniforms) = &self.uniforms {
                let mut slots = vec![0u8; pending.len() * self.slot_bytes];
                for (slot, dispatch) in slots.chunks_exact_mut(self.slot_bytes).zip(&pending) {
                    let words: &[u8] = bytemuck::cast_slice(&dispatch.parameters.words);
                    slot[..words.len()].copy_from_slice(words);
                }
                state.counts.bytes_parameters += slots.len() as u64;
                queue.write_buffer(uniforms, 0, &slots);
            }
            let mut encoder = self.context.device().create_command_encoder(&CommandEncoderDescriptor::default());
            // One pass, or where kernels are timed one for each run of dispatches of a kernel.
            let passes = pending.chunk_by(|a, b| self.timer.is_none() || a.kernel == b.kernel);
            let mut slot = 0;
            for (k, dispatches) in passes.enumerate() {
                let timestamp_writes = self.timer.as_ref().map(|timer| timer.writes(k));
                let mut pass = encoder.begin_compute_pass(&ComputePassDescriptor { label: None, timestamp_writes });
                for Dispatch { pipeline, bindings, parameters, grid, .. } in dispatches {
                    pass.set_pipeline(pipeline);
                    if self.uniforms.is_some() {
                        pass.set_bind_group(0, bindings, &[(slot * self.slot_bytes) as u32]);
                    } else {
                        let words = bytemuck::cast_slice(&parameters.words[..parameters.len]);
                        state.counts.bytes_parameters += words.len() as u64;
                        pass.set_bind_group(0, bindings, &[]);
                        pass.set_immediates(0, words);
                    }
                    pass.dispatch_workgroups(grid[0], grid[1], grid[2]);
                    slot += 1;
                }
            }
            Ok(queue.submit([encoder.finish()]))
        })?;
        state.counts.dispatches += pending.len() as u64;
        self.submitted(state, index)?;
        if let Some(timer) = &self.timer {
            let kernels: Vec<_> = pending.chunk_by(|a, b| a.kernel == b.kernel).map(|run| run[0].kernel).collect();
            let seconds = self.copied(
                state,
                &timer.staging,
                timer.bytes(kernels.len()),
                |encoder| timer.resolve(encoder, kernels.len()),
                |bytes| timer.seconds(self.context.queue(), bytes),
            )?;
            for (kernel, seconds) in kernels.into_iter().zip(seconds) {
                *state.kernel_seconds.entry(kernel).or_default() += seconds;
            }
        }
        Ok(())
    }

    /// Counts a submission, and waits for an earlier one where too many are under way.
    fn submitted(&self, state: &mut State, index: SubmissionIndex) -> Result<()> {
        state.counts.submissions += 1;
        state.in_flight.push_back(index);
        if state.in_flight.len() > IN_FLIGHT
            && let Some(oldest) = state.in_flight.pop_front()
        {
            self.context.wait(oldest)?;
        }
        Ok(())
    }

    /// Submits what is pending and waits until all is done.
    pub fn finish(&self) -> Result<()> {
        let state = &mut *self.state();
        self.submit(state)?;
        match state.in_flight.drain(..).next_back() {
            Some(last) => self.context.wait(last),
            None => Ok(()),
        }
    }

    /// Fills a new buffer's first `len` elements: `fill(at, piece)` writes those from `at` on. (Copies are whole words of four bytes, so
    /// that an odd number of f16 is followed by a zero.)
    pub fn upload<T: Pod>(&self, target: &Buffer, len: usize, mut fill: impl FnMut(usize, &mut [T])) -> Result<()> {
        let size = size_of::<T>();
        let chunk = CHUNK_BYTES as usize / size;
        let mut piece = vec![T::zeroed(); (PIECE_BYTES / size).min(len)];
        let state = &mut *self.state();
        for start in (0..len).step_by(chunk) {
            let index = self.context.scoped("an upload", || {
                let count = chunk.min(len - start);
                let bytes = BufferSize::new(whole_words(count * size));
                let view = bytes.and_then(|bytes| self.context.queue().write_buffer_with(target, (start * size) as u64, bytes));
                // Where there is no staging memory, the scope's out-of-memory error comes before this one.
                let mut view = view.ok_or_else(|| SvdError::DeviceLost { reason: "it takes no uploads".into() })?;
                for at in (0..count).step_by(piece.len()) {
                    let piece = &mut piece[..(count - at).min(PIECE_BYTES / size)];
                    fill(start + at, piece);
                    view.slice(at * size..(at + piece.len()) * size).copy_from_slice(bytemuck::cast_slice(piece));
                }
                let padding = whole_words(count * size) as usize - count * size;
                view.slice(count * size..).copy_from_slice(&[0; 4][..padding]);
                drop(view);
                // Starts the copy, and frees the staging memory after it.
                Ok(self.context.queue().submit([]))
            })?;
            self.submitted(state, index)?;
        }
        state.counts.bytes_uploaded += (len * size) as u64;
        Ok(())
    }

    /// What `copy` copies to the first `bytes` bytes of `staging`, seen by `read` once it is there.
    fn copied<R>(
        &self,
        state: &mut State,
        staging: &Buffer,
        bytes: u64,
        copy: impl FnOnce(&mut CommandEncoder),
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<R> {
        let (tell, told) = channel();
        let index = self.context.scoped("a read-back", || {
            let mut encoder = self.context.device().create_command_encoder(&CommandEncoderDescriptor::default());
            copy(&mut encoder);
            let index = self.context.queue().submit([encoder.finish()]);
            staging.slice(..bytes).map_async(MapMode::Read, move |mapped| {
                // Nobody listens after an error elsewhere.
                let _ = tell.send(mapped);
            });
            Ok(index)
        })?;
        state.counts.submissions += 1;
        self.context.wait(index)?;
        let unmapped = |reason: String| SvdError::Gpu { what: "a read-back", reason };
        // Another thread's poll may be about to run the callback.
        match told.recv_timeout(CALLBACK_PATIENCE) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(SvdError::DeviceLost { reason: format!("a read-back failed: {error}") }),
            Err(error @ (RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected)) => {
                return Err(unmapped(error.to_string()));
            }
        }
        let result = {
            let view = staging.slice(..bytes).get_mapped_range().map_err(|e| unmapped(e.to_string()))?;
            read(&view)
        };
        staging.unmap();
        Ok(result)
    }

    /// The first `len` elements of `source`, once all that was asked for before is done.
    pub fn read_back<T: Pod>(&self, source: &Buffer, len: usize) -> Result<Vec<T>> {
        let size = size_of::<T>();
        let chunk = (CHUNK_BYTES as usize / size).min(len);
        let mut result = Vec::new();
        result.try_reserve_exact(len).map_err(|e| SvdError::OutOfMemory { reason: format!("read-back: {e}") })?;
        if len == 0 {
            return Ok(result);
        }
        let state = &mut *self.state();
        self.submit(state)?;
        let staging =
            buffer(&self.context, "read-back", whole_words(chunk * size), BufferUsages::MAP_READ | BufferUsages::COPY_DST)?;
        for start in (0..len).step_by(chunk) {
            let count = chunk.min(len - start);
            let bytes = whole_words(count * size);
            let copy = |encoder: &mut CommandEncoder| {
                encoder.copy_buffer_to_buffer(source, (start * size) as u64, &staging, 0, bytes);
            };
            self.copied(state, &staging, bytes, copy, |view| {
                // The mapping need not be aligned for T.
                result.extend(view.chunks_exact(size).take(count).map(bytemuck::pod_read_unaligned::<T>));
            })?;
            state.counts.bytes_read_back += bytes;
        }
        Ok(result)
    }
}

impl Drop for Stream {
    /// At the end of a call, what it compiled is kept for the next process.
    fn drop(&mut self) {
        if let Some(file) = &self.context.pipelines().file {
            file.store_new();
        }
    }
}

/// Bytes in whole words of four: what copies are made of.
fn whole_words(bytes: usize) -> u64 {
    bytes.next_multiple_of(4) as u64
}

/// A new buffer. Its size is checked against the device's limits before it is allocated.
pub(super) fn buffer(context: &GpuContext, what: &'static str, bytes: u64, usage: BufferUsages) -> Result<Buffer> {
    let available =
        if usage.contains(BufferUsages::STORAGE) { context.max_buffer_bytes() } else { context.limits().max_buffer_size };
    // A binding may not be empty.
    let size = bytes.max(16).checked_next_multiple_of(16).unwrap_or(u64::MAX);
    if size > available {
        return Err(SvdError::TooLarge { what, needed: bytes, available, adapter: context.adapter_name().to_owned() });
    }
    let descriptor = BufferDescriptor { label: Some(what), size, usage, mapped_at_creation: false };
    context.scoped(what, || Ok(context.device().create_buffer(&descriptor)))
}
