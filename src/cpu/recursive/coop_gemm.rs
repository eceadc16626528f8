//! The twin of `coop_gemm.wgsl`: products of sliced operands, with the roundings of a software driver's cooperative matrices.

use faer::MatMut;

use crate::{
    base::parallel::each,
    cpu::recursive::slice_lines::Sliced,
    tile::products::{EXACT_TERMS, Into, SLICE_BITS, power_of_two},
};

/// Rows of C that are computed together, so that their sums stay in registers and their part of M in a cache.
const TILE_ROWS: usize = 64;

/// Terms of a cooperative matrix of a software driver (Mesa 26.1.6): it adds a fragment's terms one after the other, and their sum to the sum.
const FRAGMENT: usize = 8;

/// C <- M X, -M X or C - M X. The terms of an f16 product are exact, and are added in f32 by fragments. The slices of a split product are added
/// exactly in blocks of [`EXACT_TERMS`], whatever the order.
pub(crate) fn coop_gemm(m: &Sliced, x: &Sliced, c: MatMut<'_, f32>, into: Into) {
    each(c.col_iter_mut().enumerate(), |(j, mut column)| {
        let scale = x.scales[j];
        for first in (0..column.nrows()).step_by(TILE_ROWS) {
            let rows = TILE_ROWS.min(column.nrows() - first);
            let mut sum = [0.0f32; TILE_ROWS];
            if m.slices.len() == 1 {
                half(m, x, first, rows, j, &mut sum)
            } else {
                split(m, x, first, rows, j, &mut sum)
            }
            for i in 0..rows {
                let product = sum[i] * (m.scales[first + i] * scale);
                let c = &mut column[first + i];
                *c = match into {
                    Into::Replaced => product,
                    Into::Negated => -product,
                    Into::Subtracted => *c - product,
                };
            }
        }
    });
}

/// sum += M X for some rows of M and a column of X, in slices `of` and terms `k`.
fn add(
    m: &Sliced,
    x: &Sliced,
    of: (usize, usize),
    k: std::ops::Range<usize>,
    (first, rows, j): (usize, usize, usize),
    sum: &mut [f32; TILE_ROWS],
) {
    let (m, x) = (&m.slices[of.0], &x.slices[of.1]);
    for k in k {
        let factor = x[(j, k)];
        let column = &m.col_as_slice(k)[first..first + rows];
        for (sum, &entry) in sum.iter_mut().zip(column) {
            *sum += entry * factor;
        }
    }
}

fn half(m: &Sliced, x: &Sliced, first: usize, rows: usize, j: usize, sum: &mut [f32; TILE_ROWS]) {
    for start in (0..m.slices[0].ncols()).step_by(FRAGMENT) {
        let mut fragment = [0.0f32; TILE_ROWS];
        add(m, x, (0, 0), start..start + FRAGMENT, (first, rows, j), &mut fragment);
        sum.iter_mut().zip(fragment).for_each(|(sum, of_fragment)| *sum += of_fragment);
    }
}

fn split(m: &Sliced, x: &Sliced, first: usize, rows: usize, j: usize, sum: &mut [f32; TILE_ROWS]) {
    const LEVELS: [&[(usize, usize)]; 3] = [&[(0, 0)], &[(0, 1), (1, 0)], &[(0, 2), (1, 1), (2, 0)]];
    let unit = power_of_two(-SLICE_BITS);
    for start in (0..m.slices[0].ncols()).step_by(EXACT_TERMS) {
        let mut levels = [[0.0f32; TILE_ROWS]; 3];
        for (level, of) in levels.iter_mut().zip(LEVELS) {
            of.iter().for_each(|&of| add(m, x, of, start..start + EXACT_TERMS, (first, rows, j), level));
        }
        let [one, two, three] = levels;
        for (i, sum) in sum.iter_mut().enumerate() {
            *sum += one[i] + (two[i] + three[i] * unit) * unit;
        }
    }
}

#[cfg(test)]
mod tests {
    use faer::Mat;

    use super::*;
    use crate::{cpu::recursive::slice_lines::slice_lines, tile::products::Products};

    /// Numbers between -1 and 1, with `spread` powers of two below.
    fn noise(rows: usize, cols: usize, seed: u32, spread: i32) -> Mat<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 8
        };
        Mat::from_fn(rows, cols, |_, _| {
            let x = next() as f32 / (1u32 << 23) as f32 - 1.0;
            x * power_of_two(-((next() % (spread as u32 + 1)) as i32))
        })
    }

    fn product(products: Products, m: &Mat<f32>, x: &Mat<f32>) -> Mat<f32> {
        let mut c = Mat::zeros(m.nrows(), x.ncols());
        coop_gemm(&slice_lines(m.as_ref(), products), &slice_lines(x.transpose(), products), c.as_mut(), Into::Replaced);
        c
    }

    /// The largest error in units of what the precision permits for an entry: the largest terms of its row and its column, times sqrt(K).
    fn worst(products: Products, unit: f64, m: &Mat<f32>, x: &Mat<f32>) -> f64 {
        let c = product(products, m, x);
        let (rows, terms, cols) = (m.nrows(), m.ncols(), x.ncols());
        let largest = |of: &mut dyn Iterator<Item = f32>| f64::from(of.fold(0.0, |most: f32, x| most.max(x.abs())));
        let mut worst = 0.0f64;
        for (i, j) in (0..rows).flat_map(|i| (0..cols).map(move |j| (i, j))) {
            let exact: f64 = (0..terms).map(|k| f64::from(m[(i, k)]) * f64::from(x[(k, j)])).sum();
            let scale = largest(&mut (0..terms).map(|k| m[(i, k)])) * largest(&mut (0..terms).map(|k| x[(k, j)]));
            worst = worst.max((f64::from(c[(i, j)]) - exact).abs() / (unit * scale * (terms as f64).sqrt()));
        }
        worst
    }

    /// Split: a term has an error of 2^-27 from what the slices leave; of a sum of random signs, at most 1.5 sqrt(K), up to 32 blocks and their three
    /// levels have roundings of 2^-25 of a part of it: 4 units of 2^-24. Half: each factor has an error of 2^-11 at most: 2 units of 2^-11. Random
    /// numbers, and such of 20 powers of two.
    #[test]
    fn errors() {
        for (rows, terms, cols) in [(3, 1, 2), (70, 32, 9), (65, 100, 17), (20, 1000, 20)] {
            for spread in [0, 20] {
                let (m, x) = (noise(rows, terms, 1, spread), noise(terms, cols, 2, spread));
                for (products, unit) in [(Products::Split, 2f64.powi(-23)), (Products::Half, 2f64.powi(-11))] {
                    let worst = worst(products, unit, &m, &x);
                    assert!(worst <= 2.0, "{products} {rows} x {terms} x {cols}, spread {spread}: {worst}");
                }
            }
        }
    }

    /// A power of two for each row and each column changes the product by exactly these powers, far beyond the range of f16.
    #[test]
    fn powers_of_two() {
        let (m, x) = (noise(10, 50, 3, 4), noise(50, 8, 4, 4));
        let (of_row, of_col) = (|i: usize| power_of_two(7 * i as i32 - 40), |j: usize| power_of_two(30 - 9 * j as i32));
        let scaled_m = Mat::from_fn(10, 50, |i, k| m[(i, k)] * of_row(i));
        let scaled_x = Mat::from_fn(50, 8, |k, j| x[(k, j)] * of_col(j));
        for products in [Products::Split, Products::Half] {
            let (plain, scaled) = (product(products, &m, &x), product(products, &scaled_m, &scaled_x));
            for (i, j) in (0..10).flat_map(|i| (0..8).map(move |j| (i, j))) {
                assert_eq!(scaled[(i, j)], plain[(i, j)] * of_row(i) * of_col(j));
            }
        }
    }

    /// Split products do not depend on the order of the terms within a block: their sums are exact.
    #[test]
    fn split_sums_are_exact() {
        let (m, x) = (noise(40, 64, 5, 3), noise(64, 30, 6, 3));
        let turned = |k: usize| if k < 32 { 31 - k } else { 95 - k };
        let (other_m, other_x) = (Mat::from_fn(40, 64, |i, k| m[(i, turned(k))]), Mat::from_fn(64, 30, |k, j| x[(turned(k), j)]));
        assert_eq!(product(Products::Split, &m, &x), product(Products::Split, &other_m, &other_x));
        // Numbers of f16 whose products and sums are integers below 2^24 are multiplied exactly by either.
        let (m, x) = (Mat::from_fn(9, 40, |i, k| (i * k % 17) as f32 - 8.0), Mat::from_fn(40, 5, |k, j| (k + 3 * j) as f32));
        let exact = Mat::from_fn(9, 5, |i, j| (0..40).map(|k| m[(i, k)] * x[(k, j)]).sum::<f32>());
        for products in [Products::Split, Products::Half] {
            assert_eq!(product(products, &m, &x), exact);
        }
    }

    /// What becomes of C.
    #[test]
    fn into() {
        let (m, x) = (noise(5, 7, 7, 0), noise(7, 3, 8, 0));
        let plain = product(Products::Split, &m, &x);
        let (m, x) = (slice_lines(m.as_ref(), Products::Split), slice_lines(x.transpose(), Products::Split));
        let with = |into| {
            let mut c = Mat::full(5, 3, 2.0f32);
            coop_gemm(&m, &x, c.as_mut(), into);
            c
        };
        assert_eq!(with(Into::Negated), Mat::from_fn(5, 3, |i, j| -plain[(i, j)]));
        assert_eq!(with(Into::Subtracted), Mat::from_fn(5, 3, |i, j| 2.0 - plain[(i, j)]));
    }
}
