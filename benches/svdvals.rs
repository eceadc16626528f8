//! The CPU path against faer's `singular_values` and LAPACK's `gesdd` (no vectors), and each stage on its own.
//!
//! ```text
//! cargo bench                                 n = 64 .. 4096 against faer
//! cargo bench --features lapack-openblas      against faer and the system's OpenBLAS
//! cargo bench -- 1024                         n = 64 .. 1024
//! cargo bench -- 4096 2048                    n = 2048 .. 4096
//! ```
//!
//! The programs take turns, matrix by matrix, so that what else the machine does meets all of them; a figure is the median of its
//! turns. `difference` is ||s - s'||_2 / ||s'||_2 with s' by faer in f64. `RAYON_NUM_THREADS` sets the threads of this crate and of faer, `OPENBLAS_NUM_THREADS` those of OpenBLAS.

use std::{
    env,
    hint::black_box,
    time::{Duration, Instant},
};

use faer::Mat;
use svdvals_gpu::{Backend, RealElement, StageSeconds, SvdOptions, SvdValsGpu};

const SIZES: [usize; 7] = [64, 128, 256, 512, 1024, 2048, 4096];
/// Time for the turns of one table row; `FEWEST` of them are taken all the same, unless the first took longer than `LONG`.
const BUDGET: Duration = Duration::from_secs(5);
const LONG: Duration = Duration::from_secs(20);
const FEWEST: usize = 3;
const MOST: usize = 51;

fn main() {
    // cargo passes `--bench`; the numbers are the largest and the smallest size.
    let mut numbers = env::args().skip(1).filter_map(|argument| argument.parse().ok());
    let (largest, smallest) = (numbers.next().unwrap_or(usize::MAX), numbers.next().unwrap_or(0));
    let sizes: Vec<usize> = SIZES.into_iter().filter(|n| (smallest..=largest).contains(n)).collect();
    println!(
        "{} threads, random n x n matrices, all singular values and no vectors; medians in seconds",
        rayon::current_num_threads()
    );
    if !cfg!(feature = "lapack-openblas") {
        println!(
            "without LAPACK: `cargo bench --features lapack-openblas` adds it (system OpenBLAS, `libopenblas-dev` on Debian)"
        );
    }
    compare::<f32>(&sizes);
    compare::<f64>(&sizes);
    stages::<f32>(&sizes);
    stages::<f64>(&sizes);
}

fn compare<T: Peer>(sizes: &[usize]) {
    println!("\n{}: the whole, and how many times longer the others take", T::NAME);
    println!(
        "{:>6} {:>12} {:>12} {:>12} {:>11} {:>11} {:>6} {:>11}",
        "n", "this crate", "faer", "gesdd", "faer/this", "gesdd/this", "turns", "difference"
    );
    for &n in sizes {
        let a = random::<T>(n);
        let options = options();
        let [ours, faer, gesdd] = take_turns([
            &mut || {
                black_box(a.svdvals_gpu_with(&options).expect("a finite matrix"));
            },
            &mut || {
                black_box(a.singular_values().expect("faer converges"));
            },
            &mut || T::gesdd(&a),
        ]);
        let values = a.svdvals_gpu_with(&options).expect("a finite matrix");
        let reference = Mat::from_fn(n, n, |i, j| a[(i, j)].to_double()).singular_values().expect("faer converges");
        let norm = reference.iter().fold(0f64, |norm, s| norm.hypot(*s));
        let difference =
            values.iter().zip(&reference).fold(0f64, |sum, (ours, theirs)| sum.hypot(ours.to_double() - theirs)) / norm;
        let lapack = |text: String| if cfg!(feature = "lapack-openblas") { text } else { "-".into() };
        println!(
            "{n:>6} {:>12.6} {:>12.6} {:>12} {:>11.2} {:>11} {:>6} {:>11.1e}",
            ours.median,
            faer.median,
            lapack(format!("{:.6}", gesdd.median)),
            faer.median / ours.median,
            lapack(format!("{:.2}", gesdd.median / ours.median)),
            ours.turns,
            difference,
        );
    }
}

fn stages<T: Peer>(sizes: &[usize]) {
    println!("\n{}: stage by stage, within one call and each alone", T::NAME);
    println!(
        "{:>6} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}   {:>10} {:>10} {:>10}",
        "n", "0 scale", "upload", "1 to_band", "2 to_bidi", "3 svdvals", "total", "1 alone", "2 alone", "3 alone"
    );
    for &n in sizes {
        let a = random::<T>(n);
        let options = options();
        let band = a.to_band(&options).expect("a finite matrix");
        let bidiagonal = band.band_to_bidiag(&options).expect("a finite band");
        let mut runs: Vec<StageSeconds> = Vec::new();
        let [_, first, second, third] = take_turns([
            &mut || runs.push(a.svdvals_gpu_report(&options).expect("a finite matrix").seconds),
            &mut || {
                black_box(a.to_band(&options).expect("a finite matrix"));
            },
            &mut || {
                black_box(band.band_to_bidiag(&options).expect("a finite band"));
            },
            &mut || {
                black_box(bidiagonal.svdvals().expect("a finite bidiagonal"));
            },
        ]);
        let within = |stage: fn(&StageSeconds) -> f64| median(runs.iter().map(stage).collect());
        println!(
            "{n:>6} {:>10.6} {:>10.6} {:>10.6} {:>10.6} {:>10.6} {:>10.6}   {:>10.6} {:>10.6} {:>10.6}",
            within(|s| s.scale),
            within(|s| s.upload),
            within(|s| s.to_band),
            within(|s| s.band_to_bidiag),
            within(|s| s.svdvals),
            within(|s| s.total),
            first.median,
            second.median,
            third.median,
        );
    }
}

fn options() -> SvdOptions {
    SvdOptions::default().backend(Backend::Cpu)
}

/// Entries uniform in -1/2 .. 1/2, from a xorshift generator: the same on every machine.
fn random<T: RealElement>(n: usize) -> Mat<T> {
    let mut state = 88_172_645_463_325_252u64;
    Mat::from_fn(n, n, |_, _| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        T::from_double((state >> 11) as f64 / (1u64 << 53) as f64 - 0.5)
    })
}

struct Timing {
    median: f64,
    turns: usize,
}

/// Runs the programs one after the other, again and again, and times each. The first round decides how many follow; it counts only
/// where there are few.
fn take_turns<const P: usize>(mut programs: [&mut dyn FnMut(); P]) -> [Timing; P] {
    let mut seconds: [Vec<f64>; P] = std::array::from_fn(|_| Vec::new());
    let mut round = |seconds: &mut [Vec<f64>; P]| {
        for (program, seconds) in programs.iter_mut().zip(seconds) {
            let start = Instant::now();
            program();
            seconds.push(start.elapsed().as_secs_f64());
        }
    };
    round(&mut seconds);
    let first: f64 = seconds.iter().flatten().sum();
    let fewest = if first > LONG.as_secs_f64() { 1 } else { FEWEST };
    let turns = ((BUDGET.as_secs_f64() / first) as usize).clamp(fewest, MOST);
    if turns > FEWEST {
        seconds.iter_mut().for_each(Vec::clear);
    }
    while seconds[0].len() < turns {
        round(&mut seconds);
    }
    seconds.map(|seconds| Timing { turns: seconds.len(), median: median(seconds) })
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_unstable_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

/// What the peers need of an element type.
trait Peer: RealElement {
    /// LAPACK's singular values of a copy of `a`.
    fn gesdd(a: &Mat<Self>);
}

#[cfg(not(feature = "lapack-openblas"))]
impl<T: RealElement> Peer for T {
    fn gesdd(_: &Mat<Self>) {}
}

#[cfg(feature = "lapack-openblas")]
use openblas_src as _;

#[cfg(feature = "lapack-openblas")]
macro_rules! peer {
    ($t:ident, $gesdd:ident) => {
        impl Peer for $t {
            fn gesdd(a: &Mat<$t>) {
                let n = a.nrows();
                let order = i32::try_from(n).expect("an order that LAPACK can count");
                let mut copy: Vec<$t> = a.col_iter().flat_map(|column| column.iter().copied()).collect();
                let (mut s, mut iwork, mut info) = (vec![0.0; n], vec![0; 8 * n], 0);
                let mut work = vec![0.0];
                for query in [true, false] {
                    let lwork = if query { -1 } else { work.len() as i32 };
                    // SAFETY: the arrays have the sizes that gesdd asks for with jobz = 'N' (u and vt are not used), `work` the one that
                    // its work space query returned.
                    unsafe {
                        lapack::$gesdd(
                            b'N',
                            order,
                            order,
                            &mut copy,
                            order,
                            &mut s,
                            &mut [],
                            1,
                            &mut [],
                            1,
                            &mut work,
                            lwork,
                            &mut iwork,
                            &mut info,
                        );
                    }
                    assert_eq!(info, 0, "gesdd failed");
                    if query {
                        work = vec![0.0; work[0] as usize];
                    }
                }
                black_box(s);
            }
        }
    };
}

#[cfg(feature = "lapack-openblas")]
peer!(f32, sgesdd);
#[cfg(feature = "lapack-openblas")]
peer!(f64, dgesdd);
