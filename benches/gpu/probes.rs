//! What a first day on hardware asks besides seconds: whether results repeat, what a dispatch costs, and which hyperparameters are best.

use std::{collections::BTreeMap, error::Error, time::Instant};

use faer::{Mat, MatRef};
use svdvals_gpu::{Backend, Element, GpuContext, SvdError, SvdGpu, SvdOptions, SvdValsGpu, Tuning, wgpu};

use crate::{Arguments, SEED, matrix, median, shared::with_type, sources, vulkan};

/// Runs of the same input.
const RUNS: usize = 20;
/// Dispatches of the longer pass, and of the shorter one.
const DISPATCHES: [u32; 2] = [5000, 100];
/// Pairs of a longer and a shorter pass.
const TURNS: usize = 5;

/// A question.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Probe {
    /// Values and vectors of the same matrix, 20 times: equal bit by bit?
    Repeat,
    /// Seconds of a dispatch that depends on the one before, by wgpu and with other barriers.
    Gap,
    /// What the driver's compiler says of the kernels.
    Statistics,
    /// Seconds of bytes to the device by staging memory, with and without what fills it.
    Upload,
    /// What the host does in calls with thin vectors, and how long.
    Host,
    /// Seconds over each hyperparameter, the others at their defaults.
    Grid,
}

pub fn run(probe: Probe, context: &GpuContext, sizes: &[usize], arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    match probe {
        Probe::Repeat => {
            for &name in &arguments.types {
                with_type!(name, T => repeat::<T>(context, sizes))?;
            }
            Ok(())
        }
        Probe::Gap => gap(context),
        Probe::Upload => upload(context),
        Probe::Host => {
            sources::keep_host()?;
            for &name in &arguments.types {
                with_type!(name, T => host::<T>(context, sizes))?;
            }
            Ok(())
        }
        Probe::Statistics => vulkan::statistics(context, sizes, arguments),
        Probe::Grid => {
            for &name in &arguments.types {
                with_type!(name, T => grid::<T>(context, sizes, arguments))?;
            }
            Ok(())
        }
    }
}

/// The matrix of a size.
fn held<T: Element>(n: usize) -> Result<Vec<T>, Box<dyn Error>> {
    matrix::<T>(n, n, SEED).ok_or_else(|| "the host holds no such matrix".into())
}

fn repeat<T: Element>(context: &GpuContext, sizes: &[usize]) -> Result<(), Box<dyn Error>> {
    let options = SvdOptions::default().backend(Backend::Gpu).context(context.clone());
    let mut differing = 0;
    for &n in sizes {
        let a = held::<T>(n)?;
        let a = MatRef::from_column_major_slice(&a, n, n);
        let (mut values, mut vectors): (Vec<_>, Vec<Mat<T::Scalar>>) = Default::default();
        for _ in 0..RUNS {
            values.push(a.svdvals_gpu_with(&options)?);
            vectors.push(a.svd_gpu_with(&options)?.u);
        }
        let off = [values.iter().filter(|s| **s != values[0]).count(), vectors.iter().filter(|u| **u != vectors[0]).count()];
        println!("{} n = {n}: of {RUNS} runs {} differ from the first in values, {} in left vectors", T::NAME, off[0], off[1]);
        differing += off[0] + off[1];
    }
    if differing > 0 { Err(format!("{differing} runs of the same input differ").into()) } else { Ok(()) }
}

/// The third call of its shape, which compiles nothing and allocates nothing on the device, without clocks between its stages. What is done by several threads, or
/// within another part, counts in both, so that parts need not add up to the whole.
fn host<T: Element>(context: &GpuContext, sizes: &[usize]) -> Result<(), Box<dyn Error>> {
    let options = SvdOptions::default().backend(Backend::Gpu).context(context.clone());
    for &n in sizes {
        let a = held::<T>(n)?;
        let a = MatRef::from_column_major_slice(&a, n, n);
        let mut seconds = 0.0;
        for _ in 0..3 {
            sources::take_host();
            let start = Instant::now();
            drop(a.svd_gpu_with(&options)?);
            seconds = start.elapsed().as_secs_f64();
        }
        let mut all: BTreeMap<String, (usize, f64)> = BTreeMap::new();
        for (what, ms) in sources::take_host() {
            let (count, sum) = all.entry(what).or_default();
            (*count, *sum) = (*count + 1, *sum + ms);
        }
        println!("{} n = {n}, thin vectors: {:.3} ms", T::NAME, 1e3 * seconds);
        all.iter().for_each(|(what, (count, ms))| println!("{ms:>12.3} ms  {count:>5} x {what}"));
    }
    Ok(())
}

/// The WGSL of `gap`.
const STEP: &str = "@group(0) @binding(0) var<storage, read_write> count: array<u32>;
    @compute @workgroup_size(1) fn step() { count[0] += 1u; }";

/// A row of `gap`'s table: seconds of a dispatch on the host, and from submission on.
fn gap_row(title: &str, [recorded, ran]: [f64; 2]) {
    println!("| {title} | {:.2} | {:.2} |", 1e6 * recorded, 1e6 * ran);
}

/// A dispatch of one thread adds 1 to a number, so that the next one has to wait for it.
fn gap(context: &GpuContext) -> Result<(), Box<dyn Error>> {
    let (device, queue) = (context.device(), context.queue());
    let module =
        device.create_shader_module(wgpu::ShaderModuleDescriptor { label: None, source: wgpu::ShaderSource::Wgsl(STEP.into()) });
    let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: None,
        layout: None,
        module: &module,
        entry_point: None,
        compilation_options: Default::default(),
        cache: None,
    });
    let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC;
    let buffer = device.create_buffer(&wgpu::BufferDescriptor { label: None, size: 16, usage, mapped_at_creation: false });
    let entries = [wgpu::BindGroupEntry { binding: 0, resource: buffer.as_entire_binding() }];
    let layout = pipeline.get_bind_group_layout(0);
    let bindings = device.create_bind_group(&wgpu::BindGroupDescriptor { label: None, layout: &layout, entries: &entries });
    let seconds = |count: u32| -> Result<[f64; 2], Box<dyn Error>> {
        let start = Instant::now();
        let mut encoder = device.create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            pass.set_pipeline(&pipeline);
            pass.set_bind_group(0, &bindings, &[]);
            (0..count).for_each(|_| pass.dispatch_workgroups(1, 1, 1));
        }
        let commands = encoder.finish();
        let ready = Instant::now();
        queue.submit([commands]);
        device.poll(wgpu::PollType::wait_indefinitely())?;
        Ok([(ready - start).as_secs_f64(), ready.elapsed().as_secs_f64()])
    };
    seconds(DISPATCHES[1])?; // the pipeline's first use
    let mut runs = Vec::new();
    for _ in 0..TURNS {
        let [long, short] = [seconds(DISPATCHES[0])?, seconds(DISPATCHES[1])?];
        runs.push([0, 1].map(|k| (long[k] - short[k]) / f64::from(DISPATCHES[0] - DISPATCHES[1])));
    }
    println!("{} dependent dispatches; the model's default is its devices' `dispatch_seconds`\n", DISPATCHES[0]);
    println!("| by | recorded, us each | ran, us each |\n| --- | --- | --- |");
    gap_row("wgpu", [0, 1].map(|k| median(runs.iter().map(|run: &[f64; 2]| run[k]).collect())));
    for (title, seconds) in vulkan::gap(context, STEP, DISPATCHES, TURNS)? {
        gap_row(title, seconds);
    }
    Ok(())
}

/// Copies 256 MiB to the device in chunks: by new staging memory for each, by memory that stays mapped in turns, and with nothing written to it.
fn upload(context: &GpuContext) -> Result<(), Box<dyn Error>> {
    const BYTES: usize = 256 << 20;
    let (device, queue) = (context.device(), context.queue());
    let buffer = |size, usage, mapped| {
        device.create_buffer(&wgpu::BufferDescriptor { label: None, size: size as u64, usage, mapped_at_creation: mapped })
    };
    let target = buffer(BYTES, wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST, false);
    let host = vec![1u8; BYTES];
    println!("| chunk, MiB | staging memory | GB/s |\n| --- | --- | --- |");
    for chunk in [1usize, 4, 16, 64].map(|mib| mib << 20) {
        let size = wgpu::BufferSize::new(chunk as u64).ok_or("no size")?;
        for (title, fills) in [("new", true), ("new, not filled", false)] {
            let mut runs = Vec::new();
            for _ in 0..TURNS {
                let start = Instant::now();
                for at in (0..BYTES).step_by(chunk) {
                    let mut view = queue.write_buffer_with(&target, at as u64, size).ok_or("no staging memory")?;
                    if fills {
                        view.slice(..).copy_from_slice(&host[at..at + chunk]);
                    }
                    drop(view);
                    queue.submit([]);
                }
                device.poll(wgpu::PollType::wait_indefinitely())?;
                runs.push(start.elapsed().as_secs_f64());
            }
            println!("| {} | {title} | {:.2} |", chunk >> 20, 1e-9 * BYTES as f64 / median(runs));
        }
        let usage = wgpu::BufferUsages::MAP_WRITE | wgpu::BufferUsages::COPY_SRC;
        let ring: Vec<_> = (0..3).map(|_| buffer(chunk, usage, true)).collect();
        let mut runs = Vec::new();
        for _ in 0..TURNS {
            let start = Instant::now();
            let mut submitted = Vec::new();
            for (k, at) in (0..BYTES).step_by(chunk).enumerate() {
                let staging = &ring[k % ring.len()];
                if let Some(index) = k.checked_sub(ring.len()).and_then(|k| submitted.get(k)).cloned() {
                    device.poll(wgpu::PollType::Wait { submission_index: Some(index), timeout: None })?;
                }
                staging.slice(..).get_mapped_range_mut()?.slice(..).copy_from_slice(&host[at..at + chunk]);
                staging.unmap();
                let mut encoder = device.create_command_encoder(&Default::default());
                encoder.copy_buffer_to_buffer(staging, 0, &target, at as u64, chunk as u64);
                submitted.push(queue.submit([encoder.finish()]));
                staging.slice(..).map_async(wgpu::MapMode::Write, |_| ());
            }
            device.poll(wgpu::PollType::wait_indefinitely())?;
            runs.push(start.elapsed().as_secs_f64());
        }
        println!("| {} | kept | {:.2} |", chunk >> 20, 1e-9 * BYTES as f64 / median(runs));
    }
    Ok(())
}

fn grid<T: Element>(context: &GpuContext, sizes: &[usize], arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let default = |n| Tuning::for_adapter::<T::Scalar>(context, n);
    for &n in sizes {
        let a = held::<T>(n)?;
        let a = MatRef::from_column_major_slice(&a, n, n);
        println!("\n{}, n = {n}; default {}\n", T::NAME, default(n));
        println!("| hyperparameter | value | total s | to_band s | band_to_bidiag s |\n| --- | --- | --- | --- | --- |");
        let row = |name: &str, value: usize, tuning: Tuning| -> Result<(), Box<dyn Error>> {
            let options = SvdOptions::default().backend(Backend::Gpu).context(context.clone()).tuning(tuning);
            let mut runs = Vec::new();
            for run in 0..=arguments.repeat.min(3) {
                match a.svdvals_gpu_report(&options) {
                    Ok(report) if run > 0 => runs.push(report.seconds),
                    Ok(_) => {} // compiles the shaders
                    Err(error) => {
                        println!("| {name} | {value} | {error} | | |");
                        return Ok(());
                    }
                }
            }
            let of = |seconds: fn(&svdvals_gpu::StageSeconds) -> f64| median(runs.iter().map(seconds).collect());
            println!(
                "| {name} | {value} | {:.5} | {:.5} | {:.5} |",
                of(|s| s.total),
                of(|s| s.to_band),
                of(|s| s.band_to_bidiag)
            );
            Ok(())
        };
        row("default", 0, default(n))?;
        for leaf in [128, 256, 512] {
            row("leaf", leaf, default(n).leaf(leaf))?;
        }
        for split in [4, 8, 16, 32] {
            row("split_k", split, default(n).split_k(split))?;
        }
        for columns in [32, 64, 128] {
            row("cols_per_block", columns, default(n).cols_per_block(columns))?;
        }
        for tiles in [0, 2, 4] {
            row("tiles_held", tiles, default(n).tiles_held(tiles))?;
        }
        for split in [0, 2, 4] {
            row("split_beside", split, default(n).split_beside(split))?;
        }
        for columns in [0, 64, 128, 256, 512] {
            for beside in [0, 1] {
                let tuning = default(n).deferred_columns(columns).deferred_from(n / 5).deferred_beside(beside);
                row(["deferred_columns", "deferred_columns, beside"][beside], columns, tuning)?;
            }
        }
        for threads in [64, 128, 256] {
            row("threads_per_block", threads, default(n).threads_per_block(threads))?;
        }
        for sweeps in [1, 2, 4, 8] {
            row("sweeps_per_block", sweeps, default(n).sweeps_per_block(sweeps))?;
        }
        for (lines, sweeps, cycles) in [(0, 1, 1), (1, 4, 4), (2, 1, 1), (2, 1, 4), (2, 2, 4), (2, 4, 4), (2, 4, 8), (2, 8, 8)] {
            let tuning = default(n).lines_per_thread(lines).sweeps_per_block(sweeps).cycles_per_dispatch(cycles);
            row(&format!("lines_per_thread, {sweeps} sweeps, {cycles} cycles"), lines, tuning)?;
        }
        for cycles in [1, 2, 3, 4, 8] {
            row("cycles_per_dispatch", cycles, default(n).cycles_per_dispatch(cycles))?;
        }
        println!("\nWith all vectors:\n\n| hyperparameter | value | total s |\n| --- | --- | --- |");
        for rows in [32, 64, 128] {
            let tuning = default(n).rows_per_block(rows);
            let options = SvdOptions::default().backend(Backend::Gpu).context(context.clone()).tuning(tuning);
            let mut runs = Vec::new();
            let mut run = || -> Result<(), SvdError> {
                a.svd_gpu_with(&options)?; // compiles the shaders
                for _ in 0..arguments.repeat.min(3) {
                    let start = Instant::now();
                    a.svd_gpu_with(&options)?;
                    runs.push(start.elapsed().as_secs_f64());
                }
                Ok(())
            };
            match run() {
                Ok(()) => println!("| rows_per_block | {rows} | {:.5} |", median(runs)),
                Err(error) => println!("| rows_per_block | {rows} | {error} |"),
            }
        }
    }
    Ok(())
}
