//! The scale of a matrix beside the rows of a ridge.

use crate::base::{
    error::{Result, SvdError},
    number::RealElement,
};

/// The largest sqrt(ridge) beside a scaled matrix, 2^60: its square, and sums of such, are within f32.
const LARGEST_ROOT: f64 = f64::from_bits((1023 + 60) << 52);

/// The power of two that brings both the matrix and the rows of sqrt(ridge) to at most about 1, and sqrt(ridge) times this power. `scale` is that of the
/// matrix alone.
///
/// # Errors
/// [`SvdError::InvalidOption`] if no power of two of this type does: for f32 if the ridge exceeds 2^372.
pub(crate) fn with_ridge<R: RealElement>(scale: R, ridge: f64) -> Result<(R, R)> {
    if ridge == 0.0 {
        return Ok((scale, R::from_double(0.0)));
    }
    let (root, limit) = (ridge.sqrt(), R::exponent_limit());
    let exponent = (-root.log2().ceil()).clamp(f64::from(-limit), f64::from(limit));
    let scale = R::from_double(scale.to_double().min(exponent.exp2()));
    let scaled = root * scale.to_double();
    if scaled > LARGEST_ROOT {
        let most = (LARGEST_ROOT * f64::from(limit).exp2()).powi(2);
        let reason = format!("{ridge:e}, but it must be at most {most:.0e} with arithmetic in {}", R::NAME);
        return Err(SvdError::invalid("ridge", reason));
    }
    Ok((scale, R::from_double(scaled)))
}

/// `scale`, unless sqrt(ridge) times it is so large that its square, or sums of such, may overflow: then the scale of [`with_ridge`].
///
/// # Errors
/// As [`with_ridge`].
pub(super) fn scale_beside<R: RealElement>(scale: R, ridge: f64) -> Result<R> {
    if ridge.sqrt() * scale.to_double() <= LARGEST_ROOT { Ok(scale) } else { Ok(with_ridge(scale, ridge)?.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The scale stays what it is up to the limit, and above it sqrt(ridge) comes to at most 1. In f64 that is so for every ridge, in f32 up to 2^372.
    #[test]
    fn scales() {
        let limit = 2f64.powi(120);
        for (scale, ridge, want) in [(1.0, limit, 1.0), (1.0, 4.0 * limit, 2f64.powi(-61)), (2f64.powi(1022), 1.0, 1.0)] {
            assert_eq!(scale_beside::<f64>(scale, ridge), Ok(want), "{scale} {ridge}");
        }
        for scale in [2f64.powi(-1022), 1.0, 2f64.powi(1022)] {
            for ridge in [0.0, 5e-324, 1.0, f64::MAX] {
                let scale = scale_beside::<f64>(scale, ridge).unwrap();
                assert!(ridge.sqrt() * scale <= LARGEST_ROOT && scale > 0.0);
            }
        }
        assert_eq!(scale_beside(1f32, 2f64.powi(240)), Ok(2f32.powi(-120)));
        assert_eq!(scale_beside(1f32, 2f64.powi(372)), Ok(2f32.powi(-126)));
        match scale_beside(1f32, 2f64.powi(374)) {
            Err(SvdError::InvalidOption { option: "ridge", reason }) => {
                assert!(reason.ends_with("at most 1e112 with arithmetic in f32"))
            }
            other => panic!("{other:?}"),
        }
    }
}
