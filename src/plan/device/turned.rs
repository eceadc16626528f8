//! Factors on a device with pivoted columns, or with a positive diagonal of R: from A = Q0 R0, where the host finds R0 P = Q1 R.
//!
//! ```text
//! A P = Q R,   Q = Q0 diag(Q1, I)     Q1: k x k, R: k x n, k = min(m, n); both are uploaded
//! ```

use faer::Mat;

use crate::{
    base::{
        blas::Op,
        error::{Result, room_for},
        number::{Re, RealElement, Scalar},
    },
    gpu::{kernels::GpuKernels, storage::Dense},
    plan::{
        device::factors::{Boxed, Resident, Triangle},
        options::QrOptions,
        qr_factors::{Identity, QrFactors},
        qr_report::finished,
    },
    tile::kernels::Transfers,
};

/// See the [module](self).
pub(crate) struct Turned {
    pub q0: Boxed,
    pub q1: Dense,
    pub r: Dense,
}

impl Triangle for Turned {
    fn kernels(&self) -> &GpuKernels {
        self.q0.kernels()
    }

    fn r(&self) -> &Dense {
        &self.r
    }

    fn shape(&self) -> (usize, usize) {
        self.q0.shape()
    }
}

impl Resident for Turned {
    fn columns(&self, cols: usize) -> Result<Dense> {
        let identity = self.kernels().identity(&self.r, self.shape().0, 0..cols, false)?;
        self.applied(Op::NoTrans, identity, false)
    }

    fn applied(&self, op: Op, c: Dense, conjugated: bool) -> Result<Dense> {
        let turn = |c: &Dense| self.kernels().turned_rows(&self.q1, op, conjugated, c);
        match op {
            Op::NoTrans => self.q0.applied(op, turn(&c)?, conjugated),
            _ => turn(&self.q0.applied(op, c, conjugated)?),
        }
    }
}

/// What column pivoting has found.
pub(super) struct Pivoted {
    /// Column j of A P is column `order[j]` of A.
    pub order: Vec<usize>,
    /// The numerical rank.
    pub rank: usize,
}

impl Pivoted {
    /// P [Y; 0]: row j of Y becomes row `order[j]`. Y is read back.
    pub fn permuted<S: Scalar>(&self, kernels: &GpuKernels, y: &Dense) -> Result<Dense> {
        let (y, n): (Mat<S>, _) = (kernels.download(y)?, self.order.len());
        room_for::<S>("the solution", n, y.ncols(), 1)?;
        let mut x = Mat::zeros(n, y.ncols());
        for (j, &to) in self.order.iter().enumerate().take(y.nrows()) {
            x.as_mut().row_mut(to).copy_from(y.row(j));
        }
        kernels.upload(x.as_ref(), Re::<S>::from_double(1.0))
    }
}

/// The factors that the options ask for, from those of the matrix and the first k rows of its R.
pub(super) fn turned<S: Scalar>(q0: Boxed, r: Mat<S>, tolerance: f64, options: &QrOptions) -> Result<(Boxed, Option<Pivoted>)> {
    let ((k, n), one) = (r.shape(), Re::<S>::from_double(1.0));
    if k == 0 {
        return Ok((q0, options.pivot.then(|| Pivoted { order: (0..n).collect(), rank: 0 })));
    }
    let factors = finished(QrFactors::new((k, n), r, Box::new(Identity { order: k }), Some(tolerance)), options)?;
    let q1 = q0.kernels().upload(factors.q(k)?.as_ref(), one)?;
    let r = q0.kernels().upload(factors.r(), one)?;
    let pivoted = factors.order().map(|order| Pivoted { order: order.to_vec(), rank: factors.rank() });
    Ok((Box::new(Turned { q0, q1, r }), pivoted))
}
