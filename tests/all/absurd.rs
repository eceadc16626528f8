//! Absurd numbers: every hyperparameter at values that nobody can mean (`absurd_options.rs`: every option) gives the right answer or an error that names it,
//! at once.

use std::{
    env, fs,
    time::{Duration, Instant},
};

use faer::{Mat, MatRef};
use num_complex::Complex;
use svdvals_gpu::{
    Backend, Element, LstsqGpu, LstsqOptions, PanelTree, QrGpu, RealElement, Reduction, SvdError, SvdGpu, SvdOptions, SvdValsGpu,
    Tuning, TuningTable,
    cost::{self, Cost, DeviceModel},
    svd_batch, svdvals_batch,
    triangular::{Diag, Op, Side, TriangularGpu, Uplo},
};

use crate::{
    absurd_numbers::{NUMBERS, OF_CPU, OF_GPU},
    common::{eps, gaussian, widen},
    own_process,
};

pub(crate) const REALS: [f64; 9] = [-1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, f64::MAX, 5e-324, -0.0, -5e-324];

pub(crate) fn cpu() -> SvdOptions {
    SvdOptions::default().backend(Backend::Cpu)
}

/// The result of `body`, which takes less than a second. Other tests share the processors, so it is given five attempts; a debug build is allowed 20 seconds.
pub(crate) fn at_once<R>(what: &str, mut body: impl FnMut() -> R) -> R {
    let most = Duration::from_secs(if cfg!(debug_assertions) { 20 } else { 1 });
    let mut taken = Vec::new();
    while taken.len() < 5 {
        let start = Instant::now();
        let result = body();
        taken.push(start.elapsed());
        if start.elapsed() < most {
            return result;
        }
    }
    panic!("{what}: {taken:?}");
}

/// The error names one of these options, and says more than its value.
pub(crate) fn names(what: &str, error: &SvdError, options: &[&str]) {
    match error {
        SvdError::InvalidOption { option, reason } if options.contains(option) && reason.len() > 8 => {}
        other => panic!("{what}: {other:?}"),
    }
}

/// A matrix, and its singular values.
pub(crate) struct Problem<T> {
    a: Mat<T>,
    exact: Vec<f64>,
}

impl<T: Element> Problem<T> {
    pub(crate) fn new(m: usize, n: usize) -> Self {
        let a = gaussian::<T>(m, n, 7);
        Problem { exact: crate::common::reference(a.as_ref()), a }
    }
}

/// How far a result is from the right one, in units of what is allowed: 16 max(m, n) eps of the norms.
pub(crate) type Check<T> = (&'static str, fn(&Problem<T>, &SvdOptions) -> svdvals_gpu::Result<f64>);

fn off<T: Element>(m: usize, n: usize, difference: f64, norm: f64) -> f64 {
    difference / (16.0 * m.max(n) as f64 * eps::<T>() * norm)
}

pub(crate) fn checks<T: Element>() -> Vec<Check<T>> {
    fn values_off<T: Element>(Problem { a, exact }: &Problem<T>, found: &[f64]) -> f64 {
        assert_eq!(found.len(), exact.len());
        let most = found.iter().zip(exact).map(|(x, y)| if x.is_finite() { (x - y).abs() } else { f64::INFINITY });
        off::<T>(a.nrows(), a.ncols(), most.fold(0.0, f64::max), exact[0])
    }
    fn values<T: Element>(of: &Problem<T>, options: &SvdOptions) -> svdvals_gpu::Result<f64> {
        let values: Vec<f64> = of.a.svdvals_gpu_with(options)?.iter().map(|s| s.to_double()).collect();
        Ok(values_off(of, &values))
    }
    fn wide<T: Element>(of: &Problem<T>, options: &SvdOptions) -> svdvals_gpu::Result<f64> {
        let values: Vec<f64> = of.a.transpose().svdvals_gpu_with(options)?.iter().map(|s| s.to_double()).collect();
        Ok(values_off(of, &values))
    }
    fn one_stage<T: Element>(of: &Problem<T>, options: &SvdOptions) -> svdvals_gpu::Result<f64> {
        values(of, &options.clone().reduction(Reduction::OneStage))
    }
    fn stages<T: Element>(of: &Problem<T>, options: &SvdOptions) -> svdvals_gpu::Result<f64> {
        let band = SvdValsGpu::to_band(&of.a, &options.run)?;
        let values: Vec<f64> = band.band_to_bidiag(&options.run)?.svdvals()?.iter().map(|s| s.to_double()).collect();
        Ok(values_off(of, &values))
    }
    fn vectors<T: Element>(of: &Problem<T>, options: &SvdOptions) -> svdvals_gpu::Result<f64> {
        let svd = of.a.svd_gpu_with(options)?;
        let (u, v) = (widen(svd.u.as_ref()), widen(svd.v.as_ref()));
        let us = Mat::from_fn(u.nrows(), u.ncols(), |i, j| u[(i, j)] * svd.s[j].to_double());
        let a = widen(of.a.as_ref());
        Ok(off::<T>(a.nrows(), a.ncols(), (&a - us * v.adjoint()).norm_l2(), a.norm_l2()))
    }
    fn qr<T: Element>(of: &Problem<T>, options: &SvdOptions) -> svdvals_gpu::Result<f64> {
        let qr = of.a.qr_gpu_with(&options.run.clone().into())?;
        let (q, r) = (widen(qr.thin_q()?.as_ref()), widen(qr.r().as_ref()));
        let a = widen(of.a.as_ref());
        Ok(off::<T>(a.nrows(), a.ncols(), (&a - q * r).norm_l2(), a.norm_l2()))
    }
    fn lstsq_of<T: Element>(a: MatRef<'_, T>, options: &LstsqOptions) -> svdvals_gpu::Result<f64> {
        let b = gaussian::<T>(a.nrows(), 2, 41);
        let fit = a.lstsq_gpu_with(&b, options)?;
        let (a, b, x) = (widen(a), widen(b.as_ref()), widen(fit.x.as_ref()));
        let rest = &b - &a * &x;
        let gradient = a.adjoint() * &rest - faer::Scale(Complex::from(options.ridge)) * &x;
        let norm = (a.squared_norm_l2() + options.ridge * a.ncols() as f64).sqrt();
        // For a large ridge in two steps: the square overflows.
        Ok(off::<T>(a.nrows(), a.ncols(), gradient.norm_l2() / norm, b.norm_l2() + norm * x.norm_l2()))
    }
    fn lstsq<T: Element>(of: &Problem<T>, options: &SvdOptions) -> svdvals_gpu::Result<f64> {
        let options = LstsqOptions::from(options.run.clone());
        Ok(lstsq_of(of.a.as_ref(), &options)?.max(lstsq_of(of.a.transpose(), &options)?))
    }
    fn batch<T: Element>(of: &Problem<T>, options: &SvdOptions) -> svdvals_gpu::Result<f64> {
        let (a, mut most) = (of.a.as_ref(), 0.0f64);
        for values in svdvals_batch(&[a, a], options)? {
            let values: Vec<f64> = values.iter().map(|s| s.to_double()).collect();
            most = most.max(values_off(of, &values));
        }
        for svd in svd_batch(&[a, a], options)? {
            let values: Vec<f64> = svd.s.iter().map(|s| s.to_double()).collect();
            most = most.max(values_off(of, &values));
        }
        Ok(most)
    }
    fn triangles<T: Element>(of: &Problem<T>, options: &SvdOptions) -> svdvals_gpu::Result<f64> {
        let a = of.a.as_ref();
        let n = a.ncols();
        let entry = |i: usize, j: usize| if i == j { 9.0 } else { a[(i, j)].to_complex().re / n as f64 };
        let triangle = Mat::from_fn(n, n, |i, j| T::from_complex(entry(i, j).into()));
        let (one, mut x) = (T::from_complex(1.0.into()), Mat::from_fn(a.nrows(), n, |i, j| a[(i, j)]));
        let (side, uplo, op, diag) = (Side::Right, Uplo::Upper, Op::NoTrans, Diag::NonUnit);
        x.trmm_gpu_with(side, uplo, op, diag, one, &triangle, &options.run)?;
        x.trsm_gpu_with(side, uplo, op, diag, one, &triangle, &options.run)?;
        Ok(off::<T>(a.nrows(), n, (widen(x.as_ref()) - widen(a)).norm_l2(), widen(a).norm_l2()))
    }
    vec![
        ("values", values),
        ("wide", wide),
        ("stages", stages),
        ("one stage", one_stage),
        ("vectors", vectors),
        ("qr", qr),
        ("least squares", lstsq),
        ("batch", batch),
        ("triangles", triangles),
    ]
}

/// Runs a check: right to what is allowed, or an error that names one of `options`, at once. Whether it is right.
pub(crate) fn is_right<T: Element>(what: &str, check: Check<T>, of: &Problem<T>, call: &SvdOptions, options: &[&str]) -> bool {
    let what = format!("{what}, {} of {} {} x {}", check.0, T::NAME, of.a.nrows(), of.a.ncols());
    match at_once(&what, || check.1(of, call)) {
        Ok(off) => {
            assert!(off <= 1.0, "{what}: off by {off}");
            true
        }
        Err(error) => {
            names(&what, &error, options);
            false
        }
    }
}

/// The hyperparameters that the tests below go through are all that there are.
#[test]
fn all_are_tried() {
    let listed: Vec<&str> = OF_CPU.iter().chain(&OF_GPU).map(|(name, _)| *name).collect();
    let text = Tuning::for_cpu::<f32>(10).to_string();
    let there: Vec<&str> = text.split(' ').filter_map(|word| word.split('=').next()).filter(|name| *name != "tree").collect();
    assert_eq!(there.len(), listed.len(), "{text}");
    assert!(there.iter().all(|name| listed.contains(name)), "{text}");
}

/// Each hyperparameter of the CPU alone, in both kinds of tree, for every operation, and all pairs of them. Those of a GPU are checked on the CPU too.
#[test]
fn hyperparameters() {
    fn alone<T: Element>(m: usize, n: usize, values: &[usize]) {
        let of = Problem::<T>::new(m, n);
        for tree in [PanelTree::Reduction, PanelTree::Flat] {
            let base = Tuning::for_cpu::<T>(n).direct_up_to(0).tree(tree);
            for (check, &value) in checks::<T>().into_iter().flat_map(|check| values.iter().map(move |value| (check, value))) {
                for (name, set) in OF_CPU {
                    let what = format!("{name} = {value}, {tree}");
                    let right = is_right(&what, check, &of, &cpu().tuning(set(base.clone(), value)), &[name, "leaf"]);
                    // A leaf has at least two tiles.
                    assert!(right || value == 0 || matches!(name, "leaf" | "tile_size"), "{what}, {}", check.0);
                }
            }
            for (name, set) in OF_GPU {
                for &value in values {
                    let what = format!("{name} = {value}, {tree}");
                    let call = cpu().tuning(set(base.clone(), value));
                    assert!(is_right(&what, checks::<T>()[0], &of, &call, &[name]) || value == 0, "{what}");
                }
            }
        }
    }
    fn pairs<T: Element>(m: usize, n: usize) {
        let (of, base) = (Problem::<T>::new(m, n), Tuning::for_cpu::<T>(n).direct_up_to(0));
        for (k, (first, set_first)) in OF_CPU.into_iter().enumerate() {
            for (second, set_second) in OF_CPU.into_iter().take(k) {
                for (x, y) in NUMBERS.into_iter().flat_map(|x| NUMBERS.into_iter().map(move |y| (x, y))) {
                    let call = cpu().tuning(set_second(set_first(base.clone(), x), y));
                    for check in checks::<T>().into_iter().filter(|check| ["values", "vectors", "qr"].contains(&check.0)) {
                        is_right(&format!("{first} = {x}, {second} = {y}"), check, &of, &call, &[first, second, "leaf"]);
                    }
                }
            }
        }
    }
    alone::<f32>(40, 24, &NUMBERS);
    alone::<f64>(40, 24, &[0, 1, usize::MAX]);
    alone::<f32>(300, 200, &[7, usize::MAX]);
    alone::<Complex<f64>>(90, 20, &[1, usize::MAX]);
    pairs::<f32>(40, 24);
}

/// The numbers of a file or a table of hyperparameters.
#[test]
fn tuning_files() {
    let path = env::temp_dir().join(format!("svdvals-gpu-{}-absurd.json", std::process::id()));
    let of = Problem::<f32>::new(40, 24);
    let texts =
        ["0", "1", "7", "1048576", "1099511627776", "18446744073709551615", "18446744073709551616", "-1", "1e300", "NaN", "1.5"];
    for (name, set) in OF_CPU.iter().chain(&OF_GPU) {
        for text in texts {
            let what = format!("{name} = {text}");
            let of_file = format!(
                "{{\"entries\": [{{\"adapter\": \"cpu\", \"element\": \"f32\", \"n_up_to\": 100,\n\"tuning\": {{\"{name}\": {text}}}}}]}}"
            );
            fs::write(&path, of_file).unwrap();
            match at_once(&what, || TuningTable::load(&path)) {
                Ok(table) => {
                    let value = text.parse().unwrap();
                    let mut same = TuningTable::default();
                    same.set::<f32>(TuningTable::CPU, 100, set(Tuning::for_cpu::<f32>(24), value));
                    for table in [table, same] {
                        is_right(&what, checks::<f32>()[0], &of, &cpu().tuning_table(table), &[*name, "leaf"]);
                    }
                }
                Err(SvdError::TuningFile { line: Some(2), field: Some(field), reason, .. }) => {
                    assert!(field.starts_with("entries[0].tuning") || text == "NaN", "{what}: {field}");
                    assert!(field.ends_with(name) || reason.contains(name) || text == "NaN", "{what}: {field}, {reason}");
                }
                other => panic!("{what}: {other:?}"),
            }
        }
    }
    for n_up_to in ["-1", "1e300", "18446744073709551616"] {
        let text = format!(
            "{{\"entries\": [{{\"adapter\": \"cpu\", \"element\": \"f32\", \"n_up_to\": {n_up_to}, \"tuning\": {{}}}}]}}"
        );
        fs::write(&path, text).unwrap();
        assert!(matches!(TuningTable::load(&path), Err(SvdError::TuningFile { line: Some(1), field: Some(_), .. })));
    }
    _ = fs::remove_file(&path);
}

/// A file that the environment names, with a number that is refused: the file, its line and the field, in every call.
#[test]
fn environment() {
    const NAME: &str = "absurd::environment";
    const CASE: &str = "SVDVALS_GPU_TEST_CASE";
    let a = gaussian::<f32>(40, 24, 7);
    match env::var(CASE).as_deref() {
        Ok("refused") => {
            for _ in 0..2 {
                match a.svdvals_gpu_with(&cpu()) {
                    Err(error @ SvdError::TuningFile { line: Some(3), .. }) => {
                        assert!(error.to_string().contains("leaf"), "{error}")
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        Ok("large") => {
            assert!(is_right("a file", checks::<f32>()[0], &Problem::new(40, 24), &cpu(), &[]));
            names("a file", &gaussian::<f32>(60, 60, 7).svdvals_gpu_with(&cpu()).unwrap_err(), &["leaf"]);
        }
        _ => {
            let entry = |n: usize, tuning: &str| {
                format!("{{\"adapter\": \"cpu\", \"element\": \"f32\", \"n_up_to\": {n},\n\"tuning\": {{{tuning}}}}}")
            };
            let refused = entry(50, "\n\"leaf\": -1");
            let large = [
                entry(50, "\"tile_size\": 1, \"leaf\": 18446744073709551615, \"cols_per_block\": 18446744073709551615"),
                entry(70, "\"tile_size\": 1099511627776"),
            ];
            for (case, entries) in [("refused", refused), ("large", large.join(","))] {
                let path = env::temp_dir().join(format!("svdvals-gpu-{}-absurd-{case}.json", std::process::id()));
                fs::write(&path, format!("{{\"entries\": [{entries}]}}")).unwrap();
                own_process::run(NAME, [(CASE, case.as_ref()), ("SVDVALS_GPU_TUNING", path.as_os_str())]);
                _ = fs::remove_file(&path);
            }
        }
    }
}

/// The model counts a call in a moment, or says what it cannot count.
#[test]
fn costs() {
    let shapes = [(1 << 18, 1 << 18), (1 << 30, 1), (1 << 30, 7)];
    let all = NUMBERS.into_iter().flat_map(|m| NUMBERS.into_iter().map(move |n| (m, n))).chain(shapes);
    let counted = |what: &str, call: &dyn Fn() -> svdvals_gpu::Result<Cost>| match at_once(what, call) {
        Ok(cost) => assert!(cost.on(&DeviceModel::H100).iter().all(|kernel| kernel.total >= 0.0), "{what}"),
        Err(SvdError::InvalidOption { reason, .. }) => assert!(reason.len() > 8, "{what}"),
        Err(error) => panic!("{what}: {error}"),
    };
    for (m, n) in all {
        let tuning = at_once("tuning", || Cost::tuning::<f32>(n));
        let what = format!("{m} x {n}");
        counted(&what, &|| Cost::new::<f32>(m, n, &tuning));
        counted(&what, &|| Cost::with_stage3::<Complex<f64>>(m, n, &tuning, true));
        counted(&what, &|| Cost::qr::<f32>(m, n, &tuning));
        counted(&what, &|| Cost::svd::<f32>(m, n, m, &tuning));
        counted(&what, &|| Cost::one_stage::<f32>(m, n, &tuning, false));
        counted(&what, &|| Cost::one_stage_svd::<f32>(m, n, n, &tuning));
        assert!(cost::sweeps_at_once(m, n) <= m && DeviceModel::H100.is_filled(m, n) == (cost::sweeps_at_once(m, n) >= 528));
    }
    for &(name, set) in OF_CPU.iter().chain(&OF_GPU) {
        for value in NUMBERS.into_iter().chain([1 << 10, 1 << 16]) {
            for n in [40, 1000] {
                let tuning = set(Cost::tuning::<f32>(n), value);
                let what = format!("{name} = {value}, n = {n}");
                counted(&what, &|| Cost::new::<f32>(n, n, &tuning));
                counted(&what, &|| Cost::qr::<f32>(n, n, &tuning));
                counted(&what, &|| Cost::svd::<f32>(n, n, n, &tuning));
                counted(&what, &|| Cost::one_stage::<f32>(n, n, &tuning, true));
            }
        }
    }
}
