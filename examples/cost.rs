//! What the singular values of a matrix cost on a GPU, or its whole decomposition, with no GPU at all.
//!
//! ```text
//! cargo run --release --example cost                        n = 4096, f32
//! cargo run --release --example cost -- 16384 f64           another order, another type (f16, f32, f64, c32, c64)
//! cargo run --release --example cost -- 4096 f32 leaf=256   other hyperparameters (fields of `Tuning`)
//! cargo run --release --example cost -- 4096 f32 vectors    the decomposition with all vectors
//! cargo run --release --example cost -- 4096 f32 measure    and what each kernel takes here, on the GPU, beside that
//! cargo run --release --example cost -- 1024 f32 one        the one-stage reduction
//! cargo run --release --example cost -- 512 f32 rows=32768  the QR factorisation of a matrix with so many rows (or `measure`)
//! cargo run --release --example cost -- 32 f32 batch=10000  as many matrices in one call (with `vectors`: their decompositions; or `measure`)
//! ```
//!
//! Prints what each kernel has to do, and the seconds that each limit of some devices implies. (Below n = 4096 stage 3 is the host's, and not
//! in it.) With `measure` a random matrix is run twice, of which the second run counts, and each kernel is timed by the GPU's clock.

#[path = "shared/mod.rs"]
mod shared;

use std::{error::Error, process::ExitCode, time::Instant};

use faer::Mat;
use num_complex::Complex;
use shared::{TYPES, with_type};
use svdvals_gpu::{
    Backend, Element, GpuContext, GpuMatrix, HalfStorage, Reduction, Result as OfCrate, SvdGpu, SvdOptions, SvdValsGpu, Tuning,
    cost::{Cost, DeviceModel},
    svd_batch_report, svdvals_batch_report,
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
    let (mut n, mut element, mut changes, mut measured) = (4096, "f32".to_owned(), Vec::new(), false);
    let (mut reduction, mut vectors) = (Reduction::TwoStage, false);
    for argument in std::env::args().skip(1) {
        if let Some((name, value)) = argument.split_once('=') {
            changes.push((name.to_owned(), value.parse::<usize>().map_err(|error| format!("{argument}: {error}"))?));
        } else if let Ok(order) = argument.parse() {
            n = order;
        } else if argument == "measure" {
            measured = true;
        } else if argument == "one" {
            reduction = Reduction::OneStage;
        } else if argument == "vectors" {
            vectors = true;
        } else {
            element = argument;
        }
    }
    let Some(element) = TYPES.into_iter().find(|&name| name == element) else {
        return Err(format!("{element}: types are {}", TYPES.join(", ")).into());
    };
    if let Some(&(_, count)) = changes.iter().find(|(name, _)| name == "batch") {
        return with_type!(element, T => batch::<T>(n, count, (vectors, measured)));
    }
    if let Some(at) = changes.iter().position(|(name, _)| name == "rows") {
        let (_, rows) = changes.remove(at);
        return with_type!(element, T => factors::<T>((rows, n), &changes, measured));
    }
    with_type!(element, T => {
        let asked = (reduction, vectors);
        model::<T>(n, &changes, asked)?;
        if measured { measure::<T>(n, &changes, asked) } else { Ok(()) }
    })
}

/// What the cost model says.
fn model<T: Element>(n: usize, changes: &[(String, usize)], asked: (Reduction, bool)) -> Result<(), Box<dyn Error>> {
    let tuning = changed(Cost::tuning::<T>(n), changes)?;
    println!("n = {n}, {}: {tuning}\n\n{}", T::NAME, cost::<T>(n, &tuning, asked)?);
    for device in devices::<T>() {
        let own = changed(Cost::tuning_on::<T>(n, &device), changes)?;
        let other = if own == tuning { String::new() } else { format!(" with {own}") };
        println!("{}{other}, milliseconds:", device.name);
        print_seconds(&cost::<T>(n, &own, asked)?, &device);
    }
    Ok(())
}

/// A batch of square matrices, with vectors or without.
fn batch<T: Element>(n: usize, count: usize, (vectors, measured): (bool, bool)) -> Result<(), Box<dyn Error>> {
    let cost = if vectors { Cost::batch_svd::<T> } else { Cost::batch::<T> };
    println!("{count} of {n} x {n}, {}\n\n{}", T::NAME, cost(count, (n, n), &DeviceModel::H100)?);
    for device in devices::<T>() {
        println!("{}, milliseconds:", device.name);
        print_seconds(&cost(count, (n, n), &device)?, &device);
    }
    if measured { measure_batch::<T>(n, count, vectors) } else { Ok(()) }
}

/// The QR factorisation, by reflectors and by CholeskyQR2; what it takes on this machine's GPU, and least squares with one right-hand side.
fn factors<T: Element>((m, n): (usize, usize), changes: &[(String, usize)], measured: bool) -> Result<(), Box<dyn Error>> {
    type Of = fn(usize, usize, &Tuning) -> OfCrate<Cost>;
    let mut costs: Vec<(&str, Of)> = vec![("by reflectors", Cost::qr::<T::Scalar>)];
    if m >= 4 * n {
        costs.push(("by CholeskyQR2 (up to 512 columns), with Q", Cost::cholesky_qr::<T::Scalar>));
    }
    let tuning = changed(Cost::qr_tuning_on::<T::Scalar>(m.min(n), &DeviceModel::H100), changes)?;
    for (name, cost) in costs {
        println!("{m} x {n}, {}, {name}: {tuning}\n\n{}", T::NAME, cost(m, n, &tuning)?);
        for device in devices::<T>() {
            let own = changed(Cost::qr_tuning_on::<T::Scalar>(m.min(n), &device), changes)?;
            let other = if own == tuning { String::new() } else { format!(" with {own}") };
            println!("{}{other}, milliseconds:", device.name);
            print_seconds(&cost(m, n, &own)?, &device);
        }
    }
    if measured {
        let context = GpuContext::global()?;
        let mut options = SvdOptions::default().backend(Backend::Gpu).context(context.clone()).time_kernels(true);
        if !changes.is_empty() {
            options = options.tuning(changed(Tuning::for_adapter::<T>(&context, m.min(n)), changes)?);
        }
        let (a, b) = (random::<T>((m, n), 0), random::<T>((m, 1), 1));
        let (a, b) = (GpuMatrix::upload(&context, &a)?, GpuMatrix::upload(&context, &b)?);
        // The second run counts.
        for run in 0..2 {
            let (qr, solved) = (a.qr_report(&options.run.clone().into())?, a.lstsq_report(&b, &options.run.clone().into())?);
            let start = Instant::now();
            qr.values.thin_q()?;
            if run > 0 {
                println!("Measured:\n{}\n{}\nQ: {:.6} s", qr.map(|_| ()), solved.map(|_| ()), start.elapsed().as_secs_f64());
            }
        }
    }
    Ok(())
}

/// What a batch takes on this machine's GPU.
fn measure_batch<T: Element>(n: usize, count: usize, vectors: bool) -> Result<(), Box<dyn Error>> {
    let half = if vectors { HalfStorage::Single } else { HalfStorage::Half };
    let options = SvdOptions::default().backend(Backend::Gpu).half_storage(half.for_element::<T>()).time_kernels(true);
    let stack: Vec<Mat<T>> = (0..count).map(|k| random((n, n), k)).collect();
    let stack: Vec<_> = stack.iter().map(Mat::as_ref).collect();
    // The second run counts.
    for run in 0..2 {
        let text = match vectors {
            true => svd_batch_report(&stack, &options)?.to_string(),
            false => svdvals_batch_report(&stack, &options)?.to_string(),
        };
        if run > 0 {
            println!("Measured:\n{text}");
        }
    }
    Ok(())
}

/// An m x n matrix of random entries in [-1/2, 1/2): numbers of SplitMix64.
fn random<T: Element>((m, n): (usize, usize), seed: usize) -> Mat<T> {
    let number = |place: usize| {
        let z = (place as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 * (-53f64).exp2() - 0.5
    };
    Mat::from_fn(m, n, |i, j| {
        let place = 2 * (i + (j + seed * n) * m);
        T::from_complex(Complex::new(number(place), number(place + 1)))
    })
}

/// The milliseconds that each limit of the device implies.
fn print_seconds(cost: &Cost, device: &DeviceModel) {
    println!(
        "{:<18} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "kernel", "arithmetic", "memory", "workgroup", "issue", "latency", "dispatch", "total"
    );
    let kernels = cost.on(device);
    for k in kernels.iter().filter(|kernel| kernel.total > 0.0) {
        let [arithmetic, memory, workgroup, issue, latency, overhead, total] =
            [k.arithmetic, k.memory, k.workgroup_memory, k.issue, k.latency, k.overhead, k.total].map(|seconds| 1e3 * seconds);
        println!(
            "{:<18} {arithmetic:>10.2} {memory:>10.2} {workgroup:>10.2} {issue:>10.2} {latency:>10.2} {overhead:>10.2} {total:>10.2}",
            k.kernel
        );
    }
    println!("{:<18} {:>76.2}\n", "in all", 1e3 * kernels.iter().map(|k| k.total).sum::<f64>());
}

/// The model of a square matrix. Stage 3 is where a hardware GPU has it.
fn cost<T: Element>(n: usize, tuning: &Tuning, (reduction, vectors): (Reduction, bool)) -> OfCrate<Cost> {
    match (reduction, vectors) {
        // With vectors, half types are held in f32.
        (Reduction::OneStage, true) => Cost::one_stage_svd::<T::Scalar>(n, n, n, tuning),
        (Reduction::OneStage, false) => Cost::one_stage::<T>(n, n, tuning, n >= 4096),
        (_, true) => Cost::svd::<T::Scalar>(n, n, n, tuning),
        (_, false) => Cost::new::<T>(n, n, tuning),
    }
}

/// Those that have the type.
fn devices<T: Element>() -> impl Iterator<Item = DeviceModel> {
    let needs_f64 = matches!(T::NAME, "f64" | "c64");
    DeviceModel::ALL.into_iter().filter(move |device| !needs_f64 || device.f64_flops > 0.0)
}

/// What each kernel takes on this machine's GPU, and the models with the same hyperparameters beside it.
fn measure<T: Element>(
    n: usize,
    changes: &[(String, usize)],
    (reduction, vectors): (Reduction, bool),
) -> Result<(), Box<dyn Error>> {
    let context = GpuContext::global()?;
    let tuning = changed(Tuning::for_adapter::<T>(&context, n), changes)?;
    let half = if vectors { HalfStorage::Single } else { HalfStorage::Half };
    let options = SvdOptions::default().backend(Backend::Gpu).context(context).half_storage(half.for_element::<T>());
    let options = options.reduction(reduction).tuning(tuning).time_kernels(true);
    let a = random::<T>((n, n), 0);
    // The second run counts.
    let (text, tuning, kernel_seconds, cost) = if vectors {
        a.svd_gpu_report(&options)?;
        let report = a.svd_gpu_report(&options)?.map(|_| ());
        (report.to_string(), report.tuning.clone(), report.kernel_seconds.clone(), report.cost()?)
    } else {
        a.svdvals_gpu_report(&options)?;
        let report = a.svdvals_gpu_report(&options)?.map(|_| ());
        (report.to_string(), report.tuning.clone(), report.kernel_seconds.clone(), report.cost()?)
    };
    println!("Measured, tuning {tuning}:\n{text}\n");
    if kernel_seconds.is_empty() {
        return Err("this GPU takes no time stamps: its kernels cannot be timed".into());
    }
    let models: Vec<_> = devices::<T>().map(|device| (device.name, cost.on(&device))).collect();
    print!("{:<18} {:>10}", "milliseconds", "measured");
    models.iter().for_each(|(name, _)| print!(" {name:>10}"));
    for (kernel, seconds) in &kernel_seconds {
        print!("\n{kernel:<18} {:>10.2}", 1e3 * seconds);
        let of = models.iter().filter_map(|(_, kernels)| kernels.iter().find(|of| of.kernel == *kernel));
        of.for_each(|of| print!(" {:>10.2}", 1e3 * of.total));
    }
    println!();
    Ok(())
}

/// `tuning` with the fields that were named set.
fn changed(tuning: Tuning, changes: &[(String, usize)]) -> Result<Tuning, String> {
    changes.iter().try_fold(tuning, |tuning, (name, value)| with_field(tuning, name, *value))
}

/// `tuning` with one field set.
fn with_field(tuning: Tuning, name: &str, value: usize) -> Result<Tuning, String> {
    Ok(match name {
        "tile_size" => tuning.tile_size(value),
        "leaf" => tuning.leaf(value),
        "split_k" => tuning.split_k(value),
        "cols_per_block" => tuning.cols_per_block(value),
        "tile_width" => tuning.tile_width(value),
        "threads_per_block" => tuning.threads_per_block(value),
        "sweeps_per_block" => tuning.sweeps_per_block(value),
        "lines_per_thread" => tuning.lines_per_thread(value),
        "subgroup_threads" => tuning.subgroup_threads(value),
        "tiles_held" => tuning.tiles_held(value),
        "split_beside" => tuning.split_beside(value),
        "rows_per_block" => tuning.rows_per_block(value),
        "strips_per_thread" => tuning.strips_per_thread(value),
        "deferred_columns" => tuning.deferred_columns(value),
        "deferred_beside" => tuning.deferred_beside(value),
        "deferred_from" => tuning.deferred_from(value),
        "formed_beside" => tuning.formed_beside(value),
        "cycles_per_dispatch" => tuning.cycles_per_dispatch(value),
        "max_blocks" => tuning.max_blocks(value),
        other => return Err(format!("{other} is no hyperparameter")),
    })
}
