//! One QR factorisation for many right-hand sides that come one after the other: the currents in 60 coils from 4000 field readings, at every moment.
//!
//! ```text
//! cargo run --release --example qr_reuse
//! cargo run --release --example qr_reuse -- 20000 100 50      readings, coils, moments
//! ```

use std::{env, error::Error, time::Instant};

use faer::{Col, Mat};
use svdvals_gpu::{LstsqGpu, QrGpu};

fn main() -> Result<(), Box<dyn Error>> {
    let mut numbers = env::args().skip(1).map(|word| word.parse::<usize>().map_err(|_| format!("{word:?} is no number")));
    let mut next = |default| numbers.next().unwrap_or(Ok(default));
    let (readings, coils, moments) = (next(4000)?, next(60)?, next(40)?);
    if coils == 0 || readings < coils {
        return Err(format!("{readings} readings do not determine {coils} coils").into());
    }

    // The field of a unit current in coil j at reading i falls with the cube of their distance.
    let place = |k: usize, of: usize| k as f64 / of as f64;
    let field = |i: usize, j: usize| (0.001 + (place(i, readings) - place(j, coils)).powi(2)).powf(-1.5) * 1e-4;
    let a = Mat::from_fn(readings, coils, field);
    let current = |j: usize, t: usize| ((j + 1) as f64 * 0.7 + t as f64 * 0.2).sin();
    let noise = |i: usize, t: usize| 1e-3 * ((i * 7919 + t * 104729) as f64 * 12.9898).sin();
    let reading = |t: usize| {
        let exact = &a * Col::from_fn(coils, |j| current(j, t));
        Col::from_fn(readings, |i| exact[i] + noise(i, t))
    };
    let measured: Vec<Col<f64>> = (0..moments).map(reading).collect();

    let start = Instant::now();
    let qr = a.qr_gpu()?;
    let factored = start.elapsed().as_secs_f64();
    let mut worst = 0.0f64;
    for (t, b) in measured.iter().enumerate() {
        let x = qr.solve_lstsq(b)?;
        worst = (0..coils).fold(worst, |worst, j| worst.max((x[j] - current(j, t)).abs()));
    }
    let reused = start.elapsed().as_secs_f64();
    let start = Instant::now();
    for b in &measured {
        a.lstsq_gpu(b)?;
    }
    let anew = start.elapsed().as_secs_f64();

    println!("{readings} readings of {coils} coils, {moments} moments; condition number {:.1e}", qr.condition()?);
    println!("largest error of a current: {worst:.1e}");
    println!("factors kept: {factored:.4} s, then {:.6} s a moment", (reused - factored) / moments.max(1) as f64);
    println!("anew each time: {:.6} s a moment", anew / moments.max(1) as f64);
    Ok(())
}
