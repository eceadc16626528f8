//! The kernels as a backend that counts.

use std::{cell::RefCell, marker::PhantomData};

use super::{ChaseShape, LINEAR_THREADS, ROWS_AT_ONCE, Shape, Work};
use crate::{
    error::{Result, SvdError},
    gpu::{BISECT_THREADS, FLOPS, steps_of_dispatches},
    kernels::{BandLayout, Level, ReductionStep, StageKernels},
    options::Tuning,
    scalar::{Element, Re},
};

/// Kernels that note what they would have dispatched for matrices stored as `S`.
pub(super) struct CountingKernels<S> {
    tuning: Tuning,
    shape: Shape,
    work: RefCell<Vec<(Work, u64)>>,
    storage: PhantomData<S>,
}

/// A dense matrix of which the size is known.
pub(super) struct Size {
    pub m: usize,
    pub n: usize,
}

impl<S: Element> CountingKernels<S> {
    pub fn new(tuning: &Tuning) -> Self {
        CountingKernels { tuning: tuning.clone(), shape: Shape::of(tuning), work: RefCell::default(), storage: PhantomData }
    }

    pub fn done(self) -> Vec<(Work, u64)> {
        self.work.into_inner()
    }

    /// The reading back of `bandwidth` superdiagonals.
    pub fn unpack(&self, band: &BandLayout, bandwidth: usize) {
        self.note(Work::unpack_band::<S>(band.n, bandwidth, LINEAR_THREADS.into()));
    }

    /// Stage 3 of order n on a hardware device.
    pub fn bisect(&self, n: usize) {
        if n > 0 {
            self.note(Work::square_bidiagonal::<S>(n, LINEAR_THREADS.into()));
            for steps in steps_of_dispatches::<Re<S>>(n, FLOPS, usize::MAX).into_iter().flatten() {
                self.note(Work::bisect::<S>(n, steps, BISECT_THREADS.into()));
            }
        }
    }

    fn note(&self, work: Work) {
        if work.workgroups == 0 {
            return;
        }
        let mut all = self.work.borrow_mut();
        match all.last_mut() {
            Some((last, times)) if *last == work => *times += 1,
            _ => all.push((work, 1)),
        }
    }
}

impl<S: Element> StageKernels for CountingKernels<S> {
    type Dense = Size;
    type Banded = BandLayout;

    fn rows_at_once(&self) -> usize {
        ROWS_AT_ONCE
    }

    fn geqrt(&self, _: &mut Size, level: &Level) -> Result<()> {
        self.note(Work::geqrt::<S>(&self.shape, level));
        Ok(())
    }

    fn unmqr(&self, a: &mut Size, level: &Level) -> Result<()> {
        let trailing = if level.transposed { a.m } else { a.n } - level.col - level.width;
        let at_once = Work::unmqr_columns::<S>(&self.shape, level, trailing, FLOPS);
        for first in (0..trailing).step_by(at_once) {
            self.note(Work::unmqr::<S>(&self.shape, level, at_once.min(trailing - first)));
        }
        Ok(())
    }

    fn keep_rows(&self, a: &mut Size, rows: usize) {
        a.m = rows;
    }

    fn pack_band(&self, _: Size, n: usize, bandwidth: usize, tile_width: usize) -> Result<BandLayout> {
        let layout = BandLayout::new(n, bandwidth, tile_width);
        layout.size()?;
        self.note(Work::pack_band::<S>(layout, bandwidth, LINEAR_THREADS.into()));
        Ok(layout)
    }

    fn chase(&self, band: &mut BandLayout, step: &ReductionStep) -> Result<()> {
        let shape = ChaseShape::of(*band, &self.tuning);
        let cycles = self.tuning.cycles_per_dispatch;
        if cycles.checked_mul(step.n).is_none() {
            return Err(SvdError::invalid("cycles_per_dispatch", format!("{cycles} is too many for n = {}", step.n)));
        }
        let schedule = step.schedule(cycles);
        for time in 0..schedule.times() {
            self.note(Work::chase::<S>(&shape, step, &schedule.active(time), cycles, self.tuning.max_blocks));
        }
        Ok(())
    }
}
