//! The crate's error type.

use std::{any::Any, fmt, sync::Arc};

use crate::base::{element_kind::ElementKind, stage::Stage};

/// The error that every fallible public function returns.
///
/// ```
/// use svdvals_gpu::{Bidiagonal, SvdError};
/// match Bidiagonal::new(vec![1.0, f64::NAN], vec![0.5]) {
///     Err(SvdError::NonFinite { row, col, .. }) => assert_eq!((row, col), (1, 1)),
///     other => panic!("{other:?}"),
/// }
/// ```
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SvdError {
    /// An entry of the input is NaN or infinite. Indices are the caller's: row and column of the matrix the method was called on.
    #[error("entry ({row}, {col}) is {value}: singular values need finite entries")]
    NonFinite {
        /// Row of the first such entry in row-major order.
        row: usize,
        /// Its column.
        col: usize,
        /// The entry, as text (`NaN`, `inf`, `-inf`, `1+NaNi`).
        value: String,
    },
    /// The matrix and its workspace do not fit on the device. This is checked before anything is allocated there.
    #[error("{what} needs {needed} bytes on {adapter}, which allows {available}; Backend::Cpu has no such limit")]
    TooLarge {
        /// The allocation that is too large.
        what: &'static str,
        /// Bytes needed.
        needed: u64,
        /// Bytes the device allows.
        available: u64,
        /// Name of the adapter.
        adapter: String,
    },
    /// The device has no arithmetic, or no storage, for this element type.
    #[error("{adapter} lacks {feature}, which {element} needs; Backend::Auto or Backend::Cpu computes on the CPU{}",
        if *.feature == "SHADER_F16" { ", and HalfStorage::Single holds half types in f32" } else { "" })]
    UnsupportedElement {
        /// The element type (`f64`, `c64`; `f16` and `bf16` with [`HalfStorage::Half`](crate::HalfStorage)).
        element: &'static str,
        /// The `wgpu` feature that is missing.
        feature: &'static str,
        /// Name of the adapter.
        adapter: String,
    },
    /// A result is too large for its type, though all entries are finite.
    #[error("{what} exceed the largest {element}, {largest:e}; multiply the matrix by a power of two below 1")]
    Overflow {
        /// The result that overflows (`singular values`).
        what: &'static str,
        /// The type of the result.
        element: &'static str,
        /// The largest finite number of that type.
        largest: f64,
    },
    /// No GPU adapter was found, hardware or software.
    #[error("no GPU adapter found: {reason}; Backend::Auto or Backend::Cpu computes on the CPU")]
    NoAdapter {
        /// The message of the search for adapters.
        reason: String,
    },
    /// The GPU device was lost (driver reset, unplugged, time-out). Create a new [`GpuContext`](crate::GpuContext).
    #[error("the GPU device was lost: {reason}; make a new GpuContext, or use Backend::Cpu")]
    DeviceLost {
        /// What the driver said.
        reason: String,
    },
    /// The device or the host ran out of memory or threads at run time.
    #[error("out of memory: {reason}")]
    OutOfMemory {
        /// The failed allocation, or the driver's message.
        reason: String,
    },
    /// The device or its shader compiler rejected an operation of this crate. This is a bug in the crate or in the driver.
    #[error("the GPU refused {what}: {reason}; Backend::Cpu does without")]
    Gpu {
        /// The rejected operation.
        what: &'static str,
        /// What the driver said.
        reason: String,
    },
    /// The shapes of A and B are incompatible in a triangular operation.
    #[error("{operation} from the {side}: A is {} x {} and B {} x {}, but A must be square and of the order of B's {}",
        a.0, a.1, b.0, b.1, if *.side == "left" { "rows" } else { "columns" })]
    Shapes {
        /// `trmm` or `trsm`.
        operation: &'static str,
        /// `left` or `right`.
        side: &'static str,
        /// Rows and columns of A.
        a: (usize, usize),
        /// Rows and columns of B.
        b: (usize, usize),
    },
    /// A diagonal entry of the triangular matrix in a solve is zero, NaN or infinite.
    #[error("diagonal entry {index} of the triangle is {value}: solving divides by it")]
    Singular {
        /// Row and column of the first such entry.
        index: usize,
        /// The entry, as text.
        value: String,
    },
    /// The columns of the matrix are linearly dependent to working precision, so that a least squares problem has no unique solution.
    #[error(
        "rank {rank} of {cols} columns: the solution is not unique; lstsq_gpu finds the shortest, and a QR with SvdOptions::pivot a basic one"
    )]
    RankDeficient {
        /// The numerical rank, as far as R's diagonal shows it: at most this.
        rank: usize,
        /// The number of columns.
        cols: usize,
    },
    /// A matrix of a batch has an error: of the [`SvdValsBatchGpu`](crate::SvdValsBatchGpu) methods and of
    /// [`svdvals_batch`](crate::svdvals_batch). The forms whose name ends in `_each` return a result for each matrix instead.
    #[error("matrix {index} of the batch: {source}")]
    InBatch {
        /// The index of the first such matrix.
        index: usize,
        /// Its error.
        source: Box<SvdError>,
    },
    /// A block of rows has an error: of [`RowBlocks`](crate::RowBlocks).
    #[error("block {block} of rows: {source}")]
    InBlock {
        /// The number of blocks that were added before it.
        block: u64,
        /// Its error. The indices of an entry are those in the block; a right-hand side's column is counted after those of A.
        source: Box<SvdError>,
    },
    /// LAPACK's iteration did not converge. Feature `lapack` only: the crate's own methods always converge.
    #[error("{unreduced} superdiagonal entries did not converge to zero; Stage3::Newton always finds the values")]
    NotConverged {
        /// Number of superdiagonal entries that did not converge to zero.
        unreduced: usize,
    },
    /// An operator's product failed, or is none: of [`leading_svd`](crate::leading_svd).
    #[error("the operator's {call}: {reason}")]
    Operator {
        /// `shape`, `apply` or `apply_adjoint`.
        call: &'static str,
        /// Its error, or what is wrong with the product.
        reason: String,
    },
    /// The leading triples of an operator are not as accurate as was asked for: of [`leading_svd`](crate::leading_svd), whose error has them.
    #[error(
        "the largest residual is {residual:.1e} of the largest value after {products} products with a block, but {accuracy:.1e} was asked for"
    )]
    NotReached {
        /// The largest residual, relative to the largest singular value.
        residual: f64,
        /// What was asked for.
        accuracy: f64,
        /// Products with a block, by A and by A^H.
        products: usize,
        /// The triples: [`LeadingSvd::of_error`](crate::LeadingSvd::of_error) has them.
        found: Unfinished,
    },
    /// The call's [`CancelFlag`](crate::CancelFlag) was set.
    #[error("cancelled in stage {stage}")]
    Cancelled {
        /// The stage that was running.
        stage: Stage,
    },
    /// A file of hyperparameters cannot be read or written, or does not have the format that [`TuningTable`](crate::TuningTable#files)
    /// describes (feature `serde`).
    #[error("tuning file {path}{}{}: {reason}",
        .line.map_or(String::new(), |line| format!(", line {line}")),
        .field.as_ref().map_or(String::new(), |field| format!(", {field}")))]
    TuningFile {
        /// Path of the file.
        path: String,
        /// The line of the mistake, counted from 1; None if the file could not be read at all.
        line: Option<usize>,
        /// The invalid field as a path (`entries[0].tuning.leaf`), if the mistake is in a field.
        field: Option<String>,
        /// The mistake.
        reason: String,
    },
    /// An option, a hyperparameter or a shape is outside its range.
    #[error("invalid {option}: {reason}")]
    InvalidOption {
        /// Name of the option, field or argument.
        option: &'static str,
        /// Why the value is invalid, and the allowed range.
        reason: String,
    },
}

/// What a call had found when it gave up, for a type that knows it.
///
/// ```
/// # use svdvals_gpu::{LeadingSvd, SvdError};
/// assert!(LeadingSvd::<f64>::of_error(&SvdError::InvalidOption { option: "keep", reason: String::new() }).is_none());
/// ```
#[derive(Clone)]
pub struct Unfinished(Arc<dyn Any + Send + Sync>);

impl Unfinished {
    pub(crate) fn new<R: Any + Send + Sync>(found: R) -> Self {
        Unfinished(Arc::new(found))
    }

    pub(crate) fn get<R: Any>(&self) -> Option<&R> {
        self.0.downcast_ref()
    }
}

/// The same result of the same call.
impl PartialEq for Unfinished {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unfinished")
    }
}

impl SvdError {
    pub(crate) fn invalid(option: &'static str, reason: impl Into<String>) -> Self {
        SvdError::InvalidOption { option, reason: reason.into() }
    }

    /// The [`Overflow`](Self::Overflow) error for `what` in the real type of this arithmetic.
    pub(crate) fn overflow(kind: ElementKind, what: &'static str) -> Self {
        let largest = if kind.is_double() { f64::MAX } else { f32::MAX.into() };
        SvdError::Overflow { what, element: kind.real().name(), largest }
    }
}

/// `Result` with [`SvdError`].
///
/// ```
/// fn largest(c: &svdvals_gpu::Bidiagonal<f64>) -> svdvals_gpu::Result<f64> {
///     Ok(c.svdvals()?[0])
/// }
/// assert_eq!(largest(&svdvals_gpu::Bidiagonal::new(vec![2.0], vec![])?)?, 2.0);
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
pub type Result<T> = std::result::Result<T, SvdError>;

/// Checks that there is memory for `count` matrices of m x n elements, so that what follows need not fail. It is given back at once.
///
/// # Errors
/// [`SvdError::OutOfMemory`].
pub(crate) fn room_for<T>(what: &str, m: usize, n: usize, count: usize) -> Result<()> {
    let no_room = || SvdError::OutOfMemory { reason: format!("{what}: {count} times {m} x {n} of {} bytes", size_of::<T>()) };
    let bytes = m.checked_mul(n).and_then(|len| len.checked_mul(count)?.checked_mul(size_of::<T>())).ok_or_else(no_room)?;
    Vec::<u8>::new().try_reserve_exact(bytes).map_err(|_| no_room())
}
