//! Pictures of panels with a logarithmic y axis, as PNG.

use std::{ops::Range, path::Path};

use plotters::prelude::*;

use crate::draw::{Area, Axis, DASHED, GREY, Outcome, Pixel, load_font, stroke, text, ticks};

const PANEL: (u32, u32) = (680, 500);
/// Panels are wider, and fewer beside one another, if one has more labels on its x axis than this.
const MOST_LABELS: usize = 10;
const TITLE: u32 = 96;
const LEGEND_LINE: i32 = 30;

/// Panels, three a row or two wide ones, with common names of the axes.
pub struct Picture {
    pub title: String,
    pub subtitle: String,
    pub x_label: &'static str,
    pub y_label: &'static str,
    pub panels: Vec<Panel>,
}

pub struct Panel {
    pub title: String,
    /// Where the x axis has labels, one apart, and which.
    pub x_ticks: Vec<(f64, String)>,
    pub series: Vec<Series>,
    /// Whether series stand side by side, so that equal figures can be told apart, or each at its x.
    pub beside: bool,
}

/// Samples, each over its x.
pub struct Series {
    /// Empty: not in the legend.
    pub label: String,
    pub colour: RGBColor,
    pub mark: Mark,
    pub samples: Vec<(f64, Vec<f64>)>,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Mark {
    /// A line through the largest of every sample; open marks on a dashed line, or full ones on a solid line.
    Line { shape: Shape, open: bool },
    /// A box from quartile to quartile with a line at the median, and whiskers to the smallest and the largest.
    Box,
    /// A dashed line with no marks: through the samples, or a horizontal one at the only sample.
    Rule,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Shape {
    Circle,
    Triangle,
    Square,
    Diamond,
}

impl Picture {
    /// Draws the picture into a PNG file.
    pub fn save(&self, path: &Path) -> Outcome {
        let wide = self.panels.iter().any(|panel| panel.x_ticks.len() > MOST_LABELS);
        let (most, width) = if wide { (2, 3 * PANEL.0 / 2) } else { (3, PANEL.0) };
        let columns = self.panels.len().clamp(1, most);
        let rows = self.panels.len().div_ceil(columns).max(1);
        let legend = 20 + LEGEND_LINE as u32 * self.panels.iter().map(Panel::legend_lines).max().unwrap_or(0) as u32;
        let size = (width * columns as u32, TITLE + rows as u32 * (PANEL.1 + legend));
        let root = canvas(path, size)?;
        let grid = titled(&root, &self.title, &self.subtitle)?;
        for (panel, area) in self.panels.iter().zip(grid.split_evenly((rows, columns))) {
            let (area, below) = area.split_vertically(PANEL.1);
            panel.draw(&root, &area, self.x_label, self.y_label)?;
            panel.draw_legend(&below)?;
        }
        root.present()?;
        Ok(())
    }
}

/// A white picture, and the font ready.
pub fn canvas(path: &Path, size: (u32, u32)) -> Outcome<Area<'_>> {
    load_font()?;
    let root = BitMapBackend::new(path, size).into_drawing_area();
    root.fill(&WHITE)?;
    Ok(root)
}

/// Writes two lines above, and returns what is below them.
pub fn titled<'a>(root: &Area<'a>, title: &str, subtitle: &str) -> Outcome<Area<'a>> {
    root.draw(&Text::new(title, (24, 18), text(31)))?;
    root.draw(&Text::new(subtitle, (24, 60), text(21)))?;
    Ok(root.split_vertically(TITLE).1)
}

impl Panel {
    /// Axes in `area`; the data in pixels of `root`.
    fn draw(&self, root: &Area, area: &Area, x_label: &str, y_label: &str) -> Outcome {
        let y = self.y_range();
        let x = self.x_ticks.first().map_or(0.0, |(x, _)| x - 0.6)..self.x_ticks.last().map_or(1.0, |(x, _)| x + 0.6);
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, text(25))
            .margin(12)
            .margin_right(24)
            .x_label_area_size(62)
            .y_label_area_size(96)
            .build_cartesian_2d(Axis { range: x.clone(), ticks: self.x_ticks.clone() }, Axis { ticks: ticks(&y), range: y })?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .bold_line_style(RGBColor(218, 218, 218))
            .axis_style(GREY)
            .label_style(text(20))
            .axis_desc_style(text(21))
            .x_desc(x_label)
            .y_desc(y_label)
            .draw()?;
        let pixel = |x: f64, error: f64| chart.plotting_area().map_coordinate(&(x, log(error)));
        let beside = if self.beside { self.series.iter().filter(|series| series.mark != Mark::Rule).count().max(1) } else { 1 };
        let width = if self.series.iter().any(|series| series.mark == Mark::Box) { 0.7 } else { 0.35 } / beside as f64;
        let mut offset = -width * (beside - 1) as f64 / 2.0;
        for series in &self.series {
            series.draw(root, &x, offset, width, &pixel)?;
            offset += if series.mark == Mark::Rule || !self.beside { 0.0 } else { width };
        }
        Ok(())
    }

    /// log10 of the smallest and of the largest sample, with room; a decade at least.
    fn y_range(&self) -> Range<f64> {
        let errors = self.series.iter().flat_map(|series| &series.samples).flat_map(|(_, sample)| sample);
        let (low, high) = errors.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &e| (low.min(log(e)), high.max(log(e))));
        if low > high {
            return -1.0..0.0;
        }
        let room = 0.06 * (high - low) + (0.5 - (high - low) / 2.0).max(0.05);
        low - room..high + room
    }

    fn labelled(&self) -> impl Iterator<Item = &Series> {
        self.series.iter().filter(|series| !series.label.is_empty())
    }

    fn legend_lines(&self) -> usize {
        self.labelled().count().div_ceil(2)
    }

    fn draw_legend(&self, area: &Area) -> Outcome {
        for (k, series) in self.labelled().enumerate() {
            let (column, line) = (k / self.legend_lines(), k % self.legend_lines());
            let (x, y) = (140 + 280 * column as i32, 12 + LEGEND_LINE * line as i32);
            let solid = ShapeStyle::from(series.colour).stroke_width(2);
            match series.mark {
                Mark::Line { shape, open } => {
                    stroke(area, &[(x - 44, y), (x, y)], dashes(open), solid)?;
                    mark(area, shape, open, (x - 22, y), series.colour)?;
                }
                Mark::Box => boxed(area, (x - 32, x - 12), [y + 10, y + 6, y, y - 6, y - 10], series.colour)?,
                Mark::Rule => stroke(area, &[(x - 44, y), (x, y)], DASHED, solid)?,
            }
            area.draw(&Text::new(series.label.as_str(), (x + 12, y - 7), text(19)))?;
        }
        Ok(())
    }
}

impl Series {
    fn draw(&self, root: &Area, x: &Range<f64>, offset: f64, width: f64, pixel: &dyn Fn(f64, f64) -> Pixel) -> Outcome {
        let solid = ShapeStyle::from(self.colour).stroke_width(2);
        match self.mark {
            Mark::Line { shape, open } => {
                let points: Vec<Pixel> = self
                    .samples
                    .iter()
                    .filter_map(|(x, sample)| sample.iter().copied().reduce(f64::max).map(|most| pixel(x + offset, most)))
                    .collect();
                stroke(root, &points, dashes(open), solid)?;
                points.into_iter().try_for_each(|at| mark(root, shape, open, at, self.colour))
            }
            Mark::Box => self.samples.iter().filter(|(_, sample)| !sample.is_empty()).try_for_each(|(x, sample)| {
                let at = |error: f64| pixel(*x, error).1;
                let side = |half: f64| pixel(x + offset + half * width, sample[0]).0;
                boxed(root, (side(-0.36), side(0.36)), quartiles(sample).map(at), self.colour)
            }),
            Mark::Rule => {
                let ends = match self.samples.as_slice() {
                    [(_, level)] => vec![(x.start, level), (x.end, level)],
                    samples => samples.iter().map(|(x, level)| (*x, level)).collect(),
                };
                let points: Vec<Pixel> = ends.iter().filter_map(|(x, level)| Some(pixel(*x, *level.first()?))).collect();
                stroke(root, &points, DASHED, solid)
            }
        }
    }
}

/// Smallest, lower quartile, median, upper quartile, largest, with linear interpolation; the sample is not empty.
pub fn quartiles(sample: &[f64]) -> [f64; 5] {
    let mut sorted = sample.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    [0.0, 0.25, 0.5, 0.75, 1.0].map(|part| {
        let place = part * (sorted.len() - 1) as f64;
        let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
        low + (high - low) * place.fract()
    })
}

/// Of a line with open marks, or with full ones.
fn dashes(open: bool) -> &'static [f64] {
    if open { DASHED } else { &[] }
}

fn mark(area: &Area, shape: Shape, open: bool, (x, y): Pixel, colour: RGBColor) -> Outcome {
    let corners: &[Pixel] = match shape {
        Shape::Circle => {
            area.draw(&Circle::new((x, y), 7, colour.filled()))?;
            if open {
                area.draw(&Circle::new((x, y), 4, WHITE.filled()))?;
            }
            return Ok(());
        }
        Shape::Triangle => &[(0, -9), (8, 6), (-8, 6)],
        Shape::Square => &[(-6, -6), (6, -6), (6, 6), (-6, 6)],
        Shape::Diamond => &[(0, -9), (8, 0), (0, 9), (-8, 0)],
    };
    let scaled = |by: f64| -> Vec<Pixel> {
        let scale = |offset: i32| (by * f64::from(offset)).round() as i32;
        corners.iter().map(|(dx, dy)| (x + scale(*dx), y + scale(*dy))).collect()
    };
    area.draw(&Polygon::new(scaled(1.0), colour))?;
    if open {
        area.draw(&Polygon::new(scaled(0.5), WHITE))?;
    }
    Ok(())
}

/// A box between `left` and `right`; `heights` as [`quartiles`] has them.
fn boxed(area: &Area, (left, right): (i32, i32), heights: [i32; 5], colour: RGBColor) -> Outcome {
    let [least, lower, median, upper, most] = heights;
    let (middle, quarter) = ((left + right) / 2, (right - left) / 4);
    let style = ShapeStyle::from(colour).stroke_width(2);
    area.draw(&Rectangle::new([(left, upper), (right, lower)], colour.mix(0.3).filled()))?;
    area.draw(&Rectangle::new([(left, upper), (right, lower)], style))?;
    for (from, to) in [
        ((left, median), (right, median)),
        ((middle, upper), (middle, most)),
        ((middle, lower), (middle, least)),
        ((middle - quarter, most), (middle + quarter, most)),
        ((middle - quarter, least), (middle + quarter, least)),
    ] {
        area.draw(&PathElement::new([from, to], style))?;
    }
    Ok(())
}

/// A sample that is exactly zero is drawn as 1e-18.
fn log(error: f64) -> f64 {
    error.max(1e-18).log10()
}
