//! The vectors of a stack: the reflectors of stages 1 and 2 are those of all matrices, and each matrix has its part of them.
//!
//! ```text
//! plans of divide and conquer                on the host, of all matrices side by side
//! V of the bidiagonal, P1 P2 V, U = A V / S  on the device, one matrix after the other: these are products, which fill a device
//! ```

use crate::{
    algo::svdvals::Reduced,
    base::{clock::Clock, error::Result, number::Number, watch::Stage},
    plan::{
        batch::stacked::{OnDevice, Stacked},
        factors::Factors,
        gpu::both_sides,
        options::{Signs, Vectors},
        svd::{factors_of_caller, needed, read_back},
    },
};

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
    for (k, ((of, values), bidiagonal)) in matrices.into_iter().zip(values).zip(bidiagonals).enumerate() {
        match values {
            Ok(values) => {
                wanted.push((bidiagonal, options.kept(&values)));
                found.push((k, of, values));
            }
            Err(error) => all.results.push((of.index, Err(error))),
        }
    }
    let planned = kernels.planned(wanted).await?;
    for ((k, of, mut values), planned) in found.into_iter().zip(planned) {
        let (needs_left, needs_right) = needed(options.vectors, of.turned.transposed);
        let part = Reduced {
            dense: reduced.dense.as_ref().map(|dense| dense.part(k)).transpose()?,
            band: reduced.band.part(k)?,
            ..reduced
        };
        let mut right = kernels.right_of(&planned)?;
        all.seconds.bidiagonal_vectors += driver.lap_if_timed(&mut clock).await?;
        driver.transform_back(&part, &mut right, &mut all.seconds).await?;
        clock.restart();
        let a = copy.as_ref().filter(|_| needs_left).map(|copy| copy.part(k)).transpose()?;
        let (right, left) = both_sides(kernels, a.as_ref(), &values, right, full)?;
        values.truncate(right.size.1);
        let (m, n) = of.a.shape();
        let right = read_back(kernels, Some(right).filter(|_| needs_right), n).await?;
        let left = read_back(kernels, left, m).await?;
        let mut factors = factors_of_caller(of.turned, options, values, left, right);
        if options.signs == Signs::Largest {
            factors.fix_signs();
        }
        all.seconds.left_vectors += clock.restart();
        all.results.push((of.index, Ok(factors)));
        all.tell(did);
    }
    Ok(())
}
