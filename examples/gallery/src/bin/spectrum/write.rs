//! The results as CSV and as JSON.

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use serde_json::json;
use svdvals_gpu_gallery::draw::make_folder;

use crate::{Row, shared::csv::field, statistics::energies};

/// The table, a line for each matrix (RFC 4180); beside it, as NAME.values.csv, a line for each value.
pub fn csv(path: &Path, rows: &[Row], top: Option<usize>) -> Result<(), String> {
    write(path, |file| {
        writeln!(
            file,
            "file,tensor,rows,columns,type,held_in,backend,adapter,seconds,sigma_max,sigma_min,condition,stable_rank,effective_rank,\
             rank_90,rank_99,rank_99.9,values_above_rounding"
        )?;
        for row in rows {
            let (s, source) = (&row.statistics, &row.source);
            let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
            let [r90, r99, r999] = s.energy_ranks;
            writeln!(
                file,
                "{},{},{},{},{},{},{},{},{:.6},{:e},{:e},{},{},{},{r90},{r99},{r999},{}",
                field(&source.file.to_string_lossy()),
                field(source.tensor.as_deref().unwrap_or_default()),
                source.shape.0,
                source.shape.1,
                source.element(),
                row.solved.held_in,
                row.solved.backend,
                field(row.solved.adapter.as_deref().unwrap_or_default()),
                row.solved.seconds,
                s.largest,
                s.smallest,
                number(s.condition),
                number(s.stable_rank),
                number(s.effective_rank),
                s.resolved
            )?;
        }
        Ok(())
    })?;
    write(&values_path(path), |file| {
        writeln!(file, "file,tensor,index,sigma,energy_held")?;
        for row in rows {
            let file_name = field(&row.source.file.to_string_lossy());
            let tensor = field(row.source.tensor.as_deref().unwrap_or_default());
            let values = row.solved.values.iter().zip(energies(&row.solved.values)).enumerate();
            for (k, (sigma, held)) in values.take(top.unwrap_or(usize::MAX)) {
                writeln!(file, "{file_name},{tensor},{},{sigma:e},{held}", k + 1)?;
            }
        }
        Ok(())
    })
}

pub fn values_path(path: &Path) -> PathBuf {
    path.with_extension("values.csv")
}

/// One object: the matrices with their values, one a line, and the complaints. What is not defined, or infinite, is null.
pub fn json(path: &Path, rows: &[Row], complaints: &[String], top: Option<usize>) -> Result<(), String> {
    write(path, |file| {
        write!(file, "{{\"matrices\": [")?;
        for (k, row) in rows.iter().enumerate() {
            let (s, source, solved) = (&row.statistics, &row.source, &row.solved);
            let [r90, r99, r999] = s.energy_ranks;
            let values = &solved.values[..top.unwrap_or(usize::MAX).min(solved.values.len())];
            let matrix = json!({
                "file": source.file.to_string_lossy(),
                "tensor": source.tensor,
                "rows": source.shape.0,
                "columns": source.shape.1,
                "type": source.element(),
                "held_in": solved.held_in,
                "backend": solved.backend,
                "backend_reason": solved.reason,
                "adapter": solved.adapter,
                "seconds": solved.seconds,
                "sigma_max": s.largest,
                "sigma_min": s.smallest,
                "condition": s.condition,
                "stable_rank": s.stable_rank,
                "effective_rank": s.effective_rank,
                "rank_90": r90,
                "rank_99": r99,
                "rank_99.9": r999,
                "values_above_rounding": s.resolved,
                "singular_values": values,
            });
            write!(file, "{}\n{matrix}", if k > 0 { "," } else { "" })?;
        }
        writeln!(file, "\n], \"complaints\": {}}}", json!(complaints))
    })
}

/// Makes the file, and the folders it is in.
fn write(path: &Path, body: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>) -> Result<(), String> {
    let all = || {
        make_folder(path)?;
        let mut file = BufWriter::new(File::create(path)?);
        body(&mut file)?;
        file.flush()
    };
    all().map_err(|error| format!("{}: {error}", path.display()))
}
