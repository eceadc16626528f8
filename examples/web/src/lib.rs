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

/// A colour of an image, or its grey values, and its decomposition.
struct Channel {
    image: Mat<f32>,
    svd: MatSvd<f32>,
}

/// Leading triples of an image's colours, or all, and what it is at low rank.
#[wasm_bindgen]
pub struct Decomposition {
    /// Red, green and blue; one where they are the same.
    channels: Vec<Channel>,
    /// Wall-clock seconds of the decompositions.
    #[wasm_bindgen(readonly)]
    pub seconds: f64,
    /// What ran, as in [`Spectrum`].
    #[wasm_bindgen(readonly, getter_with_clone)]
    pub backend: String,
}

/// An image at a rank.
#[wasm_bindgen(getter_with_clone)]
pub struct AtRank {
    /// Four bytes a pixel; values are rounded, and cut to 0 to 255.
    pub rgba: Vec<u8>,
    /// ||A - U_k S_k V_k^T||_F / ||A||_F of the colours side by side, before that.
    pub error: f64,
}

/// The decompositions of an image's colours; the first arguments are those of [`spectrum`]. Of few triples each is an iteration with products, as far as that
/// takes less time.
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
    check(&rgba, width, height)?;
    let (backend, _) = choose(&backend).await?;
    let all = SvdOptions::default().backend(backend);
    let options = if triples < width.min(height) { all.keep(triples).accuracy(ACCURACY) } else { all };
    let is_grey = rgba.chunks_exact(4).all(|pixel| pixel[0] == pixel[1] && pixel[1] == pixel[2]);
    let mut found = Decomposition { channels: Vec::new(), seconds: 0.0, backend: String::new() };
    for channel in 0..if is_grey { 1 } else { 3 } {
        let image = of_pixels(&rgba, width, height, |pixel| f32::from(pixel[channel]));
        let report = image.svd_gpu_report_async(&options).await?;
        found.channels.push(Channel { image, svd: report.values });
        found.seconds += report.seconds.total;
        found.backend = name_of(report.adapter);
    }
    Ok(found)
}

#[wasm_bindgen]
impl Decomposition {
    /// The number of triples of each colour.
    #[wasm_bindgen(getter)]
    pub fn triples(&self) -> usize {
        self.channels.iter().map(|channel| channel.svd.s.nrows()).min().unwrap_or(0)
    }

    /// The number of decompositions: 3, or 1 of a grey image.
    #[wasm_bindgen(getter)]
    pub fn colours(&self) -> usize {
        self.channels.len()
    }

    /// The image at rank `k`, at most the number of triples.
    ///
    /// # Errors
    /// A larger rank.
    pub fn at_rank(&self, k: usize) -> Result<AtRank, JsError> {
        if k > self.triples() {
            return Err(JsError::new(&format!("rank {k}, but there are {} triples", self.triples())));
        }
        let low = self.channels.iter().map(|Channel { svd: MatSvd { u, s, v, .. }, .. }| {
            let scaled = Mat::from_fn(u.nrows(), k, |i, j| u[(i, j)] * s[j]);
            scaled * v.get(.., ..k).transpose()
        });
        let low: Vec<Mat<f32>> = low.collect();
        let (mut distance, mut norm) = (0f64, 0f64);
        for (Channel { image, .. }, low) in self.channels.iter().zip(&low) {
            distance = distance.hypot(f64::from((image - low).norm_l2()));
            norm = norm.hypot(f64::from(image.norm_l2()));
        }
        let (height, width) = self.channels[0].image.shape();
        let shade = |channel: usize, i, j| low[channel.min(low.len() - 1)][(i, j)].round().clamp(0.0, 255.0) as u8;
        let pixel = |i, j| [shade(0, i, j), shade(1, i, j), shade(2, i, j), 255];
        let rgba = (0..height).flat_map(|i| (0..width).map(move |j| (i, j))).flat_map(|(i, j)| pixel(i, j)).collect();
        Ok(AtRank { rgba, error: if norm > 0.0 { distance / norm } else { distance } })
    }
}

/// An error unless there are so many pixels.
fn check(rgba: &[u8], width: usize, height: usize) -> Result<(), JsError> {
    match width.checked_mul(height).and_then(|pixels| pixels.checked_mul(4)) {
        Some(bytes) if bytes == rgba.len() => Ok(()),
        _ => Err(JsError::new(&format!("{} bytes are no {width} x {height} pixels", rgba.len()))),
    }
}

/// A number of each pixel.
fn of_pixels(rgba: &[u8], width: usize, height: usize, number: impl Fn(&[u8]) -> f32) -> Mat<f32> {
    let numbers: Vec<f32> = rgba.chunks_exact(4).map(number).collect();
    MatRef::from_row_major_slice(&numbers, height, width).to_owned()
}

/// The grey values of the pixels.
fn grey(rgba: &[u8], width: usize, height: usize) -> Result<Mat<f32>, JsError> {
    check(rgba, width, height)?;
    let luma = |pixel: &[u8]| 0.299 * f32::from(pixel[0]) + 0.587 * f32::from(pixel[1]) + 0.114 * f32::from(pixel[2]);
    Ok(of_pixels(rgba, width, height, luma))
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
