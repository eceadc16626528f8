//! Leading triples to an accuracy, of matrices (`tests/common/krylov.rs`) and of operators, on the CPU.

use std::sync::{Arc, Mutex};

use faer::{
    Mat,
    sparse::{SparseColMat, SparseRowMat, Triplet},
};
use half::{bf16, f16};
use num_complex::Complex;
use svdvals_gpu::{
    Backend, CancelFlag, Centered, Element, LeadingSvd, LinearOperator, MatSvd, OperatorError, ProductOf, Progress, Reduction,
    RowsOf, Scalar, Signs, Stage, Stage3, SvdError, SvdGpu, SvdOptions, Tuning, Vectors, leading_svd,
};

use crate::{
    common::noise,
    krylov_triples::{SPECTRA, check, check_all, check_options, verify, with_spectrum},
    own_process::is_own,
};

fn cpu() -> SvdOptions {
    SvdOptions::default().backend(Backend::Cpu)
}

#[test]
fn triples_of_matrices() {
    check_all::<f64>(&cpu(), 300).unwrap();
    check_all::<f32>(&cpu(), 300).unwrap();
    check_all::<Complex<f32>>(&cpu(), 200).unwrap();
    check_all::<Complex<f64>>(&cpu(), 200).unwrap();
    check_all::<f16>(&cpu(), 300).unwrap();
    check_all::<bf16>(&cpu(), 300).unwrap();
}

#[test]
fn options_of_triples() {
    check_options::<f64>(&cpu(), 300).unwrap();
    check_options::<f16>(&cpu(), 300).unwrap();
}

/// Threads do not change a bit: products of columns are added in the same order.
#[test]
fn threads_do_not_matter() {
    let a = with_spectrum::<f32>(700, 600, SPECTRA[2].1);
    let svd = |threads| a.svd_gpu_with(&cpu().keep(6).accuracy(1e-3).threads(threads)).unwrap();
    let one = svd(1);
    for threads in [2, 3, 7] {
        let other = svd(threads);
        assert!(one.u == other.u && one.s == other.s && one.v == other.v, "{threads} threads");
    }
}

/// Entries near either end of the range, whose squares are not in it, and memory orders.
#[test]
fn ranges_and_orders() {
    for factor in [1e30, 1e-30, 1.0] {
        let a = with_spectrum::<f64>(330, 300, SPECTRA[2].1);
        let a = Mat::<f32>::from_fn(330, 300, |i, j| (a[(i, j)] * factor) as f32);
        check(&format!("times {factor:e}"), a.as_ref(), &cpu().keep(4).accuracy(1e-3)).unwrap();
        let rows = Mat::from_fn(300, 330, |i, j| a[(j, i)]);
        check("by rows", rows.transpose(), &cpu().keep(4).accuracy(1e-3)).unwrap();
        check("reversed", a.as_ref().reverse_rows().reverse_cols(), &cpu().keep(4).accuracy(1e-3)).unwrap();
    }
    let mut a = with_spectrum::<f32>(330, 300, SPECTRA[2].1);
    a[(7, 5)] = f32::NAN;
    let error = a.svd_gpu_with(&cpu().keep(4).accuracy(1e-3)).unwrap_err();
    assert!(matches!(error, SvdError::NonFinite { row: 7, col: 5, .. }), "{error}");
}

/// Operators whose entries are the largest or the smallest numbers that there are: the first product overflows, or has no digits, and is made again. Values of
/// some 1e-42 are multiples of 1.4e-45.
#[test]
fn ranges_of_operators() {
    let a = with_spectrum::<f64>(130, 120, SPECTRA[2].1);
    for factor in [1e38, 3e37, 1e30, 1e-30, 1e-37] {
        let scaled = Mat::<f32>::from_fn(130, 120, |i, j| (a[(i, j)] * factor) as f32);
        is(&format!("times {factor:e}"), &scaled, &scaled, 3);
    }
    let tiny = Mat::<f32>::from_fn(130, 120, |i, j| (a[(i, j)] * 1e-41) as f32);
    let svd = leading_svd(&tiny, 2, &SvdOptions::default().accuracy(1e-3)).unwrap();
    for (j, s) in svd.s.iter().enumerate() {
        let off = (f64::from(*s) / 1e-41 * (j + 1) as f64 - 1.0).abs();
        assert!(off < 2e-2, "value {j} is {s:e}"); // roundings of 130 x 120 entries, 1.4e-45 each
    }
    assert!((svd.u.norm_l2() - 2f32.sqrt()).abs() < 1e-5);
    let huge = By(
        (9, 9),
        |x: &[f64], y: &mut [f64]| {
            y.iter_mut().zip(x).for_each(|(y, x)| *y = 1e300 * x * 1e300);
            Ok(())
        },
        |_: &[f64], _: &mut [f64]| Ok(()),
    );
    let error = leading_svd(&huge, 1, &SvdOptions::default()).unwrap_err();
    assert!(matches!(error, SvdError::Operator { call: "apply", .. }), "{error}");
}

/// A half-precision matrix with more columns than are widened at a time, in both memory orders.
#[test]
fn long_rows_of_halves() {
    let a = with_spectrum::<f16>(50, 9001, SPECTRA[0].1);
    let by_rows = Mat::from_fn(9001, 50, |i, j| a[(j, i)]);
    for a in [a.as_ref(), by_rows.transpose()] {
        let svd = leading_svd(&a, 3, &SvdOptions::default().accuracy(1e-4)).unwrap();
        let iteration = svd.iteration;
        let col = |x: &[f32]| faer::Col::from_fn(x.len(), |i| x[i]);
        let found = MatSvd::<f16> { u: svd.u, s: col(&svd.s), v: svd.v, residuals: Some(col(&svd.residuals)) };
        verify(a, &found, iteration, 1e-4).unwrap();
    }
}

/// A residual that rounding does not allow ends with a reduction, and so do values that are too near to one another; the report says so.
#[test]
fn reductions_take_over() {
    let a = with_spectrum::<f64>(300, 280, |i| 1.0 - 1e-9 * i as f64);
    for accuracy in [1e-12, 1e-30] {
        let report = a.svd_gpu_report(&cpu().keep(5).accuracy(accuracy)).unwrap();
        let iteration = report.iteration.unwrap();
        assert!(iteration.reduced && iteration.reached == (iteration.residual <= accuracy), "{iteration}");
        assert!(iteration.residual < 300.0 * f64::EPSILON, "{iteration}");
        assert!(report.to_string().contains("then a reduction"), "{report}");
        assert!(report.seconds.iteration > 0.0, "{report}");
    }
    // More triples than are measured at a time.
    assert!(check("many", a.as_ref(), &cpu().keep(150).accuracy(1e-9)).unwrap().reduced);
}

/// Progress rises to 1, through an iteration alone and through one that a reduction follows; a call is stopped in it.
#[test]
fn progress_and_cancellation() {
    for (value, accuracy, follows) in [(SPECTRA[2].1, 1e-6, false), (SPECTRA[6].1, 1e-9, true)] {
        let a = with_spectrum::<f64>(330, 300, value);
        let seen = Arc::new(Mutex::new(Vec::<Progress>::new()));
        let told = seen.clone();
        let options = cpu().keep(5).accuracy(accuracy).progress(move |now| told.lock().unwrap().push(now));
        a.svd_gpu_with(&options).unwrap();
        let seen = seen.lock().unwrap();
        assert!(seen.is_sorted_by(|x, y| x.fraction <= y.fraction), "{seen:?}");
        let last = seen.last().unwrap();
        assert!(
            last.fraction == 1.0 && seen[0].stage == Stage::Iteration && (last.stage != Stage::Iteration) == follows,
            "{seen:?}"
        );
    }
    let (stop, a) = (CancelFlag::new(), with_spectrum::<f64>(330, 300, SPECTRA[2].1));
    let flag = stop.clone();
    let options = cpu().keep(5).accuracy(1e-9).cancel(stop).progress(move |_| flag.cancel());
    assert_eq!(a.svd_gpu_with(&options).map(drop), Err(SvdError::Cancelled { stage: Stage::Iteration }));
    // Or while the residuals of a reduction are measured.
    let stop = CancelFlag::new();
    let flag = stop.clone();
    let late = move |now: Progress| {
        if now.fraction > 0.94 {
            flag.cancel()
        }
    };
    let options = cpu().keep(150).accuracy(1e-9).cancel(stop).progress(late);
    assert_eq!(a.svd_gpu_with(&options).map(drop), Err(SvdError::Cancelled { stage: Stage::Vectors }));
}

/// The triples as the result of a matrix, for [`verify`].
fn as_mat<T: Element<Arithmetic = T> + Scalar>(svd: LeadingSvd<T>) -> (MatSvd<T>, svdvals_gpu::Iteration) {
    let col = |x: &[<T as svdvals_gpu::Number>::Real]| faer::Col::from_fn(x.len(), |i| x[i]);
    let (s, residuals) = (col(&svd.s), Some(col(&svd.residuals)));
    (MatSvd { u: svd.u, s, v: svd.v, residuals }, svd.iteration)
}

/// Triples of an operator are those of the dense matrix that it is.
fn is<T: Element<Arithmetic = T> + Scalar>(what: &str, operator: &impl LinearOperator<T>, dense: &Mat<T>, keep: usize) {
    for (accuracy, seed) in [(1e-3, 0), (1e-4, 5)] {
        let options = SvdOptions::default().accuracy(accuracy).seed(seed);
        let (svd, iteration) = as_mat(leading_svd(operator, keep, &options).unwrap_or_else(|error| panic!("{what}: {error}")));
        verify(dense.as_ref(), &svd, iteration, accuracy).unwrap_or_else(|error| panic!("{what}: {error}"));
    }
}

/// Entries of a sparse matrix: about 5 in a column, and one column and row without any.
fn sparse<T: Scalar>(m: usize, n: usize) -> (Mat<T>, Vec<Triplet<usize, usize, T>>) {
    let value = |i: usize, j: usize| T::from_complex(Complex::new(noise(3, i, j), noise(4, i, j)));
    let is_there = |i: usize, j: usize| (i * 7 + j * 11 + i * j) % 41 < 5 && i != 4 && j != 3;
    let dense = Mat::from_fn(m, n, |i, j| if is_there(i, j) { value(i, j) } else { T::zero_impl() });
    let all = (0..m).flat_map(|i| (0..n).map(move |j| (i, j))).filter(|&(i, j)| is_there(i, j));
    let triplets = all.map(|(i, j)| Triplet::new(i, j, value(i, j))).collect();
    (dense, triplets)
}

/// Dense, sparse by columns and rows, less its means, a product, rows that are read again; real and complex; wide and tall; one triple and all of them.
#[test]
fn triples_of_operators() {
    fn of<T: Element<Arithmetic = T> + Scalar>() {
        for (m, n) in [(160, 130), (90, 150)] {
            let (dense, triplets) = sparse::<T>(m, n);
            let columns = SparseColMat::<usize, T>::try_new_from_triplets(m, n, &triplets).unwrap();
            let rows = SparseRowMat::<usize, T>::try_new_from_triplets(m, n, &triplets).unwrap();
            is("columns", &columns, &dense, 6);
            is("columns, by reference", &columns.as_ref(), &dense, 1);
            is("rows", &rows, &dense, 6);
            is("dense", &dense, &dense, 6);
            is("dense, all", &dense, &dense, m.min(n));
            let means: Vec<Complex<f64>> =
                (0..n).map(|j| dense.col(j).iter().map(|x| x.to_complex()).sum::<Complex<f64>>() / m as f64).collect();
            let less = Mat::from_fn(m, n, |i, j| T::from_complex(dense[(i, j)].to_complex() - means[j]));
            is("centred", &Centered::new(&columns).unwrap(), &less, 6);
            let product = Mat::from_fn(m, m, |i, j| {
                T::from_complex((0..n).map(|k| dense[(i, k)].to_complex() * dense[(j, k)].to_complex()).sum::<Complex<f64>>())
            });
            is("product", &ProductOf::<_, _, T>::new(&columns, dense.transpose()).unwrap(), &product, 6);
            let source = RowsOf::new((m, n), |visit| {
                for first in (0..m).step_by(37) {
                    let last = m.min(first + 37);
                    visit(&(first..last).flat_map(|i| (0..n).map(move |j| (i, j))).map(|at| dense[at]).collect::<Vec<T>>())?;
                }
                Ok(())
            });
            is("rows that are read again", &source, &dense, 6);
        }
    }
    of::<f64>();
    of::<Complex<f64>>();
    of::<f32>();
}

#[test]
#[cfg(feature = "sprs")]
fn triples_of_sprs() {
    let (dense, triplets) = sparse::<f64>(120, 90);
    let mut all = sprs::TriMat::new((120, 90));
    triplets.iter().for_each(|t| all.add_triplet(t.row, t.col, t.val));
    is("sprs by columns", &all.to_csc::<usize>(), &dense, 5);
    is("sprs by rows", &all.to_csr::<usize>(), &dense, 5);
}

/// Arrays in either order, and of half types, are operators too.
#[test]
#[cfg(feature = "ndarray")]
fn triples_of_arrays() {
    use ndarray::{Array2, ShapeBuilder};
    let dense = with_spectrum::<f64>(120, 90, SPECTRA[0].1);
    let array = Array2::from_shape_fn((120, 90), |at| dense[at]);
    let fortran = Array2::from_shape_fn((120, 90).f(), |at| dense[at]);
    is("array", &array, &dense, 5);
    is("array by columns", &fortran.view(), &dense, 5);
    let half = array.mapv(f16::from_f64);
    let wide = Mat::<f32>::from_fn(120, 90, |i, j| half[(i, j)].to_f32());
    is("array of f16", &half, &wide, 5);
}

/// An operator by two closures.
struct By<F, G>((usize, usize), F, G);

impl<T, F, G> LinearOperator<T> for By<F, G>
where
    T: Scalar,
    F: Fn(&[T], &mut [T]) -> Result<(), OperatorError> + Sync,
    G: Fn(&[T], &mut [T]) -> Result<(), OperatorError> + Sync,
{
    fn shape(&self) -> (usize, usize) {
        self.0
    }

    fn apply(&self, _: usize, x: &[T], y: &mut [T]) -> Result<(), OperatorError> {
        (self.1)(x, y)
    }

    fn apply_adjoint(&self, _: usize, x: &[T], y: &mut [T]) -> Result<(), OperatorError> {
        (self.2)(x, y)
    }
}

/// What an operator does wrong is said by name, and the next call works.
#[test]
fn faulty_operators() {
    let copy = |x: &[f64], y: &mut [f64]| {
        y.copy_from_slice(x);
        Ok(())
    };
    let fails = |_: &[f64], _: &mut [f64]| Err("the file is gone".into());
    let nan = |x: &[f64], y: &mut [f64]| {
        y.copy_from_slice(x);
        y[50 * 2 + 3] = f64::NAN;
        Ok(())
    };
    let twice = |x: &[f64], y: &mut [f64]| {
        y.iter_mut().zip(x).for_each(|(y, x)| *y = 2.0 * x);
        Ok(())
    };
    let told = |error: SvdError, of: &str, text: &str| match &error {
        SvdError::Operator { call, reason } => assert!(*call == of && reason.contains(text), "{error}"),
        _ => panic!("{error}"),
    };
    let options = SvdOptions::default();
    told(leading_svd(&By((50, 50), fails, copy), 2, &options).unwrap_err(), "apply", "the file is gone");
    told(leading_svd(&By((50, 50), copy, fails), 2, &options).unwrap_err(), "apply_adjoint", "the file is gone");
    told(leading_svd(&By((50, 50), nan, copy), 2, &options).unwrap_err(), "apply", "entry (3, 2) of the product is NaN");
    told(leading_svd(&By((50, 50), copy, nan), 2, &options).unwrap_err(), "apply_adjoint", "NaN");
    told(leading_svd(&By((50, 50), copy, twice), 2, &options).unwrap_err(), "apply_adjoint", "adjoint of apply");
    assert!((leading_svd(&By((50, 50), twice, twice), 2, &options).unwrap().s[1] - 2.0).abs() < 1e-14);
    let short = RowsOf::new((9, 2), |visit| visit(&[1.0f64; 6]));
    told(leading_svd(&short, 1, &options).unwrap_err(), "apply", "3 rows, but the matrix has 9");
    let torn = RowsOf::new((9, 2), |visit| visit(&[1.0f64; 5]));
    told(leading_svd(&torn, 1, &options).unwrap_err(), "apply", "a row has 2");
    let long = RowsOf::new((9, 2), |visit| visit(&[1.0f64; 20]));
    told(leading_svd(&long, 1, &options).unwrap_err(), "apply", "10 rows, but the matrix has 9");
    let deaf = RowsOf::new((9, 2), |visit| {
        let _ = visit(&[1.0f64; 5]);
        visit(&[1.0f64; 18])
    });
    told(leading_svd(&deaf, 1, &options).unwrap_err(), "apply", "a row has 2");
    let no_mean = |_: &[f64], y: &mut [f64]| {
        y[7] = f64::NAN;
        Ok(())
    };
    told(Centered::new(By((50, 50), copy, no_mean)).map(drop).unwrap_err(), "apply_adjoint", "the mean of column 7 is NaN");
    let error = Centered::with_mean(Mat::<f64>::zeros(2, 3), vec![0.0, f64::NAN, 1.0]).map(drop).unwrap_err();
    assert!(error.to_string().contains("column 1 is NaN"), "{error}");
    told(ProductOf::<_, _, f64>::new(Mat::<f64>::zeros(2, 3), Mat::<f64>::zeros(2, 3)).map(drop).unwrap_err(), "shape", "2 x 3");
    told(Centered::with_mean(Mat::<f64>::zeros(2, 3), vec![0.0; 2]).map(drop).unwrap_err(), "shape", "2 means");
}

/// Blocks of other sizes than an operator has are an error of its products, not a panic; and so are those of an operator without rows.
#[test]
fn blocks_of_other_sizes() {
    let (dense, triplets) = sparse::<f64>(12, 9);
    let columns = SparseColMat::<usize, f64>::try_new_from_triplets(12, 9, &triplets).unwrap();
    let rows = SparseRowMat::<usize, f64>::try_new_from_triplets(12, 9, &triplets).unwrap();
    let centred = Centered::with_mean(&dense, vec![0.0; 9]).unwrap();
    let product = ProductOf::<_, _, f64>::new(&dense, dense.transpose()).unwrap();
    let source = RowsOf::new((12, 9), |visit| visit(&[0.0f64; 108]));
    let all: [&dyn LinearOperator<f64>; 6] = [&dense, &columns, &rows, &centred, &product, &source];
    for operator in all {
        let (m, n) = operator.shape();
        assert!(operator.apply(2, &vec![1.0; 2 * n], &mut vec![0.0; 2 * m]).is_ok());
        assert!(operator.apply_adjoint(2, &vec![1.0; 2 * m], &mut vec![0.0; 2 * n]).is_ok());
        for (columns, x, y) in [(2, 2 * n - 1, 2 * m), (2, 2 * n, 2 * m + 1), (3, 2 * n, 2 * m), (usize::MAX, 2 * n, 2 * m)] {
            assert!(operator.apply(columns, &vec![1.0; x], &mut vec![0.0; y]).is_err());
            assert!(operator.apply_adjoint(columns, &vec![1.0; y], &mut vec![0.0; x]).is_err());
        }
    }
    let none = Centered::new(Centered::new(Mat::<f64>::zeros(0, 3)).unwrap()).unwrap();
    assert_eq!(leading_svd(&none, 2, &SvdOptions::default()).unwrap().s.len(), 0);
}

/// Triples that are not accurate are in the error; those of an empty operator are none.
#[test]
fn unreached_and_empty() {
    let a = with_spectrum::<f32>(90, 80, SPECTRA[6].1);
    let error = leading_svd(&a, 3, &SvdOptions::default().accuracy(1e-12)).unwrap_err();
    assert!(matches!(error, SvdError::NotReached { accuracy: 1e-12, .. }), "{error}");
    let svd = LeadingSvd::<f32>::of_error(&error).unwrap().clone();
    assert!(LeadingSvd::<f64>::of_error(&error).is_none());
    let (svd, iteration) = as_mat(svd);
    verify(a.as_ref(), &svd, iteration, iteration.residual * 1.001).unwrap();
    for (m, n, keep) in [(0, 5, 2), (5, 0, 2), (5, 4, 0)] {
        let svd = leading_svd(&Mat::<f64>::zeros(m, n), keep, &SvdOptions::default()).unwrap();
        assert_eq!((svd.u.shape(), svd.s.len(), svd.v.shape()), ((m, 0), 0, (n, 0)));
    }
}

/// Each option of an operator's triples does what it says, or is refused by name.
#[test]
fn options_of_operators() {
    let a = with_spectrum::<f64>(60, 50, SPECTRA[2].1);
    let with = |options: SvdOptions| leading_svd(&a, 4, &options);
    let plain = with(SvdOptions::default()).unwrap();
    assert!(plain.iteration.residual <= f64::EPSILON.sqrt() && plain.iteration.reached);
    assert_eq!(with(SvdOptions::default().threads(3)).unwrap().s, plain.s);
    assert_eq!(with(SvdOptions::default().keep(4).backend(Backend::Cpu)).unwrap().s, plain.s);
    assert_eq!(with(SvdOptions::default().tolerance(0.3)).unwrap().s.len(), 3);
    assert_eq!(with(SvdOptions::default().vectors(Vectors::Left)).unwrap().v.shape(), (50, 0));
    assert!(with(SvdOptions::default().accuracy(0.1)).unwrap().iteration.products < plain.iteration.products);
    assert!(with(SvdOptions::default().seed(3)).unwrap().u != plain.u);
    let signs = with(SvdOptions::default().signs(Signs::Largest)).unwrap();
    assert!(signs.u.col(0).iter().fold(0.0f64, |most, &x| if x.abs() > most.abs() { x } else { most }) > 0.0);
    let stop = CancelFlag::new();
    stop.cancel();
    assert_eq!(with(SvdOptions::default().cancel(stop)).map(drop), Err(SvdError::Cancelled { stage: Stage::Iteration }));
    let refused = |option: &str, options: SvdOptions| match with(options).map(drop) {
        Err(SvdError::InvalidOption { option: named, .. }) => assert_eq!(named, option),
        other => panic!("{option}: {other:?}"),
    };
    refused("keep", SvdOptions::default().keep(3));
    refused("accuracy", SvdOptions::default().accuracy(0.0));
    refused("accuracy", SvdOptions::default().accuracy(f64::NAN));
    refused("tolerance", SvdOptions::default().tolerance(2.0));
    refused("vectors", SvdOptions::default().vectors(Vectors::Full));
    refused("reduction", SvdOptions::default().reduction(Reduction::OneStage));
    refused("stage3", SvdOptions::default().stage3(Stage3::Bisection));
    refused("tuning", SvdOptions::default().tuning(Tuning::for_cpu::<f64>(50)));
    refused("tuning_table", SvdOptions::default().tuning_table(Default::default()));
    refused("backend", SvdOptions::default().backend(Backend::Gpu));
    refused("time_kernels", SvdOptions::default().time_kernels(true));
    refused("threads", SvdOptions::default().threads(0));
    refused("half_storage", SvdOptions::default().half_storage(svdvals_gpu::HalfStorage::Half));
}

/// Beside the operator a call has at most 6 (m + n)(k + 10) numbers at a time: the bases, the newest block, and small matrices. Measured by the memory of
/// a process, of which the code of the library itself, a few MB, is not counted.
#[test]
#[cfg(target_os = "linux")]
fn memory_beside_the_operator() {
    if !is_own("krylov::memory_beside_the_operator") {
        return;
    }
    let status = |line: &str| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let found = status.lines().find_map(|found| found.strip_prefix(line)).unwrap();
        1024 * found.trim_matches(|c: char| !c.is_ascii_digit()).parse::<usize>().unwrap()
    };
    let (m, n, k) = (60_000, 50_000, 30);
    // A diagonal, which takes no memory: 1 / (1 + i).
    let scale = move |x: &[f64], y: &mut [f64], from: usize, to: usize| {
        for (x, y) in x.chunks(from).zip(y.chunks_mut(to)) {
            y.iter_mut().zip(x).enumerate().for_each(|(i, (y, x))| *y = x / (1 + i) as f64);
        }
        Ok::<_, OperatorError>(())
    };
    let diagonal = By((m, n), |x: &[f64], y: &mut [f64]| scale(x, y, n, m), |x: &[f64], y: &mut [f64]| scale(x, y, m, n));
    let before = status("VmRSS:");
    let svd = leading_svd(&diagonal, k, &SvdOptions::default().accuracy(1e-5)).unwrap();
    assert!(svd.iteration.restarts > 0, "{}", svd.iteration);
    let (numbers, allowed) = ((status("VmHWM:") - before) / 8, 6 * (m + n) * (k + 10));
    assert!(numbers < allowed + 2_000_000, "{numbers} numbers, {allowed} are allowed");
}
