//! What the examples' pictures are drawn with. The font is compiled in, so that every machine draws the same.

use std::{error::Error, ops::Range};

use plotters::{
    coord::{
        Shift,
        ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter},
    },
    prelude::*,
    style::register_font,
};

pub type Area<'a> = DrawingArea<BitMapBackend<'a>, Shift>;
pub type Outcome<T = ()> = Result<T, Box<dyn Error>>;
pub type Pixel = (i32, i32);

pub const BLUE: RGBColor = RGBColor(0, 90, 181);
pub const ORANGE: RGBColor = RGBColor(220, 95, 0);
pub const GREEN: RGBColor = RGBColor(0, 140, 90);
pub const BLACK: RGBColor = RGBColor(20, 20, 20);
pub const GREY: RGBColor = RGBColor(125, 125, 125);

const FONT: &str = "sans-serif";

/// Before anything is written.
pub fn load_font() -> Outcome {
    register_font(FONT, FontStyle::Normal, epaint_default_fonts::UBUNTU_LIGHT).map_err(|_| "the font cannot be read".into())
}

/// Lengths of dashes and gaps, in pixels.
pub const DASHED: &[f64] = &[7.0, 5.0];

/// A line with dashes and gaps of these lengths, in turn, all along it; with none it is solid.
pub fn stroke(area: &Area, points: &[Pixel], dashes: &[f64], style: ShapeStyle) -> Outcome {
    if dashes.is_empty() {
        area.draw(&PathElement::new(points, style))?;
        return Ok(());
    }
    let (mut dash, mut left) = (0, dashes[0]);
    let mut drawn: Vec<Pixel> = points.first().copied().into_iter().collect();
    for ends in points.windows(2) {
        let ((x0, y0), (x1, y1)) = (ends[0], ends[1]);
        let length = f64::from(x1 - x0).hypot(f64::from(y1 - y0));
        let mut along = 0.0;
        while length - along >= left {
            along += left;
            let part = along / length;
            drawn.push((x0 + (part * f64::from(x1 - x0)).round() as i32, y0 + (part * f64::from(y1 - y0)).round() as i32));
            let next = drawn.split_off(drawn.len() - 1);
            if dash % 2 == 0 {
                area.draw(&PathElement::new([drawn, next.clone()].concat(), style))?;
            }
            drawn = next;
            dash = (dash + 1) % dashes.len();
            left = dashes[dash];
        }
        left -= length - along;
        drawn.push((x1, y1));
    }
    if dash % 2 == 0 {
        area.draw(&PathElement::new(drawn, style))?;
    }
    Ok(())
}

/// Labels of a logarithmic axis: powers of ten, and twice and five times these where the axis is short.
pub fn ticks(range: &Range<f64>) -> Vec<(f64, String)> {
    let digits: &[u32] = if range.end - range.start > 4.0 { &[1] } else { &[1, 2, 5] };
    (range.start.floor() as i32..=range.end.floor() as i32)
        .flat_map(|power| {
            digits.iter().map(move |digit| (f64::from(*digit).log10() + f64::from(power), format!("{digit}e{power}")))
        })
        .filter(|(at, _)| range.contains(at))
        .collect()
}

/// An axis with labels where it is told.
pub struct Axis {
    pub range: Range<f64>,
    pub ticks: Vec<(f64, String)>,
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let part = (value - self.range.start) / (self.range.end - self.range.start);
        from + (part * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.iter().map(|(at, _)| *at).collect() }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        self.ticks.iter().find(|(at, _)| at == value).map_or_else(String::new, |(_, label)| label.clone())
    }
}

pub fn text(size: u32) -> TextStyle<'static> {
    (FONT, size).into_font().color(&BLACK)
}

/// The width of a text of this size, in pixels.
pub fn text_width(words: &str, size: u32) -> u32 {
    (FONT, size).into_font().box_size(words).map_or(0, |(width, _)| width)
}
