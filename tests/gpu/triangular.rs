//! The triangular operations on the device, of matrices that travel and of such that stay there: the same properties as on the CPU
//! (tests/all/triangular.rs), and the same numbers to a few roundings.

use faer::Mat;
use num_complex::Complex;
use proptest::sample::select;
use svdvals_gpu::{
    Backend, GpuContext, GpuMatrix, HalfStorage, Number, RunOptions, SvdError, SvdValsGpu, Tuning,
    triangular::{Diag, Op, Side, TriangularGpu, Uplo},
};

use crate::{
    Body, Elements, Outcome, check,
    common::{
        gaussian,
        problems::{Layout, forall},
        triangles::{Case, Kind, Variant, verify},
    },
    tuning,
};

/// The trials of one element type.
pub fn trials<T: Elements>() -> Vec<(&'static str, Body)> {
    vec![
        ("random_problems", random_problems::<T>),
        ("all_variants_stay_on_the_device", all_variants_stay_on_the_device::<T>),
        ("refusals", refusals::<T>),
        ("bands_of_matrices_on_the_device", bands_of_matrices_on_the_device::<T>),
    ]
}

fn gpu(context: &GpuContext) -> RunOptions {
    RunOptions::default().context(context.clone()).backend(Backend::Gpu)
}

/// Hyperparameters, for each of which the shaders are compiled anew: the device's defaults; tiles of 8, cut down to triangles of 6, with
/// products of 20 rows; a base larger than the tiles.
fn tunings<T: Number>(context: &GpuContext) -> Vec<Tuning> {
    vec![Tuning::for_adapter::<T::Scalar>(context, 64), tuning(8, 16).triangle(6).rows_per_block(20), tuning(5, 15).triangle(16)]
}

/// Random problems of every variant, in every memory order, with NaN wherever nothing may be read, by both front ends: within
/// [`verify`]'s bounds.
pub fn random_problems<T: Elements>(context: &GpuContext) -> Outcome {
    let tunings = tunings::<T>(context);
    forall(60, (Case::any(50), select(tunings)), |(case, tuning)| case.check::<T>(&gpu(context).tuning(tuning)))?;
    Ok(())
}

/// Every variant, as a product and as a solution, of matrices that are uploaded once, in both memory orders, whole: what may not be read is
/// NaN on the device too. Within [`verify`]'s bounds, and so within twice those of the CPU's answer.
fn all_variants_stay_on_the_device<T: Elements>(context: &GpuContext) -> Outcome {
    let options = gpu(context).tuning(tuning(8, 16).triangle(8));
    for (seed, variant) in (0..).zip(Variant::all()) {
        let layout = |by_rows| Layout { by_rows, steps: (1, 1), padding: 0, reversed: (false, false) };
        let [of_a, of_b] = [seed % 3 == 0, seed % 2 == 0].map(layout);
        for solve in [false, true] {
            let case = Case { variant, solve, n: 43, k: 30, kind: Kind::Well, alpha: 0.75, seed, of_a, of_b };
            let (a, b): (Mat<T>, Mat<T>) = (case.triangle(), case.right_hand_side());
            let alpha = T::real(0.75);
            let there = GpuMatrix::upload(context, &a)?;
            let mut x = if of_b.by_rows {
                let turned = crate::common::row_major(&b);
                GpuMatrix::upload(context, &turned.transpose())?
            } else {
                GpuMatrix::upload(context, &b)?
            };
            check!((x.nrows(), x.ncols()) == b.shape(), "{x:?}");
            let Variant { side, uplo, op, diag } = variant;
            if solve {
                x.trsm_gpu_with(side, uplo, op, diag, alpha, &there, &options)?;
            } else {
                x.trmm_gpu_with(side, uplo, op, diag, alpha, &there, &options)?;
            }
            verify(variant, solve, alpha, a.as_ref(), b.as_ref(), x.to_mat()?.as_ref()).map_err(|e| e.to_string())?;
            // And back again: the other operation, with the rest of alpha.
            let middle = x.to_mat()?;
            if solve {
                x.trmm_gpu_with(side, uplo, op, diag, T::real(2.0), &there, &options)?;
            } else {
                x.trsm_gpu_with(side, uplo, op, diag, T::real(2.0), &there, &options)?;
            }
            // Half types are not rounded in between, and may differ by that.
            if !T::IS_HALF {
                verify(variant, !solve, T::real(2.0), a.as_ref(), middle.as_ref(), x.to_mat()?.as_ref())
                    .map_err(|e| e.to_string())?;
            }
        }
    }
    Ok(())
}

/// What does not fit is refused as on the CPU, B stays as it was, and the next call works.
fn refusals<T: Elements>(context: &GpuContext) -> Outcome {
    let options = gpu(context).tuning(tuning(8, 16).triangle(8));
    let one = T::real(1.0);
    let b: Mat<T> = gaussian(20, 20, 7);
    for (index, value) in [(0, 0.0), (19, f64::NAN), (10, f64::INFINITY)] {
        let entry = |i: usize, j: usize| if i == j && i >= index { value } else { 1.0 };
        let a = Mat::<T>::from_fn(20, 20, |i, j| T::from_complex(Complex::new(entry(i, j), 0.0)));
        let there = GpuMatrix::upload(context, &a)?;
        let mut x = GpuMatrix::upload(context, &b)?;
        for variant in Variant::all() {
            let Variant { side, uplo, op, diag } = variant;
            if diag == Diag::Unit {
                continue;
            }
            let singular = |result| matches!(result, Err(SvdError::Singular { index: i, .. }) if i == index);
            check!(singular(x.trsm_gpu_with(side, uplo, op, diag, one, &there, &options)), "{variant:?}, {value} at {index}");
            let mut here = b.clone();
            check!(singular(variant.apply(true, one, a.as_ref(), &mut here, &options)), "{variant:?}, {value} at {index}");
            check!(here == b, "B changed");
        }
        check!(x.to_mat()? == b, "B changed");
        let Variant { side, uplo, op, diag } = Variant::all()[0];
        x.trsm_gpu_with(side, uplo, op, diag, T::real(0.0), &there, &options)?;
        check!(x.to_mat()? == Mat::from_fn(20, 20, |_, _| T::real(0.0)), "alpha = 0 makes B zero");
    }
    let (narrow, mut x) = (GpuMatrix::upload(context, &gaussian::<T>(20, 19, 1))?, GpuMatrix::upload(context, &b)?);
    let Variant { side, uplo, op, diag } = Variant::all()[0];
    let mut refused = |options: &RunOptions, a: &GpuMatrix<T>| x.trmm_gpu_with(side, uplo, op, diag, one, a, options);
    check!(matches!(refused(&options, &narrow), Err(SvdError::Shapes { a: (20, 19), b: (20, 20), .. })), "a narrow A");
    let whole = GpuMatrix::upload(context, &b)?;
    let option = |result: svdvals_gpu::Result<()>| match result {
        Err(SvdError::InvalidOption { option, .. }) => option,
        _ => "none",
    };
    check!(option(refused(&options.clone().backend(Backend::Cpu), &whole)) == "backend", "on the CPU");
    check!(option(refused(&options.clone().tuning(tuning(8, 16).triangle(1 << 20)), &whole)) == "triangle", "a huge triangle");
    check!(option(refused(&options.clone().tuning(tuning(8, 16).triangle(0)), &whole)) == "triangle", "no triangle");
    check!(option(refused(&options.clone().tuning(tuning(1 << 14, 1 << 15)), &whole)) == "tile_size", "a huge tile");
    refused(&options, &whole)?;
    for shape in [(0, 0), (0, 3), (3, 0)] {
        let mut nothing = GpuMatrix::upload(context, &gaussian::<T>(shape.0, shape.1, 1))?;
        let none = GpuMatrix::upload(context, &gaussian::<T>(shape.0, shape.0, 1))?;
        nothing.trsm_gpu_with(side, uplo, op, diag, one, &none, &options)?;
        check!(nothing.to_mat()?.shape() == shape, "{shape:?}");
    }
    Ok(())
}

/// Stage 1 of a matrix that is on the device is stage 1 of one that is uploaded, to the last bit: it finds the same power of two, at both
/// ends of the range, too, and the same entry that is not finite. And it takes what an operation left there.
fn bands_of_matrices_on_the_device<T: Elements>(context: &GpuContext) -> Outcome {
    let mut all = vec![HalfStorage::Single];
    all.extend((T::IS_HALF && context.supports::<T>(HalfStorage::Half)).then_some(HalfStorage::Half));
    let options = gpu(context).tuning(tuning(8, 16).triangle(8));
    let largest = f64::from(<T as Number>::MAX_EXPONENT - 12).exp2();
    for (m, n) in [(1, 1), (30, 30), (45, 20), (20, 45), (300, 7), (0, 4)] {
        for scale in [1.0, largest, 1.0 / largest, 0.0] {
            let a = Mat::<T>::from_fn(m, n, |i, j| T::from_complex(crate::common::complex_noise(31, i, j) * scale));
            let turned = crate::common::row_major(&a);
            for half in &all {
                let options = options.clone().half_storage(*half);
                let want = SvdValsGpu::to_band(&a, &options)?;
                check!(GpuMatrix::upload(context, &a)?.to_band(&options)? == want, "{m} x {n}, {scale:e}, {half:?}");
                let want = SvdValsGpu::to_band(&turned.transpose(), &options)?;
                let band = GpuMatrix::upload(context, &turned.transpose())?.to_band(&options)?;
                check!(band == want, "{m} x {n} by rows, {scale:e}, {half:?}");
            }
        }
    }
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut a = Mat::<T>::from_fn(40, 30, |i, j| T::noise(32, i, j));
        a[(17, 5)] = T::real(value);
        a[(18, 2)] = T::real(f64::NAN);
        let found = GpuMatrix::upload(context, &a)?.to_band(&options);
        check!(matches!(found, Err(SvdError::NonFinite { row: 17, col: 5, .. })), "{found:?}");
    }
    // Q A with Q = 2 I has twice the band of A.
    let (a, q) = (Mat::<T>::from_fn(20, 20, |i, j| T::noise(33, i, j)), Mat::<T>::from_fn(20, 20, |_, _| T::real(f64::NAN)));
    let want = SvdValsGpu::to_band(&a, &options)?;
    let mut there = GpuMatrix::upload(context, &a)?;
    let q = GpuMatrix::upload(context, &q)?;
    there.trmm_gpu_with(Side::Left, Uplo::Lower, Op::NoTrans, Diag::Unit, T::real(0.0), &q, &options)?;
    check!(there.to_band(&options)?.to_mat() == Mat::zeros(20, 20), "the band of zero");
    let q = GpuMatrix::upload(context, &Mat::<T>::from_fn(20, 20, |i, j| T::real(f64::from(u8::from(i == j)))))?;
    let mut there = GpuMatrix::upload(context, &a)?;
    there.trmm_gpu_with(Side::Right, Uplo::Upper, Op::Trans, Diag::NonUnit, T::real(2.0), &q, &options)?;
    let band = there.to_band(&options)?;
    let twice = |i, j| T::Scalar::from_complex(want.get(i, j).to_complex() * 2.0);
    check!(band.to_mat() == Mat::from_fn(20, 20, twice), "twice the band");
    Ok(())
}
