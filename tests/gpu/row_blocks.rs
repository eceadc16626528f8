//! Blocks of rows that are added on a device: the results are those of the CPU.

use faer::{Mat, MatRef};
use svdvals_gpu::{
    AdapterChoice, Backend, CancelFlag, DeviceLimits, Element, GpuContext, HalfStorage, Number, RealElement, RowBlocks,
    RunOptions, SvdError,
};

use crate::{Body, Elements, Outcome, check, common::eps};

pub fn trials<T: Elements>() -> Vec<(&'static str, Body)> {
    vec![("follow_the_host", follow_the_host::<T>), ("errors_keep_the_state", errors_keep_the_state::<T>)]
}

fn on(context: &GpuContext) -> RunOptions {
    RunOptions::default().backend(Backend::Gpu).context(context.clone())
}

/// Rows of n columns and p right-hand sides, in blocks that end at these rows: many at once, a few, and one.
fn of_blocks<T: Element>(rows: RowBlocks<T>, a: MatRef<'_, T>, b: MatRef<'_, T>) -> Result<RowBlocks<T>, SvdError> {
    let (mut rows, mut first) = (rows, 0);
    for end in [a.nrows() / 2, a.nrows() / 2 + 7, a.nrows() / 2 + 8, a.nrows()] {
        rows.push_with(&a.subrows(first, end - first), &b.subrows(first, end - first))?;
        first = end;
    }
    Ok(rows)
}

/// Values, R's columns and solutions are those of the CPU, whose sums have another order: to the rounding of the results in T, or of an elimination in single
/// precision by a device that has no double precision. Plain and centred rows, columns that are nearly dependent, and more rows than are squared at once.
fn compare<T: Element>(context: &GpuContext, (m, n): (usize, usize)) -> Outcome {
    let p = 2;
    let near = T::from_complex(1e-9.into());
    for (what, centred) in [("plain", false), ("centred", true), ("nearly dependent", false)] {
        let of = |i: usize, j: usize| T::from_complex(crate::common::complex_noise(71, i, j));
        let a = Mat::<T>::from_fn(m, n, |i, j| {
            let x = of(i, j).to_complex();
            T::from_complex(match what {
                "centred" => x + 100.0,
                "nearly dependent" if j == 3 => of(i, 1).to_complex() + x * near.to_complex(),
                _ => x,
            })
        });
        let b = Mat::<T>::from_fn(m, p, |i, j| of(i, n + j));
        let new = |run: RunOptions| {
            let rows = RowBlocks::<T>::with_right_sides(n, p)?;
            (if centred { rows.centred() } else { rows }).with_run(&run)
        };
        let here = of_blocks(new(RunOptions::default().backend(Backend::Cpu))?, a.as_ref(), b.as_ref())?;
        let there = of_blocks(new(on(context))?, a.as_ref(), b.as_ref())?;
        let (one, other) = (here.finish_faer()?, there.finish_faer()?);
        // Rows of 100 and more, less their mean, have its rounding in T where they are eliminated in T.
        let wide = T::KIND.is_double() || context.supports::<f64>(HalfStorage::Single);
        let unit = eps::<T::Scalar>() * if wide { 4.0 } else { m as f64 * if centred { 100.0 } else { 1.0 } };
        let largest = one.s[0].to_double();
        for (x, y) in one.s.iter().zip(other.s.iter()) {
            let off = (x.to_double() - y.to_double()).abs() / largest;
            check!(off <= unit, "{what}: {x} and {y}, {:.1} units", off / unit);
        }
        for j in 0..n {
            let length = |r: MatRef<'_, T::Scalar>| r.col(j).iter().map(|x| x.to_complex().norm_sqr()).sum::<f64>().sqrt();
            let (x, y) = (length(one.r.as_ref()), length(other.r.as_ref()));
            check!((x - y).abs() <= unit * x.max(if wide { 0.0 } else { largest }), "{what}: column {j} of R: {x} and {y}");
        }
        if what == "nearly dependent" {
            continue; // whose solution is any
        }
        let (one, other) = (here.solve_faer(None)?, there.solve_faer(None)?);
        let size = one.x.norm_max().to_double();
        // Noise, whose condition number is small.
        let off = (&one.x - &other.x).norm_max().to_double() / size;
        check!(off <= 64.0 * unit, "{what}: solutions differ by {off:e}, {:.1} units", off / unit);
    }
    Ok(())
}

fn follow_the_host<T: Elements>(context: &GpuContext) -> Outcome {
    compare::<T>(context, (900, 20))?;
    if T::NAME == "f32" {
        compare::<T>(context, (1300, 261))?;
        compare::<T>(context, (20_000, 5))?;
    }
    Ok(())
}

/// An entry that is not finite, a cancelled call and a wrong block leave the state as it was.
fn errors_keep_the_state<T: Elements>(context: &GpuContext) -> Outcome {
    let stop = CancelFlag::new();
    let a = Mat::<T>::from_fn(80, 6, |i, j| T::noise(3, i, j));
    let mut rows = RowBlocks::<T>::new(6)?.with_run(&on(context).cancel(stop.clone()))?;
    rows.push(&a)?;
    let before = rows.finish_faer()?.s;
    let mut bad = a.clone();
    bad[(3, 4)] = T::from_complex(f64::NAN.into());
    let result = rows.push(&bad);
    check!(matches!(result, Err(SvdError::InBlock { block: 1, .. })), "{result:?}");
    stop.cancel();
    let result = rows.push(&a);
    check!(matches!(result, Err(SvdError::Cancelled { .. })), "{result:?}");
    let rows = rows.with_run(&on(context))?;
    check!(rows.finish_faer()?.s == before && rows.rows() == 80, "the state has changed");
    Ok(())
}

/// A device without f64: single precision is eliminated there in f32, double precision is refused by name. With `Auto` the CPU adds what is small.
pub fn without_f64() -> Outcome {
    let context = GpuContext::new(&AdapterChoice::default().limits(DeviceLimits::Plain))?;
    compare::<f32>(&context, (900, 20))?;
    compare::<half::bf16>(&context, (300, 12))?;
    let refused = RowBlocks::<f64>::new(5)?.with_run(&on(&context)).map(drop);
    check!(matches!(refused, Err(SvdError::UnsupportedElement { .. })), "{refused:?}");
    let a = Mat::<f64>::from_fn(80, 6, |i, j| f64::from(i as u32 * 7 % 11) + j as f64);
    let [mut here, mut there] =
        [RunOptions::default(), RunOptions::default().context(context)].map(|run| RowBlocks::<f64>::new(6)?.with_run(&run));
    for rows in [&mut here, &mut there] {
        rows.as_mut().map_err(|error| error.clone())?.push(&a)?;
    }
    check!(here?.finish_faer()?.s == there?.finish_faer()?.s, "other bits");
    Ok(())
}
