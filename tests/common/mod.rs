//! Matrices for the tests, with known singular values or good condition, and distances.
#![allow(dead_code)] // every test target uses a part

pub mod hard;
pub mod jacobi;
pub mod problems;
pub mod triangles;

use std::ops::{Add, Mul, Sub};

use faer::{Mat, MatRef};
use num_complex::Complex;
use svdvals_gpu::{Element, Number, RealElement};

/// 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// What SplitMix64 started with `seed` gives after `index` numbers: a generator that can be asked for any place.
pub fn splitmix64(seed: u64, index: u64) -> u64 {
    mixed(seed.wrapping_add(index.wrapping_add(1).wrapping_mul(GOLDEN)))
}

/// SplitMix64's finaliser.
fn mixed(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// 64 random bits as a number in [-1, 1), a multiple of 2^-52.
pub fn signed_uniform(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

/// A small random generator (SplitMix64, Steele, Lea and Flood 2014), so that every run sees the same matrices.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        let next = splitmix64(self.0, 0);
        self.0 = self.0.wrapping_add(GOLDEN);
        next
    }

    /// Uniform in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Standard normal (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.uniform()).ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// m x n, entries standard normal; of complex entries both parts.
pub fn gaussian<T: Element>(m: usize, n: usize, seed: u64) -> Mat<T> {
    let (mut re, mut im) = (Random(seed), Random(seed ^ 0x5555));
    Mat::from_fn(m, n, |_, _| T::from_complex(Complex::new(re.normal(), im.normal())))
}

/// The three spectra in [0, 1] that the papers measure with (DESIGN of Table 1 of the unified-kernels paper), descending.
#[derive(Clone, Copy, Debug)]
pub enum Spectrum {
    /// Evenly spaced.
    Arithmetic,
    /// Evenly spaced logarithms, 1 down to 1e-5.
    Logarithmic,
    /// The quantiles of the quarter-circle law, which square Gaussian matrices follow.
    QuarterCircle,
}

impl Spectrum {
    pub const ALL: [Spectrum; 3] = [Spectrum::Arithmetic, Spectrum::Logarithmic, Spectrum::QuarterCircle];

    pub fn values(self, n: usize) -> Vec<f64> {
        let step = |i: usize| (n - i) as f64 / n as f64;
        (0..n)
            .map(|i| match self {
                Spectrum::Arithmetic => step(i),
                Spectrum::Logarithmic => 10f64.powf(-5.0 * i as f64 / (n.max(2) - 1) as f64),
                Spectrum::QuarterCircle => {
                    // Distribution function on [0, 1]: (2 / pi) (x sqrt(1 - x^2) + asin x), inverted by bisection.
                    let (mut low, mut high) = (0.0f64, 1.0f64);
                    for _ in 0..60 {
                        let x = (low + high) / 2.0;
                        let below = std::f64::consts::FRAC_2_PI * (x * (1.0 - x * x).sqrt() + x.asin());
                        if below < step(i) { low = x } else { high = x }
                    }
                    high
                }
            })
            .collect()
    }
}

/// U diag(sigma) V^T for n = sigma.len() a power of two up to 8192, without a rounding error; `sigma` is rounded to multiples of 2^-26
/// first.
///
/// U and V are products (1/n) H D P H of the Hadamard matrix H with random signs D and a random permutation P: exactly orthogonal and
/// dense. H diag(sigma) H has the entries f(i xor j) with f = H sigma, so that n^2 A = H W H with W(i, j) = d_i f(p_i xor q_j) d'_j is
/// two fast transforms. They add multiples of 2^-26, and no sum passes n^2, because W's 2-norm is at most n and every step of a
/// transform is sqrt(2) times an orthogonal matrix: 26 + 2 log2 n bits, 50 at n = 4096.
pub fn with_singular_values(sigma: &mut [f64], seed: u64) -> Mat<f64> {
    between_hadamards(sigma, seed, |uniform| if uniform < 0.5 { 1.0 } else { -1.0 })
}

/// U diag(sigma) V^H, complex, as exactly as [`with_singular_values`]: D has entries 1, i, -1 and -i in place of signs.
pub fn complex_with_singular_values(sigma: &mut [f64], seed: u64) -> Mat<Complex<f64>> {
    let phases = [(1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0)].map(|(re, im)| Complex::new(re, im));
    between_hadamards(sigma, seed, |uniform| phases[(4.0 * uniform) as usize])
}

/// (1/n^2) H W H, with `phase` making the entries of D from numbers in [0, 1): see [`with_singular_values`].
fn between_hadamards<T>(sigma: &mut [f64], seed: u64, phase: impl Fn(f64) -> T) -> Mat<T>
where
    T: Copy + Add<Output = T> + Sub<Output = T> + Mul<Output = T> + Mul<f64, Output = T>,
{
    let n = sigma.len();
    assert!(n.is_power_of_two() && n <= 8192, "order {n}");
    sigma.iter_mut().for_each(|s| *s = (*s * 2f64.powi(26)).round() * 2f64.powi(-26));
    let mut random = Random(seed);
    let mut order_and_phases = || {
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            order.swap(i, (random.uniform() * (i + 1) as f64) as usize);
        }
        let phases: Vec<T> = (0..n).map(|_| phase(random.uniform())).collect();
        (order, phases)
    };
    let ((p, d), (q, e)) = (order_and_phases(), order_and_phases());
    let mut f = sigma.to_vec();
    hadamard(&mut f);
    // Column after column, the transform of the whole is the transform of every column, and then of every row.
    let mut a: Vec<T> = (0..n * n).map(|k| (k % n, k / n)).map(|(i, j)| d[i] * e[j] * f[p[i] ^ q[j]]).collect();
    hadamard(&mut a);
    let scale = 1.0 / (n * n) as f64;
    Mat::from_fn(n, n, |i, j| a[j * n + i] * scale)
}

/// x <- H x with H(i, j) = (-1)^(number of ones that i and j share), by Walsh and Hadamard's fast transform.
fn hadamard<T: Copy + Add<Output = T> + Sub<Output = T>>(x: &mut [T]) {
    if x.len() > 1 {
        let (low, high) = x.split_at_mut(x.len() / 2);
        hadamard(low);
        hadamard(high);
        low.iter_mut().zip(high).for_each(|(x, y)| (*x, *y) = (*x + *y, *x - *y));
    }
}

/// Rounded to `T`.
pub fn rounded<S: Element, T: Element>(a: MatRef<'_, S>) -> Mat<T> {
    Mat::from_fn(a.nrows(), a.ncols(), |i, j| T::from_complex(a[(i, j)].to_complex()))
}

/// Singular values in f64 by faer, descending.
pub fn reference<T: Element>(a: MatRef<'_, T>) -> Vec<f64> {
    widen(a).singular_values().expect("faer converges")
}

/// ||computed - exact||_2 / ||exact||_2, DESIGN's measure. Infinite where the lengths differ or an entry is NaN.
pub fn error<T: RealElement>(computed: impl IntoIterator<Item = T>, exact: &[f64]) -> f64 {
    let computed: Vec<f64> = computed.into_iter().map(|x| x.to_double()).collect();
    if computed.len() != exact.len() || computed.iter().any(|x| x.is_nan()) {
        return f64::INFINITY;
    }
    let distance = computed.iter().zip(exact).map(|(x, y)| (x - y).powi(2)).sum::<f64>().sqrt();
    let norm = exact.iter().map(|y| y * y).sum::<f64>().sqrt();
    if norm == 0.0 { distance } else { distance / norm }
}

/// What a backward stable method may be off, in the measure of [`error`]: 4 n eps of the arithmetic. Householder reductions have a
/// backward error of a modest multiple of n eps in the Frobenius norm (Higham 2002, theorem 19.4 and after), and sqrt(n) is what one
/// sees.
pub fn stable<T: Element>(n: usize) -> f64 {
    4.0 * n.max(4) as f64 * eps::<T>()
}

/// A number in [-1, 1) that depends on nothing but its arguments (splitmix64's finaliser).
pub fn noise(seed: u64, i: usize, j: usize) -> f64 {
    signed_uniform(mixed(seed.wrapping_mul(GOLDEN) ^ ((i as u64) << 32 | j as u64).wrapping_mul(0xbf58_476d_1ce4_e5b9)))
}

/// Identity matrices of order `period` side by side and on top of each other, and noise of a tenth: every block of rows and columns
/// of at most `period` that starts at a multiple of `period` is well conditioned (below 6 up to period 32), so that two ways of
/// factoring it agree entry by entry.
pub fn stacked_identities<T: Element>(seed: u64, m: usize, n: usize, period: usize) -> Mat<T> {
    Mat::from_fn(m, n, |i, j| T::from_complex(complex_noise(seed, i, j) * 0.1 + if i % period == j % period { 1.0 } else { 0.0 }))
}

/// [`noise`] in both parts.
pub fn complex_noise(seed: u64, i: usize, j: usize) -> Complex<f64> {
    Complex::new(noise(seed, i, j), noise(seed ^ 0x5555, i, j))
}

/// The matrix in double precision (exact).
pub fn widen<T: Number>(a: MatRef<'_, T>) -> Mat<Complex<f64>> {
    Mat::from_fn(a.nrows(), a.ncols(), |i, j| a[(i, j)].to_complex())
}

/// Largest absolute value, infinite where there is a NaN.
pub fn largest(a: MatRef<'_, Complex<f64>>) -> f64 {
    furthest((0..a.ncols()).flat_map(|j| (0..a.nrows()).map(move |i| a[(i, j)].norm())))
}

/// Largest absolute value, infinite where there is a NaN.
pub fn furthest(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(0.0, |most, x| if x.is_nan() { f64::INFINITY } else { f64::max(most, x.abs()) })
}

/// A kind of matrix: its name, and its entries.
pub type Kind<'a> = (&'a str, &'a dyn Fn(usize, usize) -> Complex<f64>);

/// Distance from 1 to the next number in `T`'s arithmetic (f32 for the half types).
pub fn eps<T: Number>() -> f64 {
    <T::Real as num_traits::Float>::epsilon().to_double()
}

/// The same matrix, row-major.
pub fn row_major<T: Element>(a: &Mat<T>) -> Mat<T> {
    Mat::from_fn(a.ncols(), a.nrows(), |i, j| a[(j, i)])
}

/// Largest entry of |a - b|, infinite where the shapes differ or an entry is NaN.
pub fn distance<S: Element, T: Element>(a: MatRef<'_, S>, b: MatRef<'_, T>) -> f64 {
    if a.shape() == b.shape() { largest((widen(a) - widen(b)).as_ref()) } else { f64::INFINITY }
}
