//! Batches for a caller that must not block.

use std::pin::Pin;

use faer::{Mat, MatRef};

use crate::{
    base::{
        clock::Clock,
        error::Result,
        number::{Re, Scalar},
        pool::on_pool_async,
        watch::Watch,
    },
    plan::{
        batch::{
            BatchReport, Each, Of, Together,
            gathered::{Done, Gathered},
            svd_batch, svdvals_batch,
        },
        factors::Factors,
        options::{Backend, RunOptions, SvdOptions},
        report::SvdReport,
        svd::svd_async,
        svdvals::svdvals_async,
    },
};

type Later<'a, R> = Pin<Box<dyn Future<Output = R> + Send + 'a>>;
/// A single call.
type One<T, R> = for<'b> fn(MatRef<'b, T>, &'b SvdOptions, bool) -> Later<'b, Result<SvdReport<R>>>;
/// A batch on the CPU.
type OnCpu<T, R> = for<'b> fn(&[MatRef<'b, T>], &SvdOptions, bool) -> Result<BatchReport<Each<R>>>;

/// [`svdvals_batch`] for a caller that must not block. The CPU computes in the rayon pool, from a copy of the matrices.
pub(crate) async fn svdvals_batch_async<T: Scalar>(
    batch: &[MatRef<'_, T>],
    options: &SvdOptions,
    timed: bool,
) -> Result<BatchReport<Each<Vec<Re<T>>>>> {
    let of = Of::values(batch, options, timed);
    #[cfg(feature = "gpu")]
    let of = of.chosen_async::<Vec<Re<T>>>().await;
    let watch = of.watch()?;
    let together = of.on_device_async(&watch).await;
    of.rest_async(together, &watch, |a, options, timed| Box::pin(svdvals_async(a, options, timed)), svdvals_batch).await
}

/// [`svd_batch`] for a caller that must not block.
pub(crate) async fn svd_batch_async<T: Scalar>(
    batch: &[MatRef<'_, T>],
    options: &SvdOptions,
    timed: bool,
) -> Result<BatchReport<Each<Factors<T>>>> {
    let of = Of::vectors(batch, options, timed);
    #[cfg(feature = "gpu")]
    let of = of.chosen_async::<Factors<T>>().await;
    let watch = of.watch()?;
    let together = of.on_device_async(&watch).await;
    of.rest_async(together, &watch, |a, options, timed| Box::pin(svd_async(a, options, timed)), svd_batch).await
}

impl<T: Scalar> Of<'_, T> {
    /// Nothing, without a GPU.
    #[cfg(not(feature = "gpu"))]
    async fn on_device_async<R>(&self, _: &Watch) -> Option<Together<R>> {
        None
    }

    /// The results of the matrices that are not in `together`: single calls on a GPU, or a batch on the CPU.
    async fn rest_async<R: Send + 'static>(
        &self,
        together: Option<Together<R>>,
        watch: &Watch,
        one: One<T, R>,
        on_cpu: OnCpu<T, R>,
    ) -> Result<BatchReport<Each<R>>> {
        let &Of { batch, options, timed, .. } = self;
        let clock = Clock::new(timed);
        let single = self.single();
        let mut gathered = Gathered::new(self, together);
        let rest: Vec<usize> = (0..batch.len()).filter(|&index| gathered.results[index].is_none()).collect();
        let (alone, others): (Vec<usize>, Vec<usize>) = rest.into_iter().partition(|&index| self.may_go_alone(index));
        for index in alone {
            let result = match watch.check() {
                Ok(()) => one(batch[index], &single, timed).await.map(|report| Done::new(report, timed)),
                Err(error) => Err(error),
            };
            gathered.results[index] = Some(watch.did(self.work(index)).and(result));
        }
        let mut side_by_side = 0;
        if !others.is_empty() {
            let copy = |&index: &usize| Mat::from_fn(batch[index].nrows(), batch[index].ncols(), |i, j| batch[index][(i, j)]);
            let copies: Vec<Mat<T>> = others.iter().map(copy).collect();
            // Its progress is that of the batch only if it is the whole batch.
            let progress = options.run.progress.clone().filter(|_| others.len() == batch.len());
            let run = RunOptions { backend: Backend::Cpu, progress, ..options.run.clone() };
            let options = SvdOptions { run, ..options.clone() };
            let report = on_pool_async(move || {
                let views: Vec<MatRef<'_, T>> = copies.iter().map(|a| a.as_ref()).collect();
                on_cpu(&views, &options, timed)
            });
            let report = report.await??;
            side_by_side = report.side_by_side;
            gathered.add(&others, report);
        }
        if others.len() < batch.len() {
            watch.end();
        }
        Ok(gathered.report(side_by_side, clock.seconds()))
    }
}
