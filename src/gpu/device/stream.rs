//! Dispatches, batched into submissions; data to the device and back.

mod copies;

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
    sync::{Mutex, MutexGuard, PoisonError},
    thread::{ThreadId, current},
};

use copies::Reading;
use pollster::block_on;
use wgpu::{BufferUsages, CommandEncoderDescriptor, ComputePassDescriptor, ComputePipeline, SubmissionIndex};

use crate::{
    base::{
        clock::HostSpan,
        error::{Result, SvdError},
        watch::Watch,
    },
    cost::{
        counts::Counts,
        work::{Kernel, SUBMISSION_FLOPS, Work},
    },
    gpu::device::{
        buffers::{Bindings, Buffer, buffer},
        context::{GpuContext, Waits},
        parameters::Parameters,
        pipeline::Pipeline,
        timer::Timer,
    },
};

/// Maximum number of dispatches in a submission.
const DISPATCHES: usize = 1024;
/// [`SUBMISSION_FLOPS`] for a software adapter.
const FLOPS_SOFTWARE: u64 = 2_000_000_000;
/// Maximum number of a call's submissions that wait on the device; with more, the host waits. They suffice to keep the device busy. They
/// are few because the device runs submissions in order: a small call waits for these of each large call.
const IN_FLIGHT: usize = 3;

/// Maximum number of parameters of a kernel. Vulkan's, Metal's and DirectX's devices have room for 32.
pub(super) const WORDS: usize = 24;

/// The parameters of any kernel.
#[derive(Clone, Copy)]
struct Words {
    words: [u32; WORDS],
    len: usize,
}

impl Words {
    fn of<P: Parameters>(parameters: P) -> Self {
        const { assert!(size_of::<P>() == 4 * P::FIELDS.len() && P::FIELDS.len() <= WORDS) };
        let mut words = [0; WORDS];
        let len = P::FIELDS.len();
        words[..len].copy_from_slice(bytemuck::cast_slice(&[parameters]));
        Words { words, len }
    }
}

/// One dispatch.
struct Dispatch {
    /// The thread that has asked for it.
    by: ThreadId,
    kernel: Kernel,
    pipeline: ComputePipeline,
    bindings: Bindings,
    parameters: Words,
    grid: [u32; 3],
    flops: u64,
}

/// How a call runs on a device.
#[derive(Clone, Default)]
pub(crate) struct Manner {
    pub waits: Waits,
    /// Whether the device times each kernel, if it can.
    pub timed: bool,
    /// Whether stage 3 runs on the device. None for a call that does not run it.
    pub stage3_on_device: Option<bool>,
    /// Whether the reduction to bidiagonal form has one stage.
    pub one_stage: bool,
    /// Whether reflectors will be kept: those pipelines are compiled first.
    pub kept: bool,
    /// Whether stage 1 may defer updates: matrices have room for that.
    pub deferred: bool,
    pub watch: Watch,
}

/// The commands of one call, in order; also if several threads share it, of which each has its own in order.
///
/// A call that [blocks](Waits::Blocking) submits its dispatches as they come, and waits while too many submissions are in flight. A call
/// that must not block queues its dispatches. Awaiting [`finish`](Self::finish) or a read-back submits them, and wakes the task when there
/// is room for more.
pub(crate) struct Stream {
    context: GpuContext,
    /// Parameters of a submission's dispatches, one slot each, if the device has no immediates.
    uniforms: Option<Buffer>,
    slot_bytes: usize,
    timer: Option<Timer>,
    manner: Manner,
    state: Mutex<State>,
    /// Held from when dispatches are taken from the queue until they are submitted, so that no thread's commands overtake those of another. The
    /// state is not locked meanwhile.
    order: Mutex<()>,
}

/// A submission of kernels.
struct Submitted {
    index: SubmissionIndex,
    flops: u64,
    /// The kernels of its passes, and their timestamps.
    timed: Option<(Vec<Kernel>, Reading)>,
}

#[derive(Default)]
struct State {
    pending: VecDeque<Dispatch>,
    /// The flops of the pending dispatches.
    flops: u64,
    /// The errors of the submissions that another thread's dispatches were lost with, and that thread.
    lost: Vec<(ThreadId, SvdError)>,
    /// Bytes uploaded since the last submission of an upload.
    unsubmitted: usize,
    /// Submissions that may not be done yet, with their flops.
    in_flight: VecDeque<(SubmissionIndex, u64)>,
    counts: Counts,
    kernel_seconds: BTreeMap<Kernel, f64>,
}

impl State {
    /// Removes the dispatches of the next submission from the queue. They have at most `most` flops, unless a single one has more.
    fn next(&mut self, most: u64) -> Vec<Dispatch> {
        let (mut count, mut flops) = (0, 0);
        for dispatch in self.pending.iter().take(DISPATCHES) {
            if count > 0 && flops + dispatch.flops > most {
                break;
            }
            (count, flops) = (count + 1, flops + dispatch.flops);
        }
        self.flops -= flops;
        self.pending.drain(..count).collect()
    }
}

impl Stream {
    /// A stream for a call that blocks.
    pub fn new(context: &GpuContext) -> Result<Self> {
        Self::running(context, Manner::default())
    }

    /// A stream for a call that runs as `manner` says.
    pub fn running(context: &GpuContext, manner: Manner) -> Result<Self> {
        context.may_wait(manner.waits)?;
        let slot_bytes = (context.limits().min_uniform_buffer_offset_alignment as usize).max(4 * WORDS).next_power_of_two();
        let uniforms = if context.immediates() {
            None
        } else {
            let size = (slot_bytes * DISPATCHES) as u64;
            Some(buffer(context, "parameters", size, BufferUsages::UNIFORM | BufferUsages::COPY_DST)?)
        };
        let timer = if manner.timed { Timer::new(context, DISPATCHES)? } else { None };
        Ok(Stream {
            context: context.clone(),
            uniforms,
            slot_bytes,
            timer,
            manner,
            state: Mutex::default(),
            order: Mutex::default(),
        })
    }

    pub fn context(&self) -> &GpuContext {
        &self.context
    }

    pub fn watch(&self) -> &Watch {
        &self.manner.watch
    }

    pub fn waits(&self) -> Waits {
        self.manner.waits
    }

    pub fn counts(&self) -> Counts {
        self.state().counts
    }

    /// Seconds of each kernel so far, if kernels are timed.
    pub fn kernel_seconds(&self) -> Vec<(Kernel, f64)> {
        self.state().kernel_seconds.iter().map(|(&kernel, &seconds)| (kernel, seconds)).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Binds `buffers`, the parameters, and the buffers of a dense matrix.
    pub fn bind(&self, pipeline: &Pipeline, buffers: &[&Buffer], dense: &[Buffer]) -> Result<Bindings> {
        let group =
            self.context.scoped("a bind group", || Ok(self.context.bind(pipeline, buffers, self.uniforms.as_ref(), dense)))?;
        Ok(Bindings::new(group, buffers.iter().copied().chain(&self.uniforms).chain(dense).cloned()))
    }

    /// Appends one dispatch of `grid` workgroups with the pipeline's parameters. Each dimension of the grid must be within the device's
    /// limit (see [`fold`](Self::fold)). An empty grid dispatches nothing.
    pub fn dispatch<P: Parameters>(
        &self,
        pipeline: &Pipeline,
        bindings: &Bindings,
        parameters: P,
        grid: [u32; 3],
        work: Work,
    ) -> Result<()> {
        debug_assert_eq!(pipeline.parameters, P::FIELDS);
        if grid.contains(&0) {
            return Ok(());
        }
        self.manner.watch.check()?;
        let (pipeline, bindings) = (pipeline.compute.clone(), bindings.clone());
        let Work { kernel, flops, .. } = work;
        let mut state = self.state();
        let full = state.pending.len() == DISPATCHES || (!state.pending.is_empty() && state.flops + flops > self.most_flops());
        if full && self.manner.waits == Waits::Blocking {
            drop(state);
            block_on(self.run())?;
            state = self.state();
        }
        state.flops += flops;
        state.pending.push_back(Dispatch {
            by: current().id(),
            kernel,
            pipeline,
            bindings,
            parameters: Words::of(parameters),
            grid,
            flops,
        });
        Ok(())
    }

    /// Target for the flops of a submission. A dispatch that has more is split if possible.
    pub fn most_flops(&self) -> u64 {
        if self.context.is_software() { FLOPS_SOFTWARE } else { SUBMISSION_FLOPS }
    }

    /// Maximum number of workgroups in one dimension of a grid.
    pub fn most_workgroups(&self) -> usize {
        self.context.limits().max_compute_workgroups_per_dimension as usize
    }

    /// Zeroes these byte ranges of a buffer, after all earlier commands.
    pub fn clear(&self, target: &Buffer, bytes: impl Iterator<Item = Range<u64>>) -> Result<()> {
        block_on(self.run_all())?;
        let zeroing = self.context.pool().zeroing();
        let index = self.context.scoped("clearing a buffer", || {
            let mut encoder = self.context.device().create_command_encoder(&CommandEncoderDescriptor::default());
            zeroing.encode(&mut encoder);
            bytes.for_each(|bytes| encoder.clear_buffer(target, bytes.start, Some(bytes.end - bytes.start)));
            Ok(self.context.queue().submit([encoder.finish()]))
        })?;
        zeroing.end();
        block_on(self.submitted(index, 0))
    }

    /// A two-dimensional grid of at least `count` workgroups, each dimension within the device's limit. The last row may extend beyond
    /// `count`.
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

    /// Submits the next dispatches of the queue, if there are any.
    fn submit(&self) -> Result<Option<Submitted>> {
        let _order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        let dispatches = self.state().next(self.most_flops());
        if dispatches.is_empty() {
            return Ok(None);
        }
        let _span = HostSpan::of("submission");
        let kernels: Vec<Kernel> = self.passes(&dispatches).map(|pass| pass[0].kernel).collect();
        let mut bytes = 0;
        let zeroing = self.context.pool().zeroing();
        let submitted = self.context.scoped("a submission of kernels", || {
            let queue = self.context.queue();
            if let Some(uniforms) = &self.uniforms {
                let mut slots = vec![0u8; dispatches.len() * self.slot_bytes];
                for (slot, dispatch) in slots.chunks_exact_mut(self.slot_bytes).zip(&dispatches) {
                    let words: &[u8] = bytemuck::cast_slice(&dispatch.parameters.words);
                    slot[..words.len()].copy_from_slice(words);
                }
                bytes += slots.len();
                queue.write_buffer(uniforms, 0, &slots);
            }
            let mut encoder = self.context.device().create_command_encoder(&CommandEncoderDescriptor::default());
            zeroing.encode(&mut encoder);
            let mut slot = 0;
            for (k, dispatches) in self.passes(&dispatches).enumerate() {
                let timestamp_writes = self.timer.as_ref().map(|timer| timer.writes(k));
                let mut pass = encoder.begin_compute_pass(&ComputePassDescriptor { label: None, timestamp_writes });
                for Dispatch { pipeline, bindings, parameters, grid, .. } in dispatches {
                    pass.set_pipeline(pipeline);
                    if self.uniforms.is_some() {
                        pass.set_bind_group(0, &bindings.group, &[(slot * self.slot_bytes) as u32]);
                    } else {
                        let words = bytemuck::cast_slice(&parameters.words[..parameters.len]);
                        bytes += words.len();
                        pass.set_bind_group(0, &bindings.group, &[]);
                        pass.set_immediates(0, words);
                    }
                    pass.dispatch_workgroups(grid[0], grid[1], grid[2]);
                    slot += 1;
                }
            }
            let staging = self.timer.as_ref().map(|timer| {
                let staging = timer.staging(&self.context, kernels.len())?;
                timer.resolve(&mut encoder, kernels.len(), &staging);
                Ok::<_, SvdError>(staging)
            });
            let staging = staging.transpose()?;
            let index = queue.submit([encoder.finish()]);
            Ok((index.clone(), staging.map(|staging| Reading::begin(staging, index))))
        });
        let (index, reading) = submitted.inspect_err(|error| self.note_lost(&dispatches, error))?;
        zeroing.end();
        let counts = &mut self.state().counts;
        counts.bytes_parameters += bytes as u64;
        counts.dispatches += dispatches.len() as u64;
        let flops = dispatches.iter().map(|dispatch| dispatch.flops).sum();
        Ok(Some(Submitted { index, flops, timed: reading.map(|reading| (kernels, reading)) }))
    }

    /// The error with which another thread has lost dispatches of this one, once.
    fn found_lost(&self) -> Result<()> {
        let lost = &mut self.state().lost;
        match lost.iter().position(|(by, _)| *by == current().id()) {
            Some(at) => Err(lost.swap_remove(at).1),
            None => Ok(()),
        }
    }

    /// Notes the error of a submission for the other threads whose dispatches it had.
    fn note_lost(&self, dispatches: &[Dispatch], error: &SvdError) {
        let (this, lost) = (current().id(), &mut self.state().lost);
        for by in dispatches.iter().map(|dispatch| dispatch.by).filter(|by| *by != this) {
            if lost.iter().all(|(other, _)| *other != by) {
                lost.push((by, error.clone()));
            }
        }
    }

    /// One pass, or, if kernels are timed, one for each run of dispatches of the same kernel.
    fn passes<'a>(&self, dispatches: &'a [Dispatch]) -> impl Iterator<Item = &'a [Dispatch]> + use<'a> {
        let timed = self.timer.is_some();
        dispatches.chunk_by(move |a, b| !timed || a.kernel == b.kernel)
    }

    /// Submits the next dispatches of the queue. Completes when there is room for more; false if there were none.
    async fn run(&self) -> Result<bool> {
        self.manner.watch.check()?;
        self.found_lost()?;
        let submitted = self.submit();
        // Those that another thread has taken are submitted, or lost.
        self.found_lost()?;
        let Some(Submitted { index, flops, timed }) = submitted? else { return Ok(false) };
        self.submitted(index, flops).await?;
        let (Some(timer), Some((kernels, reading))) = (&self.timer, timed) else { return Ok(true) };
        let seconds = self.read(reading, timer.bytes(kernels.len()), |bytes| timer.seconds(self.context.queue(), bytes)).await?;
        let state = &mut *self.state();
        for (kernel, seconds) in kernels.into_iter().zip(seconds) {
            *state.kernel_seconds.entry(kernel).or_default() += seconds;
        }
        Ok(true)
    }

    /// Submits all pending dispatches.
    pub async fn run_all(&self) -> Result<()> {
        while self.run().await? {}
        Ok(())
    }

    /// Registers a submission. Completes when few enough are in flight.
    async fn submitted(&self, index: SubmissionIndex, flops: u64) -> Result<()> {
        let oldest = {
            let state = &mut *self.state();
            state.counts.submissions += 1;
            state.in_flight.push_back((index, flops));
            if state.in_flight.len() > IN_FLIGHT { state.in_flight.pop_front() } else { None }
        };
        match oldest {
            Some((oldest, flops)) => {
                self.context.done(oldest, self.manner.waits).await?;
                self.manner.watch.did(flops)
            }
            None => Ok(()),
        }
    }

    /// Submits all pending dispatches. Completes when all submissions are done, but for those that another thread which shares the stream waits for.
    pub async fn finish(&self) -> Result<()> {
        self.run_all().await?;
        let in_flight = std::mem::take(&mut self.state().in_flight);
        for (index, flops) in in_flight {
            self.context.done(index, self.manner.waits).await?;
            self.manner.watch.did(flops)?;
        }
        Ok(())
    }
}

impl Drop for Stream {
    /// At the end of a call, stores the pipelines that it compiled for the next process.
    fn drop(&mut self) {
        if let Some(file) = &self.context.pipelines().file {
            file.store_new();
        }
    }
}
