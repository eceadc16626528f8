//! The tables of a cost.

use std::fmt;

use crate::cost::{Cost, KernelCost, work::Kernel};

/// Total dispatches and flops. `Display` prints a table.
impl fmt::Debug for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flops = self.work.iter().map(|(work, times)| times * work.flops).sum::<u64>();
        f.debug_struct("Cost").field("dispatches", &self.dispatches()).field("flops", &flops).finish_non_exhaustive()
    }
}

/// A table with a line for each kernel.
impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<18} {:>10} {:>12} {:>10} {:>8} {:>10} {:>10} {:>10}",
            "kernel", "dispatches", "workgroups", "at most", "threads", "KiB each", "GF", "GB"
        )?;
        let kernels = Kernel::ALL.map(|kernel| self.kernel(kernel));
        for kernel in kernels.into_iter().filter(|kernel| kernel.dispatches > 0) {
            writeln!(
                f,
                "{:<18} {:>10} {:>12} {:>10} {:>8} {:>10.1} {:>10.3} {:>10.3}",
                kernel.kernel,
                kernel.dispatches,
                kernel.workgroups,
                kernel.most_workgroups,
                kernel.threads,
                kernel.workgroup_memory as f64 / 1024.0,
                kernel.flops as f64 / 1e9,
                kernel.bytes as f64 / 1e9,
            )?;
        }
        Ok(())
    }
}

/// The table of [`Cost::measured`].
pub(super) struct Measured<'a> {
    pub cost: &'a Cost,
    pub seconds: &'a [(Kernel, f64)],
}

impl fmt::Display for Measured<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["dispatches", "ms", "us each", "GF/s", "GB/s"];
        write!(f, "{:<18}", "kernel")?;
        head.iter().try_for_each(|name| write!(f, " {name:>10}"))?;
        for &(kernel, seconds) in self.seconds {
            let KernelCost { dispatches, flops, bytes, .. } = self.cost.kernel(kernel);
            write!(f, "\n{kernel:<18} {dispatches:>10} {:>10.3}", 1e3 * seconds)?;
            if dispatches > 0 && seconds > 0.0 {
                let [each, flops, bytes] = [1e6 * seconds / dispatches as f64, flops as f64 / 1e9, bytes as f64 / 1e9];
                write!(f, " {each:>10.2} {:>10.1} {:>10.1}", flops / seconds, bytes / seconds)?;
            }
        }
        Ok(())
    }
}
