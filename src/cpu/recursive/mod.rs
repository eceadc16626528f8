//! The operations of the recursive QR factorisation. Products by low precision are computed bit for bit as a software driver of cooperative
//! matrices computes them.

pub(crate) mod coop_gemm;
pub(crate) mod slice_lines;

use std::future::ready;

use faer::{Accum, Mat, MatMut, MatRef, linalg::matmul::matmul};

use crate::{
    algo::{
        reflectors::{form_factor, keep_factor},
        to_band::triangular_factor,
    },
    base::{
        error::{Result, room_for},
        pool::all_threads,
    },
    cpu::{
        kernels::CpuKernels,
        recursive::{coop_gemm::coop_gemm, slice_lines::slice_lines},
        tall::reconstruct::{Reflectors as Reconstructed, reconstruct},
    },
    tile::{
        kernels::Transfers,
        products::{Block, Into, Operand, Panel, Products, RecursiveKernels, Reflectors},
        tuning::Tuning,
    },
};

/// The operations on the CPU, on all threads of the pool.
pub(crate) struct CpuRecursive {
    pub tuning: Tuning,
}

fn part<'a>(a: &'a Mat<f32>, Block { row, col, rows, cols }: Block) -> MatRef<'a, f32> {
    a.as_ref().submatrix(row, col, rows, cols)
}

fn part_mut<'a>(a: &'a mut Mat<f32>, Block { row, col, rows, cols }: Block) -> MatMut<'a, f32> {
    a.as_mut().submatrix_mut(row, col, rows, cols)
}

fn operand<'a>(operand: &Operand<'a, Mat<f32>>) -> MatRef<'a, f32> {
    let part = part(operand.of, operand.block);
    if operand.transposed { part.transpose() } else { part }
}

impl CpuRecursive {
    /// R, V and T of a panel (m x w, m >= w): the thin Q of the panel tree, and LAPACK's form from it.
    fn factor(&self, panel: MatRef<'_, f32>) -> Result<(Mat<f32>, Reconstructed<f32>)> {
        let (m, w) = panel.shape();
        let kernels = CpuKernels::<f32>::new(&self.tuning)?;
        let mut a = kernels.upload(panel, 1.0)?;
        keep_factor(&kernels, &mut a, (m, w), &self.tuning)?;
        triangular_factor(&kernels, &mut a, m, w, &self.tuning)?;
        let mut q = kernels.upload(Mat::<f32>::identity(m, w).as_ref(), 1.0)?;
        form_factor(&kernels, &a, (m, w), &self.tuning, &mut q)?;
        let (r, reflectors) = (kernels.download(&a)?, reconstruct(kernels.download(&q)?));
        Ok((Mat::from_fn(w, w, |i, j| if i <= j { r[(i, j)] * reflectors.signs[i] } else { 0.0 }), reflectors))
    }
}

impl RecursiveKernels for CpuRecursive {
    const IN_POOL: bool = true;

    type Matrix = Mat<f32>;

    fn zeros(&self, rows: usize, cols: usize) -> Result<Mat<f32>> {
        room_for::<f32>("reflectors", rows, cols, 1)?;
        Ok(Mat::zeros(rows, cols))
    }

    fn upload(&self, a: MatRef<'_, f32>) -> Result<Mat<f32>> {
        room_for::<f32>("the matrix", a.nrows(), a.ncols(), 1)?;
        Ok(a.to_owned())
    }

    fn download(&self, a: &Mat<f32>, rows: usize) -> impl Future<Output = Result<Mat<f32>>> + Send {
        ready(Ok(a.as_ref().subrows(0, rows).to_owned()))
    }

    fn product(
        &self,
        products: Products,
        m: Operand<'_, Mat<f32>>,
        x: Operand<'_, Mat<f32>>,
        (c, block): (&mut Mat<f32>, Block),
        into: Into,
    ) -> Result<()> {
        let (m, x, mut c) = (operand(&m), operand(&x), part_mut(c, block));
        if products != Products::Native {
            coop_gemm(&slice_lines(m, products), &slice_lines(x.transpose(), products), c, into);
            return Ok(());
        }
        let (accum, alpha) = match into {
            Into::Replaced => (Accum::Replace, 1.0),
            Into::Negated => (Accum::Replace, -1.0),
            Into::Subtracted => (Accum::Add, -1.0),
        };
        matmul(c.as_mut(), accum, m, x, alpha, all_threads());
        Ok(())
    }

    fn copy(&self, from: (&Mat<f32>, Block), to: (&mut Mat<f32>, Block)) -> Result<()> {
        part_mut(to.0, to.1).copy_from(part(from.0, from.1));
        Ok(())
    }

    fn panel(
        &self,
        a: &mut Mat<f32>,
        to: &mut Reflectors<Mat<f32>>,
        Panel { cols, block }: &Panel,
        rows: usize,
    ) -> impl Future<Output = Result<()>> + Send {
        let below = Block::new(cols.start..rows, cols.clone());
        let square = Block { rows: cols.len(), ..below };
        let factored = self.factor(part(a, below)).map(|(r, Reconstructed { v, t, .. })| {
            part_mut(a, square).copy_from(&r);
            part_mut(&mut to.v, below).copy_from(&v);
            part_mut(&mut to.t, Block::new(cols.start - block..cols.end - block, cols.clone())).copy_from(&t);
        });
        ready(factored)
    }
}

#[cfg(test)]
mod tests {
    use pollster::block_on;

    use super::*;
    use crate::{
        algo::recursive::Recursive,
        base::{blas::Op, watch::Watch},
        tile::products::Recursion,
    };

    /// ||A - Q R|| / ||A|| and ||I - Q^T Q||, both in the Frobenius norm and in units of max(m, n) eps of the products: at most 1, for all shapes and
    /// several depths of recursion. The errors grow with the square root of the size, so the small ones say most; 4 is the least size.
    fn ratio(products: Products, (m, n): (usize, usize), recursion: Recursion) -> f64 {
        let a = Mat::from_fn(m, n, |i, j| (((7 * i * i + 13 * j + 3 * i * j) as f64).sin() * f64::from(power(j))) as f32);
        let kernels = CpuRecursive { tuning: Tuning::for_cpu::<f32>(n).tile_size(8).leaf(24) };
        let (r, q) = block_on(Recursive::factor(kernels, a.as_ref(), products, recursion, &Watch::default())).unwrap();
        let k = m.min(n);
        let q = block_on(q.apply(Op::NoTrans, Mat::<f32>::identity(m, k).as_ref())).unwrap();
        let wide = |a: &Mat<f32>| Mat::from_fn(a.nrows(), a.ncols(), |i, j| f64::from(a[(i, j)]));
        let upper = Mat::from_fn(k, n, |i, j| if i <= j { f64::from(r[(i, j)]) } else { 0.0 });
        let (a, q) = (wide(&a), wide(&q));
        // Each column relative to its own norm.
        let residual = &a - &q * upper;
        let of_columns = (0..n).map(|j| residual.col(j).norm_l2() / a.col(j).norm_l2()).fold(0.0, f64::max);
        let orthogonal = (q.transpose() * &q - Mat::<f64>::identity(k, k)).norm_l2();
        of_columns.max(orthogonal) / ((m.max(n) as f64).max(4.0) * products.epsilon())
    }

    /// Columns of lengths that f16 cannot hold side by side.
    fn power(j: usize) -> f32 {
        crate::tile::products::power_of_two(-((5 * j % 41) as i32))
    }

    #[test]
    fn factorisations() {
        let mut worst = [0.0f64; 3];
        for shape in [(1, 1), (5, 1), (1, 5), (20, 20), (61, 40), (40, 61), (90, 90), (200, 33)] {
            for recursion in [Recursion { panel: 8, merged: 8 }, Recursion { panel: 8, merged: 32 }, Recursion::DEFAULT] {
                for (products, worst) in [Products::Native, Products::Split, Products::Half].into_iter().zip(&mut worst) {
                    let ratio = ratio(products, shape, recursion);
                    assert!(ratio <= 1.0, "{products} {shape:?} {recursion:?}: {ratio}");
                    *worst = worst.max(ratio);
                }
            }
        }
        println!("worst ratios: native {:.3}, split {:.3}, half {:.3}", worst[0], worst[1], worst[2]);
    }
}
