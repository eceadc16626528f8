//! The dispatches of products by low precision, and of the recursive QR factorisation: sizes, grids and work, for the GPU backend and for the model.

use std::ops::Range;

use crate::{
    algo::{
        to_band::factor_levels,
        triangular::{Factor, Operation, TriangularKernels, Variant, run},
    },
    base::{
        blas::{Diag, Op, Side, Uplo},
        element_kind::ElementKind,
        error::Result,
    },
    cost::{
        Cost, DeviceModel,
        chain::Chain,
        count::dispatches_of_qr,
        dispatches::Dispatches,
        product_shape::ProductShape,
        shape::{Bounds, Shape, TriangleShape},
        svd::MOST,
        vectors::{Extent, batches},
        work::{Again, Beside, Kernel, LINEAR_THREADS, ROWS_AT_ONCE, Work},
    },
    tile::{
        flops::of_pair,
        products::{EXACT_TERMS, Panel, Products, Recursion, Step},
        tuning::Tuning,
    },
};

/// Lines of a workgroup of `slice_lines`.
pub(crate) const SLICE_LINES: usize = 8;

/// The sizes for which `coop_gemm` is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CoopShape {
    /// Order of a cooperative matrix: 8 or 16.
    pub order: usize,
    /// Sums of a workgroup in either direction. A split product has three more for each.
    pub squares: usize,
    /// Threads of a workgroup: a subgroup.
    pub threads: usize,
}

impl CoopShape {
    pub fn of(order: usize, threads: usize, products: Products) -> CoopShape {
        CoopShape { order, squares: if products == Products::Split { 2 } else { 4 }, threads }
    }

    /// Rows and columns of C of a workgroup.
    pub fn side(&self) -> usize {
        self.order * self.squares
    }

    pub fn constants(&self) -> [(&'static str, u32); 7] {
        let [order, squares, threads] = [self.order, self.squares, self.threads].map(|x| x as u32);
        [
            ("ORDER", order),
            ("SQUARES", squares),
            ("THREE_SQUARES", 3 * squares),
            ("SUMS", squares * squares),
            ("SIDE", order * squares),
            ("COOP_THREADS", threads),
            ("EXACT_TERMS", EXACT_TERMS as u32),
        ]
    }

    /// Bytes of workgroup memory.
    pub fn bytes(&self) -> usize {
        self.side() * self.side() * size_of::<f32>()
    }
}

impl Work {
    /// `slice_lines` of `lines` lines of `terms` terms, padded to `padded` lines.
    pub fn slice_lines(terms: usize, padded: usize, products: Products) -> Work {
        let columns = terms.next_multiple_of(EXACT_TERMS);
        let workgroups = padded.div_ceil(SLICE_LINES) as u64;
        let each = columns.div_ceil(LINEAR_THREADS as usize / SLICE_LINES) as u64;
        Work {
            kernel: Kernel::SliceLines,
            workgroups,
            threads: LINEAR_THREADS.into(),
            workgroup_memory: u64::from(LINEAR_THREADS) * 4,
            flops: 0,
            footprint: u64::MAX,
            again: Again::default(),
            beside: Beside::default(),
            two_strips: false,
            // Each entry is read twice, and written as f16.
            bytes: (padded * (8 * terms + 2 * columns * products.slices())) as u64,
            workgroup_bytes: 0,
            chain: Chain { barriers: 1, round_trips: 4, issued: each * (8 + 14 * products.slices() as u64), ..Chain::default() },
        }
    }

    /// `coop_gemm` of a product with `rows` x `cols` entries of `terms` terms.
    pub fn coop_gemm(shape: &CoopShape, products: Products, (rows, cols, terms): (usize, usize, usize)) -> Work {
        let (side, columns) = (shape.side(), terms.next_multiple_of(EXACT_TERMS));
        let (of_rows, of_cols) = (rows.div_ceil(side), cols.div_ceil(side));
        let workgroups = (of_rows * of_cols) as u64;
        let operand = 2 * side as u64 * columns as u64 * products.slices() as u64;
        let steps = (columns / shape.order) as u64;
        Work {
            kernel: Kernel::CoopGemm,
            workgroups,
            threads: shape.threads as u64,
            workgroup_memory: shape.bytes() as u64,
            flops: 2 * (rows as u64) * (cols as u64) * columns as u64 * products.terms(),
            footprint: u64::MAX,
            again: Again::default(),
            beside: Beside::default(),
            two_strips: false,
            // C, and each operand once: the workgroups that read it run at the same time.
            bytes: 8 * (rows as u64) * (cols as u64) + operand * (of_rows + of_cols) as u64,
            // Fragments come from the shared cache, at a third of the rate of workgroup memory.
            workgroup_bytes: workgroups * 2 * operand * 3,
            chain: Chain { barriers: 1, round_trips: steps + 4, ..Chain::default() },
        }
    }
}

/// The order of cooperative matrices, and the threads of a subgroup, of the devices that the model has.
const MODEL: (usize, usize) = (16, 32);

/// X = A U^-1 for an upper triangular U.
pub(super) const FROM_THE_RIGHT: Variant =
    Variant { operation: Operation::Solve, side: Side::Right, uplo: Uplo::Upper, op: Op::NoTrans, diag: Diag::NonUnit };

/// The kernels of that solve with `cols` columns, which are the rows of A.
pub(super) struct Solve<'a> {
    pub all: &'a mut Dispatches,
    pub cols: usize,
    pub tiles: ProductShape,
    pub triangle: TriangleShape,
    pub kind: ElementKind,
}

impl TriangularKernels for Solve<'_> {
    fn gemm(&mut self, target: Range<usize>, source: Range<usize>, _: Factor, _: Factor) -> Result<()> {
        // In whole chunks of columns, and what is left.
        let whole = self.cols / self.tiles.cols * self.tiles.cols;
        for cols in [whole, self.cols - whole].into_iter().filter(|&cols| cols > 0) {
            let extent = Extent { rows: target.len(), cols, inner: source.len(), ..Extent::default() };
            let made = batches(self.kind, &self.tiles, &[extent], MOST).1;
            made.into_iter().for_each(|batch| self.all.note(Work { kernel: Kernel::Gemm, ..batch.work }));
        }
        Ok(())
    }

    fn trmm(&mut self, _: Range<usize>, _: Factor) -> Result<()> {
        Ok(())
    }

    fn trsm(&mut self, rows: Range<usize>, _: Factor) -> Result<()> {
        let TriangleShape { base, groups } = self.triangle;
        let [order, cols] = [rows.len(), self.cols].map(|size| size as u64);
        self.all.note(Work {
            kernel: Kernel::Trsm,
            workgroups: cols.div_ceil(4 * groups as u64),
            threads: (base * groups) as u64,
            workgroup_memory: self.triangle.bytes(self.kind) as u64,
            flops: of_pair(self.kind) * order * order * cols,
            footprint: u64::MAX,
            again: Again::default(),
            beside: Beside::default(),
            two_strips: false,
            bytes: 2 * self.kind.bytes() as u64 * order * cols,
            workgroup_bytes: of_pair(self.kind) * order * order * cols,
            chain: Chain { barriers: order, round_trips: 2, steps: 10 * order, ..Chain::default() },
        });
        Ok(())
    }
}

/// The dispatches of the factorisation by recursion.
fn dispatches((m, n): (usize, usize), products: Products, recursion: Recursion, tuning: &Tuning) -> Result<Vec<(Work, u64)>> {
    let mut all = Dispatches::default();
    let shape = CoopShape::of(MODEL.0, MODEL.1, products);
    let (tiles, triangle) =
        (Shape::of(tuning), TriangleShape::new(ElementKind::F32, &Bounds::of_model(&DeviceModel::H100), tuning)?);
    let copy = |rows: usize, cols: usize| Work::linear(Kernel::CopyWindow, rows * cols, 2, size_of::<f32>());
    // The first rows of a matrix by columns are gathered before they are read back.
    let read_back = |all: &mut Dispatches, of: usize, rows: usize, cols: usize| {
        if rows < of {
            all.note(copy(rows, cols));
        }
    };
    for step in recursion.steps(m.min(n), n) {
        if let Step::Panel(Panel { cols, .. }) = &step {
            let (rows, width) = (m - cols.start, cols.len());
            all.note(copy(rows, width));
            // The factorisation; then its Q, from as many reflectors on as many columns.
            let factored = dispatches_of_qr(ElementKind::F32, (rows, width), tuning)?;
            let identity = rows * width.next_multiple_of(4);
            factored.iter().for_each(|&(work, times)| (0..times).for_each(|_| all.note(work)));
            all.note(Work::linear(Kernel::IdentityColumns, identity, 1, size_of::<f32>()));
            let levels: Vec<_> = factor_levels(rows, width, tuning, ROWS_AT_ONCE).collect();
            for level in levels.iter().rev() {
                all.note(Work::gather_reflectors(ElementKind::F32, &tiles, level));
                all.unmqr(ElementKind::F32, &tiles, level, width - level.col);
            }
            let base = tuning.triangle.min(triangle.base);
            let mut solve = Solve { all: &mut all, cols: rows, tiles: tiles.products, triangle, kind: ElementKind::F32 };
            run(&mut solve, &FROM_THE_RIGHT, 0..width, base, Factor::Alpha)?;
            all.note(copy(rows, width));
            // R and Q's first rows to be read back, R, V and T when they come.
            (0..5).for_each(|_| all.note(copy(width, width)));
        }
        for [rows, cols, terms] in step.products(m) {
            all.note(Work::slice_lines(terms, rows.next_multiple_of(shape.side()), products));
            all.note(Work::slice_lines(terms, cols.next_multiple_of(shape.side()), products));
            all.note(Work::coop_gemm(&shape, products, (rows, cols, terms)));
        }
        if let Step::Merge { left, right, .. } = &step {
            all.note(copy(left.len(), right.len()));
        }
    }
    read_back(&mut all, m, m.min(n), n);
    Ok(all.into_work())
}

impl Cost {
    /// The cost of the recursive QR factorisation with these [`Products`] of an m x n matrix of any shape in f32, with its reflectors. With
    /// `Native` it is that of [`qr`](Self::qr), which is no recursion. The panels' read-backs, 128 KiB each, are not counted.
    ///
    /// ```
    /// use svdvals_gpu::{Products, cost::{Cost, DeviceModel, Kernel}};
    /// let tuning = Cost::tuning::<f32>(8192);
    /// let seconds = |products| {
    ///     let cost = Cost::qr_by(products, 8192, 8192, &tuning)?;
    ///     Ok::<_, svdvals_gpu::SvdError>(cost.on(&DeviceModel::H100).iter().map(|kernel| kernel.total).sum::<f64>())
    /// };
    /// assert!(seconds(Products::Half)? < seconds(Products::Split)?);
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn qr_by(products: Products, m: usize, n: usize, tuning: &Tuning) -> Result<Cost> {
        if products == Products::Native {
            return Cost::qr::<f32>(m, n, tuning);
        }
        Cost::check((m.max(n), m.min(n)), tuning)?;
        Ok(Cost { work: dispatches((m, n), products, Recursion::DEFAULT, tuning)?, double: false })
    }

    /// [`qr_by`](Self::qr_by) with half products, for a report.
    pub(crate) fn of_half_qr(_: ElementKind, m: usize, n: usize, tuning: &Tuning, _: bool) -> Result<Cost> {
        Cost::qr_by(Products::Half, m, n, tuning)
    }

    /// [`qr_by`](Self::qr_by) with split products, for a report.
    pub(crate) fn of_split_qr(_: ElementKind, m: usize, n: usize, tuning: &Tuning, _: bool) -> Result<Cost> {
        Cost::qr_by(Products::Split, m, n, tuning)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(cost: &Cost) -> f64 {
        cost.on(&DeviceModel::H100).iter().map(|kernel| kernel.total).sum()
    }

    /// The flops of the products are the 2 n^2 (m - n / 3) of the factorisation, less the panels' share, and what T costs: T V^H C, merging, and
    /// the padding of terms; for six slices six times as many. At n = 4096 that is 1.0 to 1.25 times.
    #[test]
    fn flops() {
        let n = 4096;
        let tuning = Cost::tuning::<f32>(n);
        let of = |products: Products| Cost::qr_by(products, n, n, &tuning).unwrap().kernel(Kernel::CoopGemm).flops as f64;
        let exact = 4.0 / 3.0 * (n as f64).powi(3);
        let (half, split) = (of(Products::Half) / exact, of(Products::Split) / exact / 6.0);
        assert!((1.0..1.25).contains(&half) && half == split, "{half} {split}");
    }

    /// A product of 64 x 512 and 512 x 128 by hand, with matrices of order 16: half products have two squares of C of order 64, split ones eight of order
    /// 32. Each square reads its operands' slices once from the shared cache; memory has C twice, and each operand once.
    #[test]
    fn a_product_by_hand() {
        for (products, squares, slices, terms) in [(Products::Half, 2, 1, 1), (Products::Split, 8, 3, 6)] {
            let shape = CoopShape::of(16, 32, products);
            let work = Work::coop_gemm(&shape, products, (64, 128, 512));
            assert_eq!((work.workgroups, work.flops), (squares, 2 * 64 * 128 * 512 * terms));
            assert_eq!(work.bytes, 8 * 64 * 128 + 2 * (64 + 128) * 512 * slices);
            assert_eq!(work.workgroup_memory, (shape.side() * shape.side() * 4) as u64);
            // Each entry of an operand is read twice as f32, and written in slices of two bytes.
            let sliced = Work::slice_lines(512, 64, products);
            assert_eq!((sliced.workgroups, sliced.bytes), (8, 64 * 512 * (8 + 2 * slices)));
        }
    }

    /// On an H100 half products pay from n = 32768 on, split ones later, by the model: the panels take the more time the smaller the matrix.
    #[test]
    fn crossovers() {
        for (n, half, split) in [(4096, false, false), (8192, false, false), (16384, false, false), (32768, true, false)] {
            let tuning = Cost::tuning::<f32>(n);
            let of = |products| seconds(&Cost::qr_by(products, n, n, &tuning).unwrap());
            let (native, of_half, of_split) = (of(Products::Native), of(Products::Half), of(Products::Split));
            println!("n = {n}: native {native:.4}, split {of_split:.4}, half {of_half:.4}");
            assert_eq!((of_half < native, of_split < native), (half, split), "n = {n}");
        }
    }
}
