//! All cases.

use half::{bf16, f16};
use num_complex::Complex;
use svdvals_gpu::{HalfStorage, Reduction, Stage3, Vectors, wgpu::Features};

use super::{
    Body, Call, Case, Env,
    batches::{LARGE, MANY, SMALL, batch, batch_accuracy, batch_vectors, stacked, stacked_rank_1, stacked_vectors},
    devices::{Dev, devices, little_memory, loose, narrow, software},
    factors::{
        accuracy, band_vectors, decomposition, deferred_reflectors, leading, one_stage, orthogonal, reflectors, resident_factors,
        resident_vectors, rewritten,
    },
    pairs::pairs,
    triangles::{Variant, triangular, variants},
    tunings::{Tune, any_tune, tunings},
    values::{band, fixed_point, own_buffer, resident, slices, stages, svdvals},
};
use crate::config::Rng;

macro_rules! for_types {
    ($k:expr, $body:ident, $env:expr, $call:expr $(, $more:expr)*) => {
        match $k % 8 {
            0 => $body::<f32>($env, $call $(, $more)*),
            1 => $body::<f64>($env, $call $(, $more)*),
            2 => $body::<Complex<f32>>($env, $call $(, $more)*),
            3 => $body::<f16>($env, Call { half: HalfStorage::Half, ..$call } $(, $more)*),
            4 => $body::<Complex<f64>>($env, $call $(, $more)*),
            5 => $body::<bf16>($env, $call $(, $more)*),
            6 => $body::<bf16>($env, Call { half: HalfStorage::Half, ..$call } $(, $more)*),
            _ => $body::<f16>($env, $call $(, $more)*),
        }
    };
}

/// The same for what is not stored in half precision.
macro_rules! for_wide_types {
    ($k:expr, $body:ident, $env:expr, $call:expr $(, $more:expr)*) => {
        match $k % 5 {
            0 => $body::<f32>($env, $call $(, $more)*),
            1 => $body::<f64>($env, $call $(, $more)*),
            2 => $body::<Complex<f32>>($env, $call $(, $more)*),
            3 => $body::<f16>($env, $call $(, $more)*),
            _ => $body::<Complex<f64>>($env, $call $(, $more)*),
        }
    };
}

// After the macros that it uses.
mod vectors;

const TYPES: [&str; 8] = ["f32", "f64", "c32", "f16 as f16", "c64", "bf16", "bf16 as f16", "f16"];
const WIDE_TYPES: [&str; 5] = ["f32", "f64", "c32", "f16", "c64"];

const SHAPES: [(usize, usize); 17] = [
    (64, 64),
    (40, 40),
    (97, 61),
    (61, 97),
    (160, 24),
    (24, 160),
    (65, 65),
    (33, 50),
    (72, 72),
    (17, 90),
    (90, 17),
    (50, 50),
    (48, 80),
    (63, 47),
    (39, 55),
    (91, 23),
    (23, 83),
];

fn order(rows: bool) -> &'static str {
    if rows { "by rows" } else { "by columns" }
}

/// Types, shapes, memory orders and devices go round, each with its own period, so that few cases have many combinations.
struct List {
    cases: Vec<Case>,
    seed: u64,
    quick: bool,
    devices: Vec<Dev>,
    tunings: Vec<Tune>,
    turn: usize,
}

/// All cases; with `quick` a part of them.
pub fn all(seed: u64, quick: bool) -> Vec<Case> {
    let mut list = List { cases: Vec::new(), seed, quick, devices: devices(), tunings: tunings(), turn: seed as usize };
    list.values();
    list.small_shapes();
    list.batches();
    list.stacks();
    list.stages();
    list.triangles();
    list.vectors();
    list.kept_beside();
    list.large();
    list.orthogonal();
    list.slices();
    list.arithmetic();
    list.chance();
    list.fixed_point();
    list.more_stacks();
    list.cases
}

impl List {
    fn add(&mut self, name: String, device: &Dev, body: Body) {
        let mut device = device.clone();
        device.config.seed = self.seed.wrapping_mul(1_000_003).wrapping_add(self.cases.len() as u64);
        let name = format!("{name}, {}", device.name);
        self.cases.push(Case { name, device, body });
    }

    /// The first device from there on that has f64, if that is wanted.
    fn device(&self, double: bool, from: usize) -> Dev {
        let needed = if double { Features::SHADER_F64 } else { Features::empty() };
        let of = (0..).map(|j| &self.devices[(from + j) % self.devices.len()]);
        of.into_iter().find(|d| d.features.contains(needed)).unwrap().clone()
    }

    fn of_type(&self, k: usize, from: usize) -> Dev {
        self.device(matches!(k % 8, 1 | 4), from)
    }

    fn svdvals(&mut self, k: usize, call: Call, device: &Dev) {
        let Call { tune, m, n, by_rows, .. } = call;
        let name = format!("svdvals {} {m} x {n} {}, tuning {tune}", TYPES[k], order(by_rows));
        self.add(name, device, Box::new(move |env: &Env| for_types!(k, svdvals, env, call)));
    }

    /// Every type with every tuning, every device with f32 and one other type, and folded grids.
    fn values(&mut self) {
        let quick = self.quick;
        for (t, tune) in self.tunings.clone().into_iter().enumerate() {
            for k in (0..TYPES.len()).filter(|k| !quick || (t + k) % 6 == 0) {
                for by_rows in [false, true] {
                    self.turn += 1;
                    let turn = self.turn;
                    let (m, n) = SHAPES[(turn * 5 + t) % SHAPES.len()];
                    let stage3 = if turn.is_multiple_of(5) { Stage3::Device } else { Stage3::Auto };
                    let call = Call { tune, m, n, by_rows, half: HalfStorage::Single, stage3 };
                    let device = self.of_type(k, turn * 7 + k);
                    self.svdvals(k, call, &device);
                }
            }
        }
        for (d, device) in self.devices.clone().iter().enumerate() {
            for (k, by_rows) in [(0, false), (0, true), (1 + d % 7, d % 2 == 0)] {
                self.turn += 1;
                let tune = self.tunings[[1, 4, 9, 0, 2][(d + k) % 5]];
                let (m, n) = SHAPES[(self.turn * 3) % SHAPES.len()];
                if !self.quick || (d + k) % 4 == 0 {
                    let call = Call { tune, m, n, by_rows, half: HalfStorage::Single, stage3: Stage3::Auto };
                    self.svdvals(k, call, device);
                }
            }
        }
        for k in 0..TYPES.len() {
            for by_rows in [false, true] {
                self.turn += 1;
                let (m, n) = SHAPES[(self.turn * 3) % SHAPES.len()];
                let stage3 = if k % 2 == 0 { Stage3::Device } else { Stage3::Auto };
                let tune = self.tunings[[2, 7, 5, 8][(k + self.turn) % 4]];
                if !self.quick || (by_rows && k % 2 == 0) {
                    self.svdvals(k, Call { tune, m, n, by_rows, half: HalfStorage::Single, stage3 }, &narrow());
                }
            }
        }
    }

    fn small_shapes(&mut self) {
        let shapes = [(1, 1), (1, 5), (5, 1), (2, 2), (3, 2), (3, 11), (4, 4), (5, 5), (7, 9), (9, 8), (16, 16), (17, 17)];
        let every = if self.quick { 8 } else { 2 };
        for (s, (m, n)) in shapes.into_iter().enumerate() {
            for (t, tune) in self.tunings.clone().into_iter().enumerate().filter(|(t, _)| (s + t) % every == 0) {
                self.turn += 1;
                let (k, by_rows) = ((s + t) / 2 % 8, (s + t) % 4 == 0);
                let call = Call { tune, m, n, by_rows, half: HalfStorage::Single, stage3: Stage3::Auto };
                let device = self.of_type(k, self.turn);
                self.svdvals(k, call, &device);
            }
        }
    }

    /// Batches of mixed shapes: in workgroup memory, in a buffer, in folded grids.
    fn batches(&mut self) {
        let (tune, half, stage3) = (self.tunings[0], HalfStorage::Single, Stage3::Auto);
        let call = Call { tune, m: 20, n: 20, by_rows: false, half, stage3 };
        for (k, name) in TYPES.into_iter().enumerate() {
            let (rounds, every) = (self.devices.len(), if self.quick { 8 } else { 1 });
            for round in (0..rounds).filter(|round| (round + k) % every == 0) {
                let device = self.of_type(k, round);
                let body: Body = Box::new(move |env: &Env| for_types!(k, batch, env, call, &SMALL));
                self.add(format!("batch {name}"), &device, body);
            }
            let body: Body = Box::new(move |env: &Env| for_types!(k, batch, env, call, &LARGE));
            self.add(format!("large batch {name}"), &little_memory(), body);
            let body: Body = Box::new(move |env: &Env| for_types!(k, batch, env, call, &MANY));
            self.add(format!("batch of many {name}"), &narrow(), body);
            // Vectors are not stored in half precision.
            for (kind, shapes, device) in [
                ("", &SMALL[..], self.of_type(k, self.turn)),
                ("large ", &LARGE[..], self.of_type(k, 0)),
                ("many ", &MANY[..], narrow()),
            ] {
                let body: Body = Box::new(move |env: &Env| for_types!(k, batch_vectors, env, call, shapes));
                self.add(format!("{kind}batch with vectors {name}"), &device, body);
            }
        }
    }

    /// Several matrices with vectors in shared dispatches: with stage 2 in registers, and of rank 1.
    fn more_stacks(&mut self) {
        let call = Call { tune: self.tunings[14], m: 9, n: 8, by_rows: false, half: HalfStorage::Single, stage3: Stage3::Device };
        for k in [1, 2] {
            let body: Body = Box::new(move |env: &Env| for_types!(k, stacked_vectors, env, call));
            self.add(format!("stack with vectors in registers {}", TYPES[k]), &self.of_type(k, 0), body);
        }
        let body: Body = Box::new(move |env: &Env| stacked_rank_1::<f32>(env, call));
        self.add("stack of rank 1 with vectors f32".into(), &self.of_type(0, 0), body);
    }

    /// Matrices of one shape in shared dispatches: small ones, with every tuning those of two types, and in folded grids.
    fn stacks(&mut self) {
        let every = if self.quick { 6 } else { 1 };
        for (k, tune) in [(0, self.tunings[7]), (2, self.tunings[2])] {
            let call = Call { tune, m: 9, n: 8, by_rows: k > 0, half: HalfStorage::Single, stage3: Stage3::Device };
            let body: Body = Box::new(move |env: &Env| for_types!(k, stacked, env, call));
            self.add(format!("small stack {}", TYPES[k]), &self.of_type(k, 0), body);
            let body: Body = Box::new(move |env: &Env| for_types!(k, stacked_vectors, env, call));
            self.add(format!("small stack with vectors {}", TYPES[k]), &self.of_type(k, 0), body);
        }
        for (t, tune) in self.tunings.clone().into_iter().enumerate().filter(|(t, _)| t % every == 0) {
            for (k, by_rows) in [(t % 8, false), ((t + 3) % 8, true)] {
                self.turn += 1;
                let (m, n) = SHAPES[(self.turn * 3 + t) % SHAPES.len()];
                let call = Call { tune, m, n, by_rows, half: HalfStorage::Single, stage3: Stage3::Device };
                let device = if self.turn.is_multiple_of(4) { narrow() } else { self.of_type(k, self.turn) };
                let body: Body = Box::new(move |env: &Env| for_types!(k, stacked, env, call));
                self.add(format!("stack {} {m} x {n} {}, tuning {tune}", TYPES[k], order(by_rows)), &device, body);
            }
        }
    }

    /// The stages one by one, bands, and what stays on the device.
    fn stages(&mut self) {
        let quick = self.quick;
        let every = if self.quick { 12 } else { 3 };
        for (k, of_type) in TYPES.into_iter().enumerate() {
            for (_, tune) in self.tunings.clone().into_iter().enumerate().filter(|(t, _)| (t + k) % every == 0) {
                self.turn += 1;
                let turn = self.turn;
                let by_rows = turn.is_multiple_of(2);
                let (m, n) = SHAPES[turn % SHAPES.len()];
                let stage3 = if turn.is_multiple_of(3) { Stage3::Device } else { Stage3::Auto };
                let call = Call { tune, m, n, by_rows, half: HalfStorage::Single, stage3: Stage3::Auto };
                let on = |j: usize| self.of_type(k, turn * 5 + j);
                let devices: Vec<Dev> = (0..7).map(on).collect();
                let name = |what: &str| format!("{what} {} {m} x {n} {}, tuning {tune}", of_type, order(by_rows));
                let one = Call { stage3, ..call };
                self.add(name("stages"), &devices[0], Box::new(move |env: &Env| for_types!(k, stages, env, call)));
                self.add(name("resident"), &devices[1], Box::new(move |env: &Env| for_types!(k, resident, env, one)));
                self.add(name("own buffer"), &devices[2], Box::new(move |env: &Env| for_types!(k, own_buffer, env, one)));
                // Stage 2 takes the longest.
                let one = Call { n: n.min(60), ..one };
                for (j, bandwidth) in [1, 3, 10, 31].into_iter().enumerate().filter(|(j, _)| !quick || j % 2 == k % 2) {
                    let name = format!("band of {bandwidth}, {} {}, tuning {tune}", of_type, one.n);
                    self.add(name, &devices[3 + j], Box::new(move |env: &Env| for_types!(k, band, env, one, bandwidth)));
                }
            }
        }
        if !self.quick {
            // Bisection in several dispatches.
            let tune = self.tunings[0];
            let (m, n, half, stage3) = (1000, 1000, HalfStorage::Single, Stage3::Device);
            let call = Call { tune, m, n, by_rows: false, half, stage3 };
            self.add("band of 1, f64 1000".into(), &software(), Box::new(move |env: &Env| band::<f64>(env, call, 1)));
        }
    }

    fn triangles(&mut self) {
        for (v, variant) in variants().into_iter().enumerate() {
            for resident in [false, true] {
                for j in 0..if self.quick { usize::from(resident == (v % 2 == 0)) } else { 3 } {
                    self.turn += 1;
                    let turn = self.turn;
                    let k = (v + 3 * j + usize::from(resident)) % 8;
                    let tune = self.tunings[turn % self.tunings.len()];
                    let (m, n) = [(40, 30), (65, 17), (33, 50), (20, 9), (90, 40), (7, 3), (1, 4)][turn % 7];
                    let by_rows = (turn / 2).is_multiple_of(2);
                    let call = Call { tune, m, n, by_rows, half: HalfStorage::Single, stage3: Stage3::Auto };
                    let place = if resident { "resident" } else { "from the host" };
                    let Variant { side, uplo, op, diag, solve } = variant;
                    let what = if solve { "trsm" } else { "trmm" };
                    let name = format!(
                        "{what} {side:?} {uplo:?} {op:?} {diag:?} {place}, {} order {m}, {n}, {}, tuning {tune}",
                        TYPES[k],
                        order(by_rows),
                    );
                    let device = self.of_type(k, turn * 11);
                    self.add(name, &device, Box::new(move |env: &Env| for_types!(k, triangular, env, call, variant, resident)));
                }
            }
        }
    }

    /// Several workgroups for what most matrices here have one for.
    fn large(&mut self) {
        let call = |m, n| {
            let tune = self.tunings[0];
            Call { tune, m, n, by_rows: false, half: HalfStorage::Single, stage3: Stage3::Auto }
        };
        let (lines, columns, rotations) = (call(300, 181), call(150, 150), call(70, 70));
        let device = self.devices[0].clone();
        self.add("one-stage values f32 300 x 181".into(), &device, Box::new(move |env: &Env| one_stage::<f32>(env, lines)));
        if !self.quick {
            self.add("reflectors f32".into(), &device, Box::new(reflectors));
        }
        self.add("deferred reflectors f32".into(), &device, Box::new(deferred_reflectors::<f32>));
        self.add("deferred reflectors c32".into(), &device, Box::new(deferred_reflectors::<Complex<f32>>));
        for (bandwidth, call) in [(4, columns), (1, rotations)] {
            let name = format!("vectors of a band of {bandwidth}, f32 {}", call.n);
            self.add(name, &device, Box::new(move |env: &Env| band_vectors::<f32>(env, call, bandwidth)));
        }
    }

    fn orthogonal(&mut self) {
        let kinds = ["random", "graded", "rank third", "unitary"];
        let shapes = [(40, 40), (90, 20), (20, 61), (33, 50), (1, 1), (65, 31), (7, 3)];
        for round in 0..if self.quick { 6 } else { 40 } {
            self.turn += 1;
            let (k, kind, (m, n)) = (round % 5, kinds[round % kinds.len()], shapes[(3 * round) % shapes.len()]);
            let (by_rows, pivot) = (round % 3 == 1, round % 6 == 2);
            let tune = self.tunings[if round % 2 == 0 { 0 } else { self.turn % self.tunings.len() }];
            let call = Call { tune, m, n, by_rows, half: HalfStorage::Single, stage3: Stage3::Auto };
            let name = format!("QR {kind} {} {m} x {n} {}, pivot {pivot}, tuning {tune}", WIDE_TYPES[k], order(by_rows));
            let device = self.device(matches!(k, 1 | 4), self.turn * 3);
            self.add(name, &device, Box::new(move |env: &Env| for_wide_types!(k, orthogonal, env, call, kind, pivot)));
            if round % 6 == 3 {
                let name = format!("QR on the device, {} {m} x {n} {}, tuning {tune}", WIDE_TYPES[k], order(by_rows));
                self.add(name, &device, Box::new(move |env: &Env| for_wide_types!(k, resident_factors, env, call)));
            }
        }
        // By CholeskyQR2, of two blocks of columns, the second one shorter.
        let every = if self.quick { 2 } else { 1 };
        for k in (0..5).step_by(every) {
            let call = Call {
                tune: self.tunings[0],
                m: 420,
                n: 40,
                by_rows: k % 2 == 1,
                half: HalfStorage::Single,
                stage3: Stage3::Auto,
            };
            let (name, device) = (format!("QR of a narrow matrix, {}", WIDE_TYPES[k]), self.device(matches!(k, 1 | 4), k));
            self.add(name, &device, Box::new(move |env: &Env| for_wide_types!(k, resident_factors, env, call)));
        }
    }

    /// Operands of products by low precision. The last grid is folded, with workgroups beyond the lines.
    fn slices(&mut self) {
        self.add("slices 200 x 3".into(), &narrow(), Box::new(|env: &Env| slices(env, (200, 3), true)));
        for (j, (m, n)) in [(1, 1), (20, 33), (9, 70), (40, 31)].into_iter().enumerate() {
            let mut devices = (0..).map(|k| &self.devices[(j + k) % self.devices.len()]);
            let device = devices.find(|device| device.features.contains(Features::SHADER_F16)).unwrap().clone();
            for split in [false, true] {
                let name = format!("slices {m} x {n}, split {split}");
                self.add(name, &device, Box::new(move |env: &Env| slices(env, (m, n), split)));
                let loose = loose(self.seed.wrapping_mul(37) + j as u64);
                self.add(
                    format!("slices {m} x {n}, split {split}"),
                    &loose,
                    Box::new(move |env: &Env| slices(env, (m, n), split)),
                );
            }
        }
    }

    /// Products in fixed point: of tall, wide and single lines, in one buffer and in several, with one vector and more.
    fn fixed_point(&mut self) {
        let cases = [(1, 1, 1), (37, 5, 2), (5, 37, 1), (130, 20, 5), (300, 3, 1), (20, 300, 4), (700, 9, 3)];
        for (j, (m, n, count)) in cases.into_iter().enumerate() {
            let name = format!("fixed point {m} x {n}, {count}");
            let of_seed = loose(self.seed.wrapping_mul(41) + j as u64);
            let some = [self.devices[j % self.devices.len()].clone(), self.devices[7].clone(), of_seed];
            let of_grids = (n < 200).then(narrow);
            for device in some.into_iter().chain(of_grids) {
                self.add(name.clone(), &device, Box::new(move |env: &Env| fixed_point(env, (m, n), count)));
            }
        }
    }

    /// Arithmetic that is rewritten at random.
    fn arithmetic(&mut self) {
        let times = if self.quick { 3 } else { 12 };
        for j in 0..times {
            let device = loose(self.seed.wrapping_mul(31) + j);
            let tune = self.tunings[0];
            let of = |tune, m, n, by_rows| Call { tune, m, n, by_rows, half: HalfStorage::Single, stage3: Stage3::Auto };
            for complex in [false, true] {
                let fused = device.config.fused;
                let name = format!("pairs, complex {complex}, fused {fused}");
                self.add(name, &device, Box::new(move |env: &Env| pairs(env, complex, fused)));
            }
            let k = if j % 2 == 0 { 0 } else { 2 };
            let call = of(tune, 64, 64, j % 4 < 2);
            self.add(
                format!("accuracy {}", WIDE_TYPES[k]),
                &device,
                Box::new(move |env: &Env| if k == 0 { accuracy::<f32>(env, call) } else { accuracy::<Complex<f32>>(env, call) }),
            );
            self.add(
                format!("batch accuracy {}", WIDE_TYPES[k]),
                &device,
                Box::new(move |env: &Env| if k == 0 { batch_accuracy::<f32>(env) } else { batch_accuracy::<Complex<f32>>(env) }),
            );
            let body: Body = Box::new(move |env: &Env| for_types!(k, batch_vectors, env, call, &SMALL));
            self.add(format!("batch with vectors {}", TYPES[k]), &device, body);
            for (r, reduction) in [Reduction::TwoStage, Reduction::OneStage].into_iter().enumerate() {
                let kind = ["random", "two clusters", "graded", "rank third"][(j as usize + 2 * r) % 4];
                let (m, n) = [(50, 33), (40, 40), (20, 61)][j as usize % 3];
                let call = of(tune, m, n, j % 2 == 0);
                let name = format!("vectors {reduction:?} {kind} {} {m} x {n}", WIDE_TYPES[k]);
                let body: Body = Box::new(move |env: &Env| for_wide_types!(k, rewritten, env, call, kind, reduction));
                self.add(name, &device, body);
            }
            // By default stage 2 has `chase_team`.
            let call = of(self.tunings[1], 40, 40, false);
            let body: Body = Box::new(move |env: &Env| for_wide_types!(k, rewritten, env, call, "graded", Reduction::TwoStage));
            self.add(format!("vectors by chase, graded {} 40 x 40", WIDE_TYPES[k]), &device, body);
            if self.quick {
                continue;
            }
            for k in 0..TYPES.len() {
                let (m, n) = SHAPES[(j as usize * 5 + k * 2) % SHAPES.len()];
                let tune = self.tunings[(j as usize + k) % self.tunings.len()];
                self.svdvals(k, of(tune, m, n, k % 2 == 0), &device);
            }
            let call = of(tune, 45, 30, false);
            self.add(
                "QR random f32 45 x 30".into(),
                &device,
                Box::new(move |env: &Env| orthogonal::<f32>(env, call, "random", false)),
            );
            let variant = variants()[(j as usize * 7 + 3) % 48];
            let call = of(self.tunings[1], 40, 30, false);
            let name = format!("{variant:?} c32 40, 30");
            self.add(name, &device, Box::new(move |env: &Env| triangular::<Complex<f32>>(env, call, variant, true)));
        }
    }

    /// Anything.
    fn chance(&mut self) {
        let mut rng = Rng(self.seed.wrapping_mul(77) + 5);
        for _ in 0..if self.quick { 6 } else { 60 } {
            let tune = any_tune(&mut rng);
            let mut up_to = |least: u64, most: u64| (least + rng.next() % (most - least + 1)) as usize;
            let (k, by_rows, stays) = (up_to(0, 7), up_to(0, 1) == 0, up_to(0, 1) == 0);
            let (m, n) = match up_to(0, 3) {
                0 => (up_to(30, 160), up_to(1, 30)),
                1 => (up_to(1, 30), up_to(30, 160)),
                2 => (up_to(1, 80), up_to(1, 80)),
                _ => (up_to(30, 80), up_to(30, 80)),
            };
            let half = if up_to(0, 1) == 0 { HalfStorage::Half } else { HalfStorage::Single };
            let stage3 = if up_to(0, 3) == 0 { Stage3::Device } else { Stage3::Auto };
            let call = Call { tune, m, n, by_rows, half, stage3 };
            let mut device = self.of_type(k, up_to(0, self.devices.len() as u64 - 1));
            device.config.subgroup = 4 << up_to(0, 4);
            if up_to(0, 3) == 0 {
                device.config.loose = Some(up_to(0, 1000) as u64);
            }
            let what = up_to(0, 4);
            let variant = variants()[up_to(0, 47)];
            let doing = match what {
                0 | 1 => "svdvals".to_owned(),
                2 => "resident".to_owned(),
                3 => format!("band of {}", m / 2),
                _ => format!("{variant:?}{}", if stays { " resident" } else { "" }),
            };
            let subgroup = device.config.subgroup;
            let name = format!("chance: {doing} {} {m} x {n} {}, {tune}, subgroups of {subgroup}", TYPES[k], order(by_rows));
            let body: Body = match what {
                0 | 1 => Box::new(move |env: &Env| for_types!(k, svdvals, env, call)),
                2 => Box::new(move |env: &Env| for_types!(k, resident, env, call)),
                3 => Box::new(move |env: &Env| for_types!(k, band, env, call, m / 2)),
                _ => Box::new(move |env: &Env| for_types!(k, triangular, env, call, variant, stays)),
            };
            self.add(name, &device, body);
        }
    }
}
