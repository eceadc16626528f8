//! Bulge chasing: one reduction step of a band, sweeps pipelined over the threads of the rayon pool.
//!
//! A cycle (row, c0, c1):  H = I - tau v v^H from x = A[row, c0..=c1]^T, applied to rows row..=c1 read as columns (A <- A H^T), then
//! from x = A[c0..=c1, c0], applied to columns c0..=last (A <- H A). Columns are contiguous in the band's storage, and both products
//! run down columns, so both sides stream. All arithmetic is in double precision.
//!
//! Sweeps are taken in groups of neighbours. A thread owns a group and runs it as a wave front, its sweep j three cycles behind its
//! sweep j - 1, so that the piece of the band they share is read into the second-level cache once; it follows the group before
//! through that group's progress counter.

use std::{
    any::TypeId,
    sync::atomic::{AtomicUsize, Ordering},
};

use faer::traits::{ComplexField, SimdArch};
use pulp::{Simd, WithSimd};

use super::{
    lanes::{Lane, Lanes},
    larfg::larfg,
};
use crate::{
    kernels::{BandLayout, Cycle, ReductionStep, SWEEP_SEPARATION},
    scalar::{Element, Scalar},
};

/// Bytes of band that a group may keep in use: half of a second-level cache of 1 MiB.
const GROUP_BYTES: usize = 1 << 19;
/// Most sweeps in a group.
const GROUP_MOST: usize = 8;

/// The type that a band of `B` is chased in.
type Wide<B> = <<B as Element>::Scalar as Scalar>::Wide;

/// Runs all cycles of `step` on `band`, kept in `layout`.
pub(super) fn chase<B: Element>(band: &mut [B], layout: BandLayout, step: &ReductionStep) {
    let sweeps = step.sweeps();
    if sweeps == 0 {
        return;
    }
    let threads = rayon::current_num_threads();
    let cycle_bytes = step.bandwidth * layout.ld() * size_of::<B>();
    let fits = GROUP_BYTES / (SWEEP_SEPARATION * cycle_bytes);
    let feeds = step.cycles(0) / (SWEEP_SEPARATION * threads);
    let group = fits.min(if threads > 1 { feeds } else { fits }).clamp(1, GROUP_MOST);
    let groups = sweeps.div_ceil(group);
    let schedule = Schedule {
        band: band.as_mut_ptr(),
        layout,
        step: *step,
        group,
        next: AtomicUsize::new(0),
        progress: (0..groups).map(|_| AtomicUsize::new(0)).collect(),
    };
    let schedule = &schedule;
    rayon::scope(|scope| {
        for _ in 1..threads.min(groups) {
            scope.spawn(move |_| <Wide<B> as ComplexField>::Arch::default().dispatch(Worker(schedule)));
        }
        <Wide<B> as ComplexField>::Arch::default().dispatch(Worker(schedule));
    });
}

/// What the threads of one reduction step share.
struct Schedule<B> {
    band: *mut B,
    layout: BandLayout,
    step: ReductionStep,
    /// Sweeps in a group.
    group: usize,
    /// The next group that no thread has taken. Groups are taken in order, so the group before a taken one is taken too.
    next: AtomicUsize,
    /// Wave-front steps that each group has done; `usize::MAX` when it is finished.
    progress: Vec<AtomicUsize>,
}

// SAFETY: `band` is one exclusive borrow, held by `chase` for as long as the schedule lives; threads read and write disjoint entries of
// it (the cycles active at one time are disjoint), and the release stores and acquire loads of `progress` order the rest.
unsafe impl<B: Send> Sync for Schedule<B> {}

/// One thread's share of a reduction step.
struct Worker<'a, B>(&'a Schedule<B>);

impl<B: Element> WithSimd for Worker<'_, B> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let lanes = Lanes::<Wide<B>, S>::new(simd);
        let Schedule { band, layout, step, group, ref next, ref progress } = *self.0;
        let mut v = vec![Wide::<B>::zero_impl(); step.tile_width + 1];
        let mut copy = Vec::new();
        loop {
            let g = next.fetch_add(1, Ordering::Relaxed);
            let Some(done) = progress.get(g) else { return };
            let sweeps = g * group..((g + 1) * group).min(step.sweeps());
            let last = sweeps.end - 1;
            // cycles + 3R grows with R: the group's last sweep ends last.
            let steps = SWEEP_SEPARATION * (last - sweeps.start) + step.cycles(last);
            let mut before = if g == 0 { usize::MAX } else { 0 };
            for s in 0..steps {
                // Sweep R may run cycle s once sweep R-1, the last of the group before, has finished cycle s + 2.
                let needed = s + SWEEP_SEPARATION * group;
                while before < needed {
                    before = progress[g - 1].load(Ordering::Acquire);
                    if before < needed {
                        std::hint::spin_loop();
                        std::thread::yield_now();
                    }
                }
                for (j, sweep) in sweeps.clone().enumerate().take(s / SWEEP_SEPARATION + 1) {
                    let i = s - SWEEP_SEPARATION * j;
                    if i < step.cycles(sweep) {
                        // SAFETY: the cycle's entries lie inside the band (`BandLayout::new` makes room for every cycle of the step),
                        // and no other thread touches them now: sweeps before are at least three cycles ahead (awaited above, or run
                        // earlier by this thread), sweeps after wait for this one.
                        unsafe { cycle_in_band(lanes, band, layout, step.cycle(sweep, i), &mut v, &mut copy) };
                    }
                }
                done.store(s + 1, Ordering::Release);
            }
            done.store(usize::MAX, Ordering::Release);
        }
    }
}

/// One cycle on the band: in place, or where the band is stored in a narrower type by way of `copy`. `v` holds at least `c1 - c0 + 1`
/// elements.
///
/// # Safety
/// `band` holds `layout.n * layout.ld()` elements, the cycle's entries are inside `layout`, and nobody else uses them meanwhile.
#[inline(always)]
unsafe fn cycle_in_band<B: Element, S: Simd>(
    lanes: Lanes<Wide<B>, S>,
    band: *mut B,
    layout: BandLayout,
    at: Cycle,
    v: &mut [Wide<B>],
    copy: &mut Vec<Wide<B>>,
) {
    // SAFETY: for all pointers below, entries (row..=c1, c0..=c1) and (c0..=c1, c0..=last) are the cycle's own.
    unsafe {
        let first = band.add(layout.index(at.row, at.c0));
        // From a column to the next in the same row.
        let next = layout.ld() - 1;
        if TypeId::of::<B>() == TypeId::of::<Wide<B>>() {
            return cycle(lanes, first.cast(), next, at, v);
        }
        let rows = at.c1 - at.row + 1;
        copy.resize(copy.len().max(rows * (at.last - at.c0 + 1)), Wide::<B>::zero_impl());
        let entries = |j: usize| (if j <= at.c1 { 0 } else { at.c0 - at.row }..rows).map(move |i| (i, j - at.c0));
        for (i, j) in (at.c0..=at.last).flat_map(entries) {
            copy[j * rows + i] = (*first.add(j * next + i)).widen().to_wide();
        }
        cycle(lanes, copy.as_mut_ptr(), rows, at, v);
        for (i, j) in (at.c0..=at.last).flat_map(entries) {
            *first.add(j * next + i) = B::narrow(B::Scalar::from_wide(copy[j * rows + i]));
        }
    }
}

/// One cycle on the entries A(i, j) at `first + (j - c0) * next + (i - row)`.
///
/// # Safety
/// Entries (row..=c1, c0..=c1) and (c0..=c1, c0..=last) are there, and nobody else uses them meanwhile.
#[inline(always)]
unsafe fn cycle<T: Scalar + Element<Real = f64>, S: Simd>(
    lanes: Lanes<T, S>,
    first: *mut T,
    next: usize,
    at: Cycle,
    v: &mut [T],
) {
    let Cycle { row, c0, c1, last } = at;
    let v = &mut v[..c1 - c0 + 1];
    // SAFETY: all entries used are the cycle's own.
    unsafe {
        for (k, v) in v.iter_mut().enumerate() {
            *v = *first.add(k * next);
        }
        let (beta, tau) = reflector(lanes, v);
        *first = beta;
        for k in 1..v.len() {
            *first.add(k * next) = T::zero_impl();
        }
        if tau != 0.0 {
            apply_right(lanes, first.add(1), next, c1 - row, v, tau);
        }

        let x = first.add(c0 - row);
        v.copy_from_slice(std::slice::from_raw_parts(x, v.len()));
        let (beta, tau) = reflector(lanes, v);
        *x = beta;
        for k in 1..v.len() {
            *x.add(k) = T::zero_impl();
        }
        if tau != 0.0 {
            apply_left(lanes, x.add(next), next, last - c0, v, tau);
        }
    }
}

/// Turns x into v of its reflector; returns (beta, tau).
#[inline(always)]
fn reflector<T: Scalar + Element<Real = f64>, S: Simd>(lanes: Lanes<T, S>, x: &mut [T]) -> (T, f64) {
    let Some((alpha, tail)) = x.split_first_mut() else { return (T::zero_impl(), 0.0) };
    let h = larfg(*alpha, tail);
    *alpha = T::one_impl();
    lanes.scal(h.scale, tail);
    (h.beta, h.tau)
}

/// X <- X - tau (X conj(v)) v^T for X (`rows` x `v.len()`), whose column k starts at `x + k * next`.
///
/// # Safety
/// X is valid for reads and writes, and nobody else uses it meanwhile.
#[inline(always)]
unsafe fn apply_right<T: Scalar + Element<Real = f64>, S: Simd>(
    lanes: Lanes<T, S>,
    x: *mut T,
    next: usize,
    rows: usize,
    v: &[T],
    tau: f64,
) {
    let n = Lanes::<T, S>::N;
    let mut i = 0;
    // SAFETY: each call covers rows i .. i + 4n (or what is left) of X.
    unsafe {
        while i < rows {
            let left = rows - i;
            match left.div_ceil(n) {
                1 => right_rows::<T, S, 1>(lanes, x.add(i), next, left, v, tau),
                2 => right_rows::<T, S, 2>(lanes, x.add(i), next, left, v, tau),
                3 => right_rows::<T, S, 3>(lanes, x.add(i), next, left, v, tau),
                _ => right_rows::<T, S, 4>(lanes, x.add(i), next, left, v, tau),
            }
            i += 4 * n;
        }
    }
}

/// [`apply_right`] on the first `K` registers of rows, of which `rows` are inside X.
///
/// # Safety
/// As for [`apply_right`].
#[inline(always)]
unsafe fn right_rows<T: Scalar + Element<Real = f64>, S: Simd, const K: usize>(
    lanes: Lanes<T, S>,
    x: *mut T,
    next: usize,
    rows: usize,
    v: &[T],
    tau: f64,
) {
    let n = Lanes::<T, S>::N;
    let mask = lanes.first((rows - (K - 1) * n).min(n));
    // SAFETY: registers 0 .. K - 1 are full, the last is masked to the rows inside X.
    unsafe {
        let mut w = [lanes.zero(); K];
        for (k, &v) in v.iter().enumerate() {
            let (column, v) = (x.add(k * next), lanes.splat(v));
            for (r, w) in w[..K - 1].iter_mut().enumerate() {
                *w = lanes.conj_mul_add(v, lanes.load(column.add(r * n)), *w);
            }
            w[K - 1] = lanes.conj_mul_add(v, lanes.load_masked(mask, column.add((K - 1) * n)), w[K - 1]);
        }
        let tau = lanes.splat(T::from_real_impl(&-tau));
        w.iter_mut().for_each(|w| *w = lanes.mul(tau, *w));
        for (k, &v) in v.iter().enumerate() {
            let (column, v) = (x.add(k * next), lanes.splat(v));
            for (r, &w) in w[..K - 1].iter().enumerate() {
                let at = column.add(r * n);
                lanes.store(at, lanes.mul_add(w, v, lanes.load(at)));
            }
            let at = column.add((K - 1) * n);
            lanes.store_masked(mask, at, lanes.mul_add(w[K - 1], v, lanes.load_masked(mask, at)));
        }
    }
}

/// X <- X - tau v (v^H X) for X (`v.len()` x `cols`), whose column k starts at `x + k * next`.
///
/// # Safety
/// X is valid for reads and writes, and nobody else uses it meanwhile.
#[inline(always)]
unsafe fn apply_left<T: Scalar + Element<Real = f64>, S: Simd>(
    lanes: Lanes<T, S>,
    x: *mut T,
    next: usize,
    cols: usize,
    v: &[T],
    tau: f64,
) {
    // SAFETY: passed on.
    unsafe {
        match v.len().div_ceil(Lanes::<T, S>::N) {
            1 => left_columns::<T, S, 1>(lanes, x, next, cols, v, tau),
            2 => left_columns::<T, S, 2>(lanes, x, next, cols, v, tau),
            3 => left_columns::<T, S, 3>(lanes, x, next, cols, v, tau),
            4 => left_columns::<T, S, 4>(lanes, x, next, cols, v, tau),
            5 => left_columns::<T, S, 5>(lanes, x, next, cols, v, tau),
            _ => {
                for k in 0..cols {
                    let column = std::slice::from_raw_parts_mut(x.add(k * next), v.len());
                    let product = lanes.dot(v, column);
                    lanes.axpy(product.times(-tau), v, column);
                }
            }
        }
    }
}

/// [`apply_left`] with v and a column of X in `K` registers each.
///
/// # Safety
/// As for [`apply_left`].
#[inline(always)]
unsafe fn left_columns<T: Scalar + Element<Real = f64>, S: Simd, const K: usize>(
    lanes: Lanes<T, S>,
    x: *mut T,
    next: usize,
    cols: usize,
    v: &[T],
    tau: f64,
) {
    let n = Lanes::<T, S>::N;
    let mask = lanes.first(v.len() - (K - 1) * n);
    // SAFETY: registers 0 .. K - 1 are full, the last is masked to v's length.
    unsafe {
        let load =
            |from: *const T| -> [Lane<T, S>; K] {
                std::array::from_fn(|r| {
                    if r < K - 1 { lanes.load(from.add(r * n)) } else { lanes.load_masked(mask, from.add(r * n)) }
                })
            };
        let v = load(v.as_ptr());
        for k in 0..cols {
            let at = x.add(k * next);
            let mut column = load(at);
            let mut sum = lanes.zero();
            for r in 0..K {
                sum = lanes.conj_mul_add(v[r], column[r], sum);
            }
            let w = lanes.splat(lanes.sum(sum).times(-tau));
            for r in 0..K {
                column[r] = lanes.mul_add(v[r], w, column[r]);
            }
            for (r, &piece) in column[..K - 1].iter().enumerate() {
                lanes.store(at.add(r * n), piece);
            }
            lanes.store_masked(mask, at.add((K - 1) * n), column[K - 1]);
        }
    }
}
