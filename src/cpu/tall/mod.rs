//! Tall matrices: the triangular factor, or A^H A, in one pass over the rows.
//!
//! | function | what | where |
//! | --- | --- | --- |
//! | [`gram`](gram::gram) | A^H A in double precision, columns sorted | single and half precision, whose products are exact there |
//! | [`cholesky_qr`](cholesky_qr::cholesky_qr) | R by Cholesky of A^H A | double precision, if well-conditioned with normalised columns |
//! | [`orthogonal`](orthogonal::orthogonal) | Q and R by CholeskyQR2 | matrices that are not too ill-conditioned |
//! | [`reconstruct`](reconstruct::reconstruct) | LAPACK's reflectors from Q | all |
//! | [`tsqr`](tsqr::tsqr) | R by Householder reflectors, leaf by leaf | everywhere else |

pub(crate) mod cholesky_qr;
pub(crate) mod gram;
pub(crate) mod leaves;
pub(crate) mod orthogonal;
pub(crate) mod products;
pub(crate) mod reconstruct;
pub(crate) mod tsqr;
