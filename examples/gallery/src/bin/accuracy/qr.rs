//! The accuracy experiments of the paper on Householder QR by tensor cores: Table IV, and Figures 9 and 10.
//!
//! Its f16 is f16 storage with f32 sums, as [`HalfStorage::Half`] here; beside it there are f32 matrices with [`Products`] by low precision, which the
//! CPU emulates bit for bit. The matrices of Table IV are n x n, those of Figure 9 2 n x n, those of
//! Figure 10 4 n x n; "geometric" are singular values from 1 to 1 / condition with even logarithms.

use std::error::Error;

use faer::Mat;
use half::f16;
use svdvals_gpu::{
    Element, HalfStorage, LstsqGpu, LstsqOptions, Preconditioner, Products, QrGpu, QrOptions, Route, RunOptions, Solver, SvdError,
};
use svdvals_gpu_gallery::{
    draw::{BLUE, GREEN, ORANGE, PURPLE},
    plot::{Mark, Panel, Picture, Series, Shape},
};

use crate::{
    common::{Random, rounded, with_singular_values},
    paper,
    places::{Place, machines},
    shared::markdown::{Table, cell},
};

const CONDITIONS: [f64; 6] = [1e1, 1e2, 1e3, 1e4, 1e5, 1e6];
const KINDS: [&str; 4] = ["uniform", "normal", "arithmetic", "geometric"];

/// m x n of this condition number: the singular values geometric, or evenly spaced.
fn of_condition(m: usize, n: usize, condition: f64, geometric: bool) -> Mat<f64> {
    let part = |i: usize| i as f64 / (n.max(2) - 1) as f64;
    let value = |i: usize| if geometric { condition.powf(-part(i)) } else { 1.0 - part(i) * (1.0 - 1.0 / condition) };
    let mut sigma: Vec<f64> = (0..n).map(value).collect();
    let a = with_singular_values(&mut sigma, 23);
    // Multiples of A on top of one another, whose squares have the sum 1, have A's values.
    let copies = (m / n).max(1);
    Mat::from_fn(copies * n, n, |i, j| a[(i % n, j)] / (copies as f64).sqrt())
}

fn of_kind(kind: &str, n: usize) -> Mat<f64> {
    let mut random = Random(29);
    match kind {
        "uniform" => Mat::from_fn(n, n, |_, _| random.uniform()),
        "normal" => Mat::from_fn(n, n, |_, _| random.normal()),
        kind => of_condition(n, n, 1e4, kind == "geometric"),
    }
}

fn wide<T: Element>(a: &Mat<T>) -> Mat<f64> {
    Mat::from_fn(a.nrows(), a.ncols(), |i, j| a[(i, j)].to_complex().re)
}

/// ||I - Q^T Q||_F / n
fn orthogonality(q: &Mat<f64>) -> f64 {
    let n = q.ncols();
    (q.transpose() * q - Mat::<f64>::identity(n, n)).norm_l2() / n as f64
}

/// A function such as [`errors`].
type Errors<'a> = dyn Fn(&Mat<f64>, &QrOptions) -> Result<[f64; 2], SvdError> + 'a;

/// ||A - Q R||_F / ||A||_F and ||I - Q^T Q||_F / n of the matrix rounded to `T`. f16 is stored as such.
fn errors<T: Element>(a: &Mat<f64>, options: &QrOptions) -> Result<[f64; 2], SvdError> {
    let a: Mat<T> = rounded(a.as_ref());
    let qr = a.qr_gpu_with(&options.clone().half_storage(if T::IS_HALF { HalfStorage::Half } else { HalfStorage::Single }))?;
    let (q, a) = (wide(&qr.thin_q()?), wide(&a));
    Ok([(&a - &q * wide(&qr.r())).norm_l2() / a.norm_l2(), orthogonality(&q)])
}

/// [`errors`] in f32 with these products.
fn errors_by(products: Products) -> impl Fn(&Mat<f64>, &QrOptions) -> Result<[f64; 2], SvdError> {
    move |a, options| errors::<f32>(a, &options.clone().products(products))
}

/// The orthogonality of modified Gram-Schmidt with columns that are stored as f16, and sums in f32.
fn gram_schmidt(a: &Mat<f64>) -> f64 {
    let (m, n) = a.shape();
    let mut q: Vec<Vec<f16>> = (0..n).map(|j| (0..m).map(|i| f16::from_f64(a[(i, j)])).collect()).collect();
    for j in 0..n {
        let (done, rest) = q.split_at_mut(j);
        let column = &mut rest[0];
        for other in done {
            let dot: f32 = other.iter().zip(column.iter()).map(|(x, y)| x.to_f32() * y.to_f32()).sum();
            column.iter_mut().zip(other.iter()).for_each(|(x, y)| *x = f16::from_f32(x.to_f32() - dot * y.to_f32()));
        }
        let length = column.iter().map(|x| x.to_f32().powi(2)).sum::<f32>().sqrt();
        column.iter_mut().for_each(|x| *x = f16::from_f32(x.to_f32() / length));
    }
    orthogonality(&Mat::from_fn(m, n, |i, j| q[j][i].to_f64()))
}

/// Measures and prints, and returns the picture of Figure 9.
pub fn run(places: &[Place], orders: &[usize]) -> Result<Picture, Box<dyn Error>> {
    let mut panels = Vec::new();
    for &n in orders {
        table_4(places, n)?;
        panels.push(figure_9(places, n)?);
        figure_10(places, n)?;
    }
    places.iter().for_each(Place::print_remarks);
    Ok(Picture {
        title: "Orthogonality of QR (Figure 9)".into(),
        subtitle: format!("||I - Q^T Q|| / n, geometric singular values; {}", machines(places)),
        x_label: "condition number",
        y_label: "orthogonality",
        panels,
    })
}

fn table_4(places: &[Place], n: usize) -> Result<(), Box<dyn Error>> {
    println!(
        "\nTable IV of the paper on QR by tensor cores, n = {n}: ||A - Q R|| / ||A||, and ||I - Q^T Q|| / n. {}",
        paper::TABLE_IV
    );
    let mut headings: Vec<String> = ["type", "error        "].map(String::from).into();
    headings.extend(places.iter().flat_map(|place| KINDS.map(|kind| format!("{} {kind}", place.name))));
    let table = Table::start(&headings);
    let (split, half) = (errors_by(Products::Split), errors_by(Products::Half));
    let rows: [(&str, &Errors); 5] = [
        ("f64", &errors::<f64>),
        ("f32", &errors::<f32>),
        ("f16", &errors::<f16>),
        ("f32, split products", &split),
        ("f32, half products", &half),
    ];
    for (name, errors) in rows {
        let mut cells = [vec![name.to_owned(), "backward".into()], vec![name.to_owned(), "orthogonality".into()]];
        for place in places {
            for kind in KINDS {
                let found = place.attempt(n, |run| errors(&of_kind(kind, n), &run.clone().into()))?;
                cells
                    .iter_mut()
                    .enumerate()
                    .for_each(|(k, row)| row.push(cell(found.map(|both| both[k]), |x| format!("{x:.1e}"))));
            }
        }
        cells.iter().for_each(|row| table.row(row));
    }
    Ok(())
}

fn figure_9(places: &[Place], n: usize) -> Result<Panel, Box<dyn Error>> {
    println!("\nFigure 9: ||I - Q^T Q|| / n of {} x {n} matrices with geometric values, over the condition number.", 2 * n);
    let mut lines: Vec<(String, Vec<Option<f64>>)> = Vec::new();
    let matrices: Vec<Mat<f64>> = CONDITIONS.iter().map(|&condition| of_condition(2 * n, n, condition, true)).collect();
    for place in places {
        let (split, half) = (errors_by(Products::Split), errors_by(Products::Half));
        let rows: [(&str, &Errors); 4] = [
            ("f16 Householder", &errors::<f16>),
            ("f32 Householder", &errors::<f32>),
            ("split products", &split),
            ("half products", &half),
        ];
        for (name, errors) in rows {
            let found = matrices.iter().map(|a| Ok(place.attempt(n, |run| errors(a, &run.clone().into()))?.map(|both| both[1])));
            lines.push((format!("{name}, {}", place.name), found.collect::<Result<_, SvdError>>()?));
        }
    }
    lines.push(("f16 Gram-Schmidt".into(), matrices.iter().map(|a| Some(gram_schmidt(a))).collect()));
    let headings: Vec<String> =
        std::iter::once("method              ".to_owned()).chain(CONDITIONS.map(|c| format!("{c:.0e}   "))).collect();
    let table = Table::start(&headings);
    for (name, found) in &lines {
        let cells = found.iter().map(|&x| cell(x, |x| format!("{x:.1e}")));
        table.row(&std::iter::once(name.clone()).chain(cells).collect::<Vec<_>>());
    }
    let looks = [(BLUE, Shape::Circle), (GREEN, Shape::Square), (PURPLE, Shape::Diamond)];
    let series = lines.iter().enumerate().map(|(k, (name, found))| {
        let (colour, shape) = if k + 1 == lines.len() { (ORANGE, Shape::Triangle) } else { looks[k % looks.len()] };
        let samples = found.iter().enumerate().filter_map(|(at, error)| Some((at as f64, vec![(*error)?]))).collect();
        Series { label: name.clone(), colour, mark: Mark::Line { shape, open: k >= looks.len() && k + 1 < lines.len() }, samples }
    });
    let x_ticks = CONDITIONS.iter().enumerate().map(|(at, condition)| (at as f64, format!("{condition:.0e}"))).collect();
    Ok(Panel { title: format!("{} x {n}", 2 * n), x_ticks, series: series.collect(), beside: false })
}

/// What became of a solution.
fn told(found: Option<(Route, usize, f64)>) -> String {
    match found {
        None => "-".into(),
        Some((Route::LeastSquares(Solver::Preconditioned | Solver::Resident | Solver::Recursive(_)), iterations, error)) => {
            format!("{iterations}, {error:.0e}")
        }
        Some((_, _, error)) => format!("full, {error:.0e}"),
    }
}

fn figure_10(places: &[Place], n: usize) -> Result<(), Box<dyn Error>> {
    println!(
        "\nFigure 10: least squares of {} x {n} f64 matrices with geometric values by CGLS, preconditioned by R of lower precision,",
        4 * n
    );
    println!(
        "over the condition number: iterations and backward error; \"full\" where a factorisation in full precision had to follow."
    );
    let headings: Vec<String> =
        std::iter::once("R     ".to_owned()).chain(CONDITIONS.map(|c| format!("{c:.0e}       "))).collect();
    let table = Table::start(&headings);
    for place in places {
        let by = |preconditioner| LstsqOptions::default().preconditioner(preconditioner);
        let with = |products| LstsqOptions::default().products(products);
        let rows = [
            ("half", by(Preconditioner::Half)),
            ("single", by(Preconditioner::Single)),
            ("resident", by(Preconditioner::Resident)),
            ("full", by(Preconditioner::Full)),
            ("half products", with(Products::Half)),
            ("split products", with(Products::Split)),
        ];
        for (name, LstsqOptions { preconditioner, products, .. }) in rows {
            let mut cells = vec![format!("{name}, {}", place.name)];
            for condition in CONDITIONS {
                let a = of_condition(4 * n, n, condition, true);
                let mut random = Random(31);
                let b = &a * Mat::from_fn(n, 1, |_, _| random.normal()) + Mat::from_fn(4 * n, 1, |_, _| 1e-3 * random.normal());
                let solve = |run: &RunOptions| {
                    let report = a.lstsq_gpu_report(
                        &b,
                        &LstsqOptions::from(run.clone()).preconditioner(preconditioner).products(products),
                    )?;
                    Ok((report.route, report.values.iterations, report.values.backward_error))
                };
                cells.push(told(place.attempt(n, solve)?));
            }
            table.row(&cells);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gram-Schmidt in f16 loses orthogonality with the condition number, Householder's reflectors do not: the statement of Figure 9.
    #[test]
    fn gram_schmidt_degrades() {
        let options = QrOptions::default().backend(svdvals_gpu::Backend::Cpu);
        let [well, ill] = [1e1, 1e4].map(|condition| of_condition(64, 32, condition, true));
        assert!(gram_schmidt(&ill) > 20.0 * gram_schmidt(&well));
        assert!(errors::<f16>(&ill, &options).unwrap()[1] < 2.0 * errors::<f16>(&well, &options).unwrap()[1]);
    }
}
