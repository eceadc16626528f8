//! `apply_chase`: the kept reflectors of stage 2 applied to a matrix.

use crate::{
    base::{
        blas::{Op, Side},
        error::{Result, SvdError},
    },
    cost::{
        vectors::{ApplyShape, CHUNK, Wave},
        work::Work,
    },
    gpu::{
        device::{parameters, pipeline::APPLY_CHASE},
        kernels::{GpuKernels, SOFTWARE_ITERATIONS},
        storage::{Banded, Dense},
    },
    tile::chase_schedule::ReductionStep,
};

impl GpuKernels {
    /// [`apply_chase`](crate::tile::kernels::TileKernels::apply_chase), a dispatch for each [`Wave`].
    pub(super) fn apply_waves(
        &self,
        band: &Banded,
        k: usize,
        step: &ReductionStep,
        side: Side,
        op: Op,
        c: &mut Dense,
    ) -> Result<()> {
        let kept = band.kept(k, step)?;
        let (rows, cols) = c.size;
        if c.matrices != band.matrices {
            return Err(SvdError::invalid("c", format!("{} matrices, for the reflectors of {}", c.matrices, band.matrices)));
        }
        if rows != step.n {
            return Err(SvdError::invalid("c", format!("{rows} rows, not {}", step.n)));
        }
        let shape = ApplyShape::of(self.kind, step.tile_width, cols);
        let bytes = self.context.limits().max_compute_workgroup_storage_size as usize;
        if shape.bytes(self.kind) > bytes || (self.context.is_software() && shape.iterations() > SOFTWARE_ITERATIONS) {
            let reason = format!("{}: the device cannot apply reflectors of this length", step.tile_width);
            return Err(SvdError::invalid("tile_width", reason));
        }
        let pipeline = self.context.pipeline(self.kind, &APPLY_CHASE, &shape.constants(), c.a.len())?;
        let bindings = self.stream.bind(&pipeline, &[kept], &c.a)?;
        let [columns, more] = self.stream.fold(cols.div_ceil(shape.columns_of_workgroup()))?;
        if more > 1 {
            return Err(SvdError::invalid("c", format!("{cols} columns are more than a grid has")));
        }
        let chunk = Work::apply_chase(self.kind, step, &Wave { first: 0, cycle: 0, count: 1 }, cols);
        let most_flops = self.stream.most_flops() / c.matrices.max(1) as u64;
        let fitting = usize::try_from(most_flops / chunk.flops.max(1)).unwrap_or(usize::MAX);
        let mut waves = Wave::all(step, fitting.clamp(1, self.stream.most_workgroups()));
        if op != Op::NoTrans {
            waves.reverse();
        }
        let flag = |holds: bool, flag: u32| if holds { flag } else { 0 };
        let flags = flag((side == Side::Right) != (op == Op::Trans), parameters::CONJUGATE)
            | flag(op != Op::NoTrans, parameters::ADJOINT)
            | flag(side == Side::Right, parameters::RIGHT);
        for wave in waves {
            let parameters = parameters::ApplyChase {
                n: step.n as u32,
                bandwidth: step.bandwidth as u32,
                tile_width: step.tile_width as u32,
                chunk: CHUNK as u32,
                first: wave.first as u32,
                cycle: wave.cycle as u32,
                cols: cols as u32,
                rs: c.strides.0 as u32,
                cs: c.strides.1 as u32,
                lines: c.lines as u32,
                flags,
                first_kept: band.first_kept as u32,
                c: c.first as u32,
                matrix: c.distance(),
            };
            let work = Work::apply_chase(self.kind, step, &wave, cols).times(c.matrices);
            self.stream.dispatch(&pipeline, &bindings, parameters, [columns, wave.count as u32, c.matrices as u32], work)?;
        }
        Ok(())
    }
}
