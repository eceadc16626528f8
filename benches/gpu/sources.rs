//! What the crate's log has: the WGSL of its pipelines, and what the host does in a call.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Keeps pairs of texts: the WGSL of every pipeline that the crate makes, under the kernel's name and type, or, of the host, what and how long.
struct Kept {
    target: &'static str,
    between: char,
    pairs: Mutex<Vec<(String, String)>>,
}

static SOURCES: Kept = Kept { target: "svdvals_gpu::wgsl", between: '\n', pairs: Mutex::new(Vec::new()) };
static HOST: Kept = Kept { target: "svdvals_gpu::host", between: ':', pairs: Mutex::new(Vec::new()) };

impl Kept {
    fn locked(&self) -> MutexGuard<'_, Vec<(String, String)>> {
        self.pairs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl log::Log for Kept {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.target() == self.target
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            let text = record.args().to_string();
            let (title, rest) = text.split_once(self.between).unwrap_or((&text, ""));
            self.locked().push((title.into(), rest.into()));
        }
    }

    fn flush(&self) {}
}

fn keep_in(kept: &'static Kept) -> Result<(), String> {
    log::set_logger(kept).map_err(|error| error.to_string())?;
    log::set_max_level(log::LevelFilter::Trace);
    Ok(())
}

/// From here on the WGSL is kept. Pipelines that a context has already made are not made again.
pub fn keep() -> Result<(), String> {
    keep_in(&SOURCES)
}

/// From here on what the host does is kept.
pub fn keep_host() -> Result<(), String> {
    keep_in(&HOST)
}

/// What the host has done since the last time, and the milliseconds.
pub fn take_host() -> Vec<(String, f64)> {
    let taken = std::mem::take(&mut *HOST.locked());
    taken.into_iter().map(|(what, ms)| (what, ms.trim().trim_end_matches(" ms").parse().unwrap_or(f64::NAN))).collect()
}

/// Pairs of a title, such as `unmqr-vectors f32`, and the WGSL, of the pipelines that were made since the last time; in the order of titles.
pub fn take() -> Vec<(String, String)> {
    let mut taken = std::mem::take(&mut *SOURCES.locked());
    taken.sort();
    taken
}
