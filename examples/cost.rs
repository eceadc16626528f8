//! What the singular values of a matrix cost on a GPU, with no GPU at all.
//!
//! ```text
//! cargo run --release --example cost                        n = 4096, f32
//! cargo run --release --example cost -- 16384 f64           another order, another type (f16, f32, f64, c32, c64)
//! cargo run --release --example cost -- 4096 f32 leaf=512   other hyperparameters (fields of `Tuning`)
//! ```
//!
//! Prints what each kernel has to do, and the seconds that each limit of some devices implies. (Below n = 4096 stage 3 is the host's, and not
//! in it.)

#[path = "shared/mod.rs"]
mod shared;

use std::{error::Error, process::ExitCode};

use shared::{TYPES, with_type};
use svdvals_gpu::{
    Tuning,
    cost::{Cost, DeviceModel},
};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cost: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let (mut n, mut element, mut changes) = (4096, "f32".to_owned(), Vec::new());
    for argument in std::env::args().skip(1) {
        if let Some((name, value)) = argument.split_once('=') {
            changes.push((name.to_owned(), value.parse::<usize>().map_err(|error| format!("{argument}: {error}"))?));
        } else if let Ok(order) = argument.parse() {
            n = order;
        } else {
            element = argument;
        }
    }
    let Some(element) = TYPES.into_iter().find(|&name| name == element) else {
        return Err(format!("{element}: types are {}", TYPES.join(", ")).into());
    };
    let default = with_type!(element, T => Cost::tuning::<T>(n));
    let tuning = changes.iter().try_fold(default, |tuning, (name, value)| changed(tuning, name, *value))?;
    let cost = with_type!(element, T => Cost::new::<T>(n, n, &tuning))?;
    println!("n = {n}, {element}: {tuning}\n\n{cost}");
    let needs_f64 = matches!(element, "f64" | "c64");
    for device in DeviceModel::ALL {
        if needs_f64 && device.f64_flops == 0.0 {
            println!("{} has no f64\n", device.name);
            continue;
        }
        println!("{}, milliseconds:", device.name);
        println!(
            "{:<18} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}",
            "kernel", "arithmetic", "memory", "workgroup", "latency", "dispatch", "total"
        );
        let kernels: Vec<_> = cost.on(&device).into_iter().filter(|kernel| kernel.total > 0.0).collect();
        for k in &kernels {
            let [arithmetic, memory, workgroup, latency, overhead, total] =
                [k.arithmetic, k.memory, k.workgroup_memory, k.latency, k.overhead, k.total].map(|seconds| 1e3 * seconds);
            println!(
                "{:<18} {arithmetic:>10.2} {memory:>10.2} {workgroup:>10.2} {latency:>10.2} {overhead:>10.2} {total:>10.2}",
                k.kernel
            );
        }
        println!("{:<18} {:>65.2}\n", "in all", 1e3 * kernels.iter().map(|k| k.total).sum::<f64>());
    }
    Ok(())
}

/// `tuning` with one field set.
fn changed(tuning: Tuning, name: &str, value: usize) -> Result<Tuning, String> {
    Ok(match name {
        "tile_size" => tuning.tile_size(value),
        "leaf" => tuning.leaf(value),
        "split_k" => tuning.split_k(value),
        "cols_per_block" => tuning.cols_per_block(value),
        "tile_width" => tuning.tile_width(value),
        "threads_per_block" => tuning.threads_per_block(value),
        "cycles_per_dispatch" => tuning.cycles_per_dispatch(value),
        "max_blocks" => tuning.max_blocks(value),
        other => return Err(format!("{other} is no hyperparameter")),
    })
}
