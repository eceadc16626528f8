//! The dispatches of a call, in order.

use crate::{
    base::element_kind::ElementKind,
    cost::{
        shape::Shape,
        work::{BISECT_THREADS, LINEAR_THREADS, SUBMISSION_FLOPS, Work, passes_of_dispatches},
    },
    tile::{
        deferred::{DeferredPanel, DeferredProduct},
        panel_tree::Level,
    },
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

    /// `unmqr` of a level on `cols` columns, and `geqrt` of the `next` one: beside it if they run so.
    pub(super) fn unmqr_and_geqrt(&mut self, kind: ElementKind, shape: &Shape, level: &Level, cols: usize, next: &Level) {
        match shape.beside(kind).filter(|_| cols > 0 && shape.runs_beside(kind, level, next)) {
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

    /// `subtract_deferred`, in as many dispatches as it takes.
    pub(super) fn subtract_deferred(&mut self, kind: ElementKind, shape: &Shape, product: DeferredProduct) {
        let (product, of) = product.upright(shape);
        let (cols, at_once) = (product.cols.len(), product.columns(kind, &of, self.most_flops()));
        let count = |first| at_once.min(cols - first);
        (0..cols).step_by(at_once).for_each(|first| self.note(Work::subtract_deferred(kind, &of, &product, count(first))));
    }

    /// `geqrt` of a level of a panel, beside a part of a product and before the rest of it.
    pub(super) fn factor_level(&mut self, kind: ElementKind, shape: &Shape, level: &Level, product: Option<&DeferredProduct>) {
        let (Some(product), Some(of)) = (product, shape.beside_levels(kind)) else {
            return self.note(Work::geqrt(kind, shape, level));
        };
        let at_once = product.columns_beside(kind, &of, self.most_flops());
        self.note(Work::geqrt_and_subtract(kind, shape, (level, product), &of, at_once));
        if at_once < product.cols.len() {
            self.subtract_deferred(kind, shape, product.after(at_once));
        }
    }

    /// `multiply_panel`, in as many dispatches as its flops need, and the sums of its parts.
    pub(super) fn multiply_panel(&mut self, kind: ElementKind, shape: &Shape, panel: &DeferredPanel) {
        let (cols, at_once) = (panel.multiplied().len(), panel.columns(kind, shape, self.most_flops()));
        let count = |first| at_once.min(cols - first);
        (0..cols).step_by(at_once).for_each(|first| self.note(Work::multiply_panel(kind, shape, panel, count(first))));
        self.note(Work::add_parts(kind, shape, panel));
    }

    /// The read-back of a bidiagonal of order n, or stage 3 on the device.
    pub(super) fn stage_3(&mut self, kind: ElementKind, n: usize, on_device: bool) {
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
