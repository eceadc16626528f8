//! Tall matrices on the CPU that go by way of a band: their triangular factor first, where it can be had for less than by stage 1's kernels.

use faer::MatRef;

use crate::{
    cpu::{CpuKernels, cholesky_qr},
    error::Result,
    kernels::{HeldBy, TileKernels},
    options::Tuning,
    progress::Watch,
    report::{Clock, StageSeconds},
    scalar::{Element, Re, RealElement},
    solve::{Solve, Source},
};

impl<T: Element> Solve<'_, T> {
    /// Stages 1 to 3 on the CPU: of the triangular factor, where that of a tall matrix can be had for less than stage 1 takes for it.
    pub(crate) async fn run_on_cpu<S>(
        &self,
        kernels: &CpuKernels<S>,
        tuning: &Tuning,
        watch: &Watch,
    ) -> Result<(Vec<T::Real>, StageSeconds)>
    where
        S: Element<Real = T::Real, Scalar = T::Scalar>,
    {
        let clock = Clock::new(self.timed);
        let factor = cholesky_qr(self.a, watch)?;
        let factoring = clock.seconds();
        let (values, mut seconds) = match factor {
            Some((r, scale)) => {
                let solve =
                    Solve::<T, _> { a: Scaled(r.as_ref()), scale, options: self.options, timed: self.timed, start: self.start };
                solve.run(kernels, tuning, watch).await?
            }
            None => self.run(kernels, tuning, watch).await?,
        };
        seconds.to_band += factoring;
        Ok((values, seconds))
    }
}

/// A matrix that stands for another one times a power of two, which its [`Solve`] has: nothing is left to scale.
struct Scaled<'a, T>(MatRef<'a, T>);

impl<T: HeldBy<K>, K: TileKernels> Source<K> for Scaled<'_, T> {
    fn shape(&self) -> (usize, usize) {
        self.0.shape()
    }

    fn upload(&self, kernels: &K, _: Re<T>) -> Result<K::Dense> {
        kernels.upload(self.0, Re::<T>::from_double(1.0))
    }
}
