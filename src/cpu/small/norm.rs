//! The norm of a matrix of one column, its only singular value.

use faer::{MatMut, MatRef};

use crate::{
    base::{
        number::{Number, Re, RealElement},
        parallel::map,
        view::map_into,
    },
    cpu::larfg::sum_of_squares,
};

/// Entries widened at a time: few, so that zeroing their buffer is cheap.
const PIECE: usize = 64;
/// Entries of a task.
const TASK: usize = 1 << 17;

/// ||`scale` x|| for the m x 1 matrix x, in double precision. The partition into tasks depends only on m.
pub(crate) fn norm<T: Number>(x: MatRef<'_, T>, scale: Re<T>) -> f64 {
    let scale = scale.to_double();
    let squares = |start| squares(x.subrows(start, TASK.min(x.nrows() - start)), scale);
    if x.nrows() <= TASK {
        return squares(0).sqrt();
    }
    map(x.nrows().div_ceil(TASK), |k| squares(k * TASK)).into_iter().sum::<f64>().sqrt()
}

/// ||`scale` x||^2.
fn squares<T: Number>(x: MatRef<'_, T>, scale: f64) -> f64 {
    let squares = |x: &[T::Scalar]| {
        pulp::Arch::new().dispatch(
            #[inline(always)]
            || sum_of_squares::<Re<T>>(bytemuck::cast_slice(x), scale),
        )
    };
    if let Some(x) = T::as_scalars_ref(x).and_then(|x| x.col(0).try_as_col_major()) {
        return squares(x.as_slice());
    }
    let mut piece = [bytemuck::Zeroable::zeroed(); PIECE];
    let pieces = (0..x.nrows()).step_by(PIECE).map(|start| {
        let rows = PIECE.min(x.nrows() - start);
        let piece = &mut piece[..rows];
        map_into(x.subrows(start, rows), MatMut::from_column_major_slice_mut(piece, rows, 1), |x| x);
        squares(piece)
    });
    pieces.sum()
}
