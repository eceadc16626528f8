//! Figure 17 of the GPU-centred paper: errors of the decomposition with vectors, over the kind of matrix and its condition number.
//!
//! E_sigma = ||s - s'||_2 / ||s'||_2 and E_svd = ||A - U S V^T||_F / ||A||_F. Matrices are n x n, and 5 n x n/4, 20 times as high as wide.

use std::error::Error;

use faer::{Mat, MatRef};
use indicatif::ProgressBar;
use svdvals_gpu::{Element, MatSvd, Number, RealElement, SvdGpu};
use svdvals_gpu_gallery::{
    draw::{BLUE, GREEN, ORANGE},
    plot::{Mark, Panel, Picture, Series, Shape},
};

use crate::{
    common::{Random, error, jacobi, reference, rounded, with_singular_values},
    lapack::{self, RealLapack},
    paper,
    places::{Place, machines},
    shared::markdown::{Table, cell},
};

const CONDITIONS: [f64; 4] = [1e2, 1e6, 1e10, 1e14];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// Entries uniform in [0, 1).
    Random,
    /// Logarithms of the values uniform between those of 1 / condition and 1, which are values themselves.
    Logrand,
    /// Values evenly spaced from 1 to 1 / condition.
    Arith,
    /// Logarithms of the values evenly spaced from that of 1 to that of 1 / condition.
    Geo,
}

impl Kind {
    const KNOWN: [Kind; 3] = [Kind::Logrand, Kind::Arith, Kind::Geo];

    fn name(self) -> &'static str {
        match self {
            Kind::Random => "random",
            Kind::Logrand => "logrand",
            Kind::Arith => "arith",
            Kind::Geo => "geo",
        }
    }

    /// n values, descending.
    fn values(self, n: usize, condition: f64, random: &mut Random) -> Vec<f64> {
        let mut part = |i: usize| match self {
            Kind::Logrand if i > 0 && i + 1 < n => random.uniform(),
            _ => i as f64 / (n - 1) as f64,
        };
        let value = |part: f64| match self {
            Kind::Arith => (1.0 - part) + part / condition, // the last one without cancellation
            _ => condition.powf(-part),
        };
        let mut values: Vec<f64> = (0..n).map(|i| value(part(i))).collect();
        values.sort_unstable_by(|x, y| y.total_cmp(x));
        values
    }
}

/// A kind of matrix, and the condition number of those that have a given one.
type Case = (Kind, Option<f64>);

fn cases() -> Vec<Case> {
    let known = Kind::KNOWN.into_iter().flat_map(|kind| CONDITIONS.map(|condition| (kind, Some(condition))));
    std::iter::once((Kind::Random, None)).chain(known).collect()
}

/// A matrix with its singular values, where they are known without a computation.
struct Sample {
    a: Mat<f64>,
    sigma: Option<Vec<f64>>,
}

impl Sample {
    /// n x n, or 20 n x n.
    fn new((kind, condition): Case, n: usize, tall: bool) -> Sample {
        let mut random = Random(17);
        let blocks = if tall { BLOCKS.len() } else { 1 };
        let Some(condition) = condition else {
            return Sample { a: Mat::from_fn(blocks * n, n, |_, _| random.uniform()), sigma: None };
        };
        let mut sigma = kind.values(n, condition, &mut random);
        let a = with_small_values(&mut sigma, 18);
        let a = if tall { stacked(a.as_ref(), &mut random) } else { a };
        Sample { a, sigma: Some(sigma) }
    }

    /// Of the matrix rounded to `T`.
    fn measure<T: Element<Scalar: RealLapack>>(&self, places: &[Place]) -> Result<Errors, Box<dyn Error>> {
        let a: Mat<T> = rounded(self.a.as_ref());
        let sigma = match &self.sigma {
            Some(sigma) => sigma.clone(),
            // In double-double; for f32 what f64 rounds is of no account.
            None if T::NAME == "f64" => jacobi::exact(a.as_ref()),
            None => reference(a.as_ref()),
        };
        let (m, n) = a.shape();
        let mut ours = Vec::new();
        for place in places {
            let svd = place.attempt(n, |run| a.svd_gpu_with(&run.clone().into()))?;
            ours.push(svd.map(|MatSvd { u, s, v, .. }| {
                let s: Vec<f64> = s.iter().map(|s| s.to_double()).collect();
                errors(&wide(a.as_ref()), &sigma, wide(u.as_ref()), &s, wide(v.as_ref()))
            }));
        }
        let entries = a.col_iter().flat_map(|column| column.iter().map(|x| T::Scalar::from_complex(x.to_complex()))).collect();
        let theirs = T::Scalar::gesdd_thin(m, n, entries)?.map(|(u, s, vt)| {
            let u = Mat::from_fn(m, n, |i, j| real(u[j * m + i]));
            let v = Mat::from_fn(n, n, |i, j| real(vt[i * n + j]));
            errors(&wide(a.as_ref()), &sigma, u, &s, v)
        });
        Ok(Errors { ours, theirs })
    }
}

/// E_sigma and E_svd of each place, and of LAPACK.
struct Errors {
    ours: Vec<Option<[f64; 2]>>,
    theirs: Option<[f64; 2]>,
}

/// E_sigma and E_svd.
fn errors(a: &Mat<f64>, sigma: &[f64], u: Mat<f64>, s: &[f64], v: Mat<f64>) -> [f64; 2] {
    let us = Mat::from_fn(u.nrows(), u.ncols(), |i, j| u[(i, j)] * s[j]);
    [error(s.iter().copied(), sigma), (a - us * v.transpose()).norm_l2() / a.norm_l2()]
}

fn real<T: Number>(x: T) -> f64 {
    x.to_complex().re
}

fn wide<T: Number>(a: MatRef<'_, T>) -> Mat<f64> {
    Mat::from_fn(a.nrows(), a.ncols(), |i, j| real(a[(i, j)]))
}

/// U diag(sigma) V^T as [`with_singular_values`] makes it, for values that are far smaller than 1: a sum of three such matrices with the same U
/// and V, of 26 bits of the values each. `sigma`, from 0 to 1, is cut to multiples of 2^-78; a sum is rounded once.
fn with_small_values(sigma: &mut [f64], seed: u64) -> Mat<f64> {
    let n = sigma.len();
    let mut parts = Vec::new();
    let mut rest = sigma.to_vec();
    for k in 0..3 {
        let unit = 2f64.powi(-26 * k);
        let mut bits: Vec<f64> = rest.iter().map(|s| (s / unit * 2f64.powi(26)).floor() * 2f64.powi(-26)).collect();
        rest.iter_mut().zip(&bits).for_each(|(rest, bits)| *rest -= bits * unit);
        parts.push(with_singular_values(&mut bits, seed) * faer::Scale(unit));
    }
    sigma.iter_mut().zip(rest).for_each(|(s, rest)| *s -= rest);
    Mat::from_fn(n, n, |i, j| parts[0][(i, j)] + (parts[1][(i, j)] + parts[2][(i, j)]))
}

/// Eighths whose squares have the sum 1.
const BLOCKS: [f64; 20] = {
    let mut blocks = [0.25; 20];
    let mut k = 0;
    while k < 7 {
        blocks[k] = 0.125;
        k += 1;
    }
    blocks[19] = 0.375;
    blocks
};

/// Multiples of A on top of one another, with their rows in random order: 20 n x n, with A's singular values.
fn stacked(a: MatRef<'_, f64>, random: &mut Random) -> Mat<f64> {
    let n = a.nrows();
    let mut rows: Vec<usize> = (0..BLOCKS.len() * n).collect();
    for i in (1..rows.len()).rev() {
        rows.swap(i, (random.uniform() * (i + 1) as f64) as usize);
    }
    Mat::from_fn(rows.len(), a.ncols(), |i, j| BLOCKS[rows[i] / n] * a[(rows[i] % n, j)])
}

/// The errors on a matrix.
struct Row {
    n: usize,
    panel: usize,
    case: Case,
    errors: Errors,
}

/// A panel for each shape and type: whether tall, and whether in f32.
const PANELS: [(bool, bool); 4] = [(false, false), (true, false), (false, true), (true, true)];

fn type_name(single: bool) -> &'static str {
    if single { "f32" } else { "f64" }
}

/// Rows and columns of the square and of the tall matrices of an order.
fn shape(n: usize, tall: bool) -> (usize, usize) {
    if tall { (BLOCKS.len() * (n / 4), n / 4) } else { (n, n) }
}

/// Measures and prints, and returns the picture.
pub fn run(places: &[Place], orders: &[usize]) -> Result<Picture, Box<dyn Error>> {
    println!("\nFigure 17 of the GPU-centred paper: E_sigma = ||s - s'||_2 / ||s'||_2, E_svd = ||A - U S V^T||_F / ||A||_F.");
    println!("{}", paper::FIGURE_17);
    let mut headings: Vec<String> = ["type", "shape      ", "matrix ", "condition"].map(String::from).into();
    for name in places.iter().map(|place| place.name).chain(lapack::LINKED.then_some("LAPACK")) {
        headings.extend([format!("{name} E_sigma"), "E_svd  ".into()]);
    }
    let table = Table::start(&headings);
    let mut rows = Vec::new();
    for &n in orders {
        for (panel, (tall, single)) in PANELS.into_iter().enumerate() {
            let (height, width) = shape(n, tall);
            let bar = ProgressBar::new(cases().len() as u64);
            for case in cases() {
                let sample = Sample::new(case, width, tall);
                let errors = if single { sample.measure::<f32>(places)? } else { sample.measure::<f64>(places)? };
                let mut cells = vec![type_name(single).to_owned(), format!("{height} x {width}"), case.0.name().to_owned()];
                cells.push(cell(case.1, |condition| format!("{condition:.0e}")));
                for both in errors.ours.iter().chain(lapack::LINKED.then_some(&errors.theirs)) {
                    cells.extend([0, 1].map(|k| cell(both.map(|both| both[k]), |x| format!("{x:.1e}"))));
                }
                bar.suspend(|| table.row(&cells));
                bar.inc(1);
                rows.push(Row { n, panel, case, errors });
            }
            bar.finish_and_clear();
        }
    }
    if lapack::LINKED {
        println!("\nLAPACK: ?gesdd with thin vectors on the same, rounded matrices.");
    }
    places.iter().for_each(Place::print_remarks);
    Ok(picture(&rows, places))
}

/// Where a matrix stands on the x axis: kinds with a gap between them, in which their names are.
fn at((kind, condition): Case) -> f64 {
    let place = CONDITIONS.iter().position(|c| Some(*c) == condition);
    let group = Kind::KNOWN.iter().position(|known| *known == kind);
    match (group, place) {
        (Some(group), Some(place)) => named_at(group) + 1.2 + place as f64,
        _ => 0.0,
    }
}

fn named_at(group: usize) -> f64 {
    1.7 + 5.2 * group as f64
}

/// A row of panels for each order and type.
fn picture(rows: &[Row], places: &[Place]) -> Picture {
    let mut orders: Vec<usize> = rows.iter().map(|row| row.n).collect();
    orders.dedup();
    let mut x_ticks: Vec<(f64, String)> = cases()
        .into_iter()
        .map(|case| (at(case), case.1.map_or(case.0.name().into(), |condition| format!("{condition:.0e}"))))
        .collect();
    x_ticks.extend(Kind::KNOWN.iter().enumerate().map(|(group, kind)| (named_at(group), kind.name().to_owned())));
    x_ticks.sort_by(|x, y| x.0.total_cmp(&y.0));
    let mut panels = Vec::new();
    for n in orders {
        for (p, (tall, single)) in PANELS.into_iter().enumerate() {
            let rows: Vec<&Row> = rows.iter().filter(|row| row.n == n && row.panel == p).collect();
            let mut all = Vec::new();
            for (which, name) in ["E_sigma", "E_svd"].into_iter().enumerate() {
                for (k, place) in places.iter().enumerate() {
                    let (colour, shape) = if place.name == "CPU" { (BLUE, Shape::Circle) } else { (ORANGE, Shape::Triangle) };
                    let error = |row: &Row| Some(row.errors.ours[k]?[which]);
                    all.extend(series(&rows, &format!("{name}, {}", place.name), colour, shape, which == 1, &error));
                }
                let label = format!("{name}, LAPACK {}gesdd", if single { "s" } else { "d" });
                all.extend(series(&rows, &label, GREEN, Shape::Square, which == 1, &|row| Some(row.errors.theirs?[which])));
            }
            let (height, width) = shape(n, tall);
            let title = format!("{}, {height} x {width}", type_name(single));
            panels.push(Panel { title, x_ticks: x_ticks.clone(), series: all, beside: false });
        }
    }
    Picture {
        title: "Errors of the decomposition with vectors: Figure 17 of the GPU-centred paper".into(),
        subtitle: format!("E_sigma: singular values; E_svd: A - U S V^T; relative; {}", machines(places)),
        x_label: "kind of matrix, and its condition number",
        y_label: "relative error",
        panels,
    }
}

/// A line for each kind of matrix, of which the first that there is has the label.
fn series(
    rows: &[&Row],
    label: &str,
    colour: plotters::style::RGBColor,
    shape: Shape,
    open: bool,
    error: &dyn Fn(&Row) -> Option<f64>,
) -> Vec<Series> {
    let of = |kind: Kind| Series {
        label: String::new(),
        colour,
        mark: Mark::Line { shape, open },
        samples: rows.iter().filter(|row| row.case.0 == kind).filter_map(|row| Some((at(row.case), vec![error(row)?]))).collect(),
    };
    let kinds = std::iter::once(Kind::Random).chain(Kind::KNOWN);
    let mut series: Vec<Series> = kinds.map(of).filter(|series| !series.samples.is_empty()).collect();
    series.iter_mut().take(1).for_each(|series| series.label = label.to_owned());
    series
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The constructed matrices have the values that they are said to have: by Jacobi's method in double-double, to the rounding of their
    /// entries, eps ||A||_F, and those of the tall ones too. Small values are there to the last of the 78 bits.
    #[test]
    fn constructed_values() {
        for case in cases().into_iter().filter(|case| case.1.is_some()) {
            for tall in [false, true] {
                let Sample { a, sigma } = Sample::new(case, 16, tall);
                let sigma = sigma.unwrap();
                let found = jacobi::exact(a.as_ref());
                let bound = f64::EPSILON * a.norm_l2();
                assert!(found.iter().zip(&sigma).all(|(x, y)| (x - y).abs() <= bound), "{case:?} {tall}: {found:?} {sigma:?}");
                let condition = case.1.unwrap();
                assert!((sigma[0] / sigma[15] / condition - 1.0).abs() < 1e-8, "{case:?}: {}", sigma[0] / sigma[15]);
            }
        }
        assert_eq!(BLOCKS.iter().map(|c| c * c).sum::<f64>(), 1.0);
    }
}
