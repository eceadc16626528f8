//! What a dispatch takes on a device, by the model.

use crate::cost::{Cost, KernelSeconds, chain::Chain, device::DeviceModel, kernel::Kernel, work::Work};

impl Cost {
    /// Modelled seconds of one dispatch.
    pub(super) fn seconds(&self, work: &Work, device: &DeviceModel) -> KernelSeconds {
        let peak = if self.double { device.f64_flops } else { device.f32_flops };
        // A multiprocessor is fully used with one thread per lane.
        let units = device.units as f64;
        let lanes = (device.f32_flops / (2.0 * device.clock_hz * units)).round();
        let threads = (work.workgroups * work.threads) as f64;
        let filled = (threads / (lanes * units)).min(1.0);
        // Workgroups that are resident on the device at a time.
        let by_memory = device.workgroup_memory.checked_div(work.workgroup_memory).unwrap_or(u64::MAX);
        let by_registers = device.registers / (work.registers() * work.threads).max(1);
        let held =
            (device.threads / work.threads.max(1)).min(by_memory).min(by_registers).min(device.workgroups).max(1) * device.units;
        let rounds = work.workgroups.div_ceil(held) as f64;
        let Work { chain, beside, .. } = *work;
        let cycles = |chain: Chain| {
            (chain.barriers + chain.storage_barriers) as f64 * device.barrier_cycles
                + chain.storage_barriers as f64 * device.storage_barrier_cycles
                + chain.round_trips as f64 * device.load_cycles
                + chain.steps as f64 * device.step_cycles
                + chain.alone as f64
                // A multiprocessor issues one instruction of each of `lanes` threads a cycle, at most one of a warp.
                + chain.issued as f64 * (work.threads as f64 / lanes).max(1.0)
        };
        let arithmetic = if work.kernel == Kernel::CoopGemm {
            // A matrix unit belongs to a scheduler, and needs one warp.
            let filled = (work.workgroups as f64 / (units * device.schedulers as f64)).min(1.0);
            work.flops as f64 / (device.f16_matrix_flops * device.matrix_reached * filled)
        } else {
            work.flops as f64 / (peak * filled)
        };
        let used = (work.workgroups as f64).min(units);
        let by_units = used * device.bytes_per_cycle * device.clock_hz;
        let bandwidth = if work.footprint > device.cache { device.bandwidth * device.bandwidth_reached } else { by_units };
        // Of what is read again, the part is in the cache that was read last and has room in half of it, beside what others write.
        let between = held.min(work.workgroups) * work.again.of_one;
        let in_cache = (device.cache as f64 / 2.0 / between.max(1) as f64).min(1.0) * work.again.bytes as f64;
        let memory = ((work.bytes as f64 - in_cache) / bandwidth).max(work.bytes as f64 / by_units);
        let workgroup_memory = work.workgroup_bytes as f64 / (device.workgroup_bytes_per_cycle * device.clock_hz * used);
        // 0 / 0 means no work, so no time.
        let issued = chain.issued as f64 * (work.workgroups - beside.workgroups) as f64
            + beside.chain.issued as f64 * beside.workgroups as f64;
        let issue = issued * work.threads as f64 / (lanes * device.clock_hz * used);
        let [arithmetic, memory, workgroup_memory, issue] =
            [arithmetic, memory, workgroup_memory, issue].map(|seconds: f64| if seconds.is_nan() { 0.0 } else { seconds });
        let latency = cycles(chain).max(cycles(beside.chain) / rounds.max(1.0)) / device.clock_hz;
        let overhead = device.dispatch_seconds;
        // Rounds overlap: the latency of one workgroup is hidden by the throughput of others. But a workgroup loads, then multiplies, and too
        // few of them are resident to hide the one behind the other: on an H100 `unmqr` took the sum, before it loaded what comes next while it
        // multiplies. With two strips the loads are taken to be hidden, which is not measured.
        let multiply = workgroup_memory + arithmetic.max(issue);
        let throughput = if work.two_strips { memory.max(multiply) } else { memory + multiply };
        let total = overhead + throughput.max(latency * rounds.max(1.0));
        KernelSeconds { kernel: work.kernel, arithmetic, memory, workgroup_memory, issue, latency, overhead, total }
    }
}
