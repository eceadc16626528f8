//! The command line.

use std::path::PathBuf;

use crate::shared::arguments::{Words, unknown};

pub const USAGE: &str = "\
usage: rows [OPTIONS] [FILE]

  FILE               .npy, f4 or f8 in C order: an observation a row. Without one, a file of least squares is written to target/rows
  --right-sides P    the last P columns are right-hand sides of least squares (0: principal components)
  --block ROWS       rows of a block (4 million entries)
  --map              map the file into memory, in place of reading it; it must not change meanwhile
  --no-mean          do not subtract the mean
  --make M,N         without FILE: M rows of N columns and a right-hand side (1000000,20)";

/// What to read, and how.
#[derive(Debug)]
pub struct Arguments {
    pub file: Option<PathBuf>,
    pub right_sides: usize,
    pub block: Option<usize>,
    pub mapped: bool,
    pub centred: bool,
    pub make: (usize, usize),
}

impl Arguments {
    /// The arguments, or what is wrong with them.
    pub fn parse(words: &mut Words) -> Result<Arguments, String> {
        let mut arguments =
            Arguments { file: None, right_sides: 0, block: None, mapped: false, centred: true, make: (1_000_000, 20) };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--right-sides" => arguments.right_sides = words.number(&word, 0..=1_000_000)?,
                "--block" => arguments.block = Some(words.number(&word, 1..=1_000_000_000)?),
                "--map" => arguments.mapped = true,
                "--no-mean" => arguments.centred = false,
                "--make" => {
                    let value = words.value(&word)?;
                    let sides = value.split_once(',').and_then(|(m, n)| Some((m.parse().ok()?, n.parse().ok()?)));
                    arguments.make = sides.ok_or_else(|| format!("--make is M,N, not {value:?}"))?;
                }
                _ if word.starts_with('-') || arguments.file.is_some() => return Err(unknown(&word)),
                _ => arguments.file = Some(word.into()),
            }
        }
        Ok(arguments)
    }
}
