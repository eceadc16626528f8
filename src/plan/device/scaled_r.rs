//! What is computed from the R of a scaled matrix on a device.

use std::sync::OnceLock;

use faer::Mat;
use pollster::block_on;

use crate::{
    algo::condition::condition,
    base::{
        blas::Op,
        error::{Result, SvdError},
        number::{Re, RealElement, Scalar},
    },
    gpu::{device::context::GpuContext, kernels::GpuKernels, matrix::DeviceMatrix, storage::Dense},
    plan::{device::factors::Triangle, qr_factors::upper},
    tile::kernels::{TileKernels, Transfers},
};

/// Up to this order R is read back for its condition number: that takes less time than the steps of the estimate.
const READ_BACK: usize = 256;

/// Steps of the power method on the device. A random start has a part of about n^-1/2 along each singular vector: after k steps the square of the
/// estimate is at least n^(-1 / (2 k + 2)) of what it is of, 0.56 for n = 32768.
const STEPS: usize = 8;

/// The properties of a factorisation of `scale` times A, whose R a [`Triangle`] has.
pub(super) struct ScaledR<T: Scalar> {
    pub context: GpuContext,
    /// A power of two.
    pub scale: Re<T>,
    pub tolerance: f64,
    /// The estimate of R's condition number, once a call has needed it.
    condition: OnceLock<f64>,
}

impl<T: Scalar> ScaledR<T> {
    pub fn new(context: &GpuContext, scale: Re<T>, tolerance: f64) -> Self {
        ScaledR { context: context.clone(), scale, tolerance, condition: OnceLock::new() }
    }

    /// The estimate of R's condition number. A small R is read back for it.
    pub fn condition(&self, of: &dyn Triangle) -> Result<f64> {
        if let Some(&condition) = self.condition.get() {
            return Ok(condition);
        }
        let there = of.shape().1 > READ_BACK;
        let found = if there { self.condition_there(of)? } else { condition(self.on_host(of)?.as_ref()) };
        Ok(*self.condition.get_or_init(|| found))
    }

    /// The estimate by products on the device with R and with its inverse. Two columns and the diagonal come back.
    fn condition_there(&self, of: &dyn Triangle) -> Result<f64> {
        let (kernels, n) = (of.kernels(), of.shape().1);
        let power = |m: &Dense, first: Op, second: Op| {
            let by_square = |x: &Dense| kernels.product(m, second, false, &kernels.product(m, first, false, x)?);
            let mut x = kernels.noise(n)?;
            for _ in 0..STEPS {
                x = by_square(&x)?;
                kernels.normalize(&x)?;
            }
            by_square(&x)
        };
        // Of a column that comes from one of length 1. Infinite if a number has overflowed on its way.
        let length = |x: &Dense| {
            let x: Mat<T> = kernels.download(x)?;
            let squares: f64 = x.col(0).iter().map(|x| x.to_complex().norm_sqr()).sum();
            Ok::<_, SvdError>(if squares > 0.0 && squares.is_finite() { squares.sqrt() } else { f64::INFINITY })
        };
        let (largest, diagonal) = {
            let r = kernels.upper(of.r(), n, 1.0)?;
            (power(&r, Op::NoTrans, Op::ConjTrans)?, kernels.diagonal(&r)?)
        };
        let diagonal: Mat<T> = kernels.download(&diagonal)?;
        if diagonal.col(0).iter().any(|x| x.to_complex().norm() == 0.0) {
            return Ok(f64::INFINITY);
        }
        let inverse = kernels.identity(of.r(), n, 0..n, false)?;
        kernels.solve_upper(of.r(), Op::NoTrans, &inverse)?;
        let smallest = power(&inverse, Op::ConjTrans, Op::NoTrans)?;
        Ok((length(&largest)? * length(&smallest)?).sqrt())
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

    pub fn check_device(&self, what: &'static str, context: &GpuContext) -> Result<()> {
        if context.is_same(&self.context) { Ok(()) } else { Err(SvdError::invalid(what, "it is on another device than A")) }
    }

    /// The first min(m, n) rows of the scaled R.
    pub fn on_host(&self, of: &dyn Triangle) -> Result<Mat<T>> {
        let (m, n) = of.shape();
        let r: Mat<T> = block_on(of.kernels().download_rows(of.r(), m.min(n)))?;
        Ok(upper(r.as_ref()))
    }

    /// op(R)^-1 C in place of C, with the scaled R.
    pub fn solve(&self, of: &dyn Triangle, op: Op, c: &Dense) -> Result<()> {
        if c.size.0 == 0 || c.size.1 == 0 { Ok(()) } else { of.kernels().solve_upper(of.r(), op, c) }
    }

    /// X of the caller's problem, from that of the scaled one.
    pub fn unscaled(&self, kernels: &GpuKernels, x: Dense, b_scale: Re<T>) -> Result<DeviceMatrix> {
        let exponent = |scale: Re<T>| scale.to_double().log2() as i32;
        let x = kernels.times_power(x, exponent(self.scale) - exponent(b_scale))?;
        finite(self.finished(kernels, &x)?, "entries of the solution")
    }

    /// The matrix in one buffer, without the padding, once the work on it is done.
    pub fn finished(&self, kernels: &GpuKernels, a: &Dense) -> Result<DeviceMatrix> {
        block_on(kernels.finish())?;
        DeviceMatrix::view(&self.context, a, a.size)
    }
}

/// The matrix, unless an entry has overflowed.
pub(super) fn finite(a: DeviceMatrix, what: &'static str) -> Result<DeviceMatrix> {
    match a.scale(a.kind) {
        Err(SvdError::NonFinite { .. }) => Err(SvdError::overflow(a.kind, what)),
        Err(other) => Err(other),
        Ok(_) => Ok(a),
    }
}
