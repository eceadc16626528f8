//! What the GPU backend promises as a whole: accuracy, whatever the hyperparameters and the memory order, and what it sends.

use faer::{Mat, MatRef};
use svdvals_gpu::{
    Backend, GpuContext, HalfStorage, PanelTree, QrGpu, Stage3, SvdError, SvdGpu, SvdOptions, SvdValsGpu, Tuning, cost::Kernel,
    wgpu::Features,
};

use crate::{
    Elements, Outcome, check,
    common::{Spectrum, complex_with_singular_values, error, gaussian, reference, rounded, stable, with_singular_values},
    tuning,
};

fn gpu(context: &GpuContext) -> SvdOptions {
    SvdOptions::default().context(context.clone()).backend(Backend::Gpu)
}

/// Table 1 of the unified-kernels paper at n = 64 and 256, with the default hyperparameters: the bounds are the paper's figures, for f16
/// stored as f16, and for complex numbers twice those of the real type. With stage 3 on the host, and, of three matrices, on the device and with deferred
/// updates, of panels of two levels. The bounds of these are a quarter larger: they are the default of larger matrices alone, whose bounds are larger too.
pub fn table_1<T: Elements>(context: &GpuContext) -> Outcome {
    for (n, matrices, f16_bound, f32_bound, f64_bound) in [(64, 10, 4.3e-3, 9.6e-8, 5.8e-16), (256, 10, 3.3e-3, 8.1e-8, 8.3e-16)]
    {
        let bound = match T::NAME {
            "f16" => f16_bound,
            "f32" => f32_bound,
            "c32" => 2.0 * f32_bound,
            "c64" => 2.0 * f64_bound,
            _ => f64_bound,
        };
        for spectrum in Spectrum::ALL {
            let (mut worst, mut worst_on_device, mut worst_deferred) = (0f64, 0f64, 0f64);
            let defaults = Tuning::for_adapter::<T>(context, n);
            let tile = defaults.tile_size;
            let deferring = defaults.leaf(4 * tile).deferred_columns(6 * tile).deferred_from(0);
            // Together, and beside the panels that follow.
            let deferring = [deferring.clone(), deferring.deferred_columns(2 * tile).deferred_beside(1)];
            for seed in 0..matrices {
                let mut sigma = spectrum.values(n);
                let a: Mat<T> = if T::NAME.starts_with('c') {
                    rounded(complex_with_singular_values(&mut sigma, seed).as_ref())
                } else {
                    rounded(with_singular_values(&mut sigma, seed).as_ref())
                };
                worst = worst.max(error(T::values(&a, &gpu(context))?, &sigma));
                if seed < 3 {
                    worst_on_device = worst_on_device.max(error(T::values(&a, &gpu(context).stage3(Stage3::Device))?, &sigma));
                    let deferring = gpu(context).tuning(deferring[seed as usize % 2].clone());
                    worst_deferred = worst_deferred.max(error(T::values(&a, &deferring)?, &sigma));
                }
            }
            let found =
                format!("{worst:.2e}, stage 3 on the device {worst_on_device:.2e}, deferred updates {worst_deferred:.2e}");
            println!("GPU {} n = {n}, {spectrum:?}: {found}", T::NAME);
            check!(
                worst.max(worst_on_device).max(0.8 * worst_deferred) <= bound,
                "n = {n}, {spectrum:?}: {found}, bound {bound:.1e}"
            );
        }
    }
    Ok(())
}

/// Panel trees of several arities, the flat chain, four tile widths, and tiles from the narrowest to the widest that a default has give the
/// same values, to the error of a backward stable method.
pub fn hyperparameters_do_not_change_values<T: Elements>(context: &GpuContext) -> Outcome {
    let a: Mat<T> = gaussian(90, 75, 21);
    let exact = reference(a.as_ref());
    for (leaf, tree) in
        [(16, PanelTree::Reduction), (24, PanelTree::Reduction), (64, PanelTree::Reduction), (16, PanelTree::Flat)]
    {
        for tile_width in [1, 3, 5, 7] {
            let options = gpu(context).tuning(tuning(8, leaf).tree(tree).tile_width(tile_width));
            let off = error(T::values(&a, &options)?, &exact);
            check!(off <= stable::<T>(90) + T::stored(4), "leaf {leaf}, {tree:?}, tile width {tile_width}: {off:.1e}");
        }
    }
    let a: Mat<T> = gaussian(600, 200, 21);
    let exact = reference(a.as_ref());
    let mut fitting = 0;
    for (tile_size, blocks, cols) in [(8, 4, 32), (16, 8, 64), (32, 16, 64), (64, 8, 32)] {
        let defaults = Tuning::for_adapter::<T>(context, 200).cols_per_block(cols).tile_width(32);
        let tuning = defaults.tile_size(tile_size).leaf(blocks * tile_size);
        if tuning.check_for_adapter::<T>(context).is_ok() {
            fitting += 1;
            let off = error(T::values(&a, &gpu(context).tuning(tuning))?, &exact);
            check!(off <= stable::<T>(600) + T::stored(4), "tiles of {tile_size}: {off:.1e}");
        }
    }
    check!(fitting > 0, "none of the defaults' tiles fits");
    Ok(())
}

/// A second strip of the products in each thread changes no bit of the values and vectors: a sum has the same terms in the same order. The sizes end
/// within tiles, halves of tiles and strips, in both memory orders, with tiles of X that are held and panels beside updates.
pub fn strips_keep_the_bits<T: Elements>(context: &GpuContext) -> Outcome {
    let tall: Mat<T> = gaussian(150, 90, 23);
    let by_rows = tall.transpose().to_owned();
    let base = tuning(16, 48).cols_per_block(24).rows_per_block(32);
    let two_levels = tuning(8, 24).cols_per_block(72).rows_per_block(16);
    for tuning in [base.clone().tiles_held(1), base.split_beside(2), two_levels.tree(PanelTree::Flat)] {
        if tuning.check_for_adapter::<T>(context).is_err() {
            continue;
        }
        for a in [tall.as_ref(), by_rows.transpose()] {
            let options = |strips| gpu(context).tuning(tuning.clone().strips_per_thread(strips));
            let [one, two] = [1, 2].map(|strips| a.svd_gpu_with(&options(strips)));
            let (one, two) = (one?, two?);
            check!(one.u == two.u && one.s == two.s && one.v == two.v, "{tuning}: other bits");
        }
    }
    Ok(())
}

/// Where `geqrt` of a level runs beside `unmqr` of the level before, and keeps its reflectors, no bit of the vectors, of Q and of R is another, and there
/// are fewer dispatches. The panels have three levels, whose last blocks end within tiles and vectors, and the matrix lies in either memory order.
pub fn kept_reflectors_beside_updates<T: Elements>(context: &GpuContext) -> Outcome {
    let tall: Mat<T> = gaussian(150, 61, 29);
    let by_rows = tall.transpose().to_owned();
    for (tile, leaf) in [(8, 24), (4, 8)] {
        let tuning = tuning(tile, leaf).split_k(2);
        for a in [tall.as_ref(), by_rows.transpose()] {
            let options = |split| gpu(context).tuning(tuning.clone().split_beside(split));
            let [apart, beside] = [0, 2].map(|split| a.svd_gpu_report(&options(split)));
            let (apart, beside) = (apart?, beside?);
            check!(beside.counts.dispatches < apart.counts.dispatches, "{} dispatches", beside.counts.dispatches);
            let (apart, beside) = (apart.values, beside.values);
            check!(apart.u == beside.u && apart.s == beside.s && apart.v == beside.v, "{tuning}: other bits");
            let [apart, beside] = [0, 2].map(|split| a.qr_gpu_with(&options(split).run.into()));
            let (apart, beside) = (apart?, beside?);
            check!(apart.r() == beside.r() && apart.thin_q()? == beside.thin_q()?, "{tuning}: other bits of QR");
        }
    }
    Ok(())
}

/// Every way a matrix can lie in memory gives the values of the dense copy, to the error of a backward stable method.
pub fn memory_orders_do_not_matter<T: Elements>(context: &GpuContext) -> Outcome {
    let big: Mat<T> = gaussian(70, 60, 22);
    // SAFETY: entry (i, j) of the view is an entry of `big`: the farthest is (2 * 29 + 1, 3 * 18 + 2).
    let stepped = unsafe { MatRef::from_raw_parts(&raw const big[(1, 2)], 30, 19, 2 * big.row_stride(), 3 * big.col_stride()) };
    let views = [
        big.as_ref(),
        big.transpose(),
        big.as_ref().reverse_rows(),
        big.as_ref().reverse_rows_and_cols().transpose(),
        stepped,
        stepped.transpose().reverse_cols(),
    ];
    for (k, view) in views.into_iter().enumerate() {
        let off = error(T::view_values(view, &gpu(context))?, &reference(view));
        check!(off <= stable::<T>(70) + T::stored(4), "view {k}: {off:.1e}");
    }
    Ok(())
}

/// One upload of the matrix, one read-back of 2n numbers, and a number of dispatches that grows with n and not with n^2 / b: for each
/// of the n / b panels and both its sweeps two a level of the tree, and 3n in stage 2's one reduction step. It is the cost model's number,
/// for square, tall and wide matrices.
pub fn counts_are_linear<T: Elements>(context: &GpuContext) -> Outcome {
    let gpu = |context| gpu(context).half_storage(HalfStorage::Half.for_element::<T>());
    for n in [40, 80, 120] {
        let a: Mat<T> = gaussian(n, n, 23);
        let tuning = tuning(8, 16).tile_width(7);
        let counts = a.svdvals_gpu_report(&gpu(context).tuning(tuning.clone()))?.counts;
        let size = size_of::<T>() as u64;
        check!(counts.bytes_uploaded == n.next_multiple_of(4) as u64 * n as u64 * size, "{} bytes up", counts.bytes_uploaded);
        check!(counts.bytes_read_back == 2 * (n * size_of::<T::Scalar>()) as u64, "{} bytes back", counts.bytes_read_back);
        let levels = 1 + (n.div_ceil(16) as f64).log2().ceil() as u64;
        let bound = 4 * (n as u64).div_ceil(8) * levels + 3 * n as u64 + 2;
        check!(counts.dispatches <= bound, "n = {n}: {} dispatches, bound {bound}", counts.dispatches);
    }
    for (m, n, sweeps, cycles, lines) in
        [(70, 70, 1, 1, 0), (61, 50, 4, 2, 0), (61, 50, 4, 2, 2), (130, 33, 1, 3, 1), (20, 90, 2, 4, 0), (1, 7, 3, 1, 2)]
    {
        let tuning = tuning(8, 24).tile_width(8).sweeps_per_block(sweeps).cycles_per_dispatch(cycles).lines_per_thread(lines);
        let report = gaussian::<T>(m, n, 26).svdvals_gpu_report(&gpu(context).tuning(tuning))?;
        let (found, want) = (report.counts.dispatches, report.cost()?.dispatches());
        check!(found == want, "{m} x {n}: {found} dispatches, the model counts {want}");
    }
    // Stage 3 on the device: so small that all steps are one dispatch, on a software driver too.
    for (m, n) in [(70, 70), (3, 1), (4, 0)] {
        let options = gpu(context).tuning(tuning(8, 24)).stage3(Stage3::Device);
        let report = gaussian::<T>(m, n, 28).svdvals_gpu_report(&options)?;
        let (found, cost) = (report.counts.dispatches, report.cost()?);
        check!(found == cost.dispatches(), "{m} x {n}, stage 3 on the device: {found} dispatches, the model counts\n{cost}");
        check!(cost.kernel(Kernel::Bisect).dispatches == u64::from(n > 0), "{m} x {n}:\n{cost}");
    }
    let a: Mat<T> = gaussian(64, 64, 24);
    let defaults = Tuning::for_adapter::<T>(context, 64);
    check!(a.svdvals_gpu_report(&gpu(context).tuning(defaults))?.counts.submissions <= 8, "one short submission after the other");
    Ok(())
}

/// Timing the kernels changes no value, and gives each kernel a time where the device has a clock; together no more than the call took.
pub fn kernels_are_timed<T: Elements>(context: &GpuContext) -> Outcome {
    let a: Mat<T> = gaussian(100, 100, 27);
    let options = gpu(context).half_storage(HalfStorage::Half.for_element::<T>()).tuning(tuning(8, 16));
    let (plain, timed) = (a.svdvals_gpu_report(&options)?, a.svdvals_gpu_report(&options.time_kernels(true)));
    if !context.device().features().contains(Features::TIMESTAMP_QUERY) {
        check!(matches!(&timed, Err(SvdError::InvalidOption { option: "time_kernels", .. })), "{:?}", timed.map(|_| ()));
        return Ok(());
    }
    let timed = timed?;
    check!(plain.values == timed.values && plain.kernel_seconds.is_empty(), "{:?}", plain.kernel_seconds);
    check!(plain.counts.dispatches == timed.counts.dispatches, "{:?} and {:?}", plain.counts, timed.counts);
    let kernels: Vec<Kernel> = timed.kernel_seconds.iter().map(|&(kernel, _)| kernel).collect();
    let cost = timed.cost()?;
    let run = Kernel::ALL.into_iter().filter(|&kernel| cost.kernel(kernel).dispatches > 0);
    check!(kernels == run.collect::<Vec<_>>(), "{kernels:?}");
    let seconds: Vec<f64> = timed.kernel_seconds.iter().map(|&(_, seconds)| seconds).collect();
    check!(seconds.iter().all(|&seconds| seconds > 0.0), "{:?}", timed.kernel_seconds);
    check!(seconds.iter().sum::<f64>() <= timed.seconds.total, "{:?} of {:?}", timed.kernel_seconds, timed.seconds);
    // Printed, they stand beside what they did: a line for each after those of the call.
    let lines = [&plain, &timed].map(|report| report.to_string().lines().count());
    check!(lines[0] == 4 && lines[1] == 5 + kernels.len(), "{timed}");
    Ok(())
}

/// n = 1024 in f32 with tiles of 32: a small multiple of n dispatches, where n^2 / b would be 32768; the matrix up once, 2n numbers back.
pub fn counts_at_1024() -> Outcome {
    let context = GpuContext::global()?;
    let tuning = Tuning::for_adapter::<f32>(&context, 1024);
    let a: Mat<f32> = gaussian(1024, 1024, 25);
    let report = a.svdvals_gpu_report(&gpu(&context).tuning(tuning.clone()))?;
    println!("n = 1024 f32, tile size {}, leaf {}, tile width {}:", tuning.tile_size, tuning.leaf, tuning.tile_width);
    println!("{:?}", report.counts);
    let exact = a.svdvals_gpu_with(&SvdOptions::default().backend(Backend::Cpu))?;
    let exact: Vec<f64> = exact.iter().map(|&s| s.into()).collect();
    let off = error(report.values.iter().copied(), &exact);
    check!(off <= stable::<f32>(1024), "{off:.1e} from the CPU's values");
    check!(report.counts.dispatches <= 4 * 1024, "{} dispatches", report.counts.dispatches);
    check!(report.cost()?.dispatches() == report.counts.dispatches, "the model counts\n{}", report.cost()?);
    check!(report.counts.bytes_uploaded == 4 << 20 && report.counts.bytes_read_back == 8 << 10, "{:?}", report.counts);
    Ok(())
}
