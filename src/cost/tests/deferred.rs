//! The counts of deferred updates.

use super::*;

/// Stage 1 with deferred updates down to the last tile, n = 8192, tiles of 32 and 256 columns of updates, which are 128 of reflectors of columns and 128 of
/// rows. Flops: as many as by Householder reflectors, 8/3 n^3, and 0.84 K / n more for the corrections by K = 128 columns of V, within a hundredth. A is
/// read once for each panel, 2/3 n^3 / b numbers in all, and at most three tenths of that are read of panels, and written of products with them.
/// A pair of panels has at most 16 dispatches: updates, levels, and four kernels of each, and those of the common update.
#[test]
fn deferred_updates_at_8192() {
    let (n, b) = (8192usize, 32);
    let tuning = Cost::tuning::<f32>(n).tile_size(b).leaf(512).deferred_columns(256).deferred_from(0).deferred_beside(0);
    let cost = Cost::with_stage3::<f32>(n, n, &tuning, true).unwrap();
    let [geqrt, subtract, join, multiply, add] =
        [Kernel::Geqrt, Kernel::SubtractDeferred, Kernel::JoinReflectors, Kernel::MultiplyPanel, Kernel::AddParts]
            .map(|kernel| cost.kernel(kernel));
    assert_eq!([cost.kernel(Kernel::Unmqr).dispatches, cost.kernel(Kernel::UnmqrAndGeqrt).dispatches], [0, 0]);

    let cubed = (n as f64).powi(3);
    let flops = (subtract.flops + multiply.flops) as f64;
    let most = 8.0 / 3.0 * cubed * (1.0 + 0.84 * 128.0 / n as f64);
    assert!((flops / most - 1.0).abs() < 0.01, "{flops:e}, not {most:e}");

    let read = 4.0 * 2.0 / 3.0 * cubed / b as f64;
    let bytes = multiply.bytes as f64;
    assert!(bytes > read && bytes < 1.3 * read, "{bytes:e} for {read:e}");
    let panels = n / b;
    let joined = 2 * panels as u64 - 1;
    assert_eq!([join.dispatches, multiply.dispatches, add.dispatches], [joined, joined - 1, joined - 1]);
    let all = geqrt.dispatches + subtract.dispatches + join.dispatches + multiply.dispatches + add.dispatches;
    assert!(all <= 16 * panels as u64, "{all} dispatches");
}

/// With the updates beside the levels of the panels that follow, n = 8192, tiles of 32 and 64 columns of updates, those of a pair of panels: nearly all of the
/// 4/3 n^3 flops of updates are there, in no more dispatches than the levels have. All have a part but those of the first pair and of the last tiles, right of which there is at most a chunk of columns.
/// What is subtracted elsewhere is what panels need of 128 columns of L at most: three products with a panel of every n x b, for 2 n / b panels of n / 2 on
/// average, 6 n^2 128 flops.
#[test]
fn updates_beside_panels_at_8192() {
    let (n, b) = (8192usize, 32);
    let tuning = Cost::tuning::<f32>(n).tile_size(b).leaf(512).deferred_columns(64).deferred_from(0);
    let [apart, beside] = [0, 1].map(|k| Cost::with_stage3::<f32>(n, n, &tuning.clone().deferred_beside(k), true).unwrap());
    let [levels, alone] = [Kernel::GeqrtAndSubtract, Kernel::Geqrt].map(|kernel| beside.kernel(kernel));
    assert_eq!(levels.dispatches + alone.dispatches, apart.kernel(Kernel::Geqrt).dispatches);
    assert!(alone.dispatches <= 16, "{} levels alone", alone.dispatches);
    let of_updates = 4.0 / 3.0 * (n as f64).powi(3);
    let off = (levels.flops as f64 / of_updates - 1.0).abs();
    assert!(off < 0.02, "{:e} flops beside levels, not {of_updates:e}", levels.flops as f64);
    let elsewhere = beside.kernel(Kernel::SubtractDeferred).flops as f64;
    assert!(elsewhere < 6.0 * (n * n) as f64 * 128.0, "{elsewhere:e}");
}

/// Updates are not deferred where they cannot be: below `deferred_from`, in half precision, in trees of more than three levels, and without room for a tile.
#[test]
fn not_deferred() {
    let tuning = Cost::tuning::<f32>(2048).tile_size(32).leaf(512).deferred_columns(256).deferred_from(1024);
    let joined = |cost: Result<Cost>| cost.unwrap().kernel(Kernel::JoinReflectors).dispatches;
    // Panels of the first half, of columns and of rows.
    assert_eq!(joined(Cost::new::<f32>(2048, 2048, &tuning)), 2 * 33);
    assert_eq!(joined(Cost::new::<f32>(1000, 1000, &tuning)), 0);
    assert_eq!(joined(Cost::new::<f16>(2048, 2048, &tuning)), 0);
    assert_eq!(joined(Cost::new::<f32>(2048, 2048, &tuning.clone().leaf(64))), 0);
    assert_eq!(joined(Cost::new::<f32>(2048, 2048, &tuning.deferred_columns(63))), 0);
}
