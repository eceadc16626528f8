//! Bulge chasing: one reduction step of a band, with sweeps pipelined over the threads of the rayon pool. Twin: `shaders/chase.wgsl`.
//!
//! A cycle (row, c0, c1) first computes H = I - tau v v^H from x = A[row, c0..=c1]^T, and applies it from the right to rows row..=c1
//! (A <- A H^T). It then computes H from x = A[c0..=c1, c0], and applies it from the left to columns c0..=last (A <- H A). Columns are
//! contiguous in band storage. Both products access memory column by column, with stride 1. All arithmetic is in double precision.
//!
//! Consecutive sweeps form a group, which runs as a wavefront: sweep j of the group is three cycles behind its sweep j - 1. The part of the
//! band that they share is thus read into the L2 cache once. The band is divided among the threads: each runs every group over its own columns.

pub(crate) mod apply;
pub(crate) mod reflector;

use std::{
    any::TypeId,
    ops::Range,
    sync::{
        Mutex, MutexGuard, TryLockError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use faer::traits::{ComplexField, SimdArch};
use pulp::{Simd, WithSimd};

use crate::{
    base::{
        blas::Side,
        error::Result,
        number::{Number, Scalar},
        parallel::{beside, on_worker, threads},
        registers::Choices,
        spinning::Permit,
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
    // As many lanes as there are sweeps at once.
    let lanes = threads().min(step.cycles(0) / SWEEP_SEPARATION).max(1);
    let column_bytes = (layout.ku + layout.kl + 1) * size_of::<B>();
    let cache = Choices::here().cache_bytes;
    let in_cache = cache / 4 * 3 / (SWEEP_SEPARATION * step.bandwidth * column_bytes);
    // Groups are for lanes of more columns than a cache holds. Lanes of many sweeps would wait for one another at their ends.
    let most = match lanes {
        1 => GROUP_MOST,
        _ if step.n / lanes * column_bytes <= cache => 1,
        _ => step.cycles(0) / (2 * SWEEP_SEPARATION * lanes),
    };
    let group = in_cache.min(most).clamp(1, GROUP_MOST);
    let schedule = Schedule {
        band: band.as_mut_ptr(),
        layout,
        step: *step,
        group,
        progress: (0..sweeps.div_ceil(group)).map(|_| Progress::default()).collect(),
        lanes: (0..lanes).map(|_| Mutex::default()).collect(),
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
///
/// Step s of a group runs cycle s - 3 j of the group's sweep j. It follows step s - 1 of its group, and step s + 3 G - 1 of the group before,
/// where G is the number of sweeps in a group. A group's steps are cut into parts, one for each lane, or for fewer if its sweeps are short
/// ([`part`](Self::part)). A lane runs its parts in the order of the groups. As sweeps get shorter at their start, all parts move slowly towards
/// the end of the band, so that a lane's columns stay in one core's cache, and two cores share only those between their parts.
struct Schedule<'a, B: Number> {
    band: *mut B,
    layout: BandLayout,
    step: ReductionStep,
    /// Sweeps in a group.
    group: usize,
    /// Steps that each group has done; `usize::MAX` when it is finished.
    progress: Vec<Progress>,
    /// In boxes: threads that find a lane taken touch the cache line of the lock, not that of the lane.
    lanes: Vec<Mutex<Box<Lane>>>,
    watch: &'a Watch,
}

/// A counter with a cache line of its own, and the next one, which some processors fetch with it.
#[repr(align(128))]
#[derive(Default)]
struct Progress(AtomicUsize);

/// Where a lane is.
#[derive(Default)]
struct Lane {
    /// Its group.
    group: usize,
    /// The first step of that group that is not done.
    step: usize,
    /// Steps that the group before is known to have done.
    before: usize,
}

// SAFETY: `band` is one exclusive borrow, held by `chase` for as long as the schedule lives. Concurrent threads read and write disjoint
// columns of it. Between the columns of concurrent cycles lies at least one other column, so the padding beside a column is used by one
// thread, too. The release stores and acquire loads of `progress`, and the locks of the lanes, order all other accesses.
unsafe impl<B: Number> Sync for Schedule<'_, B> {}

impl<B: Number> Schedule<'_, B> {
    /// Runs the step on as many threads as there are lanes.
    fn run<K: Keep<Wide<B>>>(&self, keep: K) {
        let work = |own| <Wide<B> as ComplexField>::Arch::default().dispatch(Worker { schedule: self, own, keep });
        on_worker(&mut || beside(self.lanes.len() - 1, &|k| work(k + 1), || work(0)));
    }

    /// The sweeps of group `g`.
    fn sweeps(&self, g: usize) -> Range<usize> {
        g * self.group..((g + 1) * self.group).min(self.step.sweeps())
    }

    /// The steps of a group of these sweeps: cycles + 3 R grows with sweep R, so that the last one ends last.
    fn steps(&self, sweeps: &Range<usize>) -> usize {
        SWEEP_SEPARATION * (sweeps.len() - 1) + self.step.cycles(sweeps.end - 1)
    }

    /// The part of a lane in a group of so many steps. A part has at least 3 G steps, so that short sweeps leave the first lanes without one: with
    /// fewer steps a lane and the next would take turns, and each step would fetch its columns from another core's cache.
    fn part(&self, lane: usize, steps: usize) -> [usize; 2] {
        let all = self.lanes.len();
        let used = (steps / (SWEEP_SEPARATION * self.group)).clamp(1, all);
        [lane, lane + 1].map(|cut| steps * (cut + used).saturating_sub(all) / used)
    }

    fn is_finished(&self) -> bool {
        self.progress.last().is_none_or(|last| last.0.load(Ordering::Acquire) == usize::MAX)
    }
}

/// A thread's work in a reduction step: its own lane, and meanwhile any other that no thread is in. So the work goes on however many of the
/// pool's threads come.
struct Worker<'a, B: Number, K> {
    schedule: &'a Schedule<'a, B>,
    own: usize,
    keep: K,
}

impl<B: Number, K: Keep<Wide<B>>> WithSimd for Worker<'_, B, K> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let lanes = Lanes::<f64, S>::new(simd);
        let Worker { schedule, own, keep } = self;
        let mut run = Run { lanes, schedule, keep, v: Reflector::with_capacity(schedule.step.tile_width + 1), copy: Vec::new() };
        let count = schedule.lanes.len();
        // Held until the end, so that no other thread enters the lane while this one is between two steps.
        let mut of_own = None;
        let permit = Permit::take();
        let at_once = if permit.is_some() { 0 } else { YIELDS };
        let (mut k, mut looks, mut moved) = (0, at_once, false);
        while !schedule.is_finished() && !schedule.watch.is_cancelled() {
            let mut of_other = None;
            let lane = if k == 0 { &mut of_own } else { &mut of_other };
            if lane.is_none() {
                *lane = entered(&schedule.lanes[(own + k) % count]);
            }
            if let Some(lane) = lane {
                moved |= run.advance((own + k) % count, lane);
            }
            k = (k + 1) % count;
            if k == 0 {
                if moved {
                    looks = at_once;
                } else {
                    wait(&mut looks);
                }
                moved = false;
            }
        }
    }
}

/// The lane, unless another thread is in it. A thread that panicked in a progress callback left it between two parts.
fn entered(lane: &Mutex<Box<Lane>>) -> Option<MutexGuard<'_, Box<Lane>>> {
    match lane.try_lock() {
        Ok(lane) => Some(lane),
        Err(TryLockError::Poisoned(lane)) => Some(lane.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// A worker, and its workspace.
struct Run<'a, B: Number, S: Simd, K> {
    lanes: Lanes<f64, S>,
    schedule: &'a Schedule<'a, B>,
    keep: K,
    v: Reflector<Wide<B>>,
    copy: Vec<Wide<B>>,
}

impl<B: Number, S: Simd, K: Keep<Wide<B>>> Run<'_, B, S, K> {
    /// Runs the steps of a lane for which all is done that they follow. Returns whether there were any.
    #[inline(always)]
    fn advance(&mut self, number: usize, lane: &mut Lane) -> bool {
        let Schedule { band, layout, step, group, ref progress, watch, .. } = *self.schedule;
        let mut moved = false;
        while let Some(Progress(done)) = progress.get(lane.group) {
            let g = lane.group;
            let sweeps = self.schedule.sweeps(g);
            let steps = self.schedule.steps(&sweeps);
            let [start, end] = self.schedule.part(number, steps);
            let first = lane.step.max(start);
            if first == start && done.load(Ordering::Acquire) < start {
                return moved;
            }
            for s in first..end {
                lane.step = s;
                if watch.is_cancelled() {
                    return moved;
                }
                // Sweep R may run cycle s once sweep R-1, the last of the group before, has finished cycle s + 2.
                let needed = s + SWEEP_SEPARATION * group;
                if g > 0 && lane.before < needed {
                    lane.before = progress[g - 1].0.load(Ordering::Acquire);
                    if lane.before < needed {
                        return moved;
                    }
                }
                for (j, sweep) in sweeps.clone().enumerate().take(s / SWEEP_SEPARATION + 1) {
                    let i = s - SWEEP_SEPARATION * j;
                    if i < step.cycles(sweep) {
                        // SAFETY: the cycle's entries and the padding beside them are inside the band (`layout` provides this for
                        // every cycle of the step). No other thread accesses them now: earlier sweeps are at least three cycles
                        // ahead (seen above, or run before in this group), and later sweeps wait for this one.
                        unsafe {
                            let keep = (self.keep, sweep);
                            cycle_in_band(self.lanes, band, layout, step.cycle(sweep, i), keep, &mut self.v, &mut self.copy)
                        };
                    }
                }
                done.store(s + 1, Ordering::Release);
                moved = true;
            }
            *lane = Lane { group: g + 1, ..Lane::default() };
            if end == steps {
                done.store(usize::MAX, Ordering::Release);
                // Reported after the group is finished: if the callback panics, no other thread waits for this group. Cancellation is
                // checked above.
                let _ = watch.did(step.flops(B::KIND, sweeps.map(|sweep| step.cycles(sweep) as u64).sum()));
            }
        }
        moved
    }
}

/// Calls of [`wait`] that spin, and those that spin or yield.
const SPINS: u32 = 200;
const YIELDS: u32 = 2000;

/// Spins, after about the duration of a cycle yields the core to other threads, perhaps the awaited one, and after many of these sleeps: the awaited
/// thread has no core, and gets one sooner the fewer others are awake. `looks` counts the calls. A thread without a [`Permit`] sleeps at once.
#[inline(always)]
fn wait(looks: &mut u32) {
    *looks = looks.saturating_add(1);
    match *looks {
        ..SPINS => std::hint::spin_loop(),
        SPINS..YIELDS => std::thread::yield_now(),
        // There are no other threads, and nothing to wait for.
        _ if cfg!(target_arch = "wasm32") => {}
        _ => std::thread::sleep(Duration::from_micros(50)),
    }
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
        let columns = at.last - at.c0 + 1;
        let first_row = |j: usize| if at.c0 + j <= at.c1 { 0 } else { at.c0 - at.row };
        for j in 0..columns {
            for i in first_row(j)..rows {
                copy[ROOM + j * ld + i] = (*first.add(j * next + i)).widen().to_wide();
            }
        }
        cycle(lanes, Place { at: copy[ROOM..].as_mut_ptr(), offset: 0, next: ld }, at, keep, v);
        for j in 0..columns {
            for i in first_row(j)..rows {
                *first.add(j * next + i) = B::narrow(B::Scalar::from_wide(copy[ROOM + j * ld + i]));
            }
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
