//! The dispatches of products by low precision, and of the recursive QR factorisation: sizes, grids and work, for the GPU backend and for the model.

use crate::{
    algo::to_band::factor_levels,
    base::error::Result,
    cost::{
        Cost, DeviceModel,
        count::{Dispatches, dispatches_of_qr},
        shape::{Bounds, Shape, TriangleShape},
        work::{Chain, Kernel, LINEAR_THREADS, ROWS_AT_ONCE, Work},
    },
    tile::{
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

/// `trsm` of a panel's Q (rows x width).
fn of_trsm(rows: usize, width: usize, shape: &TriangleShape) -> Work {
    let (rows, width, threads) = (rows as u64, width as u64, (shape.base * shape.groups) as u64);
    Work {
        kernel: Kernel::Trsm,
        workgroups: rows.div_ceil(4 * shape.groups as u64),
        threads,
        workgroup_memory: shape.bytes::<f32>() as u64,
        flops: width * width * rows,
        footprint: u64::MAX,
        bytes: 8 * rows * width,
        workgroup_bytes: 4 * rows * width * width / 4,
        chain: Chain { barriers: width, round_trips: 2, steps: 10 * width, ..Chain::default() },
    }
}

/// The dispatches of the factorisation by recursion.
fn dispatches((m, n): (usize, usize), products: Products, tuning: &Tuning) -> Result<Vec<(Work, u64)>> {
    let mut all = Dispatches::default();
    let shape = CoopShape::of(MODEL.0, MODEL.1, products);
    let (tiles, triangle) = (Shape::of(tuning), TriangleShape::new::<f32>(&Bounds::of_model(&DeviceModel::H100), tuning)?);
    let copy = |rows: usize, cols: usize| Work::linear(Kernel::CopyWindow, rows * cols, 2, size_of::<f32>());
    for step in Recursion::DEFAULT.steps(m.min(n), n) {
        if let Step::Panel(Panel { cols, .. }) = &step {
            let (rows, width) = (m - cols.start, cols.len());
            all.note(copy(rows, width));
            // The factorisation; then its Q, from as many reflectors on as many columns.
            let factored = dispatches_of_qr::<f32>((rows, width), tuning)?;
            let identity = rows * width.next_multiple_of(4);
            factored.iter().for_each(|&(work, times)| (0..times).for_each(|_| all.note(work)));
            all.note(Work::linear(Kernel::IdentityColumns, identity, 1, size_of::<f32>()));
            let levels: Vec<_> = factor_levels(rows, width, tuning, ROWS_AT_ONCE).collect();
            for level in levels.iter().rev() {
                all.note(Work::gather_reflectors::<f32>(&tiles, level));
                all.unmqr::<f32>(&tiles, level, width - level.col);
            }
            all.note(of_trsm(rows, width, &triangle));
            all.note(copy(rows, width));
            (0..3).for_each(|_| all.note(copy(width, width)));
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
    Ok(all.into_work())
}

impl Cost {
    /// The cost of the recursive QR factorisation with these [`Products`] of an m x n matrix of any shape in f32, with its reflectors. With
    /// `Native` it is that of [`qr`](Self::qr), which is no recursion. The panels' read-backs, 48 KiB each, are not counted.
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
        Ok(Cost { work: dispatches((m, n), products, tuning)?, double: false })
    }

    /// [`qr_by`](Self::qr_by) with half products, for a report.
    pub(crate) fn of_half_qr(m: usize, n: usize, tuning: &Tuning, _: bool) -> Result<Cost> {
        Cost::qr_by(Products::Half, m, n, tuning)
    }

    /// [`qr_by`](Self::qr_by) with split products, for a report.
    pub(crate) fn of_split_qr(m: usize, n: usize, tuning: &Tuning, _: bool) -> Result<Cost> {
        Cost::qr_by(Products::Split, m, n, tuning)
    }
}
