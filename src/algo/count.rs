//! The drivers on counting kernels: the kernels that a call runs, and the flops of each stage.

use std::cell::RefCell;

use crate::{
    algo::{
        band_to_bidiag::band_to_bidiag,
        deferred::{Deferral, to_band_deferred},
        one_stage::one_stage,
        svdvals::{BIDIAGONAL, stage_one, tall_first},
        to_band::{to_band, triangular_factor},
    },
    base::{element_kind::ElementKind, error::Result, watch::StageFlops},
    tile::{
        band_layout::BandLayout,
        chase_schedule::ReductionStep,
        deferred::{DeferredPanel, DeferredProduct},
        kernels::{DeferredKernels, OneStageKernels, StageKernels},
        one_stage::{Line, Trailing},
        panel_tree::Level,
        tuning::Tuning,
    },
};

/// A kernel call of the drivers.
pub(crate) enum Asked<'a> {
    Geqrt(&'a Level),
    /// Level, and number of trailing columns.
    Unmqr(&'a Level, usize),
    /// The same, and the next level.
    UnmqrAndGeqrt(&'a Level, usize, &'a Level),
    /// Layout, and bandwidth.
    PackBand(BandLayout, usize),
    Chase(&'a ReductionStep, BandLayout),
    UpdateLine(&'a Line),
    MultiplyLine(&'a Line),
    UpdateTrailing(&'a Trailing),
    SubtractDeferred(&'a DeferredProduct),
    /// A level, and what is subtracted beside it.
    FactorLevel(&'a Level, Option<&'a DeferredProduct>),
    /// A panel, its levels, and what was subtracted beside them.
    JoinReflectors(&'a DeferredPanel, &'a [Level], Option<&'a DeferredProduct>),
    MultiplyPanel(&'a DeferredPanel),
}

impl Asked<'_> {
    /// Flops of a call of stage 1 or of the one-stage reduction; stage 2 is counted by [`stage_2_flops`].
    fn flops(&self, kind: ElementKind) -> u64 {
        match *self {
            Asked::Geqrt(level) => level.geqrt_flops(kind),
            Asked::Unmqr(level, cols) => level.unmqr_flops(kind, cols),
            Asked::UnmqrAndGeqrt(level, cols, next) => level.unmqr_flops(kind, cols).saturating_add(next.geqrt_flops(kind)),
            Asked::UpdateLine(line) => line.update_flops(kind),
            Asked::MultiplyLine(line) => line.multiply_flops(kind),
            Asked::UpdateTrailing(trailing) => trailing.flops(kind, trailing.shape().1),
            Asked::SubtractDeferred(product) => product.flops(kind, product.cols.len()),
            Asked::FactorLevel(level, beside) => {
                let beside = beside.map_or(0, |product| product.flops(kind, product.cols.len()));
                level.geqrt_flops(kind).saturating_add(beside)
            }
            Asked::JoinReflectors(panel, ..) => panel.join_flops(kind),
            Asked::MultiplyPanel(panel) => panel.multiply_flops(kind, panel.multiplied().len()),
            Asked::PackBand(..) | Asked::Chase(..) => 0,
        }
    }
}

/// What is told of a kernel call. Not a type for each caller: the drivers would be compiled for all of them.
type Note<'a> = dyn FnMut(Asked<'_>) -> Result<()> + 'a;

/// Kernels that record their calls. A dense matrix is represented by its shape, a band by its layout.
struct Counter<'a> {
    rows_at_once: usize,
    /// Of stage 1.
    deferred: Deferral,
    note: RefCell<&'a mut Note<'a>>,
}

impl Counter<'_> {
    fn note(&self, asked: Asked<'_>) -> Result<()> {
        (self.note.borrow_mut())(asked)
    }
}

impl StageKernels for Counter<'_> {
    type Dense = (usize, usize);
    type Banded = BandLayout;

    fn rows_at_once(&self) -> usize {
        self.rows_at_once
    }

    fn geqrt(&self, _: &mut Self::Dense, level: &Level) -> Result<()> {
        self.note(Asked::Geqrt(level))
    }

    fn unmqr(&self, &mut (m, n): &mut Self::Dense, level: &Level) -> Result<()> {
        let cols = if level.transposed { m } else { n };
        self.note(Asked::Unmqr(level, cols - level.col - level.width))
    }

    fn unmqr_and_geqrt(&self, &mut (m, n): &mut Self::Dense, level: &Level, next: &Level) -> Result<()> {
        let cols = if level.transposed { m } else { n };
        self.note(Asked::UnmqrAndGeqrt(level, cols - level.col - level.width, next))
    }

    fn to_band_deferred(&self, a: &mut Self::Dense, size: (usize, usize), tuning: &Tuning) -> Result<bool> {
        let defers = self.deferred.columns > 0;
        if defers {
            to_band_deferred(self, a, size, tuning, self.deferred)?;
        }
        Ok(defers)
    }

    fn keep_rows(&self, a: &mut Self::Dense, rows: usize) {
        a.0 = rows;
    }

    fn pack_band(&self, _: &Self::Dense, n: usize, bandwidth: usize, tile_width: usize) -> Result<BandLayout> {
        let layout = BandLayout::new(n, bandwidth, tile_width);
        layout.size()?;
        self.note(Asked::PackBand(layout, bandwidth))?;
        Ok(layout)
    }

    fn chase(&self, band: &mut BandLayout, step: &ReductionStep) -> Result<()> {
        self.note(Asked::Chase(step, *band))
    }
}

impl DeferredKernels for Counter<'_> {
    fn subtract_deferred(&self, _: &mut Self::Dense, product: &DeferredProduct) -> Result<()> {
        self.note(Asked::SubtractDeferred(product))
    }

    fn factor_level(&self, _: &mut Self::Dense, _: usize, level: &Level, beside: Option<&DeferredProduct>) -> Result<()> {
        self.note(Asked::FactorLevel(level, beside))
    }

    fn join_reflectors(
        &self,
        _: &mut Self::Dense,
        panel: &DeferredPanel,
        levels: &[Level],
        beside: Option<&DeferredProduct>,
    ) -> Result<()> {
        self.note(Asked::JoinReflectors(panel, levels, beside))
    }

    fn multiply_panel(&self, _: &mut Self::Dense, panel: &DeferredPanel) -> Result<()> {
        self.note(Asked::MultiplyPanel(panel))
    }
}

impl OneStageKernels for Counter<'_> {
    type Panels = ();

    fn panels(&self, _: &Self::Dense, _: usize, _: bool) -> Result<()> {
        Ok(())
    }

    fn update_line(&self, _: &mut Self::Dense, (): &mut (), line: &Line) -> Result<()> {
        self.note(Asked::UpdateLine(line))
    }

    fn multiply_line(&self, _: &mut Self::Dense, (): &mut (), line: &Line) -> Result<()> {
        self.note(Asked::MultiplyLine(line))
    }

    fn update_trailing(&self, _: &mut Self::Dense, (): &mut (), trailing: &Trailing) -> Result<()> {
        self.note(Asked::UpdateTrailing(trailing))
    }
}

/// Runs stages 1 and 2 of an m x n matrix, m >= n, or the one-stage reduction, on kernels that pass their calls to `note`. Levels are split
/// into pieces of at most `rows_at_once` stacked rows, and updates are `deferred`.
pub(crate) fn kernels_of_call(
    (m, n): (usize, usize),
    tuning: &Tuning,
    in_one_stage: bool,
    (rows_at_once, deferred): (usize, Deferral),
    note: &mut Note<'_>,
) -> Result<()> {
    let kernels = Counter { rows_at_once, deferred, note: RefCell::new(note) };
    let mut a = (m, n);
    let rows = tall_first(&kernels, &mut a, m, n, tuning)?;
    if in_one_stage {
        one_stage(&kernels, &mut a, (rows, n), tuning, false)?;
        return kernels.pack_band(&a, n, BIDIAGONAL, BIDIAGONAL).map(drop);
    }
    to_band(&kernels, &mut a, rows, n, tuning)?;
    let bandwidth = tuning.bandwidth(n);
    let mut band = kernels.pack_band(&a, n, bandwidth, tuning.tile_width)?;
    band_to_bidiag(&kernels, &mut band, n, bandwidth, tuning.tile_width)
}

/// Flops of stage 3 for each of the n^2 pairs of a value and a row: six passes of 8 flops.
const FLOPS_OF_PAIR: u64 = 48;

/// Flops of stage 1 of an m x n matrix, m >= n, stored as `S`, with updates `deferred` so.
pub(crate) fn stage_1_flops(kind: ElementKind, (m, n): (usize, usize), tuning: &Tuning, deferred: Deferral) -> Result<u64> {
    sweep_flops(kind, |note| {
        let kernels = Counter { rows_at_once: usize::MAX, deferred, note: RefCell::new(note) };
        stage_one(&kernels, &mut (m, n), m, n, tuning)
    })
}

/// Flops of the QR factorisation of an m x n matrix stored as `S`, without Q.
pub(crate) fn factor_flops(kind: ElementKind, of: (usize, usize), tuning: &Tuning) -> Result<u64> {
    sweep_flops(kind, |note| kernels_of_qr(of, tuning, usize::MAX, note))
}

/// Flops of the sweeps of a driver that passes its kernel calls to a function.
fn sweep_flops(kind: ElementKind, driver: impl FnOnce(&mut dyn FnMut(Asked<'_>) -> Result<()>) -> Result<()>) -> Result<u64> {
    let mut flops = 0u64;
    driver(&mut |asked| {
        flops = flops.saturating_add(asked.flops(kind));
        Ok(())
    })?;
    Ok(flops)
}

/// [`kernels_of_call`] for the QR factorisation of an m x n matrix of any shape.
pub(crate) fn kernels_of_qr((m, n): (usize, usize), tuning: &Tuning, rows_at_once: usize, note: &mut Note<'_>) -> Result<()> {
    let kernels = Counter { rows_at_once, deferred: Deferral::default(), note: RefCell::new(note) };
    triangular_factor(&kernels, &mut (m, n), m, n, tuning)
}

/// Flops of stage 2 of a band of order n.
pub(crate) fn stage_2_flops(kind: ElementKind, n: usize, bandwidth: usize, tuning: &Tuning) -> u64 {
    let steps = ReductionStep::all(n, bandwidth, tuning.tile_width);
    steps.map(|step| step.flops(kind, step.all_cycles())).fold(0, u64::saturating_add)
}

/// Flops of stage 3 of order n.
pub(crate) fn stage_3_flops(n: usize) -> u64 {
    FLOPS_OF_PAIR.saturating_mul((n as u64).saturating_mul(n as u64))
}

/// Flops of all stages of an m x n matrix, m >= n, stored as `S`, if it is reduced to a band first, with updates `deferred` so.
pub(crate) fn flops_by_band(
    kind: ElementKind,
    (m, n): (usize, usize),
    tuning: &Tuning,
    deferred: Deferral,
) -> Result<StageFlops> {
    Ok([stage_1_flops(kind, (m, n), tuning, deferred)?, stage_2_flops(kind, n, tuning.bandwidth(n), tuning), stage_3_flops(n), 0])
}

/// Flops of all stages of an m x n matrix, m >= n, stored as `S`, by the one-stage reduction.
pub(crate) fn flops_by_one_stage(kind: ElementKind, (m, n): (usize, usize), tuning: &Tuning) -> Result<StageFlops> {
    let (mut tall, mut reduction) = (0u64, 0u64);
    kernels_of_call((m, n), tuning, true, (usize::MAX, Deferral::default()), &mut |asked| {
        let sum = if matches!(asked, Asked::Geqrt(_) | Asked::Unmqr(..) | Asked::UnmqrAndGeqrt(..)) {
            &mut tall
        } else {
            &mut reduction
        };
        *sum = sum.saturating_add(asked.flops(kind));
        Ok(())
    })?;
    Ok([tall, reduction, stage_3_flops(n), 0])
}

/// Flops of all stages without a band: the QR factorisation of a tall matrix, then LAPACK's `gebd2`.
pub(crate) fn flops_directly((m, n): (usize, usize), tall: bool) -> StageFlops {
    let householder = |m: usize, factor: f64| (factor * (n * n) as f64 * (m as f64 - n as f64 / 3.0)) as u64;
    let stage_3 = stage_3_flops(n);
    if tall { [householder(m, 2.0), householder(n, 4.0), stage_3, 0] } else { [0, householder(m, 4.0), stage_3, 0] }
}

/// Flops of the `k` leading singular vectors of an m x n matrix, m >= n: those of the bidiagonal, back through stages 2 and 1, and the left ones.
/// An estimate, for the share of the call in its progress.
pub(crate) fn vectors_flops(kind: ElementKind, (m, n): (usize, usize), k: usize, formed: bool) -> u64 {
    let [m, n, k] = [m, n, k].map(|x| x as f64);
    let pair = if kind.is_complex() { 4.0 } else { 1.0 };
    let of_bidiagonal = 2.0 * n * n * k;
    let back = if formed { 7.0 } else { 5.0 };
    (of_bidiagonal + pair * k * (back * n * n + 2.0 * m * n + 2.0 * m * k)) as u64
}
