//! The command line.

use std::path::PathBuf;

use svdvals_gpu::Backend;

use crate::shared::arguments::{Words, unknown};

pub const USAGE: &str = "\
usage: pca [OPTIONS] [FILE]

  FILE              .npy: an observation a row, a variable a column (examples/data/digits.npy, with its labels)
  --labels FILE     .npy: a whole number for each observation, by which the points are coloured
  --components K    how many principal components (10, as far as there are so many; at least 2)
  --image H,W       draw the mean and the components as images of H x W variables (the digits: 8,8)
  --backend B       auto (a hardware GPU for large matrices), cpu, or gpu (a software driver too) (auto)
  --out FILE        where the picture goes (target/pca/pca.png)
  --csv FILE        write the scores: a line for each observation, its label and its coordinates";

/// What to analyse, and what to write.
#[derive(Debug)]
pub struct Arguments {
    pub file: PathBuf,
    pub labels: Option<PathBuf>,
    pub components: usize,
    pub image: Option<(usize, usize)>,
    pub backend: Backend,
    pub out: PathBuf,
    pub csv: Option<PathBuf>,
}

impl Arguments {
    /// The arguments, or what is wrong with them.
    pub fn parse(words: &mut Words) -> Result<Arguments, String> {
        let mut file = None;
        let mut arguments = Arguments {
            file: PathBuf::from("examples/data/digits.npy"),
            labels: None,
            components: 10,
            image: None,
            backend: Backend::Auto,
            out: PathBuf::from("target/pca/pca.png"),
            csv: None,
        };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--labels" => arguments.labels = Some(words.value(&word)?.into()),
                "--components" => arguments.components = words.number(&word, 2..=1_000_000)?,
                "--image" => arguments.image = Some(image(&words.value(&word)?)?),
                "--backend" => {
                    arguments.backend = match words.name(&word, &["auto", "cpu", "gpu"])? {
                        "auto" => Backend::Auto,
                        "cpu" => Backend::Cpu,
                        _ => Backend::Gpu,
                    };
                }
                "--out" => arguments.out = words.value(&word)?.into(),
                "--csv" => arguments.csv = Some(words.value(&word)?.into()),
                option if option.starts_with('-') => return Err(unknown(option)),
                second if file.is_some() => return Err(format!("one file at a time, so what is {second:?}?")),
                first => file = Some(PathBuf::from(first)),
            }
        }
        match file {
            Some(file) => arguments.file = file,
            None => {
                arguments.labels = arguments.labels.or(Some("examples/data/digits.labels.npy".into()));
                arguments.image = arguments.image.or(Some((8, 8)));
            }
        }
        Ok(arguments)
    }
}

fn image(word: &str) -> Result<(usize, usize), String> {
    let sides: Vec<usize> = word.split(',').filter_map(|side| side.parse().ok().filter(|&side| side > 0)).collect();
    match sides.as_slice() {
        &[height, width] if word.split(',').count() == 2 => Ok((height, width)),
        _ => Err(format!("--image is a height and a width, as 8,8, not {word:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, String> {
        Arguments::parse(&mut Words::of(line.split_whitespace().map(String::from)))
    }

    /// Labels and shape of the digits belong to the digits alone.
    #[test]
    fn the_digits_and_others() {
        let digits = parse("").unwrap();
        assert_eq!((digits.labels, digits.image), (Some("examples/data/digits.labels.npy".into()), Some((8, 8))));
        let other = parse("a.npy --components 3 --backend cpu --csv c.csv --out o.png").unwrap();
        assert_eq!((other.file, other.labels, other.image), ("a.npy".into(), None, None));
        assert_eq!((other.components, other.backend), (3, Backend::Cpu));
        assert_eq!((other.csv, other.out), (Some("c.csv".into()), "o.png".into()));
    }

    /// What is wrong is said, with the word that is.
    #[test]
    fn mistakes() {
        for (line, named) in [
            ("a b", "\"b\""),
            ("--components 1", "\"1\""),
            ("--image 8", "\"8\""),
            ("--image 8,x", "\"8,x\""),
            ("--image 8,8,8", "\"8,8,8\""),
            ("--image 0,8", "\"0,8\""),
            ("--labels", "--labels"),
            ("--scores x", "--scores"),
        ] {
            let message = parse(line).unwrap_err();
            assert!(message.contains(named), "{line}: {message}");
        }
    }
}
