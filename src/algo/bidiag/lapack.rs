//! Stage 3 by LAPACK.

use crate::base::error::{Result, SvdError};

/// The singular values by LAPACK's `dbdsqr`, descending.
pub(crate) fn bdsqr(diagonal: Vec<f64>, superdiagonal: Vec<f64>) -> Result<Vec<f64>> {
    solve(diagonal, superdiagonal, |n, d, e, info| {
        let mut work = vec![0.0; 4 * d.len()];
        // SAFETY: d has n entries, e has n >= n - 1, and `work` has the required 4n. With ncvt = nru = ncc = 0 (no vectors), the routine
        // does not access the three matrices.
        unsafe { lapack::dbdsqr(b'U', n, &[0], &[0], &[0], d, e, &mut [0.0], 1, &mut [0.0], 1, &mut [0.0], 1, &mut work, info) }
    })
}

/// The singular values by LAPACK's `dbdsdc`, descending.
pub(crate) fn bdsdc(diagonal: Vec<f64>, superdiagonal: Vec<f64>) -> Result<Vec<f64>> {
    solve(diagonal, superdiagonal, |n, d, e, info| {
        let (mut work, mut iwork) = (vec![0.0; 4 * d.len()], vec![0; 8 * d.len()]);
        // SAFETY: d has n entries, e has n >= n - 1, and `work` and `iwork` have the 4n and 8n required with compq = 'N'. Then the routine
        // does not access u, vt, q and iq.
        unsafe {
            let (u, vt, q, iq) = (&mut [0.0], &mut [0.0], &mut [0.0], &mut [0]);
            lapack::dbdsdc(b'U', b'N', n, d, e, u, 1, vt, 1, q, iq, &mut work, &mut iwork, info);
        }
    })
}

/// Calls a LAPACK routine with 32-bit sizes, and converts `info` into an error.
fn solve(
    mut diagonal: Vec<f64>,
    mut superdiagonal: Vec<f64>,
    routine: impl FnOnce(i32, &mut [f64], &mut [f64], &mut i32),
) -> Result<Vec<f64>> {
    let n = i32::try_from(diagonal.len()).map_err(|_| SvdError::invalid("diagonal", "LAPACK counts in 32 bits"))?;
    if n == 0 {
        return Ok(diagonal);
    }
    superdiagonal.push(0.0); // never empty
    let mut info = 0;
    routine(n, &mut diagonal, &mut superdiagonal, &mut info);
    if info == 0 { Ok(diagonal) } else { Err(SvdError::NotConverged { unreduced: info.unsigned_abs() as usize }) }
}
