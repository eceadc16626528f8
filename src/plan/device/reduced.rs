//! The triangle of a least squares problem on a device, by the panel tree of [A B]: what A's reflectors leave of B's columns is Q^H B, and none of
//! the reflectors are kept.

use pollster::block_on;

use crate::{
    algo::{count::factor_flops, to_band::triangular_factor},
    base::{
        clock::{Clock, StageSeconds},
        element_kind::ElementKind,
        error::Result,
        stage::Stage,
        watch::Watch,
    },
    gpu::{
        device::stream::Manner,
        kernels::GpuKernels,
        storage::{Dense, Lines},
    },
    plan::{backend::OnGpu, device::factors::Triangle, options::RunOptions, qr_report::report_of_gpu, report::SvdReport},
    tile::kernels::TileKernels,
};

/// R, of A with the rows of the ridge if there is one.
pub(super) struct Reduced {
    kernels: GpuKernels,
    r: Dense,
    /// Of A.
    shape: (usize, usize),
}

impl Triangle for Reduced {
    fn kernels(&self) -> &GpuKernels {
        &self.kernels
    }

    fn r(&self) -> &Dense {
        &self.r
    }

    fn shape(&self) -> (usize, usize) {
        self.shape
    }
}

/// A scaled problem: the matrices A (m x n, m >= n) and B (m x p), their scales, and the root of the scaled ridge.
pub(super) struct Scaled<'a> {
    pub a: (&'a Lines<'a>, f64),
    pub b: (&'a Lines<'a>, f64),
    pub root: f64,
}

/// R, the first n rows of Q^H B, and its other rows.
pub(super) fn reduced(
    kind: ElementKind,
    of: &Scaled<'_>,
    on: OnGpu,
    run: &RunOptions,
    timed: bool,
) -> Result<SvdReport<(Reduced, [Dense; 2])>> {
    let (shape @ (_, n), p) = (of.a.0.size(), of.b.0.size().1);
    let (mut clock, tuning) = (Clock::new(timed), on.tuning.clone());
    let watch = Watch::new(&run.listen(), || Ok([factor_flops(kind, shape, &tuning)?, 0, 0, 0]))?;
    let manner = Manner { timed: run.time_kernels, watch: watch.clone(), ..Manner::default() };
    let kernels = GpuKernels::running(kind, &on.context, &tuning, manner)?;
    watch.begin(Stage::Qr)?;
    let mut both = kernels.beside(of.a, of.b, of.root)?;
    let rows = both.size.0;
    triangular_factor(&kernels, &mut both, rows, n, &tuning)?;
    let r = kernels.upper_square(&both, n)?;
    let [inside, outside] = [0..n, n..rows].map(|rows| kernels.window(&both, rows, n..n + p));
    let projected = [inside?, outside?];
    // Nothing waits for the factors but who is told of them, or of their seconds.
    if timed || run.progress.is_some() {
        block_on(kernels.finish())?;
    } else {
        block_on(kernels.stream.run_all())?;
    }
    watch.end();
    let seconds = StageSeconds { qr: clock.restart(), ..StageSeconds::default() };
    // Without the call's listeners.
    let later = GpuKernels::running(kind, &on.context, &tuning, Manner::default())?;
    Ok(report_of_gpu(shape, on, &kernels, seconds, (Reduced { kernels: later, r, shape }, projected)))
}
