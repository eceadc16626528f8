//! What a spectrum says of its matrix.

/// Parts of the energy, sum sigma_i^2, for which the table has a rank.
pub const PARTS: [f64; 3] = [0.9, 0.99, 0.999];

/// Of singular values sigma_1 >= sigma_2 >= ... >= sigma_n >= 0. None: not defined, for a matrix of zeros.
#[derive(Debug, PartialEq)]
pub struct Statistics {
    pub largest: f64,
    pub smallest: f64,
    /// sigma_1 / sigma_n; infinite where sigma_n is zero.
    pub condition: Option<f64>,
    /// ||A||_F^2 / ||A||_2^2 = sum sigma_i^2 / sigma_1^2. (Rudelson and Vershynin, *Sampling from large matrices*, 2007.)
    pub stable_rank: Option<f64>,
    /// exp(-sum p_i ln p_i), p_i = sigma_i / sum sigma_j. (Roy and Vetterli, *The effective rank: a measure of effective dimensionality*,
    /// EUSIPCO 2007.)
    pub effective_rank: Option<f64>,
    /// The fewest values that hold each of [`PARTS`] of the energy.
    pub energy_ranks: [usize; 3],
    /// Values of at least eps sigma_1, eps that of the arithmetic. The others are its rounding errors, whatever the matrix has there.
    pub resolved: usize,
}

impl Statistics {
    /// `sigma` descending, not empty; `eps` of the arithmetic that they come from.
    pub fn of(sigma: &[f64], eps: f64) -> Statistics {
        let (largest, smallest) = (sigma[0], sigma[sigma.len() - 1]);
        let parts = energies(sigma);
        // Squares of sigma_i / sigma_1 neither overflow nor, where they count, underflow.
        let some = |value: f64| (largest > 0.0).then_some(value);
        let rank_for = |part: f64| parts.partition_point(|&held| held < part) + 1;
        let sum: f64 = sigma.iter().map(|s| s / largest).sum();
        let entropy: f64 = sigma.iter().map(|s| s / largest / sum).filter(|&p| p > 0.0).map(|p| -p * p.ln()).sum();
        Statistics {
            largest,
            smallest,
            condition: some(largest / smallest),
            stable_rank: some(sigma.iter().map(|s| (s / largest).powi(2)).sum()),
            effective_rank: some(entropy.exp()),
            energy_ranks: PARTS.map(|part| if largest > 0.0 { rank_for(part) } else { 0 }),
            resolved: sigma.iter().take_while(|&&s| s > 0.0 && s >= eps * largest).count(),
        }
    }
}

/// The part of the energy that the k largest values hold, k = 1, 2, ...; the last is exactly 1. Of zeros, zeros.
pub fn energies(sigma: &[f64]) -> Vec<f64> {
    let largest = sigma.first().copied().unwrap_or_default();
    if largest == 0.0 {
        return vec![0.0; sigma.len()];
    }
    let mut held = 0.0;
    let sums: Vec<f64> = sigma
        .iter()
        .map(|s| {
            held += (s / largest).powi(2);
            held
        })
        .collect();
    sums.iter().map(|sum| sum / held).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All k values equal: every rank is k and the condition number 1. The bound: sums of k terms in f64, and one exp of ln k.
    #[test]
    fn a_flat_spectrum_has_full_rank() {
        for k in [1, 7, 1000] {
            for scale in [1.0, 1e-300, 1e300] {
                let s = Statistics::of(&vec![scale; k], f64::EPSILON);
                let bound = 4.0 * k as f64 * f64::EPSILON * k as f64;
                assert_eq!((s.condition, s.resolved), (Some(1.0), k));
                assert!((s.stable_rank.unwrap() - k as f64).abs() <= bound);
                assert!((s.effective_rank.unwrap() - k as f64).abs() <= 10.0 * bound, "{s:?}");
                assert_eq!(s.energy_ranks, PARTS.map(|part| (part * k as f64).ceil() as usize));
            }
        }
    }

    /// By hand: sigma = 4, 1, 0. The bound: a handful of roundings in f64.
    #[test]
    fn a_small_spectrum_by_hand() {
        let s = Statistics::of(&[4.0, 1.0, 0.0], f64::EPSILON);
        assert_eq!((s.largest, s.smallest, s.condition), (4.0, 0.0, Some(f64::INFINITY)));
        assert_eq!(s.stable_rank, Some(17.0 / 16.0));
        // exp(-(4/5) ln(4/5) - (1/5) ln(1/5)) = 5 / 4^(4/5)
        assert!((s.effective_rank.unwrap() - 5.0 / 4f64.powf(0.8)).abs() < 1e-14);
        assert_eq!((s.energy_ranks, s.resolved), ([1, 2, 2], 2)); // 16/17 in the first
        assert_eq!(energies(&[4.0, 1.0, 0.0]), [16.0 / 17.0, 1.0, 1.0]);
    }

    /// Zeros have no condition number and no rank, and nothing divides by zero.
    #[test]
    fn zeros() {
        let s = Statistics::of(&[0.0, 0.0], 1e-7);
        assert_eq!((s.condition, s.stable_rank, s.effective_rank), (None, None, None));
        assert_eq!((s.energy_ranks, s.resolved), ([0; 3], 0));
        assert_eq!(energies(&[0.0, 0.0]), [0.0, 0.0]);
    }
}
