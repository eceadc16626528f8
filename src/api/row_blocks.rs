//! A matrix of any number of rows, block after block.

#[cfg(feature = "serde")]
mod held;

#[cfg(any(feature = "ndarray", feature = "faer"))]
use crate::base::number::Number;
use crate::{
    api::{element::Element, qr::sealed::RightSide, svdvals::SvdValsGpu},
    base::{error::Result, number::RealElement},
    plan::{options::RunOptions, row_blocks::State},
};

/// A matrix A of n columns and any number of rows, of which blocks are added as they come: from files, sockets or other threads. No row is kept.
///
/// The state is the triangular factor R of all rows so far, in double precision for every element type: n^2 numbers, or (n + p)^2 with p
/// right-hand sides. States can be merged in any order, be sent to other threads, and with feature `serde` be stored and sent to other
/// machines. At any time they give
///
/// | method | what |
/// | --- | --- |
/// | [`finish`](Self::finish), [`finish_faer`](Self::finish_faer) | singular values, right singular vectors, R, and the mean: with [`centred`](Self::centred) rows a principal component analysis |
/// | [`solve`](Self::solve), [`solve_faer`](Self::solve_faer) | least squares with the right-hand sides of [`push_with`](Self::push_with) |
///
/// Everything is computed on the CPU, in the caller's rayon pool or in the threads of [`with_run`](Self::with_run), and does not depend on their
/// number; or blocks are added [on a GPU](Self::with_run).
///
/// ```
/// # #[cfg(feature = "ndarray")] {
/// use ndarray::{Array2, s};
/// use svdvals_gpu::{RowBlocks, SvdValsGpu};
/// let a = Array2::from_shape_fn((1000, 5), |(i, j)| ((i * (j + 3)) as f64).sin());
/// let mut rows = RowBlocks::<f64>::new(5)?;
/// for start in (0..1000).step_by(300) {
///     rows.push(&a.slice(s![start..1000.min(start + 300), ..]))?;
/// }
/// let svd = rows.finish()?;
/// assert!((svd.s - a.svdvals_gpu()?).iter().all(|x| x.abs() < 1e-12));
/// # }
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
///
/// # How a block is added
///
/// A block of at least 2 n rows adds its A^H A, in double precision, to that of the blocks before it. After 16 blocks the Cholesky factor of
/// the sum joins R by QR. This takes m n^2 flops for m rows. It is as accurate as QR where A with normalised columns is well-conditioned, which
/// is checked at each block: ||B^-1||^2 is at most 2^36 in single precision, whose products are exact in double precision, and max(256, n) in
/// double precision. Otherwise the block is factored by QR in double precision (2 m n^2 flops), from a copy. Rows of smaller blocks are kept until
/// there are n of them, and then join R by QR (4 n^2 flops a row). So columns of any lengths, and nearly dependent ones, keep the digits that
/// QR gives them; in single precision the error is little more than that of rounding the results.
///
/// # Reading and computing at the same time
///
/// [`push`](Self::push) returns when the block is no longer needed. To read the next one meanwhile, read on a thread of its own. A bounded
/// channel keeps few blocks in memory:
///
/// ```
/// # #[cfg(feature = "ndarray")] {
/// use ndarray::Array2;
/// use std::{sync::mpsc, thread};
/// use svdvals_gpu::RowBlocks;
/// let (send, receive) = mpsc::sync_channel(1); // one block waits, one is read, one is computed
/// thread::spawn(move || {
///     for k in 0..8 {
///         let block = Array2::from_shape_fn((500, 4), |(i, j)| ((k * 500 + i) as f32 * (1.0 + j as f32)).cos()); // from a file
///         if send.send(block).is_err() {
///             break; // the other side has ended
///         }
///     }
/// });
/// let mut rows = RowBlocks::<f32>::new(4)?;
/// for block in receive {
///     rows.push(&block)?;
/// }
/// assert_eq!((rows.rows(), rows.blocks()), (4000, 8));
/// # }
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
///
/// Several readers can have a state each, and merge them.
#[derive(Clone, Debug)]
pub struct RowBlocks<T: Element> {
    state: State<T::Scalar>,
}

impl<T: Element> RowBlocks<T> {
    /// No rows of `columns` columns.
    ///
    /// ```
    /// let rows = svdvals_gpu::RowBlocks::<f32>::new(100)?;
    /// assert_eq!((rows.columns(), rows.rows()), (100, 0));
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::OutOfMemory`](crate::SvdError::OutOfMemory) if there is no room for the state.
    pub fn new(columns: usize) -> Result<Self> {
        Self::with_right_sides(columns, 0)
    }

    /// No rows of `columns` columns and `right_sides` right-hand sides, for least squares: see [`push_with`](Self::push_with).
    ///
    /// ```
    /// let rows = svdvals_gpu::RowBlocks::<f32>::with_right_sides(100, 2)?;
    /// assert_eq!((rows.columns(), rows.right_sides()), (100, 2));
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_right_sides(columns: usize, right_sides: usize) -> Result<Self> {
        Ok(RowBlocks { state: State::new(columns, right_sides, false)? })
    }

    /// The same, without rows, with centred rows: the mean of all rows is subtracted from each. The mean of a block is subtracted before
    /// anything is squared, and means are joined by one more row (Chan, Golub and LeVeque 1983), so that no digits cancel, however large the
    /// mean is.
    ///
    /// ```
    /// # #[cfg(feature = "ndarray")] {
    /// use ndarray::array;
    /// use svdvals_gpu::RowBlocks;
    /// let mut rows = RowBlocks::<f64>::new(2)?.centred();
    /// rows.push(&array![[1e8, 0.0], [1e8, 3.0]])?;
    /// rows.push(&array![[1e8 + 1.0, 3.0]])?;
    /// let svd = rows.finish()?;
    /// assert_eq!(svd.mean.as_ref().unwrap()[1], 2.0);
    /// let total: f64 = svd.variances().iter().sum();
    /// assert!((total - (1.0 / 3.0 + 3.0)).abs() < 1e-7); // of the columns, together
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn centred(mut self) -> Self {
        self.state.centre();
        self
    }

    /// The same rows, with the threads, the hyperparameters and the flag for cancellation of `run` in every step to come.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{RowBlocks, RunOptions};
    /// let mut rows = RowBlocks::<f64>::new(2)?.with_run(&RunOptions::default().threads(2))?;
    /// rows.push(&faer::mat![[3.0, 0.0], [0.0, 4.0]])?;
    /// assert_eq!(rows.finish_faer()?.s[0], 4.0);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// With a [context](RunOptions::context) and 256 columns or more, or with [`Backend::Gpu`](crate::Backend) and any number of them, a GPU adds the blocks. In
    /// f64, if it has that, it does what the CPU does, for every element type. Otherwise, for types in single precision, it factors each block of at least
    /// 2 n rows in f32, which leaves the errors of a QR factorisation in that, n eps. What [`finish`](Self::finish) and [`solve`](Self::solve) compute from the
    /// triangle is computed on the CPU.
    ///
    /// ```no_run
    /// # #[cfg(all(feature = "faer", feature = "gpu"))] {
    /// use svdvals_gpu::{GpuContext, RowBlocks, RunOptions};
    /// let gpu = RunOptions::default().context(GpuContext::global()?);
    /// let mut rows = RowBlocks::<f32>::new(1000)?.with_run(&gpu)?;
    /// rows.push(&faer::Mat::from_fn(20_000, 1000, |i, j| ((i * j) as f32).sin()))?;
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::InvalidOption`](crate::SvdError::InvalidOption) for progress, whose end is not known, and for half storage.
    /// [`SvdError::NoAdapter`](crate::SvdError::NoAdapter) and [`SvdError::UnsupportedElement`](crate::SvdError::UnsupportedElement) with `Backend::Gpu`.
    pub fn with_run(mut self, run: &RunOptions) -> Result<Self> {
        T::set_run_of_rows(&mut self.state, run)?;
        Ok(self)
    }

    /// The number n of columns.
    pub fn columns(&self) -> usize {
        self.state.n
    }

    /// The number p of right-hand sides.
    pub fn right_sides(&self) -> usize {
        self.state.p
    }

    /// The number of rows so far.
    pub fn rows(&self) -> u64 {
        self.state.rows
    }

    /// The number of blocks so far.
    pub fn blocks(&self) -> u64 {
        self.state.blocks
    }

    /// Whether rows are [`centred`](Self::centred).
    pub fn is_centred(&self) -> bool {
        self.state.mean.is_some()
    }

    /// Adds a block of rows: an `ndarray` array or view of two dimensions, or a `faer` matrix or view, of any strides.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{RowBlocks, SvdError};
    /// let mut rows = RowBlocks::<f32>::new(2)?;
    /// rows.push(&faer::mat![[3.0f32, 0.0], [4.0, 0.0]])?;
    /// let error = rows.push(&faer::mat![[0.0, f32::NAN]]).unwrap_err();
    /// assert_eq!(error.to_string(), "block 1 of rows: entry (0, 1) is NaN: singular values need finite entries");
    /// assert_eq!(rows.rows(), 2); // as before
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::InBlock`](crate::SvdError::InBlock) for an entry that is not finite, or for columns whose sum overflows.
    /// [`SvdError::InvalidOption`](crate::SvdError::InvalidOption) for a wrong number of columns, or without the right-hand sides that there
    /// are. [`SvdError::OutOfMemory`](crate::SvdError::OutOfMemory). After an error the state is what it was.
    pub fn push<M: SvdValsGpu<Element = T>>(&mut self, block: &M) -> Result<()> {
        T::push_rows(&mut self.state, block.as_faer(), None)
    }

    /// Adds a block of rows of A, and of B beside them: a matrix, or a vector if there is one right-hand side.
    ///
    /// ```
    /// # #[cfg(feature = "ndarray")] {
    /// use ndarray::array;
    /// use svdvals_gpu::RowBlocks;
    /// let mut rows = RowBlocks::<f64>::with_right_sides(1, 1)?;
    /// rows.push_with(&array![[1.0], [2.0]], &array![3.0, 6.0])?;
    /// rows.push_with(&array![[5.0]], &array![15.0])?;
    /// assert!((rows.solve(None)?.x[(0, 0)] - 3.0f64).abs() < 1e-14);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`push`](Self::push). The column of an entry of B is counted after those of A.
    pub fn push_with<M, B>(&mut self, block: &M, right_sides: &B) -> Result<()>
    where
        M: SvdValsGpu<Element = T>,
        B: RightSide<T>,
    {
        T::push_rows(&mut self.state, block.as_faer(), Some(right_sides.as_columns()))
    }

    /// Adds all rows of another state. The result does not depend on the order of merging, up to rounding.
    ///
    /// ```
    /// # #[cfg(feature = "ndarray")] {
    /// use ndarray::Array2;
    /// use std::thread;
    /// use svdvals_gpu::RowBlocks;
    /// let states = [0, 1].map(|k| thread::spawn(move || {
    ///     let mut rows = RowBlocks::<f64>::new(3)?;
    ///     rows.push(&Array2::from_shape_fn((100, 3), |(i, j)| ((300 * k + 3 * i + j) as f64).sin()))?;
    ///     Ok::<_, svdvals_gpu::SvdError>(rows)
    /// }));
    /// let [first, second] = states.map(|state| state.join().unwrap());
    /// let mut all = first?;
    /// all.merge(second?)?;
    /// assert_eq!((all.rows(), all.blocks()), (200, 2));
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::InvalidOption`](crate::SvdError::InvalidOption) if the numbers of columns or right-hand sides differ, or if one is centred
    /// and the other is not.
    pub fn merge(&mut self, other: RowBlocks<T>) -> Result<()> {
        T::merge_rows(&mut self.state, other.state)
    }
}

/// The singular values and right vectors of all rows, as arrays: from [`RowBlocks::finish`]. A is m x n, and k = min(m, n).
#[cfg(feature = "ndarray")]
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ArrayRows<T: Element> {
    /// The k singular values, descending.
    pub s: ndarray::Array1<T::Real>,
    /// V^H, k x n: its rows are the conjugates of the right singular vectors. Those of centred rows are the principal components.
    pub vt: ndarray::Array2<T::Scalar>,
    /// R, k x n, upper triangular: A = Q R. The phase of each row is arbitrary.
    pub r: ndarray::Array2<T::Scalar>,
    /// The mean of the rows, if they are centred.
    pub mean: Option<ndarray::Array1<T::Scalar>>,
    /// The number m of rows.
    pub rows: u64,
}

#[cfg(feature = "ndarray")]
impl<T: Element> ArrayRows<T> {
    /// The variance along each right singular vector, s^2 / (m - 1). For centred rows these are the variances that the components explain.
    ///
    /// ```
    /// let mut rows = svdvals_gpu::RowBlocks::<f64>::new(1)?.centred();
    /// rows.push(&ndarray::array![[1.0f64], [2.0], [3.0]])?;
    /// assert!((rows.finish()?.variances()[0] - 1.0).abs() < 1e-15);
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn variances(&self) -> ndarray::Array1<T::Real> {
        self.s.iter().map(|&s| variance(s, self.rows)).collect()
    }
}

/// The singular values and right vectors of all rows in faer's matrices: from [`RowBlocks::finish_faer`]. A is m x n, and k = min(m, n).
#[cfg(feature = "faer")]
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MatRows<T: Element> {
    /// The k singular values, descending.
    pub s: faer::Col<T::Real>,
    /// V, n x k: the right singular vectors are its columns. Those of centred rows are the principal components.
    pub v: faer::Mat<T::Scalar>,
    /// R, k x n, upper triangular: A = Q R. The phase of each row is arbitrary.
    pub r: faer::Mat<T::Scalar>,
    /// The mean of the rows, if they are centred.
    pub mean: Option<faer::Col<T::Scalar>>,
    /// The number m of rows.
    pub rows: u64,
}

#[cfg(feature = "faer")]
impl<T: Element> MatRows<T> {
    /// The variance along each right singular vector, s^2 / (m - 1). For centred rows these are the variances that the components explain.
    ///
    /// ```
    /// let mut rows = svdvals_gpu::RowBlocks::<f64>::new(1)?.centred();
    /// rows.push(&faer::mat![[1.0f64], [2.0], [3.0]])?;
    /// assert!((rows.finish_faer()?.variances()[0] - 1.0).abs() < 1e-15);
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn variances(&self) -> faer::Col<T::Real> {
        faer::Col::from_fn(self.s.nrows(), |i| variance(self.s[i], self.rows))
    }
}

#[cfg_attr(not(any(feature = "ndarray", feature = "faer")), allow(dead_code, reason = "the front ends' results use it"))]
fn variance<R: RealElement>(s: R, rows: u64) -> R {
    let s = s.to_double();
    R::from_double(s / (rows.max(2) - 1) as f64 * s)
}

/// The solution of least squares over all rows: from [`RowBlocks::solve`] (with `ndarray`'s arrays) and [`RowBlocks::solve_faer`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RowsFit<X, C, R> {
    /// X, n x p.
    pub x: X,
    /// For centred rows the constant c of each right-hand side: the residuals are those of B - A X - c.
    pub intercept: Option<C>,
    /// The numerical rank of A.
    pub rank: usize,
    /// The length of each right-hand side's residual.
    pub residuals: R,
}

#[cfg(feature = "ndarray")]
impl<T: Element> RowBlocks<T> {
    /// The singular values, right vectors and R of all rows so far, and the mean of centred rows. More blocks may follow.
    ///
    /// ```
    /// let mut rows = svdvals_gpu::RowBlocks::<f64>::new(2)?;
    /// rows.push(&ndarray::array![[3.0, 0.0], [0.0, 1.0], [4.0, 0.0]])?;
    /// let svd = rows.finish()?;
    /// assert!((svd.s[0] - 5.0f64).abs() < 1e-14 && (svd.vt[(0, 0)].abs() - 1.0).abs() < 1e-14);
    /// assert_eq!((svd.r.dim(), svd.mean), ((2, 2), None));
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::Overflow`](crate::SvdError::Overflow) if a singular value is beyond the type's range.
    pub fn finish(&self) -> Result<ArrayRows<T>> {
        use crate::api::ndarray::{array, conjugate_transpose};
        let found = T::finish_rows(&self.state)?;
        Ok(ArrayRows {
            s: ndarray::Array1::from_vec(found.s),
            vt: conjugate_transpose(&found.v),
            r: array(&found.r),
            mean: found.mean.map(ndarray::Array1::from_vec),
            rows: self.state.rows,
        })
    }

    /// The solution of least squares: X minimises ||A X - B|| over all rows so far, for centred rows ||A X + c - B||. Singular values up to
    /// `tolerance` times the largest count as zero; None is sqrt(max(m, n)) eps. If the columns are linearly dependent, X is the solution of
    /// least norm.
    ///
    /// ```
    /// use ndarray::array;
    /// let mut rows = svdvals_gpu::RowBlocks::<f64>::with_right_sides(1, 1)?.centred();
    /// rows.push_with(&array![[0.0], [1.0], [2.0]], &array![5.0, 7.0, 9.0])?; // 2 x + 5
    /// let fit = rows.solve(None)?;
    /// assert!((fit.x[(0, 0)] - 2.0f64).abs() < 1e-14 && (fit.intercept.unwrap()[0] - 5.0).abs() < 1e-14);
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::InvalidOption`](crate::SvdError::InvalidOption) for a tolerance outside 0 to 1,
    /// [`SvdError::Overflow`](crate::SvdError::Overflow) if an entry of X is beyond the type's range.
    pub fn solve(&self, tolerance: Option<f64>) -> Result<ArrayFit<T>> {
        let found = T::solve_rows(&self.state, tolerance)?;
        Ok(RowsFit {
            x: crate::api::ndarray::array(&found.x),
            intercept: found.intercept.map(ndarray::Array1::from_vec),
            rank: found.rank,
            residuals: ndarray::Array1::from_vec(found.residuals),
        })
    }
}

/// [`RowsFit`] of `ndarray`'s arrays.
#[cfg(feature = "ndarray")]
pub type ArrayFit<T> =
    RowsFit<ndarray::Array2<<T as Number>::Scalar>, ndarray::Array1<<T as Number>::Scalar>, ndarray::Array1<<T as Number>::Real>>;

/// [`RowsFit`] of faer's matrices.
#[cfg(feature = "faer")]
pub type MatFit<T> = RowsFit<faer::Mat<<T as Number>::Scalar>, faer::Col<<T as Number>::Scalar>, faer::Col<<T as Number>::Real>>;

#[cfg(feature = "faer")]
impl<T: Element> RowBlocks<T> {
    /// [`finish`](Self::finish) with faer's matrices.
    ///
    /// ```
    /// let mut rows = svdvals_gpu::RowBlocks::<f64>::new(2)?;
    /// rows.push(&faer::mat![[3.0, 0.0], [0.0, 1.0], [4.0, 0.0]])?;
    /// let svd = rows.finish_faer()?;
    /// assert!((svd.s[0] - 5.0f64).abs() < 1e-14 && svd.v.shape() == (2, 2));
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub fn finish_faer(&self) -> Result<MatRows<T>> {
        let found = T::finish_rows(&self.state)?;
        let mean = found.mean.map(crate::api::faer::col);
        Ok(MatRows { s: crate::api::faer::col(found.s), v: found.v, r: found.r, mean, rows: self.state.rows })
    }

    /// [`solve`](Self::solve) with faer's matrices.
    ///
    /// ```
    /// let mut rows = svdvals_gpu::RowBlocks::<f64>::with_right_sides(2, 1)?;
    /// rows.push_with(&faer::mat![[1.0, 1.0]], &faer::mat![[2.0]])?; // one equation, two unknowns
    /// let fit = rows.solve_faer(None)?;
    /// assert!((fit.x[(0, 0)] - 1.0f64).abs() < 1e-14 && fit.rank == 1);
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`solve`](Self::solve).
    pub fn solve_faer(&self, tolerance: Option<f64>) -> Result<MatFit<T>> {
        use crate::api::faer::col;
        let found = T::solve_rows(&self.state, tolerance)?;
        Ok(RowsFit { x: found.x, intercept: found.intercept.map(col), rank: found.rank, residuals: col(found.residuals) })
    }
}
