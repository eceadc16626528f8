//! `jacobi`: classes of shapes, the work of a dispatch, and the cost of the decompositions of a batch.

use crate::{
    base::{element_kind::ElementKind, error::Result, number::Number},
    cost::{
        Cost,
        batch::leading_dimension,
        chain::{Chain, READ, fmas},
        device::DeviceModel,
        dispatches::Dispatches,
        shape::Bounds,
        work::{Again, Beside, Kernel, SUBMISSION_FLOPS, Work, scalar_bytes},
    },
};

/// Threads of a pair of columns.
pub(crate) const LANES: usize = 8;
/// Sweeps after which a matrix is given up. Graded matrices of order 128 take 27 (NumPy).
pub(crate) const MOST_SWEEPS: usize = 60;
/// Sweeps that the model assumes, the last one included. Random matrices take 9 to 12 for n = 32 to 128.
const USUAL_SWEEPS: u64 = 12;

/// Classes have columns in multiples of this, in workgroup memory and in a buffer. Larger matrices have enough work for a device each.
const STEP: usize = 8;
const SPILLED_STEP: usize = 64;
const SPILLED_ORDER: usize = 192;
/// Matrices of one dispatch that are in a buffer: as many as have these bytes, so that a data-centre GPU's cache holds them, but at least one for
/// each multiprocessor of a large GPU.
const SPILLED_BYTES: usize = 24 << 20;
const SPILLED_LEAST: usize = 132;
/// Threads of a workgroup are a multiple of the threads of a warp, up to WebGPU's limit.
const WARP: usize = 32;
const MOST_THREADS: usize = 256;

/// Instructions of a thread for a row of a product and for a row of a rotation: two loads each, addresses and the loop, and two stores.
const OF_PRODUCT: u64 = 6;
const OF_CHANGE: u64 = 10;
/// Instructions of the sums of a pair and of its rotation, three divisions and four square roots among them, and its dependent operations.
const OF_ROTATION: u64 = 170;
const ROTATION: u64 = 110;

/// The sizes for which `jacobi` is compiled: those of a class of shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct JacobiShape {
    /// Whether W is in a buffer, not in workgroup memory.
    pub spilled: bool,
    /// Columns of the largest square matrix.
    pub order: usize,
    /// Threads per workgroup: eight for a pair of columns, as far as there are.
    pub threads: usize,
}

/// The leading dimension of W, for m x n matrices: an odd multiple of eight, so that the threads of neighbouring pairs do not conflict in a bank.
pub(crate) fn leading_dimension_of_w((m, n): (usize, usize)) -> usize {
    LANES * ((m + n).div_ceil(LANES) | 1)
}

impl JacobiShape {
    fn of_order(order: usize, bounds: &Bounds<'_>, spilled: bool) -> JacobiShape {
        let threads = (LANES * order.div_ceil(2)).next_multiple_of(WARP).min(bounds.threads / LANES * LANES).min(MOST_THREADS);
        JacobiShape { spilled, order, threads }
    }

    /// The largest class that a device's workgroup memory holds for matrices stored as `S`.
    pub fn largest(kind: ElementKind, bounds: &Bounds<'_>) -> Option<JacobiShape> {
        let fits = |&order: &usize| JacobiShape::of_order(order, bounds, false).bytes(kind) <= bounds.bytes;
        (1..=SPILLED_ORDER).take_while(fits).last().map(|order| JacobiShape::of_order(order, bounds, false))
    }

    /// The smallest class for an m x n matrix, m >= n, in workgroup memory none larger than `largest`. The result of a matrix does not depend on
    /// its class.
    pub fn of(
        kind: ElementKind,
        largest: Option<JacobiShape>,
        bounds: &Bounds<'_>,
        (m, n): (usize, usize),
    ) -> Option<JacobiShape> {
        let shape = |order, spilled| JacobiShape::of_order(order, bounds, spilled);
        let holds = |shape: &JacobiShape| {
            let needed = m.checked_add(n).and_then(|_| n.checked_mul(leading_dimension_of_w((m, n))));
            n <= shape.order && needed.is_some_and(|needed| needed <= shape.entries())
        };
        let most = largest.map_or(0, |largest| largest.order);
        let inside = (STEP..most).step_by(STEP).chain((most > 0).then_some(most)).map(|order| shape(order, false));
        let in_buffers = (SPILLED_STEP..=SPILLED_ORDER).step_by(SPILLED_STEP).map(|order| shape(order, true));
        let in_buffers = in_buffers.filter(|shape| shape.bytes(kind) <= bounds.bytes);
        inside.chain(in_buffers).find(holds)
    }

    /// Entries of W.
    pub fn entries(&self) -> usize {
        self.order * leading_dimension_of_w((self.order, self.order))
    }

    pub fn constants(&self) -> [(&'static str, u32); 2] {
        [("JACOBI_ENTRIES", self.entries() as u32), ("JACOBI_THREADS", self.threads as u32)]
    }

    /// Bytes of workgroup memory that the shader declares.
    pub fn bytes(&self, kind: ElementKind) -> usize {
        let w = if self.spilled { 0 } else { self.entries() * kind.scalar_bytes() };
        w + 4 * self.threads * kind.real_bytes() + size_of::<u32>()
    }

    /// Maximum number of matrices of one dispatch.
    pub fn most(&self, kind: ElementKind) -> usize {
        match self.spilled {
            true => (SPILLED_BYTES / (self.entries() * kind.scalar_bytes())).max(SPILLED_LEAST),
            false => usize::MAX,
        }
    }

    /// Pairs of columns that a thread has one after the other in a step.
    fn rounds(&self, n: usize) -> usize {
        n.div_ceil(2).div_ceil(self.threads / LANES)
    }

    /// Upper bounds of the loop iterations of a thread: outside the sweeps, and in a sweep.
    pub fn iterations(&self, (m, n): (usize, usize)) -> (usize, usize) {
        let w = n * leading_dimension_of_w((m, n));
        let of_pair = m.max(n).div_ceil(LANES) + (m + n).div_ceil(LANES) + LANES + 4;
        (2 * w.div_ceil(self.threads) + 2, n * (self.rounds(n) * of_pair + 1) + self.threads / LANES + 1)
    }
}

impl Work {
    /// `jacobi` of matrices of these shapes, in workgroups of one class, with as many sweeps as random matrices take.
    pub fn jacobi(kind: ElementKind, shape: &JacobiShape, shapes: impl Iterator<Item = (usize, usize)>) -> Work {
        let mut work = Work {
            kernel: Kernel::Jacobi,
            workgroups: 0,
            threads: shape.threads as u64,
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
                _ => one_matrix(kind, &work, shape, of),
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

/// The work of one m x n matrix in a workgroup of `of`.
fn one_matrix(kind: ElementKind, of: &Work, shape: &JacobiShape, (m, n): (usize, usize)) -> Work {
    let (scalar, real) = (scalar_bytes(kind), kind.real_bytes() as u64);
    let w = (n * leading_dimension_of_w((m, n))) as u64 * scalar;
    let a = (m * leading_dimension(n) * kind.bytes()) as u64;
    let rounds = shape.rounds(n) as u64;
    let (m, n, lanes, threads) = (m as u64, n as u64, LANES as u64, of.threads);
    let steps = n - 1 + n % 2;
    let (of_products, of_change) = (USUAL_SWEEPS * n * (n - 1) / 2 * m, USUAL_SWEEPS * n * (n - 1) / 2 * (m + n));
    // Two norms and a product; four multiply-adds, two of them by a real number.
    let (norms, by_real) = (2 * fmas(kind).min(2), 2 * fmas(kind).min(2));
    let (products, changes) = (norms + fmas(kind), by_real + 2 * fmas(kind));
    let accesses = (2 * of_products + 4 * of_change) * scalar;
    let sums = USUAL_SWEEPS * steps * rounds * threads * (1 + lanes) * 4 * real;
    let of_step =
        rounds * (m.div_ceil(lanes) * (OF_PRODUCT + products) + (m + n).div_ceil(lanes) * (OF_CHANGE + changes) + OF_ROTATION);
    let barriers = USUAL_SWEEPS * (steps * rounds + 1);
    let chain = Chain {
        barriers: if shape.spilled { barriers } else { 2 * barriers },
        storage_barriers: if shape.spilled { barriers } else { 0 },
        // A thread has the loads of two rows in flight.
        round_trips: 3 + if shape.spilled { barriers * (m.div_ceil(2 * lanes) + (m + n).div_ceil(2 * lanes)) } else { 0 },
        steps: USUAL_SWEEPS * steps * rounds * (ROTATION + lanes + 4 * READ),
        issued: USUAL_SWEEPS * (steps * of_step + 40) + 16 * (n * (m + n)).div_ceil(threads),
        ..Chain::default()
    };
    Work {
        flops: 2 * (of_products * products + of_change * changes),
        footprint: w,
        bytes: a + 16 + 8 + w + if shape.spilled { accesses } else { 0 },
        workgroup_bytes: sums + if shape.spilled { 0 } else { accesses },
        chain,
        ..*of
    }
}

impl Cost {
    /// The cost of the thin decompositions of `count` m x n matrices (or n x m) in one call, with [`Backend::Gpu`](crate::Backend::Gpu): their
    /// values as in [`batch`](Self::batch), and their vectors, one workgroup a matrix, with the sweeps that random matrices take; or, if workgroup memory does not
    /// hold one, the dispatches of [`svd`](Self::svd), which the matrices share. Transfers between host and device are not counted, nor is the host's division by the lengths.
    ///
    /// ```
    /// use svdvals_gpu::cost::{Cost, DeviceModel, Kernel};
    /// let cost = Cost::batch_svd::<f32>(10_000, (32, 32), &DeviceModel::H100)?;
    /// assert_eq!(cost.kernel(Kernel::Jacobi).workgroups, 10_000);
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`batch`](Self::batch).
    pub fn batch_svd<S: Number>(count: usize, (m, n): (usize, usize), device: &DeviceModel) -> Result<Cost> {
        let (bounds, of) = (Bounds::of_model(device), (m.max(n), m.min(n)));
        let shape = JacobiShape::of(S::KIND, JacobiShape::largest(S::KIND, &bounds), &bounds, of).filter(|_| of.1 > 0);
        let Some(shape) = shape.filter(|shape| !shape.spilled || count < 2) else {
            return Cost::stacked_svd(S::KIND, count, of, device);
        };
        let mut cost = Cost::of_batch(S::KIND, count, (m, n), device)?;
        let mut all = Dispatches::default();
        let flops = Work::jacobi(S::KIND, &shape, std::iter::once(of)).flops.max(1);
        let at_once = usize::try_from(SUBMISSION_FLOPS / flops).unwrap_or(usize::MAX).clamp(1, shape.most(S::KIND));
        for first in (0..count).step_by(at_once) {
            all.note(Work::jacobi(S::KIND, &shape, std::iter::repeat_n(of, at_once.min(count - first))));
        }
        cost.work.extend(all.into_work());
        Ok(cost)
    }
}

#[cfg(test)]
mod tests {
    use num_complex::Complex;

    use super::*;

    const H100: DeviceModel = DeviceModel::H100;

    /// The largest classes in 16 and 48 KiB, and the smallest one that holds a shape. What fits none, or is empty, is an error.
    #[test]
    fn classes_hold_their_shapes() {
        let of = |bytes| Bounds { bytes, ..Bounds::of_model(&H100) };
        let largest = |bytes| JacobiShape::largest(ElementKind::F32, &of(bytes)).unwrap();
        assert_eq!([16 << 10, 48 << 10].map(|bytes| largest(bytes).order), [39, 74]);
        assert!(largest(16 << 10).bytes(ElementKind::F32) <= 16 << 10);
        let class = |size| {
            let shape = JacobiShape::of(ElementKind::F32, Some(largest(16 << 10)), &of(16 << 10), size);
            shape.map(|shape| (shape.order, shape.spilled))
        };
        for (size, found) in [
            ((1, 1), Some((8, false))),
            ((8, 8), Some((8, false))),
            ((9, 8), Some((8, false))),
            ((17, 8), Some((16, false))),
            ((39, 39), Some((39, false))),
            ((40, 40), Some((64, true))),
            ((1000, 3), Some((39, false))),
            ((192, 192), Some((192, true))),
            ((193, 193), None),
            ((usize::MAX, 2), None),
        ] {
            assert_eq!(class(size), found, "{size:?}");
        }
        assert!(Cost::batch_svd::<f32>(1, (193, 193), &H100).is_err() && Cost::batch_svd::<f32>(1, (3, 0), &H100).is_err());
    }

    /// Two norms and a product of a pair, and a rotation of both columns of W: 6 m + 8 (m + n) flops a pair of real columns. The values' dispatches
    /// come first, and one of `jacobi` after them.
    #[test]
    fn counts_are_the_algorithms() {
        let cost = Cost::batch_svd::<f32>(1000, (32, 32), &H100).unwrap();
        let jacobi = cost.kernel(Kernel::Jacobi);
        assert_eq!((cost.dispatches(), jacobi.workgroups, jacobi.threads), (2, 1000, 128));
        assert_eq!(jacobi.flops, 1000 * USUAL_SWEEPS * 31 * 16 * (6 * 32 + 8 * 64));
        assert_eq!(jacobi.bytes, 1000 * (4 * 32 * 33 + 24 + 4 * 32 * 72));
        assert_eq!(cost.kernel(Kernel::Batch), Cost::batch::<f32>(1000, (32, 32), &H100).unwrap().kernel(Kernel::Batch));
        let complex = Cost::batch_svd::<Complex<f32>>(1, (32, 32), &H100).unwrap().kernel(Kernel::Jacobi).flops;
        let ratio = complex as f64 / (jacobi.flops / 1000) as f64;
        assert!((2.5..4.0).contains(&ratio), "{ratio}");
    }

    /// As many matrices as an H100 has multiprocessors take less than as many single calls, whose host's part is not in the model.
    #[test]
    fn together_is_less_than_alone() {
        let seconds = |cost: Cost| cost.on(&H100).iter().map(|kernel| kernel.total).sum::<f64>();
        for n in [32, 64, 128, 192] {
            let alone = seconds(Cost::svd::<f32>(n, n, n, &Cost::tuning::<f32>(n)).unwrap());
            let together = seconds(Cost::batch_svd::<f32>(132, (n, n), &H100).unwrap());
            println!("n = {n}: {together} s together, {alone} s each alone");
            assert!(together < 132.0 * alone, "n = {n}: {together} s, {alone} s each");
        }
    }
}
