//! The singular values of the matrix, and the error of each rank beside them.

use std::path::Path;

use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use svdvals_gpu_gallery::{
    chart::{COLOURS, HEAD, PANEL, THICK, decimal, even_ticks, four_digits, heading, panel},
    draw::{Area, Axis, FEW_SHADES, FINE, GREY, Outcome, Pixel, load_font, save_smooth, stroke, text, text_width, ticks},
    files::source::Source,
};

use crate::{decompose::LowRank, percent, title};

/// Draws the picture into a PNG file.
pub fn save(path: &Path, source: &Source, low_rank: &LowRank) -> Outcome {
    load_font()?;
    save_smooth(path, (2 * PANEL.0 / FINE, (HEAD + PANEL.1) / FINE), FEW_SHADES, |root| {
        let (m, n) = source.shape;
        let subtitle = format!(
            "{m} x {n}, {}; the largest value is {}. Marked: rank, and its factors' bytes as a part of the matrix's.",
            source.element(),
            four_digits(low_rank.values[0])
        );
        let panels = heading(root, &format!("{} at low rank", title(source)), &subtitle)?;
        let (left, right) = panels.split_horizontally(PANEL.0);
        spectrum(root, &left, low_rank)?;
        errors(root, &right, source, low_rank)
    })
}

/// sigma_i / sigma_1 over i, down to the rounding error.
fn spectrum(root: &Area, area: &Area, low_rank: &LowRank) -> Outcome {
    let values = &low_rank.values;
    let largest = values[0];
    let levels: Vec<f64> =
        values.iter().map(|sigma| sigma / largest).take_while(|&part| part > low_rank.rounding).map(f64::log10).collect();
    let lowest = levels.last().copied().unwrap_or(0.0).min(-0.5);
    let y = lowest * 1.04 - 0.02..0.03 - lowest * 0.02;
    let x = 0.0..values.len() as f64 * 1.02 + 0.5;
    let y_ticks = ticks(&y).into_iter().map(|(at, label)| (at, decimal(label))).collect();
    let axes = (Axis { ticks: even_ticks(&x), range: x }, Axis { range: y, ticks: y_ticks });
    panel(area, axes, ["index, i", "i-th singular value / largest"], |pixel| {
        let points: Vec<Pixel> = levels.iter().enumerate().map(|(i, &level)| pixel((i + 1) as f64, level)).collect();
        stroke(root, &points, &[], ShapeStyle::from(COLOURS[0]).stroke_width(THICK))
    })
}

/// The error of each rank, with the chosen ones marked, and the rank beyond which the factors take more bytes than the matrix.
fn errors(root: &Area, area: &Area, source: &Source, low_rank: &LowRank) -> Outcome {
    let predictions = low_rank.predictions();
    let x = 0.0..low_rank.values.len() as f64 * 1.02 + 0.5;
    let y = 0.0..1.06;
    let axes = (Axis { ticks: even_ticks(&x), range: x.clone() }, Axis { ticks: even_ticks(&y), range: y.clone() });
    panel(area, axes, ["rank, k", "relative error"], |pixel| {
        let fine = FINE as i32;
        let even = source.bytes() as f64 / low_rank.bytes(source.shape, 1) as f64;
        if x.contains(&even) {
            let style = text(FINE * 18).pos(Pos::new(HPos::Left, VPos::Top));
            stroke(root, &[pixel(even, y.start), pixel(even, y.end)], &[12.0, 12.0], ShapeStyle::from(GREY).stroke_width(FINE))?;
            let (left, top) = pixel(even, y.end);
            root.draw(&Text::new("as many bytes", (left + 8 * fine, top + 8 * fine), style))?;
        }
        let points: Vec<Pixel> = predictions.iter().enumerate().map(|(k, &error)| pixel(k as f64, error)).collect();
        stroke(root, &points, &[], ShapeStyle::from(COLOURS[0]).stroke_width(THICK))?;
        let style = text(FINE * 18).pos(Pos::new(HPos::Left, VPos::Bottom));
        // Ranks ascend; a label that would cover the one before is left out.
        let mut free = (i32::MIN, i32::MIN);
        for rank in &low_rank.ranks {
            let (left, top) = pixel(rank.k as f64, rank.error);
            let share = percent(low_rank.bytes(source.shape, rank.k) as f64 / source.bytes() as f64);
            let label = format!("{}: {share}", rank.k);
            let (x, y, width) = (left + 9 * fine, top - 5 * fine, text_width(&label, FINE * 18) as i32);
            if x >= free.0 || y - 18 * fine >= free.1 {
                root.draw(&Rectangle::new([(x, y - 18 * fine), (x + width, y)], WHITE.filled()))?;
                root.draw(&Text::new(label, (x, y), style.clone()))?;
                free = (x + width, y);
            }
            root.draw(&Circle::new((left, top), FINE * 6, COLOURS[1].filled()))?;
        }
        Ok(())
    })
}
