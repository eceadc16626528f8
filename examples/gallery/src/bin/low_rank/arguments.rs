//! The command line.

use std::path::{Path, PathBuf};

use svdvals_gpu::Backend;

use crate::shared::arguments::{Words, number, unknown};

pub const USAGE: &str = "\
usage: low_rank [OPTIONS] FILE

  FILE              .npy, .png (as grey), or .safetensors; what it is, its contents say
  --tensor NAME     the tensor of a .safetensors file: its name, or a part of it that no other 2-D tensor has (the largest 2-D one)
  --rank K,K,...    the ranks to compare (8,32,128, as far as the matrix has them)
  --error E         and the smallest rank whose relative error is at most E, from 0 to 1
  --backend B       auto (a hardware GPU for large matrices), cpu, or gpu (a software driver too) (auto)
  --draw WHAT       images of the matrix at each rank, or curves of the singular values and the error (curves for tensors, else images)
  --out FILE        .png: where the picture goes (target/low_rank/low_rank.png);
                    .safetensors: write the factors U, S and Vt of the largest rank there;
                    .npy: the same as FILE's name with .U.npy, .S.npy and .Vt.npy. May be given more than once.
  --                what follows is a file

The error of rank k is ||A - U_k S_k V_k^H||_F / ||A||_F, as measured and as the dropped singular values predict it. The exit code is 1 where
the two disagree.";

/// What is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Draw {
    Images,
    Curves,
}

/// Which matrix, which ranks, and what to write.
#[derive(Debug)]
pub struct Arguments {
    pub backend: Backend,
    pub tensor: Option<String>,
    /// Ascending. None: [`RANKS`], as far as there are so many.
    pub ranks: Option<Vec<usize>>,
    pub error: Option<f64>,
    pub draw: Option<Draw>,
    pub picture: PathBuf,
    pub factors: Vec<PathBuf>,
    pub file: PathBuf,
}

pub const RANKS: [usize; 3] = [8, 32, 128];

impl Arguments {
    /// The arguments, or what is wrong with them.
    pub fn parse(words: &mut Words) -> Result<Arguments, String> {
        let mut files = Vec::new();
        let mut arguments = Arguments {
            backend: Backend::Auto,
            tensor: None,
            ranks: None,
            error: None,
            draw: None,
            picture: PathBuf::from("target/low_rank/low_rank.png"),
            factors: Vec::new(),
            file: PathBuf::new(),
        };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--tensor" => arguments.tensor = Some(words.value(&word)?),
                "--rank" => arguments.ranks = Some(words.numbers(&word, 1..=1_000_000_000)?),
                "--error" => arguments.error = Some(number(&word, &words.value(&word)?, 0.0..=1.0)?),
                "--backend" => {
                    arguments.backend = match words.name(&word, &["auto", "cpu", "gpu"])? {
                        "auto" => Backend::Auto,
                        "cpu" => Backend::Cpu,
                        _ => Backend::Gpu,
                    };
                }
                "--draw" => {
                    arguments.draw = Some(match words.name(&word, &["images", "curves"])? {
                        "images" => Draw::Images,
                        _ => Draw::Curves,
                    });
                }
                "--out" => arguments.out(words.value(&word)?.into())?,
                "--" => files.extend(words.by_ref()),
                option if option.starts_with('-') => return Err(unknown(option)),
                file => files.push(file.to_owned()),
            }
        }
        match files.as_slice() {
            [file] => arguments.file = file.into(),
            [] => return Err("which file? --help shows the usage".into()),
            [_, second, ..] => return Err(format!("one file at a time, so what is {second:?}?")),
        }
        Ok(arguments)
    }

    fn out(&mut self, path: PathBuf) -> Result<(), String> {
        match suffix(&path) {
            "png" => self.picture = path,
            "safetensors" | "npy" => self.factors.push(path),
            _ => return Err(format!("--out is a .png, .safetensors or .npy file, not {:?}", path.display())),
        }
        Ok(())
    }
}

/// The suffix, empty where there is none.
pub fn suffix(path: &Path) -> &str {
    path.extension().and_then(|suffix| suffix.to_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, String> {
        Arguments::parse(&mut Words::of(line.split_whitespace().map(String::from)))
    }

    /// Every option reaches its field, ranks ascend, and an output is what its suffix says.
    #[test]
    fn options() {
        let line = "--tensor q --rank 32,8,8 --error 0.1 --backend cpu --draw curves --out a.png --out f.safetensors --out f.npy -- -x.npy";
        let arguments = parse(line).unwrap();
        assert_eq!((arguments.tensor.as_deref(), arguments.ranks.as_deref()), (Some("q"), Some(&[8, 32][..])));
        assert_eq!((arguments.error, arguments.backend, arguments.draw), (Some(0.1), Backend::Cpu, Some(Draw::Curves)));
        assert_eq!((arguments.picture, arguments.file), ("a.png".into(), "-x.npy".into()));
        assert_eq!(arguments.factors, ["f.safetensors", "f.npy"].map(PathBuf::from));
    }

    /// What is wrong is said, with the word that is.
    #[test]
    fn mistakes() {
        for (line, named) in [
            ("", "which file"),
            ("a.npy b.npy", "\"b.npy\""),
            ("a --rank 0", "\"0\""),
            ("a --rank 8,x", "\"x\""),
            ("a --error 2", "\"2\""),
            ("a --error nan", "\"nan\""),
            ("a --out factors.npz", "factors.npz"),
            ("a --draw map", "\"map\""),
            ("a --tensor", "--tensor"),
            ("a --ranks 3", "--ranks"),
        ] {
            let message = parse(line).unwrap_err();
            assert!(message.contains(named), "{line}: {message}");
        }
    }
}
