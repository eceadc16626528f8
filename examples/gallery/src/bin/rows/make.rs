//! A file of least squares whose solution is known.

use std::{
    fs,
    io::{self, BufWriter, Write},
    path::PathBuf,
};

use svdvals_gpu_gallery::{draw::make_folder, files::npy::MAGIC};

use crate::shared::markdown::print;

/// Writes m rows of n columns a_j and b = sum_j (j + 1) a_j + 5 + noise of deviation 0.01, row after row, in f32.
pub fn file((m, n): (usize, usize)) -> io::Result<PathBuf> {
    let path = PathBuf::from(format!("target/rows/{m}x{n}.npy"));
    if path.exists() {
        return Ok(path);
    }
    make_folder(&path)?;
    let unfinished = path.with_extension("part");
    let mut file = BufWriter::new(fs::File::create(&unfinished)?);
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({m}, {}), }}", n + 1);
    // The entries begin at a multiple of 64, after ten bytes, the text and a newline.
    header.extend(std::iter::repeat_n(' ', 63 - (10 + header.len()) % 64));
    header.push('\n');
    file.write_all(MAGIC)?;
    file.write_all(&[1, 0])?;
    file.write_all(&(header.len() as u16).to_le_bytes())?;
    file.write_all(header.as_bytes())?;
    let mut state = 88_172_645_463_325_252u64;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u32 << 24) as f32 - 0.5
    };
    for _ in 0..m {
        let mut sum = 5.0;
        for j in 0..n {
            let x = uniform();
            sum += (j + 1) as f32 * x;
            file.write_all(&x.to_le_bytes())?;
        }
        sum += 0.01 * 12f32.sqrt() * uniform();
        file.write_all(&sum.to_le_bytes())?;
    }
    file.flush()?;
    fs::rename(&unfinished, &path)?;
    print(format!("wrote {}: b = a_1 + 2 a_2 + .. + {n} a_{n} + 5 + noise of deviation 0.01", path.display()));
    Ok(path)
}
