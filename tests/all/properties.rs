//! Properties of the CPU backend on random problems: every element type, shape, memory order, front end, scale and set of
//! hyperparameters, against one-sided Jacobi in double-double arithmetic.

use faer::Mat;
use half::{bf16, f16};
use num_complex::Complex;
use proptest::{option, prelude::*, sample::select};
use svdvals_gpu::{Backend, Band, Element, HalfStorage, RealElement, Stage3, SvdError, SvdOptions, SvdValsGpu, Tuning};

use crate::common::{
    eps,
    jacobi::exact,
    noise,
    problems::{Entries, Layout, Problem, Stored, close, every_element, every_scalar, fail, forall, tunings},
    stable,
};

fn cpu(tuning: Option<Tuning>) -> SvdOptions {
    let options = SvdOptions::default().backend(Backend::Cpu);
    tuning.into_iter().fold(options, SvdOptions::tuning)
}

/// All values, whatever the problem, by both front ends, which see the same memory and so do the same arithmetic.
///
/// Bound, for each value and relative to the largest: [`stable`], the backward error, by Weyl's theorem.
fn values_are_right<T: Element>() {
    forall(4000, (Problem::any(), Layout::any(), option::of(tunings())), |(problem, layout, tuning)| {
        let a: Mat<T> = problem.matrix();
        let stored = Stored::new(a.as_ref(), layout);
        let values = stored.faer().svdvals_gpu_with(&cpu(tuning.clone())).map_err(fail)?;
        close(values.iter().copied(), &exact(a.as_ref()), stable::<T::Real>(problem.rows.max(problem.cols)))?;
        let again = stored.ndarray().svdvals_gpu_with(&cpu(tuning)).map_err(fail)?;
        prop_assert!(again.iter().eq(values.iter()), "ndarray: {:?}", again);
        Ok(())
    })
    .unwrap();
}

/// One stage at a time, and all of them with bisection as the last: the same values, and a band of the width asked for.
///
/// Bounds: by stages, twice that of the whole, for the band and the bidiagonal are rounded on their way. Bisection and Newton's method see the same
/// bidiagonal, and each is relatively right to 8 (n + 8) units of f64 (src/algo/bidiag), beside one rounding to the type returned.
fn stages_agree<T: Element>() {
    forall(2000, (Problem::any(), tunings()), |(problem, tuning)| {
        let problem = Problem { scale: 0.0, ..problem };
        let (a, n) = (problem.matrix::<T>(), problem.rows.min(problem.cols));
        let options = cpu(Some(tuning.clone()));
        let values = a.svdvals_gpu_with(&options).map_err(fail)?;
        let band: Band<T::Scalar> = SvdValsGpu::to_band(&a, &options.run).map_err(fail)?;
        prop_assert_eq!((band.n(), band.bandwidth()), (n, tuning.tile_size.min(n.saturating_sub(1))));
        let by_stages = band.band_to_bidiag(&options.run).and_then(|c| c.svdvals()).map_err(fail)?;
        close(by_stages, &exact(a.as_ref()), 2.0 * stable::<T::Real>(problem.rows.max(problem.cols)))?;
        let bisected = a.svdvals_gpu_with(&options.stage3(Stage3::Bisection)).map_err(fail)?;
        let bound = 8.0 * (n + 8) as f64 * f64::EPSILON + eps::<T::Real>();
        for (&x, &y) in values.iter().zip(bisected.iter()) {
            let (x, y) = (x.to_double(), y.to_double());
            prop_assert!((x - y).abs() <= bound * y, "{:e} by default, {:e} by bisection", x, y);
        }
        Ok(())
    })
    .unwrap();
}

/// Random band matrices, all bandwidths and tile widths; bound as for the whole.
fn bands_keep_their_values<T: Element>() {
    forall(2000, (1usize..34, 0usize..34, any::<u64>(), tunings()), |(n, bandwidth, seed, tuning)| {
        let entry = |i, j| T::from_complex(Complex::new(noise(seed, i, j), noise(seed ^ 1, i, j)));
        let band = Band::from_fn(n, bandwidth, entry).map_err(fail)?;
        let dense = Mat::from_fn(n, n, |i, j| band.get(i, j));
        let values = band.band_to_bidiag(&cpu(Some(tuning)).run).and_then(|c| c.svdvals()).map_err(fail)?;
        close(values, &exact(dense.as_ref()), stable::<T::Real>(n))
    })
    .unwrap();
}

/// Of all NaNs and infinities, in the real or the imaginary part, the first in reading order is named in the caller's indices, whatever
/// lies in memory between the entries.
fn the_first_bad_entry_is_named<T: Element>() {
    let bad = (0..1000usize, 0..1000usize, select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY]), any::<bool>());
    let bad = prop::collection::vec(bad, 1..4);
    forall(1000, (1usize..150, 1usize..150, Layout::any(), bad), |(m, n, layout, bad)| {
        let mut a = Mat::from_fn(m, n, |i, j| T::from_complex(Complex::new(noise(1, i, j), noise(2, i, j))));
        let mut places = Vec::new();
        for (i, j, value, imaginary) in bad {
            let imaginary = imaginary && T::NAME.starts_with('c');
            a[(i % m, j % n)] = T::from_complex(if imaginary { Complex::new(0.5, value) } else { Complex::new(value, 0.5) });
            places.push((i % m, j % n));
        }
        let stored = Stored::new(a.as_ref(), layout);
        let results = [
            stored.faer().svdvals_gpu_with(&cpu(None)).err(),
            stored.ndarray().svdvals_gpu_with(&cpu(None)).err(),
            SvdValsGpu::to_band(&stored.faer(), &cpu(None).run).err(),
        ];
        for error in results {
            let Some(SvdError::NonFinite { row, col, .. }) = error else { return Err(fail(format!("{error:?}"))) };
            prop_assert_eq!(Some((row, col)), places.iter().min().copied());
        }
        Ok(())
    })
    .unwrap();
}

every_element!(values_are_right, the_first_bad_entry_is_named);

every_scalar!(stages_agree, bands_keep_their_values);

/// Stored as f16: right to the roundings that every entry gets, each at most u = 2^-11 of it, or 2^-25 where f16 is subnormal (entries
/// are scaled to be at most 1).
///
/// Bound: every level of every sweep of stage 1 rounds the matrix, and so does every sweep of stage 2. Roundings are random, so that
/// the square root of their number is what adds up; 8 times that is far beyond what was seen (a fifth of the bound), and still shows
/// anything that is wrong.
fn half_storage_is_right<T: Element>() {
    forall(4000, (Problem::any(), Layout::any(), option::of(tunings())), |(problem, layout, tuning)| {
        let a: Mat<T> = problem.matrix();
        let stored = Stored::new(a.as_ref(), layout);
        let values = stored.faer().svdvals_gpu_with(&cpu(tuning).half_storage(HalfStorage::Half)).map_err(fail)?;
        let roundings = 4.0 * problem.rows.max(problem.cols) as f64;
        close(values.iter().copied(), &exact(a.as_ref()), 8.0 * f64::sqrt(roundings) * 2f64.powi(-11))
    })
    .unwrap();
}

#[test]
fn half_storage_is_right_f16() {
    half_storage_is_right::<f16>();
}

#[test]
fn half_storage_is_right_bf16() {
    half_storage_is_right::<bf16>();
}

/// Element types with more than 16 bits are not stored as f16, and say so; [`HalfStorage::for_element`] asks for what the type has.
#[test]
fn half_storage_is_refused_by_other_types() {
    let a: Mat<Complex<f32>> = Problem { rows: 20, cols: 13, entries: Entries::Uniform, seed: 5, scale: 0.0 }.matrix();
    let values = |storage| a.svdvals_gpu_with(&cpu(None).half_storage(storage));
    assert!(matches!(values(HalfStorage::Half), Err(SvdError::InvalidOption { option: "half_storage", .. })));
    assert_eq!(values(HalfStorage::Half.for_element::<Complex<f32>>()), values(HalfStorage::Single));
}

/// Hyperparameters of any size: refused by name, or the values are right (to the backward error).
#[test]
fn absurd_hyperparameters_are_refused_or_harmless() {
    let size = || prop_oneof![3 => 0usize..40, 1 => select(vec![1 << 20, 1 << 40, usize::MAX / 2, usize::MAX - 1, usize::MAX])];
    forall(
        300,
        (Problem::any(), tunings(), [size(), size(), size(), size(), size(), size(), size()]),
        |(problem, base, sizes)| {
            let [tile_size, leaf, split_k, cols_per_block, tile_width, threads_per_block, max_blocks] = sizes;
            let tuning =
                base.tile_size(tile_size).leaf(leaf.saturating_add(tile_size)).split_k(split_k).cols_per_block(cols_per_block);
            let tuning = tuning.tile_width(tile_width).threads_per_block(threads_per_block).max_blocks(max_blocks);
            let a: Mat<f64> = problem.matrix();
            match a.svdvals_gpu_with(&cpu(Some(tuning.clone()))) {
                Err(SvdError::InvalidOption { .. }) => prop_assert!(tuning.check().is_err(), "{:?} is valid", tuning),
                Err(error) => return Err(fail(error)),
                Ok(values) => close(values.iter().copied(), &exact(a.as_ref()), stable::<f64>(problem.rows.max(problem.cols)))?,
            }
            Ok(())
        },
    )
    .unwrap();
}
