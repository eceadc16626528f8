//! `slice_lines` and `coop_gemm` against their twins, bit for bit.
//!
//! `coop_gemm` needs a driver with cooperative matrices: `tests/run coop` brings one, and sets `SVDVALS_GPU_COOP=1`, with which its absence fails.

use pollster::block_on;

use super::*;
use crate::{
    algo::recursive::Recursive,
    base::watch::Watch,
    cpu::recursive::{CpuRecursive, coop_gemm::coop_gemm, slice_lines::slice_lines},
    gpu::device::adapter::AdapterChoice,
    tile::products::Recursion,
};

fn is_set(name: &str) -> bool {
    std::env::var(name).is_ok_and(|value| value == "1")
}

/// The kernels of a context that has cooperative matrices.
fn cooperative() -> Option<GpuRecursive> {
    let context = context()?;
    match context.cooperative() {
        Ok(cooperative) => Some(kernels(&context, cooperative)),
        Err(error) if is_set("SVDVALS_GPU_COOP") => panic!("{error}"),
        Err(error) => {
            eprintln!("left out: {error}");
            None
        }
    }
}

/// A context with cooperative matrices where they are there.
fn context() -> Option<GpuContext> {
    match GpuContext::new(&AdapterChoice::default().cooperative_matrices(true)) {
        Ok(context) => Some(context),
        Err(error) if is_set("SVDVALS_GPU_REQUIRE") => panic!("{error}"),
        Err(error) => {
            eprintln!("left out: {error}");
            None
        }
    }
}

/// Numbers of either sign over `spread` powers of two, with zeros.
fn noise(rows: usize, cols: usize, seed: u32, spread: u32) -> Mat<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 8
    };
    Mat::from_fn(rows, cols, |_, _| {
        let x = next() as f32 / (1u32 << 23) as f32 - 1.0;
        let power = f32::exp2(-((next() % (spread + 1)) as f32));
        if next() % 11 == 0 { 0.0 } else { x * power }
    })
}

/// The kernels, without a self-test: `slice_lines` needs no cooperative matrices.
fn kernels(context: &GpuContext, cooperative: Cooperative) -> GpuRecursive {
    GpuRecursive::with(context, cooperative, &Tuning::for_adapter::<f32>(context, 100), Manner::default()).unwrap()
}

/// Slices and scales are the twin's bit by bit: rows and columns of blocks, short and long, with numbers that f16 holds as subnormal ones or not at all,
/// and lines of zeros.
#[test]
fn slices_are_those_of_the_twin() {
    let Some(context) = context() else { return };
    for products in [Products::Half, Products::Split] {
        for (rows, cols, spread) in [(1, 1, 0), (20, 33, 3), (9, 200, 40), (70, 31, 100)] {
            let mut a = noise(rows, cols, 5, spread);
            a.row_mut(rows / 2).fill(0.0);
            for lines in [a.as_ref(), a.transpose()] {
                let (slices, scales) = match sliced_rows(&context, lines, products) {
                    Ok(found) => found,
                    Err(SvdError::UnsupportedElement { feature, .. }) => return eprintln!("left out: no {feature}"),
                    Err(error) => panic!("{error}"),
                };
                let (count, twin) = (lines.nrows(), slice_lines(lines, products));
                assert_eq!(scales[..count], twin.scales, "{products} {count} lines, {spread}");
                for (found, of_twin) in slices.iter().zip(&twin.slices) {
                    assert_eq!(found.subrows(0, count), of_twin.as_ref(), "{products} {count} lines, {spread}");
                    assert_eq!(found.subrows(count, found.nrows() - count).norm_max(), 0.0);
                }
            }
        }
    }
}

/// Products are the twin's bit by bit, for blocks of all shapes, their transposes, and each use of the product.
#[test]
fn coop_products_are_those_of_the_twin() {
    let Some(kernels) = cooperative() else { return };
    for products in [Products::Half, Products::Split] {
        for (rows, terms, cols, spread) in [(1, 1, 1, 0), (16, 32, 16, 0), (33, 70, 50, 3), (100, 10, 65, 20), (5, 300, 90, 5)] {
            for (turn, into) in [(0, Into::Replaced), (1, Into::Negated), (2, Into::Subtracted)] {
                let what = format!("{products} {rows} x {terms} x {cols}, {spread}, {into:?}");
                // Blocks from row 2 and column 3 on.
                let turned = [turn == 1, turn == 2];
                let block = |rows, cols, transposed: bool| {
                    let (rows, cols) = if transposed { (cols, rows) } else { (rows, cols) };
                    Block { row: 2, col: 3, rows, cols }
                };
                let blocks = [block(rows, terms, turned[0]), block(terms, cols, turned[1]), block(rows, cols, false)];
                let of = |seed: u32, Block { rows, cols, .. }: Block| noise(rows + 3, cols + 5, seed, spread);
                let (m, x, mut c) = (of(1, blocks[0]), of(2, blocks[1]), of(3, blocks[2]));
                let [dm, dx, mut dc] = [&m, &x, &c].map(|a| kernels.upload(a.as_ref()).unwrap());
                let operand = |of, k: usize| Operand { of, block: blocks[k], transposed: turned[k] };
                kernels.product(products, operand(&dm, 0), operand(&dx, 1), (&mut dc, blocks[2]), into).unwrap();
                let sub = |a: MatRef<'_, f32>, k: usize, transposed: bool| {
                    let Block { row, col, rows, cols } = blocks[k];
                    let part = a.submatrix(row, col, rows, cols).to_owned();
                    if transposed { part.transpose().to_owned() } else { part }
                };
                let (m, x) = (sub(m.as_ref(), 0, turned[0]), sub(x.as_ref(), 1, turned[1]));
                let to = c.as_mut().submatrix_mut(2, 3, rows, cols);
                coop_gemm(&slice_lines(m.as_ref(), products), &slice_lines(x.transpose(), products), to, into);
                let found: Mat<f32> = kernels.tiles.download(&dc).unwrap();
                for (i, j) in (0..rows + 3).flat_map(|i| (0..cols + 5).map(move |j| (i, j))) {
                    assert_eq!(found[(i, j)], c[(i, j)], "{what}: ({i}, {j})");
                }
            }
        }
    }
}

/// The factorisation over many panels and several blocks, whose R is the twin's: an R with a relative error of a few eps of the products times the
/// condition number, here about 50, for each. The signs are those of the reflectors, which are chosen by R's diagonal before and are the same.
#[test]
fn factorisations_are_those_of_the_twin() {
    let Some(kernels) = cooperative() else { return };
    let (context, cooperative) = (kernels.tiles.context.clone(), kernels.cooperative);
    let random = noise(90, 70, 11, 0);
    let a = Mat::from_fn(90, 70, |i, j| random[(i, j)] + if i == j { 8.0 } else { 0.0 });
    let tuning = Tuning::for_adapter::<f32>(&context, 100).tile_size(8).leaf(32);
    for products in [Products::Half, Products::Split] {
        for recursion in
            [Recursion { panel: 8, merged: 8 }, Recursion { panel: 8, merged: 32 }, Recursion { panel: 24, merged: 48 }]
        {
            let device = GpuRecursive::with(&context, cooperative, &tuning, Manner::default()).unwrap();
            let host = CpuRecursive { tuning: Tuning::for_cpu::<f32>(70) };
            let (of_device, q) = block_on(Recursive::factor(device, a.as_ref(), products, recursion, &Watch::default())).unwrap();
            let (of_host, _) = block_on(Recursive::factor(host, a.as_ref(), products, recursion, &Watch::default())).unwrap();
            let upper = |r: &Mat<f32>| Mat::from_fn(70, 70, |i, j| if i <= j { r[(i, j)] } else { 0.0 });
            let (of_device, of_host) = (upper(&of_device), upper(&of_host));
            let unit = 50.0 * products.epsilon() as f32 * of_host.norm_l2();
            let difference = (&of_device - &of_host).norm_l2();
            assert!(difference <= unit, "{products} {recursion:?}: {}", difference / unit);
            let mut padded = Mat::zeros(90, 70);
            padded.as_mut().subrows_mut(0, 70).copy_from(&of_device);
            let back = block_on(q.apply(Op::NoTrans, padded.as_ref())).unwrap();
            let error = (&back - &a).norm_l2();
            assert!(error <= unit, "{products} {recursion:?}: Q R is off by {}", error / unit);
        }
    }
}
