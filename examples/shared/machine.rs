//! What a measurement was made on, and with which version of this crate.

use std::{path::Path, process::Command};

use svdvals_gpu::GpuContext;

/// Adapter, driver and graphics interface, in one line.
pub fn adapter(context: &GpuContext) -> String {
    format!("{}, driver {}, through {:?}", context.adapter_name(), driver(context), context.backend())
}

/// The driver and its version.
pub fn driver(context: &GpuContext) -> String {
    let info = context.device().adapter_info();
    let text = format!("{} {}", info.driver, info.driver_info);
    if text.trim().is_empty() { "unknown".into() } else { text.trim().into() }
}

/// The CPU's threads and architecture.
pub fn cpu() -> String {
    format!("{} threads, {}", rayon::current_num_threads(), std::env::consts::ARCH)
}

/// The commit that the program is of, where its sources are a git repository, else the crate's version.
pub fn commit() -> String {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
    let describe = || {
        let run = Command::new("git").args(["describe", "--always", "--dirty", "--tags"]).current_dir(sources).output().ok()?;
        let text = String::from_utf8(run.stdout).ok()?;
        (run.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
    };
    let of_git = sources.join(".git").exists().then(describe).flatten();
    of_git.unwrap_or_else(|| format!("version {}", env!("CARGO_PKG_VERSION")))
}
