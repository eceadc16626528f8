//! Least squares in double precision on a device without f64: `Preconditioner::Resident`.

use faer::{Mat, MatRef};
use num_complex::Complex;
use svdvals_gpu::{
    AdapterChoice, Backend, DeviceLimits, Element, GpuContext, LstsqGpu, LstsqOptions, Preconditioner, Products, Route, Solver,
    SvdError, cost::Kernel,
};

use crate::{
    Outcome, check,
    common::noise,
    lstsq::{check as ratio_of, right_sides},
    tuning,
    vectors::matrix,
};

/// Q1 diag(s) Q2^T with singular values from 1 to 1 / `condition`, in a geometric sequence.
fn with_condition(m: usize, n: usize, condition: f64) -> Mat<f64> {
    let s = |j: usize| condition.powf(-(j as f64) / (n.max(2) - 1) as f64);
    let left = matrix::<f64>("unitary", m, n);
    Mat::from_fn(m, n, |i, j| left[(i, j)] * s(j)) * matrix::<f64>("unitary", n, n).transpose()
}

/// b - A x of one column with products and sums in twice the precision (Ogita, Rump and Oishi 2005).
fn residual(a: MatRef<'_, f64>, x: MatRef<'_, f64>, b: MatRef<'_, f64>, j: usize) -> Mat<f64> {
    Mat::from_fn(a.nrows(), 1, |i, _| {
        let (mut high, mut low) = (b[(i, j)], 0.0);
        for k in 0..a.ncols() {
            let product = -a[(i, k)] * x[(k, j)];
            let rest = (-a[(i, k)]).mul_add(x[(k, j)], -product);
            let sum = high + product;
            let of_product = sum - high;
            low += (high - (sum - of_product)) + (product - of_product) + rest;
            high = sum;
        }
        high + low
    })
}

/// The largest backward error of the columns: min(||A^T r|| / ||r||, ||r|| / ||x||) / ||A||, of residuals in twice the precision.
fn backward(a: MatRef<'_, f64>, x: MatRef<'_, f64>, b: MatRef<'_, f64>) -> f64 {
    let of = |j: usize| {
        let r = residual(a, x, b, j);
        let gradient = (a.transpose() * &r).norm_l2() / r.norm_l2();
        gradient.min(r.norm_l2() / x.col(j).norm_l2()) / a.norm_l2()
    };
    (0..x.ncols()).map(of).fold(0.0, f64::max)
}

/// On a device without f64 and without the option the error says so; with it the solution has at most twice the backward error of the host's path in f64, or
/// eps, for condition numbers from 1 to 10^6 and one or several right-hand sides, in the range of A and outside; and it passes what every backend must. The report says
/// what ran, and the second copy of A is uploaded once. Where R in f32 does not suffice, the factorisation in full precision is what the device has not; `Auto`
/// does it on the CPU.
pub fn without_f64() -> Outcome {
    let context = GpuContext::new(&AdapterChoice::default().limits(DeviceLimits::Plain))?;
    let options = LstsqOptions::default().context(context).backend(Backend::Gpu).tuning(tuning(8, 24));
    let resident = options.clone().preconditioner(Preconditioner::Resident);
    let lacks_f64 = |found: Result<(), SvdError>| {
        matches!(found, Err(SvdError::UnsupportedElement { element: "f64", feature: "SHADER_F64", .. }))
    };
    for (m, n, p) in [(1, 1, 1), (60, 60, 2), (300, 40, 1), (150, 30, 6), (40, 10, 0)] {
        for condition in [1.0, 1e2, 1e4, 1e6] {
            let what = format!("{m} x {n}, {p}, condition {condition:e}");
            let a = with_condition(m, n, condition);
            let b = right_sides(a.as_ref(), p);
            check!(lacks_f64(a.lstsq_gpu_with(&b, &options).map(drop)), "{what}: without the option");
            ratio_of(&what, a.as_ref(), b.as_ref(), &resident)?;
            let report = a.lstsq_gpu_report(&b, &resident)?;
            check!((report.backend, report.route) == (Backend::Gpu, Route::LeastSquares(Solver::Resident)), "{what}: {report}");
            let copies = (m * n * (size_of::<f64>() + size_of::<f32>())) as u64;
            check!(report.counts.bytes_uploaded >= copies, "{what}: {}", report.counts);
            let want = a.lstsq_gpu_with(&b, &LstsqOptions::default().backend(Backend::Cpu))?;
            let of = |x: &Mat<f64>| backward(a.as_ref(), x.as_ref(), b.as_ref());
            let (found, host) = (of(&report.values.x), of(&want.x));
            check!(found <= (2.0 * host).max(f64::EPSILON), "{what}: backward error {found:.1e}, the host's {host:.1e}");
            // Each iteration is two products of the device.
            let most = if condition < 1e5 { 8 } else { 16 };
            check!(report.values.iterations <= most, "{what}: {} iterations", report.values.iterations);
        }
    }
    let a = with_condition(80, 20, 1e9);
    let b = right_sides(a.as_ref(), 1);
    check!(lacks_f64(a.lstsq_gpu_with(&b, &resident).map(drop)), "condition 1e9");
    let report = a.lstsq_gpu_report(&b, &resident.clone().backend(Backend::Auto))?;
    check!((report.backend, report.route) == (Backend::Cpu, Route::LeastSquares(Solver::Qr)), "condition 1e9: {report}");
    hard(&resident)?;
    refusals(&resident)
}

/// Columns and rows of very different lengths, entries at the ends of the range, zeros, and a ridge.
fn hard(resident: &LstsqOptions) -> Outcome {
    let a = with_condition(90, 20, 100.0);
    let b = right_sides(a.as_ref(), 2);
    let scaled = |of: &dyn Fn(usize, usize) -> f64| Mat::from_fn(90, 20, |i, j| a[(i, j)] * of(i, j));
    for (name, a) in [
        ("columns", scaled(&|_, j| 10f64.powf(-0.6 * j as f64))),
        ("rows", scaled(&|i, _| 10f64.powf(-0.05 * i as f64))),
        ("sparse", scaled(&|i, j| if (i * 20 + j) % 3 == 0 { 1.0 } else { 0.0 })),
        ("entries", scaled(&|i, j| 10f64.powf(-6.0 * noise(3, i, j).abs()))),
        ("large", scaled(&|_, _| 2f64.powi(1000))),
        ("small", scaled(&|_, _| 2f64.powi(-1000))),
    ] {
        let b = right_sides(a.as_ref(), 2);
        let report = a.lstsq_gpu_report(&b, resident)?;
        check!(report.route == Route::LeastSquares(Solver::Resident), "{name}: {report}");
        check!(report.values.backward_error <= f64::EPSILON, "{name}: {:.1e}", report.values.backward_error);
        if !["large", "small"].contains(&name) {
            ratio_of(name, a.as_ref(), b.as_ref(), resident)?;
            let host = a.lstsq_gpu_with(&b, &LstsqOptions::default().backend(Backend::Cpu))?;
            let of = |x: &Mat<f64>| backward(a.as_ref(), x.as_ref(), b.as_ref());
            let (found, host) = (of(&report.values.x), of(&host.x));
            check!(found <= (2.0 * host).max(f64::EPSILON), "{name}: backward error {found:.1e}, the host's {host:.1e}");
        }
    }
    // Without scales of its columns f32 does not hold this one.
    let a = scaled(&|_, j| 10f64.powf(-0.6 * j as f64));
    let single = a.lstsq_gpu_with(&b, &resident.clone().preconditioner(Preconditioner::Single));
    check!(matches!(single, Err(SvdError::UnsupportedElement { .. })), "scaled columns: {single:?}");
    for ridge in [1e-9, 0.25, 1e3] {
        let options = resident.clone().ridge(ridge);
        ratio_of(&format!("ridge {ridge}"), a.as_ref(), b.as_ref(), &options)?;
        let route = a.lstsq_gpu_report(&b, &options)?.route;
        check!(route == Route::LeastSquares(Solver::Resident), "ridge {ridge}: {route}");
    }
    // A column shorter than the tolerance counts for the rank, which the factorisation in full precision decides.
    let short = scaled(&|_, j| if j == 3 { 1e-30 } else { 1.0 });
    let report = short.lstsq_gpu_report(&b, &resident.clone().backend(Backend::Auto))?;
    check!(report.values.rank == 19 && report.route == Route::LeastSquares(Solver::Svd), "a short column: {report}");
    Ok(())
}

/// Other element types and wide matrices have errors that name the option; the CPU computes with the same arithmetic; kernels are timed.
fn refusals(resident: &LstsqOptions) -> Outcome {
    fn option<T: Element>(m: usize, options: &LstsqOptions) -> &'static str {
        match matrix::<T>("random", m, 20).lstsq_gpu_with(&matrix::<T>("random", m, 1), options) {
            Err(SvdError::InvalidOption { option, .. }) => option,
            other => panic!("{other:?}"),
        }
    }
    check!(option::<f64>(19, resident) == "preconditioner", "a wide matrix");
    check!(option::<Complex<f64>>(30, resident) == "preconditioner", "c64");
    check!(option::<f32>(30, resident) == "preconditioner", "f32");
    check!(option::<f64>(30, &resident.clone().products(Products::Half)) == "products", "products by low precision");
    let a = with_condition(90, 20, 100.0);
    let b = right_sides(a.as_ref(), 2);
    let on_cpu = LstsqOptions::default().preconditioner(Preconditioner::Resident).backend(Backend::Cpu);
    let report = a.lstsq_gpu_report(&b, &on_cpu)?;
    check!((report.backend, report.route) == (Backend::Cpu, Route::LeastSquares(Solver::Resident)), "{report}");
    // This device has no time stamps.
    let timed = a.lstsq_gpu_report(&b, &resident.clone().time_kernels(true)).map(|report| report.kernel_seconds);
    check!(matches!(timed, Err(SvdError::InvalidOption { option: "time_kernels", .. })), "{timed:?}");
    let with_all = resident.clone().context(GpuContext::new(&AdapterChoice::default())?).time_kernels(true);
    let timed = a.lstsq_gpu_report(&b, &with_all)?.kernel_seconds;
    check!(timed.iter().any(|(kernel, _)| *kernel == Kernel::MultiplyFixed), "{timed:?}");
    let later = pollster::block_on(a.lstsq_gpu_async(&b, resident))?;
    check!((later.x - a.lstsq_gpu_with(&b, resident)?.x).norm_l2() < 1e-13, "awaited");
    let nan = Mat::from_fn(90, 20, |i, j| if (i, j) == (7, 3) { f64::NAN } else { a[(i, j)] });
    check!(matches!(nan.lstsq_gpu_with(&b, resident), Err(SvdError::NonFinite { row: 7, col: 3, .. })), "NaN");
    Ok(())
}
