//! Principal components of a matrix whose rows are spread over the processes of MPI.
//!
//! ```text
//! mpirun -n 4 target/release/svdvals-gpu-mpi [ROWS] [COLUMNS] [FOLDER]
//! ```
//!
//! Each rank reads its rows from a file and adds them to a state of its own ([`RowBlocks`]). The states, n^2 numbers each, are merged along a
//! binary tree of log2(ranks) steps. Rank 0 has the result. Then the same is timed with 1, 2, 4, .. ranks.

use std::{
    error::Error,
    fs::{self, File},
    io::{BufWriter, Read, Seek, SeekFrom, Write},
    ops::Range,
    path::{Path, PathBuf},
};

use mpi::{
    topology::{Color, SimpleCommunicator},
    traits::*,
};
use ndarray::ArrayView2;
use svdvals_gpu::{ArrayRows, RowBlocks};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Rows that are read at a time.
const BLOCK: usize = 10_000;

/// The file: rows of f32, one after the other.
struct Matrix {
    path: PathBuf,
    columns: usize,
}

fn main() -> Result<()> {
    let universe = mpi::initialize().ok_or("MPI is initialised already")?;
    let world = universe.world();
    // One thread a rank, unless RAYON_NUM_THREADS says more.
    let threads = std::env::var("RAYON_NUM_THREADS").ok().and_then(|count| count.parse().ok()).unwrap_or(1);
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |k: usize, default: usize| arguments.get(k).map_or(Ok(default), |word| word.parse());
    let (rows, columns) = (number(0, 1_000_000)?, number(1, 64)?);
    let folder = PathBuf::from(arguments.get(2).map_or("target/rows", |folder| folder));
    let matrix = Matrix { path: folder.join(format!("{rows}x{columns}.f32")), columns };
    if world.rank() == 0 {
        matrix.write(rows)?;
    }
    world.barrier();

    let of_all = matrix.reduced(&world, rows)?;
    if let Some(all) = of_all {
        let found = all.finish()?;
        print(&found, world.size());
        let alone = matrix.state(0..rows)?.finish()?;
        let furthest = found.s.iter().zip(&alone.s).map(|(x, y)| (x - y).abs()).max_by(f32::total_cmp).unwrap_or(0.0);
        println!("furthest from one process's values: {:.1e} of the largest", furthest / alone.s[0]);
        // States are in double precision: what differs is the rounding of the results to single. A NaN counts as the largest.
        if furthest.is_nan() || furthest > f32::EPSILON * alone.s[0] {
            eprintln!("the ranks together have other singular values than one process");
            world.abort(1);
        }
    }

    let sizes = std::iter::successors(Some(1), |size| Some(2 * size)).take_while(|&size| size <= world.size());
    for size in sizes {
        let part = rows / world.size() as usize * size as usize;
        let [strong, weak] = [rows, part].map(|rows| matrix.seconds(&world, size, rows));
        let (strong, weak) = (strong?, weak?);
        if world.rank() == 0 {
            println!("{size:>4} ranks: {rows} rows in {strong:.4} s (strong scaling), {part} rows in {weak:.4} s (weak scaling)");
        }
    }
    Ok(())
}

fn print(found: &ArrayRows<f32>, ranks: i32) {
    println!("{} rows on {ranks} ranks", found.rows);
    let variances = found.variances();
    let all: f32 = variances.sum();
    for (k, (s, variance)) in found.s.iter().zip(&variances).enumerate().take(5) {
        let component: Vec<String> = found.vt.row(k).iter().take(5).map(|x| format!("{x:.4}")).collect();
        println!("{:>3} {s:>12.4} {:>6.2}% of the variance, component {} ..", k + 1, 100.0 * variance / all, component.join(" "));
    }
}

impl Matrix {
    /// The seconds of the slowest of `size` ranks, the least of three times.
    fn seconds(&self, world: &SimpleCommunicator, size: i32, rows: usize) -> Result<f64> {
        let takes_part = world.rank() < size;
        let group = world.split_by_color(if takes_part { Color::with_value(0) } else { Color::undefined() });
        let mut least = f64::INFINITY;
        for _ in 0..3 {
            world.barrier();
            let begin = mpi::time();
            if let Some(group) = &group {
                self.reduced(group, rows)?;
            }
            world.barrier();
            least = least.min(mpi::time() - begin);
        }
        Ok(least)
    }

    /// The state of the first `rows` rows, on rank 0 of the group.
    fn reduced(&self, group: &SimpleCommunicator, rows: usize) -> Result<Option<RowBlocks<f32>>> {
        let (rank, size) = (group.rank(), group.size());
        let cut = |rank: i32| rows * rank as usize / size as usize;
        let mut state = self.state(cut(rank)..cut(rank + 1))?;
        let mut step = 1;
        while step < size {
            if rank % (2 * step) == step {
                group.process_at_rank(rank - step).send(&serde_json::to_vec(&state)?[..]);
                return Ok(None);
            }
            if rank + step < size {
                let (bytes, _) = group.process_at_rank(rank + step).receive_vec::<u8>();
                state.merge(serde_json::from_slice(&bytes)?)?;
            }
            step *= 2;
        }
        Ok(Some(state))
    }

    /// The state of some rows, read in blocks.
    fn state(&self, rows: Range<usize>) -> Result<RowBlocks<f32>> {
        let mut state = RowBlocks::new(self.columns)?.centred();
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start((rows.start * self.columns * size_of::<f32>()) as u64))?;
        let mut block = vec![0f32; BLOCK * self.columns];
        for start in rows.clone().step_by(BLOCK) {
            let count = BLOCK.min(rows.end - start);
            let block = &mut block[..count * self.columns];
            file.read_exact(bytemuck::cast_slice_mut(block))?;
            state.push(&ArrayView2::from_shape((count, self.columns), &*block)?)?;
        }
        Ok(state)
    }

    /// Writes rows of a few strong directions and noise, unless the file is there.
    fn write(&self, rows: usize) -> Result<()> {
        if self.path.exists() {
            return Ok(());
        }
        fs::create_dir_all(self.path.parent().unwrap_or(Path::new(".")))?;
        let unfinished = self.path.with_extension("part");
        let mut file = BufWriter::new(File::create(&unfinished)?);
        let mut state = 88_172_645_463_325_252u64;
        let mut uniform = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1u32 << 24) as f32 - 0.5
        };
        for _ in 0..rows {
            let weights = [8.0 * uniform(), 4.0 * uniform(), 2.0 * uniform()];
            for j in 0..self.columns {
                let along =
                    weights.iter().enumerate().map(|(k, weight)| weight * (0.3 * ((k + 1) * j) as f32).cos()).sum::<f32>();
                file.write_all(&(10.0 + along + 0.1 * uniform()).to_le_bytes())?;
            }
        }
        file.flush()?;
        fs::rename(unfinished, &self.path)?;
        Ok(())
    }
}
