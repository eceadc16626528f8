//! The work of the kernels of the one-stage reduction.

use crate::{
    base::element_kind::ElementKind,
    cost::{
        chain::{Chain, fmas},
        shape::Shape,
        work::{Again, Beside, COMPENSATED, Kernel, LINEAR_THREADS, REFLECTOR, Work, scalar_bytes},
    },
    tile::{
        one_stage::{Line, Trailing},
        panel_tree::Level,
    },
};

/// Columns of a workgroup of `multiply_line`, and threads that share a column.
pub(crate) const LANES: usize = 16;

/// Threads per workgroup of `larft`, each with as many entries of V^H V, and rows of V that it stages.
pub(crate) const LARFT_THREADS: usize = 256;
pub(crate) const LARFT_ROWS: usize = 4;

/// Workgroups of `multiply_line` that occupy a device, and least rows and most parts of a column.
const ENOUGH: usize = 512;
const LEAST_ROWS: usize = 4 * LANES;
pub(crate) const MOST_PARTS: usize = 16;

/// Round trips to memory that `update_line` and `multiply_line` take as long as at least, by measurement on an H100: 8 microseconds.
const LINE_ROUND_TRIPS: u64 = 14;

/// Workgroups of `multiply_line`: the blocks of columns of the matrix and of the panel, and the parts that each column is split
/// into. Each part has a sum of its own, which `update_line` adds up.
pub(crate) fn blocks_and_parts(line: &Line) -> (usize, usize) {
    let blocks = (line.trailing().len().div_ceil(LANES) + line.done.div_ceil(LANES)).max(1);
    let parts = ENOUGH.div_ceil(blocks).min(line.len().div_ceil(LEAST_ROWS)).clamp(1, MOST_PARTS);
    (blocks, parts)
}

impl Work {
    /// `update_line`, with products in `parts` parts: reads the panel, the line and the products, and writes two columns.
    pub fn update_line(kind: ElementKind, shape: &Shape, line: &Line, parts: usize) -> Work {
        let (scalar, threads) = (scalar_bytes(kind), u64::from(LINEAR_THREADS));
        let [rows, done, parts] = [line.len(), line.done, parts].map(|x| x as u64);
        let workgroups = rows.div_ceil(threads);
        let read = done + parts + 1;
        Work {
            kernel: Kernel::UpdateLine,
            workgroups,
            threads,
            workgroup_memory: update_line_bytes(kind, shape) as u64,
            flops: line.update_flops(kind),
            footprint: u64::MAX,
            again: Again::default(),
            beside: Beside::default(),
            two_strips: false,
            bytes: rows * (read + 2) * scalar + workgroups * (parts + 1) * done * scalar,
            workgroup_bytes: (2 * rows * done + threads * workgroups * 2) * scalar,
            // The sums of z, a row of the panel, whose loads do not depend on one another, and a sum of squares in a tree.
            chain: Chain {
                barriers: 2 + 7,
                round_trips: LINE_ROUND_TRIPS + done / 4,
                steps: parts + 2 * done + 7 * 2 * COMPENSATED,
                issued: (4 * parts + 8 * done) * fmas(kind),
                ..Chain::default()
            },
        }
    }

    /// `multiply_line`: reads the matrix and the panel once.
    pub fn multiply_line(kind: ElementKind, line: &Line) -> Work {
        let scalar = scalar_bytes(kind);
        let (blocks, parts) = blocks_and_parts(line);
        let threads = (LANES * LANES) as u64;
        let workgroups = (blocks * parts) as u64;
        let [rows, cols, done] = [line.len(), line.trailing().len(), line.done].map(|x| x as u64);
        let each = rows.div_ceil(parts as u64).div_ceil(LANES as u64);
        let squares = rows.div_ceil(LINEAR_THREADS.into());
        Work {
            kernel: Kernel::MultiplyLine,
            workgroups,
            threads,
            workgroup_memory: multiply_line_bytes(kind) as u64,
            flops: line.multiply_flops(kind),
            footprint: u64::MAX,
            again: Again::default(),
            beside: Beside::default(),
            two_strips: false,
            bytes: rows * cols * kind.bytes() as u64 + (rows * done + 2 * rows + parts as u64 * (cols + done)) * scalar,
            workgroup_bytes: workgroups * threads * 2 * scalar,
            chain: Chain {
                barriers: 1,
                // The squares, and then the loads of a thread, of which some are in flight at a time.
                round_trips: LINE_ROUND_TRIPS + each.div_ceil(2),
                steps: squares * 2 * COMPENSATED + 2 * REFLECTOR + LANES as u64,
                issued: 10 * each * fmas(kind),
                ..Chain::default()
            },
        }
    }

    /// `update_trailing`, in `cols` columns: reads and writes them once, and the panels once for each workgroup.
    pub fn update_trailing(kind: ElementKind, shape: &Shape, trailing: &Trailing, cols: usize) -> Work {
        let (scalar, shape) = (scalar_bytes(kind), &shape.products);
        let flops = trailing.flops(kind, cols);
        let [rows, cols, inner, depth] = [trailing.shape().0, cols, trailing.inner, shape.depth].map(|x| x as u64);
        let steps = inner.div_ceil(depth);
        let workgroups = rows.div_ceil(shape.rows as u64) * cols.div_ceil(shape.cols as u64);
        Work {
            kernel: Kernel::UpdateTrailing,
            workgroups,
            threads: shape.threads() as u64,
            workgroup_memory: shape.bytes(kind) as u64,
            flops,
            footprint: u64::MAX,
            again: Again::default(),
            beside: Beside::default(),
            two_strips: shape.strips == 2,
            bytes: 2 * rows * cols * kind.bytes() as u64 + workgroups * shape.staged() * inner * scalar,
            workgroup_bytes: workgroups * shape.shared(steps) * scalar,
            chain: shape.chain(kind, steps),
        }
    }

    /// `larft` of one block of reflectors: reads its rows of V once, LARFT_ROWS at a time.
    pub fn larft(kind: ElementKind, shape: &Shape, level: &Level) -> Work {
        let scalar = scalar_bytes(kind);
        let [ts, rows, threads, at_once] = [shape.ts, level.map.rows, LARFT_THREADS, LARFT_ROWS].map(|x| x as u64);
        let (steps, each) = (rows.div_ceil(at_once), (ts * ts).div_ceil(threads));
        Work {
            kernel: Kernel::Larft,
            workgroups: 1,
            threads,
            workgroup_memory: larft_bytes(kind, shape) as u64,
            flops: level.larft_flops(kind),
            footprint: u64::MAX,
            again: Again::default(),
            beside: Beside::default(),
            two_strips: false,
            bytes: rows * level.width as u64 * kind.bytes() as u64 + ts * ts * scalar,
            // For each row a thread reads two numbers for each of its products. A row of T reads those above it.
            workgroup_bytes: steps * at_once * (ts + 2 * each * threads) * scalar + ts * ts * (ts + 2) * scalar,
            chain: Chain {
                barriers: 2 * steps + 2,
                round_trips: steps + 1,
                steps: steps * at_once * each + ts * ts / 2,
                ..Chain::default()
            },
        }
    }

    /// Columns of one dispatch of `update_trailing`: whole chunks, with at most `most_flops` unless a chunk has more.
    pub fn trailing_columns(kind: ElementKind, shape: &Shape, trailing: &Trailing, most_flops: u64) -> usize {
        let chunk = trailing.flops(kind, shape.products.cols).max(1);
        let fitting = usize::try_from(most_flops / chunk).unwrap_or(usize::MAX).max(1);
        fitting.saturating_mul(shape.products.cols).min(trailing.shape().1).max(1)
    }
}

/// Bytes of workgroup memory of `update_line`: z, the pivots and a sum of squares for each thread.
pub(crate) fn update_line_bytes(kind: ElementKind, shape: &Shape) -> usize {
    4 * shape.ts * kind.scalar_bytes() + 3 * LINEAR_THREADS as usize * kind.real_bytes()
}

/// Bytes of workgroup memory of `multiply_line`.
pub(crate) fn multiply_line_bytes(kind: ElementKind) -> usize {
    LANES * (LANES + 1) * kind.scalar_bytes()
}

/// Bytes of workgroup memory of `larft`, which are fewer than those of `geqrt`.
pub(crate) fn larft_bytes(kind: ElementKind, shape: &Shape) -> usize {
    shape.ts * (shape.ts + LARFT_ROWS) * kind.scalar_bytes()
}

impl Shape {
    /// The constants of the shaders of `update_line` and `multiply_line`.
    pub fn line_constants(&self) -> [(&'static str, u32); 3] {
        [("PAIRS", 2 * self.ts as u32), ("LANES", LANES as u32), ("MULTIPLY_THREADS", (LANES * LANES) as u32)]
    }

    /// The constants of the shader of `update_trailing`, which has the same tiles as `gemm`, and of P and R.
    pub fn trailing_constants(&self) -> Vec<(&'static str, u32)> {
        self.products.constants().into_iter().chain([("PAIRS", 2 * self.ts as u32)]).collect()
    }

    /// The constants of the shader of `larft`.
    pub fn larft_constants(&self) -> [(&'static str, u32); 4] {
        let each = (self.ts * self.ts).div_ceil(LARFT_THREADS);
        [
            ("TS", self.ts as u32),
            ("LARFT_THREADS", LARFT_THREADS as u32),
            ("LARFT_ROWS", LARFT_ROWS as u32),
            ("LARFT_EACH", each as u32),
        ]
    }
}
