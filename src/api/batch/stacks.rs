//! Batches as arrays of three dimensions.

use faer::traits::ComplexField;
use ndarray::{Array1, Array2, Array3, ArrayBase, Axis, Data, Ix3};

use crate::{
    api::{
        element::Element,
        ndarray::{ArraySvd, array_svd, extend_by_columns, view},
    },
    base::{
        error::{Result, SvdError},
        number::Number,
    },
    plan::{
        batch::{BatchReport, all},
        drivers::Drivers,
        factors::Factors,
        options::{SvdOptions, Vectors},
    },
};

type Real<T> = <T as Number>::Real;

/// The decompositions of a stack of matrices, A_i = U_i diag(s_i) V_i^H. The first axis counts the matrices, which are m x n.
///
/// ```
/// use ndarray::Axis;
/// use svdvals_gpu::SvdValsBatchGpu;
/// let stack = ndarray::Array3::from_shape_fn((10, 5, 3), |(k, i, j)| ((k + i * j) as f64).sin());
/// let svd = stack.svd_batch_gpu()?;
/// assert_eq!((svd.u.dim(), svd.s.dim(), svd.vt.dim()), ((10, 5, 3), (10, 3), (10, 3, 3)));
/// let last = svd.u.index_axis(Axis(0), 9); // U of the last matrix
/// assert_eq!(last.dim(), (5, 3));
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
#[derive(Clone, Debug)]
pub struct StackSvd<T: Element> {
    /// U_i, batch x m x k. Each singular vector is contiguous.
    pub u: Array3<T::Scalar>,
    /// The singular values of each matrix, descending: batch x k.
    pub s: Array2<T::Real>,
    /// V_i^H, batch x k x n.
    pub vt: Array3<T::Scalar>,
}

/// Singular values of a stack of matrices: an `ndarray` of three dimensions, batch x m x n, of any strides (feature `ndarray`). Sealed.
///
/// On the CPU the results are those of [`SvdValsGpu`](crate::SvdValsGpu) and [`SvdGpu`](crate::SvdGpu) for each matrix, bit for bit. How they are
/// computed, and what a GPU does, is described at [`svdvals_batch`](fn@crate::svdvals_batch). Progress is that of the batch, whose only stage is
/// [`Stage::Svdvals`](crate::Stage::Svdvals), or [`Stage::Vectors`](crate::Stage::Vectors).
///
/// For `faer`, [`svdvals_batch`](fn@crate::svdvals_batch) takes a slice of matrices of any shapes. A stack along another axis is
/// `stack.permuted_axes(..)`, a view.
///
/// ```
/// use ndarray::{array, stack, Axis};
/// use svdvals_gpu::SvdValsBatchGpu;
/// let (a, b) = (array![[3.0, 0.0], [0.0, -4.0]], array![[0.0, 2.0], [0.0, 0.0]]);
/// let s = stack![Axis(0), a, b].svdvals_batch_gpu()?;
/// assert_eq!(s, array![[4.0, 3.0], [2.0, 0.0]]);
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
pub trait SvdValsBatchGpu: sealed::Stack<<Self as SvdValsBatchGpu>::Element> {
    /// The element type.
    type Element: Element;

    /// The min(m, n) singular values of each matrix, descending, with default options: batch x min(m, n).
    ///
    /// ```
    /// use svdvals_gpu::SvdValsBatchGpu;
    /// let stack = ndarray::Array3::<f32>::ones((1000, 4, 3));
    /// let s = stack.svdvals_batch_gpu()?;
    /// assert!(s.dim() == (1000, 3) && (s[(7, 0)] - 12f32.sqrt()).abs() < 1e-6);
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`svdvals_batch_gpu_with`](Self::svdvals_batch_gpu_with).
    fn svdvals_batch_gpu(&self) -> Result<Array2<Real<Self::Element>>> {
        self.svdvals_batch_gpu_with(&SvdOptions::default())
    }

    /// The min(m, n) singular values of each matrix, descending, or the first of them that [`keep`](SvdOptions::keep) leaves: batch x min(m, n),
    /// or fewer columns.
    ///
    /// ```
    /// use svdvals_gpu::{SvdError, SvdOptions, SvdValsBatchGpu};
    /// let mut stack = ndarray::Array3::<f64>::ones((5, 4, 3));
    /// stack[(2, 1, 0)] = f64::NAN;
    /// match stack.svdvals_batch_gpu_with(&SvdOptions::default().threads(1)) {
    ///     Err(SvdError::InBatch { index: 2, source }) => assert!(matches!(*source, SvdError::NonFinite { row: 1, col: 0, .. })),
    ///     other => panic!("{other:?}"),
    /// }
    /// ```
    ///
    /// # Errors
    /// [`SvdError::InBatch`] with the index of the first matrix that has an error, and that error, as of
    /// [`svdvals_gpu_with`](crate::SvdValsGpu::svdvals_gpu_with). [`SvdError::InvalidOption`] and [`SvdError::Cancelled`] are of the whole
    /// call. [`SvdError::InvalidOption`] too for a [`tolerance`](SvdOptions::tolerance), with which the number of values would differ from matrix to
    /// matrix; [`svdvals_batch_gpu_each`](Self::svdvals_batch_gpu_each) takes one.
    fn svdvals_batch_gpu_with(&self, options: &SvdOptions) -> Result<Array2<Real<Self::Element>>> {
        let (matrices, shape) = self.matrices();
        has_one_count(options)?;
        stacked(&all(Self::Element::svdvals_batch(&matrices, options, false)?.values)?, count(shape, options))
    }

    /// Like [`svdvals_batch_gpu_with`](Self::svdvals_batch_gpu_with), with a report: what ran, why, and the seconds.
    ///
    /// ```
    /// use svdvals_gpu::{SvdOptions, SvdValsBatchGpu};
    /// let stack = ndarray::Array3::<f32>::ones((1000, 4, 3));
    /// let report = stack.svdvals_batch_gpu_report(&SvdOptions::default())?;
    /// assert_eq!((report.values.dim(), report.side_by_side), ((1000, 3), 1000));
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`svdvals_batch_gpu_with`](Self::svdvals_batch_gpu_with).
    fn svdvals_batch_gpu_report(&self, options: &SvdOptions) -> Result<BatchReport<Array2<Real<Self::Element>>>> {
        let (matrices, shape) = self.matrices();
        has_one_count(options)?;
        let report = Self::Element::svdvals_batch(&matrices, options, true)?;
        report.try_map(|each| stacked(&all(each)?, count(shape, options)))
    }

    /// Like [`svdvals_batch_gpu_with`](Self::svdvals_batch_gpu_with), with a result for each matrix, so that one bad matrix costs no other.
    ///
    /// ```
    /// use svdvals_gpu::{SvdOptions, SvdValsBatchGpu};
    /// let mut stack = ndarray::Array3::<f64>::ones((5, 4, 3));
    /// stack[(2, 1, 0)] = f64::NAN;
    /// let each = stack.svdvals_batch_gpu_each(&SvdOptions::default())?;
    /// assert!(each[2].is_err() && each[3].as_ref().unwrap().len() == 3);
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// Those of the options alone. An error of a matrix is in its place.
    #[expect(clippy::type_complexity, reason = "a result of results, of the crate's and the front end's own types")]
    fn svdvals_batch_gpu_each(&self, options: &SvdOptions) -> Result<Vec<Result<Array1<Real<Self::Element>>>>> {
        let each = Self::Element::svdvals_batch(&self.matrices().0, options, false)?.values;
        Ok(each.into_iter().map(|values| values.map(Array1::from_vec)).collect())
    }

    /// [`svdvals_batch_gpu_with`](Self::svdvals_batch_gpu_with) for a task that must not block; see
    /// [`svdvals_gpu_async`](crate::SvdValsGpu::svdvals_gpu_async). On the CPU it computes from copies of the matrices.
    ///
    /// ```
    /// use svdvals_gpu::{SvdOptions, SvdValsBatchGpu};
    /// let stack = ndarray::Array3::<f32>::ones((1000, 4, 3));
    /// let s = pollster::block_on(stack.svdvals_batch_gpu_async(&SvdOptions::default()))?; // or whatever runs your tasks
    /// assert_eq!(s.dim(), (1000, 3));
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`svdvals_batch_gpu_with`](Self::svdvals_batch_gpu_with).
    fn svdvals_batch_gpu_async<'a>(
        &'a self,
        options: &'a SvdOptions,
    ) -> impl Future<Output = Result<Array2<Real<Self::Element>>>> + Send + 'a {
        let (matrices, shape) = self.matrices();
        async move {
            has_one_count(options)?;
            stacked(&all(Self::Element::svdvals_batch_async(&matrices, options, false).await?.values)?, count(shape, options))
        }
    }

    /// [`svdvals_batch_gpu_report`](Self::svdvals_batch_gpu_report) for a task that must not block; see
    /// [`svdvals_batch_gpu_async`](Self::svdvals_batch_gpu_async).
    ///
    /// ```
    /// use svdvals_gpu::{SvdOptions, SvdValsBatchGpu};
    /// let stack = ndarray::Array3::<f32>::ones((1000, 4, 3));
    /// let report = pollster::block_on(stack.svdvals_batch_gpu_report_async(&SvdOptions::default()))?;
    /// assert_eq!((report.matrices, report.values.dim()), (1000, (1000, 3)));
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`svdvals_batch_gpu_with`](Self::svdvals_batch_gpu_with).
    fn svdvals_batch_gpu_report_async<'a>(
        &'a self,
        options: &'a SvdOptions,
    ) -> impl Future<Output = Result<BatchReport<Array2<Real<Self::Element>>>>> + Send + 'a {
        let (matrices, shape) = self.matrices();
        async move {
            has_one_count(options)?;
            let report = Self::Element::svdvals_batch_async(&matrices, options, true).await?;
            report.try_map(|each| stacked(&all(each)?, count(shape, options)))
        }
    }

    /// [`svdvals_batch_gpu_each`](Self::svdvals_batch_gpu_each) for a task that must not block; see
    /// [`svdvals_batch_gpu_async`](Self::svdvals_batch_gpu_async).
    ///
    /// ```
    /// use svdvals_gpu::{SvdOptions, SvdValsBatchGpu};
    /// let mut stack = ndarray::Array3::<f64>::ones((5, 4, 3));
    /// stack[(2, 1, 0)] = f64::NAN;
    /// let each = pollster::block_on(stack.svdvals_batch_gpu_each_async(&SvdOptions::default()))?;
    /// assert!(each[2].is_err() && each[3].is_ok());
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`svdvals_batch_gpu_each`](Self::svdvals_batch_gpu_each).
    #[expect(clippy::type_complexity, reason = "a result of results, of the crate's and the front end's own types")]
    fn svdvals_batch_gpu_each_async<'a>(
        &'a self,
        options: &'a SvdOptions,
    ) -> impl Future<Output = Result<Vec<Result<Array1<Real<Self::Element>>>>>> + Send + 'a {
        let (matrices, _) = self.matrices();
        async move {
            let each = Self::Element::svdvals_batch_async(&matrices, options, false).await?.values;
            Ok(each.into_iter().map(|values| values.map(Array1::from_vec)).collect())
        }
    }

    /// The thin decomposition of each matrix, with default options.
    ///
    /// ```
    /// use svdvals_gpu::SvdValsBatchGpu;
    /// let stack = ndarray::Array3::from_shape_fn((10, 3, 5), |(k, i, j)| ((k + i * j) as f32).sin());
    /// let svd = stack.svd_batch_gpu()?;
    /// assert_eq!((svd.u.dim(), svd.s.dim(), svd.vt.dim()), ((10, 3, 3), (10, 3), (10, 3, 5)));
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`svd_batch_gpu_with`](Self::svd_batch_gpu_with).
    fn svd_batch_gpu(&self) -> Result<StackSvd<Self::Element>> {
        self.svd_batch_gpu_with(&SvdOptions::default())
    }

    /// The decomposition of each matrix that `options` ask for ([`vectors`](SvdOptions::vectors), [`keep`](SvdOptions::keep),
    /// [`signs`](SvdOptions::signs)).
    ///
    /// ```
    /// use svdvals_gpu::{SvdOptions, SvdValsBatchGpu};
    /// let stack = ndarray::Array3::from_shape_fn((10, 6, 5), |(k, i, j)| ((k + i * j) as f32).sin());
    /// let svd = stack.svd_batch_gpu_with(&SvdOptions::default().keep(2))?;
    /// assert_eq!((svd.u.dim(), svd.s.dim(), svd.vt.dim()), ((10, 6, 2), (10, 2), (10, 2, 5)));
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`svdvals_batch_gpu_with`](Self::svdvals_batch_gpu_with), with the errors of [`svd_gpu_with`](crate::SvdGpu::svd_gpu_with).
    /// [`SvdError::InvalidOption`] for a [`tolerance`](SvdOptions::tolerance), with which the number of values would differ from matrix to
    /// matrix; [`svd_batch_gpu_each`](Self::svd_batch_gpu_each) takes one.
    fn svd_batch_gpu_with(&self, options: &SvdOptions) -> Result<StackSvd<Self::Element>> {
        let (matrices, shape) = self.matrices();
        has_one_count(options)?;
        StackSvd::new(all(Self::Element::svd_batch(&matrices, options, false)?.values)?, shape, options)
    }

    /// Like [`svd_batch_gpu_with`](Self::svd_batch_gpu_with), with a report: what ran, why, and the seconds.
    ///
    /// ```
    /// use svdvals_gpu::{SvdOptions, SvdValsBatchGpu};
    /// let stack = ndarray::Array3::from_shape_fn((10, 6, 5), |(k, i, j)| ((k + i * j) as f32).sin());
    /// let report = stack.svd_batch_gpu_report(&SvdOptions::default())?;
    /// assert_eq!((report.values.u.dim(), report.matrices), ((10, 6, 5), 10));
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`svd_batch_gpu_with`](Self::svd_batch_gpu_with).
    fn svd_batch_gpu_report(&self, options: &SvdOptions) -> Result<BatchReport<StackSvd<Self::Element>>> {
        let (matrices, shape) = self.matrices();
        has_one_count(options)?;
        Self::Element::svd_batch(&matrices, options, true)?.try_map(|each| StackSvd::new(all(each)?, shape, options))
    }

    /// [`svd_batch_gpu_with`](Self::svd_batch_gpu_with) for a task that must not block; see
    /// [`svdvals_batch_gpu_async`](Self::svdvals_batch_gpu_async).
    ///
    /// ```
    /// use svdvals_gpu::{SvdOptions, SvdValsBatchGpu};
    /// let stack = ndarray::Array3::from_shape_fn((10, 6, 5), |(k, i, j)| ((k + i * j) as f32).sin());
    /// let svd = pollster::block_on(stack.svd_batch_gpu_async(&SvdOptions::default().keep(2)))?;
    /// assert_eq!(svd.vt.dim(), (10, 2, 5));
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`svd_batch_gpu_with`](Self::svd_batch_gpu_with).
    fn svd_batch_gpu_async<'a>(
        &'a self,
        options: &'a SvdOptions,
    ) -> impl Future<Output = Result<StackSvd<Self::Element>>> + Send + 'a {
        let (matrices, shape) = self.matrices();
        async move {
            has_one_count(options)?;
            StackSvd::new(all(Self::Element::svd_batch_async(&matrices, options, false).await?.values)?, shape, options)
        }
    }

    /// [`svd_batch_gpu_report`](Self::svd_batch_gpu_report) for a task that must not block; see
    /// [`svdvals_batch_gpu_async`](Self::svdvals_batch_gpu_async).
    ///
    /// ```
    /// use svdvals_gpu::{SvdOptions, SvdValsBatchGpu};
    /// let stack = ndarray::Array3::from_shape_fn((10, 6, 5), |(k, i, j)| ((k + i * j) as f32).sin());
    /// let report = pollster::block_on(stack.svd_batch_gpu_report_async(&SvdOptions::default()))?;
    /// assert_eq!(report.values.s.dim(), (10, 5));
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`svd_batch_gpu_with`](Self::svd_batch_gpu_with).
    fn svd_batch_gpu_report_async<'a>(
        &'a self,
        options: &'a SvdOptions,
    ) -> impl Future<Output = Result<BatchReport<StackSvd<Self::Element>>>> + Send + 'a {
        let (matrices, shape) = self.matrices();
        async move {
            has_one_count(options)?;
            let report = Self::Element::svd_batch_async(&matrices, options, true).await?;
            report.try_map(|each| StackSvd::new(all(each)?, shape, options))
        }
    }

    /// Like [`svd_batch_gpu_with`](Self::svd_batch_gpu_with), with a result for each matrix.
    ///
    /// ```
    /// use svdvals_gpu::{SvdOptions, SvdValsBatchGpu};
    /// let stack = ndarray::Array3::from_shape_fn((10, 6, 5), |(k, i, j)| if k == 0 { f32::NAN } else { (i * j) as f32 });
    /// let each = stack.svd_batch_gpu_each(&SvdOptions::default().tolerance(1e-3))?;
    /// assert!(each[0].is_err() && each[1].as_ref().unwrap().s.len() == 1); // rank one
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`svdvals_batch_gpu_each`](Self::svdvals_batch_gpu_each).
    fn svd_batch_gpu_each(&self, options: &SvdOptions) -> Result<Vec<Result<ArraySvd<Self::Element>>>> {
        let each = Self::Element::svd_batch(&self.matrices().0, options, false)?.values;
        Ok(each.into_iter().map(|factors| factors.map(array_svd)).collect())
    }

    /// [`svd_batch_gpu_each`](Self::svd_batch_gpu_each) for a task that must not block; see
    /// [`svdvals_batch_gpu_async`](Self::svdvals_batch_gpu_async).
    ///
    /// ```
    /// use svdvals_gpu::{SvdOptions, SvdValsBatchGpu};
    /// let stack = ndarray::Array3::from_shape_fn((3, 6, 5), |(k, i, j)| if k == 0 { f32::NAN } else { (i * j) as f32 });
    /// let each = pollster::block_on(stack.svd_batch_gpu_each_async(&SvdOptions::default()))?;
    /// assert!(each[0].is_err() && each[1].is_ok());
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`svdvals_batch_gpu_each`](Self::svdvals_batch_gpu_each).
    fn svd_batch_gpu_each_async<'a>(
        &'a self,
        options: &'a SvdOptions,
    ) -> impl Future<Output = Result<Vec<Result<ArraySvd<Self::Element>>>>> + Send + 'a {
        let (matrices, _) = self.matrices();
        async move {
            let each = Self::Element::svd_batch_async(&matrices, options, false).await?.values;
            Ok(each.into_iter().map(|factors| factors.map(array_svd)).collect())
        }
    }
}

/// Checks that the options give every matrix of a stack as many values.
fn has_one_count(options: &SvdOptions) -> Result<()> {
    let reason = "the number of values would differ from matrix to matrix; the methods for each matrix (_each) take one";
    if options.tolerance.is_some() { Err(SvdError::invalid("tolerance", reason)) } else { Ok(()) }
}

/// The number of values of each matrix of a stack.
fn count((m, n): (usize, usize), options: &SvdOptions) -> usize {
    options.keep.unwrap_or(usize::MAX).min(m).min(n)
}

/// The values of each matrix, `k` of them, as rows.
fn stacked<R: Copy>(values: &[Vec<R>], k: usize) -> Result<Array2<R>> {
    Ok(Array2::from_shape_vec((values.len(), k), values.concat()).expect("k values of each matrix"))
}

impl<T: Element> StackSvd<T> {
    fn new(all: Vec<Factors<T::Scalar>>, (m, n): (usize, usize), options: &SvdOptions) -> Result<Self> {
        let k = count((m, n), options);
        let (of_u, of_v) = match options.vectors {
            Vectors::Thin => (k, k),
            Vectors::Full => (m, n),
            Vectors::Left => (k, 0),
            Vectors::Right => (0, k),
        };
        let room = |len: usize| {
            let mut entries = Vec::new();
            let reason = || format!("singular vectors of {} matrices", all.len());
            let len = all.len().checked_mul(len).ok_or_else(|| SvdError::OutOfMemory { reason: reason() })?;
            entries.try_reserve_exact(len).map_err(|_| SvdError::OutOfMemory { reason: reason() })?;
            Ok(entries)
        };
        let (mut u, mut s, mut vt) = (room(m * of_u)?, Vec::with_capacity(all.len() * k), room(n * of_v)?);
        for factors in &all {
            s.extend_from_slice(&factors.s);
            extend_by_columns(&mut u, &factors.u, |x| x);
            extend_by_columns(&mut vt, &factors.v, |x| T::Scalar::conj_impl(&x));
        }
        let batch = all.len();
        let cube = |shape, entries| Array3::from_shape_vec(shape, entries).expect("factors of one shape");
        let mut u = cube((batch, of_u, m), u);
        u.swap_axes(1, 2);
        let s = Array2::from_shape_vec((batch, k), s).expect("k values of each matrix");
        Ok(StackSvd { u, s, vt: cube((batch, of_v, n), vt) })
    }
}

impl<S, T> SvdValsBatchGpu for ArrayBase<S, Ix3>
where
    S: Data<Elem = T>,
    T: Element,
{
    type Element = T;
}

impl<S, T> sealed::Stack<T> for ArrayBase<S, Ix3>
where
    S: Data<Elem = T>,
    T: Element,
{
    fn matrices(&self) -> (Vec<faer::MatRef<'_, T>>, (usize, usize)) {
        let (batch, m, n) = self.dim();
        let whole = self.view();
        ((0..batch).map(|k| view(whole.index_axis_move(Axis(0), k))).collect(), (m, n))
    }
}

mod sealed {
    use faer::MatRef;

    use crate::api::element::Element;

    /// What a stack implements. Other crates cannot name it.
    pub trait Stack<T: Element> {
        /// The matrices, and the shape of each.
        fn matrices(&self) -> (Vec<MatRef<'_, T>>, (usize, usize));
    }
}
