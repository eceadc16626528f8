//! The self-test of cooperative matrices: products of small integers, which must be exact, in both ways that the crate multiplies by them.

use faer::Mat;

use crate::{
    base::error::Result,
    gpu::{
        device::{
            context::{GpuContext, Waits},
            cooperative::{Cooperative, Found},
            stream::Manner,
        },
        kernels::recursive::GpuRecursive,
    },
    tile::{
        products::{Block, Into, Operand, Products, RecursiveKernels},
        tuning::Tuning,
    },
};

/// Rows, terms and columns of the self-test: more than one square of C in each direction, and several blocks of terms.
const SIZES: [usize; 3] = [70, 100, 75];

/// A product of the self-test: matrices of integers, whose sums are integers below 2^24, and so exact in f32 in any order.
#[derive(Clone, Copy, Debug)]
struct Trial {
    products: Products,
    /// Bits of the entries of M and of X.
    bits: [u32; 2],
    /// Entries (i, k) of M are zero unless i + k is a multiple of this.
    spacing: usize,
}

/// All slices: f16 holds 3 bits; 20 bits are three slices, of either matrix; 10 bits are two of both.
const TRIALS: [Trial; 4] = [
    Trial { products: Products::Half, bits: [3, 3], spacing: 1 },
    Trial { products: Products::Split, bits: [20, 1], spacing: 25 },
    Trial { products: Products::Split, bits: [1, 20], spacing: 25 },
    Trial { products: Products::Split, bits: [10, 10], spacing: 25 },
];

/// An integer of so many bits, of either sign, that depends on its position.
fn integer(i: usize, j: usize, bits: u32) -> f32 {
    let hash = ((i as u32).wrapping_mul(0x9E37_79B1) ^ (j as u32).wrapping_mul(0x85EB_CA77)).wrapping_mul(0xC2B2_AE3D);
    let modulus = (hash >> 8) % (1 << bits) + 1;
    if hash & 128 == 0 { modulus as f32 } else { -(modulus as f32) }
}

impl Trial {
    fn m(&self, i: usize, k: usize) -> f32 {
        if (i + k).is_multiple_of(self.spacing) { integer(i, k, self.bits[0]) } else { 0.0 }
    }

    fn x(&self, k: usize, j: usize) -> f32 {
        integer(k + 1000, j, self.bits[1])
    }

    fn exact(&self, i: usize, j: usize) -> f32 {
        (0..SIZES[1]).map(|k| self.m(i, k) * self.x(k, j)).sum()
    }

    /// Compares a product with the exact one: the first entry that differs.
    fn verdict(&self, found: &Mat<f32>) -> std::result::Result<(), String> {
        for (i, j) in (0..SIZES[0]).flat_map(|i| (0..SIZES[2]).map(move |j| (i, j))) {
            let exact = self.exact(i, j);
            if found[(i, j)] != exact {
                return Err(format!("entry ({i}, {j}) of a product is {}, but must be {exact}", found[(i, j)]));
            }
        }
        Ok(())
    }

    async fn product(&self, context: &GpuContext, cooperative: Cooperative) -> Result<Mat<f32>> {
        let [rows, terms, cols] = SIZES;
        let manner = Manner { waits: Waits::Awaited, ..Manner::default() };
        let kernels = GpuRecursive::with(context, cooperative, &Tuning::for_adapter::<f32>(context, terms), manner)?;
        let m = kernels.upload(Mat::from_fn(rows, terms, |i, k| self.m(i, k)).as_ref())?;
        let x = kernels.upload(Mat::from_fn(terms, cols, |k, j| self.x(k, j)).as_ref())?;
        let mut c = kernels.zeros(rows, cols)?;
        let all = |of, rows, cols| Operand { of, block: Block::new(0..rows, 0..cols), transposed: false };
        let into = (&mut c, Block::new(0..rows, 0..cols));
        kernels.product(self.products, all(&m, rows, terms), all(&x, terms, cols), into, Into::Replaced)?;
        kernels.download(&c, rows).await
    }
}

/// Multiplies integers by the cooperative matrices of the context. An error says what is wrong with them.
async fn self_test(context: &GpuContext, cooperative: Cooperative) -> std::result::Result<(), String> {
    for trial in TRIALS {
        let found = trial.product(context, cooperative).await.map_err(|error| error.to_string())?;
        let told =
            |wrong| format!("{} computes wrongly by cooperative matrices, {}: {wrong}", context.adapter_name(), trial.products);
        trial.verdict(&found).map_err(told)?;
    }
    Ok(())
}

/// Those of the adapter, if they pass the self-test.
pub(crate) async fn tested(context: &GpuContext, found: Found) -> Found {
    let tested = match found {
        Ok(cooperative) => self_test(context, cooperative).await.map(|()| cooperative),
        Err(reason) => Err(reason),
    };
    if let Err(reason) = &tested {
        log::warn!("svdvals-gpu has no cooperative matrices: {reason}");
    }
    tested
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tile::products::slices;

    /// The self-test refuses a product with any wrong entry, by the least that it can be wrong. Its exact products are below 2^24, and need the slices
    /// that they are for.
    #[test]
    fn wrong_products_are_refused() {
        for trial in TRIALS {
            let exact = Mat::from_fn(SIZES[0], SIZES[2], |i, j| trial.exact(i, j));
            assert_eq!(trial.verdict(&exact), Ok(()));
            assert!(exact.norm_max() < (1 << 24) as f32);
            for (i, j) in [(0, 0), (69, 74), (33, 17)] {
                for wrong in [exact[(i, j)] + 1.0, -exact[(i, j)] - 1.0, f32::NAN] {
                    let mut product = exact.clone();
                    product[(i, j)] = wrong;
                    assert!(trial.verdict(&product).is_err_and(|reason| reason.contains(&format!("({i}, {j})"))));
                }
            }
            let needs =
                |x: f32, bits: u32| slices(x / (1u32 << bits) as f32).iter().rposition(|&s| s != 0.0).map_or(0, |last| last + 1);
            let entries = || (0..SIZES[0]).flat_map(|i| (0..SIZES[1]).map(move |k| (i, k)));
            let of_m = entries().map(|(i, k)| needs(trial.m(i, k), trial.bits[0] + 1)).max();
            let of_x = entries().map(|(k, j)| needs(trial.x(k, j), trial.bits[1] + 1)).max();
            let of_bits = |bits: u32| Some(if bits < 9 { 1 } else { bits as usize / 9 + 1 });
            assert_eq!((of_m, of_x), (of_bits(trial.bits[0]), of_bits(trial.bits[1])), "{trial:?}");
        }
    }
}
