//! Heat maps of the absolute entries of square matrices, on a common logarithmic scale of colours.

use std::{ops::Range, path::Path};

use ndarray::Array2;
use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use svdvals_gpu_gallery::draw::{ALL_SHADES, Area, BLACK, FINE, GREY, Outcome, load_font, on_scale, save_smooth, text, ticks};

/// A matrix of absolute values, none of them infinite.
#[derive(Clone)]
pub struct Map {
    pub title: String,
    pub matrix: Array2<f64>,
    pub outlines: Vec<Outline>,
}

/// A frame around a block of entries.
#[derive(Clone)]
pub struct Outline {
    pub label: &'static str,
    pub rows: Range<usize>,
    pub cols: Range<usize>,
    pub colour: RGBColor,
}

pub struct Picture {
    pub title: String,
    pub subtitle: String,
    pub maps: Vec<Map>,
}

// Lengths are in pixels, of which the area drawn on has FINE.
const HEAD: u32 = 84;
/// A map with its title and its labels; the sides of a map alone in a picture, and of one among several.
const LEFT: u32 = 54;
const ABOVE: u32 = 40;
const BELOW: u32 = 34;
const ALONE: u32 = 620;
const AMONG: u32 = 400;
/// The scale's column, and the scale in it.
const SCALE_COLUMN: u32 = 110;
const SCALE_WIDTH: u32 = 18;
const LEGEND: u32 = 36;
const COLUMNS: usize = 2;

/// More decades than this below the largest entry look like zero.
const MOST_DECADES: f64 = 8.0;

impl Picture {
    /// Draws the picture into a PNG file.
    pub fn save(&self, path: &Path) -> Outcome {
        load_font()?;
        let side = if self.maps.len() == 1 { ALONE } else { AMONG };
        let columns = self.maps.len().clamp(1, COLUMNS);
        let rows = self.maps.len().div_ceil(columns).max(1);
        let (width, height) = (LEFT + side, ABOVE + side + BELOW);
        let size = (columns as u32 * width + SCALE_COLUMN, HEAD + rows as u32 * height + LEGEND);
        let range = range(&self.maps);
        save_smooth(path, size, ALL_SHADES, |root| {
            root.draw(&Text::new(self.title.as_str(), fine(20, 14), text(FINE * 27)))?;
            root.draw(&Text::new(self.subtitle.as_str(), fine(20, 50), text(FINE * 18)))?;
            for (k, map) in self.maps.iter().enumerate() {
                let (x, y) = ((k % columns) as u32 * width + LEFT, HEAD + (k / columns) as u32 * height + ABOVE);
                map.draw(root, (x, y), side, &range)?;
            }
            let below = HEAD + rows as u32 * height;
            scale(root, columns as u32 * width + 22, HEAD + ABOVE..below - BELOW, &range)?;
            let outlines = self.maps.iter().flat_map(|map| &map.outlines);
            for (k, outline) in outlines.enumerate() {
                let x = LEFT + k as u32 * 260;
                frame(root, fine(x, below + 4), fine(x + 26, below + 24), outline.colour)?;
                let style = text(FINE * 18).pos(Pos::new(HPos::Left, VPos::Center));
                root.draw(&Text::new(outline.label, fine(x + 36, below + 14), style))?;
            }
            Ok(())
        })
    }
}

impl Map {
    /// The map with its upper left corner at (x, y).
    fn draw(&self, root: &Area, (x, y): (u32, u32), side: u32, range: &Range<f64>) -> Outcome {
        let n = self.matrix.nrows();
        let edge = |k: usize| (k as u32 * FINE * side / n as u32) as i32;
        let (left, top) = fine(x, y);
        let place = |i: usize, j: usize| (left + edge(j), top + edge(i));
        for ((i, j), &entry) in self.matrix.indexed_iter() {
            if let Some(colour) = colour(entry, range) {
                root.draw(&Rectangle::new([place(i, j), place(i + 1, j + 1)], colour.filled()))?;
            }
        }
        frame(root, place(0, 0), place(n, n), GREY)?;
        for outline in &self.outlines {
            let (rows, cols) = (&outline.rows, &outline.cols);
            frame(root, place(rows.start, cols.start), place(rows.end, cols.end), outline.colour)?;
        }
        let title = text(FINE * 19).pos(Pos::new(HPos::Left, VPos::Bottom));
        root.draw(&Text::new(self.title.as_str(), fine(x, y - 8), title))?;
        let mark = ShapeStyle::from(BLACK).stroke_width(FINE);
        for k in indices(n) {
            // At the middle of the row and of the column.
            let at = (edge(k) + edge(k + 1)) / 2;
            let (length, gap) = ((5 * FINE) as i32, (8 * FINE) as i32);
            let bottom = top + edge(n);
            root.draw(&PathElement::new([(left - length, top + at), (left, top + at)], mark))?;
            root.draw(&PathElement::new([(left + at, bottom), (left + at, bottom + length)], mark))?;
            let label = |h, v| text(FINE * 16).pos(Pos::new(h, v));
            root.draw(&Text::new(k.to_string(), (left - gap, top + at), label(HPos::Right, VPos::Center)))?;
            root.draw(&Text::new(k.to_string(), (left + at, bottom + gap), label(HPos::Center, VPos::Top)))?;
        }
        Ok(())
    }
}

/// The scale of colours, from `rows.start` down to `rows.end`, with labels right of it.
fn scale(root: &Area, x: u32, rows: Range<u32>, range: &Range<f64>) -> Outcome {
    let ((left, top), (right, bottom)) = (fine(x, rows.start), fine(x + SCALE_WIDTH, rows.end));
    for y in top..bottom {
        let part = f64::from(bottom - y) / f64::from(bottom - top);
        let entry = 10f64.powf(range.start + part * (range.end - range.start));
        if let Some(colour) = colour(entry, range) {
            root.draw(&PathElement::new([(left, y), (right, y)], ShapeStyle::from(colour).stroke_width(1)))?;
        }
    }
    frame(root, (left, top), (right, bottom), GREY)?;
    root.draw(&Text::new("modulus", fine(x, rows.start - 8), text(FINE * 19).pos(Pos::new(HPos::Left, VPos::Bottom))))?;
    let style = text(FINE * 16).pos(Pos::new(HPos::Left, VPos::Center));
    for (at, label) in ticks(range) {
        let y = bottom - ((at - range.start) / (range.end - range.start) * f64::from(bottom - top)).round() as i32;
        let mark = ShapeStyle::from(BLACK).stroke_width(FINE);
        root.draw(&PathElement::new([(right, y), (right + (5 * FINE) as i32, y)], mark))?;
        root.draw(&Text::new(label, (right + (9 * FINE) as i32, y), style.clone()))?;
    }
    Ok(())
}

fn fine(x: u32, y: u32) -> (i32, i32) {
    ((FINE * x) as i32, (FINE * y) as i32)
}

fn frame(root: &Area, from: (i32, i32), to: (i32, i32), colour: RGBColor) -> Outcome {
    let width = if colour == GREY { FINE } else { 3 * FINE };
    root.draw(&Rectangle::new([from, to], ShapeStyle::from(colour).stroke_width(width)))?;
    Ok(())
}

/// Logarithms of the smallest and the largest entry that have colours of their own: the small end leaves out one entry in fifty, so
/// that a stray tiny one does not take all the contrast.
fn range(maps: &[Map]) -> Range<f64> {
    let mut entries: Vec<f64> = maps.iter().flat_map(|map| &map.matrix).copied().filter(|&entry| entry > 0.0).collect();
    entries.sort_unstable_by(f64::total_cmp);
    let Some(largest) = entries.last().map(|x| x.log10()) else { return -1.0..0.0 };
    let low = entries[entries.len() / 50].log10();
    low.clamp(largest - MOST_DECADES, largest - 1.0)..largest
}

/// The darker the larger; None for zero, which stays white.
fn colour(entry: f64, range: &Range<f64>) -> Option<RGBColor> {
    let part = (entry.log10() - range.start) / (range.end - range.start);
    (entry > 0.0).then(|| on_scale(1.0 - part.clamp(0.0, 1.0)))
}

/// Round indices below n, at most nine.
fn indices(n: usize) -> impl Iterator<Item = usize> {
    let steps = (0..).flat_map(|power| [1, 2, 4, 5, 8].map(|digit| digit * 10usize.pow(power)));
    let step = steps.into_iter().find(|step| n.div_ceil(*step) <= 9).unwrap_or(n);
    (0..n).step_by(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(matrix: Array2<f64>) -> Map {
        Map { title: String::new(), matrix, outlines: Vec::new() }
    }

    /// Zero is white, and the scale gets darker from its low end to its high end, and no darker beyond.
    #[test]
    fn colours() {
        let range = -2.0..1.0;
        let light = |entry| colour(entry, &range).map(|RGBColor(r, g, b)| u32::from(r) + u32::from(g) + u32::from(b)).unwrap();
        assert_eq!(colour(0.0, &range), None);
        assert!(light(0.01) > light(0.1) && light(0.1) > light(1.0) && light(1.0) > light(10.0));
        assert_eq!((light(1e-30), light(1e30)), (light(0.01), light(10.0)));
    }

    /// The scale reaches from the largest entry of all maps down to all but a fiftieth of them, by one decade to eight; zeros do not
    /// count, and a zero matrix has a scale too.
    #[test]
    fn ranges() {
        let decades =
            Array2::from_shape_fn((10, 10), |(i, j)| if i == 0 && j == 0 { 1e-30 } else { 10f64.powi(-(j as i32) / 3) });
        assert_eq!(range(&[map(decades), map(Array2::from_elem((3, 3), 100.0))]), -3.0..2.0);
        assert_eq!(range(&[map(Array2::from_elem((3, 3), 1.0))]), -1.0..0.0);
        let far = Array2::from_shape_fn((10, 10), |(i, _)| if i < 5 { 1e-20 } else { 1.0 });
        assert_eq!(range(&[map(far)]), -8.0..0.0);
        assert_eq!(range(&[map(Array2::zeros((2, 2)))]), -1.0..0.0);
    }

    /// Labels start at 0, are inside the matrix, at most nine, and more than four where there are as many rows.
    #[test]
    fn labels() {
        for n in 1..=400 {
            let labels: Vec<usize> = indices(n).collect();
            assert!(
                labels[0] == 0 && labels.len() <= 9 && labels.len() >= n.min(4) && labels.iter().all(|&k| k < n),
                "{n}: {labels:?}"
            );
        }
    }

    /// In the file every entry has its colour at its place, row after row from the top.
    #[test]
    fn pixels() {
        let path = std::env::temp_dir().join(format!("svdvals-gpu-heat-map-{}.png", std::process::id()));
        let matrix = ndarray::array![[1.0, 0.0], [0.1, 0.0]];
        Picture { title: String::new(), subtitle: String::new(), maps: vec![map(matrix)] }.save(&path).unwrap();
        let mut reader = png::Decoder::new(std::fs::File::open(&path).unwrap()).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size()];
        let width = reader.next_frame(&mut pixels).unwrap().width;
        let at = |i: u32, j: u32| {
            let (x, y) = (LEFT + ALONE * (2 * j + 1) / 4, HEAD + ABOVE + ALONE * (2 * i + 1) / 4);
            let first = 3 * (y * width + x) as usize;
            [pixels[first], pixels[first + 1], pixels[first + 2]]
        };
        let bytes = |RGBColor(r, g, b)| [r, g, b];
        assert_eq!((at(0, 0), at(1, 0)), (bytes(on_scale(0.0)), bytes(on_scale(1.0))));
        assert_eq!((at(0, 1), at(1, 1)), ([255; 3], [255; 3]));
        std::fs::remove_file(path).unwrap();
    }
}
