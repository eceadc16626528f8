//! `batch`: classes of shapes, the work of a dispatch, and the cost of a batch.

use crate::{
    base::{
        element_kind::ElementKind,
        error::{Result, SvdError},
        number::Number,
    },
    cost::{
        Cost,
        chain::{Chain, fmas},
        count::{Call, dispatches_of_call},
        device::DeviceModel,
        dispatches::Dispatches,
        shape::Bounds,
        work::{Again, Beside, Kernel, REFLECTOR, SUBMISSION_FLOPS, Work, issued_by_row, passes_of_bisection, scalar_bytes},
    },
    tile::{chase_schedule::ReductionStep, tuning::Tuning},
};

/// Classes have columns in multiples of this, and the largest one as many as fit.
const STEP: usize = 8;
/// Threads of a workgroup are a multiple of this: the threads of a warp of most devices.
const WARP: usize = 32;

/// Instructions of a thread for an entry of x: its square; for an entry of a line: two loads, v_i and a multiply-add, twice, and a store.
const OF_SQUARE: u64 = 2;
const OF_ENTRY: u64 = 11;
/// Bytes of the smallest access to memory.
const SECTOR: u64 = 32;
/// Instructions of a reflector's scalars and loops.
const OF_REFLECTOR: u64 = 150;

/// Order of the largest square matrix that a workgroup reduces in a buffer. Larger ones have enough work for a device each.
const SPILLED_ORDER: usize = 256;
/// Classes of these have columns in multiples of this.
const SPILLED_STEP: usize = 64;
/// Matrices of one dispatch that are reduced in a buffer: as many as have these bytes, so that a data-centre GPU's cache holds them, but at least
/// one for each multiprocessor of a large GPU.
const SPILLED_BYTES: usize = 24 << 20;
const SPILLED_LEAST: usize = 132;
/// Maximum bytes of the entries of larger matrices that share dispatches: what the host packs at a time.
pub(crate) const STACK_BYTES: u64 = 256 << 20;
/// Maximum bytes of those with vectors: entries and a copy, reflectors of both stages, V, and what those need whose vectors are computed together.
pub(crate) const KEPT_BYTES: u64 = 4 * STACK_BYTES;
/// Maximum threads per workgroup: WebGPU's limit.
const MOST_THREADS: usize = 256;

/// The sizes for which `batch` is compiled: those of a class of shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BatchShape {
    /// Maximum columns.
    pub order: usize,
    /// Threads per workgroup, about one for each column of a square matrix.
    pub threads: usize,
    /// Whether the matrix is in a buffer, not in workgroup memory.
    pub spilled: bool,
}

/// The leading dimension of a matrix of n columns in workgroup memory: odd, so that neither rows nor columns conflict in a bank.
pub(crate) fn leading_dimension(n: usize) -> usize {
    n | 1
}

/// Whether an m x n matrix, m >= n, has a class in a buffer, if it has none in workgroup memory.
#[cfg(feature = "gpu")]
pub(crate) fn may_fit_buffer((m, n): (usize, usize)) -> bool {
    n <= SPILLED_ORDER
        && m.checked_mul(leading_dimension(n)).is_some_and(|len| len <= SPILLED_ORDER * leading_dimension(SPILLED_ORDER))
}

impl BatchShape {
    fn of_order(order: usize, bounds: &Bounds<'_>, spilled: bool) -> BatchShape {
        let threads = order.next_multiple_of(WARP).min(bounds.threads).min(MOST_THREADS);
        BatchShape { order, threads, spilled }
    }

    /// The largest class that a device's workgroup memory holds for matrices stored as `S`.
    pub fn largest(kind: ElementKind, bounds: &Bounds<'_>) -> Option<BatchShape> {
        let fits = |&order: &usize| BatchShape::of_order(order, bounds, false).bytes(kind) <= bounds.bytes;
        (1..=SPILLED_ORDER).take_while(fits).last().map(|order| BatchShape::of_order(order, bounds, false))
    }

    /// The smallest class for an m x n matrix, m >= n, in workgroup memory none larger than `largest`. The result of a matrix does not depend on
    /// its class.
    pub fn of(largest: Option<BatchShape>, bounds: &Bounds<'_>, (m, n): (usize, usize)) -> Option<BatchShape> {
        let holds = |order: &usize| {
            let needed = m.checked_mul(leading_dimension(n));
            n <= *order && needed.is_some_and(|needed| needed <= order * leading_dimension(*order))
        };
        let largest = largest.map_or(0, |largest| largest.order);
        let mut orders = (STEP..largest).step_by(STEP).chain((largest > 0).then_some(largest));
        if let Some(order) = orders.find(holds) {
            return Some(BatchShape::of_order(order, bounds, false));
        }
        let order = (SPILLED_STEP..=SPILLED_ORDER).step_by(SPILLED_STEP).find(holds);
        order.map(|order| BatchShape::of_order(order, bounds, true))
    }

    /// Entries of the matrix in workgroup memory, if it is there.
    pub fn entries(&self) -> usize {
        self.order * leading_dimension(self.order)
    }

    pub fn constants(&self) -> [(&'static str, u32); 4] {
        [
            ("BATCH_ENTRIES", self.entries() as u32),
            ("BATCH_ORDER", self.order as u32),
            ("BATCH_THREADS", self.threads as u32),
            ("TOP", crate::cost::work::TOP),
        ]
    }

    /// Bytes of workgroup memory that the shader declares.
    pub fn bytes(&self, kind: ElementKind) -> usize {
        let matrix = if self.spilled { 0 } else { self.entries() * kind.scalar_bytes() };
        matrix + 2 * self.order * kind.real_bytes()
    }

    /// Maximum number of matrices of one dispatch.
    pub fn most(&self, kind: ElementKind) -> usize {
        match self.spilled {
            true => (SPILLED_BYTES / (self.entries() * kind.scalar_bytes())).max(SPILLED_LEAST),
            false => usize::MAX,
        }
    }

    /// Upper bound of the loop iterations of a thread, in f64, which has most.
    pub fn iterations(&self, (m, n): (usize, usize)) -> usize {
        // The loops take four entries at a time, and one at a time those that are left.
        let reflector = |lines: usize, count: usize| count / 4 + 4 + lines.div_ceil(self.threads) * (count / 2 + 8);
        let of_step = |j: usize| reflector(n - j - 1, m - j) + reflector(m - j - 1, n - j);
        let passes = passes_of_bisection(ElementKind::F64) as usize;
        let rest = (m * leading_dimension(n)).div_ceil(self.threads) + 3 * n + n.div_ceil(self.threads) * passes * (n + 1);
        (0..n).map(of_step).sum::<usize>() + rest
    }
}

impl Work {
    /// `batch` of matrices of these shapes, in workgroups of one class.
    pub fn batch(kind: ElementKind, shape: &BatchShape, shapes: impl Iterator<Item = (usize, usize)>) -> Work {
        let (scalar, real, threads) = (scalar_bytes(kind), kind.real_bytes() as u64, shape.threads as u64);
        let mut work = Work {
            kernel: Kernel::Batch,
            workgroups: 0,
            threads,
            workgroup_memory: shape.bytes(kind) as u64,
            flops: 0,
            footprint: if shape.spilled { 0 } else { u64::MAX },
            again: Again::default(),
            beside: Beside::default(),
            two_strips: false,
            bytes: 0,
            workgroup_bytes: 0,
            chain: Chain::default(),
        };
        let mut last: Option<((usize, usize), Work)> = None;
        for of in shapes {
            let one = match last {
                Some((same, one)) if same == of => one,
                _ => one_matrix(kind, &work, shape.spilled, of, (scalar, real)),
            };
            last = Some((of, one));
            work.workgroups += 1;
            work.flops += one.flops;
            work.bytes += one.bytes;
            work.workgroup_bytes += one.workgroup_bytes;
            if shape.spilled {
                work.footprint = work.footprint.saturating_add(one.footprint);
            }
            if one.chain.issued > work.chain.issued {
                work.chain = one.chain;
            }
        }
        work
    }
}

/// Bytes of global memory of one matrix: entries and its row of the table in, bounds out.
fn bytes_of(kind: ElementKind, (m, n): (usize, usize)) -> u64 {
    (m * leading_dimension(n) * kind.bytes() + 16 + (2 * n + 1) * kind.real_bytes()) as u64
}

/// The work of one m x n matrix in a workgroup of `of`.
fn one_matrix(kind: ElementKind, of: &Work, spilled: bool, (m, n): (usize, usize), (scalar, real): (u64, u64)) -> Work {
    let mut bytes = bytes_of(kind, (m, n));
    let footprint = (m * leading_dimension(n)) as u64 * scalar;
    let (m, n, threads) = (m as u64, n as u64, of.threads);
    let passes = passes_of_bisection(kind);
    let (mut flops, mut read, mut issued, mut loads) = (Work::flops_of_bisection_passes(n, passes), 0, 0, 0);
    let mut bytes_of_a = 2 * footprint;
    for j in 0..n {
        // Threads of a warp read adjacent entries of a row; in a column each reads a sector.
        for (lines, count, access) in [(n - j - 1, m - j, scalar), (m - j - 1, n - j - 1, scalar.max(SECTOR))] {
            if count > 0 {
                // A square, and two multiply-adds for each entry of a line.
                flops += 2 * fmas(kind).min(2) * count + 4 * fmas(kind) * lines * count;
                read += threads * count * scalar + 5 * lines * count * scalar;
                // A warp reads x once for each pass. Four entries are in flight at a time.
                bytes_of_a += 3 * threads.div_ceil(WARP as u64) * count * SECTOR + 3 * lines * count * access;
                loads += count.div_ceil(4) * (1 + 2 * lines.div_ceil(threads)) + 4;
                let each = OF_SQUARE * fmas(kind).min(2) + lines.div_ceil(threads) * (OF_ENTRY + 3 * (fmas(kind) - 1));
                issued += count * each + OF_REFLECTOR;
            }
        }
    }
    let values = n.div_ceil(threads);
    issued += 8 * (m * leading_dimension(n as usize) as u64).div_ceil(threads) + 8 * n;
    issued += values * passes * (n * issued_by_row() + 40);
    read += 2 * n * threads * scalar + threads * values * passes * 2 * n * real;
    if spilled {
        bytes += bytes_of_a;
        read = 2 * n * real * threads * values * passes;
    }
    let chain = Chain {
        barriers: if spilled { 1 } else { 2 * n + 2 },
        storage_barriers: if spilled { 2 * n + 1 } else { 0 },
        round_trips: if spilled { 3 + loads } else { 3 },
        // The scalars of a reflector, and the sum of every other product of a line.
        steps: (2 * n).saturating_sub(1) * 2 * REFLECTOR + n * (m + n) / 4,
        issued,
        ..Chain::default()
    };
    Work { flops, footprint, bytes, workgroup_bytes: read, chain, ..*of }
}

impl Cost {
    /// The cost of the singular values of `count` m x n matrices (or n x m) in one call, with [`Backend::Gpu`](crate::Backend::Gpu): one
    /// workgroup a matrix, or, if workgroup memory does not hold it, the dispatches of the two stages, which the matrices share. Transfers between host
    /// and device are not counted.
    ///
    /// ```
    /// use svdvals_gpu::cost::{Cost, DeviceModel, Kernel};
    /// let cost = Cost::batch::<f32>(10_000, (32, 32), &DeviceModel::H100)?;
    /// assert_eq!((cost.dispatches(), cost.kernel(Kernel::Batch).workgroups), (1, 10_000));
    /// let seconds: f64 = cost.on(&DeviceModel::H100).iter().map(|kernel| kernel.total).sum();
    /// println!("{:.2} ms", 1e3 * seconds);
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::InvalidOption`] for a matrix that is empty, or that would be computed alone (see [`new`](Self::new)): too large for a workgroup,
    /// and either the only one or more than half of 256 MiB. As [`new`](Self::new) for sizes that overflow.
    pub fn batch<S: Number>(count: usize, (m, n): (usize, usize), device: &DeviceModel) -> Result<Cost> {
        Cost::of_batch(S::KIND, count, (m, n), device)
    }
}

impl Cost {
    /// [`batch`](Self::batch) of matrices stored as `kind`.
    pub(super) fn of_batch(kind: ElementKind, count: usize, (m, n): (usize, usize), device: &DeviceModel) -> Result<Cost> {
        let (bounds, of) = (Bounds::of_model(device), (m.max(n), m.min(n)));
        let shape = BatchShape::of(BatchShape::largest(kind, &bounds), &bounds, of).filter(|_| of.1 > 0);
        let Some(shape) = shape.filter(|shape| !shape.spilled || count < 2) else {
            return Cost::stacked(kind, count, of, device, Call::STACKED);
        };
        let mut all = Dispatches::default();
        let at_once = matrices_of_dispatch(kind, &shape, of, SUBMISSION_FLOPS);
        for first in (0..count).step_by(at_once) {
            all.note(Work::batch(kind, &shape, std::iter::repeat_n(of, at_once.min(count - first))));
        }
        Ok(Cost { work: all.into_work(), double: kind.is_double() })
    }

    /// [`batch`](Self::batch) of m x n matrices, m >= n, that workgroup memory does not hold, or that of all their vectors.
    pub(super) fn stacked(
        kind: ElementKind,
        count: usize,
        (m, n): (usize, usize),
        device: &DeviceModel,
        mut call: Call,
    ) -> Result<Cost> {
        let tuning = Tuning::within(kind, &Bounds::of_model(device), n).formed_beside(0);
        Cost::check((m.saturating_mul(count.max(1)), n), &tuning)?;
        let of_one = (m.next_multiple_of(4) * n * kind.bytes()) as u64;
        let mut most = STACK_BYTES.checked_div(of_one).unwrap_or(0);
        if call.vectors.is_some() {
            // As `most_stacked` of a device, without the workspaces: A twice, the reflectors of stage 2, and V.
            let steps = ReductionStep::all(n, tuning.bandwidth(n), tuning.tile_width).count() as u64;
            let square = (n.next_multiple_of(4) * n * kind.bytes()) as u64;
            let kept = 2 * of_one + (steps + 1) * square;
            let later = later_bytes(kind, (m, n));
            call.together = vectors_at_once(kind, (m, n));
            let of_some = later.saturating_mul(call.together as u64);
            most = most.min(KEPT_BYTES.saturating_sub(of_some).checked_div(kept).unwrap_or(0));
        }
        let most = most as usize;
        if count < 2 || most < 2 {
            return Err(SvdError::invalid("matrix", format!("{count} of {m} x {n}: a single call each")));
        }
        let (at_once, mut work) = (count.div_ceil(count.div_ceil(most)), Vec::new());
        for first in (0..count).step_by(at_once) {
            work.extend(dispatches_of_call(kind, at_once.min(count - first), (m, n), &tuning, call)?);
        }
        Ok(Cost { work, double: kind.is_double() })
    }
}

impl Cost {
    /// [`batch_svd`](Self::batch_svd) of m x n matrices, m >= n, that workgroup memory does not hold.
    pub(super) fn stacked_svd(kind: ElementKind, count: usize, of: (usize, usize), device: &DeviceModel) -> Result<Cost> {
        Cost::stacked(kind, count, of, device, Call::stacked_vectors(of.1))
    }
}

/// Bytes that the vectors of an m x n matrix need after the back-transformation: U and a copy, one of V, three matrices for divide and conquer, and two
/// of products.
fn later_bytes(kind: ElementKind, (m, n): (usize, usize)) -> u64 {
    let of = |rows: usize| (rows.next_multiple_of(4) * n * kind.bytes()) as u64;
    2 * of(m) + 6 * of(n)
}

/// The number of matrices whose vectors are computed together.
fn vectors_at_once(kind: ElementKind, of: (usize, usize)) -> usize {
    (STACK_BYTES / later_bytes(kind, of).max(1)).max(1) as usize
}

/// Matrices like this in one dispatch, limited by the flops of a submission.
pub(crate) fn matrices_of_dispatch(kind: ElementKind, shape: &BatchShape, of: (usize, usize), most_flops: u64) -> usize {
    let flops = Work::batch(kind, shape, std::iter::once(of)).flops.max(1);
    usize::try_from(most_flops / flops).unwrap_or(usize::MAX).clamp(1, shape.most(kind))
}

#[cfg(test)]
mod tests {
    use num_complex::Complex;

    use super::*;

    const H100: DeviceModel = DeviceModel::H100;

    fn seconds<S: Number>(count: usize, n: usize) -> f64 {
        Cost::batch::<S>(count, (n, n), &H100).unwrap().on(&H100).iter().map(|kernel| kernel.total).sum()
    }

    /// The bytes of a matrix, of its row in the table and of its bounds; the flops of the direct reduction, 8/3 n^3 to lower order (four times as
    /// many for complex numbers), beside those of the counts; one dispatch as long as its flops allow.
    #[test]
    fn counts_are_the_algorithms() {
        let cost = Cost::batch::<f32>(10_000, (32, 32), &H100).unwrap();
        let batch = cost.kernel(Kernel::Batch);
        assert_eq!((cost.dispatches(), batch.workgroups, batch.threads), (1, 10_000, 32));
        assert_eq!(batch.bytes, 10_000 * (4 * 32 * 33 + 16 + 4 * 65));
        assert_eq!(batch.workgroup_memory, 4 * 32 * 33 + 4 * 64);
        let reduction = |flops: u64, passes: u64, n: u64| (flops - passes * Work::flops_of_bisection(n as usize)) as f64;
        let of = |n: usize| Cost::batch::<f32>(1, (n, n), &H100).unwrap().kernel(Kernel::Batch).flops;
        let ratio = reduction(of(80), passes_of_bisection(ElementKind::F32), 80) / (8.0 / 3.0 * 80f64.powi(3));
        assert!((0.97..1.03).contains(&ratio), "{ratio}");
        let complex = Cost::batch::<Complex<f32>>(1, (40, 40), &H100).unwrap().kernel(Kernel::Batch).flops;
        let ratio = reduction(complex, passes_of_bisection(ElementKind::F32), 40)
            / reduction(of(40), passes_of_bisection(ElementKind::F32), 40);
        assert!((3.9..4.0).contains(&ratio), "{ratio}");
        let many = Cost::batch::<f32>(1_000_000, (32, 32), &H100).unwrap();
        assert_eq!(many.dispatches(), (1_000_000 * u64::from(of(32) as u32)).div_ceil(SUBMISSION_FLOPS / of(32) * of(32)));
    }

    /// Every shape that fits has the smallest class that holds it; one that is larger or empty is an error.
    #[test]
    fn classes_hold_their_shapes() {
        let bounds = Bounds { bytes: 32 << 10, ..Bounds::of_model(&H100) };
        let largest = BatchShape::largest(ElementKind::F32, &bounds).unwrap();
        assert_eq!((largest.order, largest.threads), (89, 96));
        assert!(largest.bytes(ElementKind::F32) <= bounds.bytes);
        assert_eq!(BatchShape::largest(ElementKind::F32, &Bounds { bytes: 16 << 10, ..bounds }).unwrap().order, 63);
        let bounds = Bounds { bytes: 32 << 10, ..Bounds::of_model(&H100) };
        let class = |size| BatchShape::of(Some(largest), &bounds, size).map(|shape| (shape.order, shape.spilled));
        for (size, order) in [((1, 1), 8), ((8, 8), 8), ((9, 8), 16), ((72, 1), 8), ((2000, 3), 80), ((89, 89), 89)] {
            assert_eq!(class(size), Some((order, false)), "{size:?}");
        }
        for (size, order) in [((90, 89), Some(128)), ((200, 129), Some(192)), ((256, 256), Some(256)), ((257, 256), None)] {
            assert_eq!(class(size), order.map(|order| (order, true)), "{size:?}");
        }
        assert!(Cost::batch::<f32>(1, (257, 257), &H100).is_err() && Cost::batch::<f32>(1, (3, 0), &H100).is_err());
    }

    /// The aim of the model: 10,000 matrices of 32 x 32 in f32 on an H100 in 3 ms, transfers not counted.
    #[test]
    fn many_small_matrices() {
        let found = seconds::<f32>(10_000, 32);
        assert!(found < 0.003, "{found} s");
    }

    /// Time as a function of n, with as many entries in all: neighbouring orders differ by less than a third from n = 4 on, except where a further
    /// warp is begun for one value: by less than two.
    #[test]
    fn steps_are_those_of_warps() {
        let of = |n: usize| seconds::<f32>((1 << 26) / (n * n), n);
        for n in 4..89 {
            let ratio = of(n + 1) / of(n);
            let most = if n % WARP == 0 { 2.0 } else { 1.33 };
            assert!((0.75..most).contains(&ratio), "n = {n}: {ratio}");
        }
    }

    /// With the copies, at an H100's 5 GB/s up and 1.5 GB/s down, neighbouring orders differ by less than a third, with vectors and without: also where
    /// workgroup memory holds no more, at n = 75 with vectors and at 110 without.
    #[test]
    fn calls_have_no_cliff() {
        let of = |n: usize, vectors: bool| {
            let count = (1 << 24) / (n * n);
            let cost = if vectors { Cost::batch_svd::<f32> } else { Cost::batch::<f32> };
            let kernels: f64 = cost(count, (n, n), &H100).unwrap().on(&H100).iter().map(|kernel| kernel.total).sum();
            let (up, down) = (4 * count * n * n, 4 * count * if vectors { 2 * n * n } else { 2 * n });
            (kernels + up as f64 / 5e9 + down as f64 / 1.5e9) / (count * n * n) as f64
        };
        for vectors in [false, true] {
            for n in (16..=128).chain([191, 192, 255, 256]) {
                let ratio = of(n + 1, vectors) / of(n, vectors);
                assert!((0.75..1.33).contains(&ratio), "n = {n}, vectors: {vectors}: {ratio}");
            }
        }
    }

    /// Matrices that workgroup memory does not hold share the dispatches of one matrix, and have their work. Together they take less time than one after the
    /// other.
    #[test]
    fn larger_matrices_share_dispatches() {
        for (m, n) in [(300, 300), (700, 257), (5000, 20)] {
            let one = Cost::with_stage3::<f32>(m, n, &Cost::tuning::<f32>(n), true).unwrap();
            let five = Cost::batch::<f32>(5, (n, m), &H100).unwrap();
            assert_eq!(one.dispatches(), five.dispatches());
            for kernel in Kernel::ALL {
                let (one, five) = (one.kernel(kernel), five.kernel(kernel));
                assert_eq!((5 * one.flops, 5 * one.bytes), (five.flops, five.bytes), "{kernel}");
                assert_eq!((5 * one.workgroups, 5 * one.most_workgroups), (five.workgroups, five.most_workgroups), "{kernel}");
            }
            let [one, five] = [one, five].map(|cost| cost.on(&H100).iter().map(|kernel| kernel.total).sum::<f64>());
            assert!(five < 2.0 * one, "{m} x {n}: {five} s, {one} s for one");
        }
        // 256 MiB are 64 of 1024 x 1024.
        let [one, rounds] = [2, 130].map(|count| Cost::batch::<f32>(count, (1024, 1024), &H100).unwrap().dispatches());
        assert!((3 * one..3 * one + 100).contains(&rounds), "{rounds}, {one} each");
        assert!(
            Cost::batch::<f32>(9, (8192, 8192), &H100).is_err() && Cost::batch::<f32>(usize::MAX, (300, 300), &H100).is_err()
        );
    }

    /// Where workgroup memory does not hold them, as many matrices as an H100 has multiprocessors take less than a tenth of as many single calls.
    #[test]
    fn together_is_less_than_alone() {
        for n in [90, 128, 200, 256] {
            let alone = Cost::new::<f32>(n, n, &Cost::tuning::<f32>(n)).unwrap().on(&H100);
            let alone: f64 = alone.iter().map(|kernel| kernel.total).sum();
            let together = seconds::<f32>(132, n);
            assert!(together < 13.2 * alone, "n = {n}: {together} s, {alone} s each");
        }
    }

    /// With vectors, several matrices have the dispatches of one, and as many times its work. An H100 then takes less time for 32 of 1024 x 1024 than
    /// for 8 single ones.
    #[test]
    fn larger_matrices_with_vectors() {
        for (m, n) in [(300, 300), (700, 257), (5000, 20)] {
            let each = Cost::svd::<f32>(m, n, n, &Cost::tuning::<f32>(n)).unwrap();
            let five = Cost::stacked_svd(ElementKind::F32, 5, (m, n), &H100).unwrap();
            for kernel in
                Kernel::ALL.into_iter().filter(|kernel| *kernel != Kernel::Bisect && *kernel != Kernel::SquareBidiagonal)
            {
                let [each, five] = [&each, &five].map(|cost| cost.kernel(kernel));
                assert_eq!((each.dispatches, 5 * each.flops), (five.dispatches, five.flops), "{kernel}, {m} x {n}");
                assert_eq!(5 * each.bytes, five.bytes, "{kernel}, {m} x {n}");
            }
        }
        // Nothing is multiplied beside a plan, also of one that is left alone.
        let three = Cost::batch_svd::<f32>(3, (4096, 4096), &H100).unwrap();
        assert_eq!(three.kernel(Kernel::IdentityColumns).dispatches, 0);
        let seconds = |cost: Cost| cost.on(&H100).iter().map(|kernel| kernel.total).sum::<f64>();
        let (many, one) = (
            seconds(Cost::batch_svd::<f32>(32, (1024, 1024), &H100).unwrap()),
            seconds(Cost::svd::<f32>(1024, 1024, 1024, &Cost::tuning::<f32>(1024)).unwrap()),
        );
        println!("32 of 1024 x 1024: {many} s, one {one} s");
        assert!(many < 8.0 * one, "{many} s, {one} s for one");
        assert!(Cost::batch_svd::<f32>(9, (8192, 8192), &H100).is_err() && Cost::batch_svd::<f32>(1, (300, 300), &H100).is_err());
        assert!(
            Cost::batch_svd::<f32>(2, (usize::MAX, 5), &H100).is_err()
                && Cost::batch_svd::<f32>(2, (1 << 45, 1 << 20), &H100).is_err()
        );
    }
}
