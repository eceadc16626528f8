//! The stages on more threads than there are, on paper: the tasks of each stage, with the seconds that they take on one thread here, given to
//! P threads in the order of the crate's own schedule. Memory and caches are as fast as for one thread. Without hand-overs this is what the
//! dependences and the lengths of the tasks allow at most. With them, as they are measured here between two threads:
//!
//! * a loop's tasks are halved log2 P times, each half is stolen by a thread that is awake, and its end is waited for;
//! * a cycle of bulge chasing at the end of a lane gets columns from another core's cache.

use std::{
    hint::{black_box, spin_loop},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use rayon::{ThreadPoolBuilder, prelude::*};
use svdvals_gpu::{Element, QrGpu, StageSeconds, SvdValsGpu, Tuning};

use super::{median, on_cpu, random, take_turns};

/// Passes of stage 3, each a loop over the values: 8 to 12 of n = 512 to 2048.
const PASSES: f64 = 10.0;

/// Milliseconds of the stages on more threads, on paper, beside those measured on one, two and all.
pub fn print<T: Element>(sizes: &[usize]) {
    let halving = halving();
    println!("\n{}: milliseconds on more threads, on paper (measured: *)", T::NAME);
    println!(
        "{:>6} {:>14} {:>10} {:>10} {:>10} {:>10} {:>9}   without hand-overs",
        "n", "threads", "1 to_band", "2 to_bidi", "3 svdvals", "total", "speedup"
    );
    for &n in sizes {
        let a = random::<T>(n, n);
        let tuning = Tuning::for_cpu::<T>(n).direct_up_to(0);
        let measured = |threads: Option<usize>| {
            let options = threads.map_or(on_cpu(), |threads| on_cpu().threads(threads)).tuning(tuning.clone());
            let mut runs = Vec::new();
            let [_] = take_turns([&mut || runs.push(a.svdvals_gpu_report(&options).expect("a finite matrix").seconds)]);
            let of = |stage: fn(&StageSeconds) -> f64| median(runs.iter().map(stage).collect());
            [of(|s| s.to_band), of(|s| s.band_to_bidiag), of(|s| s.svdvals), of(|s| s.total)]
        };
        let [to_band, band_to_bidiag, svdvals, total] = measured(Some(1));
        // A panel is a QR factorisation with nothing right of it.
        let rows: Vec<usize> =
            (0..).map(|k| 64 << k).take_while(|&m| m < n.min(tuning.leaf)).chain([n.min(tuning.leaf)]).collect();
        let panels = rows.into_iter().map(|m| {
            let (panel, options) = (random::<T>(m, tuning.tile_size), on_cpu().threads(1).tuning(tuning.clone()));
            let [once] =
                take_turns([&mut || _ = black_box(panel.qr_r_gpu_with(&options.run.clone().into()).expect("a finite matrix"))]);
            (m, once.median)
        });
        let one = OnOne {
            alone: total - to_band - band_to_bidiag - svdvals,
            to_band,
            panels: panels.collect(),
            band_to_bidiag,
            svdvals,
        };
        let row = |threads: &str, [first, second, third, all]: [f64; 4], free: f64| {
            let [first, second, third, ms] = [first, second, third, all].map(|seconds| 1e3 * seconds);
            let speedup = total / all;
            println!(
                "{n:>6} {threads:>14} {first:>10.3} {second:>10.3} {third:>10.3} {ms:>10.3} {speedup:>9.2} {:>20.2}",
                total / free
            );
        };
        row("1*", [to_band, band_to_bidiag, svdvals, total], total);
        row("2*", measured(Some(2)), f64::NAN);
        if rayon::current_num_threads() > 2 {
            row(&format!("{}*", rayon::current_num_threads()), measured(None), f64::NAN);
        }
        let by = HandOver { halving, columns: columns(tuning.tile_size) };
        for (threads, ahead) in [2, 4, 8, 16, 64].into_iter().flat_map(|threads| [(threads, false), (threads, true)]) {
            let [.., free] = on_threads(n, &tuning, &one, threads, HandOver::default(), ahead);
            let name = format!("{threads}{}", if ahead { ", next first" } else { "" });
            row(&name, on_threads(n, &tuning, &one, threads, by, ahead), free);
        }
        println!("{n:>6}: half of a loop {:.2} microseconds, columns between lanes {:.2}", 1e6 * by.halving, 1e6 * by.columns);
    }
}

/// Seconds that passing work on takes.
#[derive(Clone, Copy, Default)]
struct HandOver {
    /// Half of a loop's tasks to another thread, and its end back.
    halving: f64,
    /// The columns of a cycle that another core has written.
    columns: f64,
}

/// What two cores that in turn read and write b x b numbers, those of a cycle beyond its own reflector, take more than one core alone.
fn columns(b: usize) -> f64 {
    const TURNS: usize = 2000;
    let numbers: Vec<AtomicUsize> = (0..b * b).map(|_| AtomicUsize::new(0)).collect();
    let turn = AtomicUsize::new(0);
    let touch = || numbers.iter().for_each(|x| x.store(x.load(Ordering::Relaxed) + 1, Ordering::Relaxed));
    let side = |own: usize| {
        (own..TURNS).step_by(2).map(|k| {
            let start = Instant::now();
            while turn.load(Ordering::Acquire) != k {
                spin_loop();
            }
            touch();
            turn.store(k + 1, Ordering::Release);
            // Of both sides.
            start.elapsed().as_secs_f64() / 2.0
        })
    };
    let in_turns = thread::scope(|scope| {
        scope.spawn(|| side(1).for_each(drop));
        median(side(0).collect())
    });
    let alone = (0..TURNS).map(|_| {
        let start = Instant::now();
        touch();
        start.elapsed().as_secs_f64()
    });
    (in_turns - median(alone.collect())).max(0.0)
}

/// What a loop over two tasks takes more than one of them, while the other worker looks for work.
fn halving() -> f64 {
    const TASK: Duration = Duration::from_micros(10);
    let ended = AtomicBool::new(false);
    let loops = || {
        let here = rayon::current_thread_index();
        let seconds = (0..1000).map(|_| {
            let start = Instant::now();
            (0..2).into_par_iter().for_each(|_| {
                let start = Instant::now();
                while start.elapsed() < TASK {
                    spin_loop();
                }
            });
            (start.elapsed().as_secs_f64() - TASK.as_secs_f64()).max(0.0)
        });
        rayon::scope(|scope| {
            scope.spawn_broadcast(|_, context| {
                while Some(context.index()) != here && !ended.load(Ordering::Relaxed) {
                    if rayon::yield_now() != Some(rayon::Yield::Executed) {
                        (0..64).for_each(|_| spin_loop());
                    }
                }
            });
            let found = median(seconds.collect());
            ended.store(true, Ordering::Relaxed);
            found
        })
    };
    let pool = ThreadPoolBuilder::new().num_threads(2).build().expect("two threads");
    pool.install(loops)
}

/// Seconds on one thread, of an n x n matrix.
struct OnOne {
    /// What is not shared among threads: nothing is known to be.
    alone: f64,
    /// Stage 1, all of it.
    to_band: f64,
    /// A panel of n rows, for each of a few n, ascending.
    panels: Vec<(usize, f64)>,
    band_to_bidiag: f64,
    svdvals: f64,
}

/// The seconds of stages 1, 2 and 3, and of all, on `threads`.
fn on_threads(n: usize, tuning: &Tuning, one: &OnOne, threads: usize, by: HandOver, ahead: bool) -> [f64; 4] {
    let third = one.svdvals / at_once(n.div_ceil(16), threads) + PASSES * by.of_loop(threads);
    let stages = [stage_one(n, tuning, one, threads, by, ahead), stage_two(n, tuning, one, threads, by), third];
    [stages[0], stages[1], stages[2], one.alone + stages.iter().sum::<f64>()]
}

impl HandOver {
    /// A loop with work for all threads.
    fn of_loop(self, threads: usize) -> f64 {
        self.halving * f64::from(threads.next_power_of_two().ilog2())
    }
}

/// How many times sooner `tasks` equal tasks are done by `threads` than by one.
fn at_once(tasks: usize, threads: usize) -> f64 {
    tasks as f64 / tasks.div_ceil(threads) as f64
}

/// Seconds of a panel of `rows`, interpolated.
fn panel(one: &OnOne, rows: usize) -> f64 {
    let above = one.panels.iter().position(|&(m, _)| m >= rows).unwrap_or(one.panels.len() - 1);
    let (m, seconds) = one.panels[above];
    let (less, fewer) = if above == 0 { (0, 0.0) } else { one.panels[above - 1] };
    fewer + (seconds - fewer) * (rows as f64 - less as f64) / (m - less) as f64
}

/// Each sweep: the leaves of its panel, their updates, and so on up the tree, where a level's panel is factored beside the update before it. With the next
/// panel first (`ahead`), the second half of a sweep's last update is made beside that panel's leaves: they are rows, or columns, of all that is updated, which
/// are known when all products with V^H are.
fn stage_one(n: usize, tuning: &Tuning, one: &OnOne, threads: usize, by: HandOver, ahead: bool) -> f64 {
    let b = tuning.tile_size;
    // A sweep: rows of its panel, and columns right of it.
    let sweeps: Vec<(usize, usize)> = (0..n)
        .step_by(b)
        .flat_map(|k| [(n - k, n.saturating_sub(k + b)), (n.saturating_sub(k + b), n - k)])
        .filter(|sweep| sweep.0 > 0)
        .collect();
    // Blocks and rows of a block on each level.
    let levels = |rows: usize| {
        let mut levels = Vec::new();
        let (mut blocks, mut height) = (rows.div_ceil(tuning.leaf), rows.min(tuning.leaf));
        loop {
            levels.push((blocks, height));
            if blocks == 1 {
                return levels;
            }
            height = blocks.min(tuning.arity()) * b;
            blocks = blocks.div_ceil(tuning.arity());
        }
    };
    let flops = |(blocks, height): (usize, usize), cols: usize| (blocks * height * cols) as f64;
    let (mut panels, mut work) = (0.0, 0.0);
    for &(rows, cols) in &sweeps {
        for (blocks, height) in levels(rows) {
            panels += blocks as f64 * panel(one, height);
            work += flops((blocks, height), cols);
        }
    }
    let rate = work / (one.to_band - panels).max(0.1 * one.to_band);
    let update = |level: (usize, usize), cols: usize, threads: usize| {
        let least = cols.div_ceil(tuning.cols_per_block).max(1);
        let tasks = least.max(2 * threads).next_multiple_of(threads).min(cols / 16).max(least);
        flops(level, cols) / rate / at_once(tasks, threads)
    };
    // What is left of the update of the sweep before, in seconds of one thread.
    let (mut seconds, mut left) = (0.0, 0.0);
    for &(rows, cols) in &sweeps {
        let levels = levels(rows);
        let factoring = |level: usize, threads: usize| {
            let (blocks, height) = levels[level];
            blocks.div_ceil(threads) as f64 * panel(one, height)
        };
        let leaves = factoring(0, threads);
        let others = threads.saturating_sub(levels[0].0);
        let beside = if others > 0 { left / others as f64 } else { f64::INFINITY };
        seconds += if beside < leaves { leaves } else { (left + leaves * levels[0].0.min(threads) as f64) / threads as f64 };
        left = 0.0;
        for level in 0..levels.len() {
            seconds += match levels.get(level + 1) {
                Some(_) if threads > 1 => update(levels[level], cols, threads - 1)
                    .min(update(levels[level], cols, threads) + factoring(level + 1, 1))
                    .max(factoring(level + 1, 1)),
                Some(_) => update(levels[level], cols, 1) + factoring(level + 1, 1),
                None if ahead => {
                    left = flops(levels[level], cols) / rate / 2.0;
                    update(levels[level], cols, threads) / 2.0
                }
                None => update(levels[level], cols, threads),
            };
            seconds += if cols > 16 { by.of_loop(threads) } else { 0.0 };
        }
    }
    seconds
}

/// The lanes of bulge chasing, one sweep a group: step s of a sweep after step s + 2 of the sweep before. Short sweeps have fewer lanes.
fn stage_two(n: usize, tuning: &Tuning, one: &OnOne, threads: usize, by: HandOver) -> f64 {
    let b = tuning.tile_size;
    let cycles: Vec<usize> = (0..n.saturating_sub(2)).map(|sweep| (n - 2 - sweep).div_ceil(b)).collect();
    let seconds = one.band_to_bidiag / cycles.iter().sum::<usize>().max(1) as f64;
    let most = threads.min(cycles.first().map_or(0, |cycles| cycles / 3)).max(1);
    let mut before: Vec<f64> = Vec::new();
    let mut lane_free = vec![0.0f64; most];
    for &steps in &cycles {
        let (mut ends, mut end) = (Vec::with_capacity(steps), 0.0f64);
        let lanes = (steps / 3).clamp(1, most);
        for (lane, free) in lane_free[most - lanes..].iter_mut().enumerate() {
            end = end.max(*free);
            let part = steps * lane / lanes..steps * (lane + 1) / lanes;
            for s in part.clone() {
                let awaited = before.get((s + 2).min(before.len().wrapping_sub(1))).copied().unwrap_or(0.0);
                // The first cycle of a lane has columns of the lane before, the last one of the lane after.
                let others = usize::from(lane > 0 && s == part.start) + usize::from(lane + 1 < lanes && s + 1 == part.end);
                end = end.max(awaited) + seconds + others as f64 * by.columns;
                ends.push(end);
            }
            *free = end;
        }
        before = ends;
    }
    before.last().copied().unwrap_or(0.0)
}
