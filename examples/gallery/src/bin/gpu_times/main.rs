//! A picture of GPU times over n: this crate beside other libraries.
//!
//! ```text
//! cargo bench --bench gpu -- --csv gpu.csv                      this crate
//! python3 benches/gpu_peers.py --csv peers.csv                  torch and CuPy on the same matrices
//! cargo run --release -p svdvals-gpu-gallery --bin gpu_times -- gpu.csv peers.csv --peak 67
//! cargo run --release -p svdvals-gpu-gallery --bin gpu_times -- --help
//! ```

mod picture;

#[path = "../../../../shared/mod.rs"]
mod shared;

use std::{error::Error, path::PathBuf, process::ExitCode};

use picture::Row;
use shared::{
    TYPES,
    arguments::{Words, number, program, unknown},
};

const USAGE: &str = "\
usage: gpu_times [--peak TFLOPS] [--out FILE] FILE ...

  FILE ...    tables that `--csv` of `cargo bench --bench gpu` and of benches/gpu_peers.py wrote
  --peak P    the device's peak in 1e12 flops a second, for the limit in the picture; or one for each type: f32=67,f64=34
  --out FILE  the picture (target/gpu.png)";

struct Arguments {
    files: Vec<PathBuf>,
    /// Of a type, or of all.
    peaks: Vec<(Option<&'static str>, f64)>,
    out: PathBuf,
}

fn parse(words: &mut Words) -> Result<Arguments, String> {
    let mut arguments = Arguments { files: Vec::new(), peaks: Vec::new(), out: "target/gpu.png".into() };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--peak" => {
                for peak in words.value(&word)?.split(',') {
                    let (name, flops) = peak.split_once('=').map_or((None, peak), |(name, flops)| (Some(name), flops));
                    let known = name.map(|name| TYPES.iter().copied().find(|t| *t == name).ok_or_else(|| unknown(peak)));
                    arguments.peaks.push((known.transpose()?, number(&word, flops, 1e-6..=1e9)?));
                }
            }
            "--out" => arguments.out = words.value(&word)?.into(),
            option if option.starts_with('-') => return Err(unknown(option)),
            file => arguments.files.push(file.into()),
        }
    }
    if arguments.files.is_empty() {
        return Err("which files? --help shows the usage".into());
    }
    Ok(arguments)
}

fn main() -> ExitCode {
    program("gpu_times", USAGE, parse, |arguments| draw(&arguments))
}

fn draw(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let mut rows: Vec<Row> = Vec::new();
    for path in &arguments.files {
        let read = || csv::Reader::from_path(path)?.deserialize().collect::<Result<Vec<Row>, csv::Error>>();
        rows.extend(read().map_err(|error| format!("{}: {error}", path.display()))?);
    }
    let of = |wanted| arguments.peaks.iter().find(|(of, _)| *of == wanted).map(|(_, peak)| peak * 1e12);
    let peak = |name: &'static str| of(Some(name)).or_else(|| of(None));
    let picture = picture::picture(&rows, peak)?;
    picture.save(&arguments.out).map_err(|error| format!("{}: {error}", arguments.out.display()))?;
    println!("Picture: {}", arguments.out.display());
    Ok(())
}
