//! The command line.

use std::path::PathBuf;

use svdvals_gpu::{Backend, HalfStorage, SvdOptions};

use crate::shared::arguments::{Words, unknown};

pub const USAGE: &str = "\
usage: spectrum [OPTIONS] FILE ...

  FILE ...             .npy (f2 f4 f8 c8 c16, bfloat16, integers, b1; either byte order, C or Fortran order),
                       .safetensors (every 2-D tensor, of F16 BF16 F32 F64 C64), .png (as grey); what a file is, its contents say
  --backend B          auto (a hardware GPU for large matrices), cpu, or gpu (a software driver too) (auto)
  --half-storage S     what f16 and bf16 matrices are held in: single (f32) or half (f16) (single)
  --match PATTERN      only tensors whose name contains PATTERN, in which * stands for anything
  --top N              print the N largest values of each matrix too, and write only these to CSV and JSON
  --out FILE           where the picture goes (target/spectrum/spectrum.png)
  --csv FILE           write the table, and beside it FILE's name with .values.csv: every singular value
  --json FILE          write both, as JSON
  --                   what follows are files

The exit code is 1 where a file or tensor could not be used: the others' results are there all the same.";

/// Which matrices, how, and what to write.
#[derive(Debug)]
pub struct Arguments {
    pub options: SvdOptions,
    pub pattern: Option<String>,
    pub top: Option<usize>,
    pub out: PathBuf,
    pub csv: Option<PathBuf>,
    pub json: Option<PathBuf>,
    pub files: Vec<PathBuf>,
}

impl Arguments {
    /// The arguments, or what is wrong with them.
    pub fn parse(words: &mut Words) -> Result<Arguments, String> {
        let mut arguments = Arguments {
            options: SvdOptions::default(),
            pattern: None,
            top: None,
            out: PathBuf::from("target/spectrum/spectrum.png"),
            csv: None,
            json: None,
            files: Vec::new(),
        };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--backend" => {
                    arguments.options.run.backend = match words.name(&word, &["auto", "cpu", "gpu"])? {
                        "auto" => Backend::Auto,
                        "cpu" => Backend::Cpu,
                        _ => Backend::Gpu,
                    };
                }
                "--half-storage" => {
                    arguments.options.run.half_storage = match words.name(&word, &["single", "half"])? {
                        "single" => HalfStorage::Single,
                        _ => HalfStorage::Half,
                    };
                }
                "--match" => arguments.pattern = Some(words.value(&word)?),
                "--top" => arguments.top = Some(words.number(&word, 1..=1_000_000_000)?),
                "--out" => arguments.out = PathBuf::from(words.value(&word)?),
                "--csv" => arguments.csv = Some(PathBuf::from(words.value(&word)?)),
                "--json" => arguments.json = Some(PathBuf::from(words.value(&word)?)),
                "--" => arguments.files.extend(words.by_ref().map(PathBuf::from)),
                option if option.starts_with('-') => return Err(unknown(option)),
                file => arguments.files.push(PathBuf::from(file)),
            }
        }
        if arguments.files.is_empty() {
            return Err("which files? --help shows the usage".into());
        }
        Ok(arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, String> {
        Arguments::parse(&mut Words::of(line.split_whitespace().map(String::from)))
    }

    /// Every option reaches its field, in any order, and files may stand between.
    #[test]
    fn options_and_files() {
        let line = "a.npy --backend cpu --half-storage half b.png --match q*k --top 3 --out o.png --csv c --json j -- --top";
        let arguments = parse(line).unwrap();
        assert_eq!((arguments.options.run.backend, arguments.options.run.half_storage), (Backend::Cpu, HalfStorage::Half));
        assert_eq!((arguments.pattern.as_deref(), arguments.top), (Some("q*k"), Some(3)));
        assert_eq!((arguments.out, arguments.csv, arguments.json), ("o.png".into(), Some("c".into()), Some("j".into())));
        assert_eq!(arguments.files, ["a.npy", "b.png", "--top"].map(PathBuf::from));
    }

    /// What is wrong is said, with the word that is.
    #[test]
    fn mistakes() {
        for (line, named) in [
            ("", "files"),
            ("--top 0 a", "\"0\""),
            ("--top -1 a", "\"-1\""),
            ("--backend tpu a", "\"tpu\""),
            ("--half-storage double a", "\"double\""),
            ("a --csv", "--csv"),
            ("--figure a", "--figure"),
        ] {
            let message = parse(line).unwrap_err();
            assert!(message.contains(named), "{line}: {message}");
        }
    }
}
