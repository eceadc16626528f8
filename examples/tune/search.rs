//! The grid, and the search over it.

use std::{error::Error, time::Instant};

use faer::Mat;
use svdvals_gpu::{
    Backend, Element, GpuContext, HalfStorage, PartialTuning, StageSeconds, SvdError, SvdGpu, SvdOptions, SvdValsGpu, Tuning,
    TuningTable, cost::sweeps_at_once,
};

use crate::{
    common::gaussian,
    is_of_combination,
    shared::{csv, machine, progress::Progress},
};

/// Where to search.
pub enum Place {
    Gpu(GpuContext),
    Cpu,
}

/// A hyperparameter.
pub struct Axis {
    pub name: &'static str,
    pub get: fn(&Tuning) -> usize,
    set: fn(Tuning, usize) -> Tuning,
    set_partial: fn(&mut PartialTuning, usize),
}

/// The hyperparameters that are searched for, by their names in tuning files, with the field of `Tuning`.
macro_rules! axes {
    ($($axis:ident $name:ident: $($field:ident).+),* $(,)?) => {$(
        const $axis: Axis = Axis {
            name: stringify!($name),
            get: |tuning| tuning.$($field).+,
            set: Tuning::$name,
            set_partial: |partial, value| partial.$name = Some(value),
        };
    )*};
}

axes! {
    TILE_SIZE tile_size: tile_size,
    LEAF leaf: leaf,
    SPLIT_K split_k: gpu.split_k,
    COLS_PER_BLOCK cols_per_block: cols_per_block,
    TILE_WIDTH tile_width: tile_width,
    THREADS threads_per_block: gpu.threads_per_block,
    SWEEPS sweeps_per_block: gpu.sweeps_per_block,
    LINES lines_per_thread: gpu.lines_per_thread,
    CYCLES cycles_per_dispatch: gpu.cycles_per_dispatch,
    MAX_BLOCKS max_blocks: gpu.max_blocks,
    HELD tiles_held: gpu.tiles_held,
    BESIDE split_beside: gpu.split_beside,
    STRIPS strips_per_thread: gpu.strips_per_thread,
    DEFERRED deferred_columns: gpu.deferred_columns,
    FROM deferred_from: gpu.deferred_from,
    UPDATES deferred_beside: gpu.deferred_beside,
}

impl Axis {
    /// The values that occur, ascending.
    pub fn values(&self, trials: &[Trial]) -> Vec<usize> {
        let mut values: Vec<usize> = trials.iter().map(|trial| (self.get)(&trial.tuning)).collect();
        values.sort_unstable();
        values.dedup();
        values
    }
}

impl Place {
    pub fn new(cpu: bool) -> Result<Place, SvdError> {
        Ok(if cpu { Place::Cpu } else { Place::Gpu(GpuContext::global()?) })
    }

    /// As tuning files call it.
    pub fn name(&self) -> &str {
        match self {
            Place::Gpu(context) => context.adapter_name(),
            Place::Cpu => TuningTable::CPU,
        }
    }

    pub fn machine(&self) -> String {
        match self {
            Place::Gpu(context) => machine::adapter(context),
            Place::Cpu => format!("CPU, {}", machine::cpu()),
        }
    }

    /// Orders to search at.
    pub fn sizes(&self) -> &'static [usize] {
        match self {
            Place::Gpu(context) if context.is_software() => &[128],
            Place::Gpu(_) => &[512, 2048, 8192],
            Place::Cpu => &[512, 2048],
        }
    }

    /// The hyperparameters of stage 1 and of stage 2. The tile size belongs to both.
    pub fn axes(&self, stage: usize) -> &'static [Axis] {
        match (self, stage) {
            (Place::Gpu(_), 0) => &[TILE_SIZE, LEAF, SPLIT_K, COLS_PER_BLOCK, HELD, BESIDE, STRIPS, DEFERRED, FROM, UPDATES],
            (Place::Gpu(_), _) => &[TILE_SIZE, MAX_BLOCKS, TILE_WIDTH, THREADS, LINES, SWEEPS, CYCLES],
            (Place::Cpu, 0) => &[TILE_SIZE, LEAF, COLS_PER_BLOCK],
            (Place::Cpu, _) => &[TILE_SIZE, TILE_WIDTH],
        }
    }

    fn options<T: Element>(&self) -> SvdOptions {
        let options = SvdOptions::default().half_storage(HalfStorage::Half.for_element::<T>());
        match self {
            Place::Gpu(context) => options.backend(Backend::Gpu).context(context.clone()),
            Place::Cpu => options.backend(Backend::Cpu),
        }
    }

    /// Defaults that go by way of a band.
    pub fn defaults<T: Element>(&self, n: usize) -> Tuning {
        match self {
            Place::Gpu(context) => Tuning::for_adapter::<T>(context, n),
            Place::Cpu => Tuning::for_cpu::<T>(n),
        }
        .direct_up_to(0)
    }

    pub fn check<T: Element>(&self, tuning: &Tuning) -> bool {
        match self {
            Place::Gpu(context) => tuning.check_for_adapter::<T>(context).is_ok(),
            Place::Cpu => tuning.check().is_ok(),
        }
    }

    /// The hyperparameters that are searched for here, each once.
    pub fn searched(&self) -> impl Iterator<Item = &'static Axis> {
        self.axes(0).iter().chain(&self.axes(1)[1..])
    }

    /// What was searched for, and nothing else: an entry is for smaller matrices too, of which those that need no band on the CPU go on
    /// without; and the triangular operations have their own.
    pub fn partial(&self, best: &Tuning) -> PartialTuning {
        let mut partial = PartialTuning::default();
        self.searched().for_each(|axis| (axis.set_partial)(&mut partial, (axis.get)(best)));
        partial
    }

    /// The values of the grid. Those of `leaf` may depend on the tile size.
    fn grid(&self, axis: &Axis, n: usize, tile_size: usize, quick: bool) -> Vec<usize> {
        let cpu = matches!(self, Place::Cpu);
        let values: &[usize] = match (axis.name, cpu, quick) {
            ("tile_size", _, true) => &[16, 32],
            ("tile_size", false, false) => &[8, 16, 32, 64, 128],
            ("tile_size", true, false) => &[8, 16, 24, 32, 48, 64],
            // In tiles on a GPU, in rows on the CPU.
            ("leaf", false, true) => &[4, 8],
            ("leaf", false, false) => &[2, 4, 8, 16, 32],
            ("leaf", true, true) => &[512, 1024],
            ("leaf", true, false) => &[128, 256, 512, 1024, 1536, 2048, 4096],
            ("split_k", _, true) => &[4, 8],
            ("split_k", _, false) => &[1, 2, 4, 8, 16, 32],
            ("cols_per_block", false, true) => &[32, 64],
            ("cols_per_block", false, false) => &[16, 32, 64, 128, 256],
            ("cols_per_block", true, true) => &[128, 256],
            ("cols_per_block", true, false) => &[64, 128, 256, 512],
            ("tile_width", _, true) => &[8, 16],
            ("tile_width", _, false) => &[4, 8, 16, 32, 64],
            ("threads_per_block", _, true) => &[32, 64],
            ("threads_per_block", _, false) => &[16, 32, 64, 128, 256],
            ("sweeps_per_block", _, true) => &[1, 2],
            ("sweeps_per_block", _, false) => &[1, 2, 3, 4],
            ("lines_per_thread", ..) => &[0, 1, 2],
            ("cycles_per_dispatch", _, true) => &[1, 4],
            ("cycles_per_dispatch", _, false) => &[1, 2, 4, 8],
            ("tiles_held", ..) => &[0, 2],
            ("split_beside", ..) => &[0, 4],
            ("strips_per_thread", ..) => &[1, 2],
            ("deferred_columns", _, false) if n > 2048 => &[0, 64, 256],
            ("deferred_columns", ..) => &[0],
            ("deferred_from", ..) => &[3072],
            ("deferred_beside", ..) => &[0, 1],
            ("max_blocks", ..) => &[8, 32, 128, 512, 2048],
            _ => &[],
        };
        let mut values = values.to_vec();
        match axis.name {
            "tile_size" => values.retain(|&b| b < n),
            "leaf" => {
                values.iter_mut().for_each(|rows| *rows *= if cpu { 1 } else { tile_size });
                // A leaf that holds the whole panel is enough of one.
                let whole = values.iter().position(|&rows| rows >= n).unwrap_or(values.len());
                values.truncate(whole + 1);
            }
            // In parts, or the whole band at once.
            "tile_width" => {
                values.retain(|&width| width < tile_size);
                values.push(tile_size);
            }
            // A cap on more sweeps than the narrowest step has is none; nor is the last value.
            "max_blocks" => {
                let widths = self.grid(&TILE_WIDTH, n, tile_size, quick);
                let most = widths.into_iter().map(|bandwidth| sweeps_at_once(n, bandwidth)).max().unwrap_or(0);
                values.retain(|&blocks| blocks < most);
                values.push(self.defaults::<f32>(n).gpu.max_blocks);
            }
            _ => {}
        }
        values
    }
}

/// Hyperparameters, and the seconds of the stage that they were tried for.
#[derive(Clone)]
pub struct Trial {
    pub tuning: Tuning,
    pub seconds: f64,
}

/// What a search gave.
pub struct Found {
    /// Trials of stage 1, and of stage 2.
    pub stages: [Vec<Trial>; 2],
    pub best: Tuning,
    /// Of the best, stage by stage.
    pub seconds: [f64; 2],
    pub tried: usize,
    pub refused: usize,
}

impl Found {
    /// All trials as CSV: a column for each hyperparameter, with a value where it is one of the stage's.
    pub fn csv(&self, place: &Place, element: &str, n: usize) -> String {
        let names = ["machine", "type", "n", "stage", "seconds"].into_iter().chain(place.searched().map(|axis| axis.name));
        let mut lines = vec![csv::line(names)];
        for (stage, trials) in self.stages.iter().enumerate() {
            let is_of_stage = |axis: &Axis| place.axes(stage).iter().any(|other| other.name == axis.name);
            for Trial { tuning, seconds } in trials {
                let first = [place.machine(), element.into(), n.to_string(), (stage + 1).to_string(), format!("{seconds:?}")];
                let value = |axis: &Axis| if is_of_stage(axis) { (axis.get)(tuning).to_string() } else { String::new() };
                lines.push(csv::line(first.into_iter().chain(place.searched().map(value))));
            }
        }
        lines.join("\n") + "\n"
    }
}

/// Seconds of stages 1 and 2.
pub struct Duel {
    pub defaults: f64,
    pub found: f64,
}

pub struct Search<'a, T> {
    place: &'a Place,
    pub n: usize,
    quick: bool,
    repeat: usize,
    a: Mat<T>,
    options: SvdOptions,
}

impl<'a, T: Element> Search<'a, T> {
    /// Refuses orders that have no stages 1 and 2.
    pub fn new(place: &'a Place, n: usize, quick: bool, repeat: usize) -> Result<Self, String> {
        if matches!(place, Place::Cpu) && n <= Tuning::for_cpu::<T>(n).cpu.direct_up_to && T::NAME != "f16" {
            return Err(format!(
                "n = {n}: on the CPU a matrix this small goes straight to bidiagonal form; there is nothing to tune"
            ));
        }
        Ok(Search { place, n, quick, repeat, a: gaussian(n, n, 1), options: place.options::<T>() })
    }

    pub fn place(&self) -> &Place {
        self.place
    }

    /// Every combination of each stage, for every tile size.
    pub fn run(&self) -> Result<Found, Box<dyn Error>> {
        let mut refused = 0;
        let tile_sizes = self.place.grid(&TILE_SIZE, self.n, 0, self.quick);
        let grids: Vec<[Vec<Trial>; 2]> = tile_sizes.into_iter().filter_map(|b| self.combinations(b, &mut refused)).collect();
        if grids.is_empty() {
            return Err(format!("no tile size is possible for {} at n = {}", T::NAME, self.n).into());
        }
        let tried = grids.iter().map(|[first, second]| first.len().max(second.len())).sum();
        let mut progress = Progress::over(tried);
        let mut best = [f64::INFINITY; 2];
        let mut last = None;
        let mut stages = [Vec::new(), Vec::new()];
        // The tile size's best of stage 1 and of stage 2 belong together.
        let mut together: Option<[Trial; 2]> = None;
        for mut grid in grids {
            for k in 0..grid[0].len().max(grid[1].len()) {
                let places = [k % grid[0].len(), k % grid[1].len()];
                let tuning = self.joined(&grid[0][places[0]].tuning, &grid[1][places[1]].tuning);
                match self.seconds(&tuning, &best) {
                    Ok(seconds) => {
                        for stage in 0..2 {
                            let trial = &mut grid[stage][places[stage]];
                            trial.seconds = trial.seconds.min(seconds[stage]);
                            best[stage] = best[stage].min(seconds[stage]);
                        }
                    }
                    Err(error) if is_of_combination(&error) => (refused, last) = (refused + 1, Some(error)),
                    Err(error) => return Err(error.into()),
                }
                progress.step(format_args!("best {:.6} s and {:.6} s", best[0], best[1]));
            }
            let fastest = |trials: &[Trial]| trials.iter().min_by(|x, y| x.seconds.total_cmp(&y.seconds)).cloned();
            let sum = |pair: &[Trial; 2]| pair[0].seconds + pair[1].seconds;
            if let (Some(first), Some(second)) = (fastest(&grid[0]), fastest(&grid[1])) {
                let pair = [first, second];
                if sum(&pair).is_finite() && together.as_ref().is_none_or(|other| sum(&pair) < sum(other)) {
                    together = Some(pair);
                }
            }
            for (all, trials) in stages.iter_mut().zip(grid) {
                all.extend(trials.into_iter().filter(|trial| trial.seconds.is_finite()));
            }
        }
        drop(progress);
        let Some([first, second]) = together else {
            return Err(last.map_or("nothing could be tried".into(), Box::from));
        };
        let best = self.joined(&first.tuning, &second.tuning);
        Ok(Found { stages, best, seconds: [first.seconds, second.seconds], tried, refused })
    }

    /// What is to be tried with this tile size, in stage 1 and in stage 2; None where the device allows none of it.
    fn combinations(&self, tile_size: usize, refused: &mut usize) -> Option<[Vec<Trial>; 2]> {
        let mut allowed = |base: Tuning, stage: usize| {
            let mut all = vec![base];
            for axis in &self.place.axes(stage)[1..] {
                let values = self.place.grid(axis, self.n, tile_size, self.quick);
                all = all.iter().flat_map(|t| values.iter().map(|&value| (axis.set)(t.clone(), value))).collect();
            }
            // Without deferred updates there are none beside panels.
            all.retain(|tuning| tuning.gpu.deferred_beside <= tuning.gpu.deferred_columns);
            let before = all.len();
            all.retain(|tuning| self.place.check::<T>(tuning));
            *refused += before - all.len();
            all
        };
        let base = self.place.defaults::<T>(self.n).tile_size(tile_size);
        let first = allowed(base, 0);
        let second = allowed(first.first()?.clone(), 1);
        let trials = |all: Vec<Tuning>| all.into_iter().map(|tuning| Trial { tuning, seconds: f64::INFINITY }).collect();
        (!second.is_empty()).then(|| [trials(first), trials(second)])
    }

    /// Stage 1's hyperparameters of one, stage 2's of the other.
    fn joined(&self, first: &Tuning, second: &Tuning) -> Tuning {
        self.place.axes(1).iter().fold(first.clone(), |tuning, axis| (axis.set)(tuning, (axis.get)(second)))
    }

    /// The fewest seconds of stages 1 and 2. The first run compiles shaders; where the second shows that neither stage comes near the
    /// best so far, there are no more.
    fn seconds(&self, tuning: &Tuning, best: &[f64; 2]) -> Result<[f64; 2], SvdError> {
        let mut least = [f64::INFINITY; 2];
        for run in 0..=self.repeat {
            let seconds = self.stage_seconds(tuning)?;
            least = [least[0].min(seconds.to_band), least[1].min(seconds.band_to_bidiag)];
            if run > 0 && least[0] > 2.0 * best[0] && least[1] > 2.0 * best[1] {
                break;
            }
        }
        Ok(least)
    }

    pub fn stage_seconds(&self, tuning: &Tuning) -> Result<StageSeconds, SvdError> {
        Ok(self.a.svdvals_gpu_report(&self.options.clone().tuning(tuning.clone()))?.seconds)
    }

    /// The crate's defaults and `found` in turns, the fastest run of each.
    pub fn duel(&self, found: &Tuning) -> Result<Duel, SvdError> {
        let default = match self.place {
            Place::Cpu => Tuning::for_cpu::<T>(self.n),
            Place::Gpu(context) => Tuning::for_adapter::<T>(context, self.n),
        };
        let mut least = [f64::INFINITY; 2];
        for _ in 0..=self.repeat.max(2) {
            for (tuning, least) in [&default, found].into_iter().zip(&mut least) {
                let seconds = self.stage_seconds(tuning)?;
                *least = least.min(seconds.to_band + seconds.band_to_bidiag);
            }
        }
        Ok(Duel { defaults: least[0], found: least[1] })
    }

    /// The fewest seconds of a call with vectors, from the host to the host, with these hyperparameters, in turns without and with the reflectors multiplied
    /// beside the host's plan. None where there is no such choice: on the CPU, and in half precision, which has no vectors.
    pub fn with_vectors(&self, tuning: &Tuning) -> Result<Option<[f64; 2]>, SvdError> {
        if matches!(self.place, Place::Cpu) || self.options.run.half_storage == HalfStorage::Half {
            return Ok(None);
        }
        let mut least = [f64::INFINITY; 2];
        for _ in 0..=self.repeat.max(2) {
            for (formed, least) in least.iter_mut().enumerate() {
                let options = self.options.clone().tuning(tuning.clone().formed_beside(formed));
                let start = Instant::now();
                self.a.svd_gpu_with(&options)?;
                *least = least.min(start.elapsed().as_secs_f64());
            }
        }
        Ok(Some(least))
    }

    /// The fewest seconds of the whole call from the matrix on the device on.
    pub fn resident(&self, tuning: &Tuning) -> Result<f64, SvdError> {
        let mut least = f64::INFINITY;
        for _ in 0..=self.repeat {
            let seconds = self.stage_seconds(tuning)?;
            least = least.min(seconds.total - seconds.scale - seconds.upload);
        }
        Ok(least)
    }
}
