//! The dispatches of a call, from the drivers on counting kernels.

use crate::{
    algo::count::{Asked, kernels_of_call},
    base::{
        error::{Result, SvdError},
        number::{Number, Re},
    },
    cost::{
        shape::{ChaseShape, Shape},
        work::{BISECT_THREADS, LINEAR_THREADS, ROWS_AT_ONCE, SUBMISSION_FLOPS, Work, steps_of_dispatches},
    },
    tile::tuning::Tuning,
};

/// Dispatches in order, with the repetitions of consecutive equal ones.
#[derive(Default)]
struct Dispatches(Vec<(Work, u64)>);

impl Dispatches {
    fn note(&mut self, work: Work) {
        if work.workgroups == 0 {
            return;
        }
        match self.0.last_mut() {
            Some((last, times)) if *last == work => *times += 1,
            _ => self.0.push((work, 1)),
        }
    }
}

/// The dispatches of an m x n matrix, m >= n, stored as `S`, on a hardware device, with stage 3 `on_device` or on the host.
pub(super) fn dispatches_of_call<S: Number>(
    (m, n): (usize, usize),
    tuning: &Tuning,
    on_device: bool,
) -> Result<Vec<(Work, u64)>> {
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
    Ok(all.0)
}
