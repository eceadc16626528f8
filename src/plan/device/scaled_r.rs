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
    gpu::{
        device::context::GpuContext,
        kernels::GpuKernels,
        matrix::{DeviceMatrix, finite_largest},
        storage::Dense,
    },
    plan::{device::factors::Triangle, qr_factors::upper},
    tile::kernels::{TileKernels, Transfers},
};

/// Up to this order R is read back for its condition number: that takes less time than the steps of the estimate.
const READ_BACK: usize = 256;

/// Steps of the power method on the device. A random start has a part of about n^-1/2 along each singular vector: after k steps the square of the
/// estimate is at least n^(-1 / (2 k + 2)) of what it is of, 0.56 for n = 32768.
const STEPS: usize = 8;

/// What may overflow in a solution.
const SOLUTION: &str = "entries of the solution";

/// An estimate of R's condition number: known, or from these matrices on the host.
enum Estimate {
    Known(f64),
    /// R; or R^H R x and R^-1 R^-H y, for the last columns x and y of two power methods, and R's diagonal.
    From(Vec<Dense>),
}

impl Estimate {
    fn matrices(&self) -> &[Dense] {
        match self {
            Estimate::Known(_) => &[],
            Estimate::From(all) => all,
        }
    }
}

/// What [`ScaledR::solved`] finds.
pub(super) struct Solved<T: Scalar> {
    pub condition: f64,
    pub x: Result<DeviceMatrix>,
    pub other: Option<Mat<T>>,
}

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
        let estimate = self.begin_condition(of)?;
        if let Estimate::Known(condition) = estimate {
            return Ok(condition);
        }
        let (matrices, _) = self.read(of, &estimate.matrices().iter().collect::<Vec<_>>(), None)?;
        Ok(self.end_condition(&estimate, &matrices))
    }

    /// These matrices, and the largest part of another one if it is finite.
    fn read(&self, of: &dyn Triangle, matrices: &[&Dense], largest: Option<&DeviceMatrix>) -> Result<(Vec<Mat<T>>, Option<f64>)> {
        let kernels = of.kernels();
        let largest = largest.map(|x| x.begin_largest(&kernels.stream)).transpose()?;
        // That many real numbers, an even one, are half as many complex ones.
        let of_largest = largest.as_ref().map(|(found, reals)| (found, if T::IS_COMPLEX { reals / 2 } else { *reals }));
        let (matrices, found) = block_on(kernels.download_several::<T>(matrices, of_largest))?;
        let parts = found.iter().flat_map(|x| {
            let x = x.to_complex();
            [x.re, if T::IS_COMPLEX { x.im } else { 0.0 }]
        });
        Ok((matrices, finite_largest(parts)))
    }

    /// Begins the estimate, by products on the device with R and with its inverse if R is large. Infinite if a number overflows on its way.
    fn begin_condition(&self, of: &dyn Triangle) -> Result<Estimate> {
        let (kernels, n) = (of.kernels(), of.shape().1);
        if let Some(&known) = self.condition.get() {
            return Ok(Estimate::Known(known));
        }
        if n == 0 {
            return Ok(Estimate::Known(0.0));
        }
        let r = kernels.upper(of.r(), n, 1.0)?;
        if n <= READ_BACK {
            return Ok(Estimate::From(vec![r]));
        }
        let power = |m: &Dense, first: Op, second: Op| {
            let by_square = |x: &Dense| kernels.product(m, second, false, &kernels.product(m, first, false, x)?);
            let mut x = kernels.noise(n)?;
            for _ in 0..STEPS {
                x = by_square(&x)?;
                kernels.normalize(&x)?;
            }
            by_square(&x)
        };
        let (largest, diagonal) = (power(&r, Op::NoTrans, Op::ConjTrans)?, kernels.diagonal(&r)?);
        drop(r);
        let inverse = kernels.identity(of.r(), n, 0..n, false)?;
        kernels.solve_upper(of.r(), Op::NoTrans, &inverse)?;
        Ok(Estimate::From(vec![largest, power(&inverse, Op::ConjTrans, Op::NoTrans)?, diagonal]))
    }

    /// The estimate, from the matrices of one that was begun.
    fn end_condition(&self, estimate: &Estimate, matrices: &[Mat<T>]) -> f64 {
        // Of a column that comes from one of length 1.
        let length = |x: &Mat<T>| {
            let squares: f64 = x.col(0).iter().map(|x| x.to_complex().norm_sqr()).sum();
            if squares > 0.0 && squares.is_finite() { squares.sqrt() } else { f64::INFINITY }
        };
        let found = match (estimate, matrices) {
            (Estimate::Known(known), _) => *known,
            (Estimate::From(all), [r, ..]) if all.len() == 1 => condition(r.as_ref()),
            (_, [_, _, diagonal, ..]) if diagonal.col(0).iter().any(|x| *x == T::zero_impl()) => f64::INFINITY,
            (_, [largest, smallest, ..]) => (length(largest) * length(smallest)).sqrt(),
            _ => f64::INFINITY,
        };
        *self.condition.get_or_init(|| found)
    }

    /// R^-1 C, unscaled, before it is known whether R's condition number allows it; and the entries of another matrix. All travels to the host at once.
    pub fn solved(&self, of: &dyn Triangle, c: &Dense, b_scale: Re<T>, other: Option<&Dense>) -> Result<Solved<T>> {
        let kernels = of.kernels();
        let estimate = self.begin_condition(of)?;
        let y = kernels.with_rows(c, of.shape().1)?;
        self.solve(of, Op::NoTrans, &y)?;
        let x = self.times_scales(kernels, y, b_scale)?;
        let matrices: Vec<&Dense> = estimate.matrices().iter().chain(other).collect();
        let (mut matrices, largest) = self.read(of, &matrices, Some(&x))?;
        let condition = self.end_condition(&estimate, &matrices);
        let other = other.and_then(|_| matrices.pop());
        Ok(Solved { condition, x: if largest.is_some() { Ok(x) } else { Err(SvdError::overflow(T::KIND, SOLUTION)) }, other })
    }

    /// Checks B's number of rows and its device, and returns its scale.
    pub fn check_b(&self, b: &DeviceMatrix, rows: usize) -> Result<Re<T>> {
        check_shape(b, &self.context, rows)?;
        let [largest] = DeviceMatrix::largest_of([b])?;
        scale_of_b::<T>(b, largest)
    }

    pub fn check_device(&self, what: &'static str, context: &GpuContext) -> Result<()> {
        check_device(what, context, &self.context)
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
        finite(kernels, self.times_scales(kernels, x, b_scale)?, SOLUTION)
    }

    /// [`unscaled`](Self::unscaled), of which an entry may have overflowed.
    fn times_scales(&self, kernels: &GpuKernels, x: Dense, b_scale: Re<T>) -> Result<DeviceMatrix> {
        let exponent = |scale: Re<T>| scale.to_double().log2() as i32;
        let x = kernels.times_power(x, exponent(self.scale) - exponent(b_scale))?;
        DeviceMatrix::view(&self.context, &x, x.size)
    }

    /// The matrix in one buffer, without the padding, once the work on it is done.
    pub fn finished(&self, kernels: &GpuKernels, a: &Dense) -> Result<DeviceMatrix> {
        block_on(kernels.finish())?;
        DeviceMatrix::view(&self.context, a, a.size)
    }
}

fn check_device(what: &'static str, context: &GpuContext, of_a: &GpuContext) -> Result<()> {
    if context.is_same(of_a) { Ok(()) } else { Err(SvdError::invalid(what, "it is on another device than A")) }
}

/// Checks B's number of rows and its device.
pub(super) fn check_shape(b: &DeviceMatrix, of_a: &GpuContext, rows: usize) -> Result<()> {
    check_device("b", &b.context, of_a)?;
    match b.size.0 == rows {
        true => Ok(()),
        false => Err(SvdError::invalid("b", format!("{} rows, but A has {rows}", b.size.0))),
    }
}

/// B's scale, from its largest part if that is known.
pub(super) fn scale_of_b<T: Scalar>(b: &DeviceMatrix, largest: Option<f64>) -> Result<Re<T>> {
    b.scale_by(T::KIND, largest).map(Re::<T>::from_double).map_err(|error| match error {
        SvdError::NonFinite { row, col, value } => SvdError::invalid("b", format!("entry ({row}, {col}) is {value}")),
        other => other,
    })
}

/// The matrix, once the work on it is done, unless an entry has overflowed.
pub(super) fn finite(kernels: &GpuKernels, a: DeviceMatrix, what: &'static str) -> Result<DeviceMatrix> {
    block_on(kernels.stream.run_all())?;
    match a.scale(a.kind) {
        Err(SvdError::NonFinite { .. }) => Err(SvdError::overflow(a.kind, what)),
        Err(other) => Err(other),
        Ok(_) => Ok(a),
    }
}
