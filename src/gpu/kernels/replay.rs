//! The vectors of the bidiagonal on the device: the tables of a [`Schedule`], level by level, with no read-back.

use num_complex::Complex;
use pollster::block_on;

use crate::{
    algo::{
        bidiag::{
            Known,
            divide::{
                Plan,
                schedule::{Gathered, Level, Schedule},
            },
        },
        reflectors::Phases,
        svdvals::right_of_bidiagonal,
        vectors::{Applied, VectorKernels, drift, forms_beside, needs_step},
    },
    base::{
        clock::HostSpan,
        element_kind::ElementKind,
        error::{Result, SvdError},
        parallel::map,
        pool::{beside_waiting, both, on_pool, on_pool_async},
        watch::Watch,
    },
    cost::{
        vectors::Extent,
        work::{Kernel, LINEAR_THREADS, Work},
    },
    gpu::{
        device::{
            buffers::{Buffer, storage},
            context::Waits,
            parameters::{self, Parameters, word},
            pipeline::{GATHER_COLUMNS, ROTATE_COLUMNS, SECULAR_VECTORS, TAKE_COLUMNS},
        },
        kernels::{
            GpuKernels,
            left::whole,
            products::{Products, Task, To, numbers_of, reals_of, table_of},
        },
        limits::fitting_bytes,
        matrix::Window,
        storage::{Dense, Ready},
    },
    tile::kernels::{ComplexBidiagonal, Transfers},
};

/// Words of a record of `gather_columns`, `rotate_columns` and `secular_vectors`, of which the first two are the same (shared/records.wgsl).
const GATHERED: usize = 6;
const CHAIN: usize = 4;
const FOUND: usize = 5;

/// What the host plans of the right vectors of a bidiagonal: nothing if none are wanted, or if it was cancelled.
pub(crate) struct Planned {
    schedule: Option<Schedule>,
    phases: Vec<Complex<f64>>,
    /// The order, the number of vectors, and the leading dimension of matrices by columns.
    n: usize,
    k: usize,
    ld: usize,
}

impl Planned {
    /// For the `k` largest values of a bidiagonal.
    pub fn of(c: &ComplexBidiagonal, k: usize, watch: &Watch) -> Planned {
        let _span = HostSpan::of("plan of divide and conquer");
        let n = c.diagonal.len();
        let (k, ld) = (k.min(n), n.next_multiple_of(4));
        let phases = Phases::of(&c.diagonal, &c.superdiagonal);
        let plan = if k > 0 { Plan::new(&phases.diagonal, &phases.superdiagonal, &|| watch.is_cancelled()) } else { None };
        Planned { schedule: plan.and_then(|plan| plan.schedule(k, ld)), phases: phases.right, n, k, ld }
    }
}

/// The tables of a schedule, and where each kind begins.
struct Tables {
    words: Vec<u32>,
    /// Rounded to the device's real type.
    numbers: Vec<f64>,
    chains: usize,
    pairs: usize,
    found: usize,
    rotations: usize,
    places: usize,
    roots: usize,
}

/// The number, rounded to this real type.
fn rounded(real: ElementKind, x: f64) -> f64 {
    if real.is_double() { x } else { f64::from(x as f32) }
}

/// The sum of three numbers of this real type that is `x`, to the precision of the device's differences.
fn parts(real: ElementKind, x: f64) -> [f64; 3] {
    let first = rounded(real, x);
    let rest = x - first;
    let second = rounded(real, rest);
    [first, second, rounded(real, rest - second)]
}

impl Tables {
    fn of(real: ElementKind, schedule: &Schedule) -> Self {
        let _span = HostSpan::of("tables of the plan");
        let (gathered, pairs) = (schedule.gathered.len(), schedule.rotations.len());
        let of_words = GATHERED * gathered + CHAIN * schedule.chains.len() + 2 * pairs + FOUND * schedule.found.len();
        let of_numbers = 2 * (gathered + pairs) + 4 * schedule.places.len() + 5 * schedule.roots.len();
        let (mut words, mut numbers) = (Vec::with_capacity(of_words), Vec::with_capacity(of_numbers));
        let rounded = |x| rounded(real, x);
        for g in &schedule.gathered {
            words.extend([g.lo, g.rows, g.column, g.middle, g.first, g.second].map(word));
            numbers.extend([g.factors.0, g.factors.1].map(rounded));
        }
        let chains = words.len();
        for chain in &schedule.chains {
            words.extend([chain.lo, chain.rows, chain.rotations.start, chain.rotations.len()].map(word));
        }
        let (pairs, rotations) = (words.len(), numbers.len());
        for rotation in &schedule.rotations {
            words.extend([rotation.first, rotation.second].map(word));
            numbers.extend([rotation.c, rotation.s].map(rounded));
        }
        let found = words.len();
        for f in &schedule.found {
            words.extend([f.lo, f.rows, f.column, f.first, f.root.map_or(0, |root| root + 1)].map(word));
        }
        let places = numbers.len();
        for &(d, z) in &schedule.places {
            numbers.extend(parts(real, d));
            numbers.push(rounded(z));
        }
        let roots = numbers.len();
        for &(pole, offset, length) in &schedule.roots {
            numbers.extend(parts(real, pole));
            numbers.extend([offset, length].map(rounded));
        }
        Tables { words, numbers, chains, pairs, found, rotations, places, roots }
    }
}

impl VectorKernels for GpuKernels {
    /// The plan is the host's: in the caller's pool, or in rayon's if the call must not block.
    async fn right_of_bidiagonal(
        &self,
        c: ComplexBidiagonal,
        values: &[f64],
        k: usize,
        q: Option<Applied<'_, Dense>>,
    ) -> Result<(Dense, bool)> {
        let watch = self.stream.watch().clone();
        let n = c.diagonal.len();
        let k = k.min(n);
        if self.kind.is_half() {
            // Stored in half precision, the products would lose most of their digits.
            let known = Known { values, drift: drift(self.kind, needs_step(self.kind, (n, k))) };
            let right = right_of_bidiagonal::<f32>(&c, k, known, &watch)?;
            return Ok((self.upload(right.transpose(), 1.0)?, false));
        }
        let plan = move || Planned::of(&c, k, &watch);
        let (q, planned) =
            match q.filter(|_| forms_beside(self.kind, (n, k), &self.tuning) && self.bytes_of_room(1, n, n).is_ok()) {
                Some(apply) => {
                    let form = || {
                        // Without phases nothing is read of the first matrix.
                        let mut q = self.identity(&self.room(1, 1)?, n, 0..n, false)?;
                        apply(&mut q).map(|()| q)
                    };
                    let (q, planned) = self.beside_host(form, plan).await?;
                    (Some(q), planned)
                }
                None => (None, self.on_host(plan).await?),
            };
        let x = self.room(n, k)?;
        self.write_right(&[planned], &x)?;
        let Some(q) = q else { return Ok((x, false)) };
        let v = self.room(n, k)?;
        self.multiply(whole(&q)?, whole(&x)?, whole(&v)?, false, To::Replaced, Extent::default())?;
        Ok((v, true))
    }

    fn copy(&self, a: &Dense) -> Result<Option<Dense>> {
        self.copy_of(a)
    }
}

impl GpuKernels {
    /// Runs `plan` in the caller's pool, or in rayon's if the call must not block.
    pub(super) async fn on_host<R: Send + 'static>(&self, plan: impl FnOnce() -> R + Send + 'static) -> Result<R> {
        match self.stream.waits() {
            Waits::Blocking => Ok(on_pool(plan)),
            Waits::Awaited => on_pool_async(plan).await,
        }
    }

    /// What `form` has put into the stream, while it is submitted beside `plan` on the host. An error of one is returned when both have ended.
    async fn beside_host<D: Send, R: Send + 'static>(
        &self,
        form: impl FnOnce() -> Result<D> + Send,
        plan: impl FnOnce() -> R + Send + 'static,
    ) -> Result<(D, R)> {
        match self.stream.waits() {
            Waits::Blocking => {
                let run = || {
                    let formed = form()?;
                    block_on(self.stream.run_all())?;
                    Ok(formed)
                };
                let (formed, planned) = beside_waiting(run, || on_pool(plan));
                Ok((formed?, planned))
            }
            Waits::Awaited => {
                let planned = on_pool_async(plan);
                let formed = form()?;
                let (ran, planned) = both(self.stream.run_all(), planned).await;
                ran?;
                Ok((formed, planned?))
            }
        }
    }

    /// What the host plans for each of several bidiagonals, side by side, each with its number of vectors.
    pub(crate) async fn planned(&self, all: Vec<(ComplexBidiagonal, usize)>) -> Result<Vec<Planned>> {
        let watch = self.stream.watch().clone();
        self.on_host(move || map(all.len(), |i| Planned::of(&all[i].0, all[i].1, &watch))).await
    }

    /// Writes the right vectors that the host has planned to `out`, n x k by rows each, of as many matrices.
    pub(crate) fn write_right(&self, planned: &[Planned], out: &Dense) -> Result<()> {
        self.stream.watch().check()?;
        let fits = |of: &Planned| out.size == (of.n, of.k) && of.ld == out.size.0.next_multiple_of(4);
        if !planned.iter().all(fits) || out.strides.1 != 1 || out.a.len() != 1 || out.matrices != planned.len() {
            let (of, size) = (planned.len(), out.size);
            return Err(SvdError::invalid(
                "matrix",
                format!("{} of {size:?}, for the right vectors of {of} by rows", out.matrices),
            ));
        }
        // No vectors are wanted, or it was cancelled.
        let Some(schedules) = planned.iter().map(|of| of.schedule.as_ref()).collect::<Option<Vec<_>>>() else {
            return self.stream.watch().check();
        };
        let phases: Vec<Complex<f64>> = planned.iter().flat_map(|of| &of.phases).copied().collect();
        let ld = out.size.0.next_multiple_of(4);
        match &schedules[..] {
            [] => Ok(()),
            [one] => self.replay(one, ld, &phases, out),
            several => self.replay(&Schedule::together(several, ld), ld, &phases, out),
        }
    }

    /// The right vectors of bidiagonal matrices with `phases` (n of each), by rows in `out`.
    fn replay(&self, schedule: &Schedule, ld: usize, phases: &[Complex<f64>], out: &Dense) -> Result<()> {
        let (context, stream, n, real) = (&self.context, &self.stream, schedule.n, self.kind.real_bytes());
        let tables = Tables::of(self.kind.real(), schedule);
        let [words, order] = [("tables", &tables.words), ("order", &schedule.order.iter().map(|&j| j as u32).collect())]
            .map(|(what, of): (_, &Vec<u32>)| table_of(stream, what, of));
        let (words, order) = (words?, order?);
        let numbers = reals_of(stream, "tables", self.kind, &tables.numbers)?;
        let leaves = reals_of(stream, "vectors of the leaves", self.kind, &schedule.leaves)?;
        let matrix = || {
            let what = "vectors of the bidiagonal";
            let entries = ld.checked_mul(n).and_then(|entries| entries.checked_mul(schedule.matrices));
            storage(context, what, fitting_bytes(context, what, self.kind.real_bytes(), entries)?)
        };
        let x = matrix()?;
        {
            let (y, w) = (matrix()?, matrix()?);
            let gather = |from: &Buffer, to: &Buffer| -> Result<Ready> {
                let pipeline = context.pipeline(self.kind.real(), &GATHER_COLUMNS, &[], 0)?;
                let bindings = stream.bind(&pipeline, &[from, to, &words, &numbers], &[])?;
                Ok((pipeline, bindings))
            };
            let of_leaves = gather(&leaves, &x)?;
            self.gather(&of_leaves, &schedule.gathered[..schedule.of_leaves], 0, schedule.most_of_leaves, ld)?;
            let to_places = gather(&x, &y)?;
            let rotate = context.pipeline(self.kind.real(), &ROTATE_COLUMNS, &[], 0)?;
            let rotate = (rotate.clone(), stream.bind(&rotate, &[&y, &words, &numbers], &[])?);
            let secular = context.pipeline(self.kind.real(), &SECULAR_VECTORS, &[], 0)?;
            let secular = (secular.clone(), stream.bind(&secular, &[&w, &x, &y, &words, &numbers], &[])?);
            let groups: Vec<Vec<Task>> = schedule.levels.iter().map(|level| tasks(schedule, level, ld)).collect();
            let products = Products::new(self, self.kind.real(), [&y, &w, &x], &groups)?;
            for (k, level) in schedule.levels.iter().enumerate() {
                self.gather(&to_places, &schedule.gathered[level.gathered.clone()], level.gathered.start, level.most, ld)?;
                self.rotate(&rotate, schedule, level, &tables)?;
                let parameters = parameters::SecularVectors {
                    words: (tables.found + level.found.start * FOUND) as u32,
                    places: tables.places as u32,
                    roots: tables.roots as u32,
                    count: level.found.len() as u32,
                    most: level.most as u32,
                    ld: ld as u32,
                };
                let places = schedule.found[level.found.clone()].iter().map(|f| f.rows).sum();
                self.linear(
                    &secular,
                    parameters,
                    level.found.len() * level.most,
                    Work::secular_vectors(self.kind.real(), places),
                )?;
                products.run(stream, k)?;
            }
        }
        let phases = numbers_of(stream, "phases", self.kind, phases)?;
        let take = context.pipeline(self.kind, &TAKE_COLUMNS, &[], 0)?;
        let take = (take.clone(), stream.bind(&take, &[&x, &phases, &order, &out.a[0]], &[])?);
        let parameters = parameters::TakeColumns {
            n: n as u32,
            cols: out.size.1 as u32,
            ld: ld as u32,
            out_ld: out.ld() as u32,
            first: out.first as u32,
            matrix: out.distance(),
        };
        let places = n * out.ld();
        let work = Work::linear(Kernel::TakeColumns, places, 2, real.max(self.kind.scalar_bytes()));
        self.linear_of_stack(&take, parameters, (places, out.matrices), work)
    }

    /// `gather_columns` of these columns, of which the first has the number `first`, with at most `most` rows each.
    fn gather(&self, kernel: &Ready, columns: &[Gathered], first: usize, most: usize, ld: usize) -> Result<()> {
        let parameters = parameters::GatherColumns {
            words: (first * GATHERED) as u32,
            numbers: (2 * first) as u32,
            count: columns.len() as u32,
            most: most as u32,
            ld: ld as u32,
        };
        let places = columns.iter().map(|column| column.rows).sum();
        let work = Work::linear(Kernel::GatherColumns, places, 2, self.kind.real_bytes());
        self.linear(kernel, parameters, columns.len() * most, work)
    }

    /// `rotate_columns` of a level, if it has rotations.
    fn rotate(&self, kernel: &Ready, schedule: &Schedule, level: &Level, tables: &Tables) -> Result<()> {
        let chains = &schedule.chains[level.chains.clone()];
        if chains.is_empty() {
            return Ok(());
        }
        let parameters = parameters::RotateColumns {
            words: (tables.chains + level.chains.start * CHAIN) as u32,
            pairs: tables.pairs as u32,
            numbers: tables.rotations as u32,
            count: chains.len() as u32,
            most: level.most as u32,
        };
        let rows = chains.iter().map(|chain| chain.rows).sum();
        let lengths = || chains.iter().map(|chain| chain.rotations.len());
        let longest = lengths().max().unwrap_or(0);
        let work = Work::rotate_columns(self.kind.real(), rows, level.most, lengths().sum(), longest);
        self.linear(kernel, parameters, chains.len() * level.most, work)
    }

    /// Dispatches a kernel with one thread for each of `places`.
    pub(super) fn linear<P: Parameters>(&self, kernel: &Ready, parameters: P, places: usize, work: Work) -> Result<()> {
        self.linear_of_stack(kernel, parameters, (places, 1), work)
    }

    /// [`linear`](Self::linear) for each of several matrices, with the work of one.
    pub(super) fn linear_of_stack<P: Parameters>(
        &self,
        kernel: &Ready,
        parameters: P,
        (places, matrices): (usize, usize),
        work: Work,
    ) -> Result<()> {
        if places > u32::MAX as usize {
            return Err(SvdError::invalid("matrix", format!("{places} entries are more than a dispatch counts")));
        }
        if places == 0 || matrices == 0 {
            return Ok(());
        }
        let [x, y] = self.stream.fold(places.div_ceil(LINEAR_THREADS as usize))?;
        self.stream.dispatch(&kernel.0, &kernel.1, parameters, [x, y, matrices as u32], work.times(matrices))
    }
}

/// The products of a level.
fn tasks(schedule: &Schedule, level: &Level, ld: usize) -> Vec<Task> {
    let window = |offset| Window { offset, rs: 1, cs: ld };
    let of = &schedule.products[level.products.clone()];
    of.iter()
        .map(|p| Task {
            extent: Extent { rows: p.rows, cols: p.cols, inner: p.inner, ..Extent::default() },
            m: window(p.m),
            x: window(p.x),
            c: window(p.c),
            conjugated: false,
            to: To::Replaced,
        })
        .collect()
}
