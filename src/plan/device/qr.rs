//! The QR factorisation of a matrix that is on a device, and what is computed from it there.

use crate::{
    algo::svdvals::narrowed,
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
            scaled_r::{ScaledR, Solved, check_shape, finite},
            svdvals::svdvals,
            turned::{Pivoted, turned},
        },
        lstsq::ridge::with_ridge,
        options::{QrOptions, SvdOptions, check_tolerance},
        products,
        qr_factors::{default_tolerance, numerical_rank},
        report::SvdReport,
    },
    tile::{products::Products, tuning::Tuning},
};

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
    pub of_r: ScaledR<T>,
    /// The order of the columns, if they are pivoted.
    pivoted: Option<Pivoted>,
}

/// What a factorisation begins with.
pub(super) struct Start<T: Scalar> {
    pub of_r: ScaledR<T>,
    /// The root of the scaled ridge.
    pub root: f64,
    pub tuning: Tuning,
    /// The largest part of B, if that was asked for and is finite.
    pub largest_of_b: Option<f64>,
}

impl<T: Scalar> Start<T> {
    /// Checks the options, and scales the matrix of this shape, which is `a` or its transpose; and B, if it is to be looked at by the way.
    pub fn of(
        a: &DeviceMatrix,
        b: Option<&DeviceMatrix>,
        shape: (usize, usize),
        ridge: f64,
        options: &QrOptions,
    ) -> Result<Self> {
        check_tolerance(options.tolerance)?;
        products::check::<T>(options)?;
        check_storage(&options.run)?;
        a.context.require(T::KIND)?;
        let tuning = options.run.tuning_of_factors(T::KIND, &a.context, shape.0.min(shape.1))?;
        let native = options.products == Products::Native;
        if !native {
            a.context.cooperative()?;
        }
        let (largest, largest_of_b) = match b {
            None => {
                let [of_a] = DeviceMatrix::largest_of([a])?;
                (of_a, None)
            }
            Some(b) => {
                check_shape(b, &a.context, shape.0)?;
                let [of_a, of_b] = DeviceMatrix::largest_of([a, b])?;
                (of_a, of_b)
            }
        };
        let (scale, root) = with_ridge(Re::<T>::from_double(a.scale_by(T::KIND, largest)?), ridge)?;
        let default = || if native { default_tolerance::<T>(shape) } else { products::tolerance(options, shape) };
        let tolerance = options.tolerance.unwrap_or_else(default);
        Ok(Start { of_r: ScaledR::new(&a.context, scale, tolerance), root: root.to_double(), tuning, largest_of_b })
    }
}

/// Factors a matrix.
pub(crate) fn qr<T: Scalar>(a: &DeviceMatrix, options: &QrOptions, timed: bool) -> Result<SvdReport<Box<dyn Factorisation<T>>>> {
    on_threads(options.run.threads, || {
        let report = DeviceQr::new(a, a.lines(), options, timed)?;
        Ok(report.map(|factors| -> Box<dyn Factorisation<T>> { Box::new(factors) }))
    })
}

impl<T: Scalar> DeviceQr<T> {
    /// Factors the matrix of `lines`, which is `a` or its transpose.
    pub fn new(a: &DeviceMatrix, lines: Lines<'_>, options: &QrOptions, timed: bool) -> Result<SvdReport<Self>> {
        Self::of(a, lines, 0.0, options, timed)
    }

    /// Factors the same with the rows of sqrt(`ridge`) I below it, unless the ridge is zero. Products by low precision are of matrices without a ridge.
    pub fn of(a: &DeviceMatrix, lines: Lines<'_>, ridge: f64, options: &QrOptions, timed: bool) -> Result<SvdReport<Self>> {
        let shape = lines.size();
        let (total, mut clock) = (Clock::new(timed), Clock::new(timed));
        let native = options.products == Products::Native;
        let Start { of_r, root, tuning, .. } = Start::<T>::of(a, None, shape, ridge, options)?;
        let (scale, of_scale) = (of_r.scale, clock.restart());
        let on = on_its_device(a, tuning);
        let mut report = if native && ridge != 0.0 {
            let rows = shape.0.saturating_add(shape.1);
            by_tree(T::KIND, |kernels| kernels.with_ridge(&lines, scale.to_double(), root), (rows, shape.1), on, options, timed)?
        } else if native {
            by_kernels::<T>(&lines, scale, on, options, timed)?
        } else {
            by_products(&lines, scale.to_double() as f32, on, options, timed)?
        };
        report.seconds.scale = of_scale;
        clock.restart();
        let mut report = report.map(|factors| DeviceQr { factors, of_r, pivoted: None });
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
        let r = self.of_r.on_host(&*self.factors)?;
        let (factors, pivoted) = turned(self.factors, r, self.of_r.tolerance, options)?;
        Ok(DeviceQr { factors, pivoted, ..self })
    }

    fn kernels(&self) -> &GpuKernels {
        self.factors.kernels()
    }

    fn finished(&self, a: &Dense) -> Result<DeviceMatrix> {
        self.of_r.finished(self.kernels(), a)
    }
}

impl<T: Scalar> Factorisation<T> for DeviceQr<T> {
    fn shape(&self) -> (usize, usize) {
        self.factors.shape()
    }

    fn context(&self) -> &GpuContext {
        &self.of_r.context
    }

    fn r(&self) -> Result<DeviceMatrix> {
        let (m, n) = self.factors.shape();
        let inverse = 1.0 / self.of_r.scale.to_double();
        let r = self.kernels().upper(self.factors.r(), m.min(n), inverse)?;
        finite(self.kernels(), DeviceMatrix::from_dense(self.context(), r)?, "entries of R")
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
        self.of_r.check_device("c", &c.context)?;
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
        let b_scale = self.of_r.check_b(b, m)?;
        let deficient = || Err(SvdError::RankDeficient { rank: m.min(n.saturating_sub(1)), cols: n });
        if self.pivoted.is_none() && m < n {
            return deficient();
        }
        let c = self.kernels().adopt(&b.lines(), b_scale.to_double())?;
        let [c, _] = self.factors.projected(c)?;
        let Some(pivoted) = &self.pivoted else {
            let Solved { condition, x, .. } = self.of_r.solved(&*self.factors, &c, b_scale, None)?;
            return if condition * self.of_r.tolerance >= 1.0 { deficient() } else { x };
        };
        let x = self.kernels().with_rows(&c, pivoted.rank)?;
        self.of_r.solve(&*self.factors, Op::NoTrans, &x)?;
        let x = pivoted.permuted::<T>(self.kernels(), &x)?;
        self.of_r.unscaled(self.kernels(), x, b_scale)
    }

    fn order(&self) -> Option<&[usize]> {
        self.pivoted.as_ref().map(|pivoted| &pivoted.order[..])
    }

    fn rank(&self) -> Result<usize> {
        match &self.pivoted {
            Some(Pivoted { rank, .. }) => Ok(*rank),
            None => Ok(numerical_rank(self.of_r.on_host(&*self.factors)?.as_ref(), self.of_r.tolerance)),
        }
    }

    fn svdvals(&self) -> Result<Vec<Re<T>>> {
        Ok(narrowed(&svdvals(&self.r()?, &SvdOptions::default(), false)?.values))
    }
}
