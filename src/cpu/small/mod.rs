//! Small matrices: direct reduction to bidiagonal form, without a band.

pub(crate) mod gebd2;
pub(crate) mod norm;

use faer::{MatMut, MatRef};

use crate::{
    base::{
        error::{Result, SvdError},
        number::{Number, Re, Scalar},
        view::map_into,
    },
    cpu::{kernels::leading_dimension, simd::aligned::zeros},
};

/// The moduli of the diagonal and of the superdiagonal of the bidiagonal form of `scale` times a small m x n matrix, m >= n.
pub(crate) fn bidiagonal_directly<T: Number>(source: MatRef<'_, T>, scale: Re<T>) -> Result<(Vec<f64>, Vec<f64>)> {
    let (m, n) = source.shape();
    if n == 0 {
        return Ok((Vec::new(), Vec::new()));
    }
    let sizes = gebd2::padded_rows(m).and_then(|rows| Some((rows, leading_dimension::<<T::Scalar as Scalar>::Wide>(rows)?)));
    let sizes = sizes.filter(|(_, ld)| ld.checked_mul(n).is_some());
    let (rows, ld) = sizes.ok_or_else(|| SvdError::invalid("matrix", "its size overflows the address space"))?;
    let mut elements = zeros("copy of the matrix", (ld * n).saturating_add(gebd2::workspace(rows, n)))?;
    let (a, work) = elements.split_at_mut(ld * n);
    let copy = MatMut::from_column_major_slice_with_stride_mut(a, m, n, ld);
    map_into(source, copy, |x| x.times(scale).to_wide());
    Ok(gebd2::gebd2(a, work, ld, m, n))
}
