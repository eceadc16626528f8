//! The route of a matrix on its backend. Only this file decides it.
//!
//! | matrix, m >= n | CPU | GPU |
//! | --- | --- | --- |
//! | one column, conditions as in the next row | its norm | as in the last two rows |
//! | n up to `direct_up_to`, not stored as f16 | directly to the bidiagonal, on one thread | as in the last two rows |
//! | the same, 3 m >= 5 n and m > 64, f32 and c32, half types in f32 | by A^H A, then directly | by R and a band |
//! | the same, f64 and c64 | by R, then directly | by R and a band |
//! | any other, 3 m >= 5 n | by R and a band | by R and a band |
//! | any other | by a band | by a band |
//!
//! [`Reduction::TwoStage`] takes the last two rows for every matrix. [`Reduction::OneStage`] takes them with the one-stage
//! reduction in place of the band.
//!
//! R is the Cholesky factor of A^H A if [`worth_cholesky`] holds and the matrix with normalised columns is well-conditioned. Otherwise it
//! is that of a Householder QR.
//!
//! QR and least squares of narrow matrices ([`is_narrow`]) try A^H A, on a CPU where its products, which are in double precision, take less time
//! than panels do:
//!
//! | | f32, half types | c32 | f64 | c64 |
//! | --- | --- | --- | --- | --- |
//! | R alone, least squares ([`squares_for_r`]) | m >= 32 n | m >= 32 n | always | always |
//! | Q and R ([`squares_for_q`]) | 8 m >= n^2 | m >= n^2 | 32 m >= n^2 | 8 m >= n^2 |
//!
//! Measured on a Zen 4, with AVX-512 and with AVX2 alone, one and two threads, n = 16 to 1024, m = 4 n to 256 n. `plan/qr.rs` and `plan/lstsq` have
//! the routes that follow.

use std::fmt;

use crate::{
    algo::to_band::qr_first,
    base::element_kind::ElementKind,
    tile::{products::Products, tuning::Tuning},
};

/// The route of a matrix from its entries to its singular values.
///
/// ```
/// # #[cfg(feature = "faer")] {
/// use svdvals_gpu::{Backend, TallReduction, Route, SvdOptions, SvdValsGpu};
/// let options = SvdOptions::default().backend(Backend::Cpu);
/// let route = |m, n| faer::Mat::from_fn(m, n, |i, j| ((i * n + j) as f32).sin()).svdvals_gpu_report(&options).unwrap().route;
/// assert_eq!(route(50, 50), Route::Direct(TallReduction::Nothing));
/// assert_eq!(route(900, 20), Route::Direct(TallReduction::Gram));
/// assert_eq!(route(300, 300), Route::Band(TallReduction::Nothing));
/// assert_eq!(route(600, 300).to_string(), "tall QR, then by a band");
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Route {
    /// The norm of a single column.
    Norm,
    /// Directly to bidiagonal form (LAPACK's `gebd2`), on one thread of the CPU.
    Direct(TallReduction),
    /// To a band, then by bulge chasing to bidiagonal form: stages 1 and 2.
    Band(TallReduction),
    /// Directly to bidiagonal form in blocks of columns and rows, on all threads or on a GPU (LAPACK's `gebrd`).
    OneStage(TallReduction),
    /// A QR factorisation ([`QrGpu`](crate::QrGpu)).
    Qr(Orthogonal),
    /// Least squares ([`LstsqGpu`](crate::LstsqGpu)).
    LeastSquares(Solver),
    /// Products with blocks of columns, until the leading triples are as accurate as [`SvdOptions::accuracy`](crate::SvdOptions::accuracy) asks.
    Krylov,
}

/// How a least squares problem is solved.
///
/// ```
/// # #[cfg(feature = "faer")] {
/// use svdvals_gpu::{Backend, LstsqGpu, LstsqOptions, Route, Solver};
/// let options = LstsqOptions::default().backend(Backend::Cpu);
/// let route = |m, n| {
///     let a = faer::Mat::from_fn(m, n, |i, j| (0.7 * (i * (j + 1)) as f64).sin());
///     a.lstsq_gpu_report(&a, &options).unwrap().route
/// };
/// assert_eq!(route(50, 40), Route::LeastSquares(Solver::Qr));
/// assert_eq!(route(9000, 5), Route::LeastSquares(Solver::Cholesky));
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Solver {
    /// Conjugate gradients (CGLS) in double precision, preconditioned by the Cholesky factor of A^H A.
    Cholesky,
    /// Householder's QR factorisation of A, or of its transpose if that is tall.
    Qr,
    /// The same, and the singular value decomposition of the triangular factor, because the columns (of a wide matrix the rows) are, or may
    /// be, linearly dependent to working precision.
    Svd,
    /// CGLS in double precision, preconditioned by R of a QR factorisation in lower precision: see [`Preconditioner`].
    Preconditioned,
    /// The same, with products of A in fixed point, on the GPU: see [`Preconditioner::Resident`].
    Resident,
    /// CGLS in double precision with the R of a recursive QR factorisation whose products are by low precision: see [`Products`].
    Recursive(Products),
}

impl fmt::Display for Solver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Solver::Recursive(products) => return write!(f, "recursive QR with {products} products, and CGLS"),
            Solver::Cholesky => "A^H A and CGLS",
            Solver::Qr => "Householder QR",
            Solver::Svd => "Householder QR and the SVD of R",
            Solver::Preconditioned => "QR in lower precision and CGLS",
            Solver::Resident => "QR in f32 and CGLS in fixed point",
        })
    }
}

/// The precision of the factorisation that least squares start from.
///
/// With one that is lower than the matrix's, the solution is found by conjugate gradients on the host in double precision (CGLS), which R
/// preconditions. Each iteration reads A once. With [`Resident`](Self::Resident) the products by A run on the GPU. The solution has the backward
/// error of a factorisation in full precision; where R shows a condition number of 1 / eps of the lower precision or more, or the iteration does
/// not converge, the factorisation is done again in full precision ([`Solver`] in the report's route says so), which is an error on a GPU without
/// f64. There `Single` and `Resident` are the way to solutions in double precision.
///
/// ```
/// use svdvals_gpu::Preconditioner;
/// assert_eq!(Preconditioner::default(), Preconditioner::Full);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Preconditioner {
    /// The matrix's own precision, or A^H A in double precision.
    #[default]
    Full,
    /// f32 or c32, for matrices that are not wide. The range of the type is no limit, because A is scaled.
    Single,
    /// f16 storage with f32 arithmetic, for real matrices that are not wide: condition numbers below 1000.
    Half,
    /// f32 as with `Single`, of f64 matrices that are not wide, and a second copy of A on the GPU, in fixed point of 56 bits, by which the
    /// iteration multiplies there: 8 bytes an entry, and integer arithmetic. It serves GPUs without f64. Vectors, sums of squares and solves with R
    /// stay on the host, in f64.
    ///
    /// Rows and columns have powers of two of their own as scales. A product with a vector has the error of 1.4 n eps at most, relative to the largest
    /// entries of a scaled row and of the scaled vector; it is typically below eps / 4 of ||A|| ||x||. Without a ridge the iteration is one for normalised columns; a column
    /// shorter than the tolerance for the rank counts for that. Singular values on request are those of A in its own precision, which needs f64. Where a CPU computes ([`Backend`](crate::Backend)), it does so with the same arithmetic. In a browser it is an error,
    /// because the iteration waits for the GPU.
    Resident,
}

impl fmt::Display for Preconditioner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Preconditioner::Full => "full",
            Preconditioner::Single => "single",
            Preconditioner::Half => "half",
            Preconditioner::Resident => "resident",
        })
    }
}

/// How a QR factorisation is computed.
///
/// ```
/// # #[cfg(feature = "faer")] {
/// use svdvals_gpu::{Backend, Orthogonal, QrGpu, QrOptions, Route};
/// let options = QrOptions::default().backend(Backend::Cpu);
/// let route = |m, n| faer::Mat::from_fn(m, n, |i, j| (0.7 * (i * (j + 1)) as f64).sin()).qr_gpu_report(&options).unwrap().route;
/// assert_eq!(route(50, 50), Route::Qr(Orthogonal::Householder));
/// assert_eq!(route(9000, 5), Route::Qr(Orthogonal::Cholesky));
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Orthogonal {
    /// Householder reflectors in panels of columns, each a reduction tree.
    Householder,
    /// Cholesky factors of A^H A, twice if Q is needed.
    Cholesky,
    /// The triangular factor by Householder reflectors, with which the columns are made orthonormal by Cholesky's factorisation.
    Preconditioned,
    /// Householder reflectors by recursion, with products by low precision: see [`Products`].
    Recursive(Products),
}

impl fmt::Display for Orthogonal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Orthogonal::Recursive(products) => return write!(f, "recursive Householder QR with {products} products"),
            Orthogonal::Householder => "Householder QR",
            Orthogonal::Cholesky => "Cholesky QR",
            Orthogonal::Preconditioned => "preconditioned Cholesky QR",
        })
    }
}

/// The way to bidiagonal form.
///
/// Two stages, through a band, need less memory traffic. One stage reads the trailing matrix twice for each column (LAPACK's
/// `gebrd`), but has fewer dependent steps on a GPU, and its reflectors are cheaper to apply to vectors.
///
/// ```
/// # #[cfg(feature = "faer")] {
/// use svdvals_gpu::{Backend, TallReduction, Reduction, Route, SvdOptions, SvdValsGpu};
/// let a = faer::Mat::from_fn(300, 300, |i, j| ((i * j) as f64).sin());
/// let options = SvdOptions::default().backend(Backend::Cpu).reduction(Reduction::OneStage);
/// assert_eq!(a.svdvals_gpu_report(&options)?.route, Route::OneStage(TallReduction::Nothing));
/// # }
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Reduction {
    /// Two stages. The CPU reduces a small matrix directly ([`Route::Direct`]).
    #[default]
    Auto,
    /// To a band, then by bulge chasing, for matrices of any size.
    TwoStage,
    /// Directly, in blocks of columns and rows whose updates of the trailing matrix are one product.
    OneStage,
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Reduction::Auto => "auto",
            Reduction::TwoStage => "two_stage",
            Reduction::OneStage => "one_stage",
        })
    }
}

/// The first reduction of a tall matrix.
///
/// ```
/// assert_eq!(svdvals_gpu::TallReduction::Gram.to_string(), "A^H A");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum TallReduction {
    /// None: the matrix itself is reduced.
    Nothing,
    /// A^H A in double precision, whose eigenvalues are the squares of the singular values.
    Gram,
    /// The triangular factor, by Cholesky factorisation of A^H A.
    Cholesky,
    /// The triangular factor, by Householder reflectors.
    Qr,
}

impl fmt::Display for TallReduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            TallReduction::Nothing => "nothing",
            TallReduction::Gram => "A^H A",
            TallReduction::Cholesky => "Cholesky's R",
            TallReduction::Qr => "tall QR",
        })
    }
}

/// As in `tall QR, then by a band`.
impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Route::Norm => f.pad("the norm of a column"),
            Route::Direct(TallReduction::Nothing) => f.pad("directly"),
            Route::Direct(first) => write!(f, "{first}, then directly"),
            Route::Band(TallReduction::Nothing) => f.pad("by a band"),
            Route::Band(first) => write!(f, "{first}, then by a band"),
            Route::OneStage(TallReduction::Nothing) => f.pad("in one stage"),
            Route::OneStage(first) => write!(f, "{first}, then in one stage"),
            Route::Qr(orthogonal) => write!(f, "{orthogonal}"),
            Route::LeastSquares(solver) => write!(f, "{solver}"),
            Route::Krylov => f.pad("block Krylov iteration"),
        }
    }
}

impl Route {
    /// The route of an m x n matrix, m >= n, stored as `S`, on the CPU. [`TallReduction::Cholesky`] is only attempted; an ill-conditioned matrix
    /// needs QR.
    pub(crate) fn on_cpu(kind: ElementKind, (m, n): (usize, usize), reduction: Reduction, tuning: &Tuning) -> Route {
        let cholesky = worth_cholesky(kind, m, n);
        let first = if cholesky { TallReduction::Cholesky } else { tall_qr(m, n) };
        match reduction {
            Reduction::OneStage => return Route::OneStage(first),
            Reduction::TwoStage => return Route::Band(first),
            Reduction::Auto if n > tuning.cpu.direct_up_to || kind.is_half() => return Route::Band(first),
            Reduction::Auto => {}
        }
        match (n, worth_a_pass(m, n)) {
            (1, _) => Route::Norm,
            (_, false) => Route::Direct(TallReduction::Nothing),
            (_, true) if !kind.is_double() => Route::Direct(TallReduction::Gram),
            (_, true) => Route::Direct(if cholesky { TallReduction::Cholesky } else { TallReduction::Qr }),
        }
    }

    /// The route of an m x n matrix, m >= n, on a GPU.
    pub(crate) fn on_gpu((m, n): (usize, usize), reduction: Reduction) -> Route {
        let first = tall_qr(m, n);
        match reduction {
            Reduction::Auto | Reduction::TwoStage => Route::Band(first),
            Reduction::OneStage => Route::OneStage(first),
        }
    }

    /// Whether the reduction to bidiagonal form has one stage on all threads, or on a GPU.
    pub(crate) fn is_one_stage(self) -> bool {
        matches!(self, Route::OneStage(_))
    }

    /// Whether the CPU can omit stage 0 for a matrix stored as `S`. Either a pass over the rows comes first and includes it, or the
    /// following arithmetic is in double precision, whose range holds the squares of all entries.
    pub(crate) fn scales_on_the_way(self, kind: ElementKind) -> bool {
        match self {
            Route::Norm | Route::Direct(TallReduction::Nothing) => !kind.is_double(),
            Route::Direct(_) => true,
            Route::Band(_) | Route::OneStage(_) | Route::Qr(_) | Route::LeastSquares(_) | Route::Krylov => false,
        }
    }

    /// Whether the call stays on its thread because it is short.
    pub(crate) fn is_short(self) -> bool {
        matches!(self, Route::Norm | Route::Direct(_))
    }
}

/// The tall QR of stage 1, if it needs fewer flops.
pub(crate) fn tall_qr(m: usize, n: usize) -> TallReduction {
    if qr_first(m, n) { TallReduction::Qr } else { TallReduction::Nothing }
}

/// Whether a small matrix gains from a reduction of its rows first. It does not if the columns are only a few registers long, or if there
/// is a single column, whose norm is the only value.
fn worth_a_pass(m: usize, n: usize) -> bool {
    qr_first(m, n) && m > 64 && n > 1
}

/// Up to so many columns, the Cholesky factor of A^H A (on one thread) and its inverse take little time.
const COLUMNS_OF_SQUARES: usize = 1024;

/// Whether Cholesky factorisation of A^H A is attempted for singular values: for matrices in double precision with so many rows a column, and so
/// many rows and entries in total, that it pays.
fn worth_cholesky(kind: ElementKind, m: usize, n: usize) -> bool {
    let few = m / 8 < n || m < 4096 || m.saturating_mul(n) < 1 << 16;
    !few && n <= COLUMNS_OF_SQUARES && kind.is_double()
}

/// Whether QR and least squares may try A^H A: for few columns, and so many rows that its passes over them may take less time than panels
/// do.
pub(crate) fn is_narrow((m, n): (usize, usize)) -> bool {
    n > 0 && n <= COLUMNS_OF_SQUARES && m / 4 >= n && m.saturating_mul(n) >= 1 << 14
}

/// Whether A^H A of a matrix stored as `S` is tried on a CPU for R alone, or for the R of least squares: m n^2 flops in double precision, half of
/// those of panels, which are in the type's own.
pub(crate) fn squares_for_r(kind: ElementKind, shape: (usize, usize)) -> bool {
    is_narrow(shape) && (kind.is_double() || shape.0 / 32 >= shape.1)
}

/// The same for Q and R. CholeskyQR2 has as many flops as panels and Q from them, 4 m n^2, half of them in double precision; but it has fewer passes
/// over the rows, which count if there are few columns.
pub(crate) fn squares_for_q(kind: ElementKind, shape: (usize, usize)) -> bool {
    let (m, n) = shape;
    let factor = match (kind.is_double(), kind.is_complex()) {
        (true, false) => 32,
        (true, true) | (false, false) => 8,
        (false, true) => 1,
    };
    is_narrow(shape) && m.saturating_mul(factor) >= n * n
}

/// Whether a pivoted QR factorisation on a CPU has no factorisation without pivoting before it. Unless the matrix is tall, the first one saves
/// nothing, and one product of reflectors is closer to unitary than two.
pub(crate) fn pivots_at_once((m, n): (usize, usize)) -> bool {
    m / 2 < n
}

#[cfg(test)]
mod tests {
    use half::f16;
    use num_complex::Complex;

    use super::*;
    use crate::base::number::Number;

    fn on_cpu<S: Number>(m: usize, n: usize) -> Route {
        Route::on_cpu(S::KIND, (m, n), Reduction::Auto, &Tuning::for_cpu::<S>(n))
    }

    /// Each row of the table above, on both sides of each limit.
    #[test]
    fn every_limit() {
        let (direct, band) = (Route::Direct(TallReduction::Nothing), Route::Band(TallReduction::Nothing));
        assert_eq!([(1, 1), (1000, 1)].map(|(m, n)| on_cpu::<f32>(m, n)), [Route::Norm; 2]);
        let most = Tuning::for_cpu::<f64>(1000).cpu.direct_up_to; // by the processor
        assert_eq!([most, most + 1].map(|n| on_cpu::<f64>(n, n)), [direct, band]);
        // 5/3 n, and more than 64 rows.
        assert_eq!([(166, 100), (167, 100)].map(|(m, n)| on_cpu::<f32>(m, n)), [direct, Route::Direct(TallReduction::Gram)]);
        assert_eq!([(64, 10), (65, 10)].map(|(m, n)| on_cpu::<Complex<f32>>(m, n)), [direct, Route::Direct(TallReduction::Gram)]);
        // In double precision: 8 n rows, 4096 rows, 65536 entries, 1024 columns.
        let (qr, cholesky) = (Route::Direct(TallReduction::Qr), Route::Direct(TallReduction::Cholesky));
        assert_eq!([(4000, 64), (4096, 64)].map(|(m, n)| on_cpu::<f64>(m, n)), [qr, cholesky]);
        assert_eq!([(6000, 4), (16384, 4)].map(|(m, n)| on_cpu::<Complex<f64>>(m, n)), [qr, cholesky]);
        let (qr, cholesky) = (Route::Band(TallReduction::Qr), Route::Band(TallReduction::Cholesky));
        assert_eq!([(4799, 600), (4800, 600), (9000, 1025)].map(|(m, n)| on_cpu::<f64>(m, n)), [qr, cholesky, qr]);
        assert_eq!([(9000, 600)].map(|(m, n)| on_cpu::<f32>(m, n)), [qr]);
        // Matrices stored as f16 always take the route by a band.
        assert_eq!([(1, 1), (900, 20)].map(|(m, n)| on_cpu::<f16>(m, n)), [band, qr]);
        // The option decides for every size.
        for (reduction, route) in
            [(Reduction::TwoStage, Route::Band as fn(TallReduction) -> Route), (Reduction::OneStage, Route::OneStage)]
        {
            let tuning = Tuning::for_cpu::<f64>(20);
            for (shape, first) in
                [((1, 1), TallReduction::Nothing), ((300, 20), TallReduction::Qr), ((9000, 20), TallReduction::Cholesky)]
            {
                assert_eq!(Route::on_cpu(f64::KIND, shape, reduction, &tuning), route(first));
                assert_eq!(Route::on_gpu(shape, reduction), route(tall_qr(shape.0, shape.1)));
            }
        }
        assert_eq!([(9, 9), (900, 20)].map(|shape| Route::on_gpu(shape, Reduction::Auto)), [band, qr]);
    }

    /// The table of A^H A, on both sides of each limit, for 256 columns; and few rows or entries, for which it is never tried.
    #[test]
    fn squares_of_narrow_matrices() {
        fn least(kind: ElementKind, tried: fn(ElementKind, (usize, usize)) -> bool) -> usize {
            let least = (256..1 << 20).find(|&m| tried(kind, (m, 256))).unwrap();
            assert!((least..least + 1000).all(|m| tried(kind, (m, 256))) && !tried(kind, (4 * 60, 60)), "{kind:?}");
            least
        }
        assert_eq!([least(ElementKind::F32, squares_for_r), least(ElementKind::F32, squares_for_q)], [32 * 256, 256 * 256 / 8]);
        assert_eq!([least(ElementKind::F16, squares_for_r), least(ElementKind::F16, squares_for_q)], [32 * 256, 256 * 256 / 8]);
        assert_eq!([least(ElementKind::F64, squares_for_r), least(ElementKind::F64, squares_for_q)], [4 * 256, 256 * 256 / 32]);
        assert_eq!([least(ElementKind::C32, squares_for_r), least(ElementKind::C32, squares_for_q)], [32 * 256, 256 * 256]);
        assert_eq!([least(ElementKind::C64, squares_for_r), least(ElementKind::C64, squares_for_q)], [4 * 256, 256 * 256 / 8]);
    }
}
