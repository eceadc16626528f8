//! The legend below the panels, and the names in it.

use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use svdvals_gpu_gallery::{
    chart::{PANEL, THICK},
    draw::{Area, FINE, Outcome, stroke, text, text_width},
};

use crate::{
    Row,
    picture::{Curve, STYLES},
};

const LEGEND_LINE: u32 = FINE * 28;
const LEGEND_TEXT: u32 = FINE * 20;
/// Longer names lose their middle.
const LONGEST_NAME: usize = 60;

/// Names beside pieces of their lines, in columns below the panels.
pub struct Legend {
    /// Which curves have a place: of many only some.
    places: Vec<usize>,
    columns: usize,
    column_width: u32,
}

impl Legend {
    pub fn of(curves: &[Curve<'_>]) -> Legend {
        let places: Vec<usize> = match curves.len() {
            0 | 1 => Vec::new(),
            count if count <= STYLES => (0..count).collect(),
            count => (0..8).map(|k| k * (count - 1) / 7).collect(),
        };
        let widest = places.iter().map(|&k| text_width(&curves[k].name, LEGEND_TEXT)).max().unwrap_or(0);
        let column_width = widest + FINE * 100;
        let columns = ((2 * PANEL.0 - FINE * 100) / column_width).clamp(1, places.len().max(1) as u32) as usize;
        Legend { places, columns, column_width }
    }

    fn lines(&self) -> usize {
        self.places.len().div_ceil(self.columns)
    }

    pub fn height(&self) -> u32 {
        if self.places.is_empty() { 0 } else { FINE * 20 + LEGEND_LINE * self.lines() as u32 }
    }

    pub fn draw(&self, area: &Area, curves: &[Curve<'_>]) -> Outcome {
        let fine = FINE as i32;
        let style = text(LEGEND_TEXT).pos(Pos::new(HPos::Left, VPos::Center));
        for (k, place) in self.places.iter().enumerate() {
            let (column, line) = ((k / self.lines()) as u32, (k % self.lines()) as u32);
            let (x, y) = ((FINE * 98 + column * self.column_width) as i32, (FINE * 14 + line * LEGEND_LINE) as i32);
            let curve = &curves[*place];
            stroke(area, &[(x, y), (x + 54 * fine, y)], curve.dashes, ShapeStyle::from(curve.colour).stroke_width(THICK))?;
            area.draw(&Text::new(curve.name.as_str(), (x + 64 * fine, y), style.clone()))?;
        }
        Ok(())
    }
}

/// The names, without the dotted words that all tensors' names begin with, or end with.
pub fn short_names(rows: &[Row]) -> Vec<String> {
    let tensors: Vec<Vec<&str>> = rows.iter().filter_map(|row| Some(row.source.tensor.as_ref()?.split('.').collect())).collect();
    let mut words: Vec<&[&str]> = tensors.iter().map(Vec::as_slice).collect();
    // While a word is left for the name.
    while words.len() > 1 && words.iter().all(|w| w.len() > 1 && w.first() == words[0].first()) {
        words.iter_mut().for_each(|w| *w = &w[1..]);
    }
    while words.len() > 1 && words.iter().all(|w| w.len() > 1 && w.last() == words[0].last()) {
        words.iter_mut().for_each(|w| *w = &w[..w.len() - 1]);
    }
    let mut words = words.into_iter();
    let short = |row: &Row| {
        let tensor = row.source.tensor.as_ref().and_then(|tensor| Some((tensor, words.next()?)));
        tensor.map_or_else(
            || row.name.clone(),
            |(tensor, words)| format!("{}{}", row.name.strip_suffix(tensor.as_str()).unwrap_or_default(), words.join(".")),
        )
    };
    rows.iter().map(short).map(|name| shorten(&name)).collect()
}

pub fn shorten(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= LONGEST_NAME {
        return name.to_owned();
    }
    let end = |letters: &[char]| letters.iter().collect::<String>();
    format!("{} ... {}", end(&letters[..LONGEST_NAME / 2 - 3]), end(&letters[letters.len() - LONGEST_NAME / 2 + 2..]))
}
