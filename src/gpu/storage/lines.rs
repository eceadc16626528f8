//! A view of a matrix to be copied.

use crate::{
    base::error::{Result, SvdError},
    gpu::device::buffers::Buffer,
};

/// A view of a matrix in device memory: `outer` lines (rows or columns) of `inner` contiguous entries, with leading dimension `ld`.
#[derive(Clone, Copy)]
pub(crate) struct Lines<'a> {
    pub entries: &'a Buffer,
    pub by_rows: bool,
    pub inner: usize,
    pub outer: usize,
    pub ld: usize,
}

impl Lines<'_> {
    /// Rows and columns.
    pub fn size(&self) -> (usize, usize) {
        if self.by_rows { (self.outer, self.inner) } else { (self.inner, self.outer) }
    }

    /// Number of entries from the first to the last, including those between lines; None if it overflows.
    pub fn len(&self) -> Option<usize> {
        if self.inner == 0 {
            return Some(0);
        }
        self.outer.checked_sub(1).map_or(Some(0), |last| last.checked_mul(self.ld)?.checked_add(self.inner))
    }

    /// Checks that the buffer holds the matrix, with entries of `each` bytes.
    pub fn check(&self, each: usize) -> Result<()> {
        let bytes = self.len().and_then(|len| len.max(1).checked_mul(each));
        if bytes.is_none_or(|bytes| bytes as u64 > self.entries.size()) {
            let ((rows, cols), held) = (self.size(), self.entries.size());
            let reason =
                format!("{held} bytes, which do not hold {rows} x {cols} entries of {each} bytes, lines {} apart", self.ld);
            return Err(SvdError::invalid("buffer", reason));
        }
        Ok(())
    }

    /// The matrix or its transpose, whichever has m >= n. An empty matrix becomes 0 x 0.
    pub fn upright(self) -> Self {
        let (rows, cols) = self.size();
        match (rows.min(cols), rows < cols) {
            (0, _) => Lines { inner: 0, outer: 0, ..self },
            (_, transposed) => Lines { by_rows: self.by_rows != transposed, ..self },
        }
    }
}
