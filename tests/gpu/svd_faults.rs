//! The decomposition with vectors when something stops it: a lost device, a device that is too small, a cancelled call. The next call works.

use faer::Mat;
use svdvals_gpu::{AdapterChoice, Backend, GpuContext, GpuMatrix, Reduction, Stage, SvdError, SvdGpu, SvdOptions, Vectors};

use crate::{
    Elements, Outcome, check, tuning,
    vectors::{check, matrix},
    waits::stopped_in,
};

const STAGES: [Stage; 4] = [Stage::ToBand, Stage::BandToBidiag, Stage::Svdvals, Stage::Vectors];

fn on(context: &GpuContext) -> SvdOptions {
    SvdOptions::default().context(context.clone()).backend(Backend::Gpu).tuning(tuning(8, 16))
}

/// The error of a call that blocks, or that is awaited.
fn error_of<T: Elements>(a: &Mat<T>, options: &SvdOptions, awaited: bool) -> Option<SvdError> {
    let result = if awaited { pollster::block_on(a.svd_gpu_async(options)) } else { a.svd_gpu_with(options) };
    result.err()
}

/// A call that is stopped in a stage says so, whether it blocks, is awaited, or is of a resident matrix, in two stages or one; the next one has the
/// bits of one that was not stopped. The one-stage reduction of a square matrix has nothing in stage 1.
pub fn cancellation<T: Elements>(context: &GpuContext) -> Outcome {
    let a = matrix::<T>("random", 60, 45);
    let resident = GpuMatrix::upload(context, &a)?;
    for reduction in [Reduction::TwoStage, Reduction::OneStage] {
        let options = on(context).reduction(reduction);
        let want = a.svd_gpu_with(&options)?;
        for stage in STAGES {
            let cancelled = Some(SvdError::Cancelled { stage });
            for awaited in [false, true] {
                let error = error_of(&a, &stopped_in(stage, &options), awaited);
                check!(error == cancelled, "{error:?}, not cancelled in {stage}, {reduction:?}, awaited: {awaited}");
            }
            let error = resident.svd(&stopped_in(stage, &options)).err();
            check!(error == cancelled, "{error:?}, not cancelled in {stage}, {reduction:?}, resident");
            let next = a.svd_gpu_with(&options)?;
            check!(next.u == want.u && next.s == want.s && next.v == want.v, "other bits after a call stopped in {stage}");
        }
    }
    Ok(())
}

/// A device that is lost in a stage is an error of that call and of the next one on it. One on a new device has the bits of an undisturbed call.
pub fn lost_device() -> Outcome {
    let a = matrix::<f32>("random", 40, 30);
    let choice = AdapterChoice::default();
    let mut context = GpuContext::new(&choice)?;
    let want = a.svd_gpu_with(&on(&context))?;
    for (stage, awaited) in STAGES.map(|stage| (stage, false)).into_iter().chain([(Stage::Vectors, true)]) {
        let device = context.device().clone();
        let losing = on(&context).progress(move |progress| {
            if progress.stage == stage {
                device.destroy();
            }
        });
        for options in [losing, on(&context)] {
            let error = error_of(&a, &options, awaited);
            check!(matches!(error, Some(SvdError::DeviceLost { .. })), "{error:?}, lost in {stage}, awaited: {awaited}");
        }
        context = GpuContext::new(&choice)?;
        let next = a.svd_gpu_with(&on(&context))?;
        check!(next.u == want.u && next.s == want.s && next.v == want.v, "other bits after a device lost in {stage}");
    }
    Ok(())
}

/// A device whose buffers hold V but not A or U in one piece leaves the left vectors to the host. One whose buffers do not hold V refuses, with the
/// bytes, before it computes. The next call works, and so does one of a matrix that fits.
pub fn small_buffers() -> Outcome {
    // 6144 numbers of f32.
    let context = GpuContext::new(&AdapterChoice::default().max_binding(4 * 6144))?;
    let options = on(&context).tuning(tuning(8, 64));
    for _ in 0..2 {
        for vectors in [Vectors::Thin, Vectors::Left, Vectors::Right] {
            check("V in a buffer", matrix::<f32>("random", 100, 70).as_ref(), &options.clone().vectors(vectors))?;
        }
        let error = matrix::<f32>("random", 100, 90).svd_gpu_with(&options).err();
        let Some(SvdError::TooLarge { needed, available, .. }) = error else {
            return Err(format!("90 x 90 vectors: {error:?}").into());
        };
        check!(needed > available, "{needed} bytes of {available}");
        check("all in a buffer", matrix::<f32>("random", 60, 50).as_ref(), &options)?;
    }
    Ok(())
}
