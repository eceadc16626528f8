//! The picture: the words of each topic, with bars as long as their weights.

use std::path::Path;

use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};
use svdvals_gpu_gallery::{
    chart::{COLOURS, HEAD, heading},
    draw::{FEW_SHADES, FINE, GREY, Outcome, load_font, save_smooth, text},
};

use crate::{NAMED, Topic};

// Lengths are in fine pixels.
const WIDTH: u32 = FINE * 300;
const LINE: u32 = FINE * 28;
const TITLE: u32 = FINE * 52;
const NAME: u32 = FINE * 118;
/// Topics beside one another.
const ACROSS: usize = 3;

/// Draws the topics into a PNG file.
pub fn save(path: &Path, (documents, words): (usize, usize), topics: &[Topic]) -> Outcome {
    load_font()?;
    let height = TITLE + NAMED as u32 * LINE + FINE * 18;
    let rows = topics.len().div_ceil(ACROSS) as u32;
    let size = (ACROSS as u32 * WIDTH / FINE + 20, (HEAD + rows * height) / FINE);
    save_smooth(path, size, FEW_SHADES, |root| {
        let subtitle = format!("{documents} documents, {words} words; bars are entries of right singular vectors.");
        let below = heading(root, "Topics by the leading singular triples", &subtitle)?;
        for (k, topic) in topics.iter().enumerate() {
            let at = ((FINE * 16 + (k % ACROSS) as u32 * WIDTH) as i32, ((k / ACROSS) as u32 * height) as i32);
            let title = format!("topic {}: value {:.1}", k + 1, topic.value);
            below.draw(&Text::new(title, (at.0, at.1 + FINE as i32 * 12), text(FINE * 20).color(&GREY)))?;
            let most = topic.words.iter().fold(f64::MIN_POSITIVE, |most, (_, weight)| most.max(weight.abs()));
            for (line, (word, weight)) in topic.words.iter().enumerate() {
                let y = at.1 + (TITLE + line as u32 * LINE) as i32;
                let name = text(FINE * 19).pos(Pos::new(HPos::Right, VPos::Center));
                below.draw(&Text::new(word.clone(), (at.0 + NAME as i32, y + FINE as i32 * 2), name))?;
                let left = at.0 + (NAME + FINE * 8) as i32;
                let long = (f64::from(WIDTH - NAME - FINE * 34) * weight.abs() / most) as i32;
                // Weights of the other sign are those of what a topic is not.
                let colour = COLOURS[usize::from(*weight < 0.0)];
                below
                    .draw(&Rectangle::new([(left, y - FINE as i32 * 8), (left + long, y + FINE as i32 * 8)], colour.filled()))?;
            }
        }
        Ok(())
    })
}
