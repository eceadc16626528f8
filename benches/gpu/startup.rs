//! What the first call on a new context takes more than the next one, and where that goes.

use std::{error::Error, time::Instant};

use faer::MatRef;
use svdvals_gpu::{AdapterChoice, Backend, Element, GpuContext, HalfStorage, SvdError, SvdOptions, SvdValsGpu};

use crate::{Arguments, SEED, machine, matrix, shared::with_type};

/// Prints the crate's log, which has a line for each pipeline that is made.
struct Printer;

impl log::Log for Printer {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.target().starts_with("svdvals_gpu")
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            println!("    {}", record.args());
        }
    }

    fn flush(&self) {}
}

/// Seconds to open a context, of its first call, and of its second.
fn open_and_call<T: Element>(choice: &AdapterChoice, n: usize) -> Result<[f64; 3], SvdError> {
    let a = matrix::<T>(n, n, SEED).ok_or(SvdError::OutOfMemory { reason: "the host holds no such matrix".into() })?;
    let a = MatRef::from_column_major_slice(&a, n, n);
    let start = Instant::now();
    let context = GpuContext::new(choice)?;
    let opened = start.elapsed().as_secs_f64();
    let options = SvdOptions::default().backend(Backend::Gpu).context(context).half_storage(HalfStorage::Half.for_element::<T>());
    let call = || a.svdvals_gpu_report(&options).map(|report| report.seconds.total);
    Ok([opened, call()?, call()?])
}

/// A row for each type: a context with no cache of pipelines, one with an empty one, one with what that left.
pub fn startup(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let context = GpuContext::global()?;
    println!("{}, {}", machine::adapter(&context), machine::commit());
    // The thread pool's own start is none of the GPU's.
    rayon::join(|| (), || ());
    let directory = std::env::temp_dir().join(format!("svdvals-gpu-startup-{}", std::process::id()));
    let n = arguments.sizes.as_deref().and_then(|sizes| sizes.first()).copied().unwrap_or(256);
    log::set_logger(&Printer).map_err(|error| error.to_string())?;
    for &name in &arguments.types {
        println!("{name}, n = {n}");
        let cached = AdapterChoice::default().pipeline_cache(&directory);
        for (title, choice, level) in [
            ("no cache", AdapterChoice::default(), log::LevelFilter::Debug),
            ("empty cache", cached.clone(), log::LevelFilter::Warn),
            ("filled cache", cached, log::LevelFilter::Warn),
        ] {
            log::set_max_level(level);
            let [opened, first, second] = with_type!(name, T => open_and_call::<T>(&choice, n))?;
            println!("  {title:<12} opened in {opened:.3} s, first call {first:.3} s, second {second:.3} s");
        }
    }
    Ok(std::fs::remove_dir_all(directory)?)
}
