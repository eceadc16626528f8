//! QR factorisation of the blocks of a panel, in compact WY form.
//!
//! Block X (r x w):  X = (I - V T V^H) R,  V (r x w) unit lower trapezoidal, T (w x w) upper triangular, R (w x w) upper triangular.
//! Recursive in columns, so that all but the narrowest panels are matrix products (Elmroth and Gustavson 2000; the tensor-core QR
//! paper, section III); a panel of at most [`BASE`] columns is done one reflector after the other.

use faer::prelude::{Reborrow, ReborrowMut};
use faer::{
    Accum, MatMut, Par,
    linalg::matmul::matmul,
    traits::{ComplexField, SimdArch},
};
use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::{
    Factors, Pool,
    convert::{narrow_into, widen_into},
    lanes::Lanes,
    larfg::{larfg, wide_dot},
    with_buffer,
};
use crate::{
    kernels::Level,
    scalar::{Element, RealElement, Scalar},
};

/// Columns below which the recursion ends: a leaf of this width stays in the first-level cache.
const BASE: usize = 8;

/// Factors every block of `level` in panel `a[.., col..col + width]`; V, T and R go to `factors`, R also into the block's first rows of
/// `a`, whose other rows become zero.
pub(super) fn geqrt<S, T>(a: MatMut<'_, S>, factors: &mut Factors<T>, pool: &Pool<T>, level: &Level)
where
    S: Element<Scalar = T>,
    T: Scalar,
{
    let &Level { col, width, map, .. } = level;
    let mut panel = a.get_mut(.., col..col + width);
    let source = panel.as_ref();
    let (block_size, square) = (map.block_rows * width, width * width);
    let blocks = factors.v[..map.blocks() * block_size].par_chunks_mut(block_size);
    let triangles = factors.t.par_chunks_mut(square).zip(factors.r.par_chunks_mut(square));
    blocks.zip(triangles).enumerate().for_each(|(q, (v, (t, r)))| {
        let rows = map.block(q).len();
        let mut v = MatMut::from_column_major_slice_with_stride_mut(v, rows, width, map.block_rows);
        for (stacked, row) in map.runs(q) {
            let at = stacked.start - map.block(q).start;
            widen_into(source.subrows(row, stacked.len()), v.rb_mut().subrows_mut(at, stacked.len()));
        }
        t.fill(T::zero_impl());
        r.fill(T::zero_impl());
        let t = MatMut::from_column_major_slice_mut(t, width, width);
        let r = MatMut::from_column_major_slice_mut(r, width, width);
        with_buffer(pool, square, |work| factor(v, t, r, work, true));
    });

    for q in 0..map.blocks() {
        let block = map.block(q);
        let r = MatMut::from_column_major_slice_mut(&mut factors.r[q * square..(q + 1) * square], width, width);
        for (stacked, row) in map.runs(q) {
            let mut target = panel.rb_mut().subrows_mut(row, stacked.len());
            let at = stacked.start - block.start;
            let of_r = width.saturating_sub(at).min(stacked.len());
            narrow_into(r.rb().subrows(at.min(width), of_r), target.rb_mut().subrows_mut(0, of_r));
            target.subrows_mut(of_r, stacked.len() - of_r).fill(S::zeroed());
        }
    }
}

/// X (rows x w, in `v`) becomes V; `t` and `r` (w x w, zeroed) become T and R. `work` holds w x w elements. Unless `whole_t`, of T there
/// is what R needs on the way.
pub(super) fn factor<T: Scalar>(v: MatMut<'_, T>, t: MatMut<'_, T>, r: MatMut<'_, T>, work: &mut [T], whole_t: bool) {
    let (rows, w) = v.shape();
    if w <= BASE {
        <T as ComplexField>::Arch::default().dispatch(Base { v, t, r, whole_t });
        return;
    }
    let w1 = (w / 2).next_multiple_of(BASE).min(w - 1);
    let w2 = w - w1;
    let (mut left, mut right) = v.split_at_col_mut(w1);
    let (mut t11, mut t12, _, mut t22) = t.split_at_mut(w1, w1);
    let (r11, mut r12, _, r22) = r.split_at_mut(w1, w1);
    let (one, minus) = (T::one_impl(), -T::one_impl());

    factor(left.rb_mut(), t11.rb_mut(), r11, work, true);
    let left = left.rb();
    {
        // X2 <- X2 - V1 T1^H (V1^H X2); T12 serves as the second product's place.
        let mut w12 = MatMut::from_column_major_slice_mut(&mut work[..w1 * w2], w1, w2);
        matmul(w12.rb_mut(), Accum::Replace, left.adjoint(), right.rb(), one, Par::Seq);
        matmul(t12.rb_mut(), Accum::Replace, t11.rb().adjoint(), w12.rb(), one, Par::Seq);
        matmul(right.rb_mut(), Accum::Add, left, t12.rb(), minus, Par::Seq);
    }
    let top = w1.min(rows);
    r12.rb_mut().subrows_mut(0, top).copy_from(right.rb().subrows(0, top));
    right.rb_mut().subrows_mut(0, top).fill(T::zero_impl());
    let mut below = right.subrows_mut(top, rows - top);
    factor(below.rb_mut(), t22.rb_mut(), r22, work, whole_t);
    if !whole_t {
        return;
    }

    // T12 = -T1 (V1^H V2) T2; V2 is zero in its first w1 rows.
    let mut w12 = MatMut::from_column_major_slice_mut(&mut work[..w1 * w2], w1, w2);
    matmul(t12.rb_mut(), Accum::Replace, left.subrows(top, rows - top).adjoint(), below.rb(), one, Par::Seq);
    matmul(w12.rb_mut(), Accum::Replace, t11.rb(), t12.rb(), minus, Par::Seq);
    matmul(t12, Accum::Replace, w12.rb(), t22.rb(), one, Par::Seq);
}

/// The end of the recursion: one reflector after the other (LAPACK's `geqr2` and `larft`).
struct Base<'a, T> {
    v: MatMut<'a, T>,
    t: MatMut<'a, T>,
    r: MatMut<'a, T>,
    whole_t: bool,
}

impl<T: Scalar> WithSimd for Base<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let lanes = Lanes::<T, S>::new(simd);
        let Base { mut v, mut t, mut r, whole_t } = self;
        let (rows, w) = v.shape();
        for j in 0..w {
            let (done, rest) = v.rb_mut().split_at_col_mut(j);
            let (x, mut right) = rest.split_first_col_mut().expect("j < w");
            let x = x.try_as_col_major_mut().expect("V is column-major").as_slice_mut();
            for i in 0..j.min(rows) {
                r[(i, j)] = x[i];
                x[i] = T::zero_impl();
            }
            if j >= rows {
                continue; // fewer rows than columns: no reflector is left, V's column is zero, T's too
            }
            let (alpha, tail) = x[j..].split_first_mut().expect("j < rows");
            let h = larfg(*alpha, tail);
            r[(j, j)] = h.beta;
            *alpha = T::one_impl();
            lanes.scal(h.scale, tail);
            let x = &x[j..];
            for c in 0..right.ncols() {
                let y = right.rb_mut().col_mut(c).try_as_col_major_mut().expect("V is column-major").as_slice_mut();
                let y = &mut y[j..];
                let product = lanes.dot(x, y);
                lanes.axpy(-product.times(h.tau), x, y);
            }
            t[(j, j)] = T::from_real_impl(&h.tau);
            if !whole_t {
                continue;
            }
            // T(0..j, j) = -tau T(0..j, 0..j) (V(:, 0..j)^H v_j), in f64: what T is off by is common to all columns that it meets.
            let mut gram = [T::Wide::zero_impl(); BASE];
            for (k, product) in gram.iter_mut().enumerate().take(j) {
                let vk = done.rb().col(k).try_as_col_major().expect("V is column-major").as_slice();
                *product = wide_dot(&vk[j..], x);
            }
            for k in 0..j {
                let sum = (k..j).fold(T::Wide::zero_impl(), |sum, l| sum + t[(k, l)].to_wide() * gram[l]);
                t[(k, j)] = T::from_wide(sum.times(-h.tau.to_double()));
            }
        }
    }
}
