//! Kept reflectors of stage 1, or of a QR factorisation, applied to a matrix.

use crate::{
    base::{
        blas::Op,
        error::{Result, SvdError},
    },
    cost::work::{LINEAR_THREADS, Work},
    gpu::{
        device::{
            parameters::{self, word},
            pipeline::SPREAD_REFLECTORS,
        },
        kernels::{GpuKernels, left::whole},
        storage::{Deferred, Dense},
    },
    tile::{
        deferred::{Applied, DeferredPanel, applied},
        kernels::DeferredKernels,
        panel_tree::Level,
    },
};

impl GpuKernels {
    /// [`apply`](crate::tile::kernels::TileKernels::apply): gathers the reflectors, and runs `unmqr`.
    pub(super) fn apply_level(&self, a: &Dense, (k, level): (usize, &Level), op: Op, c: &mut Dense, first: usize) -> Result<()> {
        if first >= c.size.1 {
            return Ok(());
        }
        let unmqr = a.unmqr_of(&self.context, &self.stream, level.map, c)?;
        let _turn = a.turn();
        let parameters = self.gather_level(a, (k, level), op, c)?;
        let whole = parameters::Level {
            rs: c.strides.0 as u32,
            cs: c.strides.1 as u32,
            lines: c.lines as u32,
            cols: c.size.1 as u32,
            col: first as u32,
            width: 0,
            t_first: 0,
            matrix: c.distance(),
            first: c.first as u32,
            ..parameters
        };
        self.update(&unmqr, whole, level, 0..c.size.1 - first, a.matrices)
    }

    /// Gathers the reflectors of a kept level as `unmqr` applies their op to `c`, which has their rows. The caller has the [turn](Dense::turn).
    fn gather_level(&self, a: &Dense, (k, level): (usize, &Level), op: Op, c: &Dense) -> Result<parameters::Level> {
        let &Level { transposed, map, .. } = level;
        let ((pipeline, bindings), mut parameters) = a.gathered(&self.context, &self.stream, (k, level), c)?;
        let last = map.rows.checked_sub(1).map_or(0, |last| map.row(last));
        if last >= c.size.0 {
            return Err(SvdError::invalid("c", format!("{} rows, of at least {}", c.size.0, last + 1)));
        }
        // A QR level has U = I - V T V^H, an LQ level its conjugate. op(U) is one of these, or its adjoint.
        let conjugate = transposed != (op == Op::Trans);
        parameters.flags |= if conjugate { parameters::CONJUGATE } else { 0 };
        parameters.flags |= if op == Op::NoTrans { 0 } else { parameters::ADJOINT };
        let entries = (map.rows + map.blocks() * self.shape.ts) * self.shape.ts;
        let [x, y] = self.stream.fold(entries.div_ceil(LINEAR_THREADS as usize))?;
        let work = Work::gather_reflectors(self.kind, &self.shape, level).times(a.matrices);
        self.stream.dispatch(pipeline, bindings, parameters, [x, y, a.matrices as u32], work)?;
        Ok(parameters)
    }

    /// [`apply_levels`](crate::tile::kernels::TileKernels::apply_levels): levels of one long block, which are those of panels whose updates were deferred,
    /// are applied so too.
    pub(super) fn apply_kept(&self, a: &Dense, levels: &[(usize, Level)], op: Op, c: &mut Dense) -> Result<()> {
        let is_joined = |(_, level): &(usize, Level)| self.shape.is_joined(level);
        for run in levels.chunk_by(|x, y| is_joined(x) == is_joined(y)) {
            if !(is_joined(&run[0]) && self.apply_joined(a, run, op, c)?) {
                run.iter().try_for_each(|(k, level)| self.apply_level(a, (*k, level), op, c, 0))?;
            }
        }
        Ok(())
    }

    /// Applies the block reflectors of panels with deferred updates, to a copy of C with room for these. False if they are not in one buffer.
    fn apply_joined(&self, a: &Dense, levels: &[(usize, Level)], op: Op, c: &mut Dense) -> Result<bool> {
        let stride = self.shape.ts;
        let deferral = self.deferral(a, a.size, &self.tuning);
        let (room, by_rows) = (deferral.applied(levels.len() * stride), c.strides.1 == 1);
        if room == 0 || c.size.1 == 0 || c.matrices > 1 || c.a.len() > 1 {
            return Ok(false);
        }
        let made = || {
            let mut work = Dense::with_room(self.kind, &self.context, c.size, room, by_rows, self.shape, self.tuning.leaf)?;
            work.deferred = Some(Deferred::new(self.kind, &self.context, c.size, room, &self.shape, &[])?);
            Ok(work)
        };
        let mut work = match made() {
            Ok(work) if work.a.len() == 1 => work,
            Ok(_) | Err(SvdError::TooLarge { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        self.copy(whole(c)?, whole(&work)?, false)?;
        let of: Vec<Level> = levels.iter().map(|&(_, level)| level).collect();
        for step in applied(&of, c.size, room, stride) {
            match step {
                Applied::Update(product) => self.subtract_deferred(&mut work, &product)?,
                Applied::Panel(k, panel) => {
                    {
                        let _turn = a.turn();
                        self.gather_level(a, (levels[k].0, &levels[k].1), op, &work)?;
                        self.spread(a, &panel, &work)?;
                    }
                    self.multiply_panel(&mut work, &panel)?;
                    if panel.is_outdated() {
                        self.subtract_deferred(&mut work, &panel.correction())?;
                    }
                }
            }
        }
        self.copy(whole(&work)?, whole(c)?, false)?;
        Ok(true)
    }

    /// The reflectors that are gathered, appended to L, and what C is multiplied with.
    fn spread(&self, a: &Dense, panel: &DeferredPanel, c: &Dense) -> Result<()> {
        let (deferred, shape) = (c.room_for_panel(panel)?, &self.shape);
        let (pipeline, bindings) = deferred.join.get(|| {
            let pipeline = self.context.pipeline(self.kind, &SPREAD_REFLECTORS, &shape.spread_constants(), c.a.len())?;
            let [v, t] = a.gathered_to()?;
            let bindings = self.stream.bind(&pipeline, &[v, t, &deferred.x], &c.a)?;
            Ok((pipeline, bindings))
        })?;
        let [rs, cs, lines] = [c.strides.0, c.strides.1, c.lines].map(word);
        let [row, rows, to] = [panel.row, panel.len(), panel.cols + panel.to].map(word);
        let parameters = parameters::SpreadReflectors { rs, cs, lines, row, rows, to };
        let work = Work::spread_reflectors(self.kind, shape, panel);
        let [x, y] = self.stream.fold(work.workgroups as usize)?;
        self.stream.dispatch(pipeline, bindings, parameters, [x, y, 1], work)
    }
}
