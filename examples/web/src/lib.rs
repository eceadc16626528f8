//! The page's program: the pixels of an image in, its singular values out.
#![cfg(target_arch = "wasm32")]

use faer::MatRef;
use svdvals_gpu::{Backend, GpuContext, SvdError, SvdOptions, SvdValsGpu};
use wasm_bindgen::prelude::*;

/// What an image has for singular values, and how they were found.
#[wasm_bindgen(getter_with_clone)]
pub struct Spectrum {
    /// The singular values, descending.
    pub values: Vec<f32>,
    /// What ran: a GPU by its name, or the CPU.
    pub backend: String,
    /// Why.
    pub reason: String,
    /// Wall-clock seconds of the call.
    pub seconds: f64,
}

/// The singular values of the grey values (ITU-R BT.601, from 0 to 255) of `width` x `height` pixels, four bytes each, found on the
/// `backend` called `gpu` or `cpu`, or else on a GPU if there is one.
///
/// # Errors
/// Pixels that are not as many as that, and the crate's own.
#[wasm_bindgen]
pub async fn spectrum(rgba: Vec<u8>, width: usize, height: usize, backend: String) -> Result<Spectrum, JsError> {
    if width.checked_mul(height).and_then(|pixels| pixels.checked_mul(4)) != Some(rgba.len()) {
        return Err(JsError::new(&format!("{} bytes are no {width} x {height} pixels", rgba.len())));
    }
    let luma = |pixel: &[u8]| 0.299 * f32::from(pixel[0]) + 0.587 * f32::from(pixel[1]) + 0.114 * f32::from(pixel[2]);
    let grey: Vec<f32> = rgba.chunks_exact(4).map(luma).collect();
    let image = MatRef::from_row_major_slice(&grey, height, width);

    let (backend, no_gpu) = match backend.as_str() {
        "gpu" => (Backend::Gpu, None),
        "cpu" => (Backend::Cpu, None),
        // `Backend::Auto` takes none for images as small as the page's; its measure is a CPU of many threads.
        _ => match GpuContext::global_async().await {
            Ok(_) => (Backend::Gpu, None),
            Err(error @ SvdError::NoAdapter { .. }) => (Backend::Cpu, Some(error.to_string())),
            Err(error) => return Err(error.into()),
        },
    };
    let report = image.svdvals_gpu_report_async(&SvdOptions::default().backend(backend)).await?;
    Ok(Spectrum {
        values: report.values.iter().copied().collect(),
        // Browsers may keep the adapter's name to themselves.
        backend: report.adapter.map_or("CPU".into(), |name| format!("GPU {name}").trim_end().into()),
        reason: no_gpu.unwrap_or_else(|| report.reason.into_owned()),
        seconds: report.seconds.total,
    })
}
