//! Stage 3 on the device: bisection with Sturm counts, one singular value a thread.

use crate::{
    base::{
        element_kind::ElementKind,
        error::{Result, SvdError},
        number::RealElement,
    },
    cost::work::{BISECT_THREADS, LINEAR_THREADS, TOP, Work, passes_of_dispatches},
    gpu::{
        device::{
            buffers::storage,
            parameters,
            pipeline::{BISECT, SQUARE_BIDIAGONAL, Wanted},
        },
        kernels::{GpuKernels, SOFTWARE_ITERATIONS},
        storage::Banded,
    },
};

/// The pipelines of [`GpuKernels::bisect`].
pub(crate) fn bisection_pipelines() -> [Wanted; 2] {
    [(&SQUARE_BIDIAGONAL, Vec::new(), 0), (&BISECT, vec![("BISECT_THREADS", BISECT_THREADS), ("TOP", TOP)], 0)]
}

impl GpuKernels {
    /// The `count` largest singular values of each bidiagonal in `band`, or all if there are fewer, ascending. They are f64, but only as accurate as
    /// `S`'s arithmetic: each has a relative error of some eps, unless it is below 2^-47 (f32; f64: 2^-470) of the largest entry. The dispatches are as
    /// many for every `count`, with fewer workgroups.
    ///
    /// A bidiagonal has [`SvdError::Gpu`] if stage 2 left a number that is not finite, which never happens with finite entries.
    ///
    /// # Errors
    /// Those of the device.
    pub(crate) async fn bisect(&self, band: &Banded, count: usize) -> Result<Vec<Result<Vec<f64>>>> {
        let (n, matrices) = (band.layout.n, band.matrices);
        let count = count.min(n);
        if count == 0 {
            return Ok((0..matrices).map(|_| Ok(Vec::new())).collect());
        }
        let (of_squares, of_bounds) = (2 * n + 1, 2 * n);
        let (context, stream, real) = (&self.context, &self.stream, self.kind.real_bytes());
        let storage = |what, len: usize| storage(context, what, (matrices * len * real) as u64);
        let squares = storage("the bidiagonal's squares", of_squares)?;
        let bounds = storage("bounds of the singular values", of_bounds)?;

        let [square, bisect] =
            bisection_pipelines().map(|(shader, values, count)| context.pipeline(self.kind, shader, &values, count));
        let (square, bisect) = (square?, bisect?);
        let bindings = stream.bind(&square, &[&band.band, &squares], &[])?;
        let parameters = parameters::SquareBidiagonal {
            n: n as u32,
            columns: band.layout.columns as u32,
            ld: band.layout.ld() as u32,
            ku: band.layout.ku as u32,
        };
        let work = Work::square_bidiagonal(self.kind, n, LINEAR_THREADS.into()).times(matrices);
        stream.dispatch(&square, &bindings, parameters, [1, 1, matrices as u32], work)?;

        let bindings = stream.bind(&bisect, &[&squares, &bounds], &[])?;
        let [x, y] = stream.fold(count.div_ceil(BISECT_THREADS as usize))?;
        let most_iterations = if context.is_software() { SOFTWARE_ITERATIONS } else { usize::MAX };
        let most_flops = stream.most_flops() / matrices.max(1) as u64;
        let Some(dispatches) = passes_of_dispatches(self.kind.real(), n, most_flops, most_iterations) else {
            let reason = format!("Stage3::Device, but {} does not run loops of {n}", context.adapter_name());
            return Err(SvdError::invalid("stage3", reason));
        };
        for (k, passes) in dispatches.enumerate() {
            let lowest = (n - count) as u32;
            let parameters = parameters::Bisect { n: n as u32, passes: passes as u32, first: u32::from(k == 0), lowest };
            let work = Work::bisect(self.kind, n, passes, BISECT_THREADS.into()).times(matrices);
            stream.dispatch(&bisect, &bindings, parameters, [x, y, matrices as u32], work)?;
        }

        let squares = stream.read_back_reals(self.kind, &squares, matrices * of_squares).await?;
        let bounds = stream.read_back_reals(self.kind, &bounds, matrices * of_bounds).await?;
        let values = |(squares, bounds): (&[f64], &[f64])| {
            if squares.iter().any(|x| !x.is_finite()) {
                return Err(SvdError::Gpu { what: "stage 2", reason: "it left numbers that are not finite".into() });
            }
            let factor = squares[0];
            let wanted = bounds.chunks_exact(2).skip(n - count);
            Ok(wanted.map(|of| value_between(self.kind, of[0], of[1]) / factor).collect())
        };
        Ok(squares.chunks_exact(of_squares).zip(bounds.chunks_exact(of_bounds)).map(values).collect())
    }
}

/// The singular value whose square is between these bounds. A square below the floor counts as zero.
pub(crate) fn value_between(kind: ElementKind, low: f64, high: f64) -> f64 {
    let floor = 8.0 * if kind.is_double() { f64::pivot() } else { f32::pivot().into() };
    if high <= floor { 0.0 } else { (0.5 * (low + high)).sqrt() }
}
