//! The page's program: the pixels of an image in, its singular values and the image at low rank out.
#![cfg(target_arch = "wasm32")]

use faer::{Mat, MatRef};
use svdvals_gpu::{Backend, GpuContext, MatSvd, SvdError, SvdGpu, SvdOptions, SvdValsGpu};
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
    let image = grey(&rgba, width, height)?;
    let (backend, no_gpu) = choose(&backend).await?;
    let report = image.svdvals_gpu_report_async(&SvdOptions::default().backend(backend)).await?;
    Ok(Spectrum {
        values: report.values.iter().copied().collect(),
        backend: name_of(report.adapter),
        reason: no_gpu.unwrap_or_else(|| report.reason.into_owned()),
        seconds: report.seconds.total,
    })
}

/// Residuals of triples, relative to the largest value: far below what rounding to 256 shades does.
const ACCURACY: f64 = 1e-4;

/// Leading triples of an image, or all, and what it is at low rank.
#[wasm_bindgen]
pub struct Decomposition {
    image: Mat<f32>,
    svd: MatSvd<f32>,
    /// Wall-clock seconds of the decomposition.
    #[wasm_bindgen(readonly)]
    pub seconds: f64,
    /// What ran, as in [`Spectrum`].
    #[wasm_bindgen(readonly, getter_with_clone)]
    pub backend: String,
}

/// An image at a rank.
#[wasm_bindgen(getter_with_clone)]
pub struct AtRank {
    /// Four bytes a pixel; grey values are rounded, and cut to 0 to 255.
    pub rgba: Vec<u8>,
    /// ||A - U_k S_k V_k^T||_F / ||A||_F, before that.
    pub error: f64,
}

/// The decomposition of an image; the first arguments are those of [`spectrum`]. Of few triples it is an iteration with products, as far as that takes less
/// time.
///
/// # Errors
/// As [`spectrum`].
#[wasm_bindgen]
pub async fn decompose(
    rgba: Vec<u8>,
    width: usize,
    height: usize,
    backend: String,
    triples: usize,
) -> Result<Decomposition, JsError> {
    let image = grey(&rgba, width, height)?;
    let (backend, _) = choose(&backend).await?;
    let all = SvdOptions::default().backend(backend);
    let options = if triples < width.min(height) { all.keep(triples).accuracy(ACCURACY) } else { all };
    let report = image.svd_gpu_report_async(&options).await?;
    Ok(Decomposition { image, svd: report.values, seconds: report.seconds.total, backend: name_of(report.adapter) })
}

#[wasm_bindgen]
impl Decomposition {
    /// The number of triples.
    #[wasm_bindgen(getter)]
    pub fn triples(&self) -> usize {
        self.svd.s.nrows()
    }

    /// The image at rank `k`, at most the number of triples.
    ///
    /// # Errors
    /// A larger rank.
    pub fn at_rank(&self, k: usize) -> Result<AtRank, JsError> {
        let MatSvd { u, s, v, .. } = &self.svd;
        let (height, width) = self.image.shape();
        if k > s.nrows() {
            return Err(JsError::new(&format!("rank {k}, but there are {} triples", s.nrows())));
        }
        let scaled = Mat::from_fn(height, k, |i, j| u[(i, j)] * s[j]);
        let low = scaled * v.get(.., ..k).transpose();
        let norm = self.image.norm_l2();
        let distance = (&self.image - &low).norm_l2();
        let shade = |i, j| low[(i, j)].round().clamp(0.0, 255.0) as u8;
        let rgba = (0..height).flat_map(|i| (0..width).flat_map(move |j| [shade(i, j), shade(i, j), shade(i, j), 255])).collect();
        Ok(AtRank { rgba, error: f64::from(if norm > 0.0 { distance / norm } else { distance }) })
    }
}

/// The grey values of the pixels.
fn grey(rgba: &[u8], width: usize, height: usize) -> Result<Mat<f32>, JsError> {
    if width.checked_mul(height).and_then(|pixels| pixels.checked_mul(4)) != Some(rgba.len()) {
        return Err(JsError::new(&format!("{} bytes are no {width} x {height} pixels", rgba.len())));
    }
    let luma = |pixel: &[u8]| 0.299 * f32::from(pixel[0]) + 0.587 * f32::from(pixel[1]) + 0.114 * f32::from(pixel[2]);
    let grey: Vec<f32> = rgba.chunks_exact(4).map(luma).collect();
    Ok(MatRef::from_row_major_slice(&grey, height, width).to_owned())
}

/// What ran: on this adapter, or on the CPU. Browsers may keep the adapter's name to themselves.
fn name_of(adapter: Option<String>) -> String {
    adapter.map_or("CPU".into(), |name| format!("GPU {name}").trim_end().into())
}

/// The backend that the page names, and why it is the CPU where a GPU would be taken.
async fn choose(backend: &str) -> Result<(Backend, Option<String>), JsError> {
    match backend {
        "gpu" => Ok((Backend::Gpu, None)),
        "cpu" => Ok((Backend::Cpu, None)),
        // `Backend::Auto` takes none for images as small as the page's; its measure is a CPU of many threads.
        _ => match GpuContext::global_async().await {
            Ok(_) => Ok((Backend::Gpu, None)),
            Err(error @ SvdError::NoAdapter { .. }) => Ok((Backend::Cpu, Some(error.to_string()))),
            Err(error) => Err(error.into()),
        },
    }
}
