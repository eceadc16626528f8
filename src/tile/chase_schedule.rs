//! The index arithmetic of stage 2: the entries that a bulge-chasing cycle touches, and the order of the cycles.

use std::ops::Range;

/// One reduction step of stage 2: removes `tile_width` of the `bandwidth` superdiagonals of an upper band.
///
/// Sweep R is the chain of cycles i = 0, 1, ... Cycle i applies two reflectors over the index range `c0..=c1`: from the right, it zeroes
/// `row` beyond column `c0`; from the left, it zeroes column `c0` below row `c0`. Sweep R may run cycle i once sweep R-1 has finished
/// cycle i + 2. At time t the active cycles are i = t - 3R, and they touch disjoint data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReductionStep {
    /// Order of the band.
    pub n: usize,
    /// Superdiagonals before the step (BW).
    pub bandwidth: usize,
    /// Superdiagonals that the step removes (TW), in 1..bandwidth.
    pub tile_width: usize,
}

/// One bulge-chasing cycle, in matrix indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// The right reflector is computed from `A[row, c0..=c1]`.
    pub row: usize,
    /// First index of both reflectors.
    pub c0: usize,
    /// Last index of both reflectors.
    pub c1: usize,
    /// Last column that the left reflector is applied to.
    pub last: usize,
}

/// Lag between consecutive sweeps, in cycles: a sweep may run cycle i once the previous one has finished cycle i + 2.
pub const SWEEP_SEPARATION: usize = 3;

impl ReductionStep {
    /// The steps from an upper band to bidiagonal form. Each removes `tile_width` superdiagonals, the last one the rest.
    pub fn all(n: usize, bandwidth: usize, tile_width: usize) -> impl Iterator<Item = ReductionStep> {
        let mut bandwidth = bandwidth;
        std::iter::from_fn(move || {
            (bandwidth > 1).then(|| {
                let step = ReductionStep { n, bandwidth, tile_width: tile_width.min(bandwidth - 1) };
                bandwidth -= step.tile_width;
                step
            })
        })
    }

    /// Superdiagonals after the step.
    pub fn target(&self) -> usize {
        self.bandwidth - self.tile_width
    }

    /// Number of sweeps with at least one cycle.
    pub fn sweeps(&self) -> usize {
        self.n.saturating_sub(1 + self.target())
    }

    /// Number of cycles of `sweep`.
    pub fn cycles(&self, sweep: usize) -> usize {
        self.sweeps().saturating_sub(sweep).div_ceil(self.bandwidth)
    }

    /// Total number of cycles of all sweeps.
    pub fn all_cycles(&self) -> u64 {
        // The sum of ceil(k / BW) over k = 1 ..= sweeps.
        let (sweeps, bandwidth) = (self.sweeps() as u64, self.bandwidth as u64);
        let (whole, rest) = (sweeps / bandwidth, sweeps % bandwidth);
        bandwidth * (whole * (whole + 1) / 2) + rest * (whole + 1)
    }

    /// Cycle `i` of `sweep`; `i < self.cycles(sweep)`.
    pub fn cycle(&self, sweep: usize, i: usize) -> Cycle {
        let c0 = sweep + self.target() + i * self.bandwidth;
        let c1 = (c0 + self.tile_width).min(self.n - 1);
        let row = if i == 0 { sweep } else { c0 - self.bandwidth };
        Cycle { row, c0, c1, last: (c1 + self.bandwidth).min(self.n - 1) }
    }

    /// The schedule of the step's cycles, with `cycles` (at least 1) consecutive cycles of each sweep in a time step.
    pub fn schedule(self, cycles: usize) -> Schedule {
        Schedule { step: self, cycles }
    }
}

/// The cycles of a reduction step, grouped into time steps. In a time step the sweeps are independent; the cycles of one sweep run in
/// order.
///
/// Sweep R runs its cycle i at clock (`cycles` + 2) R + i, and a time step is `cycles` ticks of the clock. Hence sweep R - 1 has finished
/// cycle i + 2 in an earlier time step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    step: ReductionStep,
    cycles: usize,
}

impl Schedule {
    /// Ticks between the starts of consecutive sweeps.
    pub fn separation(&self) -> usize {
        self.cycles + SWEEP_SEPARATION - 1
    }

    /// Number of time steps.
    pub fn times(&self) -> usize {
        // The last sweep ends last; it has one cycle.
        self.step.sweeps().checked_sub(1).map_or(0, |last| (self.separation() * last + 1).div_ceil(self.cycles))
    }

    /// The sweeps with a cycle in time step `time`.
    pub fn active(&self, time: usize) -> Range<usize> {
        let (clock, separation, sweeps) = (self.cycles * time, self.separation(), self.step.sweeps());
        // The end of sweep R, separation R + cycles(R), increases with R. Hence the unfinished sweeps form a suffix; bisection finds the
        // first.
        let (mut low, mut high) = (0, sweeps);
        while low < high {
            let middle = (low + high) / 2;
            if separation * middle + self.step.cycles(middle) > clock { high = middle } else { low = middle + 1 }
        }
        low..(clock + self.cycles).div_ceil(separation).min(sweeps).max(low)
    }

    /// The cycles that an active sweep runs in time step `time`.
    pub fn cycles(&self, sweep: usize, time: usize) -> Range<usize> {
        let (clock, start) = (self.cycles * time, self.separation() * sweep);
        clock.max(start) - start..(clock + self.cycles - start).min(self.step.cycles(sweep))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sweep R may run cycle i when sweep R - 1 runs cycle i + 3: at least one column lies between the columns that the two touch. Vector
    /// registers also load and store entries beside a column, fewer than its padding. The gap keeps these entries disjoint between cycles.
    #[test]
    fn cycles_at_one_time_are_columns_apart() {
        for (n, bandwidth, tile_width) in [(50, 8, 3), (41, 8, 7), (300, 48, 47), (30, 2, 1), (40, 3, 1)] {
            let step = ReductionStep { n, bandwidth, tile_width };
            for (sweep, i) in (1..step.sweeps()).flat_map(|sweep| (0..step.cycles(sweep)).map(move |i| (sweep, i))) {
                for ahead in i + SWEEP_SEPARATION..step.cycles(sweep - 1) {
                    assert!(
                        step.cycle(sweep, i).last + 1 < step.cycle(sweep - 1, ahead).c0,
                        "{step:?}: sweep {sweep}, {i}, {ahead}"
                    );
                }
            }
        }
    }

    /// The closed forms for cycles, time steps and active sweeps agree with a direct evaluation of the definition.
    #[test]
    fn cycles_follow_their_definition() {
        for (n, bandwidth, tile_width) in
            [(50, 8, 3), (41, 8, 7), (9, 8, 4), (3, 8, 7), (2, 4, 3), (1, 4, 3), (64, 63, 62), (30, 2, 1)]
        {
            let step = ReductionStep { n, bandwidth, tile_width };
            let mut sweeps = Vec::new();
            for sweep in 0..n {
                let (mut row, mut c0, mut c1) = (sweep, sweep + bandwidth - tile_width, (sweep + bandwidth).min(n - 1));
                let mut chain = Vec::new();
                while c0 < c1 {
                    chain.push((row, c0, c1));
                    (row, c0, c1) = (c0, c0 + bandwidth, (c1 + bandwidth).min(n - 1));
                }
                let closed: Vec<_> = (0..step.cycles(sweep)).map(|i| step.cycle(sweep, i)).map(|c| (c.row, c.c0, c.c1)).collect();
                assert_eq!(closed, chain);
                sweeps.push(chain.len());
            }
            assert_eq!(step.all_cycles(), sweeps.iter().sum::<usize>() as u64);
            for cycles in [1, 2, 3, 7] {
                let schedule = step.schedule(cycles);
                let start = |sweep: usize| (cycles + 2) * sweep;
                let ticks = (0..n).filter(|&s| sweeps[s] > 0).map(|s| start(s) + sweeps[s]).max().unwrap_or(0);
                assert_eq!(schedule.times(), ticks.div_ceil(cycles));
                for time in 0..schedule.times() + 2 {
                    let step = cycles * time..cycles * (time + 1);
                    let of_sweep = |s: usize| (0..sweeps[s]).filter(|i| step.contains(&(start(s) + i))).collect::<Vec<_>>();
                    let want: Vec<usize> = (0..n).filter(|&s| !of_sweep(s).is_empty()).collect();
                    assert_eq!(schedule.active(time).collect::<Vec<_>>(), want);
                    for s in want {
                        let of_sweep = of_sweep(s);
                        assert_eq!(schedule.cycles(s, time).collect::<Vec<_>>(), of_sweep);
                        // Sweep s - 1 has finished two more cycles, or all of its cycles, in earlier time steps.
                        let needed = (of_sweep[of_sweep.len() - 1] + 3).min(if s > 0 { sweeps[s - 1] } else { 0 });
                        assert!(s == 0 || start(s - 1) + needed <= cycles * time, "{step:?}, sweep {s}");
                    }
                }
            }
        }
    }
}
