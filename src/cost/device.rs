//! The cost model's parameters of devices.

/// The parameters of a device, for [`Cost::on`](super::Cost::on).
///
/// The values of [`H100`](Self::H100) and the others are from the hardware tables of the two papers, completed from the vendors' data
/// sheets. `bandwidth_reached`, `matrix_reached`, `bytes_per_cycle`, the latencies and `dispatch_seconds` are fitted to measurements for the H100, and
/// assumptions for the others. The last is what a backend adds between dependent dispatches, and the one to change first for a device at hand.
///
/// ```
/// use svdvals_gpu::cost::DeviceModel;
/// let mut boosted = DeviceModel::H100;
/// boosted.clock_hz = 2.1e9;
/// assert!(!boosted.is_filled(50_000, 32)); // the bulge-chasing paper's Table I
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct DeviceModel {
    /// Name.
    pub name: &'static str,
    /// Multiprocessors (compute units, cores). A workgroup runs on one of them.
    pub units: u64,
    /// Instructions that one multiprocessor issues per cycle (warp schedulers).
    pub schedulers: u64,
    /// Clock rate in cycles per second.
    pub clock_hz: f64,
    /// Peak f32 flops per second; a fused multiply-add counts as two.
    pub f32_flops: f64,
    /// Peak f64 flops per second; zero if the device has no f64.
    pub f64_flops: f64,
    /// Peak flops per second of matrix units with f16 factors and f32 sums; zero if the device has none.
    pub f16_matrix_flops: f64,
    /// The part of it that cooperative matrices reach.
    pub matrix_reached: f64,
    /// Memory bandwidth in bytes per second, by the data sheet.
    pub bandwidth: f64,
    /// The part of it that kernels reach.
    pub bandwidth_reached: f64,
    /// Bytes of the largest cache that all multiprocessors share.
    pub cache: u64,
    /// Bytes of memory or of that cache that one multiprocessor reads or writes per cycle.
    pub bytes_per_cycle: f64,
    /// Bytes of workgroup memory of one multiprocessor.
    pub workgroup_memory: u64,
    /// Bytes of workgroup memory that one multiprocessor reads per cycle.
    pub workgroup_bytes_per_cycle: f64,
    /// Registers of 32 bits of one multiprocessor.
    pub registers: u64,
    /// Maximum resident threads of one multiprocessor.
    pub threads: u64,
    /// Threads of a subgroup.
    pub subgroup_threads: u64,
    /// Maximum resident workgroups of one multiprocessor: 32, and 24 on an RTX 4060; for other vendors' devices 32 is an assumption.
    pub workgroups: u64,
    /// Latency of a load that hits L2, in cycles.
    pub load_cycles: f64,
    /// Latency of a dependent arithmetic operation, in cycles.
    pub step_cycles: f64,
    /// Latency of a workgroup barrier, in cycles.
    pub barrier_cycles: f64,
    /// What a barrier takes in addition that makes stores to global memory visible, in cycles.
    pub storage_barrier_cycles: f64,
    /// Seconds from the end of a dispatch to the start of the next one that depends on it.
    pub dispatch_seconds: f64,
}

/// Concurrent sweeps of bulge chasing at this bandwidth, one workgroup each: n / (3 bandwidth), because each sweep lags three cycles behind
/// the previous one (bulge-chasing paper, equation 1).
///
/// ```
/// assert_eq!(svdvals_gpu::cost::sweeps_at_once(16384, 32), 170);
/// ```
pub fn sweeps_at_once(n: usize, bandwidth: usize) -> usize {
    n / bandwidth.max(1).saturating_mul(3)
}

/// Words in the names of GPUs with high-bandwidth memory.
const FAST_MEMORY: [&str; 22] = [
    "P100", "V100", "V100S", "A30", "A100", "A800", "H20", "H100", "H200", "H800", "GH200", "B100", "B200", "B300", "GB200",
    "GB300", "Instinct", "HBM2", "HBM2e", "HBM3", "HBM3e", "HBM",
];

/// Whether a GPU of this name has high-bandwidth memory. wgpu reports nothing else that would show it.
pub(crate) fn has_fast_memory(name: &str) -> bool {
    name.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| FAST_MEMORY.contains(&word))
}

const MB: u64 = 1 << 20;
const KB: u64 = 1 << 10;

impl DeviceModel {
    /// NVIDIA H100 (80 GB).
    ///
    /// ```
    /// use svdvals_gpu::cost::DeviceModel;
    /// assert!(DeviceModel::H100.f32_flops > DeviceModel::A100.f32_flops);
    /// ```
    pub const H100: DeviceModel = DeviceModel {
        name: "H100",
        units: 132,
        schedulers: 4,
        clock_hz: 1.98e9,
        f32_flops: 67e12,
        f64_flops: 34e12,
        f16_matrix_flops: 989e12,
        matrix_reached: 0.6,
        bandwidth: 3.35e12,
        bandwidth_reached: 0.8,
        cache: 50 * MB,
        bytes_per_cycle: 40.0,
        workgroup_memory: 228 * KB,
        workgroup_bytes_per_cycle: 128.0,
        registers: 65536,
        threads: 2048,
        subgroup_threads: 32,
        workgroups: 32,
        load_cycles: 700.0,
        step_cycles: 5.0,
        barrier_cycles: 30.0,
        storage_barrier_cycles: 700.0,
        dispatch_seconds: 2e-6,
    };

    /// NVIDIA A100 (80 GB).
    ///
    /// ```
    /// use svdvals_gpu::cost::DeviceModel;
    /// assert!(DeviceModel::A100.bandwidth > DeviceModel::RTX_4060.bandwidth);
    /// ```
    pub const A100: DeviceModel = DeviceModel {
        name: "A100",
        units: 108,
        clock_hz: 1.41e9,
        f32_flops: 19.5e12,
        f64_flops: 9.7e12,
        f16_matrix_flops: 312e12,
        matrix_reached: 0.8,
        bandwidth: 1.94e12,
        cache: 40 * MB,
        workgroup_memory: 164 * KB,
        load_cycles: 600.0,
        ..Self::H100
    };

    /// NVIDIA RTX 4060 (laptop, 8 GB).
    ///
    /// ```
    /// use svdvals_gpu::cost::DeviceModel;
    /// assert!(DeviceModel::RTX_4060.bandwidth < DeviceModel::A100.bandwidth);
    /// ```
    pub const RTX_4060: DeviceModel = DeviceModel {
        name: "RTX 4060",
        units: 24,
        clock_hz: 2.46e9,
        f32_flops: 15.1e12,
        f64_flops: 15.1e12 / 64.0,
        f16_matrix_flops: 60e12,
        matrix_reached: 0.8,
        bandwidth: 272e9,
        cache: 32 * MB,
        workgroup_memory: 100 * KB,
        threads: 1536,
        subgroup_threads: 32,
        workgroups: 24,
        ..Self::H100
    };

    /// AMD Instinct MI300X.
    ///
    /// ```
    /// use svdvals_gpu::cost::DeviceModel;
    /// assert!(DeviceModel::MI300X.bandwidth > DeviceModel::H100.bandwidth);
    /// ```
    pub const MI300X: DeviceModel = DeviceModel {
        name: "MI300X",
        units: 304,
        schedulers: 1,
        clock_hz: 2.1e9,
        f32_flops: 163.4e12,
        f64_flops: 81.7e12,
        f16_matrix_flops: 1307e12,
        matrix_reached: 0.6,
        bandwidth: 5.3e12,
        bandwidth_reached: 0.75,
        cache: 256 * MB,
        bytes_per_cycle: 40.0,
        workgroup_memory: 64 * KB,
        workgroup_bytes_per_cycle: 128.0,
        registers: 131072,
        threads: 2048,
        subgroup_threads: 64,
        workgroups: 32,
        load_cycles: 200.0,
        step_cycles: 8.0,
        barrier_cycles: 60.0,
        storage_barrier_cycles: 700.0,
        dispatch_seconds: 5e-6,
    };

    /// Apple M1 (8 cores).
    ///
    /// ```
    /// assert_eq!(svdvals_gpu::cost::DeviceModel::M1.f64_flops, 0.0); // has no f64
    /// ```
    pub const M1: DeviceModel = DeviceModel {
        name: "M1",
        units: 8,
        schedulers: 4,
        clock_hz: 1.27e9,
        f32_flops: 2.6e12,
        f64_flops: 0.0,
        f16_matrix_flops: 0.0,
        matrix_reached: 0.8,
        bandwidth: 67e9,
        bandwidth_reached: 0.85,
        cache: 8 * MB,
        bytes_per_cycle: 40.0,
        workgroup_memory: 60 * KB,
        workgroup_bytes_per_cycle: 128.0,
        registers: 53248,
        threads: 1024,
        subgroup_threads: 32,
        workgroups: 32,
        load_cycles: 300.0,
        step_cycles: 4.0,
        barrier_cycles: 30.0,
        storage_barrier_cycles: 300.0,
        dispatch_seconds: 5e-6,
    };

    /// A GPU beside the cores of a processor, by count and data sheets (Intel's Xe with 96 units): little arithmetic, and the host's memory.
    pub(crate) const INTEGRATED: DeviceModel = DeviceModel {
        name: "integrated",
        units: 12,
        f32_flops: 1.7e12,
        f64_flops: 0.1e12,
        bandwidth: 50e9,
        dispatch_seconds: 8e-6,
        ..Self::M1
    };

    /// The model of a device of this name: that of the nearest predefined one. wgpu tells of a device little but its name and whether it is
    /// integrated.
    #[cfg_attr(not(feature = "gpu"), allow(dead_code, reason = "without a GPU there is no device at hand"))]
    pub(crate) fn of_name(name: &str, integrated: bool) -> DeviceModel {
        let has = |words: &[&str]| name.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| words.contains(&word));
        if has(&["H100", "H20", "H200", "H800", "GH200", "B100", "B200", "B300", "GB200", "GB300"]) {
            return Self::H100;
        }
        if has(&["Instinct", "MI300X"]) {
            return Self::MI300X;
        }
        if has(&["Apple"]) {
            return Self::M1;
        }
        match (has_fast_memory(name), integrated) {
            (true, _) => Self::A100,
            (false, true) => Self::INTEGRATED,
            (false, false) => Self::RTX_4060,
        }
    }

    /// All predefined devices.
    ///
    /// ```
    /// use svdvals_gpu::cost::DeviceModel;
    /// for device in DeviceModel::ALL {
    ///     println!("{}: {:.1e} flops a second in f32", device.name, device.f32_flops);
    /// }
    /// ```
    pub const ALL: [DeviceModel; 5] = [Self::H100, Self::A100, Self::RTX_4060, Self::MI300X, Self::M1];

    /// Whether bulge chasing of order n at this bandwidth has a concurrent sweep for each execution unit: n / (3 bandwidth) >= units *
    /// schedulers (bulge-chasing paper, equation 1).
    ///
    /// ```
    /// use svdvals_gpu::cost::DeviceModel;
    /// assert!(DeviceModel::M1.is_filled(4096, 32) && !DeviceModel::H100.is_filled(16384, 32));
    /// ```
    pub fn is_filled(&self, n: usize, bandwidth: usize) -> bool {
        sweeps_at_once(n, bandwidth) as u64 >= self.units * self.schedulers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name finds its model, or one of its kind.
    #[test]
    fn models_by_name() {
        let of = |name, integrated| DeviceModel::of_name(name, integrated).name;
        assert_eq!(of("NVIDIA H100 80GB HBM3", false), "H100");
        assert_eq!(of("NVIDIA H200", false), "H100");
        assert_eq!([of("NVIDIA A100-SXM4-80GB", false), of("Tesla V100-PCIE-16GB", false)], ["A100"; 2]);
        assert_eq!(of("AMD Instinct MI300X (RADV GFX942)", false), "MI300X");
        assert_eq!([of("Apple M1", true), of("Apple M4 Max", false)], ["M1"; 2]);
        assert_eq!([of("NVIDIA GeForce RTX 4090", false), of("AMD Radeon RX 7900", false)], ["RTX 4060"; 2]);
        assert_eq!([of("Intel(R) Iris(R) Xe Graphics", true), of("AMD Radeon 780M", true)], ["integrated"; 2]);
    }

    /// Data-centre GPUs are recognised by whole words of their names, not by parts of words.
    #[test]
    fn fast_memory_is_known_by_name() {
        for name in
            ["NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "Tesla V100-PCIE-16GB", "AMD Instinct MI300X (RADV GFX942)"]
        {
            assert!(has_fast_memory(name), "{name}");
        }
        for name in
            ["NVIDIA GeForce RTX 4060 Laptop GPU", "NVIDIA RTX A3000 Laptop GPU", "Apple M1", "Intel(R) Arc(tm) A770", "llvmpipe"]
        {
            assert!(!has_fast_memory(name), "{name}");
        }
    }
}
