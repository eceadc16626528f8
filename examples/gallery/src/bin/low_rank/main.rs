//! A matrix at low rank: an image, or the weights of a network.
//!
//! ```text
//! cargo run --release -p svdvals-gpu-gallery --bin low_rank -- examples/data/camera.npy
//! cargo run --release -p svdvals-gpu-gallery --bin low_rank -- model.safetensors --tensor query.weight --error 0.3 --out factors.safetensors
//! cargo run --release -p svdvals-gpu-gallery --bin low_rank -- --help
//! ```

mod arguments;
mod curves;
mod decompose;
mod factors;
mod images;

#[path = "../../../../shared/mod.rs"]
mod shared;

#[cfg(test)]
mod tests;

use std::{error::Error, process::ExitCode};

use arguments::{Arguments, Draw, USAGE};
use decompose::{LowRank, Request};
use shared::{
    arguments::program,
    markdown::{Table, print},
};
use svdvals_gpu_gallery::{
    chart::four_digits,
    draw::make_folder,
    files::source::{Source, find, names},
};

fn main() -> ExitCode {
    program("low_rank", USAGE, Arguments::parse, |arguments| run(&arguments).map(|_| ()))
}

fn run(arguments: &Arguments) -> Result<LowRank, Box<dyn Error>> {
    let source = choose(arguments)?;
    let draw = arguments.draw.unwrap_or(if source.tensor.is_some() { Draw::Curves } else { Draw::Images });
    let request = Request {
        backend: arguments.backend,
        ranks: arguments.ranks.as_deref(),
        error: arguments.error,
        images: draw == Draw::Images,
    };
    let matrix = source.read().map_err(|message| source.complain(&message))?;
    let low_rank = LowRank::of(&matrix, &request).map_err(|message| source.complain(&message))?;
    print_table(&source, &low_rank);
    write_files(arguments, draw, &source, &low_rank)?;
    match low_rank.ranks.iter().find(|rank| (rank.error - rank.predicted).abs() > low_rank.rounding) {
        Some(rank) => {
            Err(format!("rank {}: the factors err by {:e} where {:e} is right", rank.k, rank.error, rank.predicted).into())
        }
        None => Ok(low_rank),
    }
}

/// The matrix of the file: of several tensors the one that is named, or the largest.
fn choose(arguments: &Arguments) -> Result<Source, String> {
    let found = find(&arguments.file, arguments.tensor.as_deref());
    let mut sources = Vec::new();
    let mut complaints = Vec::new();
    for matrix in found.matrices {
        match matrix {
            Ok(source) => sources.push(source),
            Err(line) => complaints.push(line),
        }
    }
    let name = |source: &Source| source.tensor.clone().unwrap_or_default();
    let others = || sources.iter().map(name).collect::<Vec<_>>().join(", ");
    let index = match &arguments.tensor {
        Some(_) if sources.first().is_some_and(|source| source.tensor.is_none()) => {
            return Err(format!("{}: --tensor is for .safetensors files", arguments.file.display()));
        }
        Some(wanted) => match sources.iter().position(|source| name(source) == *wanted) {
            None if sources.len() > 1 => return Err(format!("{wanted:?} is a part of several names: {}", others())),
            exact => exact.unwrap_or(0),
        },
        None => {
            let largest = (0..sources.len()).rev().max_by_key(|&k| sources[k].shape.0 * sources[k].shape.1);
            if sources.len() > 1 {
                eprintln!("low_rank: the largest of {} tensors; --tensor takes another: {}", sources.len(), others());
            }
            largest.unwrap_or(0)
        }
    };
    if index < sources.len() { Ok(sources.swap_remove(index)) } else { Err(complaints.join("\n")) }
}

fn title(source: &Source) -> String {
    names(std::slice::from_ref(source)).remove(0)
}

fn print_table(source: &Source, low_rank: &LowRank) {
    let (m, n) = source.shape;
    print(format!("{}: {m} x {n}, {}, {} bytes", title(source), source.element(), source.bytes()));
    let [values, vectors] = low_rank.seconds;
    print(format!("{}: {values:.4} s for all values, {vectors:.4} s for the factors of the largest rank", low_rank.backend));
    let headings = ["rank", "error        ", "by the dropped values", "bytes     ", "of the matrix's"].map(String::from);
    let table = Table::start(&headings);
    for rank in &low_rank.ranks {
        let bytes = low_rank.bytes(source.shape, rank.k);
        table.row(&[
            rank.k.to_string(),
            format!("{:.6e}", rank.error),
            format!("{:.6e}", rank.predicted),
            bytes.to_string(),
            percent(bytes as f64 / source.bytes() as f64),
        ]);
    }
    print(
        "\nerror: ||A - U_k S_k V_k^H||_F / ||A||_F; by the dropped values: sqrt(sum_{i > k} sigma_i^2) / ||A||_F; bytes: of U_k, S_k, V_k.",
    );
}

/// A part of one, as per cent.
fn percent(part: f64) -> String {
    format!("{}%", four_digits(100.0 * part))
}

fn write_files(arguments: &Arguments, draw: Draw, source: &Source, low_rank: &LowRank) -> Result<(), String> {
    let path = &arguments.picture;
    let saved = make_folder(path).map_err(|error| error.into()).and_then(|()| match draw {
        Draw::Images => images::save(path, source, low_rank),
        Draw::Curves => curves::save(path, source, low_rank),
    });
    saved.map_err(|error| format!("{}: {error}", path.display()))?;
    print(format!("\nwrote {}", path.display()));
    for path in &arguments.factors {
        let written = factors::write(path, &low_rank.factors)?;
        written.iter().for_each(|file| print(format!("wrote {}", file.display())));
    }
    Ok(())
}
