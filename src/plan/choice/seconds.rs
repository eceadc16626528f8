//! The seconds of a problem on the CPU and on a GPU, by which [`Backend::Auto`](crate::Backend) decides.
//!
//! Both are closed formulas: a decision takes tens of nanoseconds, where [`Cost`](crate::cost::Cost) counts for milliseconds. With m >= n for the
//! longer and the shorter side, r the product rate of a thread ([`ProductRates`]) in the type's precision, r64 that in f64, and p threads:
//!
//! ```text
//! CPU = (products / r + lines / r64) / S(p) + bytes read / (10 GB/s) + bytes written / (2.5 GB/s)
//! GPU = waits + steps L + flops (1 / peak + bytes per flop / bandwidth) + bytes up / (5 GB/s) + bytes down / (1.5 GB/s)
//! ```
//!
//! `products` are flops at a product's rate. `lines` are a multiple of n^2, for what waits for memory, divisions and the reflector before. S is the
//! speed-up of p threads, at most 2.6 sqrt(sqrt(m n) / 1024). L is the time of a dependent dispatch, `steps` their number, a multiple of n.
//!
//! | | products | lines / n^2 | steps / n | flops |
//! | --- | --- | --- | --- | --- |
//! | values | 1.17 F | 900 if direct, else 1500 | 5.8 | F |
//! | with thin vectors | 1.17 F + V | 3200 | 17.2 | F + V |
//! | QR | 1.25 Q | 250 | 1.3 | 2 Q |
//! | least squares | 2.3 Q | 250 | 1.85 | 2 Q |
//! | band of b superdiagonals | | 25 b + 600 | 3.8 | |
//! | triangle on k columns | 1.1 n^2 k | | 0.1 | n^2 k |
//!
//! F is 8/3 n^3, or 4 m n^2 - 4/3 n^3, or 2 m n^2 + 2 n^3 by a QR factorisation first; V is 22/3 n^3 + 4 m n^2; Q is 2 m n^2 - 2/3 n^3. Complex numbers have
//! four times the flops.
//!
//! The CPU's constants are fitted to two cores of a Zen 5 (values), a Zen 4 (vectors) and a Xeon (test `the_cpus_seconds`), within 1.35 from n = 256 on; other
//! calls are within about 2. S is fitted to PERFORMANCE's speed-ups of 2 to 16 threads, within 1.2 from n = 1024 on. The GPU's constants are fitted
//! to PERFORMANCE's H100, within 1.3 for square matrices. For another device L, peak and bandwidth are those of its [`DeviceModel`], and the result is
//! near what `Cost` says of it (test `near_the_model`). Rates of copies are an H100's. A triangle's constants are of no measurement.

use std::fmt;

use crate::{
    algo::to_band::qr_first,
    base::{element_kind::ElementKind, parallel::threads, registers::Choices},
    cost::device::DeviceModel,
    cpu::rate::ProductRates,
    gpu::device::context::GpuContext,
    plan::{
        choice::{Reason, SMALL, TOO_SMALL, is_too_small, of_pair},
        leading::estimate::Estimate,
        options::RunOptions,
        problem::Problem,
        route::{is_narrow, squares_for_q},
    },
};

/// The processor: the product rates of a thread, and the threads of the call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cpu {
    pub rates: ProductRates,
    pub threads: usize,
}

/// The model of a GPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gpu {
    /// Seconds of a dependent dispatch, with the gap before it.
    step: f64,
    peak: ProductRates,
    /// Bytes a second of its memory that kernels reach.
    bandwidth: f64,
    /// Bytes a second of copies up and down within a call.
    up: f64,
    down: f64,
    /// The part of `waits` that it has.
    waits: f64,
    /// How many times as fast it is as all this says.
    speed: f64,
}

/// Copies on an H100 within a call, by PERFORMANCE.
const UP: f64 = 5e9;
const DOWN: f64 = 1.5e9;
/// What a dependent dispatch does, in cycles: about the same on all devices of the model. (A cycle of `chase` takes 4.3 microseconds on an H100,
/// of which the model has 3 to 4.)
const CYCLES: f64 = 6500.0;
/// Bytes of memory for a flop of f32 in stage 1.
const BYTES: f64 = 0.155;

impl Gpu {
    /// A GPU that no device of today exceeds.
    pub const ANY: Gpu = Gpu {
        step: 3.2e-6,
        peak: ProductRates { f32: 300e12, f64: 150e12 },
        bandwidth: 12e12,
        up: 20e9,
        down: 10e9,
        waits: 0.5,
        speed: 1.0,
    };

    pub fn of(device: &DeviceModel) -> Gpu {
        Gpu {
            step: device.dispatch_seconds + CYCLES / device.clock_hz,
            peak: ProductRates { f32: device.f32_flops, f64: device.f64_flops },
            bandwidth: device.bandwidth * device.bandwidth_reached,
            up: UP,
            down: DOWN,
            waits: 1.0,
            speed: 1.0,
        }
    }

    /// That of a context, corrected by the user's table.
    pub fn of_context(context: &GpuContext, run: &RunOptions) -> Gpu {
        let speed = run.gpu_speed(context.adapter_name()).unwrap_or(1.0);
        Gpu { speed, ..Gpu::of(&context.model()) }
    }

    /// Seconds of this many flops.
    fn throughput(&self, kind: ElementKind, flops: f64) -> f64 {
        let peak = if kind.is_double() { self.peak.f64 } else { self.peak.f32 };
        let bytes = BYTES * (kind.scalar_bytes() as f64 / 4.0) / of_pair(kind);
        // Without flops a device without f64 takes no time for them.
        if flops > 0.0 { flops * (1.0 / peak + bytes / self.bandwidth) } else { 0.0 }
    }
}

/// A problem, in the quantities of the formulas.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    products: f64,
    lines: f64,
    steps: f64,
    flops: f64,
    waits: f64,
    /// Entries that the CPU reads, and bytes of those that it writes first; those that are copied to a GPU and back.
    up: f64,
    down: f64,
    written: f64,
    /// The order that limits the speed-up of threads.
    order: f64,
}

fn work(kind: ElementKind, problem: Problem) -> Work {
    let bytes = kind.bytes() as f64;
    let sides = |m: usize, n: usize| (m.max(n) as f64, m.min(n) as f64);
    let reduction = |m: usize, n: usize| {
        let (l, s) = sides(m, n);
        if qr_first(m.max(n), m.min(n)) { 2.0 * l * s * s + 2.0 * s * s * s } else { 4.0 * l * s * s - 4.0 / 3.0 * s * s * s }
    };
    let real = match problem {
        Problem::Dense { m, n } => {
            let ((l, s), f) = (sides(m, n), reduction(m, n));
            let lines = if m.min(n) <= Choices::here().direct_up_to { 900.0 } else { 1500.0 };
            Work {
                products: 1.17 * f,
                lines: lines * s * s,
                steps: 5.8 * s,
                flops: f,
                waits: 2e-3,
                up: l * s * bytes,
                down: 8.0 * s,
                written: 0.0,
                order: (l * s).sqrt(),
            }
        }
        Problem::Svd { m, n, full } => {
            let ((l, s), f) = (sides(m, n), reduction(m, n));
            let (of_full, rows) = if full { (4.0 * l * l * s, l) } else { (0.0, s) };
            let v = 22.0 / 3.0 * s * s * s + 4.0 * l * s * s + if l > s { of_full } else { 0.0 };
            let down = (l * rows + s * s) * bytes;
            Work {
                products: 1.17 * f + v,
                lines: 3200.0 * s * s,
                steps: 17.2 * s,
                flops: f + v,
                waits: 2e-3,
                up: l * s * bytes,
                down,
                written: down,
                order: (l * s).sqrt(),
            }
        }
        Problem::Leading { m, n, count, steps } => {
            let ((l, s), steps) = (sides(m, n), steps as f64);
            let of_steps = steps * Estimate::new((m, n), count, count.saturating_add(10).min(m.min(n))).step;
            Work {
                products: of_steps,
                lines: 0.0,
                steps: 40.0 * steps,
                flops: of_steps,
                // Small matrices go to the host and back, which decomposes one a step.
                waits: 2e-3 + 2e-3 * steps,
                up: l * s * bytes,
                down: (l + s) * count as f64 * bytes,
                written: 0.0,
                order: (l * s).sqrt(),
            }
        }
        Problem::Qr { m, n, .. } => {
            let (l, s) = sides(m, n);
            let q = 2.0 * l * s * s - 2.0 / 3.0 * s * s * s;
            // CholeskyQR2 computes Q too.
            let squares = is_narrow((m, n)) && squares_for_q(kind, (m, n));
            Work {
                products: if squares { 2.5 } else { 1.25 } * q,
                lines: 250.0 * s * s,
                steps: 1.3 * s,
                flops: 2.0 * q,
                waits: 3e-3,
                up: l * s * bytes,
                down: s * n as f64 * bytes,
                written: if squares { l * s * bytes } else { 0.0 },
                order: (l * s).sqrt(),
            }
        }
        Problem::LeastSquares { m, n, p, ridge } => {
            let ((l, s), p) = (sides(m, n), p as f64);
            let l = if ridge { l + n as f64 } else { l };
            let q = 2.0 * l * s * s - 2.0 / 3.0 * s * s * s;
            Work {
                products: 2.3 * q + 8.0 * l * s * p,
                lines: 250.0 * s * s,
                steps: 1.85 * s,
                flops: 2.0 * q + 8.0 * l * s * p,
                waits: 3e-3 + 1e-2 * (s / 512.0).min(1.0),
                up: l * (s + p) * bytes,
                down: s * (s + p) * bytes,
                written: 0.0,
                order: (l * s).sqrt(),
            }
        }
        Problem::Band { n, bandwidth } => {
            let (n, b) = (n as f64, bandwidth as f64);
            let steps = 3.8 * n * (b / 32.0).ceil().max(1.0);
            let lines = (25.0 * b + 600.0) * n * n;
            Work { lines, steps, waits: 2e-3, up: n * b * bytes, down: 8.0 * n, order: n, ..Work::default() }
        }
        Problem::Triangular { a: (order, _), b: (rows, cols) } => {
            let (n, of_b) = (order as f64, rows as f64 * cols as f64);
            Work {
                products: 1.1 * n * of_b,
                lines: 0.0,
                steps: 0.1 * n,
                flops: n * of_b,
                waits: 2e-3,
                up: (n * n / 2.0 + of_b) * bytes,
                down: of_b * bytes,
                written: 0.0,
                // Columns are independent.
                order: f64::INFINITY,
            }
        }
    };
    let pair = of_pair(kind);
    // On an H100 values of 4096 x 4096 take as long again in f64, and in c32, which is not the throughput.
    let longer = if kind.is_double() { 1.9 } else { 1.0 } * if kind.is_complex() { 1.9 } else { 1.0 };
    Work {
        products: pair * real.products,
        lines: pair * real.lines,
        steps: longer * real.steps,
        flops: pair * real.flops,
        ..real
    }
}

impl Cpu {
    /// That of a call, in the pool that it is called from: by the user's table, or measured.
    pub fn here(run: &RunOptions) -> Cpu {
        let rates = run.cpu_rates().unwrap_or_else(ProductRates::here);
        Cpu { rates, threads: run.threads.unwrap_or_else(threads) }
    }

    /// How many times as fast p threads are as one.
    fn speed_up(&self, order: f64) -> f64 {
        let (p, most) = (self.threads as f64, 2.6 * (order / 1024.0).sqrt());
        if p <= 1.0 || most <= 1.0 {
            return 1.0;
        }
        (p.powi(-3) + most.powi(-3)).cbrt().recip().max(1.0)
    }

    fn alone(&self, kind: ElementKind, work: &Work) -> f64 {
        let rate = if kind.is_double() { self.rates.f64 } else { self.rates.f32 };
        work.products / rate + work.lines / self.rates.f64
    }

    fn memory(work: &Work) -> f64 {
        work.up / 10e9 + work.written / 2.5e9
    }

    /// Seconds of a call.
    pub fn seconds(&self, kind: ElementKind, problem: Problem) -> f64 {
        let work = work(kind, problem);
        self.alone(kind, &work) / self.speed_up(work.order) + Cpu::memory(&work)
    }

    /// Seconds of a call on one thread.
    pub fn seconds_of_one(&self, kind: ElementKind, problem: Problem) -> f64 {
        let work = work(kind, problem);
        self.alone(kind, &work) + Cpu::memory(&work)
    }

    /// Seconds that one of many matrices adds to a batch, each on a thread of its own.
    pub fn seconds_beside(&self, kind: ElementKind, problem: Problem) -> f64 {
        self.seconds_of_one(kind, problem) / (0.9 * self.threads as f64).max(1.0)
    }
}

impl Gpu {
    /// Seconds of a call, with its copies.
    pub fn seconds(&self, kind: ElementKind, problem: Problem) -> f64 {
        let work = work(kind, problem);
        let copies = work.up / self.up + work.down / self.down;
        self.scaled(work.waits * self.waits + work.steps * self.step + self.throughput(kind, work.flops) + copies)
    }

    /// Seconds of `count` matrices of one shape that share dispatches. They are packed by the host: 32 of 1024 x 1024 at 2.9 GB/s on an H100, and
    /// their vectors come down at 0.5.
    pub fn seconds_of_stack(&self, kind: ElementKind, problem: Problem, count: usize) -> f64 {
        let (work, count) = (work(kind, problem), count as f64);
        let copies = work.up / (0.58 * self.up) + work.down / (0.33 * self.down);
        let each = self.throughput(kind, work.flops) + copies;
        self.scaled(work.waits * self.waits + work.steps * self.step + count * each)
    }

    /// Seconds of matrices of so many entries in all, one workgroup each. On an H100 10,000 of 32 x 32 take 28 ms, with vectors 116: mostly
    /// what the host does to each entry.
    pub fn seconds_in_workgroups(&self, kind: ElementKind, entries: f64, vectors: bool) -> f64 {
        let slower = 67e12 / self.peak.f32;
        let a_byte = if vectors { 2e-9 + 0.8e-9 * slower } else { 0.5e-9 + 0.1e-9 * slower };
        self.scaled(3e-3 * self.waits + entries * kind.bytes() as f64 * a_byte * UP / self.up)
    }

    fn scaled(&self, seconds: f64) -> f64 {
        seconds / self.speed
    }
}

/// The seconds that `Backend::Auto` has compared.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Compared {
    pub cpu: f64,
    pub gpu: f64,
    /// Whether these are the least of any GPU.
    pub any: bool,
}

impl Compared {
    /// Whether the GPU is faster.
    pub fn gains(&self) -> bool {
        self.gpu < self.cpu
    }
}

/// The reason for a backend.
impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Compared { cpu, gpu, any } = self;
        if any {
            return write!(f, "the CPU would take about {}, any GPU at least {}", Shown(cpu), Shown(gpu));
        }
        write!(f, "the GPU would take about {}, the CPU {}", Shown(gpu), Shown(cpu))
    }
}

/// Seconds with two digits and a unit.
struct Shown(f64);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            s if s < 9.95e-4 => write!(f, "{:.2} ms", 1e3 * s),
            s if s < 9.95e-3 => write!(f, "{:.1} ms", 1e3 * s),
            s if s < 0.9995 => write!(f, "{:.0} ms", 1e3 * s),
            s if s.is_finite() => write!(f, "{s:.1} s"),
            _ => f.write_str("for ever"),
        }
    }
}

/// The CPU's seconds if a GPU may be faster, or the reason why none can be; None if the options ask for what a device alone has, or the CPU emulates
/// slowly. No device is opened.
pub(crate) fn any_may_gain(
    kind: ElementKind,
    run: &RunOptions,
    bound: bool,
    problem: Problem,
) -> std::result::Result<Option<f64>, Reason> {
    if bound || problem.is_by_products() {
        return Ok(None);
    }
    if is_too_small(kind, problem) {
        return Err(TOO_SMALL.into());
    }
    let gpu = Gpu::ANY.seconds(kind, problem);
    // The number of threads is that of rayon's pool, which a call on one thread need not start.
    let alone = Cpu { rates: run.cpu_rates().unwrap_or_else(ProductRates::here), threads: 1 };
    let compared = Compared { cpu: alone.seconds(kind, problem), gpu, any: true };
    if !compared.gains() {
        return Err(reason_of(&compared));
    }
    let cpu = Cpu { threads: run.threads.unwrap_or_else(threads), ..alone }.seconds(kind, problem);
    let compared = Compared { cpu, ..compared };
    if compared.gains() { Ok(Some(cpu)) } else { Err(reason_of(&compared)) }
}

/// Short calls have a reason that allocates no memory.
fn reason_of(compared: &Compared) -> Reason {
    if compared.cpu < SMALL { TOO_SMALL.into() } else { compared.to_string().into() }
}

/// The reason for this GPU, or for the CPU, which takes so many seconds.
pub(crate) fn gains(
    cpu: Option<f64>,
    (kind, problem): (ElementKind, Problem),
    run: &RunOptions,
    context: &GpuContext,
) -> std::result::Result<Reason, Reason> {
    let Some(cpu) = cpu else { return Ok("the options ask for what a GPU computes".into()) };
    let gpu = Gpu::of_context(context, run).seconds(kind, problem);
    let compared = Compared { cpu, gpu, any: false };
    let reason = Reason::from(compared.to_string());
    if compared.gains() { Ok(reason) } else { Err(reason) }
}

#[cfg(test)]
mod tests;
