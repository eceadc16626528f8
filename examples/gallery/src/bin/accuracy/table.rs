//! Table 1 of the unified-kernels paper: the largest error over matrices with three spectra, for every element type.

use std::error::Error;

use faer::Mat;
use half::{bf16, f16};
use indicatif::ProgressBar;
use num_complex::Complex;
use svdvals_gpu::{Element, HalfStorage, Number, RunOptions, SvdError, SvdOptions, SvdValsGpu};
use svdvals_gpu_gallery::{
    draw::{BLACK, BLUE, GREEN, GREY, ORANGE},
    plot::{Mark, Panel, Picture, Series, Shape},
};

use crate::{
    common::{Spectrum, complex_with_singular_values, eps, error, rounded, with_singular_values},
    lapack::{self, Lapack},
    paper,
    places::{Place, machines},
    shared::markdown::{Table, cell},
};

/// Matrices with known singular values.
struct Sample {
    sigma: Vec<f64>,
    real: Mat<f64>,
    complex: Mat<Complex<f64>>,
}

impl Sample {
    fn new(spectrum: Spectrum, n: usize, seed: u64) -> Sample {
        let mut sigma = spectrum.values(n);
        let (real, complex) = (with_singular_values(&mut sigma, seed), complex_with_singular_values(&mut sigma, seed));
        Sample { sigma, real, complex }
    }

    /// Rounded to `T`.
    fn rounded<T: Element<Scalar: Lapack>>(&self) -> Mat<T> {
        if T::Scalar::COMPLEX { rounded(self.complex.as_ref()) } else { rounded(self.real.as_ref()) }
    }

    fn ours<T: Element<Scalar: Lapack>>(&self, options: &SvdOptions) -> Result<f64, SvdError> {
        Ok(error(self.rounded::<T>().svdvals_gpu_with(options)?.iter().copied(), &self.sigma))
    }

    /// LAPACK's error on the matrix that [`ours`](Self::ours) gets.
    fn gesdd<T: Element<Scalar: Lapack>>(&self) -> lapack::Outcome<f64> {
        let a = self.rounded::<T>();
        let entries = a.col_iter().flat_map(|column| column.iter().map(|x| T::Scalar::from_complex(x.to_complex()))).collect();
        Ok(T::Scalar::gesdd(self.sigma.len(), entries)?.map(|values| error(values, &self.sigma)))
    }
}

type Ours = fn(&Sample, &SvdOptions) -> Result<f64, SvdError>;
type Gesdd = fn(&Sample) -> lapack::Outcome<f64>;

/// An element type, and how it is stored.
struct Kind {
    name: &'static str,
    /// Where in the picture, if at all.
    panel: Option<usize>,
    storage: HalfStorage,
    published: Option<paper::Column>,
    ours: Ours,
    /// Half a unit in the last place of the values.
    unit: f64,
    /// None where LAPACK has nothing alike.
    gesdd: Option<(&'static str, Gesdd)>,
}

impl Kind {
    fn of<T: Element<Scalar: Lapack>>(name: &'static str, panel: Option<usize>, gesdd: &'static str) -> Kind {
        let (ours, theirs): (Ours, Gesdd) = (Sample::ours::<T>, Sample::gesdd::<T>);
        let unit = eps::<T::Real>() / 2.0;
        Kind { name, panel, storage: HalfStorage::Single, published: None, unit, ours, gesdd: Some((gesdd, theirs)) }
    }
}

const F64: &str = "f64";
const F32: &str = "f32";
const STORED: &str = "f16 stored as f16";
const HELD: &str = "f16 held in f32";
const C64: &str = "c64";
const C32: &str = "c32";

fn kinds() -> [Kind; 7] {
    [
        Kind { published: Some(paper::F64), ..Kind::of::<f64>(F64, Some(0), "dgesdd") },
        Kind { published: Some(paper::F32), ..Kind::of::<f32>(F32, Some(1), "sgesdd") },
        Kind { published: Some(paper::F16), storage: HalfStorage::Half, gesdd: None, ..Kind::of::<f16>(STORED, Some(2), "") },
        Kind::of::<f16>(HELD, Some(2), "sgesdd"),
        Kind::of::<bf16>("bf16 held in f32", None, "sgesdd"),
        Kind::of::<Complex<f64>>(C64, Some(0), "zgesdd"),
        Kind::of::<Complex<f32>>(C32, Some(1), "cgesdd"),
    ]
}

/// The errors of one kind at one order.
struct Row {
    n: usize,
    kind: usize,
    /// For every place the error of every matrix, or none at all.
    ours: Vec<Vec<f64>>,
    gesdd: Vec<f64>,
    unit: f64,
}

impl Row {
    /// Our error over LAPACK's on each matrix: the largest, and the geometric mean. Errors below half a unit in the last place, which is
    /// what the values resolve, count as that.
    fn over_gesdd(&self, place: usize) -> Option<(f64, f64)> {
        let ratios: Vec<f64> =
            self.ours[place].iter().zip(&self.gesdd).map(|(ours, theirs)| ours.max(self.unit) / theirs.max(self.unit)).collect();
        Some((largest(&ratios)?, (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp()))
    }
}

/// Measures and prints, and returns the picture.
pub fn run(places: &[Place], orders: &[usize], matrices: u64) -> Result<Picture, Box<dyn Error>> {
    let kinds = kinds();
    println!(
        "\nTable 1 of the unified-kernels paper: largest ||s - s'||_2 / ||s'||_2 over {} matrices for each n and type",
        3 * matrices
    );
    println!("({matrices} each with arithmetic, logarithmic and quarter-circle singular values s' in [0, 1]).");
    let mut headings = vec!["n".to_owned(), format!("{:17}", "type")];
    headings.extend(places.iter().map(|place| format!("{:7}", place.name)));
    headings.extend(["paper  ", "its cuSOLVER"].map(String::from));
    if lapack::LINKED {
        headings.push("LAPACK ".into());
        for place in places {
            headings.extend([format!("{}/LAPACK, worst", place.name), "mean".into()]);
        }
    }
    let table = Table::start(&headings);
    let mut rows = Vec::new();
    for &n in orders {
        for row in measure(places, &kinds, n, matrices)? {
            table.row(&cells(&row, &kinds[row.kind], places));
            rows.push(row);
        }
    }
    if lapack::LINKED {
        println!(
            "\nLAPACK: ?gesdd without vectors on the same, rounded matrices; the last columns are ratios of errors on one matrix, the"
        );
        println!("largest and the geometric mean. Half types are given to sgesdd as f32.");
    }
    places.iter().for_each(Place::print_remarks);
    print_requirements(&rows, &kinds, places);
    Ok(picture(&rows, &kinds, places, matrices))
}

/// All kinds at one order, on the same matrices.
fn measure(places: &[Place], kinds: &[Kind], n: usize, matrices: u64) -> Result<Vec<Row>, Box<dyn Error>> {
    let empty = |kind: usize| Row { n, kind, ours: vec![Vec::new(); places.len()], gesdd: Vec::new(), unit: kinds[kind].unit };
    let mut rows: Vec<Row> = (0..kinds.len()).map(empty).collect();
    let bar = ProgressBar::new(3 * matrices * kinds.len() as u64);
    for spectrum in Spectrum::ALL {
        for seed in 0..matrices {
            let sample = Sample::new(spectrum, n, seed);
            for (row, kind) in rows.iter_mut().zip(kinds) {
                bar.set_message(format!("n = {n}, {}", kind.name));
                for (ours, place) in row.ours.iter_mut().zip(places) {
                    let options = |run: &RunOptions| SvdOptions::from(run.clone()).half_storage(kind.storage);
                    ours.extend(place.attempt(n, |o| (kind.ours)(&sample, &options(o)))?);
                }
                if let Some((_, gesdd)) = kind.gesdd {
                    row.gesdd.extend(gesdd(&sample)?);
                }
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    Ok(rows)
}

fn cells(row: &Row, kind: &Kind, places: &[Place]) -> Vec<String> {
    let short = |value: Option<f64>| cell(value, |x| format!("{x:.1e}"));
    let mut cells = vec![row.n.to_string(), kind.name.to_owned()];
    cells.extend(row.ours.iter().map(|errors| short(largest(errors))));
    let published = kind.published.as_ref();
    cells.push(short(published.and_then(|column| column.unified_at(row.n))));
    cells.push(short(published.and_then(|column| column.cusolver_at(row.n))));
    if lapack::LINKED {
        cells.push(short(largest(&row.gesdd)));
        for place in 0..places.len() {
            let ratios = row.over_gesdd(place);
            cells.extend([ratios.map(|r| r.0), ratios.map(|r| r.1)].map(|ratio| cell(ratio, |x| format!("{x:.2}"))));
        }
    }
    cells
}

/// What the accuracy is held to, and the worst that was measured.
fn print_requirements(rows: &[Row], kinds: &[Kind], places: &[Place]) {
    let mut headings = vec![format!("{:45}", "largest over all n"), "bound".into()];
    headings.extend(places.iter().map(|place| format!("{:16}", place.name)));
    println!("\nAgainst what is required:");
    let table = Table::start(&headings);
    // The largest of what `figure` makes of a row, and its n.
    let worst = |names: &[&str], figure: &dyn Fn(&Row) -> Option<f64>| {
        rows.iter()
            .filter(|row| names.is_empty() || names.contains(&kinds[row.kind].name))
            .filter_map(|row| Some((figure(row)?, row.n)))
            .max_by(|x, y| x.0.total_cmp(&y.0))
    };
    let line = |what: &str, bound: f64, names: &[&str], figure: &dyn Fn(&Row, usize) -> Option<f64>| {
        let mut cells = vec![what.to_owned(), bound.to_string()];
        for place in 0..places.len() {
            cells.push(worst(names, &|row| figure(row, place)).map_or_else(String::new, |(value, n)| {
                format!("{value:.3} (n = {n}){}", if value > bound { " exceeds" } else { "" })
            }));
        }
        table.row(&cells);
    };
    let over_paper =
        |column: paper::Column| move |row: &Row, place: usize| Some(largest(&row.ours[place])? / column.unified_at(row.n)?);
    let over_kind = |name: &'static str| {
        move |row: &Row, place: usize| {
            let other = rows.iter().find(|other| other.n == row.n && kinds[other.kind].name == name)?;
            Some(largest(&row.ours[place])? / largest(&other.ours[place])?)
        }
    };
    line("f64 / paper's FP64", 1.0, &[F64], &over_paper(paper::F64));
    line("f32 / paper's FP32", 1.0, &[F32], &over_paper(paper::F32));
    line("f16 stored as f16 / paper's FP16", 1.0, &[STORED], &over_paper(paper::F16));
    line("f16 held in f32 / paper's FP16", 0.05, &[HELD], &over_paper(paper::F16));
    line("c64 / f64", 2.0, &[C64], &over_kind(F64));
    line("c32 / f32", 2.0, &[C32], &over_kind(F32));
    if lapack::LINKED {
        line("any type / LAPACK, worst matrix", 2.0, &[], &|row, place| Some(row.over_gesdd(place)?.0));
        line("any type / LAPACK, geometric mean of one row", 1.2, &[], &|row, place| Some(row.over_gesdd(place)?.1));
    }
}

fn picture(rows: &[Row], kinds: &[Kind], places: &[Place], matrices: u64) -> Picture {
    let mut orders: Vec<usize> = rows.iter().map(|row| row.n).collect();
    orders.dedup();
    // One apart from each power of four to the next, so that marks beside one another stay near their n.
    let at = |n: usize| (n as f64).log2() / 2.0;
    let series = |k: usize, label: String, colour, shape, open, value: &dyn Fn(&Row) -> Option<f64>| Series {
        label,
        colour,
        mark: Mark::Line { shape, open },
        samples: rows.iter().filter(|row| row.kind == k).filter_map(|row| Some((at(row.n), vec![value(row)?]))).collect(),
    };
    let mut panels = ["double precision", "single precision", "half precision"].map(|title| Panel {
        title: title.to_owned(),
        x_ticks: orders.iter().map(|&n| (at(n), n.to_string())).collect(),
        series: Vec::new(),
        beside: true,
    });
    for (k, kind) in kinds.iter().enumerate() {
        let Some(panel) = kind.panel.map(|panel| &mut panels[panel].series) else { continue };
        // The first kind of a panel has full marks, the others have open ones.
        let open = !panel.is_empty();
        for (place, looks) in places.iter().enumerate() {
            let (colour, shape) = if looks.name == "CPU" { (BLUE, Shape::Circle) } else { (ORANGE, Shape::Triangle) };
            let label = format!("{}, {}", kind.name, looks.name);
            panel.push(series(k, label, colour, shape, open, &|row| largest(&row.ours[place])));
        }
        if let (Some((gesdd, _)), true) = (kind.gesdd, lapack::LINKED) {
            panel.push(series(k, format!("{}, {gesdd}", kind.name), GREEN, Shape::Square, open, &|row| largest(&row.gesdd)));
        }
        if let Some(published) = &kind.published {
            let name = kind.name.split(' ').next().unwrap_or_default();
            let unified = |row: &Row| published.unified_at(row.n);
            panel.push(series(k, format!("{name}, paper"), BLACK, Shape::Diamond, false, &unified));
            if published.cusolver.is_some() {
                let cusolver = |row: &Row| published.cusolver_at(row.n);
                panel.push(series(k, format!("{name}, paper's cuSOLVER"), GREY, Shape::Diamond, true, &cusolver));
            }
        }
    }
    for panel in &mut panels {
        panel.series.retain(|series| !series.samples.is_empty());
    }
    Picture {
        title: "Error of all singular values: Table 1 of the unified-kernels paper".into(),
        subtitle: format!("largest of {} matrices with known singular values, n x n; {}", 3 * matrices, machines(places)),
        x_label: "order n",
        y_label: "relative error",
        panels: panels.into(),
    }
}

fn largest(errors: &[f64]) -> Option<f64> {
    errors.iter().copied().reduce(f64::max)
}
