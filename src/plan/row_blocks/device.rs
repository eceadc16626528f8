//! Blocks that are added on a GPU.
//!
//! | device | a block of at least 2 N rows |
//! | --- | --- |
//! | computes in f64 | its A^H A in double precision, as on the CPU; Householder QR in f64 where that is too ill-conditioned, and to join triangles |
//! | does not, single precision | Householder QR in f32; triangles are joined on the CPU, in f64 |

use faer::{Mat, MatRef};
use pollster::block_on;

use crate::{
    base::{
        error::Result,
        number::{Number, Re, RealElement, Scalar},
        stage::Stage,
        watch::Watch,
    },
    cpu::tall::leaves::Wide,
    gpu::{
        device::{context::GpuContext, stream::Manner},
        kernels::GpuKernels,
    },
    plan::{
        backend::{context_of, or_fall_back},
        options::{Backend, RunOptions},
        qr::qr_r,
        qr_factors::upper,
        row_blocks::{Mean, Part, State, block::Block},
    },
    tile::kernels::Transfers,
};

/// Columns from which on a device is used unless the options ask for one: by the model of an H100, copies take longer than two threads need for fewer.
const COLUMNS: usize = 256;

/// Rows of A^H A at a time, at most, and entries of the device's memory for them.
const ROWS: usize = 1 << 13;
const ENTRIES: usize = 1 << 25;
/// A multiple of the rows that are summed in sequence.
const MULTIPLE: usize = 512;

/// The run with its device opened; an error if that was asked for and cannot compute in `T`'s arithmetic.
pub(super) fn opened<T: Scalar>(run: &RunOptions, columns: usize) -> Result<RunOptions> {
    if run.backend != Backend::Gpu {
        return Ok(run.clone());
    }
    let context = context_of(run)?;
    context.require(T::KIND)?;
    let kind = if is_wide::<T>(&context) { Wide::<T>::KIND } else { T::KIND };
    run.tuning_for_adapter(kind, &context, columns)?;
    Ok(RunOptions { context: Some(context), ..run.clone() })
}

/// The device on which blocks of so many columns are added, if there is one for them.
pub(super) fn device_of<T: Scalar>(run: &RunOptions, columns: usize) -> Option<&GpuContext> {
    let context = run.context.as_ref()?;
    let takes = match run.backend {
        Backend::Cpu => false,
        Backend::Gpu => true,
        Backend::Auto => columns >= COLUMNS && !context.is_software() && context.require(T::KIND).is_ok(),
    };
    takes.then_some(context)
}

/// Whether the device computes in double precision.
pub(super) fn is_wide<T: Scalar>(context: &GpuContext) -> bool {
    context.require(Wide::<T>::KIND).is_ok()
}

impl<T: Scalar> State<T> {
    /// A^H A of a block, on the device if there is one that computes in double precision.
    pub(super) fn squares_of(&self, block: &Block<'_, T>, mean: Option<&Mean<Wide<T>>>) -> Result<Mat<Wide<T>>> {
        if let Some(context) = device_of::<T>(&self.run, self.columns()).filter(|context| is_wide::<T>(context))
            && let Ok(squares) = or_fall_back(&self.run, false, squares_there(context, &self.run, block, mean))?
        {
            return Ok(squares);
        }
        block.squares(mean)
    }

    /// R of rows in single precision, by a device without double precision; None if the CPU is to compute it in that.
    pub(super) fn single_triangle(&self, rows: &Part<Wide<T>>) -> Result<Option<Mat<Wide<T>>>> {
        match device_of::<T>(&self.run, self.columns()) {
            Some(context) if !is_wide::<T>(context) => {}
            _ => return Ok(None),
        }
        let single = Mat::from_fn(rows.rows.nrows(), rows.rows.ncols(), |i, j| T::from_wide(rows.rows[(i, j)]));
        let run = RunOptions { backend: Backend::Gpu, ..self.run.of_part() };
        let r = qr_r::<T>(single.as_ref(), &run.into(), false).map(|report| upper(report.values));
        let r = or_fall_back(&self.run, false, r)?.ok();
        Ok(r.map(|r| Mat::from_fn(r.nrows(), r.ncols(), |i, j| r[(i, j)].to_wide())))
    }
}

/// The upper triangle of the squares of a block less the mean, some rows at a time, in an order that its shape gives.
fn squares_there<T: Scalar>(
    context: &GpuContext,
    run: &RunOptions,
    block: &Block<'_, T>,
    mean: Option<&Mean<Wide<T>>>,
) -> Result<Mat<Wide<T>>> {
    let (m, columns) = (block.a.nrows(), block.a.ncols() + block.b.ncols());
    let watch = Watch::new(&run.listen(), || Ok([0; 4]))?;
    watch.begin(Stage::Qr)?;
    let tuning = run.tuning_for_adapter(Wide::<T>::KIND, context, columns)?;
    let kernels = GpuKernels::running(Wide::<T>::KIND, context, &tuning, Manner { watch, ..Manner::default() })?;
    let ld = columns.next_multiple_of(4);
    // Rows, and a matrix of products for each `MULTIPLE` of them.
    let at_once = ENTRIES / (columns + columns * ld / MULTIPLE) / MULTIPLE * MULTIPLE;
    let at_once = at_once.clamp(MULTIPLE, ROWS).min(m);
    let room = kernels.room_for_parts(at_once, columns * ld)?;
    let mut sum = Mat::<Wide<T>>::zeros(columns, columns);
    for first in (0..m).step_by(at_once) {
        let count = at_once.min(m - first);
        let some = Block { a: block.a.subrows(first, count), b: block.b.subrows(first, count) };
        let rows = kernels.upload(some.wide(0, mean).as_ref(), Re::<Wide<T>>::from_double(1.0))?;
        sum += block_on(kernels.squares::<Wide<T>>(&rows, &room))?;
    }
    Ok(sum)
}

/// How the triangles of rows in double precision are joined.
pub(super) fn joining<W: Scalar>(run: &RunOptions, rows: MatRef<'_, W>) -> Backend {
    match device_of::<W>(run, rows.ncols()) {
        Some(context) if context.require(W::KIND).is_ok() => run.backend,
        _ => Backend::Cpu,
    }
}
