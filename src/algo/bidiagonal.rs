//! The real upper bidiagonal matrix between stages 2 and 3.

use std::{any::TypeId, borrow::Cow, fmt};

use faer::Mat;

use crate::{
    algo::{bidiag, leading::Leading},
    base::{
        blas::Side,
        error::{Result, SvdError},
        first_of::FirstOf,
        number::RealElement,
        pool::on_pool,
        watch::Watch,
    },
};

/// Values up to which all are computed, whatever the tolerance: the largest one takes about as long as so many.
const FEW: usize = 64;

/// How much smaller than the tolerance a value may be, relatively, before it is rounded: more than the roundings to f32 of the largest value, of this one
/// and of its square root if it is an eigenvalue of A^H A.
const SLACK: f64 = 1e-6;

/// A real upper bidiagonal matrix of order n.
///
/// ```
/// use svdvals_gpu::Bidiagonal;
/// // All ones: sigma_k = 2 cos(k pi / (2n + 1)).
/// let c = Bidiagonal::new(vec![1.0f64; 4], vec![1.0; 3])?;
/// assert_eq!(format!("{c:?}"), "Bidiagonal { n: 4, diagonal: [1.0, 1.0, 1.0, 1.0], superdiagonal: [1.0, 1.0, 1.0] }");
/// let sigma = c.svdvals()?;
/// for (k, s) in sigma.iter().enumerate() {
///     assert!((s - 2.0 * ((k + 1) as f64 * std::f64::consts::PI / 9.0).cos()).abs() < 1e-15);
/// }
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct Bidiagonal<R> {
    diagonal: Vec<R>,
    superdiagonal: Vec<R>,
}

/// The order, and the first entries of both diagonals.
impl<R: fmt::Debug> fmt::Debug for Bidiagonal<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bidiagonal")
            .field("n", &self.diagonal.len())
            .field("diagonal", &FirstOf(&self.diagonal))
            .field("superdiagonal", &FirstOf(&self.superdiagonal))
            .finish()
    }
}

impl<R: RealElement> Bidiagonal<R> {
    /// The matrix with this `diagonal` (n values) and `superdiagonal` (n - 1 values).
    ///
    /// ```
    /// use svdvals_gpu::{Bidiagonal, SvdError};
    /// let c = Bidiagonal::new(vec![3.0f32, 4.0], vec![0.0])?;
    /// assert_eq!((c.diagonal(), c.superdiagonal()), ([3.0, 4.0].as_slice(), [0.0].as_slice()));
    /// assert!(matches!(Bidiagonal::new(vec![1.0f32], vec![1.0]), Err(SvdError::InvalidOption { .. })));
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::InvalidOption`] if the lengths do not match, [`SvdError::NonFinite`] for a NaN or an infinity.
    pub fn new(diagonal: Vec<R>, superdiagonal: Vec<R>) -> Result<Self> {
        if superdiagonal.len() != diagonal.len().saturating_sub(1) {
            let (n, e) = (diagonal.len(), superdiagonal.len());
            return Err(SvdError::invalid(
                "superdiagonal",
                format!("{e} values, where a diagonal of {n} needs {}", n.saturating_sub(1)),
            ));
        }
        for (offset, values) in [&diagonal, &superdiagonal].into_iter().enumerate() {
            if let Some(row) = values.iter().position(|v| !num_traits::Float::is_finite(*v)) {
                return Err(SvdError::NonFinite { row, col: row + offset, value: values[row].to_string() });
            }
        }
        Ok(Bidiagonal { diagonal, superdiagonal })
    }

    /// The n diagonal entries.
    ///
    /// ```
    /// let c = svdvals_gpu::Bidiagonal::new(vec![1.0f64, 2.0], vec![0.5])?;
    /// assert_eq!(c.diagonal(), [1.0, 2.0]);
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn diagonal(&self) -> &[R] {
        &self.diagonal
    }

    /// The n - 1 superdiagonal entries.
    ///
    /// ```
    /// let c = svdvals_gpu::Bidiagonal::new(vec![1.0f64, 2.0], vec![0.5])?;
    /// assert_eq!(c.superdiagonal(), [0.5]);
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn superdiagonal(&self) -> &[R] {
        &self.superdiagonal
    }

    /// Stage 3: all n singular values, descending, each with high relative accuracy. They are computed in f64 for every `R`.
    ///
    /// The method is [`Stage3::Newton`]; see [`svdvals_by`](Self::svdvals_by) for others.
    ///
    /// ```
    /// let c = svdvals_gpu::Bidiagonal::new(vec![3.0f32, -4.0], vec![0.0])?;
    /// assert_eq!(c.svdvals()?, [4.0, 3.0]);
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::Overflow`] if a value exceeds `R`'s range.
    pub fn svdvals(&self) -> Result<Vec<R>> {
        self.svdvals_by(Stage3::default())
    }

    /// The number of singular values below `x`, by one Sturm count in O(n) operations.
    ///
    /// ```
    /// use svdvals_gpu::Bidiagonal;
    /// let c = Bidiagonal::new(vec![3.0f64, 2.0, 1.0], vec![0.0, 0.0])?;
    /// assert_eq!(c.count_below(2.5), 2);
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn count_below(&self, x: R) -> usize {
        let (diagonal, superdiagonal) = (widened(&self.diagonal), widened(&self.superdiagonal));
        bidiag::bisection::count_below(&diagonal, &superdiagonal, x.to_double())
    }

    /// Stage 3 by the given method.
    ///
    /// ```
    /// use svdvals_gpu::{Bidiagonal, Stage3};
    /// let c = Bidiagonal::new(vec![1.0f64, 1e-20, 3.0], vec![0.5, 1e-10])?;
    /// let (newton, bisection) = (c.svdvals_by(Stage3::Newton)?, c.svdvals_by(Stage3::Bisection)?);
    /// assert!(newton.iter().zip(&bisection).all(|(x, y)| (x - y).abs() <= 1e-14 * y));
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::Overflow`] if a value exceeds `R`'s range; [`SvdError::InvalidOption`] for `Stage3::Device`; with `Stage3::Bdsqr` or
    /// `Stage3::Bdsdc` (feature `lapack`) [`SvdError::NotConverged`] if LAPACK's iteration does not converge.
    pub fn svdvals_by(&self, method: Stage3) -> Result<Vec<R>> {
        let values: Vec<R> =
            self.svdvals_for::<R>(method, Leading::ALL, &Watch::default())?.into_iter().map(R::from_double).collect();
        // The values are descending, so the first is the largest.
        let finite = values.first().is_none_or(|&x| num_traits::Float::is_finite(x));
        if finite { Ok(values) } else { Err(SvdError::overflow(R::KIND, "singular values")) }
    }

    /// The decomposition C = U S V^T with U and V n x n and orthogonal, by divide and conquer (Gu and Eisenstat 1995). It always ends. The values
    /// are those of [`svdvals`](Self::svdvals).
    ///
    /// ```
    /// use svdvals_gpu::Bidiagonal;
    /// let c = Bidiagonal::new(vec![1.0f64, 1e-20, -3.0], vec![0.5, 1e-10])?;
    /// let (u, s, v) = c.svd()?;
    /// let s = faer::Mat::from_fn(3, 3, |i, j| if i == j { s[i] } else { 0.0 });
    /// let back = &u * s * v.transpose();
    /// assert!((back[(0, 1)] - 0.5).abs() < 1e-15 && (back[(2, 2)] + 3.0).abs() < 1e-14);
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::Overflow`] if a value exceeds `R`'s range, [`SvdError::OutOfMemory`] if there is no room for the vectors.
    pub fn svd(&self) -> Result<(Mat<R>, Vec<R>, Mat<R>)> {
        self.svd_leading(self.diagonal.len())
    }

    /// The `k` largest singular values, or all if there are fewer, with their left and right vectors (n x k). It takes 4 n^2 k operations.
    ///
    /// ```
    /// let c = svdvals_gpu::Bidiagonal::new(vec![1.0f64; 100], vec![1.0; 99])?;
    /// let (u, s, v) = c.svd_leading(3)?;
    /// assert_eq!((u.shape(), s.len(), v.shape()), ((100, 3), 3, (100, 3)));
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`svd`](Self::svd).
    pub fn svd_leading(&self, k: usize) -> Result<(Mat<R>, Vec<R>, Mat<R>)> {
        let mut values = self.svdvals()?;
        let k = k.min(values.len());
        values.truncate(k);
        let (diagonal, superdiagonal) = (widened(&self.diagonal), widened(&self.superdiagonal));
        let sides = [Side::Left, Side::Right];
        let find = || bidiag::vectors(&diagonal, &superdiagonal, sides, k, &Watch::default());
        let [u, v] = if self.diagonal.len() < bidiag::IN_POOL { find()? } else { on_pool(find)? };
        Ok((u, values, v))
    }

    /// The largest values in f64, accurate enough for rounding to `T`: at least as many as are wanted, unless rounding brings a value up to the
    /// tolerance ([`Leading::select`]). A value has the same bits however many are wanted. Values that overflow f64 are infinite.
    pub(crate) fn svdvals_for<T: RealElement>(&self, method: Stage3, leading: Leading, watch: &Watch) -> Result<Vec<f64>> {
        let (diagonal, superdiagonal) = (widened(&self.diagonal), widened(&self.superdiagonal));
        let unit = T::epsilon().to_double();
        let some = |count: usize| match method {
            Stage3::Bisection => bidiag::bisection::svdvals(&diagonal, &superdiagonal, count, watch),
            _ => bidiag::svdvals(&diagonal, &superdiagonal, unit, count, watch),
        };
        let find = || {
            Ok(match method {
                Stage3::Auto | Stage3::Newton | Stage3::Bisection => {
                    let mut count = leading.most(diagonal.len());
                    if leading.tolerance > 0.0 && count > FEW {
                        let largest = some(1).first().copied().unwrap_or(0.0);
                        let least = (1.0 - SLACK) * leading.tolerance * largest;
                        // One more shows that no other is wanted.
                        count = count.min(bidiag::count_from(&diagonal, &superdiagonal, least) + 1);
                    }
                    some(count)
                }
                Stage3::Device => {
                    return Err(SvdError::invalid("stage3", "Stage3::Device, but the bidiagonal is not on a GPU"));
                }
                #[cfg(feature = "lapack")]
                Stage3::Bdsqr => bidiag::lapack::bdsqr(diagonal.to_vec(), superdiagonal.to_vec())?,
                #[cfg(feature = "lapack")]
                Stage3::Bdsdc => bidiag::lapack::bdsdc(diagonal.to_vec(), superdiagonal.to_vec())?,
            })
        };
        let values = if self.diagonal.len() < bidiag::IN_POOL { find()? } else { on_pool(find)? };
        watch.check()?;
        Ok(values)
    }
}

/// The values in double precision, borrowed if they are f64 already.
fn widened<R: RealElement>(values: &[R]) -> Cow<'_, [f64]> {
    if TypeId::of::<R>() == TypeId::of::<f64>() {
        Cow::Borrowed(bytemuck::cast_slice(values))
    } else {
        Cow::Owned(values.iter().map(|x| x.to_double()).collect())
    }
}

/// The method of stage 3 for the singular values of a bidiagonal matrix. All methods except `Device` compute in f64.
///
/// | method | operations | accuracy |
/// | --- | --- | --- |
/// | `Auto` | `Device` on a hardware GPU for order 4096 and more, else `Newton` | |
/// | `Newton` | about 6 n^2 rows of one division each, in parallel | relative, every value |
/// | `Bisection` | about 60 n^2, in parallel | relative, every value |
/// | `Device` | 35 n^2 (f32), 66 n^2 (f64), one value a thread | some eps of the type, down to 2^-47 (f32), 2^-470 (f64) of max entry |
/// | `Bdsqr` (feature `lapack`) | LAPACK `dbdsqr` without vectors, which calls `dlasq1` | relative, every value |
/// | `Bdsdc` (feature `lapack`) | LAPACK `dbdsdc` without vectors, which calls `dlasdq` | relative, every value |
///
/// ```
/// assert_eq!(svdvals_gpu::Stage3::default(), svdvals_gpu::Stage3::Auto);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Stage3 {
    /// The fastest method: [`Newton`](Self::Newton), or [`Device`](Self::Device) for large matrices on a hardware GPU.
    #[default]
    Auto,
    /// Newton's method in brackets from eigenvalue counts, for all values simultaneously in vector registers. From order 400 on, or on a
    /// rayon worker, it uses all threads.
    Newton,
    /// Bisection on Sturm counts of the Golub-Kahan matrix (Demmel and Kahan 1990; Fernando 1998).
    Bisection,
    /// Bisection on Sturm counts on the GPU, in its arithmetic. An error if the bidiagonal is not on a GPU.
    Device,
    /// LAPACK's `dbdsqr`.
    #[cfg(feature = "lapack")]
    Bdsqr,
    /// LAPACK's `dbdsdc`.
    #[cfg(feature = "lapack")]
    Bdsdc,
}

impl fmt::Display for Stage3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Stage3::Auto => "auto",
            Stage3::Newton => "newton",
            Stage3::Bisection => "bisection",
            Stage3::Device => "device",
            #[cfg(feature = "lapack")]
            Stage3::Bdsqr => "bdsqr",
            #[cfg(feature = "lapack")]
            Stage3::Bdsdc => "bdsdc",
        })
    }
}
