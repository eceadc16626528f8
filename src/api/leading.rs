//! Leading singular triples of operators.

use faer::Mat;

use crate::{
    api::element::Element,
    base::{
        error::{Result, SvdError, Unfinished},
        number::{Number, Scalar},
        operator::LinearOperator,
    },
    plan::{
        factors::Factors,
        leading::operator::accuracy_of,
        options::SvdOptions,
        report::{Iteration, SvdReport},
    },
};

/// The `k` largest singular values of an operator and their vectors, from products with blocks of columns alone: for matrices that are large and
/// sparse, centred, or known by nothing else.
///
/// Each triple has measured residuals ||A v - s u|| and ||A^H u - s v|| of at most [`accuracy`](SvdOptions::accuracy) times the largest value, by default
/// the root of the rounding error (1.5e-8, in single precision 3.5e-4). The values are then off by about the square of that, unless others are near. The
/// products are made by the CPU. A and A^H are each multiplied by blocks of k + 10 columns; how often depends on how fast the values decrease:
/// about 5 times each for 1 / i and an accuracy of 1e-3, 8 times for 1e-6.
///
/// Of the options hold [`accuracy`](SvdOptions::accuracy), [`seed`](SvdOptions::seed), [`tolerance`](SvdOptions::tolerance),
/// [`vectors`](SvdOptions::vectors) (not full ones), [`signs`](SvdOptions::signs), and of the run `threads`, `progress` and `cancel`.
///
/// ```
/// use faer::sparse::{SparseColMat, Triplet};
/// use svdvals_gpu::{SvdOptions, leading_svd};
/// // The path of 1000 vertices: its adjacency matrix has the values 2 |cos(pi j / 1001)|, each twice.
/// let edges = (0..999usize).flat_map(|i| [Triplet::new(i, i + 1, 1.0), Triplet::new(i + 1, i, 1.0)]);
/// let path = SparseColMat::<usize, f64>::try_new_from_triplets(1000, 1000, &edges.collect::<Vec<_>>()).unwrap();
/// let svd = leading_svd(&path, 3, &SvdOptions::default().accuracy(1e-3))?;
/// let largest = 2.0 * (std::f64::consts::PI / 1001.0).cos(); // the next is 2e-5 below
/// assert!((svd.s[0] - largest).abs() <= svd.residuals[0]);
/// println!("{} products, residuals {:?}", svd.iteration.products, svd.residuals);
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
///
/// # Errors
/// [`SvdError::NotReached`] where the residuals do not become as small, after products with twenty times as many columns as A has on its shorter side;
/// [`LeadingSvd::of_error`] has the triples with their residuals. [`SvdError::Operator`] if a product fails, has a NaN or an infinity, or if `apply_adjoint` is not the adjoint of `apply`.
/// [`SvdError::InvalidOption`] for options that ask for a reduction, a GPU or hyperparameters.
pub fn leading_svd<T: Element<Arithmetic = T> + Scalar, A: LinearOperator<T>>(
    operator: &A,
    k: usize,
    options: &SvdOptions,
) -> Result<LeadingSvd<T>> {
    let accuracy = options.accuracy;
    let report = T::leading(operator, k, options)?;
    let svd = LeadingSvd::of(report);
    match svd.iteration {
        Iteration { reached: false, residual, products, .. } => {
            Err(SvdError::NotReached { residual, accuracy: accuracy_of::<T>(accuracy), products, found: Unfinished::new(svd) })
        }
        _ => Ok(svd),
    }
}

/// Leading singular triples of an operator, the result of [`leading_svd`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LeadingSvd<T: Scalar> {
    /// The left singular vectors, m x k.
    pub u: Mat<T>,
    /// The singular values, descending.
    pub s: Vec<<T as Number>::Real>,
    /// The right singular vectors, n x k.
    pub v: Mat<T>,
    /// max(||A v - s u||, ||A^H u - s v||) of each triple, measured.
    pub residuals: Vec<<T as Number>::Real>,
    /// The products.
    pub iteration: Iteration,
    /// Seconds of the call.
    pub seconds: f64,
}

impl<T: Scalar> LeadingSvd<T> {
    /// The triples of a [`SvdError::NotReached`], if T is the element type of its operator.
    ///
    /// ```
    /// use svdvals_gpu::{LeadingSvd, SvdError, SvdOptions, leading_svd};
    /// // No residual is smaller than what rounding leaves.
    /// let a = faer::Mat::from_fn(60, 40, |i, j| ((i * j) as f64).sin());
    /// let error = leading_svd(&a, 2, &SvdOptions::default().accuracy(1e-30)).unwrap_err();
    /// assert!(matches!(error, SvdError::NotReached { .. }));
    /// let svd = LeadingSvd::<f64>::of_error(&error).unwrap();
    /// assert!(svd.residuals[0] < 1e-12 * svd.s[0]);
    /// ```
    pub fn of_error(error: &SvdError) -> Option<&Self> {
        match error {
            SvdError::NotReached { found, .. } => found.get(),
            _ => None,
        }
    }

    fn of(report: SvdReport<Factors<T>>) -> Self {
        let Factors { u, s, v, residuals } = report.values;
        let (residuals, iteration) = (residuals.unwrap_or_default(), report.iteration.unwrap_or_default());
        LeadingSvd { u, s, v, residuals, iteration, seconds: report.seconds.total }
    }
}
