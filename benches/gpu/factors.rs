//! QR factorisations and least squares on matrices on the device: n x n, and tall ones of as many entries; with `--sweep` the shapes of Figures 7
//! and 8 of the paper on QR by tensor cores, from 256 n x n / 256 to n x n. (The paper's are of n = 65536 and 32768.)
//!
//! | routine | what | `error` |
//! | --- | --- | --- |
//! | `geqrf` | R, Q implicit | \| \|\|R\|\|_F / \|\|A\|\|_F - 1 \| |
//! | `qr` | R and the thin Q | \| \|\|Q\|\|_F / sqrt(columns) - 1 \| |
//! | `gels` | one right-hand side | \|\|A^H (b - A x)\|\| / (\|\|A\|\|_F \|\|b\|\|) |
//!
//! Of products by low precision the routine has the name behind it: `geqrf half`. `gels` by them reads A back and iterates in double precision on the
//! host, within `resident`; where the matrix's condition number is too high for them, a note stands in place of figures.
//!
//! `total` is the matrix from the host's memory to the result there, `upload` its way to the device, and `resident` what is between. The same as
//! in `gpu_peers.py`, on the same numbers.

use std::{error::Error, time::Instant};

use faer::{Mat, MatRef};
use num_complex::Complex;
use svdvals_gpu::{
    Backend, Element, GpuContext, GpuMatrix, LstsqOptions, Products, QrOptions, Route, RunOptions, Solver, SvdError,
    wgpu::PollType,
};

use crate::{
    Arguments, SEED, SEED_OF_RIGHT_HAND_SIDES, is_of_size, matrix, repeated,
    table::{Row, Table},
};

/// Most columns of a tall matrix.
const TALL: usize = 512;

/// The shapes for a size: a square, and a tall matrix with as many entries; or tall ones from 2^8 n rows on to the square.
fn shapes(n: usize, sweep: bool) -> Vec<(usize, usize)> {
    if sweep {
        return (0..=8).rev().filter(|k| n >> k > 0 && n.is_multiple_of(1 << k)).map(|k| (n << k, n >> k)).collect();
    }
    let columns = (n / 4).clamp(1, TALL);
    let tall = (n * n / columns, columns);
    if tall.1 == n { vec![(n, n)] } else { vec![(n, n), tall] }
}

/// Those of the products that the device can compute. A line says which it cannot, and why; if it can compute none, that is the error.
pub fn available(context: &GpuContext, asked: &[Products]) -> Result<Vec<Products>, Box<dyn Error>> {
    let Err(reason) = context.cooperative_matrices() else { return Ok(asked.to_vec()) };
    let (left, out): (Vec<Products>, Vec<Products>) = asked.iter().partition(|&&products| products == Products::Native);
    let out: Vec<String> = out.iter().map(Products::to_string).collect();
    match (left.is_empty(), out.is_empty()) {
        (_, true) => {}
        (true, _) => return Err(format!("{}: {reason}", out.join(", ")).into()),
        _ => println!("{} left out: {reason}", out.join(", ")),
    }
    Ok(left)
}

/// One type's rows, up to the first size that the device does not hold.
pub fn rows_of<T: Element>(
    context: &GpuContext,
    sizes: &[usize],
    (arguments, products): (&Arguments, &[Products]),
    blank: Row,
    table: &mut Table,
) -> Result<(), Box<dyn Error>> {
    table.title_with_columns(T::NAME);
    let (of_type, others): (Vec<Products>, Vec<Products>) =
        products.iter().partition(|&&products| products == Products::Native || ["f16", "f32"].contains(&T::NAME));
    others.iter().for_each(|products| println!("{products} left out: of f16 and f32 only"));
    for (m, n) in sizes.iter().flat_map(|&n| shapes(n, arguments.sweep)) {
        for (routine, &products) in ["geqrf", "qr", "gels"].iter().flat_map(|&routine| of_type.iter().map(move |p| (routine, p)))
        {
            let name = if products == Products::Native { routine.into() } else { format!("{routine} {products}") };
            let mut row = Row { routine: name, n: m, columns: n, ..blank.clone() };
            let operands = matrix::<T>(m, n, SEED).zip(matrix::<T>(m, 1, SEED_OF_RIGHT_HAND_SIDES));
            let measured = match &operands {
                Some((a, b)) => {
                    let (a, b) = (MatRef::from_column_major_slice(a, m, n), MatRef::from_column_major_slice(b, m, 1));
                    time(context, (routine, products), (a, b), arguments, &mut row)
                }
                None => Err(SvdError::OutOfMemory { reason: "the host holds no such matrix".into() }),
            };
            match measured {
                Ok(()) => table.push(row)?,
                Err(error) if is_of_size(&error) => {
                    // Another shape of a sweep may fit.
                    if arguments.sweep {
                        row.note = error.to_string();
                        table.push(row)?;
                        break;
                    }
                    row.note = format!("from {m} x {n} on: {error}");
                    return table.push(row);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

/// What a run gives.
struct Run<S> {
    result: Mat<S>,
    /// The route, if it is not by the products that were asked for.
    other: Option<Route>,
}

fn time<T: Element>(
    context: &GpuContext,
    (routine, products): (&str, Products),
    (a, b): (MatRef<'_, T>, MatRef<'_, T>),
    arguments: &Arguments,
    row: &mut Row,
) -> Result<(), SvdError> {
    let run = RunOptions::default().backend(Backend::Gpu).context(context.clone());
    let (of_qr, of_lstsq) = (QrOptions::from(run.clone()).products(products), LstsqOptions::from(run).products(products));
    let asked = Route::LeastSquares(Solver::Recursive(products));
    let run = || -> Result<([f64; 3], Run<T::Scalar>), SvdError> {
        let start = Instant::now();
        let (on_device, right) = (GpuMatrix::upload(context, &a)?, GpuMatrix::upload(context, &b)?);
        let polled = context.device().poll(PollType::wait_indefinitely());
        polled.map_err(|error| SvdError::DeviceLost { reason: error.to_string() })?;
        let uploaded = start.elapsed().as_secs_f64();
        // They return when the device is done.
        let (result, other) = match routine {
            "gels" => {
                let report = on_device.lstsq_report(&right, &of_lstsq)?;
                let other = (products != Products::Native && report.route != asked).then_some(report.route);
                (report.values.x, other)
            }
            "qr" => (on_device.qr(&of_qr)?.thin_q()?, None),
            _ => (on_device.qr(&of_qr)?.r()?, None),
        };
        let computed = start.elapsed().as_secs_f64();
        let result = result.to_mat()?;
        Ok(([start.elapsed().as_secs_f64(), computed - uploaded, uploaded], Run { result, other }))
    };
    let Run { result, other } = repeated(run, arguments, row)?;
    if let Some(route) = other {
        (row.runs, row.first_s, row.total_s, row.resident_s, row.upload_s) = (0, None, None, None, None);
        row.note = format!("x {}, {}: their precision does not suffice for this matrix ({route})", a.ncols(), row.routine);
        return Ok(());
    }
    row.error = Some(match routine {
        "gels" => gradient(a, result.as_ref(), b),
        "qr" => (norm(result.as_ref()) / (a.ncols() as f64).sqrt() - 1.0).abs(),
        _ => (norm(result.as_ref()) / norm(a) - 1.0).abs(),
    });
    Ok(())
}

/// The Frobenius norm.
fn norm<T: Element>(a: MatRef<'_, T>) -> f64 {
    a.col_iter().map(|column| column.iter().map(|x| x.to_complex().norm_sqr()).sum::<f64>()).sum::<f64>().sqrt()
}

/// ||A^H (b - A x)|| / (||A||_F ||b||)
fn gradient<T: Element>(a: MatRef<'_, T>, x: MatRef<'_, T::Scalar>, b: MatRef<'_, T>) -> f64 {
    let mut rest: Vec<Complex<f64>> = (0..b.nrows()).map(|i| b[(i, 0)].to_complex()).collect();
    for (k, column) in a.col_iter().enumerate() {
        let factor = svdvals_gpu::Number::to_complex(x[(k, 0)]);
        rest.iter_mut().zip(column.iter()).for_each(|(rest, a)| *rest -= a.to_complex() * factor);
    }
    let product =
        |column: faer::ColRef<'_, T>| column.iter().zip(&rest).map(|(a, r)| a.to_complex().conj() * r).sum::<Complex<f64>>();
    a.col_iter().map(|column| product(column).norm_sqr()).sum::<f64>().sqrt() / (norm(a) * norm(b))
}
