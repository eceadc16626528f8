//! Batches of `faer` matrices, of any shapes.

use faer::{Col, MatRef};

use crate::{
    api::{
        element::Element,
        faer::{MatSvd, col, mat_svd},
    },
    base::error::Result,
    plan::{
        batch::{BatchReport, Each, all},
        options::SvdOptions,
    },
};

/// The singular values of each matrix of a batch, descending, or the first of them that [`keep`](SvdOptions::keep) and
/// [`tolerance`](SvdOptions::tolerance) leave. The matrices may have different shapes.
///
/// On the CPU the results are those of [`svdvals_gpu_with`](crate::SvdValsGpu::svdvals_gpu_with) bit for bit. Small matrices are computed side by
/// side, one on each thread; a few large ones one after the other, each on all threads.
///
/// A GPU computes the values of matrices that workgroup memory holds together, one workgroup each, by a direct reduction and bisection in the arithmetic
/// of the type; in `f32` up to 63 x 63 on every device, up to 109 x 109 where it has 48 KiB. Larger matrices that have others of their shape and memory
/// order in the batch share the dispatches of the two stages, in rounds of up to 256 MiB. Each has the result of a single call with
/// [`Stage3::Device`](crate::Stage3), bit for bit: in `f32`, values below 2^-47 of the largest may be lost. So do smaller ones with
/// [`Reduction::TwoStage`](crate::Reduction) and [`Stage3::Device`](crate::Stage3). Those that have no others of their shape have a workgroup each, up to
/// about 256 x 256, in a buffer. The result of a matrix depends on its shape and memory order, on the device, and on whether there are others like it,
/// but not on what they are. [`Backend::Gpu`](crate::Backend::Gpu) computes all others one after the other, and every matrix with another
/// [`Reduction`](crate::Reduction) or [`Stage3`](crate::Stage3).
///
/// [`Backend::Auto`](crate::Backend::Auto) takes a hardware GPU for matrices that gain from it as single ones, and for small ones, and larger ones of
/// one shape, that take it less time together than the CPU's threads. Progress is that of the batch, whose only
/// stage is [`Stage::Svdvals`](crate::Stage::Svdvals).
///
/// ```
/// use svdvals_gpu::{SvdOptions, svdvals_batch};
/// let (a, b) = (faer::mat![[3.0, 0.0], [0.0, -4.0]], faer::mat![[2.0], [0.0], [0.0]]);
/// let values = svdvals_batch(&[a.as_ref(), b.as_ref()], &SvdOptions::default())?;
/// assert_eq!((values[0][0], values[0][1], values[1][0]), (4.0, 3.0, 2.0));
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
///
/// # Errors
/// [`SvdError::InBatch`](crate::SvdError::InBatch) with the index of the first matrix that has an error, and that error, as of
/// [`svdvals_gpu_with`](crate::SvdValsGpu::svdvals_gpu_with). [`SvdError::InvalidOption`](crate::SvdError::InvalidOption) and
/// [`SvdError::Cancelled`](crate::SvdError::Cancelled) are of the whole call.
pub fn svdvals_batch<T: Element>(batch: &[MatRef<'_, T>], options: &SvdOptions) -> Result<Vec<Col<T::Real>>> {
    Ok(cols(all(T::svdvals_batch(batch, options, false)?.values)?))
}

/// [`svdvals_batch`] with a report: what ran, why, and the seconds.
///
/// ```
/// use svdvals_gpu::{SvdOptions, svdvals_batch_report};
/// let a = faer::Mat::from_fn(30, 20, |i, j| ((i * j) as f32).sin());
/// let report = svdvals_batch_report(&[a.as_ref(), a.transpose()], &SvdOptions::default())?;
/// assert_eq!((report.matrices, report.side_by_side, report.values[1].nrows()), (2, 2, 20));
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
///
/// # Errors
/// As [`svdvals_batch`].
pub fn svdvals_batch_report<T: Element>(batch: &[MatRef<'_, T>], options: &SvdOptions) -> Result<BatchReport<Vec<Col<T::Real>>>> {
    T::svdvals_batch(batch, options, true)?.try_map(|each| Ok(cols(all(each)?)))
}

/// [`svdvals_batch`] with a result for each matrix, so that one bad matrix costs no other.
///
/// ```
/// use svdvals_gpu::{SvdError, SvdOptions, svdvals_batch_each};
/// let (a, b) = (faer::mat![[f32::NAN]], faer::mat![[2.0f32]]);
/// let values = svdvals_batch_each(&[a.as_ref(), b.as_ref()], &SvdOptions::default())?;
/// assert!(matches!(values[0], Err(SvdError::NonFinite { row: 0, col: 0, .. })));
/// assert_eq!(values[1].as_ref().unwrap()[0], 2.0);
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
///
/// # Errors
/// Those of the options alone. An error of a matrix is in its place.
pub fn svdvals_batch_each<T: Element>(batch: &[MatRef<'_, T>], options: &SvdOptions) -> Result<Vec<Result<Col<T::Real>>>> {
    Ok(T::svdvals_batch(batch, options, false)?.values.into_iter().map(|values| values.map(col)).collect())
}

/// [`svdvals_batch`] for a task that must not block; see [`svdvals_gpu_async`](crate::SvdValsGpu::svdvals_gpu_async). On the CPU it computes from
/// copies of the matrices.
///
/// ```
/// use svdvals_gpu::{SvdError, SvdOptions, svdvals_batch_async};
/// async fn norms(a: &faer::Mat<f32>, b: &faer::Mat<f32>) -> Result<(f32, f32), SvdError> {
///     let values = svdvals_batch_async(&[a.as_ref(), b.as_ref()], &SvdOptions::default()).await?;
///     Ok((values[0][0], values[1][0]))
/// }
/// let (a, b) = (faer::mat![[3.0f32]], faer::mat![[0.0f32, 4.0]]);
/// assert_eq!(pollster::block_on(norms(&a, &b))?, (3.0, 4.0)); // or whatever runs your tasks
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
///
/// # Errors
/// As [`svdvals_batch`].
pub async fn svdvals_batch_async<T: Element>(batch: &[MatRef<'_, T>], options: &SvdOptions) -> Result<Vec<Col<T::Real>>> {
    Ok(cols(all(T::svdvals_batch_async(batch, options, false).await?.values)?))
}

/// [`svdvals_batch_report`] for a task that must not block; see [`svdvals_batch_async`].
///
/// ```
/// use svdvals_gpu::{SvdOptions, svdvals_batch_report_async};
/// let a = faer::Mat::from_fn(30, 20, |i, j| ((i * j) as f32).sin());
/// let report = pollster::block_on(svdvals_batch_report_async(&[a.as_ref()], &SvdOptions::default()))?;
/// assert_eq!(report.values[0].nrows(), 20);
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
///
/// # Errors
/// As [`svdvals_batch`].
pub async fn svdvals_batch_report_async<T: Element>(
    batch: &[MatRef<'_, T>],
    options: &SvdOptions,
) -> Result<BatchReport<Vec<Col<T::Real>>>> {
    T::svdvals_batch_async(batch, options, true).await?.try_map(|each| Ok(cols(all(each)?)))
}

/// [`svdvals_batch_each`] for a task that must not block; see [`svdvals_batch_async`].
///
/// ```
/// use svdvals_gpu::{SvdOptions, svdvals_batch_each_async};
/// let a = faer::mat![[f32::NAN]];
/// let values = pollster::block_on(svdvals_batch_each_async(&[a.as_ref()], &SvdOptions::default()))?;
/// assert!(values[0].is_err());
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
///
/// # Errors
/// As [`svdvals_batch_each`].
pub async fn svdvals_batch_each_async<T: Element>(
    batch: &[MatRef<'_, T>],
    options: &SvdOptions,
) -> Result<Vec<Result<Col<T::Real>>>> {
    let each = T::svdvals_batch_async(batch, options, false).await?.values;
    Ok(each.into_iter().map(|values| values.map(col)).collect())
}

/// The singular value decomposition of each matrix of a batch: thin, or as `options` ask. The matrices may have different shapes. The
/// CPU computes them as described at [`svdvals_batch`]; the stage of its progress is [`Stage::Vectors`](crate::Stage::Vectors).
///
/// A GPU computes the thin decompositions of matrices that workgroup memory holds together, one workgroup each: the values as [`svdvals_batch`] does,
/// the vectors by one-sided Jacobi rotations in the arithmetic of the type; in `f32` up to 39 x 39 on every device, up to 74 x 74
/// where it has 48 KiB; without others of their shape, up to about 192 x 192, in a buffer. Residual and orthogonality are those of single calls,
/// max(m, n) eps, but not their bits. The host divides columns by their lengths, sorts them, and completes those of zero values. Larger matrices, and
/// those with full vectors ([`Vectors::Full`](crate::Vectors::Full)), share dispatches with others of their shape as at [`svdvals_batch`], in rounds of
/// up to 256 MiB, or 1 GiB with all that they keep. Each has the result of a single
/// call with [`Stage3::Device`](crate::Stage3), bit for bit. All others, and one whose columns are not orthogonal after 60 sweeps, are single calls one
/// after the other. [`Backend::Auto`](crate::Backend::Auto) takes a hardware GPU as for the values.
///
/// ```
/// use svdvals_gpu::{SvdOptions, svd_batch};
/// let (a, b) = (faer::Mat::<f64>::identity(5, 3), faer::Mat::<f64>::identity(2, 4));
/// let svds = svd_batch(&[a.as_ref(), b.as_ref()], &SvdOptions::default())?;
/// assert_eq!((svds[0].u.shape(), svds[1].v.shape()), ((5, 3), (4, 2)));
/// assert!((svds[1].reconstruct()? - b).norm_l2() < 1e-14);
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
///
/// # Errors
/// As [`svdvals_batch`], with the errors of [`svd_gpu_with`](crate::SvdGpu::svd_gpu_with).
pub fn svd_batch<T: Element>(batch: &[MatRef<'_, T>], options: &SvdOptions) -> Result<Vec<MatSvd<T>>> {
    Ok(all(T::svd_batch(batch, options, false)?.values)?.into_iter().map(mat_svd).collect())
}

/// [`svd_batch`] with a report: what ran, why, and the seconds.
///
/// ```
/// use svdvals_gpu::{SvdOptions, svd_batch_report};
/// let a = faer::Mat::from_fn(30, 20, |i, j| ((i * j) as f32).sin());
/// let report = svd_batch_report(&[a.as_ref(); 3], &SvdOptions::default())?;
/// assert_eq!((report.matrices, report.values[2].u.shape()), (3, (30, 20)));
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
///
/// # Errors
/// As [`svd_batch`].
pub fn svd_batch_report<T: Element>(batch: &[MatRef<'_, T>], options: &SvdOptions) -> Result<BatchReport<Vec<MatSvd<T>>>> {
    T::svd_batch(batch, options, true)?.try_map(|each| Ok(all(each)?.into_iter().map(mat_svd).collect()))
}

/// [`svd_batch`] with a result for each matrix.
///
/// ```
/// use svdvals_gpu::{SvdOptions, svd_batch_each};
/// let (a, b) = (faer::mat![[f32::INFINITY]], faer::mat![[2.0f32]]);
/// let svds = svd_batch_each(&[a.as_ref(), b.as_ref()], &SvdOptions::default())?;
/// assert!(svds[0].is_err() && svds[1].as_ref().unwrap().s[0] == 2.0);
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
///
/// # Errors
/// As [`svdvals_batch_each`].
pub fn svd_batch_each<T: Element>(batch: &[MatRef<'_, T>], options: &SvdOptions) -> Result<Vec<Result<MatSvd<T>>>> {
    let each: Each<_> = T::svd_batch(batch, options, false)?.values;
    Ok(each.into_iter().map(|factors| factors.map(mat_svd)).collect())
}

/// [`svd_batch`] for a task that must not block; see [`svdvals_batch_async`].
///
/// ```
/// use svdvals_gpu::{SvdOptions, svd_batch_async};
/// let a = faer::Mat::<f64>::identity(5, 3);
/// let svds = pollster::block_on(svd_batch_async(&[a.as_ref()], &SvdOptions::default()))?;
/// assert_eq!(svds[0].u.shape(), (5, 3));
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
///
/// # Errors
/// As [`svd_batch`].
pub async fn svd_batch_async<T: Element>(batch: &[MatRef<'_, T>], options: &SvdOptions) -> Result<Vec<MatSvd<T>>> {
    Ok(all(T::svd_batch_async(batch, options, false).await?.values)?.into_iter().map(mat_svd).collect())
}

/// [`svd_batch_report`] for a task that must not block; see [`svdvals_batch_async`].
///
/// ```
/// use svdvals_gpu::{SvdOptions, svd_batch_report_async};
/// let a = faer::Mat::<f64>::identity(5, 3);
/// let report = pollster::block_on(svd_batch_report_async(&[a.as_ref()], &SvdOptions::default()))?;
/// assert_eq!((report.matrices, report.values[0].s.nrows()), (1, 3));
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
///
/// # Errors
/// As [`svd_batch`].
pub async fn svd_batch_report_async<T: Element>(
    batch: &[MatRef<'_, T>],
    options: &SvdOptions,
) -> Result<BatchReport<Vec<MatSvd<T>>>> {
    T::svd_batch_async(batch, options, true).await?.try_map(|each| Ok(all(each)?.into_iter().map(mat_svd).collect()))
}

/// [`svd_batch_each`] for a task that must not block; see [`svdvals_batch_async`].
///
/// ```
/// use svdvals_gpu::{SvdOptions, svd_batch_each_async};
/// let a = faer::mat![[f32::INFINITY]];
/// let svds = pollster::block_on(svd_batch_each_async(&[a.as_ref()], &SvdOptions::default()))?;
/// assert!(svds[0].is_err());
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
///
/// # Errors
/// As [`svdvals_batch_each`].
pub async fn svd_batch_each_async<T: Element>(batch: &[MatRef<'_, T>], options: &SvdOptions) -> Result<Vec<Result<MatSvd<T>>>> {
    let each = T::svd_batch_async(batch, options, false).await?.values;
    Ok(each.into_iter().map(|factors| factors.map(mat_svd)).collect())
}

fn cols<R: Copy>(values: Vec<Vec<R>>) -> Vec<Col<R>> {
    values.into_iter().map(col).collect()
}
