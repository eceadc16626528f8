//! The QR factorisation of a matrix that is on a device, and what is computed from it there.

use std::sync::OnceLock;

use faer::Mat;
use pollster::block_on;

use crate::{
    algo::{
        condition::{condition, estimate},
        svdvals::narrowed,
    },
    base::{
        blas::{Op, Side},
        clock::Clock,
        error::{Result, SvdError},
        number::{Re, RealElement, Scalar},
        pool::on_threads,
    },
    gpu::{
        device::context::GpuContext,
        kernels::GpuKernels,
        matrix::DeviceMatrix,
        storage::{Dense, Lines},
    },
    plan::{
        device::{
            check_storage,
            cholesky::by_kernels,
            factors::{Boxed, by_products, by_tree},
            on_its_device,
            svdvals::svdvals,
            turned::{Pivoted, turned},
        },
        lstsq::ridge::with_ridge,
        options::{QrOptions, SvdOptions, check_tolerance},
        products,
        qr_factors::{default_tolerance, numerical_rank, upper},
        report::SvdReport,
    },
    tile::{
        kernels::{TileKernels, Transfers},
        products::Products,
    },
};

/// Up to this order R is read back for its condition number: that takes less time than the steps of the estimate take to and fro.
const READ_BACK: usize = 256;

/// What is computed from A = Q R on a device. A trait, so that it is compiled in this crate for each type.
pub trait Factorisation<T: Scalar>: Send + Sync {
    /// Rows and columns of A.
    fn shape(&self) -> (usize, usize);
    /// The device.
    fn context(&self) -> &GpuContext;
    /// The first min(m, n) rows of R, with zeros below the diagonal.
    fn r(&self) -> Result<DeviceMatrix>;
    /// The first `cols` columns of Q.
    fn q(&self, cols: usize) -> Result<DeviceMatrix>;
    /// op(Q) C, or C op(Q).
    fn apply(&self, c: &DeviceMatrix, side: Side, op: Op) -> Result<DeviceMatrix>;
    /// The minimiser of ||A X - B||.
    fn solve(&self, b: &DeviceMatrix) -> Result<DeviceMatrix>;
    /// Column j of A P is column `order()[j]` of A.
    fn order(&self) -> Option<&[usize]>;
    /// The numerical rank by the diagonal of R.
    fn rank(&self) -> Result<usize>;
    /// The singular values of R, with default options.
    fn svdvals(&self) -> Result<Vec<Re<T>>>;
}

/// The factors and what they are of.
pub(super) struct DeviceQr<T: Scalar> {
    pub factors: Boxed,
    pub context: GpuContext,
    /// The power of two times which A was factored.
    pub scale: Re<T>,
    pub tolerance: f64,
    /// The order of the columns, if they are pivoted.
    pivoted: Option<Pivoted>,
    /// The estimate of R's condition number, once a call has needed it.
    condition: OnceLock<f64>,
}

/// Factors a matrix.
pub(crate) fn qr<T: Scalar>(a: &DeviceMatrix, options: &QrOptions, timed: bool) -> Result<SvdReport<Box<dyn Factorisation<T>>>> {
    on_threads(options.run.threads, || {
        let report = DeviceQr::new(a, a.lines(), options, timed)?;
        Ok(report.map(|factors| -> Box<dyn Factorisation<T>> { Box::new(factors) }))
    })
}

/// The matrix of a call, in one buffer, without the padding.
fn view(context: &GpuContext, a: &Dense) -> Result<DeviceMatrix> {
    DeviceMatrix::view(context, a, a.size)
}

impl<T: Scalar> DeviceQr<T> {
    /// Factors the matrix of `lines`, which is `a` or its transpose.
    pub fn new(a: &DeviceMatrix, lines: Lines<'_>, options: &QrOptions, timed: bool) -> Result<SvdReport<Self>> {
        Self::of(a, lines, 0.0, options, timed)
    }

    /// Factors the same with the rows of sqrt(`ridge`) I below it, unless the ridge is zero. Products by low precision are of matrices without a ridge.
    pub fn of(a: &DeviceMatrix, lines: Lines<'_>, ridge: f64, options: &QrOptions, timed: bool) -> Result<SvdReport<Self>> {
        check_tolerance(options.tolerance)?;
        products::check::<T>(options)?;
        check_storage(&options.run)?;
        let (context, shape) = (&a.context, lines.size());
        context.require(T::KIND)?;
        let tuning = options.run.tuning_for_adapter(T::KIND, context, shape.0.min(shape.1))?;
        let (total, mut clock) = (Clock::new(timed), Clock::new(timed));
        let native = options.products == Products::Native;
        if !native {
            context.cooperative()?;
        }
        let (scale, root) = with_ridge(Re::<T>::from_double(a.scale(T::KIND)?), ridge)?;
        let of_scale = clock.restart();
        let on = on_its_device(a, tuning);
        let mut report = if native && ridge != 0.0 {
            let rows = shape.0.saturating_add(shape.1);
            by_tree(
                T::KIND,
                |kernels| kernels.with_ridge(&lines, scale.to_double(), root.to_double()),
                (rows, shape.1),
                on,
                options,
                timed,
            )?
        } else if native {
            by_kernels::<T>(&lines, scale, on, options, timed)?
        } else {
            by_products(&lines, scale.to_double() as f32, on, options, timed)?
        };
        report.seconds.scale = of_scale;
        let default = || if native { default_tolerance::<T>(shape) } else { products::tolerance(options, shape) };
        let tolerance = options.tolerance.unwrap_or_else(default);
        let context = context.clone();
        clock.restart();
        let made = |factors| DeviceQr { factors, context, scale, tolerance, pivoted: None, condition: OnceLock::new() };
        let mut report = report.map(made);
        if options.pivot || options.positive_diagonal {
            report = report.try_map(|qr| qr.turned(options))?;
            report.seconds.qr += clock.restart();
            report.counts.add(&report.values.kernels().counts());
        }
        report.seconds.total = total.seconds();
        Ok(report)
    }

    /// The factors with the pivoting and the signs that the options ask for. R is read back once.
    fn turned(self, options: &QrOptions) -> Result<Self> {
        let r = self.r_on_host()?;
        let (factors, pivoted) = turned(self.factors, r, self.tolerance, options)?;
        Ok(DeviceQr { factors, pivoted, ..self })
    }

    fn kernels(&self) -> &GpuKernels {
        self.factors.kernels()
    }

    /// The matrix, once the work on it is done.
    fn finished(&self, a: &Dense) -> Result<DeviceMatrix> {
        block_on(self.kernels().finish())?;
        view(&self.context, a)
    }

    /// The estimate of R's condition number. A small R is read back for it.
    pub fn condition(&self) -> Result<f64> {
        if let Some(&condition) = self.condition.get() {
            return Ok(condition);
        }
        let found =
            if self.factors.shape().1 <= READ_BACK { condition(self.r_on_host()?.as_ref()) } else { self.condition_there()? };
        Ok(*self.condition.get_or_init(|| found))
    }

    /// The estimate by products and solves on the device of a column that comes from the host and goes back after two steps of the power method.
    fn condition_there(&self) -> Result<f64> {
        let (kernels, n, one) = (self.kernels(), self.factors.shape().1, Re::<T>::from_double(1.0));
        let r = kernels.upper(self.factors.r(), n, 1.0)?;
        let diagonal: Mat<T> = kernels.download(&kernels.diagonal(&r)?)?;
        if diagonal.col_iter().any(|column| column.iter().any(|x| x.to_complex().norm() == 0.0)) {
            return Ok(f64::INFINITY);
        }
        let by_square = |x: &mut Mat<T>| {
            let by = |op, of: &Dense| kernels.product(&r, op, false, of);
            let y = by(Op::ConjTrans, &by(Op::NoTrans, &kernels.upload(x.as_ref(), one)?)?)?;
            kernels.normalize(&y)?;
            *x = kernels.download(&by(Op::ConjTrans, &by(Op::NoTrans, &y)?)?)?;
            Ok(1.0)
        };
        let by_inverse = |x: &mut Mat<T>| {
            let y = kernels.upload(x.as_ref(), one)?;
            for op in [Op::ConjTrans, Op::NoTrans] {
                kernels.solve_upper(&r, op, &y)?;
            }
            kernels.normalize(&y)?;
            for op in [Op::ConjTrans, Op::NoTrans] {
                kernels.solve_upper(&r, op, &y)?;
            }
            *x = kernels.download(&y)?;
            // A column of zeros has overflowed on its way: R is not singular.
            let sum: f64 = x.col(0).iter().map(|x| x.to_complex().norm_sqr()).sum();
            Ok(if sum > 0.0 && sum.is_finite() { 1.0 } else { f64::INFINITY })
        };
        // Half of the condition number is near enough.
        estimate((n, 2, 0.1), by_square, by_inverse)
    }

    /// Checks B's number of rows and its device, and returns its scale.
    pub fn check_b(&self, b: &DeviceMatrix, rows: usize) -> Result<Re<T>> {
        self.check_device("b", &b.context)?;
        if b.size.0 != rows {
            return Err(SvdError::invalid("b", format!("{} rows, but A has {rows}", b.size.0)));
        }
        b.scale(T::KIND).map(Re::<T>::from_double).map_err(|error| match error {
            SvdError::NonFinite { row, col, value } => SvdError::invalid("b", format!("entry ({row}, {col}) is {value}")),
            other => other,
        })
    }

    fn check_device(&self, what: &'static str, context: &GpuContext) -> Result<()> {
        if context.is_same(&self.context) { Ok(()) } else { Err(SvdError::invalid(what, "it is on another device than A")) }
    }

    /// The first k rows of the scaled R.
    pub fn r_on_host(&self) -> Result<Mat<T>> {
        let (m, n) = self.factors.shape();
        let r: Mat<T> = block_on(self.kernels().download_rows(self.factors.r(), m.min(n)))?;
        Ok(upper(r.as_ref()))
    }

    /// op(R)^-1 C in place of C, with the scaled R.
    pub fn solve_r(&self, op: Op, c: &Dense) -> Result<()> {
        if c.size.0 == 0 || c.size.1 == 0 { Ok(()) } else { self.kernels().solve_upper(self.factors.r(), op, c) }
    }

    /// X of the caller's problem, from that of the scaled one.
    pub fn unscaled(&self, x: Dense, b_scale: Re<T>) -> Result<DeviceMatrix> {
        let exponent = |scale: Re<T>| scale.to_double().log2() as i32;
        let x = self.kernels().times_power(x, exponent(self.scale) - exponent(b_scale))?;
        finite(self.finished(&x)?, "entries of the solution")
    }
}

impl<T: Scalar> Factorisation<T> for DeviceQr<T> {
    fn shape(&self) -> (usize, usize) {
        self.factors.shape()
    }

    fn context(&self) -> &GpuContext {
        &self.context
    }

    fn r(&self) -> Result<DeviceMatrix> {
        let (m, n) = self.factors.shape();
        let inverse = 1.0 / self.scale.to_double();
        let r = self.finished(&self.kernels().upper(self.factors.r(), m.min(n), inverse)?)?;
        finite(r, "entries of R")
    }

    fn q(&self, cols: usize) -> Result<DeviceMatrix> {
        self.finished(&self.factors.columns(cols)?)
    }

    fn apply(&self, c: &DeviceMatrix, side: Side, op: Op) -> Result<DeviceMatrix> {
        let rows = self.factors.shape().0;
        let order = if side == Side::Left { c.size.0 } else { c.size.1 };
        if order != rows {
            let of = if side == Side::Left { "rows" } else { "columns" };
            return Err(SvdError::invalid("c", format!("{order} {of}, but Q is {rows} x {rows}")));
        }
        self.check_device("c", &c.context)?;
        let (lines, one) = (c.lines(), 1.0);
        if side == Side::Left {
            return self.finished(&self.factors.applied(op, self.kernels().adopt(&lines, one)?, false)?);
        }
        // C op(Q) = (op(Q)^T C^T)^T, and the transpose of Q^H is the conjugate of Q.
        let op_of_transpose = if op == Op::NoTrans { Op::Trans } else { Op::NoTrans };
        let turned = self.kernels().adopt(&Lines { by_rows: !lines.by_rows, ..lines }, one)?;
        let product = self.factors.applied(op_of_transpose, turned, op == Op::ConjTrans)?;
        Ok(self.finished(&product)?.transposed())
    }

    fn solve(&self, b: &DeviceMatrix) -> Result<DeviceMatrix> {
        let (m, n) = self.factors.shape();
        let b_scale = self.check_b(b, m)?;
        let rank = match &self.pivoted {
            Some(Pivoted { rank, .. }) => *rank,
            None if m < n || self.condition()? * self.tolerance >= 1.0 => {
                return Err(SvdError::RankDeficient { rank: m.min(n.saturating_sub(1)), cols: n });
            }
            None => n,
        };
        let c = self.kernels().adopt(&b.lines(), b_scale.to_double())?;
        let [c, _] = self.factors.projected(c)?;
        let mut x = self.kernels().with_rows(&c, rank)?;
        self.solve_r(Op::NoTrans, &x)?;
        if let Some(pivoted) = &self.pivoted {
            x = pivoted.permuted::<T>(self.kernels(), &x)?;
        }
        self.unscaled(x, b_scale)
    }

    fn order(&self) -> Option<&[usize]> {
        self.pivoted.as_ref().map(|pivoted| &pivoted.order[..])
    }

    fn rank(&self) -> Result<usize> {
        match &self.pivoted {
            Some(Pivoted { rank, .. }) => Ok(*rank),
            None => Ok(numerical_rank(self.r_on_host()?.as_ref(), self.tolerance)),
        }
    }

    fn svdvals(&self) -> Result<Vec<Re<T>>> {
        Ok(narrowed(&svdvals(&self.r()?, &SvdOptions::default(), false)?.values))
    }
}

/// The matrix, unless an entry has overflowed.
fn finite(a: DeviceMatrix, what: &'static str) -> Result<DeviceMatrix> {
    match a.scale(a.kind) {
        Err(SvdError::NonFinite { .. }) => Err(SvdError::overflow(a.kind, what)),
        Err(other) => Err(other),
        Ok(_) => Ok(a),
    }
}
