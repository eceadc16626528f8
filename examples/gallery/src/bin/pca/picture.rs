//! The picture: the observations along the first two components, and the components as images.

use std::ops::Range;

use ndarray::{Array2, ArrayView1};
use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use svdvals_gpu_gallery::{
    chart::{HEAD, even_ticks, heading, panel},
    draw::{ALL_SHADES, Area, Axis, BLACK, FINE, GREY, Outcome, load_font, on_scale, save_smooth, signed, text, towards},
};

use crate::{analysis::Analysis, arguments::Arguments};

/// Ten colours that differ in hue and in lightness.
const COLOURS: [RGBColor; 10] = [
    RGBColor(31, 119, 180),
    RGBColor(255, 127, 14),
    RGBColor(44, 160, 44),
    RGBColor(214, 39, 40),
    RGBColor(148, 103, 189),
    RGBColor(140, 86, 75),
    RGBColor(227, 119, 194),
    RGBColor(110, 110, 110),
    RGBColor(188, 189, 34),
    RGBColor(23, 190, 207),
];
/// More labels than this have a colour each, but no line in the legend, and no name.
const MOST_NAMED: usize = 24;

// Lengths are in fine pixels.
const SCATTER: (u32, u32) = (FINE * 860, FINE * 700);
const LEGEND: u32 = FINE * 90;
const LEGEND_LINE: u32 = FINE * 30;
const IMAGE: u32 = FINE * 190;
const GAP: u32 = FINE * 38;

/// Draws the picture into a PNG file.
pub fn save(arguments: &Arguments, labels: Option<&[i64]>, analysis: &Analysis) -> Outcome {
    load_font()?;
    let classes = Classes::of(labels);
    let images = arguments.image.map(|shape| images(shape, analysis)).unwrap_or_default();
    let beside = if images.is_empty() { 0 } else { IMAGE + FINE * 30 };
    let legend = if classes.named() { LEGEND } else { 0 };
    let size = ((SCATTER.0 + legend + beside) / FINE, (HEAD + SCATTER.1) / FINE);
    save_smooth(&arguments.out, size, ALL_SHADES, |root| {
        let name = arguments.file.file_name().unwrap_or_default().to_string_lossy();
        let subtitle = format!("{} observations of {} variables, centred.", analysis.scores.nrows(), analysis.components.ncols());
        let below = heading(root, &format!("Principal components of {name}"), &subtitle)?;
        let (left, right) = below.split_horizontally(SCATTER.0);
        scatter(root, &left, &classes, analysis)?;
        let (names, right) = right.split_horizontally(legend);
        if classes.named() {
            classes.draw_legend(&names)?;
        }
        for (k, image) in images.iter().enumerate() {
            image.draw(&right, FINE * 8 + k as u32 * (IMAGE + GAP))?;
        }
        Ok(())
    })
}

/// The labels, and which of them each observation has.
struct Classes {
    labels: Vec<i64>,
    of: Option<Vec<usize>>,
}

impl Classes {
    fn of(labels: Option<&[i64]>) -> Classes {
        let mut all = labels.unwrap_or_default().to_vec();
        all.sort_unstable();
        all.dedup();
        let of = labels.map(|labels| labels.iter().map(|label| all.partition_point(|other| other < label)).collect());
        Classes { labels: all, of }
    }

    fn named(&self) -> bool {
        (1..=MOST_NAMED).contains(&self.labels.len())
    }

    fn colour(&self, class: usize) -> RGBColor {
        if self.labels.len() <= COLOURS.len() { COLOURS[class] } else { on_scale(class as f64 / (self.labels.len() - 1) as f64) }
    }

    fn draw_legend(&self, area: &Area) -> Outcome {
        let style = text(FINE * 21).pos(Pos::new(HPos::Left, VPos::Center));
        for (class, label) in self.labels.iter().enumerate() {
            let y = (FINE * 24 + class as u32 * LEGEND_LINE) as i32;
            area.draw(&Circle::new((FINE as i32 * 8, y), FINE * 7, self.colour(class).filled()))?;
            area.draw(&Text::new(label.to_string(), (FINE as i32 * 24, y + FINE as i32 * 3), style.clone()))?;
        }
        Ok(())
    }
}

/// A point for each observation, and each label at the middle of its points.
fn scatter(root: &Area, area: &Area, classes: &Classes, analysis: &Analysis) -> Outcome {
    let (x, y) = (range(analysis.scores.column(0)), range(analysis.scores.column(1)));
    let label = |k: usize| format!("component {}: {:.1}% of the variance", k + 1, 100.0 * analysis.explained(k));
    let axes = (Axis { ticks: even_ticks(&x), range: x }, Axis { ticks: even_ticks(&y), range: y });
    panel(area, axes, [&label(0), &label(1)], |pixel| {
        let points: Vec<(i32, i32)> = analysis.scores.rows().into_iter().map(|row| pixel(row[0], row[1])).collect();
        for (i, &at) in points.iter().enumerate() {
            let colour = classes.of.as_ref().map_or(COLOURS[0], |of| classes.colour(of[i]));
            root.draw(&Circle::new(at, FINE * 7 / 2, colour.mix(0.6).filled()))?;
        }
        let Some(of) = classes.of.as_ref().filter(|_| classes.named()) else { return Ok(()) };
        for (class, label) in classes.labels.iter().enumerate() {
            let members = || points.iter().zip(of).filter(|(_, other)| **other == class).map(|(&at, _)| at);
            let middle = (median(members().map(|(x, _)| x)), median(members().map(|(_, y)| y)));
            let centred = |colour: &'static RGBColor| text(FINE * 34).color(colour).pos(Pos::new(HPos::Center, VPos::Center));
            // White around the digit keeps it apart from the points.
            let width = FINE as i32 * 2;
            for (dx, dy) in [(-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1)] {
                root.draw(&Text::new(label.to_string(), (middle.0 + width * dx, middle.1 + width * dy), centred(&WHITE)))?;
            }
            root.draw(&Text::new(label.to_string(), middle, centred(&BLACK)))?;
        }
        Ok(())
    })
}

/// From the smallest to the largest with room; never empty.
fn range(values: ArrayView1<'_, f64>) -> Range<f64> {
    let (low, high) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &x| (low.min(x), high.max(x)));
    let room = 0.04 * (high - low).max(1e-9 * high.abs()).max(f64::MIN_POSITIVE);
    low - room..high + room
}

fn median(values: impl Iterator<Item = i32>) -> i32 {
    let mut values: Vec<i32> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Variables as pixels: the mean in shades of grey; a component in orange where it is positive, in blue where it is negative.
struct Image {
    title: String,
    pixels: Array2<RGBColor>,
}

fn images((height, width): (usize, usize), analysis: &Analysis) -> Vec<Image> {
    let largest = |values: ArrayView1<'_, f64>| values.iter().fold(f64::MIN_POSITIVE, |most, x| most.max(x.abs()));
    let image = |title: String, values: ArrayView1<'_, f64>, colour: &dyn Fn(f64) -> RGBColor| {
        let most = largest(values);
        Image { title, pixels: Array2::from_shape_fn((height, width), |(i, j)| colour(values[i * width + j] / most)) }
    };
    let mut images = vec![image("mean".into(), analysis.mean.view(), &|part| towards(BLACK, part))];
    for k in 0..2 {
        images.push(image(format!("component {}", k + 1), analysis.components.row(k), &signed));
    }
    images
}

impl Image {
    fn draw(&self, area: &Area, top: u32) -> Outcome {
        let (height, width) = self.pixels.dim();
        let longer = height.max(width);
        let edge = |k: usize| (k as u32 * IMAGE / longer as u32) as i32;
        area.draw(&Text::new(self.title.as_str(), (0, top as i32), text(FINE * 20)))?;
        let top = top as i32 + FINE as i32 * 26;
        for ((i, j), colour) in self.pixels.indexed_iter() {
            area.draw(&Rectangle::new([(edge(j), top + edge(i)), (edge(j + 1), top + edge(i + 1))], colour.filled()))?;
        }
        area.draw(&Rectangle::new([(0, top), (edge(width), top + edge(height))], ShapeStyle::from(GREY).stroke_width(FINE)))?;
        Ok(())
    }
}
