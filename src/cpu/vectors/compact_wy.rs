//! Products of reflectors in compact WY form: H_0 H_1 .. = I - V T V^H, with V lower trapezoidal and T upper triangular (Schreiber and Van
//! Loan 1989).

use faer::{
    Accum, Mat, MatMut, MatRef, Par,
    linalg::matmul::matmul,
    prelude::{Reborrow, ReborrowMut},
};

use crate::base::number::{Re, Scalar};

/// A product of reflectors, with workspace to apply it. The memory is used again for the next product.
pub(crate) struct CompactWy<T> {
    v: Mat<T>,
    t: Mat<T>,
    /// V^H V, then two products with the columns that the reflectors are applied to.
    gram: Mat<T>,
    products: [Mat<T>; 2],
    rows: usize,
    width: usize,
}

impl<T: Scalar> CompactWy<T> {
    /// Memory for up to `width` reflectors of up to `rows` entries, applied to up to `cols` columns.
    pub fn new(rows: usize, width: usize, cols: usize) -> Self {
        let products = [Mat::zeros(width, cols), Mat::zeros(width, cols)];
        CompactWy {
            v: Mat::zeros(rows, width),
            t: Mat::zeros(width, width),
            gram: Mat::zeros(width, width),
            products,
            rows: 0,
            width: 0,
        }
    }

    /// Sets the product of `width` reflectors of `rows` entries. `reflector(j, v)` writes v_j to `v`, which is zero, and returns tau_j.
    pub fn set(&mut self, rows: usize, width: usize, mut reflector: impl FnMut(usize, &mut [T]) -> Re<T>) {
        (self.rows, self.width) = (rows, width);
        let mut v = self.v.as_mut().get_mut(..rows, ..width);
        let mut t = self.t.as_mut().get_mut(..width, ..width);
        for j in 0..width {
            let Some(column) = v.rb_mut().col_mut(j).try_as_col_major_mut() else { continue };
            let column = column.as_slice_mut();
            column.fill(T::zero_impl());
            t[(j, j)] = T::from_real_impl(&reflector(j, column));
        }
        let mut gram = self.gram.as_mut().get_mut(..width, ..width);
        matmul(gram.rb_mut(), Accum::Replace, v.rb().adjoint(), v.rb(), T::one_impl(), Par::Seq);
        // Column j of T above its diagonal: -tau_j T V^H v_j, with the T of the columns before.
        for j in 1..width {
            let (before, mut column) = t.rb_mut().split_at_col_mut(j);
            let (before, mut column) = (before.rb(), column.rb_mut().col_mut(0));
            let tau = column[j];
            for i in 0..j {
                column[i] = T::zero_impl();
            }
            for l in 0..j {
                let factor = -tau * gram[(l, j)];
                for i in 0..=l {
                    column[i] += before[(i, l)] * factor;
                }
            }
        }
    }

    /// The rows of V.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// X <- (I - V T V^H) X, or with T^H.
    pub fn apply(&mut self, x: MatMut<'_, T>, adjoint: bool) {
        let (v, t) = (self.v.as_ref().get(..self.rows, ..self.width), self.t.as_ref().get(..self.width, ..self.width));
        multiply(v, t, x, adjoint, &mut self.products);
    }

    /// [`apply`](Self::apply) in workspace of its own, for tasks that share the product.
    pub fn apply_shared(&self, x: MatMut<'_, T>, adjoint: bool) {
        let (v, t) = (self.v.as_ref().get(..self.rows, ..self.width), self.t.as_ref().get(..self.width, ..self.width));
        let mut products = [Mat::zeros(self.width, x.ncols()), Mat::zeros(self.width, x.ncols())];
        multiply(v, t, x, adjoint, &mut products);
    }
}

/// X <- (I - V T V^H) X, or with T^H.
fn multiply<T: Scalar>(v: MatRef<'_, T>, t: MatRef<'_, T>, mut x: MatMut<'_, T>, adjoint: bool, [w, tw]: &mut [Mat<T>; 2]) {
    let (width, cols) = (t.nrows(), x.ncols());
    let (mut w, mut tw) = (w.as_mut().get_mut(..width, ..cols), tw.as_mut().get_mut(..width, ..cols));
    matmul(w.rb_mut(), Accum::Replace, v.adjoint(), x.rb(), T::one_impl(), Par::Seq);
    match adjoint {
        true => matmul(tw.rb_mut(), Accum::Replace, t.adjoint(), w.rb(), T::one_impl(), Par::Seq),
        false => matmul(tw.rb_mut(), Accum::Replace, t, w.rb(), T::one_impl(), Par::Seq),
    }
    matmul(x.rb_mut(), Accum::Add, v, tw.rb(), -T::one_impl(), Par::Seq);
}

/// The tau with which I - tau v v^H is unitary: 2 / ||v||^2. That of a reflector whose v has been rounded would be off by as much; many
/// such reflectors one after the other lose as many digits.
pub(crate) fn tau_of<T: Scalar>(v: &[T]) -> f64 {
    let squares = v.chunks(8).map(|v| v.iter().map(|x| x.to_complex().norm_sqr()).sum::<f64>());
    2.0 / squares.sum::<f64>()
}
