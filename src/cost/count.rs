//! The dispatches of a call, from the drivers on counting kernels.

use crate::{
    algo::count::{Asked, kernels_of_call, kernels_of_qr},
    base::{
        element_kind::ElementKind,
        error::{Result, SvdError},
    },
    cost::{
        one_stage::blocks_and_parts,
        shape::{ChaseShape, Shape},
        svd::{note_copies, note_transformed_back, note_vectors},
        work::{BISECT_THREADS, LINEAR_THREADS, ROWS_AT_ONCE, SUBMISSION_FLOPS, Work, passes_of_dispatches},
    },
    tile::{panel_tree::Level, tuning::Tuning},
};

/// Dispatches in order, with the repetitions of consecutive equal ones. Each is noted as that of one matrix.
pub(super) struct Dispatches {
    all: Vec<(Work, u64)>,
    /// The matrices that share them.
    matrices: usize,
}

impl Default for Dispatches {
    fn default() -> Self {
        Dispatches::shared_by(1)
    }
}

impl Dispatches {
    /// None yet, to be shared by several matrices, at least one.
    pub(super) fn shared_by(matrices: usize) -> Self {
        Dispatches { all: Vec::new(), matrices }
    }

    pub(super) fn into_work(self) -> Vec<(Work, u64)> {
        self.all
    }

    pub(super) fn note(&mut self, work: Work) {
        self.note_of_all(work.times(self.matrices));
    }

    /// Maximum flops of one matrix in a dispatch that can be split.
    pub(super) fn most_flops(&self) -> u64 {
        SUBMISSION_FLOPS / self.matrices.max(1) as u64
    }

    /// `unmqr` of a level on `cols` columns, in as many dispatches as their flops need.
    pub(super) fn unmqr(&mut self, kind: ElementKind, shape: &Shape, level: &Level, cols: usize) {
        let at_once = Work::unmqr_columns(kind, shape, level, cols, self.most_flops());
        (0..cols).step_by(at_once).for_each(|first| self.note(Work::unmqr(kind, shape, level, at_once.min(cols - first))));
    }

    /// `unmqr` of a level on `cols` columns, and `geqrt` of the `next` one: beside it if they run so and no reflectors are `kept`.
    fn unmqr_and_geqrt(&mut self, kind: ElementKind, shape: &Shape, level: &Level, cols: usize, next: &Level, kept: bool) {
        match shape.beside(kind).filter(|_| !kept && cols > 0 && shape.runs_beside(kind, level, next)) {
            Some(beside) => {
                let at_once = Work::unmqr_columns(kind, &beside, level, cols, self.most_flops());
                self.note(Work::unmqr_and_geqrt(kind, &beside, level, at_once, next));
                self.unmqr(kind, shape, level, cols - at_once);
            }
            None => {
                self.unmqr(kind, shape, level, cols);
                self.note(Work::geqrt(kind, shape, next));
            }
        }
    }

    /// The read-back of a bidiagonal of order n, or stage 3 on the device.
    fn stage_3(&mut self, kind: ElementKind, n: usize, on_device: bool) {
        if !on_device {
            self.note(Work::unpack_band(kind, n, 1, LINEAR_THREADS.into()));
        } else if n > 0 {
            self.note(Work::square_bidiagonal(kind, n, LINEAR_THREADS.into()));
            for passes in passes_of_dispatches(kind, n, self.most_flops(), usize::MAX).into_iter().flatten() {
                self.note(Work::bisect(kind, n, passes, BISECT_THREADS.into()));
            }
        }
    }

    /// The matrices that share the dispatches.
    pub(super) fn matrices(&self) -> usize {
        self.matrices
    }

    /// Notes a dispatch of all matrices.
    pub(super) fn note_of_all(&mut self, work: Work) {
        if work.workgroups == 0 {
            return;
        }
        match self.all.last_mut() {
            Some((last, times)) if *last == work => *times += 1,
            _ => self.all.push((work, 1)),
        }
    }

    /// [`note`](Self::note), unless there is such a dispatch already.
    pub(super) fn note_once(&mut self, work: Work) {
        let shared = work.times(self.matrices);
        if self.all.iter().all(|(other, _)| *other != shared) {
            self.note(work);
        }
    }
}

/// What a call computes, and where.
#[derive(Clone, Copy)]
pub(super) struct Call {
    /// Whether the reduction to bidiagonal form has one stage.
    pub one_stage: bool,
    /// Whether stage 3 runs on the device.
    pub on_device: bool,
    /// The number of singular vectors of either side.
    pub vectors: Option<usize>,
    /// The number of matrices, at least one, whose vectors are computed together.
    pub together: usize,
}

impl Call {
    /// The singular values by two stages, all of them on the device.
    pub(super) const STACKED: Call = Call { one_stage: false, on_device: true, vectors: None, together: 1 };

    /// The same, with `k` vectors.
    pub(super) fn stacked_vectors(k: usize) -> Call {
        Call { vectors: Some(k), ..Call::STACKED }
    }
}

/// The dispatches of the QR factorisation of an m x n matrix of any shape, without Q, with or without `kept` reflectors.
pub(super) fn dispatches_of_qr(kind: ElementKind, of: (usize, usize), tuning: &Tuning, kept: bool) -> Result<Vec<(Work, u64)>> {
    let (shape, mut all) = (Shape::of(tuning), Dispatches::default());
    kernels_of_qr(of, tuning, ROWS_AT_ONCE, |asked| {
        match asked {
            Asked::Geqrt(level) => all.note(Work::geqrt(kind, &shape, level)),
            Asked::Unmqr(level, cols) => all.unmqr(kind, &shape, level, cols),
            Asked::UnmqrAndGeqrt(level, cols, next) => all.unmqr_and_geqrt(kind, &shape, level, cols, next, kept),
            _ => {}
        }
        Ok(())
    })?;
    Ok(all.into_work())
}

/// The dispatches of an m x n matrix, m >= n, stored as `S`, on a hardware device; or those of several `matrices`, which share most of them.
pub(super) fn dispatches_of_call(
    kind: ElementKind,
    matrices: usize,
    (m, n): (usize, usize),
    tuning: &Tuning,
    call: Call,
) -> Result<Vec<(Work, u64)>> {
    let (shape, mut all, mut parts, mut kept) = (Shape::of(tuning), Dispatches::shared_by(matrices), 1, false);
    let (cycles, team) = (tuning.gpu.cycles_per_dispatch, tuning.gpu.sweeps_per_block);
    kernels_of_call((m, n), tuning, call.one_stage, ROWS_AT_ONCE, |asked| {
        match asked {
            Asked::Chase(step, layout) => {
                let shape = ChaseShape::of(layout, tuning);
                if (cycles + 3 * team).checked_mul(step.n).is_none() {
                    return Err(SvdError::invalid("cycles_per_dispatch", format!("{cycles} is too many for n = {}", step.n)));
                }
                let schedule = step.schedule(cycles, team);
                for time in 0..schedule.times() {
                    all.note(Work::chase(kind, &shape, &schedule, time, tuning.gpu.max_blocks));
                }
            }
            Asked::UpdateLine(line) => all.note(Work::update_line(kind, &shape, line, parts)),
            Asked::MultiplyLine(line) => {
                all.note(Work::multiply_line(kind, line));
                parts = blocks_and_parts(line).1;
            }
            Asked::UpdateTrailing(trailing) => {
                all.note(Work::update_line(kind, &shape, &trailing.last_line(), parts));
                let (_, cols) = trailing.shape();
                let at_once = Work::trailing_columns(kind, &shape, trailing, SUBMISSION_FLOPS);
                for first in (0..cols).step_by(at_once) {
                    all.note(Work::update_trailing(kind, &shape, trailing, at_once.min(cols - first)));
                }
            }
            Asked::Geqrt(level) => all.note(Work::geqrt(kind, &shape, level)),
            Asked::Unmqr(level, cols) => all.unmqr(kind, &shape, level, cols),
            Asked::UnmqrAndGeqrt(level, cols, next) => all.unmqr_and_geqrt(kind, &shape, level, cols, next, kept),
            Asked::Reduction => kept = call.vectors.is_some(),
            Asked::PackBand(layout, bandwidth) => all.note(Work::pack_band(kind, layout, bandwidth, LINEAR_THREADS.into())),
        }
        Ok(())
    })?;
    all.stage_3(kind, n, call.on_device);
    let Some(k) = call.vectors.filter(|_| n > 0) else { return Ok(all.into_work()) };
    note_copies(kind, &mut all, (m, n));
    note_transformed_back(kind, &mut all, (m, n), k, tuning, call.one_stage);
    let mut work = all.into_work();
    let (rounds, rest) = (matrices / call.together, matrices % call.together);
    for (times, matrices) in
        [(rounds, call.together), (1, rest)].into_iter().filter(|&(times, matrices)| times > 0 && matrices > 0)
    {
        let mut round = Dispatches::shared_by(matrices);
        note_vectors(kind, &mut round, (m, n), k, tuning);
        work.extend(round.into_work().into_iter().map(|(one, each)| (one, each * times as u64)));
    }
    Ok(work)
}
