//! What an iteration with blocks of columns takes, and what a reduction does, in flops of a matrix product; and when an iteration is given up for a
//! reduction.
//!
//! | | flops of products |
//! | --- | --- |
//! | a step with b columns: A X and A^H Y | 1.3 (4 m n b) |
//! | each made orthonormal, in two passes, against 2.5 b columns | 20 (m + n) b^2 |
//! | the decomposition of a matrix of order 2.5 b, in double precision | 80 (2.5 b)^3 |
//! | a reduction with k vectors of each side (`plan/choice/seconds.rs`) | 1.17 F + 22/3 n^2 k + 4 m n k + 7800 n^2 |
//!
//! F is that of `seconds.rs`. An iteration takes about 2 + log10(1 / accuracy) steps where the values decrease like 1 / i (NumPy: 5 and 8 for 1e-3 and 1e-6).

use crate::{
    algo::{krylov::Progress, to_band::qr_first},
    base::{
        error::Result,
        stage::Stage,
        watch::{Listen, Watch},
    },
};

/// Flops of an iteration for leading triples, and of a reduction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Estimate {
    pub step: f64,
    pub reduction: f64,
}

/// Steps until residuals are this small, for values that decrease slowly but surely.
pub(crate) fn usual_steps(accuracy: f64) -> usize {
    2 + (-accuracy.log10()).ceil().clamp(1.0, 16.0) as usize
}

impl Estimate {
    /// Those of `count` triples of an m x n matrix, by blocks of so many columns.
    pub fn new((m, n): (usize, usize), count: usize, block: usize) -> Estimate {
        let (l, s) = (m.max(n) as f64, m.min(n) as f64);
        let (k, b) = (count as f64, block as f64);
        let d = (2.5 * b).min(s);
        let step = 5.2 * l * s * b + 8.0 * (l + s) * b * d + 80.0 * d.powi(3);
        let f = if qr_first(m.max(n), m.min(n)) {
            2.0 * l * s * s + 2.0 * s.powi(3)
        } else {
            4.0 * l * s * s - 4.0 / 3.0 * s.powi(3)
        };
        let reduction = 1.17 * f + 22.0 / 3.0 * s * s * k + 4.0 * l * s * k + 7800.0 * s * s;
        Estimate { step, reduction }
    }

    /// The estimate for an operator, which cannot be reduced.
    pub fn without_reduction(self) -> Estimate {
        Estimate { reduction: f64::INFINITY, ..self }
    }

    /// Whether an iteration is likely to take less time.
    pub fn iterates(&self, accuracy: f64) -> bool {
        self.step * (usual_steps(accuracy) as f64) < self.reduction
    }
}

/// Units of the progress of an iteration.
pub(crate) const UNITS: u64 = 10_000;

/// Watches an iteration: tells the listeners, and says when to end it.
pub(crate) struct Guard {
    pub watch: Watch,
    /// Knows whether the call is cancelled, and tells nobody of progress: for kernels, which would count flops.
    pub quiet: Watch,
    pub estimate: Estimate,
    pub accuracy: f64,
    /// Columns of products, at most.
    pub most_columns: usize,
    /// The residual after each step.
    pub residuals: Vec<f64>,
    /// Units told.
    pub told: u64,
}

impl Guard {
    pub fn new(listen: &Listen, estimate: Estimate, accuracy: f64, most_columns: usize) -> Result<Guard> {
        let watch = Watch::new(listen, || Ok([UNITS, 0, 0, 0]))?;
        let quiet = Watch::new(&Listen { progress: None, ..listen.clone() }, || Ok([0; 4]))?;
        for watch in [&watch, &quiet] {
            watch.begin(Stage::Iteration)?;
        }
        Ok(Guard { watch, quiet, estimate, accuracy, most_columns, residuals: Vec::new(), told: 0 })
    }

    /// Whether the iteration goes on after a step that did not end it.
    pub fn go_on(&mut self, progress: &Progress) -> Result<bool> {
        self.residuals.push(progress.residual);
        let (first, now) = (self.residuals[0].max(2.0 * self.accuracy), progress.residual);
        let digits = ((first / now).ln() / (first / self.accuracy).ln()).clamp(0.0, 1.0);
        let reached = ((digits * UNITS as f64) as u64).max(self.told);
        self.watch.did(reached - self.told)?;
        self.told = reached;
        Ok(progress.columns < self.most_columns && !self.takes_longer())
    }

    /// Whether the steps so far, or those that are missing at the speed of the last three, take longer than a reduction.
    fn takes_longer(&self) -> bool {
        let (steps, step, reduction) = (self.residuals.len(), self.estimate.step, self.estimate.reduction);
        if step * steps as f64 >= reduction {
            return true;
        }
        let &[.., before, _, _, now] = &self.residuals[..] else { return false };
        let digits_of_step = (before / now).log10() / 3.0;
        let missing = (now / self.accuracy).log10();
        reduction.is_finite() && missing * step > reduction * digits_of_step.max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(residual: f64, columns: usize) -> Progress {
        Progress { residual, columns, ..Progress::default() }
    }

    /// A few of many are iterated for, many of few are not, and neither are all; more digits take more steps.
    #[test]
    fn worthwhile() {
        let iterates = |m, n, k: usize, accuracy| Estimate::new((m, n), k, (k + 10).min(n)).iterates(accuracy);
        for (m, n, k) in [(4096, 4096, 64), (1000, 1000, 5), (100_000, 2000, 10), (2000, 100_000, 10)] {
            assert!(iterates(m, n, k, 1e-3) && iterates(m, n, k, 1e-6), "{m} x {n}, {k}");
        }
        for (m, n, k) in [(4096, 4096, 4096), (4096, 4096, 1500), (40, 40, 10), (1000, 1000, 300)] {
            assert!(!iterates(m, n, k, 1e-3), "{m} x {n}, {k}");
        }
        assert_eq!([1.0, 1e-3, 1e-6, 1e-300].map(usual_steps), [3, 5, 8, 18]);
    }

    /// Residuals that fall go on; those that do not end it after four steps, and an operator's only with its columns. Without residuals left nothing
    /// overflows.
    #[test]
    fn ends() {
        let estimate = Estimate { step: 1.0, reduction: 20.0 };
        let guard = |estimate| Guard::new(&Listen::default(), estimate, 1e-6, 1000).unwrap();
        fn ended(guard: &mut Guard, mut residuals: impl Iterator<Item = f64>) -> Option<usize> {
            residuals.position(|residual| !guard.go_on(&progress(residual, 10)).unwrap())
        }
        assert_eq!(ended(&mut guard(estimate), (0..8).map(|k| 0.1f64.powi(k))), None);
        assert_eq!(ended(&mut guard(estimate), [1e-2; 20].into_iter()), Some(3));
        assert_eq!(ended(&mut guard(estimate), (0..99).map(|k| 0.4f64.powi(k).max(1.1e-6))), Some(18)); // four alike
        let of_operator = estimate.without_reduction();
        assert_eq!(ended(&mut guard(of_operator), [1e-2; 50].into_iter()), None);
        assert!(!guard(of_operator).go_on(&progress(1e-2, 1000)).unwrap());
        assert!(guard(of_operator).go_on(&progress(0.0, 10)).unwrap());
    }
}
