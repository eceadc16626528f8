//! The dispatches of a call, from the drivers on counting kernels.

use crate::{
    algo::{
        count::{Asked, kernels_of_call, kernels_of_qr},
        deferred::Deferral,
        vectors::forms_beside,
    },
    base::{
        element_kind::ElementKind,
        error::{Result, SvdError},
    },
    cost::{
        chase::{ChaseShape, TeamShape},
        deferred::deferral,
        dispatches::Dispatches,
        one_stage::blocks_and_parts,
        shape::Shape,
        svd::{note_copies, note_transformed_back, note_vectors},
        work::{Kernel, LINEAR_THREADS, ROWS_AT_ONCE, SUBMISSION_FLOPS, Work},
    },
    tile::tuning::Tuning,
};

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

/// The dispatches of the QR factorisation of an m x n matrix of any shape, without Q.
pub(super) fn dispatches_of_qr(kind: ElementKind, of: (usize, usize), tuning: &Tuning) -> Result<Vec<(Work, u64)>> {
    let (shape, mut all) = (Shape::of(tuning), Dispatches::default());
    kernels_of_qr(of, tuning, ROWS_AT_ONCE, &mut |asked| {
        match asked {
            Asked::Geqrt(level) => all.note(Work::geqrt(kind, &shape, level)),
            Asked::Unmqr(level, cols) => all.unmqr(kind, &shape, level, cols),
            Asked::UnmqrAndGeqrt(level, cols, next) => all.unmqr_and_geqrt(kind, &shape, level, cols, next),
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
    let (shape, mut all, mut parts) = (Shape::of(tuning), Dispatches::shared_by(matrices), 1);
    let (cycles, team) = (tuning.gpu.cycles_per_dispatch, tuning.gpu.sweeps_per_block);
    // Several matrices have none.
    let deferred = if matrices > 1 { Deferral::default() } else { deferral(kind, (m, n), tuning) };
    kernels_of_call((m, n), tuning, call.one_stage, (ROWS_AT_ONCE, deferred), &mut |asked| {
        match asked {
            Asked::Chase(step, layout) => {
                let (shape, of_team) = (ChaseShape::of(layout, tuning), TeamShape::of(layout, step, tuning));
                if (cycles + 3 * team).checked_mul(step.n).is_none() {
                    return Err(SvdError::invalid("cycles_per_dispatch", format!("{cycles} is too many for n = {}", step.n)));
                }
                let schedule = step.schedule(cycles, team, TeamShape::lag(of_team.as_ref()));
                for time in 0..schedule.times() {
                    let most = tuning.gpu.max_blocks;
                    all.note(match &of_team {
                        Some(shape) => Work::chase_team(kind, shape, &schedule, time, most),
                        None => Work::chase(kind, &shape, &schedule, time, most),
                    });
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
            Asked::SubtractDeferred(product) => all.subtract_deferred(kind, &shape, product.clone()),
            Asked::FactorLevel(level, beside) => all.factor_level(kind, &shape, level, beside),
            Asked::JoinReflectors(panel, levels, beside) => all.note(Work::join_reflectors(kind, &shape, panel, levels, beside)),
            Asked::MultiplyPanel(panel) => all.multiply_panel(kind, &shape, panel),
            Asked::Geqrt(level) => all.note(Work::geqrt(kind, &shape, level)),
            Asked::Unmqr(level, cols) => all.unmqr(kind, &shape, level, cols),
            Asked::UnmqrAndGeqrt(level, cols, next) => all.unmqr_and_geqrt(kind, &shape, level, cols, next),
            Asked::PackBand(layout, bandwidth) => all.note(Work::pack_band(kind, layout, bandwidth, LINEAR_THREADS.into())),
        }
        Ok(())
    })?;
    all.stage_3(kind, n, call.on_device);
    let Some(k) = call.vectors.filter(|_| n > 0) else { return Ok(all.into_work()) };
    note_copies(kind, &mut all, (m, n));
    // (A device forms nothing that one buffer does not hold.)
    let formed = !call.one_stage && forms_beside(kind, (n, k), tuning);
    if formed {
        all.note(Work::linear(Kernel::IdentityColumns, n * n.next_multiple_of(4), 1, kind.scalar_bytes()));
    }
    note_transformed_back(kind, &mut all, (m, n), if formed { n } else { k }, tuning, call.one_stage);
    let mut work = all.into_work();
    let (rounds, rest) = (matrices / call.together, matrices % call.together);
    for (times, matrices) in
        [(rounds, call.together), (1, rest)].into_iter().filter(|&(times, matrices)| times > 0 && matrices > 0)
    {
        let mut round = Dispatches::shared_by(matrices);
        note_vectors(kind, &mut round, (m, n), k, tuning, formed);
        work.extend(round.into_work().into_iter().map(|(one, each)| (one, each * times as u64)));
    }
    Ok(work)
}
