//! Batches against faer and LAPACK's `gesdd` in a parallel loop, and blocks of rows against one call, on the CPU.
//!
//! ```text
//! cargo bench --bench batch                    values, vectors, sizes, rows
//! cargo bench --bench batch -- values rows     some of them
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

use faer::{Mat, MatRef, Par, set_global_parallelism, traits::ComplexField};
use num_complex::Complex;
use rayon::prelude::*;
use svdvals_gpu::{Element, RowBlocks, SvdGpu, SvdValsGpu, svd_batch, svdvals_batch, svdvals_batch_report};

use turns::{
    arguments::Arguments,
    lapack::{self, LIBRARIES, Lapack, Library},
    on_cpu, random, take_turns,
};

/// Entries of the batches of all sizes.
const ENTRIES: usize = 1 << 22;
const SIZES: [usize; 18] = [4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 160, 192, 224, 232, 256, 320, 384, 512];

fn main() {
    set_global_parallelism(Par::Seq);
    lapack::on_one_thread();
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

fn batch<T: Element>(count: usize, n: usize) -> Vec<Mat<T>> {
    let all = random::<T>(n, n * count);
    (0..count).map(|k| Mat::from_fn(n, n, |i, j| all[(i, k * n + j)])).collect()
}

fn views<T: Element>(batch: &[Mat<T>]) -> Vec<MatRef<'_, T>> {
    batch.iter().map(|a| a.as_ref()).collect()
}

fn values<T: Lapack + ComplexField>(count: usize, n: usize) {
    let (batch, options) = (batch::<T>(count, n), on_cpu());
    let views = views(&batch);
    let [openblas, mkl] = &*LIBRARIES;
    let [ours, single, of_faer, of_openblas, of_mkl] = take_turns([
        &mut || drop(black_box(svdvals_batch(&views, &options).expect("finite matrices"))),
        &mut || drop(black_box(batch.par_iter().map(|a| a.svdvals_gpu_with(&options)).collect::<Vec<_>>())),
        &mut || drop(black_box(batch.par_iter().map(|a| faer(a, false)).collect::<Vec<_>>())),
        &mut || gesdd(openblas, &batch, false),
        &mut || gesdd(mkl, &batch, false),
    ]);
    println!(
        "{:>4} {count:>6} of {n:>3} {:>10.6}   single calls in a loop {:.2}   faer {:.2}   OpenBLAS, MKL{}   {} turns",
        T::NAME,
        ours.median,
        single.median / ours.median,
        of_faer.median / ours.median,
        lapack::ratios([&of_openblas, &of_mkl], &ours),
        ours.turns,
    );
}

fn vectors<T: Lapack + ComplexField>(count: usize, n: usize) {
    let (batch, options) = (batch::<T>(count, n), on_cpu());
    let views = views(&batch);
    let [openblas, mkl] = &*LIBRARIES;
    let [ours, single, of_faer, of_openblas, of_mkl] = take_turns([
        &mut || drop(black_box(svd_batch(&views, &options).expect("finite matrices"))),
        &mut || drop(black_box(batch.par_iter().map(|a| a.svd_gpu_with(&options)).collect::<Vec<_>>())),
        &mut || drop(black_box(batch.par_iter().map(|a| faer(a, true)).collect::<Vec<_>>())),
        &mut || gesdd(openblas, &batch, true),
        &mut || gesdd(mkl, &batch, true),
    ]);
    println!(
        "{:>4} {count:>6} of {n:>3} with vectors {:>10.6}   single calls in a loop {:.2}   faer {:.2}   OpenBLAS, MKL{}   {} turns",
        T::NAME,
        ours.median,
        single.median / ours.median,
        of_faer.median / ours.median,
        lapack::ratios([&of_openblas, &of_mkl], &ours),
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
fn sizes<T: Element>(table: &mut Option<File>) -> io::Result<()> {
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

/// A result.
type Kept = Box<dyn Any + Send>;

fn faer<T: ComplexField + 'static>(a: &Mat<T>, vectors: bool) -> Kept
where
    T::Real: 'static,
{
    if vectors { Box::new(a.thin_svd().expect("faer converges")) } else { Box::new(a.singular_values().expect("faer converges")) }
}

/// LAPACK's, of copies, which are all kept.
fn gesdd<T: Lapack>(library: &Option<Library>, batch: &[Mat<T>], vectors: bool) {
    lapack::run(library, |library| batch.par_iter().map(|a| T::gesdd(library, a, vectors)).collect::<Vec<_>>());
}
