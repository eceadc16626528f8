//! Bulge chasing: one reduction step of a band, with sweeps pipelined over the threads of the rayon pool. Twin: `shaders/chase.wgsl`.
//!
//! A cycle (row, c0, c1) first computes H = I - tau v v^H from x = A[row, c0..=c1]^T, and applies it from the right to rows row..=c1
//! (A <- A H^T). It then computes H from x = A[c0..=c1, c0], and applies it from the left to columns c0..=last (A <- H A). Columns are
//! contiguous in band storage. Both products access memory column by column, with stride 1. All arithmetic is in double precision.
//!
//! Consecutive sweeps form a group. A thread owns a group and runs it as a wavefront: sweep j of the group is three cycles behind its sweep
//! j - 1. The part of the band that they share is thus read into the L2 cache once. A group waits for the one before it through that
//! group's progress counter.

pub(crate) mod apply;
pub(crate) mod reflector;

use std::{
    any::TypeId,
    sync::atomic::{AtomicUsize, Ordering},
};

use faer::traits::{ComplexField, SimdArch};
use pulp::{Simd, WithSimd};

use crate::{
    base::{
        blas::Side,
        error::Result,
        number::{Number, Scalar},
        watch::Watch,
    },
    cpu::{
        chase::{
            apply::{ChaseReflectors, Keep},
            reflector::{Place, ROOM, Reflector, apply_left, apply_right},
        },
        simd::lanes::Lanes,
    },
    tile::{
        band_layout::BandLayout,
        chase_schedule::{Cycle, ReductionStep, SWEEP_SEPARATION},
    },
};

/// Working set of a group in bytes: half of an L2 cache of 1 MiB.
const GROUP_BYTES: usize = 1 << 19;
/// Most sweeps in a group.
const GROUP_MOST: usize = 8;

/// The layout of bands for bulge chasing. After each column there is padding for whole registers. All entries of a row have the same offset
/// in their cache lines.
pub(crate) fn layout(n: usize, bandwidth: usize, tile_width: usize) -> BandLayout {
    BandLayout::new(n, bandwidth, tile_width).spaced(ROOM, ROOM)
}

/// The type of the arithmetic on a band stored as `B`.
type Wide<B> = <<B as Number>::Scalar as Scalar>::Wide;

/// Runs all cycles of `step` on `band`, stored in `layout`. Stops early with an error if `watch` reports cancellation. The reflectors go to
/// `keep`.
pub(crate) fn chase<B: Number>(
    band: &mut [B],
    layout: BandLayout,
    step: &ReductionStep,
    keep: Option<&mut ChaseReflectors<B>>,
    watch: &Watch,
) -> Result<()> {
    let sweeps = step.sweeps();
    if sweeps == 0 {
        return Ok(());
    }
    let threads = rayon::current_num_threads();
    let cycle_bytes = step.bandwidth * (layout.ku + layout.kl + 1) * size_of::<B>();
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
        watch,
    };
    match keep {
        None => schedule.run(()),
        Some(reflectors) => schedule.run(reflectors.places()),
    }
    watch.check()
}

/// Runs cycle `i` of `sweep` alone.
///
/// # Panics
/// If `layout` or `band` has no room for the step, or if the step has no such cycle.
pub(crate) fn chase_cycle<B: Number>(band: &mut [B], layout: BandLayout, step: &ReductionStep, sweep: usize, i: usize) -> Cycle {
    let beside = layout.ld() > layout.ku + layout.kl + ROOM;
    let room = beside && layout.n == step.n && step.tile_width <= layout.kl && step.bandwidth + step.tile_width <= layout.ku;
    assert!(room && i < step.cycles(sweep) && band.len() >= layout.n * layout.ld(), "{step:?} in {layout:?}");
    let at = step.cycle(sweep, i);
    <Wide<B> as ComplexField>::Arch::default().dispatch(One { band, layout, at });
    at
}

/// One cycle of a step that `layout` has room for. `band` has `layout.n * layout.ld()` entries.
struct One<'a, B> {
    band: &'a mut [B],
    layout: BandLayout,
    at: Cycle,
}

impl<B: Number> WithSimd for One<'_, B> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let One { band, layout, at } = self;
        let mut v = Reflector::<Wide<B>>::with_capacity(at.c1 - at.c0 + 1);
        // SAFETY: the cycle's entries and the padding beside them are inside the band (`layout` provides this for every cycle of the step),
        // which is borrowed exclusively.
        unsafe { cycle_in_band(Lanes::<f64, S>::new(simd), band.as_mut_ptr(), layout, at, ((), 0), &mut v, &mut Vec::new()) };
    }
}

/// What the threads of one reduction step share.
struct Schedule<'a, B: Number> {
    band: *mut B,
    layout: BandLayout,
    step: ReductionStep,
    /// Sweeps in a group.
    group: usize,
    /// The next group that no thread has taken. Groups are taken in order, so the group before a taken one is taken too.
    next: AtomicUsize,
    /// Wavefront steps that each group has done; `usize::MAX` when it is finished.
    progress: Vec<AtomicUsize>,
    watch: &'a Watch,
}

// SAFETY: `band` is one exclusive borrow, held by `chase` for as long as the schedule lives. Concurrent threads read and write disjoint
// columns of it. Between the columns of concurrent cycles lies at least one other column, so the padding beside a column is used by one
// thread, too. The release stores and acquire loads of `progress` order all other accesses.
unsafe impl<B: Number> Sync for Schedule<'_, B> {}

impl<B: Number> Schedule<'_, B> {
    /// Runs the step on all threads.
    fn run<K: Keep<Wide<B>>>(&self, keep: K) {
        let threads = rayon::current_num_threads().min(self.progress.len());
        rayon::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(move |_| <Wide<B> as ComplexField>::Arch::default().dispatch(Worker { schedule: self, keep }));
            }
            <Wide<B> as ComplexField>::Arch::default().dispatch(Worker { schedule: self, keep });
        });
    }
}

/// One thread's share of a reduction step.
struct Worker<'a, B: Number, K> {
    schedule: &'a Schedule<'a, B>,
    keep: K,
}

impl<B: Number, K: Keep<Wide<B>>> WithSimd for Worker<'_, B, K> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let lanes = Lanes::<f64, S>::new(simd);
        let Schedule { band, layout, step, group, ref next, ref progress, watch } = *self.schedule;
        let mut v = Reflector::<Wide<B>>::with_capacity(step.tile_width + 1);
        let mut copy = Vec::new();
        loop {
            let g = next.fetch_add(1, Ordering::Relaxed);
            let Some(done) = progress.get(g) else { return };
            let sweeps = g * group..((g + 1) * group).min(step.sweeps());
            let last = sweeps.end - 1;
            // cycles + 3R grows with R: the group's last sweep ends last.
            let steps = SWEEP_SEPARATION * (last - sweeps.start) + step.cycles(last);
            let mut before = if g == 0 { usize::MAX } else { 0 };
            let mut cycles = 0;
            for s in 0..steps {
                if watch.is_cancelled() {
                    return;
                }
                // Sweep R may run cycle s once sweep R-1, the last of the group before, has finished cycle s + 2.
                let needed = s + SWEEP_SEPARATION * group;
                let mut looks = 0;
                while before < needed {
                    before = progress[g - 1].load(Ordering::Acquire);
                    if before < needed {
                        if watch.is_cancelled() {
                            return;
                        }
                        wait(&mut looks);
                    }
                }
                for (j, sweep) in sweeps.clone().enumerate().take(s / SWEEP_SEPARATION + 1) {
                    let i = s - SWEEP_SEPARATION * j;
                    if i < step.cycles(sweep) {
                        // SAFETY: the cycle's entries and the padding beside them are inside the band (`layout` provides this for
                        // every cycle of the step). No other thread accesses them now: earlier sweeps are at least three cycles
                        // ahead (awaited above, or run before by this thread), and later sweeps wait for this one.
                        unsafe {
                            cycle_in_band(lanes, band, layout, step.cycle(sweep, i), (self.keep, sweep), &mut v, &mut copy)
                        };
                        cycles += 1;
                    }
                }
                done.store(s + 1, Ordering::Release);
            }
            done.store(usize::MAX, Ordering::Release);
            // Reported after the group is finished: if the callback panics, no other thread waits for this group. Cancellation is checked
            // above.
            let _ = watch.did(step.flops::<B>(cycles));
        }
    }
}

/// Spins, but after about the duration of a cycle yields the core to other threads, perhaps the awaited one. `looks` counts the calls.
#[inline(always)]
fn wait(looks: &mut u32) {
    const PATIENCE: u32 = 200;
    *looks += 1;
    if *looks < PATIENCE { std::hint::spin_loop() } else { std::thread::yield_now() }
}

/// One cycle on the band: in place, or through `copy` if the band is stored in a narrower type. `v` has room for `c1 - c0 + 1` elements.
///
/// # Safety
/// `band` has `layout.n * layout.ld()` elements, and the cycle's entries are inside `layout`, which has [`ROOM`] elements of padding after
/// each column. Nobody else uses those columns, or the entries of this cycle's reflectors in `keep`, during the call.
#[inline(always)]
unsafe fn cycle_in_band<B: Number, S: Simd, K: Keep<Wide<B>>>(
    lanes: Lanes<f64, S>,
    band: *mut B,
    layout: BandLayout,
    at: Cycle,
    keep: (K, usize),
    v: &mut Reflector<Wide<B>>,
    copy: &mut Vec<Wide<B>>,
) {
    // SAFETY: for all pointers below, entries (row..=c1, c0..=c1) and (c0..=c1, c0..=last) are the cycle's own.
    unsafe {
        let offset = layout.index(at.row, at.c0);
        let (first, next) = (band.add(offset), layout.next_in_row());
        if TypeId::of::<B>() == TypeId::of::<Wide<B>>() {
            return cycle(lanes, Place { at: first.cast(), offset, next }, at, keep, v);
        }
        let rows = at.c1 - at.row + 1;
        let ld = (rows + ROOM).next_multiple_of(ROOM);
        copy.resize(copy.len().max(ROOM + ld * (at.last - at.c0 + 1)), Wide::<B>::zero_impl());
        let entries = |j: usize| (if j <= at.c1 { 0 } else { at.c0 - at.row }..rows).map(move |i| (i, j - at.c0));
        for (i, j) in (at.c0..=at.last).flat_map(entries) {
            copy[ROOM + j * ld + i] = (*first.add(j * next + i)).widen().to_wide();
        }
        cycle(lanes, Place { at: copy[ROOM..].as_mut_ptr(), offset: 0, next: ld }, at, keep, v);
        for (i, j) in (at.c0..=at.last).flat_map(entries) {
            *first.add(j * next + i) = B::narrow(B::Scalar::from_wide(copy[ROOM + j * ld + i]));
        }
    }
}

/// One cycle on a matrix whose first entry is (row, c0).
///
/// # Safety
/// Entries (row..=c1, c0..=c1) and (c0..=c1, c0..=last) exist, with padding for [`apply_right`] and [`apply_left`]. Nobody else uses them,
/// or the entries of this cycle's reflectors in `keep`, during the call.
#[inline(always)]
unsafe fn cycle<T: Scalar + Number<Real = f64>, S: Simd, K: Keep<T>>(
    lanes: Lanes<f64, S>,
    first: Place<T>,
    at: Cycle,
    (keep, sweep): (K, usize),
    v: &mut Reflector<T>,
) {
    let Cycle { row, c0, c1, last } = at;
    let len = c1 - c0 + 1;
    // SAFETY: all entries used are the cycle's own.
    unsafe {
        for (k, v) in v.entries(len).iter_mut().enumerate() {
            *v = *first.entry(0, k).at;
        }
        *first.at = v.make();
        for k in 1..len {
            *first.entry(0, k).at = T::zero_impl();
        }
        keep.keep(Side::Right, sweep, c0, v);
        if v.tau != 0.0 {
            apply_right(lanes, first.entry(1, 0), c1 - row, v);
        }

        let x = first.entry(c0 - row, 0);
        let column = std::slice::from_raw_parts_mut(x.at, len);
        v.entries(len).copy_from_slice(column);
        column.fill(T::zero_impl());
        column[0] = v.make();
        keep.keep(Side::Left, sweep, c0, v);
        if v.tau != 0.0 {
            apply_left(lanes, x.entry(0, 1), last - c0, v);
        }
    }
}
