//! CholeskyQR2 on a device, of tall matrices whose columns are well-conditioned (`cpu/tall/orthogonal.rs` has the CPU's, and the source).
//!
//! ```text
//! R1^H R1 = A^H A      products on the device, Cholesky on the host
//! X = A R1^-1          by substitution
//! X^H X = I + E        E shows whether A is well-conditioned: it must be so small that Cholesky's factorisation is exact to first order,
//! R2 = I + U           U: E above the diagonal, and half of it there;  U^H U is below eps
//! Q = X R2^-1,  R = R2 R1
//! ```
//!
//! Two n x n matrices are read back for every 16384 rows. A preconditioned form would need R by Householder reflectors first, which on an H100 takes 0.7 of the time of R
//! and Q by them (32768 x 512, f32).

use std::{cmp::Ordering, sync::OnceLock};

use faer::Mat;
use num_traits::Float;
use pollster::block_on;

use crate::{
    algo::{reflectors::keep_factor, to_band::triangular_factor},
    base::{
        blas::Op,
        clock::{Clock, StageSeconds},
        error::{Result, SvdError},
        number::{Number, Re, RealElement, Scalar},
        stage::Stage,
        watch::{Listen, Watch},
    },
    cost::{Cost, cholesky::flops},
    cpu::tall::cholesky_qr::triangle_of_squares,
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
    tile::{
        kernels::{TileKernels, Transfers},
        tuning::Tuning,
    },
};

/// Most columns: the host's Cholesky factorisation takes the cube of their number. On an H100, f32, entries of 2048 x 2048, R and Q by reflectors take 1.0 to 1.1 of
/// the time up to 32 columns, 1.6 with 64, 2.2 with 128, 2.1 with 256, and 1.1 with 512, where R alone is faster by reflectors.
const COLUMNS: usize = 256;

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
    let room = match first.room_for_parts(m, n * n.next_multiple_of(4)) {
        // Reflectors need no such room.
        Err(SvdError::OutOfMemory { .. } | SvdError::TooLarge { .. }) => {
            return Ok(Attempt::Declined(Some(Box::new(a)), Ran::of(&first, StageSeconds::default())));
        }
        room => room?,
    };
    let Some(r1) = triangle_of_squares::<S>(&first.squares::<S>(&a, &room).await?) else {
        return Ok(Attempt::Declined(Some(Box::new(a)), Ran::of(&first, StageSeconds::default())));
    };

    let one = Re::<S>::from_double(1.0);
    let r1 = first.upload(r1.as_ref(), one)?;
    first.solve_right(&r1, &a)?;
    let Some(r2) = first_order::<S>(&first.squares::<S>(&a, &room).await?) else {
        return Ok(Attempt::Declined(None, Ran::of(&first, StageSeconds::default())));
    };
    first.finish().await?;

    let watch = Watch::new(listen, || Ok([flops(S::KIND, m, n), 0, 0, 0]))?;
    watch.begin(Stage::Qr)?;
    let kernels = GpuKernels::running(S::KIND, &on.context, &on.tuning, manner(watch.clone()))?;
    let r2 = kernels.upload(r2.as_ref(), one)?;
    kernels.solve_right(&r2, &a)?;
    let r = kernels.times_upper(&r2, &r1)?;
    let ran = Ran::of(&first, StageSeconds::default());
    Ok(Attempt::Factored(Box::new(DeviceThin { q: a, r, kernels, watch, ran })))
}

/// R2 to first order, from the upper triangle of X^H X; None if that is too far from the identity.
fn first_order<S: Scalar>(squares: &Mat<S::Wide>) -> Option<Mat<S>> {
    let n = squares.ncols();
    let at = |i: usize, j: usize| squares[(i, j)].to_complex();
    let lengths: Vec<f64> = (0..n).map(|j| at(j, j).re.sqrt()).collect();
    let off = |(i, j): (usize, usize)| (at(i, j) - if i == j { 1.0 } else { 0.0 }).norm_sqr();
    let most = (0..n).flat_map(|j| (0..=j).map(move |i| (i, j))).map(off).fold(0.0, f64::max);
    // The largest entry of U^H U, which is neglected, is at most n times the square of the largest of U. A NaN is among the lengths.
    let near = n as f64 * most <= <Re<S> as Float>::epsilon().to_double();
    if !near || !lengths.iter().all(|length| (0.5..2.0).contains(length)) {
        return None;
    }
    Some(Mat::from_fn(n, n, |i, j| match i.cmp(&j) {
        Ordering::Less => S::from_complex(at(i, j) / lengths[i]),
        Ordering::Equal => S::from_complex(lengths[j].into()),
        Ordering::Greater => S::zero_impl(),
    }))
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
        self.kernels.product(&self.q, Op::NoTrans, conjugated, y)
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
