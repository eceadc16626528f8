//! The dispatches that singular vectors add to a call.

use crate::{
    algo::{
        bidiag::divide::LEAF,
        deferred::{Deferral, applied_levels, kept_levels},
        one_stage::panel_rows,
        to_band::qr_first,
        vectors::needs_step,
    },
    base::{
        blas::{Op, Side},
        element_kind::ElementKind,
    },
    cost::{
        deferred::deferral,
        dispatches::Dispatches,
        shape::Shape,
        vectors::{Extent, Most, Wave, batches},
        work::{Kernel, LINEAR_THREADS, ROWS_AT_ONCE, SUBMISSION_FLOPS, Work},
    },
    tile::{
        chase_schedule::ReductionStep,
        deferred::{Applied, applied},
        one_stage::level_of_rows,
        panel_tree::Level,
        tuning::Tuning,
    },
};

pub(super) const MOST: Most = Most { flops: SUBMISSION_FLOPS, inner: usize::MAX, groups: u16::MAX as usize };

/// A merge of divide and conquer without deflation: the rows of its parts, and whether it has a column more than rows.
struct Merge {
    rows: [usize; 2],
    extra: bool,
}

impl Merge {
    /// The rows of its right vectors.
    fn size(&self) -> usize {
        self.rows[0] + self.rows[1] + 1 + usize::from(self.extra)
    }
}

/// The leaves' right vectors, by their orders, and the merges of each depth.
fn by_depth(n: usize, extra: bool, depth: usize, leaves: &mut Vec<usize>, merges: &mut Vec<Vec<Merge>>) {
    if n <= LEAF {
        return leaves.push(n + usize::from(extra));
    }
    if merges.len() <= depth {
        merges.resize_with(depth + 1, Vec::new);
    }
    let rows = [n / 2, n - n / 2 - 1];
    by_depth(rows[0], true, depth + 1, leaves, merges);
    by_depth(rows[1], extra, depth + 1, leaves, merges);
    merges[depth].push(Merge { rows, extra });
}

/// Notes what precedes the vectors of an m x n matrix, n >= 1, stored as `S`: a copy of the matrix, and the bidiagonal, which is read back with stage 3
/// on the device too.
pub(super) fn note_copies(kind: ElementKind, all: &mut Dispatches, (m, n): (usize, usize)) {
    all.note(Work::linear(Kernel::CopyWindow, m * n, 2, kind.scalar_bytes()));
    all.note_once(Work::unpack_band(kind, n, 1, LINEAR_THREADS.into()));
}

/// Notes the dispatches for `k` singular vectors on both sides of an m x n matrix, m >= n >= 1, stored as `S`, on a hardware device, besides those of
/// [`note_transformed_back`]: no weights and poles of the bidiagonal are negligible or equal, and no values are tiny. The right ones are multiplied by the
/// product of the reflectors if that has been `formed`.
pub(super) fn note_vectors(
    kind: ElementKind,
    each: &mut Dispatches,
    (m, n): (usize, usize),
    k: usize,
    tuning: &Tuning,
    formed: bool,
) {
    let shape = Shape::of(tuning);
    let (scalar, real) = (kind.scalar_bytes(), kind.real_bytes());
    let (mut leaves, mut merges) = (Vec::new(), Vec::new());
    by_depth(n, false, 0, &mut leaves, &mut merges);
    let squares = |sizes: &mut dyn Iterator<Item = usize>| sizes.map(|size| size * size).sum::<usize>();
    each.note(Work::linear(Kernel::GatherColumns, squares(&mut leaves.iter().copied()), 2, real));
    for (depth, merges) in merges.iter().enumerate().rev() {
        each.note(Work::linear(Kernel::GatherColumns, squares(&mut merges.iter().map(Merge::size)), 2, real));
        let cols = |merge: &Merge| if depth == 0 { k } else { merge.rows[0] + merge.rows[1] + 1 };
        let places = merges.iter().map(|merge| {
            let kept = merge.rows[0] + merge.rows[1] + 1;
            kept * cols(merge) + if merge.extra { merge.size() } else { 0 }
        });
        each.note(Work::secular_vectors(kind.real(), places.sum()));
        let products = merges.iter().flat_map(|merge| {
            let [nl, nr] = merge.rows;
            let of = |rows, inner| Extent { rows, cols: cols(merge), inner, ..Extent::default() };
            [of(nl + 1, nl + 1), of(nr + usize::from(merge.extra), nr + 1)]
        });
        note_products(kind.real(), each, &shape, &products.collect::<Vec<_>>());
    }
    let padded = k.next_multiple_of(4).max(4);
    each.note(Work::linear(Kernel::TakeColumns, n * padded, 2, real.max(scalar)));

    if formed {
        note_products(kind, each, &shape, &[Extent { rows: n, cols: k, inner: n, ..Extent::default() }]);
    }
    if needs_step(kind, (n, k)) {
        note_orthonormal(kind, each, &shape, n, k);
    }
    note_products(kind, each, &shape, &[Extent { rows: m, cols: k, inner: n, ..Extent::default() }]);
    note_orthonormal(kind, each, &shape, m, k);
}

/// Notes the reflectors of both stages, or of one, applied to the `k` vectors of the bidiagonal of an m x n matrix.
pub(super) fn note_transformed_back(
    kind: ElementKind,
    all: &mut Dispatches,
    (m, n): (usize, usize),
    k: usize,
    tuning: &Tuning,
    one_stage: bool,
) {
    let shape = Shape::of(tuning);
    if one_stage {
        note_rows_applied(kind, all, &shape, n, k, tuning);
    } else {
        note_stages_applied(kind, all, &shape, (if qr_first(m, n) { n } else { m }, n), k, tuning);
    }
}

/// The reflectors of stages 2 and 1 of an m x n matrix, applied to `k` columns.
fn note_stages_applied(
    kind: ElementKind,
    all: &mut Dispatches,
    shape: &Shape,
    (m, n): (usize, usize),
    k: usize,
    tuning: &Tuning,
) {
    let steps: Vec<_> = ReductionStep::all(n, tuning.bandwidth(n), tuning.tile_width).collect();
    for step in steps.iter().rev() {
        let chunk = Work::apply_chase(kind, step, &Wave { first: 0, cycle: 0, count: 1 }, k).flops.max(1);
        let fitting = usize::try_from(all.most_flops() / chunk).unwrap_or(usize::MAX).clamp(1, MOST.groups);
        Wave::all(step, fitting).iter().for_each(|wave| all.note(Work::apply_chase(kind, step, wave, k)));
    }
    let deferral = if all.matrices() > 1 { Deferral::default() } else { deferral(kind, (m, n), tuning) };
    let levels = kept_levels((m, n), tuning, ROWS_AT_ONCE, deferral.columns > 0);
    let levels = applied_levels(levels, Side::Right, Op::NoTrans);
    let levels: Vec<Level> = levels.into_iter().map(|(_, level)| level).collect();
    let is_joined = |level: &Level| shape.is_joined(level);
    for run in levels.chunk_by(|x, y| is_joined(x) == is_joined(y)) {
        if run.first().is_some_and(is_joined) {
            note_joined(kind, all, shape, run, (n, k), deferral.applied(run.len() * shape.ts));
            continue;
        }
        for level in run {
            all.note(Work::gather_reflectors(kind, shape, level));
            all.unmqr(kind, shape, level, k);
        }
    }
}

/// The joined reflectors of panels, applied with deferred updates to a copy of k columns of n rows, with so much room.
fn note_joined(kind: ElementKind, all: &mut Dispatches, shape: &Shape, levels: &[Level], (n, k): (usize, usize), room: usize) {
    let copy = Work::linear(Kernel::CopyWindow, n * k, 2, kind.scalar_bytes());
    all.note(copy);
    for step in applied(levels, (n, k), room, shape.ts) {
        match step {
            Applied::Update(product) => all.subtract_deferred(kind, shape, product),
            Applied::Panel(at, panel) => {
                all.note(Work::gather_reflectors(kind, shape, &levels[at]));
                all.note(Work::spread_reflectors(kind, shape, &panel));
                all.multiply_panel(kind, shape, &panel);
                if panel.is_outdated() {
                    all.subtract_deferred(kind, shape, panel.correction());
                }
            }
        }
    }
    all.note(copy);
}

/// The reflectors of the rows of the one-stage reduction, applied to `k` columns.
fn note_rows_applied(kind: ElementKind, all: &mut Dispatches, shape: &Shape, n: usize, k: usize, tuning: &Tuning) {
    let panels: Vec<_> = panel_rows(n, tuning).collect();
    for rows in panels.into_iter().rev() {
        let level = level_of_rows(&rows, n);
        all.note(Work::larft(kind, shape, &level));
        all.note(Work::gather_reflectors(kind, shape, &level));
        all.unmqr(kind, shape, &level, k);
    }
}

/// Orthonormal columns of an m x k matrix.
fn note_orthonormal(kind: ElementKind, all: &mut Dispatches, shape: &Shape, m: usize, k: usize) {
    let scalar = kind.scalar_bytes();
    note_products(kind, all, shape, &[Extent { rows: k, cols: k, inner: m, upper_c: true, upper_x: false }]);
    all.note(Work::linear(Kernel::GramFactor, k.next_multiple_of(4) * k, 2, scalar));
    note_products(kind, all, shape, &[Extent { rows: m, cols: k, inner: k, upper_c: false, upper_x: true }]);
    all.note(Work::unit_columns(kind, m, k));
}

fn note_products(kind: ElementKind, all: &mut Dispatches, shape: &Shape, products: &[Extent]) {
    let products = products.repeat(all.matrices());
    batches(kind, &shape.products, &products, MOST).1.iter().for_each(|batch| all.note_of_all(batch.work));
}
