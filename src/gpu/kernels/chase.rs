//! Stage 2: `chase`, or `chase_team` where a step's blocks are in registers.

use crate::{
    base::error::{Result, SvdError},
    cost::{
        chase::{ChaseShape, TeamShape},
        work::Work,
    },
    gpu::{
        device::{
            parameters,
            pipeline::{CHASE, CHASE_KEPT, Wanted, chase_team},
        },
        kernels::{GpuKernels, SOFTWARE_ITERATIONS},
        storage::Banded,
    },
    tile::{
        band_layout::BandLayout,
        chase_schedule::{ReductionStep, SWEEP_SEPARATION},
    },
};

impl GpuKernels {
    /// The pipelines of the reduction steps of a band.
    pub(super) fn chases(&self, layout: BandLayout) -> Vec<Wanted> {
        let steps = ReductionStep::all(layout.n, layout.ku - layout.kl, layout.kl);
        let of_step = |step: ReductionStep| match TeamShape::of(layout, &step, &self.tuning) {
            Some(shape) => (chase_team(shape.shares(self.kind), self.kept), shape.constants().into(), 0),
            None => (if self.kept { &CHASE_KEPT } else { &CHASE }, ChaseShape::of(layout, &self.tuning).constants().into(), 0),
        };
        let mut chases: Vec<Wanted> = steps.map(of_step).collect();
        chases.dedup_by_key(|(shader, ..)| shader.name);
        chases
    }

    /// [`chase`](crate::tile::kernels::StageKernels::chase), a dispatch for each time step.
    pub(super) fn chase_step(&self, band: &mut Banded, step: &ReductionStep) -> Result<()> {
        band.check(step)?;
        band.keep_next(&self.context, step)?;
        let most = self.tuning.gpu.max_blocks.min(self.context.limits().max_compute_workgroups_per_dimension as usize);
        let &ReductionStep { n, bandwidth, tile_width } = step;
        let (shape, matrices) = (band.shape, band.matrices);
        let cycles = self.tuning.gpu.cycles_per_dispatch;
        let of_team = TeamShape::of(band.layout, step, &self.tuning);
        let schedule = step.schedule(cycles, shape.team, TeamShape::lag(of_team.as_ref()));
        // The last clock tick must fit the shader's u32.
        let separation = cycles.checked_add(SWEEP_SEPARATION * shape.team);
        let ticks = separation.and_then(|separation| separation.checked_mul(n.checked_add(1)?));
        if ticks.is_none_or(|ticks| ticks > u32::MAX as usize) {
            return Err(SvdError::invalid("cycles_per_dispatch", format!("{cycles} is too many for n = {n}")));
        }
        let (pipeline, bindings) = band.chase(&self.context, &self.stream, of_team.as_ref())?;
        for time in 0..schedule.times() {
            let active = schedule.active(time);
            let parameters = parameters::Chase {
                n: n as u32,
                columns: band.layout.columns as u32,
                ld: band.layout.ld() as u32,
                ku: band.layout.ku as u32,
                bandwidth: bandwidth as u32,
                tile_width: tile_width as u32,
                cycles: cycles as u32,
                clock: (cycles * time) as u32,
                first: active.start as u32,
                count: active.len() as u32,
            };
            let grid = [active.len().min(most) as u32, 1, matrices as u32];
            let (work, iterations) = match &of_team {
                Some(shape) => (Work::chase_team(self.kind, shape, &schedule, time, most), TeamShape::ITERATIONS),
                None => (Work::chase(self.kind, &shape, &schedule, time, most), shape.iterations(step)),
            };
            let work = work.times(matrices);
            if self.context.is_software() && iterations * active.len().div_ceil(most) * cycles > SOFTWARE_ITERATIONS {
                let reason = format!(
                    "{cycles}, with {} teams in {most} workgroups, loops longer than a software driver does",
                    active.len()
                );
                return Err(SvdError::invalid("cycles_per_dispatch", reason));
            }
            self.stream.dispatch(pipeline, bindings, parameters, grid, work)?;
        }
        Ok(())
    }
}
