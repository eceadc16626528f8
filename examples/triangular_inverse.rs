//! The inverse of a triangular matrix: R X = I, solved in place of I; and det R, which the diagonal has.
//!
//! ```text
//! cargo run --release --example triangular_inverse
//! ```

use ndarray::Array2;
use svdvals_gpu::{
    SvdError,
    triangular::{Diag, Op, Side, TriangularGpu, Uplo},
};

fn main() -> Result<(), SvdError> {
    // Upper triangular; what is below the diagonal is never read, so that it may be anything.
    let n = 200;
    let r = Array2::from_shape_fn((n, n), |(i, j)| match i.cmp(&j) {
        std::cmp::Ordering::Less => ((i * j) as f64).sin() / n as f64,
        std::cmp::Ordering::Equal => 1.0 + i as f64 / n as f64,
        std::cmp::Ordering::Greater => f64::NAN,
    });

    let mut inverse = Array2::eye(n);
    inverse.trsm_gpu(Side::Left, Uplo::Upper, Op::NoTrans, Diag::NonUnit, 1.0, &r)?;

    // R^-1 is upper triangular too, and R^-1 R = I: a multiplication from the right, in place of the inverse.
    let mut product = inverse.clone();
    product.trmm_gpu(Side::Right, Uplo::Upper, Op::NoTrans, Diag::NonUnit, 1.0, &r)?;
    let off = (product - Array2::<f64>::eye(n)).iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    println!("{n} x {n}: largest entry of R^-1 R - I is {off:.1e}; log det R = {:.6}", r.diag().mapv(f64::ln).sum());

    // A triangle with a zero on its diagonal has no inverse, which is an error that says where.
    let mut singular = r;
    singular[(17, 17)] = 0.0;
    match inverse.trsm_gpu(Side::Left, Uplo::Upper, Op::NoTrans, Diag::NonUnit, 1.0, &singular) {
        Err(error @ SvdError::Singular { index: 17, .. }) => println!("{error}"),
        other => panic!("{other:?}"),
    }
    Ok(())
}
