//! Bad input: an error that says where, and a next call that works.

use faer::Mat;
use num_complex::Complex;
use num_traits::Float;
use svdvals_gpu::{Backend, Band, Bidiagonal, Element, RealElement, Stage3, SvdError, SvdOptions, SvdValsGpu, Tuning};

use crate::common::gaussian;

fn cpu() -> SvdOptions {
    SvdOptions::default().backend(Backend::Cpu)
}

/// A NaN or an infinity is found at its row and column in the caller's view, whatever the view's order, and nothing is left behind.
#[test]
fn non_finite_entries_are_located() {
    for (row, col, value) in [(0, 0, f64::NAN), (17, 3, f64::INFINITY), (39, 29, f64::NEG_INFINITY)] {
        let mut a: Mat<f64> = gaussian(40, 30, 1);
        a[(row, col)] = value;
        let expect = |result: svdvals_gpu::Result<faer::Col<f64>>, row, col| match result {
            Err(SvdError::NonFinite { row: r, col: c, value: v }) => assert_eq!((r, c, v), (row, col, format!("{value:?}"))),
            other => panic!("{other:?}"),
        };
        expect(a.svdvals_gpu_with(&cpu()), row, col);
        expect(a.transpose().svdvals_gpu_with(&cpu()), col, row);
        expect(a.as_ref().reverse_rows().svdvals_gpu_with(&cpu()), 39 - row, col);
        expect(a.as_ref().transpose().reverse_cols().svdvals_gpu_with(&cpu()), col, 39 - row);
        assert!(matches!(SvdValsGpu::to_band(&a, &cpu().run), Err(SvdError::NonFinite { .. })));
        a[(row, col)] = 1.0;
        assert!(a.svdvals_gpu_with(&cpu()).is_ok());
    }
    assert!(matches!(
        Band::from_fn(5, 2, |i, _| if i == 3 { f32::NAN } else { 1.0 }),
        Err(SvdError::NonFinite { row: 3, col: 3, .. })
    ));
    assert!(matches!(Bidiagonal::new(vec![1.0, 2.0], vec![f64::NAN]), Err(SvdError::NonFinite { row: 0, col: 1, .. })));
}

/// One entry of a small matrix that is not finite is found wherever it is, in every type, also where the others make reflectors that are the
/// identity, which spread nothing: f32 and narrower types are not searched before they are reduced.
#[test]
fn every_entry_is_seen() {
    fn check<T: Element>() {
        let entries = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        let parts = entries.map(|x| Complex::new(x, 1.0)).into_iter().chain(entries.map(|x| Complex::new(1.0, x)));
        let values: Vec<T> = parts.map(T::from_complex).filter(|x| !x.to_complex().is_finite()).collect();
        for (m, n) in [(1, 1), (3, 1), (2, 2), (3, 2), (2, 5), (7, 7), (12, 8), (9, 8), (80, 3)] {
            let backgrounds: [&dyn Fn(usize, usize) -> f64; 4] =
                [&|_, _| 0.0, &|i, j| f64::from(i == j), &|i, j| f64::from(i == j || i + 1 == j), &|i, j| {
                    ((i * 7 + j * 3) % 11) as f64 - 5.0
                }];
            for background in backgrounds {
                let mut a = Mat::from_fn(m, n, |i, j| T::from_complex(background(i, j).into()));
                for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                    for &value in &values {
                        let before = std::mem::replace(&mut a[(i, j)], value);
                        match a.svdvals_gpu_with(&cpu()) {
                            Err(SvdError::NonFinite { row, col, value: said }) => {
                                assert_eq!((row, col, said), (i, j, value.to_string()), "{}, {m} x {n}", T::NAME);
                            }
                            other => panic!("{}, {value} at ({i}, {j}) of {m} x {n}: {other:?}", T::NAME),
                        }
                        a[(i, j)] = before;
                    }
                }
                assert!(a.svdvals_gpu_with(&cpu()).is_ok());
            }
        }
    }
    check::<half::f16>();
    check::<half::bf16>();
    check::<f32>();
    check::<f64>();
    check::<Complex<f32>>();
    check::<Complex<f64>>();
}

/// Values beyond the type's range are an error on every route, and not infinities (half types give f32, and have none): 2 x 2 entries of the largest number have twice it.
#[test]
fn overflow_is_an_error() {
    fn check<T: Element>() {
        let largest: T::Real = Float::max_value();
        let a: Mat<T> = Mat::from_fn(2, 2, |_, _| T::from_complex(largest.to_double().into()));
        let overflows = |error| matches!(error, Some(SvdError::Overflow { .. }));
        for direct in [0, 2] {
            let options = cpu().tuning(Tuning::for_cpu::<T>(2).direct_up_to(direct));
            assert!(overflows(a.svdvals_gpu_with(&options).err()), "{} direct {direct}", T::NAME);
        }
        assert!(overflows(SvdValsGpu::to_band(&a, &cpu().run).err()), "{}: band", T::NAME);
        let c = Bidiagonal::new(vec![largest; 2], vec![largest]).unwrap();
        for method in [Stage3::Newton, Stage3::Bisection] {
            assert!(overflows(c.svdvals_by(method).err()), "{}: {method:?}", T::NAME);
        }
    }
    check::<f32>();
    check::<f64>();
    check::<Complex<f32>>();
    check::<Complex<f64>>();
}

/// Options outside their range are refused by name.
#[test]
fn options_are_checked() {
    let a: Mat<f32> = gaussian(20, 20, 2);
    let base = Tuning::for_cpu::<f32>(20);
    let bad: [(Tuning, &str); 6] = [
        (base.clone().tile_size(0), "tile_size"),
        (base.clone().tile_size(16).leaf(31), "leaf"),
        (base.clone().cols_per_block(0), "cols_per_block"),
        (base.clone().tile_width(0), "tile_width"),
        (base.clone().split_k(0), "split_k"),
        (base.clone().tile_size(usize::MAX).leaf(usize::MAX - 1), "leaf"),
    ];
    for (tuning, name) in bad {
        match a.svdvals_gpu_with(&cpu().tuning(tuning)) {
            Err(SvdError::InvalidOption { option, .. }) => assert_eq!(option, name),
            other => panic!("{name}: {other:?}"),
        }
    }
    assert!(matches!(
        Bidiagonal::new(vec![1.0f32; 3], vec![1.0; 3]),
        Err(SvdError::InvalidOption { option: "superdiagonal", .. })
    ));
    assert!(matches!(Band::from_fn(usize::MAX, 3, |_, _| 1.0f32), Err(SvdError::InvalidOption { .. })));
}

/// Large hyperparameters are no error: they are cut to what the matrix needs.
#[test]
fn oversized_hyperparameters_work() {
    let a: Mat<f64> = gaussian(50, 50, 3);
    let exact = crate::common::reference(a.as_ref());
    let tuning = Tuning::for_cpu::<f64>(50).tile_size(1000).leaf(4000).tile_width(9999).cols_per_block(usize::MAX / 8);
    let s = a.svdvals_gpu_with(&cpu().tuning(tuning)).unwrap();
    assert!(crate::common::error(s.iter().copied(), &exact) <= crate::common::stable::<f64>(50));
}

/// `Backend::Auto` on a small matrix takes the CPU and says why.
#[test]
fn auto_says_why() {
    let a: Mat<f64> = gaussian(10, 10, 4);
    let report = a.svdvals_gpu_report(&SvdOptions::default()).unwrap();
    assert_eq!(report.backend, Backend::Cpu);
    assert!(report.reason.contains("too small"), "{}", report.reason);
    assert!(report.seconds.total > 0.0);
}

/// The number of threads is checked, kept to and without influence on the values, nor on the band before them: every task's arithmetic is
/// its own, however many columns it gets. (With 225 columns the tasks of some number of threads would get a single one if they could.)
#[test]
fn threads_are_the_callers() {
    fn check<T: Element>(m: usize, n: usize) {
        let a: Mat<T> = gaussian(m, n, 5);
        let (values, band) = (a.svdvals_gpu_with(&cpu()).unwrap(), SvdValsGpu::to_band(&a, &cpu().run).unwrap());
        for threads in [1, 2, 3, 7] {
            let mut options = cpu().threads(threads);
            assert!(a.svdvals_gpu_with(&options).unwrap() == values, "{} {m} x {n}, {threads} threads", T::NAME);
            assert!(SvdValsGpu::to_band(&a, &options.run).unwrap() == band, "{} {m} x {n}, band, {threads} threads", T::NAME);
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            options.run.threads = None;
            assert!(
                pool.install(|| a.svdvals_gpu_with(&options)).unwrap() == values,
                "{} {m} x {n}, a pool of {threads}",
                T::NAME
            );
        }
    }
    // Tiles after which cache lines do not begin, in more than one block.
    let (odd, tuning) = (gaussian::<f32>(310, 300, 5), Tuning::for_cpu::<f32>(300).tile_size(10).tile_width(9).leaf(64));
    let band = |threads| SvdValsGpu::to_band(&odd, &cpu().threads(threads).tuning(tuning.clone()).run).unwrap();
    assert!([2, 3, 7].into_iter().all(|threads| band(threads) == band(1)));
    for (m, n) in [(230, 210), (240, 230), (225, 225), (700, 225), (1100, 1090), (1700, 1090)] {
        check::<f32>(m, n);
        check::<f64>(m, n);
    }
    check::<Complex<f64>>(225, 225);
    let a: Mat<f32> = gaussian(9, 9, 5);
    let refused = |result| matches!(result, Err(SvdError::InvalidOption { option: "threads", .. }));
    assert!(refused(a.svdvals_gpu_with(&cpu().threads(0)).map(drop)));
    assert!(refused(SvdValsGpu::to_band(&a, &cpu().threads(0).run).map(drop)));
    let band = Band::from_fn(9, 3, |_, _| 1.0f64).unwrap();
    assert!(refused(band.band_to_bidiag(&cpu().threads(0).run).map(drop)));
}

/// Eight threads calling at once get what one gets.
#[test]
fn threads_do_not_disturb_each_other() {
    let matrices: Vec<Mat<f32>> = (0..8).map(|k| gaussian(60 + 7 * k, 50, k as u64)).collect();
    let alone: Vec<_> = matrices.iter().map(|a| a.svdvals_gpu_with(&cpu()).unwrap()).collect();
    std::thread::scope(|scope| {
        for (a, s) in matrices.iter().zip(&alone) {
            scope.spawn(move || (0..5).for_each(|_| assert_eq!(&a.svdvals_gpu_with(&cpu()).unwrap(), s)));
        }
    });
}
