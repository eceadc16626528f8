//! Stage 2 one cycle at a time: the cycles are those of the paper, the bulges are where it says, and the end is that of the whole stage.

use num_complex::Complex;
use svdvals_gpu::{Backend, Band, ChaseSteps, Element, Number, RealElement, RunOptions, SvdError, Tuning};

use crate::common::complex_noise;

/// n, bandwidth, tile width: of one step and of several, narrower than the band and wider, with sweeps of one cycle and of many.
const BANDS: [(usize, usize, usize); 12] = [
    (0, 3, 1),
    (1, 0, 1),
    (2, 1, 1),
    (3, 2, 1),
    (9, 8, 4),
    (9, 8, 100),
    (20, 0, 2),
    (30, 2, 1),
    (41, 8, 7),
    (50, 8, 3),
    (64, 63, 62),
    (60, 5, 2),
];

fn band<T: Element>(n: usize, bandwidth: usize) -> Band<T> {
    Band::from_fn(n, bandwidth, |i, j| T::from_complex(complex_noise(71, i, j))).unwrap()
}

/// A sweep's cycles (row, c0, c1), by the paper's chain.
fn chain(n: usize, bandwidth: usize, target: usize, sweep: usize) -> Vec<(usize, usize, usize)> {
    let mut chain = Vec::new();
    let (mut row, mut c0, mut c1) = (sweep, sweep + target, (sweep + bandwidth).min(n - 1));
    while c0 < c1 {
        chain.push((row, c0, c1));
        (row, c0, c1) = (c0, c0 + bandwidth, (c1 + bandwidth).min(n - 1));
    }
    chain
}

/// The bidiagonal is that of `band_to_bidiag`, to the last bit: both run one kernel on the same numbers, in orders that differ only
/// where cycles touch disjoint entries. Whether the cycles were taken one by one or not at all before.
fn ends_as_the_stage_does<T: Element>() {
    for (n, bandwidth, tile_width) in BANDS {
        let band = band::<T>(n, bandwidth);
        let tuning = Tuning::for_cpu::<T>(n).tile_width(tile_width);
        let want = band.band_to_bidiag(&RunOptions::default().backend(Backend::Cpu).threads(2).tuning(tuning)).unwrap();
        assert_eq!(band.chase_steps(tile_width).unwrap().finish().unwrap(), want, "{n}, {bandwidth} by {tile_width}");
        let mut steps = band.chase_steps(tile_width).unwrap();
        let cycles = steps.by_ref().count();
        assert_eq!(cycles == 0, n < 3 || bandwidth < 2, "{n}, {bandwidth} by {tile_width}: {cycles}");
        assert_eq!(steps.next(), None);
        assert_eq!(steps.finish().unwrap(), want, "{n}, {bandwidth} by {tile_width}");
    }
}

#[test]
fn ends_as_the_stage_does_real() {
    ends_as_the_stage_does::<f32>();
    ends_as_the_stage_does::<f64>();
    ends_as_the_stage_does::<half::f16>();
}

#[test]
fn ends_as_the_stage_does_complex() {
    ends_as_the_stage_does::<Complex<f32>>();
    ends_as_the_stage_does::<Complex<f64>>();
}

/// The cycles come step by step, sweep by sweep, as the paper's chain has them.
#[test]
fn cycles_are_the_papers() {
    for (n, bandwidth, tile_width) in BANDS {
        let mut steps = band::<f64>(n, bandwidth).chase_steps(tile_width).unwrap();
        let mut width = bandwidth;
        while width > 1 {
            let target = width - tile_width.min(width - 1);
            for sweep in 0..n {
                for (index, of_chain) in chain(n, width, target, sweep).into_iter().enumerate() {
                    let at = steps.next().unwrap();
                    assert_eq!((at.row, at.c0, at.c1), of_chain);
                    assert_eq!((at.bandwidth, at.tile_width, at.sweep, at.index), (width, width - target, sweep, index));
                    assert_eq!(at.last, (at.c1 + width).min(n - 1));
                }
            }
            width = target;
        }
        assert_eq!(steps.next(), None, "{n}, {bandwidth} by {tile_width}");
    }
}

/// Whether entry (i, j) may be other than zero, by structure: in the band, which up to row `sweep` has lost what the step removes; below the
/// diagonal where a reflector from the right has mixed columns c0..=c1 of rows up to c1, but for column c0, which the one from the left
/// has zeroed again; above the band where that has mixed rows c0..=c1 of columns up to c1 + BW, but for row c0 once the sweep's next cycle
/// has zeroed it. What a sweep has not come to is as the sweep before has left it.
fn may_be_other(n: usize, width: usize, target: usize, (sweep, index): (usize, usize), i: usize, j: usize) -> bool {
    let band = if i <= sweep { target } else { width };
    if i <= j && j <= i + band {
        return true;
    }
    let mut live = chain(n, width, target, sweep);
    live.truncate(index + 1);
    let latest = live.len() - 1;
    if sweep > 0 {
        live.extend(chain(n, width, target, sweep - 1).into_iter().skip(index + 1));
    }
    live.iter().enumerate().any(|(k, &(_, c0, c1))| {
        let below = c0 < j && j < i && i <= c1;
        let above = (c0 < i || (c0 == i && k == latest)) && i <= c1 && j > i + width && j <= c1 + width;
        below || above
    })
}

/// After every cycle, what is outside the band and the known bulges is zero, exactly; and in the bulges, of random numbers, something is
/// not (so that the view shows them).
fn bulges_are_where_they_are_known<T: Element>() {
    for (n, bandwidth, tile_width) in BANDS {
        if n > 50 {
            continue;
        }
        let mut steps: ChaseSteps<T> = band::<T>(n, bandwidth).chase_steps(tile_width).unwrap();
        let mut bulges = 0;
        while let Some(at) = steps.next() {
            let target = at.bandwidth - at.tile_width;
            for (i, j) in (0..n + 2).flat_map(|i| (0..n + 2).map(move |j| (i, j))) {
                let zero = steps.get(i, j).to_complex().norm() == 0.0;
                let inside = i.max(j) < n && may_be_other(n, at.bandwidth, target, (at.sweep, at.index), i, j);
                assert!(zero || inside, "({i}, {j}) after {at:?}");
                bulges += usize::from(!zero && (i > j || j > i + at.bandwidth));
            }
        }
        // The first cycle of a step makes a bulge, unless it is at the end.
        assert_eq!(bulges > 0, n > bandwidth && bandwidth > 1 && n > 3, "{n}, {bandwidth} by {tile_width}: {bulges}");
    }
}

#[test]
fn bulges_are_where_they_are_known_real() {
    bulges_are_where_they_are_known::<f32>();
}

#[test]
fn bulges_are_where_they_are_known_complex() {
    bulges_are_where_they_are_known::<Complex<f64>>();
}

/// Before the first cycle the view is the band, bit for bit, at both ends of the range; of half types in f32.
#[test]
fn starts_as_the_band() {
    fn starts<T: Element>() {
        for scale in [1.0, <T::Real as num_traits::Float>::max_value().to_double() / 4.0, 1e-30] {
            let band = Band::<T>::from_fn(20, 4, |i, j| T::from_complex(complex_noise(72, i, j) * scale)).unwrap();
            let steps = band.chase_steps(2).unwrap();
            for (i, j) in (0..22).flat_map(|i| (0..22).map(move |j| (i, j))) {
                assert_eq!(steps.get(i, j).to_complex(), band.get(i, j).to_complex(), "({i}, {j}), {scale:e}");
            }
        }
    }
    starts::<f32>();
    starts::<Complex<f64>>();
    starts::<half::bf16>();
}

/// What makes no sense is refused by name, and an overflow is said.
#[test]
fn refusals() {
    let refused = band::<f64>(10, 3).chase_steps(0);
    assert!(matches!(refused, Err(SvdError::InvalidOption { option: "tile_width", .. })), "{refused:?}");
    let large = Band::<f32>::from_fn(30, 5, |_, _| f32::MAX).unwrap();
    let overflow = large.chase_steps(4).unwrap().finish();
    assert!(matches!(overflow, Err(SvdError::Overflow { element: "f32", .. })), "{overflow:?}");
}
