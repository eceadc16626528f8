//! The picture: the spectra on a logarithmic axis, and the energy that the largest values hold beside it.

use std::{ops::Range, path::Path};

use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use svdvals_gpu_gallery::{
    chart::{COLOURS, HEAD, PANEL, THICK, decimal, even_ticks, four_digits, heading, panel},
    draw::{
        Area, Axis, FEW_SHADES, FINE, GREY, Outcome, Pixel, load_font, make_folder, on_scale, save_smooth, stroke, text, ticks,
    },
};

use crate::{
    Row,
    legend::{Legend, short_names, shorten},
    statistics::{PARTS, energies},
};

const DASHES: [&[f64]; 2] = [&[], &[33.0, 18.0]];
/// More curves than this have no style each, but a place on a scale.
pub const STYLES: usize = COLOURS.len() * DASHES.len();

/// A matrix, and how it is drawn.
pub struct Curve<'a> {
    pub name: String,
    row: &'a Row,
    pub colour: RGBColor,
    pub dashes: &'static [f64],
}

/// Draws the picture into a PNG file.
pub fn save(path: &Path, rows: &[Row]) -> Outcome {
    load_font()?;
    let curves = curves(rows);
    let legend = Legend::of(&curves);
    let size = (2 * PANEL.0 / FINE, (HEAD + PANEL.1 + legend.height()) / FINE);
    make_folder(path)?;
    save_smooth(path, size, FEW_SHADES, |root| {
        let (title, subtitle) = titles(rows);
        let (panels, below) = heading(root, &title, &subtitle)?.split_vertically(PANEL.1);
        let (left, right) = panels.split_horizontally(PANEL.0);
        spectra(root, &left, &curves)?;
        energy(root, &right, &curves)?;
        legend.draw(&below, &curves)
    })
}

/// What the matrices are, and what is not drawn.
fn titles(rows: &[Row]) -> (String, String) {
    let file = &rows[0].source.file;
    let mut says = Vec::new();
    let what = if let [row] = rows {
        let (m, n) = row.source.shape;
        says.push(format!("{m} x {n}, {}; the largest is {}.", row.source.element(), four_digits(row.statistics.largest)));
        shorten(&row.name)
    } else {
        let largest = rows.iter().map(|row| row.statistics.largest);
        let (low, high) = largest.fold((f64::INFINITY, 0.0), |(low, high), largest| (low.min(largest), largest.max(high)));
        says.push(format!("Each over its own largest, {} to {}.", four_digits(low), four_digits(high)));
        if rows.iter().all(|row| row.source.file == *file) {
            format!("{} matrices of {}", rows.len(), shorten(&file.file_name().unwrap_or_default().to_string_lossy()))
        } else {
            format!("{} matrices", rows.len())
        }
    };
    if rows.len() > STYLES {
        says.push("Dark to light as in the table, top to bottom.".to_owned());
    }
    let zeros = rows.iter().filter(|row| row.statistics.largest == 0.0).count();
    if rows.iter().any(|row| row.is_rounding() && row.statistics.largest > 0.0) {
        says.push(
            "A circle ends a spectrum whose further values are zero, or below the rounding error eps x largest.".to_owned(),
        );
    }
    if zeros > 0 {
        says.push(format!("Of zeros only, and not drawn: {zeros}."));
    }
    (format!("Singular values of {what}"), says.join(" "))
}

fn curves(rows: &[Row]) -> Vec<Curve<'_>> {
    let names = short_names(rows);
    let style = |k: usize| {
        if rows.len() <= STYLES {
            (COLOURS[k % COLOURS.len()], DASHES[k / COLOURS.len()])
        } else {
            (on_scale(k as f64 / (rows.len() - 1) as f64), DASHES[0])
        }
    };
    let curve = |(k, (row, name))| {
        let (colour, dashes) = style(k);
        Curve { name, row, colour, dashes }
    };
    rows.iter().zip(names).enumerate().map(curve).collect()
}

/// sigma_i / sigma_1 over i.
fn spectra(root: &Area, area: &Area, curves: &[Curve<'_>]) -> Outcome {
    let drawn = |curve: &Curve<'_>| -> Vec<f64> {
        let values = &curve.row.solved.values;
        values[..curve.row.statistics.resolved].iter().map(|sigma| (sigma / values[0]).log10()).collect()
    };
    let lowest = curves.iter().filter_map(|curve| drawn(curve).last().copied()).fold(-0.5, f64::min);
    let y = lowest * 1.04 - 0.02..0.03 - lowest * 0.02;
    let longest = curves.iter().map(|curve| curve.row.solved.values.len()).max().unwrap_or(1) as f64;
    let x = 0.5_f64.min(1.0 - 0.02 * longest)..longest * 1.02 + 0.5;
    let y_ticks = ticks(&y).into_iter().map(|(at, label)| (at, decimal(label))).collect();
    let axes = (Axis { ticks: even_ticks(&x), range: x }, Axis { range: y, ticks: y_ticks });
    panel(area, axes, ["index, i", "i-th singular value / largest"], |pixel| {
        for curve in curves {
            let points: Vec<Pixel> =
                drawn(curve).into_iter().enumerate().map(|(i, level)| pixel((i + 1) as f64, level)).collect();
            line(root, curve, &points)?;
            if let (true, Some(&end)) = (curve.row.is_rounding(), points.last()) {
                root.draw(&Circle::new(end, FINE * 6, curve.colour.filled()))?;
                root.draw(&Circle::new(end, FINE * 7 / 2, WHITE.filled()))?;
            }
        }
        Ok(())
    })
}

/// The part of ||A||_F^2 in the k largest values, over k.
fn energy(root: &Area, area: &Area, curves: &[Curve<'_>]) -> Outcome {
    let longest = curves.iter().map(|curve| curve.row.solved.values.len()).max().unwrap_or(1);
    let x = -0.1..(longest as f64).log2().max(1.0) + 0.1;
    let x_ticks = (0..=x.end as u32).map(|power| (power.into(), (1u64 << power).to_string())).collect();
    let parts = curves.iter().map(|curve| energies(&curve.row.solved.values));
    let curves: Vec<_> = curves.iter().zip(parts).filter(|(curve, _)| curve.row.solved.values[0] > 0.0).collect();
    let lowest = curves.iter().map(|(_, parts)| parts[0]).fold(0.9, f64::min);
    // From zero on, unless one value holds nearly all.
    let y = if lowest < 0.7 { 0.0 } else { 100.0 * lowest - 1.0 }..100.0 + 2.0 * (1.0 - lowest).max(0.1);
    let (ends, y_ticks) = ((x.clone(), y.clone()), even_ticks(&y));
    let axes = (Axis { range: x, ticks: x_ticks }, Axis { range: y, ticks: y_ticks });
    panel(area, axes, ["number of largest values, k", "% of the energy in the k largest"], |pixel| {
        for (curve, parts) in &curves {
            let points: Vec<Pixel> =
                parts.iter().enumerate().map(|(i, part)| pixel(((i + 1) as f64).log2(), 100.0 * part)).collect();
            line(root, curve, &points)?;
        }
        rules(root, ends, pixel)
    })
}

/// Lines at the parts of the energy that the table has ranks for, with labels as far as there is room.
fn rules(root: &Area, (x, y): (Range<f64>, Range<f64>), pixel: &dyn Fn(f64, f64) -> Pixel) -> Outcome {
    let style = text(FINE * 18).pos(Pos::new(HPos::Left, VPos::Center));
    let mut free = i32::MAX;
    for percent in PARTS.map(|part| 100.0 * part).into_iter().filter(|percent| y.contains(percent)) {
        let (from, to) = (pixel(x.start, percent), pixel(x.end, percent));
        if to.1 <= free {
            stroke(root, &[from, to], &[12.0, 12.0], ShapeStyle::from(GREY).stroke_width(FINE))?;
            root.draw(&Text::new(format!("{percent}%"), (to.0 + 6 * FINE as i32, to.1), style.clone()))?;
            free = to.1 - 18 * FINE as i32;
        }
    }
    Ok(())
}

/// A line, with dots where the values are few.
fn line(root: &Area, curve: &Curve<'_>, points: &[Pixel]) -> Outcome {
    stroke(root, points, curve.dashes, ShapeStyle::from(curve.colour).stroke_width(THICK))?;
    if points.len() <= 24 {
        points.iter().try_for_each(|&at| root.draw(&Circle::new(at, FINE * 4, curve.colour.filled())))?;
    }
    Ok(())
}
