//! QR and least squares with products by cooperative matrices. `tests/run coop` runs this on a driver that has them, with `SVDVALS_GPU_COOP=1`;
//! without, only their absence is tested.

#[path = "common/mod.rs"]
mod common;
#[path = "common/qr.rs"]
mod qr;
#[path = "common/vectors.rs"]
mod vectors;

use std::sync::OnceLock;

use common::complex_noise;
use faer::Mat;
use num_complex::Complex;
use qr::check;
use svdvals_gpu::{
    AdapterChoice, Backend, Element, GpuContext, GpuMatrix, HalfStorage, LstsqGpu, LstsqOptions, Orthogonal, Products, QrGpu,
    QrOptions, Route, Solver, SvdError, SvdOptions, SvdValsGpu, cost::Kernel, triangular::Op, wgpu,
};
use vectors::{KINDS, matrix};

/// A context that asks for cooperative matrices, if there is an adapter.
fn context() -> Option<GpuContext> {
    static CONTEXT: OnceLock<Result<GpuContext, SvdError>> = OnceLock::new();
    match CONTEXT.get_or_init(|| GpuContext::new(&AdapterChoice::default().cooperative_matrices(true))) {
        Ok(context) => Some(context.clone()),
        Err(error) if std::env::var("SVDVALS_GPU_REQUIRE").is_ok() => panic!("{error}"),
        Err(error) => {
            eprintln!("left out: {error}");
            None
        }
    }
}

/// The context, if it has cooperative matrices.
fn cooperative() -> Option<GpuContext> {
    let context = context()?;
    match context.cooperative_matrices() {
        Ok(order) => {
            println!("{} has cooperative matrices of order {order}", context.adapter_name());
            Some(context)
        }
        Err(error) if std::env::var("SVDVALS_GPU_COOP").is_ok() => panic!("{error}"),
        Err(error) => {
            eprintln!("left out: {error}");
            None
        }
    }
}

fn on_gpu(context: &GpuContext, products: Products) -> QrOptions {
    QrOptions::default().context(context.clone()).backend(Backend::Gpu).products(products)
}

fn lstsq_on_gpu(context: &GpuContext, products: Products) -> LstsqOptions {
    LstsqOptions::default().context(context.clone()).backend(Backend::Gpu).products(products)
}

fn refused<T>(result: Result<T, SvdError>) -> bool {
    matches!(result, Err(SvdError::InvalidOption { option: "products", .. }))
}

/// A context without them, asked for or not, is an error that names the option: no other precision, and no CPU. `Native` works on it.
#[test]
fn a_context_without() {
    let Ok(plain) = GpuContext::new(&AdapterChoice::default()) else { return };
    assert!(refused(plain.cooperative_matrices()));
    let mut without = vec![plain];
    without.extend(context().filter(|context| context.cooperative_matrices().is_err()));
    let a = matrix::<f32>("random", 30, 20);
    for context in without {
        for products in [Products::Half, Products::Split] {
            assert!(refused(a.qr_gpu_with(&on_gpu(&context, products)).map(drop)));
            assert!(refused(a.lstsq_gpu_with(&a, &lstsq_on_gpu(&context, products)).map(drop)));
        }
        assert!(a.qr_gpu_with(&on_gpu(&context, Products::Native)).is_ok());
    }
}

/// The adapters, the one of the default context first where there are several.
fn adapters() -> Vec<wgpu::Adapter> {
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle_from_env());
    pollster::block_on(instance.enumerate_adapters(wgpu::Backends::all()))
}

/// A device that the test owns, with all limits and these features.
fn own_device(adapter: &wgpu::Adapter, features: wgpu::Features) -> (wgpu::Device, wgpu::Queue) {
    let descriptor = wgpu::DeviceDescriptor {
        required_features: features,
        required_limits: adapter.limits(),
        // SAFETY: cooperative matrices are all that is requested, for this crate's shaders.
        experimental_features: unsafe { wgpu::ExperimentalFeatures::enabled() },
        ..Default::default()
    };
    pollster::block_on(adapter.request_device(&descriptor)).unwrap()
}

/// The reason why a context has no cooperative matrices.
fn missing(context: &GpuContext) -> String {
    match context.cooperative_matrices() {
        Err(SvdError::InvalidOption { option: "products", reason }) => reason,
        other => panic!("{other:?}"),
    }
}

const COOPERATIVE: wgpu::Features = wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX.union(wgpu::Features::SHADER_F16);

/// A device of the caller's that was opened without the features has no cooperative matrices, with its adapter or without, and the error says what
/// to do. `Native` works on it. An adapter that is not the device's is an error.
#[test]
fn own_devices_without() {
    let adapters = adapters();
    let Some(adapter) = adapters.first() else { return };
    let (device, queue) = own_device(adapter, wgpu::Features::empty());
    let with_adapter = GpuContext::from_wgpu_with_adapter(adapter, device.clone(), queue.clone()).unwrap();
    assert!(missing(&with_adapter).contains("EXPERIMENTAL_COOPERATIVE_MATRIX"), "{}", missing(&with_adapter));
    let without = GpuContext::from_wgpu(device.clone(), queue.clone(), adapter.get_info());
    assert!(missing(&without).contains("from_wgpu_with_adapter"), "{}", missing(&without));
    let a = matrix::<f32>("random", 30, 20);
    for context in [with_adapter, without] {
        assert!(refused(a.qr_gpu_with(&on_gpu(&context, Products::Half)).map(drop)));
        assert!(a.qr_gpu_with(&on_gpu(&context, Products::Native)).is_ok());
    }
    for other in adapters.iter().filter(|other| other.get_info() != adapter.get_info()) {
        println!("{} is not the adapter of the device", other.get_info().name);
        let wrong = GpuContext::from_wgpu_with_adapter(other, device.clone(), queue.clone());
        assert!(matches!(wrong, Err(SvdError::InvalidOption { option: "adapter", .. })));
    }
}

/// A device of the caller's with the features has the cooperative matrices of a context that opened its own, and factors likewise.
#[test]
fn own_devices_with() {
    let Some(context) = cooperative() else { return };
    let adapters = adapters();
    let adapter = adapters.iter().find(|adapter| adapter.get_info().name == context.adapter_name()).unwrap();
    let (device, queue) = own_device(adapter, COOPERATIVE);
    let own = GpuContext::from_wgpu_with_adapter(adapter, device.clone(), queue.clone()).unwrap();
    assert_eq!(own.cooperative_matrices(), context.cooperative_matrices());
    assert!(missing(&GpuContext::from_wgpu(device, queue, adapter.get_info())).contains("from_wgpu_with_adapter"));
    let a = matrix::<f32>("random", 150, 140);
    for products in [Products::Half, Products::Split] {
        let [own, opened] = [&own, &context].map(|context| a.qr_gpu_with(&on_gpu(context, products)).unwrap());
        assert_eq!(own.r(), opened.r(), "{products}");
    }
}

/// A matrix on a device without cooperative matrices, or of another type than f32, is refused, and the next call works.
#[test]
fn resident_refusals() {
    let Some(context) = context() else { return };
    let without = GpuContext::new(&AdapterChoice::default()).unwrap();
    let (of_qr, of_lstsq) = (QrOptions::default().products(Products::Half), LstsqOptions::default().products(Products::Half));
    let a = GpuMatrix::upload(&without, &matrix::<f32>("random", 30, 20)).unwrap();
    assert!(refused(a.qr(&of_qr).map(drop)) && refused(a.lstsq(&a, &of_lstsq).map(drop)));
    let complex = GpuMatrix::upload(&context, &matrix::<Complex<f32>>("random", 30, 20)).unwrap();
    assert!(refused(complex.qr(&of_qr).map(drop)) && refused(complex.lstsq(&complex, &of_lstsq).map(drop)));
    let wide = GpuMatrix::upload(&context, &matrix::<f32>("random", 20, 30)).unwrap();
    assert!(refused(wide.lstsq(&wide, &of_lstsq).map(drop)));
    assert!(a.qr(&QrOptions::default()).is_ok() && wide.lstsq(&wide, &LstsqOptions::default()).is_ok());
}

/// The bytes that are read back for the panels of a matrix by columns or by rows: the first rows of R and of Q, whose lines are padded to four entries.
fn of_panels(k: usize) -> u64 {
    let widths = (0..k).step_by(128).map(|first| (k - first).min(128));
    widths.map(|w| 2 * 4 * w * w.next_multiple_of(4)).sum::<usize>() as u64
}

/// The factors of a matrix on the device are those of a call with the matrix on the host, to the last bit (the same products of the same slices),
/// in both memory orders. Of the matrix two squares of each panel are read back, and the dispatches are those of the model and the scaled copy.
#[test]
fn resident_factors() {
    let Some(context) = cooperative() else { return };
    for products in [Products::Half, Products::Split] {
        let options = on_gpu(&context, products);
        for (m, n) in [(1, 1), (40, 29), (29, 40), (200, 150), (0, 3)] {
            let (a, turned) = (matrix::<f32>("random", m, n), matrix::<f32>("random", n, m));
            for (name, a) in [("by columns", a.as_ref()), ("by rows", turned.transpose())] {
                let name = format!("{products} {m} x {n} {name}");
                let want = a.qr_gpu_with(&options).unwrap();
                let report = GpuMatrix::upload(&context, &a).unwrap().qr_report(&options).unwrap();
                assert_eq!(report.route, Route::Qr(Orthogonal::Recursive(products)), "{name}");
                assert_eq!(report.counts.bytes_read_back, of_panels(m.min(n)), "{name}");
                if m > 0 {
                    // One more for the scaled copy, and one less for R, of which a tall matrix on the host needs a copy to be read back.
                    let dispatches = report.cost().unwrap().dispatches() + 1 - u64::from(m > n);
                    assert_eq!(report.counts.dispatches, dispatches, "{name}");
                }
                let found = report.values;
                let mat = |of: Result<GpuMatrix<f32>, SvdError>| of.unwrap().to_mat().unwrap();
                assert_eq!(mat(found.r()), want.r(), "{name}");
                assert_eq!(mat(found.thin_q()), want.thin_q().unwrap(), "{name}");
                assert_eq!(mat(found.complete_q()), want.complete_q().unwrap(), "{name}");
                let (c, d) = (matrix::<f32>("random", m, 5), matrix::<f32>("random", 5, m));
                let [left, right] = [&c, &d].map(|c| GpuMatrix::upload(&context, c).unwrap());
                for op in [Op::NoTrans, Op::ConjTrans] {
                    let (mut c, mut d) = (c.clone(), d.clone());
                    want.apply_q(&mut c, op).unwrap();
                    want.apply_q_right(&mut d, op).unwrap();
                    assert_eq!(mat(found.apply_q(&left, op)), c, "{name} {op:?}");
                    assert_eq!(mat(found.apply_q_right(&right, op)), d, "{name} {op:?} from the right");
                }
            }
        }
        // Dependent columns for these products, which are not for native ones: the tolerance is that of the products.
        let a = Mat::from_fn(60, 20, |i, j| complex_noise(7, i, j).re as f32 * if j == 19 { 1e-4 } else { 1.0 });
        let [there, b] = [&a, &matrix::<f32>("random", 60, 1)].map(|a| GpuMatrix::upload(&context, a).unwrap());
        let solved = there.qr(&options).unwrap().solve_lstsq(&b);
        match products {
            Products::Half => assert!(matches!(solved, Err(SvdError::RankDeficient { cols: 20, .. }))),
            _ => assert!(solved.is_ok()),
        }
    }
}

/// Least squares of matrices on the device, in f32 and f64: the solutions are those of a call with the matrices on the host, to the last bit. A and B
/// are read back, and the report says so; of f32 matrices no copy goes to the device again.
#[test]
fn resident_least_squares() {
    fn solutions<T: Element>(context: &GpuContext, products: Products) {
        let options = on_gpu(context, products);
        for (m, n, p, power) in [(90, 41, 3, 0), (200, 150, 1, 0), (90, 41, 1, 40)] {
            let noise = matrix::<T>("random", m, n);
            let a = Mat::from_fn(m, n, |i, j| T::from_complex(noise[(i, j)].to_complex() * 2f64.powi(power)));
            let b = matrix::<T>("random", m, p);
            let want = a.lstsq_gpu_report(&b, &options.run.clone().into()).unwrap();
            let [there, right] = [&a, &b].map(|a| GpuMatrix::upload(context, a).unwrap());
            let report = there.lstsq_report(&right, &options.run.clone().into()).unwrap();
            let name = format!("{products} {} {m} x {n}", T::NAME);
            assert_eq!((&report.route, report.shape), (&want.route, (m, n)), "{name}");
            assert_eq!(report.route, Route::LeastSquares(Solver::Recursive(products)), "{name}");
            assert!(report.reason.contains("read back"), "{name}: {}", report.reason);
            let (entries, size) = ((m * (n + p)) as u64, size_of::<T::Scalar>() as u64);
            assert!(report.counts.bytes_read_back >= entries * size + of_panels(n), "{name}: {}", report.counts);
            // Besides four squares of each panel.
            let uploaded = report.counts.bytes_uploaded >= 2 * of_panels(n) + (4 * m * n) as u64;
            assert_eq!(uploaded, T::NAME == "f64", "{name}: {}", report.counts);
            // The arithmetic type's matrix is the matrix.
            let x = report.values.x.to_mat().unwrap();
            assert!((0..n).all(|i| (0..p).all(|j| x[(i, j)] == want.values.x[(i, j)])), "{name}");
            assert_eq!((report.values.rank, report.values.residuals), (want.values.rank, want.values.residuals), "{name}");
        }
    }
    let Some(context) = cooperative() else { return };
    for products in [Products::Half, Products::Split] {
        solutions::<f32>(&context, products);
        if context.supports::<f64>(HalfStorage::Single) {
            solutions::<f64>(&context, products);
        }
    }
    // A condition number that half products do not bear: the native solution, which the report names.
    let a = Mat::from_fn(60, 20, |i, j| complex_noise(7, i, j).re as f32 * if j == 19 { 1e-5 } else { 1.0 });
    let [there, b] = [&a, &matrix::<f32>("random", 60, 1)].map(|a| GpuMatrix::upload(&context, a).unwrap());
    let [found, native] =
        [Products::Half, Products::Native].map(|products| there.lstsq_report(&b, &lstsq_on_gpu(&context, products)).unwrap());
    assert_eq!(found.route, Route::LeastSquares(Solver::Qr));
    assert_eq!(found.values.x.to_mat().unwrap(), native.values.x.to_mat().unwrap());
}

/// LAPACK's ratios with the eps of the products, as on the CPU; the route; and results that are those of the CPU up to the panels, which are not
/// the same bit by bit.
#[test]
fn ratios() {
    let Some(context) = cooperative() else { return };
    let mut errors = Vec::new();
    for products in [Products::Half, Products::Split] {
        let options = on_gpu(&context, products);
        let mut worst = 0.0f64;
        for kind in KINDS {
            for (m, n) in [(1, 1), (5, 1), (1, 5), (40, 29), (29, 40), (90, 70)] {
                match check(&format!("{products} {kind} {m} x {n}"), matrix::<f32>(kind, m, n).as_ref(), &options) {
                    Ok(ratio) => worst = worst.max(ratio),
                    Err(error) => errors.push(error),
                }
            }
        }
        let a = matrix::<f32>("random", 300, 270);
        errors.extend(check(&format!("{products} 300 x 270"), a.as_ref(), &options).err());
        println!("{products}: worst ratio {worst:.3}");
        let report = a.qr_gpu_report(&options).unwrap();
        assert_eq!((report.route, report.backend), (Route::Qr(Orthogonal::Recursive(products)), Backend::Gpu));
        let awaited = pollster::block_on(a.qr_gpu_async(&options)).unwrap();
        assert_eq!(awaited.r(), report.values.r());
    }
    assert!(errors.is_empty(), "{} errors:\n{}", errors.len(), errors.join("\n"));
}

/// The dispatches of the products are those of the model, and so are those of the panels.
#[test]
fn dispatches_are_those_of_the_model() {
    let Some(context) = cooperative() else { return };
    let a = matrix::<f32>("random", 200, 150);
    for products in [Products::Half, Products::Split] {
        let report = a.qr_gpu_report(&on_gpu(&context, products)).unwrap();
        let cost = report.cost().unwrap();
        // Columns 0..128 and 128..150 of one block: an update and a merge of three products each; each operand is sliced.
        assert_eq!(cost.kernel(Kernel::CoopGemm).dispatches, 2 * 3);
        assert_eq!(cost.kernel(Kernel::SliceLines).dispatches, 2 * 6);
        assert_eq!(report.counts.dispatches, cost.dispatches(), "{cost}");
    }
}

/// Least squares to full accuracy from R of either precision, in f32 and f64.
#[test]
fn least_squares() {
    let Some(context) = cooperative() else { return };
    for products in [Products::Half, Products::Split] {
        let options = on_gpu(&context, products);
        let a = Mat::from_fn(200, 80, |i, j| complex_noise(3, i, j).re);
        let b = Mat::from_fn(200, 1, |i, j| complex_noise(5, i, j).re);
        let double = a.lstsq_gpu_report(&b, &options.run.clone().into()).unwrap();
        assert_eq!(double.route, Route::LeastSquares(Solver::Recursive(products)));
        assert!(double.values.backward_error <= f64::EPSILON, "{products}: {}", double.values.backward_error);
        let single = |a: &Mat<f64>| Mat::from_fn(a.nrows(), a.ncols(), |i, j| a[(i, j)] as f32);
        let found = single(&a).lstsq_gpu_report(&single(&b), &options.run.clone().into()).unwrap();
        assert_eq!(found.route, Route::LeastSquares(Solver::Recursive(products)));
        assert!(found.values.backward_error <= f64::from(f32::EPSILON));
    }
}

/// A context with cooperative matrices computes everything else as any other.
#[test]
fn other_calls() {
    let Some(context) = cooperative() else { return };
    let a = matrix::<f32>("random", 120, 100);
    let [with, cpu] = [on_gpu(&context, Products::Native).run.into(), SvdOptions::default().backend(Backend::Cpu)]
        .map(|options| a.svdvals_gpu_with(&options).unwrap());
    // n eps of the largest value.
    assert!((0..100).all(|k| (with[k] - cpu[k]).abs() <= 100.0 * f32::EPSILON * cpu[0]));
}
