//! What a caller may choose.
//!
//! | file | options of |
//! | --- | --- |
//! | `run.rs` | every call: where and how it runs |
//! | `mod.rs` | singular values, and the singular value decomposition |
//! | `qr.rs`, `lstsq.rs` | QR factorisations, least squares |
//! | `honoured.rs` | the errors for options that a call cannot honour, and the text of a report |

mod honoured;
mod lstsq;
mod qr;
mod run;

use std::fmt;

pub(crate) use honoured::{Named, Takes};
pub use {lstsq::LstsqOptions, qr::QrOptions, run::RunOptions};

use crate::{
    algo::{bidiagonal::Stage3, leading::Leading},
    base::{
        error::{Result, SvdError},
        number::{HalfStorage, RealElement},
    },
    plan::route::Reduction,
};

/// Where stages 1 and 2 run.
///
/// ```
/// use svdvals_gpu::{Backend, SvdOptions};
/// assert_eq!(SvdOptions::default().run.backend, Backend::Auto);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Backend {
    /// A hardware GPU if it can hold the matrix in its element type and would take less time than the CPU, by estimates of both, else the CPU. Never a
    /// software rasteriser. The report's reason has the seconds, or says what else decided.
    #[default]
    Auto,
    /// A GPU, a software rasteriser if there is no other, or an error.
    Gpu,
    /// The CPU, through rayon, in the thread pool of the caller.
    Cpu,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Backend::Auto => "auto",
            Backend::Gpu => "gpu",
            Backend::Cpu => "cpu",
        })
    }
}

/// The singular vectors that [`svd_gpu`](crate::SvdGpu) computes. A is m x n, and k = min(m, n), or fewer with [`SvdOptions::keep`] or
/// [`SvdOptions::tolerance`].
///
/// | | U | V |
/// | --- | --- | --- |
/// | `Thin` | m x k | n x k |
/// | `Full` | m x m | n x n |
/// | `Left` | m x k | n x 0 |
/// | `Right` | m x 0 | n x k |
///
/// ```
/// assert_eq!(svdvals_gpu::Vectors::default(), svdvals_gpu::Vectors::Thin);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Vectors {
    /// A left and a right singular vector for each value.
    #[default]
    Thin,
    /// Unitary matrices: the thin ones, completed by orthonormal columns.
    Full,
    /// Left singular vectors alone.
    Left,
    /// Right singular vectors alone.
    Right,
}

impl fmt::Display for Vectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Vectors::Thin => "thin",
            Vectors::Full => "full",
            Vectors::Left => "left",
            Vectors::Right => "right",
        })
    }
}

/// The signs of singular vectors. A pair (u_j, v_j) is determined up to a common factor of modulus 1, for real matrices a sign.
///
/// ```
/// assert_eq!(svdvals_gpu::Signs::default(), svdvals_gpu::Signs::Free);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Signs {
    /// As they are computed. They may differ between backends and hyperparameters.
    #[default]
    Free,
    /// The entry of u_j with the largest modulus, the first one on ties, is real and positive. Without a U, that of v_j is. A column that
    /// belongs to no singular value ([`Vectors::Full`]) is treated on its own.
    Largest,
}

impl fmt::Display for Signs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Signs::Free => "free",
            Signs::Largest => "largest",
        })
    }
}

/// Options of [singular values](crate::SvdValsGpu) and of the [singular value decomposition](crate::SvdGpu).
///
/// ```
/// use svdvals_gpu::{Backend, SvdOptions, Tuning};
/// let options = SvdOptions::default().keep(3).backend(Backend::Cpu).tuning(Tuning::for_cpu::<f32>(100).tile_width(8));
/// assert_eq!((options.keep, options.run.backend), (Some(3), Backend::Cpu));
/// ```
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default, deny_unknown_fields))]
#[non_exhaustive]
pub struct SvdOptions {
    /// Where and how the call runs.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub run: RunOptions,
    /// The singular vectors that [`svd_gpu`](crate::SvdGpu) computes. Singular values alone have none.
    pub vectors: Vectors,
    /// The largest number of singular values, and of vectors, that a call returns. None is min(m, n).
    pub keep: Option<usize>,
    /// The smallest singular value that a call returns, relative to the largest. None is 0.
    pub tolerance: Option<f64>,
    /// The largest residual of a triple, relative to the largest singular value. None computes them to the precision of the arithmetic.
    pub accuracy: Option<f64>,
    /// Chooses the random columns that an iteration begins with.
    pub seed: u64,
    /// The signs of the singular vectors.
    pub signs: Signs,
    /// The way to bidiagonal form.
    pub reduction: Reduction,
    /// The method of stage 3, which finds the singular values of the bidiagonal.
    pub stage3: Stage3,
}

run::run_methods!(SvdOptions);

impl SvdOptions {
    /// Chooses the way to bidiagonal form.
    ///
    /// ```
    /// use svdvals_gpu::{Reduction, SvdOptions};
    /// assert_eq!(SvdOptions::default().reduction(Reduction::TwoStage).reduction, Reduction::TwoStage);
    /// ```
    pub fn reduction(mut self, reduction: Reduction) -> Self {
        self.reduction = reduction;
        self
    }

    /// Chooses the method of stage 3.
    ///
    /// ```
    /// use svdvals_gpu::{Stage3, SvdOptions};
    /// assert_eq!(SvdOptions::default().stage3(Stage3::Bisection).stage3, Stage3::Bisection);
    /// ```
    pub fn stage3(mut self, stage3: Stage3) -> Self {
        self.stage3 = stage3;
        self
    }

    /// Chooses the singular vectors that [`svd_gpu`](crate::SvdGpu) computes.
    ///
    /// ```
    /// # #[cfg(feature = "ndarray")] {
    /// use svdvals_gpu::{SvdGpu, SvdOptions, Vectors};
    /// let a = ndarray::Array2::from_shape_fn((30, 20), |(i, j)| ((i * j) as f64).sin());
    /// let svd = a.svd_gpu_with(&SvdOptions::default().vectors(Vectors::Right))?;
    /// assert_eq!((svd.u.dim(), svd.s.len(), svd.vt.dim()), ((30, 0), 20, (20, 20)));
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn vectors(mut self, vectors: Vectors) -> Self {
        self.vectors = vectors;
        self
    }

    /// Makes a call return at most the `count` largest singular values, and [`svd_gpu`](crate::SvdGpu) their vectors; that one not with
    /// [`Vectors::Full`]. Without vectors they are bit for bit the first of all the values. Stages 1 and 2 take as long as for all values. Stage 3 takes
    /// less time, unless it is LAPACK's.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{SvdGpu, SvdOptions, SvdValsGpu};
    /// let a = faer::Mat::from_fn(30, 20, |i, j| ((i * j) as f64).sin());
    /// let five = SvdOptions::default().keep(5);
    /// assert_eq!(a.svdvals_gpu_with(&five)?.as_ref(), a.svdvals_gpu()?.subrows(0, 5));
    /// let svd = a.svd_gpu_with(&five)?;
    /// assert_eq!((svd.u.shape(), svd.s.nrows(), svd.v.shape()), ((30, 5), 5, (20, 5)));
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn keep(mut self, count: usize) -> Self {
        self.keep = Some(count);
        self
    }

    /// Makes a call return the singular values of at least `tolerance` times the largest, and [`svd_gpu`](crate::SvdGpu) their vectors; that one not with
    /// [`Vectors::Full`]. `tolerance` is between 0 and 1. Without vectors the values are bit for bit the first of all of them. Stage 3 takes less time on
    /// the CPU, unless it is LAPACK's.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{SvdGpu, SvdOptions, SvdValsGpu};
    /// let a = faer::mat![[4.0f64, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 1.0]];
    /// let large = SvdOptions::default().tolerance(0.4);
    /// assert_eq!(a.svdvals_gpu_with(&large)?.nrows(), 2);
    /// let svd = a.svd_gpu_with(&large)?;
    /// assert_eq!((svd.u.ncols(), svd.s.nrows(), svd.v.ncols()), (2, 2, 2));
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn tolerance(mut self, tolerance: f64) -> Self {
        self.tolerance = Some(tolerance);
        self
    }

    /// Lets the triples that [`keep`](Self::keep) leaves have residuals ||A v - s u|| and ||A^H u - s v|| of up to `accuracy` times the largest singular
    /// value. The values are then off by about the square of that, as long as the next ones are not too near. Where it takes less time than a reduction,
    /// by an estimate, the call multiplies A and A^H by blocks of columns until the residuals are that small
    /// ([`Route::Krylov`](crate::Route::Krylov)); where it turns out that it would take longer, it reduces the matrix after all. Either way the result has
    /// measured `residuals`. [`reduction`](Self::reduction) and [`stage3`](Self::stage3) say how a reduction is done,
    /// and so do hyperparameters, of which an iteration on the CPU has none. The same `seed`, backend and matrix give the same bits. `accuracy` is above 0 and at most 1, and needs
    /// [`keep`](Self::keep).
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{Backend, Route, SvdGpu, SvdOptions};
    /// let a = faer::Mat::from_fn(600, 500, |i, j| 1.0 / (1.0 + (i + 2 * j) as f64));
    /// let options = SvdOptions::default().keep(4).accuracy(1e-4).backend(Backend::Cpu);
    /// let report = a.svd_gpu_report(&options)?;
    /// assert_eq!(report.route, Route::Krylov);
    /// println!("{report}"); // so many products, and the largest residual
    /// let svd = report.values;
    /// let residuals = svd.residuals.unwrap();
    /// let of_first = (&a * svd.v.col(0) - svd.s[0] * svd.u.col(0)).norm_l2();
    /// assert!(of_first <= residuals[0] + 1e-14 && residuals[0] <= 1e-4 * svd.s[0]);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn accuracy(mut self, accuracy: f64) -> Self {
        self.accuracy = Some(accuracy);
        self
    }

    /// Chooses the random columns that the iteration of [`accuracy`](Self::accuracy) begins with. 0 without it.
    ///
    /// ```
    /// use svdvals_gpu::SvdOptions;
    /// assert_eq!(SvdOptions::default().keep(3).accuracy(1e-3).seed(7).seed, 7);
    /// ```
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Chooses the signs of the singular vectors.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{Signs, SvdGpu, SvdOptions};
    /// let a = faer::mat![[-3.0f64, 0.0], [0.0, 2.0]];
    /// let svd = a.svd_gpu_with(&SvdOptions::default().signs(Signs::Largest))?;
    /// assert!((svd.u[(0, 0)] - 1.0).abs() < 1e-14 && (svd.v[(0, 0)] + 1.0).abs() < 1e-14);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn signs(mut self, signs: Signs) -> Self {
        self.signs = signs;
        self
    }

    /// Whether the options ask for what a device alone has.
    pub(crate) fn need_device(&self) -> bool {
        self.stage3 == Stage3::Device
    }

    /// Checks the options of a decomposition with vectors.
    pub(crate) fn check_svd(&self) -> Result<()> {
        check_tolerance(self.tolerance)?;
        self.check_accuracy()?;
        let limit = self.keep.map(|_| "keep").or(self.tolerance.map(|_| "tolerance"));
        match limit {
            Some(option) if self.vectors == Vectors::Full => {
                Err(SvdError::invalid(option, "Vectors::Full has all columns; Vectors::Thin, Left and Right may have fewer"))
            }
            _ => Ok(()),
        }
    }

    /// Checks the options of `call`, which computes singular values alone.
    pub(crate) fn check_values(&self, call: &str) -> Result<()> {
        check_tolerance(self.tolerance)?;
        self.check_accuracy()?;
        if self.accuracy.is_some() && self.run.half_storage == HalfStorage::Half {
            return Err(SvdError::invalid(
                "half_storage",
                "HalfStorage::Half, but with an accuracy matrices are multiplied as they are",
            ));
        }
        let without = |option, value| Err(SvdError::invalid(option, format!("{value}, but {call} computes no vectors")));
        match (self.vectors, self.signs) {
            (Vectors::Thin, Signs::Free) => Ok(()),
            (Vectors::Thin, signs) => without("signs", format!("Signs::{signs:?}")),
            (vectors, _) => without("vectors", format!("Vectors::{vectors:?}")),
        }
    }

    /// Checks the options of leading triples.
    fn check_accuracy(&self) -> Result<()> {
        match self.accuracy {
            Some(accuracy) if !(accuracy > 0.0 && accuracy <= 1.0) => {
                Err(SvdError::invalid("accuracy", format!("{accuracy}, but it is relative: above 0 and at most 1")))
            }
            Some(_) if self.keep.is_none() => Err(SvdError::invalid(
                "accuracy",
                "it is one of leading triples, and keep says how many; without it all are computed",
            )),
            None if self.seed != 0 => Err(SvdError::invalid("seed", "nothing is random without an accuracy")),
            _ => Ok(()),
        }
    }

    /// Checks that `call`, which reduces its matrices, is not asked for less than that.
    pub(crate) fn check_reduced(&self, call: &str) -> Result<()> {
        match self.accuracy {
            Some(accuracy) => Err(SvdError::invalid("accuracy", format!("{accuracy}, but {call} is computed to full precision"))),
            None => Ok(()),
        }
    }

    /// Checks the options of `call`, which begins with a band.
    pub(crate) fn check_of_band(&self, call: &str) -> Result<()> {
        self.check_reduced(call)?;
        match self.reduction {
            Reduction::Auto | Reduction::TwoStage => Ok(()),
            reduction => Err(SvdError::invalid(
                "reduction",
                format!("Reduction::{reduction:?}, but {call} has a band, the first of two stages"),
            )),
        }
    }

    /// The number of leading values that [`keep`](Self::keep) and [`tolerance`](Self::tolerance) leave, of values in descending order.
    pub(crate) fn kept<R: RealElement>(&self, values: &[R]) -> usize {
        self.leading().of(values)
    }

    /// The values that [`keep`](Self::keep) and [`tolerance`](Self::tolerance) leave.
    pub(crate) fn leading(&self) -> Leading {
        Leading { count: self.keep.unwrap_or(usize::MAX), tolerance: self.tolerance.unwrap_or(0.0) }
    }
}

/// Checks that a tolerance is relative.
pub(crate) fn check_tolerance(tolerance: Option<f64>) -> Result<()> {
    match tolerance.filter(|tolerance| !(0.0..=1.0).contains(tolerance)) {
        Some(tolerance) => Err(SvdError::invalid("tolerance", format!("{tolerance}, but it is relative: 0 to 1"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smaller of `keep` and the number of values of at least the tolerance; a value equal to it stays.
    #[test]
    fn kept_values() {
        let options = SvdOptions::default();
        let values = [4.0f32, 2.0, 1.0, 0.0];
        assert_eq!((options.kept(&values), options.kept::<f64>(&[])), (4, 0));
        assert_eq!([0.0, 0.25, 0.3, 1.0].map(|tolerance| options.clone().tolerance(tolerance).kept(&values)), [4, 3, 2, 1]);
        assert_eq!([0, 1, 9].map(|keep| options.clone().keep(keep).kept(&values)), [0, 1, 4]);
        assert_eq!(options.clone().tolerance(0.25).keep(2).kept(&values), 2);
        assert_eq!(options.tolerance(0.5).kept(&[0.0, 0.0]), 2); // all values are equal to the largest
    }

    #[test]
    fn options_of_vectors_are_checked() {
        let option = |options: SvdOptions| match options.check_svd() {
            Ok(()) => "",
            Err(SvdError::InvalidOption { option, .. }) => option,
            Err(error) => panic!("{error}"),
        };
        let options = SvdOptions::default();
        assert_eq!([0.0, 1.0].map(|tolerance| option(options.clone().keep(3).tolerance(tolerance))), [""; 2]);
        assert_eq!([f64::NAN, -0.1, 1.1].map(|tolerance| option(options.clone().tolerance(tolerance))), ["tolerance"; 3]);
        let full = options.vectors(Vectors::Full);
        assert_eq!([full.clone(), full.clone().keep(3), full.tolerance(0.0)].map(option), ["", "keep", "tolerance"]);
    }
}
