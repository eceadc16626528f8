//! Cooperative matrices: whether the adapter has those of f16 with f32 sums.
//!
//! wgpu's interface is experimental, and drivers have computed wrong products. Therefore a context has them only on request, or on a device that its
//! caller has opened with them, and only after a self-test (`kernels/cooperative.rs`).

use wgpu::{Adapter, AdapterInfo, CooperativeMatrixProperties, CooperativeScalarType, Features};

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
pub(crate) fn missing(features: Features) -> String {
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

/// Cooperative matrices, or why there are none.
pub(crate) type Found = std::result::Result<Cooperative, String>;

#[cfg(test)]
mod tests {
    use super::*;

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
