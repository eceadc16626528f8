//! Principal components: a scatter plot of the first two, and the variance that each explains.
//!
//! ```text
//! cargo run --release -p svdvals-gpu-gallery --bin pca
//! cargo run --release -p svdvals-gpu-gallery --bin pca -- observations.npy --labels labels.npy --csv scores.csv
//! cargo run --release -p svdvals-gpu-gallery --bin pca -- --help
//! ```

mod analysis;
mod arguments;
mod picture;

#[path = "../../../../shared/mod.rs"]
mod shared;

#[cfg(test)]
mod tests;

use std::{error::Error, fs::File, io::BufWriter, io::Write, path::Path};

use analysis::Analysis;
use arguments::{Arguments, USAGE};
use shared::{
    arguments::program,
    markdown::{Table, print},
};
use svdvals_gpu_gallery::{
    chart::four_digits,
    draw::make_folder,
    files::{npy, source::real_matrix},
};

fn main() -> std::process::ExitCode {
    program("pca", USAGE, Arguments::parse, |arguments| run(&arguments).map(|_| ()))
}

fn run(arguments: &Arguments) -> Result<Analysis, Box<dyn Error>> {
    let x = real_matrix(&arguments.file)?;
    let (m, n) = x.dim();
    let labels = arguments.labels.as_deref().map(|path| labels(path, m)).transpose()?;
    if let Some((height, width)) = arguments.image.filter(|(height, width)| height.checked_mul(*width) != Some(n)) {
        return Err(format!("--image {height},{width}: {} has {n} variables", arguments.file.display()).into());
    }
    let analysis = Analysis::of(&x, arguments.components, arguments.backend)
        .map_err(|message| format!("{}: {message}", arguments.file.display()))?;
    print_table(arguments, &analysis);
    make_folder(&arguments.out)
        .map_err(Into::into)
        .and_then(|()| picture::save(arguments, labels.as_deref(), &analysis))
        .map_err(|error| format!("{}: {error}", arguments.out.display()))?;
    print(format!("\nwrote {}", arguments.out.display()));
    if let Some(path) = &arguments.csv {
        write_scores(path, labels.as_deref(), &analysis).map_err(|error| format!("{}: {error}", path.display()))?;
        print(format!("wrote {}", path.display()));
    }
    Ok(analysis)
}

/// A label for each of `count` observations.
fn labels(path: &Path, count: usize) -> Result<Vec<i64>, String> {
    let read = || {
        let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
        let header = npy::header(&bytes[..])?;
        if header.shape != [count] {
            return Err(format!("the shape is {:?}, but there are {count} observations", header.shape));
        }
        macro_rules! read {
            ($($t:ty)*) => {$(
                if let Ok(labels) = <ndarray::Array1<$t> as ndarray_npy::ReadNpyExt>::read_npy(&bytes[..]) {
                    return Ok(labels.iter().map(|&label| label.into()).collect());
                }
            )*};
        }
        read!(u8 i8 u16 i16 u32 i32 i64);
        Err("no whole numbers of up to 64 bits".into())
    };
    read().map_err(|message: String| format!("{}: {message}", path.display()))
}

fn print_table(arguments: &Arguments, analysis: &Analysis) {
    let (m, n) = (analysis.scores.nrows(), analysis.components.ncols());
    print(format!("{}: {m} observations of {n} variables, {:.4} s", arguments.file.display(), analysis.seconds));
    let table = Table::start(&["component", "variance  ", "explained", "together"].map(String::from));
    let mut together = 0.0;
    for (k, variance) in analysis.variances.iter().enumerate() {
        together += analysis.explained(k);
        let percent = |part: f64| format!("{:.2}%", 100.0 * part);
        table.row(&[(k + 1).to_string(), four_digits(*variance), percent(analysis.explained(k)), percent(together)]);
    }
}

/// A line for each observation: its label, if there are labels, and its coordinates.
fn write_scores(path: &Path, labels: Option<&[i64]>, analysis: &Analysis) -> std::io::Result<()> {
    make_folder(path)?;
    let mut file = BufWriter::new(File::create(path)?);
    let names = (1..=analysis.variances.len()).map(|k| format!("component_{k}"));
    let heading: Vec<String> = labels.map(|_| "label".to_owned()).into_iter().chain(names).collect();
    writeln!(file, "{}", heading.join(","))?;
    for (i, row) in analysis.scores.rows().into_iter().enumerate() {
        let label = labels.map(|labels| labels[i].to_string());
        let fields: Vec<String> = label.into_iter().chain(row.iter().map(f64::to_string)).collect();
        writeln!(file, "{}", fields.join(","))?;
    }
    file.flush()
}
