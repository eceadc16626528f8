//! A sketch of any number of rows of many columns.

use faer::Mat;

use crate::{
    api::{element::Element, svdvals::SvdValsGpu},
    base::{
        error::Result,
        number::{Number, Scalar},
    },
    plan::row_sketch::{Sketch, Sketched},
};

/// The leading singular values and right singular vectors of a matrix of n columns and any number of rows, from one pass over its rows, for so many columns
/// that the n^2 numbers of a [`RowBlocks`](crate::RowBlocks) are too many. The state is 2 n (k + 10) numbers in double precision. It says how
/// accurate its values are.
///
/// ```
/// # #[cfg(feature = "faer")] {
/// use svdvals_gpu::RowSketch;
/// let row = |i: usize, j: usize| (0..3).map(|t| ((i * (t + 1)) as f64).sin() * ((j * (2 * t + 1)) as f64).cos() / 10f64.powi(t as i32)).sum::<f64>();
/// let mut sketch = RowSketch::<f64>::new(2000, 3)?;
/// for block in 0..10 {
///     sketch.push(&faer::Mat::from_fn(50, 2000, |i, j| row(50 * block + i, j)))?;
/// }
/// let found = sketch.finish()?;
/// assert_eq!((found.s.len(), found.v.shape(), sketch.rows()), (3, (2000, 3), 500));
/// assert!(found.error < 1e-4 * found.s[0]); // each value is below the true one, by less than this
/// # }
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
///
/// Each block A of rows adds A^H (A G) for a fixed random matrix G, which takes 4 m n (k + 10) flops; the result is Nystrom's approximation of A^H A. Squares
/// of values are resolved to about 1e-14 of the largest square, so that values below 1e-7 of the largest are noise.
#[derive(Clone, Debug)]
pub struct RowSketch<T: Element> {
    sketch: Sketch<<T::Scalar as Scalar>::Wide>,
}

/// The result of [`RowSketch::finish`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RowsSketched<T: Element> {
    /// The singular values, descending, at most as many as there are rows. None is above the true one.
    pub s: Vec<<T as Number>::Real>,
    /// The right singular vectors, n x k.
    pub v: Mat<T::Scalar>,
    /// How much may be missing: the true value j is at most (`s[j]`^2 + `error`^2)^(1/2). It is the root of ||A||_F^2 less the squares of all k + 10 values of the
    /// sketch.
    pub error: f64,
    /// What the `s` leave of A: the root of ||A||_F^2 less their squares.
    pub rest: f64,
}

impl<T: Element> RowSketch<T> {
    /// No rows of `columns` columns; `k` values are wanted.
    ///
    /// ```
    /// let sketch = svdvals_gpu::RowSketch::<f32>::new(100_000, 20)?;
    /// assert_eq!((sketch.columns(), sketch.rows()), (100_000, 0));
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::OutOfMemory`](crate::SvdError::OutOfMemory) if there is no room for the state.
    pub fn new(columns: usize, k: usize) -> Result<Self> {
        Self::with_seed(columns, k, 0)
    }

    /// The same with another random matrix. Sketches that are merged have the same seed.
    ///
    /// ```
    /// assert!(svdvals_gpu::RowSketch::<f32>::with_seed(1000, 20, 7).is_ok());
    /// ```
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_seed(columns: usize, k: usize, seed: u64) -> Result<Self> {
        Ok(RowSketch { sketch: Sketch::new(columns, k, seed)? })
    }

    /// Adds a block of rows. After an error the sketch is as it was.
    ///
    /// ```
    /// # #[cfg(feature = "ndarray")] {
    /// use svdvals_gpu::RowSketch;
    /// let mut sketch = RowSketch::<f32>::new(3, 1)?;
    /// sketch.push(&ndarray::array![[3.0f32, 0.0, 4.0], [3.0, 0.0, 4.0]])?;
    /// assert!((sketch.finish()?.s[0] - 50f32.sqrt()).abs() < 1e-5);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::InBlock`](crate::SvdError::InBlock) with the number of the block: other columns, a NaN or an infinity, squares beyond the range of f64.
    pub fn push(&mut self, block: &impl SvdValsGpu<Element = T>) -> Result<()> {
        T::push_sketch(&mut self.sketch, block.as_faer())
    }

    /// Adds the rows of another sketch, of as many columns and values, and with the same seed.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::RowSketch;
    /// let mut all = RowSketch::<f64>::new(30, 2)?;
    /// let mut other = all.clone();
    /// all.push(&faer::Mat::<f64>::identity(30, 30))?;
    /// other.push(&faer::Mat::<f64>::identity(30, 30))?;
    /// all.merge(&other)?;
    /// assert_eq!((all.rows(), all.blocks()), (60, 2));
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::InvalidOption`](crate::SvdError::InvalidOption) if they differ in one of these.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        self.sketch.merge(&other.sketch)
    }

    /// The leading values and right vectors of the rows so far.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// let mut sketch = svdvals_gpu::RowSketch::<f64>::new(40, 2)?;
    /// sketch.push(&faer::Mat::from_fn(9, 40, |i, j| ((i + 1) * (j + 1)) as f64))?; // of rank 1
    /// let found = sketch.finish()?;
    /// assert!(found.s[1] < 1e-7 * found.s[0] && found.rest < 1e-6 * found.s[0]);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::OutOfMemory`](crate::SvdError::OutOfMemory) if there is no room.
    pub fn finish(&self) -> Result<RowsSketched<T>> {
        let Sketched { values: s, v, error, rest } = T::finish_sketch(&self.sketch)?;
        Ok(RowsSketched { s, v, error, rest })
    }

    /// The number of columns.
    ///
    /// ```
    /// assert_eq!(svdvals_gpu::RowSketch::<f32>::new(50, 2)?.columns(), 50);
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn columns(&self) -> usize {
        self.sketch.columns
    }

    /// The number of rows so far.
    ///
    /// ```
    /// assert_eq!(svdvals_gpu::RowSketch::<f32>::new(50, 2)?.rows(), 0);
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn rows(&self) -> u64 {
        self.sketch.rows
    }

    /// The number of blocks so far.
    ///
    /// ```
    /// assert_eq!(svdvals_gpu::RowSketch::<f32>::new(50, 2)?.blocks(), 0);
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn blocks(&self) -> u64 {
        self.sketch.blocks
    }
}
