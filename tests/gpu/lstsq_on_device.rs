//! Least squares on the device: what common/lstsq.rs asks of every backend, on every route, and what travels.

use half::f16;
use svdvals_gpu::{Backend, GpuContext, HalfStorage, LstsqGpu, LstsqOptions, Preconditioner, Route, Scalar, Solver, cost::Cost};

use crate::{
    Body, Elements, Outcome, check,
    lstsq::{check as ratio_of, known_problems, right_sides},
    tuning,
    vectors::matrix,
};

pub fn trials<T: Elements>() -> Vec<(&'static str, Body)> {
    vec![("ratios", ratios::<T>), ("what_travels", what_travels::<T>)]
}

fn on(context: &GpuContext) -> LstsqOptions {
    LstsqOptions::default().context(context.clone()).backend(Backend::Gpu).tuning(tuning(8, 24))
}

/// The ratios of `lstsq::check`, of tall, square and wide matrices with full rank and without, in both memory orders, with a ridge; known
/// problems; and a future gives what a call that blocks does.
fn ratios<T: Elements>(context: &GpuContext) -> Outcome {
    for (kind, m, n, p) in [
        ("random", 1, 1, 1),
        ("random", 70, 70, 3),
        ("graded", 90, 41, 1),
        ("rank third", 90, 42, 2),
        ("rank third", 42, 90, 2),
        ("random", 30, 100, 9),
        ("zero", 20, 30, 1),
    ] {
        let (a, turned) = (matrix::<T>(kind, m, n), matrix::<T>(kind, n, m));
        let b = right_sides(a.as_ref(), p);
        ratio_of(&format!("{kind} {m} x {n}"), a.as_ref(), b.as_ref(), &on(context))?;
        ratio_of(&format!("{kind} {m} x {n}, ridge"), a.as_ref(), b.as_ref(), &on(context).ridge(0.25))?;
        let b = right_sides(turned.transpose(), p);
        ratio_of(&format!("{kind} {m} x {n}, by rows"), turned.transpose(), b.as_ref(), &on(context))?;
    }
    for precision in [Preconditioner::Single, Preconditioner::Half, Preconditioner::Resident] {
        if precision == Preconditioner::Resident && T::NAME != "f64" {
            continue;
        }
        let needs_f16 = precision == Preconditioner::Half;
        if needs_f16 && (<T::Scalar as Scalar>::IS_COMPLEX || !context.supports::<f16>(HalfStorage::Half)) {
            continue;
        }
        let (a, options) = (matrix::<T>("random", 90, 40), on(context).preconditioner(precision));
        let b = right_sides(a.as_ref(), 2);
        ratio_of(&format!("R in {precision}"), a.as_ref(), b.as_ref(), &options)?;
        let report = a.lstsq_gpu_report(&b, &options)?;
        let ran = (report.backend, report.route);
        let solver = if precision == Preconditioner::Resident { Solver::Resident } else { Solver::Preconditioned };
        check!(ran == (Backend::Gpu, Route::LeastSquares(solver)), "R in {precision}: {report}");
    }
    known_problems(&on(context), context.supports::<f64>(HalfStorage::Single))?;
    let a = matrix::<T>("equal columns", 80, 30); // three of each, in every type
    let b = right_sides(a.as_ref(), 2);
    let now = a.lstsq_gpu_with(&b, &on(context).singular_values(true))?;
    let later = pollster::block_on(a.lstsq_gpu_async(&b, &on(context).singular_values(true)))?;
    check!(now == later && now.rank == 10, "awaited, or rank {}", now.rank);
    Ok(())
}

/// A tall matrix is uploaded once with B beside it, and the first n rows of both come back; the dispatches are those of R by the cost model,
/// with the columns of B in the same updates.
fn what_travels<T: Elements>(context: &GpuContext) -> Outcome {
    let (m, n, p) = (200, 40, 4); // the device pads columns to a multiple of four
    let a = matrix::<T>("random", m, n);
    let report = a.lstsq_gpu_report(&right_sides(a.as_ref(), p), &on(context))?;
    check!(report.backend == Backend::Gpu && report.route == Route::LeastSquares(Solver::Qr), "{report}");
    // One more dispatch collects the first rows, and the last panel has B to update.
    let counted = Cost::qr::<T::Scalar>(m, n, &report.tuning)?.dispatches();
    let levels = report.counts.dispatches - 1 - counted;
    check!((1..=4).contains(&levels), "{} dispatches, {counted} by the model", report.counts.dispatches);
    let bytes = report.counts.bytes_read_back;
    check!(bytes == (n * (n + p) * size_of::<T::Scalar>()) as u64, "{bytes} bytes read back");
    Ok(())
}
