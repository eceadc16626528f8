//! A matrix at low rank: U_k S_k V_k^H and how far it is from A.

use std::time::Instant;

use half::{bf16, f16};
use ndarray::{Array2, s};
use num_complex::Complex;
use svdvals_gpu::{ArraySvd, Backend, Element, Number, RealElement, SvdError, SvdGpu, SvdOptions, SvdReport, SvdValsGpu};
use svdvals_gpu_gallery::files::matrix::Matrix;

use crate::arguments::RANKS;

/// The factors of matrices of this order and more have residuals of so much of the largest value.
const LARGE: usize = 2000;
const ACCURACY: f64 = 1e-5;

/// What to compute.
pub struct Request<'a> {
    pub backend: Backend,
    pub ranks: Option<&'a [usize]>,
    pub error: Option<f64>,
    /// Whether the matrix is wanted at each rank, for its picture.
    pub images: bool,
}

/// A at several ranks.
pub struct LowRank {
    /// All singular values, descending.
    pub values: Vec<f64>,
    /// max(m, n) eps: how far a measured error may be from the predicted one.
    pub rounding: f64,
    /// Bytes of a number in U and V, and of one in S.
    pub sizes: (usize, usize),
    pub backend: String,
    /// Of the values alone, and of the factors of the largest rank.
    pub seconds: [f64; 2],
    /// The moduli of A's entries, where they are negative if A is real; None where no images are wanted.
    pub image: Option<Array2<f64>>,
    /// Ascending.
    pub ranks: Vec<Rank>,
    pub factors: Factors,
}

/// A at one rank.
pub struct Rank {
    pub k: usize,
    /// ||A - U_k S_k V_k^H||_F / ||A||_F, measured in f64.
    pub error: f64,
    /// The same by the dropped values: sqrt(sum_{i > k} sigma_i^2) / ||A||_F.
    pub predicted: f64,
    pub image: Option<Array2<f64>>,
}

/// U, S and V^H of the largest rank.
pub enum Factors {
    F32(ArraySvd<f32>),
    F64(ArraySvd<f64>),
    C32(ArraySvd<Complex<f32>>),
    C64(ArraySvd<Complex<f64>>),
}

impl LowRank {
    pub fn of(a: &Matrix, request: &Request<'_>) -> Result<LowRank, String> {
        match a {
            // Vectors of half types are f32.
            Matrix::F16(a) => low_rank::<f16, f64>(a, request, |ArraySvd { u, s, vt, residuals }| {
                Factors::F32(ArraySvd { u, s, vt, residuals })
            }),
            Matrix::Bf16(a) => low_rank::<bf16, f64>(a, request, |ArraySvd { u, s, vt, residuals }| {
                Factors::F32(ArraySvd { u, s, vt, residuals })
            }),
            Matrix::F32(a) => low_rank::<_, f64>(a, request, Factors::F32),
            Matrix::F64(a) => low_rank::<_, f64>(a, request, Factors::F64),
            Matrix::C32(a) => low_rank::<_, Complex<f64>>(a, request, Factors::C32),
            Matrix::C64(a) => low_rank::<_, Complex<f64>>(a, request, Factors::C64),
        }
    }

    /// Bytes of the factors of rank k of an m x n matrix.
    pub fn bytes(&self, (m, n): (usize, usize), k: usize) -> usize {
        k * ((m + n) * self.sizes.0 + self.sizes.1)
    }

    /// The error of each rank from 0 to min(m, n), by the dropped values.
    pub fn predictions(&self) -> Vec<f64> {
        predictions(&self.values)
    }
}

/// The error of each rank from 0 to the number of values.
fn predictions(values: &[f64]) -> Vec<f64> {
    let largest = values.first().copied().unwrap_or_default();
    if largest == 0.0 {
        return vec![0.0; values.len() + 1];
    }
    // From the smallest on, which large ones would swallow.
    let mut tail = vec![0.0];
    for value in values.iter().rev() {
        tail.push(tail[tail.len() - 1] + (value / largest).powi(2));
    }
    let all = tail[values.len()];
    tail.into_iter().rev().map(|dropped| (dropped / all).sqrt()).collect()
}

/// `W` is f64, or Complex<f64> for complex matrices.
fn low_rank<T, W>(a: &Array2<T>, request: &Request<'_>, wrap: impl FnOnce(ArraySvd<T>) -> Factors) -> Result<LowRank, String>
where
    T: Element,
    W: Element,
{
    let said = |error: SvdError| error.to_string();
    let options = SvdOptions::default().backend(request.backend);
    // All values cost little beside the vectors, and say which vectors are wanted.
    let SvdReport { values, backend, adapter, reason, seconds, .. } = a.svdvals_gpu_report(&options).map_err(said)?;
    let values: Vec<f64> = values.iter().map(|value| value.to_double()).collect();
    let predictions = predictions(&values);
    let ranks = chosen(&predictions, request)?;
    let start = Instant::now();
    let options = options.keep(ranks[ranks.len() - 1]);
    // The error of a rank is off by about the square of the residuals: less than a picture or a table shows.
    let options = if a.nrows().min(a.ncols()) >= LARGE { options.accuracy(ACCURACY) } else { options };
    let svd = a.svd_gpu_with(&options).map_err(said)?;
    let seconds = [seconds.total, start.elapsed().as_secs_f64()];

    let widen = |x: T::Scalar| W::Scalar::from_complex(x.to_complex());
    let wide = ArraySvd::<W> {
        u: svd.u.mapv(widen),
        s: svd.s.mapv(|s| W::Real::from_double(s.to_double())),
        vt: svd.vt.mapv(widen),
        residuals: None,
    };
    let a_wide = a.mapv(|x| x.to_complex());
    let norm = frobenius(a_wide.iter().copied());
    let mut found = Vec::new();
    for k in ranks {
        let first = ArraySvd::<W> {
            u: wide.u.slice(s![.., ..k]).to_owned(),
            s: wide.s.slice(s![..k]).to_owned(),
            vt: wide.vt.slice(s![..k, ..]).to_owned(),
            residuals: None,
        };
        let at_rank: Array2<W::Scalar> = first.reconstruct().map_err(said)?;
        let distance = frobenius(a_wide.iter().zip(&at_rank).map(|(x, y)| x - y.to_complex()));
        let error = if norm > 0.0 { distance / norm } else { distance };
        let image = request.images.then(|| at_rank.mapv(|x| grey::<T>(x.to_complex())));
        found.push(Rank { k, error, predicted: predictions[k], image });
    }
    let eps = <T::Real as num_traits::Float>::epsilon().to_double();
    let backend = adapter.map_or_else(|| backend.to_string(), |adapter| format!("{backend}, {adapter}"));
    Ok(LowRank {
        values,
        rounding: a.nrows().max(a.ncols()) as f64 * eps,
        sizes: (size_of::<T::Scalar>(), size_of::<T::Real>()),
        backend: format!("{backend} ({reason})"),
        seconds,
        image: request.images.then(|| a_wide.mapv(grey::<T>)),
        ranks: found,
        factors: wrap(svd),
    })
}

/// The ranks asked for, and the one that an error needs, ascending.
fn chosen(predictions: &[f64], request: &Request<'_>) -> Result<Vec<usize>, String> {
    let most = predictions.len() - 1;
    let mut ranks = match request.ranks {
        Some(ranks) => {
            if let Some(k) = ranks.iter().find(|&&k| k > most) {
                return Err(format!("rank {k}: the matrix has {most} singular values"));
            }
            ranks.to_vec()
        }
        None if request.error.is_some() => Vec::new(),
        None => RANKS.into_iter().filter(|&k| k < most).collect(),
    };
    // Rank 0 has no factors to show.
    ranks.extend(request.error.map(|error| predictions.partition_point(|&predicted| predicted > error).clamp(1, most)));
    if ranks.is_empty() {
        ranks.push(most);
    }
    ranks.sort_unstable();
    ranks.dedup();
    Ok(ranks)
}

/// A real entry, or the modulus of a complex one.
fn grey<T: Element>(x: Complex<f64>) -> f64 {
    if T::NAME.starts_with('c') { x.norm() } else { x.re }
}

/// sqrt(sum |x|^2), of numbers scaled by the largest, so that no square overflows.
fn frobenius(entries: impl Iterator<Item = Complex<f64>> + Clone) -> f64 {
    let largest = entries.clone().fold(0.0, |most, x| f64::max(most, x.re.abs().max(x.im.abs())));
    if largest == 0.0 {
        return 0.0;
    }
    largest * entries.map(|x| (x / largest).norm_sqr()).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values 4, 2, 1: errors 1, sqrt(5/21), sqrt(1/21), 0. The bound: four operations in f64.
    #[test]
    fn predicted_errors() {
        for scale in [1.0, 1e-300, 1e300] {
            let found = predictions(&[4.0 * scale, 2.0 * scale, scale]);
            let wanted = [1.0, (5.0f64 / 21.0).sqrt(), (1.0f64 / 21.0).sqrt(), 0.0];
            assert!(found.iter().zip(wanted).all(|(x, y)| (x - y).abs() <= 4.0 * f64::EPSILON), "{found:?}");
        }
        assert_eq!((predictions(&[0.0, 0.0]), predictions(&[])), (vec![0.0; 3], vec![0.0]));
    }

    /// The smallest rank whose error is small enough; at least 1, and never more than there are values.
    #[test]
    fn ranks() {
        let errors = [1.0, 0.5, 0.2, 0.0];
        let ranks =
            |ranks: Option<&[usize]>, error| chosen(&errors, &Request { backend: Backend::Cpu, ranks, error, images: false });
        for (error, k) in [(1.0, 1), (0.5, 1), (0.49, 2), (0.2, 2), (0.1, 3), (0.0, 3)] {
            assert_eq!(ranks(None, Some(error)), Ok(vec![k]), "{error}");
        }
        assert_eq!(ranks(Some(&[1, 3]), Some(0.2)), Ok(vec![1, 2, 3]));
        assert_eq!(ranks(None, None), Ok(vec![3]));
        assert!(ranks(Some(&[4]), None).unwrap_err().contains("rank 4"));
    }
}
