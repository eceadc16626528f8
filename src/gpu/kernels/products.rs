//! `gemm_batch`: independent products of windows of three matrices, in as few dispatches as the flops allow.

use num_complex::Complex;

use crate::{
    base::{
        element_kind::ElementKind,
        error::{Result, SvdError},
    },
    cost::vectors::{Batch, Extent, Most, batches},
    gpu::{
        device::{
            buffers::{Buffer, storage},
            parameters::{self, CONJUGATED, REPLACED, UPPER_C, UPPER_X},
            pipeline::{GEMM_BATCH, GEMM_BATCH_BF16, GEMM_BATCH_MIXED},
            stream::Stream,
        },
        kernels::{GpuKernels, SOFTWARE_ITERATIONS},
        matrix::Window,
        storage::Ready,
    },
};

/// What becomes of C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    /// C <- M X
    Replaced,
    /// C <- C - M X
    Subtracted,
}

/// A product of windows of the three matrices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    pub extent: Extent,
    pub m: Window,
    pub x: Window,
    pub c: Window,
    /// Whether M has the conjugates of its window's entries.
    pub conjugated: bool,
    pub to: To,
}

/// What the left matrix of a product is stored as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    As(ElementKind),
    /// Two entries in a number, for arithmetic in f32.
    Bf16,
}

impl Stored {
    pub fn name(self) -> &'static str {
        match self {
            Stored::As(kind) => kind.name(),
            Stored::Bf16 => "bf16",
        }
    }

    fn bytes(self) -> usize {
        match self {
            Stored::As(kind) => kind.bytes(),
            Stored::Bf16 => 2,
        }
    }
}

/// The products of some groups, ready to be dispatched group by group.
pub(crate) struct Products {
    kernel: Ready,
    groups: Vec<Vec<Batch>>,
}

/// The last index of a window, in entries.
fn last(window: Window, rows: usize, cols: usize) -> usize {
    window.offset + rows.saturating_sub(1) * window.rs + cols.saturating_sub(1) * window.cs
}

impl Products {
    /// The `groups` of products on windows of the buffers `of`: M's, X's and C's, with entries of kind `of_entries`. A group's products are
    /// independent.
    pub fn new(kernels: &GpuKernels, of_entries: ElementKind, of: [&Buffer; 3], groups: &[Vec<Task>]) -> Result<Products> {
        Products::mixed(kernels, Stored::As(of_entries), of_entries, of, groups)
    }

    /// The same, where the entries of M may be stored otherwise, with this arithmetic.
    pub fn mixed(
        kernels: &GpuKernels,
        of_m: Stored,
        of_entries: ElementKind,
        of: [&Buffer; 3],
        groups: &[Vec<Task>],
    ) -> Result<Products> {
        let (context, stream, shape) = (&kernels.context, &kernels.stream, &kernels.shape.products);
        let fits =
            |buffer: &Buffer, bytes: usize, window, rows, cols| (last(window, rows, cols) as u64) < buffer.size() / bytes as u64;
        for Task { extent: Extent { rows, cols, inner, .. }, m, x, c, .. } in groups.iter().flatten() {
            let fit = fits(of[0], of_m.bytes(), *m, *rows, *inner)
                && fits(of[1], of_entries.bytes(), *x, *inner, *cols)
                && fits(of[2], of_entries.bytes(), *c, *rows, *cols);
            if rows * cols * inner > 0 && !fit {
                return Err(SvdError::invalid(
                    "matrix",
                    format!("a product of {rows} x {inner} and {inner} x {cols} is outside"),
                ));
            }
        }
        let longest = if context.is_software() { SOFTWARE_ITERATIONS / shape.iterations() * shape.depth } else { usize::MAX };
        let most = Most { flops: stream.most_flops(), inner: longest.max(shape.depth), groups: stream.most_workgroups() };

        let (mut records, mut all) = (Vec::new(), Vec::new());
        for tasks in groups {
            let extents: Vec<Extent> = tasks.iter().map(|task| task.extent).collect();
            let (pieces, mut batches) = batches(of_entries, shape, &extents, most);
            for batch in &mut batches {
                batch.pieces = batch.pieces.start + records.len()..batch.pieces.end + records.len();
                if batch.grid.iter().any(|&size| size > stream.most_workgroups()) {
                    return Err(SvdError::invalid("matrix", format!("{:?} workgroups are more than a grid has", batch.grid)));
                }
            }
            records.extend(pieces.into_iter().map(|piece| {
                let Task { extent, m, x, c, conjugated, to } = &tasks[piece.product];
                let (first, k) = (piece.cols.start, piece.inner.start);
                let flag = |holds: bool, flag: u32| if holds { flag } else { 0 };
                let flags = flag(*conjugated, CONJUGATED)
                    | flag(*to == To::Replaced && k == 0, REPLACED)
                    | flag(extent.upper_c, UPPER_C)
                    // A piece of the inner dimension has no triangle of its own.
                    | flag(extent.upper_x && k == 0 && piece.inner.end == extent.inner.min(piece.cols.end), UPPER_X)
                    | u32::from(*to == To::Subtracted) << 8;
                parameters::Product {
                    rows: piece.rows as u32,
                    cols: piece.cols.len() as u32,
                    inner: piece.inner.len() as u32,
                    a: m.at(0, k),
                    a_rs: m.rs as u32,
                    a_cs: m.cs as u32,
                    x: x.at(k, first),
                    x_rs: x.rs as u32,
                    x_cs: x.cs as u32,
                    c: c.at(0, first),
                    c_rs: c.rs as u32,
                    c_cs: c.cs as u32,
                    first: first as u32,
                    flags,
                }
            }));
            all.push(batches);
        }
        let table = table(stream, "products", &records)?;
        let factors = numbers_of(stream, "factors", of_entries, &[1.0, -1.0].map(Complex::from))?;
        let (kind, shader) = match of_m {
            Stored::As(kind) => (kind, if kind == of_entries { &GEMM_BATCH } else { &GEMM_BATCH_MIXED }),
            Stored::Bf16 => (of_entries, &GEMM_BATCH_BF16),
        };
        let pipeline = context.pipeline(kind, shader, &shape.constants(), 0)?;
        let bindings = stream.bind(&pipeline, &[of[0], of[1], &factors, &table, of[2]], &[])?;
        Ok(Products { kernel: (pipeline, bindings), groups: all })
    }

    /// Dispatches the products of a group.
    pub fn run(&self, stream: &Stream, group: usize) -> Result<()> {
        for Batch { pieces, grid, work } in &self.groups[group] {
            let parameters = parameters::GemmBatch { first: pieces.start as u32 };
            let grid = [grid[0] as u32, grid[1] as u32, pieces.len() as u32];
            stream.dispatch(&self.kernel.0, &self.kernel.1, parameters, grid, *work)?;
        }
        Ok(())
    }
}

/// A buffer with these records.
fn table<T: bytemuck::Pod>(stream: &Stream, what: &'static str, records: &[T]) -> Result<Buffer> {
    let words: &[u32] = bytemuck::cast_slice(records);
    table_of(stream, what, words)
}

/// A buffer with these numbers, rounded to the kind's arithmetic type.
pub(super) fn numbers_of(stream: &Stream, what: &'static str, kind: ElementKind, numbers: &[Complex<f64>]) -> Result<Buffer> {
    let table = storage(stream.context(), what, (numbers.len() * kind.scalar_bytes()) as u64)?;
    stream.upload_numbers(&table, kind, numbers)?;
    Ok(table)
}

/// A buffer with these real numbers, rounded to the kind's real type.
pub(super) fn reals_of(stream: &Stream, what: &'static str, kind: ElementKind, numbers: &[f64]) -> Result<Buffer> {
    match kind.is_double() {
        true => table_of(stream, what, numbers),
        false => table_of(stream, what, &numbers.iter().map(|&x| x as f32).collect::<Vec<_>>()),
    }
}

/// A buffer with these numbers.
pub(super) fn table_of<T: bytemuck::Pod + Send + Sync>(stream: &Stream, what: &'static str, numbers: &[T]) -> Result<Buffer> {
    let table = storage(stream.context(), what, size_of_val(numbers) as u64)?;
    stream.upload(&table, numbers.len(), |start, piece: &mut [T]| {
        piece.copy_from_slice(&numbers[start..start + piece.len()]);
    })?;
    Ok(table)
}
