//! Cooperative matrices: whether the adapter has those of f16 with f32 sums, and the self-test before they are used.
//!
//! wgpu's interface is experimental, and drivers have computed wrong products. Therefore a context has them only on request, and only after it
//! has multiplied matrices of small integers exactly, in both ways that the crate uses.

use faer::Mat;
use wgpu::{Adapter, AdapterInfo, CooperativeMatrixProperties, CooperativeScalarType, Features};

use crate::{
    base::error::{Result, SvdError},
    gpu::{
        device::{
            context::{GpuContext, Waits},
            stream::Manner,
        },
        kernels::recursive::GpuRecursive,
    },
    tile::{
        products::{Block, Into, Operand, Products, RecursiveKernels},
        tuning::Tuning,
    },
};

/// The cooperative matrices of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cooperative {
    /// Their order: 8 or 16.
    pub order: usize,
    /// Threads of a subgroup, which computes one of them.
    pub threads: usize,
}

/// The features that the kernels need.
pub(crate) const FEATURES: Features = Features::EXPERIMENTAL_COOPERATIVE_MATRIX.union(Features::SHADER_F16);

impl Cooperative {
    /// Those of the adapter, or what it lacks.
    pub fn of(adapter: &Adapter) -> std::result::Result<Cooperative, String> {
        if !adapter.features().contains(FEATURES) {
            let lacks = FEATURES - adapter.features();
            return Err(format!("{} has no {lacks:?}", adapter.get_info().name));
        }
        Cooperative::among(&adapter.cooperative_matrix_properties(), &adapter.get_info())
    }

    /// The largest square ones with f16 factors and f32 sums.
    fn among(properties: &[CooperativeMatrixProperties], info: &AdapterInfo) -> std::result::Result<Cooperative, String> {
        let fits = |order: u32| {
            properties.iter().any(|p| {
                (p.m_size, p.n_size, p.k_size) == (order, order, order)
                    && (p.ab_type, p.cr_type) == (CooperativeScalarType::F16, CooperativeScalarType::F32)
            })
        };
        match [16, 8].into_iter().find(|&order| fits(order)) {
            Some(order) => Ok(Cooperative { order: order as usize, threads: info.subgroup_max_size as usize }),
            None => Err(format!("{} has no cooperative matrices of order 8 or 16 with f16 factors and f32 sums", info.name)),
        }
    }
}

/// Rows, terms and columns of the self-test: more than one square of C in each direction, and several blocks of terms.
const SIZES: [usize; 3] = [70, 100, 75];

/// An integer from -4 to 4: products of `SIZES` are exact in any order, with any rounding of sums above 24 bits.
fn integer(i: usize, j: usize) -> f32 {
    ((7 * i + 5 * j + 3 * i * j) % 9) as f32 - 4.0
}

/// Compares a product with the exact one: the first entry that differs.
fn verdict(found: &Mat<f32>) -> std::result::Result<(), String> {
    let [rows, terms, cols] = SIZES;
    for (i, j) in (0..rows).flat_map(|i| (0..cols).map(move |j| (i, j))) {
        let exact: f32 = (0..terms).map(|k| integer(i, k) * integer(k, j + 1)).sum();
        if found[(i, j)] != exact {
            return Err(format!("entry ({i}, {j}) of a product is {}, but must be {exact}", found[(i, j)]));
        }
    }
    Ok(())
}

/// Multiplies integers by the cooperative matrices of the context. An error says what is wrong with them.
pub(crate) async fn self_test(context: &GpuContext, cooperative: Cooperative) -> std::result::Result<(), String> {
    for products in [Products::Half, Products::Split] {
        let found = product(context, cooperative, products).await.map_err(|error| error.to_string())?;
        verdict(&found).map_err(|wrong| {
            format!("{} computes wrongly by cooperative matrices, {products}: {wrong}", context.adapter_name())
        })?;
    }
    Ok(())
}

async fn product(context: &GpuContext, cooperative: Cooperative, products: Products) -> Result<Mat<f32>> {
    let [rows, terms, cols] = SIZES;
    let manner = Manner { waits: Waits::Awaited, ..Manner::default() };
    let kernels = GpuRecursive::with(context, cooperative, &Tuning::for_adapter::<f32>(context, terms), manner)?;
    let m = kernels.upload(Mat::from_fn(rows, terms, integer).as_ref())?;
    let x = kernels.upload(Mat::from_fn(terms, cols, |k, j| integer(k, j + 1)).as_ref())?;
    let mut c = kernels.zeros(rows, cols)?;
    let all = |of, rows, cols| Operand { of, block: Block::new(0..rows, 0..cols), transposed: false };
    let into = (&mut c, Block::new(0..rows, 0..cols));
    kernels.product(products, all(&m, rows, terms), all(&x, terms, cols), into, Into::Replaced)?;
    kernels.download(&c, rows).await
}

/// Why a context has none.
pub(crate) fn missing(reason: impl std::fmt::Display) -> SvdError {
    SvdError::invalid("products", format!("the context has no cooperative matrices: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The self-test refuses a product with any wrong entry, by the least that it can be wrong.
    #[test]
    fn wrong_products_are_refused() {
        let [rows, terms, cols] = SIZES;
        let exact = Mat::from_fn(rows, cols, |i, j| (0..terms).map(|k| integer(i, k) * integer(k, j + 1)).sum::<f32>());
        assert_eq!(verdict(&exact), Ok(()));
        for (i, j) in [(0, 0), (69, 74), (33, 17)] {
            for wrong in [exact[(i, j)] + 1.0, -exact[(i, j)] - 1.0, f32::NAN] {
                let mut product = exact.clone();
                product[(i, j)] = wrong;
                assert!(verdict(&product).is_err_and(|reason| reason.contains(&format!("({i}, {j})"))));
            }
        }
    }

    /// Only square matrices of f16 with f32 sums serve, the larger ones first.
    #[test]
    fn which_matrices() {
        use CooperativeScalarType::{F16, F32};
        let of = |m_size, k_size, ab_type, cr_type| CooperativeMatrixProperties {
            m_size,
            n_size: m_size,
            k_size,
            ab_type,
            cr_type,
            saturating_accumulation: false,
        };
        let info = AdapterInfo::new(wgpu::DeviceType::Cpu, wgpu::Backend::Vulkan);
        let order = |properties: &[_]| Cooperative::among(properties, &info).map(|found| found.order).ok();
        assert_eq!(order(&[of(8, 8, F16, F32), of(16, 16, F16, F32)]), Some(16));
        assert_eq!(order(&[of(16, 16, F16, F16), of(8, 8, F16, F32)]), Some(8));
        assert_eq!(order(&[of(16, 8, F16, F32), of(8, 8, F32, F32), of(32, 32, F16, F32)]), None);
    }
}
