//! The stages on more threads than there are, on paper: the tasks of each stage, with the seconds that they take on one thread here, given to
//! P threads in the order of the crate's own schedule. Memory and caches are as fast as for one thread, and a hand-over takes no time, so that
//! this is what the dependences and the lengths of the tasks allow at most.

use std::hint::black_box;

use svdvals_gpu::{Element, QrGpu, StageSeconds, SvdValsGpu, Tuning};

use super::{median, on_cpu, random, take_turns};

/// Milliseconds of the stages on more threads, on paper, beside those measured on one and on all.
pub fn print<T: Element>(sizes: &[usize]) {
    println!("\n{}: milliseconds on more threads, on paper (measured: *)", T::NAME);
    println!(
        "{:>6} {:>8} {:>10} {:>10} {:>10} {:>10} {:>9}",
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
            let [once] = take_turns([&mut || _ = black_box(panel.qr_r_gpu_with(&options).expect("a finite matrix"))]);
            (m, once.median)
        });
        let one = OnOne {
            alone: total - to_band - band_to_bidiag - svdvals,
            to_band,
            panels: panels.collect(),
            band_to_bidiag,
            svdvals,
        };
        let row = |threads: &str, [first, second, third, all]: [f64; 4]| {
            let [first, second, third, ms] = [first, second, third, all].map(|seconds| 1e3 * seconds);
            println!("{n:>6} {threads:>8} {first:>10.3} {second:>10.3} {third:>10.3} {ms:>10.3} {:>9.2}", total / all);
        };
        row("1*", [to_band, band_to_bidiag, svdvals, total]);
        row(&format!("{}*", rayon::current_num_threads()), measured(None));
        for threads in [2, 4, 8, 16, 64] {
            row(&threads.to_string(), on_threads(n, &tuning, &one, threads));
        }
    }
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
fn on_threads(n: usize, tuning: &Tuning, one: &OnOne, threads: usize) -> [f64; 4] {
    let stages =
        [stage_one(n, tuning, one, threads), stage_two(n, tuning, one, threads), one.svdvals / at_once(n.div_ceil(16), threads)];
    [stages[0], stages[1], stages[2], one.alone + stages.iter().sum::<f64>()]
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

/// Each sweep: the leaves of its panel, their updates, and so on up the tree, where a level's panel is factored beside the update before it.
fn stage_one(n: usize, tuning: &Tuning, one: &OnOne, threads: usize) -> f64 {
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
    let mut seconds = 0.0;
    for &(rows, cols) in &sweeps {
        let levels = levels(rows);
        let factoring = |level: usize, threads: usize| {
            let (blocks, height) = levels[level];
            blocks.div_ceil(threads) as f64 * panel(one, height)
        };
        seconds += factoring(0, threads);
        for level in 0..levels.len() {
            seconds += match levels.get(level + 1) {
                Some(_) if threads > 1 => update(levels[level], cols, threads - 1)
                    .min(update(levels[level], cols, threads) + factoring(level + 1, 1))
                    .max(factoring(level + 1, 1)),
                Some(_) => update(levels[level], cols, 1) + factoring(level + 1, 1),
                None => update(levels[level], cols, threads),
            };
        }
    }
    seconds
}

/// The lanes of bulge chasing, one sweep a group: step s of a sweep after step s + 2 of the sweep before.
fn stage_two(n: usize, tuning: &Tuning, one: &OnOne, threads: usize) -> f64 {
    let b = tuning.tile_size;
    let cycles: Vec<usize> = (0..n.saturating_sub(2)).map(|sweep| (n - 2 - sweep).div_ceil(b)).collect();
    let seconds = one.band_to_bidiag / cycles.iter().sum::<usize>().max(1) as f64;
    let lanes = threads.min(cycles.first().map_or(0, |cycles| cycles / 3)).max(1);
    let mut before: Vec<f64> = Vec::new();
    let mut lane_free = vec![0.0f64; lanes];
    for &steps in &cycles {
        let (mut ends, mut end) = (Vec::with_capacity(steps), 0.0f64);
        for (lane, free) in lane_free.iter_mut().enumerate() {
            end = end.max(*free);
            for s in steps * lane / lanes..steps * (lane + 1) / lanes {
                let awaited = before.get((s + 2).min(before.len().wrapping_sub(1))).copied().unwrap_or(0.0);
                end = end.max(awaited) + seconds;
                ends.push(end);
            }
            *free = end;
        }
        before = ends;
    }
    before.last().copied().unwrap_or(0.0)
}
