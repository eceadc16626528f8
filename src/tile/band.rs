//! The upper band matrix between stages 1 and 2.

use std::fmt;

use crate::base::{
    error::{Result, SvdError, room_for},
    first_of::FirstOf,
    number::{Number, RealElement},
};

/// An n x n upper triangular matrix with `bandwidth` superdiagonals: B(i, j) = 0 unless i <= j <= i + bandwidth.
///
/// [`to_band`](crate::SvdValsGpu::to_band) returns it, and [`band_to_bidiag`](Self::band_to_bidiag) reduces it. [`from_fn`](Self::from_fn)
/// makes one from given entries.
///
/// ```
/// use svdvals_gpu::{Band, RunOptions};
/// // 2 on the diagonal, -1 on two superdiagonals
/// let band = Band::from_fn(100, 2, |i, j| if i == j { 2.0f64 } else { -1.0 })?;
/// assert_eq!((band.n(), band.bandwidth(), band.get(3, 5), band.get(5, 3)), (100, 2, -1.0, 0.0));
/// assert_eq!(format!("{band:?}"), "Band { n: 100, bandwidth: 2, diagonal: [2.0, 2.0, 2.0, 2.0, 2.0, 2.0, ..], .. }");
/// let sigma = band.band_to_bidiag(&RunOptions::default())?.svdvals()?;
/// assert_eq!(sigma.len(), 100);
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct Band<T> {
    n: usize,
    bandwidth: usize,
    /// Column after column, bandwidth + 1 entries each: B(i, j) at j * (bandwidth + 1) + bandwidth + i - j.
    entries: Vec<T>,
}

/// The order, the number of superdiagonals, and the first entries of the diagonal.
impl<T: fmt::Debug> fmt::Debug for Band<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let diagonal: Vec<&T> = self.entries.iter().skip(self.bandwidth).step_by(self.bandwidth + 1).collect();
        f.debug_struct("Band")
            .field("n", &self.n)
            .field("bandwidth", &self.bandwidth)
            .field("diagonal", &FirstOf(&diagonal))
            .finish_non_exhaustive()
    }
}

impl<T: Number> Band<T> {
    /// The band matrix of order `n` whose entry (i, j) is `entry(i, j)`, for i <= j <= i + bandwidth.
    ///
    /// ```
    /// use svdvals_gpu::{Band, SvdError};
    /// let band = Band::from_fn(4, 1, |i, j| (10 * i + j) as f32)?;
    /// assert_eq!((band.get(2, 3), band.get(0, 3)), (23.0, 0.0));
    /// assert!(matches!(Band::from_fn(4, 1, |_, j| if j == 2 { f32::NAN } else { 0.0 }), Err(SvdError::NonFinite { row: 1, col: 2, .. })));
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::NonFinite`] with the indices of a NaN or infinite entry; [`SvdError::InvalidOption`] if n x (bandwidth + 1)
    /// entries cannot be addressed; [`SvdError::OutOfMemory`] if there is no memory for them.
    pub fn from_fn(n: usize, bandwidth: usize, mut entry: impl FnMut(usize, usize) -> T) -> Result<Band<T>> {
        let bandwidth = bandwidth.min(n.saturating_sub(1));
        let size =
            n.checked_mul(bandwidth + 1).filter(|s| s.checked_mul(size_of::<T>()).is_some_and(|b| b <= isize::MAX as usize));
        let size =
            size.ok_or_else(|| SvdError::invalid("n", format!("{n} x {} entries overflow the address space", bandwidth + 1)))?;
        room_for::<T>("a band", n, bandwidth + 1, 1)?;
        let mut entries = vec![T::zeroed(); size];
        for j in 0..n {
            for i in j.saturating_sub(bandwidth)..=j {
                let value = entry(i, j);
                if value.magnitude().is_none() {
                    return Err(SvdError::NonFinite { row: i, col: j, value: value.to_string() });
                }
                entries[j * (bandwidth + 1) + bandwidth + i - j] = value;
            }
        }
        Ok(Band { n, bandwidth, entries })
    }

    /// The band with the given storage, in the layout of [`entries`](Self::entries), each entry converted by `convert`.
    pub(crate) fn from_entries<U: Copy>(n: usize, bandwidth: usize, entries: &[U], convert: impl Fn(U) -> T) -> Result<Band<T>> {
        Self::from_fn(n, bandwidth, |i, j| convert(entries[j * (bandwidth + 1) + bandwidth + i - j]))
    }

    /// Order n.
    ///
    /// ```
    /// let band = svdvals_gpu::Band::from_fn(7, 2, |_, _| 1.0f64)?;
    /// assert_eq!(band.n(), 7);
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn n(&self) -> usize {
        self.n
    }

    /// Number of superdiagonals; at most n - 1.
    ///
    /// ```
    /// let band = svdvals_gpu::Band::from_fn(3, 100, |_, _| 1.0f64)?; // no wider than the matrix
    /// assert_eq!(band.bandwidth(), 2);
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn bandwidth(&self) -> usize {
        self.bandwidth
    }

    /// Entry (i, j); zero outside the band, and outside the matrix.
    ///
    /// ```
    /// let band = svdvals_gpu::Band::from_fn(4, 1, |i, j| (i + j) as f64)?;
    /// assert_eq!((band.get(1, 2), band.get(2, 1), band.get(0, 9)), (3.0, 0.0, 0.0));
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn get(&self, i: usize, j: usize) -> T {
        if i <= j && j < self.n && j - i <= self.bandwidth {
            self.entries[j * (self.bandwidth + 1) + self.bandwidth + i - j]
        } else {
            T::zeroed()
        }
    }

    /// The entries of column j from row `j - bandwidth` (or 0) to row j, and that first row.
    pub(crate) fn column(&self, j: usize) -> (usize, &[T]) {
        let first = j.saturating_sub(self.bandwidth);
        let at = j * (self.bandwidth + 1) + self.bandwidth;
        (first, &self.entries[at + first - j..=at])
    }

    /// The band storage: n columns of bandwidth + 1 entries, with zeros above row 0.
    pub(crate) fn entries(&self) -> &[T] {
        &self.entries
    }

    /// The largest absolute value of a real or imaginary part.
    pub(crate) fn largest(&self) -> T::Real {
        T::largest(&self.entries).unwrap_or(T::Real::from_double(0.0))
    }

    /// The dense n x n matrix.
    ///
    /// ```
    /// let band = svdvals_gpu::Band::from_fn(3, 1, |i, j| (i + j) as f64)?;
    /// assert_eq!(band.to_array2(), ndarray::array![[0.0, 1.0, 0.0], [0.0, 2.0, 3.0], [0.0, 0.0, 4.0]]);
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    #[cfg(feature = "ndarray")]
    pub fn to_array2(&self) -> ndarray::Array2<T> {
        ndarray::Array2::from_shape_fn((self.n, self.n), |(i, j)| self.get(i, j))
    }

    /// The dense n x n matrix.
    ///
    /// ```
    /// let band = svdvals_gpu::Band::from_fn(2, 1, |i, j| (i + j) as f64)?;
    /// assert_eq!(band.to_mat(), faer::mat![[0.0, 1.0], [0.0, 2.0]]);
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    #[cfg(feature = "faer")]
    pub fn to_mat(&self) -> faer::Mat<T> {
        faer::Mat::from_fn(self.n, self.n, |i, j| self.get(i, j))
    }
}
