//! X^H X over the rows of a leaf, with register blocking. [`by_columns`] is for contiguous columns, [`by_rows`] for contiguous rows.
//!
//! A group multiplies some columns V of X with columns of X at or right of them. On a machine with 32 registers, a real group is eight
//! columns of V by three registers or columns of X: 24 accumulators, for eleven loads per register of rows or per row. A complex accumulator
//! takes two registers, one for each part. Entries below the diagonal are unspecified.

use crate::cpu::simd::aligned::LINE_BYTES;

mod by_columns;
mod by_rows;

pub(crate) use by_columns::{AddColumns, padded_columns};
pub(crate) use by_rows::{AddRows, padded_row};

/// Most lanes of a double-precision register.
pub(crate) const LANES: usize = LINE_BYTES / size_of::<f64>();

#[cfg(test)]
mod tests {
    use faer::{Mat, MatRef, traits::ComplexField};
    use half::f16;
    use num_complex::Complex;
    use pulp::{Simd, WithSimd};

    use super::*;
    use crate::{
        base::number::{Number, Scalar},
        cpu::{qr::body::PADDING, storage::leading_dimension, tall::leaves::Wide},
    };

    /// X^H X of `a`, leaf by leaf, by rows or by columns.
    fn squares<T: Number, S: Simd>(simd: S, a: MatRef<'_, T>, in_leaf: usize, by_rows: bool) -> Mat<Wide<T>> {
        let (m, n) = a.shape();
        let leaves = (0..m).step_by(in_leaf).map(|start| (start, m.min(start + in_leaf)));
        let leaves = leaves.map(|(start, end)| (a.subrows(start, end - start), a.subrows(end, in_leaf.min(m - end))));
        let zero = Wide::<T>::zero_impl();
        if by_rows {
            let ld = padded_row(n) + 8;
            let (mut leaf, mut sums) = (vec![zero; ld * in_leaf], vec![zero; ld * padded_row(n)]);
            leaves.for_each(|(rows, next)| {
                AddRows { rows, leaf: &mut leaf, ld, sums: &mut sums, next }.with_simd(simd);
            });
            return Mat::from_fn(n, n, |i, j| sums[i * ld + j]);
        }
        let ld = leading_dimension::<Wide<T>>(in_leaf.next_multiple_of(PADDING)).unwrap();
        let (mut leaf, mut sums) = (vec![zero; ld * padded_columns(n)], Mat::zeros(n, n));
        leaves.for_each(|(rows, next)| {
            AddColumns { rows, leaf: &mut leaf, ld, sums: &mut sums, next }.with_simd(simd);
        });
        sums
    }

    /// Entry (i, j): small integers in both parts.
    fn entry<T: Number>(i: usize, j: usize) -> T {
        let part = |k: usize| ((i * 7 + j * 13 + i * j * k) % 9) as f64 - 4.0;
        T::from_complex(Complex::new(part(3), part(5)))
    }

    /// Entries are integers, so sums are exact in any order. On and above the diagonal X^H X equals its definition, in every memory order,
    /// also for column counts that are no multiple of registers or groups, and for leaves whose rows are no multiple of registers.
    fn exact<T: Number, S: Simd>(simd: S) {
        for (m, n, in_leaf) in [
            (5, 1, 16),
            (100, 2, 32),
            (70, 3, 64),
            (97, 7, 48),
            (64, 8, 64),
            (40, 9, 16),
            (130, 13, 64),
            (33, 31, 32),
            (48, 66, 16),
            (17, 100, 16),
        ] {
            let (a, b) = (Mat::from_fn(m, n, entry::<T>), Mat::from_fn(n, m, |j, i| entry::<T>(i, j)));
            let gaps = Mat::from_fn(2 * m, n, |i, j| entry::<T>(i / 2, j));
            // SAFETY: every second row of 2 m.
            let gaps = unsafe { MatRef::from_raw_parts(gaps.as_ptr(), m, n, 2, gaps.col_stride()) };
            let wide = |i: usize, j: usize| entry::<T>(i, j).widen().to_wide();
            let product = |i: usize, j: usize| {
                (0..m).fold(Wide::<T>::zero_impl(), |sum, k| sum + Wide::<T>::conj_impl(&wide(k, i)) * wide(k, j))
            };
            let want = Mat::from_fn(n, n, product);
            for by_rows in [false, true] {
                for a in [a.as_ref(), b.transpose(), gaps] {
                    let got = squares(simd, a, in_leaf, by_rows);
                    for (i, j) in (0..n).flat_map(|j| (0..=j).map(move |i| (i, j))) {
                        assert_eq!(got[(i, j)], want[(i, j)], "{} {m} x {n}, {in_leaf} {by_rows}: ({i}, {j})", T::NAME);
                    }
                }
            }
        }
    }

    /// With every instruction set of the machine: they differ in the width and the number of registers.
    fn exact_everywhere<T: Number>() {
        exact::<T, _>(pulp::Scalar::new());
        #[cfg(target_arch = "x86_64")]
        {
            pulp::x86::V3::try_new().into_iter().for_each(exact::<T, _>);
            #[cfg(feature = "avx512")]
            pulp::x86::V4::try_new().into_iter().for_each(exact::<T, _>);
        }
        #[cfg(target_arch = "aarch64")]
        pulp::aarch64::Neon::try_new().into_iter().for_each(exact::<T, _>);
    }

    #[test]
    fn squares_of_integers_are_exact() {
        exact_everywhere::<f64>();
        exact_everywhere::<f32>();
        exact_everywhere::<f16>();
        exact_everywhere::<Complex<f64>>();
        exact_everywhere::<Complex<f32>>();
    }
}
