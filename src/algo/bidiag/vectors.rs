//! stub
use crate::base::{blas::Side, error::Result, number::RealElement, watch::Watch};
use faer::Mat;
pub(crate) fn vectors<R: RealElement>(d: &[f64], e: &[f64], side: Side, k: usize, _: &Watch) -> Result<Mat<R>> {
    let n = d.len();
    let b = Mat::from_fn(n, n, |i, j| {
        if i == j {
            d[i]
        } else if j == i + 1 {
            e[i]
        } else {
            0.0
        }
    });
    let svd = b.svd().unwrap();
    let x = if side == Side::Right { svd.V() } else { svd.U() };
    Ok(Mat::from_fn(n, k, |i, j| R::from_double(x[(i, j)])))
}
