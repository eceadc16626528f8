//! The base case of the recursion for solving:  X <- L^-1 X  by forward substitution, [`KERNEL_ROWS`] rows of X (n x w) at a time. Twin:
//! `shaders/trsm.wgsl`.
//!
//! The contributions of all rows above a block of rows are subtracted first, with sums in registers. Then, row by row, the contributions of
//! the rows above within the block are subtracted, and the row is divided by its diagonal entry.

use pulp::Simd;

use crate::{
    base::number::Scalar,
    cpu::{
        simd::lanes::{Lane, Lanes},
        triangular::{KERNEL_ROWS, Packed, REGISTERS},
    },
};

/// Solves for `x`, rows of [`REGISTERS`] registers. `triangle` holds -L off the diagonal, and reciprocals of the diagonal.
#[inline(always)]
pub(crate) fn trsm<T: Scalar, S: Simd>(lanes: Lanes<T, S>, triangle: &Packed<T>, x: &mut [T]) {
    let n = Lanes::<T, S>::N;
    let width = REGISTERS * n;
    assert_eq!(x.len(), triangle.ld * width);
    let x = x.as_mut_ptr();
    for p in (0..triangle.ld).step_by(KERNEL_ROWS) {
        let l = triangle.rows(p);
        let mut sums = [[lanes.zero(); REGISTERS]; KERNEL_ROWS];
        for (r, row) in sums.iter_mut().enumerate() {
            // SAFETY: rows 0..p + KERNEL_ROWS <= ld of `x` have `width` elements each (asserted above), REGISTERS registers of n.
            *row = unsafe { lanes.load_all(x.add((p + r) * width)) };
        }
        for (q, l) in l.chunks_exact(KERNEL_ROWS).enumerate().take(p) {
            // SAFETY: as above.
            let above: [Lane<T, S>; REGISTERS] = unsafe { lanes.load_all(x.add(q * width)) };
            for r in 0..KERNEL_ROWS {
                let l = lanes.splat(l[r]);
                for k in 0..REGISTERS {
                    sums[r][k] = lanes.mul_add(l, above[k], sums[r][k]);
                }
            }
        }
        for r in 0..KERNEL_ROWS {
            let (scale, reciprocal) = triangle.diagonal[p + r];
            let (scale, reciprocal) = (lanes.splat(scale), lanes.splat(reciprocal));
            let (solved, rest) = sums.split_at_mut(r);
            for (k, sum) in rest[0].iter_mut().enumerate() {
                for (s, solved) in solved.iter().enumerate() {
                    *sum = lanes.mul_add(lanes.splat(l[(p + s) * KERNEL_ROWS + r]), solved[k], *sum);
                }
                *sum = lanes.mul(lanes.mul(*sum, scale), reciprocal);
                // SAFETY: as above.
                unsafe { lanes.store(x.add((p + r) * width + k * n), *sum) };
            }
        }
    }
}
