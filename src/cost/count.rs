//! The dispatches of a call, from the drivers on counting kernels.

use crate::{
    algo::{
        count::{Asked, kernels_of_call, kernels_of_one_stage, kernels_of_qr},
        svdvals::qr_first,
    },
    base::{
        error::{Result, SvdError},
        number::{Number, Re},
    },
    cost::{
        one_stage::blocks_and_parts,
        shape::{ChaseShape, Shape},
        svd::note_vectors,
        work::{BISECT_THREADS, LINEAR_THREADS, ROWS_AT_ONCE, SUBMISSION_FLOPS, Work, steps_of_dispatches},
    },
    tile::tuning::Tuning,
};

/// Dispatches in order, with the repetitions of consecutive equal ones.
#[derive(Default)]
pub(super) struct Dispatches(Vec<(Work, u64)>);

impl Dispatches {
    pub(super) fn note(&mut self, work: Work) {
        if work.workgroups == 0 {
            return;
        }
        match self.0.last_mut() {
            Some((last, times)) if *last == work => *times += 1,
            _ => self.0.push((work, 1)),
        }
    }

    /// A kernel of stage 1, or the copy of its result.
    fn dense<S: Number>(&mut self, asked: Asked<'_>, shape: &Shape) {
        match asked {
            Asked::Geqrt(level) => self.note(Work::geqrt::<S>(shape, level)),
            Asked::Unmqr(level, cols) => {
                let at_once = Work::unmqr_columns::<S>(shape, level, cols, SUBMISSION_FLOPS);
                for first in (0..cols).step_by(at_once) {
                    self.note(Work::unmqr::<S>(shape, level, at_once.min(cols - first)));
                }
            }
            Asked::PackBand(layout, bandwidth) => self.note(Work::pack_band::<S>(layout, bandwidth, LINEAR_THREADS.into())),
            Asked::Chase(..) | Asked::UpdateLine(_) | Asked::MultiplyLine(_) | Asked::UpdateTrailing(_) => {}
        }
    }

    /// The read-back of a bidiagonal of order n, or stage 3 on the device.
    fn stage_3<S: Number>(&mut self, n: usize, on_device: bool) {
        if !on_device {
            self.note(Work::unpack_band::<S>(n, 1, LINEAR_THREADS.into()));
        } else if n > 0 {
            self.note(Work::square_bidiagonal::<S>(n, LINEAR_THREADS.into()));
            for steps in steps_of_dispatches::<Re<S>>(n, SUBMISSION_FLOPS, usize::MAX).into_iter().flatten() {
                self.note(Work::bisect::<S>(n, steps, BISECT_THREADS.into()));
            }
        }
    }

    /// [`note`](Self::note), unless there is such a dispatch already.
    pub(super) fn note_once(&mut self, work: Work) {
        if self.0.iter().all(|(other, _)| *other != work) {
            self.note(work);
        }
    }
}

/// The dispatches of an m x n matrix, m >= n, stored as `S`, on a hardware device, with stage 3 `on_device` or on the host.
pub(super) fn dispatches_of_call<S: Number>(of: (usize, usize), tuning: &Tuning, on_device: bool) -> Result<Vec<(Work, u64)>> {
    Ok(all_of_call::<S>(of, tuning, on_device)?.0)
}

/// [`dispatches_of_call`], with those of `k` singular vectors of both sides.
pub(super) fn dispatches_of_svd<S: Number>(
    (m, n): (usize, usize),
    k: usize,
    tuning: &Tuning,
    on_device: bool,
) -> Result<Vec<(Work, u64)>> {
    let mut all = all_of_call::<S>((m, n), tuning, on_device)?;
    if n > 0 {
        let rows = if qr_first(m, n) { n } else { m };
        note_vectors::<S>(&mut all, (m, n), k, rows, tuning);
    }
    Ok(all.0)
}

/// The dispatches of the QR factorisation of an m x n matrix of any shape, without Q.
pub(super) fn dispatches_of_qr<S: Number>(of: (usize, usize), tuning: &Tuning) -> Result<Vec<(Work, u64)>> {
    let (shape, mut all) = (Shape::of(tuning), Dispatches::default());
    kernels_of_qr(of, tuning, ROWS_AT_ONCE, |asked| {
        all.dense::<S>(asked, &shape);
        Ok(())
    })?;
    Ok(all.0)
}

fn all_of_call<S: Number>((m, n): (usize, usize), tuning: &Tuning, on_device: bool) -> Result<Dispatches> {
    let (shape, mut all) = (Shape::of(tuning), Dispatches::default());
    let cycles = tuning.gpu.cycles_per_dispatch;
    kernels_of_call((m, n), tuning, ROWS_AT_ONCE, |asked| {
        match asked {
            Asked::Chase(step, layout) => {
                let shape = ChaseShape::of(layout, tuning);
                if cycles.checked_mul(step.n).is_none() {
                    return Err(SvdError::invalid("cycles_per_dispatch", format!("{cycles} is too many for n = {}", step.n)));
                }
                let schedule = step.schedule(cycles);
                for time in 0..schedule.times() {
                    all.note(Work::chase::<S>(&shape, step, &schedule.active(time), cycles, tuning.gpu.max_blocks));
                }
            }
            asked => all.dense::<S>(asked, &shape),
        }
        Ok(())
    })?;
    all.stage_3::<S>(n, on_device);
    Ok(all)
}

/// [`dispatches_of_call`] for the one-stage reduction.
pub(super) fn dispatches_of_one_stage<S: Number>(
    (m, n): (usize, usize),
    tuning: &Tuning,
    on_device: bool,
) -> Result<Vec<(Work, u64)>> {
    let (shape, mut all, mut parts) = (Shape::of(tuning), Dispatches::default(), 1);
    kernels_of_one_stage((m, n), tuning, ROWS_AT_ONCE, |asked| {
        match asked {
            Asked::UpdateLine(line) => all.note(Work::update_line::<S>(&shape, line, parts)),
            Asked::MultiplyLine(line) => {
                all.note(Work::multiply_line::<S>(line));
                parts = blocks_and_parts(line).1;
            }
            Asked::UpdateTrailing(trailing) => {
                all.note(Work::update_line::<S>(&shape, &trailing.last_line(), parts));
                let (_, cols) = trailing.shape();
                let at_once = Work::trailing_columns::<S>(&shape, trailing, SUBMISSION_FLOPS);
                for first in (0..cols).step_by(at_once) {
                    all.note(Work::update_trailing::<S>(&shape, trailing, at_once.min(cols - first)));
                }
            }
            asked => all.dense::<S>(asked, &shape),
        }
        Ok(())
    })?;
    all.stage_3::<S>(n, on_device);
    Ok(all.0)
}
