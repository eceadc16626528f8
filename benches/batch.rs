//! Batches against faer and LAPACK's `gesdd` in a parallel loop, and blocks of rows against one call, on the CPU.
//!
//! ```text
//! cargo bench --bench batch --features lapack-openblas                    values, vectors, sizes, rows
//! cargo bench --bench batch --features lapack-openblas -- values rows     some of them
//! cargo bench --bench batch -- sizes --csv=sizes.csv                      with a table for `batch_times` of examples/gallery
//! ```
//!
//! The loop is that of rayon, with one thread of faer and of OpenBLAS for each matrix. It keeps all results, as a batch does. The programs take
//! turns; a figure is the median of its turns.

#[path = "../examples/shared/mod.rs"]
mod shared;
mod turns;

use std::{
    any::Any,
    env,
    fs::File,
    hint::black_box,
    io::{self, Write},
};

use faer::{Mat, MatRef, Par, set_global_parallelism};
use num_complex::Complex;
use rayon::prelude::*;
use svdvals_gpu::{Element, RowBlocks, SvdGpu, SvdValsGpu, svd_batch, svdvals_batch, svdvals_batch_report};

use turns::{arguments::Arguments, lapack::or_dash, on_cpu, random, take_turns};

#[cfg(feature = "lapack-openblas")]
use openblas_src as _;

/// Entries of the batches of all sizes.
const ENTRIES: usize = 1 << 22;
const SIZES: [usize; 18] = [4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 160, 192, 224, 232, 256, 320, 384, 512];

fn main() {
    set_global_parallelism(Par::Seq);
    one_blas_thread();
    let arguments = Arguments::read(usize::MAX);
    let wanted = |name| arguments.wanted(name);
    println!("{} threads, random matrices; medians in seconds", rayon::current_num_threads());
    if wanted("values") {
        values::<f32>(10_000, 32);
        values::<Complex<f32>>(10_000, 32);
        values::<f64>(10_000, 32);
        values::<f32>(1000, 128);
        values::<f64>(1000, 128);
    }
    if wanted("vectors") {
        vectors::<f32>(2000, 64);
        vectors::<f64>(2000, 64);
    }
    if wanted("sizes") {
        let mut table = table().expect("a file that can be written");
        sizes::<f32>(&mut table).expect("room for the table");
        sizes::<f64>(&mut table).expect("room for the table");
    }
    if wanted("rows") {
        rows::<f32>();
        rows::<f64>();
    }
}

/// OpenBLAS computes each matrix on the thread that calls it.
fn one_blas_thread() {
    #[cfg(feature = "lapack-openblas")]
    {
        unsafe extern "C" {
            fn openblas_set_num_threads(threads: i32);
        }
        // SAFETY: OpenBLAS, to which this program is linked, defines the function. No other thread runs yet.
        unsafe { openblas_set_num_threads(1) };
    }
}

fn batch<T: Element>(count: usize, n: usize) -> Vec<Mat<T>> {
    let all = random::<T>(n, n * count);
    (0..count).map(|k| Mat::from_fn(n, n, |i, j| all[(i, k * n + j)])).collect()
}

fn views<T: Element>(batch: &[Mat<T>]) -> Vec<MatRef<'_, T>> {
    batch.iter().map(|a| a.as_ref()).collect()
}

fn values<T: Peer>(count: usize, n: usize) {
    let (batch, options) = (batch::<T>(count, n), on_cpu());
    let views = views(&batch);
    let [ours, single, faer, gesdd] = take_turns([
        &mut || drop(black_box(svdvals_batch(&views, &options).expect("finite matrices"))),
        &mut || drop(black_box(batch.par_iter().map(|a| a.svdvals_gpu_with(&options)).collect::<Vec<_>>())),
        &mut || drop(black_box(batch.par_iter().map(|a| T::faer(a, false)).collect::<Vec<_>>())),
        &mut || drop(black_box(batch.par_iter().map(|a| T::gesdd(a, false)).collect::<Vec<_>>())),
    ]);
    println!(
        "{:>4} {count:>6} of {n:>3} {:>10.6}   single calls in a loop {:.2}   faer {:.2}   gesdd {}   {} turns",
        T::NAME,
        ours.median,
        single.median / ours.median,
        faer.median / ours.median,
        or_dash(format!("{:.2}", gesdd.median / ours.median)),
        ours.turns,
    );
}

fn vectors<T: Peer>(count: usize, n: usize) {
    let (batch, options) = (batch::<T>(count, n), on_cpu());
    let views = views(&batch);
    let [ours, single, faer, gesdd] = take_turns([
        &mut || drop(black_box(svd_batch(&views, &options).expect("finite matrices"))),
        &mut || drop(black_box(batch.par_iter().map(|a| a.svd_gpu_with(&options)).collect::<Vec<_>>())),
        &mut || drop(black_box(batch.par_iter().map(|a| T::faer(a, true)).collect::<Vec<_>>())),
        &mut || drop(black_box(batch.par_iter().map(|a| T::gesdd(a, true)).collect::<Vec<_>>())),
    ]);
    println!(
        "{:>4} {count:>6} of {n:>3} with vectors {:>10.6}   single calls in a loop {:.2}   faer {:.2}   gesdd {}   {} turns",
        T::NAME,
        ours.median,
        single.median / ours.median,
        faer.median / ours.median,
        or_dash(format!("{:.2}", gesdd.median / ours.median)),
        ours.turns,
    );
}

/// The file of `--csv=FILE`, with its heading.
fn table() -> io::Result<Option<File>> {
    let Some(path) = env::args().find_map(|argument| argument.strip_prefix("--csv=").map(str::to_owned)) else { return Ok(None) };
    let mut table = File::create(path)?;
    writeln!(table, "type,n,ns")?;
    Ok(Some(table))
}

/// Seconds at a constant number of entries.
fn sizes<T: Peer>(table: &mut Option<File>) -> io::Result<()> {
    println!("\n{}: {ENTRIES} entries", T::NAME);
    for n in SIZES {
        let count = (ENTRIES / (n * n)).max(1);
        let (batch, options) = (batch::<T>(count, n), on_cpu());
        let views = views(&batch);
        let [ours] = take_turns([&mut || drop(black_box(svdvals_batch(&views, &options).expect("finite matrices")))]);
        let report = svdvals_batch_report(&views, &options).expect("finite matrices");
        let per_entry = ours.median / (count * n * n) as f64;
        println!(
            "{n:>4} {count:>7} {:>10.6} s, {:>7.3} ns an entry, {} side by side",
            ours.median,
            1e9 * per_entry,
            report.side_by_side
        );
        if let Some(table) = table {
            writeln!(table, "{},{n},{:.3}", T::NAME, 1e9 * per_entry)?;
        }
    }
    Ok(())
}

/// Blocks of 10,000 rows of 64 columns, row after row in memory, against one call of a tenth of them.
fn rows<T: Element>() {
    const BLOCK: usize = 10_000;
    let (m, n) = (10_000_000 / size_of::<T>() * 4, 64);
    // A tenth of the rows, ten times, so that memory suffices; each pass over it is larger than the caches.
    let part = random::<T>(n, m / 10);
    let part = part.transpose();
    let options = on_cpu();
    let push = |centred: bool| {
        let rows = RowBlocks::<T>::new(n).expect("room");
        let mut rows = if centred { rows.centred() } else { rows };
        for start in (0..10).flat_map(|_| (0..m / 10).step_by(BLOCK)) {
            rows.push(&part.subrows(start, BLOCK)).expect("finite rows");
        }
        black_box(rows.finish_faer().expect("finite values"));
    };
    let [blocks, centred, one] = take_turns([&mut || push(false), &mut || push(true), &mut || {
        drop(black_box(part.svdvals_gpu_with(&options).expect("a finite matrix")))
    }]);
    let rate = |seconds: f64, rows: usize| (rows * n * size_of::<T>()) as f64 / seconds / 1e9;
    println!(
        "{:>4} {m} x {n} in blocks of {BLOCK}: {:.4} s, {:.2} GB/s; centred {:.4} s; one call of {} rows {:.4} s, {:.2} GB/s; speed {:.2}",
        T::NAME,
        blocks.median,
        rate(blocks.median, m),
        centred.median,
        m / 10,
        one.median,
        rate(one.median, m / 10),
        10.0 * one.median / blocks.median,
    );
}

/// What this crate is compared with: decompositions with vectors (thin) or without.
trait Peer: Element {
    fn faer(a: &Mat<Self>, vectors: bool) -> Kept;
    /// LAPACK's, of a copy. Nothing without LAPACK.
    fn gesdd(a: &Mat<Self>, vectors: bool) -> Kept;
}

/// A result.
type Kept = Box<dyn Any + Send>;

macro_rules! peer {
    ($t:ty, $real:ty, $gesdd:ident, ($($rwork:ident)?)) => {
        impl Peer for $t {
            fn faer(a: &Mat<$t>, vectors: bool) -> Kept {
                if vectors {
                    Box::new(a.thin_svd().expect("faer converges"))
                } else {
                    Box::new(a.singular_values().expect("faer converges"))
                }
            }

            #[cfg(not(feature = "lapack"))]
            fn gesdd(_: &Mat<$t>, _: bool) -> Kept {
                Box::new(())
            }

            #[cfg(feature = "lapack")]
            fn gesdd(a: &Mat<$t>, vectors: bool) -> Kept {
                let (rows, cols) = a.shape();
                let least = rows.min(cols);
                let (mut copy, [m, n]) = turns::lapack::columns(a);
                let (mut s, mut iwork) = (vec![<$real>::default(); least], vec![0; 8 * least]);
                $(let mut $rwork = vec![<$real>::default(); if vectors { least * (7 * least + 7) } else { 7 * least }];)?
                let of = |len: usize| vec![<$t>::default(); if vectors { len } else { 1 }];
                let (mut u, mut vt) = (of(rows * least), of(least * cols));
                let (ldu, ldvt) = if vectors { (m, least as i32) } else { (1, 1) };
                turns::lapack::with_workspace(|work, lwork, info| {
                    // SAFETY: the arrays have the sizes that gesdd asks for with jobz = 'S', or 'N' (u and vt are not used), `work` the one that
                    // its query returned.
                    unsafe {
                        lapack::$gesdd(
                            if vectors { b'S' } else { b'N' },
                            m,
                            n,
                            &mut copy,
                            m,
                            &mut s,
                            &mut u,
                            ldu,
                            &mut vt,
                            ldvt,
                            work,
                            lwork,
                            $(&mut $rwork,)?
                            &mut iwork,
                            info,
                        );
                    }
                });
                Box::new((s, u, vt))
            }
        }
    };
}

peer!(f32, f32, sgesdd, ());
peer!(f64, f64, dgesdd, ());
peer!(Complex<f32>, f32, cgesdd, (rwork));
