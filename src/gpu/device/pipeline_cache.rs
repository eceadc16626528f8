//! The compiled pipelines of a device, and the driver's pipeline cache, kept in a file from process to process.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use wgpu::{
    AdapterInfo, BindGroupLayout, ComputePipeline, Device, Features, PipelineCache, PipelineCacheDescriptor,
    util::pipeline_cache_key,
};

use crate::base::error::Result;

/// A compiled shader with its bind group layout.
#[derive(Clone)]
pub(crate) struct Pipeline {
    pub compute: ComputePipeline,
    pub(super) layout: BindGroupLayout,
    /// Names of the parameters.
    pub parameters: &'static [&'static str],
}

/// The key of a pipeline: shader, its variant, number of the matrix's buffers, storage type and constants.
pub(super) type Key = (&'static str, Option<&'static str>, usize, &'static str, String);

/// The pipelines compiled so far. Each has its own cell, so that different pipelines are compiled in parallel.
#[derive(Default)]
pub(crate) struct Pipelines {
    pub(super) cells: Mutex<HashMap<Key, Arc<Mutex<Option<Pipeline>>>>>,
    /// The pipelines of earlier processes, to which this one adds.
    pub(super) file: Option<PipelineFile>,
}

/// A pipeline cache with its file.
pub(crate) struct PipelineFile {
    pub(crate) cache: PipelineCache,
    path: PathBuf,
    /// Whether pipelines were compiled since the last write, or could not be written.
    new: AtomicBool,
    /// Whether the last write failed.
    failed: AtomicBool,
}

/// The first bytes of a file. Its version is that of the header; wgpu's data has a version of its own.
const MAGIC: [u8; 16] = *b"svdvals-gpu PC 1";
/// Bytes before the data: `MAGIC`, then the data's length and checksum.
const HEADER: usize = MAGIC.len() + 16;
/// Maximum length of a file that is read.
const MOST_BYTES: u64 = 256 << 20;

/// FNV-1a (Fowler, Noll, Vo), 64 bits.
fn checksum(data: &[u8]) -> u64 {
    data.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

fn header(data: &[u8]) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..16].copy_from_slice(&MAGIC);
    header[16..24].copy_from_slice(&(data.len() as u64).to_le_bytes());
    header[24..].copy_from_slice(&checksum(data).to_le_bytes());
    header
}

/// The data of a complete file that [`write`] wrote; None if there is no file.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
        Ok(found) if !found.is_file() => return Err(io::Error::other("it is no file")),
        Ok(found) if found.len() > MOST_BYTES => return Err(io::Error::other(format!("it has {} bytes", found.len()))),
        Ok(_) => {}
    }
    let mut data = fs::read(path)?;
    if data.len() < HEADER || header(&data[HEADER..]) != data[..HEADER] {
        return Err(io::Error::other("it is none of this crate's, or damaged"));
    }
    data.drain(..HEADER);
    Ok(Some(data))
}

/// Replaces the file atomically: readers see the complete old or the complete new one.
fn write(path: &Path, data: &[u8]) -> io::Result<()> {
    static FILES: AtomicU64 = AtomicU64::new(0);
    let unique = format!("{}-{}.tmp", std::process::id(), FILES.fetch_add(1, Ordering::Relaxed));
    let temporary = path.with_extension(unique);
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let written = fs::write(&temporary, [&header(data), data].concat()).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

impl PipelineFile {
    /// The cache of the device in `directory`; None if the device has no pipeline caches. `scoped` runs what it is given, and returns the errors
    /// that the device reports meanwhile.
    pub(super) fn open(
        (device, info): (&Device, &AdapterInfo),
        directory: &Path,
        scoped: impl Fn(&dyn Fn() -> PipelineCache) -> Result<PipelineCache>,
    ) -> Option<PipelineFile> {
        let name = pipeline_cache_key(info);
        let (true, Some(name)) = (device.features().contains(Features::PIPELINE_CACHE), name) else {
            log::info!("svdvals-gpu: {} keeps no pipelines in files", info.name);
            return None;
        };
        let path = directory.join(name);
        let data = read(&path).unwrap_or_else(|error| {
            log::warn!("svdvals-gpu: {} is not used: {error}", path.display());
            None
        });
        let create = |data: Option<&[u8]>| {
            scoped(&|| {
                let descriptor = PipelineCacheDescriptor { label: Some("svdvals-gpu"), data, fallback: true };
                // `data` must come from `PipelineCache::get_data`. `read` returns only what `write` has written completely, by magic, length
                // and checksum, and `store_new` writes only what `get_data` returned. `AdapterChoice::pipeline_cache` requires that nobody else
                // can write to the directory. wgpu compares adapter, driver and its own version before the driver sees the rest.
                // SAFETY: by the argument above, the data, if any, is what `get_data` returned to an earlier `store_new`.
                unsafe { device.create_pipeline_cache(&descriptor) }
            })
        };
        // Data of another device, driver or wgpu is an error or ignored; then the cache starts empty.
        let made = create(data.as_deref()).or_else(|error| {
            log::warn!("svdvals-gpu: {} is not used: {error}", path.display());
            create(None)
        });
        match made {
            Ok(cache) => Some(PipelineFile { cache, path, new: AtomicBool::new(false), failed: AtomicBool::new(false) }),
            Err(error) => {
                log::warn!("svdvals-gpu: {} makes no pipeline cache: {error}", info.name);
                None
            }
        }
    }

    /// Notes that the file has to be rewritten.
    pub(crate) fn note_new(&self) {
        self.new.store(true, Ordering::Release);
    }

    /// Writes the file at the end of a call, if the call compiled pipelines.
    pub(crate) fn store_new(&self) {
        if self.new.swap(false, Ordering::AcqRel) {
            let data = self.cache.get_data().ok_or_else(|| io::Error::other("the driver gives no data"));
            let written = data.and_then(|data| write(&self.path, &data));
            if let Err(error) = &written {
                log::warn!("svdvals-gpu: pipelines are not stored in {}: {error}", self.path.display());
            }
            self.failed.store(written.is_err(), Ordering::Release);
        }
    }

    /// The file, with all pipelines compiled so far. None if it cannot be written.
    pub(super) fn stored(&self) -> Option<&Path> {
        if self.failed.load(Ordering::Acquire) {
            self.note_new();
        }
        self.store_new();
        (!self.failed.load(Ordering::Acquire)).then_some(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A written file is read back. A file with a changed, missing or additional byte is rejected. A missing file is no error.
    #[test]
    fn files_are_whole_or_refused() {
        let directory = std::env::temp_dir().join(format!("svdvals-gpu-{}", std::process::id()));
        let path = directory.join("of.a.device");
        assert!(read(&path).unwrap().is_none());
        let data: Vec<u8> = (0..100).collect();
        write(&path, &data).unwrap();
        assert_eq!(read(&path).unwrap().unwrap(), data);
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            fs::write(&path, changed).unwrap();
            assert!(read(&path).is_err(), "byte {at}");
            fs::write(&path, &whole[..at]).unwrap();
            assert!(read(&path).is_err(), "{at} bytes");
        }
        fs::write(&path, [&whole[..], &[0]].concat()).unwrap();
        assert!(read(&path).is_err());
        assert!(read(&directory).is_err(), "a directory is no file");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "temporary files are left");
        assert!(write(&path.join("below/a.file"), &data).is_err());
        fs::remove_dir_all(&directory).unwrap();
    }
}
