//! Passes over the rows of a least squares problem. Each multiplies by A and by A^H, and reads A once.
//!
//! ```text
//! residual   r = b - A x    A^H r    ||r||
//! product    q = A p        A^H q    ||q||
//! ```
//!
//! r and q are never stored: a block of rows stays in the cache between its two products. All arithmetic is in double precision.

use std::{ops::Range, sync::Arc};

use faer::{
    Accum, Mat, MatMut, MatRef, Par,
    linalg::matmul::matmul,
    prelude::{Reborrow, ReborrowMut},
    traits::ComplexField,
};

use crate::{
    algo::fixed::Multiply,
    base::{
        error::Result,
        number::{Number, Re, RealElement, Scalar},
        watch::Watch,
    },
    cpu::{
        one_stage::products::{combination, dots},
        simd::{
            aligned::Aligned,
            convert::{from_entries, scaled_to_wide},
        },
        tall::{
            leaves::Wide,
            leaves::{RUNS, in_runs},
        },
    },
};

/// Entries of a block of rows: a quarter of an L2 cache of 1 MiB.
const BLOCK: usize = 1 << 15;
/// Fewest and most rows of a block.
const BLOCK_ROWS: Range<usize> = 64..512;
/// Fewest entries of a run. A run is one task.
const RUN: usize = 1 << 17;
/// With more columns than this the products are faer's, of matrices.
const VECTORS: usize = 6;
/// Scales from 1 / `MODERATE` to `MODERATE` multiply the vectors in place of the matrix: no entry of a vector that counts underflows.
const MODERATE: f64 = f64::from_bits((1023 + 256) << 52);

/// A least squares problem: the X with the least ||s A X - t B||^2 + `ridge` ||X||^2, for powers of two s and t.
pub(crate) struct System<'a, T: Number> {
    /// A, m x n.
    pub a: MatRef<'a, T>,
    /// s, which brings A's entries near 1.
    pub scale: Re<T>,
    /// B, m x p.
    pub b: MatRef<'a, T>,
    /// t, likewise.
    pub b_scale: Re<T>,
    /// A nonnegative number.
    pub ridge: f64,
    pub watch: Watch,
    /// What multiplies by a real A in place of the host's passes.
    pub products: Option<Arc<dyn Multiply>>,
}

/// V = b - A X or A X, as far as it is needed.
pub(crate) struct Pass<W> {
    /// A^H V, n x p.
    pub gradient: Mat<W>,
    /// ||v_j||^2
    pub squares: Vec<f64>,
}

impl<T: Number> System<'_, T> {
    /// V = s A X, without the ridge.
    pub fn product(&self, x: MatRef<'_, Wide<T>>) -> Result<Pass<Wide<T>>> {
        self.pass(x, false)
    }

    /// V = t B - s A X, without the ridge.
    pub fn residual(&self, x: MatRef<'_, Wide<T>>) -> Result<Pass<Wide<T>>> {
        self.pass(x, true)
    }

    fn pass(&self, x: MatRef<'_, Wide<T>>, residual: bool) -> Result<Pass<Wide<T>>> {
        if let Some(products) = &self.products {
            return self.pass_by(&**products, x, residual);
        }
        let ((m, n), p) = (self.a.shape(), x.ncols());
        let rows = (BLOCK / n.max(1)).clamp(BLOCK_ROWS.start, BLOCK_ROWS.end);
        let in_run = (RUN / n.max(1)).max(m / RUNS).max(1).next_multiple_of(rows);
        let parts = in_runs(m, in_run, |_: &mut Aligned<Wide<T>>, run: Range<usize>| {
            let mut work = Work::<T>::new(self, x, rows.min(run.len()), residual);
            for start in run.clone().step_by(rows) {
                work.block(start..run.end.min(start + rows));
            }
            self.watch.did(4 * (run.len() * n) as u64 * p as u64)?;
            Ok(Pass { gradient: work.gradient, squares: work.squares })
        })?;
        let mut sum = Pass { gradient: Mat::zeros(n, p), squares: vec![0.0; p] };
        for Pass { gradient, squares } in parts {
            sum.gradient += gradient;
            sum.squares.iter_mut().zip(squares).for_each(|(sum, square)| *sum += square);
        }
        Ok(sum)
    }

    /// The same by two products with a real A.
    fn pass_by(&self, products: &dyn Multiply, x: MatRef<'_, Wide<T>>, residual: bool) -> Result<Pass<Wide<T>>> {
        let ((m, n), p) = (self.a.shape(), x.ncols());
        let (exponent, b_scale) = (self.scale.to_double().log2() as i32, self.b_scale.to_double());
        let x = from_entries(n, p, |i, j| x[(i, j)].to_complex().re);
        let mut v = products.multiply(x.as_ref(), false, exponent)?;
        if residual {
            v = from_entries(m, p, |i, j| self.b[(i, j)].to_complex().re * b_scale - v[(i, j)]);
        }
        let gradient = products.multiply(v.as_ref(), true, exponent)?;
        self.watch.did(4 * (m * n) as u64 * p as u64)?;
        Ok(Pass {
            gradient: from_entries(n, p, |i, j| Wide::<T>::from_complex(gradient[(i, j)].into())),
            squares: v.col_iter().map(|column| column.squared_norm_l2()).collect(),
        })
    }
}

/// The sums of a run of rows, and its workspace.
struct Work<'a, T: Number> {
    system: &'a System<'a, T>,
    /// X, or with a negative sign for a residual; conjugated for the products of vectors; multiplied by the scale if A is not.
    x: Mat<Wide<T>>,
    residual: bool,
    /// Whether A is read where it is.
    direct: bool,
    block: Mat<Wide<T>>,
    v: Mat<Wide<T>>,
    product: Mat<Wide<T>>,
    gradient: Mat<Wide<T>>,
    squares: Vec<f64>,
}

impl<'a, T: Number> Work<'a, T> {
    fn new(system: &'a System<'a, T>, x: MatRef<'_, Wide<T>>, rows: usize, residual: bool) -> Self {
        let ((n, p), scale) = (x.shape(), system.scale.to_double());
        let contiguous = system.a.row_stride() == 1 || system.a.col_stride() == 1;
        let moderate = (1.0 / MODERATE..=MODERATE).contains(&scale);
        let direct = T::Scalar::IS_DOUBLE && !T::IS_HALF && contiguous && moderate && p <= VECTORS;
        let factor = if residual { -1.0 } else { 1.0 } * if direct { scale } else { 1.0 };
        let entry = |i: usize, j: usize| {
            let x = x[(i, j)].times(factor);
            if p <= VECTORS { Wide::<T>::conj_impl(&x) } else { x }
        };
        Work {
            system,
            x: from_entries(n, p, entry),
            residual,
            direct,
            block: if direct { Mat::zeros(0, 0) } else { Mat::zeros(rows, n) },
            v: Mat::zeros(rows, p),
            product: Mat::zeros(rows.max(n), 1),
            gradient: Mat::zeros(n, p),
            squares: vec![0.0; p],
        }
    }

    /// Adds the products of some rows.
    fn block(&mut self, rows: Range<usize>) {
        let &System { a, scale, b, b_scale, .. } = self.system;
        let (n, p) = self.x.shape();
        let (scale, b_scale) = (scale.to_double(), b_scale.to_double());
        let a = a.subrows(rows.start, rows.len());
        let mut v = self.v.as_mut().subrows_mut(0, rows.len());
        if self.residual {
            scaled_to_wide(b.subrows(rows.start, rows.len()), v.rb_mut(), b_scale);
        } else {
            v.fill(Wide::<T>::zero_impl());
        }
        if self.direct {
            products_with::<T>(a, self.x.as_ref(), &mut self.product, v.rb_mut(), self.gradient.as_mut(), scale);
        } else {
            let mut block = self.block.as_mut().subrows_mut(0, rows.len());
            scaled_to_wide(a, block.rb_mut(), scale);
            let (block, one) = (block.rb(), Wide::<T>::one_impl());
            if p <= VECTORS {
                products_with::<Wide<T>>(block, self.x.as_ref(), &mut self.product, v.rb_mut(), self.gradient.as_mut(), 1.0);
            } else if n > 0 {
                matmul(v.rb_mut(), Accum::Add, block, self.x.as_ref(), one, Par::Seq);
                matmul(self.gradient.as_mut(), Accum::Add, block.adjoint(), v.rb(), one, Par::Seq);
            }
        }
        for (square, column) in self.squares.iter_mut().zip(v.rb().col_iter()) {
            *square += column.iter().map(|x| x.to_complex().norm_sqr()).sum::<f64>();
        }
    }
}

/// V <- V + A conj(X), and then G <- G + `scale` A^H V, column by column. A's columns or its rows are contiguous. `S` is `W` but in name.
fn products_with<S: Number>(
    a: MatRef<'_, S>,
    x: MatRef<'_, Wide<S>>,
    product: &mut Mat<Wide<S>>,
    v: MatMut<'_, Wide<S>>,
    mut gradient: MatMut<'_, Wide<S>>,
    scale: f64,
) {
    let (m, n) = a.shape();
    let by_columns = a.row_stride() == 1;
    for (j, v) in v.col_iter_mut().enumerate() {
        let (Some(v), Some(x)) = (v.try_as_col_major_mut(), x.col(j).try_as_col_major()) else { return };
        let v = v.as_slice_mut();
        let product = product.col_as_slice_mut(0);
        {
            let x: &[S::Scalar] = bytemuck::cast_slice(x.as_slice());
            let to: &mut [S::Scalar] = bytemuck::cast_slice_mut(&mut product[..m]);
            if by_columns { combination(a, x, to) } else { dots(a.transpose(), x, to) }
        }
        v.iter_mut().zip(&product[..m]).for_each(|(v, product)| *v += *product);
        {
            let v: &[S::Scalar] = bytemuck::cast_slice(v);
            let to: &mut [S::Scalar] = bytemuck::cast_slice_mut(&mut product[..n]);
            if by_columns { dots(a, v, to) } else { combination(a.transpose(), v, to) }
        }
        // v^H a_j is the conjugate of a_j^H v.
        let gradient = gradient.rb_mut().col_mut(j).iter_mut();
        gradient.zip(&product[..n]).for_each(|(sum, x)| *sum += Wide::<S>::conj_impl(x).times(scale));
    }
}

#[cfg(test)]
mod tests {
    use half::f16;
    use num_complex::Complex;

    use super::*;

    fn noise(i: usize, j: usize) -> f64 {
        let z = ((i as u64) << 32 | j as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (z ^ z >> 27) as f64 / 2f64.powi(63) - 1.0
    }

    /// The products of every pass are those of the matrices, in any memory order, for a scale that is applied to A and one that is applied
    /// to the vectors, and for one, few and many columns. Bound: m n eps times the largest entries, which are at most n in V.
    fn passes_of<T: Number>() {
        for (m, n, p) in [(1, 1, 1), (700, 5, 2), (1500, 130, 1), (90, 40, 9), (5, 0, 2), (40, 3, 0)] {
            let entry = |i: usize, j: usize| T::from_complex(Complex::new(noise(i, j), noise(i, j + n + 1)));
            let (a, turned) = (Mat::from_fn(m, n, entry), Mat::from_fn(n, m, |j, i| entry(i, j)));
            let spread = Mat::from_fn(2 * m, n, |i, j| entry(i / 2, j));
            // SAFETY: rows 0, 2, 4 .. of `spread`, of which there are m.
            let spread = unsafe { MatRef::from_raw_parts(spread.as_ptr(), m, n, 2, spread.col_stride()) };
            let b = Mat::from_fn(m, p, |i, j| entry(i + 7, j + 3));
            let x = Mat::<Wide<T>>::from_fn(n, p, |i, j| Wide::<T>::from_complex(Complex::new(noise(j, i), noise(i, i + j))));
            for (a, scale) in [(a.as_ref(), 0.5), (turned.transpose(), 0.5), (spread, 1.0), (a.as_ref(), 2f64.powi(-10))] {
                let (scale, b_scale) = (Re::<T>::from_double(scale), Re::<T>::from_double(0.25));
                let system = System { a, scale, b: b.as_ref(), b_scale, ridge: 0.0, watch: Watch::default(), products: None };
                let wide = |a: MatRef<'_, T>, by: Re<T>| {
                    Mat::from_fn(a.nrows(), a.ncols(), |i, j| a[(i, j)].widen().to_wide().times(by.to_double()))
                };
                let (wide_a, wide_b) = (wide(a, scale), wide(b.as_ref(), b_scale));
                let product = &wide_a * &x;
                for (pass, v) in [(system.product(x.as_ref()), product.clone()), (system.residual(x.as_ref()), wide_b - product)]
                {
                    let (Pass { gradient, squares }, want) = (pass.unwrap(), wide_a.adjoint() * &v);
                    let bound = (m * n.max(1) * n.max(1)) as f64 * f64::EPSILON;
                    assert!((&gradient - &want).norm_max() <= bound, "{} {m} x {n}, {p}", T::NAME);
                    let of_columns = v.col_iter().map(|column| column.squared_norm_l2());
                    assert!(squares.iter().zip(of_columns).all(|(found, want)| (found - want).abs() <= bound * n.max(1) as f64));
                    assert_eq!((gradient.shape(), squares.len()), ((n, p), p));
                }
            }
        }
    }

    #[test]
    fn passes_are_products() {
        passes_of::<f16>();
        passes_of::<f32>();
        passes_of::<f64>();
        passes_of::<Complex<f32>>();
        passes_of::<Complex<f64>>();
    }
}
