//! Some of several matrices on the device, with their kept reflectors.

use std::ops::Range;

use super::{Banded, Bound, Dense, Kept, StageOne};
use crate::base::error::{Result, SvdError};

/// Checks that these are of the matrices of a stack.
fn check(part: &Range<usize>, matrices: usize) -> Result<()> {
    if part.is_empty() || part.end > matrices {
        return Err(SvdError::invalid("batch", format!("matrices {part:?} of a stack of {matrices}")));
    }
    Ok(())
}

impl Dense {
    /// Some of several matrices, at least one, in the same buffers, with the reflectors that stage 1 has kept. They have the workspace of all, so one
    /// part is computed after another.
    ///
    /// # Errors
    /// [`SvdError::InvalidOption`] if there are no such matrices.
    pub(crate) fn part(&self, part: Range<usize>) -> Result<Self> {
        check(&part, self.matrices)?;
        let (first, matrices) = (part.start, part.len());
        Ok(Dense {
            a: self.a.clone(),
            v: self.v.clone(),
            t: self.t.clone(),
            matrices,
            first: self.first + first * self.matrix,
            beside: None,
            in_beside: false,
            kernels: StageOne::default(),
            kept: self.kept.as_ref().map(|kept| Kept { matrix: kept.matrix + first, ..kept.clone() }),
            deferred: None,
            ..*self
        })
    }
}

impl Banded {
    /// Some of several bands, at least one, in the same buffers: the reflectors that stage 2 has kept.
    ///
    /// # Errors
    /// [`SvdError::InvalidOption`] if there are no such bands.
    pub(crate) fn part(&self, part: Range<usize>) -> Result<Self> {
        check(&part, self.matrices)?;
        Ok(Banded {
            band: self.band.clone(),
            matrices: part.len(),
            chase: Bound::default(),
            chase_team: Bound::default(),
            kept: self.kept.clone(),
            first_kept: self.first_kept + part.start * self.layout.n * self.layout.n,
            ..*self
        })
    }
}
