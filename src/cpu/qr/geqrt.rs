//! QR factorisation of the blocks of a panel, in compact WY form.
//!
//! Block X (r x w):  X = (I - V T V^H) R,  V (r x w) unit lower trapezoidal, T (w x w) upper triangular, R (w x w) upper triangular.
//! The recursion is in columns, so that most of the work is in matrix products (Elmroth and Gustavson 2000; the tensor-core QR paper,
//! section III). At most [`NARROW`] columns are factored eight at a time ([`panel`]). Twin: `shaders/geqrt.wgsl`.

use std::cmp::Ordering;

use faer::prelude::{Reborrow, ReborrowMut};
use faer::{
    Accum, MatMut, MatRef, Par,
    linalg::matmul::matmul,
    traits::{ComplexField, SimdArch},
};
use pulp::{Simd, WithSimd};

use crate::cpu::{
    qr::{
        body::PADDING,
        panel::{self, Block, Panels},
    },
    simd::{
        aligned::{Aligned, zeros},
        convert::{narrow_into, widen_into},
        lanes::Lanes,
    },
    storage::{Factors, Pool, v_rows, with_buffer},
};
use crate::{
    base::{
        error::Result,
        number::{Number, Re, RealElement, Scalar},
        parallel::each,
    },
    tile::panel_tree::{Level, Stack},
};

/// Most columns that are factored panel by panel. More columns are split in two.
const NARROW: usize = 64;

/// Factors every block of `level` in panel `a[.., col..col + width]`. V, T and R go to `factors`. R also overwrites the block's first rows
/// in `a`. The block's other rows become zero, or V if `keep`.
pub(crate) fn geqrt<S, T>(a: MatMut<'_, S>, factors: &mut Factors<T>, pool: &Pool<T>, level: &Level, keep: bool)
where
    S: Number<Scalar = T>,
    T: Scalar,
{
    let &Level { col, width, map, .. } = level;
    let mut panel = a.get_mut(.., col..col + width);
    let source = panel.as_ref();
    let ld = v_rows::<T>(map.block_rows.min(map.rows), width);
    let (block_size, square) = (ld * width, width * width);
    let blocks = factors.v[..map.blocks() * block_size].chunks_mut(block_size);
    let triangles = factors.t.chunks_mut(square).zip(factors.r.chunks_mut(square));
    each(blocks.zip(triangles).enumerate(), |(q, (v, (t, r)))| {
        let rows = map.block(q).len();
        let mut v = MatMut::from_column_major_slice_mut(v, ld, width);
        for (stacked, row) in map.runs(q) {
            let at = stacked.start - map.block(q).start;
            widen_into(source.subrows(row, stacked.len()), v.rb_mut().subrows_mut(at, stacked.len()));
        }
        if keep && map.stack != Stack::Rows {
            // Below the diagonals of stacked triangles are reflectors of earlier levels, which are not part of the block.
            for j in 0..width {
                for i in 0..rows {
                    if map.is_below_triangle(i, j) {
                        v[(i, j)] = T::zero_impl();
                    }
                }
            }
        }
        v.rb_mut().get_mut(rows.., ..).fill(T::zero_impl());
        t.fill(T::zero_impl());
        r.fill(T::zero_impl());
        let t = MatMut::from_column_major_slice_mut(t, width, width);
        let r = MatMut::from_column_major_slice_mut(r, width, width);
        with_buffer(pool, square, |work| factor(v, t, r, work));
    });

    if keep {
        leave_reflectors(panel, factors, level);
        return;
    }
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

/// Writes R and V of every block in place of the block: R on and above the diagonal of its first rows, V elsewhere. Entries below the
/// diagonal of a stacked triangle stay unchanged; V is zero there.
fn leave_reflectors<S, T>(mut panel: MatMut<'_, S>, factors: &Factors<T>, level: &Level)
where
    S: Number<Scalar = T>,
    T: Scalar,
{
    let &Level { width, map, .. } = level;
    for q in 0..map.blocks() {
        let (v, _) = factors.of_block(level, q);
        let r = MatRef::from_column_major_slice(&factors.r[q * width * width..(q + 1) * width * width], width, width);
        for (stacked, row) in map.runs(q) {
            let first = stacked.start - map.block(q).start;
            for j in 0..width {
                for i in 0..stacked.len() {
                    let at = first + i;
                    if !map.is_below_triangle(at, j) {
                        panel[(row + i, j)] = S::narrow(if at <= j { r[(at, j)] } else { v[(at, j)] });
                    }
                }
            }
        }
    }
}

/// The input of `unmqr`: V of every block of a level, as [`leave_reflectors`] left it in `panel`, and T. Both are conjugated if
/// `conjugate`.
pub(crate) fn gather_reflectors<S, T>(panel: MatRef<'_, S>, t: &[T], level: &Level, conjugate: bool) -> Result<Factors<T>>
where
    S: Number<Scalar = T>,
    T: Scalar,
{
    let &Level { width, map, .. } = level;
    let ld = v_rows::<T>(map.block_rows.min(map.rows), width);
    let conj = |x: T| if conjugate { T::conj_impl(&x) } else { x };
    let mut factors = Factors {
        v: zeros("reflectors", map.blocks() * ld * width)?,
        t: zeros("triangular factors", t.len())?,
        r: Aligned::default(),
    };
    for (to, &x) in factors.t.iter_mut().zip(t) {
        *to = conj(x);
    }
    for (q, v) in factors.v.chunks_exact_mut(ld * width).enumerate() {
        for (stacked, row) in map.runs(q) {
            let first = stacked.start - map.block(q).start;
            for j in 0..width {
                for i in 0..stacked.len() {
                    let at = first + i;
                    v[j * ld + at] = match at.cmp(&j) {
                        Ordering::Less => T::zero_impl(),
                        Ordering::Equal => T::one_impl(),
                        Ordering::Greater if map.is_below_triangle(at, j) => T::zero_impl(),
                        Ordering::Greater => conj(panel[(row + i, j)].widen()),
                    };
                }
            }
        }
    }
    Ok(factors)
}

/// Overwrites X by V. X has w columns and is in `v`: at least w rows, and below them at least [`PADDING`] rows of zeros. `t` and `r` (w x
/// w, zeroed) become T and R. `work` holds w x w elements.
fn factor<T: Scalar>(v: MatMut<'_, T>, t: MatMut<'_, T>, r: MatMut<'_, T>, work: &mut [T]) {
    let (rows, w) = v.shape();
    if w <= NARROW {
        <T as ComplexField>::Arch::default().dispatch(Narrow { v, t, r, work, block: Block::new(true) });
        return;
    }
    let w1 = (w / 2).next_multiple_of(panel::WIDTH).min(w - 1);
    let w2 = w - w1;
    let (mut left, mut right) = v.split_at_col_mut(w1);
    let (mut t11, mut t12, _, mut t22) = t.split_at_mut(w1, w1);
    let (r11, mut r12, _, r22) = r.split_at_mut(w1, w1);
    let (one, minus) = (T::one_impl(), -T::one_impl());

    factor(left.rb_mut(), t11.rb_mut(), r11, work);
    let left = left.rb();
    {
        // X2 <- X2 - V1 T1^H (V1^H X2). T12 temporarily holds T1^H (V1^H X2).
        let mut w12 = MatMut::from_column_major_slice_mut(&mut work[..w1 * w2], w1, w2);
        matmul(w12.rb_mut(), Accum::Replace, left.adjoint(), right.rb(), one, Par::Seq);
        matmul(t12.rb_mut(), Accum::Replace, t11.rb().adjoint(), w12.rb(), one, Par::Seq);
        matmul(right.rb_mut(), Accum::Add, left, t12.rb(), minus, Par::Seq);
    }
    r12.copy_from(right.rb().subrows(0, w1));
    right.rb_mut().subrows_mut(0, w1).fill(T::zero_impl());
    let mut below = right.subrows_mut(w1, rows - w1);
    factor(below.rb_mut(), t22.rb_mut(), r22, work);

    // T12 = -T1 (V1^H V2) T2; V2 is zero in its first w1 rows.
    let mut w12 = MatMut::from_column_major_slice_mut(&mut work[..w1 * w2], w1, w2);
    matmul(t12.rb_mut(), Accum::Replace, left.subrows(w1, rows - w1).adjoint(), below.rb(), one, Par::Seq);
    matmul(w12.rb_mut(), Accum::Replace, t11.rb(), t12.rb(), minus, Par::Seq);
    matmul(t12, Accum::Replace, w12.rb(), t22.rb(), one, Par::Seq);
}

/// The base case of the recursion: panels of at most eight columns, each applied to the columns right of it.
struct Narrow<'a, T> {
    v: MatMut<'a, T>,
    t: MatMut<'a, T>,
    r: MatMut<'a, T>,
    work: &'a mut [T],
    block: Block<T>,
}

impl<T: Scalar> WithSimd for Narrow<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let cols = self.v.ncols();
        self.in_panels(simd, cols);
    }
}

impl<T: Scalar> Panels<T> for Narrow<'_, T> {
    #[inline(always)]
    fn eliminate<S: Simd>(&mut self, simd: S, j: usize, k: usize) {
        let block = &mut self.block;
        let (top, body) = self.v.rb_mut().get_mut(j.., j..).split_at_row_mut(k);
        let body_rows = body.nrows() / PADDING * PADDING;
        let (mut v, body) = body.subrows_mut(0, body_rows).split_at_col_mut(k);
        let (mut top, mut right) = top.split_at_col_mut(k);
        block.factor(simd, top.rb_mut(), v.rb_mut(), None);
        block.apply(simd, v, right.rb_mut(), body, None);
        for c in 0..k {
            for i in 0..k {
                let below = i > c;
                self.r[(j + i, j + c)] = if below { T::zero_impl() } else { top[(i, c)] };
                self.t[(j + i, j + c)] = if below { T::zero_impl() } else { block.t[c][i] };
                top[(i, c)] = if below { block.l[c][i] } else { T::from_real_impl(&Re::<T>::from_double(f64::from(i == c))) };
            }
        }
        self.r.rb_mut().get_mut(j..j + k, j + k..).copy_from(right.rb());
        right.fill(T::zero_impl());
    }

    /// T12 = -T1 (V1^H V2) T2, where V2 has the `width` columns from j on, and V1 those before them.
    #[inline(always)]
    fn eliminated<S: Simd>(&mut self, simd: S, j: usize, width: usize) {
        if j == 0 {
            return;
        }
        let (done, new) = self.v.rb_mut().get_mut(j.., ..j + width).split_at_col_mut(j);
        let rows = done.nrows() / PADDING * PADDING;
        let mut gram = MatMut::from_column_major_slice_mut(&mut self.work[..j * width], j, width);
        gram.fill(T::zero_impl());
        let lanes = Lanes::<T, S>::new(simd);
        panel::multiply(lanes, done.rb().subrows(0, rows), new.rb().subrows(0, rows), gram.rb_mut());
        let (t1, mut t12, _, t2) = self.t.rb_mut().get_mut(..j + width, ..j + width).split_at_mut(j, j);
        matmul(t12.rb_mut(), Accum::Replace, t1.rb(), gram.rb(), -T::one_impl(), Par::Seq);
        matmul(gram.rb_mut(), Accum::Replace, t12.rb(), t2.rb(), T::one_impl(), Par::Seq);
        t12.copy_from(gram.rb());
    }
}
