//! The command line.

use std::path::{Path, PathBuf};

use crate::shared::arguments::{Words, unknown};

pub const USAGE: &str = "\
usage: fit [OPTIONS] [FILE]

  FILE              .csv with the columns x, y and a heading: a polynomial; .npy or .png: a plane
                    (both: examples/data/filip.csv, and the sky of examples/data/camera.npy)
  --degree D        of the polynomial (10)
  --window T,L,H,W  top, left, height and width of the part of the image (0,0,100,160)
  --out FILE        where the picture goes (target/fit/polynomial.png, target/fit/plane.png)";

#[derive(Debug)]
pub enum Task {
    Polynomial {
        file: PathBuf,
        degree: usize,
        out: PathBuf,
    },
    /// The window is top, left, height, width.
    Plane {
        file: PathBuf,
        window: [usize; 4],
        out: PathBuf,
    },
}

impl Task {
    pub fn out(&self) -> &Path {
        match self {
            Task::Polynomial { out, .. } | Task::Plane { out, .. } => out,
        }
    }
}

/// What to fit.
#[derive(Debug)]
pub struct Arguments {
    pub tasks: Vec<Task>,
}

impl Arguments {
    /// The arguments, or what is wrong with them.
    pub fn parse(words: &mut Words) -> Result<Arguments, String> {
        let (mut file, mut out) = (None, None);
        let (mut degree, mut window) = (10, [0, 0, 100, 160]);
        while let Some(word) = words.next() {
            match word.as_str() {
                "--degree" => degree = words.number(&word, 0..=30)?,
                "--window" => window = four(&words.value(&word)?)?,
                "--out" => out = Some(PathBuf::from(words.value(&word)?)),
                option if option.starts_with('-') => return Err(unknown(option)),
                second if file.is_some() => return Err(format!("one file at a time, so what is {second:?}?")),
                first => file = Some(PathBuf::from(first)),
            }
        }
        let polynomial = |file: PathBuf, out: Option<PathBuf>| Task::Polynomial {
            file,
            degree,
            out: out.unwrap_or("target/fit/polynomial.png".into()),
        };
        let plane =
            |file: PathBuf, out: Option<PathBuf>| Task::Plane { file, window, out: out.unwrap_or("target/fit/plane.png".into()) };
        let tasks = match file {
            None if out.is_some() => return Err("--out is one file, but there are two pictures: name a FILE".into()),
            None => vec![polynomial("examples/data/filip.csv".into(), None), plane("examples/data/camera.npy".into(), None)],
            Some(file) if file.extension().is_some_and(|extension| extension == "csv") => vec![polynomial(file, out)],
            Some(file) => vec![plane(file, out)],
        };
        Ok(Arguments { tasks })
    }
}

fn four(word: &str) -> Result<[usize; 4], String> {
    let numbers: Result<Vec<usize>, _> = word.split(',').map(str::parse).collect();
    let bad = || format!("--window is top, left, height and width, as 0,0,100,160, not {word:?}");
    numbers.ok().and_then(|numbers| numbers.try_into().ok()).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, String> {
        Arguments::parse(&mut Words::of(line.split_whitespace().map(String::from)))
    }

    #[test]
    fn tasks_by_file() {
        assert_eq!(parse("").unwrap().tasks.len(), 2);
        let tasks = parse("a.csv --degree 3 --out b.png").unwrap().tasks;
        assert!(matches!(&tasks[..], [Task::Polynomial { degree: 3, .. }]) && tasks[0].out() == Path::new("b.png"));
        assert!(matches!(parse("a.png --window 1,2,3,4").unwrap().tasks[..], [Task::Plane { window: [1, 2, 3, 4], .. }]));
    }

    /// What is wrong is said, with the word that is.
    #[test]
    fn mistakes() {
        for (line, named) in [
            ("a b", "\"b\""),
            ("--degree 31", "\"31\""),
            ("--window 1,2,3", "\"1,2,3\""),
            ("--slope", "--slope"),
            ("--out o", "--out"),
        ] {
            let message = parse(line).unwrap_err();
            assert!(message.contains(named), "{line}: {message}");
        }
    }
}
