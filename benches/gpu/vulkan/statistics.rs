//! What the driver's compiler says of the crate's kernels: registers, spills, instructions, by the names that it has for them.

use std::{collections::BTreeMap, error::Error};

use ash::vk;
use faer::MatRef;
use svdvals_gpu::{
    Backend, Element, GpuContext, GpuMatrix, HalfStorage, Reduction, Stage3, SvdError, SvdGpu, SvdOptions, SvdValsGpu, Tuning,
    cost::Cost,
    svdvals_batch,
    triangular::{Diag, Op, Side, TriangularGpu, Uplo},
};

use super::{Outcome, Vulkan, elsewhere};
use crate::{Arguments, SEED, SEED_OF_RIGHT_HAND_SIDES, matrix, shared::with_type, sources};

/// The order of the matrices that make pipelines. Hyperparameters, and so the WGSL, are those of the order that is asked for.
const LARGEST: usize = 320;

/// A table for each type and size, of the pipelines that calls of every family make.
pub fn statistics(context: &GpuContext, sizes: &[usize], arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    if let Some(why) = elsewhere(context) {
        println!("{why}");
        return Ok(());
    }
    let vulkan = Vulkan::beside(context, arguments.compiler.as_deref())?;
    if vulkan.executables.is_none() {
        println!("does not apply: the driver has no VK_KHR_pipeline_executable_properties");
        return Ok(());
    }
    sources::keep()?;
    let mut failed = 0;
    for &n in sizes {
        for &name in &arguments.types {
            // Another driver is asked about the defaults for hardware.
            let of_model = arguments.compiler.is_some();
            with_type!(name, T => calls::<T>(context, n, of_model))?;
            failed += table(&vulkan, &sources::take());
        }
    }
    if failed > 0 { Err(format!("{failed} kernels were not compiled").into()) } else { Ok(()) }
}

/// Makes the pipelines of a type, as for matrices of order n, by calls with a smaller one. Their values do not matter: a call that fails says so, and the
/// others go on.
fn calls<T: Element>(context: &GpuContext, n: usize, of_model: bool) -> Outcome<()> {
    let mut tuning = if of_model { Cost::tuning::<T>(n) } else { Tuning::for_adapter::<T>(context, n) };
    // The calls' own device may have less workgroup memory than hardware.
    while tuning.gpu.tiles_held > 0 && tuning.check_for_adapter::<T::Scalar>(context).is_err() {
        tuning.gpu.tiles_held -= 1;
    }
    println!("\n{}, n = {n}: {tuning}\n", T::NAME);
    let n = n.min(LARGEST);
    let (Some(a), Some(b)) = (matrix::<T>(n, n, SEED), matrix::<T>(n, 1, SEED_OF_RIGHT_HAND_SIDES)) else {
        return Err("the host holds no such matrix".into());
    };
    let (a, b) = (MatRef::from_column_major_slice(&a, n, n), MatRef::from_column_major_slice(&b, n, 1));
    let options = SvdOptions::default().backend(Backend::Gpu).context(context.clone()).tuning(tuning);
    let values = options.clone().half_storage(HalfStorage::Half.for_element::<T>()).stage3(Stage3::Device);
    let small = a.submatrix(0, 0, n.min(32), n.min(32));
    let one = T::from_complex(1.0.into());
    let (side, uplo, op, diag) = (Side::Left, Uplo::Lower, Op::NoTrans, Diag::Unit);
    type Call<'a> = (&'static str, Box<dyn Fn() -> Result<(), SvdError> + 'a>);
    let all: [Call<'_>; 6] = [
        ("values", Box::new(|| a.svdvals_gpu_with(&values).map(drop))),
        ("vectors", Box::new(|| a.svd_gpu_with(&options).map(drop))),
        ("one stage", Box::new(|| small.svd_gpu_with(&options.clone().reduction(Reduction::OneStage)).map(drop))),
        ("batch", Box::new(|| svdvals_batch(&[small; 8], &values).map(drop))),
        (
            "QR and least squares",
            Box::new(|| {
                let (a, b) = (GpuMatrix::upload(context, &a)?, GpuMatrix::upload(context, &b)?);
                a.qr(&options.run.clone().into())?.thin_q()?;
                a.lstsq(&b, &options.run.clone().into()).map(drop)
            }),
        ),
        (
            "triangles",
            Box::new(|| {
                let (t, mut x) = (GpuMatrix::upload(context, &a)?, GpuMatrix::upload(context, &b)?);
                x.trsm_gpu_with(side, uplo, op, diag, one, &t, &options.run)?;
                x.trmm_gpu_with(side, uplo, op, diag, one, &t, &options.run)
            }),
        ),
    ];
    for (what, call) in all {
        if let Err(error) = call() {
            println!("{what}: {error}");
        }
    }
    Ok(())
}

/// A row for each kernel, a column for each figure that is not zero in all of them. Returns how many kernels the driver did not compile.
fn table(vulkan: &Vulkan, sources: &[(String, String)]) -> usize {
    let (mut rows, mut columns, mut failed) = (Vec::new(), Vec::new(), 0);
    for (title, wgsl) in sources {
        match figures(vulkan, wgsl) {
            Ok(found) => {
                for (name, figures) in found {
                    columns.extend(
                        figures
                            .iter()
                            .map(|(column, _)| column.clone())
                            .filter(|column| !columns.contains(column))
                            .collect::<Vec<_>>(),
                    );
                    rows.push((format!("{title}{name}"), figures.into_iter().collect::<BTreeMap<_, _>>()));
                }
            }
            Err(error) => {
                failed += 1;
                println!("{title}: {error}");
            }
        }
    }
    let (zero, columns): (Vec<String>, Vec<String>) = columns
        .into_iter()
        .partition(|column| rows.iter().all(|(_, figures)| figures.get(column).is_none_or(|figure| figure == "0")));
    println!("| kernel | {} |\n| --- |{}", columns.join(" | "), " --- |".repeat(columns.len()));
    for (title, figures) in &rows {
        let of = |column| figures.get(column).map_or("", |figure: &String| figure.as_str());
        println!("| {title} | {} |", columns.iter().map(of).collect::<Vec<_>>().join(" | "));
    }
    if !zero.is_empty() {
        println!("\n0 in all: {}", zero.join(", "));
    }
    failed
}

/// The driver's figures for each executable of a kernel. The first has no name here: most kernels are one.
type Figures = Vec<(String, Vec<(String, String)>)>;

fn figures(vulkan: &Vulkan, wgsl: &str) -> Outcome<Figures> {
    let executables = vulkan.executables.as_ref().ok_or("no such extension")?;
    let kernel = vulkan.kernel(wgsl, vk::PipelineCreateFlags::CAPTURE_STATISTICS_KHR)?;
    let info = vk::PipelineInfoKHR::default().pipeline(kernel.pipeline);
    // SAFETY: the pipeline is alive, and was made to be asked this.
    let parts = unsafe { executables.get_pipeline_executable_properties(&info) }?;
    let mut found = Vec::new();
    for (k, part) in parts.iter().enumerate() {
        let name = part.name_as_c_str().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let which = vk::PipelineExecutableInfoKHR::default().pipeline(kernel.pipeline).executable_index(k as u32);
        // SAFETY: as above, and the executable is one of those that it has.
        let all = unsafe { executables.get_pipeline_executable_statistics(&which) }?;
        let mut figures = vec![("Subgroup".into(), part.subgroup_size.to_string())];
        // A hash says nothing of a kernel.
        figures.extend(all.iter().map(figure).filter(|(name, _)| !name.to_lowercase().contains("hash")));
        found.push((if k == 0 { String::new() } else { format!(", {name}") }, figures));
    }
    Ok(found)
}

/// The name of a figure, and its value.
fn figure(of: &vk::PipelineExecutableStatisticKHR<'_>) -> (String, String) {
    let name = of.name_as_c_str().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    // SAFETY: the format says which field there is.
    let value = unsafe {
        match of.format {
            vk::PipelineExecutableStatisticFormatKHR::BOOL32 => of.value.b32.to_string(),
            vk::PipelineExecutableStatisticFormatKHR::INT64 => of.value.i64.to_string(),
            vk::PipelineExecutableStatisticFormatKHR::FLOAT64 => of.value.f64.to_string(),
            _ => of.value.u64.to_string(),
        }
    };
    (name, value)
}
