//! The work of one dispatch of each kernel, from the loops of its shader.
//!
//! The GPU backend takes its grids and flops from here, so the counts are those of the actual dispatches.

use crate::{
    base::{element_kind::ElementKind, number::RealElement},
    cost::{
        chain::{Chain, READ, fmas},
        shape::Shape,
    },
    tile::{band_layout::BandLayout, panel_tree::Level},
};

pub use crate::cost::kernel::Kernel;

/// The work of one dispatch: totals over all workgroups, unless stated otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    pub kernel: Kernel,
    pub workgroups: u64,
    /// Threads per workgroup.
    pub threads: u64,
    /// Bytes of workgroup memory that a workgroup declares.
    pub workgroup_memory: u64,
    /// Real additions and multiplications that the result needs.
    pub flops: u64,
    /// Bytes that all dispatches of the kernel access again and again, if they are few enough for a cache.
    pub footprint: u64,
    /// What workgroups read a second time, of `bytes`.
    pub again: Again,
    /// Bytes of global memory read and written. Every access counts, except that V and T, which many workgroups read, count once.
    pub bytes: u64,
    /// Bytes of workgroup memory read and written, summed over the threads.
    pub workgroup_bytes: u64,
    /// The longest dependency chain of one workgroup, except those of another kernel beside it.
    pub chain: Chain,
    /// Workgroups of another kernel, of the above.
    pub beside: Beside,
    /// Whether a thread has two strips of a product (`Tuning::strips_per_thread`).
    pub two_strips: bool,
}

/// Workgroups of a dispatch that run another kernel than the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Beside {
    pub workgroups: u64,
    pub chain: Chain,
}

/// Bytes that a workgroup reads a second time, after it has read others. Last ones first, so that what is still in the cache is found there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Again {
    /// Of all workgroups.
    pub bytes: u64,
    /// Of one workgroup.
    pub of_one: u64,
}

/// Maximum stacked rows of a level in the GPU backend's workspace: as many blocks as any device runs concurrently.
pub(crate) const ROWS_AT_ONCE: usize = 1 << 17;

/// Maximum estimated flops of a submission with several dispatches, and of a dispatch that can be split: about a tenth of a second on a
/// small GPU.
pub(crate) const SUBMISSION_FLOPS: u64 = 50_000_000_000;

/// Threads per workgroup of the kernels with one thread per element.
pub(crate) const LINEAR_THREADS: u32 = 128;

/// Threads per workgroup of `bisect`: few, so that the workgroups occupy the whole device.
pub(crate) const BISECT_THREADS: u32 = 64;
/// Upper bound of the squared singular values: two entries per row, with moduli up to sqrt(2).
pub(crate) const TOP: u32 = 9;

/// Steps of bisection until the bounds are adjacent numbers. Geometric means reduce the ratio of the bounds from `TOP` / `pivot` to 4: each
/// halves its logarithm. Then follow one step per binary digit, and two more.
fn steps(pivot: f64, epsilon: f64) -> u64 {
    let geometric = (f64::from(TOP) / pivot).log2().log2().ceil();
    let digits = 1.0 - epsilon.log2();
    (geometric + digits + 2.0) as u64
}

/// Steps of bisection of a pass of `bisect`, and the points whose counts they could need.
const STEPS_OF_PASS: u64 = 3;
const POINTS: u64 = 7;

/// The passes of bisection in this arithmetic.
pub(crate) fn passes_of_bisection(kind: ElementKind) -> u64 {
    fn passes<R: RealElement>() -> u64 {
        steps(R::pivot().to_double(), R::epsilon().to_double()).div_ceil(STEPS_OF_PASS)
    }
    if kind.is_double() { passes::<f64>() } else { passes::<f32>() }
}

/// Instructions of a thread for a row of a pass: seven points, two loads and the loop.
pub(super) fn issued_by_row() -> u64 {
    POINTS * STURM_ROW + 6
}

/// The passes of each dispatch of `bisect` for n values in this arithmetic, limited by the flops of a submission and by the loop iterations
/// of a thread. A pass has n iterations; None if that exceeds `most_iterations`.
pub(crate) fn passes_of_dispatches(
    kind: ElementKind,
    n: usize,
    most_flops: u64,
    most_iterations: usize,
) -> Option<impl Iterator<Item = u64>> {
    let passes = passes_of_bisection(kind);
    let iterations = (most_iterations / n.max(1)) as u64;
    let at_once = (most_flops / Work::flops_of_bisection(n).max(1)).clamp(1, passes).min(iterations);
    (iterations > 0).then(|| (0..passes).step_by(at_once as usize).map(move |first| at_once.min(passes - first)))
}

/// Dependent operations of a compensated addition, those among them that hide numbers from the compiler. This and the next constants are fitted to
/// an H100's times.
pub(super) const COMPENSATED: u64 = 14;
/// Dependent operations in the computation of v's factor from sums, of beta in addition, and of tau from v^H v, with square roots and divisions.
pub(super) const INVERSE: u64 = 80;
pub(super) const REFLECTOR: u64 = 210;
pub(super) const TAU: u64 = 100;
/// Dependent operations in |g|^2 times a sum of squares, without rounding errors.
pub(super) const EXACT_PRODUCTS: u64 = 70;

/// Instructions for a row and a point of a Sturm count: an addition, two comparisons, a selection, a counter, a product, a subtraction, and
/// twenty of a division. They are more than the latency of a row's dependent operations.
const STURM_ROW: u64 = 27;
/// Flops of a row of a Sturm count; a division counts as four.
const FLOPS_OF_STURM_ROW: u64 = 8;

/// Bytes of a number of the arithmetic type.
pub(super) fn scalar_bytes(kind: ElementKind) -> u64 {
    kind.scalar_bytes() as u64
}

impl Work {
    /// Registers of a thread in f32. With two strips: by NVIDIA's compiler (`benches/registers.py`).
    pub fn registers(&self) -> u64 {
        match (self.two_strips, self.kernel) {
            (true, Kernel::Unmqr | Kernel::UnmqrAndGeqrt) => 208,
            // A compiler keeps within half of a multiprocessor's registers.
            (true, _) if self.threads >= 256 => 128,
            (true, _) => 150,
            (false, kernel) => kernel.registers(),
        }
    }

    /// `geqrt` of a level: for each of w columns, v; v^H X for all columns; X - tau v u^H for those right of it. T is computed meanwhile.
    pub fn geqrt(kind: ElementKind, shape: &Shape, level: &Level) -> Work {
        let scalar = scalar_bytes(kind);
        let [ts, split, width, rows] = [shape.ts, shape.split, level.width, level.map.rows].map(|x| x as u64);
        let (blocks, threads) = (level.map.blocks() as u64, shape.geqrt_threads() as u64);
        // Rows of a thread, in the longest block.
        let slice = 4 * (level.map.block_rows.min(level.map.rows).div_ceil(4 * shape.split)) as u64;
        // Two passes over a column: a load of four, a multiply-add and a part of a branch for each four; and the reflector, by every thread.
        let issued = slice * (4 + 3 * fmas(kind)) + 360;
        // Two reads and the dot product, the sum of the shares, and the reflector, tau and w. Five of these products have rounding errors that take 2
        // operations where fma rounds once, and not 11.
        let sums = COMPENSATED * (split.div_ceil(4) + 1);
        let steps = (3 * READ + 10 + sums) + (INVERSE + 20) + COMPENSATED + 6;
        Work {
            kernel: Kernel::Geqrt,
            workgroups: blocks,
            threads,
            workgroup_memory: shape.geqrt_bytes(kind) as u64,
            flops: level.geqrt_flops(kind),
            footprint: u64::MAX,
            again: Again::default(),
            beside: Beside::default(),
            two_strips: false,
            bytes: 2 * rows * width * kind.bytes() as u64 + (rows * ts + blocks * ts * ts) * scalar,
            // A thread reads its slice of a column at most twice, and the shares of two.
            workgroup_bytes: blocks * threads * width * (2 * slice + 2 * split) * scalar,
            // A thread has about 18 instructions for the load of an entry, and as many for its store. A row of T has ts^2 / 2 products.
            chain: Chain {
                barriers: 2 * width + 3,
                round_trips: 2,
                steps: width * steps + ts * ts,
                issued: width * issued + 36 * slice,
                ..Chain::default()
            },
        }
    }

    /// `unmqr` of a level, with `trailing` columns right of the panel: V^H X, T^H W, V W.
    pub fn unmqr(kind: ElementKind, shape: &Shape, level: &Level, trailing: usize) -> Work {
        let scalar = scalar_bytes(kind);
        let flops = level.unmqr_flops(kind, trailing);
        let [ts, cpb, rows, trailing] = [shape.ts, shape.cpb, level.map.rows, trailing].map(|x| x as u64);
        let (blocks, chunks) = (level.map.blocks() as u64, trailing.div_ceil(cpb));
        let (threads, workgroups) = (shape.unmqr_threads() as u64, blocks * chunks);
        // Tiles of TS rows in the longest block. Each is processed twice, and T once.
        let tiles = level.map.block_rows.min(level.map.rows).div_ceil(shape.ts) as u64;
        let products = 2 * tiles + 1;
        // Of X, what is read in the second pass too.
        let again = tiles - (shape.held as u64).min(tiles);
        let of_x = rows * trailing * kind.bytes() as u64;
        let of_x_again = (u128::from(of_x) * u128::from(again) / u128::from(tiles.max(1))) as u64;
        // Each product of tiles has TS rows. Tiles of V, T, X and W are stored once per use.
        let read = products * ts * shape.tiles().read() * threads;
        let stored = products * ts * ts + (tiles + 2) * ts * cpb;
        Work {
            kernel: Kernel::Unmqr,
            workgroups,
            threads,
            workgroup_memory: shape.unmqr_bytes(kind) as u64,
            flops,
            footprint: u64::MAX,
            again: Again { bytes: of_x_again, of_one: again * ts * cpb * kind.bytes() as u64 },
            beside: Beside::default(),
            two_strips: shape.strips == 2,
            bytes: 2 * of_x + of_x_again + (rows * ts + blocks * ts * ts) * scalar,
            workgroup_bytes: workgroups * (read + stored) * scalar,
            // A row of a product has the reads' latency twice. A thread stages X in blocks of 16, V in vectors.
            chain: Chain {
                barriers: 4 * tiles + 3,
                round_trips: 3 * tiles + 1,
                steps: products * ts * 2 * READ,
                issued: products * (ts * shape.tiles().issued(kind) + 30 * (ts * ts / 4).div_ceil(threads))
                    + 250 * tiles * (ts * cpb / 16).div_ceil(threads)
                    + 600 * tiles,
                ..Chain::default()
            },
        }
    }

    /// `unmqr` of a level, with `trailing` columns right of the panel, beside `geqrt` of the `next` one, for a shape of [`Shape::beside`].
    pub fn unmqr_and_geqrt(kind: ElementKind, shape: &Shape, level: &Level, trailing: usize, next: &Level) -> Work {
        let (update, panel) = (Work::unmqr(kind, shape, level, trailing), Work::geqrt(kind, shape, next));
        Work {
            kernel: Kernel::UnmqrAndGeqrt,
            workgroups: update.workgroups + panel.workgroups,
            workgroup_memory: shape.beside_bytes(kind) as u64,
            flops: update.flops.saturating_add(panel.flops),
            bytes: update.bytes + panel.bytes,
            workgroup_bytes: update.workgroup_bytes + panel.workgroup_bytes,
            beside: Beside { workgroups: panel.workgroups, chain: panel.chain },
            ..update
        }
    }

    /// Columns of one dispatch of `unmqr` of a level: all `trailing` ones, or as many chunks as have at most `most_flops`, but at least one
    /// chunk.
    pub fn unmqr_columns(kind: ElementKind, shape: &Shape, level: &Level, trailing: usize, most_flops: u64) -> usize {
        let chunk = level.unmqr_flops(kind, shape.cpb).max(1);
        let fitting = usize::try_from(most_flops / chunk).unwrap_or(usize::MAX).max(1);
        fitting.saturating_mul(shape.cpb).min(trailing).max(1)
    }

    /// `pack_band`: writes every entry of the band storage, from the matrix.
    pub fn pack_band(kind: ElementKind, layout: BandLayout, bandwidth: usize, threads: u64) -> Work {
        let (places, copied) = ((layout.columns * layout.ld()) as u64, (layout.n * (bandwidth + 1)) as u64);
        Work::copy(Kernel::PackBand, places, threads, (places + copied) * kind.bytes() as u64)
    }

    /// `unpack_band`: copies `bandwidth` + 1 entries of each column from the band.
    pub fn unpack_band(kind: ElementKind, n: usize, bandwidth: usize, threads: u64) -> Work {
        let places = (n * (bandwidth + 1)) as u64;
        Work::copy(Kernel::UnpackBand, places, threads, places * (kind.bytes() + kind.scalar_bytes()) as u64)
    }

    /// `square_bidiagonal` of order n: one workgroup reads the two diagonals twice.
    pub fn square_bidiagonal(kind: ElementKind, n: usize, threads: u64) -> Work {
        let (n, real) = (n as u64, kind.real_bytes() as u64);
        let rows = n.div_ceil(threads);
        // The multiplication by the scale factor, and the square.
        let flops = if kind.is_complex() { 5 } else { 2 };
        Work {
            kernel: Kernel::SquareBidiagonal,
            workgroups: 1,
            threads,
            workgroup_memory: threads * real,
            flops: flops * (2 * n).saturating_sub(1),
            footprint: u64::MAX,
            again: Again::default(),
            beside: Beside::default(),
            two_strips: false,
            bytes: 4 * n * kind.bytes() as u64 + (2 * n + 1) * real,
            workgroup_bytes: (threads + 1) * threads * real,
            chain: Chain { barriers: 1, round_trips: 2 * rows, steps: threads + 4 * rows, ..Chain::default() },
        }
    }

    /// Flops of one pass of `bisect` for all n values.
    pub fn flops_of_bisection(n: usize) -> u64 {
        (POINTS * FLOPS_OF_STURM_ROW).saturating_mul((n as u64).saturating_mul(n as u64))
    }

    /// Flops of `passes` passes of bisection for all n values.
    pub(super) fn flops_of_bisection_passes(n: u64, passes: u64) -> u64 {
        passes.saturating_mul(Work::flops_of_bisection(n as usize))
    }

    /// `bisect`: `passes` Sturm counts at seven points for each of n values, with one value per thread. All threads read the squares, which
    /// count once.
    pub fn bisect(kind: ElementKind, n: usize, passes: u64, threads: u64) -> Work {
        let (values, real) = (n as u64, kind.real_bytes() as u64);
        Work {
            kernel: Kernel::Bisect,
            workgroups: values.div_ceil(threads),
            threads,
            workgroup_memory: 0,
            flops: Work::flops_of_bisection_passes(values, passes),
            footprint: u64::MAX,
            again: Again::default(),
            beside: Beside::default(),
            two_strips: false,
            bytes: (2 * values + 1 + 4 * values) * real,
            workgroup_bytes: 0,
            chain: Chain {
                round_trips: 2,
                issued: passes.saturating_mul(values).saturating_mul(issued_by_row()),
                ..Chain::default()
            },
        }
    }

    /// The same dispatch for `matrices` matrices of one shape, with as many times the workgroups.
    pub fn times(self, matrices: usize) -> Work {
        let times = |of: u64| of.saturating_mul(matrices as u64);
        Work {
            workgroups: times(self.workgroups),
            flops: times(self.flops),
            footprint: times(self.footprint),
            again: Again { bytes: times(self.again.bytes), ..self.again },
            bytes: times(self.bytes),
            workgroup_bytes: times(self.workgroup_bytes),
            beside: Beside { workgroups: times(self.beside.workgroups), ..self.beside },
            ..self
        }
    }

    /// A dispatch outside stages 1 to 3, for which only the flops are modelled.
    pub fn other(kernel: Kernel, flops: u64) -> Work {
        Work { flops, ..Work::copy(kernel, 1, 1, 0) }
    }

    pub(super) fn copy(kernel: Kernel, places: u64, threads: u64, bytes: u64) -> Work {
        let workgroups = places.div_ceil(threads);
        let chain = Chain { round_trips: 2, ..Chain::default() };
        Work {
            kernel,
            workgroups,
            threads,
            workgroup_memory: 0,
            flops: 0,
            footprint: u64::MAX,
            again: Again::default(),
            beside: Beside::default(),
            two_strips: false,
            bytes,
            workgroup_bytes: 0,
            chain,
        }
    }
}
