//! A device of the program's own, shared with this crate: a compute shader fills a matrix, and its singular values are found where it is.
//!
//! ```text
//! cargo run --release --example own_device            200 points
//! cargo run --release --example own_device -- 2000    as many as that
//! ```
//!
//! The matrix is that of kernel methods (Gaussian processes, kernel ridge regression), K_ij = exp(-|p_i - p_j|^2 / (2 l^2)) for points p_i
//! in the plane. It is symmetric and positive semidefinite, so that its singular values are its eigenvalues: they say how many numbers
//! describe a smooth function on these points. Then a second shader adds lambda to its diagonal, in the same buffer, as ridge regression does,
//! which raises every value by lambda.

use std::{env, error::Error, f32::consts::PI, time::Instant};

use faer::Mat;
use pollster::block_on;
use svdvals_gpu::{
    Backend, GpuContext, GpuMatrix, SvdOptions, SvdValsGpu,
    wgpu::{self, BufferUsages, util::DeviceExt},
};

const SHADERS: &str = "
override n: u32;
override length: f32;
override lambda: f32;

@group(0) @binding(0) var<storage, read_write> k: array<f32>;
@group(0) @binding(1) var<storage, read> points: array<vec2<f32>>;

@compute @workgroup_size(8, 8)
fn fill(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < n && id.y < n {
        let d = points[id.y] - points[id.x];
        k[id.y * n + id.x] = exp(-dot(d, d) / (2.0 * length * length));
    }
}

@compute @workgroup_size(64)
fn add_lambda(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < n {
        k[id.x * (n + 1u)] += lambda;
    }
}
";

/// Over what distance points are alike, of those in a disc of radius 1.
const LENGTH: f32 = 0.3;
const LAMBDA: f32 = 0.5;

/// The program's own device.
struct Gpu {
    device: wgpu::Device,
    queue: wgpu::Queue,
    info: wgpu::AdapterInfo,
}

impl Gpu {
    /// Whatever the program itself needs of the device, and as much as there is of what this crate can use.
    fn open() -> Result<Gpu, Box<dyn Error>> {
        let instance = wgpu::Instance::default();
        let adapter = block_on(instance.request_adapter(&wgpu::RequestAdapterOptions {
            power_preference: wgpu::PowerPreference::HighPerformance,
            ..Default::default()
        }))?;
        let useful = wgpu::Features::IMMEDIATES | wgpu::Features::SUBGROUP | wgpu::Features::SHADER_F64;
        let (device, queue) = block_on(adapter.request_device(&wgpu::DeviceDescriptor {
            label: Some("own_device"),
            required_features: useful & adapter.features(),
            required_limits: adapter.limits(),
            ..Default::default()
        }))?;
        Ok(Gpu { device, queue, info: adapter.get_info() })
    }

    /// Submits one dispatch of a kernel of [`SHADERS`], and does not wait for it.
    fn run(&self, kernel: &str, n: usize, buffers: &[&wgpu::Buffer], grid: [u32; 2]) {
        let source = wgpu::ShaderSource::Wgsl(SHADERS.into());
        let module = self.device.create_shader_module(wgpu::ShaderModuleDescriptor { label: Some(kernel), source });
        let constants = [("n", n as f64), ("length", LENGTH.into()), ("lambda", LAMBDA.into())];
        let pipeline = self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(kernel),
            layout: None,
            module: &module,
            entry_point: Some(kernel),
            compilation_options: wgpu::PipelineCompilationOptions { constants: &constants, ..Default::default() },
            cache: None,
        });
        let entries =
            (0..).zip(buffers).map(|(binding, buffer)| wgpu::BindGroupEntry { binding, resource: buffer.as_entire_binding() });
        let bindings = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some(kernel),
            layout: &pipeline.get_bind_group_layout(0),
            entries: &entries.collect::<Vec<_>>(),
        });
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, &bindings, &[]);
        pass.dispatch_workgroups(grid[0], grid[1], 1);
        drop(pass);
        self.queue.submit([encoder.finish()]);
    }
}

/// Points spread evenly over the unit disc, on a spiral.
fn points(n: usize) -> Vec<[f32; 2]> {
    let golden = PI * (3.0 - 5f32.sqrt());
    let at = |k: f32, n: f32| [(k * golden).cos(), (k * golden).sin()].map(|x| ((k + 0.5) / n).sqrt() * x);
    (0..n).map(|k| at(k as f32, n as f32)).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let n: usize = match env::args().nth(1).map(|word| word.parse()) {
        None => 200,
        Some(Ok(n)) if (1..=16384).contains(&n) => n,
        Some(_) => return Err("usage: own_device [number of points, up to 16384]".into()),
    };
    let gpu = Gpu::open()?;
    println!("device    {}, made by this program", gpu.info.name);

    // The program's own work on its device: points up, K by a shader.
    let points = points(n);
    let on_device = gpu.device.create_buffer_init(&wgpu::util::BufferInitDescriptor {
        label: Some("points"),
        contents: bytemuck::cast_slice(&points),
        usage: BufferUsages::STORAGE,
    });
    let k = gpu.device.create_buffer(&wgpu::BufferDescriptor {
        label: Some("K"),
        size: (n * n * size_of::<f32>()) as u64,
        usage: BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    let groups = n.div_ceil(8) as u32;
    gpu.run("fill", n, &[&k, &on_device], [groups, groups]);

    // The crate on the same device and queue: what was submitted before is done before.
    let context = GpuContext::from_wgpu(gpu.device.clone(), gpu.queue.clone(), gpu.info.clone());
    let matrix = GpuMatrix::<f32>::from_buffer(&context, k.clone(), (n, n), (n, 1))?;
    let start = Instant::now();
    let report = matrix.svdvals_report(&SvdOptions::default())?;
    println!("K         {n} x {n}, by a shader of this program; {} bytes", k.size());
    println!(
        "svdvals   {:.3} s, compiling included; {} bytes read back",
        start.elapsed().as_secs_f64(),
        report.counts.bytes_read_back
    );

    // The same buffer, changed by the program, once more.
    gpu.run("add_lambda", n, &[&k], [n.div_ceil(64) as u32, 1]);
    let raised = matrix.svdvals(&SvdOptions::default())?;

    let s = &report.values;
    let condition = |s: &[f32]| s[0] / s[n - 1].max(f32::EPSILON * s[0]);
    let freedom: f32 = s.iter().map(|s| s / (s + LAMBDA)).sum();
    println!("values    {:.3e} to {:.3e}: K describes {n} points by about {freedom:.1} numbers", s[0], s[n - 1]);
    println!("condition at least {:.1e}; with lambda = {LAMBDA} on the diagonal {:.1e}", condition(s), condition(&raised));

    // The host's K, in f64, and its values.
    let distance = |i: usize, j: usize| {
        let d: [f64; 2] = [0, 1].map(|x| f64::from(points[i][x]) - f64::from(points[j][x]));
        d[0] * d[0] + d[1] * d[1]
    };
    let of_host = Mat::from_fn(n, n, |i, j| (-distance(i, j) / (2.0 * f64::from(LENGTH).powi(2))).exp());
    let want = of_host.svdvals_gpu_with(&SvdOptions::default().backend(Backend::Cpu))?;
    let furthest = |found: &[f32], lambda: f32| {
        found.iter().zip(want.iter()).map(|(x, y)| (f64::from(*x) - y - f64::from(lambda)).abs()).fold(0.0, f64::max)
    };
    let (first, second) = (furthest(s, 0.0), furthest(&raised, LAMBDA));
    println!("deviation {first:.1e}, and with lambda {second:.1e}, from the host's K in f64");
    // Entries of at most 1, each off by no more than 8 eps (Vulkan's exp(-x) by 3 + 2 x units, x by 3): no value moves by more than
    // ||E||_F <= 8 n eps. The values' own error is less.
    let bound = 8.0 * n as f64 * f64::from(f32::EPSILON);
    if first.max(second) > bound {
        return Err(format!("that is more than 8 n eps = {bound:.1e}").into());
    }
    Ok(())
}
