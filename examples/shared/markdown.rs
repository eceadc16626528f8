//! Tables in Markdown, row by row, with columns that line up in a terminal too.

use std::{
    fmt::Display,
    io::{Write, stdout},
};

/// Prints a line. That nobody reads on (`| head`) is no reason to stop.
pub fn print(line: impl Display) {
    if cfg!(test) {
        println!("{line}"); // which tests capture
    } else {
        writeln!(stdout(), "{line}").ok();
    }
}

/// A table whose columns are as wide as its headings, or as asked.
pub struct Table {
    widths: Vec<usize>,
}

impl Table {
    /// Prints the head. Headings may be padded to make room.
    pub fn start(headings: &[String]) -> Table {
        let widths: Vec<usize> = headings.iter().map(|heading| heading.chars().count().max(4)).collect();
        let table = Table { widths };
        print("");
        table.row(headings);
        print(format!("|{}", table.widths.iter().map(|width| format!(" {} |", "-".repeat(*width))).collect::<String>()));
        table
    }

    pub fn row(&self, cells: &[String]) {
        let cells = self.widths.iter().zip(cells).map(|(&width, cell)| format!(" {cell:<width$} |"));
        print(format!("|{}", cells.collect::<String>()));
    }
}

/// An error or a ratio, or nothing.
pub fn cell(value: Option<f64>, format: impl Fn(f64) -> String) -> String {
    value.map_or_else(String::new, format)
}
