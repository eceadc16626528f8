//! The rows of a `.npy` file, block after block: read into memory, or mapped into it.

use std::{
    error::Error,
    fs,
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    time::Instant,
};

use bytemuck::Pod;
use memmap2::Mmap;
#[cfg(unix)]
use memmap2::{Advice, UncheckedAdvice};
use svdvals_gpu_gallery::files::{matrix::Stored, npy};

pub struct File {
    path: PathBuf,
    pub stored: Stored,
    pub shape: (usize, usize),
    /// Where the entries begin.
    offset: u64,
}

impl File {
    pub fn open(path: &Path) -> Result<File, String> {
        let file = fs::File::open(path).map_err(|error| error.to_string())?;
        let header = npy::header(&file)?;
        let &[m, n] = header.shape.as_slice() else {
            return Err(format!("the shape is {:?}, not that of a matrix", header.shape));
        };
        if header.fortran_order {
            return Err("its rows are not contiguous (Fortran order)".into());
        }
        if header.big_endian {
            return Err("big-endian entries".into());
        }
        Ok(File { path: path.into(), stored: header.stored, shape: (m, n), offset: header.offset })
    }

    /// Passes blocks of `block_rows` rows to `take`, until it returns false, and returns the seconds of reading alone.
    pub fn read_blocks<T: Pod>(&self, block_rows: usize, mut take: impl FnMut(Vec<T>) -> bool) -> Result<f64, String> {
        let (m, n) = self.shape;
        let mut file = fs::File::open(&self.path).map_err(|error| error.to_string())?;
        file.seek(SeekFrom::Start(self.offset)).map_err(|error| error.to_string())?;
        let mut reading = 0.0;
        for start in (0..m).step_by(block_rows) {
            let begin = Instant::now();
            let rows = block_rows.min(m - start);
            let mut block = Vec::new();
            block
                .try_reserve_exact(rows * n)
                .map_err(|_| format!("no memory for {rows} rows of {n} columns; --block sets fewer"))?;
            block.resize(rows * n, T::zeroed());
            file.read_exact(bytemuck::cast_slice_mut(&mut block)).map_err(|error| format!("row {start}: {error}"))?;
            reading += begin.elapsed().as_secs_f64();
            if !take(block) {
                break;
            }
        }
        Ok(reading)
    }

    /// Passes blocks of `block_rows` rows of the mapped file to `take`. Unix is asked for a block while the one before is computed.
    ///
    /// The file must not change meanwhile.
    pub fn map_blocks<T: Pod>(
        &self,
        block_rows: usize,
        mut take: impl FnMut(&[T]) -> Result<(), Box<dyn Error>>,
    ) -> Result<(), Box<dyn Error>> {
        let (m, n) = self.shape;
        let file = fs::File::open(&self.path)?;
        // SAFETY: nobody writes or cuts the file meanwhile, which is the caller's to see to.
        let map = unsafe { Mmap::map(&file)? };
        let begin = usize::try_from(self.offset)?;
        let all = m.checked_mul(n).and_then(|entries| entries.checked_mul(size_of::<T>()));
        let bytes = |rows: usize| rows * n * size_of::<T>();
        if all.is_none_or(|all| map.len().saturating_sub(begin) < all) {
            return Err(format!("{} bytes of {m} rows of {n} columns", map.len()).into());
        }
        for start in (0..m).step_by(block_rows) {
            let end = (start + block_rows).min(m);
            #[cfg(unix)]
            let _ = map.advise_range(Advice::WillNeed, begin + bytes(end), bytes(block_rows.min(m - end))); // a hint
            let entries = bytemuck::try_cast_slice(&map[begin + bytes(start)..begin + bytes(end)]);
            take(entries.map_err(|error| format!("entries from byte {begin} on: {error}"))?)?;
            // The blocks before are not needed again.
            // SAFETY: pages of a file are read again if they are used again.
            #[cfg(unix)]
            unsafe {
                let _ = map.unchecked_advise_range(UncheckedAdvice::DontNeed, begin + bytes(start), bytes(end - start));
            }
        }
        Ok(())
    }
}
