//! Cooperative matrices: whether the adapter has those of f16 with f32 sums, and the self-test before they are used.
//!
//! wgpu's interface is experimental, and drivers have computed wrong products. Therefore a context has them only on request, or on a device that its
//! caller has opened with them, and only after it has multiplied matrices of small integers exactly, in both ways that the crate uses.

use faer::Mat;
use pollster::block_on;
use wgpu::{Adapter, AdapterInfo, CooperativeMatrixProperties, CooperativeScalarType, Device, Features, Queue};

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

/// The names of the [`FEATURES`] that are not among these.
fn missing(features: Features) -> String {
    let names: Vec<&str> = (FEATURES - features).iter_names().map(|(name, _)| name).collect();
    names.join(" and ")
}

impl Cooperative {
    /// Those of the adapter, or what it lacks.
    pub fn of(adapter: &Adapter) -> Found {
        if !adapter.features().contains(FEATURES) {
            return Err(format!("{} has no {}", adapter.get_info().name, missing(adapter.features())));
        }
        Cooperative::among(&adapter.cooperative_matrix_properties(), &adapter.get_info())
    }

    /// The largest square ones with f16 factors and f32 sums.
    fn among(properties: &[CooperativeMatrixProperties], info: &AdapterInfo) -> Found {
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

/// Cooperative matrices, or why there are none.
pub(crate) type Found = std::result::Result<Cooperative, String>;

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

impl GpuContext {
    /// Like [`from_wgpu`](Self::from_wgpu), with the adapter of the device, and so with cooperative matrices for [`Products`](crate::Products) by
    /// low precision. The device needs `Features::EXPERIMENTAL_COOPERATIVE_MATRIX` and `Features::SHADER_F16`; without them the context is that of
    /// `from_wgpu`. With them it multiplies integers as a self-test, for which the thread waits, and
    /// [`cooperative_matrices`](Self::cooperative_matrices) says whether it has passed.
    ///
    /// ```
    /// use pollster::block_on;
    /// use svdvals_gpu::{GpuContext, wgpu::{self, Features}};
    /// let instance = wgpu::Instance::default();
    /// let Ok(adapter) = block_on(instance.request_adapter(&wgpu::RequestAdapterOptions::default())) else { return };
    /// let wanted = Features::EXPERIMENTAL_COOPERATIVE_MATRIX | Features::SHADER_F16;
    /// let opened = block_on(adapter.request_device(&wgpu::DeviceDescriptor {
    ///     required_features: wanted & adapter.features(),
    ///     required_limits: adapter.limits(),
    ///     // SAFETY: an experimental feature may have bugs. This program takes the risk.
    ///     experimental_features: unsafe { wgpu::ExperimentalFeatures::enabled() },
    ///     ..Default::default()
    /// }));
    /// let Ok((device, queue)) = opened else { return };
    /// match GpuContext::from_wgpu_with_adapter(&adapter, device, queue) {
    ///     Ok(context) => println!("{:?}", context.cooperative_matrices()), // their order, or what is missing
    ///     Err(error) => println!("{error}"),
    /// }
    /// ```
    ///
    /// # Errors
    /// [`SvdError::InvalidOption`] if the device is of another adapter. Missing cooperative matrices are no error here.
    pub fn from_wgpu_with_adapter(adapter: &Adapter, device: Device, queue: Queue) -> Result<Self> {
        let (info, of_device) = (adapter.get_info(), device.adapter_info());
        if info != of_device {
            let reason = format!("it is {} ({:?}), but the device is of {}", info.name, info.backend, of_device.name);
            return Err(SvdError::invalid("adapter", reason));
        }
        let features = device.features();
        let context = Self::of_caller(device, queue, info);
        context.has_cooperative(if features.contains(FEATURES) {
            block_on(tested(&context, Cooperative::of(adapter)))
        } else {
            Err(format!("the device was opened without {}", missing(features)))
        });
        Ok(context)
    }

    /// The order of the device's cooperative matrices, 8 or 16, which [`Products`](crate::Products) by low precision use.
    ///
    /// ```
    /// use svdvals_gpu::{AdapterChoice, GpuContext, SvdError};
    /// if let Ok(context) = GpuContext::new(&AdapterChoice::default()) {
    ///     let error = context.cooperative_matrices().unwrap_err(); // they are there on request only
    ///     assert!(matches!(error, SvdError::InvalidOption { option: "products", .. }));
    /// }
    /// ```
    ///
    /// # Errors
    /// [`SvdError::InvalidOption`] if they were not [requested](crate::AdapterChoice::cooperative_matrices), the adapter has none, or its product was
    /// wrong. A device of your own has them by [`from_wgpu_with_adapter`](Self::from_wgpu_with_adapter), and not by [`from_wgpu`](Self::from_wgpu).
    pub fn cooperative_matrices(&self) -> Result<usize> {
        Ok(self.cooperative()?.order)
    }

    /// [`cooperative_matrices`](Self::cooperative_matrices), with what the kernels need.
    pub(crate) fn cooperative(&self) -> Result<Cooperative> {
        let missing = |reason| Err(SvdError::invalid("products", format!("the context has no cooperative matrices: {reason}")));
        match self.tested() {
            Some(Ok(found)) => Ok(*found),
            Some(Err(reason)) => missing(reason.as_str()),
            None => missing("their self-test has not ended"),
        }
    }
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
