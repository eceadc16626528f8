//! The matrix as an image, beside itself at each rank.

use std::path::Path;

use ndarray::Array2;
use plotters::prelude::*;

use svdvals_gpu_gallery::{
    chart::{HEAD, heading},
    draw::{ALL_SHADES, Area, FINE, Outcome, load_font, save_smooth, text},
    files::source::Source,
};

use crate::{decompose::LowRank, percent, title};

// Lengths are in pixels, of which the area drawn on has FINE.
/// The longer side of an image.
const SIDE: u32 = 380;
const MARGIN: u32 = 24;
/// Two lines below an image.
const CAPTION: u32 = 64;

/// Draws the picture into a PNG file.
pub fn save(path: &Path, source: &Source, low_rank: &LowRank) -> Outcome {
    load_font()?;
    let original = || vec!["original".to_owned(), format!("{} bytes", source.bytes())];
    let mut cells: Vec<(&Array2<f64>, Vec<String>)> = low_rank.image.iter().map(|image| (image, original())).collect();
    for rank in &low_rank.ranks {
        let bytes = low_rank.bytes(source.shape, rank.k);
        let share = percent(bytes as f64 / source.bytes() as f64);
        let lines = vec![format!("rank {}, error {}", rank.k, percent(rank.error)), format!("{bytes} bytes, {share}")];
        cells.extend(rank.image.as_ref().map(|image| (image, lines)));
    }
    let (m, n) = (source.shape.0 as u32, source.shape.1 as u32);
    let longer = f64::from(m.max(n));
    let scaled = |side: u32| ((f64::from(SIDE * side) / longer).round() as u32).max(1);
    let (width, height) = (scaled(n), scaled(m));
    let cell = (width.max(SIDE * 2 / 3) + MARGIN, height + CAPTION);
    // Four a row at most, and rows of equal length as far as possible.
    let rows = cells.len().div_ceil(4).max(1);
    let columns = cells.len().div_ceil(rows).max(1);
    let size = (columns as u32 * cell.0 + MARGIN, HEAD / FINE + rows as u32 * cell.1);
    let range = range(low_rank.image.as_ref());
    save_smooth(path, size, ALL_SHADES, |root| {
        let subtitle =
            format!("{m} x {n}, {}. Error: ||A - U S V^H|| / ||A||, Frobenius norms. Bytes: of U, S and V.", source.element());
        heading(root, &format!("{} at low rank", title(source)), &subtitle)?;
        for (k, (image, lines)) in cells.iter().enumerate() {
            let (x, y) = (MARGIN + (k % columns) as u32 * cell.0, HEAD / FINE + (k / columns) as u32 * cell.1);
            draw(root, (FINE * x, FINE * y), (FINE * width, FINE * height), image, range)?;
            for (line, words) in lines.iter().enumerate() {
                let at = ((FINE * x) as i32, (FINE * (y + height + 9 + 25 * line as u32)) as i32);
                root.draw(&Text::new(words.as_str(), at, text(FINE * 20)))?;
            }
        }
        Ok(())
    })
}

/// The smallest and the largest entry: black and white.
fn range(image: Option<&Array2<f64>>) -> (f64, f64) {
    let entries = image.into_iter().flatten();
    entries.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &x| (low.min(x), high.max(x)))
}

/// The image of `size`, its upper left corner at `at`; each pixel has the mean of the entries that fall on it.
fn draw(root: &Area, at: (u32, u32), (width, height): (u32, u32), image: &Array2<f64>, (low, high): (f64, f64)) -> Outcome {
    let (m, n) = image.dim();
    let part = |k: u32, of: u32, count: usize| {
        let edge = |k: u32| (u64::from(k) * count as u64 / u64::from(of)) as usize;
        edge(k)..edge(k + 1).max(edge(k) + 1).min(count)
    };
    let mut pixels = Vec::with_capacity(3 * (width * height) as usize);
    for y in 0..height {
        for x in 0..width {
            let block = image.slice(ndarray::s![part(y, height, m), part(x, width, n)]);
            let mean = block.sum() / block.len() as f64;
            let shade = if high > low { 255.0 * (mean - low) / (high - low) } else { 0.0 };
            pixels.extend([shade.clamp(0.0, 255.0).round() as u8; 3]);
        }
    }
    let element = BitMapElement::with_owned_buffer((at.0 as i32, at.1 as i32), (width, height), pixels);
    root.draw(&element.ok_or("an image without pixels")?)?;
    Ok(())
}
