//! Parallel coordinates, as in Figure 3 of the bulge-chasing paper: a vertical axis for each hyperparameter and one for the time, a line
//! for each combination, yellow where it is fast and blue where it is slow.

use std::path::Path;

use plotters::prelude::*;

use svdvals_gpu_gallery::{
    draw::{Area, GREY, Outcome, Pixel, text, ticks},
    plot::{canvas, titled},
};

const SIZE: (u32, u32) = (1360, 620);
const TITLE: u32 = 96;
/// Of the axes' ends from the panel's border.
const MARGIN: (i32, i32) = (120, 90);

/// Hyperparameters, and what was tried of them.
pub struct Stage {
    pub names: Vec<String>,
    pub trials: Vec<Trial>,
}

/// A value of each hyperparameter, and the seconds of the stage with them.
pub struct Trial {
    pub values: Vec<usize>,
    pub seconds: f64,
}

impl Stage {
    /// The values of a hyperparameter that occur, ascending.
    fn values(&self, axis: usize) -> Vec<usize> {
        let mut values: Vec<usize> = self.trials.iter().map(|trial| trial.values[axis]).collect();
        values.sort_unstable();
        values.dedup();
        values
    }
}

/// Draws a panel for each stage.
pub fn save(path: &Path, title: &str, machine: &str, stages: &[Stage; 2]) -> Outcome {
    let root = canvas(path, (SIZE.0, TITLE + 2 * SIZE.1))?;
    let below = titled(&root, title, &format!("Every combination that was tried on {machine}"))?;
    for (stage, area) in below.split_evenly((2, 1)).into_iter().enumerate() {
        panel(&area, stage, &stages[stage])?;
    }
    root.present()?;
    Ok(())
}

fn panel(area: &Area, number: usize, stage: &Stage) -> Outcome {
    let names = ["Stage 1, dense to band", "Stage 2, band to bidiagonal"];
    area.draw(&Text::new(names[number], (24, 8), text(25)))?;
    let Stage { names: axes, trials } = stage;
    let (width, height) = area.dim_in_pixel();
    let gap = (width as i32 - 2 * MARGIN.0) / axes.len() as i32;
    let point = |axis: usize, part: f64| -> Pixel {
        let length = f64::from(height as i32 - 2 * MARGIN.1);
        (MARGIN.0 + gap * axis as i32, height as i32 - MARGIN.1 - (part * length).round() as i32)
    };

    // Seconds on a logarithmic axis, the fewest at the bottom.
    let logs = || trials.iter().map(|trial| trial.seconds.log10());
    let (low, high) = (logs().fold(f64::INFINITY, f64::min), logs().fold(f64::NEG_INFINITY, f64::max));
    let part_of = |log: f64| if high > low { (log - low) / (high - low) } else { 0.0 };
    let values: Vec<Vec<usize>> = (0..axes.len()).map(|axis| stage.values(axis)).collect();
    let place_of = |axis: usize, value: usize| {
        let place = values[axis].iter().position(|other| *other == value).unwrap_or(0);
        (place as f64 + 0.5) / values[axis].len() as f64
    };

    // The fast ones last, above the others.
    let mut ordered: Vec<&Trial> = trials.iter().collect();
    ordered.sort_by(|x, y| y.seconds.total_cmp(&x.seconds));
    for (k, trial) in ordered.iter().enumerate() {
        let part = part_of(trial.seconds.log10());
        let mut line: Vec<Pixel> = trial.values.iter().enumerate().map(|(k, &value)| point(k, place_of(k, value))).collect();
        line.push(point(axes.len(), part));
        let best = k + 1 == ordered.len();
        let style = ShapeStyle::from(colour(part).mix(if best { 1.0 } else { 0.6 })).stroke_width(if best { 6 } else { 2 });
        area.draw(&PathElement::new(line, style))?;
    }

    for (k, axis) in axes.iter().enumerate() {
        let labels = values[k].iter().map(|&value| (place_of(k, value), value.to_string()));
        vertical(area, axis, |part| point(k, part), labels)?;
    }
    let labels = ticks(&(low - 1e-9..high + 1e-9)).into_iter().map(|(log, label)| (part_of(log), label));
    vertical(area, "seconds", |part| point(axes.len(), part), labels)
}

fn vertical(area: &Area, name: &str, point: impl Fn(f64) -> Pixel, labels: impl Iterator<Item = (f64, String)>) -> Outcome {
    let (foot, head) = (point(0.0), point(1.0));
    area.draw(&PathElement::new([foot, head], ShapeStyle::from(GREY).stroke_width(2)))?;
    area.draw(&Text::new(name, (foot.0 - 5 * name.len() as i32, foot.1 + 24), text(21)))?;
    for (part, label) in labels {
        let (x, y) = point(part);
        area.draw(&PathElement::new([(x - 5, y), (x + 5, y)], GREY))?;
        // On white, so that lines do not cross the figures.
        let width = 10 * label.len() as i32;
        area.draw(&Rectangle::new([(x + 8, y - 11), (x + 12 + width, y + 10)], WHITE.mix(0.8).filled()))?;
        area.draw(&Text::new(label, (x + 10, y - 9), text(19)))?;
    }
    Ok(())
}

/// From yellow over green to blue.
fn colour(part: f64) -> RGBColor {
    let stops = [(240.0, 200.0, 0.0), (50.0, 160.0, 120.0), (45.0, 40.0, 130.0)];
    let along = 2.0 * part.clamp(0.0, 1.0);
    let (from, to, share) = if along < 1.0 { (stops[0], stops[1], along) } else { (stops[1], stops[2], along - 1.0) };
    let mix = |x: f64, y: f64| (x + (y - x) * share).round() as u8;
    RGBColor(mix(from.0, to.0), mix(from.1, to.1), mix(from.2, to.2))
}
