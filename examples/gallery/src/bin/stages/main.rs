//! One matrix through the stages, with pictures: A, its band, the band with a bulge on its way, and the bidiagonal.
//!
//! ```text
//! cargo run --release -p svdvals-gpu-gallery --bin stages
//! cargo run --release -p svdvals-gpu-gallery --bin stages -- examples/data/camera.npy --n 96 --bandwidth 16 --tile-width 8
//! cargo run --release -p svdvals-gpu-gallery --bin stages -- --help
//! ```
//!
//! What the unified-kernels paper's Figure 1 and the bulge-chasing paper's Figure 2 draw, with the numbers in it.

mod heat_map;

#[path = "../../../../shared/mod.rs"]
mod shared;

use std::{error::Error, path::PathBuf, process::ExitCode};

use heat_map::{Map, Outline, Picture};
use ndarray::{Array2, s};
use shared::{
    arguments::{Words, program, unknown},
    markdown::print,
};
use svdvals_gpu::{Backend, ChaseCycle, SvdOptions, SvdValsGpu, Tuning};
use svdvals_gpu_gallery::draw::{ORANGE, RED};

const USAGE: &str = "\
usage: stages [OPTIONS] [FILE]

  FILE                 .npy with a matrix of f8, f4 or u1, of which the leading n x n block is taken (random numbers)
  --n N                order of the matrix (48)
  --bandwidth B        superdiagonals that stage 1 leaves (8)
  --tile-width W       superdiagonals that a reduction step of stage 2 removes (4)
  --cycle K            after which cycle of stage 2 the band is drawn, the first being 1 (one in the middle of a sweep)
  --out FOLDER         where the pictures go (target/stages)";

/// More is more than a picture shows.
const LARGEST: usize = 400;

#[derive(Debug)]
struct Arguments {
    file: Option<PathBuf>,
    n: usize,
    bandwidth: usize,
    tile_width: usize,
    cycle: Option<usize>,
    out: PathBuf,
}

impl Arguments {
    fn parse(words: &mut Words) -> Result<Arguments, String> {
        let out = PathBuf::from("target/stages");
        let mut arguments = Arguments { file: None, n: 48, bandwidth: 8, tile_width: 4, cycle: None, out };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--n" => arguments.n = words.number(&word, 1..=LARGEST)?,
                "--bandwidth" => arguments.bandwidth = words.number(&word, 1..=LARGEST)?,
                "--tile-width" => arguments.tile_width = words.number(&word, 1..=LARGEST)?,
                "--cycle" => arguments.cycle = Some(words.number(&word, 1..=1_000_000)?),
                "--out" => arguments.out = PathBuf::from(words.value(&word)?),
                option if option.starts_with('-') => return Err(unknown(option)),
                file if arguments.file.is_none() => arguments.file = Some(PathBuf::from(file)),
                _ => return Err("one file, or none".into()),
            }
        }
        Ok(arguments)
    }
}

fn main() -> ExitCode {
    program("stages", USAGE, Arguments::parse, |arguments| run(&arguments))
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let a = matrix(arguments)?;
    let n = a.nrows();
    let tuning = Tuning::for_cpu::<f64>(n).tile_size(arguments.bandwidth).leaf(4 * arguments.bandwidth);
    let options = SvdOptions::default().backend(Backend::Cpu).tuning(tuning.tile_width(arguments.tile_width));

    // Stage 1, and stage 2 cycle by cycle.
    let band = a.to_band(&options.run)?;
    let cycles: Vec<ChaseCycle> = band.chase_steps(arguments.tile_width)?.collect();
    let count = match arguments.cycle {
        Some(count) if count > cycles.len() => return Err(format!("--cycle {count}, of {} cycles", cycles.len()).into()),
        Some(count) => count,
        None => within_a_sweep(&cycles, n),
    };
    let mut steps = band.chase_steps(arguments.tile_width)?;
    let latest = steps.by_ref().take(count).last();
    let snapshot = Array2::from_shape_fn((n, n), |(i, j)| steps.get(i, j));
    let bidiagonal = steps.finish()?;

    // Stage 3, and the same from A in one call.
    let values = bidiagonal.svdvals()?;
    let want = a.svdvals_gpu_with(&options)?;
    let deviation = values.iter().zip(&want).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max);
    print(format!("A           {n} x {n}"));
    print(format!("band        {} superdiagonals", band.bandwidth()));
    print(format!("bidiagonal  after {} cycles; drawn after {count}: {}", cycles.len(), says(latest)));
    print(format!("values      {:.6} to {:.6}; stage by stage and in one call {deviation:.1e} apart", want[0], want[n - 1]));

    let of_bidiagonal = Array2::from_shape_fn((n, n), |(i, j)| match j.wrapping_sub(i) {
        0 => bidiagonal.diagonal()[i],
        1 => bidiagonal.superdiagonal()[i],
        _ => 0.0,
    });
    let outlines: Vec<Outline> = latest.into_iter().flat_map(outlines_of).collect();
    let map = |title: String, matrix, outlines| Map { title, matrix, outlines };
    let superdiagonals = |count| if count == 1 { "1 superdiagonal".into() } else { format!("{count} superdiagonals") };
    let maps = vec![
        map(format!("A, {n} x {n}"), a.mapv(f64::abs), Vec::new()),
        map(format!("After stage 1: {}", superdiagonals(band.bandwidth())), band.to_array2().mapv(f64::abs), Vec::new()),
        map(format!("In stage 2: {}", says(latest)), snapshot.mapv(f64::abs), outlines),
        map(format!("After stage 2: {}", superdiagonals((n - 1).min(1))), of_bidiagonal, Vec::new()),
    ];
    std::fs::create_dir_all(&arguments.out).map_err(|error| format!("{}: {error}", arguments.out.display()))?;
    let chase = Picture { title: "A cycle of bulge chasing".into(), subtitle: explained(latest), maps: vec![maps[2].clone()] };
    let subtitle = "Zeros are white. Framed: what a cycle of stage 2 has just changed. All is counted from 0.".into();
    let all = Picture { title: "From a matrix to a bidiagonal with its singular values".into(), subtitle, maps };
    for (name, picture) in [("stages.png", all), ("chase.png", chase)] {
        let path = arguments.out.join(name);
        picture.save(&path)?;
        print(format!("picture     {}", path.display()));
    }
    Ok(())
}

/// The file's leading block, or random numbers: sums of twelve uniform ones, nearly normal.
fn matrix(arguments: &Arguments) -> Result<Array2<f64>, Box<dyn Error>> {
    let n = arguments.n;
    let Some(path) = &arguments.file else {
        let mut state = 1u64;
        let mut uniform = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        return Ok(Array2::from_shape_simple_fn((n, n), || (0..12).map(|_| uniform()).sum::<f64>() - 6.0));
    };
    let read = || -> Result<Array2<f64>, ndarray_npy::ReadNpyError> {
        ndarray_npy::read_npy(path)
            .or_else(|_| ndarray_npy::read_npy(path).map(|a: Array2<f32>| a.mapv(f64::from)))
            .or_else(|_| ndarray_npy::read_npy(path).map(|a: Array2<u8>| a.mapv(f64::from)))
    };
    let a = read().map_err(|error| format!("{}: {error}", path.display()))?;
    if a.nrows().min(a.ncols()) < n {
        return Err(format!("{}: {} x {}, but --n is {n}", path.display(), a.nrows(), a.ncols()).into());
    }
    Ok(a.slice(s![..n, ..n]).to_owned())
}

/// How many cycles end in the middle of the sweep that is a quarter of the first reduction step's way down.
fn within_a_sweep(cycles: &[ChaseCycle], n: usize) -> usize {
    let of_sweep = |at: &ChaseCycle| at.sweep == n / 4 && at.bandwidth == cycles[0].bandwidth;
    match cycles.iter().position(of_sweep) {
        None => cycles.len().div_ceil(2),
        Some(first) => first + cycles.iter().filter(|at| of_sweep(at)).count().div_ceil(2),
    }
}

fn says(latest: Option<ChaseCycle>) -> String {
    match latest {
        None => "no cycle".into(),
        Some(ChaseCycle { bandwidth, tile_width, sweep, index, .. }) => {
            format!("{bandwidth} to {}, sweep {sweep}, cycle {index}", bandwidth - tile_width)
        }
    }
}

fn explained(latest: Option<ChaseCycle>) -> String {
    match latest {
        None => "This matrix has none.".into(),
        Some(ChaseCycle { row, c0, c1, .. }) => {
            format!("Row {row} has become zero in columns {} to {c1}, then column {c0} in rows {} to {c1}.", c0 + 1, c0 + 1)
        }
    }
}

/// What a cycle's reflectors have moved.
fn outlines_of(at: ChaseCycle) -> [Outline; 2] {
    let ChaseCycle { row, c0, c1, last, .. } = at;
    [
        Outline { label: "moved from the right", rows: row..c1 + 1, cols: c0..c1 + 1, colour: RED },
        Outline { label: "moved from the left", rows: c0..c1 + 1, cols: c0..last + 1, colour: ORANGE },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use svdvals_gpu::Band;

    fn parse(line: &str) -> Result<Arguments, String> {
        Arguments::parse(&mut Words::of(line.split_whitespace().map(String::from)))
    }

    /// Every option reaches its field; what is wrong is named.
    #[test]
    fn arguments() {
        let found = parse("a.npy --n 20 --bandwidth 5 --tile-width 2 --cycle 7 --out o").unwrap();
        assert_eq!((found.n, found.bandwidth, found.tile_width, found.cycle), (20, 5, 2, Some(7)));
        assert_eq!((found.file, found.out), (Some("a.npy".into()), "o".into()));
        for (line, named) in [("a b", "one file"), ("--n 0", "\"0\""), ("--n 401", "\"401\""), ("--figure", "--figure")] {
            let message = parse(line).unwrap_err();
            assert!(message.contains(named), "{line}: {message}");
        }
    }

    /// The cycle that is drawn is one of a sweep with one before and one after it, where there is such a sweep, and one of all the cycles
    /// otherwise.
    #[test]
    fn middle_of_a_sweep() {
        for (n, bandwidth, tile_width) in [(48, 8, 4), (100, 16, 15), (5, 4, 2), (3, 2, 1), (1, 1, 1)] {
            let band = Band::from_fn(n, bandwidth, |i, j| (i + j) as f64).unwrap();
            let cycles: Vec<ChaseCycle> = band.chase_steps(tile_width).unwrap().collect();
            let count = within_a_sweep(&cycles, n);
            assert!(count <= cycles.len() && (count > 0) != cycles.is_empty(), "{n}: {count} of {}", cycles.len());
            if n >= 48 {
                let [before, at, after] = [count - 2, count - 1, count].map(|k| cycles[k].sweep);
                assert_eq!((before, at, after), (n / 4, n / 4, n / 4));
            }
        }
    }

    /// A cycle's blocks overlap in the square of its reflectors, and stay inside the matrix.
    #[test]
    fn outlines() {
        for at in Band::from_fn(30, 6, |i, j| (i + j) as f64).unwrap().chase_steps(4).unwrap() {
            let [right, left] = outlines_of(at);
            assert_eq!((right.cols, left.rows), (at.c0..at.c1 + 1, at.c0..at.c1 + 1));
            assert!(right.rows.end.max(left.cols.end) <= 30 && right.rows.contains(&at.row) && left.cols.contains(&at.c1));
        }
    }

    /// From arguments to pictures, of random numbers and of the smallest matrix.
    #[test]
    fn pictures_are_written() {
        let folder = std::env::temp_dir().join(format!("svdvals-gpu-stages-{}", std::process::id()));
        for line in ["--n 20 --bandwidth 4 --tile-width 2", "--n 1"] {
            let arguments = Arguments { out: folder.clone(), ..parse(line).unwrap() };
            run(&arguments).unwrap();
            for name in ["stages.png", "chase.png"] {
                let file = std::fs::read(folder.join(name)).unwrap();
                assert!(file.starts_with(b"\x89PNG"), "{line}: {name}");
            }
        }
        assert!(run(&Arguments { out: folder.clone(), ..parse("--cycle 1000000").unwrap() }).is_err());
        assert!(run(&Arguments { out: folder.clone(), ..parse("no-such-file.npy").unwrap() }).is_err());
        std::fs::remove_dir_all(folder).unwrap();
    }
}
