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
    plan::{device::factors::Triangle, lstsq::is_full_rank, qr_factors::upper},
    tile::kernels::{TileKernels, Transfers},
};

/// Up to this order R is read back for its condition number: that takes less time than the steps of the estimate.
const READ_BACK: usize = 256;

/// Steps of the power method on the device, where the norms of R and its inverse do not show that the rank is full. A random start has a part of about n^-1/2 along each singular vector: after k steps the square of the
/// estimate is at least n^(-1 / (2 k + 2)) of what it is of, 0.56 for n = 32768.
const STEPS: usize = 8;

/// What may overflow in a solution.
const SOLUTION: &str = "entries of the solution";

/// What R's condition number is estimated from.
struct Estimate {
    known: Option<f64>,
    /// R, if it is small; else R and its inverse.
    matrices: Vec<Dense>,
}

/// What was read back.
struct Found<T: Scalar> {
    /// R, if it is small.
    r: Option<Mat<T>>,
    /// ||R|| ||R^-1|| in the Frobenius norm, an upper bound of the condition number, if R is large. It may not be finite.
    bound: Option<f64>,
    other: Option<Mat<T>>,
    /// The largest part of X, if all its entries are finite.
    largest: Option<f64>,
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

    /// An estimate of R's condition number, or an upper bound if that shows that the rank is full. A small R is read back for it.
    pub fn condition(&self, of: &dyn Triangle) -> Result<f64> {
        let estimate = self.begin_condition(of)?;
        match estimate.known {
            Some(known) => Ok(known),
            None => self.end_condition(of, &estimate, &self.read(of, &estimate, None, None)?),
        }
    }

    /// What the host needs for the estimate, another matrix, and whether the entries of X are finite.
    fn read(&self, of: &dyn Triangle, estimate: &Estimate, other: Option<&Dense>, x: Option<&DeviceMatrix>) -> Result<Found<T>> {
        let (kernels, all) = (of.kernels(), &estimate.matrices);
        let (small, norms): (_, &[Dense]) = if all.len() == 1 { (all.first(), &[]) } else { (None, all) };
        let mut searches = Vec::new();
        for matrix in norms {
            searches.push(DeviceMatrix::view(&self.context, matrix, matrix.size)?.begin_largest(&kernels.stream)?);
        }
        if let Some(x) = x {
            searches.push(x.begin_largest(&kernels.stream)?);
        }
        // An even number of real numbers are half as many complex ones.
        let numbers = |reals: usize| if T::IS_COMPLEX { reals / 2 } else { reals };
        let buffers: Vec<_> = searches.iter().map(|(found, reals)| (found, numbers(2 * reals))).collect();
        let matrices: Vec<&Dense> = small.into_iter().chain(other).collect();
        let (mut matrices, found) = block_on(kernels.download_several::<T>(&matrices, &buffers))?;
        let reals = |found: &[T]| -> Vec<f64> {
            let parts = |x: &T| {
                let x = x.to_complex();
                [x.re, x.im].into_iter().take(if T::IS_COMPLEX { 2 } else { 1 })
            };
            found.iter().flat_map(parts).collect()
        };
        let halves: Vec<(Vec<f64>, f64)> = found
            .iter()
            .map(|found| {
                let mut largest = reals(found);
                let squares = largest.split_off(largest.len() / 2).into_iter().sum();
                (largest, squares)
            })
            .collect();
        let product: f64 = halves.iter().take(norms.len()).map(|(_, squares)| squares).product();
        Ok(Found {
            other: other.and_then(|_| matrices.pop()),
            r: small.and_then(|_| matrices.pop()),
            bound: (!norms.is_empty()).then(|| product.sqrt()),
            largest: x.and(halves.into_iter().next_back()).and_then(|(largest, _)| finite_largest(largest)),
        })
    }

    /// Begins the estimate. A large R is inverted on the device.
    fn begin_condition(&self, of: &dyn Triangle) -> Result<Estimate> {
        let (kernels, n) = (of.kernels(), of.shape().1);
        let known = if n == 0 { Some(0.0) } else { self.condition.get().copied() };
        if known.is_some() {
            return Ok(Estimate { known, matrices: Vec::new() });
        }
        let mut matrices = vec![kernels.upper(of.r(), n, 1.0)?];
        if n > READ_BACK {
            let inverse = kernels.identity(of.r(), n, 0..n, false)?;
            kernels.solve_upper(of.r(), Op::NoTrans, &inverse)?;
            matrices.push(inverse);
        }
        Ok(Estimate { known, matrices })
    }

    /// The estimate, from what was read back for one that was begun.
    fn end_condition(&self, of: &dyn Triangle, estimate: &Estimate, found: &Found<T>) -> Result<f64> {
        let condition = match (estimate.known, &found.r, found.bound) {
            (Some(known), ..) => known,
            (_, Some(r), _) => condition(r.as_ref()),
            // The sums have rounding errors, of less than a part in a thousand.
            (_, _, Some(bound)) if is_full_rank(1.001 * bound, self.tolerance) => bound,
            _ => self.by_powers(of, &estimate.matrices)?,
        };
        Ok(*self.condition.get_or_init(|| condition))
    }

    /// The estimate by products on the device with R and with its inverse. Two columns and the diagonal come back. Infinite if a number overflows on its way.
    fn by_powers(&self, of: &dyn Triangle, matrices: &[Dense]) -> Result<f64> {
        let ([r, inverse], kernels) = (matrices, of.kernels()) else { return Ok(f64::INFINITY) };
        let parts = [kernels.diagonal(r)?, kernels.power(r, false, STEPS)?, kernels.power(inverse, true, STEPS)?];
        let (found, _) = block_on(kernels.download_several::<T>(&parts.each_ref(), &[]))?;
        let [diagonal, columns @ ..] = &found[..] else { return Ok(f64::INFINITY) };
        if diagonal.col(0).iter().any(|x| *x == T::zero_impl()) {
            return Ok(f64::INFINITY);
        }
        // Of columns that come from those of length 1.
        let length = |x: &Mat<T>| {
            let squares: f64 = x.col(0).iter().map(|x| x.to_complex().norm_sqr()).sum();
            if squares > 0.0 && squares.is_finite() { squares.sqrt() } else { f64::INFINITY }
        };
        Ok(columns.iter().map(length).product::<f64>().sqrt())
    }

    /// R^-1 C, unscaled, before it is known whether R's condition number allows it; and the entries of another matrix. All travels to the host at once.
    pub fn solved(&self, of: &dyn Triangle, c: &Dense, b_scale: Re<T>, other: Option<&Dense>) -> Result<Solved<T>> {
        let kernels = of.kernels();
        let estimate = self.begin_condition(of)?;
        let y = kernels.with_rows(c, of.shape().1)?;
        self.solve(of, Op::NoTrans, &y)?;
        let x = self.times_scales(kernels, y, b_scale)?;
        let found = self.read(of, &estimate, other, Some(&x))?;
        let condition = self.end_condition(of, &estimate, &found)?;
        let overflow = || SvdError::overflow(T::KIND, SOLUTION);
        Ok(Solved { condition, x: found.largest.map(|_| x).ok_or_else(overflow), other: found.other })
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
        Ok(upper(r))
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
