//! LAPACK's routines without vectors, from the system's OpenBLAS (cargo feature `lapack-openblas`).

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
}

#[cfg(not(feature = "lapack-openblas"))]
mod without {
    use super::{Complex, Lapack, Outcome, RealLapack};

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
            }
        )*};
    }
    real_lapack! { f32 f64 }
}

#[cfg(feature = "lapack-openblas")]
mod with {
    use super::{Complex, Lapack, Outcome, RealLapack};

    /// `rwork` is the complex routines' extra array.
    macro_rules! gesdd {
        ($t:ty, $real:ty, $complex:literal, $gesdd:ident $(, $rwork:ident)?) => {
            impl Lapack for $t {
                const COMPLEX: bool = $complex;
                fn gesdd(n: usize, mut a: Vec<$t>) -> Outcome<Vec<f64>> {
                    let zero = <$t>::default();
                    let order = order(n)?;
                    let (mut s, mut iwork, mut info) = (vec![0.0 as $real; n], vec![0; 8 * n], 0);
                    $(let mut $rwork = vec![0.0 as $real; 7 * n];)?
                    let mut work = vec![zero];
                    for query in [true, false] {
                        let lwork = if query { -1 } else { work.len() as i32 };
                        // SAFETY: the arrays have the sizes that gesdd asks for with jobz = 'N' (u and vt are not used; rwork has 7 n,
                        // of which new versions need 5), and `work` the one that the query (lwork = -1) returned.
                        unsafe {
                            lapack::$gesdd(
                                b'N', order, order, &mut a, order, &mut s, &mut [], 1, &mut [], 1, &mut work, lwork,
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
                    Ok(Some(s.into_iter().map(f64::from).collect()))
                }
            }
        };
    }
    gesdd!(f32, f32, false, sgesdd);
    gesdd!(f64, f64, false, dgesdd);
    gesdd!(Complex<f32>, f32, true, cgesdd, rwork);
    gesdd!(Complex<f64>, f64, true, zgesdd, rwork);

    macro_rules! gbbrd {
        ($t:ty, $gbbrd:ident) => {
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
            }
        };
    }
    gbbrd!(f32, sgbbrd);
    gbbrd!(f64, dgbbrd);

    fn order(n: usize) -> Result<i32, String> {
        i32::try_from(n).map_err(|_| format!("LAPACK cannot count to {n}"))
    }
}
