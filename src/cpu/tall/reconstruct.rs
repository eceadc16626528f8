//! LAPACK's Householder form from an explicit Q: the formulas are those of `algo/reconstruct.rs`.

use faer::{Mat, MatMut, Par, linalg::triangular_solve::solve_lower_triangular_in_place};

use crate::{
    algo::reconstruct::Top,
    base::{
        blas::Op,
        number::Scalar,
        parallel::{col_chunks, each},
    },
    cpu::{
        qr::{
            reflect::{BlockReflector, workspace},
            strips::{Ahead, Run},
        },
        vectors::left::by_rows,
    },
};

/// Columns of C in a task.
const COLUMNS: usize = 64;

/// The unitary matrix I - V T V^H, whose first k columns are Q S.
pub(crate) struct Reflectors<T> {
    /// m x k, unit lower trapezoidal.
    pub v: Mat<T>,
    /// k x k, upper triangular. Its diagonal has LAPACK's `tau`.
    pub t: Mat<T>,
    /// The diagonal of S: 1 or -1.
    pub signs: Vec<T>,
}

/// The reflectors of a matrix with orthonormal columns (m x k, m >= k).
pub(crate) fn reconstruct<T: Scalar>(q: Mat<T>) -> Reflectors<T> {
    let (m, k) = q.shape();
    let Top { v, upper, t, signs } = Top::of(q.as_ref().subrows(0, k));
    let mut all = q;
    let (mut top, below) = all.as_mut().split_at_row_mut(k);
    top.copy_from(&v);
    if m > k {
        by_rows(below, |_, rows| solve_lower_triangular_in_place(upper.transpose(), rows.transpose_mut(), Par::Seq));
    }
    Reflectors { v: all, t, signs }
}

impl<T: Scalar> Reflectors<T> {
    /// C <- op(I - V T V^H) C, C with m rows.
    pub fn apply(&self, op: Op, c: MatMut<'_, T>) {
        let (v, t) = (self.v.as_ref(), self.t.as_ref());
        let update = |c: MatMut<'_, T>| {
            let runs = &[Run { v, first: 0, below: None, row: 0 }];
            let mut work = vec![T::zero_impl(); workspace(None, v.ncols(), c.ncols())];
            BlockReflector { runs, t, op }.apply(c, None, Ahead::Strip, &mut work);
        };
        if c.ncols() <= COLUMNS { update(c) } else { each(col_chunks(c, COLUMNS), update) }
    }
}

#[cfg(test)]
mod tests {
    use num_complex::Complex;

    use super::*;
    use crate::base::number::RealElement;

    /// The reflectors of Q are unitary, with Q S as their first columns, for Q of every shape, for the identity, and for -Q, where a fixed S
    /// would have zero pivots. Bound: m eps, the backward error of LU with pivots of modulus 1 or more and of three products.
    fn gives_back<T: Scalar>(m: usize, k: usize, kind: usize) {
        let entry = |i: usize, j: usize| {
            let x = ((7 * i * i + 13 * j + 3 * i * j) as f64).sin();
            T::from_complex(Complex::new(x, ((i + 5 * j) as f64).cos()))
        };
        let mut q = match kind {
            0 | 1 => Mat::from_fn(m, k, entry),
            _ => Mat::from_fn(m, k, |i, j| if i == j { T::one_impl() } else { T::zero_impl() }),
        };
        q = q.qr().compute_thin_Q();
        if kind == 1 {
            q.as_mut().col_iter_mut().for_each(|column| column.iter_mut().for_each(|x| *x = -*x));
        }
        let reflectors = reconstruct(q.clone());
        let bound = 4.0 * m as f64 * f64::EPSILON;
        for op in [Op::NoTrans, Op::Trans, Op::ConjTrans] {
            let mut all = Mat::<T>::identity(m, m);
            reflectors.apply(op, all.as_mut());
            let unitary = (all.adjoint() * &all - Mat::<T>::identity(m, m)).norm_l2();
            assert!(unitary.to_double() <= bound, "{m} x {k} {kind} {op:?}: {unitary}");
            let first = match op {
                Op::NoTrans => all,
                Op::Trans => all.transpose().to_owned(),
                Op::ConjTrans => all.adjoint().to_owned(),
            };
            for (i, j) in (0..k).flat_map(|j| (0..m).map(move |i| (i, j))) {
                let error = (first[(i, j)] - q[(i, j)] * reflectors.signs[j]).to_complex().norm();
                assert!(error <= bound, "{m} x {k} {kind} {op:?} ({i}, {j}): {error}");
            }
        }
    }

    #[test]
    fn reflectors_of_a_q() {
        for (m, k) in [(1, 1), (7, 3), (40, 40), (150, 70), (33, 0)] {
            for kind in 0..3 {
                gives_back::<f64>(m, k, kind);
                gives_back::<Complex<f64>>(m, k, kind);
            }
        }
    }
}
