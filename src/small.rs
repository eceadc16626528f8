//! Small matrices on the CPU, and tall ones with few columns: straight to bidiagonal form, with no band between.

use crate::{
    bidiagonal::Bidiagonal,
    cpu::{bidiagonal_directly, cholesky_qr, gram, norm, tsqr},
    error::Result,
    options::Tuning,
    progress::{Stage, Watch, flops_directly},
    report::{Clock, StageSeconds},
    scalar::{Element, Re, RealElement, Scalar},
    scale::{by_lines, power_of_two_scale},
    solve::{Solve, qr_first, unscaled},
};

impl<T: Element> Solve<'_, T> {
    /// All of it on the CPU, for a matrix so small that a band between would cost more than it saves.
    pub(crate) fn run_small(&self) -> Result<(Vec<T::Real>, StageSeconds)> {
        let mut clock = Clock::new(self.timed);
        let mut seconds = StageSeconds::default();
        let (m, n) = self.a.shape();
        let tall = joins_rows(m, n);
        let watch = Watch::new(self.options, self.start, || Ok(flops_directly(m, n, tall)))?;
        watch.begin(Stage::ToBand)?;
        let one = Re::<T>::from_double(1.0);
        // Which of a matrix and its transpose is reduced makes no difference to its values, but to how fast it is read. An entry that is not
        // finite, where nobody has looked, makes the bidiagonal such, which stage 3 refuses.
        let a = if m == n { by_lines(self.a) } else { self.a };
        let ((diagonal, superdiagonal), power) = if n == 1 {
            watch.begin(Stage::BandToBidiag)?;
            ((vec![norm(a, self.scale)], Vec::new()), Power::First(self.scale))
        } else if !tall {
            watch.begin(Stage::BandToBidiag)?;
            (bidiagonal_directly(a, self.scale)?, Power::First(self.scale))
        } else if T::Scalar::IS_DOUBLE {
            let (r, scale) = match cholesky_qr(a, &watch)? {
                Some(factor) => factor,
                None => tsqr(a, &watch)?,
            };
            seconds.to_band = clock.restart();
            watch.begin(Stage::BandToBidiag)?;
            (bidiagonal_directly(r.as_ref(), one)?, Power::First(scale))
        } else {
            let squares = gram(a, &watch)?;
            seconds.to_band = clock.restart();
            watch.begin(Stage::BandToBidiag)?;
            let scale = power_of_two_scale::<<T::Scalar as Scalar>::Wide, <T::Scalar as Scalar>::Wide>(squares.as_ref())?;
            (bidiagonal_directly(squares.as_ref(), scale)?, Power::Second(scale))
        };
        seconds.band_to_bidiag = clock.restart();
        watch.begin(Stage::Svdvals)?;
        let values = match power {
            Power::First(scale) => self.stage_three(diagonal, superdiagonal, scale, &watch)?,
            Power::Second(scale) => {
                let squares = Bidiagonal::new(diagonal, superdiagonal)?.svdvals_for::<f64>(self.options.stage3, &watch)?;
                let values = unscaled(squares, scale, "eigenvalues of A^H A")?.into_iter().map(f64::sqrt).collect();
                unscaled(values, one, "singular values")?
            }
        };
        seconds.svdvals = clock.restart();
        watch.end();
        Ok((values, seconds))
    }
}

/// What a small matrix's bidiagonal form has: the singular values, or their squares, times a scale.
enum Power<R> {
    First(R),
    Second(f64),
}

/// Whether the CPU goes straight to the bidiagonal.
pub(crate) fn is_direct<S: Element>(tuning: &Tuning, n: usize) -> bool {
    n <= tuning.direct && !S::IS_HALF
}

/// Whether a small matrix is worth a pass over its rows first, by [`tsqr`] or [`gram`]: not where they are few registers long, nor where its
/// only value is the norm of its only column.
fn joins_rows(m: usize, n: usize) -> bool {
    qr_first(m, n) && m > 64 && n > 1
}

/// Whether the CPU needs no stage 0 of its own for an m x n matrix: a pass over the rows comes first and does that too, or what follows is
/// done in a precision that holds the squares of any entries.
pub(crate) fn reads_once<S: Element>(tuning: &Tuning, m: usize, n: usize) -> bool {
    let (m, n) = (m.max(n), m.min(n));
    (joins_rows(m, n) || !S::Scalar::IS_DOUBLE) && is_direct::<S>(tuning, n)
}
