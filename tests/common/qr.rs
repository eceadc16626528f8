//! What every QR factorisation promises.

use faer::{Mat, MatRef};
use half::f16;
use num_complex::Complex;
use svdvals_gpu::{Element, HalfStorage, Products, QrGpu, QrOptions, Scalar, SvdError, triangular::Op};

use crate::common::{complex_noise, eps, widen};

type Wide = Mat<Complex<f64>>;

/// ||X||_F / ||A||_F in units of `unit`; of a zero matrix ||X||_F.
fn relative(x: &Wide, a: &Wide, unit: f64) -> f64 {
    let (x, a) = (x.norm_l2(), a.norm_l2());
    if a == 0.0 { x / unit } else { x / a / unit }
}

/// ||I - X^H X||_F
fn from_orthonormal(x: &Wide) -> f64 {
    (x.adjoint() * x - Wide::identity(x.ncols(), x.ncols())).norm_l2()
}

/// Checks the factors of `a` and returns the largest of two ratios, in units of max(m, n) eps: ||A P - Q R|| / ||A|| and ||I - Q^H Q||
/// (LAPACK's `dqrt01`, in the Frobenius norm), where eps is that of the storage, or of the products. The bound is 1, where LAPACK's tests allow 30, plus the rounding of the entries, 1 eps, for
/// small matrices.
///
/// * Q thin and complete; R upper trapezoidal.
/// * Q applied from either side, in each form, is the product with the complete Q (LAPACK's `dtsqr01`): at most 1 too, of ||C||.
/// * LAPACK's form gives the same Q R.
/// * With pivoting the diagonal descends; a positive diagonal is one.
pub fn check<T: Element>(what: &str, a: MatRef<'_, T>, options: &QrOptions) -> Result<f64, String> {
    let (m, n) = a.shape();
    let k = m.min(n);
    let fail = |e: SvdError| format!("{what}: {e}");
    let half = T::IS_HALF && options.run.half_storage == HalfStorage::Half;
    let half = half || options.products == Products::Half;
    let unit = (m.max(n) as f64).max(4.0) * if half { f64::from(f16::EPSILON) } else { eps::<T>() };
    let qr = a.qr_gpu_with(options).map_err(fail)?;
    let (r, thin, complete) = (qr.r(), qr.thin_q().map_err(fail)?, qr.complete_q().map_err(fail)?);
    if (r.shape(), thin.shape(), complete.shape()) != ((k, n), (m, k), (m, m)) {
        return Err(format!("{what}: R {:?}, thin Q {:?}, Q {:?}", r.shape(), thin.shape(), complete.shape()));
    }
    let (r, thin, complete) = (widen(r.as_ref()), widen(thin.as_ref()), widen(complete.as_ref()));
    if (0..n).any(|j| (j + 1..k).any(|i| r[(i, j)] != Complex::ZERO)) {
        return Err(format!("{what}: R is not upper triangular"));
    }
    let permuted = match qr.order() {
        Some(order) => Mat::from_fn(m, n, |i, j| a[(i, order[j])]),
        None => Mat::from_fn(m, n, |i, j| a[(i, j)]),
    };
    let wide = widen(permuted.as_ref());
    let mut ratios = vec![
        ("residual", relative(&(&wide - &thin * &r), &wide, unit)),
        ("thin Q", from_orthonormal(&thin) / unit),
        ("Q", from_orthonormal(&complete) / unit),
        ("the first columns of Q", (complete.subcols(0, k) - &thin).norm_l2() / unit / 4.0),
    ];
    let c = Mat::from_fn(m, 3, |i, j| <T::Scalar as svdvals_gpu::Number>::from_complex(complex_noise(5, i, j)));
    for op in [Op::NoTrans, Op::Trans, Op::ConjTrans] {
        let of_q = match op {
            Op::NoTrans => complete.clone(),
            Op::Trans => complete.transpose().to_owned(),
            Op::ConjTrans => complete.adjoint().to_owned(),
        };
        let (mut left, mut right) = (c.clone(), c.transpose().to_owned());
        apply::<T>(&qr, &mut left, op, false).map_err(fail)?;
        apply::<T>(&qr, &mut right, op, true).map_err(fail)?;
        let wide_c = widen(c.as_ref());
        ratios.push(("Q C", relative(&(widen(left.as_ref()) - &of_q * &wide_c), &wide_c, unit)));
        ratios.push(("C Q", relative(&(widen(right.as_ref()) - wide_c.transpose() * &of_q), &wide_c, unit)));
    }
    let (h, tau) = qr.householder().map_err(fail)?;
    let h = widen(h.as_ref());
    let upper = Mat::from_fn(k, n, |i, j| if i <= j { h[(i, j)] } else { Complex::ZERO });
    let mut product = Mat::from_fn(m, n, |i, j| if i < k { upper[(i, j)] } else { Complex::ZERO });
    for j in (0..k).rev() {
        let v = Mat::from_fn(m, 1, |i, _| match i.cmp(&j) {
            std::cmp::Ordering::Less => Complex::ZERO,
            std::cmp::Ordering::Equal => Complex::ONE,
            std::cmp::Ordering::Greater => h[(i, j)],
        });
        let inside = v.adjoint() * &product;
        product -= &v * inside * faer::Scale(svdvals_gpu::Number::to_complex(tau[j]));
    }
    ratios.push(("LAPACK's form", relative(&(&wide - product), &wide, unit) / 4.0));
    let diagonal: Vec<Complex<f64>> = (0..k).map(|j| r[(j, j)]).collect();
    if options.positive_diagonal && diagonal.iter().any(|x| x.im != 0.0 || x.re < 0.0) {
        return Err(format!("{what}: the diagonal of R is {diagonal:?}"));
    }
    // A pivot is the longest remaining column, as far as its length is known: squares of lengths are downdated, with an error of eps.
    let slack = (unit / (m.max(n) as f64).max(4.0)).sqrt() * wide.norm_l2();
    let rising = diagonal.windows(2).find(|pair| pair[1].norm() > pair[0].norm() + slack);
    if let (true, Some(pair)) = (options.pivot, rising) {
        return Err(format!("{what}: the diagonal of R rises, {pair:?}"));
    }
    let alone = widen(a.qr_r_gpu_with(options).map_err(fail)?.as_ref());
    let squares = |r: &Wide| r.adjoint() * r;
    // R^H R = A^H A for both; ||R||^2 is the scale.
    let size = wide.norm_l2().powi(2);
    let same = (squares(&alone) - squares(&r)).norm_l2();
    ratios.push(("R alone", if size == 0.0 { same } else { same / size / unit } / 4.0));
    match ratios.iter().find(|(_, ratio)| ratio.is_nan() || *ratio > 1.0) {
        Some((name, ratio)) => Err(format!("{what}: {name} {ratio:.3}")),
        None => Ok(ratios[..3].iter().fold(0.0, |most, (_, ratio)| ratio.max(most))),
    }
}

/// C <- op(Q) C, or C op(Q).
fn apply<T: Element>(
    qr: &svdvals_gpu::Qr<T, Mat<T::Arithmetic>>,
    c: &mut Mat<T::Arithmetic>,
    op: Op,
    right: bool,
) -> Result<(), SvdError> {
    if right { qr.apply_q_right(c, op) } else { qr.apply_q(c, op) }
}

/// Least squares from the factors: the gradient A^H (A X - B) is that of rounding errors, ||A|| ||B|| max(m, n) eps, times the condition number
/// for the solution's length, which is modest here (random A).
#[allow(dead_code)] // the GPU tests have their own
pub fn solves<T: Element>(what: &str, a: MatRef<'_, T>, options: &QrOptions) -> Result<(), String> {
    let (m, n) = a.shape();
    let b = Mat::from_fn(m, 2, |i, j| <T::Scalar as svdvals_gpu::Number>::from_complex(complex_noise(9, i, j)));
    let x = a.qr_gpu_with(options).and_then(|qr| qr.solve_lstsq(&b)).map_err(|e| format!("{what}: {e}"))?;
    let (a, b, x) = (widen(a), widen(b.as_ref()), widen(x.as_ref()));
    let rest = &b - &a * &x;
    let gradient = (a.adjoint() * rest).norm_l2();
    let scale = a.norm_l2() * (b.norm_l2() + a.norm_l2() * x.norm_l2()) * m.max(n) as f64 * eps::<T>();
    let complex = <T::Scalar as Scalar>::IS_COMPLEX;
    if gradient <= scale { Ok(()) } else { Err(format!("{what} (complex: {complex}): gradient {:.3}", gradient / scale)) }
}
