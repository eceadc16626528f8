//! Columns are made orthonormal whatever they are, on the bases of the host.

use faer::{Mat, MatRef};
use num_complex::Complex;
use pollster::block_on;

use super::{orthonormal::Orthonormal, *};
use crate::{
    base::{number::Re, watch::Watch},
    cpu::krylov::{Dense, HostBlocks},
};

/// By faer, in place of the plan's driver.
fn small<W: Scalar<Wide = W> + Number<Real = f64>>(a: Mat<W>, _: usize) -> Result<Small<W>> {
    let svd = a.svd().map_err(|_| SvdError::invalid("a", "no convergence"))?;
    let s = svd.S().column_vector().iter().map(|s| s.to_complex().re).collect();
    Ok(Small { u: svd.U().to_owned(), s, v: svd.V().to_owned() })
}

/// Makes the last columns of [X Y] orthonormal and checks the formula: Y = X C + Q R up to `noise` times its length, [X Q] orthonormal up to the
/// rounding of its products, and R of the rank of what is left.
fn check<W: Scalar<Wide = W> + Number<Real = f64>, T: Scalar<Wide = W>>(
    what: &str,
    all: MatRef<'_, T>,
    before: usize,
    width: usize,
    lost: usize,
) {
    let ((m, cols), n) = (all.shape(), 1);
    let of_a = Mat::<T>::zeros(m, n);
    let operator = Dense(of_a.as_ref());
    let asked = Asked { count: 1, block: cols, most: cols, accuracy: 1.0, seed: 0 };
    let one = Some(<Re<T> as crate::base::number::RealElement>::from_double(1.0));
    let mut blocks = HostBlocks::<T>::new(&operator, (m, n), &asked, one, small, Watch::default()).unwrap();
    let right = Mat::<T>::zeros(n, cols);
    blocks.set_vectors(all, right.as_ref());
    let (mut scale, mut random) = (0.0, Random::new(5));
    let found = block_on(orthonormalise(&mut blocks, Basis::U, before..cols, width, &mut scale, &mut random));
    let Orthonormal { before: c, r } = found.unwrap_or_else(|error| panic!("{what}: {error}"));
    let [q, _] = blocks.vectors(before + width);
    let wide = |x: MatRef<'_, T>| Mat::<Complex<f64>>::from_fn(x.nrows(), x.ncols(), |i, j| x[(i, j)].to_complex());
    let (q, all) = (wide(q.as_ref()), wide(all));
    let rounding = 50.0 * <Re<T> as num_traits::Float>::epsilon().to_complex().re;
    let off = (q.adjoint() * &q - Mat::<Complex<f64>>::identity(before + width, before + width)).norm_max();
    assert!(off <= rounding, "{what}: columns are off by {off:e}");
    let coefficients = Mat::from_fn(before + width, cols - before, |i, j| match i.checked_sub(before) {
        None => c[(i, j)].to_complex(),
        Some(i) => r[(i, j)].to_complex(),
    });
    let off = (all.subcols(before, cols - before) - &q * coefficients).norm_max();
    assert!(off <= rounding * scale.max(1e-300), "{what}: the product is off by {off:e} of {scale:e}");
    let values = small(r, width).unwrap().s;
    let nothing = values.iter().filter(|&&value| value <= rounding * scale).count();
    assert_eq!(nothing, lost, "{what}: the rank of R, {values:?}");
}

#[test]
fn any_columns_become_orthonormal() {
    fn of<W: Scalar<Wide = W> + Number<Real = f64>, T: Scalar<Wide = W>>() {
        let (m, cols, before) = (300, 20, 8);
        let noise = |i: usize, j: usize| {
            let part = |seed| uniform(seed, i, j);
            T::from_complex(Complex::new(part(1), part(2)))
        };
        // X: columns of the identity. Y: random, and with parts of X that are much longer.
        let beside = |y: &dyn Fn(usize, usize) -> T| {
            Mat::<T>::from_fn(m, cols, |i, j| match j.checked_sub(before) {
                None if i == 7 * j => T::one_impl(),
                None => T::zero_impl(),
                Some(j) => y(i, j),
            })
        };
        let times = |x: T, by: f64| T::from_complex(x.to_complex() * by);
        check("random", beside(&noise).as_ref(), before, 12, 0);
        check("tiny", beside(&|i, j| times(noise(i, j), 1e-15)).as_ref(), before, 12, 0);
        let steep = |i: usize, j: usize| times(noise(i, 0), 1.0) + times(noise(i, j), 10f64.powi(-(j as i32) / 3));
        check("steep", beside(&steep).as_ref(), before, 12, 0);
        let inside = |i: usize, j: usize| {
            times(noise(i, j), 1e-3) + if i == 7 { T::from_complex(Complex::from(1.0)) } else { T::zero_impl() }
        };
        check("mostly inside", beside(&inside).as_ref(), before, 12, 0);
        // Exactly dependent columns: of rank 3 and of none.
        let of_rank_3 = |i: usize, j: usize| if i % 100 == 5 && i / 100 == j % 3 { T::one_impl() } else { T::zero_impl() };
        check("of rank 3", beside(&of_rank_3).as_ref(), before, 12, 9);
        check("zero", beside(&|_, _| T::zero_impl()).as_ref(), before, 12, 12);
        check(
            "inside alone",
            beside(&|i, j| if i == 7 * (j % 8) { T::one_impl() } else { T::zero_impl() }).as_ref(),
            before,
            12,
            12,
        );
        // Fewer than there are, where the others are of no account.
        check("fewer", beside(&of_rank_3).as_ref(), before, 3, 0);
    }
    of::<_, f64>();
    of::<_, f32>();
    of::<_, Complex<f32>>();
    of::<_, Complex<f64>>();
}

/// The numbers that an iteration begins with are the same on every machine, and fill [-1, 1) evenly: the mean of 10^4 is within four standard deviations,
/// 4 / sqrt(3 10^4), of 0.
#[test]
fn numbers_by_a_seed() {
    assert_eq!([uniform(0, 0, 0), uniform(1, 0, 0), uniform(0, 3, 2)].map(f64::to_bits), NUMBERS);
    let all: Vec<f64> = (0..10_000).map(|k| uniform(9, k / 100, k % 100)).collect();
    assert!(all.iter().all(|x| (-1.0..1.0).contains(x)));
    assert!((all.iter().sum::<f64>() / 1e4).abs() < 4.0 / 3e4f64.sqrt());
}

const NUMBERS: [u64; 3] = [4599164155489324220, 13827556923883663878, 4605623151901455384];
