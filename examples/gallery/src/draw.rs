//! What pictures are drawn with. The font is compiled in, so that every machine draws the same.

use std::{
    error::Error,
    fs::{self, File},
    io::BufWriter,
    ops::Range,
    path::Path,
};

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
pub const PURPLE: RGBColor = RGBColor(130, 60, 170);
pub const RED: RGBColor = RGBColor(190, 30, 60);
pub const BLACK: RGBColor = RGBColor(20, 20, 20);
pub const GREY: RGBColor = RGBColor(125, 125, 125);

/// From dark blue by grey to yellow, ever lighter: a colour-blind eye sees the same order.
const SCALE: [(u8, u8, u8); 6] = [(0, 32, 77), (46, 70, 108), (97, 101, 111), (139, 137, 120), (187, 175, 113), (229, 209, 92)];

const FONT: &str = "sans-serif";

/// Pixels that [`save_smooth`] makes one of, in each direction.
pub const FINE: u32 = 3;

/// Before anything is drawn or measured.
pub fn load_font() -> Outcome {
    register_font(FONT, FontStyle::Normal, epaint_default_fonts::UBUNTU_LIGHT).map_err(|_| "the font cannot be read".into())
}

/// Makes the folder that a file is in.
pub fn make_folder(path: &Path) -> std::io::Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => fs::create_dir_all(folder),
        _ => Ok(()),
    }
}

/// Shades of a colour that are all but the same, where a picture is of lines and even areas: with as many as are left the file is half as large.
pub const FEW_SHADES: u32 = 17;
pub const ALL_SHADES: u32 = 1;

/// Draws a picture of this size into a PNG file, smoothly: `draw` gets an area [`FINE`] times as wide and as high, of which the means are
/// kept, rounded to multiples of `shades`.
pub fn save_smooth(path: &Path, (width, height): (u32, u32), shades: u32, draw: impl FnOnce(&Area) -> Outcome) -> Outcome {
    let (fine, row) = (FINE as usize, 3 * (FINE * width) as usize);
    let mut pixels = vec![255; row * (FINE * height) as usize];
    {
        let area = BitMapBackend::with_buffer(&mut pixels, (FINE * width, FINE * height)).into_drawing_area();
        draw(&area)?;
        area.present()?;
    }
    let mean = |x: usize, y: usize, colour: usize| {
        let line = |dy: usize| (0..fine).map(move |dx| row * (fine * y + dy) + 3 * (fine * x + dx) + colour);
        let sum: u32 = (0..fine).flat_map(line).map(|at| u32::from(pixels[at])).sum();
        ((sum / (FINE * FINE) + shades / 2) / shades * shades) as u8
    };
    let (columns, rows) = (width as usize, height as usize);
    let means: Vec<u8> =
        (0..rows).flat_map(|y| (0..3 * columns).map(move |k| (k, y))).map(|(k, y)| mean(k / 3, y, k % 3)).collect();
    let mut encoder = png::Encoder::new(BufWriter::new(File::create(path)?), width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_compression(png::Compression::Best);
    encoder.set_filter(png::FilterType::NoFilter); // the best for lines and even areas
    encoder.write_header()?.write_image_data(&means)?;
    Ok(())
}

/// White at 0, the colour at 1.
pub fn towards(to: RGBColor, part: f64) -> RGBColor {
    let mix = |end: u8| (255.0 + (f64::from(end) - 255.0) * part.clamp(0.0, 1.0)).round() as u8;
    RGBColor(mix(to.0), mix(to.1), mix(to.2))
}

/// A signed part of the whole: orange where it is positive, blue where it is negative, white at 0.
pub fn signed(part: f64) -> RGBColor {
    towards(if part > 0.0 { RGBColor(213, 94, 0) } else { RGBColor(0, 90, 181) }, part.abs())
}

/// The colour of a part of the scale, from 0 (dark) to 1 (light).
pub fn on_scale(part: f64) -> RGBColor {
    let place = part * (SCALE.len() - 1) as f64;
    let (low, high) = (SCALE[place.floor() as usize], SCALE[place.ceil() as usize]);
    let mix = |low: u8, high: u8| (f64::from(low) + (f64::from(high) - f64::from(low)) * place.fract()) as u8;
    RGBColor(mix(low.0, high.0), mix(low.1, high.1), mix(low.2, high.2))
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

/// Places and labels on a logarithmic axis: powers of ten, and twice and five times these where the axis is short.
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
