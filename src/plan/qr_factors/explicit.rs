//! Q as a matrix, or as the product of a tall matrix and a triangle.

use std::sync::OnceLock;

use faer::{Accum, Conj, Mat, MatMut, MatRef, linalg::matmul::matmul_with_conj, prelude::ReborrowMut};

use super::Unitary;
use crate::{
    base::{
        blas::Op,
        error::{Result, room_for},
        number::Scalar,
        parallel::computed,
        pool::all_threads,
        zeros::{identity, zeros},
    },
    cpu::{
        tall::reconstruct::{Reflectors, reconstruct},
        vectors::left::times_upper,
    },
};

/// Orthonormal columns Q (m x n), completed to a unitary matrix by reflectors on demand.
pub(crate) struct Explicit<S> {
    /// Q = X F, or X.
    x: Mat<S>,
    /// F, n x n, upper triangular.
    factor: Option<Mat<S>>,
    reflectors: OnceLock<Reflectors<S>>,
}

impl<S: Scalar> Explicit<S> {
    #[cfg(feature = "gpu")]
    pub fn new(q: Mat<S>) -> Self {
        Explicit { x: q, factor: None, reflectors: OnceLock::new() }
    }

    /// The columns of X F, with a well-conditioned F.
    pub fn product(x: Mat<S>, factor: Mat<S>) -> Self {
        Explicit { x, factor: Some(factor), reflectors: OnceLock::new() }
    }

    /// Q.
    fn all(&self) -> Mat<S> {
        match &self.factor {
            Some(factor) => times_upper(self.x.as_ref(), factor.as_ref()),
            None => self.x.clone(),
        }
    }

    /// C <- diag(S, I) C, with the signs of the reflectors.
    fn turn(&self, reflectors: &Reflectors<S>, mut c: MatMut<'_, S>) {
        for column in c.rb_mut().col_iter_mut() {
            column.iter_mut().zip(&reflectors.signs).for_each(|(x, &sign)| *x *= sign);
        }
    }
}

impl<S: Scalar> Unitary<S> for Explicit<S> {
    fn apply(&self, op: Op, c: MatRef<'_, S>) -> Result<Mat<S>> {
        room_for::<S>("reflectors", self.x.nrows(), self.x.ncols(), 2)?;
        let reflectors = computed(&self.reflectors, || reconstruct(self.all()));
        let mut c = c.to_owned();
        if op == Op::NoTrans {
            self.turn(reflectors, c.as_mut());
        }
        reflectors.apply(op, c.as_mut());
        if op != Op::NoTrans {
            self.turn(reflectors, c.as_mut());
        }
        Ok(c)
    }

    fn columns(&self, cols: usize) -> Result<Mat<S>> {
        if cols == self.x.ncols() {
            return Ok(self.all());
        }
        self.apply(Op::NoTrans, identity::<S>(self.x.nrows(), cols).as_ref())
    }

    fn project(&self, c: MatRef<'_, S>, k: usize) -> Result<Mat<S>> {
        let mut inside = Mat::zeros(k, c.ncols());
        let x = self.x.as_ref().subcols(0, k);
        let one = S::one_impl();
        matmul_with_conj(inside.as_mut(), Accum::Replace, x.transpose(), Conj::Yes, c, Conj::No, one, all_threads());
        if let Some(factor) = &self.factor {
            // (F^H)_kk X_k^H C, because F is upper triangular.
            let (factor, of_x) = (factor.as_ref().get(..k, ..k), inside.clone());
            matmul_with_conj(
                inside.as_mut(),
                Accum::Replace,
                factor.transpose(),
                Conj::Yes,
                of_x.as_ref(),
                Conj::No,
                one,
                all_threads(),
            );
        }
        Ok(inside)
    }

    fn combine(&self, c: MatRef<'_, S>) -> Result<Mat<S>> {
        let times = |a: MatRef<'_, S>, c: MatRef<'_, S>| {
            let mut product = zeros(a.nrows(), c.ncols());
            matmul_with_conj(product.as_mut(), Accum::Replace, a, Conj::No, c, Conj::No, S::one_impl(), all_threads());
            product
        };
        Ok(match &self.factor {
            Some(factor) => times(self.x.as_ref(), times(factor.as_ref(), c).as_ref()),
            None => times(self.x.as_ref(), c),
        })
    }
}
