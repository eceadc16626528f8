//! QR and least squares of matrices that stay on the device.

use faer::Mat;
use num_complex::Complex;
use svdvals_gpu::{
    Backend, GpuContext, GpuMatrix, LstsqGpu, LstsqOptions, Number, Preconditioner, QrGpu, QrOptions, RealElement, Route,
    RunOptions, Scalar, Solver, SvdError, triangular::Op,
};

use crate::{
    Body, Elements, Outcome, check,
    common::{eps, error, reference, stable, widen},
    lstsq::right_sides,
    tuning,
    vectors::matrix,
};

pub fn trials<T: Elements>() -> Vec<(&'static str, Body)> {
    vec![
        ("qr_is_that_of_a_call", qr_is_that_of_a_call::<T>),
        ("pivoted", pivoted::<T>),
        ("values_of_r", values_of_r::<T>),
        ("least_squares", least_squares::<T>),
        ("condition_there", condition_there::<T>),
        ("with_a_ridge", with_a_ridge::<T>),
        ("in_lower_precision", in_lower_precision::<T>),
        ("bad_input", bad_input::<T>),
    ]
}

fn on(context: &GpuContext) -> RunOptions {
    RunOptions::default().context(context.clone()).backend(Backend::Gpu).tuning(tuning(8, 24).triangle(16))
}

/// R, Q and their products are those of a call with a matrix on the host, to the last bit (the same kernels in the same order), for matrices
/// in both memory orders; and nothing of the matrix is read back: of narrow ones that CholeskyQR2 factors, how far they are from orthonormal, by 256 threads.
fn qr_is_that_of_a_call<T: Elements>(context: &GpuContext) -> Outcome {
    let options = on(context);
    for (m, n) in [(1, 1), (70, 70), (90, 41), (41, 90), (300, 9), (0, 4), (4, 0), (1100, 16)] {
        let a = matrix::<T>("random", m, n);
        let turned = matrix::<T>("random", n, m);
        for (name, a) in [("by columns", a.as_ref()), ("by rows", turned.transpose())] {
            let name = format!("{m} x {n}, {name}");
            let want = a.qr_gpu_with(&options.clone().into())?;
            let report = GpuMatrix::upload(context, &a)?.qr_report(&options.clone().into())?;
            let distance = if m == 1100 { n * n * size_of::<T::Real>() } else { 0 };
            check!(report.counts.bytes_read_back == distance as u64 && report.shape == (m, n), "{name}: {:?}", report.counts);
            let found = report.values;
            check!(found.r()?.to_mat()? == want.r(), "{name}: R");
            check!(found.thin_q()?.to_mat()? == want.thin_q()?, "{name}: thin Q");
            check!(found.complete_q()?.to_mat()? == want.complete_q()?, "{name}: complete Q");
            let c = matrix::<T::Scalar>("random", m, 5);
            let d = matrix::<T::Scalar>("random", 5, m);
            let (on_device, of_right) = (GpuMatrix::upload(context, &c)?, GpuMatrix::upload(context, &d)?);
            for op in [Op::NoTrans, Op::Trans, Op::ConjTrans] {
                let (mut c, mut d) = (c.clone(), d.clone());
                want.apply_q(&mut c, op)?;
                check!(found.apply_q(&on_device, op)?.to_mat()? == c, "{name}: {op:?}");
                want.apply_q_right(&mut d, op)?;
                check!(found.apply_q_right(&of_right, op)?.to_mat()? == d, "{name}: {op:?} from the right");
            }
        }
    }
    Ok(())
}

/// With pivoted columns and a positive diagonal: order, R and rank are those of a call with a matrix on the host, to the last bit (the same kernels, and
/// powers of two as scales). Q differs by the roundings of one more product: ||A P - Q R|| and ||I - Q^H Q|| are at most twice max(m, n, 4) eps ||A|| and
/// max(m, n, 4) eps, op(Q) C and C op(Q) are those of Q's columns to sqrt(m) times as much, and the basic solution, of dependent columns too, is the host's to that times
/// the condition number of the columns that it has, at most 2^7. A zero column in a zero matrix has no part in it.
fn pivoted<T: Elements>(context: &GpuContext) -> Outcome {
    for (kind, m, n) in [
        ("random", 1, 1),
        ("random", 70, 40),
        ("random", 40, 70),
        ("equal columns", 60, 42),
        ("zero", 20, 9),
        ("random", 0, 3),
        ("random", 3, 0),
    ] {
        for options in [
            QrOptions::from(on(context)).pivot(true),
            QrOptions::from(on(context)).positive_diagonal(true),
            QrOptions::from(on(context)).pivot(true).positive_diagonal(true),
        ] {
            let name = format!("{kind} {m} x {n}, pivot {}, positive {}", options.pivot, options.positive_diagonal);
            let a = matrix::<T>(kind, m, n);
            let want = a.qr_gpu_with(&options)?;
            let found = GpuMatrix::upload(context, &a)?.qr(&options)?;
            check!(found.order() == want.order(), "{name}: {:?}, not {:?}", found.order(), want.order());
            check!(found.rank()? == want.rank(), "{name}: rank {}, not {}", found.rank()?, want.rank());
            let (r, q) = (found.r()?.to_mat()?, found.complete_q()?.to_mat()?);
            check!(r == want.r(), "{name}: R");
            let unit = m.max(n).max(4) as f64 * eps::<T>();
            let wide = widen(a.as_ref());
            let order: Vec<usize> = found.order().map_or_else(|| (0..n).collect(), <[usize]>::to_vec);
            let permuted = Mat::from_fn(m, n, |i, j| wide[(i, order[j])]);
            let (q, r) = (widen(q.as_ref()), widen(r.as_ref()));
            let off = (permuted - q.subcols(0, r.nrows()) * &r).norm_l2();
            check!(off <= 2.0 * unit * wide.norm_l2(), "{name}: A P - Q R is {off:e}");
            let off = (q.adjoint() * &q - Mat::<Complex<f64>>::identity(m, m)).norm_l2();
            check!(off <= 2.0 * unit * (m as f64).sqrt(), "{name}: I - Q^H Q is {off:e}");
            let c = matrix::<T::Scalar>("random", m, 5);
            let there = GpuMatrix::upload(context, &c)?;
            for op in [Op::NoTrans, Op::Trans, Op::ConjTrans] {
                let of = match op {
                    Op::NoTrans => q.clone(),
                    Op::Trans => q.transpose().to_owned(),
                    Op::ConjTrans => q.adjoint().to_owned(),
                };
                let (c, product) = (widen(c.as_ref()), widen(found.apply_q(&there, op)?.to_mat()?.as_ref()));
                let off = (product - &of * &c).norm_l2();
                check!(off <= 2.0 * unit * (m as f64).sqrt() * c.norm_l2(), "{name}: {op:?} is {off:e} off");
                let d = matrix::<T::Scalar>("random", 5, m);
                let product = found.apply_q_right(&GpuMatrix::upload(context, &d)?, op)?.to_mat()?;
                let (d, product) = (widen(d.as_ref()), widen(product.as_ref()));
                let off = (product - &d * of).norm_l2();
                check!(off <= 2.0 * unit * (m as f64).sqrt() * d.norm_l2(), "{name}: {op:?} from the right is {off:e} off");
            }
            if options.pivot {
                let b = matrix::<T>("random", m, 2);
                let of_scalars = Mat::from_fn(m, 2, |i, j| T::Scalar::from_complex(b[(i, j)].to_complex()));
                let y = widen(want.solve_lstsq(&of_scalars)?.as_ref());
                let x = widen(found.solve_lstsq(&GpuMatrix::upload(context, &b)?)?.to_mat()?.as_ref());
                let off = (&x - &y).norm_l2();
                check!(off <= 128.0 * unit * y.norm_l2(), "{name}: the solution is {off:e} off, of {:e}", y.norm_l2());
            }
        }
    }
    Ok(())
}

/// The singular values of R are those of A, to the error of two backward stable methods, and the condition number is their quotient; the rank by the
/// diagonal is full for a random matrix, and that of a matrix with a zero column is one less. Wide, zero and empty matrices have theirs.
fn values_of_r<T: Elements>(context: &GpuContext) -> Outcome {
    let mut a = matrix::<T>("random", 60, 20);
    let exact = reference(a.as_ref());
    let qr = GpuMatrix::upload(context, &a)?.qr(&on(context).into())?;
    let s: Vec<f64> = qr.svdvals()?.iter().map(|s| s.to_double()).collect();
    let (off, bound) = (error(s.iter().copied(), &exact), 2.0 * stable::<T>(60));
    check!(s.len() == 20 && off <= bound, "{} values, {off:.1e} off, bound {bound:.1e}", s.len());
    check!(qr.condition()? == s[0] / s[19], "condition {}", qr.condition()?);
    check!(qr.rank()? == 20, "rank {}", qr.rank()?);
    a.col_mut(7).fill(T::real(0.0));
    let rank = GpuMatrix::upload(context, &a)?.qr(&on(context).into())?.rank()?;
    check!(rank == 19, "rank {rank}");
    let wide = matrix::<T>("random", 20, 60);
    let s = GpuMatrix::upload(context, &wide)?.qr(&on(context).into())?.svdvals()?;
    let off = error(s.iter().map(|s| s.to_double()), &reference(wide.as_ref()));
    check!(off <= bound, "a wide matrix: {off:.1e} off");
    for (m, n, condition) in [(30, 20, f64::INFINITY), (0, 4, f64::NAN)] {
        let qr = GpuMatrix::upload(context, &matrix::<T>("zero", m, n))?.qr(&on(context).into())?;
        let (s, found) = (qr.svdvals()?, qr.condition()?);
        check!(s.len() == m.min(n) && s.iter().all(|s| s.to_double() == 0.0), "zeros: {s:?}");
        check!(qr.rank()? == 0 && found.total_cmp(&condition).is_eq(), "zeros: condition {found}");
    }
    Ok(())
}

/// The solution is that of a call with matrices on the host up to rounding: A (X - Y) is at most max(m, n) eps (||B|| + ||A|| ||X||), as are
/// the differences of the residuals' lengths; the rank is the same; and X is no longer than Y by more than max(m, n) eps times the
/// condition number on the range, at most 2^7 for these matrices. The values of R, on request, are A's, to the error of two backward stable methods.
fn least_squares<T: Elements>(context: &GpuContext) -> Outcome {
    let options = on(context);
    for (kind, m, n, p) in [
        ("random", 1, 1, 1),
        ("random", 90, 41, 3),
        ("random", 41, 90, 2),
        ("equal columns", 90, 42, 2),
        ("zero", 20, 30, 1),
        ("random", 60, 20, 0),
        ("random", 520, 32, 2),
        ("random", 16_500, 1, 2),
    ] {
        let a = matrix::<T>(kind, m, n);
        let b = right_sides(a.as_ref(), p);
        let (right, values) = (b.clone(), reference(a.as_ref()));
        let want = a.lstsq_gpu_with(&b, &options.clone().into())?;
        let there = GpuMatrix::upload(context, &a)?;
        let report = there.lstsq_report(&GpuMatrix::upload(context, &b)?, &options.clone().into())?;
        let solver = if kind == "random" { Solver::Qr } else { Solver::Svd };
        check!(report.route == Route::LeastSquares(solver), "{kind} {m} x {n}: {}", report.route);
        let found = report.values;
        let (x, y) = (widen(found.x.to_mat()?.as_ref()), widen(want.x.as_ref()));
        let (a, b) = (widen(a.as_ref()), widen(b.as_ref()));
        let unit = m.max(n).max(4) as f64 * eps::<T>();
        let sizes = b.norm_l2() + a.norm_l2() * y.norm_l2();
        let off = (&a * (&x - &y)).norm_l2();
        check!(off <= unit * sizes, "{kind} {m} x {n}: {off:e} of {sizes:e}");
        check!(found.rank == want.rank, "{kind} {m} x {n}: rank {}, not {}", found.rank, want.rank);
        check!(x.norm_l2() <= y.norm_l2() * (1.0 + 128.0 * unit), "{kind} {m} x {n}: {} {}", x.norm_l2(), y.norm_l2());
        check!(found.residuals.len() == p && found.singular_values.is_some() == (solver == Solver::Svd), "{kind} {m} x {n}");
        let asked =
            there.lstsq(&GpuMatrix::upload(context, &right)?, &LstsqOptions::from(options.clone()).singular_values(true))?;
        let s = asked.singular_values.unwrap_or_default();
        let (off, bound) = (error(s.iter().map(|s| s.to_double()), &values), 2.0 * stable::<T>(m.max(n)));
        check!(s.len() == m.min(n) && off <= bound, "{kind} {m} x {n}: {} values, {off:.1e} off, bound {bound:.1e}", s.len());
        for (x, y) in found.residuals.iter().zip(&want.residuals) {
            check!((x.to_double() - y.to_double()).abs() <= unit * sizes, "{kind} {m} x {n}: {x} {y}");
        }
        if kind == "random" && m >= n {
            let z = there
                .qr(&options.clone().into())?
                .solve_lstsq(&GpuMatrix::upload(context, &Mat::from_fn(m, p, |i, j| T::from_complex(b[(i, j)])))?)?;
            check!(widen(z.to_mat()?.as_ref()) == x, "{kind} {m} x {n}: by the factors");
        }
    }
    // X is scaled as A and B are, at the ends of the range.
    let exponent = <T::Scalar as svdvals_gpu::Number>::MAX_EXPONENT - 8;
    let exponent = if T::IS_HALF { 6 } else { exponent };
    let times = |a: &Mat<T>, by: f64| Mat::from_fn(a.nrows(), a.ncols(), |i, j| T::from_complex(a[(i, j)].to_complex() * by));
    let a = matrix::<T>("random", 30, 20);
    let b = right_sides(a.as_ref(), 1);
    let x = a.lstsq_gpu_with(&b, &options.clone().into())?.x;
    let power = f64::from(exponent).exp2();
    for (of_a, of_b, of_x) in [(power, power, 1.0), (1.0 / power, 1.0 / power, 1.0), (1.0, power / 16.0, power / 16.0)] {
        let found = GpuMatrix::upload(context, &times(&a, of_a))?
            .lstsq(&GpuMatrix::upload(context, &times(&b, of_b))?, &options.clone().into())?;
        let (got, want) = (widen(found.x.to_mat()?.as_ref()), widen(x.as_ref()) * faer::Scale(Complex::from(of_x)));
        let off = (&got - &want).norm_l2() / want.norm_l2();
        check!(off <= 1024.0 * eps::<T>(), "{of_a:e} {of_b:e}: {off:e}");
    }
    Ok(())
}

/// With a ridge the solution is that of the problem with its rows: the gradient A^H (B - A X) - ridge X is at most max(m, n) eps ||A|| (||B|| + ||A|| ||X||),
/// where A has the rows of the ridge (LAPACK's `dqrt17`, whose tests allow 30), and X is the host's to twice that, measured by A with those rows. The lengths of the
/// residuals are those of B - A X, as is the rank. Values on request are A's own. Of tall, square and wide matrices, with full rank and without, in both memory
/// orders, for a small, a moderate and a dominant ridge; scaled with A at the ends of the range, where a ridge beyond the range of f32 is an error.
fn with_a_ridge<T: Elements>(context: &GpuContext) -> Outcome {
    for (kind, m, n, p) in [
        ("random", 1, 1, 1),
        ("random", 60, 60, 2),
        ("random", 90, 41, 3),
        ("random", 41, 90, 2),
        ("equal columns", 90, 42, 2),
        ("equal columns", 42, 90, 2),
        ("zero", 20, 30, 1),
        ("random", 60, 20, 0),
        ("random", 0, 4, 2),
    ] {
        let a = matrix::<T>(kind, m, n);
        let (b, turned) = (right_sides(a.as_ref(), p), a.transpose().to_owned());
        let (wide, right) = (widen(a.as_ref()), widen(b.as_ref()));
        for ridge in [1e-3, 0.25, 1e6] {
            let options = LstsqOptions::from(on(context)).ridge(ridge);
            let want = a.lstsq_gpu_with(&b, &options)?;
            let y = widen(want.x.as_ref());
            for (order, there) in
                [("by columns", GpuMatrix::upload(context, &a)?), ("by rows", GpuMatrix::upload(context, &turned.transpose())?)]
            {
                let what = format!("{kind} {m} x {n}, {order}, ridge {ridge}");
                let found = there.lstsq(&GpuMatrix::upload(context, &b)?, &options)?;
                let x = widen(found.x.to_mat()?.as_ref());
                let unit = m.max(n).max(4) as f64 * eps::<T>();
                let norm = (wide.squared_norm_l2() + ridge * n as f64).sqrt();
                let sizes = right.norm_l2() + norm * x.norm_l2();
                let rest = &right - &wide * &x;
                let gradient = (wide.adjoint() * &rest - faer::Scale(Complex::from(ridge)) * &x).norm_l2();
                check!(gradient <= unit * norm * sizes, "{what}: gradient {:.2}", gradient / (unit * norm * sizes));
                let off = ((&wide * (&x - &y)).squared_norm_l2() + ridge * (&x - &y).squared_norm_l2()).sqrt();
                check!(off <= 2.0 * unit * sizes, "{what}: {:.2} from the host's", off / (unit * sizes));
                check!(found.rank == want.rank && found.residuals.len() == p, "{what}: rank {}, {}", found.rank, want.rank);
                for (j, length) in found.residuals.iter().enumerate() {
                    let off = (length.to_double() - rest.col(j).norm_l2()).abs();
                    check!(off <= unit * sizes, "{what}: residual {j} is {:.2} off", off / (unit * sizes));
                }
            }
        }
    }
    // The values on request, and a problem at the ends of the range.
    let (a, b) = (matrix::<T>("random", 30, 20), matrix::<T>("random", 30, 1));
    let there = GpuMatrix::upload(context, &a)?;
    let right = GpuMatrix::upload(context, &b)?;
    let asked = there.lstsq(&right, &LstsqOptions::from(on(context)).ridge(4.0).singular_values(true))?;
    let (s, bound) = (asked.singular_values.unwrap_or_default(), 2.0 * stable::<T>(30));
    let off = error(s.iter().map(|s| s.to_double()), &reference(a.as_ref()));
    check!(s.len() == 20 && off <= bound, "{} values, {off:.1e} off, bound {bound:.1e}", s.len());
    // The square of the power is in the range of f64.
    let exponent = if T::IS_HALF { 6 } else { (<T::Scalar as Number>::MAX_EXPONENT - 8).min(500) };
    let want = widen(asked.x.to_mat()?.as_ref());
    for exponent in [exponent, -exponent] {
        let power = f64::from(exponent).exp2();
        let times = |a: &Mat<T>| Mat::from_fn(a.nrows(), a.ncols(), |i, j| T::from_complex(a[(i, j)].to_complex() * power));
        let (a, b) = (GpuMatrix::upload(context, &times(&a))?, GpuMatrix::upload(context, &times(&b))?);
        let found = a.lstsq(&b, &LstsqOptions::from(on(context)).ridge(4.0 * power * power))?;
        let x = widen(found.x.to_mat()?.as_ref());
        let off = (&x - &want).norm_l2() / want.norm_l2();
        check!(off <= 1024.0 * eps::<T>(), "2^{exponent}: {off:e}");
    }
    let found = there.lstsq(&right, &LstsqOptions::from(on(context)).ridge(1e200));
    match found {
        // X is nearly zero. Its error is that of a backward stable method: eps ||B|| / sqrt(ridge).
        Ok(fit) if <T::Scalar as Scalar>::IS_DOUBLE => {
            let (x, most) = (widen(fit.x.to_mat()?.as_ref()).norm_l2(), 30.0 * eps::<T>() * widen(b.as_ref()).norm_l2() * 1e-100);
            check!(x <= most, "ridge 1e200: {x:e}");
        }
        Err(SvdError::InvalidOption { option: "ridge", .. }) if !<T::Scalar as Scalar>::IS_DOUBLE => {}
        other => return Err(format!("ridge 1e200: {other:?}").into()),
    }
    Ok(())
}

/// The condition number of a larger R is bounded on the device, which is enough for a well-conditioned one. What is read back, all at once, is what B leaves
/// outside the range of A, with lines of four numbers but for the last, and the largest entries and sums of squares that each thread has found in R, in its inverse and in X: so the
/// work after the factorisation is one submission of kernels and one of copies. B is beside A in the factorisation, which keeps no reflectors. The solution is the
/// host's to max(m, n) eps times the condition number, at most 2^10 for this matrix. Equal columns, and one that is zero, are dependent; columns that nearly are take
/// products with R and its inverse, whose results are read back too.
fn condition_there<T: Elements>(context: &GpuContext) -> Outcome {
    let (m, n) = (276, 260);
    let options = on(context).tuning(tuning(32, 288).triangle(16));
    let a = Mat::from_fn(m, n, |i, j| T::from_complex(T::noise(3, i, j).to_complex() + if i == j { 8.0 } else { 0.0 }));
    let b = right_sides(a.as_ref(), 1);
    let (there, right) = (GpuMatrix::upload(context, &a)?, GpuMatrix::upload(context, &b)?);
    let report = there.lstsq_report(&right, &options.clone().into())?;
    check!(report.route == Route::LeastSquares(Solver::Qr), "{}", report.route);
    let [outside, threads] = [4 * (m - n) - 3, 2 * 256 * 128 + 384];
    let bytes = (outside * size_of::<T::Scalar>() + 2 * threads * size_of::<T::Real>()) as u64;
    check!(report.counts.bytes_read_back == bytes && report.counts.submissions == 3, "{}, not {bytes}", report.counts);
    let (x, y) = (widen(report.values.x.to_mat()?.as_ref()), widen(a.lstsq_gpu_with(&b, &options.clone().into())?.x.as_ref()));
    let (off, bound) = ((&x - &y).norm_l2() / y.norm_l2(), 1024.0 * m as f64 * eps::<T>());
    check!(off <= bound, "{off:.1e}, bound {bound:.1e}");
    // The norms of R and its inverse are some 8 times the condition number, about a third of what the tolerance allows: two columns that differ by little.
    let apart = 25.0 * 2.0 * (m as f64).sqrt() * eps::<T>();
    let near = Mat::from_fn(m, n, |i, j| match j {
        200 => T::from_complex(a[(i, 7)].to_complex() + apart * a[(i, 200)].to_complex()),
        _ => a[(i, j)],
    });
    let report = GpuMatrix::upload(context, &near)?.lstsq_report(&right, &options.clone().into())?;
    check!(report.route == Route::LeastSquares(Solver::Qr) && report.counts.bytes_read_back > bytes, "{report}");
    // Columns that are multiples of others: one equal to another, one of zeros, and two more that are twice another, and one so short that solves with R
    // overflow in single precision.
    let tiny = if T::Scalar::IS_DOUBLE { -90f64 } else { -40.0 };
    for (from, columns, by) in [(7, 200..201, 1.0), (7, 200..201, 0.0), (7, 200..202, 2.0), (200, 200..201, tiny.exp2())] {
        let dependent = Mat::from_fn(m, n, |i, j| match columns.contains(&j) {
            true => T::from_complex(a[(i, from)].to_complex() * by),
            false => a[(i, j)],
        });
        let solved = GpuMatrix::upload(context, &dependent)?.qr(&options.clone().into())?.solve_lstsq(&right);
        check!(matches!(solved, Err(SvdError::RankDeficient { .. })), "{by}: {:?}", solved.map(drop));
    }
    Ok(())
}

/// With a preconditioner the solution is that of a call with the matrices on the host, to the last bit, and the report says what was read back; where
/// there is none of that precision, or A is wide, an error names the option.
fn in_lower_precision<T: Elements>(context: &GpuContext) -> Outcome {
    let (a, wide) = (matrix::<T>("random", 90, 41), matrix::<T>("random", 41, 90));
    let b = matrix::<T>("random", 90, 2);
    let (there, right) = (GpuMatrix::upload(context, &a)?, GpuMatrix::upload(context, &b)?);
    let wide = GpuMatrix::upload(context, &wide)?;
    for preconditioner in [Preconditioner::Single, Preconditioner::Half, Preconditioner::Resident] {
        let options = LstsqOptions::from(on(context)).preconditioner(preconditioner);
        let refused =
            |found: Result<(), SvdError>| matches!(found, Err(SvdError::InvalidOption { option: "preconditioner", .. }));
        check!(refused(wide.lstsq(&wide, &options).map(drop)), "{preconditioner}: a wide matrix");
        let want = match a.lstsq_gpu_report(&b, &options) {
            Ok(want) => want,
            Err(_) => {
                check!(refused(there.lstsq(&right, &options).map(drop)), "{preconditioner}: no such precision");
                continue;
            }
        };
        let report = there.lstsq_report(&right, &options)?;
        check!(report.route == want.route && report.reason.contains("read back"), "{preconditioner}: {}", report.reason);
        let bytes = (90 * (41 + 2) * size_of::<T::Scalar>()) as u64;
        check!(report.counts.bytes_read_back >= bytes, "{preconditioner}: {}", report.counts);
        check!(report.values.x.to_mat()? == want.values.x, "{preconditioner}: X");
        check!(report.values.residuals == want.values.residuals, "{preconditioner}: residuals");
    }
    Ok(())
}

/// Bad input is an error that names it.
fn bad_input<T: Elements>(context: &GpuContext) -> Outcome {
    let a = GpuMatrix::upload(context, &matrix::<T>("random", 20, 10))?;
    let qr = a.qr(&on(context).into())?;
    let mut noise = matrix::<T>("random", 20, 1);
    let short = GpuMatrix::upload(context, &matrix::<T>("random", 19, 1))?;
    let option = |result: Result<(), SvdError>| match result {
        Err(SvdError::InvalidOption { option, .. }) => option,
        other => panic!("{other:?}"),
    };
    let of_scalars = GpuMatrix::upload(context, &matrix::<T::Scalar>("random", 19, 1))?;
    check!(option(qr.apply_q(&of_scalars, Op::NoTrans).map(drop)) == "c", "rows of C");
    check!(option(qr.apply_q_right(&of_scalars, Op::NoTrans).map(drop)) == "c", "columns of C");
    let mut c = matrix::<T::Scalar>("random", 20, 1);
    c[(7, 0)] = <T::Scalar as Number>::from_complex(f64::NAN.into());
    let c = qr.apply_q(&GpuMatrix::upload(context, &c)?, Op::ConjTrans)?.to_mat()?;
    check!((0..20).all(|i| c[(i, 0)].to_complex().is_nan()), "a NaN in C: {c:?}");
    check!(option(qr.solve_lstsq(&short).map(drop)) == "b", "rows of B");
    check!(option(a.lstsq(&short, &on(context).into()).map(drop)) == "b", "rows of B");
    noise[(7, 0)] = T::from_complex(f64::NAN.into());
    let bad = GpuMatrix::upload(context, &noise)?;
    check!(option(qr.solve_lstsq(&bad).map(drop)) == "b", "NaN in B");
    check!(option(a.lstsq(&bad, &LstsqOptions::from(on(context)).ridge(1.0)).map(drop)) == "b", "NaN in B, with a ridge");
    for ridge in [-1.0, f64::NAN, f64::INFINITY] {
        check!(option(a.lstsq(&bad, &LstsqOptions::from(on(context)).ridge(ridge)).map(drop)) == "ridge", "ridge {ridge}");
    }
    check!(option(a.qr(&on(context).backend(Backend::Cpu).into()).map(drop)) == "backend", "backend");
    let dependent = GpuMatrix::upload(context, &matrix::<T>("equal columns", 20, 9))?.qr(&on(context).into())?;
    let b = GpuMatrix::upload(context, &matrix::<T>("random", 20, 1))?;
    check!(matches!(dependent.solve_lstsq(&b), Err(SvdError::RankDeficient { cols: 9, .. })), "dependent columns");
    let wide = GpuMatrix::upload(context, &matrix::<T>("random", 20, 30))?.qr(&on(context).into())?;
    check!(matches!(wide.solve_lstsq(&b), Err(SvdError::RankDeficient { cols: 30, .. })), "a wide matrix");
    check!(a.lstsq(&b, &on(context).into()).is_ok(), "the next call");
    Ok(())
}
