//! The twin of `slice_lines.wgsl`: the lines of an operand, scaled and rounded, or cut into slices.

use faer::{Mat, MatRef};

use crate::{
    base::parallel::map,
    tile::products::{EXACT_TERMS, Products, exponent, power_of_two, rounded, slices},
};

/// An operand of a product. Its lines are the rows of M, or the columns of X. Their entries are f16 numbers.
pub(crate) struct Sliced {
    /// For each slice a matrix of one line a row, with zeros up to a multiple of [`EXACT_TERMS`] columns.
    pub slices: Vec<Mat<f32>>,
    /// The power of two of each line.
    pub scales: Vec<f32>,
}

/// The slices, a line a row, and the scales of the rows of a matrix, for tests.
pub fn sliced_rows(a: MatRef<'_, f32>, products: Products) -> (Vec<Mat<f32>>, Vec<f32>) {
    let Sliced { slices, scales } = slice_lines(a, products);
    (slices, scales)
}

/// The slices of the rows of `lines`.
pub(crate) fn slice_lines(lines: MatRef<'_, f32>, products: Products) -> Sliced {
    let (count, terms) = lines.shape();
    let exponents = map(count, |i| exponent((0..terms).map(|k| lines[(i, k)].abs()).fold(0.0, f32::max)));
    let columns = terms.next_multiple_of(EXACT_TERMS);
    let cut = |x: f32| if products == Products::Half { [rounded(x), 0.0, 0.0] } else { slices(x) };
    let slices = (0..products.slices())
        .map(|s| {
            Mat::from_fn(count, columns, |i, k| if k < terms { cut(lines[(i, k)] * power_of_two(-exponents[i]))[s] } else { 0.0 })
        })
        .collect();
    Sliced { slices, scales: exponents.into_iter().map(power_of_two).collect() }
}
