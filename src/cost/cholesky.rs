//! The dispatches of CholeskyQR2 on a device: sizes and work, for the GPU backend and for the model.

use std::ops::Range;

use crate::{
    algo::triangular::{Factor, run},
    base::{element_kind::ElementKind, error::Result, number::Scalar},
    cost::{
        Cost, DeviceModel,
        dispatches::Dispatches,
        recursive::{FROM_THE_RIGHT, Solve},
        shape::{Bounds, Shape, TriangleShape},
        svd::MOST,
        vectors::{Extent, batches},
    },
    tile::{flops::of_pair, tuning::Tuning},
};

/// Rows whose products one workgroup sums one after the other. The error of such a sum grows with the root of their number, and their sums take
/// the memory of A times n over this.
const ROWS: usize = 512;
/// Sums of so many rows that the device adds. The host adds their sums in double precision.
pub(crate) const PARTS: usize = 32;

/// The ranges of A's m rows whose products are summed together.
pub(crate) fn parts(m: usize) -> Vec<Range<usize>> {
    (0..m).step_by(ROWS).map(|first| first..m.min(first + ROWS)).collect()
}

/// The products A_k^H A_k of these ranges of rows, of n columns.
pub(crate) fn squares<const K: usize>(n: usize, parts: [Range<usize>; K]) -> [Extent; K] {
    parts.map(|rows| Extent { rows: n, cols: n, inner: rows.len(), upper_c: true, upper_x: false })
}

/// The sums of `count` matrices of so many entries: a row of ones times the matrices, each of them a row.
pub(crate) fn sums(entries: usize, count: usize) -> Vec<Extent> {
    let sum = |first| Extent { rows: 1, cols: entries, inner: PARTS.min(count - first), ..Extent::default() };
    (0..count).step_by(PARTS).map(sum).collect()
}

/// Flops of the last substitution.
pub(crate) fn flops(kind: ElementKind, m: usize, n: usize) -> u64 {
    [of_pair(kind), m as u64, n as u64, n as u64].into_iter().fold(1, u64::saturating_mul)
}

impl Cost {
    /// The cost of CholeskyQR2 of an m x n matrix, m >= n, stored as `S`: Q and R. The host's share, two n x n matrices that are read
    /// back for every 16384 rows and one Cholesky factorisation, is not counted.
    ///
    /// ```
    /// use svdvals_gpu::cost::{Cost, DeviceModel};
    /// let tuning = Cost::tuning::<f32>(64);
    /// let seconds = |cost: Cost| cost.on(&DeviceModel::H100).iter().map(|kernel| kernel.total).sum::<f64>();
    /// assert!(seconds(Cost::cholesky_qr::<f32>(100_000, 64, &tuning)?) < seconds(Cost::qr::<f32>(100_000, 64, &tuning)?));
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn cholesky_qr<S: Scalar>(m: usize, n: usize, tuning: &Tuning) -> Result<Cost> {
        Cost::of_cholesky_qr(S::KIND, m, n, tuning, false)
    }

    /// [`cholesky_qr`](Self::cholesky_qr) for a report.
    pub(crate) fn of_cholesky_qr(kind: ElementKind, m: usize, n: usize, tuning: &Tuning, _: bool) -> Result<Cost> {
        Cost::check((m, n), tuning)?;
        let (tiles, mut all) = (Shape::of(tuning).products, Dispatches::default());
        let products = |all: &mut Dispatches, extents: &[Extent]| {
            batches(kind, &tiles, extents, MOST).1.into_iter().for_each(|batch| all.note(batch.work));
        };
        let square = n * n.next_multiple_of(4);
        for _ in 0..2 {
            let extents: Vec<Extent> = parts(m).into_iter().flat_map(|rows| squares(n, [rows])).collect();
            products(&mut all, &extents);
            products(&mut all, &sums(square, parts(m).len()));
        }
        let triangle = TriangleShape::new(kind, &Bounds::of_model(&DeviceModel::H100), tuning)?;
        let base = tuning.triangle.min(triangle.base);
        for _ in 0..2 {
            let mut solve = Solve { all: &mut all, cols: m, tiles, triangle, kind };
            run(&mut solve, &FROM_THE_RIGHT, 0..n, base, Factor::Alpha)?;
        }
        products(&mut all, &[Extent { rows: n, cols: n, inner: n, upper_c: false, upper_x: true }]);
        Ok(Cost { work: all.into_work(), double: kind.is_double() })
    }

    /// [`cholesky_qr`](Self::cholesky_qr) of the matrix or its transpose, whichever is tall, for the report of least squares.
    pub(crate) fn of_cholesky_lstsq(kind: ElementKind, m: usize, n: usize, tuning: &Tuning, _: bool) -> Result<Cost> {
        Cost::of_cholesky_qr(kind, m.max(n), m.min(n), tuning, false)
    }
}
