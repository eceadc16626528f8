//! Programs that are compared take turns, so that what else the machine does meets all of them; a figure is the median of its turns.
//!
//! What is timed begins when the threads of the program before are asleep: those of OpenBLAS wait busily for more work, 2^28 cycles by
//! default (a tenth of a second), those of Intel's OpenMP 0.2 s, which would count against whoever comes next. A short program is repeated meanwhile, so that its own
//! threads and the processor's cores are awake; before a long one everything rests.
#![allow(dead_code)] // every benchmark uses a part

pub mod arguments;
pub mod lapack;
pub mod paper;
pub mod rest;

use std::{
    thread,
    time::{Duration, Instant},
};

use faer::Mat;
use num_complex::Complex;
use svdvals_gpu::{Backend, Element, SvdOptions};

pub use crate::shared::median;

/// Time for the turns of one table row; `FEWEST` of them are taken all the same, unless one run of each program takes longer than `LONG`.
const BUDGET: Duration = Duration::from_secs(8);
const LONG: Duration = Duration::from_secs(20);
const FEWEST: usize = 3;
const MOST: usize = 51;
/// The time after a turn in which nothing is timed.
const BETWEEN: Duration = Duration::from_millis(250);
/// A program that takes longer is not run in that time.
const SHORT: Duration = Duration::from_millis(500);
/// One that takes less is repeated while it is timed.
const TURN: Duration = Duration::from_millis(5);

/// Entries uniform in -1/2 .. 1/2, from a xorshift generator: the same on every machine.
pub fn random<T: Element>(m: usize, n: usize) -> Mat<T> {
    let mut state = 88_172_645_463_325_252u64;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64 - 0.5
    };
    Mat::from_fn(m, n, |_, _| T::from_complex(Complex::new(uniform(), uniform())))
}

/// The options of the CPU backend.
pub fn on_cpu() -> SvdOptions {
    SvdOptions::default().backend(Backend::Cpu)
}

/// Seconds of a program.
pub struct Timing {
    pub median: f64,
    pub least: f64,
    pub turns: usize,
}

/// Runs the programs one after the other, again and again, and times each. A first round, of one run each, decides how many follow; it is
/// the only one where it takes very long.
pub fn take_turns<const P: usize>(mut programs: [&mut dyn FnMut(); P]) -> [Timing; P] {
    let mut seconds: [Vec<f64>; P] = std::array::from_fn(|p| vec![repeat(programs[p], 1)]);
    let once = std::array::from_fn::<_, P, _>(|p| Duration::from_secs_f64(seconds[p][0]));
    let between = |took: Duration| if took < SHORT { took.max(BETWEEN) } else { BETWEEN };
    let round: Duration = once.iter().map(|&took| between(took) + took.max(TURN)).sum();
    let fewest = if once.iter().sum::<Duration>() > LONG { 0 } else { FEWEST };
    let turns = (BUDGET.div_duration_f64(round) as usize).clamp(fewest, MOST);
    if turns > 0 {
        seconds.iter_mut().for_each(Vec::clear);
    }
    for _ in 0..turns {
        for ((program, seconds), &took) in programs.iter_mut().zip(&mut seconds).zip(&once) {
            let runs = if took < SHORT {
                (TURN.as_secs_f64() / repeat_for(program, BETWEEN)).ceil() as u32
            } else {
                thread::sleep(BETWEEN);
                1
            };
            seconds.push(repeat(program, runs));
        }
    }
    seconds.map(|seconds| {
        let least = seconds.iter().copied().fold(f64::INFINITY, f64::min);
        Timing { turns: seconds.len(), least, median: median(seconds) }
    })
}

/// Quartiles of the seconds of a program's calls.
pub struct Quartiles {
    pub first: f64,
    pub median: f64,
    pub third: f64,
}

/// Runs the programs one after the other, each once after `BETWEEN` of rest, as a program calls that does something else in between. The first
/// round is not counted.
pub fn take_turns_at_rest<const P: usize>(mut programs: [&mut dyn FnMut(); P]) -> [Quartiles; P] {
    let mut seconds: [Vec<f64>; P] = std::array::from_fn(|_| Vec::new());
    let once: f64 = programs.iter_mut().map(|program| repeat(program, 1)).sum();
    let turns = (2.0 * BUDGET.as_secs_f64() / (once + P as f64 * BETWEEN.as_secs_f64())) as usize;
    for _ in 0..turns.clamp(FEWEST, MOST) {
        for (program, seconds) in programs.iter_mut().zip(&mut seconds) {
            thread::sleep(BETWEEN);
            seconds.push(repeat(program, 1));
        }
    }
    seconds.map(|mut seconds| {
        seconds.sort_by(f64::total_cmp);
        let [first, median, third] = [1, 2, 3].map(|quarter| seconds[(seconds.len() - 1) * quarter / 4]);
        Quartiles { first, median, third }
    })
}

/// Runs `program` until `time` is over, and returns the seconds of one run.
fn repeat_for(program: &mut dyn FnMut(), time: Duration) -> f64 {
    let (start, mut runs) = (Instant::now(), 0);
    while start.elapsed() < time {
        program();
        runs += 1;
    }
    start.elapsed().as_secs_f64() / f64::from(runs)
}

/// Runs `program` so many times, and returns the seconds of one run.
fn repeat(program: &mut dyn FnMut(), runs: u32) -> f64 {
    let start = Instant::now();
    (0..runs).for_each(|_| program());
    start.elapsed().as_secs_f64() / f64::from(runs)
}
