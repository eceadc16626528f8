//! A picture of speed: this crate beside the libraries that one would use in its place, on the CPU and on a GPU.
//!
//! ```text
//! cargo bench --bench peers -- --csv=cpu.csv                    faer, OpenBLAS and MKL
//! cargo bench --bench gpu -- --csv gpu.csv                      this crate on a GPU
//! python3 benches/gpu_peers.py --csv gpu_peers.csv              torch and CuPy on the same matrices
//! cargo run --release -p svdvals-gpu-gallery --bin speed -- --cpu cpu.csv gpu.csv gpu_peers.csv
//! cargo run --release -p svdvals-gpu-gallery --bin speed -- --help
//! ```

#[path = "../../../../shared/mod.rs"]
mod shared;

use std::{
    error::Error,
    path::{Path, PathBuf},
    process::ExitCode,
};

use plotters::style::RGBColor;
use serde::{Deserialize, de::DeserializeOwned};
use shared::arguments::{Words, program, unknown};
use svdvals_gpu_gallery::{
    draw::{BLUE, GREEN, ORANGE, PURPLE},
    plot::{Mark, Panel, Picture, Series, Shape},
};

const USAGE: &str = "\
usage: speed [--out FILE] --cpu FILE FILE ...

  --cpu FILE  the table that `cargo bench --bench peers -- --csv=FILE` wrote
  FILE ...    tables that `--csv` of `cargo bench --bench gpu` and of benches/gpu_peers.py wrote
  --out FILE  the picture (target/speed.png)";

/// A line of the CPU's table: milliseconds.
#[derive(Deserialize)]
struct OfCpu {
    problem: String,
    #[serde(rename = "type")]
    element: String,
    m: usize,
    n: usize,
    ours: f64,
    faer: Option<f64>,
    openblas: Option<f64>,
    mkl: Option<f64>,
}

/// A line of a GPU's table.
#[derive(Deserialize)]
struct OfGpu {
    program: String,
    routine: String,
    device: String,
    #[serde(rename = "type")]
    element: String,
    n: usize,
    resident_s: Option<f64>,
}

struct Arguments {
    cpu: PathBuf,
    gpu: Vec<PathBuf>,
    out: PathBuf,
}

fn parse(words: &mut Words) -> Result<Arguments, String> {
    let (mut cpu, mut gpu, mut out) = (None, Vec::new(), "target/speed.png".into());
    while let Some(word) = words.next() {
        match word.as_str() {
            "--cpu" => cpu = Some(words.value(&word)?.into()),
            "--out" => out = words.value(&word)?.into(),
            option if option.starts_with('-') => return Err(unknown(option)),
            file => gpu.push(file.into()),
        }
    }
    match cpu {
        Some(cpu) if !gpu.is_empty() => Ok(Arguments { cpu, gpu, out }),
        _ => Err("which files? --help shows the usage".into()),
    }
}

fn main() -> ExitCode {
    program("speed", USAGE, parse, |arguments| draw(&arguments))
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, String> {
    let rows = || csv::Reader::from_path(path)?.deserialize().collect::<Result<Vec<T>, csv::Error>>();
    rows().map_err(|error| format!("{}: {error}", path.display()))
}

fn draw(Arguments { cpu, gpu, out }: &Arguments) -> Result<(), Box<dyn Error>> {
    let cpu: Vec<OfCpu> = read(cpu)?;
    let mut of_gpu: Vec<OfGpu> = Vec::new();
    for path in gpu {
        of_gpu.extend(read::<OfGpu>(path)?);
    }
    let panels = vec![
        on_cpu(&cpu, "values", "CPU, all singular values"),
        on_cpu(&cpu, "vectors", "CPU, with thin vectors"),
        on_gpu(&of_gpu).ok_or("no measured values of f32 in the GPU's tables")?,
    ];
    if panels.iter().any(|panel| panel.series.is_empty()) {
        return Err("no measured f32 values and vectors of square matrices in the CPU's table".into());
    }
    let picture = Picture {
        title: "Random n x n matrices of f32: lower is faster".into(),
        subtitle: "milliseconds".into(),
        x_label: "n",
        y_label: "ms",
        panels,
    };
    picture.save(out).map_err(|error| format!("{}: {error}", out.display()))?;
    println!("Picture: {}", out.display());
    Ok(())
}

const PEERS: [(RGBColor, Shape); 3] = [(ORANGE, Shape::Triangle), (GREEN, Shape::Square), (PURPLE, Shape::Diamond)];

fn on_cpu(rows: &[OfCpu], problem: &str, title: &str) -> Panel {
    let rows: Vec<&OfCpu> = rows.iter().filter(|row| row.problem == problem && row.element == "f32" && row.m == row.n).collect();
    let line = |of: fn(&OfCpu) -> Option<f64>| rows.iter().filter_map(|row| Some((row.n, of(row)?))).collect::<Vec<_>>();
    let peers = [("faer", line(|row| row.faer)), ("OpenBLAS", line(|row| row.openblas)), ("MKL", line(|row| row.mkl))];
    panel(title, line(|row| Some(row.ours)), peers.map(|(label, points)| (label.to_owned(), points)).to_vec())
}

/// The values alone, with the matrix on the device.
fn on_gpu(rows: &[OfGpu]) -> Option<Panel> {
    let rows: Vec<&OfGpu> = rows.iter().filter(|row| row.element == "f32" && row.routine.contains("sv")).collect();
    let device = &rows.first()?.device;
    let mut lines: Vec<(String, Vec<(usize, f64)>)> = Vec::new();
    for row in &rows {
        let Some(seconds) = row.resident_s else { continue };
        let label = if row.program == "svdvals-gpu" { String::new() } else { format!("{} {}", row.program, row.routine) };
        let point = (row.n, 1e3 * seconds);
        match lines.iter_mut().find(|(other, _)| *other == label) {
            Some((_, points)) => points.push(point),
            None => lines.push((label, vec![point])),
        }
    }
    let ours = lines.iter().position(|(label, _)| label.is_empty())?;
    let (_, ours) = lines.remove(ours);
    Some(panel(&format!("{device}, all singular values"), ours, lines))
}

fn panel(title: &str, ours: Vec<(usize, f64)>, peers: Vec<(String, Vec<(usize, f64)>)>) -> Panel {
    let at = |n: usize| (n as f64).log2();
    let x_ticks = ours.iter().map(|&(n, _)| (at(n), n.to_string())).collect();
    let lines = [("svdvals-gpu".to_owned(), ours)].into_iter().chain(peers);
    let styles = [(BLUE, Shape::Circle)].into_iter().chain(PEERS.into_iter().cycle());
    let series = lines.zip(styles).filter(|((_, points), _)| !points.is_empty());
    let series = series.map(|((label, points), (colour, shape))| Series {
        label,
        colour,
        mark: Mark::Line { shape, open: false },
        samples: points.into_iter().map(|(n, ms)| (at(n), vec![ms])).collect(),
    });
    Panel { title: title.into(), x_ticks, series: series.collect(), beside: false }
}
