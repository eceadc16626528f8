//! Seconds against n, both logarithmic, a panel for each type.

use std::error::Error;

use plotters::style::RGBColor;
use serde::Deserialize;
use svdvals_gpu_gallery::{
    draw::{BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, RED},
    plot::{Mark, Panel, Picture, Series, Shape},
};

use crate::shared::TYPES;

/// What a line of the table has for the picture.
#[derive(Deserialize)]
pub struct Row {
    program: String,
    routine: String,
    device: String,
    driver: String,
    version: String,
    #[serde(rename = "type")]
    element: String,
    n: usize,
    total_s: Option<f64>,
    resident_s: Option<f64>,
}

/// Real flops of a reduction to bidiagonal form, 8/3 n^3; a complex product and sum is four real ones.
fn flops(element: &str, n: usize) -> f64 {
    8.0 / 3.0 * (n as f64).powi(3) * if element.starts_with('c') { 4.0 } else { 1.0 }
}

/// The lines of the peers, in the order that their routines are met in.
const PEERS: [(RGBColor, Shape); 6] = [
    (ORANGE, Shape::Triangle),
    (GREEN, Shape::Square),
    (PURPLE, Shape::Diamond),
    (RED, Shape::Triangle),
    (GREY, Shape::Square),
    (BLACK, Shape::Diamond),
];

/// A picture of the rows that are singular values of square matrices; `peak` gives a type's flops a second, where they are known.
pub fn picture(rows: &[Row], peak: impl Fn(&'static str) -> Option<f64>) -> Result<Picture, Box<dyn Error>> {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.resident_s.is_some() && row.routine.contains("sv")).collect();
    let mut peers: Vec<(&str, &str)> = Vec::new();
    for row in rows.iter().filter(|row| !is_ours(row)) {
        if !peers.contains(&(&row.program, &row.routine)) {
            peers.push((&row.program, &row.routine));
        }
    }
    let panels: Vec<Panel> = TYPES.iter().filter_map(|name| panel(name, &rows, &peers, peak(name))).collect();
    if panels.is_empty() {
        return Err("no measured singular values in these tables".into());
    }
    let mut machines: Vec<String> = Vec::new();
    for row in &rows {
        let driver = if row.driver.is_empty() { String::new() } else { format!(", driver {}", row.driver) };
        let machine = format!("{} {}: {}{driver}", row.program, row.version, row.device);
        if !machines.contains(&machine) {
            machines.push(machine);
        }
    }
    Ok(Picture {
        title: "All singular values of a random n x n matrix".into(),
        subtitle: machines.join("; "),
        x_label: "n",
        y_label: "seconds",
        panels,
    })
}

fn is_ours(row: &Row) -> bool {
    row.program == "svdvals-gpu"
}

fn panel(name: &str, rows: &[&Row], peers: &[(&str, &str)], peak: Option<f64>) -> Option<Panel> {
    let rows: Vec<&Row> = rows.iter().copied().filter(|row| row.element == name).collect();
    let mut sizes: Vec<usize> = rows.iter().map(|row| row.n).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let (&smallest, &largest) = (sizes.first()?, sizes.last()?);
    let at = |n: usize| (n as f64).log2();
    let line = |label: String, colour, shape, open, of: &dyn Fn(&Row) -> Option<f64>| {
        let mut samples: Vec<(f64, Vec<f64>)> = rows.iter().filter_map(|row| Some((at(row.n), vec![of(row)?]))).collect();
        samples.sort_by(|x, y| x.0.total_cmp(&y.0));
        (!samples.is_empty()).then_some(Series { label, colour, mark: Mark::Line { shape, open }, samples })
    };
    let ours = |seconds: fn(&Row) -> Option<f64>| move |row: &Row| if is_ours(row) { seconds(row) } else { None };
    let mut series = vec![
        line("this crate, resident".into(), BLUE, Shape::Circle, false, &ours(|row| row.resident_s)),
        line("this crate, with transfers".into(), BLUE, Shape::Circle, true, &ours(|row| row.total_s)),
    ];
    for (&(program, routine), &(colour, shape)) in peers.iter().zip(PEERS.iter().cycle()) {
        let of =
            |row: &Row| if (row.program.as_str(), row.routine.as_str()) == (program, routine) { row.resident_s } else { None };
        series.push(line(format!("{program} {routine}"), colour, shape, false, &of));
    }
    series.push(peak.map(|peak| Series {
        label: format!("8/3 n^3 flops at {} TFLOPS", peak / 1e12),
        colour: BLACK,
        mark: Mark::Rule,
        samples: [smallest, largest].map(|n| (at(n), vec![flops(name, n) / peak])).to_vec(),
    }));
    let x_ticks = sizes.iter().map(|&n| (at(n), n.to_string())).collect();
    Some(Panel { title: name.into(), x_ticks, series: series.into_iter().flatten().collect(), beside: false })
}
