//! The base case of the recursion for multiplication:  X <- L X,  [`KERNEL_ROWS`] rows of X (n x w) at a time, from the last to the first. Twin:
//! `shaders/trmm.wgsl`.
//!
//! A row is overwritten after all rows below it, which need its old value, have been computed.

use pulp::Simd;

use crate::{
    base::number::Scalar,
    cpu::{
        simd::lanes::{Lane, Lanes},
        triangular::{KERNEL_ROWS, Packed, REGISTERS},
    },
};

/// Multiplies `x`, rows of [`REGISTERS`] registers; `triangle` holds L.
#[inline(always)]
pub(crate) fn trmm<T: Scalar, S: Simd>(lanes: Lanes<T, S>, triangle: &Packed<T>, x: &mut [T]) {
    let n = Lanes::<T, S>::N;
    let width = REGISTERS * n;
    assert_eq!(x.len(), triangle.ld * width);
    let x = x.as_mut_ptr();
    for p in (0..triangle.ld).step_by(KERNEL_ROWS).rev() {
        let l = triangle.rows(p);
        let mut own = [[lanes.zero(); REGISTERS]; KERNEL_ROWS];
        for (r, row) in own.iter_mut().enumerate() {
            // SAFETY: rows 0..p + KERNEL_ROWS <= ld of `x` have `width` elements each (asserted above), REGISTERS registers of n.
            *row = unsafe { lanes.load_all(x.add((p + r) * width)) };
        }
        let mut sums = [[lanes.zero(); REGISTERS]; KERNEL_ROWS];
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
        for (r, sums) in sums.iter_mut().enumerate() {
            let diagonal = lanes.splat(triangle.diagonal[p + r].0);
            for (k, sum) in sums.iter_mut().enumerate() {
                for (s, own) in own.iter().enumerate().take(r) {
                    *sum = lanes.mul_add(lanes.splat(l[(p + s) * KERNEL_ROWS + r]), own[k], *sum);
                }
                *sum = lanes.mul_add(diagonal, own[r][k], *sum);
                // SAFETY: as above.
                unsafe { lanes.store(x.add((p + r) * width + k * n), *sum) };
            }
        }
    }
}
