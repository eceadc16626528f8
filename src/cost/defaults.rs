//! The default hyperparameters of a GPU, from its limits.

use crate::{
    base::element_kind::ElementKind,
    cost::{
        chase::ChaseShape,
        device::DeviceModel,
        shape::{Bounds, Shape, TriangleShape},
    },
    tile::{
        band_layout::BandLayout,
        flops::of_pair,
        panel_tree::PanelTree,
        tuning::{CpuTuning, GpuTuning, Tuning},
    },
};

/// Most numbers of 4 bytes of a line of stage 2 of which a thread holds two in registers.
const MOST_OF_TWO_LINES: usize = 32;

/// Whether it is an A100, or one before, whose multiprocessors have half as many lanes as an H100's.
fn is_half_as_wide(bounds: &Bounds<'_>) -> bool {
    DeviceModel::of_name(bounds.name, false).name == DeviceModel::A100.name
}

/// Whether it is one of NVIDIA's GPUs, or has high-bandwidth memory.
fn is_known(bounds: &Bounds<'_>) -> bool {
    let is_word = |word: &str| ["NVIDIA", "GeForce", "RTX", "GTX", "Quadro", "Tesla"].contains(&word);
    bounds.fast_memory || bounds.name.split_whitespace().any(is_word)
}

/// Seconds of the plan of divide and conquer, by n²: it took 51 to 60 ms on two cores of a Zen 4 at n = 4096, 187 to 210 at 8192.
const PLAN_SECONDS: f64 = 3e-9;

/// The part of a device's peak that products of large matrices reach.
const PRODUCTS_REACH: f64 = 0.6;

impl Tuning {
    /// Defaults for a GPU with these limits: see [`for_adapter`](Self::for_adapter).
    pub(crate) fn within(kind: ElementKind, bounds: &Bounds<'_>, n: usize) -> Tuning {
        Tuning::apart_within(kind, bounds, n, true).together(kind, bounds, n).forming(kind, bounds, n)
    }

    /// Those of a QR factorisation, also within least squares, of n columns. Narrow tiles are for stage 2, which it does not have: by the model tiles of 32
    /// take 0.75 to 0.92 of the time of 16 for n = 256 to 2048 on an H100 (test `factors_have_wide_tiles`).
    pub(crate) fn of_factors(kind: ElementKind, bounds: &Bounds<'_>, n: usize) -> Tuning {
        let narrow = bounds.software || is_half_as_wide(bounds) && (n <= 1024 || kind.bytes() > 4);
        Tuning::apart_within(kind, bounds, n, narrow).together(kind, bounds, n)
    }

    /// With kernels that share dispatches and threads.
    fn together(self, kind: ElementKind, bounds: &Bounds<'_>, n: usize) -> Tuning {
        let together =
            self.with_strips(kind, bounds, n).beside(kind, bounds).with_products(kind, bounds).with_teams(kind, bounds);
        together.deferring(kind, bounds, n)
    }

    /// [`within`](Self::within), each kernel in dispatches of its own; narrow tiles for small matrices if they `may` be.
    fn apart_within(kind: ElementKind, bounds: &Bounds<'_>, n: usize, may: bool) -> Tuning {
        let &Bounds { threads, workgroups, software, fast_memory, .. } = bounds;
        let with = |tile_size: usize, blocks: usize, cols_per_block: usize| {
            let gpu = GpuTuning {
                split_k: (threads / tile_size).clamp(1, 8),
                // A cycle has about 2 tile_size rows, then columns, with four threads each, so that neighbouring entries of a column are in as
                // many threads. A software driver gains nothing from more. One sweep, and one cycle, between dispatches is best: on an H100 the
                // gap between dispatches takes 2 us, a cycle 4.
                threads_per_block: if software { 32 } else { 256 }.min(threads),
                sweeps_per_block: 1,
                lines_per_thread: 0,
                subgroup_threads: bounds.subgroup,
                cycles_per_dispatch: 1,
                max_blocks: workgroups,
                tiles_held: 0,
                split_beside: 0,
                rows_per_block: 0,
                strips_per_thread: 1,
                deferred_columns: 0,
                deferred_from: 0,
                deferred_beside: 0,
                formed_beside: 0,
            };
            Tuning {
                tile_size,
                leaf: blocks * tile_size,
                tree: PanelTree::Reduction,
                cols_per_block,
                // One step from bandwidth 32 to bidiagonal form: stage 2 is bound by dispatches, and each step has about 3 n of them.
                tile_width: 32,
                triangle: tile_size.min(32),
                cpu: CpuTuning { direct_up_to: 0 },
                gpu,
            }
        };
        // The optimum of the cost model (test `defaults_are_the_models`). Narrow tiles shorten the dependency chains of small matrices' panels. Leaves of 16 tiles
        // halve the memory traffic of the levels of long panels. With 4-byte numbers they make panels of up to 512 rows a single block: no
        // tree, and half the dispatches of stage 1.
        let bytes = kind.scalar_bytes();
        let narrow = match (software, fast_memory) {
            (true, _) => n <= 1024 && bytes == 8,
            (_, true) => n <= if kind.is_complex() || is_half_as_wide(bounds) { 4096 } else { 2048 },
            _ => n <= if kind.is_complex() { 1024 } else { 512 },
        };
        let narrow = (may && narrow && bytes <= 8).then_some((16, 8, 64));
        // (Stored as f16, long panels move half as much.)
        let long = match (fast_memory, kind.is_half()) {
            (false, _) => 4096,
            (true, false) => 10_000,
            (true, true) => usize::MAX,
        };
        let deep = if bytes == 4 { n <= 512 || n >= long } else { n >= 8192 };
        let any = [(32, 8, 64), (32, 4, 64), (32, 4, 32), (16, 8, 64), (16, 4, 32), (8, 4, 32), (4, 4, 16)];
        // Complex<f64> fits no large block of a wide tile.
        let any = any.into_iter().filter(|&(tile_size, ..)| bytes < 16 || software || tile_size <= 16);
        let deeper = |(tile_size, blocks, cols)| (deep && blocks == 8).then_some((tile_size, 16, cols));
        let chosen = narrow
            .into_iter()
            .chain(any.flat_map(|sizes| deeper(sizes).into_iter().chain([sizes])))
            // A matrix of at most 16 needs no larger tile.
            .map(|(tile_size, blocks, cols)| with(if n <= 16 { tile_size.min(16) } else { tile_size }, blocks, cols))
            .find(|tuning| Shape::new(kind, bounds, tuning).is_ok())
            .unwrap_or_else(|| with(4, 2, 4));
        // Triangular operations have no panels, so they do not profit from narrow tiles.
        let triangle = chosen.clone().triangle(32);
        let widened = n > 16 && narrow.is_some() && TriangleShape::new(kind.scalar(), bounds, &triangle).is_ok();
        if widened { triangle } else { chosen }
    }

    /// With `geqrt` beside `unmqr` where a device's workgroups have room for both. A software driver's dispatches cost little.
    fn beside(self, kind: ElementKind, bounds: &Bounds<'_>) -> Tuning {
        let with = |split| self.clone().split_beside(split);
        let mut fitting = [4, 2].into_iter().map(with).filter(|_| !bounds.software);
        fitting.find(|tuning| Shape::new(kind, bounds, tuning).is_ok()).unwrap_or(self.clone())
    }

    /// With deferred updates where memory bounds the others: from orders on that depend on its bandwidth. A software driver's memory is the host's, and
    /// browsers keep what has run there.
    fn deferring(self, kind: ElementKind, bounds: &Bounds<'_>, n: usize) -> Tuning {
        let (least, columns, beside) = match (bounds.fast_memory, kind.scalar_bytes()) {
            (true, ..=4) => (6000, 64, 1),
            (true, 5..=8) => (5000, 128, 1),
            (true, _) => (5000, 256, 0),
            (false, _) => (4096, 256, 0),
        };
        if n < least || kind.is_half() || bounds.software || cfg!(target_family = "wasm") {
            return self;
        }
        // By the model, a few percent around the optimum.
        let deferring = self.clone().deferred_columns(columns).deferred_from(3072).deferred_beside(beside);
        if Shape::new(kind, bounds, &deferring).is_ok() { deferring } else { self }
    }

    /// With the reflectors multiplied beside the host's plan, where the product with the right vectors that this takes is at most a quarter of a plan of two
    /// cores, for a host that has more of them. Other devices are too many kinds to know their rate.
    fn forming(self, kind: ElementKind, bounds: &Bounds<'_>, n: usize) -> Tuning {
        let device = DeviceModel::of_name(bounds.name, false);
        let peak = if kind.is_double() { device.f64_flops } else { device.f32_flops };
        let order = n as f64;
        let product = 2.0 * of_pair(kind) as f64 * order.powi(3) / (PRODUCTS_REACH * peak);
        let forms = n >= 512 && product <= PLAN_SECONDS * order * order / 4.0;
        if !forms || !is_known(bounds) || kind.is_half() || bounds.software || cfg!(target_family = "wasm") {
            return self;
        }
        self.formed_beside(1)
    }

    /// With two strips a thread in products of numbers of four bytes, on NVIDIA's GPUs and those with high-bandwidth memory, and up to 128 columns, of
    /// which a workgroup then has 64 threads with tiles of 32. A small matrix has too few of them. Other devices' registers may be too few, and browsers
    /// do not tell whose GPU it is.
    fn with_strips(self, kind: ElementKind, bounds: &Bounds<'_>, n: usize) -> Tuning {
        let known = is_known(bounds);
        let few = n <= if bounds.fast_memory { 2048 } else { 512 };
        if kind.scalar_bytes() > 4 || few || !known || bounds.software || cfg!(target_family = "wasm") {
            return self;
        }
        let with = |cols| self.clone().strips_per_thread(2).cols_per_block(cols);
        let mut fitting = [128, 64, self.cols_per_block].map(with).into_iter();
        fitting.find(|tuning| Shape::new(kind, bounds, tuning).is_ok()).unwrap_or(self.clone())
    }

    /// With as many rows of C in a workgroup of the products as a device's workgroups have room for, up to 64, or 128 of threads with two strips where memory
    /// is slow: each row more saves reading X.
    fn with_products(self, kind: ElementKind, bounds: &Bounds<'_>) -> Tuning {
        let with = |rows| self.clone().rows_per_block(rows);
        let most = if self.gpu.strips_per_thread == 2 && !bounds.fast_memory { 128 } else { 64 };
        let mut fitting = [128, 64].into_iter().filter(|&rows| rows > self.tile_size && rows <= most).map(with);
        fitting.find(|tuning| Shape::new(kind, bounds, tuning).is_ok()).unwrap_or(self.clone())
    }

    /// With the blocks of stage 2 in registers, if they fit, and four sweeps in a workgroup where each is a subgroup, else those of 128 threads, or as many as
    /// its memory has room for. A software driver keeps no registers, and would compile unrolled text for long.
    fn with_teams(self, kind: ElementKind, bounds: &Bounds<'_>) -> Tuning {
        // Numbers of 4 bytes of a line. A thread holds two for each of its lines, of 255 registers.
        let of_line = self.tile_size.min(self.tile_width) * kind.scalar_bytes() / 4;
        let most = if of_line <= MOST_OF_TWO_LINES { 2 } else { 1 };
        // A sweep is a subgroup if it can be.
        let is_subgroup = |&lines: &usize| !kind.is_double() && 2 * self.tile_size == lines * bounds.subgroup;
        let of_subgroup = (1..=most).find(is_subgroup);
        let lines = of_subgroup.unwrap_or(most);
        // Browsers have `chase`: there `chase_team` has not run.
        if bounds.software || cfg!(target_family = "wasm") || of_line > 2 * MOST_OF_TWO_LINES {
            return self;
        }
        // A wider band has a step before, of one sweep and one cycle between dispatches.
        if self.tile_size > self.tile_width {
            return self.lines_per_thread(lines);
        }
        let layout = BandLayout::new(self.tile_size, self.tile_size, self.tile_width);
        // A warp more would wait for the others.
        let half = is_half_as_wide(bounds);
        let cycles = if half && self.tile_size > 16 { 2 } else { 4 };
        let most = match of_subgroup {
            Some(_) => cycles,
            None => ((if half { 64 } else { 128 }) * lines / (2 * self.tile_size.max(1))).clamp(1, 4),
        };
        let with = |team| self.clone().lines_per_thread(lines).sweeps_per_block(team).cycles_per_dispatch(cycles);
        let mut fitting = (1..=most).rev().map(with);
        fitting.find(|tuning| ChaseShape::new(kind, bounds, layout, tuning).is_ok()).unwrap_or(self.clone())
    }
}
