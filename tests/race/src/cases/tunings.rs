//! Hyperparameters.

use svdvals_gpu::{PanelTree, Tuning};

use crate::config::Rng;

/// Hyperparameters; None: the device's defaults.
#[derive(Clone, Copy)]
pub struct Tune(Option<Knobs>);

#[derive(Clone, Copy)]
pub struct Knobs {
    tile: usize,
    leaf: usize,
    tree: PanelTree,
    split: usize,
    cols: usize,
    width: usize,
    threads: usize,
    sweeps: usize,
    cycles: usize,
    blocks: usize,
    triangle: usize,
    held: usize,
    beside: usize,
    rows: usize,
    lines: usize,
    strips: usize,
    deferred: usize,
}

impl Tune {
    pub fn apply(self, t: Tuning) -> Tuning {
        match self.0 {
            None => t,
            Some(k) => t
                .tile_size(k.tile)
                .leaf(k.leaf)
                .tree(k.tree)
                .split_k(k.split)
                .cols_per_block(k.cols)
                .tile_width(k.width)
                .threads_per_block(k.threads)
                .sweeps_per_block(k.sweeps)
                .cycles_per_dispatch(k.cycles)
                .max_blocks(k.blocks)
                .triangle(k.triangle)
                .tiles_held(k.held)
                .split_beside(k.beside)
                .rows_per_block(k.rows)
                .lines_per_thread(k.lines)
                .strips_per_thread(k.strips)
                .deferred_columns(k.deferred)
                .deferred_beside((k.beside > 0).into())
                .formed_beside((k.beside > 0).into()),
        }
    }
}

impl std::fmt::Display for Tune {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Some(k) = &self.0 else { return f.write_str("defaults") };
        write!(
            f,
            "tile {} leaf {} {} split {} cols {} width {} threads {} sweeps {} cycles {} blocks {} triangle {} held {} beside {} rows {} lines {} strips {} deferred {}",
            k.tile,
            k.leaf,
            k.tree,
            k.split,
            k.cols,
            k.width,
            k.threads,
            k.sweeps,
            k.cycles,
            k.blocks,
            k.triangle,
            k.held,
            k.beside,
            k.rows,
            k.lines,
            k.strips,
            k.deferred
        )
    }
}

pub fn tunings() -> Vec<Tune> {
    use PanelTree::{Flat, Reduction};
    let knobs = |tile, leaf, tree, split, cols, width, threads, sweeps, cycles, blocks, triangle, held, beside, rows| {
        let (lines, strips, deferred) = (0, 1, 0);
        Tune(Some(Knobs {
            tile,
            leaf,
            tree,
            split,
            cols,
            width,
            threads,
            sweeps,
            cycles,
            blocks,
            triangle,
            held,
            beside,
            rows,
            lines,
            strips,
            deferred,
        }))
    };
    // Pieces of two strips.
    let two = |Tune(knobs)| Tune(knobs.map(|knobs| Knobs { strips: 2, ..knobs }));
    // Stage 2 in registers.
    let with = |Tune(knobs), lines| Tune(knobs.map(|knobs| Knobs { lines, ..knobs }));
    // Updates deferred.
    let deferring = |Tune(knobs), deferred| Tune(knobs.map(|knobs| Knobs { deferred, ..knobs }));
    vec![
        Tune(None),
        knobs(16, 64, Reduction, 8, 32, 32, 64, 2, 1, 1000, 16, 1, 4, 32),
        knobs(8, 32, Reduction, 4, 16, 3, 32, 1, 2, 2, 8, 0, 4, 0),
        knobs(12, 36, Flat, 3, 24, 5, 48, 3, 2, 1000, 12, 3, 0, 24),
        knobs(32, 128, Reduction, 8, 64, 32, 256, 1, 1, 1000, 32, 0, 2, 64),
        knobs(5, 11, Reduction, 1, 8, 1, 8, 4, 1, 1, 5, 2, 1, 12),
        knobs(16, 48, Flat, 16, 40, 8, 128, 4, 4, 5, 16, 1, 0, 20),
        knobs(4, 8, Reduction, 2, 8, 2, 16, 1, 1, 1000, 4, 5, 3, 64),
        knobs(7, 30, Reduction, 4, 40, 2, 100, 5, 3, 3, 7, 0, 0, 0),
        knobs(24, 50, Reduction, 2, 72, 11, 200, 3, 2, 1000, 20, 1, 2, 36),
        knobs(1, 2, Flat, 1, 1, 1, 1, 1, 1, 1000, 1, 0, 0, 4),
        knobs(20, 160, Reduction, 8, 56, 4, 64, 2, 1, 1, 7, 2, 4, 64),
        // Reflectors so long that stage 2 passes nothing on in workgroup memory.
        knobs(48, 96, Reduction, 4, 16, 45, 64, 1, 2, 1000, 8, 1, 2, 16),
        with(knobs(8, 24, Reduction, 4, 16, 8, 32, 4, 3, 1000, 8, 0, 0, 16), 2),
        with(knobs(4, 16, Reduction, 4, 16, 4, 32, 3, 2, 2, 8, 0, 0, 16), 1),
        with(knobs(16, 64, Reduction, 8, 32, 16, 64, 2, 4, 1000, 16, 0, 2, 32), 1),
        two(knobs(16, 48, Reduction, 4, 64, 16, 64, 1, 1, 1000, 16, 1, 2, 32)),
        deferring(knobs(8, 24, Reduction, 4, 16, 8, 32, 1, 1, 1000, 8, 0, 0, 16), 48),
        deferring(knobs(4, 16, Reduction, 2, 8, 4, 32, 1, 1, 1000, 8, 0, 1, 16), 8),
        deferring(two(knobs(5, 15, Reduction, 2, 16, 5, 32, 1, 1, 1000, 8, 0, 2, 16)), 16),
        deferring(knobs(16, 64, Reduction, 8, 32, 16, 64, 1, 1, 1000, 16, 0, 2, 32), 1000),
        two(knobs(8, 40, Flat, 4, 24, 8, 32, 1, 1, 1000, 8, 2, 0, 24)),
    ]
}

/// Hyperparameters of chance.
pub fn any_tune(rng: &mut Rng) -> Tune {
    let mut up_to = |least: u64, most: u64| (least + rng.next() % (most - least + 1)) as usize;
    let tile = if up_to(0, 1) == 0 { up_to(1, 32) } else { 4 * up_to(1, 8) };
    let leaf = 2 * tile + if up_to(0, 1) == 0 { up_to(0, 60) } else { tile * up_to(0, 4) };
    let split = if up_to(0, 1) == 0 { 1 << up_to(0, 4) } else { up_to(1, 12) };
    let cols = if up_to(0, 1) == 0 { up_to(1, 90) } else { 8 * up_to(1, 12) };
    let tree = if up_to(0, 2) == 0 { PanelTree::Flat } else { PanelTree::Reduction };
    let threads = if up_to(0, 3) == 0 { up_to(1, 256) } else { 1 << up_to(0, 7) };
    let (width, cycles, blocks) = (up_to(1, tile as u64), up_to(1, 4), if up_to(0, 1) == 0 { up_to(1, 4) } else { 1000 });
    let triangle = up_to(1, 36);
    let sweeps = up_to(1, 4).min(threads);
    let (held, beside) = (up_to(0, 3), up_to(0, 4));
    let rows = if up_to(0, 1) == 0 { 0 } else { 4 * up_to(1, 16) };
    let (lines, strips) = (up_to(0, 2), up_to(1, 2));
    let deferred = if up_to(0, 2) == 0 { up_to(0, 200) } else { 0 };
    Tune(Some(Knobs {
        tile,
        leaf,
        tree,
        split,
        cols,
        width,
        threads,
        sweeps,
        cycles,
        blocks,
        triangle,
        held,
        beside,
        rows,
        lines,
        strips,
        deferred,
    }))
}
