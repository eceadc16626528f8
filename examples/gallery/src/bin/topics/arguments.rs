//! The command line.

use std::path::PathBuf;

use crate::shared::arguments::{Words, unknown};

pub const USAGE: &str = "\
usage: topics [OPTIONS] [FILE]

  FILE              .mtx (Matrix Market, coordinate): a document a row, a word a column, counts (without: documents that are made by a formula)
  --words FILE      the words of the columns, one a line
  --topics K        how many topics (6)
  --write FILE      write the counts as a Matrix Market file
  --out FILE        where the picture goes (target/topics/topics.png)";

/// What to analyse, and what to write.
#[derive(Debug)]
pub struct Arguments {
    pub file: Option<PathBuf>,
    pub words: Option<PathBuf>,
    pub topics: usize,
    pub write: Option<PathBuf>,
    pub out: PathBuf,
}

impl Arguments {
    /// The arguments, or what is wrong with them.
    pub fn parse(words: &mut Words) -> Result<Arguments, String> {
        let out = PathBuf::from("target/topics/topics.png");
        let mut arguments = Arguments { file: None, words: None, topics: 6, write: None, out };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--words" => arguments.words = Some(words.value(&word)?.into()),
                "--topics" => arguments.topics = words.number(&word, 1..=1000)?,
                "--write" => arguments.write = Some(words.value(&word)?.into()),
                "--out" => arguments.out = words.value(&word)?.into(),
                option if option.starts_with('-') => return Err(unknown(option)),
                second if arguments.file.is_some() => return Err(format!("one file at a time, so what is {second:?}?")),
                first => arguments.file = Some(PathBuf::from(first)),
            }
        }
        Ok(arguments)
    }
}
