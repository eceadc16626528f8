use super::*;
use crate::{
    algo::{
        bidiagonal::{Bidiagonal, Stage3},
        svdvals::stage_three,
    },
    base::{element_kind::ElementKind, watch::Watch},
};

/// The host's methods.
const METHODS: &[Stage3] = &[
    Stage3::Newton,
    Stage3::Bisection,
    #[cfg(feature = "lapack")]
    Stage3::Bdsqr,
    #[cfg(feature = "lapack")]
    Stage3::Bdsdc,
];

/// A number in (0, 1] that depends on its arguments alone (splitmix64's finaliser).
fn noise(seed: u64, i: usize) -> f64 {
    let z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (i as u64 + 1).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 30)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (((z ^ (z >> 31)) >> 11) + 1) as f64 / (1u64 << 53) as f64
}

/// A kind of bidiagonal of order n: its name, and its entries of the diagonal and of the superdiagonal.
type Kind = (&'static str, fn(usize, usize) -> f64, fn(usize, usize) -> f64);

/// Spectra without and with clusters, graded ones whose squares underflow too, zeros, and matrices that split.
const KINDS: [Kind; 16] = [
    ("noise", |_, i| noise(1, i), |_, i| noise(2, i)),
    ("Gaussian", |n, i| ((n - i) as f64).sqrt() * (1.0 + 0.1 * noise(3, i)), |n, i| ((n - i - 1) as f64).sqrt()),
    ("ones", |_, _| 1.0, |_, _| 1.0),
    ("equal", |_, _| 0.7, |_, _| 0.0),
    ("nearly equal", |_, _| 1.0, |_, i| 1e-9 * noise(4, i)),
    ("equal but for roundings", |_, _| 1.0, |_, i| 1e-16 * noise(5, i)),
    ("stairs", |_, i| 0.25f64.powi(i as i32 / 8), |_, i| 1e-13 * 0.25f64.powi(i as i32 / 8)),
    ("glued", |_, i| ((i % 21) as f64 - 10.0).abs() / 8.0 + 0.125, |_, i| if i % 21 == 20 { 1e-8 } else { 0.125 }),
    ("graded down", |n, i| 1e-40f64.powf(i as f64 / n as f64), |n, i| 0.5 * 1e-40f64.powf(i as f64 / n as f64)),
    ("graded up", |n, i| 1e-40f64.powf(1.0 - i as f64 / n as f64), |n, i| 0.5 * 1e-40f64.powf(1.0 - i as f64 / n as f64)),
    ("steep", |n, i| 1e-270f64.powf(i as f64 / n as f64), |n, i| 1e-5 * 1e-270f64.powf(i as f64 / n as f64)),
    ("steep noise", |_, i| 1e-250f64.powf(noise(6, i)), |_, i| 1e-250f64.powf(noise(7, i))),
    ("zeros", |_, i| if noise(8, i) < 0.3 { 0.0 } else { noise(9, i) }, |_, i| noise(10, i)),
    ("zeros everywhere", |_, i| (noise(11, i) - 0.7).max(0.0), |_, i| (noise(12, i) - 0.7).max(0.0)),
    ("splits", |_, i| noise(13, i), |_, i| if i % 7 == 6 { 0.0 } else { noise(14, i) }),
    ("all zero", |_, _| 0.0, |_, _| 0.0),
];

/// What is checked of a name, a function that finds the wanted values, and all of them.
type Check<'a> = dyn Fn(&str, &dyn Fn(Leading) -> Vec<f64>, &[f64]) + 'a;

/// For bidiagonals of these kinds and orders, by these methods in both arithmetics, `check` has a name, a function that finds the wanted values, and all of
/// them.
fn for_all(kinds: &[Kind], orders: &[usize], methods: &[Stage3], check: &Check<'_>) {
    for (&n, &(name, diagonal, superdiagonal)) in orders.iter().flat_map(|n| kinds.iter().map(move |kind| (n, kind))) {
        let d: Vec<f64> = (0..n).map(|i| diagonal(n, i)).collect();
        let e: Vec<f64> = (1..n).map(|i| superdiagonal(n, i - 1)).collect();
        for (&method, kind) in methods.iter().flat_map(|method| [ElementKind::F64, ElementKind::F32].map(|kind| (method, kind))) {
            let find = |leading: Leading| {
                stage_three(kind, (d.clone(), e.clone()), 0.25, method, leading, &Watch::default()).unwrap_or_default()
            };
            let all = find(Leading::ALL);
            assert_eq!(all.len(), n);
            check(&format!("{name}, order {n}, {method}, {}", kind.name()), &find, &all);
        }
    }
}

/// As many of the largest as are wanted are the first of all values, bit for bit.
#[test]
fn some_are_the_first_of_all() {
    let check = |name: &str, find: &dyn Fn(Leading) -> Vec<f64>, all: &[f64]| {
        let n = all.len();
        for count in [0, 1, 2, 5, n / 8, n / 4, n / 2, n.saturating_sub(1), n, n + 1, usize::MAX] {
            let some = find(Leading { count, tolerance: 0.0 });
            assert_eq!(some, all[..count.min(n)], "{name}: {count}");
        }
    };
    for_all(&KINDS, &[0, 1, 2, 3, 33, 65], METHODS, &check);
    for_all(&KINDS, &[300], &METHODS[..1], &check);
}

/// So are those of at least a tolerance. A value equal to it stays: the quotients are those of two of the values, and of their neighbours.
#[test]
fn those_above_a_tolerance_are_the_first_of_all() {
    for_all(&KINDS, &[0, 1, 2, 33, 65, 100], METHODS, &|name, find, all| {
        let n = all.len();
        let quotients = [n / 5, n / 2, n.saturating_sub(1)].into_iter().filter_map(|k| Some(all.get(k)? / all[0]));
        let tolerances = quotients.filter(|x| x.is_finite()).flat_map(|x| [x.next_down(), x, x.next_up()]);
        for tolerance in tolerances.chain([1e-300, 0.5, 1.0]).filter(|x| (0.0..=1.0).contains(x)) {
            let leading = Leading { count: usize::MAX, tolerance };
            assert_eq!(find(leading), all[..leading.of(all)], "{name}: {tolerance:e}");
            let both = Leading { count: 3, tolerance };
            assert_eq!(find(both), all[..both.of(all)], "{name}: 3 and {tolerance:e}");
        }
    });
}

/// The same for orders at which stage 3 has tasks on all threads, and fewer of them for fewer values.
#[test]
fn some_of_many() {
    let check = |name: &str, find: &dyn Fn(Leading) -> Vec<f64>, all: &[f64]| {
        for (count, tolerance) in [(1, 0.0), (7, 0.0), (all.len() - 1, 0.0), (usize::MAX, 0.9)] {
            let leading = Leading { count, tolerance };
            assert_eq!(find(leading), all[..leading.of(all)], "{name}: {leading:?}");
        }
    };
    for_all(&KINDS, &[1000], &METHODS[..1], &check);
    for_all(&KINDS[..1], &[500], METHODS, &check);
}

/// Values that were rounded up to the tolerance are found although the estimate missed them: here to the smallest number of f32, which is more than half
/// of what it is rounded from.
#[test]
fn values_rounded_up_to_the_tolerance_stay() {
    let n = 100;
    let d: Vec<f64> = (0..n).map(|i| if i == 0 { 2.0 } else { 0.6 }).collect();
    // 2 and 0.6 times the smallest number: 2 and 1 of it.
    let scale = 1.0 / f64::from(f32::from_bits(1));
    let find =
        |leading| stage_three(ElementKind::F32, (d.clone(), vec![0.0; n - 1]), scale, Stage3::Newton, leading, &Watch::default());
    let values = find(Leading { count: usize::MAX, tolerance: 0.5 }).unwrap_or_default();
    assert_eq!((values.len(), values.last()), (n, Some(&f64::from(f32::from_bits(1)))));
    assert_eq!(find(Leading { count: 7, tolerance: 0.5 }).unwrap_or_default(), values[..7]);
    assert_eq!(find(Leading { count: 7, tolerance: 0.6 }).unwrap_or_default().len(), 1);
}

/// No values are wanted: an overflow and a number that is not finite are still errors.
#[test]
fn errors_without_values() {
    let none = Leading { count: 0, tolerance: 0.0 };
    let find = |d: Vec<f64>, scale: f64| {
        let superdiagonal = vec![0.5; d.len().saturating_sub(1)];
        stage_three(ElementKind::F64, (d, superdiagonal), scale, Stage3::Newton, none, &Watch::default())
    };
    assert!(find(vec![1.0; 20], 1.0).is_ok_and(|values| values.is_empty()));
    assert!(find(vec![1.0; 20], 1e-310).is_err());
    assert!(find(vec![1.0, f64::NAN], 1.0).is_err());
    assert!(Bidiagonal::new(vec![f64::INFINITY], vec![]).is_err());
}
