//! A call on a matrix, which the drivers pass on.

use std::sync::Mutex;

use faer::{Mat, MatRef};

#[cfg(feature = "gpu")]
use crate::plan::gpu::Asked;
use crate::{
    base::{
        clock::Clock,
        element_kind::ElementKind,
        error::Result,
        number::{Re, Scalar},
        pool::on_pool_async,
        scale::power_of_two_scale,
        view::upright,
        watch::Listen,
    },
    cpu::simd::aligned::Aligned,
    plan::{
        choice::Reason,
        options::{RunOptions, SvdOptions},
        problem::Problem,
        report::SvdReport,
    },
};

/// A call on a matrix, with the options of its decomposition.
pub(crate) struct Call<'a, T: Scalar, O = SvdOptions> {
    /// The caller's matrix.
    pub a: MatRef<'a, T>,
    pub options: &'a O,
    /// The part of them that says where and how it runs.
    pub run: &'a RunOptions,
    /// Whether the seconds of each stage are needed. Reading clocks takes longer than some small matrices do.
    pub timed: bool,
    pub listen: Listen,
    clock: Clock,
    /// Workspace of the calls before, if there is some.
    pub room: Option<&'a Room<T>>,
}

/// Workspace that calls of one thread share. The lock is never waited for.
pub(crate) type Room<T> = Mutex<Aligned<Wide<T>>>;

type Wide<T> = <T as Scalar>::Wide;

impl<'a, T: Scalar> Call<'a, T> {
    pub fn new(a: MatRef<'a, T>, options: &'a SvdOptions, timed: bool) -> Self {
        Call::of(a, options, &options.run, timed)
    }

    /// The call with the workspace of others.
    pub fn in_room(self, room: Option<&'a Room<T>>) -> Self {
        Call { room, ..self }
    }

    /// Whether the options bind the call to the device that they chose.
    #[cfg(feature = "gpu")]
    pub fn bound(&self) -> bool {
        self.options.need_device()
    }

    pub fn problem(&self) -> Problem {
        Problem::Dense { m: self.a.nrows(), n: self.a.ncols() }
    }

    /// The matrix or its transpose, whichever has m >= n, without negative strides.
    pub fn upright(&self) -> MatRef<'a, T> {
        upright(self.a).0
    }

    /// What a GPU needs of the call besides the matrix.
    #[cfg(feature = "gpu")]
    pub fn asked(&self) -> Asked<'a> {
        Asked { options: self.options, listen: self.listen.clone(), timed: self.timed }
    }
}

impl<'a, T: Scalar, O> Call<'a, T, O> {
    /// A call that begins now. `run` is a part of the `options`.
    pub fn of(a: MatRef<'a, T>, options: &'a O, run: &'a RunOptions, timed: bool) -> Self {
        Call { a, options, run, timed, listen: run.listen(), clock: Clock::new(timed), room: None }
    }

    /// Stage 0 of the matrix, to be stored as `kind`, and its seconds.
    pub fn scale(&self, kind: ElementKind) -> Result<(Re<T>, f64)> {
        let clock = Clock::new(self.timed);
        Ok((power_of_two_scale(kind, self.a)?, clock.seconds()))
    }

    /// What `compute` reports of a copy of the matrix in the pool, for a caller that must not block. `reason` is why the CPU computes.
    pub async fn in_pool<V: Send + 'static>(
        &self,
        reason: Reason,
        compute: impl FnOnce(MatRef<'_, T>) -> Result<SvdReport<V>> + Send + 'static,
    ) -> Result<SvdReport<V>> {
        let copy = Mat::from_fn(self.a.nrows(), self.a.ncols(), |i, j| self.a[(i, j)]);
        let report = on_pool_async(move || compute(copy.as_ref())).await??;
        Ok(self.complete(SvdReport { reason, ..report }))
    }

    /// Adds to the report what only the driver knows.
    pub fn complete<V>(&self, report: SvdReport<V>) -> SvdReport<V> {
        let mut report = SvdReport { shape: self.a.shape(), ..report };
        report.seconds.total = self.clock.seconds();
        report
    }
}
