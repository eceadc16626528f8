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

    /// The schedule of the step's cycles, with `cycles` ticks (at least 1) in a time step and teams of `team` sweeps (at least 1), each of which begins
    /// `lag` ticks after the one before.
    pub fn schedule(self, cycles: usize, team: usize, lag: usize) -> Schedule {
        Schedule { step: self, cycles, team, lag }
    }
}

/// The cycles of a reduction step, grouped into time steps of `cycles` ticks of a clock. `team` consecutive sweeps are a team, which
/// steps together: in a time step the teams are independent, and the cycles of one team run tick by tick.
///
/// Sweep R of team t runs its cycle i at clock (`cycles` + `lag` (`team` - 1) + 2) t + `lag` (R - `team` t) + i. If sweep R - 1 is of another team, it
/// has finished cycle i + 2 in an earlier time step. If it is of the same team, it has done so one tick before with a lag of
/// [`SWEEP_SEPARATION`]. With a lag of 2 it runs cycle i + 2 in the same tick, and what the two share is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    step: ReductionStep,
    cycles: usize,
    team: usize,
    lag: usize,
}

impl Schedule {
    /// Ticks between the starts of consecutive teams.
    pub fn separation(&self) -> usize {
        self.cycles + self.lag * (self.team - 1) + SWEEP_SEPARATION - 1
    }

    /// The tick of the first cycle of `sweep`, and the one after its last.
    fn ticks(&self, sweep: usize) -> Range<usize> {
        let start = self.separation() * (sweep / self.team) + self.lag * (sweep % self.team);
        start..start + self.step.cycles(sweep)
    }

    /// The reduction step.
    pub fn step(&self) -> &ReductionStep {
        &self.step
    }

    /// Number of cycles of all sweeps in time step `time`.
    pub fn active_cycles(&self, time: usize) -> usize {
        let active = self.active(time);
        let mut sweeps = active.start * self.team..(active.end * self.team).min(self.step.sweeps());
        // Sweeps start and end in order. So all have a cycle at every tick, except the first ones and the last ones.
        let of = |sweep: usize| self.cycles(sweep, time).len();
        let mut sum = 0;
        while !sweeps.is_empty() && of(sweeps.start) < self.cycles {
            sum += of(sweeps.start);
            sweeps.start += 1;
        }
        while !sweeps.is_empty() && of(sweeps.end - 1) < self.cycles {
            sum += of(sweeps.end - 1);
            sweeps.end -= 1;
        }
        sum + self.cycles * sweeps.len()
    }

    /// Ticks of time step `time` until the last sweep has ended.
    pub fn active_ticks(&self, time: usize) -> usize {
        let end = self.step.sweeps().checked_sub(1).map_or(0, |last| self.ticks(last).end);
        end.saturating_sub(self.cycles * time).min(self.cycles)
    }

    /// Number of time steps.
    pub fn times(&self) -> usize {
        // The last sweep ends last.
        self.step.sweeps().checked_sub(1).map_or(0, |last| self.ticks(last).end.div_ceil(self.cycles))
    }

    /// The teams that have started by the end of time step `time` and not ended before it.
    pub fn active(&self, time: usize) -> Range<usize> {
        let (clock, sweeps) = (self.cycles * time, self.step.sweeps());
        let teams = sweeps.div_ceil(self.team);
        // The last sweep of a team ends last, and a team before the next one. Hence the unfinished teams form a suffix; bisection finds the
        // first.
        let (mut low, mut high) = (0, teams);
        while low < high {
            let middle = (low + high) / 2;
            let last = (self.team * (middle + 1)).min(sweeps) - 1;
            if self.ticks(last).end > clock { high = middle } else { low = middle + 1 }
        }
        low..(clock + self.cycles).div_ceil(self.separation()).min(teams).max(low)
    }

    /// The cycles that `sweep` runs in time step `time`.
    pub fn cycles(&self, sweep: usize, time: usize) -> Range<usize> {
        let (clock, ticks) = (self.cycles * time, self.ticks(sweep));
        let within = |tick: usize| tick.clamp(ticks.start, ticks.end) - ticks.start;
        within(clock)..within(clock + self.cycles)
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
            let all = [1, 2, 3, 7].into_iter().flat_map(|cycles| [1, 2, 3, 4].map(|team| (cycles, team)));
            for (cycles, team, lag) in all.flat_map(|(cycles, team)| [2, 3].map(|lag| (cycles, team, lag))) {
                let schedule = step.schedule(cycles, team, lag);
                let start = |sweep: usize| (cycles + lag * (team - 1) + 2) * (sweep / team) + lag * (sweep % team);
                let ticks = (0..n).filter(|&s| sweeps[s] > 0).map(|s| start(s) + sweeps[s]).max().unwrap_or(0);
                assert_eq!(schedule.times(), ticks.div_ceil(cycles));
                for time in 0..schedule.times() + 2 {
                    let step = cycles * time..cycles * (time + 1);
                    let of_sweep = |s: usize| (0..sweeps[s]).filter(|i| step.contains(&(start(s) + i))).collect::<Vec<_>>();
                    let want: Vec<usize> = (0..n).filter(|&s| !of_sweep(s).is_empty()).collect();
                    let active = schedule.active(time);
                    assert!(want.iter().all(|s| active.contains(&(s / team))), "{step:?}, time {time}");
                    assert!(team > 1 || active.len() == want.len());
                    assert_eq!(schedule.active_cycles(time), want.iter().map(|&s| of_sweep(s).len()).sum::<usize>());
                    for s in want {
                        let of_sweep = of_sweep(s);
                        assert_eq!(schedule.cycles(s, time).collect::<Vec<_>>(), of_sweep);
                        // Sweep s - 1 has finished two more cycles, or all of its cycles: in earlier time steps, or if it is of the same team, one
                        // less than the lag in earlier ticks.
                        for i in of_sweep.into_iter().filter(|_| s > 0) {
                            let (more, by) = if s % team > 0 { (lag, start(s) + i) } else { (3, cycles * time) };
                            let before = start(s - 1) + (i + more).min(sweeps[s - 1]);
                            assert!(before <= by, "{step:?}, sweep {s}, cycle {i}");
                        }
                    }
                }
            }
        }
    }
}
