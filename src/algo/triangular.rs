//! The recursion of both triangular operations in all variants, over a trait of three kernels.
//!
//! With the appropriate strides of A and B, every variant is  B <- alpha M B  or  B <- alpha M^-1 B  with M triangular:
//!
//! ```text
//! left    op(A) B                         M = op(A)
//! right   B op(A) = (op(A)^T B^T)^T       M = op(A)^T,  B read as its transpose
//! ```
//!
//! M is A or its transpose, conjugated or not, and lower or upper triangular. The recursion splits M's rows in two: the `target` depends on
//! the `source`.
//!
//! ```text
//! lower  M = [ M11  0  ]   source 1, target 2      upper  M = [ M11 M12 ]   source 2, target 1
//!            [ M21 M22 ]                                      [  0  M22 ]
//!
//! solve      B_source <- alpha M_source^-1 B_source;  B_target <- alpha B_target - M_target,source B_source;
//!            B_target <- M_target^-1 B_target
//! multiply   B_target <- alpha M_target B_target;  B_target <- B_target + alpha M_target,source B_source;
//!            B_source <- alpha M_source B_source
//! ```
//!
//! (Recursive TRMM/TRSM paper, section 3.) Every entry is multiplied by alpha once, without a separate pass over B.

use std::ops::Range;

use crate::base::{
    blas::{Diag, Op, Side, Uplo},
    error::{Result, SvdError},
    number::Number,
};

/// The operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// B <- alpha M B (BLAS's `trmm`).
    Multiply,
    /// B <- alpha M^-1 B (`trsm`).
    Solve,
}

/// An operation with its variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    pub operation: Operation,
    pub side: Side,
    pub uplo: Uplo,
    pub op: Op,
    pub diag: Diag,
}

impl Variant {
    /// Whether B is read as its transpose.
    pub fn transposes_b(&self) -> bool {
        self.side == Side::Right
    }

    /// Whether M is A^T or A^H, rather than A or its conjugate.
    pub fn transposes_a(&self) -> bool {
        (self.side == Side::Right) != (self.op != Op::NoTrans)
    }

    /// Whether M's entries are the conjugates of A's.
    pub fn conjugates(&self) -> bool {
        self.op == Op::ConjTrans
    }

    /// Whether M is lower triangular.
    pub fn lower(&self) -> bool {
        (self.uplo == Uplo::Lower) != self.transposes_a()
    }

    /// Whether M has a unit diagonal.
    pub fn unit(&self) -> bool {
        self.diag == Diag::Unit
    }

    /// Whether the operation divides by the diagonal of A.
    pub fn divides(&self) -> bool {
        self.operation == Operation::Solve && !self.unit()
    }

    /// Whether the operation reads entry (i, j) of A.
    pub fn refers_to(&self, i: usize, j: usize) -> bool {
        match self.uplo {
            _ if i == j => !self.unit(),
            Uplo::Lower => i > j,
            Uplo::Upper => i < j,
        }
    }

    /// The p-th row in the order of substitution: top to bottom if M is lower triangular, bottom to top if it is upper triangular.
    pub fn row(&self, order: usize, p: usize) -> usize {
        if self.lower() { p } else { order - 1 - p }
    }
}

/// The arguments of a call, except the matrices.
#[derive(Clone, Copy, Debug)]
pub struct Call<T> {
    pub(crate) variant: Variant,
    pub(crate) alpha: T,
}

/// Whether alpha is zero (of either sign).
pub(crate) fn alpha_is_zero<T: Number>(alpha: T) -> bool {
    alpha == T::zeroed()
}

impl Variant {
    /// Checks that A is square and that its order matches B.
    pub(crate) fn check_shapes(&self, a: (usize, usize), b: (usize, usize)) -> Result<()> {
        let order = match self.side {
            Side::Left => b.0,
            Side::Right => b.1,
        };
        if a == (order, order) {
            return Ok(());
        }
        let (operation, side) = match (self.operation, self.side) {
            (Operation::Multiply, Side::Left) => ("trmm", "left"),
            (Operation::Multiply, Side::Right) => ("trmm", "right"),
            (Operation::Solve, Side::Left) => ("trsm", "left"),
            (Operation::Solve, Side::Right) => ("trsm", "right"),
        };
        Err(SvdError::Shapes { operation, side, a, b })
    }
}

/// [`SvdError::Singular`] for the first diagonal entry that is zero or not finite.
pub(crate) fn check_diagonal<T: Number>(diagonal: impl IntoIterator<Item = T>) -> Result<()> {
    let unfit = |x: T| x.magnitude().is_none() || x == T::zeroed();
    match diagonal.into_iter().enumerate().find(|&(_, x)| unfit(x)) {
        None => Ok(()),
        Some((index, x)) => Err(SvdError::Singular { index, value: x.to_string() }),
    }
}

/// A scalar factor of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Factor {
    One,
    MinusOne,
    /// The caller's alpha.
    Alpha,
}

/// The kernels that the recursion calls. Ranges are of M's rows (and columns) and of B's rows.
pub(crate) trait TriangularKernels {
    /// B[target, :] <- beta B[target, :] + alpha M[target, source] B[source, :]. The ranges are disjoint, so the block of M is
    /// off-diagonal.
    fn gemm(&mut self, target: Range<usize>, source: Range<usize>, alpha: Factor, beta: Factor) -> Result<()>;
    /// B[rows, :] <- alpha M[rows, rows] B[rows, :]
    fn trmm(&mut self, rows: Range<usize>, alpha: Factor) -> Result<()>;
    /// B[rows, :] <- alpha M[rows, rows]^-1 B[rows, :]
    fn trsm(&mut self, rows: Range<usize>, alpha: Factor) -> Result<()>;
}

/// Runs the recursion on M's rows `rows`. The base kernels take triangles of order at most `base`.
pub(crate) fn run<K: TriangularKernels>(
    kernels: &mut K,
    variant: &Variant,
    rows: Range<usize>,
    base: usize,
    alpha: Factor,
) -> Result<()> {
    if rows.len() <= base {
        return match variant.operation {
            Operation::Multiply => kernels.trmm(rows, alpha),
            Operation::Solve => kernels.trsm(rows, alpha),
        };
    }
    let middle = rows.start + split(rows.len(), base);
    let (first, second) = (rows.start..middle, middle..rows.end);
    let (source, target) = if variant.lower() { (first, second) } else { (second, first) };
    match variant.operation {
        Operation::Multiply => {
            run(kernels, variant, target.clone(), base, alpha)?;
            kernels.gemm(target, source.clone(), alpha, Factor::One)?;
            run(kernels, variant, source, base, alpha)
        }
        Operation::Solve => {
            run(kernels, variant, source.clone(), base, alpha)?;
            kernels.gemm(target.clone(), source, Factor::MinusOne, alpha)?;
            run(kernels, variant, target, base, Factor::One)
        }
    }
}

/// Where to split a triangle of order greater than `base`: in the middle, rounded up to a multiple of `base`.
fn split(order: usize, base: usize) -> usize {
    order.div_ceil(2).next_multiple_of(base)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tile::tuning::Tuning;

    /// Counting kernels: flops of the products and of the base kernels for one column of B, and the base triangles used.
    struct Count {
        lower: bool,
        base: usize,
        products: u64,
        bases: u64,
        used: Vec<Range<usize>>,
    }

    impl Count {
        fn triangle(&mut self, rows: Range<usize>) -> Result<()> {
            assert!(rows.len() <= self.base && !rows.is_empty());
            self.bases += (rows.len() * rows.len()) as u64;
            self.used.push(rows);
            Ok(())
        }
    }

    impl TriangularKernels for Count {
        fn gemm(&mut self, target: Range<usize>, source: Range<usize>, _: Factor, _: Factor) -> Result<()> {
            assert_eq!(self.lower, source.end == target.start, "the source comes first where M is lower");
            assert_eq!(!self.lower, target.end == source.start);
            assert_eq!(target.start.max(source.start) % self.base, 0, "cut at a multiple of the base");
            self.products += (2 * target.len() * source.len()) as u64;
            Ok(())
        }

        fn trmm(&mut self, rows: Range<usize>, _: Factor) -> Result<()> {
            self.triangle(rows)
        }

        fn trsm(&mut self, rows: Range<usize>, _: Factor) -> Result<()> {
            self.triangle(rows)
        }
    }

    fn variants() -> impl Iterator<Item = Variant> {
        let lower = [Uplo::Lower, Uplo::Upper];
        [Operation::Multiply, Operation::Solve]
            .into_iter()
            .flat_map(move |operation| lower.map(|uplo| (operation, uplo)))
            .flat_map(|(operation, uplo)| [Side::Left, Side::Right].map(|side| (operation, uplo, side)))
            .flat_map(|(operation, uplo, side)| {
                [Op::NoTrans, Op::Trans, Op::ConjTrans].map(|op| Variant { operation, side, uplo, op, diag: Diag::NonUnit })
            })
    }

    fn count(variant: &Variant, order: usize, base: usize) -> Count {
        let mut count = Count { lower: variant.lower(), base, products: 0, bases: 0, used: Vec::new() };
        run(&mut count, variant, 0..order, base, Factor::Alpha).unwrap();
        count
    }

    /// Products and base triangles add up to n^2 flops per column, the flops of either operation, for every order and base.
    #[test]
    fn nothing_is_left_out() {
        for variant in variants() {
            for (order, base) in [(1, 1), (7, 1), (64, 64), (65, 64), (100, 8), (129, 32), (1000, 48)] {
                let mut count = count(&variant, order, base);
                assert_eq!(count.products + count.bases, (order * order) as u64, "{variant:?} {order} {base}");
                count.used.sort_unstable_by_key(|rows| rows.start);
                assert!(count.used.windows(2).all(|pair| pair[0].end == pair[1].start), "base triangles are side by side");
            }
        }
    }

    /// At n = 8192 at least 95% of the flops are in matrix products, with either backend's base (a GPU's defaults have at most 64).
    #[test]
    fn nearly_all_flops_are_in_products() {
        let bases = [Tuning::for_cpu::<f32>(8192).triangle, 16, 32, 64];
        for variant in variants() {
            for base in bases {
                let count = count(&variant, 8192, base);
                let share = count.products as f64 / (count.products + count.bases) as f64;
                assert!(share >= 0.95, "{share} with a base of {base}");
            }
        }
    }
}
