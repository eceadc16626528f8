//! A picture of the time of a batch: nanoseconds an entry over n, at a constant number of entries. The CPU's are measured, a GPU's are those of the cost model
//! and of the copies.
//!
//! ```text
//! cargo bench --bench batch -- sizes --csv=sizes.csv            the CPU
//! cargo run --release -p svdvals-gpu-gallery --bin batch_times -- sizes.csv
//! cargo run --release -p svdvals-gpu-gallery --bin batch_times -- --help
//! ```

#[path = "../../../../shared/mod.rs"]
mod shared;

use std::{error::Error, path::PathBuf, process::ExitCode};

use serde::Deserialize;
use shared::arguments::{Words, program, unknown};
use svdvals_gpu::cost::{Cost, DeviceModel};
use svdvals_gpu_gallery::{
    draw::{BLUE, ORANGE},
    plot::{Mark, Panel, Picture, Series, Shape},
};

const USAGE: &str = "\
usage: batch_times [--out FILE] FILE

  FILE        the table that `cargo bench --bench batch -- sizes --csv=FILE` wrote
  --out FILE  the picture (target/batch.png)";

/// Entries of a modelled batch: enough to fill a large GPU.
const ENTRIES: usize = 1 << 26;

/// A line of the table.
#[derive(Deserialize)]
struct Row {
    #[serde(rename = "type")]
    element: String,
    n: usize,
    /// Nanoseconds an entry.
    ns: f64,
}

struct Arguments {
    file: PathBuf,
    out: PathBuf,
}

fn parse(words: &mut Words) -> Result<Arguments, String> {
    let (mut file, mut out) = (None, "target/batch.png".into());
    while let Some(word) = words.next() {
        match word.as_str() {
            "--out" => out = words.value(&word)?.into(),
            option if option.starts_with('-') => return Err(unknown(option)),
            name => file = Some(name.into()),
        }
    }
    Ok(Arguments { file: file.ok_or("which file? --help shows the usage")?, out })
}

fn main() -> ExitCode {
    program("batch_times", USAGE, parse, |arguments| draw(&arguments))
}

fn draw(Arguments { file, out }: &Arguments) -> Result<(), Box<dyn Error>> {
    let read = || csv::Reader::from_path(file)?.deserialize().collect::<Result<Vec<Row>, csv::Error>>();
    let rows = read().map_err(|error| format!("{}: {error}", file.display()))?;
    let measured = |name: &str| rows.iter().filter(|row| row.element == name).map(|row| (row.n, row.ns)).collect::<Vec<_>>();
    let (of_f32, of_f64) = (measured("f32"), measured("f64"));
    if of_f32.is_empty() && of_f64.is_empty() {
        return Err(format!("{}: no rows of f32 or f64", file.display()).into());
    }
    let picture = Picture {
        title: "Singular values of a batch of n x n matrices, with as many entries for each n".into(),
        subtitle: "nanoseconds an entry".into(),
        x_label: "n",
        y_label: "ns",
        panels: vec![
            panel("CPU, measured", true, vec![("f32", of_f32), ("f64", of_f64)]),
            panel(
                "H100, by the model, with copies",
                false,
                vec![
                    ("f32, values", modelled(Cost::batch::<f32>, |n| 2.0 / n as f64)),
                    ("f32, with vectors", modelled(Cost::batch_svd::<f32>, |_| 2.0)),
                ],
            ),
        ],
    };
    picture.save(out).map_err(|error| format!("{}: {error}", out.display()))?;
    println!("Picture: {}", out.display());
    Ok(())
}

/// Nanoseconds for a number to the device and back, as an H100 was measured (PERFORMANCE.md).
const UP: f64 = 4.0 / 5.0;
const DOWN: f64 = 4.0 / 1.5;

/// The model's nanoseconds an entry on an H100, and those of the copies, for as many numbers `down` as an entry has.
fn modelled(
    cost: fn(usize, (usize, usize), &DeviceModel) -> svdvals_gpu::Result<Cost>,
    down: fn(usize) -> f64,
) -> Vec<(usize, f64)> {
    let device = DeviceModel::H100;
    let seconds = |n: usize| {
        let count = ENTRIES / (n * n);
        let of_all: f64 = cost(count, (n, n), &device).ok()?.on(&device).iter().map(|kernel| kernel.total).sum();
        Some((n, 1e9 * of_all / (count * n * n) as f64 + UP + DOWN * down(n)))
    };
    (4..=128).chain((136..=512).step_by(8)).filter_map(seconds).collect()
}

/// A panel of lines, with marks if they are few.
fn panel(title: &str, marked: bool, lines: Vec<(&str, Vec<(usize, f64)>)>) -> Panel {
    let at = |n: usize| (n as f64).log2();
    let styles = [(BLUE, Shape::Circle), (ORANGE, Shape::Triangle)];
    let series = lines.into_iter().zip(styles).filter(|((_, points), _)| !points.is_empty());
    let series = series.map(|((label, points), (colour, shape))| Series {
        label: label.into(),
        colour,
        mark: if marked { Mark::Line { shape, open: false } } else { Mark::Rule },
        samples: points.into_iter().map(|(n, ns)| (at(n), vec![ns])).collect(),
    });
    let x_ticks = [4, 8, 16, 32, 64, 128, 256, 512].map(|n| (at(n), n.to_string())).to_vec();
    Panel { title: title.into(), x_ticks, series: series.collect(), beside: false }
}
