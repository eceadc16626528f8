//! The factors of a QR factorisation, and what is computed from them.
//!
//! ```text
//! A P = Q R     A: m x n, Q: m x m unitary, R: m x n upper trapezoidal, of which the first k = min(m, n) rows are stored
//! Q = Q0 diag(Q1, I) diag(D, I)     Q0 of the kernels, Q1 of the column pivoting of R0, D phases that make R's diagonal positive
//! ```

mod explicit;

pub(crate) use explicit::Explicit;

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, Ordering},
};

use faer::{
    Conj, Mat, MatMut, MatRef, Par,
    dyn_stack::{MemBuffer, MemStack},
    linalg::{
        householder::{
            apply_block_householder_sequence_on_the_left_in_place_scratch,
            apply_block_householder_sequence_on_the_left_in_place_with_conj,
            apply_block_householder_sequence_transpose_on_the_left_in_place_scratch,
            apply_block_householder_sequence_transpose_on_the_left_in_place_with_conj,
        },
        qr::col_pivoting::factor::{qr_in_place, qr_in_place_scratch, recommended_block_size},
        triangular_solve::solve_upper_triangular_in_place,
    },
};
use num_traits::Float;

use crate::{
    algo::{
        condition::condition,
        reflectors::{apply_factor, form_factor},
    },
    base::{
        blas::{Op, Side},
        error::{Result, SvdError, room_for},
        number::{Number, Re, RealElement, Scalar},
        parallel::computed,
        pool::{all_threads, on_pool_for_product},
        scale::scale_for,
        zeros::{each_column, identity},
    },
    cpu::tall::reconstruct::{Reflectors, reconstruct},
    tile::{
        kernels::{TileKernels, Transfers},
        tuning::Tuning,
    },
};

/// A unitary m x m matrix that is kept in some form.
pub(crate) trait Unitary<S>: Send + Sync {
    /// Whether products are computed in the caller's rayon pool.
    fn is_in_pool(&self) -> bool {
        true
    }

    /// op(Q) C, for C with m rows.
    fn apply(&self, op: Op, c: MatRef<'_, S>) -> Result<Mat<S>>;

    /// The first `cols` columns of Q.
    fn columns(&self, cols: usize) -> Result<Mat<S>>;

    /// The first k rows of Q^H C.
    fn project(&self, c: MatRef<'_, S>, k: usize) -> Result<Mat<S>>;

    /// Q [C; 0], for C with as many rows as Q's thin form has columns.
    fn combine(&self, c: MatRef<'_, S>) -> Result<Mat<S>>;
}

/// [C; 0] with this number of rows.
pub(crate) fn padded<S: Scalar>(c: MatRef<'_, S>, rows: usize) -> Mat<S> {
    Mat::from_fn(rows, c.ncols(), |i, j| if i < c.nrows() { c[(i, j)] } else { S::zero_impl() })
}

/// The reflectors of a panel tree, where the kernels have left them.
pub(crate) struct Tree<K: TileKernels> {
    pub kernels: K,
    /// R, and the reflectors in the place of the zeros.
    pub a: K::Dense,
    pub shape: (usize, usize),
    pub tuning: Tuning,
}

impl<S: Scalar, K> Unitary<S> for Tree<K>
where
    K: Transfers<S> + Send,
    K::Dense: Sync,
{
    fn is_in_pool(&self) -> bool {
        K::IN_POOL
    }

    fn apply(&self, op: Op, c: MatRef<'_, S>) -> Result<Mat<S>> {
        // f16 holds entries near 1 only.
        let (one, (m, n)) = (Re::<S>::from_double(1.0), c.shape());
        let scale = if self.kernels.kind().is_half() { scale_for::<S::Compact>(c.norm_max(), m, n) } else { one };
        let mut c = self.kernels.upload(c, scale)?;
        apply_factor(&self.kernels, &self.a, self.shape, &self.tuning, op, &mut c)?;
        let mut c = self.kernels.download(&c)?;
        if scale.to_double() != 1.0 {
            let back = Re::<S>::from_double(1.0 / scale.to_double());
            c.as_mut().col_iter_mut().for_each(|column| column.iter_mut().for_each(|x| *x = x.times(back)));
        }
        Ok(c)
    }

    fn columns(&self, cols: usize) -> Result<Mat<S>> {
        let identity = identity::<S>(self.shape.0, cols);
        let mut c = self.kernels.upload(identity.as_ref(), Re::<S>::from_double(1.0))?;
        drop(identity);
        form_factor(&self.kernels, &self.a, self.shape, &self.tuning, &mut c)?;
        self.kernels.download(&c)
    }

    fn project(&self, c: MatRef<'_, S>, k: usize) -> Result<Mat<S>> {
        let mut c = self.apply(Op::ConjTrans, c)?;
        c.truncate(k, c.ncols());
        Ok(c)
    }

    fn combine(&self, c: MatRef<'_, S>) -> Result<Mat<S>> {
        self.apply(Op::NoTrans, padded(c, self.shape.0).as_ref())
    }
}

/// The identity matrix of this order, the Q0 of a matrix that is pivoted as it is.
pub(crate) struct Identity {
    pub order: usize,
}

impl<S: Scalar> Unitary<S> for Identity {
    fn apply(&self, _: Op, c: MatRef<'_, S>) -> Result<Mat<S>> {
        Ok(c.to_owned())
    }

    fn columns(&self, cols: usize) -> Result<Mat<S>> {
        Ok(identity(self.order, cols))
    }

    fn project(&self, c: MatRef<'_, S>, k: usize) -> Result<Mat<S>> {
        Ok(c.subrows(0, k).to_owned())
    }

    fn combine(&self, c: MatRef<'_, S>) -> Result<Mat<S>> {
        Ok(padded(c, self.order))
    }
}

/// Q1, the unitary factor of the column pivoting, as faer's reflectors. Its order is their number of rows.
struct Inner<S> {
    reflectors: Mat<S>,
    factors: Mat<S>,
}

impl<S: Scalar> Inner<S> {
    /// Multiplies the first rows of C by op(Q1).
    fn apply(&self, op: Op, c: MatMut<'_, S>) {
        // faer's functions take as many rows as the reflectors have.
        let (k, block) = (self.reflectors.nrows(), self.factors.nrows());
        let c = c.subrows_mut(0, k);
        let (v, t, par) = (self.reflectors.as_ref(), self.factors.as_ref(), all_threads());
        if op == Op::NoTrans {
            let scratch = apply_block_householder_sequence_on_the_left_in_place_scratch::<S>(k, block, c.ncols());
            let mut memory = MemBuffer::new(scratch);
            apply_block_householder_sequence_on_the_left_in_place_with_conj(v, t, Conj::No, c, par, MemStack::new(&mut memory));
        } else {
            let conj = if op == Op::ConjTrans { Conj::Yes } else { Conj::No };
            let scratch = apply_block_householder_sequence_transpose_on_the_left_in_place_scratch::<S>(k, block, c.ncols());
            let mut memory = MemBuffer::new(scratch);
            let memory = MemStack::new(&mut memory);
            apply_block_householder_sequence_transpose_on_the_left_in_place_with_conj(v, t, conj, c, par, memory);
        }
    }
}

/// What is computed from the factors of A P = Q R. A trait, so that it is compiled in this crate for each type.
pub trait Factors<S: Scalar>: Send + Sync {
    /// Rows and columns of A.
    fn shape(&self) -> (usize, usize);
    /// The first min(m, n) rows of R.
    fn r(&self) -> MatRef<'_, S>;
    /// The first `cols` columns of Q, at least min(m, n).
    fn q(&self, cols: usize) -> Result<Mat<S>>;
    /// op(Q) C, or C op(Q).
    fn apply(&self, side: Side, op: Op, c: MatRef<'_, S>) -> Result<Mat<S>>;
    /// Column j of A P is column `order()[j]` of A.
    fn order(&self) -> Option<&[usize]>;
    /// The numerical rank by the diagonal of R.
    fn rank(&self) -> usize;
    /// Q [C; 0], for C with min(m, n) rows.
    fn combine(&self, c: MatRef<'_, S>) -> Result<Mat<S>>;
    /// The minimiser of ||A X - B||.
    fn solve(&self, b: MatRef<'_, S>) -> Result<Mat<S>>;
    /// LAPACK's form: R above the reflectors (m x n), and tau.
    fn householder(&self) -> Result<(Mat<S>, Vec<S>)>;
}

/// The factors. See the [module](self).
pub(crate) struct QrFactors<S: Scalar> {
    shape: (usize, usize),
    r: Mat<S>,
    q: Box<dyn Unitary<S>>,
    inner: Option<Inner<S>>,
    phases: Option<Vec<S>>,
    order: Option<Vec<usize>>,
    /// Diagonal entries of R up to this part of the first count as zero.
    tolerance: f64,
    /// The estimate of R's condition number, once a call has needed it.
    condition: OnceLock<f64>,
}

impl<S: Scalar> QrFactors<S> {
    /// The factors of a matrix of this `shape`, from Q and the rows of R that are not zero by construction.
    pub fn new(shape: (usize, usize), r: Mat<S>, q: Box<dyn Unitary<S>>, tolerance: Option<f64>) -> Self {
        let tolerance = tolerance.unwrap_or_else(|| default_tolerance::<S>(shape));
        QrFactors { shape, r, q, inner: None, phases: None, order: None, tolerance, condition: OnceLock::new() }
    }

    /// Pivots the columns of R, so that the moduli on its diagonal descend. [`SvdError::Overflow`] if an entry of the pivoted R exceeds its
    /// type: its first entry is the largest norm of a column.
    pub fn pivot(&mut self) -> Result<()> {
        let (m, n) = self.r.shape();
        let k = m.min(n);
        let (mut order, mut back): (Vec<usize>, Vec<usize>) = ((0..n).collect(), vec![0; n]);
        let largest = self.r.norm_max();
        if largest.to_double() == 0.0 {
            self.r.truncate(k, n);
            self.order = Some(order);
            return Ok(());
        }
        // faer squares the entries. With entries scaled to 1, the squares underflow only in negligible columns.
        let scale = scale_for::<S>(largest, m, n);
        let mut r = Mat::from_fn(m, n, |i, j| self.r[(i, j)].times(scale));
        let block = recommended_block_size::<S>(m, n).min(k.max(1));
        let mut factors = Mat::zeros(block, k);
        let par = Par::Seq; // the order does not depend on the number of threads
        let mut memory = MemBuffer::new(qr_in_place_scratch::<usize, S>(m, n, block, par, Default::default()));
        let memory = MemStack::new(&mut memory);
        qr_in_place(r.as_mut(), factors.as_mut(), &mut order, &mut back, par, memory, Default::default());
        self.r = unscaled(upper(r.as_ref().subrows(0, k).to_owned()), scale)?;
        r.truncate(m, k);
        self.inner = Some(Inner { reflectors: r, factors });
        self.order = Some(order);
        Ok(())
    }

    /// Makes the diagonal of R real and nonnegative. [`SvdError::Overflow`] if the modulus of a complex entry exceeds its type.
    pub fn make_positive(&mut self) -> Result<()> {
        let phase = |x: S| match x.to_complex() {
            x if x.norm() == 0.0 => S::one_impl(),
            x if !S::IS_COMPLEX => S::from_complex(x.re.signum().into()),
            x => S::from_complex(x / x.norm()),
        };
        let phases: Vec<S> = (0..self.r.nrows()).map(|j| phase(self.r[(j, j)])).collect();
        for (column, j) in self.r.col_iter_mut().zip(0..) {
            for (i, (x, phase)) in column.iter_mut().zip(&phases).enumerate().take(j + 1) {
                let turned = S::conj_impl(phase) * *x;
                // Without the rounding error of the imaginary part.
                *x = if i == j { S::from_complex(turned.to_complex().norm().into()) } else { turned };
            }
        }
        self.phases = Some(phases);
        check_r(self.r.as_ref())
    }

    /// Runs `body`, which multiplies a matrix of this shape by Q, in the pool; or here if Q is on a device.
    fn in_pool<R: Send>(&self, (rows, cols): (usize, usize), body: impl FnOnce() -> R + Send) -> R {
        if self.q.is_in_pool() { on_pool_for_product((rows, cols, self.r.nrows()), body) } else { body() }
    }

    /// C <- diag(D, I) C, or with the conjugate of D.
    fn turn(&self, conjugate: bool, c: MatMut<'_, S>) {
        let Some(phases) = &self.phases else { return };
        for column in c.col_iter_mut() {
            let with = |phase: &S| if conjugate { S::conj_impl(phase) } else { *phase };
            column.iter_mut().zip(phases).for_each(|(x, phase)| *x *= with(phase));
        }
    }

    /// op(Q) C.
    fn apply_left(&self, op: Op, c: MatRef<'_, S>) -> Result<Mat<S>> {
        if op == Op::NoTrans {
            let mut c = c.to_owned();
            self.turn(false, c.as_mut());
            if let Some(inner) = &self.inner {
                inner.apply(op, c.as_mut());
            }
            return self.q.apply(op, c.as_ref());
        }
        let mut c = self.q.apply(op, c)?;
        if let Some(inner) = &self.inner {
            inner.apply(op, c.as_mut());
        }
        self.turn(op == Op::ConjTrans, c.as_mut());
        Ok(c)
    }

    /// The first k rows of Q^H C.
    fn project(&self, c: MatRef<'_, S>) -> Result<Mat<S>> {
        let k = self.r.nrows();
        let mut c = self.q.project(c, self.inner.as_ref().map_or(k, |inner| inner.reflectors.nrows()))?;
        if let Some(inner) = &self.inner {
            inner.apply(Op::ConjTrans, c.as_mut());
            c.truncate(k, c.ncols());
        }
        self.turn(true, c.as_mut());
        Ok(c)
    }
}

impl<S: Scalar> Factors<S> for QrFactors<S> {
    fn shape(&self) -> (usize, usize) {
        self.shape
    }

    fn r(&self) -> MatRef<'_, S> {
        self.r.as_ref()
    }

    fn q(&self, cols: usize) -> Result<Mat<S>> {
        let m = self.shape.0;
        room_for::<S>("Q", m, cols, 2)?;
        self.in_pool((m, cols), || {
            if self.order.is_some() {
                return self.apply_left(Op::NoTrans, identity::<S>(m, cols).as_ref());
            }
            let mut q = self.q.columns(cols)?;
            self.turn(false, q.as_mut().transpose_mut());
            Ok(q)
        })
    }

    fn apply(&self, side: Side, op: Op, c: MatRef<'_, S>) -> Result<Mat<S>> {
        let m = self.shape.0;
        let (order, name) = if side == Side::Left { (c.nrows(), "rows") } else { (c.ncols(), "columns") };
        if order != m {
            return Err(SvdError::invalid("c", format!("{order} {name}, but Q is {m} x {m}")));
        }
        room_for::<S>("a product with Q", c.nrows(), c.ncols(), 3)?;
        self.in_pool(c.shape(), || match (side, op) {
            (Side::Left, op) => self.apply_left(op, c),
            // C Q = (Q^T C^T)^T, C Q^T = (Q C^T)^T, C Q^H = (Q C^H)^H.
            (Side::Right, Op::NoTrans) => Ok(self.apply_left(Op::Trans, c.transpose())?.transpose().to_owned()),
            (Side::Right, Op::Trans) => Ok(self.apply_left(Op::NoTrans, c.transpose())?.transpose().to_owned()),
            (Side::Right, Op::ConjTrans) => {
                Ok(self.apply_left(Op::NoTrans, c.adjoint().to_owned().as_ref())?.adjoint().to_owned())
            }
        })
    }

    fn combine(&self, c: MatRef<'_, S>) -> Result<Mat<S>> {
        self.in_pool((self.shape.0, c.ncols()), || match (&self.inner, &self.phases) {
            (None, None) => self.q.combine(c),
            _ => self.apply_left(Op::NoTrans, padded(c, self.shape.0).as_ref()),
        })
    }

    fn order(&self) -> Option<&[usize]> {
        self.order.as_deref()
    }

    fn rank(&self) -> usize {
        numerical_rank(self.r.as_ref(), self.tolerance)
    }

    fn solve(&self, b: MatRef<'_, S>) -> Result<Mat<S>> {
        let ((m, n), cols) = (self.shape, b.ncols());
        if b.nrows() != m {
            return Err(SvdError::invalid("b", format!("{} rows, but A is {m} x {n}", b.nrows())));
        }
        let rank = match &self.order {
            Some(_) => self.rank(),
            None if m < n => return Err(SvdError::RankDeficient { rank: self.rank().min(m), cols: n }),
            None if *computed(&self.condition, || condition(self.r.as_ref())) * self.tolerance >= 1.0 => {
                return Err(SvdError::RankDeficient { rank: self.rank().min(n.saturating_sub(1)), cols: n });
            }
            None => n,
        };
        let c = self.in_pool(b.shape(), || {
            let mut c = self.project(b)?;
            let r = self.r.as_ref().get(..rank, ..rank);
            solve_upper_triangular_in_place(r, c.as_mut().subrows_mut(0, rank), all_threads());
            Ok::<_, SvdError>(c)
        })?;
        let mut x = Mat::zeros(n, cols);
        for (i, j) in (0..cols).flat_map(|j| (0..rank).map(move |i| (i, j))) {
            x[(self.order.as_ref().map_or(i, |order| order[i]), j)] = c[(i, j)];
        }
        if x.norm_max().to_double().is_finite() { Ok(x) } else { Err(SvdError::overflow(S::KIND, "entries of the solution")) }
    }

    fn householder(&self) -> Result<(Mat<S>, Vec<S>)> {
        let ((m, n), k) = (self.shape, self.r.nrows());
        let Reflectors { v, t, signs } = reconstruct(self.q(k)?);
        let entry = |i: usize, j: usize| if i <= j { self.r[(i, j)] * signs[i] } else { v[(i, j)] };
        Ok((Mat::from_fn(m, n, entry), (0..k).map(|j| t[(j, j)]).collect()))
    }
}

/// The part of the largest singular value of an m x n matrix, or of R's largest diagonal entry, up to which others count as zero:
/// sqrt(max(m, n)) eps. The rounding of A's entries changes its singular values by less than eps, and a QR factorisation, whose sums have
/// errors that grow with the root of their length, by little more. With n eps, a random f32 matrix of order 2048 would count as deficient.
pub(crate) fn default_tolerance<S: Number>((m, n): (usize, usize)) -> f64 {
    (m.max(n) as f64).sqrt() * epsilon::<S>()
}

/// The number of diagonal entries of R above `tolerance` times the largest.
pub(crate) fn numerical_rank<S: Scalar>(r: MatRef<'_, S>, tolerance: f64) -> usize {
    let k = r.nrows().min(r.ncols());
    let size = |j: usize| r[(j, j)].to_complex().norm();
    let largest = (0..k).map(size).fold(0.0, f64::max);
    (0..k).filter(|&j| size(j) > tolerance * largest).count()
}

/// The condition number of a matrix, from its singular values in descending order: infinite if the last is zero, NaN if there is none.
pub(crate) fn quotient_of_ends<R: RealElement>(s: &[R]) -> f64 {
    match (s.first(), s.last()) {
        (Some(_), Some(smallest)) if smallest.to_double() == 0.0 => f64::INFINITY,
        (Some(largest), Some(smallest)) => largest.to_double() / smallest.to_double(),
        _ => f64::NAN,
    }
}

/// The spacing of the type's numbers at 1.
pub(crate) fn epsilon<S: Number>() -> f64 {
    <Re<S> as Float>::epsilon().to_double()
}

/// R of the matrix from that of `scale` times it. [`SvdError::Overflow`] if an entry exceeds its type.
pub(crate) fn unscaled<S: Scalar>(mut r: Mat<S>, scale: Re<S>) -> Result<Mat<S>> {
    let inverse = Re::<S>::from_double(1.0 / scale.to_double());
    let is_finite = AtomicBool::new(true);
    each_column(&mut r, &|_, column| {
        if inverse.to_double() != 1.0 {
            column.iter_mut().for_each(|x| *x = x.times(inverse));
        }
        if S::largest(column).is_none() {
            is_finite.store(false, Ordering::Relaxed);
        }
    });
    if is_finite.into_inner() { Ok(r) } else { Err(SvdError::overflow(S::KIND, "entries of R")) }
}

/// [`SvdError::Overflow`] if an entry of R is not finite.
fn check_r<S: Scalar>(r: MatRef<'_, S>) -> Result<()> {
    if r.norm_max().to_double().is_finite() { Ok(()) } else { Err(SvdError::overflow(S::KIND, "entries of R")) }
}

/// The upper triangle, with zeros below.
pub(crate) fn upper<S: Scalar>(mut r: Mat<S>) -> Mat<S> {
    each_column(&mut r, &|j, column| {
        if let Some(below) = column.get_mut(j + 1..) {
            below.fill(S::zero_impl());
        }
    });
    r
}
