//! The dispatches of a call, from the drivers on counting kernels.

use crate::{
    algo::{
        count::{Asked, kernels_of_call},
        svdvals::qr_first,
    },
    base::{
        error::{Result, SvdError},
        number::{Number, Re},
    },
    cost::{
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

fn all_of_call<S: Number>((m, n): (usize, usize), tuning: &Tuning, on_device: bool) -> Result<Dispatches> {
    let (shape, mut all) = (Shape::of(tuning), Dispatches::default());
    let cycles = tuning.gpu.cycles_per_dispatch;
    kernels_of_call((m, n), tuning, ROWS_AT_ONCE, |asked| {
        match asked {
            Asked::Geqrt(level) => all.note(Work::geqrt::<S>(&shape, level)),
            Asked::Unmqr(level, cols) => {
                let at_once = Work::unmqr_columns::<S>(&shape, level, cols, SUBMISSION_FLOPS);
                for first in (0..cols).step_by(at_once) {
                    all.note(Work::unmqr::<S>(&shape, level, at_once.min(cols - first)));
                }
            }
            Asked::PackBand(layout, bandwidth) => all.note(Work::pack_band::<S>(layout, bandwidth, LINEAR_THREADS.into())),
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
        }
        Ok(())
    })?;
    if !on_device {
        all.note(Work::unpack_band::<S>(n, 1, LINEAR_THREADS.into()));
    } else if n > 0 {
        all.note(Work::square_bidiagonal::<S>(n, LINEAR_THREADS.into()));
        for steps in steps_of_dispatches::<Re<S>>(n, SUBMISSION_FLOPS, usize::MAX).into_iter().flatten() {
            all.note(Work::bisect::<S>(n, steps, BISECT_THREADS.into()));
        }
    }
    Ok(all)
}
