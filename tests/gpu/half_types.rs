//! Half types held in f32: what is computed of them is, to the last bit, what is computed of the matrix of f32 with the same entries and memory order.

use faer::{Mat, MatRef};
use svdvals_gpu::{
    Backend, GpuContext, GpuMatrix, LstsqGpu, LstsqOptions, QrGpu, QrOptions, Reduction, Result, RunOptions, Stage3, SvdGpu,
    SvdOptions, SvdValsGpu, svd_batch, svdvals_batch,
};

use crate::{Elements, Outcome, check, common::row_major, lstsq::right_sides, tuning, vectors::matrix};

/// The half types and f32.
pub trait InSingle: Elements<Value = f32, Arithmetic = f32> {}

impl<T: Elements<Value = f32, Arithmetic = f32>> InSingle for T {}

/// The numbers that a call gives, with its name.
type Found = (&'static str, Vec<f32>);

fn entries(of: &[MatRef<'_, f32>]) -> Vec<f32> {
    of.iter().flat_map(|a| a.col_iter().flat_map(|col| col.iter().copied()).collect::<Vec<_>>()).collect()
}

/// By every driver whose matrices travel, and by those of matrices that stay.
fn by_every_driver<T: InSingle>(context: &GpuContext, a: MatRef<'_, T>, b: &Mat<T>) -> Result<Vec<Found>> {
    let run = RunOptions::default().context(context.clone()).backend(Backend::Gpu).tuning(tuning(8, 24).triangle(16));
    let (on, of_qr, of_lstsq): (SvdOptions, QrOptions, LstsqOptions) = (run.clone().into(), run.clone().into(), run.into());
    let mut found = Vec::new();
    for options in [on.clone().reduction(Reduction::TwoStage), on.clone().reduction(Reduction::OneStage)] {
        found.push(("values", a.svdvals_gpu_with(&options)?.iter().copied().collect()));
        let svd = a.svd_gpu_with(&options)?;
        found.push(("svd", [entries(&[svd.u.as_ref(), svd.v.as_ref()]), svd.s.iter().copied().collect()].concat()));
    }
    let qr = a.qr_gpu_with(&of_qr)?;
    found.push(("qr", entries(&[qr.r().as_ref(), qr.thin_q()?.as_ref()])));
    let fit = a.lstsq_gpu_with(b, &of_lstsq)?;
    found.push(("lstsq", [entries(&[fit.x.as_ref()]), fit.residuals].concat()));
    for options in [on.clone(), on.clone().reduction(Reduction::TwoStage).stage3(Stage3::Device)] {
        let values = svdvals_batch(&[a, a, a], &options)?;
        found.push(("batch", values.iter().flat_map(|s| s.iter().copied()).collect()));
        let batch = svd_batch(&[a, a, a], &options)?;
        found.push(("svd of a batch", batch.iter().flat_map(|svd| entries(&[svd.u.as_ref(), svd.v.as_ref()])).collect()));
    }

    let (a, b) = (GpuMatrix::upload(context, &a)?, GpuMatrix::upload(context, b)?);
    let svd = a.svd(&on)?;
    found.push(("svd there", entries(&[svd.u.to_mat()?.as_ref(), svd.v.to_mat()?.as_ref()])));
    for options in [of_qr.clone(), of_qr.pivot(true)] {
        let qr = a.qr(&options)?;
        found.push(("qr there", entries(&[qr.r()?.to_mat()?.as_ref(), qr.thin_q()?.to_mat()?.as_ref()])));
    }
    for options in [of_lstsq.clone(), of_lstsq.ridge(0.25)] {
        let fit = a.lstsq(&b, &options)?;
        found.push(("lstsq there", [entries(&[fit.x.to_mat()?.as_ref()]), fit.residuals].concat()));
    }
    Ok(found)
}

/// So the trials of `every` hold for half types that are held in f32: square, tall, wide and narrow matrices, in both memory orders.
pub fn are_their_f32<T: InSingle>(context: &GpuContext) -> Outcome {
    let widened = |a: &Mat<T>| Mat::from_fn(a.nrows(), a.ncols(), |i, j| a[(i, j)].to_complex().re as f32);
    for (kind, m, n) in [
        ("random", 1, 1),
        ("random", 70, 50),
        ("graded", 41, 60),
        ("rank third", 45, 45),
        ("random", 200, 9),
        ("random", 520, 32),
    ] {
        let a = matrix::<T>(kind, m, n);
        let turned = row_major(&a);
        let (wide, wide_turned) = (widened(&a), widened(&turned));
        let orders = [(a.as_ref(), wide.as_ref()), (turned.transpose().reverse_rows(), wide_turned.transpose().reverse_rows())];
        for (a, wide) in orders {
            let b = right_sides(a, 2);
            let (found, want) = (by_every_driver(context, a, &b)?, by_every_driver(context, wide, &widened(&b))?);
            for ((name, found), (_, want)) in found.into_iter().zip(want) {
                check!(found == want, "{kind} {m} x {n}: {name}");
            }
        }
    }
    Ok(())
}
