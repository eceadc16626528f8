//! This crate beside faer, OpenBLAS and MKL, on the CPU: single calls, as a program makes them that does something else in between.
//!
//! ```text
//! cargo bench --bench peers                              with the libraries that the machine has: `pip install mkl`, `libopenblas-dev` on Debian
//! cargo bench --bench peers -- values 1024 256           some of: values, vectors, qr, lstsq, f32, f64; the largest and the smallest n
//! cargo bench --bench peers -- --csv=peers.csv           with a table for the `speed` picture of examples/gallery
//! MKL=PATH/libmkl_rt.so.3 cargo bench --bench peers      a library that the loader does not find
//! ```
//!
//! The programs take turns, each once after a quarter of a second of rest; a figure is the median of its turns. Values: `singular_values`,
//! `gesdd`. Vectors, thin: `thin_svd`, `gesdd`. QR, R and the thin Q: `qr`, `geqrf` and `orgqr`. Least squares with one right-hand side:
//! `solve_lstsq`, `gels`, which assume full rank; this crate also estimates the condition number, and computes the residual and a bound on the
//! backward error. Each works on a copy of the matrix of its own. `RAYON_NUM_THREADS` sets the threads of this crate and of faer,
//! `OPENBLAS_NUM_THREADS` and `MKL_NUM_THREADS` those of the others.

#[path = "../examples/shared/mod.rs"]
mod shared;
mod turns;

use std::{
    env,
    fs::File,
    hint::black_box,
    io::{self, Write},
};

use faer::{
    Mat,
    linalg::solvers::SolveLstsq,
    traits::{ComplexField, Conjugate},
};
use svdvals_gpu::{LstsqGpu, QrGpu, SvdGpu, SvdValsGpu};

use turns::{
    Quartiles,
    arguments::Arguments,
    lapack::{self, LIBRARIES, Lapack},
    on_cpu, random, take_turns_at_rest,
};

const SQUARE: [usize; 8] = [32, 64, 128, 256, 512, 1024, 2048, 4096];
const TALL: [(usize, usize); 2] = [(4096, 512), (100_000, 64)];
const PROBLEMS: [&str; 4] = ["values", "vectors", "qr", "lstsq"];

fn main() -> io::Result<()> {
    let arguments = Arguments::read(2048);
    let mut table = match env::args().find_map(|argument| argument.strip_prefix("--csv=").map(str::to_owned)) {
        Some(path) => Some(File::create(path)?),
        None => None,
    };
    if let Some(table) = &mut table {
        writeln!(table, "problem,type,m,n,ours,faer,openblas,mkl")?;
    }
    println!("{} threads, random matrices, {}; medians in milliseconds", rayon::current_num_threads(), lapack::present());
    let any_type = !["f32", "f64"].iter().any(|name| arguments.named(name));
    let any_problem = !PROBLEMS.iter().any(|name| arguments.named(name));
    for problem in PROBLEMS.into_iter().filter(|name| any_problem || arguments.named(name)) {
        println!(
            "\n{problem:<8} {:>14} {:>10} {:>8} {:>9} {:>9}   the others' time over ours",
            "m x n", "ours", "faer", "OpenBLAS", "MKL"
        );
        let square = arguments.sizes(&SQUARE).into_iter().filter(|&n| n >= 256 || problem.starts_with('v')).map(|n| (n, n));
        for shape in square.chain(TALL) {
            if any_type || arguments.named("f32") {
                compare::<f32>(problem, shape, &mut table)?;
            }
            if any_type || arguments.named("f64") {
                compare::<f64>(problem, shape, &mut table)?;
            }
        }
    }
    Ok(())
}

fn compare<T>(problem: &str, (m, n): (usize, usize), table: &mut Option<File>) -> io::Result<()>
where
    T: Lapack + ComplexField + Conjugate<Canonical = T>,
{
    let (a, b) = (random::<T>(m, n), random::<T>(m, 1));
    let of = |library| {
        lapack::run(library, |library| match problem {
            "values" => _ = black_box(T::gesdd(library, &a, false)),
            "vectors" => _ = black_box(T::gesdd(library, &a, true)),
            "qr" => _ = black_box(T::geqrf(library, &a, true)),
            _ => _ = black_box(T::gels(library, &a, &b)),
        })
    };
    let [openblas, mkl] = &*LIBRARIES;
    let times =
        take_turns_at_rest([&mut || ours(problem, &a, &b), &mut || faers(problem, &a, &b), &mut || of(openblas), &mut || {
            of(mkl)
        }]);
    let [ours, faer, openblas, mkl] = times.map(|Quartiles { median, .. }| 1e3 * median);
    let others = [Some(faer), LIBRARIES[0].as_ref().map(|_| openblas), LIBRARIES[1].as_ref().map(|_| mkl)];
    let ratios = others.map(|time| time.map_or("-".into(), |time| format!("{:.2}", time / ours)));
    let [faer, openblas, mkl] = &ratios;
    println!("{:<8} {:>14} {ours:>10.3} {faer:>8} {openblas:>9} {mkl:>9}", T::NAME, format!("{m} x {n}"));
    if let Some(table) = table {
        let others = others.map(|time| time.map_or(String::new(), |time| format!("{time:.4}"))).join(",");
        writeln!(table, "{problem},{},{m},{n},{ours:.4},{others}", T::NAME)?;
    }
    Ok(())
}

fn ours<T: Lapack>(problem: &str, a: &Mat<T>, b: &Mat<T>) {
    let run = on_cpu().run;
    match problem {
        "values" => _ = black_box(a.svdvals_gpu_with(&run.into()).expect("a finite matrix")),
        "vectors" => _ = black_box(a.svd_gpu_with(&run.into()).expect("a finite matrix")),
        "qr" => {
            let qr = a.qr_gpu_with(&run.into()).expect("a finite matrix");
            black_box((qr.r(), qr.thin_q().expect("room for Q")));
        }
        _ => _ = black_box(a.lstsq_gpu_with(b, &run.into()).expect("a finite matrix")),
    }
}

fn faers<T: ComplexField + Conjugate<Canonical = T>>(problem: &str, a: &Mat<T>, b: &Mat<T>) {
    match problem {
        "values" => _ = black_box(a.singular_values().expect("faer converges")),
        "vectors" => _ = black_box(a.thin_svd().expect("faer converges")),
        "qr" => {
            let qr = a.qr();
            black_box((qr.thin_R().to_owned(), qr.compute_thin_Q()));
        }
        _ => _ = black_box(a.qr().solve_lstsq(b)),
    }
}
