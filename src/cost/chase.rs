//! `chase` and `chase_team`: their sizes, from the hyperparameters and a device's limits, and the work of a dispatch.

use crate::{
    base::{
        element_kind::ElementKind,
        error::{Result, SvdError},
    },
    cost::{
        chain::{Chain, READ, fmas},
        kernel::Kernel,
        shape::Bounds,
        work::{Again, Beside, COMPENSATED, EXACT_PRODUCTS, INVERSE, TAU, Work, scalar_bytes},
    },
    tile::{
        band_layout::BandLayout,
        chase_schedule::{ReductionStep, SWEEP_SEPARATION, Schedule},
        tuning::Tuning,
    },
};

/// The sizes for which `chase` is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChaseShape {
    /// Sweeps that step together.
    pub team: usize,
    /// Maximum entries of a reflector, rounded up.
    pub tail: usize,
    /// Lines of a sweep processed concurrently.
    pub lines: usize,
    /// Threads that share a line.
    pub parts: usize,
}

/// Number of partial sums over a reflector's entries (`chase.wgsl`).
const GROUPS: usize = 8;
/// Most entries of a reflector with which the block that both sides of a cycle change stays in workgroup memory: at most 26 KiB.
const MOST_HANDED: usize = 40;

impl ChaseShape {
    /// The sizes for a band, without checks against a device: all lines of a cycle concurrently if there are enough threads, and with more
    /// threads up to eight per line.
    pub fn of(layout: BandLayout, tuning: &Tuning) -> ChaseShape {
        // A cycle applies reflectors of kl + 1 entries to at most ku lines.
        let tail = (layout.kl + 1).next_multiple_of(8);
        let team = tuning.gpu.sweeps_per_block;
        let threads = (tuning.gpu.threads_per_block / team).max(1);
        let parts = (threads / layout.ku.max(1).next_power_of_two()).clamp(1, 8);
        let parts = 1 << parts.ilog2();
        ChaseShape { team, tail, lines: threads / parts, parts }
    }

    /// Whether the block that both sides of a cycle change stays in workgroup memory in between.
    pub fn is_handed(&self) -> bool {
        self.tail <= MOST_HANDED
    }

    /// Threads of a cycle.
    pub fn of_cycle(&self) -> usize {
        self.lines * self.parts
    }

    pub fn threads(&self) -> usize {
        self.team * self.of_cycle()
    }

    /// Upper bound of the loop iterations of a thread in one cycle.
    pub fn iterations(&self, step: &ReductionStep) -> usize {
        let threads = self.of_cycle();
        let groups = GROUPS.div_ceil(threads) * (2 * self.tail.div_ceil(GROUPS) + 1) + GROUPS;
        let lines = (step.bandwidth + step.tile_width).div_ceil(self.lines) * (self.parts + 1);
        3 * self.tail.div_ceil(threads) + 2 * (groups + lines) + 2
    }

    /// Bytes of workgroup memory that the shader declares.
    pub fn bytes(&self, kind: ElementKind) -> usize {
        let shares = if self.parts > 1 { self.threads() } else { 1 };
        let block = if self.is_handed() { self.team * self.tail * (self.tail + 1) } else { 1 };
        let scalars = self.team * (2 * self.tail + 4) + block + 2 * shares;
        scalars * kind.scalar_bytes() + self.team * (3 * GROUPS + 2) * kind.real_bytes()
    }

    /// The sizes for a band stored as `T`, or an error for a hyperparameter that exceeds a limit of the device.
    pub fn new(kind: ElementKind, bounds: &Bounds<'_>, layout: BandLayout, tuning: &Tuning) -> Result<ChaseShape> {
        let shape = ChaseShape::of(layout, tuning);
        let available = bounds.bytes;
        let least = ChaseShape { team: 1, lines: 1, parts: 1, ..shape };
        for (option, value, needed) in [
            ("tile_width", layout.kl, least.bytes(kind)),
            ("sweeps_per_block", shape.team, ChaseShape { team: shape.team, ..least }.bytes(kind)),
            ("threads_per_block", tuning.gpu.threads_per_block, shape.bytes(kind)),
        ] {
            if needed > available {
                let reason = format!("{value} needs {needed} bytes of workgroup memory, but the device has {available}");
                return Err(SvdError::invalid(option, reason));
            }
        }
        for step in ReductionStep::all(layout.n, layout.ku - layout.kl, layout.kl) {
            TeamShape::of(layout, &step, tuning).map_or(Ok(()), |team| team.check(kind, bounds))?;
        }
        Ok(shape)
    }

    /// The constants of the shader of `chase`.
    pub fn constants(&self) -> [(&'static str, u32); 8] {
        [
            ("TEAM", self.team as u32),
            ("HANDED", self.is_handed().into()),
            ("TAIL", self.tail as u32),
            ("LINES", self.lines as u32),
            ("PARTS", self.parts as u32),
            ("EACH", (self.tail / self.parts) as u32),
            ("CYCLE_THREADS", self.of_cycle() as u32),
            ("CHASE_THREADS", self.threads() as u32),
        ]
    }
}

/// The sizes for which `chase_team` is compiled, for one reduction step of a band.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TeamShape {
    /// Sweeps that step together.
    pub team: usize,
    /// Superdiagonals, and entries of a reflector.
    pub width: usize,
    /// Lines of a thread, 1 or 2.
    pub sets: usize,
    /// Whether the threads of a sweep are a subgroup.
    subgroup: bool,
    /// Leading dimension of the band, and superdiagonals stored.
    ld: usize,
    ku: usize,
}

/// Most entries of a reflector of `chase_team`: integers of 32 bits hold their sum of squares.
const MOST_WIDTH: usize = 32;

/// Dependent operations of the reflector of `chase_team` in f32, with tau, and with a division and a square root, where fma rounds once.
const WHOLE_REFLECTOR: u64 = 87;

impl TeamShape {
    /// The sizes for a reduction step of a band, without checks against a device; None if `chase` runs the step.
    pub fn of(layout: BandLayout, step: &ReductionStep, tuning: &Tuning) -> Option<TeamShape> {
        let (team, sets, width) = (tuning.gpu.sweeps_per_block, tuning.gpu.lines_per_thread.min(2), step.bandwidth);
        let narrow = width.is_multiple_of(4) && (4..=MOST_WIDTH).contains(&width);
        if sets == 0 || !narrow || step.target() != 1 {
            return None;
        }
        let subgroup = tuning.gpu.subgroup_threads == 2 * width / sets;
        Some(TeamShape { team, width, sets, subgroup, ld: layout.ld(), ku: layout.ku })
    }

    /// The lag of consecutive sweeps of a team: `chase_team` hands over what two of them share.
    pub fn lag(of_team: Option<&TeamShape>) -> usize {
        if of_team.is_some() { 2 } else { SWEEP_SEPARATION }
    }

    /// Whether the threads of a sweep share the work on a reflector. (In f64 there is little of it.)
    pub fn shares(&self, kind: ElementKind) -> bool {
        self.subgroup && !kind.is_double()
    }

    /// Threads of a sweep.
    fn lanes(&self) -> usize {
        2 * self.width / self.sets
    }

    pub fn threads(&self) -> usize {
        self.team.saturating_mul(self.lanes())
    }

    /// Bytes of workgroup memory that the shader declares.
    pub fn bytes(&self, kind: ElementKind) -> usize {
        let row = self.width + if kind.scalar_bytes() == 4 { 4 } else { 1 };
        let of_sweep = 2 * self.width * row + 3 * self.width + if self.shares(kind) { 0 } else { 2 };
        self.team.saturating_mul(of_sweep * kind.scalar_bytes())
    }

    /// An error for a hyperparameter that exceeds a limit of the device.
    pub fn check(&self, kind: ElementKind, bounds: &Bounds<'_>) -> Result<()> {
        for (needed, most, what) in
            [(self.threads(), bounds.threads, "threads"), (self.bytes(kind), bounds.bytes, "bytes of workgroup memory")]
        {
            if needed > most {
                let reason = format!(
                    "{} of {} sweeps need {needed} {what} for {}, but {} has {most}",
                    self.sets,
                    self.team,
                    kind.name(),
                    bounds.name
                );
                return Err(SvdError::invalid("lines_per_thread", reason));
            }
        }
        Ok(())
    }

    /// Upper bound of the loop iterations of a thread in one cycle.
    pub const ITERATIONS: usize = 1;

    /// The constants of the shader of `chase_team`.
    pub fn constants(&self) -> [(&'static str, u32); 9] {
        [
            ("TEAM", self.team as u32),
            ("B", self.width as u32),
            ("VECTORS", self.width as u32 / 4),
            ("SETS", self.sets as u32),
            ("SECOND", ((self.sets - 1) * self.width) as u32),
            ("LANES", self.lanes() as u32),
            ("TEAM_THREADS", self.threads() as u32),
            ("BAND_LD", self.ld as u32),
            ("BAND_KU", self.ku as u32),
        ]
    }
}

/// The layout of a band on a device. `chase_team` reads the 2 B columns after the last one, and writes zeros to them.
pub(crate) fn layout_on_device(n: usize, bandwidth: usize, tile_width: usize, tuning: &Tuning) -> BandLayout {
    let layout = BandLayout::new(n, bandwidth, tile_width);
    let steps = ReductionStep::all(n, layout.ku - layout.kl, layout.kl);
    let widest = steps.filter_map(|step| TeamShape::of(layout, &step, tuning)).map(|shape| shape.width).max();
    layout.followed_by(2 * widest.unwrap_or_default())
}

impl Work {
    /// `chase` of time step `time`, in at most `most` workgroups.
    pub fn chase(kind: ElementKind, shape: &ChaseShape, schedule: &Schedule, time: usize, most: usize) -> Work {
        let (step, active) = (schedule.step(), schedule.active(time));
        let ticks = schedule.active_ticks(time) as u64;
        let scalar = scalar_bytes(kind);
        let [tail, parts, bandwidth, tile] = [shape.tail, shape.parts, step.bandwidth, step.tile_width].map(|x| x as u64);
        let (lines, all) = (bandwidth + tile, schedule.active_cycles(time) as u64);
        let (threads, workgroups) = (shape.threads() as u64, active.len().min(most) as u64);
        let (passes, each) = (lines.div_ceil(shape.lines as u64), tail / parts);
        // Entries that a cycle reads, and as many that it writes: of the lines of both sides, except what stays in workgroup memory, and x.
        let entries = (2 * lines + 1 - tile) * (tile + 1);
        // One side: eight groups' sums of squares; their sum, the reflector and tau, by one thread; w.
        let steps = COMPENSATED * tail / 8 + 3 * 8 + INVERSE + EXACT_PRODUCTS + TAU + 2 * READ + parts + COMPENSATED + 6;
        // The cycles of issue of an entry of a line: its load, twice a read and a multiply-add, its store; 55 on an H100, and 150 for the rest.
        let issued = passes * (each * (53 + 2 * fmas(kind)) + 2 * parts + 150);
        // Accesses that touch many sectors of memory at a time, because a column's neighbouring entries are in few threads.
        let scattered = 2 * lines * tail / (parts * parts);
        let one_after_the_other = active.len().div_ceil(most.max(1)) as u64 * ticks;
        let sides_in_memory = if shape.is_handed() { 1 } else { 2 };
        Work {
            kernel: Kernel::Chase,
            workgroups,
            threads,
            workgroup_memory: shape.bytes(kind) as u64,
            flops: step.flops(kind, all),
            again: Again::default(),
            beside: Beside::default(),
            two_strips: false,
            footprint: (step.n as u64).saturating_mul(2 * (lines + 1) * kind.bytes() as u64),
            bytes: all * 2 * entries * kind.bytes() as u64,
            // Each line reads t twice, and the block is written and read.
            workgroup_bytes: all * (4 * (lines + 1) * (tile + 1) + 2 * tile * tile) * scalar,
            chain: Chain {
                barriers: one_after_the_other * 6,
                // None after the last tick.
                storage_barriers: (one_after_the_other * sides_in_memory).saturating_sub(1),
                round_trips: one_after_the_other * (passes + sides_in_memory),
                steps: one_after_the_other * 2 * steps,
                issued: one_after_the_other * 2 * issued,
                alone: one_after_the_other * shape.team as u64 * scattered,
            },
        }
    }

    /// `chase_team` of time step `time`, in at most `most` workgroups.
    pub fn chase_team(kind: ElementKind, shape: &TeamShape, schedule: &Schedule, time: usize, most: usize) -> Work {
        let (step, active) = (schedule.step(), schedule.active(time));
        let ticks = schedule.active_ticks(time) as u64;
        let scalar = scalar_bytes(kind);
        let [width, sets] = [shape.width, shape.sets].map(|x| x as u64);
        let (all, workgroups) = (schedule.active_cycles(time) as u64, active.len().min(most) as u64);
        let dispatches_of_one = active.len().div_ceil(most.max(1)) as u64;
        let (block, ticks) = (width * width, dispatches_of_one * ticks);
        // By the count of a compiler for sm_90: of a line's entry, and of either side, the part of the sum of squares, which is plain in f64, and is
        // shared in a subgroup; the dot product and update; its loads and stores with their addresses, and two passes through workgroup memory,
        // on two of which four entries are one access.
        let squares = match (kind.is_double(), shape.shares(kind)) {
            (true, _) => fmas(kind).min(2),
            (false, true) => 0,
            (false, false) => 13 * fmas(kind).min(2),
        };
        let moves = if scalar == 4 { 13 } else { 17 };
        let issued = width * (2 * squares + 4 * sets * fmas(kind) + moves * sets) + 150;
        // One side: the largest entry, 10, its scale, 5, the halves and their sums, 19, h, 16, its halves, 17, tau, 20; w. Three reductions over a
        // subgroup are taken to be as long as the sums that they replace.
        let steps = if kind.is_double() { INVERSE } else { WHOLE_REFLECTOR } + 2 * READ + COMPENSATED + 6;
        Work {
            kernel: Kernel::Chase,
            workgroups,
            threads: shape.threads() as u64,
            workgroup_memory: shape.bytes(kind) as u64,
            flops: step.flops(kind, all),
            again: Again::default(),
            beside: Beside::default(),
            two_strips: false,
            footprint: (step.n as u64).saturating_mul(4 * width * kind.bytes() as u64),
            // L is read, and D by the first sweep of a team; U and D are written; and a sweep's first U in a dispatch and its last L.
            bytes: (3 * all + all / shape.team as u64 + 2 * active.len() as u64 * shape.team as u64)
                * block
                * kind.bytes() as u64,
            workgroup_bytes: all * (8 * block + 4 * width * width / sets) * scalar,
            chain: Chain {
                // One of them makes stores visible. They were made before the left side, and are taken to be done, which is not measured.
                barriers: ticks * 4,
                storage_barriers: 0,
                // The first blocks; later ones are loaded while a side is applied.
                round_trips: dispatches_of_one,
                steps: ticks * 2 * steps,
                issued: ticks * issued,
                alone: 0,
            },
        }
    }
}
