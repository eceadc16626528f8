//! LAPACK's routines, from the libraries that this machine has: OpenBLAS and Intel's MKL. They are loaded when the first of them is asked for, by the
//! name that the loader knows (`LD_LIBRARY_PATH` adds folders) or that the environment variables `OPENBLAS` and `MKL` give, each with symbols of its own.

use std::{env, hint::black_box, mem::transmute_copy, sync::LazyLock};

use faer::Mat;
use libloading::Library as Loaded;
use num_complex::Complex;
use svdvals_gpu::{Element, Number};

use super::Timing;

/// A LAPACK that is loaded.
pub struct Library(Loaded);

/// OpenBLAS and MKL, each if it is there.
pub static LIBRARIES: LazyLock<[Option<Library>; 2]> = LazyLock::new(|| {
    let names = [
        ("OPENBLAS", ["libopenblas.so.0", "libopenblas.so", "libopenblas.dylib", "libopenblas.dll"]),
        ("MKL", ["libmkl_rt.so.3", "libmkl_rt.so.2", "libmkl_rt.2.dylib", "mkl_rt.2.dll"]),
    ];
    names.map(|(variable, known)| match env::var(variable) {
        Ok(path) => Some(Library(open(&path).unwrap_or_else(|error| panic!("{variable}: {error}")))),
        Err(_) => known.iter().find_map(|name| open(name).ok()).map(Library),
    })
});

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn open(name: &str) -> Result<Loaded, libloading::Error> {
    use libloading::os::unix::{Library as OfUnix, RTLD_LOCAL, RTLD_NOW};
    // Its own symbols before those of another LAPACK that this program may have.
    const RTLD_DEEPBIND: i32 = 8;
    // SAFETY: what these libraries do when they are loaded is harmless, and they are never unloaded.
    unsafe { OfUnix::open(Some(name), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND).map(Into::into) }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn open(name: &str) -> Result<Loaded, libloading::Error> {
    // SAFETY: what these libraries do when they are loaded is harmless, and they are never unloaded.
    unsafe { Loaded::new(name) }
}

/// OpenBLAS and MKL, for the head of a table.
pub fn titles() -> String {
    LIBRARIES.iter().zip(["OpenBLAS", "MKL"]).map(|(_, name)| format!(" {name:>9}")).collect()
}

/// Which of the two are there.
pub fn present() -> String {
    let is_there =
        |library: &Option<Library>, name| if library.is_some() { format!("with {name}") } else { format!("without {name}") };
    let [openblas, mkl] = &*LIBRARIES;
    format!("{}, {}", is_there(openblas, "OpenBLAS"), is_there(mkl, "MKL"))
}

/// The time of a program over ours for each library, or a dash for one that is not there.
pub fn ratios(times: [&Timing; 2], ours: &Timing) -> String {
    let ratio = |(library, time): (&Option<Library>, &Timing)| match library {
        Some(_) => format!(" {:>9.2}", time.median / ours.median),
        None => format!(" {:>9}", "-"),
    };
    LIBRARIES.iter().zip(times).map(ratio).collect()
}

/// Calls a library's routine; nothing where the library is not there.
pub fn run<R>(library: &Option<Library>, call: impl FnOnce(&Library) -> R) {
    if let Some(library) = library {
        black_box(call(library));
    }
}

/// OpenBLAS computes each matrix on the thread that calls it, and so does MKL.
pub fn on_one_thread() {
    let functions: [&[u8]; 2] = [b"openblas_set_num_threads\0", b"MKL_Set_Num_Threads\0"];
    for (library, name) in LIBRARIES.iter().zip(functions) {
        if let Some(Library(library)) = library {
            // SAFETY: both are `void f(int)`. No other thread runs yet.
            unsafe { library.get::<unsafe extern "C" fn(i32)>(name).expect("a function of this library")(1) };
        }
    }
}

/// S, U and V^H by columns, thin; without vectors U and V^H are empty.
pub struct Factors<T: Element> {
    pub s: Vec<T::Real>,
    pub u: Vec<T>,
    pub vt: Vec<T>,
}

/// What a benchmark calls, of copies of its matrices.
pub trait Lapack: Element {
    /// The decomposition by `gesdd`.
    fn gesdd(library: &Library, a: &Mat<Self>, vectors: bool) -> Factors<Self>;
    /// R by `geqrf`, or in its place Q by `orgqr`.
    fn geqrf(library: &Library, a: &Mat<Self>, q: bool) -> Vec<Self>;
    /// Least squares by `gels`.
    fn gels(library: &Library, a: &Mat<Self>, b: &Mat<Self>) -> Vec<Self>;
}

/// The entries column by column, and the numbers of rows and columns.
fn columns<T: Copy>(a: &Mat<T>) -> (Vec<T>, [i32; 2]) {
    let size = [a.nrows(), a.ncols()].map(|side| i32::try_from(side).expect("a side that LAPACK can count"));
    (a.col_iter().flat_map(|column| column.iter().copied()).collect(), size)
}

/// Calls `routine(work, lwork, info)` twice: for the size of its workspace, which it writes to `work[0]`, and with a workspace of this size.
fn with_workspace<T: Number>(mut routine: impl FnMut(*mut T, *const i32, *mut i32)) {
    let mut work = vec![T::from_complex(Complex::ZERO)];
    for query in [true, false] {
        let (lwork, mut info) = (if query { -1 } else { work.len() as i32 }, 0);
        routine(work.as_mut_ptr(), &lwork, &mut info);
        assert_eq!(info, 0, "LAPACK failed");
        if query {
            work = vec![T::from_complex(Complex::ZERO); work[0].to_complex().re as usize];
        }
    }
}

impl Library {
    /// A routine.
    ///
    /// # Safety
    ///
    /// `F` is the type of a pointer to this function.
    unsafe fn routine<F: Copy>(&self, name: &str) -> F {
        // SAFETY: by the caller. A pointer to a function is copied as one of another type.
        unsafe { transmute_copy(&*self.0.get::<unsafe extern "C" fn()>(name.as_bytes()).expect("a routine of LAPACK")) }
    }
}

macro_rules! lapack {
    ($t:ty, $real:ty, $letter:literal, $orgqr:literal, ($($rwork:ident: $rtype:ty)?)) => {
        impl Lapack for $t {
            fn gesdd(library: &Library, a: &Mat<$t>, vectors: bool) -> Factors<$t> {
                type Gesdd = unsafe extern "C" fn(
                    *const u8, *const i32, *const i32, *mut $t, *const i32, *mut $real, *mut $t, *const i32, *mut $t, *const i32,
                    *mut $t, *const i32, $(*mut $rtype,)? *mut i32, *mut i32, usize,
                );
                let (mut copy, [m, n]) = columns(a);
                let least = m.min(n) as usize;
                let (mut s, mut iwork) = (vec![<$real>::default(); least], vec![0; 8 * least]);
                $(let mut $rwork = vec![<$rtype>::default(); if vectors { least * (7 * least + 7) } else { 7 * least }];)?
                let of = |rows: usize, cols: usize| vec![<$t>::default(); if vectors { rows * cols } else { 0 }];
                let (mut u, mut vt) = (of(a.nrows(), least), of(least, a.ncols()));
                let (job, ldvt) = (if vectors { b'S' } else { b'N' }, (least as i32).max(1));
                with_workspace(|work, lwork, info| {
                    // SAFETY: the arrays have the sizes that gesdd asks for with jobz = 'S', or 'N' (u and vt are not used), `work` the one
                    // that its query returned.
                    unsafe {
                        library.routine::<Gesdd>(concat!($letter, "gesdd_\0"))(
                            &job, &m, &n, copy.as_mut_ptr(), &m, s.as_mut_ptr(), u.as_mut_ptr(), &m, vt.as_mut_ptr(), &ldvt,
                            work, lwork, $($rwork.as_mut_ptr(),)? iwork.as_mut_ptr(), info, 1,
                        );
                    }
                });
                Factors { s, u, vt }
            }

            fn geqrf(library: &Library, a: &Mat<$t>, q: bool) -> Vec<$t> {
                type Geqrf = unsafe extern "C" fn(*const i32, *const i32, *mut $t, *const i32, *mut $t, *mut $t, *const i32, *mut i32);
                type Orgqr = unsafe extern "C" fn(
                    *const i32, *const i32, *const i32, *mut $t, *const i32, *const $t, *mut $t, *const i32, *mut i32,
                );
                let (mut copy, [m, n]) = columns(a);
                let k = m.min(n);
                let mut tau = vec![<$t>::default(); k as usize];
                with_workspace(|work, lwork, info| {
                    // SAFETY: the arrays have the sizes that geqrf asks for, `work` the one that its query returned.
                    unsafe {
                        let geqrf = library.routine::<Geqrf>(concat!($letter, "geqrf_\0"));
                        geqrf(&m, &n, copy.as_mut_ptr(), &m, tau.as_mut_ptr(), work, lwork, info);
                    }
                });
                if q {
                    with_workspace(|work, lwork, info| {
                        // SAFETY: as above, for orgqr; the first k columns of `copy` are replaced by those of Q.
                        unsafe {
                            let orgqr = library.routine::<Orgqr>(concat!($letter, $orgqr, "_\0"));
                            orgqr(&m, &k, &k, copy.as_mut_ptr(), &m, tau.as_ptr(), work, lwork, info);
                        }
                    });
                }
                copy
            }

            fn gels(library: &Library, a: &Mat<$t>, b: &Mat<$t>) -> Vec<$t> {
                type Gels = unsafe extern "C" fn(
                    *const u8, *const i32, *const i32, *const i32, *mut $t, *const i32, *mut $t, *const i32, *mut $t, *const i32,
                    *mut i32, usize,
                );
                let (mut copy, [m, n]) = columns(a);
                let mut x: Vec<$t> = b.col_as_slice(0).to_vec();
                x.resize(a.nrows().max(a.ncols()), <$t>::default());
                let order = m.max(n);
                with_workspace(|work, lwork, info| {
                    // SAFETY: the arrays have the sizes that gels asks for, `work` the one that its query returned.
                    unsafe {
                        let gels = library.routine::<Gels>(concat!($letter, "gels_\0"));
                        gels(&b'N', &m, &n, &1, copy.as_mut_ptr(), &m, x.as_mut_ptr(), &order, work, lwork, info, 1);
                    }
                });
                x
            }
        }
    };
}

lapack!(f32, f32, "s", "orgqr", ());
lapack!(f64, f64, "d", "orgqr", ());
lapack!(Complex<f32>, f32, "c", "ungqr", (rwork: f32));
lapack!(Complex<f64>, f64, "z", "ungqr", (rwork: f64));
