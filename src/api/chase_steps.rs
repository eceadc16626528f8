//! Stage 2, one cycle at a time.

use num_traits::Float;

use crate::{
    algo::bidiagonal::Bidiagonal,
    api::element::Element,
    base::{
        error::Result,
        number::{RealElement, Scalar},
        scale::scale_for,
    },
    cpu::kernels::CpuKernels,
    plan::{drivers::wide_band, stages::unscaled_bidiagonal},
    tile::{
        band::Band,
        chase_schedule::ReductionStep,
        kernels::{StageKernels, Transfers},
        tuning::Tuning,
    },
};

/// One bulge-chasing cycle that has run (bulge-chasing paper, section III and its Figure 2). Indices are those of the matrix.
///
/// A right Householder reflector, computed from `A[row, c0..=c1]`, zeroes that row beyond `c0` and is applied to rows `row..=c1`. Then a
/// left reflector, computed from `A[c0..=c1, c0]`, zeroes that column below `c0` and is applied to columns `c0..=last`.
///
/// ```
/// let band = svdvals_gpu::Band::from_fn(40, 8, |i, j| (i + j) as f64)?;
/// // The first sweep's bulge moves down by the bandwidth with every cycle.
/// let sweep: Vec<usize> = band.chase_steps(4)?.take_while(|cycle| cycle.sweep == 0).map(|cycle| cycle.c0).collect();
/// assert_eq!(sweep, [4, 12, 20, 28, 36]);
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChaseCycle {
    /// Superdiagonals of the band when the reduction step began (BW).
    pub bandwidth: usize,
    /// Superdiagonals that the reduction step removes (TW).
    pub tile_width: usize,
    /// Index of the sweep in the reduction step.
    pub sweep: usize,
    /// Index of the cycle in the sweep.
    pub index: usize,
    /// The row from which the right reflector is computed.
    pub row: usize,
    /// First index of both reflectors.
    pub c0: usize,
    /// Last index of both reflectors.
    pub c1: usize,
    /// Last column to which the left reflector is applied.
    pub last: usize,
}

/// Stage 2 of a band, one cycle for each [`next`](Iterator::next). [`Band::chase_steps`] creates it.
///
/// Between cycles, [`get`](Self::get) reads the current band with its bulges.
///
/// ```
/// let mut steps = svdvals_gpu::Band::from_fn(40, 8, |i, j| (i + j) as f64)?.chase_steps(4)?;
/// while let Some(cycle) = steps.next() {
///     assert!((cycle.c0 + 1..=cycle.c1).all(|k| steps.get(cycle.row, k) == 0.0 && steps.get(k, cycle.c0) == 0.0));
/// }
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
pub struct ChaseSteps<T: Element> {
    kernels: CpuKernels<T::Scalar>,
    band: <CpuKernels<T::Scalar> as StageKernels>::Banded,
    /// The remaining cycles: reduction step, sweep, cycle.
    cycles: Box<dyn Iterator<Item = (ReductionStep, usize, usize)> + Send + Sync>,
    n: usize,
    scale: T::Real,
}

impl<T: Element> Band<T> {
    /// Stage 2 one cycle at a time on the CPU, for teaching, pictures and experiments. The kernel is that of
    /// [`band_to_bidiag`](Self::band_to_bidiag) there. The order is by reduction step (each of `tile_width` superdiagonals, or what is
    /// left), then sweep, then cycle. Cycles that `band_to_bidiag` runs in parallel touch disjoint entries, so the bidiagonal is the same
    /// to the last bit.
    ///
    /// ```
    /// use svdvals_gpu::{Backend, Band, RunOptions, Tuning};
    /// let band = Band::from_fn(30, 6, |i, j| 1.0 / (1 + i + j) as f64)?;
    /// let mut steps = band.chase_steps(3)?;
    /// let first = steps.next().unwrap();
    /// assert_eq!((first.bandwidth, first.tile_width, first.row, first.c0, first.c1), (6, 3, 0, 3, 6));
    /// assert_eq!((steps.get(0, 3) != 0.0, steps.get(0, 4)), (true, 0.0)); // the row is done
    /// assert!(steps.get(5, 4) != 0.0); // and below the diagonal there is a bulge
    /// let c = steps.finish()?;
    /// let options = RunOptions::default().backend(Backend::Cpu).tuning(Tuning::for_cpu::<f64>(30).tile_width(3));
    /// assert_eq!(c, band.band_to_bidiag(&options)?);
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::InvalidOption`](crate::SvdError::InvalidOption) for a tile width of 0;
    /// [`SvdError::OutOfMemory`](crate::SvdError::OutOfMemory) if there is no memory for a copy of the band.
    pub fn chase_steps(&self, tile_width: usize) -> Result<ChaseSteps<T>> {
        let (n, bandwidth) = (self.n(), self.bandwidth());
        let kernels = CpuKernels::<T::Scalar>::new(&Tuning::for_cpu::<T>(n).tile_width(tile_width))?;
        let scale = scale_for::<T::Scalar>(self.largest(), n, n);
        let band = kernels.upload_band(&*wide_band(self)?, scale, tile_width)?;
        let cycles_of = |step: ReductionStep| {
            (0..step.sweeps()).flat_map(move |sweep| (0..step.cycles(sweep)).map(move |index| (step, sweep, index)))
        };
        let cycles = Box::new(ReductionStep::all(n, bandwidth, tile_width).flat_map(cycles_of));
        Ok(ChaseSteps { kernels, band, cycles, n, scale })
    }
}

impl<T: Element> ChaseSteps<T> {
    /// Order n.
    ///
    /// ```
    /// let band = svdvals_gpu::Band::from_fn(30, 6, |_, _| 1.0f32)?;
    /// assert_eq!(band.chase_steps(3)?.n(), 30);
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn n(&self) -> usize {
        self.n
    }

    /// The current entry (i, j), bulges included. It is zero outside the band and outside the matrix. (Arithmetic is in double precision;
    /// the result is rounded to the type.)
    ///
    /// ```
    /// let band = svdvals_gpu::Band::from_fn(30, 6, |i, j| (i + 2 * j) as f64)?;
    /// let mut steps = band.chase_steps(6)?;
    /// assert_eq!(steps.get(2, 7), 16.0); // as it was
    /// steps.next();
    /// assert_eq!(steps.get(0, 2), 0.0); // of the first row two entries are left
    /// assert_eq!(steps.get(30, 0), 0.0); // there is no such row
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn get(&self, i: usize, j: usize) -> T::Scalar {
        self.kernels.entry(&self.band, i, j).times(Float::recip(self.scale))
    }

    /// Runs the remaining cycles and returns the bidiagonal.
    ///
    /// ```
    /// let band = svdvals_gpu::Band::from_fn(30, 6, |i, j| (i + 2 * j) as f64)?;
    /// let mut steps = band.chase_steps(6)?;
    /// println!("{} cycles to see", steps.by_ref().take(10).count());
    /// let c = steps.finish()?; // the others, unseen
    /// assert_eq!(c.diagonal().len(), 30);
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::Overflow`](crate::SvdError::Overflow) if an entry is beyond the type's range.
    pub fn finish(mut self) -> Result<Bidiagonal<T::Real>> {
        self.by_ref().for_each(drop);
        unscaled_bidiagonal(&self.kernels, &self.band, self.scale.to_double())
    }
}

impl<T: Element> Iterator for ChaseSteps<T> {
    type Item = ChaseCycle;

    fn next(&mut self) -> Option<ChaseCycle> {
        let (step, sweep, index) = self.cycles.next()?;
        let at = self.kernels.chase_cycle(&mut self.band, &step, sweep, index);
        let ReductionStep { bandwidth, tile_width, .. } = step;
        Some(ChaseCycle { bandwidth, tile_width, sweep, index, row: at.row, c0: at.c0, c1: at.c1, last: at.last })
    }
}

impl<T: Element> std::fmt::Debug for ChaseSteps<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChaseSteps").field("element", &T::NAME).field("n", &self.n).finish_non_exhaustive()
    }
}
