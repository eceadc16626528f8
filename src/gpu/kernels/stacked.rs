//! Several matrices of one shape on the device, which share each dispatch of stages 1 to 3.

use faer::{Mat, MatRef};
use num_complex::Complex;

use crate::{
    base::{
        element_kind::ElementKind,
        error::{Result, SvdError},
        number::{Number, Re, Scalar},
        view::copy_entries,
    },
    cost::{
        batch::{KEPT_BYTES, STACK_BYTES},
        chase::layout_on_device,
        shape::{Bounds, Shape},
    },
    gpu::{
        device::context::GpuContext,
        kernels::GpuKernels,
        limits::{Reflectors, dense_sizes, fitting_bytes, svd_bytes},
        matrix::copy_lines,
        storage::{Banded, Dense},
    },
    tile::{kernels::ComplexBidiagonal, tuning::Tuning},
};

/// Maximum number of m x n matrices, m >= n, stored as `S`, of a stack: those whose entries are [`STACK_BYTES`], and that fit the device's buffers
/// together. Zero if one of them does not. With `vectors` (true: full ones), [`KEPT_BYTES`] hold what all of them have at a time, and what some of them
/// need after that ([`svd_bytes`]).
pub(crate) fn most_stacked(
    kind: ElementKind,
    context: &GpuContext,
    (m, n): (usize, usize),
    by_rows: bool,
    tuning: &Tuning,
    vectors: Option<bool>,
) -> Result<usize> {
    let shape = Shape::new(kind, &Bounds::of(context), tuning)?;
    let (sizes, _) = dense_sizes(kind, context, 1, (m, n), by_rows, shape, tuning.leaf)?;
    let band = layout_on_device(n, tuning.bandwidth(n), tuning.tile_width, tuning).size()?;
    let entries = sizes.outer.saturating_mul(sizes.ld);
    let (stored, scalar, real) = (kind.bytes(), kind.scalar_bytes(), kind.real_bytes());
    let buffer = context.max_buffer_bytes();
    let mut fitting = vec![
        (entries, stored, buffer.min(STACK_BYTES)),
        (band, stored, buffer),
        (sizes.v, scalar, buffer),
        (sizes.t, scalar, buffer),
        (2 * n + 1, real, buffer),
    ];
    let mut by_bytes = u64::MAX;
    if let Some(full) = vectors {
        // U, like A, is in one buffer.
        let cols = if full { m } else { n };
        fitting_bytes(context, "vectors", kind.bytes(), m.checked_mul(cols.next_multiple_of(4)))?;
        let kept = Reflectors::of(kind, context, (m, n), tuning)?;
        let right = n.saturating_mul(n.next_multiple_of(4));
        fitting.extend([(kept.t, scalar, buffer), (kept.of_step, scalar, buffer), (right, stored, buffer)]);
        let (of_each, later) = svd_bytes(kind, context, (m, n), by_rows, full, tuning)?;
        let at_once = vectors_at_once(kind, context, (m, n), full, later)?;
        by_bytes = KEPT_BYTES.saturating_sub(later.saturating_mul(at_once as u64)) / of_each.max(1);
    }
    // Indices in shaders are u32.
    let count = |(len, each, bytes): (usize, usize, u64)| (bytes / each as u64).min(u32::MAX.into()) / len.max(1) as u64;
    let most = fitting.into_iter().map(count).min().unwrap_or(0).min(by_bytes);
    Ok(most.min(context.limits().max_compute_workgroups_per_dimension.into()) as usize)
}

/// The number of matrices, at least one, whose vectors are computed together after the back-transformation, which takes `later` bytes for each: those that
/// [`STACK_BYTES`] hold, and whose vectors and products fit a buffer.
fn vectors_at_once(kind: ElementKind, context: &GpuContext, (m, n): (usize, usize), full: bool, later: u64) -> Result<usize> {
    let bytes = |rows: usize, cols: usize| {
        fitting_bytes(context, "vectors", kind.scalar_bytes(), rows.checked_mul(cols.next_multiple_of(4)))
    };
    let largest = bytes(m, if full { m } else { n })?.max(bytes(n, n)?).max(1);
    let most = (STACK_BYTES / later.max(1)).min(context.max_buffer_bytes() / largest);
    Ok(usize::try_from(most).unwrap_or(usize::MAX).max(1))
}

/// Whether [`TileKernels::upload`](crate::tile::kernels::TileKernels::upload) stores the matrix row by row.
pub(crate) fn is_by_rows<T>(a: MatRef<'_, T>) -> bool {
    a.col_stride().unsigned_abs() < a.row_stride().unsigned_abs()
}

impl GpuKernels {
    /// [`vectors_at_once`] of m x n matrices, m >= n, with full vectors or thin ones.
    pub(crate) fn vectors_at_once(&self, size: (usize, usize), by_rows: bool, full: bool) -> Result<usize> {
        let (_, later) = svd_bytes(self.kind, &self.context, size, by_rows, full, &self.tuning)?;
        vectors_at_once(self.kind, &self.context, size, full, later)
    }

    /// Each of several matrices by rows.
    pub(crate) async fn download_stack<T: Scalar>(&self, a: &Dense) -> Result<Vec<Mat<T>>> {
        match self.kind.is_half() {
            false => self.stack_stored_as::<T>(a).await,
            true => self.stack_stored_as::<T::Compact>(a).await,
        }
    }

    async fn stack_stored_as<S: Number>(&self, a: &Dense) -> Result<Vec<Mat<S::Scalar>>> {
        let ((m, n), ld) = (a.size, a.ld());
        let [buffer] = &a.a[..] else {
            return Err(SvdError::invalid("matrix", format!("{} matrices in {} buffers", a.matrices, a.a.len())));
        };
        if a.strides.1 != 1 {
            return Err(SvdError::invalid("matrix", "several matrices by columns"));
        }
        let mut all = vec![Mat::<S::Scalar>::zeros(m, n); a.matrices];
        let take = |at: usize, entries: &[S]| {
            let (mut row, mut entries) = (at / ld, entries);
            while !entries.is_empty() {
                // Rows of one matrix.
                let count = (m - row % m).min(entries.len() / ld);
                let (these, others) = entries.split_at(count * ld);
                let from = MatRef::from_row_major_slice_with_stride(these, count, n, ld);
                copy_entries(from, all[row / m].as_mut().subrows_mut(row % m, count), |x| x);
                (row, entries) = (row + count, others);
            }
        };
        self.stream.read_back_in::<S>(buffer, (a.first, a.matrices * m * ld), ld, take).await?;
        Ok(all)
    }

    /// The bidiagonal in each band.
    pub(crate) async fn bidiagonals(&self, band: &Banded) -> Result<Vec<ComplexBidiagonal>> {
        // Pairs (B(j - 1, j), B(j, j)).
        let unpacked = self.unpacked(band, 1)?;
        let pairs = self.stream.read_back_numbers(self.kind, &unpacked, 2 * band.matrices * band.layout.n).await?;
        let bidiagonal = |pairs: &[Complex<f64>]| {
            let every_other = |first| pairs.iter().skip(first).step_by(2).copied().collect();
            ComplexBidiagonal { diagonal: every_other(1), superdiagonal: every_other(2) }
        };
        Ok(pairs.chunks_exact((2 * band.layout.n).max(1)).map(bidiagonal).collect())
    }

    /// Like [`upload`](crate::tile::kernels::TileKernels::upload), for matrices of one shape, each with its scale. The memory order is that of the
    /// first.
    pub(crate) fn upload_stack<T: Scalar>(&self, matrices: &[(MatRef<'_, T>, Re<T>)]) -> Result<Dense> {
        match self.kind.is_half() {
            false => self.upload_stack_as::<T, T>(matrices),
            true => self.upload_stack_as::<T, T::Compact>(matrices),
        }
    }

    fn upload_stack_as<T: Scalar, S: Number<Scalar = T>>(&self, matrices: &[(MatRef<'_, T>, Re<T>)]) -> Result<Dense> {
        let Some(&(first, _)) = matrices.first() else {
            return Err(SvdError::invalid("batch", "a stack of no matrices"));
        };
        let (size, by_rows) = (first.shape(), is_by_rows(first));
        if let Some((other, _)) = matrices.iter().find(|(a, _)| a.shape() != size) {
            return Err(SvdError::invalid("batch", format!("{:?} in a stack of {size:?}", other.shape())));
        }
        let a = Dense::stacked(self.kind, &self.context, matrices.len(), size, by_rows, self.shape, self.tuning.leaf)?;
        self.context.prepare(self.kind, &self.wanted(size, a.a.len()), || {
            self.stream.upload(&a.a[0], matrices.len() * a.matrix, |start, piece: &mut [S]| {
                let mut at = 0;
                while at < piece.len() {
                    let (k, from) = ((start + at) / a.matrix, (start + at) % a.matrix);
                    let len = (a.matrix - from).min(piece.len() - at);
                    let (source, scale) = matrices[k];
                    let lines = if by_rows { source.transpose() } else { source };
                    let part = &mut piece[at..at + len];
                    copy_lines(lines, a.ld(), from, part, |_| 0..lines.nrows(), |x| S::narrow(x.times(scale)));
                    at += len;
                }
            })
        })?;
        Ok(a)
    }
}
