//! The picture: the spectra on a logarithmic axis, and the energy that the largest values hold beside it.

use std::{ops::Range, path::Path};

use plotters::prelude::*;

use crate::{
    Row,
    draw::{Area, Axis, BLACK, GREY, Outcome, Pixel, load_font, stroke, text, text_width, ticks},
    statistics::energies,
    write::make_folder,
};

/// Okabe and Ito's colours, which colour-blind people tell apart, without the yellow, which white paper swallows.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    BLACK,
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
];
const DASHES: [&[f64]; 3] = [&[], &[14.0, 7.0], &[4.0, 6.0]];
/// More curves than this have no style each, but a place on a scale.
const STYLES: usize = COLOURS.len() * 2;
/// From dark to light; a colour-blind eye sees the same order. (Matplotlib's cividis, at six places.)
const SCALE: [(u8, u8, u8); 6] = [(0, 32, 77), (46, 70, 108), (97, 101, 111), (139, 137, 120), (187, 175, 113), (229, 209, 92)];

const PANEL: (u32, u32) = (760, 520);
const HEAD: u32 = 84;
const LEGEND_LINE: u32 = 30;
const LEGEND_TEXT: u32 = 21;
/// Longer names lose their middle.
const LONGEST_NAME: usize = 60;

struct Curve<'a> {
    name: String,
    row: &'a Row,
    colour: RGBColor,
    dashes: &'static [f64],
}

/// Draws the picture into a PNG file.
pub fn save(path: &Path, rows: &[Row]) -> Outcome {
    load_font()?;
    let curves = curves(rows);
    let legend = Legend::of(&curves);
    let size = (2 * PANEL.0, HEAD + PANEL.1 + legend.height());
    make_folder(path)?;
    let root = BitMapBackend::new(path, size).into_drawing_area();
    root.fill(&WHITE)?;
    let what = if rows.len() == 1 { rows[0].name.clone() } else { format!("{} matrices", rows.len()) };
    root.draw(&Text::new(format!("Singular values of {what}"), (24, 14), text(31)))?;
    root.draw(&Text::new(remark(rows), (24, 54), text(20)))?;
    let (_, below) = root.split_vertically(HEAD);
    let (panels, below) = below.split_vertically(PANEL.1);
    let (left, right) = panels.split_horizontally(PANEL.0);
    spectra(&root, &left, &curves)?;
    energy(&root, &right, &curves)?;
    legend.draw(&below, &curves)?;
    root.present()?;
    Ok(())
}

fn remark(rows: &[Row]) -> String {
    let zeros = rows.iter().filter(|row| row.solved.values[0] == 0.0).count();
    let mut parts = Vec::new();
    if rows.iter().any(|row| row.is_rounding() && row.solved.values[0] > 0.0) {
        parts.push(
            "A circle ends a spectrum whose further values are zero, or below the rounding error eps · largest.".to_owned(),
        );
    }
    if zeros > 0 {
        parts.push(format!("Not drawn: {zeros} of zeros only."));
    }
    parts.join(" ")
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

fn on_scale(part: f64) -> RGBColor {
    let place = part * (SCALE.len() - 1) as f64;
    let (low, high) = (SCALE[place.floor() as usize], SCALE[place.ceil() as usize]);
    let mix = |low: u8, high: u8| (f64::from(low) + (f64::from(high) - f64::from(low)) * place.fract()) as u8;
    RGBColor(mix(low.0, high.0), mix(low.1, high.1), mix(low.2, high.2))
}

/// The names without the dotted words that all begin with, or end with.
fn short_names(rows: &[Row]) -> Vec<String> {
    let split: Vec<Vec<&str>> = rows.iter().map(|row| row.name.split('.').collect()).collect();
    let mut words: Vec<&[&str]> = split.iter().map(Vec::as_slice).collect();
    // While a word is left for the name.
    while words.len() > 1 && words.iter().all(|w| w.len() > 1 && w.first() == words[0].first()) {
        words.iter_mut().for_each(|w| *w = &w[1..]);
    }
    while words.len() > 1 && words.iter().all(|w| w.len() > 1 && w.last() == words[0].last()) {
        words.iter_mut().for_each(|w| *w = &w[..w.len() - 1]);
    }
    let shorten = |name: String| {
        let letters: Vec<char> = name.chars().collect();
        if letters.len() <= LONGEST_NAME {
            return name;
        }
        let end = |letters: &[char]| letters.iter().collect::<String>();
        format!("{} ... {}", end(&letters[..LONGEST_NAME / 2 - 3]), end(&letters[letters.len() - LONGEST_NAME / 2 + 2..]))
    };
    words.into_iter().map(|words| shorten(words.join("."))).collect()
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
    panel(area, axes, ["index i", "i-th singular value / largest"], |pixel| {
        for curve in curves {
            let points: Vec<Pixel> =
                drawn(curve).into_iter().enumerate().map(|(i, level)| pixel((i + 1) as f64, level)).collect();
            line(root, curve, &points)?;
            if let (true, Some(&end)) = (curve.row.is_rounding(), points.last()) {
                root.draw(&Circle::new(end, 7, curve.colour.filled()))?;
                root.draw(&Circle::new(end, 4, WHITE.filled()))?;
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
    let y_ticks = even_ticks(&y);
    panel(
        area,
        (Axis { range: x, ticks: x_ticks }, Axis { range: y, ticks: y_ticks }),
        ["number k of largest values", "% of the energy in them"],
        |pixel| {
            for (curve, parts) in &curves {
                let points: Vec<Pixel> =
                    parts.iter().enumerate().map(|(i, part)| pixel(((i + 1) as f64).log2(), 100.0 * part)).collect();
                line(root, curve, &points)?;
            }
            Ok(())
        },
    )
}

fn panel(
    area: &Area,
    (x, y): (Axis, Axis),
    [x_label, y_label]: [&str; 2],
    draw: impl FnOnce(&dyn Fn(f64, f64) -> Pixel) -> Outcome,
) -> Outcome {
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .margin_right(28)
        .x_label_area_size(62)
        .y_label_area_size(96)
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .bold_line_style(RGBColor(225, 225, 225))
        .axis_style(GREY)
        .label_style(text(21))
        .axis_desc_style(text(23))
        .x_desc(x_label)
        .y_desc(y_label)
        .draw()?;
    draw(&|x, y| chart.plotting_area().map_coordinate(&(x, y)))
}

/// A line, with dots where the values are few.
fn line(root: &Area, curve: &Curve<'_>, points: &[Pixel]) -> Outcome {
    stroke(root, points, curve.dashes, ShapeStyle::from(curve.colour).stroke_width(3))?;
    if points.len() <= 40 {
        points.iter().try_for_each(|&at| root.draw(&Circle::new(at, 5, curve.colour.filled())))?;
    }
    Ok(())
}

/// Labels of an even axis: 1, 2 or 5 times a power of ten apart, some five of them.
fn even_ticks(range: &Range<f64>) -> Vec<(f64, String)> {
    let wanted = (range.end - range.start) / 6.0;
    let power = 10f64.powf(wanted.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power).into_iter().find(|&step| step >= wanted).unwrap_or(wanted);
    let decimals = (-step.log10().floor()).max(0.0) as usize;
    let (first, last) = ((range.start / step).ceil() as i64, (range.end / step).floor() as i64);
    (first..=last).map(|k| k as f64 * step).map(|at| (at, format!("{at:.decimals$}"))).collect()
}

/// `5e-1` as `0.5`; far from 1 it stays.
fn decimal(label: String) -> String {
    match label.parse::<f64>() {
        Ok(value) if value >= 0.001 => value.to_string(),
        _ => label,
    }
}

/// Names beside pieces of their lines, in columns below the panels.
struct Legend {
    /// Which curves have a place: of many only some.
    places: Vec<usize>,
    columns: usize,
    column_width: u32,
}

impl Legend {
    fn of(curves: &[Curve<'_>]) -> Legend {
        let places: Vec<usize> = match curves.len() {
            0 | 1 => Vec::new(),
            count if count <= STYLES => (0..count).collect(),
            count => (0..8).map(|k| k * (count - 1) / 7).collect(),
        };
        let widest = places.iter().map(|&k| text_width(&curves[k].name, LEGEND_TEXT)).max().unwrap_or(0);
        let column_width = widest + 110;
        let columns = ((2 * PANEL.0 - 100) / column_width).clamp(1, places.len().max(1) as u32) as usize;
        Legend { places, columns, column_width }
    }

    fn lines(&self) -> usize {
        self.places.len().div_ceil(self.columns)
    }

    fn height(&self) -> u32 {
        if self.places.is_empty() { 8 } else { 24 + LEGEND_LINE * self.lines() as u32 }
    }

    fn draw(&self, area: &Area, curves: &[Curve<'_>]) -> Outcome {
        for (k, place) in self.places.iter().enumerate() {
            let (column, line) = (k / self.lines(), k % self.lines());
            let (x, y) = (96 + (column as u32 * self.column_width) as i32, 18 + (LEGEND_LINE as usize * line) as i32);
            let curve = &curves[*place];
            stroke(area, &[(x, y), (x + 56, y)], curve.dashes, ShapeStyle::from(curve.colour).stroke_width(3))?;
            area.draw(&Text::new(curve.name.as_str(), (x + 68, y - 11), text(LEGEND_TEXT)))?;
        }
        Ok(())
    }
}
