//! Figure 4 of the bulge-chasing paper: stage 2 alone in reduced precision, over the bandwidth.

use std::error::Error;

use faer::Mat;
use half::f16;
use indicatif::ProgressBar;
use svdvals_gpu::{Backend, Band, Bidiagonal, Element, HalfStorage, RealElement, RunOptions, SvdError, SvdValsGpu, Tuning};
use svdvals_gpu_gallery::{
    draw::{BLUE, GREEN, GREY, ORANGE},
    plot::{Mark, Panel, Picture, Series, quartiles},
};

use crate::{
    common::{Spectrum, error, with_singular_values},
    lapack::{self, RealLapack},
    paper,
    places::{Place, machines},
    shared::markdown::{Table, cell},
};

const BANDWIDTHS: [usize; 4] = [32, 64, 128, 256];

/// A band in f64 that has the singular values `sigma`.
struct Sample {
    sigma: Vec<f64>,
    band: Band<f64>,
}

impl Sample {
    /// By stage 1, in f64 on the CPU.
    fn new(spectrum: Spectrum, n: usize, bandwidth: usize, seed: u64) -> Result<Sample, SvdError> {
        let mut sigma = spectrum.values(n);
        let a: Mat<f64> = with_singular_values(&mut sigma, seed);
        let tuning = Tuning::for_cpu::<f64>(n).tile_size(bandwidth).leaf(512.max(2 * bandwidth));
        let band = a.to_band(&RunOptions::default().backend(Backend::Cpu).tuning(tuning))?;
        Ok(Sample { sigma, band })
    }

    /// Entry (i, j), rounded to `T`.
    fn entry<T: Element>(&self, i: usize, j: usize) -> T {
        T::from_complex(self.band.get(i, j).into())
    }

    /// Stage 2 in `T`, stage 3 in f64.
    fn ours<T: Element>(&self, options: &RunOptions) -> Result<f64, SvdError> {
        let band: Band<T> = Band::from_fn(self.band.n(), self.band.bandwidth(), |i, j| self.entry(i, j))?;
        let reduced =
            band.band_to_bidiag(&options.clone().half_storage(if T::IS_HALF { HalfStorage::Half } else { HalfStorage::Single }))?;
        let widen = |values: &[T::Real]| values.iter().map(|x| x.to_double()).collect();
        Ok(error(Bidiagonal::<f64>::new(widen(reduced.diagonal()), widen(reduced.superdiagonal()))?.svdvals()?, &self.sigma))
    }

    /// The same by LAPACK: ?gbbrd in `T`, then dbdsdc.
    fn gbbrd<T: Element + RealLapack>(&self) -> Result<Option<f64>, Box<dyn Error>> {
        let (n, bandwidth) = (self.band.n(), self.band.bandwidth());
        // LAPACK's band storage: row `bandwidth` + i - j of column j.
        let entries = (0..n).flat_map(|j| (0..=bandwidth).map(move |k| (j + k, j)));
        let entry =
            |(i, j): (usize, usize)| if i < bandwidth { T::from_complex(0.0.into()) } else { self.entry(i - bandwidth, j) };
        let Some((diagonal, superdiagonal)) = T::gbbrd(n, bandwidth, entries.map(entry).collect())? else { return Ok(None) };
        Ok(Some(error(bdsdc(&Bidiagonal::new(diagonal, superdiagonal)?)?, &self.sigma)))
    }
}

#[cfg(feature = "lapack-openblas")]
fn bdsdc(bidiagonal: &Bidiagonal<f64>) -> Result<Vec<f64>, SvdError> {
    bidiagonal.svdvals_by(svdvals_gpu::Stage3::Bdsdc)
}

#[cfg(not(feature = "lapack-openblas"))]
fn bdsdc(bidiagonal: &Bidiagonal<f64>) -> Result<Vec<f64>, SvdError> {
    bidiagonal.svdvals()
}

type Ours = fn(&Sample, &RunOptions) -> Result<f64, SvdError>;
type Gbbrd = fn(&Sample) -> Result<Option<f64>, Box<dyn Error>>;

struct Precision {
    name: &'static str,
    epsilon: f64,
    ours: Ours,
    /// None where LAPACK has nothing alike.
    gbbrd: Option<Gbbrd>,
}

const PRECISIONS: [Precision; 3] = [
    Precision { name: "f64", epsilon: f64::EPSILON, ours: Sample::ours::<f64>, gbbrd: Some(Sample::gbbrd::<f64>) },
    Precision { name: "f32", epsilon: f32::EPSILON as f64, ours: Sample::ours::<f32>, gbbrd: Some(Sample::gbbrd::<f32>) },
    Precision { name: "f16", epsilon: 1.0 / 1024.0, ours: Sample::ours::<f16>, gbbrd: None },
];

/// The errors of one precision on the matrices of one order and bandwidth.
struct Row {
    n: usize,
    bandwidth: usize,
    precision: usize,
    /// For every place the error of every matrix, or none at all.
    ours: Vec<Vec<f64>>,
    gbbrd: Vec<f64>,
}

/// Measures and prints, and returns the picture.
pub fn run(places: &[Place], orders: &[usize], matrices: u64) -> Result<Picture, Box<dyn Error>> {
    println!("\nFigure 4 of the bulge-chasing paper: ||s - s'||_2 / ||s'||_2 where stage 2 alone is in reduced precision,");
    println!("median and largest of {} matrices.\n{}", 3 * matrices, paper::FIGURE_4);
    let mut headings: Vec<String> = ["n", "bandwidth", "type"].map(String::from).into();
    for name in places.iter().map(|place| place.name).chain(lapack::LINKED.then_some("LAPACK")) {
        headings.extend([format!("{name} median"), "largest".into()]);
    }
    let table = Table::start(&headings);
    let mut rows = Vec::new();
    for &n in orders {
        for bandwidth in BANDWIDTHS.into_iter().filter(|&bandwidth| bandwidth < n) {
            for row in measure(places, n, bandwidth, matrices)? {
                let mut cells = vec![n.to_string(), bandwidth.to_string(), PRECISIONS[row.precision].name.to_owned()];
                for sample in row.ours.iter().chain(lapack::LINKED.then_some(&row.gbbrd)) {
                    let five = (!sample.is_empty()).then(|| quartiles(sample));
                    cells.extend([five.map(|q| q[2]), five.map(|q| q[4])].map(|value| cell(value, |x| format!("{x:.1e}"))));
                }
                table.row(&cells);
                rows.push(row);
            }
        }
    }
    if orders.iter().all(|&n| n <= BANDWIDTHS[0]) {
        println!("\nNothing to measure: the narrowest band has {} superdiagonals.", BANDWIDTHS[0]);
    }
    places.iter().for_each(Place::print_remarks);
    Ok(picture(&rows, places, matrices))
}

fn measure(places: &[Place], n: usize, bandwidth: usize, matrices: u64) -> Result<Vec<Row>, Box<dyn Error>> {
    let empty = |precision| Row { n, bandwidth, precision, ours: vec![Vec::new(); places.len()], gbbrd: Vec::new() };
    let mut rows: Vec<Row> = (0..PRECISIONS.len()).map(empty).collect();
    let bar = ProgressBar::new(3 * matrices);
    for spectrum in Spectrum::ALL {
        for seed in 0..matrices {
            let sample = Sample::new(spectrum, n, bandwidth, seed)?;
            for (row, precision) in rows.iter_mut().zip(&PRECISIONS) {
                for (ours, place) in row.ours.iter_mut().zip(places) {
                    ours.extend(place.attempt(n, |options| (precision.ours)(&sample, options))?);
                }
                if let Some(gbbrd) = precision.gbbrd {
                    row.gbbrd.extend(gbbrd(&sample)?);
                }
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(rows)
}

/// A line of panels for each order, a panel for each precision.
fn picture(rows: &[Row], places: &[Place], matrices: u64) -> Picture {
    let mut orders: Vec<usize> = rows.iter().map(|row| row.n).collect();
    orders.dedup();
    let mut panels = Vec::new();
    for n in orders {
        for (p, precision) in PRECISIONS.iter().enumerate() {
            let rows: Vec<&Row> = rows.iter().filter(|row| row.n == n && row.precision == p).collect();
            let boxes = |label: &str, colour, sample: &dyn Fn(&Row) -> Vec<f64>| Series {
                label: label.to_owned(),
                colour,
                mark: Mark::Box,
                samples: rows.iter().enumerate().map(|(at, row)| (at as f64, sample(row))).collect(),
            };
            let mut series: Vec<Series> = Vec::new();
            for (k, place) in places.iter().enumerate() {
                let colour = if place.name == "CPU" { BLUE } else { ORANGE };
                series.push(boxes(&format!("stage 2, {}", place.name), colour, &|row| row.ours[k].clone()));
            }
            series.push(boxes(&format!("LAPACK {}gbbrd", if p == 0 { "d" } else { "s" }), GREEN, &|row| row.gbbrd.clone()));
            series.retain(|series| series.samples.iter().any(|(_, sample)| !sample.is_empty()));
            series.push(Series {
                label: "machine epsilon".into(),
                colour: GREY,
                mark: Mark::Rule,
                samples: vec![(0.0, vec![precision.epsilon])],
            });
            let x_ticks = rows.iter().enumerate().map(|(at, row)| (at as f64, row.bandwidth.to_string())).collect();
            panels.push(Panel { title: format!("{}, n = {n}", precision.name), x_ticks, series, beside: true });
        }
    }
    Picture {
        title: "Stage 2 alone in reduced precision: Figure 4 of the bulge-chasing paper".into(),
        subtitle: format!(
            "{} matrices; boxes: quartiles and median, whiskers: smallest and largest; {}",
            3 * matrices,
            machines(places)
        ),
        x_label: "bandwidth",
        y_label: "relative error",
        panels,
    }
}
