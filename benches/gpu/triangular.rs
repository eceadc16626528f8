//! The triangular operations on matrices on the device: T X = B and T B, T lower triangular of order n, for n x 256 and n x n.
//!
//! `total` is T and B from the host's memory to the result there, `upload` their way to the device, and `resident` what is between: the
//! operation alone, with the reading back of T's diagonal that a solve checks. The same as in `gpu_peers.py`, on the same numbers.

use std::{error::Error, time::Instant};

use faer::{Mat, MatRef};
use rayon::prelude::*;
use svdvals_gpu::{
    Backend, Element, GpuContext, GpuMatrix, RunOptions, SvdError,
    triangular::{Diag, Op, Side, TriangularGpu, Uplo},
    wgpu::PollType,
};

use crate::{
    Arguments, SEED, SEED_OF_RIGHT_HAND_SIDES, is_of_size, matrix, repeated,
    table::{Row, Table},
};

/// Columns of the narrow right-hand sides.
const NARROW: usize = 256;
/// Columns whose residual is computed on the host.
const JUDGED: usize = 16;

/// One type's rows, up to the first size that the device does not hold.
pub fn rows_of<T: Element>(
    context: &GpuContext,
    sizes: &[usize],
    arguments: &Arguments,
    blank: Row,
    table: &mut Table,
) -> Result<(), Box<dyn Error>> {
    table.title_with_columns(T::NAME);
    for &n in sizes {
        let mut all = vec![NARROW, n];
        all.sort_unstable();
        all.dedup();
        for columns in all {
            for (solve, routine) in [(true, "trsm"), (false, "trmm")] {
                let mut row = Row { routine: routine.into(), n, columns, ..blank.clone() };
                let operands = triangle::<T>(n).zip(matrix::<T>(n, columns, SEED_OF_RIGHT_HAND_SIDES));
                let measured = match &operands {
                    Some((t, b)) => {
                        let (t, b) = (MatRef::from_column_major_slice(t, n, n), MatRef::from_column_major_slice(b, n, columns));
                        time(context, solve, t, b, arguments, &mut row)
                    }
                    None => Err(SvdError::OutOfMemory { reason: "the host holds no such matrix".into() }),
                };
                match measured {
                    Ok(()) => table.push(row)?,
                    Err(error) if is_of_size(&error) => {
                        row.note = format!("from n = {n} on: {error}");
                        return table.push(row);
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }
    Ok(())
}

/// A well-conditioned lower triangle: ones, and entries of at most 1/n below.
fn triangle<T: Element>(n: usize) -> Option<Vec<T>> {
    let mut t = matrix::<T>(n, n, SEED)?;
    t.par_chunks_mut(n).enumerate().for_each(|(j, column)| {
        for (i, entry) in column.iter_mut().enumerate() {
            *entry = match i.cmp(&j) {
                std::cmp::Ordering::Less => T::zeroed(),
                std::cmp::Ordering::Equal => T::from_complex(1.0.into()),
                std::cmp::Ordering::Greater => T::from_complex(entry.to_complex() / n as f64),
            };
        }
    });
    Some(t)
}

fn time<T: Element>(
    context: &GpuContext,
    solve: bool,
    t: MatRef<'_, T>,
    b: MatRef<'_, T>,
    arguments: &Arguments,
    row: &mut Row,
) -> Result<(), SvdError> {
    let options = RunOptions::default().backend(Backend::Gpu).context(context.clone());
    let one = T::from_complex(1.0.into());
    let (side, uplo, op, diag) = (Side::Left, Uplo::Lower, Op::NoTrans, Diag::NonUnit);
    let run = || -> Result<([f64; 3], Mat<T>), SvdError> {
        let start = Instant::now();
        let (t, mut x) = (GpuMatrix::upload(context, &t)?, GpuMatrix::upload(context, &b)?);
        let polled = context.device().poll(PollType::wait_indefinitely());
        polled.map_err(|error| SvdError::DeviceLost { reason: error.to_string() })?;
        let uploaded = start.elapsed().as_secs_f64();
        // They return when the device is done.
        if solve {
            x.trsm_gpu_with(side, uplo, op, diag, one, &t, &options)?;
        } else {
            x.trmm_gpu_with(side, uplo, op, diag, one, &t, &options)?;
        }
        let computed = start.elapsed().as_secs_f64();
        let x = x.to_mat()?;
        Ok(([start.elapsed().as_secs_f64(), computed - uploaded, uploaded], x))
    };
    let x = repeated(run, arguments, row)?;
    row.error = Some(if solve { residual(t, x.as_ref(), b) } else { residual(t, b, x.as_ref()) });
    Ok(())
}

/// ||T X - B||_F / ||B||_F of the first columns.
fn residual<T: Element>(t: MatRef<'_, T>, x: MatRef<'_, T>, b: MatRef<'_, T>) -> f64 {
    let squares = |(x, b): (MatRef<'_, T>, MatRef<'_, T>)| {
        let mut off: Vec<_> = (0..t.nrows()).map(|i| -b[(i, 0)].to_complex()).collect();
        for k in 0..t.ncols() {
            let factor = x[(k, 0)].to_complex();
            off.iter_mut().enumerate().skip(k).for_each(|(i, off)| *off += t[(i, k)].to_complex() * factor);
        }
        let of_b = (0..b.nrows()).map(|i| b[(i, 0)].to_complex().norm_sqr()).sum::<f64>();
        (off.iter().map(|x| x.norm_sqr()).sum::<f64>(), of_b)
    };
    let columns = (0..JUDGED.min(b.ncols())).into_par_iter().map(|j| squares((x.subcols(j, 1), b.subcols(j, 1))));
    let (off, of_b) = columns.reduce(|| (0.0, 0.0), |x, y| (x.0 + y.0, x.1 + y.1));
    (off / of_b).sqrt()
}
