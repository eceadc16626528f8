//! The matrices on the CPU: a dense one with the factors and the workspace of stage 1, and a band.

use std::sync::{Mutex, PoisonError};

use faer::{MatMut, MatRef};
use num_complex::Complex;

use crate::{
    base::{
        blas::Side,
        error::{Result, SvdError},
        number::{Number, Re, Scalar},
        parallel::each,
        view::map_into,
    },
    cpu::{
        chase::{self, apply::ChaseReflectors},
        qr::body,
        simd::aligned::{Aligned, LINE_BYTES, zeros},
    },
    tile::{
        band_layout::BandLayout,
        panel_tree::{Level, PanelTree},
        tuning::Tuning,
    },
};

/// The operands of a stage 1 kernel: a sweep's view of the matrix, the factors of two levels, and the workspace pool.
pub(crate) type Parts<'a, S> = (MatMut<'a, S>, &'a mut [Factors<<S as Number>::Scalar>; 2], &'a Pool<<S as Number>::Scalar>);

/// Workspace buffers, which tasks borrow and return.
pub(crate) type Pool<T> = Mutex<Vec<Aligned<T>>>;

/// A dense matrix: column-major, or row-major and read through swapped strides. Entry (i, j) is at i * strides.0 + j * strides.1.
pub struct Dense<S: Number> {
    entries: Aligned<S>,
    pub(super) shape: (usize, usize),
    strides: (usize, usize),
    /// The factors of the current level, and those of the next level, which may be factored during the current update.
    pub(super) factors: [Factors<S::Scalar>; 2],
    /// Workspace of the updates in progress, one buffer each.
    products: Pool<S::Scalar>,
    /// T of every level so far, if reflectors are kept.
    pub(super) kept: Option<Vec<Aligned<S::Scalar>>>,
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
    pub(super) entries: Aligned<B>,
    pub(super) layout: BandLayout,
    /// The sides whose reflectors are kept, and those of every reduction step so far.
    pub(super) kept: (Vec<Side>, Vec<ChaseReflectors<B>>),
}

impl<B: Number> Banded<B> {
    /// A zero band, in the layout of [`chase`](chase::chase).
    pub(super) fn zeros(n: usize, bandwidth: usize, tile_width: usize) -> Result<Self> {
        let layout = chase::layout(n, bandwidth, tile_width);
        Ok(Banded { entries: zeros("band", layout.size()?)?, layout, kept: Default::default() })
    }

    /// Entry (i, j), bulges included; zero outside.
    pub(super) fn get(&self, i: usize, j: usize) -> Complex<f64> {
        let BandLayout { n, ku, kl, .. } = self.layout;
        let inside = i.max(j) < n && if i > j { i - j <= kl } else { j - i <= ku };
        if inside { self.entries[self.layout.index(i, j)].to_complex() } else { 0.0.into() }
    }
}

impl<S: Number> Dense<S> {
    /// A copy of these matrices side by side, each times its scale, in the memory order of the first; with room for the factors that `tuning` has.
    pub(super) fn side_by_side<T>(sources: &[(MatRef<'_, T>, Re<T>)], tuning: &Tuning) -> Result<Self>
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

        let Tuning { tile_size, leaf, tree, .. } = *tuning;
        let width = tile_size.min(n).min(m);
        let longest = m.max(n).max(1);
        let leaf = leaf.min(longest);
        let (rows, blocks) = match tree {
            PanelTree::Flat => (2 * width, 1),
            PanelTree::Reduction => (leaf.max(tuning.arity().saturating_mul(width)).min(longest), longest.div_ceil(leaf)),
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
    pub(super) fn keep_t(&mut self, level: &Level) -> Result<()> {
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
