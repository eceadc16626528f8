//! The vectors of a stack.
//!
//! ```text
//! plans of divide and conquer      on the host, of all matrices side by side
//! V_C, the bidiagonal's vectors    on the device, of as many at a time as their workspace allows
//! V = P1 P2 V_C                    of neighbours with the same number of vectors
//! V orthonormal, U = A V / S       again of as many at a time
//! ```

use faer::Mat;

use crate::{
    algo::svdvals::Reduced,
    base::{
        clock::Clock,
        error::{Result, SvdError},
        number::{Re, RealElement, Scalar},
        stage::Stage,
    },
    gpu::{
        kernels::{GpuKernels, stacked::is_by_rows},
        storage::Dense,
    },
    plan::{
        batch::each::{OfStack, OnDevice, Stacked},
        factors::Factors,
        gpu::both_sides,
        options::{Signs, Vectors},
        svd::{factors_of_caller, needed},
    },
};

/// A matrix that has values: its place in the stack, how many of them have vectors, and whether left and right ones are needed.
struct Found<'a, T: Scalar> {
    place: usize,
    of: OfStack<'a, T>,
    values: Vec<Re<T>>,
    k: usize,
    needed: (bool, bool),
}

impl<T: Scalar> Found<'_, T> {
    /// Whether this one and the `next` share dispatches.
    fn is_beside(&self, next: &Self) -> bool {
        self.place + 1 == next.place && (self.k, self.needed) == (next.k, next.needed)
    }
}

/// Adds the decompositions of the matrices of a stack to `all`. `did` is told of each as it ends.
///
/// # Errors
/// Of the device, or a cancellation. A matrix whose values have an error has that one.
pub(in crate::plan::batch) async fn decompositions<T: Scalar>(
    stack: OnDevice<'_, T>,
    all: &mut Stacked<Factors<T>>,
    did: &(dyn Fn(&[usize]) + Sync),
) -> Result<()> {
    let OnDevice { driver, options, matrices, reduced, copy, values } = stack;
    let (kernels, full) = (driver.kernels, options.vectors == Vectors::Full);
    driver.watch.begin(Stage::Vectors)?;
    let mut clock = Clock::new(driver.timed);
    let bidiagonals = kernels.bidiagonals(&reduced.band).await?;
    let (mut found, mut wanted) = (Vec::with_capacity(matrices.len()), Vec::with_capacity(matrices.len()));
    for (place, ((of, values), bidiagonal)) in matrices.into_iter().zip(values).zip(bidiagonals).enumerate() {
        match values {
            Ok(values) => {
                let k = options.kept(&values);
                wanted.push((bidiagonal, k));
                let needed = needed(options.vectors, of.turned.transposed);
                found.push(Found { place, of, values, k, needed });
            }
            Err(error) => all.results.push((of.index, Err(error))),
        }
    }
    let mut planned = &kernels.planned(wanted).await?[..];
    for found in found.chunk_by(Found::is_beside) {
        let (first, k, n) = (found[0].place, found[0].k, reduced.n);
        let part = Reduced {
            dense: reduced.dense.as_ref().map(|dense| dense.part(first..first + found.len())).transpose()?,
            band: reduced.band.part(first..first + found.len())?,
            ..reduced
        };
        let at_once = kernels.vectors_at_once(found[0].of.a.shape(), is_by_rows(found[0].of.a), full)?;
        let mut right = kernels.room_of_stack(found.len(), n, k)?;
        for first in (0..found.len()).step_by(at_once) {
            let some = first..found.len().min(first + at_once);
            kernels.write_right(&planned[some.clone()], &right.part(some)?)?;
            // The workspace of these is free before that of the next ones is allocated.
            all.seconds.bidiagonal_vectors += driver.lap(&mut clock).await?;
        }
        planned = &planned[found.len()..];
        driver.transform_back(&part, &mut right, &mut all.seconds).await?;
        clock.restart();
        for (some, found) in found.chunks(at_once).enumerate() {
            let (needs_left, needs_right) = found[0].needed;
            let (first, place) = (some * at_once, found[0].place);
            let a = copy.as_ref().filter(|_| needs_left).map(|copy| copy.part(place..place + found.len())).transpose()?;
            let values: Vec<Vec<f64>> = found.iter().map(|found| found.values.iter().map(|x| x.to_double()).collect()).collect();
            let values: Vec<&[f64]> = values.iter().map(|values| &values[..]).collect();
            let (right, left) = both_sides(kernels, a.as_ref(), &values, right.part(first..first + found.len())?, full)?;
            if needs_left && left.is_none() {
                return Err(SvdError::Gpu { what: "left vectors", reason: "the matrices of a stack have no copy".into() });
            }
            let (m, n) = found[0].of.a.shape();
            let right = of_each(kernels, Some(right).filter(|_| needs_right), (n, found.len())).await?;
            let left = of_each(kernels, left, (m, found.len())).await?;
            all.seconds.left_vectors += clock.restart();
            for ((Found { of, values, .. }, left), right) in found.iter().zip(left).zip(right) {
                let mut factors = factors_of_caller(of.turned, options, values[..k].to_vec(), left, right);
                if options.signs == Signs::Largest {
                    factors.fix_signs();
                }
                all.results.push((of.index, Ok(factors)));
                all.tell(did);
            }
        }
    }
    Ok(())
}

/// The vectors of one side of several matrices, or as many times none.
async fn of_each<T: Scalar>(kernels: &GpuKernels, of: Option<Dense>, (rows, matrices): (usize, usize)) -> Result<Vec<Mat<T>>> {
    match of {
        Some(of) => kernels.download_stack(&of).await,
        None => Ok(vec![Mat::zeros(rows, 0); matrices]),
    }
}
