//! The dispatches of CholeskyQR2 on a device: sizes and work, for the GPU backend and for the model.

use std::ops::Range;

use crate::{
    algo::triangular::{Factor, run},
    base::{element_kind::ElementKind, error::Result, number::Scalar},
    cost::{
        Cost, DeviceModel,
        chain::{Chain, READ, fmas},
        dispatches::Dispatches,
        recursive::{FROM_THE_RIGHT, Solve},
        shape::{Bounds, Shape, TriangleShape},
        svd::MOST,
        vectors::{Extent, batches},
        work::{INVERSE, Kernel, LINEAR_THREADS, Work},
    },
    tile::{flops::of_pair, tuning::Tuning},
};

/// Rows whose products one workgroup sums one after the other. The error of such a sum grows with the root of their number, and their sums take
/// the memory of A times n over this.
const ROWS: usize = 512;
/// Sums of so many rows that the device adds. The host adds their sums in double precision.
pub(crate) const PARTS: usize = 32;

/// Rows of R that one workgroup finds, of the squares that it begins with. Both fit the least workgroup memory of WebGPU, of numbers of 16 bytes.
pub(crate) const BLOCK: usize = 32;

/// The rows of an n x n matrix, in blocks.
pub(crate) fn blocks(n: usize) -> Vec<Range<usize>> {
    (0..n).step_by(BLOCK).map(|first| first..n.min(first + BLOCK)).collect()
}

/// The product with the columns to the right of a block.
pub(crate) fn right_of(rows: Range<usize>, n: usize) -> Extent {
    Extent { rows: rows.len(), cols: n - rows.end, inner: rows.len(), ..Extent::default() }
}

/// The update of the rows below.
pub(crate) fn below_of(rows: Range<usize>, n: usize) -> Extent {
    Extent { rows: n - rows.end, cols: n - rows.end, inner: rows.len(), upper_c: true, upper_x: false }
}

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

impl Work {
    /// `cholesky` of a block of this order.
    pub fn cholesky(kind: ElementKind, order: usize) -> Work {
        let (order, entries) = (order as u64, (BLOCK * BLOCK) as u64);
        let each = entries.div_ceil(LINEAR_THREADS.into());
        Work {
            threads: LINEAR_THREADS.into(),
            workgroup_memory: entries * kind.scalar_bytes() as u64,
            flops: order.pow(3) / 3 * 2 * fmas(kind),
            bytes: 3 * order * order * kind.scalar_bytes() as u64,
            workgroup_bytes: order * entries * 4 * kind.scalar_bytes() as u64,
            // A pivot's inverse and a factor, of which each thread waits; some 12 instructions for an entry, of which half are indices.
            chain: Chain {
                barriers: order + 1,
                round_trips: 2,
                steps: order * (2 * READ + INVERSE + 8),
                issued: (order + 2) * each * (12 + 3 * fmas(kind)),
                ..Chain::default()
            },
            ..Work::copy(Kernel::Cholesky, 1, LINEAR_THREADS.into(), 0)
        }
    }
}

impl Cost {
    /// The cost of CholeskyQR2 of an m x n matrix, m >= n, stored as `S`: Q and R.
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
        let (tiles, scalar, mut all) = (Shape::of(tuning).products, kind.scalar_bytes(), Dispatches::default());
        let products = |all: &mut Dispatches, extents: &[Extent]| {
            batches(kind, &tiles, extents, MOST).1.into_iter().for_each(|batch| all.note(batch.work));
        };
        for pass in 0..2 {
            let extents: Vec<Extent> = parts(m).into_iter().flat_map(|rows| squares(n, [rows])).collect();
            products(&mut all, &extents);
            let mut count = parts(m).len();
            while count > 1 {
                let sums = sums(n * n, count);
                count = sums.len();
                products(&mut all, &sums);
            }
            all.note(Work::linear(Kernel::CopyWindow, n * n, 2, scalar));
            if pass == 1 {
                // X^H X - I.
                all.note(Work::other(Kernel::Scale, 0));
                all.note(Work::linear(Kernel::IdentityColumns, n * n.next_multiple_of(4), 1, scalar));
                products(&mut all, &[Extent { rows: n, cols: n, inner: n, ..Extent::default() }]);
                all.note(Work::other(Kernel::Largest, 0));
            }
            for rows in blocks(n) {
                all.note(Work::cholesky(kind, rows.len()));
                if rows.end < n {
                    products(&mut all, &[right_of(rows.clone(), n)]);
                    products(&mut all, &[below_of(rows, n)]);
                }
            }
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
