//! Command lines.

use std::{
    error::Error,
    fmt::Display,
    ops::RangeInclusive,
    process::{ExitCode, Termination},
    str::FromStr,
};

use super::markdown::print;

/// Parses the command line and runs the program: exit status 2 and one line where the arguments are wrong, 1 and one line where it fails,
/// else what `run` returns.
pub fn program<A, T: Termination>(
    name: &str,
    usage: &str,
    parse: impl FnOnce(&mut Words) -> Result<A, String>,
    run: impl FnOnce(A) -> Result<T, Box<dyn Error>>,
) -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().take_while(|word| *word != "--").any(|word| word == "--help" || word == "-h") {
        print(usage);
        return ExitCode::SUCCESS;
    }
    match parse(&mut Words::of(words)) {
        Err(message) => {
            eprintln!("{name}: {message}");
            ExitCode::from(2)
        }
        Ok(arguments) => match run(arguments) {
            Ok(status) => status.report(),
            Err(error) => {
                eprintln!("{name}: {error}");
                ExitCode::FAILURE
            }
        },
    }
}

/// The words after the program's name.
pub struct Words(std::vec::IntoIter<String>);

impl Iterator for Words {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        self.0.next()
    }
}

impl Words {
    pub fn of(words: impl IntoIterator<Item = String>) -> Words {
        Words(words.into_iter().collect::<Vec<_>>().into_iter())
    }

    /// The word that follows `flag`.
    pub fn value(&mut self, flag: &str) -> Result<String, String> {
        self.next().ok_or_else(|| format!("{flag} needs a value"))
    }

    /// A number.
    pub fn number<N: FromStr + PartialOrd + Display>(&mut self, flag: &str, range: RangeInclusive<N>) -> Result<N, String> {
        number(flag, &self.value(flag)?, range)
    }

    /// Numbers with commas between, ascending, each once.
    pub fn numbers<N: FromStr + Ord + Display + Clone>(
        &mut self,
        flag: &str,
        range: RangeInclusive<N>,
    ) -> Result<Vec<N>, String> {
        let words = self.value(flag)?;
        let mut numbers: Vec<N> = words.split(',').map(|word| number(flag, word, range.clone())).collect::<Result<_, _>>()?;
        numbers.sort_unstable();
        numbers.dedup();
        Ok(numbers)
    }

    /// Some of `names`, with commas between.
    pub fn names(&mut self, flag: &str, names: &[&'static str]) -> Result<Vec<&'static str>, String> {
        let find = |word: &str| names.iter().copied().find(|name| *name == word);
        let unknown = |word| format!("{flag} is of {}, not {word:?}", names.join(", "));
        self.value(flag)?.split(',').map(|word| find(word).ok_or_else(|| unknown(word))).collect()
    }

    /// One of `names`.
    pub fn name(&mut self, flag: &str, names: &[&'static str]) -> Result<&'static str, String> {
        match self.names(flag, names)?.as_slice() {
            [name] => Ok(name),
            _ => Err(format!("{flag} is one of {}", names.join(", "))),
        }
    }
}

/// `word` as a number in `range`.
pub fn number<N: FromStr + PartialOrd + Display>(flag: &str, word: &str, range: RangeInclusive<N>) -> Result<N, String> {
    let number = word.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("{flag} is a number from {} to {}, not {word:?}", range.start(), range.end()))
}

/// What to say of a word that no flag has taken.
pub fn unknown(word: &str) -> String {
    format!("unknown argument {word:?}; --help shows the usage")
}
