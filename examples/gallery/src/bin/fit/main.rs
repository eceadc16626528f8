//! Least squares: a polynomial through measured points, and a plane through the brightness of a photograph's sky, with the residuals drawn.
//!
//! ```text
//! cargo run --release -p svdvals-gpu-gallery --bin fit
//! cargo run --release -p svdvals-gpu-gallery --bin fit -- points.csv --degree 3
//! cargo run --release -p svdvals-gpu-gallery --bin fit -- image.png --window 0,0,200,300
//! cargo run --release -p svdvals-gpu-gallery --bin fit -- --help
//! ```

mod arguments;
mod picture;
mod plane;
mod polynomial;

#[path = "../../../../shared/mod.rs"]
mod shared;

use std::error::Error;

use arguments::{Arguments, Task, USAGE};
use plane::Plane;
use polynomial::{Polynomial, points};
use shared::{
    arguments::program,
    markdown::{Table, print},
};
use svdvals_gpu_gallery::{chart::four_digits, draw::make_folder, files::source::real_matrix};

fn main() -> std::process::ExitCode {
    program("fit", USAGE, Arguments::parse, |arguments| run(&arguments))
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    for task in &arguments.tasks {
        make_folder(task.out()).map_err(|error| format!("{}: {error}", task.out().display()))?;
        match task {
            Task::Polynomial { file, degree, out } => {
                let (x, y) = points(file)?;
                let fit = Polynomial::fit(&x, &y, *degree).map_err(|message| format!("{}: {message}", file.display()))?;
                let of = format!("{} points of {}", x.len(), file.display());
                print(format!("{of}, degree {degree}. By powers of x the rank is {} of {}", fit.rank_by_x, degree + 1));
                print(format!(
                    "By powers of t = (x - {:.6}) / {:.6}, which is -1 to 1, it is {}:",
                    fit.middle, fit.half, fit.rank
                ));
                let table = Table::start(&["power of t", "coefficient        ", "standard error"].map(String::from));
                for (k, (c, error)) in fit.coefficients.iter().zip(&fit.standard_errors).enumerate() {
                    table.row(&[k.to_string(), format!("{c:>19.12e}"), four_digits(*error)]);
                }
                print(format!(
                    "\nstandard deviation of the residuals {:.12e}, backward error {:.1e}",
                    fit.deviation, fit.backward_error
                ));
                picture::save_polynomial(out, file, &x, &y, &fit)?;
            }
            Task::Plane { file, window, out } => {
                let image = real_matrix(file)?;
                let fit = Plane::fit(image.view(), *window).map_err(|message| format!("{}: {message}", file.display()))?;
                let [level, down, right] = fit.coefficients;
                print(format!("\n{}: {} x {} pixels from ({}, {})", file.display(), window[2], window[3], window[0], window[1]));
                print(format!("brightness {level:.3}, {down:+.5} a row, {right:+.5} a column"));
                print(format!("standard deviation {:.3} before, {:.3} after", fit.before, fit.deviation));
                picture::save_plane(out, file, &fit)?;
            }
        }
        print(format!("wrote {}", task.out().display()));
    }
    Ok(())
}
