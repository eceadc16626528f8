//! LAPACK's routines, from the system's OpenBLAS (cargo feature `lapack-openblas`).

use num_complex::Complex;

#[cfg(feature = "lapack-openblas")]
use openblas_src as _;

/// Whether LAPACK is there: if not, the functions below return nothing.
pub const LINKED: bool = cfg!(feature = "lapack-openblas");

/// What [`Lapack`] tells where a routine fails.
pub type Outcome<T> = Result<Option<T>, String>;

/// The types that LAPACK computes with.
pub trait Lapack: Sized {
    const COMPLEX: bool;

    /// The singular values of an n x n column-major matrix, by `?gesdd`.
    fn gesdd(n: usize, a: Vec<Self>) -> Outcome<Vec<f64>>;
}

/// The real types that LAPACK computes with.
pub trait RealLapack: Lapack {
    /// Diagonal and superdiagonal of an upper band matrix reduced by `?gbbrd`, from its band of n columns of `bandwidth` + 1 entries.
    fn gbbrd(n: usize, bandwidth: usize, band: Vec<Self>) -> Outcome<(Vec<f64>, Vec<f64>)>;

    /// U, m x k, the k = min(m, n) singular values and V^T, k x n, of an m x n matrix, by `?gesdd`; all are column-major.
    fn gesdd_thin(m: usize, n: usize, a: Vec<Self>) -> Outcome<Thin<Self>>;
}

/// U, s and V^T.
pub type Thin<T> = (Vec<T>, Vec<f64>, Vec<T>);

#[cfg(not(feature = "lapack-openblas"))]
mod without {
    use super::{Complex, Lapack, Outcome, RealLapack, Thin};

    macro_rules! lapack {
        ($($t:ty, $complex:literal;)*) => {$(
            impl Lapack for $t {
                const COMPLEX: bool = $complex;
                fn gesdd(_: usize, _: Vec<$t>) -> Outcome<Vec<f64>> {
                    Ok(None)
                }
            }
        )*};
    }
    lapack! { f32, false; f64, false; Complex<f32>, true; Complex<f64>, true; }

    macro_rules! real_lapack {
        ($($t:ty)*) => {$(
            impl RealLapack for $t {
                fn gbbrd(_: usize, _: usize, _: Vec<$t>) -> Outcome<(Vec<f64>, Vec<f64>)> {
                    Ok(None)
                }
                fn gesdd_thin(_: usize, _: usize, _: Vec<$t>) -> Outcome<Thin<$t>> {
                    Ok(None)
                }
            }
        )*};
    }
    real_lapack! { f32 f64 }
}

#[cfg(feature = "lapack-openblas")]
mod with {
    use super::{Complex, Lapack, Outcome, RealLapack, Thin};

    /// A function called `$gesdd`: U, s and V^T of an m x n matrix; U and V^T are empty where they are not wanted. `rwork` is the complex
    /// routines' extra array.
    macro_rules! gesdd {
        ($t:ty, $real:ty, $complex:literal, $gesdd:ident $(, $rwork:ident)?) => {
            fn $gesdd(m: usize, n: usize, mut a: Vec<$t>, vectors: bool) -> Result<Thin<$t>, String> {
                if m.checked_mul(n) != Some(a.len()) {
                    return Err(format!("{m} x {n}, but {} entries", a.len()));
                }
                let (zero, k) = (<$t>::default(), m.min(n));
                let (rows, cols, least) = (order(m)?, order(n)?, order(k)?);
                let (mut s, mut iwork, mut info) = (vec![0.0 as $real; k], vec![0; 8 * k], 0);
                let (jobz, sides) = if vectors { (b'S', (m * k, k * n)) } else { (b'N', (0, 0)) };
                let (mut u, mut vt) = (vec![zero; sides.0], vec![zero; sides.1]);
                $(let mut $rwork = vec![0.0 as $real; 7 * k];)?
                let mut work = vec![zero];
                for query in [true, false] {
                    let lwork = if query { -1 } else { work.len() as i32 };
                    // SAFETY: the arrays have the sizes that gesdd asks for: with jobz = 'S' u is m x k and vt k x n; with jobz = 'N' they
                    // are not used. The complex routines are called with jobz = 'N' alone, for which rwork has 7 k, of which new versions
                    // need 5. `work` has the size that the query (lwork = -1) returned.
                    unsafe {
                        lapack::$gesdd(
                            jobz, rows, cols, &mut a, rows, &mut s, &mut u, rows, &mut vt, least, &mut work, lwork,
                            $(&mut $rwork,)? &mut iwork, &mut info,
                        );
                    }
                    if info != 0 {
                        return Err(format!("LAPACK's {} returned info = {info}", stringify!($gesdd)));
                    }
                    if query {
                        let size = Complex::<$real>::from(work[0]).re;
                        work = vec![zero; size as usize + 1];
                    }
                }
                Ok((u, s.into_iter().map(f64::from).collect(), vt))
            }

            impl Lapack for $t {
                const COMPLEX: bool = $complex;
                fn gesdd(n: usize, a: Vec<$t>) -> Outcome<Vec<f64>> {
                    $gesdd(n, n, a, false).map(|(_, s, _)| Some(s))
                }
            }
        };
    }
    gesdd!(f32, f32, false, sgesdd);
    gesdd!(f64, f64, false, dgesdd);
    gesdd!(Complex<f32>, f32, true, cgesdd, rwork);
    gesdd!(Complex<f64>, f64, true, zgesdd, rwork);

    macro_rules! gbbrd {
        ($t:ty, $gbbrd:ident, $gesdd:ident) => {
            impl RealLapack for $t {
                fn gbbrd(n: usize, bandwidth: usize, mut band: Vec<$t>) -> Outcome<(Vec<f64>, Vec<f64>)> {
                    if bandwidth.checked_add(1).and_then(|rows| rows.checked_mul(n)) != Some(band.len()) {
                        return Err(format!("a band of {} entries, n = {n}, bandwidth {bandwidth}", band.len()));
                    }
                    let (order, bandwidth) = (order(n)?, order(bandwidth)?);
                    let (mut d, mut e, mut work, mut info) = (vec![0.0; n], vec![0.0; n.saturating_sub(1)], vec![0.0; 2 * n], 0);
                    // SAFETY: `band` has `bandwidth` + 1 rows and n columns (checked above), d, e and work the sizes that gbbrd asks for;
                    // with vect = 'N' and ncc = 0 it uses no other array.
                    unsafe {
                        lapack::$gbbrd(
                            b'N',
                            order,
                            order,
                            &[0],
                            0,
                            bandwidth,
                            &mut band,
                            bandwidth + 1,
                            &mut d,
                            &mut e,
                            &mut [],
                            1,
                            &mut [],
                            1,
                            &mut [],
                            1,
                            &mut work,
                            &mut info,
                        );
                    }
                    if info != 0 {
                        return Err(format!("LAPACK's {} returned info = {info}", stringify!($gbbrd)));
                    }
                    let widen = |values: Vec<$t>| values.into_iter().map(f64::from).collect();
                    Ok(Some((widen(d), widen(e))))
                }

                fn gesdd_thin(m: usize, n: usize, a: Vec<$t>) -> Outcome<Thin<$t>> {
                    $gesdd(m, n, a, true).map(Some)
                }
            }
        };
    }
    gbbrd!(f32, sgbbrd, sgesdd);
    gbbrd!(f64, dgbbrd, dgesdd);

    fn order(n: usize) -> Result<i32, String> {
        i32::try_from(n).map_err(|_| format!("LAPACK cannot count to {n}"))
    }
}
