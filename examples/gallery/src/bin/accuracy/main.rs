//! The accuracy experiments of the papers that the stages and the vectors come from, with this crate, and with LAPACK on the same matrices.
//!
//! ```text
//! cargo run --release -p svdvals-gpu-gallery --bin accuracy                                  all experiments, small, in a few minutes
//! cargo run --release -p svdvals-gpu-gallery --bin accuracy --features lapack-openblas       and LAPACK (the system's OpenBLAS)
//! cargo run --release -p svdvals-gpu-gallery --bin accuracy -- --table --backend cpu 4096    one experiment, one backend, one order
//! cargo run --release -p svdvals-gpu-gallery --bin accuracy -- --help
//! ```
//!
//! Prints Markdown tables, and draws the same as `table_1.png`, `figure_4.png`, `figure_17.png` and `qr.png` in `target/accuracy`. Errors of values are
//! ||s - s'||_2 / ||s'||_2 on matrices whose singular values s' are known exactly; ACCURACY.md has results.

mod arguments;
mod figure;
mod figure_17;
mod lapack;
mod paper;
mod places;
mod qr;
mod table;

#[path = "../../../../../tests/common/mod.rs"]
#[allow(unused)] // the tests' part
mod common;

#[path = "../../../../shared/mod.rs"]
mod shared;

use std::{error::Error, process::ExitCode};

use arguments::{Arguments, USAGE};
use shared::arguments::program;
use svdvals_gpu_gallery::plot::Picture;

fn main() -> ExitCode {
    program("accuracy", USAGE, Arguments::parse, |arguments| run(&arguments))
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let places = places::places(arguments.backends)?;
    std::fs::create_dir_all(&arguments.out).map_err(|error| format!("{}: {error}", arguments.out.display()))?;
    for place in &places {
        println!("{}: {}", place.name, place.machine);
    }
    if !lapack::LINKED {
        println!("LAPACK: left out; `--features lapack-openblas` adds it (system OpenBLAS, `libopenblas-dev` on Debian)");
    }
    if arguments.table {
        let picture = table::run(&places, arguments.orders_or(&[64, 256, 1024]), arguments.matrices)?;
        save(&picture, &arguments.out.join("table_1.png"))?;
    }
    if arguments.figure {
        let picture = figure::run(&places, arguments.orders_or(&[256]), arguments.matrices)?;
        save(&picture, &arguments.out.join("figure_4.png"))?;
    }
    if arguments.figure_17 {
        let picture = figure_17::run(&places, arguments.orders_or(&[256]))?;
        save(&picture, &arguments.out.join("figure_17.png"))?;
    }
    if arguments.qr {
        let picture = qr::run(&places, arguments.orders_or(&[128]))?;
        save(&picture, &arguments.out.join("qr.png"))?;
    }
    Ok(())
}

fn save(picture: &Picture, path: &std::path::Path) -> Result<(), Box<dyn Error>> {
    if picture.panels.is_empty() {
        return Ok(());
    }
    picture.save(path).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("\nPicture: {}", path.display());
    Ok(())
}
