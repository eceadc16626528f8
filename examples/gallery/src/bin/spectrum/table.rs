//! The table on the terminal.

use svdvals_gpu_gallery::{chart::four_digits, files::source::Source};

use crate::{
    Row,
    shared::markdown::{self, cell, print},
    statistics::PARTS,
};

const EXPLANATION: &str = "\
seconds: of the whole call, the first one of a GPU with its shaders' compilation; stable rank: ||A||_F^2 / sigma_max^2;
effective rank: exp of the entropy of p_i = sigma_i / sum sigma_j (Roy and Vetterli 2007); energy ranks: how many of the largest
values hold that part of ||A||_F^2.";

const ROUNDING: &str = "\
~, >: the smallest value is below the rounding error, eps sigma_max; the matrix may have any smaller one there, or zero.";

pub struct Table {
    table: markdown::Table,
    rounding: bool,
}

impl Table {
    pub fn start(sources: &[Source], names: &[String]) -> Table {
        let widest = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0);
        let name = widest(&mut names.iter().map(|name| name.chars().count()));
        let shape = widest(&mut sources.iter().map(|source| shape(source).len()));
        let element = widest(&mut sources.iter().map(|source| source.element().len()));
        let mut headings = vec![format!("{:name$}", "matrix"), format!("{:shape$}", "shape"), format!("{:element$}", "type")];
        headings.extend(
            ["backend", "seconds", "sigma_max ", "sigma_min ", "condition", "stable rank", "effective rank"].map(String::from),
        );
        headings.extend(PARTS.map(|part| format!("{}%", 100.0 * part)));
        Table { table: markdown::Table::start(&headings), rounding: false }
    }

    pub fn row(&mut self, row: &Row) {
        self.rounding |= row.is_rounding();
        self.table.row(&cells(row));
    }

    pub fn finish(&self, adapter: Option<&str>) {
        print(format!("\n{EXPLANATION}"));
        if self.rounding {
            print(ROUNDING);
        }
        if let Some(adapter) = adapter {
            print(format!("gpu: {adapter}"));
        }
    }
}

fn shape(source: &Source) -> String {
    format!("{} x {}", source.shape.0, source.shape.1)
}

fn cells(row: &Row) -> Vec<String> {
    let s = &row.statistics;
    let (about, beyond) = if row.is_rounding() { ("~", ">") } else { ("", "") };
    let condition = if row.is_rounding() { s.condition.map(|_| 1.0 / row.solved.eps) } else { s.condition };
    let mut cells = vec![
        row.name.clone(),
        shape(&row.source),
        row.source.element().to_owned(),
        row.solved.backend.to_owned(),
        format!("{:.4}", row.solved.seconds),
        four_digits(s.largest),
        format!("{about}{}", four_digits(s.smallest)),
        cell(condition, |condition| format!("{beyond}{}", four_digits(condition))),
        cell(s.stable_rank, |rank| format!("{rank:.2}")),
        cell(s.effective_rank, |rank| format!("{rank:.1}")),
    ];
    cells.extend(s.energy_ranks.map(|rank| rank.to_string()));
    cells
}
