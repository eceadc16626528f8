//! The GPU backend, shader by shader against its CPU twin, on every kind of device that this machine can make: the adapter's own
//! limits, WebGPU's default limits (parameters in a uniform buffer), and with the shaders' run-time checks on.
//!
//! Without an adapter the trials are listed as ignored; with `SVDVALS_GPU_REQUIRE=1` its absence is a failure.

#[path = "../common/mod.rs"]
mod common;

mod accuracy;
mod band;
mod dense;
mod memory;
mod properties;
mod resident;
mod stage3;
mod startup;
mod triangular;
mod waits;
mod whole;

use std::process::ExitCode;

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
    let choices = [
        ("own", AdapterChoice::default().checked(false)),
        ("webgpu", AdapterChoice::default().checked(false).limits(DeviceLimits::WebGpuDefault)),
        ("checked", AdapterChoice::default().checked(true)),
    ];
    let mut trials = Vec::new();
    let mut left_out = Vec::new();
    for (label, choice) in choices {
        let context = GpuContext::new(&choice);
        match &context {
            Ok(context) => {
                println!("{label}: {} through {}, checks {}", context.adapter_name(), context.backend(), context.is_checked())
            }
            Err(error) => println!("{label}: {error}"),
        }
        let context_of = context.as_ref().ok();
        let elements = [
            per_element::<f32>(context_of),
            per_element::<f64>(context_of),
            per_element::<Complex<f32>>(context_of),
            per_element::<Complex<f64>>(context_of),
            per_element::<f16>(context_of),
            named::<bf16>(properties::trials::<bf16>(), context_of),
            resident_trials(context_of),
        ];
        for (name, body, unsupported) in elements.into_iter().flatten() {
            let name = format!("{label}::{name}");
            let ignored = unsupported || (context.is_err() && !required);
            if ignored {
                left_out.push(name.clone());
            }
            let context = context.clone();
            trials.push(Trial::test(name, move || body(&context?)).with_ignored_flag(ignored));
        }
    }
    let absent = matches!(GpuContext::global(), Err(SvdError::NoAdapter { .. })) && !required;
    for (name, body) in [
        ("counts_at_1024", accuracy::counts_at_1024 as fn() -> Outcome),
        ("sums_by_subgroup", dense::sums_by_subgroup),
        ("past_one_binding", whole::past_one_binding),
        ("large_updates_in_pieces", whole::large_updates_in_pieces),
        ("lost_device", whole::lost_device),
        ("memory_is_freed", memory::memory_is_freed),
        ("required_bytes", memory::required_bytes),
        ("global_context", whole::global_context),
        ("own_device", whole::own_device),
        ("small_calls_pass_large_ones", whole::small_calls_pass_large_ones),
        ("pipelines_in_files", startup::pipelines_in_files),
        ("device_without_optional_types", whole::device_without_optional_types),
    ] {
        if absent {
            left_out.push(name.to_owned());
        }
        trials.push(Trial::test(name, body).with_ignored_flag(absent));
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    if !left_out.is_empty() {
        println!("No device for these GPU tests, which did not run (SVDVALS_GPU_REQUIRE=1 makes that a failure):");
        left_out.iter().for_each(|name| println!("  {name}"));
    }
    conclusion.exit_code()
}

type Body = fn(&GpuContext) -> Outcome;

/// The trials of one storage type, and whether the device lacks that type. f16 is [`HalfStorage::Half`].
fn per_element<T: Elements>(context: Option<&GpuContext>) -> Vec<(String, Body, bool)> {
    let mut bodies: Vec<(&str, Body)> = vec![
        ("upload_is_exact", dense::upload_is_exact::<T>),
        ("geqrt_is_a_qr_factorisation", dense::geqrt_is_a_qr_factorisation::<T>),
        ("unmqr_is_its_formula", dense::unmqr_is_its_formula::<T>),
        ("sweeps_follow_the_twin", dense::sweeps_follow_the_twin::<T>),
        ("bands_are_copied_exactly", band::bands_are_copied_exactly::<T>),
        ("chase_keeps_singular_values", band::chase_keeps_singular_values::<T>),
        ("values_agree_with_the_cpu", whole::values_agree_with_the_cpu::<T>),
        ("errors_leave_the_context_usable", whole::errors_leave_the_context_usable::<T>),
        ("eight_threads", whole::eight_threads::<T>),
        ("bisection_on_the_device", stage3::bisection_on_the_device::<T>),
        ("values_by_the_device", stage3::values_by_the_device::<T>),
        ("futures_give_the_same_values", waits::futures_give_the_same_values::<T>),
        ("progress_and_cancellation", waits::progress_and_cancellation::<T>),
        ("several_buffers", whole::several_buffers::<T>),
        ("defaults_fit", whole::defaults_fit::<T>),
        ("table_1", accuracy::table_1::<T>),
        ("hyperparameters_do_not_change_values", accuracy::hyperparameters_do_not_change_values::<T>),
        ("memory_orders_do_not_matter", accuracy::memory_orders_do_not_matter::<T>),
        ("counts_are_linear", accuracy::counts_are_linear::<T>),
        ("kernels_are_timed", accuracy::kernels_are_timed::<T>),
    ];
    // In f16 a difference of one rounding between the twins grows by a factor in each of hundreds of cycles: what can be said is that
    // singular values are kept.
    if T::NAME != "f16" {
        bodies.push(("chase_follows_the_twin", band::chase_follows_the_twin::<T>));
    }
    bodies.extend(properties::trials::<T>());
    named::<T>(bodies, context)
}

/// The trials of what stays on the device, which holds half types in f32 on any device.
fn resident_trials(context: Option<&GpuContext>) -> Vec<(String, Body, bool)> {
    fn of<T: Elements>(context: Option<&GpuContext>) -> Vec<(String, Body, bool)> {
        let unsupported = context.is_some_and(|context| !context.supports::<T>(HalfStorage::Single));
        let of_module = |module, trials: Vec<(&str, Body)>| {
            let name = move |name| format!("{}::{module}::{name}", T::NAME);
            trials.into_iter().map(move |(trial, body)| (name(trial), body, unsupported)).collect::<Vec<_>>()
        };
        [of_module("triangular", triangular::trials::<T>()), of_module("resident", resident::trials::<T>())].concat()
    }
    let real = [of::<f16>(context), of::<bf16>(context), of::<f32>(context), of::<f64>(context)];
    let complex = [of::<Complex<f32>>(context), of::<Complex<f64>>(context)];
    real.into_iter().chain(complex).flatten().collect()
}

/// Trials with their element type in their names, and whether the device lacks that type.
fn named<T: Elements>(bodies: Vec<(&str, Body)>, context: Option<&GpuContext>) -> Vec<(String, Body, bool)> {
    let unsupported = context.is_some_and(|context| !context.supports::<T>(HalfStorage::Half));
    bodies.into_iter().map(|(name, body)| (format!("{}::{name}", T::NAME), body, unsupported)).collect()
}

/// Element types as matrices of them are stored: f16 stands for half precision stored as f16.
trait Elements: Element {
    fn view_values(a: MatRef<'_, Self>, options: &SvdOptions) -> svdvals_gpu::Result<Vec<f64>> {
        let values = a.svdvals_gpu_with(&options.clone().half_storage(HalfStorage::Half))?;
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
