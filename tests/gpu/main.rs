//! The GPU backend, shader by shader against its CPU twin, on every kind of device that this machine can make: the adapter's own
//! limits, WebGPU's default limits (parameters in a uniform buffer), and with the shaders' run-time checks on.
//!
//! Every property holds for every type of the arithmetic on the first kind of device. The other kinds differ in what no element type changes, so they
//! run fewer types: see `of_kind`. Trials about the host's side of a call (`host`) run with the smallest and the largest numbers.
//!
//! Without an adapter the trials are listed as ignored; with `SVDVALS_GPU_REQUIRE=1` its absence is a failure.

#[path = "../common/absurd.rs"]
mod absurd_numbers;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/reflectors.rs"]
mod kept;
#[path = "../common/krylov.rs"]
mod krylov_triples;
#[path = "../common/lstsq.rs"]
mod lstsq;
#[path = "../common/options.rs"]
mod options_of_calls;
#[path = "../common/qr.rs"]
mod qr;
#[path = "../common/vectors.rs"]
mod vectors;

mod absurd;
mod accuracy;
mod band;
mod batch;
mod batch_vectors;
mod deferred;
mod dense;
mod factors_resident;
mod half_types;
mod krylov;
mod leading;
mod lstsq_in_fixed_point;
mod lstsq_on_device;
mod memory;
mod one_stage;
mod options;
mod properties;
mod qr_on_device;
mod reflectors;
mod resident;
mod row_blocks;
mod stacked_vectors;
mod stage3;
mod startup;
mod svd;
mod svd_faults;
mod triangular;
mod waits;
mod whole;

use std::{collections::VecDeque, process::ExitCode};

use faer::{Mat, MatRef};
use half::{bf16, f16};
use libtest_mimic::{Arguments, Failed, Trial};
use num_complex::Complex;
use svdvals_gpu::{
    AdapterChoice, DeviceLimits, Element, GpuContext, HalfStorage, RealElement, SvdError, SvdOptions, SvdValsGpu, Tuning,
};

type Outcome = Result<(), Failed>;

/// Fails the trial with a message unless the condition holds.
macro_rules! check {
    ($condition:expr, $($message:tt)+) => {{
        let holds: bool = $condition;
        if !holds {
            return Err(format!($($message)+).into());
        }
    }};
}
pub(crate) use check;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let required = std::env::var("SVDVALS_GPU_REQUIRE").is_ok_and(|v| v == "1");
    let kinds = [
        (Kind::Own, "own", AdapterChoice::default().checked(false)),
        (Kind::WebGpu, "webgpu", AdapterChoice::default().checked(false).limits(DeviceLimits::WebGpuDefault)),
        (Kind::Checked, "checked", AdapterChoice::default().checked(true)),
    ];
    let mut lanes: Vec<VecDeque<Trial>> = Vec::new();
    let mut left_out = Vec::new();
    for (kind, label, choice) in kinds {
        for (number, trials) in of_kind(kind).into_iter().enumerate() {
            // A context for each lane, because a software driver compiles the shaders of a device one after the other.
            let context = GpuContext::new(&choice);
            match &context {
                Ok(context) if number == 0 => {
                    println!("{label}: {} through {}, checks {}", context.adapter_name(), context.backend(), context.is_checked())
                }
                Err(error) if number == 0 => println!("{label}: {error}"),
                _ => {}
            }
            let mut lane = VecDeque::new();
            for Runs { name, body, supported } in trials {
                let name = format!("{label}::{name}");
                let unsupported = context.as_ref().is_ok_and(|context| !supported(context));
                let ignored = unsupported || (context.is_err() && !required);
                if ignored {
                    left_out.push(name.clone());
                }
                let context = context.clone();
                lane.push_back(Trial::test(name, move || body(&context?)).with_ignored_flag(ignored));
            }
            lanes.push(lane);
        }
    }
    let absent = matches!(GpuContext::global(), Err(SvdError::NoAdapter { .. })) && !required;
    let mut singles = VecDeque::new();
    for (name, body) in [
        ("counts_at_1024", accuracy::counts_at_1024 as fn() -> Outcome),
        ("absurd_hyperparameters", absurd::hyperparameters),
        ("absurd_arguments", absurd::arguments),
        ("past_one_binding", whole::past_one_binding),
        ("large_updates_in_pieces", whole::large_updates_in_pieces),
        ("lost_device", whole::lost_device),
        ("memory_is_freed", memory::memory_is_freed),
        ("buffers_are_used_again", memory::buffers_are_used_again),
        ("required_bytes", memory::required_bytes),
        ("what_travels", svd::what_travels),
        ("larger", svd::larger),
        ("batches_by_auto", batch::backends),
        ("batch_vectors_in_a_buffer", batch_vectors::in_a_buffer),
        ("stacks_in_small_buffers", stacked_vectors::small_buffers),
        ("stacks_of_order_1000", stacked_vectors::of_order_1000),
        ("svd_on_a_lost_device", svd_faults::lost_device),
        ("svd_in_small_buffers", svd_faults::small_buffers),
        ("global_context", whole::global_context),
        ("own_device", whole::own_device),
        ("small_calls_pass_large_ones", whole::small_calls_pass_large_ones),
        ("pipelines_in_files", startup::pipelines_in_files),
        ("device_without_optional_types", whole::device_without_optional_types),
        ("lstsq_without_f64", lstsq_in_fixed_point::without_f64),
        ("row_blocks_without_f64", row_blocks::without_f64),
    ] {
        if absent {
            left_out.push(name.to_owned());
        }
        singles.push_back(Trial::test(name, body).with_ignored_flag(absent));
    }
    lanes.push(singles);
    let conclusion = libtest_mimic::run(&arguments, by_turns(lanes));
    if !left_out.is_empty() {
        println!("No device for these GPU tests, which did not run (SVDVALS_GPU_REQUIRE=1 makes that a failure):");
        left_out.iter().for_each(|name| println!("  {name}"));
    }
    conclusion.exit_code()
}

/// One of each lane, then the next of each: trials that run side by side mostly have different devices.
fn by_turns(mut lanes: Vec<VecDeque<Trial>>) -> Vec<Trial> {
    let most = lanes.iter().map(VecDeque::len).max().unwrap_or(0);
    (0..most).flat_map(|_| lanes.iter_mut().filter_map(VecDeque::pop_front).collect::<Vec<_>>()).collect()
}

/// A kind of device.
#[derive(Clone, Copy)]
enum Kind {
    Own,
    WebGpu,
    Checked,
}

/// The trials of a kind of device, in lanes that share a context: those of one element type share pipelines.
///
/// On the adapter's own limits every type of the arithmetic has every trial. Half types have those whose shaders read f16; held in f32 they have the
/// results of f32, and the trials that conversion could fail. WebGPU's limits change how parameters travel, for all
/// types alike (f32), and leave 16 KiB of workgroup memory, which is least for the numbers of 16 bytes (c64, with default hyperparameters).
/// Trials that only say more about accuracy, in the same kernels, would compile them all again there.
/// Run-time checks show an index out of bounds. Indices depend on the type only in how four neighbours are stored: as a vec4 (f32, f64:
/// f32 is on the kind above), as two (c32, c64), and in half precision (f16).
fn of_kind(kind: Kind) -> Vec<Vec<Runs>> {
    let own = |of_type: Vec<Runs>, more: Vec<Runs>| [of_type, more].concat();
    match kind {
        Kind::Own => vec![
            [every::<f32>(), pieces::<f32>(), host::<f32>(), held_in_f32::<bf16>(), are_their_f32()].concat(),
            own(every::<Complex<f64>>(), own(pieces::<Complex<f64>>(), host::<Complex<f64>>())),
            own(stored_as_f16(), pieces::<f16>()),
            every::<f64>(),
            every::<Complex<f32>>(),
        ],
        Kind::WebGpu => vec![
            own(without_accuracy(every::<f32>()), own(pieces::<f32>(), host::<f32>())),
            [calls::<Complex<f64>>(), properties_of::<Complex<f64>>(), defaults::<Complex<f64>>()].concat(),
            [defaults::<f64>(), defaults::<Complex<f32>>(), defaults::<f16>()].concat(),
        ],
        Kind::Checked => vec![
            [
                kernels::<Complex<f32>>(),
                calls::<Complex<f32>>(),
                properties_of::<Complex<f32>>(),
                pieces::<Complex<f32>>(),
                resident::<Complex<f32>>(),
            ]
            .concat(),
            kernels::<f16>(),
        ],
    }
}

/// The trials without those that are about accuracy, in kernels that others run too.
fn without_accuracy(mut trials: Vec<Runs>) -> Vec<Runs> {
    for name in [
        "table_1",
        "batch_stacked_table_1",
        "batch_stacks",
        "svd::ends_of_the_range",
        "svd::bands",
        "svd::one_stage_ratios",
        "batch::ratios_of_hard_matrices",
        "batch::stacked_ratios",
        "batch::stacked_vectors_of_table_1",
        "structured_matrices",
        "scales",
        "hard_matrices",
    ] {
        let (before, full) = (trials.len(), format!("f32::{name}"));
        trials.retain(|runs| runs.name != full);
        assert_eq!(trials.len() + 1, before, "{full} is no trial");
    }
    trials
}

type Body = fn(&GpuContext) -> Outcome;

/// A trial, and whether a device has what it needs.
#[derive(Clone)]
struct Runs {
    name: String,
    body: Body,
    supported: fn(&GpuContext) -> bool,
}

/// Trials with their element type in their names, of matrices that are stored as such: f16 is [`HalfStorage::Half`].
fn stored<T: Elements>(bodies: Vec<(&str, Body)>) -> Vec<Runs> {
    let supported = |context: &GpuContext| context.supports::<T>(HalfStorage::Half);
    bodies.into_iter().map(|(name, body)| Runs { name: format!("{}::{name}", T::NAME), body, supported }).collect()
}

/// The trials of one storage type, all but those of `pieces` and `host`.
fn every<T: Elements>() -> Vec<Runs> {
    let vectors = on_the_device::<T>("svd", [svd::trials::<T>(), one_stage::vectors::<T>()].concat());
    let many = on_the_device::<T>("batch", [batch_vectors::trials::<T>(), stacked_vectors::trials::<T>()].concat());
    let qr = on_the_device::<T>("qr", qr_on_device::trials::<T>());
    let lstsq = on_the_device::<T>("lstsq", lstsq_on_device::trials::<T>());
    let factors = on_the_device::<T>("factors_resident", factors_resident::trials::<T>());
    let krylov = on_the_device::<T>("krylov", krylov::trials::<T>());
    let row_blocks = on_the_device::<T>("row_blocks", row_blocks::trials::<T>());
    [values::<T>(), properties_of::<T>(), resident::<T>(), vectors, many, qr, lstsq, factors, krylov, row_blocks].concat()
}

/// Singular values of matrices as they are stored.
fn values<T: Elements>() -> Vec<Runs> {
    let table_1 = stored::<T>(vec![
        ("table_1", accuracy::table_1::<T>),
        ("batch_stacked_table_1", batch::stacked_table_1::<T>),
        ("batch_stacks", batch::stacks::<T>),
    ]);
    [table_1, kernels::<T>(), calls::<T>(), defaults::<T>()].concat()
}

/// The trials of f16 whose shaders read it, and those that conversion to f32 and back could fail.
fn stored_as_f16() -> Vec<Runs> {
    let properties = stored::<f16>(properties::of_half_types::<f16>());
    let qr = on_the_device::<f16>("qr", qr_on_device::of_half_types::<f16>());
    [values::<f16>(), properties, resident::<f16>(), qr].concat()
}

/// Kernel by kernel, against their twins and formulas.
fn kernels<T: Elements>() -> Vec<Runs> {
    let mut bodies: Vec<(&str, Body)> = vec![
        ("upload_is_exact", dense::upload_is_exact::<T>),
        ("geqrt_is_a_qr_factorisation", dense::geqrt_is_a_qr_factorisation::<T>),
        ("unmqr_is_its_formula", dense::unmqr_is_its_formula::<T>),
        ("sweeps_follow_the_twin", dense::sweeps_follow_the_twin::<T>),
        ("panels_beside_updates_follow_the_twin", dense::panels_beside_updates_follow_the_twin::<T>),
        ("factors_give_the_matrix_back", reflectors::factors_give_the_matrix_back::<T>),
        ("bands_are_copied_exactly", band::bands_are_copied_exactly::<T>),
        ("chase_keeps_singular_values", band::chase_keeps_singular_values::<T>),
        ("chase_team_follows_the_twin", band::chase_team_follows_the_twin::<T>),
        ("bisection_on_the_device", stage3::bisection_on_the_device::<T>),
        ("bisection_of_some", leading::bisection_of_some::<T>),
        ("batch_table_1", batch::table_1::<T>),
        ("batch_mixed_shapes", batch::mixed_shapes::<T>),
    ];
    bodies.extend(one_stage::kernels::<T>());
    // Half precision has no deferred updates.
    if T::NAME != "f16" {
        bodies.push(("deferred_updates", deferred::values_are_the_cpus::<T>));
        bodies.push(("deferred_factors", reflectors::factors_of_deferred_updates::<T>));
        bodies.push(("deferred_vectors", deferred::vectors_are_within_bounds::<T>));
    }
    // In f16 a difference of one rounding between the twins grows by a factor in each of hundreds of cycles: what can be said is that
    // singular values are kept.
    if T::NAME != "f16" {
        bodies.push(("chase_follows_the_twin", band::chase_follows_the_twin::<T>));
    }
    stored::<T>(bodies)
}

/// Whole calls.
fn calls<T: Elements>() -> Vec<Runs> {
    let mut bodies: Vec<(&str, Body)> = vec![
        ("values_agree_with_the_cpu", whole::values_agree_with_the_cpu::<T>),
        ("strips_keep_the_bits", accuracy::strips_keep_the_bits::<T>),
        ("kept_reflectors_beside_updates", accuracy::kept_reflectors_beside_updates::<T>),
        ("hyperparameters_do_not_change_values", accuracy::hyperparameters_do_not_change_values::<T>),
        ("values_by_the_device", stage3::values_by_the_device::<T>),
        ("leading_of_single_calls", leading::of_single_calls::<T>),
        ("leading_of_batches", leading::of_batches::<T>),
        ("memory_orders_do_not_matter", accuracy::memory_orders_do_not_matter::<T>),
        ("batch_scales", batch::scales::<T>),
        ("batch_bad_matrices_and_strides", batch::bad_matrices_and_strides::<T>),
        ("batch_travels", batch::what_travels::<T>),
        ("batch_small_stacks", batch::small_stacks::<T>),
        ("counts_are_linear", accuracy::counts_are_linear::<T>),
    ];
    bodies.extend(one_stage::calls::<T>());
    stored::<T>(bodies)
}

/// Properties of whole calls.
fn properties_of<T: Elements>() -> Vec<Runs> {
    stored::<T>(properties::trials::<T>())
}

/// Default hyperparameters.
fn defaults<T: Elements>() -> Vec<Runs> {
    stored::<T>(vec![("defaults_fit", whole::defaults_fit::<T>)])
}

/// A dense matrix in several buffers: by what its entries' size does to where a buffer ends, 2, 4, 8 and 16 bytes.
fn pieces<T: Elements>() -> Vec<Runs> {
    stored::<T>(vec![("several_buffers", whole::several_buffers::<T>)])
}

/// The host's side of a call: errors, threads, futures, progress, clocks.
fn host<T: Elements>() -> Vec<Runs> {
    let trials = stored::<T>(vec![
        ("errors_leave_the_context_usable", whole::errors_leave_the_context_usable::<T>),
        ("eight_threads", whole::eight_threads::<T>),
        ("failures_stay_with_their_caller", properties::failures_stay_with_their_caller::<T>),
        ("futures_give_the_same_values", waits::futures_give_the_same_values::<T>),
        ("progress_and_cancellation", waits::progress_and_cancellation::<T>),
        ("kernels_are_timed", accuracy::kernels_are_timed::<T>),
        ("one_stage_progress", one_stage::progress::<T>),
        ("batch_futures", batch::futures::<T>),
        ("svd_cancellation", svd_faults::cancellation::<T>),
    ]);
    let options = vec![("of_runs", options::of_runs::<T> as Body), ("of_decompositions", options::of_decompositions)];
    let refusals = on_the_device::<T>("resident", vec![("refusals", resident::refusals::<T>)]);
    [trials, refusals, on_the_device::<T>("options", options)].concat()
}

/// What stays on the device.
fn resident<T: Elements>() -> Vec<Runs> {
    [on_the_device::<T>("triangular", triangular::trials::<T>()), on_the_device::<T>("resident", resident::trials::<T>())]
        .concat()
}

/// The results of half types are those of f32, whose pipelines they share.
fn are_their_f32() -> Vec<Runs> {
    let trial = |body: Body| vec![("are_their_f32", body)];
    [
        on_the_device::<f16>("half_types", trial(half_types::are_their_f32::<f16>)),
        on_the_device::<bf16>("half_types", trial(half_types::are_their_f32::<bf16>)),
    ]
    .concat()
}

/// The trials of a half type that devices never have: the host makes f32 of it and back, and the shaders are those of f32.
fn held_in_f32<T: Elements>() -> Vec<Runs> {
    let on_the_device = |module, bodies| on_the_device::<T>(module, bodies);
    [
        on_the_device("properties", properties::of_half_types::<T>()),
        on_the_device("triangular", vec![("random_problems", triangular::random_problems::<T>)]),
        on_the_device("resident", resident::of_half_types::<T>()),
    ]
    .concat()
}

/// Trials of a module that holds half types in f32, which every device can.
fn on_the_device<T: Elements>(module: &str, bodies: Vec<(&str, Body)>) -> Vec<Runs> {
    let supported = |context: &GpuContext| context.supports::<T>(HalfStorage::Single);
    bodies.into_iter().map(|(name, body)| Runs { name: format!("{}::{module}::{name}", T::NAME), body, supported }).collect()
}

/// Element types as matrices of them are stored: f16 stands for half precision stored as f16.
trait Elements: Element {
    fn view_values(a: MatRef<'_, Self>, options: &SvdOptions) -> svdvals_gpu::Result<Vec<f64>> {
        let values = a.svdvals_gpu_with(&options.clone().half_storage(HalfStorage::Half.for_element::<Self>()))?;
        Ok(values.iter().map(|s| s.to_double()).collect())
    }

    fn values(a: &Mat<Self>, options: &SvdOptions) -> svdvals_gpu::Result<Vec<f64>> {
        Self::view_values(a.as_ref(), options)
    }

    /// Entry (i, j) of a random matrix: each part in [-1, 1).
    fn noise(seed: u64, i: usize, j: usize) -> Self {
        Self::from_complex(common::complex_noise(seed, i, j))
    }

    /// The real number.
    fn real(x: f64) -> Self {
        Self::from_complex(x.into())
    }

    /// What `roundings` to the type that is stored may be off, in units of the largest entry: f16's unit roundoff each, where matrices are
    /// stored as f16; else nothing, because the stored type is that of the arithmetic.
    fn stored(roundings: usize) -> f64 {
        if Self::NAME == "f16" { roundings as f64 * 2f64.powi(-11) } else { 0.0 }
    }
}

impl<T: Element> Elements for T {}

/// Whether the device's workgroup memory holds the shaders' tiles of this size: those of 32 x 32 numbers of 16 bytes need more than the
/// 16 KiB that WebGPU promises, and are refused there by name.
fn tile_fits<T: Elements>(context: &GpuContext, tile_size: usize) -> bool {
    tile_size * size_of::<T::Scalar>() < 512 || context.limits().max_compute_workgroup_storage_size > 16 << 10
}

/// Hyperparameters that fit every device here, with the sizes that shaders branch on set small and odd.
fn tuning(tile_size: usize, leaf: usize) -> Tuning {
    Tuning::for_cpu::<f32>(64)
        .tile_size(tile_size)
        .leaf(leaf)
        .split_k(4)
        .cols_per_block(12)
        .tile_width(4)
        .threads_per_block(32)
        .max_blocks(100)
}
