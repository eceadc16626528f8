//! The dispatches of stage 1 with deferred updates: sizes and work, for the GPU backend and for the model.

use crate::{
    algo::deferred::{Deferral, deferral_of_call},
    base::element_kind::ElementKind,
    cost::{
        chain::{Chain, READ, fmas},
        product_shape::ProductShape,
        shape::Shape,
        work::{Again, Beside, Kernel, LINEAR_THREADS, Work, scalar_bytes},
    },
    tile::{
        deferred::{DeferredPanel, DeferredProduct},
        panel_tree::Level,
        tuning::Tuning,
    },
};

/// Most parts of a panel's rows.
const MOST_PARTS: usize = 32;

/// Columns of C in a dispatch, at most: the part of R that all workgroups read, 2 MiB of 256 rows of numbers of 4 bytes, stays in a cache.
const MOST_COLUMNS: usize = 2048;

/// How a call for an m x n matrix, m >= n, defers updates.
pub(crate) fn deferral(kind: ElementKind, size: (usize, usize), tuning: &Tuning) -> Deferral {
    deferral_of_call(kind, size, tuning, Shape::of(tuning).beside_levels(kind).is_some())
}

/// Rows of each part of a panel of so many rows, which one workgroup of `multiply_panel` adds up: those of a leaf, or more. Errors of longer sums are larger.
pub(crate) fn part_of(rows: usize, shape: &Shape) -> usize {
    rows.div_ceil(MOST_PARTS).next_multiple_of(16).max(shape.rows())
}

/// Parts of a panel of so many rows.
pub(crate) fn parts(rows: usize, shape: &Shape) -> usize {
    rows.div_ceil(part_of(rows, shape))
}

/// The numbers of V T of the longest panel, and of the parts of its products, for a matrix of so many rows, no fewer than columns, and with this room.
pub(crate) fn numbers_of_panels(rows: usize, room: usize, shape: &Shape) -> [Option<usize>; 2] {
    // Shorter panels have no more parts than that.
    let (stride, parts) = (shape.ts, rows.div_ceil(shape.rows()).min(MOST_PARTS));
    let of_parts = parts.checked_mul(rows.saturating_add(room));
    [rows.checked_mul(stride), of_parts.and_then(|of_parts| of_parts.checked_mul(stride))]
}

impl DeferredProduct {
    /// The product, or its transpose if that is the one with few columns, and the sizes of its kernel.
    pub(crate) fn upright(self, shape: &Shape) -> (DeferredProduct, ProductShape) {
        let narrow = shape.panels.cols;
        if self.cols.len() <= narrow {
            (self, shape.panels)
        } else if self.rows.len() <= narrow {
            let (size, rows, cols) = ((self.size.1, self.size.0), self.cols, self.rows);
            (DeferredProduct { transposed: !self.transposed, size, rows, cols, inner: self.inner.clone() }, shape.panels)
        } else {
            (self, shape.products)
        }
    }

    /// Columns of a dispatch, whole workgroups of them, of at most so many flops.
    pub(crate) fn columns(&self, kind: ElementKind, shape: &ProductShape, most_flops: u64) -> usize {
        self.columns_beside(kind, shape, most_flops).min(MOST_COLUMNS.next_multiple_of(shape.cols))
    }

    /// The same beside a level, in any number of columns: few products are made at a time there, so that both factors are small.
    pub(crate) fn columns_beside(&self, kind: ElementKind, shape: &ProductShape, most_flops: u64) -> usize {
        let of_workgroups = self.flops(kind, shape.cols).max(1);
        ((most_flops / of_workgroups).max(1) as usize).saturating_mul(shape.cols).min(self.cols.len().max(1))
    }
}

impl DeferredPanel {
    /// Columns of the matrix in a dispatch of `multiply_panel`, whole workgroups of them, of at most so many flops.
    pub(crate) fn columns(&self, kind: ElementKind, shape: &Shape, most_flops: u64) -> usize {
        let of_workgroups = self.multiply_flops(kind, shape.panels.rows).max(1);
        ((most_flops / of_workgroups).max(1) as usize).saturating_mul(shape.panels.rows).min(self.multiplied().len().max(1))
    }
}

impl Work {
    /// A dispatch of products, of which each of the workgroups has `inner` rows of X. Of `once` bytes each is read or written once. What workgroups read
    /// besides is in a cache: columns of C are few.
    fn of_products(kind: ElementKind, kernel: Kernel, shape: &ProductShape, workgroups: u64, inner: usize, once: u64) -> Work {
        let scalar = scalar_bytes(kind);
        let (inner, steps) = (inner as u64, inner.div_ceil(shape.depth) as u64);
        let read = workgroups * shape.staged() * inner * scalar;
        Work {
            kernel,
            workgroups,
            threads: shape.threads() as u64,
            workgroup_memory: shape.bytes(kind) as u64,
            flops: 0,
            footprint: u64::MAX,
            again: Again { bytes: read.saturating_sub(once), of_one: 1 },
            beside: Beside::default(),
            two_strips: shape.strips == 2,
            bytes: read.max(once),
            workgroup_bytes: workgroups * shape.shared(steps) * scalar,
            chain: shape.chain(kind, steps),
        }
    }

    /// `subtract_deferred` of so many columns.
    pub fn subtract_deferred(kind: ElementKind, shape: &ProductShape, product: &DeferredProduct, cols: usize) -> Work {
        let (rows, inner) = (product.rows.len(), product.inner.len());
        let workgroups = (rows.div_ceil(shape.rows) * cols.div_ceil(shape.cols)) as u64;
        let once = (2 * rows * cols + (rows + cols) * inner) as u64 * scalar_bytes(kind);
        let products = Work::of_products(kind, Kernel::SubtractDeferred, shape, workgroups, inner, once);
        Work { flops: product.flops(kind, cols), ..products }
    }

    /// `subtract_deferred` of so many columns, of this shape, beside `geqrt` of a level.
    pub fn geqrt_and_subtract(
        kind: ElementKind,
        shape: &Shape,
        (level, product): (&Level, &DeferredProduct),
        of: &ProductShape,
        cols: usize,
    ) -> Work {
        let (panel, update) = (Work::geqrt(kind, shape, level), Work::subtract_deferred(kind, of, product, cols));
        Work {
            kernel: Kernel::GeqrtAndSubtract,
            workgroups: update.workgroups + panel.workgroups,
            workgroup_memory: shape.levels_bytes(kind, of) as u64,
            flops: update.flops.saturating_add(panel.flops),
            bytes: update.bytes + panel.bytes,
            workgroup_bytes: update.workgroup_bytes + panel.workgroup_bytes,
            beside: Beside { workgroups: panel.workgroups, chain: panel.chain },
            ..update
        }
    }

    /// `multiply_panel` for so many columns of the matrix, each of which is read once.
    pub fn multiply_panel(kind: ElementKind, shape: &Shape, panel: &DeferredPanel, cols: usize) -> Work {
        let (rows, of) = (panel.len(), &shape.panels);
        let (parts, part) = (parts(rows, shape), part_of(rows, shape));
        let workgroups = (parts * cols.div_ceil(of.rows) * panel.stride.div_ceil(of.cols)) as u64;
        let once = ((rows + parts * panel.stride) * cols + rows * panel.stride) as u64 * scalar_bytes(kind);
        let products = Work::of_products(kind, Kernel::MultiplyPanel, of, workgroups, part.min(rows), once);
        Work { flops: panel.multiply_flops(kind, cols), ..products }
    }

    /// `add_parts` for the columns that a panel is multiplied with.
    pub fn add_parts(kind: ElementKind, shape: &Shape, panel: &DeferredPanel) -> Work {
        let (entries, parts) = (panel.multiplied().len() * panel.stride, parts(panel.len(), shape));
        let bytes = (entries * (parts + 1)) as u64 * scalar_bytes(kind);
        let copied = Work::copy(Kernel::AddParts, entries as u64, LINEAR_THREADS.into(), bytes);
        Work { chain: Chain { steps: 4 * parts as u64, ..copied.chain }, ..copied }
    }

    /// `spread_reflectors` of a panel: a row of V t is a product of V's with a square.
    pub fn spread_reflectors(kind: ElementKind, shape: &Shape, panel: &DeferredPanel) -> Work {
        let [ts, rows, all] = [shape.ts, panel.len(), panel.rows].map(|x| x as u64);
        let bytes = (2 * rows + all) * ts * scalar_bytes(kind);
        let copied = Work::copy(Kernel::SpreadReflectors, all * ts / 4, LINEAR_THREADS.into(), bytes);
        let chain = Chain { issued: 4 * ts * (6 + fmas(kind)), ..copied.chain };
        Work { flops: panel.multiply_flops(kind, shape.ts), chain, ..copied }
    }

    /// `join_reflectors` of a panel with these levels, and zeros for R's part in the product that was beside them.
    pub fn join_reflectors(
        kind: ElementKind,
        shape: &Shape,
        panel: &DeferredPanel,
        levels: &[Level],
        beside: Option<&DeferredProduct>,
    ) -> Work {
        let zeros = match beside {
            Some(product) => (product.inner.len() * if product.transposed { &product.rows } else { &product.cols }.len()) as u64,
            None => 0,
        };
        let scalar = scalar_bytes(kind);
        let [ts, threads, width, rows] = [shape.ts, shape.geqrt_threads(), panel.width, panel.len()].map(|x| x as u64);
        let leaf = levels.first().map_or(1, |leaves| leaves.map.block_rows.min(leaves.map.rows).max(1)) as u64;
        let workgroups = levels.first().map_or(0, |leaves| leaves.map.blocks() as u64) * leaf.div_ceil(threads);
        // Twice a product with top^H, T and rows of V for each level, but for one with rows of the leaves.
        let products = 6 * levels.len() as u64 - 1;
        let each = (ts * ts / 4).div_ceil(threads);
        // Of a step, a third of the squares' rows in each of TS columns; and two products with a row of V, with the squares that they need.
        let of_step = 3 * ts * ts / threads * (8 + fmas(kind)) + 60;
        let of_row = 2 * ts * (6 + ts / 4 * (4 * fmas(kind) + 2));
        // Four entries of a product at a time.
        let of_four = each * ts * (12 + 4 * fmas(kind));
        let issued = products * of_four + width * of_step + of_row + 2 * of_four;
        Work {
            kernel: Kernel::JoinReflectors,
            workgroups,
            threads,
            workgroup_memory: shape.join_bytes(kind) as u64,
            flops: panel.join_flops(kind),
            footprint: u64::MAX,
            again: Again::default(),
            beside: Beside::default(),
            two_strips: false,
            // V of the leaves twice, V and V T out; and the levels above and T of a workgroup's path.
            bytes: (zeros + 4 * rows * ts + workgroups * 4 * levels.len() as u64 * ts * ts) * scalar,
            workgroup_bytes: workgroups
                * threads
                * (products * each * 4 * ts + width * 6 * ts * ts / threads + 2 * ts * ts)
                * scalar,
            chain: Chain {
                barriers: 3 * products + width + 6,
                round_trips: products + 3,
                steps: products * ts * READ / 4 + width * (4 * READ + 12),
                issued,
                ..Chain::default()
            },
        }
    }
}
