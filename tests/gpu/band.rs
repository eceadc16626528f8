//! Stage 2's kernels: bands to and from the device, `chase`.

use faer::{Mat, linalg::solvers::Svd};
use libtest_mimic::Failed;
use num_complex::Complex;
use svdvals_gpu::{
    Band, GpuContext, Number, RealElement, Scalar, Tuning,
    internals::{CpuKernels, GpuKernels, ReductionStep, StageKernels, TileKernels, Transfers},
};

use crate::{
    Elements, Outcome, check,
    common::{Kind, complex_noise, distance, eps, furthest, row_major, widen},
    tuning,
};

/// Packing, unpacking, uploading and downloading bands copy entries, scaled by powers of two, exactly.
pub fn bands_are_copied_exactly<T: Elements>(context: &GpuContext) -> Outcome {
    let kernels = GpuKernels::new::<T>(context, &tuning(8, 16))?;
    let [one, two, half] = [1.0, 2.0, 0.5].map(T::Real::from_double);
    for (m, n, bandwidth, tile_width) in
        [(1, 1, 0, 1), (2, 2, 1, 1), (5, 3, 2, 1), (40, 40, 8, 3), (300, 257, 7, 7), (20, 20, 19, 18)]
    {
        let a = Mat::<T::Scalar>::from_fn(m, n, |i, j| T::noise(9, i, j).widen());
        let want = Band::from_fn(n, bandwidth, |i, j| T::Scalar::from_complex(a[(i, j)].to_complex() * 2.0))?;
        let swapped = row_major(&a);
        for source in [a.as_ref(), swapped.as_ref().transpose()] {
            let packed = kernels.pack_band(&kernels.upload(source, one)?, n, bandwidth, tile_width)?;
            check!(kernels.download_band(packed, bandwidth, two)? == want, "pack_band {n}, {bandwidth}, {tile_width}");
        }
        let again = kernels.upload_band(&want, half, tile_width)?;
        check!(kernels.download_band(again, bandwidth, two)? == want, "upload_band {n}, {bandwidth}, {tile_width}");
        let (diagonal, superdiagonal) =
            pollster::block_on(kernels.bidiagonal(&kernels.upload_band(&want, half, tile_width)?))?.moduli();
        check!(diagonal.len() == n && superdiagonal.len() == n - 1, "{} and {} values", diagonal.len(), superdiagonal.len());
        check!((0..n).all(|i| diagonal[i] == a[(i, i)].to_complex().norm()), "diagonal {n}, {bandwidth}, {tile_width}");
        let of_band = |i: usize| if bandwidth == 0 { 0.0 } else { a[(i, i + 1)].to_complex().norm() };
        check!((0..n - 1).all(|i| superdiagonal[i] == of_band(i)), "superdiagonal {n}, {bandwidth}, {tile_width}");
    }
    Ok(())
}

/// Bands for the tests: (n, bandwidth, tile width).
const BANDS: [(usize, usize, usize); 11] = [
    (1, 4, 3),
    (2, 4, 3),
    (3, 2, 1),
    (9, 8, 4),
    (9, 8, 7),
    (30, 2, 1),
    (41, 8, 7),
    (50, 8, 3),
    (64, 63, 62),
    (97, 16, 5),
    (120, 40, 33),
];

/// Step by step, the band is the twin's; with one workgroup for all cycles of a time step, with fewer than there are cycles, and with
/// enough; with one cycle of a sweep in a dispatch, and with several; with one thread a line, and with several.
///
/// Bound: 32 times what it does to the twin's band to move every entry of the first band by eps. Reflectors are backward stable: the
/// device's band is the twin's of a band that differs by some eps, about one for each of the reflectors that touch an entry, and how far
/// that carries is the condition of the single entries, which differs from band to band (not that of the singular values, which the next
/// test bounds tightly). It is measured with three random directions, at 16 eps so that rounding hides little of it. (Seen are up to 11
/// times for real numbers, 19 for complex ones.)
///
/// How the cycles are shared out does not depend on the element type: f32 takes every way for every band, the others one for each band, by
/// turns.
pub fn chase_follows_the_twin<T: Elements>(context: &GpuContext) -> Outcome {
    // Most workgroups, threads, sweeps of a team, cycles of a dispatch.
    const WAYS: [(usize, usize, usize, usize); 4] = [(1, 32, 1, 1), (2, 7, 3, 2), (1000, 64, 1, 5), (1000, 96, 2, 3)];
    for (number, (n, bandwidth, tile_width)) in BANDS.into_iter().enumerate() {
        let ways = if T::NAME == "f32" { &WAYS[..] } else { &WAYS[number % WAYS.len()..][..1] };
        let (first, moved) = bands::<T>(n, bandwidth)?;
        for &(most, threads, team, cycles) in ways {
            let tuning = tuning(8, 16).max_blocks(most).threads_per_block(threads).cycles_per_dispatch(cycles);
            // Wide reflectors of several sweeps do not fit.
            let tuning = tuning.sweeps_per_block(if tile_width <= 8 { team } else { 1 });
            let tuning = tuning.tile_width(tile_width);
            let (gpu, cpu) = (GpuKernels::new::<T>(context, &tuning)?, CpuKernels::<T>::new(&tuning)?);
            let steps: Vec<_> = ReductionStep::all(n, bandwidth.min(n.saturating_sub(1)), tile_width).collect();
            for done in (1..=steps.len()).map(|count| &steps[..count]) {
                let there = reduced(&gpu, &first, done)?;
                let here = reduced(&cpu, &first, done)?;
                let found = distance(there.as_ref(), here.as_ref());
                let bound = 32.0 * carried(&cpu, &moved, &here, done)?;
                check!(
                    found <= bound,
                    "n {n}, {bandwidth} by {tile_width}, {} steps, {most} blocks, {threads} threads: {found:.1e}, bound {bound:.1e}",
                    done.len()
                );
            }
        }
    }
    Ok(())
}

/// How far the other bands of a comparison are moved, in eps.
const MOVED: f64 = 16.0;

/// A band of noise, and others that differ from it.
type Bands<S> = (Band<S>, Vec<Band<S>>);

/// A band of noise, and three that differ from it by noise of `MOVED` eps.
fn bands<T: Elements>(n: usize, bandwidth: usize) -> Result<Bands<T::Scalar>, Failed> {
    let band = |seed, size: f64| {
        let entry = |i, j| complex_noise(10, i, j) + complex_noise(seed, i, j) * size;
        Band::from_fn(n, bandwidth, |i, j| T::from_complex(entry(i, j)).widen())
    };
    let moved = [14, 15, 16].into_iter().map(|seed| band(seed, MOVED * eps::<T>()));
    Ok((band(0, 0.0)?, moved.collect::<Result<_, _>>()?))
}

/// The largest distance from `here` of what the twin leaves of the other bands, in the unit of their distance.
fn carried<T: Elements>(
    cpu: &CpuKernels<T>,
    moved: &[Band<T::Scalar>],
    here: &Mat<T::Scalar>,
    steps: &[ReductionStep],
) -> Result<f64, Failed> {
    let of = |band| Ok::<_, Failed>(distance(reduced(cpu, band, steps)?.as_ref(), here.as_ref()) / MOVED);
    moved.iter().try_fold(0f64, |most, band| Ok(most.max(of(band)?)))
}

/// `chase_team`: with one and two lines of a thread, by threads alone and by subgroups (of 8 threads: the narrowest band with one line, and the next with
/// two), few and many sweeps in a workgroup, one and many cycles in a dispatch, and fewer workgroups than teams. All of these ways have the same bits, because a cycle's arithmetic does not depend on them; but for f16 the band is the twin's.
///
/// Bound: that of `chase_follows_the_twin`.
///
/// f32 takes every way for the narrow bands, which compile quickly; else there are two.
pub fn chase_team_follows_the_twin<T: Elements>(context: &GpuContext) -> Outcome {
    // Lines, sweeps of a team, cycles of a dispatch, most workgroups.
    const WAYS: [(usize, usize, usize, usize); 5] =
        [(1, 1, 1, 1000), (2, 4, 8, 1000), (1, 3, 2, 2), (2, 1, 3, 1000), (2, 2, 5, 1)];
    let subgroup = Tuning::for_adapter::<T>(context, 64).gpu.subgroup_threads;
    for (n, bandwidth) in [(6, 4), (37, 4), (41, 8), (64, 16)] {
        let (first, moved) = bands::<T>(n, bandwidth)?;
        let step = [ReductionStep { n, bandwidth, tile_width: bandwidth - 1 }];
        let mut known: Option<Mat<T::Scalar>> = None;
        let ways = if T::NAME == "f32" && bandwidth <= 8 { &WAYS[..] } else { &WAYS[..2] };
        for &(lines, team, cycles, most) in ways {
            let team = if bandwidth > 8 { team.min(2) } else { team };
            let tuning = tuning(8, 16).tile_width(bandwidth).max_blocks(most).sweeps_per_block(team).cycles_per_dispatch(cycles);
            let tuning = tuning.lines_per_thread(lines).subgroup_threads(subgroup);
            let gpu = GpuKernels::new::<T>(context, &tuning)?;
            let what = format!("n {n}, {bandwidth}, {lines} lines, {team} sweeps, {cycles} cycles");
            let there = reduced(&gpu, &first, &step)?;
            if let Some(known) = &known {
                check!(there == *known, "{what}: other bits");
                continue;
            }
            // In f16 a rounding grows by a factor in each of hundreds of cycles.
            if T::NAME != "f16" {
                let cpu = CpuKernels::<T>::new(&tuning)?;
                let here = reduced(&cpu, &first, &step)?;
                let (found, bound) = (distance(there.as_ref(), here.as_ref()), 32.0 * carried(&cpu, &moved, &here, &step)?);
                check!(found <= bound, "{what}: {found:.1e}, bound {bound:.1e}");
            }
            known = Some(there);
        }
    }
    Ok(())
}

/// What these steps leave of a band.
fn reduced<S: Scalar, K: Transfers<S>>(kernels: &K, band: &Band<S>, steps: &[ReductionStep]) -> Result<Mat<S>, Failed> {
    let one = <S as Number>::Real::from_double(1.0);
    let mut there = kernels.upload_band(band, one, steps[0].tile_width)?;
    for step in steps {
        kernels.chase(&mut there, step)?;
    }
    Ok(kernels.download_band(there, steps[steps.len() - 1].target(), one)?.to_mat())
}

/// A reduction keeps singular values, also where entries are zero, tiny, or the band is graded.
///
/// Bound: 8 n eps times the largest: backward error of the reflectors, some eps for each of the n / bandwidth that touch an entry in
/// each of the steps. In f16 the roundings of the single entries average out: 8 of them.
pub fn chase_keeps_singular_values<T: Elements>(context: &GpuContext) -> Outcome {
    let tiny = if size_of::<T::Real>() == 4 { 1e-30 } else { 1e-250 };
    let subgroup = Tuning::for_adapter::<T>(context, 64).gpu.subgroup_threads;
    // Those that `chase_team` takes, and all with `chase`.
    // (One type is enough for the widest, which compiles for long.)
    let widest = if T::NAME == "f32" { 32 } else { 16 };
    // The second one has a step before, and so a wider layout.
    let teams = [(41, 8, 7, 2), (60, 12, 8, 2), (70, 4, 3, 1), (70, widest, widest - 1, 1)];
    for (n, bandwidth, tile_width, lines) in BANDS.map(|(n, bandwidth, width)| (n, bandwidth, width, 0)).into_iter().chain(teams)
    {
        let tuning = tuning(8, 16).tile_width(tile_width).lines_per_thread(lines).subgroup_threads(subgroup);
        let kernels = GpuKernels::new::<T>(context, &tuning)?;
        let kinds: [Kind<'_>; 4] = [
            ("random", &|i, j| complex_noise(11, i, j)),
            ("zero", &|_, _| 0.0.into()),
            ("sparse", &|i, j| if (i * 7 + j) % 5 == 0 { complex_noise(12, i, j) } else { 0.0.into() }),
            ("tiny in places", &|i, j| complex_noise(13, i, j) * if (i + j) % 3 == 0 { 1.0 } else { tiny }),
        ];
        for (name, entry) in kinds {
            let band = Band::from_fn(n, bandwidth, |i, j| T::from_complex(entry(i, j)).widen())?;
            let mut device = kernels.upload_band(&band, T::Real::from_double(1.0), tile_width)?;
            for step in ReductionStep::all(n, band.bandwidth(), tile_width) {
                kernels.chase(&mut device, &step)?;
            }
            let (diagonal, superdiagonal) = pollster::block_on(kernels.bidiagonal(&device))?.moduli();
            let bidiagonal = Mat::from_fn(n, n, |i, j| match j.wrapping_sub(i) {
                0 => diagonal[i].into(),
                1 => superdiagonal[i].into(),
                _ => 0.0.into(),
            });
            let (got, want) = (singular_values(&bidiagonal)?, singular_values(&widen(band.to_mat().as_ref()))?);
            let found = furthest(got.iter().zip(&want).map(|(a, b)| a - b));
            let bound = (8.0 * n as f64 * eps::<T>() + T::stored(8)) * want[0];
            check!(found <= bound, "{name}, n {n}, {bandwidth} by {tile_width}, {lines} lines: {found:.1e}, bound {bound:.1e}");
        }
    }
    Ok(())
}

fn singular_values(a: &Mat<Complex<f64>>) -> Result<Vec<f64>, Failed> {
    let svd = Svd::new(a.as_ref()).map_err(|e| format!("{e:?}"))?;
    Ok(svd.S().column_vector().iter().map(|s| s.re).collect())
}
