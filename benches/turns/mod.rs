//! Programs that are compared take turns, so that what else the machine does meets all of them; a figure is the median of its turns.
#![allow(dead_code)] // every benchmark uses a part

use std::time::{Duration, Instant};

use faer::Mat;
use num_complex::Complex;
use svdvals_gpu::Element;

pub use crate::shared::median;

/// Time for the turns of one table row; `FEWEST` of them are taken all the same, unless the first took longer than `LONG`.
const BUDGET: Duration = Duration::from_secs(5);
const LONG: Duration = Duration::from_secs(20);
const FEWEST: usize = 3;
const MOST: usize = 51;

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

/// Runs the programs one after the other, again and again, and times each. The first round decides how many follow; it counts only
/// where there are few.
pub fn take_turns<const P: usize>(mut programs: [&mut dyn FnMut(); P]) -> [Timing; P] {
    let mut seconds: [Vec<f64>; P] = std::array::from_fn(|_| Vec::new());
    let mut round = |seconds: &mut [Vec<f64>; P]| {
        for (program, seconds) in programs.iter_mut().zip(seconds) {
            let start = Instant::now();
            program();
            seconds.push(start.elapsed().as_secs_f64());
        }
    };
    round(&mut seconds);
    let first: f64 = seconds.iter().flatten().sum();
    let fewest = if first > LONG.as_secs_f64() { 1 } else { FEWEST };
    let turns = ((BUDGET.as_secs_f64() / first) as usize).clamp(fewest, MOST);
    if turns > FEWEST {
        seconds.iter_mut().for_each(Vec::clear);
    }
    while seconds[0].len() < turns {
        round(&mut seconds);
    }
    seconds.map(|seconds| Timing { turns: seconds.len(), median: median(seconds) })
}
