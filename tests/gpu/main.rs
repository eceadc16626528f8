//! The GPU backend, shader by shader against its CPU twin, on every kind of device that this machine can make: the adapter's own
//! limits, WebGPU's default limits (parameters in a uniform buffer), and with the shaders' run-time checks on.
//!
//! Without an adapter the trials are listed as ignored; with `SVDVALS_GPU_REQUIRE=1` its absence is a failure.

#[path = "../common/mod.rs"]
mod common;

mod accuracy;
mod band;
mod dense;
mod whole;

use std::process::ExitCode;

use faer::{Mat, MatRef};
use libtest_mimic::{Arguments, Failed, Trial};
use svdvals_gpu::{AdapterChoice, DeviceLimits, GpuContext, RealElement, SvdError, SvdOptions, SvdValsGpu, Tuning};

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
        for (name, body) in per_element::<f32>().into_iter().chain(per_element::<f64>()) {
            let wide = name.starts_with("f64");
            let name = format!("{label}::{name}");
            let unsupported = context.as_ref().is_ok_and(|context| wide && !context.supports::<f64>());
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
        ("lost_device", whole::lost_device),
        ("global_context", whole::global_context),
        ("own_device", whole::own_device),
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

fn per_element<T: Elements>() -> Vec<(String, Body)> {
    let bodies: [(&str, Body); 15] = [
        ("upload_is_exact", dense::upload_is_exact::<T>),
        ("geqrt_is_a_qr_factorisation", dense::geqrt_is_a_qr_factorisation::<T>),
        ("unmqr_is_its_formula", dense::unmqr_is_its_formula::<T>),
        ("sweeps_follow_the_twin", dense::sweeps_follow_the_twin::<T>),
        ("bands_are_copied_exactly", band::bands_are_copied_exactly::<T>),
        ("chase_follows_the_twin", band::chase_follows_the_twin::<T>),
        ("chase_keeps_singular_values", band::chase_keeps_singular_values::<T>),
        ("values_agree_with_the_cpu", whole::values_agree_with_the_cpu::<T>),
        ("errors_leave_the_context_usable", whole::errors_leave_the_context_usable::<T>),
        ("eight_threads", whole::eight_threads::<T>),
        ("defaults_fit", whole::defaults_fit::<T>),
        ("table_1", accuracy::table_1::<T>),
        ("hyperparameters_do_not_change_values", accuracy::hyperparameters_do_not_change_values::<T>),
        ("memory_orders_do_not_matter", accuracy::memory_orders_do_not_matter::<T>),
        ("counts_are_linear", accuracy::counts_are_linear::<T>),
    ];
    bodies.into_iter().map(|(name, body)| (format!("{}::{name}", T::NAME), body)).collect()
}

/// Element types whose faer matrices have `svdvals_gpu`.
trait Elements: RealElement {
    fn view_values(a: MatRef<'_, Self>, options: &SvdOptions) -> svdvals_gpu::Result<Vec<f64>>;

    fn values(a: &Mat<Self>, options: &SvdOptions) -> svdvals_gpu::Result<Vec<f64>> {
        Self::view_values(a.as_ref(), options)
    }
}

impl Elements for f32 {
    fn view_values(a: MatRef<'_, f32>, options: &SvdOptions) -> svdvals_gpu::Result<Vec<f64>> {
        Ok(a.svdvals_gpu_with(options)?.iter().map(|&s| s.into()).collect())
    }
}

impl Elements for f64 {
    fn view_values(a: MatRef<'_, f64>, options: &SvdOptions) -> svdvals_gpu::Result<Vec<f64>> {
        Ok(a.svdvals_gpu_with(options)?.iter().copied().collect())
    }
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
