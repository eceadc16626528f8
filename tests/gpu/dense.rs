//! Stage 1's kernels: upload, `geqrt`, `unmqr`.

use faer::{Mat, MatRef};
use num_complex::Complex;
use svdvals_gpu::{
    GpuContext, Number, PanelTree, RealElement,
    internals::{CpuKernels, GpuKernels, Level, StageKernels, Transfers, levels},
};

use crate::{
    Elements, Outcome, check,
    common::{Kind, complex_noise, distance, eps, largest, row_major, stacked_identities, widen},
    tile_fits, tuning,
};

/// What comes back is what was sent, times the power of two: for both memory orders, for submatrices, for reversed and for skipping
/// strides, and for sizes around the vector length and the chunk that is scaled at once.
pub fn upload_is_exact<T: Elements>(context: &GpuContext) -> Outcome {
    let kernels = GpuKernels::new::<T>(context, &tuning(8, 16))?;
    for (m, n) in [(1, 1), (3, 1), (1, 5), (4, 4), (7, 13), (130, 70), (5000, 2)] {
        let a = Mat::<T::Scalar>::from_fn(2 * m + 3, 2 * n + 5, |i, j| T::noise(1, i, j).widen());
        let plain = a.as_ref().submatrix(2, 3, m, n);
        let skipping = plain.reverse_rows();
        // SAFETY: rows 0, 2, .. and columns 0, 2, .. of a (2 m + 3) x (2 n + 5) matrix.
        let strided = unsafe { MatRef::from_raw_parts(a.as_ptr(), m, n, 2, 2 * a.col_stride()) };
        let by_rows = Mat::from_fn(n, m, |j, i| plain[(i, j)]);
        let views = [plain, skipping, plain.reverse_cols(), plain.reverse_rows_and_cols(), strided, by_rows.as_ref().transpose()];
        for (k, view) in views.into_iter().enumerate() {
            let device = kernels.upload(view, T::Real::from_double(4.0))?;
            let back = Transfers::<T::Scalar>::download(&kernels, &device)?;
            for j in 0..n {
                for i in 0..m {
                    check!(back[(i, j)].to_complex() == view[(i, j)].to_complex() * 4.0, "{m} x {n}, view {k}: entry ({i}, {j})");
                }
            }
        }
    }
    let counts = kernels.counts();
    check!(counts.dispatches == 0 && counts.bytes_uploaded > 0 && counts.bytes_read_back > 0, "{counts:?}");
    Ok(())
}

/// Panels for the tests: (rows, columns, row of the first block, column, width, tile size, leaf).
const PANELS: [(usize, usize, usize, usize, usize, usize, usize); 10] = [
    (64, 40, 0, 0, 8, 8, 16),     // whole blocks
    (61, 40, 8, 8, 8, 8, 16),     // short last block
    (50, 23, 16, 16, 7, 8, 24),   // last panel: narrower than a tile
    (19, 19, 16, 16, 3, 16, 32),  // rows = width < tile
    (21, 40, 16, 16, 16, 16, 32), // rows < width
    (17, 9, 16, 0, 8, 8, 16),     // one row
    (97, 50, 0, 0, 5, 5, 15),     // a tile size that is no multiple of four
    (300, 33, 0, 0, 32, 32, 64),  // three levels
    (40, 1, 0, 0, 1, 1, 2),       // one column, the smallest tile
    (130, 64, 0, 0, 16, 16, 128), // one long block, then a short one
];

/// X = (I - V T V^H) R with unitary Q = I - V T V^H, V unit lower trapezoidal, T upper triangular and zero outside its r x r part:
/// for random panels and for ones with zero, tiny, huge-ratio and dependent columns.
///
/// Bound: 4 rows eps for both defects, relative to the panel's largest entry: backward error of Householder QR is a small multiple of
/// rows * eps (Higham 2002, theorem 19.4). R in f16 is a rounding of each of its up to sqrt(rows) times larger entries more.
pub fn geqrt_is_a_qr_factorisation<T: Elements>(context: &GpuContext) -> Outcome {
    // About sqrt of the smallest normal number, and near it: where squares underflow.
    let (small, tiny) = if size_of::<T::Real>() == 4 { (1e-19, 1e-36) } else { (1e-154, 1e-300) };
    let kinds: [Kind<'_>; 6] = [
        ("random", &|i, j| complex_noise(2, i, j)),
        ("zero", &|_, _| 0.0.into()),
        ("columns of very different size", &|i, j| complex_noise(3, i, j) * [1.0, small, tiny, 0.0][j % 4]),
        ("small", &|i, j| complex_noise(4, i, j) * small),
        ("rank one", &|i, j| (complex_noise(5, i, 0) + 1.0) * (complex_noise(5, 0, j) + 1.0)),
        ("triangular", &|i, j| if i > j { 0.0.into() } else { complex_noise(6, i, j) }),
    ];
    for (m, n, start, col, width, tile, leaf) in PANELS.into_iter().filter(|panel| tile_fits::<T>(context, panel.5)) {
        let kernels = GpuKernels::new::<T>(context, &tuning(tile, leaf))?;
        let map = levels(PanelTree::Reduction, start, m - start, width, leaf, leaf / tile).next().ok_or("no level")?;
        for (name, entry) in kinds {
            let a = Mat::<T::Scalar>::from_fn(m, n, |i, j| T::from_complex(entry(i, j)).widen());
            let mut device = kernels.upload(a.as_ref(), T::Real::from_double(1.0))?;
            kernels.geqrt(&mut device, &Level { transposed: false, col, width, map })?;
            let (after, v) = (
                widen(Transfers::<T::Scalar>::download(&kernels, &device)?.as_ref()),
                widen(kernels.read_v::<T::Scalar>(&device, map.rows)?.as_ref()),
            );
            let before = widen(a.as_ref());
            for q in 0..map.blocks() {
                let block = map.block(q);
                let (rows, first) = (block.len(), map.row(block.start));
                let at = format!("{name}, {m} x {n}, block {q}");
                let t = widen(kernels.read_t::<T::Scalar>(&device, q)?.as_ref());
                let v = v.as_ref().subrows(block.start, rows);
                let reflectors = rows.min(width);
                for j in 0..v.ncols() {
                    for i in 0..=j {
                        let unit = if i == j && j < reflectors { 1.0 } else { 0.0 };
                        check!(i >= rows || v[(i, j)] == unit.into(), "{at}: V({i}, {j}) = {}", v[(i, j)]);
                        check!(i == j || t[(j, i)] == 0.0.into(), "{at}: T({j}, {i}) = {}", t[(j, i)]);
                        check!(j < reflectors || t[(i, j)] == 0.0.into(), "{at}: T({i}, {j}) = {}", t[(i, j)]);
                    }
                }
                let r = after.as_ref().submatrix(first, col, rows, width);
                for j in 0..width {
                    for i in j + 1..rows {
                        check!(r[(i, j)] == 0.0.into(), "{at}: R({i}, {j}) = {}", r[(i, j)]);
                    }
                }
                let identity = Mat::<Complex<f64>>::identity(rows, rows);
                let q_matrix = &identity - v * &t * v.adjoint();
                let orthogonal = largest((q_matrix.adjoint() * &q_matrix - identity).as_ref());
                let x = before.as_ref().submatrix(first, col, rows, width);
                let defect = largest((&q_matrix * r - x).as_ref());
                let bound = 4.0 * rows.max(4) as f64 * eps::<T>();
                check!(orthogonal <= bound, "{at}: |Q^H Q - I| = {orthogonal:.1e}, bound {bound:.1e}");
                let bound = bound + T::stored(rows);
                check!(defect <= bound * largest(x), "{at}: |Q R - X| = {defect:.1e}, bound {bound:.1e} * {:.1e}", largest(x));
            }
        }
    }
    Ok(())
}

/// X after = X - V (T^H (V^H X)) with the V and T that are on the device, and nothing else changes, however many tiles of X are held,
/// and with one or two strips of the products a thread.
///
/// Bound: 4 (rows + 2 width) eps: three products of inner dimensions rows, width, width, of numbers of size up to 2. What is stored may
/// be sqrt(rows) times as large, 16 at the most.
pub fn unmqr_is_its_formula<T: Elements>(context: &GpuContext) -> Outcome {
    for (held, (m, n, start, col, width, tile, leaf)) in
        [1, 2, 0].into_iter().cycle().zip(PANELS).filter(|(_, panel)| tile_fits::<T>(context, panel.5))
    {
        // Two strips are long text, of which a software driver compiles each line for long.
        let strips = if tile == 16 && size_of::<T::Scalar>() < 16 { 2 } else { 1 };
        // Three tiles of 32 x 32 c64 do not fit.
        let held = if tile * size_of::<T::Scalar>() < 512 { held } else { 0 };
        let kernels = GpuKernels::new::<T>(context, &tuning(tile, leaf).tiles_held(held).strips_per_thread(strips))?;
        let map = levels(PanelTree::Reduction, start, m - start, width, leaf, leaf / tile).next().ok_or("no level")?;
        let level = Level { transposed: false, col, width, map };
        let a = Mat::<T::Scalar>::from_fn(m, n, |i, j| T::noise(7, i, j).widen());
        let swapped = row_major(&a);
        for source in [a.as_ref(), swapped.as_ref().transpose()] {
            let mut device = kernels.upload(source, T::Real::from_double(1.0))?;
            kernels.geqrt(&mut device, &level)?;
            let before = widen(Transfers::<T::Scalar>::download(&kernels, &device)?.as_ref());
            kernels.unmqr(&mut device, &level)?;
            let after = widen(Transfers::<T::Scalar>::download(&kernels, &device)?.as_ref());
            let v = widen(kernels.read_v::<T::Scalar>(&device, map.rows)?.as_ref());
            let mut want = before.clone();
            for q in 0..map.blocks() {
                let block = map.block(q);
                let t = widen(kernels.read_t::<T::Scalar>(&device, q)?.as_ref());
                let v = v.as_ref().subrows(block.start, block.len());
                let x = before.as_ref().submatrix(map.row(block.start), col + width, block.len(), n - col - width);
                let new = x - v * (t.adjoint() * (v.adjoint() * x));
                want.as_mut().submatrix_mut(map.row(block.start), col + width, block.len(), n - col - width).copy_from(&new);
            }
            let bound = 4.0 * (leaf.min(m) + 2 * width) as f64 * eps::<T>() + T::stored(16);
            let found = largest((&after - &want).as_ref());
            check!(found <= bound, "{m} x {n} from ({start}, {col}), leaf {leaf}: {found:.1e}, bound {bound:.1e}");
        }
    }
    Ok(())
}

/// Level by level, the matrix is the twin's, after `geqrt` and after `unmqr`: on QR and LQ sweeps, in both memory orders, for both
/// trees, with short last blocks, narrow panels, and R factors stacked from far apart.
///
/// Bound: 64 rows eps: backward errors of both sides (a few rows * eps each), times the panels' condition number (below 6). In f16 every
/// level may differ by a rounding of entries of size up to 2, again times the condition number: 64 for five levels.
pub fn sweeps_follow_the_twin<T: Elements>(context: &GpuContext) -> Outcome {
    for (m, n, tile, leaf) in
        [(64, 64, 8, 16), (90, 61, 8, 24), (61, 90, 8, 32), (131, 70, 16, 64), (45, 33, 5, 10), (100, 70, 32, 64)]
    {
        if !tile_fits::<T>(context, tile) {
            continue;
        }
        for tree in [PanelTree::Reduction, PanelTree::Flat] {
            let tuning = tuning(tile, leaf).tree(tree);
            let (gpu, cpu) = (GpuKernels::new::<T>(context, &tuning)?, CpuKernels::<T>::new(&tuning)?);
            let a = stacked_identities::<T>(8, m, n, tile);
            let a = Mat::from_fn(m, n, |i, j| a[(i, j)].widen());
            let swapped = row_major(&a);
            for (order, source) in [("columns", a.as_ref()), ("rows", swapped.as_ref().transpose())] {
                let one = T::Real::from_double(1.0);
                let (mut there, mut here) = (gpu.upload(source, one)?, cpu.upload(source, one)?);
                // Two diagonal tiles, the second an odd one out.
                for k in [0, (m.min(n) - 1) / tile * tile] {
                    for transposed in [false, true] {
                        let (rows, cols) = if transposed { (n, m) } else { (m, n) };
                        let start = if transposed { k + tile } else { k };
                        let width = tile.min(cols - k);
                        for map in levels(tree, start, rows.saturating_sub(start), width, leaf, tuning.arity()) {
                            let level = Level { transposed, col: k, width, map };
                            let bound = 64.0 * m.max(n) as f64 * eps::<T>() + T::stored(64);
                            let at = format!("{m} x {n} by {order}, {tree:?}, {level:?}");
                            gpu.geqrt(&mut there, &level)?;
                            cpu.geqrt(&mut here, &level)?;
                            let found = distance(
                                Transfers::<T::Scalar>::download(&gpu, &there)?.as_ref(),
                                Transfers::<T::Scalar>::download(&cpu, &here)?.as_ref(),
                            );
                            check!(found <= bound, "geqrt, {at}: {found:.1e}, bound {bound:.1e}");
                            gpu.unmqr(&mut there, &level)?;
                            cpu.unmqr(&mut here, &level)?;
                            let found = distance(
                                Transfers::<T::Scalar>::download(&gpu, &there)?.as_ref(),
                                Transfers::<T::Scalar>::download(&cpu, &here)?.as_ref(),
                            );
                            check!(found <= bound, "unmqr, {at}: {found:.1e}, bound {bound:.1e}");
                        }
                    }
                }
            }
        }
    }
    Ok(())
}

/// Levels of panels factored beside the updates by the levels before, each pair in one dispatch: the matrix is the twin's after each of them, on QR
/// and LQ sweeps, in both memory orders, with short last blocks and with up to six levels, whose V and T change places.
///
/// Bound: that of `sweeps_follow_the_twin`.
pub fn panels_beside_updates_follow_the_twin<T: Elements>(context: &GpuContext) -> Outcome {
    // Sizes that fit 16 KiB with two threads a column.
    for (m, n, tile, leaf) in [(131, 150, 4, 8), (90, 61, 8, 24)] {
        let tuning = tuning(tile, leaf).split_beside(2);
        let (gpu, cpu) = (GpuKernels::new::<T>(context, &tuning)?, CpuKernels::<T>::new(&tuning)?);
        let a = stacked_identities::<T>(9, m, n, tile);
        let a = Mat::from_fn(m, n, |i, j| a[(i, j)].widen());
        let swapped = row_major(&a);
        for (order, source) in [("columns", a.as_ref()), ("rows", swapped.as_ref().transpose())] {
            let one = T::Real::from_double(1.0);
            let (mut there, mut here) = (gpu.upload(source, one)?, cpu.upload(source, one)?);
            for (k, transposed) in [(0, false), (0, true), (tile, false), (tile, true)] {
                let (rows, cols) = if transposed { (n, m) } else { (m, n) };
                let start = if transposed { k + tile } else { k };
                let width = tile.min(cols - k);
                let maps = levels(PanelTree::Reduction, start, rows - start, width, leaf, tuning.arity());
                let all: Vec<Level> = maps.map(|map| Level { transposed, col: k, width, map }).collect();
                let (Some(first), Some(last)) = (all.first(), all.last()) else { return Err("no levels".into()) };
                let bound = 64.0 * m.max(n) as f64 * eps::<T>() + T::stored(64);
                let at = format!("{m} x {n} by {order}, transposed: {transposed}, panel {k}");
                let before = gpu.counts().dispatches;
                gpu.geqrt(&mut there, first)?;
                cpu.geqrt(&mut here, first)?;
                for pair in all.windows(2) {
                    gpu.unmqr_and_geqrt(&mut there, &pair[0], &pair[1])?;
                    cpu.unmqr_and_geqrt(&mut here, &pair[0], &pair[1])?;
                    let found = distance(
                        Transfers::<T::Scalar>::download(&gpu, &there)?.as_ref(),
                        Transfers::<T::Scalar>::download(&cpu, &here)?.as_ref(),
                    );
                    check!(found <= bound, "{at}, {:?}: {found:.1e}, bound {bound:.1e}", pair[1]);
                }
                gpu.unmqr(&mut there, last)?;
                cpu.unmqr(&mut here, last)?;
                let found = distance(
                    Transfers::<T::Scalar>::download(&gpu, &there)?.as_ref(),
                    Transfers::<T::Scalar>::download(&cpu, &here)?.as_ref(),
                );
                check!(found <= bound, "{at}, the last update: {found:.1e}, bound {bound:.1e}");
                let dispatches = gpu.counts().dispatches - before;
                check!(dispatches == all.len() as u64 + 1, "{at}: {dispatches} dispatches of {} levels", all.len());
            }
        }
    }
    Ok(())
}
