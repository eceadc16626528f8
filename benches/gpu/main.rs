//! The GPU path, whole and stage by stage.
//!
//! ```text
//! cargo bench --bench gpu                                               n = 256 .. 32768 in f16, f32, f64, c32
//! cargo bench --bench gpu -- --sizes 1024,4096 --types f32 --csv gpu.csv
//! cargo bench --bench gpu -- --triangular                               triangular solves and products instead
//! cargo bench --bench gpu -- --qr                                       QR factorisations and least squares
//! cargo bench --bench gpu -- --qr --sweep --sizes 32768                 from tall to square matrices, of as many entries each
//! cargo bench --bench gpu -- --qr --types f32 --products native,split,half      the same, by cooperative matrices too
//! python3 benches/gpu_peers.py --csv peers.csv                          torch and CuPy on the same matrices
//! cargo run --release -p svdvals-gpu-gallery --bin gpu_times -- gpu.csv peers.csv --peak 67      the two together, as target/gpu.png
//! cargo bench --bench gpu -- --startup --sizes 1024                     what a first call takes more than the next one
//! cargo bench --bench gpu -- --probe repeat                             whether results repeat; others: --help
//! cargo bench --bench gpu -- --first-day                                all of that and more, with a report: see benches/first_day.sh
//! cargo bench --bench gpu -- --help
//! ```
//!
//! Seconds are wall-clock seconds, medians of the runs that follow a first one, which compiles the shaders and has its own column.
//! `total` is the whole call, from a matrix in the caller's memory to values there. `resident` is the total without `scale` (the search
//! for NaN and for the largest entry) and `upload` (the scaled copy to the device): what the call takes once the matrix is on the
//! device. It has in it stage 3 on the CPU, and the reading back of 2n - 1 numbers before it, which is no transfer to speak of and part of
//! `band_to_bidiag`. `error` is | ||s||_2 / ||A||_F - 1 |, which shows values that are wrong altogether.
//!
//! Entry (i, j) of a real n x n matrix is the (i + n j)-th number of SplitMix64 with seed 1, of a complex one the numbers 2 (i + n j) and
//! the next; 53 bits of each make a number in [-1, 1), which is then rounded to the type. (Right-hand sides of triangles: n x k, seed 2.)

#[path = "../../tests/common/mod.rs"]
#[allow(unused)] // the tests' part
mod common;
mod factors;
mod first_day;
mod probes;
#[path = "../../examples/shared/mod.rs"]
mod shared;
mod sources;
mod startup;
mod table;
mod triangular;
#[cfg(any(target_os = "linux", windows))]
mod vulkan;
#[cfg(not(any(target_os = "linux", windows)))]
#[path = "no_vulkan.rs"]
mod vulkan;

use std::{error::Error, path::PathBuf, process::ExitCode, time::Instant};

use faer::MatRef;
use num_complex::Complex;
use rayon::prelude::*;
use svdvals_gpu::{
    AdapterChoice, Backend, Element, GpuContext, HalfStorage, Products, RealElement, StageSeconds, SvdError, SvdOptions,
    SvdReport, SvdValsGpu,
};

use probes::Probe;
use shared::{
    TYPES,
    arguments::{Words, program, unknown},
    machine, median, with_type,
};
use table::{Row, Table};

const USAGE: &str = "\
usage: cargo bench --bench gpu -- [--triangular | --qr [--sweep] [--products P,..]] [--sizes N,..] [--types T,..] [--repeat K] [--seconds S] [--csv FILE]
       cargo bench --bench gpu -- --startup [--sizes N] [--types T,..]
       cargo bench --bench gpu -- --probe repeat|gap|statistics|upload|host|grid [--sizes N,..] [--types T,..] [--compiler A]
       cargo bench --bench gpu -- --first-day [--out DIR] [--beside DIR]

  --triangular   measures trsm and trmm, of n x 256 and n x n right-hand sides, in place of singular values
  --qr           measures QR factorisations and least squares, of n x n and of tall matrices with as many entries
  --sweep        of --qr: up to nine shapes for each size, from 256 n x n / 256 to n x n
  --products P,..  of --qr: some of native, split, half (native). Those of low precision are of f16 and f32, and need cooperative matrices:
                 without them they are left out, with a line, because their emulation on the CPU is not measured
  --sizes N,..   orders of the matrices (256,512,..,32768; on a software driver 64,128,256)
  --types T,..   some of f16, f32, f64, c32, c64 (f16,f32,f64,c32)
  --repeat K     runs after the first (5)
  --seconds S    no new run where those of the row have taken this long (60)
  --csv FILE     writes the table there too
  --startup      the first and the second call of a new context, with no cache of pipelines, an empty and a filled one
  --probe P      repeat: 20 runs of the same input; gap: dependent dispatches, by wgpu and by Vulkan with other barriers;
                 statistics: registers, spills and instructions of the kernels, by the driver's compiler;
                 upload: bytes to the device; host: what the host does in a call with vectors; grid: each hyperparameter on its own
  --compiler A   statistics: by the driver of the Vulkan adapter whose name contains A, of the defaults for hardware. Mesa's for AMD needs no
                 GPU: RADV_FORCE_FAMILY=navi21 WGPU_ADAPTER_NAME=llvmpipe gpu --probe statistics --compiler navi21
  --first-day    all of it, within 20 minutes, with a report in Markdown
  --out DIR      where the report and the logs go (first_day)
  --beside DIR   where gpu_tests, accuracy, cost and gpu_peers.py are (beside this program)";

const SEED: u64 = 1;
const SEED_OF_RIGHT_HAND_SIDES: u64 = 2;
const DEFAULT_SIZES: [usize; 8] = [256, 512, 1024, 2048, 4096, 8192, 16384, 32768];
const SOFTWARE_SIZES: [usize; 3] = [64, 128, 256];

/// What is measured.
#[derive(Clone, Copy, PartialEq)]
enum Of {
    Values,
    Triangles,
    Factors,
    Startup,
    Probe(Probe),
    FirstDay,
}

struct Arguments {
    of: Of,
    sizes: Option<Vec<usize>>,
    types: Vec<&'static str>,
    products: Vec<Products>,
    sweep: bool,
    repeat: usize,
    seconds: f64,
    csv: Option<PathBuf>,
    compiler: Option<String>,
    out: Option<PathBuf>,
    beside: Option<PathBuf>,
}

fn parse(words: &mut Words) -> Result<Arguments, String> {
    let mut arguments = Arguments {
        of: Of::Values,
        sizes: None,
        types: vec!["f16", "f32", "f64", "c32"],
        products: vec![Products::Native],
        sweep: false,
        repeat: 5,
        seconds: 60.0,
        csv: None,
        compiler: None,
        out: None,
        beside: None,
    };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--bench" => {} // from cargo
            "--triangular" => arguments.of = Of::Triangles,
            "--qr" => arguments.of = Of::Factors,
            "--sweep" => arguments.sweep = true,
            "--sizes" => arguments.sizes = Some(words.numbers(&word, 1..=1 << 20)?),
            "--types" => arguments.types = words.names(&word, &TYPES)?,
            "--products" => {
                let of = |name| match name {
                    "half" => Products::Half,
                    "split" => Products::Split,
                    _ => Products::Native,
                };
                arguments.products = words.names(&word, &["native", "split", "half"])?.into_iter().map(of).collect();
            }
            "--repeat" => arguments.repeat = words.number(&word, 1..=1000)?,
            "--seconds" => arguments.seconds = words.number(&word, 0.0..=1e6)?,
            "--csv" => arguments.csv = Some(words.value(&word)?.into()),
            "--compiler" => arguments.compiler = Some(words.value(&word)?),
            "--startup" => arguments.of = Of::Startup,
            "--probe" => {
                arguments.of =
                    Of::Probe(match words.name(&word, &["repeat", "gap", "statistics", "upload", "host", "grid"])? {
                        "repeat" => Probe::Repeat,
                        "gap" => Probe::Gap,
                        "statistics" => Probe::Statistics,
                        "upload" => Probe::Upload,
                        "host" => Probe::Host,
                        _ => Probe::Grid,
                    });
            }
            "--first-day" => arguments.of = Of::FirstDay,
            "--out" => arguments.out = Some(words.value(&word)?.into()),
            "--beside" => arguments.beside = Some(words.value(&word)?.into()),
            other => return Err(unknown(other)),
        }
    }
    if arguments.products != [Products::Native] && arguments.of != Of::Factors {
        return Err("--products are of --qr".into());
    }
    if arguments.sweep && arguments.of != Of::Factors {
        return Err("--sweep is of --qr".into());
    }
    Ok(arguments)
}

fn main() -> ExitCode {
    program("gpu", USAGE, parse, |arguments| match arguments.of {
        Of::Startup => startup::startup(&arguments),
        Of::FirstDay => first_day::first_day(&arguments),
        _ => measure(&arguments),
    })
}

fn measure(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let by_low_precision = arguments.products.iter().any(|&products| products != Products::Native);
    let context = match by_low_precision {
        true => GpuContext::new(&AdapterChoice::default().cooperative_matrices(true))?,
        false => GpuContext::global()?,
    };
    println!("{}, {}", machine::adapter(&context), machine::commit());
    let products = factors::available(&context, &arguments.products)?;
    println!("{}", generator_check());
    let default: &[usize] = if context.is_software() { &SOFTWARE_SIZES } else { &DEFAULT_SIZES };
    if context.is_software() && arguments.sizes.is_none() {
        println!("a software driver is slow, and says nothing of a GPU: small sizes only; --sizes asks for others");
    }
    let sizes = arguments.sizes.as_deref().unwrap_or(default);
    if let Of::Probe(probe) = arguments.of {
        return probes::run(probe, &context, sizes, arguments);
    }
    let mut table = Table::new(arguments.csv.as_deref())?;
    for &name in &arguments.types {
        with_type!(name, T => {
            let blank = blank::<T>(&context);
            match arguments.of {
                Of::Triangles => triangular::rows_of::<T>(&context, sizes, arguments, blank, &mut table),
                Of::Factors => factors::rows_of::<T>(&context, sizes, (arguments, &products), blank, &mut table),
                _ => rows_of::<T>(&context, sizes, arguments, blank, &mut table),
            }
        })?;
    }
    table.finish(arguments.of)
}

/// The same from every implementation of the generator, bit by bit, and an entry that shows the order of the numbers.
fn generator_check() -> String {
    let sum = (0..4096).fold(0u64, |sum, index| sum.wrapping_add(common::splitmix64(SEED, index)));
    let entry = matrix::<Complex<f64>>(16, 16, SEED).map_or(Complex::ZERO, |a| a[3 + 5 * 16]);
    format!("generator check {sum:#018x}, entry (3, 5) of a complex 16 x 16 matrix {:.16} {:.16}", entry.re, entry.im)
}

/// What all rows of a type have in common.
fn blank<T: Element>(context: &GpuContext) -> Row {
    Row {
        program: "svdvals-gpu".into(),
        routine: "svdvals".into(),
        device: context.adapter_name().into(),
        driver: machine::driver(context),
        backend: format!("{:?}", context.backend()),
        version: machine::commit(),
        element: T::NAME.into(),
        ..Row::default()
    }
}

/// Whether larger matrices have the same fate.
fn is_of_size(error: &SvdError) -> bool {
    matches!(error, SvdError::TooLarge { .. } | SvdError::UnsupportedElement { .. } | SvdError::OutOfMemory { .. })
}

/// One type's rows, up to the first size that the device does not hold.
fn rows_of<T: Element>(
    context: &GpuContext,
    sizes: &[usize],
    arguments: &Arguments,
    blank: Row,
    table: &mut Table,
) -> Result<(), Box<dyn Error>> {
    let options =
        SvdOptions::default().backend(Backend::Gpu).context(context.clone()).half_storage(HalfStorage::Half.for_element::<T>());
    table.title(T::NAME);
    for &n in sizes {
        let mut row = Row { n, columns: n, ..blank.clone() };
        let measured = match matrix::<T>(n, n, SEED) {
            Some(a) => time(MatRef::from_column_major_slice(&a, n, n), &options, arguments),
            None => Err(SvdError::OutOfMemory { reason: "the host holds no such matrix".into() }),
        };
        match measured {
            Ok(measured) => measured.fill(&mut row),
            Err(error) if is_of_size(&error) => {
                row.note = format!("from n = {n} on: {error}");
                table.push(row)?;
                break;
            }
            Err(error) => return Err(error.into()),
        }
        table.push(row)?;
    }
    Ok(())
}

/// What the runs of one matrix gave.
struct Measured {
    first: f64,
    runs: Vec<StageSeconds>,
    error: f64,
}

fn time<T: Element>(a: MatRef<'_, T>, options: &SvdOptions, arguments: &Arguments) -> Result<Measured, SvdError> {
    let SvdReport { values, seconds, .. } = a.svdvals_gpu_report(options)?;
    let first = seconds.total;
    let norm = (0..a.ncols()).into_par_iter().map(|j| a.col(j).iter().map(|x| x.to_complex().norm_sqr()).sum::<f64>());
    let norm = norm.sum::<f64>().sqrt();
    let of_values = values.iter().fold(0f64, |sum, s| sum.hypot(s.to_double()));
    let (start, mut runs) = (Instant::now(), Vec::new());
    while runs.is_empty() || runs.len() < arguments.repeat && start.elapsed().as_secs_f64() < arguments.seconds {
        runs.push(a.svdvals_gpu_report(options)?.seconds);
    }
    Ok(Measured { first, runs, error: (of_values / norm - 1.0).abs() })
}

impl Measured {
    fn fill(&self, row: &mut Row) {
        let of = |seconds: fn(&StageSeconds) -> f64| Some(median(self.runs.iter().map(seconds).collect()));
        row.runs = self.runs.len();
        row.first_s = Some(self.first);
        row.total_s = of(|s| s.total);
        row.resident_s = of(|s| s.total - s.scale - s.upload);
        row.scale_s = of(|s| s.scale);
        row.upload_s = of(|s| s.upload);
        row.to_band_s = of(|s| s.to_band);
        row.band_to_bidiag_s = of(|s| s.band_to_bidiag);
        row.svdvals_s = of(|s| s.svdvals);
        row.error = Some(self.error);
    }
}

/// Runs of an operation on the device, each with its seconds in all, alone and for the upload: medians into the row. The first run's result.
fn repeated<R>(run: impl Fn() -> Result<([f64; 3], R), SvdError>, arguments: &Arguments, row: &mut Row) -> Result<R, SvdError> {
    let ([first, ..], result) = run()?;
    let (start, mut runs) = (Instant::now(), Vec::new());
    while runs.is_empty() || runs.len() < arguments.repeat && start.elapsed().as_secs_f64() < arguments.seconds {
        runs.push(run()?.0);
    }
    let of = |which: usize| Some(median(runs.iter().map(|run| run[which]).collect()));
    row.runs = runs.len();
    row.first_s = Some(first);
    (row.total_s, row.resident_s, row.upload_s) = (of(0), of(1), of(2));
    Ok(result)
}

/// Column after column; None where the host has no room.
fn matrix<T: Element>(n: usize, columns: usize, seed: u64) -> Option<Vec<T>> {
    let number = |index: usize| common::signed_uniform(common::splitmix64(seed, index as u64));
    let complex = T::from_complex(Complex::I).to_complex() == Complex::I;
    let entry = |k: usize| {
        let parts = if complex { Complex::new(number(2 * k), number(2 * k + 1)) } else { number(k).into() };
        T::from_complex(parts)
    };
    let mut entries = Vec::new();
    entries.try_reserve_exact(n.checked_mul(columns)?).ok()?;
    (0..n * columns).into_par_iter().map(entry).collect_into_vec(&mut entries);
    Some(entries)
}
