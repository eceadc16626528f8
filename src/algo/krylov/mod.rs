//! The leading singular triples from products of A and A^H with blocks of columns: Golub and Kahan's bidiagonalisation by blocks, restarted.
//!
//! ```text
//! A V   = U B                       V: n x d, U: m x d, orthonormal; B: d x d
//! A^H U = V B^H + V' T E^H          V': the next block of V; E: the columns of the last block of U
//! ```
//!
//! A step multiplies the newest block of V by A and the newest of U by A^H, and makes each product orthonormal against all columns before
//! (`orthonormal.rs`). The singular triples of B, turned back, have A v = s u by construction, and ||A^H u - s v|| is the length of T by the last entries
//! of B's left vector. Where the bases are full they are replaced by their best columns (a thick restart), and B by a diagonal matrix; the newest block
//! stays. In the end both residuals are measured by two more products.
//!
//! A block has more columns than values are wanted, so that a value as often as it is wanted is found as often. Narrower blocks need fewer products, but of
//! 20 equal values blocks of 16 columns find 16 and report small residuals for four smaller ones (NumPy).
//!
//! The methods: Golub, Luk and Overton, *A block Lanczos method for computing the singular values and corresponding singular vectors of a matrix* (1981);
//! Baglama and Reichel, *Augmented implicitly restarted Lanczos bidiagonalization methods* (2005).

mod orthonormal;
#[cfg(test)]
mod tests;

use std::{ops::Range, pin::Pin};

use faer::{Mat, MatRef};
use num_complex::Complex;

use crate::base::{
    error::{Result, SvdError},
    number::{Number, Scalar},
};

use orthonormal::{Random, orthonormalise};
pub(crate) use orthonormal::{cholesky, inverse_of_upper, uniform};

/// What a backend returns later.
pub(crate) type Later<'a, R> = Pin<Box<dyn Future<Output = Result<R>> + Send + 'a>>;

/// One of the two bases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Basis {
    /// Of the left vectors, m rows.
    U,
    /// Of the right vectors, n rows.
    V,
}

/// U diag(s) V^H of a small matrix.
pub(crate) struct Small<W: Scalar> {
    pub u: Mat<W>,
    pub s: Vec<f64>,
    pub v: Mat<W>,
}

/// The two bases on a backend, and the products by A, m x n, m >= n. Small matrices are on the host, in double precision.
pub(crate) trait Blocks<W: Scalar>: Send + Sync {
    /// m and n.
    fn shape(&self) -> (usize, usize);

    /// The rounding error of the arithmetic.
    fn epsilon(&self) -> f64;

    /// Writes columns of `to` from `at` on: the products of A, or of A^H, with columns `from` of the other basis.
    fn multiply(&mut self, to: Basis, at: usize, from: Range<usize>) -> Result<()>;

    /// X^H Y for the columns Y of a basis, and X all its columns up to the last of them.
    fn inner(&mut self, of: Basis, cols: Range<usize>) -> Later<'_, Mat<W>>;

    /// Writes columns of a basis from `at` on: X C for its first columns X, as many as C has rows. They may be among those.
    fn combine(&mut self, of: Basis, c: MatRef<'_, W>, at: usize) -> Result<()>;

    /// Copies columns to places before theirs.
    fn shift(&mut self, of: Basis, from: Range<usize>, to: usize) -> Result<()>;

    /// Fills columns with numbers, by the row and the column within them.
    fn fill(&mut self, of: Basis, cols: Range<usize>, entry: &(dyn Fn(usize, usize) -> f64 + Sync)) -> Result<()>;

    /// The decomposition of a matrix on the host, with at least `keep` triples, or all.
    fn small_svd(&self, a: Mat<W>, keep: usize) -> Later<'_, Small<W>>;
}

/// What is wanted, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// The number of triples, at least 1 and at most n.
    pub count: usize,
    /// Columns of a block, at least `count` and at most n.
    pub block: usize,
    /// Columns of a basis, besides the newest block of V: at least four blocks, or n.
    pub most: usize,
    /// The largest residual, in units of the largest value.
    pub accuracy: f64,
    pub seed: u64,
}

impl Asked {
    /// The usual widths for so many triples of an m x n matrix.
    pub fn new(count: usize, (m, n): (usize, usize), accuracy: f64, seed: u64) -> Self {
        let order = m.min(n);
        let block = count.saturating_add(10).min(order);
        Asked { count, block, most: block.saturating_mul(4).min(order), accuracy, seed }
    }

    /// Columns of U's buffer and of V's: the bases, the newest block of V, and in the end the triples and their residuals.
    pub fn columns(&self) -> [usize; 2] {
        let ended = self.count.saturating_mul(2);
        [self.most.max(ended), self.most.saturating_add(self.block).max(ended)]
    }

    /// The columns that a restart keeps: the wanted ones, and half of the room that is left beside a block.
    pub fn kept(&self) -> usize {
        let room = self.most.saturating_sub(self.count + self.block);
        (self.count + room / 2).min(self.most.saturating_sub(self.block))
    }
}

/// How far an iteration is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Progress {
    /// Products with a block, by A and by A^H.
    pub products: usize,
    /// The columns of all these blocks.
    pub columns: usize,
    pub restarts: usize,
    /// The largest residual in units of the largest value.
    pub residual: f64,
}

/// The triples: their vectors are the first columns of the two bases.
#[derive(Debug)]
pub(crate) struct Found {
    pub values: Vec<f64>,
    /// max(||A v - s u||, ||A^H u - s v||), measured.
    pub residuals: Vec<f64>,
    pub progress: Progress,
    /// Whether they are as accurate as was asked for.
    pub reached: bool,
}

/// Iterates until all wanted triples are accurate, or `go_on` says no.
pub(crate) async fn iterate<W: Scalar<Wide = W> + Number<Real = f64>>(
    blocks: &mut dyn Blocks<W>,
    asked: Asked,
    go_on: &mut (dyn FnMut(&Progress) -> Result<bool> + Send),
) -> Result<Found> {
    let (n, Asked { count, block, most, accuracy, seed }) = (blocks.shape().1, asked);
    let mut random = Random::new(seed);
    let mut progress = Progress::default();
    let mut scale = 0.0;
    random.fill(blocks, Basis::V, 0..block)?;
    orthonormalise(blocks, Basis::V, 0..block, block, &mut 1.0, &mut random).await?;

    let (mut b, mut d, mut width) = (Mat::<W>::zeros(0, 0), 0, block);
    loop {
        blocks.multiply(Basis::U, d, d..d + width)?;
        let of_u = orthonormalise(blocks, Basis::U, d..d + width, width, &mut scale, &mut random).await?;
        let new = d..d + width;
        b = Mat::from_fn(new.end, new.end, |i, j| match (i < d, j < d) {
            (true, true) => b[(i, j)],
            (true, false) => of_u.before[(i, j - d)],
            (false, true) => W::zero_impl(),
            (false, false) => of_u.r[(i - d, j - d)],
        });
        let next = block.min(n - new.end);
        blocks.multiply(Basis::V, new.end, new.clone())?;
        let of_v = orthonormalise(blocks, Basis::V, new.end..new.end + width, next, &mut scale, &mut random).await?;
        check_adjoint(&b, new.clone(), of_v.before.as_ref(), scale, blocks.epsilon())?;
        progress.products += 2;
        progress.columns += 2 * width;
        d = new.end;

        let last = d >= n;
        let Small { u, s, v } = blocks.small_svd(b.clone(), asked.kept().max(count)).await?;
        let lengths = (0..count).map(|j| {
            let u = u.col(j).subrows(d - width, width);
            (0..next).map(|i| dot(of_v.r.row(i).iter(), u.iter()).norm_sqr()).sum::<f64>().sqrt()
        });
        progress.residual = relative(lengths.fold(0.0, f64::max), s[0]);
        // Measured ones are a little larger than these.
        let converged = progress.residual <= 0.9 * accuracy;
        if converged || last || !go_on(&progress)? {
            blocks.combine(Basis::U, u.subcols(0, count), 0)?;
            blocks.combine(Basis::V, v.subcols(0, count), 0)?;
            let values = s[..count].to_vec();
            let residuals = measured(blocks, &values).await?;
            progress.products += 2;
            progress.columns += 2 * count;
            progress.residual = relative(residuals.iter().copied().fold(0.0, f64::max), s[0]);
            return Ok(Found { values, residuals, progress, reached: progress.residual <= accuracy });
        }
        if d + next > most {
            let kept = asked.kept();
            blocks.combine(Basis::U, u.subcols(0, kept), 0)?;
            blocks.combine(Basis::V, v.subcols(0, kept), 0)?;
            blocks.shift(Basis::V, d..d + next, kept)?;
            b = Mat::from_fn(kept, kept, |i, j| if i == j { W::from_complex(s[i].into()) } else { W::zero_impl() });
            d = kept;
            progress.restarts += 1;
        }
        width = next;
    }
}

/// The sum of products of two columns, without conjugates.
fn dot<'a, W: Scalar>(x: impl Iterator<Item = &'a W>, y: impl Iterator<Item = &'a W>) -> Complex<f64> {
    x.zip(y).map(|(x, y)| x.to_complex() * y.to_complex()).sum()
}

/// A residual in units of the largest value. That of a zero matrix is zero.
fn relative(residual: f64, largest: f64) -> f64 {
    if residual == 0.0 { 0.0 } else { residual / largest }
}

/// max(||A v - s u||, ||A^H u - s v||) of the triples in the first columns of the bases. The columns behind them are overwritten.
pub(crate) async fn measured<W: Scalar<Wide = W> + Number<Real = f64>>(
    blocks: &mut dyn Blocks<W>,
    values: &[f64],
) -> Result<Vec<f64>> {
    let count = values.len();
    let less = Mat::from_fn(2 * count, count, |i, j| match i {
        _ if i == j => W::from_complex((-values[j]).into()),
        _ if i == count + j => W::one_impl(),
        _ => W::zero_impl(),
    });
    let mut residuals = vec![0.0f64; count];
    for basis in [Basis::U, Basis::V] {
        blocks.multiply(basis, count, 0..count)?;
        blocks.combine(basis, less.as_ref(), count)?;
        let squares = blocks.inner(basis, count..2 * count).await?;
        for (j, residual) in residuals.iter_mut().enumerate() {
            *residual = residual.max(squares[(count + j, j)].to_complex().re.max(0.0).sqrt());
        }
    }
    Ok(residuals)
}

/// An error unless V^H A^H U, found with products by A^H, is B^H, found with products by A.
fn check_adjoint<W: Scalar>(b: &Mat<W>, new: Range<usize>, found: MatRef<'_, W>, scale: f64, epsilon: f64) -> Result<()> {
    let mut most = 0.0f64;
    for (j, row) in new.enumerate() {
        for i in 0..found.nrows() {
            most = most.max((found[(i, j)].to_complex() - b[(row, i)].to_complex().conj()).norm());
        }
    }
    if most <= epsilon.sqrt() * scale {
        return Ok(());
    }
    let reason = format!(
        "its products are not those of the adjoint of apply: x^H A y differs by {:.1e} of the largest value",
        most / scale
    );
    Err(SvdError::Operator { call: "apply_adjoint", reason })
}
