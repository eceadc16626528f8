//! Where the time of `chase` goes: its text as it is, and with parts left out. Only the seconds mean anything.

use std::{error::Error, time::Instant};

use svdvals_gpu::{
    Backend, Band, GpuContext, SvdOptions, Tuning,
    internals::{BandLayout, ReductionStep},
    wgpu::{self, BindingResource, BufferUsages, ShaderRuntimeChecks},
};

use crate::{SEED, common, median, sources};

/// Dispatches that are timed, and times that they are.
const DISPATCHES: usize = 200;
const TURNS: usize = 3;

/// Dispatches in the middle of a reduction step: their parameters and workgroups.
struct Middle {
    entries: usize,
    dispatches: Vec<([u32; 9], u32)>,
}

impl Middle {
    /// Of the first reduction step of a matrix of order n, with the teams that the WGSL has.
    fn of(n: usize, tuning: &Tuning, wgsl: &str) -> Result<Middle, Box<dyn Error>> {
        let team = wgsl.split_once("const TEAM: u32 = ").and_then(|(_, rest)| rest.split_once('u'));
        let team = team.and_then(|(team, _)| team.parse().ok()).ok_or("the WGSL has no TEAM")?;
        let (bandwidth, cycles) = (tuning.tile_size, tuning.gpu.cycles_per_dispatch);
        if n <= bandwidth || bandwidth < 2 {
            return Err(format!("a matrix of order {n} has no step with a band of {bandwidth}").into());
        }
        let step = ReductionStep { n, bandwidth, tile_width: tuning.tile_width.min(bandwidth - 1) };
        let layout = BandLayout::new(n, bandwidth, step.tile_width);
        let schedule = step.schedule(cycles, team);
        let of = |time: usize| {
            let active = schedule.active(time);
            let shape = [n, layout.ld(), layout.ku, bandwidth, step.tile_width];
            let [a, b, c, d, e] = shape.map(|x| x as u32);
            let teams = active.len().min(tuning.gpu.max_blocks) as u32;
            ([a, b, c, d, e, cycles as u32, (cycles * time) as u32, active.start as u32, active.len() as u32], teams)
        };
        let middle = schedule.times() / 2;
        let times = middle..schedule.times().min(middle + DISPATCHES);
        Ok(Middle { entries: layout.size()?, dispatches: times.map(of).filter(|(_, teams)| *teams > 0).collect() })
    }
}

/// `text` with the body of a function replaced; None if there is no such function.
fn with_body(text: &str, function: &str, body: &str) -> Option<String> {
    let start = text.find(&format!("fn {function}("))?;
    let open = start + text[start..].find('{')?;
    let mut depth = 0;
    let close = text[open..].find(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        depth == 0
    })?;
    Some(format!("{}{{ {body} {}", &text[..open], &text[open + close..]))
}

/// The text with all stores to the band behind a condition that is false. Without them a compiler leaves all else out too.
fn without_stores(text: &str) -> Option<String> {
    let (mut rest, mut to) = (text, String::new());
    while let Some(at) = rest.find("band[") {
        let end = at + rest[at..].find(';')? + 1;
        let statement = &rest[at..end];
        let stores = statement.contains("] = store(");
        to += &rest[..at];
        to += &if stores { format!("if params.n == 0u {{ {statement} }}") } else { statement.into() };
        rest = &rest[end..];
    }
    to += rest;
    (to != text).then_some(to)
}

/// What is timed: a title, and the text.
fn variants(wgsl: &str) -> Vec<(&'static str, Option<String>)> {
    let plain = with_body(wgsl, "add", "return Pair(sum.hi + x, sum.lo);");
    let plain = plain.and_then(|text| with_body(&text, "exact_product", "return Pair(a * b, Real(0.0));"));
    let no_barrier = wgsl.replace("storageBarrier();", "");
    vec![
        ("as it is", Some(wgsl.into())),
        ("without storageBarrier", (no_barrier != wgsl).then_some(no_barrier)),
        ("without compensated sums and products", plain),
        ("without stores", without_stores(wgsl)),
    ]
}

/// Microseconds of a dispatch of each variant, in f32, for each size.
pub fn chase(context: &GpuContext, sizes: &[usize]) -> Result<(), Box<dyn Error>> {
    sources::keep()?;
    let options = SvdOptions::default().backend(Backend::Gpu).context(context.clone());
    let mut text = String::new();
    for &n in sizes {
        let tuning = Tuning::for_adapter::<f32>(context, n);
        // A small band makes the pipeline.
        let b = tuning.tile_size;
        let small =
            Band::from_fn(4 * b, b, |i, j| common::signed_uniform(common::splitmix64(SEED, (i + 4 * b * j) as u64)) as f32)?;
        small.band_to_bidiag(&options.clone().tuning(tuning.clone()))?;
        // Sizes that share a pipeline have no new text.
        if let Some((_, wgsl)) = sources::take().into_iter().find(|(title, _)| title == "chase f32") {
            text = wgsl;
        }
        let middle = Middle::of(n, &tuning, &text)?;
        let teams = middle.dispatches.first().map_or(0, |(_, teams)| *teams);
        println!(
            "\nchase f32, n = {n}, {} dispatches from the middle on, the first of {teams} workgroups; {tuning}",
            middle.dispatches.len()
        );
        println!("\n| variant | us a dispatch |\n| --- | --- |");
        for (title, variant) in variants(&text) {
            match variant {
                Some(variant) => println!("| {title} | {:.2} |", 1e6 * seconds(context, &variant, &middle)?),
                None => println!("| {title} | the text has none |"),
            }
        }
    }
    Ok(())
}

/// Seconds of a dispatch.
fn seconds(context: &GpuContext, wgsl: &str, middle: &Middle) -> Result<f64, Box<dyn Error>> {
    let (device, queue) = (context.device(), context.queue());
    if !wgsl.contains("var<immediate>") {
        return Err("the device has no immediates".into());
    }
    let source = wgpu::ShaderModuleDescriptor { label: None, source: wgpu::ShaderSource::Wgsl(wgsl.into()) };
    // SAFETY: the crate's own text, with the bounds of `BandLayout` and `Schedule`; what is left out is no index, bound or divisor.
    let module = unsafe { device.create_shader_module_trusted(source, ShaderRuntimeChecks::unchecked()) };
    let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
        label: None,
        entries: &[wgpu::BindGroupLayoutEntry {
            binding: 0,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer {
                ty: wgpu::BufferBindingType::Storage { read_only: false },
                has_dynamic_offset: false,
                min_binding_size: None,
            },
            count: None,
        }],
    });
    let pipeline_layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
        label: None,
        bind_group_layouts: &[Some(&layout)],
        immediate_size: size_of::<[u32; 9]>() as u32,
    });
    let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: None,
        layout: Some(&pipeline_layout),
        module: &module,
        entry_point: Some("chase"),
        compilation_options: wgpu::PipelineCompilationOptions { zero_initialize_workgroup_memory: false, ..Default::default() },
        cache: None,
    });
    let usage = BufferUsages::STORAGE | BufferUsages::COPY_DST;
    let buffer = device.create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size: (4 * middle.entries as u64).next_multiple_of(16),
        usage,
        mapped_at_creation: false,
    });
    let bindings = [wgpu::BindGroupEntry { binding: 0, resource: BindingResource::Buffer(buffer.as_entire_buffer_binding()) }];
    let bindings = device.create_bind_group(&wgpu::BindGroupDescriptor { label: None, layout: &layout, entries: &bindings });
    let numbers =
        (0..middle.entries as u64).flat_map(|k| (common::signed_uniform(common::splitmix64(SEED, k)) as f32).to_le_bytes());
    let numbers: Vec<u8> = numbers.collect();
    let mut found = Vec::new();
    // The first turn is the pipeline's first use.
    for turn in 0..=TURNS {
        queue.write_buffer(&buffer, 0, &numbers);
        queue.submit([]);
        device.poll(wgpu::PollType::wait_indefinitely())?;
        let mut encoder = device.create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            pass.set_pipeline(&pipeline);
            pass.set_bind_group(0, &bindings, &[]);
            for (parameters, teams) in &middle.dispatches {
                let words: Vec<u8> = parameters.iter().flat_map(|word| word.to_le_bytes()).collect();
                pass.set_immediates(0, &words);
                pass.dispatch_workgroups(*teams, 1, 1);
            }
        }
        let commands = encoder.finish();
        let start = Instant::now();
        queue.submit([commands]);
        device.poll(wgpu::PollType::wait_indefinitely())?;
        if turn > 0 {
            found.push(start.elapsed().as_secs_f64() / middle.dispatches.len().max(1) as f64);
        }
    }
    Ok(median(found))
}
