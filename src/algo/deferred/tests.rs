//! The driver on a twin of its kernels, which are sums over entries of [A, L; R, G]. The shaders' tests compare whole calls (`tests/gpu/deferred.rs`).

use faer::{Mat, MatRef};

use super::*;
use crate::{
    base::error::SvdError,
    tile::{chase_schedule::ReductionStep, kernels::StageKernels},
};

/// [A, L; R, G], and V T of the last panel.
struct Augmented {
    all: Mat<f64>,
    vt: Mat<f64>,
    /// The panels that have been joined, and how many of them had products beside their levels.
    joined: Vec<Level>,
    beside: usize,
}

impl Augmented {
    /// Entry (i, j) of the matrix or of its transpose.
    fn at(&mut self, transposed: bool, i: usize, j: usize) -> &mut f64 {
        if transposed { &mut self.all[(j, i)] } else { &mut self.all[(i, j)] }
    }
}

struct Twin;

fn not_here<T>() -> Result<T> {
    Err(SvdError::invalid("level", "all updates are deferred".to_owned()))
}

impl StageKernels for Twin {
    type Dense = Augmented;
    type Banded = ();

    fn geqrt(&self, _: &mut Augmented, _: &Level) -> Result<()> {
        not_here()
    }

    fn unmqr(&self, _: &mut Augmented, _: &Level) -> Result<()> {
        not_here()
    }

    fn keep_rows(&self, _: &mut Augmented, _: usize) {}

    fn pack_band(&self, _: &Augmented, _: usize, _: usize, _: usize) -> Result<()> {
        not_here()
    }

    fn chase(&self, (): &mut (), _: &ReductionStep) -> Result<()> {
        not_here()
    }
}

impl DeferredKernels for Twin {
    fn subtract_deferred(&self, a: &mut Augmented, product: &DeferredProduct) -> Result<()> {
        let DeferredProduct { transposed, size: (m, n), rows, cols, inner } = product.clone();
        for (i, j) in rows.flat_map(|i| cols.clone().map(move |j| (i, j))) {
            let sum: f64 = inner.clone().map(|k| *a.at(transposed, i, n + k) * *a.at(transposed, m + k, j)).sum();
            *a.at(transposed, i, j) -= sum;
        }
        Ok(())
    }

    /// [`join_reflectors`](Self::join_reflectors) factors the panel as a whole.
    fn factor_level(&self, a: &mut Augmented, _: usize, _: &Level, beside: Option<&DeferredProduct>) -> Result<()> {
        beside.map_or(Ok(()), |product| self.subtract_deferred(a, product))
    }

    fn join_reflectors(
        &self,
        a: &mut Augmented,
        panel: &DeferredPanel,
        levels: &[Level],
        beside: Option<&DeferredProduct>,
    ) -> Result<()> {
        let &DeferredPanel { transposed, row, rows, col, width, cols, to, stride, .. } = panel;
        assert!(joins(levels));
        if let Some(product) = beside {
            assert_eq!((product.transposed, product.size), (transposed, (rows, cols)));
            a.beside += 1;
            let [rows, cols] = product.part_of_r();
            for (i, j) in rows.flat_map(|i| cols.clone().map(move |j| (i, j))) {
                *a.at(transposed, i, j) = 0.0;
            }
        }
        let (len, count) = (panel.len(), panel.len().min(width));
        let qr = Mat::from_fn(len, width, |i, j| *a.at(transposed, row + i, col + j)).qr();
        let (mut v, r) = (qr.compute_thin_Q(), qr.thin_R().to_owned());
        // Q - [S; 0] = V U, V unit lower trapezoidal.
        let (mut u, mut signs) = (Mat::<f64>::zeros(count, count), vec![0.0; count]);
        for k in 0..count {
            signs[k] = if v[(k, k)] < 0.0 { 1.0 } else { -1.0 };
            v[(k, k)] -= signs[k];
            (k..count).for_each(|j| u[(k, j)] = v[(k, j)]);
            (k + 1..count).for_each(|j| v[(k, j)] = 0.0);
            v[(k, k)] = 1.0;
            for i in k + 1..len {
                v[(i, k)] /= u[(k, k)];
                for j in k + 1..count {
                    v[(i, j)] -= v[(i, k)] * u[(k, j)];
                }
            }
        }
        // T = -U S L^-T, column by column.
        let mut t = Mat::<f64>::zeros(count, count);
        for (i, j) in (0..count).flat_map(|i| (i..count).map(move |j| (i, j))) {
            t[(i, j)] = -u[(i, j)] * signs[j] - (i..j).map(|k| t[(i, k)] * v[(j, k)]).sum::<f64>();
        }
        for (i, j) in (0..len).flat_map(|i| (0..width).map(move |j| (i, j))) {
            *a.at(transposed, row + i, col + j) = if i < count { signs[i] * r[(i, j)] } else { 0.0 };
        }
        for (i, j) in (0..len).flat_map(|i| (0..stride).map(move |j| (i, j))) {
            *a.at(transposed, row + i, cols + to + j) = if j < count { v[(i, j)] } else { 0.0 };
        }
        let vt = &v * &t;
        a.vt = Mat::from_fn(len, stride, |i, j| if j < count { vt[(i, j)] } else { 0.0 });
        a.joined.push(panel.level());
        Ok(())
    }

    fn multiply_panel(&self, a: &mut Augmented, panel: &DeferredPanel) -> Result<()> {
        let &DeferredPanel { transposed, row, rows, to, stride, .. } = panel;
        for (j, l) in (0..stride).flat_map(|j| panel.multiplied().map(move |l| (j, l))) {
            let sum: f64 = (0..panel.len()).map(|i| *a.at(transposed, row + i, l) * a.vt[(i, j)]).sum();
            *a.at(transposed, rows + to + j, l) = sum;
        }
        Ok(())
    }
}

fn values(a: MatRef<'_, f64>) -> Vec<f64> {
    a.singular_values().unwrap()
}

/// The band has the singular values of the matrix, whatever the widths of tiles and of L: also where four does not divide a tile, the last tile is narrow, the
/// matrix has more rows than columns, or is of low rank; and with updates beside panels, of which L has several turns. Each panel that is joined is one that is
/// kept, in order.
///
/// Bound: 4 m eps times the largest value, for two products of some n reflectors, each backward stable.
#[test]
fn the_band_has_the_values() {
    for ((m, n), tile, columns) in
        [((40, 40), 8, 16), ((64, 60), 4, 16), ((41, 37), 5, 48), ((50, 33), 4, 40), ((33, 33), 16, 1000), ((19, 18), 6, 16)]
    {
        let tuning =
            Tuning::for_cpu_of(ElementKind::F64, n).tile_size(tile).leaf(3 * tile).cols_per_block(4).deferred_columns(columns);
        for (rank, beside) in [n, 3].into_iter().flat_map(|rank| [(rank, false), (rank, true)]) {
            let deferral = deferral_of_call(ElementKind::F64, (m, n), &tuning, beside);
            let room = deferral.room();
            assert!(deferral.columns > 0 && deferral.columns <= columns, "{m} x {n}, {tuning}");
            let wave = |i: usize, k: usize| (1.3 * (i * i + 2) as f64 * (k + 1) as f64).sin();
            let a = Mat::from_fn(m, n, |i, j| (0..rank).map(|k| wave(i, k) * wave(j + 7, k + 2)).sum::<f64>());
            let all = Mat::from_fn(m + room, n + room, |i, j| if i < m && j < n { a[(i, j)] } else { f64::NAN });
            let mut augmented = Augmented { all, vt: Mat::new(), joined: Vec::new(), beside: 0 };
            to_band_deferred(&Twin, &mut augmented, (m, n), &tuning, deferral).unwrap();
            // After the first updates.
            assert_eq!(augmented.beside > 0, beside && n > deferral.columns / 2 + tile, "{m} x {n}, {tuning}");
            let entry = |i: usize, j: usize| if i <= j && j <= i + tile { augmented.all[(i, j)] } else { 0.0 };
            let (found, wanted) = (values(Mat::from_fn(n, n, entry).as_ref()), values(a.as_ref()));
            let bound = 4.0 * m as f64 * f64::EPSILON * wanted[0];
            let off = found.iter().zip(&wanted).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max);
            assert!(off <= bound, "{m} x {n}, rank {rank}, {deferral:?}, {tuning}: {off:.1e}, bound {bound:.1e}");
            assert_eq!(augmented.joined, kept_levels((m, n), &tuning, usize::MAX, true));
        }
    }
}

/// With a rest that is reduced at once, the kept levels are those of the joined panels, and then the tree's of the rest alone.
#[test]
fn the_rest_follows() {
    let tuning = Tuning::for_cpu_of(ElementKind::F64, 60).tile_size(8).leaf(24).deferred_columns(32).deferred_from(20);
    let (all, tree) = (kept_levels((70, 60), &tuning, usize::MAX, true), kept_levels((70, 60), &tuning, usize::MAX, false));
    // 60 - 40 columns are left before the tile that begins at 40, and 12 after it.
    let joined = 12;
    assert_eq!(all[..joined].iter().map(|level| level.col).collect::<Vec<_>>(), [0, 0, 8, 8, 16, 16, 24, 24, 32, 32, 40, 40]);
    assert!(all[..joined].iter().all(|level| level.map.blocks() == 1));
    assert_eq!(all[joined..], tree[tree.len() - (all.len() - joined)..]);
    assert!(all[joined..].iter().all(|level| level.col >= 48));
    let applied = applied_levels(all.clone(), Side::Right, Op::NoTrans);
    assert!(applied.iter().all(|(k, level)| level.transposed && all[*k] == *level));
    assert!(applied.windows(2).all(|pair| pair[0].0 > pair[1].0));
}
