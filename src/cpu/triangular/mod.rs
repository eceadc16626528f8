//! The triangular operations on the CPU. The columns of B are distributed over threads. Each thread runs the recursion on its own, with
//! faer's matrix product.
//!
//! A base kernel copies its triangle of M, and a few columns of B at a time, to contiguous memory. There a row of these columns fills SIMD
//! registers. The memory order of A and B affects only the copies.

mod trmm;
mod trsm;

use faer::prelude::{Reborrow, ReborrowMut};
use faer::{
    Accum, Conj, MatMut, MatRef, Par,
    linalg::matmul::matmul_with_conj,
    traits::{ComplexField, SimdArch},
};
use num_traits::{Float, Zero};
use pulp::{Simd, WithSimd};

use std::ops::Range;

use crate::{
    algo::triangular::{Factor, Operation, TriangularKernels, Variant, run},
    base::{
        error::{Result, SvdError},
        number::{Number, Re, RealElement, Scalar},
        parallel::{col_parts, each, map_each, processors, threads},
    },
    cpu::{
        simd::{
            aligned::{Aligned, zeros},
            lanes::{Lane, Lanes},
        },
        triangular::{trmm::trmm, trsm::trsm},
    },
};

/// Fewest columns of a thread. Narrower products are summed in another order, and values would depend on the number of threads: see
/// `cpu/qr/unmqr.rs`.
const COLUMNS: usize = 32;

/// Rows that the base kernels compute together.
pub(crate) const KERNEL_ROWS: usize = 4;

/// Registers that a row of the copy of B fills.
pub(crate) const REGISTERS: usize = 2;

/// Bytes of the widest register, or pair of registers (complex types).
const REGISTER_BYTES: usize = 128;

/// B <- alpha M B or B <- alpha M^-1 B, as `variant` says. Triangles of order `base` go to the base kernels. Shapes match, and neither
/// matrix is empty.
pub(crate) fn triangular<T: Number>(
    variant: &Variant,
    alpha: T,
    a: MatRef<'_, T>,
    mut b: MatMut<'_, T>,
    base: usize,
) -> Result<()> {
    let alpha = alpha.widen();
    if let (Some(a), Some(b)) = (T::as_scalars_ref(a), T::as_scalars(b.rb_mut())) {
        return in_scalars(variant, alpha, a, b, base);
    }
    // Copies in the type of the arithmetic: the triangle of A, and all of B, which is rounded back at the end.
    let (order, rows, cols) = (a.nrows(), b.nrows(), b.ncols());
    let copy = |len: Option<usize>| match len {
        Some(len) => zeros::<T::Scalar>("copy of the matrix", len),
        None => Err(SvdError::invalid("matrix", "its size overflows the address space")),
    };
    let (mut wide_a, mut wide_b) = (copy(order.checked_mul(order))?, copy(rows.checked_mul(cols))?);
    each(wide_a.chunks_mut(order).enumerate(), |(j, column)| {
        for (i, to) in column.iter_mut().enumerate().filter(|&(i, _)| variant.refers_to(i, j)) {
            *to = a[(i, j)].widen();
        }
    });
    let source = b.rb();
    each(wide_b.chunks_mut(rows).enumerate(), |(j, column)| {
        column.iter_mut().enumerate().for_each(|(i, to)| *to = source[(i, j)].widen());
    });
    let a = MatRef::from_column_major_slice(&wide_a, order, order);
    in_scalars(variant, alpha, a, MatMut::from_column_major_slice_mut(&mut wide_b, rows, cols), base)?;
    each(b.col_iter_mut().zip(wide_b.chunks(rows)), |(to, column)| {
        to.iter_mut().zip(column).for_each(|(to, &x)| *to = T::narrow(x));
    });
    Ok(())
}

/// [`triangular`] in the type of the arithmetic.
fn in_scalars<T: Scalar>(variant: &Variant, alpha: T, a: MatRef<'_, T>, b: MatMut<'_, T>, base: usize) -> Result<()> {
    let m = if variant.transposes_a() { a.transpose() } else { a };
    let b = if variant.transposes_b() { b.transpose_mut() } else { b };
    let (order, cols) = b.shape();
    let base = base.min(order);
    // faer's threads spin while they wait.
    let threads = threads().min(processors());
    let panels = (cols / COLUMNS).clamp(1, threads);
    // If there are too few columns for all threads, several threads share each product.
    #[cfg(not(target_arch = "wasm32"))]
    let par = if panels == threads { Par::Seq } else { Par::rayon(threads.div_ceil(panels)) };
    #[cfg(target_arch = "wasm32")]
    let par = Par::Seq;
    let results = map_each(col_parts(b, panels), |b| {
        let mut kernels = CpuTriangular::new(variant, alpha, m, b, base, par)?;
        run(&mut kernels, variant, 0..order, base, Factor::Alpha)
    });
    results.into_iter().collect()
}

/// M, some columns of B, and workspace for the copies of the base kernels.
struct CpuTriangular<'a, T> {
    variant: &'a Variant,
    alpha: T,
    m: MatRef<'a, T>,
    b: MatMut<'a, T>,
    par: Par,
    triangle: Packed<T>,
    rows: Aligned<T>,
}

/// A base kernel's copy of its triangle, with rows in the order of substitution. It is lower triangular, also if M is upper triangular.
///
/// Row p, column q < p is at `p / KERNEL_ROWS * KERNEL_ROWS * ld + q * KERNEL_ROWS + p % KERNEL_ROWS`: the entries of [`KERNEL_ROWS`] rows in a column are contiguous. The
/// order is padded to a multiple of [`KERNEL_ROWS`] with zero rows.
pub(crate) struct Packed<T> {
    entries: Aligned<T>,
    /// Order, rounded up to a multiple of [`KERNEL_ROWS`].
    pub ld: usize,
    /// For each diagonal entry d: (d, 1) to multiply. To solve: (s, 1 / (s d)) with a power of two s, where neither overflows.
    pub diagonal: Vec<(T, T)>,
}

impl<T: Scalar> Packed<T> {
    /// Rows p .. p + KERNEL_ROWS, columns 0 .. p + KERNEL_ROWS, for p a multiple of [`KERNEL_ROWS`].
    pub fn rows(&self, p: usize) -> &[T] {
        &self.entries[p * self.ld..][..(p + KERNEL_ROWS) * KERNEL_ROWS]
    }

    /// Copies a triangle `m`, times `sign` off the diagonal.
    fn fill(&mut self, variant: &Variant, m: MatRef<'_, T>, sign: T) {
        let order = m.nrows();
        self.ld = order.next_multiple_of(KERNEL_ROWS);
        let conjugate = |x: T| if variant.conjugates() { T::conj_impl(&x) } else { x };
        self.entries[..self.ld * self.ld].fill(T::zero());
        for p in 0..order {
            let (i, at) = (variant.row(order, p), p / KERNEL_ROWS * KERNEL_ROWS * self.ld + p % KERNEL_ROWS);
            for q in 0..p {
                self.entries[at + q * KERNEL_ROWS] = sign * conjugate(m[(i, variant.row(order, q))]);
            }
        }
        self.diagonal.clear();
        self.diagonal.extend((0..order).map(|p| variant.row(order, p)).map(|i| {
            let d = if variant.unit() { T::one() } else { conjugate(m[(i, i)]) };
            match variant.operation {
                Operation::Multiply => (d, T::one()),
                Operation::Solve => reciprocal(d),
            }
        }));
        self.diagonal.resize(self.ld, (T::one(), T::one()));
    }
}

/// (s, 1 / (s d)) with s a power of two, so that x / d = (x s) (1 / (s d)) wherever x / d is in range. d is finite and not zero.
fn reciprocal<T: Scalar>(d: T) -> (T, T) {
    let size = d.magnitude().unwrap_or_else(Re::<T>::zero);
    let (mantissa, exponent, _) = Float::integer_decode(size);
    let e = i32::from(exponent) + 64 - mantissa.leading_zeros() as i32;
    let limit = Re::<T>::exponent_limit();
    // For exponents in the middle of the range s = 1, so the reciprocal of a power of two is exact. For others s d is near 1.
    let k = if e.abs() < limit / 2 { 0 } else { (-e).clamp(-limit, limit) };
    let s = Re::<T>::from_double(2f64.powi(k));
    (T::from_real_impl(&s), T::recip_impl(&d.times(s)))
}

impl<'a, T: Scalar> CpuTriangular<'a, T> {
    fn new(variant: &'a Variant, alpha: T, m: MatRef<'a, T>, b: MatMut<'a, T>, base: usize, par: Par) -> Result<Self> {
        let ld = base.next_multiple_of(KERNEL_ROWS);
        let size = ld.checked_mul(ld).ok_or_else(|| SvdError::invalid("triangle", format!("{base} is too large")))?;
        let entries = zeros("copy of a triangle", size)?;
        let rows = zeros("copy of rows", ld * REGISTERS * REGISTER_BYTES / size_of::<T>())?;
        Ok(CpuTriangular { variant, alpha, m, b, par, triangle: Packed { entries, ld, diagonal: Vec::with_capacity(ld) }, rows })
    }

    fn value(&self, factor: Factor) -> T {
        match factor {
            Factor::One => T::one(),
            Factor::MinusOne => -T::one(),
            Factor::Alpha => self.alpha,
        }
    }

    /// Runs a base kernel on `rows` of B.
    fn base(&mut self, operation: Operation, rows: Range<usize>, alpha: Factor) {
        let alpha = self.value(alpha);
        let sign = if operation == Operation::Solve { -T::one() } else { T::one() };
        let m = self.m.submatrix(rows.start, rows.start, rows.len(), rows.len());
        self.triangle.fill(self.variant, m, sign);
        let b = self.b.rb_mut().subrows_mut(rows.start, rows.len());
        let base = Base { operation, lower: self.variant.lower(), triangle: &self.triangle, alpha, b, work: &mut self.rows };
        <T as ComplexField>::Arch::default().dispatch(base);
    }
}

impl<T: Scalar> TriangularKernels for CpuTriangular<'_, T> {
    fn gemm(&mut self, target: Range<usize>, source: Range<usize>, alpha: Factor, beta: Factor) -> Result<()> {
        let conj = if self.variant.conjugates() { Conj::Yes } else { Conj::No };
        let m = self.m.submatrix(target.start, source.start, target.len(), source.len());
        let (alpha, scale) = (self.value(alpha), (beta != Factor::One).then(|| self.value(beta)));
        let (above, below) = self.b.rb_mut().split_at_row_mut(target.start.max(source.start));
        let source_first = source.start < target.start;
        let (above_rows, below_rows) = if source_first { (source, target) } else { (target, source) };
        let above = above.subrows_mut(above_rows.start, above_rows.len());
        let below = below.subrows_mut(0, below_rows.len());
        let (x, mut c) = if source_first { (above, below) } else { (below, above) };
        if let Some(scale) = scale.filter(|&scale| scale != T::one()) {
            multiply(c.rb_mut(), scale);
        }
        matmul_with_conj(c, Accum::Add, m, conj, x.rb(), Conj::No, alpha, self.par);
        Ok(())
    }

    fn trmm(&mut self, rows: Range<usize>, alpha: Factor) -> Result<()> {
        self.base(Operation::Multiply, rows, alpha);
        Ok(())
    }

    fn trsm(&mut self, rows: Range<usize>, alpha: Factor) -> Result<()> {
        self.base(Operation::Solve, rows, alpha);
        Ok(())
    }
}

/// C <- scale C
fn multiply<T: Scalar>(c: MatMut<'_, T>, scale: T) {
    let by_rows = c.col_stride().unsigned_abs() < c.row_stride().unsigned_abs();
    let c = if by_rows { c.transpose_mut() } else { c };
    c.col_iter_mut().for_each(|column| column.iter_mut().for_each(|x| *x *= scale));
}

/// A base kernel on all columns of `b`. It copies them to `work` and back, as many columns at a time as [`REGISTERS`] registers hold.
struct Base<'a, T> {
    operation: Operation,
    lower: bool,
    triangle: &'a Packed<T>,
    alpha: T,
    b: MatMut<'a, T>,
    work: &'a mut [T],
}

impl<T: Scalar> WithSimd for Base<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        const { assert!(size_of::<Lane<T, S>>() <= REGISTER_BYTES) }
        let lanes = Lanes::<T, S>::new(simd);
        let Base { operation, lower, triangle, alpha, b, work } = self;
        let width = REGISTERS * Lanes::<T, S>::N;
        let work = &mut work[..triangle.ld * width];
        // Rows in the order of substitution.
        let mut b = if lower { b } else { b.reverse_rows_mut() };
        work[b.nrows() * width..].fill(T::zero());
        let cols = b.ncols();
        for first in (0..cols).step_by(width) {
            let mut b = b.rb_mut().subcols_mut(first, width.min(cols - first));
            load(b.rb(), alpha, work, width);
            match operation {
                Operation::Multiply => trmm(lanes, triangle, work),
                Operation::Solve => trsm(lanes, triangle, work),
            }
            store(b.rb_mut(), work, width);
        }
    }
}

/// `work` <- alpha B, row-major, with zeros beyond B's columns.
#[inline(always)]
fn load<T: Scalar>(b: MatRef<'_, T>, alpha: T, work: &mut [T], width: usize) {
    if b.ncols() < width {
        work[..b.nrows() * width].fill(T::zero());
    }
    if b.col_stride() == 1 {
        for (i, to) in work.chunks_exact_mut(width).enumerate().take(b.nrows()) {
            let row = b.row(i).transpose();
            let row = row.try_as_col_major().expect("columns are side by side").as_slice();
            to.iter_mut().zip(row).for_each(|(to, &x)| *to = alpha * x);
        }
    } else {
        for (j, column) in b.col_iter().enumerate() {
            work[j..].iter_mut().step_by(width).zip(column.iter()).for_each(|(to, &x)| *to = alpha * x);
        }
    }
}

/// B <- `work`
#[inline(always)]
fn store<T: Scalar>(b: MatMut<'_, T>, work: &[T], width: usize) {
    if b.col_stride() == 1 {
        for (row, from) in b.row_iter_mut().zip(work.chunks_exact(width)) {
            let row = row.transpose_mut().try_as_col_major_mut().expect("columns are side by side").as_slice_mut();
            row.copy_from_slice(&from[..row.len()]);
        }
    } else {
        for (j, column) in b.col_iter_mut().enumerate() {
            column.iter_mut().zip(work[j..].iter().step_by(width)).for_each(|(to, &x)| *to = x);
        }
    }
}
