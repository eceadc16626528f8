//! The vectors of a stack.
//!
//! ```text
//! plans of divide and conquer      on the host, of all matrices side by side
//! V_C, the bidiagonal's vectors    on the device, one matrix after the other
//! V = P1 P2 V_C                    of neighbours with the same number of vectors, which share each dispatch
//! V orthonormal, U = A V / S       one matrix after the other: these are products, which fill a device
//! ```

use crate::{
    algo::svdvals::Reduced,
    base::{
        clock::Clock,
        error::{Result, SvdError},
        number::Number,
        watch::Stage,
    },
    plan::{
        batch::stacked::{OfStack, OnDevice, Stacked},
        factors::Factors,
        gpu::both_sides,
        options::{Signs, Vectors},
        svd::{factors_of_caller, needed, read_back},
    },
};

/// A matrix that has values: its place in the stack, and how many of them have vectors.
struct Found<'a, T: Number> {
    place: usize,
    of: OfStack<'a, T>,
    values: Vec<T::Real>,
    k: usize,
}

/// Adds the decompositions of the matrices of a stack to `all`. `did` is told of each as it ends.
///
/// # Errors
/// Of the device, or a cancellation. A matrix whose values have an error has that one.
pub(in crate::plan::batch) async fn decompositions<T, S>(
    stack: OnDevice<'_, T, S>,
    all: &mut Stacked<Factors<T>>,
    did: &(dyn Fn(&[usize]) + Sync),
) -> Result<()>
where
    T: Number,
    S: Number<Real = T::Real, Scalar = T::Scalar>,
{
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
                found.push(Found { place, of, values, k });
            }
            Err(error) => all.results.push((of.index, Err(error))),
        }
    }
    let mut planned = kernels.planned(wanted).await?.into_iter();
    for found in found.chunk_by(|x, y| x.k == y.k && x.place + 1 == y.place) {
        let (first, k, n) = (found[0].place, found[0].k, reduced.n);
        let part = Reduced {
            dense: reduced.dense.as_ref().map(|dense| dense.part(first..first + found.len())).transpose()?,
            band: reduced.band.part(first..first + found.len())?,
            ..reduced
        };
        let mut right = kernels.room_of_stack(found.len(), n, k)?;
        for (place, planned) in planned.by_ref().take(found.len()).enumerate() {
            kernels.write_right(&planned, &right.part(place..place + 1)?)?;
            // The workspace of one matrix is free before the next one's is allocated.
            all.seconds.bidiagonal_vectors += driver.lap(&mut clock).await?;
        }
        driver.transform_back(&part, &mut right, &mut all.seconds).await?;
        clock.restart();
        for (place, Found { place: in_stack, of, values, .. }) in found.iter().enumerate() {
            let (needs_left, needs_right) = needed(options.vectors, of.turned.transposed);
            let a = copy.as_ref().filter(|_| needs_left).map(|copy| copy.part(*in_stack..in_stack + 1)).transpose()?;
            let (right, left) = both_sides(kernels, a.as_ref(), values, right.part(place..place + 1)?, full)?;
            if needs_left && left.is_none() {
                return Err(SvdError::Gpu { what: "left vectors", reason: "the matrices of a stack have no copy".into() });
            }
            let (m, n) = of.a.shape();
            let right = read_back(kernels, Some(right).filter(|_| needs_right), n).await?;
            let left = read_back(kernels, left, m).await?;
            let mut factors = factors_of_caller(of.turned, options, values[..k].to_vec(), left, right);
            if options.signs == Signs::Largest {
                factors.fix_signs();
            }
            all.seconds.left_vectors += clock.restart();
            all.results.push((of.index, Ok(factors)));
            all.tell(did);
        }
    }
    Ok(())
}
