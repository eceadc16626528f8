//! The one-stage reduction: its kernels against the CPU's, whole calls, and the model's counts.

use std::sync::{Arc, Mutex};

use faer::Mat;
use svdvals_gpu::{
    Backend, GpuContext, HalfStorage, Number, RealElement, Reduction, Route, Stage, Stage3, SvdError, SvdGpu, SvdOptions,
    SvdValsGpu, Tuning,
    cost::Kernel,
    internals::{CpuKernels, GpuKernels, Line, OneStageKernels, Trailing, Transfers},
    wgpu::Features,
};

use crate::{
    Body, Elements, Outcome, check,
    common::{Spectrum, complex_with_singular_values, eps, error, furthest, gaussian, rounded, row_major, with_singular_values},
    tile_fits, tuning,
    vectors::{check, matrix},
    waits::stopped_in,
};

pub fn kernels<T: Elements>() -> Vec<(&'static str, Body)> {
    vec![("lines_follow_the_twin", lines_follow_the_twin::<T>)]
}

pub fn calls<T: Elements>() -> Vec<(&'static str, Body)> {
    vec![("one_stage_agrees_with_two", agrees_with_two_stages::<T>), ("counts_of_one_stage", counts_are_the_models::<T>)]
}

pub fn vectors<T: Elements>() -> Vec<(&'static str, Body)> {
    vec![("one_stage_ratios", ratios::<T>), ("counts_of_one_stage", counts_with_vectors::<T>)]
}

fn on(context: &GpuContext) -> SvdOptions {
    SvdOptions::default().context(context.clone()).backend(Backend::Gpu).reduction(Reduction::OneStage)
}

/// Line by line, P, R and the matrix are the twin's: in a first panel and its update, and some lines of the next panel; in both
/// memory orders, for rows that fill workgroups and tiles, and that do not.
///
/// Bound: 64 m eps times the norm of a column: each line has products of m numbers, and adds to the errors of the eleven lines
/// before. In f16 the matrix is rounded by the update, once in each of a few lines.
fn lines_follow_the_twin<T: Elements>(context: &GpuContext) -> Outcome {
    let one = T::Real::from_double(1.0);
    for (m, n, width) in [(40, 40, 8), (150, 97, 8), (61, 50, 5), (300, 290, 16), (9, 8, 8)] {
        if !tile_fits::<T>(context, width) {
            continue;
        }
        let tuning = tuning(width, 4 * width);
        let (gpu, cpu) = (GpuKernels::new::<T>(context, &tuning)?, CpuKernels::<T>::new(&tuning)?);
        let a = Mat::<T::Scalar>::from_fn(m, n, |i, j| T::noise(61, i, j).widen());
        let swapped = row_major(&a);
        for (order, source) in [("columns", a.as_ref()), ("rows", swapped.as_ref().transpose())] {
            let (mut on_gpu, mut on_cpu) = (gpu.upload(source, one)?, cpu.upload(source, one)?);
            let (mut of_gpu, mut of_cpu) = (gpu.panels(&on_gpu, width, true)?, cpu.panels(&on_cpu, width, true)?);
            let bound = (64.0 * m as f64 * eps::<T>() + T::stored(4)) * (m as f64).sqrt();
            for (k, count) in [(0, width), (width, 3)].into_iter().filter(|(k, count)| k + count <= n) {
                for j in k..k + count {
                    for line in [Line::column(j, (m, n), k), Line::row(j, (m, n), k)].into_iter().filter(|line| !line.is_empty())
                    {
                        gpu.update_line(&mut on_gpu, &mut of_gpu, &line)?;
                        cpu.update_line(&mut on_cpu, &mut of_cpu, &line)?;
                        gpu.multiply_line(&mut on_gpu, &mut of_gpu, &line)?;
                        cpu.multiply_line(&mut on_cpu, &mut of_cpu, &line)?;
                        // Columns that are complete: P up to v, R up to the product before.
                        let found = gpu.read_panels::<T::Scalar>(&of_gpu, line.done + 1)?;
                        let ld = found[0].len() / (line.done + 1);
                        let own = if line.transposed { 1 } else { 0 };
                        for side in [0, 1] {
                            let rows = if side == own { line.first..line.rows } else { line.line + 1..line.cols };
                            for c in 0..line.done + usize::from(side == own) {
                                let want = &of_cpu.columns(c)[side][rows.clone()];
                                let got = &found[side][c * ld..][rows.clone()];
                                let off = furthest(got.iter().zip(want).map(|(x, y)| (x.to_complex() - y.to_complex()).norm()));
                                check!(
                                    off <= bound,
                                    "{m} x {n} by {order}, {line:?}, column {c} of {side}: {off:.1e}, {bound:.1e}"
                                );
                            }
                        }
                    }
                }
                let first = k + count;
                if k == 0 && first < n {
                    let trailing = Trailing { first, size: (m, n), inner: 2 * count };
                    gpu.update_trailing(&mut on_gpu, &mut of_gpu, &trailing)?;
                    cpu.update_trailing(&mut on_cpu, &mut of_cpu, &trailing)?;
                }
                let (got, want) =
                    (Transfers::<T::Scalar>::download(&gpu, &on_gpu)?, Transfers::<T::Scalar>::download(&cpu, &on_cpu)?);
                let bidiagonal = |i: usize, j: usize| i == j || i + 1 == j;
                let all = (0..n).flat_map(|j| (0..m).map(move |i| (i, j)));
                let compared = all.filter(|&(i, j)| i.min(j) >= first || (bidiagonal(i, j) && i >= k));
                let off = furthest(compared.map(|at| (got[at].to_complex() - want[at].to_complex()).norm()));
                check!(off <= bound, "{m} x {n} by {order}, after {first} lines: {off:.1e}, bound {bound:.1e}");
            }
        }
    }
    Ok(())
}

/// The values are those of two stages, in both memory orders, with stage 3 on the host and on the device; and Table 1 of the
/// unified-kernels paper holds at n = 64.
///
/// Bound: 4 max(m, n) eps times the largest value, as for two stages. In f16 each of the n / 8 updates rounds every entry.
fn agrees_with_two_stages<T: Elements>(context: &GpuContext) -> Outcome {
    let on = on(context).half_storage(HalfStorage::Half.for_element::<T>());
    for (m, n) in [(1, 1), (3, 2), (40, 40), (70, 61), (61, 70), (130, 33), (100, 97)] {
        let a = gaussian::<T>(m, n, 62);
        let swapped = row_major(&a);
        let options = on.clone().tuning(tuning(8, 24));
        let want = T::values(&a, &options.clone().reduction(Reduction::TwoStage))?;
        let bound = (4.0 * m.max(n) as f64 * eps::<T>() + T::stored(16)) * want[0];
        for view in [a.as_ref(), swapped.as_ref().transpose()] {
            for stage3 in [Stage3::Newton, Stage3::Device] {
                let got = T::view_values(view, &options.clone().stage3(stage3))?;
                check!(got.len() == want.len(), "{} values", got.len());
                let off = furthest(got.iter().zip(&want).map(|(x, y)| x - y));
                check!(off <= bound, "{m} x {n}, {stage3:?}: {off:.1e}, bound {bound:.1e}");
            }
        }
        let future = pollster::block_on(a.svdvals_gpu_report_async(&options))?;
        let now = a.svdvals_gpu_report(&options)?;
        check!(future.values == now.values && matches!(now.route, Route::OneStage(_)), "awaited, {}", now.route);
    }
    let bound = match T::NAME {
        "f16" => 4.3e-3,
        "f32" => 9.6e-8,
        "c32" => 2.0 * 9.6e-8,
        "c64" => 2.0 * 5.8e-16,
        _ => 5.8e-16,
    };
    for spectrum in Spectrum::ALL {
        let mut sigma = spectrum.values(64);
        let a: Mat<T> = if T::NAME.starts_with('c') {
            rounded(complex_with_singular_values(&mut sigma, 5).as_ref())
        } else {
            rounded(with_singular_values(&mut sigma, 5).as_ref())
        };
        let off = error(T::values(&a, &on)?, &sigma);
        println!("GPU, one stage, {} n = 64, {spectrum:?}: {off:.2e}", T::NAME);
        check!(off <= bound, "{spectrum:?}: {off:.2e}, bound {bound:.1e}");
    }
    Ok(())
}

/// 4 dispatches for each column, 2 for each panel, and no read-back but the bidiagonal's: the model's number, for square, tall
/// and wide matrices.
fn counts_are_the_models<T: Elements>(context: &GpuContext) -> Outcome {
    let on = on(context).half_storage(HalfStorage::Half.for_element::<T>());
    for (m, n) in [(1, 1), (2, 2), (50, 40), (20, 90), (70, 70)] {
        let report = gaussian::<T>(m, n, 63).svdvals_gpu_report(&on.clone().tuning(tuning(8, 24)))?;
        let (counts, want, k) = (report.counts, report.cost()?.dispatches(), m.min(n) as u64);
        check!(
            counts.dispatches == want,
            "{m} x {n}: {} dispatches, the model counts {want}\n{}",
            counts.dispatches,
            report.cost()?
        );
        check!(counts.bytes_read_back == 2 * k * size_of::<T::Scalar>() as u64, "{} bytes back", counts.bytes_read_back);
        if report.route == Route::OneStage(svdvals_gpu::TallReduction::Nothing) {
            let formula = 4 * k - 2 + 2 * (k.div_ceil(8) - 1) + 2;
            check!(counts.dispatches == formula, "{m} x {n}: {} dispatches, not {formula}", counts.dispatches);
        }
    }
    Ok(())
}

/// The three ratios of DESIGN 6 are at most 1, and the values are those of the same device without vectors: square, tall, wide,
/// hard spectra.
fn ratios<T: Elements>(context: &GpuContext) -> Outcome {
    for (kind, m, n) in [
        ("random", 1, 1),
        ("random", 70, 70),
        ("random", 50, 41),
        ("two clusters", 150, 40),
        ("graded", 40, 64),
        ("rank third", 65, 64),
        ("zero", 20, 30),
        ("one entry", 9, 9),
    ] {
        let a = matrix::<T>(kind, m, n);
        check(&format!("{kind} {m} x {n}"), a.as_ref(), &on(context))?;
        let narrow = Tuning::for_adapter::<T>(context, m.min(n)).tile_size(4).leaf(16);
        check(&format!("{kind} {m} x {n}, panels of 4"), a.as_ref(), &on(context).tuning(narrow))?;
    }
    let by_rows = matrix::<T>("random", 45, 60);
    check("by rows", by_rows.as_ref().transpose(), &on(context))?;
    Ok(())
}

/// The dispatches of both sides' vectors are the model's. Tall and wide matrices have no tiny values, whose columns take more dispatches; the
/// tallest is reduced to its triangular factor first.
fn counts_with_vectors<T: Elements>(context: &GpuContext) -> Outcome {
    for (m, n) in [(1, 1), (60, 40), (40, 70), (200, 40)] {
        let narrow = Tuning::for_adapter::<T::Scalar>(context, 40).tile_size(8).leaf(64);
        for options in [on(context), on(context).tuning(narrow.clone()), on(context).tuning(narrow.split_beside(4))] {
            let report = matrix::<T>("random", m, n).svd_gpu_report(&options)?;
            let (ran, model) = (report.counts.dispatches, report.cost()?.dispatches());
            check!(ran == model, "{m} x {n}: {ran} dispatches, the model counts {model}\n{}", report.cost()?);
        }
    }
    Ok(())
}

/// A call that is stopped in the reduction, or in the QR factorisation of a tall matrix before it, says so, and the next one works. Fractions
/// never fall, and the last is 1. The kernels of the reduction are timed where the device has a clock.
pub fn progress<T: Elements>(context: &GpuContext) -> Outcome {
    let options = on(context).tuning(tuning(8, 64));
    for (m, n, stage) in [(120, 120, Stage::BandToBidiag), (300, 60, Stage::ToBand)] {
        let a = gaussian::<T>(m, n, 64);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let told = seen.clone();
        let tell = options.clone().progress(move |p| told.lock().unwrap().push((p.stage, p.fraction, p.stage_fraction)));
        let want = a.svdvals_gpu_with(&tell)?;
        let seen = seen.lock().unwrap().clone();
        check!(seen.is_sorted_by(|a, b| a.0 <= b.0 && a.1 <= b.1) && seen.last().is_some_and(|p| p.1 == 1.0), "{seen:?}");
        let most = seen.iter().filter(|p| p.0 == Stage::BandToBidiag).map(|p| p.2).fold(0.0, f64::max);
        check!(most > 0.99, "the reduction is told of up to {most}");
        let error = a.svdvals_gpu_with(&stopped_in(stage, &options)).err();
        check!(error == Some(SvdError::Cancelled { stage }), "{error:?}, not cancelled in {stage}");
        if context.device().features().contains(Features::TIMESTAMP_QUERY) {
            let timed = a.svdvals_gpu_report(&options.clone().time_kernels(true))?;
            check!(timed.values == want, "timing changes values");
            let kernels: Vec<Kernel> = timed.kernel_seconds.iter().map(|&(kernel, _)| kernel).collect();
            check!(kernels.contains(&Kernel::MultiplyLine), "{kernels:?}");
        }
    }
    Ok(())
}
