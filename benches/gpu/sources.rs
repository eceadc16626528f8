//! The WGSL of the crate's pipelines, as its log has it.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Keeps the WGSL of every pipeline that the crate makes, under the kernel's name and type.
struct Sources(Mutex<Vec<(String, String)>>);

static SOURCES: Sources = Sources(Mutex::new(Vec::new()));

impl Sources {
    fn locked(&self) -> MutexGuard<'_, Vec<(String, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl log::Log for Sources {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.target() == "svdvals_gpu::wgsl"
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            let text = record.args().to_string();
            let (title, wgsl) = text.split_once('\n').unwrap_or((&text, ""));
            self.locked().push((title.into(), wgsl.into()));
        }
    }

    fn flush(&self) {}
}

/// From here on the WGSL is kept. Pipelines that a context has already made are not made again.
pub fn keep() -> Result<(), String> {
    log::set_logger(&SOURCES).map_err(|error| error.to_string())?;
    log::set_max_level(log::LevelFilter::Trace);
    Ok(())
}

/// Pairs of a title, such as `unmqr-vectors f32`, and the WGSL, of the pipelines that were made since the last time; in the order of titles.
pub fn take() -> Vec<(String, String)> {
    let mut taken = std::mem::take(&mut *SOURCES.locked());
    taken.sort();
    taken
}
