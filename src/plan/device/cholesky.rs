//! CholeskyQR2 on a device, of tall matrices whose columns are well-conditioned (`cpu/tall/orthogonal.rs` has the CPU's, and the source).
//!
//! ```text
//! R1^H R1 = A^H A      products, and Cholesky's factorisation by blocks
//! X = A R1^-1          by substitution
//! X^H X = I + E        the largest entry of E is read back: ||E|| at most 1/8, or A is too ill-conditioned for R1 in this precision
//! R2^H R2 = X^H X
//! Q = X R2^-1,  R = R2 R1
//! ```
//!
//! By then the condition number of X is at most (1 + 1/8)^1/2 / (1 - 1/8)^1/2, so that Q is orthonormal to rounding errors. In f32 that takes condition numbers of
//! A up to about 400 for 256 columns. A preconditioned form would need R by Householder reflectors first, which on an H100 takes 0.7 of the time of R
//! and Q by them (32768 x 512, f32).

use std::sync::OnceLock;

use pollster::block_on;

use crate::{
    algo::{reflectors::keep_factor, to_band::triangular_factor},
    base::{
        blas::Op,
        clock::{Clock, StageSeconds},
        error::{Result, SvdError},
        number::{Re, RealElement, Scalar},
        stage::Stage,
        watch::{Listen, Watch},
    },
    cost::{Cost, cholesky::flops},
    gpu::{
        device::{
            context::{GpuContext, Waits},
            stream::Manner,
        },
        kernels::GpuKernels,
        storage::{Dense, Lines},
    },
    plan::{
        backend::OnGpu,
        device::{
            factors::{Boxed, Resident, Triangle, by_tree},
            turned::Turned,
        },
        options::QrOptions,
        qr_factors::Tree,
        qr_report::report_of_gpu,
        report::{Ran, SvdReport},
        route::{Orthogonal, Route, is_narrow},
    },
    tile::{kernels::TileKernels, tuning::Tuning},
};

/// Most columns. By the model an H100 takes for R and Q of 8192 x 128, 32768 x 256 and 32768 x 512 0.34, 1.4 and 4.2 ms in f32, and for R alone by reflectors 1.0, 2.5
/// and 5.5. Of 65536 x 512, and of more columns, R alone takes no longer by reflectors; on a GPU with slower memory, of 256 columns.
const COLUMNS: usize = 512;

/// Bound on ||X^H X - I||.
const NEAR: f64 = 0.125;

/// Whether CholeskyQR2 of a matrix is attempted.
pub(crate) fn is_worth((m, n): (usize, usize)) -> bool {
    n <= COLUMNS && is_narrow((m, n))
}

/// Q (m x n) and R (n x n), with the kernels that compute them, the call's listeners, and what has run before.
pub(crate) struct DeviceThin {
    pub q: Dense,
    pub r: Dense,
    pub kernels: GpuKernels,
    pub watch: Watch,
    pub ran: Ran,
}

/// The report of a factorisation, once its kernels have finished.
pub(crate) fn report_of_cholesky<V>(
    shape: (usize, usize),
    on: OnGpu,
    (kernels, ran): (&GpuKernels, Ran),
    seconds: StageSeconds,
    values: V,
) -> SvdReport<V> {
    let mut report = report_of_gpu(shape, on, kernels, seconds, values);
    ran.add_to(&mut report);
    SvdReport { route: Route::Qr(Orthogonal::Cholesky), cost: (kernels.kind, Cost::of_cholesky_qr), ..report }
}

/// What has become of an attempt.
pub(crate) enum Attempt {
    Factored(Box<DeviceThin>),
    /// The columns are too ill-conditioned, or the device has no room. The matrix comes back if it is unchanged.
    Declined(Option<Box<Dense>>, Ran),
}

/// Attempts the factorisation of the m x n matrix that `upload` brings to the device, m >= n >= 1, entries near 1. The listeners are told
/// once it is certain: an attempt that fails is no part of the call's progress.
pub(crate) async fn cholesky_qr<S: Scalar>(
    upload: impl FnOnce(&GpuKernels) -> Result<Dense>,
    on: &OnGpu,
    options: &QrOptions,
    waits: Waits,
    listen: &Listen,
) -> Result<Attempt> {
    let attempt = Watch::new(&Listen::new(None, options.run.cancel.clone()), || Ok([0; 4]))?;
    attempt.begin(Stage::Qr)?;
    let manner = |watch| Manner { waits, timed: options.run.time_kernels, watch, ..Manner::default() };
    let first = GpuKernels::running(S::KIND, &on.context, &on.tuning, manner(attempt))?;
    let a = upload(&first)?;
    let (m, n) = a.size;
    if a.a.len() > 1 {
        return Ok(Attempt::Declined(Some(Box::new(a)), Ran::of(&first, StageSeconds::default())));
    }
    let r1 = match first.gram(&a) {
        // Reflectors need no such room.
        Err(SvdError::OutOfMemory { .. } | SvdError::TooLarge { .. }) => {
            return Ok(Attempt::Declined(Some(Box::new(a)), Ran::of(&first, StageSeconds::default())));
        }
        squares => first.cholesky(&squares?)?,
    };
    first.solve_right(&r1, &a)?;
    let squares = first.gram(&a)?;
    // The norm of E is at most n times its largest entry, and twice that if it is complex. An entry that is not finite is among what is looked at: a
    // column of zeros, or R1 of a matrix that is not positive definite.
    let bound = if S::IS_COMPLEX { 2.0 } else { 1.0 } * n as f64;
    if !first.distance(&squares).await?.is_some_and(|most| bound * most <= NEAR) {
        return Ok(Attempt::Declined(None, Ran::of(&first, StageSeconds::default())));
    }
    first.finish().await?;

    let watch = Watch::new(listen, || Ok([flops(S::KIND, m, n), 0, 0, 0]))?;
    watch.begin(Stage::Qr)?;
    let kernels = GpuKernels::running(S::KIND, &on.context, &on.tuning, manner(watch.clone()))?;
    let r2 = kernels.cholesky(&squares)?;
    kernels.solve_right(&r2, &a)?;
    let r = kernels.times_upper(&r2, &r1)?;
    let ran = Ran::of(&first, StageSeconds::default());
    Ok(Attempt::Factored(Box::new(DeviceThin { q: a, r, kernels, watch, ran })))
}

/// Q as n orthonormal columns, completed to a unitary matrix on demand: with the QR factorisation Q = Q0 R0 by reflectors it is Q0 diag(R0, I).
pub(crate) struct ThinFactors {
    q: Dense,
    r: Dense,
    kernels: GpuKernels,
    on: (GpuContext, Tuning),
    whole: OnceLock<Turned>,
}

impl ThinFactors {
    /// From Q and R. The kernels are those of what is computed from the factors, without the call's listeners.
    pub fn new((q, r): (Dense, Dense), kernels: GpuKernels, on: &OnGpu) -> Self {
        ThinFactors { q, r, kernels, on: (on.context.clone(), on.tuning.clone()), whole: OnceLock::new() }
    }

    /// The unitary matrix.
    fn whole(&self) -> Result<&Turned> {
        if let Some(whole) = self.whole.get() {
            return Ok(whole);
        }
        let ((context, tuning), (m, n)) = (&self.on, self.q.size);
        let kernels = GpuKernels::running(self.kernels.kind, context, tuning, Manner::default())?;
        let mut a = kernels.first_columns(&self.q, n)?;
        keep_factor(&kernels, &mut a, (m, n), tuning)?;
        triangular_factor(&kernels, &mut a, m, n, tuning)?;
        let q1 = kernels.upper(&a, n, 1.0)?;
        let r = kernels.first_columns(&self.r, n)?;
        block_on(kernels.finish())?;
        let q0 = Box::new(Tree { kernels, a, shape: (m, n), tuning: tuning.clone() });
        Ok(self.whole.get_or_init(|| Turned { q0, q1, r }))
    }
}

impl Triangle for ThinFactors {
    fn kernels(&self) -> &GpuKernels {
        &self.kernels
    }

    fn r(&self) -> &Dense {
        &self.r
    }

    fn shape(&self) -> (usize, usize) {
        self.q.size
    }
}

impl Resident for ThinFactors {
    fn columns(&self, cols: usize) -> Result<Dense> {
        if cols <= self.q.size.1 {
            return self.kernels.first_columns(&self.q, cols);
        }
        let whole = self.whole()?;
        let columns = whole.columns(cols)?;
        block_on(whole.kernels().finish())?;
        Ok(columns)
    }

    fn applied(&self, op: Op, c: Dense, conjugated: bool) -> Result<Dense> {
        let whole = self.whole()?;
        // The two have queues of their own.
        block_on(self.kernels.finish())?;
        let c = whole.applied(op, c, conjugated)?;
        block_on(whole.kernels().finish())?;
        Ok(c)
    }

    fn projected(&self, c: Dense) -> Result<[Dense; 2]> {
        let inside = self.kernels.tall_product(&self.q, &c)?;
        self.kernels.subtract_product(&c, &self.q, Op::NoTrans, &inside)?;
        Ok([inside, c])
    }

    fn combined(&self, y: &Dense, conjugated: bool) -> Result<Dense> {
        self.kernels.product(&self.q, conjugated, y)
    }
}

/// Factors `scale` times the matrix of `lines`: by CholeskyQR2 if it is narrow and well-conditioned, by the panel tree if not.
pub(crate) fn by_kernels<S: Scalar>(
    lines: &Lines<'_>,
    scale: Re<S>,
    on: OnGpu,
    options: &QrOptions,
    timed: bool,
) -> Result<SvdReport<Boxed>> {
    let (shape, mut clock, scale) = (lines.size(), Clock::new(timed), scale.to_double());
    if !is_worth(shape) {
        return by_tree(S::KIND, |kernels| kernels.adopt(lines, scale), shape, on, options, timed);
    }
    let waits = Manner::default().waits;
    match block_on(cholesky_qr::<S>(|kernels| kernels.adopt(lines, scale), &on, options, waits, &options.run.listen()))? {
        Attempt::Factored(thin) => {
            let DeviceThin { q, r, kernels, watch, ran } = *thin;
            block_on(kernels.finish())?;
            watch.end();
            let seconds = StageSeconds { qr: clock.restart(), ..StageSeconds::default() };
            let later = GpuKernels::running(S::KIND, &on.context, &on.tuning, Manner::default())?;
            let factors: Boxed = Box::new(ThinFactors::new((q, r), later, &on));
            Ok(report_of_cholesky(shape, on, (&kernels, ran), seconds, factors))
        }
        Attempt::Declined(a, ran) => {
            let again = |kernels: &GpuKernels| a.map_or_else(|| kernels.adopt(lines, scale), |a| Ok(*a));
            let mut report = by_tree(S::KIND, again, shape, on, options, timed)?;
            ran.add_to(&mut report);
            report.seconds.qr = clock.restart();
            Ok(report)
        }
    }
}
