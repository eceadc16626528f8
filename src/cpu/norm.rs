//! The norm of a column: its only singular value.

use faer::{MatMut, MatRef};
use rayon::prelude::*;

use super::{convert::map_into, larfg::sum_of_squares};
use crate::scalar::{Element, Re, RealElement, Scalar};

/// Entries that are widened at a time.
const PIECE: usize = 256;
/// Entries of a task.
const TASK: usize = 1 << 17;

/// ||`scale` x|| for the m x 1 matrix x, in double precision. Where the cuts are depends on m alone.
pub(crate) fn norm<T: Element>(x: MatRef<'_, T>, scale: Re<T>) -> f64 {
    let squares = |x: MatRef<'_, T>| -> f64 {
        if let Some(x) = T::as_scalars_ref(x).and_then(|x| x.col(0).try_as_col_major()) {
            return pulp::Arch::new().dispatch(
                #[inline(always)]
                || sum_of_squares::<Re<T>>(bytemuck::cast_slice(x.as_slice()), scale.to_double()),
            );
        }
        let mut piece: [<T::Scalar as Scalar>::Wide; PIECE] = bytemuck::Zeroable::zeroed();
        let pieces = (0..x.nrows()).step_by(PIECE).map(|start| {
            let rows = PIECE.min(x.nrows() - start);
            let piece = &mut piece[..rows];
            map_into(x.subrows(start, rows), MatMut::from_column_major_slice_mut(piece, rows, 1), |x| x.times(scale).to_wide());
            pulp::Arch::new().dispatch(
                #[inline(always)]
                || sum_of_squares::<f64>(bytemuck::cast_slice(piece), 1.0),
            )
        });
        pieces.sum()
    };
    if x.nrows() <= TASK {
        return squares(x).sqrt();
    }
    let tasks = (0..x.nrows()).into_par_iter().step_by(TASK).map(|start| squares(x.subrows(start, TASK.min(x.nrows() - start))));
    tasks.collect::<Vec<f64>>().into_iter().sum::<f64>().sqrt()
}
