//! The singular value decomposition of a real upper bidiagonal matrix by divide and conquer.
//!
//! [`Plan::new`] finds the singular values, and everything that the products need, in `O(n^2)` operations. It knows only the first and the
//! last row of the right vectors of each part (the idea of LAPACK's dlasda and dlasd6 to dlasd8). [`Plan::vectors`] then consists of matrix
//! products of sizes known beforehand. [`Plan::leading`] goes from the whole matrix to its parts, for a few vectors.
//!
//! The method is that of Gu & Eisenstat (SIAM J. Matrix Anal. Appl. 16, 1995).

mod leading;
mod leaf;
mod node;
mod plan;
mod replay;
#[cfg(any(feature = "gpu", test))]
pub(crate) mod schedule;
mod secular;
#[cfg(test)]
pub(super) mod tests;

pub(crate) use plan::{LEAF, Plan};
