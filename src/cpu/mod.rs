//! The CPU backend: the tile kernels through rayon and SIMD. Each file is the twin of the shader of the same name.

mod chase;
mod geqrt;
mod lanes;
mod larfg;
mod pack_band;
mod unmqr;

use std::sync::{Mutex, PoisonError};

use faer::{MatMut, MatRef};
use rayon::prelude::*;

use crate::{
    band::Band,
    error::{Result, SvdError},
    kernels::{BandLayout, Level, PanelTree, ReductionStep, TileKernels},
    options::Tuning,
    scalar::RealElement,
};

/// The CPU backend. Runs in the rayon pool that its caller is in.
#[derive(Clone, Debug)]
pub struct CpuKernels {
    tuning: Tuning,
}

impl CpuKernels {
    /// The backend with these hyperparameters.
    ///
    /// # Errors
    /// [`SvdError::InvalidOption`] where [`Tuning::check`] refuses them.
    pub fn new(tuning: &Tuning) -> Result<Self> {
        tuning.check()?;
        Ok(CpuKernels { tuning: tuning.clone() })
    }
}

/// Buffers that tasks take and give back.
type Pool<T> = Mutex<Vec<Vec<T>>>;

/// A dense matrix: column-major, or row-major and read through swapped strides. Entry (i, j) is at i * strides.0 + j * strides.1.
pub struct Dense<T> {
    entries: Vec<T>,
    shape: (usize, usize),
    strides: (usize, usize),
    factors: Factors<T>,
    /// The W of the updates that are under way, one for each; taken and given back.
    products: Pool<T>,
}

/// What `geqrt` leaves for `unmqr`: block q of a level has V at `q * block_rows * width` (column-major, `block_rows` rows to a column),
/// T and R (both column-major) at `q * width * width`.
pub(crate) struct Factors<T> {
    v: Vec<T>,
    t: Vec<T>,
    r: Vec<T>,
}

/// A band in [`BandLayout`], in double precision whatever the element type.
///
/// Stage 2 is a small part of the work, and in f32 it is where most of the error would come from: each of the many short reflectors
/// loses a unit in its products v^T x. In f64 it adds nothing to stage 1's error.
pub struct Banded {
    entries: Vec<f64>,
    layout: BandLayout,
}

/// Zeros, or an error where the allocator has no room.
fn zeros<T: bytemuck::Pod>(what: &'static str, len: usize) -> Result<Vec<T>> {
    let mut entries = Vec::new();
    entries.try_reserve_exact(len).map_err(|e| SvdError::OutOfMemory { reason: format!("{what}: {e}") })?;
    entries.resize(len, T::zeroed());
    Ok(entries)
}

impl<T: RealElement> Dense<T> {
    /// The matrix, or its transpose: what a sweep works on.
    fn view(&self, transposed: bool) -> MatRef<'_, T> {
        let (rows, cols) = self.shape;
        let view = if self.strides.0 == 1 {
            MatRef::from_column_major_slice_with_stride(&self.entries, rows, cols, self.strides.1)
        } else {
            MatRef::from_column_major_slice_with_stride(&self.entries, cols, rows, self.strides.0).transpose()
        };
        if transposed { view.transpose() } else { view }
    }

    /// As [`view`](Self::view), to be changed, with the workspaces beside it.
    fn parts(&mut self, transposed: bool) -> (MatMut<'_, T>, &mut Factors<T>, &Pool<T>) {
        let (rows, cols) = self.shape;
        let view = if self.strides.0 == 1 {
            MatMut::from_column_major_slice_with_stride_mut(&mut self.entries, rows, cols, self.strides.1)
        } else {
            MatMut::from_column_major_slice_with_stride_mut(&mut self.entries, cols, rows, self.strides.0).transpose_mut()
        };
        (if transposed { view.transpose_mut() } else { view }, &mut self.factors, &self.products)
    }

    /// The matrix as it stands, for tests.
    #[doc(hidden)]
    pub fn to_mat(&self) -> faer::Mat<T> {
        self.view(false).to_owned()
    }
}

/// Runs `body` with a buffer from the pool, and gives it back.
fn with_buffer<T, R>(pool: &Pool<T>, body: impl FnOnce(&mut Vec<T>) -> R) -> R {
    let mut buffer = pool.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
    let result = body(&mut buffer);
    pool.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
    result
}

/// Distance between columns of `len` elements such that neither columns nor rows fall on few cache sets: whole cache lines, and no
/// multiple of a page.
fn leading_dimension<T>(len: usize) -> usize {
    let line = (64 / size_of::<T>()).max(1);
    let padded = len.next_multiple_of(line).max(line);
    if (padded * size_of::<T>()).is_multiple_of(2048) { padded + line } else { padded }
}

impl<T: RealElement> TileKernels<T> for CpuKernels {
    type Dense = Dense<T>;
    type Banded = Banded;

    fn upload(&self, source: MatRef<'_, T>, scale: T) -> Result<Dense<T>> {
        let (m, n) = source.shape();
        let by_rows = source.col_stride().unsigned_abs() < source.row_stride().unsigned_abs();
        let (inner, outer) = if by_rows { (n, m) } else { (m, n) };
        let ld = leading_dimension::<T>(inner);
        let len = ld.checked_mul(outer).ok_or_else(|| SvdError::invalid("matrix", "its size overflows the address space"))?;
        let mut entries = zeros("copy of the matrix", len)?;
        let source = if by_rows { source.transpose() } else { source };
        entries.par_chunks_mut(ld).enumerate().for_each(|(j, column)| {
            let from = source.col(j);
            match from.try_as_col_major() {
                Some(from) => column.iter_mut().zip(from.as_slice()).for_each(|(to, &x)| *to = x * scale),
                None => column.iter_mut().zip(from.iter()).for_each(|(to, &x)| *to = x * scale),
            }
        });

        let Tuning { tile_size, leaf, tree, .. } = self.tuning;
        let width = tile_size.min(n.max(1)).min(m.max(1));
        let (rows, blocks) = match tree {
            PanelTree::Flat => (2 * width, 1),
            PanelTree::Reduction => (m.max(n).next_multiple_of(leaf), m.max(n).div_ceil(leaf)),
        };
        let factors = Factors {
            v: zeros("reflectors", rows * width)?,
            t: zeros("triangular factors", blocks.max(1) * width * width)?,
            r: zeros("triangular factors", blocks.max(1) * width * width)?,
        };
        let strides = if by_rows { (ld, 1) } else { (1, ld) };
        Ok(Dense { entries, shape: (m, n), strides, factors, products: Mutex::new(Vec::new()) })
    }

    fn geqrt(&self, a: &mut Dense<T>, level: &Level) -> Result<()> {
        let (a, factors, pool) = a.parts(level.transposed);
        geqrt::geqrt(a, factors, pool, level);
        Ok(())
    }

    fn unmqr(&self, a: &mut Dense<T>, level: &Level) -> Result<()> {
        let (a, factors, pool) = a.parts(level.transposed);
        unmqr::unmqr(a, factors, pool, level, self.tuning.cols_per_block);
        Ok(())
    }

    fn pack_band(&self, a: Dense<T>, n: usize, bandwidth: usize, tile_width: usize) -> Result<Banded> {
        let layout = BandLayout::new(n, bandwidth, tile_width);
        let mut entries = zeros("band", layout.size()?)?;
        pack_band::pack_band(a.view(false), &mut entries, layout, bandwidth);
        Ok(Banded { entries, layout })
    }

    fn upload_band(&self, band: &Band<T>, scale: T, tile_width: usize) -> Result<Banded> {
        let layout = BandLayout::new(band.n(), band.bandwidth(), tile_width);
        let mut entries = zeros("band", layout.size()?)?;
        for j in 0..band.n() {
            let (first, column) = band.column(j);
            let at = layout.index(first, j);
            entries[at..at + column.len()].iter_mut().zip(column).for_each(|(to, &x)| *to = (x * scale).to_double());
        }
        Ok(Banded { entries, layout })
    }

    fn download_band(&self, band: Banded, bandwidth: usize, scale: T) -> Result<Band<T>> {
        let Banded { entries, layout } = band;
        Band::from_fn(layout.n, bandwidth, |i, j| T::from_double(entries[layout.index(i, j)]) * scale)
    }

    fn chase(&self, band: &mut Banded, step: &ReductionStep) -> Result<()> {
        chase::chase(&mut band.entries, band.layout, step);
        Ok(())
    }

    fn bidiagonal(&self, band: Banded) -> Result<(Vec<f64>, Vec<f64>)> {
        let Banded { entries, layout } = band;
        let diagonal = (0..layout.n).map(|i| entries[layout.index(i, i)]).collect();
        let superdiagonal = (1..layout.n).map(|j| if layout.ku == 0 { 0.0 } else { entries[layout.index(j - 1, j)] }).collect();
        Ok((diagonal, superdiagonal))
    }

    fn finish(&self) -> Result<()> {
        Ok(())
    }
}
