//! The command line of a benchmark: names of its parts, then the largest and the smallest size.

use std::{env, ops::RangeInclusive};

pub struct Arguments {
    names: Vec<String>,
    sizes: RangeInclusive<usize>,
}

impl Arguments {
    /// The arguments of this program; sizes up to `largest` if there are no numbers.
    pub fn read(largest: usize) -> Self {
        // cargo passes `--bench`.
        let arguments = env::args().skip(1).filter(|argument| !argument.starts_with('-'));
        let (numbers, names): (Vec<_>, Vec<_>) = arguments.partition(|argument| argument.parse::<usize>().is_ok());
        let mut numbers = numbers.iter().filter_map(|number| number.parse().ok());
        let largest = numbers.next().unwrap_or(largest);
        Arguments { names, sizes: numbers.next().unwrap_or(0)..=largest }
    }

    /// Whether this part is named.
    pub fn named(&self, name: &str) -> bool {
        self.names.iter().any(|other| other == name)
    }

    /// Whether this part is named, or none is.
    pub fn wanted(&self, name: &str) -> bool {
        self.names.is_empty() || self.named(name)
    }

    /// Those of the sizes that are in range.
    pub fn sizes(&self, sizes: &[usize]) -> Vec<usize> {
        sizes.iter().copied().filter(|n| self.sizes.contains(n)).collect()
    }
}
