//! Pipelines from process to process.

use std::{fs, path::Path};

use faer::Mat;
use svdvals_gpu::{AdapterChoice, Backend, DeviceLimits, GpuContext, SvdOptions, wgpu::Features};

use crate::{Elements, Outcome, check, tuning};

fn values(context: &GpuContext) -> svdvals_gpu::Result<Vec<f64>> {
    let a = Mat::<f32>::from_fn(50, 40, |i, j| <f32 as Elements>::noise(70, i, j));
    f32::values(&a, &SvdOptions::default().context(context.clone()).backend(Backend::Gpu).tuning(tuning(8, 16)))
}

/// The only file in `directory`.
fn only_file(directory: &Path) -> Result<std::path::PathBuf, libtest_mimic::Failed> {
    let files: Vec<_> = fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    let [file] = &files[..] else { return Err(format!("not one file, but {files:?}").into()) };
    Ok(file.clone())
}

/// A call leaves its pipelines in one file, by itself; contexts that read it give the same values, bit for bit. So do those that find
/// garbage in its place, a shortened one, or one of another device, and each of them leaves a whole one again; and those that cannot write.
pub fn pipelines_in_files() -> Outcome {
    let directory = std::env::temp_dir().join(format!("svdvals-gpu-test-{}", std::process::id()));
    let _ = fs::remove_dir_all(&directory);
    let kept = AdapterChoice::default().pipeline_cache(&directory);
    let context = GpuContext::new(&kept)?;
    let want = values(&GpuContext::new(&AdapterChoice::default())?)?;
    check!(values(&context)? == want, "a new cache changes values");
    if !context.device().features().contains(Features::PIPELINE_CACHE) {
        check!(context.store_pipelines().is_none() && !directory.exists(), "a file of a device without pipeline caches");
        return Ok(());
    }
    let file = only_file(&directory)?;
    check!(context.store_pipelines() == Some(&file), "{:?}, not {file:?}", context.store_pipelines());
    let whole = fs::read(&file)?;

    // The header of 32 bytes ends with the data's checksum (FNV-1a); wgpu's own begins with magic, version and ABI, and at 16 the device.
    let mut foreign = whole.clone();
    foreign[32 + 20] ^= 1;
    let sum = foreign[32..].iter().fold(0xcbf2_9ce4_8422_2325u64, |sum, &x| (sum ^ u64::from(x)).wrapping_mul(0x100_0000_01b3));
    foreign[24..32].copy_from_slice(&sum.to_le_bytes());
    let cases: [(&str, &[u8]); 5] = [
        ("whole", &whole),
        ("shortened", &whole[..whole.len() / 2]),
        ("empty", b""),
        ("garbage", b"no pipelines at all, but as long as a header and more"),
        ("another device's", &foreign),
    ];
    for (name, bytes) in cases {
        fs::write(&file, bytes)?;
        check!(values(&GpuContext::new(&kept)?)? == want, "{name}: other values");
        check!(only_file(&directory)? == file, "{name}: another file");
        let after = fs::read(&file)?;
        check!(after.starts_with(&whole[..16]) && after.len() >= whole.len() / 2, "{name}: {} bytes are left", after.len());
        check!(after != foreign, "{name} is left");
    }
    // A file where the directory should be.
    let context = GpuContext::new(&AdapterChoice::default().pipeline_cache(&file))?;
    check!(values(&context)? == want && context.store_pipelines().is_none(), "no directory");
    // A device without the feature.
    let context = GpuContext::new(&kept.limits(DeviceLimits::Plain))?;
    values(&context)?;
    check!(context.store_pipelines().is_none(), "a device without pipeline caches");
    Ok(fs::remove_dir_all(&directory)?)
}
