//! Random triangular problems, and how far an answer is from one of them.

use std::fmt::Debug;

use faer::{Mat, MatMut, MatRef};
use num_complex::Complex;
use proptest::{prelude::*, sample::select, test_runner::TestCaseError};
use svdvals_gpu::{
    Element, Result, RunOptions,
    triangular::{Diag, Op, Side, TriangularGpu, Uplo},
};

use super::{
    complex_noise, eps,
    problems::{Layout, Stored, fail},
};

/// Which triangle, and how it is used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variant {
    pub side: Side,
    pub uplo: Uplo,
    pub op: Op,
    pub diag: Diag,
}

impl Variant {
    /// All 24.
    pub fn all() -> Vec<Variant> {
        let mut all = Vec::new();
        for side in [Side::Left, Side::Right] {
            for uplo in [Uplo::Lower, Uplo::Upper] {
                for op in [Op::NoTrans, Op::Trans, Op::ConjTrans] {
                    all.extend([Diag::NonUnit, Diag::Unit].map(|diag| Variant { side, uplo, op, diag }));
                }
            }
        }
        all
    }

    /// B's shape, for a triangle of order n and k columns (on the right: rows).
    pub fn shape(&self, n: usize, k: usize) -> (usize, usize) {
        if self.side == Side::Left { (n, k) } else { (k, n) }
    }

    fn refers_to(&self, i: usize, j: usize) -> bool {
        match self.uplo {
            Uplo::Lower => i > j || (i == j && self.diag == Diag::NonUnit),
            Uplo::Upper => i < j || (i == j && self.diag == Diag::NonUnit),
        }
    }

    /// op(A) in double precision (exact), with the zeros and the ones that stand for what is not read.
    pub fn op_of<T: Element>(&self, a: MatRef<'_, T>) -> Mat<Complex<f64>> {
        let entry = |i: usize, j: usize| match () {
            () if self.refers_to(i, j) => a[(i, j)].to_complex(),
            () if i == j => 1.0.into(),
            () => 0.0.into(),
        };
        Mat::from_fn(a.nrows(), a.ncols(), |i, j| match self.op {
            Op::NoTrans => entry(i, j),
            Op::Trans => entry(j, i),
            Op::ConjTrans => entry(j, i).conj(),
        })
    }

    /// B <- alpha op(A) B and the like, or the solution.
    pub fn apply<T, B>(&self, solve: bool, alpha: T, a: MatRef<'_, T>, b: &mut B, options: &RunOptions) -> Result<()>
    where
        T: Element,
        B: TriangularGpu<Element = T> + Target<T>,
    {
        b.run(self, solve, alpha, a, options)
    }
}

/// B's of both front ends.
pub trait Target<T: Element> {
    fn run(&mut self, v: &Variant, solve: bool, alpha: T, a: MatRef<'_, T>, options: &RunOptions) -> Result<()>;
}

macro_rules! target {
    ($matrix:ty) => {
        impl<T: Element> Target<T> for $matrix {
            fn run(&mut self, v: &Variant, solve: bool, alpha: T, a: MatRef<'_, T>, options: &RunOptions) -> Result<()> {
                if solve {
                    self.trsm_gpu_with(v.side, v.uplo, v.op, v.diag, alpha, &a, options)
                } else {
                    self.trmm_gpu_with(v.side, v.uplo, v.op, v.diag, alpha, &a, options)
                }
            }
        }
    };
}

target!(Mat<T>);
target!(MatMut<'_, T>);
#[cfg(feature = "ndarray")]
target!(ndarray::ArrayViewMut2<'_, T>);

/// How a triangle's entries are made.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Condition near 1: a diagonal that is larger than the rest of its row together.
    Well,
    /// Uniform entries, a diagonal of modulus near 1: the condition grows exponentially with the order (Viswanath and Trefethen 1998).
    Ill,
    /// As `Well`, its rows scaled by powers of two from 1 to 2^-9.
    Graded,
}

/// A random problem.
#[derive(Clone, Debug)]
pub struct Case {
    pub variant: Variant,
    pub solve: bool,
    pub n: usize,
    pub k: usize,
    pub kind: Kind,
    pub alpha: f64,
    pub seed: u64,
    pub of_a: Layout,
    pub of_b: Layout,
}

impl Case {
    /// Of orders and columns up to `most`.
    pub fn any(most: usize) -> impl Strategy<Value = Case> {
        let side =
            move || prop_oneof![1 => 0usize..3, 3 => 1..=most, 2 => select(vec![3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33])];
        let kind = select(vec![Kind::Well, Kind::Ill, Kind::Graded]);
        let alpha = select(vec![1.0, 1.0, -1.0, 0.75, -2.5, 0.0]);
        let matrices = (side(), side(), kind, any::<u64>(), Layout::any(), Layout::any());
        (select(Variant::all()), any::<bool>(), alpha, matrices).prop_map(
            |(variant, solve, alpha, (n, k, kind, seed, of_a, of_b))| Case {
                variant,
                solve,
                n,
                k,
                kind,
                alpha,
                seed,
                of_a,
                of_b,
            },
        )
    }

    /// A: NaN wherever nothing may be read.
    pub fn triangle<T: Element>(&self) -> Mat<T> {
        let n = self.n as f64;
        let entry = |i: usize, j: usize| {
            let noise = complex_noise(self.seed, i, j);
            let scale = if matches!(self.kind, Kind::Graded) { 2f64.powi(-(i as i32 % 10)) } else { 1.0 };
            let size = match self.kind {
                // With ones for a diagonal the rest must be small, or the condition is large.
                Kind::Well | Kind::Graded if self.variant.diag == Diag::Unit || T::NAME.contains("f16") => 1.0 / n,
                _ => 1.0,
            };
            match self.kind {
                Kind::Ill if i == j => noise / noise.norm(),
                _ if i == j => (noise + 2.0) * size * n * scale,
                _ => noise * size * scale,
            }
        };
        let nan = Complex::new(f64::NAN, f64::NAN);
        Mat::from_fn(self.n, self.n, |i, j| T::from_complex(if self.variant.refers_to(i, j) { entry(i, j) } else { nan }))
    }

    /// B.
    pub fn right_hand_side<T: Element>(&self) -> Mat<T> {
        let (rows, cols) = self.variant.shape(self.n, self.k);
        Mat::from_fn(rows, cols, |i, j| T::from_complex(complex_noise(self.seed ^ 0xb, i, j)))
    }

    /// Runs the case by both front ends and checks the answer: see [`verify`]. Nothing between the entries of B changes.
    pub fn check<T: Element>(&self, options: &RunOptions) -> std::result::Result<(), TestCaseError> {
        let half = T::NAME.contains("f16");
        if half && matches!(self.kind, Kind::Ill) && self.solve {
            return Ok(()); // beyond f16's range
        }
        let (a, b): (Mat<T>, Mat<T>) = (self.triangle(), self.right_hand_side());
        let alpha = T::from_complex(self.alpha.into());
        let a_in_memory = Stored::new(a.as_ref(), self.of_a);
        let mut by_faer = Stored::new(b.as_ref(), self.of_b);
        self.variant.apply(self.solve, alpha, a_in_memory.faer(), &mut by_faer.faer_mut(), options).map_err(fail)?;
        verify(self.variant, self.solve, alpha, a.as_ref(), b.as_ref(), by_faer.faer())?;
        prop_assert!(by_faer.is_untouched_between(), "an element between the entries of B was written");
        #[cfg(feature = "ndarray")]
        {
            let mut by_ndarray = Stored::new(b.as_ref(), self.of_b);
            self.variant.apply(self.solve, alpha, a_in_memory.faer(), &mut by_ndarray.ndarray_mut(), options).map_err(fail)?;
            prop_assert_eq!(by_ndarray.faer(), by_faer.faer(), "ndarray and faer see the same memory");
            prop_assert!(by_ndarray.is_untouched_between(), "an element between the entries of B was written");
        }
        Ok(())
    }
}

/// Whether `x` is what the operation makes of B, entry by entry, and in norm.
///
/// Bounds, for the residual R = op(A) X - alpha B of a solution, X - alpha op(A) B of a product:
///
/// - elementwise |R| <= c (n + 4) eps (|op(A)| |X| + |alpha B|), the backward error of substitution, or c (n + 4) eps |alpha| |op(A)| |B|, that
///   of a sum of n products, in any order (Higham 2002, theorem 8.5 and lemma 8.4; 4 for alpha, its product, and a division made of two). c is 1 for real
///   numbers, where eps is twice the unit roundoff, and 2 for complex ones (lemma 3.5).
/// - in norm ||R||_F <= n eps ||op(A)||_F ||X||_F (and of products ||alpha op(A)|| ||B||), with n at least 4.
///
/// Half types add their own rounding of X, and all types what their smallest number is off.
pub fn verify<T: Element>(
    v: Variant,
    solve: bool,
    alpha: T,
    a: MatRef<'_, T>,
    b: MatRef<'_, T>,
    x: MatRef<'_, T>,
) -> std::result::Result<(), TestCaseError> {
    prop_assert_eq!(x.shape(), b.shape());
    let (alpha, n) = (alpha.to_complex(), a.nrows());
    if alpha == Complex::ZERO {
        prop_assert!(x.col_iter().all(|c| c.iter().all(|&x| x == T::from_complex(0.0.into()))), "alpha = 0 makes B zero");
        return Ok(());
    }
    let op = v.op_of(a);
    let [b, x] = [b, x].map(|m| Mat::from_fn(m.nrows(), m.ncols(), |i, j| m[(i, j)].to_complex()));
    // From the left, of transposes where need be.
    let (op, b, x) = match v.side {
        Side::Left => (op, b, x),
        Side::Right => (op.transpose().to_owned(), b.transpose().to_owned(), x.transpose().to_owned()),
    };
    let (factor, other) = if solve { (&x, &b) } else { (&b, &x) };
    let (of_product, of_other) = if solve { (Complex::from(1.0), alpha) } else { (alpha, 1.0.into()) };
    let complex = if T::NAME.starts_with('c') { 2.0 } else { 1.0 };
    let (roundoff, smallest) = match T::NAME {
        "f16" => (2f64.powi(-11), 2f64.powi(-24)),
        "bf16" => (2f64.powi(-8), 2f64.powi(-133)),
        "f32" | "c32" => (0.0, 2f64.powi(-149)),
        _ => (0.0, 2f64.powi(-1074)),
    };
    let (mut residual_norm, mut scale_norm) = (0f64, [0f64; 2]);
    for j in 0..b.ncols() {
        for i in 0..n {
            // of_product op(A) factor - of_other other
            let terms = (0..n).map(|l| (op[(i, l)] * of_product, factor[(l, j)])).chain([(-of_other, other[(i, j)])]);
            let residual = exact_dot(terms.clone()).norm();
            let sizes: Vec<f64> = terms.map(|(a, b)| a.norm() * b.norm()).collect();
            let product: f64 = sizes[..n].iter().sum();
            let size = if solve { product + sizes[n] } else { product };
            let rows: f64 = (0..n).map(|l| op[(i, l)].norm()).sum();
            let bound = (complex * (n + 4) as f64 * eps::<T>() + 1.01 * roundoff) * size + 2.0 * smallest * (1.0 + rows);
            prop_assert!(
                residual <= bound,
                "{:?}, solve {}: residual ({}, {}) is {:e}, bound {:e}, of {:e}",
                v,
                solve,
                i,
                j,
                residual,
                bound,
                size
            );
            residual_norm = residual_norm.hypot(residual);
        }
    }
    for (norm, m) in scale_norm.iter_mut().zip([&op, factor]) {
        *norm = m.col_iter().flat_map(|c| c.iter().map(|x| x.norm()).collect::<Vec<_>>()).fold(0.0, f64::hypot);
    }
    let bound = (n.max(4) as f64 * eps::<T>() + 1.01 * roundoff) * of_product.norm() * scale_norm[0] * scale_norm[1];
    let tiny = smallest * 4.0 * (1.0 + scale_norm[0]) * (b.nrows() * b.ncols()) as f64;
    prop_assert!(residual_norm <= bound + tiny, "residual {:e} in norm, bound {:e}", residual_norm, bound);
    Ok(())
}

/// The sum of products as if in twice the precision (Ogita, Rump and Oishi 2005: Dot2); the factors `a` may have been multiplied before
/// by numbers that leave them exact.
fn exact_dot(terms: impl Iterator<Item = (Complex<f64>, Complex<f64>)>) -> Complex<f64> {
    let (mut re, mut im) = (Compensated::default(), Compensated::default());
    for (a, b) in terms {
        re.add_product(a.re, b.re);
        re.add_product(-a.im, b.im);
        im.add_product(a.re, b.im);
        im.add_product(a.im, b.re);
    }
    Complex::new(re.sum + re.error, im.sum + im.error)
}

#[derive(Default)]
struct Compensated {
    sum: f64,
    error: f64,
}

impl Compensated {
    fn add_product(&mut self, a: f64, b: f64) {
        let product = a * b;
        let sum = self.sum + product;
        let part = sum - self.sum;
        let lost = (self.sum - (sum - part)) + (product - part);
        self.error += a.mul_add(b, -product) + lost;
        self.sum = sum;
    }
}
