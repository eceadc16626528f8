//! Half types on the CPU: what is computed of a matrix of f16 or bf16 held in f32 is, to the last bit, what is computed of the matrix of f32 with
//! the same entries and memory order, by every driver. So a property that tests check for the four types of the arithmetic
//! (`every_scalar`) holds for half types too. [`HalfStorage::Half`](svdvals_gpu::HalfStorage) has tests of its own where there is such.

use faer::{Mat, MatRef};
use half::{bf16, f16};
use pollster::block_on;
use svdvals_gpu::{
    Backend, Band, Element, LstsqGpu, LstsqOptions, QrGpu, QrOptions, Reduction, RowBlocks, SvdGpu, SvdOptions, SvdValsGpu,
    Tuning, Vectors, svd_batch, svdvals_batch,
};

use crate::{
    check_lstsq::right_sides,
    common::row_major,
    vectors::{ends_of_range, matrix},
};

/// The half types and f32.
trait InSingle: Element<Value = f32, Arithmetic = f32> {}

impl<T: Element<Value = f32, Arithmetic = f32>> InSingle for T {}

/// The numbers that a call gives, with its name.
type Found = (&'static str, Vec<f32>);

fn entries(of: &[MatRef<'_, f32>]) -> Vec<f32> {
    of.iter().flat_map(|a| a.col_iter().flat_map(|col| col.iter().copied()).collect::<Vec<_>>()).collect()
}

/// By every route of singular values and vectors.
fn decompositions<T: InSingle>(a: MatRef<'_, T>) -> Vec<Found> {
    let n = a.nrows().min(a.ncols());
    let cpu = SvdOptions::default().backend(Backend::Cpu);
    let tiles = Tuning::for_cpu::<f32>(1).direct_up_to(0).tile_size(8).leaf(16).tile_width(5).cols_per_block(12);
    let mut found = Vec::new();
    for options in [cpu.clone(), cpu.clone().tuning(tiles.clone()), cpu.clone().reduction(Reduction::OneStage)] {
        found.push(("values", a.svdvals_gpu_with(&options).unwrap().iter().copied().collect()));
        let svd = a.svd_gpu_with(&options).unwrap();
        found.push(("svd", [entries(&[svd.u.as_ref(), svd.v.as_ref()]), svd.s.iter().copied().collect()].concat()));
    }
    found.push(("values awaited", block_on(a.svdvals_gpu_async(&cpu)).unwrap().iter().copied().collect()));
    let svd = block_on(a.svd_gpu_async(&cpu.clone().vectors(Vectors::Left).keep(3))).unwrap();
    found.push(("svd awaited", entries(&[svd.u.as_ref()])));
    found.push(("batch", svdvals_batch(&[a, a.transpose()], &cpu).unwrap().iter().flat_map(|s| s.iter().copied()).collect()));
    let batch = svd_batch(&[a, a.transpose()], &cpu).unwrap();
    found.push(("svd of a batch", batch.iter().flat_map(|svd| entries(&[svd.u.as_ref(), svd.v.as_ref()])).collect()));

    let options = cpu.tuning(tiles);
    found.push(("to_band", entries(&[SvdValsGpu::to_band(&a, &options.run).unwrap().to_mat().as_ref()])));
    let band = Band::from_fn(n, 6.min(n - 1), |i, j| a[(i, j)]).unwrap();
    found.push(("band_to_bidiag", band.band_to_bidiag(&options.run).unwrap().svdvals().unwrap()));
    let (u, s, v) = band.svd(&options).unwrap();
    found.push(("band's svd", [entries(&[u.as_ref(), v.as_ref()]), s].concat()));
    found
}

/// By QR and least squares, of the whole matrix and by blocks of rows.
fn factorisations<T: InSingle>(a: MatRef<'_, T>, b: &Mat<T>) -> Vec<Found> {
    let (m, n) = a.shape();
    let (cpu, mut found) = (QrOptions::default().backend(Backend::Cpu), Vec::new());
    for options in [cpu.clone(), cpu.clone().pivot(true).positive_diagonal(true)] {
        let qr = a.qr_gpu_with(&options).unwrap();
        found.push(("qr", entries(&[qr.thin_q().unwrap().as_ref(), qr.r().as_ref()])));
        found.push(("R alone", entries(&[a.qr_r_gpu_with(&options).unwrap().as_ref()])));
    }
    found.push(("qr awaited", entries(&[block_on(a.qr_gpu_async(&cpu)).unwrap().r().as_ref()])));
    let cpu = LstsqOptions::default().backend(Backend::Cpu);
    for options in [cpu.clone(), cpu.clone().ridge(0.25)] {
        let fit = a.lstsq_gpu_with(b, &options).unwrap();
        found.push(("lstsq", [entries(&[fit.x.as_ref()]), fit.residuals].concat()));
    }
    let fit = block_on(a.lstsq_gpu_async(b, &cpu)).unwrap();
    found.push(("lstsq awaited", entries(&[fit.x.as_ref()])));

    let new = || RowBlocks::<T>::with_right_sides(n, 3).unwrap();
    for mut rows in [new(), new().centred()] {
        let first = m.div_ceil(3);
        for (start, count) in [(0, first), (first, m - first)] {
            rows.push_with(&a.subrows(start, count), &b.as_ref().subrows(start, count)).unwrap();
        }
        let (svd, fit) = (rows.finish_faer().unwrap(), rows.solve_faer(None).unwrap());
        found.push(("row blocks", entries(&[svd.r.as_ref(), svd.v.as_ref(), fit.x.as_ref()])));
    }
    found
}

/// A matrix whose memory is by columns, one whose memory is by rows, and both reversed.
fn orders<'a, T>(a: &'a Mat<T>, turned: &'a Mat<T>) -> [MatRef<'a, T>; 4] {
    let (a, by_rows) = (a.as_ref(), turned.transpose());
    [a, by_rows, a.reverse_rows(), by_rows.reverse_rows_and_cols()]
}

fn widened<T: InSingle>(a: &Mat<T>) -> Mat<f32> {
    Mat::from_fn(a.nrows(), a.ncols(), |i, j| a[(i, j)].to_complex().re as f32)
}

/// Of a shape for each route, and of several kinds.
fn matrices<T: InSingle>() -> Vec<Mat<T>> {
    let shapes = [(1, 1), (9, 1), (1, 9), (40, 29), (29, 40), (64, 64), (260, 240), (700, 24), (2500, 12)];
    let random = shapes.map(|(m, n)| matrix("random", m, n));
    random.into_iter().chain(["rank third", "graded", "zero"].map(|kind| matrix(kind, 45, 30))).collect()
}

/// Of entries that are subnormal numbers of the type or near its largest one, too.
#[test]
fn decompositions_are_their_f32() {
    fn check<T: InSingle>() {
        for a in matrices::<T>().into_iter().chain(ends_of_range(27, 23).map(|(_, a)| a)) {
            let turned = row_major(&a);
            let (wide, wide_turned) = (widened(&a), widened(&turned));
            for (a, wide) in orders(&a, &turned).into_iter().zip(orders(&wide, &wide_turned)) {
                for ((name, found), (_, want)) in decompositions(a).into_iter().zip(decompositions(wide)) {
                    assert!(found == want, "{} {:?}, {name}", T::NAME, a.shape());
                }
            }
        }
    }
    check::<f16>();
    check::<bf16>();
}

#[test]
fn factorisations_are_their_f32() {
    fn check<T: InSingle>() {
        for a in matrices::<T>() {
            let turned = row_major(&a);
            let (wide, wide_turned) = (widened(&a), widened(&turned));
            for (a, wide) in orders(&a, &turned).into_iter().zip(orders(&wide, &wide_turned)) {
                let b = right_sides(a, 3);
                let (found, want) = (factorisations(a, &b), factorisations(wide, &widened(&b)));
                for ((name, found), (_, want)) in found.into_iter().zip(want) {
                    assert!(found == want, "{} {:?}, {name}", T::NAME, a.shape());
                }
            }
        }
    }
    check::<f16>();
    check::<bf16>();
}
