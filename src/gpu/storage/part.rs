//! One of several matrices on the device, whose kept reflectors are applied as those of a single one.

use super::{Banded, Bound, Dense, Kept, StageOne};
use crate::base::{
    error::{Result, SvdError},
    number::Number,
};

impl Kept {
    /// The number of blocks of level `k` of one matrix.
    pub(super) fn blocks(&self, k: usize) -> usize {
        self.first[k + 1] - self.first[k]
    }

    /// The index in `Dense::t` of the first T of level `k`.
    pub(super) fn at(&self, k: usize) -> usize {
        match self.first.get(k + 1) {
            Some(next) => self.matrices * self.first[k] + self.matrix * (next - self.first[k]),
            None => 0,
        }
    }
}

/// The error of a matrix that a stack does not have.
fn missing(k: usize, matrices: usize) -> SvdError {
    SvdError::invalid("batch", format!("matrix {k} of a stack of {matrices}"))
}

impl<T: Number> Dense<T> {
    /// Matrix `k` of several, in the same buffers: an operand of products, and the reflectors that stage 1 has kept. It has the workspace of all, so
    /// one part is applied after another.
    ///
    /// # Errors
    /// [`SvdError::InvalidOption`] if there is no such matrix.
    pub(crate) fn part(&self, k: usize) -> Result<Self> {
        if k >= self.matrices || (self.matrices > 1 && self.a.len() != 1) {
            return Err(missing(k, self.matrices));
        }
        Ok(Dense {
            a: self.a.clone(),
            v: self.v.clone(),
            t: self.t.clone(),
            matrices: 1,
            first: self.first + k * self.matrix,
            beside: None,
            in_beside: false,
            kernels: StageOne::default(),
            kept: self.kept.as_ref().map(|kept| Kept { matrix: kept.matrix + k, ..kept.clone() }),
            ..*self
        })
    }
}

impl<T: Number> Banded<T> {
    /// The reflectors that stage 2 has kept of band `k` of several, in the same buffers.
    ///
    /// # Errors
    /// [`SvdError::InvalidOption`] if there is no such band.
    pub(crate) fn part(&self, k: usize) -> Result<Self> {
        if k >= self.matrices {
            return Err(missing(k, self.matrices));
        }
        Ok(Banded {
            band: self.band.clone(),
            matrices: 1,
            chase: Bound::default(),
            kept: self.kept.clone(),
            first_kept: self.first_kept + k * self.layout.n * self.layout.n,
            ..*self
        })
    }
}
