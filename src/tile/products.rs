//! Products of f32 matrices by low precision, and the recursive QR factorisation that consists of them: the option, the kernels' trait, and the
//! order of the steps.
//!
//! ```text
//! M X = diag(s) M' X' diag(t)       s, t: powers of two; the entries of M' and X' are below 1 in modulus
//! Half    M' and X' rounded to f16; the sum along k in f32
//! Split   M' = M1 + M2 / 2^9 + M3 / 2^18 + rest,  X' likewise: slices of multiples of 2^-9 up to 1 in modulus, exact in f16, rest <= 2^-28
//!         sum over blocks of 32 terms of  M1 X1 + (M1 X2 + M2 X1) / 2^9 + (M1 X3 + M2 X2 + M3 X1) / 2^18
//! ```
//!
//! The three sums of a block are multiples of 2^-18 below 2^6: exact in f32 in any order and with any rounding. Only their combination, one rounding
//! or two for a block, depends on the arithmetic, and that is the same everywhere.

use std::{fmt, ops::Range};

use faer::{Mat, MatRef};

use crate::base::error::Result;

/// How a QR factorisation multiplies matrices, and so which precision it has.
///
/// With `Split` or `Half` the factorisation is a recursion, whose products are large enough for matrix units (tensor cores): Leng, Zou, Wang, Wu and
/// Zhang, "High Performance Householder QR Factorization on Emerging GPU Architectures Using Tensor Cores" (2025). Rows and columns are scaled by
/// powers of two before they are rounded, so that the range of f16 is no limit.
///
/// For matrices of f32, and of `half::f16` and `half::bf16` with [`HalfStorage::Single`](crate::HalfStorage). On a GPU the context needs cooperative
/// matrices ([`AdapterChoice::cooperative_matrices`](crate::AdapterChoice::cooperative_matrices), or
/// [`GpuContext::from_wgpu_with_adapter`](crate::GpuContext::from_wgpu_with_adapter)). The CPU emulates them, for tests and for experiments, and is
/// much slower than with `Native`. `Split` products depend on no order of sums.
///
/// ```
/// use svdvals_gpu::Products;
/// assert_eq!(Products::default(), Products::Native);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Products {
    /// In the arithmetic of the element type.
    #[default]
    Native,
    /// With the accuracy of f32: six products of exact slices of f16.
    Split,
    /// Operands rounded to f16, sums in f32: backward errors of about 1e-3.
    Half,
}

impl fmt::Display for Products {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Products::Native => "native",
            Products::Split => "split",
            Products::Half => "half",
        })
    }
}

impl Products {
    /// The unit of the backward error: the spacing at 1 of f32, or of f16.
    pub(crate) fn epsilon(self) -> f64 {
        if self == Products::Half { f64::from(half::f16::EPSILON) } else { f64::from(f32::EPSILON) }
    }

    /// Slices of an operand.
    pub(crate) fn slices(self) -> usize {
        if self == Products::Split { 3 } else { 1 }
    }

    /// Products of slices for one product of matrices.
    pub(crate) fn terms(self) -> u64 {
        if self == Products::Split { 6 } else { 1 }
    }
}

/// Bits of a slice.
pub(crate) const SLICE_BITS: i32 = 9;
/// Terms of a block, within which the sums of slices are exact.
pub(crate) const EXACT_TERMS: usize = 32;

/// The exponent e of the power of two by which a line with this largest modulus is divided: `largest` / 2^e is in [1/2, 1). Both 2^e and its
/// inverse are normal numbers.
pub(crate) fn exponent(largest: f32) -> i32 {
    if largest == 0.0 { 0 } else { (((largest.to_bits() >> 23) & 255) as i32 - 126).clamp(-126, 126) }
}

/// 2^e, for e from -126 to 126.
pub(crate) fn power_of_two(e: i32) -> f32 {
    f32::from_bits(((e + 127) as u32) << 23)
}

/// A number of modulus at most 1, rounded to f16 (to nearest, ties to even), subnormal numbers included.
pub(crate) fn rounded(x: f32) -> f32 {
    half::f16::from_f32(x).to_f32()
}

/// The slices of a number of modulus below 1.
pub(crate) fn slices(x: f32) -> [f32; 3] {
    let unit = power_of_two(SLICE_BITS);
    let mut rest = x;
    [(); 3].map(|()| {
        let slice = (rest * unit).round_ties_even() / unit;
        rest = (rest - slice) * unit;
        slice
    })
}

/// A part of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub row: usize,
    pub col: usize,
    pub rows: usize,
    pub cols: usize,
}

impl Block {
    pub fn new(rows: Range<usize>, cols: Range<usize>) -> Block {
        Block { row: rows.start, col: cols.start, rows: rows.len(), cols: cols.len() }
    }
}

/// A factor of a product: a part of a matrix, or its transpose.
pub(crate) struct Operand<'a, M> {
    pub of: &'a M,
    pub block: Block,
    pub transposed: bool,
}

/// What becomes of the product M X.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Into {
    /// C <- M X
    Replaced,
    /// C <- -M X
    Negated,
    /// C <- C - M X
    Subtracted,
}

/// Where the recursion keeps what a panel leaves.
pub(crate) struct Reflectors<M> {
    /// m x k, unit lower trapezoidal.
    pub v: M,
    /// The upper triangular factors of the blocks: that of the block from column f on is in columns f.. and rows 0...
    pub t: M,
}

/// The operations of the recursion, in f32.
pub(crate) trait RecursiveKernels: Sync {
    /// Whether the operations run in the caller's rayon pool.
    const IN_POOL: bool = false;

    /// A matrix in the backend's memory.
    type Matrix: Send + Sync;

    /// A matrix of zeros.
    fn zeros(&self, rows: usize, cols: usize) -> Result<Self::Matrix>;

    /// A copy in the backend's memory.
    fn upload(&self, a: MatRef<'_, f32>) -> Result<Self::Matrix>;

    /// The first `rows` rows of a matrix.
    fn download(&self, a: &Self::Matrix, rows: usize) -> impl Future<Output = Result<Mat<f32>>> + Send;

    /// A product of `m` and `x` into a block of C.
    fn product(
        &self,
        products: Products,
        m: Operand<'_, Self::Matrix>,
        x: Operand<'_, Self::Matrix>,
        c: (&mut Self::Matrix, Block),
        into: Into,
    ) -> Result<()>;

    /// Copies a part of a matrix.
    fn copy(&self, from: (&Self::Matrix, Block), to: (&mut Self::Matrix, Block)) -> Result<()>;

    /// The QR factorisation of a panel of `a` by the panel tree: R on and above the diagonal of the panel, V and T of I - V T V^H in their places.
    fn panel(
        &self,
        a: &mut Self::Matrix,
        to: &mut Reflectors<Self::Matrix>,
        panel: &Panel,
        rows: usize,
    ) -> impl Future<Output = Result<()>> + Send;
}

/// A panel: its columns, and the first column of the block to which its T belongs. Its first row is its first column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Panel {
    pub cols: Range<usize>,
    pub block: usize,
}

/// A step of the recursion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Panel(Panel),
    /// The reflectors of the columns `of`, which have one T in the block from column `block` on, applied to `cols`.
    Apply {
        of: Range<usize>,
        block: usize,
        cols: Range<usize>,
    },
    /// T of the columns `left` and `right`, which are neighbours in the block from column `block` on, becomes one T.
    Merge {
        left: Range<usize>,
        right: Range<usize>,
        block: usize,
    },
}

/// The sizes of the recursion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recursion {
    /// Most columns of a panel.
    pub panel: usize,
    /// Most columns whose reflectors have one T.
    pub merged: usize,
}

impl Recursion {
    /// The sizes for all matrices, chosen by the cost model of an H100 at n = 16384. Wider panels have fewer products of small matrices. With fewer
    /// columns merged, the matrix is cut into slices more often; with more, T takes more flops.
    pub const DEFAULT: Recursion = Recursion { panel: 128, merged: 512 };

    /// Where a range of columns is split: in the middle, rounded up to a whole number of panels.
    fn middle(&self, cols: &Range<usize>) -> usize {
        (cols.start + cols.len().div_ceil(2).next_multiple_of(self.panel)).min(cols.end)
    }

    /// The blocks with one T each of a range of columns that the recursion meets.
    pub fn blocks(&self, cols: Range<usize>) -> Vec<Range<usize>> {
        if cols.len() <= self.merged {
            return vec![cols];
        }
        let middle = self.middle(&cols);
        [self.blocks(cols.start..middle), self.blocks(middle..cols.end)].concat()
    }

    /// The steps of the factorisation of n columns, of which the first k = min(m, n) have reflectors.
    pub fn steps(&self, k: usize, n: usize) -> Vec<Step> {
        let mut steps = Vec::new();
        if k > 0 {
            self.factor(0..k, None, &mut steps);
            self.apply(0..k, k..n, &mut steps);
        }
        steps
    }

    fn apply(&self, of: Range<usize>, cols: Range<usize>, steps: &mut Vec<Step>) {
        if !cols.is_empty() {
            steps.extend(self.blocks(of).into_iter().map(|of| Step::Apply { block: of.start, of, cols: cols.clone() }));
        }
    }

    fn factor(&self, cols: Range<usize>, block: Option<usize>, steps: &mut Vec<Step>) {
        let block = block.or((cols.len() <= self.merged).then_some(cols.start));
        if cols.len() <= self.panel {
            let block = block.unwrap_or(cols.start);
            steps.push(Step::Panel(Panel { cols, block }));
            return;
        }
        let middle = self.middle(&cols);
        let (left, right) = (cols.start..middle, middle..cols.end);
        self.factor(left.clone(), block, steps);
        match block {
            // The left half has one T already.
            Some(block) => steps.push(Step::Apply { of: left.clone(), block, cols: right.clone() }),
            None => self.apply(left.clone(), right.clone(), steps),
        }
        self.factor(right.clone(), block, steps);
        if let Some(block) = block {
            steps.push(Step::Merge { left, right, block });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three slices are multiples of 2^-9 up to 1, and what they leave is at most 2^-28, for numbers of all sizes below 1.
    #[test]
    fn slices_are_exact() {
        let mut state = 1u32;
        for k in 0..20_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let x = (f64::from(state) / f64::from(1u32 << 31) - 1.0) as f32 * power_of_two(-(k % 30));
            let parts = slices(x);
            let sum: f64 = parts.iter().zip([0, 9, 18]).map(|(&s, bits)| f64::from(s) / f64::from(1u32 << bits)).sum();
            assert!((f64::from(x) - sum).abs() <= 2f64.powi(-28), "{x}: {parts:?}");
            assert!(parts.iter().all(|s| s.abs() <= 1.0 && (s * 512.0).fract() == 0.0 && rounded(*s) == *s), "{x}: {parts:?}");
        }
    }

    /// Largest moduli come to [1/2, 1), at the ends of the range too.
    #[test]
    fn exponents() {
        for largest in [1.0, 0.5, 0.999_999_94, 3.0, 1e-30, 6e37, f32::MIN_POSITIVE] {
            let scaled = largest * power_of_two(-exponent(largest));
            assert!((0.5..1.0).contains(&scaled), "{largest}: {scaled}");
        }
        assert_eq!((exponent(0.0), exponent(f32::from_bits(1)), exponent(f32::MAX)), (0, -126, 126));
    }

    /// Every column is in one panel; a column's reflectors are applied to each column right of it once, after its block has its T; T of a block is
    /// merged from all its panels.
    #[test]
    fn steps_are_a_factorisation() {
        for (panel, merged) in [(4, 4), (4, 8), (4, 16), (8, 24), (64, 256)] {
            for (k, n) in [(1, 1), (4, 4), (5, 9), (17, 17), (40, 64), (63, 63), (300, 301), (1000, 1000)] {
                let recursion = Recursion { panel, merged };
                // The columns whose reflectors have been applied, and the extent of each T.
                let (mut applied, mut factored, mut of_t) = (vec![0; n], 0, vec![0..0; k]);
                for step in recursion.steps(k, n) {
                    match step {
                        Step::Panel(Panel { cols, block }) => {
                            assert!(cols.len() <= panel && cols.start == factored && block <= cols.start);
                            assert!(cols.clone().all(|j| applied[j] == cols.start), "{cols:?} have all updates");
                            factored = cols.end;
                            of_t[cols.start] = cols.clone();
                        }
                        Step::Apply { of, block, cols } => {
                            assert_eq!(of_t[of.start], of, "one T");
                            assert!(block <= of.start && cols.start >= of.end && of.end - block <= merged);
                            for j in cols {
                                assert_eq!(applied[j], of.start);
                                applied[j] = of.end;
                            }
                        }
                        Step::Merge { left, right, block } => {
                            assert_eq!((&of_t[left.start], &of_t[right.start]), (&left, &right));
                            assert!(block <= left.start && right.end - block <= merged);
                            of_t[left.start] = left.start..right.end;
                        }
                    }
                }
                assert_eq!(factored, k);
                assert!((k..n).all(|j| applied[j] == k));
                assert!(recursion.blocks(0..k).iter().all(|block| of_t[block.start] == *block));
            }
        }
    }
}
