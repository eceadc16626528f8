//! The pictures: points, curve and residuals; a window, its plane and what is left.

use std::{ops::Range, path::Path};

use ndarray::{Array2, ArrayView2};
use plotters::prelude::*;
use svdvals_gpu_gallery::{
    chart::{COLOURS, HEAD, PANEL, THICK, even_ticks, heading, panel},
    draw::{ALL_SHADES, Area, Axis, FEW_SHADES, FINE, GREY, Outcome, load_font, save_smooth, signed, stroke, text},
};

use crate::{plane::Plane, polynomial::Polynomial};

/// Points of the curve.
const STEPS: usize = 600;
/// Pixels of a map, and between two.
const MAP: u32 = FINE * 400;
const GAP: u32 = FINE * 30;

/// From the smallest to the largest with room; never empty.
fn range(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
    let room = 0.05 * (high - low).max(1e-9 * high.abs()).max(f64::MIN_POSITIVE);
    low - room..high + room
}

fn axis(range: &Range<f64>) -> Axis {
    Axis { ticks: even_ticks(range), range: range.clone() }
}

/// Draws the points with the curve, and below them the residuals.
pub fn save_polynomial(path: &Path, file: &Path, x: &[f64], y: &[f64], fit: &Polynomial) -> Outcome {
    load_font()?;
    let size = (PANEL.0 / FINE, (HEAD + 2 * PANEL.1) / FINE);
    save_smooth(path, size, FEW_SHADES, |root| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let degree = fit.coefficients.len() - 1;
        let subtitle = format!("{} points; standard deviation of the residuals {:.3e}.", x.len(), fit.deviation);
        let below = heading(root, &format!("A polynomial of degree {degree} through {name}"), &subtitle)?;
        let (above, below) = below.split_vertically(PANEL.1);
        let across = range(x.iter().copied());
        let step = (across.end - across.start) / STEPS as f64;
        let inside = x.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &x| (low.min(x), high.max(x)));
        let curve: Vec<(f64, f64)> = (0..=STEPS)
            .map(|k| across.start + k as f64 * step)
            .filter(|x| (inside.0..=inside.1).contains(x))
            .map(|x| (x, fit.at(x)))
            .collect();
        panel(&above, (axis(&across), axis(&range(y.iter().copied()))), ["x", "y"], |pixel| {
            let points: Vec<_> = curve.iter().map(|&(x, y)| pixel(x, y)).collect();
            stroke(root, &points, &[], ShapeStyle::from(COLOURS[0]).stroke_width(THICK))?;
            for (&x, &y) in x.iter().zip(y) {
                root.draw(&Circle::new(pixel(x, y), FINE * 4, COLOURS[1].filled()))?;
            }
            Ok(())
        })?;
        panel(&below, (axis(&across), axis(&range(fit.residuals.iter().copied()))), ["x", "residual"], |pixel| {
            let zero = [pixel(across.start, 0.0), pixel(across.end, 0.0)];
            stroke(root, &zero, &[], ShapeStyle::from(GREY).stroke_width(FINE))?;
            for (&x, &residual) in x.iter().zip(&fit.residuals) {
                let ends = [pixel(x, 0.0), pixel(x, residual)];
                stroke(root, &ends, &[], ShapeStyle::from(GREY).stroke_width(FINE))?;
                root.draw(&Circle::new(ends[1], FINE * 4, COLOURS[1].filled()))?;
            }
            Ok(())
        })
    })
}

/// Draws the window, the plane and the residuals.
pub fn save_plane(path: &Path, file: &Path, fit: &Plane) -> Outcome {
    load_font()?;
    let (height, width) = fit.window.dim();
    let tall = (MAP as usize * height / width.max(1)).clamp(FINE as usize * 40, 4 * MAP as usize) as u32;
    let size = ((3 * (MAP + GAP) + GAP) / FINE, (HEAD + tall + FINE * 60) / FINE);
    save_smooth(path, size, ALL_SHADES, |root| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let subtitle = format!("Standard deviation {:.2} before, {:.2} after.", fit.before, fit.deviation);
        let below = heading(root, &format!("A plane through {height} x {width} pixels of {name}"), &subtitle)?;
        let plane = &fit.window - &fit.residuals;
        let (low, high) = fit.window.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &x| (low.min(x), high.max(x)));
        let grey = |x: f64| {
            let shade = (255.0 * ((x - low) / (high - low).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)) as u8;
            RGBColor(shade, shade, shade)
        };
        let most = fit.residuals.iter().fold(f64::MIN_POSITIVE, |most, x| most.max(x.abs()));
        let maps: [(&str, Array2<RGBColor>); 3] = [
            ("brightness", fit.window.mapv(grey)),
            ("plane", plane.mapv(grey)),
            ("residual: orange brighter, blue darker than the plane", fit.residuals.mapv(|x| signed(x / most))),
        ];
        for (k, (title, pixels)) in maps.iter().enumerate() {
            draw(&below, (GAP + k as u32 * (MAP + GAP), tall), title, pixels.view())?;
        }
        Ok(())
    })
}

fn draw(area: &Area, (left, tall): (u32, u32), title: &str, pixels: ArrayView2<'_, RGBColor>) -> Outcome {
    let (height, width) = pixels.dim();
    let x = |j: usize| (left + j as u32 * MAP / width as u32) as i32;
    let y = |i: usize| (FINE * 34 + i as u32 * tall / height as u32) as i32;
    area.draw(&Text::new(title, (left as i32, 0), text(FINE * 19)))?;
    for ((i, j), colour) in pixels.indexed_iter() {
        area.draw(&Rectangle::new([(x(j), y(i)), (x(j + 1), y(i + 1))], colour.filled()))?;
    }
    area.draw(&Rectangle::new([(x(0), y(0)), (x(width), y(height))], ShapeStyle::from(GREY).stroke_width(FINE)))?;
    Ok(())
}
