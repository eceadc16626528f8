//! The decomposition with vectors on the device: what common/vectors.rs asks of every backend, each kernel beside its twin, what stays on the device, and
//! what travels.

use faer::{Col, Mat};
use num_complex::Complex;
use svdvals_gpu::{
    Backend, Band, GpuContext, GpuMatrix, MatSvd, RealElement, Scalar, Signs, SvdError, SvdGpu, SvdOptions, Tuning, Vectors,
    internals::{Applied, ComplexBidiagonal, CpuKernels, GpuKernels, Transfers, VectorKernels},
};

use crate::{
    Body, Elements, Outcome, check,
    common::{complex_noise, eps, noise, widen},
    tuning,
    vectors::{check, check_within, ends_of_range, matrix, ratios as ratios_of},
};

pub fn trials<T: Elements>() -> Vec<(&'static str, Body)> {
    let mut trials: Vec<(&str, Body)> = vec![
        ("ratios", ratios::<T>),
        ("ends_of_the_range", ends_of_the_range::<T>),
        ("options", options::<T>),
        ("bands", bands::<T>),
        ("vectors_stay", vectors_stay::<T>),
    ];
    // Vectors are not stored in half precision.
    if T::NAME != "f16" {
        trials.push(("bidiagonals_follow_the_host", bidiagonals_follow_the_host::<T>));
        trials.push(("formed_beside", formed_beside::<T>));
    }
    trials
}

fn on(context: &GpuContext) -> SvdOptions {
    SvdOptions::default().context(context.clone()).backend(Backend::Gpu)
}

/// The three ratios of DESIGN 6 are at most 1: square, tall (first by QR), wide; hard spectra; and the values are those of the same device without
/// vectors. Those with tiny values go through QR: rank third, zero, graded, one entry; where nearly all columns are tiny, and where one is.
fn ratios<T: Elements>(context: &GpuContext) -> Outcome {
    for (kind, m, n) in [
        ("random", 1, 1),
        ("random", 70, 70),
        ("random", 50, 41),
        ("triangular", 60, 60),
        ("two clusters", 150, 40),
        ("graded", 40, 64),
        ("graded rows", 60, 60),
        ("rank third", 65, 64),
        ("one entry", 40, 33),
        ("zero border", 66, 66),
        ("unitary", 100, 100),
        ("zero", 20, 30),
    ] {
        check(&format!("{kind} {m} x {n}"), matrix::<T>(kind, m, n).as_ref(), &on(context))?;
    }
    Ok(())
}

/// Entries near the largest number of the type, subnormal ones, and blocks of both have the three ratios of others.
fn ends_of_the_range<T: Elements>(context: &GpuContext) -> Outcome {
    for (m, n) in [(1, 1), (27, 23), (19, 23), (90, 20)] {
        for (name, a) in ends_of_range::<T>(m, n) {
            check(&format!("{name}, {m} x {n}"), a.as_ref(), &on(context))?;
        }
    }
    Ok(())
}

/// A band's decomposition has the three ratios: V goes back through stage 2 alone.
fn bands<T: Elements>(context: &GpuContext) -> Outcome {
    for (n, bandwidth) in [(1, 0), (30, 1), (60, 7), (41, 40)] {
        let a = matrix::<T>("random", n, n);
        let band = Band::from_fn(n, bandwidth, |i, j| a[(i, j)])?;
        let (u, s, v) = band.svd(&on(context))?;
        let ratios = ratios_of(band.to_mat().as_ref(), &MatSvd { u, s: Col::from_fn(n, |j| s[j]), v, residuals: None });
        check!(ratios.iter().all(|ratio| *ratio <= if n == 1 { 2.0 } else { 1.0 }), "{n}, {bandwidth}: {ratios:.3?}");
    }
    Ok(())
}

/// A part of the vectors, and unitary matrices; and a future gives what a call that blocks does.
fn options<T: Elements>(context: &GpuContext) -> Outcome {
    let a = matrix::<T>("random", 60, 45);
    let (now, later) = (a.svd_gpu_with(&on(context))?, pollster::block_on(a.svd_gpu_async(&on(context)))?);
    check!(now.u == later.u && now.s == later.s && now.v == later.v, "awaited");
    for options in [
        on(context).keep(5),
        on(context).tolerance(0.3).vectors(Vectors::Left),
        on(context).vectors(Vectors::Right),
        on(context).vectors(Vectors::Full),
    ] {
        check(&format!("{}, keep {:?}", options.vectors, options.keep), a.as_ref(), &options)?;
    }
    let a = matrix::<T>("rank third", 30, 50);
    check("full, with tiny values", a.as_ref(), &on(context).vectors(Vectors::Full))?;
    Ok(())
}

/// With the reflectors multiplied while the host plans, the three ratios are at most 1: square, tall (first by QR) and wide matrices, with deferred updates
/// and without, with columns of tiny values, and with half of the vectors. The bits are the same from a future, on one thread, not timed, and of a matrix on the
/// device. Two dispatches are added, the identity and the product, as the model counts; and none where less than half of the vectors are wanted. The identity
/// in the place of the reflectors changes no bit, and after an error beside the plan the next call works.
fn formed_beside<T: Elements>(context: &GpuContext) -> Outcome {
    let with = |tuning: &Tuning, formed| on(context).tuning(tuning.clone().formed_beside(formed));
    let (wide, deferred) = (tuning(8, 32), tuning(8, 32).deferred_columns(32).deferred_from(20));
    for (kind, (m, n), tuning) in [
        ("random", (1, 1), &wide),
        ("random", (70, 70), &wide),
        ("random", (130, 50), &wide),
        ("two clusters", (60, 91), &deferred),
        ("rank third", (65, 64), &wide),
        ("zero", (9, 12), &wide),
    ] {
        check(&format!("{kind} {m} x {n}"), matrix::<T>(kind, m, n).as_ref(), &with(tuning, 1))?;
    }
    let a = matrix::<T>("random", 70, 61);
    check("half", a.as_ref(), &with(&wide, 1).keep(31))?;
    check("right", a.as_ref(), &with(&wide, 1).vectors(Vectors::Right))?;

    let options = with(&wide, 1);
    let report = a.svd_gpu_report(&options)?;
    let found = &report.values;
    let (later, alone) = (pollster::block_on(a.svd_gpu_async(&options))?, a.svd_gpu_with(&options.clone().threads(1))?);
    let untimed = a.svd_gpu_with(&options)?;
    let there = GpuMatrix::upload(context, &a)?.svd(&options)?;
    let there = MatSvd { u: there.u.to_mat()?, s: found.s.clone(), v: there.v.to_mat()?, residuals: None };
    for (what, other) in [("awaited", later), ("on one thread", alone), ("untimed", untimed), ("on the device", there)] {
        check!(found.u == other.u && found.s == other.s && found.v == other.v, "{what}");
    }
    let dispatches = |formed, keep| {
        let report = a.svd_gpu_report(&with(&wide, formed).keep(keep));
        report.map(|report| report.counts.dispatches)
    };
    check!(report.counts.dispatches == report.cost()?.dispatches(), "{} dispatches", report.counts.dispatches);
    check!(report.counts.dispatches == dispatches(0, 61)? + 2, "{} dispatches", report.counts.dispatches);
    check!(dispatches(1, 30)? == dispatches(0, 30)?, "less than half");

    let n = 40;
    let c = ComplexBidiagonal { diagonal: vec![Complex::from(2.0); n], superdiagonal: vec![Complex::from(-1.0); n - 1] };
    let gpu = GpuKernels::new::<T>(context, &wide.formed_beside(1))?;
    let right = |q: Option<Applied<'_, _>>| pollster::block_on(gpu.right_of_bidiagonal(c.clone(), &[], n - 3, q));
    let refused = right(Some(&|_| Err(SvdError::OutOfMemory { reason: "no room".into() }))).err();
    check!(matches!(refused, Some(SvdError::OutOfMemory { .. })), "{refused:?}");
    let (formed, apart) = (right(Some(&|_| Ok(())))?, right(None)?);
    check!(formed.1 && !apart.1, "formed: {}, {}", formed.1, apart.1);
    let [formed, apart] = [formed.0, apart.0].map(|x| Transfers::<T::Scalar>::download(&gpu, &x));
    check!(formed? == apart?, "other bits by the identity");
    Ok(())
}

/// A name, and the moduli of the entries.
type Kind = (&'static str, fn(usize) -> f64);

/// The replay on the device gives the host's vectors, from the same plan: all of them and the leading ones, with phases, deflation, rotations
/// and values of very different sizes.
///
/// Bound: n eps for each entry. A vector is a chain of log2(n / 8) products with factors that are orthogonal to some eps; the leading ones are
/// the host's from the root down.
fn bidiagonals_follow_the_host<T: Elements>(context: &GpuContext) -> Outcome {
    let kinds: [Kind; 4] = [
        ("random", |i| noise(31, i, 3).abs() + 0.1),
        ("ones", |_| 1.0),
        ("zeros", |i| f64::from(u8::from(i % 5 != 2))),
        ("graded", |i| 10f64.powf(-(i as f64) / 3.0)),
    ];
    for (kind, entry) in kinds {
        for n in [1, 7, 9, 26, 100] {
            let phase = |i: usize| {
                let x = complex_noise(32, i, n);
                if <T::Scalar as Scalar>::IS_COMPLEX { x / x.norm() } else { Complex::from(x.re.signum()) }
            };
            let entries = |count, from: usize| (0..count).map(|i| phase(i + from) * entry(i + from)).collect::<Vec<_>>();
            let c = ComplexBidiagonal { diagonal: entries(n, 0), superdiagonal: entries(n - 1, 500) };
            let gpu = GpuKernels::new::<T>(context, &Tuning::for_adapter::<T>(context, n))?;
            let cpu = CpuKernels::<T>::new(&Tuning::for_cpu::<T>(n))?;
            for k in [n, n.min(4)] {
                let found = Transfers::<T::Scalar>::download(
                    &gpu,
                    &pollster::block_on(gpu.right_of_bidiagonal(c.clone(), &[], k, None))?.0,
                )?;
                let want = Transfers::<T::Scalar>::download(
                    &cpu,
                    &pollster::block_on(cpu.right_of_bidiagonal(c.clone(), &[], k, None))?.0,
                )?;
                check!(found.shape() == (n, k), "{kind}, n = {n}: {:?}", found.shape());
                let off = (widen(found.as_ref()) - widen(want.as_ref())).norm_max();
                let bound = n as f64 * eps::<T>() + T::stored(1);
                check!(off <= bound, "{kind}, n = {n}, {k} vectors: off by {off:.2e}, bound {bound:.2e}");
            }
        }
    }
    Ok(())
}

/// `GpuMatrix::svd` gives the bits of `svd_gpu` for a matrix in the same memory order, on every side, and the same bits again.
fn vectors_stay<T: Elements>(context: &GpuContext) -> Outcome {
    for (m, n, vectors) in [
        (50, 30, Vectors::Thin),
        (30, 50, Vectors::Thin),
        (33, 33, Vectors::Right),
        (20, 30, Vectors::Left),
        (12, 20, Vectors::Full),
        (0, 3, Vectors::Full),
        (0, 3, Vectors::Thin),
    ] {
        let a = matrix::<T>("random", m, n);
        let options = on(context).vectors(vectors);
        let resident = GpuMatrix::upload(context, &a)?;
        let there = resident.svd(&options)?;
        let here = a.svd_gpu_with(&options)?;
        let (u, v) = (there.u.to_mat()?, there.v.to_mat()?);
        check!(u.shape() == here.u.shape() && v.shape() == here.v.shape(), "{m} x {n}: {:?}, {:?}", u.shape(), v.shape());
        check!(u == here.u && v == here.v, "{m} x {n}, {vectors}: other vectors than those of svd_gpu");
        check!(there.s.iter().eq(here.s.iter()), "{m} x {n}, {vectors}: other values");
        let again = resident.svd(&options)?;
        check!(again.u.to_mat()? == u && again.v.to_mat()? == v, "{m} x {n}, {vectors}: other bits");
        if vectors == Vectors::Thin && m.min(n) > 0 {
            let found =
                ratios_of::<T>(a.as_ref(), &MatSvd { u, s: Col::from_fn(there.s.len(), |i| there.s[i]), v, residuals: None });
            check!(found.iter().all(|ratio| *ratio <= 1.0), "{m} x {n}: {found:?}");
        }
    }
    let resident = GpuMatrix::upload(context, &matrix::<T>("random", 4, 3))?;
    let refused = resident.svd(&on(context).signs(Signs::Largest)).err();
    check!(matches!(refused, Some(SvdError::InvalidOption { option: "signs", .. })), "{refused:?}");
    Ok(())
}

/// The matrix is uploaded once, and of the rest the tables: some 20 numbers for each column and level of divide and conquer. Read back are the
/// bidiagonal and the factors, and of a resident matrix the bidiagonal alone. The dispatches are those of the cost model.
pub fn what_travels() -> Outcome {
    let context = GpuContext::global()?;
    // Tall ones have no tiny values, whose columns take more dispatches.
    for (m, n, keep) in [(150, 120, None), (300, 120, None), (150, 150, Some(10))] {
        let a = matrix::<f32>("random", m, n);
        let mut options = on(&context);
        if let Some(k) = keep {
            options = options.keep(k);
        }
        let report = a.svd_gpu_report(&options)?;
        let k = keep.unwrap_or(n);
        let padded = |x: usize| x.next_multiple_of(4);
        let (matrix, pairs) = (4 * padded(m) * n, 4 * 2 * n);
        // The bidiagonal, and U and V by rows.
        let factors = 4 * (m + n) * padded(k);
        let read = report.counts.bytes_read_back as usize;
        check!(read == pairs + factors, "{m} x {n}: {read} bytes read back, not {pairs} and {factors}");
        let levels = (n as f64 / 8.0).log2().ceil() as usize + 1;
        let tables = report.counts.bytes_uploaded as usize - matrix;
        check!(tables <= 4 * n * (24 * levels + 16), "{m} x {n}: {tables} bytes besides the matrix");
        let resident = GpuMatrix::upload(&context, &a)?.svd_report(&options)?;
        check!(resident.counts.bytes_read_back as usize == pairs, "{m} x {n}, resident: {}", resident.counts);
        if keep.is_none() {
            let (model, ran) = (report.cost()?.dispatches(), report.counts.dispatches);
            check!(model == ran, "{m} x {n}: {ran} dispatches, {model} by the model");
        }
    }
    Ok(())
}

/// Larger matrices, with several levels of every tree, chunks of sweeps and rows of blocks: the three ratios, and the same bits again.
pub fn larger() -> Outcome {
    let context = GpuContext::global()?;
    for (kind, m, n) in [("random", 400, 400), ("two clusters", 200, 180), ("rank third", 200, 200)] {
        let a = matrix::<f32>(kind, m, n);
        // A hardware GPU factors panels beside updates where no reflectors are kept, with sums in another order.
        let off = if context.is_software() { 0.0 } else { 1.0 };
        let found = check_within(&format!("{kind} {m} x {n}"), a.as_ref(), &on(&context), off)?;
        println!("{kind} {m} x {n}, f32: {found:.3?}");
    }
    let a = matrix::<f64>("random", 200, 200);
    let [first, second] = [a.svd_gpu_with(&on(&context))?, a.svd_gpu_with(&on(&context))?];
    let same = |x: &Mat<f64>, y: &Mat<f64>| x == y;
    check!(same(&first.u, &second.u) && same(&first.v, &second.v), "other bits");
    let found = ratios_of::<f64>(a.as_ref(), &first);
    println!("random 200 x 200, f64: {found:.3?}");
    check!(found.iter().all(|ratio| *ratio <= 1.0), "{found:?}");
    check!(first.s.iter().all(|s| s.to_double().is_finite()), "a value is not finite");
    Ok(())
}
