//! Properties of the GPU backend: random problems, shapes, scales, hard matrices, bad input in the midst of good, in every element type.

use std::thread;

use faer::{Mat, MatRef};
use num_complex::Complex;
use proptest::sample::select;
use svdvals_gpu::{
    Backend, Band, Element, GpuContext, HalfStorage, PanelTree, RealElement, SvdError, SvdOptions, SvdValsGpu, Tuning,
};

use crate::{
    Body, Elements, Outcome, check,
    common::{
        eps, hard,
        jacobi::exact,
        noise,
        problems::{Layout, Problem, Stored, close, fail, forall, smallest},
        stable,
    },
    tuning,
};

/// The trials of one element type.
pub fn trials<T: Elements>() -> Vec<(&'static str, Body)> {
    vec![
        ("random_problems", random_problems::<T>),
        ("sides_around_every_boundary", sides_around_every_boundary::<T>),
        ("tall_and_wide", tall_and_wide::<T>),
        ("structured_matrices", structured_matrices::<T>),
        ("scales", scales::<T>),
        ("hard_matrices", hard_matrices::<T>),
        ("half_storage", half_storage::<T>),
    ]
}

/// Those that conversion to f32 and back could fail.
pub fn of_half_types<T: Elements>() -> Vec<(&'static str, Body)> {
    vec![
        ("random_problems", random_problems::<T>),
        ("scales", scales::<T>),
        ("hard_matrices", hard_matrices::<T>),
        ("half_storage", half_storage::<T>),
    ]
}

fn gpu(context: &GpuContext) -> SvdOptions {
    SvdOptions::default().context(context.clone()).backend(Backend::Gpu)
}

/// A matrix of small integers, which every type holds exactly.
fn integers<T: Element>(m: usize, n: usize) -> Mat<T> {
    let part = |seed, i, j| (4.0 * noise(seed, i, j)).round();
    Mat::from_fn(m, n, |i, j| T::from_complex(Complex::new(part(71, i, j), part(72, i, j))))
}

/// Three sets of hyperparameters, for shaders are compiled anew for each: the device's defaults, a tree of small tiles, a chain.
fn tunings<T: Element>(context: &GpuContext) -> [Tuning; 3] {
    [Tuning::for_adapter::<T>(context, 33), tuning(8, 16), tuning(5, 15).tree(PanelTree::Flat)]
}

/// Random problems of every kind, scale and memory order, as on the CPU (tests/all/properties.rs), and their bands.
///
/// Bound, for each value and relative to the largest: [`stable`], the backward error, by Weyl's theorem; twice that by stages.
fn random_problems<T: Elements>(context: &GpuContext) -> Outcome {
    let tunings = tunings::<T>(context);
    forall(300, (Problem::any(), Layout::any(), select(tunings.to_vec())), |(problem, layout, tuning)| {
        if problem.rows * problem.cols == 0 {
            return Ok(());
        }
        let a: Mat<T> = problem.matrix();
        let (options, reference) = (gpu(context).tuning(tuning), exact(a.as_ref()));
        let bound = stable::<T::Real>(problem.rows.max(problem.cols));
        let stored = Stored::new(a.as_ref(), layout);
        let values = stored.faer().svdvals_gpu_with(&options).map_err(fail)?;
        close(values.iter().copied(), &reference, bound)?;
        if problem.scale == 0.0 {
            let band: Band<T::Scalar> = SvdValsGpu::to_band(&a, &options.run).map_err(fail)?;
            let by_stages = band.band_to_bidiag(&options.run).and_then(|c| c.svdvals()).map_err(fail)?;
            close(by_stages, &reference, 2.0 * bound)?;
        }
        Ok(())
    })?;
    Ok(())
}

/// Sides at, before and after tiles and leaves, thin ones, none at all; bound [`stable`], the backward error.
fn sides_around_every_boundary<T: Elements>(context: &GpuContext) -> Outcome {
    let options = gpu(context).tuning(tuning(8, 16));
    let sides = [
        (0, 0),
        (0, 9),
        (9, 0),
        (1, 1),
        (1, 40),
        (40, 1),
        (7, 8),
        (8, 7),
        (8, 8),
        (9, 9),
        (15, 17),
        (17, 16),
        (33, 15),
        (16, 33),
    ];
    for (m, n) in sides {
        let a: Mat<T> = integers(m, n);
        // Lines that lie apart, also where they are empty.
        let layout = Layout { by_rows: m < 9 || n == 0, steps: (1, 1), padding: 2, reversed: (m % 2 == 1, false) };
        let values = Stored::new(a.as_ref(), layout).faer().svdvals_gpu_with(&options)?;
        close(values.iter().copied(), &exact(a.as_ref()), stable::<T::Real>(m.max(n))).map_err(|e| format!("{m} x {n}: {e}"))?;
    }
    Ok(())
}

/// 2^14 x 8 and its transpose, columns Walsh functions times 1 to 8: the values are 128 k. Bound: 16 units for the tree's levels (seen
/// are a quarter of it), times the 8 columns.
fn tall_and_wide<T: Elements>(context: &GpuContext) -> Outcome {
    let walsh = |i: usize, j: usize| if (i & j).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
    let tall: Mat<T> = Mat::from_fn(1 << 14, 8, |i, j| T::from_complex(Complex::from(walsh(i, j) * (j + 1) as f64)));
    let reference: Vec<f64> = (1..=8).rev().map(|k| 128.0 * f64::from(k)).collect();
    for a in [tall.as_ref(), tall.transpose()] {
        let values = a.svdvals_gpu_with(&gpu(context))?;
        close(values.iter().copied(), &reference, 16.0 * 8.0 * eps::<T::Real>()).map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// Structure that makes reflectors trivial, zero rows and columns in places; zero matrices have exact zeros. Bound: [`stable`].
fn structured_matrices<T: Elements>(context: &GpuContext) -> Outcome {
    type Keep = fn(usize, usize) -> bool;
    let kinds: [(&str, Keep); 9] = [
        ("zero", |_, _| false),
        ("diagonal", |i, j| i == j),
        ("bidiagonal", |i, j| i == j || i + 1 == j),
        ("band", |i, j| i <= j && j <= i + 8),
        ("triangular", |i, j| i <= j),
        ("one entry", |i, j| (i, j) == (17, 11)),
        ("zero rows", |i, _| !(7..17).contains(&i) && i != 0),
        ("zero columns", |_, j| !(7..17).contains(&j) && j != 23),
        ("every other", |i, j| i % 2 == 0 && j % 2 == 1),
    ];
    for (name, keep) in kinds {
        let mut a: Mat<T> = integers(30, 24);
        for (i, j) in (0..24).flat_map(|j| (0..30).map(move |i| (i, j))).filter(|&(i, j)| !keep(i, j)) {
            a[(i, j)] = T::from_complex(Complex::ZERO);
        }
        let values = a.svdvals_gpu_with(&gpu(context).tuning(tuning(8, 16)))?;
        close(values.iter().copied(), &exact(a.as_ref()), stable::<T::Real>(30)).map_err(|e| format!("{name}: {e}"))?;
        check!(name != "zero" || values.iter().all(|x| x.to_double() == 0.0), "a zero matrix: {values:?}");
    }
    Ok(())
}

/// A power of two multiplies every value exactly, from subnormal entries to ones whose squares overflow; full mantissas at both ends of
/// the exponents, alone and mixed, give values right to [`stable`].
fn scales<T: Elements>(context: &GpuContext) -> Outcome {
    let options = gpu(context).tuning(tuning(8, 16));
    let (low, high, ends): (i32, i32, &[f64]) = match T::NAME {
        "f16" => (-24, 12, &[65504.0, 6e-5, 6e-8]),
        "bf16" => (-133, 118, &[1e36, 1e-37, 1e-40]),
        "f32" | "c32" => (-149, 118, &[1e36, 1e-37, 1e-42, 1e19]),
        _ => (-1074, 1010, &[1e300, 1e-300, 1e-320, 1e155]),
    };
    let times = |x: f64, power: i32| x * 2f64.powi(power / 2) * 2f64.powi(power - power / 2);
    let plain: Mat<T> = integers(20, 17);
    let values = plain.svdvals_gpu_with(&options)?;
    for power in [low, low / 2, high] {
        let scaled = |x: T| T::from_complex(Complex::new(times(x.to_complex().re, power), times(x.to_complex().im, power)));
        let a = Mat::from_fn(20, 17, |i, j| scaled(plain[(i, j)]));
        for (found, x) in a.svdvals_gpu_with(&options)?.iter().zip(values.iter()) {
            let (found, want) = (found.to_double(), T::Real::from_double(times(x.to_double(), power)).to_double());
            // Values that are not normal numbers of their type have been rounded once more.
            let (normal, unit) = smallest::<T::Real>();
            let allowed = if want < normal { unit } else { 0.0 };
            check!((found - want).abs() <= allowed, "2^{power}: {found:e}, not {want:e}");
        }
    }
    for k in 0..=ends.len() {
        let scale = |i: usize, j: usize| if k == ends.len() { ends[(i / 10 + j / 10) % ends.len()] } else { ends[k] };
        let part = |seed, i, j| noise(seed, i, j) * scale(i, j);
        let a: Mat<T> = Mat::from_fn(27, 23, |i, j| T::from_complex(Complex::new(part(73, i, j), part(74, i, j))));
        let values = a.svdvals_gpu_with(&options)?;
        close(values.iter().copied(), &exact(a.as_ref()), stable::<T::Real>(27)).map_err(|e| format!("scale {k}: {e}"))?;
    }
    Ok(())
}

/// The classical hard matrices, rounded to the type. Bound: [`stable`].
fn hard_matrices<T: Elements>(context: &GpuContext) -> Outcome {
    for (name, a) in hard::matrices() {
        let a: Mat<T> = Mat::from_fn(a.nrows(), a.ncols(), |i, j| T::from_complex(a[(i, j)].into()));
        let values = match a.svdvals_gpu_with(&gpu(context)) {
            Err(SvdError::NonFinite { .. }) if T::NAME == "f16" => continue, // Pascal's largest entries
            values => values?,
        };
        close(values.iter().copied(), &exact(a.as_ref()), stable::<T::Real>(a.nrows())).map_err(|e| format!("{name}: {e}"))?;
    }
    Ok(())
}

/// Half types stored as f16 on the device: values within some roundings of f16 (8 times the square root of a generous number of them,
/// 4 n), at every scale; or a refusal that names what the device lacks. Other types are refused.
fn half_storage<T: Elements>(context: &GpuContext) -> Outcome {
    let options = gpu(context).tuning(tuning(8, 16));
    for scale in [0.0, -1.0, 1.0] {
        let entries = crate::common::problems::Entries::Uniform;
        let a: Mat<T> = Problem { rows: 40, cols: 31, entries, seed: 75, scale }.matrix();
        let half = match a.svdvals_gpu_with(&options.clone().half_storage(HalfStorage::Half)) {
            Err(SvdError::UnsupportedElement { .. }) if T::NAME.ends_with("f16") => return Ok(()),
            Err(SvdError::InvalidOption { option: "half_storage", .. }) if !T::NAME.ends_with("f16") => return Ok(()),
            half => half?,
        };
        check!(T::NAME.ends_with("f16"), "HalfStorage::Half of {}", T::NAME);
        close(half.iter().copied(), &exact(a.as_ref()), 8.0 * 160f64.sqrt() * 2f64.powi(-11)).map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// Eight threads on one context, of which every other makes calls that fail: NaN, absurd hyperparameters, a matrix of 2^40 entries. Each
/// gets its own error, the first entry in reading order where that is the matter, and the others the values that one thread alone gets.
pub fn failures_stay_with_their_caller<T: Elements>(context: &GpuContext) -> Outcome {
    let options = gpu(context).tuning(tuning(8, 16));
    let good: Mat<T> = integers(33, 21);
    let mut bad = good.clone();
    for at in [(5, 20), (5, 7), (30, 1)] {
        bad[at] = T::from_complex(Complex::new(f64::NAN, 0.0));
    }
    let alone = good.svdvals_gpu_with(&options)?;
    let one = T::from_complex(Complex::ONE);
    let fails = || -> Outcome {
        match bad.svdvals_gpu_with(&options) {
            Err(SvdError::NonFinite { row: 5, col: 7, .. }) => {}
            other => return Err(format!("NaN at (5, 7): {other:?}").into()),
        }
        match bad.transpose().reverse_rows().svdvals_gpu_with(&options) {
            Err(SvdError::NonFinite { row: 0, col: 5, .. }) => {}
            other => return Err(format!("NaN at (0, 5): {other:?}").into()),
        }
        match good.svdvals_gpu_with(&options.clone().tuning(tuning(4096, 1 << 14))) {
            Err(SvdError::InvalidOption { option: "tile_size", .. }) => {}
            other => return Err(format!("a tile of 4096: {other:?}").into()),
        }
        // SAFETY: every entry of this matrix is the one number behind the pointer.
        let huge = unsafe { MatRef::from_raw_parts(&raw const one, 1 << 20, 1 << 20, 0, 0) };
        match huge.svdvals_gpu_with(&options) {
            Err(SvdError::TooLarge { needed, available, .. }) => check!(needed > available, "{needed} of {available}"),
            other => return Err(format!("2^40 entries: {other:?}").into()),
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|k| {
                let (good, options, alone, fails) = (&good, &options, &alone, &fails);
                scope.spawn(move || -> Result<(), String> {
                    if k % 2 == 0 {
                        return fails().map_err(|e| e.message().unwrap_or("failed").to_owned());
                    }
                    let values = good.svdvals_gpu_with(options).map_err(|e| e.to_string())?;
                    if values == *alone { Ok(()) } else { Err(format!("thread {k} got other values")) }
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| Ok(thread.join().map_err(|_| "a thread panicked")??))
    })
}
