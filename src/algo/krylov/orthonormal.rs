//! Orthonormal columns by products of columns alone.
//!
//! ```text
//! [C; S] = [X Y]^H Y;   Y <- (Y - X C) F^-1,   F^H F = S - C^H C;   again until S is nearly the identity
//! ```
//!
//! F is Cholesky's factor where that is safe, else it comes from the eigenvectors, with eigenvalues that the products cannot tell from zero replaced by the
//! least that they can: such a direction grows from pass to pass by up to eps^(-1/2), as in shifted Cholesky QR (Fukaya, Kannan, Nakatsukasa, Yamamoto and
//! Yanagisawa 2020). A direction of which nothing is left but rounding errors is replaced by a random one, and Y = X C + Q R has a row of zeros for it.

use std::ops::Range;

use faer::{Accum, Conj, Mat, MatRef, linalg::matmul::matmul_with_conj};

use crate::{
    algo::krylov::{Basis, Blocks},
    base::{
        error::{Result, SvdError},
        number::{Number, Scalar},
    },
};

/// Numbers in \[-1, 1) by a seed, the same on every machine (splitmix64).
pub(crate) struct Random {
    seed: u64,
    blocks: u64,
}

impl Random {
    pub fn new(seed: u64) -> Self {
        Random { seed, blocks: 0 }
    }

    /// Fills columns of about unit length.
    pub fn fill<W: Scalar>(&mut self, blocks: &mut dyn Blocks<W>, of: Basis, cols: Range<usize>) -> Result<()> {
        self.blocks += 1;
        let rows = match of {
            Basis::U => blocks.shape().0,
            Basis::V => blocks.shape().1,
        };
        let (of_block, length) = (mixed(self.seed ^ mixed(self.blocks)), (3.0 / rows.max(1) as f64).sqrt());
        blocks.fill(of, cols, &|i, j| length * uniform(of_block, i, j))
    }
}

/// A number in \[-1, 1) for a place of a matrix.
pub(crate) fn uniform(seed: u64, i: usize, j: usize) -> f64 {
    let bits = mixed(seed.wrapping_add(mixed((i as u64) << 24 ^ j as u64)));
    (bits >> 11) as f64 * (2.0 / (1u64 << 53) as f64) - 1.0
}

fn mixed(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// Y = X C + Q R for the columns X before those of Y.
pub(crate) struct Orthonormal<W: Scalar> {
    /// C.
    pub before: Mat<W>,
    /// R: a row for each column of Q.
    pub r: Mat<W>,
}

/// The directions of a factor: Y F^-1 has a column for each, of which the last `lost` are to be replaced.
struct Factor<W: Scalar> {
    inverse: Mat<W>,
    f: Mat<W>,
    lost: usize,
    /// Whether S was so near the identity that Y F^-1 is orthonormal.
    last: bool,
}

/// A product of small matrices, the first one or its conjugate transpose.
fn product<W: Scalar>(a: MatRef<'_, W>, adjoint: bool, b: MatRef<'_, W>) -> Mat<W> {
    let (a, conj) = if adjoint { (a.transpose(), Conj::Yes) } else { (a, Conj::No) };
    let mut c = Mat::zeros(a.nrows(), b.ncols());
    matmul_with_conj(c.as_mut(), Accum::Replace, a, conj, b, Conj::No, W::one_impl(), faer::Par::Seq);
    c
}

/// Adds a matrix of the same size.
fn add_to<W: Scalar>(sum: &mut Mat<W>, other: Mat<W>) {
    for (sum, other) in sum.as_mut().col_iter_mut().zip(other.col_iter()) {
        sum.iter_mut().zip(other.iter()).for_each(|(sum, x)| *sum += *x);
    }
}

/// Passes, at most: 2 for most blocks, 3 to 5 for those whose columns nearly depend on one another.
const PASSES: usize = 12;

/// Replaces columns of a basis by `width` orthonormal ones that are orthogonal to those before. `scale` is the length of the longest column
/// that was ever given, below whose rounding errors nothing counts.
pub(crate) async fn orthonormalise<W: Scalar<Wide = W> + Number<Real = f64>>(
    blocks: &mut dyn Blocks<W>,
    of: Basis,
    cols: Range<usize>,
    width: usize,
    scale: &mut f64,
    random: &mut Random,
) -> Result<Orthonormal<W>> {
    let (first, given) = (cols.start, cols.len());
    let mut before = Mat::<W>::zeros(first, given);
    let mut r = Mat::<W>::from_fn(given, given, |i, j| if i == j { W::one_impl() } else { W::zero_impl() });
    for pass in 0..PASSES {
        let now = r.nrows();
        let products = blocks.inner(of, first..first + now).await?;
        let (c, squares) = products.as_ref().split_at_row(first);
        let longest = (0..now).map(|j| squares[(j, j)].to_complex().re).fold(0.0, f64::max);
        if pass == 0 {
            *scale = scale.max(longest.sqrt());
        }
        add_to(&mut before, product(c, false, r.as_ref()));
        let of_c = product(c, true, c);
        let s = Mat::from_fn(now, now, |i, j| {
            let at = |i: usize, j: usize| squares[(i, j)].to_complex() - of_c[(i, j)].to_complex();
            W::from_complex((at(i, j) + at(j, i).conj()) * 0.5)
        });
        let least = 8.0 * blocks.epsilon();
        // What is left of a direction counts by its part in Y, which R has.
        let factor = factor(blocks, s, r.as_ref(), width, (least * longest, least * *scale), pass > 0).await?;
        let inverse = factor.inverse.as_ref();
        let of_before = product(c, false, inverse);
        let all = Mat::from_fn(first + now, width, |i, j| if i < first { -of_before[(i, j)] } else { inverse[(i - first, j)] });
        blocks.combine(of, all.as_ref(), first)?;
        r = product(factor.f.as_ref(), false, r.as_ref());
        if factor.lost > 0 {
            r.as_mut().subrows_mut(width - factor.lost, factor.lost).fill(W::zero_impl());
            random.fill(blocks, of, first + width - factor.lost..first + width)?;
        }
        if factor.last {
            return Ok(Orthonormal { before, r });
        }
    }
    Err(SvdError::Operator { call: "apply", reason: "its products with a block do not become orthonormal".into() })
}

/// F with F^H F = S, as far as the products tell: eigenvalues of at least `floor`; and directions whose part in what was given is at least `part`.
async fn factor<W: Scalar<Wide = W> + Number<Real = f64>>(
    blocks: &dyn Blocks<W>,
    s: Mat<W>,
    r: MatRef<'_, W>,
    width: usize,
    (floor, part): (f64, f64),
    may_end: bool,
) -> Result<Factor<W>> {
    let n = s.nrows();
    let from_identity = (0..n).map(|i| {
        let one = |j: usize| if i == j { 1.0 } else { 0.0 };
        (0..n).map(|j| (s[(i, j)].to_complex() - one(j)).norm()).sum::<f64>()
    });
    let near = n == width && from_identity.fold(0.0, f64::max) <= 0.5;
    if n == width
        && let Some(f) = cholesky(&s, if near { 0.0 } else { 1e3 * floor })
    {
        return Ok(Factor { inverse: inverse_of_upper(&f), f, lost: 0, last: near && may_end });
    }
    let small = blocks.small_svd(s, n).await?;
    let roots: Vec<f64> = small.s.iter().map(|&s| s.max(floor).max(f64::MIN_POSITIVE).sqrt()).collect();
    let vectors = small.u.subcols(0, width);
    let scaled = |i: usize, j: usize, by: f64| vectors[(i, j)].to_complex() * by;
    let inverse = Mat::from_fn(n, width, |i, j| W::from_complex(scaled(i, j, roots[j].recip())));
    let f = Mat::from_fn(width, n, |i, j| W::from_complex(scaled(j, i, roots[i]).conj()));
    // How much of a direction is in what was given: its length, by the rows of R.
    let rows = product(f.as_ref(), false, r);
    let is_lost = |i: usize| {
        let length = rows.row(i).iter().map(|x| x.to_complex().norm_sqr()).sum::<f64>().sqrt();
        let of_it = (small.s[i].max(0.0).sqrt() / roots[i]).min(1.0);
        small.s[i] < 0.25 * small.s[0].max(f64::MIN_POSITIVE) && length * of_it <= part || length == 0.0 || small.s[0] == 0.0
    };
    let lost = (0..width).rev().take_while(|&i| is_lost(i)).count();
    Ok(Factor { inverse, f, lost, last: false })
}

/// The upper triangular factor of a Hermitian matrix, if all its pivots are above `least`.
pub(crate) fn cholesky<W: Scalar>(s: &Mat<W>, least: f64) -> Option<Mat<W>> {
    let n = s.nrows();
    let mut f = Mat::<W>::zeros(n, n);
    for j in 0..n {
        for i in 0..=j {
            let products = |k: usize| f[(k, i)].to_complex().conj() * f[(k, j)].to_complex();
            let rest = s[(i, j)].to_complex() - (0..i).map(products).sum::<num_complex::Complex<f64>>();
            let entry = if i < j {
                rest / f[(i, i)].to_complex().re
            } else if rest.re > least {
                rest.re.sqrt().into()
            } else {
                return None;
            };
            f[(i, j)] = W::from_complex(entry);
        }
    }
    Some(f)
}

/// The inverse of an upper triangular matrix.
pub(crate) fn inverse_of_upper<W: Scalar>(f: &Mat<W>) -> Mat<W> {
    let n = f.nrows();
    let mut x = Mat::<W>::zeros(n, n);
    for j in 0..n {
        for i in (0..=j).rev() {
            let known = (i + 1..=j).map(|k| f[(i, k)].to_complex() * x[(k, j)].to_complex()).sum::<num_complex::Complex<f64>>();
            let one = if i == j { 1.0 } else { 0.0 };
            x[(i, j)] = W::from_complex((num_complex::Complex::from(one) - known) / f[(i, i)].to_complex());
        }
    }
    x
}
