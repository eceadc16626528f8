//! The table, on the screen and as CSV. `benches/gpu_peers.py` writes the same columns; `gpu_times` in examples/gallery draws them.

use std::{error::Error, fs::File, io::Write, path::Path};

use crate::{Of, shared::csv::line};

const COLUMNS: [&str; 20] = [
    "program",
    "routine",
    "device",
    "driver",
    "backend",
    "version",
    "type",
    "n",
    "columns",
    "runs",
    "first_s",
    "total_s",
    "resident_s",
    "scale_s",
    "upload_s",
    "to_band_s",
    "band_to_bidiag_s",
    "svdvals_s",
    "error",
    "note",
];

/// One line. Seconds are None where nothing was measured, and the note says why.
#[derive(Clone, Debug, Default)]
pub struct Row {
    pub program: String,
    pub routine: String,
    pub device: String,
    pub driver: String,
    pub backend: String,
    /// Of the program.
    pub version: String,
    pub element: String,
    pub n: usize,
    /// Columns of the matrix, or of a system's right-hand sides.
    pub columns: usize,
    pub runs: usize,
    pub first_s: Option<f64>,
    pub total_s: Option<f64>,
    pub resident_s: Option<f64>,
    pub scale_s: Option<f64>,
    pub upload_s: Option<f64>,
    pub to_band_s: Option<f64>,
    pub band_to_bidiag_s: Option<f64>,
    pub svdvals_s: Option<f64>,
    pub error: Option<f64>,
    pub note: String,
}

impl Row {
    /// As [`COLUMNS`] names them.
    fn fields(self) -> [String; 20] {
        let number = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:?}"));
        [
            self.program,
            self.routine,
            self.device,
            self.driver,
            self.backend,
            self.version,
            self.element,
            self.n.to_string(),
            self.columns.to_string(),
            self.runs.to_string(),
            number(self.first_s),
            number(self.total_s),
            number(self.resident_s),
            number(self.scale_s),
            number(self.upload_s),
            number(self.to_band_s),
            number(self.band_to_bidiag_s),
            number(self.svdvals_s),
            number(self.error),
            self.note,
        ]
    }

    /// Real flops of a reduction to bidiagonal form, 8/3 n^3; a complex product and sum is four real ones.
    fn flops(element: &str, n: usize) -> f64 {
        8.0 / 3.0 * (n as f64).powi(3) * real_operations(element)
    }

    /// The same of a triangular operation, n^2 for each column, and of the QR factorisation of a matrix with n rows, twice if Q is formed.
    /// None for singular values.
    fn flops_with_columns(&self) -> Option<f64> {
        let (m, n) = (self.n as f64, self.columns as f64);
        let factor = 2.0 * n * n * (m - n / 3.0);
        // Behind the routine may be its products.
        let flops = match self.routine.split(' ').next().unwrap_or_default() {
            "trsm" | "trmm" => m * m * n,
            "geqrf" | "gels" => factor,
            "qr" => 2.0 * factor,
            _ => return None,
        };
        Some(flops * real_operations(&self.element))
    }
}

fn real_operations(element: &str) -> f64 {
    if element.starts_with('c') { 4.0 } else { 1.0 }
}

/// Rows are printed and written as they come.
pub struct Table {
    csv: Option<File>,
}

impl Table {
    pub fn new(csv: Option<&Path>) -> Result<Table, Box<dyn Error>> {
        let open = |path: &Path| {
            let mut file = File::create(path)?;
            writeln!(file, "{}", line(COLUMNS))?;
            Ok(file)
        };
        let open = |path: &Path| open(path).map_err(|error: std::io::Error| format!("{}: {error}", path.display()));
        Ok(Table { csv: csv.map(open).transpose()? })
    }

    pub fn title(&self, element: &str) {
        println!(
            "\n{element}\n{:>6} {:>4} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>9} {:>9}",
            "n",
            "runs",
            "first",
            "total",
            "resident",
            "0 scale",
            "upload",
            "1 to_band",
            "2 to_bidi",
            "3 svdvals",
            "GF/s",
            "error"
        );
    }

    pub fn title_with_columns(&self, element: &str) {
        println!(
            "\n{element}\n{:>6} {:>7} {:>11} {:>4} {:>10} {:>10} {:>10} {:>10} {:>9} {:>9}",
            "n", "columns", "routine", "runs", "first", "total", "resident", "upload", "GF/s", "error"
        );
    }

    pub fn push(&mut self, row: Row) -> Result<(), Box<dyn Error>> {
        if row.note.is_empty() {
            print!("{:>6}", row.n);
            let (flops, stages) = if let Some(flops) = row.flops_with_columns() {
                print!(" {:>7} {:>11}", row.columns, row.routine);
                (flops, vec![row.upload_s])
            } else {
                let stages = vec![row.scale_s, row.upload_s, row.to_band_s, row.band_to_bidiag_s, row.svdvals_s];
                (Row::flops(&row.element, row.n), stages)
            };
            print!(" {:>4}", row.runs);
            for seconds in [row.first_s, row.total_s, row.resident_s].iter().chain(&stages) {
                print!(" {:>10}", seconds.map_or("-".into(), |seconds| format!("{seconds:.6}")));
            }
            let rate = row.resident_s.map_or(0.0, |seconds| flops / seconds / 1e9);
            println!(" {rate:>9.1} {:>9.1e}", row.error.unwrap_or(f64::NAN));
        } else {
            println!("{:>6} {}", row.n, row.note);
        }
        if let Some(csv) = &mut self.csv {
            writeln!(csv, "{}", line(row.fields()))?;
        }
        Ok(())
    }

    pub fn finish(self, of: Of) -> Result<(), Box<dyn Error>> {
        let alone = "the operation alone, operands and result on the device";
        let (resident, flops) = match of {
            Of::Triangles => (alone, "n^2 columns"),
            Of::Factors => (alone, "2 columns^2 (n - columns / 3), twice that with Q,"),
            _ => ("total - scale - upload", "8/3 n^3"),
        };
        println!("\nresident: {resident}; GF/s: {flops} flops (four times as many in complex types) in the resident time");
        Ok(())
    }
}
