//! Charts on finely drawn areas ([`save_smooth`](crate::draw::save_smooth)): axes, and their labels. Lengths are in fine pixels.

use std::ops::Range;

use plotters::prelude::*;

use crate::draw::{Area, Axis, BLACK, FINE, GREY, Outcome, Pixel, text};

/// Okabe and Ito's colours, which colour-blind people tell apart, without the yellow, which white paper swallows.
pub const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    BLACK,
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
];

pub const PANEL: (u32, u32) = (FINE * 700, FINE * 480);
/// What [`heading`] takes above the panels.
pub const HEAD: u32 = FINE * 84;
pub const THICK: u32 = FINE * 5 / 2;

/// Writes two lines above, and returns what is below them.
pub fn heading<'a>(root: &Area<'a>, title: &str, subtitle: &str) -> Outcome<Area<'a>> {
    let fine = FINE as i32;
    root.draw(&Text::new(title, (24 * fine, 14 * fine), text(FINE * 29)))?;
    root.draw(&Text::new(subtitle, (24 * fine, 52 * fine), text(FINE * 19)))?;
    Ok(root.split_vertically(HEAD).1)
}

/// Axes in `area`; `draw` is given the pixel of a point, in the whole picture.
pub fn panel(
    area: &Area,
    (x, y): (Axis, Axis),
    [x_label, y_label]: [&str; 2],
    draw: impl FnOnce(&dyn Fn(f64, f64) -> Pixel) -> Outcome,
) -> Outcome {
    let mut chart = ChartBuilder::on(area)
        .margin(FINE * 8)
        .margin_right(FINE * 56)
        .x_label_area_size(FINE * 58)
        .y_label_area_size(FINE * 88)
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .bold_line_style(ShapeStyle::from(RGBColor(225, 225, 225)).stroke_width(FINE))
        .axis_style(ShapeStyle::from(GREY).stroke_width(FINE))
        .label_style(text(FINE * 20))
        .axis_desc_style(text(FINE * 21))
        .set_all_tick_mark_size(FINE * 5)
        .x_desc(x_label)
        .y_desc(y_label)
        .draw()?;
    draw(&|x, y| chart.plotting_area().map_coordinate(&(x, y)))
}

/// Labels of an even axis: 1, 2 or 5 times a power of ten apart, some five of them.
pub fn even_ticks(range: &Range<f64>) -> Vec<(f64, String)> {
    let wanted = (range.end - range.start) / 6.0;
    let power = 10f64.powf(wanted.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power).into_iter().find(|&step| step >= wanted).unwrap_or(wanted);
    let decimals = (-step.log10().floor()).max(0.0) as usize;
    let (first, last) = ((range.start / step).ceil() as i64, (range.end / step).floor() as i64);
    (first..=last).map(|k| k as f64 * step).map(|at| (at, format!("{at:.decimals$}"))).collect()
}

/// `5e-1` as `0.5`; far from 1 it stays.
pub fn decimal(label: String) -> String {
    match label.parse::<f64>() {
        Ok(value) if value >= 0.001 => value.to_string(),
        _ => label,
    }
}

/// A number with four digits that count, and an exponent only where it would be long without.
pub fn four_digits(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    if !(0.01..99999.5).contains(&value) {
        return format!("{value:.3e}");
    }
    let decimals = 3 - value.log10().floor() as i32;
    format!("{value:.*}", decimals.max(0) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four digits, before and after the point.
    #[test]
    fn digits() {
        let numbers = [0.0, 0.0123456, 0.5, 7.0, 123.456, 99999.0, 123456.0, 1e-9];
        assert_eq!(numbers.map(four_digits), ["0", "0.01235", "0.5000", "7.000", "123.5", "99999", "1.235e5", "1.000e-9"]);
    }
}
