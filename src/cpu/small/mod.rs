//! Small matrices: direct reduction to bidiagonal form, without a band.

pub(crate) mod gebd2;
pub(crate) mod norm;

use faer::{MatMut, MatRef, prelude::ReborrowMut, traits::ComplexField};

use crate::{
    base::{
        error::{Result, SvdError},
        number::{Number, Re, Scalar},
        view::map_into,
    },
    cpu::{
        qr::strips::Ahead,
        simd::aligned::{Aligned, zeros},
        storage::leading_dimension,
        vectors::compact_wy::{CompactWy, Room, tau_of},
    },
    tile::kernels::ComplexBidiagonal,
};

/// Reflectors that are applied as one product.
const BLOCK: usize = 16;

/// The type of the arithmetic for elements `T`.
type Wide<T> = <<T as Number>::Scalar as Scalar>::Wide;

/// A = Q C P^H with C upper bidiagonal; and P, if it was kept.
pub(crate) struct Direct<W> {
    diagonal: Vec<W>,
    superdiagonal: Vec<W>,
    /// n x n, column-major: u_j of the row reflectors below the diagonal, their tau on it.
    kept: Option<Aligned<W>>,
}

/// The bidiagonal form of `scale` times a small m x n matrix, m >= n; with P if `keep`. `room` is workspace, which grows as needed.
pub(crate) fn bidiagonal_directly<T: Number>(
    source: MatRef<'_, T>,
    scale: Re<T>,
    keep: bool,
    room: &mut Aligned<Wide<T>>,
) -> Result<Direct<Wide<T>>> {
    let (m, n) = source.shape();
    if n == 0 {
        return Ok(Direct { diagonal: Vec::new(), superdiagonal: Vec::new(), kept: None });
    }
    let sizes = gebd2::padded_rows(m).and_then(|rows| Some((rows, leading_dimension::<Wide<T>>(rows)?)));
    let sizes = sizes.filter(|(_, ld)| ld.checked_mul(n).is_some());
    let (rows, ld) = sizes.ok_or_else(|| SvdError::invalid("matrix", "its size overflows the address space"))?;
    let all = (ld * n).saturating_add(gebd2::workspace(rows, n));
    if room.len() < all {
        *room = zeros("copy of the matrix", all)?;
    } else {
        room[ld * n..all].fill(Wide::<T>::zero_impl());
        room[..ld * n].chunks_exact_mut(ld).for_each(|column| column[m..].fill(Wide::<T>::zero_impl()));
    }
    let mut kept = if keep { Some(zeros("reflectors", n * n)?) } else { None };
    let (a, work) = room[..all].split_at_mut(ld * n);
    let copy = MatMut::from_column_major_slice_with_stride_mut(a, m, n, ld);
    map_into(source, copy, |x| x.times(scale).to_wide());
    let (diagonal, superdiagonal) = gebd2::gebd2(a, work, ld, (m, n), kept.as_deref_mut());
    Ok(Direct { diagonal, superdiagonal, kept })
}

impl<W: Scalar + Number<Real = f64>> Direct<W> {
    /// The moduli of the diagonal and of the superdiagonal.
    pub fn into_moduli(self) -> (Vec<f64>, Vec<f64>) {
        let moduli = |values: Vec<W>| values.into_iter().map(|x| x.to_complex().norm()).collect();
        (moduli(self.diagonal), moduli(self.superdiagonal))
    }

    /// C with its phases.
    pub fn bidiagonal(&self) -> ComplexBidiagonal {
        let complex = |values: &[W]| values.iter().map(|x| x.to_complex()).collect();
        ComplexBidiagonal { diagonal: complex(&self.diagonal), superdiagonal: complex(&self.superdiagonal) }
    }

    /// X <- P X, for an X of n rows. P is the product of the row reflectors I - tau conj(u) u^T in the order of their generation.
    pub fn apply_p(&self, mut x: MatMut<'_, W>) {
        let (n, cols) = x.shape();
        let Some(kept) = &self.kept else { return };
        let (mut block, mut room) = (CompactWy::new(n, BLOCK.min(n)), Room::new(BLOCK.min(n), cols));
        let reflectors = n.saturating_sub(1);
        for first in (0..reflectors).step_by(BLOCK).rev() {
            let width = BLOCK.min(reflectors - first);
            block.set((n - first - 1, width), None, &mut room, |j, v| {
                let column = &kept[(first + j) * n..(first + j + 1) * n];
                v[j..].iter_mut().zip(&column[first + j + 1..]).for_each(|(v, u)| *v = W::conj_impl(u));
                if column[first + j].to_complex().re == 0.0 { 0.0 } else { tau_of(&v[j..]) }
            });
            block.apply(x.rb_mut().subrows_mut(first + 1, n - first - 1), false, Ahead::Strip, &mut room);
        }
    }
}
