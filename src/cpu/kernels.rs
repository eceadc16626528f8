//! The tile kernels on the CPU.

use std::{
    marker::PhantomData,
    ops::Range,
    sync::{Mutex, PoisonError},
};

use faer::{Mat, MatMut, MatRef};
use num_complex::Complex;

use crate::{
    algo::{svdvals::right_of_bidiagonal, vectors::VectorKernels},
    base::{
        blas::{Op, Side},
        error::{Result, SvdError},
        number::{Number, Re, RealElement, Scalar},
        parallel::{col_chunks, each, join},
        view::map_into,
        watch::Watch,
    },
    cpu::{
        chase::{self, apply::ChaseReflectors},
        qr::{
            body, geqrt, pack_band,
            unmqr::{self, BlockReflectors},
        },
        simd::{
            aligned::{Aligned, LINE_BYTES, zeros},
            convert::widen_into,
        },
    },
    tile::{
        band::Band,
        band_layout::BandLayout,
        chase_schedule::{Cycle, ReductionStep},
        kernels::{ComplexBidiagonal, HeldBy, StageKernels, TileKernels},
        panel_tree::{Level, PanelTree},
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

    /// A copy of these matrices side by side, each times its scale, in the memory order of the first.
    fn upload_columns<T>(&self, sources: &[(MatRef<'_, T>, Re<T>)]) -> Result<Dense<S>>
    where
        T: Number<Real = S::Real, Scalar = S::Scalar>,
    {
        let Some((first, _)) = sources.first() else { return Err(SvdError::invalid("matrix", "it has no columns")) };
        let (m, n) = (first.nrows(), sources.iter().map(|(source, _)| source.ncols()).sum());
        let by_rows = first.col_stride().unsigned_abs() < first.row_stride().unsigned_abs();
        let (inner, outer) = if by_rows { (n, m) } else { (m, n) };
        let too_large = || SvdError::invalid("matrix", "its size overflows the address space");
        let ld = leading_dimension::<S>(inner).ok_or_else(too_large)?;
        let len = ld.checked_mul(outer).ok_or_else(too_large)?;
        let mut entries = zeros::<S>("copy of the matrix", len)?;
        let copy = |source: MatRef<'_, T>, scale: Re<T>, to: &mut [S]| {
            let rows = to.len();
            map_into(source, MatMut::from_column_major_slice_mut(to, rows, 1), |x| S::narrow(x.times(scale)));
        };
        each(entries.chunks_mut(ld).enumerate(), |(k, mut line)| {
            let mut j = k;
            for &(source, scale) in sources {
                if by_rows {
                    let (to, others) = line.split_at_mut(source.ncols());
                    copy(source.subrows(k, 1).transpose(), scale, to);
                    line = others;
                } else if j < source.ncols() {
                    return copy(source.subcols(j, 1), scale, &mut line[..m]);
                } else {
                    j -= source.ncols();
                }
            }
        });

        let Tuning { tile_size, leaf, tree, .. } = self.tuning;
        let width = tile_size.min(n).min(m);
        let longest = m.max(n).max(1);
        let leaf = leaf.min(longest);
        let (rows, blocks) = match tree {
            PanelTree::Flat => (2 * width, 1),
            PanelTree::Reduction => (leaf.max(self.tuning.arity().saturating_mul(width)).min(longest), longest.div_ceil(leaf)),
        };
        let factors = || -> Result<_> {
            Ok(Factors {
                v: zeros("reflectors", blocks * v_rows::<S::Scalar>(rows, width) * width)?,
                t: zeros("triangular factors", blocks * width * width)?,
                r: zeros("triangular factors", blocks * width * width)?,
            })
        };
        let strides = if by_rows { (ld, 1) } else { (1, ld) };
        Ok(Dense {
            entries,
            shape: (m, n),
            strides,
            factors: [factors()?, factors()?],
            products: Mutex::new(Vec::new()),
            kept: None,
        })
    }
}

/// Columns that a task reads back.
const COLUMNS: usize = 128;

/// A copy in the type of the arithmetic.
fn copied<S: Number>(a: MatRef<'_, S>) -> Mat<S::Scalar> {
    let mut copy = Mat::zeros(a.nrows(), a.ncols());
    let columns = |(block, to): (usize, MatMut<'_, S::Scalar>)| widen_into(a.subcols(block * COLUMNS, to.ncols()), to);
    each(col_chunks(copy.as_mut(), COLUMNS).enumerate(), columns);
    copy
}

/// The operands of a stage 1 kernel: a sweep's view of the matrix, the factors of two levels, and the workspace pool.
pub(crate) type Parts<'a, S> = (MatMut<'a, S>, &'a mut [Factors<<S as Number>::Scalar>; 2], &'a Pool<<S as Number>::Scalar>);

/// Workspace buffers, which tasks borrow and return.
pub(crate) type Pool<T> = Mutex<Vec<Aligned<T>>>;

/// A dense matrix: column-major, or row-major and read through swapped strides. Entry (i, j) is at i * strides.0 + j * strides.1.
pub struct Dense<S: Number> {
    entries: Aligned<S>,
    shape: (usize, usize),
    strides: (usize, usize),
    /// The factors of the current level, and those of the next level, which may be factored during the current update.
    factors: [Factors<S::Scalar>; 2],
    /// Workspace of the updates in progress, one buffer each.
    products: Pool<S::Scalar>,
    /// T of every level so far, if reflectors are kept.
    kept: Option<Vec<Aligned<S::Scalar>>>,
}

/// The output of `geqrt`, which `unmqr` reads. Block q of a level has V at `q * v_rows * width` (column-major, leading dimension
/// [`v_rows`]), and T and R (both column-major) at `q * width * width`.
pub(crate) struct Factors<T> {
    pub v: Aligned<T>,
    pub t: Aligned<T>,
    pub r: Aligned<T>,
}

impl<T: Scalar> Factors<T> {
    /// V and T of block q.
    pub fn of_block(&self, level: &Level, q: usize) -> (MatRef<'_, T>, MatRef<'_, T>) {
        let &Level { width, map, .. } = level;
        let ld = v_rows::<T>(map.block_rows.min(map.rows), width);
        let (block, square) = (ld * width, width * width);
        let v = MatRef::from_column_major_slice_with_stride(&self.v[q * block..(q + 1) * block], map.block(q).len(), width, ld);
        (v, MatRef::from_column_major_slice(&self.t[q * square..(q + 1) * square], width, width))
    }
}

/// A band in [`BandLayout`], stored in double precision, or as `f16` if the matrix is.
///
/// Stage 2 is a small part of the work. In f32 it would contribute most of the error: each of its many short reflectors loses a unit in
/// the last place in its products v^H x. In f64 it adds nothing to stage 1's error.
pub struct Banded<B: Number> {
    entries: Aligned<B>,
    layout: BandLayout,
    /// The sides whose reflectors are kept, and those of every reduction step so far.
    kept: (Vec<Side>, Vec<ChaseReflectors<B>>),
}

impl<B: Number> Banded<B> {
    /// A zero band, in the layout of [`chase`](chase::chase).
    fn zeros(n: usize, bandwidth: usize, tile_width: usize) -> Result<Self> {
        let layout = chase::layout(n, bandwidth, tile_width);
        Ok(Banded { entries: zeros("band", layout.size()?)?, layout, kept: Default::default() })
    }

    /// Entry (i, j), bulges included; zero outside.
    fn get(&self, i: usize, j: usize) -> Complex<f64> {
        let BandLayout { n, ku, kl, .. } = self.layout;
        let inside = i.max(j) < n && if i > j { i - j <= kl } else { j - i <= ku };
        if inside { self.entries[self.layout.index(i, j)].to_complex() } else { 0.0.into() }
    }
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

impl<S: Number> Dense<S> {
    /// The matrix (QR sweep), or its transpose (LQ sweep).
    pub(crate) fn view(&self, transposed: bool) -> MatRef<'_, S> {
        let (rows, cols) = self.shape;
        let view = if self.strides.0 == 1 {
            MatRef::from_column_major_slice_with_stride(&self.entries, rows, cols, self.strides.1)
        } else {
            MatRef::from_column_major_slice_with_stride(&self.entries, cols, rows, self.strides.0).transpose()
        };
        if transposed { view.transpose() } else { view }
    }

    /// A mutable [`view`](Self::view), with the factors and the workspace pool.
    pub(crate) fn parts(&mut self, transposed: bool) -> Parts<'_, S> {
        let (rows, cols) = self.shape;
        let view = if self.strides.0 == 1 {
            MatMut::from_column_major_slice_with_stride_mut(&mut self.entries, rows, cols, self.strides.1)
        } else {
            MatMut::from_column_major_slice_with_stride_mut(&mut self.entries, cols, rows, self.strides.0).transpose_mut()
        };
        (if transposed { view.transpose_mut() } else { view }, &mut self.factors, &self.products)
    }

    /// Keeps T of the level that was factored last, if reflectors are kept.
    fn keep_t(&mut self, level: &Level) -> Result<()> {
        if let Some(kept) = &mut self.kept {
            let from = &self.factors[0].t[..level.map.blocks() * level.width * level.width];
            let mut t = zeros("triangular factors", from.len())?;
            t.copy_from_slice(from);
            kept.push(t);
        }
        Ok(())
    }
}

/// Runs `body` with a buffer of `len` elements from the pool, whose values are arbitrary, and returns the buffer to the pool.
pub(crate) fn with_buffer<T: Scalar, R>(pool: &Pool<T>, len: usize, body: impl FnOnce(&mut [T]) -> R) -> R {
    let mut buffer = pool.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
    buffer.grow(len);
    let result = body(&mut buffer[..len]);
    pool.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
    result
}

/// The leading dimension for columns of `len` elements. It is a whole number of cache lines, but no multiple of 2048 bytes, so that
/// neither columns nor rows map to few cache sets. None if it overflows.
pub(crate) fn leading_dimension<T>(len: usize) -> Option<usize> {
    let line = (LINE_BYTES / size_of::<T>()).max(1);
    let padded = len.checked_next_multiple_of(line)?.max(line);
    if padded.checked_mul(size_of::<T>())?.is_multiple_of(2048) { padded.checked_add(line) } else { Some(padded) }
}

/// The leading dimension of the V of a block: at least max(rows, columns), and [`PADDING`](body::PADDING) rows of zeros. The
/// [panel kernels](crate::cpu::qr::panel) can thus process whole registers from any diagonal entry on.
pub(crate) fn v_rows<T>(block_rows: usize, width: usize) -> usize {
    let rows = block_rows.max(width) + body::PADDING;
    leading_dimension::<T>(rows).unwrap_or(rows)
}

impl<S: Number> StageKernels for CpuKernels<S> {
    type Dense = Dense<S>;
    type Banded = Banded<S::InBand>;

    fn geqrt(&self, a: &mut Dense<S>, level: &Level) -> Result<()> {
        let keep = a.kept.is_some();
        let (view, factors, pool) = a.parts(level.transposed);
        geqrt::geqrt(view, &mut factors[0], pool, level, keep);
        a.keep_t(level)?;
        self.watch.did(level.geqrt_flops::<S>())
    }

    fn unmqr(&self, a: &mut Dense<S>, level: &Level) -> Result<()> {
        let (a, factors, pool) = a.parts(level.transposed);
        let trailing = a.get_mut(.., level.col + level.width..);
        let done = level.unmqr_flops::<S>(trailing.ncols());
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
        let done = level.unmqr_flops::<S>(right.ncols()) + next.geqrt_flops::<S>();
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
    async fn right_of_bidiagonal(&self, c: ComplexBidiagonal, k: usize) -> Result<Dense<S>> {
        let right = right_of_bidiagonal::<S::Scalar>(&c, k, &self.watch)?;
        self.upload(right.transpose(), Re::<S>::from_double(1.0))
    }

    fn copy(&self, _: &Dense<S>) -> Result<Option<Dense<S>>> {
        Ok(None)
    }
}

impl<S: Number> TileKernels for CpuKernels<S> {
    type Storage = S;

    fn upload<T: HeldBy<Self>>(&self, source: MatRef<'_, T>, scale: Re<T>) -> Result<Dense<S>> {
        self.upload_columns(&[(source, scale)])
    }

    fn upload_beside<T: HeldBy<Self>>(&self, a: (MatRef<'_, T>, Re<T>), b: (MatRef<'_, T>, Re<T>)) -> Result<Dense<S>> {
        self.upload_columns(&[a, b])
    }

    fn upload_band<T: HeldBy<Self>>(&self, band: &Band<T>, scale: Re<T>, tile_width: usize) -> Result<Self::Banded> {
        let mut held = Banded::zeros(band.n(), band.bandwidth(), tile_width)?;
        let layout = held.layout;
        let entries = &mut held.entries;
        for j in 0..band.n() {
            let (first, column) = band.column(j);
            let to = entries[layout.index(first, j)..].iter_mut();
            to.zip(column).for_each(|(to, &x)| *to = S::InBand::from_complex(x.widen().times(scale).to_complex()));
        }
        Ok(held)
    }

    fn download(&self, a: &Dense<S>) -> Result<Mat<S::Scalar>> {
        Ok(copied(a.view(false)))
    }

    async fn download_rows(&self, a: &Dense<S>, rows: usize) -> Result<Mat<S::Scalar>> {
        let a = a.view(false);
        Ok(copied(a.subrows(0, rows.min(a.nrows()))))
    }

    async fn download_awaited(&self, a: &Dense<S>) -> Result<Mat<S::Scalar>> {
        self.download(a)
    }

    fn download_band(&self, band: Self::Banded, bandwidth: usize, scale: Re<S>) -> Result<Band<S::Scalar>> {
        Band::from_fn(band.layout.n, bandwidth, |i, j| S::Scalar::from_complex(band.get(i, j)).times(scale))
    }

    async fn bidiagonal(&self, band: &Self::Banded) -> Result<ComplexBidiagonal> {
        let n = band.layout.n;
        let diagonal = (0..n).map(|i| band.get(i, i)).collect();
        let superdiagonal = (1..n).map(|j| band.get(j - 1, j)).collect();
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
        let done = level.unmqr_flops::<S>(view.ncols());
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
        self.watch.did(step.flops::<S>(step.all_cycles()).saturating_mul(cols) / (2 * (step.bandwidth + step.tile_width)) as u64)
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
    use super::*;
    use crate::{
        algo::{band_to_bidiag::band_to_bidiag, count::flops_by_band, svdvals::stage_one},
        base::{
            number::RealElement,
            watch::{Listen, ProgressFn, Stage},
        },
    };

    /// The flops that the kernels report in stages 1 and 2 add up exactly to those announced, for square, tall and QR-first shapes, both
    /// trees, and a complex type.
    #[test]
    fn work_is_what_was_announced() {
        fn check<S: Number<Scalar = S>>(m: usize, n: usize, tuning: &Tuning) {
            let listen = Listen::new(Some(ProgressFn::new(|_| ())), None);
            let watch = Watch::new(&listen, || flops_by_band::<S>((m, n), tuning)).unwrap();
            let kernels = CpuKernels::<S>::watched(tuning, watch.clone()).unwrap();
            let a = faer::Mat::from_fn(m, n, |i, j| S::from_complex(((7 * i + 3 * j * j) as f64).sin().into()));

            watch.begin(Stage::ToBand).unwrap();
            let mut dense = kernels.upload(a.as_ref(), S::Real::from_double(1.0)).unwrap();
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
