//! How many of the singular values a call wants.

use crate::base::{error::Result, number::RealElement};

#[cfg(test)]
mod tests;

/// At most the `count` largest values, and of those the ones of at least `tolerance` times the largest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Leading {
    pub count: usize,
    pub tolerance: f64,
}

impl Leading {
    /// All values.
    pub const ALL: Leading = Leading { count: usize::MAX, tolerance: 0.0 };

    /// The number of wanted values, of values in descending order: all of a matrix, or as many of the largest as are wanted.
    pub fn of<R: RealElement>(&self, values: &[R]) -> usize {
        let Some(largest) = values.first() else { return 0 };
        let least = self.tolerance * largest.to_double();
        values.partition_point(|value| value.to_double() >= least).min(self.count)
    }

    /// The number of values to compute of `n` if the tolerance is left aside. An empty result too takes the largest value, which says whether
    /// values overflow.
    pub fn most(&self, n: usize) -> usize {
        self.count.clamp(1, n.max(1)).min(n)
    }

    /// The wanted ones of `n` values. `find` gives the largest ones in descending order, as they are to be returned, and estimates how many are of at
    /// least a tolerance before it has rounded them. If the last one that it gave is of at least the tolerance, the others are computed too.
    pub fn select(&self, n: usize, find: &dyn Fn(Leading) -> Result<Vec<f64>>) -> Result<Vec<f64>> {
        let mut values = find(*self)?;
        if values.len() < self.most(n) && self.of(&values) == values.len() {
            values = find(Leading { tolerance: 0.0, ..*self })?;
        }
        values.truncate(self.of(&values));
        Ok(values)
    }
}
