//! Principal components, or least squares, of a `.npy` file with more rows than memory holds: read in blocks, of which none is kept.
//!
//! ```text
//! cargo run --release -p svdvals-gpu-gallery --bin rows                       least squares of 10^6 x 20, from a file that it writes first
//! cargo run --release -p svdvals-gpu-gallery --bin rows -- observations.npy   principal components
//! cargo run --release -p svdvals-gpu-gallery --bin rows -- --map observations.npy   the same from a mapped file
//! cargo run --release -p svdvals-gpu-gallery --bin rows -- --help
//! ```

mod arguments;
mod make;
mod read;

#[path = "../../../../shared/mod.rs"]
mod shared;

use std::{error::Error, sync::mpsc::sync_channel, thread, time::Duration, time::Instant};

use indicatif::{ProgressBar, ProgressStyle};
use ndarray::{ArrayView2, s};
use svdvals_gpu::{Element, RealElement, RowBlocks};
use svdvals_gpu_gallery::files::matrix::Stored;

use arguments::{Arguments, USAGE};
use read::File;
use shared::{
    arguments::program,
    markdown::{Table, print},
};

fn main() -> std::process::ExitCode {
    program("rows", USAGE, Arguments::parse, |arguments| run(&arguments))
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let (path, right_sides) = match &arguments.file {
        Some(path) => (path.clone(), arguments.right_sides),
        None => (make::file(arguments.make)?, 1),
    };
    let file = File::open(&path).map_err(|message| format!("{}: {message}", path.display()))?;
    let result = match file.stored {
        Stored::F32 => of_type::<f32>(&file, right_sides, arguments),
        Stored::F64 => of_type::<f64>(&file, right_sides, arguments),
        _ => Err("entries are neither f4 nor f8".into()),
    };
    result.map_err(|error| format!("{}: {error}", path.display()).into())
}

/// Reads on a thread of its own while the block before is computed. Three blocks are in memory: one is read, one waits, one is computed. Of a
/// mapped file the system reads a block while the one before is computed.
fn of_type<T: Element>(file: &File, right_sides: usize, arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let (m, columns) = file.shape;
    let n = columns
        .checked_sub(right_sides)
        .ok_or_else(|| format!("{columns} columns, of which {right_sides} are right-hand sides"))?;
    let block_rows = arguments.block.unwrap_or(((1 << 22) / columns.max(1)).max(1)).min(m.max(1));
    let mut rows = RowBlocks::<T>::with_right_sides(n, right_sides)?;
    if arguments.centred {
        rows = rows.centred();
    }

    let bar = ProgressBar::new(m as u64);
    let style =
        ProgressStyle::with_template("[{elapsed_precise}] {bar:40} {percent:>3} %  {human_pos} rows, {per_sec}, {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(200));
    let (start, mut computing) = (Instant::now(), 0.0);
    let mut push = |block: &[T]| -> Result<(), Box<dyn Error>> {
        let begin = Instant::now();
        let block = ArrayView2::from_shape((block.len() / columns, columns), block)?;
        if right_sides == 0 {
            rows.push(&block)?;
        } else {
            rows.push_with(&block.slice(s![.., ..n]), &block.slice(s![.., n..]))?;
        }
        computing += begin.elapsed().as_secs_f64();
        bar.inc(block.nrows() as u64);
        Ok(())
    };
    let reading = if arguments.mapped {
        file.map_blocks(block_rows, push).map(|()| None)
    } else {
        let (send, receive) = sync_channel::<Vec<T>>(1);
        thread::scope(|scope| {
            let reader = scope.spawn(move || file.read_blocks::<T>(block_rows, |block| send.send(block).is_ok()));
            receive.into_iter().try_for_each(|block| push(&block))?;
            Ok(Some(reader.join().map_err(|_| "the reader panicked")??))
        })
    };
    bar.finish_and_clear();
    let (reading, seconds) = (reading?, start.elapsed().as_secs_f64());

    let gigabytes = (m * columns * size_of::<T>()) as f64 / 1e9;
    print(format!(
        "{m} rows of {n} columns and {right_sides} right-hand sides, {gigabytes:.3} GB, in blocks of {block_rows} rows"
    ));
    print(match reading {
        Some(reading) => format!("{seconds:.3} s: reading took {reading:.3}, and computing beside it {computing:.3}"),
        None => format!("{seconds:.3} s, of which computing, and waiting for pages of the mapped file, took {computing:.3}"),
    });
    if right_sides == 0 {
        components(&rows)?
    } else {
        solution(&rows)?
    }
    Ok(())
}

fn components<T: Element>(rows: &RowBlocks<T>) -> Result<(), Box<dyn Error>> {
    let found = rows.finish()?;
    let variances = found.variances();
    let all: f64 = variances.iter().map(|variance| variance.to_double()).sum();
    let table = Table::start(&["component", "singular value", "explained", "together"].map(String::from));
    let mut together = 0.0;
    for (k, (s, variance)) in found.s.iter().zip(&variances).enumerate().take(10) {
        let part = variance.to_double() / all;
        together += part;
        let percent = |part: f64| format!("{:.2}%", 100.0 * part);
        table.row(&[(k + 1).to_string(), format!("{:.6e}", s.to_double()), percent(part), percent(together)]);
    }
    Ok(())
}

fn solution<T: Element>(rows: &RowBlocks<T>) -> Result<(), Box<dyn Error>> {
    let fit = rows.solve(None)?;
    print(format!("rank {} of {}", fit.rank, rows.columns()));
    for (j, (x, length)) in fit.x.columns().into_iter().zip(&fit.residuals).enumerate() {
        let deviation = length.to_double() / (rows.rows() as f64).sqrt();
        print(format!("right-hand side {j}: ||b - A x|| = {:.6e}, {deviation:.3e} a row", length.to_double()));
        let numbers: Vec<String> = x.iter().map(|x| format!("{x:.6}")).collect();
        print(format!("  x = {}", numbers.join(", ")));
        if let Some(constants) = &fit.intercept {
            print(format!("  and the constant {:.6}", constants[j]));
        }
    }
    Ok(())
}
