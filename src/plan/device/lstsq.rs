//! Least squares problems of a matrix that is on a device.

use faer::{Mat, MatRef};

use crate::{
    algo::svdvals::narrowed,
    base::{
        blas::Op,
        clock::{Clock, StageSeconds},
        error::{Result, SvdError},
        number::{Re, RealElement, Scalar},
        pool::on_threads,
    },
    cost::{Cost, CostOf},
    gpu::{
        device::stream::Stream,
        limits::fitting_bytes,
        matrix::DeviceMatrix,
        storage::{Dense, Lines},
    },
    plan::{
        device::{
            check_storage,
            cholesky::is_worth,
            factors::{Boxed, Triangle},
            on_its_device,
            qr::{DeviceQr, Start},
            reduced::{Reduced, Scaled, reduced},
            scaled_r::{ScaledR, Solved, scale_of_b},
            svdvals::svdvals as device_svdvals,
        },
        factors::{Factors, MinimumNorm},
        lstsq::{Fit, is_full_rank, lstsq_of_device, unscaled_values},
        options::{Backend, LstsqOptions, QrOptions, RunOptions, SvdOptions},
        report::SvdReport,
        route::{Orthogonal, Preconditioner, Route, Solver},
        svd::svd,
        svdvals::svdvals,
    },
    tile::{kernels::Transfers, products::Products},
};

/// Bytes of what is outside A's range, at most, that are read back before it is known whether R has full rank.
const OUTSIDE_BYTES: usize = 1 << 20;

/// A solution, with X on the device.
pub struct DeviceFit<T: Scalar> {
    pub(crate) x: DeviceMatrix,
    pub(crate) rank: usize,
    pub(crate) residuals: Vec<Re<T>>,
    pub(crate) singular_values: Option<Vec<Re<T>>>,
}

/// ||c_j||^2 of every column, in double precision.
fn squares<S: Scalar>(c: MatRef<'_, S>) -> Vec<f64> {
    c.col_iter().map(|c| c.iter().map(|c| c.to_complex().norm_sqr()).sum()).collect()
}

/// The minimiser of ||A X - B|| of least norm.
pub(crate) fn lstsq<T: Scalar>(
    a: &DeviceMatrix,
    b: &DeviceMatrix,
    options: &LstsqOptions,
    timed: bool,
) -> Result<SvdReport<DeviceFit<T>>> {
    options.check_ridge()?;
    on_threads(options.run.threads, || {
        let total = Clock::new(timed);
        let lower = options.products != Products::Native || options.preconditioner != Preconditioner::Full;
        if lower && let Some(mut report) = in_lower_precision(a, b, options, timed)? {
            report.seconds.total = total.seconds();
            return Ok(report);
        }
        let lines = a.lines();
        let (m, n) = lines.size();
        // Of the transpose, if A is wide.
        let lines = Lines { by_rows: lines.by_rows != (m < n), ..lines };
        let mut report = Begun::of(a, b, lines, options, timed)?;
        let clock = Clock::new(timed);
        let of = Solving { begun: &report.values, a, b, wide: m < n, options };
        let (fit, solver) = of.solution()?;
        report.counts.add(&report.values.of.triangle().kernels().counts());
        let seconds = StageSeconds { solve: clock.seconds(), total: total.seconds(), ..report.seconds };
        let by_cholesky = report.route == Route::Qr(Orthogonal::Cholesky);
        let cost: CostOf = if by_cholesky { Cost::of_cholesky_lstsq } else { Cost::of_lstsq };
        let route = Route::LeastSquares(solver);
        Ok(SvdReport { seconds, route, cost: (T::KIND, cost), shape: (m, n), ..report.map(|_| fit) })
    })
}

/// The R of a problem, and Q where it is needed.
enum Held {
    Reduced(Box<Reduced>),
    Factors(Boxed),
}

impl Held {
    fn triangle(&self) -> &dyn Triangle {
        match self {
            Held::Reduced(reduced) => &**reduced,
            Held::Factors(factors) => &**factors,
        }
    }
}

/// A problem of which A, or A^T if A is wide, has been factored, with the rows of the ridge if there is one.
struct Begun<T: Scalar> {
    of: Held,
    of_r: ScaledR<T>,
    b_scale: Re<T>,
    /// The first rows of Q^H B for a tall matrix, and a matrix whose columns are as long as those of its other rows; B for a wide one, and nothing.
    projected: [Dense; 2],
}

impl<T: Scalar> Begun<T> {
    /// Factors the matrix of `lines`, which is `a` or its transpose: with B beside it, unless Q is needed, or found by the way.
    fn of(
        a: &DeviceMatrix,
        b: &DeviceMatrix,
        lines: Lines<'_>,
        options: &LstsqOptions,
        timed: bool,
    ) -> Result<SvdReport<Begun<T>>> {
        let (wide, (m, n), ridge) = (a.size.0 < a.size.1, lines.size(), options.ridge);
        let of_qr = factor_options(options, Products::Native);
        let rows = if ridge == 0.0 { m } else { m.saturating_add(n) };
        let entries = rows.next_multiple_of(4).saturating_mul(n.saturating_add(b.size.1).next_multiple_of(4));
        let fits = fitting_bytes(&a.context, "A and B", T::KIND.scalar_bytes(), Some(entries)).is_ok();
        if wide || !fits || ridge == 0.0 && is_worth((m, n)) {
            let report = DeviceQr::of(a, lines, ridge, &of_qr, timed)?;
            return report.try_map(|DeviceQr::<T> { factors, of_r, .. }| {
                let (kernels, (tall, k)) = (factors.kernels(), factors.shape());
                let b_scale: Re<T> = of_r.check_b(b, a.size.0)?;
                let c = kernels.adopt(&b.lines(), b_scale.to_double())?;
                let projected = if wide {
                    let none = kernels.rows_from(&c, k)?;
                    [c, none]
                } else {
                    factors.projected(if ridge == 0.0 { c } else { kernels.with_rows(&c, tall)? })?
                };
                Ok(Begun { of: Held::Factors(factors), of_r, b_scale, projected })
            });
        }
        let mut clock = Clock::new(timed);
        let Start { of_r, root, tuning, largest_of_b } = Start::<T>::of(a, Some(b), (m, n), ridge, &of_qr)?;
        let b_scale = scale_of_b::<T>(b, largest_of_b)?;
        let of_scale = clock.restart();
        let of = Scaled { a: (&lines, of_r.scale.to_double()), b: (&b.lines(), b_scale.to_double()), root };
        let mut report = reduced(T::KIND, &of, on_its_device(a, tuning), &options.run, timed)?;
        report.seconds.scale = of_scale;
        Ok(report.map(|(reduced, projected)| Begun { of: Held::Reduced(Box::new(reduced)), of_r, b_scale, projected }))
    }
}

/// The solution by R in lower precision and an iteration on the host; None if that precision does not suffice.
fn in_lower_precision<T: Scalar>(
    a: &DeviceMatrix,
    b: &DeviceMatrix,
    options: &LstsqOptions,
    timed: bool,
) -> Result<Option<SvdReport<DeviceFit<T>>>> {
    let context = &a.context;
    if !b.context.is_same(context) {
        return Err(SvdError::invalid("b", "it is on another device than A"));
    }
    check_storage(&options.run)?;
    if options.products != Products::Native {
        context.cooperative()?;
    }
    let run = RunOptions { backend: Backend::Gpu, context: Some(context.clone()), ..options.run.clone() };
    let options = LstsqOptions { run, ..options.clone() };
    let stream = Stream::new(context)?;
    let read = |of: &DeviceMatrix| -> Result<Mat<T>> {
        let mut here = Mat::zeros(of.size.0, of.size.1);
        of.download_by_pieces(&stream, here.as_mut())?;
        Ok(here)
    };
    let (a_here, b_here) = (read(a)?, read(b)?);
    let factor = || {
        // Without the call's listener, which has been told of the factorisation.
        let run = RunOptions { progress: None, ..options.run.clone() };
        let options = factor_options(&LstsqOptions { run, ..options.clone() }, options.products);
        let mut report = DeviceQr::new(a, a.lines(), &options, false)?;
        let DeviceQr { factors, of_r, .. } = &report.values;
        let (r, scale) = (of_r.on_host(&**factors)?, of_r.scale);
        report.counts.add(&report.values.factors.kernels().counts());
        Ok(report.map(|_| (r, scale)))
    };
    // With a ridge R is that of a copy with more rows.
    let resident = options.products != Products::Native && !T::IS_DOUBLE && !T::IS_COMPLEX && options.ridge == 0.0;
    let found = lstsq_of_device::<T>(a_here.as_ref(), b_here.as_ref(), &options, timed, resident.then_some(&factor))?;
    let Some(found) = found else { return Ok(None) };
    let mut report = found.try_map(|Fit { x, rank, residuals, singular_values, .. }| {
        let x = DeviceMatrix::upload(&stream, x.as_ref(), None)?;
        Ok::<_, SvdError>(DeviceFit { x, rank, residuals, singular_values })
    })?;
    report.counts.add(&stream.counts());
    report.reason = "the matrix is on this GPU, and was read back for the iteration in double precision".into();
    report.shape = a.size;
    Ok(Some(report))
}

/// The options of the factorisation of A, with these products.
fn factor_options(options: &LstsqOptions, products: Products) -> QrOptions {
    QrOptions { tolerance: options.tolerance, products, ..options.run.clone().into() }
}

/// What solves it.
struct Solving<'a, T: Scalar> {
    begun: &'a Begun<T>,
    a: &'a DeviceMatrix,
    b: &'a DeviceMatrix,
    wide: bool,
    options: &'a LstsqOptions,
}

impl<T: Scalar> Solving<'_, T> {
    fn solution(&self) -> Result<(DeviceFit<T>, Solver)> {
        let Solving { begun, a, b, wide, .. } = *self;
        if let Some(found) = self.at_once()? {
            return Ok(found);
        }
        let Begun { of_r, b_scale, projected: [c, outside], .. } = begun;
        let triangle = begun.of.triangle();
        let (kernels, (_, k)) = (triangle.kernels(), triangle.shape());
        let ridge = self.options.ridge != 0.0;
        let op = if wide { Op::Trans } else { Op::NoTrans };
        let full = is_full_rank(of_r.condition(triangle)?, of_r.tolerance);
        let (y, rank, values) = if full {
            let y = kernels.with_rows(c, k)?;
            of_r.solve(triangle, op, &y)?;
            let asked = self.options.singular_values && !ridge;
            (y, k, asked.then(|| self.values_of(triangle)).transpose()?)
        } else {
            let r = of_r.on_host(triangle)?;
            let factors = self.factors_of(if wide { r.transpose() } else { r.as_ref() })?;
            let MinimumNorm { x, rank, values, .. } = MinimumNorm::new(factors, kernels.download(c)?.as_ref(), of_r.tolerance);
            (kernels.upload(x.as_ref(), Re::<T>::from_double(1.0))?, rank, Some(values))
        };
        // What Q^H B leaves outside the range of Q, and inside it what the solution leaves: nothing, if A is tall and the rank is full. With a ridge it is what
        // A X leaves, because Q has the rows of the ridge too.
        let left = if ridge || full && !wide {
            vec![0.0; b.size.1]
        } else {
            kernels.subtract_product(c, &kernels.upper(triangle.r(), k, 1.0)?, op, &y)?;
            squares::<T>(kernels.download(c)?.as_ref())
        };
        let x = match &begun.of {
            Held::Factors(factors) if wide => self.combined(factors, &y)?,
            _ => y,
        };
        let rest = if ridge { Some(self.rest(&x)?) } else { None };
        let outside = squares::<T>(kernels.download(rest.as_ref().unwrap_or(outside))?.as_ref());
        let residuals = self.lengths(left.into_iter().zip(outside).map(|(inside, outside)| inside + outside))?;
        let singular_values = match values {
            // Those of R have the ridge.
            _ if ridge && (self.options.singular_values || !full) => {
                Some(narrowed(&device_svdvals(a, &self.inner_options(), false)?.values))
            }
            values => values.map(|values| unscaled_values(values, of_r.scale)).transpose()?,
        };
        let x = of_r.unscaled(kernels, x, *b_scale)?;
        let fit = DeviceFit { x, rank, residuals, singular_values };
        Ok((fit, if full { Solver::Qr } else { Solver::Svd }))
    }

    /// The solution of a tall problem without a ridge, if R has full rank and what is outside A's range is small enough to travel with all else: all
    /// that the host needs is read back at once.
    fn at_once(&self) -> Result<Option<(DeviceFit<T>, Solver)>> {
        let Begun { of, of_r, b_scale, projected: [c, outside] } = self.begun;
        let bytes = outside.size.0.saturating_mul(outside.size.1).saturating_mul(size_of::<T>());
        if self.wide || self.options.ridge != 0.0 || bytes > OUTSIDE_BYTES || outside.a.len() > 1 {
            return Ok(None);
        }
        let triangle = of.triangle();
        let Solved { condition, x, other } = of_r.solved(triangle, c, *b_scale, Some(outside))?;
        if !is_full_rank(condition, of_r.tolerance) {
            return Ok(None);
        }
        let residuals = self.lengths(other.iter().flat_map(|other| squares::<T>(other.as_ref())))?;
        let singular_values = match self.options.singular_values {
            true => Some(unscaled_values(self.values_of(triangle)?, of_r.scale)?),
            false => None,
        };
        Ok(Some((DeviceFit { x: x?, rank: triangle.shape().1, residuals, singular_values }, Solver::Qr)))
    }

    /// Lengths from their squares for the scaled B.
    fn lengths(&self, squares: impl Iterator<Item = f64>) -> Result<Vec<Re<T>>> {
        let b_scale = self.begun.b_scale.to_double();
        let lengths: Vec<Re<T>> = squares.map(|square| Re::<T>::from_double(square.sqrt() / b_scale)).collect();
        if lengths.iter().any(|length| !length.to_double().is_finite()) {
            return Err(SvdError::overflow(T::KIND, "lengths of residuals"));
        }
        Ok(lengths)
    }

    /// The singular values of R.
    fn values_of(&self, triangle: &dyn Triangle) -> Result<Vec<Re<T>>> {
        Ok(svdvals(self.begun.of_r.on_host(triangle)?.as_ref(), &self.inner_options(), false)?.values)
    }

    /// conj(Q) Y for A^T = Q R, or the first rows of it for \[A^T; sqrt(ridge) I\] = Q R.
    fn combined(&self, factors: &Boxed, y: &Dense) -> Result<Dense> {
        let x = factors.combined(y, true)?;
        if self.options.ridge == 0.0 { Ok(x) } else { factors.kernels().with_rows(&x, self.a.size.1) }
    }

    /// B - A X of the scaled problem.
    fn rest(&self, x: &Dense) -> Result<Dense> {
        let Begun { of, of_r, b_scale, .. } = self.begun;
        let kernels = of.triangle().kernels();
        let rest = kernels.adopt(&self.b.lines(), b_scale.to_double())?;
        if x.size.0 * x.size.1 * rest.size.0 > 0 {
            kernels.subtract_product(&rest, &kernels.adopt(&self.a.lines(), of_r.scale.to_double())?, Op::NoTrans, x)?;
        }
        Ok(rest)
    }

    /// The decomposition of R or its transpose.
    fn factors_of(&self, r: MatRef<'_, T>) -> Result<Factors<T>> {
        Ok(svd(r, &self.inner_options(), false)?.values)
    }

    /// The options for the triangle R.
    fn inner_options(&self) -> SvdOptions {
        let context = Some(self.begun.of_r.context.clone());
        RunOptions { backend: Backend::Gpu, context, time_kernels: false, ..self.options.run.of_part() }.into()
    }
}
