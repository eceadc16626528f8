//! The choice of the backend for a batch: what a GPU computes, alone or together, by the seconds of both.

use std::borrow::Cow;

use pollster::block_on;

use crate::{
    base::{
        element_kind::ElementKind,
        error::{Result, SvdError},
        number::Scalar,
        watch::Watch,
    },
    cost::batch::may_fit_buffer,
    gpu::device::context::{GpuContext, Waits},
    plan::{
        backend::{context_of, logged},
        batch::{
            IN_WORKGROUPS, Of, STACKED_ORDER, Together,
            each::{Candidates, OfEach, Run},
            stacked::{may_be_stacked, stacks},
            together::{may_be_together, together},
        },
        choice::{
            TOO_SMALL, is_too_small,
            seconds::{Compared, Cpu, Gpu},
        },
        options::{Backend, Vectors},
        problem::Problem,
    },
};

/// Entries of a batch of matrices, each too small to gain, that may gain together: less than a GPU takes in 0.1 ms, and a core in several.
const LEAST_ENTRIES: f64 = 1e4;
/// The reason for the CPU where a GPU has no way to compute the batch together.
const NO_WAY: &str = "no matrix gains from a GPU alone, and the options or the shapes leave no way to compute them together";

/// What the choice of the backend has found.
pub(super) struct Chosen {
    /// With `Backend::Auto`: both devices, unless the batch is too small, or there is no GPU that `Auto` takes.
    devices: Option<(Cpu, Gpu)>,
    /// The context, if the call needs one for the whole batch.
    context: Option<Result<GpuContext>>,
    /// Why the CPU computes, if it does.
    pub reason: Cow<'static, str>,
}

impl Default for Chosen {
    fn default() -> Self {
        Chosen { devices: None, context: None, reason: TOO_SMALL.into() }
    }
}

impl<T: Scalar> Of<'_, T> {
    fn kind(&self) -> ElementKind {
        self.options.run.half_storage.of(T::KIND)
    }

    fn problem_of(&self, index: usize) -> Problem {
        (self.problem)(self.batch[index].shape(), self.options)
    }

    /// The CPU's seconds of a matrix of the batch. Several are computed side by side.
    fn on_cpu(&self, cpu: &Cpu, index: usize) -> f64 {
        let problem = self.problem_of(index);
        // As `Groups` does.
        match self.batch.len() >= 4 * cpu.threads || is_too_small(self.kind(), problem) {
            true => cpu.seconds_beside(self.kind(), problem),
            false => cpu.seconds(self.kind(), problem),
        }
    }

    /// Whether `Auto` takes the GPU for a matrix alone.
    pub(super) fn gains_alone(&self, index: usize) -> bool {
        let Some((cpu, gpu)) = &self.chosen.devices else { return false };
        let problem = self.problem_of(index);
        if is_too_small(self.kind(), problem) {
            return false;
        }
        self.options.need_device() || gpu.seconds(self.kind(), problem) < self.on_cpu(cpu, index)
    }

    /// Chooses, for a caller that may block.
    pub(super) fn chosen<R: OfEach<T>>(mut self) -> Self {
        let context = self.needs_a_device::<R>().then(|| context_of(&self.options.run));
        self.choose::<R>(context);
        self
    }

    /// [`chosen`](Self::chosen) for a caller that must not block.
    pub(super) async fn chosen_async<R: OfEach<T>>(mut self) -> Self {
        let context = match self.needs_a_device::<R>() {
            true if self.options.run.context.is_none() => Some(GpuContext::global_async().await),
            true => Some(context_of(&self.options.run)),
            false => None,
        };
        self.choose::<R>(context);
        self
    }

    /// Whether any GPU may gain, and a context is therefore needed.
    fn needs_a_device<R: OfEach<T>>(&mut self) -> bool {
        match self.options.run.backend {
            Backend::Cpu => return false,
            Backend::Gpu => return self.candidates::<R>().are_some(),
            Backend::Auto => {}
        }
        let kind = self.kind();
        // Batches of fewer entries are computed before a GPU has begun.
        let entries: f64 = self.batch.iter().map(|a| a.nrows() as f64 * a.ncols() as f64).sum();
        let all_are_small = (0..self.batch.len()).all(|index| is_too_small(kind, self.problem_of(index)));
        if all_are_small && entries < LEAST_ENTRIES {
            return false;
        }
        self.consider::<R>(Gpu::ANY, true)
    }

    /// Takes the candidates of a GPU, if there are any.
    fn choose<R: OfEach<T>>(&mut self, context: Option<Result<GpuContext>>) {
        if self.options.run.backend == Backend::Auto
            && let Some(context) = &context
        {
            let unfit = match context {
                Ok(context) if context.is_software() => Some(format!("{} is a software rasteriser", context.adapter_name())),
                Ok(context) => {
                    self.consider::<R>(Gpu::of_context(context, &self.options.run), false);
                    None
                }
                Err(error) => Some(error.to_string()),
            };
            if let Some(reason) = unfit {
                self.chosen.devices = None;
                self.chosen.reason = logged(reason);
            }
        }
        self.chosen.context = context;
    }

    /// Compares the CPU with this GPU, or with `any`. Whether it gains.
    fn consider<R: OfEach<T>>(&mut self, gpu: Gpu, any: bool) -> bool {
        let cpu = Cpu::here(&self.options.run);
        self.chosen.devices = Some((cpu, gpu));
        let gains = self.candidates::<R>().are_some() || (0..self.batch.len()).any(|index| self.gains_alone(index));
        if !gains {
            // As one stack, or in workgroups, if not alone.
            let seconds = self.of_all(&cpu, &gpu, R::VECTORS);
            let compared = Compared { any, ..seconds };
            self.chosen.reason = if compared.gains() { NO_WAY.into() } else { compared.to_string().into() };
            self.chosen.devices = None;
        }
        gains
    }

    /// The seconds of all matrices, together where that may be.
    fn of_all(&self, cpu: &Cpu, gpu: &Gpu, vectors: bool) -> Compared {
        let mut all = Compared::default();
        let mut entries = 0.0;
        for (index, a) in self.batch.iter().enumerate() {
            all.cpu += self.on_cpu(cpu, index);
            let (m, n) = a.shape();
            match may_fit_buffer((m.max(n), m.min(n))) {
                true => entries += m as f64 * n as f64,
                false => all.gpu += gpu.seconds(self.kind(), self.problem_of(index)),
            }
        }
        if entries > 0.0 {
            all.gpu += gpu.seconds_in_workgroups(self.kind(), entries, vectors);
        }
        all
    }

    /// What a GPU may compute together, if it gains.
    fn candidates<R: OfEach<T>>(&self) -> Candidates {
        let mut candidates = Candidates::default();
        let devices = match (self.options.run.backend, &self.chosen.devices) {
            (Backend::Cpu, _) | (Backend::Auto, None) => return candidates,
            (Backend::Gpu, _) => None,
            (Backend::Auto, Some(devices)) => Some(devices),
        };
        let (kind, all) = (self.kind(), 0..self.batch.len());
        let mut compared = Compared::default();
        if may_be_together(self.options) {
            candidates.in_workgroups = all.clone().filter(|&index| !(devices.is_some() && self.may_go_alone(index))).collect();
            if let Some((cpu, gpu)) = devices {
                let (mut seconds, mut entries) = (0.0, 0.0);
                for &index in &candidates.in_workgroups {
                    let (m, n) = self.batch[index].shape();
                    if may_fit_buffer((m.max(n), m.min(n))) {
                        seconds += self.on_cpu(cpu, index);
                        entries += m as f64 * n as f64;
                    }
                }
                let of_these = Compared { cpu: seconds, gpu: gpu.seconds_in_workgroups(kind, entries, R::VECTORS), any: false };
                match of_these.gains() {
                    true => compared = of_these,
                    false => candidates.in_workgroups.clear(),
                }
            }
        }
        if may_be_stacked(self.options) {
            candidates.stacks = stacks(self.batch, all);
            candidates.stacks.retain(|stack| match devices {
                None => true,
                Some((cpu, gpu)) => {
                    let of_stack = self.of_stack(stack, cpu, gpu);
                    let pays = self.may_go_alone(stack[0]) || (self.is_large(stack) && of_stack.gains());
                    if pays {
                        compared.cpu += of_stack.cpu;
                        compared.gpu += of_stack.gpu;
                    }
                    pays
                }
            });
        }
        Candidates { compared, ..candidates }
    }

    /// Whether the matrices of a stack are those that are better there than in a workgroup each.
    fn is_large(&self, stack: &[usize]) -> bool {
        let (m, n) = self.batch[stack[0]].shape();
        let thin = self.options.vectors != Vectors::Full;
        m.min(n) >= STACKED_ORDER || (thin && m.min(n) > IN_WORKGROUPS && may_fit_buffer((m.max(n), m.min(n))))
    }

    fn of_stack(&self, stack: &[usize], cpu: &Cpu, gpu: &Gpu) -> Compared {
        let (count, first) = (stack.len(), stack[0]);
        let on_gpu = gpu.seconds_of_stack(self.kind(), self.problem_of(first), count);
        Compared { cpu: count as f64 * self.on_cpu(cpu, first), gpu: on_gpu, any: false }
    }

    /// [`together`](Self::together), for a caller that may block.
    pub(super) fn on_device<R: OfEach<T>>(&self, watch: &Watch) -> Option<Together<R>> {
        block_on(self.together(Waits::Blocking, watch))
    }

    /// [`together`](Self::together), for a caller that must not block.
    pub(super) async fn on_device_async<R: OfEach<T>>(&self, watch: &Watch) -> Option<Together<R>> {
        self.together(Waits::Awaited, watch).await
    }

    /// What the device computes together. With `Auto` that is nothing if it is no hardware or fails: the CPU then computes.
    async fn together<R: OfEach<T>>(&self, waits: Waits, watch: &Watch) -> Option<Together<R>> {
        let &Of { batch, options, timed, .. } = self;
        let auto = options.run.backend == Backend::Auto;
        // With `Gpu` a single call has the same error.
        let context = self.chosen.context.clone()?.ok()?;
        if options.run.time_kernels && context.has_timestamps().is_err() {
            // A single call has that error.
            return None;
        }
        let candidates = self.candidates::<R>();
        if !candidates.are_some() {
            return None;
        }
        let did = |indices: &[usize]| _ = watch.did(self.work_of(indices.iter().copied()));
        let run = Run { options, context, waits, timed };
        let found = together::<_, R>(batch, &candidates, &run, &did).await;
        let mut found = match found {
            Ok(found) => found,
            Err(error) => {
                if auto {
                    logged(error.to_string());
                }
                return None;
            }
        };
        if auto {
            let of_device = |result: &Result<_>| result.as_ref().err().is_some_and(SvdError::is_of_device);
            for results in [&mut found.results, &mut found.stacked] {
                if let Some((_, Err(error))) = results.iter().find(|(_, result)| of_device(result)) {
                    logged(format!("the GPU failed: {error}"));
                }
                results.retain(|(_, result)| !of_device(result));
            }
        }
        Some(found)
    }
}
