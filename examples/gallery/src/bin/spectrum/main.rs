//! The singular values of the matrices in files: a table, a picture, and CSV or JSON.
//!
//! ```text
//! cargo run --release -p svdvals-gpu-gallery --bin spectrum -- examples/data/camera.npy
//! cargo run --release -p svdvals-gpu-gallery --bin spectrum -- model.safetensors --match 'layer.0.*weight' --json spectra.json
//! cargo run --release -p svdvals-gpu-gallery --bin spectrum -- --help
//! ```
//!
//! A file or a tensor that cannot be used is one line on stderr; the others are computed, and the exit code is 1.

mod arguments;
mod legend;
mod picture;
mod progress;
mod statistics;
mod table;
mod write;

#[path = "../../../../shared/mod.rs"]
mod shared;

#[cfg(test)]
mod tests;

use std::process::ExitCode;

use arguments::{Arguments, USAGE};
use progress::Progress;
use shared::{arguments::program, markdown::print};
use statistics::Statistics;
use svdvals_gpu_gallery::files::{
    matrix::Solved,
    source::{self, Source},
};

fn main() -> ExitCode {
    program("spectrum", USAGE, Arguments::parse, |arguments| {
        let complaints = run(&arguments).complaints; // which are printed
        Ok(if complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// A matrix with its singular values.
struct Row {
    name: String,
    source: Source,
    solved: Solved,
    statistics: Statistics,
}

impl Row {
    /// Whether the smallest value is no more than rounding error.
    fn is_rounding(&self) -> bool {
        self.statistics.resolved < self.solved.values.len()
    }
}

/// What came of a run, as far as it is not printed or written.
#[derive(Default)]
struct Outcome {
    rows: Vec<Row>,
    /// What went wrong, a line each.
    complaints: Vec<String>,
}

impl Outcome {
    fn complain(&mut self, line: String) {
        eprintln!("spectrum: {line}");
        self.complaints.push(line);
    }
}

fn run(arguments: &Arguments) -> Outcome {
    let mut outcome = Outcome::default();
    let mut sources = Vec::new();
    for file in &arguments.files {
        let found = source::find(file, arguments.pattern.as_deref());
        for matrix in found.matrices {
            match matrix {
                Ok(source) => sources.push(source),
                Err(line) => outcome.complain(line),
            }
        }
        if let Some(note) = found.note {
            eprintln!("spectrum: {note}");
        }
    }
    if sources.is_empty() {
        return outcome;
    }
    compute(sources, arguments, &mut outcome);
    print_largest(&outcome.rows, arguments.top);
    write_files(arguments, &mut outcome);
    outcome
}

/// Computes matrix after matrix, and prints the table as it grows.
fn compute(sources: Vec<Source>, arguments: &Arguments, outcome: &mut Outcome) {
    let names = source::names(&sources);
    let mut table = table::Table::start(&sources, &names);
    let mut progress = Progress::over(&sources);
    for (source, name) in sources.into_iter().zip(names) {
        progress.start(&name, &source);
        let inside = progress.inside(&source);
        let options = arguments.options.clone().progress(move |of_call| inside(of_call.fraction));
        let solved = source.read().and_then(|a| a.solve(&options).map_err(|error| error.to_string()));
        progress.finish(&source);
        match solved {
            Ok(solved) => {
                let statistics = Statistics::of(&solved.values, solved.eps);
                let row = Row { name, source, solved, statistics };
                progress.print(|| table.row(&row));
                outcome.rows.push(row);
            }
            Err(message) => progress.print(|| outcome.complain(source.complain(&message))),
        }
    }
    drop(progress);
    table.finish(outcome.rows.iter().find_map(|row| row.solved.adapter.as_deref()));
}

fn print_largest(rows: &[Row], top: Option<usize>) {
    let Some(top) = top else { return };
    for row in rows {
        print(format!("\n{}", row.name));
        row.solved.values.iter().take(top).enumerate().for_each(|(k, sigma)| print(format!("{:6}  {sigma:.7e}", k + 1)));
    }
}

fn write_files(arguments: &Arguments, outcome: &mut Outcome) {
    if outcome.rows.is_empty() {
        return;
    }
    let mut written = Vec::new();
    match picture::save(&arguments.out, &outcome.rows) {
        Ok(()) => written.push(arguments.out.clone()),
        Err(error) => outcome.complain(format!("{}: {error}", arguments.out.display())),
    }
    if let Some(path) = &arguments.csv {
        match write::csv(path, &outcome.rows, arguments.top) {
            Ok(()) => written.extend([path.clone(), write::values_path(path)]),
            Err(line) => outcome.complain(line),
        }
    }
    if let Some(path) = &arguments.json {
        match write::json(path, &outcome.rows, &outcome.complaints, arguments.top) {
            Ok(()) => written.push(path.clone()),
            Err(line) => outcome.complain(line),
        }
    }
    print("");
    written.iter().for_each(|path| print(format!("wrote {}", path.display())));
}
