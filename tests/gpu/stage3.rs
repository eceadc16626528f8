//! Stage 3 on the device.

use faer::Mat;
use svdvals_gpu::{
    Backend, Band, Bidiagonal, GpuContext, HalfStorage, Number, RealElement, Stage3, SvdError, SvdOptions, SvdValsGpu,
    internals::{GpuKernels, TileKernels, Transfers},
};

use crate::{
    Elements, Outcome, check,
    common::{eps, furthest, noise},
    tuning,
};

/// A kind of bidiagonal: its name, its order, and its entries.
type Kind<'a> = (&'a str, usize, &'a dyn Fn(usize, usize) -> f64);

/// Bisection on the device gives the values that f64 gives of the same bidiagonal: random ones, some with zeros, graded, clustered, and
/// of a single entry.
///
/// Bound: 4 sqrt(n) eps of each value; one below 2^-47 (f32; f64: 2^-470) of the largest may be off by 2^-58 (2^-490) of it. A count is exact for a bidiagonal whose entries are
/// changed by a few eps each, a division by 2.5 units in the last place among them; a value changes by a mean of those, weighted by its
/// vectors, and what lies below a pivot's square root is lost. (Entries of f16 are numbers of f32.) n = 1000 takes several dispatches in f64.
pub fn bisection_on_the_device<T: Elements>(context: &GpuContext) -> Outcome {
    let kernels = GpuKernels::new::<T>(context, &tuning(8, 16))?;
    let (small, lost) = if size_of::<T::Real>() == 4 { (-47, -58) } else { (-470, -490) };
    let (small, lost) = (2f64.powi(small), 2f64.powi(lost));
    let kinds: [Kind<'_>; 8] = [
        ("random", 1000, &|i, j| noise(40, i, j)),
        ("with zeros", 100, &|i, j| if (i + j) % 7 == 0 { 0.0 } else { noise(41, i, j) }),
        ("graded", 60, &|i, j| noise(42, i, j) * 0.7f64.powi(i as i32)),
        ("far apart", 24, &|i, j| if i == j { 0.25f64.powi(i as i32) } else { 0.0 }),
        ("ones", 129, &|_, _| 1.0),
        ("clustered", 80, &|i, j| if i == j { 1.0 } else { 1e-3 * noise(43, i, j) }),
        ("one entry", 1, &|_, _| 3.0),
        ("zero", 5, &|_, _| 0.0),
    ];
    for (name, n, entry) in kinds {
        let band = Band::from_fn(n, 1, |i, j| T::real(entry(i, j)).widen())?;
        let of = |i, j| band.get(i, j).to_complex().norm();
        let bidiagonal = Bidiagonal::new((0..n).map(|i| of(i, i)).collect(), (1..n).map(|j| of(j - 1, j)).collect())?;
        let want: Vec<f64> = bidiagonal.svdvals()?;
        let device = kernels.upload_band(&band, T::Real::from_double(1.0), 1)?;
        let mut got = pollster::block_on(kernels.svdvals(&device, n))?;
        got.sort_unstable_by(|x, y| y.total_cmp(x));
        check!(got.len() == n, "{name}: {} values", got.len());
        let largest = want[0];
        for (got, want) in got.iter().zip(&want) {
            let below = if *want < small * largest { lost * largest } else { 0.0 };
            let bound = 4.0 * (n as f64).sqrt() * eps::<T>() * want + below;
            check!((got - want).abs() <= bound, "{name}: {got:e}, not {want:e}; bound {bound:.1e}");
        }
        // What the accuracy of the whole is measured by has hardly an error: in f32 half a rounding to the nearest number; in f64 the
        // reference has some eps itself.
        let roundings = if size_of::<T::Real>() == 4 { 0.5 } else { 4.0 };
        let square = |values: &[f64]| values.iter().map(|x| x * x).sum::<f64>();
        let off: Vec<f64> = got.iter().zip(&want).map(|(x, y)| x - y).collect();
        check!(square(&off) <= (roundings * eps::<T>()).powi(2) * square(&want), "{name}: {:.1e} in norm", square(&off).sqrt());
    }
    Ok(())
}

/// The whole call with stage 3 on the device, where it is asked for, gives the host's values; the host refuses to play the device.
///
/// Bound: 4 sqrt(n) eps of the largest: the two differ in stage 3 alone.
pub fn values_by_the_device<T: Elements>(context: &GpuContext) -> Outcome {
    let options =
        SvdOptions::default().half_storage(HalfStorage::Half.for_element::<T>()).context(context.clone()).tuning(tuning(8, 16));
    for (m, n) in [(70, 70), (90, 31), (1, 1), (5, 0)] {
        let a = Mat::<T>::from_fn(m, n, |i, j| T::noise(44, i, j));
        let gpu = options.clone().backend(Backend::Gpu);
        let (here, there) = (a.svdvals_gpu_report(&gpu)?, a.svdvals_gpu_report(&gpu.stage3(Stage3::Device))?);
        let difference = |(x, y): (&T::Real, &T::Real)| x.to_double() - y.to_double();
        let found = furthest(here.values.iter().zip(there.values.iter()).map(difference));
        let bound = 4.0 * (n as f64).sqrt() * eps::<T>() * here.values.iter().next().map_or(0.0, |s| s.to_double());
        check!(there.values.nrows() == n && found <= bound, "{m} x {n}: {found:.1e}, bound {bound:.1e}");
        check!(n == 0 || there.counts.bytes_read_back > 0, "{:?}", there.counts);
        match a.svdvals_gpu_with(&SvdOptions::default().backend(Backend::Cpu).stage3(Stage3::Device)) {
            Err(SvdError::InvalidOption { option: "stage3", .. }) => {}
            other => return Err(format!("on the CPU: {:?}", other.map(|values| values.nrows())).into()),
        }
    }
    Ok(())
}
