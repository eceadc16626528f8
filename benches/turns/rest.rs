//! Calls after a rest, as a program calls that does something else in between: one thread, all of them, and LAPACK.

use faer::Mat;
use rayon::current_num_threads;
use svdvals_gpu::SvdOptions;

use super::{
    Quartiles,
    lapack::{self, LIBRARIES, Lapack},
    on_cpu, random, take_turns_at_rest,
};

/// The head of a table.
pub fn title(name: &str) {
    let all = format!("{} threads", current_num_threads());
    println!("\n{name}: calls after a rest, milliseconds (quartiles)");
    println!(
        "{:>14} {:>24} {all:>24} {:>24} {:>24} {:>8} {:>12} {:>8}",
        "matrix", "one thread", "OpenBLAS", "MKL", "one/all", "OpenBLAS/all", "MKL/all"
    );
}

/// Its row of a matrix: milliseconds of one thread, of all, of OpenBLAS and of MKL, as first quartile, median and third.
pub fn row(matrix: &str, programs: [&mut dyn FnMut(); 4]) {
    let [one, many, openblas, mkl] = take_turns_at_rest(programs);
    let of = |q: &Quartiles| format!("{:.3} {:.3} {:.3}", 1e3 * q.first, 1e3 * q.median, 1e3 * q.third);
    let or_dash = |k: usize, text: String| if LIBRARIES[k].is_some() { text } else { "-".into() };
    println!(
        "{matrix:>14} {:>24} {:>24} {:>24} {:>24} {:>8.2} {:>12} {:>8}",
        of(&one),
        of(&many),
        or_dash(0, of(&openblas)),
        or_dash(1, of(&mkl)),
        one.median / many.median,
        or_dash(0, format!("{:.2}", openblas.median / many.median)),
        or_dash(1, format!("{:.2}", mkl.median / many.median)),
    );
}

/// A table of square matrices: `ours` beside `gesdd`.
pub fn decompositions<T: Lapack>(sizes: &[usize], vectors: bool, ours: impl Fn(&Mat<T>, &SvdOptions)) {
    title(T::NAME);
    let [openblas, mkl] = &*LIBRARIES;
    for &n in sizes {
        let a = random::<T>(n, n);
        let (one, many) = (on_cpu().threads(1), on_cpu());
        let gesdd = |library| lapack::run(library, |library| T::gesdd(library, &a, vectors));
        row(&n.to_string(), [&mut || ours(&a, &one), &mut || ours(&a, &many), &mut || gesdd(openblas), &mut || gesdd(mkl)]);
    }
}
