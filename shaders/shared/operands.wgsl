// What the kernels of the triangular operations bind, windows of two matrices.
//
//   a         the matrix that M is a window of: M_ij = a[params.a + i a_rs + j a_cs], conjugated if asked for
//   b         the matrix that B, or what is read and written of it, is a window of, strides (b_rs, b_cs), in and out
//   factors   the scalars that alpha (and beta) are chosen from, by index

import package::scalar::{Scalar, Stored, conjugate, load};

@group(0) @binding(0) var<storage, read_write> a: array<Stored>;
@group(0) @binding(1) var<storage, read_write> b: array<Stored>;
@group(0) @binding(2) var<storage, read_write> factors: array<Scalar>;

/// The entry of a at `at`, or its conjugate.
fn entry_of_m(at: u32, conjugated: bool) -> Scalar {
    let entry = load(a[at]);
    return select(entry, conjugate(entry), conjugated);
}
