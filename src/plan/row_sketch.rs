//! A sketch of any number of rows of many columns, from one pass: for matrices whose n x n triangle (`plan/row_blocks.rs`) would not fit.
//!
//! ```text
//! C <- C + A_k^H (A_k G)       a block A_k of rows is added; G: n x w, random, w = k + 10
//! A^H A ~ C (G^H C)^-1 C^H     the result (Nystrom's approximation)
//! ```
//!
//! With nu = sqrt(n) eps ||C|| / ||G||, C + nu G in place of C, and the Cholesky factor F^H F of G^H (C + nu G), the right vectors are those of E = (C + nu G) F^-1 on the
//! left, and the squares of the values those of E less nu: Tropp, Yurtsever, Udell and Cevher, *Fixed-rank approximation of a positive-semidefinite matrix from
//! streaming data* (2017), algorithm 3. The approximation is below A^H A, so that the sum of what is missing is known: ||A||_F^2 less the sum of all w squares.

use faer::{Accum, Conj, Mat, MatRef, linalg::matmul::matmul_with_conj};

use crate::{
    algo::krylov::{cholesky, inverse_of_upper, uniform},
    base::{
        element_kind::ElementKind,
        error::{Result, SvdError, room_for},
        number::{Number, Re, RealElement, Scalar},
        pool::all_threads,
        scale::{first_non_finite, largest},
    },
    plan::{
        factors::Factors,
        options::{Backend, SvdOptions, Vectors},
        svd,
    },
};

/// Columns of the sketch beyond those that are wanted.
const MORE: usize = 10;

/// ||A||_F^2 at most, and the largest entry at least, so that fourth powers stay in the range of f64.
const MOST: f64 = 1e140;
const LEAST: f64 = 1e-70;

/// Entries of rows that are widened at a time.
const AT_ONCE: usize = 1 << 21;

/// The sum of the squares of the entries' moduli.
fn squares_of<W: Scalar>(a: &Mat<W>) -> f64 {
    a.col_iter().map(|column| column.iter().map(|x| x.to_complex().norm_sqr()).sum::<f64>()).sum()
}

/// The rows so far.
#[derive(Clone, Debug)]
pub struct Sketch<W: Scalar> {
    pub(crate) columns: usize,
    pub(crate) wanted: usize,
    pub(crate) rows: u64,
    pub(crate) blocks: u64,
    seed: u64,
    g: Mat<W>,
    c: Mat<W>,
    /// ||A||_F^2.
    squares: f64,
    /// The largest magnitude of an entry.
    most: f64,
}

/// What a sketch gives.
pub struct Sketched<T: Scalar> {
    pub values: Vec<Re<T>>,
    pub v: Mat<T>,
    /// The root of the sum of squares that is missing in all values of the sketch.
    pub error: f64,
    /// The root of the sum of squares of A less those of the values.
    pub rest: f64,
}

impl<W: Scalar<Wide = W> + Number<Real = f64>> Sketch<W> {
    pub fn new(columns: usize, wanted: usize, seed: u64) -> Result<Self> {
        let width = wanted.saturating_add(MORE).min(columns);
        room_for::<W>("a sketch", columns, width, 2)?;
        let g = Mat::from_fn(columns, width, |i, j| W::from_complex(uniform(seed, i, j).into()));
        let c = Mat::zeros(columns, width);
        Ok(Sketch { columns, wanted: wanted.min(columns), rows: 0, blocks: 0, seed, g, c, squares: 0.0, most: 0.0 })
    }

    /// Adds rows.
    pub fn push<T: Number>(&mut self, a: MatRef<'_, T>) -> Result<()> {
        let ((m, n), at) = (a.shape(), self.blocks);
        let in_block = |source| SvdError::InBlock { block: at, source: Box::new(source) };
        if n != self.columns {
            return Err(in_block(SvdError::invalid("block", format!("{n} columns, but the sketch has {}", self.columns))));
        }
        if m > 0 && n > 0 {
            let Some(most) = largest(a) else { return Err(in_block(first_non_finite(a))) };
            let most = self.most.max(most.to_double());
            let (mut c, mut squares) = (self.c.clone(), self.squares);
            let at_once = (AT_ONCE / n).clamp(1, m);
            room_for::<W>("rows of a sketch", at_once, n.saturating_add(c.ncols()), 1).map_err(in_block)?;
            let (one, par) = (W::one_impl(), all_threads());
            for first in (0..m).step_by(at_once) {
                let rows = a.subrows(first, at_once.min(m - first));
                let wide = Mat::<W>::from_fn(rows.nrows(), n, |i, j| W::from_complex(rows[(i, j)].to_complex()));
                squares += squares_of(&wide);
                let mut y = Mat::<W>::zeros(rows.nrows(), c.ncols());
                matmul_with_conj(y.as_mut(), Accum::Replace, wide.as_ref(), Conj::No, self.g.as_ref(), Conj::No, one, par);
                matmul_with_conj(c.as_mut(), Accum::Add, wide.transpose(), Conj::Yes, y.as_ref(), Conj::No, one, par);
            }
            if squares > MOST || largest(c.as_ref()).is_none() {
                return Err(in_block(SvdError::overflow(ElementKind::F64, "squares of entries")));
            }
            (self.c, self.squares, self.most) = (c, squares, most);
        }
        self.rows = self.rows.saturating_add(m as u64);
        self.blocks += 1;
        Ok(())
    }

    /// Adds the rows of another sketch.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        if self.squares + other.squares > MOST {
            return Err(SvdError::overflow(ElementKind::F64, "squares of entries"));
        }
        let of = |sketch: &Self| (sketch.columns, sketch.wanted, sketch.seed);
        if of(self) != of(other) {
            let reason = format!("(columns, values, seed) are {:?} and {:?}", of(self), of(other));
            return Err(SvdError::invalid("sketch", reason));
        }
        for (c, other) in self.c.as_mut().col_iter_mut().zip(other.c.col_iter()) {
            c.iter_mut().zip(other.iter()).for_each(|(c, x)| *c += *x);
        }
        self.squares += other.squares;
        self.most = self.most.max(other.most);
        self.rows = self.rows.saturating_add(other.rows);
        self.blocks += other.blocks;
        Ok(())
    }

    /// The leading values and right vectors.
    pub fn finish<T: Scalar<Wide = W>>(&self) -> Result<Sketched<T>> {
        let (n, width) = self.c.shape();
        let (one, par) = (W::one_impl(), all_threads());
        let count = self.wanted.min(usize::try_from(self.rows).unwrap_or(usize::MAX));
        if self.most > 0.0 && self.most < LEAST {
            let reason = format!("no entry is above {:e}, whose squares are lost; multiply them by a power of two", self.most);
            return Err(SvdError::invalid("sketch", reason));
        }
        let norm = squares_of(&self.c).sqrt();
        if norm == 0.0 || count == 0 {
            let values = vec![Re::<T>::from_double(0.0); count];
            let v = Mat::from_fn(n, count, |i, j| if i == j { T::one_impl() } else { T::zero_impl() });
            return Ok(Sketched { values, v, error: 0.0, rest: 0.0 });
        }
        room_for::<W>("the result of a sketch", n, width, 4)?;
        let mut nu = (n as f64).sqrt() * f64::EPSILON * norm / squares_of(&self.g).sqrt();
        let mut found = None;
        for _ in 0..64 {
            let shifted = Mat::from_fn(n, width, |i, j| self.c[(i, j)] + self.g[(i, j)].times(nu));
            let mut b = Mat::<W>::zeros(width, width);
            matmul_with_conj(b.as_mut(), Accum::Replace, self.g.transpose(), Conj::Yes, shifted.as_ref(), Conj::No, one, par);
            let b = Mat::from_fn(width, width, |i, j| (b[(i, j)] + W::conj_impl(&b[(j, i)])).times(0.5));
            if let Some(factor) = cholesky(&b, 0.0) {
                let mut e = Mat::<W>::zeros(n, width);
                let inverse = inverse_of_upper(&factor);
                matmul_with_conj(e.as_mut(), Accum::Replace, shifted.as_ref(), Conj::No, inverse.as_ref(), Conj::No, one, par);
                found = Some(e);
                break;
            }
            nu *= 8.0;
        }
        let Some(e) = found else { return Err(SvdError::overflow(ElementKind::F64, "squares of entries")) };
        let options = SvdOptions::default().backend(Backend::Cpu).vectors(Vectors::Left);
        let Factors { s, u: v, .. } = svd::svd(e.as_ref(), &options, false)?.values;
        let squares: Vec<f64> = s.iter().map(|s| (s * s - nu).max(0.0)).collect();
        let root_of_rest = |count: usize| (self.squares - squares.iter().take(count).sum::<f64>()).max(0.0).sqrt();
        let count = count.min(s.len());
        let values: Vec<Re<T>> = squares[..count].iter().map(|square| Re::<T>::from_double(square.sqrt())).collect();
        if values.iter().any(|&value| !num_traits::Float::is_finite(value)) {
            return Err(SvdError::overflow(T::KIND, "singular values"));
        }
        Ok(Sketched {
            values,
            v: Mat::from_fn(n, count, |i, j| T::from_wide(v[(i, j)])),
            error: root_of_rest(usize::MAX),
            rest: root_of_rest(count),
        })
    }
}
