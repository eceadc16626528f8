//! Calls of LAPACK.

use faer::Mat;
use num_complex::Complex;
use svdvals_gpu::Number;

/// The entries column by column, and the numbers of rows and columns.
pub fn columns<T: Copy>(a: &Mat<T>) -> (Vec<T>, [i32; 2]) {
    let size = [a.nrows(), a.ncols()].map(|side| i32::try_from(side).expect("a side that LAPACK can count"));
    (a.col_iter().flat_map(|column| column.iter().copied()).collect(), size)
}

/// Calls `routine(work, lwork, info)` twice: for the size of its workspace, which it writes to `work[0]`, and with a workspace of this size.
pub fn with_workspace<T: Number>(mut routine: impl FnMut(&mut [T], i32, &mut i32)) {
    let zero = T::from_complex(Complex::ZERO);
    let mut work = vec![zero];
    for query in [true, false] {
        let (lwork, mut info) = (if query { -1 } else { work.len() as i32 }, 0);
        routine(&mut work, lwork, &mut info);
        assert_eq!(info, 0, "LAPACK failed");
        if query {
            work = vec![zero; work[0].to_complex().re as usize];
        }
    }
}

/// The text, or a dash without LAPACK.
pub fn or_dash(text: String) -> String {
    if cfg!(feature = "lapack") { text } else { "-".into() }
}
