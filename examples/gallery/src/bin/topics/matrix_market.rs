//! Matrix Market files in coordinate format: <https://math.nist.gov/MatrixMarket/formats.html>.

use std::fmt::Write;

/// A sparse matrix by its entries.
#[derive(Clone, Debug, PartialEq)]
pub struct Entries {
    pub rows: usize,
    pub cols: usize,
    pub entries: Vec<(usize, usize, f64)>,
}

/// The matrix of a file: real, integer or pattern (ones), general or symmetric.
pub fn read(text: &str) -> Result<Entries, String> {
    let mut lines = text.lines().enumerate().map(|(number, line)| (number + 1, line));
    let (_, header) = lines.next().ok_or("no lines")?;
    let words: Vec<String> = header.split_whitespace().map(str::to_lowercase).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (pattern, symmetric) = match words[..] {
        ["%%matrixmarket", "matrix", "coordinate", "real" | "integer", shape] => (false, shape),
        ["%%matrixmarket", "matrix", "coordinate", "pattern", shape] => (true, shape),
        _ => return Err(format!("line 1: {header:?} is not %%MatrixMarket matrix coordinate, with real, integer or pattern")),
    };
    let symmetric = match symmetric {
        "general" => false,
        "symmetric" => true,
        other => return Err(format!("line 1: {other:?} is neither general nor symmetric")),
    };
    let mut lines = lines.filter(|(_, line)| !line.starts_with('%') && !line.trim().is_empty());
    let (number, sizes) = lines.next().ok_or("no line with the sizes")?;
    let sizes: Vec<usize> = sizes.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let &[rows, cols, count] = &sizes[..] else {
        return Err(format!("line {number}: rows, columns and entries are three numbers"));
    };
    let mut entries = Vec::new();
    for (number, line) in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        let wrong = || format!("line {number}: {line:?} is no entry of a {rows} x {cols} matrix");
        let (place, value) = match (&words[..], pattern) {
            (&[i, j], true) => ([i, j], Some(1.0)),
            (&[i, j, value], false) => ([i, j], value.parse().ok()),
            _ => return Err(wrong()),
        };
        let [i, j] = place.map(|word| word.parse::<usize>().ok().and_then(|index| index.checked_sub(1)));
        let (Some(i), Some(j), Some(value)) = (i.filter(|&i| i < rows), j.filter(|&j| j < cols), value) else {
            return Err(wrong());
        };
        entries.push((i, j, value));
        if symmetric && i != j {
            entries.push((j, i, value));
        }
    }
    let found = entries.len();
    match if symmetric { found >= count } else { found == count } {
        true => Ok(Entries { rows, cols, entries }),
        false => Err(format!("{found} entries, but {count} are announced")),
    }
}

/// The text of a file.
pub fn text(matrix: &Entries) -> String {
    let mut text =
        format!("%%MatrixMarket matrix coordinate real general\n{} {} {}\n", matrix.rows, matrix.cols, matrix.entries.len());
    for (i, j, value) in &matrix.entries {
        let _ = writeln!(text, "{} {} {value}", i + 1, j + 1);
    }
    text
}
