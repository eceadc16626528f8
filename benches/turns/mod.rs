//! Programs that are compared take turns, so that what else the machine does meets all of them; a figure is the median of its turns.
//!
//! What is timed begins when the threads of the program before are asleep: those of OpenBLAS wait busily for more work, 2^28 cycles by
//! default (a tenth of a second), which would count against whoever comes next. A short program is repeated meanwhile, so that its own
//! threads and the processor's cores are awake; before a long one everything rests.
#![allow(dead_code)] // every benchmark uses a part

use std::{
    thread,
    time::{Duration, Instant},
};

use faer::Mat;
use num_complex::Complex;
use svdvals_gpu::Element;

pub use crate::shared::median;

/// Time for the turns of one table row; `FEWEST` of them are taken all the same, unless the first took longer than `LONG`.
const BUDGET: Duration = Duration::from_secs(8);
const LONG: Duration = Duration::from_secs(20);
const FEWEST: usize = 3;
const MOST: usize = 51;
/// The time after a turn in which nothing is timed.
const BETWEEN: Duration = Duration::from_millis(150);
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

/// Seconds of a program.
pub struct Timing {
    pub median: f64,
    pub turns: usize,
}

/// Runs the programs one after the other, again and again, and times each. The first round decides how many follow; it counts only where
/// there are few.
pub fn take_turns<const P: usize>(mut programs: [&mut dyn FnMut(); P]) -> [Timing; P] {
    let mut seconds: [Vec<f64>; P] = std::array::from_fn(|_| Vec::new());
    let mut round = |seconds: &mut [Vec<f64>; P]| {
        for (program, seconds) in programs.iter_mut().zip(seconds) {
            if seconds.last().is_none_or(|last| *last < SHORT.as_secs_f64()) {
                repeat(program, BETWEEN);
            } else {
                thread::sleep(BETWEEN);
            }
            seconds.push(repeat(program, TURN));
        }
    };
    let start = Instant::now();
    round(&mut seconds);
    let first = start.elapsed();
    let fewest = if first > LONG { 1 } else { FEWEST };
    let turns = (BUDGET.div_duration_f64(first) as usize).clamp(fewest, MOST);
    if turns > FEWEST {
        seconds.iter_mut().for_each(Vec::clear);
    }
    while seconds[0].len() < turns {
        round(&mut seconds);
    }
    seconds.map(|seconds| Timing { turns: seconds.len(), median: median(seconds) })
}

/// Runs `program` again and again until `time` is over, and returns the seconds of one run.
fn repeat(program: &mut dyn FnMut(), time: Duration) -> f64 {
    let start = Instant::now();
    let mut runs = 0;
    while start.elapsed() < time {
        program();
        runs += 1;
    }
    start.elapsed().as_secs_f64() / f64::from(runs)
}
