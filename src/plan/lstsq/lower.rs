//! Least squares by conjugate gradients in double precision, preconditioned by R of a QR factorisation in lower precision.

use faer::{Mat, MatRef};
use half::f16;
use num_complex::Complex;

use crate::{
    algo::condition::condition,
    base::{
        error::{Result, SvdError},
        number::{HalfStorage, Number, Re, RealElement, Scalar},
        pool::on_pool,
    },
    cost::{Cost, CostOf},
    cpu::{least_squares::passes::System, tall::leaves::Wide},
    plan::{
        backend::Place,
        call::Call,
        lstsq::{Begun, Fit, Found, Iterated, is_full_rank, problem_of},
        options::{LstsqOptions, QrOptions, RunOptions},
        qr::{qr_async, qr_r},
        report::SvdReport,
        route::{Preconditioner, Route, Solver},
    },
    tile::{
        fixed::{column_exponents, exponent, times_power},
        products::Products,
    },
};

/// R of a multiple of A, the multiple, and the report of the factorisation, by a function that has A where it is factored.
pub type FactorOf<'a, T> = &'a (dyn Fn() -> Result<SvdReport<(Mat<T>, Re<T>)>> + Sync);

/// The solution, if a [`Preconditioner`] or [`Products`] ask for it; None if R's condition number is 1 / eps of the lower precision or more, or the iteration
/// does not converge.
pub(super) async fn solution<T: Scalar>(
    call: &Call<'_, T, LstsqOptions>,
    b: MatRef<'_, T>,
    awaited: bool,
    factor: Option<FactorOf<'_, T>>,
) -> Result<Option<SvdReport<Fit<T>>>> {
    let LstsqOptions { preconditioner, products, .. } = *call.options;
    if preconditioner == Preconditioner::Full && products == Products::Native {
        return Ok(None);
    }
    let found = converged(call, b, awaited, factor).await?;
    if found.is_none() {
        log::warn!("svdvals-gpu factors in full precision: {preconditioner} precision with {products} products does not suffice");
    }
    Ok(found)
}

async fn converged<T: Scalar>(
    call: &Call<'_, T, LstsqOptions>,
    b: MatRef<'_, T>,
    awaited: bool,
    factor: Option<FactorOf<'_, T>>,
) -> Result<Option<SvdReport<Fit<T>>>> {
    let (n, options) = (call.a.ncols(), call.options);
    let mut begun = Begun::new(call, b, &call.run.tuning_for_cpu(T::KIND, n)?, awaited)?;
    let resident = options.preconditioner == Preconditioner::Resident;
    if options.singular_values && !awaited {
        // They are those of A in its own precision: a device without that is an error before the work.
        Place::of(T::KIND, call.run, problem_of(call.a, b, options))?;
    }
    // R of A diag(2^-c), whose columns are near 1.
    let exponents = if resident { begun.column_exponents() } else { vec![0; n] };
    let scaled = |(r, scale): (Mat<T>, Re<T>)| {
        let by = begun.system.scale.to_double() / scale.to_double();
        Mat::from_fn(n, n, |i, j| Wide::<T>::from_complex(r[(i, j)].to_complex() * by))
    };
    let (eps, of_r) = match (options.preconditioner, T::IS_COMPLEX) {
        _ if options.products != Products::Native => {
            let r = match factor {
                Some(factor) => factor().map(|report| report.map(scaled)),
                None => Box::pin(begun.r_in::<f32>(&exponents, HalfStorage::Single)).await,
            };
            (options.products.epsilon(), r)
        }
        (Preconditioner::Half, _) => (f64::from(f16::EPSILON), Box::pin(begun.r_in::<f32>(&exponents, HalfStorage::Half)).await),
        (_, false) => (f64::from(f32::EPSILON), Box::pin(begun.r_in::<f32>(&exponents, HalfStorage::Single)).await),
        (_, true) => (f64::from(f32::EPSILON), Box::pin(begun.r_in::<Complex<f32>>(&exponents, HalfStorage::Single)).await),
    };
    let report = match of_r {
        // A ridge, or the norm of a column, may exceed the range of f16.
        Err(SvdError::NonFinite { .. } | SvdError::Overflow { .. }) => return Ok(None),
        other => other?,
    };
    let found = condition(report.values.as_ref());
    let deficient = |tolerance| !resident && !is_full_rank(found, tolerance);
    if found * eps >= 1.0 || options.tolerance.is_some_and(deficient) {
        return Ok(None);
    }
    let factor_seconds = begun.clock.restart();
    let (iterated, report) = if resident {
        begun.in_fixed_point(report, &exponents)?
    } else {
        (on_pool(|| begun.iterated(report.values.as_ref()))?, report)
    };
    let Some(Iterated { x, of_x, iterations }) = iterated else { return Ok(None) };
    let values = begun.values_of_a().await?;
    let fit = begun.fit(x, n, of_x, values, iterations)?;
    let solver = match options.products {
        _ if resident => Solver::Resident,
        Products::Native => Solver::Preconditioned,
        products => Solver::Recursive(products),
    };
    let Found { fit, solver, seconds } = begun.found(fit, solver, factor_seconds);
    let (route, report) = (Route::LeastSquares(solver), report.map(|_| fit));
    let cost = if options.products == Products::Native { (T::KIND, Cost::of_lstsq as CostOf) } else { report.cost };
    Ok(Some(SvdReport { route, cost, seconds, ..report }))
}

impl<T: Scalar> Begun<'_, T> {
    /// c of every column of the scaled real matrix and the rows of its ridge: entries below 2^c, the largest near that.
    fn column_exponents(&self) -> Vec<i32> {
        let System { a, scale, ridge, .. } = self.system;
        let (scale, root) = (scale.to_double().log2() as i32, exponent(ridge.sqrt()));
        let of_a = on_pool(|| column_exponents(a.shape(), |i, j| a[(i, j)].to_complex().re));
        of_a.into_iter().map(|c| root.max(c.map(|c| c + scale)).unwrap_or(0)).collect()
    }

    /// R of the scaled matrix and the rows of its ridge, with its columns divided by powers of two, factored as `P`, or stored as f16.
    async fn r_in<P: Scalar>(&self, exponents: &[i32], half_storage: HalfStorage) -> Result<SvdReport<Mat<Wide<T>>>> {
        let System { a, scale, ridge, .. } = self.system;
        let ((m, n), scale, root) = (a.shape(), scale.to_double(), ridge.sqrt());
        let rows = if ridge == 0.0 { m } else { m + n };
        let scaled = |x: Complex<f64>, j: usize| match exponents[j] {
            0 => x,
            c => Complex::new(times_power(x.re, -c), times_power(x.im, -c)),
        };
        let rounded = |x: Complex<f64>| match half_storage {
            HalfStorage::Single => P::from_complex(x),
            HalfStorage::Half => P::from_complex(f16::from_complex(x).to_complex()),
        };
        let copy = Mat::from_fn(rows, n, |i, j| match i {
            i if i < m => rounded(scaled(a[(i, j)].to_complex() * scale, j)),
            i if i - m == j => rounded(scaled(root.into(), j)),
            _ => P::zeroed(),
        });
        let run = RunOptions { half_storage, ..self.call.run.of_part() };
        let options = QrOptions { products: self.call.options.products, ..run.into() };
        let report = match self.awaited {
            true => qr_async(copy.as_ref(), &options, false).await?.map(|factors| factors.r().to_owned()),
            false => qr_r(copy.as_ref(), &options, false)?,
        };
        Ok(report.map(|r| Mat::from_fn(n, n, |i, j| Wide::<T>::from_complex(r[(i, j)].to_complex()))))
    }
}
