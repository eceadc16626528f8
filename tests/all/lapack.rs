//! LAPACK beside this crate: `?gesdd` and `?gelsy` on the same dense matrices, `dbdsqr` and `dbdsdc` on the same bidiagonals.

use faer::{Col, Mat, MatRef};
use num_complex::Complex;
use svdvals_gpu::{Backend, Bidiagonal, Element, LstsqGpu, MatSvd, Number, RealElement, Stage3, SvdGpu, SvdOptions, SvdValsGpu};

use crate::{
    check_lstsq::right_sides,
    common::{
        Random, Spectrum, complex_with_singular_values, eps, error, hard, jacobi::exact, noise, widen, with_singular_values,
    },
    vectors::{KINDS, matrix, ratios},
};

/// Element types of LAPACK.
trait Lapack: Element {
    /// The singular values by `?gesdd`, without vectors.
    fn gesdd(a: MatRef<'_, Self>) -> Vec<f64> {
        Self::factors(a, false).s.iter().map(|s| s.to_double()).collect()
    }

    /// The factors by `?gesdd`, thin; U and V are empty unless `with_vectors`.
    fn factors(a: MatRef<'_, Self>, with_vectors: bool) -> MatSvd<Self>;

    /// The rank and the solution of A x ~ b by `?gelsy`; singular values below `tolerance` times the largest count as zero.
    fn gelsy(a: MatRef<'_, Self>, b: MatRef<'_, Self>, tolerance: f64) -> (usize, Mat<Self>);

    /// U diag(sigma) V^H, exact before the rounding to this type.
    fn known(sigma: &mut [f64], seed: u64) -> Mat<Self>;
}

/// Elements behind what LAPACK is given: OpenBLAS's `zgemv` up to 0.3.21 or so reads a little past a matrix's end (OpenBLAS issue 4013), which
/// is a fault where the next page is nobody's.
const BEHIND: usize = 64;

macro_rules! lapack {
    ($t:ty, $gesdd:ident, $gelsy:ident, $known:ident, ($($rwork:ident)?)) => {
        impl Lapack for $t {
            fn gelsy(a: MatRef<'_, $t>, b: MatRef<'_, $t>, tolerance: f64) -> (usize, Mat<$t>) {
                let ((m, n), p) = (a.shape(), b.ncols());
                let (most, zero) = (m.max(n), <$t>::from_complex(Complex::ZERO));
                let mut copy: Vec<$t> = (0..n).flat_map(|j| (0..m).map(move |i| a[(i, j)])).collect();
                copy.resize(m * n + BEHIND, zero);
                let mut x: Vec<$t> = (0..p).flat_map(|j| (0..most).map(move |i| if i < m { b[(i, j)] } else { zero })).collect();
                x.resize(most * p + BEHIND, zero);
                let (mut order, mut rank, mut info, mut work) = (vec![0; n], 0, 0, vec![zero]);
                $(let mut $rwork = vec![0.0; 2 * n + 1];)?
                for lwork in [-1, 0] {
                    let lwork = if lwork == 0 { work[0].to_complex().re as i32 } else { lwork };
                    work.resize(lwork.max(1) as usize + BEHIND, zero);
                    // SAFETY: `copy` holds m x n entries, `x` p columns of max(m, n), `order` n, `rwork` 2 n, `work` what the routine asks for.
                    unsafe {
                        lapack::$gelsy(
                            m as i32, n as i32, p as i32, &mut copy, m as i32, &mut x, most as i32, &mut order,
                            RealElement::from_double(tolerance), &mut rank, &mut work, lwork, $(&mut $rwork,)? &mut info,
                        );
                    }
                    assert_eq!(info, 0, stringify!($gelsy));
                }
                (rank as usize, Mat::from_fn(n, p, |i, j| x[i + j * most]))
            }

            fn factors(a: MatRef<'_, $t>, with_vectors: bool) -> MatSvd<$t> {
                let (m, n) = a.shape();
                let least = m.min(n);
                let k = if with_vectors { least } else { 0 };
                let mut copy: Vec<$t> = (0..n).flat_map(|j| (0..m).map(move |i| a[(i, j)])).collect();
                let zero = <$t>::from_complex(Complex::ZERO);
                copy.resize(m * n + BEHIND, zero);
                let (mut s, mut iwork) = (vec![0.0; least], vec![0; 8 * least]);
                $(let mut $rwork = vec![0.0; least * (5 * least + 7).max(2 * (m.max(n) + least) + 1)];)?
                let (mut u, mut vt, mut info) = (vec![zero; m * k + BEHIND], vec![zero; k * n + BEHIND], 0);
                let (rows, cols, ldvt) = (m as i32, n as i32, k.max(1) as i32);
                // The first call asks how much workspace it wants.
                let mut work = vec![zero];
                for lwork in [-1, 0] {
                    let lwork = if lwork == 0 { work[0].to_complex().re as i32 } else { lwork };
                    work.resize(lwork.max(1) as usize + BEHIND, zero);
                    // SAFETY: `copy` holds m x n entries, `s` min(m, n), `iwork` 8 times that, `rwork` and `work` what the routine asks
                    // for; u and vt have m x k and k x n entries with jobz = 'S', and are not touched with 'N'.
                    unsafe {
                        lapack::$gesdd(
                            if with_vectors { b'S' } else { b'N' }, rows, cols, &mut copy, rows, &mut s, &mut u, rows, &mut vt, ldvt,
                            &mut work, lwork, $(&mut $rwork,)? &mut iwork, &mut info,
                        );
                    }
                    assert_eq!(info, 0, stringify!($gesdd));
                }
                MatSvd {
                    u: Mat::from_fn(m, k, |i, j| u[i + j * m]),
                    s: Col::from_fn(least, |j| s[j]),
                    v: Mat::from_fn(n, k, |i, j| <$t>::from_complex(vt[j + i * k].to_complex().conj())),
                    residuals: None,
                }
            }

            fn known(sigma: &mut [f64], seed: u64) -> Mat<$t> {
                let a = $known(sigma, seed);
                Mat::from_fn(a.nrows(), a.ncols(), |i, j| <$t>::from_complex(a[(i, j)].to_complex()))
            }
        }
    };
}

lapack!(f32, sgesdd, sgelsy, with_singular_values, ());
lapack!(f64, dgesdd, dgelsy, with_singular_values, ());
lapack!(Complex<f32>, cgesdd, cgelsy, complex_with_singular_values, (rwork));
lapack!(Complex<f64>, zgesdd, zgelsy, complex_with_singular_values, (rwork));

/// The errors of this crate and of `?gesdd` on a kind of matrices, root mean squares over its members; and their quotient.
///
/// Half a unit in the last place is what the results' type resolves: errors below it count as it.
fn compare<T: Lapack>(name: &str, members: &[(Mat<T>, Vec<f64>)]) -> f64 {
    let rms = |of: &dyn Fn(&Mat<T>, &[f64]) -> f64| {
        (members.iter().map(|(a, sigma)| of(a, sigma).powi(2)).sum::<f64>() / members.len() as f64).sqrt()
    };
    let options = SvdOptions::default().backend(Backend::Cpu);
    let ours = rms(&|a, sigma| error(a.svdvals_gpu_with(&options).unwrap().iter().copied(), sigma));
    let theirs = rms(&|a, sigma| error(T::gesdd(a.as_ref()), sigma));
    let unit = eps::<T::Real>() / 2.0;
    let ratio = ours.max(unit) / theirs.max(unit);
    let (m, n) = members[0].0.shape();
    println!("{} {name}, {m} x {n}: {ours:.2e}, gesdd {theirs:.2e}, ratio {ratio:.2}", T::NAME);
    assert!(ratio <= 2.0, "{} {name}, {m} x {n}: {ours:.2e}, gesdd {theirs:.2e}", T::NAME);
    ratio
}

/// The error is at most twice that of `?gesdd` on any kind of matrix, and at most 1.2 times that in the geometric mean: on spectra that
/// are known exactly, on random matrices of several shapes and on the classical hard ones, the last two against Jacobi in double-double.
///
/// Of each kind there are many, and all count: the error of a single matrix with one dominant value is one rounding error, which is small
/// by luck for one side or the other. Hard matrices are multiplied by random numbers, which changes every rounding and no structure, and
/// taken as they are, transposed and reversed.
fn no_worse_than_gesdd<T: Lapack>() {
    let mut ratios = Vec::new();
    for (n, matrices) in [(16, 10), (64, 10), (256, 2)] {
        for spectrum in Spectrum::ALL {
            let mut sigma = spectrum.values(n);
            let members: Vec<_> = (0..matrices).map(|seed| (T::known(&mut sigma, 80 + seed), sigma.clone())).collect();
            ratios.push(compare(&format!("{spectrum:?}"), &members));
        }
    }
    for (m, n) in [(2, 2), (10, 10), (30, 30), (48, 31), (25, 40), (200, 20), (1, 50)] {
        let random = |k: u64| Mat::from_fn(m, n, |i, j| T::from_complex(Complex::new(noise(81 + k, i, j), noise(181 + k, i, j))));
        let members: Vec<_> = (0..20).map(random).map(|a: Mat<T>| (a.clone(), exact(a.as_ref()))).collect();
        ratios.push(compare("random", &members));
    }
    for (name, a) in hard::matrices() {
        let mut members = Vec::new();
        for k in 0..4 {
            let factor = Complex::new(1.5 + 0.5 * noise(64, k, 0), noise(64, k, 1));
            let entry = |i, j| T::from_complex(factor * Complex::new(1.0, noise(63, i, j)) * a[(i, j)]);
            let a: Mat<T> = Mat::from_fn(a.nrows(), a.ncols(), entry);
            let sigma = exact(a.as_ref());
            let views = [a.as_ref(), a.as_ref().reverse_rows(), a.as_ref().reverse_cols(), a.as_ref().reverse_rows_and_cols()];
            let owned = |view: MatRef<'_, T>| Mat::from_fn(view.nrows(), view.ncols(), |i, j| view[(i, j)]);
            members.extend(views.into_iter().flat_map(|view| [view, view.transpose()]).map(|view| (owned(view), sigma.clone())));
        }
        ratios.push(compare(name, &members));
    }
    let mean = (ratios.iter().map(|x| x.ln()).sum::<f64>() / ratios.len() as f64).exp();
    let most = ratios.iter().copied().fold(0.0, f64::max);
    println!("{}: {} kinds of matrix, geometric mean {mean:.3}, largest ratio {most:.2}", T::NAME, ratios.len());
    assert!(mean <= 1.2, "{}: geometric mean {mean:.3}", T::NAME);
}

/// On each hard matrix, each of the three ratios of the decomposition is at most twice that of `?gesdd`. Ratios below a quarter of n eps, as
/// LAPACK has them for a diagonal matrix and the like, count as that.
fn vectors_no_worse_than_gesdd<T: Lapack>() {
    let mut worst = (0.0, String::new());
    for kind in KINDS {
        for (m, n) in [(40, 40), (150, 150), (300, 300), (400, 30), (30, 400), (1200, 250)] {
            let a = matrix::<T>(kind, m, n);
            let ours = a.svd_gpu_with(&SvdOptions::default().backend(Backend::Cpu)).unwrap();
            let (ours, theirs) = (ratios(a.as_ref(), &ours), ratios(a.as_ref(), &T::factors(a.as_ref(), true)));
            for (ours, theirs) in ours.into_iter().zip(theirs) {
                let ratio = ours / theirs.max(0.25);
                if ratio > worst.0 {
                    worst = (ratio, format!("{} {kind} {m} x {n}: {ours:.3} {theirs:.3}", T::NAME));
                }
            }
        }
    }
    println!("{worst:.2?}");
    assert!(worst.0 <= 2.0, "{worst:.2?}");
}

#[test]
fn vectors_no_worse_than_sgesdd() {
    vectors_no_worse_than_gesdd::<f32>();
}

#[test]
fn vectors_no_worse_than_dgesdd() {
    vectors_no_worse_than_gesdd::<f64>();
}

#[test]
fn vectors_no_worse_than_cgesdd() {
    vectors_no_worse_than_gesdd::<Complex<f32>>();
}

#[test]
fn vectors_no_worse_than_zgesdd() {
    vectors_no_worse_than_gesdd::<Complex<f64>>();
}

/// The backward error of x, an estimate by Karlson and Walden within a factor of 2, relative to ||A||_F.
fn backward_error<T: Element>(a: MatRef<'_, T>, b: MatRef<'_, T>, x: MatRef<'_, T>) -> f64 {
    let (a, b, x) = (widen(a), widen(b), widen(x));
    let rest = &b - &a * &x;
    let svd = a.thin_svd().unwrap();
    let gradient = svd.V().adjoint() * (a.adjoint() * &rest);
    let s = svd.S().column_vector();
    let of_column = |j: usize| {
        let length = x.col(j).norm_l2();
        let mu = rest.col(j).norm_l2() / length;
        let sum: f64 = (0..s.nrows()).map(|i| gradient[(i, j)].norm_sqr() / (s[i].norm_sqr() + mu * mu)).sum();
        sum.sqrt() / (length * a.norm_l2())
    };
    (0..b.ncols()).map(of_column).fold(0.0, f64::max)
}

/// The backward error of least squares is at most twice that of `?gelsy`, for every hard matrix to which both give full rank. One below eps / 2
/// counts as that; in double precision, where the residual is computed with as many digits as the solution has, one below eps.
fn least_squares_no_worse_than_gelsy<T: Lapack>() {
    let (mut worst, mut compared) = ((0.0, String::new()), 0);
    for kind in KINDS {
        for (m, n) in [(40, 40), (150, 100), (100, 150), (400, 30), (3000, 20)] {
            let a = matrix::<T>(kind, m, n);
            let b = right_sides(a.as_ref(), 3);
            let ours = a.lstsq_gpu_with(&b, &SvdOptions::default().backend(Backend::Cpu).run.clone().into()).unwrap();
            let (rank, theirs) = T::gelsy(a.as_ref(), b.as_ref(), (m.max(n) as f64).sqrt() * eps::<T>());
            if ours.rank.min(rank) < m.min(n) {
                continue;
            }
            let x = Mat::from_fn(n, 3, |i, j| T::from_complex(Number::to_complex(ours.x[(i, j)])));
            let [ours, theirs] = [&x, &theirs].map(|x| backward_error(a.as_ref(), b.as_ref(), x.as_ref()) / eps::<T>());
            let ratio = ours / theirs.max(if eps::<T>() < 1e-10 { 1.0 } else { 0.5 });
            compared += 1;
            if ratio > worst.0 {
                worst = (ratio, format!("{} {kind} {m} x {n}: {ours:.3} eps, gelsy {theirs:.3}", T::NAME));
            }
        }
    }
    println!("{compared} compared, {worst:.2?}");
    assert!(compared >= 10 && worst.0 <= 2.0, "{compared} compared, {worst:.2?}");
}

#[test]
fn least_squares_no_worse_than_sgelsy() {
    least_squares_no_worse_than_gelsy::<f32>();
}

#[test]
fn least_squares_no_worse_than_dgelsy() {
    least_squares_no_worse_than_gelsy::<f64>();
}

#[test]
fn least_squares_no_worse_than_cgelsy() {
    least_squares_no_worse_than_gelsy::<Complex<f32>>();
}

#[test]
fn least_squares_no_worse_than_zgelsy() {
    least_squares_no_worse_than_gelsy::<Complex<f64>>();
}

#[test]
fn no_worse_than_sgesdd() {
    no_worse_than_gesdd::<f32>();
}

#[test]
fn no_worse_than_dgesdd() {
    no_worse_than_gesdd::<f64>();
}

#[test]
fn no_worse_than_cgesdd() {
    no_worse_than_gesdd::<Complex<f32>>();
}

#[test]
fn no_worse_than_zgesdd() {
    no_worse_than_gesdd::<Complex<f64>>();
}

/// Every value of a bidiagonal, however small, is LAPACK's, by `dbdsqr` and by `dbdsdc`: graded in all directions over 40 orders of
/// magnitude, glued, split by zeros above the diagonal, with zeros on it, with clusters.
///
/// Bound: 2 (n + 30) units relatively, n for each of two methods whose error bounds are small multiples of n units.
#[test]
fn bidiagonals_have_lapacks_values() {
    for n in [1, 2, 3, 10, 65, 300] {
        let mut random = Random(64 + n as u64);
        let grade = |i: usize, peak: usize| 10f64.powf(-40.0 * i.abs_diff(peak) as f64 / n as f64);
        let wilkinson = |i: usize| (i % 21) as f64 - 10.0;
        let mut normal = || random.normal();
        let mut list = |n: usize, entry: &dyn Fn(usize, f64) -> f64| -> Vec<f64> { (0..n).map(|i| entry(i, normal())).collect() };
        type Entry<'a> = &'a dyn Fn(usize, f64) -> f64;
        let kinds: [(&str, Entry<'_>, Entry<'_>); 10] = [
            ("random", &|_, x| x, &|_, x| x),
            ("graded down", &|i, x| x * grade(i, 0), &|i, x| x * grade(i, 0)),
            ("graded up", &|i, x| x * grade(i, n), &|i, x| x * grade(i, n)),
            ("peak", &|i, x| x * grade(i, n / 2), &|i, x| x * grade(i, n / 2)),
            ("graded diagonal only", &|i, x| x * grade(i, 0), &|_, _| 1.0),
            ("glued", &|i, _| wilkinson(i), &|i, _| if i % 21 == 20 { 1e-10 } else { 1.0 }),
            ("split", &|_, x| x, &|i, x| if i % 7 == 3 { 0.0 } else { x }),
            ("zeros on the diagonal", &|i, x| if i % 11 == 5 { 0.0 } else { x }, &|_, x| x),
            ("zeros on both", &|i, x| if i % 5 == 2 { 0.0 } else { x * grade(i, 0) }, &|i, x| {
                if i % 8 == 2 { 0.0 } else { x * grade(i, 0) }
            }),
            ("clusters", &|_, _| 1.0, &|_, x| 1e-9 * x),
        ];
        for (name, diagonal, superdiagonal) in kinds {
            let c = Bidiagonal::new(list(n, diagonal), list(n - 1, superdiagonal)).unwrap();
            let ours = [Stage3::Newton, Stage3::Bisection].map(|method| c.svdvals_by(method).unwrap());
            let lapack = [Stage3::Bdsqr, Stage3::Bdsdc].map(|method| c.svdvals_by(method).unwrap());
            for (a, b) in ours.iter().flat_map(|a| lapack.iter().map(move |b| (a, b))) {
                assert_eq!((a.len(), b.len()), (n, n), "{name}");
                for (k, (x, y)) in a.iter().zip(b).enumerate() {
                    let bound = 2.0 * (n + 30) as f64 * f64::EPSILON;
                    assert!((x - y).abs() <= bound * y, "{name}, n = {n}, value {k}: {x:e} and LAPACK's {y:e}");
                }
            }
        }
    }
}

/// The whole with LAPACK as stage 3 has the values of the whole without: to the rounding of the values, and the bound above.
#[test]
fn lapack_is_a_stage_3() {
    let a = Mat::from_fn(70, 50, |i, j| noise(65, i, j));
    let by = |method| a.svdvals_gpu_with(&SvdOptions::default().backend(Backend::Cpu).stage3(method)).unwrap();
    let ours = by(Stage3::default());
    for other in [by(Stage3::Bdsqr), by(Stage3::Bdsdc)] {
        assert!(ours.iter().zip(other.iter()).all(|(x, y): (&f64, &f64)| (x - y).abs() <= 160.0 * f64::EPSILON * y));
    }
}
