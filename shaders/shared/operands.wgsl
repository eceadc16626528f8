// The bindings of the kernels of the triangular operations: windows of two matrices.
//
//   a         the matrix of which M is a window: M_ij = a[params.a + i a_rs + j a_cs], conjugated if a flag says so
//   b         the matrix of which B, or its submatrices X and C, are windows, strides (b_rs, b_cs), in and out
//   factors   scalars; alpha (and beta) are given as indices into them

import package::scalar::{Scalar, Stored, conjugate, load};

@group(0) @binding(0) var<storage, read_write> a: array<Stored>;
@group(0) @binding(1) var<storage, read_write> b: array<Stored>;
@group(0) @binding(2) var<storage, read_write> factors: array<Scalar>;

/// The entry of a at `at`, or its conjugate.
fn entry_of_m(at: u32, conjugated: bool) -> Scalar {
    let entry = load(a[at]);
    return select(entry, conjugate(entry), conjugated);
}
