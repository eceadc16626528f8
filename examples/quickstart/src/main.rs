//! The singular values of a photograph.
//!
//! ```text
//! cargo run -p quickstart                      a hardware GPU if there is one, else the CPU
//! cargo run -p quickstart -- gpu               a GPU, a software driver if that is all there is
//! cargo run -p quickstart -- cpu               the CPU
//! cargo run --release -p quickstart            longer to build, and the speed that programs have
//! ```

use std::{env, error::Error, fs, path::Path, process::ExitCode};

use ndarray::{Array1, Array2};
use svdvals_gpu::{Backend, GpuContext, SvdOptions, SvdReport, SvdValsGpu};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quickstart: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let wanted = env::args().nth(1);
    let backend = match wanted.as_deref() {
        None => None,
        Some("gpu") => Some(Backend::Gpu),
        Some("cpu") => Some(Backend::Cpu),
        Some(other) => return Err(format!("unknown argument {other:?}; usage: quickstart [gpu | cpu]").into()),
    };
    let photograph = Array2::from_shape_vec((512, 512), read("camera.npy", u8::from_le_bytes)?)?;
    let reference = Array1::from(read("camera.sv.npy", f64::from_le_bytes)?);
    let a = photograph.mapv(f32::from);

    println!("matrix    {} x {} f32: a grey-scale photograph", a.nrows(), a.ncols());
    let backend = backend.unwrap_or_else(best_backend);
    let report = a.svdvals_gpu_report(&SvdOptions::default().backend(backend))?;
    print_run(&report);
    print_values(&report.values, &reference)
}

/// The hardware GPU, if there is one. (`Backend::Auto` would take the CPU for a matrix as small as this.)
fn best_backend() -> Backend {
    match GpuContext::global() {
        Ok(gpu) if !gpu.is_software() => return Backend::Gpu,
        Ok(gpu) => println!("GPU       none, only a software driver ({}): computing on the CPU", gpu.adapter_name()),
        Err(error) => println!("GPU       none: computing on the CPU ({error})"),
    }
    Backend::Cpu
}

fn print_run(report: &SvdReport<Array1<f32>>) {
    let seconds = &report.seconds;
    println!("backend   {:?} ({})", report.backend, report.reason);
    println!("adapter   {}", report.adapter.as_deref().unwrap_or("none"));
    println!("seconds   0 scale           {:9.4}", seconds.scale);
    println!("            upload          {:9.4}", seconds.upload);
    println!("          1 to_band         {:9.4}", seconds.to_band);
    println!("          2 band_to_bidiag  {:9.4}", seconds.band_to_bidiag);
    println!("          3 svdvals         {:9.4}", seconds.svdvals);
    let note = if report.backend == Backend::Gpu { "  (a first call: it compiles the shaders too)" } else { "" };
    println!("            total           {:9.4}{note}", seconds.total);
    if cfg!(debug_assertions) && report.backend == Backend::Cpu {
        println!("          (not optimised: `cargo run --release -p quickstart` has the speed that programs have)");
    }
    if report.backend == Backend::Gpu {
        let c = &report.counts;
        println!("work      {} dispatches in {} submissions", c.dispatches, c.submissions);
        println!(
            "bytes     {} uploaded, {} read back, {} of parameters",
            c.bytes_uploaded, c.bytes_read_back, c.bytes_parameters
        );
    }
}

fn print_values(values: &Array1<f32>, reference: &Array1<f64>) -> Result<(), Box<dyn Error>> {
    if values.len() != reference.len() {
        return Err(format!("{} values, but the reference has {}", values.len(), reference.len()).into());
    }
    let largest: Vec<String> = values.iter().take(5).map(|&s| eight_digits(f64::from(s))).collect();
    println!("largest   {}", largest.join("  "));

    let energy = |s: &f32| f64::from(*s).powi(2);
    let total: f64 = values.iter().map(energy).sum();
    for percent in [90, 99] {
        let wanted = f64::from(percent) / 100.0 * total;
        let held = values.iter().scan(0.0, |held, s| {
            *held += energy(s);
            Some(*held)
        });
        let count = held.take_while(|&held| held < wanted).count() + 1;
        println!("energy    {percent}% in the {count} largest of {} values", values.len());
    }

    let deviation = values.iter().zip(reference).map(|(&s, r)| (f64::from(s) - r).abs()).fold(0.0, f64::max);
    println!("deviation {deviation:.2e} at most from LAPACK in f64, {:.2e} of the largest value", deviation / reference[0]);
    Ok(())
}

fn eight_digits(x: f64) -> String {
    let before_the_point = if x >= 1.0 { x.log10().floor() as usize + 1 } else { 1 };
    format!("{x:.*}", 8usize.saturating_sub(before_the_point))
}

/// The entries of a `.npy` file of version 1, row by row: magic and version are 8 bytes, the header's length 2, then the header.
fn read<T, const BYTES: usize>(name: &str, entry: fn([u8; BYTES]) -> T) -> Result<Vec<T>, Box<dyn Error>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data").join(name);
    let file = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let start = 10 + usize::from(u16::from_le_bytes([file[8], file[9]]));
    Ok(file[start..].as_chunks().0.iter().map(|&bytes| entry(bytes)).collect())
}
