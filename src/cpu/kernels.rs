//! The tile kernels on the CPU.

use std::{marker::PhantomData, ops::Range};

use faer::{Mat, MatMut, MatRef};

use crate::{
    algo::{
        bidiag::Known,
        svdvals::right_of_bidiagonal,
        vectors::{Applied, VectorKernels, drift, needs_step},
    },
    base::{
        blas::{Op, Side},
        element_kind::ElementKind,
        error::{Result, SvdError},
        number::{Number, Re, RealElement, Scalar},
        parallel::{col_chunks, each, join},
        watch::Watch,
        zeros::zeros,
    },
    cpu::{
        chase::{self, apply::ChaseReflectors},
        qr::{
            geqrt, pack_band,
            unmqr::{self, BlockReflectors},
        },
        simd::convert::widen_into,
        storage::{Banded, Dense},
    },
    tile::{
        band::Band,
        chase_schedule::{Cycle, ReductionStep},
        kernels::{ComplexBidiagonal, StageKernels, TileKernels, Transfers},
        panel_tree::Level,
        tuning::Tuning,
    },
};

/// The CPU backend, for matrices stored as `S`. It runs in the rayon pool of its caller.
#[derive(Clone, Debug)]
pub struct CpuKernels<S> {
    tuning: Tuning,
    watch: Watch,
    storage: PhantomData<S>,
}

impl<S: Number> CpuKernels<S> {
    /// The backend with these hyperparameters.
    ///
    /// # Errors
    /// [`SvdError::InvalidOption`] if [`Tuning::check`] rejects them.
    pub fn new(tuning: &Tuning) -> Result<Self> {
        Self::watched(tuning, Watch::default())
    }

    /// Reports `flops` more.
    pub(crate) fn did(&self, flops: u64) -> Result<()> {
        self.watch.did(flops)
    }

    /// [`new`](Self::new), reporting progress to `watch`.
    pub(crate) fn watched(tuning: &Tuning, watch: Watch) -> Result<Self> {
        tuning.check()?;
        Ok(CpuKernels { tuning: tuning.clone(), watch, storage: PhantomData })
    }
}

/// Columns that a task reads back.
const COLUMNS: usize = 128;

/// A copy in the type of the arithmetic.
fn copied<S: Number>(a: MatRef<'_, S>) -> Mat<S::Scalar> {
    let mut copy = zeros(a.nrows(), a.ncols());
    let columns = |(block, to): (usize, MatMut<'_, S::Scalar>)| widen_into(a.subcols(block * COLUMNS, to.ncols()), to);
    each(col_chunks(copy.as_mut(), COLUMNS).enumerate(), columns);
    copy
}

impl<S: Number> CpuKernels<S> {
    /// Runs one of the cycles of [`chase`](StageKernels::chase): cycle `i` of `sweep`. The cycles that it depends on must be done.
    pub(crate) fn chase_cycle(&self, band: &mut Banded<S::InBand>, step: &ReductionStep, sweep: usize, i: usize) -> Cycle {
        let layout = band.layout;
        chase::chase_cycle(&mut band.entries, layout, step, sweep, i)
    }

    /// Entry (i, j) of a band, bulges included; zero outside.
    pub(crate) fn entry(&self, band: &Banded<S::InBand>, i: usize, j: usize) -> S::Scalar {
        S::Scalar::from_complex(band.get(i, j))
    }
}

impl<S: Number> StageKernels for CpuKernels<S> {
    type Dense = Dense<S>;
    type Banded = Banded<S::InBand>;

    fn geqrt(&self, a: &mut Dense<S>, level: &Level) -> Result<()> {
        let keep = a.kept.is_some();
        let (view, factors, pool) = a.parts(level.transposed);
        geqrt::geqrt(view, &mut factors[0], pool, level, keep);
        a.keep_t(level)?;
        self.watch.did(level.geqrt_flops(S::KIND))
    }

    fn unmqr(&self, a: &mut Dense<S>, level: &Level) -> Result<()> {
        let (a, factors, pool) = a.parts(level.transposed);
        let trailing = a.get_mut(.., level.col + level.width..);
        let done = level.unmqr_flops(S::KIND, trailing.ncols());
        let by = BlockReflectors { factors: &factors[0], level, adjoint: true };
        unmqr::unmqr(trailing, by, pool, self.tuning.cols_per_block);
        self.watch.did(done)
    }

    fn unmqr_and_geqrt(&self, a: &mut Dense<S>, level: &Level, next: &Level) -> Result<()> {
        if level.transposed != next.transposed || level.col != next.col {
            self.unmqr(a, level)?;
            return self.geqrt(a, next);
        }
        // Within a sweep, `geqrt` of the next level touches only the panel, and `unmqr` only the columns right of it.
        let keep = a.kept.is_some();
        let (view, [factors, of_next], pool) = a.parts(level.transposed);
        let (panel, right) = view.split_at_col_mut(level.col + level.width);
        let done = level.unmqr_flops(S::KIND, right.ncols()) + next.geqrt_flops(S::KIND);
        let by = BlockReflectors { factors: &*factors, level, adjoint: true };
        join(|| geqrt::geqrt(panel, of_next, pool, next, keep), || unmqr::unmqr(right, by, pool, self.tuning.cols_per_block));
        a.factors.swap(0, 1);
        a.keep_t(next)?;
        self.watch.did(done)
    }

    fn keep_rows(&self, a: &mut Dense<S>, rows: usize) {
        a.shape.0 = rows.min(a.shape.0);
    }

    fn pack_band(&self, a: &Dense<S>, n: usize, bandwidth: usize, tile_width: usize) -> Result<Self::Banded> {
        let mut band = Banded::zeros(n, bandwidth, tile_width)?;
        let layout = band.layout;
        pack_band::pack_band(a.view(false), &mut band.entries, layout, bandwidth);
        Ok(band)
    }

    fn chase(&self, band: &mut Self::Banded, step: &ReductionStep) -> Result<()> {
        let layout = band.layout;
        let (sides, all) = &mut band.kept;
        let mut kept = if sides.is_empty() { None } else { Some(ChaseReflectors::new(step, sides)?) };
        chase::chase(&mut band.entries, layout, step, kept.as_mut(), &self.watch)?;
        all.extend(kept);
        Ok(())
    }
}

impl<S: Number> VectorKernels for CpuKernels<S> {
    async fn right_of_bidiagonal(
        &self,
        c: ComplexBidiagonal,
        values: &[f64],
        k: usize,
        _: Option<Applied<'_, Dense<S>>>,
    ) -> Result<(Dense<S>, bool)> {
        let known = Known { values, drift: drift(S::KIND, needs_step(S::KIND, (c.diagonal.len(), k))) };
        let right = right_of_bidiagonal::<S::Scalar>(&c, k, known, &self.watch)?;
        Ok((self.upload(right.transpose(), Re::<S>::from_double(1.0))?, false))
    }

    fn copy(&self, _: &Dense<S>) -> Result<Option<Dense<S>>> {
        Ok(None)
    }
}

impl<T: Scalar, S: Number<Real = Re<T>, Scalar = T>> Transfers<T> for CpuKernels<S> {
    fn upload(&self, source: MatRef<'_, T>, scale: Re<T>) -> Result<Dense<S>> {
        Dense::side_by_side(&[(source, scale)], &self.tuning)
    }

    fn upload_beside(&self, a: (MatRef<'_, T>, Re<T>), b: (MatRef<'_, T>, Re<T>)) -> Result<Dense<S>> {
        Dense::side_by_side(&[a, b], &self.tuning)
    }

    fn upload_band(&self, band: &Band<T>, scale: Re<T>, tile_width: usize) -> Result<Self::Banded> {
        let mut held = Banded::zeros(band.n(), band.bandwidth(), tile_width)?;
        let layout = held.layout;
        let entries = &mut held.entries;
        for j in 0..band.n() {
            let (first, column) = band.column(j);
            for (to, &x) in entries[layout.index(first, j)..].iter_mut().zip(column) {
                *to = S::InBand::from_complex(x.times(scale).to_complex());
            }
        }
        Ok(held)
    }

    fn download(&self, a: &Dense<S>) -> Result<Mat<T>> {
        Ok(copied(a.view(false)))
    }

    async fn download_rows(&self, a: &Dense<S>, rows: usize) -> Result<Mat<T>> {
        let a = a.view(false);
        Ok(copied(a.subrows(0, rows.min(a.nrows()))))
    }

    async fn download_awaited(&self, a: &Dense<S>) -> Result<Mat<T>> {
        self.download(a)
    }

    fn download_band(&self, band: Self::Banded, bandwidth: usize, scale: Re<T>) -> Result<Band<T>> {
        Band::from_fn(band.layout.n, bandwidth, |i, j| T::from_complex(band.get(i, j)).times(scale))
    }
}

impl<S: Number> TileKernels for CpuKernels<S> {
    const IN_POOL: bool = true;

    fn kind(&self) -> ElementKind {
        S::KIND
    }

    async fn bidiagonal(&self, band: &Self::Banded) -> Result<ComplexBidiagonal> {
        let n = band.layout.n;
        let (mut diagonal, mut superdiagonal) = (Vec::with_capacity(n), Vec::with_capacity(n));
        for j in 0..n {
            diagonal.push(band.get(j, j));
            if j > 0 {
                superdiagonal.push(band.get(j - 1, j));
            }
        }
        Ok(ComplexBidiagonal { diagonal, superdiagonal })
    }

    fn keep_reflectors(&self, a: &mut Dense<S>, _: &mut dyn Iterator<Item = Level>) -> Result<()> {
        a.kept = Some(Vec::new());
        Ok(())
    }

    fn apply(&self, a: &Dense<S>, k: usize, level: &Level, op: Op, c: &mut Dense<S>, first: usize) -> Result<()> {
        let t = a.kept.as_ref().and_then(|kept| kept.get(k));
        let t = t.ok_or_else(|| SvdError::invalid("reflectors", format!("those of level {k} were not kept")))?;
        let panel = a.view(level.transposed);
        let &Level { transposed, col, width, map } = level;
        let fits = map.rows > 0 && map.row(map.rows - 1) < panel.nrows() && col + width <= panel.ncols();
        if !fits || t.len() != map.blocks() * width * width {
            return Err(SvdError::invalid("level", format!("{level:?} is not the one that was kept")));
        }
        let (view, _, pool) = c.parts(false);
        if map.row(map.rows - 1) >= view.nrows() {
            return Err(SvdError::invalid("c", format!("{} rows, of at least {}", view.nrows(), map.row(map.rows - 1) + 1)));
        }
        if first > view.ncols() {
            return Err(SvdError::invalid("c", format!("{} columns, of which none is column {first}", view.ncols())));
        }
        let view = view.get_mut(.., first..);
        // U is I - V T V^H for a QR level, and its conjugate for an LQ level. op(U) is one of these, or the adjoint of one.
        let conjugate = transposed != (op == Op::Trans);
        let factors = geqrt::gather_reflectors(panel.subcols(col, width), t, level, conjugate)?;
        let done = level.unmqr_flops(S::KIND, view.ncols());
        let by = BlockReflectors { factors: &factors, level, adjoint: op != Op::NoTrans };
        unmqr::unmqr(view, by, pool, self.tuning.cols_per_block);
        self.watch.did(done)
    }

    fn keep_chase(&self, band: &mut Self::Banded, sides: &[Side]) -> Result<()> {
        band.kept = (sides.to_vec(), Vec::new());
        Ok(())
    }

    fn apply_chase(
        &self,
        band: &Self::Banded,
        k: usize,
        step: &ReductionStep,
        side: Side,
        op: Op,
        c: &mut Dense<S>,
    ) -> Result<()> {
        let kept = band.kept.1.get(k).filter(|kept| kept.step() == *step);
        let kept = kept.ok_or_else(|| SvdError::invalid("reflectors", format!("those of step {k} were not kept")))?;
        let (view, ..) = c.parts(false);
        if view.nrows() != step.n {
            return Err(SvdError::invalid("c", format!("{} rows, not {}", view.nrows(), step.n)));
        }
        let cols = view.ncols() as u64;
        kept.apply(view, side, op)?;
        self.watch
            .did(step.flops(S::KIND, step.all_cycles()).saturating_mul(cols) / (2 * (step.bandwidth + step.tile_width)) as u64)
    }

    fn apply_row_reflectors(&self, _: &Dense<S>, panels: &mut Self::Panels, rows: Range<usize>, c: &mut Dense<S>) -> Result<()> {
        let (view, ..) = c.parts(false);
        let done = 4 * (rows.len() * view.nrows()) as u64 * view.ncols() as u64;
        let view = S::as_scalars(view).ok_or_else(|| SvdError::invalid("half_storage", "vectors need HalfStorage::Single"))?;
        panels.apply(rows, view)?;
        self.watch.did(done)
    }

    async fn finish(&self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use num_complex::Complex;

    use super::*;
    use crate::{
        algo::{band_to_bidiag::band_to_bidiag, count::flops_by_band, deferred::Deferral, svdvals::stage_one},
        base::{
            stage::Stage,
            watch::{Listen, ProgressFn},
        },
        tile::panel_tree::PanelTree,
    };

    /// The flops that the kernels report in stages 1 and 2 add up exactly to those announced, for square, tall and QR-first shapes, both
    /// trees, and a complex type.
    #[test]
    fn work_is_what_was_announced() {
        fn check<S: Scalar>(m: usize, n: usize, tuning: &Tuning) {
            let listen = Listen::new(Some(ProgressFn::new(|_| ())), None);
            let watch = Watch::new(&listen, || flops_by_band(S::KIND, (m, n), tuning, Deferral::default())).unwrap();
            let kernels = CpuKernels::<S>::watched(tuning, watch.clone()).unwrap();
            let a = faer::Mat::from_fn(m, n, |i, j| S::from_complex(((7 * i + 3 * j * j) as f64).sin().into()));

            watch.begin(Stage::ToBand).unwrap();
            let mut dense = kernels.upload(a.as_ref(), Re::<S>::from_double(1.0)).unwrap();
            stage_one(&kernels, &mut dense, m, n, tuning).unwrap();
            assert_eq!(watch.done(), watch.announced(Stage::ToBand), "stage 1 of {} {m} x {n}", S::NAME);

            let bandwidth = tuning.bandwidth(n);
            let mut band = kernels.pack_band(&dense, n, bandwidth, tuning.tile_width).unwrap();
            watch.begin(Stage::BandToBidiag).unwrap();
            band_to_bidiag(&kernels, &mut band, n, bandwidth, tuning.tile_width).unwrap();
            assert_eq!(watch.done(), watch.announced(Stage::BandToBidiag), "stage 2 of {} {m} x {n}", S::NAME);
        }
        let tuning = Tuning::for_cpu::<f64>(100).tile_size(8).leaf(24).tile_width(5);
        for (m, n) in [(100, 100), (61, 40), (200, 33), (9, 8), (3, 2), (1, 1)] {
            for tuning in [tuning.clone(), tuning.clone().tree(PanelTree::Flat), Tuning::for_cpu::<f64>(n)] {
                check::<f64>(m, n, &tuning);
                check::<Complex<f32>>(m, n, &tuning);
            }
        }
    }
}
