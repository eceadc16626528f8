//! Finds the hyperparameters that are fastest on this machine, by brute force, and writes them into a file that every program with this
//! crate can use (`SVDVALS_GPU_TUNING=target/tune/tuning.json`, or `SvdOptions::tuning_table`).
//!
//! ```text
//! cargo run --release --example tune                                       the GPU, f32
//! cargo run --release --example tune -- --type f64 --n 512,2048 --backend gpu
//! cargo run --release --example tune -- --backend cpu --quick              a coarse grid, in a minute or so
//! cargo run --release --example tune -- --help
//! ```
//!
//! Prints the best hyperparameters, the best time of every value of each, and Table 3 of the unified-kernels paper for this device.
//! Writes everything that was tried as CSV, of which `trials` in examples/gallery draws the bulge-chasing paper's Figure 3.
//!
//! The search is a sum, not a product. A call's seconds are those of its stages, and besides the tile size, which is the bandwidth
//! between them, no hyperparameter touches both: for every tile size, stage 1's (`leaf`, `split_k`, `cols_per_block`, `strips_per_thread`, ..) are judged by
//! the seconds of stage 1, and stage 2's (`tile_width`, `threads_per_block`, `sweeps_per_block`, `lines_per_thread`,
//! `cycles_per_dispatch`, `max_blocks`) by those of stage 2.
//! One call tries one combination of each. Last, two calls with vectors decide `formed_beside`.

mod search;
#[path = "../shared/mod.rs"]
mod shared;
mod table_3;

#[path = "../../tests/common/mod.rs"]
#[allow(unused)] // the tests' part
mod common;

use std::{error::Error, path::PathBuf, process::ExitCode};

use svdvals_gpu::{
    Element, PartialTuning, SvdError, TuningTable,
    cost::{DeviceModel, sweeps_at_once},
};

use search::{Found, Place, Search};
use shared::{
    TYPES,
    arguments::{Words, program, unknown},
    machine, with_type,
};

const USAGE: &str = "\
usage: tune [--backend gpu|cpu] [--type T] [--n N,..] [--quick] [--repeat K] [--out DIR] [--file FILE]

  --backend B   gpu (the default; a software driver if that is all there is) or cpu
  --type T      f16, f32, f64, c32 or c64 (f32); f16 is half precision held as such
  --n N,..      orders to search at; an entry is for matrices of its order and smaller, down to the next entry
                (gpu 512,2048,8192; cpu 512,2048; a software driver 128; --quick the first of them)
  --quick       a coarse grid
  --repeat K    runs of a combination after the first; the fastest counts (2)
  --out DIR     where the table of all trials goes (target/tune)
  --file FILE   the tuning file; entries for other devices, types and sizes in it stay (DIR/tuning.json)";

struct Arguments {
    cpu: bool,
    element: &'static str,
    sizes: Option<Vec<usize>>,
    quick: bool,
    repeat: usize,
    out: PathBuf,
    file: Option<PathBuf>,
}

fn parse(words: &mut Words) -> Result<Arguments, String> {
    let mut arguments =
        Arguments { cpu: false, element: "f32", sizes: None, quick: false, repeat: 2, out: "target/tune".into(), file: None };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--backend" => arguments.cpu = words.name(&word, &["gpu", "cpu"])? == "cpu",
            "--type" => arguments.element = words.name(&word, &TYPES)?,
            "--n" => arguments.sizes = Some(words.numbers(&word, 2..=1 << 20)?),
            "--quick" => arguments.quick = true,
            "--repeat" => arguments.repeat = words.number(&word, 1..=1000)?,
            "--out" => arguments.out = words.value(&word)?.into(),
            "--file" => arguments.file = Some(words.value(&word)?.into()),
            other => return Err(unknown(other)),
        }
    }
    Ok(arguments)
}

fn main() -> ExitCode {
    program("tune", USAGE, parse, |arguments| with_type!(arguments.element, T => run::<T>(&arguments)))
}

fn run<T: Element>(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let place = Place::new(arguments.cpu)?;
    println!("{}, {}, {}", place.machine(), T::NAME, machine::commit());
    let sizes = arguments.sizes.clone().unwrap_or_else(|| {
        let sizes = place.sizes();
        if arguments.quick { sizes[..1].to_vec() } else { sizes.to_vec() }
    });
    std::fs::create_dir_all(&arguments.out).map_err(|error| format!("{}: {error}", arguments.out.display()))?;
    let file = arguments.file.clone().unwrap_or_else(|| arguments.out.join("tuning.json"));
    // Before the search, which takes long.
    let mut table = if file.exists() { TuningTable::load(&file)? } else { TuningTable::default() };
    let mut rows = Vec::new();
    for n in sizes {
        let search = Search::<T>::new(&place, n, arguments.quick, arguments.repeat)?;
        let found = search.run()?;
        print(&found, &place, n);
        let trials = arguments.out.join(format!("trials_{}_{}_{n}.csv", if arguments.cpu { "cpu" } else { "gpu" }, T::NAME));
        std::fs::write(&trials, found.csv(&place, T::NAME, n)).map_err(|error| format!("{}: {error}", trials.display()))?;
        println!("Trials: {}", trials.display());
        let faster = search.duel(&found.best)?;
        println!("The defaults take {:.6} s in stages 1 and 2, the best found {:.6} s.", faster.defaults, faster.found);
        let is_faster = faster.found < faster.defaults;
        let mut partial = if is_faster { place.partial(&found.best) } else { PartialTuning::default() };
        let tuning = if is_faster { found.best.clone() } else { place.defaults::<T>(n) };
        if let Some([apart, formed]) = search.with_vectors(&tuning)? {
            println!(
                "With vectors a call takes {apart:.6} s, or {formed:.6} s with reflectors multiplied beside the host's plan."
            );
            let formed = usize::from(formed < apart);
            partial.formed_beside = (formed != tuning.gpu.formed_beside).then_some(formed);
        }
        if partial != PartialTuning::default() {
            table.set::<T>(place.name(), n, partial);
            table.save(&file)?;
            println!("File: {}", file.display());
        } else {
            println!("So the defaults stay, and the file gets no entry.");
        }
        rows.push(table_3::row(&search)?);
    }
    table_3::print(&rows, &place, T::NAME);
    table.save(&file)?;
    Ok(())
}

/// The best, and the best of every value of each hyperparameter.
fn print(found: &Found, place: &Place, n: usize) {
    println!("\nn = {n}: {} calls' combinations, {} that the device refused", found.tried, found.refused);
    for (stage, trials) in found.stages.iter().enumerate() {
        println!("Stage {}, best seconds of each value", stage + 1);
        for axis in place.axes(stage) {
            let of = |value: usize| {
                let of_value = trials.iter().filter(|trial| (axis.get)(&trial.tuning) == value);
                of_value.map(|trial| trial.seconds).fold(f64::INFINITY, f64::min)
            };
            let values: Vec<String> = axis.values(trials).into_iter().map(|value| format!("{value}: {:.6}", of(value))).collect();
            println!("  {:<19} {}", axis.name, values.join("  "));
        }
    }
    let best: Vec<String> = place.searched().map(|axis| format!("{} {}", axis.name, (axis.get)(&found.best))).collect();
    println!("Best together: {} ({:.6} s + {:.6} s)", best.join(", "), found.seconds[0], found.seconds[1]);
    if !matches!(place, Place::Cpu) {
        occupancy(found.best.tile_size, n);
    }
}

/// The bulge-chasing paper's condition, for the bandwidth found.
fn occupancy(bandwidth: usize, n: usize) {
    let filled = DeviceModel::ALL.iter().filter(|device| device.is_filled(n, bandwidth)).map(|device| device.name);
    let filled = filled.collect::<Vec<_>>().join(", ");
    let filled = if filled.is_empty() { "none of those in svdvals_gpu::cost" } else { &filled };
    println!("Stage 2 has {} sweeps at once, which fill these devices: {filled}", sweeps_at_once(n, bandwidth));
}

/// Whether a combination alone is to blame, and the search goes on.
fn is_of_combination(error: &SvdError) -> bool {
    matches!(
        error,
        SvdError::Gpu { .. } | SvdError::TooLarge { .. } | SvdError::OutOfMemory { .. } | SvdError::InvalidOption { .. }
    )
}
